//! The writer of an answer at the fast speed, for every protocol: a head, then a body or none. Slow answers use a
//! `Reply`.

use crate::body::BodyPiece;
use crate::client::Client;
use crate::finish::{FieldAction, FinishPass, ResponseFinish};
use crate::outbox::Outbox;
use bytes::Bytes;
use larder_semantics::client_ttl;
use larder_semantics::field::{Field, NameSet};
use larder_wire::http1::write;
use larder_wire::http2::frame::{self, EndFlag, MAX_SIZE};
use larder_wire::http2::hpack::{Encoder, encode};
use larder_wire::http3;
use larder_wire::http3::qpack;
use larder_wire::message::Version;
use larder_wire::ready_head::ReadyHead;
use std::ops::Range;
use std::rc::Rc;

/// An answer that is being written, after the waiting output of its connection. The order is: one of
/// [`ResponseWriter::ready`] and [`ResponseWriter::status`], fields, and one of the ends.
pub struct ResponseWriter<'o> {
    out: &'o mut Outbox,
    form: WireForm<'o>,
    /// The rules for its fields, with their state.
    finish: Option<(Rc<ResponseFinish>, FinishPass)>,
    /// The value of `Alt-Svc`.
    alternative: Option<&'o str>,
}

/// The form of the output.
enum WireForm<'o> {
    /// As text, with these lines at the end of its head.
    Http1 { last_lines: &'static [u8] },
    /// As frames of a stream.
    Http2(Frames<'o>),
    /// As frames, of which QUIC has the stream.
    Http3(Http3Answer),
}

/// An answer over HTTP/3.
#[derive(Default)]
struct Http3Answer {
    /// The start of its HEADERS frame.
    at: usize,
    /// The body, if it is not in the output: the transport frames it.
    rest: Option<BodyPiece>,
}

struct Frames<'o> {
    stream: u32,
    encoder: &'o mut Encoder,
    /// Whether its field section has more than a frame header.
    has_begun: bool,
    /// The start of its field section.
    at: usize,
    /// Bytes of body that may be sent.
    window: u64,
    sent: u64,
    rest: Option<BodyPiece>,
}

/// The most bytes of a body that are sent at once: then other streams take their turn.
const MOST: i64 = 128 * 1024;

