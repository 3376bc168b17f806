//! Several limits of a route: `access.limits`.

use super::*;

fn file(site: &str, route: &str) -> String {
    format!(
        "[[site]]\nhosts = \"a\"\n{site}\n[[site.route]]\npath = \"/login\"\nproxy.to = \":1\"\n{route}\n"
    )
}

/// The limits of the route, each with its scope.
#[track_caller]
fn limits(site: &str, route: &str) -> Vec<String> {
    let config = read(&file(site, route)).unwrap_or_else(|it| panic!("{it}"));
    let all = &config.sites[0].routes[0].access.limits;
    all.iter().map(|it| format!("{}: {}", it.scope, it.describe())).collect()
}

#[test]
fn a_route_has_several_limits() {
    let both = "access.limit = { rate = \"5/s\", burst = 20 }\n[[site.route.access.limits]]\nrate = \"100/h\"\n\
                [[site.route.access.limits]]\nrate = \"1000/d\"\nby = \"header:X-Api-Key\"\nconcurrency = 3";
    let expect = [
        "a/login: 5/s with burst 20 by client",
        "a/login: 100/h by client",
        "a/login: 1000/d and 3 in progress by header:x-api-key",
    ];
    assert_eq!(expect, limits("", both)[..]);
    assert_eq!(["a/login: 100/h by client"], limits("", "access.limits = [{ rate = \"100/h\" }]")[..]);
}

#[test]
fn the_list_of_a_route_replaces_that_of_its_site() {
    let site = "access = { limit.rate = \"5/s\", limits = [{ rate = \"100/h\" }, { rate = \"9/d\" }] }";
    let own = "access.limits = [{ rate = \"7/m\" }]";
    assert_eq!(
        ["site a: 5/s by client", "site a: 100/h by client", "site a: 9/d by client"],
        limits(site, "")[..]
    );
    assert_eq!(["site a: 5/s by client", "a/login: 7/m by client"], limits(site, own)[..]);
    assert_eq!(
        ["a/login: 5/s with burst 2 by client", "site a: 100/h by client", "site a: 9/d by client"],
        limits(site, "access.limit.burst = 2")[..]
    );
    assert!(limits(site, "access.inherit = false").is_empty());
    assert_eq!(["a/login: 7/m by client"], limits(site, &format!("{own}\naccess.inherit = false"))[..]);
    let block = "[block.api]\naccess.limits = [{ rate = \"8/m\" }]\n";
    let of_block = |route: &str| {
        let text = format!("{block}{}", file("", route));
        read(&text).unwrap().sites[0].routes[0].access.limits[0].describe()
    };
    assert_eq!("8/m by client", of_block("use = \"api\""));
    assert_eq!("7/m by client", of_block(&format!("use = \"api\"\n{own}")));
}

#[test]
fn mistakes_in_limits() {
    #[track_caller]
    fn check(limits: &str, line: u32, expect: &str) {
        let found = read(&file("", limits)).err().unwrap_or_else(|| panic!("{limits}"));
        let found: Vec<_> = found.0.iter().map(ToString::to_string).collect();
        assert_eq!([format!("t.toml:{line}: site.route.access.{expect}")], found[..], "{limits}");
    }
    let none = "the limit has no bound; add rate, such as \"100/h\", or concurrency";
    check("[[site.route.access.limits]]", 7, &format!("limits: {none}"));
    check("access.limits = [{ rate = \"5/s\" }, {}]", 7, &format!("limits: {none}"));
    let burst = "burst has no effect without a rate; add rate, such as \"5/s\"";
    check("access.limits = [{ burst = 3 }]", 7, &format!("limits: {burst}"));
    let twice = "the limit 5/s by client is there already; remove one of them";
    check(
        "access.limit.rate = \"5/s\"\naccess.limits = [{ rate = \"5/s\" }]",
        8,
        &format!("limits: {twice}"),
    );
    let most = "a route has at most 4 limits, access.limit included; remove this one";
    let five = ["1/s", "2/s", "3/s", "4/s", "5/s"].map(|it| format!("{{ rate = \"{it}\" }}")).join(", ");
    check(&format!("access.limits = [{five}]"), 7, &format!("limits: {most}"));
    let rate = "limits.rate: found \"5\"";
    let found = read(&file("", "access.limits = [{ rate = \"5\" }]")).unwrap_err();
    assert!(found.0.len() == 1 && found.to_string().contains(rate), "{found}");
    let list = "limit: expected a section, [site.route.access.limit]; found a list of sections; further ones are \
                [[site.route.access.limits]]";
    check("[[site.route.access.limit]]\nrate = \"5/s\"", 7, list);
    let empty = "limits: the list is empty; add a section, or remove the key";
    check("access.limits = []\naccess.deny = \"10.0.0.1\"", 7, empty);
}

/// 100 requests an hour without a burst are one in 36 seconds: 5 a second then never decide.
#[test]
fn a_limit_without_effect_is_named() {
    let warned = |limits: &str| {
        let config = read(&file("", limits).replace("\"/login\"", "\"/*\"")).unwrap();
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let limit = "access.limit = { rate = \"5/s\", burst = 20 }\n";
    let of = |more: &str| format!("{limit}[[site.route.access.limits]]\nrate = \"100/h\"\n{more}");
    let text = "t.toml:7: site.route.access.limit: no effect: the limit 100/h by client admits fewer requests, and no more at once; add burst = 99 \
                to that one, or remove this one";
    assert_eq!([text], warned(&of(""))[..]);
    assert!(warned(&of("burst = 99")).is_empty());
    assert!(warned(&of("by = \"network\"")).is_empty());
}

#[test]
fn a_limit_that_a_slash_gets_past_is_named() {
    let rest = "[[site.route]]\npath = \"/*\"\nproxy.to = \":1\"\n";
    let text = file("", "access.limits = [{ rate = \"5/m\" }]") + rest;
    let config = read(&text).unwrap();
    let found: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|it| it.contains("without access.limits")), "{found:?}");
}
