//! Where it was measured.

use std::process::Command;
use std::{env, fs, thread};

/// What can be found out about it, a line each.
pub(crate) fn here() -> Vec<String> {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = model.map_or(env::consts::ARCH, |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map_or_else(
        |_| "an unknown rustc".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    vec![
        format!("{processor}, {cores} cores for this"),
        format!("{} {}", env::consts::OS, kernel.trim()),
        rustc,
    ]
}
