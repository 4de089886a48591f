//  The CZMQ side of the comparison: does what zkit's workload of the same name does.
//
//      cc -O2 -o czmq czmq.c -lczmq -lzmq -lpthread
//      ./czmq                  prints the versions and the names of its workloads
//      ./czmq NAME COUNT       prints the nanoseconds of one operation
//      ./czmq --proxy FRONTEND BACKEND
//                              is a proxy between these endpoints
//      ./czmq --spqueue FRONTEND BACKEND
//                              is a queue between these endpoints

#include <czmq.h>
#include <pthread.h>
#include <sys/resource.h>

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

//  Messages from a PUSH to a PULL.

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

static double stream (count_t count, int frames, const char *endpoint)
{
    zsock_t *push = zsock_new (ZMQ_PUSH);
    zsock_t *pull = zsock_new (ZMQ_PULL);
    check (push && pull, "zsock_new");
    check (zsock_bind (push, "%s", endpoint) != -1, "zsock_bind");
    check (zsock_connect (pull, "%s", zsock_endpoint (push)) == 0, "zsock_connect");
    //  When it is here they are connected.
    send_one (push, frames);
    recv_one (pull, size_of (frames));
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

static const char *INPROC = "inproc://peers";
static const char *TCP = "tcp://127.0.0.1:*";

static double stream_3 (count_t count) { return stream (count, 3, INPROC); }
static double stream_1 (count_t count) { return stream (count, 1, INPROC); }
static double stream_tcp (count_t count) { return stream (count, 3, TCP); }
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

//  A reactor's work. Only the thread that reads is timed.

#define HOUR (3600 * 1000)

static void raise_limits (size_t sockets)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit (RLIMIT_NOFILE, &limit);
    }
    zsys_set_max_sockets (sockets + 10);
}

static void *feed (void *arg)
{
    peer_t *peer = (peer_t *) arg;
    pthread_barrier_wait (&peer->start);
    for (count_t i = 0; i < peer->count; i++)
        send_one (peer->sock, 1);
    return NULL;
}

static int on_message (zloop_t *loop, zsock_t *sock, void *arg)
{
    recv_one (sock, size_of (1));
    return --*(count_t *) arg == 0 ? -1 : 0;
}

static int on_timer (zloop_t *loop, int timer_id, void *arg)
{
    return 0;
}

//  One busy reader among idle readers and timers.

static double among (count_t count, size_t readers, size_t timers)
{
    raise_limits (readers + 1);
    zsock_t *pull = zsock_new_pull ("@inproc://messages");
    zsock_t *push = zsock_new_push (">inproc://messages");
    check (pull && push, "zsock_new");
    zloop_t *loop = zloop_new ();
    zsock_t *idle [readers];
    count_t left = count;
    for (size_t i = 1; i < readers; i++) {
        idle [i] = zsock_new (ZMQ_PULL);
        check (idle [i] && zloop_reader (loop, idle [i], on_message, &left) == 0, "zloop_reader");
    }
    for (size_t i = 0; i < timers; i++)
        check (zloop_timer (loop, HOUR, 0, on_timer, NULL) != -1, "zloop_timer");
    check (zloop_reader (loop, pull, on_message, &left) == 0, "zloop_reader");
    peer_t peer = { .sock = push, .count = count };
    pthread_t thread = spawn (feed, &peer);
    pthread_barrier_wait (&peer.start);
    double start = now_ns ();
    zloop_start (loop);
    double time = now_ns () - start;
    join (thread, &peer);
    zloop_destroy (&loop);
    for (size_t i = 1; i < readers; i++)
        zsock_destroy (&idle [i]);
    zsock_destroy (&push);
    zsock_destroy (&pull);
    return time;
}

static double dispatch_1 (count_t count) { return among (count, 1, 0); }
static double dispatch_10 (count_t count) { return among (count, 10, 0); }
static double dispatch_100 (count_t count) { return among (count, 100, 0); }
static double dispatch_1000 (count_t count) { return among (count, 1000, 0); }
static double idle_timers_100 (count_t count) { return among (count, 1, 100); }
static double idle_timers_10000 (count_t count) { return among (count, 1, 10000); }

//  Every reader has one message in each round.

#define READERS 1000

typedef struct {
    zsock_t *pushes [READERS];
    count_t rounds;
    count_t left;
    pthread_barrier_t turn;
} rounds_t;

