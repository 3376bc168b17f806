//! The purges in force, indexed by scope, so that a response finds those that match without testing the others. Bounded:
//! a floor replaces dropped rules. `ram::purging` applies verdicts.

use super::subject::{ResponseAt, RuleSubject};
use super::{Position, Positions, PurgeRule, PurgeScope, Seq, Strength};
use crate::key::authority;
use crate::memory_budget::on_heap;
use larder_semantics::purged::PurgeVerdict;
use larder_semantics::tags;
use larder_stdx::clock::WallTime;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The most seconds by which the clocks of two nodes may differ: a response that was requested so shortly after a purge
/// by another clock may have been requested before it.
const CLOCK_SKEW: u64 = 1;

/// The cost of a rule in addition to its text, which is held twice: its entry, and its places in the tables.
const RULE_COST: u64 = 320;

/// The limits of the rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleLimits {
    pub rules: usize,
    pub bytes: u64,
    /// Of those with an expression. Each is tested for every response that is first met after it, or for those with the
    /// one tag that it needs. The limit holds for the former together, and for each tag.
    pub expressions: usize,
}

/// When and where a response was requested from its origin.
#[derive(Clone, Copy)]
pub(crate) enum RequestedAt<'a> {
    /// On this node: every rule up to `met` was applied, and the logs' rules up to `log`.
    Here { applied: Seq, log: &'a Positions },
    /// On another node, at `at` by its clock: its numbers mean nothing here.
    Elsewhere { at: WallTime, log: &'a Positions },
}

/// The purges in force.
pub(crate) struct PurgeRules {
    most: RuleLimits,
    seq: Seq,
    entries: BTreeMap<Seq, PurgeRuleEntry>,
    urls: HashMap<Box<[u8]>, Vec<Seq>>,
    prefixes: BTreeMap<Box<[u8]>, Vec<Seq>>,
    /// Those of a tag, and those with an expression that needs the tag.
    tags: HashMap<u64, Vec<Seq>>,
    /// The other rules with an expression.
    expressions: Vec<Seq>,
    all: Vec<Seq>,
    /// The last rule that a key alone does not decide: of a tag or an expression.
    beyond_keys: Seq,
    /// The last rule with an expression.
    conditional: Seq,
    floor: Floor,
    /// Responses requested here before this number must be validated; with the time of that decision.
    revalidate_before: (Seq, WallTime),
    /// Lower numbers were requested before this process started.
    first_own: Seq,
    /// The log positions that a response not requested by this process must know; with the time since which this holds.
    required_logs: Option<(FollowedLogs, WallTime)>,
    cost: u64,
    /// The name that stands for all hosts, where they share their pages.
    shared: Option<Box<[u8]>>,
}

/// The log positions for judging foreign responses.
pub(crate) struct FollowedLogs {
    /// Each log, and the entry after which this node knows all.
    pub floor: Vec<Position>,
    /// The number of them that must be known up to there or further.
    pub need: usize,
}

impl FollowedLogs {
    fn admits(&self, log: &Positions) -> bool {
        self.floor.iter().filter(|it| log.reached(std::slice::from_ref(it))).count() >= self.need
    }
}

#[derive(Clone)]
struct PurgeRuleEntry {
    rule: PurgeRule,
    /// The time at which it came into force; that of a rule that it replaced, where the clock was set back between them.
    at: WallTime,
    cost: u64,
    /// It was requested at this node: rules with lower numbers were requested before it.
    own: bool,
    /// It replaced rules, perhaps later ones, whose positions in further logs are not known: so it gets none there.
    complete: bool,
}

/// The dropped rules: every response requested before must be validated.
#[derive(Default)]
struct Floor {
    seq: Seq,
    at: WallTime,
    /// The time of the last one of this node alone.
    own: Option<WallTime>,
    /// The position of the last one of the fleet, in each log.
    logs: Vec<Position>,
    /// Those that are being written to the logs: their positions are not known yet.
    pending: BTreeSet<Seq>,
}

impl PurgeRules {
    pub fn new(most: RuleLimits) -> Self {
        Self {
            most,
            seq: 0,
            entries: BTreeMap::new(),
            urls: HashMap::new(),
            prefixes: BTreeMap::new(),
            tags: HashMap::new(),
            expressions: Vec::new(),
            all: Vec::new(),
            beyond_keys: 0,
            conditional: 0,
            floor: Floor::default(),
            revalidate_before: (0, WallTime(0)),
            first_own: 0,
            required_logs: None,
            cost: 0,
            shared: None,
        }
    }

    /// All hosts share their pages: a purge by one host's name applies to all. Before the first rule.
    pub fn share_hosts(&mut self, name: &str) {
        debug_assert!(self.entries.is_empty(), "rules have their places by what was said before");
        self.shared = Some(name.as_bytes().into());
    }

    /// A single rule, matched as it would be among these.
    pub fn single(&self, rule: PurgeRule, at: WallTime) -> Self {
        let most = RuleLimits { rules: 1, bytes: u64::MAX, expressions: 1 };
        let mut matcher = Self { shared: self.shared.clone(), ..Self::new(most) };
        matcher.add(rule, at);
        matcher
    }

    /// A key or prefix as rules are indexed by it: without parts that make no difference.
    fn place<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let key = without_scheme(key);
        match (&self.shared, authority(&key)) {
            (Some(shared), Some((start, end))) => Cow::Owned([&key[..start], shared, &key[end..]].concat()),
            _ => key,
        }
    }

    /// The rules in force, with their numbers.
    pub fn each(&self) -> impl Iterator<Item = (Seq, &PurgeRule)> {
        self.entries.iter().map(|(seq, it)| (*seq, &it.rule))
    }

    /// Rules up to this one were dropped: zero, or the number of the last of them.
    pub fn dropped_until(&self) -> Seq {
        self.floor.seq
    }

    /// [`PurgeRules::add_as`] with a number under which there may be a rule already: the same one, or one for everything that
    /// replaces it and older ones (`disk::journal`). Then everything is purged, since neither may be lost.
    pub fn restore(&mut self, seq: Seq, rule: PurgeRule, at: WallTime) -> usize {
        let Some(there) = self.entries.get(&seq).map(|it| &it.rule) else {
            return self.add_as(seq, rule, at);
        };
        if (&there.scope, there.strength) == (&rule.scope, rule.strength) {
            return 0;
        }
        let strength = there.strength.max(rule.strength);
        self.remove(seq);
        self.add_as(seq, PurgeRule { scope: PurgeScope::All, strength, positions: Vec::new() }, at)
    }

    /// The last rule's number.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Their bytes.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Puts a rule in force; returns its number, and how many rules had to be dropped for it.
    pub fn add(&mut self, rule: PurgeRule, at: WallTime) -> (Seq, usize) {
        let seq = self.seq + 1;
        (seq, self.add_as(seq, rule, at))
    }

    /// Continues the numbers after `seq`, which all belong to an earlier process.
    pub fn continue_after(&mut self, seq: Seq) {
        self.seq = self.seq.max(seq) + 1;
        self.first_own = self.seq;
    }

    /// A rule is in one more log.
    pub fn add_position(&mut self, seq: Seq, at: Position) {
        if !self.entries.contains_key(&seq) && seq <= self.floor.seq {
            return self.floor.add_position(seq, at);
        }
        self.change_positions(seq, |positions| {
            positions.retain(|it| *it != Position::NOWHERE && it.log != at.log);
            positions.push(at);
        });
    }

    /// A rule is in no log, and never will be.
    pub fn purge_lost(&mut self, seq: Seq) {
        self.floor.purge_lost(seq);
        self.change_positions(seq, |positions| positions.retain(|it| *it != Position::NOWHERE));
    }

    /// A purge of the fleet has no position when its rule is added: which older rules it makes redundant is known only now.
    fn change_positions(&mut self, seq: Seq, change: impl FnOnce(&mut Vec<Position>)) {
        let Some(mut entry) = self.entries.get(&seq).filter(|it| !it.complete).cloned() else { return };
        change(&mut entry.rule.positions);
        self.put_back(seq, entry);
        self.replace_older(seq);
    }

    /// Puts back a rule with other positions.
    fn put_back(&mut self, seq: Seq, mut entry: PurgeRuleEntry) {
        self.cost -= entry.cost;
        entry.cost = cost(&entry.rule);
        self.cost += entry.cost;
        self.entries.insert(seq, entry);
    }

    /// Responses requested here up to now must be validated.
    pub fn require_revalidation(&mut self, at: WallTime) {
        self.seq += 1;
        self.revalidate_before = (self.seq, at);
    }

    /// The log positions for judging from now on.
    pub fn require_logs(&mut self, new: FollowedLogs, now: WallTime) {
        // A response without log positions is judged by the time at which the floor last rose.
        let risen = |old: &FollowedLogs| {
            let known =
                |it: &Position| old.floor.iter().any(|old| old.log == it.log && old.entry >= it.entry);
            !new.floor.iter().all(known)
        };
        let since = self.required_logs.as_ref().filter(|it| !risen(&it.0)).map_or(now, |it| it.1);
        self.required_logs = Some((new, since));
    }

    /// [`PurgeRules::add`] with an unused number.
    pub fn add_as(&mut self, seq: Seq, rule: PurgeRule, at: WallTime) -> usize {
        let cost = cost(&rule);
        let list = self.list_mut(&rule.scope);
        list.push(seq);
        // Ascending also where a restart restores them in any order.
        list.sort_unstable();
        if matches!(rule.scope, PurgeScope::Tag(_) | PurgeScope::Where(_)) {
            self.beyond_keys = self.beyond_keys.max(seq);
        }
        if matches!(rule.scope, PurgeScope::Where(_)) {
            self.conditional = self.conditional.max(seq);
        }
        self.cost += cost;
        let tag = tag_of(&rule.scope);
        let own = rule.positions == [Position::NOWHERE];
        self.entries.insert(seq, PurgeRuleEntry { rule, at, cost, own, complete: false });
        self.seq = self.seq.max(seq);
        self.replace_older(seq);
        self.enforce_limits(tag)
    }

    /// Drops the rules up to `until` but the last `keep`: they were applied to everything stored. A response that arrives
    /// late must be validated.
    pub fn forget(&mut self, until: Seq, keep: usize) {
        while self.entries.len() > keep
            && let Some((seq, _)) = self.entries.first_key_value()
            && *seq <= until
        {
            self.drop_rule(*seq);
        }
    }

    /// A log is gone. No later response knows it: a rule that was in no other one applies by its time from now on.
    pub fn log_lost(&mut self, log: u64) {
        self.floor.log_lost(log);
        let is_lost = |it: &Position| it.log == log;
        let in_it = |it: (&Seq, &PurgeRuleEntry)| it.1.rule.positions.iter().any(is_lost).then_some(*it.0);
        let changed: Vec<_> = self.entries.iter().filter_map(in_it).collect();
        for seq in changed {
            let Some(mut entry) = self.entries.get(&seq).cloned() else { continue };
            entry.rule.positions.retain(|it| !is_lost(it));
            self.put_back(seq, entry);
        }
    }

    /// The verdict about a response.
    pub fn verdict(&self, subject: &RuleSubject<'_>, requested_at: RequestedAt<'_>) -> PurgeVerdict {
        let mut verdict = self.floor.verdict(requested_at).and(self.verdict_of_logs(requested_at));
        if let RequestedAt::Here { applied, .. } = requested_at
            && applied >= self.seq
        {
            return verdict;
        }
        let holds = |entry: &PurgeRuleEntry| match &entry.rule.scope {
            PurgeScope::Where(expression) => expression.holds(&ResponseAt { subject, now: entry.at }),
            _ => true,
        };
        let mut meet = |list: &[Seq]| verdict = verdict.and(self.of_list(list, requested_at, holds));
        meet(&self.all);
        self.each_by_key(subject.key, &mut meet);
        if tags::are_every(subject.tags) {
            self.tags.values().for_each(|it| meet(it));
        } else {
            subject.tags.iter().filter_map(|it| self.tags.get(it)).for_each(|it| meet(it));
        }
        meet(&self.expressions);
        verdict
    }

    /// The verdict because this node does not know the logs that far back.
    fn verdict_of_logs(&self, requested_at: RequestedAt<'_>) -> PurgeVerdict {
        let (earlier, at, log) = match requested_at {
            RequestedAt::Here { applied, log } => (applied < self.first_own, None, log),
            RequestedAt::Elsewhere { at, log } => (true, Some(at), log),
        };
        if !earlier {
            let RequestedAt::Here { applied, .. } = requested_at else { return PurgeVerdict::Keep };
            return if applied < self.revalidate_before.0 {
                PurgeVerdict::Unread(self.revalidate_before.1)
            } else {
                PurgeVerdict::Keep
            };
        }
        let Some((followed, since)) = &self.required_logs else { return PurgeVerdict::Keep };
        // An application's response has no log positions; the known rules are compared with its time. A node that follows
        // logs says so, even before it knows any: [`Position::NOTHING`].
        let admitted = at.is_some() && log.as_slice().is_empty() || followed.admits(log);
        if admitted { PurgeVerdict::Keep } else { PurgeVerdict::Unread(*since) }
    }

    /// Whether a rule after `met` may apply to a fetch of this key, whose answer is unknown.
    pub fn may_match(&self, key: &[u8], applied: Seq) -> bool {
        applied < self.beyond_keys || applied < self.revalidate_before.0 || self.has_named(key, applied)
    }

    /// Whether a rule after `met` names this key, or everything; or a dropped rule may have.
    pub fn has_named(&self, key: &[u8], applied: Seq) -> bool {
        let mut named = applied < self.floor.seq;
        let mut meet = |list: &[Seq]| named |= list.last().is_some_and(|it| *it > applied);
        meet(&self.all);
        self.each_by_key(key, &mut meet);
        named
    }

    /// Whether a rule after `met` has an expression.
    pub fn has_expression_after(&self, applied: Seq) -> bool {
        self.conditional > applied
    }

    /// The verdict of the rules of one list for which `also` holds.
    fn of_list(
        &self,
        list: &[Seq],
        requested_at: RequestedAt<'_>,
        also: impl Fn(&PurgeRuleEntry) -> bool,
    ) -> PurgeVerdict {
        let new = |it: &&Seq| match requested_at {
            RequestedAt::Here { applied, .. } => **it > applied,
            RequestedAt::Elsewhere { .. } => true,
        };
        let entries = list.iter().rev().take_while(new).filter_map(|it| self.entries.get(it));
        let touching = entries.filter(|it| it.touches(requested_at) && also(it));
        touching.fold(PurgeVerdict::Keep, |all, it| all.and(it.verdict()))
    }

    /// Visits the lists of the rules that match this key: those of its URL by either scheme. A purge names a page as its
    /// readers know it, and larder may serve it in clear text, behind another server's TLS, as well as by its own.
    fn each_by_key(&self, key: &[u8], mut meet: impl FnMut(&[Seq])) {
        let key = &*self.place(key);
        if !self.urls.is_empty() {
            let ends = (0..key.len()).filter(|at| key[*at] == b' ').chain([key.len()]);
            ends.filter_map(|end| self.urls.get(&key[..end])).for_each(|it| meet(it));
        }
        // All prefixes of the key sort before it. The common prefix with the next smaller one bounds the length of the
        // next candidate.
        let mut rest = Some(key);
        while let Some(most) = rest
            && let Some((prefix, list)) =
                self.prefixes.range::<[u8], _>((Unbounded, Included(most))).next_back()
        {
            if most.starts_with(prefix) {
                meet(list);
                rest = prefix.len().checked_sub(1).map(|it| &key[..it]);
            } else {
                let common = most.iter().zip(&**prefix).take_while(|it| it.0 == it.1).count();
                rest = Some(&key[..common]);
            }
        }
    }

    /// Drops rules that a newer rule makes redundant: older ones of the same scope that are not stronger.
    fn replace_older(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get(&seq).filter(|it| self.may_replace(it)) else { return };
        let mut new = entry.clone();
        let older: Vec<_> = match &new.rule.scope {
            PurgeScope::All => self.entries.range((Unbounded, Excluded(seq))).map(|it| *it.0).collect(),
            scope => self.list(scope).iter().filter(|it| **it < seq).copied().collect(),
        };
        for older in older {
            if self.entries.get(&older).is_some_and(|old| new.replace(old)) {
                self.remove(older);
            }
        }
        self.put_back(seq, new);
    }

    /// Whether enough positions of a rule are known: of one from another node those in all logs that are followed.
    fn may_replace(&self, new: &PurgeRuleEntry) -> bool {
        let positions = &new.rule.positions;
        let followed = self.required_logs.as_ref().map_or(&[][..], |it| &it.0.floor);
        !positions.contains(&Position::NOWHERE)
            && (new.own
                || positions.is_empty()
                || followed.iter().all(|log| positions.iter().any(|it| it.log == log.log)))
    }

    /// Drops the oldest until the limits hold, overall and for this tag.
    fn enforce_limits(&mut self, tag: Option<u64>) -> usize {
        let mut gone = 0;
        while self.entries.len() > self.most.rules || self.cost > self.most.bytes {
            let Some((oldest, _)) = self.entries.first_key_value() else { break };
            self.drop_rule(*oldest);
            gone += 1;
        }
        // Every dropped rule must be older than all that stay: the floor is a number.
        while let Some(until) = self.conditional_too_many(tag) {
            let before = self.entries.len();
            self.forget(until, 0);
            gone += before - self.entries.len();
        }
        gone
    }

    /// The oldest rule with an expression under a tag, or under none, if there are too many.
    fn conditional_too_many(&self, tag: Option<u64>) -> Option<Seq> {
        let list = tag.map_or(Some(&self.expressions), |it| self.tags.get(&it))?;
        let is_conditional =
            |it: &&Seq| self.entries.get(it).is_some_and(|it| matches!(it.rule.scope, PurgeScope::Where(_)));
        let mut conditional = list.iter().filter(is_conditional);
        let oldest = conditional.next()?;
        (conditional.count() >= self.most.expressions).then_some(*oldest)
    }

    fn drop_rule(&mut self, seq: Seq) {
        if let Some(entry) = self.remove(seq) {
            self.floor.raise_floor(seq, &entry);
        }
    }

    fn remove(&mut self, seq: Seq) -> Option<PurgeRuleEntry> {
        let entry = self.entries.remove(&seq)?;
        self.cost -= entry.cost;
        let list = self.list_mut(&entry.rule.scope);
        list.retain(|it| *it != seq);
        if list.is_empty() {
            match &entry.rule.scope {
                PurgeScope::Url(key) => drop(self.urls.remove(&*self.place(key))),
                PurgeScope::Prefix(prefix) => drop(self.prefixes.remove(&*self.place(prefix))),
                scope => drop(tag_of(scope).and_then(|it| self.tags.remove(&it))),
            }
        }
        Some(entry)
    }

    fn list(&self, scope: &PurgeScope) -> &[Seq] {
        let list = match scope {
            PurgeScope::Url(key) => self.urls.get(&*self.place(key)),
            PurgeScope::Prefix(prefix) => self.prefixes.get(&*self.place(prefix)),
            PurgeScope::Tag(_) | PurgeScope::Where(_) => {
                tag_of(scope).map_or(Some(&self.expressions), |it| self.tags.get(&it))
            }
            PurgeScope::All => Some(&self.all),
        };
        list.map_or(&[], Vec::as_slice)
    }

    fn list_mut(&mut self, scope: &PurgeScope) -> &mut Vec<Seq> {
        match scope {
            PurgeScope::Url(key) => self.urls.entry(self.place(key).into()).or_default(),
            PurgeScope::Prefix(prefix) => self.prefixes.entry(self.place(prefix).into()).or_default(),
            PurgeScope::Tag(_) | PurgeScope::Where(_) => match tag_of(scope) {
                Some(tag) => self.tags.entry(tag).or_default(),
                None => &mut self.expressions,
            },
            PurgeScope::All => &mut self.all,
        }
    }
}

