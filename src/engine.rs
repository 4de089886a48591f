use std::fmt;

use crate::error::{Error, Result};

/// The linked libzmq: its version and what it was built with, as `zmq_has` tells.
///
/// Made by [`engine()`]. `Display` is a line for a log: `libzmq 4.3.4 with ipc, curve`.
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
/// ```
/// let engine = zkit::engine();
/// println!("{engine}");
/// assert!(engine.version >= (4, 3, 0));
/// if !engine.curve {
///     println!("no encryption"); // see "Two engines" in the README
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

/// Refuses `what` where the linked libzmq lacks the capability that it needs, which libzmq itself
/// would only call an invalid argument.
pub(crate) fn require(capability: &str, what: &'static str) -> Result<()> {
    if has(capability) {
        return Ok(());
    }
    let remedy = match capability {
        "curve" => {
            "link a libzmq that is built with libsodium, such as your system's, by \
             `cargo --config cargo/system-libzmq.toml` (\"Two engines\" in zkit's README says how)"
        }
        "gssapi" => {
            "link a libzmq that is built with GSSAPI (\"Two engines\" in zkit's README says how)"
        }
        _ => "link a libzmq that is built with it (\"Two engines\" in zkit's README says how)",
    };
    Err(Error::Unsupported { what, remedy })
}

fn has(capability: &str) -> bool {
    zmq::has(capability) == Some(true)
}
