//! Each example as a user runs it: a process in an empty folder, its output, Ctrl-C, and what it
//! leaves behind.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use zkit::ZCert;

mod common;
use common::{DEADLINE, Example, alone, assert_empty, folder};

#[track_caller]
fn run(name: &'static str, args: &[&str]) -> Vec<String> {
    let folder = folder();
    let output = Example::start(name, args, &folder).output();
    assert_empty(&folder);
    output
}

fn count(output: &[String], line: &str) -> usize {
    output.iter().filter(|one| *one == line).count()
}

/// The numbers in lines of the form `before N after`.
#[track_caller]
fn numbers(output: &[String], before: &str, after: &str) -> Vec<usize> {
    let number = |line: &String| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok();
    output.iter().filter_map(number).collect()
}

const DASHES: &str = "----------------------------------------";

#[test]
fn identity_shows_a_generated_and_a_chosen_identity() {
    let output = run("identity", &[]);
    let [a, generated, b, c, d, rest @ ..] = &output[..] else { panic!("{output:#?}") };
    assert_eq!(a, DASHES);
    // Five bytes, the first of them zero, as hex.
    assert!(generated.starts_with("[005] 00") && generated.len() == 16, "{generated}");
    assert_eq!(b, "[000] ");
    assert_eq!(c, "[039] ROUTER uses a generated 5 byte identity");
    assert_eq!(d, DASHES);
    assert_eq!(rest, ["[005] Hello", "[000] ", "[033] ROUTER uses REQ's socket identity"]);
    // Else what is meant for a peer of a process that died would find a peer of the next.
    assert_ne!(run("identity", &[])[1], *generated, "each process makes up the same identities");
}

#[test]
fn rtdealer_gives_every_task_to_one_of_two_workers() {
    let output = run("rtdealer", &[]);
    let (a, b) = (numbers(&output, "A received: ", ""), numbers(&output, "B received: ", ""));
    assert_eq!((a.len(), b.len()), (1, 1), "{output:#?}");
    assert_eq!(a[0] + b[0], 10);
}

#[test]
fn rtdealer_gives_a_twice_as_much_as_b() {
    let output = run("rtdealer", &["9000"]);
    let (a, b) = (numbers(&output, "A received: ", ""), numbers(&output, "B received: ", ""));
    assert_eq!(a[0] + b[0], 9000);
    // The standard deviation is 45.
    assert!((5500..6500).contains(&a[0]), "{output:#?}");
}

#[test]
fn rtreq_shares_tasks_out_to_whoever_is_free() {
    let output = run("rtreq", &[]);
    let tasks = numbers(&output, "Processed: ", " tasks");
    assert_eq!(tasks.len(), 10, "{output:#?}");
    assert_eq!(tasks.iter().sum::<usize>(), 100);
    assert!(tasks.iter().all(|tasks| (1..=40).contains(tasks)), "not roughly equal: {tasks:?}");
}

#[test]
fn rtpapa_sees_one_frame_at_the_rep_and_six_at_the_router() {
    assert_eq!(
        run("rtpapa", &[]),
        [
            DASHES,
            "[020] This is the workload",
            DASHES,
            "[001] A",
            "[009] address 3",
            "[009] address 2",
            "[009] address 1",
            "[000] ",
            "[017] This is the reply",
        ]
    );
}

#[test]
fn lruqueue1_serves_every_client_once() {
    let output = run("lruqueue1", &[]);
    assert_eq!(count(&output, "Client: OK"), 10, "{output:#?}");
    assert_eq!(count(&output, "Worker: HELLO"), 10);
    assert_eq!(output.len(), 20);
}

/// The brokers that run until they are interrupted.
const BROKERS: [&str; 2] = ["lruqueue2", "lruqueue3"];

#[test]
fn brokers_count_what_they_served() {
    for broker in BROKERS {
        let output = run(broker, &["7", "3", "100"]);
        let [summary] = &output[..] else { panic!("{output:#?}") };
        let rest = summary.strip_prefix("700 requests in ").expect(summary);
        let (time, rate) = rest.split_once(" s, ").expect(summary);
        let time: f64 = time.parse().expect(summary);
        let rate: f64 = rate.strip_suffix(" requests/s").expect(summary).parse().expect(summary);
        assert!(time > 0.0 && rate > 0.0, "{summary}");
    }
}

