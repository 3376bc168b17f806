//! The settings of answers and fields that larder adds itself: redirects, fixed answers, maintenance, fields of responses, error pages.
//! Their checks are in `check/answer.rs` and `check/finish.rs`.

use crate::redirect_map::RedirectMap;
use larder_semantics::client_ttl::ClientTtl;
use larder_semantics::network::Network;
use larder_semantics::template::Template;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The finish of the responses of a route (`response_headers`, `cors`, `hsts`, `client_ttl`, `error_pages`).
#[derive(Clone, Debug, Default)]
pub struct FinishConfig {
    /// The rules for response fields, one for each name, in the order of their first mention.
    pub fields: Vec<ResponseFieldConfig>,
    /// `Strict-Transport-Security`, for responses over TLS.
    pub hsts: Option<String>,
    /// Cross-origin requests.
    pub cors: Option<CorsConfig>,
    /// The lifetime for clients.
    pub client_ttl: Option<ClientTtl>,
    /// Error pages: a status, or 4 or 5 for a class.
    pub pages: Vec<(u16, ErrorPageSource)>,
    /// Whether error pages replace errors of the origin, too.
    pub intercepts: bool,
}

/// A file that larder sends, with its content when the configuration was read: a file that changes, grows or becomes a pipe
/// afterwards is not read again before the next reload.
#[derive(Clone, PartialEq, Eq)]
pub struct ServedFile {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub content: Arc<[u8]>,
}

impl fmt::Debug for ServedFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ServedFile({}, {} bytes)", self.path.display(), self.content.len())
    }
}

/// The source of an error page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorPageSource {
    /// A file, read at start and reload.
    File(ServedFile),
    /// The page of the site at this path, perhaps with a query.
    Url(String),
}

/// The rules for the response fields of one name, site and route together.
#[derive(Clone, Debug)]
pub struct ResponseFieldConfig {
    /// The name, as first written.
    pub name: String,
    /// Whether the lines of the response are removed.
    pub removes: bool,
    /// The values of added lines.
    pub adds: Vec<Template>,
    /// The value for responses without the field.
    pub default: Option<Template>,
}

impl FinishConfig {
    /// The rule of a name; made if there is none.
    fn rule(&mut self, name: &str) -> &mut ResponseFieldConfig {
        let at = self.fields.iter().position(|it| it.name.eq_ignore_ascii_case(name));
        let at = at.unwrap_or_else(|| {
            self.fields.push(ResponseFieldConfig {
                name: name.to_owned(),
                removes: false,
                adds: Vec::new(),
                default: None,
            });
            self.fields.len() - 1
        });
        &mut self.fields[at]
    }

    /// Removes the lines of a name, also those of earlier rules.
    pub(crate) fn remove(&mut self, name: &str) {
        let rule = self.rule(name);
        (rule.removes, rule.default) = (true, None);
        rule.adds.clear();
    }

    /// Replaces the lines of a name, also those of earlier rules.
    pub(crate) fn set(&mut self, name: &str, value: Template) {
        self.remove(name);
        self.rule(name).adds.push(value);
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, name: &str, value: Template) {
        self.rule(name).adds.push(value);
    }

    /// Adds a line to responses without the field.
    pub(crate) fn add_default(&mut self, name: &str, value: Template) {
        let rule = self.rule(name);
        match (rule.removes, rule.adds.is_empty()) {
            (_, false) => {}
            (true, true) => rule.adds.push(value),
            (false, true) => rule.default = Some(value),
        }
    }
}

/// Cross-origin requests that a route permits (Fetch Standard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsConfig {
    /// The origins of pages: `https://example.com`, `https://*.example.com`, `null`, or `*`.
    pub origins: Vec<String>,
    /// The methods of preflighted requests.
    pub methods: Vec<String>,
    /// Their fields; empty permits those that the preflight asks for.
    pub headers: Vec<String>,
    /// The response fields that scripts may read.
    pub expose: Vec<String>,
    /// Whether cookies and credentials are permitted.
    pub credentials: bool,
    /// How long a client keeps the result of a preflight, seconds.
    pub max_age: u64,
}

