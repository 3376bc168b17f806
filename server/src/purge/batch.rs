//! Purges of the pages of changed rows: many tags in one order, without receipts. A database that is busy makes 10,000 of them a second; with an order, a
//! task and a receipt for each they took longer than reading its log.

use super::target::PurgeRequest;
use super::{PurgeOrder, PurgeQueue, PurgedTiers, QueuedPurge, ReceiptDetail, WRITE_DOWN};
use larder_observe::log::Level;
use larder_store::disk::{DiskTier, DiskWrite};
use larder_store::purges::{PurgeRule, PurgeScope, Strength};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Purges of tags. The main thread does all of an order at once, so there are at most hundreds in it.
pub struct TagPurges {
    /// The tags.
    pub tags: Vec<String>,
    /// The strength of each.
    pub strength: Strength,
    /// Their source, for the log.
    pub by: String,
}

/// Whether the other nodes of the fleet get the purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadPurges {
    /// They do, or there are none.
    Certain,
    /// The purge logs did not take one of them.
    Uncertain,
}

impl PurgeQueue {
    /// Purges tags, once the queue has room; ready when the purges are in force on every tier of this node. `None` if larder is stopping.
    pub async fn purge_tags(&self, order: TagPurges) -> Option<SpreadPurges> {
        let (reply, done) = oneshot::channel();
        self.orders.send(QueuedPurge::Tags(order, reply)).await.ok()?;
        done.await.ok()
    }
}

impl PurgedTiers {
    pub(super) async fn purge_tags(&self, order: TagPurges) -> SpreadPurges {
        // A connection to the other process is not opened in between: the purges are in force at once.
        if self.nodes.is_some() || self.peer.is_connected() || self.teller.logs(Level::Debug) {
            return self.purge_each_tag(order).await;
        }
        let (mut writes, count) = (Vec::new(), order.tags.len() as u64);
        for tag in order.tags {
            let scope = PurgeScope::Tag(tag.into());
            let rule = PurgeRule { scope, strength: order.strength, positions: Vec::new() };
            match &self.disk {
                None => drop(self.store.purge(rule)),
                Some(disk) => writes.push(self.purge_and_write(disk, &rule)),
            }
        }
        let is_written = timeout(WRITE_DOWN, all_written(writes)).await.unwrap_or(false);
        if self.has_fleet || !is_written {
            self.counters.purges_incomplete.add_shared(count);
        }
        if self.has_fleet { SpreadPurges::Uncertain } else { SpreadPurges::Certain }
    }

    fn purge_and_write(&self, disk: &DiskTier, rule: &PurgeRule) -> DiskWrite {
        let seq = self.store.purge(rule.clone());
        disk.purged(seq, rule)
    }

    /// As single purges, all at once: each is sent to the other nodes, or to the other process.
    async fn purge_each_tag(&self, order: TagPurges) -> SpreadPurges {
        let one = |tag: String| {
            let asked = PurgeRequest { scope: PurgeScope::Tag(tag.into()), strength: order.strength };
            let (by, receipt) = (order.by.clone(), ReceiptDetail::Brief);
            let order = PurgeOrder { asked, by, wait: false, here: None, receipt };
            let tiers = self.clone();
            tokio::task::spawn_local(async move { tiers.purge(order).await.is_spread() })
        };
        let purges: Vec<_> = order.tags.into_iter().map(one).collect();
        let mut spread = SpreadPurges::Certain;
        for purge in purges {
            if !purge.await.unwrap_or(false) {
                spread = SpreadPurges::Uncertain;
            }
        }
        spread
    }
}

async fn all_written(writes: Vec<DiskWrite>) -> bool {
    let mut is_written = true;
    for write in writes {
        is_written &= write.await.is_ok();
    }
    is_written
}
