//! The history: samples of the counters in three resolutions, events, the busiest routes of each minute, slow and failed requests. The main
//! thread takes them from counters that exist; a request does nothing for them. A file keeps them over restarts.

mod columns;
mod difference;
mod file;
mod marks;
mod minutes;
mod rings;

use super::server_state::is_down;
use super::{Admin, AdminRequest, AdminResponse};
use columns::{HistoryReading, LEVELS};
pub use difference::{DIFFERENCE, WORST};
use file::{HistoryFault, HistoryFile, LoadedHistory, MOST_BYTES};
use larder_counters::Counters;
use larder_counters::top::Heavy;
use larder_observe::log::{ErrorLog, Level};
use larder_observe::top::{HTTPS, Tops};
use larder_observe::worst::Worst;
use larder_semantics::secret;
use larder_server::route_stats::{ConfigScopes, Drained};
use larder_stdx::clock;
use larder_wire::history::HistoryRecord;
use marks::{EventCounts, HistoryMark, MarkKind, MarkList};
use minutes::{RouteMinutes, URLS, UrlCount};
use rings::{SampleRings, StepEnd};
use serde_json::{Value, json};
use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The time limit for the last write at a stop.
const CLOSE: Duration = Duration::from_secs(1);
/// Milliseconds between two attempts to open a file that cannot be used.
const RETRY: u64 = 60_000;
/// Why a file is not opened whose lock another process has.
const LOCKED: &str = "another larder writes it";
/// URLs that are requested from each worker, by requests and by misses.
const URLS_OF_WORKER: usize = 12;
/// The steps of samples in the API, seconds. The last two are joined from samples of a minute.
const STEPS: [&str; 5] = ["1", "10", "60", "300", "1800"];

/// The parameters of `GET /api/v1/history`.
pub const QUERY: &[super::parameters::Parameter] = &[
    super::parameters::integer(
        "since",
        0,
        99_999_999_999,
        "only what is later than this Unix time; all, if it is in the future",
    ),
    super::parameters::one_of(
        "step",
        &STEPS,
        "seconds of a sample (10): 1 for 15 minutes, 10 for 6 hours, 60 and more for 7 days",
    ),
];

/// `GET /api/v1/history`.
pub const HISTORY: &str = r#"{"type":"object","required":["now","step","columns","samples","marks","kept"],"properties":{
"now":{"type":"integer","description":"Unix time"},"step":{"type":"integer","description":"seconds between samples"},
"columns":{"type":"array","description":"of samples; at is the end of the step (Unix time), millis its length; counts are those of the step, durations those of the minute before its end, 0 without any, and of joined samples the longest","items":{"type":"string"}},
"samples":{"type":"array","description":"the oldest first; values are exact below 4096, and within 1/4096 above","items":{"type":"array","items":{"type":"integer"}}},
"marks":{"type":"array","description":"events, the oldest first","items":{"type":"object","required":["at","kind","what","last","count"],"properties":{
"at":{"type":"integer","description":"Unix time"},"kind":{"type":"string","enum":["start","stop","upgrade","reload","refused","purge","down","up","fault","over","drain","restore","certificate"]},"what":{"type":"string"},
"last":{"type":"integer","description":"Unix time of the last of several events with this text"},"count":{"type":"integer","description":"their number"}}}},
"kept":{"type":"object","required":["in"],"description":"whether the history outlives this process","properties":{
"in":{"enum":["file","ram"]},"path":{"type":"string"},"bytes":{"type":"integer"},"why":{"type":"string","description":"why it is in RAM alone, or why the last write failed"}}}}}"#;

/// The end of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEnd {
    /// It stops.
    Stopped,
    /// Another process has replaced it, and continues the file.
    Replaced,
}

