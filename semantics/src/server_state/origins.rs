//! The conditions of origins: down, more server errors than the others of their routes, or slower.

use super::Minute;
use super::condition::{Condition, ERRORS_REQUESTS, condition, list};
use super::current_conditions::CurrentConditions;
use super::facts::{OriginAnswers, OriginFact, StateFacts};
use super::table::FindingKind;
use std::collections::HashMap;

/// The share of server errors of one origin, per cent; and the one below which that ends.
const ERRORS: (u64, u64) = (20, 10);
/// The same where the other origins have too few answers for a comparison.
const ERRORS_ALONE: (u64, u64) = (50, 40);
/// That share as a multiple of the share of the other origins.
const ERRORS_TIMES: (u64, u64) = (3, 2);
/// The mean time to the head of a response as a multiple of that of the other origins; and the one below which that ends.
const SLOW_TIMES: (u64, u64) = (4, 2);
/// The least mean time of a slow origin, microseconds.
const SLOW: (u64, u64) = (200_000, 100_000);

/// Requests that wait 100 ms or longer for a slot within a minute; and the number below which that ends. At one in a hundred, that is the 99th
/// percentile.
const WAITS: (u64, u64) = (20, 10);

pub(super) fn origins(
    facts: &StateFacts,
    minute: &Minute<'_>,
    held: &CurrentConditions,
    all: &mut Vec<Condition>,
) {
    // By their routes: origins of different routes have different requests, hence different errors and times.
    let mut routes_of = vec![Vec::new(); facts.origins.len()];
    for (number, route) in facts.routes.iter().enumerate() {
        let mut own = route.origins.clone();
        own.sort_unstable();
        own.dedup();
        for at in own {
            if let Some(routes) = routes_of.get_mut(at) {
                routes.push(number);
            }
        }
    }
    let mut groups = HashMap::<&[usize], Vec<usize>>::new();
    for (at, routes) in routes_of.iter().enumerate() {
        groups.entry(routes).or_default().push(at);
    }
    for (at, origin) in facts.origins.iter().enumerate() {
        let routes = &routes_of[at];
        if origin.is_down {
            all.extend(down(facts, origin, routes));
            continue;
        }
        all.extend(queued(origin, &minute.origins[at], held));
        let group = &groups[&routes[..]];
        if !origin.is_used || routes.is_empty() {
            continue;
        }
        if group.len() < 2 {
            // The others have more routes: only their time for this one is comparable.
            let own = minute.origins[at];
            all.extend(slow(facts, routes, (origin, &own), &[own.of_others()], held));
            continue;
        }
        let others: Vec<OriginAnswers> = group
            .iter()
            .filter(|it| **it != at && facts.origins[**it].is_used)
            .map(|it| minute.origins[*it])
            .collect();
        all.extend(failing(facts, routes, (origin, &minute.origins[at]), &others, held));
        all.extend(slow(facts, routes, (origin, &minute.origins[at]), &others, held));
    }
}

/// The view with the row of an origin marked.
fn row_of(origin: &OriginFact) -> String {
    format!("overview?origin={}", origin.name)
}

/// The names of routes, such as `route shop/` or `routes a/, b/`.
fn named(facts: &StateFacts, routes: &[usize]) -> String {
    let names: Vec<&str> = routes.iter().map(|it| &*facts.routes[*it].name).collect();
    format!("{} {}", if names.len() == 1 { "route" } else { "routes" }, list(&names))
}

