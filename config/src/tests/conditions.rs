//! Conditions that are never true, or always, those that a client avoids, rules that never apply, and redirects that lead back to themselves.

use super::*;

/// The warnings about a configuration with these lines.
fn warnings(text: &str) -> Vec<String> {
    let config = read(text).unwrap_or_else(|it| panic!("{text}\n{it}"));
    config.warnings.iter().map(ToString::to_string).collect()
}

/// The warning about a condition of a route `/a/*` in line 6, for a site with two hosts.
#[track_caller]
fn route(line: &str, expect: &str) {
    let site = "[[site]]\nhosts = [\"a.example\", \"b.example\"]\n[[site.route]]\npath = \"/a/*\"\nproxy.to = \":1\"\n";
    let expect: Vec<String> =
        if expect.is_empty() { Vec::new() } else { vec![format!("t.toml:6: site.route.{expect}")] };
    assert_eq!(expect, warnings(&format!("{site}{line}\n")), "{line}");
}

const CONTRADICTS: &str = ": its tests contradict one another";
const OF_ROUTE: &str = ": it contradicts the hosts, path, methods or listeners";

#[test]
fn tests_that_no_request_passes() {
    for (test, expect) in [
        (
            "client == \"127.0.0.0/8\"",
            "client is never \"127.0.0.0/8\": it is one address; for a network, write client in \"127.0.0.0/8\"",
        ),
        (
            "client != \"127.0.0.0/8\"",
            "client is never \"127.0.0.0/8\": it is one address; for a network, write client in \"127.0.0.0/8\"",
        ),
        ("client == \"::ffff:10.0.0.1\"", "client is never \"::ffff:10.0.0.1\": write \"10.0.0.1\""),
        ("client == \"2001:DB8::1\"", "client is never \"2001:DB8::1\": write \"2001:db8::1\""),
        ("client == \"office\"", "client is never \"office\": it is an address, such as \"192.0.2.7\""),
        (
            "client ~ \"^10.0.0.0/8\" || client ~ \"10\\.0/8$\"",
            "client never ends with \"10.0/8\": it is one address; for a network, write client in \"10.0.0.0/8\"",
        ),
        (
            "host == \"A.Example\"",
            "host is never \"A.Example\": it is in lower case and without port; write \"a.example\"",
        ),
        (
            "host == \"a.example:80\" || method == \"GET\"",
            "host is never \"a.example:80\": it is in lower case and without port; write \"a.example\"",
        ),
        ("host ~ \"Example$\"", "host never ends with \"Example\": it is in lower case; write \"example\""),
        ("method == \"post\"", "method is never \"post\": methods are case-sensitive; write \"POST\""),
        (
            "method in [\"GET\", \"put\"]",
            "method is never \"put\": methods are case-sensitive; write \"PUT\"",
        ),
        ("path == \"a/b\"", "path is never \"a/b\": it begins with \"/\"; write \"/a/b\""),
        ("path ~ \"^a/\"", "path never begins with \"a/\": it begins with \"/\"; write \"^/a/\""),
        ("scheme != \"HTTPS\"", "scheme is never \"HTTPS\": it is \"http\" or \"https\""),
    ] {
        for key in ["when", "access.deny_when", "access.allow_when"] {
            route(&format!("{key} = '{test}'"), &format!("{key}: {expect}"));
        }
    }
}

