//! The PROXY header at the beginning of a connection, with the client address. The format is in `wire`; the listeners
//! that require it are in `listener`.
//!
//! It is peeked at in the kernel, and only the header is consumed: the bytes behind it, in the same packet or not, are
//! read by TLS or HTTP. A header that arrives in pieces is kept here until it is complete, or its time is over.

use crate::client_socket::ClientSocket;
use crate::worker::{Expired, TransportWorker};
use larder_counters::Counters;
use larder_semantics::network::Peers;
use larder_wire::proxy::{self, ConnectionSource, ParsedPreamble, PreambleError};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::future::poll_fn;
use std::net::IpAddr;
use std::task::{Context, Poll, ready};

/// The reason for closing a connection without a PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPreamble {
    /// The peer is not permitted to send a PROXY header.
    Refused,
    /// The bytes are not a PROXY header.
    Missing,
    /// The header is malformed, too long, or has a wrong checksum.
    Malformed,
    /// The peer closed within it.
    Cut,
    /// It did not arrive in time.
    Late,
    /// The connection closed without a byte: a port check. Not counted, and not logged.
    Nothing,
}

impl MissingPreamble {
    /// The name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MissingPreamble::Refused => "refused",
            MissingPreamble::Missing => "missing",
            MissingPreamble::Malformed => "malformed",
            MissingPreamble::Cut => "cut",
            MissingPreamble::Late => "timeout",
            MissingPreamble::Nothing => "nothing",
        }
    }

    pub(crate) fn count(self, counters: &Counters) {
        match self {
            MissingPreamble::Refused => counters.proxy_refused.add(1),
            MissingPreamble::Missing => counters.proxy_missing.add(1),
            MissingPreamble::Malformed => counters.proxy_malformed.add(1),
            MissingPreamble::Cut => counters.proxy_cut.add(1),
            MissingPreamble::Late => counters.proxy_timeout.add(1),
            MissingPreamble::Nothing => {}
        }
    }
}

impl TransportWorker {
    /// Sets the peers that may send a PROXY header, on listeners that require it; `None` permits every peer.
    pub fn set_proxies(&self, proxies: Option<Peers>) {
        *self.proxies.borrow_mut() = proxies;
    }

    pub(crate) fn accepts_proxy_headers(&self, peer: Option<IpAddr>) -> bool {
        self.proxies.borrow().as_ref().is_none_or(|it| it.has(peer))
    }
}

/// The received part of a header.
#[derive(Default)]
struct PartialPreamble {
    /// Its beginning, which is known to be incomplete. Most headers arrive whole, and nothing is kept.
    kept: Vec<u8>,
    /// Whether the socket was read before it was registered: most headers arrive along with their connection.
    was_read: bool,
}

impl ClientSocket {
    /// Waits for the header, with the time limit of a head, and consumes it.
    ///
    /// # Errors
    /// There is none; it is counted.
    pub async fn with_proxy_header(&self) -> Result<ConnectionSource, MissingPreamble> {
        let mut coming = PartialPreamble::default();
        let introduced = poll_fn(|context| self.read_header(context, &mut coming)).await;
        match introduced {
            Ok(_) => self.worker.counters.proxy_headers.add(1),
            Err(why) => why.count(&self.worker.counters),
        }
        introduced
    }

    fn read_header(
        &self,
        context: &mut Context<'_>,
        coming: &mut PartialPreamble,
    ) -> Poll<Result<ConnectionSource, MissingPreamble>> {
        let mut room = [0; proxy::MOST];
        let mut had = coming.kept.len();
        room[..had].copy_from_slice(&coming.kept);
        loop {
            let came = match ready!(self.peek(context, &mut room[had..], &mut coming.was_read)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(self.without_header(had))),
                Ok(came) => came,
            };
            let (result, length) = match proxy::parse(&room[..had + came]) {
                Ok(ParsedPreamble::Header(source, length)) => (Some(source), length),
                // All bytes before the end of a header belong to it.
                Ok(ParsedPreamble::Partial) => (None, had + came),
                Err(PreambleError::Missing) => return Poll::Ready(Err(MissingPreamble::Missing)),
                Err(PreambleError::Malformed | PreambleError::TooLong | PreambleError::Checksum) => {
                    return Poll::Ready(Err(MissingPreamble::Malformed));
                }
            };
            if self.take(&mut room[had..length]).is_err() {
                return Poll::Ready(Err(self.without_header(had)));
            }
            if let Some(source) = result {
                return Poll::Ready(Ok(source));
            }
            coming.kept.extend_from_slice(&room[had..length]);
            had = length;
        }
    }

    /// Reads the available bytes without consuming them.
    fn peek(
        &self,
        context: &mut Context<'_>,
        into: &mut [u8],
        was_asked: &mut bool,
    ) -> Poll<Result<usize, Errno>> {
        loop {
            let guard = match std::mem::replace(was_asked, true) {
                false => None,
                true => {
                    let Ok(io) = self.watched.io() else {
                        self.worker.counters.accept_errors.add(1);
                        return Poll::Ready(Err(Errno::NOMEM));
                    };
                    let Ok(guard) = ready!(io.poll_read_ready(context)) else {
                        return Poll::Ready(Err(Errno::IO));
                    };
                    Some(guard)
                }
            };
            match rustix::net::recv(self.watched.fd(), &mut *into, RecvFlags::PEEK) {
                Err(Errno::AGAIN) => guard.into_iter().for_each(|mut it| it.clear_ready()),
                Err(Errno::INTR) => {}
                looked => return Poll::Ready(looked.map(|it| it.0)),
            }
        }
    }

    /// Consumes the examined bytes.
    fn take(&self, mut looked_at: &mut [u8]) -> Result<(), Errno> {
        while !looked_at.is_empty() {
            match self.receive(looked_at) {
                Ok(0) => return Err(Errno::CONNRESET),
                Ok(count) => looked_at = &mut looked_at[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The error for a connection that ended after this many bytes.
    fn without_header(&self, had: usize) -> MissingPreamble {
        match (self.watched.expired(), had) {
            (Expired::No, 0) => MissingPreamble::Nothing,
            (Expired::No, _) => MissingPreamble::Cut,
            _ => MissingPreamble::Late,
        }
    }
}
