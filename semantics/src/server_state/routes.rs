//! The conditions of single routes: errors, refused requests, redirect loops, maintenance, and routes without requests.

use super::condition::{Beginning, Condition, ERRORS, ERRORS_REQUESTS, SERVER_ERRORS, condition, list};
use super::current_conditions::CurrentConditions;
use super::facts::{FailingUrlFact, RouteCountFact, StateFacts};
use super::refusals::url_subject;
use super::table::FindingKind;
use super::{Minute, RouteCounts};

/// The fewest redirects of a route to the URL of their request within a minute.
const LOOPS: u64 = 10;
/// The share of requests that `access` refuses, per cent; and the one below which that ends. More than half: some clients send each request
/// without credentials first, and again with them.
const REFUSED: (u64, u64) = (60, 40);

/// The share of errors of a route, per cent; and the one below which that ends.
const FAILED: (u64, u64) = (50, 40);

pub(super) fn routes(
    facts: &StateFacts,
    minute: &Minute<'_>,
    held: &CurrentConditions,
    all: &mut Vec<Condition>,
) {
    // That of all routes names those with errors.
    let is_named = all.iter().any(|it| it.subject == SERVER_ERRORS);
    for (fact, it) in facts.troubled.iter().zip(minute.routes) {
        let of_route = facts.routes.iter().find(|it| it.name == fact.name);
        let answers = |it: &usize| facts.origins[*it].is_used || facts.origins[*it].is_answering;
        let has_origin = of_route.is_none_or(|it| it.origins.iter().any(answers));
        let found = failing(fact, it, held, &facts.failing_urls).filter(|_| !is_named && has_origin);
        if found.as_ref().is_some_and(|it| held.is_settled(it, facts.at)) {
            // One sentence for one cause.
            all.retain(|it| {
                it.kind != FindingKind::UrlFails
                    || !facts
                        .failing_urls
                        .iter()
                        .any(|url| url.route == fact.name && it.subject == url_subject(&url.url))
            });
        }
        all.extend(found);
        all.extend(rejecting(fact, it, held));
        all.extend(limited(fact, it));
        all.extend(refused(fact, it, held));
        all.extend(redirect_loop(fact, it));
    }
    if let Some(why) = &facts.root {
        let what = "larder runs as root without `user`";
        let found = condition(FindingKind::RunsAsRoot, "root", what, why.as_str());
        let effect = "a fault in it, or in a program that it runs, has every right on this machine";
        all.push(found.with_effect(effect).begun(Beginning::Unstated));
    }
    for it in &facts.maintenance {
        let names: Vec<&str> = it.routes.iter().map(String::as_str).collect();
        let effect = match it.admits_some {
            true => "their requests get 503, except from the clients of `maintenance.allow`",
            false => "their requests get 503",
        };
        let what = format!("maintenance is on for {}", list(&names));
        let subject = format!("maintenance of {}", it.routes.join(" "));
        let found = condition(FindingKind::MaintenanceOn, &subject, what, &*it.at);
        all.push(found.with_effect(effect).seen_at(format!("config?at={}", it.at)));
    }
    for it in &facts.unreachable {
        let what = format!("route {} at {} gets no request", it.route, it.at);
        let found = condition(
            FindingKind::RouteUnreachable,
            &format!("route {} at {}", it.route, it.at),
            what,
            &*it.why,
        );
        all.push(found.begun(Beginning::Unstated).seen_at(format!("config?at={}", it.at)));
    }
}

/// The requests of a route with a condition, in the view Live.
fn live(route: &str, filter: &str) -> String {
    format!("live?filter=route == {route:?} && {filter}")
}

/// Whether `some` of the requests of a route is most of them. Fewer end a condition than begin it.
fn is_most(requests: u32, some: u64, is_held: bool) -> bool {
    let (least, share) = if is_held { (1, FAILED.1) } else { (ERRORS_REQUESTS, FAILED.0) };
    some >= least && some * 100 >= u64::from(requests) * share
}

