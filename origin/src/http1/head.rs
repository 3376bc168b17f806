//! The head of a request in HTTP/1.1: built from the parsed request, never copied.

use crate::connection::Persistence;
use crate::request::OutgoingRequest;
use larder_semantics::field::Field;
use larder_wire::http1::write;
use larder_wire::message::Framing;

/// Appends the head. larder writes framing and `Connection`: other lines for these are left out.
pub(super) fn write(request: &OutgoingRequest, persistence: Persistence, out: &mut Vec<u8>) {
    write::request_line(request.line.method(), request.line.target(), out);
    if request.fields.iter().any(|it| is_ours(&it)) {
        for it in request.fields.iter().filter(|it| !is_ours(it)) {
            write::field(it.name, it.value, out);
        }
    } else {
        out.extend_from_slice(request.fields.text());
    }
    match request.framing {
        // A length is expected where the method uses a body (RFC 9110 §8.6).
        Framing::Empty if matches!(request.line.method(), "POST" | "PUT" | "PATCH") => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        Framing::Empty => {}
        Framing::Length(length) => {
            write::field("Content-Length", itoa::Buffer::new().format(length).as_bytes(), out);
        }
        Framing::Chunked | Framing::Close => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if request.asks_for_upgrade() {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    } else if persistence == Persistence::Close {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn is_ours(field: &Field<'_>) -> bool {
    // By length first: this runs for every line of every request.
    match field.name.len() {
        // A field of the connection that only HTTP/2 uses.
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
    use crate::request::RequestLine;
    use larder_semantics::field::FieldList;

    fn request(method: &str, framing: Framing, lines: &[(&str, &str)]) -> OutgoingRequest {
        let mut fields = FieldList::new();
        for (name, value) in lines {
            fields.push(name, value);
        }
        let line = RequestLine::Own { method: method.to_owned(), target: "/a".to_owned() };
        OutgoingRequest {
            line,
            fields,
            framing,
            asked: None,
            reason: None,
            client: None,
            variables: FieldList::default(),
            application: None,
        }
    }

    #[track_caller]
    fn check(request: &OutgoingRequest, expect: &str) {
        let mut out = Vec::new();
        write(request, Persistence::Keep, &mut out);
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
    fn a_request_on_a_connection_that_will_not_be_kept_says_close() {
        let mut out = Vec::new();
        write(&request("GET", Framing::Empty, &[]), Persistence::Close, &mut out);
        assert_eq!(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", &*out);
    }
}
