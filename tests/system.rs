//! What the linked libzmq does to the system: its options, descriptors and clocks, looked up there and
//! not read back from libzmq.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::mem::size_of;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use nix::libc::{self, c_int, c_void};
use nix::sys::socket::{SockaddrStorage, getpeername, getsockname};
use zkit::{EventKind, SocketType, ZContext, ZMonitor, ZSock};

use common::{alone, child_role, child_with};

/// More than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);

fn context() -> ZContext {
    ZContext::builder().signals(false).build().unwrap()
}

fn port_of(endpoint: &str) -> u16 {
    endpoint.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// The descriptors of this process and what each is, as `/proc` tells.
fn descriptors() -> BTreeMap<i32, PathBuf> {
    let listed = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    listed
        // The one of this listing is gone by the time it is looked at.
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter_map(|(fd, path)| Some((fd, fs::read_link(path).ok()?)))
        .collect()
}

/// This process's ends of TCP at a port: who listens, who was accepted and who has connected.
struct Ends {
    listener: c_int,
    accepted: c_int,
    connected: c_int,
}

impl Ends {
    #[track_caller]
    fn at(port: u16) -> Ends {
        let [mut listener, mut accepted, mut connected] = [None; 3];
        let port_of = |address: nix::Result<SockaddrStorage>| {
            let address = address.ok()?;
            let v4 = address.as_sockaddr_in().map(|address| address.port());
            v4.or_else(|| address.as_sockaddr_in6().map(|address| address.port()))
        };
        for (fd, is) in descriptors() {
            if !is.to_string_lossy().starts_with("socket:") {
                continue;
            }
            let (here, there) = (port_of(getsockname(fd)), port_of(getpeername(fd)));
            match (here == Some(port), there == Some(port), there.is_some()) {
                (true, _, false) => listener = Some(fd),
                (true, false, true) => accepted = Some(fd),
                (false, true, _) => connected = Some(fd),
                _ => {}
            }
        }
        Ends {
            listener: listener.expect("a listener"),
            accepted: accepted.expect("an accepted connection"),
            connected: connected.expect("a connection"),
        }
    }
}

/// What the system has for an option of a descriptor, as bytes.
#[allow(unsafe_code, reason = "nix knows few of the options")]
fn option_bytes(fd: c_int, level: c_int, option: c_int) -> Vec<u8> {
    let mut value = vec![0_u8; 256];
    let mut len = value.len() as libc::socklen_t;
    let pointer = value.as_mut_ptr().cast::<c_void>();
    // SAFETY: the pointer is valid for as many bytes as `len` says.
    let rc = unsafe { libc::getsockopt(fd, level, option, pointer, &mut len) };
    assert_eq!(rc, 0, "getsockopt: {}", io::Error::last_os_error());
    value.truncate(len as usize);
    value
}

fn option(fd: c_int, level: c_int, option: c_int) -> c_int {
    let value = option_bytes(fd, level, option);
    c_int::from_ne_bytes(value[..size_of::<c_int>()].try_into().unwrap())
}

/// Two sockets that `set` was called on, connected over TCP at `address`, and the port.
fn connected(
    ctx: &ZContext,
    address: &str,
    set: impl Fn(&ZSock) -> zkit::Result<()>,
) -> (ZSock, ZSock, u16) {
    let [pull, push] = [SocketType::Pull, SocketType::Push].map(|kind| ctx.socket(kind).unwrap());
    set(&pull).unwrap();
    set(&push).unwrap();
    let endpoint = pull.bind(&format!("tcp://{address}:*")).unwrap();
    push.connect(&endpoint).unwrap();
    push.send("through").unwrap();
    assert_eq!(pull.recv_timeout(DEADLINE).unwrap(), "through".into());
    let port = port_of(&endpoint);
    (pull, push, port)
}

#[test]
fn the_options_of_tcp_are_those_of_the_descriptors() {
    alone(|| {
        let ctx = context();
        let (_pull, _push, port) = connected(&ctx, "127.0.0.1", |socket| {
            socket.set_tcp_keepalive(Some(true))?;
            socket.set_tcp_keepalive_cnt(Some(7))?;
            socket.set_tcp_keepalive_idle(Some(Duration::from_secs(123)))?;
            socket.set_tcp_keepalive_intvl(Some(Duration::from_secs(45)))?;
            socket.set_tcp_maxrt(Some(Duration::from_millis(6789)))?;
            socket.set_tos(0x28)?;
            socket.set_sndbuf(Some(50_000))?;
            socket.set_rcvbuf(Some(60_000))?;
            socket.set_backlog(17)
        });
        let ends = Ends::at(port);
        for fd in [ends.accepted, ends.connected] {
            assert_eq!(option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
            assert_eq!(option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT), 7);
            assert_eq!(option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 123);
            assert_eq!(option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL), 45);
            assert_eq!(option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 6789);
            assert_eq!(option(fd, libc::IPPROTO_IP, libc::IP_TOS), 0x28);
            // Linux doubles what it is asked for, for its own books.
            assert_eq!(option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF), 100_000);
            assert_eq!(option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF), 120_000);
        }
        // For who listens, this field of `struct tcp_info` is the limit of who waits.
        let info = option_bytes(ends.listener, libc::IPPROTO_TCP, libc::TCP_INFO);
        assert_eq!(u32::from_ne_bytes(info[28..32].try_into().unwrap()), 17);
    });
}

