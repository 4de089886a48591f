//! What encoding, decoding, saving and loading of a `ZMsg` promise.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};

use proptest::collection::vec;
use proptest::prelude::*;
use zkit::{Error, Result, ZFrame, ZMsg};

/// The sizes at which the encoding of a size changes, and their neighbours.
const SIZES: [usize; 9] = [0, 1, 253, 254, 255, 256, 65535, 65536, 65537];

/// How many bytes a size takes in a file.
const SIZE: usize = size_of::<usize>();

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n % 251) as u8).collect()
}

/// Where an input is found to be no message, and why.
#[track_caller]
fn decode_error(result: Result<ZMsg>) -> (u64, String) {
    match result {
        Err(Error::Decode { offset, reason }) => (offset, reason.into_owned()),
        Err(error) => panic!("another error: {error:?}"),
        Ok(msg) => panic!("no error, but {msg:?}"),
    }
}

#[track_caller]
fn io_error(result: Result<impl std::fmt::Debug>) -> io::Error {
    match result {
        Err(Error::Io { source, .. }) => source,
        other => panic!("no I/O error, but {other:?}"),
    }
}

fn saved(msg: &ZMsg) -> Vec<u8> {
    let mut file = Vec::new();
    msg.save(&mut file).unwrap();
    file
}

// Encoding

#[test]
fn the_size_of_a_frame_goes_before_it_in_one_or_five_bytes() {
    for size in SIZES {
        let mut expected = match size {
            0..=254 => vec![size as u8],
            _ => [&[0xFF][..], &(size as u32).to_be_bytes()].concat(),
        };
        expected.extend(content(size));
        let encoded = ZMsg::from(content(size)).encode().unwrap();
        assert!(encoded == expected[..], "a frame of {size} bytes");
    }
}

#[test]
fn the_bytes_of_an_encoded_message_are_czmqs() {
    assert_eq!(ZMsg::new().encode().unwrap(), b"");
    assert_eq!(ZMsg::from("").encode().unwrap(), b"\0");
    assert_eq!(ZMsg::from(("Hello", "", "World")).encode().unwrap(), b"\x05Hello\0\x05World");
    let long = ZMsg::from(("a", vec![7; 255], "b")).encode().unwrap();
    assert_eq!(long[..7], *b"\x01a\xFF\0\0\0\xFF");
    assert_eq!(long[7..262], [7; 255]);
    assert_eq!(long[262..], *b"\x01b");
}

#[test]
fn all_sizes_make_the_round_trip() {
    let msg: ZMsg = SIZES.into_iter().map(content).collect();
    let encoded = msg.encode().unwrap();
    let decoded = ZMsg::decode(&encoded).unwrap();
    assert!(decoded == msg);
    assert!(decoded.iter().map(|frame| frame.len()).eq(SIZES));
    assert!(ZMsg::load(&saved(&msg)[..]).unwrap() == msg);
}

/// Of address space, not of memory: nobody reads or writes the bytes.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_frame_of_four_gib_is_refused_by_its_place() {
    // Under valgrind every byte is written.
    if std::env::var_os("ZKIT_SLOW").is_some() {
        return;
    }
    let msg = ZMsg::from(("a", "b", vec![0; 1 << 32]));
    match msg.encode() {
        Err(Error::Encode { index: 2, reason }) => {
            assert_eq!(reason, "the format ends at 4 GiB a frame");
        }
        other => panic!("{other:?}"),
    }
}

// Decoding

#[test]
fn no_bytes_are_a_message_of_no_frames() {
    assert_eq!(ZMsg::decode(b"").unwrap(), ZMsg::new());
    assert_eq!(ZMsg::load(&b""[..]).unwrap(), ZMsg::new());
}

/// CZMQ reads this size as -1 and goes far out of the buffer.
#[test]
fn the_largest_size_is_refused() {
    let (offset, reason) = decode_error(ZMsg::decode(b"\xFF\xFF\xFF\xFF\xFFabc"));
    assert_eq!((offset, &reason[..]), (0, "a frame of 4294967295 bytes, but only 3 follow"));
    for size in [0x7FFF_FFFF_u32, 0x8000_0000, 0xFFFF_FFFA, 4] {
        let bytes = [b"\x01a\xFF", &size.to_be_bytes()[..], b"abc"].concat();
        let (offset, reason) = decode_error(ZMsg::decode(&bytes));
        assert_eq!(offset, 2);
        assert_eq!(reason, format!("a frame of {size} bytes, but only 3 follow"));
    }
}

