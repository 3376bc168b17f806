//! Bodies that RAM cannot hold are written to the disk tier while they go to their readers. `store::disk` writes them;
//! the fill in `store` carries them.

use super::FillJob;
use crate::assemble::assemble;
use crate::coding;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::stored::Meta;
use larder_semantics::tiers;
use larder_stdx::clock;
use larder_store::fill::{RemovalWatch, SharedHead, WINDOW};
use larder_store::{FillWriter, StoredArc, disk};

/// Why no tier will keep a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnstorableBody {
    /// It is too large, now and later.
    TooLarge,
    /// There is no room at the moment.
    NoRoom,
}

/// Whether the head of a response already shows that no tier will keep its body of `length` bytes. Not asked for bodies
/// within the window in which any body is shared.
pub(crate) fn unstorable(job: &FillJob, meta: &Meta, length: u64) -> Option<UnstorableBody> {
    if length <= WINDOW || job.gateway.store.has_room_for(length) {
        return None;
    }
    if !job.gateway.store.is_outgrown_by(length) {
        return Some(UnstorableBody::NoRoom);
    }
    let disk = job.gateway.disk_of(&job.route.policy).filter(|it| it.accepts_length(length));
    let goes_there = disk.is_some() && tiers::goes_down(meta, clock::wall());
    (!goes_there).then_some(UnstorableBody::TooLarge)
}

/// The progress of such a body.
pub(crate) enum LargeProgress {
    /// RAM may still hold it.
    NotYet,
    /// It is being written to the disk.
    OnItsWay(Box<disk::LargeWrite>),
    /// No tier keeps it: there is no disk, or writing was given up.
    Never,
}

impl LargeProgress {
    /// Takes the next bytes before they are pushed to readers; writing starts with the first bytes that RAM cannot hold.
    /// The readers may wait a little for the disk, as `disk::LargeWrite::push` says.
    pub async fn note(&mut self, job: &FillJob, head: &SharedHead, writer: &FillWriter, bytes: &Bytes) {
        if bytes.is_empty() {
            return;
        }
        if matches!(self, LargeProgress::NotYet) && writer.outgrows_ram(bytes.len() as u64, head.length) {
            *self = LargeProgress::begin(job, head, writer).await;
        }
        if let LargeProgress::OnItsWay(large) = self
            && large.push(bytes.clone()).await.is_err()
        {
            *self = LargeProgress::Never;
        }
    }

    async fn begin(job: &FillJob, head: &SharedHead, writer: &FillWriter) -> LargeProgress {
        let policy = &job.route.policy;
        let fits = head.length.is_none_or(|it| it <= policy.max_object);
        let disk = job.gateway.disk_of(policy).filter(|_| fits && writer.may_store());
        let Some(disk) = disk.filter(|_| tiers::goes_down(&head.meta, clock::wall())) else {
            return LargeProgress::Never;
        };
        let Some(mut large) = disk.begin_large(head.length) else { return LargeProgress::Never };
        // The bytes so far of a body of unknown length; the fill holds them until they are in the file.
        for held in writer.chunks() {
            if large.push(held).await.is_err() {
                return LargeProgress::Never;
            }
        }
        LargeProgress::OnItsWay(Box::new(large))
    }

    /// The body is complete: it becomes a response of the disk tier, unless its key was removed since the origin was
    /// asked.
    pub async fn keep(
        self,
        job: &FillJob,
        head: &SharedHead,
        trailers: Option<FieldList>,
        watch: &RemovalWatch,
    ) {
        let LargeProgress::OnItsWay(large) = self else { return };
        let policy = &job.route.policy;
        let Some(disk) = job.gateway.disk_of(policy) else { return };
        // The fleet does not get it: another node may take the lease.
        drop(job.lease.take());
        let Ok(body) = large.finish().await else { return };
        let (meta, fields) = (head.meta.clone(), head.fields.clone());
        let (variant, purge_facts) = (head.variant.clone(), head.purge_facts.clone());
        if body.len() > policy.max_object || meta.partial().is_some() {
            return;
        }
        let stored = assemble(meta, fields, trailers, body, variant, purge_facts, &policy.tags);
        let stored = StoredArc::new(coding::ready(stored, policy));
        job.gateway.counters.disk_large_writes.add(1);
        disk.write_unless(&job.key, &stored, || watch.was_removed());
    }
}
