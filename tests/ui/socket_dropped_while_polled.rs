// E0505: a poller's sockets stay where they are.

use zkit::{ZContext, ZPoller};

fn main() -> zkit::Result<()> {
    let socket = ZContext::new()?.pull("")?;
    let mut poller = ZPoller::new();
    poller.add("socket", &socket)?;
    #[cfg(wrong)]
    drop(socket);
    poller.wait(None)?;
    Ok(())
}
