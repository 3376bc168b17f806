//! The routes of a configuration for a trial: each recorded request is routed and admitted as a request of a client, by the
//! functions that serve; no password is verified, no service and no origin is asked, and no file is looked for.

use super::access::AccessVerdict;
use super::admission::{self, OwnAnswerRequest};
use super::live::Live;
use super::own_answer::AdmissionRule;
use super::purge::method;
use super::router::{FoundRoute, RouteTarget, Router};
use larder_config::{RouteConfig, Service, Source};
use larder_counters::Counters;
use larder_gateway::explain::trial::{self, CacheUse};
use larder_observe::log::ErrorLog;
use larder_semantics::expression::Expression;
use larder_semantics::field::Field;
use larder_semantics::geo::COUNTRY_FIELD;
use larder_semantics::policy::CredentialUse;
use larder_semantics::request_view::{RequestView, host_of};
use larder_semantics::trial::facts;
use larder_semantics::trial::{Course, TrialSide, UnknownFact};
use larder_transport::Client;
use larder_wire::message::Request;
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A configuration whose requests are tried.
pub struct TrialRoutes<'l> {
    live: &'l Live,
    router: Router,
    /// For each route the hash of its origin.
    origins: Vec<Vec<u64>>,
    /// For each site the cookies whose values its conditions compare.
    compared: Vec<Vec<String>>,
    /// For routes, by the positions of site and route, the private cookies that change no page.
    needless: HashMap<(usize, usize), Vec<String>>,
}

/// A recorded request.
pub struct TrialRequest<'r> {
    /// Its head; the fields are the recorded ones.
    pub request: Request,
    /// Its fields.
    pub fields: Vec<Field<'r>>,
    /// Its sender.
    pub client: Client,
    /// The status that it got, where neither the cache nor an origin answered.
    pub own_status: Option<u16>,
}

impl<'r> TrialRequest<'r> {
    /// The request of a sender at `address` over `listener`.
    #[must_use]
    pub fn new(request: Request, fields: Vec<Field<'r>>, address: Option<IpAddr>, listener: &str) -> Self {
        let peer = address.map(|it| SocketAddr::new(it, 0));
        let client = Client { peer, listener: listener.into(), ..Client::local(request.scheme) };
        Self { request, fields, client, own_status: None }
    }
}

/// The way in which the rules of access of a route are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessJudgement {
    /// Not: they are the same under both configurations, and their result is that of the recorded request.
    Same,
    /// The running ones: where credentials, a service or a rate decide, by the recorded result.
    Recorded,
    /// The changed ones: the decision of credentials, a service or a rate is unknown.
    Changed,
}

/// The route of a request under one configuration.
#[derive(Clone, Copy)]
pub enum TrialRoute<'a> {
    /// This one.
    Found(FoundRoute<'a>),
    /// None.
    None,
    /// It depends on a fact that was not recorded.
    Unknown(UnknownFact),
}

impl<'l> TrialRoutes<'l> {
    /// The routes of a configuration.
    #[must_use]
    pub fn new(live: &'l Live) -> Self {
        let router =
            live.router(&Arc::new(Counters::default()), &ErrorLog::off(), None, live.config.tls_port());
        let sites = || live.config.sites.iter();
        let origins = sites().map(|it| it.routes.iter().map(origin).collect()).collect();
        let compared = sites().map(|it| {
            let cookies = it.routes.iter().flat_map(conditions).flat_map(Expression::compared_cookies);
            cookies.map(str::to_owned).collect()
        });
        Self { live, router, origins, compared: compared.collect(), needless: HashMap::new() }
    }

    /// Sets the private cookies of the route at a position that change no page, as the recorded requests show.
    pub fn set_needless(&mut self, at: (usize, usize), names: Vec<String>) {
        self.needless.insert(at, names);
    }

