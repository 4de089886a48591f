//! A back-end process that sends each message back as it is.

use std::time::Duration;

use zkit::{Attach, SocketType, ZContext, ZSock, clock, orderly};

use super::duration;

/// Sends each message back as it is: a back-end process.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where the gateway sends messages from; several with commas between.
    #[arg(long, default_value = "tcp://127.0.0.1:1111", value_name = "ENDPOINT")]
    pub pull: String,
    /// Where the gateway receives replies; several with commas between.
    #[arg(long, default_value = "tcp://127.0.0.1:1121", value_name = "ENDPOINT")]
    pub push: String,
    /// How long the work for a message takes.
    #[arg(long, value_parser = duration)]
    pub delay: Option<Duration>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let ctx = ZContext::new()?;
    let pull = ctx.socket(SocketType::Pull)?;
    pull.attach(&args.pull, Attach::Connect)?;
    let push = ctx.socket(SocketType::Push)?;
    push.attach(&args.push, Attach::Connect)?;
    println!("Messages from {}, replies to {}", args.pull, args.push);

    let mut returned = 0;
    let ended = echo(&pull, &push, args.delay, &mut returned);
    println!("{returned} messages sent back");
    Ok(orderly(ended)?)
}

fn echo(
    pull: &ZSock,
    push: &ZSock,
    delay: Option<Duration>,
    returned: &mut u64,
) -> zkit::Result<()> {
    loop {
        let message = pull.recv()?;
        if let Some(delay) = delay {
            clock::sleep(delay)?;
        }
        push.send(message)?;
        *returned += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() -> zkit::Result<()> {
        let ctx = ZContext::new()?;
        let messages = ctx.push("@inproc://messages")?;
        let replies = ctx.pull("@inproc://replies")?;
        let pull = ctx.pull(">inproc://messages")?;
        let push = ctx.push(">inproc://replies")?;
        let echoing = std::thread::spawn(move || {
            let mut returned = 0;
            let ended = echo(&pull, &push, Some(Duration::from_micros(1)), &mut returned);
            (returned, ended)
        });
        for body in ["", "one", "another"] {
            messages.send(body)?;
            assert_eq!(replies.recv_str_timeout(Duration::from_secs(5))?, body);
        }
        ctx.shutdown()?;
        let (returned, ended) = echoing.join().expect("it does not panic");
        assert_eq!(returned, 3);
        orderly(ended)
    }
}
