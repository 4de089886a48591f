//! Five houses, each safer than the one before: who gets in to a server, and who does not.
//!
//!     cargo run --example ironhouse grasslands       # everybody
//!     cargo run --example ironhouse strawhouse       # by address
//!     cargo run --example ironhouse woodhouse        # by name and password
//!     cargo run --example ironhouse stonehouse       # by any key, encrypted
//!     cargo run --example ironhouse ironhouse        # by known key, encrypted
//!
//! Server and clients are in one process here, but talk over TCP as separate processes would.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use zkit::{Error, EventKind, Result, SocketType, ZAuth, ZCert, ZCertStore, ZContext};
use zkit::{ZMonitor, ZSock, orderly};

/// Shows who gets in to a server.
#[derive(Parser)]
struct Args {
    /// How the server is secured.
    house: House,
    /// Where it listens.
    #[arg(default_value = "tcp://127.0.0.1:*")]
    endpoint: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum House {
    Grasslands,
    Strawhouse,
    Woodhouse,
    Stonehouse,
    Ironhouse,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(visit(&Args::parse()))
}

fn visit(args: &Args) -> Result<()> {
    let ctx = ZContext::new()?;
    match args.house {
        House::Grasslands => grasslands(&ctx, &args.endpoint),
        House::Strawhouse => strawhouse(&ctx, &args.endpoint),
        House::Woodhouse => woodhouse(&ctx, &args.endpoint),
        House::Stonehouse => stonehouse(&ctx, &args.endpoint),
        House::Ironhouse => ironhouse(&ctx, &args.endpoint),
    }
}

/// Plain text, and everybody gets in.
fn grasslands(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let server = Server::new(ctx, None)?;
    let endpoint = server.open(endpoint)?;

    let anybody = client(ctx)?;
    anybody.connect(&endpoint)?;
    server.report("anybody", &anybody)
}

/// Plain text, and the address decides. Addresses are easily forged by whoever shares a network.
fn strawhouse(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let auth = ZAuth::new(ctx)?;
    auth.allow(["127.0.0.1"])?;

    let server = Server::new(ctx, None)?;
    server.socket.set_zap_domain("global")?; // without a domain nobody is asked
    let endpoint = server.open(endpoint)?;

    let neighbour = client(ctx)?;
    neighbour.connect(&from("127.0.0.1", &endpoint))?;
    server.report("127.0.0.1", &neighbour)?;

    let stranger = client(ctx)?;
    stranger.connect(&from("127.0.0.2", &endpoint))?;
    server.report("127.0.0.2", &stranger)
}

/// Plain text, and a name and a password decide. Whoever listens in has both.
fn woodhouse(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let auth = ZAuth::new(ctx)?;
    auth.plain("*", [("admin", "secret")])?; // or plain_file, with hashes

    let server = Server::new(ctx, Some("User-Id"))?;
    server.socket.set_zap_domain("global")?;
    server.socket.set_plain_server(true)?;
    let endpoint = server.open(endpoint)?;

    for password in ["secret", "guess"] {
        let admin = client(ctx)?;
        admin.set_plain_username(Some("admin"))?;
        admin.set_plain_password(Some(password))?;
        admin.connect(&endpoint)?;
        server.report(&format!("admin with the password {password:?}"), &admin)?;
    }
    Ok(())
}

/// Encrypted. Clients know the server by its key; the server takes any client.
fn stonehouse(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let server_cert = ZCert::new()?;
    let auth = ZAuth::new(ctx)?;
    auth.curve_any("*")?;

    let server = Server::new(ctx, Some("User-Id"))?;
    server.socket.set_zap_domain("global")?;
    server_cert.apply(&server.socket)?;
    server.socket.set_curve_server(true)?;
    let endpoint = server.open(endpoint)?;

    let anybody = client(ctx)?;
    ZCert::new()?.apply(&anybody)?; // a key just for this connection
    anybody.set_curve_serverkey(server_cert.public_key())?;
    anybody.connect(&endpoint)?;
    server.report("anybody with a key", &anybody)?;

    let mistaken = client(ctx)?;
    ZCert::new()?.apply(&mistaken)?;
    mistaken.set_curve_serverkey(ZCert::new()?.public_key())?;
    mistaken.connect(&endpoint)?;
    server.report("who takes it for another server", &mistaken)
}

/// Encrypted, and the server knows its clients by their keys.
fn ironhouse(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let (server_cert, mut ann_cert) = (ZCert::new()?, ZCert::new()?);
    ann_cert.set_meta("name", "Ann")?;
    let mut known = ZCertStore::memory(); // or a directory of certificates
    known.insert(ann_cert.to_public());
    let auth = ZAuth::new(ctx)?;
    auth.curve("*", known)?;

    let server = Server::new(ctx, Some("name"))?;
    server.socket.set_zap_domain("global")?;
    server_cert.apply(&server.socket)?;
    server.socket.set_curve_server(true)?;
    let endpoint = server.open(endpoint)?;

    for (who, cert) in [("Ann", ann_cert), ("a stranger", ZCert::new()?)] {
        let client = client(ctx)?;
        cert.apply(&client)?;
        client.set_curve_serverkey(server_cert.public_key())?;
        client.connect(&endpoint)?;
        server.report(who, &client)?;
    }
    Ok(())
}

/// A server, and what happens at its door.
struct Server {
    socket: ZSock,
    door: ZMonitor,
    /// What of a message tells who sent it. Only what the authenticator vouches for is to be believed:
    /// on a socket without one, peers may say they are anybody.
    known_by: Option<&'static str>,
}

impl Server {
    fn new(ctx: &ZContext, known_by: Option<&'static str>) -> Result<Server> {
        let socket = ctx.socket(SocketType::Pull)?;
        let door = ZMonitor::new(&socket)?;
        Ok(Server { socket, door, known_by })
    }

    fn open(&self, endpoint: &str) -> Result<String> {
        let endpoint = self.socket.bind(endpoint)?;
        println!("The server is at {endpoint}");
        Ok(endpoint)
    }

    /// Tells whether the client gets in.
    fn report(&self, who: &str, client: &ZSock) -> Result<()> {
        // Who was refused already has nobody left to send to.
        match client.try_send("Hello") {
            Err(failed) if !failed.error.is_would_block() => return Err(failed.error),
            _ => {}
        }
        loop {
            let Some(event) = self.door.recv_timeout(Duration::from_secs(10))? else {
                return Err(Error::other("the server is closed"));
            };
            match event.kind {
                EventKind::HandshakeSucceeded => break,
                EventKind::HandshakeFailedAuth => {
                    println!("{who}: refused with status {}", event.value);
                    return Ok(());
                }
                EventKind::HandshakeFailedProtocol => {
                    println!("{who}: does not understand the server");
                    return Ok(());
                }
                _ => {}
            }
        }
        let hello = self.socket.recv_frame()?;
        match self.known_by.and_then(|property| hello.metadata(property)) {
            Some(name) => println!("{who}: gets in, known as {name}"),
            None => println!("{who}: gets in"),
        }
        Ok(())
    }
}

/// A client that tries to get in once.
fn client(ctx: &ZContext) -> Result<ZSock> {
    let socket = ctx.socket(SocketType::Push)?;
    socket.set_reconnect_ivl(None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(socket)
}

/// The endpoint, to be connected to from an address of this machine.
fn from(address: &str, endpoint: &str) -> String {
    endpoint.replacen("tcp://", &format!("tcp://{address}:0;"), 1)
}
