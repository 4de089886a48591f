//! Certificates, their files, and the store of those who may come in.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use proptest::prelude::*;
use tempfile::{TempDir, tempdir_in};
use zkit::{Error, ZCert, ZCertStore, ZContext, engine};

mod common;
use common::{alone, folder, record, records, within};

const LIMIT: Duration = Duration::from_secs(10);

/// Keys that are no pair, but all that files and stores need.
fn cert(number: u8) -> ZCert {
    ZCert::from_keys([number; 32], [number ^ 0xFF; 32])
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// A text with the public key of `cert(1)` and `more`.
fn text(more: &str) -> String {
    format!("metadata\ncurve\n    public-key = \"{}\"\n{more}", cert(1).public_text())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(
    result: zkit::Result<T>,
    at_line: impl Into<Option<usize>>,
    words: &str,
) -> String {
    match result.unwrap_err() {
        Error::Certificate { line, reason, .. } => {
            assert_eq!(line, at_line.into(), "{reason}");
            assert!(reason.contains(words), "{words:?} in {reason:?}");
            reason.into_owned()
        }
        error => panic!("{error}"),
    }
}

// Keys and metadata.

/// As the self-test of CZMQ's zcert.
#[test]
fn a_certificate_lives_as_zcerts_self_test_has_it() {
    let folder = folder();
    let path = folder.path().join("mycert.txt");
    let mut cert = cert(1);
    cert.set_meta("email", "ph@imatix.com").unwrap();
    cert.set_meta("name", "Pieter Hintjens").unwrap();
    cert.set_meta("organization", "iMatix Corporation").unwrap();
    cert.set_meta("version", "1").unwrap();
    cert.set_meta("delete_me", "now").unwrap();
    assert_eq!(cert.unset_meta("delete_me").as_deref(), Some("now"));
    assert_eq!(cert.unset_meta("delete_me"), None);
    assert_eq!(cert.meta("email"), Some("ph@imatix.com"));
    assert_eq!(cert.meta("delete_me"), None);
    assert_eq!(cert.metadata().count(), 4);
    assert_eq!(cert.clone(), cert);

    cert.save(&path).unwrap();
    assert_eq!(names(&folder), ["mycert.txt", "mycert.txt_secret"]);
    let copy = ZCert::load(&path).unwrap();
    assert_eq!(copy, cert);
    assert!(copy.has_secret());

    fs::remove_file(folder.path().join("mycert.txt_secret")).unwrap();
    let public = ZCert::load(&path).unwrap();
    assert_eq!(public.public_key(), cert.public_key());
    assert_eq!(public.secret_key(), None);
    assert_ne!(public, cert);
    assert_eq!(public.metadata().collect::<Vec<_>>(), cert.metadata().collect::<Vec<_>>());
}

#[test]
fn new_keys_are_a_pair_and_never_the_same() {
    if !engine().curve {
        eprintln!("skipped: {} has no CURVE", engine());
        return;
    }
    let [one, two] = [(); 2].map(|()| ZCert::new().unwrap());
    assert_ne!(one, two);
    assert_ne!(one.public_key(), two.public_key());
    assert_ne!(one.secret_key().unwrap(), one.public_key());
    let socket = ZContext::builder().signals(false).build().unwrap().rep("").unwrap();
    one.apply(&socket).unwrap();
    assert_eq!(socket.curve_publickey().unwrap(), one.public_key());
    assert_eq!(socket.curve_secretkey().unwrap(), one.secret_key().unwrap());

    let mixed = ZCert::from_keys(*one.public_key(), *two.secret_key().unwrap());
    refused(mixed.apply(&socket), None, "not a pair");
    refused(one.to_public().apply(&socket), None, "no secret key");
    // And the socket keeps what it had.
    assert_eq!(socket.curve_publickey().unwrap(), one.public_key());
}

#[test]
fn certificates_let_two_sockets_talk() {
    if !engine().curve {
        eprintln!("skipped: {} has no CURVE", engine());
        return;
    }
    within(LIMIT, "a message through CURVE", || {
        let folder = folder();
        let path = folder.path().join("server");
        ZCert::new().unwrap().save(&path).unwrap();
        let ctx = ZContext::builder().signals(false).build().unwrap();
        let server = ctx.rep("").unwrap();
        ZCert::load(&path).unwrap().apply(&server).unwrap();
        server.set_curve_server(true).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();

        let client = ctx.req("").unwrap();
        ZCert::new().unwrap().apply(&client).unwrap();
        let owner = ZCert::load_public(&path).unwrap();
        client.set_curve_serverkey(owner.public_key()).unwrap();
        client.connect(&endpoint).unwrap();
        client.send("Hello").unwrap();
        assert_eq!(server.recv_str().unwrap(), "Hello");
    });
}

#[test]
fn equality_is_that_of_the_keys() {
    let mut other = cert(1);
    other.set_meta("name", "other").unwrap();
    assert_eq!(cert(1), other);
    assert_ne!(cert(1), cert(2));
    assert_ne!(cert(1), cert(1).to_public());
    assert_ne!(cert(1), ZCert::from_keys([1; 32], [3; 32]));
    assert_eq!(cert(1).to_public(), ZCert::from_public([1; 32]));
}

#[test]
fn the_text_of_a_key_is_z85() {
    let keys = [[0; 32], [0xFF; 32], std::array::from_fn(|index| index as u8 * 7)];
    for key in keys {
        assert_eq!(ZCert::from_public(key).public_text(), zmq::z85_encode(&key).unwrap());
    }
}

#[test]
fn debug_tells_the_public_key_and_nothing_else() {
    let mut cert = cert(1);
    cert.set_meta("password", "swordfish").unwrap();
    let text = format!("{cert:?} {cert:#?} {:?}", Some(&cert));
    assert_eq!(format!("{cert:?}"), format!("ZCert({})", cert.public_text()));
    assert!(!text.contains("swordfish"));
    assert!(!text.contains(&ZCert::from_public(*cert.secret_key().unwrap()).public_text()));
}

#[test]
fn certificates_and_stores_move_between_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<ZCert>();
    is_sync::<ZCert>();
    is_send::<ZCertStore>();
}

#[test]
fn metadata_is_replaced_and_keeps_its_order() {
    let mut cert = cert(1);
    for (name, value) in [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4")] {
        cert.set_meta(name, value).unwrap();
    }
    let copy = ZCert::decode(cert.encode_public().as_bytes()).unwrap();
    for cert in [&cert, &copy] {
        assert_eq!(cert.metadata().collect::<Vec<_>>(), [("b", "1"), ("a", "4"), ("c", "3")]);
    }
}

#[test]
fn metadata_that_a_file_cannot_hold_is_refused_and_what_was_there_stays() {
    let mut cert = cert(1);
    cert.set_meta("name", "before").unwrap();
    let long = "x".repeat(256);
    for name in ["", " ", "a b", "a=b", "#a", "a#", "é", "a\n", "/a", "a/", "\"a\"", &long] {
        refused(cert.set_meta(name, "value"), None, "a name");
    }
    for value in ["a\nb", "\n", "a\0", "\u{7f}", "\r", "\u{85}"] {
        refused(cert.set_meta("name", value), None, "one line");
    }
    for value in ["\"a'", "'a\"", " a'\"", "a\"' ", "a'\"#", "a\u{a0}'\"\t"] {
        refused(cert.set_meta("name", value), None, "both \" and '");
    }
    refused(cert.set_meta("name", &"x".repeat(1024)), None, "longer than 1024 bytes");
    assert_eq!(cert.metadata().collect::<Vec<_>>(), [("name", "before")]);

    let mut many = ZCert::from_public([1; 32]);
    for number in 0..256 {
        many.set_meta(&format!("n{number}"), "").unwrap();
    }
    refused(many.set_meta("one-more", ""), None, "256 names");
    many.set_meta("n0", "replaced").unwrap();
    assert_eq!(ZCert::decode(many.encode_public().as_bytes()).unwrap().metadata().count(), 256);

    let mut large = ZCert::from_public([1; 32]);
    let value = "x".repeat(900);
    let refusal = (0..).find_map(|number| large.set_meta(&format!("n{number}"), &value).err());
    refused(Err::<(), _>(refusal.unwrap()), None, "larger than 49152 bytes");
    assert!(large.encode_public().len() < 64 * 1024);
}

#[test]
fn quotes_comments_and_other_alphabets_go_through_a_file() {
    let values = [
        "",
        " ",
        "# not a comment",
        "a # b",
        "it's",
        "\"quoted\"",
        "'quoted'",
        "she said \"it's\" so",
        "=",
        "a = b",
        "ÄÖÜ ß 漢字 🦀",
        "tab\there",
        "\\",
        "%s%n",
        "  spaces  ",
        "\"",
        "'",
    ];
    let mut cert = cert(1);
    for (number, value) in values.iter().enumerate() {
        cert.set_meta(&format!("value-{number}"), value).unwrap();
    }
    cert.set_meta("$-_@.&+/x", "name").unwrap();
    let copy = ZCert::decode(cert.encode_public().as_bytes()).unwrap();
    assert_eq!(copy.metadata().collect::<Vec<_>>(), cert.metadata().collect::<Vec<_>>());
}

// Texts.

#[test]
fn what_people_write_by_hand_is_read() {
    let key = cert(1).public_text();
    let text = format!(
        "# a comment\r\n   # another, indented\n\n  \nmetadata   # the section\n    name = Ann Example \
         # unquoted\n    quoted='# it is'   # comment\n    both = she's \"Ann\"\n    flag\n    empty =\n\
         \u{20}       nested = ignored\nserver\n    bind = tcp://*:5555\n        hwm = 1\ncurve = \
         ignored\n    public-key = '{key}'\n    other = ignored"
    );
    let cert = ZCert::decode(text.as_bytes()).unwrap();
    assert_eq!(cert.public_text(), key);
    assert!(!cert.has_secret());
    let expected = [
        ("name", "Ann Example"),
        ("quoted", "# it is"),
        ("both", "she's \"Ann\""),
        ("flag", ""),
        ("empty", ""),
    ];
    assert_eq!(cert.metadata().collect::<Vec<_>>(), expected);
}

#[test]
fn a_malformed_text_is_refused_with_its_line() {
    let key = cert(1).public_text();
    let long = format!("    a = {}\n", "x".repeat(1024));
    for (more, line, words) in [
        ("  half = level\n", 4, "2 spaces"),
        ("\ttab = no\n", 4, "a name"),
        ("            deep = no\n", 4, "deeper"),
        ("\n# comment\n    = nameless\n", 6, "a name"),
        ("    /slash = no\n", 4, "a name"),
        ("    two words\n", 4, "neither"),
        ("    open = \"no end\n", 4, "not closed"),
        ("    open = 'no end\"\n", 4, "not closed"),
        ("    behind = \"value\" more\n", 4, "follows a quoted value"),
        ("    public-key = \"x\"\n", 4, "twice"),
        ("    secret-key = \"x\"\n", 4, "40 characters"),
        ("    secret-key\n", 4, "40 characters"),
        ("curve\n", 4, "section comes twice"),
        ("metadata\n", 4, "section comes twice"),
        (&long, 4, "longer than 1024"),
    ] {
        let reason = refused(ZCert::decode(text(more).as_bytes()), line, words);
        assert!(!reason.contains("no end"), "it quotes what may be a secret: {reason}");
    }
    for (text, line, words) in [
        ("", None, "no public-key"),
        ("curve\n", None, "no public-key"),
        ("metadata\n    public-key = \"x\"\n", None, "no public-key"),
        ("    metadata\n", Some(1), "deeper"),
        ("metadata\n    a = 1\n    a = 2\n", Some(3), "name comes twice"),
        ("metadata\n    a = \"\r\"\n", Some(2), "control"),
        ("curve\n    public-key = \"\"\n", Some(2), "40 characters"),
    ] {
        refused(ZCert::decode(text.as_bytes()), line, words);
    }
    refused(ZCert::decode(b"metadata\n    a = \xFF\n"), 2, "UTF-8");
    let keyed = |key: &str| ZCert::decode(format!("curve\n    public-key = \"{key}\"").as_bytes());
    keyed(&key).unwrap();
    refused(keyed(&key[1..]), 2, "40 characters");
    refused(keyed(&format!("{key}0")), 2, "40 characters");
    // Not of the alphabet, and more than four bytes hold.
    refused(keyed(&format!("~{}", &key[1..])), 2, "40 characters");
    refused(keyed(&format!("#####{}", &key[5..])), 2, "40 characters");
    refused(keyed(&"0".repeat(40)), None, "all zeros");
}

/// CZMQ writes one where it has none.
#[test]
fn a_secret_key_of_zeros_is_none() {
    let text = text(&format!("    secret-key = \"{}\"\n", "0".repeat(40)));
    assert!(!ZCert::decode(text.as_bytes()).unwrap().has_secret());
}

fn metadata() -> impl Strategy<Value = HashMap<String, String>> {
    let name = "[a-zA-Z0-9$_@.&+-]{1,20}";
    proptest::collection::hash_map(name, "\\PC{0,40}|[\"'# a=\t]{0,8}", 0..10)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_certificate_or_an_error(bytes: Vec<u8>) {
        let _ = ZCert::decode(&bytes);
    }

    #[test]
    fn any_lines_are_a_certificate_or_an_error(
        lines in proptest::collection::vec("( {0,9}|)(curve|metadata|public-key|[a-z/]*) ?(=|) ?.{0,9}", 0..9)
    ) {
        let _ = ZCert::decode(lines.join("\n").as_bytes());
    }

    #[test]
    fn any_metadata_that_is_taken_comes_back(keys: ([u8; 32], [u8; 32]), metadata in metadata()) {
        let mut cert = ZCert::from_keys(keys.0, keys.1);
        for (name, value) in metadata {
            let _ = cert.set_meta(&name, &value);
        }
        let copy = ZCert::decode(cert.encode_public().as_bytes()).unwrap();
        prop_assert_eq!(copy.public_key(), cert.public_key());
        prop_assert_eq!(
            copy.metadata().collect::<Vec<_>>(),
            cert.metadata().collect::<Vec<_>>()
        );
    }
}

// Files.

#[test]
fn only_its_owner_can_read_a_secret_file() {
    let folder = folder();
    let path = folder.path().join("cert");
    cert(1).save(&path).unwrap();
    assert_eq!(mode(folder.path().join("cert_secret")), 0o600);
    assert_eq!(mode(&path) & 0o600, 0o600);
    assert!(!fs::read_to_string(&path).unwrap().contains("secret-key"));

    // Also where a file was that others could read.
    set_mode(folder.path().join("cert_secret"), 0o644);
    cert(2).save(&path).unwrap();
    assert_eq!(mode(folder.path().join("cert_secret")), 0o600);
    assert_eq!(ZCert::load(&path).unwrap(), cert(2));
    assert_eq!(names(&folder), ["cert", "cert_secret"]);
}

/// The mask is the process's.
#[test]
fn a_mask_that_allows_everything_opens_no_secret_file() {
    alone(|| {
        nix::sys::stat::umask(Mode::empty());
        let folder = folder();
        let path = folder.path().join("cert");
        cert(1).save(&path).unwrap();
        assert_eq!(mode(folder.path().join("cert_secret")), 0o600);
        assert_eq!(mode(&path), 0o666);
    });
}

#[test]
fn a_secret_that_others_have_access_to_is_refused_with_the_way_out() {
    let folder = folder();
    let path = folder.path().join("cert");
    let secret = folder.path().join("cert_secret");
    cert(1).save(&path).unwrap();
    for bits in [0o640, 0o604, 0o620, 0o602, 0o610, 0o677] {
        set_mode(&secret, bits);
        for loaded in [ZCert::load(&path), ZCert::load(&secret), ZCert::load_public(&secret)] {
            let reason = refused(loaded, None, "chmod 600");
            assert!(reason.contains(&format!("mode 0{bits:o}")), "{reason}");
        }
    }
    // The public file is of use all the same.
    assert_eq!(ZCert::load_public(&path).unwrap(), cert(1).to_public());
    for bits in [0o600, 0o400, 0o700] {
        set_mode(&secret, bits);
        assert_eq!(ZCert::load(&path).unwrap(), cert(1));
    }
}

#[test]
fn a_certificate_without_a_secret_saves_no_secret_file() {
    let folder = folder();
    let path = folder.path().join("cert");
    let public = cert(1).to_public();
    refused(public.save(&path), None, "no secret key");
    refused(public.save_secret(&path), None, "no secret key");
    assert!(names(&folder).is_empty());
    public.save_public(&path).unwrap();
    assert_eq!(names(&folder), ["cert"]);
    assert_eq!(ZCert::load(&path).unwrap(), public);
}

#[test]
fn each_half_can_be_saved_alone() {
    let folder = folder();
    let path = folder.path().join("cert");
    cert(1).save_secret(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(ZCert::load(&path).unwrap(), cert(1));
    assert_eq!(ZCert::load_public(&path).unwrap(), cert(1).to_public());
    cert(1).save_public(&path).unwrap();
    assert_eq!(ZCert::load(&path).unwrap(), cert(1).to_public());
}

#[test]
fn a_path_without_a_file_is_named_in_the_error() {
    let folder = folder();
    for result in [
        ZCert::load(folder.path().join("none")),
        ZCert::load_public(folder.path().join("none")),
        cert(1).save(folder.path().join("no/folder")).map(|()| cert(1)),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_malformed_file_is_named_with_its_line() {
    let folder = folder();
    let path = folder.path().join("cert");
    fs::write(&path, "metadata\n  a = 1\n").unwrap();
    let error = ZCert::load(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("certificate {path:?}, line 2: ")), "{error}");
}

#[test]
fn odd_files_are_refused_and_none_of_them_hangs() {
    within(LIMIT, "odd files", || {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let large = File::create(at("large")).unwrap();
        large.set_len(1 << 40).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        refused(ZCert::load(at("pipe")), None, "not a regular file");
        refused(ZCert::load(at("folder")), None, "not a regular file");
        refused(ZCert::load("/dev/zero"), None, "not a regular file");
        refused(ZCert::load(at("large")), None, "larger than 65536 bytes");
        ZCert::load(at("socket")).unwrap_err();
        for odd in ["pipe", "folder", "socket"] {
            refused(cert(1).save_public(at(odd)), None, "not a regular file");
            refused(cert(1).save_secret(at(odd)), None, "not a regular file");
        }
        // Neither half, if there is no room for the other.
        mkfifo(&at("half_secret"), Mode::S_IRWXU).unwrap();
        refused(cert(1).save(at("half")), None, "not a regular file");
        fs::create_dir(at("other")).unwrap();
        refused(cert(1).save(at("other")), None, "not a regular file");
        let there = ["folder", "half_secret", "large", "other", "pipe", "socket"];
        assert_eq!(names(&folder), there);
    });
}

#[test]
fn links_are_followed_in_reading_and_refused_in_writing() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    cert(1).save(at("real")).unwrap();
    symlink("real", at("link")).unwrap();
    symlink("real_secret", at("link_secret")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    assert_eq!(ZCert::load(at("link")).unwrap(), cert(1));
    ZCert::load(at("dangling")).unwrap_err();
    ZCert::load(at("loop")).unwrap_err();
    refused(cert(2).save(at("link")), None, "symbolic link");
    refused(cert(2).save_secret(at("dangling")), None, "symbolic link");
    assert!(!at("nowhere").exists());
    assert_eq!(ZCert::load(at("real")).unwrap(), cert(1));
    // The mode that counts is that of the file and not that of the link.
    set_mode(at("real_secret"), 0o644);
    refused(ZCert::load(at("link")), None, "chmod 600");
}

#[test]
fn a_reader_never_sees_half_a_certificate() {
    within(Duration::from_secs(60), "saving and loading at once", || {
        let folder = folder();
        let path = folder.path().join("cert");
        cert(1).save(&path).unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || (0..200).for_each(|n| cert(n % 2 + 1).save(&path).unwrap())
        });
        while !writer.is_finished() {
            let read = ZCert::load(&path).unwrap();
            assert!(read == cert(1) || read == cert(2));
        }
        writer.join().unwrap();
        assert_eq!(names(&folder), ["cert", "cert_secret"]);
    });
}

// Stores.

/// As the self-test of CZMQ's zcertstore.
#[test]
fn a_store_refreshes_as_zcertstores_self_test_has_it() {
    let folder = folder();
    let store = ZCertStore::directory(folder.path()).unwrap();
    let mut john = cert(1);
    assert_eq!(store.lookup(john.public_key()), None);
    john.set_meta("name", "John Doe").unwrap();
    john.save(folder.path().join("mycert.txt")).unwrap();
    let found = store.lookup(john.public_key()).unwrap();
    assert_eq!(found.meta("name"), Some("John Doe"));
}

#[test]
fn a_store_gives_no_secrets_away() {
    let folder = folder();
    cert(1).save(folder.path().join("pair")).unwrap();
    cert(2).save_secret(folder.path().join("odd-name")).unwrap();
    cert(3).save_secret(folder.path().join("only_secret")).unwrap();
    let mut store = ZCertStore::directory(folder.path()).unwrap();
    store.insert(cert(4));
    for number in [1, 2, 4] {
        assert_eq!(store.lookup(&[number; 32]), Some(cert(number).to_public()));
    }
    assert_eq!(store.lookup(&[3; 32]), None);
    let store = ZCertStore::callback(|_| Some(cert(1)));
    assert_eq!(store.lookup(&[1; 32]), Some(cert(1).to_public()));
}

#[test]
fn a_store_sees_what_comes_changes_and_goes() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let store = ZCertStore::directory(folder.path()).unwrap();
    let known = || [1, 2, 3].map(|number| store.lookup(&[number; 32]).is_some());
    assert_eq!(known(), [false, false, false]);
    cert(1).save_public(at("a")).unwrap();
    assert_eq!(known(), [true, false, false]);
    cert(2).save_public(at("b")).unwrap();
    assert_eq!(known(), [true, true, false]);
    cert(3).save_public(at("a")).unwrap();
    assert_eq!(known(), [false, true, true]);
    fs::rename(at("a"), at("c")).unwrap();
    assert_eq!(known(), [false, true, true]);
    fs::remove_file(at("c")).unwrap();
    assert_eq!(known(), [false, true, false]);
    fs::remove_dir_all(folder.path()).unwrap();
    assert_eq!(known(), [false, false, false]);
    fs::create_dir(folder.path()).unwrap();
    cert(1).save_public(at("a")).unwrap();
    assert_eq!(known(), [true, false, false]);
}

