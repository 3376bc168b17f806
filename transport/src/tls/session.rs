//! The TLS session of one connection: sealed bytes in and plain ones out, and the other way. The socket is in
//! `client_socket`. An idle connection holds keys and no buffers.

use super::certificates::{self, HelloNames};
use super::hello::HEADER;
use super::{AgreedRules, AlpnProtocol, AwaitedHello, Secured, ServerTls, hello, name_of};
use crate::outbox::{Outbox, SHIFTED, SendProgress, TURN, shifted};
use larder_counters::Counters;
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus, WriteTraffic};
use rustls::{CertificateError, CipherSuite, Error, HandshakeKind, PeerIncompatible};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The most sealed bytes that are read at once. A handshake message may have 64 KiB, and waits here until it is complete.
pub(crate) const INCOMING: usize = 96 * 1024;
/// Plain bytes that are sealed before they are sent: the additional cost of a client that does not read.
const SEAL: usize = 64 * 1024;
/// The largest sealed size of these, with pending handshake messages.
const SEALED: usize = SEAL + 16 * 1024;
/// Bytes in one record (RFC 8446 §5.1).
const RECORD: usize = 16 * 1024;
/// The most bytes that sealing adds to a record.
const OVERHEAD: usize = 64;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeStage {
    /// The handshake needs more bytes.
    Handshaking,
    /// Bytes pass in both directions.
    Open,
    /// The client has announced its end.
    Over,
    /// The client sent invalid bytes: no more bytes pass in either direction.
    Broken,
}

/// The buffers of a worker for sealing and opening.
#[derive(Default)]
pub(crate) struct TlsBuffers {
    sealed: Vec<u8>,
    /// The start of the next output in `sealed`.
    start: usize,
    file: Vec<u8>,
}

/// The TLS session of one connection.
pub(crate) struct TlsSession {
    tls: UnbufferedServerConnection,
    /// Received sealed bytes that are not complete records yet.
    kept: Vec<u8>,
    /// Plain bytes that did not fit into their reader's buffer.
    plain: Vec<u8>,
    /// Sealed bytes that the socket did not take yet; `sent` is the number that it took.
    sealed: Vec<u8>,
    sent: usize,
    pub stage: HandshakeStage,
    /// Until the name in the ClientHello has chosen the rules, where it does.
    awaited: Option<Box<AwaitedHello>>,
    rules: Arc<AgreedRules>,
    /// Whether a CA validates a name: the connection ends after the handshake.
    pub is_challenge: bool,
    hello_names: HelloNames,
    counters: Arc<Counters>,
    /// The last result of [`TlsSession::count_waiting`].
    counted: u64,
}

impl Drop for TlsSession {
    fn drop(&mut self) {
        self.counters.tls_open.sub(1);
        self.counters.tls_waiting_bytes.sub(self.counted);
    }
}

impl TlsSession {
    /// # Errors
    /// The configuration does not suit a connection.
    pub fn new(settings: &ServerTls, counters: &Arc<Counters>) -> Result<Self, Error> {
        let configs = settings.configs();
        let (rules, config) = configs.first();
        let tls = UnbufferedServerConnection::new(config)?;
        let challenges = settings.challenges();
        let is_awaited = configs.depends_on_name() || !challenges.is_empty();
        let awaited = is_awaited.then(|| Box::new(AwaitedHello::new(configs, challenges)));
        counters.tls_open.add(1);
        Ok(Self {
            tls,
            kept: Vec::new(),
            plain: Vec::new(),
            sealed: Vec::new(),
            sent: 0,
            stage: HandshakeStage::Handshaking,
            awaited,
            rules,
            is_challenge: false,
            hello_names: HelloNames::default(),
            counters: counters.clone(),
            counted: 0,
        })
    }

