//! `Vary` of the choice of a route: every field on which the choice for a path depends, compared with a model that tries all requests.

use super::*;
use crate::client_fact::ClientFact;
use larder_semantics::field::Field;
use larder_semantics::path::Decode;
use larder_semantics::request_view::RequestView;
use proptest::prelude::*;

const PATHS: [&str; 8] =
    ["/*", "/api/*", "/api", "/api/v1/*", "/shop/{id}", "*.css", "/a.css", "regex:/[as]/x"];
const TARGETS: [&str; 9] =
    ["/", "/api", "/api/", "/api/v1/x?y", "/shop/7", "/a.css", "/shop/a.css", "/a/x", "/api/../a.css"];
const NAMES: [&str; 4] = ["X-A", "X-B", "X-C", "X-D"];

fn config(routes: &[(usize, u8)]) -> Config {
    let mut text = "[[site]]\nhosts = \"*\"\n".to_owned();
    for (path, reads) in routes {
        let reads = NAMES.iter().enumerate().filter(|it| reads >> it.0 & 1 == 1);
        let when: Vec<String> = reads.map(|it| format!("header[\"{}\"] == \"1\"", it.1)).collect();
        let when = if when.is_empty() { String::new() } else { format!("when = '{}'\n", when.join(" && ")) };
        text += &format!("[[site.route]]\npath = {:?}\n{when}respond.body = \"x\"\n", PATHS[*path]);
    }
    read(&text).unwrap()
}

fn is_for_path(site: &SiteConfig, at: usize, path: &str) -> bool {
    let pattern = &site.routes[at].path;
    let is_own = |of: &str| site.routes.iter().any(|it| it.path.text() == of);
    let takes_directory = pattern.directory().is_some_and(|it| !is_own(it));
    pattern.matches(path.as_bytes()) || takes_directory && pattern.is_directory(path.as_bytes(), Decode::All)
}

/// The route of a request with the fields of these bits.
fn chosen(site: &SiteConfig, path: &str, bits: u8) -> Option<usize> {
    let set = NAMES.iter().enumerate().filter(|it| bits >> it.0 & 1 == 1);
    let fields: Vec<Field<'_>> = set.map(|it| Field { name: it.1, value: b"1" }).collect();
    let view = RequestView { path: path.as_bytes(), fields: &fields, ..RequestView::default() };
    let holds = |it: &RouteConfig| it.when.as_ref().is_none_or(|it| it.holds(&view));
    (0..site.routes.len()).find(|at| is_for_path(site, *at, path) && holds(&site.routes[*at]))
}

proptest! {
    #[test]
    fn requests_that_agree_in_the_named_fields_have_one_route(
        routes in prop::collection::vec((0..PATHS.len(), prop_oneof![Just(0u8), 1u8..16]), 1..7),
        target in prop::sample::select(&TARGETS[..]),
    ) {
        let config = config(&routes);
        let site = &config.sites[0];
        let path = match target { "/api/../a.css" => "/a.css", it => it.split('?').next().unwrap() };
        for one in 0..16 {
            let found = chosen(site, path, one);
            let varies = config.varies(site, found);
            let names = varies.names(varies.case(target));
            let named = NAMES.iter().enumerate().filter(|it| names.iter().any(|name| name == it.1));
            let named: u8 = named.map(|it| 1 << it.0).sum();
            for other in (0..16).filter(|it| (one ^ it) & named == 0) {
                prop_assert_eq!(found, chosen(site, path, other), "{} {:?}", target, names);
            }
            // Up to the bound of groups, none is needless.
            let before = 0..found.map_or(routes.len(), |it| it + 1);
            let read = before.filter(|it| is_for_path(site, *it, path)).fold(0, |all, it| all | routes[it].1);
            let is_exact = routes.len() <= 3 && target == path && !routes.iter().any(|it| it.0 == 1);
            prop_assert!(!is_exact || named == read, "{} {:?} of {:?}", target, names, read);
        }
    }
}

#[test]
fn a_condition_on_some_paths_splits_no_other_path() {
    let config = config(&[(1, 1), (4, 2), (0, 0)]);
    let varies = config.varies(&config.sites[0], Some(2));
    let at = |target: &str| varies.names(varies.case(target)).join(", ");
    assert_eq!("", at("/other"));
    assert_eq!("X-A", at("/api/x?/shop/7"));
    assert_eq!("X-A", at("/api"));
    assert_eq!("X-B", at("/shop/7"));
    assert_eq!("X-A, X-B", at("/shop/../other"), "an ambiguous path");
}

/// The fact that makes the responses of the last route of a site private to a target.
fn private_by(text: &str, target: &str) -> Option<ClientFact> {
    let config = read(text).unwrap();
    let site = &config.sites[0];
    let last = site.routes.len() - 1;
    let varies = config.varies(site, Some(last));
    site.routes[last].finish.made_private_by(varies.fact(varies.case(target)))
}

const OWN: &str = "proxy.to = \"127.0.0.1:9\"\n";

#[track_caller]
fn check_fact(settings: &str, expected: Option<ClientFact>) {
    let text = format!("[[site]]\nhosts = \"*\"\n[[site.route]]\n{OWN}{settings}\n");
    assert_eq!(expected, private_by(&text, "/"), "{settings}");
}

