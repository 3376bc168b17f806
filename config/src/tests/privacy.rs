//! The warning of a lifetime that shares session pages.

use super::*;

/// The warnings of a route `path` with these cache settings.
fn warnings(path: &str, cache: &str, all: &str) -> Vec<String> {
    let site = SITE.replace("\"/*\"", &format!("{path:?}"));
    let config = read(&format!("{all}\n{site}cache = {{ {cache} }}\n")).unwrap();
    config.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_lifetime_for_a_whole_site_without_private_cookies_is_a_warning() {
    let text = |name: &str| {
        format!(
            "{name} shares responses that say nothing of caching among all visitors, session pages included; name the \
             session cookies in private_cookies, or set private_cookies = [] if the route has none"
        )
    };
    for name in ["default_ttl", "override_ttl"] {
        let expect = format!("t.toml:7: cache.{name}: {}", text(name));
        assert_eq!(vec![expect], warnings("/*", &format!("{name} = \"60s\""), ""));
        let expect = format!("t.toml:7: cache.{name}: {}", text(name));
        assert_eq!(vec![expect], warnings("/v1/*", &format!("{name} = \"60s\""), ""), "any path");
        let expect = format!("t.toml:1: cache.{name}: {}", text(name));
        assert_eq!(
            vec![expect],
            warnings("/*", "", &format!("cache.{name} = \"60s\"")),
            "once for all routes"
        );
    }
    for (path, cache, all) in [
        ("/*", "", ""),
        ("/*", "default_ttl = \"off\"", ""),
        ("/*", "default_ttl = \"60s\", private_cookies = [\"session*\"]", ""),
        ("/*", "default_ttl = \"60s\", private_cookies = []", ""),
        ("/*", "default_ttl = \"60s\"", "cache.private_cookies = [\"sid\"]"),
        ("/*", "default_ttl = \"60s\", preset = \"django\"", ""),
        ("/*", "preset = \"wordpress\"", ""),
        ("/*", "default_ttl = \"60s\", enabled = false", ""),
        ("/v1/*", "default_ttl = \"60s\", key.cookies = [\"session\"]", ""),
        ("/v1/*", "preset = \"php\", default_ttl = \"60s\"", ""),
    ] {
        assert_eq!(Vec::<String>::new(), warnings(path, cache, all), "{path} {cache} {all}");
    }
}

#[test]
fn credentials_that_keep_responses_apart_need_no_list_of_cookies() {
    let with = |access: &str| {
        let user = "users = [\"a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\"]";
        let text = format!(
            "listen = \"https://:443\"\ntls.self_signed = true\n{SITE}cache.default_ttl = \"60s\"\naccess = {{ basic = {{ {user} }}{access} }}\n"
        );
        read(&text).unwrap().warnings.len()
    };
    assert_eq!(0, with(""), "a route with credentials does not use the cache");
    assert_eq!(0, with(", key = \"identity\""));
    assert_eq!(1, with(", shared = true"));
}

#[test]
fn ignored_cookies_need_private_ones() {
    let expect = "t.toml:7: cache.ignored_cookies: no effect without private_cookies; add private_cookies = [\"*\"] to make \
                  every other cookie private";
    assert_eq!(vec![expect.to_owned()], warnings("/*", "ignored_cookies = [\"_ga*\"]", ""));
    for (cache, all) in [
        ("ignored_cookies = [\"_ga*\"], private_cookies = [\"*\"]", ""),
        ("ignored_cookies = [\"_ga*\"], preset = \"node\"", ""),
        ("ignored_cookies = []", ""),
        ("preset = \"node\", private_cookies = []", ""),
        ("ignored_cookies = [\"_ga*\"]", "cache.private_cookies = [\"sid\"]"),
        ("ignored_cookies = [\"_ga*\"], enabled = false", ""),
    ] {
        assert_eq!(Vec::<String>::new(), warnings("/*", cache, all), "{cache} {all}");
    }
}
