//! Who may talk to whom: certificates, and who is let in.

mod cert;
mod file;
mod password;
mod refuser;
mod rules;
mod store;
mod z85;
mod zap;
mod zpl;

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use ipnet::IpNet;

use crate::actor::{ActorPipe, ZActor};
use crate::context::ZContext;
use crate::error::{Error, Reason, Result};
use crate::msg::ZMsg;
use crate::thread;
use crate::zloop::ZLoop;

use password::{PasswordFile, Users};
use refuser::HandlerSocket;
use rules::{Admitted, Curve, Plain, Refusal, Rules};
use zap::{Request, Status};

pub use cert::ZCert;
pub use store::ZCertStore;

/// Says who is let in: an actor that libzmq asks about every peer of a context's sockets that have security
/// (CZMQ's `zauth`, pyzmq's `ThreadAuthenticator`, a handler of [ZAP](https://rfc.zeromq.org/spec/27)).
///
/// ```
/// use zkit::{SocketType, ZAuth, ZContext};
///
/// let ctx = ZContext::new()?;
/// let auth = ZAuth::new(&ctx)?; // before anything is bound
/// auth.deny(["10.0.0.0/8", "192.168.1.7"])?;
/// auth.plain("*", [("alice", "secret")])?;
///
/// let server = ctx.socket(SocketType::Rep)?;
/// server.set_zap_domain("global")?;
/// server.set_plain_server(true)?;
/// let endpoint = server.bind("tcp://127.0.0.1:*")?;
///
/// let client = ctx.socket(SocketType::Req)?;
/// client.set_plain_username(Some("alice"))?;
/// client.set_plain_password(Some("secret"))?;
/// client.connect(&endpoint)?;
///
/// client.send("Hello")?;
/// let hello = server.recv_frame()?;
/// assert_eq!(hello.metadata("User-Id"), Some("alice"));
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// A rule holds when the call that makes it returns, for connections from then on. Those that are
/// there stay. The call waits for the authenticator, which may be checking a password just then.
///
/// # Which sockets ask
///
/// * A PLAIN or CURVE server asks about every peer.
/// * **A socket without either (NULL) asks only if it has a [ZAP domain](crate::ZSock::set_zap_domain).
///   Without one everybody gets in, whatever the rules.** It is unencrypted in any case.
/// * Connections over `inproc` stay in the process, and are never asked about.
///
/// # The rules
///
/// First the address decides. [`deny`](ZAuth::deny) wins over [`allow`](ZAuth::allow); once an
/// address is allowed, all that are not are denied. What addresses are let through proves itself by its
/// mechanism:
///
/// | mechanism | without a rule | rules |
/// |---|---|---|
/// | NULL | let in, as by CZMQ: it has nothing to show but its address | |
/// | PLAIN | refused | [`plain`](ZAuth::plain), [`plain_file`](ZAuth::plain_file), [`plain_with`](ZAuth::plain_with) |
/// | CURVE | refused | [`curve`](ZAuth::curve), [`curve_any`](ZAuth::curve_any), [`curve_with`](ZAuth::curve_with) |
/// | GSSAPI | refused | none |
///
/// Addresses are ruled for all domains. PLAIN and CURVE have one rule for each domain, as with pyzmq;
/// that for `"*"` is for domains that have none of their own, and for sockets without a domain. A new
/// rule takes the place of the one before.
///
/// # Who is it?
///
/// The frames of who was let in tell: `frame.metadata("User-Id")` is the name by PLAIN, the public key
/// in Z85 by CURVE, and empty by NULL. A certificate of the store adds its own metadata, such as
/// `frame.metadata("email")`, which the *server's* copy of it says.
///
/// Peers say something about themselves too, and libzmq puts that with the rest, behind what ZAuth says. So
/// `User-Id` is to be believed on sockets that ask, and only there; other metadata only if the
/// certificate has it.
///
/// # While there is no ZAuth
///
/// | | before the first | after the last |
/// |---|---|---|
/// | with a ZAP domain | nobody is let in | nobody is let in |
/// | PLAIN server | nobody is let in | nobody is let in |
/// | CURVE server without a domain | **everybody**: encryption without authentication, as libzmq has it | nobody is let in |
/// | NULL without a domain | **everybody** | **everybody** |
///
/// How it ended makes no difference: stopped, dropped or panicked. A later ZAuth of the context takes over, and
/// peers that were not let in meanwhile try again when their handshake has run out
/// ([`handshake_ivl`](crate::ZSock::set_handshake_ivl), 30 s). Those that a rule refuses do not, nor those
/// that come between a ZAuth's start and its rules. (With CZMQ, and libzmq by itself, everybody is let in
/// when the authenticator is gone, but for PLAIN.)
///
/// A context has one ZAuth, or another ZAP handler, at a time.
///
/// # What is logged
///
/// At `debug`, who was let in or refused, and why; at `warn`, what keeps a rule from being applied. Neither
/// passwords nor keys. A refused peer is told only that it is; a
/// [`ZMonitor`](crate::ZMonitor) of the server's socket tells of it
/// ([`HandshakeFailedAuth`](crate::EventKind::HandshakeFailedAuth)).
///
/// # How it ends
///
/// As an actor it goes on through Ctrl-C, until [`stop`](ZAuth::stop) or drop, which wait for it.
#[doc(alias("zauth", "ThreadAuthenticator", "ZAP"))]
pub struct ZAuth {
    actor: ZActor,
    commands: Sender<Command>,
    /// How many commands were given.
    given: Cell<u64>,
}

