//! What the gateway counts, for Prometheus, the `status` table and the summary at the end.
//!
//! What a message adds to is one thread's alone until the end of a turn, so that threads do not wait
//! for each other to count.

use std::io::{self, Write};
use std::time::Duration;

use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::config::Config;
use crate::gateway::connection::Reason;
use crate::gateway::queue::Depth;
use crate::tools::status;

pub struct Metrics {
    pub registry: Registry,
    accepted: IntCounter,
    throttled: IntCounter,
    unanswered: IntCounter,
    connections: IntGaugeVec,
    closed: IntCounterVec,
    requests: IntCounterVec,
    request_bytes: IntCounterVec,
    forwarded: IntCounterVec,
    forwarded_bytes: IntCounterVec,
    held: IntCounterVec,
    replies: IntCounterVec,
    reply_bytes: IntCounterVec,
    dropped: IntCounterVec,
    queue_messages: IntGaugeVec,
    queue_bytes: IntGaugeVec,
    request_seconds: Histogram,
    reply_seconds: Histogram,
}

/// 20 us to 10 s.
const SECONDS: [f64; 18] = [
    20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3,
    500e-3, 1.0, 2.0, 5.0, 10.0,
];

impl Metrics {
    pub fn new() -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone())).map(|()| counter)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone())).map(|()| counters)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone())).map(|()| gauges)
        };
        let histogram = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            let histogram = Histogram::with_opts(options)?;
            registry.register(Box::new(histogram.clone())).map(|()| histogram)
        };
        let group = ["group"];
        let group_thread = ["group", "thread"];
        let type_thread = ["type", "thread"];
        Ok(Metrics {
            accepted: counter("zgateway_accepted_total", "Connections accepted")?,
            throttled: counter(
                "zgateway_throttled_total",
                "Times that a client was read more slowly for its rate",
            )?,
            unanswered: counter(
                "zgateway_unanswered_total",
                "Requests, one-way ones included, without a reply when their client was gone",
            )?,
            connections: gauges("zgateway_connections", "Connections open", &["thread"])?,
            closed: counters("zgateway_closed_total", "Connections closed", &["reason"])?,
            requests: counters(
                "zgateway_requests_total",
                "Messages from clients, queued for a group",
                &group_thread,
            )?,
            request_bytes: counters(
                "zgateway_request_bytes_total",
                "Bytes of messages from clients, headers included",
                &group_thread,
            )?,
            forwarded: counters(
                "zgateway_forwarded_total",
                "Messages handed to ZeroMQ for a group",
                &group,
            )?,
            forwarded_bytes: counters(
                "zgateway_forwarded_bytes_total",
                "Bytes of messages handed to ZeroMQ for a group, ids included",
                &group,
            )?,
            held: counters(
                "zgateway_held_total",
                "Times that a client was read no further because its group's queue was full",
                &group,
            )?,
            replies: counters(
                "zgateway_replies_total",
                "Messages to clients, by their type",
                &type_thread,
            )?,
            reply_bytes: counters(
                "zgateway_reply_bytes_total",
                "Bytes of messages to clients, headers included",
                &type_thread,
            )?,
            dropped: counters(
                "zgateway_replies_dropped_total",
                "Replies for nobody: their client is gone, or they name none",
                &["reason"],
            )?,
            queue_messages: gauges(
                "zgateway_queue_messages",
                "Messages that wait for a group",
                &group,
            )?,
            queue_bytes: gauges("zgateway_queue_bytes", "Bytes that wait for a group", &group)?,
            request_seconds: histogram(
                "zgateway_request_seconds",
                "From reading a request until it is handed to ZeroMQ",
            )?,
            reply_seconds: histogram(
                "zgateway_reply_seconds",
                "From receiving a reply until it is written to its client",
            )?,
            registry,
        })
    }

    pub fn master(&self) -> MasterMetrics {
        MasterMetrics { accepted: self.accepted.clone(), denied: self.closed(Reason::Denied) }
    }

    fn closed(&self, reason: Reason) -> IntCounter {
        self.closed.with_label_values(&[reason.name()])
    }

    pub fn dropped(&self, reason: &str) -> IntCounter {
        self.dropped.with_label_values(&[reason])
    }

    pub fn io_thread(&self, config: &Config, thread: usize) -> IoMetrics {
        let thread = thread.to_string();
        let requests =
            |group: &str| Traffic::new(&self.requests, &self.request_bytes, &[group, &thread]);
        let replies = |kind: &str| Traffic::new(&self.replies, &self.reply_bytes, &[kind, &thread]);
        IoMetrics {
            connections: self.connections.with_label_values(&[&thread]),
            closed: Reason::ALL.map(|reason| self.closed(reason)),
            requests: config.groups.iter().map(|group| requests(&group.name)).collect(),
            held: config
                .groups
                .iter()
                .map(|group| self.held.with_label_values(&[&group.name]))
                .collect(),
            throttled: self.throttled.clone(),
            unanswered: self.unanswered.clone(),
            replies: config.replies.iter().map(|reply| replies(&reply.kind.to_string())).collect(),
            stale: self.dropped("stale"),
            reply_seconds: self.reply_seconds.local(),
        }
    }

    pub fn group(&self, group: &str) -> GroupMetrics {
        GroupMetrics {
            forwarded: Traffic::new(&self.forwarded, &self.forwarded_bytes, &[group]),
            request_seconds: self.request_seconds.local(),
        }
    }

    /// What the gateway prints at its end.
    pub fn print_summary(&self, time: Duration) {
        let families = self.registry.gather();
        let sum = |name| status::total(&families, name);
        // Somebody may have closed it.
        let _ = writeln!(
            io::stdout(),
            "{:.1} s: {} clients, {} requests, {} of them forwarded, {} replies, {} unanswered",
            time.as_secs_f64(),
            sum("zgateway_accepted_total"),
            sum("zgateway_requests_total"),
            sum("zgateway_forwarded_total"),
            sum("zgateway_replies_total"),
            sum("zgateway_unanswered_total"),
        );
    }

    /// Sets what is only looked up when somebody asks.
    pub fn refresh(&self, config: &Config, depths: &[Vec<Depth>]) {
        for (group, depths) in config.groups.iter().zip(depths) {
            let (mut messages, mut bytes) = (0, 0);
            for depth in depths {
                let depth = depth.get();
                messages += depth.0;
                bytes += depth.1;
            }
            let set = |gauges: &IntGaugeVec, value: u64| {
                gauges.with_label_values(&[&group.name]).set(value as i64);
            };
            set(&self.queue_messages, messages);
            set(&self.queue_bytes, bytes);
        }
    }
}