#[test]
fn brokers_serve_every_client_until_they_are_interrupted() {
    let signals = [Signal::SIGINT, Signal::SIGTERM];
    for (broker, signal) in BROKERS.into_iter().flat_map(|broker| signals.map(|one| (broker, one)))
    {
        let folder = folder();
        let example = Example::start(broker, &[], &folder);
        for _ in 0..10 {
            assert_eq!(example.line(), "Client: OK");
        }
        example.interrupt(signal);
        assert_empty(&folder);
    }
}

#[test]
fn brokers_end_in_order_in_the_middle_of_their_work() {
    for broker in BROKERS {
        let folder = folder();
        let example = Example::start(broker, &["50", "10", "10000000"], &folder);
        // It is at work when both of its endpoints are there and some time has gone by.
        let start = Instant::now();
        while !folder.path().join("backend.ipc").exists() {
            assert!(start.elapsed() < DEADLINE, "it has not bound its endpoints");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(200));
        example.interrupt(Signal::SIGINT);
        assert_empty(&folder);
    }
}

#[test]
fn tripping_serves_tcp_and_zeromq_clients_in_one_loop() {
    let folder = folder();
    let args = ["127.0.0.1:0", "tcp://127.0.0.1:*", "--every", "10"];
    let example = Example::start("tripping", &args, &folder);
    let messages = example.line();
    let router = messages.strip_prefix("Messages at ").expect(&messages).to_owned();
    let lines = example.line();
    let tcp = lines.strip_prefix("Lines at ").expect(&lines).to_owned();

    let ctx = zkit::ZContext::builder().signals(false).build().unwrap();
    let client = ctx.req(&router).unwrap();
    client.send("hello").unwrap();
    assert_eq!(client.recv_str_timeout(DEADLINE).unwrap(), "HELLO");

    let mut stays = TcpStream::connect(&tcp).unwrap();
    stays.set_read_timeout(Some(DEADLINE)).unwrap();
    // In any pieces, and two lines at once.
    for piece in ["hel", "lo\nwor", "ld\n"] {
        stays.write_all(piece.as_bytes()).unwrap();
    }
    let mut reply = [0; 12];
    stays.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HELLO\nWORLD\n");

    // One that has said all it has to say.
    let mut leaves = TcpStream::connect(&tcp).unwrap();
    leaves.set_read_timeout(Some(DEADLINE)).unwrap();
    leaves.write_all(b"bye\n").unwrap();
    leaves.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = String::new();
    leaves.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "BYE\n");

    // One that never ends its line is dropped, the others are not.
    let mut endless = TcpStream::connect(&tcp).unwrap();
    endless.set_write_timeout(Some(DEADLINE)).unwrap();
    while endless.write_all(&[b'x'; 4096]).is_ok() {}
    stays.write_all(b"still here\n").unwrap();
    let mut reply = [0; 11];
    stays.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"STILL HERE\n");

    while example.line() != "1 clients, 4 lines, 1 messages" {}
    example.interrupt(Signal::SIGINT);
    assert_empty(&folder);
}

/// identity and rtpapa are over before a signal could reach them.
#[test]
fn those_that_end_by_themselves_end_on_a_signal_in_the_middle_of_their_work() {
    for (name, args, file) in [
        ("rtdealer", &["4000000000"][..], "routing.ipc"),
        ("rtreq", &["10", "4000000000"], "routing.ipc"),
        ("lruqueue1", &["60", "1"], "backend.ipc"),
    ] {
        let folder = folder();
        let example = Example::start(name, args, &folder);
        let start = Instant::now();
        while !folder.path().join(file).exists() {
            assert!(start.elapsed() < DEADLINE, "{name} has not bound its endpoint");
            thread::sleep(Duration::from_millis(1));
        }
        if name == "lruqueue1" {
            example.line(); // soon over, so it is not to be waited for any longer
        } else {
            thread::sleep(Duration::from_millis(100));
        }
        example.interrupt(Signal::SIGINT);
        assert_empty(&folder);
    }
}

