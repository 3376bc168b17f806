//! The pages of the site and their caching rules. Pure except [`DemoSite`], the data that visitors change.

use super::image;
use super::shell::PageShell;
use super::words::{self, DemoRecipe, RECIPES, SHELVES};
use larder_stdx::html::escape;
use std::fmt::Write as _;

/// The most lines of the guest book that are kept.
const GUESTS: usize = 50;
/// The date of the recipes: their `Last-Modified`.
pub const WRITTEN: u64 = 1_767_225_600;

/// The data that visitors have changed.
#[derive(Debug, Default)]
pub struct DemoSite {
    /// Name and text, newest first.
    guests: Vec<(String, String)>,
    /// The dish of the day fails.
    kitchen_is_shut: bool,
}

/// A request, as far as the site evaluates it.
pub struct DemoRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    /// The value of the cookie `session`; empty without.
    pub session: &'a str,
    /// `Accept-Language`.
    pub language: &'a str,
    /// The body of a form.
    pub form: &'a str,
    /// Seconds since 1970.
    pub now: u64,
}

/// The response of the site.
pub struct DemoPage {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: DemoBody,
    /// `Cache-Control`.
    pub cache_control: &'static str,
    /// Whether it is made slowly, like a page, or at once, like a file.
    pub pace: DemoPace,
    /// The value of `ETag`; `None` sends neither it nor `Last-Modified`.
    pub version: Option<String>,
}

/// The duration of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoPace {
    Page,
    File,
}

pub enum DemoBody {
    Page(PageShell),
    Bytes(&'static str, Vec<u8>),
    /// Parts of a page that are sent one by one, each as slowly as a page.
    Drip(Vec<String>),
    None,
}

impl DemoSite {
    /// Answers a request.
    pub fn answer(&mut self, request: &DemoRequest<'_>) -> DemoPage {
        match (request.method, request.path) {
            ("GET" | "HEAD", _) => self.render(request),
            ("POST", "/guestbook") => {
                let (name, text) = (parameter(request.form, "name"), parameter(request.form, "text"));
                self.guests.insert(0, (name.chars().take(40).collect(), text.chars().take(200).collect()));
                self.guests.truncate(GUESTS);
                see_other("/guestbook", None)
            }
            ("POST", "/kitchen") => {
                self.kitchen_is_shut = parameter(request.form, "is") == "shut";
                see_other("/kitchen", None)
            }
            ("POST", "/login") => {
                let name: String = parameter(request.form, "name")
                    .chars()
                    .filter(char::is_ascii_alphanumeric)
                    .take(20)
                    .collect();
                see_other("/me", Some(format!("session={name}; Path=/; HttpOnly; SameSite=Lax")))
            }
            ("POST", "/logout") => see_other("/me", Some("session=; Path=/; Max-Age=0".to_owned())),
            _ => DemoPage { status: 405, fields: vec![("Allow", "GET, HEAD".to_owned())], ..missing() },
        }
    }

    fn render(&self, request: &DemoRequest<'_>) -> DemoPage {
        if let Some(number) = number_in(request.path, "/recipes/", "") {
            return words::recipe(number).map_or_else(missing, |it| recipe(&it));
        }
        if let Some(number) = number_in(request.path, "/drawings/", ".svg") {
            return picture("image/svg+xml", number, |it| image::svg(it).into_bytes());
        }
        if let Some(number) = number_in(request.path, "/photos/", ".png") {
            return picture("image/png", number, image::png);
        }
        if let Some(shelf) = request.path.strip_prefix("/shelves/") {
            let index = SHELVES.iter().position(|it| it.replace(' ', "-") == shelf);
            return index.map_or_else(missing, |it| page(SHELVES[it], shelf_of(it), "max-age=300"));
        }
        match request.path {
            "/" => DemoPage { version: Some("home".to_owned()), ..page("Welcome", home(), "max-age=60") },
            "/shelves" => page("Shelves", shelves(), "max-age=600"),
            "/search" => page("Search", search(request.query), "max-age=60"),
            "/now" => page("Now", now(request.now), "max-age=3, stale-while-revalidate=30"),
            "/hello" => hello(request.language),
            "/me" => me(request.session),
            "/basket" => page("Basket", basket(request.now), "no-store"),
            "/guestbook" => page("Guest book", self.guestbook(), "max-age=300"),
            "/special" => self.special(request.now),
            "/kitchen" => page("The kitchen", self.kitchen(), "no-store"),
            "/stream" => stream(),
            "/robots.txt" => {
                text("text/plain", "User-agent: *\nAllow: /\nSitemap: /sitemap.xml\n".to_owned())
            }
            "/sitemap.xml" => text("application/xml", sitemap()),
            _ => missing(),
        }
    }

