//! The blocking HTTP/1.1 client of the commands, `bench` and the telemetry export. One connection, one exchange at a time, for
//! threads without other work. Requests to origins use `larder_origin`.

use crate::listener::Listen;
use larder_wire::http1::chunked::{ChunkStep, ChunkedDecoder};
use larder_wire::http1::response::{ParsedResponse, parse};
use larder_wire::message::{Framing, ResponseHead};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The most bytes of a response head.
const HEAD: usize = 64 * 1024;
/// The bytes of one read.
const READ: usize = 64 * 1024;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The target.
    pub target: &'a str,
    /// Its host.
    pub host: &'a str,
    /// The other fields, without `Content-Length`.
    pub fields: &'a [(&'a str, &'a [u8])],
    /// The body; `None` for methods without one.
    pub body: Option<&'a [u8]>,
}

trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

/// A connection.
pub struct HttpClient {
    socket: Box<dyn Socket>,
    buffer: Vec<u8>,
    rest: UnreadBody,
}

/// The unread rest of a body.
enum UnreadBody {
    Length(u64),
    Chunks(ChunkedDecoder),
    UntilClose,
}

impl HttpClient {
    /// Connects; each read and write may take as long as `timeout`.
    ///
    /// # Errors
    /// No server listens there, or the address requires TLS.
    pub fn connect(to: &Listen, timeout: Duration) -> Result<Self> {
        let socket: Box<dyn Socket> = match to {
            Listen::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Box::new(stream)
            }
            Listen::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Box::new(stream)
            }
            Listen::Tls(_) => return Err(ErrorKind::Unsupported.into()),
        };
        Ok(Self { socket, buffer: Vec::new(), rest: UnreadBody::Length(0) })
    }

    /// A client of a connected socket; each read and write may take as long as `timeout`.
    ///
    /// # Errors
    /// The socket has no time limits.
    pub fn over(stream: UnixStream, timeout: Duration) -> Result<Self> {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { socket: Box::new(stream), buffer: Vec::new(), rest: UnreadBody::Length(0) })
    }

    /// Sends a request, and reads the head of its response. The body of the previous response must have been read.
    ///
    /// # Errors
    /// The connection is closed or times out, or the response head is malformed.
    pub fn send(&mut self, request: &ClientRequest<'_>) -> Result<ResponseHead> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, request.host);
        if let Some(body) = request.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let mut head = head.into_bytes();
        for (name, value) in request.fields {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        self.socket.write_all(&head)?;
        // The server may answer before it has read everything, and close.
        let sent = self.socket.write_all(request.body.unwrap_or_default());
        match (self.head(request.method), sent) {
            (Err(_), Err(unsent)) => Err(unsent),
            (read, _) => read,
        }
    }

    fn head(&mut self, method: &str) -> Result<ResponseHead> {
        loop {
            match parse(&self.buffer, HEAD, method) {
                Ok(ParsedResponse::Head(head, length)) => {
                    self.buffer.drain(..length);
                    if (100..200).contains(&head.status) {
                        continue;
                    }
                    self.rest = match head.framing {
                        Framing::Empty => UnreadBody::Length(0),
                        Framing::Length(length) => UnreadBody::Length(length),
                        Framing::Chunked => UnreadBody::Chunks(ChunkedDecoder::default()),
                        Framing::Close => UnreadBody::UntilClose,
                    };
                    return Ok(head);
                }
                Ok(ParsedResponse::Partial) if self.read()? > 0 => {}
                Ok(ParsedResponse::Partial) => return Err(cut()),
                Err(_) => return Err(malformed("the response head is malformed")),
            }
        }
    }

    /// The next bytes of the body, as they arrive; `None` after the last.
    ///
    /// # Errors
    /// The body is truncated or malformed, or a read times out.
    pub fn next_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        let here = self.next()?;
        Ok(here.map(|it| self.buffer.drain(..it).collect()))
    }

    /// Reads the rest of the body, and discards it.
    ///
    /// # Errors
    /// As [`HttpClient::next_bytes`].
    pub fn skip_body(&mut self) -> Result<()> {
        while let Some(here) = self.next()? {
            self.buffer.drain(..here);
        }
        Ok(())
    }

    /// The number of body bytes at the start of the buffer; the caller removes them.
    fn next(&mut self) -> Result<Option<usize>> {
        loop {
            let (skip, left) = match &mut self.rest {
                UnreadBody::Length(0) => return Ok(None),
                UnreadBody::Length(left) => (0, *left),
                UnreadBody::UntilClose => (0, u64::MAX),
                UnreadBody::Chunks(decoder) => match decoder.step(&self.buffer) {
                    Ok(ChunkStep::Data { consumed, data }) => (consumed, data),
                    Ok(ChunkStep::More { consumed }) => (consumed, 0),
                    Ok(ChunkStep::End { consumed }) => {
                        self.buffer.drain(..consumed);
                        self.rest = UnreadBody::Length(0);
                        return Ok(None);
                    }
                    Err(_) => return Err(malformed("a chunk of the response is malformed")),
                },
            };
            self.buffer.drain(..skip);
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
            if here > 0 {
                match &mut self.rest {
                    UnreadBody::Length(left) => *left -= here as u64,
                    UnreadBody::Chunks(decoder) => decoder.took(here as u64),
                    UnreadBody::UntilClose => {}
                }
                return Ok(Some(here));
            }
            match (self.read()?, &self.rest) {
                (0, UnreadBody::UntilClose) => {
                    self.rest = UnreadBody::Length(0);
                    return Ok(None);
                }
                (0, _) => return Err(cut()),
                _ => {}
            }
        }
    }

    /// The rest of the body, at most `most` bytes.
    ///
    /// # Errors
    /// As [`HttpClient::next_bytes`], or it is longer.
    pub fn body(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next_bytes()? {
            if body.len() + bytes.len() > most {
                return Err(malformed("the response is too long"));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    fn read(&mut self) -> Result<usize> {
        let at = self.buffer.len();
        self.buffer.resize(at + READ, 0);
        let read = self.socket.read(&mut self.buffer[at..]);
        self.buffer.truncate(at + read.as_ref().copied().unwrap_or(0));
        read
    }
}

fn malformed(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

fn cut() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "the connection was closed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The client's result for a response that the server sends in these parts.
    fn answered(parts: &'static [&'static str]) -> Result<(u16, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = Listen::Tcp(listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // All of the request: a close with unread bytes would reset the connection, and the response with it.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\nx") {
                let mut piece = [0; 1024];
                let read = stream.read(&mut piece).unwrap();
                assert_ne!(0, read, "the request ends early");
                request.extend_from_slice(&piece[..read]);
            }
            for it in parts {
                stream.write_all(it.as_bytes()).unwrap();
            }
            String::from_utf8(request).unwrap()
        });
        let mut client = HttpClient::connect(&at, Duration::from_secs(60)).unwrap();
        let fields: &[(&str, &[u8])] = &[("A", b"b")];
        let asked = ClientRequest { method: "POST", target: "/t", host: "h", fields, body: Some(b"x") };
        let head = client.send(&asked)?;
        let body = client.body(64)?;
        assert_eq!(
            "POST /t HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nA: b\r\n\r\nx",
            server.join().unwrap()
        );
        Ok((head.status, String::from_utf8(body).unwrap()))
    }

    #[test]
    fn a_body_ends_as_its_framing_declares() {
        let ok = |text: &str| Some((200, text.to_owned()));
        assert_eq!(ok("ab"), answered(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "b"]).ok());
        assert_eq!(ok("ab"), answered(&["HTTP/1.1 200 OK\r\n\r\na", "b"]).ok());
        let chunks =
            &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "1\r\nb\r\n0\r\n\r\n"];
        assert_eq!(ok("ab"), answered(chunks).ok());
        assert_eq!(
            ok(""),
            answered(&["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]).ok()
        );
    }

    #[test]
    fn a_truncated_or_too_long_response_is_an_error() {
        assert!(answered(&["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"]).is_err());
        assert!(answered(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"]).is_err());
        assert!(
            answered(&[
                "HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n",
                "01234567890123456789012345678901234567890123456789012345678901234"
            ])
            .is_err()
        );
        assert!(answered(&["SMTP"]).is_err());
        assert!(answered(&[]).is_err());
    }
}
