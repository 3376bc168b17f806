//! Writes the response to the request that is being answered, by the framing that the client understands.

use super::connection::{Connection, KeepAlive};
use super::{ClientGone, ResponseBody};
use crate::body::Piece;
use larder_semantics::field::FieldList;
use larder_wire::http1::{Version, chunked, write};

/// Bytes that may wait for company before they are sent.
const HOLD: u64 = 32 * 1024;

/// What becomes of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next request.
    KeepAlive,
    /// An orderly close.
    Close,
    /// A reset: the response was cut short, and must look so.
    Hard,
}

/// How the body of this response is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    NotStarted,
    None,
    Length { left: u64 },
    Chunked,
    Close,
}

/// Writes the response to the request that is being answered.
pub struct Reply<'c> {
    connection: &'c Connection,
    /// The request was HEAD: no body, whatever is said of it.
    is_head: bool,
    version: Version,
    keep_alive: KeepAlive,
    frame: Frame,
    body: u64,
}

impl<'c> Reply<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        is_head: bool,
        version: Version,
        keep_alive: KeepAlive,
    ) -> Self {
        Self { connection, is_head, version, keep_alive, frame: Frame::NotStarted, body: 0 }
    }

    /// Sends a 1xx response other than 101; dropped silently for HTTP/1.0 clients.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, status: u16, fields: &FieldList) -> Result<(), ClientGone> {
        if self.version == Version::Http10 || self.started() {
            return Ok(());
        }
        self.connection.with_output(|it| {
            write::status_line(status, it.text());
            it.text().extend_from_slice(fields.text());
            it.text().extend_from_slice(b"\r\n");
        });
        self.connection.flush().await
    }

    /// Sends the final head. `fields` are end-to-end fields only: `Connection`, `Transfer-Encoding` and
    /// (for [`ResponseBody::Length`]) `Content-Length` are the reply's to write. Held back to leave
    /// together with the first piece; see [`Reply::flush`].
    ///
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
        let unread = {
            let body = self.connection.body.borrow();
            body.waits_for_continue() || body.is_long()
        };
        if unread || self.connection.worker.is_draining() {
            self.keep_alive = KeepAlive::No;
        }
        self.frame = match body {
            ResponseBody::None => Frame::None,
            ResponseBody::Length(left) => Frame::Length { left },
            ResponseBody::Stream if self.version == Version::Http11 => Frame::Chunked,
            ResponseBody::Stream => {
                self.keep_alive = KeepAlive::No;
                Frame::Close
            }
        };
        self.connection.with_output(|it| {
            let text = it.text();
            write::status_line(status, text);
            text.extend_from_slice(fields.text());
            match self.frame {
                Frame::Length { left } if !fields.contains("content-length") => {
                    write::field("Content-Length", left.to_string().as_bytes(), text);
                }
                Frame::Chunked => write::field("Transfer-Encoding", b"chunked", text),
                _ => {}
            }
            Connection::write_connection(self.version, self.keep_alive, text);
            text.extend_from_slice(b"\r\n");
        });
        if self.is_head {
            self.frame = Frame::None;
        }
        Ok(())
    }

    /// Sends a piece of the body. Ignored after [`ResponseBody::None`] and for HEAD. Small ones may be held back.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn piece(&mut self, piece: Piece) -> Result<(), ClientGone> {
        let length = piece.len();
        if length == 0 {
            return Ok(());
        }
        match &mut self.frame {
            Frame::None | Frame::NotStarted => return Ok(()),
            Frame::Length { left } => {
                // More than was announced would be taken for the next response.
                *left = left.checked_sub(length).ok_or(ClientGone::Closed)?;
            }
            Frame::Chunked | Frame::Close => {}
        }
        self.body += length;
        let is_chunked = self.frame == Frame::Chunked;
        self.connection.with_output(|it| {
            if is_chunked {
                chunked::write_size(usize::try_from(length).unwrap_or(usize::MAX), it.text());
            }
            it.push(piece);
            if is_chunked {
                it.text().extend_from_slice(b"\r\n");
            }
        });
        if self.connection.waiting() > HOLD { self.flush().await } else { Ok(()) }
    }

    /// Sends whatever is still held back, now.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn flush(&mut self) -> Result<(), ClientGone> {
        self.connection.flush().await
    }

    /// Ends the response. A body shorter than its announced length closes the connection hard.
    ///
    /// # Errors
    /// The client is gone, or the body was short.
    pub async fn finish(self, trailers: Option<&FieldList>) -> Result<(), ClientGone> {
        match self.frame {
            Frame::NotStarted => return Err(ClientGone::Closed),
            Frame::Length { left } if left > 0 => return Err(ClientGone::Closed),
            Frame::Chunked => self.connection.with_output(|it| chunked::write_end(trailers, it.text())),
            Frame::None | Frame::Length { .. } | Frame::Close => {}
        }
        self.connection.flush().await?;
        let after = match self.keep_alive {
            KeepAlive::Yes => After::KeepAlive,
            KeepAlive::No => After::Close,
        };
        self.connection.after.set(after);
        Ok(())
    }

    /// Whether a head was sent: after that, an error can only cut the response off.
    #[must_use]
    pub fn started(&self) -> bool {
        self.frame != Frame::NotStarted
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
