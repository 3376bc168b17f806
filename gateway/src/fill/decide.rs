//! The step `Decide`: whether the origin's response is stored or forwarded.

use super::large::{self, UnstorableBody};
use super::machine::FillStep;
use super::storability::{self, StorabilityCheck};
use super::{ArrivedHead, Disposition, FillJob, FillOutcome, FillRun, OriginRequestKind, Readers};
use crate::assemble::contents;
use crate::cache_key;
use crate::cache_rules;
use crate::request_headers;
use crate::stages;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{AgeInputs, Freshness};
use larder_semantics::partial::{self, Combine};
use larder_semantics::range::HeldRange;
use larder_semantics::request::RequestFacts;
use larder_semantics::storable::{NotStorable, Storable};
use larder_semantics::stored::{self, Meta};
use larder_semantics::{tags, transcode, vary};
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::fleet::Unshared;
use larder_store::{FillHead, PurgeEpoch, PurgeFacts};
use larder_wire::message::Framing;
use std::sync::Arc;

/// The length of a response's body, where its framing has it.
pub(super) fn length_of(arrived: &ArrivedHead) -> Option<u64> {
    match arrived.response.framing {
        Framing::Length(length) => Some(length),
        Framing::Empty => Some(0),
        Framing::Chunked | Framing::Close => None,
    }
}

impl FillRun {
    /// `Decide`: whether the response is stored or forwarded.
    pub(super) async fn decide(&mut self) -> FillStep {
        let (Some(arrived), Some(kind)) = (&self.arrived, &self.request_kind) else {
            return FillStep::Finish;
        };
        let status = arrived.response.status;
        match (status, kind) {
            // Some origins answer `If-Range` with a 304, which was not requested.
            (304, OriginRequestKind::Rest(..)) => return self.ask_again(),
            (304, OriginRequestKind::Validation) if self.job.is_selected_by(arrived) => {
                return FillStep::Freshen;
            }
            // The 304 is about another representation than the stored one.
            (304, OriginRequestKind::Validation) => return self.ask_again(),
            (206 | 416, OriginRequestKind::Rest(..)) => match self.job.completion(arrived) {
                Some(whole) => {
                    *self.job.local.own.borrow_mut() = None;
                    self.decided = Some(whole);
                    return FillStep::Store;
                }
                None => return self.ask_again(),
            },
            _ => {}
        }
        let may_be_not_modified = status == 304 && self.may_be_not_modified();
        if request_headers::is_unasked(&self.job.request, may_be_not_modified, status) {
            self.job.note_failure(502, request_headers::unasked(status));
            return self.ends(FillOutcome::Failed(FillHead::Failed(502)));
        }
        if status >= 500 && self.job.may_serve_stale() {
            return self.ends(FillOutcome::Failed(FillHead::Failed(status)));
        }
        if self.job.request.method == "HEAD" && arrived.is_sent_itself() {
            self.head_came(arrived).await;
        }
        let decided = self.job.disposition(arrived, matches!(self.readers, Readers::One { .. }));
        // A body without a declared length may still exceed `cache.max_object`: the step `Store` settles its reason.
        if !matches!(&decided, Disposition::Store { head, .. } if head.length.is_none()) {
            self.job.settle_reason(arrived);
        }
        let next = match &decided {
            Disposition::Store { .. } => FillStep::Store,
            Disposition::Forward(_) => FillStep::Forward,
        };
        self.decided = Some(decided);
        next
    }

    /// Takes the response to a POST if it is to be stored, as if this fill had fetched it.
    pub fn would_store(&mut self, arrived: ArrivedHead) -> Option<ArrivedHead> {
        if self.job.judge(None, |it| it.decide(&arrived)) != Storable::Store {
            return Some(arrived);
        }
        let decided = self.job.disposition(&arrived, true);
        if !matches!(decided, Disposition::Store { .. }) {
            return Some(arrived);
        }
        (self.arrived, self.decided) = (Some(arrived), Some(decided));
        None
    }

    /// Whether the client's own conditions were sent, so that a 304 answers them.
    fn may_be_not_modified(&self) -> bool {
        let is_as_sent =
            matches!(self.request_kind, Some(OriginRequestKind::AsSent | OriginRequestKind::Head));
        is_as_sent
            && RequestFacts::read(&self.job.request.method, &self.job.request.fields.view()).conditional
    }

