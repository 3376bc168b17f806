//! A UDP port for QUIC: a socket for each worker, and connection IDs that name it. The kernel selects a socket by the addresses of a
//! packet; after a change of either, the worker that receives it passes it on to that of the connection. Packets for connections of
//! another port at the same sockets are in `packet_handover`.

use super::packet_handover::{PassedSockets, QuicHandOver};
use crate::listener::{SocketHandle, family};
use bytes::BytesMut;
use larder_wire::passed_packets::PassedPackets;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, EcnCodepoint, InvalidCid};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{hkdf, hmac};
use socket2::Type;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes of a connection ID: the number of the socket, a mark of this process, and random bytes.
pub(super) const ID: usize = 12;
/// Packets that may wait for another worker.
const MOST_FORWARDED: usize = 1024;
/// The wanted receive buffer of a socket, bytes: the kernel grants up to `net.core.rmem_max`.
const RECEIVE: usize = 4 << 20;

/// A packet with its addresses.
pub(super) struct Packet {
    pub from: SocketAddr,
    pub to: Option<IpAddr>,
    pub ecn: Option<EcnCodepoint>,
    pub bytes: BytesMut,
}

impl Packet {
    /// One of `about`.
    pub fn of(about: &PassedPackets, bytes: &[u8]) -> Self {
        let PassedPackets { from, to, ecn, .. } = *about;
        Self { from, to, ecn: EcnCodepoint::from_bits(ecn), bytes: BytesMut::from(bytes) }
    }
}

/// The socket that a packet belongs to, by its connection ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketOwner {
    /// One of this port.
    Own(u16),
    /// One of an earlier port, by its place in the list of those.
    Earlier(usize, u16),
}

/// The part of a port that its sockets share.
pub struct QuicPort {
    /// The address.
    pub(super) at: SocketAddr,
    /// A mark of this port in its connection IDs, as long as no worker has a socket.
    mark: AtomicU8,
    /// The ports at the same sockets whose connections are not over yet.
    earlier: OnceLock<Vec<QuicHandOver>>,
    /// The packets from a later port, where there is one.
    pub(super) passed: PassedSockets,
    /// The key of stateless resets: one for all sockets, since any of them may get the packets of a connection.
    pub(super) reset_key: hmac::Key,
    /// The key of tokens in Retry packets.
    pub(super) token_key: [u8; 32],
    /// By the number of the socket; closed once its worker has ended.
    workers: Vec<mpsc::Sender<Packet>>,
}

impl QuicPort {
    /// The workers' part of the key for Retry tokens.
    pub(super) fn token_key(&self) -> hkdf::Prk {
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&self.token_key)
    }

    /// Its mark.
    pub(super) fn mark(&self) -> u8 {
        self.mark.load(Relaxed)
    }

    /// Lets another port read the sockets: their loops take packets from the hand-over once they leave the sockets.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn hand_over(&self) -> io::Result<QuicHandOver> {
        Ok(QuicHandOver { at: self.at, mark: self.mark(), sockets: self.passed.renew()? })
    }

    /// Passes packets of the connections of earlier ports on to them. Before a worker has a socket of this one, and once.
    pub fn follow(&self, earlier: Vec<QuicHandOver>) {
        let is_taken = |mark: u8| earlier.iter().any(|it| it.mark == mark);
        let free = (0..=u8::MAX).map(|it| self.mark().wrapping_add(it)).find(|it| !is_taken(*it));
        self.mark.store(free.unwrap_or_default(), Relaxed);
        let _ = self.earlier.set(earlier);
    }

    /// Whether a loop of an earlier port takes packets.
    pub(super) fn has_open_earlier(&self) -> bool {
        self.earlier.get().is_some_and(|all| all.iter().any(QuicHandOver::is_open))
    }

    /// The port of a place that [`PacketOwner::Earlier`] has.
    pub(super) fn earlier(&self, place: usize) -> Option<&QuicHandOver> {
        self.earlier.get()?.get(place)
    }

    /// The socket that a packet belongs to by its connection ID; `None` for an ID that neither this port nor an earlier one assigned.
    pub(super) fn owner(&self, bytes: &[u8]) -> Option<PacketOwner> {
        let id = match bytes.first()? & 0x80 {
            0 => bytes.get(1..=ID)?,
            // Version, length of the ID, ID.
            _ if usize::from(*bytes.get(5)?) == ID => bytes.get(6..6 + ID)?,
            _ => return None,
        };
        let (number, mark) = (u16::from_be_bytes([id[0], id[1]]), id[2]);
        if mark == self.mark() {
            return Some(PacketOwner::Own(number));
        }
        let place = self.earlier.get()?.iter().position(|it| it.has(mark, number))?;
        Some(PacketOwner::Earlier(place, number))
    }

    /// Passes a packet on to another socket's worker; whether it was taken.
    pub(super) fn pass_on(&self, owner: u16, packet: Packet) -> bool {
        self.workers.get(usize::from(owner)).is_some_and(|it| it.try_send(packet).is_ok())
    }
}

