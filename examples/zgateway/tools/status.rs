//! `zgateway status`: how a gateway does, as a table. The gateway makes it, from its metrics.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use prometheus::proto::{Metric, MetricFamily};

use crate::config::Config;

/// Asks a gateway how it does.
#[derive(clap::Args)]
pub struct Args {
    /// Where its metrics are.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9100")]
    metrics: SocketAddr,
    /// The configuration that says where its metrics are.
    #[arg(long, value_name = "FILE", conflicts_with = "metrics")]
    config: Option<PathBuf>,
}

const PATIENCE: Duration = Duration::from_secs(5);

pub fn run(args: &Args) -> Result<()> {
    let metrics = match &args.config {
        Some(file) => Config::load(file)?
            .metrics
            .with_context(|| format!("{} has metrics \"off\"", file.display()))?,
        None => args.metrics,
    };
    io::stdout().write_all(fetch(metrics)?.as_bytes()).context("cannot print the status")
}

pub fn fetch(metrics: SocketAddr) -> Result<String> {
    let url = format!("http://{}/status", reachable(metrics));
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None);
    ureq::Agent::from(config.build())
        .get(&url)
        .call()
        .and_then(|mut answer| answer.body_mut().read_to_string())
        .with_context(|| format!("no gateway answers at {url}"))
}

/// Every address of this machine is an address to listen at, not one to connect to.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// The table of what a gateway's registry has gathered.
pub fn table(families: &[MetricFamily]) -> String {
    let families = Families(families);
    [families.groups(), families.replies(), families.clients(), families.latencies()].join("\n")
}

/// What a counter or a gauge of a registry comes to, over all its labels.
pub fn total(families: &[MetricFamily], name: &str) -> u64 {
    Families(families).sums(name, "").values().sum()
}

struct Families<'a>(&'a [MetricFamily]);

impl Families<'_> {
    fn groups(&self) -> String {
        let header = ["group", "in", "bytes", "forwarded", "bytes", "queued", "bytes", "held"];
        let names = [
            "zgateway_requests_total",
            "zgateway_request_bytes_total",
            "zgateway_forwarded_total",
            "zgateway_forwarded_bytes_total",
            "zgateway_queue_messages",
            "zgateway_queue_bytes",
            "zgateway_held_total",
        ];
        self.by_label("group", &header, &names)
    }

    fn replies(&self) -> String {
        let names = ["zgateway_replies_total", "zgateway_reply_bytes_total"];
        self.by_label("type", &["reply type", "out", "bytes"], &names)
    }

    /// A row for each value of `label`, and a column for each of the metrics.
    fn by_label(&self, label: &str, header: &[&str], names: &[&str]) -> String {
        let columns: Vec<_> = names.iter().map(|name| self.sums(name, label)).collect();
        let mut labels: Vec<_> = columns.iter().flat_map(BTreeMap::keys).collect();
        labels.sort_by_key(|label| (label.parse::<u64>().ok(), *label));
        labels.dedup();
        let mut rows = vec![header.iter().map(|title| title.to_string()).collect()];
        for label in labels {
            let mut row = vec![label.to_string()];
            for (name, column) in names.iter().zip(&columns) {
                let value = column.get(label).copied().unwrap_or_default();
                row.push(if name.contains("bytes") { bytes(value) } else { value.to_string() });
            }
            rows.push(row);
        }
        aligned(&rows)
    }

    fn clients(&self) -> String {
        let rows = [
            ("connections", "zgateway_connections", "thread"),
            ("accepted", "zgateway_accepted_total", ""),
            ("closed", "zgateway_closed_total", "reason"),
            ("throttled", "zgateway_throttled_total", ""),
            ("replies dropped", "zgateway_replies_dropped_total", "reason"),
        ]
        .map(|(title, name, label)| (title, label, self.sums(name, label)));
        let totals = rows.iter().map(|(title, _, sums)| {
            vec![title.to_string(), sums.values().sum::<u64>().to_string()]
        });
        let totals = aligned(&totals.collect::<Vec<_>>());
        let lines = totals.lines().zip(&rows).map(|(line, (_, label, sums))| {
            let parts: Vec<_> = sums
                .iter()
                .filter(|(part, sum)| !part.is_empty() && **sum > 0)
                .map(|(part, sum)| format!("{part} = {sum}"))
                .collect();
            match parts.is_empty() {
                true => format!("{line}\n"),
                false => format!("{line}  by {label}: {}\n", parts.join(", ")),
            }
        });
        lines.collect()
    }

    fn latencies(&self) -> String {
        let row = |title: &str, name: &str| {
            let buckets = self.buckets(name);
            let at = |share| buckets.quantile(share).unwrap_or_else(|| "-".to_string());
            vec![title.to_string(), at(0.5), at(0.99)]
        };
        aligned(&[
            ["latency", "p50", "p99"].map(String::from).to_vec(),
            row("request", "zgateway_request_seconds"),
            row("reply", "zgateway_reply_seconds"),
        ])
    }

    fn metrics(&self, name: &str) -> impl Iterator<Item = &Metric> {
        let family = self.0.iter().filter(move |family| family.name() == name);
        family.flat_map(|family| family.get_metric())
    }

    /// A counter or a gauge, summed over all labels but one.
    fn sums(&self, name: &str, label: &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for metric in self.metrics(name) {
            let pair = metric.get_label().iter().find(|pair| pair.name() == label);
            let label = pair.map_or("", |pair| pair.value());
            // What a metric is not of is zero.
            let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
            *sums.entry(label.to_string()).or_default() += value as u64;
        }
        sums
    }

    fn buckets(&self, name: &str) -> Buckets {
        let mut buckets = Buckets::default();
        for metric in self.metrics(name) {
            let histogram = metric.get_histogram();
            buckets.count += histogram.get_sample_count();
            buckets.bounds.resize(histogram.get_bucket().len(), (0.0, 0));
            for (sum, bucket) in buckets.bounds.iter_mut().zip(histogram.get_bucket()) {
                *sum = (bucket.upper_bound(), sum.1 + bucket.cumulative_count());
            }
        }
        buckets
    }
}

