//! Clusters of brokers as processes: they find each other, lend each other workers, and lose nothing
//! when one of them goes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(60);

/// A broker whose output goes into a file of its folder.
struct Broker {
    process: Child,
    output: std::path::PathBuf,
}

impl Broker {
    #[track_caller]
    fn start(example: &str, folder: &TempDir, name: &str, args: &[&str]) -> Broker {
        let test = env::current_exe().expect("this program has a path");
        let target = test.parent().and_then(Path::parent).expect("it is in target/*/deps");
        let output = folder.path().join(format!("{name}.out"));
        let file = fs::File::create(&output).expect("there is room for a file");
        let process = Command::new(target.join("examples").join(example))
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stderr(file.try_clone().expect("a descriptor"))
            .stdout(file)
            .spawn()
            .expect("the examples are built: cargo build --examples");
        Broker { process, output }
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.output).expect("it prints text")
    }

    /// Waits until it has printed so many lines that end in `end`.
    #[track_caller]
    fn wait_for(&self, count: usize, end: &str) {
        let start = Instant::now();
        while self.output().lines().filter(|line| line.ends_with(end)).count() < count {
            assert!(start.elapsed() < DEADLINE, "no {end:?}: {}", self.output());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id() as i32), signal).expect("it runs");
    }

    /// Waits for its end, and returns what it printed.
    #[track_caller]
    fn end(mut self) -> String {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                break status;
            }
            assert!(start.elapsed() < DEADLINE, "it has not ended: {}", self.output());
            thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}: {}", self.output());
        self.output()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How many requests were served locally and in the cloud, and how many were lost.
#[track_caller]
fn summary(output: &str) -> [u64; 3] {
    let last = output.lines().last().expect("it printed something");
    assert!(last.starts_with("I: served "), "{output}");
    let numbers = last.split(|char: char| !char.is_ascii_digit()).filter(|word| !word.is_empty());
    let numbers: Vec<u64> = numbers.map(|number| number.parse().expect("digits")).collect();
    numbers.try_into().expect("three numbers")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

#[test]
fn brokers_tell_each_other_their_state() {
    let folder = folder();
    let one = Broker::start("peering1", &folder, "DC1", &["DC1", "DC2"]);
    let two = Broker::start("peering1", &folder, "DC2", &["DC2", "DC1"]);
    one.wait_for(2, " workers free");
    two.wait_for(2, " workers free");
    for (broker, peer) in [(one, "DC2 - "), (two, "DC1 - ")] {
        broker.signal(Signal::SIGINT);
        let output = broker.end();
        assert!(output.lines().filter(|line| line.starts_with(peer)).count() >= 2, "{output}");
    }
}

#[test]
fn brokers_wait_for_each_other_and_then_share_their_work() {
    let folder = folder();
    let pause = ["--pause", "1"];
    let start = |name: &'static str, peer| {
        Broker::start("peering2", &folder, name, &[&[name, peer][..], &pause].concat())
    };
    let one = start("DC1", "DC2");
    one.wait_for(1, "W: still waiting for DC2");
    let two = start("DC2", "DC1");
    one.wait_for(200, "Client: OK");
    two.wait_for(200, "Client: OK");
    for broker in [one, two] {
        broker.signal(Signal::SIGINT);
        broker.end();
    }
}

#[test]
fn a_broker_that_waits_for_a_peer_ends_on_a_signal() {
    let folder = folder();
    let broker = Broker::start("peering2", &folder, "DC1", &["DC1", "DC2"]);
    broker.wait_for(1, "I: connecting to cloud frontend at 'DC2'");
    broker.signal(Signal::SIGTERM);
    broker.end();
}

/// Three clusters with 10,000 requests in all, or as many as ZKIT_PEERING_REQUESTS says. One is
/// stopped in the middle, and started again for what it had left.
#[test]
fn three_clusters_lose_no_request_though_one_of_them_goes_and_comes_back() {
    let all =
        env::var("ZKIT_PEERING_REQUESTS").map_or(10_000, |all| all.parse().expect("a number"));
    let each = all / 3;
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let folder = folder();
        let start = |name: &str, args: [&str; 3], requests: u64| {
            let requests = requests.to_string();
            let options = ["--requests", &requests, "--pause", "0", "--work", "2"];
            Broker::start("peering3", &folder, name, &[&args[..], &options].concat())
        };
        let one = start("one", ["A", "B", "C"], each);
        let two = start("two", ["B", "C", "A"], each);
        let three = start("three", ["C", "A", "B"], all - 2 * each);
        // At work in earnest: the others have begun to lend it workers, or it them.
        thread::sleep(Duration::from_millis(700));
        two.signal(signal);
        let left = if signal == Signal::SIGINT {
            let [local, cloud, lost] = summary(&two.end());
            assert_eq!(lost, 0);
            each - local - cloud
        } else {
            drop(two);
            each / 2
        };
        let again = start("again", ["B", "C", "A"], left);
        for (broker, requests) in [(one, each), (again, left), (three, all - 2 * each)] {
            let output = broker.end();
            let [local, cloud, lost] = summary(&output);
            assert_eq!((local + cloud, lost), (requests, 0), "{output}");
        }
        let left: Vec<_> =
            fs::read_dir(&folder).unwrap().flatten().map(|file| file.path()).collect();
        let sockets = left.iter().filter(|path| path.extension().is_some_and(|end| end == "ipc"));
        assert_eq!(sockets.count(), 0, "{left:?}");
    }
}

#[test]
fn a_cluster_alone_serves_itself_and_says_what_it_lost() {
    let folder = folder();
    let args = ["A", "B", "--requests", "500", "--pause", "0", "--work", "0"];
    let [local, cloud, lost] = summary(&Broker::start("peering3", &folder, "A", &args).end());
    assert_eq!((local, cloud, lost), (500, 0, 0));
    // Workers that take longer than clients wait.
    let options = ["--clients", "2", "--pause", "0", "--work", "2000", "--timeout", "1"];
    let args = [&["A"][..], &options, &["--requests", "50"]].concat();
    let output = Broker::start("peering3", &folder, "slow", &args).end();
    let [.., lost] = summary(&output);
    assert!((1..=2).contains(&lost), "each client gives up once: {output}");
    assert_eq!(output.matches("E: CLIENT EXIT - lost task ").count() as u64, lost);
}

#[test]
fn a_second_broker_of_the_same_name_is_told_so_and_no_name_is_a_usage_message() {
    let folder = folder();
    let first = Broker::start("peering3", &folder, "first", &["A"]);
    let start = Instant::now();
    while !folder.path().join("A-monitor.ipc").exists() {
        assert!(start.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(5));
    }
    for example in ["peering1", "peering2", "peering3"] {
        let mut none = Broker::start(example, &folder, "none", &[]);
        assert_eq!(none.process.wait().unwrap().code(), Some(2));
        assert!(none.output().contains("Usage:"), "{}", none.output());
    }
    let mut second = Broker::start("peering3", &folder, "second", &["A"]);
    assert_eq!(second.process.wait().unwrap().code(), Some(1));
    let output = second.output();
    assert!(
        output.contains("Error: cannot bind \"ipc://A-cloud.ipc\": address already in use"),
        "{output}"
    );
    first.signal(Signal::SIGINT);
    first.end();
}
