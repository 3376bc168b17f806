//! Overlays: pages of the operator that replace the response of the cache, an application or a directory. All workers
//! share one set. The response to a request is in `serve`; the permission to set one in `admin`.
//!
//! They are in memory until they are removed or expire: a reload of the configuration and an upgrade keep them, a restart does not.
//! They are never evicted, so they are bounded, and their memory is charged to the RAM budget.

mod challenge;
mod hand_over;
mod serve;
mod target;

pub use target::OverlayTarget;

use larder_counters::Counters;
use larder_files::{OpenFile, media_type};
use larder_semantics::date;
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::stored::{Meta, Uncommon};
use larder_stdx::clock::{self, Monotonic, WallTime};
use larder_store::Store;
use larder_wire::http1::write;
use parking_lot::{Mutex, RwLock};
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The most overlays.
const MOST: usize = 1000;

/// The memory of an overlay in addition to its page and its names: the table entry, and rounding by the allocator.
const ENTRY: u64 = 512;

/// The page to show.
pub struct OverlayPage<'a> {
    /// See [`larder_config::overlay_status_may_be`].
    pub status: u16,
    /// `Content-Type` as given, if any.
    pub content_type: Option<&'a [u8]>,
    /// The body.
    pub body: &'a [u8],
    /// Seconds after which it expires.
    pub ttl: Option<u64>,
    /// Its author.
    pub by: &'a str,
}

/// The time by both clocks: expiry uses the one that is never set.
#[derive(Clone, Copy, Debug)]
pub struct OverlayTime {
    /// For display.
    pub wall: WallTime,
    /// For expiry.
    pub uptime: Monotonic,
}

impl OverlayTime {
    /// Reads the clocks.
    #[must_use]
    pub fn read() -> Self {
        Self { wall: clock::wall(), uptime: clock::monotonic_now() }
    }
}

/// The reason for rejecting an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayRefusal {
    /// There are `MOST` already.
    TooMany,
    /// All together would exceed the limit.
    OverSize {
        /// Its bytes.
        bytes: u64,
        /// The remaining bytes.
        left: u64,
    },
    /// The RAM budget has no room, even after all evictions.
    NoRoom,
}

impl OverlayRefusal {
    /// One sentence for its author.
    #[must_use]
    pub fn sentence(self) -> String {
        match self {
            OverlayRefusal::TooMany => {
                format!("The maximum of {MOST} overlays is reached; remove some first.")
            }
            OverlayRefusal::OverSize { bytes, left } => format!(
                "This overlay takes {bytes} bytes, and only {left} are free; remove overlays, or raise \
                 admin.overlay_size (at most a quarter of cache.ram.size)."
            ),
            OverlayRefusal::NoRoom => {
                "The RAM budget is too small for this overlay; raise cache.ram.size.".to_owned()
            }
        }
    }
}

/// One overlay. Immutable, except its count: it is replaced by another one, and current readers finish with this one.
pub struct Overlay {
    /// Its target.
    place: OverlayTarget,
    /// The page, ready to be sent.
    page: OpenFile,
    set_at: WallTime,
    /// Its expiry: the reported time, and the one in force.
    expires: Option<(WallTime, Monotonic)>,
    by: String,
    hits: AtomicU64,
    /// All its bytes.
    cost: u64,
    /// Its rank among the rules of admission.
    rank: OverlayRank,
}

/// The times and the count of an overlay, which an upgrade keeps.
struct OverlayHistory {
    set_at: WallTime,
    expires: Option<(WallTime, Monotonic)>,
    hits: u64,
}

/// The rank of an overlay among the rules of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayRank {
    /// After redirects, access rules and maintenance: pages of the operator.
    AfterAdmission,
    /// Before all of them: the answer to a challenge of a CA.
    First,
}

/// The report about an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayReport {
    /// Its target: in the notation of [`OverlayTarget`].
    pub uri: String,
    /// Its status.
    pub status: u16,
    /// Bytes of its body.
    pub bytes: u64,
    /// Its `Content-Type`.
    pub content_type: String,
    /// Its `ETag`.
    pub etag: String,
    /// The time of setting.
    pub set_at: WallTime,
    /// The time of its expiry.
    pub expires: Option<WallTime>,
    /// The number of requests that it answered.
    pub hits: u64,
    /// Its author.
    pub by: String,
}

