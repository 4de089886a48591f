"""A peer by pyzmq, for tests/interop.rs, which says what it is told and what it answers."""

import select
import signal
import sys
import time

import zmq

DEADLINE = 10  # seconds
HEARTBEAT = 0.5
LIVENESS = 3

IDENTITY = "\x01\0\u00ff\0A".encode()
END = [b"END"]
HELLO = [b"hello"]
TOPIC = b"\0topic\0"
OTHER = b"\0topic\1"
READY = b"\x01"
BEAT = b"\x02"


def content(size):
    return bytes((size + 7 * index + (index >> 8)) & 255 for index in range(size))


SIZES = [[5], [0], [3, 0, 7], [0, 0, 1], [255, 256, 0], [1, 1 << 20, 1]]
MESSAGES = [[content(size) for size in sizes] for sizes in SIZES]


class Failed(Exception):
    pass


def say(line):
    print(line, flush=True)


def expect(received, message):
    if received != message:
        frames = [(len(frame), frame[:20].hex()) for frame in received]
        raise Failed(f"got {frames} for {[len(frame) for frame in message]}")


def asks(socket):
    for message in MESSAGES:
        socket.send_multipart(message)
        if socket.type == zmq.REQ:
            expect(socket.recv_multipart(), message)
    if socket.type != zmq.REQ:
        for message in MESSAGES:
            expect(socket.recv_multipart(), message)


def router_asks(socket):
    socket.router_mandatory = True
    give_up = time.monotonic() + DEADLINE
    for message in MESSAGES:
        while True:
            try:
                socket.send_multipart([IDENTITY, *message])
                break
            except zmq.ZMQError as error:
                # Not there yet.
                if error.errno != zmq.EHOSTUNREACH or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
    for message in MESSAGES:
        expect(socket.recv_multipart(), [IDENTITY, *message])


def echoes(socket):
    while (message := socket.recv_multipart())[-1:] != END:
        socket.send_multipart(message)


def pushes(socket):
    for message in MESSAGES:
        socket.send_multipart(message)


def pulls(socket):
    for message in MESSAGES:
        expect(socket.recv_multipart(), message)


def publishes(socket):
    give_up = time.monotonic() + DEADLINE
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        socket.send_multipart(HELLO)
        if time.monotonic() > give_up:
            raise Failed("nobody says go")
    expect([sys.stdin.readline().encode()], [b"go\n"])
    for message in MESSAGES:
        socket.send_multipart([OTHER, *message])
        socket.send_multipart([TOPIC, *message])


def subscribes(socket):
    expect(socket.recv_multipart(), HELLO)
    say("ready")
    for message in MESSAGES:
        while (received := socket.recv_multipart()) == HELLO:
            pass
        expect(received, [TOPIC, *message])


def sp_works(socket):
    socket.send(READY)
    echoes(socket)


def pp_works(socket):
    socket.send(READY)
    heard = time.monotonic()
    beat = heard + HEARTBEAT
    while time.monotonic() < heard + HEARTBEAT * LIVENESS:
        if socket.poll(max(0, beat - time.monotonic()) * 1000):
            heard = time.monotonic()
            message = socket.recv_multipart()
            if message == [BEAT]:
                say("heartbeat")
            elif len(message) >= 3:
                socket.send_multipart(message)
            else:
                raise Failed(f"got {message}")
        if time.monotonic() >= beat:
            beat = time.monotonic() + HEARTBEAT
            socket.send(BEAT)
    raise Failed("the queue is silent")


ROLES = {
    "req": (zmq.REQ, asks),
    "rep": (zmq.REP, echoes),
    "dealer-asks": (zmq.DEALER, asks),
    "dealer-echoes": (zmq.DEALER, echoes),
    "router-asks": (zmq.ROUTER, router_asks),
    "router-echoes": (zmq.ROUTER, echoes),
    "pub": (zmq.PUB, publishes),
    "sub": (zmq.SUB, subscribes),
    "push": (zmq.PUSH, pushes),
    "pull": (zmq.PULL, pulls),
    "pair-asks": (zmq.PAIR, asks),
    "pair-echoes": (zmq.PAIR, echoes),
    "sp-worker": (zmq.REQ, sp_works),
    "pp-worker": (zmq.DEALER, pp_works),
}


def play(context, role, how, endpoint):
    kind, part = ROLES[role]
    with context.socket(kind) as socket:
        socket.linger = socket.rcvtimeo = socket.sndtimeo = DEADLINE * 1000
        if role.startswith("dealer"):
            socket.identity = IDENTITY
        if role == "sub":
            socket.linger = 0
            socket.subscribe(TOPIC)
            socket.subscribe(HELLO[0])
        if how == "bind":
            socket.bind(endpoint)
            endpoint = socket.last_endpoint.decode().rstrip("\0")
        else:
            socket.connect(endpoint)
        say(f"at {endpoint}")
        part(socket)


def main():
    signal.alarm(60)  # whatever goes wrong
    say(f"pyzmq {zmq.__version__}, libzmq {zmq.zmq_version()}")
    with zmq.Context() as context:
        while line := sys.stdin.readline():
            try:
                play(context, *line.split())
            except (Failed, zmq.ZMQError) as error:
                say(f"failed: {error!r}")
                return
            say("done")


main()
