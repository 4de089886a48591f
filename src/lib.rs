//! Messaging for Rust programs, over [ZeroMQ](https://zeromq.org): whole messages instead of
//! parts, sockets that close themselves, and a Ctrl-C that ends every thread.
//!
//! zkit is to the `zmq` crate what CZMQ is to libzmq: the same engine, with an interface made for
//! programs. It is not another implementation of ZeroMQ's protocol, and not an asynchronous
//! runtime: threads wait, on one socket, on several, or in a reactor.
//!
//! [`ZContext`] is the entry point. It makes sockets, [`ZSock`], which send and receive messages,
//! [`ZMsg`], of frames, [`ZFrame`]. The [`guide`] has pages for those who come from CZMQ or the `zmq`
//! crate, who choose sockets, and whose program does not do what it should.
//!
//! ```
//! use std::thread;
//! use zkit::{Result, ZContext, ZMsg};
//!
//! fn main() -> Result<()> {
//!     let ctx = ZContext::new()?; // catches Ctrl-C
//!     let server = ctx.router("@inproc://greeter")?; // @ binds, > connects
//!
//!     let client = ctx.req(">inproc://greeter")?;
//!     let asking = thread::spawn(move || -> Result<String> {
//!         client.send(("Hello", "from a thread"))?;
//!         client.recv_str()
//!     });
//!
//!     let mut request = server.recv()?; // a whole message, or Error::Interrupted
//!     let sender = request.unwrap().expect("a ROUTER puts the sender in front");
//!     assert_eq!(request, ("Hello", "from a thread").into());
//!
//!     let mut reply = ZMsg::from("World");
//!     reply.wrap(sender); // the way back
//!     server.send(reply)?;
//!
//!     assert_eq!(asking.join().expect("the thread ended")?, "World");
//!     Ok(())
//! }
//! ```
//!
//! # Sending and receiving
//!
//! A message is anything that becomes a [`ZMsg`]. It is sent with all its frames or not at all,
//! and a failed send gives it back.
//!
//! ```
//! use std::time::Duration;
//! use zkit::ZContext;
//!
//! let ctx = ZContext::new()?;
//! let sink = ctx.pull("@inproc://sink")?;
//! let source = ctx.push(">inproc://sink")?;
//!
//! source.send("one frame")?;
//! source.send(("id", 7_u32, vec![1, 2, 3]))?;
//! source.send(["as", "many", "as", "you", "like"])?;
//!
//! assert_eq!(sink.recv_str()?, "one frame");
//! let mut msg = sink.recv()?;
//! assert_eq!(msg.pop_str()?, "id");
//! assert_eq!(msg.pop_u32()?, 7);
//! assert_eq!(sink.recv_timeout(Duration::from_secs(1))?.len(), 5);
//! assert!(sink.try_recv().unwrap_err().is_would_block());
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! Text and bytes go without a copy, so they are owned or `'static`; what is only borrowed is
//! [copied](ZSock::send). [`SocketType`] says what each type of socket sends and
//! receives, [the guide](guide::choosing) which to choose.
//!
//! # The envelope
//!
//! A ROUTER receives a message with its sender's identity in front, and sends it to the peer named
//! in front. [`ZMsg::unwrap`] and [`ZMsg::wrap`] take the identity, with the delimiter that a REQ
//! sends, off and put it on. [The guide](guide::choosing#the-envelope) shows it.
//!
//! ```
//! use zkit::{SocketType, ZContext};
//!
//! let ctx = ZContext::new()?;
//! let router = ctx.router("@inproc://service")?;
//! let worker = ctx.socket(SocketType::Req)?;
//! worker.set_identity("worker-1")?;
//! worker.connect("inproc://service")?;
//!
//! worker.send("READY")?;
//! let mut ready = router.recv()?;
//! assert_eq!(ready, ("worker-1", "", "READY").into());
//! let address = ready.unwrap().expect("an identity");
//! assert_eq!(ready, "READY".into());
//!
//! router.send((address, "", "some work"))?;
//! assert_eq!(worker.recv_str()?, "some work");
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! # Waiting on several sockets
//!
//! [`ZPoller`] tells which of a few sockets and descriptors is ready. They take turns.
//!
//! ```
//! use std::time::Duration;
//! use zkit::{ZContext, ZPoller};
//!
//! let ctx = ZContext::new()?;
//! let tasks = ctx.pull("@inproc://tasks")?;
//! let control = ctx.sub("@inproc://control", "")?;
//! ctx.push(">inproc://tasks")?.send("a task")?;
//!
//! let mut poller = ZPoller::new();
//! poller.add("tasks", &tasks)?;
//! poller.add("control", &control)?;
//! match poller.wait(Some(Duration::from_secs(1)))? {
//!     Some("tasks") => assert_eq!(tasks.recv_str()?, "a task"),
//!     Some(_) => println!("control: {:?}", control.recv()?),
//!     None => println!("nothing for a second"),
//! }
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! # The reactor
//!
//! [`ZLoop`] calls handlers when sockets have messages, descriptors are ready and time has passed. It
//! lends them the program's state, and what is idle costs nothing, however much of it there is.
//!
//! ```
//! use std::time::Duration;
//! use zkit::{Exit, Repeat, Result, ZContext, ZLoop, ZMsg};
//!
//! fn on_task(done: &mut u32, zloop: &mut ZLoop<'_, u32>, _task: ZMsg) -> Result<()> {
//!     *done += 1;
//!     if *done == 2 {
//!         zloop.stop();
//!     }
//!     Ok(())
//! }
//!
//! let ctx = ZContext::new()?;
//! let tasks = ctx.pull("@inproc://tasks")?;
//! let source = ctx.push(">inproc://tasks")?;
//!
//! let mut zloop = ZLoop::new()?;
//! zloop.reader(&tasks, on_task)?;
//! zloop.timer(Duration::from_millis(1), Repeat::Times(2), |_, _| Ok(source.send("a task")?))?;
//!
//! let mut done = 0;
//! assert_eq!(zloop.run(&mut done)?, Exit::Stopped);
//! assert_eq!(done, 2);
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! It watches [TCP sockets and pipes](ZLoop::source), too, hears [other threads](ZLoop::waker), and
//! can live [in another event loop](ZLoop::turn).
//!
//! # Interrupts
//!
//! Ctrl-C makes every waiting call in every thread return [`Error::Interrupted`]. A program ends by
//! handing that error up with `?` and taking it for what it is at the top:
//!
//! ```
//! fn main() -> zkit::Result<()> {
//!     zkit::orderly(serve())
//! }
//! # fn serve() -> zkit::Result<()> { Err(zkit::Error::Interrupted) }
//! ```
//!
//! [`interrupt`] has the rules, [the guide](guide::troubleshooting#ctrl-c-does-nothing-or-kills)
//! what to do when it does not work.
//!
//! # Threads and actors
//!
//! Threads talk in messages. A [`ZActor`] is a thread that is ready before it is used and ends when its
//! owner says so; [`thread`] has simpler ones, and says what may cross a thread, who ends whom and
//! in which order. A [`ZProxy`] and a [`ZMonitor`] are actors for two common jobs.
//!
//! ```
//! use zkit::{ZActor, ZContext};
//!
//! let ctx = ZContext::new()?;
//! let log = ZActor::spawn(&ctx, |_, pipe| {
//!     let mut lines = 0;
//!     while let Some(mut line) = pipe.recv()? {
//!         println!("{}", line.pop_str()?);
//!         lines += 1;
//!     }
//!     Ok(lines)
//! })?;
//! log.send("made first, so the last to go")?;
//! assert_eq!(log.stop()?, 1);
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! # Security
//!
//! A [`ZAuth`] says who gets in to a context's sockets: by address, by name and password, by key. It is
//! asked about PLAIN and CURVE servers, and about others if they have a ZAP domain. **A socket with none of
//! these lets everybody in.**
//!
//! ```
//! use zkit::{SocketType, ZAuth, ZContext};
//!
//! let ctx = ZContext::new()?;
//! let auth = ZAuth::new(&ctx)?;
//! auth.allow(["127.0.0.1", "192.168.0.0/16"])?;
//! auth.plain("*", [("alice", "secret")])?;
//!
//! let server = ctx.socket(SocketType::Rep)?;
//! server.set_zap_domain("global")?;
//! server.set_plain_server(true)?;
//! server.bind("tcp://127.0.0.1:*")?;
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! A [`ZCert`] is a pair of CURVE keys, with which sockets know each other and encrypt; a
//! [`ZCertStore`] has those of the clients that may come in. They are there by the
//! default feature `curve`: [`engine`] tells what is linked, and "The engine" in the README how to link
//! another libzmq. What is missing gives [`Error::Unsupported`], never a connection without security.
//!
//! ```
//! use zkit::ZCert;
//!
//! let mut ann = ZCert::from_public([7; 32]); // ZCert::new() makes a pair
//! ann.set_meta("name", "Ann Example")?;
//! println!("{}", ann.encode_public()); // the file that others may have
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! # Endings
//!
//! Dropping a socket closes it at once; what it had sent goes on being delivered for its linger, one
//! second by default. Dropping the last clone of a context waits for that, and says with
//! `log::warn!` what it gave up. [`ZContext::shutdown`] ends the work of all sockets from any
//! thread. A program that uses `fork` makes a new context in the child; what it had before gives
//! [`Error::Forked`] there.
//!
//! ```
//! use std::time::Duration;
//! use zkit::ZContext;
//!
//! let ctx = ZContext::builder().linger(Some(Duration::from_secs(5))).build()?;
//! let push = ctx.push(">ipc:///tmp/nobody-is-here")?;
//! push.send("lost")?;
//! push.set_linger(Some(Duration::ZERO))?; // this socket is not worth waiting for
//! drop(push);
//! drop(ctx); // returns at once
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! [`ZContext`](ZContext#how-it-ends) has the rules, [the
//! guide](guide::troubleshooting#the-program-hangs-at-its-end) what to do when a program hangs.
//!
//! # Errors
//!
//! [`Error`] says what was tried, on what, and why it failed. Nothing that comes from outside
//! panics. A failed send gives the message back in [`SendError`], which `?` makes an [`Error`].
//!
//! ```
//! use zkit::{Error, ZContext};
//!
//! let ctx = ZContext::new()?;
//! let server = ctx.rep("@inproc://service")?;
//! let error = ctx.rep("@inproc://service").unwrap_err();
//! println!("{error}"); // cannot bind "inproc://service": address already in use
//! assert!(matches!(error, Error::Bind { .. }));
//!
//! let unasked = server.send("an answer").unwrap_err();
//! println!("{unasked}"); // cannot send on a REP socket: a request has to be received first, whole
//! assert_eq!(unasked.into_message(), "an answer".into());
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! What an error means and what to do about it is in [the guide](guide::troubleshooting).

pub mod clock;
pub mod guide;
pub mod interrupt;
pub mod thread;

mod actor;
mod auth;
mod context;
mod endpoint;
mod engine;
mod error;
mod events;
mod ffi;
mod frame;
mod monitor;
mod msg;
mod poller;
mod proxy;
mod socket;
mod socket_type;
mod touch;
mod zloop;

// Behind the others, as what they add to ZMsg and ZSock is in the documentation.
mod codec;
mod options;

pub use actor::{ActorPipe, ZActor};
pub use auth::{AuthRequest, ZAuth, ZCert, ZCertStore};
pub use context::{ContextBuilder, ZContext};
pub use endpoint::Attach;
pub use engine::{Engine, engine};
pub use error::{Error, Reason, Result, SendError, orderly};
pub use events::Events;
pub use frame::ZFrame;
pub use monitor::{EventKind, MonitorEvent, ZMonitor};
pub use msg::ZMsg;
pub use options::{Mechanism, NameType};
pub use poller::ZPoller;
pub use proxy::{ProxyStatistics, Traffic, ZProxy};
pub use socket::ZSock;
pub use socket_type::SocketType;
pub use thread::ZThread;
pub use zloop::{Exit, HandlerId, Lend, Repeat, Waker, ZLoop};

/// The README's program is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