    /// The route of a request.
    #[must_use]
    pub fn route(&self, it: &TrialRequest<'_>) -> TrialRoute<'_> {
        let request = &it.request;
        let site = self.router.site_at(host_of(&request.authority));
        if site.is_some_and(|at| facts::has_cookie(&it.fields, &self.compared[at])) {
            return TrialRoute::Unknown(UnknownFact::Condition);
        }
        let view = || self.view(it);
        let found = self.router.find_for(&request.method, &request.authority, &request.target, view);
        match found {
            Some(found) if found.falling().is_some() => TrialRoute::Unknown(UnknownFact::Files),
            Some(found) => TrialRoute::Found(found),
            None => TrialRoute::None,
        }
    }

    /// The configuration of a route.
    #[must_use]
    pub fn config(&self, route: TrialRoute<'_>) -> Option<&'l RouteConfig> {
        match route {
            TrialRoute::Found(FoundRoute { at: (site, route), .. }) => {
                self.live.config.sites.get(site)?.routes.get(route)
            }
            _ => None,
        }
    }

    /// Whether the site at a position redirects requests without TLS (`redirect_https`).
    #[must_use]
    pub fn secures(&self, site: usize) -> bool {
        self.live.config.sites.get(site).is_some_and(|it| it.redirects.to_https)
    }

    /// The hash of the origin of the route at a position.
    #[must_use]
    pub fn origin_of(&self, (site, route): (usize, usize)) -> u64 {
        self.origins.get(site).and_then(|it| it.get(route)).copied().unwrap_or(0)
    }

    /// The way of a request on its route. The key of the cache is written to `key`.
    pub fn side<'k>(
        &'k self,
        it: &TrialRequest<'_>,
        route: TrialRoute<'k>,
        number: Option<usize>,
        judgement: AccessJudgement,
        key: &'k mut Vec<u8>,
    ) -> TrialSide<'k> {
        let found = match route {
            TrialRoute::Unknown(fact) => {
                return TrialSide { route: None, origin: 0, demands: false, course: Course::Unknown(fact) };
            }
            TrialRoute::Found(found) => Some(found),
            TrialRoute::None => None,
        };
        let origin = found.map_or(0, |found| self.origin_of(found.at));
        let access = self.access(it, found, judgement);
        let course = match self.answered(it, found, access.course) {
            Some(course) => course,
            None => {
                found.map_or(Course::Answered { status: 404, key: PATH }, |found| self.course(it, found, key))
            }
        };
        TrialSide { route: number, origin, demands: access.demands, course }
    }

