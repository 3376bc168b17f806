//! The last two hours: a sample of the counters every ten seconds, and marks of the events that explain a change. The main thread takes
//! them from counters that exist; a request does nothing for them. They end with the process.

use super::health::is_down;
use super::{Admin, AdminRequest, AdminResponse};
use larder_counters::{Counters, RouteCounters, Snapshot, TierCounters};
use larder_server::route_stats::{ConfigScopes, Drained};
use larder_stdx::clock;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// Milliseconds between two samples.
const STEP: u64 = 10_000;
/// The samples that are kept: two hours.
const KEPT: usize = 720;
/// The samples of a minute, over which durations are measured.
const MINUTE: usize = 6;
/// The marks that are kept.
const MARKS: usize = 128;
/// The longest text of a mark, bytes.
const LONGEST: usize = 200;

/// The columns of a sample that are counters of the process, and their names there.
const COUNTED: [(&str, &str); 9] = [
    ("requests", "requests"),
    ("hits", "cache_hits"),
    ("hits_disk", "cache_hits_disk"),
    ("hits_fleet", "cache_hits_fleet"),
    ("misses", "cache_misses"),
    ("passes", "cache_passes"),
    ("bytes_sent", "client_bytes_sent"),
    ("bytes_received", "origin_bytes_received"),
    ("evictions", "cache_evictions"),
];
/// The columns after those that are sums over routes and tiers.
const SCOPED: [&str; 3] = ["errors_4xx", "errors_5xx", "saved_us"];
/// The columns after those that are values at the end of the step, or of the minute before it.
const GAUGES: [&str; 5] = ["ram_bytes", "hit_p50_us", "hit_p99_us", "miss_p50_us", "miss_p99_us"];
const SUMS: usize = COUNTED.len() + SCOPED.len();

/// `GET /api/v1/history`.
pub const HISTORY: &str = r#"{"type":"object","required":["now","step","columns","samples","marks"],"properties":{
"now":{"type":"integer","description":"Unix time"},"step":{"type":"integer","description":"seconds between samples"},
"columns":{"type":"array","description":"of samples; at is the end of the step (Unix time), millis its length; counts are those of the step, durations those of the minute before its end, 0 without any","items":{"type":"string"}},
"samples":{"type":"array","description":"the oldest first, of at most two hours","items":{"type":"array","items":{"type":"integer"}}},
"marks":{"type":"array","description":"events, the oldest first","items":{"type":"object","required":["at","kind","what"],"properties":{
"at":{"type":"integer","description":"Unix time"},"kind":{"type":"string","enum":["start","reload","refused","purge","down","up","drain","restore"]},"what":{"type":"string"}}}}}}"#;

/// The samples and marks. Of the main thread.
pub struct HistoryDesk {
    ring: RefCell<HistoryRing>,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkKind {
    Start,
    Reload,
    Refused,
    Purge,
    Down,
    Up,
    Drain,
    Restore,
}

impl MarkKind {
    fn name(self) -> &'static str {
        match self {
            MarkKind::Start => "start",
            MarkKind::Reload => "reload",
            MarkKind::Refused => "refused",
            MarkKind::Purge => "purge",
            MarkKind::Down => "down",
            MarkKind::Up => "up",
            MarkKind::Drain => "drain",
            MarkKind::Restore => "restore",
        }
    }
}

/// One event.
struct HistoryMark {
    at: u64,
    kind: MarkKind,
    what: String,
}

/// The counters of events, and the origins, at one moment.
#[derive(Clone, Default)]
struct EventCounts {
    reloads: u64,
    refused: u64,
    purges: u64,
    /// Of each origin, whether it is down, and whether an operator has drained it.
    origins: BTreeMap<String, (bool, bool)>,
}

