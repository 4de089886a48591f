//! Opens many connections.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use zkit::interrupt;

/// How many are opened at a time, and how long the server then has to accept them: its queue of
/// those that wait for it is not to run over.
const WAVE: usize = 64;
const PAUSE: Duration = Duration::from_millis(1);
/// How long a wave may take, and after what time who was refused tries again.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);

/// Connects to each of `addresses`, and tells `opened` how many are open.
pub(super) fn open(addresses: &[SocketAddr], opened: impl Fn(usize)) -> Result<Vec<TcpStream>> {
    let mut poll = Poll::new().context("cannot poll")?;
    let mut streams = Vec::with_capacity(addresses.len());
    for wave in addresses.chunks(WAVE) {
        streams.append(&mut open_wave(&mut poll, wave)?);
        opened(streams.len());
        thread::sleep(PAUSE);
    }
    Ok(streams)
}

fn open_wave(poll: &mut Poll, addresses: &[SocketAddr]) -> Result<Vec<TcpStream>> {
    let give_up = Instant::now() + PATIENCE;
    let mut wave: Vec<Attempt> = addresses.iter().map(Attempt::new).collect();
    let mut events = Events::with_capacity(WAVE);
    loop {
        let again = Instant::now() + RETRY;
        for (key, attempt) in wave.iter_mut().enumerate() {
            attempt.start(poll.registry(), Token(key))?;
        }
        while wave.iter().any(|attempt| matches!(attempt.state, State::Connecting(_))) {
            let left = again.saturating_duration_since(Instant::now());
            match poll.poll(&mut events, Some(left)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                polled => polled.context("cannot poll")?,
            }
            for event in &events {
                wave[event.token().0].settle(poll.registry())?;
            }
            if left.is_zero() {
                break;
            }
        }
        let Some(missing) = wave.iter().find(|attempt| !attempt.is_connected()) else {
            return Ok(wave.into_iter().filter_map(Attempt::into_stream).collect());
        };
        if interrupt::is_interrupted() {
            bail!("interrupted while connecting to {}", missing.address);
        }
        if Instant::now() > give_up {
            bail!("cannot connect to {}: {}", missing.address, missing.why());
        }
        thread::sleep(again.saturating_duration_since(Instant::now()));
    }
}

struct Attempt {
    address: SocketAddr,
    state: State,
}

enum State {
    New,
    Refused(io::Error),
    Connecting(TcpStream),
    Connected(TcpStream),
}

impl Attempt {
    fn new(address: &SocketAddr) -> Attempt {
        Attempt { address: *address, state: State::New }
    }

    /// Starts to connect, unless that is under way or done.
    fn start(&mut self, registry: &Registry, token: Token) -> Result<()> {
        if matches!(self.state, State::New | State::Refused(_)) {
            let connecting = TcpStream::connect(self.address).and_then(|mut stream| {
                registry.register(&mut stream, token, Interest::WRITABLE)?;
                Ok(stream)
            });
            self.state = match connecting {
                Ok(stream) => State::Connecting(stream),
                Err(error) => self.refused(error)?,
            };
        }
        Ok(())
    }

    /// Looks at what came of it.
    fn settle(&mut self, registry: &Registry) -> Result<()> {
        self.state = match mem::replace(&mut self.state, State::New) {
            State::Connecting(mut stream) => match is_connected(&stream) {
                Ok(true) => {
                    registry.deregister(&mut stream).context("cannot end watching a socket")?;
                    State::Connected(stream)
                }
                Ok(false) => State::Connecting(stream),
                Err(error) => self.refused(error)?,
            },
            settled => settled,
        };
        Ok(())
    }

    /// Only a server that is not there yet is worth another attempt.
    fn refused(&self, error: io::Error) -> Result<State> {
        match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Ok(State::Refused(error)),
            _ => Err(error).with_context(|| format!("cannot connect to {}", self.address)),
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected(_))
    }

    fn why(&self) -> String {
        match &self.state {
            State::Refused(error) => error.to_string(),
            _ => format!("no answer for {} seconds", PATIENCE.as_secs()),
        }
    }

    fn into_stream(self) -> Option<TcpStream> {
        match self.state {
            State::Connected(stream) => Some(stream),
            _ => None,
        }
    }
}

fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
