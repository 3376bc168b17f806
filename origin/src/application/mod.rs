//! FastCGI, SCGI and uWSGI towards an application: one request and its response on an exclusive connection. The bytes of each
//! protocol are in `wire`, the variables of a request in `semantics`; `exchange` decides what is sent when.
//!
//! ```text
//! Head ── Body ── Whole      the end is a record (FastCGI), or the end of the connection
//! ```

pub(crate) mod response;

use crate::body_form::BodyForm;
use crate::connection::{OriginConnection, Persistence};
use crate::error::OriginError;
use crate::protocol::{ApplicationProtocol, Event, Reusable};
use crate::request::OutgoingRequest;
use crate::send_buffer::SendBuffer;
use bytes::Buf;
use larder_wire::fastcgi::{self, ConnectionUse, FastCgiEnd, RecordReader, RecordStep};
use larder_wire::{scgi, uwsgi};
use response::{ApplicationOutput, TakenOutput};
use std::task::{Context, Poll, ready};

/// An exchange on its connection.
pub(crate) struct ApplicationExchange {
    pub(crate) connection: Box<OriginConnection>,
    protocol: ApplicationProtocol,
    records: RecordReader,
    output: ApplicationOutput,
    /// How the response ended, once it has.
    end: Option<FastCgiEnd>,
    /// The variables exceed the limit of the protocol: nothing of them was sent.
    is_too_large: bool,
    /// The bytes of the variables in the uwsgi protocol.
    block: usize,
}

impl ApplicationExchange {
    pub(crate) fn new(protocol: ApplicationProtocol, connection: Box<OriginConnection>) -> Self {
        let (records, output) = (RecordReader::default(), ApplicationOutput::default());
        Self { connection, protocol, records, output, end: None, is_too_large: false, block: 0 }
    }

    /// Writes the variables, and leaves to [`ApplicationExchange::poll_write`] the bytes that are not sent at once.
    pub(crate) fn write_head(
        &mut self,
        request: &OutgoingRequest,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) {
        let Self { connection, protocol, is_too_large, block, .. } = self;
        let persistence = connection.shared.persistence;
        let write = |head: &mut Vec<u8>| {
            let variables = request.variables();
            let pairs = variables.iter().map(|it| (it.name.as_bytes(), it.value));
            match protocol {
                ApplicationProtocol::FastCgi => {
                    let after = match persistence {
                        Persistence::Keep => ConnectionUse::Keep,
                        Persistence::Close => ConnectionUse::Close,
                    };
                    fastcgi::begin(after, pairs, head);
                    if !request.has_body() {
                        fastcgi::input_header(0, head);
                    }
                }
                ApplicationProtocol::Scgi => scgi::begin(request.length().unwrap_or(0), pairs, head),
                ApplicationProtocol::Uwsgi => {
                    *is_too_large = uwsgi::begin(pairs, head).is_err();
                    *block = head.len().saturating_sub(uwsgi::HEADER);
                }
            }
        };
        connection.send_head(write, request, unsent, cx);
    }

    /// The bytes of a block of variables that is larger than uWSGI reads unless it is configured.
    pub(crate) fn large_block(&self) -> Option<usize> {
        Some(self.block).filter(|it| *it > uwsgi::DEFAULT_BUFFER)
    }

    /// The form of the body of a request.
    pub(crate) fn body_form(&self) -> BodyForm {
        match self.protocol {
            ApplicationProtocol::FastCgi => BodyForm::Records,
            ApplicationProtocol::Scgi | ApplicationProtocol::Uwsgi => BodyForm::Plain,
        }
    }

    /// Writes once from the unsent bytes.
    pub(crate) fn poll_write(
        &mut self,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        if self.is_too_large {
            return Poll::Ready(Err(OriginError::VariablesTooLarge));
        }
        self.connection.poll_send(unsent, cx)
    }

    /// The next event of the response: from the buffer, otherwise from one read.
    pub(crate) fn poll_read(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, OriginError>> {
        if self.is_too_large {
            return Poll::Ready(Err(OriginError::VariablesTooLarge));
        }
        if let Some(event) = self.take(method, limit)? {
            return Poll::Ready(Ok(event));
        }
        Poll::Ready(match ready!(self.connection.poll_read(self.output.expects(), cx)) {
            // The connection of these protocols is the response; with records, its end is one.
            Ok(0) if self.protocol != ApplicationProtocol::FastCgi => {
                self.output.end().map(|it| Event::End(it, None))
            }
            Ok(0) | Err(_) => Err(OriginError::Disconnected),
            Ok(_) => Ok(Event::More),
        })
    }

    /// Waits until a part of the response is here, and leaves it in place.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        self.connection.poll_answered(cx)
    }

    fn take(&mut self, method: &str, limit: usize) -> Result<Option<Event>, OriginError> {
        loop {
            match self.output.take(method, limit)? {
                TakenOutput::Head(head) => return Ok(Some(Event::Head(head))),
                TakenOutput::Body(bytes) => return Ok(Some(Event::Body(bytes))),
                TakenOutput::Nothing => {}
            }
            let buffer = &mut self.connection.buffer;
            if self.protocol != ApplicationProtocol::FastCgi {
                if buffer.is_empty() {
                    return Ok(None);
                }
                self.output.add(buffer.split().freeze());
                continue;
            }
            if self.end.is_some() {
                return Ok(None);
            }
            match self.records.step(buffer).map_err(OriginError::BadRecord)? {
                RecordStep::More { consumed } => {
                    buffer.advance(consumed);
                    return Ok(None);
                }
                RecordStep::Output { consumed, data } => {
                    buffer.advance(consumed);
                    let piece = buffer.split_to(data.min(buffer.len())).freeze();
                    self.records.took(piece.len());
                    self.output.add(piece);
                }
                RecordStep::Error { consumed, data } => {
                    buffer.advance(consumed);
                    let piece = buffer.split_to(data.min(buffer.len()));
                    self.records.took(piece.len());
                    self.connection.shared.note_error_output(&piece);
                }
                RecordStep::End { consumed, end } => {
                    buffer.advance(consumed);
                    self.end = Some(end);
                    return self.finish(end).map(Some);
                }
            }
        }
    }

    /// The response ended: whole, unless the application says otherwise.
    fn finish(&mut self, end: FastCgiEnd) -> Result<Event, OriginError> {
        match end {
            FastCgiEnd::Complete => self.output.end().map(|it| Event::End(it, None)),
            // Its output may be cut: it is not passed off as whole.
            FastCgiEnd::Failed(status) => Err(OriginError::ApplicationFailed(status)),
            FastCgiEnd::Rejected(_) => Err(OriginError::Refused),
        }
    }

    /// Whether the response is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.output.is_whole()
    }

    /// Whether the connection may be reused, now that the response is complete.
    pub(crate) fn reusable(&self) -> Reusable {
        let is_kept = self.connection.shared.persistence == Persistence::Keep;
        match self.end {
            Some(_) if self.records.padding() == 0 && is_kept => match self.connection.buffer.is_empty() {
                true => Reusable::Yes,
                false => Reusable::Surplus,
            },
            _ => Reusable::No,
        }
    }
}
