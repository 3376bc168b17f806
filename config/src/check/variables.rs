//! The variables of a route's texts: captures that its path has, and variables of other servers, which larder writes otherwise.

use super::{ConfigCheck, RoutePath};
use crate::kind::PathPattern;
use larder_semantics::template::Template;

/// Variables of nginx, each with that of larder.
const FOREIGN: &[(&str, &str)] = &[
    ("host", "{host}"),
    ("http_host", "{host}"),
    ("server_name", "{host}"),
    ("request_uri", "{uri}"),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("args", "{query}"),
    ("query_string", "{query}"),
    ("scheme", "{scheme}"),
    ("request_method", "{method}"),
    ("remote_addr", "{client}"),
    ("binary_remote_addr", "{client}"),
    ("realip_remote_addr", "{client}"),
    ("request_id", "{request_id}"),
    ("remote_user", "{remote_user}"),
    ("is_args", "{query} behind a \"?\""),
    ("proxy_add_x_forwarded_for", "site.route.forwarded, which sends the field already"),
];

/// Sample expressions of HAProxy and variables of Apache, each with that of larder.
const SAMPLES: &[(&str, &str)] = &[
    ("src", "{client}"),
    ("path", "{path}"),
    ("query", "{query}"),
    ("url", "{uri}"),
    ("pathq", "{uri}"),
    ("method", "{method}"),
    ("unique-id", "{request_id}"),
    ("HTTP_HOST", "{host}"),
    ("REMOTE_ADDR", "{client}"),
    ("REMOTE_USER", "{remote_user}"),
    ("REQUEST_URI", "{uri}"),
    ("QUERY_STRING", "{query}"),
    ("REQUEST_METHOD", "{method}"),
];

/// Beginnings of nginx's variables with a name, each with that of larder.
const NAMED: &[(&str, &str)] = &[("http_", "header."), ("arg_", "query."), ("cookie_", "cookie.")];

impl ConfigCheck {
    /// Rejects captures that the path of the route does not have, and variables of other servers.
    pub(super) fn refuse_variables(
        &mut self,
        at: &RoutePath,
        key: &str,
        row: &str,
        template: &Template,
        path: &PathPattern,
    ) {
        // A wrong path has a message of its own; its captures are not known.
        if let Some(text) = path.lacks(template).filter(|_| !self.is_wrong(&at.key("path"))) {
            self.problem(self.source(key), row, &text);
        }
        self.refuse_wildcard(key, row, template);
        self.refuse_foreign(key, row, template.text());
    }

    /// Rejects `{host.wildcard}` in a site without a `*` in its hosts.
    fn refuse_wildcard(&mut self, key: &str, row: &str, template: &Template) {
        let Some((site, _)) = key.split_once("].").filter(|_| template.reads_wildcard()) else { return };
        if !self.texts(&format!("{site}].hosts")).iter().any(|it| it.starts_with('*')) {
            let text = "{host.wildcard} is always empty: no host of the site has a \"*\"; add one, such as \"*.example.com\", or use {host}";
            self.problem(self.source(key), row, text);
        }
    }

    /// Rejects variables of other servers.
    pub(super) fn refuse_foreign(&mut self, key: &str, row: &str, text: &str) {
        for (found, ours) in foreign(text) {
            let text = format!("{found} is a variable of nginx; write {ours}");
            self.problem(self.source(key), row, &text);
        }
        for (found, ours) in samples(text) {
            let text = match ours {
                Some(ours) => format!("{found} is an expression of HAProxy or Apache; write {ours}"),
                None => format!(
                    "{found} is an expression of HAProxy or Apache; docs/generated/config.md lists the variables of larder"
                ),
            };
            self.problem(self.source(key), row, &text);
        }
    }
}

/// Whether a text has variables of other servers.
pub(super) fn is_foreign(text: &str) -> bool {
    !foreign(text).is_empty() || !samples(text).is_empty()
}

/// The variables of nginx in a text, each with that of larder.
fn foreign(text: &str) -> Vec<(String, String)> {
    let names = text.split('$').skip(1).map(|it| {
        let end = it.bytes().position(|it| !it.is_ascii_alphanumeric() && it != b'_');
        &it[..end.unwrap_or(it.len())]
    });
    names.filter_map(|it| Some((format!("${it}"), ours(it)?))).collect()
}

/// The expressions of HAProxy (`%[src]`) and Apache (`%{HTTP_HOST}`) in a text, each with that of larder if there is one.
fn samples(text: &str) -> Vec<(String, Option<String>)> {
    let of = |open: &str, close: char| {
        let pieces = text.split(open).skip(1).filter_map(|it| it.split_once(close));
        pieces.map(|it| (format!("{open}{}{close}", it.0), sample(it.0))).collect::<Vec<_>>()
    };
    [of("%[", ']'), of("%{", '}')].concat()
}

/// The variable of larder for one of HAProxy or Apache.
fn sample(name: &str) -> Option<String> {
    let plain = SAMPLES.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
    let within = |begin: &str, kind: &str| {
        let of = name.strip_prefix(begin)?.strip_suffix(')')?;
        Some(format!("{{{kind}.{of}}}"))
    };
    let named = || within("req.hdr(", "header").or_else(|| within("hdr(", "header"));
    let host = || matches!(name, "req.hdr(host)" | "hdr(host)").then(|| "{host}".to_owned());
    plain
        .or_else(host)
        .or_else(named)
        .or_else(|| within("req.cook(", "cookie"))
        .or_else(|| within("urlp(", "query"))
}

/// The variable of larder for one of nginx.
fn ours(name: &str) -> Option<String> {
    if let [digit @ b'1'..=b'9'] = name.as_bytes() {
        return Some(format!("{{{}}}", char::from(*digit)));
    }
    let plain = FOREIGN.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
    plain.or_else(|| {
        NAMED.iter().find_map(|(begin, ours)| {
            let rest = name.strip_prefix(begin).filter(|it| !it.is_empty())?;
            let rest = if *begin == "http_" { rest.replace('_', "-") } else { rest.to_owned() };
            Some(format!("{{{ours}{rest}}}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_nginx() {
        let check = |text: &str, expect: &[&str]| {
            let found: Vec<_> = foreign(text).into_iter().map(|it| format!("{} {}", it.0, it.1)).collect();
            assert_eq!(expect, found, "{text}");
        };
        check("https://$host$request_uri", &["$host {host}", "$request_uri {uri}"]);
        check(
            "/b/$1?a=$arg_a&b=$http_user_agent",
            &["$1 {1}", "$arg_a {query.a}", "$http_user_agent {header.user-agent}"],
        );
        check("$cookie_sid $scheme://x", &["$cookie_sid {cookie.sid}", "$scheme {scheme}"]);
        let samples = |text: &str| -> Vec<_> { super::samples(text).into_iter().map(|it| it.1).collect() };
        assert_eq!(
            [Some("{client}".to_owned()), Some("{header.X-A}".to_owned())],
            samples("%[src] %[req.hdr(X-A)]")[..]
        );
        assert_eq!([None], samples("%[rand(9)]")[..]);
        assert_eq!([Some("{host}".to_owned())], samples("https://%{HTTP_HOST}/")[..]);
        assert_eq!(0, samples("100% [of] 5%").len());
        check("it costs $5.00, $10 or $hosts, and $", &["$5 {5}"]);
    }
}