    /// Asks once more without condition, after an answer that could not be used.
    fn ask_again(&mut self) -> FillStep {
        self.request_kind = Some(OriginRequestKind::Again);
        self.arrived = None;
        FillStep::Origin
    }
}

impl FillJob {
    pub(super) fn meta_of(&self, arrived: &ArrivedHead) -> Meta {
        let (asked, came) = (arrived.request_time, arrived.response_time);
        let fields = arrived.response.fields.view();
        let policy =
            cache_rules::of_response(&self.route.policy, &self.request, arrived.response.status, &fields);
        Meta::of(arrived.response.status, &fields, policy, asked, came)
    }

    /// Whether a response is shared and stored. For a fill with one reader, which is private, no other request waits.
    fn disposition(&self, arrived: &ArrivedHead, is_private: bool) -> Disposition {
        if arrived.response.is_local_redirect() {
            // Each client gets the response to the other target, with the rules of its route.
            if !self.is_hit_for_miss {
                self.judge(None, |it| it.remember_miss(&arrived.epoch));
            }
            return Disposition::Forward(Unshared::Page);
        }
        let verdict = self.judge(None, |it| it.decide(arrived));
        // An answer that came late may be for those who waited for it.
        if let Storable::Refuse(refusal) = verdict
            && (is_private || refusal != NotStorable::Late)
        {
            self.refuse(refusal, || self.meta_of(arrived));
            let says = match storability::is_about_the_page(&self.request, arrived, refusal) {
                true => Unshared::Page,
                false => Unshared::Answer,
            };
            return Disposition::Forward(says);
        }
        let meta = self.meta_of(arrived);
        let length = length_of(arrived);
        let spent = self.spent(arrived, &meta, verdict == Storable::Store);
        if let Some(says) = self.unshared_reason(verdict, spent, arrived, &meta, length) {
            return Disposition::Forward(says);
        }
        if meta.no_cache || matches!(meta.freshness(arrived.response_time), Freshness::Stale { .. }) {
            if spent == SpentLifetime::No {
                // Every request will have to ask: none should queue behind another.
                self.judge(None, |it| it.remember_miss(&arrived.epoch));
            }
            if !meta.has_validator() {
                // It cannot be validated either.
                let says = if spent == SpentLifetime::No { Unshared::Page } else { Unshared::Answer };
                self.leave_turn(arrived, says);
            }
        }
        if verdict == Storable::Store && meta.allows_hits(arrived.response_time) {
            arrived.source.note_reusable();
        }
        self.local.note_text(&arrived.response);
        let head = Arc::new(self.shared_head(arrived, meta, length, spent));
        Disposition::Store { head, before: Bytes::new(), after: Bytes::new() }
    }

    /// The head of a stored response; the parts for the client that started the fill are kept separately.
    fn shared_head(
        &self,
        arrived: &ArrivedHead,
        meta: Meta,
        length: Option<u64>,
        spent: SpentLifetime,
    ) -> SharedHead {
        let fields = arrived.response.fields.view();
        let policy = &self.route.policy;
        let mut kept = stored::stored_fields(&fields, policy, arrived.response_time);
        stages::drop_ours(&mut kept);
        request_headers::mark_stored(&mut kept, arrived.response.version, policy);
        let mut own = self.own_fields(arrived);
        if transcode::plan(meta.status, &fields, length, policy).is_some() {
            // Other clients will get it in other codings.
            transcode::mark(&mut kept);
            transcode::mark(&mut own);
        }
        *self.local.own.borrow_mut() = Some((meta.status, own));
        let mut variant = Vec::new();
        vary::write_key(meta.vary(), &self.request.fields.view(), &mut variant);
        let purge_facts = self.purge_facts(&kept, arrived.epoch.clone());
        SharedHead {
            status: meta.status,
            fields: kept,
            length,
            vary: meta.vary().to_vec(),
            variant: variant.into_boxed_slice(),
            meta,
            purge_facts,
            spent,
        }
    }

    /// Whether a response that arrived stale may be used: by the requests that already waited for it, where its lifetime
    /// ended on the way.
    pub(super) fn spent(&self, arrived: &ArrivedHead, meta: &Meta, is_stored: bool) -> SpentLifetime {
        let fields = arrived.response.fields.view();
        let ages = AgeInputs::read(&fields, arrived.request_time, arrived.response_time);
        let is_stale = matches!(meta.freshness(arrived.response_time), Freshness::Stale { .. });
        match is_stale && !meta.no_cache && ages.answers_collapsed(meta.lifetime, meta.must_revalidate) {
            true if is_stored => SpentLifetime::Stored,
            true => SpentLifetime::Passing,
            false => SpentLifetime::No,
        }
    }

