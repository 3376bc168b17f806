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
    let lacks = "unknown variable {idd}; did you mean {id}? the path \"/a/{id}\" has {1}, {id}; docs/generated/config.md lists all";
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

/// The errors about a file.
fn about(text: &str) -> String {
    read(text).map(drop).map_or_else(|it| it.to_string(), |()| "OK".to_owned())
}

/// The errors about a site with one route, which has these lines from line 6 on.
fn about_route(lines: &str) -> String {
    about(&format!("{SITE}{lines}\n"))
}

#[test]
fn keys_in_another_place_say_where_they_belong() {
    let to_site = "it belongs to the site; move it above the first [[site.route]]";
    for name in
        ["redirect_https = true", "hosts = \"b\"", "canonical_host = \"b\"", "log_skip = 'status == 1'"]
    {
        let found = about_route(name);
        assert!(found.starts_with("t.toml:6: site.route.") && found.ends_with(to_site), "{found}");
    }
    let to_route = "it belongs to a route; move it into a [[site.route]]";
    let site = |line: &str| about(&SITE.replace("[[site.route]]", &format!("{line}\n[[site.route]]")));
    for line in [
        "forwarded = \"off\"",
        "strip = \"/a\"",
        "methods = \"GET\"",
        "upgrade = []",
        "proxy = { to = \":1\" }",
        "files.root = \".\"",
        "server_timing = true",
    ] {
        let found = site(line);
        assert!(found.starts_with("t.toml:3: site.") && found.ends_with(to_route), "{found}");
    }
    let found = site("cache = { default_ttl = \"1m\" }");
    assert!(
        found.contains("above the first section, or, for every route of the site, into a [block.NAME]"),
        "{found}"
    );
    let top = |line: &str| about(&format!("{line}\n{SITE}"));
    assert!(top("proxy = { to = \":1\" }").ends_with(to_route));
    assert!(top("hosts = \"b\"").ends_with("it belongs to a site; move it into a [[site]]"));
    assert!(top("maintenance.enabled = true").ends_with("move it into a [[site]] or a [[site.route]]"));
    assert!(
        about(&format!("{SITE}[[route]]\npath = \"/a\""))
            .ends_with("write [[site.route]], after its [[site]]")
    );
    let whole = "it belongs to the whole file; move it above the first section";
    assert!(site("workers = 2").ends_with(whole));
    assert!(about_route("admin = { enabled = false }").ends_with(whole));
    assert!(about_route("spa = true").ends_with("move it to `site.route.files.spa`"));
    assert!(about_route("listing = true").ends_with("move it to `site.route.files.listing`"));
    assert!(top("zzzzzz = 1").ends_with(", database, block"), "{}", top("zzzzzz = 1"));
}

#[test]
fn one_mistake_is_one_error() {
    let text = "[[site]]\nhosts = \"a\"\n[[site.route]]\n";
    assert_eq!(
        "t.toml:4: site.route.proxi: unknown key; did you mean `site.route.proxy`?",
        about(&format!("{text}proxi = {{ to = \":1\" }}"))
    );
    assert_eq!(
        "t.toml:4: site.route.redirect: expected a section, [site.route.redirect]; found \"/x\"; write redirect = { to = \"/x\" }",
        about(&format!("{text}redirect = \"/x\""))
    );
    assert!(about(text).contains("the route has no service"));
}

#[test]
fn duplicate_keys_and_sections_before_their_site() {
    assert_eq!(
        "t.toml:2: not TOML: duplicate key workers; it may stand once in its section",
        about("workers = 1\nworkers = 2")
    );
    assert_eq!(
        "t.toml:3: not TOML: duplicate key site; write [[site]] before its [[site.route]], and [site] nowhere",
        about("[[site.route]]\npath = \"/\"\n[[site]]\nhosts = \"a\"")
    );
}

