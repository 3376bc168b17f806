//! The access rules of routes (`site.route.access`), for hits as for misses and over every protocol. The
//! settings are in `larder_config::access`; admission asks here once for each request.

mod apr1;
mod basic;
mod credentials;
mod explain;
mod forward;
mod hashing;
mod issuer;
mod jwt;
mod limit;
mod limit_log;
mod limits;
mod signed;
#[cfg(test)]
mod tests;
mod verification;
mod verified;
mod watched_file;

use credentials::Credential;
pub use explain::{AccessFinding, AccessVerdict};
use issuer::IssuerKeys;
use larder_config::access::{AccessConfig, Addresses, ForwardConfig, KeyFile, KeyUrl};
use larder_config::{Config, RouteConfig, SiteConfig};
use larder_counters::{Counters, RouteScope};
use larder_gateway::miss_budget::MissBudget;
use larder_observe::log::{ErrorLog, Level, Subsystem, SubsystemLog};
use larder_semantics::field::{self, Field};
use larder_semantics::geo::{COUNTRY_FIELD, Country};
use larder_semantics::miss_budget::BudgetSettings;
use larder_semantics::path;
use larder_semantics::policy::{IDENTITY, USER};
use larder_semantics::request_view::RequestView;
use larder_semantics::server_state::BrokenFileFact;
use larder_transport::Synthetic;
use larder_wire::message::{Request, RequestHead};
use limit_log::LimitLog;
use limits::{AccessLimits, CountedRequest};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::task::JoinSet;
pub use verification::VerifyContext;
use verification::{Checked, UnverifiedCredential, ValidCredentials};
use watched_file::FileRegistry;

/// The state that all workers and configurations of a process share.
#[derive(Default)]
pub struct AccessState {
    limits: limit::LimitTables,
    remembered: verified::VerifiedMemory,
    passwords: Arc<hashing::HashPool>,
    /// The number of times that keys of tokens were read.
    keys_read: AtomicU64,
    answers: forward::RememberedAnswers,
    errors: OnceLock<SubsystemLog>,
    /// The keys that are fetched, by their URL.
    issuers: Mutex<Vec<(KeyUrl, Arc<IssuerKeys>)>>,
    /// The files of users.
    password_files: FileRegistry<PathBuf, basic::PasswordUsers>,
    /// The files of keys.
    key_files: FileRegistry<KeyFile, issuer::NumberedKeys>,
    /// The logs of budgets, by their site or route.
    budgets: Mutex<HashMap<String, Arc<LimitLog>>>,
}

impl AccessState {
    /// A number for keys that were read or fetched.
    fn next_keys(&self) -> u64 {
        self.keys_read.fetch_add(1, Relaxed)
    }

    /// The keys of an issuer.
    fn issuer(&self, url: &KeyUrl) -> Arc<IssuerKeys> {
        let mut all = self.issuers.lock();
        let found = all.iter().find(|it| it.0 == *url).map(|it| it.1.clone());
        found.unwrap_or_else(|| {
            let new = IssuerKeys::new(url);
            all.push((url.clone(), new.clone()));
            new
        })
    }

    /// Logs why credentials were refused: the client does not learn it.
    fn log_refused(&self, kind: &str, why: &str) {
        if let Some(errors) = self.errors.get().filter(|it| it.logs(Level::Debug)) {
            errors.seldom_of(Level::Debug, "credentials-refused", why, &[("kind", kind), ("why", why)]);
        }
    }
}

