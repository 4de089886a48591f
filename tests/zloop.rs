//! The reactor: whom it calls, when, how often, and what it costs.

mod common;

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mio::Interest;
use mio::net::{TcpListener, TcpStream};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use zkit::{
    Error, Events, Exit, HandlerId, Repeat, Result, SocketType, Waker, ZContext, ZLoop, ZMsg,
    ZPoller, ZSock,
};

use common::{alone, more_descriptors, unique, within};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(20);
const NOW: Option<Duration> = Some(Duration::ZERO);

#[derive(Default)]
struct World {
    log: Vec<String>,
    ids: Vec<HandlerId>,
    count: usize,
}

type Loop<'a> = ZLoop<'a, World>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn bounded(case: impl FnOnce() + Send + 'static) {
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    within(LIMIT, &test, case);
}

fn context() -> ZContext {
    ZContext::builder().linger(Some(Duration::ZERO)).signals(false).build().unwrap()
}

fn pipeline(ctx: &ZContext) -> (ZSock, ZSock) {
    let name = format!("inproc://{}", unique("zloop"));
    let pull = ctx.pull(&format!("@{name}")).unwrap();
    (ctx.push(&format!(">{name}")).unwrap(), pull)
}

fn pairs(ctx: &ZContext) -> (ZSock, ZSock) {
    let name = format!("inproc://{}", unique("zloop"));
    let a = ctx.pair(&format!("@{name}")).unwrap();
    (a, ctx.pair(&format!(">{name}")).unwrap())
}

fn text(msg: &ZMsg) -> String {
    String::from_utf8_lossy(msg.first().unwrap()).into_owned()
}

fn note(world: &mut World, _: &mut Loop<'_>, msg: ZMsg) -> Result<()> {
    world.log.push(text(&msg));
    Ok(())
}

fn count(world: &mut World, _: &mut Loop<'_>) -> Result<()> {
    world.count += 1;
    Ok(())
}

fn stop(_: &mut World, zloop: &mut Loop<'_>) -> Result<()> {
    zloop.stop();
    Ok(())
}

/// Has `run` end so much later.
fn stop_after(zloop: &mut Loop<'_>, delay: Duration) {
    zloop.timer(delay, Repeat::ONCE, stop).unwrap();
}

/// Enough turns for everything that is ready. What the tests send over inproc is there at once.
fn turns(zloop: &mut Loop<'_>, world: &mut World) {
    for _ in 0..10 {
        assert_eq!(zloop.turn(world, NOW).unwrap(), None);
    }
}

fn is_wait(error: &Error) -> bool {
    matches!(error, Error::Wait { .. })
}

/// What this thread has used of a processor.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

// Readiness.

fn echo(endpoint: &str) {
    const ROUND_TRIPS: usize = 100_000;
    let ctx = context();
    let a = ctx.pair("").unwrap();
    let endpoint = a.bind(endpoint).unwrap();
    let b = ctx.pair(&endpoint).unwrap();
    let mut zloop = Loop::new().unwrap();
    // What comes at one is sent on the other, and so comes there again.
    zloop
        .reader(&a, |world, _, msg| {
            world.count += 1;
            Ok(b.send_timeout(msg, LIMIT)?)
        })
        .unwrap();
    zloop
        .reader(&b, |world, zloop, msg| {
            if world.count >= ROUND_TRIPS {
                zloop.stop();
            }
            Ok(a.send_timeout(msg, LIMIT)?)
        })
        .unwrap();
    for _ in 0..3 {
        a.send_timeout("to b", LIMIT).unwrap();
        b.send_timeout("to a", LIMIT).unwrap();
    }
    let mut world = World::default();
    assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
}

#[test]
fn sockets_that_send_on_each_other_do_not_stall_over_inproc() {
    bounded(|| echo("inproc://echo"));
}

#[test]
fn sockets_that_send_on_each_other_do_not_stall_over_tcp() {
    within(3 * LIMIT, "echo over tcp", || echo("tcp://127.0.0.1:*"));
}

#[test]
fn readable_is_called_again_while_there_is_input() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        push.send("1").unwrap();
        push.send("2").unwrap();
        let mut zloop = Loop::new().unwrap();
        zloop
            .readable(&pull, |world, _, pull| {
                world.log.push(pull.try_recv_str()?);
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, ["1", "2"]);
        push.send("3").unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, ["1", "2", "3"]);
    });
}

#[test]
fn a_readable_handler_that_takes_nothing_is_called_at_every_turn() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        push.send("left").unwrap();
        let mut zloop = Loop::new().unwrap();
        zloop.readable(&pull, |world, zloop, _| count(world, zloop)).unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 10);
    });
}

#[test]
fn a_reader_gets_what_a_handler_of_another_has_left_unseen() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        zloop.reader(&pull, note).unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        push.send("1").unwrap();
        push.send("2").unwrap();
        // This takes the news of both in, but one message only.
        assert!(pull.events().unwrap().is_readable());
        assert_eq!(pull.try_recv_str().unwrap(), "1");
        zloop.turn(&mut world, Some(LIMIT)).unwrap();
        assert_eq!(world.log, ["2"]);
    });
}

#[test]
fn a_reader_that_a_timer_ends_or_pauses_in_the_same_pass_is_not_called() {
    for pause in [false, true] {
        bounded(move || {
            let ctx = context();
            let (push, pull) = pipeline(&ctx);
            push.send("unread").unwrap();
            let mut zloop = Loop::new().unwrap();
            let reader = zloop.reader(&pull, note).unwrap();
            zloop
                .timer(Duration::ZERO, Repeat::ONCE, move |_, zloop| {
                    assert!(if pause { zloop.pause(reader) } else { zloop.cancel(reader) });
                    Ok(())
                })
                .unwrap();
            let mut world = World::default();
            turns(&mut zloop, &mut world);
            assert!(world.log.is_empty());
            drop(zloop);
            assert_eq!(pull.try_recv_str().unwrap(), "unread");
        });
    }
}

/// Every socket always has messages; what each is given of the loop's time must be alike.
#[test]
fn a_reader_that_registers_others_anew_at_every_call_starves_nobody_and_favours_nobody() {
    bounded(|| {
        const SOCKETS: usize = 4;
        let ctx = context();
        let sockets: Vec<(ZSock, Rc<ZSock>)> = (0..SOCKETS)
            .map(|_| {
                let (push, pull) = pipeline(&ctx);
                (push, Rc::new(pull))
            })
            .collect();
        struct Turns {
            calls: [usize; SOCKETS],
            ids: Vec<HandlerId>,
        }
        let mut zloop = ZLoop::<Turns>::new().unwrap();
        fn reader<'a>(
            zloop: &mut ZLoop<'a, Turns>,
            index: usize,
            sockets: &'a [(ZSock, Rc<ZSock>)],
        ) -> HandlerId {
            let handler = move |turns: &mut Turns, zloop: &mut ZLoop<'a, Turns>, msg| {
                turns.calls[index] += 1;
                sockets[index].0.send(msg)?;
                if index == 0 {
                    for other in 1..SOCKETS {
                        assert!(zloop.cancel(turns.ids[other]));
                        turns.ids[other] = reader(zloop, other, sockets);
                    }
                }
                Ok(())
            };
            zloop.reader(Rc::clone(&sockets[index].1), handler).unwrap()
        }
        let ids = (0..SOCKETS).map(|index| reader(&mut zloop, index, &sockets)).collect();
        for (push, _) in &sockets {
            for _ in 0..200 {
                push.try_send("again").unwrap();
            }
        }
        let mut turns = Turns { calls: [0; SOCKETS], ids };
        while turns.calls.iter().sum::<usize>() < 20_000 {
            assert_eq!(zloop.turn(&mut turns, NOW).unwrap(), None);
        }
        let (least, most) = (turns.calls.iter().min(), turns.calls.iter().max());
        assert!(most.unwrap() <= &(2 * least.unwrap()), "{:?}", turns.calls);
    });
}

/// How many messages a reader that always has some may get before somebody else has the turn: one
/// round, or several if the descriptors are not asked after each.
const ROUND: usize = 64;
const ROUNDS: usize = 1_000;

/// A socket whose reader always has more: whatever it gets it sends to itself again.
fn flooded<'a>(zloop: &mut Loop<'a>, ctx: &ZContext, received: &'a Cell<usize>) {
    let (push, pull) = pipeline(ctx);
    for _ in 0..200 {
        push.send("again").unwrap();
    }
    let again = move |_: &mut World, _: &mut Loop<'a>, msg| {
        received.set(received.get() + 1);
        Ok(push.send(msg)?)
    };
    zloop.reader(pull, again).unwrap();
}

#[test]
fn a_reader_that_seldom_has_a_message_does_not_wait_for_two_that_always_have_some() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let (a, b) = (Cell::new(0), Cell::new(0));
        let waits = RefCell::new(Vec::new());
        let mut zloop = Loop::new().unwrap();
        flooded(&mut zloop, &ctx, &a);
        flooded(&mut zloop, &ctx, &b);
        zloop
            .reader(&pull, |_, _, msg| {
                let sent: usize = text(&msg).parse().unwrap();
                waits.borrow_mut().push(a.get() + b.get() - sent);
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        for sent in 0..100 {
            push.send((a.get() + b.get()).to_string()).unwrap();
            while waits.borrow().len() == sent {
                assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
            }
            for _ in 0..10 {
                zloop.turn(&mut world, NOW).unwrap();
            }
            let (a, b) = (a.get(), b.get());
            assert!(a.min(b) * 2 >= a.max(b), "{a} and {b}");
        }
        let longest = *waits.borrow().iter().max().unwrap();
        println!("at most {longest} messages of others first");
        assert!(longest < ROUNDS, "{longest} messages of others first");
    });
}

