//! The reason of a fill's request to the origin: as it was before the response, and the rule by which that is not stored.

use super::{ArrivedHead, FillJob, OriginRequestKind};
use larder_semantics::miss_reason::{self, MissReason, RequestCredentials};
use larder_semantics::storable::NotStorable;
use larder_semantics::stored::Meta;
use larder_store::fill::SharedHead;
use std::cell::Cell;

/// The reason of one fill.
pub(crate) struct FillReason {
    asked: Cell<MissReason>,
    refused: Cell<Option<MissReason>>,
}

impl FillReason {
    /// The reason before the response is known.
    pub fn new(asked: MissReason) -> Self {
        Self { asked: Cell::new(asked), refused: Cell::new(None) }
    }

    /// A response was found in a tier below, which may not be served as it is.
    pub fn found_below(&self, reason: MissReason) {
        if self.asked.get() != MissReason::Refresh {
            self.asked.set(reason);
        }
    }

    /// The reason of this request to the origin.
    pub fn of(&self, kind: &OriginRequestKind) -> MissReason {
        match kind {
            OriginRequestKind::Again => MissReason::Again,
            _ => self.asked.get(),
        }
    }

    /// The response with these facts is not stored, by this rule.
    fn refuse(
        &self,
        refusal: NotStorable,
        meta: impl FnOnce() -> Meta,
        credentials: impl FnOnce() -> RequestCredentials,
    ) {
        let refused = miss_reason::refused(self.asked.get(), refusal, meta, credentials);
        self.refused.set(Some(refused).filter(|it| *it != self.asked.get()));
    }

    /// The response is not stored since no tier has room for it.
    pub fn no_room(&self) {
        self.refused.set(Some(MissReason::NoRoom));
    }
}

impl FillJob {
    /// The response with the facts `meta` is not stored, by this rule. Few rules need these facts.
    pub(crate) fn refuse(&self, refusal: NotStorable, meta: impl FnOnce() -> Meta) {
        let credentials = || match self.judge(None, |it| it.facts.has_credentials(&self.route.policy)) {
            true => RequestCredentials::Some,
            false => RequestCredentials::None,
        };
        self.reason.refuse(refusal, meta, credentials);
    }

    /// The response was judged: counts the reason, and tells it to the request that started the fill.
    pub(crate) fn settle_reason(&self, arrived: &ArrivedHead) {
        let refused = self.reason.refused.get();
        if refused.is_some() && !self.is_background() {
            self.local.reason.set(refused);
        }
        arrived.source.count_reason(refused);
    }

    /// `length` bytes of a body have arrived: one without a declared length may exceed `cache.max_object`, which is its reason then.
    pub(super) fn note_length(&self, arrived: &ArrivedHead, head: &SharedHead, length: u64) {
        if length > self.route.policy.max_object {
            self.refuse(NotStorable::TooLarge, || head.meta.clone());
            self.settle_reason(arrived);
        }
    }

    /// The body is complete: its reason is known, and its length is recorded for `explain` if it was too large.
    pub(super) fn note_end(&self, arrived: &ArrivedHead, length: u64) {
        self.settle_reason(arrived);
        if length > self.route.policy.max_object {
            self.judge(None, |it| it.record_too_large(arrived, length));
        }
    }
}
