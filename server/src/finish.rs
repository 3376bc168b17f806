//! The finish of a route's responses in one worker: constant parts are made once, parts that depend on the request for each. Its
//! application is `transport::finish`.

use bytes::Bytes;
use larder_config::finish::{CorsConfig, ErrorPageSource, FinishConfig, ResponseFieldConfig};
use larder_config::request_texts::RouteVary;
use larder_semantics::field;
use larder_semantics::request_view::{REQUEST_ID, RequestView};
use larder_semantics::scheme::Scheme;
use larder_semantics::template::{Template, TemplateInput};
use larder_transport::finish::{ErrorPage, ErrorPages, ResponseFieldRule, ResponseFinish};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// A page of a site in place of errors.
#[derive(Clone)]
pub struct SiteErrorPage {
    /// The sender of its request.
    pub asker: PageAsker,
    /// Path and query.
    pub target: String,
    /// The last response.
    pub page: Rc<ErrorPage>,
}

/// The sender of requests for the error pages of a site.
#[derive(Clone)]
pub struct PageAsker {
    /// The host that it names.
    pub host: String,
    /// Its scheme.
    pub scheme: Scheme,
    /// Its listener, in the notation of the configuration.
    pub listener: Rc<str>,
}

/// The pages of all sites, each once for a host and a target.
#[derive(Default)]
pub struct SiteErrorPages(RefCell<Vec<SiteErrorPage>>);

impl SiteErrorPages {
    /// The page at a target.
    pub fn of(&self, asker: &PageAsker, target: &str) -> Rc<ErrorPage> {
        let mut pages = self.0.borrow_mut();
        if let Some(it) = pages.iter().find(|it| it.asker.host == asker.host && it.target == target) {
            return it.page.clone();
        }
        let page = Rc::<ErrorPage>::default();
        pages.push(SiteErrorPage { asker: asker.clone(), target: target.to_owned(), page: page.clone() });
        page
    }

    /// All pages.
    #[must_use]
    pub fn all(self) -> Vec<SiteErrorPage> {
        self.0.into_inner()
    }
}

/// The finish of a route.
pub struct RouteFinish {
    /// Over clear text and over TLS, for each case of `varies`, where nothing else of a request matters.
    constant: Vec<[Rc<ResponseFinish>; 2]>,
    names_user: bool,
    config: FinishConfig,
    pages: Rc<ErrorPages>,
    /// Whether requests have an identifier.
    identifies: bool,
    /// `Vary` of the choice of the route, and the facts of the client that make its responses private.
    varies: RouteVary,
}

impl RouteFinish {
    /// The finish of a configuration; `None` if it changes nothing. `identifies` is whether requests have an identifier, `varies`
    /// has the fields and facts that take part in the choice of the route.
    /// `page` returns the page of the site at a path.
    pub fn new(
        config: &FinishConfig,
        identifies: bool,
        varies: RouteVary,
        page: impl Fn(&str) -> Rc<ErrorPage>,
    ) -> Option<Rc<Self>> {
        let is_empty = config.fields.is_empty()
            && config.hsts.is_none()
            && config.cors.is_none()
            && config.client_ttl.is_none()
            && config.pages.is_empty()
            && !identifies
            && varies.is_empty();
        if is_empty {
            return None;
        }
        let page = |(status, source): &(u16, ErrorPageSource)| {
            let page = match source {
                ErrorPageSource::File(file) => {
                    Rc::new(ErrorPage::new(&media_type(&file.path), Bytes::from_owner(file.content.clone())))
                }
                ErrorPageSource::Url(target) => page(target),
            };
            (*status, page)
        };
        let pages = config.pages.iter().map(page).collect();
        let pages = Rc::new(ErrorPages { pages, replaces_origins: config.intercepts });
        let mut values = config.fields.iter().flat_map(|it| it.adds.iter().chain(&it.default));
        let names_user = values.any(|it| it.inputs().any(|it| it == TemplateInput::User));
        let mut it =
            Self { constant: Vec::new(), names_user, config: config.clone(), pages, identifies, varies };
        if it.is_constant() {
            let of =
                |case, scheme| Rc::new(it.finish(case, &RequestView { scheme, ..RequestView::default() }));
            let both = |case| [of(case, Scheme::Http), of(case, Scheme::Https)];
            it.constant = (0..it.varies.cases()).map(both).collect();
        }
        Some(Rc::new(it))
    }

    /// Whether it reads the authenticated user, which admission finds.
    #[inline]
    #[must_use]
    pub fn names_user(&self) -> bool {
        self.names_user
    }

