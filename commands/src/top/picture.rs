//! The layout of `larder top`: from two readings to lines. No terminal and no clock are here, so that tests can examine
//! it.

use super::TopReading;
use crate::cli::TopList;
use crate::stats::{hit_ratio, reasons_of, reasons_of_route, render_ratio, state};
use crate::terminal::{
    Ink, Screen, TerminalLine, bytes, count, harmless, micros, share, spark, url_within, within,
};
use larder_counters::top::{TopOrder, TopSubject};
use serde_json::Value;
use std::collections::VecDeque;

/// The most seconds shown as small columns.
pub const COLUMNS: usize = 120;
/// Columns from which on a URL has a bar next to it.
const WIDE: usize = 100;
/// Columns of that.
const BAR: usize = 12;
/// The most reasons that are shown.
const REASONS: usize = 5;
/// The same for one route.
const REASONS_OF_ROUTE: usize = 2;
/// Columns for the reasons of a route.
const WHY: usize = 28;

/// The list selected by a key: an order by `1` to `4`, or the first letter; the entries by the first letter.
#[must_use]
pub fn of_key(key: u8, now: TopList) -> Option<TopList> {
    let mut orders = TopOrder::ALL.into_iter().zip(b'1'..);
    let order = orders.find(|(it, digit)| key == *digit || key == it.name().as_bytes()[0]);
    match (key, order) {
        (b'u', _) => Some(TopList { of: TopSubject::Urls, ..now }),
        (b'c', _) => Some(TopList { of: TopSubject::Clients, ..now }),
        (_, Some((by, _))) => Some(TopList { by, ..now }),
        _ => None,
    }
}

fn spell(by: TopOrder, value: f64) -> String {
    match by {
        TopOrder::Requests | TopOrder::Misses => count(value),
        TopOrder::Bytes => bytes(value),
        TopOrder::OriginTime => micros(value),
    }
}

/// The values of one second, for the small columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// Requests per second.
    pub rate: f64,
    /// The share of hits, 0 to 1; `None` without requests.
    pub hits: Option<f64>,
}

/// The input of the layout.
pub struct Picture<'a> {
    /// The selected list; the reading may still have another.
    pub list: TopList,
    /// The reading before; without one, all values are since the start.
    pub before: Option<&'a TopReading>,
    /// The latest.
    pub now: &'a TopReading,
    /// The earlier seconds, the latest at the end.
    pub beats: &'a VecDeque<Beat>,
    /// The reason why there is no later reading.
    pub trouble: Option<&'a str>,
    /// Whether keys have an effect.
    pub interactive: bool,
}

