//! The requests of a route: patterns, methods, conditions and listeners, and the errors and warnings about them.

use super::*;

/// The warnings about routes, each of which is lines of TOML.
#[track_caller]
fn warnings(routes: &[&str]) -> Vec<String> {
    let mut text = "listen = [\"0.0.0.0:8080\", \"unix:/s\"]\n[[site]]\nhosts = [\"*\"]\n".to_owned();
    for it in routes {
        text.push_str(&format!("[[site.route]]\n{it}\nproxy = {{ to = \"a:1\" }}\n"));
    }
    let config = read(&text).unwrap_or_else(|it| panic!("{text}\n{it}"));
    config.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn conditions_and_listeners_are_read() {
    let config = read(&format!(
        "listen = [\"0.0.0.0:8080\", \"unix:/s\"]\n{SITE}when = 'method in [\"GET\", \"POST\"] && header.Accept ~ \"json\"'\nlisteners = [\"unix:/s\"]\n\
         [[site.route]]\nproxy = {{ to = \"a:1\" }}\n"
    ))
    .unwrap();
    let [first, second] = &config.sites[0].routes[..] else { panic!("two routes") };
    assert_eq!(
        "method in [\"GET\", \"POST\"] && header.Accept ~ \"json\"",
        first.when.as_ref().unwrap().text()
    );
    assert_eq!(vec!["unix:/s"], first.listeners);
    assert!(second.when.is_none() && second.listeners.is_empty());
    assert!(first.cache.key.condition.is_some() && second.cache.key.condition.is_none());
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_site_sets_the_listeners_of_its_routes() {
    let text = "listen = [\"0.0.0.0:8080\", \"unix:/s\"]\n[[site]]\nhosts = [\"*\"]\nlisteners = [\"unix:/s\"]\n\
                [[site.route]]\npath = \"/a\"\nlisteners = [\"0.0.0.0:8080\"]\nproxy = { to = \"a:1\" }\n[[site.route]]\nproxy = { to = \"a:1\" }\n";
    let config = read(text).unwrap();
    let found: Vec<_> = config.sites[0].routes.iter().map(|it| it.listeners.join(" ")).collect();
    assert_eq!(vec!["0.0.0.0:8080", "unix:/s"], found);
}

#[test]
fn errors_of_conditions_name_the_allowed_form() {
    let check = |line: &str, expect: &str| {
        let found = read(&format!("{SITE}{line}\n")).map(|_| ()).unwrap_err().to_string();
        assert!(found.starts_with(expect), "{line}: {found}");
    };
    check(
        "when = 'metod == \"GET\"'",
        "t.toml:6: site.route.when: found 'metod == \"GET\"'; allowed: a condition such as 'header.Accept ~ \"json\" && method != \"POST\"'; column 1: unknown name \"metod\"; did you mean method? expected method, scheme,",
    );
    check(
        "listeners = [\"0.0.0.0:81\"]",
        "t.toml:6: site.route.listeners: \"0.0.0.0:81\" is not one of listen; use ",
    );
    check("listeners = []", "t.toml:6: site.route.listeners: the list is empty, so the route never matches;");
    check("methods = []", "t.toml:6: site.route.methods: the list is empty, so the route never matches;");
    let path = |path: &str| {
        let text = SITE.replace("\"/*\"", &format!("'{path}'"));
        read(&text).map(|_| ()).unwrap_err().to_string()
    };
    let found = path("/shop/{id");
    assert!(found.ends_with("a \"{\" without \"}\"; a capture is written as in \"/shop/{id}\""), "{found}");
    assert!(found.starts_with("t.toml:4: site.route.path: found"), "{found}");
}

#[test]
fn conditions_that_are_never_true() {
    let check = |lines: &str, expect: Option<&str>| {
        let found = warnings(&[lines]);
        let expect: Vec<String> =
            expect.iter().map(|it| format!("t.toml:6: site.route.when: {it}")).collect();
        assert_eq!(expect, found, "{lines}");
    };
    let alone = Some("never true, so no request takes this route: its tests contradict one another");
    let here = Some(
        "never true for a request of this route, so no request takes this route: it contradicts the hosts, path, methods or listeners",
    );
    check("path = \"/a/*\"\nwhen = 'method == \"GET\" && method == \"POST\"'", alone);
    check("path = \"/a/*\"\nwhen = 'method in [\"GET\", \"PUT\"] && method != \"GET\"'", None);
    check("path = \"/a/*\"\nwhen = 'host == \"a\" && !(host ~ \"a\")'", alone);
    check("path = \"/a/*\"\nwhen = 'listener == \"x\"'", here);
    check("path = \"/a/*\"\nwhen = 'path == \"/b\"'", here);
    check("path = \"/a/*\"\nwhen = 'path == \"/a/b\"'", None);
    check("methods = [\"GET\"]\nwhen = 'method == \"POST\"'", here);
    check("methods = [\"GET\"]\nwhen = 'method == \"HEAD\"'", None);
    check("methods = [\"POST\"]\nwhen = 'method != \"POST\"'", here);
    check("listeners = [\"unix:/s\"]\nwhen = 'listener == \"0.0.0.0:8080\"'", here);
}

#[test]
fn routes_that_no_request_reaches() {
    let check = |first: &str, second: &str, reached: bool| {
        let mut found = warnings(&[first, second]);
        found.retain(|it| it.contains("never"));
        assert_eq!(reached, found.is_empty(), "{first} {second}: {found:?}");
    };
    check("path = \"*.php\"", "path = \"/a/*.php\"", false);
    check("path = \"/a/{id}\"", "path = \"/a/b\"", false);
    check("path = \"/a/{id}\"", "path = \"/a/b/c\"", true);
    check("path = 'regex:/a/.*'", "path = \"/a/{x}\"", false);
    check("path = 'regex:/a/.*'", "path = 'regex:/a/b.*'", false);
    check("path = 'regex:/a/.*'", "path = \"/b/{x}\"", true);
    check("path = \"/a\"\nwhen = 'method == \"GET\"'", "path = \"/a\"", true);
    check("path = \"/*\"\nwhen = 'method == \"GET\"'", "path = \"/a\"\nwhen = 'method == \"GET\"'", false);
    check("path = \"/*\"\nlisteners = [\"unix:/s\"]", "path = \"/a\"", true);
    check("path = \"/*\"\nlisteners = [\"unix:/s\"]", "path = \"/a\"\nlisteners = [\"unix:/s\"]", false);
    check("path = \"/*\"", "path = \"/a\"\nlisteners = [\"unix:/s\"]", false);
    check("path = \"/*\"\nmethods = [\"GET\"]", "path = \"/a\"\nmethods = [\"HEAD\"]", false);
    check("path = \"/*\"\nmethods = [\"GET\"]", "path = \"/a\"\nmethods = [\"HEAD\", \"PUT\"]", true);
}

#[test]
fn other_methods_that_get_past_access_rules_are_warned_of() {
    let found = |routes: &[&str]| {
        let all = warnings(routes).into_iter();
        all.filter(|it| it.contains("site.route.methods")).collect::<Vec<_>>()
    };
    let guarded = "path = \"/admin/*\"\nmethods = [\"GET\"]\naccess.allow = [\"10.0.0.0/8\"]";
    let expect = "t.toml:6: site.route.methods: requests with methods other than GET reach the route \"/*\" at t.toml:9 without \
                  access.allow; set the same rule there, or for the site";
    assert_eq!([expect], found(&[guarded, ""])[..]);
    let none: [&str; 0] = [];
    assert_eq!(none, found(&[guarded, "access.allow = [\"10.1.0.0/16\"]"])[..]);
    assert_eq!(none, found(&[guarded, "path = \"/shop/*\""])[..]);
    // The same paths end at a route with the rule.
    let rest = "path = \"/admin/*\"\naccess.allow = [\"10.0.0.0/8\"]";
    assert_eq!(none, found(&[guarded, rest, ""])[..]);
    // Intended: methods that are named, and protected writing.
    assert_eq!(none, found(&[guarded, "methods = [\"POST\"]"])[..]);
    assert_eq!(none, found(&[&guarded.replace("GET", "POST"), ""])[..]);
    // The files of a section with `php` are a route for GET, and its scripts, with the same rules, the rest.
    let php = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/a/*\"\naccess.allow = [\"10.0.0.0/8\"]\n\
               php = { root = \"src\", to = \"unix:/s\", front_controller = \"off\" }\n[[site.route]]\nproxy.to = \"a:1\"\n";
    let all = read(php).unwrap().warnings;
    assert!(!all.iter().any(|it| it.to_string().contains("site.route.methods")), "{all:?}");
}
