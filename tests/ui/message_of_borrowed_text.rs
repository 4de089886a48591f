// E0597: libzmq reads what it was sent at any time later.

use zkit::{ZContext, ZFrame};

fn main() -> zkit::Result<()> {
    let socket = ZContext::new()?.push("")?;
    let text = String::from("only here");
    #[cfg(wrong)]
    socket.send(text.as_str())?;
    #[cfg(right)]
    socket.send(ZFrame::new(text.as_str()))?;
    Ok(())
}