    /// The result of the rules of access.
    fn access<'k>(
        &'k self,
        it: &TrialRequest<'_>,
        found: Option<FoundRoute<'k>>,
        judgement: AccessJudgement,
    ) -> AccessResult<'k> {
        let rules = found.and_then(|it| it.admission).and_then(|it| it.access.as_ref());
        let Some(rules) = rules.filter(|_| judgement != AccessJudgement::Same) else {
            return AccessResult { demands: false, course: None };
        };
        let head = it.request.head(&it.fields);
        let route = found.map(|it| it.route);
        let finding =
            admission::with_view(&head, &it.client, route, self.router.geo(), |view| rules.explain(view));
        let (demands, key) = (finding.is_of_credentials(), finding.key);
        let is_by_record = judgement == AccessJudgement::Recorded && (demands || finding.is_of_rate());
        let course = match (finding.verdict, it.own_status) {
            // Any refusal of a service of `access.forward` is a response of larder's own, as is a redirect to its page.
            (_, Some(status @ (401 | 403 | 407))) if is_by_record && demands => {
                Some(Course::Refused { status, key })
            }
            (_, Some(status @ 300..=399)) if is_by_record && demands => Some(Course::Refused { status, key }),
            (_, Some(429)) if is_by_record => Some(Course::Answered { status: 429, key }),
            (AccessVerdict::Admitted, _) => None,
            _ if is_by_record => None,
            (AccessVerdict::Refused(status), _) if !demands || !facts::has_withheld(&it.fields) => {
                Some(Course::Refused { status, key })
            }
            (AccessVerdict::Refused(_) | AccessVerdict::Depends, _) => {
                Some(Course::Unknown(UnknownFact::Withheld))
            }
        };
        AccessResult { demands, course }
    }

    fn view<'v>(&'v self, it: &'v TrialRequest<'_>) -> RequestView<'v> {
        let head = it.request.head(&it.fields);
        admission::view(&head, &it.client, &it.client.listener, self.router.geo())
    }

    /// The answer of admission, if it gives one.
    fn answered<'k>(
        &'k self,
        it: &TrialRequest<'_>,
        found: Option<FoundRoute<'k>>,
        access: Option<Course<'k>>,
    ) -> Option<Course<'k>> {
        let head = it.request.head(&it.fields);
        let view = self.view(it);
        if method::route(&self.router, &it.request.method, || view).is_some() {
            return Some(Course::File);
        }
        let asked = OwnAnswerRequest { router: &self.router, found, purges: false, is_own: false };
        let (route, geo) = (found.map(|it| it.route), self.router.geo());
        let own = |service: bool| {
            let answer = admission::with_view(&head, &it.client, route, geo, |view| match service {
                false => admission::own_answer(&asked, view),
                true => admission::service_answer(&asked, view, false).map(|it| (it.0, it.1.into_owned())),
            });
            answer.map(|(rule, page)| Course::Answered { status: page.status, key: self.key_of(found, rule) })
        };
        if let Some(course) = own(false) {
            return Some(course);
        }
        let Some(found) = found else {
            let status = self.router.no_route(&view).page().status;
            return Some(Course::Answered { status, key: PATH });
        };
        if !found.sure && !self.router.has_one_access(&found, &view) {
            return Some(Course::Answered { status: 400, key: PATH });
        }
        access.or_else(|| own(true))
    }

    /// The key of a rule of admission that is set for a route.
    fn key_of(&self, found: Option<FoundRoute<'_>>, rule: AdmissionRule) -> &'static str {
        let row = found.and_then(|it| self.config(TrialRoute::Found(it)));
        let is_set = |it: &&&str| row.is_some_and(|row| row.decided.by(it) != Source::Default);
        rule.keys().iter().find(is_set).unwrap_or(&rule.keys()[0])
    }

    /// The way of a request on a route that admits it.
    fn course<'k>(
        &'k self,
        it: &TrialRequest<'_>,
        found: FoundRoute<'k>,
        key: &'k mut Vec<u8>,
    ) -> Course<'k> {
        let RouteTarget::Proxy(route) = found.target else { return Course::File };
        let policy = &route.policy;
        // Of credentials a hash is recorded, which is in the key of the trial in place of the value.
        let is_unknown = |name: &String| !facts::keeps(name);
        if policy.credentials == CredentialUse::InKey || policy.key.headers.iter().any(is_unknown) {
            return Course::Unknown(UnknownFact::Withheld);
        }
        let mut request = Cow::Borrowed(&it.request);
        if let Some(country) = self.view(it).country().filter(|_| policy.key.has_country()) {
            request.to_mut().fields.push(COUNTRY_FIELD, country.bytes());
        }
        let needless = self.needless.get(&found.at).map_or(&[][..], |it| it);
        match trial::cache_use(route, &request, needless, key) {
            CacheUse::Passed(why, of_one_client) => Course::Passed { why, of_one_client },
            CacheUse::Cached => Course::Cached { key, policy },
        }
    }
}

/// The result of the rules of access about a request.
struct AccessResult<'k> {
    /// Whether they demand credentials for it.
    demands: bool,
    /// The way of a request that they do not admit.
    course: Option<Course<'k>>,
}

/// The key of a request without a route.
const PATH: &str = "site[].route[].path";

/// The conditions of a route about requests.
fn conditions(route: &RouteConfig) -> impl Iterator<Item = &Expression> {
    let access = &route.access;
    [&route.when, &access.deny_when, &access.allow_when].into_iter().flatten()
}

/// A hash of the origin of a route and of the request that it gets. Not of the key: a parameter that is not in it is not sent
/// either, and the trial is about just that.
fn origin(route: &RouteConfig) -> u64 {
    let rewrite = &route.rewrite;
    let target = match &route.service {
        Service::Proxy(proxy) => {
            let members: Vec<String> = proxy.to.members.iter().map(|it| it.name()).collect();
            format!("{members:?} {:?} {:?}", proxy.host, proxy.php.is_some())
        }
        Service::Sql(sql) => format!("{sql:?}"),
        Service::Files(_) | Service::Redirect(_) | Service::Respond(_) => return 0,
    };
    xxh3_64(format!("{target} {:?} {:?}", rewrite.target, rewrite.fields).as_bytes())
}
