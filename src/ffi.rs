//! The only `unsafe` code of the crate: thin safe wrappers over `zmq_sys` and the few system
//! calls that the standard library has no safe form of. Each call's error number is read here,
//! once, and travels as [`Errno`].

#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::hash::{BuildHasher, Hasher};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use zeroize::Zeroizing;
use zkit_engine as _; // the libzmq that `zmq_sys` declares
use zmq_sys::zmq_msg_t;

use crate::error::{Errno, Reason};

/// Reads the error number of the libzmq call that has just failed on this thread.
fn last_errno() -> Errno {
    // SAFETY: zmq_errno has no preconditions.
    Errno(unsafe { zmq_sys::zmq_errno() })
}

#[inline]
fn check(rc: c_int) -> Result<c_int, Errno> {
    if rc == -1 { Err(last_errno()) } else { Ok(rc) }
}

/// Owned `zmq_msg_t`, always initialised.
///
/// The bytes are `MaybeUninit` because libzmq initialises only those that the message's kind
/// uses. libzmq's message is plain data that may be moved.
#[repr(transparent)]
pub(crate) struct RawMsg(MaybeUninit<zmq_msg_t>);

// SAFETY: a zmq_msg_t has no thread affinity; its shared content is reference counted atomically.
unsafe impl Send for RawMsg {}
// SAFETY: through `&RawMsg` the content is only read, except by `copy` and `more`, which exclude
// each other with COPY_LOCKS.
unsafe impl Sync for RawMsg {}

/// `zmq_msg_copy` marks its source as shared, so two copies of one message at a time must
/// exclude each other. Striped by address: frames that are neighbours seldom share a lock.
static COPY_LOCKS: [AtomicBool; 16] = [const { AtomicBool::new(false) }; 16];

