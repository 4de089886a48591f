//! Programs in C over libczmq, for tests that hold zkit against them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, io};

/// Compiles `source`, a path in the project, to a program of this name among what Cargo built. The
/// error is what is missing for it: a compiler, or libczmq.
pub(crate) fn with_czmq(source: &str, name: &str) -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = tempfile::tempdir_in(target).unwrap();
    let compiled = directory.path().join("program");
    // First the least that needs libczmq, so that a fault of our own program is no skip.
    let probe = directory.path().join("probe.c");
    fs::write(&probe, "#include <czmq.h>\nint main (void) { return zmsg_new () == NULL; }\n")
        .unwrap();
    match compile(&probe, &compiled) {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => return Err(format!("no C compiler: {error}")),
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let output = compile(&source, &compiled).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Another run at the same time finds the old program or the new one, but a whole one.
    let program = target.join(name);
    fs::rename(compiled, &program).unwrap();
    Ok(program)
}

fn compile(source: &Path, program: &Path) -> io::Result<Output> {
    Command::new(env::var_os("CC").unwrap_or("cc".into()))
        .args(["-Wall", "-o"])
        .args([program, source])
        .args(["-lczmq", "-lzmq"])
        .output()
}