impl Picture<'_> {
    /// The lines, as many as the screen has at most, and none wider than it is.
    #[must_use]
    pub fn lines(&self, screen: Screen) -> Vec<String> {
        let height = screen.height.unwrap_or(usize::MAX);
        let mut lines = vec![match self.trouble {
            // The remedy is only in the message of a failed start.
            Some(why) => {
                let why = why.split(';').next().unwrap_or(why).trim_end_matches('.');
                TerminalLine::new(screen).put(Ink::Red, why).put(Ink::Red, ". Retrying; q quits.").end()
            }
            None => self.state(screen),
        }];
        lines.extend([self.title(screen), String::new()]);
        lines.extend([self.requests(screen), self.hits(screen)]);
        lines.extend([self.latency(screen), self.sent(screen)]);
        lines.extend(self.reasons(screen));
        lines.extend([self.memory(screen), String::new()]);
        // At least half of the remaining lines are for URLs.
        let routes = self.routes(screen, (height.saturating_sub(lines.len() + 4) / 2).min(12));
        if !routes.is_empty() {
            lines.extend(routes);
            lines.push(String::new());
        }
        let room = height.saturating_sub(lines.len() + 1).min(if self.interactive { 100 } else { 20 });
        lines.extend(self.heaviest(screen, room));
        lines.truncate(height);
        lines
    }

    /// The values of this second.
    #[must_use]
    pub fn beat(&self) -> Beat {
        Beat { rate: self.counter("requests") / self.seconds(), hits: self.hit_ratio() }
    }

    /// The state of the server; empty from a larder that reports none.
    fn state(&self, screen: Screen) -> String {
        let Some((ink, word, rest)) = state(&self.now.stats) else { return String::new() };
        TerminalLine::new(screen).put(ink, &word).put(Ink::Plain, &rest).end()
    }

    fn title(&self, screen: Screen) -> String {
        let stats = &self.now.stats;
        let listen: Vec<&str> =
            stats["listen"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let up = stats["uptime"].as_u64().unwrap_or(0);
        let up = match (up / 86_400, up / 3600 % 24, up / 60 % 60) {
            (0, 0, 0) => format!("{up} s"),
            (0, 0, minutes) => format!("{minutes} min {} s", up % 60),
            (0, hours, minutes) => format!("{hours} h {minutes} min"),
            (days, hours, _) => format!("{days} d {hours} h"),
        };
        let since = if self.before.is_some() || self.interactive { "" } else { ", totals since the start" };
        let (listen, up) = (format!(" {}", listen.join(" ")), format!("  up {up}{since}"));
        TerminalLine::new(screen)
            .put(Ink::Bold, "larder")
            .group(&[(Ink::Plain, &listen)])
            .put(Ink::Dim, &up)
            .end()
    }

    /// Seconds between the readings; since the start if there is only one.
    fn seconds(&self) -> f64 {
        let at = |it: &TopReading| it.stats["now_us"].as_f64().unwrap_or(0.0);
        let micros = at(self.now) - self.before.map_or(0.0, at);
        (micros / 1e6).max(0.001)
    }

    /// The increase of a number between the readings.
    fn grown(&self, number: impl Fn(&Value) -> Option<f64>) -> f64 {
        let now = number(&self.now.stats).unwrap_or(0.0);
        (now - self.before.and_then(|it| number(&it.stats)).unwrap_or(0.0)).max(0.0)
    }

    fn counter(&self, name: &str) -> f64 {
        self.grown(|it| it["counters"][name].as_f64())
    }

    /// Between the readings.
    fn hit_ratio(&self) -> Option<f64> {
        let of = |name| self.counter(name);
        hit_ratio(of("cache_hits"), of("cache_misses"), of("cache_passes"))
    }

    fn requests(&self, screen: Screen) -> String {
        let rate = format!("{:>11}  ", format!("{}/s", count(self.counter("requests") / self.seconds())));
        let line = TerminalLine::new(screen).put(Ink::Bold, "requests").put(Ink::Plain, &rate);
        let columns = spark(self.beats.iter().map(|it| Some(it.rate)), line.room().min(COLUMNS), None);
        line.put(Ink::Cyan, &columns).end()
    }

    fn hits(&self, screen: Screen) -> String {
        let ratio = format!("{:>11}  ", render_ratio(self.hit_ratio()));
        let line = TerminalLine::new(screen).put(Ink::Bold, "hits    ").put(Ink::Green, &ratio);
        let columns = spark(self.beats.iter().map(|it| it.hits), line.room().min(COLUMNS), Some(1.0));
        line.put(Ink::Green, &columns).end()
    }

    fn latency(&self, screen: Screen) -> String {
        let of = |name: &'static str| {
            let buckets = difference(
                &self.now.stats["latency"][name],
                self.before.map(|it| &it.stats["latency"][name]),
            );
            [0.5, 0.9, 0.99, 0.999]
                .map(|it| percentile(&buckets, it).map_or("-".to_owned(), |it| micros(it as f64)))
        };
        let [p50, p90, p99, p999] = of("all");
        let mut line = TerminalLine::new(screen).put(Ink::Bold, "latency ");
        for (name, value) in [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999)] {
            line = line.group(&[(Ink::Dim, &format!("   {name} ")), (Ink::Plain, &format!("{value:>6}"))]);
        }
        for (name, it) in [("hits", of("hit")), ("misses", of("miss"))] {
            line = line.group(&[(Ink::Dim, &format!("   {name} p50 {} p99 {}", it[0], it[2]))]);
        }
        line.end()
    }

    fn sent(&self, screen: Screen) -> String {
        let seconds = self.seconds();
        let rate = |name: &str| self.counter(name) / seconds;
        let saved = self.grown(|it| it["saved"]["origin_us"].as_f64());
        // Of one reading, the total that was saved; of two, the rate.
        let saved = match self.before {
            None => micros(saved),
            Some(_) => format!("{} per second", micros(saved / seconds)),
        };
        TerminalLine::new(screen)
            .put(Ink::Bold, "sent    ")
            .put(Ink::Plain, &format!("{:>11}", format!("{}/s", bytes(rate("client_bytes_sent")))))
            .group(&[
                (Ink::Dim, "   origin "),
                (Ink::Plain, &format!("{}/s", count(rate("origin_requests")))),
            ])
            .group(&[(Ink::Dim, "   origin time saved "), (Ink::Plain, &saved)])
            .end()
    }

    /// The most frequent reasons for asking an origin; nothing where none was asked.
    fn reasons(&self, screen: Screen) -> Option<String> {
        let before = self.before.map(|it| reasons_of(&it.stats)).unwrap_or_default();
        let (all, grown) = grown_reasons(reasons_of(&self.now.stats), &before);
        let line = TerminalLine::new(screen).put(Ink::Bold, "why     ");
        let line = grown.iter().take(REASONS).fold(line, |line, (requests, name)| {
            let name = format!("   {} ", harmless(name));
            line.group(&[(Ink::Dim, &name), (Ink::Plain, &share(*requests, all))])
        });
        (all > 0.0).then(|| line.end())
    }

    fn memory(&self, screen: Screen) -> String {
        let stats = &self.now.stats;
        let (used, budget) = (&stats["ram"]["used_bytes"], &stats["ram"]["usable_bytes"]);
        let (used, budget) = (used.as_f64().unwrap_or(0.0), budget.as_f64().unwrap_or(0.0));
        let rss = stats["memory"]["rss_bytes"].as_f64().map_or("-".to_owned(), bytes);
        let filled = if budget > 0.0 { (used / budget * 20.0).ceil().clamp(0.0, 20.0) as usize } else { 0 };
        TerminalLine::new(screen)
            .put(Ink::Bold, "memory  ")
            .put(Ink::Plain, &format!("{:>11}", bytes(used)))
            .put(Ink::Dim, &format!(" of {}  ", bytes(budget)))
            .group(&[(Ink::Cyan, &"#".repeat(filled)), (Ink::Dim, &"·".repeat(20 - filled))])
            .group(&[(Ink::Dim, "   process "), (Ink::Plain, &rss)])
            .end()
    }

    fn routes(&self, screen: Screen, most: usize) -> Vec<String> {
        let routes: Vec<&Value> = self.now.stats["routes"].as_array().into_iter().flatten().collect();
        if routes.is_empty() || most < 2 {
            return Vec::new();
        }
        // The reasons are shown where there is room for both.
        let reserved = if screen.width.is_some_and(|it| it >= WIDE) { 52 + WHY } else { 52 };
        let name_width = screen.width.map_or(40, |it| it.saturating_sub(reserved).clamp(12, 60));
        // A column that does not fit is omitted, not truncated.
        let columns = [("requests/s", 11), ("hits", 9), ("p99", 9), ("sent/s", 11), ("5xx", 11)];
        let head = TerminalLine::new(screen).put(Ink::Dim, &format!("{:<name_width$}", "route"));
        let head = columns
            .iter()
            .fold(head, |line, (name, width)| line.group(&[(Ink::Dim, &format!("{name:>width$}"))]));
        let mut lines = vec![head.group(&[(Ink::Dim, "   why")]).end()];
        let seconds = self.seconds();
        for (at, it) in routes.iter().enumerate().take(most - 1) {
            // Readings before a reload may have other routes.
            let same = |before: &Value| before["routes"][at]["name"] == it["name"];
            let before = self.before.map(|it| &it.stats).filter(|it| same(it));
            let grown = |name: &str| {
                let was = before.map_or(0.0, |it| it["routes"][at]["counters"][name].as_f64().unwrap_or(0.0));
                (it["counters"][name].as_f64().unwrap_or(0.0) - was).max(0.0)
            };
            let buckets = difference(&it["latency"], before.map(|it| &it["routes"][at]["latency"]));
            let name = within(&harmless(it["name"].as_str().unwrap_or("")), name_width);
            let failures = grown("errors_5xx");
            let cells = [
                (Ink::Plain, count(grown("requests") / seconds)),
                (Ink::Green, render_ratio(hit_ratio(grown("hits"), grown("misses"), grown("passes")))),
                (Ink::Plain, percentile(&buckets, 0.99).map_or("-".to_owned(), |it| micros(it as f64))),
                (Ink::Plain, bytes(grown("bytes_sent") / seconds)),
                (if failures > 0.0 { Ink::Red } else { Ink::Dim }, count(failures)),
            ];
            let row = TerminalLine::new(screen).put(Ink::Plain, &format!("{name:<name_width$}"));
            let row = cells.iter().zip(columns).fold(row, |line, ((ink, cell), (_, width))| {
                line.group(&[(*ink, &format!("{cell:>width$}"))])
            });
            let was = before.map(|it| reasons_of_route(&it["routes"][at])).unwrap_or_default();
            let (all, why) = grown_reasons(reasons_of_route(it), &was);
            let row = why.iter().take(REASONS_OF_ROUTE).fold(row, |line, (requests, name)| {
                let name = format!("   {} ", harmless(name));
                line.group(&[(Ink::Dim, &name), (Ink::Plain, &share(*requests, all))])
            });
            lines.push(row.end());
        }
        lines
    }

    fn heaviest(&self, screen: Screen, most: usize) -> Vec<String> {
        let chosen = |it: TopOrder| {
            let name = it.name().replace('_', " ");
            let key = it.place() + 1;
            let label = if self.interactive { format!("{key} {name}") } else { name };
            if it == self.list.by { (Ink::Bold, format!("[{label}]")) } else { (Ink::Dim, label) }
        };
        let (title, other) = match self.list.of {
            TopSubject::Urls => ("URLs by", "   c clients   q quits"),
            TopSubject::Clients => ("clients by", "   u URLs   q quits"),
        };
        let mut head = TerminalLine::new(screen).put(Ink::Bold, title);
        for it in TopOrder::ALL {
            let (ink, label) = chosen(it);
            head = head.put(Ink::Plain, "  ").put(ink, &label);
        }
        let quit = if self.interactive { other } else { "" };
        let mut lines = vec![head.group(&[(Ink::Dim, quit)]).end()];
        let by = self.now.list.by;
        let total = self.now.top["total"].as_f64().unwrap_or(0.0);
        let entries = || self.now.top["entries"].as_array().into_iter().flatten().take(most);
        let value = |it: &Value| it["value"].as_f64().unwrap_or(0.0);
        let first = entries().map(value).fold(0.0, f64::max);
        // A bar if it fits next to the URLs.
        let bar = if screen.width.is_some_and(|it| it >= WIDE) { BAR } else { 0 };
        for it in entries() {
            let filled = if first > 0.0 { (value(it) / first * bar as f64).ceil() as usize } else { 0 };
            let line = TerminalLine::new(screen)
                .put(Ink::Plain, &format!("{:>10} ", spell(by, value(it))))
                .put(Ink::Dim, &format!("{:>7}  ", share(value(it), total)))
                .put(Ink::Cyan, &format!("{:<bar$}", "\u{2584}".repeat(filled.min(bar))))
                .put(Ink::Plain, if bar > 0 { "  " } else { "" });
            let client = it["client"].as_str().map(harmless);
            let url = || url_within(&harmless(it["url"].as_str().unwrap_or("")), line.room());
            let name = client.unwrap_or_else(url);
            lines.push(line.put(Ink::Plain, &name).end());
        }
        lines
    }
}

