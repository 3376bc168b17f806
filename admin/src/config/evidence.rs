//! The evidence of recent requests about each route, as `semantics::trial::evidence` judges it, and its sentences.

use super::trial::{ParsedRecord, RoutePlace};
use larder_semantics::secret::shown_target;
use larder_semantics::trial::evidence::{
    CookieEvidence, CookieSharing, MissingEvidence, NeedlessParameters, ParameterEvidence, SharingRefusal,
    VALUES,
};
use larder_server::trial::{TrialRoute, TrialRoutes};
use std::collections::HashMap;

/// The evidence about a route.
pub(crate) struct RouteEvidence {
    /// About cookies.
    pub(crate) cookies: CookieSharing,
    /// About parameters.
    pub(crate) parameters: Option<NeedlessParameters>,
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

/// The evidence about each route that recorded requests had.
pub(super) fn gather(
    now: &TrialRoutes<'_>,
    parsed: &[ParsedRecord<'_>],
) -> HashMap<RoutePlace, RouteEvidence> {
    let mut found: HashMap<RoutePlace, (CookieEvidence<'_, '_>, ParameterEvidence<'_, '_>)> = HashMap::new();
    for (number, it) in parsed.iter().enumerate() {
        let route = now.route(&it.request);
        let (TrialRoute::Found(at), Some(config)) = (route, now.config(route)) else { continue };
        if !config.cache.enabled {
            continue;
        }
        let (cookies, parameters) = found
            .entry(at.at)
            .or_insert_with(|| (CookieEvidence::new(&config.cache), ParameterEvidence::new(&config.cache)));
        let request = it.recorded(None);
        cookies.note(number, &request);
        parameters.note(number, &request);
    }
    let judged =
        |(at, (cookies, parameters)): (RoutePlace, (CookieEvidence<'_, '_>, ParameterEvidence<'_, '_>))| {
            let (cookies, parameters) = (cookies.verdict(), parameters.verdict());
            let example = match cookies {
                CookieSharing::Refused(_, number) => parsed.get(number).map(|it| it.record).map(|it| {
                    format!("{}://{}{}", it.scheme.name(), it.authority(), shown_target(it.target()))
                }),
                _ => None,
            };
            (at, RouteEvidence { cookies, parameters, example })
        };
    found.into_iter().map(judged).collect()
}