/// A peer that asks to be let in, for a callback ([`ZAuth::plain_with`], [`ZAuth::curve_with`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthRequest<'a> {
    /// The ZAP domain of the socket that it wants to talk to; empty when it has none.
    pub domain: &'a str,
    /// Its IP address, without a port. Over `ipc` it is no IP address.
    pub address: &'a str,
    /// The identity of the socket that it wants to talk to, which libzmq tells for the peer's.
    pub identity: &'a [u8],
}

/// A change of the rules.
type Command = Box<dyn FnOnce(&mut Rules) + Send>;

impl ZAuth {
    /// Starts the authenticator of a context. It has no rules yet.
    ///
    /// # Errors
    /// [`Error::Bind`] when the context has one, or another ZAP handler; as
    /// [`ZContext::socket`] and [`ZActor::spawn`].
    pub fn new(ctx: &ZContext) -> Result<ZAuth> {
        let socket = HandlerSocket::take(ctx)?;
        let (commands, given) = mpsc::channel();
        let actor = ZActor::spawn(ctx, move |_, pipe| serve(pipe, &socket, &given))?;
        Ok(ZAuth { actor, commands, given: Cell::new(0) })
    }

    /// Lets peers from these IP addresses and networks in, and from then on from no others. By PLAIN and
    /// CURVE they still have to prove who they are. Peers over `ipc` have no IP address, and so are denied.
    ///
    /// Networks are written in CIDR notation, as `192.168.0.0/16` or `fe80::/10`. An IPv4 address
    /// is the same if it comes over IPv6. Names of hosts are not looked up.
    ///
    /// ```
    /// use zkit::{Error, ZAuth, ZContext};
    ///
    /// let ctx = ZContext::new()?;
    /// let auth = ZAuth::new(&ctx)?;
    /// auth.allow(["127.0.0.1", "::1", "192.168.0.0/16"])?;
    /// auth.deny(["192.168.66.0/24"])?; // wins over allow
    /// assert!(matches!(auth.allow(["localhost"]), Err(Error::Auth { .. })));
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Auth`] for what is no address, and no rule is changed; [`Error::Ended`] when the
    /// authenticator is gone; [`Error::Terminated`]; [`Error::Interrupted`], after which the rule may or
    /// may not hold.
    pub fn allow<A: AsRef<str>>(&self, addresses: impl IntoIterator<Item = A>) -> Result<()> {
        let nets = parse_nets("allow", addresses)?;
        self.tell(move |rules| rules.allowed.extend(nets))
    }

    /// Refuses peers from these IP addresses and networks, even where they are allowed.
    ///
    /// # Errors
    /// As [`allow`](ZAuth::allow).
    pub fn deny<A: AsRef<str>>(&self, addresses: impl IntoIterator<Item = A>) -> Result<()> {
        let nets = parse_nets("deny", addresses)?;
        self.tell(move |rules| rules.denied.extend(nets))
    }

    /// Lets in by PLAIN who has one of these names with its password, on sockets with this ZAP
    /// domain; `"*"` is for those of [no rule of their own](ZAuth#the-rules). No names at all let
    /// nobody in.
    ///
    /// # Errors
    /// [`Error::Auth`] when a name or a password is longer than 255 bytes or a name contains a NUL character;
    /// as [`allow`](ZAuth::allow).
    pub fn plain<N: Into<String>, P: Into<Vec<u8>>>(
        &self,
        domain: &str,
        users: impl IntoIterator<Item = (N, P)>,
    ) -> Result<()> {
        let users = users.into_iter().map(|(name, password)| (name.into(), password.into()));
        let users = Users::new(users)
            .map_err(|(name, why)| cannot(format!("let {name:?} in"), Reason::new(why)))?;
        self.set_plain(domain, Plain::Users(users))
    }

    /// Lets in by PLAIN who is in a file of names and hashed passwords. It is read again when it changes;
    /// while it cannot be read, nobody is let in.
    ///
    /// It has lines of `name:hash`, where the hash is what
    /// [`hash_password`](ZAuth::hash_password) makes (a PHC string by Argon2); those that start with `#` are comments.
    ///
    /// A hash is slow to check on purpose, about 20 ms, and peers are checked one after the other. Where many
    /// come at once, or anybody can, CURVE is faster.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("passwords");
    /// use zkit::{ZAuth, ZContext};
    ///
    /// let ctx = ZContext::new()?;
    /// let auth = ZAuth::new(&ctx)?;
    /// let line = format!("alice:{}\n", ZAuth::hash_password("secret")?);
    /// std::fs::write(&path, line)?;
    /// auth.plain_file("*", &path)?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Auth`] when the file cannot be read, with the line; as [`allow`](ZAuth::allow).
    pub fn plain_file(&self, domain: &str, path: impl AsRef<Path>) -> Result<()> {
        let file = PasswordFile::open(path.as_ref()).map_err(|unreadable| {
            cannot("use the password file".into(), Reason::new(unreadable.to_string()))
        })?;
        self.set_plain(domain, Plain::File(file))
    }

