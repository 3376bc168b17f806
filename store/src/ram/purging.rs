//! Applying purges: a response that a lookup, a join or an insert meets after a purge is treated as its rules say.
//! `purges::rules` matches; `purge_sweep` visits responses that are not requested.
//!
//! Order. A purge adds its rule to the table, then publishes its number, then returns; it takes the table's lock and no
//! other. An entry's `checked` is the number of the last rule that was applied to its responses. It is written only by a
//! thread that has read the table at that number or a later one. So a lookup that sees `checked >= seq` serves responses
//! to which every rule up to the `seq` it read was applied. Relaxed loads are sufficient. For a purge that *returned
//! before this lookup began*, some order exists between the two (a message, a lock, the same thread). It orders the two
//! accesses, so the lookup reads the purge's value or a later one. A purge that runs concurrently may be seen or not:
//! both orders are valid. A thread that does not see `checked >= seq` takes the table's lock and sees every rule of the
//! published numbers.
//!
//! Locks: books, shard, flights, fill, rules; the last two are never held while another is taken.

use super::{Lookup, Store};
use crate::disk::journal::rules_to_bytes;
use crate::entry::{Entry, Stored};
use crate::fill::head::SharedHead;
use crate::key::KeyHash;
use crate::memory_budget::MemoryBudget;
use crate::purges::rules::{PurgeRules, RequestedAt, RuleLimits};
use crate::purges::subject::{RuleSubject, SubjectFields};
use crate::purges::{Position, Positions, PurgeEpoch, PurgeFacts, PurgeRule, PurgeScope, Seq};
use crate::s3fifo::WalkPosition;
use larder_semantics::field::FieldList;
use larder_semantics::miss_reason::RemovalCause;
use larder_semantics::purged::{self, PurgeVerdict};
use larder_semantics::stored::Meta;
use larder_stdx::clock::{self, Monotonic, WallTime};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The most rules that are held.
const MOST_RULES: usize = 65_536;

/// The most rules with an expression: a response that is first met after all of them is tested against them all.
const MOST_EXPRESSIONS: usize = 64;

/// The most logs that are followed: the servers', and a few of servers that lost theirs.
const MOST_LOGS: usize = 256;

/// Rules, and how far they have been applied.
pub(crate) struct Purges {
    now: PurgeClock,
    rules: RwLock<PurgeRules>,
    log: Mutex<Positions>,
    pub(super) sweep: Mutex<Sweep>,
    pub(super) forgets: AtomicBool,
    /// The rules up to this one were applied to everything in RAM.
    pub(super) swept: AtomicU64,
    /// See [`Store::has_peer`].
    peer: AtomicBool,
}

/// The progress of a walk.
#[derive(Default)]
pub(super) struct Sweep {
    /// The rules up to this one were applied to everything in RAM.
    pub done: Seq,
    pub walk: Option<SweepWalk>,
}

/// A walk over all entries, approximately in the order of their arrival: memory neighbours are visited together, and
/// memory is freed from the first of them on. In hash order each page of the allocator would keep some entry until near
/// the end.
pub(super) struct SweepWalk {
    /// The last rule when it started: it was applied to everything that arrived later.
    pub until: Seq,
    pub place: WalkPosition,
}

/// The values that every hit reads: alone on their cache line, since they are hardly ever written.
#[repr(align(128))]
struct PurgeClock {
    /// The number of the last rule in force.
    seq: AtomicU64,
    /// Until when stored responses may be trusted, monotonic milliseconds.
    trust: AtomicU64,
    /// The current tick of idleness: see `idle`. Here only because a hit reads this line.
    tick: AtomicU8,
}

impl Purges {
    /// No rules; at most a 64th of the budget for them.
    pub fn new(budget: u64) -> Self {
        let bytes = (budget / 64).clamp(64 << 10, 16 << 20);
        let most = RuleLimits { rules: MOST_RULES, bytes, expressions: MOST_EXPRESSIONS };
        Self {
            now: PurgeClock {
                seq: AtomicU64::new(0),
                trust: AtomicU64::new(u64::MAX),
                tick: AtomicU8::new(0),
            },
            rules: RwLock::new(PurgeRules::new(most)),
            log: Mutex::default(),
            sweep: Mutex::default(),
            forgets: AtomicBool::new(false),
            peer: AtomicBool::new(false),
            swept: AtomicU64::new(0),
        }
    }

    /// One rule without the others.
    pub(super) fn single(&self, rule: &PurgeRule, at: WallTime) -> PurgeRules {
        self.rules.read().single(rule.clone(), at)
    }

    /// The last purge in force.
    pub fn seq(&self) -> Seq {
        // A response that is requested with this number knows the rules up to it: they must not be read before.
        self.now.seq.load(Acquire)
    }

