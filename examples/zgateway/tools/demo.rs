//! Everything in one process: a gateway with the sample's groups, a back-end process for each, and
//! clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use zkit::interrupt;

use super::{duration, echo, load, status};
use crate::config::Config;
use crate::gateway::{self, Addresses};

/// The configuration to start from, the demo's own but for the ports.
const SAMPLE: &str = include_str!("../zgateway.toml");

/// Runs a gateway, a back-end process for each of its groups, and clients, all in this process.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// How many clients there are.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// How long they send.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub duration: Duration,
}

pub fn run(args: &Args) -> Result<()> {
    let config = config()?;
    let kinds: Vec<u8> = config.groups.iter().map(|group| group.kind).collect();
    let (sender, ready) = mpsc::channel();
    let gateway = thread::spawn(move || {
        gateway::serve(config, |addresses: &Addresses| _ = sender.send(addresses.clone()))
    });
    // Its sender is dropped when it fails.
    let loaded = match ready.recv() {
        Ok(addresses) => put_load_on(args, &addresses, &kinds),
        Err(_) => Ok(()),
    };
    interrupt::raise()?;
    gateway.join().map_err(|_| anyhow!("the gateway panicked"))??;
    loaded
}

/// The sample, at ports that are free.
fn config() -> Result<Config> {
    let mut config = Config::parse(SAMPLE)?;
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.listen = anywhere;
    config.metrics = Some(anywhere);
    let groups = config.groups.iter_mut().map(|group| &mut group.bind);
    for bind in groups.chain(config.replies.iter_mut().map(|reply| &mut reply.bind)) {
        *bind = "tcp://127.0.0.1:*".into();
    }
    Ok(config)
}

fn put_load_on(args: &Args, addresses: &Addresses, kinds: &[u8]) -> Result<()> {
    let metrics = addresses.metrics.context("the sample has metrics")?;
    println!("Clients connect to {}, metrics are at http://{metrics}/metrics", addresses.clients);
    for ((_, pull), (_, push)) in addresses.groups.iter().zip(&addresses.replies) {
        let args = echo::Args { pull: pull.clone(), push: push.clone(), delay: None };
        thread::spawn(move || echo::run(&args));
    }
    let report = load::measure(&load::Args {
        connect: vec![addresses.clients],
        connections: args.connections,
        busy: None,
        kind: kinds[0],
        reply_type: None,
        body: 64,
        duration: args.duration,
        in_flight: None,
        rate: None,
        wait: Duration::from_secs(5),
        threads: 1,
        json: false,
    })?;
    println!("\n{report}\n\n{}", status::fetch(metrics)?);
    Ok(())
}
