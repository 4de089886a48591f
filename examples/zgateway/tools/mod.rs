//! What a gateway is tried and watched with: a back-end process, a load, a server to compare with,
//! all of it as a demo, and its status.

pub mod bare;
pub mod demo;
pub mod echo;
pub mod load;
pub mod status;

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use humantime_serde::re::humantime;
use mio::net::TcpStream;

/// A duration on the command line: "10s", "5ms".
fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

/// Writes as much as the system takes. Returns how much that was.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}