/// The place where the history outlives the process.
enum HistoryLink {
    /// None, for this reason.
    Ram(&'static str),
    /// This file, which could not be used for this reason; with the time of the next attempt, milliseconds since the start.
    Waiting {
        path: PathBuf,
        why: String,
        next: u64,
    },
    Open(HistoryFile),
}

struct KeptHistory {
    rings: SampleRings,
    marks: MarkList,
    minutes: RouteMinutes,
    link: HistoryLink,
    /// Whether this process has written its columns.
    has_columns: bool,
    /// Whether the last write failed, as logged.
    is_failing: bool,
}

/// The history. Of the main thread.
pub struct HistoryState {
    history: RefCell<KeptHistory>,
    /// The URLs of the last minute, when the workers have answered.
    urls: Rc<RefCell<Option<Vec<UrlCount>>>>,
    tops: Arc<Tops>,
    worst: Arc<Worst>,
    errors: ErrorLog,
    first_bytes: OnceCell<u64>,
}

/// The most bytes of memory of the whole history.
const MOST_MEMORY: usize =
    SampleRings::most_bytes() + MarkList::most_bytes() + RouteMinutes::most_bytes() + Worst::most_bytes();
const _: () = assert!(MOST_MEMORY <= 2 << 20, "the history takes at most 2 MiB");

impl HistoryState {
    /// Begins with the start of this process, which `replaces` another in an upgrade. `path` is the file; or the reason without one.
    #[must_use]
    pub fn open(
        path: Result<PathBuf, &'static str>,
        replaces: bool,
        tops: Arc<Tops>,
        worst: Arc<Worst>,
        errors: ErrorLog,
    ) -> Self {
        let link = match path {
            // For a moment the process before has the file.
            Ok(path) if replaces => HistoryLink::Waiting { path, why: LOCKED.to_owned(), next: 0 },
            Ok(path) => HistoryLink::Waiting { path, why: String::new(), next: 0 },
            Err(why) => HistoryLink::Ram(why),
        };
        let history = KeptHistory {
            rings: SampleRings::new(),
            marks: MarkList::new(),
            minutes: RouteMinutes::new(),
            link,
            has_columns: false,
            is_failing: false,
        };
        let it = Self {
            history: RefCell::new(history),
            urls: Rc::default(),
            tops,
            worst,
            errors,
            first_bytes: OnceCell::new(),
        };
        let mut history = it.history.borrow_mut();
        let loaded = it.connect(&mut history);
        let (kind, what) =
            if replaces { (MarkKind::Upgrade, "upgraded") } else { (MarkKind::Start, "started") };
        let now = clock::wall().0;
        let what = format!(
            "larder {} {what}{}",
            env!("CARGO_PKG_VERSION"),
            // In an upgrade the process before may have closed the file already: it continues to serve meanwhile.
            loaded.filter(|_| !replaces).map_or(String::new(), |it| since_end(&it, now))
        );
        history.marks.add(now, kind, what);
        it.save(&mut history, false);
        drop(history);
        it
    }

    /// Opens the file, if that is due, and takes over its content.
    fn connect(&self, history: &mut KeptHistory) -> Option<(u64, bool)> {
        let HistoryLink::Waiting { path, why: reported, next } = &mut history.link else { return None };
        let uptime = clock::monotonic_now().0;
        if uptime < *next {
            return None;
        }
        let (file, loaded) = match HistoryFile::open(path) {
            Ok(opened) => opened,
            Err(fault) => {
                let (why, wait) = match fault {
                    // For seconds of an upgrade; tried at each look.
                    HistoryFault::Locked => (LOCKED.to_owned(), 0),
                    HistoryFault::Failed(why) => (why, RETRY),
                };
                *next = uptime + wait;
                if *reported != why {
                    let name = path.display().to_string();
                    let values = [
                        ("path", &*name),
                        ("why", &*why),
                        ("now", "the history stays in RAM; the file is tried again"),
                    ];
                    let level = if wait == 0 { Level::Info } else { Level::Warn };
                    self.errors.event(level, "history-not-kept", &values);
                    *reported = why;
                }
                return None;
            }
        };
        if let Some(why) = &loaded.damage {
            let name = path.display().to_string();
            let values = [
                ("path", &*name),
                ("why", &**why),
                ("now", "a new file is begun with the records before the damage"),
            ];
            self.errors.event(Level::Warn, "history-damaged", &values);
        }
        let is_damaged = loaded.damage.is_some();
        history.link = HistoryLink::Open(file);
        let end = (loaded.latest(), loaded.is_stopped());
        self.adopt(history, loaded);
        if is_damaged {
            self.save(history, true);
        }
        (end.0 > 0).then_some(end)
    }

