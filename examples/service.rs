//! A service to start from: a ROUTER on a reactor, an actor for the slow requests, each with a time limit,
//! statistics now and then, and a Ctrl-C after which what was begun is still answered.
//!
//!     cargo run --release --example service serve
//!     cargo run --release --example service ask primes 1000000

use std::collections::HashMap;
use std::time::Duration;

use clap::{Parser, Subcommand};
use zkit::{
    ActorPipe, Error, HandlerId, Repeat, Result, SocketType, ZActor, ZContext, ZFrame, ZLoop, ZMsg,
    ZSock, clock,
};

const STATISTICS_EVERY: Duration = Duration::from_secs(5);
const LARGEST: u32 = 5_000_000; // a second or two of work
const ATTEMPTS: u32 = 3;

/// A service that answers requests, and a client that asks it.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Answers requests until Ctrl-C.
    Serve {
        /// Where to listen.
        #[arg(default_value = "tcp://127.0.0.1:5555")]
        endpoint: String,
        /// How long a slow request may take, in milliseconds.
        #[arg(default_value_t = 2000)]
        limit: u64,
    },
    /// Asks once, and again when no answer comes.
    Ask {
        /// Where the service is.
        #[arg(long, default_value = "tcp://127.0.0.1:5555")]
        endpoint: String,
        /// How long to wait for an answer, in milliseconds: longer than the service's limit.
        #[arg(long, default_value_t = 4000)]
        patience: u64,
        /// `echo TEXT`, `statistics` or `primes BELOW`.
        #[arg(required = true)]
        request: Vec<String>,
    },
}

fn main() -> Result<()> {
    sigpipe::reset();
    let role = Args::parse().role;
    let ctx = ZContext::new()?; // catches Ctrl-C
    zkit::orderly(match role {
        Role::Serve { endpoint, limit } => serve(&ctx, &endpoint, Duration::from_millis(limit)),
        Role::Ask { endpoint, patience, request } => {
            ask(&ctx, &endpoint, Duration::from_millis(patience), request.into_iter().collect())
        }
    })
}

fn serve(ctx: &ZContext, endpoint: &str, limit: Duration) -> Result<()> {
    let counter = ZActor::spawn(ctx, count_primes)?;
    let clients = ctx.socket(SocketType::Router)?;
    clients.set_router_mandatory(true)?; // a client that is gone is an error, and not a silence
    println!("Listening at {}, until Ctrl-C", clients.bind(endpoint)?);

    let mut service = Service::new(&clients, &counter, limit);
    let mut zloop = ZLoop::new()?;
    let requests = zloop.reader(&clients, Service::on_request)?;
    counter.reader(&mut zloop, Service::on_result)?;
    zloop.timer(STATISTICS_EVERY, Repeat::Forever, |service: &mut Service<'_>, _| {
        println!("{}", service.statistics());
        Ok(())
    })?;
    zloop.run(&mut service)?;

    println!("Ending, {} unanswered", service.pending.len());
    zloop.pause(requests);
    zloop.set_nonstop(true);
    while !service.pending.is_empty() {
        zloop.turn(&mut service, None)?; // to its answer, or to its time limit
    }
    while let Ok(mut request) = clients.try_recv() {
        let client = request.unwrap().expect("a ROUTER puts the sender in front");
        service.reply(client, "ERROR", "the service is ending");
    }
    println!("{}", service.statistics());
    Ok(()) // dropping the actor waits for its thread
}

struct Service<'a> {
    clients: &'a ZSock,
    counter: &'a ZActor,
    limit: Duration,
    jobs: u64,
    pending: HashMap<u64, Pending>,
    answered: u32,
    timed_out: u32,
}

/// A client that waits for the actor.
struct Pending {
    client: ZFrame,
    limit: HandlerId,
}

impl<'a> Service<'a> {
    fn new(clients: &'a ZSock, counter: &'a ZActor, limit: Duration) -> Self {
        let pending = HashMap::new();
        Service { clients, counter, limit, jobs: 0, pending, answered: 0, timed_out: 0 }
    }