#[test]
fn conditions_that_are_never_true() {
    let check = |test: &str, expect: Option<&str>| {
        for (key, effect) in [
            ("when", "so no request takes this route"),
            ("access.deny_when", "so it refuses no request"),
            ("access.allow_when", "so it refuses every request"),
        ] {
            let text = |it: &str| match it {
                OF_ROUTE => format!("{key}: never true for a request of this route, {effect}{it}"),
                _ => format!("{key}: never true, {effect}{it}"),
            };
            route(&format!("{key} = '{test}'"), &expect.map_or(String::new(), text));
        }
    };
    for never in [
        "client in \"10.0.0.0/8\" && client in \"192.168.0.0/16\"",
        "client in \"10.1.0.0/16\" && !(client in \"10.0.0.0/8\")",
        "client == \"10.0.0.1\" && client in [\"192.168.0.0/16\", \"::/0\"]",
        "asn > 5 && asn < 6",
        "header.x == \"1\" && header.x != \"1\"",
        "query.a ~ \"[0-9]+\" && !(query.a ~ \"[0-9]+\")",
        "path ~ \"^/a/x\" && path ~ \"^/a/y\"",
        "path ~ \"\\.php$\" && path !~ \"php\"",
        "host ~ \"^a\\.\" && host ~ \"^b\\.\"",
    ] {
        let asn = never.contains("asn");
        if !asn {
            check(never, Some(CONTRADICTS));
        }
    }
    for here in [
        "path == \"/b\"",
        "path ~ \"^/b/\"",
        "path !~ \"^/a\"",
        "host == \"c.example\"",
        "host ~ \"\\.org$\"",
        "host !~ \"example\"",
    ] {
        check(here, Some(OF_ROUTE));
    }
    for possible in [
        "client in \"10.0.0.0/8\" && !(client in [\"10.0.0.0/9\"])",
        "client in \"::/0\" || client in \"0.0.0.0/0\"",
        "!(client in \"0.0.0.0/0\")",
        "client !~ \"^10\\.\" && client != \"::1\"",
        "header.x == \"1\" && header.x != \"2\"",
        "query.a == \"1\" && query.a == \"2\"",
        "path == \"/a\"",
        "path ~ \"^/\" && path ~ \"\\.php$\"",
        "path ~ \"^/a/b\" && path !~ \"^/a/b/c\"",
        "host == \"b.example\" && method == \"PROPFIND\"",
    ] {
        check(possible, None);
    }
}

#[test]
fn conditions_that_are_always_true() {
    route(
        "access.deny_when = 'path ~ \"^/a\"'",
        "access.deny_when: always true, so it refuses every request",
    );
    route(
        "access.allow_when = 'host ~ \"example$\"'",
        "access.allow_when: always true, so it refuses no request",
    );
    route("when = 'scheme == \"http\" || scheme == \"https\"'", "when: always true; remove it");
    route("when = 'host ~ \"example$\"'", "");
    route("access.allow_when = 'host == \"a.example\"'", "");
}

#[test]
fn a_rule_for_several_routes_need_not_fit_each() {
    let text = |site: &str, block: &str| {
        format!(
            "{block}[[site]]\nhosts = \"a.example\"\n{site}[[site.route]]\npath = \"/a/*\"\nproxy.to = \":1\"\n[[site.route]]\nproxy.to = \":1\"\n"
        )
    };
    let rule = "access.deny_when = 'path ~ \"^/b/\"'\n";
    assert_eq!(Vec::<String>::new(), warnings(&text(rule, "")));
    assert_eq!(Vec::<String>::new(), warnings(&text("use = \"b\"\n", &format!("[block.b]\n{rule}"))));
    let other = "access.deny_when = 'host == \"b.example\"'\n";
    assert_eq!(1, warnings(&text(other, "")).len());
}

#[test]
fn a_host_may_belong_to_another_site() {
    let text = |when: &str| {
        format!(
            "[[site]]\nhosts = \"*\"\n[[site.route]]\nwhen = 'host == \"{when}\"'\nproxy.to = \":1\"\n[[site]]\nhosts = \"b.example\"\n[[site.route]]\nproxy.to = \":1\"\n"
        )
    };
    assert_eq!(1, warnings(&text("b.example")).len());
    assert_eq!(Vec::<String>::new(), warnings(&text("c.example")));
}

#[test]
fn access_by_a_spelling_of_the_client_is_warned_of() {
    let query = "it decides access, but query is tested as the client spells it, so that \"%61\" is not \"a\"; test query.NAME, which is decoded";
    let url = "it decides access, but url is tested as the client spells it, so that \"%61\" is not \"a\"; test host, path or query.NAME, which are normalized";
    let host = "it decides access, but header.Host is tested as the client spells it, in upper or lower case and with or without a port; test host";
    for key in ["access.deny_when", "access.allow_when"] {
        route(&format!("{key} = 'query ~ \"debug=1\"'"), &format!("{key}: {query}"));
        route(&format!("{key} = '!(url ~ \"/admin\")'"), &format!("{key}: {url}"));
        route(&format!("{key} = 'header.Host == \"a.example\"'"), &format!("{key}: {host}"));
        route(&format!("{key} = 'query == \"\" || query.debug == \"1\"'"), "");
    }
    route("when = 'query ~ \"debug=1\"'", "");
    route(
        "when = 'query ~ \"debug=1\"'\naccess.allow = \"10.0.0.0/8\"\n[[site.route]]\nproxy.to = \":1\"",
        &format!("when: {query}"),
    );
}

