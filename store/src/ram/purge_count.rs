//! Counts the responses in RAM that a purge matches, before it is in force: afterwards requests and the sweep remove them one
//! by one.

use super::Store;
use crate::entry::Entry;
use crate::purges::{Positions, PurgeMatcher, PurgeMatches, PurgeRule};
use larder_stdx::clock;

impl Store {
    /// The number of responses in RAM that `rule` matches and that earlier purges have left, counting each variant. It ends above `most`:
    /// a purge of a million responses would otherwise take a second before it is in force. A key that does not match takes about
    /// 100 ns, so a large store is counted on a thread of its own. A response that is stored meanwhile may be counted or not.
    #[must_use]
    pub fn count_matched(&self, rule: &PurgeRule, most: u64) -> u64 {
        self.matched_while(rule, |so_far| so_far.responses <= most).0.responses
    }

    /// The same for all of them, with their bytes, until the monotonic microsecond `until`; and whether all of RAM was visited. One
    /// shard is locked at a time, for some 50 µs.
    #[must_use]
    pub fn count_until(&self, rule: &PurgeRule, until: u64) -> (PurgeMatches, bool) {
        self.matched_while(rule, |_| clock::precise_micros() < until)
    }

    /// Visits one shard after the other while `goes_on`; at least one.
    fn matched_while(
        &self,
        rule: &PurgeRule,
        goes_on: impl Fn(&PurgeMatches) -> bool,
    ) -> (PurgeMatches, bool) {
        let matcher = self.matcher(rule);
        let mut found = PurgeMatches::default();
        for (visited, shard) in self.shards.iter().enumerate() {
            if visited > 0 && !goes_on(&found) {
                return (found, false);
            }
            let those: Vec<Entry> = {
                let shard = shard.read();
                shard.slots.values().filter(|it| matcher.matches_any(it)).cloned().collect()
            };
            // No shard lock is held while the rules are read.
            for entry in those.into_iter().filter_map(|it| self.purges.remaining(it)) {
                entry
                    .variants
                    .iter()
                    .filter(|it| matcher.matches(entry.key(), it))
                    .for_each(|it| found.add(it));
            }
        }
        (found, true)
    }

    pub(crate) fn matcher(&self, rule: &PurgeRule) -> PurgeMatcher {
        PurgeMatcher { only: self.purges.single(rule, clock::wall()), log: Positions::default() }
    }
}
