//! Purges against a model that walks everything that was ever purged; the floor and replaced rules against exact rules.

use super::rules::{FollowedLogs, PurgeRules, RequestedAt, RuleLimits};
use super::subject::{RuleSubject, SubjectFields};
use super::tests::*;
use super::*;
use crate::fill::{Begin, FillReader, FillWriter};
use crate::ram::Store;
use crate::sample::{meta, store};
use larder_semantics::field::FieldList;
use larder_semantics::purged::PurgeVerdict;
use larder_stdx::clock::WallTime;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Begin(usize),
    Head(usize, Vec<&'static str>),
    Finish(usize),
    Insert(usize, Vec<&'static str>),
    Purge(PurgeScope, Strength),
    Look(usize),
    Sweep(usize),
    Remove(usize),
}

fn tags() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(TAGS.to_vec(), 0..=TAGS.len())
}

fn scope() -> impl Strategy<Value = PurgeScope> {
    let key = || proptest::sample::select(KEYS.to_vec());
    prop_oneof![
        2 => key().prop_map(url),
        2 => (key(), 0..20_usize).prop_map(|(key, length)| prefix(&key[..length.min(key.len())])),
        4 => proptest::sample::select(TAGS.to_vec()).prop_map(tag),
        2 => proptest::sample::select(TAGS.to_vec()).prop_map(tag_at_a),
        1 => Just(PurgeScope::All),
    ]
}

/// A tag, as far as it is on the host `a`.
fn tag_at_a(tag: &str) -> PurgeScope {
    on_condition(&format!("tag == \"{tag}\" && host == \"a\""))
}

fn strength() -> impl Strategy<Value = Strength> {
    proptest::sample::select(vec![Strength::Soft, Strength::Validate, Strength::Hard])
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS.len();
    prop_oneof![
        3 => key().prop_map(Op::Begin),
        3 => (key(), tags()).prop_map(|(key, tags)| Op::Head(key, tags)),
        3 => key().prop_map(Op::Finish),
        3 => (key(), tags()).prop_map(|(key, tags)| Op::Insert(key, tags)),
        5 => (scope(), strength()).prop_map(|(scope, strength)| Op::Purge(scope, strength)),
        4 => key().prop_map(Op::Look),
        1 => (1..80_usize).prop_map(Op::Sweep),
        1 => key().prop_map(Op::Remove),
    ]
}

#[derive(Clone)]
struct Kept {
    epoch: usize,
    tags: Vec<&'static str>,
}

struct Flying {
    /// How many purges there were when it began.
    epoch: usize,
    tags: Option<Vec<&'static str>>,
    writer: FillWriter,
    _reader: FillReader,
    removed: bool,
    here: PurgeEpoch,
}

/// All purges so far, and the stored responses: each lookup walks over all of it.
struct Model {
    store: Arc<Store>,
    purges: Vec<(PurgeScope, Strength)>,
    kept: [Option<Kept>; KEYS.len()],
    flying: [Option<Flying>; KEYS.len()],
    /// Flights that can no longer be joined.
    displaced: Vec<(usize, Flying)>,
}

fn by_key(scope: &PurgeScope, key: &str) -> Option<bool> {
    let key = key.as_bytes();
    match scope {
        PurgeScope::Url(url) => Some(*key == **url || key.starts_with(&[url, &b" "[..]].concat())),
        PurgeScope::Prefix(prefix) => Some(key.starts_with(prefix)),
        PurgeScope::All => Some(true),
        PurgeScope::Tag(_) | PurgeScope::Where(_) => None,
    }
}

fn matches(scope: &PurgeScope, key: &str, tags: &[&str]) -> bool {
    by_key(scope, key).unwrap_or_else(|| match scope {
        PurgeScope::Tag(it) => tags.contains(&&**it),
        _ => key.starts_with("http://a/") && tags.iter().any(|it| *scope == tag_at_a(it)),
    })
}

impl Model {
    fn state(&self, key: usize, kept: &Kept) -> Seen {
        let since = self.purges[kept.epoch..].iter();
        let strongest = since.filter(|it| matches(&it.0, KEYS[key], &kept.tags)).map(|it| it.1).max();
        match strongest {
            None => Seen::Fresh,
            Some(Strength::Soft) => Seen::Stale,
            Some(Strength::Validate) => Seen::Doubted,
            Some(Strength::Hard) => Seen::Nothing,
        }
    }

    fn expected(&self, key: usize) -> Seen {
        self.kept[key].as_ref().map_or(Seen::Nothing, |it| self.state(key, it))
    }

