//! Who is let in, whose turn it is, and who is not waited for.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::thread;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;

use crate::common::alone;
use crate::gateway::{Client, Gateway, MOMENT, message};
use crate::staff::Worker;

/// The first in line, with more to send than there is ever room for, does not keep the others out.
#[test]
fn clients_that_wait_for_a_full_queue_take_turns() {
    const MANY: usize = 1_000;
    const FEW: usize = 10;

    let gateway = Gateway::start(
        "io_threads = 1
        group = [{ name = 'chat', type = 1, queue = 2, hwm = 1 }]
        reply = [{ type = 1 }]",
    );
    let mut clients: Vec<Client> = (0..8).map(|_| gateway.client()).collect();
    let mut held = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        let messages = if number < 4 { MANY } else { FEW };
        client.write(&message(1, &[number as u8]).repeat(messages));
        gateway.wait_until("it waits for room", |metrics| {
            let full = metrics.sum("zgateway_requests_total", &[]) == 3;
            full && metrics.sum("zgateway_held_total", &[]) > held
        });
        held = gateway.metric("zgateway_held_total", &[]);
    }
    let back_end = gateway.back_end("chat", 1);
    let mut few = (clients.len() - 4) * FEW;
    let mut received = 0;
    while few > 0 {
        let body = back_end.recv().body;
        few -= usize::from(body[0] >= 4);
        received += 1;
    }
    assert!(received < MANY, "others had to wait for {received} messages");
    clients.into_iter().for_each(Client::reset);
    gateway.wait_for_connections(0);
    gateway.end();
}

#[test]
fn at_the_end_a_client_that_is_gone_for_good_is_not_waited_for() {
    let gateway = Gateway::start("io_threads = 1\ngrace = '10m'");
    let back_end = gateway.back_end("chat", 1);
    let (mut client, mut idle) = (gateway.client(), gateway.client());
    client.send(1, "never to be answered");
    back_end.expect("never to be answered");
    gateway.signal(Signal::SIGTERM);
    // It is closed at once, by the same thread.
    idle.expect_closed();
    client.reset();
    assert_eq!(gateway.ended().unanswered, 1);
}

#[test]
fn a_gateway_whose_clients_come_and_go_hears_of_its_end() {
    let gateway = Gateway::start("");
    let clients = gateway.clients;
    let storms = [(); 4].map(|()| {
        thread::spawn(move || {
            // Until nobody listens. A gateway that is busy may let one wait for long.
            let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
            while !TcpStream::connect_timeout(&clients, MOMENT).is_err_and(refused) {}
        })
    });
    gateway.wait_until("it storms", |metrics| metrics.sum("zgateway_accepted_total", &[]) > 1_000);
    gateway.signal(Signal::SIGTERM);
    gateway.ended();
    storms.into_iter().for_each(|storm| storm.join().expect("it ends with the gateway"));
}

/// There are too few descriptors for all clients, and then none are left for others.
#[test]
fn clients_leave_descriptors_to_back_ends() {
    alone(|| {
        setrlimit(Resource::RLIMIT_NOFILE, 300, 300).expect("it may be lowered");
        let gateway = Gateway::start("io_threads = 4");
        let mut clients: Vec<Client> = (0..40).map(|_| gateway.client()).collect();
        gateway.wait_for_connections(300 - 256 - 4 * 8);
        let _echo = Worker::echo(gateway.back_end("chat", 1));
        // Those who wait are let in when others leave.
        for mut client in clients.drain(..) {
            client.send(1, "let in");
            client.expect(1, "let in");
        }
        gateway.wait_for_connections(0);
        gateway.end();
    });
}
