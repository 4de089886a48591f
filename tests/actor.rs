//! Actors: ready before they are used, ended by their owner, and neither side ever hangs because
//! the other is gone.

mod common;

use std::cell::OnceCell;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use log::Level;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use zkit::{
    ActorPipe, Error, Events, Exit, Repeat, Result, SendError, ZActor, ZContext, ZLoop, ZMsg,
    ZPoller, interrupt,
};

use common::{
    alone, assert_forked, blocked, child, child_role, in_a_fork, more_descriptors, record, records,
    unique, within,
};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);
/// Longer than any test: whoever waits so long waits for ever.
const HOUR: Duration = Duration::from_secs(3600);
/// How many messages a pipe holds.
const ROOM: u32 = 2_000;

fn bounded(case: impl FnOnce() + Send + 'static) {
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    within(LIMIT, &test, case);
}

fn context() -> ZContext {
    ZContext::builder().signals(false).io_threads(0).build().unwrap()
}

#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < give_up, "{what}: not within {LIMIT:?}");
        thread::yield_now();
    }
}

/// Says by its drop that its thread has got there.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A flag for an actor, and what it will be.
fn flag() -> (Flag, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    (Flag(Arc::clone(&flag)), flag)
}

/// Does nothing until its owner ends it.
fn idle(_: &ZContext, pipe: &ActorPipe) -> Result<()> {
    while pipe.recv()?.is_some() {}
    Ok(())
}

/// Sends back what it is sent.
fn echo(_: &ZContext, pipe: &ActorPipe) -> Result<()> {
    while let Some(msg) = pipe.recv()? {
        pipe.send(msg)?;
    }
    Ok(())
}

#[track_caller]
fn assert_round_trip<T>(echo: &ZActor<T>) {
    echo.send(("to", "and fro")).unwrap();
    assert_eq!(echo.recv_timeout(LIMIT).unwrap(), ("to", "and fro").into());
}

#[track_caller]
fn assert_ended<T>(result: Result<T>, how: &str) {
    match result {
        Err(Error::Ended { how: told }) => assert_eq!(told, how),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it worked"),
    }
}

#[track_caller]
fn assert_unsent(result: Result<(), SendError<ZMsg>>, how: &str) {
    let failed = result.unwrap_err();
    assert_eq!(failed.message, ("given", "back").into());
    assert_ended::<()>(Err(failed.error), how);
}

#[track_caller]
fn assert_panicked<T>(result: Result<T>, expected: &str) {
    match result {
        Err(Error::Panicked { message }) => assert_eq!(message, expected),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it worked"),
    }
}

#[test]
fn owners_and_pipes_may_move_between_threads() {
    fn sent<T: Send>() {}
    sent::<ZActor>();
    sent::<ZActor<Vec<String>>>();
    sent::<ActorPipe>();
}

// Being ready.

/// What says that an actor is ready. Each stays until the owner ends it.
const READY: [fn(&ActorPipe) -> Result<()>; 5] = [
    |pipe| {
        pipe.ready();
        pipe.ready();
        pipe.recv().map(drop)
    },
    |pipe| pipe.recv().map(drop),
    |pipe| {
        while pipe.try_recv().is_err() {
            thread::yield_now();
        }
        Ok(())
    },
    |pipe| pipe.recv_timeout(HOUR).map(drop),
    |pipe| {
        let mut zloop = ZLoop::<()>::new()?;
        pipe.reader(&mut zloop, |_, _, _| Ok(()))?;
        zloop.run(&mut ()).map(drop)
    },
];

#[test]
fn spawn_returns_when_the_actor_is_ready_and_not_before() {
    bounded(|| {
        for be_ready in READY {
            let ctx = context();
            let (open, gate) = mpsc::channel();
            let spawning = blocked(move || {
                ZActor::spawn(&ctx, move |_, pipe| {
                    gate.recv().unwrap();
                    be_ready(pipe)
                })
            });
            assert!(spawning.try_recv().is_err(), "the actor is not ready yet");
            open.send(()).unwrap();
            let actor = spawning.recv().unwrap().unwrap();
            assert!(actor.is_running());
            actor.stop().unwrap();
        }
    });
}

#[test]
fn an_actor_that_is_ready_may_have_work_to_do_before_it_receives() {
    bounded(|| {
        let (open, gate) = mpsc::channel();
        let actor = ZActor::spawn(&context(), move |_, pipe| {
            pipe.ready();
            gate.recv().unwrap();
            Ok(pipe.recv()?.unwrap())
        })
        .unwrap();
        actor.send("early").unwrap();
        open.send(()).unwrap();
        assert_eq!(actor.stop().unwrap(), "early".into());
    });
}

#[test]
fn what_fails_before_the_actor_is_ready_comes_out_of_spawn() {
    bounded(|| {
        let ctx = context();
        let endpoint = format!("inproc://{}", unique("taken"));
        let taken = ctx.pull(&endpoint).unwrap();
        let name = endpoint.clone();
        let spawn = || {
            let name = name.clone();
            ZActor::spawn(&ctx, move |ctx, pipe| {
                let _requests = ctx.rep(&name)?;
                idle(ctx, pipe)
            })
        };
        let error = spawn().unwrap_err();
        assert!(
            matches!(&error, Error::Bind { endpoint: told, .. } if *told == endpoint),
            "{error}"
        );
        drop(taken);
        spawn().unwrap().stop().unwrap();

        let failed = ZActor::<()>::spawn(&ctx, |_, _| Err(Error::other("no reason")));
        let error = failed.unwrap_err();
        assert!(matches!(error, Error::Other(_)), "{error}");
        assert_eq!(error.to_string(), "no reason");
    });
}

#[test]
fn an_actor_that_has_filled_its_pipe_may_fail_before_it_is_ready() {
    bounded(|| {
        let ctx = context();
        let spawned = ZActor::spawn(&ctx, |_, pipe| -> Result<()> {
            while pipe.try_send("nobody receives yet").is_ok() {}
            Err(Error::other("its database is missing"))
        });
        assert!(spawned.unwrap_err().to_string().contains("its database is missing"));
    });
}

#[test]
fn an_actor_that_only_sends_is_ready_when_its_pipe_is_full() {
    bounded(|| {
        let ctx = context();
        let counting = ZActor::spawn(&ctx, |_, pipe| {
            for number in 0..5_000_u32 {
                pipe.send(number)?;
            }
            Ok(())
        });
        let counting = counting.unwrap();
        for number in 0..5_000_u32 {
            assert_eq!(counting.recv().unwrap(), number.into());
        }
        counting.join().unwrap();
    });
}

#[test]
fn an_actor_that_only_sends_may_be_stopped_with_a_full_pipe() {
    bounded(|| {
        let ctx = context();
        let endless = ZActor::spawn(&ctx, |_, pipe| -> Result<()> {
            loop {
                pipe.send("more")?;
            }
        });
        assert!(matches!(endless.unwrap().stop(), Err(Error::Ended { .. })));
    });
}

