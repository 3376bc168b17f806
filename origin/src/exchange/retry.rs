//! Repeating a request: on a fresh connection in place of a reused one that ended, or at another origin of the group.
//! This module decides what may be repeated; `group` decides how often and where.

use super::{ExchangeLink, ExchangeState, ResponsePhase, Sending};
use crate::codec::Codec;
use crate::connection::History;
use crate::error::OriginError;
use crate::group::GroupAttempt;
use crate::pool::Permit;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// How often a request that its origin refused is repeated.
const MOST_REFUSALS: u32 = 2;

/// A connection that is being opened in place of a failed one.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<OpenedChannel, OriginError>>>>;

/// That connection.
pub(super) struct OpenedChannel {
    codec: Codec,
    /// Its origin, if that is another one.
    elsewhere: Option<(Permit, GroupAttempt)>,
}

/// Whether an error of an exchange leads to a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// It does: the exchange continues.
    Retry,
    /// It does not: the exchange has failed, or continues with its response.
    Fail,
}

impl ExchangeState {
    /// Ready once there is a connection and its head is being written.
    pub(super) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        while let ExchangeLink::Opening { opening, is_elsewhere } = &mut self.link {
            let is_elsewhere = *is_elsewhere;
            match ready!(opening.as_mut().poll(cx)) {
                Ok(OpenedChannel { codec, elsewhere }) => {
                    if let Some((permit, attempt)) = elsewhere {
                        self.origin = permit.origin().clone();
                        self.origin.count_repetition();
                        (self.permit, self.attempt) = (Some(permit), Some(attempt));
                    }
                    if !self.fits(&codec) {
                        return Poll::Ready(Err(self.fail(OriginError::Disconnected)));
                    }
                    self.link = ExchangeLink::Open(codec);
                    self.send_head(cx);
                    self.wake_reader();
                }
                // The opening code has reported each origin.
                Err(error) if is_elsewhere => {
                    self.is_reported.set(true);
                    return Poll::Ready(Err(self.fail(error)));
                }
                Err(error) => {
                    if self.retry_elsewhere(&error) == RetryDecision::Fail {
                        return Poll::Ready(Err(self.fail(error)));
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the request may be sent again on another connection to its origin (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
    pub(super) fn may_repeat(&self) -> bool {
        let ExchangeLink::Open(codec) = &self.link else { return false };
        // A process of an application may die with a request that it has just been given.
        let is_application = matches!(codec, Codec::Application(_));
        let may_have_died = is_application || codec.history() == History::Reused;
        // A second process may die as well, where all of them are restarted. A request that ends its process is not sent for ever.
        let has_budget = || self.attempt.as_ref().is_some_and(GroupAttempt::has_budget);
        let is_first = self.repeats == 0 || is_application && self.repeats == 1 && has_budget();
        let died_unused = may_have_died && !self.has_received && is_first;
        // Without its body a request of HTTP is incomplete, so the origin cannot have acted on it. A script begins without.
        let unread = !is_application && self.request.has_body() && self.unsent.body_taken() == 0;
        let harmless = self.request.is_idempotent() && self.unsent.has_whole_body();
        died_unused && (unread || harmless || self.unsent.head_taken() == 0)
    }

    /// The origin refused the request unprocessed: takes back the sent bytes, and returns whether it may be repeated.
    pub(super) fn may_repeat_refused(&mut self) -> bool {
        if self.sending == Sending::Failed || !self.unsent.has_whole_body() {
            return false;
        }
        self.unsent.take_back();
        self.repeats < MOST_REFUSALS && !self.deadlines.is_over()
    }

    /// Whether this codec can send the accepted part of the body, which has the previous codec's form.
    fn fits(&mut self, codec: &Codec) -> bool {
        let form = codec.body_form(&self.request);
        let is_begun = self.unsent.first().is_some() || self.sending != Sending::Unsized;
        let fits = form == self.form || !is_begun;
        self.form = form;
        fits
    }

    /// The origin accepts no more of the request: repeats it if allowed, unless the origin answered before.
    pub(super) fn poll_retry(&mut self, cx: &mut Context<'_>) -> Poll<RetryDecision> {
        let may_repeat = self.may_repeat();
        // A response that has begun is read to its end, and a connection that is no longer HTTP is not read here.
        let is_answered = !matches!(self.reading, ResponsePhase::Head);
        if is_answered || !may_repeat && !self.may_retry_elsewhere() {
            return Poll::Ready(RetryDecision::Fail);
        }
        // The origin accepted nothing that it could answer.
        let is_unread = may_repeat && self.unsent.body_taken() == 0;
        let error = match is_unread {
            true => OriginError::Disconnected,
            false => match ready!(self.poll_answered(cx)) {
                // There is a response, or invalid bytes: the reader gets them.
                Ok(()) => return Poll::Ready(RetryDecision::Fail),
                Err(error) => error,
            },
        };
        if may_repeat {
            self.retry_same_origin();
            return Poll::Ready(RetryDecision::Retry);
        }
        if self.retry_elsewhere(&error) == RetryDecision::Retry {
            return Poll::Ready(RetryDecision::Retry);
        }
        self.fail(error);
        Poll::Ready(RetryDecision::Fail)
    }

    pub(super) fn retry_same_origin(&mut self) {
        let is_application = matches!(self.link, ExchangeLink::Open(Codec::Application(_)));
        if is_application && self.repeats > 0 {
            self.attempt.iter().for_each(GroupAttempt::withdraw_retry);
        }
        self.repeats += 1;
        self.origin.counters.origin_retries.add(1);
        self.reset_attempt();
        let (origin, needs) = (self.origin.clone(), self.request.needs());
        // The old connection is closed first, so that there is one connection for the permit.
        self.link = ExchangeLink::Closed;
        let opening = Box::pin(async move {
            let codec = origin.fresh_channel(needs).await?;
            Ok(OpenedChannel { codec, elsewhere: None })
        });
        self.link = ExchangeLink::Opening { opening, is_elsewhere: false };
    }

    /// The origin failed before its final head arrived: asks another, if the request and the group allow that.
    pub(super) fn retry_elsewhere(&mut self, error: &OriginError) -> RetryDecision {
        if !matches!(self.reading, ResponsePhase::Head) {
            return RetryDecision::Fail;
        }
        if let Some(permit) = &self.permit {
            permit.failed(error);
        }
        if !self.may_retry_elsewhere() || !self.attempt.as_ref().is_some_and(|it| it.may_retry(error)) {
            return RetryDecision::Fail;
        }
        let Some(attempt) = self.attempt.take() else { return RetryDecision::Fail };
        self.origin.counters.origin_retries_elsewhere.add(1);
        if matches!(error, OriginError::Timeout(_)) {
            self.origin.counters.origin_timeouts.add(1);
        }
        self.origin.report_failure(error);
        if self.sending == Sending::Failed {
            self.sending = Sending::Done; // It had no body: see `may_retry_elsewhere`.
        }
        self.reset_attempt();
        self.close();
        let needs = self.request.needs();
        let again = async move {
            let (permit, attempt, codec) = attempt.connect_next(needs).await?;
            Ok(OpenedChannel { codec, elsewhere: Some((permit, attempt)) })
        };
        self.link = ExchangeLink::Opening { opening: Box::pin(again), is_elsewhere: true };
        self.wake_reader();
        RetryDecision::Retry
    }

    /// A final head arrived. A failure status is passed on only where no other origin is asked.
    pub(super) fn retry_on_status(&mut self, status: u16) -> RetryDecision {
        match &self.attempt {
            Some(attempt) if attempt.is_failure(status) => self.retry_elsewhere(&OriginError::Status(status)),
            _ => {
                self.permit.iter().for_each(Permit::answered);
                RetryDecision::Fail
            }
        }
    }

    /// Whether two origins may safely see the request: it is idempotent and its whole body is here; or nothing of it was
    /// sent. Not after a part of the response was passed on, and not after its deadline.
    fn may_retry_elsewhere(&self) -> bool {
        // Dropped parts of a body are not there to be sent again.
        let is_whole = !(self.request.has_body() && self.sending == Sending::Failed);
        let unseen = self.unsent.head_taken() == 0;
        let harmless = self.request.is_idempotent() && self.unsent.has_whole_body();
        self.interim == 0 && is_whole && (unseen || harmless) && !self.deadlines.is_over()
    }

    fn reset_attempt(&mut self) {
        self.unsent.take_back();
        self.has_received = false;
        (self.deadlines.read, self.deadlines.write) = (None, None);
    }
}
