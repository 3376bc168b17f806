//! Recent responses that were not stored, with enough of each exchange to decide it again for `explain`; and exchanges
//! without a response.

use larder_semantics::advice::LargePage;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::flip::OriginExchange;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::storable::{self, Storable};
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_stdx::clock::{self, WallTime};
use larder_stdx::identity_hasher::IdentityHasher;
use larder_store::ram::KeyHash;
use larder_wire::message::Request;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex};

/// The most keys that are kept; beyond, the oldest is dropped.
pub const CAPACITY: usize = 1024;
/// The most routes that are remembered as having responses that differ; beyond, each is taken for one.
const ROUTES: usize = 4096;
/// Fields over this many bytes are not kept: memory stays below CAPACITY × this × 2.
const MAX_FIELDS_BYTES: usize = 4096;

/// One exchange whose response was not stored, or that brought none.
#[derive(Clone, Debug)]
pub struct RefusedStorage {
    /// The request's method.
    pub method: String,
    /// The request's fields.
    pub request: FieldList,
    /// The name of its route; empty for an exchange without a response.
    pub route: Box<str>,
    /// Why no valid response arrived, if so; `status` is then the client's, unless it got a stored response.
    pub failure: Option<String>,
    /// Whether the response is one visitor's (`semantics::flip::is_one_visitors`).
    pub is_one_visitors: bool,
    /// The response's status.
    pub status: u16,
    /// The response's fields, as received; with the length of its body where that was too large and its head declares none.
    pub response: FieldList,
    /// When the request was sent.
    pub request_time: WallTime,
    /// When the response head had arrived.
    pub response_time: WallTime,
}

impl RefusedStorage {
    /// The exchange as it would be decided under a policy; `request` and `response` are the views of its fields.
    pub(crate) fn exchange<'e>(
        &'e self,
        request: &'e [Field<'e>],
        response: &'e [Field<'e>],
        policy: &'e Policy,
    ) -> OriginExchange<'e> {
        OriginExchange {
            method: &self.method,
            request,
            answered: request,
            uri: None,
            status: self.status,
            response,
            policy,
            request_time: self.request_time,
            response_time: self.response_time,
        }
    }
}

impl RefusedStorage {
    /// The length of the body.
    fn length(&self) -> Option<u64> {
        let value = self.response.get("content-length")?;
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    }

    /// Whether a cache would keep the response as a hit for other requests.
    fn is_stored_under(&self, policy: &Policy) -> bool {
        let (request, response) = (self.request.view(), self.response.view());
        let facts = RequestFacts::read(&self.method, &request);
        let (sent, came) = (self.request_time, self.response_time);
        let verdict = storable::decide(&facts, self.status, &response, policy, sent, came, &mut Silent);
        let meta = Meta::of(self.status, &response, policy, sent, came);
        verdict == Storable::Store && meta.allows_hits(came)
    }
}

/// The audience of the responses to a URL, as derived from those that were not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// Possibly every client.
    #[default]
    Unknown,
    /// They differed: each may be specific to one client.
    Differs,
    /// One of them was specific to one visitor.
    OneVisitor,
}

/// The last [`CAPACITY`] keys whose response was not stored.
#[derive(Default)]
pub struct UnstoredResponses {
    inner: Mutex<UnstoredInner>,
}

#[derive(Default)]
struct UnstoredInner {
    map: HashMap<u128, RefusedPage, BuildHasherDefault<IdentityHasher>>,
    order: VecDeque<u128>,
    /// Routes with a URL whose responses differed. It outlasts the memory of the URL.
    apart: BTreeSet<Box<str>>,
}

/// The memory of one key.
#[derive(Default)]
struct RefusedPage {
    /// The last refusal; `None` if a response was stored since.
    last: Option<Arc<RefusedStorage>>,
    /// Of all refusals: it outlasts the storing of other responses.
    audience: Audience,
    /// How often it was refused since the last response was stored.
    times: u64,
}

impl RefusedPage {
    /// Replaces the last refusal.
    fn renew(&mut self, refused: RefusedStorage) {
        let says = match &self.last {
            _ if refused.is_one_visitors => Audience::OneVisitor,
            Some(last) if differs(last, &refused) => Audience::Differs,
            _ => Audience::Unknown,
        };
        self.audience = self.audience.max(says);
        let is_small = refused.request.text().len() + refused.response.text().len() <= 2 * MAX_FIELDS_BYTES;
        self.last = is_small.then(|| Arc::new(refused));
    }
}

/// Whether two complete responses of the same status are different representations by their heads.
fn differs(one: &RefusedStorage, other: &RefusedStorage) -> bool {
    let is_other = |name| one.response.get(name) != other.response.get(name);
    let both_came = one.failure.is_none() && other.failure.is_none() && one.status == other.status;
    let is_part = matches!(one.status, 206 | 416);
    both_came && !is_part && ["etag", "last-modified", "content-length"].into_iter().any(is_other)
}