#[test]
fn a_panic_before_the_actor_is_ready_comes_out_of_spawn() {
    bounded(|| {
        let ctx = context();
        assert_panicked(ZActor::<()>::spawn(&ctx, |_, _| panic!("literal")), "literal");
        assert_panicked(ZActor::<()>::spawn(&ctx, |_, _| panic!("number {}", 5)), "number 5");
        let number = ZActor::<()>::spawn(&ctx, |_, _| panic::panic_any(5));
        assert_panicked(number, "for a reason that is no text");
    });
}

#[test]
fn an_actor_may_return_before_it_was_ready() {
    bounded(|| {
        let ctx = context();
        let value = || ZActor::spawn(&ctx, |_, _| Ok(42)).unwrap();
        assert_eq!(value().join().unwrap(), 42);
        assert_eq!(value().stop().unwrap(), 42);
        drop(value());
        let sender = ZActor::spawn(&ctx, |_, pipe| {
            pipe.send("sent")?;
            Ok("returned")
        });
        let sender = sender.unwrap();
        assert_eq!(sender.recv().unwrap(), "sent".into());
        assert_ended(sender.recv(), "it has ended");
        assert_eq!(sender.join().unwrap(), "returned");
    });
}

#[test]
fn spawn_says_that_no_sockets_are_left() {
    bounded(|| {
        for room in [1, 2] {
            let ctx = ZContext::builder().signals(false).max_sockets(room).build().unwrap();
            match ZActor::spawn(&ctx, echo) {
                Ok(actor) => assert_round_trip(&actor),
                Err(error) => assert!(matches!(error, Error::Socket { .. }) && room < 2, "{error}"),
            }
        }
    });
}

// Ending.

#[test]
fn an_actor_receives_all_that_it_was_sent_and_then_none_and_again_none() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            let mut numbers = 0;
            while let Some(mut msg) = pipe.recv()? {
                assert_eq!((msg.pop_u32()?, msg.len()), (numbers, 1));
                numbers += 1;
            }
            for _ in 0..3 {
                assert!(pipe.recv()?.is_none());
                assert!(pipe.try_recv()?.is_none());
                assert!(pipe.recv_timeout(HOUR)?.is_none());
            }
            Ok(numbers)
        })
        .unwrap();
        for number in 0..5 * ROOM {
            actor.send((number, "content")).unwrap();
        }
        assert_eq!(actor.stop().unwrap(), 5 * ROOM);
    });
}

#[test]
fn every_kind_of_receive_knows_the_end() {
    bounded(|| {
        type Receive = fn(&ActorPipe) -> Result<Option<ZMsg>>;
        let receives: [Receive; 3] = [
            ActorPipe::recv,
            |pipe| pipe.recv_timeout(HOUR),
            |pipe| loop {
                match pipe.try_recv() {
                    Err(error) if error.is_would_block() => thread::yield_now(),
                    received => return received,
                }
            },
        ];
        let ctx = context();
        for receive in receives {
            let actor = ZActor::spawn(&ctx, move |_, pipe| {
                assert_eq!(receive(pipe)?, Some("not yet".into()));
                assert!(receive(pipe)?.is_none());
                Ok("orderly")
            });
            let actor = actor.unwrap();
            actor.send("not yet").unwrap();
            assert_eq!(actor.stop().unwrap(), "orderly");
        }
    });
}

#[test]
fn stop_and_join_give_what_the_actor_returned_its_failure_or_its_panic() {
    bounded(|| {
        let ctx = context();
        let ends: [fn(ZActor<String>) -> Result<String>; 2] = [ZActor::stop, |actor| {
            actor.send("end by yourself").unwrap();
            actor.join()
        }];
        for end in ends {
            let actor = ZActor::spawn(&ctx, |_, pipe| {
                pipe.recv()?;
                Ok(String::from("a value"))
            });
            assert_eq!(end(actor.unwrap()).unwrap(), "a value");
            let actor = ZActor::spawn(&ctx, |_, pipe| {
                pipe.recv()?;
                Err(Error::other("a failure"))
            });
            assert_eq!(end(actor.unwrap()).unwrap_err().to_string(), "a failure");
            let actor = ZActor::spawn(&ctx, |_, pipe| {
                pipe.recv()?;
                panic!("a panic")
            });
            assert_panicked(end(actor.unwrap()), "a panic");
        }
    });
}

#[test]
fn drop_returns_when_the_actor_is_gone() {
    bounded(|| {
        let ctx = context();
        for _ in 0..100 {
            let (flag, ended) = flag();
            let actor = ZActor::spawn(&ctx, move |ctx, pipe| {
                let _at_the_end = flag;
                idle(ctx, pipe)
            })
            .unwrap();
            assert!(!ended.load(Ordering::SeqCst));
            drop(actor);
            assert!(ended.load(Ordering::SeqCst));
        }
    });
}

#[test]
fn actors_end_in_the_order_in_which_they_are_dropped() {
    bounded(|| {
        let ctx = context();
        let order = Arc::new(Mutex::new(Vec::new()));
        let spawn = |name: &'static str| {
            let order = Arc::clone(&order);
            ZActor::spawn(&ctx, move |ctx, pipe| {
                idle(ctx, pipe)?;
                order.lock().unwrap().push(name);
                Ok(())
            })
            .unwrap()
        };
        {
            let _first = spawn("first");
            let _second = spawn("second");
            let _third = spawn("third");
        }
        assert_eq!(*order.lock().unwrap(), ["third", "second", "first"]);
    });
}

/// What CZMQ's own test of its actors does, and what else its users know of them.
#[test]
fn commands_are_served_as_in_czmq() {
    bounded(|| {
        fn echo_actor(pipe: &ActorPipe, greeting: &str) -> Result<()> {
            assert_eq!(greeting, "Hello, World");
            pipe.ready();
            while let Some(mut msg) = pipe.recv()? {
                match msg.pop_str()?.as_str() {
                    "ECHO" => pipe.send(msg)?,
                    other => panic!("not a command: {other}"),
                }
            }
            Ok(())
        }
        let ctx = context();
        let spawn = || ZActor::spawn(&ctx, |_, pipe| echo_actor(pipe, "Hello, World")).unwrap();
        let actor = spawn();
        actor.send(("ECHO", "This is a string")).unwrap();
        assert_eq!(actor.recv().unwrap().pop_str().unwrap(), "This is a string");
        actor.send(("ECHO", "several", "frames")).unwrap();
        assert_eq!(actor.recv().unwrap(), ("several", "frames").into());
        actor.stop().unwrap();
        // Destroyed in the middle of a conversation.
        let actor = spawn();
        actor.send(("ECHO", "never received")).unwrap();
        drop(actor);
    });
}

