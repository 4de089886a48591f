//! Who is measured: zkit and raw `zmq`, which are in this program, and programs of others.
//!
//! A program of others prints a line with its versions, and its workloads' names, a line each, when it
//! is started alone; the nanoseconds of one operation when started with a name and a count. With
//! `--proxy` or `--spqueue` and two endpoints it is what is in the middle of these workloads.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::workload::Workload;
use crate::{Result, USAGE, proxy, spqueue};

/// No run takes as long as that, unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

const RAW: &str = "raw";

pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) version: String,
    program: Program,
}

enum Program {
    This,
    Other { path: PathBuf, workloads: Vec<String> },
}

impl Peer {
    pub(crate) fn zkit() -> Peer {
        Peer::this("zkit", concat!("zkit ", env!("CARGO_PKG_VERSION")))
    }

    pub(crate) fn raw() -> Peer {
        Peer::this(RAW, "zmq 0.10")
    }

    fn this(name: &str, crate_version: &str) -> Peer {
        let (major, minor, patch) = zmq::version();
        let version = format!("{crate_version}, libzmq {major}.{minor}.{patch}");
        Peer { name: name.to_owned(), version, program: Program::This }
    }

    /// It is called what its file is.
    pub(crate) fn of_program(path: &Path) -> Result<Peer> {
        let output = output(&mut Command::new(path))?;
        let mut lines = output.lines().map(str::to_owned);
        let version = lines.next().ok_or_else(|| format!("{} is no peer", path.display()))?;
        let name = path.file_stem().ok_or(USAGE)?.to_string_lossy().into_owned();
        let program = Program::Other { path: path.to_owned(), workloads: lines.collect() };
        Ok(Peer { name, version, program })
    }

    pub(crate) fn is_of_others(&self) -> bool {
        matches!(self.program, Program::Other { .. })
    }

    pub(crate) fn has(&self, workload: &Workload) -> bool {
        match &self.program {
            Program::This => self.name != RAW || workload.raw.is_some(),
            Program::Other { workloads, .. } => workloads.iter().any(|name| name == workload.name),
        }
    }

    /// The nanoseconds of an operation, of so many.
    pub(crate) fn measure(&self, workload: &Workload, count: u64) -> Result<f64> {
        let this = std::env::current_exe()?;
        let mut command = match &self.program {
            Program::This => {
                let mut command = Command::new(&this);
                command.args(["--run", &self.name]);
                command
            }
            Program::Other { path, .. }
                if workload.is_one_of(proxy::WORKLOADS)
                    || workload.is_one_of(spqueue::WORKLOADS) =>
            {
                let mut command = Command::new(this);
                command.arg("--run").arg(path);
                command
            }
            Program::Other { path, .. } => Command::new(path),
        };
        command.arg(workload.name).arg(count.to_string());
        Ok(output(&mut command)?.trim().parse()?)
    }
}

/// What it prints, which is little enough for a pipe to hold.
fn output(command: &mut Command) -> Result<String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let end = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Err(format!("{command:?} did not end in {LIMIT:?}").into());
        }
        thread::sleep(Duration::from_millis(2));
    };
    if !status.success() {
        return Err(format!("{command:?} ended with {status}").into());
    }
    let mut output = String::new();
    child.stdout.take().ok_or("it has a pipe")?.read_to_string(&mut output)?;
    Ok(output)
}
