//! The first lines of an explanation: the answer, whether it is right, and the safe changes. The judgement is
//! `semantics::advice`; here are its facts, taken from the explanation, and its JSON.

use super::super::advice::knows_clients;
use super::super::config::advised;
use super::{Admin, Value, json};
use larder_config::{RouteConfig, Service, Source, memory_left};
use larder_gateway::explain::Explanation;
use larder_gateway::request_headers::Bypass;
use larder_observe::recent::RecentRequest;
use larder_semantics::advice::{
    self, ChangeFacts, CredentialOf, ExplainedFacts, NamedCredential, PageAudience, Rightness, UrlErrors,
};
use larder_semantics::analytics;
use larder_semantics::field::FieldList;
use larder_semantics::forwarded::{self, Believed};
use larder_semantics::miss_reason::REASONS;
use larder_semantics::policy::Policy;
use larder_semantics::scheme::Scheme;
use larder_stdx::duration;
use larder_wire::message::Request;
use std::net::IpAddr;
use std::sync::Arc;

/// The names of audiences.
const AUDIENCES: [(PageAudience, &str); 3] = [
    (PageAudience::Unknown, "unknown"),
    (PageAudience::Differs, "differs"),
    (PageAudience::OneClient, "one-client"),
];

/// The names of the messages that have credentials.
const CREDENTIALS: [(CredentialOf, &str); 4] = [
    (CredentialOf::Request, "request"),
    (CredentialOf::LastRequest, "last-request"),
    (CredentialOf::Variants, "variants"),
    (CredentialOf::Response, "response"),
];

/// The most recorded requests for a URL that are considered.
const MOST_RECORDED: usize = 20;

/// The facts that only [`add`] needs.
const FACTS: [&str; 12] = [
    "set_cookie_hint",
    "unmatched",
    "changes",
    "equal",
    "audience",
    "failure",
    "time_limit",
    "credential",
    "errors",
    "redirects_to_https",
    "untrusted_proxy",
    "max_object",
];

impl Admin {
    /// Adds the reason for asking an origin, and the changes that help requests of this reason.
    pub(super) fn add_reason(
        &self,
        explained: &mut Value,
        explanation: &Explanation,
        policy: &Policy,
        (request, client): (&Request, Option<IpAddr>),
        (site, place, route): (usize, usize, &RouteConfig),
    ) {
        let judged = &explanation.judged;
        let audience = AUDIENCES.iter().find(|it| it.0 == judged.audience).map(|it| it.1);
        explained["tier"] = explanation.tier.name().into();
        explained["audience"] = audience.into();
        explained["credential"] = judged.credential.as_ref().map_or(Value::Null, |it| {
            let of = CREDENTIALS.iter().find(|row| row.0 == it.of).map(|row| row.1);
            json!({ "of": of, "words": it.words })
        });
        explained["max_object"] = policy.max_object.into();
        self.add_recorded(explained, explanation, (request, client));
        explained["time_limit"] = explained["failure"].as_str().and_then(|it| time_limit(it, route)).into();
        explained["reason"] = judged.reason.map(|it| it.name()).into();
        explained["set_cookie_hint"] = advice::set_cookie_hint(policy, &judged.set_cookies).into();
        let Some(reason) = judged.reason else { return };
        let live = self.live.borrow().clone();
        let ram_size = live.config.ram.budget;
        let changes = advice::changes(
            reason,
            &ChangeFacts {
                policy,
                is_public: judged.is_public && !knows_clients(route),
                parameters: analytics::parameters_of(&request.target),
                status: judged.last_status,
                set_cookies: &judged.set_cookies,
                length: judged.length,
                most_stored: self.largest_body(&live.config, policy),
                ram_size,
                ram_limit: ram_size.saturating_add(memory_left().unwrap_or(0) / 2),
                needed: self.gateway.store.needed_pages(),
                has_disk: live.config.disk.is_some(),
                full_disk: self.full_disk(),
            },
        );
        let may_be_equal = judged.is_withheld() && !judged.is_declared_private;
        let fields = judged.last_request.as_ref().unwrap_or(&request.fields).view();
        let equal = self.equal_for_all((site, place), route, &fields).filter(|_| may_be_equal);
        let is_declared_private = judged.is_declared_private || knows_clients(route);
        let equal = equal.or_else(|| self.shareable(site, route, reason).filter(|_| !is_declared_private));
        let (evidence, change) = equal.unzip();
        explained["equal"] = evidence.into();
        let (texts, places) = (self.advised_texts(), [(site, route.number)]);
        explained["changes"] =
            change.iter().chain(&changes).map(|it| advised(it, &places, texts.as_ref())).collect();
    }