/// All texts have the same length, and many changes fall into one tick of the file system's clock.
#[test]
fn a_file_overwritten_in_place_is_seen_each_time() {
    let folder = folder();
    let path = folder.path().join("cert");
    cert(1).save_public(&path).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let store = ZCertStore::directory(folder.path()).unwrap();
    for round in 0..500_u32 {
        let [now, before] = [round % 2 + 1, (round + 1) % 2 + 1].map(|number| number as u8);
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(cert(now).encode_public().as_bytes()).unwrap();
        assert!(store.lookup(&[now; 32]).is_some(), "change {round} is not seen");
        assert!(store.lookup(&[before; 32]).is_none(), "change {round} leaves the old one");
    }
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
}

/// Size, inode and modification time are as before; only the time of the change is not.
#[test]
fn a_change_that_hides_its_time_is_seen() {
    let folder = folder();
    let path = folder.path().join("cert");
    cert(1).save_public(&path).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let store = ZCertStore::directory(folder.path()).unwrap();
    assert!(store.lookup(&[1; 32]).is_some());
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(cert(2).encode_public().as_bytes()).unwrap();
    file.set_modified(long_ago).unwrap();
    assert!(store.lookup(&[1; 32]).is_none());
    assert!(store.lookup(&[2; 32]).is_some());
}

