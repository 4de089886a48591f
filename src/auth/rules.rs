//! Whom a ZAuth lets in: the decision on one request, apart from threads and sockets.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use crate::auth::password::{PasswordFile, Users};
use crate::auth::z85;
use crate::auth::zap::{Credentials, Request, Status};
use crate::auth::{AuthRequest, ZCert, ZCertStore};

/// The domain of rules that hold where no others do.
const ANY_DOMAIN: &str = "*";

#[derive(Default)]
pub(super) struct Rules {
    pub(super) allowed: BTreeSet<IpNet>,
    pub(super) denied: BTreeSet<IpNet>,
    /// By domain.
    pub(super) plain: HashMap<String, Plain>,
    /// By domain.
    pub(super) curve: HashMap<String, Curve>,
}

/// Who may come in by PLAIN.
pub(super) enum Plain {
    Users(Users),
    File(PasswordFile),
    Callback(PlainCallback),
}

pub(super) type PlainCallback = Box<dyn FnMut(&AuthRequest<'_>, &str, &[u8]) -> bool + Send>;

/// Who may come in by CURVE.
pub(super) enum Curve {
    Any,
    Store(ZCertStore),
    Callback(CurveCallback),
}

pub(super) type CurveCallback = Box<dyn FnMut(&AuthRequest<'_>, &[u8; 32]) -> bool + Send>;

/// Who was let in.
pub(super) struct Admitted {
    pub(super) user: String,
    /// The certificate, if there is one with more than a key.
    pub(super) cert: Option<ZCert>,
}

impl Admitted {
    fn user(user: impl Into<String>) -> Admitted {
        Admitted { user: user.into(), cert: None }
    }
}

/// Why somebody was not let in.
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) why: String,
}

fn refused<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { status: Status::Refused, why: why.into() })
}

impl Rules {
    pub(super) fn judge(&mut self, request: &Request<'_>) -> Result<Admitted, Refusal> {
        self.judge_address(request.address)?;
        let asks = AuthRequest {
            domain: request.domain,
            address: request.address,
            identity: request.identity,
        };
        match request.credentials {
            Credentials::Null => Ok(Admitted::user("")),
            Credentials::Plain { name, password } => {
                self.judge_password(&asks, name, password)?;
                Ok(Admitted::user(name))
            }
            Credentials::Curve { key } => self.judge_key(&asks, key),
        }
    }

    fn judge_address(&self, address: &str) -> Result<(), Refusal> {
        let ip = parse_ip(address);
        let is_in =
            |nets: &BTreeSet<IpNet>| ip.is_some_and(|ip| nets.iter().any(|net| net.contains(&ip)));
        if is_in(&self.denied) {
            return refused("its address is denied");
        }
        if !self.allowed.is_empty() && !is_in(&self.allowed) {
            return refused("its address is not among those that are allowed");
        }
        Ok(())
    }

    fn judge_password(
        &mut self,
        asks: &AuthRequest<'_>,
        name: &str,
        password: &[u8],
    ) -> Result<(), Refusal> {
        let is_right = match rule_of(&mut self.plain, asks.domain) {
            None => return refused("there is no rule for PLAIN in its domain"),
            Some(Plain::Users(users)) => users.check(name, password),
            // Whoever is writing the file may be done when the peer tries again.
            Some(Plain::File(file)) => file.check(name, password).map_err(|_unreadable| {
                Refusal { status: Status::NotNow, why: "the password file cannot be read".into() }
            })?,
            Some(Plain::Callback(callback)) => callback(asks, name, password),
        };
        if is_right { Ok(()) } else { refused("its name or its password is wrong") }
    }

    fn judge_key(&mut self, asks: &AuthRequest<'_>, key: &[u8; 32]) -> Result<Admitted, Refusal> {
        let cert = match rule_of(&mut self.curve, asks.domain) {
            None => return refused("there is no rule for CURVE in its domain"),
            Some(Curve::Any) => None,
            Some(Curve::Store(store)) => match store.lookup(key) {
                None => return refused("its key is not in the store"),
                found => found,
            },
            Some(Curve::Callback(callback)) => match callback(asks, key) {
                false => return refused("its key was refused"),
                true => None,
            },
        };
        Ok(Admitted { user: String::clone(&z85::encode(key)), cert })
    }
}