#[test]
fn an_input_that_ends_inside_a_size_is_refused_at_that_size() {
    for len in 1..5 {
        let bytes = [b"\x02ab\0", &b"\xFF\0\0\x01\0"[..len]].concat();
        let (offset, reason) = decode_error(ZMsg::decode(&bytes));
        assert_eq!((offset, &reason[..]), (4, "the input ends inside a size"));
    }
}

#[test]
fn an_input_that_ends_inside_a_frame_is_refused_at_its_size() {
    let (offset, reason) = decode_error(ZMsg::decode(b"\x04matr\x04joe"));
    assert_eq!((offset, &reason[..]), (5, "a frame of 4 bytes, but only 3 follow"));
    let (offset, reason) = decode_error(ZMsg::decode(b"\x01"));
    assert_eq!((offset, &reason[..]), (0, "a frame of 1 bytes, but only 0 follow"));
    assert_eq!(
        ZMsg::decode(b"\x01").unwrap_err().to_string(),
        "not an encoded message, at byte 0: a frame of 1 bytes, but only 0 follow"
    );
}

/// A short size may be written long, though no encoder does.
#[test]
fn a_short_size_in_five_bytes_is_read() {
    assert_eq!(ZMsg::decode(b"\xFF\0\0\0\x02ab\xFF\0\0\0\0").unwrap(), ("ab", "").into());
}

#[test]
fn every_prefix_is_a_shorter_message_or_refused_at_the_frame_that_is_cut() {
    let msg = ZMsg::from(("Hello", "", vec![1; 300], "", vec![2; 254], "x"));
    check_prefixes(&msg, &msg.encode().unwrap(), ZMsg::decode, |len| match len {
        0..=254 => 1,
        _ => 5,
    });
    check_prefixes(&msg, &saved(&msg), |bytes| ZMsg::load(bytes), |_| SIZE);
}

/// `size_of_size` is how many bytes the size of a frame of that many bytes takes.
fn check_prefixes(
    msg: &ZMsg,
    whole: &[u8],
    decode: fn(&[u8]) -> Result<ZMsg>,
    size_of_size: fn(usize) -> usize,
) {
    // Where frames begin, and the end.
    let mut starts = vec![0];
    for frame in msg {
        starts.push(starts.last().unwrap() + size_of_size(frame.len()) + frame.len());
    }
    assert_eq!(starts.last(), Some(&whole.len()));

    for end in 0..=whole.len() {
        let result = decode(&whole[..end]);
        let frames = starts.iter().filter(|start| **start <= end).count() - 1;
        if starts.contains(&end) {
            let expected: ZMsg = msg.iter().take(frames).collect();
            assert_eq!(result.unwrap(), expected, "the first {end} bytes");
        } else {
            assert_eq!(decode_error(result).0, starts[frames] as u64, "the first {end} bytes");
        }
    }
}

// Messages in messages

#[test]
fn a_message_travels_in_a_frame_of_another() {
    let inner = ZMsg::from(("joska", "", vec![1; 300]));
    let mut msg = ZMsg::from("matr");
    msg.push_msg(&inner).unwrap();
    msg.push_msg(&ZMsg::new()).unwrap();
    assert_eq!(msg.len(), 3);
    assert_eq!(msg.get(1), Some(&inner.encode().unwrap()));
    assert_eq!(msg.pop_front().unwrap(), "matr");
    assert_eq!(msg.pop_msg().unwrap(), inner);
    assert_eq!(msg.pop_msg().unwrap(), ZMsg::new());
    assert!(msg.is_empty());
}

