//! The conditions of the last reading: a finding begins and ends by them.

use super::condition::Condition;
use super::event_of;
use super::facts::StateFacts;
use super::table::FindingKind;

/// The conditions of the last reading, with their starts.
#[derive(Debug, Default)]
pub(super) struct CurrentConditions(Vec<HeldCondition>);

#[derive(Debug)]
pub(super) struct HeldCondition {
    subject: String,
    pub kind: FindingKind,
    /// Its event ([`event_of`]).
    event: String,
    /// Unix seconds.
    since: u64,
    /// Its beginning in the process before, Unix seconds.
    earlier: Option<u64>,
    /// Milliseconds of the monotonic clock.
    at: u64,
    evidence: String,
}

impl CurrentConditions {
    pub fn of(&self, subject: &str) -> Option<&HeldCondition> {
        self.0.iter().find(|it| it.subject == subject)
    }

    /// Keeps the conditions of a reading; forgets those that have ended.
    pub fn keep(&mut self, found: &[Condition], facts: &StateFacts) {
        let held = |it: &Condition| {
            let before = self.of(&it.subject);
            let evidence = before.filter(|_| it.evidence.is_empty()).map_or(&it.evidence, |it| &it.evidence);
            HeldCondition {
                subject: it.subject.clone(),
                kind: it.kind,
                event: before.map_or_else(|| event_of(&it.what), |it| it.event.clone()),
                earlier: before.and_then(|it| it.earlier),
                since: before.map_or(facts.now, |it| it.since),
                at: before.map_or(facts.at, |it| it.at),
                evidence: evidence.clone(),
            }
        };
        self.0 = found.iter().map(held).collect();
    }

    pub fn is_settled(&self, it: &Condition, at: u64) -> bool {
        self.of(&it.subject).is_some_and(|held| at.saturating_sub(held.at) >= it.kind.row().settles * 1000)
    }

    pub fn since(&self, subject: &str) -> Option<u64> {
        self.of(subject).map(|it| it.earlier.unwrap_or(it.since))
    }

    pub fn earlier(&self, subject: &str) -> Option<u64> {
        self.of(subject)?.earlier
    }

    pub fn continue_from(&mut self, earlier: impl Fn(&str) -> Option<u64>) {
        for it in self.0.iter_mut().filter(|it| it.earlier.is_none()) {
            it.earlier = earlier(&it.event);
        }
    }

    pub fn evidence(&self, subject: &str) -> String {
        self.of(subject).map_or_else(String::new, |it| it.evidence.clone())
    }
}
