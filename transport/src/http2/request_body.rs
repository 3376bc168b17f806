//! The body of one request, as its stream brings it.

use super::connection::Shared;
use super::stream::Stream;
use super::waiting::{Side, wait};
use crate::http1::DRAIN;
use crate::link::ClientGone;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http2::frame::End;
use std::rc::Rc;

/// The body of one request.
pub(crate) struct RequestBody {
    connection: Shared,
    stream: Rc<Stream>,
}

impl RequestBody {
    pub(super) fn new(connection: Shared, stream: Rc<Stream>) -> Self {
        Self { connection, stream }
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        if let Some(bytes) = self.arrived()? {
            return Ok(Some(bytes));
        }
        if self.stream.body.borrow().is_whole {
            return Ok(None);
        }
        let has_answer = self.stream.has_answer.get();
        let is_due = !has_answer && std::mem::take(&mut self.stream.body.borrow_mut().waits);
        if is_due {
            self.connection.write_head(self.stream.id, 100, std::iter::empty(), End::Open);
        }
        let came = || {
            let body = self.stream.body.borrow();
            body.is_whole || !body.bytes.is_empty() || body.refused.is_some()
        };
        let _ = wait(&self.connection, &self.stream, Side::Sends, came).await;
        self.arrived()
    }

    pub fn arrived(&mut self) -> Result<Option<Bytes>, ClientGone> {
        if let Some(gone) = self.stream.gone.get() {
            return Err(gone);
        }
        let part = {
            let body = &mut *self.stream.body.borrow_mut();
            if body.refused.is_none() && body.left.is_some_and(|it| it > body.room) {
                self.connection.link.worker.counters.body_too_large.add(1);
                body.refused = Some(ClientGone::TooLarge);
            }
            match body.refused {
                Some(why) => return Err(why),
                None => Some(std::mem::take(&mut body.bytes)).filter(|it| !it.is_empty()).map(Bytes::from),
            }
        };
        if let Some(part) = &part {
            self.connection.give_credit(&self.stream, part.len());
        }
        Ok(part)
    }

    pub fn is_whole(&self) -> bool {
        let body = self.stream.body.borrow();
        body.is_whole && body.bytes.is_empty()
    }

    /// Reads what is left of the body of a request that was answered, within bounds: a client that is reset for what it sends
    /// may not look at its answer.
    pub async fn drain(mut self) {
        let is_worth_it = {
            let body = self.stream.body.borrow();
            let is_long = body.left.is_some_and(|it| it > DRAIN);
            self.stream.is_answered() && !is_long && !body.waits && body.refused.is_none()
        };
        if !is_worth_it {
            return;
        }
        let mut left = DRAIN;
        while let Ok(Some(bytes)) = self.next().await {
            match left.checked_sub(bytes.len() as u64) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }

    pub fn trailers(&mut self) -> Option<FieldList> {
        self.stream.body.borrow_mut().trailers.take()
    }
}
