//! The body of the current request: read by its framing, never further.

use super::connection::{DRAIN, Http1Connection};
use crate::client_socket::ClientGone;
use crate::worker::{ReadPhase, RequestLimits};
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http1::chunked::{ChunkStep, ChunkedDecoder};
use larder_wire::http1::write;
use larder_wire::message::{Framing, Request};
use std::future::poll_fn;

/// The state of reading the body.
#[derive(Debug, Default)]
pub(super) struct BodyState {
    left: BodyLeft,
    /// Bytes that may still come, by the limit of the route.
    remaining_limit: u64,
    /// Whether the client waits for `100 Continue`.
    awaits_continue: bool,
    trailers: Option<FieldList>,
    gone: Option<ClientGone>,
}

#[derive(Debug, Default)]
enum BodyLeft {
    /// The end was reached.
    #[default]
    Nothing,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

impl BodyState {
    /// `room` is the largest permitted body, `begun` whether bytes of it have arrived.
    pub fn new(request: &Request, room: u64, begun: bool) -> Self {
        let left = match request.framing {
            Framing::Length(length) => BodyLeft::Length(length),
            Framing::Chunked => BodyLeft::Chunked(Box::default()),
            Framing::Empty | Framing::Close => BodyLeft::Nothing,
        };
        // A client that already sends does not wait (RFC 9110 §10.1.1).
        let waits = request.expects_continue && !begun;
        Self { left, remaining_limit: room, awaits_continue: waits, ..Self::default() }
    }

    pub fn is_at_end(&self) -> bool {
        matches!(self.left, BodyLeft::Nothing) && self.gone.is_none()
    }

    /// Whether the connection cannot be kept if the body is not read further: too much may follow, or the client, which
    /// got no `100 Continue`, may or may not send it.
    pub fn is_too_long_to_drain(&self) -> bool {
        let long = match self.left {
            BodyLeft::Length(left) => left > DRAIN,
            BodyLeft::Nothing | BodyLeft::Chunked(_) => false,
        };
        long || self.awaits_continue && !self.is_at_end() || self.gone.is_some()
    }

    /// Whether a `100 Continue` is due; returns true only once.
    pub fn take_continue_due(&mut self) -> bool {
        std::mem::take(&mut self.awaits_continue) && !self.is_at_end()
    }

    /// The next bytes of body from `input`, as many as are available; `None` if more input is needed, or at the end.
    fn take(&mut self, input: &mut Vec<u8>) -> Result<Option<Bytes>, ClientGone> {
        let bytes = match &mut self.left {
            BodyLeft::Nothing => return Ok(None),
            BodyLeft::Length(left) if *left > self.remaining_limit => return Err(ClientGone::TooLarge),
            BodyLeft::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                if *left == 0 {
                    self.left = BodyLeft::Nothing;
                }
                split(input, count)
            }
            BodyLeft::Chunked(decoder) => {
                let (bytes, consumed, is_end) = decode(decoder, input)?;
                if is_end {
                    self.trailers = decoder.trailers();
                    self.left = BodyLeft::Nothing;
                }
                input.drain(..consumed);
                bytes
            }
        };
        self.remaining_limit =
            self.remaining_limit.checked_sub(bytes.len() as u64).ok_or(ClientGone::TooLarge)?;
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

/// All the data in `input`, chunks joined; the number of consumed bytes, and whether the body ends there.
fn decode(decoder: &mut ChunkedDecoder, input: &[u8]) -> Result<(Bytes, usize, bool), ClientGone> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        match decoder.step(rest).map_err(|_| ClientGone::Malformed)? {
            ChunkStep::Data { consumed, data } => {
                let rest = rest.get(consumed..).unwrap_or_default();
                let count = usize::try_from(data).unwrap_or(usize::MAX).min(rest.len());
                at += consumed + count;
                if count == 0 {
                    return Ok((bytes.into(), at, false));
                }
                if bytes.is_empty() {
                    bytes.reserve_exact(rest.len());
                }
                bytes.extend_from_slice(rest.get(..count).unwrap_or_default());
                decoder.took(count as u64);
            }
            ChunkStep::More { consumed } => return Ok((bytes.into(), at + consumed, false)),
            ChunkStep::End { consumed } => return Ok((bytes.into(), at + consumed, true)),
        }
    }
}

