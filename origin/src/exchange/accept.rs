//! Accepting a request's body from the caller, checked against its announced length. `body_form` has its form; other
//! modules write it.

use super::{ExchangeLink, ExchangeState, Sending};
use crate::error::OriginError;
use bytes::Bytes;
use larder_semantics::field::FieldList;

impl ExchangeState {
    pub(super) fn accept(&mut self, bytes: Bytes) -> Result<(), OriginError> {
        if bytes.is_empty() {
            return Ok(()); // as a chunk it would end the body
        }
        if matches!(self.link, ExchangeLink::Closed) {
            return Err(self.failure());
        }
        let length = bytes.len() as u64;
        match self.sending {
            Sending::Length(left) if length <= left => {
                self.form.write_body(bytes, &mut self.unsent);
                self.sending = Sending::Length(left - length);
                if length == left {
                    self.form.end(None, &mut self.unsent);
                    self.sending = Sending::Done;
                }
            }
            Sending::Unsized => self.form.write_body(bytes, &mut self.unsent),
            Sending::Raw => self.unsent.push(bytes),
            Sending::Failed => return Err(OriginError::Disconnected),
            Sending::Length(_) | Sending::Done => return Err(self.abandon()),
        }
        self.awaits_continue = false;
        self.deadlines.read = None;
        Ok(())
    }

    pub(super) fn accept_end(&mut self, trailers: Option<&FieldList>) -> Result<(), OriginError> {
        match self.sending {
            Sending::Done => return Ok(()),
            _ if matches!(self.link, ExchangeLink::Closed) => return Err(self.failure()),
            Sending::Unsized => self.form.end(trailers, &mut self.unsent),
            Sending::Raw => {}
            Sending::Failed => return Err(OriginError::Disconnected),
            Sending::Length(_) => return Err(self.abandon()),
        }
        self.sending = Sending::Done;
        self.awaits_continue = false;
        Ok(())
    }

    /// The caller's body does not have its announced length: the origin sees a truncated request. That is not the
    /// origin's fault, so no failure is counted for it.
    fn abandon(&mut self) -> OriginError {
        self.give_up(OriginError::Disconnected);
        OriginError::Disconnected
    }
}
