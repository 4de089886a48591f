//! Broker peering, part 2: requests that find their way to another broker's workers, and replies
//! that find their way back.
//!
//!     cargo run --release --example peering2 DC1 DC2
//!     cargo run --release --example peering2 DC2 DC1      # in another terminal

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use clap::Parser;
use zkit::{
    Error, EventKind, HandlerId, Result, SendError, SocketType, ZContext, ZFrame, ZLoop, ZMonitor,
    ZMsg, ZSock, ZThread, clock, orderly, thread,
};

const READY: &[u8] = b"\x01";

/// Routes requests to local workers and, one in five, to a peer.
#[derive(Parser)]
struct Args {
    /// The name of this broker.
    me: String,
    /// The names of its peers.
    peers: Vec<String>,
    /// How many clients there are.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=300))]
    clients: u32,
    /// How many workers there are.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=300))]
    workers: u32,
    /// How long a client waits between requests, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    pause: u64,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    println!("I: preparing broker at {}...", args.me);
    // What is not sent when the broker ends is for nobody.
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).max_sockets(2000).build()?;

    // Peers find each other by name: it is the identity of both cloud sockets.
    let cloudfe = router(&ctx, &args.me)?;
    cloudfe.bind(&cloud(&args.me))?;
    let cloudbe = router(&ctx, &args.me)?;
    let monitor = ZMonitor::new(&cloudbe)?;
    for peer in &args.peers {
        println!("I: connecting to cloud frontend at '{peer}'");
        cloudbe.connect(&cloud(peer))?;
    }
    let localfe = ctx.router("")?;
    localfe.bind(&format!("ipc://{}-localfe.ipc", args.me))?;
    let localbe = ctx.router("")?;
    localbe.bind(&format!("ipc://{}-localbe.ipc", args.me))?;

    if let Err(error) = wait_for_peers(&monitor, &args.peers) {
        return orderly(Err(error));
    }
    let mut threads = Vec::new();
    for _ in 0..args.workers {
        let endpoint = format!(">ipc://{}-localbe.ipc", args.me);
        threads.push(thread::fork(&ctx, move |ctx, _| worker(&ctx.req(&endpoint)?))?);
    }
    for _ in 0..args.clients {
        let endpoint = format!(">ipc://{}-localfe.ipc", args.me);
        let pause = Duration::from_millis(args.pause);
        threads.push(thread::fork(&ctx, move |ctx, _| client(&ctx.req(&endpoint)?, pause))?);
    }

    let sockets =
        Sockets { localfe: &localfe, localbe: &localbe, cloudfe: &cloudfe, cloudbe: &cloudbe };
    let ended = Broker::run(sockets, args.peers);
    ctx.shutdown()?;
    threads.into_iter().map(ZThread::join).try_for_each(orderly)?;
    ended
}

fn cloud(name: &str) -> String {
    format!("ipc://{name}-cloud.ipc")
}

fn router(ctx: &ZContext, identity: &str) -> Result<ZSock> {
    let router = ctx.socket(SocketType::Router)?;
    router.set_identity(identity)?;
    // Else it would drop without a word what is for a peer that is gone.
    router.set_router_mandatory(true)?;
    Ok(router)
}

/// Waits until every peer is there, and says every five seconds which are not.
fn wait_for_peers(monitor: &ZMonitor, peers: &[String]) -> Result<()> {
    let mut missing: HashMap<String, &str> =
        peers.iter().map(|peer| (cloud(peer), peer.as_str())).collect();
    let mut complain = Instant::now() + Duration::from_secs(5);
    while !missing.is_empty() {
        match monitor.recv_timeout(complain.saturating_duration_since(Instant::now())) {
            Ok(Some(event)) if event.kind == EventKind::HandshakeSucceeded => {
                missing.remove(&event.endpoint);
            }
            Ok(_) => {}
            Err(Error::Timeout) => {
                let mut names: Vec<&str> = missing.values().copied().collect();
                names.sort_unstable();
                println!("W: still waiting for {}", names.join(", "));
                complain = Instant::now() + Duration::from_secs(5);
            }
            Err(error) => return Err(error),
        }
    }
    println!("I: all peers are there");
    Ok(())
}