#[test]
fn what_is_left_to_the_system_is_as_it_was() {
    alone(|| {
        let ctx = context();
        let (_pull, _push, port) = connected(&ctx, "127.0.0.1", |_| Ok(()));
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let plain = TcpStream::connect(plain.local_addr().unwrap()).unwrap();
        let plain = std::os::fd::AsRawFd::as_raw_fd(&plain);
        let ends = Ends::at(port);
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
            (libc::IPPROTO_IP, libc::IP_TOS),
        ] {
            for fd in [ends.accepted, ends.connected] {
                assert_eq!(option(fd, level, name), option(plain, level, name), "{level} {name}");
            }
        }
    });
}

#[test]
fn keep_alive_may_be_switched_off() {
    alone(|| {
        let ctx = context();
        let (_pull, _push, port) =
            connected(&ctx, "127.0.0.1", |socket| socket.set_tcp_keepalive(Some(false)));
        let ends = Ends::at(port);
        for fd in [ends.accepted, ends.connected] {
            assert_eq!(option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 0);
        }
    });
}

#[test]
fn a_device_is_bound_at_both_ends() {
    alone(|| {
        let ctx = context();
        let (_pull, _push, port) =
            connected(&ctx, "127.0.0.1", |socket| socket.set_bindtodevice(Some("lo")));
        let ends = Ends::at(port);
        for fd in [ends.listener, ends.accepted, ends.connected] {
            let device = option_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
            assert_eq!(device, b"lo\0");
        }
    });
}

#[test]
fn with_ipv6_the_descriptors_are_of_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 here");
        return;
    }
    alone(|| {
        let ctx = context();
        let (_pull, _push, port) = connected(&ctx, "[::1]", |socket| {
            socket.set_ipv6(true)?;
            socket.set_tos(0x28)
        });
        let ends = Ends::at(port);
        for fd in [ends.listener, ends.accepted, ends.connected] {
            assert_eq!(option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN), libc::AF_INET6);
        }
        assert_eq!(option(ends.connected, libc::IPPROTO_IPV6, libc::IPV6_TCLASS), 0x28);
    });
}

/// A program with sockets of every transport, one of which is connected.
fn sockets_of_every_transport(ctx: &ZContext, folder: &Path) -> Vec<ZSock> {
    let mut sockets = Vec::new();
    let ipc = format!("ipc://{}/socket", folder.display());
    for address in ["tcp://127.0.0.1:*", &ipc, "inproc://descriptors"] {
        let pull = ctx.pull("").unwrap();
        let push = ctx.push(&pull.bind(address).unwrap()).unwrap();
        push.send("through").unwrap();
        assert_eq!(pull.recv_timeout(DEADLINE).unwrap(), "through".into());
        sockets.extend([pull, push]);
    }
    sockets
}

/// `O_CLOEXEC` of the flags that `/proc` tells, in octal.
fn survives_exec(fd: i32) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC == 0)
}

#[test]
fn no_descriptor_outlives_an_exec() {
    alone(|| {
        // Those that the process began with.
        let before = descriptors();
        let ctx = context();
        let folder = common::folder();
        let sockets = sockets_of_every_transport(&ctx, folder.path());
        let _monitor = ZMonitor::new(&sockets[0]).unwrap();
        let ours: Vec<_> =
            descriptors().into_iter().filter(|(fd, _)| !before.contains_key(fd)).collect();
        assert!(ours.len() > 10, "{ours:?}");
        for (fd, is) in ours {
            assert!(!survives_exec(fd), "{} outlives an exec", is.display());
        }
    });
}

