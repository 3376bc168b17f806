//! The live stream of finished requests: the record of each request, and the list of listeners. Sending is in
//! `admin/stream`. Without listeners a request costs a load and a branch; a listener that is too slow loses records, gets
//! the number of lost ones, and delays no worker.

use super::Finished;
use super::counted::HeapSum;
use super::ids::RequestId;
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::expression::{Expression, ExpressionFacts, Number, TextName};
use larder_semantics::field;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::secret::{self, shown_target};
use larder_stdx::clock;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};

/// The most listeners at the same time.
pub const LISTENERS: usize = 16;

/// The most records that wait for one listener; further ones are lost.
pub const QUEUE: usize = 1024;

/// The most bytes of one text of a record: with [`QUEUE`], this bounds the waiting records.
const TEXT: usize = 2048;

/// The listeners, for all workers and the admin.
pub struct Hub {
    /// The number of listeners: read by workers.
    listening: AtomicUsize,
    /// Counts the changes of `listeners`, so that workers take them over.
    version: AtomicU64,
    listeners: Mutex<Vec<Arc<Listener>>>,
    over: watch::Sender<bool>,
    counters: Arc<Counters>,
    /// Records that wait for a listener, or are kept, and their encoded form for a connection.
    sum: HeapSum,
}

/// A listener, as seen by workers.
struct Listener {
    filter: Option<Expression>,
    queue: mpsc::Sender<Bytes>,
    /// Lost records that were not reported yet.
    lost: AtomicU64,
}

/// A listener's end; dropping it ends the subscription.
pub struct Listening {
    hub: Arc<Hub>,
    listener: Arc<Listener>,
    /// The records.
    pub records: mpsc::Receiver<Bytes>,
    /// Becomes true when no more records will follow.
    pub over: watch::Receiver<bool>,
}

impl Hub {
    /// A hub without listeners.
    #[must_use]
    pub fn new(counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self {
            listening: AtomicUsize::new(0),
            version: AtomicU64::new(0),
            listeners: Mutex::default(),
            over: watch::Sender::new(false),
            counters,
            sum: HeapSum::default(),
        })
    }

    /// Subscribes to requests for which `filter` is true, or to all. `None` if there are [`LISTENERS`] already.
    #[must_use]
    pub fn listen(self: &Arc<Self>, filter: Option<Expression>) -> Option<Listening> {
        let (queue, records) = mpsc::channel(QUEUE);
        let listener = Arc::new(Listener { filter, queue, lost: AtomicU64::new(0) });
        let room = self.change(|all| {
            let room = all.len() < LISTENERS;
            if room {
                all.push(listener.clone());
            }
            room
        });
        if !room {
            self.counters.streams_refused.add_shared(1);
            return None;
        }
        Some(Listening { hub: self.clone(), listener, records, over: self.over.subscribe() })
    }

    /// Ends the stream: all listeners are notified.
    pub fn close(&self) {
        self.over.send_replace(true);
    }

    /// The sum of all records in flight.
    #[must_use]
    pub fn sum(&self) -> &HeapSum {
        &self.sum
    }

    /// The number of listeners.
    #[must_use]
    pub fn listening(&self) -> usize {
        self.listening.load(Relaxed)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Listener>>) -> T) -> T {
        let mut all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut all);
        // Within the lock, so that a worker that sees the new version finds its listeners.
        self.version.fetch_add(1, Relaxed);
        self.listening.store(all.len(), Relaxed);
        self.counters.streams_open.set_shared(all.len() as u64);
        done
    }
}

impl Listening {
    /// The number of records lost since the last call.
    pub fn lost(&self) -> u64 {
        self.listener.lost.swap(0, Relaxed)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub.change(|all| all.retain(|it| !Arc::ptr_eq(it, &self.listener)));
    }
}

/// One worker's end of the stream.
pub struct Tap {
    hub: Arc<Hub>,
    /// The version of `listeners`.
    version: Cell<u64>,
    listeners: RefCell<Vec<Arc<Listener>>>,
}

impl Tap {
    /// A worker's end that sends to the listeners of `hub`.
    #[must_use]
    pub fn new(hub: Arc<Hub>) -> Self {
        Self { hub, version: Cell::new(0), listeners: RefCell::default() }
    }

    /// Whether there is a listener.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.hub.listening.load(Relaxed) != 0
    }

    /// Sends `it` to the listeners whose filter is true, and returns whether there is one. The record is made for the
    /// first of them, and passed to `keep` before it is sent.
    pub fn publish(&self, it: &Finished<'_>, id: impl Fn() -> RequestId, keep: impl Fn(Bytes)) -> bool {
        self.expire();
        let mut made: Option<Bytes> = None;
        for listener in self.listeners.borrow().iter() {
            if listener
                .filter
                .as_ref()
                .is_some_and(|filter| !filter.holds(&FilterFacts { it, is_shown: true }))
            {
                continue;
            }
            if made.is_none() {
                made = self.record(it, id());
                made.clone().map(&keep);
            }
            let Some(record) = made.clone() else { continue };
            if let Err(mpsc::error::TrySendError::Full(_)) = listener.queue.try_send(record) {
                listener.lost.fetch_add(1, Relaxed);
                self.hub.counters.stream_records_lost.add_shared(1);
            }
        }
        made.is_some()
    }

    /// The record of a request, counted as long as it exists.
    pub fn record(&self, it: &Finished<'_>, id: RequestId) -> Option<Bytes> {
        encode(it, id).map(|it| self.hub.sum.text(&it))
    }

    /// Takes over the current listeners, and drops removed ones.
    pub fn expire(&self) {
        if self.hub.version.load(Relaxed) == self.version.get() {
            return;
        }
        let all = self.hub.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        self.version.set(self.hub.version.load(Relaxed));
        self.listeners.borrow_mut().clone_from(&all);
    }
}

