//! The RAM tier for the process that takes over in an upgrade: the stream of a snapshot, sent while this process serves. All
//! responses come first, then, as often as wanted, those that have changed meanwhile, and the last of these at the switch.
//!
//! A response that was replaced or removed here after it was sent is removed there by its key, and the new one follows. Each
//! record has the last purge that was applied to it; the later ones go with the switch ([`PurgesInForce`]). So the receiver has
//! no response that this process would not serve at the switch. Changes after that are as between two nodes, but for purges.
//!
//! Bodies in the arena are not sent where the receiver has the arena: `arena::lending`.

use super::reading::Surplus;
use super::{SnapshotCount, SnapshotFacts, SnapshotFault, SnapshotReader, SnapshotWriter, StreamVersion};
use crate::arena::InheritedArena;
pub use crate::arena::{ArenaInUse, LentArena};
use crate::changed_keys::TooManyChanges;
use crate::purges::Seq;
use crate::ram::Store;
use larder_stdx::clock;
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The seed of the checksums: the stream has no place on a device where older bytes could be.
const SEED: u64 = 0x6c61_7264_6572;

/// The purges that the receiver needs in addition to the stream.
pub struct PurgesInForce {
    /// The number of the last one.
    pub last: Seq,
    /// Them, for [`crate::disk::rules_of_bytes`].
    pub rules: Vec<u8>,
}

/// Why the RAM tier is not handed over. The bytes so far must not be used.
#[derive(Debug)]
pub enum TransferFault {
    /// More keys have changed meanwhile than are kept.
    TooManyChanges,
    /// More purges were made meanwhile than are kept.
    TooManyPurges,
    /// The receiver does not take it.
    Failed(io::Error),
}

impl From<io::Error> for TransferFault {
    fn from(error: io::Error) -> Self {
        TransferFault::Failed(error)
    }
}

impl From<TooManyChanges> for TransferFault {
    fn from(_: TooManyChanges) -> Self {
        TransferFault::TooManyChanges
    }
}

/// A RAM tier that is being sent. Once it is dropped, changes are not recorded any more.
pub struct RamTransfer<W: Write> {
    store: Arc<Store>,
    writer: SnapshotWriter<W>,
    /// The last purge when it began.
    first: Seq,
    /// The arena, as long as the receiver may use it and this process can still take it back alone.
    lent: Option<ArenaInUse>,
}

impl<W: Write> RamTransfer<W> {
    /// Sends every response in this version, the most used ones first, until `late` returns true; bodies in `lent` by their place. Left out are parts, private markers, bodies
    /// in the disk tier, and responses that are of no use any more.
    ///
    /// # Errors
    /// See [`TransferFault`].
    pub fn begin(
        store: &Arc<Store>,
        out: W,
        version: StreamVersion,
        settings: u64,
        lent: Option<ArenaInUse>,
        late: impl Fn() -> bool,
    ) -> Result<Self, TransferFault> {
        store.eviction.lock().changed.begin();
        let (now, first) = (clock::wall(), store.purge_number());
        let mut transfer =
            Self { store: store.clone(), writer: SnapshotWriter::new(out, SEED, version), first, lent };
        transfer.writer.lent = transfer.lent.as_ref().map(ArenaInUse::descriptor);
        transfer.writer.begin(&SnapshotFacts { written: now, last: first, settings })?;
        store.write_all(&mut transfer.writer, now, late)?;
        Ok(transfer)
    }

    /// Sends the responses that have changed since; returns the number of their keys.
    ///
    /// # Errors
    /// See [`TransferFault`].
    pub fn catch_up(&mut self) -> Result<usize, TransferFault> {
        let changed = self.store.eviction.lock().changed.take()?;
        self.resend(&changed)?;
        Ok(changed.len())
    }

    /// Sends the last changes and the end. Every later purge of this process must reach the receiver on another way.
    ///
    /// # Errors
    /// See [`TransferFault`].
    pub fn end(mut self) -> Result<(SnapshotCount, PurgesInForce), TransferFault> {
        self.catch_up()?;
        let changed = {
            let mut eviction = self.store.eviction.lock();
            let changed = eviction.changed.take();
            eviction.changed.end();
            changed?
        };
        self.resend(&changed)?;
        if self.lent.as_ref().is_some_and(ArenaInUse::is_spoiled) {
            return Err(TransferFault::TooManyChanges);
        }
        // Now that no record has a later number.
        let purges = self.store.purges_in_force(self.first).ok_or(TransferFault::TooManyPurges)?;
        let count = self.writer.end()?;
        // Reclaimed if the receiver fails after all.
        if let Some(lent) = self.lent.take() {
            self.store.arenas.keep_lent(lent);
        }
        Ok((count, purges))
    }

    /// Sends the present responses under these keys in place of those that were sent before.
    fn resend(&mut self, keys: &HashSet<Box<[u8]>>) -> io::Result<()> {
        for key in keys {
            self.writer.removal(key)?;
            if let Some(entry) = self.store.entry_of(self.store.hash(key), key) {
                let uses = entry.uses.load(Relaxed);
                self.store.write_entry(&mut self.writer, entry, uses, clock::wall(), false)?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Drop for RamTransfer<W> {
    fn drop(&mut self) {
        let changed = self.store.eviction.lock().changed.end();
        drop(changed);
        if let Some(lent) = self.lent.take() {
            lent.reclaim();
        }
    }
}

impl Store {
    /// The purges in force, if none after `since` was dropped.
    fn purges_in_force(&self, since: Seq) -> Option<PurgesInForce> {
        let (last, rules, dropped) = self.rules_to_hand_over();
        (dropped <= since).then_some(PurgesInForce { last, rules })
    }

    /// Reads the RAM tier of another process into this one, before anything else is there and before purges are taken over;
    /// then [`Store::restore`] puts the purges of the switch in force. Where RAM is full, or `late` returns true for the bytes that were
    /// copied, responses are left out. Either all that was read is in RAM, or nothing. Bodies in the arena `lent` stay there.
    ///
    /// # Errors
    /// Nothing of it is used. The rest of the stream is not read.
    pub fn receive_ram(
        &self,
        from: impl Read,
        settings: u64,
        lent: Option<LentArena>,
        late: impl Fn(u64) -> bool,
    ) -> Result<SnapshotCount, SnapshotFault> {
        let mut reader = SnapshotReader::new(from, SEED);
        reader.facts(settings, clock::wall())?;
        let inherited = lent.map(|it| InheritedArena::new(it, self.budget.clone())).transpose()?;
        let copied = || self.used().saturating_sub(inherited.as_ref().map_or(0, InheritedArena::claimed));
        let count = self.read_all(reader, Surplus::Skipped, inherited.as_ref(), || late(copied()))?;
        if let Some(inherited) = inherited {
            inherited.finish();
            self.arenas.keep_inherited(inherited);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