static void *send_rounds (void *arg)
{
    rounds_t *rounds = (rounds_t *) arg;
    for (count_t round = 0; round < rounds->rounds; round++) {
        pthread_barrier_wait (&rounds->turn);
        for (size_t i = 0; i < READERS; i++)
            send_one (rounds->pushes [i], 1);
        pthread_barrier_wait (&rounds->turn);
    }
    return NULL;
}

static void next_round (rounds_t *rounds)
{
    pthread_barrier_wait (&rounds->turn);
    pthread_barrier_wait (&rounds->turn);
}

static int on_busy (zloop_t *loop, zsock_t *sock, void *arg)
{
    rounds_t *rounds = (rounds_t *) arg;
    recv_one (sock, size_of (1));
    if (--rounds->left == 0)
        return -1;
    if (rounds->left % READERS == 0)
        next_round (rounds);
    return 0;
}

static double all_busy_1000 (count_t count)
{
    raise_limits (2 * READERS);
    rounds_t rounds = { .rounds = (count + READERS - 1) / READERS };
    rounds.left = rounds.rounds * READERS;
    check (pthread_barrier_init (&rounds.turn, NULL, 2) == 0, "pthread_barrier_init");
    zsock_t *pulls [READERS];
    zloop_t *loop = zloop_new ();
    for (size_t i = 0; i < READERS; i++) {
        pulls [i] = zsock_new (ZMQ_PULL);
        rounds.pushes [i] = zsock_new (ZMQ_PUSH);
        check (pulls [i] && rounds.pushes [i], "zsock_new");
        check (zsock_bind (pulls [i], "inproc://%zu", i) != -1, "zsock_bind");
        check (zsock_connect (rounds.pushes [i], "inproc://%zu", i) == 0, "zsock_connect");
        check (zloop_reader (loop, pulls [i], on_busy, &rounds) == 0, "zloop_reader");
    }
    pthread_t thread;
    check (pthread_create (&thread, NULL, send_rounds, &rounds) == 0, "pthread_create");
    double start = now_ns ();
    next_round (&rounds);
    zloop_start (loop);
    double time = now_ns () - start;
    pthread_join (thread, NULL);
    zloop_destroy (&loop);
    for (size_t i = 0; i < READERS; i++) {
        zsock_destroy (&rounds.pushes [i]);
        zsock_destroy (&pulls [i]);
    }
    //  The rounds are whole ones: of the time of as many messages as were asked for.
    return time * count / (rounds.rounds * READERS);
}

//  Tickets, which are CZMQ's timers for this: all of one delay.

#define LIVE_TICKETS 100000

static zloop_t *live_tickets (void **tickets)
{
    zloop_t *loop = zloop_new ();
    zloop_set_ticket_delay (loop, HOUR);
    for (size_t i = 0; i < LIVE_TICKETS; i++) {
        tickets [i] = zloop_ticket (loop, on_timer, NULL);
        check (tickets [i] != NULL, "zloop_ticket");
    }
    return loop;
}

static void *tickets [LIVE_TICKETS];

static double insert_cancel (count_t count)
{
    zloop_t *loop = live_tickets (tickets);
    double start = now_ns ();
    for (count_t i = 0; i < count; i++) {
        void *ticket = zloop_ticket (loop, on_timer, NULL);
        zloop_ticket_delete (loop, ticket);
    }
    double time = now_ns () - start;
    zloop_destroy (&loop);
    return time;
}

static double reset_ticket (count_t count)
{
    zloop_t *loop = live_tickets (tickets);
    double start = now_ns ();
    for (count_t i = 0; i < count; i++)
        zloop_ticket_reset (loop, tickets [i * 7919 % LIVE_TICKETS]);
    double time = now_ns () - start;
    zloop_destroy (&loop);
    return time;
}

//  The broker between REQ clients and REQ workers, over ipc.

#define CLIENTS 100
#define WORKERS 100
#define READY "\001"

static char frontend_endpoint [64], backend_endpoint [64];

static void *client (void *arg)
{
    count_t requests = *(count_t *) arg;
    zsock_t *req = zsock_new_req (frontend_endpoint);
    check (req != NULL, "zsock_new_req");
    for (count_t i = 0; i < requests; i++) {
        zstr_send (req, "HELLO");
        char *reply = zstr_recv (req);
        check (reply && streq (reply, "OK"), "zstr_recv");
        free (reply);
    }
    zsock_destroy (&req);
    return NULL;
}

