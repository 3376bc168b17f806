//! Sequential requests on persistent connections, with the duration of each: to the last byte of its response, which is
//! checked to be complete and for the requested page.

use larder_stdx::clock;
use larder_wire::http1::chunked::{ChunkStep, ChunkedDecoder};
use larder_wire::http1::response::{ParsedResponse, parse};
use larder_wire::message::Framing;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The limit of one request: a slower response on this machine is an error.
const PATIENCE: Duration = Duration::from_secs(10);

const HEAD_LIMIT: usize = 64 * 1024;

/// The result of one measurement.
pub(super) struct MeasuredLoad {
    /// Microseconds of each response.
    pub micros: Vec<u32>,
    /// Requests without a response, or with a status other than 200.
    pub failed: u64,
}

/// Requests each page once.
pub(super) fn ask_each(larder: SocketAddr, pages: &[String]) -> Result<(), String> {
    let mut connection = LoadConnection::open(larder)?;
    for page in pages {
        match connection.get(page) {
            Ok(200) => {}
            Ok(status) => return Err(format!("{page}: status {status}.")),
            Err(error) => return Err(format!("{page}: no response: {error}.")),
        }
    }
    Ok(())
}

/// `concurrency` connections request the pages in turn, each from another one on, for the given time.
pub(super) fn measure(
    larder: SocketAddr,
    pages: &[String],
    concurrency: usize,
    time: Duration,
) -> Result<MeasuredLoad, String> {
    let connections: Vec<LoadConnection> =
        (0..concurrency).map(|_| LoadConnection::open(larder)).collect::<Result<_, _>>()?;
    let until = clock::precise_micros() + u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let loads: Vec<MeasuredLoad> = std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, mut connection)| {
                let first = number * pages.len() / concurrency;
                scope.spawn(move || connection.run(pages, first, until))
            })
            .collect();
        threads.into_iter().filter_map(|it| it.join().ok()).collect()
    });
    let mut all = MeasuredLoad { micros: Vec::new(), failed: 0 };
    for it in loads {
        all.micros.extend(it.micros);
        all.failed += it.failed;
    }
    Ok(all)
}

struct LoadConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl LoadConnection {
    fn open(larder: SocketAddr) -> Result<Self, String> {
        let open = || {
            let stream = TcpStream::connect_timeout(&larder, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = open().map_err(|it| format!("{larder} is unreachable: {it}."))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    fn run(&mut self, pages: &[String], first: usize, until: u64) -> MeasuredLoad {
        let mut load = MeasuredLoad { micros: Vec::new(), failed: 0 };
        for page in pages.iter().cycle().skip(first) {
            let begin = clock::precise_micros();
            if begin >= until {
                break;
            }
            match self.get(page) {
                Ok(200) => {
                    let took = clock::precise_micros() - begin;
                    load.micros.push(u32::try_from(took).unwrap_or(u32::MAX));
                }
                Ok(_) => load.failed += 1,
                Err(_) => {
                    load.failed += 1;
                    break;
                }
            }
        }
        load
    }

    /// Requests one page; returns its status after the last byte.
    fn get(&mut self, page: &str) -> std::io::Result<u16> {
        write!(self.stream, "GET {page} HTTP/1.1\r\nHost: bench\r\n\r\n")?;
        self.buffer.clear();
        let response = loop {
            match parse(&self.buffer, HEAD_LIMIT, "GET") {
                Ok(ParsedResponse::Head(response, length)) => {
                    self.buffer.drain(..length);
                    break response;
                }
                Ok(ParsedResponse::Partial) => self.read()?,
                Err(_) => return Err(wrong("the head is malformed")),
            }
        };
        match response.framing {
            Framing::Empty => {}
            Framing::Length(length) => {
                while (self.buffer.len() as u64) < length {
                    self.read()?;
                }
            }
            Framing::Chunked => self.read_chunks()?,
            Framing::Close => return Err(wrong("the response has no length")),
        }
        Ok(response.status)
    }

    fn read_chunks(&mut self) -> std::io::Result<()> {
        let mut decoder = ChunkedDecoder::default();
        loop {
            match decoder.step(&self.buffer).map_err(|_| wrong("a chunk is malformed"))? {
                ChunkStep::End { .. } => return Ok(()),
                ChunkStep::More { consumed } => {
                    self.buffer.drain(..consumed);
                    self.read()?;
                }
                ChunkStep::Data { consumed, data } => {
                    self.buffer.drain(..consumed);
                    if self.buffer.is_empty() {
                        self.read()?;
                    }
                    let here = self.buffer.len().min(usize::try_from(data).unwrap_or(usize::MAX));
                    self.buffer.drain(..here);
                    decoder.took(here as u64);
                }
            }
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let at = self.buffer.len();
        self.buffer.resize(at + 64 * 1024, 0);
        let read = self.stream.read(&mut self.buffer[at..]);
        self.buffer.truncate(at + read.as_ref().copied().unwrap_or(0));
        match read? {
            0 => Err(wrong("the connection was closed")),
            _ => Ok(()),
        }
    }
}

fn wrong(what: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what)
}
