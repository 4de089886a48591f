//! What `ZMsg` promises.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use zkit::{Error, Result, SocketType, ZContext, ZFrame, ZMsg, ZSock};

/// Generous, so that only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(30);

fn connected(name: &str, [from, to]: [SocketType; 2]) -> (ZContext, ZSock, ZSock) {
    let ctx = ZContext::builder().signals(false).build().unwrap();
    let (from, to) = (ctx.socket(from).unwrap(), ctx.socket(to).unwrap());
    to.bind(name).unwrap();
    from.connect(name).unwrap();
    (ctx, from, to)
}

fn pass(from: &ZSock, to: &ZSock, msg: impl Into<ZMsg>) -> ZMsg {
    from.send_timeout(msg, DEADLINE).unwrap();
    to.recv_timeout(DEADLINE).unwrap()
}

#[track_caller]
fn assert_frames(msg: &ZMsg, expected: &[&[u8]]) {
    let frames: Vec<&[u8]> = msg.iter().map(|frame| &frame[..]).collect();
    assert_eq!(frames, expected);
    assert_eq!(msg.len(), expected.len());
    assert_eq!(msg.is_empty(), expected.is_empty());
}

/// Which frame an error names, and why.
#[track_caller]
fn frame_error<T>(result: Result<T>) -> (usize, String) {
    match result {
        Err(Error::Frame { index, reason }) => (index, reason.into_owned()),
        Err(error) => panic!("another error: {error:?}"),
        Ok(_) => panic!("no error"),
    }
}

// Making messages

#[test]
fn a_new_message_has_no_frames() {
    for msg in [ZMsg::new(), ZMsg::default(), ZMsg::with_capacity(0), ZMsg::with_capacity(100)] {
        assert_frames(&msg, &[]);
        assert_eq!(msg.content_size(), 0);
    }
}

#[test]
fn whatever_is_one_frame_makes_a_message_of_one_frame() {
    let made = [
        ZMsg::from(ZFrame::new("Hello")),
        ZMsg::from(b"Hello".to_vec()),
        ZMsg::from(b"Hello".to_vec().into_boxed_slice()),
        ZMsg::from("Hello".to_string()),
        ZMsg::from("Hello"),
        ZMsg::from(b"Hello"),
        ZMsg::from(&b"Hello"[..]),
        ZMsg::from(&ZFrame::new("Hello")),
        ZMsg::from(&b"Hello".to_vec()),
        ZMsg::from(&"Hello".to_string()),
    ];
    for msg in &made {
        assert_frames(msg, &[b"Hello"]);
    }
    assert_frames(&ZMsg::from(1_u16), &[b"\0\x01"]);
    assert_frames(&ZMsg::from(1_u32), &[b"\0\0\0\x01"]);
    assert_frames(&ZMsg::from(1_u64), &[b"\0\0\0\0\0\0\0\x01"]);
    // No bytes are a frame too.
    assert_frames(&ZMsg::from(""), &[b""]);
}

