//! Signed URLs before a route: a changed one is refused, and neither the cache nor the origin learns of the signature.

use super::access::larder;
use super::access_jwt::{SECRET, token};
use crate::harness::command::run;
use crate::harness::http2::Http2;
use crate::harness::{Client, Larder, Origin, begun, until};
use larder_wire::signed_url::{SignOptions, SignedFault, SignedNames, SignedRequest, sign, verify};
use serde_json::json;
use std::net::Ipv4Addr;

/// A larder with one signed route, with more keys in `access`.
fn guarded(origin: &Origin, access: &str) -> Larder {
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ signed = {{ secret = [\"{}\", \"{SECRET}\"] }}{access} }}\n",
        "a new secret, which signs already."
    );
    let log = "[log]\naccess = \"access.log\"\n";
    larder(origin, &(site + log))
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
    // No view for operators has the signature.
    let url = format!("http://h{second}");
    let explained = larder.admin_post("/api/v1/explain", &json!({ "url": url }).to_string()).text();
    let verdict = serde_json::from_str::<serde_json::Value>(&explained).unwrap()["verdict"]["name"].clone();
    assert_eq!("hit", verdict, "{explained}");
    let [objects, top] = ["/api/v1/objects", "/api/v1/top"].map(|it| larder.admin_get(it).text());
    let read = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap();
    until("it is logged", || read().contains("\"GET /a?b=c HTTP/2.0\" 403"));
    for it in [&objects, &top, &explained, &read()] {
        assert!(it.contains("/a?b=c") && !it.contains("signature="), "{it}");
    }
}

/// A browser sends the URL of a signed page with the request for each of its images.
#[test]
fn the_access_log_has_no_signature_in_referer() {
    for format in ["combined", "json", "{status} {referer} {header:Referer}"] {
        let origin = targets();
        let log = format!("[log]\naccess = \"access.log\"\nformat = '{format}'\n");
        let larder =
            larder(&origin, &("[[site.route]]\nproxy = { to = [\"{origin}\"] }\n".to_owned() + &log));
        let lines = format!("Referer: http://h{}\r\n", until_second("/a?x=1", 600));
        larder.client().get_with("/image.png", &lines);
        let read = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
        until("it is logged", || read().contains("http://h/a?x=1&expires="));
        let log = read();
        assert!(log.contains("&signature=***"), "{log}");
        let secret = lines.split("signature=").nth(1).unwrap().trim_end();
        assert!(!log.contains(secret), "{log}");
    }
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

/// Runs `larder sign` with this configuration.
fn signs(config: &str, arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    std::fs::write(folder.path().join("secret"), format!("{SECRET}\n")).unwrap();
    std::fs::write(folder.path().join("short"), "hunter2\n").unwrap();
    let ended = run(folder.path(), &[&["sign"], arguments].concat());
    assert!(!ended.err.contains("hunter2") && !ended.err.contains(SECRET), "{}", ended.err);
    (ended.code, ended.out + &ended.err)
}

#[test]
fn the_command_signs_for_the_route_of_the_url() {
    let proxy = "proxy = { to = [\"http://127.0.0.1:1\"] }";
    let route = |more: &str, secret: &str| {
        format!(
            "[[site.route]]\n{more}\n{proxy}\naccess = {{ signed = {{ secret = \"{secret}\", parameters = \"x-\" }} }}\n"
        )
    };
    let config = format!(
        "[[site]]\nhosts = [\"*.example.com\"]\n[[site.route]]\n{proxy}\n[[site]]\nhosts = [\"h\"]\n{}{}\
         [[site.route]]\npath = \"/free/*\"\n{proxy}\n[[site.route]]\npath = \"/old/*\"\n{proxy}\n\
         access = {{ signed = {{ style = \"nginx-md5\", secret = \"hunter2\" }} }}\n",
        route("path = \"/a/*\"\nmethods = [\"POST\"]", "a secret of a route for POST, not GET"),
        route("name = \"a\"\npath = \"/a/*\"\nwhen = 'query.v == \"2\"'", SECRET),
    );
    let names = SignedNames::after("x-");
    let (code, printed) = signs(&config, &["http://H:8080/a/b?v=2", "--expires", "5m"]);
    assert_eq!(0, code, "{printed}");
    let target = printed.trim().strip_prefix("http://H:8080").unwrap();
    let request = SignedRequest { method: "GET", host: "h", target, client: None };
    assert_eq!(Ok(()), verify(&request, &names, &[SECRET], begun() + 200));
    assert_eq!(Err(SignedFault::Expired), verify(&request, &names, &[SECRET], begun() + 3600));
    let (code, by_file) = signs("", &["h/a", "--secret-file", "secret", "--parameters", "x-"]);
    assert_eq!((0, true), (code, by_file.starts_with("http://h/a?x-expires=")), "{by_file}");
    assert_eq!(0, signs(&config, &["http://h/a/b", "--route", "a"]).0);
    for (arguments, expect) in [
        (&["http://h/a/b"][..], "No route of h has the path /a/b."),
        (&["http://other/"], "No site has the host other."),
        (
            &["http://h/free/x"],
            "The route h/free/* has no access.signed; add it, or name another route with --route, or a file with --secret-file.",
        ),
        (
            &["http://h/old/x"],
            "The route h/old/* verifies links of nginx, which larder does not make; use style = \"larder\" for new ones.",
        ),
        (&["http://h/a", "--route", "none"], "No route has the name \"none\"."),
        (&["http://h/a/../b", "--route", "a"], "the path of the URL is not in its only form"),
        (&["http://h/a/b?v=2", "--prefix", "/c/"], "the path of the URL is not beneath the prefix"),
        (&["http://h/a", "--secret-file", "none"], "the secret file none cannot be read"),
        (
            &["http://h/a", "--secret-file", "short"],
            "the secret has 7 bytes, and a signature needs 32 at least",
        ),
        (&["http://h/a", "--secret-file", "secret", "--ip", "all"], "\"all\" is not an address or a network"),
    ] {
        let (code, report) = signs(&config, arguments);
        assert!(
            code == 1 && report.contains(expect) && report.trim().lines().count() == 1,
            "{arguments:?}: {code} {report}"
        );
    }
    for (arguments, expect) in [
        (&[][..], "`larder sign` requires URL"),
        (&["h/a", "--expires", "0s"], "--expires: found \"0s\"; allowed: a duration from 1s to 3650d"),
        (&["h/a", "--expires", "1.5s"], "--expires: found"),
        (&["h/a", "--secret-file", "secret", "--route", "a"], "--secret-file and --route are both set"),
        (&["h/a", "--secret-file", "secret", "-c", "larder.toml"], "--secret-file and -c are both set"),
        (&["h/a", "--parameters", "x-"], "--parameters is set by access.signed.parameters"),
        (&["h*"], "is a pattern"),
    ] {
        let (code, report) = signs(&config, arguments);
        assert!(code == 2 && report.contains(expect), "{arguments:?}: {code} {report}");
    }
}
