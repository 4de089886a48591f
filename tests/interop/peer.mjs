// A peer by zeromq.js, for tests/interop.rs, which says what it is told and what it answers.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

// Not by import: that would not look into NODE_PATH.
const require = createRequire(import.meta.url);
const zmq = require("zeromq");

const DEADLINE = 10_000; // milliseconds

const IDENTITY = "\u0001\0\u00ff\0A";
const END = [Buffer.from("END")];
const HELLO = [Buffer.from("hello")];
const TOPIC = Buffer.from("\0topic\0");
const OTHER = Buffer.from("\0topic\u0001");

function content(size) {
  const bytes = Buffer.alloc(size);
  for (let index = 0; index < size; index++) {
    bytes[index] = size + 7 * index + (index >> 8);
  }
  return bytes;
}

const SIZES = [[5], [0], [3, 0, 7], [0, 0, 1], [255, 256, 0], [1, 1 << 20, 1]];
const MESSAGES = SIZES.map((sizes) => sizes.map(content));

function say(line) {
  process.stdout.write(line + "\n");
}

function same(one, other) {
  return one.length === other.length && one.every((frame, index) => frame.equals(other[index]));
}

function expect(received, message) {
  if (!same(received, message)) {
    const frames = received.map((frame) => `${frame.length}:${frame.toString("hex", 0, 20)}`);
    throw new Error(`got ${frames} for ${message.map((frame) => frame.length)}`);
  }
}

async function asks(socket) {
  const atOnce = !(socket instanceof zmq.Request);
  for (const message of MESSAGES) {
    await socket.send(message);
    if (!atOnce) {
      expect(await socket.receive(), message);
    }
  }
  if (atOnce) {
    for (const message of MESSAGES) {
      expect(await socket.receive(), message);
    }
  }
}

async function routerAsks(socket) {
  socket.mandatory = true;
  const identity = Buffer.from(IDENTITY);
  const giveUp = Date.now() + DEADLINE;
  for (const message of MESSAGES) {
    for (;;) {
      try {
        await socket.send([identity, ...message]);
        break;
      } catch (error) {
        // Not there yet.
        if (error.code !== "EHOSTUNREACH" || Date.now() > giveUp) {
          throw error;
        }
        await sleep(10);
      }
    }
  }
  for (const message of MESSAGES) {
    expect(await socket.receive(), [identity, ...message]);
  }
}

async function echoes(socket) {
  for (;;) {
    const message = await socket.receive();
    if (same(message.slice(-1), END)) {
      return;
    }
    await socket.send(message);
  }
}

async function pushes(socket) {
  for (const message of MESSAGES) {
    await socket.send(message);
  }
}

async function pulls(socket) {
  for (const message of MESSAGES) {
    expect(await socket.receive(), message);
  }
}

async function publishes(socket, nextLine) {
  const giveUp = Date.now() + DEADLINE;
  let told;
  const telling = nextLine().then((line) => (told = line));
  while (told === undefined) {
    await socket.send(HELLO);
    await Promise.race([sleep(10), telling]);
    if (Date.now() > giveUp) {
      throw new Error("nobody says go");
    }
  }
  expect([Buffer.from(told)], [Buffer.from("go")]);
  for (const message of MESSAGES) {
    await socket.send([OTHER, ...message]);
    await socket.send([TOPIC, ...message]);
  }
}

async function subscribes(socket) {
  expect(await socket.receive(), HELLO);
  say("ready");
  for (const message of MESSAGES) {
    let received;
    do {
      received = await socket.receive();
    } while (same(received, HELLO));
    expect(received, [TOPIC, ...message]);
  }
}

const ROLES = {
  req: [zmq.Request, asks],
  rep: [zmq.Reply, echoes],
  "dealer-asks": [zmq.Dealer, asks],
  "dealer-echoes": [zmq.Dealer, echoes],
  "router-asks": [zmq.Router, routerAsks],
  "router-echoes": [zmq.Router, echoes],
  pub: [zmq.Publisher, publishes],
  sub: [zmq.Subscriber, subscribes],
  push: [zmq.Push, pushes],
  pull: [zmq.Pull, pulls],
  "pair-asks": [zmq.Pair, asks],
  "pair-echoes": [zmq.Pair, echoes],
};

async function play(role, how, endpoint, nextLine) {
  const [Socket, part] = ROLES[role];
  const socket = new Socket({ linger: DEADLINE });
  try {
    if ("receiveTimeout" in socket) socket.receiveTimeout = DEADLINE;
    if ("sendTimeout" in socket) socket.sendTimeout = DEADLINE;
    if (role.startsWith("dealer")) {
      socket.routingId = IDENTITY;
    }
    if (role === "sub") {
      socket.linger = 0;
      socket.subscribe(TOPIC, HELLO[0]);
    }
    if (how === "bind") {
      await socket.bind(endpoint);
      say(`at ${socket.lastEndpoint}`);
    } else {
      socket.connect(endpoint);
      say(`at ${endpoint}`);
    }
    await part(socket, nextLine);
  } finally {
    socket.close();
  }
}

setTimeout(() => process.exit(1), 60_000).unref(); // whatever goes wrong
say(`zeromq.js ${require("zeromq/package.json").version}, libzmq ${zmq.version}`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = async () => (await lines.next()).value;
for (let line; (line = await nextLine()) !== undefined; ) {
  const [role, how, endpoint] = line.split(" ");
  try {
    await play(role, how, endpoint, nextLine);
  } catch (error) {
    say(`failed: ${error}`);
    break;
  }
  say("done");
}
process.stdin.destroy();