impl Overlay {
    /// Reads the clock only if it has an expiry.
    fn is_over(&self, now: impl Fn() -> Monotonic) -> bool {
        self.expires.is_some_and(|it| it.1 <= now())
    }

    /// The report about it.
    #[must_use]
    pub fn report(&self) -> OverlayReport {
        let field =
            |name| String::from_utf8_lossy(self.page.fields.get(name).unwrap_or_default()).into_owned();
        OverlayReport {
            uri: self.place.to_string(),
            status: self.page.meta.status,
            bytes: self.page.length(),
            content_type: field("content-type"),
            etag: field("etag"),
            set_at: self.set_at,
            expires: self.expires.map(|it| it.0),
            hits: self.hits.load(Relaxed),
            by: self.by.clone(),
        }
    }
}

/// The overlays of this process.
pub struct Overlays {
    /// Their number: requests skip the lookup if it is zero.
    count: AtomicUsize,
    /// By target; each target has a few at most, for different hosts.
    all: RwLock<HashMap<Box<str>, Vec<Arc<Overlay>>>>,
    /// The answers to challenges of CAs, by target.
    challenges: RwLock<HashMap<Box<str>, Arc<Overlay>>>,
    /// Held by writers only, never by a request.
    books: Mutex<OverlayTotals>,
    store: Arc<Store>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct OverlayTotals {
    /// Their number, without the answers to challenges.
    count: usize,
    /// Bytes of all.
    bytes: u64,
    /// The part of these that was charged to the store; the arena charges the rest itself.
    entered: u64,
}

impl Overlays {
    /// An empty set. They take their room from `store`'s budget, and their gauges are in `counters`.
    #[must_use]
    pub fn new(store: Arc<Store>, counters: Arc<Counters>) -> Arc<Self> {
        let (count, all, challenges) = (AtomicUsize::new(0), RwLock::default(), RwLock::default());
        Arc::new(Self { count, all, challenges, books: Mutex::default(), store, counters })
    }

    /// Whether there is any. A request after the response to a `PUT` sees it: the response is sent after the count was
    /// increased, and the kernel's locks order the two.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// The overlay for `authority` and `target`, both as in a head; that of the host precedes that of all hosts.
    #[must_use]
    pub fn find(&self, authority: &str, target: &str, now: impl Fn() -> Monotonic) -> Option<Arc<Overlay>> {
        if target.starts_with(challenge::PATH)
            && let Some(found) = self.challenges.read().get(target)
        {
            return Some(found.clone());
        }
        let all = self.all.read();
        let here = all.get(target)?;
        let fits = |it: &&Arc<Overlay>| it.place.is_of(authority) && !it.is_over(&now);
        let of_host = here.iter().filter(fits).find(|it| it.place.host.is_some());
        of_host.or_else(|| here.iter().find(fits)).cloned()
    }

    /// Sets a page for `place`; every request after the return sees it. All overlays together may take `most` bytes.
    ///
    /// # Errors
    /// See [`OverlayRefusal`]; an existing one stays.
    pub fn put(
        &self,
        place: OverlayTarget,
        page: &OverlayPage<'_>,
        most: u64,
        now: OverlayTime,
    ) -> Result<OverlayReport, OverlayRefusal> {
        let mut books = self.books.lock();
        self.sweep_within(&mut books, now.uptime);
        let expires = page.ttl.map(|it| (WallTime(now.wall.0 + it), Monotonic(now.uptime.0 + 1000 * it)));
        let history = OverlayHistory { set_at: now.wall, expires, hits: 0 };
        self.put_within(&mut books, place, page, most, history).inspect_err(|_| {
            self.counters.overlays_refused.add_shared(1);
        })
    }

