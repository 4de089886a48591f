//! The gateway itself: what its threads are, how they hang together, and how they end.
//!
//! ```text
//!            master            accepts, and gives each client to an I/O thread
//!              |
//!   clients - I/O threads      cut what clients send into messages, write replies
//!              |      ^
//!   queues     v      |        one of each I/O thread for each group; one back to each I/O thread
//!            PUSH    PULL      workers, which speak ZeroMQ with the back-end processes
//! ```
//!
//! Every thread has a loop of its own and shares no data with another but the queues, each of which
//! is between two. A thread that has put something into a queue wakes the one that takes it out.

mod bucket;
pub mod connection;
pub mod ids;
mod io;
mod master;
mod pull;
mod push;
pub mod queue;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use anyhow::Context;
use tracing::{info, warn};
use zkit::{Error, Exit, Result, Waker, ZActor, ZAuth, ZContext, ZLoop, ZSock};

use self::ids::{Layout, Slots};
use self::io::{IoThread, Links};
use self::master::Master;
use self::pull::{Dropped, PullWorker};
use self::push::{PushWorker, Request};
use crate::config::{self, Config};
use crate::metrics::Metrics;
use crate::protocol::ID;
use crate::{http, stream};

/// Replies that wait for one I/O thread, and their bytes.
const REPLY_QUEUE: usize = 16 * 1024;
const REPLY_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// Where a gateway can really be reached, wildcards resolved.
#[derive(Debug, Clone)]
pub struct Addresses {
    pub clients: SocketAddr,
    /// By name.
    pub groups: Vec<Endpoint<String>>,
    /// By type.
    pub replies: Vec<Endpoint<u8>>,
    pub metrics: Option<SocketAddr>,
}

/// What is bound there, and the endpoint.
pub type Endpoint<T> = (T, String);

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "clients at {}", self.clients)?;
        for (name, endpoint) in &self.groups {
            writeln!(f, "group {name} at {endpoint}")?;
        }
        for (kind, endpoint) in &self.replies {
            writeln!(f, "replies of type {kind} at {endpoint}")?;
        }
        self.metrics.map_or(Ok(()), |metrics| writeln!(f, "metrics at http://{metrics}/metrics"))
    }
}

/// Serves until the process is interrupted, and then until all that is under way is done or the grace
/// time is over. `ready` is told the addresses when clients may come.
pub fn serve(mut config: Config, ready: impl FnOnce(&Addresses)) -> anyhow::Result<()> {
    config.limits.connections = reserve_descriptors(&config)?;
    let config = Arc::new(config);
    // Its own sockets, and two for each thread's pipe.
    let sockets = 2 * config.io_threads + config.groups.len() + config.replies.len() + 16;
    let ctx = ZContext::builder().max_sockets(u32::try_from(sockets)?).build()?;
    // It lets in every back-end process that can be asked about.
    let _auth = ZAuth::new(&ctx)?;
    let metrics = Arc::new(Metrics::new()?);
    let layout = Layout::new(config.io_threads, config.limits.connections)
        .context("an id of 4 bytes cannot name so many connections")?;

    let Groups { outlets, queues: request_queues, depths, endpoints: group_endpoints } =
        bind_groups(&ctx, &config, &metrics)?;
    let (pulls, reply_endpoints) = bind_replies(&ctx, &config)?;
    let (reply_senders, reply_receivers): (Vec<_>, Vec<_>) =
        (0..config.io_threads).map(|_| queue::bounded(REPLY_QUEUE, REPLY_QUEUE_BYTES)).unzip();
    let listener = stream::listen(config.listen)
        .with_context(|| format!("cannot listen for clients at {}", config.listen))?;
    let clients = listener.local_addr()?;
    let http = match config.metrics {
        Some(address) => {
            let (metrics, config) = (Arc::clone(&metrics), Arc::clone(&config));
            let registry = metrics.registry.clone();
            Some(http::serve(address, registry, move || metrics.refresh(&config, &depths))?)
        }
        None => None,
    };

    let (push, push_waker) = start(&ctx, move |zloop| Ok(PushWorker::new(outlets, zloop)))?;
    let dropped = Dropped {
        malformed: metrics.dropped("malformed"),
        too_long: metrics.dropped("too_long"),
        unknown: metrics.dropped("unknown"),
    };
    let body_limit = config.limits.body;
    let (pull, pull_waker) = start(&ctx, move |zloop| {
        PullWorker::new(layout, pulls, reply_senders, body_limit, dropped, zloop)
    })?;

    let mut io_threads = Vec::new();
    let mut zloop = ZLoop::new()?;
    let open = Arc::new(AtomicUsize::new(0));
    let mut io_wakers = Vec::new();
    let first_generation = fastrand::u32(..);
    for (thread, (queues, replies)) in request_queues.into_iter().zip(reply_receivers).enumerate() {
        let links = Links {
            queues,
            replies,
            push: push_waker.clone(),
            pull: pull_waker.clone(),
            master: zloop.waker(),
            open: Arc::clone(&open),
        };
        let config = Arc::clone(&config);
        let io_metrics = metrics.io_thread(&config, thread);
        let slots = Slots::new(layout, thread, config.limits.connections, first_generation);
        let (actor, waker) =
            start(&ctx, move |zloop| Ok(IoThread::new(config, slots, io_metrics, links, zloop)))?;
        io_threads.push(actor);
        io_wakers.push(waker);
    }
    let (for_push, for_pull) = (io_wakers.clone(), io_wakers.clone());
    push_waker.post(move |push, _| {
        push.meet(for_push);
        Ok(())
    })?;
    pull_waker.post(move |pull, _| {
        pull.meet(for_pull);
        Ok(())
    })?;

    let mut master = Master::new(
        Arc::clone(&config),
        listener,
        io_wakers,
        push_waker,
        open,
        metrics.master(),
        &mut zloop,
    )?;
    for actor in io_threads.iter().chain([&push, &pull]) {
        actor.reader(&mut zloop, |_, _, msg| msg.map(drop))?;
    }
    info!(%clients, "serving");
    ready(&Addresses {
        clients,
        groups: group_endpoints,
        replies: reply_endpoints,
        metrics: http.as_ref().map(http::Server::address),
    });

    let started = Instant::now();
    if zloop.run(&mut master)? != Exit::Interrupted {
        return Ok(());
    }
    info!(grace = ?config.grace, "ending");
    zloop.set_nonstop(true);
    master.end(&mut zloop)?;
    zloop.run(&mut master)?;
    drop(zloop);
    for actor in io_threads {
        actor.stop()?;
    }
    push.stop()?;
    pull.stop()?;
    metrics.print_summary(started.elapsed());
    Ok(())
}