#[test]
fn rules_for_responses_that_never_apply() {
    let rules = |conditions: &[&str]| {
        let rules =
            conditions.iter().map(|it| format!("[[site.route.cache.rule]]\nwhen = '{it}'\nttl = \"1m\"\n"));
        let site = "[[site]]\nhosts = \"a.example\"\n[[site.route]]\npath = \"/a/*\"\nproxy.to = \":1\"\n";
        warnings(&format!("{site}{}", rules.collect::<String>()))
    };
    let check = |conditions: &[&str], expect: &str| {
        let line = 3 + 3 * conditions.len();
        let expect: Vec<String> = match expect {
            "" => Vec::new(),
            _ => vec![format!("t.toml:{line}: site.route.cache.rule: {expect}")],
        };
        assert_eq!(expect, rules(conditions), "{conditions:?}");
    };
    check(&["status == 404 && status >= 500"], "never applies: its tests contradict one another");
    check(&["status == 99"], "status is never == 99: it is a number from 100 to 599");
    check(
        &["type == \"Text/HTML; charset=utf-8\""],
        "type is never \"Text/HTML; charset=utf-8\": it is in lower case, without parameters; write \"text/html\"",
    );
    let here = "never applies to a response of this route: it contradicts the hosts or the path";
    check(&["path == \"/b\""], here);
    check(&["host == \"b.example\""], here);
    check(&["path == \"/%61/x\""], "");
    let taken = |it: &str| {
        format!(
            "never applies: the condition '{it}' of an earlier rule holds for all of its responses; move that rule after this one"
        )
    };
    check(&["status >= 500", "status == 503"], &taken("status >= 500"));
    check(&["type ~ \"^text/\"", "status == 200 && type ~ \"^text/html\""], &taken("type ~ \"^text/\""));
    check(&["type == \"text/css\"", "type == \"text/css\""], &taken("type == \"text/css\""));
    check(
        &["status < 400", "status >= 500", "status == 200 || status == 502"],
        "never applies: the earlier rules take all of its responses; move it before them, or remove it",
    );
    check(&["status == 503", "status >= 500"], "");
    check(&["size > 1KiB", "size <= 1KiB", "status == 200"], "");
}

#[test]
fn routes_that_earlier_routes_take_together() {
    let check = |routes: &[&str], expect: usize| {
        let routes: String =
            routes.iter().map(|it| format!("[[site.route]]\n{it}\nproxy.to = \":1\"\n")).collect();
        let found = warnings(&format!("[[site]]\nhosts = \"a.example\"\n{routes}"));
        assert_eq!(
            expect,
            found.iter().filter(|it| it.contains("never matches")).count(),
            "{routes}\n{found:?}"
        );
    };
    let [json, other] = ["when = 'header.Accept ~ \"json\"'", "when = '!(header.Accept ~ \"json\")'"];
    check(&[json, other, "path = \"/a\""], 1);
    check(&[json, "path = \"/a\""], 0);
    check(&["when = 'client in \"10.0.0.0/8\"'", "when = 'client in \"10.1.0.0/16\"'"], 1);
    check(&["when = 'client in \"10.1.0.0/16\"'", "when = 'client in \"10.0.0.0/8\"'"], 0);
    check(&["methods = [\"GET\"]", "methods = [\"POST\"]", "methods = [\"GET\", \"POST\"]"], 1);
    check(&["methods = [\"GET\"]", "methods = [\"POST\"]", "methods = [\"PUT\", \"POST\"]"], 0);
    check(&["methods = [\"GET\"]", "methods = [\"POST\"]", ""], 0);
}

