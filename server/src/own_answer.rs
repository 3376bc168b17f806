//! Answers of larder itself, before it looks for a page: redirects of a site, maintenance, CORS preflights, and the routes that are a
//! redirect or a fixed answer. Admission asks in this order; the rules of access are not here.

use bytes::Bytes;
use larder_config::finish::{
    CorsConfig, MaintenanceConfig, RedirectConfig, RespondBody, RespondConfig, ServedFile, SiteRedirects,
};
use larder_semantics::field;
use larder_semantics::pattern::PathPattern;
use larder_semantics::redirect::{self as target, OriginRedirect};
use larder_semantics::request_view::RequestView;
use larder_semantics::scheme::Scheme;
use larder_semantics::template::Template;
use larder_transport::{PLAIN_TEXT, ReadySynthetic, ResponseWriter, Synthetic};
use larder_wire::message::reason;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

/// The rule that decided about a request before the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionRule {
    /// `site.redirect_https`.
    Https,
    /// `site.canonical_host`.
    CanonicalHost,
    /// `site.redirect_map`.
    RedirectMap {
        /// The line of the map, counted from 1.
        line: u32,
    },
    /// `maintenance`.
    Maintenance,
    /// `cors`: a preflight request.
    Preflight,
    /// `path`: of `/app/*` for `/app`, whose slash is missing.
    Slash,
    /// `redirect` or `respond`: the service of the route.
    Service,
}

impl AdmissionRule {
    /// Its name in `explain`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AdmissionRule::Https
            | AdmissionRule::CanonicalHost
            | AdmissionRule::RedirectMap { .. }
            | AdmissionRule::Slash => "redirect",
            AdmissionRule::Maintenance => "maintenance",
            AdmissionRule::Preflight => "preflight",
            AdmissionRule::Service => "answer",
        }
    }

    /// The key that made it, in the notation of the table; for a service one of two.
    #[must_use]
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            AdmissionRule::Https => &["site[].redirect_https"],
            AdmissionRule::CanonicalHost => &["site[].canonical_host"],
            AdmissionRule::RedirectMap { .. } => &["site[].redirect_map"],
            AdmissionRule::Maintenance => &["site[].route[].maintenance.enabled"],
            AdmissionRule::Preflight => &["site[].route[].cors.origins"],
            AdmissionRule::Slash => &["site[].route[].path"],
            AdmissionRule::Service => &[
                "site[].route[].redirect.to",
                "site[].route[].respond.body",
                "site[].route[].respond.file",
                "site[].route[].respond.health",
                "site[].route[].respond.status",
            ],
        }
    }
}

/// The redirects of a site, in one worker.
pub struct LiveRedirects {
    config: SiteRedirects,
    /// The port of the first listener with TLS.
    tls_port: Option<u16>,
}

/// The answers of a route before the cache, in one worker.
pub struct RouteAnswers {
    maintenance: Option<(MaintenanceConfig, Option<Page>)>,
    cors: Option<CorsConfig>,
    service: Option<OwnService>,
}

/// The media type and body of a page from a file.
type Page = (String, Bytes);

/// The service of a route that needs neither origin nor file.
enum OwnService {
    /// To one target without variables, made for requests without a query to add.
    ConstantRedirect(RedirectConfig, ReadySynthetic),
    Redirect(RedirectConfig),
    /// A fixed answer without variables.
    Constant(ReadySynthetic),
    Respond {
        status: u16,
        media_type: String,
        body: OwnBody,
    },
}

enum OwnBody {
    Template(Template),
    Ready,
}

/// A response of larder's own to a request.
pub enum OwnResponse<'a> {
    /// One of the configuration.
    Ready(&'a ReadySynthetic),
    /// One that was made for the request.
    Made(Synthetic),
}

impl OwnResponse<'_> {
    /// As [`Synthetic::write_now`].
    pub fn write_now(&self, method: &str, answer: &mut ResponseWriter<'_>) -> Option<u64> {
        match self {
            OwnResponse::Ready(it) => it.write_now(method, answer),
            OwnResponse::Made(it) => it.write_now(method, answer),
        }
    }

    /// The response for the slow speed.
    #[must_use]
    pub fn into_owned(self) -> Synthetic {
        match self {
            OwnResponse::Ready(it) => (**it).clone(),
            OwnResponse::Made(it) => it,
        }
    }
}

impl Deref for OwnResponse<'_> {
    type Target = Synthetic;

    fn deref(&self) -> &Synthetic {
        match self {
            OwnResponse::Ready(it) => it,
            OwnResponse::Made(it) => it,
        }
    }
}

impl LiveRedirects {
    /// The redirects of a site; `None` if it has none. `tls_port` is the port of the first listener with TLS.
    #[must_use]
    pub fn new(config: &SiteRedirects, tls_port: Option<u16>) -> Option<Rc<Self>> {
        let some = config.to_https || config.canonical_host.is_some() || config.map.is_some();
        some.then(|| Rc::new(Self { config: config.clone(), tls_port }))
    }

