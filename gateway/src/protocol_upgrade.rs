//! Connections and streams that stop being HTTP (RFC 9110 §7.8, RFC 8441): which upgrades are passed on.
//! `request::tunnel` copies after a 101.

use crate::websocket::Challenge;
use larder_semantics::field::{self, Field, FieldList};
use larder_wire::message::{Framing, Request, ResponseHead, Version};
use std::time::Duration;

/// The upgrades that a route passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upgrades {
    /// `site.route.upgrade`: names of protocols, without a version.
    pub protocols: Vec<String>,
    /// `limits.upgrade_idle`: how long both sides may be silent.
    pub idle: Duration,
}

/// An upgrade that a request asks for and its route passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpgradeRequest {
    /// With the version that followed it.
    pub protocol: Box<str>,
    /// The challenge for the application, where the client asked over HTTP/2 and therefore has none.
    pub challenge: Option<Challenge>,
}

impl UpgradeRequest {
    /// Adds the fields that request it from an application over HTTP/1.1.
    pub fn write(&self, fields: &mut FieldList) {
        fields.push("Upgrade", self.protocol.as_bytes());
        if let Some(challenge) = &self.challenge {
            fields.set("Sec-WebSocket-Key", challenge.key());
        }
    }
}

/// The protocol that a request asks for and the route passes on. It is read before the fields that `Connection` names are
/// dropped, as this is one of them. Any other `Upgrade` is ignored, as RFC 9110 allows, and never reaches an origin. That
/// holds above all for HTTP/2 over clear text (`h2c`): RFC 9113 has removed it, and larder could not inspect what follows
/// it.
pub(crate) fn asked(upgrades: &Upgrades, request: &Request) -> Option<UpgradeRequest> {
    let is_passed =
        |name: &[u8]| upgrades.protocols.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(name));
    if let Some(protocol) = request.protocol.as_ref().filter(|it| is_passed(it.as_bytes())) {
        let challenge = protocol.eq_ignore_ascii_case("websocket").then(Challenge::new);
        return Some(UpgradeRequest { protocol: protocol.clone(), challenge });
    }
    if upgrades.protocols.is_empty()
        || request.version != Version::Http11
        || request.framing != Framing::Empty
        || request.method == "HEAD"
        || !request.fields.contains("upgrade")
    {
        return None;
    }
    let fields = request.fields.view();
    let connection = members(&fields, "connection").any(|it| it.eq_ignore_ascii_case(b"upgrade"));
    let protocol = members(&fields, "upgrade").filter(|_| connection).find(|it| {
        let name = it.split(|it| *it == b'/').next().unwrap_or_default();
        let is_plain = |it: &u8| it.is_ascii_alphanumeric() || b"-._/".contains(it);
        it.iter().all(is_plain) && is_passed(name)
    })?;
    let protocol = std::str::from_utf8(protocol).ok()?.into();
    Some(UpgradeRequest { protocol, challenge: None })
}

/// Whether the client of an extended CONNECT would take a response for the other protocol's beginning by mistake (RFC
/// 9110 §9.3.6): the response reports success of a request, not agreement to an upgrade.
pub(crate) fn is_mistakable(request: &Request, status: u16) -> bool {
    request.protocol.is_some() && (200..300).contains(&status)
}

/// The members of a list field.
fn members<'f>(fields: &'f [Field<'f>], name: &'f str) -> impl Iterator<Item = &'f [u8]> {
    field::all(fields, name).flat_map(|it| it.split(|it| *it == b',')).map(<[u8]>::trim_ascii)
}

/// Whether a 101 is the requested one: the same protocol and no other, from a server that has read the challenge.
pub(crate) fn is_agreed(asked: &UpgradeRequest, response: &ResponseHead) -> bool {
    let fields = response.fields.view();
    let mut upgrade = members(&fields, "upgrade");
    upgrade.next().is_some_and(|it| it.eq_ignore_ascii_case(asked.protocol.as_bytes()))
        && upgrade.next().is_none()
        && members(&fields, "connection").any(|it| it.eq_ignore_ascii_case(b"upgrade"))
        && asked.challenge.as_ref().is_none_or(|it| it.is_met(&fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::scheme::Scheme;

    fn request(lines: &[(&str, &str)]) -> Request {
        let mut fields = FieldList::new();
        for (name, value) in lines {
            fields.push(name, value);
        }
        Request {
            method: "GET".to_owned(),
            target: "/".to_owned(),
            authority: "h".to_owned(),
            scheme: Scheme::Http,
            version: Version::Http11,
            protocol: None,
            fields,
            framing: Framing::Empty,
            expects_continue: false,
        }
    }

    #[track_caller]
    fn check(connection: &str, upgrade: &str, expect: Option<&str>) {
        let upgrades =
            Upgrades { protocols: vec!["websocket".to_owned(), "x".to_owned()], ..Upgrades::default() };
        let request = request(&[("Connection", connection), ("Upgrade", upgrade)]);
        assert_eq!(
            expect,
            asked(&upgrades, &request).as_ref().map(|it| &*it.protocol),
            "{connection} {upgrade}"
        );
        assert_eq!(None, asked(&Upgrades::default(), &request));
    }

    #[test]
    fn the_protocol_of_an_upgrade_is_chosen() {
        check("Upgrade", "websocket", Some("websocket"));
        check("keep-alive, UPGRADE", "WebSocket", Some("WebSocket"));
        check("upgrade", "h2c, x/1.1", Some("x/1.1"));
        check("keep-alive", "websocket", None);
        check("upgrade", "h2c", None);
        check("upgrade", "websocket\u{b}", None);
        check("upgrade", "", None);
        let upgrades = Upgrades { protocols: vec!["websocket".to_owned()], ..Upgrades::default() };
        let lines = [("Connection", "upgrade"), ("Upgrade", "websocket")];
        let old = Request { version: Version::Http10, ..request(&lines) };
        assert_eq!(None, asked(&upgrades, &old));
        let over_http2 = |protocol: &str| Request {
            version: Version::Http2,
            protocol: Some(protocol.into()),
            ..request(&[("Sec-WebSocket-Key", "theirs")])
        };
        let found = asked(&upgrades, &over_http2("websocket")).unwrap();
        let mut fields = over_http2("websocket").fields;
        found.write(&mut fields);
        let key = fields.get("sec-websocket-key").unwrap();
        assert!(key.len() == 24 && fields.get_all("sec-websocket-key").count() == 1);
        assert_eq!(None, asked(&upgrades, &over_http2("connect-udp")));
        let long = Request { framing: Framing::Length(1), ..request(&lines) };
        assert_eq!(None, asked(&upgrades, &long));
    }
}
