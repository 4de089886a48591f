// E0277: counting references to a socket does not make it one for several threads.

use std::sync::Arc;

use zkit::ZContext;

fn main() -> zkit::Result<()> {
    let socket = ZContext::new()?.push("")?;
    #[cfg(wrong)]
    let socket = Arc::new(socket);
    #[cfg(right)]
    let socket = Arc::new(std::sync::Mutex::new(socket));
    let other = Arc::clone(&socket);
    std::thread::spawn(move || drop(other));
    drop(socket);
    Ok(())
}