#[test]
fn an_owner_that_sends_term_by_hand_does_not_hang() {
    bounded(|| {
        let ctx = context();
        let actor = ZActor::spawn(&ctx, echo).unwrap();
        actor.send("answered").unwrap();
        actor.send("$TERM").unwrap();
        assert_eq!(actor.recv().unwrap(), "answered".into());
        assert_ended(actor.recv(), "it has ended");
        assert_unsent(actor.send(("given", "back")), "it has ended");
        actor.stop().unwrap();

        let actor = ZActor::spawn(&ctx, echo).unwrap();
        actor.send("$TERM").unwrap();
        drop(actor);
    });
}

#[test]
fn only_a_message_that_is_just_term_is_the_end() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), echo).unwrap();
        let others: [ZMsg; 5] = [
            ("$TERM", "and more").into(),
            ("", "$TERM").into(),
            "$TERM ".into(),
            "$term".into(),
            "$END".into(),
        ];
        for msg in others {
            actor.send(msg.clone()).unwrap();
            assert_eq!(actor.recv().unwrap(), msg);
        }
        actor.stop().unwrap();
    });
}

// An actor that is gone.

/// How an actor ends by itself.
type End = fn() -> Result<()>;

/// And what its owner is told.
const ENDS: [(End, &str); 3] = [
    (|| Ok(()), "it has ended"),
    (|| Err(Error::other("out of paper")), "out of paper"),
    (|| panic!("on fire"), "the thread panicked: on fire"),
];

#[test]
fn every_call_says_how_the_actor_has_ended() {
    bounded(|| {
        let ctx = context();
        for (end, how) in ENDS {
            let actor = ZActor::spawn(&ctx, move |_, pipe| {
                pipe.ready();
                end()
            })
            .unwrap();
            until("its end", || !actor.is_running());
            for _ in 0..3 {
                assert_ended(actor.recv(), how);
                assert_ended(actor.recv_timeout(HOUR), how);
                assert_ended(actor.try_recv(), how);
                assert_unsent(actor.send(("given", "back")), how);
                assert_unsent(actor.try_send(("given", "back")), how);
                assert_unsent(actor.send_timeout(("given", "back"), HOUR), how);
            }
            assert!(format!("{actor:?}").contains(how), "{actor:?}");
            let ended = actor.stop();
            assert_eq!(
                ended.map_or_else(|error| error.to_string(), |()| "it has ended".into()),
                how
            );
        }
    });
}

#[test]
fn what_an_actor_sent_before_its_end_is_received_before_it() {
    bounded(|| {
        const SENT: u32 = 3 * ROOM;
        let ctx = context();
        for (end, how) in ENDS {
            let receives: [fn(&ZActor) -> Result<ZMsg>; 3] = [
                ZActor::recv,
                |actor| actor.recv_timeout(LIMIT),
                |actor| loop {
                    match actor.try_recv() {
                        Err(error) if error.is_would_block() => thread::yield_now(),
                        received => return received,
                    }
                },
            ];
            for receive in receives {
                let actor = ZActor::spawn(&ctx, move |_, pipe| {
                    pipe.ready();
                    for number in 0..SENT {
                        pipe.send(number)?;
                    }
                    end()
                });
                let actor = actor.unwrap();
                for number in 0..SENT {
                    assert_eq!(receive(&actor).unwrap().pop_u32().unwrap(), number);
                }
                assert_ended(receive(&actor), how);
                assert_ended(receive(&actor), how);
            }
        }
    });
}

#[test]
fn an_owner_that_waits_is_woken_when_the_actor_ends() {
    bounded(|| {
        let calls: [fn(ZActor) -> Error; 5] = [
            |actor| actor.recv().unwrap_err(),
            |actor| actor.recv_timeout(HOUR).unwrap_err(),
            |actor| {
                let mut poller = ZPoller::new();
                poller.add((), actor.socket()).unwrap();
                poller.wait(None).unwrap();
                actor.try_recv().unwrap_err()
            },
            // A send that waits for room, of several: one may still find some.
            |actor| {
                let failed = (0..).find_map(|_| actor.send(("given", "back")).err()).unwrap();
                assert_eq!(failed.message, ("given", "back").into());
                failed.error
            },
            |actor| {
                let send = || actor.send_timeout(("given", "back"), HOUR);
                (0..).find_map(|_| send().err()).unwrap().error
            },
        ];
        let ctx = context();
        for call in calls {
            for (end, how) in ENDS {
                let (open, gate) = mpsc::channel();
                let actor = ZActor::spawn(&ctx, move |_, pipe| {
                    pipe.ready();
                    gate.recv().unwrap();
                    end()
                });
                let actor = actor.unwrap();
                let waiting = blocked(move || call(actor));
                assert!(waiting.try_recv().is_err(), "it waits");
                open.send(()).unwrap();
                assert_ended::<()>(Err(waiting.recv().unwrap()), how);
            }
        }
    });
}

#[test]
fn a_send_with_a_limit_times_out_on_a_full_pipe_and_gives_the_message_back() {
    bounded(|| {
        let (open, gate) = mpsc::channel();
        let actor = ZActor::spawn(&context(), move |_, pipe| {
            pipe.ready();
            gate.recv().unwrap();
            let mut received = 0;
            while pipe.recv()?.is_some() {
                received += 1;
            }
            Ok(received)
        })
        .unwrap();
        let mut sent = 0;
        let refused = loop {
            match actor.try_send(("given", "back")) {
                Ok(()) => sent += 1,
                Err(failed) => break failed,
            }
        };
        assert_eq!(sent, ROOM);
        assert!(refused.error.is_would_block());
        assert_eq!(refused.message, ("given", "back").into());
        // Less than one look at the other side, and several.
        for limit in [Duration::ZERO, Duration::from_millis(7), Duration::from_millis(50)] {
            let start = Instant::now();
            let failed = actor.send_timeout(("given", "back"), limit).unwrap_err();
            assert!(failed.error.is_timeout(), "{}", failed.error);
            assert_eq!(failed.message, ("given", "back").into());
            assert!(start.elapsed() >= limit);
        }
        open.send(()).unwrap();
        actor.send_timeout("room again", LIMIT).unwrap();
        assert_eq!(actor.stop().unwrap(), ROOM + 1);
    });
}

// An owner that does not receive, and one that has sent more than is received.

#[test]
fn an_actor_that_waits_for_room_ends_when_its_owner_does_not_receive_any_more() {
    bounded(|| {
        let ends: [fn(ZActor<u32>) -> Option<u32>; 2] = [
            |actor| Some(actor.stop().unwrap()),
            |actor| {
                drop(actor);
                None
            },
        ];
        let ctx = context();
        for end in ends {
            let (tell, sending) = mpsc::channel();
            let actor = ZActor::spawn(&ctx, move |_, pipe| {
                pipe.ready();
                let mut sent = 0;
                while pipe.try_send("full").is_ok() {
                    sent += 1;
                }
                tell.send(()).unwrap();
                let failed = pipe.send(("given", "back")).unwrap_err();
                assert_eq!(failed.message, ("given", "back").into());
                assert!(matches!(failed.error, Error::Ended { .. }), "{}", failed.error);
                // Now and later.
                assert!(matches!(pipe.send("late").unwrap_err().error, Error::Ended { .. }));
                Ok(sent)
            });
            let actor = actor.unwrap();
            sending.recv().unwrap();
            assert!(actor.is_running());
            assert!(end(actor).is_none_or(|sent| sent == ROOM));
        }
    });
}

