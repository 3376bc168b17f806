//! The identifier of a request: one for the log, the origin and the response, at both speeds and over both protocols.

use crate::harness::http2::{Http2, request};
use crate::harness::{Larder, Origin, until};
use std::collections::BTreeSet;

/// larder with these keys of its site, these routes, and a log of the identifiers.
fn larder(origin: &Origin, top: &str, site: &str, routes: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[log]\naccess = \"access.log\"\nformat = \"{{target}} {{request_id}} {{cache}} {{origin}} {{origin_status}}\"\n\
         [[site]]\nhosts = [\"*\"]\n{site}\n{}\n[[site.route]]\npath = \"/a*\"\nproxy = {{ to = [\"{}\"] }}\n",
        routes.replace("ORIGIN", &origin.url()),
        origin.url()
    ))
}

/// The words of the log's lines, once there are this many.
fn log(larder: &Larder, lines: usize) -> Vec<Vec<String>> {
    let text = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("the log has all lines", || text().lines().count() >= lines);
    text().lines().map(|it| it.split(' ').map(str::to_owned).collect()).collect()
}

const SETS: &str = "response_headers.set = { X-Request-Id = \"{request_id}\" }";
const KEPT: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage";

#[test]
fn every_response_has_the_identifier_of_its_own_request() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "file").unwrap();
    let origin = Origin::fixed(KEPT);
    let routes = format!(
        "[[site.route]]\npath = \"/files/*\"\nfiles.root = \"{}\"\n[[site.route]]\npath = \"/go\"\nredirect.to = \"/x?{{request_id}}\"\n\
         [[site.route]]\npath = \"/no\"\nproxy.to = \":1\"\naccess.deny = [\"127.0.0.0/8\"]\n[[site.route]]\npath = \"/fix\"\nrespond = {{ body = \"{{request_id}}\" }}\n\
         [[site.route]]\npath = \"/down\"\nproxy.to = \":1\"\n[[site.route]]\npath = \"/get\"\nmethods = [\"GET\"]\nproxy.to = \":1\"\n",
        folder.path().display()
    );
    let larder = larder(&origin, "", SETS, &routes);
    std::fs::create_dir(folder.path().join("files")).unwrap();
    std::fs::write(folder.path().join("files/a.txt"), "file").unwrap();
    let (mut client, mut http2) = (larder.client(), Http2::connect(&larder));
    let mut found: Vec<(String, String)> = Vec::new();
    let forged = "X-Request-Id: forged\r\n";
    for (target, status) in [
        ("/a", 200),
        ("/a", 200),
        ("/files/a.txt", 200),
        ("/files/a.txt", 200),
        ("/go", 302),
        ("/no", 403),
        ("/fix", 200),
        ("/down", 502),
    ] {
        let it = client.get_with(target, forged);
        assert_eq!((status, 1), (it.status, it.members("x-request-id").len()), "{target}");
        let id = it.field("x-request-id").unwrap().to_owned();
        match target {
            "/go" => assert_eq!(Some(&*format!("/x?{id}")), it.field("location")),
            "/fix" => assert_eq!(id, it.text()),
            _ => {}
        }
        found.push((target.to_owned(), id));
        let asked = http2.head(&request("GET", target, &[("x-request-id", "forged")]), 0x5);
        let it = http2.answer(asked);
        assert_eq!(status, it.status, "{target}");
        found.push((target.to_owned(), it.field("x-request-id").unwrap().to_owned()));
    }
    let none = client.request("POST", "/get", forged, "");
    assert_eq!(405, none.status);
    found.push(("/get".to_owned(), none.field("x-request-id").unwrap().to_owned()));
    let ids: BTreeSet<_> = found.iter().map(|it| it.1.clone()).collect();
    assert_eq!(found.len(), ids.len(), "two requests have one identifier: {found:?}");
    assert!(ids.iter().all(|it| it.len() == 36 && it.as_bytes()[14] == b'7'), "{ids:?}");
    assert_eq!(1, origin.requests());
    assert_eq!(Some(&*found[0].1), origin.received()[0].field("x-request-id"));
    let logged: Vec<(String, String)> =
        log(&larder, found.len()).into_iter().map(|it| (it[0].clone(), it[1].clone())).collect();
    assert_eq!(found, logged);
}