impl CorsConfig {
    /// Whether pages of every origin are permitted.
    #[must_use]
    pub fn permits_all(&self) -> bool {
        self.origins.iter().any(|it| it == "*")
    }

    /// Whether pages of `origin` are permitted.
    #[must_use]
    pub fn permits(&self, origin: &str) -> bool {
        self.origins.iter().any(|it| match it.split_once("*.") {
            _ if it == "*" => true,
            Some((scheme, host)) => {
                let sub = origin.strip_prefix(scheme).and_then(|it| it.strip_suffix(host));
                let is_host = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
                sub.is_some_and(|it| it.len() > 1 && it.ends_with('.') && it.bytes().all(is_host))
            }
            None => it.eq_ignore_ascii_case(origin),
        })
    }
}

/// A redirect as the service of a route (`redirect`).
#[derive(Clone, Debug)]
pub struct RedirectConfig {
    /// The target.
    pub to: Template,
    /// The target as it is written, for people.
    pub shown: String,
    /// The status: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A fixed answer as the service of a route (`respond`).
#[derive(Clone, Debug)]
pub struct RespondConfig {
    /// The status.
    pub status: u16,
    /// Its body.
    pub body: RespondBody,
    /// The media type of the body, if it is set.
    pub media_type: Option<String>,
}

/// The body of a fixed answer.
#[derive(Clone, Debug)]
pub enum RespondBody {
    /// A text with variables.
    Text(Template),
    /// A file, read at start and reload.
    File(ServedFile),
    /// Whether the process answers.
    Live,
    /// Whether it accepts new requests: 503 while it drains.
    Ready,
}

/// A site or route under maintenance (`maintenance`).
#[derive(Clone, Debug)]
pub struct MaintenanceConfig {
    /// Whether it is.
    pub enabled: bool,
    /// Clients that are served nevertheless.
    pub allow: Vec<Network>,
    /// `Retry-After`, seconds.
    pub retry_after: u64,
    /// The file of the page.
    pub page: Option<ServedFile>,
}

/// The redirects of a whole site.
#[derive(Clone, Debug, Default)]
pub struct SiteRedirects {
    /// Whether requests without TLS are redirected to `https`.
    pub to_https: bool,
    /// The host that the other hosts of the site are redirected to.
    pub canonical_host: Option<String>,
    /// The status of these two.
    pub status: u16,
    /// Single redirects.
    pub map: Option<Arc<RedirectMap>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_pages() {
        let cors = |origins: &[&str]| CorsConfig {
            origins: origins.iter().map(|it| (*it).to_owned()).collect(),
            methods: Vec::new(),
            headers: Vec::new(),
            expose: Vec::new(),
            credentials: false,
            max_age: 0,
        };
        let one = cors(&["https://example.com", "https://*.example.org", "null"]);
        for yes in [
            "https://example.com",
            "HTTPS://Example.com",
            "https://a.example.org",
            "https://a.b.example.org",
            "null",
        ] {
            assert!(one.permits(yes), "{yes}");
        }
        for no in [
            "http://example.com",
            "https://example.com.evil.test",
            "https://example.org",
            "https://evilexample.org",
            "https://evil.test/.example.org",
            "https://.example.org",
            "https://a.example.org:8443",
            "",
        ] {
            assert!(!one.permits(no), "{no}");
        }
        assert!(cors(&["*"]).permits("https://any.test"));
    }

    #[test]
    fn later_rules_of_a_name_outweigh_earlier_ones() {
        let text = |it: &str| Template::parse(it).unwrap();
        let mut it = FinishConfig::default();
        it.set("X-A", text("site"));
        it.add("x-a", text("more"));
        it.remove("X-B");
        it.set("X-A", text("route"));
        it.add_default("X-B", text("b"));
        it.add_default("X-C", text("c"));
        let report: Vec<_> = it
            .fields
            .iter()
            .map(|it| (it.name.as_str(), it.removes, it.adds.len(), it.default.is_some()))
            .collect();
        assert_eq!(vec![("X-A", true, 1, false), ("X-B", true, 1, false), ("X-C", false, 0, true)], report);
    }
}