    fn may_join(&self, key: usize, flying: &Flying) -> bool {
        let about = |it: &(PurgeScope, Strength)| match &flying.tags {
            // Of what length it will be is not known.
            _ if matches!(it.0, PurgeScope::Where(_)) => true,
            Some(tags) => matches(&it.0, KEYS[key], tags),
            None => by_key(&it.0, KEYS[key]).unwrap_or(true),
        };
        !self.purges[flying.epoch..].iter().any(about)
    }

    fn begin(&mut self, key: usize) {
        let joins = self.flying[key].as_ref().is_some_and(|it| self.may_join(key, it));
        match begin(&self.store, KEYS[key]) {
            Begin::Follow(_) => assert!(joins, "{} was joined", KEYS[key]),
            Begin::Lead(writer, reader) => {
                assert!(!joins, "{} was not joined", KEYS[key]);
                let here = self.store.epoch();
                let new = Flying {
                    epoch: self.purges.len(),
                    tags: None,
                    writer,
                    _reader: reader,
                    removed: false,
                    here,
                };
                if let Some(old) = self.flying[key].replace(new) {
                    self.displaced.push((key, old));
                }
            }
            Begin::Full => panic!("there is room"),
        }
    }

    fn finish(&mut self, key: usize, flying: Flying) {
        let Flying { epoch, tags: Some(tags), writer, removed, here, .. } = flying else { return };
        let new = Kept { epoch, tags };
        let state = self.state(key, &new);
        let newer =
            self.expected(key) != Seen::Nothing && self.kept[key].as_ref().is_some_and(|it| it.epoch > epoch);
        let stored = !removed && state != Seen::Nothing && !(state != Seen::Fresh && newer);
        let brought = tagged(&new.tags, here, "x");
        assert_eq!(stored, writer.insert(brought, 1).is_ok(), "{} is stored", KEYS[key]);
        if stored {
            self.kept[key] = Some(new);
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Begin(key) => self.begin(key),
            Op::Head(key, tags) => {
                if let Some(it) = &mut self.flying[key]
                    && it.tags.is_none()
                {
                    it.writer.head(head(&tags, it.here.clone()), true);
                    it.tags = Some(tags);
                }
            }
            Op::Finish(key) => {
                if let Some(at) = self.displaced.iter().position(|it| it.0 == key) {
                    let (_, flying) = self.displaced.remove(at);
                    self.finish(key, flying);
                } else if let Some(flying) = self.flying[key].take() {
                    self.finish(key, flying);
                }
            }
            Op::Insert(key, tags) => {
                put(&self.store, KEYS[key], &tags);
                self.kept[key] = Some(Kept { epoch: self.purges.len(), tags });
            }
            Op::Purge(scope, strength) => {
                self.store.purge(rule(scope.clone(), strength));
                self.purges.push((scope, strength));
            }
            Op::Look(key) => {
                assert_eq!(self.expected(key), seen(&self.store, KEYS[key]), "{}", KEYS[key])
            }
            Op::Sweep(steps) => {
                self.store.sweep(steps);
            }
            Op::Remove(key) => {
                self.store.remove(self.store.hash(KEYS[key].as_bytes()), KEYS[key].as_bytes());
                self.kept[key] = None;
                // What is in flight is not stored, and not joined.
                self.flying[key] = None;
                self.displaced.iter_mut().filter(|it| it.0 == key).for_each(|it| it.1.removed = true);
            }
        }
    }
}