#[test]
fn an_actor_that_waits_for_room_goes_on_when_its_owner_waits_for_its_end() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            pipe.ready();
            (0..3 * ROOM).try_for_each(|number| pipe.send(number))?;
            Ok("all sent")
        });
        assert_eq!(actor.unwrap().join().unwrap(), "all sent");
    });
}

#[test]
fn an_actor_that_fills_the_pipe_and_returns_can_still_be_received_from() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            pipe.ready();
            for number in 0..ROOM {
                pipe.send(number)?;
            }
            Ok("done") // there is no room to tell it
        })
        .unwrap();
        until("its end", || !actor.is_running());
        for number in 0..ROOM {
            assert_eq!(actor.recv().unwrap().pop_u32().unwrap(), number);
        }
        assert_ended(actor.recv(), "it has ended");
        assert_eq!(actor.stop().unwrap(), "done");
    });
}

#[test]
fn an_actor_whose_end_nobody_looks_for_is_dropped_at_once() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            while pipe.try_send("full").is_ok() {}
            Ok(())
        });
        drop(actor.unwrap());
    });
}

#[test]
fn stop_waits_until_a_busy_actor_with_a_full_pipe_has_received_all() {
    bounded(|| {
        let (open, gate) = mpsc::channel();
        let actor = ZActor::spawn(&context(), move |_, pipe| {
            pipe.ready();
            gate.recv().unwrap();
            let mut received = 0;
            while let Some(mut msg) = pipe.recv()? {
                assert_eq!(msg.pop_u32()?, received);
                received += 1;
            }
            Ok(received)
        })
        .unwrap();
        for number in 0..ROOM {
            actor.try_send(number).unwrap();
        }
        assert!(actor.try_send("full").unwrap_err().error.is_would_block());
        let stopping = blocked(|| actor.stop());
        assert!(stopping.try_recv().is_err(), "the actor is busy");
        open.send(()).unwrap();
        assert_eq!(stopping.recv().unwrap().unwrap(), ROOM);
    });
}

#[test]
fn an_actor_that_dies_with_a_full_pipe_does_not_keep_stop_waiting() {
    bounded(|| {
        let ctx = context();
        for (end, how) in ENDS {
            let (open, gate) = mpsc::channel();
            let actor = ZActor::spawn(&ctx, move |_, pipe| {
                pipe.ready();
                gate.recv().unwrap();
                end()
            });
            let actor = actor.unwrap();
            while actor.try_send("unread").is_ok() {}
            let stopping = blocked(|| actor.stop());
            open.send(()).unwrap();
            let stopped = stopping.recv().unwrap();
            let told = stopped.map_or_else(|error| error.to_string(), |()| "it has ended".into());
            assert_eq!(told, how);
        }
    });
}

#[test]
fn both_sides_may_stream_at_once() {
    bounded(|| {
        const SENT: u32 = 4 * ROOM;
        let actor = ZActor::spawn(&context(), |_, pipe| {
            let mut received = 0;
            let mut sent = 0;
            while received < SENT || sent < SENT {
                if sent < SENT && pipe.try_send(sent).is_ok() {
                    sent += 1;
                }
                match pipe.try_recv() {
                    Ok(Some(mut msg)) => {
                        assert_eq!(msg.pop_u32()?, received);
                        received += 1;
                    }
                    Ok(None) => panic!("too early"),
                    Err(error) => assert!(error.is_would_block(), "{error}"),
                }
            }
            Ok(())
        })
        .unwrap();
        for number in 0..SENT {
            actor.send(number).unwrap();
        }
        for number in 0..SENT {
            assert_eq!(actor.recv().unwrap().pop_u32().unwrap(), number);
        }
        actor.join().unwrap();
    });
}

// In reactors.

#[test]
fn an_actor_may_run_a_loop_which_stops_at_the_end() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            let mut zloop = ZLoop::new()?;
            zloop.timer(HOUR, Repeat::Forever, |_, _| panic!("so late"))?;
            pipe.reader(&mut zloop, |received: &mut u32, _, msg| {
                *received += 1;
                if msg != "unanswered".into() {
                    pipe.send(msg)?;
                }
                Ok(())
            })?;
            let mut received = 0;
            assert_eq!(zloop.run(&mut received)?, Exit::Stopped);
            drop(zloop);
            assert!(pipe.recv()?.is_none());
            Ok(received)
        })
        .unwrap();
        for _ in 0..100 {
            assert_round_trip(&actor);
        }
        for _ in 0..100 {
            actor.send("unanswered").unwrap();
        }
        assert_eq!(actor.stop().unwrap(), 200);
    });
}

#[test]
fn a_handler_of_an_actor_that_fails_ends_the_actor() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            let mut zloop = ZLoop::<()>::new()?;
            pipe.reader(&mut zloop, |_, _, mut msg| msg.pop_u32().map(drop))?;
            zloop.run(&mut ())
        })
        .unwrap();
        actor.send(1_u32).unwrap();
        actor.send("no number").unwrap();
        let error = actor.recv().unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
        assert!(error.to_string().contains("frame 0"), "{error}");
        assert!(matches!(actor.stop().unwrap_err(), Error::Frame { index: 0, .. }));
    });
}

#[test]
fn an_owners_loop_gets_the_messages_of_its_actors_and_each_end_once() {
    bounded(|| {
        const SENT: usize = 50;
        let ctx = context();
        let actors: Vec<_> = ENDS
            .iter()
            .map(|&(end, _)| {
                ZActor::spawn(&ctx, move |_, pipe| {
                    pipe.ready();
                    for number in 0..SENT as u32 {
                        pipe.send(number)?;
                    }
                    end()
                })
                .unwrap()
            })
            .collect();
        let mut zloop = ZLoop::<Vec<Vec<String>>>::new().unwrap();
        for (index, actor) in actors.iter().enumerate() {
            let reader = move |told: &mut Vec<Vec<String>>, _: &mut _, msg: Result<ZMsg>| {
                told[index].push(match msg {
                    Ok(mut number) => number.pop_u32()?.to_string(),
                    Err(Error::Ended { how }) => how,
                    Err(other) => panic!("{other}"),
                });
                Ok(())
            };
            actor.reader(&mut zloop, reader).unwrap();
        }
        let mut told = vec![Vec::new(); ENDS.len()];
        while told.iter().any(|told| told.len() <= SENT) {
            assert_eq!(zloop.turn(&mut told, Some(LIMIT)).unwrap(), None);
        }
        for _ in 0..10 {
            zloop.turn(&mut told, Some(Duration::from_millis(1))).unwrap();
        }
        for (told, (_, how)) in told.iter().zip(ENDS) {
            assert_eq!(told.len(), SENT + 1, "{told:?}");
            assert!((0..SENT).all(|number| told[number] == number.to_string()), "{told:?}");
            assert_eq!(told[SENT], how);
        }
        drop(zloop);
        assert_ended(actors[0].recv(), "it has ended");
    });
}