#[test]
fn a_frame_that_is_no_message_is_named_and_stays_in_its_place() {
    let mut msg = ZMsg::from(("id", "matr"));
    msg.pop_front();
    match msg.pop_msg() {
        Err(Error::Frame { index: 1, reason }) => assert_eq!(
            reason,
            "not an encoded message, at byte 0: a frame of 109 bytes, but only 3 follow"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(msg, "matr".into());

    match ZMsg::new().pop_msg() {
        Err(Error::Frame { index: 0, reason }) => assert_eq!(reason, "the message ends before it"),
        other => panic!("{other:?}"),
    }
}

// Files

#[test]
fn a_file_has_before_each_frame_its_size_as_the_machine_writes_it() {
    let mut expected = 5_usize.to_ne_bytes().to_vec();
    expected.extend(b"Hello");
    expected.extend(0_usize.to_ne_bytes());
    expected.extend(300_usize.to_ne_bytes());
    expected.extend([7; 300]);
    assert_eq!(saved(&ZMsg::from(("Hello", "", vec![7; 300]))), expected);
    assert_eq!(saved(&ZMsg::new()), b"");
}

#[test]
fn a_message_saved_to_a_file_is_loaded_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("message");
    let mut msg: ZMsg = (0..10).map(|n| format!("Frame{n}")).collect();
    msg.push_back(ZFrame::empty());
    msg.push_back(content(100_000));
    msg.save(File::create(&path).unwrap()).unwrap();
    assert_eq!(ZMsg::load(File::open(&path).unwrap()).unwrap(), msg);

    // Not writable, and not spoiled by the attempt.
    let error = msg.save(File::open(&path).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("cannot save a message: "), "{error}");
    io_error(msg.save(File::open(&path).unwrap()));
    assert_eq!(ZMsg::load(File::open(&path).unwrap()).unwrap(), msg);

    // A directory opens, but is not read.
    let error = ZMsg::load(File::open(directory.path()).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("cannot load a message: "), "{error}");
    io_error(Err::<(), _>(error));
}

#[test]
fn a_writer_and_a_reader_may_be_lent() {
    let msg = ZMsg::from(("one", "two"));
    let mut file = Vec::new();
    msg.save(&mut file).unwrap();
    msg.save(&mut file).unwrap();
    let mut reader = &file[..];
    // A file holds one message: what follows belongs to it.
    assert_eq!(ZMsg::load(&mut reader).unwrap(), ("one", "two", "one", "two").into());
    assert!(reader.is_empty());
}

#[test]
fn a_file_that_ends_inside_a_size_is_refused_at_that_size() {
    let mut file = saved(&"Hello".into());
    for extra in 1..SIZE {
        file.push(0);
        let (offset, reason) = decode_error(ZMsg::load(&file[..]));
        assert_eq!((offset, &reason[..]), (SIZE as u64 + 5, "the input ends inside a size"));
        assert_eq!(file.len(), SIZE + 5 + extra);
    }
}

#[test]
fn a_file_that_ends_inside_a_frame_is_refused_at_its_size() {
    for size in [4, 1 << 20, usize::MAX / 2 + 1, usize::MAX] {
        let file = [&saved(&"Hello".into()), &size.to_ne_bytes()[..], b"abc"].concat();
        let (offset, reason) = decode_error(ZMsg::load(&file[..]));
        assert_eq!(offset, SIZE as u64 + 5);
        assert_eq!(reason, format!("a frame of {size} bytes, but only 3 follow"));
    }
}

/// Takes or gives a byte at a time, with an interrupted call before each, until it fails or, at
/// `None`, for ever.
struct Slow<T> {
    inner: T,
    left: Option<usize>,
    interrupted: bool,
}

impl<T> Slow<T> {
    fn new(inner: T, left: Option<usize>) -> Slow<T> {
        Slow { inner, left, interrupted: false }
    }

    fn step(&mut self) -> io::Result<()> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match &mut self.left {
            Some(0) => Err(io::Error::other("the disk is full")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl<T: Write> Write for Slow<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.step()?;
        self.inner.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Slow<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.step()?;
        let len = bytes.len().min(1);
        self.inner.read(&mut bytes[..len])
    }
}

#[test]
fn slow_and_interrupted_files_are_written_and_read_whole() {
    let msg = ZMsg::from(("Hello", "", vec![7; 300]));
    let mut file = Vec::new();
    msg.save(Slow::new(&mut file, None)).unwrap();
    assert_eq!(file, saved(&msg));
    assert_eq!(ZMsg::load(Slow::new(&file[..], None)).unwrap(), msg);
}

#[test]
fn a_failing_writer_or_reader_gives_its_own_error() {
    let msg = ZMsg::from(("Hello", "", "World"));
    let file = saved(&msg);
    for left in 0..file.len() {
        let mut written = Vec::new();
        let error = io_error(msg.save(Slow::new(&mut written, Some(left))));
        assert_eq!(error.to_string(), "the disk is full");
        assert_eq!(written, file[..left]);

        let error = io_error(ZMsg::load(Slow::new(&file[..], Some(left))));
        assert_eq!(error.to_string(), "the disk is full");
    }
    msg.save(Slow::new(Vec::new(), Some(file.len()))).unwrap();
}

#[test]
fn a_writer_that_fails_to_flush_or_takes_nothing_is_an_error() {
    struct NeverFlushed;

    impl Write for NeverFlushed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::other("not flushed"))
        }
    }

    let msg = ZMsg::from("Hello");
    assert_eq!(io_error(msg.save(NeverFlushed)).to_string(), "not flushed");
    let mut full = [0; 10];
    assert_eq!(io_error(msg.save(&mut full[..])).kind(), io::ErrorKind::WriteZero);
}

