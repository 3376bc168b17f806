//! Packets between ports that share their sockets: one port reads them, in the new process of an upgrade or after a reload, and passes
//! those of connections of earlier ports on. Where the packets of a port itself go is in `port`.

use larder_wire::passed_packets::PassedPackets;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, sendmsg,
};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The connections of a port, for the port that reads its sockets from now on.
pub struct QuicHandOver {
    /// The address of the port.
    pub at: SocketAddr,
    /// The mark in the IDs of its connections.
    pub mark: u8,
    /// By the number of the socket: takes the packets of its connections.
    pub sockets: Vec<OwnedFd>,
}

impl QuicHandOver {
    /// Whether a packet belongs to these connections, by the mark and the number in its connection ID.
    pub(super) fn has(&self, mark: u8, number: u16) -> bool {
        self.mark == mark && usize::from(number) < self.sockets.len()
    }

    /// Whether one of the loops takes packets still.
    pub(super) fn is_open(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let is_open = |it: &OwnedFd| recv(it, &mut [0; 1], flags) == Err(rustix::io::Errno::AGAIN);
        self.sockets.iter().any(is_open)
    }

    /// Passes packets on; whether they were taken. It never waits.
    pub(super) fn pass_on(&self, number: u16, about: &PassedPackets, packets: &[u8]) -> bool {
        let Some(socket) = self.sockets.get(usize::from(number)) else { return false };
        let (head, flags) = (about.head(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let parts = [IoSlice::new(&head), IoSlice::new(packets)];
        sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), flags).is_ok()
    }
}

/// The other ends of a hand-over, which the loops of the sockets have not taken yet; by the number of the socket.
#[derive(Default)]
pub(super) struct PassedSockets(Vec<Mutex<PassedSocket>>);

/// The end for the loop of one socket.
#[derive(Default)]
struct PassedSocket {
    end: Option<OwnedFd>,
    /// Of the loop, once it has looked for an end.
    waker: Option<Waker>,
}

impl PassedSockets {
    /// For this number of sockets.
    pub fn of(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::default()).collect())
    }

    /// New pairs, in place of those that were not taken.
    pub fn renew(&self) -> io::Result<Vec<OwnedFd>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Keeps the limits of messages, and its end is noticed.
        let pair = || rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let pairs = self.0.iter().map(|_| pair()).collect::<Result<Vec<_>, _>>()?;
        let kept = |(place, (own, given)): (&Mutex<PassedSocket>, (OwnedFd, OwnedFd))| {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            place.end = Some(own);
            place.waker.take().inspect(Waker::wake_by_ref);
            given
        };
        Ok(self.0.iter().zip(pairs).map(kept).collect())
    }

    /// The end for a socket, once; `waker` is woken when there is another one.
    pub fn take(&self, number: u16, waker: &Waker) -> Option<OwnedFd> {
        let mut place = self.0.get(usize::from(number))?.lock().unwrap_or_else(PoisonError::into_inner);
        place.waker = Some(waker.clone());
        place.end.take()
    }
}

/// Messages of one receive that may be read.
pub(super) enum PassedMessage<'b> {
    /// The packets of a message.
    Packets(PassedPackets, &'b [u8]),
    /// Bytes that are no such message.
    Other,
    /// None now.
    None,
    /// The port that read the sockets has ended.
    Ended,
}

/// Receives a message.
pub(super) fn receive<'b>(socket: &OwnedFd, buffer: &'b mut [u8]) -> PassedMessage<'b> {
    match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => PassedMessage::Ended,
        Ok((length, _)) => match PassedPackets::parse(&buffer[..length.min(buffer.len())]) {
            Some((about, packets)) => PassedMessage::Packets(about, packets),
            None => PassedMessage::Other,
        },
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => PassedMessage::None,
        Err(_) => PassedMessage::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::super::port::QuicSockets;
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn packets_reach_the_earlier_port_and_its_end_is_noticed() {
        let at = "127.0.0.1:0".parse().unwrap();
        let old = QuicSockets::bind(at, 2).unwrap();
        let handed = old.port.hand_over().unwrap();
        let (mark, about) = (
            handed.mark,
            PassedPackets { from: "192.0.2.1:5".parse().unwrap(), to: None, ecn: 0, stride: 4 },
        );
        assert!(handed.has(mark, 1) && !handed.has(mark, 2) && !handed.has(!mark, 0));
        assert!(handed.pass_on(1, &about, b"packets") && !handed.pass_on(2, &about, b"packets"));
        let wakes = Arc::new(Wakes::default());
        let waker = &wakes.clone().into();
        let passed = old.port.passed.take(1, waker).unwrap();
        assert!(old.port.passed.take(1, waker).is_none());
        let mut buffer = vec![0; 128 * 1024];
        assert!(
            matches!(receive(&passed, &mut buffer), PassedMessage::Packets(it, b"packets") if it == about)
        );
        assert!(matches!(receive(&passed, &mut buffer), PassedMessage::None));
        let large = vec![7; 64 * 1024];
        assert!(handed.pass_on(1, &about, &large));
        assert!(matches!(receive(&passed, &mut buffer), PassedMessage::Packets(_, it) if it == large));
        assert!(handed.is_open(), "the other loop has not taken its end");
        drop((old.port.passed.take(0, waker), passed));
        assert!(!handed.is_open() && !handed.pass_on(1, &about, b"packets"));
        assert_eq!(0, wakes.0.load(Relaxed));
        let handed = old.port.hand_over().unwrap();
        assert_eq!(2, wakes.0.load(Relaxed), "each loop looks for the other end");
        let passed = old.port.passed.take(1, waker).unwrap();
        drop(handed);
        assert!(matches!(receive(&passed, &mut buffer), PassedMessage::Ended));
    }

    #[test]
    fn the_marks_of_ports_at_the_same_sockets_differ() {
        let at = "127.0.0.1:0".parse().unwrap();
        for _ in 0..600 {
            let (old, new) = (QuicSockets::bind(at, 1).unwrap(), QuicSockets::bind(at, 1).unwrap());
            let mark = old.port.mark();
            new.port.follow(vec![old.port.hand_over().unwrap()]);
            assert_ne!(mark, new.port.mark());
        }
    }
}