    /// Whether an entry may be served without applying rules.
    #[inline]
    pub fn is_current(&self, entry: &Entry) -> bool {
        entry.checked.load(Relaxed) >= self.now.seq.load(Relaxed) && self.trusts(clock::monotonic())
    }

    /// The current tick of idleness.
    #[inline]
    pub fn tick(&self) -> u8 {
        self.now.tick.load(Relaxed)
    }

    /// This number of ticks has passed.
    pub fn advance_tick(&self, ticks: u8) {
        self.now.tick.fetch_add(ticks, Relaxed);
    }

    #[inline]
    fn trusts(&self, now: Monotonic) -> bool {
        now.0 <= self.now.trust.load(Relaxed)
    }

    /// Whether a fetch that started at `begun`, with this head if it has one, may be joined by a new request.
    pub fn may_join(&self, key: &[u8], begun: Seq, head: Option<&SharedHead>) -> bool {
        if !self.trusts(clock::monotonic()) {
            return false;
        }
        if begun >= self.seq() {
            return true;
        }
        let rules = self.rules.read();
        match head {
            None => !rules.may_match(key, begun),
            Some(head) => {
                let SharedHead { meta, fields, purge_facts: facts, length, .. } = head;
                // For a body of unknown length an expression may turn out to be true.
                if length.is_none() && rules.has_expression_after(begun) {
                    return false;
                }
                let fields = SubjectFields::Listed(fields);
                let subject = RuleSubject { key, meta, fields, tags: &facts.tags, size: *length };
                let epoch = RequestedAt::Here { applied: facts.epoch.seq, log: &facts.epoch.log };
                rules.verdict(&subject, epoch) == PurgeVerdict::Keep
            }
        }
    }

    /// Whether a purge after `since` names this key. Tags and conditions are not checked, as the response is not known.
    pub fn has_named(&self, key: &[u8], since: Seq) -> bool {
        since < self.seq() && self.rules.read().has_named(key, since)
    }

    /// The verdict about a response of this node to which the rules up to `met` were applied; and the number of the last
    /// rule applied now.
    pub fn verdict(&self, key: &[u8], stored: &Stored, applied: Seq) -> (PurgeVerdict, Seq) {
        let rules = self.rules.read();
        let applied = applied.max(stored.epoch);
        let epoch = RequestedAt::Here { applied, log: stored.log() };
        (rules.verdict(&stored.subject(key), epoch), rules.seq())
    }

    fn foreign_verdict(&self, key: &[u8], stored: &Stored) -> (PurgeVerdict, Seq) {
        let rules = self.rules.read();
        let epoch = RequestedAt::Elsewhere { at: stored.meta.request_time, log: stored.log() };
        (rules.verdict(&stored.subject(key), epoch), rules.seq())
    }

    /// The entry after applying the rules, or the remaining part of it.
    pub fn apply(&self, entry: &Entry, revalidate_before: Option<WallTime>) -> RulesApplied {
        let applied = entry.checked.load(Relaxed);
        let revalidate_before = revalidate_before.map_or(PurgeVerdict::Keep, PurgeVerdict::Unread);
        let rules = self.rules.read();
        let seq = rules.seq();
        let of = |it: &Stored| {
            let epoch = RequestedAt::Here { applied: applied.max(it.epoch), log: it.log() };
            let revalidate_before =
                if purged::is_doubted(&it.meta) { PurgeVerdict::Keep } else { revalidate_before };
            rules.verdict(&it.subject(entry.key()), epoch).and(revalidate_before)
        };
        if entry.variants.iter().all(|it| of(it) == PurgeVerdict::Keep) {
            return RulesApplied::AsItIs(seq);
        }
        entry.map(seq, |it| Stored::after(it, of(it))).map_or(RulesApplied::Gone, RulesApplied::Changed)
    }

    /// The last rule, if it may not have been applied to everything in RAM.
    pub fn unswept(&self) -> Option<Seq> {
        Some(self.seq()).filter(|it| self.swept.load(Relaxed) < *it)
    }

    /// The part of an entry that the rules leave.
    pub fn remaining(&self, entry: Entry) -> Option<Entry> {
        match self.apply(&entry, None) {
            RulesApplied::AsItIs(_) => Some(entry),
            RulesApplied::Changed(left) => Some(left),
            RulesApplied::Gone => None,
        }
    }

    /// Drops rules that were applied to everything in RAM.
    pub(super) fn drop_applied(&self, until: Seq, keep: usize, budget: &MemoryBudget) {
        let mut rules = self.rules.write();
        let mut cost = rules.cost();
        rules.forget(until, keep);
        budget.settle(&mut cost, rules.cost());
    }
}

/// The result of [`Purges::apply`].
pub(crate) enum RulesApplied {
    /// No rule applies; the rules up to this one were checked.
    AsItIs(Seq),
    /// This replaces it.
    Changed(Entry),
    /// No response is left.
    Gone,
}

