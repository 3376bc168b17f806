//! Requests and trailers from field sections (RFC 9113 §8.2, §8.3): the rules of HTTP/1.1 and those of HTTP/2, so that no
//! input is accepted which two parsers could interpret differently.

use super::hpack::{Flaw, Section};
use crate::message::facts::{FieldCount, MessageFacts};
use crate::message::fields::is_allowed_trailer;
use crate::message::{
    FieldStorage, Framing, HeadLimits, Reject, RequestHead, Version, expects_continue, facts, target,
};
use larder_semantics::field::{Field, FieldList, is_token};
use larder_semantics::method::is_misspelt;
use larder_semantics::scheme::Scheme;

/// The pseudo-fields of a request (RFC 9113 §8.3.1).
#[derive(Default)]
struct Pseudo<'a> {
    method: Option<&'a str>,
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: Option<&'a str>,
    protocol: Option<&'a str>,
}

impl<'a> Pseudo<'a> {
    fn note(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Reject> {
        let place = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            b":protocol" => &mut self.protocol,
            _ => return Err(Reject::Pseudo),
        };
        let value = std::str::from_utf8(value).map_err(|_| Reject::Pseudo)?;
        if place.replace(value).is_some() { Err(Reject::Pseudo) } else { Ok(()) }
    }
}

/// The request of a field section. A body follows unless the section ended its stream.
///
/// # Errors
/// The first error. Those with status 400 make the request malformed (RFC 9113 §8.1.1): its stream is reset.
pub fn parse<'a>(
    section: &'a Section,
    end_stream: bool,
    limits: &HeadLimits,
    storage: &'a mut FieldStorage<'a>,
) -> Result<RequestHead<'a>, Reject> {
    parse_over(Version::Http2, section, end_stream, limits, storage)
}

/// As [`parse`], over HTTP/2 or HTTP/3, whose rules are the same (RFC 9114 §4.2, §4.3).
pub(crate) fn parse_over<'a>(
    version: Version,
    section: &'a Section,
    end_stream: bool,
    limits: &HeadLimits,
    storage: &'a mut FieldStorage<'a>,
) -> Result<RequestHead<'a>, Reject> {
    if section.is_too_large() {
        return Err(Reject::HeadTooLarge);
    }
    check_flaw(section)?;
    let mut pseudo = Pseudo::default();
    let mut lines = section.iter().peekable();
    while let Some((name, value)) = lines.next_if(|it| it.0.first() == Some(&b':')) {
        pseudo.note(name, value)?;
    }
    let mut facts = MessageFacts::default();
    let mut bad = None;
    let mut has_host = false;
    let fields = lines.map(|(name, value)| {
        if let Err(reject) = check_field(name, value) {
            bad = bad.or(Some(reject));
        }
        let name = std::str::from_utf8(name).unwrap_or_default();
        facts.note(name, value);
        has_host |= name == "host";
        Field { name, value }
    });
    let count = storage.extend(0, fields);
    if let Some(reject) = bad {
        return Err(reject);
    }
    let (method, target, authority) = names(&pseudo, &facts, limits)?;
    // HTTP/1.1 has it as a field, which later steps expect (RFC 9113 §8.3.1).
    let host = (!has_host).then_some(Field { name: "host", value: authority.as_bytes() });
    let count = storage.extend(count, host.into_iter());
    let framing = match pseudo.protocol {
        None => framing(&facts, end_stream)?,
        // The following data are not a body, and have no length.
        Some(_) if facts.content_length == FieldCount::Absent => Framing::Empty,
        Some(_) => return Err(Reject::ContentLength),
    };
    // HTTP/1.1 has no body without a field either: such a request is not answered from the store.
    let is_unannounced = framing == Framing::Chunked && facts.content_length == FieldCount::Absent;
    let chunked = is_unannounced.then_some(Field { name: "transfer-encoding", value: b"chunked" });
    let count = storage.extend(count, chunked.into_iter());
    Ok(RequestHead {
        method,
        scheme: limits.scheme,
        target,
        authority,
        version,
        protocol: pseudo.protocol,
        fields: storage.view(count),
        framing,
        keep_alive: true,
        expects_continue: expects_continue(&facts, version)? && framing != Framing::Empty,
    })
}

/// The trailer section of a request; forbidden trailer fields (RFC 9110 §6.5.1) are dropped.
///
/// # Errors
/// It is malformed.
pub fn trailers(section: &Section) -> Result<FieldList, Reject> {
    if section.is_too_large() {
        return Err(Reject::HeadTooLarge);
    }
    check_flaw(section)?;
    let mut list = FieldList::new();
    for (name, value) in section.iter() {
        if name.first() == Some(&b':') {
            return Err(Reject::Pseudo);
        }
        check_field(name, value)?;
        let name = std::str::from_utf8(name).map_err(|_| Reject::Field)?;
        if is_allowed_trailer(name) {
            list.push(name, value);
        }
    }
    Ok(list)
}