/// However often the loop stops in the middle of a round, by a stop or an error.
#[test]
fn readers_that_all_have_many_messages_are_served_alike_wherever_the_loop_is_stopped() {
    const READERS: usize = 100;
    const EACH: usize = 500;
    more_descriptors();
    for step in [1, 37, 64, 99, 100, 250, 7_777] {
        bounded(move || {
            let ctx = context();
            let sockets: Vec<_> = (0..READERS).map(|_| pipeline(&ctx)).collect();
            let total = Cell::new(0);
            let mut zloop = ZLoop::<Vec<usize>>::new().unwrap();
            for (index, (push, pull)) in sockets.iter().enumerate() {
                for _ in 0..EACH {
                    push.send("x").unwrap();
                }
                let total = &total;
                zloop
                    .reader(pull, move |served: &mut Vec<usize>, zloop, _| {
                        served[index] += 1;
                        total.set(total.get() + 1);
                        match total.get() % (2 * step) {
                            0 => return Err(Error::other("meant to fail")),
                            at if at == step => zloop.stop(),
                            _ => {}
                        }
                        Ok(())
                    })
                    .unwrap();
            }
            let mut served = vec![0; READERS];
            while total.get() < READERS * EACH / 2 {
                match zloop.run(&mut served) {
                    Ok(exit) => assert_eq!(exit, Exit::Stopped),
                    Err(error) => assert!(error.to_string().contains("meant"), "{error}"),
                }
                let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
                // At one to none nobody has been passed over yet.
                assert!(*most < 2 || 2 * least >= *most, "every {step}: {least} to {most}");
            }
        });
    }
}

/// A timer and a task that come again at once have their turn after a round of messages at most.
#[test]
fn a_reader_that_always_has_messages_holds_up_neither_timers_nor_tasks() {
    fn timer<'a>(zloop: &mut Loop<'a>, last: &'a Cell<usize>, now: &'a Cell<usize>) {
        let handler = move |world: &mut World, zloop: &mut Loop<'a>| {
            world.count += 1;
            let waited = now.get() - last.replace(now.get());
            assert!(waited <= ROUND, "{waited} messages before a timer");
            timer(zloop, last, now);
            Ok(())
        };
        zloop.timer(Duration::ZERO, Repeat::ONCE, handler).unwrap();
    }
    fn task(world: &mut World, zloop: &mut Loop<'_>) -> Result<()> {
        world.log.push(String::new());
        Ok(zloop.waker().post(task)?)
    }
    bounded(|| {
        let ctx = context();
        let (received, last) = (Cell::new(0), Cell::new(0));
        let mut zloop = Loop::new().unwrap();
        flooded(&mut zloop, &ctx, &received);
        timer(&mut zloop, &last, &received);
        zloop.waker().post(task).unwrap();
        let mut world = World::default();
        for turn in 1..=1_000 {
            assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
            assert_eq!(world.log.len(), turn, "a task a turn");
        }
        let (timers, received) = (world.count, received.get());
        println!("{timers} timers and {} tasks to {received} messages", world.log.len());
        assert!(timers >= 999, "{timers} timers in 1,000 turns");
        assert!(received >= 1_000, "{received} messages in 1,000 turns");
    });
}

#[test]
fn a_reader_that_always_has_messages_shares_with_a_descriptor_and_a_readable_socket() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        push.send("left").unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"left").unwrap();
        fn called(calls: &Cell<usize>) -> Result<()> {
            calls.set(calls.get() + 1);
            Ok(())
        }
        let [received, descriptor, readable] = [Cell::new(0), Cell::new(0), Cell::new(0)];
        let mut zloop = Loop::new().unwrap();
        flooded(&mut zloop, &ctx, &received);
        // Both leave what they are called for.
        zloop.fd(&far, Events::READABLE, |_, _, _| called(&descriptor)).unwrap();
        zloop.readable(&pull, |_, _, _| called(&readable)).unwrap();
        let mut world = World::default();
        for _ in 0..1_000 {
            assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
        }
        let calls = [received.get(), descriptor.get(), readable.get()];
        println!("{calls:?} calls");
        let (least, most) = (calls.iter().min().unwrap(), calls.iter().max().unwrap());
        assert!(*least >= 990 && 2 * least >= *most, "{calls:?} in 1,000 turns");
    });
}

/// They have had nothing to do when the messages begin, so the loop has to ask for them.
#[test]
fn what_becomes_ready_beside_a_reader_that_always_has_messages_is_not_overlooked() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let (mut near, far) = UnixStream::pair().unwrap();
        let far = &far;
        let received = Cell::new(0);
        let mut zloop = Loop::new().unwrap();
        flooded(&mut zloop, &ctx, &received);
        zloop
            .fd(far, Events::READABLE, |world: &mut World, _, _| {
                let mut far = far;
                far.read_exact(&mut [0])?;
                world.count += 1;
                Ok(())
            })
            .unwrap();
        zloop
            .readable(&pull, |world: &mut World, _, socket| {
                socket.try_recv()?;
                world.count += 1;
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        let mut longest = 0;
        for round in 0..200 {
            if round % 2 == 0 {
                near.write_all(b"x").unwrap();
            } else {
                push.send("x").unwrap();
            }
            let before = received.get();
            while world.count == round {
                assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
            }
            longest = longest.max(received.get() - before);
        }
        println!("at most {longest} messages first");
        assert!(longest < ROUNDS, "{longest} messages first");
    });
}

#[test]
fn thousands_of_sockets_in_one_loop_work() {
    within(Duration::from_secs(60), "thousands of sockets", || {
        let limit = more_descriptors();
        // A descriptor for each, and for their peers none: those that are idle have none. Other
        // tests of this process need some too.
        let sockets = usize::try_from(limit.saturating_sub(2_000) / 2).unwrap().min(5_000);
        assert!(sockets > 500, "the system allows only {limit} descriptors");
        let ctx = ZContext::builder().max_sockets(11_000).signals(false).build().unwrap();
        let pulls: Vec<ZSock> =
            (0..sockets).map(|i| ctx.pull(&format!("@inproc://{i}")).unwrap()).collect();
        let mut zloop = Loop::new().unwrap();
        for pull in &pulls {
            zloop.reader(pull, note).unwrap();
        }
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        let busy = ctx.push(&format!(">inproc://{}", sockets - 1)).unwrap();
        let first = ctx.push(">inproc://0").unwrap();
        for i in 0..10_000 {
            busy.send("x").unwrap();
            if i % 1_000 == 0 {
                first.send("first").unwrap();
            }
            while world.log.len() < i + i / 1_000 + 2 {
                assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
            }
        }
        assert_eq!(world.log.iter().filter(|msg| *msg == "first").count(), 10);
        // Those that are idle cost nothing: 10,000 looks at each would take minutes.
        println!("{sockets} sockets");
    });
}

// Timers.

#[test]
fn timers_fire_in_order_and_not_early() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let start = Instant::now();
        for delay in [30, 5, 20, 0, 10] {
            zloop
                .timer(ms(delay), Repeat::ONCE, move |world, zloop| {
                    assert!(start.elapsed() >= ms(delay));
                    world.log.push(delay.to_string());
                    if delay == 30 {
                        zloop.stop();
                    }
                    Ok(())
                })
                .unwrap();
        }
        let mut world = World::default();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.log, ["0", "5", "10", "20", "30"]);
    });
}

#[test]
fn a_timer_cancelled_before_the_loop_starts_does_not_fire() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let id = zloop.timer(Duration::ZERO, Repeat::ONCE, count).unwrap();
        assert!(zloop.cancel(id));
        assert!(!zloop.cancel(id));
        stop_after(&mut zloop, ms(5));
        let mut world = World::default();
        zloop.run(&mut world).unwrap();
        assert_eq!(world.count, 0);
    });
}

#[test]
fn a_timer_that_another_cancels_pauses_or_resets_does_not_fire_though_both_are_due() {
    for how in ["cancel", "pause", "reset"] {
        bounded(move || {
            let mut zloop = Loop::new().unwrap();
            zloop
                .timer(ms(2), Repeat::ONCE, move |world: &mut World, zloop| {
                    let other = world.ids[0];
                    assert!(match how {
                        "cancel" => zloop.cancel(other),
                        "pause" => zloop.pause(other),
                        _ => zloop.reset(other),
                    });
                    world.log.push(how.to_owned());
                    Ok(())
                })
                .unwrap();
            let other = zloop.timer(ms(4), Repeat::Forever, count).unwrap();
            let mut world = World { ids: vec![other], ..World::default() };
            let start = Instant::now();
            while start.elapsed() < ms(5) {
                thread::sleep(ms(1));
            }
            // One turn: both are due in it.
            assert_eq!(zloop.turn(&mut world, NOW).unwrap(), None);
            assert_eq!((world.log.len(), world.count), (1, 0), "{how}");
        });
    }
}

#[test]
fn a_cancelled_timer_stays_so_after_a_change_of_registrations() {
    bounded(|| {
        let ctx = context();
        let (_push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        let id = zloop.timer(ms(1), Repeat::Forever, count).unwrap();
        let mut world = World::default();
        while world.count == 0 {
            zloop.turn(&mut world, Some(LIMIT)).unwrap();
        }
        assert!(zloop.cancel(id));
        world.count = 0;
        let reader = zloop.reader(&pull, note).unwrap();
        zloop.cancel(reader);
        zloop.reader(&pull, note).unwrap();
        stop_after(&mut zloop, ms(10));
        zloop.run(&mut world).unwrap();
        assert_eq!(world.count, 0);
    });
}

#[test]
fn a_stalled_timer_fires_once_for_what_it_missed_and_keeps_its_beat() {
    bounded(|| {
        let mut zloop = ZLoop::<Vec<Duration>>::new().unwrap();
        let start = Instant::now();
        zloop
            .timer(ms(20), Repeat::Forever, move |fired: &mut Vec<Duration>, zloop| {
                fired.push(start.elapsed());
                if fired.len() == 2 {
                    thread::sleep(ms(200));
                }
                if fired.len() == 6 {
                    zloop.stop();
                }
                Ok(())
            })
            .unwrap();
        let mut fired = Vec::new();
        zloop.run(&mut fired).unwrap();
        let stalled = fired[1] + ms(200);
        // One for the missed beats at once, the next on the beat and no earlier than it.
        assert!(fired[2] >= stalled);
        let beats: Vec<u128> = fired.iter().map(|at| at.as_millis() / 20).collect();
        assert!(beats.windows(2).all(|two| two[0] < two[1]), "a burst: {fired:?}");
        // Without drift each is behind a beat of the beginning by less than a machine is late.
        let late = fired.iter().map(|at| at.as_micros() % 20_000).min().unwrap();
        assert!(late < 15_000, "{fired:?}");
    });
}

#[test]
fn timers_without_a_delay_that_add_timers_do_not_starve_readers() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        fn more(world: &mut World, zloop: &mut Loop<'_>) -> Result<()> {
            world.count += 1;
            zloop.timer(Duration::ZERO, Repeat::ONCE, more)?;
            Ok(())
        }
        let mut zloop = Loop::new().unwrap();
        zloop.timer(Duration::ZERO, Repeat::ONCE, more).unwrap();
        zloop
            .reader(&pull, |world: &mut World, zloop, msg| {
                world.log.push(text(&msg));
                if world.log.len() == 10 {
                    zloop.stop();
                }
                Ok(())
            })
            .unwrap();
        for _ in 0..10 {
            push.send("x").unwrap();
        }
        let mut world = World::default();
        zloop.run(&mut world).unwrap();
        assert_eq!(world.log.len(), 10);
        assert!(world.count < 100, "{} timers before the messages", world.count);
        // Nor do the messages starve the timers.
        for _ in 0..10 {
            push.send("x").unwrap();
            zloop.turn(&mut world, NOW).unwrap();
        }
        assert!(world.count >= 10);
    });
}