    fn guestbook(&self) -> String {
        let mut out = String::from(
            "<h1>Guest book</h1><p>Cached for five minutes, unless somebody writes: a POST invalidates the page, so that its \
             author sees it at once.</p><form class=\"card\" method=\"post\"><input name=\"name\" placeholder=\"Your name\" required> \
             <input name=\"text\" placeholder=\"Something kind\" size=\"40\" required> <button>Write</button></form>",
        );
        for (name, text) in &self.guests {
            let _ = write!(out, "<div class=\"card\"><b>{}</b><br>{}</div>", escape(name), escape(text));
        }
        if self.guests.is_empty() {
            out.push_str("<p class=\"dim\">Nobody has written yet.</p>");
        }
        out
    }

    fn special(&self, now: u64) -> DemoPage {
        if self.kitchen_is_shut {
            let main =
                "<h1>The kitchen is shut</h1><p>The site answers 503. What larder still has, it serves.</p>"
                    .to_owned();
            return DemoPage { status: 503, ..page("Shut", main, "no-store") };
        }
        let dish = words::recipe(u32::try_from(now / 5 % u64::from(RECIPES)).unwrap_or(0) + 1);
        let name = dish.map_or_else(String::new, |it| it.name);
        let main = format!(
            "<h1>Dish of the day</h1><p class=\"big\">{}</p><p>Kept for five seconds. <a href=\"/kitchen\">Shut the kitchen</a>, wait, \
             and reload this page: it is served stale while the site fails.</p>",
            escape(&name)
        );
        page("Dish of the day", main, "max-age=5")
    }

