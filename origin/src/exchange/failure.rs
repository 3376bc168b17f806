//! Premature ends of an exchange: the counters, and the remaining state. `retry` decides whether it is repeated.

use super::{ExchangeLink, ExchangeState, ResponsePhase, Sending};
use crate::codec::Codec;
use crate::error::OriginError;
use larder_wire::message::BadResponse;

impl ExchangeState {
    /// Fails: closes the connection, and every later call returns the reason.
    pub(super) fn fail(&mut self, error: OriginError) -> OriginError {
        if let ResponsePhase::Failed(first) = &self.reading {
            return first.clone();
        }
        let counters = &self.origin.counters;
        match &error {
            OriginError::Timeout(_) => counters.origin_timeouts.add(1),
            OriginError::InterimFlood => counters.origin_interim_flood.add(1),
            OriginError::BadHead(BadResponse::TooLarge) => counters.origin_head_too_large.add(1),
            OriginError::BadHead(BadResponse::TooManyFields) => counters.origin_too_many_fields.add(1),
            OriginError::BadHead(_)
            | OriginError::BadBody
            | OriginError::BadRecord(_)
            | OriginError::ApplicationFailed(_)
            | OriginError::NotHttp2
            | OriginError::Disconnected
            | OriginError::BlockUnanswered(_)
            | OriginError::ProgramEnded(_) => {
                counters.origin_bad_responses.add(1);
            }
            // Counted where it occurred.
            OriginError::Connect(_)
            | OriginError::ConnectTimeout
            | OriginError::Tls(_)
            | OriginError::NoDescriptor
            | OriginError::Refused
            | OriginError::Unrepresentable
            | OriginError::VariablesTooLarge
            | OriginError::LocalFailure(..)
            | OriginError::Busy
            | OriginError::Ejected
            | OriginError::Drained
            | OriginError::Status(_) => {}
        }
        self.give_up(error.clone());
        error
    }

    /// Closes the connection. A complete response stays; any other has failed with `error`.
    pub(super) fn give_up(&mut self, error: OriginError) {
        if !matches!(self.reading, ResponsePhase::Done) {
            self.reading = ResponsePhase::Failed(error);
        }
        if !self.is_sent() {
            self.sending = Sending::Failed;
            self.unsent.clear();
        }
        self.close();
        self.wake_reader();
    }

    pub(super) fn close(&mut self) {
        self.link = ExchangeLink::Closed;
        self.permit = None;
    }

    /// The reason of a connection that was closed without a response, where the request itself may be one.
    pub(super) fn reason(&self, error: OriginError) -> OriginError {
        let block = match (&error, &self.link) {
            (OriginError::Disconnected, ExchangeLink::Open(Codec::Application(it))) => it.large_block(),
            _ => None,
        };
        block.filter(|_| !self.has_received).map_or(error, OriginError::BlockUnanswered)
    }

    /// The error of an exchange whose connection is gone.
    pub(super) fn failure(&self) -> OriginError {
        match &self.reading {
            ResponsePhase::Failed(error) => error.clone(),
            _ => OriginError::Disconnected,
        }
    }
}
