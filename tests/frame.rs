//! What `ZFrame` promises.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::env;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use zkit::{SocketType, ZContext, ZFrame, ZMsg, ZSock};

/// Generous, so that only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(30);

/// Up to this many bytes libzmq keeps inside the frame itself.
const INLINE: usize = 33;

fn connected(endpoint: &str, [from, to]: [SocketType; 2]) -> (ZContext, ZSock, ZSock) {
    let ctx = ZContext::builder().signals(false).build().unwrap();
    let (from, to) = (ctx.socket(from).unwrap(), ctx.socket(to).unwrap());
    let endpoint = to.bind(endpoint).unwrap();
    from.connect(&endpoint).unwrap();
    (ctx, from, to)
}

fn pass(from: &ZSock, to: &ZSock, msg: impl Into<ZMsg>) -> ZMsg {
    from.send_timeout(msg, DEADLINE).unwrap();
    to.recv_timeout(DEADLINE).unwrap()
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

// Making frames

#[test]
fn a_frame_is_made_from_everything_that_holds_bytes() {
    let hello = b"Hello";
    let made = [
        ZFrame::new("Hello"),
        ZFrame::new(hello),
        ZFrame::new(&hello[..]),
        ZFrame::new(vec![b'H', b'e', b'l', b'l', b'o']),
        ZFrame::new(String::from("Hello")),
        ZFrame::from("Hello"),
        ZFrame::from("Hello".to_string()),
        ZFrame::from(&"Hello".to_string()),
        ZFrame::from(&hello.to_vec()),
        ZFrame::from(hello.to_vec()),
        ZFrame::from(hello.to_vec().into_boxed_slice()),
        ZFrame::from(hello),
        ZFrame::from(&hello[..]),
        ZFrame::from(*hello),
        ZFrame::from(&ZFrame::new("Hello")),
    ];
    for (index, frame) in made.iter().enumerate() {
        assert_eq!(&frame[..], hello, "conversion {index}");
    }
}

#[test]
fn integers_become_their_big_endian_bytes() {
    assert_eq!(ZFrame::from(0x0102_u16), b"\x01\x02");
    assert_eq!(ZFrame::from(0x0102_0304_u32), b"\x01\x02\x03\x04");
    assert_eq!(ZFrame::from(0x0102_0304_0506_0708_u64), b"\x01\x02\x03\x04\x05\x06\x07\x08");
}

#[test]
fn new_copies_what_it_is_given() {
    let mut bytes = vec![1; 1000];
    let frame = ZFrame::new(&bytes);
    bytes.fill(2);
    assert_ne!(frame.as_ptr(), bytes.as_ptr());
    assert_eq!(&frame[..], [1; 1000]);
}

#[test]
fn a_vector_above_the_inline_size_is_not_copied() {
    for len in [INLINE + 1, 1000, 1 << 20] {
        let mut bytes = Vec::with_capacity(2 * len);
        bytes.extend((0..len).map(|n| n as u8));
        let (at, copy) = (bytes.as_ptr(), bytes.clone());
        let frame = ZFrame::from(bytes);
        assert_eq!(frame.as_ptr(), at, "{len} bytes");
        assert_eq!(&frame[..], copy);
    }
}

#[test]
fn a_string_or_box_above_the_inline_size_is_not_copied() {
    let text = "x".repeat(INLINE + 1);
    let at = text.as_ptr();
    assert_eq!(ZFrame::from(text).as_ptr(), at);

    let boxed = vec![1; INLINE + 1].into_boxed_slice();
    let at = boxed.as_ptr();
    assert_eq!(ZFrame::from(boxed).as_ptr(), at);
}

#[test]
fn static_bytes_are_not_copied_at_any_size() {
    static TEXT: &str = "a text that is longer than the inline size";
    static BYTES: [u8; 2] = *b"ab";
    assert_eq!(ZFrame::from(TEXT).as_ptr(), TEXT.as_ptr());
    assert_eq!(ZFrame::from(&TEXT[..1]).as_ptr(), TEXT.as_ptr());
    assert_eq!(ZFrame::from(&BYTES).as_ptr(), BYTES.as_ptr());
    assert_eq!(ZFrame::from(&BYTES[..]).as_ptr(), BYTES.as_ptr());
}

#[test]
fn every_size_around_the_inline_size_keeps_its_bytes() {
    for len in 0..=2 * INLINE {
        let bytes: Vec<u8> = (0..len as u8).collect();
        for frame in [ZFrame::new(&bytes), ZFrame::from(bytes.clone())] {
            assert_eq!(&frame[..], bytes);
            assert_eq!(&frame.clone()[..], bytes);
        }
    }
}

#[test]
fn no_bytes_make_an_empty_frame_however_they_are_given() {
    let made = [
        ZFrame::empty(),
        ZFrame::default(),
        ZFrame::new(""),
        ZFrame::from(""),
        ZFrame::from(b""),
        ZFrame::from(Vec::new()),
        ZFrame::from(Vec::with_capacity(1000)),
        ZFrame::from(String::new()),
        ZFrame::empty().clone(),
    ];
    for (index, frame) in made.iter().enumerate() {
        assert!(frame.is_empty(), "conversion {index}");
        assert_eq!(frame.len(), 0);
        assert_eq!(&frame[..], b"");
        assert_eq!(frame.as_str(), Ok(""));
    }
}

// Sharing

#[test]
fn a_clone_above_the_inline_size_shares_its_content() {
    for len in [INLINE + 1, 1000, 1 << 20] {
        for frame in [ZFrame::new(vec![1; len]), ZFrame::from(vec![1; len])] {
            let clone = frame.clone();
            assert_eq!(clone.as_ptr(), frame.as_ptr(), "{len} bytes");
            assert_eq!(clone.clone().as_ptr(), frame.as_ptr(), "a clone of a clone");
        }
    }
}

#[test]
fn a_clone_up_to_the_inline_size_has_its_own_content() {
    let frame = ZFrame::new([1; INLINE]);
    let clone = frame.clone();
    assert_ne!(clone.as_ptr(), frame.as_ptr());
    assert_eq!(clone, frame);
}

#[test]
fn a_clone_outlives_the_original() {
    let content = [7; 1000];
    let frame = ZFrame::from(content.to_vec());
    let first = frame.clone();
    drop(frame);
    assert_eq!(&first[..], content);

    let second = first.clone();
    drop(first);
    assert_eq!(&second[..], content);
}

#[test]
fn resetting_one_of_two_clones_leaves_the_other() {
    for content in [vec![7; 5], vec![7; 1000]] {
        let mut original = ZFrame::from(content.clone());
        let mut clone = original.clone();
        original.reset("other");
        assert_eq!(&clone[..], content);
        clone.reset(&original);
        assert_eq!(clone, "other");
    }
}

#[test]
fn a_clone_outlives_the_original_that_was_sent() {
    let (_ctx, from, to) = connected("inproc://sent", [SocketType::Push, SocketType::Pull]);
    let frame = ZFrame::from(vec![7; 1000]);
    let clone = frame.clone();
    let received = pass(&from, &to, frame);
    assert_eq!(received.first(), Some(&clone));
    drop(received);
    assert_eq!(&clone[..], [7; 1000]);
}

#[test]
fn a_clone_of_a_received_frame_shares_its_content() {
    for endpoint in ["inproc://shared", "tcp://127.0.0.1:*"] {
        let (_ctx, from, to) = connected(endpoint, [SocketType::Push, SocketType::Pull]);
        for len in [INLINE + 1, 1000, 1 << 20] {
            let received = pass(&from, &to, ("first", vec![7; len])).pop_back().unwrap();
            let clone = received.clone();
            assert_eq!(clone.as_ptr(), received.as_ptr(), "{len} bytes over {endpoint}");
            drop(received);
            assert_eq!(&clone[..], vec![7; len]);
        }
    }
}

#[test]
fn two_threads_may_clone_one_frame_at_once() {
    let (rounds, batches) = if env::var_os("ZKIT_SLOW").is_some() { (1, 10) } else { (10, 2000) };
    // Many frames, because the first clone is the one that marks the original as shared: only
    // there can two threads get in each other's way, and only if they come within nanoseconds.
    // So they start on each batch together, and clone as fast as they can.
    for _ in 0..rounds {
        let frames: Arc<Vec<ZFrame>> =
            Arc::new((0..32 * batches).map(|n| ZFrame::from(vec![n as u8; 100])).collect());
        let arrived = Arc::new(AtomicUsize::new(0));
        let (done, finished) = mpsc::channel();
        for _ in 0..2 {
            let (frames, arrived, done) = (frames.clone(), arrived.clone(), done.clone());
            thread::spawn(move || {
                let mut clones = Vec::with_capacity(32);
                for (n, batch) in frames.chunks(32).enumerate() {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    wait_for(&arrived, 2 * (n + 1));
                    clones.extend(batch.iter().cloned());
                    assert!(clones.iter().eq(batch));
                    assert!(!batch.iter().any(ZFrame::more));
                    clones.clear();
                }
                done.send(()).unwrap();
            });
        }
        for _ in 0..2 {
            finished.recv_timeout(DEADLINE).expect("both threads find what they cloned");
        }
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!(**frame, [n as u8; 100], "the original is still there");
        }
    }
}