    /// Why waiting requests are to ask for themselves, if so. Either the response came too late; or its body will
    /// certainly not be kept and has no strong tag, so that a reader that is cut off cannot request the rest.
    fn unshared_reason(
        &self,
        verdict: Storable,
        spent: SpentLifetime,
        arrived: &ArrivedHead,
        meta: &Meta,
        length: Option<u64>,
    ) -> Option<Unshared> {
        if verdict != Storable::Store && spent != SpentLifetime::Passing {
            self.refuse(NotStorable::Late, || meta.clone());
            if !self.is_hit_for_miss {
                self.judge(None, |it| it.remember_miss(&arrived.epoch));
            }
            return Some(Unshared::Page);
        }
        let length = length.filter(|_| !partial::is_resumable(meta))?;
        let why = large::unstorable(self, meta, length)?;
        self.gateway.counters.cache_over_budget.add(1);
        self.reason.no_room();
        if why == UnstorableBody::NoRoom {
            return Some(Unshared::Answer);
        }
        if !self.is_hit_for_miss {
            self.judge(None, |it| it.remember_miss(&arrived.epoch));
        }
        Some(Unshared::Page)
    }

    /// The result of a requested 206 with the held part: the whole, if it fits and may be kept.
    fn completion(&self, arrived: &ArrivedHead) -> Option<Disposition> {
        let old = self.stored.as_ref()?;
        let fields = arrived.response.fields.view();
        let policy = &self.route.policy;
        let mut meta = self.meta_of(arrived);
        let (held, came) = (old.meta.partial()?, meta.partial()?);
        let Combine::Into { part, whole: true } = partial::combine(&old.meta, &meta) else { return None };
        let follows = |a: HeldRange, b: HeldRange| a.last.checked_add(1) == Some(b.first);
        let exact = !matches!(arrived.response.framing, Framing::Length(it) if it != came.length());
        if !exact || !(follows(held, came) || follows(came, held)) {
            return None;
        }
        if self.judge(Some(b"bytes=0-"), |it| it.decide(arrived)) != Storable::Store
            || part.length() > policy.max_object
        {
            return None;
        }
        let mut kept = stored::stored_fields(&fields, policy, arrived.response_time);
        kept.remove("content-range");
        kept.remove("content-length");
        request_headers::mark_stored(&mut kept, arrived.response.version, policy);
        meta.status = 200;
        meta.set_partial(None);
        // The age is that of the held part.
        let purge_facts = self.purge_facts(&kept, old.epoch());
        let head = Arc::new(SharedHead {
            status: 200,
            fields: kept,
            length: Some(part.length()),
            vary: old.meta.vary().to_vec(),
            variant: old.variant().into(),
            meta,
            purge_facts,
            spent: SpentLifetime::No,
        });
        let (stored, none) = (contents(&old.body)?, Bytes::new());
        Some(match held.first {
            0 => Disposition::Store { head, before: stored, after: none },
            _ => Disposition::Store { head, before: none, after: stored },
        })
    }

    /// Asks the judge with all the facts; `range` is a `Range` that larder made.
    pub(super) fn judge<T>(&self, range: Option<&[u8]>, check: impl FnOnce(&StorabilityCheck<'_>) -> T) -> T {
        let fields = self.request.fields.view();
        let scheme = self.request.scheme;
        let authority = cache_key::normal(scheme, &self.request.authority);
        let mut facts = RequestFacts::read(&self.request.method, &fields).with_uri(
            scheme.name(),
            &authority,
            &self.request.target,
        );
        facts.range = facts.range.or(range);
        check(&StorabilityCheck {
            gateway: &self.gateway,
            route: &self.route,
            request: &self.request,
            facts: &facts,
            hash: self.hash,
            is_hit_for_miss: self.is_hit_for_miss,
        })
    }

    /// The facts that purges compare, for a response with these stored fields.
    pub(super) fn purge_facts(&self, fields: &FieldList, epoch: PurgeEpoch) -> PurgeFacts {
        let tags = tags::of(&fields.view(), &self.route.policy.tags, &self.key);
        self.gateway.counters.purge_tags_full.add(u64::from(tags::are_every(&tags)));
        PurgeFacts { tags, epoch }
    }
}