/// The rules of a route; shared by the workers, and by the routes of a site with equal rules.
pub struct AccessRules {
    config: AccessConfig,
    limits: AccessLimits,
    /// The credentials that it demands: all of them, or with `satisfy = "any"` one of them or an address of `allow`.
    credentials: Vec<Credential>,
    /// Whether larder uses up the `Authorization` field of requests.
    spends_authorization: bool,
    /// The fields of clients that are removed, in lower case with `-`; `None` if there are none.
    removed: Option<Arc<[String]>>,
    /// Whether an address of `allow` admits a request without a look at the rest of it.
    admits_by_address: bool,
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
    /// The counts of limits. Events of rates are given back if the fast path declines the request, which the slow path admits again;
    /// places among the requests in progress when the request ends in any way.
    counted: CountedRequest,
    /// The identity of the client for keys, where the route demands credentials.
    identity: Option<Arc<str>>,
    /// The name of the user, where credentials have one.
    user: Option<Vec<u8>>,
    /// The country of the client for keys, where it is part of them.
    country: Option<Country>,
    /// Whether larder has used up the `Authorization` field.
    drops_authorization: bool,
    /// The fields that the credentials give the request, in place of the client's; an empty value removes the client's alone.
    fields: Vec<(String, Vec<u8>)>,
    /// The names of the fields that a client cannot send, in lower case with `-`.
    removed: Option<Arc<[String]>>,
    /// `Set-Cookie` lines that the credentials give the client.
    cookies: Vec<Vec<u8>>,
    /// The target with which the request proceeds, in place of the client's.
    target: Option<String>,
}

/// The most fields of a request, with one more.
const FIELDS: usize = 130;

impl Admitted {
    /// Whether the request changes on its way to the route.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> bool {
        self.identity.is_some()
            || self.country.is_some()
            || self.drops_authorization
            || self.target.is_some()
            || self.removed.is_some()
            || !self.fields.is_empty()
    }

    /// Notes the country of the client for keys.
    pub fn note_country(&mut self, country: Option<Country>) {
        self.country = country;
    }

    /// The target as far as it may be shown: that of the client, without credentials.
    #[inline]
    #[must_use]
    pub fn target<'t>(&'t self, sent: &'t str) -> &'t str {
        self.target.as_deref().unwrap_or(sent)
    }

    /// The value of `{remote_user}`.
    #[inline]
    #[must_use]
    pub fn remote_user(&self) -> &[u8] {
        self.user.as_deref().unwrap_or_default()
    }

    /// Notes what credentials prove. The identity of several credentials is all of theirs.
    fn note(&mut self, proven: ValidCredentials) {
        self.identity = match (self.identity.take(), proven.identity) {
            (Some(before), Some(it)) => Some(format!("{before}+{it}").into()),
            (before, it) => before.or(it),
        };
        self.user = self.user.take().or(proven.user);
        self.fields.extend(proven.fields);
        self.cookies.extend(proven.cookies);
    }

    fn keeps(&self, it: &Field<'_>) -> bool {
        let is_replaced = || self.fields.iter().any(|(name, _)| it.is(name));
        let is_removed =
            || self.removed.iter().flat_map(|it| it.iter()).any(|name| is_spelling(it.name, name));
        let is_spent = self.drops_authorization && it.is("authorization");
        !(matches!(it.name, IDENTITY | USER | COUNTRY_FIELD) || is_spent || is_replaced() || is_removed())
    }

    /// The fields of its own, added to those of the client that it keeps.
    fn own(&self) -> impl Iterator<Item = Field<'_>> {
        let identity = self.identity.as_deref().map(|it| Field { name: IDENTITY, value: it.as_bytes() });
        let country = self.country.as_ref().map(|it| Field { name: COUNTRY_FIELD, value: it.bytes() });
        let user = self.user.as_deref().map(|value| Field { name: USER, value });
        let given = self.fields.iter().filter(|it| !it.1.is_empty());
        let given = given.map(|(name, value)| Field { name, value });
        identity.into_iter().chain(user).chain(country).chain(given)
    }

    /// The user of `access.basic`, or the subject of a token; empty without them. The fields that a service copies may be secret.
    #[must_use]
    pub fn user(&self) -> &str {
        let mut parts = self.identity.as_deref().unwrap_or_default().split('+');
        parts.find_map(|it| it.strip_prefix("basic:").or_else(|| it.strip_prefix("jwt:"))).unwrap_or_default()
    }

    /// Changes a request on the slow path.
    pub fn change(&self, request: &mut Request) {
        request.fields.retain(|it| self.keeps(&it));
        self.own().for_each(|it| request.fields.push(it.name, it.value));
        if let Some(target) = &self.target {
            request.target.clone_from(target);
        }
    }

    /// `Set-Cookie` lines for the client.
    #[must_use]
    pub fn cookies(&self) -> &[Vec<u8>] {
        &self.cookies
    }

    /// Calls `then` with the changed request on the fast path; `None` if it has too many fields.
    pub fn with_changed<T>(
        &self,
        head: &RequestHead<'_>,
        then: impl FnOnce(&RequestHead<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut changed = [Field { name: "", value: b"" }; FIELDS];
        let mut count = 0;
        for it in head.fields.iter().copied().filter(|it| self.keeps(it)).chain(self.own()) {
            *changed.get_mut(count)? = it;
            count += 1;
        }
        let target = self.target.as_deref().unwrap_or(head.target);
        then(&RequestHead { fields: &changed[..count], target, ..*head })
    }
}

