//! Writes the response to the current request, with a framing that the client supports.

use super::Http1Tunnel;
use super::connection::{Http1Connection, KeepAlive};
use crate::body::BodyPiece;
use crate::body_length::{BodyRest, ResponseBody};
use crate::client_socket::ClientGone;
use larder_semantics::field::FieldList;
use larder_wire::http1::chunked;
use larder_wire::http1::write;
use larder_wire::message::Version;

/// Bytes that may wait for further output before they are sent.
const MAX_BUFFERED: u64 = 32 * 1024;

/// The fate of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterResponse {
    /// The next request.
    KeepAlive,
    /// An orderly close.
    Close,
    /// A close before the announced end.
    Cut,
    /// A reset: the end of the connection would mark the end of the response.
    Reset,
}

/// Writes the response to the current request.
pub(crate) struct Http1Reply<'c> {
    connection: &'c Http1Connection,
    /// Whether the request was HEAD: no body, with any announced length.
    is_head: bool,
    version: Version,
    keep_alive: KeepAlive,
    rest: BodyRest,
    body: u64,
}

impl<'c> Http1Reply<'c> {
    pub(super) fn new(
        connection: &'c Http1Connection,
        is_head: bool,
        version: Version,
        keep_alive: KeepAlive,
    ) -> Self {
        Self { connection, is_head, version, keep_alive, rest: BodyRest::NotStarted, body: 0 }
    }

    /// Sends a 1xx response other than 101; dropped silently for HTTP/1.0 clients.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, status: u16, fields: &FieldList) -> Result<(), ClientGone> {
        if self.version == Version::Http10 || self.started() || !matches!(status, 100 | 102..=199) {
            return Ok(());
        }
        if status == 100 && !self.connection.body.borrow_mut().take_continue_due() {
            return Ok(()); // It does not wait for one, or has had it.
        }
        self.connection.link.with_output(|it| {
            write::status_line(status, it.text());
            it.text().extend_from_slice(fields.text());
            it.text().extend_from_slice(b"\r\n");
        });
        self.connection.link.flush().await
    }

    /// Sends the final head. `fields` are end-to-end fields only: the reply writes `Connection`, `Transfer-Encoding` and
    /// (for [`ResponseBody::Length`]) `Content-Length`. Held back to be sent together with the first piece; see
    /// [`Http1Reply::flush`].
    /// # Errors
    /// The client is gone.
    pub async fn head(
        &mut self,
        status: u16,
        fields: &FieldList,
        body: ResponseBody,
    ) -> Result<(), ClientGone> {
        if self.started() {
            return Ok(());
        }
        if self.connection.body.borrow_mut().is_too_long_to_drain()
            || self.connection.link.watched.is_leaving()
        {
            self.keep_alive = KeepAlive::No;
        }
        self.rest = BodyRest::of(status, body);
        if self.rest == BodyRest::Stream && !self.is_chunked() && !self.is_head {
            self.keep_alive = KeepAlive::No;
            self.connection.after.set(AfterResponse::Reset);
        }
        self.connection.link.with_output(|it| {
            let text = it.text();
            write::status_line(status, text);
            self.write_fields(fields, text);
            match (self.keep_alive, self.version) {
                (KeepAlive::No, _) => text.extend_from_slice(b"Connection: close\r\n"),
                (KeepAlive::Yes, Version::Http10) => text.extend_from_slice(b"Connection: keep-alive\r\n"),
                (KeepAlive::Yes, Version::Http11 | Version::Http2 | Version::Http3) => {}
            }
            text.extend_from_slice(b"\r\n");
        });
        self.connection.has_answer.set(true);
        if self.is_head {
            self.rest = BodyRest::None;
        }
        Ok(())
    }

    /// Whether the body is sent in chunks; otherwise one of unknown length ends with the connection.
    fn is_chunked(&self) -> bool {
        self.rest == BodyRest::Stream && self.version == Version::Http11
    }

    /// The fields with the framing field, and none that could contradict it.
    fn write_fields(&self, fields: &FieldList, text: &mut Vec<u8>) {
        let frames = match self.rest {
            // A lone Content-Length is that of the body for GET (RFC 9110 §8.6).
            BodyRest::None | BodyRest::NotStarted => return text.extend_from_slice(fields.text()),
            BodyRest::Length(_) | BodyRest::Stream => {
                fields.contains("content-length") || fields.contains("transfer-encoding")
            }
        };
        if frames {
            let kept = fields.iter().filter(|it| !it.is("content-length") && !it.is("transfer-encoding"));
            kept.for_each(|it| write::field(it.name, it.value, text));
        } else {
            text.extend_from_slice(fields.text());
        }
        match self.rest {
            BodyRest::Length(length) => {
                write::field("Content-Length", itoa::Buffer::new().format(length).as_bytes(), text);
            }
            // A field omitted for a body is omitted for HEAD (RFC 9110 §9.3.2).
            BodyRest::Stream if self.is_chunked() && !self.is_head => {
                write::field("Transfer-Encoding", b"chunked", text)
            }
            _ => {}
        }
    }

    /// Sends a piece of the body. Ignored after [`ResponseBody::None`] and for HEAD. Small ones may be held back.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn push_body(&mut self, piece: BodyPiece) -> Result<(), ClientGone> {
        let length = piece.len();
        if !self.rest.takes(length)? {
            return Ok(());
        }
        self.body += length;
        let is_chunked = self.is_chunked();
        self.connection.link.with_output(|it| {
            if is_chunked {
                chunked::write_size(usize::try_from(length).unwrap_or(usize::MAX), it.text());
            }
            it.push(piece);
            if is_chunked {
                it.text().extend_from_slice(b"\r\n");
            }
        });
        if self.connection.link.waiting() > MAX_BUFFERED { self.flush().await } else { Ok(()) }
    }

    /// Sends the output that is still held back, now.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn flush(&self) -> Result<(), ClientGone> {
        self.connection.link.flush().await
    }

    /// Waits until the client has closed its side: for responses without an end, which have to stop. If it sent another
    /// request meanwhile this waits forever, and a failed write shows the end.
    pub async fn gone(&self) {
        self.connection.link.until_closed().await;
    }

    /// Sends `101 Switching Protocols`, which ends HTTP on this connection. `fields` are end-to-end fields only.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn switch(
        &mut self,
        protocol: &[u8],
        fields: &FieldList,
    ) -> Result<Http1Tunnel<'c>, ClientGone> {
        self.rest = BodyRest::None;
        Http1Tunnel::begin(self.connection, protocol, fields).await
    }

    /// Ends the response. A body shorter than its announced length closes the connection hard.
    ///
    /// # Errors
    /// The client is gone, or the body was short.
    pub async fn finish(self, trailers: Option<&FieldList>) -> Result<(), ClientGone> {
        self.rest.end()?;
        if self.is_chunked() {
            self.connection.link.with_output(|it| chunked::write_end(trailers, it.text()));
        }
        self.connection.link.flush().await?;
        let after = match self.keep_alive {
            KeepAlive::Yes => AfterResponse::KeepAlive,
            KeepAlive::No => AfterResponse::Close,
        };
        self.connection.after.set(after);
        Ok(())
    }

    /// Whether a head was sent: after that, an error can only truncate the response.
    #[must_use]
    pub fn started(&self) -> bool {
        self.rest != BodyRest::NotStarted
    }

    /// Bytes of body sent so far, for the access log.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body
    }

    /// The connection closes after this response.
    pub fn close_after(&mut self) {
        self.keep_alive = KeepAlive::No;
    }
}