    /// Adds the facts of recorded requests for the same URL: their server errors, and a proxy whose fields are ignored.
    fn add_recorded(
        &self,
        explained: &mut Value,
        explanation: &Explanation,
        (request, client): (&Request, Option<IpAddr>),
    ) {
        let judged = &explanation.judged;
        let recorded = self.recorded_for(request);
        let statuses: Vec<u64> = recorded
            .iter()
            .filter(|it| it.1["origin"].is_string())
            .filter_map(|it| it.1["status"].as_u64())
            .collect();
        let last = || judged.last_status.filter(|it| *it >= 500);
        explained["errors"] = match statuses.first() {
            Some(status) if *status >= 500 => {
                let failed = statuses.iter().filter(|it| **it >= 500).count();
                json!({ "status": status, "failed": failed, "of": statuses.len() })
            }
            Some(_) => Value::Null,
            None => last().map_or(Value::Null, |it| json!({ "status": it, "failed": 1, "of": 1 })),
        };
        explained["redirects_to_https"] = judged.redirects_to_https.into();
        explained["untrusted_proxy"] = self.untrusted_proxy(&recorded, (request, client)).into();
    }

    /// The address of a client that says `https` for a URL although it uses no TLS, and is no trusted proxy: the explained request, or a
    /// recorded one.
    fn untrusted_proxy(
        &self,
        recorded: &[(Arc<RecentRequest>, Value)],
        (request, client): (&Request, Option<IpAddr>),
    ) -> Option<String> {
        let clients = &self.live.borrow().config.clients;
        let ignored = |scheme: Scheme, fields: &FieldList, client: Option<IpAddr>| {
            let fields = fields.view();
            let says = |by| forwarded::scheme(by, &fields) == Some(Scheme::Https);
            let is_https = says(Believed::XForwardedFor) || says(Believed::Forwarded);
            client.filter(|it| scheme == Scheme::Http && is_https && !clients.trusted.has(Some(*it)))
        };
        let of_record = |it: &(Arc<RecentRequest>, Value)| {
            let client = it.1["client"].as_str().and_then(|it| it.parse().ok());
            ignored(it.0.scheme, &it.0.fields, client)
        };
        let proxy =
            ignored(request.scheme, &request.fields, client).or_else(|| recorded.iter().find_map(of_record));
        proxy.map(|it| it.to_canonical().to_string())
    }

    /// Adds the proxy whose clients larder's own redirect to `https` sends in a loop, if recorded requests show one.
    pub(super) fn add_own_redirect(
        &self,
        explained: &mut Value,
        (request, client): (&Request, Option<IpAddr>),
    ) {
        let recorded = self.recorded_for(request);
        explained["redirects_to_https"] = true.into();
        explained["untrusted_proxy"] = self.untrusted_proxy(&recorded, (request, client)).into();
    }

    /// The recorded requests for the same URL, with their records.
    fn recorded_for(&self, request: &Request) -> Vec<(Arc<RecentRequest>, Value)> {
        let recorded = self.recent.of_url(&request.authority, &request.target, MOST_RECORDED);
        recorded
            .into_iter()
            .map(|it| (it.clone(), serde_json::from_slice(&it.then).unwrap_or_default()))
            .collect()
    }
}

/// The time limit of the route that ended a request, with its line and value, by the sentence of the failure.
fn time_limit(failure: &str, route: &RouteConfig) -> Option<String> {
    let Service::Proxy(proxy) = &route.service else { return None };
    let (limits, name) = (&proxy.limits, failure.split('`').nth(1)?);
    let value = match name.strip_prefix("proxy.")? {
        "first_byte_timeout" => limits.first_byte,
        "between_bytes_timeout" => limits.between_bytes,
        "total_timeout" => limits.total,
        _ => return None,
    };
    let place = match route.decided.by(&format!("site[].route[].{name}")) {
        Source::Default => "the default".to_owned(),
        place => format!("at {place}"),
    };
    Some(format!("`site.route.{name}` ({place}) is {}", duration::spell(value)))
}

/// The field or cookies on which the reason depends.
fn credential(explained: &Value) -> Option<NamedCredential> {
    let it = &explained["credential"];
    let of = CREDENTIALS.iter().find(|row| it["of"] == row.1)?.0;
    Some(NamedCredential { of, words: it["words"].as_str()?.to_owned() })
}