fn check_flaw(section: &Section) -> Result<(), Reject> {
    match section.flaw() {
        None => Ok(()),
        Some(Flaw::Name | Flaw::Value) => Err(Reject::Field),
    }
}

/// The additional restrictions of HTTP/2 (RFC 9113 §8.2.2).
fn check_field(name: &[u8], value: &[u8]) -> Result<(), Reject> {
    match name {
        // After the regular fields.
        [b':', ..] => Err(Reject::Pseudo),
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err(Reject::ConnectionField)
        }
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => Err(Reject::ConnectionField),
        _ => Ok(()),
    }
}

/// Method, target and authority.
fn names<'a>(
    pseudo: &Pseudo<'a>,
    facts: &MessageFacts<'a>,
    limits: &HeadLimits,
) -> Result<(&'a str, &'a str, &'a str), Reject> {
    let method = pseudo.method.filter(|it| is_token(it.as_bytes())).ok_or(Reject::Pseudo)?;
    if is_misspelt(method) {
        return Err(Reject::MethodCase);
    }
    if pseudo.protocol.is_some_and(|it| method != "CONNECT" || !is_token(it.as_bytes())) {
        return Err(Reject::Pseudo);
    }
    if method == "CONNECT" && pseudo.protocol.is_none() {
        let (None, None, Some(authority)) = (pseudo.scheme, pseudo.path, pseudo.authority) else {
            return Err(Reject::Pseudo);
        };
        let read = target::read(method, authority, limits.scheme)?;
        return Ok((method, read.target, self::authority(Some(read.target), facts, "")?));
    }
    let (Some(scheme), Some(path)) = (pseudo.scheme, pseudo.path) else { return Err(Reject::Pseudo) };
    match scheme {
        "https" if limits.scheme == Scheme::Http => return Err(Reject::NotSecured),
        "http" if limits.scheme == Scheme::Https => return Err(Reject::Secured),
        "http" | "https" => {}
        _ => return Err(Reject::Pseudo),
    }
    if path.len() > limits.target {
        return Err(Reject::TargetTooLong);
    }
    // Absolute-form exists in HTTP/1.1 only.
    let is_form = path.starts_with('/') || path == "*";
    if !is_form || !path.bytes().all(|it| matches!(it, 0x21..=0x7e)) {
        return Err(Reject::Target);
    }
    // With a protocol, CONNECT has another meaning (RFC 8441 §4): for the method's rules this is the request that an
    // application gets (RFC 6455 §4.1).
    let method = if pseudo.protocol.is_some() { "GET" } else { method };
    let target = target::read(method, path, limits.scheme)?.target;
    Ok((method, target, authority(pseudo.authority, facts, limits.scheme.default_port())?))
}

/// The authority: `:authority`, which must agree with `Host` if that exists; otherwise `Host`.
fn authority<'a>(
    authority: Option<&'a str>,
    facts: &MessageFacts<'a>,
    port: &str,
) -> Result<&'a str, Reject> {
    let host = match facts.host {
        FieldCount::Absent => None,
        FieldCount::Once(it) => Some(std::str::from_utf8(it).map_err(|_| Reject::Host)?),
        FieldCount::Same(_) | FieldCount::Differing => return Err(Reject::Host),
    };
    let named = authority.or(host).filter(|it| target::is_authority(it.as_bytes())).ok_or(Reject::Host)?;
    match host {
        Some(host) if !target::is_same(named.as_bytes(), host.as_bytes(), port) => Err(Reject::HostMismatch),
        _ => Ok(named),
    }
}

/// The end of the body: the end of the stream, after `Content-Length` bytes (RFC 9113 §8.1.1).
fn framing(facts: &MessageFacts<'_>, end_stream: bool) -> Result<Framing, Reject> {
    let length = match facts.content_length {
        FieldCount::Absent => None,
        FieldCount::Once(value) => Some(facts::length(value).ok_or(Reject::ContentLength)?),
        FieldCount::Same(_) | FieldCount::Differing => return Err(Reject::ContentLength),
    };
    match (length, end_stream) {
        (None | Some(0), true) => Ok(Framing::Empty),
        (Some(_), true) => Err(Reject::ContentLength),
        (None, false) => Ok(Framing::Chunked),
        // An end of stream is still to come, without a byte before it.
        (Some(0), false) => Ok(Framing::Chunked),
        (Some(length), false) => Ok(Framing::Length(length)),
    }
}

#[cfg(test)]
mod tests;