/// Busily, since to be woken takes longer than the moment that is aimed at; but a machine of few
/// processors is given to the others after a while.
fn wait_for(arrived: &AtomicUsize, count: usize) {
    let mut spins = 0;
    while arrived.load(Ordering::SeqCst) < count {
        spins += 1;
        if spins % 1000 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

#[test]
fn clones_may_be_dropped_in_several_threads_at_once() {
    let rounds = if env::var_os("ZKIT_SLOW").is_some() { 20 } else { 500 };
    for round in 0..rounds {
        let frame = ZFrame::from(vec![round as u8; 100]);
        let (done, finished) = mpsc::channel();
        for clone in [frame.clone(), frame.clone()] {
            let done = done.clone();
            thread::spawn(move || {
                let right = *clone == [round as u8; 100];
                drop(clone);
                done.send(right).unwrap();
            });
        }
        drop(frame);
        for _ in 0..2 {
            assert!(finished.recv_timeout(DEADLINE).unwrap());
        }
    }
}

// Reading

#[test]
fn reset_replaces_the_whole_content() {
    let mut frame = ZFrame::from("NOT");
    frame.reset("END");
    assert_eq!(frame, "END");
    frame.reset(vec![1; 1000]);
    assert_eq!(&frame[..], [1; 1000]);
    frame.reset(7_u16);
    assert_eq!(frame, b"\x00\x07");
    frame.reset(ZFrame::empty());
    assert!(frame.is_empty());
}

#[test]
fn text_is_read_where_it_is_utf8() {
    assert_eq!(ZFrame::from("Grüße").as_str(), Ok("Grüße"));
    assert_eq!(ZFrame::from(b"ab\xFFcd").as_str().unwrap_err().valid_up_to(), 2);
}

#[test]
fn frames_compare_with_bytes_and_text() {
    let frame = ZFrame::from("abc");
    assert_eq!(frame, ZFrame::new("abc"));
    assert_ne!(frame, ZFrame::new("abd"));
    assert_ne!(frame, ZFrame::new("abcd"));
    assert_ne!(frame, ZFrame::empty());
    assert_eq!(frame, b"abc");
    assert_eq!(frame, &b"abc"[..]);
    assert_eq!(frame, b"abc"[..]);
    assert_eq!(frame, "abc");
    assert_eq!(frame, *"abc");
    assert_ne!(frame, "ab");
}

#[test]
fn frames_are_ordered_as_their_bytes() {
    let mut frames = ["b", "", "abc", "ab", "\u{7f}"].map(ZFrame::from).to_vec();
    frames.push(ZFrame::from(b"\xFF"));
    frames.sort();
    assert_eq!(frames, [&b""[..], b"ab", b"abc", b"b", b"\x7F", b"\xFF"]);
}

#[test]
fn a_map_keyed_by_frames_is_searched_by_bytes() {
    let long = vec![9; 100];
    let mut workers: HashMap<ZFrame, u32> = HashMap::new();
    workers.insert(ZFrame::from(b"\x00one"), 1);
    workers.insert(ZFrame::from(long.clone()), 2);
    workers.insert(ZFrame::empty(), 3);
    assert_eq!(workers.get(&b"\x00one"[..]), Some(&1));
    assert_eq!(workers.get(&long[..]), Some(&2));
    assert_eq!(workers.get(&b""[..]), Some(&3));
    assert_eq!(workers.get(&b"one"[..]), None);
    assert_eq!(workers.get(&ZFrame::new("\0one")), Some(&1));

    assert_eq!(hash_of(&ZFrame::from("abc")), hash_of(&b"abc"[..]));
}

#[test]
fn debug_shows_text_as_it_is() {
    let shown = |content: &str| format!("{:?}", ZFrame::new(content));
    assert_eq!(shown("Hello"), "[005] Hello");
    assert_eq!(shown("Hello there!"), "[012] Hello there!");
    assert_eq!(shown(""), "[000] ");
    assert_eq!(shown(" ~"), "[002]  ~");
    assert_eq!(shown("say \"x\" \\"), "[009] say \"x\" \\");
}

#[test]
fn debug_shows_anything_else_as_upper_case_hex() {
    let shown = |content: &[u8]| format!("{:?}", ZFrame::new(content));
    assert_eq!(shown(b"\x00"), "[001] 00");
    assert_eq!(shown(b"END\xAF"), "[004] 454E44AF");
    assert_eq!(shown(b"a\nb"), "[003] 610A62");
    assert_eq!(shown(b"\x7F"), "[001] 7F");
    assert_eq!(shown("é".as_bytes()), "[002] C3A9");
}

#[test]
fn debug_cuts_text_behind_70_characters_and_tells_the_whole_length() {
    let text = "0123456789".repeat(52);
    let shown = |len: usize| format!("{:?}", ZFrame::new(&text[..len]));
    assert_eq!(shown(70), format!("[070] {}", &text[..70]));
    assert_eq!(shown(71), format!("[071] {}...", &text[..70]));
    assert_eq!(shown(519), format!("[519] {}...", &text[..70]));
    assert_eq!(
        format!("{:?}", ZFrame::from("x".repeat(1000))),
        format!("[1000] {}...", "x".repeat(70))
    );
}

#[test]
fn debug_cuts_binary_behind_35_bytes() {
    let shown = |len: usize| format!("{:?}", ZFrame::new(vec![0xAB; len]));
    assert_eq!(shown(35), format!("[035] {}", "AB".repeat(35)));
    assert_eq!(shown(36), format!("[036] {}...", "AB".repeat(35)));
    // A byte that is not shown decides too: it is the frame that is binary, not its start.
    let mut late = vec![b'x'; 100];
    late[99] = 0;
    assert_eq!(format!("{:?}", ZFrame::from(late)), format!("[100] {}...", "78".repeat(35)));
}

#[test]
fn an_identity_that_starts_with_nul_stays_binary() {
    let identity = ZFrame::from(b"\x00\x6B\x8B\x45\x67");
    assert_eq!(identity.len(), 5);
    assert_eq!(format!("{identity:?}"), "[005] 006B8B4567");

    let (_ctx, dealer, router) =
        connected("tcp://127.0.0.1:*", [SocketType::Dealer, SocketType::Router]);
    let mut request = pass(&dealer, &router, "Hello");
    let identity = request.pop_front().expect("a ROUTER puts the identity in front");
    assert_eq!(identity.len(), 5);
    assert_eq!(identity[0], 0);
    // Whole, it leads back to the peer.
    let reply = pass(&router, &dealer, (identity, "World"));
    assert_eq!(reply, "World".into());
}

// Received frames

#[test]
fn more_is_set_on_all_received_frames_but_the_last() {
    for endpoint in ["inproc://more", "tcp://127.0.0.1:*"] {
        let (_ctx, from, to) = connected(endpoint, [SocketType::Push, SocketType::Pull]);
        for frames in 1..6 {
            for len in [0, 5, 100] {
                let sent: ZMsg = (0..frames).map(|_| vec![1; len]).collect();
                let received = pass(&from, &to, sent);
                let more: Vec<bool> = received.iter().map(ZFrame::more).collect();
                let mut expected = vec![true; frames - 1];
                expected.push(false);
                assert_eq!(more, expected, "{frames} frames of {len} bytes over {endpoint}");
            }
        }
    }
}

#[test]
fn more_goes_with_the_clone_and_not_with_the_reset() {
    let (_ctx, from, to) = connected("inproc://more", [SocketType::Push, SocketType::Pull]);
    let mut received = pass(&from, &to, (vec![1; 100], "END"));
    let mut first = received.pop_front().unwrap();
    assert!(first.more());
    assert!(first.clone().more());
    first.reset("new");
    assert!(!first.more());
    assert!(!ZFrame::from("made here").more());
}

#[test]
fn more_follows_the_place_in_the_message_that_is_sent_on() {
    let (_ctx, from, to) = connected("inproc://more", [SocketType::Pair, SocketType::Pair]);
    let mut received = pass(&from, &to, ("one", "two"));
    // The other way round, so that each frame comes with the wrong flag.
    let turned = [received.pop_back().unwrap(), received.pop_back().unwrap()];
    let back = pass(&to, &from, turned);
    assert_eq!(back, ("two", "one").into());
    assert_eq!(back.iter().map(ZFrame::more).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn frames_sent_again_and_again_arrive_as_often() {
    let (_ctx, from, to) = connected("tcp://127.0.0.1:*", [SocketType::Pair, SocketType::Pair]);
    let mut sent: ZMsg = (0..5).map(|_| ZFrame::new("Hello")).collect();
    let again = ZFrame::new("Hello");
    sent.extend((0..5).map(|_| &again));
    let copy = again.clone();
    assert_eq!(again, copy);
    drop(again);
    assert_eq!(copy.len(), 5);
    sent.push_back("END");

    let received = pass(&from, &to, sent);
    let before_end = received.iter().take_while(|frame| **frame != "END");
    assert_eq!(before_end.filter(|frame| **frame == "Hello" && frame.more()).count(), 10);
    assert_eq!(received.len(), 11);
    assert!(received.last().is_some_and(|end| *end == "END" && !end.more()));
}

#[test]
fn metadata_of_a_frame_received_over_tcp_describes_its_sender() {
    let (_ctx, from, to) = connected("tcp://127.0.0.1:*", [SocketType::Push, SocketType::Pull]);
    let received = pass(&from, &to, ("one", vec![2; 100]));
    for frame in &received {
        assert_eq!(frame.metadata("Socket-Type"), Some("PUSH"));
        assert_eq!(frame.metadata("Peer-Address"), Some("127.0.0.1"));
        assert_eq!(frame.metadata("nonexistent"), None);
        assert_eq!(frame.metadata(""), None);
        assert_eq!(frame.metadata("Socket-Type\0"), None);
        assert_eq!(frame.metadata("\0"), None);
    }

    let (_ctx, from, to) = connected("tcp://127.0.0.1:*", [SocketType::Pair, SocketType::Pair]);
    assert_eq!(pass(&from, &to, "x").first().unwrap().metadata("Socket-Type"), Some("PAIR"));
}

#[test]
fn metadata_tells_the_senders_identity() {
    let ctx = ZContext::builder().signals(false).build().unwrap();
    let to = ctx.socket(SocketType::Router).unwrap();
    let from = ctx.socket(SocketType::Dealer).unwrap();
    from.set_identity("client-7").unwrap();
    from.connect(&to.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
    let mut received = pass(&from, &to, "Hello");
    assert_eq!(received.pop_str().unwrap(), "client-7");
    assert_eq!(received.first().unwrap().metadata("Identity"), Some("client-7"));
}

#[test]
fn metadata_goes_with_the_clone_and_not_with_the_reset() {
    let (_ctx, from, to) = connected("tcp://127.0.0.1:*", [SocketType::Push, SocketType::Pull]);
    for len in [5, 100] {
        let mut frame = pass(&from, &to, vec![1; len]).pop_front().unwrap();
        let clone = frame.clone();
        frame.reset("new");
        assert_eq!(frame.metadata("Socket-Type"), None);
        drop(frame);
        assert_eq!(clone.metadata("Socket-Type"), Some("PUSH"));
    }
}

/// libzmq takes the metadata off the last frame before it refuses it.
#[test]
fn a_message_that_a_failed_send_gives_back_has_the_metadata_of_all_frames_but_the_last() {
    let (ctx, from, to) = connected("tcp://127.0.0.1:*", [SocketType::Push, SocketType::Pull]);
    let nowhere = ctx.push("").unwrap();
    for frames in 1..4 {
        let msg: ZMsg = (0..frames).map(|_| "Hello").collect();
        let received = pass(&from, &to, msg);
        let failed = nowhere.try_send(received).unwrap_err();
        assert!(failed.error.is_would_block());
        for (index, frame) in failed.message.iter().enumerate().take(frames - 1) {
            let found = frame.metadata("Socket-Type");
            assert_eq!(found, Some("PUSH"), "frame {index} of {frames}");
        }
    }
}

#[test]
fn frames_made_here_or_received_over_inproc_have_no_metadata() {
    assert_eq!(ZFrame::from("made here").metadata("Socket-Type"), None);
    let (_ctx, from, to) = connected("inproc://metadata", [SocketType::Push, SocketType::Pull]);
    let received = pass(&from, &to, "Hello");
    assert_eq!(received.first().unwrap().metadata("Socket-Type"), None);
}

// The type

#[test]
fn a_frame_is_as_small_as_libzmqs_message() {
    assert_eq!(size_of::<ZFrame>(), 64);
}

#[test]
fn a_frame_may_be_sent_to_and_shared_by_threads() {
    fn assert_send_and_sync<T: Send + Sync + 'static>() {}
    assert_send_and_sync::<ZFrame>();
}

/// Of address space, not of memory: nobody reads or writes the bytes.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_frame_of_more_than_two_gib_is_sent_whole() {
    // Under valgrind every byte is written.
    if std::env::var_os("ZKIT_SLOW").is_some() {
        return;
    }
    let (_ctx, from, to) = connected("inproc://large", [SocketType::Push, SocketType::Pull]);
    let size = (1 << 31) + 10;
    let received = pass(&from, &to, vec![0; size]);
    assert_eq!(received.content_size(), size);
}
