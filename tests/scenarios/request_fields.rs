//! Fields that a route sets and removes in requests to its origins.

use crate::harness::http2::{Http2, request};
use crate::harness::{Larder, Origin};
use std::sync::Arc;

/// larder with these keys of its only route, before an origin that stores everything and says what it was sent.
fn before(origin: &Origin, keys: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/shop/{{id}}\"\n{keys}\n\
         proxy = {{ to = [\"{}\"] }}\n[[site.route]]\nproxy = {{ to = [\"{0}\"] }}\n",
        origin.url()
    ))
}

fn storing() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nx")
}

#[test]
fn fields_are_set_and_removed_over_both_protocols() {
    let origin = storing();
    let larder = before(
        &origin,
        "request_headers = { set = { X-Item = \"{id} of {host}\", X-Client = \"{client}\", X-None = \"{query.none}\", User-Agent = \"larder\" }, remove = [\"X-Gone\"] }",
    );
    let forged =
        "X-Item: forged\r\nX_Item: forged\r\nX-None: a\r\nX-Gone: 1\r\nUser-Agent: me\r\nX-Other: kept\r\n";
    larder.client().get_with("/shop/a%20b", forged);
    larder.client().request("POST", "/shop/7", forged, "body");
    let mut http2 = Http2::connect(&larder);
    let id = http2.head(&request("GET", "/shop/h2", &[("x-item", "forged"), ("x-gone", "1")]), 0x5);
    assert_eq!(Some("200"), http2.answer(id).field(":status"));
    let received = origin.received();
    for (asked, item) in received.iter().zip(["a b of h", "7 of h", "h2 of"]) {
        let items: Vec<&str> =
            asked.head.lines().filter(|it| it.to_ascii_lowercase().starts_with("x-item")).collect();
        assert!(items.len() == 1 && items[0].contains(item), "{}", asked.head);
        assert!(!asked.head.contains("X_Item"), "{}", asked.head);
        assert_eq!(
            (Some("127.0.0.1"), None, None, Some("larder")),
            (
                asked.field("x-client"),
                asked.field("x-none"),
                asked.field("x-gone"),
                asked.field("user-agent")
            )
        );
    }
    assert_eq!(Some("kept"), received[0].field("x-other"));
    assert!(larder.get("/shop/a%20b").is_hit());
    larder.client().get_with("/other", "X-Gone: 1\r\n");
    assert_eq!(Some("1"), origin.received()[3].field("x-gone"), "another route");
}

