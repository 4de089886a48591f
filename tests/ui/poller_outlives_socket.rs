// E0597: a poller does not outlive its sockets.

use zkit::{ZContext, ZPoller};

fn main() -> zkit::Result<()> {
    let ctx = ZContext::new()?;
    #[cfg(right)]
    let socket = ctx.pull("")?;
    let mut poller = ZPoller::new();
    {
        #[cfg(wrong)]
        let socket = ctx.pull("")?;
        poller.add("socket", &socket)?;
    }
    poller.wait(None)?;
    Ok(())
}
