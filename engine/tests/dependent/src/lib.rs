//! A program of somebody who uses zkit and the `zmq` crate side by side.

use std::ffi::c_int;

/// Passes a message through zkit and one through the `zmq` crate; returns the version of the libzmq that
/// both have.
#[unsafe(no_mangle)]
pub extern "C" fn greet() -> c_int {
    let ctx = zkit::ZContext::builder().signals(false).build().expect("a context");
    let server = ctx.rep("@inproc://greeter").expect("a server");
    let client = ctx.req(">inproc://greeter").expect("a client");
    client.send("hello").expect("it is sent");
    assert_eq!(server.recv_str().expect("it comes"), "hello");

    let plain = zmq::Context::new();
    let [pull, push] = [zmq::PULL, zmq::PUSH].map(|kind| plain.socket(kind).expect("a socket"));
    pull.bind("inproc://plain").expect("it binds");
    push.connect("inproc://plain").expect("it connects");
    push.send("hello", 0).expect("it is sent");
    assert_eq!(pull.recv_bytes(0).expect("it comes"), b"hello");
    assert!(zmq::CurveKeyPair::new().is_ok(), "libsodium is linked");

    println!("{}", zkit::engine());
    let (major, minor, patch) = zmq::version();
    major * 10_000 + minor * 100 + patch
}
