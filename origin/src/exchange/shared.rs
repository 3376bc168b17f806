//! An exchange that goes over a stream of a shared connection: the same states, without a buffer and framing of its own. The stream is in
//! `http2::strand`.

use super::{ExchangeLink, ExchangeState, ResponsePhase, RetryDecision, Sending};
use crate::OriginError;
use crate::channel::Channel;
use crate::http2::{BodyResult, Closing, H2Stream};
use crate::send_buffer::Keeps;
use bytes::Bytes;
use larder_wire::message::{Framing, ResponseHead};
use std::task::{Context, Poll, ready};

/// How often a request is begun anew that its origin refused.
const MOST_REFUSALS: u32 = 2;

impl ExchangeState {
    /// Sends the head; what becomes of that is met when the response is read.
    pub(super) fn share_head(&mut self) {
        let ExchangeLink::Shared(strand) = &mut self.link else { return };
        strand.send_head(&self.request);
        // Whatever the method: an origin may refuse it unread.
        self.unsent.begin(Bytes::new(), 1, Keeps::Body);
    }

    /// Whether what was accepted of a body can be sent over `way`: chunks are no body in HTTP/2, and without them there is none in
    /// HTTP/1.1.
    pub(super) fn fits(&mut self, way: &Channel) -> bool {
        let is_shared = matches!(way, Channel::Shared(_));
        let is_chunked = matches!(self.request.framing, Framing::Chunked | Framing::Close);
        let is_begun = self.unsent.first().is_some() || self.sending != Sending::Chunked;
        let fits = is_shared == self.is_shared || !is_chunked || !is_begun;
        self.is_shared = is_shared;
        fits
    }

    /// Whether the end of the request was accepted, and the stream does not have it.
    pub(super) fn owes_an_end(&self) -> bool {
        matches!(&self.link, ExchangeLink::Shared(it) if self.sending == Sending::Done && !it.is_ended())
    }

    /// Whether the stream has all of the request that it will have.
    pub(super) fn is_sent_over(&self, strand: &H2Stream) -> bool {
        self.sending == Sending::Failed
            || self.sending == Sending::Done && self.unsent.is_empty() && strand.is_ended()
    }

    /// Hands over once, or rings one of the alarms.
    pub(super) fn poll_share(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let ExchangeLink::Shared(strand) = &mut self.link else {
            return Poll::Ready(Err(OriginError::Disconnected));
        };
        let closing = match (&self.our_trailers, self.sending) {
            (_, sending) if sending != Sending::Done => Closing::NotYet,
            (Some(trailers), _) => Closing::Trailers(trailers),
            (None, _) => Closing::End,
        };
        match strand.poll_send(&mut self.unsent, closing, cx) {
            Poll::Ready(Ok(())) => {
                self.deadlines.write = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(OriginError::Refused)) => Poll::Ready(Err(OriginError::Refused)),
            // Whoever reads is told what it was.
            Poll::Ready(Err(_)) => Poll::Ready(Err(OriginError::Disconnected)),
            Poll::Pending => {
                let Some(deadline) = self.deadlines.write(&self.origin.limits) else {
                    return Poll::Pending;
                };
                ready!(strand.write_alarm.poll(deadline, cx));
                strand.doubt();
                Poll::Ready(Err(OriginError::Timeout))
            }
        }
    }

    /// The next head; `None` where another stream or connection is being opened.
    pub(super) fn poll_shared_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<ResponseHead>, OriginError>> {
        let limit = self.origin.limits.head_size;
        let ExchangeLink::Shared(strand) = &mut self.link else { return Poll::Ready(Ok(None)) };
        let Poll::Ready(read) = strand.poll_head(self.request.line.method(), limit, cx) else {
            let error = ready!(self.poll_shared_silence(cx));
            return Poll::Ready(Err(error));
        };
        let response = match read {
            Ok(response) => response,
            Err(error) => {
                let again = match error {
                    OriginError::Refused => self.may_repeat_refused(),
                    OriginError::Disconnected | OriginError::NotHttp2 => self.may_repeat(),
                    _ => false,
                };
                if !again {
                    return Poll::Ready(Err(error));
                }
                self.repeat();
                return Poll::Ready(Ok(None));
            }
        };
        self.received += 1;
        self.unsent.forget();
        if response.status >= 200 && self.judge(response.status) == RetryDecision::Again {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(self.begin_response(&response).map(|()| Some(response)))
    }

    /// The origin did not begin with the request: takes back what it was sent, and says whether it may have it once more.
    pub(super) fn may_repeat_refused(&mut self) -> bool {
        if self.sending == Sending::Failed || !self.unsent.has_whole_body() {
            return false;
        }
        self.unsent.take_back();
        self.repeats < MOST_REFUSALS && !self.deadlines.is_over()
    }

    pub(super) fn poll_shared_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, OriginError>> {
        let ExchangeLink::Shared(strand) = &mut self.link else { return Poll::Ready(Err(self.failure())) };
        match strand.poll_next(cx) {
            Poll::Ready(Ok(BodyResult::Some(bytes))) => {
                self.deadlines.read = None;
                // An origin that always has a byte ready never makes us wait, and is bounded all the same.
                if strand.read_alarm.has_rung() && self.deadlines.is_over() {
                    return Poll::Ready(Err(self.fail(OriginError::Timeout)));
                }
                Poll::Ready(Ok(Some(bytes)))
            }
            Poll::Ready(Ok(BodyResult::End(trailers))) => {
                self.trailers = trailers;
                self.reading = ResponsePhase::Done;
                self.settle();
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.fail(error))),
            Poll::Pending => {
                let error = ready!(self.poll_shared_silence(cx));
                Poll::Ready(Err(self.fail(error)))
            }
        }
    }

    /// Ready once nothing has come for too long.
    fn poll_shared_silence(&mut self, cx: &mut Context<'_>) -> Poll<OriginError> {
        let is_sent = self.is_sent();
        let limits = self.origin.limits;
        let silence = match self.reading {
            ResponsePhase::Head if is_sent || self.awaits_continue => Some(limits.first_byte),
            ResponsePhase::Head => None,
            _ => Some(limits.between_bytes),
        };
        if silence.is_none() {
            self.deadlines.read = None;
        }
        if !is_sent {
            self.reader = Some(cx.waker().clone());
        }
        let ExchangeLink::Shared(strand) = &mut self.link else { return Poll::Pending };
        let Some(deadline) = self.deadlines.read(silence, &limits) else { return Poll::Pending };
        ready!(strand.read_alarm.poll(deadline, cx));
        strand.doubt();
        Poll::Ready(OriginError::Timeout)
    }
}