#[test]
fn tuples_of_one_to_eight_make_a_frame_of_each_element() {
    assert_frames(&("1",).into(), &[b"1"]);
    assert_frames(&("1", "2").into(), &[b"1", b"2"]);
    assert_frames(&("1", "2", "3").into(), &[b"1", b"2", b"3"]);
    assert_frames(&("1", "2", "3", "4").into(), &[b"1", b"2", b"3", b"4"]);
    assert_frames(&("1", "2", "3", "4", "5").into(), &[b"1", b"2", b"3", b"4", b"5"]);
    assert_frames(&("1", "2", "3", "4", "5", "6").into(), &[b"1", b"2", b"3", b"4", b"5", b"6"]);
    assert_frames(
        &("1", "2", "3", "4", "5", "6", "7").into(),
        &[b"1", b"2", b"3", b"4", b"5", b"6", b"7"],
    );
    assert_frames(
        &("1", "2", "3", "4", "5", "6", "7", "8").into(),
        &[b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8"],
    );
}

#[test]
fn the_elements_of_a_tuple_may_be_of_all_kinds() {
    let frame = ZFrame::new("borrowed");
    let text = "text".to_string();
    let msg =
        ZMsg::from((&frame, frame.clone(), &text, b"bytes", vec![1, 2], 7_u16, [3_u8, 4], ""));
    assert_frames(
        &msg,
        &[b"borrowed", b"borrowed", b"text", b"bytes", b"\x01\x02", b"\0\x07", b"\x03\x04", b""],
    );
}

#[test]
fn arrays_and_iterators_make_a_frame_of_each_element() {
    assert_frames(&ZMsg::from(["a", "", "c"]), &[b"a", b"", b"c"]);
    assert_frames(&ZMsg::from([1_u16, 2]), &[b"\0\x01", b"\0\x02"]);
    assert_frames(&ZMsg::from([""; 0]), &[]);

    let words: ZMsg = "one two three".split(' ').map(str::to_owned).collect();
    assert_frames(&words, &[b"one", b"two", b"three"]);
    let none: ZMsg = std::iter::empty::<ZFrame>().collect();
    assert_frames(&none, &[]);
    let one: ZMsg = Some("one").into_iter().collect();
    assert_frames(&one, &[b"one"]);
}

#[test]
fn extend_adds_frames_behind_those_that_are_there() {
    let mut msg = ZMsg::new();
    msg.extend(["one", "two"]);
    msg.extend([""; 0]);
    msg.extend([vec![3]]);
    assert_frames(&msg, &[b"one", b"two", b"\x03"]);
}

/// A channel's `try_iter` ends for now, and goes on when more has come.
#[test]
fn an_iterator_is_not_asked_again_after_its_end() {
    let mut calls = 0;
    let ends_for_now = std::iter::from_fn(|| {
        calls += 1;
        (calls == 2).then_some("late")
    });
    let msg: ZMsg = ends_for_now.collect();
    assert_eq!(msg.first(), msg.iter().next(), "a message of {} frame(s)", msg.len());
    assert_frames(&msg, &[]);
}

// Both ends

#[test]
fn frames_are_pushed_and_popped_at_both_ends() {
    let mut msg = ZMsg::new();
    msg.push_back("c");
    msg.push_front("b");
    msg.push_back("d");
    msg.push_front("a");
    assert_frames(&msg, &[b"a", b"b", b"c", b"d"]);
    assert_eq!(msg.pop_front().unwrap(), "a");
    assert_eq!(msg.pop_back().unwrap(), "d");
    assert_eq!(msg.pop_back().unwrap(), "c");
    assert_eq!(msg.pop_back().unwrap(), "b");
    assert_eq!(msg.pop_back(), None);
    assert_eq!(msg.pop_front(), None);
    assert_frames(&msg, &[]);
    msg.push_back("again");
    assert_frames(&msg, &[b"again"]);
}

#[test]
fn content_size_is_the_bytes_of_all_frames() {
    let mut msg: ZMsg = (0..10).map(|n| format!("Frame{n}")).collect();
    assert_eq!(msg.content_size(), 60);
    msg.push_front("Address");
    assert_eq!(msg.content_size(), 67);
    msg.push_back(ZFrame::empty());
    assert_eq!(msg.content_size(), 67);
    msg.remove(1);
    assert_eq!(msg.content_size(), 61);
    msg.first_mut().unwrap().reset("A");
    assert_eq!(msg.content_size(), 55);
    msg.clear();
    assert_eq!(msg.content_size(), 0);
}

#[test]
fn clear_takes_all_frames_out() {
    let mut msg = ZMsg::from(("one", "two", "three"));
    msg.clear();
    assert_frames(&msg, &[]);
    msg.clear();
    msg.push_back("next");
    assert_frames(&msg, &[b"next"]);
}

// The envelope

#[test]
fn wrap_puts_a_frame_and_a_delimiter_in_front() {
    let mut msg = ZMsg::from("body");
    msg.wrap("client");
    assert_frames(&msg, &[b"client", b"", b"body"]);
    msg.wrap("hop");
    assert_frames(&msg, &[b"hop", b"", b"client", b"", b"body"]);

    let mut empty = ZMsg::new();
    empty.wrap("client");
    assert_frames(&empty, &[b"client", b""]);
}

#[test]
fn unwrap_reverses_wrap() {
    let mut msg = ZMsg::from(("hop", "", "client", "", "", "body"));
    assert_eq!(msg.unwrap().unwrap(), "hop");
    assert_eq!(msg.unwrap().unwrap(), "client");
    assert_frames(&msg, &[b"", b"body"]);
}

#[test]
fn unwrap_without_a_delimiter_takes_one_frame() {
    let mut msg = ZMsg::from(("client", "body"));
    assert_eq!(msg.unwrap().unwrap(), "client");
    assert_frames(&msg, &[b"body"]);
    assert_eq!(msg.unwrap().unwrap(), "body");
    assert_frames(&msg, &[]);
}

#[test]
fn unwrap_of_an_empty_first_frame_takes_it_as_the_frame() {
    let mut msg = ZMsg::from(("", "", "", "body"));
    assert_eq!(msg.unwrap().unwrap(), "");
    assert_frames(&msg, &[b"", b"body"]);
}

#[test]
fn an_empty_message_has_nothing_to_give() {
    let mut msg = ZMsg::new();
    assert_eq!(msg.unwrap(), None);
    assert_eq!(msg.pop_front(), None);
    assert_eq!(msg.pop_back(), None);
    assert_eq!(msg.remove(0), None);
    assert_eq!(msg.first(), None);
    assert_eq!(msg.last(), None);
    assert_eq!(msg.first_mut(), None);
    assert_eq!(msg.last_mut(), None);
    assert_eq!(msg.get(0), None);
    assert_eq!(msg.iter().next(), None);
    assert_eq!(msg.iter_mut().next_back(), None);
    assert_eq!(msg.signal_status(), None);
    assert_frames(&msg, &[]);
}

// Frames in place

#[test]
fn frames_are_found_by_place() {
    let msg = ZMsg::from(("a", "b", "c"));
    assert_eq!(msg.first().unwrap(), "a");
    assert_eq!(msg.last().unwrap(), "c");
    assert_eq!(msg.get(0).unwrap(), "a");
    assert_eq!(msg.get(1).unwrap(), "b");
    assert_eq!(msg.get(2).unwrap(), "c");
    assert_eq!(msg.get(3), None);
    assert_eq!(msg.get(usize::MAX), None);

    let one = ZMsg::from("only");
    assert_eq!(one.first(), one.last());
    assert_eq!(one.get(0), one.last());
    assert_eq!(one.get(1), None);
}

#[test]
fn first_and_last_are_reset_in_place() {
    let mut msg = ZMsg::from(("a", "b", "c"));
    msg.first_mut().unwrap().reset("first");
    msg.last_mut().unwrap().reset("last");
    assert_frames(&msg, &[b"first", b"b", b"last"]);
    let mut one = ZMsg::from("only");
    one.last_mut().unwrap().reset("one");
    assert_frames(&one, &[b"one"]);
}

#[test]
fn remove_takes_a_frame_out_of_any_place() {
    let mut msg: ZMsg = (0..10).map(|n| format!("Frame{n}")).collect();
    for n in 1..9 {
        assert_eq!(msg.remove(1).unwrap(), format!("Frame{n}").as_str());
    }
    assert_frames(&msg, &[b"Frame0", b"Frame9"]);
    assert_eq!(msg.remove(2), None);
    assert_eq!(msg.remove(usize::MAX), None);
    assert_frames(&msg, &[b"Frame0", b"Frame9"]);
    assert_eq!(msg.remove(0).unwrap(), "Frame0");
    assert_eq!(msg.remove(0).unwrap(), "Frame9");
    assert_eq!(msg.remove(0), None);
}

#[test]
fn frames_are_iterated_in_both_directions() {
    let mut msg = ZMsg::from(("a", "b", "c", "d"));
    assert!(msg.iter().eq(["a", "b", "c", "d"]));
    assert!(msg.iter().rev().eq(["d", "c", "b", "a"]));

    let mut from_both_ends = msg.iter();
    assert_eq!(from_both_ends.next().unwrap(), "a");
    assert_eq!(from_both_ends.next_back().unwrap(), "d");
    assert_eq!(from_both_ends.next_back().unwrap(), "c");
    assert_eq!(from_both_ends.next().unwrap(), "b");
    assert_eq!(from_both_ends.next(), None);
    assert_eq!(from_both_ends.next_back(), None);
    drop(from_both_ends);

    for (n, frame) in msg.iter_mut().enumerate() {
        frame.reset(format!("{n}"));
    }
    assert!(msg.iter().eq(["0", "1", "2", "3"]));
    for (n, frame) in msg.iter_mut().rev().enumerate() {
        frame.reset(format!("{n}"));
    }
    assert!(msg.iter().eq(["3", "2", "1", "0"]));

    let mut count = 0;
    for frame in &msg {
        count += frame.len();
    }
    assert_eq!(count, 4);
    assert!(msg.clone().into_iter().rev().eq(["0", "1", "2", "3"].map(ZFrame::from)));
    assert!(msg.into_iter().eq(["3", "2", "1", "0"].map(ZFrame::from)));
}

// Typed reading

#[test]
fn typed_pops_read_what_conversion_wrote() {
    let mut msg = ZMsg::from(("text", [8_u8], 16_u16, 32_u32));
    msg.extend([u64::MAX, 64]);
    assert_eq!(msg.pop_str().unwrap(), "text");
    assert_eq!(msg.pop_u8().unwrap(), 8);
    assert_eq!(msg.pop_u16().unwrap(), 16);
    assert_eq!(msg.pop_u32().unwrap(), 32);
    assert_eq!(msg.pop_u64().unwrap(), u64::MAX);
    assert_eq!(msg.pop_u64().unwrap(), 64);
    assert!(msg.is_empty());
}

#[test]
fn pop_parsed_reads_numbers_written_as_text() {
    let mut msg = ZMsg::from(("-12", "3.5", "true", "word", "300"));
    assert_eq!(msg.pop_parsed::<i32>().unwrap(), -12);
    assert_eq!(msg.pop_parsed::<f64>().unwrap(), 3.5);
    assert!(msg.pop_parsed::<bool>().unwrap());
    assert_eq!(msg.pop_parsed::<String>().unwrap(), "word");
    assert_eq!(
        frame_error(msg.pop_parsed::<u8>()),
        (
            4,
            "expected a u8 as text, found [003] 300 (number too large to fit in target type)"
                .to_string()
        )
    );
    assert_frames(&msg, &[b"300"]);
    assert_eq!(msg.pop_parsed::<u16>().unwrap(), 300);

    let mut binary = ZMsg::from(b"1\xFF");
    let (index, reason) = frame_error(binary.pop_parsed::<u8>());
    assert_eq!(index, 0);
    assert!(reason.starts_with("expected a u8 as text, found [002] 31FF ("), "{reason}");
    assert!(reason.contains("utf-8"), "{reason}");
    assert_frames(&binary, &[b"1\xFF"]);

    let mut empty = ZMsg::from("");
    let (_, reason) = frame_error(empty.pop_parsed::<u8>());
    assert!(reason.starts_with("expected a u8 as text, found [000]  ("), "{reason}");
}

#[test]
fn a_frame_of_the_wrong_size_is_named_and_stays_in_its_place() {
    let mut msg = ZMsg::from(("id", "", "abc", "rest", "end"));
    msg.unwrap();
    assert_eq!(frame_error(msg.pop_u8()), (2, "expected 1 byte(s), found [003] abc".to_string()));
    assert_eq!(frame_error(msg.pop_u16()), (2, "expected 2 byte(s), found [003] abc".to_string()));
    assert_eq!(frame_error(msg.pop_u32()), (2, "expected 4 byte(s), found [003] abc".to_string()));
    assert_eq!(frame_error(msg.pop_u64()), (2, "expected 8 byte(s), found [003] abc".to_string()));
    assert_frames(&msg, &[b"abc", b"rest", b"end"]);
    assert_eq!(msg.pop_str().unwrap(), "abc");
    assert_eq!(msg.pop_u32().unwrap().to_be_bytes(), *b"rest");
    let error = msg.pop_u32().unwrap_err();
    assert_eq!(error.to_string(), "frame 4: expected 4 byte(s), found [003] end");
}

#[test]
fn a_frame_that_is_not_text_is_named_and_stays_in_its_place() {
    let mut msg = ZMsg::from(("text", b"ab\xFF"));
    msg.pop_str().unwrap();
    let (index, reason) = frame_error(msg.pop_str());
    assert_eq!(index, 1);
    assert_eq!(
        reason,
        "expected UTF-8 text, found [003] 6162FF (invalid utf-8 sequence of 1 bytes from index 2)"
    );
    assert_frames(&msg, &[b"ab\xFF"]);
}

#[test]
fn a_frame_that_is_missing_is_named() {
    let missing = |index| (index, "the message ends before it".to_string());
    assert_eq!(frame_error(ZMsg::new().pop_str()), missing(0));

    let mut msg = ZMsg::from(("one", "two"));
    msg.pop_str().unwrap();
    msg.pop_str().unwrap();
    assert_eq!(frame_error(msg.pop_str()), missing(2));
    assert_eq!(frame_error(msg.pop_u8()), missing(2));
    assert_eq!(frame_error(msg.pop_u64()), missing(2));
    assert_eq!(frame_error(msg.pop_parsed::<u8>()), missing(2));
    assert_eq!(msg.pop_str().unwrap_err().to_string(), "frame 2: the message ends before it");
}

#[test]
fn errors_number_a_frame_as_it_was_received() {
    let (_ctx, from, to) = connected("inproc://index", [SocketType::Pair, SocketType::Pair]);
    let mut msg = pass(&from, &to, ("id", "", "one", "two", "three"));
    assert_eq!(frame_error(msg.pop_u32()).0, 0);
    let id = msg.unwrap().unwrap();
    assert_eq!(frame_error(msg.pop_u32()).0, 2);
    // Putting back what was taken puts the number back.
    msg.wrap(id);
    assert_eq!(frame_error(msg.pop_u32()).0, 0);
    msg.unwrap();
    // Taking from the back, or having a copy, changes nothing at the front.
    msg.pop_back();
    assert_eq!(frame_error(msg.clone().pop_u32()).0, 2);
    msg.remove(0);
    assert_eq!(frame_error(msg.pop_u32()).0, 3);
}

// Copies and comparison

#[test]
fn messages_are_equal_when_their_frames_are() {
    let msg = ZMsg::from(("One", "Two", "Three"));
    assert_eq!(msg, msg.clone());
    assert_eq!(msg, ["One", "Two", "Three"].into());
    assert_ne!(msg, ("One", "Two", "One-Hundred").into());
    assert_ne!(msg, ("One", "Two").into());
    assert_ne!(msg, ("One", "Two", "Three", "").into());
    // The same bytes cut elsewhere are another message.
    assert_ne!(msg, ("One", "TwoT", "hree").into());
    assert_ne!(msg, ZMsg::new());
    assert_eq!(ZMsg::new(), ZMsg::new());
    assert_ne!(ZMsg::new(), "".into());

    // What was taken off before does not count.
    let mut popped = ZMsg::from(("Zero", "One", "Two", "Three"));
    popped.pop_front();
    assert_eq!(popped, msg);
}

#[test]
fn a_clone_shares_content_and_is_a_message_of_its_own() {
    let mut msg = ZMsg::from(("short", vec![1; 1000], vec![2; 1000]));
    let clone = msg.clone();
    for index in 1..3 {
        assert_eq!(msg.get(index).unwrap().as_ptr(), clone.get(index).unwrap().as_ptr());
    }
    msg.pop_front();
    msg.last_mut().unwrap().reset("changed");
    assert_frames(&clone, &[b"short", &[1; 1000], &[2; 1000]]);
}

#[test]
fn a_message_by_reference_is_a_clone_that_shares_content() {
    let msg = ZMsg::from(("short", vec![1; 1000]));
    let copy = ZMsg::from(&msg);
    assert_eq!(copy, msg);
    assert_eq!(copy.last().unwrap().as_ptr(), msg.last().unwrap().as_ptr());

    let (_ctx, from, to) = connected("inproc://lent", [SocketType::Pair, SocketType::Pair]);
    assert_eq!(pass(&from, &to, &msg), copy);
    assert_eq!(pass(&from, &to, &msg), msg);
}

#[test]
fn dump_is_a_line_of_dashes_and_a_line_for_each_frame() {
    let msg = ZMsg::from((b"\x00\x6B\x8B\x45\x67", "", "Hello", "x".repeat(71)));
    let expected = format!(
        "----------------------------------------\n\
         [005] 006B8B4567\n\
         [000] \n\
         [005] Hello\n\
         [071] {}...",
        "x".repeat(70)
    );
    assert_eq!(msg.dump().to_string(), expected);
    assert_eq!(ZMsg::new().dump().to_string(), "-".repeat(40));
}

#[test]
fn debug_lists_the_frames_as_they_are_dumped() {
    assert_eq!(format!("{:?}", ZMsg::from(("Hello", ""))), "[[005] Hello, [000] ]");
    assert_eq!(format!("{:?}", ZMsg::new()), "[]");
}

// Signals

#[test]
fn a_signal_carries_its_status() {
    for status in 0..=255 {
        let msg = ZMsg::signal(status);
        assert_eq!(msg.len(), 1);
        assert_eq!(msg.signal_status(), Some(status));
        let bytes = (0x7766_5544_3322_1100 + u64::from(status)).to_ne_bytes();
        assert_frames(&msg, &[&bytes]);
    }
}

#[test]
fn a_signal_keeps_its_status_over_a_socket() {
    let (_ctx, from, to) = connected("inproc://signal", [SocketType::Pair, SocketType::Pair]);
    from.signal(7).unwrap();
    assert_eq!(to.recv_timeout(DEADLINE).unwrap().signal_status(), Some(7));
    assert_eq!(pass(&from, &to, ZMsg::signal(255)).signal_status(), Some(255));
}

#[test]
fn other_messages_are_no_signals() {
    let signal = 0x7766_5544_3322_1100_u64;
    let frame = |number: u64| ZFrame::new(number.to_ne_bytes());
    assert_eq!(ZMsg::new().signal_status(), None);
    assert_eq!(ZMsg::from("").signal_status(), None);
    assert_eq!(ZMsg::from("12345678").signal_status(), None);
    assert_eq!(ZMsg::from(signal.to_ne_bytes()[..7].to_vec()).signal_status(), None);
    assert_eq!(ZMsg::from([&signal.to_ne_bytes()[..], b"9"].concat()).signal_status(), None);
    for bit in 8..64 {
        assert_eq!(ZMsg::from(frame(signal ^ (1 << bit))).signal_status(), None, "bit {bit}");
    }
    assert_eq!(ZMsg::from((frame(signal), "")).signal_status(), None);
    assert_eq!(ZMsg::from(("", frame(signal))).signal_status(), None);

    // What is left of a longer message may be one.
    let mut msg = ZMsg::from(("id", "", frame(signal)));
    msg.unwrap();
    assert_eq!(msg.signal_status(), Some(0));
}

// Through sockets

#[test]
fn messages_arrive_as_they_were_sent() {
    let (_ctx, from, to) = connected("inproc://whole", [SocketType::Pair, SocketType::Pair]);
    assert_frames(&pass(&from, &to, "Hello"), &[b"Hello"]);
    assert_frames(&pass(&from, &to, ""), &[b""]);
    assert_frames(&pass(&from, &to, ("", "", "")), &[b"", b"", b""]);

    let msg: ZMsg = (0..10).map(|n| format!("Frame{n}")).collect();
    let copy = msg.clone();
    let first = pass(&from, &to, copy);
    let second = pass(&from, &to, msg);
    assert_eq!((first.len(), first.content_size()), (10, 60));
    assert_eq!(first, second);

    let many: ZMsg = (0..1000_u32).map(|n| vec![n as u8; n as usize % 50]).collect();
    assert_eq!(pass(&from, &to, many.clone()), many);
}

#[test]
fn sending_an_empty_message_does_nothing() {
    let (_ctx, from, to) = connected("inproc://nothing", [SocketType::Pair, SocketType::Pair]);
    from.send(ZMsg::new()).unwrap();
    from.try_send(ZMsg::new()).unwrap();
    from.send_timeout(ZMsg::new(), DEADLINE).unwrap();
    assert!(to.try_recv().unwrap_err().is_would_block());
    assert_frames(&pass(&from, &to, "next"), &[b"next"]);
    assert!(to.try_recv().unwrap_err().is_would_block());
}

#[test]
fn sending_an_empty_message_needs_no_peer_and_takes_no_turn() {
    let ctx = ZContext::builder().signals(false).build().unwrap();
    ctx.push("").unwrap().try_send(ZMsg::new()).unwrap();

    let (_ctx, req, rep) = connected("inproc://turn", [SocketType::Req, SocketType::Rep]);
    req.try_send(ZMsg::new()).unwrap();
    assert_frames(&pass(&req, &rep, "request"), &[b"request"]);
    rep.try_send(ZMsg::new()).unwrap();
    assert_frames(&pass(&rep, &req, "reply"), &[b"reply"]);
}

#[test]
fn random_messages_arrive_as_they_were_sent() {
    let (_ctx, from, to) = connected("inproc://random", [SocketType::Pair, SocketType::Pair]);
    let mut runner = TestRunner::new(config());
    let frames = vec(content(), 1..12);
    let sent_as_received = runner.run(&frames, |frames| {
        let received = pass(&from, &to, frames.iter().cloned().collect::<ZMsg>());
        let received: Vec<Vec<u8>> = received.iter().map(|frame| frame.to_vec()).collect();
        prop_assert_eq!(received, frames);
        Ok(())
    });
    sent_as_received.unwrap();
}

// Threads

#[test]
fn a_message_may_be_sent_to_and_shared_by_threads() {
    fn assert_send_and_sync<T: Send + Sync + 'static>() {}
    assert_send_and_sync::<ZMsg>();
}

/// A thread keeps memory of dropped messages for its next ones.
#[test]
fn a_message_made_in_one_thread_is_dropped_in_another() {
    let (send, receive) = mpsc::sync_channel::<ZMsg>(4);
    let (done, finished) = mpsc::channel();
    thread::spawn(move || {
        let mut total = 0;
        for msg in receive {
            let own = ZMsg::from(("a", "b", "c"));
            total += msg.len() + own.len();
        }
        done.send(total).unwrap();
    });
    for n in 0..200 {
        send.send((0..n % 10).map(|n: u32| vec![n as u8; 50]).collect()).unwrap();
    }
    drop(send);
    assert_eq!(finished.recv_timeout(DEADLINE), Ok(200 * 3 + 20 * 45));
}

#[test]
fn messages_are_made_and_dropped_while_a_thread_ends() {
    struct Last(ZMsg, mpsc::Sender<usize>);

    impl Drop for Last {
        fn drop(&mut self) {
            let late = ZMsg::from(("made", "late", "in", "the", "thread"));
            self.1.send(self.0.len() + late.len()).unwrap();
        }
    }

    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }

    let (done, finished) = mpsc::channel();
    for message_first in [true, false] {
        let done = done.clone();
        // The order in which a thread's values end is that of their first use, or its reverse.
        thread::spawn(move || {
            let msg = message_first.then(|| ZMsg::from(("a", "b", "c")));
            LAST.with(|last| drop(last.borrow()));
            let msg = msg.unwrap_or_else(|| ZMsg::from(("a", "b", "c")));
            drop(msg.clone());
            LAST.set(Some(Last(msg, done)));
        });
    }
    for _ in 0..2 {
        assert_eq!(finished.recv_timeout(DEADLINE), Ok(8));
    }
}

