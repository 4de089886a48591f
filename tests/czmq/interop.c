//  What CZMQ makes of messages and certificates, for tests/czmq.rs to hold zkit against.
//
//  A frame is written as hex, "-" if it is empty; a message as a line of its frames, behind their
//  number; what is no message as "malformed".

#include <czmq.h>
#include <unistd.h>

//  The content of a frame of this size, the same in tests/czmq.rs.
static zframe_t *
s_frame (size_t size)
{
    byte *data = (byte *) malloc (size + 1);
    assert (data);
    for (size_t index = 0; index < size; index++)
        data [index] = (byte) ((size + index) % 251);
    zframe_t *frame = zframe_new (data, size);
    free (data);
    return frame;
}

static zmsg_t *
s_msg (const size_t *sizes, size_t count)
{
    zmsg_t *msg = zmsg_new ();
    for (size_t index = 0; index < count; index++) {
        zframe_t *frame = s_frame (sizes [index]);
        zmsg_append (msg, &frame);
    }
    return msg;
}

static void
s_print_hex (zframe_t *frame)
{
    const byte *data = zframe_data (frame);
    size_t size = zframe_size (frame);
    if (size == 0)
        putchar ('-');
    for (size_t index = 0; index < size; index++)
        printf ("%02X", data [index]);
}

static void
s_print_msg (zmsg_t *msg)
{
    if (!msg) {
        puts ("malformed");
        return;
    }
    printf ("%zu", zmsg_size (msg));
    for (zframe_t *frame = zmsg_first (msg); frame; frame = zmsg_next (msg)) {
        putchar (' ');
        s_print_hex (frame);
    }
    putchar ('\n');
}

//  Encodes a message of no frames, one of each size, and one of all.
static int
s_encode (void)
{
    const size_t sizes [] = { 0, 1, 253, 254, 255, 256, 65535, 65536, 65537 };
    const size_t count = sizeof (sizes) / sizeof (*sizes);
    for (size_t number = 0; number < count + 2; number++) {
        zmsg_t *msg = number == 0? s_msg (NULL, 0)
                    : number <= count? s_msg (&sizes [number - 1], 1)
                    : s_msg (sizes, count);
        zframe_t *encoded = zmsg_encode (msg);
        assert (encoded);
        s_print_hex (encoded);
        putchar ('\n');
        zframe_destroy (&encoded);
        zmsg_destroy (&msg);
    }
    return 0;
}

//  Decodes each line of the input, hex or "-".
static int
s_decode (void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline (&line, &room, stdin)) > 0) {
        size_t size = 0;
        byte *data = (byte *) malloc (length);
        assert (data);
        for (const char *digit = line; isxdigit ((byte) *digit); digit += 2) {
            const char pair [] = { digit [0], digit [1], 0 };
            data [size++] = (byte) strtoul (pair, NULL, 16);
        }
        zframe_t *frame = zframe_new (data, size);
        zmsg_t *msg = zmsg_decode (frame);
        s_print_msg (msg);
        zmsg_destroy (&msg);
        zframe_destroy (&frame);
        free (data);
    }
    free (line);
    return 0;
}

//  Saves a message of frames of these sizes.
static int
s_save (const char *path, int count, char **sizes)
{
    FILE *file = fopen (path, "wb");
    assert (file);
    zmsg_t *msg = zmsg_new ();
    for (int index = 0; index < count; index++) {
        zframe_t *frame = s_frame ((size_t) atol (sizes [index]));
        zmsg_append (msg, &frame);
    }
    puts (zmsg_save (msg, file) == 0? "saved": "failed");
    zmsg_destroy (&msg);
    fclose (file);
    return 0;
}

static int
s_load (const char *path)
{
    FILE *file = fopen (path, "rb");
    assert (file);
    zmsg_t *msg = zmsg_load (file);
    s_print_msg (msg);
    zmsg_destroy (&msg);
    fclose (file);
    return 0;
}

//  The signal of each status, and the status that is read back from it.
static int
s_signal (void)
{
    for (int status = 0; status < 256; status++) {
        zmsg_t *msg = zmsg_new_signal ((byte) status);
        printf ("%d ", zmsg_signal (msg));
        s_print_hex (zmsg_first (msg));
        putchar ('\n');
        zmsg_destroy (&msg);
    }
    return 0;
}

//  Prints what zcert_load makes of a file: the keys as Z85, then the metadata, a line each.
static int
s_cert_load (const char *path)
{
    zcert_t *cert = zcert_load (path);
    if (!cert) {
        puts ("malformed");
        return 0;
    }
    printf ("%s\n%s\n", zcert_public_txt (cert), zcert_secret_txt (cert));
    zlist_t *names = zcert_meta_keys (cert);
    zlist_sort (names, NULL);
    const char *name;
    for (name = (const char *) zlist_first (names); name; name = (const char *) zlist_next (names))
        printf ("%s=%s\n", name, zcert_meta (cert, name));
    zlist_destroy (&names);
    zcert_destroy (&cert);
    return 0;
}

//  Saves a certificate with new keys and this metadata, and prints the keys.
static int
s_cert_save (const char *path, int count, char **metadata)
{
    zcert_t *cert = zcert_new ();
    assert (cert);
    for (int index = 0; index + 1 < count; index += 2)
        zcert_set_meta (cert, metadata [index], "%s", metadata [index + 1]);
    int rc = zcert_save (cert, path);
    assert (rc == 0);
    printf ("%s\n%s\n", zcert_public_txt (cert), zcert_secret_txt (cert));
    zcert_destroy (&cert);
    return 0;
}

//  Prints the metadata "name" of the certificate with this public key in the store, or "unknown".
static int
s_store (const char *path, const char *public_key)
{
    zcertstore_t *store = zcertstore_new (path);
    zcert_t *cert = zcertstore_lookup (store, public_key);
    puts (cert? zcert_meta (cert, "name"): "unknown");
    zcertstore_destroy (&store);
    return 0;
}

int
main (int argc, char **argv)
{
    //  Whatever goes wrong, the test that waits for this program is not kept for ever.
    alarm (60);
    const char *command = argc > 1? argv [1]: "";
    if (streq (command, "encode"))
        return s_encode ();
    if (streq (command, "decode"))
        return s_decode ();
    if (streq (command, "save") && argc > 2)
        return s_save (argv [2], argc - 3, argv + 3);
    if (streq (command, "load") && argc > 2)
        return s_load (argv [2]);
    if (streq (command, "signal"))
        return s_signal ();
    if (streq (command, "cert-load") && argc > 2)
        return s_cert_load (argv [2]);
    if (streq (command, "cert-save") && argc > 2)
        return s_cert_save (argv [2], argc - 3, argv + 3);
    if (streq (command, "store") && argc > 3)
        return s_store (argv [2], argv [3]);
    fprintf (stderr,
             "usage: %s encode | decode | save FILE [SIZE...] | load FILE | signal\n"
             "       | cert-load FILE | cert-save FILE [NAME VALUE]... | store FOLDER KEY\n",
             argv [0]);
    return 2;
}
