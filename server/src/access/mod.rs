//! The access rules of routes (`site.route.access`), for hits as for misses and over every protocol. The
//! settings are in `larder_config::access`; admission asks here once for each request.

mod limit;
#[cfg(test)]
mod tests;

use larder_config::Config;
use larder_config::access::AccessConfig;
use larder_counters::Counters;
use larder_transport::{Client, Synthetic};
use larder_wire::message::RequestHead;
use limit::{InProgress, RequestLimit, Taken};
use std::collections::HashMap;
use std::sync::Arc;

/// The state that all workers and configurations of a process share.
#[derive(Default)]
pub struct AccessState {
    limits: limit::LimitTables,
}

/// The rules of a route; shared by the workers, and by the routes of a site with equal rules.
pub struct AccessRules {
    config: AccessConfig,
    limit: Option<RequestLimit>,
}

/// The rules of the routes of one configuration.
#[derive(Default)]
pub struct LiveAccess {
    state: Arc<AccessState>,
    rules: HashMap<(usize, usize), Arc<AccessRules>>,
}

/// The findings about an admitted request. It lives as long as the request.
#[derive(Default)]
pub struct Admitted {
    /// An event of a rate, which is given back if the fast path declines the request: the slow path admits it again.
    taken: Option<Taken>,
    /// Its place among the requests in progress, given back when the request ends in any way.
    _in_progress: Option<InProgress>,
}

impl AccessRules {
    /// Undoes what will be done again when the request is admitted on the slow path.
    pub fn undo(&self, admitted: Admitted) {
        if let (Some(limit), Some(taken)) = (&self.limit, &admitted.taken) {
            limit.give_back(taken);
        }
    }
}

impl LiveAccess {
    /// The rules of `config`; counts made under `before` are kept.
    #[must_use]
    pub fn new(config: &Config, before: Option<&LiveAccess>) -> Self {
        let state = before.map(|it| it.state.clone()).unwrap_or_default();
        let mut rules: HashMap<(usize, usize), Arc<AccessRules>> = HashMap::new();
        for (at, site) in config.sites.iter().enumerate() {
            let mut own: Vec<Arc<AccessRules>> = Vec::new();
            for (number, route) in site.routes.iter().enumerate().filter(|it| !it.1.access.is_none()) {
                let equal = own.iter().find(|it| it.config == route.access).cloned();
                let these = equal.unwrap_or_else(|| Arc::new(AccessRules::new(&route.access, &state)));
                own.push(these.clone());
                rules.insert((at, number), these);
            }
        }
        Self { state, rules }
    }

    /// The rules of a route, if it has any.
    #[must_use]
    pub fn of(&self, at: (usize, usize)) -> Option<Arc<AccessRules>> {
        self.rules.get(&at).cloned()
    }
}

/// The decision of the rules about a request.
pub enum Verdict {
    /// It is admitted.
    Admit(Admitted),
    /// It gets this response.
    Refuse(Synthetic),
}

impl AccessRules {
    fn new(config: &AccessConfig, state: &Arc<AccessState>) -> Self {
        let limit = config.limit.as_ref().map(|it| RequestLimit::new(it.clone(), state.clone()));
        Self { config: config.clone(), limit }
    }

    /// Judges a request.
    pub fn judge(&self, head: &RequestHead<'_>, client: &Client, counters: &Counters) -> Verdict {
        let address = client.peer.map(|it| it.ip());
        let country = || None;
        let denied = self.config.deny.as_ref().is_some_and(|it| it.has(address, country));
        if denied || self.config.allow.as_ref().is_some_and(|it| !it.has(address, country)) {
            counters.access_refused.add(1);
            return Verdict::Refuse(refused());
        }
        let mut admitted = Admitted::default();
        if let Some(limit) = &self.limit {
            match limit.take(head, address) {
                Ok((taken, in_progress)) => {
                    admitted.taken = taken;
                    admitted._in_progress = in_progress;
                }
                Err(page) => {
                    counters.access_limited.add(1);
                    return Verdict::Refuse(page);
                }
            }
        }
        Verdict::Admit(admitted)
    }
}

fn refused() -> Synthetic {
    Synthetic::page(403, "Access to this page is not allowed.").with("Cache-Control", "no-store")
}
