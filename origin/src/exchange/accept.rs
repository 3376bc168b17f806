//! What the caller hands over of a request's body: framed, and held against what was announced. Writing it is not here.

use super::{ExchangeLink, ExchangeState, Sending};
use crate::OriginError;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http1::chunked;

impl ExchangeState {
    pub(super) fn accept(&mut self, bytes: Bytes) -> Result<(), OriginError> {
        if bytes.is_empty() {
            return Ok(()); // as a chunk it would end the body
        }
        if matches!(self.link, ExchangeLink::Closed) {
            return Err(self.failure());
        }
        match &mut self.sending {
            Sending::Length(left) if bytes.len() as u64 <= *left => {
                *left -= bytes.len() as u64;
                if *left == 0 {
                    self.sending = Sending::Done;
                }
                self.unsent.push(bytes);
            }
            Sending::Chunked if self.is_shared => self.unsent.push(bytes),
            Sending::Chunked => {
                let mut size = Vec::with_capacity(18);
                chunked::write_size(bytes.len(), &mut size);
                self.unsent.push(size.into());
                self.unsent.push(bytes);
                self.unsent.push(Bytes::from_static(b"\r\n"));
            }
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
            Sending::Chunked if self.is_shared => {
                self.our_trailers = trailers.cloned();
                self.sending = Sending::Done;
            }
            Sending::Chunked => {
                let mut end = Vec::with_capacity(5);
                chunked::write_end(trailers, &mut end);
                self.unsent.push(end.into());
                self.sending = Sending::Done;
            }
            Sending::Raw => self.sending = Sending::Done,
            Sending::Failed => return Err(OriginError::Disconnected),
            Sending::Length(_) => return Err(self.abandon()),
        }
        self.awaits_continue = false;
        Ok(())
    }

    /// The caller's body is not as long as announced: the origin sees a request that is cut short. Not the
    /// origin's fault, so nothing is counted against it.
    fn abandon(&mut self) -> OriginError {
        self.give_up(OriginError::Disconnected);
        OriginError::Disconnected
    }
}
