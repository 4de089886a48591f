//! What zkit writes and reads, held against the real CZMQ. Without a C compiler or libczmq these
//! tests are skipped, unless `ZKIT_REQUIRE_CZMQ` is set.

use std::env;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;
use zkit::{Error, ZCert, ZCertStore, ZMsg};

#[path = "interop/compile.rs"]
mod compile;

/// The sizes at which the encoding of a size changes, and their neighbours.
const SIZES: [usize; 9] = [0, 1, 253, 254, 255, 256, 65535, 65536, 65537];

/// The program in `tests/czmq/interop.c`, and a directory for its files.
struct Czmq {
    program: &'static Path,
    directory: TempDir,
}

/// The program, compiled once for all tests, or what is missing for it.
static PROGRAM: LazyLock<Result<PathBuf, String>> =
    LazyLock::new(|| compile::with_czmq("tests/czmq/interop.c", "czmq-interop"));

impl Czmq {
    /// `None`, and said so, where libczmq is not installed.
    fn find() -> Option<Czmq> {
        match &*PROGRAM {
            Ok(program) => Some(Czmq { program, directory: tempfile::tempdir().unwrap() }),
            Err(why) => {
                assert!(env::var_os("ZKIT_REQUIRE_CZMQ").is_none(), "libczmq is missing: {why}");
                eprintln!("skipped: libczmq is missing: {why}");
                None
            }
        }
    }

    fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.directory.path().join("file");
        fs::write(&path, content).unwrap();
        path
    }

    /// What the program prints, by lines. It ends itself after a minute.
    fn run(&self, arguments: &[&str], input: Stdio) -> Vec<String> {
        let output = Command::new(self.program).args(arguments).stdin(input).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// What `zmsg_decode` makes of each.
    fn decode(&self, inputs: &[Vec<u8>]) -> Vec<String> {
        let mut lines = tempfile::tempfile_in(self.directory.path()).unwrap();
        for input in inputs {
            writeln!(lines, "{}", hex(input)).unwrap();
        }
        lines.rewind().unwrap();
        let messages = self.run(&["decode"], lines.into());
        assert_eq!(messages.len(), inputs.len());
        messages
    }

    /// What `zmsg_load` makes of a file.
    fn load(&self, content: &[u8]) -> String {
        let path = self.file(content);
        self.run(&["load", path.to_str().unwrap()], Stdio::null()).concat()
    }

    /// What `zmsg_save` says of a message of these sizes, and the file.
    fn save(&self, sizes: &[usize]) -> (String, File) {
        let path = self.file(b"");
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let mut arguments = vec!["save", path.to_str().unwrap()];
        arguments.extend(sizes.iter().map(String::as_str));
        let said = self.run(&arguments, Stdio::null()).concat();
        (said, File::open(path).unwrap())
    }
}

/// The content of a frame of this size, the same in `interop.c`.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|index| ((size + index) % 251) as u8).collect()
}

fn message(sizes: &[usize]) -> ZMsg {
    sizes.iter().copied().map(content).collect()
}

/// A message of no frames, one of each size, and one of all: what `interop encode` encodes.
fn messages() -> Vec<ZMsg> {
    let mut messages = vec![ZMsg::new()];
    messages.extend(SIZES.iter().map(|size| message(&[*size])));
    messages.push(message(&SIZES));
    messages
}

/// Bytes as the program writes and reads them.
fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".into(),
        _ => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('-').as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A message as the program writes it.
fn line(msg: &ZMsg) -> String {
    msg.iter().fold(msg.len().to_string(), |line, frame| line + " " + &hex(frame))
}

fn saved(msg: &ZMsg) -> Vec<u8> {
    let mut file = Vec::new();
    msg.save(&mut file).unwrap();
    file
}

#[test]
fn encoded_messages_are_the_bytes_of_zmsg_encode() {
    let Some(czmq) = Czmq::find() else { return };
    let theirs = czmq.run(&["encode"], Stdio::null());
    assert_eq!(theirs.len(), messages().len());
    for (msg, theirs) in messages().iter().zip(&theirs) {
        let sizes: Vec<usize> = msg.iter().map(|frame| frame.len()).collect();
        assert!(hex(&msg.encode().unwrap()) == *theirs, "a message of {sizes:?} bytes");
        assert!(ZMsg::decode(&unhex(theirs)).unwrap() == *msg, "a message of {sizes:?} bytes");
    }
}

#[test]
fn zmsg_decode_reads_encoded_messages() {
    let Some(czmq) = Czmq::find() else { return };
    let mut messages = messages();
    messages.push(("Hello", "", "World", b"\x00\xFF", "").into());
    let encoded: Vec<Vec<u8>> = messages.iter().map(|msg| msg.encode().unwrap().to_vec()).collect();
    for (theirs, msg) in czmq.decode(&encoded).iter().zip(&messages) {
        let sizes: Vec<usize> = msg.iter().map(|frame| frame.len()).collect();
        assert!(*theirs == line(msg), "a message of {sizes:?} bytes");
    }
}

