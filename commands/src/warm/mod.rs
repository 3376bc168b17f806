//! `larder warm`: requests many URLs from a running larder, so that its cache is filled for visitors, and prints the
//! result. The URLs come from `urls` and `sitemap`; connections are in `larder`; the progress bar is in `progress`.
//!
//! Requests use `larder_origin`, the HTTP/1.1 client of the gateway: it has deadlines, keeps connections and parses
//! strictly, so that no other library is needed.

mod larder;
mod progress;
mod sitemap;
mod urls;
mod warm_page;

use crate::cli::Warm;
use larder::{WarmFailure, WarmTarget};
use larder_stdx::clock;
use larder_wire::message::reason;
use progress::WarmProgress;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use urls::Urls;
use warm_page::WarmPage;

/// Consecutive failures after which larder counts as stopped.
const GONE: u64 = 16;

/// Bytes of a body that show whether larder itself rejected the request.
const ENOUGH: usize = 64;

/// Whether a body begins like larder's own error pages: with status and reason, on a line of their own.
fn is_refusal(status: u16, begins: &[u8]) -> bool {
    status >= 400 && begins.starts_with(format!("{status} {}\n", reason(status)).as_bytes())
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct WarmSummary {
    /// URLs that were found.
    pub found: usize,
    /// URLs of other hosts, which were not requested.
    pub elsewhere: usize,
    /// Lines of the list or log that do not name a page, and the number of the first.
    pub unread: usize,
    /// See `unread`.
    pub first_unread: usize,
    /// Whether more URLs were found than are kept.
    pub cut: bool,
    /// Truncated sitemaps, and the first of them.
    pub incomplete: usize,
    /// See `incomplete`.
    pub first_incomplete: String,
    /// Requests with a complete response.
    pub done: u64,
    /// Answered from the cache.
    pub hits: u64,
    /// Answered by the origin.
    pub misses: u64,
    /// Of the misses, those that are stored now.
    pub stored: u64,
    /// Responses without `Cache-Status`: `cache.cache_status` is off, or it is a file.
    pub unknown: u64,
    /// Requests without a response, or with an incomplete one.
    pub errors: u64,
    /// The first of those errors, in one sentence.
    pub first_error: Option<String>,
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Bytes of bodies.
    pub bytes: u64,
    /// The duration.
    pub seconds: f64,
    /// The reason for the end.
    pub end: WarmEnd,
}

/// The reason for the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmEnd {
    /// Every URL was requested.
    #[default]
    Done,
    /// The limit of origin requests was reached.
    Budget,
    /// Ctrl-C was pressed.
    Interrupted,
    /// larder no longer responds.
    Gone,
}

impl WarmEnd {
    fn name(self) -> &'static str {
        match self {
            WarmEnd::Done => "done",
            WarmEnd::Budget => "budget",
            WarmEnd::Interrupted => "interrupted",
            WarmEnd::Gone => "gone",
        }
    }
}

/// Requests all URLs.
///
/// # Errors
/// One sentence: no request was sent, because the URLs or larder could not be found.
pub fn run(order: &Warm) -> Result<WarmSummary, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|it| format!("The event loop cannot be created: {it}."))?;
    LocalSet::new().block_on(&runtime, warm(order))
}

/// A number of things with their name.
fn name(one: &str, more: &str, count: usize) -> String {
    if count == 1 { format!("1 {one} names") } else { format!("{count} {more} name") }
}

async fn warm(order: &Warm) -> Result<WarmSummary, String> {
    let larder = WarmTarget::new(order)?;
    let urls = urls::find(order, &larder).await?;
    if urls.pages.is_empty() {
        return Err(match urls.elsewhere {
            0 if urls.unread > 0 => {
                let (count, first) = (urls.unread, urls.first_unread);
                match first {
                    0 => {
                        format!("It contains no URL of a page: {} none.", name("entry", "entries", count))
                    }
                    _ => format!(
                        "It contains no URL: {} none, first line {first}.",
                        name("line", "lines", count)
                    ),
                }
            }
            0 => "It contains no URL.".to_owned(),
            count => format!("All {count} URLs in it belong to other hosts."),
        });
    }
    let run = Rc::new(Run::new(order, larder, urls));
    let workers: Vec<_> =
        (0..order.concurrency).map(|_| tokio::task::spawn_local(run.clone().work())).collect();
    let drawn = tokio::task::spawn_local(run.clone().draw());
    let all = async {
        for worker in workers {
            let _ = worker.await;
        }
    };
    tokio::select! {
        () = all => {}
        _ = tokio::signal::ctrl_c() => run.end(WarmEnd::Interrupted),
    }
    drawn.abort();
    Ok(run.finish())
}

