//! The finish of a route: fields of responses, CORS, HSTS, the lifetime for clients and error pages, of its site and its own.

use super::{ConfigCheck, ConfigValue, RoutePath};
use crate::finish::{CorsConfig, FinishConfig};
use crate::problem::Source;
use larder_semantics::template::Template;
use std::path::PathBuf;

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
    pub(super) fn finish(&mut self, at: &RoutePath) -> FinishConfig {
        let mut finish = FinishConfig::default();
        // A field that only the site names stays: a route adds to the fields of its site.
        for prefix in [at.of_site("response_headers"), at.key("response_headers")] {
            self.field_rules(&prefix, &mut finish);
        }
        let csp = self.text(&self.site_key(at, "csp"));
        if let Some(value) =
            Template::parse(&csp.replace('{', "{{").replace('}', "}}")).ok().filter(|_| !csp.is_empty())
        {
            finish.set("Content-Security-Policy", value);
        }
        finish.hsts = self.hsts(at);
        finish.cors = self.cors(at);
        finish.client_ttl = match self.value(&self.site_key(at, "client_ttl")) {
            ConfigValue::Time(it) => u32::try_from(it.as_secs()).ok(),
            _ => None,
        };
        finish.intercepts = self.flag(&self.site_key(at, "intercept_errors"));
        for key in [at.of_site("error_pages"), at.key("error_pages")] {
            self.error_pages(&key, &mut finish.pages);
        }
        finish
    }

    fn field_rules(&mut self, prefix: &str, finish: &mut FinishConfig) {
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
                let value = Template::parse(&value);
                if let Ok(value) = value
                    && self.is_free(key, &name)
                {
                    apply(finish, &name, value);
                }
            }
        }
        if finish.fields.len() > larder_transport::finish::MAX_RULES {
            let text =
                format!("{} names; at most {}", finish.fields.len(), larder_transport::finish::MAX_RULES);
            self.problem_once(self.source(&keys[1]), "site.route.response_headers", &text);
        }
    }

    /// Whether a rule may name this field; reports it otherwise.
    fn is_free(&mut self, key: &str, name: &str) -> bool {
        let is_fixed = FIXED.iter().any(|it| name.eq_ignore_ascii_case(it));
        if is_fixed {
            let text = format!(
                "{name} frames the message or the connection, and larder writes it; remove this rule"
            );
            self.problem_once(self.source(key), "site.route.response_headers", &text);
        }
        !is_fixed
    }

    fn hsts(&self, at: &RoutePath) -> Option<String> {
        let key = |name: &str| self.site_key(at, &format!("hsts.{name}"));
        let ConfigValue::Time(age) = self.value(&key("max_age")) else { return None };
        let mut value = format!("max-age={}", age.as_secs());
        if self.flag(&key("subdomains")) {
            value.push_str("; includeSubDomains");
        }
        if self.flag(&key("preload")) {
            value.push_str("; preload");
        }
        Some(value)
    }

    fn cors(&mut self, at: &RoutePath) -> Option<CorsConfig> {
        let key = |name: &str| self.site_key(at, &format!("cors.{name}"));
        let origins = self.texts(&key("origins"));
        if origins.is_empty() {
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
            self.problem_once(from, "site.route.cors.credentials", text);
        }
        Some(cors)
    }

    fn error_pages(&mut self, key: &str, pages: &mut Vec<(u16, PathBuf)>) {
        let source = self.source(key);
        for (status, file) in self.pairs(key) {
            let class = status.strip_suffix("xx");
            let Ok(status) = class.unwrap_or(&status).parse::<u16>() else { continue };
            if let Some(path) = self.served_file(&source, "site.route.error_pages", &file) {
                pages.retain(|it| it.0 != status);
                pages.push((status, path));
            }
        }
    }

    /// A file that larder reads whole and sends; relative to the folder of the configuration. Reported if it cannot be read.
    pub(super) fn served_file(&mut self, source: &Source, key: &str, file: &str) -> Option<PathBuf> {
        let path = self.values.base(source).map_or_else(|| PathBuf::from(file), |it| it.join(file));
        let wrong = match std::fs::metadata(&path).and_then(|it| std::fs::File::open(&path).map(|_| it)) {
            Ok(it) if !it.is_file() => "is not a file; use a regular file".to_owned(),
            Ok(it) if it.len() > LARGEST_PAGE => {
                format!("has {} bytes; use a file of at most {LARGEST_PAGE}", it.len())
            }
            Ok(_) => return Some(path),
            Err(error) => format!("{}; use an existing file", larder_stdx::error::plain(&error)),
        };
        self.problem_once(source.clone(), key, &format!("{}: {wrong}", path.display()));
        None
    }
}