#[test]
fn wrong_values_are_rejected_with_a_value_to_write() {
    let found = about_route("cache.default_ttl = \"5 minutes\"");
    assert!(
        found.ends_with("allowed: a duration in whole seconds such as \"5m\", up to \"3650d\", or \"off\""),
        "{found}"
    );
    assert_eq!(
        "OK",
        about(
            &SITE.replace("proxy = { ", "proxy = { health = { path = \"/\", status = [200, \"300-308\"] }, ")
        )
    );
    assert_eq!(
        "OK",
        about(&SITE.replace("proxy = { ", "proxy = { health = { path = \"/\", status = 204 }, "))
    );
    let found = about(&SITE.replace("hosts = [\"*\"]", "hosts = [\"a\", \"b:80\", \"c\", \"d/\"]"));
    assert!(
        found.ends_with("or \"*\"; write \"b\" in place of \"b:80\"; not allowed: \"b:80\", \"d/\""),
        "{found}"
    );
    let found = about_route("access.allow = [\"10.0.0.0/8\", \"office\"]");
    assert!(found.ends_with("; not allowed: \"office\""), "{found}");
    let found = about(&SITE.replace("http://127.0.0.1:8000\"", "a:1\", \"http://b:2 backup\""));
    assert!(
        found.ends_with(
            "allowed: the address alone; a backup belongs to proxy.backup; not allowed: \"http://b:2 backup\""
        ),
        "{found}"
    );
    for (rate, whole) in [("0.5/s", "30/m"), ("1.5/m", "90/h"), ("0.25/h", "6/d")] {
        let found = about_route(&format!("access.limit.rate = \"{rate}\""));
        assert!(found.ends_with(&format!("at most 100000 in a second; write \"{whole}\"")), "{found}");
    }
    assert!(!about_route("access.limit.rate = \"0.3/d\"").contains("write"));
    let redirect = |status: u16| {
        about(&format!(
            "[[site]]\nhosts = \"a\"\n[[site.route]]\nredirect = {{ to = \"/x\", status = {status} }}"
        ))
    };
    for status in [200, 304] {
        assert_eq!(
            format!(
                "t.toml:4: site.route.redirect.status: found {status}; allowed: 301, 302, 303, 307 or 308"
            ),
            redirect(status)
        );
    }
}

#[test]
fn values_that_an_error_names_as_allowed_are_accepted() {
    let found = about_route("response_headers.set = { X-A = \"{no such}\" }");
    assert!(
        found.contains("; allowed: a text, with variables such as \"{host}\"; unknown variable "),
        "{found}"
    );
    let names = "error_pages = { 200 = \"a\", 99 = \"b\", 5yy = \"c\", 404 = \"Cargo.toml\" }";
    let found = about_route(names);
    for name in ["200", "99", "5yy"] {
        let part =
            format!("found the name \"{name}\"; allowed: a status from 400 to 599, \"4xx\" or \"5xx\"");
        assert!(found.contains(&part), "{name}: {found}");
    }
    assert_eq!(3, found.lines().count(), "{found}");
    let found = about(&SITE.replace("proxy = { to = [\"http://127.0.0.1:8000\"] }", "redirect.to = \"/{a\""));
    assert!(
        found.contains(
            "; allowed: a text, with variables such as \"{host}\"; a \"{\" without its counterpart"
        ),
        "{found}"
    );
}

#[test]
fn every_mistake_of_a_section_is_reported() {
    let found = about_route("request_headers.set = { Host = \"a\", Connection = \"b\", X-A = \"c\" }");
    assert_eq!(2, found.lines().count(), "{found}");
    let found = about_route("response_headers.set = { Connection = \"a\", Upgrade = \"b\" }");
    assert_eq!(2, found.lines().count(), "{found}");
    let found = about(
        &SITE.replace("[[site.route]]", "error_pages = { 404 = \"gone\", 5xx = \"lost\" }\n[[site.route]]"),
    );
    assert_eq!(
        2,
        found.lines().filter(|it| it.starts_with("t.toml:3: site.error_pages: ")).count(),
        "{found}"
    );
}