    fn adopt(&self, history: &mut KeptHistory, loaded: LoadedHistory) {
        history.rings.restore(&loaded.rows);
        history.marks.restore(loaded.marks);
        history.minutes.restore(&loaded.minutes);
        self.worst.restore(loaded.requests);
    }

    /// Has everything that is not in the file written; or `all`, in place of the file.
    fn save(&self, history: &mut KeptHistory, all: bool) {
        let HistoryLink::Open(file) = &history.link else { return };
        let standing = file.state();
        self.log_fault(file, standing.fault.as_deref(), history.is_failing);
        history.is_failing = standing.fault.is_some();
        // A failed write has left out records.
        let all = all || standing.fault.is_some() || standing.bytes > MOST_BYTES;
        let mut out = Vec::new();
        if all || !history.has_columns {
            rings::columns_record().write(&mut out);
        }
        let mark = |it: &HistoryMark| {
            let (at, kind) = it.stored();
            HistoryRecord::Mark(at, kind, it.what.clone())
        };
        let minutes: Vec<_> =
            if all { history.minutes.all().collect() } else { history.minutes.unsaved(false) };
        if all {
            history.rings.write_all(&mut out);
            history.marks.iter().for_each(|it| mark(it).write(&mut out));
        } else {
            history.rings.write_unsaved(&mut out);
            history.marks.unsaved().for_each(|it| mark(it).write(&mut out));
        }
        minutes.into_iter().for_each(|it| HistoryRecord::Minute(it).write(&mut out));
        let (requests, number) = self.worst.stored(all);
        requests.into_iter().for_each(|it| HistoryRecord::Request(it).write(&mut out));
        if out.is_empty() {
            return;
        }
        let is_taken = if all { file.replace(out) } else { file.append(out) };
        // Otherwise the device is slow, and the records are written with the next.
        if is_taken {
            history.has_columns = true;
            history.rings.saved();
            history.marks.saved();
            history.minutes.saved();
            self.worst.saved(number);
        }
    }

    fn log_fault(&self, file: &HistoryFile, fault: Option<&str>, was_failing: bool) {
        let name = file.path().display().to_string();
        match fault {
            Some(why) if !was_failing => {
                let now = "the history stays in RAM; the file is written again every minute";
                let values = [("path", &*name), ("why", why), ("now", now)];
                self.errors.event(Level::Warn, "history-not-kept", &values);
            }
            None if was_failing => self.errors.event(Level::Info, "history-kept", &[("path", &name)]),
            _ => {}
        }
    }

    /// Has the workers asked for the URLs of the last minute.
    fn request_urls(&self) {
        let (tops, urls) = (self.tops.clone(), self.urls.clone());
        tokio::task::spawn_local(async move {
            let [requests, misses] = tops.grown(URLS_OF_WORKER).await;
            *urls.borrow_mut() = Some(busiest(&requests, &misses));
        });
    }

    /// The place where the history is kept, for the API.
    pub(super) fn kept(&self) -> Value {
        match &self.history.borrow().link {
            HistoryLink::Ram(why) => json!({ "in": "ram", "why": why }),
            HistoryLink::Waiting { path, why, .. } => json!({ "in": "ram", "path": path, "why": why }),
            HistoryLink::Open(file) => {
                let standing = file.state();
                let mut kept = json!({ "in": "file", "path": file.path(), "bytes": standing.bytes });
                if let Some(why) = standing.fault {
                    kept["why"] = why.into();
                }
                kept
            }
        }
    }

    /// Bytes of memory of samples, events, routes and requests; and those of the first call, which the first measurement of the heap has.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let history = self.history.borrow();
        let bytes =
            history.rings.bytes() + history.marks.bytes() + history.minutes.bytes() + self.worst.bytes();
        (bytes as u64, *self.first_bytes.get_or_init(|| bytes as u64))
    }
}

/// The time since the end of the process before, for its mark.
fn since_end(&(latest, is_stopped): &(u64, bool), now: u64) -> String {
    let seconds = now.saturating_sub(latest);
    let span = match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    };
    match is_stopped {
        true => format!(", {span} after its stop"),
        false => format!(", {span} after the last figures, without a stop"),
    }
}