#[test]
fn a_second_run_goes_on_where_the_first_stopped() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        zloop
            .reader(&pull, |world: &mut World, zloop, msg| {
                note(world, zloop, msg)?;
                zloop.stop();
                Ok(())
            })
            .unwrap();
        let tick = zloop.timer(ms(1), Repeat::Forever, count).unwrap();
        let mut world = World::default();
        push.send("1").unwrap();
        push.send("2").unwrap();
        for expected in 1..=2 {
            assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
            assert_eq!(world.log.len(), expected);
        }
        stop_after(&mut zloop, ms(20));
        zloop.run(&mut world).unwrap();
        assert!(world.count > 0);
        assert!(zloop.cancel(tick));
        // Stopping beforehand holds for one run.
        zloop.stop();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        push.send("3").unwrap();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.log, ["1", "2", "3"]);
    });
}

#[test]
fn handlers_add_themselves_again_and_reset_themselves() {
    bounded(|| {
        fn again(world: &mut World, zloop: &mut Loop<'_>) -> Result<()> {
            world.count += 1;
            match world.count {
                3 => zloop.stop(),
                _ => drop(zloop.timer(ms(1), Repeat::ONCE, again)?),
            }
            Ok(())
        }
        let mut zloop = Loop::new().unwrap();
        zloop.timer(ms(1), Repeat::ONCE, again).unwrap();
        let mut world = World::default();
        zloop.run(&mut world).unwrap();
        assert_eq!(world.count, 3);

        // A reset in its own handler: its last firing was not its last.
        let id = zloop
            .timer(ms(5), Repeat::ONCE, |world: &mut World, zloop| {
                world.count += 1;
                if world.count < 5 {
                    assert!(zloop.reset(world.ids[0]));
                } else {
                    zloop.stop();
                }
                Ok(())
            })
            .unwrap();
        world.ids = vec![id];
        world.count = 0;
        let start = Instant::now();
        zloop.run(&mut world).unwrap();
        assert_eq!(world.count, 5);
        assert!(start.elapsed() >= ms(25), "{:?}", start.elapsed());
        assert!(!zloop.reset(id) && !zloop.cancel(id), "it is over");
    });
}

#[test]
fn a_paused_timer_keeps_what_it_had_left() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let id = zloop.timer(ms(60), Repeat::ONCE, stop).unwrap();
        let start = Instant::now();
        let mut world = World::default();
        assert!(zloop.pause(id) && zloop.pause(id));
        thread::sleep(ms(80));
        turns(&mut zloop, &mut world);
        assert!(zloop.resume(id) && zloop.resume(id));
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert!(start.elapsed() >= ms(130), "{:?}", start.elapsed());
        assert!(!zloop.pause(id) && !zloop.resume(id));
    });
}

#[test]
fn a_timer_that_pauses_itself_at_its_last_firing_is_over() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let id = zloop
            .timer(ms(1), Repeat::ONCE, |world: &mut World, zloop| {
                world.count += 1;
                zloop.pause(world.ids[0]);
                Ok(())
            })
            .unwrap();
        let mut world = World { ids: vec![id], ..World::default() };
        while world.count == 0 {
            zloop.turn(&mut world, Some(LIMIT)).unwrap();
        }
        zloop.resume(id);
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 1);
        assert!(!zloop.cancel(id), "it stays registered for ever");
    });
}

#[test]
fn a_repeating_timer_needs_a_delay() {
    let mut zloop = Loop::new().unwrap();
    for repeat in [Repeat::Forever, Repeat::Times(2)] {
        assert!(is_wait(&zloop.timer(Duration::ZERO, repeat, count).unwrap_err()));
    }
    // Zero times is once.
    zloop.timer(Duration::ZERO, Repeat::Times(0), count).unwrap();
    zloop.timer(Duration::MAX, Repeat::Forever, count).unwrap();
    let mut world = World::default();
    turns(&mut zloop, &mut world);
    assert_eq!(world.count, 1);
}

// Output, sources, descriptors.

#[test]
fn writable_is_called_as_long_as_there_is_room() {
    bounded(|| {
        let ctx = context();
        let name = format!("inproc://{}", unique("full"));
        let pull = ctx.socket(SocketType::Pull).unwrap();
        pull.set_rcvhwm(Some(5)).unwrap();
        pull.bind(&name).unwrap();
        let push = ctx.socket(SocketType::Push).unwrap();
        push.set_sndhwm(Some(5)).unwrap();
        push.connect(&name).unwrap();
        let mut zloop = Loop::new().unwrap();
        let id = zloop
            .writable(&push, |world: &mut World, _, push| {
                world.count += 1;
                Ok(push.try_send("x")?)
            })
            .unwrap();
        let mut world = World::default();
        for _ in 0..30 {
            zloop.turn(&mut world, NOW).unwrap();
        }
        let room = world.count;
        assert!((5..=10).contains(&room), "{room} sent");
        // Each that is taken makes room sooner or later.
        for _ in 0..room {
            pull.try_recv().unwrap();
        }
        while world.count < room + 3 {
            zloop.turn(&mut world, Some(LIMIT)).unwrap();
        }
        assert!(zloop.pause(id));
        let sent = world.count;
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, sent);
    });
}

#[test]
fn a_socket_may_have_a_handler_of_each_kind() {
    bounded(|| {
        let ctx = context();
        let (a, b) = pairs(&ctx);
        let mut zloop = Loop::new().unwrap();
        zloop.reader(&a, note).unwrap();
        let output = zloop
            .writable(&a, |world: &mut World, zloop, a| {
                a.try_send("from a")?;
                assert!(zloop.cancel(world.ids[0]));
                Ok(())
            })
            .unwrap();
        b.send("from b").unwrap();
        let mut world = World { ids: vec![output], ..World::default() };
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, ["from b"]);
        assert_eq!(b.try_recv_str().unwrap(), "from a");
        b.send("more").unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, ["from b", "more"]);
    });
}

#[test]
fn tcp_sources_echo() {
    bounded(|| {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let client = thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            for size in [1, 1_000, 300_000] {
                let mut writer = stream.try_clone().unwrap();
                let sender = thread::spawn(move || writer.write_all(&vec![7; size]).unwrap());
                let mut back = vec![0; size];
                stream.read_exact(&mut back).unwrap();
                assert!(back.iter().all(|byte| *byte == 7));
                sender.join().unwrap();
            }
        });
        fn serve(
            pending: &mut Vec<u8>,
            zloop: &mut Loop<'_>,
            stream: &mut TcpStream,
        ) -> Result<()> {
            let mut buffer = [0; 4096];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => {
                        zloop.stop();
                        return Ok(());
                    }
                    Ok(read) => pending.extend_from_slice(&buffer[..read]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            while !pending.is_empty() {
                match stream.write(pending) {
                    Ok(written) => drop(pending.drain(..written)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }
        let mut zloop = Loop::new().unwrap();
        zloop
            .source(listener, Interest::READABLE, |world: &mut World, zloop, listener, _| {
                while let Ok((stream, _)) = listener.accept() {
                    world.count += 1;
                    let mut pending = Vec::new();
                    let both = Interest::READABLE | Interest::WRITABLE;
                    zloop.source(stream, both, move |_, zloop, stream, _| {
                        serve(&mut pending, zloop, stream)
                    })?;
                }
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.count, 1);
        client.join().unwrap();
    });
}

#[test]
fn a_source_keeps_its_event_while_it_is_paused_and_is_closed_when_it_is_cancelled() {
    bounded(|| {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut zloop = Loop::new().unwrap();
        let id = zloop
            .source(listener, Interest::READABLE, |world: &mut World, zloop, from, _| {
                from.accept()?;
                world.count += 1;
                assert!(zloop.cancel(world.ids[0]));
                Ok(())
            })
            .unwrap();
        let mut world = World { ids: vec![id], ..World::default() };
        zloop.pause(id);
        let _client = std::net::TcpStream::connect(address).unwrap();
        for _ in 0..3 {
            zloop.turn(&mut world, Some(ms(5))).unwrap();
        }
        assert_eq!(world.count, 0);
        zloop.resume(id);
        while world.count == 0 {
            zloop.turn(&mut world, Some(LIMIT)).unwrap();
        }
        // Another test's child process may hold a copy of it until it runs its own program.
        while std::net::TcpStream::connect(address).is_ok() {
            thread::yield_now();
        }
    });
}

#[test]
fn a_descriptor_is_level_triggered() {
    bounded(|| {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut zloop = Loop::new().unwrap();
        let id = zloop
            .fd(&far, Events::READABLE, |world: &mut World, _, events| {
                let mut byte = [0];
                if (&far).read(&mut byte)? == 0 {
                    assert!(events.is_error(), "{events:?}");
                    world.log.push("end".into());
                } else {
                    world.log.push((byte[0] as char).into());
                }
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        assert!(world.log.is_empty());
        // One byte is read at each call, and no new event comes for the others.
        near.write_all(b"abc").unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, ["a", "b", "c"]);
        zloop.pause(id);
        near.write_all(b"d").unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(world.log.len(), 3);
        zloop.resume(id);
        turns(&mut zloop, &mut world);
        assert_eq!(world.log.len(), 4);
        drop(near);
        // Another test's child process may hold a copy of it until it runs its own program.
        while world.log.last().unwrap() != "end" {
            zloop.turn(&mut world, Some(LIMIT)).unwrap();
        }
        assert!(zloop.cancel(id));
        // It may be registered again, but not twice.
        zloop.fd(&far, Events::READABLE, |_, _, _| Ok(())).unwrap();
        zloop.fd(&far, Events::READABLE, |_, _, _| Ok(())).unwrap_err();
    });
}

#[test]
fn without_descriptors_a_loop_says_what_to_do() {
    alone(|| {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 100, hard).unwrap();
        let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        // One short of each number that it needs.
        let mut failures = 0;
        let zloop = loop {
            match Loop::new() {
                Ok(zloop) => break zloop,
                Err(error) => {
                    assert!(matches!(error, Error::Io { .. }), "{error}");
                    assert!(error.to_string().contains("raise its limit (ulimit -n)"), "{error}");
                    failures += 1;
                    taken.pop().unwrap();
                }
            }
        };
        assert!(failures > 0);
        drop(zloop);
    });
}

#[test]
fn a_regular_file_is_no_descriptor_to_wait_for() {
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    let mut zloop = Loop::new().unwrap();
    let error = zloop.fd(file, Events::READABLE, |_, _, _| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
}

// Pausing, cancelling, ids.

#[test]
fn what_is_paused_keeps_its_messages_and_costs_nothing() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let (readable_push, readable) = pipeline(&ctx);
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut zloop = Loop::new().unwrap();
        let ids = [
            zloop.reader(&pull, note).unwrap(),
            zloop
                .readable(&readable, |world, _, socket| {
                    world.log.push(socket.try_recv_str()?);
                    Ok(())
                })
                .unwrap(),
            zloop
                .fd(&far, Events::READABLE, |world, _, _| {
                    (&far).read_exact(&mut [0])?;
                    world.log.push("byte".into());
                    Ok(())
                })
                .unwrap(),
            zloop
                .writable(&push, |world: &mut World, _, _| {
                    world.count += 1;
                    Ok(())
                })
                .unwrap(),
        ];
        for id in ids {
            assert!(zloop.pause(id));
        }
        for _ in 0..100 {
            push.send("kept").unwrap();
            readable_push.send("kept").unwrap();
        }
        near.write_all(b"x").unwrap();
        stop_after(&mut zloop, ms(300));
        let mut world = World::default();
        let before = cpu();
        zloop.run(&mut world).unwrap();
        let used = cpu() - before;
        assert!(used < ms(20), "{used:?} of 300 ms");
        assert_eq!((world.log.len(), world.count), (0, 0));
        for id in &ids[..3] {
            assert!(zloop.resume(*id));
        }
        for _ in 0..200 {
            zloop.turn(&mut world, NOW).unwrap();
        }
        assert_eq!(world.log.len(), 201);
    });
}

#[test]
fn a_reader_that_pauses_itself_leaves_the_rest() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        let id = zloop
            .reader(&pull, |world: &mut World, zloop, msg| {
                note(world, zloop, msg)?;
                assert!(zloop.pause(world.ids[0]));
                Ok(())
            })
            .unwrap();
        let mut world = World { ids: vec![id], ..World::default() };
        for number in ["1", "2", "3"] {
            push.send(number).unwrap();
        }
        for expected in 1..=3 {
            turns(&mut zloop, &mut world);
            assert_eq!(world.log.len(), expected);
            zloop.resume(id);
        }
        assert_eq!(world.log, ["1", "2", "3"]);
    });
}