#[test]
fn what_is_broken_is_left_out_and_logged_once() {
    alone(|| {
        record();
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        cert(1).save_public(at("good")).unwrap();
        fs::write(at("broken"), "metadata\n  a = 1\n").unwrap();
        fs::write(at("binary"), [0xFF; 100]).unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        cert(2).save_secret(at("leaked")).unwrap();
        set_mode(at("leaked"), 0o644);
        symlink("nowhere", at("dangling")).unwrap();
        fs::write(at(".hidden"), "no certificate").unwrap();
        fs::write(at("some_secret"), "no certificate").unwrap();
        let store = ZCertStore::directory(folder.path()).unwrap();
        for _ in 0..3 {
            assert!(store.lookup(&[1; 32]).is_some());
            assert!(store.lookup(&[2; 32]).is_none());
        }
        let logged = records();
        assert_eq!(logged.len(), 5, "{logged:#?}");
        for (name, why) in [
            ("broken", "line 2"),
            ("binary", "line 1"),
            ("huge", "larger"),
            ("pipe", "not a regular file"),
            ("leaked", "chmod 600"),
        ] {
            let path = format!("{:?}", at(name));
            let about = |line: &&(log::Level, String)| line.1.contains(&path);
            let line = logged.iter().find(about).unwrap_or_else(|| panic!("{name}: {logged:#?}"));
            assert_eq!(line.0, log::Level::Warn);
            assert!(line.1.contains(why), "{line:?}");
        }
        // A good one that breaks lets nobody in any more, and one that is mended does.
        fs::write(at("good"), "nothing").unwrap();
        fs::write(at("broken"), cert(3).encode_public()).unwrap();
        assert!(store.lookup(&[1; 32]).is_none());
        assert!(store.lookup(&[3; 32]).is_some());
        assert_eq!(records().len(), 1);
    });
}