/// What one thread tells another, which at the end may have ended before it.
fn unless_gone(told: std::result::Result<(), impl Into<Error>>) -> Result<()> {
    match told.map_err(Into::into) {
        Err(Error::Ended { .. }) => Ok(()),
        told => told,
    }
}

/// Has the process hold as many descriptors as it may. Returns how many clients it can have then:
/// they must leave some to back-end processes, which else could not come back.
fn reserve_descriptors(config: &Config) -> anyhow::Result<usize> {
    let connections = config.limits.connections;
    let others = 256 + 8 * config.io_threads;
    let limit =
        rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of descriptors")?;
    let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(others).max(1);
    if room < connections {
        warn!(
            limit,
            clients = room,
            "too few descriptors for limits.connections: raise the hard limit (ulimit -Hn), or lower it"
        );
    }
    Ok(connections.min(room))
}

/// What leads to the groups.
struct Groups {
    outlets: Vec<push::Group>,
    /// By I/O thread, its queue to each group.
    queues: Vec<Vec<queue::Sender<Request>>>,
    /// By group, of each I/O thread's queue.
    depths: Vec<Vec<queue::Depth>>,
    endpoints: Vec<Endpoint<String>>,
}

fn bind_groups(ctx: &ZContext, config: &Config, metrics: &Metrics) -> Result<Groups> {
    let threads = config.io_threads;
    let mut groups = Groups {
        outlets: Vec::new(),
        queues: (0..threads).map(|_| Vec::new()).collect(),
        depths: Vec::new(),
        endpoints: Vec::new(),
    };
    for config::Group { name, bind, queue, queue_bytes, hwm, .. } in &config.groups {
        let socket = ctx.push("")?;
        speak_zmtp_3(&socket)?;
        socket.set_sndhwm(Some(*hwm))?;
        groups.endpoints.push((name.clone(), socket.bind(bind)?));
        let mut receivers = Vec::new();
        let mut depths = Vec::new();
        for queues in &mut groups.queues {
            let (sender, receiver) =
                queue::bounded(queue.div_ceil(threads), queue_bytes.div_ceil(threads));
            depths.push(sender.depth());
            queues.push(sender);
            receivers.push(receiver);
        }
        groups.depths.push(depths);
        let metrics = metrics.group(name);
        let name = name.clone();
        groups.outlets.push(push::Group { name, socket, queues: receivers, metrics });
    }
    Ok(groups)
}

/// The sockets for replies, and where they are bound.
fn bind_replies(ctx: &ZContext, config: &Config) -> Result<(Vec<ZSock>, Vec<Endpoint<u8>>)> {
    let mut bound = (Vec::new(), Vec::new());
    for config::Reply { kind, bind } in &config.replies {
        let socket = ctx.pull("")?;
        speak_zmtp_3(&socket)?;
        // One that is too long is dropped; one that is much too long is not even received.
        socket.set_maxmsgsize(Some((config.limits.outgoing + ID) as u64))?;
        bound.1.push((*kind, socket.bind(bind)?));
        bound.0.push(socket);
    }
    Ok(bound)
}

/// Refuses peers by older protocols, which say neither that they speak ZeroMQ nor what socket they are:
/// libzmq takes whoever says anything for one, and would give it messages. With a domain for ZAP, which
/// they cannot be asked about, it does not.
fn speak_zmtp_3(socket: &ZSock) -> Result<()> {
    socket.set_zap_domain("zgateway")
}

/// Starts a thread with a loop and the role that `build` makes of it.
fn start<D: 'static>(
    ctx: &ZContext,
    build: impl FnOnce(&mut ZLoop<'_, D>) -> Result<D> + Send + 'static,
) -> Result<(ZActor, Waker<D>)> {
    let (sender, waker) = mpsc::channel();
    let actor = ZActor::spawn(ctx, move |_, pipe| {
        let mut zloop = ZLoop::new()?;
        let mut role = build(&mut zloop)?;
        let _ = sender.send(zloop.waker());
        pipe.reader(&mut zloop, |_, _, _| Ok(()))?;
        zloop.run(&mut role).map(drop)
    })?;
    let waker = waker.recv().map_err(zkit::Error::other)?;
    Ok((actor, waker))
}