#[test]
fn hello_world_goes_both_ways_and_the_server_ends_on_a_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = folder();
        let server = Example::start("hwserver", &["tcp://127.0.0.1:*", "0"], &folder);
        let listening = server.line();
        let endpoint = listening.strip_prefix("Listening at ").expect(&listening);

        let output = Example::start("hwclient", &[endpoint, "3"], &folder).output();
        assert_eq!(
            output,
            [
                "Connecting to hello world server...",
                "Sending Hello 0...",
                "Received World 0",
                "Sending Hello 1...",
                "Received World 1",
                "Sending Hello 2...",
                "Received World 2",
            ]
        );
        for _ in 0..3 {
            assert_eq!(server.line(), "Received Hello");
        }
        server.interrupt(signal);
        assert_empty(&folder);
    }
}

#[test]
fn hwclient_waits_for_a_server_that_starts_later() {
    let folder = folder();
    let endpoint = format!("ipc://{}", folder.path().join("late").display());
    let client = Example::start("hwclient", &[&endpoint, "1"], &folder);
    assert_eq!(client.line(), "Connecting to hello world server...");
    assert_eq!(client.line(), "Sending Hello 0...");
    let server = Example::start("hwserver", &[&endpoint, "0"], &folder);
    assert_eq!(client.line(), "Received World 0");
    assert_eq!(client.output(), [""; 0]);
    server.interrupt(Signal::SIGINT);
    assert_empty(&folder);
}

#[test]
fn hwclient_without_a_server_ends_on_a_signal() {
    let folder = folder();
    let client = Example::start("hwclient", &["ipc://nobody-is-there"], &folder);
    client.line();
    client.line();
    let sent = Instant::now();
    client.signal(Signal::SIGINT);
    let output = client.output();
    assert!(output.is_empty(), "{output:?}");
    // Its request had nowhere to go: the linger is a second.
    assert!(sent.elapsed() < Duration::from_secs(5));
    assert_empty(&folder);
}

#[test]
fn a_second_server_on_the_same_endpoint_is_told_why_it_cannot_start() {
    let folder = folder();
    for endpoint in ["tcp://127.0.0.1:*", "ipc://taken"] {
        let first = Example::start("hwserver", &[endpoint], &folder);
        let listening = first.line();
        let endpoint = listening.strip_prefix("Listening at ").expect(&listening);
        let mut second = Example::start("hwserver", &[endpoint], &folder);
        let (status, errors) = second.end();
        assert_eq!(status.code(), Some(1));
        assert_eq!(errors, format!("Error: cannot bind {endpoint:?}: address already in use\n"));
        first.interrupt(Signal::SIGINT);
    }
    assert_empty(&folder);
}

#[test]
fn the_socket_file_of_a_killed_broker_does_not_stop_the_next() {
    let folder = folder();
    let mut first = Example::start("lruqueue2", &[], &folder);
    assert_eq!(first.line(), "Client: OK");
    first.signal(Signal::SIGKILL);
    let (status, _) = first.end();
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    assert!(folder.path().join("frontend.ipc").exists(), "nobody could remove it");

    let output = Example::start("lruqueue2", &["2", "1", "10"], &folder).output();
    assert_eq!(output.len(), 1, "{output:?}");
    assert_empty(&folder);
}

#[test]
fn asyncsrv_replies_to_clients_that_do_not_wait() {
    let output = run("asyncsrv", &["3", "3", "--endpoint", "tcp://127.0.0.1:*"]);
    // A client's name is four digits of hex. Replies to two or three requests of each, zero to four
    // times each: that there is none at all is as likely as one in 5^6.
    assert!(!output.is_empty() && output.len() <= 3 * 3 * 4, "{output:#?}");
    for line in &output {
        let (client, reply) = line.split_once(": ").expect(line);
        assert!(client.len() == 4 && u16::from_str_radix(client, 16).is_ok(), "{line}");
        let request = reply.strip_prefix("request #").expect(line);
        assert!((1..=3).contains(&request.parse::<u32>().expect(line)), "{line}");
    }
}

#[test]
fn mtserver_serves_clients_in_parallel() {
    // Work for longer than this test waits: one after another would not do.
    for (work, requests) in [("60000", "1"), ("0", "3")] {
        let folder = folder();
        let server = Example::start("mtserver", &["tcp://127.0.0.1:*", "5", work], &folder);
        let listening = server.line();
        let endpoint = listening.strip_prefix("Listening at ").expect(&listening).to_owned();
        let client = || Example::start("hwclient", &[&endpoint, requests], &folder);
        let clients = [(); 5].map(|()| client());
        for _ in 0..5 {
            assert_eq!(server.line(), "Received request: [Hello]");
        }
        if work == "0" {
            for client in clients {
                assert_eq!(client.output().len(), 7);
            }
        }
        server.signal(Signal::SIGINT);
        let replies = if work == "0" { "Sent 15 replies" } else { "Sent 0 replies" };
        assert_eq!(server.output().last().expect("it says so"), replies);
        assert_empty(&folder);
    }
}

