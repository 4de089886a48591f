// E0277: a socket is used by one thread at a time.

use zkit::{ZContext, ZSock};

fn main() -> zkit::Result<()> {
    let socket: ZSock = ZContext::new()?.push("")?;
    std::thread::scope(|scope| {
        #[cfg(wrong)]
        scope.spawn(|| socket.send("from another thread"));
        #[cfg(right)]
        scope.spawn(move || socket.send("moved there"));
    });
    Ok(())
}