/// A reader's actor lives as long as the loop, so that the next one needs a place that does, too.
#[test]
fn an_owners_loop_may_restart_an_actor_that_has_ended() {
    struct Workers<'a> {
        ctx: &'a ZContext,
        places: &'a [OnceCell<ZActor>],
        results: Vec<u32>,
    }
    fn start<'a>(workers: &mut Workers<'a>, zloop: &mut ZLoop<'a, Workers<'a>>) -> Result<()> {
        let free = workers.places.iter().position(|place| place.get().is_none());
        let Some(index) = free else {
            zloop.stop();
            return Ok(());
        };
        let worker = ZActor::spawn(workers.ctx, move |_, pipe| {
            pipe.ready();
            Ok(pipe.send(index as u32)?)
        })?;
        let worker = workers.places[index].get_or_init(|| worker);
        worker.reader(zloop, |workers: &mut Workers<'a>, zloop, msg| match msg {
            Ok(mut msg) => {
                workers.results.push(msg.pop_u32()?);
                Ok(())
            }
            Err(_gone) => start(workers, zloop),
        })?;
        Ok(())
    }
    bounded(|| {
        let ctx = context();
        let places: [OnceCell<ZActor>; 20] = Default::default();
        let mut zloop = ZLoop::new().unwrap();
        let mut workers = Workers { ctx: &ctx, places: &places, results: Vec::new() };
        start(&mut workers, &mut zloop).unwrap();
        assert_eq!(zloop.run(&mut workers).unwrap(), Exit::Stopped);
        assert_eq!(workers.results, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn an_owner_may_poll_many_actors() {
    bounded(|| {
        let ctx = context();
        let actors: Vec<_> = (0..10).map(|_| ZActor::spawn(&ctx, echo).unwrap()).collect();
        let mut poller = ZPoller::new();
        for (index, actor) in actors.iter().enumerate() {
            poller.add(index, actor.socket()).unwrap();
        }
        for (index, actor) in actors.iter().enumerate().rev() {
            actor.send(index as u32).unwrap();
            assert_eq!(poller.wait(Some(LIMIT)).unwrap(), Some(index));
            assert_eq!(actor.try_recv().unwrap().pop_u32().unwrap() as usize, index);
        }
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), None);
    });
}

#[test]
fn an_actor_may_poll_its_pipe_among_other_sockets() {
    bounded(|| {
        let ctx = context();
        let endpoint = format!("inproc://{}", unique("jobs"));
        let name = endpoint.clone();
        let actor = ZActor::spawn(&ctx, move |ctx, pipe| {
            let jobs = ctx.pull(&name)?;
            let mut poller = ZPoller::new();
            poller.set_nonstop(true);
            poller.add("pipe", pipe.socket())?;
            poller.add("jobs", &jobs)?;
            pipe.ready();
            loop {
                match poller.wait(None)? {
                    Some("jobs") => pipe.send(jobs.try_recv()?)?,
                    _ if pipe.try_recv()?.is_none() => return Ok(()),
                    _ => {}
                }
            }
        })
        .unwrap();
        let push = ctx.push(&endpoint).unwrap();
        for number in 0..100_u32 {
            push.send(number).unwrap();
            actor.send("ignored").unwrap();
            assert_eq!(actor.recv().unwrap().pop_u32().unwrap(), number);
        }
        actor.stop().unwrap();
    });
}

// Contexts, threads, actors of actors.

#[test]
fn a_shutdown_ends_actors_and_their_owners_calls() {
    bounded(|| {
        let ctx = context();
        let actors: Vec<_> = (0..5).map(|_| ZActor::spawn(&ctx, echo).unwrap()).collect();
        let looping = ZActor::spawn(&ctx, |_, pipe| {
            let mut zloop = ZLoop::<()>::new()?;
            pipe.reader(&mut zloop, |_, _, _| Ok(()))?;
            zloop.run(&mut ())
        })
        .unwrap();
        let lonely = ZActor::spawn(&ctx, idle).unwrap();
        let waiting = blocked(move || lonely.recv().map(drop));
        ctx.shutdown().unwrap();
        assert!(waiting.recv().unwrap().unwrap_err().is_ending());
        for actor in &actors {
            assert!(actor.recv().unwrap_err().is_terminated());
            assert!(actor.try_recv().unwrap_err().is_terminated());
        }
        assert_eq!(looping.stop().unwrap(), Exit::Terminated);
        let mut actors = actors.into_iter();
        assert!(actors.next().unwrap().stop().unwrap_err().is_terminated());
        assert!(actors.next().unwrap().join().unwrap_err().is_terminated());
        drop(actors);
        assert!(ZActor::spawn(&ctx, echo).unwrap_err().is_terminated());
    });
}

#[test]
fn a_shutdown_ends_sides_that_wait_for_room() {
    bounded(|| {
        let ctx = context();
        let (tell, sending) = mpsc::channel();
        let actor = ZActor::spawn(&ctx, move |_, pipe| {
            pipe.ready();
            while pipe.try_send("full").is_ok() {}
            tell.send(()).unwrap();
            Ok(pipe.send("waits")?)
        })
        .unwrap();
        sending.recv().unwrap();
        while actor.try_send("full").is_ok() {}
        let waiting = blocked(move || (actor.send("waits").unwrap_err().error, actor));
        ctx.shutdown().unwrap();
        let (error, actor) = waiting.recv().unwrap();
        // Whose end it sees first is chance.
        assert!(error.is_terminated() || matches!(error, Error::Ended { .. }), "{error}");
        assert!(actor.stop().unwrap_err().is_terminated());
    });
}

#[test]
fn an_actor_outlives_its_owners_context() {
    bounded(|| {
        let ctx = context();
        let actor = ZActor::spawn(&ctx, echo).unwrap();
        drop(ctx);
        assert_round_trip(&actor);
        actor.stop().unwrap();
    });
}

#[test]
fn an_owner_may_go_from_thread_to_thread() {
    bounded(|| {
        let mut actor = ZActor::spawn(&context(), echo).unwrap();
        for _ in 0..20 {
            actor = within(LIMIT, "another thread", move || {
                assert_round_trip(&actor);
                actor
            });
        }
        within(LIMIT, "the last thread", move || drop(actor));
    });
}

#[test]
fn actors_own_actors() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Life;
    impl Life {
        fn new() -> Life {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            Life
        }
    }
    impl Drop for Life {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
    /// Answers with the number of those below it, itself included.
    fn tree(ctx: &ZContext, pipe: &ActorPipe, depth: u32) -> Result<()> {
        // The last to go.
        let _life = Life::new();
        let below = if depth == 0 { 0 } else { 3 };
        let children: Vec<ZActor> = (0..below)
            .map(|_| ZActor::spawn(ctx, move |ctx, pipe| tree(ctx, pipe, depth - 1)))
            .collect::<Result<_>>()?;
        while let Some(question) = pipe.recv()? {
            children.iter().try_for_each(|child| child.send(question.clone()))?;
            let answers = children.iter().map(|child| child.recv()?.pop_u32());
            let sum: u32 = answers.sum::<Result<u32>>()?;
            pipe.send(sum + 1)?;
        }
        Ok(())
    }
    bounded(|| {
        let root = ZActor::spawn(&context(), |ctx, pipe| tree(ctx, pipe, 3)).unwrap();
        root.send("how many?").unwrap();
        assert_eq!(root.recv().unwrap().pop_u32().unwrap(), 1 + 3 + 9 + 27);
        assert_eq!(ALIVE.load(Ordering::SeqCst), 40);
        root.stop().unwrap();
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_panic_of_the_owner_ends_its_actors() {
    bounded(|| {
        let ctx = context();
        let flags = [flag(), flag(), flag()];
        let (for_actors, ended): (Vec<_>, Vec<_>) = flags.into_iter().unzip();
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
            let _actors: Vec<_> = for_actors
                .into_iter()
                .map(|flag| {
                    ZActor::spawn(&ctx, move |ctx, pipe| {
                        let _at_the_end = flag;
                        idle(ctx, pipe)
                    })
                    .unwrap()
                })
                .collect();
            panic!("of the owner");
        }));
        assert!(panicked.is_err());
        assert!(ended.iter().all(|ended| ended.load(Ordering::SeqCst)));
    });
}

#[test]
fn a_panic_of_an_actor_that_owns_actors_ends_them_first() {
    bounded(|| {
        let (flag, ended) = flag();
        let owner = ZActor::<()>::spawn(&context(), move |ctx, pipe| {
            let _owned = ZActor::spawn(ctx, move |ctx, pipe| {
                let _at_the_end = flag;
                idle(ctx, pipe)
            })?;
            pipe.recv()?;
            panic!("of the owner");
        })
        .unwrap();
        owner.send("go").unwrap();
        assert_ended(owner.recv(), "the thread panicked: of the owner");
        assert!(ended.load(Ordering::SeqCst));
    });
}

// Signals.

/// Prints the lines that others send, so many, to the last one.
fn print_lines(ctx: &ZContext, pipe: &ActorPipe, mut left: u32) -> Result<()> {
    let lines = ctx.pull("@inproc://lines")?;
    lines.set_nonstop(true);
    let mut zloop = ZLoop::<u32>::new()?;
    zloop.reader(&lines, |left, _, mut line| {
        println!("{}", line.pop_str()?);
        *left -= 1;
        Ok(())
    })?;
    pipe.reader(&mut zloop, |_, _, _| Ok(()))?;
    zloop.run(&mut left)?;
    drop(zloop);
    // All are sent, but libzmq's own threads may keep the news of it back for a moment.
    for _ in 0..left {
        println!("{}", lines.recv_str_timeout(LIMIT)?);
    }
    println!("the last line");
    Ok(())
}

#[test]
fn on_a_signal_actors_end_in_their_owners_order_and_the_last_line_is_printed() {
    const TEST: &str = "on_a_signal_actors_end_in_their_owners_order_and_the_last_line_is_printed";
    const WORKERS: u32 = 9;
    if child_role().is_some() {
        let ctx = ZContext::new().unwrap();
        let _printer = ZActor::spawn(&ctx, |ctx, pipe| print_lines(ctx, pipe, WORKERS)).unwrap();
        let worker = |number: u32| {
            ZActor::spawn(&ctx, move |ctx, pipe| {
                let lines = ctx.push(">inproc://lines")?;
                lines.set_nonstop(true);
                idle(ctx, pipe)?;
                assert!(interrupt::is_interrupted());
                println!("end of worker {number}");
                Ok(lines.send(format!("a line of worker {number}"))?)
            })
            .unwrap()
        };
        let workers: Vec<_> = (0..WORKERS).map(worker).collect();
        println!("at work");
        let error = workers[0].recv().unwrap_err();
        assert!(error.is_interrupted(), "{error}");
        println!("main: {error}");
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut process = child(TEST, "main");
        process.wait_for("at work", LIMIT);
        kill(Pid::from_raw(process.id() as i32), signal).unwrap();
        let output = process.end(SECOND);
        // Lines of several senders come in any order.
        let lines: Vec<_> = output.lines().collect();
        let of_workers = lines.iter().filter(|line| line.starts_with("a line of worker "));
        assert_eq!(of_workers.count(), WORKERS as usize, "{output}");
        let ends = lines.into_iter().filter(|line| {
            ["main: ", "end of worker ", "the last line"].iter().any(|end| line.starts_with(end))
        });
        let mut expected = vec!["main: interrupted by a signal".to_owned()];
        expected.extend((0..WORKERS).map(|number| format!("end of worker {number}")));
        expected.push("the last line".into());
        assert_eq!(ends.collect::<Vec<_>>(), expected, "{output}");
        assert!(output.rfind("a line of worker") < output.rfind("the last line"), "{output}");
    }
}

#[test]
fn an_interrupt_reaches_an_owners_waiting_calls_and_not_its_actors() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let actor = ZActor::spawn(&ctx, echo).unwrap();
        let looping = ZActor::spawn(&ctx, |_, pipe| {
            let mut zloop = ZLoop::<()>::new()?;
            pipe.reader(&mut zloop, |_, _, msg| Ok(pipe.send(msg)?))?;
            assert_eq!(zloop.run(&mut ())?, Exit::Stopped);
            Ok(())
        })
        .unwrap();
        let (release, held) = mpsc::channel::<()>();
        let busy = ZActor::spawn(&ctx, move |_, pipe| {
            pipe.ready();
            let _ = held.recv();
            idle(&ZContext::new()?, pipe)
        })
        .unwrap();
        while busy.try_send("full").is_ok() {}
        let sending = blocked(move || (busy.send("x").unwrap_err(), busy));
        let waiting = {
            let actor = ZActor::spawn(&ctx, idle).unwrap();
            blocked(move || (actor.recv().unwrap_err(), actor))
        };
        raise(Signal::SIGINT).unwrap();
        let (error, _idle) = waiting.recv_timeout(LIMIT).unwrap();
        assert!(error.is_interrupted(), "{error}");
        let (failed, busy) = sending.recv_timeout(LIMIT).unwrap();
        assert!(failed.error.is_interrupted(), "{failed}");
        assert_eq!(failed.message, "x".into());

        for actor in [&actor, &looping] {
            assert!(actor.send("x").unwrap_err().error.is_interrupted());
            assert!(actor.send_timeout("x", HOUR).unwrap_err().error.is_interrupted());
            assert!(actor.recv().unwrap_err().is_interrupted());
            assert!(actor.recv_timeout(HOUR).unwrap_err().is_interrupted());
            // What does not wait works, to say goodbye with, and the actor answers.
            actor.try_send("still there?").unwrap();
            let mut poller = ZPoller::new();
            poller.set_nonstop(true);
            poller.add((), actor.socket()).unwrap();
            assert_eq!(poller.wait(Some(LIMIT)).unwrap(), Some(()));
            assert_eq!(actor.try_recv().unwrap(), "still there?".into());
        }
        release.send(()).unwrap();
        busy.stop().unwrap();
        looping.stop().unwrap();
        actor.stop().unwrap();
        // Actors are made in an interrupted process as well.
        ZActor::spawn(&ctx, echo).unwrap().stop().unwrap();
    });
}

