//! The finish of a route's responses in one worker: constant parts are made once, parts that depend on the request for each. Its
//! application is `transport::finish`.

use larder_config::finish::{CorsConfig, FinishConfig, ResponseFieldConfig};
use larder_semantics::field;
use larder_semantics::request_view::RequestView;
use larder_semantics::scheme::Scheme;
use larder_semantics::template::Template;
use larder_transport::finish::{ErrorPages, ResponseFieldRule, ResponseFinish};
use std::path::Path;
use std::rc::Rc;

/// The finish of a route.
pub struct RouteFinish {
    /// Over clear text and over TLS, for a route where nothing else of a request matters.
    constant: Option<[Rc<ResponseFinish>; 2]>,
    config: FinishConfig,
    pages: Rc<ErrorPages>,
}

impl RouteFinish {
    /// The finish of a configuration; `None` if it changes nothing.
    ///
    /// # Errors
    /// One sentence: a file that cannot be read.
    pub fn new(config: &FinishConfig) -> Option<Rc<Self>> {
        let is_empty = config.fields.is_empty()
            && config.hsts.is_none()
            && config.cors.is_none()
            && config.client_ttl.is_none()
            && config.pages.is_empty();
        if is_empty {
            return None;
        }
        let page = |(status, path): &(u16, std::path::PathBuf)| {
            let body = std::fs::read(path).ok()?;
            Some((*status, Rc::from(media_type(path).as_str()), body.into()))
        };
        let pages = config.pages.iter().filter_map(page).collect();
        let pages = Rc::new(ErrorPages { pages, replaces_origins: config.intercepts });
        let mut it = Self { constant: None, config: config.clone(), pages };
        if it.is_constant() {
            let of = |scheme| Rc::new(it.finish(&RequestView { scheme, ..RequestView::default() }));
            it.constant = Some([of(Scheme::Http), of(Scheme::Https)]);
        }
        Some(Rc::new(it))
    }

    /// The finish of the response to a request; `view` is made only if more than its scheme matters.
    #[inline]
    pub fn of(
        &self,
        scheme: Scheme,
        view: impl FnOnce(&mut dyn FnMut(&RequestView<'_>)),
    ) -> Rc<ResponseFinish> {
        match &self.constant {
            Some(both) => both[usize::from(scheme == Scheme::Https)].clone(),
            None => {
                let mut made = None;
                view(&mut |it| made = Some(Rc::new(self.finish(it))));
                made.unwrap_or_default()
            }
        }
    }

    fn is_constant(&self) -> bool {
        let constant = |it: &Template| it.constant().is_some();
        let fields = |it: &ResponseFieldConfig| it.adds.iter().chain(&it.default).all(constant);
        self.config.fields.iter().all(fields) && self.config.cors.as_ref().is_none_or(is_for_all)
    }

    fn finish(&self, view: &RequestView<'_>) -> ResponseFinish {
        let value = |it: &Template| {
            let mut out = Vec::new();
            it.expand(view, &mut out);
            out
        };
        let rule = |it: &ResponseFieldConfig| ResponseFieldRule {
            name: it.name.clone(),
            removes: it.removes,
            adds: it.adds.iter().map(value).collect(),
            default: it.default.as_ref().map(value),
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
        ResponseFinish::new(rules, self.config.client_ttl, self.pages.clone())
    }
}

/// The media type of a file, by its name.
pub fn media_type(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    larder_files::media_type(name.as_encoded_bytes(), &[])
}

fn set(name: &str, value: &str) -> ResponseFieldRule {
    ResponseFieldRule { name: name.to_owned(), removes: true, adds: vec![value.into()], default: None }
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
            let vary = ResponseFieldRule {
                name: "Vary".to_owned(),
                adds: vec![b"Origin".into()],
                ..ResponseFieldRule::default()
            };
            rules.push(vary);
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
