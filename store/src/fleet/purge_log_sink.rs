//! The store's part of the fleet's purge logs: see `PurgeLogSink`, and docs/decisions/0081.

use crate::purges::rules::FollowedLogs;
use crate::purges::{Position, PurgeRule, PurgeScope, Seq, Strength};
use crate::ram::Store;
use larder_purge_log::PurgeLogSink;
use larder_semantics::expression::Expression;
use larder_stdx::clock;
use larder_wire::purge_entry::{About, PurgeEffect, PurgeEntry};

/// The rule of an entry; `None` if this node does not understand it.
#[must_use]
pub fn rule_of(entry: &PurgeEntry, positions: Vec<Position>) -> Option<PurgeRule> {
    let scope = match &entry.about {
        About::Url(key) => PurgeScope::Url(key.clone()),
        About::Prefix(prefix) => PurgeScope::Prefix(prefix.clone()),
        About::Tag(tag) => PurgeScope::Tag(tag.clone()),
        About::Where(text) => PurgeScope::Where(Expression::parse(text).ok()?),
        About::All => PurgeScope::All,
    };
    let strength = match entry.effect {
        PurgeEffect::Soft => Strength::Soft,
        PurgeEffect::Validate => Strength::Validate,
        PurgeEffect::Hard => Strength::Hard,
    };
    Some(PurgeRule { scope, strength, positions })
}

/// The entry that tells other nodes of a rule.
#[must_use]
pub fn entry_of(scope: &PurgeScope, strength: Strength, id: u128) -> PurgeEntry {
    let about = match scope {
        PurgeScope::Url(key) => About::Url(key.clone()),
        PurgeScope::Prefix(prefix) => About::Prefix(prefix.clone()),
        PurgeScope::Tag(tag) => About::Tag(tag.clone()),
        PurgeScope::Where(expression) => About::Where(expression.text().into()),
        PurgeScope::All => About::All,
    };
    let effect = match strength {
        Strength::Soft => PurgeEffect::Soft,
        Strength::Validate => PurgeEffect::Validate,
        Strength::Hard => PurgeEffect::Hard,
    };
    PurgeEntry { id, wall: clock::wall().0, effect, about }
}

impl Store {
    /// Hosts share their pages under this name (`cache.fleet.namespace`): a purge of a page or a prefix of one host
    /// applies to all hosts. To be called before the first purge.
    pub fn share_hosts(&self, name: &str) {
        self.change_rules(|rules| rules.share_hosts(name));
    }

    /// From now on purges arrive through the fleet's logs: nothing is trusted before they are followed.
    pub fn follows_logs(&self) {
        clock::refresh_on_receive();
        self.trust_until(0);
        self.change_log(|all| *all = vec![Position::NOTHING]);
    }
}

impl PurgeLogSink for Store {
    fn purge(&self, entry: &PurgeEntry, at: &[Position]) -> Option<Seq> {
        let positions = if at.is_empty() { vec![Position::NOWHERE] } else { at.to_vec() };
        Some(Store::purge(self, rule_of(entry, positions)?))
    }

    fn add_position(&self, seq: Seq, at: Position) {
        self.change_rules(|rules| rules.add_position(seq, at));
    }

    fn purge_lost(&self, seq: Seq) {
        self.change_rules(|rules| rules.purge_lost(seq));
    }

    fn require_revalidation(&self) {
        self.change_rules(|rules| rules.require_revalidation(clock::wall()));
    }

    fn set_positions(&self, positions: &[Position]) {
        self.change_log(|all| {
            *all = positions.to_vec();
            if all.is_empty() {
                all.push(Position::NOTHING);
            }
        });
    }

    fn log_lost(&self, log: u64) {
        self.change_rules(|rules| rules.log_lost(log));
    }

    fn follow(&self, floor: &[Position], need: usize, until: u64) {
        let new = FollowedLogs { floor: floor.to_vec(), need };
        self.change_rules(|rules| {
            rules.require_logs(new, clock::wall());
            // Within the lock, so that no verdict uses one without the other. The last millisecond is not trusted.
            self.trust_until(until.saturating_sub(1));
        });
    }
}

#[cfg(test)]
#[path = "purge_log_sink/tests.rs"]
mod tests;