/// An application that answers with the identifier that it got: a hit would have that of an earlier request.
#[test]
fn a_hit_has_no_identifier_of_another_request() {
    let origin = Origin::new(|it| {
        let id = it.field("x-request-id").unwrap_or("none").to_owned();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nX-Request-Id: {id}\n\npage")
    });
    let larder = larder(&origin, "", "", "");
    let (mut client, mut http2) = (larder.client(), Http2::connect(&larder));
    let mut id = |target: &str| {
        let it = client.get(target);
        assert_eq!(1, it.members("x-request-id").len());
        (it.is_hit(), it.field("x-request-id").unwrap().to_owned())
    };
    let (first, second) = (id("/a"), id("/a"));
    let third = http2.get("/a").field("x-request-id").unwrap().to_owned();
    assert_eq!((false, true), (first.0, second.0));
    assert_eq!(3, BTreeSet::from([&first.1, &second.1, &third]).len());
    assert_eq!(Some(&*first.1), origin.received()[0].field("x-request-id"));
    let lines = log(&larder, 3);
    assert_eq!(vec![&first.1, &second.1, &third], lines.iter().map(|it| &it[1]).collect::<Vec<_>>());
    // The origin is named for the request that it answered.
    let (name, report) = (origin.url(), lines.iter().map(|it| it[2..].join(" ")).collect::<Vec<_>>());
    assert_eq!(vec![format!("uri-miss {name} 200"), "hit - -".to_owned(), "hit - -".to_owned()], report);
}

#[test]
fn a_strict_key_keeps_the_identifier_from_the_origin_alone() {
    let origin = Origin::new(|it| {
        let id = it.field("x-request-id").unwrap_or("none").to_owned();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{id}")
    });
    let route = "[[site.route]]\npath = \"/a\"\ncache.key.strict = true\nproxy.to = \"ORIGIN\"";
    let larder = larder(&origin, "", SETS, route);
    let mut client = larder.client();
    let ids: Vec<String> = (0..2)
        .map(|at| {
            let it = client.get_with("/a", "X-Request-Id: forged\r\n");
            assert_eq!((at == 1, "none"), (it.is_hit(), &*it.text()));
            it.field("x-request-id").unwrap().to_owned()
        })
        .collect();
    assert!(ids[0] != ids[1] && ids[0].len() == 36, "{ids:?}");
    assert_eq!(ids, log(&larder, 2).iter().map(|it| it[1].clone()).collect::<Vec<_>>());
}

#[test]
fn the_identifier_of_a_trusted_proxy_is_kept_everywhere() {
    let origin = Origin::fixed(KEPT);
    let larder = larder(&origin, "clients.trusted = [\"127.0.0.1\"]", SETS, "");
    let mut client = larder.client();
    for id in ["of-the-proxy", "another"] {
        let lines =
            format!("X-Forwarded-For: 10.1.1.1\r\nX-Request-Id: {id}\r\nConnection: X-Request-Id\r\n");
        assert_eq!(Some(id), client.get_with("/a", &lines).field("x-request-id"));
    }
    let one = client.get_with("/a", "X-Forwarded-For: 10.1.1.1\r\nX-Request-Id: a\r\nX-Request-Id: b\r\n");
    assert_eq!(Some(36), one.field("x-request-id").map(str::len));
    assert_eq!((1, Some("of-the-proxy")), (origin.requests(), origin.received()[0].field("x-request-id")));
    assert_eq!(
        ["of-the-proxy", "another"],
        *log(&larder, 3)[..2].iter().map(|it| &*it[1]).collect::<Vec<_>>()
    );
}

/// A trusted client that names no other client, as a monitor, has its own identifier too; another client has not.
#[test]
fn the_identifier_of_a_trusted_client_needs_no_forwarded_client() {
    let origin = Origin::fixed(KEPT);
    for (trusted, expect) in [("127.0.0.1", Some("of-the-monitor")), ("10.0.0.0/8", None)] {
        let larder = larder(&origin, &format!("clients.trusted = [\"{trusted}\"]"), SETS, "");
        let mut http2 = Http2::connect(&larder);
        for _ in 0..2 {
            let it = larder.client().get_with("/a", "X-Request-Id: of-the-monitor\r\n");
            let id = it.field("x-request-id").unwrap();
            assert!(expect.map_or(id.len() == 36, |expect| id == expect), "{trusted}: {id}");
            let asked = http2.head(&request("GET", "/a", &[("x-request-id", "of-the-monitor")]), 0x5);
            let id = http2.answer(asked).field("x-request-id").unwrap().to_owned();
            assert!(expect.map_or(id.len() == 36, |expect| id == expect), "{trusted}: {id}");
        }
    }
}

/// Without a text and a log that read it, a request has none, and the fields of applications stay.
#[test]
fn a_route_that_does_not_use_identifiers_changes_none() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\nCache-Control: max-age=600\nX-Request-Id: of-the-application\n\npage",
    );
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"access.log\"\nformat = \"json\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy.to = \"{}\"\n",
        origin.url()
    ));
    for _ in 0..2 {
        let it = larder.client().get_with("/a", "X-Request-Id: of-the-client\r\n");
        assert_eq!(["of-the-application"], *it.members("x-request-id"));
    }
    let text = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("the log has both lines", || text().lines().count() == 2);
    assert_eq!(2, text().matches("\"request_id\":\"\"").count(), "{}", text());
}
