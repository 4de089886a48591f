//! What the gateway is told by its configuration file: see `zgateway.toml`, which explains it all.
//!
//! Serde refuses what is wrong with one value, as each field says below. What is wrong between values
//! is found afterwards, and reported all at once.

mod problems;
#[cfg(test)]
mod tests;
mod values;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use ipnet::IpNet;
use serde::Deserialize;

const MIB: i64 = 1024 * 1024;
const GIB: i64 = 1024 * MIB;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(deserialize_with = "values::address")]
    pub listen: SocketAddr,
    #[serde(default = "default::io_threads", deserialize_with = "values::number::<1, 64, _, _>")]
    pub io_threads: usize,
    /// How long it goes on at the end for what it has taken.
    #[serde(default = "default::grace", deserialize_with = "values::time")]
    pub grace: Duration,
    /// Empty: everybody.
    #[serde(default, deserialize_with = "values::networks")]
    pub allow: Vec<IpNet>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default, rename = "group", deserialize_with = "values::list")]
    pub groups: Vec<Group>,
    #[serde(default, rename = "reply", deserialize_with = "values::list")]
    pub replies: Vec<Reply>,
    #[serde(default, deserialize_with = "values::address_or_off")]
    pub metrics: Option<SocketAddr>,
    #[serde(default)]
    pub log: Log,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table, [limits]")]
pub struct Limits {
    #[serde(deserialize_with = "values::number::<1, 1_000_000, _, _>")]
    pub connections: usize,
    /// Bytes of one message's body.
    #[serde(deserialize_with = "values::number::<1, {256 * MIB}, _, _>")]
    pub body: usize,
    /// Bytes that wait to be written to one client.
    #[serde(deserialize_with = "values::number::<1, GIB, _, _>")]
    pub outgoing: usize,
    #[serde(deserialize_with = "values::time_or_off")]
    pub idle: Option<Duration>,
    /// How long a message may take from its first byte to its last.
    #[serde(deserialize_with = "values::time")]
    pub message_time: Duration,
    /// Of one client, per second.
    #[serde(deserialize_with = "values::rate")]
    pub messages_per_second: Option<u32>,
    #[serde(deserialize_with = "values::rate")]
    pub bytes_per_second: Option<u32>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            body: 65_536,
            outgoing: 1_048_576,
            idle: Some(Duration::from_secs(300)),
            message_time: Duration::from_secs(10),
            messages_per_second: None,
            bytes_per_second: None,
        }
    }
}

/// Back-end processes of one type.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[group]]")]
pub struct Group {
    #[serde(deserialize_with = "values::name")]
    pub name: String,
    #[serde(rename = "type", deserialize_with = "values::number::<0, 255, _, _>")]
    pub kind: u8,
    /// Where its processes connect a PULL socket.
    #[serde(deserialize_with = "values::endpoint")]
    pub bind: String,
    /// Messages and bytes that wait for it.
    #[serde(
        default = "default::queue",
        deserialize_with = "values::number::<1, 100_000_000, _, _>"
    )]
    pub queue: usize,
    #[serde(
        default = "default::queue_bytes",
        deserialize_with = "values::number::<1, {1024 * GIB}, _, _>"
    )]
    pub queue_bytes: usize,
    /// libzmq's high-water mark towards each process.
    #[serde(default = "default::hwm", deserialize_with = "values::number::<1, 10_000_000, _, _>")]
    pub hwm: u32,
}

/// Where back-end processes connect a PUSH socket, for replies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[reply]]")]
pub struct Reply {
    #[serde(rename = "type", deserialize_with = "values::number::<0, 255, _, _>")]
    pub kind: u8,
    #[serde(deserialize_with = "values::endpoint")]
    pub bind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table, [log]")]
pub struct Log {
    pub level: Level,
    pub format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// The defaults of what stands in a table without a default of its own.
mod default {
    use std::time::Duration;

    pub(super) fn io_threads() -> usize {
        2
    }

    pub(super) fn grace() -> Duration {
        Duration::from_secs(10)
    }

    pub(super) fn queue() -> usize {
        10_000
    }

    pub(super) fn queue_bytes() -> usize {
        16 * 1024 * 1024
    }

    pub(super) fn hwm() -> u32 {
        1_000
    }
}

impl Config {
    pub fn load(path: &Path) -> Result<Config> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        Config::parse(&text).with_context(|| path.display().to_string())
    }

    pub fn parse(text: &str) -> Result<Config> {
        let config: Config = toml::from_str(text).map_err(|error| {
            // What the whole file lacks is said of no place in it.
            let span = error.span().filter(|span| *span != (0..0));
            anyhow!(problems::at(text, span, error.message()))
        })?;
        match &config.problems()[..] {
            [] => Ok(config),
            problems => Err(anyhow!(problems::report(text, problems))),
        }
    }

    /// Whether a client may come from there.
    pub fn allows(&self, from: IpAddr) -> bool {
        // A listener on IPv6 sees clients on IPv4 as ::ffff:a.b.c.d.
        let from = from.to_canonical();
        self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&from))
    }
}