/// The requests of one run.
struct Run {
    larder: WarmTarget,
    pages: Vec<WarmPage>,
    next: Cell<usize>,
    pace: Option<tokio::sync::Mutex<tokio::time::Interval>>,
    budget: Option<u64>,
    /// Requests in progress that may still become misses.
    open: Cell<u64>,
    in_a_row: Cell<u64>,
    summary: RefCell<WarmSummary>,
    progress: WarmProgress,
    started: u64,
}

impl Run {
    fn new(order: &Warm, larder: WarmTarget, urls: Urls) -> Self {
        let pace = order.rate.map(|rate| {
            let mut pace = tokio::time::interval(Duration::from_secs(1) / rate);
            pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            tokio::sync::Mutex::new(pace)
        });
        let Urls { pages, elsewhere, unread, first_unread, cut, incomplete, first_incomplete } = urls;
        let found = pages.len();
        let summary = WarmSummary {
            found,
            elsewhere,
            unread,
            first_unread,
            cut,
            incomplete,
            first_incomplete,
            ..WarmSummary::default()
        };
        Self {
            larder,
            progress: WarmProgress::new(pages.len()),
            pages,
            next: Cell::new(0),
            pace,
            budget: order.budget,
            open: Cell::new(0),
            in_a_row: Cell::new(0),
            summary: RefCell::new(summary),
            started: clock::precise_micros(),
        }
    }

    fn end(&self, end: WarmEnd) {
        self.next.set(self.pages.len());
        let mut summary = self.summary.borrow_mut();
        if summary.end == WarmEnd::Done {
            summary.end = end;
        }
    }

    async fn work(self: Rc<Self>) {
        while self.next.get() < self.pages.len() {
            if let Some(pace) = &self.pace {
                pace.lock().await.tick().await;
            }
            // Requests in progress may reach the origin, too: no more are started than the limit allows.
            let misses = self.summary.borrow().misses;
            if self.budget.is_some_and(|most| misses >= most) {
                return self.end(WarmEnd::Budget);
            }
            if self.budget.is_some_and(|most| misses + self.open.get() >= most) {
                tokio::time::sleep(Duration::from_millis(1)).await; // Until one of them has been answered.
                continue;
            }
            let at = self.next.get();
            let Some(page) = self.pages.get(at) else { return };
            self.next.set(at + 1);
            self.open.set(self.open.get() + 1);
            let came = self.request(page).await;
            self.open.set(self.open.get() - 1);
            if let Err(error) = came {
                self.failed(page, error);
            }
        }
    }

    async fn request(&self, page: &WarmPage) -> Result<(), WarmFailure> {
        let (status, fields, exchange) = self.larder.get(page).await?;
        let (mut bytes, mut begins) = (0, Vec::new());
        while let Some(piece) = exchange.next().await? {
            bytes += piece.len() as u64;
            let room = ENOUGH.saturating_sub(begins.len()).min(piece.len());
            begins.extend_from_slice(&piece[..room]);
        }
        self.in_a_row.set(0);
        let cache_status = fields.get("cache-status").map(|it| String::from_utf8_lossy(it).into_owned());
        // The last member is that of the nearest cache (RFC 9211 section 2).
        let last = cache_status.as_deref().and_then(|it| it.rsplit(',').next());
        let has = |what: &str| {
            last.is_some_and(|it| it.split(';').any(|it| it.trim().split('=').next() == Some(what)))
        };
        let (hit, forwarded) = (has("hit"), has("fwd"));
        let is_text = fields.get("content-type").is_some_and(|it| it.starts_with(b"text/plain"));
        let is_own = !hit && !forwarded && is_text && is_refusal(status, &begins);
        let mut summary = self.summary.borrow_mut();
        summary.done += 1;
        summary.bytes += bytes;
        *summary.by_status.entry(status).or_default() += 1;
        if status >= 500 || is_own {
            // A response, but not of a page.
            summary.errors += 1;
            let why = match is_own {
                true => format!("{page}: larder rejects it with {status}"),
                false => format!("{page}: status {status}"),
            };
            summary.first_error.get_or_insert(why);
        }
        match (hit, forwarded) {
            (true, _) => summary.hits += 1,
            (false, true) => {
                summary.misses += 1;
                summary.stored += u64::from(has("stored"));
            }
            (false, false) => summary.unknown += 1,
        }
        Ok(())
    }

