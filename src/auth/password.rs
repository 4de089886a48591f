//! Names and passwords: who may come in by PLAIN. What a check costs does not tell whether there is such
//! a user.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, SaltString};
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::file;
use super::store::Stamp;

/// What PLAIN has room for, of a name and of a password.
const LONGEST: usize = 255;

/// Users whose passwords the program has.
pub(super) struct Users(HashMap<String, Password>);

impl Users {
    /// # Errors
    /// The name that is no name, or that has no password, and why not.
    pub(super) fn new(
        users: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Result<Users, (String, &'static str)> {
        let mut known = HashMap::new();
        for (name, password) in users {
            let password = Zeroizing::new(password);
            match (check_name(&name), Password::new(&password)) {
                (Ok(()), Some(password)) => known.insert(name, password),
                (Err(why), _) => return Err((name, why)),
                (_, None) => return Err((name, "its password is longer than 255 bytes")),
            };
        }
        Ok(Users(known))
    }

    pub(super) fn check(&self, name: &str, password: &[u8]) -> bool {
        let nobodys = Password::none();
        let known = self.0.get(name);
        let is_right = Password::new(password)
            .map(|given| given.0.ct_eq(&known.unwrap_or(&nobodys).0))
            .unwrap_or(Choice::from(0));
        bool::from(is_right & Choice::from(u8::from(known.is_some())))
    }
}

/// A password, filled up so that comparing it takes the same time whatever its length.
struct Password(Zeroizing<Box<[u8]>>);

impl Password {
    fn new(password: &[u8]) -> Option<Password> {
        let mut filled = Password::none();
        filled
            .0
            .get_mut(..password.len())
            .filter(|_| password.len() <= LONGEST)?
            .copy_from_slice(password);
        filled.0[LONGEST] = password.len() as u8;
        Some(filled)
    }

    fn none() -> Password {
        Password(Zeroizing::new(vec![0; LONGEST + 1].into()))
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        _ if name.len() > LONGEST => Err("the name is longer than 255 bytes"),
        _ if name.contains('\0') => Err("the name contains a NUL character"),
        _ => Ok(()),
    }
}

/// Hashes a password by Argon2id, with what the crate `argon2` takes for good, into a PHC string.
pub(super) fn hash(password: &[u8]) -> Result<String, argon2::password_hash::Error> {
    let salt = SaltString::generate(&mut OsRng);
    Ok(Argon2::default().hash_password(password, &salt)?.to_string())
}

/// Users and their hashed passwords in a file, which is read again when it changes.
pub(super) struct PasswordFile {
    path: PathBuf,
    users: HashMap<String, String>,
    /// What a password of nobody is checked against.
    decoy: String,
    /// What the file was when it was read; `None` if it has to be read again.
    read: Option<Stamp>,
    /// Whether it was logged that it cannot be read.
    told: bool,
}

/// Why nobody can be let in by a file: what is wrong with it.
#[derive(Debug)]
pub(super) struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PasswordFile {
    /// The largest file that is read.
    const LARGEST: u64 = 16 << 20;

    pub(super) fn open(path: &Path) -> Result<PasswordFile, Unreadable> {
        let mut file = PasswordFile {
            path: path.to_owned(),
            users: HashMap::new(),
            decoy: decoy([]),
            read: None,
            told: false,
        };
        file.refresh()?;
        Ok(file)
    }

    pub(super) fn check(&mut self, name: &str, password: &[u8]) -> Result<bool, Unreadable> {
        let told = std::mem::take(&mut self.told);
        if let Err(unreadable) = self.refresh() {
            self.told = true;
            if !told {
                log::warn!("nobody is let in by the password file {unreadable}");
            }
            return Err(unreadable);
        }
        let known = self.users.get(name);
        let hash = PasswordHash::new(known.unwrap_or(&self.decoy));
        let is_right = hash.and_then(|hash| Argon2::default().verify_password(password, &hash));
        Ok(is_right.is_ok() && known.is_some())
    }

    /// Reads the file if it is not what it was.
    fn refresh(&mut self) -> Result<(), Unreadable> {
        let failed = |error| Unreadable(format!("{:?}: {error}", self.path));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let file = file::open(&self.path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let stamp = Some(Stamp::of(&metadata));
        if self.read == stamp {
            return Ok(());
        }
        self.read = None;
        if !metadata.is_file() || metadata.len() > PasswordFile::LARGEST {
            return Err(Unreadable(format!("{:?} is no file of at most 16 MiB", self.path)));
        }
        let mut text = String::new();
        file.take(PasswordFile::LARGEST).read_to_string(&mut text).map_err(failed)?;
        let users = parse(&text).map_err(|why| Unreadable(format!("{:?}, {why}", self.path)))?;
        self.decoy = decoy(users.values().map(String::as_str));
        self.users = users;
        self.read = stamp.filter(|stamp| stamp.is_settled(now));
        Ok(())
    }
}

/// Lines of `name:hash`, empty ones and comments.
fn parse(text: &str) -> Result<HashMap<String, String>, String> {
    let mut users = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let at = |why: &str| format!("line {number}: {why}");
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, hash) = line.rsplit_once(':').ok_or_else(|| at("it is not name:hash"))?;
        check_name(name).and_then(|()| check_hash(hash)).map_err(at)?;
        if users.insert(name.to_owned(), hash.to_owned()).is_some() {
            return Err(at(&format!("{name:?} is there twice")));
        }
    }
    Ok(users)
}

/// The most memory, in KiB, and the most passes that a hash may ask for.
const MOST: (u32, u32) = (256 << 10, 32);