    /// Counts the bytes held for the socket or the reader.
    pub fn count_waiting(&mut self) {
        let now = (self.sealed.capacity() + self.kept.capacity() + self.plain.capacity()) as u64;
        if now != self.counted {
            let before = std::mem::replace(&mut self.counted, now);
            self.counters.tls_waiting_bytes.add(now);
            self.counters.tls_waiting_bytes.sub(before);
        }
    }

    /// Whether the handshake is done.
    pub fn is_open(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Sealed bytes that wait for the socket.
    pub fn waiting(&self) -> u64 {
        (self.sealed.len() - self.sent) as u64
    }

    /// Takes the plain bytes that are available.
    pub fn take_plain(&mut self, into: &mut [u8]) -> usize {
        let count = self.plain.len().min(into.len());
        into[..count].copy_from_slice(&self.plain[..count]);
        match count == self.plain.len() {
            true => self.plain = Vec::new(),
            false => drop(self.plain.drain(..count)),
        }
        count
    }

    /// Whether there are unread plain bytes.
    pub fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    /// Copies the kept bytes to the start of `room`, behind which the next bytes are read.
    pub fn kept(&self, room: &mut [u8]) -> usize {
        room[..self.kept.len()].copy_from_slice(&self.kept);
        self.kept.len()
    }

    /// Opens `bytes`, which begin with the kept ones; returns the number of plain ones in `into`. Those that do not fit
    /// are kept for the next reader.
    ///
    /// # Errors
    /// The client's bytes are invalid; the alert is in the output for the socket.
    pub fn open(&mut self, bytes: &mut [u8], into: &mut [u8]) -> Result<usize, Error> {
        if let Some(awaited) = &mut self.awaited {
            let Some(chosen) = awaited.read(&bytes[self.kept.len()..]) else {
                self.kept = bytes.to_vec();
                return Ok(0);
            };
            self.tls = UnbufferedServerConnection::new(chosen.config)?;
            (self.rules, self.is_challenge, self.awaited) = (chosen.rules, chosen.is_challenge, None);
        }
        let (mut used, mut filled) = (0, 0);
        let result = loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(&mut bytes[used..]);
            let stage = match state {
                Err(error) => {
                    if let Some((error, alert)) = hello::rejection(&error, &bytes[used..]) {
                        self.stage = HandshakeStage::Broken;
                        self.sealed.extend([21, 3, 3, 0, 2, 2, alert]);
                        used = bytes.len();
                        break Err(error);
                    }
                    used += discard;
                    self.send_alert(&error, &mut bytes[used..]);
                    break Err(error);
                }
                Ok(ConnectionState::ReadTraffic(mut it)) => {
                    while let Some(Ok(record)) = it.next_record() {
                        discard += record.discard;
                        let count = record.payload.len().min(into.len() - filled);
                        into[filled..filled + count].copy_from_slice(&record.payload[..count]);
                        filled += count;
                        self.plain.extend_from_slice(&record.payload[count..]);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(mut it)) => {
                    encode(&mut self.sealed, |out| it.encode(out).ok());
                    None
                }
                Ok(ConnectionState::TransmitTlsData(it)) => {
                    it.done();
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(HandshakeStage::Handshaking),
                Ok(ConnectionState::WriteTraffic(_)) => Some(HandshakeStage::Open),
                // Early data are never accepted.
                Ok(_) => Some(HandshakeStage::Over),
            };
            used += discard;
            if let Some(stage) = stage {
                self.stage = stage;
                break Ok(filled);
            }
        };
        if let Some(names) = certificates::hello_names() {
            self.hello_names = names;
        }
        if used < bytes.len() || !self.kept.is_empty() {
            self.kept = bytes[used..].to_vec();
        }
        result
    }

    /// Fetches rustls's output on an error, which is its last.
    fn send_alert(&mut self, error: &Error, bytes: &mut [u8]) {
        self.stage = HandshakeStage::Broken;
        let is_ours_to_say = matches!(error, Error::PeerMisbehaved(_) | Error::InvalidMessage(_));
        if is_ours_to_say && !self.tls.wants_write() {
            // For some errors (a message that is too long, one within another, too many warnings) rustls has no alert. It
            // has the keys: it is fed bytes that are no record, at its current position, and sends `decode_error` for
            // them.
            let mut nonsense = vec![0xff; bytes.len() + HEADER];
            let _ = self.tls.process_tls_records(&mut nonsense).state;
        }
        // Only while it has output: that precedes the alert. The received bytes are still invalid and must not be
        // processed again.
        while self.tls.wants_write() {
            match self.tls.process_tls_records(bytes).state {
                Ok(ConnectionState::EncodeTlsData(mut it)) => {
                    encode(&mut self.sealed, |out| it.encode(out).ok())
                }
                _ => return,
            }
        }
    }

    /// The result of the handshake; counts it.
    pub fn secured(&self, counters: &Counters) -> Secured {
        match self.tls.handshake_kind() {
            Some(HandshakeKind::Resumed) => counters.tls_resumed.add(1),
            _ => counters.tls_handshakes.add(1),
        }
        let version = name_of(self.tls.protocol_version());
        match version {
            "TLSv1.3" => counters.tls_13.add(1),
            _ => counters.tls_12.add(1),
        }
        if !self.hello_names.known {
            counters.tls_unknown_names.add(1);
        }
        let cipher = self.tls.negotiated_cipher_suite().map(|it| name_of_suite(it.suite()));
        let protocol = AlpnProtocol::of(self.tls.alpn_protocol());
        let shown = self.tls.peer_certificates().and_then(<[_]>::first);
        let client = shown.and_then(certificates::subject).unwrap_or_default();
        let certificate = shown.map(|it| it.as_ref().into());
        let (cipher, name) = (cipher.unwrap_or_default(), self.hello_names.name.clone());
        Secured { version, cipher, name, protocol, client, certificate, rules: self.rules.clone() }
    }

    /// Seals and sends as much of `outbox` as the socket takes; the number of bytes is added to `moved`.
    ///
    /// # Errors
    /// `EIO` for a file that has changed; otherwise the socket's.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        outbox: &mut Outbox,
        room: &mut TlsBuffers,
        moved: &mut u64,
    ) -> Result<SendProgress, Errno> {
        loop {
            while self.sent < self.sealed.len() {
                match push(socket, &self.sealed[self.sent..], moved)? {
                    0 => return Ok(SendProgress::Blocked),
                    count => self.sent += count,
                }
            }
            if self.sent > 0 {
                (self.sealed, self.sent) = (Vec::new(), 0);
            }
            if outbox.is_empty() {
                outbox.rest();
                return Ok(SendProgress::All);
            }
            if *moved >= TURN {
                return Ok(SendProgress::Turn);
            }
            let mut sealed = self.seal(outbox, room)?;
            while !sealed.is_empty() {
                match push(socket, sealed, moved)? {
                    0 => {
                        self.sealed = sealed.to_vec();
                        break;
                    }
                    count => sealed = &sealed[count..],
                }
            }
        }
    }

    /// Seals the next output, in full records if there is enough.
    fn seal<'r>(&mut self, outbox: &mut Outbox, room: &'r mut TlsBuffers) -> Result<&'r [u8], Errno> {
        room.sealed.resize(SHIFTED + SEALED, 0);
        room.start = shifted(room.start);
        let (mut plain, mut filled) = (0, 0);
        let (sealed, file) = (&mut room.sealed[room.start..], &mut room.file);
        while plain < SEAL && !outbox.is_empty() && sealed.len() - filled >= RECORD + OVERHEAD {
            let most = (SEAL - plain).min((sealed.len() - filled) / (RECORD + OVERHEAD) * RECORD);
            plain += outbox.lend(most, file, |bytes| {
                filled += self.write(&mut sealed[filled..], |it, out| it.encrypt(bytes, out).ok())?;
                Ok(())
            })?;
        }
        Ok(&room.sealed[room.start..room.start + filled])
    }

    /// Sends `close_notify`, if possible: without it a client knows that the response was truncated.
    pub fn send_close_notify(&mut self, socket: BorrowedFd<'_>) {
        let mut bytes = [0; 256];
        if matches!(self.stage, HandshakeStage::Handshaking | HandshakeStage::Broken) || self.waiting() > 0 {
            return;
        }
        if let Ok(count) = self.write(&mut bytes, |it, out| it.queue_close_notify(out).ok()) {
            let _ = push(socket, &bytes[..count], &mut 0);
        }
    }

    /// Writes into `out` the result of `work`, after pending protocol messages.
    fn write<S>(&mut self, out: &mut [u8], work: S) -> Result<usize, Errno>
    where
        S: FnOnce(&mut WriteTraffic<'_, rustls::server::ServerConnectionData>, &mut [u8]) -> Option<usize>,
    {
        let mut filled = 0;
        if self.stage == HandshakeStage::Broken {
            return Err(Errno::PIPE);
        }
        loop {
            // With the kept bytes: rustls stores its position in them.
            match self.tls.process_tls_records(&mut self.kept).state {
                Ok(ConnectionState::WriteTraffic(mut it)) => {
                    let count = work(&mut it, &mut out[filled..]).ok_or(Errno::IO)?;
                    return Ok(filled + count);
                }
                Ok(ConnectionState::EncodeTlsData(mut it)) => {
                    filled += it.encode(&mut out[filled..]).map_err(|_| Errno::IO)?;
                }
                Ok(ConnectionState::TransmitTlsData(it)) => it.done(),
                Ok(ConnectionState::PeerClosed) => {}
                _ => return Err(Errno::PIPE),
            }
        }
    }
}