impl<'o> ResponseWriter<'o> {
    /// For an HTTP/1 client, whose connection closes after this answer if it is the `last`.
    #[inline]
    pub(crate) fn http1(version: Version, last: bool, out: &'o mut Outbox) -> Self {
        let last_lines: &[u8] = match (last, version) {
            (true, _) => b"Connection: close\r\n\r\n",
            (false, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
            (false, _) => b"\r\n",
        };
        Self { out, form: WireForm::Http1 { last_lines }, finish: None, alternative: None }
    }

    /// The same, which tells the client of the HTTP/3 service of its listener, if there is one.
    #[inline]
    pub(crate) fn informing(mut self, client: &'o Client) -> Self {
        self.alternative = client.alternative.as_ref().and_then(|it| it.value());
        self
    }

    /// For an HTTP/2 client, whose window permits `window` bytes of body.
    #[inline]
    pub(crate) fn http2(stream: u32, window: i64, encoder: &'o mut Encoder, out: &'o mut Outbox) -> Self {
        let at = frame::begin_headers(out.text());
        let window = window.clamp(0, MOST).cast_unsigned();
        let frames = Frames { stream, encoder, has_begun: false, at, window, sent: 0, rest: None };
        Self { out, form: WireForm::Http2(frames), finish: None, alternative: None }
    }

    /// For an HTTP/3 client.
    pub(crate) fn http3(out: &'o mut Outbox) -> Self {
        let at = http3::frame::begin_headers(out.text());
        let form = WireForm::Http3(Http3Answer { at, rest: None });
        Self { out, form, finish: None, alternative: None }
    }

    /// Removes all of its output.
    pub(crate) fn take_back(self) {
        match self.form {
            WireForm::Http1 { .. } => {}
            WireForm::Http2(frames) => {
                self.out.text().truncate(frames.at);
                if frames.has_begun {
                    frames.encoder.forget();
                }
            }
            WireForm::Http3(answer) => self.out.text().truncate(answer.at),
        }
    }

    /// The number of sent bytes of the body, and the rest.
    pub(crate) fn into_rest(self) -> (u64, Option<BodyPiece>) {
        match self.form {
            WireForm::Http1 { .. } => (0, None),
            WireForm::Http2(frames) => (frames.sent, frames.rest),
            WireForm::Http3(answer) => (0, answer.rest),
        }
    }

    /// Applies `finish` to this response. Before its head.
    pub fn finish_with(&mut self, finish: Rc<ResponseFinish>) {
        self.finish = Some((finish, FinishPass::default()));
    }

    /// The finish of this response.
    #[must_use]
    pub fn finish(&self) -> Option<&ResponseFinish> {
        self.finish.as_ref().map(|it| &*it.0)
    }

    /// Begins with a ready head.
    #[inline]
    pub fn ready(&mut self, head: &ReadyHead) {
        if let Some((finish, pass)) = &mut self.finish {
            *pass = match finish.reads_fields() {
                true => FinishPass::begin(finish, head.status(), head.lines()),
                false => FinishPass::begin(finish, head.status(), std::iter::empty()),
            };
            if head.may_have(finish.names()) {
                let is_text = matches!(self.form, WireForm::Http1 { .. });
                if is_text && finish.makes_private_only(head) && head.write_private_text(self.out.text()) {
                    return pass.note_private();
                }
                return self.ready_by_line(head);
            }
        }
        let out = self.out.text();
        match &mut self.form {
            WireForm::Http1 { .. } => head.write_text(out),
            WireForm::Http2(frames) => {
                frames.begin(out);
                head.encode(frames.encoder, out);
            }
            WireForm::Http3(_) => head.write_section(out),
        }
    }

    /// Writes a ready head of which the finish may remove or change lines.
    fn ready_by_line(&mut self, head: &ReadyHead) {
        if let (WireForm::Http1 { .. }, Some((finish, pass))) = (&self.form, &mut self.finish) {
            let out = self.out.text();
            let begin = out.len();
            head.write_text(out);
            return finish_text(finish, pass, begin, out);
        }
        self.write_status(head.status());
        for it in head.lines() {
            self.field(it.name, it.value);
        }
    }

    /// Begins with a status and no fields. `lines` are the fields that a lifetime for clients depends on.
    pub fn status_of<'f>(&mut self, status: u16, lines: impl Iterator<Item = Field<'f>> + Clone) {
        if let Some((finish, pass)) = &mut self.finish {
            *pass = FinishPass::begin(finish, status, lines);
        }
        self.write_status(status);
    }

    /// Begins with a status and no fields.
    pub fn status(&mut self, status: u16) {
        self.status_of(status, std::iter::empty());
    }

    fn write_status(&mut self, status: u16) {
        let out = self.out.text();
        match &mut self.form {
            WireForm::Http1 { .. } => write::status_line(status, out),
            WireForm::Http2(frames) => {
                frames.begin(out);
                encode::status(status, out);
            }
            WireForm::Http3(_) => qpack::encode::status(status, out),
        }
    }

    /// Adds a field; the value has no line ends.
    #[inline(always)]
    pub fn field(&mut self, name: &str, value: &[u8]) {
        self.field_with(name, |text| text.extend_from_slice(value));
    }

