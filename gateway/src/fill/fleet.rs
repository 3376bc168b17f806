//! The step `Fleet`: a fill asks the memcached servers, with the response that it has from a nearer tier. One lookup at a time
//! per key, variant and node, for any number of requests.

use super::disk::{TierLookupResult, fetch_of};
use super::machine::FillStep;
use super::miss_reason::FillReason;
use super::{FillJob, FillPurpose, FillRun, Readers, TierLookup};
use crate::stages::{FillStages, RequestStage};
use crate::tier_transfer;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::freshness::Freshness;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::supersede;
use larder_semantics::tiers::{self, Compared};
use larder_stdx::clock::{self, WallTime};
use larder_store::fleet::{
    Fleet, FleetQuery, FleetResult, HolderState, LeaseState, OtherNodesLease, RecomputeLease, Unshared, Want,
};
use larder_store::{FillWriter, PurgeEpoch, Stored, StoredArc};
use larder_wire::envelope::Envelope;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// The first pause before another node's record is looked up again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// For this long the other node may be silent: it sends a sign of life twice a second. A node that takes the lease over
/// has one sign less of time, and all of it is less than the two seconds that clients wait.
const SILENT: Duration = Duration::from_millis(1200);

/// After that the lease holder is asked for signs of life at this interval.
const SIGN_AGAIN: Duration = Duration::from_millis(500);

/// The fleet's answer about a key.
enum FleetAnswer {
    /// This is used from now on.
    Has(StoredArc, LeaseState),
    /// The held response is confirmed.
    Stands(LeaseState),
    /// It has nothing: the key was `removed` recently, or never written.
    Lost { lease: LeaseState, removed: Option<WallTime> },
    /// Another node's answer may not be shared, for these seconds. `removed` where it replaced a response stored before.
    Unshared { says: Unshared, seconds: u32, removed: Option<WallTime> },
    /// Nothing is known.
    Unavailable,
}

/// A fill's wait for another node's response.
struct RecomputeWait {
    /// The end of the wait at the latest.
    end: Pin<Box<Sleep>>,
    /// Until its next lookup.
    pause: Duration,
    /// Until the next sign of life from the lease holder is due.
    sign: Pin<Box<Sleep>>,
    /// The lease that it has waited for so far.
    theirs: Option<OtherNodesLease>,
    has_taken_over: bool,
    /// It waits for another lease than at first.
    has_changed: bool,
}

impl RecomputeWait {
    fn new(collapse_wait: Duration) -> Self {
        let [end, sign] = [collapse_wait, SILENT].map(|it| Box::pin(sleep(it)));
        Self { end, pause: FIRST_PAUSE, sign, theirs: None, has_taken_over: false, has_changed: false }
    }

    fn has_just_begun(&self) -> bool {
        self.theirs.is_none()
    }

    /// Waits until it is time to look again. Returns whether the wait is over: it was long enough, or the lease holder is
    /// silent and the lease was already taken over once.
    async fn wait_is_over(&mut self, fleet: &Fleet, theirs: OtherNodesLease) -> bool {
        if self.theirs.is_none() {
            // As far as known, that lease has just begun.
            (self.sign, self.theirs) = (Box::pin(sleep(SILENT)), Some(theirs));
        } else if self.theirs.as_ref() != Some(&theirs) && !self.has_changed {
            // Another node has it now. Counted once: servers that answer with an older request's data show another lease
            // each time.
            (self.sign, self.theirs) = (Box::pin(sleep(SIGN_AGAIN)), Some(theirs));
            self.has_changed = true;
        } else if self.sign.is_elapsed() {
            match fleet.holder_state(&theirs).await {
                HolderState::Alive => self.sign = Box::pin(sleep(SIGN_AGAIN)),
                HolderState::Silent if !self.has_taken_over => {
                    fleet.end_lease(&theirs);
                    (self.has_taken_over, self.pause) = (true, FIRST_PAUSE);
                    self.sign = Box::pin(sleep(SIGN_AGAIN));
                    self.has_changed = true;
                }
                HolderState::Silent | HolderState::Unknown => return true,
            }
        }
        tokio::select! {
            biased;
            () = &mut self.end => return true,
            () = &mut self.sign => {}
            () = sleep(self.pause) => self.pause = (self.pause * 2).min(LONGEST_PAUSE),
        }
        false
    }
}

impl FillRun {
    /// `Fleet`: looks in the fleet, with the response held from a nearer tier.
    pub(super) async fn look_in_fleet(&mut self) -> FillStep {
        let gateway = self.job.gateway.clone();
        let (Some(fleet), Readers::Shared(writer)) =
            (gateway.fleet_of(&self.job.route.policy), &self.readers)
        else {
            return FillStep::Finish;
        };
        let looked = self.job.in_fleet(fleet, self.held.take(), writer).await;
        self.looked(looked)
    }
}