fn rule_of<'r, R>(rules: &'r mut HashMap<String, R>, domain: &str) -> Option<&'r mut R> {
    let domain = if rules.contains_key(domain) { domain } else { ANY_DOMAIN };
    rules.get_mut(domain)
}

/// The address of a peer, which libzmq tells without its port. Only over `ipc` it is none.
fn parse_ip(address: &str) -> Option<IpAddr> {
    let (address, _zone) = address.split_once('%').unwrap_or((address, ""));
    Some(address.parse::<IpAddr>().ok()?.to_canonical())
}

/// An address, or a network in CIDR notation. What IPv6 has for IPv4 is IPv4.
pub(super) fn parse_net(text: &str) -> Option<IpNet> {
    if let Some(ip) = parse_ip(text) {
        return Some(IpNet::from(ip));
    }
    match text.parse::<IpNet>().ok()?.trunc() {
        IpNet::V6(net) if net.prefix_len() >= 96 => match net.addr().to_ipv4_mapped() {
            Some(ip) => Ipv4Net::new(ip, net.prefix_len() - 96).ok().map(IpNet::V4),
            None => Some(IpNet::V6(net)),
        },
        net => Some(net),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allowed: &[&str], denied: &[&str]) -> Rules {
        let nets = |list: &[&str]| list.iter().map(|text| parse_net(text).unwrap()).collect();
        Rules { allowed: nets(allowed), denied: nets(denied), ..Rules::default() }
    }

    #[track_caller]
    fn check(rules: &Rules, address: &str, is_in: bool) {
        assert_eq!(rules.judge_address(address).is_ok(), is_in, "{address}");
    }

    #[test]
    fn without_lists_every_address_is_as_good_as_another() {
        for address in ["127.0.0.1", "::1", "", "localhost:0:0:1", "no address"] {
            check(&rules(&[], &[]), address, true);
        }
    }

    #[test]
    fn a_list_of_allowed_ones_denies_all_others_and_does_not_switch_the_denied_off() {
        let rules = rules(&["10.0.0.0/8", "192.168.1.1"], &["10.1.0.0/16", "192.168.1.1"]);
        for (address, is_in) in [
            ("10.0.0.1", true),
            ("10.1.0.1", false),
            ("10.2.255.255", true),
            ("11.0.0.1", false),
            ("192.168.1.1", false),
            ("192.168.1.2", false),
            ("", false),
            ("localhost:0:0:1", false),
            ("10.0.0.1 ", false),
            ("010.0.0.1", false),
        ] {
            check(&rules, address, is_in);
        }
        check(&self::rules(&[], &["10.0.0.0/8"]), "11.0.0.1", true);
    }

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        let rules = rules(
            &[],
            &["127.0.0.2", "fe80::/10", "::ffff:10.0.0.0/104", "::ffff:1.2.3.4", "2001:db8::1/32"],
        );
        for address in [
            "127.0.0.2",
            "::ffff:127.0.0.2",
            "::ffff:7f00:2",
            "fe80::1%eth0",
            "FE80::1",
            "10.9.8.7",
            "1.2.3.4",
            "2001:db8:ffff::",
        ] {
            check(&rules, address, false);
        }
        for address in ["127.0.0.3", "::127.0.0.2", "fec0::1", "2001:db9::"] {
            check(&rules, address, true);
        }
        let everything = self::rules(&[], &["0.0.0.0/0", "::/0"]);
        check(&everything, "::ffff:9.9.9.9", false);
        check(&everything, "9.9.9.9", false);
        check(&everything, "::9", false);
    }

    #[test]
    fn what_is_no_address_is_no_network() {
        for text in ["", "localhost", "127.0.0.1/33", "127.0.0.1/", "1.2.3", "::/129", "*", " ::1"]
        {
            assert_eq!(parse_net(text), None, "{text}");
        }
    }
}
