//! What an exchange goes over: a connection of its own, or a stream of one that it shares; an unused one, or one that is opened for it.
//! Who may have one, and what becomes of it afterwards, is in `pool`.

use crate::connection::Connection;
use crate::deadline::{after, now};
use crate::dial::Stream;
use crate::http2::{Http2, Needs, Session, Strand};
use crate::pool::Speaks;
use crate::request::Persistence;
use crate::tls::Offers;
use crate::{Origin, OriginError};
use larder_stdx::descriptors;
use larder_wire::http1::Version;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How long a request waits before it looks again whether somebody has let go of a descriptor,
const FOR_A_DESCRIPTOR: Duration = Duration::from_millis(20);
/// and how long in all: it is no worse off than those who wait to be let in.
const FOR_DESCRIPTORS: Duration = Duration::from_secs(30);

/// What an exchange goes over.
pub(crate) enum Way {
    /// HTTP/1.1.
    Alone(Connection),
    /// HTTP/2.
    Shared(Box<Strand>),
}

/// The protocol that a new connection speaks.
enum Spoken {
    Http1(Stream),
    Http2(Stream),
}

impl Origin {
    /// An unused connection or a stream of one that has room, or a new one. Where this process has no descriptor left, whichever
    /// comes first.
    pub(crate) async fn way(
        &self,
        needs: Needs,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<Way, OriginError> {
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
    pub(crate) async fn fresh_way(&self, needs: Needs) -> Result<Way, OriginError> {
        let deadline = Cell::new(None);
        match self.opens_for_many(needs) {
            true => self.way(needs, &deadline).await,
            false => self.open(needs, &deadline, || None).await,
        }
    }

    fn shares(&self, needs: Needs) -> bool {
        match self.http2 {
            Http2::Never => false,
            Http2::Offered => needs == Needs::Any,
            Http2::Known => true,
        }
    }

    /// Whether a connection that is opened now has room for others, as far as that is known.
    fn opens_for_many(&self, needs: Needs) -> bool {
        let speaks_it = self.http2 == Http2::Known || self.sessions.is_chosen();
        self.shares(needs) && speaks_it && self.persistence() == Persistence::Keep
    }

    fn unused(&self, needs: Needs) -> Option<Way> {
        if self.shares(needs)
            && let Some(strand) = self.sessions.strand()
        {
            self.counters.origin_reuses.add(1);
            return Some(Way::Shared(Box::new(strand)));
        }
        self.reuse().map(Way::Alone)
    }

    /// A new connection; or, where there is no descriptor for it, what `other` has first.
    async fn open(
        &self,
        needs: Needs,
        deadline: &Cell<Option<Instant>>,
        other: impl Fn() -> Option<Way>,
    ) -> Result<Way, OriginError> {
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
    async fn connect(&self, needs: Needs, deadline: Instant) -> Result<Way, OriginError> {
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

    async fn begin_speaking(&self, spoken: Spoken) -> Result<Way, OriginError> {
        let stream = match spoken {
            Spoken::Http1(stream) => {
                self.standing.speaks(Version::Http11);
                return Ok(Way::Alone(Connection::new(stream)));
            }
            Spoken::Http2(stream) => stream,
        };
        let keeps = self.persistence() == Persistence::Keep;
        let session = Session::begin(stream, &self.limits, keeps, &self.counters).await?;
        self.standing.speaks(Version::Http2);
        let strand = self.sessions.add(session).ok_or(OriginError::Disconnected)?;
        Ok(Way::Shared(Box::new(strand)))
    }

    async fn stream(&self, needs: Needs, deadline: Instant) -> Result<Spoken, OriginError> {
        let socket = self.dialer.dial(deadline).await?;
        let Some(Speaks { tls, name }) = &self.tls else {
            let stream = Stream::Plain(socket);
            return Ok(if self.shares(needs) { Spoken::Http2(stream) } else { Spoken::Http1(stream) });
        };
        let offers = if self.shares(needs) { Offers::Both } else { Offers::Http1 };
        let until = after(now(), self.limits.handshake);
        match timeout_at(until, tls.shake_hands(name, offers, socket)).await {
            Ok(Ok(stream)) => {
                self.counters.origin_tls_handshakes.add(1);
                let chosen = stream.speaks_http2();
                let stream = Stream::Tls(Box::new(stream));
                if chosen {
                    return Ok(Spoken::Http2(stream));
                }
                if offers == Offers::Both {
                    self.sessions.was_not_chosen();
                }
                Ok(Spoken::Http1(stream))
            }
            Ok(Err(why)) => {
                self.counters.origin_tls_failures.add(1);
                Err(OriginError::Tls(why))
            }
            Err(_) => Err(OriginError::ConnectTimeout),
        }
    }
}
