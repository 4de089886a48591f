// A peer under CURVE by zeromq.js, for tests/interop.rs: `curve.mjs FOLDER`, then a line of what to do.
//
// It saves its certificate as peer.key in the folder, where zkit's is zkit.key, and says `ready`.
//
//     serve             binds, lets in whose certificate is in FOLDER/known, and answers one question
//     ask ENDPOINT      asks

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

// Not by import: that would not look into NODE_PATH.
const require = createRequire(import.meta.url);
const zmq = require("zeromq");

const DEADLINE = 10_000; // milliseconds

function say(line) {
  process.stdout.write(`${line}\n`);
}

/// The public key of a certificate's file, as text.
function publicKey(path) {
  return /public-key = "(.{40})"/.exec(readFileSync(path, "utf8"))[1];
}

const DIGITS =
  "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// RFC 32.
function z85(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    const number = bytes.readUInt32BE(at);
    for (let power = 85 ** 4; power >= 1; power /= 85) {
      text += DIGITS[Math.floor(number / power) % 85];
    }
  }
  return text;
}

/// RFC 27: lets in the keys of a folder. Returns who came last.
async function authenticate(known, came) {
  const keys = readdirSync(known).map((name) => publicKey(join(known, name)));
  const handler = new zmq.Router({ linger: 0 });
  await handler.bind("inproc://zeromq.zap.01");
  for await (const [path, , version, request, , , , , credentials] of handler) {
    const key = z85(credentials);
    const status = keys.includes(key) ? ["200", "OK", key] : ["400", "no", ""];
    if (status[0] === "200") came.key = key;
    await handler.send([path, "", version, request, ...status, ""]);
  }
}

async function serve(keys, folder, nextLine) {
  const came = {};
  authenticate(join(folder, "known"), came).catch((error) => say(`failed: ${error}`));
  const socket = new zmq.Reply({ receiveTimeout: DEADLINE, linger: 1000 });
  socket.curveServer = true;
  socket.curveSecretKey = keys.secretKey;
  await socket.bind("tcp://127.0.0.1:*");
  say(`at ${socket.lastEndpoint}`);
  const [question] = await socket.receive();
  await socket.send(`${question} of ${came.key}`);
  await nextLine();
}

async function ask(keys, folder, endpoint) {
  const socket = new zmq.Request({ receiveTimeout: DEADLINE, linger: 1000 });
  socket.curvePublicKey = keys.publicKey;
  socket.curveSecretKey = keys.secretKey;
  socket.curveServerKey = publicKey(join(folder, "zkit.key"));
  socket.connect(endpoint);
  await socket.send("Hello");
  const [answer] = await socket.receive();
  say(answer);
}

setTimeout(() => process.exit(1), 60_000).unref(); // whatever goes wrong
const folder = process.argv[2];
const keys = zmq.curveKeyPair();
writeFileSync(
  join(folder, "peer.key"),
  `metadata\n    name = "Peer"\ncurve\n    public-key = "${keys.publicKey}"\n`,
);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = async () => (await lines.next()).value;
say("ready");
const [what, endpoint] = (await nextLine()).split(" ");
await (what === "serve" ? serve(keys, folder, nextLine) : ask(keys, folder, endpoint));
process.exit(0);
