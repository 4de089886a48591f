//! Clusters of brokers as processes: they find each other, lend each other workers, and lose nothing
//! when one of them goes.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use common::{DEADLINE, Example, assert_empty, folder};

/// As `peering3 ARGS OPTIONS`, its clients without a pause.
fn cluster(folder: &TempDir, names: &[&str], requests: u64) -> Example {
    let requests = requests.to_string();
    let options = ["--requests", &requests, "--pause", "0", "--work", "2"];
    Example::start("peering3", &[names, &options].concat(), folder)
}

/// How many requests were served locally and in the cloud, and how many were lost.
#[track_caller]
fn summary(output: &[String]) -> [u64; 3] {
    let last = output.last().expect("it printed something");
    assert!(last.starts_with("I: served "), "{output:#?}");
    let numbers = last.split(|char: char| !char.is_ascii_digit()).filter(|word| !word.is_empty());
    let numbers: Vec<u64> = numbers.map(|number| number.parse().expect("digits")).collect();
    numbers.try_into().expect("three numbers")
}

#[test]
fn brokers_tell_each_other_their_state() {
    let folder = folder();
    let one = Example::start("peering1", &["DC1", "DC2"], &folder);
    let two = Example::start("peering1", &["DC2", "DC1"], &folder);
    for _ in 0..2 {
        assert!(one.line_with(" workers free").starts_with("DC2 - "));
        assert!(two.line_with(" workers free").starts_with("DC1 - "));
    }
    one.interrupt(Signal::SIGINT);
    two.interrupt(Signal::SIGTERM);
    assert_empty(&folder);
}

#[test]
fn brokers_wait_for_each_other_and_then_share_their_work() {
    let folder = folder();
    let start = |me, peer| Example::start("peering2", &[me, peer, "--pause", "1"], &folder);
    let one = start("DC1", "DC2");
    one.line_with("W: still waiting for DC2");
    let two = start("DC2", "DC1");
    for _ in 0..200 {
        one.line_with("Client: OK");
        two.line_with("Client: OK");
    }
    one.interrupt(Signal::SIGINT);
    two.interrupt(Signal::SIGINT);
    assert_empty(&folder);
}

#[test]
fn a_broker_that_waits_for_a_peer_ends_on_a_signal() {
    let folder = folder();
    let broker = Example::start("peering2", &["DC1", "DC2"], &folder);
    broker.line_with("I: connecting to cloud frontend at 'DC2'");
    broker.interrupt(Signal::SIGTERM);
    assert_empty(&folder);
}

/// Three clusters with 10,000 requests in all, or as many as ZKIT_PEERING_REQUESTS says. One is
/// stopped or killed in the middle, and started again for what it had left.
#[test]
fn three_clusters_lose_no_request_though_one_of_them_goes_and_comes_back() {
    let all = env::var("ZKIT_PEERING_REQUESTS");
    let all: u64 = all.map_or(10_000, |all| all.parse().expect("a number"));
    let each = all / 3;
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let folder = folder();
        let one = cluster(&folder, &["A", "B", "C"], each);
        let two = cluster(&folder, &["B", "C", "A"], each);
        let three = cluster(&folder, &["C", "A", "B"], all - 2 * each);
        // At work in earnest: they have begun to lend each other workers.
        thread::sleep(Duration::from_millis(700));
        two.signal(signal);
        let left = if signal == Signal::SIGINT {
            let [local, cloud, lost] = summary(&two.output());
            assert_eq!(lost, 0);
            each - local - cloud
        } else {
            two.outcome();
            each / 2
        };
        let again = cluster(&folder, &["B", "C", "A"], left);
        for (broker, requests) in [(one, each), (again, left), (three, all - 2 * each)] {
            let output = broker.output();
            let [local, cloud, lost] = summary(&output);
            assert_eq!((local + cloud, lost), (requests, 0), "{output:#?}");
        }
        assert_empty(&folder);
    }
}

#[test]
fn a_cluster_alone_serves_itself_and_says_what_it_lost() {
    let folder = folder();
    let output = cluster(&folder, &["A", "B"], 500).output();
    assert_eq!(summary(&output), [500, 0, 0]);
    // Workers that take longer than clients wait.
    let impatient = ["--pause", "0", "--work", "2000", "--timeout", "1", "--clients", "2"];
    let args = [&["A", "--requests", "50"], &impatient[..]].concat();
    let output = Example::start("peering3", &args, &folder).output();
    let [.., lost] = summary(&output);
    assert!((1..=2).contains(&lost), "each client gives up once: {output:#?}");
    let told = output.iter().filter(|line| line.starts_with("E: CLIENT EXIT - lost task "));
    assert_eq!(told.count() as u64, lost);
    assert_empty(&folder);
}

#[test]
fn a_second_broker_of_the_same_name_is_told_so_and_no_name_is_a_usage_message() {
    let folder = folder();
    let first = Example::start("peering3", &["A"], &folder);
    let start = Instant::now();
    while !folder.path().join("A-monitor.ipc").exists() {
        assert!(start.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(5));
    }
    for name in ["peering1", "peering2", "peering3"] {
        let (status, _, errors) = Example::start(name, &[], &folder).outcome();
        assert_eq!(status.code(), Some(2));
        assert!(errors.contains("Usage:"), "{errors}");
    }
    let (status, _, errors) = Example::start("peering3", &["A"], &folder).outcome();
    assert_eq!(status.code(), Some(1));
    assert_eq!(errors, "Error: cannot bind \"ipc://A-cloud.ipc\": address already in use\n");
    first.interrupt(Signal::SIGINT);
}

/// Whatever it is at: each of these is on the way to its work.
#[test]
fn a_signal_while_it_starts_is_an_orderly_end_too() {
    for moment in 0..20 {
        let folder = folder();
        let mut broker = Example::start("peering3", &["A"], &folder);
        broker.line(); // Ctrl-C is caught soon after it
        thread::sleep(Duration::from_millis(moment));
        broker.signal(Signal::SIGINT);
        let (status, errors) = broker.end();
        assert!(status.success() || status.signal() == Some(Signal::SIGINT as i32), "{errors}");
        assert_eq!(errors, "");
    }
}