impl UnstoredResponses {
    /// The last refusal of a key, and the audience of its responses.
    pub(crate) fn look_up(&self, key: KeyHash) -> (Option<Arc<RefusedStorage>>, Audience) {
        (self.get(key), self.audience(key))
    }

    /// Remembers one, unless the same key was remembered within this second; that it is `one_visitors` in any case.
    pub fn note(
        &self,
        hash: KeyHash,
        now: WallTime,
        one_visitors: bool,
        make: impl FnOnce() -> RefusedStorage,
    ) {
        let says = if one_visitors { Audience::OneVisitor } else { Audience::Unknown };
        self.keep(hash, now, says, false, make);
    }

    /// Records that `request` was answered with `status` because no valid response arrived; otherwise as
    /// [`UnstoredResponses::note`].
    pub fn note_failure(&self, hash: KeyHash, request: &Request, status: u16, why: &str) {
        let now = clock::wall();
        self.keep(hash, now, Audience::Unknown, true, || RefusedStorage {
            method: request.method.clone(),
            request: request.fields.clone(),
            route: Box::default(),
            failure: Some(why.to_owned()),
            is_one_visitors: false,
            status,
            response: FieldList::new(),
            request_time: now,
            response_time: now,
        });
    }

    fn keep(
        &self,
        hash: KeyHash,
        now: WallTime,
        says: Audience,
        failed: bool,
        make: impl FnOnce() -> RefusedStorage,
    ) {
        let Ok(mut inner) = self.inner.lock() else { return };
        let UnstoredInner { map, order, apart } = &mut *inner;
        let page = map.entry(hash.0).or_insert_with(|| {
            order.push_back(hash.0);
            RefusedPage::default()
        });
        page.audience = page.audience.max(says);
        page.times += 1;
        let is_known = |it: &Arc<RefusedStorage>| it.response_time == now && it.failure.is_some() == failed;
        if !page.last.as_ref().is_some_and(is_known) {
            let refused = make();
            let is_apart = page.last.as_ref().is_some_and(|it| differs(it, &refused));
            if is_apart && apart.len() < ROUTES && !apart.contains(&refused.route) {
                apart.insert(refused.route.clone());
            }
            page.renew(refused);
        }
        if order.len() > CAPACITY
            && let Some(oldest) = order.pop_front()
        {
            map.remove(&oldest);
        }
    }

    /// The last record of a key.
    #[must_use]
    pub fn get(&self, hash: KeyHash) -> Option<Arc<RefusedStorage>> {
        self.inner.lock().ok()?.map.get(&hash.0)?.last.clone()
    }

    /// The audience of the responses under a key.
    #[must_use]
    pub fn audience(&self, hash: KeyHash) -> Audience {
        let inner = self.inner.lock();
        inner.ok().and_then(|it| Some(it.map.get(&hash.0)?.audience)).unwrap_or_default()
    }

    /// Whether responses to one URL of a route differed, as far as they were not stored.
    #[must_use]
    pub fn differ(&self, route: &str) -> bool {
        self.inner.lock().is_ok_and(|it| it.apart.len() >= ROUTES || it.apart.contains(route))
    }

    /// Forgets the refusal of a key, since a response was stored; not the audience.
    pub fn forget(&self, hash: KeyHash) {
        if let Ok(mut inner) = self.inner.lock()
            && let Some(it) = inner.map.get_mut(&hash.0)
        {
            it.last = None;
            it.times = 0;
        }
    }