/// The IANA name of a suite; rustls writes `TLS13_` for those of TLS 1.3.
pub(super) fn name_of_suite(it: CipherSuite) -> &'static str {
    match it {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        it => it.as_str().unwrap_or_default(),
    }
}

/// Appends the output of `work`, with as much room as it needs.
fn encode(to: &mut Vec<u8>, mut work: impl FnMut(&mut [u8]) -> Option<usize>) {
    let before = to.len();
    // A flight of a handshake is one message; the longest chain of certificates fits into 64 KiB.
    for size in [4 * 1024, 32 * 1024, 128 * 1024] {
        to.resize(before + size, 0);
        if let Some(count) = work(&mut to[before..]) {
            to.truncate(before + count);
            to.shrink_to_fit();
            return;
        }
    }
    to.truncate(before);
}

/// Passes bytes to the kernel; 0 if it takes none now.
fn push(socket: BorrowedFd<'_>, bytes: &[u8], moved: &mut u64) -> Result<usize, Errno> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => {
                *moved += count as u64;
                return Ok(count);
            }
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Counts a handshake, or a session after it, that failed because of the client's bytes.
pub(crate) fn count_failure(error: &Error, counters: &Counters) {
    let counter = match error {
        Error::PeerIncompatible(it) => match it {
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired => &counters.tls_failed_version,
            _ => &counters.tls_failed_cipher,
        },
        Error::InvalidCertificate(it) if is_of_other_version(it) => &counters.tls_failed_certificate_version,
        Error::NoCertificatesPresented | Error::InvalidCertificate(_) => &counters.tls_failed_certificate,
        Error::AlertReceived(_) => &counters.tls_failed_refused,
        Error::NoApplicationProtocol => &counters.tls_failed_protocol,
        // No certificate for the name.
        Error::General(_) => &counters.tls_failed_name,
        _ => &counters.tls_failed_malformed,
    };
    counter.add(1);
}