/// A finished request as input of a condition.
pub(crate) struct FilterFacts<'a> {
    /// The request.
    pub it: &'a Finished<'a>,
    /// Whether it is tested in the form that is displayed: with filters of their choice, those who may listen would find out the
    /// values of cookies, credentials and secret parameters one character at a time.
    pub is_shown: bool,
}

impl FilterFacts<'_> {
    fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_shown { shown_target(text) } else { Cow::Borrowed(text) }
    }
}

impl ExpressionFacts for FilterFacts<'_> {
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let it = self.it;
        let target = || self.shown(it.target);
        match name {
            TextName::Route => test(it.route.as_bytes()),
            TextName::Site => test(it.site.as_bytes()),
            TextName::Method => test(it.method.as_bytes()),
            TextName::Host => test(host(it.authority).as_bytes()),
            TextName::Path => test(parts(&target()).0.as_bytes()),
            TextName::Query => test(parts(&target()).1.as_bytes()),
            TextName::Url => test(self.shown(&url(it)).as_bytes()),
            TextName::Scheme => test(it.client.scheme.name().as_bytes()),
            TextName::Cache => test(it.outcome.cache().as_bytes()),
            TextName::Reason => test(it.outcome.reason().as_bytes()),
            TextName::Origin => test(it.outcome.origin.as_ref().map_or("", |it| &it.name).as_bytes()),
            TextName::Client => it.client.peer.is_some_and(|it| test(it.ip().to_string().as_bytes())),
            TextName::UserAgent => field::first(it.fields, "user-agent").is_some_and(test),
            TextName::Referer => self.header("referer", test),
            TextName::End => test(it.outcome.end.name().as_bytes()),
            TextName::Key | TextName::Target | TextName::Type | TextName::Listener | TextName::Country => {
                false
            }
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.it.client.peer.map(|it| it.ip())
    }

    fn number(&self, name: Number) -> Option<i64> {
        let outcome = self.it.outcome;
        let signed = |it: u64| i64::try_from(it).ok();
        match name {
            Number::Status => Some(i64::from(outcome.status)),
            Number::Bytes | Number::Size => signed(outcome.body),
            Number::Duration => self.it.micros.and_then(signed),
            Number::Origin => outcome.origin.as_ref().and_then(|it| signed(it.micros)),
            Number::Ttl => ttl(outcome.report),
            Number::Age | Number::Asn => None,
        }
    }

    fn has_tag(&self, _: &str) -> bool {
        false
    }

    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let shown = |value| if self.is_shown { secret::shown(name, value) } else { Cow::Borrowed(value) };
        self.it.fields.iter().any(|it| it.is(name) && test(&shown(it.value)))
    }
}

/// Path and query of a target.
pub(crate) fn parts(target: &str) -> (&str, &str) {
    target.split_once('?').unwrap_or((target, ""))
}

/// The record of a request, as JSON.
pub fn encode(it: &Finished<'_>, id: RequestId) -> Option<Vec<u8>> {
    serde_json::to_vec(&record(it, id)).ok()
}

/// The record of a request: the RECORD of the API. Values of query parameters whose name says that they are secret are hidden.
fn record(it: &Finished<'_>, id: RequestId) -> Value {
    let outcome = it.outcome;
    let field = |name| field::first(it.fields, name).map(|it| short(String::from_utf8_lossy(it)));
    let target = shown_target(it.target);
    let (path, _) = parts(&target);
    let mut record = json!({
        "id": id.to_string(),
        "time_us": clock::unix_micros(clock::precise_micros()),
        "client": it.client.peer.map(|it| it.ip().to_string()),
        "method": short(it.method.into()),
        "url": short(shown_target(&url(it)).into_owned().into()),
        "host": short(host(it.authority)),
        "path": short(path.into()),
        "status": outcome.status,
        "bytes": outcome.body,
        "duration_us": it.micros,
        "route": it.route,
        "site": it.site,
        "cache": outcome.cache(),
        "reason": outcome.reason.map(MissReason::name),
        "ttl": ttl(outcome.report),
        "origin": outcome.origin.as_ref().map(|it| &*it.name),
        "origin_us": outcome.origin.as_ref().map(|it| it.micros),
        "origin_protocol": outcome.origin.as_ref().map(|it| it.protocol()),
        "end": outcome.end.name(),
        "user_agent": field("user-agent"),
        "referer": field("referer").map(|it| shown_target(&it).into_owned()),
    });
    if let Some(reject) = it.refused {
        record["rejected"] = reject.sentence().into();
    }
    if let Some(protocol) = it.protocol {
        record["connect_protocol"] = short(protocol.into()).into();
    }
    if let Some((_, spent)) = &it.spent {
        record["stages"] =
            spent.iter().map(|(stage, micros)| (stage.name().to_owned(), Value::from(micros))).collect();
    }
    record
}

fn url(it: &Finished<'_>) -> String {
    format!("{}://{}{}", it.client.scheme.name(), it.authority, it.target)
}

/// The host of an authority: lower case, without its port.
pub(crate) fn host(authority: &str) -> Cow<'_, str> {
    let host = match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    };
    match host.bytes().any(|it| it.is_ascii_uppercase()) {
        true => host.to_ascii_lowercase().into(),
        false => host.into(),
    }
}

fn ttl(report: Option<CacheReport>) -> Option<i64> {
    match report {
        Some(CacheReport::Hit { ttl, .. }) => Some(ttl),
        _ => None,
    }
}

/// A text, truncated to [`TEXT`] bytes.
fn short(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.len() <= TEXT {
        return text;
    }
    let end = (0..=TEXT).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    format!("{}…", &text[..end]).into()
}

#[cfg(test)]
pub mod tests;
