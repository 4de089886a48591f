// E0594: what clones of a frame share is not written to.

use zkit::ZFrame;

fn main() {
    let mut frame = ZFrame::from("Hello");
    #[cfg(wrong)]
    {
        frame[0] = b'J';
    }
    #[cfg(right)]
    frame.reset("Jello");
    println!("{frame:?}");
}
