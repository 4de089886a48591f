//! The public interface is the one in `docs/public-api.txt`, so that it does not change unnoticed.
//!
//!     cargo test --test public_api -- --ignored
//!     ZKIT_ACCEPT=1 cargo test --test public_api -- --ignored     # writes it anew

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What rustdoc knows about the crate. Its form is the compiler's own affair, and has to be one that
/// the crate `public-api` reads; a stable compiler writes it on request only.
///
/// With its own build directory, because that request has much built anew, and with the system's
/// libzmq, which is linked by nothing here and need not be built.
fn rustdoc_json(root: &Path) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("public-api");
    let status = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .current_dir(root)
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["rustdoc", "--lib", "--config", "cargo/system-libzmq.toml", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "cargo rustdoc ended with {status}");
    target.join("doc/zkit.json")
}

#[test]
#[ignore = "depends on the compiler, and takes its time"]
fn it_is_as_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let record = root.join("docs/public-api.txt");
    // Which types are `Send` and `Sync` is asserted in the tests of each.
    let api = public_api::Builder::from_rustdoc_json(rustdoc_json(root))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .unwrap_or_else(|error| panic!("public-api does not read this rustdoc's JSON: {error}"))
        .to_string();
    if env::var_os("ZKIT_ACCEPT").is_some() {
        fs::write(&record, api).unwrap();
        return;
    }
    let recorded = fs::read_to_string(&record).unwrap();
    let (now, before): (BTreeSet<_>, BTreeSet<_>) =
        (api.lines().collect(), recorded.lines().collect());
    let gone = before.difference(&now).map(|line| format!("- {line}\n"));
    let new = now.difference(&before).map(|line| format!("+ {line}\n"));
    let changes: String = gone.chain(new).collect();
    assert!(
        changes.is_empty(),
        "the public interface is not that of docs/public-api.txt:\n{changes}\
         If it is meant to be so, write the file anew with\n    \
         ZKIT_ACCEPT=1 cargo test --test public_api -- --ignored\n\
         and commit it with a line in CHANGELOG.md."
    );
}
