//! The access logs of sites: a target and a format of its own, and the requests that are not logged. The lines go the same
//! way as those of the log of all sites: no request waits for one.

use super::{AccessLog, LogFormat, LogHandle, LogTarget};
use crate::Finished;
use crate::stream::FilterFacts;
use larder_counters::Counters;
use larder_semantics::expression::Expression;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The rules of one site about its log.
#[derive(Clone, Debug, Default)]
pub struct SiteLogRules {
    /// Its own target; `None` is the log of all sites.
    pub target: Option<LogTarget>,
    /// Its own format; `None` is that of all sites.
    pub format: Option<LogFormat>,
    /// Only requests for which this holds are logged.
    pub when: Option<Expression>,
    /// And not those for which this holds.
    pub skip: Option<Expression>,
}

impl SiteLogRules {
    /// Whether the site is logged like all others.
    #[must_use]
    pub fn are_default(&self) -> bool {
        self.target.is_none() && self.format.is_none() && self.when.is_none() && self.skip.is_none()
    }

    fn leave_out(&self, it: &Finished<'_>) -> bool {
        let facts = FilterFacts { it, is_shown: false };
        self.when.as_ref().is_some_and(|when| !when.holds(&facts))
            || self.skip.as_ref().is_some_and(|skip| skip.holds(&facts))
    }
}

/// One site with rules of its own, and its open log.
#[derive(Clone)]
pub struct OpenSiteLog {
    /// The name of the site.
    pub site: String,
    /// Its rules.
    pub rules: SiteLogRules,
    /// The log that it writes to.
    pub log: Arc<AccessLog>,
}

/// The logs of sites in one worker.
#[derive(Default)]
pub(crate) struct SiteLogs {
    parts: RefCell<Vec<(OpenSiteLog, LogHandle)>>,
    /// Whether any of them writes lines.
    is_on: Cell<bool>,
}

impl SiteLogs {
    /// Takes over the logs of a configuration; `counters` are those of the worker.
    pub(crate) fn follow(&self, logs: &[OpenSiteLog], counters: &Arc<Counters>) {
        let part = |it: &OpenSiteLog| {
            let handle = it.log.worker(counters.clone());
            if let Some(format) = &it.rules.format {
                handle.follow_as(&it.log, format.clone());
            }
            (it.clone(), handle)
        };
        // The old handles send their lines when they are dropped.
        self.parts.replace(logs.iter().map(part).collect());
        self.is_on.set(self.parts.borrow().iter().any(|it| it.1.is_on()));
    }

    /// Whether any site has a log of its own.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Hands the request to `write` with the log of its site, or with `other` if that has no rules; not at all if the rules
    /// leave it out.
    pub(crate) fn choose(&self, it: &Finished<'_>, other: &LogHandle, write: impl FnOnce(&LogHandle)) {
        let parts = self.parts.borrow();
        match parts.iter().find(|part| part.0.site == it.site) {
            Some((part, _)) if part.rules.leave_out(it) => {}
            Some((_, handle)) => write(handle),
            None => write(other),
        }
    }

    pub(crate) fn flush(&self) {
        self.parts.borrow().iter().for_each(|it| it.1.flush());
    }
}
