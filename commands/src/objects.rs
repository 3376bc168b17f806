//! `larder objects`: requests the list of stored responses from a running larder, and prints it as a table. The search
//! and the order are done there.

use crate::admin_client;
use crate::cli::Objects;
use crate::terminal::{Screen, bytes, harmless, url_within};
use larder_stdx::clock;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of a listing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The time for which one call searches the disk, page after page, before it prints its progress.
const LOOKING: Duration = Duration::from_secs(10);

/// The default number of objects, as in the admin.
const LIMIT: usize = 100;

/// The most columns of a URL without a terminal.
const URL: usize = 100;

/// The fewest columns of a URL, even if lines are wrapped.
const LEAST: usize = 16;

/// Requests one page. The disk is searched a part at a time: this continues until the page is full, everything was
/// searched, or `LOOKING` has passed.
///
/// # Errors
/// One sentence: no larder responds, or the query is malformed.
pub fn request(asked: &Objects) -> Result<Value, String> {
    let admin = admin_client::admin(asked.admin.as_ref(), None)?;
    let limit =
        asked.query.iter().find(|it| it.0 == "limit").and_then(|it| it.1.parse().ok()).unwrap_or(LIMIT);
    let page_of = |query: &[(&str, String)]| {
        admin_client::get(&admin, &format!("/api/v1/objects{}", written(query)), TIMEOUT)
    };
    let mut page = page_of(&asked.query)?;
    let until = clock::precise_micros() + u64::try_from(LOOKING.as_micros()).unwrap_or(u64::MAX);
    while let (Some(next), Some(room)) = (page["next"].as_str(), room(&page, limit)) {
        if clock::precise_micros() > until {
            break;
        }
        let mut query: Vec<(&str, String)> = asked.query.clone();
        query.retain(|it| !matches!(it.0, "cursor" | "limit"));
        query.extend([("cursor", next.to_owned()), ("limit", room.to_string())]);
        let more = page_of(&query)?;
        join(&mut page, more);
    }
    Ok(page)
}

/// The number of objects that fit into a page, if any.
fn room(page: &Value, limit: usize) -> Option<usize> {
    let shown = page["objects"].as_array().map_or(0, Vec::len);
    limit.checked_sub(shown).filter(|it| *it > 0)
}

/// Appends a page to the one before. Objects in RAM are counted in the first.
fn join(page: &mut Value, mut more: Value) {
    let number = |it: &Value| it.as_u64().unwrap_or(0);
    page["took_us"] = (number(&page["took_us"]) + number(&more["took_us"])).into();
    let looked_at = number(&page["disk"]["looked_at"]) + number(&more["disk"]["looked_at"]);
    (page["disk"], page["next"]) = (more["disk"].take(), more["next"].take());
    if page["disk"].is_object() {
        page["disk"]["looked_at"] = looked_at.into();
    }
    if let (Some(all), Value::Array(objects)) = (page["objects"].as_array_mut(), more["objects"].take()) {
        all.extend(objects);
    }
}

fn written(query: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (name, value) in query {
        let joint = if out.is_empty() { '?' } else { '&' };
        let _ = write!(out, "{joint}{name}={}", encoded(value));
    }
    out
}

/// The page as text.
#[must_use]
pub fn render(page: &Value, screen: Screen) -> String {
    let none = Vec::new();
    let objects = page["objects"].as_array().unwrap_or(&none);
    let mut out = String::new();
    if !objects.is_empty() {
        let _ = writeln!(
            out,
            "{:>6}  {:>9}  {:>8}  {:>9}  {:>8}  {:<8}  URL",
            "STATUS", "SIZE", "AGE", "FRESH FOR", "HITS", "TIERS"
        );
    }
    for it in objects {
        let tiers: Vec<&str> =
            it["tiers"].as_array().unwrap_or(&none).iter().filter_map(Value::as_str).collect();
        let optional =
            |name: &str, tell: &dyn Fn(i64) -> String| it[name].as_i64().map_or("-".to_owned(), tell);
        let start = format!(
            "{:>6}  {:>9}  {:>8}  {:>9}  {:>8}  {:<8}  ",
            optional("status", &|it| it.to_string()),
            bytes(it["bytes"].as_f64().unwrap_or(0.0)),
            optional("age", &span),
            optional("expires_in", &|it| if it > 0 { span(it) } else { "stale".to_owned() }),
            optional("hits", &|it| it.to_string()),
            tiers.join("+"),
        );
        let key = harmless(it["key"].as_str().unwrap_or(""));
        let room = screen.width.map_or(URL, |it| it.saturating_sub(start.chars().count()).max(LEAST));
        let _ = writeln!(out, "{start}{}", url_within(&key, room));
    }
    let below = objects.iter().filter(|it| it["tiers"][0] == "disk").count();
    let shown = objects.len() - below;
    let (matched, total) = (page["matched"].as_u64().unwrap_or(0), page["total"].as_u64().unwrap_or(0));
    let _ = match matched == total {
        true => write!(out, "{shown} of {total} objects in RAM"),
        false => write!(out, "{shown} of {matched} matches, {total} objects in RAM"),
    };
    let disk = |name: &str| page["disk"][name].as_u64();
    let _ = match (disk("objects"), disk("left")) {
        (Some(_), Some(0)) => writeln!(out, "; {below} on disk only"),
        (Some(all), Some(left)) => {
            writeln!(out, "; {below} on disk only; {left} of {all} on disk are not searched yet")
        }
        _ => writeln!(out),
    };
    if let Some(next) = page["next"].as_str() {
        let _ = writeln!(out, "Next page: --cursor {next}");
    }
    out
}