impl LiveAccess {
    /// The rules of `config`; counts made under `before` are kept.
    #[must_use]
    pub fn new(config: &Config, before: Option<&LiveAccess>) -> Self {
        let state = before.map(|it| it.state.clone()).unwrap_or_default();
        let mut rules: HashMap<(usize, usize), Arc<AccessRules>> = HashMap::new();
        for (at, site) in config.sites.iter().enumerate() {
            for (number, these) in of_site(site, &state) {
                rules.insert((at, number), these);
            }
        }
        // Those of routes that were removed are forgotten with them.
        state.issuers.lock().retain(|it| Arc::strong_count(&it.1) > 1);
        state.password_files.forget_unused();
        state.key_files.forget_unused();
        Self { state, rules }
    }

    /// Starts to fetch the keys of its issuers, on the first worker; the tasks end with their owner.
    pub fn follow_issuers(&self, counters: &Arc<Counters>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let mut begun: Vec<Arc<IssuerKeys>> = Vec::new();
        for it in self.rules.values().flat_map(|it| &it.credentials).filter_map(Credential::issuer) {
            if begun.iter().any(|one| Arc::ptr_eq(one, it)) {
                continue;
            }
            begun.push(it.clone());
            let (keys, state, counters) = (it.clone(), self.state.clone(), counters.clone());
            tasks.spawn_local(async move { match keys.follow(&state, &counters).await {} });
        }
        tasks
    }

    /// Reads changed files of users and keys again: also those of routes without requests.
    pub fn look_at_files(&self, counters: &Counters) {
        self.credentials().for_each(|it| it.look(counters));
    }

    /// The files of users and keys that cannot be used.
    pub fn broken_files(&self) -> impl Iterator<Item = BrokenFileFact> + '_ {
        self.credentials().filter_map(Credential::broken)
    }

    fn credentials(&self) -> impl Iterator<Item = &Credential> {
        self.rules.values().flat_map(|it| &it.credentials)
    }

    /// Gives the rules the error log of the process.
    pub fn set_log(&self, errors: &ErrorLog) {
        let log = errors.of(Subsystem::Server);
        // The admin has a router as well, and no log.
        if log.logs(Level::Error) {
            self.state.errors.get_or_init(|| log);
        }
    }

    /// The budget of a route, which all workers share.
    #[must_use]
    pub fn budget(&self, settings: &BudgetSettings, route: Option<Arc<RouteScope>>) -> MissBudget {
        let state = self.state.clone();
        let described = settings.describe();
        let of = format!("{} {described}", settings.scope);
        let new = || Arc::new(LimitLog::new("budget-exceeded", &settings.scope, described.clone()));
        let log = state.budgets.lock().entry(of).or_insert_with(new).clone();
        let (table, seed) =
            (state.limits.rates().clone(), state.limits.seed(&format!("budget {}", settings.scope)));
        let report = Box::new(move || log.note(&state.errors));
        MissBudget { settings: settings.clone(), table, seed, route, report }
    }

    /// The rules of a route, if it has any.
    #[must_use]
    pub fn of(&self, at: (usize, usize)) -> Option<Arc<AccessRules>> {
        self.rules.get(&at).cloned()
    }
}