/// The requests of each reason since `before`, most requests first, and their sum.
fn grown_reasons(now: Vec<(String, f64, f64)>, before: &[(String, f64, f64)]) -> (f64, Vec<(f64, String)>) {
    let was = |name: &str| before.iter().find(|it| it.0 == name).map_or(0.0, |it| it.1);
    let grown = now.into_iter().map(|it| (it.1 - was(&it.0), it.0));
    let mut grown: Vec<(f64, String)> = grown.filter(|it| it.0 > 0.0).collect();
    grown.sort_by(|a, b| b.0.total_cmp(&a.0));
    (grown.iter().map(|it| it.0).sum(), grown)
}

/// The buckets of a histogram since `before`: upper bound and count.
fn difference(now: &Value, before: Option<&Value>) -> Vec<(u64, u64)> {
    let read = |it: &Value| -> Vec<(u64, u64)> {
        let rows = it["buckets"].as_array().into_iter().flatten();
        rows.filter_map(|it| Some((it[0].as_u64()?, it[1].as_u64()?))).collect()
    };
    let before = before.map(read).unwrap_or_default();
    let was = |bound: u64| before.iter().find(|it| it.0 == bound).map_or(0, |it| it.1);
    read(now).into_iter().map(|(bound, count)| (bound, count.saturating_sub(was(bound)))).collect()
}