/// Held for the few instructions of a copy. Not a `Mutex`, because a forked child must be able to
/// break the locks of threads that it does not have.
struct CopyLock(&'static AtomicBool);

impl CopyLock {
    fn of(msg: &RawMsg) -> CopyLock {
        Generation::current(); // has forks watched from here on
        let stripe = (msg.as_ptr().addr() / size_of::<zmq_msg_t>()) % COPY_LOCKS.len();
        let lock = &COPY_LOCKS[stripe];
        while lock.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        CopyLock(lock)
    }
}

impl Drop for CopyLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl RawMsg {
    /// Up to this many bytes libzmq keeps inside the message, without an allocation.
    const INLINE: usize = 33;

    /// A message of no bytes: a copy, to the bit, of one that libzmq made, which owns nothing. It is
    /// written in whole words and can be moved at once; what libzmq writes in single bytes stalls a
    /// processor that moves it.
    #[inline]
    pub(crate) fn empty() -> RawMsg {
        static EMPTY: OnceLock<RawMsg> = OnceLock::new();
        let empty = EMPTY.get_or_init(|| {
            let mut msg = MaybeUninit::uninit();
            // SAFETY: zmq_msg_init initialises the memory it is given and cannot fail.
            unsafe { zmq_sys::zmq_msg_init(msg.as_mut_ptr()) };
            RawMsg(msg)
        });
        RawMsg(empty.0)
    }

    /// Copies `bytes` into a new message.
    #[inline]
    pub(crate) fn copied(bytes: &[u8]) -> RawMsg {
        let mut msg = MaybeUninit::uninit();
        // SAFETY: zmq_msg_init_size initialises the memory it is given, or fails with ENOMEM.
        if unsafe { zmq_sys::zmq_msg_init_size(msg.as_mut_ptr(), bytes.len()) } == -1 {
            out_of_memory(bytes.len());
        }
        // SAFETY: the message was just made with room for `bytes.len()` bytes, nobody else has it.
        unsafe {
            let data = zmq_sys::zmq_msg_data(msg.as_mut_ptr()).cast::<u8>();
            ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
        }
        RawMsg(msg)
    }

    /// Takes over the vector's memory.
    pub(crate) fn owned(bytes: Vec<u8>) -> RawMsg {
        if bytes.len() <= RawMsg::INLINE {
            return RawMsg::copied(&bytes);
        }
        unsafe extern "C" fn free(data: *mut c_void, capacity: *mut c_void) {
            // SAFETY: `data` and `capacity` come from the ManuallyDrop vector below, and libzmq
            // calls this once, when nobody reads the content any more.
            drop(unsafe { Vec::from_raw_parts(data.cast::<u8>(), 0, capacity as usize) });
        }
        let mut bytes = ManuallyDrop::new(bytes);
        let mut msg = MaybeUninit::uninit();
        // SAFETY: the vector's memory stays valid until libzmq calls `free`; it is not empty, so
        // the pointer is a real allocation.
        let rc = unsafe {
            zmq_sys::zmq_msg_init_data(
                msg.as_mut_ptr(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                Some(free),
                ptr::without_provenance_mut(bytes.capacity()),
            )
        };
        if rc == -1 {
            out_of_memory(size_of::<zmq_msg_t>());
        }
        RawMsg(msg)
    }

    /// Refers to memory that lives for ever.
    pub(crate) fn constant(bytes: &'static [u8]) -> RawMsg {
        if bytes.is_empty() {
            return RawMsg::empty();
        }
        let mut msg = MaybeUninit::uninit();
        // SAFETY: the bytes are never freed (no free function), and libzmq never writes to the
        // content of a message that it sends.
        unsafe {
            zmq_sys::zmq_msg_init_data(
                msg.as_mut_ptr(),
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                None,
                ptr::null_mut(),
            );
        }
        RawMsg(msg)
    }

    fn as_ptr(&self) -> *const zmq_msg_t {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the message is initialised, and the function only reads it.
        unsafe { zmq_sys::zmq_msg_size(self.as_ptr()) }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the message is initialised, both functions only read it (zmq_msg_data takes a
        // mutable pointer by C custom), and its content stays put while `self` is borrowed:
        // everything that replaces it takes `&mut self`.
        unsafe {
            let size = self.len();
            if size == 0 {
                return &[];
            }
            let data = zmq_sys::zmq_msg_data(self.as_ptr().cast_mut());
            slice::from_raw_parts(data.cast::<u8>(), size)
        }
    }

    /// Another message with the same content, shared where it is not inline.
    pub(crate) fn copy(&self) -> RawMsg {
        let mut copy = RawMsg::empty();
        let _exclusive = CopyLock::of(self);
        // SAFETY: the lock makes this the only thread that writes to the message.
        unsafe { self.copy_unlocked(&mut copy) };
        copy
    }

    /// Puts a copy in place of `copy`, for the sole user of the message.
    #[inline]
    pub(crate) fn copy_to(&mut self, copy: &mut RawMsg) {
        // SAFETY: `&mut self` makes this the only thread that has the message.
        unsafe { self.copy_unlocked(copy) };
    }

    /// # Safety
    /// No other thread copies this message or reads its flags meanwhile.
    #[inline]
    unsafe fn copy_unlocked(&self, copy: &mut RawMsg) {
        // SAFETY: both messages are initialised; of the source only flags and reference count
        // change, which the caller keeps from racing. It fails only on uninitialised messages.
        unsafe { zmq_sys::zmq_msg_copy(copy.0.as_mut_ptr(), self.as_ptr().cast_mut()) };
    }

    /// Whether more frames of the same message followed when it was received.
    pub(crate) fn more(&self) -> bool {
        let _exclusive = CopyLock::of(self);
        // SAFETY: the message is initialised; the lock keeps `copy` from writing its flags.
        unsafe { zmq_sys::zmq_msg_more(self.as_ptr()) != 0 }
    }

    /// As [`more`](RawMsg::more), for the sole user of the message.
    #[inline]
    pub(crate) fn more_mut(&mut self) -> bool {
        // SAFETY: the message is initialised, and `&mut self` excludes `copy`.
        unsafe { zmq_sys::zmq_msg_more(self.as_ptr()) != 0 }
    }

    /// Metadata of a received message (`zmq_msg_gets`).
    pub(crate) fn property(&self, name: &CStr) -> Option<&CStr> {
        // SAFETY: the message is initialised; the string found lives in the message's metadata,
        // which only a `&mut self` operation can release.
        unsafe {
            let value = zmq_sys::zmq_msg_gets(self.as_ptr(), name.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        }
    }
}

impl Drop for RawMsg {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the message is initialised and not used again.
        unsafe { zmq_sys::zmq_msg_close(self.0.as_mut_ptr()) };
    }
}

#[cold]
fn out_of_memory(size: usize) -> ! {
    let layout =
        std::alloc::Layout::array::<u8>(size).unwrap_or(std::alloc::Layout::new::<zmq_msg_t>());
    std::alloc::handle_alloc_error(layout)
}

/// Seeds C's `rand`, of which libzmq makes the identities that a ROUTER gives its peers, and which
/// it leaves unseeded: each process would give the same, and what is meant for a peer of one that
/// died would find a peer of the next. Once in a process, so that a program may have its own seed.
fn seed_random(generation: Generation) {
    static SEEDED: AtomicU32 = AtomicU32::new(0);
    let seeded = generation.0.wrapping_add(1);
    if SEEDED.swap(seeded, Ordering::Relaxed) != seeded {
        // SAFETY: srand has no preconditions.
        unsafe { libc::srand(random() as u32) };
    }
}

/// A number that nobody can guess, of the standard library's source for hashes.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A key in Z85 with a NUL behind it, which wipes itself. In a box, because a move leaves a copy behind.
pub(crate) type KeyText = Box<Zeroizing<[u8; 41]>>;

/// A new key pair for CURVE: the public and the secret key.
pub(crate) fn curve_keypair() -> Result<([u8; 41], KeyText), Errno> {
    let mut public = [0; 41];
    let mut secret = KeyText::new(Zeroizing::new([0; 41]));
    // SAFETY: both have room for the 40 characters and the NUL that are written.
    check(unsafe {
        zmq_sys::zmq_curve_keypair(public.as_mut_ptr().cast(), secret.as_mut_ptr().cast())
    })?;
    Ok((public, secret))
}

/// The public key that goes with a secret one, both as [`curve_keypair`] writes them.
pub(crate) fn curve_public(secret: &CStr) -> Result<[u8; 41], Errno> {
    unsafe extern "C" {
        // In every libzmq since 4.2; zmq-sys does not pass it on.
        fn zmq_curve_public(public: *mut c_char, secret: *const c_char) -> c_int;
    }
    let mut public = [0; 41];
    // SAFETY: there is room for the 40 characters and the NUL that are written; the secret key is a
    // C string.
    check(unsafe { zmq_curve_public(public.as_mut_ptr().cast(), secret.as_ptr()) })?;
    Ok(public)
}

/// A libzmq context. Not terminated on drop: when to wait for that is the caller's policy.
pub(crate) struct RawContext {
    ptr: NonNull<c_void>,
    generation: Generation,
}

// SAFETY: libzmq contexts are made for use from all threads.
unsafe impl Send for RawContext {}
// SAFETY: as above.
unsafe impl Sync for RawContext {}

impl RawContext {
    pub(crate) fn new() -> Result<RawContext, Errno> {
        let generation = Generation::current();
        seed_random(generation);
        // SAFETY: zmq_ctx_new has no preconditions.
        let ptr = NonNull::new(unsafe { zmq_sys::zmq_ctx_new() }).ok_or_else(last_errno)?;
        Ok(RawContext { ptr, generation })
    }

    /// Fails in the child of a fork.
    pub(crate) fn check_process(&self) -> Result<(), Errno> {
        self.generation.check()
    }

    pub(crate) fn set(&self, option: u32, value: c_int) -> Result<(), Errno> {
        // SAFETY: the context is live: only `terminate`, which consumes it, ends it.
        check(unsafe { zmq_sys::zmq_ctx_set(self.ptr.as_ptr(), option as c_int, value) }).map(drop)
    }

    pub(crate) fn get(&self, option: u32) -> Result<c_int, Errno> {
        // SAFETY: the context is live.
        check(unsafe { zmq_sys::zmq_ctx_get(self.ptr.as_ptr(), option as c_int) })
    }

    /// Makes every blocked and later call on the context's sockets fail with `ETERM`.
    pub(crate) fn shutdown(&self) -> Result<(), Errno> {
        self.generation.check()?;
        // SAFETY: the context is live.
        check(unsafe { zmq_sys::zmq_ctx_shutdown(self.ptr.as_ptr()) }).map(drop)
    }

    /// Waits until all sockets are closed and their linger is over, then frees the context.
    pub(crate) fn terminate(self) {
        // The child of a fork has none of the threads that this would wait for.
        if self.generation.check().is_err() {
            return;
        }
        // SAFETY: the context is live, and consumed here. EINTR leaves it live.
        while unsafe { zmq_sys::zmq_ctx_term(self.ptr.as_ptr()) } == -1
            && last_errno() == Errno::INTR
        {}
    }
}

/// A libzmq socket. Closed on drop.
pub(crate) struct RawSocket {
    ptr: NonNull<c_void>,
    generation: Generation,
    /// A socket made by the `zmq` crate stays its own: it closes it and holds its context.
    adopted: Option<zmq::Socket>,
    /// The monitor, for as long as the socket is open.
    monitored: OnceCell<Arc<Mutex<Option<Monitored>>>>,
}

// SAFETY: a libzmq socket may move between threads with a full fence, which every way of moving
// a value between threads implies. It is not Sync (NonNull is not): one thread at a time.
unsafe impl Send for RawSocket {}

impl RawSocket {
    pub(crate) fn open(context: &RawContext, socket_type: u32) -> Result<RawSocket, Errno> {
        context.generation.check()?;
        // SAFETY: the context is live.
        let ptr = unsafe { zmq_sys::zmq_socket(context.ptr.as_ptr(), socket_type as c_int) };
        let ptr = NonNull::new(ptr).ok_or_else(last_errno)?;
        Ok(RawSocket::from_ptr(ptr, context.generation, None))
    }

    pub(crate) fn adopt(mut socket: zmq::Socket) -> Option<RawSocket> {
        let ptr = NonNull::new(socket.as_mut_ptr())?;
        Some(RawSocket::from_ptr(ptr, Generation::current(), Some(socket)))
    }

    fn from_ptr(
        ptr: NonNull<c_void>,
        generation: Generation,
        adopted: Option<zmq::Socket>,
    ) -> RawSocket {
        RawSocket { ptr, generation, adopted, monitored: OnceCell::new() }
    }

    /// Fails in the child of a fork.
    pub(crate) fn check_process(&self) -> Result<(), Errno> {
        self.generation.check()
    }

    pub(crate) fn bind(&self, endpoint: &CStr) -> Result<(), Errno> {
        const ATTEMPTS: usize = 10;
        // libzmq tells a monitor of a failure before it returns, which may leave EAGAIN in errno. That is
        // not why; the same call again says it.
        let mut bound = self.endpoint_call(endpoint, zmq_sys::zmq_bind);
        for _ in 1..ATTEMPTS {
            if bound != Err(Errno::AGAIN) {
                break;
            }
            bound = self.endpoint_call(endpoint, zmq_sys::zmq_bind);
        }
        bound
    }

    pub(crate) fn connect(&self, endpoint: &CStr) -> Result<(), Errno> {
        self.endpoint_call(endpoint, zmq_sys::zmq_connect)
    }

    pub(crate) fn unbind(&self, endpoint: &CStr) -> Result<(), Errno> {
        self.endpoint_call(endpoint, zmq_sys::zmq_unbind)
    }

    pub(crate) fn disconnect(&self, endpoint: &CStr) -> Result<(), Errno> {
        self.endpoint_call(endpoint, zmq_sys::zmq_disconnect)
    }

    fn endpoint_call(
        &self,
        endpoint: &CStr,
        call: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    ) -> Result<(), Errno> {
        self.generation.check()?;
        // libzmq looks into its mailbox first, which a signal may break off, and does nothing then.
        // SAFETY: the socket is live and used by one thread; the string ends in NUL.
        retry(|| check(unsafe { call(self.ptr.as_ptr(), endpoint.as_ptr()) })).map(drop)
    }

    /// Sends without waiting. On success `msg` is left empty, on failure as it was, but without
    /// its metadata.
    #[inline]
    pub(crate) fn send(&self, msg: &mut RawMsg, more: bool) -> Result<(), Errno> {
        self.generation.check()?;
        let flags = zmq_sys::ZMQ_DONTWAIT | if more { zmq_sys::ZMQ_SNDMORE } else { 0 };
        // SAFETY: socket and message are live and used by this thread alone.
        let rc =
            unsafe { zmq_sys::zmq_msg_send(msg.0.as_mut_ptr(), self.ptr.as_ptr(), flags as c_int) };
        check(rc).map(drop)
    }

    /// Receives one frame in place of the content of `msg`: without waiting, or as long as
    /// `ZMQ_RCVTIMEO` says.
    #[inline]
    pub(crate) fn recv(&self, msg: &mut RawMsg, wait: bool) -> Result<(), Errno> {
        self.generation.check()?;
        let flags = if wait { 0 } else { zmq_sys::ZMQ_DONTWAIT as c_int };
        // SAFETY: socket and message are live and used by this thread alone.
        check(unsafe { zmq_sys::zmq_msg_recv(msg.0.as_mut_ptr(), self.ptr.as_ptr(), flags) })
            .map(drop)
    }

    /// Sets an option that libzmq takes as a C `int`.
    pub(crate) fn set_int(&self, option: u32, value: c_int) -> Result<(), Errno> {
        // SAFETY: the pointer is valid for the length that goes with it.
        unsafe { self.set_option(option, (&raw const value).cast(), size_of::<c_int>()) }
    }

    /// Sets an option that libzmq takes as an `int64_t` or `uint64_t`.
    pub(crate) fn set_u64(&self, option: u32, value: u64) -> Result<(), Errno> {
        // SAFETY: the pointer is valid for the length that goes with it.
        unsafe { self.set_option(option, (&raw const value).cast(), size_of::<u64>()) }
    }

    pub(crate) fn set_bytes(&self, option: u32, value: &[u8]) -> Result<(), Errno> {
        // SAFETY: the pointer is valid for the length that goes with it.
        unsafe { self.set_option(option, value.as_ptr().cast(), value.len()) }
    }

    /// Sets an option to C's `NULL`, which turns some options off.
    pub(crate) fn set_null(&self, option: u32) -> Result<(), Errno> {
        // SAFETY: libzmq takes a null pointer with no length.
        unsafe { self.set_option(option, ptr::null(), 0) }
    }

    /// # Safety
    /// `value` is valid for reads of `len` bytes, aligned for the type that the option takes.
    unsafe fn set_option(
        &self,
        option: u32,
        value: *const c_void,
        len: usize,
    ) -> Result<(), Errno> {
        self.generation.check()?;
        // SAFETY: the socket is live and used by one thread; the caller vouches for the value.
        check(unsafe { zmq_sys::zmq_setsockopt(self.ptr.as_ptr(), option as c_int, value, len) })
            .map(drop)
    }

    pub(crate) fn get_int(&self, option: u32) -> Result<c_int, Errno> {
        let mut value: c_int = 0;
        // SAFETY: the pointer is valid for the length that goes with it.
        unsafe { self.get_option(option, (&raw mut value).cast(), size_of::<c_int>()) }?;
        Ok(value)
    }

    pub(crate) fn get_u64(&self, option: u32) -> Result<u64, Errno> {
        let mut value: u64 = 0;
        // SAFETY: the pointer is valid for the length that goes with it.
        unsafe { self.get_option(option, (&raw mut value).cast(), size_of::<u64>()) }?;
        Ok(value)
    }

    /// Reads an option of variable length, at most `limit` bytes.
    pub(crate) fn get_bytes(&self, option: u32, limit: usize) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; limit];
        // SAFETY: the vector is valid for writes of `limit` bytes.
        let len = unsafe { self.get_option(option, value.as_mut_ptr().cast(), limit) }?;
        value.truncate(len);
        Ok(value)
    }

    /// # Safety
    /// `value` is valid for writes of `len` bytes, aligned for the type that the option has.
    unsafe fn get_option(
        &self,
        option: u32,
        value: *mut c_void,
        mut len: usize,
    ) -> Result<usize, Errno> {
        self.generation.check()?;
        let socket = self.ptr.as_ptr();
        // SAFETY: the socket is live and used by one thread; the caller vouches for the memory,
        // of which libzmq writes at most `len` bytes.
        check(unsafe { zmq_sys::zmq_getsockopt(socket, option as c_int, value, &mut len) })?;
        Ok(len)
    }
}

impl Drop for RawSocket {
    fn drop(&mut self) {
        // In the child of a fork the socket belongs to the parent, whose threads own it.
        if self.generation.check().is_err() {
            std::mem::forget(self.adopted.take());
            return;
        }
        if let Some(monitored) = self.monitored.get() {
            let mut monitored = lock(monitored);
            if monitored.take().is_some() {
                // Closing goes on in libzmq's threads. They would wait for whoever receives the
                // events, who may be gone by then.
                // SAFETY: the socket is live.
                unsafe { zmq_sys::zmq_socket_monitor(self.ptr.as_ptr(), ptr::null(), 0) };
            }
        }
        if self.adopted.is_none() {
            // SAFETY: the socket is live and not used again.
            unsafe { zmq_sys::zmq_close(self.ptr.as_ptr()) };
        }
    }
}

/// A socket that reports its events, and which report of its it is.
struct Monitored {
    socket: NonNull<c_void>,
    serial: u64,
}

// SAFETY: the pointer is used for `zmq_socket_monitor` only, as `RawMonitor` says.
unsafe impl Send for Monitored {}

/// Has a socket report its events until it is dropped, which any thread may do.
pub(crate) struct RawMonitor {
    monitored: Arc<Mutex<Option<Monitored>>>,
    serial: u64,
}

impl RawMonitor {
    /// Has `socket` send all its events to `endpoint`, an `inproc` name, instead of where it sent
    /// them before.
    pub(crate) fn start(socket: &RawSocket, endpoint: &CStr) -> Result<RawMonitor, Errno> {
        socket.generation.check()?;
        let shared = socket.monitored.get_or_init(Arc::default);
        let mut monitored = lock(shared);
        let all = zmq_sys::ZMQ_EVENT_ALL as c_int;
        retry(|| {
            // SAFETY: the socket is live and used by this thread alone, the name is a C string.
            check(unsafe {
                zmq_sys::zmq_socket_monitor(socket.ptr.as_ptr(), endpoint.as_ptr(), all)
            })
        })?;
        let serial = monitored.as_ref().map_or(0, |earlier| earlier.serial + 1);
        *monitored = Some(Monitored { socket: socket.ptr, serial });
        Ok(RawMonitor { monitored: Arc::clone(shared), serial })
    }
}

impl Drop for RawMonitor {
    fn drop(&mut self) {
        match &*lock(&self.monitored) {
            Some(Monitored { socket, serial }) if *serial == self.serial => {
                // SAFETY: the socket is live, since closing it waits for the lock that is held
                // here. libzmq guards a socket's monitor by a mutex of its own, because its I/O
                // threads use it too, so this thread need not be the one that uses the socket.
                unsafe { zmq_sys::zmq_socket_monitor(socket.as_ptr(), ptr::null(), 0) };
            }
            _ => {}
        }
    }
}

/// Which process, counted in forks, made an object. Comparing costs one load, where `getpid`
/// would cost a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u32);

static FORKS: AtomicU32 = AtomicU32::new(0);

impl Generation {
    pub(crate) fn current() -> Generation {
        static COUNT_FORKS: Once = Once::new();
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
            for lock in &COPY_LOCKS {
                lock.store(false, Ordering::Relaxed);
            }
        }
        COUNT_FORKS.call_once(|| on_fork(in_child));
        Generation(FORKS.load(Ordering::Relaxed))
    }

    /// Fails in the child of a fork.
    #[inline]
    pub(crate) fn check(self) -> Result<(), Errno> {
        if self.0 == FORKS.load(Ordering::Relaxed) { Ok(()) } else { Err(Errno::FORKED) }
    }
}