/// A route that adds a field of its own keeps those that its site sets and removes for safety.
#[test]
fn a_route_adds_to_the_fields_of_its_site() {
    let origin = storing();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\nrequest_headers = {{ set = {{ X-Site = \"s\" }}, remove = [\"X-Admin\"] }}\n\
         [[site.route]]\npath = \"/set/*\"\nrequest_headers.set = {{ X-Route = \"r\" }}\nproxy.to = [\"{0}\"]\n\
         [[site.route]]\nrequest_headers.remove = [\"X-Site\"]\nproxy.to = [\"{0}\"]\n",
        origin.url()
    ));
    for path in ["/set/a", "/other"] {
        larder.client().get_with(path, "X-Site: forged\r\nX-Admin: 1\r\n");
    }
    let of = |at: usize, name: &str| origin.received()[at].field(name).map(str::to_owned);
    assert_eq!(
        (Some("s"), Some("r"), None),
        (of(0, "x-site").as_deref(), of(0, "x-route").as_deref(), of(0, "x-admin"))
    );
    assert_eq!((None, None), (of(1, "x-site"), of(1, "x-admin")), "the route removes what its site sets");
}

/// A field made of what the key lacks would put one client's text into the page of all.
#[test]
fn a_shared_request_has_no_field_made_from_values_outside_of_the_key() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let origin = {
        let seen = seen.clone();
        Origin::new(move |asked| {
            let report =
                ["x-tenant", "x-lang"].map(|it| asked.field(it).unwrap_or("none").to_owned()).join(" ");
            seen.lock().unwrap().push(report.clone());
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{report}")
        })
    };
    let larder = before(
        &origin,
        "request_headers.set = { X-Tenant = \"{header.x-in}\", X-Lang = \"{header.x-lang}\" }\ncache.key.headers = [\"X-Lang\"]",
    );
    let evil = "X-In: evil\r\nX-Tenant: evil\r\nX-Lang: de\r\n";
    assert_eq!("none de", larder.client().get_with("/shop/1", evil).text());
    let victim = larder.client().get_with("/shop/1", "X-Lang: de\r\n");
    assert_eq!((true, "none de"), (victim.is_hit(), &*victim.text()));
    assert_eq!("none fr", larder.client().get_with("/shop/1", "X-Lang: fr\r\n").text());
    // A request that passes is its client's own.
    assert_eq!("evil de", larder.client().request("POST", "/shop/1", evil, "x").text());
    let strict = before(
        &origin,
        "request_headers.set = { X-Tenant = \"{client}\", X-Lang = \"de\" }\ncache.key.strict = true",
    );
    assert_eq!("none de", strict.get("/shop/1").text());
}

#[test]
fn a_secret_is_sent_and_shown_nowhere() {
    let origin = storing();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "t0psecret\n").unwrap();
    let larder =
        before(&origin, &format!("request_headers.set = {{ X-Api-Key = \"file:{}\" }}", path.display()));
    assert_eq!(200, larder.get("/shop/1").status);
    assert_eq!(Some("t0psecret"), origin.received()[0].field("x-api-key"));
    let response = larder.admin_post("/cache/explain", r#"{"url": "http://h/shop/1"}"#).text();
    assert!(response.contains("sets X-Api-Key") && !response.contains("t0psecret"), "{response}");
    for path in ["/api/v1/config", "/api/v1/stats", "/api/v1/objects"] {
        assert!(!larder.admin_get(path).text().contains("t0psecret"), "{path}");
    }
}

/// The captures of a path, on the way to the origin.
#[test]
fn a_path_is_made_of_the_captures() {
    let origin =
        Origin::new(|asked| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", asked.target()));
    let larder = before(&origin, "rewrite = \"/item.php?id={id}&{query}\"");
    assert_eq!("/item.php?id=a%20b%26c&x=1", larder.get("/shop/a%20b%26c?x=1").text());
    assert!(larder.get("/shop/a%20b%26c?x=1").is_hit());
    let mut http2 = Http2::connect(&larder);
    assert_eq!("/item.php?id=7&x=1", http2.get("/shop/7?x=1").text());
    assert_eq!("/item.php?id=8&", larder.get("/shop/%38").text());
}

/// One identifier for the origin, made by larder; a client may not choose it, a trusted proxy may.
#[test]
fn a_request_has_an_identifier() {
    let origin = storing();
    let keys = "request_headers.set = { X-Request-Id = \"{request_id}\" }";
    let larder = before(&origin, keys);
    larder.client().get_with("/shop/1", "X-Request-Id: forged\r\n");
    larder.client().request("POST", "/shop/1", "X-Request-Id: forged\r\n", "x");
    let mut http2 = Http2::connect(&larder);
    http2.get("/shop/2");
    let received = origin.received();
    let ids: std::collections::BTreeSet<&str> =
        received.iter().map(|it| it.field("x-request-id").unwrap()).collect();
    assert!(ids.len() == 3 && ids.iter().all(|it| it.len() == 36 && it.as_bytes()[14] == b'7'), "{ids:?}");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nclients.trusted = [\"127.0.0.1\"]\n[[site]]\nhosts = [\"*\"]\n{keys}\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ));
    let by_proxy = "X-Forwarded-For: 10.1.1.1\r\n";
    larder.client().get_with("/3", &format!("{by_proxy}X-Request-Id: of-the-proxy\r\n"));
    larder.client().get_with("/4", &format!("{by_proxy}X-Request-Id: of the proxy\r\n"));
    let received = origin.received();
    assert_eq!(Some("of-the-proxy"), received[3].field("x-request-id"));
    assert_eq!(Some(36), received[4].field("x-request-id").map(str::len));
}

/// The part of the host that `*` stands for, in fields, targets and redirects; no host leads out of the folder of the rewrite.
#[test]
fn the_wildcard_part_of_a_host_names_a_tenant() {
    let origin = Origin::new(|it| {
        let tenant = it.field("x-tenant").unwrap_or("none");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{tenant} {}", it.target())
    });
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"h.test\", \"*.h.test\"]\n[[site.route]]\npath = \"/go/*\"\n\
         redirect.to = \"https://{{host.wildcard}}.new.test{{uri}}\"\n[[site.route]]\nrequest_headers.set.X-Tenant = \"{{host.wildcard}}\"\n\
         rewrite = \"/of/{{host.wildcard}}{{path}}\"\nproxy.to = \"{}\"\n",
        origin.url()
    ));
    let mut client = larder.client();
    let mut fetch = |host: &str, target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Tenant: forged\r\n\r\n"));
        client.read()
    };
    for hit in [false, true] {
        let it = fetch("A.h.test", "/p");
        assert_eq!(("a /of/a/p", hit), (&*it.text(), it.is_hit()));
        assert_eq!("b.c /of/b.c/p", fetch("b.c.h.test:80", "/p").text());
    }
    assert_eq!("none /of//p", fetch("h.test", "/p").text());
    assert_eq!(Some("https://a.new.test/go/x?y"), fetch("a.h.test", "/go/x?y").field("location"));
    for host in ["...h.test", "a/../..h.test", "..%2f.h.test", "%2e%2e.h.test"] {
        let mut client = larder.client();
        client.send(format!("GET /p HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let it = client.read();
        assert!(
            it.status >= 400
                || it
                    .text()
                    .split(' ')
                    .nth(1)
                    .is_some_and(|it| it.starts_with("/of/") && !it.contains("/../")),
            "{host}: {} {}",
            it.status,
            it.text()
        );
    }
}