// Memory

/// Counts what each thread allocates. What libzmq takes for itself is not seen here.
struct Counting;

#[derive(Clone, Copy, Default)]
struct Count {
    /// Bytes allocated now, less those freed that were allocated before.
    live: isize,
    most: isize,
    largest: usize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { live: 0, most: 0, largest: 0 }) };
}

fn count(allocated: usize, freed: usize) {
    let mut count = COUNT.get();
    count.live += allocated as isize - freed as isize;
    count.most = count.most.max(count.live);
    count.largest = count.largest.max(allocated);
    COUNT.set(count);
}

// SAFETY: everything is passed on to the system's allocator as it is. Counting neither allocates
// nor unwinds: the thread's cell is constant at first and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the rules of this function, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may both be there for a moment.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` allocates: the most at a time, and the largest piece.
fn allocated<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    COUNT.set(Count::default());
    let result = work();
    let count = COUNT.get();
    (result, count.most as usize, count.largest)
}

/// The words of an error, and the first piece of a growing buffer.
const LITTLE: usize = 1024;

#[test]
fn the_allocator_counts() {
    let (_, most, largest) = allocated(|| {
        drop(vec![1_u8; 5000]);
        drop((vec![1_u8; 3000], vec![1_u8; 4000]));
    });
    assert_eq!((most, largest), (7000, 5000));
    let (_, most, largest) = allocated(|| {
        let mut growing = vec![1_u8; 1000];
        growing.reserve_exact(1000);
        growing
    });
    assert_eq!((most, largest), (3000, 2000));
}

#[test]
fn a_size_alone_allocates_nothing() {
    let hostile = b"\xFF\xFF\xFF\xFF\xFFabc";
    let (result, most, _) = allocated(|| ZMsg::decode(hostile));
    decode_error(result);
    assert!(most <= LITTLE, "decode allocated {most} bytes");

    for size in [1 << 20, usize::MAX / 4, usize::MAX / 2 + 1, usize::MAX] {
        let file = [&size.to_ne_bytes()[..], b"abc"].concat();
        let (result, most, _) = allocated(|| ZMsg::load(&file[..]));
        decode_error(result);
        assert!(most <= LITTLE, "load allocated {most} bytes for a size of {size}");
    }
}

/// As documented: nothing before the whole input is found well-formed.
#[test]
fn decoding_allocates_nothing_before_a_fault_at_the_end() {
    let mut many = vec![0; 100_000];
    many.push(1);
    let (result, most, _) = allocated(|| ZMsg::decode(&many));
    assert_eq!(decode_error(result).0, 100_000);
    assert!(most <= LITTLE, "{most} bytes");

    let mut large = ZMsg::from(content(1 << 20)).encode().unwrap().to_vec();
    large.push(0xFF);
    let (result, most, _) = allocated(|| ZMsg::decode(&large));
    assert_eq!(decode_error(result).0, large.len() as u64 - 1);
    assert!(most <= LITTLE, "{most} bytes");
}

/// As documented: 64 bytes a frame, and libzmq's memory for the content.
#[test]
fn decoding_allocates_64_bytes_a_frame() {
    let many = vec![0; 100_000];
    let (result, most, _) = allocated(|| ZMsg::decode(&many));
    assert_eq!(result.unwrap().len(), 100_000);
    assert!(most <= 64 * many.len() + LITTLE, "{most} bytes");
}

