//! The evidence of recent requests about each route, as `semantics::trial::evidence` judges it, and its sentences.

use super::parsed_record::{ParsedRecord, RoutePlace};
use larder_config::RouteConfig;
use larder_observe::recorder::origin_hash;
use larder_semantics::policy::Policy;
use larder_semantics::secret::shown_target;
use larder_semantics::server_state::{DisagreeingFact, FailingUrlFact, ProxyLoopFact};
use larder_semantics::trial::RecordedRequest;
use larder_semantics::trial::evidence::{
    CookieEvidence, CookieSharing, DemandEvidence, DemandedResponses, MissingEvidence, NeedlessParameters,
    ParameterEvidence, ProxyLoops, ReorderedParameters, RouteFaults, ShareableResponses, SharingRefusal,
    SilentErrors, UncachedEvidence, VALUES, VariantEvidence, VaryingField,
};
use larder_server::trial::{TrialRoute, TrialRoutes};
use larder_stdx::clock;
use std::collections::HashMap;
use std::net::IpAddr;

/// The evidence about a route.
pub(crate) struct RouteEvidence {
    /// About cookies.
    pub(crate) cookies: CookieSharing,
    /// About parameters.
    pub(crate) parameters: Option<NeedlessParameters>,
    /// About the order of parameters.
    pub(crate) reordered: Option<ReorderedParameters>,
    /// The fields in `Vary` that make variants.
    pub(crate) varying: Vec<VaryingField>,
    /// The requests that demand a new response of a page that could be a hit.
    pub(crate) demanded: Option<DemandedResponses>,
    /// The errors among the responses without a lifetime.
    pub(crate) silent: SilentErrors,
    /// Of a route that does not use the cache: whether it could.
    pub(crate) shareable: Option<ShareableResponses>,
    /// The URL of the request that refuses sharing, if one does.
    example: Option<String>,
}

impl RouteEvidence {
    /// The evidence for requests that are withheld from the cache because of cookies, one sentence for an operator; `None` without such
    /// requests.
    pub(crate) fn sentence(&self) -> Option<String> {
        let url = self.example.as_deref().unwrap_or("a page");
        Some(match &self.cookies {
            CookieSharing::Unneeded => return None,
            CookieSharing::Equal(it) => format!(
                "Recent requests: {} of {} could have been hits; {} pages were the same for all values of {}.",
                it.could.saturating_sub(it.pages),
                it.all,
                it.pages,
                it.cookies.iter().chain(&it.analytics).map(String::as_str).collect::<Vec<_>>().join(", "),
            ),
            CookieSharing::Refused(why, _) => match why {
                SharingRefusal::Private => {
                    format!(
                        "Recent requests: the application marks responses of this route as private, such as {url}."
                    )
                }
                SharingRefusal::SetsCookie => {
                    format!("Recent requests: responses of this route set a cookie, such as {url}.")
                }
                SharingRefusal::Differs => {
                    format!(
                        "Recent requests: responses to one URL differed between clients, or from request to request, such as {url}."
                    )
                }
            },
            CookieSharing::Missing(why) => {
                let missing = match why {
                    MissingEvidence::Requests => "fewer than 10 responses can be compared".to_owned(),
                    MissingEvidence::Clients => "most pages were requested by one client only".to_owned(),
                    MissingEvidence::Values => {
                        format!("no page has been requested with {VALUES} different values of a cookie yet")
                    }
                };
                format!("Whether these pages are the same for all clients is not known yet: {missing}.")
            }
        })
    }
}

/// Faults of the application that recent requests show.
#[derive(Default)]
pub(crate) struct RecentFaults {
    /// URLs whose requests all fail.
    pub(crate) failing: Vec<FailingUrlFact>,
    /// Origins that disagree on sharing.
    pub(crate) disagreeing: Vec<DisagreeingFact>,
    /// Proxies that are not trusted, whose clients are redirected in a loop.
    pub(crate) loops: Vec<ProxyLoopFact>,
}

/// The age of the oldest request that shows such a fault, seconds.
const RECENT: u64 = 300;
/// The most URLs that are named.
const URLS: usize = 10;

