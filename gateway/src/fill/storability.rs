//! Whether a response that has arrived is kept: asks `semantics::storable`, counts and records a refusal.

use super::ArrivedHead;
use crate::cache_rules;
use crate::route::{Gateway, GatewayRoute};
use crate::unstored_responses::RefusedStorage;
use larder_semantics::field::FieldList;
use larder_semantics::flip;
use larder_semantics::request::RequestFacts;
use larder_semantics::storable::{self, NotStorable, Storable};
use larder_semantics::trace::Silent;
use larder_store::PurgeEpoch;
use larder_store::ram::KeyHash;
use larder_wire::message::{Framing, Request};

/// The subject of the decision: a request and the hash of its key.
pub(crate) struct StorabilityCheck<'a> {
    pub gateway: &'a Gateway,
    pub route: &'a GatewayRoute,
    pub request: &'a Request,
    pub facts: &'a RequestFacts<'a>,
    pub hash: KeyHash,
    /// The store already remembers that answers under this key are not shared; after it forgets, one request finds out
    /// for all.
    pub is_hit_for_miss: bool,
}

impl StorabilityCheck<'_> {
    /// Decides about storing. A refusal is counted, remembered so that no request waits for such a response, and recorded
    /// for `explain`.
    pub fn decide(&self, arrived: &ArrivedHead) -> Storable {
        let fields = arrived.all_fields();
        let policy =
            cache_rules::of_response(&self.route.policy, self.request, arrived.response.status, &fields);
        let verdict = storable::decide(
            self.facts,
            arrived.response.status,
            &fields,
            policy,
            arrived.request_time,
            arrived.response_time,
            &mut Silent,
        );
        let verdict = match (verdict, arrived.response.framing) {
            (Storable::Store, Framing::Length(length)) if length > policy.max_object => {
                self.gateway.counters.cache_object_too_large.add(1);
                Storable::Refuse(NotStorable::TooLarge)
            }
            (verdict, _) => verdict,
        };
        if let Storable::Refuse(refusal) = verdict {
            self.note(arrived, refusal);
        }
        verdict
    }

    fn note(&self, arrived: &ArrivedHead, refusal: NotStorable) {
        if refusal == NotStorable::Method {
            return; // The answer to a POST or a HEAD is never expected to be stored.
        }
        self.gateway.counters.cache_refusals.add(1);
        if is_about_the_page(self.request, arrived, refusal) && !self.is_hit_for_miss {
            self.remember_miss(&arrived.epoch);
        }
        self.record(arrived, refusal.is_one_visitors(), None);
    }

    /// Records for `explain` that a body without a declared length had this `length`, which exceeds `cache.max_object`.
    pub fn record_too_large(&self, arrived: &ArrivedHead, length: u64) {
        self.record(arrived, NotStorable::TooLarge.is_one_visitors(), Some(length));
    }

    /// `length` is that of the body, where its head declares none.
    fn record(&self, arrived: &ArrivedHead, theirs: bool, length: Option<u64>) {
        self.gateway.shared.unstored.note(self.hash, arrived.response_time, theirs, || {
            let mut refused = RefusedStorage {
                method: self.request.method.clone(),
                request: self.request.fields.clone(),
                route: self.route.name.as_str().into(),
                failure: None,
                is_one_visitors: theirs,
                status: arrived.response.status,
                response: FieldList::from_fields(&arrived.all_fields()),
                request_time: arrived.request_time,
                response_time: arrived.response_time,
            };
            if let Some(length) = length {
                refused.response.push("Content-Length", length.to_string());
            }
            let (request, response) = (refused.request.view(), refused.response.view());
            let exchange = refused.exchange(&request, &response, &self.route.policy);
            let is_one_visitors = theirs || flip::is_one_visitors(&exchange);
            drop((request, response));
            refused.is_one_visitors = is_one_visitors;
            refused
        });
    }

    /// For a while no request waits for another's answer under this key, by a response that had this `epoch`.
    pub fn remember_miss(&self, epoch: &PurgeEpoch) {
        let seconds = self.gateway.remembers_misses(&self.route.policy);
        self.gateway.remember_miss(self.hash, epoch, seconds);
    }
}

/// Whether a refusal applies to every answer under this key.
pub(super) fn is_about_the_page(request: &Request, arrived: &ArrivedHead, refusal: NotStorable) -> bool {
    matches!(request.method.as_str(), "GET" | "QUERY") && refusal.is_about_the_page(arrived.response.status)
}