/// The URLs of a minute, of all workers: those with the most requests, and those with the most misses.
fn busiest(requests: &[Heavy], misses: &[Heavy]) -> Vec<UrlCount> {
    let mut all: Vec<UrlCount> = Vec::new();
    let mut add = |it: &Heavy, of: fn(&mut UrlCount) -> &mut u64| {
        let scheme = if it.text.starts_with(HTTPS.as_bytes()) { "" } else { "http://" };
        let text = String::from_utf8_lossy(&it.text);
        let url = format!("{scheme}{}{}", secret::shown_target(&text), if it.cut { "…" } else { "" });
        match all.iter_mut().find(|known| known.0 == url) {
            Some(known) => *of(known) += it.weight,
            None => {
                let mut new = (url, 0, 0);
                *of(&mut new) = it.weight;
                all.push(new);
            }
        }
    };
    requests.iter().for_each(|it| add(it, |url| &mut url.1));
    misses.iter().for_each(|it| add(it, |url| &mut url.2));
    // A URL may be among those with the most misses alone: it had at least as many requests.
    all.iter_mut().for_each(|it| it.1 = it.1.max(it.2));
    // A miss is what the origin feels.
    all.sort_by_key(|it| std::cmp::Reverse(it.1.max(4 * it.2)));
    all.truncate(URLS);
    all
}

impl Admin {
    /// `GET /api/v1/history`.
    pub(super) fn history(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        self.update_history();
        let since = asked.query_value("since").and_then(|it| it.parse().ok()).unwrap_or(0);
        let step = asked.query_value("step").and_then(|it| it.parse().ok()).unwrap_or(10);
        let kept = self.history.kept();
        let history = self.history.history.borrow();
        let sample = |(times, values): ([u64; 2], Vec<u64>)| {
            times.into_iter().chain(values).map(Value::from).collect::<Value>()
        };
        let now = clock::wall().0;
        let samples: Vec<Value> = history.rings.read(step, since, now).into_iter().map(sample).collect();
        let is_due = |it: &&HistoryMark| (rings::past(since, now) + 1..=now).contains(&it.last);
        let mut marks: Vec<&HistoryMark> = history.marks.iter().filter(is_due).collect();
        marks.sort_by_key(|it| it.at);
        let mark = |it: &&HistoryMark| json!({ "at": it.at, "kind": it.kind.name(), "what": it.what, "last": it.last, "count": it.count });
        let marks: Vec<Value> = marks.iter().map(mark).collect();
        let columns: Vec<&str> = ["at", "millis"].into_iter().chain(columns::names()).collect();
        AdminResponse::Json(
            200,
            json!({
                "now": now, "step": step, "columns": columns, "samples": samples, "marks": marks,
                "kept": kept,
            }),
        )
    }

    /// Marks events, takes samples if a step is over, and has them written once a minute.
    pub fn update_history(&self) {
        let (wall, uptime) = (clock::wall().0, clock::monotonic_now().0);
        let live = self.live.borrow().clone();
        let scopes = &live.scopes;
        let state = &self.history;
        let mut history = state.history.borrow_mut();
        let history = &mut *history;
        state.connect(history);
        history.marks.record(wall, uptime / 1000, self.event_counts(scopes));
        let urls = state.urls.borrow_mut().take();
        if let Some(urls) = urls {
            history.minutes.urls(&urls);
            state.save(history, false);
        }
        if history.rings.is_due(uptime) && self.sample(history, StepEnd::Over) {
            state.worst.advance(wall);
            state.request_urls();
            state.save(history, false);
        }
    }

    /// Takes samples, and at the end of a minute those of routes; returns whether a minute has ended.
    fn sample(&self, history: &mut KeptHistory, end: StepEnd) -> bool {
        let (wall, uptime) = (clock::wall().0, clock::monotonic_now().0);
        let live = self.live.borrow().clone();
        let is_minute = history.rings.take(self.reading(&live.scopes, wall, uptime), end);
        if is_minute || !history.minutes.is_begun() {
            history.minutes.take(&live.scopes, wall, uptime);
        }
        is_minute
    }