/// Has `hook` called in the child of every fork. It must do nothing that is not allowed between
/// fork and exec: no allocation, no lock.
pub(crate) fn on_fork(hook: extern "C" fn()) {
    // SAFETY: `hook` is a function that lives for ever.
    unsafe { libc::pthread_atfork(None, None, Some(hook)) };
}

/// Puts one end of a new pair of connected sockets in place of the descriptor `one` and the other
/// end in place of each of `others`.
pub(crate) fn replace_pair(one: RawFd, others: &[RawFd]) {
    let mut pair = [0; 2];
    // SAFETY: `pair` has room for two descriptors; those replaced are open and stay so, which is
    // all that their owners rely on.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) == -1 {
            return;
        }
        for (end, replaced) in [(pair[0], slice::from_ref(&one)), (pair[1], others)] {
            libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
            for fd in replaced {
                libc::dup2(end, *fd);
                libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            libc::close(end);
        }
    }
}

/// Makes `call` while this thread gets none of `signals`; those that come are delivered to it at the
/// end.
pub(crate) fn holding_back<T>(signals: &[c_int], call: impl FnOnce() -> T) -> T {
    /// Gives the thread back the signals that it had, also after a panic.
    struct Mask(libc::sigset_t);
    impl Drop for Mask {
        fn drop(&mut self) {
            // SAFETY: the set is one that the system filled in; no older one is asked for.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
        }
    }
    let mut held = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is valid for writing; it is initialised first.
    unsafe { libc::sigemptyset(held.as_mut_ptr()) };
    for &signal in signals {
        // SAFETY: as above. A number that is no signal's is not added.
        unsafe { libc::sigaddset(held.as_mut_ptr(), signal) };
    }
    let mut before = held;
    // SAFETY: both sets are initialised and valid. The call fails only for an unknown way of
    // changing the mask.
    let _mask = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, held.as_ptr(), before.as_mut_ptr());
        Mask(before.assume_init())
    };
    call()
}