    fn on_request(&mut self, zloop: &mut ZLoop<'a, Self>, mut request: ZMsg) -> Result<()> {
        let client = request.unwrap().expect("a ROUTER puts the sender in front");
        match Request::read(request) {
            Ok(Request::Echo(text)) => self.reply(client, "OK", text),
            Ok(Request::Statistics) => self.reply(client, "OK", self.statistics()),
            Ok(Request::Primes(below)) => self.begin(zloop, client, below)?,
            Err(error) => self.reply(client, "ERROR", error.to_string()), // with `?` it would end us
        }
        Ok(())
    }

    fn begin(&mut self, zloop: &mut ZLoop<'a, Self>, client: ZFrame, below: u32) -> Result<()> {
        let job = self.jobs;
        self.jobs += 1;
        let deadline = clock::mono() + self.limit.as_millis() as u64;
        if let Err(failed) = self.counter.try_send((job, deadline, below)) {
            self.reply(client, "ERROR", failed.error.to_string());
            return Ok(());
        }
        let limit = zloop.timer(self.limit, Repeat::ONCE, move |service: &mut Self, _| {
            service.on_limit(job);
            Ok(())
        })?;
        self.pending.insert(job, Pending { client, limit });
        Ok(())
    }

    fn on_result(&mut self, zloop: &mut ZLoop<'a, Self>, result: Result<ZMsg>) -> Result<()> {
        let mut result = result?; // an actor that is gone ends the service
        // If it is not pending any more, the client has been told that it takes too long.
        if let Some(Pending { client, limit }) = self.pending.remove(&result.pop_u64()?) {
            zloop.cancel(limit);
            self.reply(client, "OK", result.pop_u32()?.to_string());
        }
        Ok(())
    }

    fn on_limit(&mut self, job: u64) {
        if let Some(Pending { client, .. }) = self.pending.remove(&job) {
            self.timed_out += 1;
            self.reply(client, "ERROR", "it takes too long");
        }
    }

    /// Neither waits nor fails: no client can hold up the others, and Ctrl-C takes no reply away.
    fn reply(&mut self, client: ZFrame, status: &'static str, body: impl Into<ZFrame>) {
        match self.clients.try_send((client, "", status, body)) {
            Ok(()) => self.answered += 1,
            Err(failed) => eprintln!("A reply is lost: {failed}"),
        }
    }

    fn statistics(&self) -> String {
        let Service { answered, pending, timed_out, .. } = self;
        format!("{answered} answered, {} pending, {timed_out} timed out", pending.len())
    }
}

enum Request {
    Echo(String),
    Statistics,
    Primes(u32),
}

impl Request {
    fn read(mut msg: ZMsg) -> Result<Request> {
        match msg.pop_str()?.as_str() {
            "echo" => Ok(Request::Echo(msg.pop_str()?)),
            "statistics" => Ok(Request::Statistics),
            "primes" => match msg.pop_parsed()? {
                below if below > LARGEST => Err(Error::other(format!("{LARGEST} is the most"))),
                below => Ok(Request::Primes(below)),
            },
            other => Err(Error::other(format!("there is no request {other:?}"))),
        }
    }
}

/// The actor: a job after the other, in a thread of its own.
fn count_primes(_: &ZContext, pipe: &ActorPipe) -> Result<()> {
    while let Some(mut msg) = pipe.recv()? {
        let (job, deadline, below) = (msg.pop_u64()?, msg.pop_u64()?, msg.pop_u32()?);
        if let Some(count) = primes(below, deadline) {
            pipe.send((job, count))?;
        }
    }
    Ok(())
}

/// How many there are, or nothing when it is too late: then nobody waits for it, but our end may.
fn primes(below: u32, deadline: u64) -> Option<u32> {
    let mut count = 0;
    for n in 2..below {
        if n % 1000 == 0 && clock::mono() >= deadline {
            return None;
        }
        count += u32::from((2..).take_while(|d| d * d <= n).all(|d| n % d != 0));
    }
    Some(count)
}

fn ask(ctx: &ZContext, endpoint: &str, patience: Duration, request: ZMsg) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let service = ctx.req(endpoint)?; // a new one: the last still waits
        service.set_linger(Some(Duration::ZERO))?; // nobody is to take a request that was given up
        service.send(&request)?;
        match service.recv_timeout(patience) {
            Err(Error::Timeout) => println!("No answer from {endpoint}"),
            Err(error) => return Err(error),
            Ok(mut answer) => {
                println!("{}: {}", answer.pop_str()?, answer.pop_str()?);
                return Ok(());
            }
        }
    }
    Err(Error::Timeout)
}