/// Not in the moment between that a descriptor is made and marked, either.
#[test]
fn a_child_started_at_any_moment_has_no_descriptor_of_ours() {
    alone(|| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let ctx = context();
                    let folder = common::folder();
                    sockets_of_every_transport(&ctx, folder.path());
                }
            });
            let strays: Vec<String> = (0..200).flat_map(|_| descriptors_of_a_child()).collect();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(strays, [""; 0]);
        });
    });
}

/// What a child has beyond its three streams and the pipe or folder that it is reading.
fn descriptors_of_a_child() -> Vec<String> {
    let listed = Command::new("ls").args(["-l", "/proc/self/fd"]).stdin(Stdio::null()).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let kinds = ["socket:", "eventfd", "eventpoll"];
    listed
        .lines()
        .filter(|line| kinds.iter().any(|kind| line.contains(kind)))
        .map(String::from)
        .collect()
}

#[test]
fn threads_wake_each_other_by_eventfd() {
    alone(|| {
        let ctx = context();
        let pull = ctx.pull("@inproc://wake").unwrap();
        let _push = ctx.push(">inproc://wake").unwrap();
        let kinds: Vec<_> = descriptors().into_values().collect();
        let count = |kind| kinds.iter().filter(|is| is.to_string_lossy().contains(kind)).count();
        // One each for two sockets, the reaper and the I/O thread, which were pairs of sockets.
        assert!(count("eventfd") >= 4, "{kinds:?}");
        assert_eq!(count("socket:"), 0, "{kinds:?}");
        drop(pull);
    });
}

/// The I/O threads have names that tell what they are.
#[test]
fn the_threads_of_libzmq_have_names() {
    alone(|| {
        let ctx = context();
        let _pull = ctx.pull("@tcp://127.0.0.1:*").unwrap();
        // Each names itself when it begins to run.
        let give_up = Instant::now() + DEADLINE;
        for name in ["ZMQbg/Reaper", "ZMQbg/IO/0"] {
            while !thread_names().iter().any(|is| is == name) {
                assert!(Instant::now() < give_up, "{name} in {:?}", thread_names());
                thread::yield_now();
            }
        }
    });
}

fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// Somebody else's end of a connection.
fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

#[test]
fn a_connection_goes_by_the_proxy_that_was_named() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    // It outlives the socket: libzmq aborts the process when a socket is closed after its proxy has hung up.
    let mut asked;
    let ctx = context();
    let push = ctx.push("").unwrap();
    push.set_socks_proxy(Some(&proxy.local_addr().unwrap().to_string())).unwrap();
    push.connect("tcp://127.0.0.1:9").unwrap();
    let mut greeting = [0; 3];
    asked = accept(&proxy);
    asked.read_exact(&mut greeting).unwrap();
    // RFC 1928: version 5, one method, none.
    assert_eq!(greeting, [5, 1, 0]);
}

#[test]
fn a_peer_that_says_nothing_is_given_up_in_time() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_handshake_ivl(Some(Duration::from_millis(300))).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let start = Instant::now();
    let mut silent = TcpStream::connect(("127.0.0.1", port_of(&endpoint))).unwrap();
    silent.set_read_timeout(Some(DEADLINE)).unwrap();
    // libzmq says its greeting, and then that it is over.
    silent.read_to_end(&mut Vec::new()).unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(250) && took < DEADLINE, "{took:?}");
}

/// Connects that come at `listener` until it is told, with the time between each two.
fn reconnects(listener: &TcpListener, count: usize) -> Vec<Duration> {
    let mut last = None;
    let mut between = Vec::new();
    for _ in 0..=count {
        let stream = accept(listener);
        let now = Instant::now();
        between.extend(last.map(|last| now - last));
        last = Some(now);
        let _ = stream.shutdown(Shutdown::Both);
    }
    between
}

#[test]
fn a_connect_is_tried_again_after_the_interval() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ctx = context();
    let push = ctx.push("").unwrap();
    push.set_reconnect_ivl(Some(Duration::from_millis(200))).unwrap();
    push.connect(&format!("tcp://{}", listener.local_addr().unwrap())).unwrap();
    for time in reconnects(&listener, 3) {
        // libzmq adds up to as much again, at random.
        assert!(time >= Duration::from_millis(180) && time < DEADLINE, "{time:?}");
    }
}

