//! The step `Receive`: refuses requests that no origin may get, decides whether the request uses the cache, and makes its
//! key. The same at the fast speed: `answer_prepared` in `fast_path.rs`.

use super::deliver::Delivery;
use super::early_body::EarlyBody;
use super::error::OwnError;
use super::machine::Step;
use super::{Machine, pass};
use crate::cache_key;
use crate::request_headers::{self, Bypass};
use crate::rewrite;
use larder_semantics::reuse::ForwardReason;

/// The usual number of bytes in a key besides host and target.
const KEY_ROOM: usize = 24;

impl Machine<'_, '_> {
    pub(super) fn receive(&mut self) -> Step {
        if let EarlyBody::Lost(gone) = self.content.early {
            return self.fails(OwnError::Status(pass::client_status(gone)));
        }
        if let Some(status) =
            request_headers::refused(self.input.gateway, &self.input.request.method, self.input.fields)
        {
            return self.fails(OwnError::Status(status));
        }
        if request_headers::max_forwards(&self.input.request.method, self.input.fields) == Some(0) {
            let sentence = "This server answers the request itself: Max-Forwards: 0 forbids forwarding.";
            self.response.answer = Some(Delivery::Own { status: 200, sentence, report: None });
            return Step::Deliver;
        }
        let geo = self.input.route.geo.as_deref();
        let view = rewrite::view(self.input.request, self.input.fields, Some(self.input.client), geo);
        let rewritten = self.input.route.rewrite.rewritten(&view);
        if rewritten.as_ref().is_some_and(|it| it.leaves) || self.input.route.rewrite.climbs(&view) {
            return self.fails(OwnError::Status(400));
        }
        // The protocols of applications have no upgrade.
        if self.content.upgrade.is_some() && self.input.route.origins.is_application() {
            return self.fails(OwnError::Status(501));
        }
        if self.content.upgrade.is_some() {
            return self.bypasses(Bypass::Upgrade);
        }
        if self.input.request.protocol.is_some() {
            return self.fails(OwnError::Status(501));
        }
        let is_ambiguous = self.input.route.two_ways || rewritten.is_some_and(|it| !it.is_sure);
        self.input.gateway.counters.cache_ambiguous_paths.add(u64::from(is_ambiguous));
        match request_headers::bypass(
            &self.input.route.policy,
            self.input.facts,
            &self.input.request.target,
            self.input.fields,
        ) {
            // The routes for two readings have no cache.
            None | Some(Bypass::Disabled) if is_ambiguous => self.bypasses(Bypass::TwoWays),
            Some(why) => self.bypasses(why),
            None => {
                self.make_key();
                Step::Lookup
            }
        }
    }

    fn bypasses(&mut self, why: Bypass) -> Step {
        self.plan.reason = match why {
            Bypass::Method => ForwardReason::Method,
            Bypass::MalformedTarget => ForwardReason::MalformedTarget,
            _ => ForwardReason::Bypass,
        };
        self.plan.bypassed = Some(why.reason());
        Step::Pass
    }

    pub fn make_key(&mut self) {
        self.key.bytes.clear();
        let request = self.input.request;
        self.key.bytes.reserve(request.authority.len() + request.target.len() + KEY_ROOM);
        let (scheme, authority) = (request.scheme, &request.authority);
        cache_key::write(
            &self.input.route.policy,
            scheme,
            authority,
            &request.target,
            self.input.fields,
            &mut self.key.bytes,
        );
        self.key.hash = self.input.gateway.store.hash(&self.key.bytes);
    }
}
