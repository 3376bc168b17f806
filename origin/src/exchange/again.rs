//! A request that is sent once more: on a fresh connection where a reused one died, or to another origin of the group. What may be
//! sent again is decided here, how often and to whom in `group`.

use super::{ExchangeLink, ExchangeState, Filled, ResponsePhase, Sending};
use crate::channel::Channel;
use crate::connection::History;
use crate::group::GroupAttempt;
use crate::http2::ChannelNeeds;
use crate::pool::Permit;
use crate::{OriginError, OriginPool};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A connection that is being opened in place of one that failed.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Opened, OriginError>>>>;

/// That connection.
pub(super) struct Opened {
    way: Channel,
    /// Where it leads, if to another origin.
    elsewhere: Option<(Permit, GroupAttempt)>,
}

/// Whether an error of an exchange is met by sending the request once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// It is: the exchange goes on.
    Again,
    /// It is not: the exchange has failed, or goes on with what came.
    Fail,
}

impl ExchangeState {
    /// Ready once there is a connection with the head written or on its way.
    pub(super) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        while let ExchangeLink::Opening { opening, is_elsewhere } = &mut self.link {
            let is_elsewhere = *is_elsewhere;
            match ready!(opening.as_mut().poll(cx)) {
                Ok(Opened { way, elsewhere }) => {
                    if let Some((place, turn)) = elsewhere {
                        self.origin = place.origin().clone();
                        self.origin.count_request();
                        (self.place, self.turn) = (Some(place), Some(turn));
                    }
                    if !self.fits(&way) {
                        return Poll::Ready(Err(self.fail(OriginError::Disconnected)));
                    }
                    self.link = way.into();
                    self.send_head(cx);
                    self.wake_reader();
                }
                // Whoever opened it has told of each origin.
                Err(error) if is_elsewhere => {
                    self.is_told.set(true);
                    return Poll::Ready(Err(self.fail(error)));
                }
                Err(error) => {
                    if self.next_after(&error) == RetryDecision::Fail {
                        return Poll::Ready(Err(self.fail(error)));
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the request may be sent again on another connection to its origin (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
    pub(super) fn may_repeat(&self) -> bool {
        let history = match &self.link {
            ExchangeLink::Open(connection) => connection.history,
            ExchangeLink::Shared(strand) => strand.history,
            ExchangeLink::Opening { .. } | ExchangeLink::Closed => return false,
        };
        let died_unused = history == History::Reused && self.received == 0 && self.repeats == 0;
        // Without its body it is no whole request, so the origin cannot have acted on it.
        let unread = self.request.has_body() && self.unsent.body_taken() == 0;
        let harmless = self.request.is_idempotent() && self.unsent.has_whole_body();
        died_unused && (unread || harmless || self.unsent.head_taken() == 0)
    }

    /// The origin takes no more of the request: begins anew where that may be, unless it answered before it stopped.
    pub(super) fn poll_again(&mut self, cx: &mut Context<'_>) -> Poll<RetryDecision> {
        let may_repeat = self.may_repeat();
        // What has been answered is read to its end, and what is no HTTP any more is not ours to read.
        let is_answered = !matches!(self.reading, ResponsePhase::Head);
        if is_answered || !may_repeat && !self.may_go_elsewhere() {
            return Poll::Ready(RetryDecision::Fail);
        }
        let error = match &self.link {
            // Of which nothing was taken that could be answered.
            _ if may_repeat && self.unsent.body_taken() == 0 => OriginError::Disconnected,
            ExchangeLink::Shared(strand) => match strand.failure() {
                Some(error @ (OriginError::Disconnected | OriginError::NotHttp2)) => error.clone(),
                // There is an answer, or what it sent is none: whoever reads is told.
                _ => return Poll::Ready(RetryDecision::Fail),
            },
            _ => match ready!(self.poll_fill(0, cx)) {
                Ok(Filled::Bytes) => return Poll::Ready(RetryDecision::Fail),
                Ok(Filled::End) => OriginError::Disconnected,
                Err(error) => error,
            },
        };
        if may_repeat {
            self.repeat();
            return Poll::Ready(RetryDecision::Again);
        }
        if self.next_after(&error) == RetryDecision::Again {
            return Poll::Ready(RetryDecision::Again);
        }
        self.fail(error);
        Poll::Ready(RetryDecision::Fail)
    }

    pub(super) fn repeat(&mut self) {
        self.repeats += 1;
        self.origin.counters.origin_retries.add(1);
        self.begin_anew();
        let (origin, needs) = (self.origin.clone(), self.request.needs());
        // The old connection is closed first, so that there is one connection for the place we have.
        self.link = ExchangeLink::Closed;
        let opening = Box::pin(async move { way_of(&origin, needs).await });
        self.link = ExchangeLink::Opening { opening, is_elsewhere: false };
    }

    /// The origin failed before its final head came: has another be asked, if the request allows that and the group does.
    pub(super) fn next_after(&mut self, error: &OriginError) -> RetryDecision {
        if !matches!(self.reading, ResponsePhase::Head) {
            return RetryDecision::Fail;
        }
        if let Some(place) = &self.place {
            place.failed(error);
        }
        if !self.may_go_elsewhere() || !self.turn.as_ref().is_some_and(|it| it.may_go_on(error)) {
            return RetryDecision::Fail;
        }
        let Some(turn) = self.turn.take() else { return RetryDecision::Fail };
        self.origin.counters.origin_retries_elsewhere.add(1);
        if error == &OriginError::Timeout {
            self.origin.counters.origin_timeouts.add(1);
        }
        self.origin.tell(error);
        if self.sending == Sending::Failed {
            self.sending = Sending::Done; // It had no body: see `may_go_elsewhere`.
        }
        self.begin_anew();
        self.close();
        let needs = self.request.needs();
        let again = async move {
            let (place, turn, way) = turn.again(needs).await?;
            Ok(Opened { way, elsewhere: Some((place, turn)) })
        };
        self.link = ExchangeLink::Opening { opening: Box::pin(again), is_elsewhere: true };
        self.wake_reader();
        RetryDecision::Again
    }

    /// A final head came. One whose status is a failure is given on only where no other origin is asked.
    pub(super) fn judge(&mut self, status: u16) -> RetryDecision {
        match &self.turn {
            Some(turn) if turn.is_failure(status) => self.next_after(&OriginError::Status(status)),
            _ => {
                self.place.iter().for_each(Permit::answered);
                RetryDecision::Fail
            }
        }
    }

    /// Whether it can do no harm that two origins see the request: it is idempotent, and all of its body is here; or nothing of it
    /// has left. Not once anything of a response was given on, and not when its time is over.
    fn may_go_elsewhere(&self) -> bool {
        // What was given up of a body is not there to be sent again.
        let is_whole = !(self.request.has_body() && self.sending == Sending::Failed);
        let unseen = self.unsent.head_taken() == 0;
        let harmless = self.request.is_idempotent() && self.unsent.has_whole_body();
        self.interim == 0 && is_whole && (unseen || harmless) && !self.deadlines.is_over()
    }

    fn begin_anew(&mut self) {
        self.unsent.take_back();
        (self.partial, self.received) = (0, 0);
        (self.deadlines.read, self.deadlines.write) = (None, None);
    }
}

async fn way_of(origin: &OriginPool, needs: ChannelNeeds) -> Result<Opened, OriginError> {
    let way = origin.fresh_way(needs).await?;
    Ok(Opened { way, elsewhere: None })
}
