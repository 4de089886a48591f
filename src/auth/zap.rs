//! ZAP, by which libzmq asks whom to let in: [RFC 27](https://rfc.zeromq.org/spec/27). A request and its
//! reply, as frames without their envelope.

use std::fmt;

use crate::frame::ZFrame;
use crate::msg::ZMsg;

const VERSION: &str = "1.0";

/// The most bytes that a frame of a request may have. libzmq's own limit for what they hold.
const LONGEST: usize = 255;

/// A peer that wants to be let in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) id: &'a [u8],
    pub(super) domain: &'a str,
    pub(super) address: &'a str,
    pub(super) identity: &'a [u8],
    pub(super) credentials: Credentials<'a>,
}

/// What the peer says to prove who it is, by the mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Credentials<'a> {
    Null,
    Plain { name: &'a str, password: &'a [u8] },
    Curve { key: &'a [u8; 32] },
}

impl<'a> Request<'a> {
    /// # Errors
    /// What is wrong with the request, without any of its content.
    pub(super) fn parse(frames: &'a ZMsg) -> Result<Request<'a>, &'static str> {
        let mut frames = frames.iter();
        let mut next = |which| field(frames.next(), which);
        if next("it ends before its version")? != VERSION.as_bytes() {
            return Err("its version is not 1.0");
        }
        let id = next("it ends before its number")?;
        let domain = text(next("it ends before its domain")?)?;
        let address = text(next("it ends before its address")?)?;
        let identity = next("it ends before its identity")?;
        let credentials = match next("it ends before its mechanism")? {
            b"NULL" => Credentials::Null,
            b"PLAIN" => {
                let name = text(next("it ends before its user's name")?)?;
                // Who reads the name from a message's metadata would read it up to there.
                if name.contains('\0') {
                    return Err("its user's name contains a NUL character");
                }
                Credentials::Plain { name, password: next("it ends before its password")? }
            }
            b"CURVE" => {
                let key = next("it ends before its key")?;
                Credentials::Curve { key: key.try_into().map_err(|_| "its key has not 32 bytes")? }
            }
            b"GSSAPI" => return Err("its mechanism is GSSAPI, which zkit does not check"),
            _ => return Err("its mechanism is unknown"),
        };
        match frames.next() {
            None => Ok(Request { id, domain, address, identity, credentials }),
            Some(_) => Err("it has more frames than its mechanism has"),
        }
    }

    pub(super) fn mechanism(&self) -> &'static str {
        match self.credentials {
            Credentials::Null => "NULL",
            Credentials::Plain { .. } => "PLAIN",
            Credentials::Curve { .. } => "CURVE",
        }
    }
}

fn field<'a>(frame: Option<&'a ZFrame>, missing: &'static str) -> Result<&'a [u8], &'static str> {
    match frame {
        None => Err(missing),
        Some(frame) if frame.len() > LONGEST => Err("one of its frames is longer than 255 bytes"),
        Some(frame) => Ok(frame),
    }
}

fn text(bytes: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(bytes).map_err(|_| "its domain, address or user's name is not UTF-8")
}

/// Without credentials: it is logged.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} peer at {:?}", self.mechanism(), self.address)?;
        if let Credentials::Plain { name, .. } = self.credentials {
            write!(f, " as {name:?}")?;
        }
        write!(f, " for domain {:?}", self.domain)
    }
}

/// What becomes of a request, by ZAP's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    LetIn,
    /// Not now: the peer is told nothing, and tries again when its handshake has run out.
    NotNow,
    Refused,
    /// For a fault on this side.
    Failed,
}

impl Status {
    fn code_and_text(self) -> (&'static str, &'static str) {
        match self {
            Status::LetIn => ("200", "OK"),
            Status::NotNow => ("300", "Try again later"),
            Status::Refused => ("400", "No access"),
            Status::Failed => ("500", "Internal error"),
        }
    }
}

/// The reply to the request `id`. `user` and `metadata` go to the frames of who is let in.
pub(super) fn reply<'m>(
    id: &[u8],
    status: Status,
    user: &str,
    metadata: impl IntoIterator<Item = (&'m str, &'m str)>,
) -> ZMsg {
    let (code, text) = status.code_and_text();
    let frames = [VERSION.into(), ZFrame::new(id), code.into(), text.into()];
    let mut reply = ZMsg::from(frames);
    reply.push_back(ZFrame::new(user));
    reply.push_back(encode_metadata(metadata));
    reply
}

/// The number to reply to, if the request has one of a size worth repeating.
pub(super) fn id_of(request: &ZMsg) -> &[u8] {
    request.get(1).filter(|id| id.len() <= LONGEST).map_or(&[], |id| id)
}

/// libzmq's own names. It would take some of them for what it knows of the connection.
const RESERVED: [&str; 5] = ["User-Id", "Peer-Address", "Socket-Type", "Identity", "Resource"];