#[test]
fn folders_in_folders_are_looked_into_but_not_links_to_them() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let deep: PathBuf = (0..8).map(|_| "d").collect();
    fs::create_dir_all(folder.path().join(&deep).join("d")).unwrap();
    let elsewhere = common::folder();
    cert(1).save_public(folder.path().join(&deep).join("cert")).unwrap();
    cert(2).save_public(folder.path().join(&deep).join("d/cert")).unwrap();
    cert(3).save_public(elsewhere.path().join("cert")).unwrap();
    cert(4).save_public(elsewhere.path().join("other")).unwrap();
    symlink(elsewhere.path(), at("link-to-folder")).unwrap();
    symlink("..", at("d/loop")).unwrap();
    symlink(elsewhere.path().join("other"), at("link-to-file")).unwrap();
    let store = ZCertStore::directory(folder.path()).unwrap();
    let known = [1, 2, 3, 4].map(|number| store.lookup(&[number; 32]).is_some());
    assert_eq!(known, [true, false, false, true]);
}

#[test]
fn of_two_files_with_one_key_the_first_path_counts() {
    let folder = folder();
    for name in ["b", "a", "c"] {
        let mut cert = cert(1);
        cert.set_meta("name", name).unwrap();
        cert.save_public(folder.path().join(name)).unwrap();
    }
    let store = ZCertStore::directory(folder.path()).unwrap();
    let name = || store.lookup(&[1; 32]).unwrap().meta("name").unwrap().to_owned();
    assert_eq!(name(), "a");
    fs::remove_file(folder.path().join("a")).unwrap();
    assert_eq!(name(), "b");
}

