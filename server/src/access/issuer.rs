//! The keys that an issuer of tokens publishes (`access.jwt.jwks_url`): one task of the first worker fetches them for all workers, when
//! their lifetime has ended or a token names an unknown key. A token never names the place of keys.

use super::AccessState;
use crate::internal_client::{InternalAnswer, InternalClient};
use larder_config::access::KeyUrl;
use larder_counters::Counters;
use larder_observe::log::Level;
use larder_semantics::cache_control::ResponseDirectives;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_wire::jwt::JwtKeys;
use parking_lot::RwLock;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The time limit of a fetch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which a request waits for a fetch: that of the fetch, and a moment.
const WAIT: Duration = Duration::from_secs(6);
/// The most requests that wait for the keys of one issuer.
const WAITING: usize = 1000;
/// Milliseconds from the start of a fetch to the next one, whatever tokens name.
const APART: u64 = 10_000;
/// Milliseconds after a failure, while there are keys.
const AFTER_FAILURE: u64 = 60_000;
/// Milliseconds between two looks at the clock.
const LOOK: u64 = 1000;
/// Seconds for which keys are used: at least, at most, and where the issuer names no time.
const LEAST: u32 = 60;
const MOST: u32 = 24 * 60 * 60;
const USUAL: u32 = 10 * 60;

/// Keys, with a number that no others had: signatures that others verified no longer count.
pub(super) struct NumberedKeys(pub u64, pub JwtKeys);

/// The keys of one issuer; shared by all routes and workers, and kept by a reload.
pub struct IssuerKeys {
    url: KeyUrl,
    keys: RwLock<Option<Arc<NumberedKeys>>>,
    /// When they are fetched next, milliseconds of the monotonic clock.
    due: AtomicU64,
    /// Before this time no token causes a fetch.
    earliest: AtomicU64,
    /// A token has named an unknown key.
    is_wanted: AtomicBool,
    is_fetching: AtomicBool,
    /// The last fetch failed.
    has_failed: AtomicBool,
    waiting: AtomicUsize,
    wake: Notify,
    /// The number of fetches that have ended.
    ended: watch::Sender<u64>,
}

impl IssuerKeys {
    pub(super) fn new(url: &KeyUrl) -> Arc<Self> {
        Arc::new(Self {
            url: url.clone(),
            keys: RwLock::default(),
            due: AtomicU64::new(0),
            earliest: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            is_fetching: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            wake: Notify::new(),
            ended: watch::Sender::new(0),
        })
    }

    /// The keys in force; `None` before the first ones have come.
    pub(super) fn keys(&self) -> Option<Arc<NumberedKeys>> {
        self.keys.read().clone()
    }

    /// Whether other keys may come at once: they are being fetched, or will be because of this call.
    pub(super) fn may_renew(&self) -> bool {
        if self.is_fetching.load(Acquire) || self.is_wanted.load(Acquire) {
            return self.waiting.load(Acquire) < WAITING;
        }
        if clock::monotonic().0 < self.earliest.load(Acquire) {
            return false;
        }
        self.is_wanted.store(true, Release);
        self.wake.notify_one();
        true
    }

    /// Waits for the end of the present fetch.
    pub(super) async fn renewed(&self) {
        let mut ended = self.ended.subscribe();
        if self.may_renew() {
            let _waiter = KeyWaiter::new(&self.waiting);
            let _ = tokio::time::timeout(WAIT, ended.changed()).await;
        }
    }

    /// Fetches the keys whenever they are due.
    pub(super) async fn follow(&self, state: &AccessState, counters: &Counters) -> Infallible {
        let KeyUrl { from, target, ca } = &self.url;
        let service = InternalClient::at(from, ca.as_ref(), target.clone(), TIMEOUT);
        loop {
            let now = clock::monotonic_now().0;
            let due = match self.is_wanted.load(Acquire) {
                true => self.earliest.load(Acquire).min(self.due.load(Acquire)),
                false => self.due.load(Acquire),
            };
            if now < due {
                let pause = Duration::from_millis((due - now).min(LOOK));
                let _ = tokio::time::timeout(pause, self.wake.notified()).await;
                continue;
            }
            let _fetch = PresentFetch::begin(self);
            self.earliest.store(now + APART, Release);
            self.is_wanted.store(false, Release);
            counters.access_keys_fetched.add(1);
            let answer = service.get(question(), |status| status == 200).await.and_then(|it| read(&it));
            self.end(answer, state, counters);
        }
    }

