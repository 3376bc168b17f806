//! An exclusive connection to an origin, used by one exchange at a time: its socket, its read buffer, its alarms. This
//! module does not know the meaning of the bytes.

use crate::deadline::Alarms;
use crate::error::OriginError;
use crate::request::OutgoingRequest;
use crate::send_buffer::{BodyRetention, SLICES, SendBuffer};
use crate::socket::{RawSocket, through_either};
use crate::tls::{TlsStream, UnsolicitedData};
use bytes::{Bytes, BytesMut};
use larder_counters::Counters;
use larder_stdx::descriptors::HeldDescriptor;
use larder_wire::proxy::ConnectionEnds;
use socket2::SockRef;
use std::cell::{OnceCell, RefCell};
use std::future::Future;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Room for the first read of a response.
const SMALL_READ: usize = 16 * 1024;
/// Room for a read within a body that is known or seen to be large, and is taken soon.
const LARGE_READ: usize = 64 * 1024;
/// A buffer with less room than this is not read into.
const LEAST_ROOM: usize = 4 * 1024;
/// The largest head that is kept in the shared buffer; a larger one frees its memory.
const SCRATCH: usize = 64 * 1024;
/// Read buffers that a worker keeps for one origin while no connection has bytes in them.
const SPARE_BUFFERS: usize = 8;

/// The state of an unused connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleState {
    /// Open, and no bytes arrived.
    Open,
    /// Closed, or broken.
    Closed,
    /// Bytes arrived without a request.
    UnexpectedBytes,
}

/// A connection's socket, or TLS over it.
pub(crate) enum OriginSocket {
    Plain(RawSocket),
    Tls(Box<TlsStream>),
}

through_either!(OriginSocket: Plain, Tls);

/// Whether an exchange is the first on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// Just opened.
    Fresh,
    /// From the pool: the origin may have closed it meanwhile.
    Reused,
}

/// Whether the request announces the end of the connection (RFC 9112 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// The connection may be reused.
    Keep,
    /// It ends.
    Close,
}

/// Shared by the connections of one worker to one origin.
pub(crate) struct ConnectionShare {
    pub(crate) counters: Arc<Counters>,
    spares: SpareBuffers,
    /// The buffer in which a request head is written before it is sent.
    scratch: RefCell<Vec<u8>>,
    pub(crate) persistence: Persistence,
    /// The receiver of what applications write to their error output.
    pub(crate) error_output: OnceCell<ErrorOutputReport>,
}

/// Receives a part of an application's error output, as it arrives.
pub type ErrorOutputReport = Box<dyn Fn(&[u8])>;

impl ConnectionShare {
    pub(crate) fn new(counters: Arc<Counters>, persistence: Persistence) -> Rc<Self> {
        Rc::new(Self {
            counters,
            spares: SpareBuffers::default(),
            scratch: RefCell::default(),
            persistence,
            error_output: OnceCell::new(),
        })
    }

    /// Reports a part of an application's error output.
    pub(crate) fn note_error_output(&self, text: &[u8]) {
        if let Some(report) = self.error_output.get() {
            report(text);
        }
    }
}

/// One connection. Its owners hold it behind a pointer, which moves from the pool to each exchange and back.
pub(crate) struct OriginConnection {
    stream: OriginSocket,
    pub(crate) shared: Rc<ConnectionShare>,
    /// Received and not taken yet.
    pub(crate) buffer: BytesMut,
    /// Whether it comes from the pool.
    pub(crate) history: History,
    /// Room for the next read.
    read_size: usize,
    /// Room for any read.
    most: usize,
    pub(crate) alarms: Alarms,
    /// The client in the PROXY header that it began with.
    pub(crate) client: Option<Box<ConnectionEnds>>,
    _held: HeldDescriptor,
}

impl OriginConnection {
    pub(crate) fn new(stream: OriginSocket, shared: Rc<ConnectionShare>) -> Self {
        Self {
            stream,
            shared,
            buffer: BytesMut::new(),
            history: History::Fresh,
            read_size: SMALL_READ,
            most: LARGE_READ,
            alarms: Alarms::default(),
            client: None,
            _held: HeldDescriptor::for_clients(),
        }
    }

    /// The same, for requests of this client only.
    pub(crate) fn of(self, client: Option<ConnectionEnds>) -> Self {
        Self { client: client.map(Box::new), ..self }
    }

    /// Checks, without waiting, whether the origin closed the connection or sent bytes.
    ///
    /// This asks the kernel, not the readiness that the runtime has seen so far: bytes that arrived a moment ago would
    /// otherwise become the response to the next request.
    pub(crate) fn check_idle(&mut self) -> IdleState {
        let socket = match &mut self.stream {
            OriginSocket::Plain(socket) => socket,
            // TLS sends data of its own: above all tickets, after the handshake.
            OriginSocket::Tls(it) => {
                return match it.check_idle(|socket, bytes| socket.as_socket(|it| (&*it).read(bytes))) {
                    UnsolicitedData::Nothing => IdleState::Open,
                    UnsolicitedData::Bytes => IdleState::UnexpectedBytes,
                    UnsolicitedData::End => IdleState::Closed,
                };
            }
        };
        let mut byte = [MaybeUninit::uninit()];
        match socket.as_socket(|it| it.peek(&mut byte)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => IdleState::Open,
            Ok(0) | Err(_) => IdleState::Closed,
            Ok(_) => IdleState::UnexpectedBytes,
        }
    }