/// The sockets of a port that no worker has taken yet.
pub struct QuicSockets {
    /// The address.
    pub at: SocketAddr,
    /// One for each worker.
    pub sockets: Vec<QuicSocket>,
    /// Their common part.
    pub port: Arc<QuicPort>,
}

/// A UDP socket for QUIC.
pub struct QuicSocket {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) port: Arc<QuicPort>,
    pub(super) number: u16,
    pub(super) forwarded: mpsc::Receiver<Packet>,
    /// The address.
    pub at: SocketAddr,
}

impl QuicSocket {
    /// For passing it on.
    #[must_use]
    pub fn handle(&self) -> SocketHandle {
        SocketHandle::of_udp(&self.socket)
    }

    /// The argument of [`SocketIds::of`].
    pub(super) fn ids(&self) -> (u16, u8) {
        (self.number, self.port.mark())
    }
}

impl QuicSockets {
    /// Opens an address, with a socket for each of `workers`.
    ///
    /// # Errors
    /// One sentence: the failed operation, the reason, and the remedy.
    pub fn bind(at: SocketAddr, workers: usize) -> Result<Self, String> {
        Self::bind_beside(at, workers, false)
    }

    /// As [`QuicSockets::bind`]; with `is_shared` in a process that has sockets of another address at this port.
    ///
    /// # Errors
    /// One sentence: the failed operation, the reason, and the remedy.
    pub fn bind_beside(at: SocketAddr, workers: usize, is_shared: bool) -> Result<Self, String> {
        let refused = |it: &io::Error| {
            let (why, deed) = match it.kind() {
                io::ErrorKind::AddrInUse => {
                    ("the port is in use".to_owned(), "stop the process that uses it, or set http3 = false")
                }
                io::ErrorKind::PermissionDenied => {
                    ("permission is denied".to_owned(), "choose a port from 1024, or set http3 = false")
                }
                _ => (larder_stdx::error::plain(it), "choose another address, or set http3 = false"),
            };
            format!("cannot listen on UDP {at} for HTTP/3: {why}; {deed}.")
        };
        // Sockets that share a port do not detect a foreign one that shares it, too.
        if !is_shared {
            drop(udp(at, false).map_err(|it| refused(&it))?);
        }
        let sockets: Result<Vec<_>, _> = (0..workers).map(|_| udp(at, true)).collect();
        Self::of(at, sockets.map_err(|it| refused(&it))?).map_err(|it| refused(&it))
    }

    /// Takes over the sockets of another port, and opens further ones up to the number of `wanted`. In another process, that takes place
    /// while the other port serves: packets would wait in further sockets. Of two descriptors of one socket, one is used: with two loops, the
    /// packets of a handshake would arrive at either.
    ///
    /// # Errors
    /// One sentence.
    pub fn adopt(at: SocketAddr, mut sockets: Vec<OwnedFd>, wanted: usize) -> Result<Self, String> {
        let refused = |it: io::Error| format!("cannot serve UDP {at}: {}.", larder_stdx::error::plain(&it));
        let mut seen = BTreeSet::new();
        sockets.retain(|it| rustix::fs::fstat(it).map_or(true, |it| seen.insert((it.st_dev, it.st_ino))));
        while sockets.len() < wanted {
            sockets.push(udp(at, true).map_err(refused)?);
        }
        Self::of(at, sockets).map_err(refused)
    }

