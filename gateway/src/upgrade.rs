//! Connections that stop being HTTP (RFC 9110 §7.8): which upgrades are passed on, and the copying behind a 101. What a socket
//! is told is in `transport` and `origin`.

use crate::forward;
use crate::machine::Step;
use crate::run::Machine;
use larder_origin::{Exchange, OriginError};
use larder_semantics::field::{self, Field, FieldList};
use larder_stdx::clock;
use larder_transport::{ClientGone, Reply, Tunnel};
use larder_wire::http1::request::Request;
use larder_wire::http1::response::Response;
use larder_wire::http1::{Framing, Version};
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

/// The protocol that a request asks for and the route passes on. Looked for before fields that `Connection` names are dropped:
/// this is one of them. Any other `Upgrade` is ignored, as RFC 9110 allows; it never reaches an origin. HTTP/2 over
/// clear text above all (`h2c`): RFC 9113 has it no more, and what follows it could not be looked at.
pub(crate) fn asked(upgrades: &Upgrades, request: &Request) -> Option<Box<str>> {
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
        it.iter().all(is_plain)
            && upgrades.protocols.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(name))
    })?;
    std::str::from_utf8(protocol).ok().map(Into::into)
}

/// The members of a list field.
fn members<'f>(fields: &'f [Field<'f>], name: &'f str) -> impl Iterator<Item = &'f [u8]> {
    field::all(fields, name).flat_map(|it| it.split(|it| *it == b',')).map(<[u8]>::trim_ascii)
}

/// Whether a 101 is what was asked for: the same protocol and no other.
fn is_agreed(protocol: &str, response: &Response) -> bool {
    let fields = response.fields.view();
    let mut upgrade = members(&fields, "upgrade");
    upgrade.next().is_some_and(|it| it.eq_ignore_ascii_case(protocol.as_bytes()))
        && upgrade.next().is_none()
        && members(&fields, "connection").any(|it| it.eq_ignore_ascii_case(b"upgrade"))
}

/// A connection that both ends have agreed to take out of HTTP.
pub(crate) struct Switched {
    pub exchange: Rc<Exchange>,
    pub protocol: Box<str>,
    pub fields: FieldList,
}

impl Switched {
    /// Of a 101 to a request that asked for `protocol`; `None` where that says something else.
    pub fn of(protocol: &str, exchange: &Rc<Exchange>, response: &Response) -> Option<Self> {
        let fields = || forward::returned(&response.fields, response.version, false);
        is_agreed(protocol, response).then(|| Self {
            exchange: exchange.clone(),
            protocol: protocol.into(),
            fields: fields(),
        })
    }
}

/// Why the copying ended before both sides had.
enum Broken {
    Client,
    Origin,
    Idle,
}

impl From<ClientGone> for Broken {
    fn from(_: ClientGone) -> Self {
        Broken::Client
    }
}

impl From<OriginError> for Broken {
    fn from(_: OriginError) -> Self {
        Broken::Origin
    }
}

impl<'c> Machine<'_, 'c> {
    /// Copies until both sides have ended, one is gone, or nothing has moved for too long.
    pub async fn tunnel(&mut self, mut reply: Reply<'c>, switched: Switched) -> Step {
        self.summary.status = 101;
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
                tunnel.close();
                self.summary.complete = true;
            }
            Err(Broken::Idle) => counters.upgrades_idle.add(1),
            Err(Broken::Client | Broken::Origin) => {}
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
) -> Result<(), Broken> {
    let moved = Cell::new(clock::monotonic().0);
    let to_origin = async {
        while let Some(bytes) = tunnel.read().await? {
            moved.set(clock::monotonic().0);
            exchange.write(bytes).await?;
        }
        exchange.shut().await.map_err(Broken::from)
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
        () = silent => Err(Broken::Idle),
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
        assert_eq!(expect, asked(&upgrades, &request).as_deref(), "{connection} {upgrade}");
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
        let long = Request { framing: Framing::Length(1), ..request(&lines) };
        assert_eq!(None, asked(&upgrades, &long));
    }
}
