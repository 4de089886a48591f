#!/usr/bin/env python3
"""The pyzmq side of the comparison: does what zkit's workload of the same name does.

pyzmq.py                    prints the versions and the names of its workloads
pyzmq.py NAME COUNT         prints the nanoseconds of one operation
pyzmq.py --proxy FRONTEND BACKEND
                            is a proxy between these endpoints
pyzmq.py --spqueue FRONTEND BACKEND
                            is a queue between these endpoints
"""

import asyncio
import os
import platform
import resource
import sys
import threading
from collections import deque
from time import process_time_ns as cpu_time
from time import thread_time_ns as thread_cpu_time

import zmq
import zmq.asyncio

BODY = b"0123456789abcdef"
THREE = [b"worker1", b"", BODY]
BATCH = 500
WARM_UP = 200
HOUR = 3600

INPROC = "inproc://messages"
TCP = "tcp://127.0.0.1:*"


def ends(ctx, bound, connected, endpoint):
    """A socket that is bound, and one that is connected to it."""
    bound, connected = ctx.socket(bound), ctx.socket(connected)
    bound.bind(endpoint)
    connected.connect(bound.last_endpoint)
    return bound, connected


def timed(clock, work):
    start = clock()
    work()
    return clock() - start


# Messages from a PUSH to a PULL: of one frame by `send`, of three by `send_multipart`.


def push_pull(endpoint, frames):
    push, pull = ends(zmq.Context(), zmq.PUSH, zmq.PULL, endpoint)
    if len(frames) == 1:
        (body,) = frames
        return (lambda: push.send(body)), pull.recv
    return (lambda: push.send_multipart(frames)), pull.recv_multipart


def repeat(count, operation):
    for _ in range(count):
        operation()


def stream(frames, endpoint=INPROC):
    def run(count):
        send, recv = push_pull(endpoint, frames)
        send()
        recv()  # they are connected
        sender = threading.Thread(target=repeat, args=(count, send))

        def work():
            sender.start()
            repeat(count, recv)

        time = timed(cpu_time, work)
        sender.join()
        return time

    return run


def batch(frames):
    def run(count):
        send, recv = push_pull(INPROC, frames)

        def batches(count):
            for first in range(0, count, BATCH):
                size = min(BATCH, count - first)
                repeat(size, send)
                repeat(size, recv)

        batches(BATCH)
        return timed(cpu_time, lambda: batches(count))

    return run


def ping_pong(server, client, endpoint):
    def run(count):
        answering, asking = ends(zmq.Context(), server, client, endpoint)

        def answer():
            answering.send(answering.recv())

        def ask():
            asking.send(BODY)
            asking.recv()

        answerer = threading.Thread(target=repeat, args=(WARM_UP + count, answer))
        answerer.start()
        repeat(WARM_UP, ask)
        time = timed(cpu_time, lambda: repeat(count, ask))
        answerer.join()
        return time

    return run


# A Poller's work. Only the thread that polls is timed.


def context(sockets):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ctx = zmq.Context()
    ctx.max_sockets = sockets
    return ctx


def dispatch(sockets):
    """One busy socket among others that are idle."""

    def run(count):
        ctx = context(sockets + 1)
        pull, push = ends(ctx, zmq.PULL, zmq.PUSH, INPROC)
        idle = [ctx.socket(zmq.PULL) for _ in range(sockets - 1)]
        poller = zmq.Poller()
        for socket in [*idle, pull]:
            poller.register(socket, zmq.POLLIN)
        sender = threading.Thread(target=repeat, args=(count, lambda: push.send(BODY)))

        def work():
            left = count
            while left > 0:
                for socket, _ in poller.poll():
                    socket.recv()
                    left -= 1

        sender.start()
        time = timed(thread_cpu_time, work)
        sender.join()
        return time

    return run


