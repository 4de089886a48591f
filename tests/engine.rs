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

/// The second run of `.ci/run` says which engine it means to test.
#[test]
fn it_is_the_one_that_was_asked_for() {
    match std::env::var("ZKIT_REQUIRE_CURVE") {
        Ok(_) => assert!(engine().curve, "{} is linked", engine()),
        Err(_) => eprintln!("skipped: ZKIT_REQUIRE_CURVE is not set; {} is linked", engine()),
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
        for way_out in ["CURVE", "libsodium", "cargo/system-libzmq.toml", "README", "Two engines"] {
            assert!(text.contains(way_out), "{way_out:?} in {text:?}");
        }
    }
}

/// The error names them, so they are there.
#[test]
fn the_way_out_is_where_the_error_says() {
    let project = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
    assert!(readme.contains("\n## Two engines\n"));
    assert!(readme.contains("cargo/system-libzmq.toml"));
    let config = std::fs::read_to_string(project.join("cargo/system-libzmq.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    let targets = config["target"].as_table().unwrap();
    assert!(targets.contains_key("x86_64-unknown-linux-gnu"));
    for (triple, target) in targets {
        let link = &target["zmq"];
        assert_eq!(link["rustc-link-lib"].as_array().unwrap().len(), 1, "{triple}");
        assert!(!link["rustc-link-search"].as_array().unwrap().is_empty(), "{triple}");
    }
}