/// A histogram of times.
#[derive(Default)]
struct Buckets {
    count: u64,
    /// How many were not above which time.
    bounds: Vec<(f64, u64)>,
}

impl Buckets {
    /// The time that this share of all was not above, as if each bucket were evenly filled.
    fn quantile(&self, share: f64) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let rank = self.count as f64 * share;
        let mut below = (0.0, 0);
        for &(bound, count) in self.bounds.iter().filter(|(bound, _)| bound.is_finite()) {
            if count as f64 >= rank {
                let part = (rank - below.1 as f64) / (count - below.1).max(1) as f64;
                return Some(seconds(below.0 + (bound - below.0) * part));
            }
            below = (bound, count);
        }
        Some(format!("> {}", seconds(below.0)))
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = None;
    while size >= 1024.0 {
        size /= 1024.0;
        unit = units.next();
    }
    unit.map_or_else(|| format!("{bytes} B"), |unit| format!("{size:.1} {unit}"))
}

/// Names on the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..).map_while(width).collect();
    let mut table = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            table += &match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{
        Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
        core::Collector,
    };

    fn registered<C: Collector + Clone + 'static>(
        registry: &Registry,
        metric: prometheus::Result<C>,
    ) -> C {
        let metric = metric.expect("a good metric");
        registry.register(Box::new(metric.clone())).expect("its only one");
        metric
    }

    fn counters(registry: &Registry, name: &str, labels: &[&str], values: &[(&[&str], u64)]) {
        let opts = Opts::new(name, "Some help.");
        let counters = registered(registry, IntCounterVec::new(opts, labels));
        for (labels, value) in values {
            counters.with_label_values(labels).inc_by(*value);
        }
    }

    fn gauges(registry: &Registry, name: &str, label: &str, values: &[(&str, i64)]) {
        let opts = Opts::new(name, "Some help.");
        let gauges = registered(registry, IntGaugeVec::new(opts, &[label]));
        for (label, value) in values {
            gauges.with_label_values(&[label]).set(*value);
        }
    }

    fn histogram(registry: &Registry, name: &str, times: &[f64]) {
        let opts = HistogramOpts::new(name, "Some help.").buckets(vec![0.0001, 0.001, 0.01, 2.0]);
        let histogram = registered(registry, Histogram::with_opts(opts));
        times.iter().for_each(|time| histogram.observe(*time));
    }

    #[test]
    fn a_gateway_at_work() {
        let registry = Registry::new();
        let group_thread = ["group", "thread"];
        let type_thread = ["type", "thread"];
        counters(
            &registry,
            "zgateway_requests_total",
            &group_thread,
            &[(&["scene", "0"], 5), (&["chat", "0"], 1_000), (&["chat", "1"], 234)],
        );
        counters(
            &registry,
            "zgateway_request_bytes_total",
            &group_thread,
            &[(&["scene", "0"], 500), (&["chat", "0"], 1_000_000), (&["chat", "1"], 234_000)],
        );
        counters(&registry, "zgateway_forwarded_total", &["group"], &[(&["chat"], 1_200)]);
        counters(
            &registry,
            "zgateway_forwarded_bytes_total",
            &["group"],
            &[(&["chat"], 1_200_000)],
        );
        counters(&registry, "zgateway_held_total", &["group"], &[(&["scene"], 7)]);
        gauges(&registry, "zgateway_queue_messages", "group", &[("chat", 34), ("scene", 5)]);
        gauges(&registry, "zgateway_queue_bytes", "group", &[("chat", 34_000), ("scene", 1024)]);
        counters(
            &registry,
            "zgateway_replies_total",
            &type_thread,
            &[(&["10", "0"], 1), (&["2", "0"], 20), (&["2", "1"], 22)],
        );
        counters(&registry, "zgateway_reply_bytes_total", &type_thread, &[(&["2", "0"], 5 << 30)]);
        gauges(&registry, "zgateway_connections", "thread", &[("0", 2), ("1", 1)]);
        let accepted = IntCounter::new("zgateway_accepted_total", "Some help.");
        registered(&registry, accepted).inc_by(12);
        counters(
            &registry,
            "zgateway_closed_total",
            &["reason"],
            &[(&["idle"], 0), (&["client"], 8), (&["too slow"], 1)],
        );
        histogram(&registry, "zgateway_request_seconds", &[0.0005; 100]);
        histogram(&registry, "zgateway_reply_seconds", &[0.00005, 0.005, 3.0]);

        let expected = "\
group    in    bytes  forwarded    bytes  queued     bytes  held
chat   1234  1.2 MiB       1200  1.1 MiB      34  33.2 KiB     0
scene     5    500 B          0      0 B       5   1.0 KiB     7

reply type  out    bytes
2            42  5.0 GiB
10            1      0 B

connections       3  by thread: 0 = 2, 1 = 1
accepted         12
closed            9  by reason: client = 8, too slow = 1
throttled         0
replies dropped   0

latency     p50      p99
request  550 µs   991 µs
reply    5.5 ms  > 2.0 s
";
        assert_eq!(table(&registry.gather()), expected);
    }

    #[test]
    fn a_gateway_that_has_done_nothing() {
        let expected = "\
group  in  bytes  forwarded  bytes  queued  bytes  held

reply type  out  bytes

connections      0
accepted         0
closed           0
throttled        0
replies dropped  0

latency  p50  p99
request    -    -
reply      -    -
";
        assert_eq!(table(&[]), expected);
    }

    #[test]
    fn sizes() {
        let sizes = [0, 1023, 1024, 1536, 1 << 20, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "16.0 EiB"]);
    }

    #[test]
    fn nobody_answers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let error = format!("{:#}", fetch(address).expect_err("nobody is there"));
        assert!(
            error.starts_with(&format!("no gateway answers at http://{address}/status: ")),
            "{error}"
        );
        assert!(error.contains("refused"), "{error}");
    }

    #[test]
    fn it_is_fetched() {
        let registry = Registry::new();
        gauges(&registry, "zgateway_queue_messages", "group", &[("chat", 7)]);
        let any = "0.0.0.0:0".parse().expect("an address");
        let server = crate::http::serve(any, registry.clone(), || {}).expect("a port");
        assert_eq!(fetch(server.address()).expect("it answers"), table(&registry.gather()));
    }
}
