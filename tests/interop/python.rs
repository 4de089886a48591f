//! Python with pyzmq: where `.ci/run` installs it, or any that is there.

use std::path::Path;
use std::process::Command;

/// The interpreter, or what is missing.
pub(crate) fn with_pyzmq() -> Result<String, String> {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("interop");
    let installed = installed.join("venv/bin/python").display().to_string();
    let mut why = String::new();
    for python in [installed, "python3".into()] {
        match Command::new(&python).args(["-c", "import zmq"]).output() {
            Ok(output) if output.status.success() => return Ok(python),
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => why = format!("{python}: {error}"),
        }
    }
    Err(why)
}
