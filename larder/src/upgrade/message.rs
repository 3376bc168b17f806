//! The messages between the two processes of an upgrade: a head of fixed form, in every version, and a body. Sockets travel with
//! the head (`SCM_RIGHTS`). Both ends are of one user and on one machine; a checksum catches a broken program.

use larder_wire::segment::sum;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The version of the messages; a process takes over from one of its own version only.
pub const PROTOCOL: u16 = 1;
/// The most sockets of one message; the kernel takes 253.
pub const MOST_SOCKETS: usize = 200;
/// Bytes of a head.
pub const HEAD: usize = 32;

const MAGIC: &[u8; 8] = b"larderUP";
/// The most bytes of a body: all purges in force, which have 16 MiB of memory at most.
const MOST_BODY: usize = 64 << 20;

/// The meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Old to new: the number of sockets that follow. The body is a JSON object, or empty from a version before it.
    Offer,
    /// Old to new: sockets, with a description of each.
    Sockets,
    /// New to old: its configuration is valid, and all is open but the disk tier.
    Ready,
    /// Old to new: the disk tier is free. `number` is that of the last purge; the body is the purges in force.
    Switch,
    /// New to old: it accepts connections.
    Serving,
    /// New to old: it cannot take over; the body is a sentence.
    Refused,
    /// Both: a purge to put in force.
    Purge,
    /// Both: that purge, with the same `number`, is in force; the body is `1` where it is certain.
    Done,
    /// Old to new, before [`MessageKind::Switch`]: the next bytes of the RAM tier (`store::snapshot::transfer`); with the
    /// `number` [`NO_RAM`], why there is none. Only to a process that has asked for it.
    Ram,
    /// Old to new, directly before [`MessageKind::Switch`]: the keys of TLS tickets, or an empty body without TLS
    /// (`larder_transport::tls::ServerTls::ticket_keys`). Only to a process that has asked for them.
    TicketKeys,
    /// Old to new, before [`MessageKind::Switch`]: where packets of its HTTP/3 connections go, one Unix socket for each of its UDP
    /// sockets, with a description. Only to a process that has asked for it.
    QuicSockets,
    /// Old to new, before the first [`MessageKind::Ram`]: the arena of large bodies, and a pipe that ends with the old process. Only to a
    /// process that has asked for it.
    Arena,
    /// Old to new, its last: its requests are finished, or cut after `limits.drain_timeout`. A process whose [`MessageKind::Offer`]
    /// announced this and that ends without it has crashed. To a process that does not know it, it is the end of the connection.
    Finished,
    /// Old to new, before [`MessageKind::Switch`]: the changes that operators made at run time, which are in no file. Its `number` is
    /// [`DRAINS`] or [`OVERLAY`]. Only to a process that has asked for it.
    OperatorState,
}

const KINDS: [MessageKind; 14] = [
    MessageKind::Offer,
    MessageKind::Sockets,
    MessageKind::Ready,
    MessageKind::Switch,
    MessageKind::Serving,
    MessageKind::Refused,
    MessageKind::Purge,
    MessageKind::Done,
    MessageKind::Ram,
    MessageKind::TicketKeys,
    MessageKind::QuicSockets,
    MessageKind::Arena,
    MessageKind::Finished,
    MessageKind::OperatorState,
];

/// See [`MessageKind::OperatorState`]: the names of drained origins, as JSON.
pub const DRAINS: u64 = 0;
/// See [`MessageKind::OperatorState`]: one overlay (`larder_server::overlay::Overlay::to_bytes`).
pub const OVERLAY: u64 = 1;

/// See [`MessageKind::Ram`].
pub const NO_RAM: u64 = 1;

/// One message, without its sockets.
#[derive(Clone, PartialEq, Eq)]
pub struct HandOverMessage {
    /// Its meaning.
    pub kind: MessageKind,
    /// See [`MessageKind`].
    pub number: u64,
    /// See [`MessageKind`].
    pub body: Vec<u8>,
}

/// A head that was read.
pub struct MessageHead {
    kind: MessageKind,
    number: u64,
    /// Bytes of the body.
    pub length: usize,
    sum: u64,
    start: [u8; HEAD - 8],
}

