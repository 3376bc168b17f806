//! The body of one request, from its stream.

use super::StreamsLink;
use super::stream::ClientStream;
use super::waiting::{StreamSide, wait};
use crate::client_socket::ClientGone;
use crate::worker::RequestLimits;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http2::frame::EndFlag;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Bytes that are discarded of the body of an answered request.
const DRAIN: u64 = 1024 * 1024;
/// The longest silence of an answered client before its stream is reset, and the total time limit.
const SILENCE: Duration = Duration::from_secs(2);
const WHOLE: Duration = Duration::from_secs(10);

/// The body of one request.
pub(crate) struct StreamRequestBody {
    connection: Rc<dyn StreamsLink>,
    stream: Rc<ClientStream>,
}

impl StreamRequestBody {
    pub(crate) fn new(connection: Rc<dyn StreamsLink>, stream: Rc<ClientStream>) -> Self {
        Self { connection, stream }
    }

    /// Applies the limits of the route. Data that arrived before count. The connection itself has the longest limits of its
    /// requests.
    pub fn limit(&mut self, limits: &RequestLimits) {
        if !self.stream.is_tunnel {
            let body = &mut *self.stream.body.borrow_mut();
            match limits.body_size.checked_sub(body.received) {
                Some(room) => body.remaining_limit = room.min(body.remaining_limit),
                None if body.refused.is_none() => {
                    self.connection.worker().counters.body_too_large.add(1);
                    body.refused = Some(ClientGone::TooLarge);
                }
                None => {}
            }
        }
        if let Some(own) = limits.transfer {
            self.stream.limits.set(Some(own));
            self.connection.limit(own);
        }
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        if let Some(bytes) = self.arrived()? {
            return Ok(Some(bytes));
        }
        if self.stream.body.borrow().is_whole {
            return Ok(None);
        }
        let has_answer = self.stream.has_answer.get();
        let is_due = !has_answer && std::mem::take(&mut self.stream.body.borrow_mut().awaits_continue);
        if is_due {
            self.connection.write_head(&self.stream, 100, &mut std::iter::empty(), None, EndFlag::Open);
        }
        let came = || {
            let body = self.stream.body.borrow();
            body.is_whole || !body.bytes.is_empty() || body.refused.is_some()
        };
        let _ = wait(&*self.connection, &self.stream, StreamSide::Sends, came).await;
        self.arrived()
    }

    pub fn arrived(&mut self) -> Result<Option<Bytes>, ClientGone> {
        if let Some(gone) = self.stream.gone.get() {
            return Err(gone);
        }
        let part = {
            let body = &mut *self.stream.body.borrow_mut();
            if body.refused.is_none() && body.remaining.is_some_and(|it| it > body.remaining_limit) {
                self.connection.worker().counters.body_too_large.add(1);
                body.refused = Some(ClientGone::TooLarge);
            }
            match body.refused {
                Some(why) => return Err(why),
                None => body.bytes.take(),
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

    /// Discards the rest of the body of an answered request, within limits: a client that is reset while it sends may
    /// ignore its response, even if the reset signals no error (RFC 9113 §8.1). Beyond the limit it has no credit, and
    /// may cancel its body itself.
    pub async fn drain(self) {
        let (connection, stream) = (&self.connection, &self.stream);
        if !stream.is_answered() {
            return;
        }
        let mut seen = {
            let mut body = stream.body.borrow_mut();
            body.refused.get_or_insert(ClientGone::Closed);
            body.received - body.bytes.len() as u64
        };
        connection.return_credit(stream.take_unread());
        let most = seen + DRAIN;
        let is_over = || stream.gone.get().is_some() || stream.body.borrow().is_whole;
        let drained = async {
            while !is_over() {
                let came = stream.body.borrow().received;
                if came > seen && seen < most {
                    connection.extend_window(stream, u32::try_from(came - seen).unwrap_or(u32::MAX));
                    seen = came;
                }
                let changed = poll_fn(|context| {
                    if is_over() || stream.body.borrow().received > came {
                        return Poll::Ready(());
                    }
                    stream.wait(context);
                    Poll::Pending
                });
                if tokio::time::timeout(SILENCE, changed).await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(WHOLE, drained).await;
    }

    pub fn trailers(&mut self) -> Option<FieldList> {
        self.stream.body.borrow_mut().trailers.take()
    }
}