#[test]
fn a_directory_may_come_later_but_not_be_a_file() {
    let folder = folder();
    let path = folder.path().join("later");
    let store = ZCertStore::directory(&path).unwrap();
    assert_eq!(store.lookup(&[1; 32]), None);
    fs::create_dir(&path).unwrap();
    cert(1).save_public(path.join("cert")).unwrap();
    assert!(store.lookup(&[1; 32]).is_some());
    let error = ZCertStore::directory(path.join("cert")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("later/cert"), "{error}");
}

#[test]
fn a_directory_that_cannot_be_listed_lets_nobody_in_and_says_so_once() {
    alone(|| {
        record();
        let folder = folder();
        let path = folder.path().join("certs");
        fs::create_dir(&path).unwrap();
        cert(1).save_public(path.join("cert")).unwrap();
        let store = ZCertStore::directory(&path).unwrap();
        assert!(store.lookup(&[1; 32]).is_some());
        fs::rename(&path, folder.path().join("away")).unwrap();
        fs::write(&path, "").unwrap();
        for _ in 0..3 {
            assert!(store.lookup(&[1; 32]).is_none());
        }
        let logged = records();
        assert_eq!(logged.len(), 1, "{logged:#?}");
        assert!(logged[0].1.contains("cannot list"), "{logged:#?}");
        fs::remove_file(&path).unwrap();
        fs::rename(folder.path().join("away"), &path).unwrap();
        assert!(store.lookup(&[1; 32]).is_some());
    });
}