/// The rules of the routes of a site, by number. The fields in which one of them identifies clients are no client's on any route: an
/// application behind several routes takes them for larder's.
fn of_site(site: &SiteConfig, state: &Arc<AccessState>) -> Vec<(usize, Arc<AccessRules>)> {
    let mut different: Vec<AccessRules> = Vec::new();
    for route in &site.routes {
        if !route.access.is_none() && !different.iter().any(|it| it.config == route.access) {
            different.push(AccessRules::new(&route.access, state));
        }
    }
    let of_all = different.iter().flat_map(|it| &it.credentials).flat_map(Credential::identifying);
    let of_all = normal_names(of_all);
    for it in &mut different {
        let own = it.removed.iter().flat_map(|it| it.iter()).cloned();
        it.removed = normal_names(own.chain(of_all.iter().flat_map(|it| it.iter()).cloned()));
    }
    let open = of_all.map(|removed| {
        Arc::new(AccessRules { removed: Some(removed), ..AccessRules::new(&AccessConfig::default(), state) })
    });
    let different: Vec<Arc<AccessRules>> = different.into_iter().map(Arc::new).collect();
    let of = |route: &RouteConfig| match route.access.is_none() {
        true => open.clone(),
        false => different.iter().find(|it| it.config == route.access).cloned(),
    };
    site.routes.iter().enumerate().filter_map(|(at, it)| Some((at, of(it)?))).collect()
}

/// Names of fields in lower case with `-`, each once; `None` without any.
fn normal_names(of: impl Iterator<Item = String>) -> Option<Arc<[String]>> {
    let mut names: Vec<String> = of.map(|it| it.to_ascii_lowercase().replace('_', "-")).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.into())
}

/// The decision of the rules about a request.
pub enum Verdict {
    /// It is admitted.
    Admit,
    /// It gets this response.
    Refuse(Synthetic),
    /// The credentials have to be verified ([`AccessRules::verify`]).
    Ask(Box<Unverified>),
}

/// Credentials that have to be verified: their position, and the response if the rest is refused as well.
pub struct Unverified {
    at: usize,
    credential: UnverifiedCredential,
    refusal: Option<Synthetic>,
}

impl AccessRules {
    fn new(config: &AccessConfig, state: &Arc<AccessState>) -> Self {
        let limits = AccessLimits::new(&config.limits, state);
        let credentials = credentials::of(config, state);
        let uses_field = credentials.iter().any(Credential::is_in_authorization);
        let spends_authorization = uses_field && !config.passes_authorization;
        let removed = credentials.iter().flat_map(Credential::removed);
        let removed = normal_names(removed);
        let has_conditions = config.deny_when.is_some() || config.allow_when.is_some();
        let admits_by_address = !has_conditions
            && limits.is_empty()
            && credentials.is_empty()
            && config.deny.as_ref().is_none_or(Addresses::is_networks);
        let config = config.clone();
        Self { config, limits, credentials, spends_authorization, removed, admits_by_address }
    }

    /// Whether the address of the client admits a request already; otherwise [`Self::judge`] decides.
    #[must_use]
    pub fn admits_address(&self, address: Option<IpAddr>) -> bool {
        let has = |it: &Option<Addresses>| it.as_ref().is_some_and(|it| it.has_address(address));
        // Fields of clients that are removed for other routes of the site are removed for this one, too.
        let leaves_request = self.admits_by_address && self.removed.is_none();
        leaves_request && !has(&self.config.deny) && has(&self.config.allow)
    }

    /// The service of `access.forward`.
    #[must_use]
    pub fn auth_service(&self) -> Option<&ForwardConfig> {
        self.config.forward.as_ref()
    }

    /// The changes of a request that is admitted, as far as they are known without a verification; for `explain`.
    #[must_use]
    pub fn known_changes(&self, view: &RequestView<'_>) -> Admitted {
        let mut admitted = self.without_own_fields(view);
        if let Some(by_address) = self.by_facts(view) {
            drop(self.by_proof(view, by_address, &Counters::default(), &mut admitted));
        }
        admitted
    }

    /// The findings about a request before it is judged.
    fn without_own_fields(&self, view: &RequestView<'_>) -> Admitted {
        let is_sent = |names: &Arc<[String]>| {
            view.fields.iter().any(|it| names.iter().any(|name| is_spelling(it.name, name)))
        };
        Admitted { removed: self.removed.clone().filter(is_sent), ..Admitted::default() }
    }