#[test]
fn mtrelay_signals_step_by_step() {
    assert_eq!(
        run("mtrelay", &[]),
        ["Step 1 ready, signaling step 2", "Step 2 ready, signaling step 3", "Test successful!"]
    );
}

#[test]
fn interrupt_tidies_up_on_a_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = folder();
        let server = Example::start("interrupt", &["ipc://server"], &folder);
        assert_eq!(server.line(), "Listening at ipc://server, until Ctrl-C");
        let client = Example::start("hwclient", &["ipc://server", "2"], &folder);
        assert_eq!(client.output().len(), 5);
        server.signal(signal);
        assert_eq!(server.output(), ["Interrupted after 2 requests, cleaning up"]);
        assert_empty(&folder);
    }
}

/// What the service answers.
#[track_caller]
fn ask(endpoint: &str, request: &[&str]) -> Vec<String> {
    run("service", &[&["ask", "--endpoint", endpoint], request].concat())
}

/// A service, and its endpoint.
#[track_caller]
fn serve(limit: &str, folder: &TempDir) -> (Example, String) {
    let service = Example::start("service", &["serve", "tcp://127.0.0.1:*", limit], folder);
    let listening = service.line();
    let endpoint =
        listening.strip_prefix("Listening at ").and_then(|it| it.strip_suffix(", until Ctrl-C"));
    let endpoint = endpoint.expect(&listening).to_owned();
    (service, endpoint)
}

#[test]
fn service_answers_whatever_it_is_asked_and_on_a_signal_what_it_has_begun() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = folder();
        let (service, endpoint) = serve("60000", &folder);
        assert_eq!(ask(&endpoint, &["echo", "hello"]), ["OK: hello"]);
        assert_eq!(ask(&endpoint, &["primes", "100"]), ["OK: 25"]);
        assert_eq!(ask(&endpoint, &["dance"]), ["ERROR: there is no request \"dance\""]);
        assert!(
            ask(&endpoint, &["primes", "many"])[0].starts_with("ERROR: frame 3: expected a u32")
        );
        assert_eq!(ask(&endpoint, &["primes", "5000001"]), ["ERROR: 5000000 is the most"]);

        let slow = ["ask", "--endpoint", &endpoint, "--patience", "60000", "primes", "500000"];
        let client = Example::start("service", &slow, &folder);
        let give_up = Instant::now() + DEADLINE;
        while !ask(&endpoint, &["statistics"])[0].contains("1 pending") {
            assert!(Instant::now() < give_up, "it was not slow enough to be seen pending");
        }
        service.signal(signal);
        assert_eq!(client.output(), ["OK: 41538"]);
        let output = service.output();
        let ending = output.iter().position(|line| line == "Ending, 1 unanswered");
        assert!(ending.is_some(), "{output:?}");
        assert!(output.last().expect("lines").ends_with("0 pending, 0 timed out"), "{output:?}");
        assert_empty(&folder);
    }
}

#[test]
fn service_says_so_when_a_request_takes_too_long_and_does_not_do_it_then() {
    let folder = folder();
    let (service, endpoint) = serve("0", &folder);
    assert_eq!(ask(&endpoint, &["primes", "5000000"]), ["ERROR: it takes too long"]);
    service.signal(Signal::SIGINT);
    let output = service.output();
    // It may have said so before, as it does every ten seconds.
    let end = ["Ending, 0 unanswered", "1 answered, 0 pending, 1 timed out"];
    assert!(output.ends_with(&end.map(str::to_owned)), "{output:?}");
    assert_empty(&folder);
}