#[test]
fn more_files_than_a_store_takes_are_left_out_and_logged() {
    alone(|| {
        record();
        // In memory, where the system has such a place: elsewhere each file may take its time.
        let folder = tempdir_in("/dev/shm").unwrap_or_else(|_| folder());
        for number in 0..10_010 {
            File::create(folder.path().join(number.to_string())).unwrap();
        }
        let store = ZCertStore::directory(folder.path()).unwrap();
        assert!(store.lookup(&[1; 32]).is_none());
        let logged = records();
        let left_out = logged.iter().filter(|line| line.1.contains("has 10000 files"));
        assert_eq!(left_out.count(), 1);
        assert_eq!(logged.len(), 1 + 10_000);
    });
}

#[test]
fn a_callback_is_asked_at_each_lookup_and_cannot_pass_off_another() {
    let store = ZCertStore::callback(|key| match key[0] {
        1 => Some(cert(1)),
        2 => Some(cert(3)),
        _ => None,
    });
    assert_eq!(store.lookup(&[1; 32]), Some(cert(1).to_public()));
    assert_eq!(store.lookup(&[2; 32]), None);
    assert_eq!(store.lookup(&[4; 32]), None);
    assert_eq!(format!("{store:?}"), "ZCertStore(callback)");
}

#[test]
fn a_store_in_memory_has_what_was_inserted() {
    let mut store = ZCertStore::memory();
    assert_eq!(store.insert(cert(1)), None);
    assert_eq!(store.lookup(&[1; 32]), Some(cert(1).to_public()));
    assert_eq!(store.lookup(&[2; 32]), None);
    assert_eq!(format!("{store:?}"), "ZCertStore(1 certificates)");
    let mut named = cert(1);
    named.set_meta("name", "new").unwrap();
    assert_eq!(store.insert(named), Some(cert(1).to_public()));
    assert_eq!(store.lookup(&[1; 32]).unwrap().meta("name"), Some("new"));
    assert!(store.remove(&[1; 32]).is_some());
    assert_eq!(store.lookup(&[1; 32]), None);
    assert_eq!(store.remove(&[1; 32]), None);
}
