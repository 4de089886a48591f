//! The unit tests of the modules, which Cargo runs; as tests of `main.rs`, it would not build the
//! program itself.

// A program has no outside to export to, and nobody calls here what `main` calls there.
#![allow(unreachable_pub, dead_code)]

mod config;
mod gateway;
mod http;
mod logging;
mod metrics;
mod protocol;
mod stream;
mod tools;
