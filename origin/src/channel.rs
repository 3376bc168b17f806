//! What an exchange goes over: a connection of its own, or a stream of one that it shares; an unused one, or one that is opened for it.
//! Who may have one, and what becomes of it afterwards, is in `pool`.

use crate::connection::OriginConnection;
use crate::deadline::{after, now};
use crate::dial::OriginSocket;
use crate::http2::{ChannelNeeds, H2Stream, Http2, Http2Session};
use crate::pool::OriginSecurity;
use crate::request::Persistence;
use crate::tls::Offers;
use crate::{OriginError, OriginPool};
use larder_stdx::descriptors;
use larder_wire::message::Version;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How long a request waits before it looks again whether somebody has let go of a descriptor,
const FOR_A_DESCRIPTOR: Duration = Duration::from_millis(20);
/// and how long in all: it is no worse off than those who wait to be let in.
const FOR_DESCRIPTORS: Duration = Duration::from_secs(30);

/// What an exchange goes over.
pub(crate) enum Channel {
    /// HTTP/1.1.
    Alone(OriginConnection),
    /// HTTP/2.
    Shared(Box<H2Stream>),
}

/// The protocol that a new connection speaks.
enum OriginProtocol {
    Http1(OriginSocket),
    Http2(OriginSocket),
}

impl OriginPool {
    /// An unused connection or a stream of one that has room, or a new one. Where this process has no descriptor left, whichever
    /// comes first.
    pub(crate) async fn way(
        &self,
        needs: ChannelNeeds,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<Channel, OriginError> {
        loop {
            if let Some(way) = self.unused(needs) {
                return Ok(way);
            }
            if !self.opens_for_many(needs) {
                return self.open(needs, deadline, || self.unused(needs)).await;
            }
            match self.sessions.opening() {
                Some(_one) => return self.open(needs, deadline, || self.unused(needs)).await,
                None => timeout_at(self.connect_by(deadline), self.sessions.opened())
                    .await
                    .map_err(|_| OriginError::ConnectTimeout)?,
            }
        }
    }

    /// The same, after a connection was not there any more: one that was unused as long may not be there either.
    pub(crate) async fn fresh_way(&self, needs: ChannelNeeds) -> Result<Channel, OriginError> {
        let deadline = Cell::new(None);
        match self.opens_for_many(needs) {
            true => self.way(needs, &deadline).await,
            false => self.open(needs, &deadline, || None).await,
        }
    }

    fn shares(&self, needs: ChannelNeeds) -> bool {
        match self.http2 {
            Http2::Never => false,
            Http2::Offered => needs == ChannelNeeds::Any,
            Http2::Known => true,
        }
    }

    /// Whether a connection that is opened now has room for others, as far as that is known.
    fn opens_for_many(&self, needs: ChannelNeeds) -> bool {
        let speaks_it = self.http2 == Http2::Known || self.sessions.is_chosen();
        self.shares(needs) && speaks_it && self.persistence() == Persistence::Keep
    }

    fn unused(&self, needs: ChannelNeeds) -> Option<Channel> {
        if self.shares(needs)
            && let Some(strand) = self.sessions.strand()
        {
            self.counters.origin_reuses.add(1);
            return Some(Channel::Shared(Box::new(strand)));
        }
        self.reuse().map(Channel::Alone)
    }

    /// A new connection; or, where there is no descriptor for it, what `other` has first.
    async fn open(
        &self,
        needs: ChannelNeeds,
        deadline: &Cell<Option<Instant>>,
        other: impl Fn() -> Option<Channel>,
    ) -> Result<Channel, OriginError> {
        let mut until = None;
        loop {
            match self.connect(needs, self.connect_by(deadline)).await {
                Err(OriginError::NoDescriptor) => {}
                connected => return connected,
            }
            descriptors::miss();
            let until = *until.get_or_insert_with(|| {
                self.counters.origin_descriptor_waits.add(1);
                after(now(), FOR_DESCRIPTORS)
            });
            if now() >= until {
                return Err(OriginError::NoDescriptor);
            }
            sleep(FOR_A_DESCRIPTOR).await;
            if let Some(way) = other() {
                return Ok(way);
            }
            deadline.set(Some(after(now(), self.limits.connect))); // That was none of the origin's doing.
        }
    }

    /// Connects before `deadline`.
    async fn connect(&self, needs: ChannelNeeds, deadline: Instant) -> Result<Channel, OriginError> {
        let connected = match self.stream(needs, deadline).await {
            Ok(stream) => {
                self.counters.origin_connects.add(1);
                self.begin_speaking(stream).await
            }
            Err(error) => Err(error),
        };
        connected.inspect_err(|error| match error {
            OriginError::NoDescriptor => {}
            error => {
                self.counters.origin_connect_failures.add(1);
                if error == &OriginError::ConnectTimeout {
                    self.counters.origin_timeouts.add(1);
                }
            }
        })
    }

    async fn begin_speaking(&self, spoken: OriginProtocol) -> Result<Channel, OriginError> {
        let stream = match spoken {
            OriginProtocol::Http1(stream) => {
                self.standing.speaks(Version::Http11);
                return Ok(Channel::Alone(OriginConnection::new(stream)));
            }
            OriginProtocol::Http2(stream) => stream,
        };
        let keeps = self.persistence() == Persistence::Keep;
        let session = Http2Session::begin(stream, &self.limits, keeps, &self.counters).await?;
        self.standing.speaks(Version::Http2);
        let strand = self.sessions.add(session).ok_or(OriginError::Disconnected)?;
        Ok(Channel::Shared(Box::new(strand)))
    }

    async fn stream(&self, needs: ChannelNeeds, deadline: Instant) -> Result<OriginProtocol, OriginError> {
        let socket = self.dialer.dial(deadline).await?;
        let Some(OriginSecurity { tls, name }) = &self.tls else {
            let stream = OriginSocket::Plain(socket);
            return Ok(if self.shares(needs) {
                OriginProtocol::Http2(stream)
            } else {
                OriginProtocol::Http1(stream)
            });
        };
        let offers = if self.shares(needs) { Offers::Both } else { Offers::Http1 };
        let until = after(now(), self.limits.handshake);
        match timeout_at(until, tls.shake_hands(name, offers, socket)).await {
            Ok(Ok(stream)) => {
                self.counters.origin_tls_handshakes.add(1);
                let chosen = stream.speaks_http2();
                let stream = OriginSocket::Tls(Box::new(stream));
                if chosen {
                    return Ok(OriginProtocol::Http2(stream));
                }
                if offers == Offers::Both {
                    self.sessions.was_not_chosen();
                }
                Ok(OriginProtocol::Http1(stream))
            }
            Ok(Err(why)) => {
                self.counters.origin_tls_failures.add(1);
                Err(OriginError::Tls(why))
            }
            Err(_) => Err(OriginError::ConnectTimeout),
        }
    }
}