    fn put_within(
        &self,
        books: &mut OverlayTotals,
        place: OverlayTarget,
        page: &OverlayPage<'_>,
        most: u64,
        history: OverlayHistory,
    ) -> Result<OverlayReport, OverlayRefusal> {
        let old = self.at(&place);
        if old.is_none() && books.count >= MOST {
            return Err(OverlayRefusal::TooMany);
        }
        let names = (place.target.len() + place.host.as_ref().map_or(0, String::len)) as u64;
        let cost = page.body.len() as u64 + 2 * names + ENTRY;
        let left = most.saturating_sub(books.bytes - old.as_ref().map_or(0, |it| it.cost));
        if cost > left {
            return Err(OverlayRefusal::OverSize { bytes: cost, left });
        }
        let body = bytes::Bytes::copy_from_slice(page.body);
        let body = self.store.make_body(&[body]).map_err(|_| OverlayRefusal::NoRoom)?.piece();
        let made = Arc::new(Overlay {
            page: ready(&place, page, body, history.set_at),
            place,
            set_at: history.set_at,
            expires: history.expires,
            by: page.by.to_owned(),
            hits: AtomicU64::new(history.hits),
            cost,
            rank: OverlayRank::AfterAdmission,
        });
        let report = made.report();
        let mut all = self.all.write();
        let here = all.entry(made.place.target.as_str().into()).or_default();
        match here.iter_mut().find(|it| it.place == made.place) {
            Some(slot) => *slot = made,
            None => here.push(made),
        }
        self.settle(books, &all);
        drop(all);
        // The last reference to the old one may be dropped here: not while a reader waits for the lock.
        drop(old);
        self.enter(books);
        Ok(report)
    }

    /// Removes the overlay of `place`: the original response is served again.
    pub fn remove(&self, place: &OverlayTarget, now: Monotonic) -> Option<OverlayReport> {
        let mut books = self.books.lock();
        self.sweep_within(&mut books, now);
        let found = self.at(place)?;
        self.retain(&mut books, |it| it.place != *place);
        Some(found.report())
    }

    /// Removes expired ones. They are not served anyway; this frees their memory.
    pub fn sweep(&self, now: Monotonic) {
        if self.any() {
            self.sweep_within(&mut self.books.lock(), now);
        }
    }

    /// All of them, the latest first; and their bytes.
    #[must_use]
    pub fn list(&self, now: Monotonic) -> (Vec<OverlayReport>, u64) {
        self.sweep(now);
        let books = self.books.lock();
        let mut report: Vec<OverlayReport> =
            self.all.read().values().flatten().map(|it| it.report()).collect();
        report.sort_by(|a, b| b.set_at.cmp(&a.set_at).then_with(|| a.uri.cmp(&b.uri)));
        (report, books.bytes)
    }

    fn at(&self, place: &OverlayTarget) -> Option<Arc<Overlay>> {
        self.all.read().get(place.target.as_str())?.iter().find(|it| it.place == *place).cloned()
    }

    fn sweep_within(&self, books: &mut OverlayTotals, now: Monotonic) {
        if self.all.read().values().flatten().any(|it| it.is_over(|| now)) {
            self.retain(books, |it| !it.is_over(|| now));
        }
    }

    fn retain(&self, books: &mut OverlayTotals, keep: impl Fn(&Overlay) -> bool) {
        let mut gone = Vec::new();
        let mut all = self.all.write();
        all.retain(|_, here| {
            gone.extend(here.extract_if(.., |it| !keep(it)));
            !here.is_empty()
        });
        self.settle(books, &all);
        drop(all);
        drop(gone);
        self.enter(books);
    }

    /// Their bytes outside the arena.
    #[must_use]
    pub fn on_heap(&self) -> u64 {
        self.books.lock().entered
    }

    /// Updates the counts.
    fn settle(&self, books: &mut OverlayTotals, all: &HashMap<Box<str>, Vec<Arc<Overlay>>>) {
        let overlays = || all.values().flatten();
        books.bytes = overlays().map(|it| it.cost).sum();
        books.count = overlays().count();
        self.count.store(books.count + self.challenges.read().len(), Relaxed);
        self.counters.overlays.set_shared(overlays().count() as u64);
        self.counters.overlay_bytes.set_shared(books.bytes);
    }