/// Every kind of handler does everything to itself and to one of each kind.
#[test]
fn every_kind_of_handler_may_do_everything_to_every_kind() {
    const KINDS: usize = 6;
    type Who = (usize, usize);
    fn act(who: Who, what: usize, world: &mut World, zloop: &mut Loop<'_>) -> Result<()> {
        // Only the one kind acts; the others may be called after it.
        if who.0 != who.1 {
            return Ok(());
        }
        world.log.push(who.0.to_string());
        for id in world.ids.clone() {
            match what {
                0 => assert!(zloop.cancel(id)),
                1 => assert!(zloop.pause(id)),
                2 => assert!(zloop.pause(id) && zloop.resume(id)),
                _ => drop(zloop.reset(id)),
            }
        }
        Ok(())
    }
    for (kind, what) in (0..KINDS).flat_map(|kind| (0..4).map(move |what| (kind, what))) {
        bounded(move || {
            let ctx = context();
            let (push, pull) = pipeline(&ctx);
            let (readable_push, readable) = pipeline(&ctx);
            push.send("x").unwrap();
            readable_push.send("x").unwrap();
            let (mut near, far) = UnixStream::pair().unwrap();
            let far = &far;
            let (mut near_source, far_source) = UnixStream::pair().unwrap();
            far_source.set_nonblocking(true).unwrap();
            let mut source = mio::net::UnixStream::from_std(far_source);
            near.write_all(b"x").unwrap();
            near_source.write_all(b"x").unwrap();
            let mut zloop = Loop::new().unwrap();
            let ids = vec![
                zloop.timer(Duration::ZERO, Repeat::ONCE, move |world: &mut World, zloop| {
                    act((0, kind), what, world, zloop)
                }),
                zloop.reader(&pull, move |world: &mut World, zloop, _| {
                    act((1, kind), what, world, zloop)
                }),
                zloop.readable(&readable, move |world: &mut World, zloop, socket| {
                    let _ = socket.try_recv();
                    act((2, kind), what, world, zloop)
                }),
                zloop.writable(&push, move |world: &mut World, zloop, _| {
                    act((3, kind), what, world, zloop)
                }),
                zloop.fd(far, Events::READABLE, move |world: &mut World, zloop, _| {
                    let mut far = far;
                    let _ = far.read(&mut [0]);
                    act((4, kind), what, world, zloop)
                }),
                {
                    let _ = source.read(&mut []);
                    zloop.source(
                        source,
                        Interest::READABLE,
                        move |world: &mut World, zloop, source, _| {
                            let _ = source.read(&mut [0]);
                            act((5, kind), what, world, zloop)
                        },
                    )
                },
            ];
            let ids: Vec<HandlerId> = ids.into_iter().map(|id| id.unwrap()).collect();
            // The one that acts is the only one that may be called before the others.
            for (index, id) in ids.iter().enumerate() {
                if index != kind && index > 0 {
                    zloop.pause(*id);
                }
            }
            if kind > 0 {
                assert!(zloop.cancel(ids[0]));
            }
            let used = if kind == 0 { ids.clone() } else { ids[1..].to_vec() };
            let mut world = World { ids: used, ..World::default() };
            let start = Instant::now();
            while world.log.is_empty() {
                assert_eq!(zloop.turn(&mut world, Some(ms(100))).unwrap(), None);
                assert!(start.elapsed() < LIMIT / 2, "{kind} is never called");
            }
            assert_eq!(world.log[0], kind.to_string());
            if kind == 0 {
                // A timer that has fired its last is gone.
                world.ids.remove(0);
            }
            for _ in 0..3 {
                zloop.turn(&mut world, NOW).unwrap();
                if what == 0 {
                    world.ids.clear();
                }
            }
            match what {
                0 => assert_eq!(format!("{zloop:?}").matches("handlers: 0").count(), 1),
                1 => assert_eq!(world.log.len(), 1, "paused, and called: {:?}", world.log),
                _ => {}
            }
        });
    }
}

#[test]
fn an_old_id_never_touches_a_new_handler() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let old = zloop.timer(ms(1), Repeat::Forever, count).unwrap();
        assert!(zloop.cancel(old));
        let new = zloop.timer(ms(1), Repeat::ONCE, stop).unwrap();
        assert_ne!(old, new);
        assert!(!zloop.cancel(old) && !zloop.pause(old) && !zloop.resume(old) && !zloop.reset(old));
        assert!(zloop.socket(old).is_none());
        let mut world = World::default();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert!(!zloop.cancel(new), "it has fired");
        assert_eq!(world.count, 0);
    });
}

/// The reader ends both handlers of its socket, and gives their places to another socket's.
#[test]
fn a_new_handler_is_not_called_for_a_socket_that_was_there_before() {
    bounded(|| {
        let ctx = context();
        let (old, peer) = pairs(&ctx);
        let (_push, new) = pipeline(&ctx);
        let new = Rc::new(new);
        peer.send("x").unwrap();
        let mut zloop = Loop::new().unwrap();
        let given = Rc::clone(&new);
        let reader = zloop
            .reader(&old, move |world: &mut World, zloop, _| {
                assert!(zloop.cancel(world.ids[0]) && zloop.cancel(world.ids[1]));
                let given = Rc::clone(&given);
                zloop.readable(given, |world: &mut World, _, socket| {
                    world.log.push(socket.socket_type().to_string());
                    Ok(())
                })?;
                Ok(())
            })
            .unwrap();
        let writer = zloop.writable(&old, |_, _, _| Ok(())).unwrap();
        let mut world = World { ids: vec![reader, writer], ..World::default() };
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, [] as [&str; 0], "it has no message");
    });
}

#[test]
fn wrong_registrations_are_errors() {
    let ctx = context();
    let (push, pull) = pipeline(&ctx);
    let pub_ = ctx.pub_("").unwrap();
    let sub = ctx.sub("", "").unwrap();
    let mut zloop = Loop::new().unwrap();
    for result in [
        zloop.reader(&push, note),
        zloop.readable(&pub_, |_, _, _| Ok(())),
        zloop.writable(&pull, |_, _, _| Ok(())),
        zloop.writable(&sub, |_, _, _| Ok(())),
    ] {
        let error = result.unwrap_err();
        assert!(is_wait(&error), "{error:?}");
    }
    let id = zloop.reader(&pull, note).unwrap();
    assert!(is_wait(&zloop.reader(&pull, note).unwrap_err()));
    assert!(is_wait(&zloop.readable(&pull, |_, _, _| Ok(())).unwrap_err()));
    let mut other = Loop::new().unwrap();
    assert!(is_wait(&other.reader(&pull, note).unwrap_err()));
    // Free again when its handler is cancelled, and when its loop is dropped.
    assert!(zloop.cancel(id));
    other.reader(&pull, note).unwrap();
    assert!(is_wait(&zloop.reader(&pull, note).unwrap_err()));
    drop(other);
    zloop.reader(&pull, note).unwrap();
    push.send("x").unwrap();
    let mut world = World::default();
    turns(&mut zloop, &mut world);
    assert_eq!(world.log, ["x"]);
}

