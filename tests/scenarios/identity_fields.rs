//! Fields other than `Cookie` and `Authorization` that identify the client (`X-Api-Key`, `X-User-Id`): the answer to one client is not
//! another's without a word of the response, under default settings, presets and a lifetime of the route.

use crate::harness::{Larder, Origin};

/// Pages that have the client's name in them: the value of any of the fields.
fn origin() -> Origin {
    Origin::new(|request| {
        let who = FIELDS.iter().find_map(|it| request.field(it)).unwrap_or("nobody").to_owned();
        let fields = match request.target() {
            "/tagged" => "ETag: \"release-1\"\n",
            "/dated" => "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n",
            "/public" => "Cache-Control: public, max-age=600\n",
            "/lasting" => "Cache-Control: max-age=600\n",
            _ => "",
        };
        if request.field("if-none-match").is_some() || request.field("if-modified-since").is_some() {
            return format!("HTTP/1.1 304 Not Modified\n{fields}\n");
        }
        format!("HTTP/1.1 200 OK\nContent-Type: text/html\n{fields}\npage of {who}")
    })
}

const FIELDS: [&str; 8] = [
    "x-api-key",
    "x-authorization",
    "authentication",
    "ocp-apim-subscription-key",
    "x-user-id",
    "x-jwt-assertion",
    "dpop",
    "x-forwarded-email",
];

#[test]
fn no_page_of_a_client_with_such_a_field_is_anothers() {
    let origin = origin();
    for cache in [
        "",
        "default_ttl = \"60s\", stale_while_revalidate = \"30s\", private_cookies = [\"session*\"]",
        "default_ttl = \"60s\"",
        "override_ttl = \"60s\"",
        "status_ttl = { 200 = \"60s\" }",
        "preset = \"flask\"",
        "preset = \"django\"",
        "preset = \"wordpress\"",
    ] {
        let larder = Larder::before(&origin, cache);
        let mut client = larder.client();
        let mut page = |target: &str, line: &str| {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{line}\r\n"));
            client.read().text()
        };
        for (at, field) in FIELDS.iter().enumerate() {
            for path in ["/silent", "/tagged", "/dated"] {
                // A page of its own for each field, with the answer of the path.
                let target = path.to_owned();
                let mine = page(&target, &format!("{field}: alice-{at}\r\n"));
                assert_eq!(format!("page of alice-{at}"), mine, "{cache} {field} {path}");
                let theirs = page(&target, &format!("{field}: bob-{at}\r\n"));
                assert_eq!(format!("page of bob-{at}"), theirs, "{cache} {field} {path}");
                let again = page(&target, &format!("{field}: alice-{at}\r\n"));
                assert_eq!(format!("page of alice-{at}"), again, "{cache} {field} {path}");
            }
        }
        // After all of them nobody has the page of a client.
        for path in ["/silent", "/tagged", "/dated"] {
            assert_eq!("page of nobody", page(path, ""), "{cache} {path}");
        }
    }
}

/// A page that nobody has said to be shared is for requests without such a field, as it is for those without cookies.
#[test]
fn a_client_with_an_identity_field_gets_no_page_of_other_clients() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let page = |target: &str, lines: &str| larder.client().get_with(target, lines);
    assert_eq!("page of nobody", page("/dated", "").text());
    assert!(page("/dated", "").is_hit());
    for field in FIELDS {
        let mine = page("/dated", &format!("{field}: alice\r\n"));
        assert_eq!((false, "page of alice".to_owned()), (mine.is_hit(), mine.text()), "{field}");
    }
    assert!(page("/dated", "").is_hit(), "it stays for the others");
}

#[test]
fn the_response_or_the_key_permits_it() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let with = |path: &str, who: &str| {
        let mut client = larder.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\nX-Api-Key: {who}\r\n\r\n"));
        client.read().text()
    };
    for path in ["/public", "/lasting"] {
        assert_eq!(["page of a", "page of a"], [with(path, "a"), with(path, "b")], "{path}");
    }
    let larder = Larder::before(&origin, "default_ttl = \"60s\", key = { headers = [\"X-Api-Key\"] }");
    let mut client = larder.client();
    let mut fetch = |who: &str| {
        client.send(format!("GET /silent HTTP/1.1\r\nHost: h\r\nX-Api-Key: {who}\r\n\r\n"));
        let response = client.read();
        (response.is_hit(), response.text())
    };
    for (who, is_hit) in [("a", false), ("b", false), ("a", true), ("b", true)] {
        assert_eq!((is_hit, format!("page of {who}")), fetch(who));
    }
}