/// The bound below which this share lies; `None` for an empty histogram.
fn percentile(buckets: &[(u64, u64)], share: f64) -> Option<u64> {
    let all: u64 = buckets.iter().map(|it| it.1).sum();
    let rank = ((all as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    buckets
        .iter()
        .find(|it| {
            seen += it.1;
            seen >= rank && all > 0
        })
        .map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const URLS: TopList = TopList { of: TopSubject::Urls, by: TopOrder::Requests };

    fn reading(seconds: u64, requests: u64, hits: u64) -> TopReading {
        let latency = json!({ "buckets": [[10, hits], [2000, requests - hits]] });
        TopReading {
            stats: json!({
                "listen": ["http://127.0.0.1:8080"], "uptime": 3700, "now_us": seconds * 1_000_000,
                "counters": { "requests": requests, "cache_hits": hits, "cache_misses": requests - hits,
                              "client_bytes_sent": requests * 1024, "origin_requests": requests - hits },
                "latency": { "all": latency, "hit": latency },
                "routes": [{ "name": "api", "counters": { "requests": requests, "hits": hits, "misses": requests - hits }, "latency": latency,
                    "reasons": { "first-request": { "requests": seconds }, "expired": { "requests": hits } } }],
                "ram": { "used_bytes": 1_048_576, "usable_bytes": 4_194_304, "budget_bytes": 4_194_304 }, "memory": { "rss_bytes": 52_428_800 },
            }),
            list: URLS,
            top: json!({ "total": 200, "entries": [{ "url": "http://h/a", "value": 150 }, { "url": "http://h/b", "value": 50 }] }),
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_readings() {
        let (before, now) = (reading(100, 1000, 0), reading(102, 3000, 1500));
        let beats = [0.5, 1.0].map(|it| Beat { rate: it, hits: Some(it) }).into();
        let picture = of(TopOrder::Requests, Some(&before), &now, &beats, true);
        let text = picture.lines(Screen::NONE).join("\n");
        for expect in [
            "requests    1 000/s  ▄█\n",
            "hits         75.0 %  ▄█\n",
            "sent      1.0 MiB/s   origin 250/s   origin time saved 0 us per second\n",
            "p50  10 us",
            "p99 2.0 ms",
            "1.0 MiB of 4.0 MiB  #####···············   process 50 MiB",
            "up 1 h 1 min\n",
            "why        expired 99.9 %   first-request 0.1 %\n",
            "URLs by  [1 requests]  2 misses  3 bytes  4 origin time   c clients   q quits",
            "       150  75.0 %  http://h/a",
        ] {
            assert!(text.contains(expect), "{expect:?} is not in\n{text}");
        }
        assert!(
            text.lines().any(|it| it.starts_with("api ")
                && it.contains("1 000")
                && it.contains("75.0 %")
                && it.ends_with("   expired 99.9 %   first-request 0.1 %")),
            "{text}"
        );
        let of_width = |width| {
            let lines = picture.lines(Screen { colour: false, width: Some(width), height: None });
            lines.into_iter().find(|it| it.starts_with("api ")).unwrap()
        };
        assert!(of_width(110).ends_with("   expired 99.9 %"), "{}", of_width(110));
        assert!(!of_width(80).contains("expired"), "{}", of_width(80));
    }

    fn of<'a>(
        by: TopOrder,
        before: Option<&'a TopReading>,
        now: &'a TopReading,
        beats: &'a VecDeque<Beat>,
        interactive: bool,
    ) -> Picture<'a> {
        Picture { list: TopList { by, ..URLS }, before, now, beats, trouble: None, interactive }
    }

    #[test]
    fn a_first_reading_shows_totals_since_the_start_without_missing_fields() {
        let now =
            TopReading { stats: json!({}), list: TopList { by: TopOrder::Bytes, ..URLS }, top: json!({}) };
        let picture = of(TopOrder::Bytes, None, &now, &VecDeque::new(), false).lines(Screen::NONE).join("\n");
        assert!(picture.contains("totals since the start") && picture.contains("[bytes]"), "{picture}");
    }

    #[test]
    fn a_reading_shows_its_request_rate_and_hit_ratio() {
        let (before, now, none) = (reading(100, 1000, 0), reading(102, 3000, 1500), VecDeque::new());
        let beat = |now, before| of(TopOrder::Requests, Some(before), now, &none, true).beat();
        assert_eq!(Beat { rate: 1000.0, hits: Some(0.75) }, beat(&now, &before));
        assert_eq!(Beat { rate: 0.0, hits: None }, beat(&now, &now));
    }

    #[test]
    fn the_first_line_is_the_state() {
        let (mut now, none) = (reading(5, 10, 5), VecDeque::new());
        assert_eq!("", of(TopOrder::Requests, None, &now, &none, true).lines(Screen::NONE)[0]);
        now.stats["health"] =
            json!({ "word": "degraded", "sentence": "Degraded: origin 10.0.0.7:8000 is down" });
        let first = |width| {
            let screen = Screen { colour: false, width: Some(width), height: Some(20) };
            of(TopOrder::Requests, None, &now, &none, true).lines(screen)[0].clone()
        };
        assert_eq!("Degraded: origin 10.0.0.7:8000 is down", first(80));
        assert_eq!("Degraded: origin 1…", first(19));
    }

    #[test]
    fn an_error_is_shown_above_the_last_reading() {
        let (now, none) = (reading(5, 10, 5), VecDeque::new());
        let picture = Picture {
            trouble: Some("Nobody answers; do this."),
            ..of(TopOrder::Requests, None, &now, &none, true)
        };
        let lines = picture.lines(Screen::NONE);
        assert_eq!("Nobody answers. Retrying; q quits.", lines[0]);
        assert!(lines.iter().any(|it| it.contains("http://h/a")));
    }

    #[test]
    fn keys_choose_a_column() {
        let clients = TopList { of: TopSubject::Clients, ..URLS };
        assert_eq!([Some(clients), Some(URLS)], [b'c', b'u'].map(|key| of_key(key, clients)));
        let chosen = |key: u8| of_key(key, URLS).map(|it| it.by.name());
        assert_eq!(
            [Some("requests"), Some("origin_time"), Some("bytes"), None],
            [b'1', b'o', b'b', b'x'].map(chosen)
        );
    }

    #[test]
    fn no_more_lines_than_the_screen_has_and_none_wider() {
        let (before, now) = (reading(100, 1000, 0), reading(102, 3000, 1500));
        let beats: VecDeque<Beat> = (0..200).map(|it| Beat { rate: f64::from(it), hits: None }).collect();
        for (height, width) in
            (0..30).flat_map(|height| [(height, 0), (height, 1), (height, 39), (height, 80), (height, 200)])
        {
            let picture = of(TopOrder::Requests, Some(&before), &now, &beats, true);
            let lines = picture.lines(Screen { colour: false, width: Some(width), height: Some(height) });
            assert!(lines.len() <= height, "{height}");
            assert!(lines.iter().all(|it| it.chars().count() <= width), "{width}: {lines:#?}");
        }
    }
}