/// Messages and bytes of one kind, counted by one thread and told to the others now and then.
pub struct Traffic {
    messages: LocalIntCounter,
    bytes: LocalIntCounter,
}

impl Traffic {
    fn new(messages: &IntCounterVec, bytes: &IntCounterVec, labels: &[&str]) -> Traffic {
        let local = |counters: &IntCounterVec| counters.with_label_values(labels).local();
        Traffic { messages: local(messages), bytes: local(bytes) }
    }

    pub fn count(&self, bytes: usize) {
        self.messages.inc();
        self.bytes.inc_by(bytes as u64);
    }

    fn flush(&self) {
        self.messages.flush();
        self.bytes.flush();
    }
}

/// What the master counts.
pub struct MasterMetrics {
    pub accepted: IntCounter,
    pub denied: IntCounter,
}

/// What one I/O thread counts.
pub struct IoMetrics {
    pub connections: IntGauge,
    closed: [IntCounter; Reason::ALL.len()],
    /// By group, as in the configuration.
    pub requests: Vec<Traffic>,
    pub held: Vec<IntCounter>,
    pub throttled: IntCounter,
    pub unanswered: IntCounter,
    /// By entry of the configuration.
    pub replies: Vec<Traffic>,
    pub stale: IntCounter,
    pub reply_seconds: LocalHistogram,
}

impl IoMetrics {
    pub fn closed(&self, reason: Reason) -> &IntCounter {
        &self.closed[reason as usize]
    }

    /// Tells what was counted since the last time.
    pub fn flush(&self) {
        self.requests.iter().chain(&self.replies).for_each(Traffic::flush);
        self.reply_seconds.flush();
    }
}

/// What the PUSH worker counts of one group.
pub struct GroupMetrics {
    pub forwarded: Traffic,
    pub request_seconds: LocalHistogram,
}

impl GroupMetrics {
    /// Tells what was counted since the last time.
    pub fn flush(&self) {
        self.forwarded.flush();
        self.request_seconds.flush();
    }
}
