// A peer by JeroMQ, for tests/interop.rs, which says what it is told and what it answers.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;

public class Peer {
    static final int DEADLINE = 10_000; // milliseconds

    static final byte[] IDENTITY = bytes("\u0001\0\u00ff\0A");
    static final byte[] END = bytes("END");
    static final byte[] HELLO = bytes("hello");
    static final byte[] TOPIC = bytes("\0topic\0");
    static final byte[] OTHER = bytes("\0topic\1");

    static final int[][] SIZES = {{5}, {0}, {3, 0, 7}, {0, 0, 1}, {255, 256, 0}, {1, 1 << 20, 1}};
    static final List<List<byte[]>> MESSAGES = new ArrayList<>();

    static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] content(int size) {
        byte[] bytes = new byte[size];
        for (int index = 0; index < size; index++) {
            bytes[index] = (byte) (size + 7 * index + (index >> 8));
        }
        return bytes;
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static List<byte[]> with(byte[] first, List<byte[]> message) {
        List<byte[]> frames = new ArrayList<>();
        frames.add(first);
        frames.addAll(message);
        return frames;
    }

    static boolean same(List<byte[]> one, List<byte[]> other) {
        return Arrays.deepEquals(one.toArray(), other.toArray());
    }

    static void expect(List<byte[]> received, List<byte[]> message) {
        if (!same(received, message)) {
            StringBuilder text = new StringBuilder("got");
            for (byte[] frame : received) {
                text.append(" ").append(frame.length).append(":");
                for (int index = 0; index < Math.min(frame.length, 20); index++) {
                    text.append(String.format("%02x", frame[index]));
                }
            }
            text.append(" for");
            message.forEach(frame -> text.append(" ").append(frame.length));
            throw new IllegalStateException(text.toString());
        }
    }

    static void send(ZMQ.Socket socket, List<byte[]> message) {
        for (int index = 0; index < message.size(); index++) {
            boolean last = index == message.size() - 1;
            if (!socket.send(message.get(index), last ? 0 : ZMQ.SNDMORE)) {
                throw new IllegalStateException("not sent: " + socket.base().errno());
            }
        }
    }

    static List<byte[]> receive(ZMQ.Socket socket) {
        List<byte[]> message = new ArrayList<>();
        do {
            byte[] frame = socket.recv();
            if (frame == null) {
                throw new IllegalStateException("nothing comes");
            }
            message.add(frame);
        } while (socket.hasReceiveMore());
        return message;
    }

    static void asks(ZMQ.Socket socket) {
        boolean atOnce = socket.getType() != ZMQ.REQ;
        for (List<byte[]> message : MESSAGES) {
            send(socket, message);
            if (!atOnce) {
                expect(receive(socket), message);
            }
        }
        if (atOnce) {
            pulls(socket);
        }
    }

    static void routerAsks(ZMQ.Socket socket) throws Exception {
        socket.setRouterMandatory(true);
        long giveUp = System.currentTimeMillis() + DEADLINE;
        for (List<byte[]> message : MESSAGES) {
            while (!isSent(socket, IDENTITY)) { // not there yet
                if (System.currentTimeMillis() > giveUp) {
                    throw new IllegalStateException("nobody is there");
                }
                Thread.sleep(10);
            }
            send(socket, message);
        }
        for (List<byte[]> message : MESSAGES) {
            expect(receive(socket), with(IDENTITY, message));
        }
    }

    static boolean isSent(ZMQ.Socket socket, byte[] identity) {
        try {
            return socket.sendMore(identity);
        } catch (ZMQException error) {
            if (error.getErrorCode() != zmq.ZError.EHOSTUNREACH) {
                throw error;
            }
            return false;
        }
    }

    static void echoes(ZMQ.Socket socket) {
        for (;;) {
            List<byte[]> message = receive(socket);
            if (Arrays.equals(message.get(message.size() - 1), END)) {
                return;
            }
            send(socket, message);
        }
    }

    static void pushes(ZMQ.Socket socket) {
        MESSAGES.forEach(message -> send(socket, message));
    }

    static void pulls(ZMQ.Socket socket) {
        MESSAGES.forEach(message -> expect(receive(socket), message));
    }

    static void publishes(ZMQ.Socket socket) throws Exception {
        long giveUp = System.currentTimeMillis() + DEADLINE;
        while (!INPUT.ready()) {
            socket.send(HELLO);
            Thread.sleep(10);
            if (System.currentTimeMillis() > giveUp) {
                throw new IllegalStateException("nobody says go");
            }
        }
        expect(List.of(bytes(INPUT.readLine())), List.of(bytes("go")));
        for (List<byte[]> message : MESSAGES) {
            send(socket, with(OTHER, message));
            send(socket, with(TOPIC, message));
        }
    }

    static void subscribes(ZMQ.Socket socket) {
        expect(receive(socket), List.of(HELLO));
        say("ready");
        for (List<byte[]> message : MESSAGES) {
            List<byte[]> received;
            do {
                received = receive(socket);
            } while (same(received, List.of(HELLO)));
            expect(received, with(TOPIC, message));
        }
    }

    static int type(String role) {
        switch (role.split("-")[0]) {
            case "req": return ZMQ.REQ;
            case "rep": return ZMQ.REP;
            case "dealer": return ZMQ.DEALER;
            case "router": return ZMQ.ROUTER;
            case "pub": return ZMQ.PUB;
            case "sub": return ZMQ.SUB;
            case "push": return ZMQ.PUSH;
            case "pull": return ZMQ.PULL;
            case "pair": return ZMQ.PAIR;
            default: throw new IllegalArgumentException(role);
        }
    }

    static void play(ZMQ.Socket socket, String role, String how, String endpoint)
            throws Exception {
        socket.setLinger(DEADLINE);
        socket.setReceiveTimeOut(DEADLINE);
        socket.setSendTimeOut(DEADLINE);
        if (role.startsWith("dealer")) {
            socket.setIdentity(IDENTITY);
        }
        if (role.equals("sub")) {
            socket.setLinger(0);
            socket.subscribe(TOPIC);
            socket.subscribe(HELLO);
        }
        if (how.equals("bind")) {
            // This JeroMQ cannot say which port a wildcard has become.
            String place = endpoint.substring(0, endpoint.length() - ":*".length());
            endpoint = place + ":" + socket.bindToRandomPort(place);
        } else {
            socket.connect(endpoint);
        }
        say("at " + endpoint);
        switch (role) {
            case "req": case "dealer-asks": case "pair-asks": asks(socket); break;
            case "rep": case "dealer-echoes": case "router-echoes": case "pair-echoes":
                echoes(socket);
                break;
            case "router-asks": routerAsks(socket); break;
            case "pub": publishes(socket); break;
            case "sub": subscribes(socket); break;
            case "push": pushes(socket); break;
            case "pull": pulls(socket); break;
            default: throw new IllegalArgumentException(role);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread guard = new Thread(() -> {
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException error) {
                // as good a reason to end
            }
            Runtime.getRuntime().halt(1); // whatever goes wrong
        });
        guard.setDaemon(true);
        guard.start();
        for (int[] sizes : SIZES) {
            List<byte[]> message = new ArrayList<>();
            Arrays.stream(sizes).forEach(size -> message.add(content(size)));
            MESSAGES.add(message);
        }
        say("JeroMQ " + ZMQ.getVersionString());
        ZMQ.Context context = ZMQ.context(1);
        String line = INPUT.readLine();
        while (line != null) {
            String[] words = line.split(" ");
            ZMQ.Socket socket = context.socket(type(words[0]));
            try {
                play(socket, words[0], words[1], words[2]);
                say("done");
                // By then everything has arrived. At times this JeroMQ loses what a socket that is
                // closed has still to send, whatever its linger.
                line = INPUT.readLine();
            } catch (RuntimeException error) {
                say("failed: " + error);
                line = null;
            }
            socket.close();
        }
        context.term();
    }
}
