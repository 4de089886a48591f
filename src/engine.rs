//! What the linked libzmq is and can do.

use std::fmt;

/// The linked libzmq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Engine {
    /// Its version: major, minor, patch.
    pub version: (u32, u32, u32),
    /// CURVE: encryption and authentication by elliptic-curve keys.
    pub curve: bool,
    /// GSSAPI: authentication by Kerberos.
    pub gssapi: bool,
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
    /// The draft interfaces, which zkit does not use.
    pub draft: bool,
}

/// What the linked libzmq is and can do.
pub fn engine() -> Engine {
    let has = |capability| zmq::has(capability) == Some(true);
    let (major, minor, patch) = zmq::version();
    Engine {
        version: (major as u32, minor as u32, patch as u32),
        curve: has("curve"),
        gssapi: has("gssapi"),
        ipc: has("ipc"),
        pgm: has("pgm"),
        tipc: has("tipc"),
        norm: has("norm"),
        vmci: has("vmci"),
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
        let has = capabilities.iter().filter(|(_, has)| *has);
        has.enumerate().try_for_each(|(index, (name, _))| {
            write!(f, "{}{name}", if index == 0 { " with " } else { ", " })
        })
    }
}
