//! One loop for everything: plain TCP clients, a ROUTER, a timer and Ctrl-C.
//!
//! TCP clients send lines, ZeroMQ clients send messages, and both get them back in capitals. A timer
//! says once a second how many there were. It is a template for programs that have to mix.
//!
//!     cargo run --release --example tripping
//!     printf 'hello\n' | nc localhost 5570

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use mio::Interest;
use mio::net::{TcpListener, TcpStream};
use zkit::{Error, Events, HandlerId, Repeat, Result, ZContext, ZLoop, ZMsg, ZSock, orderly};

/// Gives lines and messages back in capitals.
#[derive(Parser)]
struct Args {
    /// Where TCP clients connect.
    #[arg(default_value = "127.0.0.1:5570")]
    tcp: SocketAddr,
    /// Where ZeroMQ clients connect.
    #[arg(default_value = "tcp://127.0.0.1:5571")]
    router: String,
    /// How often to say what was served, in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(serve(&Args::parse()))
}

fn serve(args: &Args) -> Result<()> {
    let ctx = ZContext::new()?;
    let router = ctx.router("")?;
    println!("Messages at {}", router.bind(&args.router)?);
    let listener = TcpListener::bind(args.tcp).map_err(|source| Error::Io {
        what: format!("cannot listen at {}", args.tcp).into(),
        source,
    })?;
    println!("Lines at {}", listener.local_addr()?);

    let mut zloop = ZLoop::new()?;
    zloop.reader(&router, Server::on_message)?;
    zloop.source(listener, Interest::READABLE, Server::on_listener)?;
    let every = Duration::from_millis(args.every);
    zloop.timer(every, Repeat::Forever, Server::on_timer)?;

    let mut server =
        Server { router: &router, clients: HashMap::new(), next: 0, lines: 0, messages: 0 };
    zloop.run(&mut server)?; // until Ctrl-C
    println!("Served {} lines and {} messages", server.lines, server.messages);
    Ok(())
}

struct Server<'a> {
    router: &'a ZSock,
    /// The handler of each TCP client, to cancel it when the client is gone.
    clients: HashMap<u64, HandlerId>,
    next: u64,
    lines: u64,
    messages: u64,
}

impl<'a> Server<'a> {
    fn on_message(&mut self, _: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        self.messages += 1;
        if let Some(content) = msg.last_mut() {
            content.reset(content.to_ascii_uppercase());
        }
        self.router.send(msg)?;
        Ok(())
    }

    /// An event is told once, so accept until there is nobody left.
    fn on_listener(
        &mut self,
        zloop: &mut ZLoop<'a, Self>,
        listener: &mut TcpListener,
        _: Events,
    ) -> Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Whoever connected is gone again, or there are too many: the others are served.
                Err(error) => {
                    eprintln!("cannot accept: {error}");
                    return Ok(());
                }
            };
            let number = self.next;
            self.next += 1;
            let mut client = Client { number, input: Vec::new(), output: Vec::new() };
            let both = Interest::READABLE | Interest::WRITABLE;
            let id = zloop.source(stream, both, move |server: &mut Self, zloop, stream, _| {
                client.on_stream(server, zloop, stream)
            })?;
            self.clients.insert(number, id);
        }
    }

    fn on_timer(&mut self, _: &mut ZLoop<'a, Self>) -> Result<()> {
        let (clients, lines, messages) = (self.clients.len(), self.lines, self.messages);
        println!("{clients} clients, {lines} lines, {messages} messages");
        Ok(())
    }
}

/// The longest line, and the most that a client may leave unread.
const LIMIT: usize = 64 * 1024;

struct Client {
    number: u64,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    fn on_stream<'a>(
        &mut self,
        server: &mut Server<'a>,
        zloop: &mut ZLoop<'a, Server<'a>>,
        stream: &mut TcpStream,
    ) -> Result<()> {
        if !self.converse(server, stream) {
            if let Some(id) = server.clients.remove(&self.number) {
                zloop.cancel(id);
            }
        }
        Ok(())
    }

    /// Reads and writes until the stream would block. Whether the client is still there.
    fn converse(&mut self, server: &mut Server<'_>, stream: &mut TcpStream) -> bool {
        let mut bytes = [0; 4096];
        let mut sends = true;
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => {
                    sends = false;
                    break;
                }
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                self.output.extend(line.to_ascii_uppercase());
                server.lines += 1;
            }
            if self.input.len() > LIMIT || self.output.len() > LIMIT {
                return false;
            }
        }
        while !self.output.is_empty() {
            match stream.write(&self.output) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        // One that sends no more may still read.
        sends || !self.output.is_empty()
    }
}