/// The faults that the recorded requests of the last minutes show; `origins` are the names of all origins.
pub(super) fn application_faults(
    now: &TrialRoutes<'_>,
    parsed: &[ParsedRecord<'_>],
    origins: &[String],
) -> RecentFaults {
    let mut routes: HashMap<RoutePlace, (&RouteConfig, RouteFaults<'_>, ProxyLoops)> = HashMap::new();
    let wall = clock::wall();
    for (number, it) in parsed.iter().enumerate().filter(|it| wall.seconds_since(it.1.record.time) <= RECENT)
    {
        let route = now.route(&it.request);
        let (TrialRoute::Found(at), Some(config)) = (route, now.config(route)) else { continue };
        let (_, route, loops) = routes
            .entry(at.at)
            .or_insert_with(|| (config, RouteFaults::new(&config.cache), ProxyLoops::default()));
        let request = it.recorded(None);
        route.note(number, &request, it.record.origin);
        loops.note(&request, it.record.address, now.secures(at.at.0));
    }
    let name = |hash: u64| origins.iter().find(|it| origin_hash(it) == hash).cloned();
    let mut found = RecentFaults::default();
    for (config, application_faults, loops) in routes.into_values() {
        let route = &*config.name;
        found.loops.extend(loops.found().map(|it| ProxyLoopFact { route: route.to_owned(), found: it }));
        found.failing.extend(application_faults.failing().map(|it| FailingUrlFact {
            url: url_of(parsed, it.number),
            route: route.to_owned(),
            requests: it.requests,
            status: it.status,
        }));
        found.disagreeing.extend(application_faults.disagreement().and_then(|it| {
            Some(DisagreeingFact {
                route: route.to_owned(),
                url: url_of(parsed, it.number),
                shares: (name(it.shares.0)?, it.shares.1),
                forbids: (name(it.forbids.0)?, it.forbids.1),
            })
        }));
    }
    found.failing.sort_by(|a, b| (b.requests, &a.url).cmp(&(a.requests, &b.url)));
    found.failing.truncate(URLS);
    found.disagreeing.sort_by(|a, b| a.route.cmp(&b.route));
    found.loops.sort_by(|a, b| a.route.cmp(&b.route));
    found
}

/// The URL of a recorded request, without secrets.
fn url_of(parsed: &[ParsedRecord<'_>], number: usize) -> String {
    parsed.get(number).map(|it| it.record).map_or_else(String::new, |it| {
        format!("{}://{}{}", it.scheme.name(), it.authority(), shown_target(it.target()))
    })
}

/// The evidence about a route, while it is gathered.
enum GatheredEvidence<'p, 'r> {
    Cached {
        cookies: Box<CookieEvidence<'p, 'r>>,
        parameters: ParameterEvidence<'p, 'r>,
        variants: VariantEvidence<'p>,
        demands: Box<DemandEvidence>,
        silent: (&'p Policy, SilentErrors),
    },
    Uncached(Box<UncachedEvidence<'r>>),
}

impl<'p, 'r> GatheredEvidence<'p, 'r> {
    fn new(policy: &'p Policy) -> Self {
        match policy.enabled {
            true => Self::Cached {
                cookies: Box::new(CookieEvidence::new(policy)),
                parameters: ParameterEvidence::new(policy),
                variants: VariantEvidence::new(policy),
                demands: Box::new(DemandEvidence::new(policy)),
                silent: (policy, SilentErrors::default()),
            },
            false => Self::Uncached(Box::new(UncachedEvidence::new(policy))),
        }
    }

    fn note(&mut self, number: usize, request: &RecordedRequest<'r>, client: Option<IpAddr>) {
        match self {
            Self::Cached { cookies, parameters, variants, demands, silent: (policy, silent) } => {
                demands.note(request, client);
                silent.note(policy, request);
                cookies.note(number, request);
                parameters.note(number, request);
                variants.note(request);
            }
            Self::Uncached(it) => it.note(number, request),
        }
    }

    fn verdict(&self, parsed: &[ParsedRecord<'_>]) -> RouteEvidence {
        let nothing = RouteEvidence {
            cookies: CookieSharing::Unneeded,
            parameters: None,
            reordered: None,
            varying: Vec::new(),
            demanded: None,
            silent: SilentErrors::default(),
            shareable: None,
            example: None,
        };
        match self {
            Self::Cached { cookies, parameters, variants, demands, silent } => {
                let cookies = cookies.verdict();
                let example = match cookies {
                    CookieSharing::Refused(_, number) => Some(url_of(parsed, number)),
                    _ => None,
                };
                RouteEvidence {
                    cookies,
                    parameters: parameters.verdict(),
                    reordered: parameters.reordered(),
                    varying: variants.verdict(),
                    demanded: demands.verdict(),
                    silent: silent.1.clone(),
                    example,
                    ..nothing
                }
            }
            Self::Uncached(it) => RouteEvidence { shareable: it.verdict(), ..nothing },
        }
    }
}

/// The evidence about each route that recorded requests had.
pub(super) fn gather(
    now: &TrialRoutes<'_>,
    parsed: &[ParsedRecord<'_>],
) -> HashMap<RoutePlace, RouteEvidence> {
    let mut found: HashMap<RoutePlace, GatheredEvidence<'_, '_>> = HashMap::new();
    for (number, it) in parsed.iter().enumerate() {
        let route = now.route(&it.request);
        let (TrialRoute::Found(at), Some(config)) = (route, now.config(route)) else { continue };
        let gathered = found.entry(at.at).or_insert_with(|| GatheredEvidence::new(&config.cache));
        gathered.note(number, &it.recorded(None), it.record.address);
    }
    found.into_iter().map(|(at, it)| (at, it.verdict(parsed))).collect()
}
