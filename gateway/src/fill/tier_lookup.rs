//! The steps `Disk` and `Fleet`: a fill looks there before it asks the origin. One look a key, variant and node at a time, however many
//! requests there are.

use super::machine::FillStep;
use super::{FetchKind, FillJob, FillOutcome, FillRun, Readers};
use crate::coding;
use crate::lower_tiers::{self, PromoteToRam};
use crate::stages::{FillStages, RequestStage};
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::freshness::Freshness;
use larder_semantics::partial;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, Reuse};
use larder_semantics::supersede;
use larder_semantics::tiers::{self, Compared};
use larder_semantics::trace::Silent;
use larder_semantics::vary;
use larder_stdx::clock::{self, WallTime};
use larder_store::fleet::{
    AtWork, Fleet, FleetQuery, FleetResult, OtherNodesLease, RecomputeLease, RecomputeTurn, Unshared, Want,
};
use larder_store::ram::Lookup;
use larder_store::{Born, FillWriter, FleetCopy, ReadWait, Stored, StoredArc};
use larder_wire::envelope::Envelope;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// The first pause before another node's record is looked for again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// For so long the other node may be silent: it tells of itself twice a second. Who takes the turn over then has a sign less of time, and
/// all of it is less than the two seconds that clients wait.
const SILENT: Duration = Duration::from_millis(1200);

/// Then whoever has the turn is asked for signs of life so often.
const SIGN_AGAIN: Duration = Duration::from_millis(500);

/// What a fill does about the tiers below RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TierLookup {
    /// Nothing: they were asked, or there are none.
    Skip,
    /// It asks them before the origin.
    First,
    /// It asks them, and not the origin.
    Only,
}

/// What came of a descent.
pub(super) enum TierLookupResult {
    /// This answers, or stands; with whose turn it is to make it anew where it is stale.
    Found(StoredArc, AnsweringTier, Option<RecomputeTurn>),
    /// The origin has to be asked.
    Nothing,
    /// The origin has to be asked, by everybody who waits: another node has found that answers are not shared. That is
    /// remembered.
    Unshared,
}

/// What the fleet said about a key.
enum FleetAnswer {
    /// This is to be used from now on.
    Has(StoredArc, RecomputeTurn),
    /// What is held is as new.
    Stands(RecomputeTurn),
    /// It has nothing: since it was `removed` lately, or for want of having been written.
    Lost { turn: RecomputeTurn, removed: Option<WallTime> },
    /// Another node's answer may not be shared; for so many seconds. `removed` where it replaced what was stored before.
    Unshared { says: Unshared, seconds: u32, removed: Option<WallTime> },
    /// Nothing is known.
    Unavailable,
}

/// A fill's waiting for what another node is to bring.
struct RecomputeWait {
    /// The longest that it waits.
    end: Pin<Box<Sleep>>,
    /// Until its next look.
    pause: Duration,
    /// Until it is time to ask for a sign of whoever has the turn.
    sign: Pin<Box<Sleep>>,
    /// The turn that it has waited for so far.
    theirs: Option<OtherNodesLease>,
    has_taken_over: bool,
    /// It waits for another turn than at first.
    has_changed: bool,
}

impl RecomputeWait {
    fn new(patience: Duration) -> Self {
        let [end, sign] = [patience, SILENT].map(|it| Box::pin(sleep(it)));
        Self { end, pause: FIRST_PAUSE, sign, theirs: None, has_taken_over: false, has_changed: false }
    }

    fn has_just_begun(&self) -> bool {
        self.theirs.is_none()
    }

