//! Which form of a stored response a request is served, made where there is none yet.

use crate::coding;
use crate::route::Gateway;
use crate::stages::{RequestStage, Stages};
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::transcode::{self, Serve};
use larder_store::{Encoding, StoredArc};
use std::sync::Arc;
use std::time::Duration;

/// What is sent of a stored response at the slow speed.
pub(crate) enum Face {
    /// The stored form.
    Own,
    /// A form that was made.
    Form(Arc<Encoding>),
    /// The stored form, decoded on its way.
    Decoded(Coding),
}

impl Gateway {
    /// Has a form made that a request would like.
    pub(crate) fn order(&self, stored: &StoredArc, coding: Coding) {
        if let Some(coders) = self.coders.get() {
            coders.order(stored, coding);
        }
    }

    /// What a request is sent, which waits at most `patience` for a form if it accepts nothing that is there.
    pub(crate) async fn face(
        &self,
        stored: &StoredArc,
        fields: &[Field<'_>],
        facts: &RequestFacts<'_>,
        policy: &Policy,
        patience: Duration,
        stages: &Stages,
    ) -> Face {
        let as_it_is = || {
            // What has no place for forms may be coded all the same: it has trailers, or came from a lower tier.
            let coding = transcode::handled(stored.meta.status, &stored.fields().view(), policy);
            let decodable = coding.filter(|it| !transcode::suits(*it, AcceptedCodings::read(fields)));
            let no_transform = facts.directives.no_transform;
            decodable.filter(|_| !no_transform).map_or(Face::Own, Face::Decoded)
        };
        let Some(forms) = &stored.forms else { return as_it_is() };
        let choice = coding::choose(forms, policy, fields, facts);
        if let Some(coding) = choice.make {
            self.order(stored, coding);
        }
        let form = match choice.serve {
            Serve::Own => return Face::Own,
            Serve::Made(coding) => forms.get(coding),
            Serve::Wait(coding) => {
                self.counters.coding_waits.add(1);
                stages.enter(RequestStage::Wait);
                let _ = tokio::time::timeout(patience, forms.settled(coding)).await;
                stages.enter(RequestStage::Write);
                forms.get(coding)
            }
            Serve::Unsuitable => None,
        };
        match form {
            Some(form) => {
                form.note_use();
                self.counters.coding_hits.add(1);
                Face::Form(form)
            }
            None if forms.is_undecodable() => Face::Own,
            None => as_it_is(),
        }
    }
}
