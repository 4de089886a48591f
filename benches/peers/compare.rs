//! Each workload by each peer that has it, in rounds in which they take turns.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::peer::Peer;
use crate::workload::{Pinned, Workload};
use crate::{GROUPS, Group, Result, USAGE, curve, machine};

/// What to run and how much of it.
pub(crate) struct Plan {
    rounds: usize,
    /// The part of a workload's usual count that a run does.
    divisor: u64,
    names: Vec<String>,
    programs: Vec<PathBuf>,
    save: Option<PathBuf>,
}

impl Plan {
    /// Everything once, and little of it.
    pub(crate) fn once() -> Plan {
        let (names, programs) = (Vec::new(), Vec::new());
        Plan { rounds: 1, divisor: 1000, names, programs, save: None }
    }

    pub(crate) fn from(args: Vec<String>) -> Result<Plan> {
        let mut plan = Plan { rounds: 15, divisor: 1, ..Plan::once() };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => (plan.rounds, plan.divisor) = (5, 4),
                "--rounds" => plan.rounds = args.next().ok_or(USAGE)?.parse()?,
                "--peer" => plan.programs.push(args.next().ok_or(USAGE)?.into()),
                "--save" => plan.save = Some(args.next().ok_or(USAGE)?.into()),
                option if option.starts_with('-') => return Err(USAGE.into()),
                _ => plan.names.push(arg),
            }
        }
        if plan.rounds == 0 {
            return Err(USAGE.into());
        }
        Ok(plan)
    }

    fn wants(&self, workload: &Workload) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| workload.name.contains(part.as_str()))
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        let mut peers = vec![Peer::zkit(), Peer::raw()];
        for program in &self.programs {
            peers.push(Peer::of_program(program)?);
        }
        Ok(peers)
    }
}

/// All that was measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Vec<String>,
    pub(crate) rounds: usize,
    /// Name and version.
    pub(crate) peers: Vec<(String, String)>,
    pub(crate) groups: Vec<(String, Vec<Row>)>,
}

/// A workload's.
#[derive(Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) count: u64,
    /// In the order of the peers.
    pub(crate) cells: Vec<Cell>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Cell {
    /// The peer has nothing of the kind.
    Lacking,
    /// It has, and it did not work.
    Failed,
    Times(Times),
}

/// Nanoseconds of an operation, of each round.
#[derive(Serialize, Deserialize)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn median(&self) -> f64 {
        quantile(self.0.clone(), 0.5)
    }

    /// Half of the range that half of the rounds are in, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        let [low, high] = [0.25, 0.75].map(|part| quantile(self.0.clone(), part));
        (high - low) / 2.0 / self.median()
    }

    /// How many times as long as the other it takes: of each round, the median.
    pub(crate) fn over(&self, other: &Times) -> f64 {
        let ratios = self.0.iter().zip(&other.0).map(|(this, other)| this / other).collect();
        quantile(ratios, 0.5)
    }
}

impl Row {
    pub(crate) fn times(&self, peer: usize) -> Option<&Times> {
        match &self.cells[peer] {
            Cell::Times(times) => Some(times),
            Cell::Lacking | Cell::Failed => None,
        }
    }
}

pub(crate) fn all(plan: &Plan) -> Result<()> {
    let peers = plan.peers()?;
    for peer in &peers {
        println!("# {}: {}", peer.name, peer.version);
    }
    println!("# ns per operation: the median of {} interleaved rounds ±spread", plan.rounds);
    println!("# (times zkit's: the median of the rounds' ratios; more is slower than zkit)");
    let mut groups = Vec::new();
    for group in GROUPS {
        let mut rows = Vec::new();
        for workload in group.workloads().filter(|one| plan.wants(one)) {
            if curve::is_encrypted(workload) && !zkit::engine().curve {
                println!("{} is unsupported by {}", workload.name, zkit::engine());
                continue;
            }
            let row = measured(plan, &peers, workload)?;
            println!("{}", line(&row, &peers));
            rows.push(row);
        }
        if !rows.is_empty() {
            groups.push((group.0.to_owned(), rows));
        }
    }
    if groups.is_empty() {
        let workloads = GROUPS.iter().flat_map(Group::workloads);
        let names: Vec<_> = workloads.map(|workload| workload.name).collect();
        return Err(format!("there is none of these; there are {}", names.join(", ")).into());
    }
    if let Some(path) = &plan.save {
        let peers = peers.into_iter().map(|peer| (peer.name, peer.version)).collect();
        save(path, &Results { machine: machine::here(), rounds: plan.rounds, peers, groups })?;
    }
    Ok(())
}

fn save(path: &Path, results: &Results) -> Result<()> {
    fs::write(path, serde_json::to_string(results)?)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn measured(plan: &Plan, peers: &[Peer], workload: &Workload) -> Result<Row> {
    let count = (workload.count / plan.divisor).max(10);
    let _pinned = workload.pinned.then(Pinned::new);
    let mut cells: Vec<Cell> = peers
        .iter()
        .map(|peer| match peer.has(workload) {
            true => Cell::Times(Times(Vec::with_capacity(plan.rounds))),
            false => Cell::Lacking,
        })
        .collect();
    for round in 0..plan.rounds {
        // Each goes first in its turn.
        for turn in 0..peers.len() {
            let index = (round + turn) % peers.len();
            let (peer, cell) = (&peers[index], &mut cells[index]);
            let Cell::Times(times) = cell else { continue };
            match peer.measure(workload, count) {
                Ok(time) => times.0.push(time),
                Err(error) if peer.is_of_others() => {
                    eprintln!("{} by {}: {error}", workload.name, peer.name);
                    *cell = Cell::Failed;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Row { name: workload.name.to_owned(), count, cells })
}

fn line(row: &Row, peers: &[Peer]) -> String {
    let zkit = row.times(0);
    let mut line = format!("{} n={}", row.name, row.count);
    for (peer, cell) in peers.iter().zip(&row.cells) {
        line += &match cell {
            Cell::Lacking => continue,
            Cell::Failed => format!(" {}=failed", peer.name),
            Cell::Times(times) => {
                let (median, spread) = (times.median(), times.spread() * 100.0);
                format!(" {}={median:.1}±{spread:.0}%", peer.name)
            }
        };
        if let (Cell::Times(times), Some(zkit)) = (cell, zkit) {
            if peer.name != "zkit" {
                line += &format!("({:.2})", times.over(zkit));
            }
        }
    }
    line
}

/// Between the two nearest values, where it falls between them.
fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len().saturating_sub(1)) as f64 * part;
    let [below, above] = [place.floor(), place.ceil()].map(|place| values[place as usize]);
    below + (above - below) * place.fract()
}
