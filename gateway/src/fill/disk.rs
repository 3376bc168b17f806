//! The step `Disk`: a fill looks there before it asks the origin (at the fast speed: `fast_path_disk.rs`). The functions for
//! both lower tiers are here, too: whether a found response answers, and how the origin is asked about it otherwise.

use super::machine::FillStep;
use super::{FetchKind, FillJob, FillOutcome, FillRun, OriginRequestKind, Readers, TierLookup};
use crate::coding;
use crate::stages::RequestStage;
use crate::tier_transfer::{self, PromoteToRam};
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::miss_reason::{self, MissReason};
use larder_semantics::partial;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, Reuse};
use larder_semantics::trace::Silent;
use larder_stdx::clock;
use larder_store::fleet::LeaseState;
use larder_store::ram::Lookup;
use larder_store::{FillWriter, FleetCopy, ReadWait, Stored, StoredArc};

/// The result of a lookup below.
pub(super) enum TierLookupResult {
    /// This answers, or was confirmed; with the lease for renewing it where it is stale.
    Found(StoredArc, AnsweringTier, Option<LeaseState>),
    /// The origin has to be asked.
    Nothing,
    /// Every waiting request has to ask the origin: another node has found that answers are not shared. That is
    /// remembered.
    Unshared,
}

impl FillRun {
    /// `Disk`: looks on the disk, unless RAM has a response. A response that is too old to be served is then validated
    /// with the origin.
    pub(super) async fn look_on_disk(&mut self) -> FillStep {
        let (job, Readers::Shared(writer)) = (&mut self.job, &self.readers) else { return FillStep::Finish };
        let mut held = job.stored.clone().map(|it| (it, AnsweringTier::Ram));
        // A part in RAM may be complete on disk.
        if held.as_ref().is_none_or(|it| it.0.meta.partial().is_some() && !job.serves(&it.0)) {
            let whole = job.on_disk(writer).await.filter(|it| !job.is_outdated(it));
            held = whole.map(|it| (it, AnsweringTier::Disk)).or(held);
        }
        if job.gateway.fleet_of(&job.route.policy).is_some() {
            self.held = held;
            return FillStep::Fleet;
        }
        let looked = match held {
            Some((it, tier)) if job.serves(&it) => TierLookupResult::Found(it, tier, None),
            Some((it, _)) => job.ask_about(it),
            None => TierLookupResult::Nothing,
        };
        self.looked(looked)
    }

    /// The next step after the result of the tiers.
    pub(super) fn looked(&mut self, looked: TierLookupResult) -> FillStep {
        match looked {
            TierLookupResult::Found(stored, tier, lease) => {
                self.ends(FillOutcome::Found(stored, tier, lease))
            }
            TierLookupResult::Unshared => {
                self.job.local.unshared.set(true);
                self.ends(FillOutcome::RepeatLookup)
            }
            TierLookupResult::Nothing if self.job.below == TierLookup::Only => {
                self.ends(FillOutcome::RepeatLookup)
            }
            TierLookupResult::Nothing => FillStep::Origin,
        }
    }
}

impl FillJob {
    /// A response that answers now, and was not there before this fill waited for a permit.
    pub(super) async fn came_meanwhile(&self, writer: &FillWriter) -> Option<(StoredArc, AnsweringTier)> {
        let in_ram = self.came_into_ram();
        if in_ram.is_some() || self.stored.is_some() {
            return in_ram;
        }
        let fields = self.request.fields.view();
        let stored = self.on_disk(writer).await?;
        let answers = !coding::is_of_no_use(&stored, &fields) && self.serves(&stored);
        answers.then_some((stored, AnsweringTier::Disk))
    }

    /// Whether RAM has a part of another, later representation than this whole: then the whole answers nothing.
    fn is_outdated(&self, whole: &Stored) -> bool {
        let is_outdated = self.stored.as_ref().is_some_and(|it| partial::outdates(&it.meta, &whole.meta));
        if is_outdated {
            whole.supersede();
        }
        is_outdated
    }