proptest! {
    #[test]
    fn purges_have_the_effect_of_a_walk_over_all_entries(ops in proptest::collection::vec(op(), 0..60)) {
        let mut model = Model {
            store: store(1 << 20),
            purges: Vec::new(),
            kept: Default::default(),
            flying: Default::default(),
            displaced: Vec::new(),
        };
        for op in ops {
            model.run(op);
        }
        for (at, key) in KEYS.iter().enumerate() {
            prop_assert_eq!(model.expected(at), seen(&model.store, key), "{}", key);
        }
    }

    /// Whatever is let go: what was purged so that it must not be used unseen never is. A purge that is requested at this node is
    /// written to a log some purges later, or never; a log may be lost.
    #[test]
    fn the_floor_admits_no_response_that_a_rule_would_reject(
        purges in proptest::collection::vec((scope(), strength(), 0..3_u64, 0..6_usize), 1..30),
        loss in (0..60_usize, 0..3_u64),
        epoch in 0..30_usize,
        (at, key) in (0..40_u64, 0..KEYS.len()),
        tags in tags(),
    ) {
        let mut few = PurgeRules::new(RuleLimits { rules: 3, bytes: u64::MAX, expressions: 1 });
        let mut all = PurgeRules::new(RuleLimits { rules: 1000, bytes: u64::MAX, expressions: 1000 });
        let mut last = [1, 2, 3].map(|log| position(log, 0));
        let mut known = Positions::default();
        for (n, (scope, strength, ..)) in purges.iter().enumerate() {
            if n == epoch {
                known = Positions::new(&last);
            }
            if n == loss.0 {
                let lost = &mut last[loss.1 as usize];
                few.log_lost(lost.log);
                all.log_lost(lost.log);
                *lost = position(lost.log + 10, 0);
            }
            for rules in [&mut few, &mut all] {
                let positions = vec![Position::NOWHERE];
                let rule = PurgeRule { scope: scope.clone(), strength: *strength, positions };
                prop_assert_eq!(n as u64 + 1, rules.add(rule, WallTime(n as u64)).0);
            }
            for (seq, (.., log, delay)) in (1..).zip(&purges[..=n]) {
                let written = &mut last[*log as usize];
                match seq as usize - 1 + delay {
                    due if due != n => continue,
                    _ if *delay == 5 => {
                        few.purge_lost(seq);
                        all.purge_lost(seq);
                    }
                    _ => {
                        written.entry += 1;
                        few.add_position(seq, *written);
                        all.add_position(seq, *written);
                    }
                }
            }
        }
        prop_assert!(few.len() <= 3);
        let purge_facts = purge_facts(&tags, PurgeEpoch::default());
        let subject = RuleSubject {
            key: KEYS[key].as_bytes(),
            meta: &meta(&[]),
            fields: SubjectFields::Listed(&FieldList::new()),
            tags: &purge_facts.tags,
            size: None,
        };
        let none = Positions::default();
        let here = RequestedAt::Here { applied: epoch.min(purges.len()) as u64, log: &none };
        let elsewhere = RequestedAt::Elsewhere { at: WallTime(at), log: &known };
        for epoch in [here, elsewhere] {
            let (few, all) = (few.verdict(&subject, epoch), all.verdict(&subject, epoch));
            // A rule that replaced others has the time of the last one.
            prop_assert!(
                strength_of(few) == strength_of(all)
                    || matches!(few, PurgeVerdict::Dropped(_) | PurgeVerdict::Validate(_) | PurgeVerdict::Hard),
                "{:?} instead of {:?}", few, all
            );
        }
        if epoch >= purges.len() {
            prop_assert_eq!(PurgeVerdict::Keep, few.verdict(&subject, here));
        }
    }

    /// Nodes purge at the same time, so that the logs of the servers have their purges in different orders, and a node reads
    /// these at different times: no rule that it drops for a later one would have purged more.
    #[test]
    fn a_rule_that_replaces_others_purges_whatever_they_would(
        purges in proptest::collection::vec(logged_purge(), 1..12),
        events in proptest::collection::vec(log_event(), 1..60),
        known in proptest::array::uniform3(proptest::option::of(0..8_u64)),
        times in (0..40_u64, 0..12_u64),
        key in 0..KEYS.len(),
    ) {
        let most = RuleLimits { rules: 1000, bytes: u64::MAX, expressions: 1000 };
        let logs: Vec<Vec<usize>> = (0..3).map(|log| order_of(&purges, log)).collect();
        let mut read = [0; 3];
        let mut all = PurgeRules::new(most);
        let mut alone: Vec<Option<Alone>> = purges.iter().map(|_| None).collect();
        for (now, event) in events.into_iter().enumerate() {
            let (purge, position) = match event {
                LogEvent::Follow(logs) => {
                    let floor = logs.iter().map(|it| position(*it, 0)).collect();
                    all.require_logs(FollowedLogs { floor, need: 0 }, WallTime(0));
                    continue;
                }
                LogEvent::Own(purge) if purge >= purges.len() || alone[purge].is_some() => continue,
                LogEvent::Own(purge) => (purge, Position::NOWHERE),
                LogEvent::Read(log) => {
                    let Some(purge) = logs[log].get(read[log]) else { continue };
                    read[log] += 1;
                    (*purge, position(log as u64 + 1, read[log] as u64))
                }
            };
            match &mut alone[purge] {
                Some(it) => {
                    all.add_position(it.seq, position);
                    it.rules.add_position(1, position);
                    it.positions.push(position);
                }
                none => {
                    let it = &purges[purge];
                    let positions = if it.local { Vec::new() } else { vec![position] };
                    let rule = PurgeRule { scope: it.scope.clone(), strength: it.strength, positions };
                    // The clock may be set back.
                    let at = WallTime((now as u64 * 7) % 30);
                    let mut rules = PurgeRules::new(most);
                    rules.add(rule.clone(), at);
                    let own = rule.positions == [Position::NOWHERE];
                    let positions = rule.positions.clone();
                    *none = Some(Alone { seq: all.add(rule, at).0, rules, own, positions });
                }
            }
        }
        let known: Vec<_> =
            (1..).zip(known).filter_map(|(log, entry)| Some(position(log, entry?))).collect();
        let known = Positions::new(&known);
        let subject = RuleSubject {
            key: KEYS[key].as_bytes(),
            meta: &meta(&[]),
            fields: SubjectFields::Listed(&FieldList::new()),
            tags: &[],
            size: None,
        };
        let (at, applied) = times;
        // A response that knows of a purge which was requested here is younger than the purges before that.
        let younger_than = |it: &Alone| it.own && it.positions.iter().any(|it| known.reached(&[*it]));
        let since = alone.iter().flatten().filter(|it| younger_than(it)).map(|it| it.seq).max().unwrap_or(0);
        let compare = |applied, requested_at, each| {
            let later = alone.iter().flatten().filter(|it| it.seq > applied && it.seq >= since);
            let expected = later.map(|it| it.rules.verdict(&subject, each)).max().unwrap_or(PurgeVerdict::Keep);
            let verdict = all.verdict(&subject, requested_at);
            prop_assert!(strength_of(verdict) >= strength_of(expected), "{verdict:?} instead of {expected:?}");
            Ok(())
        };
        let foreign = RequestedAt::Elsewhere { at: WallTime(at), log: &known };
        compare(0, foreign, foreign)?;
        let here = |applied| RequestedAt::Here { applied, log: &known };
        compare(applied, here(applied), here(0))?;
    }
}