#[test]
fn msgqueue_keeps_a_request_until_there_is_a_service() {
    let folder = folder();
    let queue = Example::start("msgqueue", &["ipc://clients", "ipc://services"], &folder);
    assert_eq!(queue.line(), "Clients connect to ipc://clients");
    assert_eq!(queue.line(), "Services connect to ipc://services");

    let ctx = zkit::ZContext::builder().signals(false).build().unwrap();
    let at = |name| format!(">ipc://{}", folder.path().join(name).display());
    let client = ctx.req(&at("clients")).unwrap();
    client.send("before there is a service").unwrap();
    let service = ctx.rep(&at("services")).unwrap();
    let request = service.recv_str_timeout(DEADLINE).unwrap();
    assert_eq!(request, "before there is a service");
    service.send("done").unwrap();
    assert_eq!(client.recv_str_timeout(DEADLINE).unwrap(), "done");
    queue.signal(Signal::SIGINT);
    assert_eq!(queue.output(), ["Passed on 1 requests and 1 replies"]);
    assert_empty(&folder);
}

#[test]
fn weather_reaches_who_subscribed_to_it() {
    let folder = folder();
    let server = Example::start("wuserver", &["ipc://weather"], &folder);
    assert_eq!(server.line(), "Publishing at ipc://weather");
    let output = Example::start("wuclient", &["10001", "ipc://weather", "1"], &folder).output();
    let [_, average] = &output[..] else { panic!("{output:#?}") };
    let average = number(average, "Average temperature for zipcode '10001' was ", "F");
    assert!((-80..135).contains(&average));
    server.interrupt(Signal::SIGINT);
    assert_empty(&folder);
}

