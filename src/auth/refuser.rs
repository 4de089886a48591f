//! Who is asked whom to let in when a ZAuth is gone: without anybody to ask, libzmq lets in whoever comes
//! with a CURVE key.

use std::any::Any;
use std::sync::mpsc::{self, Receiver, RecvError};

use crate::context::ZContext;
use crate::endpoint::ZAP;
use crate::error::{Error, Reason, Result};
use crate::ffi;
use crate::socket::ZSock;
use crate::socket_type::SocketType;
use crate::thread;

use super::zap::{self, Status};

/// A handler's socket. Whoever drops it leaves it to a thread that refuses everybody, until the context
/// ends or another handler takes over, so that nobody slips through in between.
pub(super) struct HandlerSocket {
    ctx: ZContext,
    /// `None` only while it is dropped.
    router: Option<ZSock>,
}

impl HandlerSocket {
    /// # Errors
    /// [`Error::Bind`] when the context has a handler.
    pub(super) fn take(ctx: &ZContext) -> Result<HandlerSocket> {
        let mut left = ctx.auth();
        let refuser = left.as_ref().and_then(|refuser| refuser.downcast_ref::<Refuser>());
        let router = match refuser {
            Some(refuser) => refuser.hand_over(ctx)?,
            None => bind(ctx)?,
        };
        *left = None;
        Ok(HandlerSocket { ctx: ctx.clone(), router: Some(router) })
    }

    pub(super) fn router(&self) -> &ZSock {
        self.router.as_ref().expect("it is taken only in drop")
    }
}

fn bind(ctx: &ZContext) -> Result<ZSock> {
    let router = ctx.socket(SocketType::Router)?;
    // A peer that waits for an answer is not to be forgotten.
    router.set_sndhwm(None)?;
    router.set_rcvhwm(None)?;
    router.bind(ZAP).map_err(|error| match error.reason().and_then(Reason::errno) {
        Some(libc::EADDRINUSE) => Error::Bind {
            endpoint: ZAP.into(),
            reason: Reason::new("the context has a ZAuth or another ZAP handler, and can have one"),
        },
        _ => error,
    })?;
    Ok(router)
}

impl Drop for HandlerSocket {
    fn drop(&mut self) {
        let Some(router) = self.router.take() else { return };
        match Refuser::start(router) {
            Ok(refuser) => *self.ctx.auth() = Some(Box::new(refuser) as Box<dyn Any + Send>),
            Err(error) => log::error!("no ZAP handler is left: {error}"),
        }
    }
}

struct Refuser {
    /// On which it hands its socket over.
    word: u64,
    socket: Receiver<ZSock>,
}

impl Refuser {
    fn start(mut router: ZSock) -> Result<Refuser> {
        // The end of the context ends it.
        router.let_go_of_context();
        router.set_nonstop(true);
        let word = ffi::random();
        let (hand_over, socket) = mpsc::channel();
        thread::start(move || {
            while let Ok(mut request) = router.recv() {
                let Some(envelope) = request.unwrap() else { continue };
                if request == word.into() {
                    let _ = hand_over.send(router);
                    return;
                }
                log::debug!("refused a peer: the context's ZAuth is gone");
                let mut reply = zap::reply(zap::id_of(&request), Status::NotNow, "", []);
                reply.wrap(envelope);
                // It fails when the context ends, as the next receive does.
                let _ = router.try_send(reply);
            }
        })?;
        Ok(Refuser { word, socket })
    }

    fn hand_over(&self, ctx: &ZContext) -> Result<ZSock> {
        ctx.dealer(&format!(">{ZAP}"))?.send(self.word)?;
        // It has ended only if the context has.
        self.socket.recv().map_err(|RecvError| Error::Terminated)
    }
}