#[test]
fn an_actors_other_sockets_are_interrupted_unless_they_are_nonstop() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let actor = ZActor::spawn(&ctx, |ctx, pipe| {
            let jobs = ctx.pull("@inproc://jobs")?;
            pipe.ready();
            jobs.recv().map(drop)
        })
        .unwrap();
        raise(Signal::SIGINT).unwrap();
        assert!(actor.stop().unwrap_err().is_interrupted());
    });
}

#[test]
fn a_panic_in_main_ends_the_process_although_actors_live() {
    const TEST: &str = "a_panic_in_main_ends_the_process_although_actors_live";
    if child_role().is_some() {
        let ctx = ZContext::new().unwrap();
        let _printer = ZActor::spawn(&ctx, |ctx, pipe| print_lines(ctx, pipe, 0)).unwrap();
        let _idle: Vec<_> = (0..9).map(|_| ZActor::spawn(&ctx, idle).unwrap()).collect();
        panic!("in main");
    }
    let (status, output) = child(TEST, "main").outcome(LIMIT);
    assert_eq!(status.code(), Some(101), "{output}");
    assert!(output.contains("the last line"), "{output}");
}

// Fork.

#[test]
fn every_call_on_the_parents_actors_says_so() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let spawn = || ZActor::spawn(&ctx, echo).unwrap();
        let full = ZActor::spawn(&ctx, |_, pipe| {
            pipe.ready();
            interrupt::catch()?;
            thread::park();
            Ok(())
        })
        .unwrap();
        while full.try_send("full").is_ok() {}
        let state = [spawn(), spawn(), spawn(), spawn(), full];
        // Even what waits in memory already.
        state[0].send("waiting").unwrap();
        until("the echo", || state[0].socket().events().unwrap().contains(Events::READABLE));
        let state = in_a_fork(state, |[actor, to_stop, to_join, to_drop, full]| {
            for actor in [&actor, &full] {
                for result in [
                    actor.send(("given", "back")),
                    actor.try_send(("given", "back")),
                    actor.send_timeout(("given", "back"), HOUR),
                ] {
                    let failed = result.unwrap_err();
                    assert_eq!(failed.message, ("given", "back").into());
                    assert_forked::<()>(Err(failed.error));
                }
                assert_forked(actor.recv());
                assert_forked(actor.try_recv());
                assert_forked(actor.recv_timeout(HOUR));
                assert!(format!("{actor:?}").contains("ZActor"));
            }
            assert_forked(to_stop.stop());
            assert_forked(to_join.join());
            drop((to_drop, actor, full));
            assert_forked(ZActor::spawn(&ctx, echo));
        });
        let [waiting, others @ .., full] = state;
        assert_eq!(waiting.recv().unwrap(), "waiting".into());
        others.iter().for_each(assert_round_trip);
        std::mem::forget(full);
    });
}

