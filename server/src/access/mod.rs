//! The access rules of routes (`site.route.access`), for hits as for misses and over every protocol. The
//! settings are in `larder_config::access`; admission asks here once for each request.

mod basic;
mod hashing;
mod limit;
#[cfg(test)]
mod tests;

use basic::{BasicAuth, BasicResult, UnverifiedPassword};
use larder_config::Config;
use larder_config::access::AccessConfig;
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Subsystem, SubsystemLog};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::policy::IDENTITY;
use larder_semantics::request_view::{self, RequestView};
use larder_transport::{Client, Synthetic};
use larder_wire::message::RequestHead;
use limit::{InProgress, RequestLimit, Taken};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// The state that all workers and configurations of a process share.
#[derive(Default)]
pub struct AccessState {
    limits: limit::LimitTables,
    remembered: basic::VerifiedPasswords,
    errors: OnceLock<SubsystemLog>,
}

/// The rules of a route; shared by the workers, and by the routes of a site with equal rules.
pub struct AccessRules {
    config: AccessConfig,
    limit: Option<RequestLimit>,
    basic: Option<BasicAuth>,
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
    in_progress: Option<InProgress>,
    /// The identity of the client for keys, where the route demands credentials.
    identity: Option<Arc<str>>,
    /// Whether larder has used up the `Authorization` field.
    drops_authorization: bool,
}

/// The most fields of a request, with one more.
const FIELDS: usize = 130;

impl Admitted {
    /// Whether the request changes on its way to the route.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> bool {
        self.identity.is_some() || self.drops_authorization
    }

    fn keeps(&self, it: &Field<'_>) -> bool {
        !(it.name == IDENTITY || self.drops_authorization && it.is("authorization"))
    }

    /// Changes the fields of a request on the slow path.
    pub fn change(&self, fields: &mut FieldList) {
        fields.retain(|it| self.keeps(&it));
        if let Some(identity) = &self.identity {
            fields.push(IDENTITY, identity.as_bytes());
        }
    }

    /// Calls `then` with the changed fields of a request on the fast path; `None` if there are too many of them.
    pub fn with_changed<T>(
        &self,
        fields: &[Field<'_>],
        then: impl FnOnce(&[Field<'_>]) -> Option<T>,
    ) -> Option<T> {
        let mut changed = [Field { name: "", value: b"" }; FIELDS];
        let mut count = 0;
        let own = self.identity.as_deref().map(|it| Field { name: IDENTITY, value: it.as_bytes() });
        for it in fields.iter().copied().filter(|it| self.keeps(it)).chain(own) {
            *changed.get_mut(count)? = it;
            count += 1;
        }
        then(&changed[..count])
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

    /// Gives the rules the error log of the process.
    pub fn tell(&self, errors: &ErrorLog) {
        self.state.errors.get_or_init(|| errors.of(Subsystem::Server));
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
    Admit,
    /// It gets this response.
    Refuse(Synthetic),
    /// The credentials have to be verified ([`AccessRules::verify`]).
    Ask(Unverified),
}

/// Credentials that have to be verified.
pub struct Unverified(UnverifiedPassword);

impl AccessRules {
    fn new(config: &AccessConfig, state: &Arc<AccessState>) -> Self {
        let limit = config.limit.as_ref().map(|it| RequestLimit::new(it.clone(), state.clone()));
        let basic = config.basic.as_ref().map(|it| BasicAuth::new(it, state.clone()));
        Self { config: config.clone(), limit, basic }
    }

    /// Judges a request, and notes the findings in `admitted`.
    pub fn judge(
        &self,
        head: &RequestHead<'_>,
        client: &Client,
        counters: &Counters,
        admitted: &RefCell<Admitted>,
    ) -> Verdict {
        let admitted = &mut *admitted.borrow_mut();
        *admitted = Admitted::default();
        let address = client.peer.map(|it| it.ip());
        let verdict = match self.by_facts(head, address, &client.listener) {
            Some(by_address) => self.by_credentials(head, address, by_address, counters, admitted),
            None => Verdict::Refuse(refused()),
        };
        if let Verdict::Refuse(page) = &verdict {
            count(page, counters);
        }
        verdict
    }

    /// Judges by address and conditions: whether the address alone admits the request. `None` if it is refused.
    fn by_facts(&self, head: &RequestHead<'_>, address: Option<IpAddr>, listener: &str) -> Option<bool> {
        let config = &self.config;
        if config.deny.as_ref().is_some_and(|it| it.has(address)) {
            return None;
        }
        if config.deny_when.is_some() || config.allow_when.is_some() {
            let mut room = Vec::new();
            let view = RequestView {
                method: head.method,
                scheme: head.scheme,
                authority: head.authority,
                target: head.target,
                path: request_view::normal_path(head.target, &mut room),
                fields: head.fields,
                client: address,
                listener,
                ..RequestView::default()
            };
            let denied = config.deny_when.as_ref().is_some_and(|it| it.holds(&view));
            if denied || config.allow_when.as_ref().is_some_and(|it| !it.holds(&view)) {
                return None;
            }
        }
        let has_address = config.allow.as_ref().is_some_and(|it| it.has(address));
        let needs_address = config.allow.is_some() && !(config.any && config.has_credentials());
        (has_address || !needs_address).then_some(has_address)
    }

    fn by_credentials(
        &self,
        head: &RequestHead<'_>,
        address: Option<IpAddr>,
        by_address: bool,
        counters: &Counters,
        admitted: &mut Admitted,
    ) -> Verdict {
        if let Some(limit) = &self.limit {
            match limit.take(head, address) {
                Ok((taken, in_progress)) => {
                    admitted.taken = taken;
                    admitted.in_progress = in_progress;
                }
                Err(page) => return Verdict::Refuse(page),
            }
        }
        let Some(basic) = &self.basic else { return Verdict::Admit };
        admitted.drops_authorization = !self.config.passes_authorization;
        if self.config.any && by_address {
            // The client is not identified: its responses are those of every client that its address admits.
            admitted.identity = Some(ANONYMOUS.into());
            return Verdict::Admit;
        }
        match basic.check(head.fields, address, counters) {
            BasicResult::Known(identity) => {
                admitted.identity = Some(identity);
                Verdict::Admit
            }
            BasicResult::Unknown(it) => Verdict::Ask(Unverified(it)),
            BasicResult::Refused(page) => Verdict::Refuse(page),
        }
    }

    /// Verifies credentials, and notes the identity in `admitted`. The response, if the request is not admitted.
    pub async fn verify(
        &self,
        it: Unverified,
        counters: &Counters,
        admitted: &RefCell<Admitted>,
    ) -> Option<Synthetic> {
        let Some(basic) = &self.basic else { return Some(refused()) };
        match basic.verify(it.0).await {
            Ok(identity) => {
                admitted.borrow_mut().identity = Some(identity);
                None
            }
            Err(page) => {
                count(&page, counters);
                Some(page)
            }
        }
    }

    /// Undoes the part that is done again when the request is admitted on the slow path.
    pub fn undo(&self, admitted: Admitted) {
        if let (Some(limit), Some(taken)) = (&self.limit, &admitted.taken) {
            limit.give_back(taken);
        }
        drop(admitted.in_progress);
    }
}

/// The identity of clients that their address admits.
const ANONYMOUS: &str = "address";

fn count(page: &Synthetic, counters: &Counters) {
    match page.status {
        429 => counters.access_limited.add(1),
        _ => counters.access_refused.add(1),
    }
}

fn refused() -> Synthetic {
    Synthetic::page(403, "Access to this page is not allowed.").with("Cache-Control", "no-store")
}
