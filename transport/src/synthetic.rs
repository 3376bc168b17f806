//! A complete response that larder makes itself: error page, redirect, listing, JSON of the admin. One type for all of them, and one
//! way to send it at each speed.

use crate::body::BodyPiece;
use crate::body_length::ResponseBody;
use crate::finish::ResponseFinish;
use crate::response_writer::ResponseWriter;
use bytes::Bytes;
use larder_semantics::date;
use larder_semantics::error_page;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_wire::http1::write;
use larder_wire::message::reason;
use larder_wire::ready_head::ReadyHead;
use std::ops::Deref;

/// The media type of pages that are one sentence.
pub const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// A complete response made by larder.
#[derive(Clone)]
pub struct Synthetic {
    /// The status code.
    pub status: u16,
    /// End-to-end fields, as for GET. The sender adds `Date`, `Connection` and framing.
    pub fields: FieldList,
    /// The body in order, as for GET. The sender omits it for HEAD, 204 and 304.
    pub body: Vec<BodyPiece>,
    /// Whether the error page of a route may replace it.
    pub is_error_page: bool,
}

/// The status of a request whose connection is closed without a response, as in nginx: over HTTP/2 and HTTP/3 its stream is reset.
pub const NO_RESPONSE: u16 = 444;

/// The result of sending a [`Synthetic`] response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticSent {
    /// The status.
    pub status: u16,
    /// Bytes of body that were sent.
    pub body: u64,
    /// Whether it was sent to its last byte.
    pub complete: bool,
}

impl Synthetic {
    /// A response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, fields: FieldList::new(), body: Vec::new(), is_error_page: false }
    }

    /// A response with a body from memory.
    #[must_use]
    pub fn new(status: u16, media_type: &str, body: impl Into<Bytes>) -> Self {
        let mut fields = FieldList::with_capacity(6, 224);
        fields.push("Content-Type", media_type);
        Self { body: pieces(body.into()), fields, ..Self::empty(status) }
    }

    /// An error page: the status with its reason, and one sentence. It repeats nothing of the request.
    #[must_use]
    pub fn page(status: u16, sentence: &str) -> Self {
        // Exactly as long as it is: `Bytes` would allocate again for a spare byte.
        let body = [itoa::Buffer::new().format(status), " ", reason(status), "\n", sentence, "\n"].concat();
        Self { is_error_page: status >= 400, ..Self::new(status, PLAIN_TEXT, body) }
    }

    /// The same with another field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push(name, value);
        self
    }

    /// Bytes of its body.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.body.iter().map(BodyPiece::len).sum()
    }

    /// The framing of its body.
    #[must_use]
    pub fn framing(&self) -> ResponseBody {
        match self.has_body() {
            true => ResponseBody::Length(self.length()),
            false => ResponseBody::None,
        }
    }

    /// Whether its status allows a body (RFC 9110 §6.4.1).
    fn has_body(&self) -> bool {
        !matches!(self.status, 204 | 304)
    }

    /// Gives an error page of larder the body of the route's error page, if there is one.
    pub fn add_fields(&mut self, finish: &ResponseFinish) {
        if let Some((media, body)) = finish.page(self.status).filter(|_| self.is_error_page) {
            self.fields.retain(|it| !error_page::is_of_body(it.name));
            self.fields.set("Content-Type", media.as_bytes());
            self.body = pieces(body);
        }
    }

    /// Writes it at the fast speed in response to `method`; returns the bytes of body sent. `None`, with nothing written, if the
    /// body has several pieces: such a response needs the slow speed.
    pub fn write_now(&self, method: &str, answer: &mut ResponseWriter<'_>) -> Option<u64> {
        if self.body.len() > 1 || self.status == NO_RESPONSE {
            return None;
        }
        if let Some(finish) = answer.finish().filter(|_| self.is_error_page) {
            let mut page = Synthetic { is_error_page: true, ..self.clone() };
            page.add_fields(finish);
            page.is_error_page = false;
            return page.write_now(method, answer);
        }
        answer.status_of(self.status, self.fields.iter());
        for it in self.fields.iter().filter(|it| !it.is("content-length")) {
            answer.field(it.name, it.value);
        }
        if self.has_body() {
            answer.field("Content-Length", itoa::Buffer::new().format(self.length()).as_bytes());
        }
        self.end_now(method, answer)
    }

    /// Ends an answer that has all fields of its own.
    fn end_now(&self, method: &str, answer: &mut ResponseWriter<'_>) -> Option<u64> {
        answer.field_with("Date", |text| date::write(clock::wall(), text));
        match self.body.first().filter(|_| self.has_body() && method != "HEAD") {
            Some(piece) => {
                answer.end_with_piece(piece.clone());
                Some(piece.len())
            }
            None => {
                answer.end();
                Some(0)
            }
        }
    }
}

/// A response that is sent to many requests: its head is ready for the clients of each protocol.
pub struct ReadySynthetic {
    page: Synthetic,
    head: ReadyHead,
}

impl ReadySynthetic {
    /// Makes the head of `page`, which does not change any more.
    #[must_use]
    pub fn new(page: Synthetic) -> Self {
        let mut text = Vec::new();
        write::status_line(page.status, &mut text);
        for it in page.fields.iter().filter(|it| !it.is("content-length")) {
            write::field(it.name, it.value, &mut text);
        }
        if page.has_body() {
            let length = itoa::Buffer::new().format(page.length()).to_owned();
            write::field("Content-Length", length.as_bytes(), &mut text);
        }
        Self { head: ReadyHead::new(&text), page }
    }

