//! Connections and streams that stop being HTTP (RFC 9110 §7.8, RFC 8441): which upgrades are passed on, and the copying behind a 101. What a socket
//! is told is in `transport` and `origin`.

use crate::machine::Step;
use crate::request_headers;
use crate::run::Machine;
use crate::websocket::Challenge;
use larder_origin::{Exchange, OriginError};
use larder_semantics::field::{self, Field, FieldList};
use larder_stdx::clock;
use larder_transport::{ClientGone, Reply, Tunnel};
use larder_wire::message::{Framing, Request, ResponseHead, Version};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Which upgrades a route passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upgrades {
    /// `site.route.upgrade`: names of protocols, without a version.
    pub protocols: Vec<String>,
    /// `limits.upgrade_idle`: how long neither side may send anything.
    pub idle: Duration,
}

/// What a request asks for and its route passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpgradeRequest {
    /// With the version that was written behind it.
    pub protocol: Box<str>,
    /// What the application has to answer by, where the client asked over HTTP/2 and so has none of its own.
    pub challenge: Option<Challenge>,
}

impl UpgradeRequest {
    /// Adds what asks an application over HTTP/1.1.
    pub fn write(&self, fields: &mut FieldList) {
        fields.push("Upgrade", self.protocol.as_bytes());
        if let Some(challenge) = &self.challenge {
            fields.set("Sec-WebSocket-Key", challenge.key());
        }
    }
}

/// The protocol that a request asks for and the route passes on. Looked for before fields that `Connection` names are dropped:
/// this is one of them. Any other `Upgrade` is ignored, as RFC 9110 allows; it never reaches an origin. HTTP/2 over
/// clear text above all (`h2c`): RFC 9113 has it no more, and what follows it could not be looked at.
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

/// Whether a response to an extended CONNECT would be taken by its client for the other protocol's beginning, which it is not
/// (RFC 9110 §9.3.6): it says of a request that it was a success, not of an upgrade that it was agreed on.
pub(crate) fn is_mistakable(request: &Request, status: u16) -> bool {
    request.protocol.is_some() && (200..300).contains(&status)
}

/// The members of a list field.
fn members<'f>(fields: &'f [Field<'f>], name: &'f str) -> impl Iterator<Item = &'f [u8]> {
    field::all(fields, name).flat_map(|it| it.split(|it| *it == b',')).map(<[u8]>::trim_ascii)
}

/// Whether a 101 is what was asked for: the same protocol and no other, from somebody who read the question.
fn is_agreed(asked: &UpgradeRequest, response: &ResponseHead) -> bool {
    let fields = response.fields.view();
    let mut upgrade = members(&fields, "upgrade");
    upgrade.next().is_some_and(|it| it.eq_ignore_ascii_case(asked.protocol.as_bytes()))
        && upgrade.next().is_none()
        && members(&fields, "connection").any(|it| it.eq_ignore_ascii_case(b"upgrade"))
        && asked.challenge.as_ref().is_none_or(|it| it.is_met(&fields))
}

/// A connection that both ends have agreed to take out of HTTP.
pub(crate) struct Switched {
    pub exchange: Rc<Exchange>,
    pub protocol: Box<str>,
    pub fields: FieldList,
}

impl Switched {
    /// Of a 101 to a request that asked for this; `None` where it says something else.
    pub fn of(asked: &UpgradeRequest, exchange: &Rc<Exchange>, response: &ResponseHead) -> Option<Self> {
        if !is_agreed(asked, response) {
            return None;
        }
        let mut fields = request_headers::returned(&response.fields, response.version, false);
        if asked.challenge.is_some() {
            fields.remove("sec-websocket-accept"); // The question was ours (RFC 8441 §5.1).
        }
        Some(Self { exchange: exchange.clone(), protocol: asked.protocol.clone(), fields })
    }
}

/// Why the copying ended before both sides had.
enum TunnelError {
    Client,
    Origin,
    Idle,
}

impl From<ClientGone> for TunnelError {
    fn from(_: ClientGone) -> Self {
        TunnelError::Client
    }
}

impl From<OriginError> for TunnelError {
    fn from(_: OriginError) -> Self {
        TunnelError::Origin
    }
}

impl<'c> Machine<'_, 'c> {
    /// Copies until both sides have ended, one is gone, or nothing has moved for too long.
    pub async fn tunnel(&mut self, mut reply: Reply<'c>, switched: Switched) -> Step {
        self.summary.status = reply.agreement();
        let Switched { exchange, protocol, fields } = switched;
        let Ok(tunnel) = reply.switch(protocol.as_bytes(), &fields).await else { return Step::Finish };
        let counters = self.gateway.counters.clone();
        counters.upgrades.add(1);
        counters.upgrades_open.add(1);
        let bytes = Cell::new(0);
        let copied = copy(&tunnel, &exchange, self.route.upgrades.idle, &bytes).await;
        counters.upgrades_open.sub(1);
        self.summary.body = bytes.get();
        match copied {
            Ok(()) => {
                tunnel.close().await;
                self.summary.complete = true;
            }
            Err(TunnelError::Idle) => counters.upgrades_idle.add(1),
            Err(TunnelError::Client | TunnelError::Origin) => {}
        }
        Step::Finish
    }
}

/// Copies in both directions. Of each, one read at most waits to be written: who reads slowly is not read for.
/// `down` is told how many bytes went to the client.
async fn copy(
    tunnel: &Tunnel<'_>,
    exchange: &Exchange,
    idle: Duration,
    down: &Cell<u64>,
) -> Result<(), TunnelError> {
    let moved = Cell::new(clock::monotonic().0);
    let to_origin = async {
        while let Some(bytes) = tunnel.read().await? {
            moved.set(clock::monotonic().0);
            exchange.write(bytes).await?;
        }
        exchange.shut().await.map_err(TunnelError::from)
    };
    let to_client = async {
        while let Some(bytes) = exchange.next().await? {
            moved.set(clock::monotonic().0);
            down.set(down.get() + bytes.len() as u64);
            tunnel.write(bytes).await?;
        }
        tunnel.end();
        Ok(())
    };
    let both = async { tokio::try_join!(to_origin, to_client).map(|_| ()) };
    let silent = async {
        let limit = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        loop {
            let passed = clock::monotonic().0.saturating_sub(moved.get());
            if limit <= passed {
                return;
            }
            tokio::time::sleep(Duration::from_millis(limit - passed)).await;
        }
    };
    tokio::select! {
        biased;
        copied = both => copied,
        () = tunnel.gone() => Err(TunnelError::Client),
        () = silent => Err(TunnelError::Idle),
    }
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
    fn what_is_asked_for() {
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
