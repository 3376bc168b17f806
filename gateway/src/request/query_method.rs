//! QUERY (RFC 10008): its body is read before the lookup, since it is part of the key. `semantics::key` adds
//! its digest, and `fill::origin` sends it to the origin.

use super::early_body::{BodyPrefix, BufferShare, EarlyBody};
use crate::request_headers;
use crate::route::Gateway;
use bytes::BytesMut;
use larder_semantics::field::FieldList;
use larder_semantics::key::KEYED_BODY;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_transport::RequestBody;
use larder_wire::message::{Framing, Request};
use ring::digest::{Context, SHA256};
use std::fmt::Write as _;
use std::rc::Rc;

/// The fields that describe a body (RFC 9110 §8.3 to §8.7): a part of the digest, since they change its meaning.
const DESCRIBING: [&str; 4] = ["content-type", "content-encoding", "content-language", "content-location"];

/// Reads the body of a QUERY that may use the cache, and adds its digest to the request. Such a request is then a GET of its
/// own key; `Range` is removed, which a server may ignore (RFC 9110 §14.2).
pub(crate) async fn read(
    gateway: &Gateway,
    policy: &Policy,
    request: &mut Rc<Request>,
    body: &mut RequestBody<'_>,
) -> EarlyBody {
    let Some(most) = policy.query_body.filter(|_| request.method == "QUERY" && uses_cache(policy, request))
    else {
        return EarlyBody::Unread;
    };
    let room = match request.framing {
        Framing::Length(length) if length > most => return EarlyBody::Unread,
        Framing::Length(length) => length,
        Framing::Empty => 0,
        Framing::Chunked | Framing::Close => most,
    };
    let Some(_room) = BufferShare::take(&gateway.small_bodies, room) else { return EarlyBody::Unread };
    let mut all = BytesMut::new();
    loop {
        match body.next().await {
            Ok(None) => break,
            Ok(Some(bytes)) => all.extend_from_slice(&bytes),
            Err(gone) => return EarlyBody::Lost(gone),
        }
        if all.len() as u64 > most {
            return EarlyBody::Begun(BodyPrefix { bytes: Some(all.freeze()), is_whole: false });
        }
    }
    let bytes = all.freeze();
    let fields = &mut Rc::make_mut(request).fields;
    let digest = digest(fields, &bytes);
    fields.retain(|it| !(it.is("range") || it.is("if-range")));
    fields.push(KEYED_BODY, digest);
    EarlyBody::Keyed(bytes)
}

/// Whether a QUERY has one `Content-Type`, without which its body has no meaning (RFC 10008 §2), and whether a GET with its
/// fields would use the cache.
fn uses_cache(policy: &Policy, request: &Request) -> bool {
    let fields = request.fields.view();
    let mut types = fields.iter().filter(|it| it.is("content-type"));
    let is_typed = types.next().is_some_and(|it| !it.value.trim_ascii().is_empty()) && types.next().is_none();
    let as_sent = RequestFacts::read(&request.method, &fields);
    let as_get = RequestFacts { method: "GET", has_body: false, ..as_sent };
    is_typed && request_headers::bypass(policy, &as_get, &request.target, &fields).is_none()
}

/// The digest of a body and of the fields that describe it, in hexadecimal. Each part has its length before it, so that none
/// can be read as another.
fn digest(fields: &FieldList, body: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    let mut part = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    for name in DESCRIBING {
        let lines: Vec<&[u8]> = fields.get_all(name).collect();
        part(&(lines.len() as u64).to_be_bytes());
        lines.into_iter().for_each(&mut part);
    }
    part(body);
    context.finish().as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &str)], body: &str) -> String {
        let mut list = FieldList::new();
        fields.iter().for_each(|(name, value)| list.push(name, value));
        digest(&list, body.as_bytes())
    }

    #[test]
    fn each_part_changes_the_digest() {
        let all = [
            of(&[("Content-Type", "a/b")], "xy"),
            of(&[("Content-Type", "a/b")], "x"),
            of(&[("Content-Type", "a/bx")], "y"),
            of(&[("Content-Type", "a/b"), ("Content-Encoding", "gzip")], "xy"),
            of(&[("Content-Type", "a/b"), ("Content-Encoding", "")], "xy"),
            of(&[("Content-Type", "a/b"), ("Content-Language", "gzip")], "xy"),
            of(&[("Content-Type", "a/b"), ("Content-Location", "gzip")], "xy"),
            of(&[("Content-Type", "a/b"), ("Content-Encoding", "gzip"), ("Content-Encoding", "")], "xy"),
            of(&[("Content-Type", "a/b"), ("Content-Encoding", "gzip, ")], "xy"),
            of(&[("Content-Type", "")], "xy"),
            of(&[("Content-Type", "a/b")], ""),
            of(&[], "xy"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(64, one.len());
            assert!(!all[..at].contains(one), "{at}");
        }
        assert_eq!(of(&[("content-type", "a/b"), ("X", "1")], "xy"), all[0], "other fields do not count");
    }
}