/// The first `count` bytes; all of them without a copy.
fn split(input: &mut Vec<u8>, count: usize) -> Bytes {
    if count == input.len() {
        return Bytes::from(std::mem::take(input));
    }
    let bytes = Bytes::copy_from_slice(input.get(..count).unwrap_or_default());
    input.drain(..bytes.len());
    bytes
}

/// The body of the current request.
pub(crate) struct Http1RequestBody<'c> {
    connection: &'c Http1Connection,
}

impl<'c> Http1RequestBody<'c> {
    pub(super) fn new(connection: &'c Http1Connection) -> Self {
        Self { connection }
    }

    /// Applies the limits of the route, before the first read.
    pub fn limit(&mut self, limits: &RequestLimits) {
        let room = &mut self.connection.body.borrow_mut().remaining_limit;
        *room = limits.body_size.min(*room);
        self.connection.link.watched.limit(limits.transfer);
    }

    /// The next bytes; `None` after the last. Sends `100 Continue` before the first read, if the client waits for it. May
    /// be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// The body is incomplete: the forwarded part must not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        loop {
            if let Some(found) = self.take()? {
                return Ok(Some(found));
            }
            if self.connection.body.borrow().is_at_end() {
                return Ok(None);
            }
            self.send_continue().await?;
            if let Err(gone) = self.fill().await {
                self.connection.body.borrow_mut().gone = Some(gone);
            }
        }
    }

    /// The bytes that have arrived already, without waiting or requesting any; `None` if there are none. A body whose
    /// announced length is too large is rejected here as well.
    ///
    /// # Errors
    /// As [`Http1RequestBody::next`].
    pub fn arrived(&mut self) -> Result<Option<Bytes>, ClientGone> {
        self.take()
    }

    /// Whether all of it has arrived and was taken.
    pub fn is_whole(&self) -> bool {
        self.connection.body.borrow().is_at_end()
    }

    /// The trailer section, after [`Http1RequestBody::next`] returned `None`.
    pub fn trailers(&mut self) -> Option<FieldList> {
        self.connection.body.borrow_mut().trailers.take()
    }

    /// Takes the available bytes, and counts an error in them.
    fn take(&mut self) -> Result<Option<Bytes>, ClientGone> {
        let mut body = self.connection.body.borrow_mut();
        if let Some(gone) = body.gone {
            return Err(gone);
        }
        let counters = &self.connection.link.worker.counters;
        let taken = body.take(&mut self.connection.input.borrow_mut());
        if let Err(gone) = taken {
            match gone {
                ClientGone::TooLarge => counters.body_too_large.add(1),
                _ => counters.requests_rejected.add(1),
            }
            body.gone = Some(gone);
        }
        taken
    }

    /// Sends `100 Continue` to a client that waits for it, unless it has its response.
    async fn send_continue(&self) -> Result<(), ClientGone> {
        let connection = self.connection;
        let due = connection.body.borrow_mut().take_continue_due();
        if !due || connection.has_answer.get() {
            return Ok(());
        }
        connection.link.with_output(|it| {
            write::status_line(100, it.text());
            it.text().extend_from_slice(b"\r\n");
        });
        connection.link.flush().await
    }

    /// Waits for more bytes from the client; of a body of known length, no more than that.
    async fn fill(&self) -> Result<(), ClientGone> {
        let connection = self.connection;
        let most = match connection.body.borrow().left {
            BodyLeft::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            BodyLeft::Nothing | BodyLeft::Chunked(_) => usize::MAX,
        };
        let watched = &connection.link.watched;
        let _wait = watched.read_while(ReadPhase::Body, connection.link.worker.times_of(watched).body);
        let read = poll_fn(|context| {
            let mut scratch = connection.link.worker.input.borrow_mut();
            let most = most.min(scratch.len());
            connection.link.read(context, &mut scratch[..most]).map_ok(|count| {
                connection.input.borrow_mut().extend_from_slice(&scratch[..count]);
                count
            })
        });
        match read.await {
            Ok(count) if count > 0 => Ok(()),
            _ => Err(connection.link.gone()),
        }
    }
}
