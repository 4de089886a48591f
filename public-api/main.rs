//! The public interface is the one in `docs/public-api.txt`, so that it does not change unnoticed.
//!
//!     cargo run -p zkit-public-api                # says what has changed
//!     cargo run -p zkit-public-api -- --accept    # writes the file anew
//!
//! It is not among what `cargo test` runs, since it depends on the compiler: only some versions of it
//! write what the crate `public-api` reads.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/public-api.txt");

fn main() -> ExitCode {
    let accept = env::args().any(|arg| arg == "--accept");
    let done = interface().and_then(|now| match accept {
        true => Ok(fs::write(RECORD, now)?),
        false => compare(&fs::read_to_string(RECORD)?, &now),
    });
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// An item a line. Which types are `Send` and `Sync` is asserted in the tests of each.
fn interface() -> Result<String> {
    let interface = public_api::Builder::from_rustdoc_json(rustdoc_json()?)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .map_err(|error| format!("public-api does not read this rustdoc's JSON: {error}"))?;
    Ok(interface.to_string())
}

/// What rustdoc knows about the crate, which a stable compiler writes on request only.
///
/// With its own build directory, because that request has much built anew, and with the system's
/// libzmq, which is linked by nothing here and need not be built.
fn rustdoc_json() -> Result<PathBuf> {
    let target = Path::new(PROJECT).join("target/public-api");
    let status = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .current_dir(PROJECT)
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["rustdoc", "--lib", "--config", "cargo/system-libzmq.toml", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .status()?;
    if !status.success() {
        return Err(format!("cargo rustdoc ended with {status}").into());
    }
    Ok(target.join("doc/zkit.json"))
}

fn compare(recorded: &str, now: &str) -> Result<()> {
    let [recorded, now] = [recorded, now].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = recorded.difference(&now).map(|line| format!("- {line}\n"));
    let new = now.difference(&recorded).map(|line| format!("+ {line}\n"));
    let changes: String = gone.chain(new).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let remedy = "If it is meant to be so, write the file anew with\n    \
                  cargo run -p zkit-public-api -- --accept\n\
                  and commit it with a line in CHANGELOG.md.";
    Err(format!("the public interface is not that of docs/public-api.txt:\n{changes}{remedy}")
        .into())
}
