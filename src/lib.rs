//! zkit
pub mod clock;
pub mod interrupt;

mod codec;
mod context;
mod endpoint;
mod error;
mod ffi;
mod frame;
mod msg;
mod options;
mod poller;
mod socket;

pub use context::{ContextBuilder, ZContext};
pub use endpoint::Attach;
pub use error::{Error, Reason, Result, SendError};
pub use frame::ZFrame;
pub use msg::ZMsg;
pub use options::{Mechanism, NameType};
pub use poller::ZPoller;
pub use socket::{Events, SocketType, ZSock};
