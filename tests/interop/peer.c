//  A peer by CZMQ, for tests/interop.rs, which says what it is told and what it answers.

#include <czmq.h>
#include <poll.h>
#include <unistd.h>

#define DEADLINE    10000           //  milliseconds
#define HEARTBEAT   500
#define LIVENESS    3

//  Bytes with their number, for there are NULs among them.
#define BYTES(literal) (literal), (sizeof (literal) - 1)

#define IDENTITY    BYTES ("\x01\0\xC3\xBF\0A")
#define END         BYTES ("END")
#define HELLO       BYTES ("hello")
#define TOPIC       BYTES ("\0topic\0")
#define OTHER       BYTES ("\0topic\1")
#define READY       BYTES ("\x01")
#define BEAT        BYTES ("\x02")

#define MESSAGES    6
#define FRAMES      3

static const int s_sizes [MESSAGES][FRAMES] = {
    { 5, -1, -1 }, { 0, -1, -1 }, { 3, 0, 7 }, { 0, 0, 1 }, { 255, 256, 0 }, { 1, 1 << 20, 1 }
};

static void
s_say (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vprintf (format, arguments);
    va_end (arguments);
    putchar ('\n');
    fflush (stdout);
}

static void
s_fail (const char *why)
{
    s_say ("failed: %s (%s)", why, zmq_strerror (errno));
    exit (1);
}

//  A message of the set, with a frame in front of it if there is one.
static zmsg_t *
s_message (int number, const void *first, size_t first_size)
{
    zmsg_t *msg = zmsg_new ();
    if (first)
        zmsg_addmem (msg, first, first_size);
    for (int index = 0; index < FRAMES && s_sizes [number][index] >= 0; index++) {
        size_t size = (size_t) s_sizes [number][index];
        zframe_t *frame = zframe_new (NULL, size);
        for (size_t at = 0; at < size; at++)
            zframe_data (frame) [at] = (byte) (size + 7 * at + (at >> 8));
        zmsg_append (msg, &frame);
    }
    return msg;
}

static bool
s_is (zframe_t *frame, const void *data, size_t size)
{
    return frame && zframe_size (frame) == size && memcmp (zframe_data (frame), data, size) == 0;
}

static zmsg_t *
s_recv (zsock_t *socket)
{
    zmsg_t *msg = zmsg_recv (socket);
    if (!msg)
        s_fail ("nothing comes");
    return msg;
}

static void
s_send (zsock_t *socket, zmsg_t *msg)
{
    if (zmsg_send (&msg, socket) != 0)
        s_fail ("cannot send");
}

static void
s_expect (zmsg_t *msg, int number, const void *first, size_t first_size)
{
    zmsg_t *expected = s_message (number, first, first_size);
    zframe_t *other = zmsg_first (expected);
    bool same = zmsg_size (msg) == zmsg_size (expected);
    for (zframe_t *frame = zmsg_first (msg); same && frame; frame = zmsg_next (msg)) {
        same = zframe_eq (frame, other);
        other = zmsg_next (expected);
    }
    if (!same) {
        zmsg_print (msg);
        s_say ("failed: that came for message %d", number);
        exit (1);
    }
    zmsg_destroy (&expected);
    zmsg_destroy (&msg);
}

static void
s_pushes (zsock_t *socket)
{
    for (int number = 0; number < MESSAGES; number++)
        s_send (socket, s_message (number, NULL, 0));
}

static void
s_pulls (zsock_t *socket)
{
    for (int number = 0; number < MESSAGES; number++)
        s_expect (s_recv (socket), number, NULL, 0);
}

static void
s_asks (zsock_t *socket)
{
    s_pushes (socket);
    s_pulls (socket);
}

static void
s_asks_in_turn (zsock_t *socket)
{
    for (int number = 0; number < MESSAGES; number++) {
        s_send (socket, s_message (number, NULL, 0));
        s_expect (s_recv (socket), number, NULL, 0);
    }
}

static void
s_router_asks (zsock_t *socket)
{
    zsock_set_router_mandatory (socket, 1);
    int64_t give_up = zclock_mono () + DEADLINE;
    for (int number = 0; number < MESSAGES; number++) {
        zmsg_t *msg = s_message (number, IDENTITY);
        while (zmsg_send (&msg, socket) != 0) {
            if (errno != EHOSTUNREACH || zclock_mono () > give_up)
                s_fail ("cannot send");
            //  Not there yet.
            zmsg_destroy (&msg);
            zclock_sleep (10);
            msg = s_message (number, IDENTITY);
        }
    }
    for (int number = 0; number < MESSAGES; number++)
        s_expect (s_recv (socket), number, IDENTITY);
}

static void
s_echoes (zsock_t *socket)
{
    for (;;) {
        zmsg_t *msg = s_recv (socket);
        if (s_is (zmsg_last (msg), END)) {
            zmsg_destroy (&msg);
            return;
        }
        s_send (socket, msg);
    }
}

static void
s_publishes (zsock_t *socket)
{
    int64_t give_up = zclock_mono () + DEADLINE;
    struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
    while (poll (&input, 1, 10) == 0) {
        zmsg_t *hello = zmsg_new ();
        zmsg_addmem (hello, HELLO);
        s_send (socket, hello);
        if (zclock_mono () > give_up)
            s_fail ("nobody says go");
    }
    char line [8];
    if (!fgets (line, sizeof (line), stdin) || strneq (line, "go\n"))
        s_fail ("nobody says go");
    for (int number = 0; number < MESSAGES; number++) {
        s_send (socket, s_message (number, OTHER));
        s_send (socket, s_message (number, TOPIC));
    }
}