impl PurgeRuleEntry {
    /// Stands for a rule with a lower number as well, if it has at least the same effect. A response that knows a position of a
    /// purge was requested after it, and so after what was purged at this node before. Purges of other nodes may have
    /// different orders in the logs of several servers: this one must be later in each log of the other, and loses its positions in
    /// logs where the other has none.
    fn replace(&mut self, old: &PurgeRuleEntry) -> bool {
        let (new, old_positions) = (&mut self.rule, &old.rule.positions);
        let is_later =
            |old: &Position| new.positions.iter().any(|it| it.log == old.log && it.entry >= old.entry);
        let own = self.own && !new.positions.is_empty();
        let replaces = has_scope_of(&new.scope, &old.rule.scope)
            && new.strength >= old.rule.strength
            && (own
                || new.positions.is_empty() == old_positions.is_empty()
                    && old_positions.iter().all(is_later));
        if replaces {
            self.at = self.at.max(old.at);
        }
        if replaces && !own {
            new.positions.retain(|it| old_positions.iter().any(|old| old.log == it.log));
            self.complete = true;
        }
        replaces
    }

    /// Whether it applies to a response of this epoch. A rule of the fleet does not where its position in a log is known;
    /// one of this node alone applies to every foreign response that was requested before it, by the clock.
    fn touches(&self, requested_at: RequestedAt<'_>) -> bool {
        match requested_at {
            RequestedAt::Elsewhere { at, log }
                if self.rule.positions.is_empty() || log.as_slice().is_empty() =>
            {
                may_precede(at, self.at)
            }
            RequestedAt::Here { log, .. } | RequestedAt::Elsewhere { log, .. } => {
                !log.reached(&self.rule.positions)
            }
        }
    }

