//! A body that RAM cannot hold goes to the disk tier while it goes to its readers; and whether that is known to be in vain.
//! How it gets there is in `store::disk`; the fill that carries it, in `store`.

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

/// Why a body will be kept in no tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nowhere {
    /// It is too large: so it will be the next time.
    TooLarge,
    /// There is no room now.
    NoRoom,
}

/// Whether it is certain with the head of a response that its body, of `length` bytes, will be kept in no tier. Not asked of
/// what is not larger than the window in which any body is shared.
pub(crate) fn kept_nowhere(job: &FillJob, meta: &Meta, length: u64) -> Option<Nowhere> {
    if length <= WINDOW || job.gateway.store.has_room_for(length) {
        return None;
    }
    if !job.gateway.store.is_outgrown_by(length) {
        return Some(Nowhere::NoRoom);
    }
    let disk = job.gateway.disk_of(&job.route.policy).filter(|it| it.could_hold(length));
    let goes_there = disk.is_some() && tiers::goes_down(meta, clock::wall());
    (!goes_there).then_some(Nowhere::TooLarge)
}

/// How far it is.
pub(crate) enum LargeProgress {
    /// RAM may hold it yet.
    NotYet,
    /// It is on its way to the disk.
    OnItsWay(Box<disk::LargeWrite>),
    /// It is kept nowhere: there is no disk for it, or it was given up.
    Never,
}

impl LargeProgress {
    /// Takes note of the next bytes, before they are pushed; begins with the first that show that RAM cannot hold it. The
    /// readers may wait for the disk a little, as `disk::LargeWrite::push` says.
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
        // What has come of a body whose length nobody knew; the fill holds it until it is in its file.
        for held in writer.chunks() {
            if large.push(held).await.is_err() {
                return LargeProgress::Never;
            }
        }
        LargeProgress::OnItsWay(Box::new(large))
    }

    /// It has come whole: it becomes a response of the disk tier's, unless its key was removed since it was asked for.
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
        // The fleet gets nothing of it: another node may have its turn.
        drop(job.win.take());
        let Ok(body) = large.finish().await else { return };
        let (meta, fields) = (head.meta.clone(), head.fields.clone());
        let (variant, marks) = (head.variant.clone(), head.marks.clone());
        if body.len() > policy.max_object || meta.partial().is_some() {
            return;
        }
        let stored = assemble(meta, fields, trailers, body, variant, marks, &policy.tags);
        let stored = StoredArc::new(coding::ready(stored, policy));
        job.gateway.counters.disk_large_writes.add(1);
        disk.write_unless(&job.key, &stored, || watch.was_removed());
    }
}
