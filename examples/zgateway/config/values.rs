//! How the values of the configuration are written, and what is said of those that are not.

use std::fmt;
use std::iter;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use humantime_serde::re::humantime;
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Unexpected, Visitor};

/// A value as it is written.
#[derive(Clone, Copy)]
enum Written<'a> {
    Number(i64),
    Text(&'a str),
}

/// Reads a value, or says what it should have been.
struct Expect<'a, T> {
    what: &'a str,
    read: &'a dyn Fn(Written<'_>) -> Option<T>,
}

impl<'de, T> Visitor<'de> for Expect<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        (self.read)(Written::Number(number))
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self.what))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(Written::Text(text))
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self.what))
    }
}

fn expect<'de, T, D: Deserializer<'de>>(
    from: D,
    what: &str,
    read: impl Fn(Written<'_>) -> Option<T>,
) -> Result<T, D::Error> {
    from.deserialize_any(Expect { what, read: &read })
}

/// The same, or "off".
fn expect_or_off<'de, T, D: Deserializer<'de>>(
    from: D,
    what: &str,
    read: impl Fn(Written<'_>) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    expect(from, &format!("{what}, or \"off\""), |written| match written {
        Written::Text("off") => Some(None),
        _ => read(written).map(Some),
    })
}

pub(super) fn number<'de, const MIN: i64, const MAX: i64, T: TryFrom<i64>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    expect(from, &format!("a whole number from {MIN} to {MAX}"), |written| match written {
        Written::Number(number) if (MIN..=MAX).contains(&number) => T::try_from(number).ok(),
        _ => None,
    })
}

pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let what = format!("a whole number from 1 to {}", u32::MAX);
    expect_or_off(from, &what, |written| match written {
        Written::Number(number) => u32::try_from(number).ok().filter(|number| *number > 0),
        Written::Text(_) => None,
    })
}

const TIME: &str = "a time from \"1ms\" to \"365d\", such as \"10s\" or \"5m\"";

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    expect(from, TIME, read_time)
}

pub(super) fn time_or_off<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    expect_or_off(from, TIME, read_time)
}

fn read_time(written: Written<'_>) -> Option<Duration> {
    let Written::Text(text) = written else { return None };
    let allowed = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 60 * 60);
    humantime::parse_duration(text).ok().filter(|time| allowed.contains(time))
}

const ADDRESS: &str = "an IP address and a port, such as \"127.0.0.1:8888\" or \"[::]:8888\"";

pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    expect(from, ADDRESS, read_parsed)
}

pub(super) fn address_or_off<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    expect_or_off(from, ADDRESS, read_parsed)
}

fn read_parsed<T: FromStr>(written: Written<'_>) -> Option<T> {
    match written {
        Written::Text(text) => text.parse().ok(),
        Written::Number(_) => None,
    }
}

pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    #[derive(Deserialize)]
    struct Network(#[serde(deserialize_with = "network")] IpNet);

    fn network<'de, D: Deserializer<'de>>(from: D) -> Result<IpNet, D::Error> {
        expect(from, "a network, such as \"10.0.0.0/8\" or \"192.168.1.7/32\"", read_parsed)
    }

    Ok(list(from)?.into_iter().map(|Network(net)| net).collect())
}

/// Serde's own says "a sequence", which tells nobody how to write one.
pub(super) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list: values in [ ], or tables that start with [[ ]] each")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            iter::from_fn(|| seq.next_element().transpose()).collect()
        }
    }

    from.deserialize_any(List(PhantomData))
}

/// For people, and for the labels of metrics.
pub(super) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    expect(from, "a name of letters, digits, '-', '_' and '.'", |written| match written {
        Written::Text(text) if !text.is_empty() && text.chars().all(fits) => Some(text.into()),
        _ => None,
    })
}

/// One that other processes can reach. Whether it can be bound is seen when it is.
pub(super) fn endpoint<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    /// What the system allows the path of a socket.
    const PATH: usize = 107;

    let fits = |endpoint: &str| match endpoint.split_once("://") {
        Some(("tcp", address)) => address.rsplit_once(':').is_some_and(|(host, port)| {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            !host.is_empty() && (port == "*" || digits && port.parse::<u16>().is_ok())
        }),
        Some(("ipc", path)) => (1..=PATH).contains(&path.len()),
        _ => false,
    };
    let fits = |text: &str| fits(text) && !text.contains(|c: char| c.is_control() || c == ' ');
    let what = format!(
        "an endpoint to bind, tcp://host:port with a port up to 65535 or *, or ipc://path with a \
         path up to {PATH} bytes"
    );
    expect(from, &what, |written| match written {
        Written::Text(text) if fits(text) => Some(text.into()),
        _ => None,
    })
}