    /// Adds a field whose value `write` appends.
    #[inline(always)] // The name is known where it is called, which is most of the work.
    pub fn field_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some((finish, pass)) = &mut self.finish {
            match pass.action(finish, name) {
                FieldAction::Sent => {}
                FieldAction::Removed => return,
                FieldAction::Private => {
                    return self.write_field(name, |text| {
                        let at = text.len();
                        write(text);
                        client_ttl::make_private(text, at);
                    });
                }
            }
        }
        self.write_field(name, write);
    }

    #[inline(always)]
    fn write_field(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let text = self.out.text();
        match &mut self.form {
            WireForm::Http1 { .. } => {
                text.extend_from_slice(name.as_bytes());
                text.extend_from_slice(b": ");
                write(text);
                text.extend_from_slice(b"\r\n");
            }
            WireForm::Http2(frames) => frames.encoder.field_with(name.as_bytes(), write, text),
            WireForm::Http3(_) => qpack::encode::field_with(name.as_bytes(), write, text),
        }
    }

    /// Ends it without a body.
    #[inline]
    pub fn end(&mut self) {
        self.end_head(EndFlag::Stream);
    }

    #[inline]
    fn end_head(&mut self, end: EndFlag) {
        if let Some((finish, mut pass)) = self.finish.take() {
            pass.end(&finish, |name, write| self.write_field(name, |text| write.write(text)));
        }
        if let Some(value) = self.alternative {
            self.write_field("Alt-Svc", |text| text.extend_from_slice(value.as_bytes()));
        }
        match &self.form {
            WireForm::Http1 { last_lines } => self.out.text().extend_from_slice(last_lines),
            WireForm::Http2(frames) => frame::end_headers(frames.at, frames.stream, end, self.out.text()),
            WireForm::Http3(answer) => http3::frame::end_headers(answer.at, self.out.text()),
        }
    }

    /// Ends it with a body that is copied.
    #[inline]
    pub fn end_with(&mut self, body: &Bytes) {
        self.end_with_copy(body, || body.clone());
    }

    /// Ends it with a body that is copied; `shared` makes the owned copy for the unsent rest, if the client does not take
    /// all now.
    #[inline]
    pub fn end_with_copy(&mut self, body: &[u8], shared: impl FnOnce() -> Bytes) {
        if body.is_empty() {
            return self.end();
        }
        self.end_head(EndFlag::Open);
        match &mut self.form {
            WireForm::Http1 { .. } => self.out.text().extend_from_slice(body),
            // The most frequent case: one frame.
            WireForm::Http2(frames) if body.len() <= MAX_SIZE && body.len() as u64 <= frames.window => {
                frames.sent = body.len() as u64;
                frame::write_data_header(frames.stream, body.len(), EndFlag::Stream, self.out.text());
                self.out.text().extend_from_slice(body);
            }
            WireForm::Http2(frames) => frames.send(BodyPiece::Bytes(shared()), self.out),
            WireForm::Http3(_) if body.len() <= MAX_SIZE => {
                http3::frame::write_data_header(body.len() as u64, self.out.text());
                self.out.text().extend_from_slice(body);
            }
            WireForm::Http3(answer) => answer.rest = Some(BodyPiece::Bytes(shared())),
        }
    }

    /// Ends it with a body.
    pub fn end_with_piece(&mut self, body: BodyPiece) {
        if body.is_empty() {
            return self.end();
        }
        self.end_head(EndFlag::Open);
        match &mut self.form {
            WireForm::Http1 { .. } => self.out.push(body),
            WireForm::Http2(frames) => frames.send(body, self.out),
            WireForm::Http3(answer) => answer.rest = Some(body),
        }
    }
}