static void
s_subscribes (zsock_t *socket)
{
    zmsg_t *hello = s_recv (socket);
    if (zmsg_size (hello) != 1 || !s_is (zmsg_first (hello), HELLO))
        s_fail ("the first message is not hello");
    zmsg_destroy (&hello);
    s_say ("ready");
    for (int number = 0; number < MESSAGES; number++) {
        zmsg_t *msg = s_recv (socket);
        while (s_is (zmsg_first (msg), HELLO)) {
            zmsg_destroy (&msg);
            msg = s_recv (socket);
        }
        s_expect (msg, number, TOPIC);
    }
}

static void
s_send_frame (zsock_t *socket, const void *data, size_t size)
{
    zmsg_t *msg = zmsg_new ();
    zmsg_addmem (msg, data, size);
    s_send (socket, msg);
}

static void
s_sp_works (zsock_t *socket)
{
    s_send_frame (socket, READY);
    s_echoes (socket);
}

static void
s_pp_works (zsock_t *socket)
{
    s_send_frame (socket, READY);
    zpoller_t *poller = zpoller_new (socket, NULL);
    int64_t heard = zclock_mono ();
    int64_t beat = heard + HEARTBEAT;
    while (zclock_mono () < heard + HEARTBEAT * LIVENESS) {
        int64_t left = beat - zclock_mono ();
        if (zpoller_wait (poller, left > 0? (int) left: 0)) {
            heard = zclock_mono ();
            zmsg_t *msg = s_recv (socket);
            if (zmsg_size (msg) >= 3)
                s_send (socket, msg);
            else {
                if (zmsg_size (msg) != 1 || !s_is (zmsg_first (msg), BEAT))
                    s_fail ("neither a request nor a heartbeat");
                s_say ("heartbeat");
                zmsg_destroy (&msg);
            }
        }
        if (zclock_mono () >= beat) {
            beat = zclock_mono () + HEARTBEAT;
            s_send_frame (socket, BEAT);
        }
    }
    s_fail ("the queue is silent");
}

static const struct {
    const char *name;
    int type;
    void (*part) (zsock_t *socket);
} s_roles [] = {
    { "req", ZMQ_REQ, s_asks_in_turn },
    { "rep", ZMQ_REP, s_echoes },
    { "dealer-asks", ZMQ_DEALER, s_asks },
    { "dealer-echoes", ZMQ_DEALER, s_echoes },
    { "router-asks", ZMQ_ROUTER, s_router_asks },
    { "router-echoes", ZMQ_ROUTER, s_echoes },
    { "pub", ZMQ_PUB, s_publishes },
    { "sub", ZMQ_SUB, s_subscribes },
    { "push", ZMQ_PUSH, s_pushes },
    { "pull", ZMQ_PULL, s_pulls },
    { "pair-asks", ZMQ_PAIR, s_asks },
    { "pair-echoes", ZMQ_PAIR, s_echoes },
    { "sp-worker", ZMQ_REQ, s_sp_works },
    { "pp-worker", ZMQ_DEALER, s_pp_works },
};

//  An option that CZMQ would take for a C string, and so end at its first NUL.
static void
s_set (zsock_t *socket, int option, const void *data, size_t size)
{
    if (zmq_setsockopt (zsock_resolve (socket), option, data, size) != 0)
        s_fail ("cannot set an option");
}

static void
s_play (const char *name, const char *how, const char *endpoint)
{
    size_t role = 0;
    while (role < sizeof (s_roles) / sizeof (*s_roles) && strneq (s_roles [role].name, name))
        role++;
    if (role == sizeof (s_roles) / sizeof (*s_roles))
        s_fail ("no such role");
    zsock_t *socket = zsock_new (s_roles [role].type);
    zsock_set_linger (socket, DEADLINE);
    zsock_set_rcvtimeo (socket, DEADLINE);
    zsock_set_sndtimeo (socket, DEADLINE);
    if (s_roles [role].type == ZMQ_DEALER && strneq (name, "pp-worker"))
        s_set (socket, ZMQ_IDENTITY, IDENTITY);
    if (s_roles [role].type == ZMQ_SUB) {
        zsock_set_linger (socket, 0);
        s_set (socket, ZMQ_SUBSCRIBE, TOPIC);
        s_set (socket, ZMQ_SUBSCRIBE, HELLO);
    }
    if (streq (how, "bind")) {
        //  zsock_bind would give out the same few ports again and again, and whoever was connected
        //  to them before may come back.
        if (zmq_bind (zsock_resolve (socket), endpoint) != 0)
            s_fail ("cannot bind");
        char *bound = zsock_last_endpoint (socket);
        s_say ("at %s", bound);
        free (bound);
    }
    else {
        if (zsock_connect (socket, "%s", endpoint) != 0)
            s_fail ("cannot connect");
        s_say ("at %s", endpoint);
    }
    s_roles [role].part (socket);
    zsock_destroy (&socket);
}

int
main (void)
{
    alarm (60);                     //  whatever goes wrong
    int major, minor, patch;
    zmq_version (&major, &minor, &patch);
    s_say ("CZMQ %d.%d.%d, libzmq %d.%d.%d",
           CZMQ_VERSION_MAJOR, CZMQ_VERSION_MINOR, CZMQ_VERSION_PATCH, major, minor, patch);
    setvbuf (stdin, NULL, _IONBF, 0);   //  what is there is to be seen by poll
    char line [512], role [32], how [16], endpoint [400];
    while (fgets (line, sizeof (line), stdin)) {
        if (sscanf (line, "%31s %15s %399s", role, how, endpoint) != 3)
            s_fail ("no such command");
        s_play (role, how, endpoint);
        s_say ("done");
    }
    return 0;
}