//  Answers until it gets a request without a client.
static void *worker (void *arg)
{
    zsock_t *req = zsock_new_req (backend_endpoint);
    check (req != NULL, "zsock_new_req");
    zstr_send (req, READY);
    while (true) {
        zmsg_t *msg = zmsg_recv (req);
        check (msg != NULL, "zmsg_recv");
        if (zmsg_size (msg) == 1) {
            zmsg_destroy (&msg);
            break;
        }
        zframe_reset (zmsg_last (msg), "OK", 2);
        check (zmsg_send (&msg, req) == 0, "zmsg_send");
    }
    zsock_destroy (&req);
    return NULL;
}

typedef struct {
    zsock_t *frontend, *backend;
    zlist_t *workers;
    count_t left;
} broker_t;

static int on_frontend (zloop_t *loop, zsock_t *sock, void *arg)
{
    broker_t *broker = (broker_t *) arg;
    zmsg_t *msg = zmsg_recv (broker->frontend);
    check (msg != NULL, "zmsg_recv");
    zmsg_pushmem (msg, NULL, 0);
    zframe_t *worker = (zframe_t *) zlist_pop (broker->workers);
    zmsg_prepend (msg, &worker);
    check (zmsg_send (&msg, broker->backend) == 0, "zmsg_send");
    if (zlist_size (broker->workers) == 0)
        zloop_reader_end (loop, broker->frontend);
    return 0;
}

static int on_backend (zloop_t *loop, zsock_t *sock, void *arg)
{
    broker_t *broker = (broker_t *) arg;
    zmsg_t *msg = zmsg_recv (broker->backend);
    check (msg != NULL, "zmsg_recv");
    zlist_append (broker->workers, zmsg_unwrap (msg));
    if (memcmp (zframe_data (zmsg_first (msg)), READY, 1) == 0) {
        zmsg_destroy (&msg);
        return zlist_size (broker->workers) == WORKERS ? -1 : 0; // now it begins
    }
    if (zlist_size (broker->workers) == 1)
        zloop_reader (loop, broker->frontend, on_frontend, broker);
    check (zmsg_send (&msg, broker->frontend) == 0, "zmsg_send");
    return --broker->left == 0 ? -1 : 0;
}

static double broker_cpu (count_t count)
{
    char dir [] = "/tmp/czmq-XXXXXX";
    check (mkdtemp (dir) != NULL, "mkdtemp");
    snprintf (frontend_endpoint, sizeof frontend_endpoint, "ipc://%s/frontend", dir);
    snprintf (backend_endpoint, sizeof backend_endpoint, "ipc://%s/backend", dir);
    broker_t broker = { .workers = zlist_new (), .left = count };
    broker.frontend = zsock_new (ZMQ_ROUTER);
    broker.backend = zsock_new (ZMQ_ROUTER);
    check (zsock_bind (broker.frontend, "%s", frontend_endpoint) != -1, "zsock_bind");
    check (zsock_bind (broker.backend, "%s", backend_endpoint) != -1, "zsock_bind");

    pthread_t clients [CLIENTS], workers [WORKERS];
    count_t requests [CLIENTS];
    for (count_t i = 0; i < CLIENTS; i++) {
        requests [i] = count / CLIENTS + (i < count % CLIENTS);
        check (pthread_create (&clients [i], NULL, client, &requests [i]) == 0, "pthread_create");
    }
    for (size_t i = 0; i < WORKERS; i++)
        check (pthread_create (&workers [i], NULL, worker, NULL) == 0, "pthread_create");

    zloop_t *loop = zloop_new ();
    zloop_reader (loop, broker.backend, on_backend, &broker);
    zloop_start (loop);
    zloop_reader (loop, broker.frontend, on_frontend, &broker);
    double start = now_ns ();
    zloop_start (loop);
    double time = now_ns () - start;

    zframe_t *address;
    while ((address = (zframe_t *) zlist_pop (broker.workers))) {
        zmsg_t *msg = zmsg_new ();
        zmsg_addstr (msg, "END");
        zmsg_pushmem (msg, NULL, 0);
        zmsg_prepend (msg, &address);
        check (zmsg_send (&msg, broker.backend) == 0, "zmsg_send");
    }
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join (clients [i], NULL);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join (workers [i], NULL);
    zloop_destroy (&loop);
    zlist_destroy (&broker.workers);
    zsock_destroy (&broker.frontend);
    zsock_destroy (&broker.backend);
    zsys_dir_delete ("%s", dir);
    return time;
}

