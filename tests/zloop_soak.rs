//! Many sockets in one loop that all send on each other: nothing lost, nothing stalled, all in
//! order.

mod common;

use std::env;
use std::rc::Rc;
use std::time::{Duration, Instant};

use zkit::{Error, Exit, Repeat, SocketType, ZContext, ZLoop, ZMsg, ZSock};

use common::{unique, within};

const PAIRS: usize = 25;
const MESSAGES: usize = 200_000;
/// How many are under way at once: so many that most handlers find more, which takes half the time,
/// and now and then so few that nearly all sockets are empty and the loop sleeps.
const MANY: usize = 1_000;
const FEW: usize = 10;
const NO_NEWS: Duration = Duration::from_secs(5);

/// A way between two sockets of the loop, used in one direction or both.
struct Link {
    from: Rc<ZSock>,
    sent: u64,
    received: u64,
    /// A REQ waits for its reply, and only REP may answer it.
    free: bool,
}

struct Soak {
    links: Vec<Link>,
    random: fastrand::Rng,
    left: usize,
    under_way: usize,
    last: Instant,
}

impl Soak {
    /// What a handler does: one message brings forth another, or two or none to have as many under
    /// way as there should be.
    fn send_on(&mut self) -> zkit::Result<()> {
        let wanted = if self.left / 1_000 % 20 == 5 { FEW } else { MANY };
        for _ in 0..2 {
            if self.under_way < wanted {
                self.send_somewhere()?;
            }
        }
        Ok(())
    }

    /// Sends the next number on some link that can take one.
    fn send_somewhere(&mut self) -> zkit::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let start = self.random.usize(..self.links.len());
        for step in 0..self.links.len() {
            let index = (start + step) % self.links.len();
            let link = &mut self.links[index];
            if !link.free {
                continue;
            }
            let message = numbered(link.from.socket_type(), link.sent);
            match link.from.try_send(message) {
                Ok(()) => {}
                Err(error) if error.error.is_would_block() => continue,
                Err(error) => return Err(error.into()),
            }
            link.sent += 1;
            link.free = link.from.socket_type() != SocketType::Req;
            self.left -= 1;
            self.under_way += 1;
            return Ok(());
        }
        Err(Error::other("no link takes a message"))
    }

    fn received(&mut self, link: usize, msg: &ZMsg) -> zkit::Result<()> {
        let number = msg.last().map(|frame| u64::from_be_bytes(frame[..8].try_into().unwrap()));
        let link = &mut self.links[link];
        if number != Some(link.received) {
            return Err(Error::other(format!("{number:?} instead of {}", link.received)));
        }
        link.received += 1;
        self.under_way -= 1;
        self.last = Instant::now();
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.links.iter().all(|link| link.sent == link.received && link.free)
    }
}

/// Some in one frame, some in three.
fn numbered(socket_type: SocketType, number: u64) -> ZMsg {
    let number = number.to_be_bytes().to_vec();
    match socket_type {
        SocketType::Router => ("peer", number).into(),
        _ if number[7] % 3 == 0 => ("head", "", number).into(),
        _ => number.into(),
    }
}

/// The sockets of a pair, and which of them may send by themselves.
fn pair(ctx: &ZContext, index: usize) -> [(Rc<ZSock>, bool); 2] {
    // One pair of each type over TCP, which takes more time than everything else.
    let endpoint = if index < 5 {
        "tcp://127.0.0.1:*".to_owned()
    } else {
        format!("inproc://{}", unique("soak"))
    };
    use SocketType::{Dealer, Pair, Pull, Push, Rep, Req, Router};
    let (here, there, senders) = match index % 5 {
        0 => (Pair, Pair, [true, true]),
        1 => (Pull, Push, [false, true]),
        2 => (Dealer, Dealer, [true, true]),
        3 => (Rep, Req, [false, true]),
        _ => (Router, Dealer, [true, true]),
    };
    let (here, there) = (ctx.socket(here).unwrap(), ctx.socket(there).unwrap());
    if there.socket_type() == Dealer {
        there.set_identity("peer").unwrap();
    }
    let endpoint = here.bind(&endpoint).unwrap();
    there.connect(&endpoint).unwrap();
    if here.socket_type() == Router {
        // A ROUTER may send when it knows its peer.
        there.send("hello").unwrap();
        assert_eq!(here.recv_timeout(NO_NEWS).unwrap().len(), 2);
        here.set_router_mandatory(true).unwrap();
    }
    [(Rc::new(here), senders[0]), (Rc::new(there), senders[1])]
}

fn soak(messages: usize) {
    let ctx = ZContext::builder().signals(false).linger(Some(Duration::ZERO)).build().unwrap();
    let mut zloop = ZLoop::<Soak>::new().unwrap();
    let mut links = Vec::new();
    for index in 0..PAIRS {
        let sockets = pair(&ctx, index);
        for (side, (from, sends)) in sockets.iter().enumerate() {
            if !sends {
                continue;
            }
            let link = links.len();
            links.push(Link { from: Rc::clone(from), sent: 0, received: 0, free: true });
            let to = &sockets[1 - side].0;
            if from.socket_type() == SocketType::Req {
                let rep = Rc::clone(to);
                zloop
                    .reader(Rc::clone(to), move |soak: &mut Soak, _, msg| {
                        soak.received(link, &msg)?;
                        Ok(rep.send(msg)?)
                    })
                    .unwrap();
                zloop
                    .reader(Rc::clone(from), move |soak: &mut Soak, _, _| {
                        soak.links[link].free = true;
                        soak.send_on()
                    })
                    .unwrap();
            } else if link % 4 == 0 {
                zloop
                    .readable(Rc::clone(to), move |soak: &mut Soak, _, socket| {
                        soak.received(link, &socket.try_recv()?)?;
                        soak.send_on()
                    })
                    .unwrap();
            } else {
                zloop
                    .reader(Rc::clone(to), move |soak: &mut Soak, _, msg| {
                        soak.received(link, &msg)?;
                        soak.send_on()
                    })
                    .unwrap();
            }
        }
    }
    zloop
        .timer(Duration::from_millis(1), Repeat::Forever, |soak: &mut Soak, zloop| {
            if soak.is_done() {
                zloop.stop();
            }
            if soak.last.elapsed() > NO_NEWS {
                let waiting: Vec<String> = soak
                    .links
                    .iter()
                    .filter(|link| link.sent != link.received || !link.free)
                    .map(|link| {
                        format!("{} {}/{}", link.from.socket_type(), link.received, link.sent)
                    })
                    .collect();
                return Err(Error::other(format!("stalled, {} left: {waiting:?}", soak.left)));
            }
            Ok(())
        })
        .unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let random = fastrand::Rng::with_seed(seed);
    let mut soak = Soak { links, random, left: messages, under_way: 0, last: Instant::now() };
    for _ in 0..FEW {
        soak.send_somewhere().unwrap();
    }
    let start = Instant::now();
    let exit = zloop.run(&mut soak).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(exit, Exit::Stopped);
    let received: u64 = soak.links.iter().map(|link| link.received).sum();
    assert_eq!(received, messages as u64);
    println!("{messages} messages in {:?}", start.elapsed());
}

/// `ZKIT_SOAK_MESSAGES` sets how many.
#[test]
fn fifty_sockets_that_send_on_each_other_lose_nothing() {
    let messages = env::var("ZKIT_SOAK_MESSAGES").ok();
    let messages = messages.map_or(MESSAGES, |count| count.parse().expect("a number"));
    within(Duration::from_secs(300), "the soak", move || soak(messages));
}
