//! The step `Store`: a body goes to the readers of a fill while it arrives and, after its verified end, into the store.

use super::large::LargeProgress;
use super::machine::FillStep;
use super::{ArrivedHead, Disposition, FillJob, FillRun, Readers, Waiters, pressure};
use crate::assemble::assemble;
use crate::coding;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::stored;
use larder_store::fill::SharedHead;
use larder_store::ram::NotStored;
use larder_store::{Exchanged, FillEnd, FillHead, FillWriter, StoredArc};
use std::sync::Arc;

impl FillRun {
    /// `Store`: shares the response while it arrives, and stores it.
    pub(super) async fn store(&mut self) -> FillStep {
        let readers = std::mem::replace(&mut self.readers, Readers::None);
        let (Readers::Shared(mut writer), Some(Disposition::Store { head, before, after })) =
            (readers, self.decided.take())
        else {
            return FillStep::Finish;
        };
        writer.head(FillHead::Shared(head.clone()), true);
        self.carry(before, after, head, writer).await;
        FillStep::Finish
    }

    /// Carries a body, with held bytes before or after those that arrive.
    async fn carry(&mut self, before: Bytes, after: Bytes, head: Arc<SharedHead>, mut writer: FillWriter) {
        let (job, Some(arrived)) = (&self.job, &self.arrived) else { return };
        let most = job.route.policy.max_object;
        let mut length = (before.len() + after.len()) as u64;
        if writer.push(before, most).await.is_err() {
            return;
        }
        // With the last bytes the readers have all: a client may ask again anywhere and finds what is stored.
        let holds_last = after.is_empty();
        let mut last = Bytes::new();
        let mut large = LargeProgress::NotYet;
        let source = &arrived.source;
        loop {
            if pressure::wanted(source, &mut writer).await.is_err() {
                return;
            }
            let next = if job.cancels() {
                tokio::select! {
                    biased;
                    next = source.next() => next,
                    () = writer.without_readers() => return,
                }
            } else {
                let waiters =
                    if job.is_background() { Waiters::Unconditional } else { Waiters::Readers(&writer) };
                let next = job.unless_given_up(source, waiters, source.next()).await;
                let Some(next) = next else { return };
                next
            };
            match next {
                Ok(Some(bytes)) => {
                    length += bytes.len() as u64;
                    // Nothing beyond the announced length: a 206 may bring more than its Content-Range.
                    if head.length.is_some_and(|it| length > it) {
                        return;
                    }
                    job.note_length(arrived, &head, length);
                    large.note(job, &head, &writer, &bytes).await;
                    if holds_last && head.length == Some(length) && length <= most {
                        last = bytes;
                    } else if pressure::push(source, &mut writer, bytes, most).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return writer.finish(FillEnd::Failed),
            }
        }
        if head.length.is_some_and(|it| length != it) {
            return;
        }
        job.note_end(arrived, length);
        large.note(job, &head, &writer, &after).await;
        if writer.push(after, most).await.is_err() {
            return;
        }
        let trailers = source.trailers().and_then(|it| job.shared_trailers(it, arrived));
        if writer.may_store() {
            match job.store(&head, arrived.exchanged, trailers.clone(), &writer, &last) {
                Ok(Some(stored)) => {
                    large = LargeProgress::Never; // It had room after all.
                    job.keep_below(&stored, false, || writer.was_removed()).await;
                }
                Ok(None) => {}
                Err(Overtaken) => job.overtaken().await,
            }
        } else if !writer.was_removed() {
            job.outgrown(arrived.request_time).await;
        }
        if writer.push(last, most).await.is_err() {
            return;
        }
        writer.spool_rest().await;
        let watch = writer.watch();
        writer.finish(FillEnd::Complete(trailers.clone().map(Arc::new)));
        large.keep(job, &head, trailers, &watch).await;
    }
}

impl FillJob {
    /// Writes a stored response to the tiers below; a key that was removed meanwhile is removed there, too.
    pub(super) async fn keep_below(&self, stored: &StoredArc, freshens: bool, removed: impl Fn() -> bool) {
        let (policy, lease) = (&self.route.policy, self.lease.take());
        let down = self.gateway.write_down(policy, &self.key, stored, lease, freshens, &removed);
        if let Some(put) = down.put {
            put.wait().await;
        }
        if let Some(written) = down.displaced {
            self.gateway.known_to_next_process(written).await;
        }
        if removed() && self.gateway.reaches_below(&self.route) {
            self.gateway.remove(policy, self.hash, &self.key).await;
        }
    }

    /// The trailers for every reader: those of one client are not sent.
    fn shared_trailers(&self, trailers: FieldList, arrived: &ArrivedHead) -> Option<FieldList> {
        stored::stored_trailers(trailers, &arrived.response.fields.view(), &self.route.policy)
    }

    /// Stores a complete response. Returns what may go further down: a response that is in RAM now, or had no room there.
    fn store(
        &self,
        head: &SharedHead,
        exchanged: Exchanged,
        trailers: Option<FieldList>,
        writer: &FillWriter,
        last: &Bytes,
    ) -> Result<Option<StoredArc>, Overtaken> {
        let policy = &self.route.policy;
        let mut down = None;
        let mut chunks = writer.chunks();
        chunks.push(last.clone());
        let body = self.gateway.store.make_body(&chunks).map_err(NotStored::from);
        let kept = body.and_then(|body| {
            // A chunked 206 may bring other bytes than its Content-Range names.
            if head.meta.partial().is_some_and(|it| it.length() != body.len()) {
                return Ok(());
            }
            let mut stored = assemble(
                head.meta.clone(),
                head.fields.clone(),
                trailers,
                body,
                head.variant.clone(),
                head.purge_facts.clone(),
                &self.route.policy.tags,
            );
            stored.exchanged = exchanged;
            let Some(stored) = self.with_stored(stored) else { return Ok(()) };
            let stored = coding::ready(stored, policy);
            if !policy.tiers.ram {
                down = Some(StoredArc::new(stored));
                return Ok(());
            }
            let stored = down.insert(self.gateway.store.ram_form(stored)).clone();
            let most = usize::from(policy.max_variants);
            writer.insert(stored, most).map(|()| self.gateway.counters.cache_stores.add(1))
        });
        match kept {
            Ok(()) => self.gateway.shared.unstored.forget(self.hash),
            // An invalidation or a purge was faster.
            Err(NotStored::Removed) => down = None,
            Err(NotStored::Overtaken) => return Err(Overtaken),
            Err(NotStored::OverBudget) => {
                self.gateway.counters.cache_over_budget.add(1);
                self.gateway.store.drop_selected(self.hash, &self.key, &self.request.fields.view());
            }
        }
        Ok(down)
    }
}

/// Another answer arrived during this exchange, and neither is kept.
struct Overtaken;