    /// Charges their bytes outside the arena to the store. A replaced one has been freed by then, unless it is being
    /// sent.
    fn enter(&self, books: &mut OverlayTotals) {
        let all = self.all.read();
        let on_heap = |it: &Arc<Overlay>| match &it.page.body {
            larder_transport::body::BodyPiece::Bytes(_) => it.cost,
            larder_transport::body::BodyPiece::File(_) => it.cost - it.page.length(),
        };
        let now = all.values().flatten().map(on_heap).sum();
        drop(all);
        self.store.charge_external(&mut books.entered, now);
    }
}

/// The data for a hit. Clients validate each time (`no-cache`), so that they see its removal at once.
fn ready(
    place: &OverlayTarget,
    page: &OverlayPage<'_>,
    body: larder_transport::body::BodyPiece,
    now: WallTime,
) -> OpenFile {
    let content_type = content_type(place, page);
    let mut hasher = DefaultHasher::new();
    (page.status, &content_type, page.body).hash(&mut hasher);
    let etag = format!("\"overlay-{:016x}-{:x}\"", hasher.finish(), page.body.len());
    let mut fields = FieldList::new();
    fields.push("Content-Type", &content_type);
    fields.push("Content-Length", body.len().to_string());
    fields.push("Last-Modified", date::format(now));
    fields.push("ETag", &etag);
    if page.status == 200 {
        fields.push("Accept-Ranges", "bytes");
    }
    fields.push("Cache-Control", "no-cache");
    let meta = Meta {
        status: page.status,
        request_time: now,
        response_time: now,
        date: now,
        initial_age: 0,
        lifetime: Lifetime { seconds: 0, source: LifetimeSource::None },
        must_revalidate: false,
        no_cache: true,
        implicit: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: Some(etag.into()),
        last_modified: Some(now).into(),
        uncommon: Uncommon::default(),
    };
    let mut line = Vec::new();
    write::status_line(page.status, &mut line);
    OpenFile::held(&line, fields, meta, body)
}

/// The given type; otherwise by the extension of the path; otherwise by the first bytes of the body. The default types of
/// web forms and `curl` are ignored.
fn content_type(place: &OverlayTarget, page: &OverlayPage<'_>) -> Vec<u8> {
    let is_form =
        |it: &[u8]| it.len() >= FORM.len() && it[..FORM.len()].eq_ignore_ascii_case(FORM.as_bytes());
    if let Some(given) = page.content_type.filter(|it| !it.is_empty() && !is_form(it)) {
        return given.to_vec();
    }
    let path = place.target.split('?').next().unwrap_or_default();
    let by_name = media_type(path.rsplit('/').next().unwrap_or_default().as_bytes(), &[]);
    if by_name != UNKNOWN {
        return by_name.into_bytes();
    }
    let start = page.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(page.body).trim_ascii_start();
    let begins =
        |with: &str| start.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with.as_bytes()));
    let seen = match std::str::from_utf8(page.body) {
        _ if begins("<!doctype html") || begins("<!--") || begins_with_a_tag(start) => {
            "text/html; charset=utf-8"
        }
        Ok(_) if begins("<?xml") => "application/xml",
        Ok(_) if (begins("{") || begins("[")) && serde_json::from_slice::<IgnoredAny>(start).is_ok() => {
            "application/json"
        }
        Ok(text) if !text.chars().any(|it| it.is_control() && !matches!(it, '\n' | '\r' | '\t')) => {
            "text/plain; charset=utf-8"
        }
        _ => UNKNOWN,
    };
    seen.into()
}

/// Whether a text begins with the start of an element, such as `<p>` or `<h1 class=a>`; an address in `<…>` is none.
fn begins_with_a_tag(start: &[u8]) -> bool {
    let Some(name) = start.strip_prefix(b"<").filter(|it| it.first().is_some_and(u8::is_ascii_alphabetic))
    else {
        return false;
    };
    let after = name.iter().find(|it| !it.is_ascii_alphanumeric() && **it != b'-');
    after.is_none_or(|it| it.is_ascii_whitespace() || matches!(it, b'>' | b'/'))
}

/// The default type of `curl --data`.
const FORM: &str = "application/x-www-form-urlencoded";

/// The type of an unknown extension.
const UNKNOWN: &str = "application/octet-stream";

#[cfg(test)]
mod tests;
