//! Purges carried out: what is met by a lookup, a join or an insert after a purge is treated as its rules say. What
//! matches is in `rules`; what nobody meets, in `sweep`.
//!
//! Order. A purge puts its rule in the table, then publishes its number, then returns; it takes the table's lock and
//! no other. A shelf's `checked` is the number up to which its responses have met the rules; it is written only by who
//! has read the table at that number or a later one. So a lookup that sees `checked >= seq` serves what has met every
//! rule up to the `seq` that it read. Relaxed loads do: what a purge that *returned before this lookup began* stored is
//! what the lookup reads, or something later, for whatever tells the one to come after the other (a message, a lock,
//! the same thread) orders the two accesses, and one variable never goes back for who has seen it. A purge that runs
//! beside a lookup may be seen or not: either order is true. Whoever does not see `checked >= seq` takes the
//! table's lock and sees every rule of the numbers that were published.
//!
//! Locks: books, shard, flights, fill, rules; the last two are never held for another.

use super::rules::{Birth, Most, PurgeRules, RuleSubject, SubjectFields};
use super::sweep::Sweep;
use super::{Born, Marks, Position, Positions, PurgeRule, Seq};
use crate::entry::{Entry, Stored, StoredArc};
use crate::fill::SharedHead;
use crate::ram::{KeyHash, Lookup, Store};
use larder_semantics::field::FieldList;
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

/// The most rules with an expression: a response that is met for the first time after all of them asks them all.
const MOST_EXPRESSIONS: usize = 64;

/// The most logs that are followed: servers, and a few that lost theirs.
const MOST_LOGS: usize = 256;

/// Rules, and how far they have been carried out.
pub(crate) struct Purges {
    now: PurgeEpochs,
    rules: RwLock<PurgeRules>,
    log: Mutex<Positions>,
    pub(super) sweep: Mutex<Sweep>,
    pub(super) forgets: AtomicBool,
    /// Everything in RAM has met the rules up to this one.
    pub(super) swept: AtomicU64,
}

/// What every hit reads: alone on its cache line, since it is hardly ever written.
#[repr(align(128))]
struct PurgeEpochs {
    /// The number of the last rule in force.
    seq: AtomicU64,
    /// Until when what is stored may be trusted, monotonic milliseconds.
    trust: AtomicU64,
    /// The present tick of idleness: see `crate::idle`. Here only because a hit reads this line.
    tick: AtomicU8,
}

impl Purges {
    /// No rules; at most a 64th of the budget for them.
    pub fn new(budget: u64) -> Self {
        let bytes = (budget / 64).clamp(64 << 10, 16 << 20);
        let most = Most { rules: MOST_RULES, bytes, expressions: MOST_EXPRESSIONS };
        Self {
            now: PurgeEpochs {
                seq: AtomicU64::new(0),
                trust: AtomicU64::new(u64::MAX),
                tick: AtomicU8::new(0),
            },
            rules: RwLock::new(PurgeRules::new(most)),
            log: Mutex::default(),
            sweep: Mutex::default(),
            forgets: AtomicBool::new(false),
            swept: AtomicU64::new(0),
        }
    }

    /// One rule without the others.
    pub(super) fn alone(&self, rule: &PurgeRule, at: WallTime) -> PurgeRules {
        self.rules.read().alone(rule.clone(), at)
    }

    /// The last purge in force.
    pub fn seq(&self) -> Seq {
        // What is born with this number has met the rules up to it: not to be read before them.
        self.now.seq.load(Acquire)
    }

    /// Whether a shelf may be served as it is.
    #[inline]
    pub fn is_met_by(&self, shelf: &Entry) -> bool {
        shelf.checked.load(Relaxed) >= self.now.seq.load(Relaxed) && self.trusts(clock::monotonic())
    }

    /// The present tick of idleness.
    #[inline]
    pub fn tick(&self) -> u8 {
        self.now.tick.load(Relaxed)
    }

    /// So many ticks have passed.
    pub fn tick_on(&self, ticks: u8) {
        self.now.tick.fetch_add(ticks, Relaxed);
    }