// Against a model: a queue of vectors

fn config() -> ProptestConfig {
    // A case that failed is printed; no file is left in the source tree.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Sizes on both sides of what libzmq keeps inside the frame, and often none.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(Vec::new()),
        4 => vec(any::<u8>(), 1..6),
        2 => vec(any::<u8>(), 31..36),
        1 => vec(any::<u8>(), 100..300),
    ]
}

#[derive(Debug, Clone)]
enum Operation {
    PushFront(Vec<u8>),
    PushBack(Vec<u8>),
    PopFront,
    PopBack,
    Wrap(Vec<u8>),
    Unwrap,
    Remove(usize),
    Reset(usize, Vec<u8>),
    ResetFirst(Vec<u8>),
    ResetLast(Vec<u8>),
    Extend(Vec<Vec<u8>>),
    Clone,
    Collect,
    Clear,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        4 => content().prop_map(PushFront),
        4 => content().prop_map(PushBack),
        3 => Just(PopFront),
        3 => Just(PopBack),
        2 => content().prop_map(Wrap),
        2 => Just(Unwrap),
        3 => (0_usize..8).prop_map(Remove),
        3 => (0_usize..8, content()).prop_map(|(index, content)| Reset(index, content)),
        1 => content().prop_map(ResetFirst),
        1 => content().prop_map(ResetLast),
        1 => vec(content(), 0..4).prop_map(Extend),
        2 => Just(Clone),
        1 => Just(Collect),
        1 => Just(Clear),
    ]
}