impl Store {
    /// Purges. In force for every lookup, join and insert that begins after this returns; nothing is walked. Current
    /// readers of purged responses finish undamaged.
    pub fn purge(&self, rule: PurgeRule) -> Seq {
        self.counters.purges.add_shared(1);
        if matches!(rule.scope, PurgeScope::All) {
            self.counters.purges_everything.add_shared(1);
        }
        let at = clock::wall();
        let seq = self.change_rules(|rules| {
            let (seq, let_go) = rules.add(rule, at);
            self.counters.purge_rules_full.add_shared(let_go as u64);
            seq
        });
        self.trim();
        seq
    }

    /// Returns a response found in a tier of this node in its usable form; `None` where it is purged. Decided by
    /// `purge_facts.epoch.seq`, and for a response requested before a restart also by `purge_facts.epoch.log`.
    #[must_use]
    pub fn admit(&self, key: &[u8], stored: Stored) -> Option<Stored> {
        let (verdict, _) = self.purges.verdict(key, &stored, 0);
        self.admitted(stored, verdict)
    }

    /// Returns a response found in the fleet in its usable form; `None` where it is purged. Decided by `purge_facts.epoch.log`,
    /// and for purges of this node alone by the time of its request. This node's rules are applied to it, but its log
    /// positions do not change: it may go on to other nodes.
    #[must_use]
    pub fn admit_foreign(&self, key: &[u8], stored: Stored) -> Option<Stored> {
        let (verdict, seq) = self.purges.foreign_verdict(key, &stored);
        let mut stored = self.admitted(stored, verdict)?;
        stored.epoch = seq;
        Some(stored)
    }

    /// Whether a purge applies to a fleet record with these facts, of `size` bytes: [`Store::admit_foreign`] would not
    /// return it unchanged.
    #[must_use]
    pub fn has_purged(
        &self,
        key: &[u8],
        meta: &Meta,
        fields: &FieldList,
        facts: &PurgeFacts,
        size: u64,
    ) -> bool {
        let fields = SubjectFields::Listed(fields);
        let subject = RuleSubject { key, meta, fields, tags: &facts.tags, size: Some(size) };
        let epoch = RequestedAt::Elsewhere { at: meta.request_time, log: &facts.epoch.log };
        self.purges.rules.read().verdict(&subject, epoch) != PurgeVerdict::Keep
    }

    fn admitted(&self, mut stored: Stored, verdict: PurgeVerdict) -> Option<Stored> {
        let verdict = if self.trusted() || purged::is_doubted(&stored.meta) {
            verdict
        } else {
            verdict.and(PurgeVerdict::Unread(clock::wall()))
        };
        if verdict != PurgeVerdict::Keep {
            stored.meta = verdict.apply(&stored.meta)?;
        }
        Some(stored)
    }

    /// Stored responses may be trusted up to and including this time (monotonic milliseconds); afterwards every response
    /// must be validated and no fill is joined. At first it is for ever, `u64::MAX`.
    pub fn trust_until(&self, monotonic_millis: u64) {
        self.purges.now.trust.store(monotonic_millis, Relaxed);
    }

    /// Whether stored responses may be trusted now.
    #[must_use]
    pub fn trusted(&self) -> bool {
        self.purges.trusts(clock::monotonic())
    }

    /// The epoch of a request to the origin: taken before the request is sent.
    #[must_use]
    pub fn epoch(&self) -> PurgeEpoch {
        // The log positions first: the rules up to them have numbers by then.
        let log = self.purges.log.lock().clone();
        PurgeEpoch { seq: self.purges.seq(), log }
    }

    /// This node has followed a log up to this position: responses requested from now on know it. Call it only after
    /// [`Store::purge`] of every entry up to there has returned.
    pub fn advance(&self, position: Position) {
        self.change_log(|all| match all.iter_mut().find(|it| it.log == position.log) {
            Some(known) => known.entry = known.entry.max(position.entry),
            None => {
                if all.len() == MOST_LOGS {
                    all.remove(0);
                }
                all.push(position);
            }
        });
    }

    /// A log is gone (its server lost it): no response is expected to know it. Its purges must be compensated by a purge
    /// of everything.
    pub fn log_lost(&self, log: u64) {
        self.change_log(|all| all.retain(|it| it.log != log));
        self.change_rules(|rules| rules.log_lost(log));
    }

    pub(crate) fn change_log(&self, change: impl FnOnce(&mut Vec<Position>)) {
        let mut log = self.purges.log.lock();
        let mut all = log.as_slice().to_vec();
        change(&mut all);
        *log = Positions::new(&all);
    }