fn down(facts: &StateFacts, origin: &OriginFact, routes: &[usize]) -> Option<Condition> {
    let origins_of = |it: &usize| facts.routes[*it].origins.iter().filter_map(|it| facts.origins.get(*it));
    let names_of = |routes: &[usize], is: fn(&OriginFact) -> bool| {
        let mut names: Vec<&str> =
            routes.iter().flat_map(origins_of).filter(|it| is(it)).map(|it| &*it.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let without: Vec<usize> =
        routes.iter().copied().filter(|it| !origins_of(it).any(|it| it.is_used)).collect();
    let drained = names_of(&without, |it| it.is_drained);
    let remedy = match drained.len() {
        0 => String::new(),
        1 => format!("; origin {} is drained: restore it", drained[0]),
        _ => format!("; origins {} are drained: restore them", list(&drained)),
    };
    let names: Vec<&str> = without.iter().map(|it| &*facts.routes[*it].name).collect();
    let used = || list(&names_of(routes, |it| it.is_used));
    let (kind, effect) = match (without.len(), routes.len()) {
        (_, 0) => return None,
        (0, 1) => (FindingKind::OriginDown, format!("its route uses {}", used())),
        (0, some) => (FindingKind::OriginDown, format!("its {some} routes use {}", used())),
        (some, _) => {
            let have = if some == 1 { "1 route has".to_owned() } else { format!("{some} routes have") };
            let effect = format!("{have} no other origin in use ({}){remedy}", list(&names));
            match origin.is_answering {
                true => {
                    (FindingKind::OriginDown, format!("{effect}; it still gets requests, and answers them"))
                }
                false => (FindingKind::NoOrigin, effect),
            }
        }
    };
    let OriginFact { name, why, .. } = origin;
    let subject = format!("origin {name}");
    let found = condition(kind, &subject, format!("origin {name} is down"), why).with_effect(effect);
    Some(found.seen_at(row_of(origin)))
}

/// Requests that wait for a slot of `proxy.connections`.
fn queued(origin: &OriginFact, own: &OriginAnswers, held: &CurrentConditions) -> Option<Condition> {
    let subject = format!("queue of origin {}", origin.name);
    let least = if held.of(&subject).is_some() { WAITS.1 } else { WAITS.0 };
    if own.waits < least || own.waits * 100 < own.all {
        return None;
    }
    let what = format!("requests wait for a slot of origin {}", origin.name);
    let share = (own.waits * 100).checked_div(own.all).unwrap_or(100).min(100);
    let evidence =
        format!("{} within the last minute waited 100 ms or longer, {share} % of its answers", own.waits);
    let found = condition(FindingKind::OriginQueue, &subject, what, evidence);
    Some(found.with_effect(&*origin.limit).seen_at(row_of(origin)))
}

/// Server errors of one origin that the others of its routes do not have.
fn failing(
    facts: &StateFacts,
    routes: &[usize],
    (origin, own): (&OriginFact, &OriginAnswers),
    others: &[OriginAnswers],
    held: &CurrentConditions,
) -> Option<Condition> {
    let subject = format!("errors of origin {}", origin.name);
    let is_held = held.of(&subject).is_some();
    let of = |(begins, ends): (u64, u64)| if is_held { ends } else { begins };
    let (answers, errors) = others.iter().fold((0, 0), |sum, it| (sum.0 + it.all, sum.1 + it.errors_5xx));
    let is_alone = answers < ERRORS_REQUESTS;
    let least = of(if is_alone { ERRORS_ALONE } else { ERRORS });
    let is_more = is_alone || own.errors_5xx * answers >= of(ERRORS_TIMES) * errors * own.all;
    if own.all == 0
        || !is_held && own.all < ERRORS_REQUESTS
        || own.errors_5xx * 100 < own.all * least
        || !is_more
    {
        return None;
    }
    let share = |errors: u64, all: u64| errors.min(all) * 100 / all;
    let what = format!(
        "origin {} answers {} % of its requests with server errors",
        origin.name,
        share(own.errors_5xx, own.all)
    );
    let others = match is_alone {
        true => String::new(),
        false => format!("; {} % at the other origins", share(errors, answers)),
    };
    let evidence = format!("{} of {} within the last minute{others}", own.errors_5xx, own.all);
    let effect = format!("it still gets requests of {}", named(facts, routes));
    let found = condition(FindingKind::OriginErrors, &subject, what, evidence);
    Some(found.with_effect(effect).seen_at(row_of(origin)))
}

/// An origin that is far slower than the others of its routes.
fn slow(
    facts: &StateFacts,
    routes: &[usize],
    (origin, own): (&OriginFact, &OriginAnswers),
    others: &[OriginAnswers],
    held: &CurrentConditions,
) -> Option<Condition> {
    let subject = format!("time of origin {}", origin.name);
    let is_held = held.of(&subject).is_some();
    let of = |(begins, ends): (u64, u64)| if is_held { ends } else { begins };
    let is_enough = |it: &&OriginAnswers| it.all >= ERRORS_REQUESTS;
    let mut means: Vec<u64> = others.iter().filter(is_enough).map(|it| it.micros / it.all).collect();
    means.sort_unstable();
    let usual = *means.get(means.len().saturating_sub(1) / 2)?;
    let mean = own.micros.checked_div(own.all)?;
    if !is_enough(&own) || mean < of(SLOW) || mean < usual.saturating_mul(of(SLOW_TIMES)) {
        return None;
    }
    let millis = |it: u64| format!("{} ms", it.div_ceil(1000));
    let what = format!("origin {} is slower than the other origins of {}", origin.name, named(facts, routes));
    let evidence = format!(
        "{} to a response on average within the last minute; {} at the others",
        millis(mean),
        millis(usual)
    );
    Some(condition(FindingKind::OriginSlow, &subject, what, evidence).seen_at(row_of(origin)))
}
