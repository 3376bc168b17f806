//! What `larder top` shows: from two readings to lines. No terminal and no clock are here, so that a test can look at it.

use super::Reading;
use crate::terminal::{Ink, Screen, bytes, count, harmless, micros, within};
use larder_counters::top::By;
use serde_json::Value;

/// What a key chooses: `1` to `4`, or the first letter.
#[must_use]
pub fn of_key(key: u8) -> Option<By> {
    By::ALL
        .into_iter()
        .zip(b'1'..)
        .find(|(it, digit)| key == *digit || key == it.name().as_bytes()[0])
        .map(|it| it.0)
}

fn spell(by: By, value: f64) -> String {
    match by {
        By::Requests | By::Misses => count(value),
        By::Bytes => bytes(value),
        By::OriginTime => micros(value),
    }
}

/// What is to be shown.
pub struct Picture<'a> {
    /// What URLs are ordered by.
    pub order: By,
    /// The reading before; without one, everything is since the start.
    pub before: Option<&'a Reading>,
    /// The latest.
    pub now: &'a Reading,
    /// Whether keys do something.
    pub interactive: bool,
}

impl Picture<'_> {
    /// The picture, as many lines as the screen has at most.
    #[must_use]
    pub fn lines(&self, screen: Screen) -> Vec<String> {
        let mut lines = vec![self.title(screen), String::new()];
        lines.extend([self.traffic(screen), self.latency(screen), self.memory(screen), String::new()]);
        let height = screen.height.unwrap_or(usize::MAX);
        // At least half of what is left is for URLs.
        let routes = self.routes(screen, (height.saturating_sub(lines.len() + 4) / 2).min(12));
        lines.extend(routes);
        lines.push(String::new());
        let room = height.saturating_sub(lines.len() + 1).min(if self.interactive { 100 } else { 20 });
        lines.extend(self.urls(screen, room));
        lines.truncate(height);
        lines
    }

    fn title(&self, screen: Screen) -> String {
        let stats = &self.now.stats;
        let listen: Vec<&str> =
            stats["listen"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let up = stats["uptime"].as_u64().unwrap_or(0);
        let up = match (up / 86_400, up / 3600 % 24, up / 60 % 60) {
            (0, 0, minutes) => format!("{minutes} min {} s", up % 60),
            (0, hours, minutes) => format!("{hours} h {minutes} min"),
            (days, hours, _) => format!("{days} d {hours} h"),
        };
        let since = if self.before.is_some() { "" } else { ", everything since then" };
        format!(
            "{} {}  {}",
            screen.paint(Ink::Bold, "larder"),
            listen.join(" "),
            screen.paint(Ink::Dim, &format!("up {up}{since}"))
        )
    }

    /// Seconds between the readings; since the start where there is but one.
    fn seconds(&self) -> f64 {
        let at = |it: &Reading| it.stats["now_us"].as_f64().unwrap_or(0.0);
        let micros = at(self.now) - self.before.map_or(0.0, at);
        (micros / 1e6).max(0.001)
    }

    /// How much a number grew between the readings.
    fn grown(&self, number: impl Fn(&Value) -> Option<f64>) -> f64 {
        let now = number(&self.now.stats).unwrap_or(0.0);
        (now - self.before.and_then(|it| number(&it.stats)).unwrap_or(0.0)).max(0.0)
    }

    fn counter(&self, name: &str) -> f64 {
        self.grown(|it| it["counters"][name].as_f64())
    }

    fn traffic(&self, screen: Screen) -> String {
        let seconds = self.seconds();
        let rate = |name: &str| self.counter(name) / seconds;
        let (hits, asked) =
            (self.counter("cache_hits"), self.counter("cache_misses") + self.counter("cache_passes"));
        let ratio = share(hits, hits + asked);
        let saved = self.grown(|it| it["saved"]["origin_us"].as_f64());
        format!(
            "{}  {}/s   {} {}   {} {}/s   {} {}/s   {} {}",
            screen.paint(Ink::Bold, "requests"),
            count(rate("requests")),
            screen.paint(Ink::Dim, "hits"),
            screen.paint(Ink::Green, &ratio),
            screen.paint(Ink::Dim, "sent"),
            bytes(rate("client_bytes_sent")),
            screen.paint(Ink::Dim, "origin"),
            count(rate("origin_requests")),
            screen.paint(Ink::Dim, "origin time saved"),
            micros(saved),
        )
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
        let (hit, miss) = (of("hit"), of("miss"));
        format!(
            "{}   p50 {p50}   p90 {p90}   p99 {p99}   p99.9 {p999}   {}",
            screen.paint(Ink::Bold, "latency"),
            screen.paint(
                Ink::Dim,
                &format!("hits p50 {} p99 {}   misses p50 {} p99 {}", hit[0], hit[2], miss[0], miss[2])
            ),
        )
    }

    fn memory(&self, screen: Screen) -> String {
        let stats = &self.now.stats;
        let (used, budget) = (&stats["ram"]["used_bytes"], &stats["ram"]["budget_bytes"]);
        let (used, budget) = (used.as_f64().unwrap_or(0.0), budget.as_f64().unwrap_or(0.0));
        let rss = stats["memory"]["rss_bytes"].as_f64().map_or("-".to_owned(), bytes);
        let filled = if budget > 0.0 { (used / budget * 20.0).round().clamp(0.0, 20.0) as usize } else { 0 };
        let bar = format!("{}{}", "#".repeat(filled), "·".repeat(20 - filled));
        format!(
            "{}    {} of {} {}   {} {rss}",
            screen.paint(Ink::Bold, "memory"),
            bytes(used),
            bytes(budget),
            screen.paint(Ink::Cyan, &bar),
            screen.paint(Ink::Dim, "process"),
        )
    }

    fn routes(&self, screen: Screen, most: usize) -> Vec<String> {
        let routes: Vec<&Value> = self.now.stats["routes"].as_array().into_iter().flatten().collect();
        if routes.is_empty() || most < 2 {
            return Vec::new();
        }
        let name_width = screen.width.map_or(40, |it| it.saturating_sub(52).clamp(12, 60));
        let head = format!(
            "{:<name_width$} {:>10} {:>8} {:>8} {:>10} {:>10}",
            "route", "requests/s", "hits", "p99", "sent/s", "5xx"
        );
        let mut lines = vec![screen.paint(Ink::Bold, &head)];
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
            let failures = count(grown("errors_5xx"));
            lines.push(format!(
                "{name:<name_width$} {:>10} {:>8} {:>8} {:>10} {:>10}",
                count(grown("requests") / seconds),
                share(grown("hits"), grown("requests")),
                percentile(&buckets, 0.99).map_or("-".to_owned(), |it| micros(it as f64)),
                bytes(grown("bytes_sent") / seconds),
                failures,
            ));
        }
        lines
    }

    fn urls(&self, screen: Screen, most: usize) -> Vec<String> {
        let chosen = |it: By| {
            let name = it.name().replace('_', " ");
            let key = it.place() + 1;
            let label = if self.interactive { format!("{key} {name}") } else { name };
            if it == self.order {
                screen.paint(Ink::Bold, &format!("[{label}]"))
            } else {
                screen.paint(Ink::Dim, &label)
            }
        };
        let columns: Vec<String> = By::ALL.into_iter().map(chosen).collect();
        let quit = if self.interactive { "   q quits" } else { "" };
        let mut lines = vec![format!(
            "{} {}{}",
            screen.paint(Ink::Bold, "URLs by"),
            columns.join("  "),
            screen.paint(Ink::Dim, quit)
        )];
        let total = self.now.top["total"].as_f64().unwrap_or(0.0);
        for it in self.now.top["entries"].as_array().into_iter().flatten().take(most) {
            let value = it["value"].as_f64().unwrap_or(0.0);
            let start = format!("{:>10} {:>7}  ", spell(self.order, value), share(value, total));
            let url = harmless(it["url"].as_str().unwrap_or(""));
            let url = screen.width.map_or(url.clone(), |it| within(&url, it.saturating_sub(start.len())));
            lines.push(format!("{start}{url}"));
        }
        lines
    }
}