    /// Ends the history of this process: a stop is marked, and everything is written.
    pub fn end_history(&self, end: HistoryEnd) {
        clock::tick();
        self.update_history();
        let state = &self.history;
        let mut history = state.history.borrow_mut();
        let history = &mut *history;
        self.sample(history, StepEnd::All);
        if end == HistoryEnd::Stopped {
            history.marks.add(clock::wall().0, MarkKind::Stop, "larder stopped".to_owned());
        }
        history.minutes.close();
        state.save(history, false);
        let why = "this process ends";
        if let HistoryLink::Open(file) = std::mem::replace(&mut history.link, HistoryLink::Ram(why)) {
            file.close(CLOSE);
        }
    }

    /// When a fault began that stood at the end of the process before; an origin is a fault by its name.
    pub(super) fn stood_earlier(&self, fault: &str) -> Option<u64> {
        let history = self.history.history.borrow();
        history.marks.earlier().find(|it| it.0 == fault).map(|it| it.1)
    }

    /// The number of a fault's beginnings and the first of them, if it returns lately.
    pub(super) fn repeated(&self, fault: &str) -> Option<(u32, u64)> {
        self.history.history.borrow().marks.repeated(fault, clock::wall().0)
    }

    fn event_counts(&self, scopes: &ConfigScopes) -> EventCounts {
        let sum = |of: fn(&Counters) -> &larder_counters::table::Counter| self.totals.sum_of(of);
        let origins = scopes.origins.iter();
        let certificates = self.certificates.shown.borrow();
        let certificates =
            certificates.iter().map(|it| (it.certificate.names.join(", "), it.certificate.until));
        EventCounts {
            reloads: sum(|it| &it.config_reloads),
            refused: sum(|it| &it.config_rejections),
            purges: sum(|it| &it.purges_everything),
            certificates: certificates.collect(),
            origins: origins
                .map(|it| (it.name.clone(), (is_down(it), it.drained_by() == Some(Drained::ByOperator))))
                .collect(),
            faults: self.server_state.faults(),
        }
    }

    fn reading(&self, scopes: &ConfigScopes, at: u64, uptime: u64) -> HistoryReading {
        let [hit, miss, ..] = scopes.times();
        let in_flight = scopes.origins.iter().map(|it| it.standing.in_flight() as u64).sum();
        let down = scopes.origins.iter().filter(|it| is_down(it)).count() as u64;
        let open = self.totals.sum_of(|it| &it.connections_open);
        let levels: [u64; LEVELS] = [self.gateway.store.used(), open, in_flight, down];
        HistoryReading { at, uptime, sums: columns::sums(&self.totals, scopes), levels, hit, miss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_takes_two_mebibytes() {
        assert!((1_800_000..=2 << 20).contains(&MOST_MEMORY), "{MOST_MEMORY}");
        let state =
            HistoryState::open(Err("no file"), false, Arc::default(), Arc::default(), ErrorLog::off());
        assert!(state.bytes().0 < 128 << 10, "{:?}", state.bytes());
        assert_eq!(json!({ "in": "ram", "why": "no file" }), state.kept());
    }

    #[test]
    fn the_time_since_the_end_is_a_part_of_the_mark() {
        for (latest, is_stopped, expect) in [
            (1_000_000, true, ", 42 s after its stop"),
            (1_000_000 - 600, false, ", 10 min after the last figures, without a stop"),
            (1_000_000 - 43_200, true, ", 12 h after its stop"),
        ] {
            assert_eq!(expect, since_end(&(latest, is_stopped), 1_000_042));
        }
    }

    #[test]
    fn urls_of_a_minute_have_requests_and_misses_and_no_secrets() {
        let heavy =
            |text: &str, weight| Heavy { text: text.as_bytes().to_vec(), cut: false, weight, error: 0 };
        let requests = [heavy("a/1", 9), heavy("https://b/2?token=x", 5), heavy("a/1", 1)];
        let urls = busiest(&requests, &[heavy("a/1", 4), heavy("a/3", 3)]);
        let expect = [("http://a/1", 10, 4), ("http://a/3", 3, 3), ("https://b/2?token=***", 5, 0)];
        assert_eq!(expect.map(|it| (it.0.to_owned(), it.1, it.2)).to_vec(), urls);
    }
}
