//! Many pages behind one larder: each has a path of its own and says what its script says, so that a table of
//! hundreds of cases shares one process. Every request is explained first, and the prediction must come true.

use super::origin::{Script, response};
use super::{Client, Larder, Origin, Response, origin::Received};
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A larder, an origin, and the pages that the origin has.
pub struct Pages {
    /// The server under test.
    pub larder: Larder,
    /// The origin behind it.
    pub origin: Origin,
    scripts: Scripts,
    /// By how much larder's clock was moved.
    moved: Arc<AtomicI64>,
    next: AtomicUsize,
}

type Scripts = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// One page of the origin.
pub struct Page<'p> {
    /// Where it is.
    pub pages: &'p Pages,
    /// Its path, with a query if the test gave one.
    pub target: String,
}

impl Pages {
    /// An origin with no pages yet, behind a larder with a route's cache settings.
    pub fn new(cache: &str) -> Self {
        let scripts: Scripts = Arc::default();
        let moved: Arc<AtomicI64> = Arc::default();
        let (known, clock) = (scripts.clone(), moved.clone());
        let counts = Mutex::new(HashMap::<String, usize>::new());
        let origin = Origin::scripted(move |request| {
            let path = request.target().split('?').next().unwrap_or("").to_owned();
            let Some(script) = known.lock().unwrap().get(&path).cloned() else {
                return vec![Script::Send(response("HTTP/1.1 404 Not Found\n\nno such page"))];
            };
            let number = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(path).or_default();
                *count += 1;
                *count
            };
            let text = script.get(number - 1).or(script.last()).cloned().unwrap_or_default();
            answer(&text, number, clock.load(SeqCst))
        });
        let larder = Larder::before(&origin, cache);
        Self { larder, origin, scripts, moved, next: AtomicUsize::new(0) }
    }

    /// A page that gives these responses in order, the last one again and again.
    ///
    /// A response is its fields with ` | ` between, a status first where it is not 200, and ` || ` and a body at
    /// the end where the number of the response will not do: `404 | Cache-Control: max-age=60 || gone`. `@+60`
    /// is the date in 60 seconds by larder's clock. `close` is an origin that hangs up, `garbage` one that talks nonsense.
    pub fn page(&self, responses: &[&str]) -> Page<'_> {
        let target = format!("/{}", self.next.fetch_add(1, SeqCst));
        let script = responses.iter().map(|it| (*it).to_owned()).collect();
        self.scripts.lock().unwrap().insert(target.clone(), script);
        Page { pages: self, target }
    }

    /// Moves larder's clock on.
    pub fn advance(&self, seconds: i64) {
        if seconds != 0 {
            self.larder.advance(seconds);
            self.moved.fetch_add(seconds, SeqCst);
        }
    }

    /// The store's use for a second request, `seconds` after a first one with the same fields.
    #[track_caller]
    pub fn second(&self, response: &str, seconds: i64, lines: &str) -> Second {
        let page = self.page(&[response]);
        page.get(lines);
        self.advance(seconds);
        page.get_again(lines)
    }

    /// The verdict of `explain` about a request.
    pub fn predict(&self, method: &str, target: &str, lines: &str) -> String {
        let headers: Vec<Value> = split(lines).map(|(name, value)| json!([name, value])).collect();
        let body =
            json!({ "url": format!("http://h{target}"), "method": method, "headers": headers }).to_string();
        let mut client = Client::connect(self.larder.admin);
        let (lines, length) = (self.larder.admin_lines(), body.len());
        client.send(format!(
            "POST /cache/explain HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let text = client.read().text();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|it| panic!("{it}: {text}"));
        value["verdict"]["name"].as_str().unwrap_or_else(|| panic!("no verdict: {text}")).to_owned()
    }
}

/// `Name: value | Name: value` as pairs.
fn split(lines: &str) -> impl Iterator<Item = (&str, &str)> {
    lines.split(" | ").filter_map(|it| it.split_once(':')).map(|(name, value)| (name.trim(), value.trim()))
}

fn answer(text: &str, number: usize, moved: i64) -> Vec<Script> {
    match text {
        "close" => return vec![Script::Close],
        "garbage" => return vec![Script::Send(b"HTTP/9 what\r\n\r\n".to_vec())],
        _ => {}
    }
    let (head, body) = match text.split_once(" || ") {
        Some((head, body)) => (head, body.to_owned()),
        None => (text, format!("answer {number}")),
    };
    let mut parts = head.split(" | ").filter(|it| !it.is_empty()).peekable();
    let status = parts.next_if(|it| it.len() == 3 && it.parse::<u16>().is_ok()).unwrap_or("200");
    let mut lines = format!("HTTP/1.1 {status} X\n");
    for it in parts {
        lines.push_str(&dated(it, moved));
        lines.push('\n');
    }
    let body = if matches!(status, "204" | "304") { String::new() } else { body };
    vec![Script::Send(response(&format!("{lines}\n{body}")))]
}

/// `@+60` as a date by larder's clock.
fn dated(line: &str, moved: i64) -> String {
    let Some((before, rest)) = line.split_once('@') else { return line.to_owned() };
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != '+' && it != '-').unwrap_or(rest.len());
    let Ok(seconds) = rest[..end].parse::<i64>() else { return line.to_owned() };
    let time = date::format(WallTime(super::begun().saturating_add_signed(moved + seconds)));
    format!("{before}{time}{}", &rest[end..])
}

