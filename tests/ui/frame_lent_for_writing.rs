// E0596: nor is it lent to somebody who writes.

use zkit::ZFrame;

fn main() {
    let mut frame = ZFrame::from("Hello");
    frame.reset("World");
    #[cfg(wrong)]
    frame.reverse();
    println!("{frame:?}");
}
