//! Signed URLs before a route: a changed one is refused, and neither the cache nor the origin learns of the signature.

use super::access::larder;
use super::access_jwt::{SECRET, token};
use crate::harness::http2::Http2;
use crate::harness::{Client, Larder, Origin, begun, until};
use larder_wire::signed_url::{SignOptions, SignedNames, sign};
use serde_json::json;
use std::net::Ipv4Addr;

/// A larder with one signed route, with more keys in `access`.
fn guarded(origin: &Origin, access: &str) -> Larder {
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ signed = {{ secret = [\"{}\", \"{SECRET}\"] }}{access} }}\n",
        "a new secret, which signs already."
    );
    larder(origin, &site)
}

/// A page that names the target that the origin got.
fn targets() -> Origin {
    Origin::new(|it| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", it.target()))
}

/// The target, signed for the host `h` until `seconds` after the start.
fn until_second(target: &str, seconds: u64) -> String {
    let options = SignOptions { expires: begun() + seconds, ..SignOptions::default() };
    sign("h", target, &SignedNames::after(""), SECRET.as_bytes(), &options).unwrap()
}

#[test]
fn signatures_of_one_page_share_its_entry() {
    let origin = targets();
    let larder = guarded(&origin, "");
    let (first, second) = (until_second("/a?b=c", 60), until_second("/a?b=c", 600));
    assert_ne!(first, second);
    assert_eq!("/a?b=c", larder.get(&first).text());
    let hit = larder.get(&second);
    assert_eq!((true, "/a?b=c".to_owned()), (hit.is_hit(), hit.text()));
    assert_eq!("/a?b=c", Http2::connect(&larder).get(&second).text());
    assert_eq!(200, larder.client().request("HEAD", &second, "", "").status);
    assert_eq!(1, origin.requests());
    // A hit is refused as a miss is.
    larder.advance(60);
    until("the first has expired", || larder.get(&first).status == 403);
    let refused = larder.get(&first);
    assert_eq!(Some("no-store"), refused.field("cache-control"));
    assert!(refused.text().contains("The link has expired."));
    assert_eq!(403, Http2::connect(&larder).get(&first).status);
    assert!(larder.get(&second).is_hit());
    assert_eq!(1, origin.requests());
    let objects = larder.admin_get("/api/v1/objects").text();
    assert!(objects.contains("/a?b=c") && !objects.contains("signature"), "{objects}");
}

#[test]
fn a_changed_url_is_refused_on_misses_and_hits() {
    let origin = targets();
    let larder = guarded(&origin, "");
    let whole = until_second("/a/b?c=d", 600);
    let (path, query) = whole.split_once('?').unwrap();
    let refused = || {
        let changed = [
            path.to_owned(),
            format!("{path}?c=d"),
            format!("/a/c?{query}"),
            format!("/x/../a/b?{query}"),
            format!("//a/b?{query}"),
            format!("/a/%62?{query}"),
            format!("/a%2fb?{query}"),
            format!("{whole}&e"),
            format!("{whole}&signature=x"),
            format!("{whole}&%73ignature=x"),
            format!("{whole}&expires=9999999999"),
            format!("{whole}&prefix=/"),
            format!("{whole}&ip=127.0.0.1"),
            whole.replace("c=d", "c=e"),
            whole.replace("expires=", "expires=9"),
            whole[..whole.len() - 1].to_owned(),
            format!("{whole}="),
        ];
        for it in &changed {
            let answer = larder.get(it);
            assert_eq!((403, Some("no-store")), (answer.status, answer.field("cache-control")), "{it}");
            assert!(answer.text().contains("The link is not valid."), "{it}");
            assert_eq!(403, Http2::connect(&larder).get(it).status, "{it}");
        }
        for method in ["POST", "PUT", "PURGE", "OPTIONS"] {
            assert_eq!(403, larder.client().request(method, &whole, "", "").status, "{method}");
        }
        let mut other = larder.client();
        other.send(format!("GET {whole} HTTP/1.1\r\nHost: other.example.com\r\n\r\n"));
        assert_eq!(403, other.read().status);
        let mut port = larder.client();
        port.send(format!("GET {whole} HTTP/1.1\r\nHost: H:8080\r\n\r\n"));
        port.read().status
    };
    assert_eq!(200, refused());
    assert_eq!(1, origin.requests());
    until("it is stored", || larder.get(&whole).is_hit());
    assert_eq!(200, refused());
    assert_eq!(2, origin.requests(), "the host with its port has another key");
}

#[test]
fn a_prefix_and_a_network() {
    let origin = targets();
    let larder = guarded(&origin, "");
    let options = SignOptions { expires: begun() + 60, prefix: Some("/video/42/"), ip: Some("127.0.0.0/31") };
    let signed = sign("h", "/video/42/a", &SignedNames::after(""), SECRET.as_bytes(), &options).unwrap();
    let query = signed.split_once('?').unwrap().1;
    for path in ["/video/42/a", "/video/42/b/c"] {
        assert_eq!(path, larder.get(&format!("{path}?{query}")).text());
    }
    assert_eq!("/video/42/a?t=1", larder.get(&format!("/video/42/a?t=1&{query}")).text());
    for path in [
        "/video/43/a",
        "/video/42",
        "/video/42/../43/a",
        "/video/42/..%2f43/a",
        "/video/42/..;/43/a",
        "/video/42/%2e%2e/43/a",
    ] {
        assert_eq!(403, larder.get(&format!("{path}?{query}")).status, "{path}");
    }
    let mut far = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!(403, far.get(&signed).status, "also on a hit");
    assert_eq!(403, larder.get(&signed.replace("/31", "/8")).status);
    assert!(larder.get(&signed).is_hit());
}

/// Where something other than the signature admits a request, its parameters leave the target as well.
#[test]
fn a_signature_or_an_address_or_a_token() {
    let origin = targets();
    let jwt = format!(
        ", satisfy = \"any\", allow = [\"127.0.0.2\"], jwt = {{ secret = \"{SECRET}\" }}, shared = true"
    );
    let larder = guarded(&origin, &jwt);
    let mut near = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!("/a?b", near.get("/a?expires=1&b&signature=x").text());
    let lines = format!("Authorization: Bearer {}\r\n", token(json!({ "sub": "alice" })));
    let by_token = larder.client().get_with("/a?b&signature=x", &lines);
    assert_eq!((true, "/a?b".to_owned()), (by_token.is_hit(), by_token.text()));
    assert!(larder.get(&until_second("/a?b", 60)).is_hit());
    let refused = larder.get("/a?b");
    assert_eq!((401, Some("Bearer")), (refused.status, refused.field("www-authenticate")));
    assert_eq!(1, origin.requests());
}

#[test]
fn links_of_nginx_are_verified() {
    let origin = targets();
    let site = "[[site.route]]\npath = \"/s/*\"\nproxy = { to = [\"{origin}\"] }\n\
                access = { signed = { style = \"nginx-md5\", secret = \"secret\" } }\n";
    let larder = larder(&origin, site);
    // The example of nginx's manual.
    let link = "/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";
    assert_eq!("/s/link", larder.get(link).text());
    assert!(larder.get(link).is_hit());
    for wrong in [
        "/s/link",
        "/s/other?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647",
        "/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483648",
        "/s/link?md5=_e4Nc3iduzkWRm01TBBNYx&expires=2147483647",
    ] {
        assert_eq!(403, larder.get(wrong).status, "{wrong}");
    }
    let mut far = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!(403, far.get(link).status);
    assert_eq!(1, origin.requests());
}
