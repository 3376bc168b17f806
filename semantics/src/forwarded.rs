//! The client address in the fields of trusted proxies: `X-Forwarded-For` and `Forwarded` (RFC 7239). The list of trusted
//! proxies is configuration; the choice of fields for an origin is not here.

use crate::field::{self, Field};
use crate::network::Peers;
use crate::scheme::Scheme;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The field that is trusted. Only one: a proxy that writes one of them passes the other on as its client wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Believed {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded`.
    Forwarded,
}

/// The fields with the client address that an origin gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedFields {
    /// `X-Forwarded-For`, `-Proto` and `-Host`.
    #[default]
    XForwarded,
    /// `Forwarded`.
    Forwarded,
    /// All of them.
    Both,
    /// None.
    Off,
}

impl ForwardedFields {
    /// Whether the fields of the family `X-Forwarded-*` are sent.
    #[must_use]
    pub fn sends_x_forwarded(self) -> bool {
        matches!(self, ForwardedFields::XForwarded | ForwardedFields::Both)
    }

    /// Whether `Forwarded` is sent.
    #[must_use]
    pub fn sends_forwarded(self) -> bool {
        matches!(self, ForwardedFields::Forwarded | ForwardedFields::Both)
    }
}

/// The client and its proxies: from the one next to the client to the peer. A hop of a Unix socket has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientChain {
    /// The rightmost address outside the trusted networks; the leftmost if all are inside.
    pub client: Option<IpAddr>,
    /// Trusted proxies.
    pub hops: Vec<Option<IpAddr>>,
}

/// The client, where `peer` is the other end of the connection. Elements left of the client are written by the client
/// itself. An element without an address (`unknown`, `_hidden`) ends the search: the proxy that wrote it is the last
/// known one.
pub fn seen(believed: Believed, peer: Option<IpAddr>, fields: &[Field<'_>], trusted: &Peers) -> ClientChain {
    let mut seen = ClientChain { client: peer.map(|it| it.to_canonical()), hops: Vec::new() };
    if !trusted.has(seen.client) {
        return seen;
    }
    let name = match believed {
        Believed::XForwardedFor => "x-forwarded-for",
        Believed::Forwarded => "forwarded",
    };
    let mut members = Vec::new();
    for line in field::all(fields, name) {
        split(line, b',', &mut members);
    }
    for member in members.iter().rev() {
        let text = match believed {
            Believed::XForwardedFor => Some(*member),
            Believed::Forwarded => parameter(member, b"for"),
        };
        let Some(address) = text.and_then(address) else { break };
        seen.hops.insert(0, seen.client);
        seen.client = Some(address);
        if !trusted.has(seen.client) {
            break;
        }
    }
    seen
}

/// The scheme with which the last proxy received the request, as it says in the companion of the believed field:
/// `X-Forwarded-Proto`, or `proto` of `Forwarded` (RFC 7239 section 5.4). To be asked only if that proxy is trusted.
#[must_use]
pub fn scheme(believed: Believed, fields: &[Field<'_>]) -> Option<Scheme> {
    let mut members = Vec::new();
    let name = match believed {
        Believed::XForwardedFor => "x-forwarded-proto",
        Believed::Forwarded => "forwarded",
    };
    split(field::all(fields, name).last()?, b',', &mut members);
    let member = members.pop()?;
    let value = match believed {
        Believed::XForwardedFor => member,
        Believed::Forwarded => parameter(member, b"proto")?,
    };
    match value {
        it if it.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
        it if it.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
        _ => None,
    }
}

/// Appends the trimmed parts between marks outside of quotes; empty parts are dropped, as in any list.
fn split<'t>(text: &'t [u8], mark: u8, into: &mut Vec<&'t [u8]>) {
    let (mut from, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if *byte == mark && !quoted => {
                into.push(field::trim(&text[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    into.push(field::trim(&text[from..]));
    into.retain(|it| !it.is_empty());
}

/// The value of a parameter of `Forwarded`, which must occur once, without its quotes.
fn parameter<'m>(member: &'m [u8], name: &[u8]) -> Option<&'m [u8]> {
    let mut pairs = Vec::new();
    split(member, b';', &mut pairs);
    let mut values = pairs.iter().filter_map(|it| {
        let at = it.iter().position(|it| *it == b'=')?;
        it[..at].eq_ignore_ascii_case(name).then(|| &it[at + 1..])
    });
    let value = values.next().filter(|_| values.next().is_none())?;
    Some(value.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(value))
}

/// An address with or without a port; IPv6 with or without brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let address = match bare {
        Some(it) => it.parse().ok().map(IpAddr::V6),
        None => text.parse().ok().or_else(|| text.parse().ok().map(|it: SocketAddr| it.ip())),
    };
    address.map(|it| it.to_canonical())
}

/// The value of `Forwarded` for an origin: the client with host and scheme, then the proxies.
#[must_use]
pub fn forwarded(client: Option<IpAddr>, hops: &[Option<IpAddr>], host: &str, scheme: &str) -> String {
    let mut text = String::from("for=");
    let node = |it: Option<IpAddr>, text: &mut String| {
        // Writing to a string cannot fail.
        let _ = match it.map(|it| it.to_canonical()) {
            Some(IpAddr::V4(it)) => write!(text, "{it}"),
            Some(IpAddr::V6(it)) => write!(text, "\"[{it}]\""),
            None => write!(text, "unknown"),
        };
    };
    node(client, &mut text);
    if !host.is_empty() {
        // A valid host has neither quotes nor backslashes.
        let _ = write!(text, ";host=\"{host}\"");
    }
    let _ = write!(text, ";proto={scheme}");
    for hop in hops {
        text.push_str(", for=");
        node(*hop, &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ours() -> Peers {
        Peers::of(&["10.0.0.0/8", "::1", "unix"].map(str::to_owned))
    }

    /// `unix` has no address.
    fn node(text: &str) -> Option<IpAddr> {
        (text != "unix").then(|| text.parse().unwrap())
    }

    #[track_caller]
    fn check(believed: Believed, peer: &str, lines: &[&str], client: &str, hops: &[&str]) {
        let fields: Vec<_> = lines
            .iter()
            .map(|it| it.split_once(": ").unwrap())
            .map(|(name, value)| Field { name, value: value.as_bytes() })
            .collect();
        let it = seen(believed, node(peer), &fields, &ours());
        let hops = hops.iter().map(|it| node(it)).collect();
        assert_eq!(ClientChain { client: node(client), hops }, it, "{peer} {lines:?}");
    }

    #[test]
    fn the_rightmost_that_is_not_ours() {
        let x = |peer: &str, lines: &[&str], client: &str, hops: &[&str]| {
            check(Believed::XForwardedFor, peer, lines, client, hops);
        };
        x("192.0.2.1", &["X-Forwarded-For: 1.1.1.1"], "192.0.2.1", &[]);
        x("10.0.0.1", &[], "10.0.0.1", &[]);
        x("10.0.0.1", &["X-Forwarded-For: 192.0.2.7"], "192.0.2.7", &["10.0.0.1"]);
        x("::ffff:10.0.0.1", &["X-Forwarded-For: ::ffff:192.0.2.7"], "192.0.2.7", &["10.0.0.1"]);
        x("10.0.0.1", &["X-Forwarded-For: 1.1.1.1, 192.0.2.7"], "192.0.2.7", &["10.0.0.1"]);
        x(
            "10.0.0.1",
            &["X-Forwarded-For: 127.0.0.1", "x-forwarded-for: 192.0.2.7, 10.0.0.2"],
            "192.0.2.7",
            &["10.0.0.2", "10.0.0.1"],
        );
        x("10.0.0.1", &["X-Forwarded-For: 10.0.0.3, 10.0.0.2"], "10.0.0.3", &["10.0.0.2", "10.0.0.1"]);
        x("10.0.0.1", &["X-Forwarded-For: 1.1.1.1, unknown"], "10.0.0.1", &[]);
        x("10.0.0.1", &["X-Forwarded-For: 1.1.1.1, evil, 10.0.0.2"], "10.0.0.2", &["10.0.0.1"]);
        x("10.0.0.1", &["X-Forwarded-For: , 192.0.2.7:4711 ,"], "192.0.2.7", &["10.0.0.1"]);
        x("10.0.0.1", &["X-Forwarded-For: [2001:db8::1]:80"], "2001:db8::1", &["10.0.0.1"]);
        x("::1", &["X-Forwarded-For: 2001:db8::1"], "2001:db8::1", &["::1"]);
        x("10.0.0.1", &["X-Forwarded-For: 192.0.2.7 1.1.1.1"], "10.0.0.1", &[]);
        x("10.0.0.1", &["X-Forwarded-For: 0192.0.2.7"], "10.0.0.1", &[]);
        x("10.0.0.1", &["Forwarded: for=1.1.1.1"], "10.0.0.1", &[]);
        x("unix", &["X-Forwarded-For: 1.1.1.1, 192.0.2.7, 10.0.0.2"], "192.0.2.7", &["10.0.0.2", "unix"]);
        x("unix", &["X-Forwarded-For: 192.0.2.7, unix"], "unix", &[]);
        x("unix", &[], "unix", &[]);
    }

    #[test]
    fn forwarded_is_read_by_its_grammar() {
        let f = |lines: &[&str], client: &str, hops: &[&str]| {
            check(Believed::Forwarded, "10.0.0.1", lines, client, hops);
        };
        f(&["Forwarded: for=192.0.2.7"], "192.0.2.7", &["10.0.0.1"]);
        f(
            &["Forwarded: For=\"[2001:db8::1]:4711\";proto=http, for=10.0.0.2;by=x"],
            "2001:db8::1",
            &["10.0.0.2", "10.0.0.1"],
        );
        f(&["Forwarded: for=1.1.1.1;host=\"a, for=2.2.2.2\""], "1.1.1.1", &["10.0.0.1"]);
        f(&["Forwarded: for=1.1.1.1, for=_hidden"], "10.0.0.1", &[]);
        f(&["Forwarded: for=1.1.1.1, proto=http"], "10.0.0.1", &[]);
        f(&["Forwarded: for=1.1.1.1;for=2.2.2.2"], "10.0.0.1", &[]);
        f(&["Forwarded: for=\"1.1.1.1, for=2.2.2.2"], "10.0.0.1", &[]);
        f(&["X-Forwarded-For: 1.1.1.1"], "10.0.0.1", &[]);
    }

    #[test]
    fn the_forwarded_field_lists_client_and_hops() {
        let hops = ["10.0.0.1", "unix"].map(node);
        let text = forwarded(node("2001:db8::1"), &hops, "h:8080", "https");
        assert_eq!("for=\"[2001:db8::1]\";host=\"h:8080\";proto=https, for=10.0.0.1, for=unknown", text);
        assert_eq!("for=unknown;proto=http", forwarded(None, &[], "", "http"));
    }

    proptest! {
        #[test]
        fn the_client_of_any_forwarded_field_is_an_address_in_it(text in "[0-9.:, \";=forx\\\\\\[\\]]{0,60}") {
            for believed in [Believed::XForwardedFor, Believed::Forwarded] {
                let name = if believed == Believed::Forwarded { "forwarded" } else { "x-forwarded-for" };
                let fields = [Field { name, value: text.as_bytes() }];
                let peer = node("10.0.0.1");
                let it = seen(believed, peer, &fields, &ours());
                prop_assert!(it.hops.iter().all(|it| ours().has(*it)) && it.client.is_some());
                prop_assert!(!it.hops.is_empty() || it.client == peer);
            }
        }
    }
}
