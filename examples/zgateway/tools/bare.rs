//! A TCP echo server on mio alone, in one thread: what the gateway is measured against.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;
use zkit::interrupt;

use crate::stream;

/// Sends all bytes of TCP clients back as they are, without zkit and ZeroMQ: to compare with.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where to listen; port 0 is any free one.
    #[arg(long, default_value = "127.0.0.1:8000", value_name = "ADDRESS")]
    pub listen: SocketAddr,
}

const LISTENER: Token = Token(usize::MAX);
const INTERRUPT: Token = Token(usize::MAX - 1);
const BUFFER: usize = 64 * 1024;
/// How often in a row a connection may fill the buffer before others have their turn.
const BUFFERS: usize = 16;

pub fn run(args: &Args) -> Result<()> {
    rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of descriptors")?;
    interrupt::catch()?;
    let mut poll = Poll::new().context("cannot poll")?;
    let interrupts = interrupt::descriptor()?.as_raw_fd();
    poll.registry().register(&mut SourceFd(&interrupts), INTERRUPT, Interest::READABLE)?;
    let mut listener =
        stream::listen(args.listen).with_context(|| format!("cannot listen at {}", args.listen))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("listening at {}", listener.local_addr()?);

    let mut server = Server { listener, connections: Slab::new(), full: false };
    let mut buffer = vec![0; BUFFER];
    let mut events = Events::with_capacity(1024);
    while !interrupt::is_interrupted() {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                return Err(error).context("cannot poll");
            }
            _ => {}
        }
        for event in &events {
            match event.token() {
                INTERRUPT => {}
                LISTENER => server.accept(poll.registry()),
                token => {
                    let closing = event.is_read_closed() || event.is_error();
                    server.echo(poll.registry(), token, closing, &mut buffer);
                }
            }
        }
    }
    Ok(())
}

struct Server {
    listener: TcpListener,
    connections: Slab<Connection>,
    /// Whether a connection waits because there was no descriptor for it.
    full: bool,
}

impl Server {
    fn accept(&mut self, registry: &Registry) {
        self.full = false;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = self.admit(stream, registry) {
                        eprintln!("cannot serve a connection: {error}");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Gone again before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    eprintln!("cannot accept, {} are connected: {error}", self.connections.len());
                    self.full = true;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream, registry: &Registry) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let entry = self.connections.vacant_entry();
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, Token(entry.key()), both)?;
        entry.insert(Connection { stream, unwritten: Vec::new() });
        Ok(())
    }

    fn echo(&mut self, registry: &Registry, token: Token, closing: bool, buffer: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(token.0) else { return };
        let kept = match connection.echo(buffer, closing) {
            Ok(Echoed::All) => true,
            // Tells of it again, after the others.
            Ok(Echoed::Enough) => {
                let both = Interest::READABLE | Interest::WRITABLE;
                registry.reregister(&mut connection.stream, token, both).is_ok()
            }
            Ok(Echoed::Last) | Err(_) => false,
        };
        if !kept {
            self.connections.remove(token.0);
            if self.full {
                self.accept(registry);
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// What the system has not taken yet. Nothing is read until it has.
    unwritten: Vec<u8>,
}

enum Echoed {
    /// What there was, as far as the system takes it.
    All,
    /// There may be more, but others wait.
    Enough,
    /// The client has sent its last.
    Last,
}

impl Connection {
    fn echo(&mut self, buffer: &mut [u8], closing: bool) -> io::Result<Echoed> {
        if !self.unwritten.is_empty() {
            let written = stream::write(&mut self.stream, &self.unwritten)?;
            self.unwritten.drain(..written);
        }
        for _ in 0..BUFFERS {
            if !self.unwritten.is_empty() {
                return Ok(Echoed::All);
            }
            let read = match stream::read(&mut self.stream, buffer)? {
                Some(0) => return Ok(Echoed::Last),
                Some(read) => read,
                None => return Ok(Echoed::All),
            };
            let written = stream::write(&mut self.stream, &buffer[..read])?;
            self.unwritten.extend_from_slice(&buffer[written..read]);
            // A short read was the last of it, unless the end is still to be read: of that, and
            // of what comes from now on, there is an event.
            if read < buffer.len() && !closing {
                return Ok(Echoed::All);
            }
        }
        Ok(Echoed::Enough)
    }
}
