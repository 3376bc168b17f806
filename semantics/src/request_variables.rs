//! The variables that a route sets for an application behind FastCGI, SCGI or uWSGI (`site.route.proxy.env`).
//!
//! As with fields, a request whose response may be shared gets only values that its key determines. A value that names a file
//! never has a segment `..` of a request: the request is refused.

use crate::field::FieldList;
use crate::key::KeyRecipe;
use crate::request_fields::undetermined;
use crate::request_view::RequestView;
use crate::template::Template;

/// Where the address of a client is from.
const OF_CLIENT: &str = "it is the address of the client; clients.trusted names proxies in front of larder";
/// Where the scheme is from.
const OF_SCHEME: &str =
    "it is the scheme of the client; clients.trusted names proxies in front of larder that end TLS";

/// Variables that larder sets from the request, each with the reason or the key that changes it.
const OWN: [(&str, &str); 12] = [
    ("GATEWAY_INTERFACE", "it is the version of CGI"),
    ("SERVER_PROTOCOL", "larder speaks it for the client"),
    ("REQUEST_METHOD", "it is the method of the request"),
    ("REQUEST_URI", "it is the target of the request; set rewrite instead"),
    ("QUERY_STRING", "it is the query of the request; set query.set instead"),
    ("CONTENT_LENGTH", "larder frames the body"),
    ("CONTENT_TYPE", "it is a field of the request; set request_headers.set instead"),
    ("REQUEST_SCHEME", OF_SCHEME),
    ("HTTPS", OF_SCHEME),
    ("REMOTE_ADDR", OF_CLIENT),
    ("REMOTE_PORT", OF_CLIENT),
    ("REMOTE_USER", "it is the user of an access rule; add access.basic, jwt or forward"),
];

/// Variables by which applications choose the file that they run or send.
const FILES: [&str; 4] = ["SCRIPT_FILENAME", "DOCUMENT_ROOT", "PATH_TRANSLATED", "SCRIPT_NAME"];

/// The variables of a route, each with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestVariables(pub Vec<(String, Template)>);

impl RequestVariables {
    /// The variables of a request. `shared` is its key if its response may be shared.
    #[must_use]
    pub fn of(&self, view: &RequestView<'_>, shared: Option<&KeyRecipe>) -> FieldList {
        let (mut out, mut value) = (FieldList::default(), Vec::new());
        for (name, template) in &self.0 {
            if shared.is_some_and(|key| undetermined(template, key).is_some()) {
                continue;
            }
            value.clear();
            template.expand(view, &mut value);
            out.push(name, &value);
        }
        out
    }

    /// Whether the request leads a path of a file out of its directory.
    #[must_use]
    pub fn climb(&self, view: &RequestView<'_>) -> bool {
        let mut value = Vec::new();
        self.0.iter().filter(|it| is_of_file(&it.0) && it.1.constant().is_none()).any(|(_, template)| {
            value.clear();
            template.expand(view, &mut value);
            value.split(|it| *it == b'/').any(|it| it == b"..")
        })
    }

    /// The names, for `explain`.
    #[must_use]
    pub fn describe(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|it| it.0.as_str()).collect();
        format!("sets the variables {}", names.join(", "))
    }
}

/// Why a route cannot set a variable; `None` if it can. Some applications ignore the case of names.
#[must_use]
pub fn refused(name: &str) -> Option<&'static str> {
    let is_field = name.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("HTTP_"));
    let own = OWN.iter().find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1);
    own.or(is_field.then_some("it is a field of the request; set request_headers.set instead"))
}

/// Whether applications choose a file by this variable.
#[must_use]
pub fn is_of_file(name: &str) -> bool {
    FILES.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether the value of this variable is a path of the file system, and not of a URL.
#[must_use]
pub fn is_file_path(name: &str) -> bool {
    is_of_file(name) && !name.eq_ignore_ascii_case("SCRIPT_NAME")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::pattern::PathPattern;
    use crate::request_view::normal_path;

    fn variables(all: &[(&str, &str)]) -> RequestVariables {
        RequestVariables(all.iter().map(|it| (it.0.to_owned(), Template::parse(it.1).unwrap())).collect())
    }

    #[track_caller]
    fn check(variables: &RequestVariables, shared: Option<&KeyRecipe>, expect: &str) {
        let fields = [Field { name: "X-In", value: b"in" }];
        let view =
            RequestView { authority: "h:81", target: "/a?b", fields: &fields, ..RequestView::default() };
        let all = variables.of(&view, shared);
        assert_eq!(expect, String::from_utf8_lossy(all.text()).replace("\r\n", "|"));
    }

    #[test]
    fn a_shared_request_has_only_variables_that_its_key_determines() {
        let all = variables(&[("A", "x{path}"), ("B", "{header.x-in}"), ("C", "{host}"), ("D", "")]);
        check(&all, None, "A: x/a|B: in|C: h|D: |");
        let mut key = KeyRecipe::default();
        check(&all, Some(&key), "A: x/a|C: h|D: |");
        key.headers.push("X-In".to_owned());
        check(&all, Some(&key), "A: x/a|B: in|C: h|D: |");
    }

    #[test]
    fn no_request_leads_out_of_the_directory_of_a_file() {
        let check = |expect: bool, name: &str, value: &str, pattern: &str, target: &str| {
            let (pattern, mut room) = (PathPattern::parse(pattern).unwrap(), Vec::new());
            let path = normal_path(target, &mut room);
            let captures = pattern.captures(path).unwrap_or_default();
            let view = RequestView { target, path, captures, ..RequestView::default() };
            assert_eq!(expect, variables(&[(name, value)]).climb(&view), "{value} {pattern} {target}");
        };
        check(false, "SCRIPT_FILENAME", "/srv/{1}", "/p/*", "/p/a/b..c/...");
        check(true, "SCRIPT_FILENAME", "/srv/{1}", "/p*", "/p../a");
        check(true, "SCRIPT_FILENAME", "/srv/{1}", "/p*", "/p%2e%2e%2fa");
        check(true, "SCRIPT_FILENAME", "/srv/{1}", "/p*", "/p.%01./a");
        check(true, "SCRIPT_NAME", "{path}", "/*", "/p/../../a");
        check(true, "DOCUMENT_ROOT", "/srv/{query.d}", "/*", "/?d=a%2f..");
        check(false, "DOCUMENT_ROOT", "/srv/../a", "/*", "/..");
        check(false, "OTHER", "{path}", "/*", "/../a");
    }

    #[test]
    fn variables_of_the_request_are_refused() {
        for name in ["REMOTE_ADDR", "remote_addr", "HTTPS", "HTTP_PROXY", "http_x", "HTTP_", "CONTENT_LENGTH"]
        {
            assert!(refused(name).is_some(), "{name}");
        }
        for name in
            ["SCRIPT_FILENAME", "DOCUMENT_ROOT", "APP_ENV", "HTTP", "HTTPX_A", "SERVER_NAME", "PATH_INFO"]
        {
            assert_eq!(None, refused(name), "{name}");
        }
    }
}
