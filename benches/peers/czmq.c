//  The CZMQ side of the comparison: does what zkit's workload of the same name does.
//
//      cc -O2 -o czmq czmq.c -lczmq -lzmq -lpthread
//      ./czmq                  prints the versions and the names of its workloads
//      ./czmq NAME COUNT       prints the nanoseconds of one operation

#include <czmq.h>
#include <pthread.h>

#define ADDRESS "worker1"
#define BODY "0123456789abcdef"
#define BATCH 500
#define WARM_UP 200

typedef uint64_t count_t;

static void check (bool ok, const char *what)
{
    if (!ok) {
        fprintf (stderr, "czmq: %s failed: %s\n", what, zmq_strerror (zmq_errno ()));
        exit (1);
    }
}

//  What the workload's time is taken with.
static clockid_t clock_id;

static double now_ns (void)
{
    struct timespec time;
    clock_gettime (clock_id, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

//  A thread that uses a socket, started together with the thread that made it.

typedef struct {
    zsock_t *sock;
    count_t count;
    int frames;
    pthread_barrier_t start;
} peer_t;

static pthread_t spawn (void *(*body) (void *), peer_t *peer)
{
    pthread_t thread;
    check (pthread_barrier_init (&peer->start, NULL, 2) == 0, "pthread_barrier_init");
    check (pthread_create (&thread, NULL, body, peer) == 0, "pthread_create");
    return thread;
}

static void join (pthread_t thread, peer_t *peer)
{
    pthread_join (thread, NULL);
    pthread_barrier_destroy (&peer->start);
}

//  Messages over inproc from a PUSH to a PULL.

static void send_one (zsock_t *push, int frames)
{
    zmsg_t *msg = zmsg_new ();
    if (frames == 3) {
        zmsg_addstr (msg, ADDRESS);
        zmsg_addstr (msg, "");
    }
    zmsg_addstr (msg, BODY);
    check (zmsg_send (&msg, push) == 0, "zmsg_send");
}

static void recv_one (zsock_t *pull, size_t expected)
{
    zmsg_t *msg = zmsg_recv (pull);
    check (msg && zmsg_content_size (msg) == expected, "zmsg_recv");
    zmsg_destroy (&msg);
}

static size_t size_of (int frames)
{
    return strlen (BODY) + (frames == 3 ? strlen (ADDRESS) : 0);
}

static void *stream_push (void *arg)
{
    peer_t *peer = (peer_t *) arg;
    pthread_barrier_wait (&peer->start);
    for (count_t i = 0; i < peer->count; i++)
        send_one (peer->sock, peer->frames);
    return NULL;
}

static double stream (count_t count, int frames)
{
    zsock_t *push = zsock_new_push ("@inproc://messages");
    zsock_t *pull = zsock_new_pull (">inproc://messages");
    check (push && pull, "zsock_new");
    peer_t peer = { .sock = push, .count = count, .frames = frames };
    pthread_t thread = spawn (stream_push, &peer);
    pthread_barrier_wait (&peer.start);
    double start = now_ns ();
    for (count_t i = 0; i < count; i++)
        recv_one (pull, size_of (frames));
    double time = now_ns () - start;
    join (thread, &peer);
    zsock_destroy (&push);
    zsock_destroy (&pull);
    return time;
}

static void batch_pass (zsock_t *push, zsock_t *pull, count_t count, int frames)
{
    for (count_t i = 0; i < count; i++)
        send_one (push, frames);
    for (count_t i = 0; i < count; i++)
        recv_one (pull, size_of (frames));
}

static double batch (count_t count, int frames)
{
    zsock_t *push = zsock_new_push ("@inproc://messages");
    zsock_t *pull = zsock_new_pull (">inproc://messages");
    check (push && pull, "zsock_new");
    batch_pass (push, pull, BATCH, frames);
    double start = now_ns ();
    for (count_t i = 0; i < count / BATCH; i++)
        batch_pass (push, pull, BATCH, frames);
    batch_pass (push, pull, count % BATCH, frames);
    double time = now_ns () - start;
    zsock_destroy (&push);
    zsock_destroy (&pull);
    return time;
}

static double stream_3 (count_t count) { return stream (count, 3); }
static double stream_1 (count_t count) { return stream (count, 1); }
static double batch_3 (count_t count) { return batch (count, 3); }
static double batch_1 (count_t count) { return batch (count, 1); }

//  A question and its answer between two threads.

static void *answer (void *arg)
{
    peer_t *peer = (peer_t *) arg;
    for (count_t i = 0; i < peer->count; i++) {
        zmsg_t *msg = zmsg_recv (peer->sock);
        check (msg != NULL, "zmsg_recv");
        check (zmsg_send (&msg, peer->sock) == 0, "zmsg_send");
    }
    return NULL;
}

static void ask (zsock_t *client, count_t count)
{
    for (count_t i = 0; i < count; i++) {
        send_one (client, 1);
        recv_one (client, size_of (1));
    }
}

static double ping_pong (count_t count, int client_type, int server_type, const char *endpoint)
{
    zsock_t *server = zsock_new (server_type);
    zsock_t *client = zsock_new (client_type);
    check (server && client, "zsock_new");
    check (zsock_bind (server, "%s", endpoint) != -1, "zsock_bind");
    check (zsock_connect (client, "%s", zsock_endpoint (server)) == 0, "zsock_connect");
    peer_t peer = { .sock = server, .count = WARM_UP + count };
    pthread_t thread = spawn (answer, &peer);
    ask (client, WARM_UP);
    double start = now_ns ();
    ask (client, count);
    double time = now_ns () - start;
    join (thread, &peer);
    zsock_destroy (&client);
    zsock_destroy (&server);
    return time;
}

static const char *INPROC = "inproc://roundtrip";
static const char *TCP = "tcp://127.0.0.1:*";

static double reqrep_inproc (count_t count) { return ping_pong (count, ZMQ_REQ, ZMQ_REP, INPROC); }
static double reqrep_tcp (count_t count) { return ping_pong (count, ZMQ_REQ, ZMQ_REP, TCP); }
static double pair_inproc (count_t count) { return ping_pong (count, ZMQ_PAIR, ZMQ_PAIR, INPROC); }
static double pair_tcp (count_t count) { return ping_pong (count, ZMQ_PAIR, ZMQ_PAIR, TCP); }

//  Frames and messages without a socket.

static zmsg_t *message (void)
{
    zmsg_t *msg = zmsg_new ();
    zmsg_addstr (msg, ADDRESS);
    zmsg_addstr (msg, "");
    zmsg_addstr (msg, BODY);
    return msg;
}

static double push_pop (count_t count)
{
    zmsg_t *msg = message ();
    double start = now_ns ();
    for (count_t i = 0; i < count; i++) {
        zmsg_pushstr (msg, ADDRESS);
        zframe_t *frame = zmsg_pop (msg);
        zframe_destroy (&frame);
    }
    double time = now_ns () - start;
    zmsg_destroy (&msg);
    return time;
}

static double dup_frame (count_t count, size_t size)
{
    zframe_t *frame = zframe_new (NULL, size);
    memset (zframe_data (frame), 'x', size);
    double start = now_ns ();
    for (count_t i = 0; i < count; i++) {
        zframe_t *copy = zframe_dup (frame);
        zframe_destroy (&copy);
    }
    double time = now_ns () - start;
    zframe_destroy (&frame);
    return time;
}

static double clone_1k (count_t count) { return dup_frame (count, 1000); }
static double clone_1m (count_t count) { return dup_frame (count, 1000000); }

static double encode (count_t count)
{
    zmsg_t *msg = message ();
    double start = now_ns ();
    for (count_t i = 0; i < count; i++) {
        zframe_t *frame = zmsg_encode (msg);
        zframe_destroy (&frame);
    }
    double time = now_ns () - start;
    zmsg_destroy (&msg);
    return time;
}

static double decode (count_t count)
{
    zmsg_t *msg = message ();
    zframe_t *frame = zmsg_encode (msg);
    double start = now_ns ();
    for (count_t i = 0; i < count; i++) {
        zmsg_t *decoded = zmsg_decode (frame);
        zmsg_destroy (&decoded);
    }
    double time = now_ns () - start;
    zframe_destroy (&frame);
    zmsg_destroy (&msg);
    return time;
}

static const struct {
    const char *name;
    double (*run) (count_t count);
    clockid_t clock_id;
} WORKLOADS [] = {
    { "push-pull-3-stream", stream_3, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-3-batch", batch_3, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-1-stream", stream_1, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-1-batch", batch_1, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-3-unpinned", stream_3, CLOCK_MONOTONIC },
    { "req-rep-inproc", reqrep_inproc, CLOCK_PROCESS_CPUTIME_ID },
    { "req-rep-tcp", reqrep_tcp, CLOCK_PROCESS_CPUTIME_ID },
    { "pair-inproc", pair_inproc, CLOCK_PROCESS_CPUTIME_ID },
    { "pair-tcp", pair_tcp, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pop", push_pop, CLOCK_PROCESS_CPUTIME_ID },
    { "clone-1k", clone_1k, CLOCK_PROCESS_CPUTIME_ID },
    { "clone-1m", clone_1m, CLOCK_PROCESS_CPUTIME_ID },
    { "encode", encode, CLOCK_PROCESS_CPUTIME_ID },
    { "decode", decode, CLOCK_PROCESS_CPUTIME_ID },
};

int main (int argc, char **argv)
{
    size_t workloads = sizeof (WORKLOADS) / sizeof (WORKLOADS [0]);
    if (argc == 1) {
        int major, minor, patch;
        zmq_version (&major, &minor, &patch);
        printf ("CZMQ %d.%d.%d on libzmq %d.%d.%d\n", CZMQ_VERSION_MAJOR, CZMQ_VERSION_MINOR,
                CZMQ_VERSION_PATCH, major, minor, patch);
        for (size_t i = 0; i < workloads; i++)
            puts (WORKLOADS [i].name);
        return 0;
    }
    count_t count = argc == 3 ? strtoull (argv [2], NULL, 10) : 0;
    for (size_t i = 0; count > 0 && i < workloads; i++) {
        if (streq (argv [1], WORKLOADS [i].name)) {
            clock_id = WORKLOADS [i].clock_id;
            printf ("%.2f\n", WORKLOADS [i].run (count) / count);
            return 0;
        }
    }
    fprintf (stderr, "usage: %s [NAME COUNT]\n", argv [0]);
    return 2;
}