    /// The redirect of a request, if any.
    #[must_use]
    pub fn answer(&self, view: &RequestView<'_>) -> Option<(AdmissionRule, Synthetic)> {
        let (to_https, host) = (self.config.to_https, self.config.canonical_host.as_deref());
        if let Some((why, to)) = target::to_canonical(to_https, host, self.tls_port, view) {
            let rule = match why {
                OriginRedirect::Https => AdmissionRule::Https,
                OriginRedirect::CanonicalHost => AdmissionRule::CanonicalHost,
            };
            return Some((rule, redirect(self.config.status, &to)));
        }
        let target = self.config.map.as_ref()?.find(view.path)?;
        let to = target::of_map(&target.to, view);
        Some((AdmissionRule::RedirectMap { line: target.line }, redirect(target.status, &to)))
    }

    /// The scheme and authority to which requests with these are redirected; `None` if they are not.
    #[must_use]
    pub fn origin(&self, scheme: Scheme, authority: &str) -> Option<(Scheme, String)> {
        let (to_https, host) = (self.config.to_https, self.config.canonical_host.as_deref());
        let (_, scheme, to) = target::canonical_origin(to_https, host, self.tls_port, scheme, authority)?;
        Some((scheme, to))
    }
}

impl RouteAnswers {
    /// The answers of a route; `None` if it has none.
    #[must_use]
    pub fn new(route: &larder_config::RouteConfig) -> Option<Rc<Self>> {
        let page =
            |it: &ServedFile| (super::finish::media_type(&it.path), Bytes::from_owner(it.content.clone()));
        let it = Self {
            // A load balancer asks about the process, not about the site.
            maintenance: (route.maintenance.clone().filter(|_| !route.is_health()))
                .map(|it| (it.clone(), it.page.as_ref().map(page))),
            cors: route.finish.cors.clone(),
            service: match &route.service {
                larder_config::Service::Redirect(it) => Some(redirecting(it)),
                larder_config::Service::Respond(it) => Some(respond(it)),
                _ => None,
            },
        };
        let some = it.maintenance.is_some() || it.cors.is_some() || it.service.is_some();
        some.then(|| Rc::new(it))
    }

    /// The answer during a maintenance.
    #[must_use]
    pub fn maintenance(&self, view: &RequestView<'_>) -> Option<Synthetic> {
        let (config, page) = self.maintenance.as_ref()?;
        let is_allowed = |client: IpAddr| config.allow.iter().any(|it| it.contains(client.to_canonical()));
        if view.client.is_some_and(is_allowed) {
            return None;
        }
        let answer = match page {
            Some((media_type, body)) => Synthetic::new(503, media_type, body.clone()),
            None => Synthetic::page(503, "The service is under maintenance; retry later."),
        };
        let seconds = config.retry_after.to_string();
        Some(answer.with("Retry-After", seconds).with("Cache-Control", "no-store"))
    }

    /// The answer to a CORS preflight request (Fetch Standard, "CORS-preflight request").
    #[must_use]
    pub fn preflight(&self, view: &RequestView<'_>) -> Option<Synthetic> {
        let cors = self.cors.as_ref()?;
        preflighted(view)?;
        let asked = |name| field::first(view.fields, name);
        let origin = asked("origin")?;
        if !std::str::from_utf8(origin).is_ok_and(|it| cors.permits(it)) {
            return Some(Synthetic::page(
                403,
                "This resource does not permit requests of pages of this origin.",
            ));
        }
        let mut answer = Synthetic::empty(204)
            .with("Access-Control-Allow-Methods", cors.methods.join(", "))
            .with("Access-Control-Max-Age", cors.max_age.to_string())
            .with("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers");
        let names =
            asked("access-control-request-headers").filter(|it| field::members(it).all(field::is_token));
        match (cors.headers.is_empty(), names) {
            (false, _) => answer.fields.push("Access-Control-Allow-Headers", cors.headers.join(", ")),
            (true, Some(names)) => answer.fields.push("Access-Control-Allow-Headers", names),
            (true, None) => {}
        }
        Some(answer)
    }

    /// Whether pages of other origins may use the route.
    #[must_use]
    pub fn has_cors(&self) -> bool {
        self.cors.is_some()
    }

    /// Whether the route is a redirect or a fixed answer.
    #[must_use]
    pub fn has_service(&self) -> bool {
        self.service.is_some()
    }

    /// The ready answer of a route to every request for `target`.
    #[must_use]
    pub fn ready(&self, target: &str) -> Option<&ReadySynthetic> {
        match self.service.as_ref()? {
            _ if self.maintenance.is_some() || self.cors.is_some() => None,
            OwnService::ConstantRedirect(it, page) if it.to.has_query() || !target.contains('?') => {
                Some(page)
            }
            OwnService::Constant(page) => Some(page),
            _ => None,
        }
    }

