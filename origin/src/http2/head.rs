//! Conversion of heads to and from the library's types: requests, and responses as strictly as in HTTP/1.1. This module
//! has no frames.

use crate::request::OutgoingRequest;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use larder_semantics::field::{self, FieldList};
use larder_wire::message::fields::is_allowed_trailer;
use larder_wire::message::{BadResponse, Framing, HeadKind, MAX_FIELDS, ResponseHead, Version};

/// Whether a message continues after its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// A body, or trailers.
    Something,
    /// The stream has ended.
    Nothing,
}

/// The request without its body. `None` where HTTP/2 cannot express it: the library accepts no target beyond 64 KiB.
///
/// `Host` becomes `:authority`; fields of an HTTP/1.1 connection are left out, `Upgrade` included (RFC 9113 §8.6).
pub(super) fn request(outgoing: &OutgoingRequest, scheme: Scheme) -> Option<http::Request<()>> {
    let method = http::Method::from_bytes(outgoing.line.method().as_bytes()).ok()?;
    let host = outgoing.fields.get("host").unwrap_or_default();
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(match host {
        b"" => Authority::from_static("localhost"),
        host => Authority::try_from(host).ok()?,
    });
    parts.path_and_query = Some(path(outgoing.line.target())?);
    let mut request = http::Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from_parts(parts).ok()?;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = fields(&outgoing.fields, |name| !is_of_the_connection(name) && name != "host")?;
    if let Some(te) = outgoing.fields.get("te")
        && field::members(te).any(|it| it.eq_ignore_ascii_case(b"trailers"))
    {
        request.headers_mut().insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    let length = match outgoing.framing {
        Framing::Length(length) => Some(length),
        Framing::Empty if matches!(outgoing.line.method(), "POST" | "PUT" | "PATCH") => Some(0),
        Framing::Empty | Framing::Chunked | Framing::Close => None,
    };
    if let Some(length) = length {
        request.headers_mut().insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Some(request)
}

/// Trailers as the library's type, without forbidden fields.
pub(super) fn trailers(list: &FieldList) -> HeaderMap {
    fields(list, |name| is_allowed_trailer(name) && !is_of_the_connection(name)).unwrap_or_default()
}

fn fields(list: &FieldList, keep: impl Fn(&str) -> bool) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(list.len());
    for it in list.iter() {
        let name = HeaderName::from_bytes(it.name.as_bytes()).ok()?;
        if keep(name.as_str()) {
            map.append(name, HeaderValue::from_bytes(it.value).ok()?);
        }
    }
    Some(map)
}

/// The target. The library takes every byte as it is but `<`, `>`, `"` and a backquote, which stand in no URI (RFC 3986 §2); these are
/// percent-encoded, and a page with any but the last is not cached.
fn path(target: &str) -> Option<PathAndQuery> {
    if let Ok(path) = PathAndQuery::try_from(target) {
        return Some(path);
    }
    let mut encoded = String::with_capacity(target.len() + 16);
    for byte in target.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'`' => {
                encoded.push('%');
                for digit in [byte >> 4, byte & 15] {
                    encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
                }
            }
            _ => encoded.push(char::from(byte)),
        }
    }
    PathAndQuery::try_from(encoded).ok()
}

/// Fields that HTTP/2 does not have (RFC 9113 §8.2.2), and those that larder writes. `name` is in lower case.
fn is_of_the_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
            | "te"
            | "content-length"
    )
}

/// A response head to a request with this method, of at most `limit` bytes in the form of HTTP/1.1.
///
/// The library has rejected upper-case names, control characters, misplaced pseudo-fields, connection fields and
/// contradictory lengths. White space around values is removed as in HTTP/1.1.
pub(super) fn response(
    head: &http::response::Parts,
    method: &str,
    limit: usize,
    follows: Follows,
) -> Result<ResponseHead, BadResponse> {
    let status = head.status.as_u16();
    if !(100..=599).contains(&status) || status == 101 {
        return Err(BadResponse::StatusLine);
    }
    if head.headers.len() > MAX_FIELDS {
        return Err(BadResponse::TooManyFields);
    }
    let size = |it: (&HeaderName, &HeaderValue)| it.0.as_str().len() + it.1.len() + 4;
    let bytes = head.headers.iter().map(size).sum::<usize>();
    if bytes > limit {
        return Err(BadResponse::TooLarge);
    }
    let length = length(&head.headers)?;
    let mut fields = FieldList::with_capacity(head.headers.len(), bytes);
    let mut has_length = false;
    for (name, value) in &head.headers {
        match length {
            Some(length) if name == http::header::CONTENT_LENGTH => {
                if !has_length {
                    fields.push(name.as_str(), itoa::Buffer::new().format(length));
                }
                has_length = true;
            }
            _ if is_of_the_connection(name.as_str()) => return Err(BadResponse::Field),
            _ => fields.push(name.as_str(), field::trim(value.as_bytes())),
        }
    }
    let framing = framing(status, method, length, follows)?;
    Ok(ResponseHead {
        status,
        version: Version::Http2,
        fields,
        framing,
        keep_alive: true,
        kind: HeadKind::Response,
    })
}

/// The one number on which all `Content-Length` fields agree.
fn length(map: &HeaderMap) -> Result<Option<u64>, BadResponse> {
    let mut found = None;
    for value in map.get_all(http::header::CONTENT_LENGTH) {
        let digits = value.as_bytes();
        let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse::<u64>().ok());
        match (number.filter(|_| is_plain), found) {
            (None, _) => return Err(BadResponse::Length),
            (Some(number), Some(first)) if number != first => return Err(BadResponse::Length),
            (number, _) => found = number,
        }
    }
    Ok(found)
}