/// ZMTP's form: a byte and a name, four bytes and a value.
fn encode_metadata<'m>(metadata: impl IntoIterator<Item = (&'m str, &'m str)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in metadata {
        let reserved = RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name));
        let (Ok(name_len), Ok(value_len)) = (u8::try_from(name.len()), u32::try_from(value.len()))
        else {
            continue;
        };
        if !reserved && name_len > 0 {
            bytes.push(name_len);
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&value_len.to_be_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn start() -> ZMsg {
        ["1.0", "1", "a domain", "127.0.0.1", ""].into()
    }

    fn null() -> ZMsg {
        let mut msg = start();
        msg.push_back("NULL");
        msg
    }

    fn plain() -> ZMsg {
        let mut msg = start();
        msg.extend(["PLAIN", "alice", "secret"]);
        msg
    }

    fn curve() -> ZMsg {
        let mut msg = start();
        msg.push_back("CURVE");
        msg.push_back(KEY);
        msg
    }

    fn with(mut msg: ZMsg, index: usize, content: impl Into<ZFrame>) -> ZMsg {
        msg.iter_mut().nth(index).unwrap().reset(content);
        msg
    }

    #[test]
    fn requests_of_each_mechanism_are_read() {
        for (msg, credentials) in [
            (null(), Credentials::Null),
            (plain(), Credentials::Plain { name: "alice", password: b"secret" }),
            (curve(), Credentials::Curve { key: &KEY }),
        ] {
            let request = Request::parse(&msg).unwrap();
            let expected = Request {
                id: b"1",
                domain: "a domain",
                address: "127.0.0.1",
                identity: b"",
                credentials,
            };
            assert!(request == expected, "{request:?}");
        }
    }

    #[test]
    fn every_truncation_of_a_request_is_refused() {
        for whole in [null(), plain(), curve()] {
            for frames in 0..whole.len() {
                let msg: ZMsg = whole.iter().take(frames).collect();
                let why = Request::parse(&msg).unwrap_err();
                assert!(why.starts_with("it ends before"), "{frames}: {why}");
                assert_eq!(id_of(&msg), if frames > 1 { &b"1"[..] } else { b"" });
            }
            // Each frame cut short is another valid one, or refused. It does not panic.
            for (index, frame) in whole.iter().enumerate() {
                for len in 0..frame.len() {
                    let cut = with(whole.clone(), index, ZFrame::new(&frame[..len]));
                    let fixed = [0, 5].contains(&index) || frame.len() == 32;
                    assert_eq!(Request::parse(&cut).is_err(), fixed, "{cut:?}");
                }
            }
        }
    }

    #[test]
    fn malformed_requests_are_refused_with_what_is_wrong() {
        let longer = |mut msg: ZMsg| {
            msg.push_back("");
            msg
        };
        for (msg, why) in [
            (with(null(), 0, "1.1"), "version"),
            (with(null(), 0, ""), "version"),
            (with(null(), 1, vec![b'1'; 256]), "longer than 255"),
            (with(null(), 2, vec![b'd'; 1 << 20]), "longer than 255"),
            (with(null(), 2, vec![0xFF]), "UTF-8"),
            (with(null(), 3, vec![0xC0, 0x80]), "UTF-8"),
            (with(null(), 5, "null"), "mechanism is unknown"),
            (with(null(), 5, "GSSAPI"), "GSSAPI"),
            (with(plain(), 6, vec![0xFF]), "UTF-8"),
            (with(plain(), 6, "alice\0"), "NUL"),
            (with(plain(), 7, vec![b'p'; 256]), "longer than 255"),
            (with(curve(), 6, vec![7; 31]), "32 bytes"),
            (with(curve(), 6, vec![7; 33]), "32 bytes"),
            (with(curve(), 6, "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"), "32 bytes"),
            (longer(null()), "more frames"),
            (longer(plain()), "more frames"),
            (longer(curve()), "more frames"),
            ((0..10_000_u32).collect(), "version"),
        ] {
            let refused = Request::parse(&msg).unwrap_err();
            assert!(refused.contains(why), "{msg:?}: {refused}");
        }
    }

    #[test]
    fn the_longest_of_everything_is_read() {
        let long = || "x".repeat(LONGEST);
        let mut msg = plain();
        for index in [1, 2, 3, 4, 6, 7] {
            msg = with(msg, index, long());
        }
        let request = Request::parse(&msg).unwrap();
        assert_eq!((request.domain, request.address), (&*long(), &*long()));
    }

    #[test]
    fn what_is_logged_of_a_request_has_no_credentials() {
        let msg = plain();
        let text = format!("{:?}", Request::parse(&msg).unwrap());
        assert_eq!(text, "PLAIN peer at \"127.0.0.1\" as \"alice\" for domain \"a domain\"");
        let msg = curve();
        let text = format!("{:?}", Request::parse(&msg).unwrap());
        assert_eq!(text, "CURVE peer at \"127.0.0.1\" for domain \"a domain\"");
    }

    #[test]
    fn replies_have_the_form_of_the_rfc() {
        let msg = reply(b"1", Status::LetIn, "alice", [("name", "Alice"), ("email", "")]);
        let metadata = b"\x04name\0\0\0\x05Alice\x05email\0\0\0\0";
        assert_eq!(msg, ("1.0", "1", "200", "OK", "alice", metadata).into());
        for (status, code) in
            [(Status::NotNow, "300"), (Status::Refused, "400"), (Status::Failed, "500")]
        {
            let msg = reply(b"", status, "", []);
            assert_eq!(msg.len(), 6);
            assert_eq!(*msg.get(2).unwrap(), code);
        }
    }

    #[test]
    fn metadata_that_libzmq_would_take_for_its_own_or_that_has_no_room_is_left_out() {
        let (long, value) = ("n".repeat(256), "v".repeat(100_000));
        let names = [&*long, "", "Identity", "socket-type", "User-Id", "Peer-Address", "Resource"];
        assert_eq!(encode_metadata(names.map(|name| (name, "x"))), b"");
        let longest = &long[1..];
        let bytes = encode_metadata([(longest, &*value)]);
        assert_eq!(bytes.len(), 1 + 255 + 4 + value.len());
    }
}