    /// Waits until it is time to look again; says whether to wait no longer: it was long enough, or whoever has the turn is
    /// silent, and the turn was taken from another already.
    async fn is_in_vain(&mut self, fleet: &Fleet, theirs: OtherNodesLease) -> bool {
        if self.theirs.is_none() {
            // It has just begun, for all that is known.
            (self.sign, self.theirs) = (Box::pin(sleep(SILENT)), Some(theirs));
        } else if self.theirs.as_ref() != Some(&theirs) && !self.has_changed {
            // Somebody else has it now. Once: servers that answer with what was asked before show another each time.
            (self.sign, self.theirs) = (Box::pin(sleep(SIGN_AGAIN)), Some(theirs));
            self.has_changed = true;
        } else if self.sign.is_elapsed() {
            match fleet.is_at_work(&theirs).await {
                AtWork::Yes => self.sign = Box::pin(sleep(SIGN_AGAIN)),
                AtWork::Silent if !self.has_taken_over => {
                    fleet.take_over(&theirs);
                    (self.has_taken_over, self.pause) = (true, FIRST_PAUSE);
                    self.sign = Box::pin(sleep(SIGN_AGAIN));
                    self.has_changed = true;
                }
                AtWork::Silent | AtWork::Unknown => return true,
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
    /// `Disk`: looks on the disk, unless RAM holds something. What was found and is too old to be served becomes what the origin is
    /// asked about.
    pub(super) async fn look_on_disk(&mut self) -> FillStep {
        let (job, Readers::Shared(writer)) = (&mut self.job, &self.readers) else { return FillStep::Finish };
        let mut held = job.stored.clone().map(|it| (it, AnsweringTier::Ram));
        // A part in RAM may be the whole on disk.
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

    /// `Fleet`: looks in the fleet, with what is held from a nearer tier.
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

    /// What follows from what the tiers have.
    fn looked(&mut self, looked: TierLookupResult) -> FillStep {
        match looked {
            TierLookupResult::Found(stored, tier, turn) => self.ends(FillOutcome::Found(stored, tier, turn)),
            TierLookupResult::Unshared => {
                self.job.local.unshared.set(true);
                self.ends(FillOutcome::LookAgain)
            }
            TierLookupResult::Nothing if self.job.below == TierLookup::Only => {
                self.ends(FillOutcome::LookAgain)
            }
            TierLookupResult::Nothing => FillStep::Origin,
        }
    }
}

impl FillJob {
    /// What answers now, and was not there before this fill waited for a permit.
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

    /// Whether RAM has a part of another representation than this whole, which came later: then nothing is answered with the whole.
    fn is_outdated(&self, whole: &Stored) -> bool {
        let is_outdated = self.stored.as_ref().is_some_and(|it| partial::outdates(&it.meta, &whole.meta));
        if is_outdated {
            whole.supersede();
        }
        is_outdated
    }

    /// The same in RAM alone.
    pub(super) fn came_into_ram(&self) -> Option<(StoredArc, AnsweringTier)> {
        let Lookup::Shelf(shelf) = self.gateway.store.lookup(self.hash, &self.key, 0) else { return None };
        let fields = self.request.fields.view();
        let stored = shelf.select(&fields, &mut Vec::new())?;
        let is_new = !self.stored.as_ref().is_some_and(|old| StoredArc::ptr_eq(old, stored));
        let answers = is_new && !coding::is_of_no_use(stored, &fields) && self.serves(stored);
        answers.then(|| (stored.clone(), AnsweringTier::Ram))
    }

    /// Whether the disk of this node has something under the key.
    pub(super) fn lies_on_disk(&self) -> bool {
        self.gateway.disk_of(&self.route.policy).is_some_and(|it| it.knows(&self.key))
    }

    async fn on_disk(&self, writer: &FillWriter) -> Option<StoredArc> {
        let disk = self.gateway.disk_of(&self.route.policy).filter(|it| it.knows(&self.key))?;
        self.told.enter(RequestStage::Queue);
        let waited = ReadWait::default();
        let stored = disk.read_timed(&self.key, &self.request.fields.view(), &waited).await;
        self.told.has_read(waited.micros());
        let stored = stored?;
        let stored = self.gateway.store.admit(&self.key, stored)?;
        let policy = &self.route.policy;
        let (stored, taken_up) = self.gateway.take_up(disk, policy, self.hash, stored).await;
        let stored = lower_tiers::faced(stored, policy);
        if self.gateway.fleet_of(policy).is_some() {
            // It answers no other request before the fleet was asked.
            let shared = if self.gateway.is_shared(&stored) { FleetCopy::Yes } else { FleetCopy::No };
            stored.is_due_at(clock::wall().0, shared);
        }
        if taken_up == PromoteToRam::NotYet {
            return Some(StoredArc::new(stored));
        }
        let stored = self.gateway.store.keep(stored);
        self.put_in_ram(writer, &stored);
        Some(stored)
    }

    fn put_in_ram(&self, writer: &FillWriter, stored: &StoredArc) {
        let policy = &self.route.policy;
        if policy.tiers.ram {
            // Removed meanwhile, or no room: it is served all the same, to those who asked before.
            let _ = writer.admit(stored.clone(), usize::from(policy.max_variants));
        }
    }

    /// What came from the fleet is as warm after a restart as what came from the origin, and what lay there before is gone.
    async fn put_on_disk(&self, writer: &FillWriter, stored: &StoredArc) {
        let Some(disk) = self.gateway.disk_of(&self.route.policy) else { return };
        let displaced = disk.displace(&self.key, stored);
        // Where others write to the fleet they remove there, too, and nobody would see that here.
        if self.gateway.tiers.fills_fleet() && tiers::goes_down(&stored.meta, clock::wall()) {
            disk.write_unless(&self.key, stored, || writer.was_removed());
        }
        if let Some(written) = displaced {
            self.gateway.outlives_us(written).await;
        }
    }

    /// Another full response of the origin came at `removed` or before: what is held from before that is good for its validator alone,
    /// in RAM, and gone from the disk. Says whether what is held went.
    async fn supersede_held(&self, held: Option<&StoredArc>, removed: Option<WallTime>) -> bool {
        let went = |it: &&StoredArc| removed.is_some_and(|at| at >= it.meta.response_time);
        if let Some(part) = self.stored.as_ref().filter(went) {
            part.supersede();
        }
        let Some(held) = held.filter(went) else { return false };
        held.supersede();
        let disk = self.gateway.disk_of(&self.route.policy);
        if let Some(written) = disk.and_then(|it| it.supersede(&self.key)) {
            self.gateway.outlives_us(written).await;
        }
        true
    }

    /// Asks the fleet; where another node is about to make what is missing or stale anew, waits for that.
    async fn in_fleet(
        &mut self,
        fleet: &Rc<Fleet>,
        held: Option<(StoredArc, AnsweringTier)>,
        writer: &FillWriter,
    ) -> TierLookupResult {
        let patience = Duration::from_millis(u64::from(self.route.policy.collapse_wait_ms));
        let mut waiting = RecomputeWait::new(patience);
        let mut held = held;
        loop {
            let born = self.gateway.store.born(); // A purge from here on ends what the fleet says next.
            let turn = match self.ask_fleet(fleet, held.as_ref()).await {
                FleetAnswer::Unavailable => return self.without_fleet(held),
                FleetAnswer::Stands(turn) => {
                    let Some((it, tier)) = &held else { return TierLookupResult::Nothing };
                    self.gateway.stands(it);
                    if self.serves(it) {
                        return TierLookupResult::Found(it.clone(), *tier, Some(turn));
                    }
                    turn
                }
                FleetAnswer::Has(stored, turn) => {
                    self.gateway.stands(&stored);
                    self.put_in_ram(writer, &stored);
                    self.put_on_disk(writer, &stored).await;
                    if self.serves(&stored) {
                        return TierLookupResult::Found(stored, AnsweringTier::Fleet, Some(turn));
                    }
                    held = Some((stored, AnsweringTier::Fleet));
                    turn
                }
                FleetAnswer::Lost { turn, removed } => {
                    let went = self.supersede_held(held.as_ref().map(|it| &it.0), removed).await;
                    let alone = held.as_ref().filter(|it| !went && self.is_alone(&it.0, it.1));
                    if let Some((it, tier)) = alone {
                        // It was never there.
                        self.gateway.stands_alone(it);
                        if self.serves(it) {
                            return TierLookupResult::Found(it.clone(), *tier, Some(turn));
                        }
                    }
                    turn
                }
                FleetAnswer::Unshared { says, seconds, removed } => {
                    self.supersede_held(held.as_ref().map(|it| &it.0), removed).await;
                    return self.unshared(held, &born, says, seconds);
                }
            };
            let theirs = match turn {
                RecomputeTurn::Theirs(theirs) if self.below == TierLookup::First => theirs,
                RecomputeTurn::Ours(mut win) => {
                    // Others may have waited as well, for one who is silent: they are to know this one from it.
                    if !waiting.has_just_begun() {
                        win.show();
                    }
                    return self.on_our_turn(held, Some(win));
                }
                RecomputeTurn::Theirs(_) | RecomputeTurn::Free => return self.on_our_turn(held, None),
            };
            self.told.enter(RequestStage::Wait);
            self.gateway.counters.recompute_waits.add(u64::from(waiting.has_just_begun()));
            if waiting.is_in_vain(fleet, theirs).await {
                self.gateway.counters.recompute_wait_timeouts.add(1);
                return self.on_our_turn(held, None);
            }
        }
    }

    /// Whether what is held is not in the fleet for want of having been written there.
    fn is_alone(&self, held: &Stored, tier: AnsweringTier) -> bool {
        match tier {
            AnsweringTier::Ram => held.is_shared() == FleetCopy::No,
            AnsweringTier::Disk => !self.gateway.is_shared(held),
            AnsweringTier::Fleet => false,
        }
    }

    async fn ask_fleet(&self, fleet: &Rc<Fleet>, held: Option<&(StoredArc, AnsweringTier)>) -> FleetAnswer {
        let policy = &self.route.policy;
        let fields = self.request.fields.view();
        // What serves if the fleet has nothing needs no turn.
        let suffices = held.is_some_and(|(it, tier)| self.is_alone(it, *tier) && self.serves(it));
        let held = held.map(|it| &*it.0);
        let want = if self.below == TierLookup::Only || suffices { Want::Look } else { Want::Recompute };
        let is_purged = |it: &Envelope, by: bool| self.gateway.has_purged(policy, &self.request, it, by);
        let ask = FleetQuery { key: &self.key, request: &fields, policy, want, held, is_purged: &is_purged };
        self.told.enter(RequestStage::Read);
        let got = fleet.get(ask).await;
        self.told.enter(RequestStage::Lookup);
        let (found, turn) = match got {
            FleetResult::Hit { found, turn } => (found, turn),
            FleetResult::Miss { turn, removed } => return FleetAnswer::Lost { turn, removed },
            FleetResult::Unshared { says, seconds, status, at } => {
                let removed = supersede::supersedes_for_all(status).then_some(at);
                return FleetAnswer::Unshared { says, seconds, removed };
            }
            FleetResult::Unavailable => return FleetAnswer::Unavailable,
        };
        let compared = match held {
            Some(held) if partial::outdates(&held.meta, &found.envelope.meta) => Compared::Older,
            // A part that does not answer is as nothing beside a whole.
            Some(held) if held.meta.partial().is_none() || self.serves(held) => {
                tiers::compare(&found.envelope.meta, &held.meta, || lower_tiers::is_same(&found, held))
            }
            _ => Compared::Newer,
        };
        if compared != Compared::Newer && held.is_some_and(|it| self.serves(it)) {
            return FleetAnswer::Stands(turn);
        }
        let stored = self.gateway.of_fleet(policy, &self.request, *found);
        let is_kept = stored.is_some();
        let admitted = stored.and_then(|it| self.gateway.store.admit_foreign(&self.key, it));
        self.gateway.counters.fleet_purged.add(u64::from(is_kept && admitted.is_none()));
        match admitted {
            Some(it) if compared == Compared::Newer => FleetAnswer::Has(StoredArc::new(it), turn),
            // What is held may be doubted for want of what the fleet's copy tells. An older one is never gone back to.
            Some(it) if compared == Compared::Same && self.serves(&it) => {
                FleetAnswer::Has(StoredArc::new(it), turn)
            }
            _ if compared != Compared::Newer => FleetAnswer::Stands(turn),
            _ => FleetAnswer::Lost { turn, removed: None },
        }
    }

    /// The fleet is silent: what is held stands for a while.
    fn without_fleet(&mut self, held: Option<(StoredArc, AnsweringTier)>) -> TierLookupResult {
        let Some((it, tier)) = held else { return TierLookupResult::Nothing };
        if self.serves(&it) {
            match self.is_alone(&it, tier) {
                true => self.gateway.stands_alone(&it),
                false => self.gateway.stands(&it),
            }
            return TierLookupResult::Found(it, tier, None);
        }
        self.ask_about(it)
    }

    /// Another node has found that there is nothing to wait for: what it says of the page holds here as well.
    fn unshared(
        &mut self,
        held: Option<(StoredArc, AnsweringTier)>,
        born: &Born,
        says: Unshared,
        seconds: u32,
    ) -> TierLookupResult {
        let most = self.gateway.remembers_misses(&self.route.policy);
        let may_part = held.is_none() && !self.background && self.below == TierLookup::First;
        if says == Unshared::Answer || most == 0 || !may_part {
            return self.on_our_turn(held, None);
        }
        self.gateway.remember_miss(self.hash, born, most.min(seconds.into()));
        TierLookupResult::Unshared
    }

    /// Nobody else is to ask the origin, so this fill does.
    fn on_our_turn(
        &mut self,
        held: Option<(StoredArc, AnsweringTier)>,
        win: Option<RecomputeLease>,
    ) -> TierLookupResult {
        self.win.set(win);
        match held {
            Some((it, _)) => self.ask_about(it),
            None => TierLookupResult::Nothing,
        }
    }

    fn ask_about(&mut self, stored: StoredArc) -> TierLookupResult {
        if self.stored.as_ref().is_some_and(|it| StoredArc::ptr_eq(it, &stored)) {
            return TierLookupResult::Nothing; // Whether the origin is asked about that was decided before.
        }
        let fields = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &fields);
        if reuse::is_for_others(&stored.meta, &facts, &self.route.policy) {
            return TierLookupResult::Nothing; // Neither its validator nor its bytes are this visitor's.
        }
        drop(fields);
        self.fetch = fetch_of(&stored);
        *self.local.stale.borrow_mut() = Some(stored.clone());
        self.stored = Some(stored);
        TierLookupResult::Nothing
    }

    /// What is served stale is made anew behind it, by the node whose turn it is.
    pub fn make_anew(self, stored: StoredArc, turn: Option<RecomputeTurn>) {
        let win = match turn {
            Some(RecomputeTurn::Ours(win)) => Some(win),
            Some(RecomputeTurn::Free) => None,
            Some(RecomputeTurn::Theirs(_)) | None => return,
        };
        if matches!(stored.meta.freshness(clock::wall()), Freshness::Fresh { .. }) {
            return;
        }
        let mut key = self.key.clone();
        if !stored.meta.vary().is_empty() {
            vary::write_key(stored.meta.vary(), &self.request.fields.view(), &mut key);
        }
        let gateway = self.gateway.clone();
        let flight = gateway.store.hash(&key);
        let fetch = fetch_of(&stored);
        let (below, background, local, told) = (TierLookup::Skip, true, Rc::default(), FillStages::default());
        let win = Cell::new(win);
        let job = FillJob { stored: Some(stored), fetch, below, background, local, told, win, ..self };
        gateway.validate_in_background(job, flight);
    }

    /// Whether a copy may answer the request that began this fill without the origin being asked first.
    fn serves(&self, stored: &Stored) -> bool {
        if stored.is_superseded() {
            return false;
        }
        let fields = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &fields);
        let decision =
            reuse::decide(Ok(&stored.meta), &facts, &self.route.policy, clock::wall(), &mut Silent);
        match decision {
            Reuse::Serve | Reuse::ServeStale => true,
            Reuse::ServeWhileRevalidating => !self.background,
            _ => false,
        }
    }
}

/// How the origin is asked about what is stored.
fn fetch_of(stored: &Stored) -> FetchKind {
    if stored.meta.has_validator() { FetchKind::Validation } else { FetchKind::Full }
}