/// The end of the body. It is at the end of the stream; [`Framing::Chunked`] stands for a body of unknown length with a
/// visible end.
fn framing(status: u16, method: &str, length: Option<u64>, follows: Follows) -> Result<Framing, BadResponse> {
    match (status, length, follows) {
        (100..=199, _, Follows::Nothing) => Err(BadResponse::StatusLine), // Nothing final can come.
        (100..=199, Some(1..), _) => Err(BadResponse::Length),
        (100..=199 | 204 | 304, ..) => Ok(Framing::Empty),
        _ if method == "HEAD" => Ok(Framing::Empty),
        (_, Some(1..), Follows::Nothing) => Err(BadResponse::Length),
        (_, _, Follows::Nothing) | (_, Some(0), _) => Ok(Framing::Empty),
        (_, Some(length), Follows::Something) => Ok(Framing::Length(length)),
        (_, None, Follows::Something) => Ok(Framing::Chunked),
    }
}

/// The trailer section of a response, without forbidden fields (RFC 9110 §6.5.1); `None` where none is left.
pub(super) fn read_trailers(map: &HeaderMap) -> Option<FieldList> {
    let mut list = FieldList::new();
    for (name, value) in map.iter().take(MAX_FIELDS) {
        if is_allowed_trailer(name.as_str()) {
            list.push(name.as_str(), field::trim(value.as_bytes()));
        }
    }
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestLine;

    fn said(method: &str, target: &str, framing: Framing, lines: &[(&str, &str)]) -> String {
        let mut fields = FieldList::new();
        lines.iter().for_each(|(name, value)| fields.push(name, value));
        let line = RequestLine::Own { method: method.to_owned(), target: target.to_owned() };
        let outgoing = OutgoingRequest {
            line,
            fields,
            framing,
            asked: None,
            reason: None,
            client: None,
            variables: FieldList::default(),
            application: None,
        };
        let Some(request) = request(&outgoing, Scheme::HTTP) else { return "unsayable".to_owned() };
        let mut text = format!("{} {}", request.method(), request.uri());
        for (name, value) in request.headers() {
            text.push_str(&format!(" {name}={}", value.to_str().unwrap()));
        }
        text
    }

    #[test]
    fn requests() {
        let host = [("Host", "a:1")];
        assert_eq!("GET http://a:1/b?c", said("GET", "/b?c", Framing::Empty, &host));
        assert_eq!("POST http://a:1/ content-length=0", said("POST", "/", Framing::Empty, &host));
        assert_eq!("POST http://a:1/ content-length=5", said("POST", "/", Framing::Length(5), &host));
        assert_eq!("POST http://a:1/", said("POST", "/", Framing::Chunked, &host));
        assert_eq!("GET http://localhost/", said("GET", "/", Framing::Empty, &[("Host", "")]));
        assert_eq!("GET http://a/%3C%22%60?%3E", said("GET", "/<\"`?>", Framing::Empty, &[("Host", "a")]));
        assert_eq!("GET http://a/|[%zz?\\{^}", said("GET", "/|[%zz?\\{^}", Framing::Empty, &[("Host", "a")]));
        assert_eq!("unsayable", said("GET", &format!("/{}", "a".repeat(70_000)), Framing::Empty, &host));
    }

    #[test]
    fn connection_fields_are_not_sent() {
        let lines = [
            ("Host", "a"),
            ("Connection", "upgrade"),
            ("Upgrade", "websocket"),
            ("Keep-Alive", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "9"),
            ("TE", "gzip, trailers"),
            ("X", "1"),
        ];
        assert_eq!("GET http://a/ x=1 te=trailers", said("GET", "/", Framing::Empty, &lines));
        assert_eq!("GET http://a/", said("GET", "/", Framing::Empty, &[("Host", "a"), ("TE", "gzip")]));
    }

    #[track_caller]
    fn check(method: &str, status: u16, lines: &[(&str, &str)], follows: Follows, expect: &str) {
        let mut head = http::Response::new(()).into_parts().0;
        head.status = http::StatusCode::from_u16(status).unwrap();
        for (name, value) in lines {
            head.headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let found = match response(&head, method, 100, follows) {
            Ok(it) => format!("{:?} {}", it.framing, String::from_utf8_lossy(it.fields.text())),
            Err(bad) => format!("{bad:?}"),
        };
        assert_eq!(expect, found);
    }

    #[test]
    fn responses() {
        use Follows::{Nothing, Something};
        let five = [("content-length", "5")];
        check("GET", 200, &five, Something, "Length(5) content-length: 5\r\n");
        check("GET", 200, &[], Something, "Chunked ");
        check("GET", 200, &[], Nothing, "Empty ");
        check("HEAD", 200, &five, Nothing, "Empty content-length: 5\r\n");
        check("GET", 304, &five, Nothing, "Empty content-length: 5\r\n");
        check("GET", 200, &five, Nothing, "Length");
        check("GET", 200, &[five[0], ("content-length", "5")], Something, "Length(5) content-length: 5\r\n");
        check("GET", 200, &[five[0], ("content-length", "6")], Something, "Length");
        check("GET", 200, &[("content-length", "+5")], Something, "Length");
        check("GET", 200, &[("a", " b\t")], Nothing, "Empty a: b\r\n");
        check("GET", 103, &[("link", "b")], Something, "Empty link: b\r\n");
        check("GET", 103, &[], Nothing, "StatusLine");
        check("GET", 101, &[], Something, "StatusLine");
        check("GET", 600, &[], Something, "StatusLine");
        check("GET", 200, &[("connection", "close")], Something, "Field");
        check("GET", 200, &[("upgrade", "h2c")], Something, "Field");
        check("GET", 200, &[("a", &"b".repeat(100))], Nothing, "TooLarge");
    }
}
