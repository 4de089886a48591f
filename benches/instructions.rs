//! Instructions of the hot paths, which are alike from run to run where times are not. Each path runs
//! in a process of its own under valgrind's callgrind, and its count is compared with the one in
//! `instructions.txt`.
//!
//!     cargo bench -p zkit-benches --bench instructions                # fails where there are more than 5 % more
//!     cargo bench -p zkit-benches --bench instructions -- --accept    # takes what is counted as what is right

#[allow(dead_code, reason = "only what one thread does is counted")]
#[path = "peers/frames.rs"]
mod frames;
#[allow(dead_code, reason = "only what one thread does is counted")]
#[path = "peers/loops.rs"]
mod loops;
#[allow(dead_code, reason = "only what one thread does is counted")]
#[path = "peers/messages.rs"]
mod messages;
#[path = "instructions/paths.rs"]
mod paths;
#[allow(dead_code, unused_imports, reason = "counts need no core of their own")]
#[path = "peers/workload.rs"]
mod workload;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::process::{Command, ExitCode};

use paths::{PATHS, Path};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: instructions [--accept]";
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");

/// How many times the recorded instructions a path may take.
const ALLOWED: f64 = 1.05;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["--run", name] => run(name),
        ["--bench"] => compare(),
        ["--accept", "--bench"] => accept(),
        _ if !args.contains(&"--bench") => try_all(),
        _ => Err(USAGE.into()),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A test (`cargo test --benches`): that everything works.
fn try_all() -> Result<()> {
    PATHS.iter().for_each(|path| _ = (path.run)(1));
    Ok(())
}

fn compare() -> Result<()> {
    let Some(valgrind) = valgrind()? else { return Ok(()) };
    let text = fs::read_to_string(RECORD)?;
    let record: Vec<(&str, f64)> = text.lines().filter_map(parse).collect();
    let mut problems = String::new();
    for path in PATHS {
        let count = count(path)?;
        let Some((_, recorded)) = record.iter().find(|(name, _)| *name == path.name) else {
            writeln!(problems, "{} takes {count:.1} instructions and is not recorded", path.name)?;
            continue;
        };
        let change = (count / recorded - 1.0) * 100.0;
        println!("{:<20} {count:>9.1} {change:>+6.1} %", path.name);
        if count > recorded * ALLOWED {
            writeln!(
                problems,
                "{} takes {count:.1} instructions, {change:.1} % more than the recorded {recorded:.1}",
                path.name
            )?;
        }
    }
    for (name, _) in &record {
        if !PATHS.iter().any(|path| path.name == *name) {
            writeln!(problems, "{name} is recorded and is no path")?;
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let made = made_by(&valgrind)?;
    if !text.lines().any(|line| line == made) {
        writeln!(problems, "The record was made with other tools than these:\n{made}")?;
    }
    problems += "If it is meant to be so, write a new benches/instructions.txt with\n    \
                 cargo bench -p zkit-benches --bench instructions -- --accept\nand commit it with the reason.";
    Err(problems.into())
}

fn accept() -> Result<()> {
    let Some(valgrind) = valgrind()? else { return Ok(()) };
    let mut record = format!(
        "# Instructions per operation. Written by: cargo bench -p zkit-benches --bench instructions -- --accept\n{}\n",
        made_by(&valgrind)?
    );
    for path in PATHS {
        writeln!(record, "{:<20} {:>9.1}", path.name, count(path)?)?;
    }
    fs::write(RECORD, record)?;
    Ok(())
}

/// A line of the record, unless it is a comment.
fn parse(line: &str) -> Option<(&str, f64)> {
    let (name, count) = line.split_once(' ')?;
    Some((name, count.trim().parse().ok()?))
}

/// What counts depend on besides the code.
fn made_by(valgrind: &str) -> Result<String> {
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let (major, minor, patch) = zmq::version();
    let arch = std::env::consts::ARCH;
    Ok(format!("# {}, libzmq {major}.{minor}.{patch}, {valgrind}, {arch}", rustc.trim()))
}

/// Its version, or nothing where it is not installed and need not be.
fn valgrind() -> Result<Option<String>> {
    match output(Command::new("valgrind").arg("--version")) {
        Ok(version) => Ok(Some(version.trim().to_owned())),
        Err(error) if std::env::var_os("ZKIT_REQUIRE_VALGRIND").is_some() => {
            Err(format!("no valgrind: {error}").into())
        }
        Err(error) => {
            println!("skipped, no valgrind: {error}");
            Ok(None)
        }
    }
}

/// The instructions of one operation.
fn count(path: &Path) -> Result<f64> {
    let mut command = Command::new("valgrind");
    // Only what the thread that calls `timed` does in it.
    command.args(["--tool=callgrind", "--toggle-collect=*::workload::timed*"]);
    command.args(["--callgrind-out-file=/dev/null", "--log-fd=1"]);
    // The same copies in every processor, where the C library would choose among several.
    command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX,-ERMS,-FSRM");
    command.arg(std::env::current_exe()?).args(["--run", path.name]);
    let log = output(&mut command)?;
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    let instructions: u64 = collected.ok_or_else(|| format!("no count in\n{log}"))?.1.parse()?;
    if instructions == 0 {
        return Err(format!("callgrind does not find the function `timed` in\n{log}").into());
    }
    Ok(instructions as f64 / path.operations as f64)
}

/// A child: `--run NAME`.
fn run(name: &str) -> Result<()> {
    let path = PATHS.iter().find(|path| path.name == name).ok_or("no such path")?;
    (path.run)(path.operations);
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}\n{text}{errors}", output.status).into());
    }
    Ok(text)
}