/// The outcome of a second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// The store answered.
    Hit,
    /// The store answered with what was stale.
    Stale,
    /// The origin was asked without condition.
    Miss,
    /// The origin was asked whether it still holds.
    Validates,
}

impl Page<'_> {
    /// GETs it, and says what became of that.
    #[track_caller]
    pub fn get_again(&self, lines: &str) -> Second {
        let before = self.requests();
        let response = self.get(lines);
        assert!(response.complete, "{response:?}");
        let ttl = response.cache().rsplit_once("hit; ttl=").and_then(|it| it.1.parse::<i64>().ok());
        let asked = self.received().get(before).cloned();
        match (ttl, asked) {
            (Some(1..), None) => Second::Hit,
            (Some(_), _) => Second::Stale,
            (None, Some(asked)) if asked.field("if-none-match").is_some() => Second::Validates,
            (None, Some(asked)) if asked.field("if-modified-since").is_some() => Second::Validates,
            (None, Some(_)) => Second::Miss,
            (ttl, asked) => panic!("neither the store nor the origin: {ttl:?} {asked:?} {response:?}"),
        }
    }
    /// GETs it with these fields (` | ` between).
    #[track_caller]
    pub fn get(&self, lines: &str) -> Response {
        self.request("GET", lines, "")
    }

    /// Sends any request for it, after `explain` has predicted the outcome; the prediction must come true.
    #[track_caller]
    pub fn request(&self, method: &str, lines: &str, body: &str) -> Response {
        let lines = &lines
            .split(" | ")
            .map(|it| dated(it, self.pages.moved.load(SeqCst)))
            .collect::<Vec<_>>()
            .join(" | ");
        let predicted = self.pages.predict(method, &self.target, lines);
        let before = self.received().len();
        let response = self.ask_unexplained(method, lines, body);
        let asked = self.received().get(before).cloned();
        let observed = observed(&response, asked.as_ref(), lines);
        assert!(
            observed.contains(&predicted.as_str()),
            "explain says {predicted}, observed {observed:?}: {method} {} {lines}\n{response:?}\n{asked:?}",
            self.target
        );
        response
    }

    /// The same without explaining: for what explain cannot see, such as another request in flight.
    pub fn ask_unexplained(&self, method: &str, lines: &str, body: &str) -> Response {
        let lines: String = split(lines).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.pages.larder.client().request(method, &self.target, &lines, body)
    }

    /// The same page with a query.
    pub fn with_query(&self, query: &str) -> Self {
        Page { pages: self.pages, target: format!("{}?{query}", self.target) }
    }

    /// The origin's requests for it.
    pub fn received(&self) -> Vec<Received> {
        let path = self.target.split('?').next().unwrap_or("");
        let mut all = self.pages.origin.received();
        all.retain(|it| it.target().split('?').next() == Some(path));
        all
    }

    /// How often the origin was asked for it.
    pub fn requests(&self) -> usize {
        self.received().len()
    }
}

/// The verdicts of `explain` that what happened agrees with.
fn observed(response: &Response, asked: Option<&Received>, lines: &str) -> Vec<&'static str> {
    let lower = lines.to_ascii_lowercase();
    let own = lower.contains("if-") && lower.contains("match:") || lower.contains("since:");
    let conditional =
        |it: &Received| it.field("if-none-match").is_some() || it.field("if-modified-since").is_some();
    let cache = response.cache().rsplit(", ").next().unwrap_or("");
    let ttl = cache.split_once("ttl=").and_then(|it| it.1.parse::<i64>().ok());
    match (ttl, cache) {
        (Some(1..), _) => vec!["hit"],
        (Some(_), _) => vec!["stale-hit"],
        _ if cache.contains("fwd=bypass") || cache.contains("fwd=method") => vec!["pass"],
        _ if own && asked.is_some() => vec!["revalidate", "miss"],
        _ if asked.is_some_and(conditional) => vec!["revalidate"],
        _ if asked.is_some() => vec!["miss"],
        _ if response.status == 504 => vec!["gateway-timeout"],
        _ => vec!["nothing"],
    }
}