impl EventCounts {
    /// The events since `before`.
    fn since(&self, before: &Self) -> Vec<(MarkKind, String)> {
        let counted = [
            (MarkKind::Reload, self.reloads > before.reloads, "configuration reloaded"),
            (MarkKind::Refused, self.refused > before.refused, "configuration refused"),
            (MarkKind::Purge, self.purges > before.purges, "everything purged"),
        ];
        let mut events: Vec<(MarkKind, String)> =
            counted.into_iter().filter(|it| it.1).map(|it| (it.0, it.2.to_owned())).collect();
        for (name, (down, drained)) in &self.origins {
            let (was_down, was_drained) = before.origins.get(name).copied().unwrap_or_default();
            let changes = [
                (MarkKind::Down, *down && !was_down, "is down"),
                (MarkKind::Up, was_down && !down, "is up"),
                (MarkKind::Drain, *drained && !was_drained, "drained"),
                (MarkKind::Restore, was_drained && !drained, "restored"),
            ];
            let changed = changes.into_iter().filter(|it| it.1);
            events.extend(changed.map(|(kind, _, what)| (kind, format!("{name} {what}"))));
        }
        events
    }
}

/// The sums at one moment.
struct HistoryReading {
    /// Unix time.
    at: u64,
    /// Milliseconds since the start.
    uptime: u64,
    sums: [u64; SUMS],
    ram: u64,
    hit: Snapshot,
    miss: Snapshot,
}

/// One step.
#[derive(Clone, Copy)]
struct HistorySample {
    at: u64,
    millis: u64,
    values: [u64; SUMS + GAUGES.len()],
}

struct HistoryRing {
    samples: VecDeque<HistorySample>,
    marks: VecDeque<HistoryMark>,
    events: EventCounts,
    /// The latest readings, of a minute; the newest is the last.
    readings: VecDeque<HistoryReading>,
}

impl HistoryRing {
    /// Whether the step of the last reading is over. Steps are of a grid, so that a late look does not shift them.
    fn is_due(&self, uptime: u64) -> bool {
        self.readings.back().is_none_or(|it| it.uptime / STEP != uptime / STEP)
    }

    /// Ends a step; the first reading only begins one.
    fn take(&mut self, reading: HistoryReading) {
        if let (Some(first), Some(last)) = (self.readings.front(), self.readings.back()) {
            let mut values = [0; SUMS + GAUGES.len()];
            for (at, value) in values[..SUMS].iter_mut().enumerate() {
                // The counters of a removed route are gone.
                *value = reading.sums[at].saturating_sub(last.sums[at]);
            }
            let (hit, miss) = (reading.hit.since(&first.hit), reading.miss.since(&first.miss));
            values[SUMS..].copy_from_slice(&[
                reading.ram,
                hit.percentile(0.5),
                hit.percentile(0.99),
                miss.percentile(0.5),
                miss.percentile(0.99),
            ]);
            if self.samples.len() == KEPT {
                self.samples.pop_front();
            }
            let millis = reading.uptime.saturating_sub(last.uptime);
            self.samples.push_back(HistorySample { at: reading.at, millis, values });
        }
        if self.readings.len() == MINUTE {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
    }

    fn mark(&mut self, at: u64, kind: MarkKind, mut what: String) {
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        let end = (0..=LONGEST.min(what.len())).rev().find(|it| what.is_char_boundary(*it));
        what.truncate(end.unwrap_or(0));
        self.marks.push_back(HistoryMark { at, kind, what });
    }

    fn note(&mut self, at: u64, now: EventCounts) {
        for (kind, what) in now.since(&self.events) {
            self.mark(at, kind, what);
        }
        self.events = now;
    }

    fn json(&self, now: u64, since: u64) -> Value {
        let sample = |it: &HistorySample| {
            [it.at, it.millis].iter().chain(&it.values).copied().map(Value::from).collect::<Value>()
        };
        let mark = |it: &HistoryMark| json!({ "at": it.at, "kind": it.kind.name(), "what": it.what });
        let counted = COUNTED.iter().map(|it| it.0).chain(SCOPED);
        let columns: Vec<&str> = ["at", "millis"].into_iter().chain(counted).chain(GAUGES).collect();
        json!({
            "now": now,
            "step": STEP / 1000,
            "columns": columns,
            "samples": self.samples.iter().filter(|it| it.at > since).map(sample).collect::<Vec<_>>(),
            "marks": self.marks.iter().filter(|it| it.at > since).map(mark).collect::<Vec<_>>(),
        })
    }
}

impl HistoryDesk {
    /// Begins with the start of this process, which `replaces` another in an upgrade.
    #[must_use]
    pub fn new(replaces: bool) -> Self {
        let mut ring = HistoryRing {
            // All at once, so that the process does not grow for two hours.
            samples: VecDeque::with_capacity(KEPT),
            marks: VecDeque::with_capacity(MARKS),
            events: EventCounts::default(),
            readings: VecDeque::with_capacity(MINUTE),
        };
        let what = if replaces { "upgraded" } else { "started" };
        let what = format!("larder {} {what}", env!("CARGO_PKG_VERSION"));
        ring.mark(clock::wall().0, MarkKind::Start, what);
        Self { ring: RefCell::new(ring) }
    }
}

impl Admin {
    /// `GET /api/v1/history`.
    pub(super) fn history(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        self.look_at_history();
        let since = asked.query_value("since").and_then(|it| it.parse().ok()).unwrap_or(0);
        AdminResponse::Json(200, self.history.ring.borrow().json(clock::wall().0, since))
    }

