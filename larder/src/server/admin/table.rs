//! Every endpoint of the admin, declared once: its method, its path, what it does. Nothing is answered that is not a row here.

use super::{Admin, Answer, Asked};
use std::future::Future;
use std::pin::Pin;

/// Bytes of a body that an endpoint reads at most, where its row says nothing else.
pub const BODY: usize = 64 * 1024;

/// Bytes of a page that is put over another, at most; `admin.overlay_size` bounds all of them together.
pub const OVERLAY: usize = 32 << 20;

type Running<'a> = Pin<Box<dyn Future<Output = Answer> + 'a>>;

/// One row of the table.
#[allow(dead_code, reason = "for the endpoints that come next")]
pub struct Endpoint {
    /// The method; `GET` answers `HEAD`, too.
    pub method: &'static str,
    /// The path. `{name}` at its end stands for the rest of the path, which is not empty.
    pub path: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Bytes of a body at most.
    pub body: usize,
    /// Whether it is there only where tests move the clock.
    pub for_tests: bool,
    /// Does it.
    pub run: for<'a> fn(&'a Admin, Asked<'a>) -> Running<'a>,
}

/// What a path and a method lead to.
pub enum Found<'a> {
    /// This row, with what stands for its `{name}`.
    Endpoint(&'static Endpoint, Option<&'a str>),
    /// The path has endpoints, but none of this method.
    OtherMethod,
    /// The path has none.
    Nothing,
}

const fn row(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    run: for<'a> fn(&'a Admin, Asked<'a>) -> Running<'a>,
) -> Endpoint {
    Endpoint { method, path, summary, body: BODY, for_tests: false, run }
}

/// The endpoints. Where several fit a path, the first does.
#[rustfmt::skip]
pub static ENDPOINTS: &[Endpoint] = &[
    row("GET", "/", "The page.", |it, asked| Box::pin(async move { it.page(asked) })),
    row("GET", "/assets/{name}", "A file of the page.", |it, asked| Box::pin(async move { it.asset(asked) })),
    row("GET", "/cache/stats", "The statistics.", |it, _| Box::pin(async move { it.stats() })),
    row("GET", "/api/v1/stats", "The statistics.", |it, _| Box::pin(async move { it.stats() })),
    row("POST", "/cache/explain", "What would be done with a request, and why.", |it, asked| Box::pin(it.explain(asked))),
    row("POST", "/cache/purge", "Removes what is stored.", |it, asked| Box::pin(it.purge(asked.body))),
    row("GET", "/api/v1/overlays", "The overlays: pages put over whatever is there.", |it, _| Box::pin(async move { it.overlays() })),
    Endpoint { body: OVERLAY, ..row("PUT", "/api/v1/overlays", "Puts the body over a URI.", |it, asked| Box::pin(async move { it.put_overlay(&asked) })) },
    row("DELETE", "/api/v1/overlays", "Takes an overlay away: the original returns.", |it, asked| Box::pin(async move { it.remove_overlay(&asked) })),
    Endpoint { body: OVERLAY, ..row("POST", "/cache/add/{uri}", "Puts the body over a URI.", |it, asked| Box::pin(async move { it.put_overlay(&asked) })) },
    row("POST", "/cache/reset/{uri}", "Takes an overlay away: the original returns.", |it, asked| Box::pin(async move { it.remove_overlay(&asked) })),
    row("GET", "/cache/reset/{uri}", "The same, for those who know it so from the older plugin.", |it, asked| Box::pin(async move { it.remove_overlay(&asked) })),
    row("GET", "/api/v1/traces", "The latest traces, and how often they are taken.", |it, asked| Box::pin(async move { it.traces(&asked) })),
    row("PUT", "/api/v1/traces/sampling", "How often a route is traced, until the next reload or restart.", |it, asked| Box::pin(async move { it.set_sampling(&asked) })),
    row("GET", "/api/v1/traces/stream", "Traces as they come.", |it, asked| Box::pin(async move { it.stream_traces(&asked) })),
    row("GET", "/api/v1/stream", "Finished requests as they come, as server-sent events; `filter` chooses.", |it, asked| Box::pin(async move { it.stream(asked) })),
    Endpoint { for_tests: true, ..row("POST", "/test/clock", "Moves the clock.", |it, asked| Box::pin(async move { it.move_clock(asked.query) })) },
];

/// Finds the endpoint for a method and a path.
pub fn find<'a>(method: &str, path: &'a str) -> Found<'a> {
    let method = if method == "HEAD" { "GET" } else { method };
    let mut found = Found::Nothing;
    for it in ENDPOINTS {
        match fits(it.path, path) {
            Some(named) if it.method == method => return Found::Endpoint(it, named),
            Some(_) => found = Found::OtherMethod,
            None => {}
        }
    }
    found
}

/// Whether `path` is what `pattern` says, with what stands for its `{name}`.
fn fits<'a>(pattern: &str, path: &'a str) -> Option<Option<&'a str>> {
    match pattern.split_once('{') {
        None => (pattern == path).then_some(None),
        Some((start, _)) => path.strip_prefix(start).filter(|it| !it.is_empty()).map(Some),
    }
}

/// The methods of a target's path, as `Allow` lists them.
pub fn methods_of(target: &str) -> String {
    let path = target.split('?').next().unwrap_or(target);
    let mut all: Vec<&str> = Vec::new();
    for it in ENDPOINTS.iter().filter(|it| fits(it.path, path).is_some()) {
        all.push(it.method);
        if it.method == "GET" {
            all.push("HEAD");
        }
    }
    all.join(", ")
}
