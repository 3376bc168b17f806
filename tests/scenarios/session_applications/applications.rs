//! The corpus: heads as frameworks send them, with every kind of validator, and visitors who are known by a cookie, by a token, or not
//! at all.

use super::Trouble;
use crate::harness::origin::{Gate, Received, Script};
use std::sync::{Arc, Mutex};

/// A long time ago, so that a heuristic lifetime is a long one.
pub const MODIFIED: &str = "Thu, 01 Jan 2015 00:00:00 GMT";

/// By what an application knows its visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitor {
    Cookie(&'static str),
    Bearer(&'static str),
    Basic(&'static str),
    Stranger,
}

impl Visitor {
    pub const ALL: [Visitor; 3] = [Visitor::Cookie("anna"), Visitor::Cookie("berta"), Visitor::Stranger];

    pub fn name(self) -> &'static str {
        match self {
            Visitor::Cookie(name) | Visitor::Bearer(name) | Visitor::Basic(name) => name,
            Visitor::Stranger => "stranger",
        }
    }

    /// The field that says so.
    pub fn lines(self) -> String {
        match self {
            Visitor::Cookie(name) => format!("Cookie: _ga=GA1.1; connect.sid=s%3A{name}.sig\r\n"),
            Visitor::Bearer(name) => format!("Authorization: Bearer {name}\r\n"),
            Visitor::Basic(name) => format!("Cookie: theme=dark\r\nAuthorization: Basic {name}\r\n"),
            Visitor::Stranger => String::new(),
        }
    }

    fn of(request: &Received) -> &'static str {
        let text = [request.field("cookie"), request.field("authorization")];
        let knows = |name: &&&str| text.iter().flatten().any(|it| it.contains(**name));
        ["anna", "berta"].iter().find(knows).copied().unwrap_or("stranger")
    }
}

/// What tells whether a page has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validator {
    None,
    /// A weak tag of the bytes, as Express makes it.
    Weak,
    Strong,
    /// A tag of the release, the same for all visitors.
    Release,
    Date,
    Both,
}

const VALIDATORS: [Validator; 6] = [
    Validator::None,
    Validator::Weak,
    Validator::Strong,
    Validator::Release,
    Validator::Date,
    Validator::Both,
];

/// Name and head of each behaviour.
const HEADS: &[(&str, &str)] = &[
    ("express", "X-Powered-By: Express\r\nVary: Accept-Encoding\r\nKeep-Alive: timeout=5\r\n"),
    ("express-max-age-0", "X-Powered-By: Express\r\nVary: Accept-Encoding\r\nCache-Control: max-age=0\r\n"),
    (
        "express-expired",
        "X-Powered-By: Express\r\nVary: Accept-Encoding\r\nExpires: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
    ),
    ("expires-0", "Expires: 0\r\n"),
    // By its own `Date` it was fresh for an hour, years ago.
    (
        "expired-with-its-date",
        "Date: Fri, 02 Jan 2015 00:00:00 GMT\r\nExpires: Fri, 02 Jan 2015 01:00:00 GMT\r\n",
    ),
    ("expires-minus-1", "Expires: -1\r\nPragma: no-cache\r\n"),
    ("silent", ""),
    ("flask", "Server: gunicorn\r\nVary: Cookie\r\n"),
    ("flask-silent", "Server: Werkzeug/3.0.3 Python/3.12.3\r\n"),
    (
        "rails",
        "Cache-Control: max-age=0, private, must-revalidate\r\nX-Request-Id: 5d1\r\nX-Runtime: 0.002\r\n",
    ),
    ("rails-silent", "X-Request-Id: 5d1\r\nX-Runtime: 0.002\r\nVary: Accept\r\n"),
    ("rails-no-cache", "Cache-Control: no-cache\r\n"),
    ("rails-revalidate", "Cache-Control: max-age=0, must-revalidate\r\n"),
    ("revalidate", "Cache-Control: must-revalidate\r\n"),
    ("proxy-revalidate", "Cache-Control: proxy-revalidate, max-age=0\r\n"),
    ("s-maxage-0", "Cache-Control: s-maxage=0\r\n"),
    ("stale-allowed", "Cache-Control: max-age=0, stale-if-error=600, stale-while-revalidate=600\r\n"),
    ("no-cache-max-age", "Cache-Control: no-cache, max-age=600\r\n"),
    (
        "php-nocache",
        "X-Powered-By: PHP/8.2.7\r\nExpires: Thu, 19 Nov 1981 08:52:00 GMT\r\n\
         Cache-Control: no-store, no-cache, must-revalidate\r\nPragma: no-cache\r\n",
    ),
    ("php-private", "Expires: Thu, 19 Nov 1981 08:52:00 GMT\r\nCache-Control: private, max-age=10800\r\n"),
    ("php-none", "X-Powered-By: PHP/8.2.7\r\n"),
    ("php-old", "Expires: Thu, 19 Nov 1981 08:52:00 GMT\r\nCache-Control: no-cache\r\nPragma: no-cache\r\n"),
    ("laravel", "Cache-Control: no-cache, private\r\n"),
    (
        "spring",
        "Cache-Control: no-cache, no-store, max-age=0, must-revalidate\r\nPragma: no-cache\r\nExpires: 0\r\n",
    ),
    ("asp", "Cache-Control: private\r\n"),
    ("targeted", "CDN-Cache-Control: max-age=0\r\nCache-Control: max-age=600\r\n"),
];

