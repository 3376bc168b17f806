//! The fast path: a fresh hit in RAM is answered synchronously between two reads. It allocates nothing, makes no system
//! call for the time and takes no exclusive lock. Requests that are not simple go to `request`; pages that RAM lacks go to
//! `fast_path_disk`.
//!
//! A rule for one speed is a rule for both. The same at the slow speed: `answer_prepared` is `Machine::receive`
//! (`request/receive.rs`) and `Machine::lookup` (`request/lookup.rs`), `encoding` is `choose_encoding`
//! (`encoding_choice.rs`), `respond` is `send_as_stored` and `head` (`request/deliver.rs`).

use crate::cache_key;
use crate::client_cert;
use crate::coding;
use crate::request_cookies;
use crate::request_headers;
use crate::route::{Gateway, GatewayRoute};
use crate::stages;
use larder_semantics::cache_status::{self, AnsweringTier, CacheReport};
use larder_semantics::conditional::{self, Precondition};
use larder_semantics::field::Field;
use larder_semantics::freshness::Freshness;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, Reuse};
use larder_semantics::stored::Meta;
use larder_semantics::tags;
use larder_semantics::trace::Silent;
use larder_semantics::transcode::{self, Serve};
use larder_stdx::clock::{self, WallTime};
use larder_store::encodings::EncodingGuard;
use larder_store::ram::{Lookup, StoredBody};
use larder_store::{Encoding, Encodings, Stored, StoredArc};
use larder_transport::{Client, ResponseWriter};
use larder_wire::message::RequestHead;

/// The content of a fast hit, for the log.
#[derive(Clone, Copy, Debug)]
pub struct FastHit {
    /// The status that was sent.
    pub status: u16,
    /// Bytes of the body.
    pub body: u64,
    /// The content of `Cache-Status`.
    pub report: CacheReport,
}