/// Applies a finish to the head that `out` has as text from `begin` on. Lines that it does not name are copied together.
fn finish_text(finish: &ResponseFinish, pass: &mut FinishPass, begin: usize, out: &mut Vec<u8>) {
    let end = out.len();
    // The first line that was not copied, and the first that was not looked at; the status line is none.
    let (mut from, mut at) = (begin, begin);
    while let Some((line, value)) = named_line(finish.names(), &out[at..end]) {
        let (start, next) = (at + line.start, at + line.end);
        let action = match std::str::from_utf8(&out[start..at + value.start - 2]) {
            Ok(name) => pass.action(finish, name),
            Err(_) => FieldAction::Sent,
        };
        if action != FieldAction::Sent {
            out.extend_from_within(from..start);
            from = next;
        }
        if action == FieldAction::Private {
            out.extend_from_within(start..at + value.start);
            let private = out.len();
            out.extend_from_within(at + value.start..at + value.end);
            client_ttl::make_private(out, private);
            out.extend_from_slice(b"\r\n");
        }
        at = next;
    }
    if from > begin {
        out.extend_from_within(from..end);
        out.drain(begin..end);
    }
}

/// The first of these lines whose name may be in the set, and its value.
fn named_line(names: NameSet, lines: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', lines) {
        let line = &lines[start..end];
        let colon = line.iter().position(|it| *it == b':').unwrap_or(0);
        if names.may_have_bytes(&line[..colon]) && line[colon..].starts_with(b": ") && line.ends_with(b"\r") {
            return Some((start..end + 1, start + colon + 2..end - 1));
        }
        start = end + 1;
    }
    None
}

impl Frames<'_> {
    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.has_begun = true;
        self.encoder.begin(out);
    }

    /// Sends the permitted part of a body, and keeps the rest.
    fn send(&mut self, body: BodyPiece, out: &mut Outbox) {
        let length = body.len();
        while self.sent < length && self.sent < self.window {
            let part = (self.window.min(length) - self.sent).min(MAX_SIZE as u64);
            let piece = body.slice(self.sent, part);
            self.sent += part;
            let end = if self.sent == length { EndFlag::Stream } else { EndFlag::Open };
            frame::write_data_header(self.stream, usize::try_from(part).unwrap_or(0), end, out.text());
            out.push_frame(piece);
        }
        if self.sent < length {
            self.rest = Some(body.slice(self.sent, length - self.sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finish::ResponseFieldRule;
    use larder_semantics::field::FieldList;

    #[test]
    fn a_ready_head_is_finished_as_its_fields_are() {
        let lines = [
            ("Server", "a"),
            ("cache-control", "max-age=60"),
            ("X-A", "1"),
            ("x-a", ""),
            ("Cache-Control", "public, s-maxage=5, must-revalidate"),
            ("CDN-Cache-Control", "max-age=9"),
            ("B", "2: 3"),
        ];
        let rule = |name: &str, removes, replacement: Option<&str>| ResponseFieldRule {
            name: name.to_owned(),
            removes,
            replacement: replacement.map(Into::into),
            ..ResponseFieldRule::default()
        };
        let rules = vec![rule("X-A", true, Some("4")), rule("b", true, None), rule("Server", true, None)];
        let finish = |rules: &[ResponseFieldRule]| ResponseFinish::new(rules.to_vec(), None, Rc::default());
        for finish in [
            finish(&[]),
            finish(&rules[..1]),
            finish(&rules),
            finish(&[]).private(),
            finish(&rules).private(),
            finish(&rules).with_cookies(&[b"a=b".to_vec()]),
        ] {
            for count in 0..=lines.len() {
                let mut fields = FieldList::new();
                lines[..count].iter().for_each(|it| fields.push(it.0, it.1));
                let head = ReadyHead::new(&[b"HTTP/1.1 200 OK\r\n", fields.text()].concat());
                let mut out = Outbox::default();
                out.text().extend_from_slice(b"before");
                let mut answer = ResponseWriter::http1(Version::Http11, false, &mut out);
                answer.finish_with(Rc::new(finish.clone()));
                answer.ready(&head);
                answer.end();
                let expected = finish.apply(200, &fields);
                let expected = [b"beforeHTTP/1.1 200 OK\r\n", expected.text(), b"\r\n"].concat();
                assert_eq!(String::from_utf8_lossy(&expected), String::from_utf8_lossy(out.text()));
            }
        }
    }
}