//  An actor's life, and a question to it and its answer.

static void idle_actor (zsock_t *pipe, void *args)
{
    zsock_signal (pipe, 0);
    bool terminated = false;
    while (!terminated) {
        zmsg_t *msg = zmsg_recv (pipe);
        check (msg != NULL, "zmsg_recv");
        terminated = zframe_streq (zmsg_first (msg), "$TERM");
        zmsg_destroy (&msg);
    }
}

static void spawn_and_stop (count_t count)
{
    for (count_t i = 0; i < count; i++) {
        zactor_t *actor = zactor_new (idle_actor, NULL);
        check (actor != NULL, "zactor_new");
        zactor_destroy (&actor);
    }
}

static double actor_spawn_stop (count_t count)
{
    spawn_and_stop (WARM_UP);
    double start = now_ns ();
    spawn_and_stop (count);
    return now_ns () - start;
}

static void echo_actor (zsock_t *pipe, void *args)
{
    zsock_signal (pipe, 0);
    while (true) {
        zmsg_t *msg = zmsg_recv (pipe);
        check (msg != NULL, "zmsg_recv");
        if (zframe_streq (zmsg_first (msg), "$TERM")) {
            zmsg_destroy (&msg);
            return;
        }
        check (zmsg_send (&msg, pipe) == 0, "zmsg_send");
    }
}

static void ask_actor (zactor_t *actor, count_t count)
{
    for (count_t i = 0; i < count; i++) {
        zmsg_t *msg = zmsg_new ();
        zmsg_addstr (msg, "HELLO");
        check (zmsg_send (&msg, actor) == 0, "zmsg_send");
        msg = zmsg_recv (actor);
        check (msg && zmsg_content_size (msg) == 5, "zmsg_recv");
        zmsg_destroy (&msg);
    }
}

static double actor_roundtrip (count_t count)
{
    zactor_t *actor = zactor_new (echo_actor, NULL);
    check (actor != NULL, "zactor_new");
    ask_actor (actor, WARM_UP);
    double start = now_ns ();
    ask_actor (actor, count);
    double time = now_ns () - start;
    zactor_destroy (&actor);
    return time;
}

//  The proxy and the queue alone: zkit's program has their clients and workers, kills them and takes
//  the time.

static double is_elsewhere (count_t count)
{
    fprintf (stderr, "czmq: peers --run CZMQ-PROGRAM NAME COUNT has the other sides of it\n");
    exit (2);
}

static int proxy_main (const char *frontend, const char *backend)
{
    zactor_t *proxy = zactor_new (zproxy, NULL);
    check (proxy != NULL, "zactor_new");
    zstr_sendx (proxy, "FRONTEND", "ROUTER", frontend, NULL);
    check (zsock_wait (proxy) == 0, "FRONTEND");
    zstr_sendx (proxy, "BACKEND", "DEALER", backend, NULL);
    check (zsock_wait (proxy) == 0, "BACKEND");
    getchar (); // it ends with whoever could write
    zactor_destroy (&proxy);
    return 0;
}

//  The queue of the Simple Pirate pattern as the guide has it: a poll of both sockets, of which the
//  clients' takes part while there is a free worker, and a message of each that has one.

static void *end_with_parent (void *arg)
{
    getchar ();
    _exit (0);
}

static void queue_reply (zsock_t *frontend, zsock_t *backend, zlist_t *workers)
{
    zmsg_t *msg = zmsg_recv (backend);
    check (msg != NULL, "zmsg_recv");
    zlist_append (workers, zmsg_unwrap (msg));
    zframe_t *first = zmsg_first (msg);
    if (zframe_size (first) == 1 && memcmp (zframe_data (first), READY, 1) == 0)
        zmsg_destroy (&msg);
    else
        check (zmsg_send (&msg, frontend) == 0, "zmsg_send");
}

static void queue_request (zsock_t *frontend, zsock_t *backend, zlist_t *workers)
{
    zmsg_t *msg = zmsg_recv (frontend);
    check (msg != NULL, "zmsg_recv");
    zframe_t *worker = (zframe_t *) zlist_pop (workers);
    zmsg_pushmem (msg, NULL, 0);
    zmsg_prepend (msg, &worker);
    check (zmsg_send (&msg, backend) == 0, "zmsg_send");
}

