//! A request as it goes out, and its head as bytes: made anew from what was understood, never copied.

use crate::http2::ChannelNeeds;
use larder_semantics::field::{Field, FieldList};
use larder_wire::http1::write;
use larder_wire::message::{Framing, Request};
use std::rc::Rc;

/// The request as it goes out: end-to-end fields only, `Host` included, framing fields not.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// Method and target.
    pub line: RequestLine,
    /// End-to-end fields; and `TE` with `trailers`, where the client wants those, which is for HTTP/2.
    pub fields: FieldList,
    /// `Empty`, `Length` or `Chunked`; `Close` is written as `Chunked`, since a request cannot end by closing.
    pub framing: Framing,
    /// When it was asked for, by the precise clock, where that is known.
    pub asked: Option<u64>,
}

/// The method, and the target in origin-form or `*`.
#[derive(Clone, Debug)]
pub enum RequestLine {
    /// Those of a request that is kept anyway.
    Of(Rc<Request>),
    /// These.
    Own {
        /// The method.
        method: String,
        /// The target.
        target: String,
    },
}

impl RequestLine {
    pub(crate) fn method(&self) -> &str {
        match self {
            RequestLine::Of(request) => &request.method,
            RequestLine::Own { method, .. } => method,
        }
    }

    pub(crate) fn target(&self) -> &str {
        match self {
            RequestLine::Of(request) => &request.target,
            RequestLine::Own { target, .. } => target,
        }
    }
}

/// Whether the origin is told that the connection ends with this exchange (RFC 9112 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It may be used again.
    Keep,
    /// `Connection: close`.
    Close,
}

impl OutgoingRequest {
    /// Appends the head. Framing and `Connection` are ours: lines that would say otherwise are left out.
    pub(crate) fn write_head(&self, persistence: Persistence, out: &mut Vec<u8>) {
        write::request_line(self.line.method(), self.line.target(), out);
        if self.fields.iter().any(|it| is_ours(&it)) {
            for it in self.fields.iter().filter(|it| !is_ours(it)) {
                write::field(it.name, it.value, out);
            }
        } else {
            out.extend_from_slice(self.fields.text());
        }
        match self.framing {
            // A length is expected where the method has a use for a body (RFC 9110 §8.6).
            Framing::Empty if matches!(self.line.method(), "POST" | "PUT" | "PATCH") => {
                out.extend_from_slice(b"Content-Length: 0\r\n");
            }
            Framing::Empty => {}
            Framing::Length(length) => {
                write::field("Content-Length", itoa::Buffer::new().format(length).as_bytes(), out);
            }
            Framing::Chunked | Framing::Close => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        if self.asks_for_upgrade() {
            out.extend_from_slice(b"Connection: upgrade\r\n");
        } else if persistence == Persistence::Close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Whether the connection may be taken out of HTTP: the one hop-by-hop field that a caller may put there, since what follows
    /// is its own.
    pub(crate) fn asks_for_upgrade(&self) -> bool {
        self.fields.contains("upgrade")
    }

    /// What it needs of its connection.
    pub(crate) fn needs(&self) -> ChannelNeeds {
        if self.asks_for_upgrade() { ChannelNeeds::Http1 } else { ChannelNeeds::Any }
    }

    /// Whether doing it twice is like doing it once (RFC 9110 §9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        is_idempotent(self.line.method())
    }

    /// Whether there is a body.
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.framing, Framing::Empty | Framing::Length(0))
    }

    /// Whether the body is held back until the origin says 100 (RFC 9110 §10.1.1).
    pub(crate) fn expects_continue(&self) -> bool {
        self.framing != Framing::Empty
            && self.fields.get("expect").is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"))
    }
}

/// Whether doing what the method asks for twice is like doing it once (RFC 9110 §9.2.2).
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

fn is_ours(field: &Field<'_>) -> bool {
    // By length first: this is asked for every line of every request.
    match field.name.len() {
        // Of the connection, and HTTP/2 alone has a use for it.
        2 => field.is("te"),
        10 => field.is("connection"),
        14 => field.is("content-length"),
        17 => field.is("transfer-encoding"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, framing: Framing, lines: &[(&str, &str)]) -> OutgoingRequest {
        let mut fields = FieldList::new();
        for (name, value) in lines {
            fields.push(name, value);
        }
        let line = RequestLine::Own { method: method.to_owned(), target: "/a".to_owned() };
        OutgoingRequest { line, fields, framing, asked: None }
    }

    #[track_caller]
    fn check(request: &OutgoingRequest, expect: &str) {
        let mut out = Vec::new();
        request.write_head(Persistence::Keep, &mut out);
        assert_eq!(expect, String::from_utf8(out).unwrap());
    }

    #[test]
    fn heads() {
        let host = [("Host", "a")];
        check(&request("GET", Framing::Empty, &host), "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        check(
            &request("POST", Framing::Empty, &host),
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        );
        check(
            &request("POST", Framing::Length(5), &host),
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        );
        let chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&request("POST", Framing::Chunked, &host), chunked);
        check(&request("POST", Framing::Close, &host), chunked);
    }

    #[test]
    fn framing_fields_are_ours() {
        let lines = [
            ("content-length", "9"),
            ("Host", "a"),
            ("TRANSFER-ENCODING", "chunked"),
            ("Connection", "x"),
            ("X", "1"),
        ];
        check(
            &request("POST", Framing::Length(5), &lines),
            "POST /a HTTP/1.1\r\nHost: a\r\nX: 1\r\nContent-Length: 5\r\n\r\n",
        );
    }

    #[test]
    fn a_connection_that_will_not_be_kept_says_so() {
        let mut out = Vec::new();
        request("GET", Framing::Empty, &[]).write_head(Persistence::Close, &mut out);
        assert_eq!(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", &*out);
    }
}
