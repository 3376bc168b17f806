//! `Vary` of responses whose route was chosen by a field of the request: caches in front of larder must not mix the routes up.

use crate::harness::http2::Http2;
use crate::harness::{Larder, Origin};

/// larder with these routes; `ORIGIN` is the key of a proxy.
fn larder(origin: &Origin, routes: &str) -> Larder {
    let routes = routes.replace("ORIGIN", &format!("proxy.to = \"{}\"", origin.url()));
    let config = format!("listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n{routes}");
    Larder::configured(config)
}

const ROUTES: &str = "[[site.route]]\npath = \"/api/*\"\nwhen = 'header.Accept ~ \"json\" || cookie.beta == \"1\"'\nORIGIN\n\
                      [[site.route]]\npath = \"/api/*\"\nmethods = [\"POST\"]\nwhen = 'header.X-Post == \"1\"'\nORIGIN\n\
                      [[site.route]]\npath = \"/plain/*.css\"\nwhen = 'header.X-Css == \"1\"'\nORIGIN\n\
                      [[site.route]]\npath = \"/here/*\"\nwhen = 'client in \"127.0.0.0/8\" && query.a != \"x\"'\nORIGIN\n\
                      [[site.route]]\npath = \"/api/*\"\nORIGIN\n\
                      [[site.route]]\npath = \"/to\"\nredirect = { to = \"/{header.Accept-Language}\", status = 308 }\n\
                      [[site.route]]\npath = \"/own/*\"\nwhen = 'header.X-Own == \"1\"'\nrespond.body = \"own\"\n\
                      response_headers.set = { Vary = \"X-Other\" }\n\
                      [[site.route]]\npath = \"/plain/*\"\nORIGIN\n[[site.route]]\npath = \"/none/*\"\nORIGIN\n";

#[test]
fn responses_name_the_fields_that_chose_their_route() {
    let origin = Origin::new(|it| match it.target() {
        "/api/varied" => {
            "HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Accept-Encoding\n\npage".to_owned()
        }
        "/api/tagged" => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\npage".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage".to_owned(),
    });
    let larder = larder(&origin, ROUTES);
    let (mut client, mut http2) = (larder.client(), Http2::connect(&larder));
    let mut check = |target: &str, lines: &str, expected: &[&str]| {
        for _ in 0..2 {
            let it = client.get_with(target, lines);
            assert_eq!(expected, it.members("vary"), "{target} {}", it.status);
        }
    };
    check("/api/a", "Accept: application/json\r\n", &["Accept", "Cookie"]);
    check("/api/a", "", &["Accept", "Cookie"]);
    check("/api/varied", "", &["Accept-Encoding", "Accept", "Cookie"]);
    check("/here/a", "", &[]);
    check("/to", "Accept-Language: de\r\n", &["Accept-Language"]);
    check("/own/a", "X-Own: 1\r\n", &["X-Other"]);
    check("/plain/a", "", &[]);
    check("/plain/a.css", "X-Css: 1\r\n", &["X-Css"]);
    check("/none/a", "", &[]);
    // The 404 of a site may be the answer that a condition prevented.
    check("/own/a", "", &["X-Own"]);
    check("/nothing", "", &[]);
    // The path has several interpretations.
    check("/nothing/../own/a", "", &["Accept", "Cookie", "X-Css", "X-Own"]);
    let it = client.get_with("/api/tagged", "");
    assert_eq!(200, it.status);
    let it = client.get_with("/api/tagged", "If-None-Match: \"a\"\r\n");
    assert_eq!((304, vec!["Accept", "Cookie"]), (it.status, it.members("vary")));
    assert_eq!(Some("Accept, Cookie"), http2.get("/api/a").field("vary"));
    assert_eq!(None, http2.get("/none/a").field("vary"));
}

/// The stored variants stay those of the key: the added field splits nothing.
#[test]
fn the_added_field_makes_no_variants() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let larder = larder(&origin, ROUTES);
    let mut client = larder.client();
    client.get_with("/api/a", "Accept: text/html\r\nCookie: beta=2\r\n");
    assert!(client.get_with("/api/a", "Accept: text/plain\r\nCookie: beta=3\r\n").is_hit());
    assert_eq!(1, origin.requests());
    let response = larder.admin_post("/cache/explain", r#"{"url": "http://h/api/a"}"#).text();
    assert!(response.contains(r#""vary":["Accept","Cookie"]"#), "{response}");
}

/// A field of a response that is made of a field of the request.
#[test]
fn responses_name_the_fields_of_which_their_own_are_made() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "file").unwrap();
    let sets = "response_headers.set = { X-Lang = \"{header.Accept-Language}{header.accept-language}\", X-Path = \"{path}\" }\n\
                response_headers.default.X-Beta = \"{cookie.beta}\"";
    let routes = format!(
        "[[site.route]]\npath = \"/set/*\"\nORIGIN\n{sets}\n[[site.route]]\npath = \"/files/*\"\nfiles = {{ root = \"{}\", strip = \"/files\" }}\n{sets}\n\
         [[site.route]]\npath = \"/plain/*\"\nORIGIN\nresponse_headers.set.X-Path = \"{{path}}\"\n",
        folder.path().display()
    );
    let larder = larder(&origin, &routes);
    for target in ["/set/a", "/set/a", "/files/a.txt", "/files/a.txt"] {
        let it = larder.client().get_with(target, "Accept-Language: de\r\n");
        assert_eq!(
            (Some("dede"), vec!["Accept-Language", "Cookie"]),
            (it.field("x-lang"), it.members("vary")),
            "{target}"
        );
    }
    assert_eq!(Vec::<&str>::new(), larder.get("/plain/a").members("vary"));
    assert_eq!(2, origin.requests(), "the added field splits no entry");
}