impl Gateway {
    /// Answers a request from RAM, or returns `None` with nothing written.
    pub fn answer_now(
        &self,
        route: &GatewayRoute,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> Option<FastHit> {
        let Some(found) = request_cookies::prepared(route, head.method, head.target, head.fields) else {
            return self.answer_prepared(route, head, client, answer);
        };
        let head = RequestHead { fields: &found.fields.view(), ..*head };
        self.answer_prepared(route, &head, client, answer)
    }

    /// The same for a request without the cookies that the cache does not see.
    #[inline]
    fn answer_prepared(
        &self,
        route: &GatewayRoute,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> Option<FastHit> {
        let facts = RequestFacts::read(head.method, head.fields);
        if facts.range.is_some()
            || request_headers::has_nominated(head.fields)
            || client_cert::must_change_fields(route, client, head.fields)
            || request_headers::bypass(&route.policy, &facts, head.target, head.fields).is_some()
        {
            return None;
        }
        let began = route.server_timing.then(clock::precise_micros);
        let now = clock::wall();
        let scratch = &mut *self.scratch.borrow_mut();
        scratch.key.clear();
        cache_key::write(
            &route.policy,
            head.scheme,
            head.authority,
            head.target,
            head.fields,
            &mut scratch.key,
        );
        let hash = self.store.hash(&scratch.key);
        let entry = match self.store.lookup(hash, &scratch.key, 0) {
            Lookup::Entry(entry) => entry,
            Lookup::Nothing => {
                return self.on_disk_now(route, head, &facts, &scratch.key, hash, began, answer);
            }
            Lookup::HitForMiss => return None,
        };
        let stored = entry.select(head.fields, &mut scratch.variant)?;
        let precondition = ready(stored, head, &facts, &route.policy, now)?;
        if self.tiers.is_due(stored, now) || is_replaced(stored.meta.status, answer) {
            return None;
        }
        let encoding = match &stored.encodings {
            Some(encodings) => self.encoding(encodings, stored, &route.policy, head, &facts)?,
            None => None,
        };
        let encoding = encoding.as_ref().and_then(|it| it.as_deref());
        self.counters.cache_hits.add(1);
        entry.note_hit();
        if encoding.is_some() {
            self.counters.coding_hits.add(1);
        }
        let not_modified = precondition == Precondition::NotModified;
        Some(respond(
            stored,
            AnsweringTier::Ram,
            encoding,
            head,
            not_modified,
            &route.policy,
            now,
            began,
            answer,
        ))
    }

    /// The encoding for a request, with an inner `None` for the stored one; a better one that is possible is ordered. The
    /// outer `None` means that the request has to wait, or that none matches.
    fn encoding(
        &self,
        encodings: &Encodings,
        stored: &StoredArc,
        policy: &Policy,
        head: &RequestHead<'_>,
        facts: &RequestFacts<'_>,
    ) -> Option<Option<EncodingGuard>> {
        let choice = coding::choose(encodings, policy, head.fields, facts);
        if let Some(coding) = choice.make {
            self.order(stored, coding);
        }
        match choice.serve {
            Serve::Own => Some(None),
            // An encoding has another tag than its source; conditions with strong comparison must see that.
            Serve::Made(_) if facts.conditional && transcode::is_exact(head.fields, false) => None,
            Serve::Made(coding) => encodings.peek(coding).map(Some),
            Serve::Wait(_) | Serve::Unsuitable => None,
        }
    }
}

/// Whether a stored response can be sent unchanged, and if so whether whole or as a 304; never `Failed`. `None` where it
/// may not be used unchanged, is a part, has trailers, or a condition fails: `run` handles these.
#[inline]
pub(crate) fn ready(
    stored: &Stored,
    head: &RequestHead<'_>,
    facts: &RequestFacts<'_>,
    policy: &Policy,
    now: WallTime,
) -> Option<Precondition> {
    if reuse::decide(Ok(&stored.meta), facts, policy, now, &mut Silent) != Reuse::Serve
        || stored.meta.partial().is_some()
        || stored.trailers().is_some()
    {
        return None;
    }
    let precondition = match facts.conditional {
        true => conditional::evaluate(head.fields, &stored.meta),
        false => Precondition::Proceed,
    };
    Some(precondition).filter(|it| *it != Precondition::Failed)
}

/// Whether the route's error page takes the place of a stored error: `run` sends it.
#[inline]
pub(crate) fn is_replaced(status: u16, answer: &ResponseWriter<'_>) -> bool {
    status >= 400 && answer.finish().is_some_and(|it| it.replaces(status))
}

/// Writes the answer from `stored`, or from its encoding.
#[allow(clippy::too_many_arguments, reason = "two callers, which have all of them at hand")]
pub(crate) fn respond(
    stored: &Stored,
    tier: AnsweringTier,
    encoding: Option<&Encoding>,
    head: &RequestHead<'_>,
    not_modified: bool,
    policy: &Policy,
    now: WallTime,
    began: Option<u64>,
    answer: &mut ResponseWriter<'_>,
) -> FastHit {
    let report = CacheReport::Hit { ttl: ttl(&stored.meta, now), tier };
    let (ready, body) = match encoding {
        None => (&stored.head, &stored.body),
        Some(encoding) => {
            encoding.note_use();
            (&encoding.head, &encoding.body)
        }
    };
    if not_modified {
        answer.status_of(304, ready.lines());
        let is_sent =
            |it: &Field<'_>| conditional::in_not_modified(it.name) && !tags::is_hidden(it.name, &policy.tags);
        for it in ready.lines().filter(is_sent) {
            answer.field(it.name, it.value);
        }
    } else {
        answer.ready(ready);
    }
    write_own_lines(stored.meta.age(now), report, policy, answer);
    if let Some(began) = began {
        stages::append_lookup_time(began, answer);
    }
    if not_modified {
        answer.end();
        return FastHit { status: 304, body: 0, report };
    }
    let body = match body {
        _ if head.method == "HEAD" => {
            answer.end();
            0
        }
        StoredBody::Heap(bytes) => {
            answer.end_with_copy(bytes, || bytes.bytes());
            bytes.len() as u64
        }
        arena => {
            answer.end_with_piece(arena.piece());
            arena.len()
        }
    };
    FastHit { status: stored.meta.status, body, report }
}

/// The lines that differ between hits.
fn write_own_lines(age: u32, report: CacheReport, policy: &Policy, answer: &mut ResponseWriter<'_>) {
    answer.field("Age", itoa::Buffer::new().format(age).as_bytes());
    if policy.cache_status {
        answer.field_with("Cache-Status", |text| cache_status::write(report, text));
    }
    if policy.x_cache {
        answer.field("X-Cache", b"HIT");
    }
}

/// Remaining freshness for `Cache-Status`: negative when stale (RFC 9211 §2.4).
#[must_use]
pub fn ttl(meta: &Meta, now: WallTime) -> i64 {
    match meta.freshness(now) {
        Freshness::Fresh { remaining } => i64::from(remaining),
        Freshness::Stale { staleness } => -i64::from(staleness),
    }
}
