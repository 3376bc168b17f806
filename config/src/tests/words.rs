//! Variables of texts that a route cannot have, and the words of messages.

use super::*;

/// The errors about a route at `/a/{id}` with these lines, without the place.
fn errors(lines: &str) -> Vec<String> {
    let text = format!("[[site]]\nhosts = \"a\"\n[[site.route]]\npath = \"/a/{{id}}\"\n{lines}\n");
    let found = read(&text).map(drop);
    found.map_or_else(|it| it.0.iter().map(ToString::to_string).collect(), |()| Vec::new())
}

#[test]
fn unknown_captures_are_errors_in_every_text() {
    let lacks = "unknown variable {idd}; did you mean {id}? the path \"/a/{id}\" has {1}, {id}";
    for (lines, key) in [
        ("redirect.to = \"/b/{idd}\"", "redirect.to"),
        ("respond.body = \"{idd}\"", "respond.body"),
        ("proxy.to = \":1\"\nrewrite = \"/b/{idd}\"", "rewrite"),
        ("proxy.to = \":1\"\nresponse_headers.set = { X-A = \"{idd}\" }", "response_headers"),
        ("proxy.to = \":1\"\nresponse_headers.default = { X-A = \"{idd}\" }", "response_headers"),
        ("proxy.to = \":1\"\nrequest_headers.set = { X-A = \"{idd}\" }", "request_headers.set"),
    ] {
        let found = errors(lines);
        assert!(
            found.len() == 1 && found[0].ends_with(&format!(": site.route.{key}: {lacks}")),
            "{lines}: {found:?}"
        );
    }
    for good in ["redirect.to = \"/b/{id}/{1}{uri}\"", "respond.body = \"{{idd}} {id} {host}\""] {
        assert_eq!(Vec::<String>::new(), errors(good));
    }
}

#[test]
fn variables_of_nginx_are_errors() {
    for lines in [
        "redirect.to = \"https://a.test$request_uri\"",
        "respond.body = \"you asked for $request_uri\"",
        "proxy.to = \":1\"\nresponse_headers.set = { X-A = \"$request_uri\" }",
        "proxy.to = \":1\"\nrequest_headers.set = { X-A = \"$request_uri\" }",
        "proxy.to = \":1\"\nrewrite = \"/b/$request_uri\"",
        "proxy.to = \":1\"\nquery.set = { a = \"$request_uri\" }",
    ] {
        let found = errors(lines);
        assert!(
            found.len() == 1 && found[0].ends_with("$request_uri is a variable of nginx; write {uri}"),
            "{lines}: {found:?}"
        );
    }
    assert_eq!(2, errors("redirect.to = \"https://a.test/$host$request_uri\"").len());
}

#[test]
fn braces_of_a_query_are_warned_of() {
    let text = format!("{SITE}query.set = {{ a = \"{{id}}\" }}\n");
    let warnings = read(&text).unwrap().warnings;
    assert_eq!(
        "t.toml:6: site.route.query.set: \"{id}\" is sent as it is: the values of query.set have no variables; use rewrite instead",
        warnings[0].to_string()
    );
}
