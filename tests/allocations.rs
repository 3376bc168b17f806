//! A RAM hit allocates nothing: counted in the worker over ten thousand of them, through real sockets, in this process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, mpsc};

struct Counting;

/// Allocations of each thread, by its number in the kernel: the main thread of larder samples the history meanwhile, as often as the
/// clock says and not as often as requests come.
static ALLOCATIONS: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn place_of(thread: i32) -> usize {
    usize::try_from(thread).unwrap_or(0) % ALLOCATIONS.len()
}

fn count() {
    let place = PLACE.try_with(|it| {
        if it.get() == usize::MAX {
            it.set(place_of(rustix::thread::gettid().as_raw_nonzero().get()));
        }
        it.get()
    });
    ALLOCATIONS[place.unwrap_or(0)].fetch_add(1, Relaxed);
}

/// The allocations of all workers so far.
fn of_workers() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter(|it| {
        std::fs::read_to_string(it.path().join("comm")).is_ok_and(|it| it.starts_with("worker-"))
    });
    let numbers = threads.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let counts: Vec<u64> = numbers.map(|it| ALLOCATIONS[place_of(it)].load(Relaxed)).collect();
    assert!(!counts.is_empty(), "a worker runs");
    counts.iter().sum()
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the one test that counts.
static ALONE: Mutex<()> = Mutex::new(());

/// The hits of a round, and the rounds.
const HITS: u64 = 1_000;
const ROUNDS: usize = 10;

/// An origin with one page.
fn origin(body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"a\"\r\nCache-Control: max-age=600\r\n\
                 Content-Length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    address
}

/// A larder in this process; it runs until the process ends.
fn larder(origin: SocketAddr, compress: &str) -> SocketAddr {
    let arguments = format!("proxy http://{origin} --listen 127.0.0.1:0 --workers 1 --admin off --log off");
    let command = larder_commands::cli::parse(arguments.split(' ').map(Into::into)).unwrap();
    let larder_commands::cli::Command::Serve(plan) = command else { panic!("{command:?}") };
    let plan = plan.or_else("cache.compress.enabled", compress);
    let config = plan.load().unwrap();
    let (done_sender, report) = mpsc::channel();
    std::thread::spawn(move || {
        larder::supervisor::run(config, plan, larder::inheritance::Inheritance::none(), None, |address, _| {
            done_sender.send(address.to_owned()).unwrap();
            String::new()
        })
    });
    report.recv().unwrap().trim_start_matches("http://").parse().unwrap()
}

/// Sends one request and reads one answer of `length` bytes or, for the first, whatever comes until the body's
/// end; nothing is allocated here.
fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut [u8], length: usize) {
    stream.write_all(request).unwrap();
    stream.read_exact(&mut buffer[..length]).unwrap();
}

/// The allocations of workers in the round with the fewest: their timers allocate a little for each second, and under load a round
/// takes some seconds. An allocation for each hit is one in each round.
fn fewest(mut hit: impl FnMut()) -> u64 {
    let round = |_| {
        let before = of_workers();
        (0..HITS).for_each(|_| hit());
        of_workers() - before
    };
    (0..ROUNDS).map(round).min().unwrap()
}

#[test]
fn a_hit_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let small: &'static str = "x".repeat(1795).leak();
    let large: &'static str = "y".repeat(26_510).leak();
    for body in [small, large] {
        let mut stream = TcpStream::connect(larder(origin(body), "false")).unwrap();
        let request = b"GET /page?x=1 HTTP/1.1\r\nHost: example.com\r\nAccept-Encoding: gzip, br\r\n\
                        User-Agent: test\r\nAccept: */*\r\n\r\n";
        let mut buffer = vec![0; 64 * 1024];
        stream.write_all(request).unwrap();
        let mut count = 0;
        while !buffer[..count].ends_with(&body.as_bytes()[..1024]) {
            count += stream.read(&mut buffer[count..]).unwrap();
        }
        // A hit is as long as the next one: the first tells how long.
        stream.write_all(request).unwrap();
        let mut length = 0;
        while !buffer[..length].ends_with(&body.as_bytes()[..1024]) || length < body.len() {
            length += stream.read(&mut buffer[length..]).unwrap();
        }
        assert!(buffer[..length].windows(13).any(|it| it == b"larder; hit; "), "a hit");
        let allocated = fewest(|| exchange(&mut stream, request, &mut buffer, length));
        assert!(allocated < HITS / 50, "{allocated} allocations in {HITS} hits of {} bytes", body.len());
    }
}

#[test]
fn a_hit_in_a_compressed_form_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let page: &'static str = "<p>soup of the day</p>\n".repeat(1000).leak();
    let mut stream = TcpStream::connect(larder(origin(page), "true")).unwrap();
    let request =
        b"GET /page HTTP/1.1\r\nHost: example.com\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n";
    let mut buffer = vec![0; 64 * 1024];
    let mut length = 0;
    // The first hit has the form made, and is not kept waiting for it.
    let is_coded = (0..100_000).any(|_| {
        stream.write_all(request).unwrap();
        length = read_answer(&mut stream, &mut buffer);
        buffer[..length].windows(22).any(|it| it == b"Content-Encoding: zstd")
    });
    assert!(is_coded && length < 2000, "{length} bytes");
    let allocated = fewest(|| exchange(&mut stream, request, &mut buffer, length));
    assert!(allocated < HITS / 50, "{allocated} allocations in {HITS} hits");
}

/// Reads one answer with its body, and says how long it is.
fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> usize {
    let mut count = 0;
    loop {
        count += stream.read(&mut buffer[count..]).unwrap();
        let text = &buffer[..count];
        let Some(end) = text.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&text[..end]).unwrap();
        let length = head.lines().find_map(|it| it.strip_prefix("Content-Length: ")).unwrap();
        if count == end + 4 + length.parse::<usize>().unwrap() {
            return count;
        }
    }
}

#[test]
fn a_hit_over_http2_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let page: &'static str = "x".repeat(1795).leak();
    let mut stream = TcpStream::connect(larder(origin(page), "false")).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    // All that a connection may be sent.
    stream.write_all(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0").unwrap();
    let mut buffer = vec![0; 64 * 1024];
    let mut at = 1u32;
    let mut ask = |stream: &mut TcpStream| {
        // GET, http, a path and an authority as literals.
        let mut frame = *b"\0\0\x10\x01\x05....\x82\x86\x04\x05/page\x01\x05a.com";
        frame[5..9].copy_from_slice(&at.to_be_bytes());
        at += 2;
        stream.write_all(&frame).unwrap();
        // Frames until the one that ends a stream.
        loop {
            stream.read_exact(&mut buffer[..9]).unwrap();
            let length = u32::from_be_bytes([0, buffer[0], buffer[1], buffer[2]]) as usize;
            let ends = buffer[3] == 0 && buffer[4] & 1 == 1;
            stream.read_exact(&mut buffer[..length]).unwrap();
            if ends {
                return assert_eq!(page.len(), length);
            }
        }
    };
    // Some, until whatever grows has grown.
    (0..100).for_each(|_| ask(&mut stream));
    let allocated = fewest(|| ask(&mut stream));
    assert!(allocated < HITS / 50, "{allocated} allocations in {HITS} hits");
}