impl FillJob {
    /// Writes the fleet's response to the disk, replacing the older one: after a restart it is as warm as one from the
    /// origin.
    async fn put_on_disk(&self, writer: &FillWriter, stored: &StoredArc) {
        let Some(disk) = self.gateway.disk_of(&self.route.policy) else { return };
        let displaced = disk.displace(&self.key, stored);
        // Where applications write to the fleet they remove there, too, and this node would not see that.
        if self.gateway.tiers.fills_fleet() && tiers::goes_down(&stored.meta, clock::wall()) {
            disk.write_unless(&self.key, stored, || writer.was_removed());
        }
        if let Some(written) = displaced {
            self.gateway.known_to_next_process(written).await;
        }
    }

    /// Another full response of the origin came at `removed` or before. Of an older held response only the validator may
    /// be used, in RAM, and the disk drops it. Returns whether the held response was dropped.
    async fn supersede_held(&self, held: Option<&StoredArc>, removed: Option<WallTime>) -> bool {
        let went = |it: &&StoredArc| removed.is_some_and(|at| at >= it.meta.response_time);
        if let Some(part) = self.stored.as_ref().filter(went) {
            part.supersede();
        }
        let Some(held) = held.filter(went) else { return false };
        held.supersede();
        let disk = self.gateway.disk_of(&self.route.policy);
        if let Some(written) = disk.and_then(|it| it.supersede(&self.key)) {
            self.gateway.known_to_next_process(written).await;
        }
        true
    }

    /// Asks the fleet; where another node is about to fetch or renew the response, waits for that.
    async fn in_fleet(
        &mut self,
        fleet: &Rc<Fleet>,
        held: Option<(StoredArc, AnsweringTier)>,
        writer: &FillWriter,
    ) -> TierLookupResult {
        let collapse_wait = Duration::from_millis(u64::from(self.route.policy.collapse_wait_ms));
        let mut waiting = RecomputeWait::new(collapse_wait);
        let mut held = held;
        loop {
            let epoch = self.gateway.store.epoch(); // A purge from here on ends what the fleet says next.
            let lease = match self.ask_fleet(fleet, held.as_ref()).await {
                FleetAnswer::Unavailable => return self.without_fleet(held),
                FleetAnswer::Stands(lease) => {
                    let Some((it, tier)) = &held else { return TierLookupResult::Nothing };
                    self.gateway.note_shared(it);
                    if self.serves(it) {
                        return TierLookupResult::Found(it.clone(), *tier, Some(lease));
                    }
                    lease
                }
                FleetAnswer::Has(stored, lease) => {
                    self.gateway.note_shared(&stored);
                    self.put_in_ram(writer, &stored);
                    self.put_on_disk(writer, &stored).await;
                    if self.serves(&stored) {
                        return TierLookupResult::Found(stored, AnsweringTier::Fleet, Some(lease));
                    }
                    held = Some((stored, AnsweringTier::Fleet));
                    lease
                }
                FleetAnswer::Lost { lease, removed } => {
                    let went = self.supersede_held(held.as_ref().map(|it| &it.0), removed).await;
                    let local_only =
                        held.as_ref().filter(|it| !went && self.gateway.is_local_only(&it.0, it.1));
                    if let Some((it, tier)) = local_only {
                        // The fleet never had it.
                        self.gateway.note_local_only(it);
                        if self.serves(it) {
                            return TierLookupResult::Found(it.clone(), *tier, Some(lease));
                        }
                    }
                    lease
                }
                FleetAnswer::Unshared { says, seconds, removed } => {
                    self.supersede_held(held.as_ref().map(|it| &it.0), removed).await;
                    return self.unshared(held, &epoch, says, seconds);
                }
            };
            let theirs = match lease {
                LeaseState::HeldElsewhere(theirs) if self.below == TierLookup::First => theirs,
                LeaseState::Acquired(mut lease) => {
                    // Other requests may have waited, too, for a silent node: they must be able to tell this lease from
                    // that.
                    if !waiting.has_just_begun() {
                        lease.send_liveness();
                    }
                    return self.go_to_origin(held, Some(lease));
                }
                LeaseState::HeldElsewhere(_) | LeaseState::NotNeeded => return self.go_to_origin(held, None),
            };
            self.stages.enter(RequestStage::Wait);
            self.gateway.counters.recompute_waits.add(u64::from(waiting.has_just_begun()));
            if waiting.wait_is_over(fleet, theirs).await {
                self.gateway.counters.recompute_wait_timeouts.add(1);
                return self.go_to_origin(held, None);
            }
        }
    }

