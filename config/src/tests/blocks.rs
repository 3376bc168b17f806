//! Named blocks.

use super::*;

const BLOCKS: &str = "[block.slow]\nserver_timing = true\ntrace = 5\nproxy.to = \"slow:1\"\nproxy.connect_timeout = \"9s\"\n\
                      [block.long]\ntrace = 7\ncache = { default_ttl = \"1h\", stale_while_revalidate = \"1m\" }\n";

fn route(text: &str) -> RouteConfig {
    let text = format!("{BLOCKS}[[site]]\nhosts = \"*\"\n{text}\n");
    let config = read(&text).unwrap_or_else(|it| panic!("{it}"));
    config.sites[0].routes[0].clone()
}

#[test]
fn a_later_block_wins_and_the_own_key_wins_over_all() {
    let it = route("[[site.route]]\nuse = [\"slow\", \"long\"]");
    assert_eq!((7, true, Some(3600)), (it.trace, it.server_timing, it.cache.default_ttl));
    assert_eq!("http://slow:1", it.origins().next().unwrap().name());
    assert_eq!(
        ("t.toml:7", "t.toml:2"),
        (
            it.decided.by("site[].route[].trace").to_string().as_str(),
            it.decided.by("site[].route[].server_timing").to_string().as_str(),
        )
    );
    assert_eq!("t.toml:8", it.decided.by("cache.default_ttl").to_string());
    let it = route("[[site.route]]\nuse = [\"long\", \"slow\"]\ntrace = 1\ncache.default_ttl = \"2s\"");
    assert_eq!((1, Some(2), 60), (it.trace, it.cache.default_ttl, it.cache.stale_while_revalidate));
    let it = route("[[site.route]]\nuse = [\"long\", \"slow\"]");
    assert_eq!(5, it.trace);
}

#[test]
fn blocks_of_a_site_are_the_defaults_of_its_routes() {
    let it = route("use = [\"slow\", \"long\"]\n[[site.route]]\npath = \"/x\"");
    assert_eq!((7, "http://slow:1"), (it.trace, it.origins().next().unwrap().name().as_str()));
    let it = route("use = \"long\"\n[[site.route]]\nuse = \"slow\"");
    assert_eq!((5, Some(3600)), (it.trace, it.cache.default_ttl));
}

#[test]
fn the_own_service_replaces_that_of_a_block() {
    let it = route("use = \"slow\"\n[[site.route]]\nuse = \"long\"\nfiles.root = \"src\"");
    assert!(matches!(it.service, Service::Files(_)) && it.server_timing);
    let it = route("[[site.route]]\nuse = \"slow\"\nproxy.to = \"own:1\"");
    let Service::Proxy(proxy) = &it.service else { panic!("proxy") };
    assert_eq!(
        ("http://own:1", Duration::from_secs(9)),
        (proxy.to.members[0].name().as_str(), proxy.limits.connect,)
    );
}

#[test]
fn mistakes_with_blocks() {
    refuse(
        "[block.a]\nuse = [\"b\"]\ntarce = 1\ntrace = -1\n[block.\"x y\"]\n[block.b]\ncache.default_tll = \"1s\"",
        "t.toml:2: block.a.use: a block cannot use another; name both where they are used\n\
         t.toml:3: block.a.tarce: unknown key; did you mean `block.a.trace`?\n\
         t.toml:4: block.a.trace: found -1; allowed: a whole number from 0 to 4294967295\n\
         t.toml:5: block: expected a section [block.NAME] with the keys of a route; NAME has letters, digits, \"-\" and \"_\"\n\
         t.toml:7: block.b.cache.default_tll: unknown key; did you mean `block.b.cache.default_ttl`?",
    );
    refuse("block = 3", "t.toml:1: block: expected sections, [block.NAME]; found 3");
    refuse_whole(
        &format!(
            "{BLOCKS}[[site]]\nhosts = \"*\"\nuse = \"lang\"\n[[site.route]]\nuse = [\"quick\"]\nproxy.to = \":1\""
        ),
        "t.toml:11: site.use: there is no block \"lang\"; did you mean \"long\"?\n\
         t.toml:13: site.route.use: there is no block \"quick\"; add a section [block.quick]",
    );
    let warnings = read(&format!("{BLOCKS}{SITE}")).unwrap().warnings;
    let report: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        [
            "t.toml:6: block.long: the block is not used; add use = [\"long\"] to a site or a route, or remove it",
            "t.toml:1: block.slow: the block is not used; add use = [\"slow\"] to a site or a route, or remove it",
        ],
        report[..]
    );
}

