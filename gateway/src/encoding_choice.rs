//! The choice among the encodings of a stored response for a request, and the order of a better one that is missing. The same
//! at the fast speed: `encoding` in `fast_path.rs`.

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

/// The encoding of a stored response that the machine sends.
pub(crate) enum EncodingChoice {
    /// The stored body as it is.
    Own,
    /// An encoding that the pool made.
    Made(Arc<Encoding>),
    /// The stored body, decoded while it is sent.
    Decoded(Coding),
}

impl Gateway {
    /// Orders an encoding that a request would prefer.
    pub(crate) fn order(&self, stored: &StoredArc, coding: Coding) {
        if let Some(coders) = self.coders.get() {
            coders.order(stored, coding);
        }
    }

    /// The encoding for a request. It waits at most `timeout` for one to be made if the client accepts none that is
    /// present.
    pub(crate) async fn choose_encoding(
        &self,
        stored: &StoredArc,
        fields: &[Field<'_>],
        facts: &RequestFacts<'_>,
        policy: &Policy,
        timeout: Duration,
        stages: &Stages,
    ) -> EncodingChoice {
        let as_it_is = || {
            // A response without a place for encodings may be coded nevertheless: it has trailers, or came from a lower tier.
            let coding = transcode::handled(stored.meta.status, &stored.fields().view(), policy);
            let decodable = coding.filter(|it| !transcode::suits(*it, AcceptedCodings::read(fields)));
            let no_transform = facts.directives.no_transform;
            decodable.filter(|_| !no_transform).map_or(EncodingChoice::Own, EncodingChoice::Decoded)
        };
        let Some(encodings) = &stored.encodings else { return as_it_is() };
        let choice = coding::choose(encodings, policy, fields, facts);
        if let Some(coding) = choice.make {
            self.order(stored, coding);
        }
        let encoding = match choice.serve {
            Serve::Own => return EncodingChoice::Own,
            Serve::Made(coding) => encodings.get(coding),
            Serve::Wait(coding) => {
                self.counters.coding_waits.add(1);
                stages.enter(RequestStage::Wait);
                let _ = tokio::time::timeout(timeout, encodings.wait_settled(coding)).await;
                stages.enter(RequestStage::Write);
                encodings.get(coding)
            }
            Serve::Unsuitable => None,
        };
        match encoding {
            Some(encoding) => {
                encoding.note_use();
                self.counters.coding_hits.add(1);
                EncodingChoice::Made(encoding)
            }
            None if encodings.is_undecodable() => EncodingChoice::Own,
            None => as_it_is(),
        }
    }
}