#[test]
fn a_handler_cannot_run_its_loop() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        zloop
            .timer(Duration::ZERO, Repeat::ONCE, |world: &mut World, zloop| {
                assert!(is_wait(&zloop.run(world).unwrap_err()));
                assert!(is_wait(&zloop.turn(world, NOW).unwrap_err()));
                zloop.stop();
                Ok(())
            })
            .unwrap();
        assert_eq!(zloop.run(&mut World::default()).unwrap(), Exit::Stopped);
    });
}

// Errors and panics.

#[test]
fn an_error_of_a_handler_comes_out_and_nothing_is_lost() {
    bounded(|| {
        let ctx = context();
        let sockets: Vec<_> = (0..3).map(|_| pipeline(&ctx)).collect();
        let mut zloop = Loop::new().unwrap();
        for (_, pull) in &sockets {
            zloop
                .reader(pull, |world, zloop, msg| {
                    note(world, zloop, msg)?;
                    if world.log.len() == 1 {
                        return Err(Error::other("the first"));
                    }
                    Ok(())
                })
                .unwrap();
        }
        for (push, _) in &sockets {
            push.send("1").unwrap();
            push.send("2").unwrap();
        }
        let mut world = World::default();
        let error = zloop.run(&mut world).unwrap_err();
        assert!(error.to_string().contains("the first"), "{error}");
        assert_eq!(world.log.len(), 1);
        stop_after(&mut zloop, ms(20));
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.log.len(), 6);
    });
}

/// As after an error, also when nothing else wakes the loop.
#[test]
fn a_panic_of_a_handler_leaves_the_loop_usable_and_loses_nothing() {
    fn panics(zloop: &mut Loop<'_>, world: &mut World) {
        catch_unwind(AssertUnwindSafe(|| zloop.run(world))).unwrap_err();
    }
    fn first(world: &mut World) {
        world.count += 1;
        assert!(world.count > 1, "meant to panic");
    }
    bounded(|| {
        let ctx = context();
        for how in ["reader", "readable", "fd", "timer", "post"] {
            let (push, pull) = pipeline(&ctx);
            let (mut near, far) = UnixStream::pair().unwrap();
            let far = &far;
            let mut zloop = Loop::new().unwrap();
            match how {
                "reader" => drop(zloop.reader(&pull, |world, _, _| {
                    first(world);
                    Ok(())
                })),
                "readable" => drop(zloop.readable(&pull, |world, _, socket| {
                    socket.try_recv()?;
                    first(world);
                    Ok(())
                })),
                "fd" => drop(zloop.fd(far, Events::READABLE, move |world, _, _| {
                    let mut far = far;
                    far.read_exact(&mut [0])?;
                    first(world);
                    Ok(())
                })),
                "timer" => drop(zloop.timer(ms(1), Repeat::Forever, |world, _| {
                    first(world);
                    Ok(())
                })),
                _ => {
                    for _ in 0..3 {
                        zloop
                            .waker()
                            .post(|world, _| {
                                first(world);
                                Ok(())
                            })
                            .unwrap();
                    }
                }
            }
            for _ in 0..3 {
                push.send("x").unwrap();
            }
            near.write_all(b"xyz").unwrap();
            let mut world = World::default();
            panics(&mut zloop, &mut world);
            assert_eq!(world.count, 1, "{how}");
            let start = Instant::now();
            while world.count < 3 && start.elapsed() < ms(1_000) {
                zloop.turn(&mut world, Some(ms(50))).unwrap();
            }
            assert!(world.count >= 3, "{how}: {} of 3", world.count);
        }
    });
}

#[test]
fn a_timer_that_panics_at_its_last_firing_is_over() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let id = zloop.timer(ms(1), Repeat::ONCE, |_, _| panic!("meant")).unwrap();
        let mut world = World::default();
        catch_unwind(AssertUnwindSafe(|| zloop.run(&mut world))).unwrap_err();
        assert!(!zloop.cancel(id), "it stays registered for ever");
    });
}

/// By an error or a panic the loop has come back: the stop that was asked for before is over.
#[test]
fn a_handler_that_stops_the_loop_and_then_fails_does_not_stop_the_next_run() {
    fn fail(world: &mut World, zloop: &mut Loop<'_>, panics: bool) -> Result<()> {
        world.count += 1;
        match world.count {
            1 => zloop.stop(),
            3 => return stop(world, zloop),
            _ => return Ok(()),
        }
        assert!(!panics, "meant to panic");
        Err(Error::other("meant to fail"))
    }
    for panics in [false, true] {
        for how in ["reader", "readable", "fd", "timer", "post"] {
            bounded(move || {
                let ctx = context();
                let (push, pull) = pipeline(&ctx);
                let (mut near, far) = UnixStream::pair().unwrap();
                let far = &far;
                let mut zloop = Loop::new().unwrap();
                match how {
                    "reader" => drop(zloop.reader(&pull, move |world: &mut World, zloop, _| {
                        fail(world, zloop, panics)
                    })),
                    "readable" => {
                        drop(zloop.readable(&pull, move |world: &mut World, zloop, socket| {
                            socket.try_recv()?;
                            fail(world, zloop, panics)
                        }));
                    }
                    "fd" => {
                        let handler = move |world: &mut World, zloop: &mut Loop<'_>, _| {
                            let mut far = far;
                            far.read_exact(&mut [0])?;
                            fail(world, zloop, panics)
                        };
                        drop(zloop.fd(far, Events::READABLE, handler));
                    }
                    "timer" => {
                        let handler = move |world: &mut World, zloop: &mut Loop<'_>| {
                            fail(world, zloop, panics)
                        };
                        drop(zloop.timer(ms(1), Repeat::Forever, handler));
                    }
                    _ => {
                        for _ in 0..3 {
                            zloop
                                .waker()
                                .post(move |world, zloop| fail(world, zloop, panics))
                                .unwrap();
                        }
                    }
                }
                for _ in 0..3 {
                    push.send("x").unwrap();
                }
                near.write_all(b"xyz").unwrap();
                let mut world = World::default();
                let run = catch_unwind(AssertUnwindSafe(|| zloop.run(&mut world)));
                assert_eq!(run.is_err(), panics, "{how}");
                assert!(run.is_err() || run.is_ok_and(|result| result.is_err()), "{how}");
                assert_eq!(world.count, 1, "{how}");
                assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
                assert_eq!(world.count, 3, "{how}: the first stop held for this run too");
            });
        }
    }
}

// Other threads.

#[test]
fn a_waker_wakes_posts_in_order_and_stops() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let waker: Waker<World> = zloop.waker();
        let (go, gone) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            gone.recv_timeout(LIMIT).unwrap();
            waker.wake().unwrap();
            gone.recv_timeout(LIMIT).unwrap();
            for number in 0..100 {
                waker
                    .post(move |world, _| {
                        world.log.push(number.to_string());
                        Ok(())
                    })
                    .unwrap();
            }
            waker.clone().stop().unwrap();
        });
        let mut world = World::default();
        go.send(()).unwrap();
        let start = Instant::now();
        assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
        assert!(start.elapsed() < LIMIT / 2);
        go.send(()).unwrap();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.log, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
        thread.join().unwrap();
    });
}

#[test]
fn wakes_until_the_loop_looks_are_one_and_none_is_lost() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let id = zloop.on_wake(count);
        let waker = zloop.waker();
        (0..100).for_each(|_| waker.wake().unwrap());
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 1);

        zloop.pause(id);
        waker.wake().unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 1, "paused");
        zloop.resume(id);
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 2, "told while it was paused");
        zloop.pause(id);
        zloop.resume(id);
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 2, "nobody has woken it");

        assert!(zloop.cancel(id));
        waker.wake().unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(world.count, 2, "cancelled");
    });
}

#[test]
fn what_threads_put_into_a_queue_before_they_wake_is_always_found() {
    const THREADS: u32 = 3;
    const EACH: u32 = 20_000;
    bounded(|| {
        let (sender, queue) = mpsc::channel();
        let mut zloop = Loop::new().unwrap();
        zloop.on_wake(move |world: &mut World, zloop| {
            world.count += queue.try_iter().count();
            if world.count as u32 == THREADS * EACH {
                zloop.stop();
            }
            Ok(())
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (sender, waker) = (sender.clone(), zloop.waker());
                thread::spawn(move || {
                    for number in 0..EACH {
                        sender.send(number).unwrap();
                        waker.wake().unwrap();
                    }
                })
            })
            .collect();
        assert_eq!(zloop.run(&mut World::default()).unwrap(), Exit::Stopped);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_wake_is_not_lost_by_a_panic_of_a_task_or_of_its_handler() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let waker = zloop.waker();
        zloop.on_wake(|world: &mut World, _| {
            world.count += 1;
            assert!(world.count > 1, "meant to fail");
            Ok(())
        });
        waker.post(|_, _| panic!("meant to fail")).unwrap();
        waker
            .post(|world, _| {
                world.log.push("later".into());
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        for _ in 0..2 {
            let panics = catch_unwind(AssertUnwindSafe(|| turns(&mut zloop, &mut world)));
            assert!(panics.is_err());
        }
        turns(&mut zloop, &mut world);
        assert_eq!((world.count, world.log), (2, vec!["later".into()]));
    });
}

#[test]
fn a_source_is_told_what_nobody_else_would_tell() {
    bounded(|| {
        let (mut far, near) = mio::unix::pipe::new().unwrap();
        far.write_all(b"abc").unwrap();
        let mut zloop = Loop::new().unwrap();
        // A byte a turn, though the event comes once.
        let id = zloop
            .source(near, Interest::READABLE, |world: &mut World, zloop, near, events| {
                assert!(events.is_readable());
                let mut byte = [0];
                if near.read(&mut byte).is_ok_and(|read| read > 0) {
                    world.log.push(char::from(byte[0]).into());
                    assert!(zloop.tell(world.ids[0], Events::READABLE));
                }
                Ok(())
            })
            .unwrap();
        let timer = zloop.timer(LIMIT, Repeat::ONCE, count).unwrap();
        let mut world = World { ids: vec![id], ..World::default() };
        turns(&mut zloop, &mut world);
        assert_eq!(world.log, ["a", "b", "c"]);

        assert!(!zloop.tell(timer, Events::READABLE), "it is no source");
        zloop.cancel(id);
        assert!(!zloop.tell(id, Events::READABLE), "it is gone");
    });
}

#[test]
fn the_end_of_a_turn_comes_once_for_all_that_was_ready() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        zloop.reader(&pull, note).unwrap();
        let end = zloop.on_turn_end(|world: &mut World, _| {
            world.log.push("end".into());
            Ok(())
        });
        (0..3).for_each(|_| push.send("message").unwrap());
        let mut world = World::default();
        zloop.turn(&mut world, NOW).unwrap();
        assert_eq!(world.log, ["message", "message", "message", "end"]);

        zloop.pause(end);
        zloop.turn(&mut world, NOW).unwrap();
        assert_eq!(world.log.len(), 4, "paused");
        zloop.resume(end);
        zloop.turn(&mut world, NOW).unwrap();
        assert_eq!(world.log.len(), 5);
        assert!(zloop.cancel(end));
        zloop.turn(&mut world, NOW).unwrap();
        assert_eq!(world.log.len(), 5, "cancelled");
    });
}

