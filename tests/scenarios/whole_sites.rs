//! Whole sites as their users and their attackers find them: several settings together, which the scenarios of one setting
//! do not combine.

use super::access::larder;
use super::access_basic::{ALICES, BOBS, users};
use crate::harness::secure::Authority;
use crate::harness::{Client, Larder, Origin};
use std::io::{Read, Write};
use std::net::Ipv4Addr;

/// An origin whose response shows the credentials of the request, with these fields.
fn mirror(fields: &'static str) -> Origin {
    Origin::new(move |it| {
        let of = |name| it.field(name).unwrap_or("nobody").to_owned();
        format!("HTTP/1.1 200 OK\n{fields}\n{} {}", of("authorization"), of("cookie"))
    })
}

const PROXY: &str = "proxy = { to = [\"{origin}\"] }";

/// With `satisfy = "any"` a client may be admitted by its address and send credentials, which the origin gets.
#[test]
fn credentials_of_a_client_that_its_address_admits_are_not_shared() {
    let origin = mirror("Cache-Control: public, max-age=60\n");
    let users = users().map(|it| format!("\"{it}\"")).join(", ");
    let site = format!(
        "[[site.route]]\n{PROXY}\naccess = {{ satisfy = \"any\", allow = [\"127.0.0.2\"], key = \"identity\", \
         pass_authorization = true, basic = {{ users = [{users}] }} }}\n"
    );
    let larder = larder(&origin, &site);
    let office = || Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    let first = office().get_with("/p", ALICES);
    let second = office().get_with("/p", BOBS);
    assert_ne!(first.text(), second.text());
    assert!(office().get("/p").text().starts_with("nobody"));
    assert!(office().get("/p").is_hit());
    assert!(larder.client().get_with("/p", BOBS).text() != first.text());
}

/// A condition of `access` is judged for every interpretation of the path, as the path of a route is.
#[test]
fn no_spelling_of_a_path_avoids_a_condition() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let site = format!(
        "[[site.route]]\npath = \"/app/*\"\n{PROXY}\naccess = {{ deny_when = 'path ~ \"^/app/admin\"' }}\n\
         [[site.route]]\npath = \"/pub/*\"\n{PROXY}\naccess = {{ allow_when = 'path ~ \"^/pub/free\"' }}\n"
    );
    let larder = larder(&origin, &site);
    for target in [
        "/app/admin/x",
        "/app/x/..;/admin/x",
        "/app/;/admin/x",
        "/app/x/..%3b/admin/x",
        "/app/%2e%2e;/app/admin",
        "/app/%61dmin",
        "/app//admin",
        "/pub/free/..;/secret",
        "/pub/secret",
    ] {
        let status = larder.get(target).status;
        assert!(matches!(status, 400 | 403), "{target}: {status}");
    }
    assert_eq!(0, origin.requests());
    for target in ["/app/x", "/app/a;b=c", "/app/a%20b", "/pub/free/x"] {
        assert_eq!(200, larder.get(target).status, "{target}");
    }
}

/// `/admin` belongs to `/admin/*`, whatever follows.
#[test]
fn a_directory_without_its_slash_is_redirected_and_not_another_routes() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\napplication");
    let site = format!(
        "[[site.route]]\npath = \"/admin/*\"\n{PROXY}\naccess = {{ deny = [\"127.0.0.1\"] }}\n\
         [[site.route]]\npath = \"/exact/*\"\n{PROXY}\n[[site.route]]\npath = \"/exact\"\nrespond.body = \"own\"\n\
         [[site.route]]\n{PROXY}\n"
    );
    let larder = larder(&origin, &site);
    for (method, target, status) in [
        ("GET", "/admin?a=b", 301),
        ("POST", "/admin", 308),
        ("GET", "/%61dmin", 301),
        ("HEAD", "/admin", 301),
    ] {
        let found = larder.client().request(method, target, "", "");
        let query = target.split_once('?').map_or(String::new(), |it| format!("?{}", it.1));
        assert_eq!(
            (status, Some(&*format!("/admin/{query}"))),
            (found.status, found.field("location")),
            "{method} {target}"
        );
    }
    assert_eq!(403, larder.get("/admin/").status);
    assert_eq!("own", larder.get("/exact").text());
    assert_eq!(0, origin.requests());
}

