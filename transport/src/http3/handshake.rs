//! New connections: the settings of their handshakes, and its result.

use super::connection::Http3Connection;
use super::port::QuicPort;
use crate::client::Client;
use crate::tls::{
    AgreedRules, AlpnProtocol, ClientAuth, EarlyPromises, NoTickets, Secured, ServerTls, certificates,
};
use crate::worker::ClientLimits;
use larder_semantics::scheme::Scheme;
use larder_wire::http3::ALPN;
use larder_wire::http3::Http3Error;
use quinn_proto::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::CertificateDer;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that all streams of a connection may send before they are read, and those of one stream.
const WINDOW: u32 = 1024 * 1024;
const STREAM_WINDOW: u32 = 128 * 1024;
/// Bytes of all streams that a client has not acknowledged.
const SEND_WINDOW: u64 = 512 * 1024;
/// Unidirectional streams of a client: three have a purpose.
const UNI_STREAMS: u32 = 16;
/// The shortest time without a packet, after which a connection is lost.
const LEAST_IDLE: Duration = Duration::from_secs(10);

/// The settings of handshakes, made again when the certificates or the limits change.
pub(super) struct QuicSettings {
    made_of: Arc<rustls::ServerConfig>,
    promises: EarlyPromises,
    idle: Duration,
    pub config: Arc<ServerConfig>,
    pub rules: Arc<AgreedRules>,
}

impl QuicSettings {
    /// Those in force; `before` if they are the same.
    pub fn of(
        before: Option<Rc<Self>>,
        tls: &ServerTls,
        limits: &ClientLimits,
        port: &QuicPort,
    ) -> Option<Rc<Self>> {
        let (rules, made_of) = tls.configs().first();
        let (promises, idle) = (promises(limits), limits.idle_timeout);
        let is_same =
            |it: &Rc<Self>| Arc::ptr_eq(&it.made_of, &made_of) && it.promises == promises && it.idle == idle;
        if let Some(before) = before.filter(is_same) {
            return Some(before);
        }
        let mut own = (*made_of).clone();
        own.alpn_protocols = vec![ALPN.to_vec()];
        // With a policy for client certificates a session stands for one of them.
        match tls.configs().early_data() && rules.client == ClientAuth::Off {
            false => own.max_early_data_size = 0,
            true => {
                // QUIC knows no other limit (RFC 9001 §4.6.1). rustls permits early data for stored sessions alone: each is used
                // once, so that a replay is refused.
                own.max_early_data_size = u32::MAX;
                own.ticketer = Arc::new(NoTickets);
                own.session_storage = tls.early_sessions(promises);
            }
        }
        let crypto = QuicServerConfig::try_from(Arc::new(own)).ok()?;
        let mut config = ServerConfig::new(Arc::new(crypto), Arc::new(port.token_key()));
        config.transport_config(Arc::new(transport(promises.streams, idle)));
        config.max_incoming(256).incoming_buffer_size(64 * 1024).incoming_buffer_size_total(1024 * 1024);
        let config = Arc::new(config);
        Some(Rc::new(Self { made_of, promises, idle, config, rules }))
    }
}

/// The promises that connections with these limits make to the next ones of their clients.
fn promises(limits: &ClientLimits) -> EarlyPromises {
    let ClientLimits { http2_streams, head_size, upgrades, .. } = *limits;
    EarlyPromises { streams: http2_streams, head_size, upgrades }
}

fn transport(streams: u32, idle: Duration) -> TransportConfig {
    let mut it = TransportConfig::default();
    it.max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
        .receive_window(VarInt::from_u32(WINDOW))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(IdleTimeout::try_from(idle.max(LEAST_IDLE)).ok());
    it
}

impl Http3Connection {
    /// The handshake has succeeded.
    pub fn connected(&self, now: Instant) -> Result<(), Http3Error> {
        self.end_handshake();
        let counters = &self.worker.counters;
        counters.tls_handshakes.add(1);
        counters.tls_13.add(1);
        counters.http3_connections.add(1);
        counters.http3_open.add(1);
        let names = self.hello_names.take();
        if !names.known {
            counters.tls_unknown_names.add(1);
        }
        self.client.replace(Some(self.described()));
        self.state.borrow_mut().last_change = now;
        self.open_control()
    }

    /// The client by its handshake. Before the end of that it has resumed a session, and its address is not proven.
    pub fn described(&self) -> Client {
        let (peer, local, name, certificates) = {
            let quic = self.quic.borrow();
            let session = quic.crypto_session();
            let data = session.handshake_data().and_then(|it| it.downcast::<HandshakeData>().ok());
            let shown = session.peer_identity();
            let shown = shown.and_then(|it| it.downcast::<Vec<CertificateDer<'static>>>().ok());
            let name = data.and_then(|it| it.server_name).unwrap_or_default();
            (quic.remote_address(), quic.local_ip(), name, shown)
        };
        let shown = certificates.as_deref().and_then(|it| it.first());
        let secured = Secured {
            version: "TLSv1.3",
            cipher: self.cipher.get(),
            name: name.to_ascii_lowercase().into(),
            protocol: AlpnProtocol::Http3,
            client: shown.and_then(certificates::subject).unwrap_or_default(),
            certificate: shown.map(|it| it.as_ref().into()),
            rules: self.rules.clone(),
        };
        let waker = &self.endpoint_waker;
        let local = local.map(|it| (it.to_canonical(), waker.at.port()).into()).or(Some(waker.at));
        let peer = Some(crate::listener::family::plain(peer));
        Client {
            peer,
            hops: Vec::new(),
            local,
            listener: waker.name.clone(),
            scheme: Scheme::Https,
            tls: Some(Rc::new(secured)),
            began: Cell::default(),
            is_own: false,
            alternative: None,
        }
    }

    /// The connection was lost, or the client closed it.
    pub fn lost(&self, reason: &quinn_proto::ConnectionError) {
        use quinn_proto::ConnectionError as Lost;
        let counters = &self.worker.counters;
        if self.client.borrow().is_none() {
            match reason {
                Lost::TransportError(_) => counters.tls_failed_malformed.add(1),
                Lost::ConnectionClosed(_) => counters.tls_failed_refused.add(1),
                Lost::TimedOut => counters.tls_failed_timeout.add(1),
                _ => counters.tls_failed_cut.add(1),
            }
        } else {
            match reason {
                Lost::TransportError(_) => counters.http3_errors.add(1),
                Lost::TimedOut => counters.client_idle_timeouts.add(1),
                _ => {}
            }
        }
        self.ended();
    }
}
