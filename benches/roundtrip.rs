//! Round trips between two threads on one core. `peers/` has the loops.

#[path = "peers/roundtrip.rs"]
mod roundtrip;
#[path = "peers/sampled.rs"]
mod sampled;
#[path = "peers/workload.rs"]
mod workload;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    sampled::sample(&mut criterion, roundtrip::WORKLOADS);
    criterion.final_summary();
}
