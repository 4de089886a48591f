//! zkit's benchmarks: see README.md.