#[test]
fn the_child_of_a_fork_may_have_actors_of_its_own() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let actor = ZActor::spawn(&ctx, echo).unwrap();
        let (_, actor) = in_a_fork((ctx, actor), |(ctx, actor)| {
            drop((actor, ctx));
            let own = ZContext::new().unwrap();
            for _ in 0..10 {
                let one = ZActor::spawn(&own, echo).unwrap();
                assert_round_trip(&one);
                one.stop().unwrap();
            }
        });
        assert_round_trip(&actor);
        actor.stop().unwrap();
    });
}

// What many of them cost.

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// In KiB.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn thousands_of_actors_one_after_another_leave_nothing_behind() {
    alone(|| {
        let start = Instant::now();
        let ctx = context();
        interrupt::descriptor().unwrap(); // it stays
        let one = |number: u32| {
            let actor = ZActor::spawn(&ctx, echo).unwrap();
            actor.send(number).unwrap();
            assert_eq!(actor.recv().unwrap().pop_u32().unwrap(), number);
            if number % 2 == 0 {
                actor.stop().unwrap();
            }
        };
        (0..1_000).for_each(one);
        // How many wait at a time to be cleaned up, and so take memory, is a matter of the machine.
        let grows = || {
            let before = (threads(), descriptors(), memory());
            (0..3_000).for_each(one);
            // libzmq and the system clean up a moment later.
            until("the threads' end", || threads() <= before.0);
            until("the descriptors' end", || descriptors() <= before.1);
            let grown = memory().saturating_sub(before.2);
            println!("3,000 actors: {:?}, {grown} KiB more", start.elapsed());
            grown > 1_024
        };
        assert!((0..5).any(|_| !grows()), "more each time");
    });
}

#[test]
fn an_actor_may_die_and_be_restarted_a_thousand_times() {
    alone(|| {
        let ctx = context();
        panic::set_hook(Box::new(|_| {}));
        interrupt::descriptor().unwrap(); // it stays
        let before = (threads(), descriptors());
        for number in 0..1_000 {
            let (end, how) = ENDS[number % ENDS.len()];
            let actor = ZActor::spawn(&ctx, move |_, pipe| {
                pipe.recv()?;
                end()
            });
            let actor = actor.unwrap();
            actor.send("die").unwrap();
            assert_ended(actor.recv(), how);
        }
        drop(ctx);
        until("the threads' end", || threads() <= before.0);
        until("the descriptors' end", || descriptors() <= before.1);
    });
}