    #[inline]
    fn trusts(&self, now: Monotonic) -> bool {
        now.0 <= self.now.trust.load(Relaxed)
    }

    /// Whether a fetch that began at `begun`, and has this head if it has any, is one that a request of now may join.
    pub fn may_join(&self, key: &[u8], begun: Seq, head: Option<&SharedHead>) -> bool {
        if !self.trusts(clock::monotonic()) {
            return false;
        }
        if begun >= self.seq() {
            return true;
        }
        let rules = self.rules.read();
        match head {
            None => !rules.may_touch(key, begun),
            Some(head) => {
                let SharedHead { meta, fields, marks, length, .. } = head;
                // Of a body whose length is not known an expression may turn out to be true.
                if length.is_none() && rules.has_expression_after(begun) {
                    return false;
                }
                let fields = SubjectFields::Listed(fields);
                let subject = RuleSubject { key, meta, fields, tags: &marks.tags, size: *length };
                let birth = Birth::Here { met: marks.born.seq, log: &marks.born.log };
                rules.verdict(&subject, birth) == PurgeVerdict::Keep
            }
        }
    }

    /// Whether a purge after `since` names this key. What only a tag or a condition tells is not looked at: nothing is known of
    /// the response.
    pub fn has_named(&self, key: &[u8], since: Seq) -> bool {
        since < self.seq() && self.rules.read().has_named(key, since)
    }

    /// What becomes of a response of this node that has met the rules up to `met`; and up to which it has now.
    pub fn verdict(&self, key: &[u8], stored: &Stored, met: Seq) -> (PurgeVerdict, Seq) {
        let rules = self.rules.read();
        let met = met.max(stored.born);
        let birth = Birth::Here { met, log: stored.log() };
        (rules.verdict(&stored.subject(key), birth), rules.seq())
    }

    fn foreign_verdict(&self, key: &[u8], stored: &Stored) -> (PurgeVerdict, Seq) {
        let rules = self.rules.read();
        let birth = Birth::Elsewhere { at: stored.meta.response_time, log: stored.log() };
        (rules.verdict(&stored.subject(key), birth), rules.seq())
    }

    /// The shelf as the rules leave it, or what is left of it.
    pub fn judge(&self, shelf: &Entry, doubt: Option<WallTime>) -> Judged {
        let met = shelf.checked.load(Relaxed);
        let doubt = doubt.map_or(PurgeVerdict::Keep, PurgeVerdict::Validate);
        let rules = self.rules.read();
        let seq = rules.seq();
        let of = |it: &Stored| {
            let birth = Birth::Here { met: met.max(it.born), log: it.log() };
            let doubt = if purged::is_doubted(&it.meta) { PurgeVerdict::Keep } else { doubt };
            rules.verdict(&it.subject(shelf.key()), birth).and(doubt)
        };
        if shelf.variants.iter().all(|it| of(it) == PurgeVerdict::Keep) {
            return Judged::AsItIs(seq);
        }
        shelf.map(seq, |it| Stored::after(it, of(it))).map_or(Judged::Gone, Judged::Changed)
    }

    /// The last rule, if something in RAM may not have met it yet.
    pub fn unswept(&self) -> Option<Seq> {
        Some(self.seq()).filter(|it| self.swept.load(Relaxed) < *it)
    }

    /// What the rules leave of a shelf.
    pub fn left_of(&self, shelf: Entry) -> Option<Entry> {
        match self.judge(&shelf, None) {
            Judged::AsItIs(_) => Some(shelf),
            Judged::Changed(left) => Some(left),
            Judged::Gone => None,
        }
    }

    /// Lets go of rules that everything in RAM has met.
    pub(super) fn forget(&self, until: Seq, keep: usize, ledger: &crate::memory_budget::MemoryBudget) {
        let mut rules = self.rules.write();
        let mut cost = rules.cost();
        rules.forget(until, keep);
        ledger.settle(&mut cost, rules.cost());
    }
}