    /// Lets in by PLAIN whom `callback` says: it gets the peer, its name and its password. It runs in
    /// the authenticator's thread, one peer at a time. If it panics, the peer is refused.
    ///
    /// Compare passwords in constant time, for which there is the crate `subtle`.
    ///
    /// ```
    /// use zkit::{AuthRequest, ZAuth, ZContext};
    ///
    /// # fn check(name: &str, password: &[u8]) -> bool { name == "alice" && password == b"secret" }
    /// let ctx = ZContext::new()?;
    /// let auth = ZAuth::new(&ctx)?;
    /// auth.plain_with("admin", |peer: &AuthRequest<'_>, name, password| {
    ///     peer.address == "127.0.0.1" && check(name, password)
    /// })?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`allow`](ZAuth::allow).
    pub fn plain_with(
        &self,
        domain: &str,
        callback: impl FnMut(&AuthRequest<'_>, &str, &[u8]) -> bool + Send + 'static,
    ) -> Result<()> {
        self.set_plain(domain, Plain::Callback(Box::new(callback)))
    }

    fn set_plain(&self, domain: &str, plain: Plain) -> Result<()> {
        let domain = domain.to_owned();
        self.tell(move |rules| drop(rules.plain.insert(domain, plain)))
    }

    /// Lets in by CURVE whose public key is in the store, which is asked for each peer.
    ///
    /// ```
    /// use zkit::{ZAuth, ZCert, ZCertStore, ZContext};
    ///
    /// # if !zkit::engine().curve {
    /// #     return Ok(());
    /// # }
    /// let ctx = ZContext::new()?;
    /// let (server_cert, ann) = (ZCert::new()?, ZCert::new()?);
    ///
    /// let mut store = ZCertStore::memory(); // or a directory
    /// store.insert(ann.to_public());
    /// let auth = ZAuth::new(&ctx)?;
    /// auth.curve("*", store)?;
    ///
    /// let server = ctx.rep("")?;
    /// server.set_zap_domain("global")?;
    /// server.set_curve_server(true)?;
    /// server_cert.apply(&server)?;
    /// let endpoint = server.bind("tcp://127.0.0.1:*")?;
    ///
    /// let client = ctx.req("")?;
    /// ann.apply(&client)?;
    /// client.set_curve_serverkey(server_cert.public_key())?;
    /// client.connect(&endpoint)?;
    /// client.send("it is me")?;
    /// let hello = server.recv_frame()?;
    /// assert_eq!(hello.metadata("User-Id"), Some(&*ann.public_text()));
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`allow`](ZAuth::allow).
    pub fn curve(&self, domain: &str, store: ZCertStore) -> Result<()> {
        self.set_curve(domain, Curve::Store(store))
    }

    /// Lets in by CURVE whoever has a key: encryption without authentication (CZMQ's `CURVE_ALLOW_ANY`).
    ///
    /// # Errors
    /// As [`allow`](ZAuth::allow).
    pub fn curve_any(&self, domain: &str) -> Result<()> {
        self.set_curve(domain, Curve::Any)
    }

