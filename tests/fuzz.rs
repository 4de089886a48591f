//! Bytes from outside, made at random and by changing good ones: none of them may panic, hang, or be
//! taken for what it is not. Each target runs for a second, or for `ZKIT_FUZZ_SECONDS`; a failure
//! prints the seed of its case, which `ZKIT_FUZZ_SEED` runs again.

use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use fastrand::Rng;
use zkit::{ZAuth, ZCert, ZContext, ZFrame, ZMsg};

/// Runs `case` with one source of random numbers after the other until time is over.
#[track_caller]
fn fuzz(case: impl Fn(&mut Rng)) {
    let number = |name| env::var(name).ok().map(|text: String| text.parse().expect(name));
    if let Some(seed) = number("ZKIT_FUZZ_SEED") {
        return case(&mut Rng::with_seed(seed));
    }
    let end = Instant::now() + Duration::from_secs(number("ZKIT_FUZZ_SECONDS").unwrap_or(1));
    let mut cases = 0_u64;
    while Instant::now() < end {
        let seed = fastrand::u64(..);
        let run = panic::catch_unwind(AssertUnwindSafe(|| case(&mut Rng::with_seed(seed))));
        if let Err(cause) = run {
            eprintln!("ZKIT_FUZZ_SEED={seed} fails, case {cases}");
            panic::resume_unwind(cause);
        }
        cases += 1;
    }
    println!("{cases} cases");
}

/// Noise, or one of `good` with a few changes: bytes flipped, left out, doubled, replaced, or pieces of
/// `good` and `words` put in.
fn mutated(rng: &mut Rng, good: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = match rng.choice(good) {
        Some(good) if rng.u8(..) > 8 => good.clone(),
        _ => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
    };
    for _ in 0..rng.usize(..6) {
        let start = rng.usize(..=bytes.len());
        let end = rng.usize(start..=bytes.len().min(start + 20));
        let piece: Vec<u8> = match rng.u8(..6) {
            0 => Vec::new(),
            1 => bytes[start..end].repeat(rng.usize(1..4)),
            2 => (start..end).map(|_| rng.u8(..)).collect(),
            3 => rng.choice(words).copied().unwrap_or_default().to_vec(),
            4 => match rng.choice(good) {
                Some(other) => other[..rng.usize(..=other.len())].to_vec(),
                None => Vec::new(),
            },
            _ => bytes[start..end].iter().map(|byte| byte ^ 1 << rng.u8(..8)).collect(),
        };
        bytes.splice(start..end, piece);
    }
    bytes
}

/// What is read as a certificate is written as the same one, and no error quotes the secret key.
#[test]
fn certificate_files() {
    let mut cert = ZCert::from_public([7; 32]);
    cert.set_meta("name", "Ann # Example").unwrap();
    cert.set_meta("said", "she said \"it's\" so").unwrap();
    let secret = ZCert::from_public([0xA5; 32]).public_text();
    let public = cert.encode_public();
    let good = [
        format!("{public}    secret-key = \"{secret}\"\n").into_bytes(),
        public.into_bytes(),
        b"curve\n    public-key = 'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7'\nother\n    a\n"
            .to_vec(),
    ];
    let words: [&[u8]; 14] = [
        b"\n",
        b"    ",
        b"metadata\n",
        b"curve\n",
        b"public-key",
        b"secret-key",
        b" = ",
        b"\"",
        b"'",
        b"#",
        b"\r",
        b"\0",
        "é".as_bytes(),
        &[b'x'; 1025],
    ];
    fuzz(|rng| match ZCert::decode(&mutated(rng, &good, &words)) {
        Ok(cert) => {
            let copy = ZCert::decode(cert.encode_public().as_bytes()).unwrap();
            assert_eq!(copy, cert.to_public());
            assert!(copy.metadata().eq(cert.metadata()));
            assert_ne!(cert.public_key(), &[0; 32]);
            assert_ne!(cert.secret_key(), Some(&[0; 32]));
        }
        Err(error) => assert!(!error.to_string().contains(&secret[..8]), "{error}"),
    });
}

/// Whatever is asked of the authenticator is answered, and only who has the password is let in.
#[test]
fn zap_requests() {
    let ctx = ZContext::new().unwrap();
    let auth = ZAuth::new(&ctx).unwrap();
    auth.allow(["127.0.0.1"]).unwrap();
    auth.plain("*", [("alice", "secret")]).unwrap();
    let asker = ctx.dealer(">inproc://zeromq.zap.01").unwrap();
    let texts = [
        "1.0",
        "1",
        "domain",
        "127.0.0.1",
        "",
        "NULL",
        "PLAIN",
        "CURVE",
        "GSSAPI",
        "alice",
        "secret",
    ];
    let mut good = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    good.push(vec![7; 32]);
    let words: [&[u8]; 3] = [b"\0", &[0xFF; 255], "é".as_bytes()];
    let start = ["1.0", "1", "domain", "127.0.0.1", ""];
    let whole: [ZMsg; 3] = [
        start.into_iter().chain(["NULL"]).collect(),
        start.into_iter().chain(["PLAIN", "alice", "secret"]).collect(),
        start.map(ZFrame::from).into_iter().chain(["CURVE".into(), [7; 32].into()]).collect(),
    ];
    fuzz(|rng| {
        let mut request = rng.choice(&whole).unwrap().clone();
        for _ in 0..rng.usize(..4) {
            let frame = ZFrame::from(mutated(rng, &good, &words));
            match (rng.u8(..4), request.len()) {
                (0, _) | (_, 0) => request.push_back(frame),
                (1, len) => drop(request.remove(rng.usize(..len))),
                (_, len) => request.iter_mut().nth(rng.usize(..len)).unwrap().reset(frame),
            }
        }
        let mut msg = request.clone();
        msg.push_front("");
        asker.send(msg).unwrap();
        let reply = asker.recv_timeout(Duration::from_secs(10)).expect("an answer");
        let frame = |index| reply.get(index).unwrap();
        assert_eq!((reply.len(), frame(1)), (7, &"1.0".into()), "{reply:?}");
        let is_in = *frame(3) == "200";
        assert!(is_in || *frame(3) == "400", "{reply:?}");
        let asked = |index| request.get(index).map(|frame| &**frame);
        let shown = (asked(5), asked(6), asked(7), request.len());
        let entitled = matches!(
            shown,
            (Some(b"NULL"), _, _, 6) | (Some(b"PLAIN"), Some(b"alice"), Some(b"secret"), 8)
        );
        assert!(!is_in || entitled && asked(3) == Some(b"127.0.0.1"), "{request:?}");
    });
}
