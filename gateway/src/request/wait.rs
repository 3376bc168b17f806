//! The step `Wait`: the wait for another's fetch of the same page, which may answer, fail, be late or take long.
//!
//! However many requests wait for a page, its origin is asked by few at a time: by one more for each
//! `cache.collapse_wait` that an answer takes. After two failures identical requests share the second; other requests ask
//! for themselves, as for a page that is not cached.

use super::deliver::Delivery;
use super::machine::Step;
use super::{Coalescing, MAX_LOOKUPS, Machine, OwnError, RequestInput};
use crate::fill::TierLookup;
use crate::recent_failures;
use crate::stages::RequestStage;
use crate::tier_transfer;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::trace::Silent;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::ram::KeyHash;
use larder_store::{FillHead, FillReader, StoredArc};
use std::time::Duration;

/// The end of a wait.
enum WaitEnd {
    /// This fetch has its head.
    Head(FillReader, FillHead),
    /// The client of this request cancelled it.
    Cancelled,
    /// The wait was long enough.
    TooLong(FillReader),
}

impl Machine<'_, '_> {
    /// `Wait`: for the head of another's fetch.
    pub async fn wait(&mut self) -> Step {
        self.input.gateway.counters.requests_collapsed.add(1);
        self.input.stages.enter(RequestStage::Wait);
        let (reader, head) = loop {
            let Some(reader) = self.waiting.reader.take() else { return Step::Lookup };
            match self.wait_for_head(reader).await {
                WaitEnd::Head(reader, head) => break (reader, head),
                WaitEnd::Cancelled => return self.needs_nothing(),
                WaitEnd::TooLong(reader) => match self.start_extra_fetch(reader) {
                    Step::Wait => {}
                    step => {
                        self.input.stages.enter(RequestStage::Lookup);
                        return step;
                    }
                },
            }
        };
        self.input.stages.enter(RequestStage::Lookup);
        self.waiting.earlier = None;
        match head {
            FillHead::Failed(status) => return self.another_failed(&reader, status),
            FillHead::Private(head) if head.status >= 500 => {
                return self.another_failed(&reader, head.status);
            }
            _ => self.waiting.lookups += 1,
        }
        match head {
            FillHead::StoreChanged | FillHead::Failed(_) => Step::Lookup,
            FillHead::Found(stored, tier) => self.consider_tier_hit(stored, tier),
            FillHead::Validated(stored) => self.take_validated(stored),
            FillHead::Unreachable(status) => {
                let stale = self.stale_of_another();
                stale.unwrap_or_else(|| self.origin_failed(status))
            }
            FillHead::Private(_) => self.leave_coalescing(),
            FillHead::Shared(head) => match self.fits(&head, &reader) {
                ShareCheck::Yes => {
                    self.deliver_fill(reader, head, true);
                    Step::Store
                }
                ShareCheck::OtherVariant => {
                    // Requests for one variant wait for one another, not for this one.
                    self.waiting.vary.clone_from(&head.vary);
                    Step::Lookup
                }
                ShareCheck::MayNotShare => self.leave_coalescing(),
            },
        }
    }

    fn leave_coalescing(&mut self) -> Step {
        self.plan.coalescing = Coalescing::Private;
        self.plan.step()
    }

    async fn wait_for_head(&mut self, mut reader: FillReader) -> WaitEnd {
        let collapse_wait = Duration::from_millis(u64::from(self.input.route.policy.collapse_wait_ms));
        let mut collapse_timer =
            self.waiting.timer.take().unwrap_or_else(|| Box::pin(tokio::time::sleep(collapse_wait)));
        let mut earlier = self.waiting.earlier.take();
        let mut may_be_gone = false;
        loop {
            tokio::select! {
                biased;
                head = head_of(&mut earlier) => {
                    let Some(earlier) = earlier else { continue };
                    self.waiting.timer = Some(collapse_timer);
                    return WaitEnd::Head(earlier, head);
                }
                head = reader.head() => {
                    self.waiting.timer = Some(collapse_timer); // It is one for all that this request waits for.
                    return WaitEnd::Head(reader, head);
                }
                () = self.cancelled() => return WaitEnd::Cancelled,
                () = collapse_timer.as_mut() => {
                    self.waiting.earlier = earlier;
                    return WaitEnd::TooLong(reader);
                }
                () = self.may_be_gone(), if !may_be_gone => {
                    may_be_gone = true;
                    reader.mark_suspect();
                    if let Some(earlier) = &mut earlier {
                        earlier.mark_suspect();
                    }
                }
            }
        }
    }

    /// This request has waited long enough. One such request starts a fetch for all in addition to the slow one; all
    /// the others wait for both.
    fn start_extra_fetch(&mut self, reader: FillReader) -> Step {
        self.input.gateway.counters.collapse_timeouts.add(1);
        if self.input.is_over_budget() {
            self.waiting.reader = Some(reader);
            return Step::Wait;
        }
        let flight = match &self.found.stored {
            Some(stored) => self.flight(stored.meta.vary()),
            None => self.flight(&self.waiting.vary),
        };
        if self.fetches_privately(self.plan.kind) {
            let stored = self.stored_meanwhile();
            return stored.unwrap_or_else(|| self.in_turn(reader, flight));
        }
        let begun = self.input.gateway.store.begin_extra(self.key.hash, flight, &self.key.bytes, &reader);
        let step = self.take_part(begun, TierLookup::Skip);
        // The first is nearest to its answer, also for the request that starts another.
        let earlier = self.waiting.earlier.take().or(Some(reader));
        self.waiting.earlier = earlier.filter(|_| step == Step::Wait || self.waiting.reader.is_some());
        step
    }

