//! Multithreaded relay: threads that wait for each other by messages and not by locks.
//!
//!     cargo run --release --example mtrelay

use zkit::{Result, ZContext, ZSock, orderly, thread};

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(step3())
}

fn step3() -> Result<()> {
    let ctx = ZContext::new()?;
    let step2 = thread::fork(&ctx, step2)?;
    step2.recv()?; // its signal
    println!("Test successful!");
    step2.join()
}

fn step2(ctx: &ZContext, step3: ZSock) -> Result<()> {
    let step1 = thread::fork(ctx, step1)?;
    step1.recv()?;
    println!("Step 2 ready, signaling step 3");
    step3.send("READY")?;
    step1.join()
}

fn step1(_ctx: &ZContext, step2: ZSock) -> Result<()> {
    println!("Step 1 ready, signaling step 2");
    step2.send("READY")?;
    Ok(())
}
