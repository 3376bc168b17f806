//! The limits of a route together: a request must be within each of them, and one that is refused counts for none.

use super::AccessState;
use super::limit::{CountedEvent, InProgress, LimitExceeded, RequestLimit, ticks};
use larder_config::access::{LimitConfig, MOST_LIMITS};
use larder_semantics::rate::RefusedFor;
use larder_semantics::request_view::RequestView;
use larder_transport::Synthetic;
use std::sync::Arc;

/// The limits, in the order of the configuration.
pub(super) struct AccessLimits(Vec<RequestLimit>);

/// The counts of a request, by the number of the limit.
#[derive(Default)]
pub(super) struct CountedRequest {
    events: [Option<CountedEvent>; MOST_LIMITS],
    in_progress: [Option<InProgress>; MOST_LIMITS],
}

/// The limits that a request exceeds; one at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitsExceeded([Option<LimitExceeded>; MOST_LIMITS]);

impl LimitsExceeded {
    fn each(&self) -> impl Iterator<Item = (usize, LimitExceeded)> {
        self.0.iter().enumerate().filter_map(|(number, it)| Some((number, (*it)?)))
    }

    /// The first of them, which decides.
    pub fn first(&self) -> usize {
        self.each().next().map_or(0, |it| it.0)
    }

    /// The first limit is exceeded for this time, for tests.
    #[cfg(test)]
    pub fn wait(wait: RefusedFor) -> Self {
        Self([Some(LimitExceeded::Rate(wait)), None, None, None])
    }

    /// Seconds after which the request is within all of them.
    pub fn seconds(&self) -> u64 {
        self.each().map(|it| it.1.seconds()).max().unwrap_or(1)
    }
}

impl AccessLimits {
    pub fn new(of: &[LimitConfig], state: &Arc<AccessState>) -> Self {
        Self(of.iter().take(MOST_LIMITS).map(|it| RequestLimit::new(it.clone(), state.clone())).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a request by all limits, or by none if it exceeds one. Allocates nothing.
    #[inline]
    pub fn take(&self, view: &RequestView<'_>) -> Result<CountedRequest, LimitsExceeded> {
        let (mut counted, now) = (CountedRequest::default(), ticks());
        for (number, limit) in self.0.iter().enumerate() {
            match limit.take(view, now) {
                Ok((event, in_progress)) => {
                    counted.events[number] = event;
                    counted.in_progress[number] = in_progress;
                }
                Err(exceeded) => {
                    self.give_back(counted);
                    return Err(self.with_others(number, exceeded, view));
                }
            }
        }
        Ok(counted)
    }

    /// The limits that a request exceeds, where it was refused by this one.
    #[cold]
    fn with_others(&self, number: usize, exceeded: LimitExceeded, view: &RequestView<'_>) -> LimitsExceeded {
        let mut all = match self.0.len() {
            1 => [None; MOST_LIMITS],
            _ => self.exceeded(view).map_or([None; MOST_LIMITS], |it| it.0),
        };
        all[number] = Some(exceeded);
        LimitsExceeded(all)
    }

    /// The request did not take place.
    pub fn give_back(&self, counted: CountedRequest) {
        for (limit, event) in self.0.iter().zip(counted.events) {
            event.into_iter().for_each(|it| limit.give_back(it));
        }
    }

    /// The rates that a request exceeds. Counts nothing.
    pub fn exceeded(&self, view: &RequestView<'_>) -> Option<LimitsExceeded> {
        let (mut found, now) = ([None; MOST_LIMITS], ticks());
        for (found, limit) in found.iter_mut().zip(&self.0) {
            *found = limit.is_exceeded(view, now).map(LimitExceeded::Rate);
        }
        found.iter().any(Option::is_some).then_some(LimitsExceeded(found))
    }

    /// The settings of the limit that decides.
    pub fn deciding(&self, exceeded: &LimitsExceeded) -> &LimitConfig {
        self.0[exceeded.first()].config()
    }

    /// The settings of the first limit.
    pub fn first(&self) -> Option<&LimitConfig> {
        self.0.first().map(RequestLimit::config)
    }

    /// Notes a request too many, and returns its response.
    #[cold]
    pub fn refuse(&self, exceeded: LimitsExceeded) -> Synthetic {
        let first = &self.0[exceeded.first()];
        first.note();
        let sentence = match exceeded.0[exceeded.first()] {
            Some(LimitExceeded::InProgress) => "Too many requests of this client are in progress.",
            _ => "The limit of requests is reached.",
        };
        let page = too_many(sentence, exceeded.seconds());
        let rates: Vec<(usize, RefusedFor)> =
            exceeded.each().filter_map(|it| Some((it.0, it.1.wait()?))).collect();
        if rates.is_empty() {
            return page;
        }
        let name = |number: usize| match self.0.len() {
            1 => "requests".to_owned(),
            _ => self.0[number].config().describe(),
        };
        let limits = rates.iter().map(|(at, wait)| format!("\"{}\";r=0;t={}", name(*at), wait.seconds()));
        let policies = self.0.iter().enumerate().filter_map(|(at, it)| {
            let gcra = it.config().rate?;
            let quota = u64::from(gcra.rate.count) + u64::from(it.config().burst);
            Some(format!("\"{}\";q={quota};w={}", name(at), gcra.rate.seconds))
        });
        let list = |it: Vec<String>| it.join(", ");
        page.with("RateLimit", list(limits.collect())).with("RateLimit-Policy", list(policies.collect()))
    }

    /// The limits, for tests.
    #[cfg(test)]
    pub fn all(&self) -> &[RequestLimit] {
        &self.0
    }
}

/// The response to a request too many (RFC 6585 §4). Limits of rates add the fields of draft-ietf-httpapi-ratelimit-headers-10.
pub(super) fn too_many(sentence: &str, seconds: u64) -> Synthetic {
    let page = Synthetic::page(429, sentence).with("Retry-After", seconds.to_string());
    page.with("Cache-Control", "no-store")
}