    /// Judges a request, and notes the findings in `admitted`.
    pub fn judge(
        &self,
        view: &RequestView<'_>,
        counters: &Counters,
        admitted: &RefCell<Admitted>,
    ) -> Verdict {
        let admitted = &mut *admitted.borrow_mut();
        *admitted = self.without_own_fields(view);
        let verdict = match self.by_facts(view) {
            _ if self.is_ambiguous(view) => Verdict::Refuse(ambiguous()),
            Some(by_address) => self.by_credentials(view, by_address, counters, admitted),
            None => Verdict::Refuse(refused()),
        };
        if let Verdict::Refuse(page) = &verdict {
            count(page, counters);
        }
        verdict
    }

    /// Whether the conditions do not hold alike for every interpretation of the path.
    fn is_ambiguous(&self, view: &RequestView<'_>) -> bool {
        let (deny, allow) = (&self.config.deny_when, &self.config.allow_when);
        let spelled = view.spelled_path().as_bytes();
        if deny.is_none() && allow.is_none() || path::is_plain(spelled) {
            return false;
        }
        let of = |path: &[u8]| {
            let view = RequestView { path, ..*view };
            let is_denied = deny.as_ref().is_some_and(|it| it.holds(&view));
            (is_denied, allow.as_ref().is_some_and(|it| it.holds_for_each(&view)))
        };
        let own = of(view.path);
        !path::holds_for_all(spelled, &mut Vec::new(), |read, _| of(read) == own)
    }

    /// Judges by address and conditions: whether the address alone admits the request. `None` if it is refused.
    fn by_facts(&self, view: &RequestView<'_>) -> Option<bool> {
        let config = &self.config;
        let is_denied = config.deny.as_ref().is_some_and(|it| it.has(view))
            || config.deny_when.as_ref().is_some_and(|it| it.holds(view))
            || config.allow_when.as_ref().is_some_and(|it| !it.holds_for_each(view));
        if is_denied {
            return None;
        }
        let has_address = config.allow.as_ref().is_some_and(|it| it.has(view));
        let needs_address = config.allow.is_some() && !(config.any && config.has_credentials());
        (has_address || !needs_address).then_some(has_address)
    }

    fn by_credentials(
        &self,
        view: &RequestView<'_>,
        by_address: bool,
        counters: &Counters,
        admitted: &mut Admitted,
    ) -> Verdict {
        if !self.limits.is_empty() {
            match self.limits.take(view) {
                Ok(counted) => admitted.counted = counted,
                Err(exceeded) => return Verdict::Refuse(self.limits.refuse(exceeded)),
            }
        }
        self.by_proof(view, by_address, counters, admitted)
    }

    /// Judges by the credentials of a request that is within its limit.
    fn by_proof(
        &self,
        view: &RequestView<'_>,
        by_address: bool,
        counters: &Counters,
        admitted: &mut Admitted,
    ) -> Verdict {
        if self.credentials.is_empty() {
            return Verdict::Admit;
        }
        if let Some(removed) = &self.removed
            && nominates(view.fields, removed)
        {
            return Verdict::Refuse(Synthetic::page(400, NOMINATED).with("Cache-Control", "no-store"));
        }
        admitted.drops_authorization = self.spends_authorization;
        for it in &self.credentials {
            let target = admitted.target.as_deref().unwrap_or(view.target);
            admitted.target = it.stripped(target).or(admitted.target.take());
        }
        if self.config.any && by_address {
            // The client is not identified: its responses are those of every client that its address admits. With credentials
            // that the origin gets it has no identity, and its responses are not shared.
            let is_told = !self.spends_authorization && field::first(view.fields, "authorization").is_some()
                || self.credentials.iter().any(|it| it.may_identify(view));
            admitted.identity = (!is_told).then(|| ANONYMOUS.into());
            return Verdict::Admit;
        }
        self.prove(0, None, view, counters, admitted)
    }