#[test]
fn ends_of_a_turn_may_cancel_each_other_and_fail() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let first = zloop.on_turn_end(|world: &mut World, zloop| {
            world.ids.drain(..).for_each(|id| assert!(zloop.cancel(id)));
            Err(Error::other("meant to fail"))
        });
        let second = zloop.on_turn_end(count);
        let mut world = World { ids: vec![first, second], ..World::default() };
        assert!(zloop.turn(&mut world, NOW).is_err());
        assert_eq!(zloop.turn(&mut world, NOW).unwrap(), None);
        assert_eq!(world.count, 0);
    });
}

#[test]
fn ends_of_a_turn_that_cancel_themselves_do_not_keep_others_from_their_call() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let mut ids = Vec::new();
        for name in ["stays", "cancels itself", "cancels both", "is last"] {
            let id = zloop.on_turn_end(move |world: &mut World, zloop| {
                world.log.push(name.into());
                match name {
                    "cancels itself" => assert!(zloop.cancel(world.ids[1])),
                    "cancels both" => {
                        assert!(zloop.cancel(world.ids[0]) && zloop.cancel(world.ids[2]));
                        // Called from the next turn on, or the turn might never end.
                        zloop.on_turn_end(count);
                    }
                    _ => {}
                }
                Ok(())
            });
            ids.push(id);
        }
        let mut world = World { ids, ..World::default() };
        zloop.turn(&mut world, NOW).unwrap();
        assert_eq!(world.log, ["stays", "cancels itself", "cancels both", "is last"]);
        zloop.turn(&mut world, NOW).unwrap();
        assert_eq!(world.log[4..], ["is last"]);
        assert!(world.count > 0);
    });
}

#[test]
fn a_task_that_fails_does_not_lose_the_later_ones() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let waker = zloop.waker();
        waker.post(|_, _| Err(Error::other("fails"))).unwrap();
        waker
            .post(|world, zloop| {
                world.log.push("later".into());
                zloop.stop();
                Ok(())
            })
            .unwrap();
        // Only a loop that runs for ever.
        let guard = waker.clone();
        let (done, ended) = mpsc::channel::<()>();
        let rescue = thread::spawn(move || {
            let hangs = ended.recv_timeout(ms(2_000)).is_err();
            guard.stop().unwrap();
            hangs
        });
        let mut world = World::default();
        zloop.run(&mut world).unwrap_err();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        let _ = done.send(());
        assert!(!rescue.join().unwrap(), "the later task waits for another wake");
        assert_eq!(world.log, ["later"]);
    });
}

#[test]
fn a_stop_holds_before_anything_else_is_done() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let waker = zloop.waker();
        zloop.timer(Duration::ZERO, Repeat::ONCE, count).unwrap();
        waker
            .post(|world, zloop| {
                count(world, zloop)?;
                zloop.stop();
                Ok(())
            })
            .unwrap();
        waker.post(count).unwrap();
        zloop.stop();
        let mut world = World::default();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.count, 0);
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.count, 1, "the first task stops the loop");
        stop_after(&mut zloop, ms(1));
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.count, 3);
    });
}

#[test]
fn a_turn_waits_no_longer_than_it_is_told() {
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let mut world = World::default();
        for millis in [0, 1, 20] {
            let start = Instant::now();
            assert_eq!(zloop.turn(&mut world, Some(ms(millis))).unwrap(), None);
            assert!(start.elapsed() >= ms(millis));
            assert!(start.elapsed() < ms(millis + 1_000));
        }
        zloop.timer(ms(10), Repeat::ONCE, count).unwrap();
        let start = Instant::now();
        while world.count == 0 {
            zloop.turn(&mut world, Some(LIMIT)).unwrap();
        }
        assert!(start.elapsed() >= ms(10) && start.elapsed() < ms(1_010));
    });
}

#[test]
fn a_loop_lives_inside_a_poller() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        zloop.reader(&pull, note).unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        for number in 1..=100 {
            push.send("x").unwrap();
            {
                let mut poller = ZPoller::new();
                poller.add_fd("loop", &zloop, Events::READABLE).unwrap();
                assert_eq!(poller.wait(Some(LIMIT)).unwrap(), Some("loop"));
            }
            turns(&mut zloop, &mut world);
            assert_eq!(world.log.len(), number);
        }
        let mut poller = ZPoller::new();
        poller.add_fd("loop", &zloop, Events::READABLE).unwrap();
        assert_eq!(poller.wait(NOW).unwrap(), None);
    });
}

/// How long a loop would sleep.
#[test]
fn timeout_is_none_without_timers_and_zero_when_there_is_something_to_do() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        let mut world = World::default();
        assert_eq!(zloop.timeout(), None, "a loop without handlers");
        let reader = zloop.reader(&pull, note).unwrap();
        assert_eq!(zloop.timeout(), NOW, "a new reader may have messages");
        turns(&mut zloop, &mut world);
        assert_eq!(zloop.timeout(), None, "nothing to do");

        // Any operation on the socket may have taken the news in.
        push.send("1").unwrap();
        assert!(pull.events().unwrap().is_readable());
        assert_eq!(zloop.timeout(), NOW, "touched");
        assert_eq!(zloop.timeout(), NOW, "still touched");
        turns(&mut zloop, &mut world);
        assert_eq!((zloop.timeout(), world.log.len()), (None, 1));

        zloop.waker().post(count).unwrap();
        assert_eq!(zloop.timeout(), NOW, "posted");
        turns(&mut zloop, &mut world);
        assert_eq!((zloop.timeout(), world.count), (None, 1));
        // Of two tasks the first fails: the other is still to be called.
        zloop.waker().post(|_, _| Err(Error::other("meant to fail"))).unwrap();
        zloop.waker().post(count).unwrap();
        zloop.turn(&mut world, NOW).unwrap_err();
        assert_eq!(zloop.timeout(), NOW, "posted and left");
        turns(&mut zloop, &mut world);
        assert_eq!((zloop.timeout(), world.count), (None, 2));

        for by_waker in [false, true] {
            if by_waker {
                zloop.waker().stop().unwrap();
            } else {
                zloop.stop();
            }
            assert_eq!(zloop.timeout(), NOW, "stopped");
            assert_eq!(zloop.turn(&mut world, NOW).unwrap(), Some(Exit::Stopped));
            assert_eq!(zloop.timeout(), None, "the stop has been told");
        }

        assert!(zloop.pause(reader));
        push.send("2").unwrap();
        turns(&mut zloop, &mut world);
        assert_eq!(zloop.timeout(), None, "what is paused has nothing to do");
        assert!(zloop.resume(reader));
        assert_eq!(zloop.timeout(), NOW, "resumed");
        turns(&mut zloop, &mut world);
        assert_eq!((zloop.timeout(), world.log.len()), (None, 2));
    });
}

/// Some handlers have more to do after every turn, and say so.
#[test]
fn timeout_is_zero_between_the_rounds_of_a_busy_reader() {
    bounded(|| {
        let ctx = context();
        let (push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        zloop.reader(&pull, note).unwrap();
        for _ in 0..500 {
            push.send("x").unwrap();
        }
        let mut world = World::default();
        while zloop.timeout() == NOW {
            assert_eq!(zloop.turn(&mut world, NOW).unwrap(), None);
        }
        assert_eq!((world.log.len(), zloop.timeout()), (500, None));
    });
}

#[test]
fn timeout_is_bounded_by_the_next_timer_whatever_becomes_of_it() {
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);
    #[track_caller]
    fn is_about(zloop: &mut Loop<'_>, delay: Duration) {
        let timeout = zloop.timeout().expect("there are timers");
        assert!(timeout <= delay && timeout + LIMIT > delay, "{timeout:?}, not {delay:?}");
    }
    bounded(|| {
        let mut zloop = Loop::new().unwrap();
        let mut world = World::default();
        let hour = zloop.timer(HOUR, Repeat::ONCE, count).unwrap();
        is_about(&mut zloop, HOUR);
        let minute = zloop.timer(MINUTE, Repeat::Forever, count).unwrap();
        is_about(&mut zloop, MINUTE);
        assert!(zloop.pause(minute));
        is_about(&mut zloop, HOUR);
        assert!(zloop.resume(minute));
        is_about(&mut zloop, MINUTE);
        assert!(zloop.cancel(minute));
        is_about(&mut zloop, HOUR);
        // A reset gives a timer all its time again: time has passed meanwhile.
        let before = zloop.timeout().unwrap();
        assert!(zloop.reset(hour));
        assert!(zloop.timeout().unwrap() > before.saturating_sub(ms(1)));
        let zero = zloop.timer(Duration::ZERO, Repeat::ONCE, count).unwrap();
        assert_eq!(zloop.timeout(), NOW, "a timer is due");
        assert!(zloop.cancel(zero));
        is_about(&mut zloop, HOUR);
        assert!(zloop.cancel(hour));
        assert_eq!(zloop.timeout(), None);

        // A turn fires what is due when that time is over, and not before.
        zloop.timer(ms(20), Repeat::Times(2), count).unwrap();
        while let Some(timeout) = zloop.timeout() {
            let fired = world.count;
            assert!(timeout <= ms(20));
            let due = Instant::now() + timeout;
            while Instant::now() < due {
                thread::yield_now();
            }
            assert_eq!(zloop.turn(&mut world, NOW).unwrap(), None);
            assert_eq!(world.count, fired + 1);
        }
        assert_eq!(world.count, 2);
        zloop.timer(Duration::MAX, Repeat::ONCE, count).unwrap();
        assert!(zloop.timeout().unwrap() > HOUR);
    });
}