#[track_caller]
fn number(line: &str, before: &str, after: &str) -> i64 {
    let number = line.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn syncpub_loses_nothing_to_subscribers_that_join_slowly() {
    let folder = folder();
    let places = ["ipc://updates", "ipc://sync"];
    let early = Example::start("syncsub", &places, &folder);
    let publisher = Example::start("syncpub", &["3", "100000", places[0], places[1]], &folder);
    assert_eq!(publisher.line(), "Waiting for subscribers");
    let late = [(); 2].map(|()| Example::start("syncsub", &places, &folder));
    for subscriber in late.into_iter().chain([early]) {
        assert_eq!(subscriber.output(), ["Received 100000 updates"]);
    }
    assert_eq!(publisher.output(), ["Broadcasting messages"]);
    assert_empty(&folder);
}

#[test]
fn those_that_wait_for_others_end_on_a_signal() {
    for (name, args) in [
        ("asyncsrv", &["3", "60", "--endpoint", "tcp://127.0.0.1:*"][..]),
        ("syncpub", &["1", "1", "ipc://updates", "ipc://sync"]),
        ("syncsub", &["ipc://updates", "ipc://sync"]),
        ("wuclient", &["10001", "ipc://weather"]),
    ] {
        let folder = folder();
        let example = Example::start(name, args, &folder);
        if name == "syncsub" {
            thread::sleep(Duration::from_millis(200)); // it prints nothing before its end
        } else {
            example.line();
        }
        example.signal(Signal::SIGINT);
        example.output();
        assert_empty(&folder);
    }
}

/// libzmq ends a process that has none left when a peer connects over `ipc`.
#[test]
fn they_ask_for_the_descriptors_that_they_need() {
    alone(|| {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        if most < 5_000 {
            return eprintln!("skipped: the system allows {most} descriptors");
        }
        setrlimit(Resource::RLIMIT_NOFILE, 256, most).unwrap();
        for name in ["balance", "lruqueue2", "lruqueue3"] {
            let output = run(name, &["200", "200", "1"]);
            assert!(output.last().unwrap().starts_with("200 requests in "), "{name}: {output:?}");
        }
    });
}

#[test]
fn nonsense_arguments_get_a_usage_message() {
    let folder = folder();
    for name in [
        "hwserver",
        "hwclient",
        "rtdealer",
        "rtreq",
        "lruqueue1",
        "lruqueue2",
        "lruqueue3",
        "tripping",
        "asyncsrv",
        "mtserver",
        "interrupt",
        "msgqueue",
        "wuserver",
        "wuclient",
        "syncpub",
        "syncsub",
        "service",
    ] {
        let mut example = Example::start(name, &["--nonsense"], &folder);
        let (status, errors) = example.end();
        assert_eq!(status.code(), Some(2), "{name}");
        assert!(errors.contains("Usage:"), "{name}: {errors}");
    }
    let mut example = Example::start("hwserver", &["nowhere"], &folder);
    let (status, errors) = example.end();
    assert_eq!(status.code(), Some(1));
    assert!(
        errors.starts_with("Error: cannot bind \"nowhere\": it names no transport"),
        "{errors}"
    );
    assert_empty(&folder);
}

#[test]
fn ironhouse_shows_who_gets_in_to_the_houses_without_encryption() {
    let house = |house: &str| {
        let [at, who @ ..] = &run("ironhouse", &[house])[..] else { panic!("nothing") };
        assert!(at.starts_with("The server is at tcp://127.0.0.1:"), "{at}");
        who.to_vec()
    };
    assert_eq!(house("grasslands"), ["anybody: gets in"]);
    assert_eq!(house("strawhouse"), ["127.0.0.1: gets in", "127.0.0.2: refused with status 400"]);
    assert_eq!(
        house("woodhouse"),
        [
            "admin with the password \"secret\": gets in, known as admin",
            "admin with the password \"guess\": refused with status 400",
        ]
    );
}

#[test]
fn ironhouse_shows_who_gets_in_to_those_with_encryption_or_says_what_it_lacks() {
    for house in ["stonehouse", "ironhouse"] {
        let folder = folder();
        let (status, output, errors) = Example::start("ironhouse", &[house], &folder).outcome();
        if !zkit::engine().curve {
            assert_eq!(status.code(), Some(1));
            assert!(errors.contains("feature \"curve\""), "{errors}");
            continue;
        }
        assert!(status.success(), "{errors}");
        match (house, &output[1..]) {
            ("stonehouse", [anybody, mistaken]) => {
                assert!(anybody.starts_with("anybody with a key: gets in, known as "), "{anybody}");
                assert_eq!(
                    mistaken,
                    "who takes it for another server: does not understand the server"
                );
            }
            (_, who) => {
                assert_eq!(
                    who,
                    ["Ann: gets in, known as Ann", "a stranger: refused with status 400"]
                );
            }
        }
        assert_empty(&folder);
    }
}

#[test]
fn curve_keygen_makes_a_pair_and_replaces_none() {
    let folder = folder();
    let run = |args: &[&str]| Example::start("curve_keygen", args, &folder).outcome();
    let (status, output, errors) =
        run(&["ann.cert", "--name", "Ann Example", "--meta", "email=ann@example.org"]);
    if !zkit::engine().curve {
        assert!(!status.success());
        assert!(errors.contains("CURVE") && errors.contains("feature \"curve\""), "{errors}");
        assert_empty(&folder);
        return;
    }
    assert!(status.success(), "{errors}");
    let path = folder.path().join("ann.cert");
    let cert = ZCert::load(&path).unwrap();
    assert!(cert.has_secret());
    let expected = [("name", "Ann Example"), ("email", "ann@example.org")];
    assert_eq!(cert.metadata().collect::<Vec<_>>(), expected);
    let key = format!("Public key: {}", cert.public_text());
    assert_eq!(output, [&key, "For others: ann.cert", "For nobody else: ann.cert_secret"]);

    let secret = folder.path().join("ann.cert_secret");
    for there in [&path, &secret] {
        let (status, _, errors) = run(&["ann.cert"]);
        assert!(!status.success());
        assert!(errors.contains("--force"), "{errors}");
        // And so it is with one of them.
        std::fs::remove_file(there).unwrap();
        assert!(!run(&["ann.cert"]).0.success());
        cert.save(&path).unwrap();
    }
    assert_eq!(ZCert::load(&path).unwrap(), cert);
    assert!(run(&["ann.cert", "--force"]).0.success());
    assert_ne!(ZCert::load(&path).unwrap(), cert);
    for wrong in [&["--meta", "nothing"][..], &["--name", "two\nlines", "new.cert"]] {
        assert!(!run(wrong).0.success(), "{wrong:?}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

#[test]
fn they_end_without_a_word_when_nobody_reads_what_they_print() {
    for (name, args) in
        [("lruqueue3", &[][..]), ("asyncsrv", &["3", "60", "--endpoint", "tcp://127.0.0.1:*"])]
    {
        let folder = folder();
        let mut example = Example::start(name, args, &folder);
        example.line();
        example.stop_reading();
        let (status, errors) = example.end();
        assert_eq!(status.signal(), Some(Signal::SIGPIPE as i32), "{name}: {status}");
        assert_eq!(errors, "", "{name}");
    }
}
