//! A client that sends exactly the bytes that it is given and reads one response at a time, by its framing.

use super::TIMEOUT;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// One connection.
pub struct Client {
    /// The connection itself, for what scenarios do to it.
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Names and values in order, as sent.
    pub fields: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
    /// Interim responses before it: status and fields.
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// Whether the body came to its end.
    pub complete: bool,
}

impl Response {
    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.as_str())
    }

    /// The members of a list field, of all its lines.
    pub fn members(&self, name: &str) -> Vec<&str> {
        let lines = self.fields.iter().filter(|it| it.0.eq_ignore_ascii_case(name));
        lines.flat_map(|it| it.1.split(',')).map(str::trim).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// `Cache-Status`, or nothing.
    pub fn cache(&self) -> &str {
        self.field("cache-status").unwrap_or("")
    }

    /// Whether `Cache-Status` says that the store answered.
    #[track_caller]
    pub fn is_hit(&self) -> bool {
        self.cache().contains("; hit")
    }
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// Connects from another address of this machine.
    pub fn connect_from(ip: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::over(socket.into())
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The server may have closed already; what it said before is still to be read.
        let _ = self.stream.write_all(bytes.as_ref());
        self
    }

    /// Closes the sending side.
    pub fn shut(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// GETs `target` from host `h` with more header lines, each ended by CRLF.
    pub fn get_with(&mut self, target: &str, lines: &str) -> Response {
        self.request("GET", target, lines, "")
    }

    /// GETs `target`.
    pub fn get(&mut self, target: &str) -> Response {
        self.get_with(target, "")
    }

    /// Sends a request with a body (`Content-Length` is added if there is one) and reads the response.
    pub fn request(&mut self, method: &str, target: &str, lines: &str, body: &str) -> Response {
        let length = match body {
            "" => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}{length}\r\n{body}"));
        self.read_for(method)
    }

    /// Reads the response to a GET.
    pub fn read(&mut self) -> Response {
        self.read_for("GET")
    }

    /// Reads one response; a connection that ends early gives what was there, not `complete`.
    pub fn read_for(&mut self, method: &str) -> Response {
        let mut response = Response {
            status: 0,
            fields: Vec::new(),
            body: Vec::new(),
            trailers: Vec::new(),
            interim: Vec::new(),
            complete: false,
        };
        loop {
            let Some(head) = self.read_head() else { return response };
            let (status, fields) = parse_head(&head);
            if status < 200 && status != 101 {
                response.interim.push((status, fields));
                continue;
            }
            (response.status, response.fields) = (status, fields);
            break;
        }
        let bodyless = method == "HEAD" || matches!(response.status, 101 | 204 | 304);
        let length = response.field("content-length").and_then(|it| it.parse::<usize>().ok());
        let chunked =
            response.field("transfer-encoding").is_some_and(|it| it.eq_ignore_ascii_case("chunked"));
        response.complete = if bodyless {
            true
        } else if chunked {
            self.read_chunked(&mut response)
        } else if let Some(length) = length {
            while self.buffer.len() < length && self.more() {}
            response.body = self.buffer.drain(..length.min(self.buffer.len())).collect();
            response.body.len() == length
        } else {
            let clean = self.read_to_end().is_ok();
            response.body = std::mem::take(&mut self.buffer);
            clean
        };
        response
    }

    /// Waits for a head and says whether it is `100 Continue`, which is then read; any other stays to be read.
    pub fn is_told_to_continue(&mut self) -> bool {
        while !self.buffer.windows(4).any(|it| it == b"\r\n\r\n") && self.more() {}
        let report = self.buffer.starts_with(b"HTTP/1.1 100 ");
        if report {
            self.read_head();
        }
        report
    }

    /// Reads a head with its empty line; the bytes so far where the connection ends before.
    pub fn read_raw_head(&mut self) -> Vec<u8> {
        self.read_head().unwrap_or_default().into_bytes()
    }

    /// Reads one chunk of a body in chunks; `None` behind the last.
    pub fn read_chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.read_line()?, 16).ok()?;
        while self.buffer.len() < size + 2 && self.more() {}
        let whole = self.buffer.len() >= size + 2;
        let chunk = self.buffer.drain(..size.min(self.buffer.len())).collect();
        (whole && self.read_line().as_deref() == Some("") && size > 0).then_some(chunk)
    }

    fn read_head(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|it| it == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..at + 4).collect();
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn read_chunked(&mut self, response: &mut Response) -> bool {
        loop {
            let Some(line) = self.read_line() else { return false };
            let Ok(size) = usize::from_str_radix(line.split(';').next().unwrap_or(""), 16) else {
                return false;
            };
            if size == 0 {
                break;
            }
            while self.buffer.len() < size + 2 && self.more() {}
            let whole = self.buffer.len() >= size + 2;
            response.body.extend(self.buffer.drain(..size.min(self.buffer.len())));
            if !whole || self.read_line().as_deref() != Some("") {
                return false;
            }
        }
        loop {
            match self.read_line().as_deref() {
                Some("") => return true,
                Some(line) => {
                    let (name, value) = line.split_once(':').unwrap_or((line, ""));
                    response.trailers.push((name.to_owned(), value.trim().to_owned()));
                }
                None => return false,
            }
        }
    }

    fn read_line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|it| it == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Reads at least `count` bytes; fewer if the connection ends.
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.more() {}
        let count = count.min(self.buffer.len());
        self.buffer.drain(..count).collect()
    }

    fn more(&mut self) -> bool {
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(count) if count > 0 => {
                self.buffer.extend_from_slice(&chunk[..count]);
                true
            }
            _ => false,
        }
    }

    /// Reads to the end of the connection.
    fn read_to_end(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut chunk)? {
                0 => return Ok(()),
                count => self.buffer.extend_from_slice(&chunk[..count]),
            }
        }
    }

    /// Whether the server closes before the client's own timeout and sends nothing more. A reset is a close, too.
    pub fn is_closed(&mut self) -> bool {
        let is_open = self.read_to_end().is_err_and(|it| it.kind() == ErrorKind::WouldBlock);
        !is_open && self.buffer.is_empty()
    }

    /// Resets the connection.
    pub fn reset(self) {
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }
}

fn parse_head(head: &str) -> (u16, Vec<(String, String)>) {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|it| it.split(' ').nth(1)).and_then(|it| it.parse().ok());
    let fields = lines
        .filter_map(|it| it.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    (status.unwrap_or(0), fields)
}