/// Why no message was read.
#[derive(Debug)]
pub enum BrokenLink {
    /// The other process has closed its end.
    Ended,
    /// Nothing came in time.
    Late,
    /// It speaks another version.
    OtherVersion(u16),
    /// It is no message: the bytes that came instead.
    Damaged(&'static str),
    /// The system refused.
    Failed(io::Error),
}

impl BrokenLink {
    /// The end of a sentence about the other process.
    pub fn sentence(&self) -> String {
        match self {
            BrokenLink::Ended => "ended".to_owned(),
            BrokenLink::Late => "did not respond in time".to_owned(),
            BrokenLink::OtherVersion(it) => {
                format!(
                    "uses version {it} of the hand-over, and this one version {PROTOCOL}: restart larder instead"
                )
            }
            BrokenLink::Damaged(what) => format!("sent {what} instead of a valid message"),
            BrokenLink::Failed(error) => {
                format!("cannot be read from: {}", larder_stdx::error::plain(error))
            }
        }
    }
}

impl From<io::Error> for BrokenLink {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                BrokenLink::Ended
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => BrokenLink::Late,
            _ => BrokenLink::Failed(error),
        }
    }
}

impl From<BrokenLink> for io::Error {
    fn from(link: BrokenLink) -> Self {
        match link {
            BrokenLink::Ended => io::ErrorKind::BrokenPipe.into(),
            BrokenLink::Late => io::ErrorKind::TimedOut.into(),
            BrokenLink::Failed(error) => error,
            other => io::Error::other(other.sentence()),
        }
    }
}

/// Without its body, which may be secret.
impl fmt::Debug for HandOverMessage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, number, body } = self;
        write!(to, "{kind:?} {number} with {} bytes", body.len())
    }
}

impl HandOverMessage {
    /// A message without a body.
    pub fn new(kind: MessageKind) -> Self {
        Self { kind, number: 0, body: Vec::new() }
    }

    /// Its head.
    fn head(&self) -> [u8; HEAD] {
        let kind = KINDS.iter().position(|it| *it == self.kind).unwrap_or_default();
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        head[8..10].copy_from_slice(&PROTOCOL.to_le_bytes());
        head[10..12].copy_from_slice(&u16::try_from(kind).unwrap_or_default().to_le_bytes());
        head[12..16].copy_from_slice(&u32::try_from(self.body.len()).unwrap_or(u32::MAX).to_le_bytes());
        head[16..24].copy_from_slice(&self.number.to_le_bytes());
        let checksum = sum(sum(0, &head[..HEAD - 8]), &self.body);
        head[HEAD - 8..].copy_from_slice(&checksum.to_le_bytes());
        head
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.head(), &self.body[..]].concat()
    }

    /// Sends it, with sockets.
    ///
    /// # Errors
    /// The other process has ended, or does not read.
    pub fn send(&self, stream: &UnixStream, sockets: &[BorrowedFd<'_>]) -> Result<(), BrokenLink> {
        let head = self.head();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(sockets)) {
            return Err(BrokenLink::Damaged("too many sockets"));
        }
        // A body is not copied: the pieces of the RAM tier are large.
        let parts = [IoSlice::new(&head), IoSlice::new(&self.body)];
        let sent = sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL).map_err(io::Error::from)?;
        let mut rest = stream;
        rest.write_all(head.get(sent..).unwrap_or_default())?;
        Ok(rest.write_all(&self.body[sent.saturating_sub(HEAD)..])?)
    }

    /// Waits for a message and its sockets; the time limit is that of the stream.
    ///
    /// # Errors
    /// See [`BrokenLink`].
    pub fn receive(stream: &UnixStream) -> Result<(Self, Vec<OwnedFd>), BrokenLink> {
        Self::receive_into(Vec::new(), stream)
    }

    /// The same with a body in the memory of an earlier one: a large block would come from the kernel each time, page by page.
    ///
    /// # Errors
    /// See [`BrokenLink`].
    pub fn receive_into(mut body: Vec<u8>, stream: &UnixStream) -> Result<(Self, Vec<OwnedFd>), BrokenLink> {
        let mut head = [0; HEAD];
        let mut sockets = Vec::new();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(stream, &mut [IoSliceMut::new(&mut head)], &mut control, flags);
        let read = received.map_err(io::Error::from)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(all) = message {
                sockets.extend(all);
            }
        }
        if read == 0 {
            return Err(BrokenLink::Ended);
        }
        let mut rest = stream;
        rest.read_exact(&mut head[read..])?;
        let head = MessageHead::parse(&head)?;
        body.resize(head.length, 0);
        rest.read_exact(&mut body)?;
        Ok((head.with(body)?, sockets))
    }
}