#[test]
fn members_of_lists_that_change_nothing() {
    let check = |site: &str, lines: &str, expect: &[&str]| {
        let text = format!(
            "[[site]]\nhosts = \"a.example\"\naccess.limit.rate = \"5/s\"\n{site}\n[[site.route]]\nproxy.to = \":1\"\n{lines}\n"
        );
        assert_eq!(expect, warnings(&text), "{site} {lines}");
    };
    let [allow, deny] = ["t.toml:7: site.route.access.allow", "t.toml:8: site.route.access.deny"];
    let lists = |allow: &str, deny: &str| format!("access.allow = [{allow}]\naccess.deny = [{deny}]");
    check("", &lists("\"10.0.0.0/8\"", "\"10.1.0.0/16\""), &[]);
    check(
        "",
        &lists("\"10.0.0.0/8\", \"10.2.3.4\", \"10.0.0.0/9\"", "\"10.1.0.0/16\""),
        &[&format!("{allow}: \"10.0.0.0/9\" is in \"10.0.0.0/8\" already, and 1 more members; remove it")],
    );
    check(
        "",
        "access.allow = [\"::1\", \"unix\", \"unix\"]",
        &[&format!("{allow}: \"unix\" is listed twice; remove one")],
    );
    check(
        "",
        &lists("\"10.1.0.0/16\", \"192.0.2.1\"", "\"10.0.0.0/8\", \"192.0.2.1/32\""),
        &[&format!(
            "{allow}: no client is admitted: deny at t.toml:8 contains each member; remove it from one of the lists"
        )],
    );
    check(
        "",
        &lists("\"10.1.0.0/16\", \"192.0.2.1\"", "\"10.0.0.0/8\", \"192.0.2.0/28\", \"10.9.0.0/16\"")
            .replace("192.0.2.0/28", "192.0.2.2"),
        &[
            &format!("{deny}: \"10.9.0.0/16\" is in \"10.0.0.0/8\" already; remove it"),
            &format!(
                "{allow}: \"10.1.0.0/16\": never admitted, since deny at t.toml:8 contains it; remove it from one of the lists"
            ),
            &format!(
                "{deny}: \"192.0.2.2\" and 1 more: no effect, since allow at t.toml:7 does not contain it; remove it"
            ),
        ],
    );
    check("", &format!("{}\naccess.satisfy = \"any\"\naccess.basic.users = [\"a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\"]\n", lists("\"10.0.0.0/8\"", "\"192.0.2.1\"")).replace("satisfy", "satisfy"), &["t.toml:10: site.route.access.basic: passwords are sent in clear text: no address of listen has TLS; add one, such as \"https://0.0.0.0:443\", unless a proxy with TLS is in front"]);
    // A route may exclude some of the clients of its site, and leaves the others.
    check("access.allow = [\"10.0.0.0/8\", \"192.0.2.1\"]", "access.deny = [\"192.0.2.0/24\"]", &[]);
    check("access.deny = [\"192.0.2.0/24\"]", "access.allow = [\"10.0.0.0/8\"]", &[]);
    check(
        "access.deny = [\"192.0.2.0/24\"]",
        "access.allow = [\"10.0.0.0/8\", \"192.0.2.1\"]",
        &[&format!(
            "{allow}: \"192.0.2.1\": never admitted, since deny at t.toml:4 contains it; remove it from one of the lists"
        )],
    );
}

/// The warnings about redirects, without their key.
fn loops(text: &str) -> Vec<String> {
    let found = warnings(text).into_iter().filter(|it| it.contains("redirected"));
    found.map(|it| it.replace(": site.route.redirect.to", "")).collect()
}

/// A site whose routes redirect, and end at an origin.
fn redirects(site: &str, routes: &[(&str, &str)]) -> String {
    let routes = routes
        .iter()
        .map(|(path, to)| format!("[[site.route]]\npath = \"{path}\"\nredirect.to = \"{to}\"\n"));
    format!(
        "listen = [\"http://:80\", \"https://:443\"]\ntls.self_signed = true\n[[site]]\nhosts = [\"a.example\", \"www.a.example\"]\n{site}\n{}[[site.route]]\nproxy.to = \":1\"\n",
        routes.collect::<String>()
    )
}

