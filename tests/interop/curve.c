/*  A peer under CURVE by CZMQ. It is told and does what curve.py says. */

#include <czmq.h>

static const char *folder;

static char *
path_of (const char *name)
{
    return zsys_sprintf ("%s/%s", folder, name);
}

static void
serve (zcert_t *cert)
{
    zactor_t *auth = zactor_new (zauth, NULL);
    char *known = path_of ("known");
    zstr_sendx (auth, "CURVE", known, NULL);
    zsock_wait (auth);
    zstr_free (&known);

    zsock_t *server = zsock_new (ZMQ_REP);
    zsock_set_rcvtimeo (server, 10000);
    zcert_apply (cert, server);
    zsock_set_curve_server (server, 1);
    zsock_bind (server, "tcp://127.0.0.1:*");
    printf ("at %s\n", zsock_endpoint (server));

    zframe_t *question = zframe_recv (server);
    assert (question);
    char *text = zframe_strdup (question);
    zstr_sendf (server, "%s of %s", text, zframe_meta (question, "User-Id"));
    zstr_free (&text);
    zframe_destroy (&question);
    getchar ();
    zsock_destroy (&server);
    zactor_destroy (&auth);
}

static void
ask (zcert_t *cert, const char *endpoint)
{
    char *path = path_of ("zkit.key");
    zcert_t *other = zcert_load (path);
    assert (other);
    zstr_free (&path);

    zsock_t *client = zsock_new (ZMQ_REQ);
    zsock_set_rcvtimeo (client, 10000);
    zcert_apply (cert, client);
    zsock_set_curve_serverkey (client, zcert_public_txt (other));
    zsock_connect (client, "%s", endpoint);
    zstr_send (client, "Hello");
    char *answer = zstr_recv (client);
    assert (answer);
    puts (answer);
    zstr_free (&answer);
    zcert_destroy (&other);
    zsock_destroy (&client);
}

int
main (int argc, char **argv)
{
    assert (argc == 2);
    folder = argv [1];
    alarm (60);
    setvbuf (stdout, NULL, _IOLBF, 0);
    zsys_handler_set (NULL);
    zsys_set_linger (1000);

    zcert_t *cert = zcert_new ();
    zcert_set_meta (cert, "name", "Peer");
    char *path = path_of ("peer.key");
    int rc = zcert_save (cert, path);
    assert (rc == 0);
    zstr_free (&path);
    puts ("ready");

    char line [256];
    assert (fgets (line, sizeof line, stdin));
    line [strcspn (line, "\n")] = 0;
    if (streq (line, "serve"))
        serve (cert);
    else
        ask (cert, line + strlen ("ask "));
    zcert_destroy (&cert);
    return 0;
}