/// Another event loop: waits for the descriptor of this one so long.
type Outer = Box<dyn FnMut(&Loop<'_>, Option<Duration>)>;

/// Asks the system anew each time whether it is readable.
fn by_poll() -> Outer {
    Box::new(|zloop, timeout| {
        let mut poller = ZPoller::new();
        poller.add_fd("loop", zloop, Events::READABLE).unwrap();
        poller.wait(timeout).unwrap();
    })
}

/// Is told only when it becomes readable.
fn by_mio() -> Outer {
    let mut poll = mio::Poll::new().unwrap();
    let mut events = mio::Events::with_capacity(8);
    let mut registered = false;
    Box::new(move |zloop, timeout| {
        if !std::mem::replace(&mut registered, true) {
            let fd = zloop.as_fd().as_raw_fd();
            let mut source = mio::unix::SourceFd(&fd);
            poll.registry().register(&mut source, mio::Token(0), Interest::READABLE).unwrap();
        }
        poll.poll(&mut events, timeout).unwrap();
    })
}

/// What a loop is told to do when it lives in another.
fn live_until(
    zloop: &mut Loop<'_>,
    world: &mut World,
    outer: &mut Outer,
    done: impl Fn(&World) -> bool,
) {
    loop {
        loop {
            assert_eq!(zloop.turn(world, NOW).unwrap(), None);
            if zloop.timeout() != NOW {
                break;
            }
        }
        if done(world) {
            return;
        }
        let timeout = zloop.timeout();
        outer(zloop, timeout);
    }
}

/// Without timers nothing but what the senders do ends a sleep: whatever is overlooked makes it
/// last for ever.
fn lives_in_another(mut outer: Outer, timers: bool) {
    const MESSAGES: usize = 5_000;
    let ctx = context();
    let pull_tcp = ctx.socket(SocketType::Pull).unwrap();
    let endpoint = pull_tcp.bind("tcp://127.0.0.1:*").unwrap();
    let push_tcp = ctx.push(&endpoint).unwrap();
    let (push, pull) = pipeline(&ctx);
    let (readable_push, readable) = pipeline(&ctx);
    let (echo_a, echo_b) = pairs(&ctx);
    let mut zloop = Loop::new().unwrap();
    zloop.reader(&pull_tcp, note).unwrap();
    // It sends on a socket of this loop, which sends back.
    zloop
        .reader(&pull, |world: &mut World, zloop, msg| {
            echo_a.send("echo")?;
            note(world, zloop, msg)
        })
        .unwrap();
    zloop.reader(&echo_b, |_, _, msg| Ok(echo_b.send(msg)?)).unwrap();
    zloop.reader(&echo_a, note).unwrap();
    zloop
        .readable(&readable, |world, _, socket| {
            world.log.push(socket.try_recv_str()?);
            Ok(())
        })
        .unwrap();
    let fires = if timers { 50 } else { 0 };
    if timers {
        zloop.timer(ms(1), Repeat::Times(fires), count).unwrap();
    }
    let waker = zloop.waker();
    let senders = thread::spawn(move || {
        for number in 0..MESSAGES {
            push_tcp.send_timeout("tcp", LIMIT).unwrap();
            push.send_timeout("inproc", LIMIT).unwrap();
            readable_push.send_timeout("readable", LIMIT).unwrap();
            waker.post(count).unwrap();
            if number % 100 == 0 {
                // Often the loop has nothing left to do then, and sleeps.
                waker.wake().unwrap();
                thread::yield_now();
            }
        }
    });
    let mut world = World::default();
    live_until(&mut zloop, &mut world, &mut outer, |world| {
        world.log.len() == 4 * MESSAGES && world.count == MESSAGES + fires as usize
    });
    senders.join().unwrap();
    for what in ["tcp", "inproc", "readable", "echo"] {
        assert_eq!(world.log.iter().filter(|text| *text == what).count(), MESSAGES, "{what}");
    }
}

#[test]
fn a_loop_inside_another_that_polls_loses_nothing() {
    for timers in [false, true] {
        bounded(move || lives_in_another(by_poll(), timers));
    }
}

#[test]
fn a_loop_inside_another_that_is_told_of_changes_only_loses_nothing() {
    for timers in [false, true] {
        bounded(move || lives_in_another(by_mio(), timers));
    }
}

/// One at a time, each when the loop is as good as asleep.
#[test]
fn a_loop_inside_another_is_woken_for_every_single_message() {
    for outer in [by_poll, by_mio] {
        bounded(move || {
            let ctx = context();
            let (push, pull) = pipeline(&ctx);
            let mut zloop = Loop::new().unwrap();
            zloop.reader(&pull, note).unwrap();
            let mut world = World::default();
            let mut outer = outer();
            for number in 1..=500 {
                match number % 3 {
                    0 => zloop.waker().post(count).unwrap(),
                    // The news is taken in already: the descriptor will not tell.
                    1 => {
                        push.send("x").unwrap();
                        assert!(pull.events().unwrap().is_readable());
                    }
                    _ => push.send("x").unwrap(),
                }
                live_until(&mut zloop, &mut world, &mut outer, |world| {
                    world.log.len() + world.count == number
                });
            }
        });
    }
}

/// More sockets than a loop asks the system about at once.
#[test]
fn a_loop_inside_another_that_is_told_of_changes_only_serves_thousands_at_once() {
    alone(|| {
        for outer in [by_poll, by_mio] {
            // Two descriptors each, and as many their peers.
            let sockets = usize::try_from(more_descriptors() / 8).unwrap().min(1_500);
            let ctx = ZContext::builder().max_sockets(4_000).signals(false).build().unwrap();
            let pipelines: Vec<_> = (0..sockets).map(|_| pipeline(&ctx)).collect();
            let mut zloop = Loop::new().unwrap();
            for (_, pull) in &pipelines {
                zloop.reader(pull, note).unwrap();
            }
            let mut world = World::default();
            let mut outer = outer();
            live_until(&mut zloop, &mut world, &mut outer, |_| true);
            for round in 1..=3 {
                for (push, _) in &pipelines {
                    push.send("x").unwrap();
                }
                live_until(&mut zloop, &mut world, &mut outer, |world| {
                    world.log.len() == round * sockets
                });
            }
        }
    });
}

/// More sources than a loop asks the system about at once.
#[test]
fn a_loop_inside_another_that_is_told_of_changes_only_serves_thousands_of_sources_at_once() {
    alone(|| {
        for outer in [by_poll, by_mio] {
            let sources = usize::try_from(more_descriptors() / 4).unwrap().min(1_500);
            let mut zloop = Loop::new().unwrap();
            let mut peers: Vec<UnixStream> = Vec::new();
            for _ in 0..sources {
                let (near, far) = UnixStream::pair().unwrap();
                far.set_nonblocking(true).unwrap();
                peers.push(near);
                let far = mio::net::UnixStream::from_std(far);
                zloop
                    .source(far, Interest::READABLE, |world: &mut World, _, far, _| {
                        while far.read(&mut [0]).is_ok() {
                            world.count += 1;
                        }
                        Ok(())
                    })
                    .unwrap();
            }
            let mut world = World::default();
            let mut outer = outer();
            live_until(&mut zloop, &mut world, &mut outer, |_| true);
            for round in 1..=3 {
                for near in &mut peers {
                    near.write_all(b"x").unwrap();
                }
                live_until(&mut zloop, &mut world, &mut outer, |world| {
                    world.count == round * sources
                });
            }
        }
    });
}

// Sockets of all kinds and owners.

#[test]
fn sockets_are_lent_shared_or_given_away_and_made_inside_a_handler() {
    bounded(|| {
        let ctx = context();
        let (push, lent) = pipeline(&ctx);
        let (shared_push, shared) = pipeline(&ctx);
        let (given_push, given) = pipeline(&ctx);
        let shared = Rc::new(shared);
        let inner = RefCell::new(Vec::new());
        let mut zloop = Loop::new().unwrap();
        zloop
            .reader(&lent, |world: &mut World, zloop, msg| {
                note(world, zloop, msg)?;
                let (push, pull) = pipeline(&ctx);
                push.send("inner")?;
                inner.borrow_mut().push(push);
                zloop.reader(pull, note)?;
                Ok(())
            })
            .unwrap();
        zloop.reader(Rc::clone(&shared), note).unwrap();
        let id = zloop.reader(given, note).unwrap();
        assert_eq!(zloop.socket(id).unwrap().socket_type(), SocketType::Pull);
        let mut world = World::default();
        push.send("lent").unwrap();
        shared_push.send("shared").unwrap();
        given_push.send("given").unwrap();
        turns(&mut zloop, &mut world);
        world.log.sort();
        assert_eq!(world.log, ["given", "inner", "lent", "shared"]);
        assert_eq!(Rc::strong_count(&shared), 2);
        // A socket that was given away is closed with its handler.
        assert!(zloop.cancel(id));
        let start = Instant::now();
        while given_push.try_send("nobody").is_ok() {
            assert!(start.elapsed() < LIMIT / 2, "its peer is still there");
        }
        drop(zloop);
        assert_eq!(Rc::strong_count(&shared), 1);
    });
}

#[test]
fn req_and_rep_take_turns() {
    bounded(|| {
        let ctx = context();
        let rep = ctx.rep("").unwrap();
        let req = ctx.req(&rep.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
        let mut zloop = Loop::new().unwrap();
        // The reply is sent by a timer: until then it is not REP's turn to receive.
        zloop
            .reader(&rep, |_, zloop, msg| {
                let mut reply = Some(msg);
                let rep = &rep;
                zloop.timer(ms(1), Repeat::ONCE, move |_, _| {
                    Ok(rep.send(reply.take().expect("it fires once"))?)
                })?;
                Ok(())
            })
            .unwrap();
        zloop
            .reader(&req, |world, zloop, msg| {
                note(world, zloop, msg)?;
                if world.log.len() == 50 {
                    zloop.stop();
                } else {
                    req.send(world.log.len().to_string())?;
                }
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        req.send("0").unwrap();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.log, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    });
}

#[test]
fn pub_and_sub_and_subscriptions() {
    bounded(|| {
        let ctx = context();
        let xpub = ctx.xpub("").unwrap();
        let sub = ctx.sub(&xpub.bind("tcp://127.0.0.1:*").unwrap(), "yes").unwrap();
        let mut zloop = Loop::new().unwrap();
        zloop
            .reader(&xpub, |_, _, _| {
                for text in ["no", "yes 1", "no", "yes 2"] {
                    xpub.send(text)?;
                }
                Ok(())
            })
            .unwrap();
        zloop
            .reader(&sub, |world, zloop, msg| {
                note(world, zloop, msg)?;
                if world.log.len() == 2 {
                    zloop.stop();
                }
                Ok(())
            })
            .unwrap();
        let mut world = World::default();
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
        assert_eq!(world.log, ["yes 1", "yes 2"]);
    });
}

// Endings and costs.

fn shut_down_while_it_sleeps(prepare: impl FnOnce(&mut Loop<'_>, HandlerId) + Send + 'static) {
    bounded(|| {
        let ctx = context();
        let (_push, pull) = pipeline(&ctx);
        let mut zloop = Loop::new().unwrap();
        let id = zloop.reader(&pull, note).unwrap();
        prepare(&mut zloop, id);
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        // The loop tells that it runs, and is asleep soon after.
        let (running, run) = mpsc::channel();
        let tell = move |_: &mut World, _: &mut Loop<'_>| {
            running.send(()).unwrap();
            Ok(())
        };
        zloop.timer(ms(1), Repeat::ONCE, tell).unwrap();
        zloop.timer(ms(5_000), Repeat::ONCE, |_, _| Err(Error::other("sleeps on"))).unwrap();
        let other = ctx.clone();
        let ender = thread::spawn(move || {
            run.recv_timeout(LIMIT).unwrap();
            other.shutdown().unwrap();
        });
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Terminated);
        assert_eq!(zloop.run(&mut world).unwrap(), Exit::Terminated);
        ender.join().unwrap();
    });
}

#[test]
fn shutdown_of_the_context_ends_a_loop() {
    shut_down_while_it_sleeps(|_, _| {});
    shut_down_while_it_sleeps(|zloop, _| zloop.set_nonstop(true));
}

#[test]
fn shutdown_of_the_context_ends_a_loop_whose_sockets_are_paused() {
    shut_down_while_it_sleeps(|zloop, id| assert!(zloop.pause(id)));
}

#[test]
fn shutdown_of_the_context_ends_a_loop_at_every_run() {
    bounded(|| {
        for how in ["reader", "readable", "writable"] {
            let ctx = context();
            let (push, pull) = pipeline(&ctx);
            let mut zloop = Loop::new().unwrap();
            match how {
                "reader" => zloop.reader(&pull, note),
                "readable" => zloop.readable(&pull, |_, _, _| Ok(())),
                _ => zloop.writable(&push, |_, _, _| Ok(())),
            }
            .unwrap();
            zloop.turn(&mut World::default(), NOW).unwrap();
            ctx.shutdown().unwrap();
            for _ in 0..3 {
                let end = zloop.turn(&mut World::default(), Some(ms(2_000))).unwrap();
                assert_eq!(end, Some(Exit::Terminated), "{how}");
            }
        }
    });
}

#[test]
fn an_idle_loop_costs_nothing() {
    bounded(|| {
        let ctx = context();
        more_descriptors();
        let sockets: Vec<_> = (0..250).map(|_| pairs(&ctx)).collect();
        let mut zloop = Loop::new().unwrap();
        for (a, b) in &sockets {
            zloop.reader(a, note).unwrap();
            zloop.readable(b, |world, zloop, _| count(world, zloop)).unwrap();
        }
        let mut world = World::default();
        turns(&mut zloop, &mut world);
        stop_after(&mut zloop, ms(1_000));
        let before = cpu();
        zloop.run(&mut world).unwrap();
        let used = cpu() - before;
        println!("{used:?} of a processor in an idle second");
        assert!(used < ms(10), "{used:?}");
    });
}

#[test]
fn handlers_are_dropped_with_what_they_hold() {
    bounded(|| {
        let held = Rc::new(Cell::new(0));
        let mut zloop = Loop::new().unwrap();
        let mut world = World::default();
        let hold = |zloop: &mut Loop<'static>| {
            let held = Rc::clone(&held);
            zloop
                .timer(Duration::ZERO, Repeat::ONCE, move |_, _| {
                    held.set(held.get() + 1);
                    Ok(())
                })
                .unwrap()
        };
        hold(&mut zloop);
        turns(&mut zloop, &mut world);
        assert_eq!((Rc::strong_count(&held), held.get()), (1, 1), "it has fired its last");
        let id = hold(&mut zloop);
        assert_eq!(Rc::strong_count(&held), 2);
        zloop.cancel(id);
        assert_eq!(Rc::strong_count(&held), 1);
        hold(&mut zloop);
        drop(zloop);
        assert_eq!(Rc::strong_count(&held), 1);
    });
}

#[test]
fn a_reader_beside_a_handler_for_room_on_a_full_socket_misses_nothing() {
    const MESSAGES: u32 = 50_000;
    bounded(|| {
        let ctx = context();
        let name = format!("inproc://{}", unique("full"));
        let (full, peer) = (ctx.pair("").unwrap(), ctx.pair("").unwrap());
        full.set_sndhwm(Some(1)).unwrap();
        full.bind(&name).unwrap();
        peer.set_rcvhwm(Some(1)).unwrap();
        peer.connect(&name).unwrap();
        while full.try_send("full").is_ok() {}

        let (tell, told) = mpsc::channel();
        let sending = thread::spawn(move || {
            for number in 0..MESSAGES {
                peer.send(number).unwrap();
                // One at a time, so that each is news.
                told.recv_timeout(ms(5_000)).unwrap_or_else(|_| panic!("{number} was not read"));
            }
            peer
        });
        let mut zloop = ZLoop::<u32>::new().unwrap();
        let read = move |count: &mut u32, zloop: &mut ZLoop<'_, u32>, _| {
            *count += 1;
            if *count == MESSAGES {
                zloop.stop();
            }
            let _ = tell.send(());
            Ok(())
        };
        zloop.reader(&full, read).unwrap();
        zloop.writable(&full, |_, _, _| panic!("it is full")).unwrap();
        zloop.run(&mut 0).unwrap();
        sending.join().unwrap();
    });
}

/// It is its turn to send, so libzmq does not look for what there is to receive.
#[test]
fn a_reader_that_has_to_send_first_ends_with_the_context() {
    bounded(|| {
        let ctx = context();
        let endpoint = format!("inproc://{}", unique("turn"));
        let rep = ctx.rep(&endpoint).unwrap();
        let asking = ctx.req(&endpoint).unwrap();
        let idle = ctx.req(&endpoint).unwrap();
        asking.send("a question").unwrap();
        rep.recv().unwrap();
        // One that has not asked yet, and one that has not answered.
        let running = [idle, rep].map(|socket| {
            common::blocked(move || {
                let mut zloop: ZLoop<'_, ()> = ZLoop::new().unwrap();
                zloop.reader(&socket, |_, _, _| Ok(())).unwrap();
                zloop.run(&mut ()).unwrap()
            })
        });
        ctx.shutdown().unwrap();
        for ended in running {
            assert_eq!(ended.recv_timeout(LIMIT).unwrap(), Exit::Terminated);
        }
    });
}

#[test]
fn a_loop_that_is_gone_gives_back_what_it_is_posted() {
    let zloop: ZLoop<'_, ()> = ZLoop::new().unwrap();
    let waker = zloop.waker();
    waker.wake().unwrap();
    drop(zloop);
    let (sender, receiver) = mpsc::channel();
    let task = move |_: &mut (), _: &mut ZLoop<'_, ()>| {
        sender.send("called").unwrap();
        Ok(())
    };
    let failed = waker.post(task).unwrap_err();
    assert!(matches!(failed.error, Error::Ended { .. }), "{}", failed.error);
    assert!(failed.error.to_string().contains("the loop is gone"), "{}", failed.error);
    // The task is here, with what it holds, to be called or dropped.
    assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
    drop(failed.into_message());
    assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    for over in [waker.wake(), waker.stop()] {
        assert!(matches!(over, Err(Error::Ended { .. })), "{over:?}");
    }
}