    fn kitchen(&self) -> String {
        let (state, other) = if self.kitchen_is_shut { ("shut", "open") } else { ("open", "shut") };
        format!(
            "<h1>The kitchen is {state}</h1><p>While it is shut, the <a href=\"/special\">dish of the day</a> answers 503.</p>\
             <form method=\"post\"><button name=\"is\" value=\"{other}\">Make it {other}</button></form>"
        )
    }
}

fn page(title: &str, main: String, cache_control: &'static str) -> DemoPage {
    let body = DemoBody::Page(PageShell { title: title.to_owned(), main });
    DemoPage { status: 200, fields: Vec::new(), body, cache_control, pace: DemoPace::Page, version: None }
}

fn missing() -> DemoPage {
    let main =
        "<h1>Not on any shelf</h1><p>There is no such page. That, too, is remembered for 30 seconds.</p>"
            .to_owned();
    DemoPage { status: 404, ..page("Not found", main, "max-age=30") }
}

fn see_other(to: &str, cookie: Option<String>) -> DemoPage {
    let mut fields = vec![("Location", to.to_owned())];
    fields.extend(cookie.map(|it| ("Set-Cookie", it)));
    DemoPage {
        status: 303,
        fields,
        body: DemoBody::None,
        cache_control: "no-store",
        pace: DemoPace::File,
        version: None,
    }
}

fn text(kind: &'static str, text: String) -> DemoPage {
    let body = DemoBody::Bytes(kind, text.into_bytes());
    DemoPage { body, pace: DemoPace::File, ..page("", String::new(), "max-age=3600") }
}

fn picture(kind: &'static str, number: u32, make: impl Fn(u32) -> Vec<u8>) -> DemoPage {
    if words::recipe(number).is_none() {
        return missing();
    }
    let answer = page("", String::new(), "max-age=86400, immutable");
    DemoPage {
        body: DemoBody::Bytes(kind, make(number)),
        pace: DemoPace::File,
        version: Some(format!("p{number}")),
        ..answer
    }
}

fn card(out: &mut String, it: &DemoRecipe) {
    let _ = write!(
        out,
        "<li><a href=\"/recipes/{0}\"><img src=\"/drawings/{0}.svg\" alt=\"\" loading=\"lazy\"><span>{1}</span></a></li>",
        it.number,
        escape(&it.name)
    );
}

fn home() -> String {
    let mut out = format!(
        "<h1>{RECIPES} recipes, each slowly made</h1><p>This site takes about 300 ms for every page, as many do. With larder in \
         front of it, only the first visitor waits. Look at the foot of each page, and reload.</p><ul class=\"grid\">"
    );
    words::recipes().step_by(27).for_each(|it| card(&mut out, &it));
    out.push_str(
        "</ul><h2>Pages with a will of their own</h2><ul><li><a href=\"/now\">Now</a>: changes every three seconds, served stale \
         while it is made anew</li><li><a href=\"/hello\">Hello</a>: one page for each language</li><li><a href=\"/stream\">Stream</a>: \
         comes in eight parts; a second visitor joins while it comes</li><li><a href=\"/me\">Your page</a>: private</li>\
         <li><a href=\"/kitchen\">The kitchen</a>: make the site fail, and see what happens</li></ul>",
    );
    out
}

fn shelves() -> String {
    let mut out = String::from("<h1>Shelves</h1><ul class=\"grid\">");
    for (index, name) in SHELVES.iter().enumerate() {
        let _ = write!(
            out,
            "<li><a href=\"/shelves/{}\"><img src=\"/drawings/{}.svg\" alt=\"\"><span>{name}</span></a></li>",
            name.replace(' ', "-"),
            index + 1
        );
    }
    out + "</ul>"
}

fn shelf_of(index: usize) -> String {
    let mut out = format!("<h1>The {} shelf</h1><ul class=\"grid\">", SHELVES[index]);
    words::recipes().filter(|it| it.shelf == index).for_each(|it| card(&mut out, &it));
    out + "</ul>"
}

fn recipe(it: &DemoRecipe) -> DemoPage {
    let mut main = format!(
        "<h1>{}</h1><div class=\"two\"><div><img src=\"/photos/{}.png\" alt=\"\"></div><div><p>{} minutes. Goes with {}. From the \
         <a href=\"/shelves/{}\">{} shelf</a>.</p><ol>",
        escape(&it.name),
        it.number,
        it.minutes,
        it.companion,
        SHELVES[it.shelf].replace(' ', "-"),
        SHELVES[it.shelf]
    );
    for step in &it.steps {
        let _ = write!(main, "<li>{step}</li>");
    }
    let (before, after) = ((it.number + RECIPES - 2) % RECIPES + 1, it.number % RECIPES + 1);
    let _ = write!(
        main,
        "</ol><p><a href=\"/recipes/{before}\">← before</a> · <a href=\"/recipes/{after}\">after →</a></p></div></div>"
    );
    DemoPage {
        version: Some(format!("r{}", it.number)),
        ..page(&it.name, main, "max-age=300, stale-while-revalidate=60")
    }
}

fn search(query: &str) -> String {
    let wanted = parameter(query, "q");
    let from: usize = parameter(query, "page").parse().unwrap_or(1).clamp(1, 100) - 1;
    let word = wanted.to_lowercase();
    let found: Vec<DemoRecipe> =
        words::recipes().filter(|it| it.name.to_lowercase().contains(&word)).collect();
    let mut out = format!(
        "<h1>{} recipes</h1><form class=\"card\"><input name=\"q\" value=\"{}\"> <button>Search</button></form><ul class=\"grid\">",
        found.len(),
        escape(&wanted)
    );
    found.iter().skip(from * 12).take(12).for_each(|it| card(&mut out, it));
    out.push_str("</ul><p>");
    for number in 1..=found.len().div_ceil(12) {
        let _ = write!(out, "<a href=\"/search?q={}&amp;page={number}\">{number}</a> ", encode(&wanted));
    }
    out + "</p>"
}

fn now(now: u64) -> String {
    let (hour, minute, second) = (now / 3600 % 24, now / 60 % 60, now % 60);
    format!(
        "<h1>Now</h1><p class=\"big\">{hour:02}:{minute:02}:{second:02}</p><p>Good for three seconds; for thirty more it is served as it \
         is while larder fetches the next one, so that nobody waits.</p>"
    )
}

fn hello(language: &str) -> DemoPage {
    let wanted = language.trim_start().get(..2).unwrap_or("").to_ascii_lowercase();
    let (tag, greeting) = match wanted.as_str() {
        "de" => ("de", "Guten Tag"),
        "fr" => ("fr", "Bonjour"),
        "it" => ("it", "Buongiorno"),
        _ => ("en", "Good day"),
    };
    let main = format!(
        "<h1>{greeting}</h1><p>The answer depends on <code>Accept-Language</code>, and says so with <code>Vary</code>.</p>"
    );
    let fields = vec![("Vary", "Accept-Language".to_owned()), ("Content-Language", tag.to_owned())];
    DemoPage { fields, ..page(greeting, main, "max-age=300") }
}

fn me(session: &str) -> DemoPage {
    let main = if session.is_empty() {
        "<h1>Who are you?</h1><form class=\"card\" method=\"post\" action=\"/login\"><input name=\"name\" placeholder=\"A name\" required> \
         <button>Log in</button></form>"
            .to_owned()
    } else {
        format!(
            "<h1>Good day, {}</h1><p>This page is <code>private</code>: no shared cache keeps it.</p><form method=\"post\" \
             action=\"/logout\"><button>Log out</button></form>",
            escape(session)
        )
    };
    DemoPage { fields: vec![("Vary", "Cookie".to_owned())], ..page("Your page", main, "private, max-age=0") }
}

fn basket(now: u64) -> String {
    format!(
        "<h1>Your basket</h1><p>{} things, and none of them is anybody else's business: <code>no-store</code>.</p>",
        now % 7
    )
}

fn stream() -> DemoPage {
    let mut parts =
        vec!["<!doctype html><meta charset=\"utf-8\"><title>Stream</title><h1>Eight parts</h1>\n".to_owned()];
    parts.extend((1..=8).map(|it| format!("<p>Part {it} of 8.</p>\n")));
    DemoPage { body: DemoBody::Drip(parts), ..page("", String::new(), "max-age=30") }
}

fn sitemap() -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for number in 1..=RECIPES {
        let _ = writeln!(out, "<url><loc>/recipes/{number}</loc></url>");
    }
    out + "</urlset>\n"
}

/// The number between `before` and `after`, digits only.
fn number_in(path: &str, before: &str, after: &str) -> Option<u32> {
    let digits = path.strip_prefix(before)?.strip_suffix(after)?;
    digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A parameter of a query or a form, decoded; empty where it is missing.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
    pairs.find(|it| it.0 == name).map_or_else(String::new, |it| decode(it.1))
}

fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let digit = |it: Option<u8>| it.and_then(|it| char::from(it).to_digit(16));
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                if let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) {
                    out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                }
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn encode(text: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric();
    text.bytes().map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }).collect()
}
