//! The response to a request without a route: the method is not one of the path's routes (405), or there is no route (404).

use super::{RouteQuery, Router, RoutesWithoutFile};
use larder_config::Methods;
use larder_semantics::path::{self, Decode};
use larder_semantics::request_view::{RequestView, host_of};
use larder_transport::Synthetic;

/// The reason why a request has no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No site, or none of its routes, matches.
    Nothing,
    /// Routes match, but not for this method; these are theirs.
    Method(Vec<String>),
}

impl Router {
    /// The reason why a request has no route. Called only for one without.
    #[must_use]
    #[cold]
    pub fn no_route(&self, view: &RequestView<'_>) -> NoRoute {
        let Some(site) = self.site(host_of(view.authority)) else { return NoRoute::Nothing };
        let routes = &self.sites[site].routes;
        let mut room = Vec::new();
        path::read(view.spelled_path().as_bytes(), path::NORMAL, &mut room);
        let is_for_file = matches!(view.method, "GET" | "HEAD");
        let without = if is_for_file { RoutesWithoutFile::ALL } else { RoutesWithoutFile::default() };
        let any = RouteQuery { method: None, view: Some(view), without };
        let mut methods: Vec<String> = Vec::new();
        for it in self.matching(site, any, &room, Decode::All).map(|it| &routes[it]) {
            methods.extend(accepted(&it.methods).filter(|it| !methods.contains(it)).collect::<Vec<_>>());
        }
        if !methods.is_empty() {
            return NoRoute::Method(methods);
        }
        NoRoute::Nothing
    }
}

/// The methods of a route, `HEAD` included where `GET` is.
fn accepted(methods: &Methods) -> impl Iterator<Item = String> {
    let these = match methods {
        Methods::Any => &[][..],
        Methods::Only(these) => these,
    };
    let head = these.iter().any(|it| it == "GET") && !these.iter().any(|it| it == "HEAD");
    these.iter().cloned().chain(head.then(|| "HEAD".to_owned()))
}

impl NoRoute {
    /// The response. It repeats nothing of the request.
    #[must_use]
    pub fn page(&self) -> Synthetic {
        match self {
            NoRoute::Nothing => Synthetic::page(404, "No route matches this host and path."),
            NoRoute::Method(these) => {
                Synthetic::page(405, "The routes of this path do not accept this method.")
                    .with("Allow", these.join(", "))
            }
        }
    }
}