    /// Puts fetched keys in force, or keeps the present ones.
    fn end(&self, answer: Result<(JwtKeys, u32), String>, state: &AccessState, counters: &Counters) {
        let now = clock::monotonic_now().0;
        let before = self.keys();
        let (next, why) = match answer {
            Ok((keys, seconds)) => {
                if before.as_ref().is_none_or(|it| it.1 != keys) {
                    *self.keys.write() = Some(Arc::new(NumberedKeys(state.next_keys(), keys)));
                }
                (u64::from(seconds) * 1000, None)
            }
            Err(why) => (if before.is_some() { AFTER_FAILURE } else { APART }, Some(why)),
        };
        self.due.store(now + next, Release);
        let had_failed = self.has_failed.swap(why.is_some(), AcqRel);
        counters.access_keys_failures.add(u64::from(why.is_some()));
        let Some(errors) = state.errors.get() else { return };
        let url = self.url.name();
        match why {
            Some(why) if !had_failed => {
                let meaning = match before {
                    Some(_) => "the keys fetched before stay in force",
                    None => "requests with tokens get 503",
                };
                let values = [("url", url.as_str()), ("why", why.as_str()), ("meaning", meaning)];
                errors.event(Level::Error, "keys-unavailable", &values);
            }
            None if had_failed => errors.event(Level::Info, "keys-fetched", &[("url", url.as_str())]),
            _ => {}
        }
    }
}

/// A fetch in progress; its drop ends it also if a reload cancels it.
struct PresentFetch<'k>(&'k IssuerKeys);

impl<'k> PresentFetch<'k> {
    fn begin(keys: &'k IssuerKeys) -> Self {
        keys.is_fetching.store(true, Release);
        Self(keys)
    }
}

impl Drop for PresentFetch<'_> {
    fn drop(&mut self) {
        self.0.is_fetching.store(false, Release);
        self.0.ended.send_modify(|it| *it += 1);
    }
}

/// A request that waits.
struct KeyWaiter<'k>(&'k AtomicUsize);

impl<'k> KeyWaiter<'k> {
    fn new(count: &'k AtomicUsize) -> Self {
        count.fetch_add(1, AcqRel);
        Self(count)
    }
}

impl Drop for KeyWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, AcqRel);
    }
}

fn question() -> FieldList {
    let mut fields = FieldList::with_capacity(3, 96);
    fields.push("Accept", "application/jwk-set+json, application/json");
    fields.push("User-Agent", "larder");
    fields
}

/// The keys of a response, and the seconds for which they are used.
///
/// # Errors
/// Why there are none.
fn read(answer: &InternalAnswer) -> Result<(JwtKeys, u32), String> {
    if answer.status != 200 {
        return Err(format!("it answered {}", answer.status));
    }
    let body = answer.body.as_ref().ok_or("the keys are larger than 1MiB")?;
    let text = std::str::from_utf8(body).map_err(|_| "the keys are not UTF-8")?;
    Ok((JwtKeys::parse_set(text)?, lifetime(&answer.fields)))
}

fn lifetime(fields: &FieldList) -> u32 {
    let stated = ResponseDirectives::read(&fields.view());
    let age = fields.get("age").and_then(|it| std::str::from_utf8(it).ok()?.parse().ok()).unwrap_or(0_u32);
    stated.max_age.map_or(USUAL, |it| it.saturating_sub(age)).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn lifetimes_are_bounded() {
        #[track_caller]
        fn check(lines: &[(&str, &str)], expect: u32) {
            let mut fields = FieldList::with_capacity(2, 64);
            lines.iter().for_each(|it| fields.push(it.0, it.1));
            assert_eq!(expect, lifetime(&fields), "{lines:?}");
        }
        check(&[], USUAL);
        check(&[("Cache-Control", "no-cache")], USUAL);
        check(&[("Cache-Control", "max-age=0")], LEAST);
        check(&[("Cache-Control", "public, max-age=3600"), ("Age", "600")], 3000);
        check(&[("Cache-Control", "max-age=3600"), ("Age", "9000")], LEAST);
        check(&[("Cache-Control", "max-age=99999999")], MOST);
    }

    #[test]
    fn answers_without_keys() {
        let check = |status: u16, body: Option<&'static str>, expect: &str| {
            let body = body.map(|it| Bytes::from_static(it.as_bytes()));
            let answer = InternalAnswer { status, fields: FieldList::with_capacity(0, 0), body };
            assert_eq!(expect, read(&answer).map(|_| ()).unwrap_err());
        };
        check(500, Some("{}"), "it answered 500");
        check(302, Some(""), "it answered 302");
        check(200, None, "the keys are larger than 1MiB");
        check(200, Some("<html>"), "it is not a JSON object, or a name occurs twice");
        check(200, Some("{\"keys\":[]}"), "it has no key for RS256, PS256, ES256, ES384 or EdDSA");
    }
}