    fn verdict(&self) -> PurgeVerdict {
        match self.rule.strength {
            Strength::Soft => PurgeVerdict::Soft(self.at),
            // Changes of a database that are not known are no change that is known.
            Strength::Validate if matches!(&self.rule.scope, PurgeScope::Tag(it) if tags::is_of_every_row(it)) => {
                PurgeVerdict::Unfollowed(self.at)
            }
            Strength::Validate => PurgeVerdict::Validate(self.at),
            Strength::Hard => PurgeVerdict::Hard,
        }
    }
}

impl Floor {
    fn raise_floor(&mut self, seq: Seq, gone: &PurgeRuleEntry) {
        self.seq = self.seq.max(seq);
        self.at = self.at.max(gone.at);
        if gone.rule.positions.is_empty() {
            self.own = self.own.max(Some(gone.at));
        }
        for new in &gone.rule.positions {
            match *new {
                Position::NOWHERE => drop(self.pending.insert(seq)),
                new => self.raise_log(new),
            }
        }
    }

    fn raise_log(&mut self, new: Position) {
        match self.logs.iter_mut().find(|it| it.log == new.log) {
            Some(known) => known.entry = known.entry.max(new.entry),
            None => self.logs.push(new),
        }
    }

    /// A dropped rule is in one more log.
    fn add_position(&mut self, seq: Seq, at: Position) {
        self.pending.remove(&seq);
        self.raise_log(at);
    }

