//! What a gateway is tried and watched with: a back-end process, a load, a server to compare with,
//! all of it as a demo, and its status.

pub mod bare;
pub mod demo;
pub mod echo;
pub mod load;
pub mod status;

use std::time::Duration;

use humantime_serde::re::humantime;

/// A duration on the command line: "10s", "5ms".
fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}
