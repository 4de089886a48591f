//! Pages to read, beside the reference.
//!
//! | page | for whom |
//! |---|---|
//! | [From CZMQ](from_czmq) | you know `zmsg_addstr` and `zloop_reader`, and look for the same here |
//! | [From the zmq crate](from_zmq) | you have a program on `zmq::Socket` and want to move it over |
//! | [Choosing sockets and patterns](choosing) | you know what your program is to do, and not yet with which sockets |
//! | [Troubleshooting](troubleshooting) | nothing arrives, something hangs, an error is unclear |
//!
//! Every code block in Rust is compiled, and run unless it would have no end, by the tests.

// The names that the pages link to.
#[cfg(doc)]
use crate::*;

#[doc = include_str!("from_czmq.md")]
pub mod from_czmq {}

#[doc = include_str!("from_zmq.md")]
pub mod from_zmq {}

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}