    /// The answer of a route that is a redirect or a fixed answer.
    #[must_use]
    pub fn service(&self, view: &RequestView<'_>, is_draining: bool) -> Option<OwnResponse<'_>> {
        let page = match self.service.as_ref()? {
            OwnService::ConstantRedirect(it, page) if view.query().is_empty() || it.to.has_query() => {
                return Some(OwnResponse::Ready(page));
            }
            OwnService::Constant(page) => return Some(OwnResponse::Ready(page)),
            OwnService::ConstantRedirect(it, _) | OwnService::Redirect(it) => redirect_of(it, view),
            OwnService::Respond { status, media_type, body } => match body {
                OwnBody::Template(it) => {
                    let mut out = Vec::new();
                    it.expand_body(view, media_type, &mut out);
                    fixed(*status, media_type, out.into())
                }
                OwnBody::Ready if is_draining => fixed(503, media_type, Bytes::from_static(b"draining\n")),
                OwnBody::Ready => fixed(*status, media_type, Bytes::from_static(b"ok\n")),
            },
        };
        Some(OwnResponse::Made(page))
    }
}

/// The method of the request that a CORS preflight request is about; `None` for any other request.
#[must_use]
pub fn preflighted<'a>(view: &RequestView<'a>) -> Option<&'a str> {
    let asked = |name| field::first(view.fields, name).filter(|_| view.method == "OPTIONS");
    asked("origin")?;
    std::str::from_utf8(asked("access-control-request-method")?).ok()
}

fn redirecting(config: &RedirectConfig) -> OwnService {
    match config.to.constant() {
        Some(_) => {
            let page = redirect_of(config, &RequestView::default());
            OwnService::ConstantRedirect(config.clone(), ReadySynthetic::new(page))
        }
        None => OwnService::Redirect(config.clone()),
    }
}

fn respond(config: &RespondConfig) -> OwnService {
    let status = config.status;
    let media_type = |own: String| config.media_type.clone().unwrap_or(own);
    let constant = |own: String, body: Bytes| {
        OwnService::Constant(ReadySynthetic::new(fixed(status, &media_type(own), body)))
    };
    let plain = || PLAIN_TEXT.to_owned();
    match &config.body {
        RespondBody::Text(it) if it.constant().is_some() => {
            let mut out = Vec::new();
            it.expand_body(&RequestView::default(), &media_type(plain()), &mut out);
            constant(plain(), out.into())
        }
        RespondBody::Text(it) => OwnService::Respond {
            status,
            media_type: media_type(plain()),
            body: OwnBody::Template(it.clone()),
        },
        RespondBody::File(file) => {
            constant(super::finish::media_type(&file.path), Bytes::from_owner(file.content.clone()))
        }
        RespondBody::Live => constant(plain(), Bytes::from_static(b"ok\n")),
        RespondBody::Ready => {
            OwnService::Respond { status, media_type: media_type(plain()), body: OwnBody::Ready }
        }
    }
}

/// A fixed answer.
fn fixed(status: u16, media_type: &str, body: Bytes) -> Synthetic {
    match body.is_empty() {
        // An error page of the route may take its place.
        true if status >= 400 => {
            let text = format!("{status} {}\n", reason(status));
            Synthetic { is_error_page: true, ..Synthetic::new(status, PLAIN_TEXT, text) }
        }
        true => Synthetic::empty(status),
        false => Synthetic::new(status, media_type, body),
    }
}

/// The redirect of a request for the directory of `/app/*` without its slash.
#[must_use]
pub fn with_slash(pattern: &PathPattern, view: &RequestView<'_>) -> Option<Synthetic> {
    // Only 308 keeps another method (RFC 9110 section 15.4.9).
    let status = if matches!(view.method, "GET" | "HEAD") { 301 } else { 308 };
    Some(redirect(status, &target::with_slash(pattern, view)?))
}

/// The redirect of a route.
fn redirect_of(config: &RedirectConfig, view: &RequestView<'_>) -> Synthetic {
    redirect(config.status, &target::of_template(&config.to, view))
}

/// A redirect with a short page, as RFC 9110 §15.4 recommends.
fn redirect(status: u16, to: &str) -> Synthetic {
    const PAGE: &[u8] = b"The resource is at the URL in Location.\n";
    Synthetic::new(status, PLAIN_TEXT, Bytes::from_static(PAGE)).with("Location", to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_without_variables_is_made_once() {
        let check = |to: &str, target: &str, is_made_once: bool, location: &str| {
            let config =
                RedirectConfig { to: Template::parse(to).unwrap(), shown: to.to_owned(), status: 301 };
            let service = Some(redirecting(&config));
            let answers = RouteAnswers { maintenance: None, cors: None, service };
            let view = RequestView { target, ..RequestView::default() };
            let page = answers.service(&view, false).unwrap();
            assert_eq!(is_made_once, matches!(page, OwnResponse::Ready(_)), "{to} {target}");
            assert_eq!(Some(location.as_bytes()), page.fields.get("location"), "{to} {target}");
        };
        check("https://a.example/b", "/", true, "https://a.example/b");
        check("https://a.example/b", "/?q=1", false, "https://a.example/b?q=1");
        check("https://a.example/b?c=2", "/?q=1", true, "https://a.example/b?c=2");
        check("https://a.example/b?", "/?q=1", true, "https://a.example/b");
        check("https://a.example{path}", "/b", false, "https://a.example/b");
    }
}
