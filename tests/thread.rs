//! Threads that are started by zkit: what they are given, what comes back, and what is logged.

mod common;

use std::panic;
use std::sync::mpsc;
use std::thread as std_thread;
use std::time::{Duration, Instant};

use log::Level;
use nix::sys::signal::{Signal, raise};
use zkit::{
    Error, Exit, Result, ZContext, ZLoop, ZPoller, ZSock, ZThread, clock, interrupt, thread,
};

use common::{alone, assert_forked, in_a_fork, record, records, unique, within};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

fn bounded(case: impl FnOnce() + Send + 'static) {
    let test = std_thread::current().name().expect("libtest names its threads").to_owned();
    within(LIMIT, &test, case);
}

fn context() -> ZContext {
    ZContext::builder().signals(false).build().unwrap()
}

/// Waits until so much was logged, and a little for what should not be.
fn logged(count: usize) -> Vec<(Level, String)> {
    let give_up = Instant::now() + LIMIT;
    let mut logged = records();
    while logged.len() < count && Instant::now() < give_up {
        std_thread::yield_now();
        logged.extend(records());
    }
    std_thread::sleep(Duration::from_millis(50));
    logged.extend(records());
    logged
}

fn error(text: &str) -> (Level, String) {
    (Level::Error, text.to_owned())
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
fn handles_may_move_between_threads() {
    fn sent<T: Send>() {}
    sent::<ZThread<()>>();
    sent::<ZThread<Vec<String>>>();
}

// Detached.

#[test]
fn a_detached_thread_uses_the_context_of_its_caller() {
    bounded(|| {
        let ctx = context();
        let endpoint = format!("inproc://{}", unique("results"));
        let results = ctx.pull(&endpoint).unwrap();
        for number in 0..20_u32 {
            let endpoint = endpoint.clone();
            thread::spawn(&ctx, move |ctx| Ok(ctx.push(&endpoint)?.send(number)?)).unwrap();
        }
        let mut numbers: Vec<_> =
            (0..20).map(|_| results.recv().unwrap().pop_u32().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn spawn_does_not_wait_for_the_thread() {
    bounded(|| {
        let (open, gate) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        thread::spawn(&context(), move |_| {
            gate.recv().unwrap();
            tell.send(()).unwrap();
            Ok(())
        })
        .unwrap();
        open.send(()).unwrap();
        done.recv().unwrap();
    });
}

#[test]
fn a_detached_thread_may_start_others() {
    bounded(|| {
        fn generation(ctx: &ZContext, left: u32, tell: mpsc::Sender<u32>) -> Result<()> {
            tell.send(left).unwrap();
            match left.checked_sub(1) {
                Some(left) => thread::spawn(ctx, move |ctx| generation(ctx, left, tell)),
                None => Ok(()),
            }
        }
        let (tell, told) = mpsc::channel();
        generation(&context(), 10, tell).unwrap();
        assert_eq!(told.iter().collect::<Vec<_>>(), (0..=10).rev().collect::<Vec<_>>());
    });
}

#[test]
fn the_failure_or_panic_of_a_detached_thread_is_logged() {
    alone(|| {
        record();
        let ctx = context();
        thread::spawn(&ctx, |_| Err(Error::other("out of paper"))).unwrap();
        assert_eq!(logged(1), [error("a thread ended: out of paper")]);
        thread::spawn(&ctx, |_| panic!("on {}", "fire")).unwrap();
        assert_eq!(logged(1), [error("a thread ended: the thread panicked: on fire")]);
        thread::spawn(&ctx, |ctx| ctx.pull("@nonsense").map(drop)).unwrap();
        let logged = logged(1);
        assert_eq!(logged.len(), 1);
        assert!(logged[0].1.starts_with("a thread ended: cannot bind \"nonsense\""), "{logged:?}");
    });
}

#[test]
fn the_orderly_end_of_a_detached_thread_is_not_logged() {
    alone(|| {
        record();
        let ctx = ZContext::new().unwrap();
        thread::spawn(&ctx, |_| Ok(())).unwrap();
        let waiting = |ctx: &ZContext| {
            let (tell, told) = mpsc::channel();
            thread::spawn(ctx, move |ctx| {
                let pull = ctx.pull("")?;
                tell.send(()).unwrap();
                let received = pull.recv().map(drop);
                tell.send(()).unwrap();
                received
            })
            .unwrap();
            told.recv_timeout(LIMIT).unwrap();
            told
        };
        let interrupted = waiting(&ctx);
        raise(Signal::SIGINT).unwrap();
        interrupted.recv_timeout(LIMIT).unwrap();
        interrupt::reset();
        let terminated = waiting(&ctx);
        ctx.shutdown().unwrap();
        terminated.recv_timeout(LIMIT).unwrap();
        assert_eq!(logged(0), []);
    });
}

// Attached.

#[test]
fn a_pipe_goes_both_ways() {
    bounded(|| {
        const MESSAGES: u32 = 5_000;
        let thread = thread::fork(&context(), |_, pipe| {
            pipe.send(("hello", "from the thread"))?;
            for number in 0..MESSAGES {
                assert_eq!(pipe.recv()?.pop_u32()?, number);
            }
            for number in 0..MESSAGES {
                pipe.send(number)?;
            }
            Ok(MESSAGES)
        })
        .unwrap();
        assert_eq!(thread.recv().unwrap(), ("hello", "from the thread").into());
        for number in 0..MESSAGES {
            thread.send(number).unwrap();
        }
        for number in 0..MESSAGES {
            assert_eq!(thread.recv().unwrap().pop_u32().unwrap(), number);
        }
        assert_eq!(thread.join().unwrap(), MESSAGES);
    });
}

#[test]
fn every_thread_has_a_pipe_of_its_own() {
    bounded(|| {
        let ctx = context();
        let threads: Vec<_> = (0..50_u32)
            .map(|number| thread::fork(&ctx, move |_, pipe| Ok(pipe.send(number)?)).unwrap())
            .collect();
        for (number, thread) in threads.iter().enumerate().rev() {
            assert_eq!(thread.recv().unwrap().pop_u32().unwrap() as usize, number);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // And one in another context.
        let other = thread::fork(&context(), |_, pipe| Ok(pipe.send("other")?)).unwrap();
        assert_eq!(other.recv_str().unwrap(), "other");
    });
}

#[test]
fn what_a_thread_sent_is_received_after_its_end() {
    bounded(|| {
        let (tell, ending) = mpsc::channel();
        let thread = thread::fork(&context(), move |_, pipe| {
            pipe.send("first")?;
            pipe.send(("second", "and last"))?;
            drop(pipe);
            tell.send(()).unwrap();
            Ok(())
        })
        .unwrap();
        ending.recv().unwrap();
        assert_eq!(thread.recv_str().unwrap(), "first");
        assert_eq!(thread.recv().unwrap(), ("second", "and last").into());
        assert!(thread.try_recv().unwrap_err().is_would_block());
        thread.join().unwrap();
    });
}

#[test]
fn join_gives_the_value_the_failure_or_the_panic() {
    bounded(|| {
        let ctx = context();
        assert_eq!(thread::fork(&ctx, |_, _| Ok(vec![1, 2])).unwrap().join().unwrap(), [1, 2]);
        let failed = thread::fork(&ctx, |_, _| Err::<(), _>(Error::other("out of paper")));
        let error = failed.unwrap().join().unwrap_err();
        assert!(matches!(error, Error::Other(_)), "{error}");
        assert_eq!(error.to_string(), "out of paper");
        let literal = thread::fork::<()>(&ctx, |_, _| panic!("literal"));
        assert_panicked(literal.unwrap().join(), "literal");
        let formatted = thread::fork::<()>(&ctx, |_, _| panic!("number {}", 5));
        assert_panicked(formatted.unwrap().join(), "number 5");
        let number = thread::fork::<()>(&ctx, |_, _| panic::panic_any(5));
        assert_panicked(number.unwrap().join(), "for a reason that is no text");
    });
}

#[test]
fn a_failure_or_panic_that_is_joined_is_not_logged() {
    alone(|| {
        record();
        let ctx = context();
        let failed = thread::fork::<()>(&ctx, |_, _| Err(Error::other("out of paper")));
        failed.unwrap().join().unwrap_err();
        let panicked = thread::fork::<()>(&ctx, |_, _| panic!("on fire"));
        panicked.unwrap().join().unwrap_err();
        assert_eq!(logged(0), []);
    });
}

#[test]
fn a_thread_whose_handle_is_dropped_goes_on_and_its_failure_is_logged() {
    alone(|| {
        record();
        let ctx = context();
        type End = fn() -> Result<()>;
        let ends: [(End, Option<&str>); 4] = [
            (|| Err(Error::other("out of paper")), Some("a thread ended: out of paper")),
            (|| panic!("on fire"), Some("a thread ended: the thread panicked: on fire")),
            (|| Ok(()), None),
            (|| Err(Error::Terminated), None),
        ];
        for (end, line) in ends {
            let (open, gate) = mpsc::channel();
            let (tell, going_on) = mpsc::channel();
            let thread = thread::fork(&ctx, move |_, _pipe| {
                gate.recv().unwrap();
                tell.send(()).unwrap();
                end()
            })
            .unwrap();
            drop(thread);
            open.send(()).unwrap();
            going_on.recv_timeout(LIMIT).unwrap();
            let expected: Vec<_> = line.into_iter().map(error).collect();
            assert_eq!(logged(expected.len()), expected);
        }
    });
}

#[test]
fn a_handle_may_be_used_and_joined_in_another_thread() {
    bounded(|| {
        let thread = thread::fork(&context(), |_, pipe| pipe.recv_str()).unwrap();
        let joined = within(LIMIT, "another thread", move || {
            thread.send("hello").unwrap();
            thread.join()
        });
        assert_eq!(joined.unwrap(), "hello");
    });
}

#[test]
fn pipes_may_be_polled_and_read_by_a_loop() {
    bounded(|| {
        let ctx = context();
        let squarer = |_: &ZContext, pipe: ZSock| {
            let number: u32 = pipe.recv()?.pop_u32()?;
            Ok(pipe.send(number * number)?)
        };
        let threads: Vec<_> = (0..5).map(|_| thread::fork(&ctx, squarer).unwrap()).collect();
        threads[3].send(7_u32).unwrap();
        let mut poller = ZPoller::new();
        for (index, thread) in threads.iter().enumerate() {
            poller.add(index, thread).unwrap();
        }
        assert_eq!(poller.wait(Some(LIMIT)).unwrap(), Some(3));
        assert_eq!(threads[3].try_recv().unwrap().pop_u32().unwrap(), 49);

        let mut zloop = ZLoop::<u32>::new().unwrap();
        for thread in &threads {
            zloop
                .reader(&**thread, |sum: &mut u32, zloop, mut msg| {
                    *sum += msg.pop_u32()?;
                    if *sum == 4 * 25 {
                        zloop.stop();
                    }
                    Ok(())
                })
                .unwrap();
        }
        for index in [0, 1, 2, 4] {
            threads[index].send(5_u32).unwrap();
        }
        assert_eq!(zloop.run(&mut 0).unwrap(), Exit::Stopped);
        drop(zloop);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

// Endings.

/// Threads in several calls that wait.
fn waiting_threads(ctx: &ZContext) -> Vec<ZThread<()>> {
    let bodies: [fn(&ZContext, ZSock) -> Result<()>; 5] = [
        |_, pipe| {
            pipe.send("at work")?;
            pipe.recv().map(drop)
        },
        |_, pipe| {
            pipe.send("at work")?;
            pipe.recv_timeout(HOUR).map(drop)
        },
        |_, pipe| {
            pipe.send("at work")?;
            while pipe.send("until it is full").is_ok() {}
            Ok(pipe.send("full")?)
        },
        |ctx, pipe| {
            let jobs = ctx.pull("")?;
            let mut poller = ZPoller::new();
            poller.add((), &jobs)?;
            pipe.send("at work")?;
            poller.wait(None).map(drop)
        },
        |_, pipe| {
            pipe.send("at work")?;
            let mut zloop = ZLoop::<()>::new()?;
            zloop.reader(pipe, |_, _, _| Ok(()))?;
            match zloop.run(&mut ())? {
                Exit::Interrupted => Err(Error::Interrupted),
                Exit::Terminated => Err(Error::Terminated),
                Exit::Stopped => panic!("nobody has stopped it"),
            }
        },
    ];
    let threads: Vec<_> = bodies.into_iter().map(|body| thread::fork(ctx, body).unwrap()).collect();
    for thread in &threads {
        assert_eq!(thread.recv_str_timeout(LIMIT).unwrap(), "at work");
    }
    threads
}

#[test]
fn an_interrupt_reaches_attached_threads() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let threads = waiting_threads(&ctx);
            let sleeper = thread::fork(&ctx, |_, pipe| {
                pipe.send("at work")?;
                clock::sleep(HOUR)
            })
            .unwrap();
            sleeper.recv_str_timeout(LIMIT).unwrap();
            raise(signal).unwrap();
            assert!(threads[0].recv().unwrap_err().is_interrupted());
            for thread in threads.into_iter().chain([sleeper]) {
                assert!(thread.join().unwrap_err().is_interrupted());
            }
            interrupt::reset();
        }
    });
}

#[test]
fn a_shutdown_reaches_attached_threads_of_its_context() {
    bounded(|| {
        let (ctx, other) = (context(), context());
        let unconcerned = thread::fork(&other, |_, pipe| pipe.recv_str()).unwrap();
        let threads = waiting_threads(&ctx);
        ctx.shutdown().unwrap();
        assert!(threads[0].recv().unwrap_err().is_terminated());
        for thread in threads {
            assert!(thread.join().unwrap_err().is_terminated());
        }
        assert!(thread::fork(&ctx, |_, _| Ok(())).unwrap_err().is_terminated());
        unconcerned.send("still there").unwrap();
        assert_eq!(unconcerned.join().unwrap(), "still there");
    });
}

#[test]
fn the_context_of_a_thread_outlives_its_callers() {
    bounded(|| {
        let ctx = context();
        let (open, gate) = mpsc::channel();
        let thread = thread::fork(&ctx, move |ctx, pipe| {
            gate.recv().unwrap();
            let pull = ctx.pull("@inproc://late")?;
            ctx.push(">inproc://late")?.send("works")?;
            Ok(pipe.send(pull.recv()?)?)
        })
        .unwrap();
        drop(ctx);
        open.send(()).unwrap();
        assert_eq!(thread.recv_str().unwrap(), "works");
        thread.join().unwrap();
    });
}

#[test]
fn fork_says_that_no_sockets_are_left() {
    bounded(|| {
        let ctx = ZContext::builder().signals(false).max_sockets(1).build().unwrap();
        let error = thread::fork(&ctx, |_, _| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Socket { .. }), "{error}");
    });
}

#[test]
fn a_context_from_before_a_fork_starts_no_threads_of_use() {
    alone(|| {
        record();
        let ctx = ZContext::new().unwrap();
        let thread = thread::fork(&ctx, |_, pipe| pipe.recv_str()).unwrap();
        let (ctx, thread) = in_a_fork((ctx, thread), |(ctx, thread)| {
            assert_forked(thread::fork(&ctx, |_, _| Ok(())));
            thread::spawn(&ctx, |ctx| ctx.pull("").map(drop)).unwrap();
            let [(Level::Error, line)] = &logged(1)[..] else { panic!("not logged") };
            assert!(line.contains("made before fork"), "{line}");
            assert_forked(thread.recv());
            assert_forked(thread.send("x").map_err(Error::from));
            drop((thread, ctx));
            // A context of its own does.
            let own = ZContext::new().unwrap();
            let echo = thread::fork(&own, |_, pipe| Ok(pipe.send(pipe.recv()?)?)).unwrap();
            echo.send("hello").unwrap();
            assert_eq!(echo.recv_str_timeout(LIMIT).unwrap(), "hello");
            echo.join().unwrap();
        });
        thread.send("the parent's").unwrap();
        assert_eq!(thread.join().unwrap(), "the parent's");
        drop(ctx);
    });
}

#[test]
fn the_child_of_a_fork_cannot_join_its_parents_threads() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let receive = |_: &ZContext, pipe: ZSock| pipe.recv().map(drop);
        let old = thread::fork(&ctx, receive).unwrap();
        let other = thread::fork(&ctx, receive).unwrap();
        in_a_fork((ctx, old, other), |(_ctx, old, other)| {
            assert_forked(old.join());
            // Nor does dropping one touch what the child has itself.
            let one = thread::fork(&ZContext::new().unwrap(), receive).unwrap();
            drop(other);
            one.send("over").unwrap();
            one.join().unwrap();
        });
    });
}

#[test]
fn a_forked_threads_failure_is_logged_though_its_handle_goes_last() {
    alone(|| {
        record();
        let (over, ended) = mpsc::channel::<()>();
        let failed = thread::fork::<()>(&context(), move |_, _| {
            let _over = over;
            Err(Error::other("a failure"))
        });
        let failed = failed.unwrap();
        ended.recv().unwrap_err();
        drop(failed);
        assert_eq!(logged(1), [error("a thread ended: a failure")]);
    });
}