type Model = VecDeque<Vec<u8>>;

/// Does the same to both, and compares what comes out.
fn apply(operation: Operation, msg: &mut ZMsg, model: &mut Model) {
    let bytes = |frame: Option<ZFrame>| frame.map(|frame| frame.to_vec());
    match operation {
        Operation::PushFront(content) => {
            msg.push_front(content.clone());
            model.push_front(content);
        }
        Operation::PushBack(content) => {
            msg.push_back(content.clone());
            model.push_back(content);
        }
        Operation::PopFront => assert_eq!(bytes(msg.pop_front()), model.pop_front()),
        Operation::PopBack => assert_eq!(bytes(msg.pop_back()), model.pop_back()),
        Operation::Wrap(content) => {
            msg.wrap(content.clone());
            model.push_front(Vec::new());
            model.push_front(content);
        }
        Operation::Unwrap => {
            let expected = model.pop_front();
            if expected.is_some() && model.front().is_some_and(Vec::is_empty) {
                model.pop_front();
            }
            assert_eq!(bytes(msg.unwrap()), expected);
        }
        Operation::Remove(index) => assert_eq!(bytes(msg.remove(index)), model.remove(index)),
        Operation::Reset(index, content) => {
            let frame = msg.iter_mut().nth(index);
            assert_eq!(frame.is_some(), index < model.len());
            if let Some(frame) = frame {
                frame.reset(content.clone());
                model[index] = content;
            }
        }
        Operation::ResetFirst(content) => {
            let (frame, expected) = (msg.first_mut(), model.front_mut());
            assert_eq!(frame.is_some(), expected.is_some());
            if let (Some(frame), Some(expected)) = (frame, expected) {
                frame.reset(content.clone());
                *expected = content;
            }
        }
        Operation::ResetLast(content) => {
            let (frame, expected) = (msg.last_mut(), model.back_mut());
            assert_eq!(frame.is_some(), expected.is_some());
            if let (Some(frame), Some(expected)) = (frame, expected) {
                frame.reset(content.clone());
                *expected = content;
            }
        }
        Operation::Extend(frames) => {
            msg.extend(frames.iter().cloned());
            model.extend(frames);
        }
        Operation::Clone => *msg = msg.clone(),
        Operation::Collect => *msg = std::mem::take(msg).into_iter().collect(),
        Operation::Clear => {
            msg.clear();
            model.clear();
        }
    }
}

