//! The body of the request that is being answered: read by its framing, never further.

use super::ClientGone;
use super::connection::Connection;
use crate::worker::Phase;
use bytes::{Bytes, BytesMut};
use larder_semantics::field::FieldList;
use larder_wire::http1::chunked::{Decoder, Step};
use larder_wire::http1::request::Request;
use larder_wire::http1::{Framing, write};
use std::future::poll_fn;
use std::time::Duration;

/// Bytes that one read asks for.
const READ: usize = 16 * 1024;

/// How far the body has been read.
#[derive(Debug, Default)]
pub(super) struct BodyState {
    left: Left,
    taken: u64,
    waits: bool,
    trailers: Option<FieldList>,
    gone: Option<ClientGone>,
}

#[derive(Debug, Default)]
enum Left {
    /// The end was reached.
    #[default]
    Nothing,
    Length(u64),
    Chunked(Box<Decoder>),
}

impl BodyState {
    pub fn new(request: &Request) -> Self {
        let left = match request.framing {
            Framing::Length(length) => Left::Length(length),
            Framing::Chunked => Left::Chunked(Box::default()),
            Framing::Empty | Framing::Close => Left::Nothing,
        };
        Self { left, waits: request.expects_continue, ..Self::default() }
    }

    pub fn is_at_end(&self) -> bool {
        matches!(self.left, Left::Nothing)
    }

    /// The client sends nothing until it is told to.
    pub fn waits_for_continue(&self) -> bool {
        self.waits && !self.is_at_end()
    }

    /// Whether so much may follow that it would not be read to its end after the response.
    pub fn is_long(&self) -> bool {
        match self.left {
            Left::Length(left) => left > super::connection::DRAIN,
            Left::Nothing | Left::Chunked(_) => self.gone.is_some(),
        }
    }
}

/// The body of the request that is being answered.
pub struct RequestBody<'c> {
    connection: &'c Connection,
}

impl<'c> RequestBody<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection }
    }

    /// The next bytes; `None` after the last. Sends `100 Continue` before the first read, if the client
    /// waits for one.
    ///
    /// # Errors
    /// The body did not arrive whole: what was forwarded must not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        let connection = self.connection;
        if let Some(gone) = connection.body.borrow().gone {
            return Err(gone);
        }
        if connection.body.borrow().waits_for_continue() {
            connection.body.borrow_mut().waits = false;
            connection.with_output(|it| {
                write::status_line(100, it.text());
                it.text().extend_from_slice(b"\r\n");
            });
            connection.flush().await?;
        }
        let next = self.read().await;
        if let Err(gone) = next {
            connection.body.borrow_mut().gone = Some(gone);
        }
        next
    }

    /// The trailer section, after [`RequestBody::next`] returned `None`.
    pub fn trailers(&mut self) -> Option<FieldList> {
        self.connection.body.borrow_mut().trailers.take()
    }

    async fn read(&mut self) -> Result<Option<Bytes>, ClientGone> {
        let connection = self.connection;
        loop {
            if connection.body.borrow().is_at_end() {
                return Ok(None);
            }
            if let Some(bytes) = self.take()? {
                let most = connection.worker.limits().body_size;
                let mut body = connection.body.borrow_mut();
                body.taken += bytes.len() as u64;
                if body.taken > most {
                    connection.worker.counters.body_too_large.add(1);
                    return Err(ClientGone::TooLarge);
                }
                return Ok(Some(bytes));
            }
            if connection.body.borrow().is_at_end() {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    /// The next bytes of body out of what was read already.
    fn take(&mut self) -> Result<Option<Bytes>, ClientGone> {
        let mut input = self.connection.input.borrow_mut();
        let mut body = self.connection.body.borrow_mut();
        let body = &mut *body;
        match &mut body.left {
            Left::Nothing => Ok(None),
            Left::Length(left) => {
                if *left > self.connection.worker.limits().body_size {
                    self.connection.worker.counters.body_too_large.add(1);
                    return Err(ClientGone::TooLarge);
                }
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                if count == 0 {
                    return Ok(None);
                }
                *left -= count as u64;
                if *left == 0 {
                    body.left = Left::Nothing;
                }
                Ok(Some(split(&mut input, count)))
            }
            Left::Chunked(decoder) => match decoder.step(&input).map_err(|_| ClientGone::Malformed)? {
                Step::Data { consumed, data } => {
                    input.drain(..consumed);
                    let count = usize::try_from(data).unwrap_or(usize::MAX).min(input.len());
                    if count == 0 {
                        return Ok(None);
                    }
                    decoder.took(count as u64);
                    Ok(Some(split(&mut input, count)))
                }
                Step::More { consumed } => {
                    input.drain(..consumed);
                    Ok(None)
                }
                Step::End { consumed } => {
                    input.drain(..consumed);
                    body.trailers = decoder.trailers();
                    body.left = Left::Nothing;
                    Ok(None)
                }
            },
        }
    }

    /// Waits for more bytes from the client.
    async fn fill(&mut self) -> Result<(), ClientGone> {
        let connection = self.connection;
        connection.watched.enter(Phase::Body, connection.worker.limits().body_timeout);
        let mut chunk = BytesMut::zeroed(READ);
        let read = poll_fn(|context| connection.read(context, &mut chunk)).await;
        connection.watched.enter(Phase::Answer, Duration::ZERO);
        match read {
            Ok(count) if count > 0 => {
                connection.input.borrow_mut().extend_from_slice(&chunk[..count]);
                Ok(())
            }
            _ => Err(connection.gone()),
        }
    }
}

/// The first `count` bytes; all of them without a copy.
fn split(input: &mut Vec<u8>, count: usize) -> Bytes {
    if count == input.len() {
        return Bytes::from(std::mem::take(input));
    }
    let bytes = Bytes::copy_from_slice(&input[..count]);
    input.drain(..count);
    bytes
}