    fn failed(&self, page: &WarmPage, failure: WarmFailure) {
        // A request that was not sent does not show that larder is silent.
        let is_silent = matches!(failure, WarmFailure::Asked(_));
        self.in_a_row.set(if is_silent { self.in_a_row.get() + 1 } else { self.in_a_row.get() });
        {
            let mut summary = self.summary.borrow_mut();
            summary.errors += 1;
            summary.first_error.get_or_insert_with(|| format!("{page}: {}", failure.sentence()));
        }
        if self.in_a_row.get() >= GONE {
            self.end(WarmEnd::Gone);
        }
    }

    async fn draw(self: Rc<Self>) {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tick.tick().await;
            self.progress.draw(&self.summary.borrow());
        }
    }

    fn finish(&self) -> WarmSummary {
        let mut summary = self.summary.take();
        summary.seconds = clock::precise_micros().saturating_sub(self.started) as f64 / 1e6;
        self.progress.clear();
        summary
    }
}

impl WarmSummary {
    /// Whether every URL was valid, and answered.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.errors == 0 && self.incomplete == 0 && matches!(self.end, WarmEnd::Done | WarmEnd::Budget)
    }

    /// The result as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let by_status: serde_json::Map<String, Value> =
            self.by_status.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
        json!({
            "urls": self.found, "elsewhere": self.elsewhere, "unread": self.unread,
            "cut": self.cut, "incomplete": self.incomplete, "done": self.done, "hits": self.hits,
            "misses": self.misses, "stored": self.stored, "unknown": self.unknown, "errors": self.errors,
            "first_error": self.first_error, "by_status": by_status, "bytes": self.bytes, "seconds": self.seconds,
            "end": self.end.name(),
        })
    }

    /// The result as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "requested {} of {} URLs in {:.1} s: {} from the cache, {} from the origin ({} stored now), {} failed",
            self.done, self.found, self.seconds, self.hits, self.misses, self.stored, self.errors
        );
        for (status, count) in &self.by_status {
            let _ = writeln!(out, "  status {status}  {count}");
        }
        if self.unknown > 0 {
            let _ =
                writeln!(out, "  {} responses have no Cache-Status field (cache.cache_status)", self.unknown);
        }
        if self.elsewhere > 0 {
            let (urls, were) = if self.elsewhere == 1 {
                ("URL belongs to another host", "was")
            } else {
                ("URLs belong to other hosts", "were")
            };
            let _ = writeln!(out, "  {} {urls} and {were} skipped", self.elsewhere);
        }
        if self.unread > 0 {
            let (count, first) = (self.unread, self.first_unread);
            let _ = match first {
                0 => writeln!(out, "  {} no page, skipped", name("entry", "entries", count)),
                _ => {
                    writeln!(out, "  {} no page, skipped; first line {first}", name("line", "lines", count))
                }
            };
        }
        if self.cut {
            let _ = writeln!(out, "  too many URLs; only the first {} are used", urls::MOST);
        }
        if self.incomplete > 0 {
            let (count, first) = (self.incomplete, &self.first_incomplete);
            let _ = writeln!(
                out,
                "  {} not be read completely, so URLs may be missing; first {first}",
                if count == 1 { "1 sitemap could".to_owned() } else { format!("{count} sitemaps could") }
            );
        }
        if let Some(error) = &self.first_error {
            let _ = writeln!(out, "  first failure: {error}");
        }
        out.push_str(match self.end {
            WarmEnd::Done => "",
            WarmEnd::Budget => "stopped: --misses requests reached the origin\n",
            WarmEnd::Interrupted => "stopped by Ctrl-C\n",
            WarmEnd::Gone => "stopped: larder no longer responds\n",
        });
        out
    }
}