#[derive(Clone, Copy)]
struct Sockets<'a> {
    localfe: &'a ZSock,
    localbe: &'a ZSock,
    cloudfe: &'a ZSock,
    cloudbe: &'a ZSock,
}

struct Broker<'a> {
    sockets: Sockets<'a>,
    peers: Vec<String>,
    /// Addresses of the workers that are free.
    workers: VecDeque<ZFrame>,
    /// The readers of the two frontends: paused while no worker is free.
    frontends: [HandlerId; 2],
}

impl<'a> Broker<'a> {
    fn run(sockets: Sockets<'a>, peers: Vec<String>) -> Result<()> {
        let mut zloop = ZLoop::new()?;
        zloop.reader(sockets.localbe, Broker::on_worker)?;
        zloop.reader(sockets.cloudbe, Broker::on_cloud_reply)?;
        let local = zloop.reader(sockets.localfe, Broker::on_client)?;
        let cloud = zloop.reader(sockets.cloudfe, Broker::on_local_work)?;
        let frontends = [local, cloud];
        for frontend in frontends {
            zloop.pause(frontend);
        }
        let workers = VecDeque::new();
        zloop.run(&mut Broker { sockets, peers, workers, frontends })?;
        Ok(())
    }

    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        self.workers.extend(msg.unwrap());
        for frontend in self.frontends {
            zloop.resume(frontend);
        }
        if msg != READY.into() {
            self.route_reply(msg)?;
        }
        Ok(())
    }

    /// The peer that it comes from does not matter any more.
    fn on_cloud_reply(&mut self, _: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        msg.unwrap();
        self.route_reply(msg)
    }

    /// A reply for a peer has that peer's name in front, any other its client's address.
    fn route_reply(&self, msg: ZMsg) -> Result<()> {
        let for_peer =
            msg.first().is_some_and(|first| self.peers.iter().any(|peer| *first == peer.as_str()));
        let route = if for_peer { self.sockets.cloudfe } else { self.sockets.localfe };
        match route.try_send(msg) {
            Err(SendError { error, .. }) if error.is_ending() => Err(error),
            Err(SendError { error, .. }) => {
                println!("W: a reply was dropped: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// One request in five goes to a peer, if that is reachable.
    fn on_client(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        if !self.peers.is_empty() && fastrand::u32(..5) == 0 {
            let peer = &self.peers[fastrand::usize(..self.peers.len())];
            msg.push_front(peer.clone());
            match self.sockets.cloudbe.try_send(msg) {
                Ok(()) => return Ok(()),
                Err(SendError { error, message }) => {
                    println!("W: not sent to {peer}: {error}");
                    msg = message;
                    msg.pop_front();
                }
            }
        }
        self.on_local_work(zloop, msg)
    }

    fn on_local_work(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        if let Some(worker) = self.workers.pop_front() {
            msg.wrap(worker);
            self.sockets.localbe.send(msg)?;
        }
        if self.workers.is_empty() {
            for frontend in self.frontends {
                zloop.pause(frontend);
            }
        }
        Ok(())
    }
}

fn client(client: &ZSock, pause: Duration) -> Result<()> {
    loop {
        client.send("HELLO")?;
        println!("Client: {}", client.recv_str()?);
        clock::sleep(pause)?;
    }
}

fn worker(worker: &ZSock) -> Result<()> {
    worker.send(READY)?;
    loop {
        let mut msg = worker.recv()?;
        if let Some(request) = msg.last_mut() {
            println!("Worker: {}", request.as_str()?);
            request.reset("OK");
        }
        worker.send(msg)?;
    }
}