/// Locks a mutex, also after a panic of a thread that held it: no state of zkit's is left half
/// changed by one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats a call that a signal broke off. It never waits, so it is soon done.
#[inline]
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// A duration as libzmq takes it: milliseconds in a C `int`, rounded up so that no time that is
/// not zero becomes zero.
pub(crate) fn millis(time: Duration) -> Result<c_int, Reason> {
    let millis = time.as_nanos().div_ceil(1_000_000);
    c_int::try_from(millis).map_err(|_| {
        Reason::new(format!("{time:?} is longer than libzmq can hold, {} ms", c_int::MAX))
    })
}

/// Waits until a descriptor is ready or the time is over; `None` waits for ever. Returns how many
/// are ready. Time is rounded up to the millisecond.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> Result<usize, Errno> {
    let timeout = timeout.map_or(-1, |time| millis(time).unwrap_or(c_int::MAX));
    // SAFETY: the slice is valid for its length.
    let rc = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    check(rc).map(|ready| ready as usize)
}

/// A descriptor that lives as long as its owner does.
pub(crate) fn borrow_fd<T>(_owner: &T, fd: RawFd) -> BorrowedFd<'_> {
    // SAFETY: the caller had `fd` from this owner (a socket's ZMQ_FD, an epoll instance), which
    // closes it when it is dropped, and which the result borrows.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Whether a descriptor is a socket that accepts connections.
pub(crate) fn is_listening(fd: BorrowedFd<'_>) -> bool {
    let mut listens: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointers are valid for what they are said to hold; the descriptor is open.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut listens).cast(),
            &mut len,
        )
    };
    rc == 0 && listens != 0
}

/// Whether the system would set an option of TCP to `value`, tried on a socket that nobody else has.
pub(crate) fn try_tcp_option(option: c_int, value: c_int) -> Result<(), Errno> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let tried = listener.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    // SAFETY: the pointer is valid for the length that goes with it; the descriptor is open.
    let rc = unsafe {
        libc::setsockopt(
            tried.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    check(rc).map(drop)
}

/// The system's monotonic clock, since an arbitrary point that all processes share.
pub(crate) fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writing; CLOCK_MONOTONIC exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Has `hook` called when the process ends in the ordinary way.
pub(crate) fn at_exit(hook: extern "C" fn()) {
    // SAFETY: `hook` is a function that lives for ever. A failure (no memory) costs the hook.
    unsafe { libc::atexit(hook) };
}