    /// Marks events, and takes a sample if a step is over.
    pub fn look_at_history(&self) {
        let (wall, uptime) = (clock::wall().0, clock::monotonic_now().0);
        let live = self.live.borrow().clone();
        let scopes = &live.scopes;
        let mut ring = self.history.ring.borrow_mut();
        ring.note(wall, self.event_counts(scopes));
        if ring.is_due(uptime) {
            ring.take(self.reading(scopes, wall, uptime));
        }
    }

    fn event_counts(&self, scopes: &ConfigScopes) -> EventCounts {
        let sum = |of: fn(&Counters) -> &larder_counters::table::Counter| self.totals.sum_of(of);
        let origins = scopes.origins.iter();
        EventCounts {
            reloads: sum(|it| &it.config_reloads),
            refused: sum(|it| &it.config_rejections),
            purges: sum(|it| &it.purges_everything),
            origins: origins
                .map(|it| (it.name.clone(), (is_down(it), it.drained_by() == Some(Drained::ByOperator))))
                .collect(),
        }
    }

    fn reading(&self, scopes: &ConfigScopes, at: u64, uptime: u64) -> HistoryReading {
        let position = |table: &[larder_counters::CounterRow], name: &str| {
            table.iter().position(|it| it.name == name).unwrap_or(usize::MAX)
        };
        let mut sums = [0; SUMS];
        let totals = self.totals.sums();
        for (sum, (_, name)) in sums.iter_mut().zip(COUNTED) {
            *sum = totals.get(position(Counters::TABLE, name)).copied().unwrap_or(0);
        }
        let errors = ["errors_4xx", "errors_5xx"].map(|it| position(RouteCounters::TABLE, it));
        for route in 0..scopes.routes.len() {
            let counters = scopes.of_route(route).counters;
            for (at, it) in errors.iter().enumerate() {
                sums[COUNTED.len() + at] += counters.get(*it).copied().unwrap_or(0);
            }
        }
        let saved = position(TierCounters::TABLE, "saved_us");
        sums[SUMS - 1] = scopes.tiers().iter().filter_map(|it| it.get(saved)).sum();
        let [hit, miss, ..] = scopes.times();
        HistoryReading { at, uptime, sums, ram: self.gateway.store.used(), hit, miss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(step: u64, requests: u64) -> HistoryReading {
        let mut sums = [0; SUMS];
        sums[0] = requests;
        let (hit, miss) = (Snapshot::default(), Snapshot::default());
        HistoryReading { at: 1000 + 10 * step, uptime: STEP * step, sums, ram: 7, hit, miss }
    }

    fn ring() -> HistoryRing {
        HistoryDesk::new(false).ring.into_inner()
    }

    #[test]
    fn every_column_is_a_counter() {
        for (_, name) in COUNTED {
            assert!(Counters::TABLE.iter().any(|it| it.name == name), "{name}");
        }
        for name in ["errors_4xx", "errors_5xx"] {
            assert!(RouteCounters::TABLE.iter().any(|it| it.name == name), "{name}");
        }
        assert!(TierCounters::TABLE.iter().any(|it| it.name == "saved_us"));
    }

    #[test]
    fn a_step_has_what_came_in_it_and_the_first_reading_only_begins_one() {
        let mut ring = ring();
        assert!(ring.is_due(0));
        ring.take(reading(0, 50));
        assert!(ring.samples.is_empty());
        assert!(!ring.is_due(STEP - 1) && ring.is_due(STEP));
        ring.take(reading(1, 53));
        ring.take(HistoryReading { uptime: 2 * STEP + 900, ..reading(2, 40) });
        let told: Vec<_> = ring.samples.iter().map(|it| (it.at, it.millis, it.values[0])).collect();
        assert_eq!(vec![(1010, 10_000, 3), (1020, 10_900, 0)], told, "a counter that fell counts as none");
        let json = ring.json(1030, 1010);
        assert_eq!(1, json["samples"].as_array().unwrap().len());
        assert_eq!(json["columns"].as_array().unwrap().len(), json["samples"][0].as_array().unwrap().len());
        assert_eq!(7, json["samples"][0][2 + SUMS]);
    }

    #[test]
    fn two_hours_are_kept_in_a_quarter_of_a_mebibyte() {
        let mut ring = ring();
        for step in 0..2000 {
            ring.take(reading(step, step));
            ring.mark(step, MarkKind::Down, "ä".repeat(LONGEST));
        }
        assert_eq!((KEPT, MARKS, MINUTE), (ring.samples.len(), ring.marks.len(), ring.readings.len()));
        assert!(ring.marks.iter().all(|it| it.what.len() <= LONGEST));
        let snapshot = larder_counters::histogram::BUCKETS * 8;
        let bytes = ring.samples.capacity() * size_of::<HistorySample>()
            + MINUTE * (size_of::<HistoryReading>() + 2 * snapshot)
            + MARKS * (size_of::<HistoryMark>() + LONGEST);
        assert!(bytes <= 256 << 10, "{bytes}");
    }

    #[test]
    fn events_are_marked_once_and_an_origin_that_is_removed_is_not_up() {
        let with = |reloads, origins: &[(&str, bool, bool)]| EventCounts {
            reloads,
            origins: origins.iter().map(|it| (it.0.to_owned(), (it.1, it.2))).collect(),
            ..EventCounts::default()
        };
        let told = |now: &EventCounts, before: &EventCounts| {
            now.since(before).into_iter().map(|it| (it.0.name(), it.1)).collect::<Vec<_>>()
        };
        let begun = with(0, &[("a", false, false), ("b", false, false)]);
        assert!(told(&begun, &EventCounts::default()).is_empty());
        let sick = with(1, &[("a", true, false), ("b", false, true), ("c", true, false)]);
        let expect = [
            ("reload", "configuration reloaded"),
            ("down", "a is down"),
            ("drain", "b drained"),
            ("down", "c is down"),
        ];
        assert_eq!(expect.map(|it| (it.0, it.1.to_owned())).to_vec(), told(&sick, &begun));
        assert!(told(&sick, &sick).is_empty());
        let well = with(1, &[("a", false, false), ("b", false, false)]);
        let expect = [("up", "a is up"), ("restore", "b restored")];
        assert_eq!(expect.map(|it| (it.0, it.1.to_owned())).to_vec(), told(&well, &sick));
    }
}