    /// The port of these sockets.
    fn of(at: SocketAddr, sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let mut bytes = [0; 65];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
        let (mark, keys) = (bytes[64], &bytes[..64]);
        let mut token_key = [0; 32];
        token_key.copy_from_slice(&keys[32..]);
        let (forwarded, receivers): (Vec<_>, Vec<_>) =
            sockets.iter().map(|_| mpsc::channel(MOST_FORWARDED)).unzip();
        let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &keys[..32]);
        let (mark, passed) = (AtomicU8::new(mark), PassedSockets::of(sockets.len()));
        let port = Arc::new(QuicPort {
            at,
            mark,
            earlier: OnceLock::new(),
            passed,
            reset_key,
            token_key,
            workers: forwarded,
        });
        let each = sockets.into_iter().zip(receivers).zip(0..);
        let socket = |((socket, forwarded), number)| {
            let socket: Arc<OwnedFd> = Arc::new(socket);
            QuicSocket { socket, port: port.clone(), number, forwarded, at }
        };
        Ok(Self { at, sockets: each.map(socket).collect(), port })
    }
}

fn udp(at: SocketAddr, shares: bool) -> io::Result<OwnedFd> {
    let (socket, at) = family::socket(at, Type::DGRAM)?;
    if shares {
        socket.set_reuse_port(true)?;
        // Fewer bytes are granted without an error.
        let _ = socket.set_recv_buffer_size(RECEIVE);
    }
    socket.bind(&at.into())?;
    Ok(socket.into())
}

/// Makes the connection IDs of one socket.
pub(super) struct SocketIds {
    number: [u8; 2],
    mark: u8,
    random: SystemRandom,
}

impl SocketIds {
    /// For the socket with this number, in a process with this mark.
    pub fn of((number, mark): (u16, u8)) -> Self {
        Self { number: number.to_be_bytes(), mark, random: SystemRandom::new() }
    }
}

impl ConnectionIdGenerator for SocketIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID];
        // Without random numbers the IDs of different connections are equal, and the second connection fails.
        let _ = self.random.fill(&mut id[3..]);
        id[..2].copy_from_slice(&self.number);
        id[2] = self.mark;
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let is_ours = id.len() == ID && id[..2] == self.number && id[2] == self.mark;
        if is_ours { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_one_loop() {
        let before = QuicSockets::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let handles = || before.sockets.iter().map(|it| it.handle().duplicate().unwrap());
        let twice = handles().chain(handles()).collect();
        assert_eq!(2, QuicSockets::adopt(before.at, twice, 1).unwrap().sockets.len());
    }

    #[test]
    fn an_id_names_its_socket() {
        let sockets = QuicSockets::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().sockets;
        let (port, mark) = (&sockets[0].port, sockets[0].port.mark());
        let id = SocketIds::of(sockets[0].ids()).generate_cid();
        assert!(SocketIds::of(sockets[0].ids()).validate(&id).is_ok());
        let long = |length: u8| [&[0xc0, 0, 0, 0, 1, length][..], &id].concat();
        assert_eq!(Some(PacketOwner::Own(0)), port.owner(&[&[0x40][..], &id, &[1, 2, 3]].concat()));
        assert_eq!(Some(PacketOwner::Own(0)), port.owner(&long(12)));
        let mut other = id.to_vec();
        other[1] = 7;
        assert_eq!(Some(PacketOwner::Own(7)), port.owner(&[&[0x40][..], &other].concat()));
        other[2] = !mark;
        assert_eq!(None, port.owner(&[&[0x40][..], &other].concat()));
        assert_eq!(None, port.owner(&long(11)));
        for length in 0..18 {
            assert_eq!(None, port.owner(&long(12)[..length]), "{length}");
        }
        assert_eq!(None, port.owner(&[0x40; 12]));
    }
}
