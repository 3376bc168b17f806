//! The finish of a route: fields of responses, CORS, HSTS, the lifetime for clients and error pages, of its site and its own.

use super::{ConfigCheck, ConfigValue, RoutePath};
use crate::finish::{CorsConfig, ErrorPageSource, FinishConfig, ServedFile};
use crate::include;
use crate::kind::PathPattern;
use crate::problem::Source;
use larder_semantics::client_ttl::ClientTtl;
use larder_semantics::template::Template;
use larder_stdx::size::ByteSize;
use larder_transport::listener::Listen;
use std::path::PathBuf;

/// The remedy for `file:PATH`.
const VALUE_OF_SECRET: &str = "write the value, or \"${NAME}\" for a variable of the environment";

/// The largest error page, bytes.
const LARGEST_PAGE: u64 = 1 << 20;

/// Fields of framing and connections: larder writes these itself.
const FIXED: [&str; 9] = [
    "connection",
    "content-length",
    "content-range",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl ConfigCheck {
    /// The finish of a route; `is_shareable` is whether its responses are the same for all clients.
    pub(super) fn finish(&mut self, at: &RoutePath, path: &PathPattern, is_shareable: bool) -> FinishConfig {
        let mut finish = FinishConfig::default();
        let key_of_csp = self.site_key(at, "csp");
        let csp = self.text(&key_of_csp);
        self.refuse_file(&key_of_csp, "site.route.csp", &csp, VALUE_OF_SECRET);
        let is_set = !csp.is_empty() && csp != "off";
        if let Some(value) =
            Template::parse(&csp.replace('{', "{{").replace('}', "}}")).ok().filter(|_| is_set)
        {
            finish.set("Content-Security-Policy", value);
        }
        // A field that only the site names stays: a route adds to the fields of its site. They replace the short forms.
        for prefix in [at.of_site("response_headers"), at.key("response_headers")] {
            self.field_rules(at, &prefix, path, &mut finish);
        }
        finish.hsts = self.hsts(at);
        finish.cors = self.cors(at);
        let key_of_ttl = self.site_key(at, "client_ttl");
        // The health of a moment is not kept, whatever the pages of the site are.
        let is_kept = self.text(&at.key("respond.health")).is_empty() || key_of_ttl == at.key("client_ttl");
        finish.client_ttl = match self.value(&key_of_ttl) {
            ConfigValue::Time(it) if is_kept => {
                let seconds = u32::try_from(it.as_secs()).unwrap_or(u32::MAX);
                Some(ClientTtl { seconds, is_shareable })
            }
            _ => None,
        };
        finish.intercepts = self.flag(&self.site_key(at, "intercept_errors"));
        for (key, row) in [
            (at.of_site("error_pages"), "site.error_pages"),
            (at.key("error_pages"), "site.route.error_pages"),
        ] {
            self.error_pages(at, &key, row, &mut finish.pages);
        }
        if finish.intercepts && finish.pages.is_empty() {
            let text =
                "no effect without error_pages; add a page, such as error_pages = { 5xx = \"sorry.html\" }";
            self.warn_of(
                self.source(&self.site_key(at, "intercept_errors")),
                "site.route.intercept_errors",
                text,
            );
        }
        finish
    }

    fn field_rules(&mut self, at: &RoutePath, prefix: &str, path: &PathPattern, finish: &mut FinishConfig) {
        let keys = ["remove", "set", "add", "default"].map(|it| format!("{prefix}.{it}"));
        let removed = self.texts(&keys[0]);
        for name in &removed {
            if self.is_free(&keys[0], name) {
                finish.remove(name);
            }
        }
        for (key, apply) in
            keys[1..].iter().zip([FinishConfig::set, FinishConfig::add, FinishConfig::add_default])
        {
            for (name, value) in self.pairs(key) {
                let row = "site.route.response_headers";
                self.refuse_file(key, row, &value, VALUE_OF_SECRET);
                let Ok(value) = Template::parse(&value) else { continue };
                self.refuse_variables(at, key, row, &value, path);
                if name.eq_ignore_ascii_case("location") && value.constant().is_none() {
                    self.refuse_open_redirect(&self.source(key), row, value.text());
                }
                if self.is_free(key, &name) {
                    apply(finish, &name, value);
                }
            }
        }
        if finish.fields.len() > larder_transport::finish::MAX_RULES {
            let text =
                format!("{} names; at most {}", finish.fields.len(), larder_transport::finish::MAX_RULES);
            self.problem(self.source(&keys[1]), "site.route.response_headers", &text);
        }
    }

    /// Rejects `file:PATH` where it is no secret, but would be sent as it is written.
    pub(super) fn refuse_file(&mut self, key: &str, row: &str, value: &str, instead: &str) {
        if value.starts_with("file:") {
            let text = format!("found \"{value}\", which clients would get as it is written; {instead}");
            self.problem(self.source(key), row, &text);
        }
    }

    /// Whether a rule may name this field; reports it otherwise.
    fn is_free(&mut self, key: &str, name: &str) -> bool {
        let is_fixed = FIXED.iter().any(|it| name.eq_ignore_ascii_case(it));
        if is_fixed {
            let text = format!(
                "{name} frames the message or the connection, and larder writes it; remove this rule"
            );
            self.problem(self.source(key), "site.route.response_headers", &text);
        }
        !is_fixed
    }

    fn hsts(&mut self, at: &RoutePath) -> Option<String> {
        let key = |name: &str| self.site_key(at, &format!("hsts.{name}"));
        let [max_age, subdomains, preload] = ["max_age", "subdomains", "preload"].map(key);
        let ConfigValue::Time(age) = self.value(&max_age) else {
            let lone = [&subdomains, &preload].into_iter().find(|it| self.values.given.contains_key(*it));
            if let Some(lone) = lone.filter(|_| !self.values.given.contains_key(&max_age)) {
                let text = "no effect without max_age; add max_age = \"365d\"";
                self.problem(self.source(lone), "site.route.hsts", text);
            }
            return None;
        };
        if self.flag(&preload) && !self.flag(&subdomains) {
            let text =
                "the preload lists of browsers accept only hosts with subdomains = true; set that as well";
            self.warn_of(self.source(&preload), "site.route.hsts.preload", text);
        }
        let can_be_secure = self.listen().iter().any(|it| matches!(it.at, Listen::Tls(_)))
            || !self.texts("clients.trusted").is_empty()
            || self.is_wrong("listen")
            || self.is_wrong("clients.trusted");
        if !can_be_secure {
            let text = "no effect: no address of listen has TLS; add one, or the TLS proxy in front to clients.trusted";
            self.warn_of(self.source(&max_age), "site.route.hsts", text);
        }
        let mut value = format!("max-age={}", age.as_secs());
        if self.flag(&subdomains) {
            value.push_str("; includeSubDomains");
        }
        if self.flag(&preload) {
            value.push_str("; preload");
        }
        Some(value)
    }

    fn cors(&mut self, at: &RoutePath) -> Option<CorsConfig> {
        let key = |name: &str| self.site_key(at, &format!("cors.{name}"));
        let origins = self.texts(&key("origins"));
        if origins.is_empty() {
            let lone = ["methods", "headers", "expose", "credentials", "max_age"].map(key);
            let is_given = |it: &String| self.values.given.contains_key(it);
            if let Some(lone) = lone.iter().find(|it| is_given(it)).filter(|_| !is_given(&key("origins"))) {
                let text = "no effect without origins; add origins = [\"https://app.example.com\"]";
                self.problem(self.source(lone), "site.route.cors", text);
            }
            return None;
        }
        let (from, credentials) = (self.source(&key("credentials")), self.flag(&key("credentials")));
        let cors = CorsConfig {
            methods: self.texts(&key("methods")),
            headers: self.texts(&key("headers")),
            expose: self.texts(&key("expose")),
            max_age: self.time(&key("max_age")).as_secs(),
            origins,
            credentials,
        };
        if credentials && cors.permits_all() {
            let text = "with origins = [\"*\"], every web page could act with the cookies of its visitor; list the origins";
            self.problem(from, "site.route.cors.credentials", text);
        }
        Some(cors)
    }

    fn error_pages(&mut self, at: &RoutePath, key: &str, row: &str, pages: &mut Vec<(u16, ErrorPageSource)>) {
        let source = self.source(key);
        for (status, file) in self.pairs(key) {
            let class = status.strip_suffix("xx");
            let Ok(status) = class.unwrap_or(&status).parse::<u16>() else { continue };
            let page = match file.strip_prefix("url:") {
                Some(target) => self.error_target(at, &source, row, target).map(ErrorPageSource::Url),
                None => self.served_file(&source, row, &file).map(ErrorPageSource::File),
            };
            if let Some(page) = page {
                pages.retain(|it| it.0 != status);
                pages.push((status, page));
            }
        }
    }

    /// The path and query of an error page of the site; reported if it is none.
    fn error_target(&mut self, at: &RoutePath, source: &Source, row: &str, target: &str) -> Option<String> {
        let is_target =
            |it: &str| it.starts_with('/') && it.bytes().all(|it| it.is_ascii_graphic() && it != b'#');
        let is_named = |it: &String| !it.starts_with("*.");
        let has_host = !self.text(&at.of_site("canonical_host")).is_empty()
            || self.texts(&at.of_site("hosts")).iter().any(is_named);
        let text = if !is_target(target) {
            format!(
                "found \"url:{target}\"; write a path of the site behind \"url:\", such as \"url:/not-found\""
            )
        } else if !has_host {
            "no host of the site is named in full, so a request for the page has none; add one to hosts"
                .to_owned()
        } else {
            return Some(target.to_owned());
        };
        self.problem(source.clone(), row, &text);
        None
    }

    /// A file that larder reads whole and sends; relative to the folder of the configuration. Reported if it cannot be read. Symbolic
    /// links are followed: the operator names the file.
    pub(super) fn served_file(&mut self, source: &Source, key: &str, file: &str) -> Option<ServedFile> {
        let path = self.values.base(source).map_or_else(|| PathBuf::from(file), |it| it.join(file));
        if let Some(read) = self.served.get(&path) {
            return Some(read.clone());
        }
        match include::read_bytes(&path, LARGEST_PAGE) {
            Ok(content) => {
                let file = ServedFile { path, content: content.into() };
                self.served.insert(file.path.clone(), file.clone());
                Some(file)
            }
            Err(wrong) => {
                let text = format!(
                    "{}: {wrong}; use a regular file of at most {}",
                    path.display(),
                    ByteSize(LARGEST_PAGE)
                );
                self.problem(source.clone(), key, &text);
                None
            }
        }
    }
}