    /// A request that starts nothing for others asks for itself, one in each `cache.collapse_wait`; the others continue
    /// to wait, also for fetches started for all since.
    fn in_turn(&mut self, reader: FillReader, flight: KeyHash) -> Step {
        let each = u64::from(self.input.route.policy.collapse_wait_ms);
        if !self.may_follow() || reader.may_start_extra_fetch(clock::monotonic(), each) {
            self.waiting.earlier = None;
            return self.leave_coalescing();
        }
        match self
            .input
            .gateway
            .store
            .follow(self.key.hash, flight, &self.key.bytes)
            .filter(|it| !it.reads_with(&reader))
        {
            Some(newer) => {
                self.waiting.earlier = self.waiting.earlier.take().or(Some(reader));
                self.waiting.reader = Some(newer);
            }
            None => self.waiting.reader = Some(reader),
        }
        Step::Wait
    }

    /// Another's fetch, in addition to which this request has started one, has its head first: whether that answers it.
    pub fn take_earlier(&mut self, earlier: FillReader, head: FillHead) -> Option<Step> {
        match head {
            FillHead::Shared(head) if matches!(self.fits(&head, &earlier), ShareCheck::Yes) => {
                self.deliver_fill(earlier, head, true);
                Some(Step::Store)
            }
            FillHead::StoreChanged | FillHead::Validated(_) | FillHead::Found(..) => self.stored_meanwhile(),
            _ => None,
        }
    }

    /// Another's fetch failed, perhaps because of that request's own content: that is no answer to this request, and a
    /// waiting one asks next. If two fetches have failed and this request is identical to the second, it gets the same
    /// answer. A different request waits for no third, so that the last of a crowd is answered as soon as the first.
    fn another_failed(&mut self, reader: &FillReader, status: u16) -> Step {
        self.waiting.failures = self.waiting.failures.saturating_add(1);
        if let Some(step) = self.stale_of_another() {
            return step;
        }
        if self.waiting.failures < MAX_LOOKUPS {
            return Step::Lookup;
        }
        if reader.provoked_by() != Some(self.input.content_hash()) {
            return self.leave_coalescing();
        }
        self.input.gateway.shared.recent_failures.note(
            self.key.hash,
            self.input.content_hash(),
            status,
            clock::monotonic(),
        );
        self.failed_for_another(status)
    }

    /// This request is answered with another's failure.
    pub fn failed_for_another(&mut self, status: u16) -> Step {
        self.input.gateway.counters.collapse_failures.add(1);
        let stale = self.stale_instead(true);
        stale.unwrap_or_else(|| self.fails(OwnError::OfAnother(status)))
    }

    /// The failure of identical requests within the last second.
    pub fn failed_lately(&self) -> Option<u16> {
        let recent = &self.input.gateway.shared.recent_failures;
        if recent.is_empty() {
            None
        } else {
            recent.get(self.key.hash, self.input.content_hash(), clock::monotonic())
        }
    }

    /// A response that a 304 freshened for the waiting requests and that is stale again: it still answers them.
    fn take_validated(&mut self, stored: StoredArc) -> Step {
        if !tier_transfer::fits(&stored, self.input.fields)
            || crate::coding::is_of_no_use(&stored, self.input.fields)
        {
            self.waiting.vary = stored.meta.vary().to_vec();
            return Step::Lookup;
        }
        let now = clock::wall();
        match reuse::decide(Ok(&stored.meta), self.input.facts, &self.input.route.policy, now, &mut Silent) {
            Reuse::Serve
            | Reuse::ServeStale
            | Reuse::ServeWhileRevalidating
            | Reuse::Validate(ForwardReason::Stale) => {
                let (reason, status) = (self.plan.reason, Some(304));
                let report = CacheReport::Forwarded { reason, status, stored: false, collapsed: true };
                self.response.answer = Some(Delivery::Stored { stored, report });
                Step::Hit
            }
            _ => self.leave_coalescing(),
        }
    }

    fn stale_of_another(&mut self) -> Option<Step> {
        self.take_stale();
        self.stale_instead(true)
    }

    /// Whether the response of `reader`, whose fetch another request started, may answer this request (RFC 9111 §4).
    fn fits(&self, head: &SharedHead, reader: &FillReader) -> ShareCheck {
        let mut variant = Vec::new();
        vary::write_key(&head.vary, self.input.fields, &mut variant);
        if *variant != *head.variant {
            return ShareCheck::OtherVariant;
        }
        // Also where the response came late, so that it would only be too old.
        if reuse::is_for_others(&head.meta, self.input.facts, &self.input.route.policy) {
            return ShareCheck::MayNotShare;
        }
        let decision = reuse::decide(
            Ok(&head.meta),
            self.input.facts,
            &self.input.route.policy,
            clock::wall(),
            &mut Silent,
        );
        let may = match decision {
            Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating => true,
            Reuse::Validate(ForwardReason::Stale) | Reuse::Forward(ForwardReason::Stale) => {
                head.spent != SpentLifetime::No && reader.has_waited()
            }
            _ => false,
        };
        if may && self.can_join_fill(head, reader.arrived()) {
            ShareCheck::Yes
        } else {
            ShareCheck::MayNotShare
        }
    }
}

impl RequestInput<'_, '_> {
    /// The hash of this request's content.
    fn content_hash(&self) -> KeyHash {
        recent_failures::content_hash(&self.gateway.store, self.request)
    }
}

/// The head of a fetch; without a fetch it never arrives.
pub async fn head_of(reader: &mut Option<FillReader>) -> FillHead {
    match reader {
        Some(reader) => reader.head().await,
        None => std::future::pending().await,
    }
}

/// The result of [`Machine::fits`].
enum ShareCheck {
    Yes,
    OtherVariant,
    MayNotShare,
}