/// Sizes of 2 GiB and more are left out: `zmsg_decode` crashes on them.
#[test]
fn what_zmsg_decode_refuses_is_refused_and_nothing_else() {
    let Some(czmq) = Czmq::find() else { return };
    let whole = ZMsg::from(("Hello", "", vec![7; 300], "x")).encode().unwrap();
    let mut inputs: Vec<Vec<u8>> = (0..=whole.len()).map(|end| whole[..end].to_vec()).collect();
    inputs.push(b"\xFF\0\0\0\x02ab".to_vec());
    inputs.push(b"\xFF\0\0\0\x03ab".to_vec());
    inputs.push(b"\xFF\0\0\0\0".to_vec());
    inputs.push(b"matr".to_vec());
    let mut refused = 0;
    for (theirs, input) in czmq.decode(&inputs).iter().zip(&inputs) {
        match ZMsg::decode(input) {
            Ok(msg) => assert_eq!(*theirs, line(&msg), "{}", hex(input)),
            Err(Error::Decode { .. }) => {
                assert_eq!(theirs, "malformed", "{}", hex(input));
                refused += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    // All prefixes but those that end with a frame, and two more.
    assert_eq!(refused, whole.len() + 1 - 5 + 2);
}

#[test]
fn zmsg_load_reads_saved_messages_without_empty_frames() {
    let Some(czmq) = Czmq::find() else { return };
    let mut messages = messages();
    messages.retain(|msg| msg.iter().all(|frame| !frame.is_empty()));
    messages.push(message(&SIZES[1..]));
    assert_eq!(messages.len(), 10);
    for msg in messages {
        let sizes: Vec<usize> = msg.iter().map(|frame| frame.len()).collect();
        assert!(czmq.load(&saved(&msg)) == line(&msg), "a message of {sizes:?} bytes");
    }
}

#[test]
fn messages_that_zmsg_save_wrote_are_loaded() {
    let Some(czmq) = Czmq::find() else { return };
    for sizes in [&SIZES[1..], &[5], &[300, 1, 1], &[]] {
        let (said, file) = czmq.save(sizes);
        assert_eq!(said, "saved");
        let msg = ZMsg::load(file).unwrap();
        assert!(msg == message(sizes), "a message of {sizes:?} bytes");
    }
}

/// As documented beside `ZMsg::save`.
#[test]
fn an_empty_frame_fails_zmsg_save_and_zmsg_load_but_not_zkits() {
    let Some(czmq) = Czmq::find() else { return };
    for sizes in [&[0][..], &[5, 0], &[0, 5], &[5, 0, 5]] {
        assert_eq!(czmq.save(sizes).0, "failed", "a message of {sizes:?} bytes");
        let file = saved(&message(sizes));
        assert_eq!(czmq.load(&file), "malformed", "a message of {sizes:?} bytes");
        assert_eq!(ZMsg::load(&file[..]).unwrap(), message(sizes));
    }
}

/// As documented beside `ZMsg::save`.
#[test]
fn a_file_that_ends_inside_a_size_is_whole_for_zmsg_load_but_not_for_zkit() {
    let Some(czmq) = Czmq::find() else { return };
    let msg = message(&[5, 6]);
    let mut file = saved(&msg);
    let end = file.len() as u64;
    file.extend([1, 0, 0]);
    assert_eq!(czmq.load(&file), line(&msg));
    assert!(matches!(ZMsg::load(&file[..]), Err(Error::Decode { offset, .. }) if offset == end));
}

#[test]
fn a_file_that_ends_inside_a_frame_is_refused_by_both() {
    let Some(czmq) = Czmq::find() else { return };
    let mut file = saved(&message(&[5, 6]));
    file.pop();
    assert_eq!(czmq.load(&file), "malformed");
    ZMsg::load(&file[..]).unwrap_err();
}

#[test]
fn signals_are_the_bytes_of_zmsg_new_signal() {
    let Some(czmq) = Czmq::find() else { return };
    let theirs = czmq.run(&["signal"], Stdio::null());
    assert_eq!(theirs.len(), 256);
    for (status, theirs) in (0..=255).zip(&theirs) {
        let signal = ZMsg::signal(status);
        assert_eq!(*theirs, format!("{status} {}", hex(signal.first().unwrap())));
        let bytes = unhex(theirs.split(' ').nth(1).unwrap());
        assert_eq!(ZMsg::from(bytes).signal_status(), Some(status));
    }
}

/// CZMQ has no quotation marks in values.
const METADATA: [(&str, &str); 7] = [
    ("email", "ann@example.org"),
    ("hash", "# not a comment"),
    ("name", "Ann Example"),
    ("percent", "100%s %n"),
    ("quote", "it's"),
    ("spaces", "  kept  "),
    ("unicode", "Ünïcödé 漢字"),
];

/// A certificate as the program prints it.
fn certificate(cert: &ZCert) -> Vec<String> {
    let secret = *cert.secret_key().unwrap_or(&[0; 32]);
    let mut lines = vec![cert.public_text(), ZCert::from_public(secret).public_text()];
    let mut metadata: Vec<String> =
        cert.metadata().map(|(name, value)| format!("{name}={value}")).collect();
    metadata.sort();
    lines.extend(metadata);
    lines
}

#[test]
fn certificates_that_zcert_save_wrote_are_loaded() {
    let Some(czmq) = Czmq::find() else { return };
    let path = czmq.directory.path().join("cert");
    let mut arguments = vec!["cert-save", path.to_str().unwrap()];
    arguments.extend(METADATA.iter().flat_map(|(name, value)| [*name, *value]));
    let keys = czmq.run(&arguments, Stdio::null());
    let cert = ZCert::load(&path).unwrap();
    let lines = certificate(&cert);
    assert_eq!(lines[..2], keys);
    let metadata = METADATA.map(|(name, value)| format!("{name}={value}"));
    assert_eq!(lines[2..], metadata);
    assert!(cert.has_secret());

    let public = ZCert::load_public(&path).unwrap();
    assert_eq!(public, cert.to_public());
    assert_eq!(certificate(&public)[2..], metadata);
    // And by CZMQ as a store's.
    let store = ZCertStore::directory(czmq.directory.path()).unwrap();
    assert_eq!(store.lookup(cert.public_key()).unwrap().meta("name"), Some("Ann Example"));
}

#[test]
fn zcert_load_and_zcertstore_read_saved_certificates() {
    let Some(czmq) = Czmq::find() else { return };
    let path = czmq.directory.path().join("cert");
    let mut cert = ZCert::from_keys([1; 32], [2; 32]);
    for (name, value) in METADATA {
        cert.set_meta(name, value).unwrap();
    }
    // Beyond what CZMQ writes itself, but it reads them.
    cert.set_meta("empty", "").unwrap();
    cert.set_meta("double", "\"quoted\"").unwrap();
    cert.set_meta("mixed", "she said \"it's\" so").unwrap();
    cert.set_meta("long", &"x".repeat(1024 - "    long = \"\"\n".len())).unwrap();
    cert.save(&path).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(czmq.run(&["cert-load", path], Stdio::null()), certificate(&cert));
    let folder = czmq.directory.path().to_str().unwrap();
    let find = |cert: &ZCert| czmq.run(&["store", folder, &cert.public_text()], Stdio::null());
    assert_eq!(find(&cert), ["Ann Example"]);
    assert_eq!(find(&ZCert::from_public([9; 32])), ["unknown"]);

    fs::remove_file(format!("{path}_secret")).unwrap();
    assert_eq!(czmq.run(&["cert-load", path], Stdio::null()), certificate(&cert.to_public()));
}

/// Where zkit reads one, CZMQ reads the same; zkit refuses more.
#[test]
fn zcert_load_agrees_on_what_people_write() {
    let Some(czmq) = Czmq::find() else { return };
    let key = ZCert::from_public([1; 32]).public_text();
    let path = czmq.directory.path().join("cert");
    let (mut read, mut refused) = (0, 0);
    for more in [
        "metadata\n    name = plain # comment\n",
        "metadata\n    name = 'single' # comment\n    flag\n    empty =\n",
        "metadata # comment\n    a = she's \"here\"\n        nested = 1\nother\n    b = 2\n",
        "\r\nmetadata\r\n    name = x\r\n",
        "# comment\n#\n\n    deeper = ignored\n",
        "metadata\n  half = 1\n",
        "metadata\n\ttab = 1\n",
        "metadata\n            deep = 1\n",
        "metadata\n    open = \"\n",
        "metadata\n    more = \"a\" b\n",
        "metadata\n    two words\n",
        "metadata\n    /name = 1\n",
        "metadata\n    = 1\n",
    ] {
        fs::write(&path, format!("curve\n    public-key = \"{key}\"\n{more}")).unwrap();
        let theirs = czmq.run(&["cert-load", path.to_str().unwrap()], Stdio::null());
        match ZCert::load(&path) {
            Ok(cert) => {
                read += 1;
                assert_eq!(theirs, certificate(&cert), "{more:?}");
            }
            Err(_) => {
                refused += 1;
                // Behind what is wrong.
                assert_eq!(theirs.last().unwrap(), "malformed", "{more:?}");
            }
        }
    }
    assert_eq!((read, refused), (5, 8));
}