/// One page of the corpus.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    behaviour: usize,
    validator: Validator,
    number: usize,
    /// Who asks for it: the first, and then those who must not see that.
    pub visitors: [Visitor; 3],
}

/// Every behaviour with every validator, for visitors with cookies and with tokens.
pub fn pages() -> Vec<Page> {
    let mut all = Vec::new();
    let known_by = [
        [Visitor::Cookie("anna"), Visitor::Cookie("berta"), Visitor::Stranger],
        [Visitor::Bearer("anna"), Visitor::Bearer("berta"), Visitor::Stranger],
        [Visitor::Basic("anna"), Visitor::Cookie("berta"), Visitor::Stranger],
    ];
    for behaviour in 0..HEADS.len() {
        for (at, validator) in VALIDATORS.into_iter().enumerate() {
            // With cookies each, with the others in turn.
            for visitors in [known_by[0], known_by[1 + (behaviour + at) % 2]] {
                all.push(Page { behaviour, validator, number: all.len(), visitors });
            }
        }
    }
    all
}

impl Page {
    /// Where it is.
    pub fn target(&self) -> String {
        format!("/{}/{:?}/{}", HEADS[self.behaviour].0, self.validator, self.number)
    }

    pub fn body(&self, visitor: Visitor) -> String {
        body(visitor.name())
    }

    /// The entity tag of what a visitor is shown.
    pub fn tag(&self, visitor: Visitor) -> Option<String> {
        tag(self.validator, visitor.name())
    }

    /// Whether the application goes by a date.
    pub fn is_dated(&self) -> bool {
        matches!(self.validator, Validator::Date | Validator::Both)
    }
}

/// Of one length for all, so that nothing but the bytes tells one from another.
fn body(name: &str) -> String {
    format!("<h1>The account of {name:.<9}</h1><p>Balance: 12</p>")
}

fn tag(validator: Validator, name: &str) -> Option<String> {
    // No name stands in it: what is compared byte for byte must not look like a leak.
    let digest = name.bytes().fold(7u32, |sum, it| sum.wrapping_mul(31).wrapping_add(it.into()));
    match validator {
        Validator::None | Validator::Date => None,
        Validator::Weak => Some(format!("W/\"3a-{digest:x}\"")),
        Validator::Strong | Validator::Both => Some(format!("\"{digest:x}\"")),
        Validator::Release => Some("\"v17\"".to_owned()),
    }
}

/// The part of an answer that is held back.
#[derive(Clone, Copy)]
pub enum Held {
    Head,
    Body,
}

/// The state of the origin.
#[derive(Clone)]
pub struct Site(Arc<Mutex<State>>);

