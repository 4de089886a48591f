//! libzmq 4.3.5, compiled with all that the target has, and with CURVE.
//!
//! The package has no interface of its own. A program that depends on it and on the [`zmq-sys`] or
//! [`zmq`] crate calls libzmq through them, and gets this libzmq instead of the one that `zmq-sys`
//! compiles, which is older, has no CURVE, and knows nothing of its target.
//!
//! How that is certain: this crate depends on `zmq-sys`, so it stands before it on the linker's line,
//! and its libzmq is a single object, which is linked whole. Each name of libzmq's is known by the time
//! that the linker comes to the archive of `zmq-sys`, of which it then takes nothing.
//!
//! Where a build links the system's libzmq in place of that of `zmq-sys` (by Cargo's `zmq` links key),
//! this package compiles nothing and the system's is what the program has.
//!
//! [`zmq-sys`]: https://docs.rs/zmq-sys
//! [`zmq`]: https://docs.rs/zmq

// Neither is used from here. Named, they are linked, and behind this crate.
#[cfg(feature = "curve")]
use libsodium_sys as _;
use zmq_sys as _;
