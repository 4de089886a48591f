//! Broker peering, part 3: clusters that lend each other workers, and lose no request when one of
//! them goes.
//!
//! A broker serves its own clients while any worker of the cloud is free, and its peers only while
//! one of its own is. It keeps what it has sent abroad until the reply is here, so that it can
//! send it elsewhere if that peer dies. State is told when it changes and every second: a peer
//! that has been silent for three is taken for dead.
//!
//!     cargo run --release --example peering3 DC1 DC2 DC3
//!     cargo run --release --example peering3 DC2 DC1 DC3      # in another terminal
//!     cargo run --release --example peering3 DC3 DC1 DC2      # in a third

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use zkit::{
    Error, EventKind, HandlerId, MonitorEvent, Repeat, Result, SendError, SocketType, ZContext,
    ZFrame, ZLoop, ZMonitor, ZMsg, ZSock, ZThread, clock, orderly, thread,
};

const READY: &[u8] = b"\x01";
const HEARTBEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(3);

/// Serves requests by its own workers and its peers'.
#[derive(Parser, Clone)]
struct Args {
    /// The name of this broker.
    me: String,
    /// The names of its peers.
    peers: Vec<String>,
    /// How many requests its clients send in all; without it, until Ctrl-C.
    #[arg(long)]
    requests: Option<u64>,
    /// How many clients there are.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=300))]
    clients: u32,
    /// How many workers there are.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=300))]
    workers: u32,
    /// How long a client pauses at most between bursts, in milliseconds.
    #[arg(long, default_value_t = 5000)]
    pause: u64,
    /// How long a request takes at most, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    work: u64,
    /// How long a client waits for a reply before it takes the request for lost, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    timeout: u64,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    println!("I: preparing broker at {}...", args.me);
    // What is not sent when the broker ends is for nobody.
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).max_sockets(2000).build()?;
    let sockets = Sockets::open(&ctx, &args)?;
    let cloud = ZMonitor::new(&sockets.cloudbe)?;
    for peer in &args.peers {
        println!("I: connecting to '{peer}'");
        sockets.cloudbe.connect(&endpoint(peer, "cloud"))?;
        sockets.statefe.connect(&endpoint(peer, "state"))?;
    }

    let mut workers = Vec::new();
    for _ in 0..args.workers {
        let args = args.clone();
        workers.push(thread::fork(&ctx, move |ctx, _| worker(ctx, &args))?);
    }
    let tickets = Arc::new(AtomicU64::new(args.requests.unwrap_or(u64::MAX)));
    let mut clients = Vec::new();
    for _ in 0..args.clients {
        let (args, tickets) = (args.clone(), Arc::clone(&tickets));
        clients.push(thread::fork(&ctx, move |ctx, pipe| {
            let mut lost = 0;
            let ended = client(ctx, &args, &tickets, &mut lost);
            pipe.send(lost)?; // well or not
            ended
        })?);
    }

    let mut broker = Broker::new(&sockets, &args);
    let ended = broker.run(&cloud, &clients);
    let Broker { local, abroad, lost, .. } = broker;
    ctx.shutdown()?;
    clients.into_iter().chain(workers).map(ZThread::join).try_for_each(orderly)?;
    println!("I: served {local} locally, {abroad} in the cloud; lost {lost}");
    orderly(ended)
}

fn endpoint(name: &str, what: &str) -> String {
    format!("ipc://{name}-{what}.ipc")
}

struct Sockets {
    localfe: ZSock,
    localbe: ZSock,
    cloudfe: ZSock,
    cloudbe: ZSock,
    statefe: ZSock,
    statebe: ZSock,
    monitor: ZSock,
}

impl Sockets {
    fn open(ctx: &ZContext, args: &Args) -> Result<Sockets> {
        let router = |what: Option<&str>| {
            let router = ctx.socket(SocketType::Router)?;
            // Peers know each other by name.
            router.set_identity(&args.me)?;
            // Else it would drop without a word what is for a peer that is gone.
            router.set_router_mandatory(true)?;
            if let Some(what) = what {
                router.bind(&endpoint(&args.me, what))?;
            }
            Ok::<_, Error>(router)
        };
        Ok(Sockets {
            cloudfe: router(Some("cloud"))?,
            cloudbe: router(None)?,
            localfe: router(Some("localfe"))?,
            localbe: router(Some("localbe"))?,
            statefe: ctx.sub("", "")?,
            statebe: ctx.pub_(&endpoint(&args.me, "state"))?,
            monitor: ctx.pull(&endpoint(&args.me, "monitor"))?,
        })
    }
}

struct Broker<'a> {
    me: &'a str,
    sockets: &'a Sockets,
    /// Addresses of the workers that are free.
    workers: VecDeque<ZFrame>,
    peers: HashMap<&'a str, Peer>,
    /// What peers are at work on, by the address of its client, which has one request at a time.
    away: HashMap<ZFrame, (&'a str, ZMsg)>,
    /// Requests that came back from a peer without a reply.
    waiting: VecDeque<ZMsg>,
    /// The readers of the frontends, once the loop runs.
    frontends: Option<[HandlerId; 2]>,
    /// What was published last.
    told: Option<usize>,
    clients: usize,
    /// Requests served by workers of this broker's, and by peers'.
    local: u64,
    abroad: u64,
    /// Requests without a reply, and how many of them the monitor has told of.
    lost: u64,
    reported: u64,
}

