//! Messages over inproc, and frames without a socket. `peers/` has the loops.

#[path = "peers/frames.rs"]
mod frames;
#[path = "peers/messages.rs"]
mod messages;
#[path = "peers/sampled.rs"]
mod sampled;
#[path = "peers/workload.rs"]
mod workload;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    sampled::sample(&mut criterion, messages::WORKLOADS);
    sampled::sample(&mut criterion, frames::WORKLOADS);
    criterion.final_summary();
}
