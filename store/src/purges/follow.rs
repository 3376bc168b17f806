//! What the fleet's purge logs ask of the store: see `fleet::log::follower::Holder`, and docs/decisions/0081.

use super::rules::Followed;
use super::{Position, Rule, Scope, Seq, Strength};
use crate::fleet::log::Holder;
use crate::ram::Store;
use larder_semantics::expression::Expression;
use larder_stdx::clock;
use larder_wire::purge_entry::{About, Deed, Entry};
use std::sync::Arc;

/// The rule that an entry asks for; `None` if this node does not understand it.
#[must_use]
pub fn rule_of(entry: &Entry, positions: Vec<Position>) -> Option<Rule> {
    let scope = match &entry.about {
        About::Url(key) => Scope::Url(key.clone()),
        About::Prefix(prefix) => Scope::Prefix(prefix.clone()),
        About::Tag(tag) => Scope::Tag(tag.clone()),
        About::Where(text) => Scope::Where(Expression::parse(text).ok()?),
        About::All => Scope::All,
    };
    let strength = match entry.deed {
        Deed::Soft => Strength::Soft,
        Deed::Validate => Strength::Validate,
        Deed::Hard => Strength::Hard,
    };
    Some(Rule { scope, strength, positions })
}

/// The entry by which other nodes are told of a rule.
#[must_use]
pub fn entry_of(scope: &Scope, strength: Strength, id: u128) -> Entry {
    let about = match scope {
        Scope::Url(key) => About::Url(key.clone()),
        Scope::Prefix(prefix) => About::Prefix(prefix.clone()),
        Scope::Tag(tag) => About::Tag(tag.clone()),
        Scope::Where(expression) => About::Where(expression.text().into()),
        Scope::All => About::All,
    };
    let deed = match strength {
        Strength::Soft => Deed::Soft,
        Strength::Validate => Deed::Validate,
        Strength::Hard => Deed::Hard,
    };
    Entry { id, wall: clock::wall().0, deed, about }
}

impl Store {
    /// Hosts share what they keep, under this name (`cache.fleet.namespace`): a purge that names a page or its beginning by one host means
    /// that of all. To be said before the first purge.
    pub fn share_hosts(&self, name: &str) {
        self.change_rules(|rules| rules.share_hosts(name));
    }

    /// From now on purges come through the fleet's logs: nothing is trusted before they are followed.
    pub fn follows_logs(&self) {
        clock::mind_arrivals();
        self.trust_until(0);
        self.change_log(|all| *all = vec![Position::NOTHING]);
    }
}

impl Holder for Arc<Store> {
    fn purge(&self, entry: &Entry, at: &[Position]) -> Option<Seq> {
        let positions = if at.is_empty() { vec![Position::NOWHERE] } else { at.to_vec() };
        Some(Store::purge(self, rule_of(entry, positions)?))
    }

    fn also_at(&self, seq: Seq, at: Position) {
        self.change_rules(|rules| rules.also_at(seq, at));
    }

    fn stands_nowhere(&self, seq: Seq) {
        self.change_rules(|rules| rules.stands_nowhere(seq));
    }

    fn doubt(&self) {
        self.change_rules(|rules| rules.doubt(clock::wall()));
    }

    fn knows(&self, positions: &[Position]) {
        self.change_log(|all| {
            *all = positions.to_vec();
            if all.is_empty() {
                all.push(Position::NOTHING);
            }
        });
    }

    fn abandon(&self, log: u64) {
        self.change_rules(|rules| rules.abandon(log));
    }

    fn follow(&self, floor: &[Position], need: usize, until: u64) {
        let new = Followed { floor: floor.to_vec(), need };
        self.change_rules(|rules| {
            rules.follow(new, clock::wall());
            // Within, so that no verdict is made by the one without the other. The last millisecond is not trusted.
            self.trust_until(until.saturating_sub(1));
        });
    }
}

#[cfg(test)]
#[path = "follow/tests.rs"]
mod tests;
