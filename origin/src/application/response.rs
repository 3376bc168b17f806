//! The output of an application as a response: its head, and the body up to its length or its end. The records that carry it
//! are not here.

use crate::error::OriginError;
use bytes::{Buf, Bytes, BytesMut};
use larder_wire::cgi_head::parse;
use larder_wire::http1::response::ParsedResponse;
use larder_wire::message::{Framing, HeadKind, ResponseHead};

/// The output so far.
#[derive(Debug, Default)]
pub(crate) struct ApplicationOutput {
    /// Bytes before the end of the head.
    head: BytesMut,
    /// The length of `head` when it was last incomplete.
    partial: usize,
    /// The next piece of the body.
    piece: Bytes,
    reading: OutputPosition,
    source: OutputSource,
}

/// The source of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputSource {
    /// An application server: its local redirects (RFC 3875 §6.2.2) go to the client.
    #[default]
    Server,
    /// A CGI program: its local redirects are followed, and have no body.
    Program,
    /// larder, in place of a program.
    NoProgram,
}

/// The next part of the response.
#[derive(Debug, Default)]
enum OutputPosition {
    #[default]
    Head,
    /// A body of this many more bytes.
    Length(u64),
    /// A body up to the end.
    UntilEnd,
    /// Output that belongs to no body: of a response to HEAD, or with a status without one.
    Dropped,
    Whole,
}

/// The next part that is complete.
#[derive(Debug)]
pub(crate) enum TakenOutput {
    Head(ResponseHead),
    Body(Bytes),
    /// None: more output is needed, or its end.
    Nothing,
}

impl ApplicationOutput {
    /// The output of a CGI program.
    pub(crate) fn of_program() -> Self {
        Self { source: OutputSource::Program, ..Self::default() }
    }

    /// The output that follows is an error page of larder: there is no program.
    pub(crate) fn has_no_program(&mut self) {
        self.source = OutputSource::NoProgram;
    }

    /// Adds a piece of output, after everything before it was taken.
    pub(crate) fn add(&mut self, piece: Bytes) {
        match self.reading {
            OutputPosition::Head => self.head.extend_from_slice(&piece),
            _ => self.piece = piece,
        }
    }

    /// Takes the next part. `limit` is the size limit of the head.
    ///
    /// # Errors
    /// The head is invalid, or the body is longer than announced.
    pub(crate) fn take(&mut self, method: &str, limit: usize) -> Result<TakenOutput, OriginError> {
        if matches!(self.reading, OutputPosition::Head) {
            return self.take_head(method, limit);
        }
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            return Ok(TakenOutput::Nothing);
        }
        match &mut self.reading {
            OutputPosition::Length(left) => {
                let length = piece.len() as u64;
                *left = left.checked_sub(length).ok_or(OriginError::BadBody)?;
                Ok(TakenOutput::Body(piece))
            }
            OutputPosition::UntilEnd => Ok(TakenOutput::Body(piece)),
            OutputPosition::Dropped => Ok(TakenOutput::Nothing),
            OutputPosition::Head | OutputPosition::Whole => Err(OriginError::BadBody),
        }
    }

    fn take_head(&mut self, method: &str, limit: usize) -> Result<TakenOutput, OriginError> {
        // A head that arrives slowly is not parsed again for every byte: only when a line ended.
        let fresh = self.head.get(self.partial..).unwrap_or_default();
        if fresh.is_empty() || !fresh.contains(&b'\n') && self.partial > 0 && self.head.len() < limit {
            return Ok(TakenOutput::Nothing);
        }
        match parse(&self.head, limit, method).map_err(OriginError::BadHead)? {
            ParsedResponse::Head(mut head, length) => {
                match (head.kind, self.source) {
                    (HeadKind::LocalRedirect, OutputSource::Server) => head.kind = HeadKind::Response,
                    (HeadKind::LocalRedirect, _) => head.framing = Framing::Empty,
                    (HeadKind::Response, OutputSource::NoProgram) => head.kind = HeadKind::OwnPage,
                    (HeadKind::Response | HeadKind::OwnPage, _) => {}
                }
                let mut rest = std::mem::take(&mut self.head);
                rest.advance(length);
                self.piece = rest.freeze();
                self.reading = match head.framing {
                    Framing::Empty => OutputPosition::Dropped,
                    Framing::Length(length) => OutputPosition::Length(length),
                    Framing::Chunked | Framing::Close => OutputPosition::UntilEnd,
                };
                Ok(TakenOutput::Head(head))
            }
            ParsedResponse::Partial => {
                self.partial = self.head.len();
                Ok(TakenOutput::Nothing)
            }
        }
    }

    /// The output ended, and everything before was taken: the last bytes of the body, which are none.
    ///
    /// # Errors
    /// The response is truncated.
    pub(crate) fn end(&mut self) -> Result<Bytes, OriginError> {
        match self.reading {
            OutputPosition::Head | OutputPosition::Length(1..) => Err(OriginError::Disconnected),
            _ => {
                self.reading = OutputPosition::Whole;
                Ok(Bytes::new())
            }
        }
    }

    /// Whether the response is complete.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.reading, OutputPosition::Whole)
    }

    /// Whether the rest of the output belongs to no body.
    pub(crate) fn is_dropped(&self) -> bool {
        matches!(self.reading, OutputPosition::Dropped)
    }

    /// The least number of bytes that follow: a hint for the size of the next read.
    pub(crate) fn expects(&self) -> u64 {
        match self.reading {
            OutputPosition::Length(left) => left,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of this output, in pieces of `size` bytes, and its end.
    fn run(raw: &str, method: &str, size: usize) -> String {
        let (mut output, mut report) = (ApplicationOutput::default(), String::new());
        for piece in raw.as_bytes().chunks(size) {
            output.add(Bytes::copy_from_slice(piece));
            loop {
                match output.take(method, 100) {
                    Ok(TakenOutput::Head(head)) => report += &format!("{} ", head.status),
                    Ok(TakenOutput::Body(bytes)) => report += &String::from_utf8_lossy(&bytes),
                    Ok(TakenOutput::Nothing) => break,
                    Err(error) => return format!("{report}{error:?}"),
                }
            }
        }
        match output.end() {
            Ok(_) if output.is_whole() => report + "!",
            Ok(_) => report + "not whole",
            Err(error) => format!("{report}{error:?}"),
        }
    }

    #[track_caller]
    fn check(raw: &str, method: &str, expect: &str) {
        for size in [1, 2, 7, 1000] {
            assert_eq!(expect, run(raw, method, size), "{raw:?} by {size}");
        }
    }

    #[test]
    fn responses() {
        check("Content-Type: a/b\r\n\r\nhello", "GET", "200 hello!");
        check("Content-Length: 5\r\n\r\nhello", "GET", "200 hello!");
        check("Content-Length: 5\r\n\r\nhello", "HEAD", "200 !");
        check("Status: 304\n\nhello", "GET", "304 !");
        check("Content-Length: 0\n\n", "GET", "200 !");
        check("Status: 404\n\n", "GET", "404 !");
    }

    #[test]
    fn truncated_and_malformed_ones() {
        check("Content-Length: 5\r\n\r\nhell", "GET", "200 hellDisconnected");
        check("Content-Type: a/b\r\n", "GET", "Disconnected");
        check("", "GET", "Disconnected");
        check("nothing\n", "GET", "BadHead(Field)");
        check(&format!("X: {}\n\n", "x".repeat(100)), "GET", "BadHead(TooLarge)");
        assert_eq!("200 BadBody", run("Content-Length: 5\r\n\r\nhello!", "GET", 1000), "it is longer");
    }
}