/// What [`Purges::judge`] says.
pub(crate) enum Judged {
    /// No rule touches it; it has met them up to this one.
    AsItIs(Seq),
    /// This takes its place.
    Changed(Entry),
    /// Nothing is left.
    Gone,
}

impl Stored {
    pub(super) fn subject<'a>(&'a self, key: &'a [u8]) -> RuleSubject<'a> {
        let (meta, tags, size) = (&self.meta, self.tags(), Some(self.body.len()));
        RuleSubject { key, meta, fields: SubjectFields::Of(self), tags, size }
    }

    /// What a verdict leaves of it.
    pub(crate) fn after(this: &StoredArc, verdict: PurgeVerdict) -> Option<StoredArc> {
        match verdict {
            PurgeVerdict::Keep => Some(this.clone()),
            _ => Some(StoredArc::new(this.with_meta(verdict.apply(&this.meta)?))),
        }
    }
}

impl Store {
    /// Purges. In force for every lookup, join and insert that begins after this returns; nothing is walked.
    /// Readers of what is purged finish undamaged.
    pub fn purge(&self, rule: PurgeRule) -> Seq {
        self.counters.purges.add_shared(1);
        let at = clock::wall();
        let seq = self.change_rules(|rules| {
            let (seq, let_go) = rules.add(rule, at);
            self.counters.purge_rules_full.add_shared(let_go as u64);
            seq
        });
        self.trim();
        seq
    }

    /// What is found in a tier of this node may be used as it is returned; `None` where it is purged. Goes by
    /// `marks.born.seq`, and for what was born before a restart also by `marks.born.log`.
    #[must_use]
    pub fn admit(&self, key: &[u8], stored: Stored) -> Option<Stored> {
        let (verdict, _) = self.purges.verdict(key, &stored, 0);
        self.admitted(stored, verdict)
    }

    /// What is found in the fleet may be used as it is returned; `None` where it is purged. Goes by `marks.born.log`,
    /// and for purges of this node alone by when the response came. It has met this node's rules then, but knows no
    /// more of the logs than it did: it may go on to other nodes.
    #[must_use]
    pub fn admit_foreign(&self, key: &[u8], stored: Stored) -> Option<Stored> {
        let (verdict, seq) = self.purges.foreign_verdict(key, &stored);
        let mut stored = self.admitted(stored, verdict)?;
        stored.born = seq;
        Some(stored)
    }

    /// Whether a purge is about what lies in the fleet with these facts, of `size` bytes: [`Store::admit_foreign`] would
    /// not let it through as it is.
    #[must_use]
    pub fn has_purged(&self, key: &[u8], meta: &Meta, fields: &FieldList, marks: &Marks, size: u64) -> bool {
        let fields = SubjectFields::Listed(fields);
        let subject = RuleSubject { key, meta, fields, tags: &marks.tags, size: Some(size) };
        let birth = Birth::Elsewhere { at: meta.response_time, log: &marks.born.log };
        self.purges.rules.read().verdict(&subject, birth) != PurgeVerdict::Keep
    }

    fn admitted(&self, mut stored: Stored, verdict: PurgeVerdict) -> Option<Stored> {
        let verdict = if self.trusted() || purged::is_doubted(&stored.meta) {
            verdict
        } else {
            verdict.and(PurgeVerdict::Validate(clock::wall()))
        };
        if verdict != PurgeVerdict::Keep {
            stored.meta = verdict.apply(&stored.meta)?;
        }
        Some(stored)
    }

    /// What is stored may be trusted until then (monotonic milliseconds, included); beyond it every response must be
    /// validated and no fill is joined. At first it is for ever, `u64::MAX`.
    pub fn trust_until(&self, monotonic_millis: u64) {
        self.purges.now.trust.store(monotonic_millis, Relaxed);
    }

    /// Whether what is stored may be trusted now.
    #[must_use]
    pub fn trusted(&self) -> bool {
        self.purges.trusts(clock::monotonic())
    }

    /// What is asked of an origin now is born so: taken before the request leaves.
    #[must_use]
    pub fn born(&self) -> Born {
        // First how far the logs were followed: their rules have numbers by then.
        let log = self.purges.log.lock().clone();
        Born { seq: self.purges.seq(), log }
    }