/// Whether a certificate was rejected since it has no extensions, as `openssl x509 -req` without `-extfile` makes it: X.509 version 1. webpki
/// reports it as an error of its own, whose type rustls does not export.
fn is_of_other_version(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(it) if format!("{:?}", it.0) == "UnsupportedCertVersion")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{ClientAuth, HandshakeRules, MinTlsVersion, NamePattern, TlsRules, verifier};
    use proptest::prelude::*;
    use rustls::pki_types::UnixTime;

    /// The beginning of a handshake message: its kind, the length that it claims, and a part of it.
    fn message() -> impl Strategy<Value = Vec<u8>> {
        let length = prop_oneof![0..40u32, 60_000..70_000u32, Just(0xff_ffff)];
        (prop_oneof![Just(1u8), any::<u8>()], length, proptest::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(kind, length, some)| [&[kind], &length.to_be_bytes()[1..], &some].concat())
    }

    fn record() -> impl Strategy<Value = Vec<u8>> {
        let content = prop_oneof![
            message(),
            Just(vec![]),
            Just(vec![1]),
            Just(vec![1, 90]),
            Just(vec![2, 40]),
            proptest::collection::vec(any::<u8>(), 0..40)
        ];
        let kind = prop_oneof![4 => Just(22u8), 1 => 20..25u8];
        (kind, content).prop_map(|(kind, it)| {
            [&[kind, 3, 3], &u16::try_from(it.len()).unwrap().to_be_bytes()[..], &it].concat()
        })
    }

    /// Of version 3, and the same bytes without their version field.
    #[test]
    fn a_client_certificate_of_version_1_has_a_counter_of_its_own() {
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let own = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientAuth::Required("ca.pem".into());
        let verifier = verifier(&client, own.pem().as_bytes(), provider).unwrap().unwrap();
        let mut old = own.der().to_vec();
        assert_eq!([0xa0, 3, 2, 1, 2], old[8..13]);
        old.drain(8..13);
        // The lengths of the certificate and of its signed part.
        for at in [2, 6] {
            let length = u16::from_be_bytes([old[at], old[at + 1]]) - 5;
            old[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        let counters = Counters::default();
        for (certificate, expect) in [(old, [1, 0]), (b"no certificate".to_vec(), [1, 1])] {
            let error = verifier.verify_client_cert(&certificate.into(), &[], UnixTime::now()).unwrap_err();
            count_failure(&error, &counters);
            let counted = [&counters.tls_failed_certificate_version, &counters.tls_failed_certificate];
            assert_eq!(expect, counted.map(|it| it.get()), "{error:?}");
        }
    }

    proptest! {
        /// However it comes: no panic, and one alert, but where it is one itself.
        #[test]
        fn a_malformed_handshake_ends_with_an_alert(
            records in proptest::collection::vec(record(), 1..50),
            cuts in proptest::collection::vec(1..200usize, 1..20),
            has_sites in any::<bool>(),
        ) {
            let strict = HandshakeRules { min_version: MinTlsVersion::Tls13, client: ClientAuth::Off };
            let site = (vec![NamePattern::Exact("a.test".to_owned())], strict);
            let sites = if has_sites { vec![site] } else { Vec::new() };
            let tls = ServerTls::new(&[], TlsRules { sites, ..TlsRules::default() }).unwrap();
            let mut it = TlsSession::new(&tls, &Arc::default()).unwrap();
            let bytes = records.concat();
            let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
            let mut room = vec![0; INCOMING];
            while !rest.is_empty() {
                let (some, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                rest = behind;
                let kept = it.kept(&mut room);
                room[kept..kept + some.len()].copy_from_slice(some);
                let Err(error) = it.open(&mut room[..kept + some.len()], &mut []) else { continue };
                prop_assert_eq!(HandshakeStage::Broken, it.stage);
                let says = matches!(&it.sealed[..], [21, 3, _, 0, 2, 2, _]);
                let is_told = matches!(error, Error::AlertReceived(_));
                prop_assert!(says || is_told && it.sealed.is_empty(), "{error:?}: {:?}", it.sealed);
                break;
            }
        }
    }
}
