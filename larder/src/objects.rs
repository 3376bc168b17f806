//! `larder objects`: asks a running larder what it has stored, and shows it to a person as a table. What is found, and
//! in which order, is decided there.

use crate::ask;
use crate::cli::Objects;
use larder_stdx::size::ByteSize;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// How long a listing may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most columns that a URL takes.
const URL: usize = 100;

/// Asks for one page.
///
/// # Errors
/// One sentence: nobody answers, or what is asked for is malformed.
pub fn ask(asked: &Objects) -> Result<Value, String> {
    let admin = ask::admin(asked.ask.as_ref(), None)?;
    let mut query = String::new();
    for (name, value) in &asked.query {
        let joint = if query.is_empty() { '?' } else { '&' };
        let _ = write!(query, "{joint}{name}={}", encoded(value));
    }
    ask::get(&admin, &format!("/api/v1/objects{query}"), PATIENCE)
}

/// The page as a person reads it.
#[must_use]
pub fn tell(page: &Value) -> String {
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
        let number = |name: &str| it[name].as_i64().unwrap_or(0);
        let tiers: Vec<&str> =
            it["tiers"].as_array().unwrap_or(&none).iter().filter_map(Value::as_str).collect();
        let optional =
            |name: &str, tell: &dyn Fn(i64) -> String| it[name].as_i64().map_or("-".to_owned(), tell);
        let _ = writeln!(
            out,
            "{:>6}  {:>9}  {:>8}  {:>9}  {:>8}  {:<8}  {}",
            optional("status", &|it| it.to_string()),
            ByteSize(u64::try_from(number("bytes")).unwrap_or(0)).to_string(),
            optional("age", &span),
            optional("expires_in", &|it| if it > 0 { span(it) } else { "stale".to_owned() }),
            optional("hits", &|it| it.to_string()),
            tiers.join("+"),
            shortened(it["key"].as_str().unwrap_or("")),
        );
    }
    let shown = objects.len();
    let _ = match (page["matched"].as_u64(), page["total"].as_u64().unwrap_or(0)) {
        (Some(matched), total) if matched == total => writeln!(out, "{shown} of {total} objects"),
        (Some(matched), total) => writeln!(out, "{shown} of {matched} that match, among {total} objects"),
        (None, total) => writeln!(out, "{shown} shown of {total} objects"),
    };
    out
}

/// Seconds as a person says them: the two largest units.
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

/// What a terminal may be sent of a key, in one line.
fn shortened(key: &str) -> String {
    let plain: String = key.chars().map(|it| if it.is_control() { '?' } else { it }).collect();
    match plain.char_indices().nth(URL) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

/// A value as a query has it.
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
    fn a_page_is_told_in_columns() {
        let object = json!({ "status": 200, "bytes": 2048, "age": 3725, "expires_in": -5, "hits": 12, "tiers": ["ram", "disk"],
                             "key": "http://a/\u{1b}[31m" });
        let page = json!({ "total": 9, "matched": 3, "objects": [object] });
        let expect = "STATUS       SIZE       AGE  FRESH FOR      HITS  TIERS     URL\n   \
                      200       2KiB      1h2m      stale        12  ram+disk  http://a/?[31m\n\
                      1 of 3 that match, among 9 objects\n";
        assert_eq!(expect, tell(&page));
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