/// Seconds in their two largest units.
fn span(seconds: i64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let Some(at) = units.iter().position(|it| seconds >= it.0) else { return "0s".to_owned() };
    let (large, name) = units[at];
    let rest = units.get(at + 1).map(|it| ((seconds % large) / it.0, it.1)).filter(|it| it.0 > 0);
    match rest {
        Some((count, small)) => format!("{}{name}{count}{small}", seconds / large),
        None => format!("{}{name}", seconds / large),
    }
}

/// A value encoded for a query.
fn encoded(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'*' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_of_objects_is_printed_in_columns() {
        let object = json!({ "status": 200, "bytes": 2048, "age": 3725, "expires_in": -5, "hits": 12, "tiers": ["ram", "disk"],
                             "key": "http://a/\u{1b}[31m" });
        let page = json!({ "total": 9, "matched": 3, "objects": [object] });
        let expect = "STATUS       SIZE       AGE  FRESH FOR      HITS  TIERS     URL\n   200    2.0 KiB      1h2m      stale        12  ram+disk  http://a/?[31m\n1 of 3 matches, 9 objects in RAM\n";
        assert_eq!(expect, render(&page, Screen::NONE));
        let narrow = render(&page, Screen { colour: false, width: Some(70), height: None });
        assert!(narrow.lines().next().is_some_and(|it| it.len() < 70), "{narrow}");
        let long = json!({ "status": 200, "key": "http://a.example/one/page" });
        let rendered =
            render(&json!({ "objects": [long] }), Screen { colour: false, width: Some(80), height: None });
        assert!(rendered.lines().nth(1).is_some_and(|it| it.ends_with("  …/one/page")), "{rendered}");
    }

    #[test]
    fn objects_that_were_not_searched_are_counted_in_the_output() {
        let page = |left: u64, next: Value| {
            json!({ "total": 0, "matched": 0, "objects": [{ "tiers": ["disk"] }], "next": next,
                                                    "disk": { "objects": 9, "looked_at": 9 - left, "left": left } })
        };
        let end = |page: Value| render(&page, Screen::NONE).lines().skip(2).collect::<Vec<_>>().join("|");
        assert_eq!("0 of 0 objects in RAM; 1 on disk only", end(page(0, Value::Null)));
        let more = "0 of 0 objects in RAM; 1 on disk only; 5 of 9 on disk are not searched yet|Next page: --cursor dw.3.7";
        assert_eq!(more, end(page(5, json!("dw.3.7"))));
        let mut both = page(5, json!("dw.3.7"));
        join(&mut both, page(2, Value::Null));
        let disk = &both["disk"];
        assert_eq!(
            (2, Some(11), Some(2)),
            (both["objects"].as_array().unwrap().len(), disk["looked_at"].as_u64(), disk["left"].as_u64())
        );
        assert_eq!(None, both["next"].as_str());
    }

    #[test]
    fn spans_have_two_units() {
        let all = [0, 59, 60, 61, 3600, 90_000, 200_000];
        assert_eq!(["0s", "59s", "1m", "1m1s", "1h", "1d1h", "2d7h"].map(str::to_owned), all.map(span));
    }

    #[test]
    fn a_search_survives_the_query() {
        assert_eq!("/a%20b%26c%3D%25*%C3%BC", encoded("/a b&c=%*ü"));
    }
}