#[test]
fn facts_of_the_client_make_responses_private() {
    use ClientFact::{Addresses, Admission, Condition, Credentials, Listener, Text};
    let jwt = "access.jwt = { secret = \"0123456789012345678901234567890123456789\", issuer = \"i\" }\n";
    check_fact("", None);
    check_fact(jwt, Some(Credentials));
    check_fact(&format!("{jwt}access.key = \"identity\""), Some(Credentials));
    check_fact(&format!("{jwt}access.key = \"identity\"\nclient_ttl = \"1m\""), Some(Credentials));
    check_fact(&format!("{jwt}access.shared = true"), None);
    check_fact(&format!("{jwt}response_headers.set = {{ cache-control = \"public\" }}"), None);
    check_fact(&format!("{jwt}response_headers.add = {{ cache-control = \"public\" }}"), Some(Credentials));
    check_fact("access.allow = [\"10.0.0.0/8\"]", Some(Addresses));
    check_fact("access.deny = [\"10.0.0.0/8\"]", Some(Addresses));
    check_fact("access.allow = [\"10.0.0.0/8\"]\naccess.shared = true", None);
    check_fact("access.allow = [\"10.0.0.0/8\"]\nclient_ttl = \"1m\"", None);
    check_fact("access.allow_when = 'client in \"10.0.0.0/8\"'", Some(Admission));
    check_fact("access.allow_when = 'header.X == \"1\"'", None);
    check_fact("when = 'client == \"10.0.0.7\"'\nclient_ttl = \"1m\"", Some(Condition));
    check_fact("when = 'listener ~ \"x\"'", Some(Condition));
    check_fact("when = 'path == \"/\"'", None);
    check_fact("response_headers.set = { X = \"{client}\" }", Some(Text));
    check_fact("response_headers.set = { X = \"{request_id}\" }", None);
    let listen = |other: &str, these: &str| {
        let text = format!(
            "listen = [\"http://127.0.0.1:80\", \"{other}\"]\ntls.self_signed = true\n[[site]]\nhosts = \"*\"\n[[site.route]]\nlisteners = [\"{these}\"]\n{OWN}\
             [[site.route]]\n{OWN}"
        );
        private_by(&text, "/")
    };
    assert_eq!(Some(Listener), listen("http://127.0.0.1:81", "http://127.0.0.1:80"));
    assert_eq!(Some(Listener), listen("unix:/x", "http://127.0.0.1:80"));
    assert_eq!(None, listen("https://127.0.0.1:443", "http://127.0.0.1:80"), "the scheme is part of the URL");
}

#[test]
fn an_earlier_route_for_some_clients_makes_its_own_paths_private() {
    let text = format!(
        "[[site]]\nhosts = \"*\"\n[[site.route]]\npath = \"/office/*\"\nwhen = 'client in \"10.0.0.0/8\"'\n{OWN}\
         [[site.route]]\npath = \"/x\"\nmethods = [\"POST\"]\nwhen = 'client in \"10.0.0.0/8\"'\n{OWN}[[site.route]]\n{OWN}"
    );
    assert_eq!(Some(ClientFact::Condition), private_by(&text, "/office/a"));
    assert_eq!(Some(ClientFact::Condition), private_by(&text, "/office/../a"), "an ambiguous path");
    assert_eq!(None, private_by(&text, "/"));
    assert_eq!(None, private_by(&text, "/x"));
}

#[test]
fn vary_names_the_fields_of_access_conditions() {
    let names = |settings: &str| {
        let text = format!("[[site]]\nhosts = \"*\"\n[[site.route]]\n{OWN}{settings}\n");
        let config = read(&text).unwrap();
        config.varies(&config.sites[0], Some(0)).names(0).join(", ")
    };
    let access = "access = { allow_when = 'header.X-Key == \"a\"', deny_when = 'cookie.role == \"guest\"'";
    assert_eq!("X-Key, Cookie", names(&format!("{access} }}")));
    assert_eq!("", names(&format!("{access}, shared = true }}")));
}

#[test]
fn an_access_rule_that_makes_vary_split_a_cache_in_front_is_warned_of() {
    let warnings = |settings: &str| -> Vec<String> {
        let config = read(&format!("[[site]]\nhosts = \"*\"\n[[site.route]]\n{OWN}{settings}\n")).unwrap();
        config.warnings.iter().map(ToString::to_string).filter(|it| it.contains("Vary")).collect()
    };
    let bots = "access.deny_when = 'header.user-agent ~ \"(?i)bot\"'";
    let expect = "t.toml:5: site.route.access.deny_when: every response has Vary: User-Agent, so that a cache in front stores a copy for \
                  each value; set access.shared = true if such a cache may give a stored response to a client that this rule refuses";
    assert_eq!(vec![expect], warnings(bots));
    let none = Vec::<String>::new();
    assert_eq!(none, warnings(&format!("{bots}\naccess.shared = true")));
    assert_eq!(none, warnings(&format!("{bots}\naccess.allow = [\"10.0.0.0/8\"]")), "private in any case");
    assert_eq!(none, warnings("access.deny_when = 'header.X-Key == \"a\"'"));
}