    /// Lets in by CURVE whom `callback` says: it gets the peer and its public key. It runs in the
    /// authenticator's thread, one peer at a time. If it panics, the peer is refused.
    ///
    /// # Errors
    /// As [`allow`](ZAuth::allow).
    pub fn curve_with(
        &self,
        domain: &str,
        callback: impl FnMut(&AuthRequest<'_>, &[u8; 32]) -> bool + Send + 'static,
    ) -> Result<()> {
        self.set_curve(domain, Curve::Callback(Box::new(callback)))
    }

    fn set_curve(&self, domain: &str, curve: Curve) -> Result<()> {
        let domain = domain.to_owned();
        self.tell(move |rules| drop(rules.curve.insert(domain, curve)))
    }

    /// Hashes a password for a [password file](ZAuth::plain_file): a PHC string by Argon2id, with a salt of
    /// its own. It takes some 20 ms and 19 MiB, on purpose.
    ///
    /// # Errors
    /// [`Error::Auth`] when the password is longer than PLAIN has room for, 255 bytes.
    pub fn hash_password(password: impl AsRef<[u8]>) -> Result<String> {
        let password = password.as_ref();
        let failed = |why: String| cannot("hash a password".into(), Reason::new(why));
        if password.len() > 255 {
            return Err(failed("it is longer than 255 bytes".into()));
        }
        password::hash(password).map_err(|error| failed(error.to_string()))
    }

    /// Whether the authenticator is at work. It ends by itself when its context is shut down.
    pub fn is_running(&self) -> bool {
        self.actor.is_running()
    }

    /// Ends the authenticator, as dropping it does. Nobody is let in any more who would have to
    /// be asked about.
    ///
    /// # Errors
    /// What has ended the authenticator before.
    pub fn stop(self) -> Result<()> {
        self.actor.stop()
    }

    fn tell(&self, command: impl FnOnce(&mut Rules) + Send + 'static) -> Result<()> {
        let number = self.given.get();
        self.given.set(number + 1);
        // If nobody is there to take it, nobody takes the message either.
        let _ = self.commands.send(Box::new(command));
        self.actor.send(number)?;
        // An interrupt may have left answers to earlier ones.
        while self.actor.recv()? != number.into() {}
        Ok(())
    }
}

impl fmt::Debug for ZAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZAuth").field("actor", &self.actor).finish()
    }
}

fn parse_nets<A: AsRef<str>>(
    what: &str,
    addresses: impl IntoIterator<Item = A>,
) -> Result<Vec<IpNet>> {
    let parse = |address: A| {
        let address = address.as_ref();
        rules::parse_net(address).ok_or_else(|| {
            let why = "it is neither an IP address nor a network such as 192.168.0.0/16";
            cannot(format!("{what} {address:?}"), Reason::new(why))
        })
    };
    addresses.into_iter().map(parse).collect()
}

fn cannot(what: String, reason: Reason) -> Error {
    Error::Auth { what, reason }
}

/// The actor: answers libzmq by the rules, which its owner changes.
fn serve(pipe: &ActorPipe, socket: &HandlerSocket, given: &Receiver<Command>) -> Result<()> {
    let router = socket.router();
    let mut zloop = ZLoop::new()?;
    zloop.reader(router, |rules: &mut Rules, _, request| {
        match answer(rules, request) {
            // What is not for anybody is dropped: a peer that has given up needs no answer.
            Some(reply) => Ok(router.try_send(reply)?),
            None => Ok(()),
        }
    })?;
    pipe.reader(&mut zloop, |rules, _, number| {
        for command in given.try_iter() {
            // What it drops may be the program's.
            let change = || {
                command(rules);
                Ok(())
            };
            if thread::catch(change).is_err() {
                log::error!("a rule of a ZAuth panicked when it was replaced");
            }
        }
        Ok(pipe.send(number)?)
    })?;
    zloop.run(&mut Rules::default())?;
    Ok(())
}

/// What to reply to a request in its envelope; nothing if it has none.
fn answer(rules: &mut Rules, mut request: ZMsg) -> Option<ZMsg> {
    let envelope = request.unwrap()?;
    let mut reply = judge(rules, &request);
    reply.wrap(envelope);
    Some(reply)
}

fn judge(rules: &mut Rules, request: &ZMsg) -> ZMsg {
    let id = zap::id_of(request);
    let request = match Request::parse(request) {
        Ok(request) => request,
        Err(why) => {
            log::debug!("refused a request of {} frame(s): {why}", request.len());
            return zap::reply(id, Status::Refused, "", []);
        }
    };
    match thread::catch(|| Ok(rules.judge(&request))) {
        Ok(Ok(Admitted { user, cert })) => {
            log::debug!("let in {request:?}");
            let metadata = cert.iter().flat_map(ZCert::metadata);
            zap::reply(id, Status::LetIn, &user, metadata)
        }
        Ok(Err(Refusal { status, why })) => {
            log::debug!("refused {request:?}: {why}");
            zap::reply(id, status, "", [])
        }
        Err(_panic) => {
            log::error!("refused {request:?}: what decides on it panicked");
            zap::reply(id, Status::Failed, "", [])
        }
    }
}
