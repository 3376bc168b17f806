//! The form of a stored response that a request is served; a missing form is ordered.

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

/// The form of a stored response that the machine sends.
pub(crate) enum Face {
    /// The stored form.
    Own,
    /// A form that the pool made.
    Form(Arc<Encoding>),
    /// The stored form, decoded while it is sent.
    Decoded(Coding),
}

impl Gateway {
    /// Orders a form that a request would prefer.
    pub(crate) fn order(&self, stored: &StoredArc, coding: Coding) {
        if let Some(coders) = self.coders.get() {
            coders.order(stored, coding);
        }
    }

    /// The form for a request. It waits at most `patience` for one to be made if the client accepts no present form.
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
            // A response without a place for forms may be coded nevertheless: it has trailers, or came from a lower tier.
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
