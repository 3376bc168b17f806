//! Counts the responses in RAM that a purge matches, before it is in force: afterwards requests and the sweep remove them
//! one by one.

use super::rules::Birth;
use super::{Positions, PurgeRule};
use crate::entry::{Entry, Stored};
use crate::ram::Store;
use larder_semantics::purged::PurgeVerdict;
use larder_stdx::clock;

impl Store {
    /// The number of responses in RAM that `rule` matches and that earlier purges have left, counting each variant. It ends above `most`:
    /// a purge of a million responses would otherwise take a second before it is in force. A key that does not match takes about
    /// 100 ns, so a large store is counted on a thread of its own. A response that is stored meanwhile may be counted or not.
    #[must_use]
    pub fn count_matched(&self, rule: &PurgeRule, most: u64) -> u64 {
        let only = self.purges.alone(rule, clock::wall());
        let log = Positions::default();
        let is_matched = |entry: &Entry, it: &Stored| {
            let birth = Birth::Here { met: 0, log: &log };
            only.verdict(&it.subject(entry.key()), birth) != PurgeVerdict::Keep
        };
        let matched_of =
            |entry: &Entry| entry.variants.iter().filter(|it| is_matched(entry, it)).count() as u64;
        let mut count = 0;
        for shard in &self.shards {
            let left = usize::try_from(most.saturating_sub(count)).unwrap_or(usize::MAX).saturating_add(1);
            let found: Vec<Entry> = {
                let shard = shard.read();
                let entries = shard.slots.values();
                entries.filter(|it| matched_of(it) > 0).take(left).cloned().collect()
            };
            // No shard lock is held while the rules are read.
            count += found
                .into_iter()
                .filter_map(|it| self.purges.left_of(it))
                .map(|it| matched_of(&it))
                .sum::<u64>();
            if count > most {
                break;
            }
        }
        count
    }
}
