/*  What libzmq may use of the target, for all of its sources: each of them includes this file first.

    libzmq's own builds find it out by compiling trials. Here the target's headers are asked, so that
    the answers are those of the compiler in use, for another machine too.  Names are libzmq's. */

#ifndef ZKIT_ENGINE_PLATFORM_HPP
#define ZKIT_ENGINE_PLATFORM_HPP

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

/*  The system.  The build script of zeromq-src tells some of these, with the same value. */

#if defined __linux__ && !defined ZMQ_HAVE_LINUX
#define ZMQ_HAVE_LINUX 1
#endif
#if defined __ANDROID__
#define ZMQ_HAVE_ANDROID 1
#endif
#if defined __APPLE__
#define ZMQ_HAVE_OSX 1
#endif
#if defined __FreeBSD__ || defined __DragonFly__
#define ZMQ_HAVE_FREEBSD 1
#endif
#if defined __DragonFly__
#define ZMQ_HAVE_DRAGONFLY 1
#endif
#if defined __NetBSD__
#define ZMQ_HAVE_NETBSD 1
#endif
#if defined __OpenBSD__
#define ZMQ_HAVE_OPENBSD 1
#endif
#if defined __sun
#define ZMQ_HAVE_SOLARIS 1
#endif

/*  Threads wait in this, and in poll. */

#if defined __linux__
#include <sys/epoll.h>
#ifndef ZMQ_IOTHREAD_POLLER_USE_EPOLL
#define ZMQ_IOTHREAD_POLLER_USE_EPOLL 1
#endif
#ifdef EPOLL_CLOEXEC
#define ZMQ_IOTHREAD_POLLER_USE_EPOLL_CLOEXEC 1
#endif
#elif defined __APPLE__ || defined __FreeBSD__ || defined __DragonFly__                 \
  || defined __NetBSD__ || defined __OpenBSD__
#ifndef ZMQ_IOTHREAD_POLLER_USE_KQUEUE
#define ZMQ_IOTHREAD_POLLER_USE_KQUEUE 1
#endif
#else
#define ZMQ_IOTHREAD_POLLER_USE_POLL 1
#endif
#ifndef ZMQ_POLL_BASED_ON_POLL
#define ZMQ_POLL_BASED_ON_POLL 1
#endif
#ifndef ZMQ_USE_CV_IMPL_STL11
#define ZMQ_USE_CV_IMPL_STL11 1
#endif

/*  Threads wake each other by this; where it is missing, by a pair of sockets. */

#if defined __linux__ || defined __FreeBSD__
#if defined __has_include
#if __has_include(<sys/eventfd.h>)
#include <sys/eventfd.h>
#endif
#else
#include <sys/eventfd.h>
#endif
#ifdef EFD_CLOEXEC
#define ZMQ_HAVE_EVENTFD 1
#define ZMQ_HAVE_EVENTFD_CLOEXEC 1
#endif
#endif

/*  POSIX, on every system that zkit runs on. */

#define HAVE_IF_NAMETOINDEX 1
#define HAVE_MKDTEMP 1
#define HAVE_POSIX_MEMALIGN 1
#ifndef HAVE_STRNLEN
#define HAVE_STRNLEN 1
#endif
#ifdef CLOCK_MONOTONIC
#define HAVE_CLOCK_GETTIME 1
#endif
#define ZMQ_HAVE_IFADDRS 1
#ifndef ZMQ_HAVE_IPC
#define ZMQ_HAVE_IPC 1
#endif
#ifndef ZMQ_HAVE_STRUCT_SOCKADDR_UN
#define ZMQ_HAVE_STRUCT_SOCKADDR_UN 1
#endif
#ifndef ZMQ_HAVE_UIO
#define ZMQ_HAVE_UIO 1
#endif
#define ZMQ_HAVE_NOEXCEPT 1

/*  One size of a cache line per kind of processor: what the building machine has is no business of
    the program's. */

#ifndef ZMQ_CACHELINE_SIZE
#if defined __APPLE__ && defined __aarch64__
#define ZMQ_CACHELINE_SIZE 128
#else
#define ZMQ_CACHELINE_SIZE 64
#endif
#endif

/*  No descriptor of libzmq's outlives an exec. */

#ifdef O_CLOEXEC
#define ZMQ_HAVE_O_CLOEXEC 1
#endif
#ifdef SOCK_CLOEXEC
#define ZMQ_HAVE_SOCK_CLOEXEC 1
#define HAVE_ACCEPT4 1
#endif

/*  Options of sockets. */

#ifdef SO_KEEPALIVE
#define ZMQ_HAVE_SO_KEEPALIVE 1
#endif
#ifdef TCP_KEEPCNT
#define ZMQ_HAVE_TCP_KEEPCNT 1
#endif
#ifdef TCP_KEEPIDLE
#define ZMQ_HAVE_TCP_KEEPIDLE 1
#endif
#ifdef TCP_KEEPINTVL
#define ZMQ_HAVE_TCP_KEEPINTVL 1
#endif
#ifdef TCP_KEEPALIVE
#define ZMQ_HAVE_TCP_KEEPALIVE 1
#endif
#ifdef SO_BINDTODEVICE
#define ZMQ_HAVE_SO_BINDTODEVICE 1
#endif
#ifdef SO_PRIORITY
#define ZMQ_HAVE_SO_PRIORITY 1
#endif
#ifdef SO_BUSY_POLL
#define ZMQ_HAVE_BUSY_POLL 1
#endif
#if defined SO_PEERCRED && !defined __OpenBSD__
#define ZMQ_HAVE_SO_PEERCRED 1
#elif defined LOCAL_PEERCRED
#define ZMQ_HAVE_LOCAL_PEERCRED 1
#endif

/*  Names and processors of the I/O threads. */

#if defined __linux__ || defined __FreeBSD__
#define ZMQ_HAVE_PTHREAD_SETNAME_2 1
#elif defined __APPLE__
#define ZMQ_HAVE_PTHREAD_SETNAME_1 1
#elif defined __NetBSD__
#define ZMQ_HAVE_PTHREAD_SETNAME_3 1
#elif defined __OpenBSD__ || defined __DragonFly__
#define ZMQ_HAVE_PTHREAD_SET_NAME 1
#endif
#if defined __linux__ && !defined __ANDROID__
#define ZMQ_HAVE_PTHREAD_SET_AFFINITY 1
#endif

/*  Transports. */

#if defined __linux__ && defined __has_include
#if __has_include(<linux/tipc.h>)
#define ZMQ_HAVE_TIPC 1
#endif
#endif

/*  In the child of a fork, libzmq leaves the parent's sockets alone.  To know a child, it asks for the
    process at each wake-up, ten times in a round trip.  The answer changes by a fork only, so it is
    remembered until there is one, and costs no system call. */

#define HAVE_FORK 1

static std::atomic<pid_t> zkit_engine_process (0);

static void zkit_engine_forked ()
{
    zkit_engine_process.store (0, std::memory_order_relaxed);
}

static pid_t zkit_engine_getpid ()
{
    static const int watched = pthread_atfork (NULL, NULL, zkit_engine_forked);
    pid_t process = zkit_engine_process.load (std::memory_order_relaxed);
    if (process == 0 || watched != 0) {
        process = getpid ();
        zkit_engine_process.store (process, std::memory_order_relaxed);
    }
    return process;
}

#define getpid zkit_engine_getpid

/*  WebSockets are a draft of libzmq's, and ask no authenticator.  zeromq-src turns them on. */

#undef ZMQ_HAVE_WS

#endif
