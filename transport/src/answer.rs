//! What an answer at the fast speed is written to, whatever the client speaks: a head, then a body or none. Slow answers
//! have a `Reply`.

use crate::body::Piece;
use crate::outbox::Outbox;
use bytes::Bytes;
use larder_wire::http1::{Version, write};

/// An answer that is being written, behind whatever waits in its connection's outbox already. The order is: one of
/// [`Answer::ready`] and [`Answer::status`], fields, and one of the ends.
pub struct Answer<'o> {
    out: &'o mut Outbox,
    form: Form,
}

/// How it is written.
enum Form {
    /// As text, with these lines at the end of its head.
    Http1 { last_lines: &'static [u8] },
}

impl<'o> Answer<'o> {
    /// For a client of HTTP/1, whose connection closes after this answer if it is the `last`.
    #[inline]
    pub(crate) fn http1(version: Version, last: bool, out: &'o mut Outbox) -> Self {
        let last_lines: &[u8] = match (last, version) {
            (true, _) => b"Connection: close\r\n\r\n",
            (false, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
            (false, _) => b"\r\n",
        };
        Self { out, form: Form::Http1 { last_lines } }
    }

    /// Begins with a head that is ready as HTTP/1.1 text: a status line and whole field lines, without the empty one.
    #[inline]
    pub fn ready(&mut self, head: &[u8]) {
        match self.form {
            Form::Http1 { .. } => self.out.text().extend_from_slice(head),
        }
    }

    /// Begins with a status and no fields.
    pub fn status(&mut self, status: u16) {
        match self.form {
            Form::Http1 { .. } => write::status_line(status, self.out.text()),
        }
    }

    /// Adds a field; the value has no line ends.
    #[inline]
    pub fn field(&mut self, name: &str, value: &[u8]) {
        self.field_with(name, |text| text.extend_from_slice(value));
    }

    /// Adds a field whose value `write` appends.
    #[inline]
    pub fn field_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let text = self.out.text();
        match self.form {
            Form::Http1 { .. } => {
                text.extend_from_slice(name.as_bytes());
                text.extend_from_slice(b": ");
                write(text);
                text.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Ends it without a body.
    #[inline]
    pub fn end(&mut self) {
        match self.form {
            Form::Http1 { last_lines } => self.out.text().extend_from_slice(last_lines),
        }
    }

    /// Ends it with a body that is copied.
    #[inline]
    pub fn end_with(&mut self, body: &Bytes) {
        self.end();
        self.out.text().extend_from_slice(body);
    }

    /// Ends it with a body.
    pub fn end_with_piece(&mut self, body: Piece) {
        self.end();
        self.out.push(body);
    }
}
