"""Either side of zgateway in Python, for tests/zgateway/backends.rs: a back-end process by pyzmq, and
a client over a plain socket.

    zgateway.py back-end <endpoint of messages> <endpoint for replies> <what it adds>
    zgateway.py client <host:port> <type> <type of replies> <what replies add>

The back end sends each body back with something added, until it is killed. The client sends a few
messages and ends when it has the replies, each as it should be.
"""

import signal
import socket
import struct
import sys

import zmq

BODIES = [b"", b"one", bytes(range(256)), b"long" * 10_000] + [b"%d" % n for n in range(100)]


def back_end(messages, replies, adds):
    context = zmq.Context()
    pull = context.socket(zmq.PULL)
    pull.connect(messages)
    push = context.socket(zmq.PUSH)
    push.connect(replies)
    while True:
        frame = pull.recv()
        (id,) = struct.unpack(">I", frame[:4])
        push.send(struct.pack(">I", id) + frame[4:] + adds.encode())


def client(address, kind, reply_kind, adds):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        for body in BODIES:
            stream.sendall(struct.pack(">IB", len(body), int(kind)) + body)
        with stream.makefile("rb") as replies:
            for body in BODIES:
                length, got_kind = struct.unpack(">IB", replies.read(5))
                reply = replies.read(length)
                assert got_kind == int(reply_kind), got_kind
                assert reply == body + adds.encode(), (reply[:20], body[:20])
    print(len(BODIES), "replies")


if __name__ == "__main__":
    signal.alarm(60)  # whatever goes wrong
    {"back-end": back_end, "client": client}[sys.argv[1]](*sys.argv[2:])