#[test]
fn loading_allocates_about_the_input() {
    let mut large = saved(&content(1 << 20).into());
    // A buffer that doubles is there twice while it grows.
    let bound = 3 * large.len() + LITTLE;
    let (result, most, largest) = allocated(|| ZMsg::load(&large[..]));
    assert_eq!(result.unwrap().content_size(), 1 << 20);
    assert!(most <= bound, "{most} bytes");
    assert!(largest <= 2 * large.len() + LITTLE, "{largest} bytes");

    // The same content behind a size that promises more.
    large[..SIZE].copy_from_slice(&(usize::MAX / 4).to_ne_bytes());
    let (result, most, largest) = allocated(|| ZMsg::load(&large[..]));
    decode_error(result);
    assert!(most <= bound, "{most} bytes");
    assert!(largest <= 2 * large.len() + LITTLE, "{largest} bytes");

    // Behind many small frames, a hostile end costs no more than they did.
    let mut small = saved(&(0..1000).map(|_| "x").collect());
    small.extend(usize::MAX.to_ne_bytes());
    let (result, most, _) = allocated(|| ZMsg::load(&small[..]));
    decode_error(result);
    assert!(most <= 3 * 64 * 1000 + LITTLE, "{most} bytes");
}

// By chance

fn config() -> ProptestConfig {
    // A case that failed is printed; no file is left in the source tree.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Frames of none, few, and about 255 bytes.
fn message() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let content = prop_oneof![
        2 => Just(Vec::new()),
        4 => vec(any::<u8>(), 1..40),
        2 => vec(any::<u8>(), 250..260),
    ];
    vec(content, 0..8)
}

/// Bytes that look like an encoding more often than chance alone would have it.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => vec(any::<u8>(), 0..20),
        2 => vec(0_u8..4, 0..20),
        1 => Just(vec![0xFF]),
        1 => (0_u32..300).prop_map(|size| [&[0xFF], &size.to_be_bytes()[..]].concat()),
        1 => any::<u32>().prop_map(|size| [&[0xFF], &size.to_be_bytes()[..]].concat()),
        2 => message().prop_map(|frames| {
            frames.into_iter().collect::<ZMsg>().encode().unwrap().to_vec()
        }),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_message_makes_the_round_trip(frames in message()) {
        let msg: ZMsg = frames.iter().cloned().collect();
        let decoded = ZMsg::decode(&msg.encode().unwrap()).unwrap();
        prop_assert_eq!(&decoded, &msg);
        let loaded = ZMsg::load(&saved(&msg)[..]).unwrap();
        prop_assert_eq!(&loaded, &msg);
        let contents: Vec<Vec<u8>> = loaded.iter().map(|frame| frame.to_vec()).collect();
        prop_assert_eq!(contents, frames);
    }

    #[test]
    fn any_bytes_decode_to_a_message_or_an_error_inside_them(bytes in hostile()) {
        match ZMsg::decode(&bytes) {
            Ok(msg) => {
                prop_assert_eq!(ZMsg::decode(&msg.encode().unwrap()).unwrap(), msg);
            }
            Err(Error::Decode { offset, .. }) => {
                // What comes before the fault is a message.
                prop_assert!(offset < bytes.len() as u64);
                ZMsg::decode(&bytes[..offset as usize]).unwrap();
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    #[test]
    fn any_file_loads_as_a_message_or_an_error_inside_it(
        frames in message(),
        cut in any::<prop::sample::Index>(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut file = saved(&frames.into_iter().collect());
        file.truncate(cut.index(file.len() + 1));
        if !file.is_empty() {
            for (at, byte) in flips {
                let at = at.index(file.len());
                file[at] = byte;
            }
        }
        let (result, most, _) = allocated(|| ZMsg::load(&file[..]));
        // Beside the content, 64 bytes a frame, in a queue that doubles.
        prop_assert!(most <= 3 * file.len() + 3 * 64 * (file.len() / SIZE) + LITTLE);
        match result {
            Ok(msg) => prop_assert_eq!(saved(&msg), file),
            Err(Error::Decode { offset, .. }) => {
                prop_assert!(offset < file.len() as u64);
                let before = ZMsg::load(&file[..offset as usize]).unwrap();
                prop_assert_eq!(&saved(&before)[..], &file[..offset as usize]);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}