    /// Judges by the credentials from number `from` on; `refusal` is the response if one suffices and none is valid.
    fn prove(
        &self,
        from: usize,
        mut refusal: Option<Synthetic>,
        view: &RequestView<'_>,
        counters: &Counters,
        admitted: &mut Admitted,
    ) -> Verdict {
        for (at, credential) in self.credentials.iter().enumerate().skip(from) {
            match credential.check(view, counters) {
                Checked::Valid(proven) => {
                    admitted.note(proven);
                    if self.config.any {
                        return Verdict::Admit;
                    }
                }
                Checked::Unknown(credential) => {
                    return Verdict::Ask(Box::new(Unverified { at, credential, refusal }));
                }
                Checked::Invalid(page) if self.config.any => {
                    refusal = Some(credentials::one_refusal(refusal, page));
                }
                Checked::Invalid(page) => return Verdict::Refuse(page),
            }
        }
        refusal.map_or(Verdict::Admit, Verdict::Refuse)
    }

    /// Verifies credentials, and notes the findings in `admitted`. The response, if the request is not admitted.
    pub async fn verify(
        &self,
        mut it: Box<Unverified>,
        view: &RequestView<'_>,
        context: &VerifyContext<'_>,
        admitted: &RefCell<Admitted>,
    ) -> Option<Synthetic> {
        let counters = context.counters;
        loop {
            let verified = self.credentials[it.at].verify(it.credential, view, context).await;
            let admitted = &mut *admitted.borrow_mut();
            let verdict = match verified {
                Ok(proven) => {
                    admitted.note(proven);
                    match self.config.any {
                        true => Verdict::Admit,
                        false => self.prove(it.at + 1, None, view, counters, admitted),
                    }
                }
                Err(page) if self.config.any => {
                    let refusal = credentials::one_refusal(it.refusal, page);
                    self.prove(it.at + 1, Some(refusal), view, counters, admitted)
                }
                Err(page) => Verdict::Refuse(page),
            };
            match verdict {
                Verdict::Admit => return None,
                Verdict::Refuse(page) => {
                    count(&page, counters);
                    return Some(page);
                }
                Verdict::Ask(next) => it = next,
            }
        }
    }

    /// Undoes the part that is done again when the request is admitted on the slow path.
    pub fn undo(&self, admitted: Admitted) {
        self.limits.give_back(admitted.counted);
    }
}

/// The sentence about a request that would have larder's own field removed on its way (RFC 9110 §7.6.1).
const NOMINATED: &str = "Connection names a field with which larder tells the origin of its client.";

/// Whether `name` is a spelling of `plain`, which is in lower case with `-`: CGI has one name for `X-User` and `x_user`. A `plain` that
/// ends in `*` has all names that begin so.
fn is_spelling(name: &str, plain: &str) -> bool {
    let same = |(one, other): (u8, u8)| other == if one == b'_' { b'-' } else { one.to_ascii_lowercase() };
    let (beginning, fits) = match plain.strip_suffix('*') {
        Some(it) => (it, name.len() > it.len()),
        None => (plain, name.len() == plain.len()),
    };
    fits && name.bytes().zip(beginning.bytes()).all(same)
}

/// Whether `Connection` names one of these fields.
fn nominates(fields: &[Field<'_>], removed: &[String]) -> bool {
    let names = field::all(fields, "connection").flat_map(field::members);
    names
        .filter_map(|it| std::str::from_utf8(it).ok())
        .any(|it| removed.iter().any(|name| is_spelling(it, name)))
}

/// The identity of clients that their address admits.
const ANONYMOUS: &str = "address";

fn count(page: &Synthetic, counters: &Counters) {
    match page.status {
        429 => counters.access_limited.add(1),
        _ => counters.access_refused.add(1),
    }
}

/// The response to a path whose interpretations are subject to different rules.
pub(crate) fn ambiguous() -> Synthetic {
    Synthetic::page(400, "The path is ambiguous: its interpretations have different access rules.")
}

fn refused() -> Synthetic {
    no_store(Synthetic::page(403, "Access to this page is not allowed."))
}

/// A response that no cache keeps.
fn no_store(page: Synthetic) -> Synthetic {
    page.with("Cache-Control", "no-store")
}