/// Most responses are server errors.
fn failing(
    fact: &RouteCountFact,
    it: &RouteCounts,
    held: &CurrentConditions,
    failing_urls: &[FailingUrlFact],
) -> Option<Condition> {
    let subject = format!("errors of route {}", fact.name);
    if !is_most(it.requests, it.errors_5xx.into(), held.of(&subject).is_some()) {
        return None;
    }
    let what = format!("most responses of route {} are server errors", fact.name);
    let evidence = format!("{} of {} within the last minute", it.errors_5xx.min(it.requests), it.requests);
    let urls = failing_urls.iter().filter(|it| it.route == fact.name).map(|it| &*it.url).collect::<Vec<_>>();
    let failure = Some(format!("its last failure: {}", fact.failure)).filter(|_| !fact.failure.is_empty());
    let urls = (!urls.is_empty()).then(|| format!("every request for {} fails", list(&urls)));
    let effect: Vec<String> = [urls, failure].into_iter().flatten().collect();
    let found = condition(FindingKind::RouteFails, &subject, what, evidence).with_effect(effect.join("; "));
    let share = u64::from(it.errors_5xx) * 100 / u64::from(it.requests.max(1));
    Some(found.weighing(share).seen_at(live(&fact.name, "status >= 500")))
}

/// Most responses have a status of 400 to 499 for another reason than `access`. Purges that the configuration refuses are left out.
fn rejecting(fact: &RouteCountFact, it: &RouteCounts, held: &CurrentConditions) -> Option<Condition> {
    let subject = format!("client errors of route {}", fact.name);
    let requests = it.requests.saturating_sub(it.purges_refused);
    let count =
        [it.refused, it.limited, it.purges_refused].into_iter().fold(it.errors_4xx, u32::saturating_sub);
    if !is_most(requests, count.into(), held.of(&subject).is_some()) {
        return None;
    }
    let what = format!("most responses of route {} have a status of 400 to 499", fact.name);
    let evidence = format!("{} of {requests} within the last minute", count.min(requests));
    let found = condition(FindingKind::RouteRejects, &subject, what, evidence);
    Some(found.seen_at(live(&fact.name, "status >= 400 && status < 500")))
}

/// Most requests are refused at a limit.
fn limited(fact: &RouteCountFact, it: &RouteCounts) -> Option<Condition> {
    if u64::from(it.limited) < ERRORS_REQUESTS || it.limited.saturating_mul(2) < it.requests {
        return None;
    }
    let what = format!("route {} refuses most requests with 429", fact.name);
    let evidence = format!("{} of {} within the last minute", it.limited.min(it.requests), it.requests);
    let found =
        condition(FindingKind::RouteLimited, &format!("limit of route {}", fact.name), what, evidence);
    let effect = if fact.limits.is_empty() { String::new() } else { format!("its limits: {}", fact.limits) };
    Some(found.with_effect(effect).seen_at(live(&fact.name, "status == 429")))
}

/// Most requests are refused by address, condition or credentials.
fn refused(fact: &RouteCountFact, it: &RouteCounts, held: &CurrentConditions) -> Option<Condition> {
    let subject = format!("access of route {}", fact.name);
    let (requests, refused) = (u64::from(it.requests), u64::from(it.refused));
    let (least, share) = match held.of(&subject) {
        Some(_) => (1, REFUSED.1),
        None => (ERRORS_REQUESTS, REFUSED.0),
    };
    if refused < least || refused * 100 < requests * share {
        return None;
    }
    let what = format!("route {} refuses most requests with 401 or 403", fact.name);
    let evidence = format!("{} of {requests} within the last minute", refused.min(requests));
    let found = condition(FindingKind::RouteRefused, &subject, what, evidence);
    let effect =
        if fact.rules.is_empty() { String::new() } else { format!("its {} refuses them", fact.rules) };
    Some(found.with_effect(effect).seen_at(live(&fact.name, "(status == 401 || status == 403)")))
}

/// The origin redirects requests to their own URL: those of several clients, or of one browser that has given up (after 20).
fn redirect_loop(fact: &RouteCountFact, it: &RouteCounts) -> Option<Condition> {
    if u64::from(it.loops) < LOOPS || u64::from(it.loops) * 100 < u64::from(it.requests) * ERRORS {
        return None;
    }
    let what = format!("the origin of route {} redirects requests to their own URL", fact.name);
    let evidence = format!("{} of {} within the last minute", it.loops.min(it.requests), it.requests);
    let found =
        condition(FindingKind::RedirectLoop, &format!("redirects of route {}", fact.name), what, evidence);
    Some(
        found
            .with_effect("clients never get these pages")
            .seen_at(live(&fact.name, "reason == \"redirect-loop\"")),
    )
}