/// Says nothing of its content, which may be a password.
fn check_hash(hash: &str) -> Result<(), &'static str> {
    let hash = PasswordHash::new(hash).map_err(|_| {
        "what is behind the name is no password hash (a PHC string); make one with ZAuth::hash_password"
    })?;
    let params = Params::try_from(&hash);
    let known = argon2::Algorithm::try_from(hash.algorithm).is_ok();
    let (Ok(params), true, Some(_), Some(_)) = (params, known, hash.salt, hash.hash) else {
        return Err("the password hash is not a whole one by Argon2");
    };
    if params.m_cost() > MOST.0 || params.t_cost() > MOST.1 {
        return Err("the password hash wants more than 256 MiB or 32 passes");
    }
    Ok(())
}

/// A hash of nothing that costs as much to check as the dearest of `hashes`.
fn decoy<'a>(hashes: impl IntoIterator<Item = &'a str>) -> String {
    let params =
        hashes.into_iter().filter_map(|hash| Params::try_from(&PasswordHash::new(hash).ok()?).ok());
    let cost = |params: &Params| u64::from(params.m_cost()) * u64::from(params.t_cost());
    let dearest = params.max_by_key(cost).unwrap_or_default();
    let (m, t, p) = (dearest.m_cost(), dearest.t_cost(), dearest.p_cost());
    let (salt, output) = ("A".repeat(22), "A".repeat(43));
    format!("$argon2id$v=19$m={m},t={t},p={p}${salt}${output}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(users: &[(&str, &str)]) -> Users {
        let owned = users.iter().map(|&(name, password)| (name.into(), password.into()));
        Users::new(owned).unwrap_or_else(|(name, why)| panic!("{name}: {why}"))
    }

    #[test]
    fn only_the_right_password_of_a_user_is_right() {
        let users = users(&[("alice", "secret"), ("bob", ""), ("carol", &"x".repeat(255))]);
        assert!(users.check("alice", b"secret"));
        assert!(users.check("bob", b""));
        assert!(users.check("carol", &[b'x'; 255]));
        for (name, password) in [
            ("alice", &b""[..]),
            ("alice", b"secre"),
            ("alice", b"secret\0"),
            ("alice", b"secretx"),
            ("bob", b"\0"),
            ("carol", &[b'x'; 254]),
            ("carol", &[b'x'; 256]),
            ("Alice", b"secret"),
            ("", b""),
            ("nobody", b""),
            ("nobody", &[0; 255]),
        ] {
            assert!(!users.check(name, password), "{name} {password:?}");
        }
    }

    #[test]
    fn names_and_passwords_that_cannot_come_over_the_wire_are_refused() {
        for (name, password) in
            [("x".repeat(256), 1), ("a\0b".to_owned(), 1), ("alice".to_owned(), 256)]
        {
            assert!(Users::new([(name, vec![b'p'; password])]).is_err());
        }
    }

    #[test]
    fn what_was_hashed_is_right_and_each_hash_another() {
        let (one, other) = (hash(b"secret").unwrap(), hash(b"secret").unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with("$argon2id$v=19$m="), "{one}");
        check_hash(&one).unwrap();
        let hash = PasswordHash::new(&one).unwrap();
        Argon2::default().verify_password(b"secret", &hash).unwrap();
        Argon2::default().verify_password(b"Secret", &hash).unwrap_err();
    }

    #[test]
    fn the_decoy_is_as_dear_as_the_dearest_hash_and_of_no_password() {
        for (hashes, params) in [
            (&[][..], Params::default()),
            (
                &[
                    "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
                    "$argon2id$v=19$m=32,t=5,p=2$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
                ],
                Params::new(32, 5, 2, Some(32)).unwrap(),
            ),
        ] {
            let decoy = decoy(hashes.iter().copied());
            check_hash(&decoy).unwrap();
            let hash = PasswordHash::new(&decoy).unwrap();
            let found = Params::try_from(&hash).unwrap();
            assert_eq!(
                (found.m_cost(), found.t_cost(), found.p_cost()),
                (params.m_cost(), params.t_cost(), params.p_cost())
            );
            // Refused after the work and not before it.
            let refused = Argon2::default().verify_password(b"", &hash).unwrap_err();
            assert_eq!(refused, argon2::password_hash::Error::Password);
        }
    }

    #[test]
    fn files_are_refused_by_line_and_without_their_content() {
        let good = "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA";
        let text = format!("# who may come in\n\n alice:{good} \r\nbob:with:colons:{good}");
        let users = parse(&text).unwrap();
        assert_eq!(users.len(), 2);
        assert!(users.contains_key("alice") && users.contains_key("bob:with:colons"));
        assert!(parse("").unwrap().is_empty());
        for (line, why) in [
            ("hunter2", "not name:hash"),
            ("alice:hunter2", "ZAuth::hash_password"),
            ("alice:", "ZAuth::hash_password"),
            ("alice:$hunter2$", "PHC"),
            ("alice:$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "Argon2"),
            ("alice:$argon2id$v=19$m=64,t=2,p=1", "whole"),
            ("alice:$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ", "whole"),
            (
                "alice:$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
                "256 MiB",
            ),
            ("alice:$argon2id$v=19$m=64,t=9999,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "passes"),
            (&format!("alice:{good}\nalice:{good}"), "twice"),
            (&format!("{}:{good}", "x".repeat(256)), "longer"),
        ] {
            let error = parse(&format!("\n{line}")).unwrap_err();
            assert!(error.contains(why) && error.starts_with("line "), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
