//! Several mistakes of one section, all of which are reported at once, and sentences that say what would be right.

use super::*;

/// The keys of the errors about a route with these lines, each with its sentence.
fn told(lines: &str) -> Vec<String> {
    let text = format!("[[site]]\nhosts = [\"a\"]\n[[site.route]]\n{lines}\n");
    match read(&text) {
        Ok(_) => Vec::new(),
        Err(it) => it.0.iter().map(|it| format!("{}: {}", it.key, it.text)).collect(),
    }
}

#[track_caller]
fn check(lines: &str, expect: &[&str]) {
    let found = told(lines);
    let all =
        found.len() == expect.len() && expect.iter().all(|part| found.iter().any(|it| it.contains(part)));
    assert!(all, "{lines}: {found:#?}");
}

#[test]
fn all_mistakes_of_a_table_are_reported() {
    let origin = "proxy.to = \":1\"\n";
    check(
        &format!(
            "{origin}request_headers.set = {{ \"bad name\" = \"x\", Host = \"x\", Accept-Encoding = \"x\", X = \"{{nope}}\" }}"
        ),
        &[
            "set.bad name: found the name",
            "Host cannot be set",
            "Accept-Encoding decides",
            "unknown variable {nope}",
        ],
    );
    check(
        &format!(
            "{origin}response_headers.set = {{ \"a b\" = \"c\", X = \"{{nope}}\", Y = \"$host\", Trailer = \"z\" }}"
        ),
        &[
            "set.a b: found the name",
            "unknown variable {nope}",
            "$host is a variable of nginx",
            "Trailer frames",
        ],
    );
    check(
        &format!("{origin}error_pages = {{ 200 = \"x\", 404 = \"missing.html\", 5xx = \"url:none\" }}"),
        &["error_pages.200: found the name", "missing.html", "found \"url:none\""],
    );
    check(
        &format!("{origin}response_headers.set = {{ \"a b\" = \"{{\" }}"),
        &["found the name \"a b\"", "found \"{\"; allowed: a text"],
    );
    check(
        &format!("{origin}listeners = [\"http://1.2.3.4:1\", \"http://1.2.3.4:2\"]"),
        &["\"http://1.2.3.4:1\" is not one of listen", "\"http://1.2.3.4:2\" is not one of listen"],
    );
}

#[test]
fn a_wrong_path_has_one_message() {
    check(
        "path = \"/x/{a}/{a}\"\nredirect.to = \"/{nope}\"\nresponse_headers.set.X = \"{a} {1}\"",
        &["site.route.path: found"],
    );
    check("path = \"/x/{a}\"\nredirect.to = \"/{nope}\"", &["the path \"/x/{a}\" has {1}, {a}"]);
}

#[test]
fn values_that_other_keys_have() {
    let origin = "proxy.to = \":1\"\n";
    check(
        &format!("{origin}request_headers.set = {{ X-User = \"\" }}"),
        &[
            "set.X-User: found \"\"; allowed: the value of a header field, with variables such as \"{client}\", or \"file:PATH\" for the content of \
          a file; an empty value removes nothing: name the field in request_headers.remove",
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "one\ntwo\n").unwrap();
    check(
        &format!("{origin}request_headers.set = {{ X-Key = \"file:{}/key\" }}", folder.path().display()),
        &["found a value, not shown here; allowed: the value of a header field"],
    );
    check(
        &format!(
            "{origin}request_headers.set = {{ X-A = \"${{NO_SUCH_VARIABLE}}\", X-B = \"file:{}/key\", X-C = \"a\\nb\", \"bad name\" = \"x\" }}",
            folder.path().display()
        ),
        &[
            "NO_SUCH_VARIABLE is not set",
            "set.X-B: found a value",
            "set.X-C: found a value",
            "set.bad name: found the name",
        ],
    );
    for (lines, part) in [
        ("response_headers.set = { X = \"file:/run/x\" }", "write the value, or \"${NAME}\""),
        ("response_headers.add = { X = \"file:/run/x\" }", "which clients would get as it is written"),
        ("csp = \"file:/run/x\"", "site.route.csp: found \"file:/run/x\""),
        ("csp = \"${X:-${Y:-z}}\"", "the default of ${X:-…} has a variable"),
    ] {
        check(&format!("{origin}{lines}"), &[part]);
    }
    check("respond.body = \"file:/run/x\"", &["write respond.file for the content of a file"]);
}

#[test]
fn a_location_is_no_open_redirect() {
    let open = "could choose its host";
    check("respond.status = 302\nresponse_headers.set.Location = \"https://{query.u}/\"", &[open]);
    check("respond.status = 302\nresponse_headers.default.location = \"{query.u}\"", &["begin it with"]);
    check("redirect.to = \"//b.example/{1}\"", &["write \"https://b.example/{1}\" for that host"]);
    for right in ["/x/{1}", "https://b.example{uri}", "x.html"] {
        check(&format!("respond.status = 302\nresponse_headers.set.Location = \"{right}\""), &[]);
    }
}

#[test]
fn a_scheme_that_no_request_has() {
    let warned = |top: &str, keys: &str| {
        let text = format!("{top}\n[[site]]\nhosts = [\"a\"]\n[[site.route]]\nproxy.to = \":1\"\n{keys}\n");
        read(&text).unwrap().warnings.iter().map(|it| format!("{}: {}", it.key, it.text)).collect::<Vec<_>>()
    };
    let (clear, tls) = ("listen = \":80\"", "listen = \"https://:443\"\ntls.self_signed = true");
    let (when, hsts) = ("when = 'scheme == \"https\"'", "hsts.max_age = \"1d\"");
    let proxied = "listen = \":80\"\nclients.trusted = [\"10.0.0.0/8\"]";
    assert_eq!(
        [
            "site.route.when: never true, so no request takes this route: no address of listen has TLS, and clients.trusted names no proxy that may \
          have it"
        ],
        warned(clear, when)[..]
    );
    assert_eq!(
        [
            "site.route.hsts: no effect: no address of listen has TLS; add one, or the TLS proxy in front to clients.trusted"
        ],
        warned(clear, hsts)[..]
    );
    for top in [tls, proxied] {
        assert_eq!((0, 0), (warned(top, when).len(), warned(top, hsts).len()), "{top}");
    }
    let found = warned(tls, "access.allow_when = 'scheme == \"http\"'");
    assert!(found[0].ends_with("so it refuses every request: every address of listen has TLS"), "{found:?}");
}
