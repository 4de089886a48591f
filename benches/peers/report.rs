//! The page and the plots of what was measured: `--report FILE FOLDER`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::compare::{Cell, Results, Row, Times};
use crate::plot::Plot;
use crate::{Result, USAGE};

/// A plot: its file, what it shows, and the workloads' name before the number.
const PLOTS: [(&str, &str, &str, &str); 2] = [
    (
        "sockets.svg",
        "A message to one socket, while the others are idle",
        "sockets in the loop",
        "dispatch-",
    ),
    ("timers.svg", "A message, while no timer is due", "timers in the loop", "idle-timers-"),
];

const PAGE: &str = "benchmarks.md";

pub(crate) fn write(args: &[String]) -> Result<()> {
    let [file, folder] = args else { return Err(USAGE.into()) };
    let text = fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let results: Results = serde_json::from_str(&text)?;
    let folder = Path::new(folder);
    for (name, title, of, prefix) in PLOTS {
        plot(&results, title, of, prefix).draw(&folder.join(name))?;
    }
    let path = folder.join(PAGE);
    fs::write(&path, page(&results)?)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn plot<'a>(results: &Results, title: &'a str, of: &'a str, prefix: &str) -> Plot<'a> {
    let rows = results.groups.iter().flat_map(|(_, rows)| rows);
    let points: Vec<(u64, &Row)> =
        rows.filter_map(|row| Some((row.name.strip_prefix(prefix)?.parse().ok()?, row))).collect();
    let line = |peer: usize| -> Vec<(usize, f64)> {
        let medians = points.iter().map(|(_, row)| row.times(peer).map(Times::median));
        medians.enumerate().filter_map(|(place, median)| Some((place, median?))).collect()
    };
    let names = results.peers.iter().map(|(name, _)| name.clone());
    let lines = names.enumerate().map(|(peer, name)| (name, line(peer)));
    Plot {
        title,
        of,
        numbers: points.iter().map(|(number, _)| *number).collect(),
        lines: lines.collect(),
    }
}

fn page(results: &Results) -> Result<String> {
    let mut page = String::from("# Side by side\n\n");
    writeln!(
        page,
        "Made by `benches/peers/run.sh`. What each workload does, how each peer is used and what is \
         timed is in [benches/README.md](../benches/README.md).\n"
    )?;
    writeln!(
        page,
        "A cell is the time of one operation: the median of {} rounds in which the peers take turns, \
         ± half of the range that the middle half of the rounds is in. In parentheses how many times \
         as long as zkit: **more than 1 is slower than zkit, less is faster**. The shortest time of a \
         line is bold. `–`: the peer has nothing of the kind. `failed`: a run of it ended with an error, or \
         not within two minutes.\n",
        results.rounds
    )?;
    writeln!(
        page,
        "Not all of it is like for like. `raw` has no reactor, no actors and no broker: its figures there \
         are those of the least that does the work, a bound and no rival. The libraries on tokio have both \
         ends of a stream or a question in one thread, with no switch of threads in between; \
         they would take longer in two. CZMQ and pyzmq have a libzmq of their own, built with other \
         options.\n"
    )?;
    for (name, title, _, _) in PLOTS {
        writeln!(page, "![{title}]({name})\n")?;
    }
    writeln!(page, "## Machine and versions\n")?;
    for line in &results.machine {
        writeln!(page, "- {line}")?;
    }
    for (name, version) in &results.peers {
        writeln!(page, "- `{name}`: {version}")?;
    }
    for (title, rows) in &results.groups {
        write!(page, "\n## {title}\n\n{}", table(results, rows)?)?;
    }
    Ok(page)
}

/// With the peers that have something in it.
fn table(results: &Results, rows: &[Row]) -> Result<String> {
    let is_there = |peer: &usize| rows.iter().any(|row| row.times(*peer).is_some());
    let peers: Vec<usize> = (0..results.peers.len()).filter(is_there).collect();
    let mut table = String::from("| |");
    for &peer in &peers {
        write!(table, " {} |", results.peers[peer].0)?;
    }
    writeln!(table, "\n|---|{}", "--:|".repeat(peers.len()))?;
    for row in rows {
        let medians = peers.iter().filter_map(|&peer| row.times(peer)).map(Times::median);
        let shortest = medians.fold(f64::INFINITY, f64::min);
        write!(table, "| `{}` |", row.name)?;
        for &peer in &peers {
            write!(table, " {} |", cell(row, peer, shortest))?;
        }
        writeln!(table)?;
    }
    Ok(table)
}

fn cell(row: &Row, peer: usize, shortest: f64) -> String {
    let times = match &row.cells[peer] {
        Cell::Lacking => return "–".to_owned(),
        Cell::Failed => return "failed".to_owned(),
        Cell::Times(times) => times,
    };
    let median = times.median();
    let mut cell = duration(median);
    if median <= shortest {
        cell = format!("**{cell}**");
    }
    cell += &format!(" ±{:.0}%", times.spread() * 100.0);
    match row.times(0) {
        Some(zkit) if peer > 0 => format!("{cell} ({})", ratio(times.over(zkit))),
        _ => cell,
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { thousands(ratio.round() as u64) }
}

/// With three digits that matter.
pub(crate) fn duration(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ..1e3 => (nanos, "ns"),
        ..1e6 => (nanos / 1e3, "µs"),
        ..1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