    /// Prepares it for the pool.
    pub(crate) fn make_idle(&mut self) {
        self.history = History::Reused;
        (self.read_size, self.most) = (SMALL_READ, LARGE_READ);
        self.shared.spares.give(std::mem::take(&mut self.buffer));
    }

    /// Reads once into the buffer; 0 is the end. `expects` is the least number of bytes known to follow. While it waits,
    /// a connection holds no buffer.
    pub(crate) fn poll_read(&mut self, expects: u64, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.capacity() == 0 {
            self.buffer = self.shared.spares.take();
        }
        if self.buffer.capacity() - self.buffer.len() < LEAST_ROOM {
            let size = if expects > SMALL_READ as u64 { LARGE_READ } else { self.read_size };
            self.buffer.reserve(size.min(self.most));
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let read = {
            let once = pin!(self.stream.read_buf(&mut self.buffer));
            once.poll(cx)
        };
        match &read {
            Poll::Pending if self.buffer.is_empty() => {
                self.shared.spares.give(std::mem::take(&mut self.buffer))
            }
            Poll::Ready(Ok(length)) => {
                self.shared.counters.origin_bytes_received.add(*length as u64);
                if *length == room {
                    self.read_size = LARGE_READ;
                }
            }
            _ => {}
        }
        read
    }

    /// From now on reads are small: the bytes are not taken soon, and many connections may be in this state.
    pub(crate) fn limit_reads(&mut self) {
        self.most = SMALL_READ;
    }

    /// Closes larder's side.
    pub(crate) fn poll_shut(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Sends the head that `write` appends as far as possible at once, and leaves the rest in `unsent`. The next write reports an error.
    pub(crate) fn send_head(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
        request: &OutgoingRequest,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) {
        let mut head = self.shared.scratch.take();
        head.clear();
        write(&mut head);
        let written = match &self.stream {
            // tokio has no event of a new socket yet, and would wait for one.
            OriginSocket::Plain(RawSocket::Unix(it)) if self.history == History::Fresh => {
                Poll::Ready(SockRef::from(it).send(&head).inspect(|it| self.count_sent(*it)))
            }
            _ => self.poll_write(&[io::IoSlice::new(&head)], cx),
        };
        let taken = match written {
            Poll::Ready(Ok(length)) => length,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        let retention = if request.is_idempotent() { BodyRetention::Body } else { BodyRetention::Nothing };
        unsent.begin(Bytes::copy_from_slice(head.get(taken..).unwrap_or_default()), taken, retention);
        if head.capacity() <= SCRATCH {
            self.shared.scratch.replace(head);
        }
    }

    /// Waits until a part of the response is here, and leaves it in place.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        Poll::Ready(match ready!(self.poll_read(0, cx)) {
            Ok(0) | Err(_) => Err(OriginError::Disconnected),
            Ok(_) => Ok(()),
        })
    }

    /// Writes once from the unsent bytes of a request.
    pub(crate) fn poll_send(
        &mut self,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        let mut slices = [io::IoSlice::new(&[]); SLICES];
        let count = unsent.slices(&mut slices);
        let written = ready!(self.poll_write(&slices[..count], cx));
        Poll::Ready(match written {
            Ok(length) => {
                unsent.took(length);
                Ok(())
            }
            Err(_) => Err(OriginError::Disconnected),
        })
    }

    /// Writes once.
    pub(crate) fn poll_write(
        &mut self,
        slices: &[io::IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let written = match slices {
            [one] => ready!(Pin::new(&mut self.stream).poll_write(cx, one)),
            _ => ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices)),
        };
        Poll::Ready(match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                self.count_sent(length);
                Ok(length)
            }
            Err(error) => Err(error),
        })
    }

    fn count_sent(&self, length: usize) {
        self.shared.counters.origin_bytes_sent.add(length as u64);
    }
}

/// Read buffers between two uses: the connections of one worker to one origin share them, so that thousands of waiting
/// connections hold none.
#[derive(Default)]
struct SpareBuffers(RefCell<Vec<BytesMut>>);

impl SpareBuffers {
    fn take(&self) -> BytesMut {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    fn give(&self, mut buffer: BytesMut) {
        let mut spares = self.0.borrow_mut();
        buffer.clear();
        if spares.len() < SPARE_BUFFERS && (1..=LARGE_READ).contains(&buffer.capacity()) {
            spares.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    /// The size of reads of a body that is known to be long: large, unless it is not taken soon, and large again for the next exchange.
    #[tokio::test]
    async fn a_large_body_that_is_read_slowly_is_read_in_small_pieces() {
        let (ours, mut origin) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = tokio::net::UnixStream::from_std(ours).unwrap();
        let shared = ConnectionShare::new(Arc::default(), Persistence::Keep);
        let mut it = OriginConnection::new(OriginSocket::Plain(RawSocket::Unix(socket)), shared);
        let mut read = async |it: &mut OriginConnection| {
            origin.write_all(&[b'x'; LARGE_READ]).unwrap();
            let mut sizes = Vec::new();
            while sizes.iter().sum::<usize>() < LARGE_READ {
                sizes.push(poll_fn(|cx| it.poll_read(1 << 20, cx)).await.unwrap());
                drop(it.buffer.split());
            }
            it.buffer = BytesMut::new();
            sizes
        };
        assert_eq!(vec![LARGE_READ], read(&mut it).await);
        it.limit_reads();
        assert_eq!(vec![SMALL_READ; 4], read(&mut it).await);
        it.make_idle();
        it.buffer = BytesMut::new();
        assert_eq!(vec![LARGE_READ], read(&mut it).await);
    }
}