impl MessageHead {
    /// Parses a head: its form is the same in every version, so that another version is recognized.
    ///
    /// # Errors
    /// See [`BrokenLink`].
    pub fn parse(bytes: &[u8; HEAD]) -> Result<Self, BrokenLink> {
        if !bytes.starts_with(MAGIC) {
            return Err(BrokenLink::Damaged("other bytes"));
        }
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if half(8) != PROTOCOL {
            return Err(BrokenLink::OtherVersion(half(8)));
        }
        let kind = KINDS.get(usize::from(half(10))).copied();
        let kind = kind.ok_or(BrokenLink::Damaged("a message of an unknown kind"))?;
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let length = usize::try_from(length).ok().filter(|it| *it <= MOST_BODY);
        let length = length.ok_or(BrokenLink::Damaged("a message that is too long"))?;
        let mut start = [0; HEAD - 8];
        start.copy_from_slice(&bytes[..HEAD - 8]);
        Ok(Self { kind, number: number(16), length, sum: number(HEAD - 8), start })
    }

    /// The message with this body.
    ///
    /// # Errors
    /// The checksum differs.
    pub fn with(self, body: Vec<u8>) -> Result<HandOverMessage, BrokenLink> {
        if sum(sum(0, &self.start), &body) != self.sum {
            return Err(BrokenLink::Damaged("a message with a wrong checksum"));
        }
        Ok(HandOverMessage { kind: self.kind, number: self.number, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    fn message() -> HandOverMessage {
        HandOverMessage { kind: MessageKind::Switch, number: 7, body: b"rules".to_vec() }
    }

    /// How these bytes are read, when nothing follows.
    fn read(bytes: &[u8]) -> Result<HandOverMessage, String> {
        let (mut there, here) = UnixStream::pair().unwrap();
        there.write_all(bytes).unwrap();
        drop(there);
        HandOverMessage::receive(&here).map(|it| it.0).map_err(|it| it.sentence())
    }

    #[test]
    fn a_message_arrives_with_its_sockets() {
        let (there, here) = UnixStream::pair().unwrap();
        let sockets: Vec<_> = (0..MOST_SOCKETS).map(|_| here.as_fd()).collect();
        message().send(&there, &sockets).unwrap();
        message().send(&there, &[]).unwrap();
        let (first, sockets) = HandOverMessage::receive(&here).unwrap();
        assert_eq!((message(), MOST_SOCKETS), (first, sockets.len()));
        let (second, sockets) = HandOverMessage::receive(&here).unwrap();
        assert_eq!((message(), 0), (second, sockets.len()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let bytes = message().bytes();
        assert_eq!(Ok(message()), read(&bytes));
        for length in 0..bytes.len() {
            assert_eq!(Err("ended".to_owned()), read(&bytes[..length]), "{length}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 4;
            read(&bytes).unwrap_err();
        }
        assert_eq!(Err("sent other bytes instead of a valid message".to_owned()), read(&[b'x'; 64]));
        let mut other = bytes.clone();
        other[8] = 2;
        assert!(
            read(&other).unwrap_err().starts_with("uses version 2 of the hand-over, and this one version 1")
        );
        let mut long = bytes;
        long[15] = 0xff;
        assert_eq!(Err("sent a message that is too long instead of a valid message".to_owned()), read(&long));
    }

    #[test]
    fn a_silent_process_is_noticed() {
        let (_there, here) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
        let broken = HandOverMessage::receive(&here).unwrap_err();
        assert_eq!("did not respond in time", broken.sentence());
    }
}
