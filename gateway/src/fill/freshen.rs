//! The step `Freshen`: updates the stored response with the head of a 304, or of the response to HEAD (RFC 9111 §4.3.4,
//! §4.3.5).

use super::machine::FillStep;
use super::{ArrivedHead, FillJob, FillOutcome, FillRun};
use crate::assemble::assemble;
use crate::cache_rules;
use crate::coding;
use crate::request_headers;
use larder_semantics::freshen::{self, AfterFreshen, HeadSays};
use larder_semantics::request::RequestFacts;
use larder_semantics::stored;
use larder_store::fill::SpentLifetime;
use larder_store::{Stored, StoredArc};

impl FillRun {
    /// `Freshen`: the response that the 304 is about is fresh again.
    pub(super) async fn freshen(&mut self) -> FillStep {
        let (Some(arrived), Some(old)) = (self.arrived.take(), self.job.stored.clone()) else {
            return FillStep::Finish;
        };
        let (new, after) = self.job.update(&old, &arrived, || self.was_removed()).await;
        self.job.gateway.counters.cache_validated.add(1);
        if after == AfterFreshen::Update && new.meta.allows_hits(arrived.response_time) {
            arrived.source.note_reusable();
        }
        // A response that may not be stored is for the client that asked: waiting requests look up again.
        let spent = match after {
            AfterFreshen::Update => self.job.spent(&arrived, &new.meta, true),
            AfterFreshen::Leave | AfterFreshen::Drop => SpentLifetime::No,
        };
        self.ends(FillOutcome::Freshened(new, spent))
    }

    /// A HEAD response freshens or invalidates the response stored for GET.
    pub(super) async fn head_came(&self, arrived: &ArrivedHead) {
        let job = &self.job;
        let Some(old) = job.stored.as_ref().filter(|_| arrived.response.status == 200) else { return };
        if job.is_unrelated_to(old) {
            return;
        }
        let mut stored = old.fields();
        stored.set("Content-Length", old.body.len().to_string());
        match freshen::head_says(&old.meta, &stored, &arrived.response.fields.view()) {
            HeadSays::Freshen => {
                job.update(old, arrived, || self.was_removed()).await;
            }
            HeadSays::Invalidate => {
                job.gateway.remove(&job.route.policy, job.hash, &job.key).await;
            }
        }
    }
}

impl FillJob {
    /// Whether a 304 is about the stored response.
    pub(super) fn is_selected_by(&self, arrived: &ArrivedHead) -> bool {
        let fields = arrived.response.fields.view();
        self.stored.as_ref().is_some_and(|it| freshen::selects(&it.meta, &fields, true))
    }

    /// The stored response with the head of a 304 or a HEAD response, for the client that asked; the store keeps it as
    /// far as allowed. `removed` says whether the key was removed since the origin was asked.
    async fn update(
        &self,
        old: &StoredArc,
        arrived: &ArrivedHead,
        removed: impl Fn() -> bool,
    ) -> (StoredArc, AfterFreshen) {
        let fields = arrived.response.fields.view();
        let mut new = self.freshened(old, arrived);
        new.exchanged = arrived.exchanged;
        let new = self.gateway.store.ram_form(new);
        let kept = new.fields();
        let policy =
            cache_rules::of_response(&self.route.policy, &self.request, new.meta.status, &kept.view());

        let request = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &request);
        let after = freshen::after(&facts, &fields, &kept, &new.meta, policy);
        match after {
            AfterFreshen::Update => {
                // If it was purged or replaced meanwhile, that stands; this client may still be answered with it.
                let stands = self.gateway.store.replace(self.hash, &self.key, old, new.clone());
                self.gateway.shared.unstored.forget(self.hash);
                if !removed() && (stands || !self.is_replaced()) {
                    self.keep_below(&new, true, &removed).await;
                }
            }
            AfterFreshen::Leave => {}
            AfterFreshen::Drop => {
                self.gateway.remove(policy, self.hash, &self.key).await;
                self.judge(None, |it| it.remember_miss(&arrived.epoch));
            }
        }
        if !self.is_background() {
            let mut cookies = self.local.cookies.borrow_mut();
            fields.iter().filter(|it| it.sets_cookie()).for_each(|it| cookies.push(it.name, it.value));
        }
        (new, after)
    }

    fn freshened(&self, old: &Stored, arrived: &ArrivedHead) -> Stored {
        let update = arrived.response.fields.view();
        let (request_time, response_time) = (arrived.request_time, arrived.response_time);
        // The rule of the stored response: a 304 repeats its fields.
        let held = old.fields();
        let policy =
            cache_rules::of_response(&self.route.policy, &self.request, old.meta.status, &held.view());
        let (mut fields, meta) =
            freshen::apply(&old.fields(), &old.meta, &update, policy, request_time, response_time);
        if update.iter().any(|it| it.is("via")) {
            request_headers::mark_stored(&mut fields, arrived.response.version, policy);
        }
        let purge_facts = self.purge_facts(&fields, arrived.epoch.clone());
        let trailers = old.trailers().cloned();
        let trailers = trailers.and_then(|it| stored::stored_trailers(it, &fields.view(), policy));
        let (body, variant) = (old.body.clone(), old.variant().into());
        let new = assemble(meta, fields, trailers, body, variant, purge_facts, &policy.tags);
        let new = coding::ready(new, policy);
        coding::carry(&self.gateway.store, old, &new);
        new
    }
}