fn check(msg: &ZMsg, model: &Model) {
    assert_eq!(msg.len(), model.len());
    assert_eq!(msg.is_empty(), model.is_empty());
    assert_eq!(msg.content_size(), model.iter().map(Vec::len).sum::<usize>());
    assert_eq!(msg.first().map(|frame| &frame[..]), model.front().map(|frame| &frame[..]));
    assert_eq!(msg.last().map(|frame| &frame[..]), model.back().map(|frame| &frame[..]));
    assert!(msg.iter().map(|frame| &frame[..]).eq(model.iter().map(|frame| &frame[..])));
    assert!(
        msg.iter().rev().map(|frame| &frame[..]).eq(model.iter().rev().map(|frame| &frame[..]))
    );
    for index in 0..=model.len() {
        let (frame, expected) = (msg.get(index), model.get(index));
        assert_eq!(frame.map(|frame| &frame[..]), expected.map(|frame| &frame[..]));
    }
    assert_eq!(*msg, model.iter().cloned().collect::<ZMsg>());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_message_behaves_as_a_queue_of_vectors(operations in vec(operation(), 1..60)) {
        let (mut msg, mut model) = (ZMsg::new(), Model::new());
        let mut clones = Vec::new();
        for operation in operations {
            if matches!(operation, Operation::Clone) {
                clones.push((msg.clone(), model.clone()));
            }
            apply(operation, &mut msg, &mut model);
            check(&msg, &model);
        }
        // Nothing that was done to the message since has reached its clones.
        for (clone, model) in &clones {
            check(clone, model);
        }
    }

    #[test]
    fn messages_are_equal_exactly_when_their_frames_are(
        left in vec(content(), 0..4),
        right in vec(content(), 0..4),
    ) {
        let equal = left == right;
        let left: ZMsg = left.into_iter().collect();
        let right: ZMsg = right.into_iter().collect();
        prop_assert_eq!(left == right, equal);
        prop_assert_eq!(&left, &left.clone());
    }
}