    async fn ask_fleet(&self, fleet: &Rc<Fleet>, held: Option<&(StoredArc, AnsweringTier)>) -> FleetAnswer {
        let policy = &self.route.policy;
        let fields = self.request.fields.view();
        // A response that serves if the fleet has nothing needs no lease.
        let suffices =
            held.is_some_and(|(it, tier)| self.gateway.is_local_only(it, *tier) && self.serves(it));
        let was_there = held.is_some_and(|(it, tier)| !self.gateway.is_local_only(it, *tier));
        let held = held.map(|it| &*it.0);
        let want = if self.below == TierLookup::Only || suffices { Want::ReadOnly } else { Want::Recompute };
        let is_purged = |it: &Envelope, by: bool| self.gateway.has_purged(policy, &self.request, it, by);
        let query =
            FleetQuery { key: &self.key, request: &fields, policy, want, held, is_purged: &is_purged };
        self.stages.enter(RequestStage::Read);
        let got = fleet.get(query).await;
        self.stages.enter(RequestStage::Lookup);
        let (found, lease) = match got {
            FleetResult::Hit { found, lease } => (found, lease),
            FleetResult::Miss { lease, removed } => {
                let is_fresh = |it: &&Stored| {
                    matches!(it.meta.freshness(clock::wall()), Freshness::Fresh { .. }) && !it.is_superseded()
                };
                let expire = fleet.settings().expire.as_secs();
                let is_kept = |it: &&Stored| {
                    expire == 0 || it.meta.response_time.0.saturating_add(expire) > clock::wall().0
                };
                let is_lost = was_there
                    && removed.is_none()
                    && held.as_ref().is_some_and(|it| is_fresh(it) && is_kept(it));
                self.gateway.counters.fleet_lost.add(u64::from(is_lost));
                return FleetAnswer::Lost { lease, removed };
            }
            FleetResult::Unshared { unshared: says, seconds, status, at } => {
                let removed = supersede::supersedes_for_all(status).then_some(at);
                return FleetAnswer::Unshared { says, seconds, removed };
            }
            FleetResult::Unavailable => return FleetAnswer::Unavailable,
        };
        let serves = held.is_some_and(|it| self.serves(it));
        let is_same = || held.is_some_and(|it| tier_transfer::is_same(&found, it));
        let meta = held.map(|it| &it.meta);
        let compared = tiers::compare_found(&found.envelope.meta, meta, serves, is_same);
        if compared != Compared::Newer && serves {
            return FleetAnswer::Stands(lease);
        }
        let stored = self.gateway.of_fleet(policy, &self.request, *found);
        let is_kept = stored.is_some();
        let admitted = stored.and_then(|it| self.gateway.store.admit_foreign(&self.key, it));
        self.gateway.counters.fleet_purged.add(u64::from(is_kept && admitted.is_none()));
        match admitted {
            Some(it) if compared.takes_found(serves, || self.serves(&it)) => {
                FleetAnswer::Has(StoredArc::new(it), lease)
            }
            _ if compared != Compared::Newer => FleetAnswer::Stands(lease),
            _ => FleetAnswer::Lost { lease, removed: None },
        }
    }

    /// The fleet is silent: the held response is used for a while.
    fn without_fleet(&mut self, held: Option<(StoredArc, AnsweringTier)>) -> TierLookupResult {
        let Some((it, tier)) = held else { return TierLookupResult::Nothing };
        if self.serves(&it) {
            match self.gateway.is_local_only(&it, tier) {
                true => self.gateway.note_local_only(&it),
                false => self.gateway.note_shared(&it),
            }
            return TierLookupResult::Found(it, tier, None);
        }
        self.ask_about(it)
    }

    /// Another node has found that nothing will be shared: its statement about the page holds here as well.
    fn unshared(
        &mut self,
        held: Option<(StoredArc, AnsweringTier)>,
        epoch: &PurgeEpoch,
        says: Unshared,
        seconds: u32,
    ) -> TierLookupResult {
        let most = self.gateway.remembers_misses(&self.route.policy);
        let may_part = held.is_none() && !self.is_background() && self.below == TierLookup::First;
        if says == Unshared::Answer || most == 0 || !may_part {
            return self.go_to_origin(held, None);
        }
        self.gateway.remember_miss(self.hash, epoch, most.min(seconds.into()));
        TierLookupResult::Unshared
    }

    /// No other node is to ask the origin, so this fill does.
    fn go_to_origin(
        &mut self,
        held: Option<(StoredArc, AnsweringTier)>,
        lease: Option<RecomputeLease>,
    ) -> TierLookupResult {
        self.lease.set(lease);
        match held {
            Some((it, _)) => self.ask_about(it),
            None => TierLookupResult::Nothing,
        }
    }

    /// A response served stale is revalidated in the background, by the node that has the lease.
    pub fn revalidate_in_background(self, stored: StoredArc, lease: Option<LeaseState>) {
        let lease = match lease {
            Some(LeaseState::Acquired(lease)) => Some(lease),
            Some(LeaseState::NotNeeded) => None,
            Some(LeaseState::HeldElsewhere(_)) | None => return,
        };
        if matches!(stored.meta.freshness(clock::wall()), Freshness::Fresh { .. }) {
            return;
        }
        let (gateway, flight) = (self.gateway.clone(), self.revalidation_of(&stored));
        let fetch = fetch_of(&stored);
        let (below, purpose, local, stages) =
            (TierLookup::Skip, FillPurpose::Revalidation, Rc::default(), FillStages::default());
        let lease = Cell::new(lease);
        let reason = FillReason::new(MissReason::Refresh);
        let job =
            FillJob { stored: Some(stored), fetch, below, purpose, reason, local, stages, lease, ..self };
        gateway.start_revalidation(job, flight);
    }
}