    /// The finish of the response to a request; `view` is made only if more than its scheme and path matter.
    #[inline]
    pub fn of(
        &self,
        scheme: Scheme,
        target: Option<&str>,
        view: impl FnOnce(&mut dyn FnMut(&RequestView<'_>)),
    ) -> Rc<ResponseFinish> {
        let case = target.map_or(self.varies.cases() - 1, |it| self.varies.case(it));
        match self.constant.get(case) {
            Some(both) => both[usize::from(scheme == Scheme::Https)].clone(),
            None => {
                let mut made = None;
                view(&mut |it| made = Some(Rc::new(self.finish(case, it))));
                made.unwrap_or_default()
            }
        }
    }

    fn is_constant(&self) -> bool {
        let constant = |it: &Template| it.constant().is_some();
        let fields = |it: &ResponseFieldConfig| it.adds.iter().chain(&it.default).all(constant);
        !self.identifies
            && self.config.fields.iter().all(fields)
            && self.config.cors.as_ref().is_none_or(is_for_all)
    }

    fn finish(&self, case: usize, view: &RequestView<'_>) -> ResponseFinish {
        let rule = |it: &ResponseFieldConfig| {
            // As plain text, a value without its control bytes could begin with a second slash: another host.
            let is_url = it.name.eq_ignore_ascii_case("location");
            let is_cookie = it.name.eq_ignore_ascii_case("set-cookie");
            let value = |it: &Template| {
                let mut out = Vec::new();
                if is_url {
                    it.expand_url(view, &mut out)
                } else if is_cookie {
                    it.expand_cookie(view, &mut out)
                } else {
                    it.expand(view, &mut out)
                }
                out
            };
            ResponseFieldRule {
                name: it.name.clone(),
                removes: it.removes,
                adds: it.adds.iter().map(value).collect(),
                default: it.default.as_ref().map(value),
                replacement: None,
            }
        };
        let mut rules: Vec<ResponseFieldRule> = self.config.fields.iter().map(rule).collect();
        // A rule for the same name replaces the short form, or adds to it.
        let mut add_short = |it: ResponseFieldRule| match rules
            .iter_mut()
            .find(|own| own.name.eq_ignore_ascii_case(&it.name))
        {
            None => rules.push(it),
            Some(own) if own.removes => {}
            Some(own) => {
                own.removes = it.removes;
                own.adds.splice(0..0, it.adds);
            }
        };
        if let Some(hsts) = self.config.hsts.as_ref().filter(|_| view.scheme == Scheme::Https) {
            add_short(set("Strict-Transport-Security", hsts));
        }
        if let Some(cors) = &self.config.cors {
            cors_rules(cors, view).into_iter().for_each(&mut add_short);
        }
        let varies = self.varies.names(case);
        if !varies.is_empty() {
            add_short(added("Vary", &varies.join(", ")));
        }
        if let Some(id) = field::first(view.fields, REQUEST_ID).filter(|_| self.identifies) {
            add_identifier(id, &mut rules);
        }
        let finish = ResponseFinish::new(rules, self.config.client_ttl, self.pages.clone());
        match self.config.made_private_by(self.varies.fact(case)) {
            Some(_) => finish.private(),
            None => finish,
        }
    }
}

/// The media type of a file, by its name.
pub fn media_type(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    larder_files::media_type(name.as_encoded_bytes(), &[])
}

/// Replaces an identifier that a response has of its application: a stored one is that of an earlier request.
fn add_identifier(id: &[u8], rules: &mut Vec<ResponseFieldRule>) {
    let at = rules.iter().position(|it| it.name.eq_ignore_ascii_case(REQUEST_ID)).unwrap_or_else(|| {
        rules.push(ResponseFieldRule { name: REQUEST_ID.to_owned(), ..ResponseFieldRule::default() });
        rules.len() - 1
    });
    let rule = &mut rules[at];
    if !rule.removes {
        rule.removes = true;
        rule.replacement = rule.adds.is_empty().then(|| id.to_vec());
    }
}

fn set(name: &str, value: &str) -> ResponseFieldRule {
    ResponseFieldRule {
        name: name.to_owned(),
        removes: true,
        adds: vec![value.into()],
        ..ResponseFieldRule::default()
    }
}

fn added(name: &str, value: &str) -> ResponseFieldRule {
    let adds = vec![value.into()];
    ResponseFieldRule { name: name.to_owned(), adds, ..ResponseFieldRule::default() }
}

/// Whether every response gets the same fields.
fn is_for_all(cors: &CorsConfig) -> bool {
    cors.permits_all() && !cors.credentials
}

/// The fields of a response to a cross-origin request (Fetch Standard, "CORS protocol"): those of the application are removed.
fn cors_rules(cors: &CorsConfig, view: &RequestView<'_>) -> Vec<ResponseFieldRule> {
    let removed = |name: &str| ResponseFieldRule {
        name: name.to_owned(),
        removes: true,
        ..ResponseFieldRule::default()
    };
    let origin = field::first(view.fields, "origin").and_then(|it| std::str::from_utf8(it).ok());
    let mut rules = Vec::new();
    let permitted = match is_for_all(cors) {
        true => Some("*"),
        false => {
            rules.push(added("Vary", "Origin"));
            origin.filter(|it| cors.permits(it))
        }
    };
    match permitted {
        Some(origin) => {
            rules.push(set("Access-Control-Allow-Origin", origin));
            let credentials = "Access-Control-Allow-Credentials";
            rules.push(if cors.credentials { set(credentials, "true") } else { removed(credentials) });
            let expose = "Access-Control-Expose-Headers";
            rules.push(if cors.expose.is_empty() {
                removed(expose)
            } else {
                set(expose, &cors.expose.join(", "))
            });
        }
        None => {
            let names = ["Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"];
            rules.extend(names.map(removed));
        }
    }
    rules
}