def all_busy(sockets):
    """Every socket has one message in each round. Rounds are sent and read in turn."""

    def run(count):
        rounds = -(-count // sockets)
        ctx = context(2 * sockets)
        pairs = [ends(ctx, zmq.PULL, zmq.PUSH, f"inproc://{i}") for i in range(sockets)]
        poller = zmq.Poller()
        for pull, _ in pairs:
            poller.register(pull, zmq.POLLIN)
        turn = threading.Barrier(2)

        def send():
            turn.wait()
            for _, push in pairs:
                push.send(BODY)
            turn.wait()

        def read():
            turn.wait()
            turn.wait()
            left = sockets
            while left > 0:
                for socket, _ in poller.poll():
                    socket.recv()
                    left -= 1

        sender = threading.Thread(target=repeat, args=(rounds, send))
        sender.start()
        time = timed(thread_cpu_time, lambda: repeat(rounds, read))
        sender.join()
        # The rounds are whole ones: of the time of as many messages as were asked for.
        return time * count / (rounds * sockets)

    return run


def idle_timers(timers):
    """A busy socket beside timers, in asyncio: a Poller has none."""

    async def receive(ctx, count, start):
        loop = asyncio.get_running_loop()
        handles = [loop.call_later(HOUR, lambda: None) for _ in range(timers)]
        pull = ctx.socket(zmq.PULL)
        pull.bind(INPROC)
        start()
        begin = thread_cpu_time()
        for _ in range(count):
            await pull.recv()
        time = thread_cpu_time() - begin
        for handle in handles:
            handle.cancel()
        return time

    def run(count):
        ctx = zmq.asyncio.Context()

        def send():
            push = zmq.Context(ctx).socket(zmq.PUSH)  # a blocking one
            push.connect(INPROC)
            repeat(count, lambda: push.send(BODY))

        sender = threading.Thread(target=send)
        time = asyncio.run(receive(ctx, count, sender.start))
        sender.join()
        return time

    return run


def push_pop(count):
    msg = list(THREE)

    def operation():
        msg.insert(0, b"worker1")
        msg.pop(0)

    return timed(cpu_time, lambda: repeat(count, operation))


# The proxy and the queue alone: zkit's program has their clients and workers.


def end_with_parent():
    sys.stdin.buffer.read(1)  # nobody writes to it: it ends with whoever could
    os._exit(0)


def bind(ctx, kind, endpoint):
    socket = ctx.socket(kind)
    socket.bind(endpoint)
    return socket


def proxy(frontend, backend):
    ctx = zmq.Context()
    zmq.proxy(bind(ctx, zmq.ROUTER, frontend), bind(ctx, zmq.DEALER, backend))


def queue(frontend, backend):
    """Of the guide: both sockets, of which the clients' takes part while there is a free worker,
    and a message of each that has one."""
    ctx = zmq.Context()
    frontend, backend = bind(ctx, zmq.ROUTER, frontend), bind(ctx, zmq.ROUTER, backend)
    workers = deque()
    for_workers, for_both = zmq.Poller(), zmq.Poller()
    for_workers.register(backend, zmq.POLLIN)
    for_both.register(backend, zmq.POLLIN)
    for_both.register(frontend, zmq.POLLIN)
    while True:
        readable = dict((for_both if workers else for_workers).poll())
        if backend in readable:
            # The worker, an empty frame, and READY or a client, an empty frame and a reply.
            worker, _, *rest = backend.recv_multipart()
            workers.append(worker)
            if len(rest) > 1:
                frontend.send_multipart(rest)
        if frontend in readable:
            backend.send_multipart([workers.popleft(), b"", *frontend.recv_multipart()])


def is_elsewhere(_):
    sys.exit("zkit's program has the other sides of it")


# What a workload runs, and by what its count is divided: more would take too long.
WORKLOADS = {
    "push-pull-3-stream": (stream(THREE), 10),
    "push-pull-3-batch": (batch(THREE), 10),
    "push-pull-1-stream": (stream([BODY]), 10),
    "push-pull-1-batch": (batch([BODY]), 10),
    "push-pull-3-tcp": (stream(THREE, TCP), 5),
    "req-rep-inproc": (ping_pong(zmq.REP, zmq.REQ, INPROC), 5),
    "req-rep-tcp": (ping_pong(zmq.REP, zmq.REQ, TCP), 5),
    "pair-inproc": (ping_pong(zmq.PAIR, zmq.PAIR, INPROC), 5),
    "pair-tcp": (ping_pong(zmq.PAIR, zmq.PAIR, TCP), 5),
    "push-pop": (push_pop, 10),
    "dispatch-1": (dispatch(1), 10),
    "dispatch-10": (dispatch(10), 10),
    "dispatch-100": (dispatch(100), 100),
    "dispatch-1000": (dispatch(1_000), 1_000),
    "dispatch-9000": (dispatch(9_000), 10_000),
    "all-busy-1000": (all_busy(1_000), 1),
    "idle-timers-0": (idle_timers(0), 20),
    "idle-timers-100": (idle_timers(100), 20),
    "idle-timers-10000": (idle_timers(10_000), 20),
    "proxy": (is_elsewhere, 1),
    "proxy-cpu": (is_elsewhere, 1),
    "proxy-full-cpu": (is_elsewhere, 1),
    "spqueue": (is_elsewhere, 1),
    "spqueue-cpu": (is_elsewhere, 1),
    "spqueue-loop-cpu": (is_elsewhere, 1),
}


def main(args):
    match args:
        case []:
            python = platform.python_version()
            print(f"pyzmq {zmq.pyzmq_version()}, libzmq {zmq.zmq_version()}, Python {python}")
            print(*WORKLOADS, sep="\n")
        case ["--proxy" | "--spqueue" as option, frontend, backend]:
            threading.Thread(target=end_with_parent, daemon=True).start()
            (proxy if option == "--proxy" else queue)(frontend, backend)
        case [name, count] if name in WORKLOADS and count.isdigit() and int(count) > 0:
            run, divisor = WORKLOADS[name]
            count = int(count)
            if divisor > 1:
                count = count // divisor + 1
            print(f"{run(count) / count:.2f}")
        case _:
            sys.exit("usage: pyzmq.py [NAME COUNT]")


if __name__ == "__main__":
    main(sys.argv[1:])
