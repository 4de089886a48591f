//! The gateway as its users meet it: a process between clients over TCP and back-end processes over
//! ZeroMQ, both of which are here.

mod backends;
#[path = "../common/mod.rs"]
mod common;
mod ending;
mod flow;
mod gateway;
mod hostile;
mod patience;
mod safety;
mod staff;
mod state;
