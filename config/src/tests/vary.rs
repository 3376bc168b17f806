//! `Vary` of the choice of a route: every field on which the choice for a path depends, compared with a model that tries all requests.

use super::*;
use larder_semantics::field::Field;
use larder_semantics::path::Decode;
use larder_semantics::request_view::RequestView;
use proptest::prelude::*;

const PATHS: [&str; 8] =
    ["/*", "/api/*", "/api", "/api/v1/*", "/shop/{id}", "*.css", "/a.css", "regex:/[as]/x"];
const TARGETS: [&str; 9] =
    ["/", "/api", "/api/", "/api/v1/x?y", "/shop/7", "/a.css", "/shop/a.css", "/a/x", "/api/../a.css"];
const NAMES: [&str; 4] = ["X-A", "X-B", "X-C", "X-D"];

fn site(routes: &[(usize, u8)]) -> SiteConfig {
    let mut text = "[[site]]\nhosts = \"*\"\n".to_owned();
    for (path, reads) in routes {
        let reads = NAMES.iter().enumerate().filter(|it| reads >> it.0 & 1 == 1);
        let when: Vec<String> = reads.map(|it| format!("header[\"{}\"] == \"1\"", it.1)).collect();
        let when = if when.is_empty() { String::new() } else { format!("when = '{}'\n", when.join(" && ")) };
        text += &format!("[[site.route]]\npath = {:?}\n{when}respond.body = \"x\"\n", PATHS[*path]);
    }
    read(&text).unwrap().sites.remove(0)
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
        let site = site(&routes);
        let path = match target { "/api/../a.css" => "/a.css", it => it.split('?').next().unwrap() };
        for one in 0..16 {
            let found = chosen(&site, path, one);
            let varies = site.varies(found);
            let names = varies.names(varies.case(target));
            let named = NAMES.iter().enumerate().filter(|it| names.iter().any(|name| name == it.1));
            let named: u8 = named.map(|it| 1 << it.0).sum();
            for other in (0..16).filter(|it| (one ^ it) & named == 0) {
                prop_assert_eq!(found, chosen(&site, path, other), "{} {:?}", target, names);
            }
            // Up to the bound of groups, none is needless.
            let before = 0..found.map_or(routes.len(), |it| it + 1);
            let read = before.filter(|it| is_for_path(&site, *it, path)).fold(0, |all, it| all | routes[it].1);
            let is_exact = routes.len() <= 3 && target == path && !routes.iter().any(|it| it.0 == 1);
            prop_assert!(!is_exact || named == read, "{} {:?} of {:?}", target, names, read);
        }
    }
}

#[test]
fn a_condition_on_some_paths_splits_no_other_path() {
    let site = site(&[(1, 1), (4, 2), (0, 0)]);
    let varies = site.varies(Some(2));
    let at = |target: &str| varies.names(varies.case(target)).join(", ");
    assert_eq!("", at("/other"));
    assert_eq!("X-A", at("/api/x?/shop/7"));
    assert_eq!("X-A", at("/api"));
    assert_eq!("X-B", at("/shop/7"));
    assert_eq!("X-A, X-B", at("/shop/../other"), "an ambiguous path");
}