static int spqueue_main (const char *frontend_at, const char *backend_at)
{
    pthread_t thread;
    check (pthread_create (&thread, NULL, end_with_parent, NULL) == 0, "pthread_create");
    zsock_t *frontend = zsock_new (ZMQ_ROUTER);
    zsock_t *backend = zsock_new (ZMQ_ROUTER);
    check (zsock_bind (frontend, "%s", frontend_at) != -1, "zsock_bind");
    check (zsock_bind (backend, "%s", backend_at) != -1, "zsock_bind");
    zlist_t *workers = zlist_new ();
    zmq_pollitem_t items [] = {
        { zsock_resolve (backend), 0, ZMQ_POLLIN, 0 },
        { zsock_resolve (frontend), 0, ZMQ_POLLIN, 0 },
    };
    while (zmq_poll (items, zlist_size (workers) > 0 ? 2 : 1, -1) != -1) {
        bool asked = zlist_size (workers) > 0 && items [1].revents & ZMQ_POLLIN;
        if (items [0].revents & ZMQ_POLLIN)
            queue_reply (frontend, backend, workers);
        if (asked)
            queue_request (frontend, backend, workers);
    }
    return 0; // interrupted
}

static const struct {
    const char *name;
    double (*run) (count_t count);
    clockid_t clock_id;
    //  Does only this part of the operations, if it is not 0: CZMQ's would take too long.
    count_t divisor;
} WORKLOADS [] = {
    { "push-pull-3-stream", stream_3, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-3-batch", batch_3, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-1-stream", stream_1, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-1-batch", batch_1, CLOCK_PROCESS_CPUTIME_ID },
    { "push-pull-3-tcp", stream_tcp, CLOCK_PROCESS_CPUTIME_ID },
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
    { "dispatch-1", dispatch_1, CLOCK_THREAD_CPUTIME_ID, 10 },
    { "dispatch-10", dispatch_10, CLOCK_THREAD_CPUTIME_ID, 10 },
    { "dispatch-100", dispatch_100, CLOCK_THREAD_CPUTIME_ID, 200 },
    { "dispatch-1000", dispatch_1000, CLOCK_THREAD_CPUTIME_ID, 2000 },
    { "all-busy-1000", all_busy_1000, CLOCK_THREAD_CPUTIME_ID, 1 },
    { "idle-timers-0", dispatch_1, CLOCK_THREAD_CPUTIME_ID, 10 },
    { "idle-timers-100", idle_timers_100, CLOCK_THREAD_CPUTIME_ID, 20 },
    { "idle-timers-10000", idle_timers_10000, CLOCK_THREAD_CPUTIME_ID, 1000 },
    { "timer-insert-cancel", insert_cancel, CLOCK_PROCESS_CPUTIME_ID },
    { "timer-reset", reset_ticket, CLOCK_PROCESS_CPUTIME_ID },
    { "broker-cpu", broker_cpu, CLOCK_THREAD_CPUTIME_ID },
    { "actor-spawn-stop", actor_spawn_stop, CLOCK_PROCESS_CPUTIME_ID },
    { "actor-roundtrip", actor_roundtrip, CLOCK_PROCESS_CPUTIME_ID },
    { "proxy", is_elsewhere },
    { "proxy-cpu", is_elsewhere },
    { "proxy-full-cpu", is_elsewhere },
    { "spqueue", is_elsewhere },
    { "spqueue-cpu", is_elsewhere },
    { "spqueue-loop-cpu", is_elsewhere },
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
    if (argc == 4 && streq (argv [1], "--proxy"))
        return proxy_main (argv [2], argv [3]);
    if (argc == 4 && streq (argv [1], "--spqueue"))
        return spqueue_main (argv [2], argv [3]);
    count_t count = argc == 3 ? strtoull (argv [2], NULL, 10) : 0;
    for (size_t i = 0; count > 0 && i < workloads; i++) {
        if (streq (argv [1], WORKLOADS [i].name)) {
            clock_id = WORKLOADS [i].clock_id;
            if (WORKLOADS [i].divisor)
                count = count / WORKLOADS [i].divisor + 1;
            printf ("%.2f\n", WORKLOADS [i].run (count) / count);
            return 0;
        }
    }
    fprintf (stderr, "usage: %s [NAME COUNT]\n", argv [0]);
    return 2;
}
