//! A gateway between TCP clients and groups of ZeroMQ back-end processes.
//!
//!     cargo run --release --example zgateway -- demo
//!
//! One program with subcommands: `serve` is the gateway, `status` asks it how it does, `echo` is a
//! back-end process, `load` are clients that check what they get, and `bare` is a server to compare
//! with. README.md shows them together.

// A program has no outside to export to: `pub` says what a module offers the others.
#![allow(unreachable_pub)]

mod config;
mod gateway;
mod http;
mod logging;
mod metrics;
mod protocol;
mod stream;
mod tools;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use config::{Config, Format, Level, Log};
use tools::{bare, demo, echo, load, status};

/// A gateway between TCP clients and groups of ZeroMQ back-end processes.
#[derive(Parser)]
#[command(name = "zgateway")]
enum Command {
    Serve(Serve),
    Status(status::Args),
    Demo(demo::Args),
    Echo(echo::Args),
    Load(load::Args),
    Bare(bare::Args),
}

/// Runs the gateway until Ctrl-C or SIGTERM.
#[derive(clap::Args)]
struct Serve {
    /// The configuration, as explained in zgateway.toml.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only looks for mistakes in the configuration.
    #[arg(long)]
    check: bool,
    /// How much to log, whatever the configuration says.
    #[arg(long, value_name = "LEVEL")]
    log: Option<Level>,
    /// Logs JSON, an object a line, whatever the configuration says.
    #[arg(long)]
    json: bool,
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        // A gateway goes on when nobody reads what it prints. The others have nothing else to do.
        if !matches!(self, Command::Serve(Serve { check: false, .. })) {
            sigpipe::reset();
        }
        match self {
            Command::Serve(Serve { config, check: true, .. }) => check(&config)?,
            Command::Serve(args) => serve(args)?,
            Command::Status(args) => status::run(&args)?,
            Command::Demo(args) => demo::run(&args)?,
            Command::Echo(args) => echo::run(&args)?,
            Command::Bare(args) => bare::run(&args)?,
            Command::Load(args) => return load::run(&args),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn serve(args: Serve) -> Result<()> {
    let config = Config::load(&args.config)?;
    logging::init(&Log {
        level: args.log.unwrap_or(config.log.level),
        format: if args.json { Format::Json } else { config.log.format },
    });
    gateway::serve(config, |addresses| _ = write!(io::stdout(), "{addresses}"))
}

fn check(file: &Path) -> Result<()> {
    let Config { listen, io_threads, limits, groups, replies, .. } = Config::load(file)?;
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    println!(
        "{} is good: groups {}; endpoints for replies {}; clients at {listen}, up to {}, on {io_threads} \
         threads",
        file.display(),
        names.join(", "),
        replies.len(),
        limits.connections,
    );
    Ok(())
}

fn main() -> ExitCode {
    match Command::parse().run() {
        Ok(code) => code,
        // A log that programs read stays one to its end.
        Err(error) if tracing::dispatcher::has_been_set() => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("zgateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
