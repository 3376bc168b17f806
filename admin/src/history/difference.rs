//! `GET /api/v1/history/difference` and `GET /api/v1/worst`: a time range of the history against the time of the same length before it, and
//! the slow and failed requests.

use super::minutes::{ERRORS, FIGURES, MINUTES, ORIGIN_MICROS, RangeSums, RouteRange};
use crate::{Admin, AdminRequest, AdminResponse, problem_at};
use larder_observe::ids::RequestId;
use larder_observe::worst::{TEXTS, WorstRequest};
use larder_stdx::clock;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most routes and URLs of a difference.
const ROWS: usize = 64;
/// The most slow, and failed, requests of a difference.
const REQUESTS: usize = 20;

/// A slow or failed request.
macro_rules! request {
    () => {
        r#"{"type":"object","required":["id","at","method","url","route","status","broken","duration_us","origin_us","cache","reason","origin","request_id","failure"],"properties":{
"id":{"type":"string"},"at":{"type":"integer","description":"its end, Unix time"},"method":{"type":"string"},"url":{"type":"string","description":"without the values of secret parameters, at most 320 bytes"},
"route":{"type":"string"},"status":{"type":"integer","description":"0 if none was sent"},"broken":{"type":"boolean","description":"the origin broke the response off"},"duration_us":{"type":"integer"},"origin_us":{"type":"integer"},
"cache":{"type":"string"},"reason":{"type":"string"},"origin":{"type":"string"},"request_id":{"type":"string","description":"the identifier of its field, if it has one"},"failure":{"type":"string","description":"why the origin gave no valid response; empty if it gave one"}}}"#
    };
}

/// Two numbers of a range and of the time before it.
macro_rules! figures {
    () => {
        r#"{"type":"object","required":["requests","errors_5xx","errors_4xx","hits","misses","passes","origin_requests","origin_us"],"additionalProperties":{"type":"integer"}}"#
    };
}

/// The response of the slow and failed requests.
pub const WORST: &str = concat!(
    r#"{"type":"object","required":["now","slow","failed"],"properties":{"now":{"type":"integer"},
"slow":{"type":"array","description":"the slowest 100 of a day, the slowest first","items":"#,
    request!(),
    r#"},"failed":{"type":"array","description":"the latest 30 with a status of 500 to 599, and before them one or two of each route and minute, the latest first","items":"#,
    request!(),
    "}}}"
);

/// The response of the comparison.
pub const DIFFERENCE: &str = concat!(
    r#"{"type":"object","required":["from","to","kept_from","now","before","routes","urls","slow","failed"],"properties":{
"from":{"type":"integer","description":"the range in whole minutes, Unix time"},"to":{"type":"integer"},
"kept_from":{"type":["integer","null"],"description":"the beginning of the oldest minute with routes and URLs; null before the first"},
"now":{"type":"object","required":["seconds"],"properties":{"seconds":{"type":"integer","description":"of the range that have figures"}}},
"before":{"type":"object","required":["seconds"],"properties":{"seconds":{"type":"integer","description":"of the time before it"}}},
"routes":{"type":"array","description":"the routes that differ most to the worse first","items":{"type":"object","required":["name","now","before","reasons"],"properties":{"name":{"type":"string"},"now":"#,
    figures!(),
    r#","before":"#,
    figures!(),
    r#","reasons":{"type":"array","items":{"type":"object","required":["reason","now","before","origin_us"],"properties":{
"reason":{"type":"string"},"now":{"type":"integer"},"before":{"type":"integer"},"origin_us":{"type":"integer"}}}}}}},
"urls":{"type":"array","description":"those with the most additional requests and misses first","items":{"type":"object","required":["url","now","before","misses","misses_before"],"properties":{
"url":{"type":"string"},"now":{"type":"integer"},"before":{"type":"integer"},"misses":{"type":"integer"},"misses_before":{"type":"integer"}}}},
"slow":{"type":"array","items":"#,
    request!(),
    r#"},"failed":{"type":"array","items":"#,
    request!(),
    "}}}"
);

