//! `Cache-Control: private` for responses that depend on the client and not on fields of its request: a cache in front of larder must not
//! give them to other clients.

use crate::harness::client::Response;
use crate::harness::http2::{Http2, request};
use crate::harness::{Larder, Origin};

const PUBLIC: &str = "public, max-age=600";

/// A site with a service that admits every session, in front of an origin whose pages are public.
fn larder(origin: &Origin, service: &Origin) -> Larder {
    let forward = format!("forward = {{ to = \"{}\", copy = [\"X-User\"] }}", service.url());
    let routes = [
        ("/own/*", format!("access = {{ {forward}, key = \"identity\" }}")),
        ("/ttl/*", format!("access = {{ {forward}, key = \"identity\" }}\nclient_ttl = \"1m\"")),
        ("/none/*", format!("access = {{ {forward} }}")),
        ("/shared/*", format!("access = {{ {forward}, shared = true }}")),
        (
            "/set/*",
            format!("access = {{ {forward} }}\nresponse_headers.set = {{ Cache-Control = \"max-age=1\" }}"),
        ),
        ("/office/*", "access.allow = [\"127.0.0.1\"]".to_owned()),
        ("/told/*", "access.allow = [\"127.0.0.1\"]\nclient_ttl = \"1m\"".to_owned()),
        ("/all/*", "access = { allow = [\"127.0.0.1\"], shared = true }".to_owned()),
        ("/some/*", "when = 'client == \"127.0.0.1\"'".to_owned()),
        ("/*", String::new()),
    ];
    let route = |(path, settings): &(&str, String)| {
        format!("[[site.route]]\npath = {path:?}\nproxy.to = {:?}\n{settings}\n", origin.url())
    };
    let routes: String = routes.iter().map(route).collect();
    let config = format!("listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n{routes}");
    Larder::configured(config)
}

fn pages() -> Origin {
    Origin::new(|it| match it.target().rsplit('/').next() {
        Some("bare") => "HTTP/1.1 200 OK\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n\npage".to_owned(),
        Some("secret") => "HTTP/1.1 200 OK\nCache-Control: no-store\n\npage".to_owned(),
        Some("targeted") => {
            "HTTP/1.1 200 OK\nCache-Control: public, s-maxage=60\nCDN-Cache-Control: max-age=60\n\npage"
                .to_owned()
        }
        _ => format!("HTTP/1.1 200 OK\nETag: \"a\"\nCache-Control: {PUBLIC}\n\npage"),
    })
}

fn service() -> Origin {
    Origin::new(|it| {
        let name = it.field("cookie").unwrap_or("nobody").to_owned();
        format!("HTTP/1.1 200 OK\nX-User: {name}\n\n")
    })
}

fn lines<'r>(of: &'r Response, name: &str) -> Vec<&'r str> {
    of.fields.iter().filter(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.as_str()).collect()
}

const ALICE: &str = "Cookie: s=alice\r\n";

#[test]
fn pages_of_some_clients_leave_as_private() {
    let (origin, service) = (pages(), service());
    let larder = larder(&origin, &service);
    let mut client = larder.client();
    let private = "private, max-age=600";
    for (path, expected) in [
        ("/own/a", private),
        ("/ttl/a", "private, max-age=60"),
        ("/none/a", private),
        ("/shared/a", PUBLIC),
        ("/set/a", "max-age=1"),
        ("/office/a", private),
        ("/told/a", "public, max-age=60"),
        ("/all/a", PUBLIC),
        ("/some/a", private),
        ("/a", PUBLIC),
        ("/own/bare", "private"),
        ("/own/secret", "no-store"),
        ("/office/targeted", "private"),
    ] {
        // A miss, then a hit where the page is stored.
        for _ in 0..2 {
            let page = client.get_with(path, ALICE);
            assert_eq!((200, vec![expected]), (page.status, lines(&page, "cache-control")), "{path}");
            assert!(lines(&page, "cdn-cache-control").is_empty(), "{path}");
        }
    }
    assert!(client.get_with("/own/a", ALICE).is_hit() && client.get("/office/a").is_hit());
}

#[test]
fn every_form_of_the_response_is_private() {
    let (origin, service) = (pages(), service());
    let larder = larder(&origin, &service);
    let mut client = larder.client();
    let mut http2 = Http2::connect(&larder);
    for path in ["/own/a", "/office/a", "/some/a"] {
        client.get_with(path, ALICE);
        let private = ["private, max-age=600"];
        for (fields, status) in [("If-None-Match: \"a\"\r\n", 304), ("Range: bytes=0-1\r\n", 206)] {
            let it = client.get_with(path, &format!("{ALICE}{fields}"));
            assert_eq!((status, &private[..]), (it.status, &lines(&it, "cache-control")[..]), "{path}");
        }
        let head = client.request("HEAD", path, ALICE, "");
        assert_eq!((200, &private[..]), (head.status, &lines(&head, "cache-control")[..]), "HEAD {path}");
        for path in [path.to_owned(), format!("{path}?miss")] {
            let stream = http2.head(&request("GET", &path, &[("cookie", "s=alice")]), 5);
            assert_eq!(Some("private, max-age=600"), http2.answer(stream).field("cache-control"), "{path}");
        }
    }
    // The page for the other clients of the URL is no less private.
    let other = crate::harness::Client::connect_from(std::net::Ipv4Addr::new(127, 0, 0, 2), larder.address)
        .get("/some/a");
    assert_eq!(vec!["private, max-age=600"], lines(&other, "cache-control"));
}

#[test]
fn explain_names_the_reason() {
    let (origin, service) = (pages(), service());
    let larder = larder(&origin, &service);
    for (path, private) in [
        ("/own/a", Some("access admits each client by its credentials (access)")),
        ("/office/a", Some("access admits clients by their addresses (access.allow, access.deny)")),
        ("/some/a", Some("the route of the URL depends on the client's address, country or network (when)")),
        ("/shared/a", None),
        ("/a", None),
    ] {
        let report = super::explain_access::explain(&larder, path, "127.0.0.1");
        assert_eq!(private, report["matched"]["private"].as_str(), "{path}");
    }
}
