//! A RAM hit allocates nothing: counted over ten thousand of them, through real sockets, in this process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HITS: u64 = 10_000;

/// An origin with one page.
fn origin(body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    address
}

/// A larder in this process; it runs until the process ends.
fn larder(origin: SocketAddr) -> SocketAddr {
    let arguments = format!("proxy http://{origin} --listen 127.0.0.1:0 --workers 1 --admin off --log off");
    let command = larder::cli::parse(arguments.split(' ').map(Into::into)).unwrap();
    let larder::cli::Command::Serve(plan) = command else { panic!("{command:?}") };
    let config = plan.load().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        larder::server::run(config, plan, None, |address| {
            tell.send(address.to_owned()).unwrap();
            String::new()
        })
    });
    told.recv().unwrap().trim_start_matches("http://").parse().unwrap()
}

/// Sends one request and reads one answer of `length` bytes or, for the first, whatever comes until the body's
/// end; nothing is allocated here.
fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut [u8], length: usize) {
    stream.write_all(request).unwrap();
    stream.read_exact(&mut buffer[..length]).unwrap();
}

#[test]
fn a_hit_allocates_nothing() {
    let small: &'static str = "x".repeat(1795).leak();
    let large: &'static str = "y".repeat(26_510).leak();
    for body in [small, large] {
        let mut stream = TcpStream::connect(larder(origin(body))).unwrap();
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
        let before = ALLOCATIONS.load(Relaxed);
        for _ in 0..HITS {
            exchange(&mut stream, request, &mut buffer, length);
        }
        let allocated = ALLOCATIONS.load(Relaxed) - before;
        // What ticks beside it (timers, sums of counters) allocates a little, now and then.
        assert!(allocated < HITS / 50, "{allocated} allocations in {HITS} hits of {} bytes", body.len());
    }
}