impl Admin {
    /// `GET /api/v1/worst`.
    pub(crate) fn worst(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let since = number(asked, "since").unwrap_or(0);
        let until = number(asked, "until").unwrap_or(u64::MAX);
        let (slow, failed) = self.history.worst.lists();
        let is_within = |it: &&Arc<WorstRequest>| (since..=until).contains(&it.request.at);
        let of = |all: &[Arc<WorstRequest>]| {
            all.iter().filter(is_within).map(|it| to_json(it)).collect::<Vec<_>>()
        };
        AdminResponse::Json(200, json!({ "now": clock::wall().0, "slow": of(&slow), "failed": of(&failed) }))
    }

    /// The question of `explain` for one of the worst requests, of which method and URL are kept.
    pub(crate) fn worst_question(&self, id: RequestId) -> Option<Value> {
        let (slow, failed) = self.history.worst.lists();
        let id = id.to_string();
        let it = slow.into_iter().chain(failed).find(|it| it.text("id") == id)?;
        Some(json!({ "url": it.text("url").trim_end_matches('…'), "method": it.text("method") }))
    }

    /// `GET /api/v1/history/difference`.
    pub(crate) fn history_difference(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        self.update_history();
        let (from, to) =
            (number(asked, "from").unwrap_or(0), number(asked, "to").unwrap_or_else(|| clock::wall().0));
        if to <= from || to - from > 60 * MINUTES as u64 {
            let detail = "The range is from a time to a later one, of at most 6 hours.";
            return problem_at(400, detail, "to");
        }
        let history = self.history.history.borrow();
        let minutes = &history.minutes;
        let (from, to) = minutes.whole_minutes(from, to);
        let (now, before) = (minutes.range(from, to), minutes.range(from.saturating_sub(to - from), from));
        let (slow, failed) = self.history.worst.lists();
        // A request belongs to the second of its end.
        let is_within = |it: &&Arc<WorstRequest>| it.request.at >= from && it.request.at <= to;
        let some = |all: &[Arc<WorstRequest>]| {
            all.iter().filter(is_within).take(REQUESTS).map(|it| to_json(it)).collect::<Vec<_>>()
        };
        AdminResponse::Json(
            200,
            json!({
                "from": from, "to": to, "kept_from": minutes.begin(),
                "now": { "seconds": now.millis / 1000 }, "before": { "seconds": before.millis / 1000 },
                "routes": routes(&now, &before), "urls": urls(&now, &before),
                "slow": some(&slow), "failed": some(&failed),
            }),
        )
    }
}

fn number(asked: &AdminRequest<'_>, name: &str) -> Option<u64> {
    asked.query_value(name)?.parse().ok()
}

fn to_json(it: &WorstRequest) -> Value {
    let request = &it.request;
    let mut all = Map::new();
    for (name, text) in TEXTS.iter().zip(&request.texts) {
        all.insert((*name).to_owned(), text.as_str().into());
    }
    for (name, value) in [
        ("at", request.at),
        ("status", it.status().into()),
        ("duration_us", request.micros),
        ("origin_us", request.origin_micros),
    ] {
        all.insert(name.to_owned(), value.into());
    }
    all.insert("broken".to_owned(), it.is_broken().into());
    all.into()
}

/// A count of the time before, in the time of the range.
fn scaled(count: u64, of: &RangeSums, to: &RangeSums) -> f64 {
    if of.millis == 0 { 0.0 } else { count as f64 * to.millis as f64 / of.millis as f64 }
}

/// By how much a route is worse: ten for each additional server error, one for each additional second of its origin, a thousandth for each
/// additional request.
fn worse(it: &RouteRange, before: &RouteRange, sums: (&RangeSums, &RangeSums)) -> f64 {
    let by = |at: usize| it.values[at] as f64 - scaled(before.values[at], sums.1, sums.0);
    10.0 * by(ERRORS) + by(ORIGIN_MICROS) / 1e6 + by(0) / 1e3
}