#[test]
fn redirects_that_lead_back_to_themselves() {
    let check = |site: &str, routes: &[(&str, &str)], expect: &[&str]| {
        assert_eq!(expect, loops(&redirects(site, routes)), "{site} {routes:?}");
    };
    let end = "; change one of the targets";
    let loop_of = |line: u32, url: &str, way: &str| {
        format!("t.toml:{line}: a request for {url} is redirected in a loop: {way}{end}")
    };
    check("", &[("/a", "/b")], &[]);
    check("", &[("/a", "{uri}")], &[&loop_of(8, "http://a.example/a", "/a to /a")]);
    check(
        "",
        &[("/a", "/b"), ("/b", "/a?x=1")],
        &[&loop_of(8, "http://a.example/a?x=1", "/a?x=1 to /b?x=1 to /a?x=1")],
    );
    check("", &[("/a", "/b"), ("/b", "/a")], &[&loop_of(8, "http://a.example/a", "/a to /b to /a")]);
    check(
        "",
        &[("/a", "/b"), ("/b", "/c"), ("/c", "/b")],
        &[&loop_of(11, "http://a.example/b", "/b to /c to /b")],
    );
    check(
        "",
        &[("/old/*", "/new/{1}"), ("/new/{x}", "/old/{x}")],
        &[&loop_of(8, "http://a.example/old/any", "/old/any to /new/any to /old/any")],
    );
    check("", &[("/old/{id}", "/old/{id}/")], &[]);
    check(
        "",
        &[("/x/*", "/x/y{uri}")],
        &[
            "t.toml:8: a request for http://a.example/x/any is redirected more than 20 times, first to http://a.example/x/y/x/any; change the target",
        ],
    );
    check("", &[("/a", "https://{host}{uri}")], &[&loop_of(8, "https://a.example/a", "/a to /a")]);
    check("", &[("/a", "http://other.example/a")], &[]);
    check(
        "redirect_https = true",
        &[("/a", "http://{host}/a")],
        &[&loop_of(
            8,
            "http://a.example/a",
            "http://a.example/a to https://a.example/a to http://a.example/a",
        )],
    );
    check(
        "canonical_host = \"www.a.example\"",
        &[("/a", "https://a.example/a")],
        &[&loop_of(
            8,
            "https://a.example/a",
            "https://a.example/a to https://www.a.example/a to https://a.example/a",
        )],
    );
    check("canonical_host = \"www.a.example\"", &[("/a", "https://a.example/b")], &[]);
    // What another server may answer is left to it.
    let clear = |to: &str| {
        format!("listen = \":8080\"\n[[site]]\nhosts = \"*\"\n[[site.route]]\nredirect.to = \"{to}\"\n")
    };
    assert_eq!(Vec::<String>::new(), loops(&clear("https://{host}{uri}")));
    assert_eq!(Vec::<String>::new(), loops(&clear("http://www.example{uri}")));
    assert_eq!(1, loops(&clear("http://{host}{uri}")).len());
}

#[test]
fn redirects_that_may_end_are_no_loop() {
    for lines in ["when = 'cookie.seen != \"1\"'", "methods = [\"POST\"]", "listeners = [\"http://:80\"]"] {
        let text =
            redirects("", &[("/a", "/a")]).replace("path = \"/a\"", &format!("path = \"/a\"\n{lines}"));
        assert_eq!(Vec::<String>::new(), loops(&text), "{lines}");
    }
    assert_eq!(Vec::<String>::new(), loops(&redirects("", &[("/a", "/{header.X-Next}")])));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("map"), "/b /a\n/c /d\n").unwrap();
    let map = format!("redirect_map = \"{}/map\"", folder.path().display());
    assert_eq!(1, loops(&redirects(&map, &[("/a", "/b")])).len());
    assert_eq!(Vec::<String>::new(), loops(&redirects(&map, &[("/a", "/c")])));
}

#[test]
fn mistakes_in_conditions_show_no_secret() {
    for (condition, shown) in [
        ("header.X-Auth == t0psecret", "'header.X-Auth == ***'"),
        ("header[\\\"X-Auth\\\"] in [t0psecret]", "'header[\"X-Auth\"] in [***]'"),
        ("header.X-Auth == 't0psecret word'", "'header.X-Auth == '***''"),
        ("header.X-Auth == \\\"t0psecret", "'header.X-Auth == \"***'"),
    ] {
        let text =
            format!("[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = \":1\"\nwhen = \"{condition}\"\n");
        let found = read(&text).unwrap_err().to_string();
        assert!(
            found.starts_with(&format!("t.toml:5: site.route.when: found {shown}; allowed: ")),
            "{found}"
        );
        assert!(!found.contains("t0p") && !found.contains("word"), "{found}");
    }
}

/// Otherwise the clients of one condition would get the pages of another after a reload.
#[test]
fn conditions_that_differ_in_secrets_have_different_keys_in_every_configuration() {
    let keys = |conditions: &[&str]| -> Vec<Option<String>> {
        let routes =
            conditions.iter().map(|it| format!("[[site.route]]\nwhen = '{it}'\nproxy.to = \":1\"\n"));
        let text = format!("[[site]]\nhosts = \"*\"\n{}", routes.collect::<String>());
        let config = read(&text).unwrap_or_else(|it| panic!("{it}"));
        config.sites[0].routes.iter().map(|it| it.cache.key.condition.clone()).collect()
    };
    let variable = |name: &str| format!("header.X-Auth == \"${{{name}}}\"");
    let [three, four] = ["CARGO_PKG_NAME", "CARGO_PKG_VERSION"].map(variable);
    let all = ["header.X-Auth == \"1\"", "header.X-Auth == \"2\"", &three, &four];
    let together = keys(&all);
    for (at, condition) in all.iter().enumerate() {
        assert_eq!(together[at..=at], keys(&[condition]), "{condition}");
        assert_eq!(1, together.iter().filter(|it| **it == together[at]).count(), "{condition}");
    }
}