    /// A dropped rule is in no log, and never will be.
    fn purge_lost(&mut self, seq: Seq) {
        if self.pending.remove(&seq) {
            self.own = self.own.max(Some(self.at));
        }
    }

    fn log_lost(&mut self, log: u64) {
        let before = self.logs.len();
        self.logs.retain(|it| it.log != log);
        if self.logs.len() < before {
            // Positions of its rules in other logs may be unknown.
            self.own = self.own.max(Some(self.at));
        }
    }

    /// Every log, not any: each dropped rule may be in a different one.
    fn is_known_to(&self, log: &Positions) -> bool {
        self.pending.is_empty() && self.logs.iter().all(|it| log.reached(std::slice::from_ref(it)))
    }

    fn verdict(&self, requested_at: RequestedAt<'_>) -> PurgeVerdict {
        let below = match requested_at {
            RequestedAt::Here { applied, .. } => applied < self.seq,
            RequestedAt::Elsewhere { at, log } => {
                self.own.is_some_and(|own| may_precede(at, own))
                    || match log.as_slice() {
                        [] => may_precede(at, self.at),
                        _ => !self.is_known_to(log),
                    }
            }
        };
        if below { PurgeVerdict::Dropped(self.at) } else { PurgeVerdict::Keep }
    }
}