/// A clock of the system that jumps by an hour, either way, changes no time that libzmq keeps.
#[test]
fn a_clock_that_jumps_changes_no_time_of_libzmqs() {
    match child_role().as_deref() {
        Some("linger") => linger_over_a_jump(),
        Some("reconnect") => reconnect_over_a_jump(),
        _ => {
            let folder = common::folder();
            let clock = jumping_clock(folder.path());
            for jump in ["3600", "-3600"] {
                for role in ["linger", "reconnect"] {
                    let name = "a_clock_that_jumps_changes_no_time_of_libzmqs";
                    let flag = folder.path().join(format!("{role}{jump}"));
                    let child = child_with(name, role, |command| {
                        command
                            .env("LD_PRELOAD", &clock)
                            .env("ZKIT_TEST_JUMP", jump)
                            .env(FLAG, flag);
                    });
                    let output = child.end(Duration::from_secs(30));
                    assert!(output.contains("kept its time"), "{output}");
                }
            }
        }
    }
}

/// Names the file that makes the clock jump.
const FLAG: &str = "ZKIT_TEST_FLAG";

/// In the child: makes the clock of the day jump, and sees that it has.
fn jump() {
    let before = SystemTime::now();
    fs::write(std::env::var_os(FLAG).unwrap(), "").unwrap();
    let after = SystemTime::now();
    let jumped = after.duration_since(before).unwrap_or_else(|error| error.duration());
    assert!(jumped > Duration::from_secs(3000), "the clock has not jumped: {jumped:?}");
}

#[track_caller]
fn kept(took: Duration, expected: Duration) {
    // The lower bound fails where the clock went on by an hour, the upper one where it went back.
    assert!(took >= expected * 8 / 10 && took < expected + DEADLINE, "{expected:?} took {took:?}");
    println!("{expected:?} took {took:?}: it kept its time");
}

fn linger_over_a_jump() {
    let linger = Duration::from_secs(1);
    let ctx = ZContext::builder().signals(false).linger(Some(linger)).build().unwrap();
    let push = ctx.push(&common::nobody()).unwrap();
    push.send("nobody receives it").unwrap();
    let start = Instant::now();
    drop(push);
    jump();
    drop(ctx);
    kept(start.elapsed(), linger);
}

fn reconnect_over_a_jump() {
    let interval = Duration::from_millis(800);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ctx = context();
    let push = ctx.push("").unwrap();
    push.set_reconnect_ivl(Some(interval)).unwrap();
    // Nothing is added at random where there is a longest interval.
    push.set_reconnect_ivl_max(Some(interval)).unwrap();
    let monitor = ZMonitor::new(&push).unwrap();
    push.connect(&format!("tcp://{}", listener.local_addr().unwrap())).unwrap();
    drop(accept(&listener));
    // It waits from here on.
    while !matches!(
        monitor.recv_timeout(DEADLINE).unwrap().expect("an event").kind,
        EventKind::ConnectRetried
    ) {}
    let start = Instant::now();
    jump();
    drop(accept(&listener));
    kept(start.elapsed(), interval);
}

/// A library whose clock of the day, loaded before the system's, jumps by `ZKIT_TEST_JUMP` seconds once
/// there is the file that [`FLAG`] names.
fn jumping_clock(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    fs::write(&source, JUMPING_CLOCK).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let compiled = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status();
    assert!(compiled.expect("a C compiler").success());
    library
}

const JUMPING_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset (void)
{
    const char *flag = getenv ("ZKIT_TEST_FLAG");
    return flag && access (flag, F_OK) == 0 ? atol (getenv ("ZKIT_TEST_JUMP")) : 0;
}

int clock_gettime (clockid_t clock, struct timespec *now)
{
    static int (*real) (clockid_t, struct timespec *);
    if (!real)
        real = (int (*) (clockid_t, struct timespec *)) dlsym (RTLD_NEXT, "clock_gettime");
    int rc = real (clock, now);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset ();
    return rc;
}

int gettimeofday (struct timeval *now, void *zone)
{
    struct timespec precise;
    int rc = clock_gettime (CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return rc;
}

time_t time (time_t *result)
{
    struct timespec precise;
    clock_gettime (CLOCK_REALTIME, &precise);
    if (result)
        *result = precise.tv_sec;
    return precise.tv_sec;
}
"#;