#[test]
fn a_dropped_loop_drops_the_tasks_that_it_has_not_called() {
    let zloop: ZLoop<'_, ()> = ZLoop::new().unwrap();
    let waker = zloop.waker();
    let (sender, receiver) = mpsc::channel::<()>();
    // One that holds the loop's own waker, too: nothing keeps itself alive.
    let own = waker.clone();
    waker
        .post(move |_, _| {
            let _held = (&sender, &own);
            Ok(())
        })
        .unwrap();
    drop(zloop);
    assert_eq!(receiver.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn stopped_before_it_runs_a_loop_calls_nobody() {
    let ctx = context();
    let (push, pull) = pipeline(&ctx);
    push.send("a message").unwrap();
    let mut zloop: Loop<'_> = ZLoop::new().unwrap();
    let note = |world: &mut World, _: &mut Loop<'_>| {
        world.count += 1;
        Ok(())
    };
    zloop.on_turn_end(note);
    zloop.on_wake(note);
    zloop.timer(Duration::ZERO, Repeat::ONCE, note).unwrap();
    zloop.reader(&pull, move |world, zloop, _| note(world, zloop)).unwrap();
    zloop.waker().wake().unwrap();
    zloop.stop();
    let mut world = World::default();
    assert_eq!(zloop.run(&mut world).unwrap(), Exit::Stopped);
    assert_eq!(world.count, 0);
    // And everything is still to come.
    while world.count < 4 {
        assert_eq!(zloop.turn(&mut world, Some(LIMIT)).unwrap(), None);
    }
}

/// Some versions of mio do not count so many milliseconds.
#[test]
fn a_timer_of_months_keeps_no_turn_from_its_end() {
    let mut zloop: Loop<'_> = ZLoop::new().unwrap();
    zloop.timer(Duration::from_secs(30 * 24 * 3600), Repeat::ONCE, |_, _| Ok(())).unwrap();
    let waker = zloop.waker();
    let stopping = thread::spawn(move || waker.stop());
    assert_eq!(zloop.run(&mut World::default()).unwrap(), Exit::Stopped);
    stopping.join().unwrap().unwrap();
    assert_eq!(zloop.turn(&mut World::default(), Some(ms(1))).unwrap(), None);
}
