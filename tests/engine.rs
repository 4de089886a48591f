//! What the linked libzmq is, and what zkit says when it lacks something.

use zkit::{Error, ZCert, ZContext, engine};

#[test]
fn it_has_the_version_and_capabilities_that_libzmq_tells() {
    let engine = engine();
    let (major, minor, patch) = zmq::version();
    assert_eq!(engine.version, (major as u32, minor as u32, patch as u32));
    for (name, has) in [
        ("ipc", engine.ipc),
        ("pgm", engine.pgm),
        ("tipc", engine.tipc),
        ("norm", engine.norm),
        ("vmci", engine.vmci),
        ("curve", engine.curve),
        ("gssapi", engine.gssapi),
        ("draft", engine.draft),
    ] {
        assert_eq!(zmq::has(name), Some(has), "{name}");
        // None of the names is a part of another.
        assert_eq!(engine.to_string().contains(name), has, "{name} in {engine}");
    }
}

#[test]
fn its_text_is_a_line_for_a_log() {
    let engine = engine();
    let (major, minor, patch) = engine.version;
    let text = engine.to_string();
    assert!(text.starts_with(&format!("libzmq {major}.{minor}.{patch} with ipc")), "{text}");
    if engine.curve && !engine.pgm && !engine.tipc && !engine.norm && !engine.vmci {
        assert!(text.contains("with ipc, curve"), "{text}");
    }
}

/// Whether this program gets its libzmq from the system when it starts.
fn is_the_systems() -> bool {
    let loaded = std::fs::read_to_string("/proc/self/maps").unwrap();
    loaded.lines().any(|line| line.contains("/libzmq.so"))
}

/// zkit's own, unless the build names another: complete, and with CURVE by the feature of that name.
#[test]
fn it_is_the_one_that_was_asked_for() {
    let engine = engine();
    // Each run of `.ci/run` says which it means to test.
    let asked = std::env::var("ZKIT_REQUIRE_ENGINE");
    if let Ok(asked) = &asked {
        assert_eq!(is_the_systems(), asked == "system", "{engine} is linked");
        assert_eq!(cfg!(feature = "curve"), asked != "without-curve");
    }
    if is_the_systems() {
        assert!(engine.version >= (4, 3, 0), "{engine}");
        assert!(engine.curve || asked.is_err(), "{engine}");
        return;
    }
    assert_eq!(engine.version, (4, 3, 5));
    assert_eq!(engine.curve, cfg!(feature = "curve"), "{engine}");
    assert!(engine.ipc && !engine.draft, "{engine}");
}

/// Both libzmqs name their sources in their assertions. `engine/tests/linked.sh` looks at what linkers
/// take for other programs.
#[test]
fn nothing_of_another_libzmq_is_in_the_program() {
    let program = std::fs::read("/proc/self/exe").unwrap();
    let names = |part: &[u8]| program.windows(part.len()).any(|bytes| bytes == part);
    // Put together here, or this test would find itself.
    let [ours, older] = [["libzmq/source", "src/ctx.cpp"].join("/"), ["zeromq", "src-0"].join("-")];
    assert_eq!(names(ours.as_bytes()), !is_the_systems());
    assert!(!names(older.as_bytes()), "the one that zmq-sys compiles");
}

/// libzmq's drafts may change, and its WebSockets ask no authenticator. zkit refuses them on every engine,
/// and its own does not have them.
#[test]
fn drafts_stay_out() {
    let ctx = ZContext::builder().signals(false).build().unwrap();
    let plain = zmq::Context::new();
    for endpoint in ["ws://127.0.0.1:*", "wss://127.0.0.1:*"] {
        let pull = ctx.pull("").unwrap();
        let refusals = [pull.bind(endpoint).map(drop), pull.connect(&endpoint.replace('*', "9"))];
        for refused in refusals {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("WebSockets"), "{text}");
        }
        if !is_the_systems() {
            let refused = plain.socket(zmq::PULL).unwrap().bind(endpoint);
            assert_eq!(refused, Err(zmq::Error::EPROTONOSUPPORT), "{endpoint}");
        }
    }
}

#[test]
fn without_curve_nothing_pretends_to_have_it() {
    if engine().curve {
        eprintln!("skipped: {} is linked", engine());
        return;
    }
    let ctx = ZContext::builder().signals(false).build().unwrap();
    let socket = ctx.rep("").unwrap();
    let cert = ZCert::from_keys([1; 32], [2; 32]);
    for refused in [ZCert::new().map(drop), cert.apply(&socket), socket.set_curve_server(true)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let text = error.to_string();
        for way_out in ["CURVE", "libsodium", "feature \"curve\"", "README", "The engine"] {
            assert!(text.contains(way_out), "{way_out:?} in {text:?}");
        }
    }
}

/// The error names them, so they are there.
#[test]
fn the_way_out_is_where_the_error_says() {
    let project = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
    assert!(readme.contains("\n## The engine\n"));
    assert!(readme.contains("cargo/system-libzmq.toml"));
    let config = std::fs::read_to_string(project.join("cargo/system-libzmq.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    let targets = config["target"].as_table().unwrap();
    assert!(targets.contains_key("x86_64-unknown-linux-gnu"));
    for (triple, target) in targets {
        // Nothing is compiled for it, not even libsodium.
        assert_eq!(target["zmq"]["engine"].as_str(), Some("system"), "{triple}");
        assert!(target["sodium"].as_table().unwrap().is_empty(), "{triple}");
        let link = &target["zmq"];
        assert_eq!(link["rustc-link-lib"].as_array().unwrap().len(), 1, "{triple}");
        assert!(!link["rustc-link-search"].as_array().unwrap().is_empty(), "{triple}");
    }
}