#[test]
fn five_hundred_actors_live_at_once_and_then_are_all_gone() {
    alone(|| {
        const ACTORS: u32 = 500;
        more_descriptors();
        interrupt::descriptor().unwrap(); // it stays
        let before = (threads(), descriptors());
        let ctx = ZContext::builder()
            .max_sockets(4 * ACTORS)
            .signals(false)
            .io_threads(0)
            .build()
            .unwrap();
        let actors: Vec<_> = (0..ACTORS).map(|_| ZActor::spawn(&ctx, echo).unwrap()).collect();
        assert!(threads() >= before.0 + ACTORS as usize);
        for (number, actor) in actors.iter().enumerate() {
            actor.send(number as u32).unwrap();
        }
        for (number, actor) in actors.iter().enumerate() {
            assert_eq!(actor.recv().unwrap().pop_u32().unwrap(), number as u32);
        }
        drop((actors, ctx));
        until("the threads' end", || threads() <= before.0);
        until("the descriptors' end", || descriptors() <= before.1);
    });
}

// What is logged.

#[test]
fn what_an_actor_has_not_received_is_counted_in_a_warning() {
    alone(|| {
        record();
        let ctx = context();
        let (open, gate) = mpsc::channel();
        let actor = ZActor::spawn(&ctx, move |_, pipe| {
            pipe.ready();
            gate.recv().unwrap();
            pipe.recv()?;
            Ok(())
        })
        .unwrap();
        for msg in ["received", "unread", "unread", "unread"] {
            actor.send(msg).unwrap();
        }
        open.send(()).unwrap();
        actor.join().unwrap();
        let warning = "an actor ended with 3 message(s) of its owner unread";
        assert_eq!(records(), [(Level::Warn, warning.to_owned())]);

        // Neither the end nor what was received is worth a word.
        let actor = ZActor::spawn(&ctx, echo).unwrap();
        assert_round_trip(&actor);
        actor.stop().unwrap();
        drop(ZActor::spawn(&ctx, |_, _| Ok(())).unwrap());
        assert_eq!(records(), []);
    });
}

#[test]
fn the_failure_of_an_actor_that_is_dropped_is_logged() {
    alone(|| {
        record();
        let ctx = context();
        for (end, how) in ENDS {
            drop(ZActor::spawn(&ctx, move |_, pipe| {
                pipe.recv()?;
                end()
            }));
            let expected = match how {
                "it has ended" => vec![],
                how => vec![(Level::Error, format!("a thread ended: {how}"))],
            };
            assert_eq!(records(), expected);
            // Whoever stops it has its result.
            let actor = ZActor::spawn(&ctx, move |_, pipe| {
                pipe.recv()?;
                end()
            });
            let _ = actor.unwrap().stop();
            assert_eq!(records(), []);
        }
        // An orderly end is no failure.
        let actor = ZActor::spawn(&ctx, idle).unwrap();
        ctx.shutdown().unwrap();
        drop(actor);
        assert_eq!(records(), []);
    });
}

/// An actor that does not start `body` before its gate is opened.
fn gated<T: Send + 'static>(
    body: impl FnOnce(&ZContext, &ActorPipe) -> Result<T> + Send + 'static,
) -> (ZActor<T>, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    let actor = ZActor::spawn(&context(), move |ctx, pipe| {
        pipe.ready();
        gate.recv().unwrap();
        body(ctx, pipe)
    });
    (actor.unwrap(), open)
}

#[test]
fn an_actor_may_answer_what_is_left_while_its_owner_waits_for_its_end() {
    bounded(|| {
        let (actor, open) = gated(echo);
        actor.send("request").unwrap();
        let stopping = blocked(|| actor.stop());
        open.send(()).unwrap();
        stopping.recv().unwrap().unwrap();

        let (actor, open) = gated(|_, pipe| Ok(pipe.send("result")?));
        let joining = blocked(|| actor.join());
        open.send(()).unwrap();
        joining.recv().unwrap().unwrap();
    });
}

#[test]
fn a_dropped_actor_that_answers_what_is_left_has_not_failed() {
    alone(|| {
        record();
        let (actor, open) = gated(echo);
        actor.send("request").unwrap();
        let dropped = blocked(|| drop(actor));
        open.send(()).unwrap();
        dropped.recv().unwrap();
        assert_eq!(records(), []);
    });
}

#[test]
fn a_send_that_waits_for_room_is_told_that_the_actor_died() {
    bounded(|| {
        let (actor, open) = gated(|_, _| Ok(()));
        while actor.try_send("full").is_ok() {}
        let sending = blocked(move || (actor.send("lost"), actor));
        open.send(()).unwrap();
        let (sent, _actor) = sending.recv().unwrap();
        let SendError { error, message } = sent.unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
        assert_eq!(message, "lost".into());
    });
}

#[test]
fn an_end_that_was_received_is_told_to_readers_that_come_later() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, _| Ok(())).unwrap();
        actor.recv().unwrap_err();
        let mut zloop = ZLoop::new().unwrap();
        let told = |gone: &mut Option<Error>, zloop: &mut ZLoop<'_, _>, msg: Result<ZMsg>| {
            *gone = msg.err();
            zloop.stop();
            Ok(())
        };
        actor.reader(&mut zloop, told).unwrap();
        let mut gone = None;
        assert_eq!(zloop.run(&mut gone).unwrap(), Exit::Stopped);
        assert!(matches!(gone, Some(Error::Ended { .. })));

        let actor = ZActor::spawn(&context(), |ctx, pipe| {
            idle(ctx, pipe)?;
            let mut zloop = ZLoop::new()?;
            pipe.reader(&mut zloop, |(), _, _| Ok(()))?;
            zloop.run(&mut ())
        });
        assert_eq!(actor.unwrap().stop().unwrap(), Exit::Stopped);
    });
}

#[test]
fn no_message_of_an_actor_is_taken_for_its_end() {
    bounded(|| {
        let actor = ZActor::spawn(&context(), |_, pipe| {
            pipe.send("$END")?;
            pipe.send(("$END", 0_u64))?;
            Ok(pipe.send("real")?)
        });
        let actor = actor.unwrap();
        until("its end", || !actor.is_running());
        assert_eq!(actor.recv().unwrap(), "$END".into());
        assert_eq!(actor.recv().unwrap(), ("$END", 0_u64).into());
        assert_eq!(actor.recv().unwrap(), "real".into());
        assert!(matches!(actor.recv(), Err(Error::Ended { .. })));
    });
}

#[test]
fn waiting_for_an_idle_actor_ends_on_an_interrupt() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let actor = ZActor::spawn(&ctx, idle).unwrap();
        let joining = blocked(move || actor.join());
        interrupt::raise().unwrap();
        let joined = joining.recv_timeout(LIMIT).expect("it ends");
        assert!(joined.unwrap_err().is_interrupted());
    });
}

#[test]
fn dropping_a_parents_actor_in_the_child_of_a_fork_leaves_the_childs_own_alone() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let old = ZActor::spawn(&ctx, echo).unwrap();
        in_a_fork((ctx, old), |(_ctx, old)| {
            let one = ZActor::spawn(&ZContext::new().unwrap(), echo).unwrap();
            drop(old);
            one.stop().unwrap();
        });
    });
}