fn routes(now: &RangeSums, before: &RangeSums) -> Vec<Value> {
    let none = RouteRange::default();
    let names: BTreeSet<&String> = now.routes.keys().chain(before.routes.keys()).collect();
    let mut all: Vec<(f64, &str, &RouteRange, &RouteRange)> = names
        .into_iter()
        .map(|name| {
            let (a, b) = (now.routes.get(name).unwrap_or(&none), before.routes.get(name).unwrap_or(&none));
            (worse(a, b, (now, before)), name.as_str(), a, b)
        })
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(ROWS);
    let figures = |it: &RouteRange| -> Value {
        FIGURES
            .iter()
            .zip(it.values)
            .map(|(name, value)| ((*name).to_owned(), Value::from(value)))
            .collect::<Map<_, _>>()
            .into()
    };
    all.into_iter()
        .map(|(_, name, a, b)| {
            json!({ "name": name, "now": figures(a), "before": figures(b), "reasons": reasons(a, b) })
        })
        .collect()
}

fn reasons(now: &RouteRange, before: &RouteRange) -> Vec<Value> {
    let names: BTreeSet<&String> = now.reasons.keys().chain(before.reasons.keys()).collect();
    let mut all: Vec<(&str, (u64, u64), u64)> = names
        .into_iter()
        .map(|name| {
            let of = |it: &RouteRange| it.reasons.get(name).copied().unwrap_or_default();
            (name.as_str(), of(now), of(before).0)
        })
        .collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.1.0.abs_diff(it.2)));
    all.into_iter()
        .map(|(name, (requests, micros), then)| {
            json!({ "reason": name, "now": requests, "before": then, "origin_us": micros })
        })
        .collect()
}

fn urls(now: &RangeSums, before: &RangeSums) -> Vec<Value> {
    let mut all: Vec<(f64, Value)> = now
        .urls
        .iter()
        .map(|(url, (requests, misses))| {
            let then = before.urls.get(url).copied().unwrap_or_default();
            let more = |it: u64, then: u64| it as f64 - scaled(then, before, now);
            let by = more(*requests, then.0) + 4.0 * more(*misses, then.1);
            let row = json!({
                "url": url, "now": requests, "before": then.0, "misses": misses, "misses_before": then.1,
            });
            (by, row)
        })
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(ROWS);
    all.into_iter().map(|it| it.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(millis: u64, routes: &[(&str, u64, u64, u64)]) -> RangeSums {
        let mut sums = RangeSums { millis, ..RangeSums::default() };
        for (name, requests, errors, micros) in routes {
            let mut route = RouteRange::default();
            (route.values[0], route.values[ERRORS], route.values[ORIGIN_MICROS]) =
                (*requests, *errors, *micros);
            route.reasons.insert("expired".to_owned(), (*requests, *micros));
            sums.routes.insert((*name).to_owned(), route);
            sums.urls.insert(format!("http://{name}/"), (*requests, *errors));
        }
        sums
    }

    #[track_caller]
    fn check(now: &[(&str, u64, u64, u64)], before: &[(&str, u64, u64, u64)], expect: &[&str]) {
        let rows = routes(&range(60_000, now), &range(120_000, before));
        let names: Vec<&str> = rows.iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(expect, names);
    }

    #[test]
    fn the_faulty_route_is_the_first() {
        let usual = [("busy", 20_000, 0, 0), ("small", 200, 0, 100_000)];
        check(&[("busy", 12_000, 0, 0), ("small", 100, 30, 50_000)], &usual, &["small", "busy"]);
        check(&[("busy", 10_000, 0, 0), ("small", 100, 0, 90_000_000)], &usual, &["small", "busy"]);
        check(&[("busy", 19_000, 0, 0), ("small", 100, 0, 50_000)], &usual, &["busy", "small"]);
        check(&[("busy", 10_000, 0, 0)], &[("gone", 900, 100, 0)], &["busy", "gone"]);
        check(&[("new", 10, 1, 0)], &[], &["new"]);
    }

    #[test]
    fn urls_and_reasons_have_both_times() {
        let (now, before) =
            (range(60_000, &[("a", 50, 5, 7)]), range(60_000, &[("a", 20, 1, 7), ("b", 9, 0, 0)]));
        let urls = urls(&now, &before);
        assert_eq!(
            json!([{ "url": "http://a/", "now": 50, "before": 20, "misses": 5, "misses_before": 1 }]),
            json!(urls)
        );
        let rows = routes(&now, &before);
        assert_eq!(
            json!([{ "reason": "expired", "now": 50, "before": 20, "origin_us": 7 }]),
            rows[0]["reasons"]
        );
    }
}
