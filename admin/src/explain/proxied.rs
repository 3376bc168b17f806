//! `explain` of a request that a gateway answers: its cache, its rewrites and its origins.

use super::access::ExplainedAccess;
use super::{
    Admin, AdminResponse, budget_json, explanation_json, problem_at, script, sent_json, sql, sticky,
};
use crate::stats::origin_json;
use larder_gateway::GatewayRoute;
use larder_gateway::explain::Explanation;
use larder_gateway::request_headers::Bypass;
use larder_gateway::rewrite::SentTarget;
use larder_semantics::geo::COUNTRY_FIELD;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::policy::CredentialUse;
use larder_semantics::request_view::RequestView;
use larder_server::router::{Router, RoutesWithoutFile};
use larder_wire::message::Request;
use std::borrow::Cow;

impl Admin {
    /// Explains a request that a gateway answers.
    pub(super) async fn explain_proxied(
        &self,
        request: &Request,
        proxied: &GatewayRoute,
        (router, without): (&Router, RoutesWithoutFile),
        view: &RequestView<'_>,
        at: (usize, usize),
        access: Option<&ExplainedAccess>,
    ) -> AdminResponse {
        let (site, route) = at;
        let settings = self.settings(site, route);
        let mut request = self.without_signature(at, request.clone());
        if let Some(it) = access {
            it.changes.change(&mut request);
        }
        let mut keyed = Cow::Borrowed(&request);
        if let Some(country) = view.country().filter(|_| proxied.policy.key.has_country()) {
            keyed.to_mut().fields.push(COUNTRY_FIELD, country.bytes());
        }
        let mut explanation = self.gateway.explain(proxied, &keyed, view).await;
        if let Some(explained) = router.two_ways(without, view).filter(|_| proxied.two_ways) {
            explanation.verdict.sentence = format!("{} {explained}", explanation.verdict.sentence);
        }
        let passes = explanation.bypass.is_some();
        let sent = SentTarget::of(&proxied.rewrite, &proxied.policy, &request, passes, view);
        let live = self.live.borrow().clone();
        let of_site = live.config.sites.get(site);
        let Some((of_site, row)) = of_site.and_then(|it| Some((it, it.routes.get(route)?))) else {
            return problem_at(409, "The configuration changed in the meantime; retry.", "url");
        };
        let mut explained = explanation_json(&proxied.name, site, &explanation, settings, &row.decided);
        let asked = sent.as_ref().map_or(&request.target, |it| &it.target);
        let asked = (&*request.method, &**asked);
        script::add_script(&mut explained, proxied, asked, of_site, &row.decided).await;
        explained["origin_request"] = sent_json(sent.as_ref(), row);
        explained["budget"] = proxied.budget.as_ref().map(|it| budget_json(it, view)).into();
        explained["sql"] = sql::to_json(row, &request, &self.followed);
        explained["sticky"] = sticky::to_json(proxied, &request, &row.decided);
        explained["nodes"] = self.nodes.as_ref().map(|it| it.standing()).into();
        let is_off = explanation.judged.reason == Some(MissReason::CacheOff);
        if is_off || explanation.judged.is_withheld() {
            // Of requests since the last judgement, too: a page that was the same for all clients may have become private.
            self.judge_again(&live).await;
        }
        let asked = (&request, view.client);
        self.add_reason(&mut explained, &explanation, &proxied.policy, asked, (site, route, row));
        explained["origins"] = live.scopes.origins_of((site, route)).map(origin_json).collect();
        let is_in_key = proxied.policy.credentials == CredentialUse::InKey;
        if let Some(it) = access.filter(|_| is_in_key && lacks_credentials(&explanation)) {
            it.explain_unknown_identity(&mut explained);
        }
        AdminResponse::Json(200, explained)
    }
}

/// Whether a request bypasses the cache since access has not identified its client.
fn lacks_credentials(explanation: &Explanation) -> bool {
    explanation.bypass == Some(Bypass::Credentials.sentence())
}
