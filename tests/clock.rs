//! Time: a clock that never goes back, and a sleep that lasts.

mod common;

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use nix::unistd::gettid;
use zkit::{clock, interrupt};

use common::alone;

#[test]
fn mono_and_usecs_never_go_back() {
    let (mut mono, mut usecs) = (clock::mono(), clock::usecs());
    for _ in 0..100_000 {
        let (next_mono, next_usecs) = (clock::mono(), clock::usecs());
        assert!(next_mono >= mono, "{mono} ms, then {next_mono} ms");
        assert!(next_usecs >= usecs, "{usecs} us, then {next_usecs} us");
        (mono, usecs) = (next_mono, next_usecs);
    }
}

#[test]
fn mono_goes_forward_across_threads() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || (0..1_000).try_for_each(|_| sender.send(clock::usecs())));
    for sent in receiver {
        assert!(clock::usecs() >= sent);
    }
}

#[test]
fn mono_and_usecs_are_one_clock() {
    for _ in 0..1_000 {
        let before = clock::usecs();
        let mono = clock::mono();
        let after = clock::usecs();
        assert!((before / 1_000..=after / 1_000).contains(&mono), "{before} {mono} {after}");
    }
}

#[test]
fn the_clock_runs_as_instant_does() {
    let read = || {
        let before = Instant::now();
        let (mono, usecs) = (clock::mono(), clock::usecs());
        (before, mono, usecs, Instant::now())
    };
    let start = read();
    thread::sleep(Duration::from_millis(20));
    let end = read();
    // What Instant says has passed, at the least and at the most; each unit is cut, not rounded.
    let (least, most) = (end.0 - start.3, end.3 - start.0);
    let (mono, usecs) = (u128::from(end.1 - start.1), u128::from(end.2 - start.2));
    assert!((least.as_micros() - 1..=most.as_micros() + 1).contains(&usecs), "{usecs} us");
    assert!((least.as_millis() - 1..=most.as_millis() + 1).contains(&mono), "{mono} ms");
}

#[test]
fn the_clock_is_shared_by_processes() {
    const ASK: &str = "ZKIT_TEST_CLOCK";
    if let Ok(file) = env::var(ASK) {
        return fs::write(file, clock::usecs().to_string()).unwrap();
    }
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    let file = tempfile::NamedTempFile::new().unwrap();
    let before = clock::usecs();
    let status = Command::new(env::current_exe().unwrap())
        .args([&test, "--exact"])
        .env(ASK, file.path())
        .output()
        .unwrap()
        .status;
    let after = clock::usecs();
    assert!(status.success());
    let there: u64 = fs::read_to_string(file.path()).unwrap().parse().unwrap();
    assert!((before..=after).contains(&there), "{before} {there} {after}");
}

#[test]
fn sleep_takes_at_least_its_time() {
    for micros in [1, 500, 999, 1_000, 1_001, 2_500, 10_000, 50_000] {
        let asked = Duration::from_micros(micros);
        let start = Instant::now();
        clock::sleep(asked).unwrap();
        let taken = start.elapsed();
        assert!(taken >= asked, "{asked:?} took {taken:?}");
        assert!(taken < asked + Duration::from_millis(500), "{asked:?} took {taken:?}");
    }
}

#[test]
fn sleeping_no_time_returns_at_once() {
    let start = Instant::now();
    for _ in 0..1_000 {
        clock::sleep(Duration::ZERO).unwrap();
    }
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
}

#[test]
fn an_interrupt_ends_the_longest_sleep() {
    alone(|| {
        for asked in [Duration::MAX, Duration::from_millis(u64::from(u32::MAX)), Duration::MAX] {
            let (at_work, started) = mpsc::channel();
            let (done, ended) = mpsc::channel();
            thread::spawn(move || {
                at_work.send(gettid()).unwrap();
                done.send(clock::sleep(asked)).unwrap();
            });
            let stat = format!("/proc/self/task/{}/stat", started.recv().unwrap());
            let give_up = Instant::now() + Duration::from_secs(5);
            while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
                assert!(Instant::now() < give_up, "does not sleep");
                thread::yield_now();
            }
            assert!(ended.try_recv().is_err(), "sleeping {asked:?} ended at once");
            interrupt::raise().unwrap();
            let result = ended.recv_timeout(Duration::from_secs(5)).expect("it ends");
            assert!(result.unwrap_err().is_interrupted());
            interrupt::reset();
        }
    });
}

#[test]
fn sleeping_while_interrupted_ends_at_once() {
    alone(|| {
        interrupt::raise().unwrap();
        let start = Instant::now();
        assert!(clock::sleep(Duration::MAX).unwrap_err().is_interrupted());
        assert!(clock::sleep(Duration::ZERO).unwrap_err().is_interrupted());
        assert!(start.elapsed() < Duration::from_millis(500));
        interrupt::reset();
        clock::sleep(Duration::from_millis(1)).unwrap();
    });
}