/// A purge as if it were in force alone, and its number among all.
struct Alone {
    seq: u64,
    rules: PurgeRules,
    /// Requested at this node.
    own: bool,
    positions: Vec<Position>,
}

/// A purge, and its place in the order of each log that has it.
#[derive(Clone, Debug)]
struct LoggedPurge {
    scope: PurgeScope,
    strength: Strength,
    places: [Option<u8>; 3],
    /// Of this node alone.
    local: bool,
}

fn logged_purge() -> impl Strategy<Value = LoggedPurge> {
    let place = proptest::option::weighted(0.8, 0..6_u8);
    let scope =
        prop_oneof![8 => Just(url(KEYS[0])), 2 => Just(prefix("http://a/")), 1 => Just(PurgeScope::All)];
    (scope, strength(), proptest::array::uniform3(place), proptest::bool::weighted(0.1)).prop_map(
        |(scope, strength, places, local)| {
            let places = if local { [None; 3] } else { places };
            LoggedPurge { scope, strength, places, local }
        },
    )
}

/// The purges of a log, by their places.
fn order_of(purges: &[LoggedPurge], log: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..purges.len()).filter(|it| purges[*it].places[log].is_some()).collect();
    order.sort_by_key(|it| purges[*it].places[log]);
    order
}

#[derive(Clone, Debug)]
enum LogEvent {
    /// The next entry of a log is read.
    Read(usize),
    /// A purge is requested at this node.
    Own(usize),
    /// These logs are followed.
    Follow(Vec<u64>),
}

fn log_event() -> impl Strategy<Value = LogEvent> {
    prop_oneof![
        10 => (0..3_usize).prop_map(LogEvent::Read),
        3 => (0..12_usize).prop_map(LogEvent::Own),
        1 => proptest::sample::subsequence(vec![1, 2, 3], 0..=3).prop_map(LogEvent::Follow),
    ]
}

/// The effect without its time.
fn strength_of(verdict: PurgeVerdict) -> u8 {
    match verdict {
        PurgeVerdict::Keep => 0,
        PurgeVerdict::Soft(_) => 1,
        PurgeVerdict::Unfollowed(_) | PurgeVerdict::Unread(_) | PurgeVerdict::Dropped(_) => 2,
        PurgeVerdict::Validate(_) => 3,
        PurgeVerdict::Hard => 4,
    }
}
