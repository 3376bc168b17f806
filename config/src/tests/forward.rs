//! `access.forward`: its settings, and its contradictions.

use super::*;
use crate::access::ForwardKey;
use larder_semantics::policy::{CredentialUse, IDENTITY};

/// A route with these keys in `access`.
fn route(access: &str) -> String {
    format!("listen = \"127.0.0.1:80\"\n{}access = {{ {access} }}\n", SITE.replace("\"/*\"", "\"/a/*\""))
}

fn forward(keys: &str) -> String {
    route(&format!("forward = {{ to = \"http://a:1\"{keys} }}"))
}

#[track_caller]
fn refuse_keys(text: &str, expect: &str) {
    refuse_whole(text, &format!("t.toml:7: site.route.access.{expect}"));
}

#[test]
fn the_settings_of_a_service() {
    let keys = ", path = \"/auth?x\", copy = [\"X-User\"], ttl = \"5s\", key = [\"cookie:s\", \"url\"]";
    let text = format!("{}cache = {{}}\n", forward(keys))
        .replace("a:1", "a:1/sso")
        .replace(" }\ncache", ", key = \"identity\" }\ncache");
    let config = read(&text).unwrap();
    let route = &config.sites[0].routes[0];
    let it = route.access.forward.as_ref().unwrap();
    assert_eq!("/sso/auth?x", it.target());
    assert_eq!((Duration::from_secs(5), Duration::from_secs(5)), (it.timeout, it.ttl));
    assert_eq!(vec![ForwardKey::Cookie("s".to_owned()), ForwardKey::Url], it.key);
    assert_eq!(CredentialUse::InKey, route.cache.credentials);
    assert_eq!(vec![IDENTITY, "x-user"], route.cache.key.headers);
    let private = read(&forward("")).unwrap();
    assert_eq!(CredentialUse::Private, private.sites[0].routes[0].cache.credentials);
}

#[test]
fn a_route_is_exempt_from_the_service_of_its_site() {
    let text = "[[site]]\nhosts = \"*\"\naccess = { forward = { to = \"http://a:1\", copy = [\"X-User\"] }, key = \"identity\" }\n\
                [[site.route]]\npath = \"/in\"\nproxy.to = \"http://b:1\"\naccess.inherit = false\n\
                [[site.route]]\nproxy.to = \"http://b:1\"\n";
    let config = read(text).unwrap();
    let [exempt, other] = &config.sites[0].routes[..] else { unreachable!() };
    assert_eq!((None, CredentialUse::None), (exempt.access.forward.clone(), exempt.cache.credentials));
    assert!(other.access.forward.is_some());
}

#[test]
fn contradictions_of_forward_auth_are_rejected() {
    refuse_keys(
        &route("forward = { path = \"/auth\" }"),
        "forward.path: path has no effect without a service; add access.forward.to, such as \"http://127.0.0.1:4180\"",
    );
    refuse_keys(
        &forward("").replace("a:1", "a:1 weight=2"),
        "forward.to: the service is one origin; remove \"weight\" and \"drain\"",
    );
    for to in ["fastcgi://a:1", "scgi://a:1", "uwsgi+unix:/run/auth.sock"] {
        let expect = format!(
            "forward.to: found \"{to}\"; the service is asked over HTTP: name its HTTP address, such as \"http://127.0.0.1:4180\""
        );
        refuse_keys(&forward("").replace("http://a:1", to), &expect);
    }
    let loops = "t.toml:4: site.route.access.forward.to: the service is an address of this larder's own listen, so every request \
                 would loop; set the address of the application, or change listen";
    refuse_whole(&forward("").replace("a:1", "127.0.0.1:80"), loops);
    let admin =
        format!("{}[admin]\nlisten = \"127.0.0.1:9180\"\n", forward("").replace("a:1", "127.0.0.1:9180"));
    let text = read(&admin).map(|_| ()).unwrap_err().to_string();
    assert!(
        text.starts_with("t.toml:4: site.route.access.forward.to: the service is the admin of this larder"),
        "{text}"
    );
    let copied = |name: &str, why: &str| {
        let expect = format!("forward.copy: {name} cannot be {why}");
        refuse_keys(&forward(&format!(", copy = [\"{name}\"]")), &expect);
    };
    copied("Host", "set or removed: set proxy.host instead");
    copied("Connection", "set or removed: it belongs to one connection");
    copied(
        "Cookie",
        "copied to requests: the cookies of a request are those of the client; use another field",
    );
    copied("X_User", "copied to requests: larder writes or drops it; use another field");
    copied("X-Forwarded-For", "copied to requests: larder writes or drops it; use another field");
    refuse_keys(
        &forward(", key = [\"client\"]"),
        "forward.key: no effect, since answers are not reused; set access.forward.ttl, such as \"10s\"",
    );
    refuse_keys(
        &forward(", ttl = \"1s\", key = [\"url\", \"method\"]"),
        "forward.key: an answer for one client would admit all others; add the part by which the service knows a client, such as \
         \"cookie:NAME\"",
    );
    refuse_keys(
        &forward(", key = [\"path\"]"),
        "forward.key: found [\"path\"]; allowed: \"method\", \"url\", \"client\", \"header:NAME\" or \"cookie:NAME\"",
    );
    for wrong in ["//evil/{url}", "{url}", "https://{url}", "/in?rd={path}", "ftp://a/", "/a b"] {
        refuse_keys(
            &forward(&format!(", redirect = \"{wrong}\"")),
            &format!(
                "forward.redirect: found \"{wrong}\", expected a path such as \"/oauth2/start?rd={{uri}}\", or a URL that begins \
                 with \"https://\" and a host; {{url}} and {{uri}} are the only variables"
            ),
        );
    }
    refuse_keys(
        &forward(", ca = \"ca.pem\""),
        "forward.ca: the service does not use TLS; write \"https://HOST\" in access.forward.to",
    );
    refuse_keys(
        &route("forward = { to = \"http://a:1\" }, key = \"identity\""),
        "key: the service of access.forward tells no identity; add the field with the name of the user to access.forward.copy, such \
         as [\"X-Auth-Request-User\"]",
    );
    for sound in ["/in", "/in?rd={url}", "/in?rd={uri}", "https://sso.test", "https://sso.test/in?rd={url}"] {
        read(&forward(&format!(", redirect = \"{sound}\""))).unwrap();
    }
}
