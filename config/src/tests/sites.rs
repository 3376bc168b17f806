//! Limits of routes, TLS rules of sites, and origins that are bound to clients: values, defaults and mistakes.

use super::*;
use larder_transport::tls::{ClientAuth, HandshakeRules, MinTlsVersion};
use std::time::Duration;

fn proxied(more: &str) -> String {
    format!("[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy = {{ to = [\"b:1\"], {more} }}")
}

#[test]
fn limits_of_a_route_go_before_those_of_its_site_and_the_server() {
    let text = "[limits]\nbody_size = \"1KiB\"\nwrite_timeout = \"7s\"\nmin_rate = \"9B\"\n[[site]]\nhosts = \"a\"\nbody_size = \"2KiB\"\n\
                [[site.route]]\npath = \"/a\"\nbody_size = \"3KiB\"\nproxy.to = \"b:1\"\n\
                [[site.route]]\nbody_timeout = \"2s\"\nproxy.to = \"b:1\"\n[[site]]\nhosts = \"b\"\n[[site.route]]\nproxy.to = \"b:1\"\n";
    let config = read(text).unwrap();
    let limits: Vec<_> = config.sites.iter().flat_map(|it| &it.routes).map(|it| it.limits).collect();
    assert_eq!([3072, 2048, 1024], [0, 1, 2].map(|it: usize| limits[it].body_size));
    assert_eq!(3072, config.limits_of_clients().body_size, "the transport bounds by the largest");
    assert_eq!([None, None], [limits[0].transfer, limits[2].transfer]);
    let own = limits[1].transfer.unwrap();
    let expect = (Duration::from_secs(2), Duration::from_secs(7), 9);
    assert_eq!(expect, (own.body_timeout, own.write_timeout, own.min_rate));
}

#[test]
fn mistakes_in_a_sticky_cookie() {
    refuse_whole(
        &proxied("sticky = { ttl = \"1h\" }"),
        "t.toml:4: site.route.proxy.sticky.ttl: no effect without a name; set it, such as cookie = \"larder-origin\"",
    );
    refuse_whole(
        &proxied("sticky = { cookie = \"at\", same_site = \"none\", secure = false }"),
        "t.toml:4: site.route.proxy.sticky.secure: browsers reject a cookie with same_site = \"none\" that is not secure; set secure = true",
    );
    refuse_whole(
        &proxied("sticky = { cookie = \"__Host-at\", path = \"/b\", secure = true }"),
        "t.toml:4: site.route.proxy.sticky.cookie: browsers accept \"__Host-at\" only with secure = true and path = \"/\"; set that, or \
         choose a name without the prefix",
    );
    refuse_whole(
        &proxied("sticky = { cookie = \"at\", ttl = \"0s\" }"),
        "t.toml:4: site.route.proxy.sticky.ttl: browsers delete a cookie whose lifetime is 0s; set a longer one, or remove the key",
    );
    assert!(read(&proxied("sticky = { cookie = \"__Secure-at\", secure = true }")).is_ok());
    assert!(read(&proxied("sticky = { cookie = \"é\" }")).is_err());
}

#[test]
fn rules_of_handshakes_are_those_of_the_site_and_otherwise_all() {
    let text = "tls.min_version = \"1.3\"\n[[site]]\nhosts = \"a\"\ntls.min_version = \"1.2\"\n[[site.route]]\nproxy.to = \"b:1\"\n\
                [[site]]\nhosts = \"b\"\n[[site.route]]\nproxy.to = \"b:1\"\n";
    let config = read(text).unwrap();
    let rules = |least| Some(HandshakeRules { min_version: least, client: ClientAuth::Off });
    assert_eq!(rules(MinTlsVersion::Tls12), config.sites[0].tls);
    assert!(config.sites[1].tls.is_some(), "all have rules where one has");
    assert!(config.warnings.iter().any(|it| it.text.contains("no address of listen uses TLS")));
    let plain = read(&text.replacen("tls.min_version = \"1.2\"\n", "", 1)).unwrap();
    assert_eq!([None, None], [0, 1].map(|it: usize| plain.sites[it].tls.clone()));
    let site =
        |tls: &str| format!("[[site]]\nhosts = \"a\"\ntls = {{ {tls} }}\n[[site.route]]\nproxy.to = \"b:1\"");
    refuse_whole(
        &site("client_auth = \"required\""),
        "t.toml:3: site.tls.client_auth: client certificates are requested; set the CA that signs them with client_ca",
    );
    let missing =
        read(&site("client_auth = \"optional\", client_ca = \"none.pem\"")).unwrap_err().to_string();
    assert!(missing.contains("t.toml:3: site.tls.client_ca: ") && missing.contains("none.pem"), "{missing}");
}

#[test]
fn mistakes_about_files_that_an_application_hands_over() {
    refuse_whole(
        &proxied("eject_after = 3 }\nsendfile = { prefix = \"/p/\""),
        "t.toml:5: site.route.sendfile.prefix: no effect without a directory; set it, such as root = \"/srv/private\"",
    );
    let absent =
        read(&proxied("eject_after = 3 }\nsendfile = { root = \"no-such\"")).unwrap_err().to_string();
    assert!(
        absent.starts_with("t.toml:5: site.route.sendfile.root: ")
            && absent.ends_with("use an existing directory"),
        "{absent}"
    );
    refuse_whole(
        &proxied("eject_after = 3 }\nsendfile = { root = \"src\", prefix = \"/a/../b\""),
        "t.toml:5: site.route.sendfile.prefix: found \"/a/../b\"; allowed: a path such as \"/api\", without \"//\", \".\", \"..\", \"?\", \
         \"#\" and wildcards",
    );
    refuse_whole(
        "[[site]]\nhosts = \"a\"\n[[site.route]]\nfiles = { root = \"src\" }\nsendfile = { root = \"src\" }",
        "t.toml:5: site.route.sendfile.root: no effect: only a route with an origin (proxy.to, php.to) has an application that hands \
         files over; remove it",
    );
    assert!(read(&proxied("eject_after = 3 }\nsendfile = { root = \"src\", prefix = \"/p/\"")).is_ok());
}

#[test]
fn settings_that_nothing_uses() {
    let compress = |more: &str| format!("{}\ncache.compress = {{ {more} }}", proxied("eject_after = 3"));
    let warned = |text: &str| read(text).unwrap().warnings.first().map(ToString::to_string);
    let text = "t.toml:5: site.route.cache.compress.uncached: no effect: cache.compress.enabled is false; set it to true, or remove this key";
    assert_eq!(Some(text.to_owned()), warned(&compress("uncached = true")));
    for more in ["uncached = false", "uncached = true, enabled = true"] {
        assert_eq!(None, warned(&compress(more)), "{more}");
    }
    let application =
        "[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy.to = \"scgi://b:1\"\nupgrade = \"websocket\"";
    refuse_whole(
        application,
        "t.toml:5: site.route.upgrade: scgi://b:1 uses scgi, which has no upgrades; use an http:// origin for them, or remove this key",
    );
}

/// A name and a password in the address of an origin are rejected, and shown nowhere.
#[test]
fn origins_have_no_users() {
    for to in ["http://user:secret@b:1", "https://secret@b", "fastcgi://user:secret@b:1"] {
        let text = format!("[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy.to = \"{to}\"");
        let report = read(&text).unwrap_err().to_string();
        assert!(!report.contains("user:secret"), "{to}: {report}");
    }
}