    /// Takes over the rules from before a restart, at start. `last_seq` is at least the last rule's, and at least the
    /// `epoch.seq` of every record in any tier. Rules come into force now, where their time matters. A second call adds those
    /// that the first one lacked.
    pub fn restore(&self, last_seq: Seq, rules: Vec<(Seq, PurgeRule)>) {
        let at = clock::wall();
        self.change_rules(|all| {
            for (seq, rule) in rules {
                let let_go = all.restore(seq, rule, at);
                self.counters.purge_rules_full.add_shared(let_go as u64);
            }
            all.continue_after(last_seq);
        });
    }

    /// The number of the last purge.
    #[must_use]
    pub fn purge_number(&self) -> Seq {
        self.purges.rules.read().seq()
    }

    /// The purges in force, as bytes for [`crate::disk::rules_of_bytes`].
    #[must_use]
    pub fn rules_as_bytes(&self) -> Vec<u8> {
        rules_to_bytes(self.purges.rules.read().each())
    }

    /// The last number, the same bytes, and the number of the last purge that was dropped, since there were too many.
    pub(crate) fn rules_to_hand_over(&self) -> (Seq, Vec<u8>, Seq) {
        let rules = self.purges.rules.read();
        (rules.seq(), rules_to_bytes(rules.each()), rules.dropped_until())
    }

    /// Whether another process serves the same clients during an upgrade: an invalidation by an unsafe method is then a purge,
    /// which reaches that process.
    #[must_use]
    pub fn has_peer(&self) -> bool {
        self.purges.peer.load(Relaxed)
    }

    /// See [`Store::has_peer`].
    pub fn set_peer(&self, is_there: bool) {
        self.purges.peer.store(is_there, Relaxed);
    }

    pub(crate) fn change_rules<T>(&self, change: impl FnOnce(&mut PurgeRules) -> T) -> T {
        let mut rules = self.purges.rules.write();
        let mut cost = rules.cost();
        let result = change(&mut rules);
        self.budget.settle(&mut cost, rules.cost());
        // Published while the table is locked: a thread that sees the number sees the rule.
        self.purges.now.seq.store(rules.seq(), Release);
        result
    }

    /// The slow path of a lookup: rules were added since they were last applied to this entry, or it is not trusted.
    #[cold]
    #[inline(never)]
    pub(crate) fn lookup_after_purge(&self, hash: KeyHash, entry: Entry) -> Lookup {
        let revalidate_before = (!self.trusted()).then(clock::wall);
        match self.apply_rules(hash, &entry, revalidate_before) {
            AfterPurges::AsItIs => Lookup::Entry(entry),
            AfterPurges::Changed(entry) => Lookup::Entry(entry),
            AfterPurges::Gone => Lookup::Nothing,
        }
    }

    /// Applies the rules to an entry.
    pub(super) fn apply_rules(
        &self,
        hash: KeyHash,
        entry: &Entry,
        revalidate_before: Option<WallTime>,
    ) -> AfterPurges {
        match self.purges.apply(entry, revalidate_before) {
            RulesApplied::AsItIs(seq) => {
                entry.checked.fetch_max(seq, Relaxed);
                AfterPurges::AsItIs
            }
            RulesApplied::Changed(_) | RulesApplied::Gone => {
                self.apply_rules_in_place(hash, entry.key(), revalidate_before)
            }
        }
    }

    /// The same with the entry that is now in its place, while it cannot be changed by others.
    fn apply_rules_in_place(
        &self,
        hash: KeyHash,
        key: &[u8],
        revalidate_before: Option<WallTime>,
    ) -> AfterPurges {
        let mut eviction = self.eviction.lock();
        let Some(entry) = self.entry_of(hash, key) else { return AfterPurges::Gone };
        let (applied, _old) = match self.purges.apply(&entry, revalidate_before) {
            RulesApplied::AsItIs(seq) => {
                entry.checked.fetch_max(seq, Relaxed);
                return AfterPurges::Changed(entry);
            }
            RulesApplied::Changed(new) => {
                let purged = entry.variants.len() - new.variants.len();
                self.counters.purged_responses.add_shared(purged as u64);
                let old = self.put(&mut eviction, hash, new.clone());
                (AfterPurges::Changed(new), old)
            }
            RulesApplied::Gone => {
                self.counters.purged_responses.add_shared(entry.variants.len() as u64);
                self.removed_keys.add(hash.0, RemovalCause::Purged);
                (AfterPurges::Gone, self.remove_from_index(&mut eviction, hash))
            }
        };
        drop(eviction);
        // The old entry and its content are freed only now.
        drop(entry);
        applied
    }
}

/// The result of [`Store::apply_rules`].
pub(crate) enum AfterPurges {
    /// No rule applies.
    AsItIs,
    /// This entry is in its place.
    Changed(Entry),
    /// No entry is left.
    Gone,
}