/// A key or prefix from the `://` on, without the default port of either scheme. A key never names its own default port,
/// but a purge may use the other scheme. Empty for a text that ends earlier, which is a prefix of every key.
fn without_scheme(key: &[u8]) -> Cow<'_, [u8]> {
    let rest = key.strip_prefix(b"http").map(|it| it.strip_prefix(b"s").unwrap_or(it));
    match rest {
        Some(rest) if rest.starts_with(b"://") => without_port(rest),
        Some(rest) if rest.is_empty() || rest.starts_with(b":") => Cow::Borrowed(rest),
        None if b"http".starts_with(key) => Cow::Borrowed(b""),
        _ => Cow::Borrowed(key),
    }
}

/// The part after a scheme, without `:80` and `:443` after its host.
fn without_port(rest: &[u8]) -> Cow<'_, [u8]> {
    let from = b"://".len();
    let Some(end) = rest[from..].iter().position(|it| *it == b'/').map(|it| it + from) else {
        return Cow::Borrowed(rest);
    };
    let host = &rest[..end];
    match host.strip_suffix(b":443").or_else(|| host.strip_suffix(b":80")) {
        Some(host) => Cow::Owned([host, &rest[end..]].concat()),
        None => Cow::Borrowed(rest),
    }
}

/// Whether a response that another node requested at `at`, by its clock, may have been requested before `purge`.
fn may_precede(at: WallTime, purge: WallTime) -> bool {
    at.0 <= purge.0.saturating_add(CLOCK_SKEW)
}

