//! How many descriptors the process may have.

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as it goes. Returns it.
pub fn raise_limit() -> Result<u64> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of descriptors")?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .with_context(|| format!("cannot raise the limit of descriptors to {hard}"))?;
    }
    Ok(hard)
}
