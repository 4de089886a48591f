//! What can be wrong between values that are each good, and how it is said where.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Config, Group, Limits};
use crate::gateway::ids::Layout;
use crate::protocol::HEADER;

/// Something wrong with the value at `path`, such as `group.0.type`.
pub(super) struct Problem {
    path: String,
    why: String,
}

impl Problem {
    fn new(path: &str, why: String) -> Problem {
        Problem { path: path.to_string(), why }
    }
}

impl Config {
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = self.limit_problems();
        problems.extend(self.group_problems());
        problems.extend(self.bind_problems());
        problems
    }

    fn limit_problems(&self) -> Vec<Problem> {
        let Limits { connections, body, outgoing, .. } = self.limits;
        let threads = self.io_threads;
        let mut problems = Vec::new();
        // As if one thread could have all of them.
        let most = Layout::most_slots(threads);
        if connections > most {
            problems.push(Problem::new(
                "limits.connections",
                format!(
                    "connections is {connections}, but with {threads} I/O threads a client's id has \
                     room for {most} at most"
                ),
            ));
        }
        let least = HEADER + body;
        if outgoing < least {
            problems.push(Problem::new(
                "limits.outgoing",
                format!(
                    "outgoing is {outgoing}, but a body of {body} bytes and its header need {least} \
                     at least"
                ),
            ));
        }
        problems
    }

    fn group_problems(&self) -> Vec<Problem> {
        let threads = self.io_threads;
        let mut problems = Vec::new();
        for (table, is_empty) in
            [("group", self.groups.is_empty()), ("reply", self.replies.is_empty())]
        {
            if is_empty {
                let why = format!("there is no [[{table}]]; at least one is needed");
                problems.push(Problem::new(table, why));
            }
        }
        let mut kinds = HashMap::new();
        let mut names = HashSet::new();
        for (at, Group { name, kind, queue, queue_bytes, .. }) in self.groups.iter().enumerate() {
            let mut problem = |key: &str, why: String| {
                problems.push(Problem::new(&format!("group.{at}.{key}"), why));
            };
            if !names.insert(name) {
                problem("name", format!("another group is named {name:?} too; names are unique"));
            }
            if let Some(other) = kinds.insert(kind, name) {
                problem("type", format!("group {other:?} has type {kind} too; types are unique"));
            }
            if *queue < threads {
                problem(
                    "queue",
                    format!(
                        "queue is {queue}, but a message for each of {threads} I/O threads needs \
                         {threads} at least"
                    ),
                );
            }
            let body = self.limits.body;
            let least = threads * (HEADER + body);
            if *queue_bytes < least {
                problem(
                    "queue_bytes",
                    format!(
                        "queue_bytes is {queue_bytes}, but a body of {body} bytes and its header for \
                         each of {threads} I/O threads need {least} at least"
                    ),
                );
            }
        }
        problems
    }

    fn bind_problems(&self) -> Vec<Problem> {
        let places = self.places();
        let clash = |(at, (path, place)): (usize, &(String, Place))| {
            let (other, _) = places[..at].iter().find(|(_, other)| place.clashes(other))?;
            let why = format!("{place} cannot be bound twice, and {} has it", named(other));
            Some(Problem::new(path, why))
        };
        places.iter().enumerate().filter_map(clash).collect()
    }

    /// All that it will bind, by key, except what the system chooses.
    fn places(&self) -> Vec<(String, Place)> {
        let groups = self.groups.iter().map(|group| &group.bind).enumerate();
        let replies = self.replies.iter().map(|reply| &reply.bind).enumerate();
        let bound = groups
            .map(|(at, bind)| (format!("group.{at}.bind"), bind))
            .chain(replies.map(|(at, bind)| (format!("reply.{at}.bind"), bind)))
            .filter_map(|(path, bind)| Some((path, Place::of(bind)?)));
        let listen = ("listen".to_string(), Some(self.listen));
        [listen, ("metrics".to_string(), self.metrics)]
            .into_iter()
            .filter_map(|(path, address)| Some((path, Place::of(&format!("tcp://{}", address?))?)))
            .chain(bound)
            .collect()
    }
}

/// Something that one socket only can be bound to.
enum Place {
    Tcp { host: String, port: u16 },
    Ipc(String),
}

impl Place {
    /// None if it is the system's to choose.
    fn of(endpoint: &str) -> Option<Place> {
        if let Some(path) = endpoint.strip_prefix("ipc://") {
            return (path != "*").then(|| Place::Ipc(path.to_string()));
        }
        let (host, port) = endpoint.strip_prefix("tcp://")?.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Place::Tcp { host: host.to_string(), port })
    }

    fn clashes(&self, other: &Place) -> bool {
        let is_any = |host: &str| matches!(host, "*" | "0.0.0.0" | "[::]");
        match (self, other) {
            (Place::Tcp { host, port }, Place::Tcp { host: others, port: other }) => {
                port == other && (host == others || is_any(host) || is_any(others))
            }
            (Place::Ipc(path), Place::Ipc(other)) => path == other,
            _ => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp { host, port } => write!(f, "{host}:{port}"),
            Place::Ipc(path) => write!(f, "{path}"),
        }
    }
}

/// A path for people, who count from one: `group.0.bind` is `bind of [[group]] 1`.
fn named(path: &str) -> String {
    match path.split('.').collect::<Vec<_>>()[..] {
        [table, at, key] => {
            format!("{key} of [[{table}]] {}", at.parse::<usize>().map_or(0, |at| at + 1))
        }
        _ => path.to_string(),
    }
}

/// All the problems with what `text` says, each with its place there.
pub(super) fn report(text: &str, problems: &[Problem]) -> String {
    let root = DeTable::parse(text).ok().map(|table| DeValue::Table(table.into_inner()));
    let lines: Vec<_> = problems
        .iter()
        .map(|Problem { path, why }| at(text, locate(root.as_ref(), path), why))
        .collect();
    match &lines[..] {
        [line] => line.clone(),
        _ => format!("{} problems\n  {}", lines.len(), lines.join("\n  ")),
    }
}

/// Where the value at `path` stands, or what would contain it if it were not left to its default.
fn locate(root: Option<&DeValue<'_>>, path: &str) -> Option<Range<usize>> {
    let mut value = root?;
    let mut span = None;
    for key in path.split('.') {
        let inner = match value {
            DeValue::Table(table) => table.get(key),
            DeValue::Array(array) => key.parse::<usize>().ok().and_then(|at| array.get(at)),
            _ => None,
        };
        let Some(inner) = inner else { break };
        span = Some(inner.span());
        value = inner.get_ref();
    }
    span
}

/// Says what is wrong where, with the line as it stands there.
pub(super) fn at(text: &str, span: Option<Range<usize>>, why: &str) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else {
        return why.to_string();
    };
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    if line.is_empty() {
        return format!("line {}: {why}", number + 1);
    }
    let line: String =
        line.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("line {}, `{line}`: {why}", number + 1)
}