/// Whether a rule of scope `new` matches every response that one of scope `old` does, as far as can be seen from their text.
fn has_scope_of(new: &PurgeScope, old: &PurgeScope) -> bool {
    match (new, old) {
        (PurgeScope::All, _) => true,
        (PurgeScope::Url(new), PurgeScope::Url(old)) | (PurgeScope::Prefix(new), PurgeScope::Prefix(old)) => {
            without_scheme(new) == without_scheme(old)
        }
        (new, old) => new == old,
    }
}

/// The tag without which nothing matches: such rules are indexed by its hash, so that they are tested only with it.
fn tag_of(scope: &PurgeScope) -> Option<u64> {
    match scope {
        PurgeScope::Tag(tag) => Some(tags::hash(tag)),
        PurgeScope::Where(expression) => expression.needed_tag().map(tags::hash),
        PurgeScope::Url(_) | PurgeScope::Prefix(_) | PurgeScope::All => None,
    }
}

fn cost(rule: &PurgeRule) -> u64 {
    let text = match &rule.scope {
        PurgeScope::Url(text) | PurgeScope::Prefix(text) => 2 * on_heap(text.len()),
        PurgeScope::Tag(tag) => on_heap(tag.len()),
        PurgeScope::Where(expression) => expression.weight() as u64,
        PurgeScope::All => 0,
    };
    RULE_COST + text + on_heap(rule.positions.len() * size_of::<Position>())
}