struct Peer {
    free: u32,
    heard: Instant,
}

impl<'a> Broker<'a> {
    fn new(sockets: &'a Sockets, args: &'a Args) -> Broker<'a> {
        let peer = |name: &'a String| (name.as_str(), Peer { free: 0, heard: Instant::now() });
        Broker {
            me: &args.me,
            sockets,
            workers: VecDeque::new(),
            peers: args.peers.iter().map(peer).collect(),
            away: HashMap::new(),
            waiting: VecDeque::new(),
            frontends: None,
            told: None,
            clients: args.clients as usize,
            local: 0,
            abroad: 0,
            lost: 0,
            reported: 0,
        }
    }

    /// Serves until all clients are done.
    fn run(&mut self, cloud: &'a ZMonitor, clients: &'a [ZThread<()>]) -> Result<()> {
        let sockets = self.sockets;
        let mut zloop = ZLoop::new()?;
        zloop.reader(&sockets.localbe, Broker::on_worker)?;
        zloop.reader(&sockets.cloudbe, Broker::on_cloud_reply)?;
        zloop.reader(&sockets.statefe, Broker::on_state)?;
        zloop.reader(&sockets.monitor, Broker::on_monitor)?;
        cloud.reader(&mut zloop, Broker::on_cloud_event)?;
        for client in clients {
            zloop.reader(&**client, Broker::on_client_done)?;
        }
        let localfe = zloop.reader(&sockets.localfe, Broker::on_request)?;
        let cloudfe = zloop.reader(&sockets.cloudfe, Broker::on_cloud_request)?;
        self.frontends = Some([localfe, cloudfe]);
        zloop.timer(HEARTBEAT, Repeat::Forever, Broker::on_heartbeat)?;
        self.settle(&mut zloop)?;
        zloop.run(self)?;
        Ok(())
    }

    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        self.workers.extend(msg.unwrap());
        if msg != READY.into() {
            if self.peer_in_front(&msg).is_some() {
                send_or_say(&self.sockets.cloudfe, msg)?;
            } else {
                self.local += 1;
                send_or_say(&self.sockets.localfe, msg)?;
            }
        }
        self.settle(zloop)
    }

    fn peer_in_front(&self, msg: &ZMsg) -> Option<&'a str> {
        let name = msg.first()?.as_str().ok()?;
        self.peers.get_key_value(name).map(|(name, _)| *name)
    }

    fn on_request(&mut self, zloop: &mut ZLoop<'a, Self>, msg: ZMsg) -> Result<()> {
        self.waiting.push_back(msg);
        self.settle(zloop)
    }

    fn on_cloud_request(&mut self, zloop: &mut ZLoop<'a, Self>, msg: ZMsg) -> Result<()> {
        self.give_worker(msg)?;
        self.settle(zloop)
    }

    fn on_cloud_reply(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        msg.unwrap(); // which peer it comes from does not matter any more
        let Some(client) = msg.first() else { return Ok(()) };
        // What is not awaited was served elsewhere, when its peer had been taken for dead.
        if self.away.get(client).is_some_and(|(_, request)| request.last() == msg.last()) {
            self.away.remove(client);
            self.abroad += 1;
            send_or_say(&self.sockets.localfe, msg)?;
        }
        self.settle(zloop)
    }

    fn on_state(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        let Some(name) = self.peer_in_front(&msg) else { return Ok(()) };
        msg.pop_front();
        let free = msg.pop_str()?.parse()?;
        self.peers.insert(name, Peer { free, heard: Instant::now() });
        self.settle(zloop)
    }

    fn on_cloud_event(
        &mut self,
        zloop: &mut ZLoop<'a, Self>,
        event: Option<MonitorEvent>,
    ) -> Result<()> {
        let gone = event.filter(|event| event.kind == EventKind::Disconnected);
        let of_event = |name: &&&'a str| {
            gone.as_ref().is_some_and(|event| event.endpoint == endpoint(name, "cloud"))
        };
        let name = self.peers.keys().find(of_event).copied();
        name.into_iter().for_each(|name| self.take_for_dead(name));
        self.settle(zloop)
    }

    fn on_heartbeat(&mut self, zloop: &mut ZLoop<'a, Self>) -> Result<()> {
        self.told = None;
        let is_silent =
            |(name, peer): (&&'a str, &Peer)| (peer.heard.elapsed() > SILENCE).then_some(*name);
        let silent: Vec<&str> = self.peers.iter().filter_map(is_silent).collect();
        silent.into_iter().for_each(|name| self.take_for_dead(name));
        self.settle(zloop)
    }

    /// What it was at work on is for others.
    fn take_for_dead(&mut self, name: &'a str) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.free = 0;
        }
        let (dead, away) = self.away.drain().partition(|(_, (peer, _))| *peer == name);
        self.away = away;
        let dead: HashMap<ZFrame, (&str, ZMsg)> = dead;
        if !dead.is_empty() {
            println!("W: {} requests at {name} are sent elsewhere", dead.len());
        }
        self.waiting.extend(dead.into_values().map(|(_, request)| request));
    }

    fn on_monitor(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        let line = msg.pop_str()?;
        self.reported += u64::from(line.starts_with("E:"));
        println!("{line}");
        self.stop_when_done(zloop);
        Ok(())
    }

    fn on_client_done(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        self.clients -= 1;
        self.lost += msg.pop_u64()?;
        self.stop_when_done(zloop);
        Ok(())
    }

    fn stop_when_done(&self, zloop: &mut ZLoop<'a, Self>) {
        if self.clients == 0 && self.reported == self.lost {
            zloop.stop();
        }
    }

    /// Gives away what waits, reads from whom it can serve, and tells the peers if that has changed.
    fn settle(&mut self, zloop: &mut ZLoop<'a, Self>) -> Result<()> {
        while let Some(request) = self.waiting.pop_front() {
            let refused = if self.workers.is_empty() {
                self.send_abroad(request)?
            } else {
                self.give_worker(request)?;
                None
            };
            if let Some(request) = refused {
                self.waiting.push_front(request);
                break;
            }
        }
        if let Some([localfe, cloudfe]) = self.frontends {
            let here = !self.workers.is_empty();
            let anywhere = here || self.peers.values().any(|peer| peer.free > 0);
            for (frontend, open) in [(localfe, anywhere), (cloudfe, here)] {
                if open {
                    zloop.resume(frontend)
                } else {
                    zloop.pause(frontend)
                };
            }
        }
        let free = self.workers.len();
        if self.told != Some(free) {
            self.sockets.statebe.send((self.me.to_owned(), free.to_string()))?;
            self.told = Some(free);
        }
        Ok(())
    }

    fn give_worker(&mut self, mut request: ZMsg) -> Result<()> {
        if let Some(worker) = self.workers.pop_front() {
            request.wrap(worker);
            self.sockets.localbe.send(request)?;
        }
        Ok(())
    }

    /// Gives the request back if no peer can take it.
    fn send_abroad(&mut self, request: ZMsg) -> Result<Option<ZMsg>> {
        let Some(client) = request.first().cloned() else { return Ok(None) };
        loop {
            let free: Vec<&str> = self
                .peers
                .iter()
                .filter(|(_, peer)| peer.free > 0)
                .map(|(name, _)| *name)
                .collect();
            if free.is_empty() {
                return Ok(Some(request));
            }
            let name = free[fastrand::usize(..free.len())];
            let Some(peer) = self.peers.get_mut(name) else { return Ok(Some(request)) };
            let mut sent = request.clone();
            sent.push_front(name.to_owned());
            match self.sockets.cloudbe.try_send(sent) {
                Ok(()) => {
                    peer.free -= 1;
                    self.away.insert(client, (name, request));
                    return Ok(None);
                }
                Err(SendError { error, .. }) if error.is_ending() => return Err(error),
                Err(_) => peer.free = 0,
            }
        }
    }
}

