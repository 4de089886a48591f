// E0505: a socket's descriptor is closed with it.

use std::os::fd::AsFd;

use zkit::ZContext;

fn main() -> zkit::Result<()> {
    let socket = ZContext::new()?.pull("")?;
    let descriptor = socket.as_fd();
    #[cfg(wrong)]
    drop(socket);
    println!("{descriptor:?}");
    Ok(())
}
