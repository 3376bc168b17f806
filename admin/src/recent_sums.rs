//! The sums of a minute ago: from them and from those of now, a page that has just been opened shows the figures of the same minute as
//! the state.

use super::{Admin, AdminRequest, AdminResponse, compressed, stats};
use larder_counters::Counters;
use larder_gateway::coding::codec::{decode, encode};
use larder_semantics::coding::Coding;
use larder_server::live::Live;
use larder_stdx::clock;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Milliseconds between two kept readings: each takes about 20 microseconds for a route.
const STEP: u64 = 10_000;
/// The age of the reading that is requested, milliseconds.
const AGE: u64 = 60_000;
/// The kept readings: one that is older than the age, and those after it.
const KEPT: usize = 7;
/// The most bytes of a reading, about a thousand routes: without it, figures begin when the page is opened.
const MOST: usize = 1 << 20;

/// `GET /api/v1/stats/minute`.
pub const MINUTE_AGO: &str = r#"{"type":"object","description":"the sums of a minute ago, each as in GET /api/v1/stats with detail=routes","required":["now_us","counters","latency","totals","routes","tiers","origins","saved"],"properties":{
"now_us":{"type":"integer","description":"the time of these sums"},"counters":{"type":"object","additionalProperties":{"type":"integer"}},
"latency":{"type":"object","additionalProperties":true},"totals":{"type":"object","additionalProperties":true},
"routes":{"type":"array","items":{"type":"object","additionalProperties":true}},"tiers":{"type":"array","items":{"type":"object","additionalProperties":true}},
"origins":{"type":"array","items":{"type":"object","additionalProperties":true}},"saved":{"type":"object","additionalProperties":true}}}"#;

/// The sums at one time.
struct KeptSums {
    /// Milliseconds since the start.
    at: u64,
    /// JSON in gzip; empty if there was too much.
    coded: Vec<u8>,
}

/// The readings of the last minute. Of the main thread.
#[derive(Default)]
pub struct RecentSums(RefCell<VecDeque<KeptSums>>);

impl RecentSums {
    fn is_due(&self, now: u64) -> bool {
        self.0.borrow().back().is_none_or(|it| now.saturating_sub(it.at) >= STEP)
    }

    fn keep(&self, at: u64, text: &[u8]) {
        let coded =
            if text.len() <= MOST { encode(Coding::Gzip, compressed::LEVELS, text) } else { Ok(None) };
        let mut kept = self.0.borrow_mut();
        kept.push_back(KeptSums { at, coded: coded.ok().flatten().unwrap_or_default() });
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// The JSON of the reading whose age is nearest to a minute.
    fn minute_ago(&self, now: u64) -> Option<Vec<u8>> {
        let kept = self.0.borrow();
        let nearest = kept.iter().min_by_key(|it| now.saturating_sub(it.at).abs_diff(AGE))?;
        decode(Coding::Gzip, &nearest.coded, MOST as u64).ok()
    }
}

impl Admin {
    /// `GET /api/v1/stats/minute`: the sums of a minute ago, or of the start if that is later.
    pub(super) fn stats_minute_ago(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let now = clock::monotonic_now().0;
        match self.recent_sums.minute_ago(now) {
            Some(text) => AdminResponse::Whole(compressed::json(200, text, asked.request)),
            None => AdminResponse::Json(200, self.sums(&self.live.borrow())),
        }
    }

    /// Keeps the sums of now if the last ones are ten seconds old.
    pub fn keep_sums(&self) {
        let now = clock::monotonic_now().0;
        let live = self.live.borrow().clone();
        if live.config.statistics && self.recent_sums.is_due(now) {
            self.recent_sums.keep(now, &serde_json::to_vec(&self.sums(&live)).unwrap_or_default());
        }
    }

    fn sums(&self, live: &Live) -> Value {
        let scopes = &live.scopes;
        let routes: Vec<_> = (0..scopes.routes.len()).map(|it| scopes.of_route(it)).collect();
        let mut all = json!({
            "now_us": clock::precise_micros(),
            "counters": stats::named(Counters::TABLE, &self.totals.sums()),
            "latency": stats::latencies(scopes),
            "totals": stats::totals(scopes),
            "routes": [],
            "tiers": self.tiers_json(scopes),
            "origins": [],
            "saved": stats::saved(scopes),
        });
        all["routes"] = stats::routes_json(scopes, &routes, stats::Detail::Routes).into();
        all["origins"] = stats::origins(scopes).into();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reading_nearest_to_a_minute_ago() {
        let recent = RecentSums::default();
        assert_eq!(None, recent.minute_ago(0), "before the first");
        for at in (0..=120).map(|it| it * 1000) {
            if recent.is_due(at) {
                // Long enough to be shorter in gzip.
                recent.keep(at, format!("{at:>1000}").as_bytes());
            }
        }
        let found = |now: u64| String::from_utf8_lossy(&recent.minute_ago(now).unwrap()).trim().to_owned();
        assert_eq!(["60000", "60000", "70000"], [120_000, 124_000, 126_000].map(found));
        assert_eq!("60000", found(65_000), "no older one is kept");
        recent.keep(130_000, &vec![b' '; MOST + 1]);
        assert_eq!(None, recent.minute_ago(200_000), "it was too long");
    }
}
