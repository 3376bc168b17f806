//! `larder tail`: one line for each request that a running larder finishes, as it does. The filter is evaluated there.

use crate::admin_client::{self, ServerEvents};
use crate::cli::{Output, TailCommand};
use crate::terminal::{self, Ink, Screen, TerminalLine, bytes, harmless, micros, url_within};
use larder_observe::log::escape;
use serde_json::Value;
use std::io::Write;

/// An end without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailEnded {
    /// The server stopped.
    Stopped,
    /// The reader of the output has gone.
    Unread,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailFailure {
    /// The filter is wrong; nothing was printed.
    Filter(String),
    /// No larder responds, or the connection broke.
    Lost(String),
}

/// Prints until the server stops, or the reader of the output has gone.
///
/// # Errors
/// One sentence.
pub fn run(order: &TailCommand, to: &mut impl Write) -> Result<TailEnded, TailFailure> {
    let admin = admin_client::admin(order.admin.as_ref(), None).map_err(TailFailure::Lost)?;
    let filter: String = order.filter.bytes().map(|it| format!("%{it:02X}")).collect();
    let path = format!("/api/v1/stream?filter={filter}");
    let mut events = ServerEvents::open(&admin, &path).map_err(|refused| match refused {
        admin_client::StreamRefusal::Asked(sentence) => TailFailure::Filter(sentence),
        admin_client::StreamRefusal::Other(sentence) => TailFailure::Lost(sentence),
    })?;
    while let Some((event, data)) = events.next_event() {
        match &*event {
            "request" => {
                let line = match order.output {
                    Output::Json => escape::tame(&data).into_owned(),
                    Output::Text => match serde_json::from_str(&data) {
                        Ok(record) => line(&record, Screen::now()),
                        Err(_) => continue,
                    },
                };
                if writeln!(to, "{line}").and_then(|()| to.flush()).is_err() {
                    return Ok(TailEnded::Unread);
                }
            }
            "lost" => {
                let count = serde_json::from_str::<Value>(&data).ok().and_then(|it| it["count"].as_u64());
                let count = count.unwrap_or(0);
                terminal::warn(&format!("{count} requests were skipped: the output was too slow"));
            }
            "end" => return Ok(TailEnded::Stopped),
            _ => {}
        }
    }
    Err(TailFailure::Lost("The connection to larder was lost.".to_owned()))
}

/// One request as text: time (UTC), status, cache result, bytes, duration, method, route and URL.
#[must_use]
pub fn line(record: &Value, screen: Screen) -> String {
    let text = |name: &str| harmless(record[name].as_str().unwrap_or(""));
    let seconds = record["time_us"].as_u64().unwrap_or(0) / 1_000_000 % 86_400;
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let status = record["status"].as_u64().unwrap_or(0);
    let ink = match status {
        200..=299 => Ink::Green,
        300..=399 => Ink::Cyan,
        400..=499 => Ink::Yellow,
        _ => Ink::Red,
    };
    // The reason says more than the word of RFC 9211.
    let cache = match record["reason"].as_str() {
        Some(reason) => harmless(reason),
        None => text("cache"),
    };
    let cache_ink = if cache.starts_with("hit") { Ink::Green } else { Ink::Plain };
    let took = record["duration_us"].as_u64().map_or("-".to_owned(), |it| micros(it as f64));
    let cut = if record["end"] == "cut" { " cut off" } else { "" };
    let size = bytes(record["bytes"].as_u64().unwrap_or(0) as f64);
    // An extended CONNECT of HTTP/2 is a GET for every rule, and is printed as its client sent it.
    let (method, connects) = match record["connect_protocol"].as_str() {
        Some(protocol) => ("CONNECT".to_owned(), format!(" :protocol {}", harmless(protocol))),
        None => (text("method"), String::new()),
    };
    let route = text("route");
    // The narrower the terminal, the more columns are for the URL: size and route are dropped first, then the time.
    let width = screen.width.unwrap_or(usize::MAX);
    let mut line = TerminalLine::new(screen);
    if width >= SMALL {
        line = line.put(Ink::Dim, &format!("{time} "));
    }
    line = line.put(ink, &format!("{status:>3}")).put(cache_ink, &format!(" {cache:<10} "));
    let size = if width >= NARROW { format!("{size:>8} ") } else { String::new() };
    line = line.put(Ink::Plain, &format!("{size}{took:>7} {method:<4} "));
    if width >= NARROW {
        line = line.put(Ink::Dim, &format!("{route} "));
    }
    let url = text("url");
    let url = screen
        .width
        .map_or(url.clone(), |_| url_within(&url, line.room().saturating_sub(cut.len() + connects.len())));
    line.put(Ink::Plain, &url).put(Ink::Dim, &connects).put(Ink::Red, cut).end()
}

/// Columns below which neither size nor route is printed.
const NARROW: usize = 72;
/// Columns below which the time of day is not printed, either.
const SMALL: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_one_line_as_wide_as_the_terminal() {
        #[track_caller]
        fn check(end: &str, width: Option<usize>, expect: &str) {
            let record = json!({
                "time_us": 1_700_000_000_123_456_u64, "status": 200, "cache": "hit", "bytes": 2048, "duration_us": 85,
                "method": "GET", "route": "api", "url": "http://h/\u{1b}list", "end": end,
            });
            assert_eq!(expect, line(&record, Screen { colour: false, width, height: None }));
        }
        let start = "22:13:20 200 hit         2.0 KiB   85 us GET  api ";
        check("whole", None, &format!("{start}http://h/?list"));
        check("whole", Some(72), &format!("{start}…/?list"));
        check("whole", Some(60), "22:13:20 200 hit          85 us GET  …/?list");
        check("whole", Some(40), "200 hit          85 us GET  …/?list");
        check("cut", Some(40), "200 hit          85 us GET  …/?… cut off");
        check("whole", Some(10), "200 hit  …");
    }

    #[test]
    fn colours_only_where_they_are_shown() {
        let record = json!({ "status": 503, "cache": "uri-miss" });
        let coloured = line(&record, Screen { colour: true, width: None, height: None });
        assert!(coloured.contains("\x1b[31m503\x1b[0m"), "{coloured:?}");
        assert!(!line(&record, Screen::NONE).contains('\x1b'));
    }
}