struct State {
    trouble: Trouble,
    held: Option<(Held, Arc<Gate>)>,
}

impl Default for Site {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { trouble: Trouble::None, held: None })))
    }
}

impl Site {
    /// Sets the fault of the next requests.
    pub fn set(&self, trouble: Trouble) {
        self.0.lock().unwrap().trouble = trouble;
    }

    pub fn trouble_name(&self) -> String {
        match &self.0.lock().unwrap().trouble {
            Trouble::None => "well".to_owned(),
            Trouble::Status(status) => status.to_string(),
            Trouble::Close => "close".to_owned(),
            Trouble::Hang(_) => "hang".to_owned(),
        }
    }

    /// Holds back every answer.
    pub fn hold(&self, held: Held, gate: Arc<Gate>) {
        self.0.lock().unwrap().held = Some((held, gate));
    }

    /// No longer.
    pub fn release(&self) {
        if let Some((_, gate)) = self.0.lock().unwrap().held.take() {
            gate.open();
        }
    }

    /// The application's answer to a request.
    pub fn answer(&self, request: &Received) -> Vec<Script> {
        let (trouble, held) = {
            let state = self.0.lock().unwrap();
            (state.trouble.clone(), state.held.clone())
        };
        match trouble {
            Trouble::None => {}
            Trouble::Status(status) => {
                let text = format!("HTTP/1.1 {status} Oops\n\nsomething went wrong");
                return vec![Script::Send(crate::harness::origin::response(&text))];
            }
            Trouble::Close => return vec![Script::Close],
            Trouble::Hang(gate) => return vec![Script::Gate(gate), Script::Close],
        }
        let whole = page(request);
        let end = whole.windows(4).position(|it| it == b"\r\n\r\n").map_or(whole.len(), |it| it + 4);
        match held {
            None => vec![Script::Send(whole)],
            Some((Held::Head, gate)) => vec![Script::Gate(gate), Script::Send(whole)],
            Some((Held::Body, gate)) => vec![
                Script::Send(whole[..end].to_vec()),
                Script::Gate(gate),
                Script::Send(whole[end..].to_vec()),
            ],
        }
    }
}

/// The answer of an application that is well: 200, 206 or 304.
fn page(request: &Received) -> Vec<u8> {
    let mut parts = request.target().split('/').skip(1);
    let (behaviour, validator) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let head = HEADS.iter().find(|it| it.0 == behaviour).map_or("", |it| it.1);
    let validator =
        VALIDATORS.into_iter().find(|it| format!("{it:?}") == validator).unwrap_or(Validator::None);
    let name = Visitor::of(request);
    let (body, tag) = (body(name), tag(validator, name));
    let dated = matches!(validator, Validator::Date | Validator::Both);
    let mut fields = format!("{head}Content-Type: text/html; charset=utf-8\r\nX-Account: {name}\r\n");
    if let Some(tag) = &tag {
        fields.push_str(&format!("ETag: {tag}\r\n"));
    }
    if dated {
        fields.push_str(&format!("Last-Modified: {MODIFIED}\r\n"));
    }
    let same_tag = tag
        .as_ref()
        .is_some_and(|tag| request.field("if-none-match").is_some_and(|it| it.contains(tag.as_str())));
    let same_date = dated
        && request.field("if-none-match").is_none()
        && request.field("if-modified-since") == Some(MODIFIED);
    if same_tag || same_date {
        return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes();
    }
    let range_holds = request.field("if-range").is_none_or(|it| Some(it) == tag.as_deref());
    let part = match request.field("range").filter(|_| range_holds) {
        Some("bytes=0-3") => Some((0, 3)),
        Some("bytes=2-") => Some((2, body.len() - 1)),
        _ => None,
    };
    match part {
        Some((from, to)) => format!(
            "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {from}-{to}/{}\r\nContent-Length: {}\r\n\r\n{}",
            body.len(),
            to + 1 - from,
            &body[from..=to]
        ),
        None => format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()),
    }
    .into_bytes()
}