fn send_or_say(socket: &ZSock, msg: ZMsg) -> Result<()> {
    match socket.try_send(msg) {
        Err(SendError { error, .. }) if error.is_ending() => Err(error),
        Err(SendError { error, .. }) => {
            println!("W: a reply was dropped: {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Sends bursts of requests, one after the other, and waits for each reply.
fn client(ctx: &ZContext, args: &Args, tickets: &AtomicU64, lost: &mut u64) -> Result<()> {
    let client = ctx.req(&format!(">{}", endpoint(&args.me, "localfe")))?;
    let monitor = ctx.push(&format!(">{}", endpoint(&args.me, "monitor")))?;
    monitor.set_linger(Some(Duration::from_secs(1)))?; // its last word may be the one that counts
    let one_less = |left: u64| left.checked_sub(1);
    loop {
        clock::sleep(Duration::from_millis(fastrand::u64(..=args.pause)))?;
        for _ in 0..fastrand::u32(..15) {
            if tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
                return Ok(());
            }
            let task = format!("{:04X}", fastrand::u16(..));
            client.send(task.clone())?;
            match client.recv_str_timeout(Duration::from_millis(args.timeout)) {
                Ok(reply) if reply != task => {
                    return Err(Error::other(format!("a reply of {reply} to {task}")));
                }
                Ok(reply) if args.requests.is_none() => monitor.send(reply)?,
                Ok(_) => {}
                Err(Error::Timeout) => {
                    monitor.send(format!("E: CLIENT EXIT - lost task {task}"))?;
                    *lost += 1;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Sends each request back as it is, after some work.
fn worker(ctx: &ZContext, args: &Args) -> Result<()> {
    let worker = ctx.req(&format!(">{}", endpoint(&args.me, "localbe")))?;
    worker.send(READY)?;
    loop {
        let request = worker.recv()?;
        clock::sleep(Duration::from_millis(fastrand::u64(..=args.work)))?;
        worker.send(request)?;
    }
}
