//! The conditions of requests that fail or are refused apart from a route's share: limits of clients, a change of the configuration, single URLs,
//! origins that disagree, and a start that would fail.

use super::condition::{Beginning, Condition, ERRORS_REQUESTS, condition};
use super::current_conditions::CurrentConditions;
use super::facts::{CountFacts, DisagreeingFact, FailingUrlFact, StateFacts};
use super::table::{CLIENT_LIMITS, ClientLimitRow, FindingKind, LimitUnit};
use super::{ChangedRefusals, Minute};

/// Refused requests as a multiple of those before a change of the configuration; and the one below which that ends.
const TIMES: (u64, u64) = (4, 2);

pub(super) fn refusals(
    facts: &StateFacts,
    minute: &Minute<'_>,
    held: &CurrentConditions,
    all: &mut Vec<Condition>,
) {
    let limits = CLIENT_LIMITS.iter().zip(minute.counts.client_limits).zip(facts.client_limits);
    all.extend(limits.filter_map(|((row, times), value)| limit(row, times, value, minute.counts.requests)));
    all.extend(minute.change.and_then(|it| after_change(facts, it, held)));
    all.extend(facts.failing_urls.iter().map(failing_url));
    all.extend(facts.disagreeing.iter().map(disagreement));
    if let Some(it) = &facts.next_start {
        let found = condition(
            FindingKind::StartWouldFail,
            "next start",
            "the next start of larder would fail",
            &*it.why,
        );
        all.push(found.with_effect("the running configuration stays in force").begun(Beginning::At(it.at)));
    }
}

/// All requests that larder refused: by `access`, as invalid, or at a limit of clients.
pub(super) fn all(counts: &CountFacts) -> u64 {
    counts.client_limits.iter().fold(counts.refused, |sum, it| sum.wrapping_add(*it))
}

/// Clients are refused at a limit.
fn limit(row: &ClientLimitRow, times: u64, value: u64, requests: u64) -> Option<Condition> {
    if times < ERRORS_REQUESTS || times.saturating_mul(100) < requests.saturating_mul(row.share) {
        return None;
    }
    let own = format!("`{}` ({})", row.key, shown(value, row.unit));
    let evidence = format!("{times} times within the last minute");
    let proposal = format!("set `{}` to {} or more", row.key, shown(value.saturating_mul(2), row.unit));
    let (what, effect) = match row.other {
        "" => (format!("{} {own}", row.event), proposal),
        other => (
            format!("{} {other}, or than {own} where it has none", row.event),
            format!("raise that of the route, or {proposal},"),
        ),
    };
    let effect = format!("{effect} if these are visitors");
    let found = condition(FindingKind::LimitRefusesClients, row.counter, what, evidence).with_effect(effect);
    let status = match row.key {
        "limits.head_size" => 431,
        "limits.target_size" => 414,
        "limits.body_size" => 413,
        "limits.body_timeout" => 408,
        _ => return Some(found),
    };
    Some(found.seen_at(format!("live?filter=status == {status}")))
}

/// A value as in the configuration.
fn shown(value: u64, unit: LimitUnit) -> String {
    match unit {
        LimitUnit::Number => value.to_string(),
        LimitUnit::Millis if value.is_multiple_of(1000) => format!("{}s", value / 1000),
        LimitUnit::Millis => format!("{value}ms"),
        LimitUnit::Bytes if value > 0 && value.is_multiple_of(1 << 20) => format!("{}MiB", value >> 20),
        LimitUnit::Bytes if value > 0 && value.is_multiple_of(1 << 10) => format!("{}KiB", value >> 10),
        LimitUnit::Bytes => format!("{value}B"),
    }
}

/// Far more requests are refused than before the configuration changed.
fn after_change(facts: &StateFacts, it: ChangedRefusals, held: &CurrentConditions) -> Option<Condition> {
    const SUBJECT: &str = "refusals after a change";
    let change = facts.changed.as_ref()?;
    let times = if held.of(SUBJECT).is_some() { TIMES.1 } else { TIMES.0 };
    if it.after < ERRORS_REQUESTS || it.after < it.before.saturating_mul(times) {
        return None;
    }
    let what = "larder refuses more requests than before the configuration changed";
    let evidence =
        format!("{} within the last minute, {} within the minute before the change", it.after, it.before);
    let found = condition(FindingKind::RefusalsAfterChange, SUBJECT, what, evidence);
    Some(found.with_effect(format!("changed: {}", change.why)).begun(Beginning::At(change.at)))
}

/// The subject of a URL that fails.
pub(super) fn url_subject(url: &str) -> String {
    format!("url {url}")
}

fn failing_url(it: &FailingUrlFact) -> Condition {
    let what = format!("every request for {} fails", it.url);
    let evidence = format!("{0} of {0} recent ones, with {1}", it.requests, it.status);
    let effect = format!("route {} answers its other requests", it.route);
    let found = condition(FindingKind::UrlFails, &url_subject(&it.url), what, evidence);
    found.with_effect(effect).seen_at(format!("live?filter=route == {:?} && status >= 500", it.route))
}

fn disagreement(it: &DisagreeingFact) -> Condition {
    let what = format!("origins of route {} disagree", it.route);
    let evidence = format!(
        "{} lets {} be shared, {} forbids it; {} and {} recent responses",
        it.shares.0, it.url, it.forbids.0, it.shares.1, it.forbids.1
    );
    let found =
        condition(FindingKind::OriginsDisagree, &format!("origins of route {}", it.route), what, evidence);
    let view = format!("overview?origin={},{}", it.shares.0, it.forbids.0);
    found.with_effect("whether a client gets a shared page depends on the origin").seen_at(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_in_the_configuration() {
        for (value, unit, expect) in [
            (2048, LimitUnit::Bytes, "2KiB"),
            (1500, LimitUnit::Bytes, "1500B"),
            (64 << 20, LimitUnit::Bytes, "64MiB"),
            (0, LimitUnit::Bytes, "0B"),
            (10_000, LimitUnit::Millis, "10s"),
            (100, LimitUnit::Millis, "100ms"),
            (128, LimitUnit::Number, "128"),
        ] {
            assert_eq!(expect, shown(value, unit));
        }
    }

    #[test]
    fn refused_requests_are_those_of_all_kinds() {
        let mut counts = CountFacts { refused: 3, ..CountFacts::default() };
        counts.client_limits[0] = 4;
        assert_eq!(7, all(&counts));
    }
}
