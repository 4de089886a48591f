"""A peer under CURVE by pyzmq, for tests/interop.rs: `curve.py FOLDER`, then a line of what to do.

It saves its certificate as peer.key in the folder, where zkit's is zkit.key, and says `ready`.

    serve             binds, lets in whose certificate is in FOLDER/known, and answers one question
    ask ENDPOINT      asks
"""

import os
import signal
import sys

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

DEADLINE = 10  # seconds


def say(line):
    print(line, flush=True)


def certify(socket, folder):
    path = os.path.join(folder, "peer.key_secret")
    socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate(path)


def serve(context, folder):
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve(domain="*", location=os.path.join(folder, "known"))
    socket = context.socket(zmq.REP)
    certify(socket, folder)
    socket.curve_server = True
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    say(f"at tcp://127.0.0.1:{port}")
    question = socket.recv(copy=False)
    answer = f"{question.bytes.decode()} of {question.get('User-Id')}"
    socket.send_string(answer)
    sys.stdin.readline()
    authenticator.stop()


def ask(context, folder, endpoint):
    socket = context.socket(zmq.REQ)
    certify(socket, folder)
    socket.curve_serverkey, _ = zmq.auth.load_certificate(os.path.join(folder, "zkit.key"))
    socket.connect(endpoint)
    socket.send_string("Hello")
    say(socket.recv_string())


def main():
    signal.alarm(60)
    folder = sys.argv[1]
    zmq.auth.create_certificates(folder, "peer")
    context = zmq.Context()
    context.setsockopt(zmq.RCVTIMEO, DEADLINE * 1000)
    context.setsockopt(zmq.LINGER, 1000)
    say("ready")
    what, *arguments = sys.stdin.readline().split()
    {"serve": serve, "ask": ask}[what](context, folder, *arguments)
    context.destroy()


main()