    /// This node has followed a log so far: what is born from now on knows it. Call it after [`Store::purge`] of
    /// every entry up to there has returned, never before.
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

    /// A log is no more (its server lost it): no response is expected to know it. What it held must be made up for
    /// by a purge of everything.
    pub fn abandon(&self, log: u64) {
        self.change_log(|all| all.retain(|it| it.log != log));
        self.change_rules(|rules| rules.abandon(log));
    }

    pub(super) fn change_log(&self, change: impl FnOnce(&mut Vec<Position>)) {
        let mut log = self.purges.log.lock();
        let mut all = log.as_slice().to_vec();
        change(&mut all);
        *log = Positions::new(&all);
    }

    /// Takes over what was in force before a restart, at start. `last_seq` is at least the last rule's, and at least
    /// the `born.seq` of everything that any tier kept. Rules come into force now, as far as their time counts.
    pub fn restore(&self, last_seq: Seq, rules: Vec<(Seq, PurgeRule)>) {
        let at = clock::wall();
        self.change_rules(|all| {
            for (seq, rule) in rules {
                let let_go = all.add_as(seq, rule, at);
                self.counters.purge_rules_full.add_shared(let_go as u64);
            }
            all.go_on_after(last_seq);
        });
    }

    pub(super) fn change_rules<T>(&self, change: impl FnOnce(&mut PurgeRules) -> T) -> T {
        let mut rules = self.purges.rules.write();
        let mut cost = rules.cost();
        let result = change(&mut rules);
        self.ledger.settle(&mut cost, rules.cost());
        // Published while nobody reads the table: who sees the number sees the rule.
        self.purges.now.seq.store(rules.seq(), Release);
        result
    }

    /// The slow path of a lookup: rules came since this shelf was met last, or it is not trusted.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_again(&self, hash: KeyHash, shelf: Entry) -> Lookup {
        let doubt = (!self.trusted()).then(clock::wall);
        match self.meet(hash, &shelf, doubt) {
            Met::AsItIs => Lookup::Shelf(shelf),
            Met::Changed(shelf) => Lookup::Shelf(shelf),
            Met::Gone => Lookup::Nothing,
        }
    }

    /// Carries out on a shelf what the rules say.
    pub(super) fn meet(&self, hash: KeyHash, shelf: &Entry, doubt: Option<WallTime>) -> Met {
        match self.purges.judge(shelf, doubt) {
            Judged::AsItIs(seq) => {
                shelf.checked.fetch_max(seq, Relaxed);
                Met::AsItIs
            }
            Judged::Changed(_) | Judged::Gone => self.meet_in_place(hash, shelf.key(), doubt),
        }
    }

    /// The same with whatever stands in its place now, and nobody may change that meanwhile.
    fn meet_in_place(&self, hash: KeyHash, key: &[u8], doubt: Option<WallTime>) -> Met {
        let mut books = self.books.lock();
        let Some(shelf) = self.standing(hash, key) else { return Met::Gone };
        let (met, _old) = match self.purges.judge(&shelf, doubt) {
            Judged::AsItIs(seq) => {
                shelf.checked.fetch_max(seq, Relaxed);
                return Met::Changed(shelf);
            }
            Judged::Changed(new) => {
                let purged = shelf.variants.len() - new.variants.len();
                self.counters.purged_responses.add_shared(purged as u64);
                let old = self.put(&mut books, hash, new.clone());
                (Met::Changed(new), old)
            }
            Judged::Gone => {
                self.counters.purged_responses.add_shared(shelf.variants.len() as u64);
                (Met::Gone, self.take_out(&mut books, hash))
            }
        };
        drop(books);
        // The old one, and what it holds, goes only now.
        drop(shelf);
        met
    }
}

/// What [`Store::meet`] came to.
pub(crate) enum Met {
    /// No rule touches it.
    AsItIs,
    /// This stands in its place.
    Changed(Entry),
    /// Nothing does.
    Gone,
}
