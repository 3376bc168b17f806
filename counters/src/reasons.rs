//! Requests to origins by their reason, for each route: one set per worker. The list of reasons is `semantics::miss_reason`;
//! here a reason is its position in that list.

use crate::table::Counter;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};

/// The most reasons.
pub const MOST_REASONS: usize = 48;

/// The longest URL that is kept as an example, bytes. A truncated one could not be explained.
const LONGEST: usize = 512;

/// One worker's part of a route, by reason.
#[derive(Debug)]
pub struct ReasonCounters {
    requests: [Counter; MOST_REASONS],
    micros: [Counter; MOST_REASONS],
}

impl Default for ReasonCounters {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| Counter::new());
        Self { requests: zeros(), micros: zeros() }
    }
}

impl ReasonCounters {
    /// Counts a request.
    pub fn add(&self, reason: usize) {
        if let Some(it) = self.requests.get(reason) {
            it.add(1);
        }
    }

    /// Adds the time to the head of its response, in microseconds.
    pub fn took(&self, reason: usize, micros: u64) {
        if let Some(it) = self.micros.get(reason) {
            it.add(micros);
        }
    }

    /// Requests of the reason at this position.
    #[must_use]
    pub fn requests_of(&self, reason: usize) -> u64 {
        self.requests[reason].get()
    }

    /// Requests and microseconds of each reason.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        self.requests.iter().zip(&self.micros).map(|(requests, micros)| (requests.get(), micros.get()))
    }
}

/// One worker's part of the facts for advice about a route, counted for requests that were no hits.
#[derive(Debug, Default)]
pub struct AdviceCounters {
    /// First requests with parameters of analytics.
    pub analytics: Counter,
    /// These parameters, one bit each (`semantics::analytics`).
    parameters: Counter,
    /// Requests that are private because of cookies, all of which are those of analytics.
    pub cookies: Counter,
    /// Stored responses that could be compressed and were sent as they came, to clients that accept gzip.
    pub plain: Counter,
    /// Requests without credentials for pages without a lifetime.
    pub anonymous: Counter,
    /// Those of them whose stored response was replaced by another one.
    pub changed: Counter,
    /// Requests with a private cookie that could have been hits: they have only cookies of [`NeedlessCookies`].
    pub needless_private: Counter,
    /// The same for requests with credentials.
    pub needless_credentials: Counter,
    /// First requests with a parameter that the advice would remove: their page is stored under another URL.
    pub needless_first: Counter,
}

impl AdviceCounters {
    /// Counts a first request with these parameters of analytics.
    pub fn saw_parameters(&self, bits: u64) {
        self.analytics.add(1);
        self.parameters.set_shared(self.parameters.get() | bits);
    }

    /// The parameters that occurred.
    pub fn parameters(&self) -> u64 {
        self.parameters.get()
    }
}

/// The cookies of a route: patterns of those that make a request private, and of those that do not; and its parameters that change no page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CookieNames {
    /// Patterns of the parameters that the advice would remove from the key.
    pub parameters: Vec<String>,
    /// Patterns of private cookies.
    pub private: Vec<String>,
    /// Patterns of the exceptions: those of the configuration, and those that change no page as recent requests show.
    pub ignored: Vec<String>,
}

/// The latest judgement about the cookies of recent requests for a route: one for all workers.
#[derive(Debug, Default)]
pub struct NeedlessCookies(RwLock<CookieJudgement>);

#[derive(Debug, Default)]
struct CookieJudgement {
    names: Option<Arc<CookieNames>>,
    sentence: Option<String>,
}

impl NeedlessCookies {
    /// The cookies of the route, if some of them change no page.
    #[must_use]
    pub fn names(&self) -> Option<Arc<CookieNames>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).names.clone()
    }

    /// The evidence, for an operator.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).sentence.clone()
    }

    /// Replaces the judgement.
    pub fn set(&self, names: Option<CookieNames>, sentence: Option<String>) {
        let names = names.map(Arc::new);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = CookieJudgement { names, sentence };
    }
}

/// A request of some reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleRequest {
    /// Its end, Unix seconds.
    pub time: u64,
    /// Its method.
    pub method: Box<str>,
    /// Its URL.
    pub url: Box<str>,
}

/// The last request of each reason of a route: one for all workers. At most one is kept in each second, so that the cost is that of
/// a lock which no worker waits for.
#[derive(Debug, Default)]
pub struct ReasonExamples(Mutex<Vec<Option<ExampleRequest>>>);

impl ReasonExamples {
    /// Keeps an example, unless it is too long, another thread keeps one at this moment, or there is one of this second.
    pub fn keep(&self, reason: usize, time: u64, method: &str, url: impl FnOnce() -> String) {
        if reason >= MOST_REASONS {
            return;
        }
        let mut all = match self.0.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(it)) => it.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if all.is_empty() {
            all.resize(MOST_REASONS, None);
        }
        if all[reason].as_ref().is_some_and(|it| it.time == time) {
            return;
        }
        let url = url();
        if url.len() + method.len() <= LONGEST {
            all[reason] = Some(ExampleRequest { time, method: method.into(), url: url.into() });
        }
    }

    /// The example of each reason; none before the first.
    #[must_use]
    pub fn all(&self) -> Vec<Option<ExampleRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_by_reason() {
        let counters = ReasonCounters::default();
        counters.add(3);
        counters.took(3, 70);
        counters.took(MOST_REASONS, 5);
        let values: Vec<_> = counters.values().collect();
        assert_eq!((MOST_REASONS, (1, 70)), (values.len(), values[3]));
        assert_eq!(1, values.iter().map(|it| it.0).sum::<u64>());
    }

    #[test]
    fn one_example_a_second_is_kept_and_no_truncated_one() {
        let examples = ReasonExamples::default();
        let keep = |time, url: &str| examples.keep(2, time, "GET", || url.to_owned());
        keep(1, "http://a/1");
        keep(1, "http://a/2");
        assert_eq!("http://a/1", &*examples.all()[2].as_ref().unwrap().url);
        keep(2, "http://a/3");
        keep(3, &"x".repeat(LONGEST));
        let kept = examples.all()[2].clone().unwrap();
        assert_eq!((2, "http://a/3"), (kept.time, &*kept.url));
        assert_eq!(MOST_REASONS, examples.all().len());
    }
}