/// A lifetime of the operator does not suspend the validation that alone permits sharing (RFC 9111 section 3.5).
#[test]
fn a_lifetime_of_the_operator_shares_no_answer_to_credentials() {
    for says in [
        "Cache-Control: max-age=0, must-revalidate\n",
        "Cache-Control: public, no-cache\n",
        "Cache-Control: s-maxage=0\n",
    ] {
        let origin = mirror(says);
        let site = format!("[[site.route]]\n{PROXY}\ncache = {{ override_ttl = \"30s\" }}\n");
        let larder = larder(&origin, &site);
        let alice = larder.client().get_with("/", "Authorization: Bearer alice\r\n").text();
        let bob = larder.client().get_with("/", "Authorization: Bearer bob\r\n").text();
        assert!(alice.contains("alice") && bob.contains("bob"), "{says}: {bob}");
        assert!(!larder.get("/").text().contains("alice"), "{says}");
    }
}

/// A lifetime for clients does not make a page shareable that has none for caches.
#[test]
fn a_lifetime_for_clients_leaves_pages_without_one_alone() {
    let origin = Origin::new(|it| match it.target() {
        "/expires" => "HTTP/1.1 200 OK\nExpires: 0\n\npage".to_owned(),
        "/zero" => "HTTP/1.1 200 OK\nCache-Control: max-age=0, must-revalidate\n\npage".to_owned(),
        "/login" => "HTTP/1.1 302 Found\nLocation: /\n\n".to_owned(),
        _ => "HTTP/1.1 404 Not Found\n\nno".to_owned(),
    });
    let site = format!("[[site.route]]\n{PROXY}\nclient_ttl = \"5m\"\n");
    let larder = larder(&origin, &site);
    for (target, expect) in
        [("/expires", None), ("/zero", Some("max-age=0, must-revalidate")), ("/login", None), ("/none", None)]
    {
        assert_eq!(expect, larder.get(target).field("cache-control"), "{target}");
    }
}

/// The limit of `POST` holds for `post`, which applications take for the same.
#[test]
fn the_case_of_a_method_avoids_no_limit() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\ntried");
    let site = format!(
        "[[site.route]]\npath = \"/login\"\nmethods = [\"POST\"]\n{PROXY}\naccess = {{ limit = {{ rate = \"1/h\" }} }}\n\
         [[site.route]]\n{PROXY}\n"
    );
    let larder = larder(&origin, &site);
    let status = |method: &str| larder.client().request(method, "/login", "", "").status;
    assert_eq!([200, 501, 501, 429], ["POST", "post", "Post", "POST"].map(status));
    assert_eq!(1, origin.requests());
}

/// No reading of a path leaves the directory that a rewrite names.
#[test]
fn a_rewrite_stays_in_its_directory() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let site = format!("[[site.route]]\npath = \"/rw/*\"\n{PROXY}\nrewrite = \"/public{{path}}\"\n");
    let larder = larder(&origin, &site);
    for target in ["/rw/..;/..;/admin", "/rw/%2e%2e;/%2e%2e;/x"] {
        assert_eq!(400, larder.get(target).status, "{target}");
    }
    assert_eq!(0, origin.requests());
    assert_eq!(200, larder.get("/rw/a").status);
}

/// A proxy that is trusted says how the client came, and everything follows it: redirects, fields for the origin, conditions,
/// HSTS and keys.
#[test]
fn the_scheme_of_a_trusted_proxy_counts_everywhere() {
    let origin = Origin::new(|it| {
        let scheme = it.field("x-forwarded-proto").unwrap_or("none");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{scheme}")
    });
    let site = format!(
        "redirect_https = true\nhsts = {{ max_age = \"1h\" }}\n[[site.route]]\npath = \"/own\"\nwhen = 'scheme == \"https\"'\n\
         respond.body = \"{{scheme}}\"\n[[site.route]]\n{PROXY}\n"
    );
    let clients = "clients.trusted = [\"127.0.0.1\"]\n";
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{clients}[[site]]\nhosts = [\"*\"]\n{}",
        site.replace("{origin}", &origin.url())
    ));
    let https = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
    assert_eq!(308, larder.get("/").status);
    assert_eq!(308, larder.client().get_with("/", "X-Forwarded-Proto: http\r\n").status);
    for _ in 0..2 {
        let found = larder.client().get_with("/", https);
        assert_eq!((200, "https".to_owned()), (found.status, found.text()));
        assert_eq!(Some("max-age=3600"), found.field("strict-transport-security"));
    }
    assert_eq!(1, origin.requests());
    assert_eq!("https", larder.client().get_with("/own", https).text());
    // A client that is not the proxy says nothing.
    let other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address).get_with("/", https);
    assert_eq!(308, other.status);
}