/// The server errors of the URL.
fn errors(explained: &Value) -> Option<UrlErrors> {
    let it = &explained["errors"];
    let number = |key: &str| it[key].as_u64().and_then(|it| usize::try_from(it).ok());
    let status = u16::try_from(number("status")?).ok()?;
    Some(UrlErrors { status, failed: number("failed")?, of: number("of")? })
}

/// Adds the two lines; changes that must not be shown are removed. `is_by_default` says that the question named no client.
pub(super) fn add(explained: &mut Value, is_by_default: bool) {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let reason = explained["reason"].as_str().and_then(|name| REASONS.iter().find(|it| it.name == name));
    let audience =
        AUDIENCES.iter().find(|it| explained["audience"] == it.1).map_or(PageAudience::Unknown, |it| it.0);
    let failure = explained["failure"].as_str().map(str::to_owned);
    let (credential, errors) = (credential(explained), errors(explained));
    let always_fails = failure.is_some() || errors.is_some_and(|it| it.failed == it.of);
    let proxy = explained["untrusted_proxy"].as_str().map(str::to_owned);
    let refused_by = refused_by(explained, is_by_default);
    let status = explained["stored"]["status"].as_u64().and_then(|it| u16::try_from(it).ok());
    let changes = explained["changes"].as_array().cloned().unwrap_or_default();
    let (verdict, sentence) = (text(&explained["verdict"]["name"]), text(&explained["verdict"]["sentence"]));
    let (tier, freshness) = (text(&explained["tier"]), text(&explained["stored"]["freshness"]));
    let summary = advice::summarize(&ExplainedFacts {
        verdict: &verdict,
        sentence: &sentence,
        reason: reason.map(|it| it.reason),
        tier: &tier,
        freshness: &freshness,
        failure: failure.as_deref(),
        time_limit: explained["time_limit"].as_str(),
        credential: credential.as_ref(),
        errors,
        redirects_to_https: explained["redirects_to_https"] == true,
        untrusted_proxy: proxy.as_deref(),
        status,
        refused_by: refused_by.as_deref(),
        equal: explained["equal"].as_str(),
        by_access: explained["bypass"] == Bypass::Credentials.sentence(),
        audience,
        set_cookie_hint: explained["set_cookie_hint"].as_str(),
        max_object: explained["max_object"].as_u64().unwrap_or_default(),
        has_setting: changes.iter().any(|it| it["by"] == "configuration"),
    });
    let shown = if summary.shows_changes { changes } else { Vec::new() };
    let answer = match explained["access"]["name"] == "depends" && verdict != "depends" {
        true => format!(
            "If access admits the request ({}): {}",
            text(&explained["access"]["sentence"]),
            summary.answer
        ),
        false => summary.answer,
    };
    explained["summary"] = json!({
        "answer": answer, "judgement": summary.rightness.name(), "because": summary.because, "changes": shown,
        "fails": always_fails && summary.rightness == Rightness::Fault,
    });
    if let Some(it) = explained.as_object_mut() {
        FACTS.iter().for_each(|name| drop(it.shift_remove(*name)));
    }
}

/// The rule of access that refuses the request, its place, and the requests that it admits.
fn refused_by(explained: &Value, is_by_default: bool) -> Option<String> {
    if explained["verdict"]["name"] != "refused" {
        return None;
    }
    if explained["file"].is_object() {
        return Some(no_file(explained));
    }
    if let Some(it) = explained["unmatched"].as_str() {
        return Some(it.to_owned());
    }
    let access = explained["access"].as_object().filter(|it| it["name"] == "refused")?;
    let text = |key: &str| access.get(key).and_then(Value::as_str);
    let place = text("where").map_or(String::new(), |it| format!(" at {it}"));
    let admits = text("admits").map_or(String::new(), |it| format!(" It admits {it}."));
    let client = match is_by_default {
        true => {
            " The explained client is 127.0.0.1: give the address of another client to explain its request."
        }
        false => "",
    };
    Some(format!("`{}`{place} decides, before the cache.{admits}{client}", text("key")?))
}

/// The key that decides that no file answers, its place, and the directory.
fn no_file(explained: &Value) -> String {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let (file, status) = (&explained["file"], &explained["verdict"]["status"]);
    if *status == 405 {
        return "No key admits another method for a file.".to_owned();
    }
    let place = file["where"].as_str().map_or(String::new(), |it| format!(" at {it}"));
    let directory = text(&file["root"]);
    format!(
        "`{}`{place} decides. The directory is {directory}: add the file there, or change the key.",
        text(&file["key"])
    )
}