/// A share in per cent; `-` of nothing.
fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", part / whole * 100.0) } else { "-".to_owned() }
}

/// The buckets of a histogram that came since `before`: upper bound and count.
fn difference(now: &Value, before: Option<&Value>) -> Vec<(u64, u64)> {
    let read = |it: &Value| -> Vec<(u64, u64)> {
        let rows = it["buckets"].as_array().into_iter().flatten();
        rows.filter_map(|it| Some((it[0].as_u64()?, it[1].as_u64()?))).collect()
    };
    let before = before.map(read).unwrap_or_default();
    let was = |bound: u64| before.iter().find(|it| it.0 == bound).map_or(0, |it| it.1);
    read(now).into_iter().map(|(bound, count)| (bound, count.saturating_sub(was(bound)))).collect()
}

/// The bound below which this share lies; `None` where nothing was counted.
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

    fn reading(seconds: u64, requests: u64, hits: u64) -> Reading {
        let latency = json!({ "buckets": [[10, hits], [2000, requests - hits]] });
        Reading {
            stats: json!({
                "listen": ["http://127.0.0.1:8080"], "uptime": 3700, "now_us": seconds * 1_000_000,
                "counters": { "requests": requests, "cache_hits": hits, "cache_misses": requests - hits,
                              "client_bytes_sent": requests * 1024, "origin_requests": requests - hits },
                "latency": { "all": latency, "hit": latency },
                "routes": [{ "name": "api", "counters": { "requests": requests, "hits": hits }, "latency": latency }],
                "ram": { "used_bytes": 1_048_576, "budget_bytes": 4_194_304 }, "memory": { "rss_bytes": 52_428_800 },
            }),
            top: json!({ "total": 200, "entries": [{ "url": "http://h/a", "value": 150 }, { "url": "http://h/b", "value": 50 }] }),
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_readings() {
        let (before, now) = (reading(100, 1000, 0), reading(102, 3000, 1500));
        let picture = Picture { order: By::Requests, before: Some(&before), now: &now, interactive: true };
        let text = picture.lines(Screen::NONE).join("\n");
        for expect in [
            "requests  1 000/s",
            "hits 75.0 %",
            "sent 1.0 MiB/s",
            "origin 250/s",
            "p50 10 us",
            "p99 2.0 ms",
            "1.0 MiB of 4.0 MiB #####···············   process 50 MiB",
            "up 1 h 1 min\n",
            "[1 requests]  2 misses  3 bytes  4 origin time   q quits",
            "       150  75.0 %  http://h/a",
        ] {
            assert!(text.contains(expect), "{expect:?} is not in\n{text}");
        }
        assert!(
            text.lines().any(|it| it.starts_with("api ") && it.contains("1 000") && it.contains("75.0 %")),
            "{text}"
        );
    }

    #[test]
    fn one_reading_is_since_the_start_and_what_is_missing_is_no_matter() {
        let now = Reading { stats: json!({}), top: json!({}) };
        let picture = Picture { order: By::Bytes, before: None, now: &now, interactive: false };
        let text = picture.lines(Screen { colour: true, width: Some(20), height: Some(9) }).join("\n");
        assert!(text.contains("everything since then") && text.contains("[bytes]"), "{text}");
    }

    #[test]
    fn keys_choose_a_column() {
        let chosen = |key: u8| of_key(key).map(By::name);
        assert_eq!(
            [Some("requests"), Some("origin_time"), Some("bytes"), None],
            [b'1', b'o', b'b', b'x'].map(chosen)
        );
    }

    #[test]
    fn no_more_lines_than_the_screen_has() {
        let now = reading(5, 10, 5);
        for height in 0..30 {
            let picture = Picture { order: By::Requests, before: None, now: &now, interactive: true };
            let lines = picture.lines(Screen { colour: false, width: Some(80), height: Some(height) });
            assert!(lines.len() <= height, "{height}");
        }
    }
}
