use std::fmt;

use crate::error::{Error, Result};

/// The linked libzmq: its version and what it was built with, as `zmq_has` tells.
///
/// Made by [`engine()`]. `Display` is a line for a log: `libzmq 4.3.5 with ipc, tipc, curve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Engine {
    /// Major, minor, patch.
    pub version: (u32, u32, u32),
    /// The `ipc` transport.
    pub ipc: bool,
    /// The `pgm` and `epgm` transports.
    pub pgm: bool,
    /// The `tipc` transport.
    pub tipc: bool,
    /// The `norm` transport.
    pub norm: bool,
    /// The `vmci` transport.
    pub vmci: bool,
    /// CURVE: keys that authenticate and encrypt.
    pub curve: bool,
    /// GSSAPI: authentication by Kerberos.
    pub gssapi: bool,
    /// The draft interfaces. zkit does not use them.
    pub draft: bool,
}

/// Tells which libzmq is linked, and what it can do.
///
/// It is 4.3.5, compiled with zkit, with all that the target has and, by the default feature `curve`, with
/// CURVE; unless the build links the system's.
///
/// ```
/// let engine = zkit::engine();
/// println!("{engine}");
/// assert!(engine.version >= (4, 3, 0));
/// if !engine.curve {
///     println!("no encryption"); // see "The engine" in the README
/// }
/// ```
#[doc(alias = "zmq_has")]
#[doc(alias = "zmq_version")]
#[doc(alias = "zsys_has_curve")]
pub fn engine() -> Engine {
    let (major, minor, patch) = zmq::version();
    Engine {
        version: (major as u32, minor as u32, patch as u32),
        ipc: has("ipc"),
        pgm: has("pgm"),
        tipc: has("tipc"),
        norm: has("norm"),
        vmci: has("vmci"),
        curve: has("curve"),
        gssapi: has("gssapi"),
        draft: has("draft"),
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.version;
        write!(f, "libzmq {major}.{minor}.{patch}")?;
        let capabilities = [
            ("ipc", self.ipc),
            ("pgm", self.pgm),
            ("tipc", self.tipc),
            ("norm", self.norm),
            ("vmci", self.vmci),
            ("curve", self.curve),
            ("gssapi", self.gssapi),
            ("draft", self.draft),
        ];
        let mut before = " with ";
        for (capability, _) in capabilities.iter().filter(|(_, has)| *has) {
            write!(f, "{before}{capability}")?;
            before = ", ";
        }
        Ok(())
    }
}

/// Refuses `what` where the linked libzmq, or the system, lacks what it needs: one of `capabilities`, if
/// any, which are names of `zmq_has` or of the system's socket options. libzmq itself would call it an invalid
/// argument, or take it and do nothing.
pub(crate) fn require(capabilities: &[&str], what: &'static str) -> Result<()> {
    if capabilities.is_empty() || capabilities.iter().any(|capability| has(capability)) {
        return Ok(());
    }
    let remedy = match capabilities {
        ["curve"] if cfg!(feature = "curve") => {
            "link a libzmq that is built with libsodium, or none of your own: zkit's has it (\"The engine\" \
             in zkit's README says how)"
        }
        ["curve"] => {
            "build zkit with its feature \"curve\", which compiles libsodium, or link a libzmq that is built \
             with it, such as your system's, by `cargo --config cargo/system-libzmq.toml` (\"The engine\" in \
             zkit's README says how)"
        }
        ["gssapi"] => {
            "link a libzmq that is built with GSSAPI (\"The engine\" in zkit's README says how)"
        }
        [option] if option.contains('_') => "the system has no such socket option",
        _ => "link a libzmq that is built with it (\"The engine\" in zkit's README says how)",
    };
    Err(Error::Unsupported { what, remedy })
}

/// Refuses a libzmq that lacks what zkit's sockets rest on: the enforcing of ZAP domains, of 4.3.
pub(crate) fn check_version() -> Result<()> {
    let remedy = "link version 4.3 or newer, or none of your own: zkit brings one (\"The engine\" in zkit's \
                  README says how)";
    match zmq::version() {
        (major, minor, _) if (major, minor) < (4, 3) => {
            Err(Error::Unsupported { what: "a libzmq before 4.3", remedy })
        }
        _ => Ok(()),
    }
}

fn has(capability: &str) -> bool {
    match capability {
        "SO_BINDTODEVICE" => cfg!(any(target_os = "linux", target_os = "android")),
        "TCP_USER_TIMEOUT" => cfg!(any(target_os = "linux", target_os = "android")),
        _ => zmq::has(capability) == Some(true),
    }
}
