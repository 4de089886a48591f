//! Workloads under criterion.

use criterion::Criterion;

use crate::workload::{Pinned, Run, Workload};

/// A group per workload, with each Rust peer in it.
pub(crate) fn sample(criterion: &mut Criterion, workloads: &[Workload]) {
    for workload in workloads {
        let _pinned = workload.pinned.then(Pinned::new);
        let mut group = criterion.benchmark_group(workload.name);
        let mut peer = |name, run: Run| {
            group.bench_function(name, |bencher| bencher.iter_custom(|count| run(count).wall));
        };
        peer("zkit", workload.zkit);
        if let Some(raw) = workload.raw {
            peer("raw", raw);
        }
        group.finish();
    }
}
