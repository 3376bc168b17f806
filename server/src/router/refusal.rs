//! The response to a request without a route: the method is not one of the path's routes (405), only the slash at the end
//! is missing (a redirect), or there is no route (404).

use super::{Asked, Matched, Router};
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
    /// The path of a route `/app/*` without its last slash; the target with it.
    Slash(String),
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
        let any = Asked { method: None, view: Some(view) };
        let mut methods: Vec<String> = Vec::new();
        for it in routes.iter().filter(|it| it.takes(any, &room, Decode::All)) {
            methods.extend(accepted(&it.methods).filter(|it| !methods.contains(it)).collect::<Vec<_>>());
        }
        if !methods.is_empty() {
            return NoRoute::Method(methods);
        }
        self.slash(routes, view).map_or(NoRoute::Nothing, NoRoute::Slash)
    }

    /// The target with a slash at the end of its path, if that is the beginning of a route `/app/*`.
    fn slash(&self, routes: &[Matched], view: &RequestView<'_>) -> Option<String> {
        let spelled = view.spelled_path();
        // Another spelling could be another host.
        if !path::is_plain(spelled.as_bytes()) || spelled.ends_with('/') {
            return None;
        }
        let longer = format!("{spelled}/");
        let asked = Asked { method: Some(view.method), view: Some(view) };
        let is_meant = |it: &&Matched| it.path.is_below(longer.as_bytes());
        routes.iter().filter(is_meant).find(|it| it.takes(asked, longer.as_bytes(), Decode::All))?;
        Some(format!("{longer}{}", &view.target[spelled.len().min(view.target.len())..]))
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
    /// The response to a request with this method. Of the request it repeats only a target in its normal form.
    #[must_use]
    pub fn page(&self, method: &str) -> Synthetic {
        match self {
            NoRoute::Nothing => Synthetic::page(404, "No route matches this host and path."),
            NoRoute::Method(these) => {
                Synthetic::page(405, "The routes of this path do not accept this method.")
                    .with("Allow", these.join(", "))
            }
            NoRoute::Slash(target) => {
                // Only 308 keeps another method (RFC 9110 section 15.4.9).
                let status = if matches!(method, "GET" | "HEAD") { 301 } else { 308 };
                Synthetic::page(status, "The path of this resource ends with a slash.")
                    .with("Location", target)
            }
        }
    }
}