    /// The same in RAM only.
    pub(super) fn came_into_ram(&self) -> Option<(StoredArc, AnsweringTier)> {
        let Lookup::Entry(entry) = self.gateway.store.lookup(self.hash, &self.key, 0) else { return None };
        let fields = self.request.fields.view();
        let stored = entry.select(&fields, &mut Vec::new())?;
        let is_new = !self.stored.as_ref().is_some_and(|old| StoredArc::ptr_eq(old, stored));
        let answers = is_new && !coding::is_of_no_use(stored, &fields) && self.serves(stored);
        answers.then(|| (stored.clone(), AnsweringTier::Ram))
    }

    /// Whether the disk of this node has a record under the key.
    pub(super) fn lies_on_disk(&self) -> bool {
        self.gateway.disk_of(&self.route.policy).is_some_and(|it| it.knows(&self.key))
    }

    async fn on_disk(&self, writer: &FillWriter) -> Option<StoredArc> {
        let disk = self.gateway.disk_of(&self.route.policy).filter(|it| it.knows(&self.key))?;
        self.stages.enter(RequestStage::Queue);
        let waited = ReadWait::default();
        let stored = disk.read_timed(&self.key, &self.request.fields.view(), &waited).await;
        self.stages.has_read(waited.micros());
        let stored = stored?;
        let stored = self.gateway.store.admit(&self.key, stored)?;
        let policy = &self.route.policy;
        let (stored, taken_up) = self.gateway.take_up(disk, policy, self.hash, stored).await;
        let stored = tier_transfer::for_clients(stored, policy);
        if self.gateway.fleet_of(policy).is_some() {
            // It answers no other request before the fleet was asked.
            let shared = if self.gateway.is_shared(&stored) { FleetCopy::Yes } else { FleetCopy::No };
            stored.is_due_at(clock::wall().0, shared);
        }
        if taken_up == PromoteToRam::NotYet {
            return Some(StoredArc::new(stored));
        }
        let stored = self.gateway.store.ram_form(stored);
        self.put_in_ram(writer, &stored);
        Some(stored)
    }

    pub(super) fn put_in_ram(&self, writer: &FillWriter, stored: &StoredArc) {
        let policy = &self.route.policy;
        if policy.tiers.ram {
            // Removed meanwhile, or no room: it is still served to the requests that asked before.
            let _ = writer.admit(stored.clone(), usize::from(policy.max_variants));
        }
    }

    pub(super) fn ask_about(&mut self, stored: StoredArc) -> TierLookupResult {
        if self.stored.as_ref().is_some_and(|it| StoredArc::ptr_eq(it, &stored)) {
            return TierLookupResult::Nothing; // Whether the origin is asked about that was decided before.
        }
        let fields = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &fields);
        if reuse::is_for_others(&stored.meta, &facts, &self.route.policy) {
            // Neither its validator nor its bytes are this visitor's, and the answer does not remove it.
            drop(fields);
            self.reason.found_below(MissReason::Credentials);
            self.fetch = FetchKind::Full;
            self.stored = Some(stored);
            return TierLookupResult::Nothing;
        }
        drop(fields);
        self.reason.found_below(miss_reason::of_stored(&stored.meta));
        if !self.is_background() {
            self.local.reason.set(Some(self.reason.of(&OriginRequestKind::Whole)));
        }
        self.fetch = fetch_of(&stored);
        *self.local.stale.borrow_mut() = Some(stored.clone());
        self.stored = Some(stored);
        TierLookupResult::Nothing
    }

    /// Whether a copy may answer the request that started this fill before the origin is asked.
    pub(super) fn serves(&self, stored: &Stored) -> bool {
        if stored.is_superseded() {
            return false;
        }
        let fields = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &fields);
        let decision =
            reuse::decide(Ok(&stored.meta), &facts, &self.route.policy, clock::wall(), &mut Silent);
        match decision {
            Reuse::Serve | Reuse::ServeStale => true,
            Reuse::ServeWhileRevalidating => !self.is_background(),
            _ => false,
        }
    }
}

/// How the stored response is validated or fetched again.
pub(super) fn fetch_of(stored: &Stored) -> FetchKind {
    if stored.meta.has_validator() { FetchKind::Validation } else { FetchKind::Full }
}