/// Error pages and fields of a site are those of every response, with a route and without.
#[test]
fn the_finish_of_a_site_applies_without_a_route() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("404.html");
    std::fs::write(&page, "lost").unwrap();
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let site = format!(
        "response_headers = {{ set = {{ X-Site = \"yes\" }} }}\nerror_pages = {{ 4xx = {page:?} }}\n\
         [[site.route]]\npath = \"/files/*\"\nfiles = {{ root = {:?}, strip = \"/files\" }}\n\
         [[site.route]]\npath = \"/gone\"\nrespond.status = 410\n[[site.route]]\npath = \"/get\"\nmethods = [\"GET\"]\n{PROXY}\n",
        folder.path()
    );
    let larder = larder(&origin, &site);
    for (method, target, status) in [
        ("GET", "/nope", 404),
        ("GET", "/files/nope", 404),
        ("DELETE", "/files/404.html", 405),
        ("GET", "/gone", 410),
        ("POST", "/get", 405),
    ] {
        let found = larder.client().request(method, target, "", "");
        assert_eq!(
            (status, "lost", Some("yes")),
            (found.status, &*found.text(), found.field("x-site")),
            "{method} {target}"
        );
    }
}

/// A short form and a rule for the same field do not make two lines of it.
#[test]
fn a_rule_replaces_a_short_form() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=5\n\npage");
    let site = format!(
        "csp = \"default-src 'self'\"\nclient_ttl = \"1h\"\ncors = {{ origins = [\"https://a.test\"] }}\n\
         response_headers = {{ set = {{ Content-Security-Policy = \"own\", Access-Control-Allow-Origin = \"https://b.test\", \
         Cache-Control = \"public, max-age=7\" }} }}\n[[site.route]]\n{PROXY}\n"
    );
    let larder = larder(&origin, &site);
    let found = larder.client().get_with("/", "Origin: https://a.test\r\n");
    for (name, value) in [
        ("content-security-policy", "own"),
        ("access-control-allow-origin", "https://b.test"),
        ("cache-control", "public, max-age=7"),
    ] {
        let lines: Vec<_> =
            found.fields.iter().filter(|it| it.0.eq_ignore_ascii_case(name)).map(|it| &*it.1).collect();
        assert_eq!(vec![value], lines, "{name}");
    }
}

/// Redirects keep the query unless their target has one; values in a page are text.
#[test]
fn redirects_keep_the_query_and_pages_escape_values() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let site = "[[site.route]]\npath = \"/old/*\"\nredirect.to = \"/new/{1}#top\"\n\
         [[site.route]]\npath = \"/drop\"\nredirect.to = \"/new?\"\n\
         [[site.route]]\npath = \"/own\"\nredirect.to = \"/new?x=1\"\n\
         [[site.route]]\npath = \"/html\"\nrespond = { body = \"<p>{query.q}</p>\", type = \"text/html\" }\n\
         [[site.route]]\npath = \"/json\"\nrespond = { body = '{{\"q\": \"{query.q}\"}}', type = \"application/json\" }\n";
    let larder = larder(&origin, site);
    for (target, location) in [
        ("/old/a?b=c", "/new/a?b=c#top"),
        ("/old/a", "/new/a#top"),
        ("/drop?a", "/new"),
        ("/own?a", "/new?x=1"),
    ] {
        assert_eq!(Some(location), larder.get(target).field("location"), "{target}");
    }
    let q = "?q=%3Cscript%3E%22%27%26";
    assert_eq!("<p>&lt;script&gt;&quot;&#39;&amp;</p>", larder.get(&format!("/html{q}")).text());
    assert_eq!("{\"q\": \"\\u003cscript>\\\"\\u0027&\"}", larder.get(&format!("/json{q}")).text());
}

/// Neither a maintenance nor a redirect of the site answers a load balancer that asks about the process.
#[test]
fn health_is_answered_during_a_maintenance() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let site = "canonical_host = \"www.example.com\"\nmaintenance.enabled = true\n[[site.route]]\npath = \"/healthz\"\n\
                respond.health = \"live\"\n[[site.route]]\nproxy = { to = [\"{origin}\"] }\n";
    let larder = larder(&origin, site);
    assert_eq!(200, larder.get("/healthz").status);
    assert!(matches!(larder.get("/x").status, 308 | 503));
}

/// The kernel chooses the port of the listener with TLS: redirects, and `explain`, name the chosen one.
#[test]
fn a_redirect_to_https_names_the_bound_port() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("clear.sock");
    let authority = Authority::new();
    let list = authority.sign("one", &["one.test"]);
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\", \"unix:{}\"]\n[tls]\ncertificates = [{list}]\n[[site]]\nhosts = [\"one.test\"]\n\
         redirect_https = true\n[[site.route]]\nrespond.body = \"a\"\n",
        socket.display()
    ));
    let place = format!("https://one.test:{}/a", larder.address.port());
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: one.test:8080\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains(&format!("Location: {place}\r\n")), "{text}");
    let explained = larder.admin_post("/api/v1/explain", "{\"url\":\"http://one.test:8080/a\"}").text();
    assert!(explained.contains(&place), "{explained}");
}