#[test]
fn tables_of_a_block_are_added_to_those_of_the_site_and_the_route() {
    let block = "[block.sec]\nresponse_headers.set = { A = \"block\", B = \"block\", C = \"block\" }\n\
                 [[site]]\nhosts = \"*\"\n";
    let fields = |text: &str| {
        let config =
            read(&format!("{block}{text}\nproxy.to = \"o:1\"\n")).unwrap_or_else(|it| panic!("{it}"));
        let fields = &config.sites[0].routes[0].finish.fields;
        let all = fields.iter().map(|it| format!("{}={}", it.name, it.adds[0].text()));
        let mut all: Vec<_> = all.collect();
        all.sort();
        all.join(" ")
    };
    let own = "response_headers.set = { b = \"own\" }";
    let found = fields(&format!("[[site.route]]\nuse = [\"sec\"]\n{own}"));
    assert_eq!("A=block C=block b=own", found);
    let found =
        fields(&format!("use = [\"sec\"]\nresponse_headers.set = {{ A = \"site\" }}\n[[site.route]]\n{own}"));
    assert_eq!("A=site C=block b=own", found);
    let found = fields("use = [\"sec\"]\n[[site.route]]");
    assert_eq!("A=block B=block C=block", found);
}

/// The rules of a route about fields for the origin are added to those of its blocks, its site and the blocks of that; the nearest one
/// about a field is in force.
#[test]
fn fields_for_the_origin_are_added_up() {
    let text = |block: &str, site: &str, use_of: &str, route: &str| {
        format!(
            "[block.b]\nrequest_headers = {{ {block} }}\n[[site]]\nhosts = \"*\"\n{use_of}\n\
             request_headers = {{ {site} }}\n[[site.route]]\n{route}\nproxy.to = \":1\"\n"
        )
    };
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let config = read(text).unwrap_or_else(|it| panic!("{it}"));
        let (_, fields) = config.sites[0].routes[0].rewrite.fields.as_deref().unwrap();
        assert_eq!(expect, fields.describe());
    }
    let (by_block, by_site) =
        ("set = { A = \"b\", S = \"b\" }, remove = [\"X\", \"U\"]", "set = { S = \"s\" }, remove = [\"Y\"]");
    let by_route = |of: &str, rules: &str| format!("use = \"{of}\"\nrequest_headers = {{ {rules} }}");
    check(&text(by_block, by_site, "use = \"b\"", ""), "sets S, A; removes Y, X, U");
    check(
        &text(by_block, by_site, "use = \"b\"", "request_headers.set = { R = \"r\" }"),
        "sets S, A, R; removes Y, X, U",
    );
    check(
        &text(by_block, by_site, "use = \"b\"", "request_headers.remove = [\"Z\", \"a\"]"),
        "sets S; removes Y, X, U, Z, a",
    );
    check(&text(by_block, by_site, "", &by_route("b", "set = { u = \"r\" }")), "sets A, S, u; removes Y, X");
    check(
        &text(by_block, by_site, "", &by_route("b", "set = { Y = \"r\" }, remove = [\"S\"]")),
        "sets A, Y; removes X, U, S",
    );
}

/// It was reported for each route of the site.
#[test]
fn a_mistake_of_a_block_is_reported_once() {
    let route = |path: &str| format!("[[site.route]]\npath = \"{path}\"\nproxy.to = \":1\"\n");
    refuse_whole(
        &format!(
            "[block.abroad]\naccess.deny = \"country:DE\"\n[[site]]\nhosts = \"a\"\nuse = \"abroad\"\n{}{}",
            route("/a/*"),
            route("/*")
        ),
        "t.toml:2: site.route.access.deny: the country of a client is unknown without a database; add geoip.database = \"FILE.mmdb\"",
    );
}
