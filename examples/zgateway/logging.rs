//! The log on stderr: the gateway's own, and what zkit says by the `log` crate.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;

use crate::config::{Format, Level, Log};

/// Once in a process.
pub fn init(log: &Log) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(log.level))
        // Where to, if nobody reads the log?
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match log.format {
        Format::Text => subscriber.init(),
        Format::Json => subscriber.json().flatten_event(true).init(),
    }
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> LevelFilter {
        match level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        }
    }
}