    /// As [`Synthetic::write_now`].
    pub fn write_now(&self, method: &str, answer: &mut ResponseWriter<'_>) -> Option<u64> {
        if self.is_error_page || self.body.len() > 1 || self.status == NO_RESPONSE {
            return self.page.write_now(method, answer);
        }
        answer.ready(&self.head);
        self.end_now(method, answer)
    }
}

impl Deref for ReadySynthetic {
    type Target = Synthetic;

    fn deref(&self) -> &Synthetic {
        &self.page
    }
}

/// A body of one piece, or none.
pub(crate) fn pieces(body: Bytes) -> Vec<BodyPiece> {
    if body.is_empty() { Vec::new() } else { vec![BodyPiece::Bytes(body)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finish::{ErrorPage, ErrorPages};
    use crate::outbox::Outbox;
    use larder_wire::message::Version;
    use std::rc::Rc;

    /// The bytes of a response at the fast speed, without its `Date`.
    fn written(it: &Synthetic, method: &str) -> (Option<u64>, String) {
        let mut out = Outbox::default();
        let sent = it.write_now(method, &mut ResponseWriter::http1(Version::Http11, false, &mut out));
        let text = String::from_utf8(out.text().clone()).unwrap();
        (sent, text.split_inclusive("\r\n").filter(|it| !it.starts_with("Date: ")).collect())
    }

    #[test]
    fn a_body_is_sent_where_there_can_be_one() {
        let page = Synthetic::page(404, "None.").with("A", "b");
        let head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nA: b\r\nContent-Length: 20\r\n\r\n";
        assert_eq!((Some(20), format!("{head}404 Not Found\nNone.\n")), written(&page, "GET"));
        assert_eq!((Some(0), head.to_owned()), written(&page, "HEAD"));
        let none = Synthetic::new(304, "a/b", "body").with("ETag", "\"a\"");
        let head = "HTTP/1.1 304 Not Modified\r\nContent-Type: a/b\r\nETag: \"a\"\r\n\r\n";
        assert_eq!((Some(0), head.to_owned()), written(&none, "GET"));
        let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!((Some(0), empty.to_owned()), written(&Synthetic::empty(200), "GET"));
    }

    /// The fields, in order of their names, of what `write` writes.
    fn lines_of(write: impl FnOnce(&mut ResponseWriter<'_>) -> Option<u64>) -> (Option<u64>, Vec<String>) {
        let mut out = Outbox::default();
        let sent = write(&mut ResponseWriter::http1(Version::Http11, false, &mut out));
        let mut lines: Vec<_> =
            String::from_utf8(out.text().clone()).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        (sent, lines)
    }

    #[test]
    fn a_ready_response_is_sent_as_any_other() {
        let moved =
            Synthetic::new(301, PLAIN_TEXT, "moved").with("Location", "/a").with("Content-Length", "9");
        let ready_page = Synthetic::page(404, "None.");
        let several = Synthetic { body: [pieces("a".into()), pieces("b".into())].concat(), ..moved.clone() };
        for page in [moved, Synthetic::empty(204), Synthetic::empty(410), ready_page, several] {
            let ready = ReadySynthetic::new(page.clone());
            for method in ["GET", "HEAD"] {
                let made = lines_of(|it| page.write_now(method, it));
                assert_eq!(made, lines_of(|it| ready.write_now(method, it)), "{method}");
            }
        }
    }

    #[test]
    fn several_pieces_are_not_written_at_once() {
        let piece = || BodyPiece::Bytes(Bytes::from_static(b"a"));
        let it = Synthetic { body: vec![piece(), piece()], ..Synthetic::empty(206) };
        assert_eq!((None, String::new(), 2), (written(&it, "GET").0, written(&it, "GET").1, it.length()));
    }

    #[test]
    fn an_error_page_is_replaced_by_that_of_its_status_then_of_its_class() {
        let page =
            |body: &'static str| Rc::new(ErrorPage::new("text/html", Bytes::from_static(body.as_bytes())));
        let missing = Rc::new(ErrorPage::default());
        let pages = vec![(5, page("class")), (503, page("own")), (504, missing.clone())];
        let pages = ErrorPages { pages, replaces_origins: false };
        let finish = ResponseFinish::new(Vec::new(), None, Rc::new(pages));
        let dressed = |mut it: Synthetic| {
            it.add_fields(&finish);
            it.length()
        };
        assert_eq!(3, dressed(Synthetic::page(503, "No.")));
        assert_eq!(5, dressed(Synthetic::page(502, "No.")));
        assert_eq!(Synthetic::page(404, "No.").length(), dressed(Synthetic::page(404, "No.")));
        assert!(!missing.take_use());
        assert_eq!(
            5,
            dressed(Synthetic::page(504, "No.")),
            "the page of the class, while its own is missing"
        );
        assert!(missing.take_use());
        missing.replace("text/html", Bytes::from_static(b"late"));
        assert_eq!(4, dressed(Synthetic::page(504, "No.")));
        assert_eq!(4, dressed(Synthetic::new(503, "a/b", "json")), "not an error page");
        assert!(!finish.replaces(503));
    }
}
