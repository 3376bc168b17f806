//! A connection for an exchange: an unused one, a stream of a shared one, or a new one.

use super::{OriginPool, OriginSecurity};
use crate::address::OriginAddress;
use crate::codec::Codec;
use crate::connection::{OriginConnection, OriginSocket, Persistence};
use crate::deadline::{after, now};
use crate::error::OriginError;
use crate::http2::Http2Session;
use crate::program::ProgramExchange;
use crate::program_settings::ProgramSettings;
use crate::protocol::{ChannelNeeds, ChannelRequest, Protocol};
use crate::socket::RawSocket;
use crate::stalled_exchanges::SEARCH_INTERVAL;
use crate::tls::AlpnOffer;
use larder_stdx::descriptors;
use larder_wire::message::Version;
use larder_wire::proxy::{self, ConnectionEnds};
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout_at};

/// How long a request waits before it checks again for a free descriptor.
const DESCRIPTOR_RETRY: Duration = Duration::from_millis(20);
/// How long a request waits for a descriptor in total: as long as clients wait to be accepted.
const DESCRIPTOR_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that was opened, and whether it can be shared.
enum OpenedSocket {
    Exclusive(OriginSocket),
    Multiplexed(OriginSocket),
}

impl OriginPool {
    /// Opens a connection, with TLS if the origin has it, and closes it: no request is sent. Whether the origin can be reached,
    /// without the statistics and ejections of requests.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn check_connect(&self) -> Result<(), OriginError> {
        let needs = ChannelRequest { needs: ChannelNeeds::Any, client: None };
        self.socket(needs, after(now(), self.limits.connect)).await.map(drop)
    }

    /// An unused connection, a stream of one with room, or a new one. Where this process has no descriptor left, the
    /// first of these that becomes available.
    pub(crate) async fn channel(
        &self,
        needs: ChannelRequest,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<Codec, OriginError> {
        loop {
            if let Some(channel) = self.idle_channel(needs) {
                return Ok(channel);
            }
            if !self.opens_multiplexed(needs) {
                return self.open(needs, deadline, || self.idle_channel(needs)).await;
            }
            match self.sessions.opening() {
                Some(_one) => return self.open(needs, deadline, || self.idle_channel(needs)).await,
                None => timeout_at(self.connect_deadline(deadline), self.sessions.opened())
                    .await
                    .map_err(|_| OriginError::ConnectTimeout)?,
            }
        }
    }

    /// The same after a connection had ended: one that was unused as long may have ended, too.
    pub(crate) async fn fresh_channel(&self, needs: ChannelRequest) -> Result<Codec, OriginError> {
        let deadline = Cell::new(None);
        match self.opens_multiplexed(needs) {
            true => self.channel(needs, &deadline).await,
            false => self.open(needs, &deadline, || None).await,
        }
    }

    /// Whether a new connection has room for several requests, as far as known.
    fn opens_multiplexed(&self, needs: ChannelRequest) -> bool {
        let speaks_it = self.protocol == Protocol::Http2 || self.sessions.is_chosen();
        self.protocol.multiplexes(needs.needs) && speaks_it && self.persistence() == Persistence::Keep
    }

    fn idle_channel(&self, needs: ChannelRequest) -> Option<Codec> {
        if self.protocol.multiplexes(needs.needs)
            && let Some(stream) = self.sessions.stream()
        {
            self.counters.origin_reuses.add(1);
            return Some(Codec::Http2(Box::new(stream)));
        }
        self.reuse(self.proxy_header_client(needs)).map(|it| self.protocol.exclusive(it))
    }

    /// A new connection; without a descriptor for it, the first result of `other`.
    async fn open(
        &self,
        needs: ChannelRequest,
        deadline: &Cell<Option<Instant>>,
        other: impl Fn() -> Option<Codec>,
    ) -> Result<Codec, OriginError> {
        let mut until = None;
        loop {
            match self.connect(needs, self.connect_deadline(deadline)).await {
                Err(OriginError::NoDescriptor) => {}
                connected => return connected,
            }
            descriptors::record_shortage();
            let until = *until.get_or_insert_with(|| {
                self.counters.origin_descriptor_waits.add(1);
                after(now(), DESCRIPTOR_TIMEOUT)
            });
            if now() >= until {
                return Err(OriginError::NoDescriptor);
            }
            sleep(DESCRIPTOR_RETRY).await;
            if let Some(channel) = other() {
                return Ok(channel);
            }
            deadline.set(Some(after(now(), self.limits.connect))); // That was none of the origin's doing.
        }
    }

    /// Connects before `deadline`.
    async fn connect(&self, needs: ChannelRequest, deadline: Instant) -> Result<Codec, OriginError> {
        if let OriginAddress::Programs(programs) = &self.address {
            return self.program(programs, deadline).await;
        }
        let connected = match self.socket(needs, deadline).await {
            Ok(stream) => {
                self.counters.origin_connects.add(1);
                self.codec_for(stream, self.proxy_header_client(needs)).await
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

    /// The right to start a program, in place of a connection.
    async fn program(
        &self,
        settings: &Arc<ProgramSettings>,
        deadline: Instant,
    ) -> Result<Codec, OriginError> {
        let slots = &self.outlier_state.processes;
        let mut taking = pin!(slots.take(settings.processes));
        let slot = loop {
            match timeout_at(deadline.min(after(now(), SEARCH_INTERVAL)), taking.as_mut()).await {
                Ok(slot) => break slot,
                Err(_) if now() >= deadline => return Err(self.busy_error()),
                Err(_) => slots.announce(),
            }
        };
        self.counters.origin_connects.add(1);
        let (settings, shared) = (settings.clone(), self.shared.clone());
        Ok(Codec::Program(Box::new(ProgramExchange::new(settings, slot, shared, self.limits.total))))
    }

    /// The client whose requests a connection for `needs` carries, for origins with a PROXY header.
    fn proxy_header_client(&self, needs: ChannelRequest) -> Option<ConnectionEnds> {
        needs.client.filter(|_| self.preamble.is_some())
    }

    /// Sends the PROXY header, before any other byte.
    async fn send_proxy_header(
        &self,
        socket: &mut RawSocket,
        needs: ChannelRequest,
        deadline: Instant,
    ) -> Result<(), OriginError> {
        let Some(version) = self.preamble else { return Ok(()) };
        let mut header = Vec::new();
        proxy::write(version, needs.client, &mut header);
        match timeout_at(deadline, socket.write_all(&header)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(OriginError::Connect(
                "it ended the connection before the PROXY header was sent".to_owned(),
            )),
            Err(_) => Err(OriginError::ConnectTimeout),
        }
    }

    async fn codec_for(
        &self,
        opened: OpenedSocket,
        client: Option<ConnectionEnds>,
    ) -> Result<Codec, OriginError> {
        let socket = match opened {
            OpenedSocket::Exclusive(socket) => {
                self.outlier_state.speaks(Version::Http11);
                let connection = OriginConnection::new(socket, self.shared.clone()).of(client);
                return Ok(self.protocol.exclusive(Box::new(connection)));
            }
            OpenedSocket::Multiplexed(socket) => socket,
        };
        let is_persistent = self.persistence() == Persistence::Keep;
        let session = Http2Session::connect(socket, &self.limits, is_persistent, &self.counters).await?;
        self.outlier_state.speaks(Version::Http2);
        let stream = self.sessions.add(session).ok_or(OriginError::Disconnected)?;
        Ok(Codec::Http2(Box::new(stream)))
    }

    async fn socket(&self, needs: ChannelRequest, deadline: Instant) -> Result<OpenedSocket, OriginError> {
        let multiplexes = self.protocol.multiplexes(needs.needs);
        let mut socket = self.dialer.dial(deadline).await?;
        self.send_proxy_header(&mut socket, needs, deadline).await?;
        let Some(OriginSecurity { tls, name }) = &self.tls else {
            let socket = OriginSocket::Plain(socket);
            return Ok(if multiplexes {
                OpenedSocket::Multiplexed(socket)
            } else {
                OpenedSocket::Exclusive(socket)
            });
        };
        let offers = if multiplexes { AlpnOffer::Both } else { AlpnOffer::Http1 };
        let until = after(now(), self.limits.handshake);
        match timeout_at(until, tls.shake_hands(name, offers, socket)).await {
            Ok(Ok(stream)) => {
                self.counters.origin_tls_handshakes.add(1);
                let chosen = stream.speaks_http2();
                let stream = OriginSocket::Tls(Box::new(stream));
                if chosen {
                    return Ok(OpenedSocket::Multiplexed(stream));
                }
                if offers == AlpnOffer::Both {
                    self.sessions.was_not_chosen();
                }
                Ok(OpenedSocket::Exclusive(stream))
            }
            Ok(Err(why)) => {
                self.counters.origin_tls_failures.add(1);
                Err(OriginError::Tls(why))
            }
            Err(_) => Err(OriginError::ConnectTimeout),
        }
    }
}
