//! Copying after a 101, on a connection or stream that has stopped being HTTP. `transport` and `origin` set up the
//! sockets.

use super::Machine;
use super::machine::Step;
use crate::fill::ArrivedHead;
use crate::protocol_upgrade::{self, UpgradeRequest};
use crate::request_headers;
use crate::source::ResponseSource;
use larder_origin::{Exchange, OriginError};
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::{ClientGone, Reply, Tunnel};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// A connection that both ends have agreed to take out of HTTP.
pub(crate) struct Switched {
    pub exchange: Rc<Exchange>,
    pub protocol: Box<str>,
    pub fields: FieldList,
}

impl Switched {
    /// From a 101 to a request with this upgrade; `None` where it differs.
    pub fn of(asked: &UpgradeRequest, arrived: &ArrivedHead) -> Option<Self> {
        let response = &arrived.response;
        let ResponseSource::Origin(exchange, _) = &arrived.source else { return None };
        if !protocol_upgrade::is_agreed(asked, response) {
            return None;
        }
        let mut fields = request_headers::returned(response.fields.clone(), response.version, false);
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
        self.response.summary.status = reply.agreement();
        let Switched { exchange, protocol, fields } = switched;
        let Ok(tunnel) = reply.switch(protocol.as_bytes(), &fields).await else { return Step::Finish };
        let counters = self.input.gateway.counters.clone();
        counters.upgrades.add(1);
        counters.upgrades_open.add(1);
        let bytes = Cell::new(0);
        let copied = copy(&tunnel, &exchange, self.input.route.upgrades.idle, &bytes).await;
        counters.upgrades_open.sub(1);
        self.response.summary.body = bytes.get();
        match copied {
            Ok(()) => {
                tunnel.close().await;
                self.response.summary.complete = true;
            }
            Err(TunnelError::Idle) => counters.upgrades_idle.add(1),
            Err(TunnelError::Client | TunnelError::Origin) => {}
        }
        Step::Finish
    }
}

/// Copies in both directions. In each, at most one read waits to be written: a slow reader stops the reading. `down`
/// counts the bytes that went to the client.
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