    /// The pages of a route whose last response exceeded `cache.max_object` since `since`, and would be stored under its policy otherwise.
    #[must_use]
    pub fn large_pages(&self, route: &str, policy: &Policy, since: WallTime) -> Vec<LargePage> {
        let is_of = |it: &RefusedStorage| &*it.route == route && it.response_time >= since;
        let of = |it: &RefusedPage| {
            let last = it.last.as_ref().filter(|last| is_of(last) && it.audience != Audience::OneVisitor)?;
            Some((last.clone(), it.times))
        };
        let found: Vec<(Arc<RefusedStorage>, u64)> =
            self.inner.lock().map(|inner| inner.map.values().filter_map(of).collect()).unwrap_or_default();
        let without_limit = Policy { max_object: u64::MAX, ..policy.clone() };
        let large = |(it, requests): (Arc<RefusedStorage>, u64)| {
            let length = it.length().filter(|it| *it > policy.max_object)?;
            let is_stored = it.is_stored_under(&without_limit);
            is_stored.then_some(LargePage { length, requests })
        };
        found.into_iter().filter_map(large).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(second: u64) -> RefusedStorage {
        RefusedStorage {
            method: "GET".to_owned(),
            request: FieldList::new(),
            route: "r".into(),
            failure: None,
            is_one_visitors: false,
            status: 200,
            response: FieldList::new(),
            request_time: WallTime(second),
            response_time: WallTime(second),
        }
    }

    #[test]
    fn bounded_and_newest_wins() {
        let unstored = UnstoredResponses::default();
        for key in 0..CAPACITY as u128 + 5 {
            unstored.note(KeyHash(key), WallTime(1), false, || refused(1));
        }
        assert!(unstored.get(KeyHash(0)).is_none());
        assert!(unstored.get(KeyHash(5)).is_some());
        unstored.note(KeyHash(5), WallTime(2), false, || refused(2));
        assert_eq!(WallTime(2), unstored.get(KeyHash(5)).unwrap().response_time);
        unstored.note(KeyHash(5), WallTime(2), false, || unreachable!("once a second"));
    }

    #[test]
    fn a_key_that_is_refused_and_stored_alternately_evicts_no_other() {
        let unstored = UnstoredResponses::default();
        unstored.note(KeyHash(1), WallTime(1), false, || refused(1));
        for second in 0..2 * CAPACITY as u64 {
            unstored.note(KeyHash(2), WallTime(second), false, || refused(second));
            unstored.forget(KeyHash(2));
        }
        assert!(unstored.get(KeyHash(1)).is_some() && unstored.get(KeyHash(2)).is_none());
    }

    #[test]
    fn pages_that_exceed_the_size_are_known_with_their_requests() {
        let unstored = UnstoredResponses::default();
        let policy = Policy { max_object: 1000, ..Policy::default() };
        let large = |second, lines: &[(&str, &str)]| {
            let mut it = refused(second);
            lines.iter().for_each(|(name, value)| it.response.push(name, value));
            it
        };
        let declared = [("Content-Length", "1400"), ("Cache-Control", "max-age=60")];
        for second in [1, 1, 2] {
            unstored.note(KeyHash(1), WallTime(second), false, || large(second, &declared));
        }
        unstored.note(KeyHash(2), WallTime(2), false, || large(2, &declared[..1]));
        unstored
            .note(KeyHash(3), WallTime(2), false, || large(2, &[("Content-Length", "1000"), declared[1]]));
        unstored.note(KeyHash(4), WallTime(2), true, || large(2, &declared));
        let of = |route, since| unstored.large_pages(route, &policy, WallTime(since));
        assert_eq!([LargePage { length: 1400, requests: 3 }], of("r", 2)[..]);
        assert!(of("s", 2).is_empty() && of("r", 3).is_empty());
        unstored.forget(KeyHash(1));
        assert!(of("r", 0).is_empty());
    }

    /// A response with this entity tag, and whether it is one visitor's.
    fn tagged(second: u64, tag: &str, is_one_visitors: bool) -> RefusedStorage {
        let mut it = RefusedStorage { is_one_visitors, ..refused(second) };
        it.response.push("ETag", tag);
        it
    }

    #[test]
    fn the_audience_of_refused_responses_is_remembered() {
        let (unstored, key) = (UnstoredResponses::default(), KeyHash(1));
        assert_eq!(Audience::Unknown, unstored.audience(key));
        for (second, tag, expect) in
            [(1, "a", Audience::Unknown), (2, "a", Audience::Unknown), (3, "b", Audience::Differs)]
        {
            unstored.note(key, WallTime(second), false, || tagged(second, tag, false));
            assert_eq!(expect, unstored.audience(key));
        }
        assert_eq!([true, false], [unstored.differ("r"), unstored.differ("s")]);
        // Within the same second, too.
        unstored.note(key, WallTime(3), true, || unreachable!("once a second"));
        assert_eq!(Audience::OneVisitor, unstored.audience(key));
        unstored.note(key, WallTime(4), false, || tagged(4, "b", false));
        unstored.forget(key);
        assert_eq!((Audience::OneVisitor, true), (unstored.audience(key), unstored.get(key).is_none()));
        unstored.note(KeyHash(2), WallTime(4), false, || tagged(4, "b", true));
        assert_eq!(Audience::OneVisitor, unstored.audience(KeyHash(2)));
        // A record that is too large to be kept says so all the same.
        let large = || tagged(1, &"a".repeat(3 * MAX_FIELDS_BYTES), true);
        unstored.note(KeyHash(3), WallTime(1), false, large);
        assert_eq!(
            (Audience::OneVisitor, true),
            (unstored.audience(KeyHash(3)), unstored.get(KeyHash(3)).is_none())
        );
    }
}
