//! Forward auth: a service decides about each request, for hits as for misses. Its fields about a client reach the origin, and
//! fields of the same name from the client do not.

use super::access::larder;
use crate::harness::http2::{Http2, frame, request};
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::tiers::{disk, killed, written};
use crate::harness::{Client, Larder, Origin, closed_address, until};
use std::net::Ipv4Addr;

/// A service that knows sessions by a cookie. `session=NAME` is admitted as NAME.
fn service() -> Origin {
    Origin::new(|asked| {
        let session = asked.field("cookie").and_then(|it| it.split("session=").nth(1)).unwrap_or("");
        match session.split(';').next().unwrap_or("") {
            "" => "HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Bearer realm=\"sso\"\nSet-Cookie: csrf=1; HttpOnly\n\
                   Content-Type: text/html\nCache-Control: public, max-age=600\nX-Note: kept\n\n<p>sign in</p>"
                .to_owned(),
            "banned" => "HTTP/1.1 403 Forbidden\nContent-Type: text/plain\n\nbanned".to_owned(),
            "elsewhere" => "HTTP/1.1 302 Found\nLocation: https://sso.test/?rd=1\nSet-Cookie: a=1\nSet-Cookie: b=2\n\n".to_owned(),
            "broken" => "HTTP/1.1 500 Internal Server Error\n\nsecret trace".to_owned(),
            "teapot" => "HTTP/1.1 404 Not Found\n\n".to_owned(),
            "large" => format!("HTTP/1.1 403 Forbidden\n\n{}", "x".repeat((1 << 20) + 1)),
            "ghost" => "HTTP/1.1 204 No Content\n\n".to_owned(),
            "renewed" => {
                "HTTP/1.1 200 OK\nX-Auth-Request-User: renewed\nSet-Cookie: session=new; Path=/\nSet-Cookie: csrf=2\n\n".to_owned()
            }
            name => format!(
                "HTTP/1.1 202 Accepted\nX-Auth-Request-User: {name}\nX-Groups: one\nX-Groups: two\nX-Other: not copied\n\nok"
            ),
        }
    })
}

/// An origin whose pages name the user for whom they were made.
fn pages() -> Origin {
    let count = std::sync::atomic::AtomicUsize::new(1);
    Origin::new(move |asked| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let user = asked.field("x-auth-request-user").unwrap_or("none");
        format!(
            "HTTP/1.1 200 OK\nCache-Control: public, max-age=600\nETag: \"{number}\"\n\npage {number} of {user}"
        )
    })
}

/// The values of a field of a request, each line one.
fn values<'r>(request: &'r Received, name: &str) -> Vec<&'r str> {
    let lines = request.head.lines().filter_map(|it| it.split_once(':'));
    lines.filter(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.trim()).collect()
}

const COPY: &str = "copy = [\"X-Auth-Request-User\", \"X-Groups\"]";

/// A larder whose only route asks `service`, with more keys of `access.forward` and of `access`.
fn guarded(origin: &Origin, service: &Origin, forward: &str, access: &str) -> Larder {
    larder(origin, &route(service, forward, access))
}

fn route(service: &Origin, forward: &str, access: &str) -> String {
    format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n\
         access = {{ forward = {{ to = \"{}\", path = \"/auth?x=1\", {COPY}{forward} }}{access} }}\n",
        service.url()
    )
}

fn session(name: &str) -> String {
    format!("Cookie: a=b; session={name}\r\n")
}

fn over_http2(larder: &Larder, path: &str, fields: &[(&str, &str)]) -> crate::harness::http2::Answer {
    let mut http2 = Http2::connect(larder);
    let stream = http2.head(&request("GET", path, fields), 5);
    http2.answer(stream)
}

#[test]
fn the_service_admits_refuses_and_redirects() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", "");
    let mut client = larder.client();
    let none = client.get("/a");
    assert_eq!((401, "<p>sign in</p>"), (none.status, &*none.text()));
    let fields = ["www-authenticate", "set-cookie", "content-type", "cache-control", "x-note"]
        .map(|it| none.field(it));
    let expect = ["Bearer realm=\"sso\"", "csrf=1; HttpOnly", "text/html", "no-store", "kept"].map(Some);
    assert_eq!(expect, fields);
    assert_eq!(1, none.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("cache-control")).count());
    let banned = client.get_with("/a", &session("banned"));
    assert_eq!(
        (403, "banned", Some("no-store")),
        (banned.status, &*banned.text(), banned.field("cache-control"))
    );
    let elsewhere = client.get_with("/a", &session("elsewhere"));
    assert_eq!((302, Some("https://sso.test/?rd=1")), (elsewhere.status, elsewhere.field("location")));
    assert_eq!(2, elsewhere.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("set-cookie")).count());
    let head = client.request("HEAD", "/a", "", "");
    assert_eq!((401, ""), (head.status, &*head.text()));
    assert_eq!(401, over_http2(&larder, "/a", &[]).status);
    assert_eq!(401, client.request("PURGE", "/a", "", "").status);
    assert_eq!(0, origin.requests());
    assert_eq!("page 1 of alice", client.get_with("/a", &session("alice")).text());
    assert_eq!("page 2 of alice", client.request("POST", "/a", &session("alice"), "body").text());
    assert_eq!("page 3 of bob", over_http2(&larder, "/a", &[("cookie", "session=bob")]).text());
    assert_eq!(
        "page 4 of alice",
        client.get_with("/a", &session("alice")).text(),
        "nothing is stored by default"
    );
    for it in service.received() {
        assert_eq!("GET /auth?x=1 HTTP/1.1", it.line());
        assert_eq!((None, None), (it.field("content-length"), it.field("transfer-encoding")));
    }
    for it in origin.received() {
        assert_eq!(None, it.field("x-other"));
        assert_eq!(vec!["one", "two"], values(&it, "x-groups"));
    }
    assert_eq!(10, larder.counter("access_forward_asked"));
}

/// A refusal of the service has the error page of the route, if there is one for its status; a redirect has none.
#[test]
fn a_refusal_of_the_service_has_the_error_page_of_the_route() {
    let (origin, service) = (pages(), service());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("401.html"), "<h1>ours</h1>").unwrap();
    let page = format!("error_pages = {{ 401 = \"{}/401.html\" }}\n", folder.path().display());
    let larder = larder(&origin, &(route(&service, "", "") + &page));
    let it = larder.get("/a");
    assert_eq!((401, "<h1>ours</h1>".to_owned()), (it.status, it.text()));
    let fields = ["www-authenticate", "content-type", "set-cookie", "x-note"].map(|it_is| it.field(it_is));
    assert_eq!([Some("Bearer realm=\"sso\""), Some("text/html; charset=utf-8"), None, Some("kept")], fields);
    assert!(it.field("cache-control").unwrap().contains("no-store"));
    let over_h2 = over_http2(&larder, "/a", &[]);
    assert_eq!((401, "<h1>ours</h1>".to_owned()), (over_h2.status, over_h2.text()));
    let banned = larder.client().get_with("/a", &session("banned"));
    assert_eq!((403, "banned".to_owned()), (banned.status, banned.text()));
    let elsewhere = larder.client().get_with("/a", &session("elsewhere"));
    assert_eq!((302, Some("https://sso.test/?rd=1")), (elsewhere.status, elsewhere.field("location")));
    assert_eq!(0, origin.requests());
}

#[test]
fn without_an_answer_nothing_is_admitted() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", "");
    for name in ["broken", "teapot", "large"] {
        let closed = larder.client().get_with("/", &session(name));
        assert_eq!((503, Some("no-store")), (closed.status, closed.field("cache-control")), "{name}");
        assert!(!closed.text().contains("secret"), "{}", closed.text());
    }
    assert_eq!(3, larder.counter("access_forward_failures"));
    let (_closed, gone) = closed_address();
    let silent = Origin::scripted(|_| vec![Script::Gate(Gate::new())]);
    let garbage =
        Origin::scripted(|_| vec![Script::Send(b"HTTP/1.1 2000 OK\r\n\r\n".to_vec()), Script::Close]);
    let cut = Origin::scripted(|_| {
        vec![
            Script::Send(
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX-Auth-Request-User: a\r\n\r\nab".to_vec(),
            ),
            Script::Close,
        ]
    });
    for to in [format!("http://{gone}"), silent.url(), garbage.url(), cut.url()] {
        let site = route(&service, ", timeout = \"300ms\"", "").replace(&service.url(), &to);
        let larder = super::access::larder(&origin, &site);
        assert_eq!(503, larder.client().get_with("/", &session("alice")).status, "{to}");
        assert_eq!(503, over_http2(&larder, "/", &[("cookie", "session=alice")]).status, "{to}");
        assert_eq!(2, larder.counter("access_forward_failures"));
    }
    assert_eq!(0, origin.requests());
}

#[test]
fn a_service_that_fails_is_logged_without_the_client() {
    let (origin, service) = (pages(), service());
    let site = route(&service, "", "") + "[log]\naccess = \"off\"\nerror = \"error.log\"\n";
    let larder = super::access::larder(&origin, &site);
    larder.client().get_with("/", &session("broken"));
    let log = || larder.error_log();
    until("it is logged", || log().contains("auth-service-failed"));
    assert!(log().contains("it answered 500") && log().contains(&service.url()), "{}", log());
    assert!(!log().contains("session") && !log().contains("secret"), "{}", log());
}

/// Fields in which a client claims to be somebody, in every spelling that an application may read as the copied one.
const CLAIMS: [&str; 7] = [
    "X-Auth-Request-User",
    "x-auth-request-user",
    "X-AUTH_REQUEST-USER",
    "x_auth_request_user",
    "X.Auth.Request.User",
    "X-Groups",
    "X_Groups",
];

#[test]
fn identity_fields_of_a_client_reach_no_origin() {
    for access in
        ["", ", key = \"identity\"", ", shared = true", ", allow = [\"127.0.0.2\"], satisfy = \"any\""]
    {
        let (origin, service) = (pages(), service());
        let larder = guarded(&origin, &service, "", access);
        for claim in CLAIMS {
            let lines = |name: &str| format!("{}{claim}: root\r\n", session(name));
            for name in ["ghost", "alice"] {
                assert_eq!(200, larder.client().get_with(&format!("/{claim}"), &lines(name)).status);
                assert_eq!(200, larder.client().request("POST", "/", &lines(name), "x").status);
            }
            let lower = claim.to_ascii_lowercase();
            let fields = [("cookie", "session=ghost"), (lower.as_str(), "root")];
            assert_eq!(200, over_http2(&larder, "/", &fields).status);
            if access.contains("any") {
                let near = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
                assert_eq!(200, { near }.request("POST", "/", &lines("ghost"), "x").status);
            }
        }
        for it in origin.received().iter().chain(&service.received()) {
            assert!(!it.head.contains("root"), "{access}: {}", it.head);
        }
    }
}

/// A client must not hide from the origin who it is.
/// A page of a route without rules was made for the identity that a client claimed, and stored for all.
#[test]
fn the_claims_of_a_client_reach_no_other_route_of_the_site() {
    let (origin, service) = (pages(), service());
    let open = "[[site.route]]\npath = \"/open/*\"\nproxy = { to = [\"{origin}\"] }\n\
                [[site.route]]\npath = \"/office/*\"\naccess = { allow = [\"127.0.0.0/8\"] }\nproxy = { to = [\"{origin}\"] }\n";
    let larder = larder(&origin, &(open.to_owned() + &route(&service, "", "")));
    for (number, path) in ["/open/", "/office/"].into_iter().enumerate() {
        for spelling in ["X-Auth-Request-User", "x_auth_request_user"] {
            let target = format!("{path}{spelling}");
            let mut client = larder.client();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{spelling}: root\r\n\r\n"));
            assert!(client.read().text().ends_with("of none"), "{target}");
            let asked = over_http2(&larder, &format!("{target}/2"), &[(&spelling.to_lowercase(), "root")]);
            assert!(asked.text().ends_with("of none"), "{number} {target}");
        }
    }
    for asked in origin.received() {
        assert!(!asked.head.contains("root"), "{}", asked.head);
    }
}

/// The cookie of a session is one of the service or of the application: with one, a client that its address admits is somebody.
#[test]
fn a_session_of_a_client_that_its_address_admits_is_not_shared() {
    let service = service();
    let origin = Origin::new(|asked| {
        let cookie = asked.field("cookie").unwrap_or("none").to_owned();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{cookie}")
    });
    let access = ", satisfy = \"any\", allow = [\"127.0.0.2\"], key = \"identity\"";
    let larder = guarded(&origin, &service, "", access);
    let office = || Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    for name in ["one", "two"] {
        assert!(office().get_with("/p", &session(name)).text().ends_with(name));
    }
    assert_eq!("none", office().get("/p").text());
    assert!(office().get("/p").is_hit(), "without a session it is shared");
}

#[test]
fn a_nomination_in_connection_hides_no_identity() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", "");
    let lines = format!("{}Connection: keep-alive, x-auth-request-user\r\n", session("alice"));
    for method in ["GET", "POST"] {
        assert_eq!(400, larder.client().request(method, "/", &lines, "").status);
    }
    assert_eq!(0, origin.requests());
}

#[test]
fn hits_are_admitted_and_each_identity_has_its_own() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", ", key = \"identity\"");
    let get = |name: &str| larder.client().get_with("/", &session(name));
    assert_eq!("page 1 of alice", get("alice").text());
    until("it is stored", || get("alice").is_hit());
    assert_eq!("page 2 of bob", get("bob").text());
    for (name, expect) in [("alice", "page 1 of alice"), ("bob", "page 2 of bob")] {
        let asked = service.requests();
        let hit = get(name);
        assert_eq!((true, expect), (hit.is_hit(), &*hit.text()));
        let hit = over_http2(&larder, "/", &[("cookie", &format!("session={name}"))]);
        assert_eq!(expect, hit.text());
        assert_eq!(asked + 2, service.requests(), "a hit is asked about");
    }
    // A client without an identity neither gets a stored page nor leaves one.
    assert_eq!("page 3 of none", get("ghost").text());
    assert_eq!("page 4 of none", get("ghost").text());
    for name in ["", "banned", "elsewhere", "broken"] {
        let refused = get(name);
        assert!(refused.status >= 300 && !refused.text().contains("page 1"), "{name}: {}", refused.text());
    }
    assert_eq!(4, origin.requests());
}

#[test]
fn the_disk_keeps_identities_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (origin, service) = (pages(), service());
    let site = route(&service, "", ", key = \"identity\"") + &disk(folder.path());
    let first = super::access::larder(&origin, &site);
    let get = |larder: &Larder, name: &str| larder.client().get_with("/", &session(name));
    assert_eq!("page 1 of alice", get(&first, "alice").text());
    assert_eq!("page 2 of bob", get(&first, "bob").text());
    written(&first, 2);
    killed(first);
    let second = super::access::larder(&origin, &site);
    for (name, expect) in [("bob", "page 2 of bob"), ("alice", "page 1 of alice")] {
        let hit = get(&second, name);
        assert_eq!((true, expect), (hit.is_hit(), &*hit.text()));
    }
    assert_eq!((401, "page 3 of none"), (get(&second, "").status, &*get(&second, "ghost").text()));
}

#[test]
fn requests_of_two_clients_wait_for_no_common_fetch() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |asked: &Received| {
        let user = asked.field("x-auth-request-user").unwrap_or("none").to_owned();
        let page = format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\npage of {user}");
        vec![Script::Gate(held.clone()), Script::Send(response(&page))]
    });
    let service = service();
    let larder = guarded(&origin, &service, "", ", key = \"identity\"");
    let mut clients: Vec<_> = ["alice", "bob", "alice", "bob"].map(|name| (larder.client(), name)).into();
    for (client, name) in &mut clients {
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", session(name)));
    }
    until("one fetch for each client", || gate.waiting() == 2 && larder.counter("requests_collapsed") == 2);
    gate.open();
    for (client, name) in &mut clients {
        assert_eq!(format!("page of {name}"), client.read().text());
    }
    assert_eq!(2, origin.requests());
}

/// Clients of whom the application learns the same get one page.
#[test]
fn a_shared_page_is_that_of_clients_with_the_same_fields() {
    let (origin, service) = (pages(), service());
    let site = route(&service, "", ", shared = true").replace("\"X-Auth-Request-User\", ", "");
    let larder = super::access::larder(&origin, &site);
    assert_eq!("page 1 of none", larder.client().get_with("/", &session("alice")).text());
    until("it is stored", || larder.client().get_with("/", &session("bob")).is_hit());
    assert_eq!("page 2 of none", larder.client().get_with("/", &session("ghost")).text(), "without groups");
    assert_eq!(401, larder.get("/").status);
    assert_eq!(vec!["one", "two"], values(&origin.received()[0], "x-groups"));
    let larder = guarded(&origin, &service, "", ", shared = true");
    assert_eq!("page 3 of alice", larder.client().get_with("/", &session("alice")).text());
    assert_eq!("page 4 of bob", larder.client().get_with("/", &session("bob")).text());
}

#[test]
fn a_renewed_session_reaches_its_client_alone() {
    let (origin, service) = (pages(), service());
    let site = route(&service, ", ttl = \"60s\"", ", shared = true").replace(&format!("{COPY}, "), "");
    let larder = super::access::larder(&origin, &site);
    let get = |lines: &str| larder.client().get_with("/", lines);
    let cookies = |it: &crate::harness::Response| -> Vec<String> {
        it.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("set-cookie")).map(|it| it.1.clone()).collect()
    };
    let expect = ["session=new; Path=/", "csrf=2"];
    // On a miss, on a hit, and with a 304.
    let miss = get(&session("renewed"));
    assert_eq!((200, expect.map(str::to_owned).to_vec()), (miss.status, cookies(&miss)));
    assert_eq!(Some("private, no-cache"), miss.field("cache-control"));
    until("it is stored", || get(&session("alice")).is_hit());
    let hit = get(&session("renewed"));
    assert_eq!((true, expect.map(str::to_owned).to_vec()), (hit.is_hit(), cookies(&hit)));
    let same = get(&format!("{}If-None-Match: \"1\"\r\n", session("renewed")));
    assert_eq!((304, expect.map(str::to_owned).to_vec()), (same.status, cookies(&same)));
    let fields = [("cookie", "session=renewed")];
    let answer = over_http2(&larder, "/", &fields);
    assert_eq!(2, answer.fields.iter().filter(|it| it.0 == "set-cookie").count());
    let other = get(&session("alice"));
    assert_eq!((Vec::new(), Some("public, max-age=600")), (cookies(&other), other.field("cache-control")));
    assert!(service.requests() >= 5, "an answer with a cookie is not reused");
}

#[test]
fn answers_are_reused_for_the_same_question_until_they_expire() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, ", ttl = \"10s\"", ", key = \"identity\"");
    larder.hold();
    let get = |path: &str, lines: &str| larder.client().get_with(path, lines);
    let asked = |count: usize| assert_eq!(count, service.requests());
    let alice = session("alice");
    assert_eq!("page 1 of alice", get("/", &alice).text());
    until("it is stored", || get("/", &alice).is_hit());
    asked(1);
    assert_eq!("page 1 of alice", over_http2(&larder, "/", &[("cookie", "a=b; session=alice")]).text());
    assert_eq!(1, service.requests(), "over another protocol");
    // Every other question is a question: another method, URL, cookie, field, address, host.
    larder.client().request("POST", "/", &alice, "");
    asked(2);
    get("/?q", &alice);
    asked(3);
    get("/", "Cookie: session=alice\r\n");
    asked(4);
    get("/", &format!("{alice}X-Api-Key: 1\r\n"));
    asked(5);
    Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), larder.address).get_with("/", &alice);
    asked(6);
    larder.client().send(format!("GET / HTTP/1.1\r\nHost: other\r\n{alice}\r\n")).read();
    asked(7);
    // Refusals are not reused.
    assert_eq!([401, 401], ["/", "/"].map(|it| larder.get(it).status));
    asked(9);
    larder.pass(9_999);
    assert!(get("/", &alice).is_hit());
    asked(9);
    larder.pass(1);
    assert!(get("/", &alice).is_hit());
    asked(10);
}

#[test]
fn a_narrow_key_reuses_answers_for_other_urls() {
    let (origin, service) = (pages(), service());
    let forward = ", ttl = \"10s\", key = [\"cookie:session\"]";
    let larder = guarded(&origin, &service, forward, "");
    larder.hold();
    for path in ["/a", "/b?c", "//c"] {
        let page = larder.client().get_with(path, &format!("{}X-Odd: {path}\r\n", session("alice")));
        assert!(page.text().ends_with("of alice"), "{path}: {}", page.text());
    }
    assert_eq!(1, service.requests());
    assert_eq!("/c", origin.received()[2].target(), "as the service would have been told");
    for lines in ["", "Cookie: session=\r\n", "Cookie: session=alice; session=bob\r\n"] {
        larder.client().get_with("/a", lines);
    }
    assert_eq!(4, service.requests());
}

/// A session that is too large for one cookie, as oauth2-proxy and Auth.js cut it: the named cookie itself is absent for everybody then.
#[test]
fn an_answer_is_not_reused_for_a_client_without_the_named_cookie() {
    let (origin, service) = (
        pages(),
        Origin::new(|asked| match asked.field("cookie").and_then(|it| it.split("session_0=").nth(1)) {
            Some(name) => format!("HTTP/1.1 200 OK\nX-Auth-Request-User: {name}\n\n"),
            None => "HTTP/1.1 401 Unauthorized\n\n".to_owned(),
        }),
    );
    for (access, key) in
        [("", "cookie:session"), (", key = \"identity\"", "cookie:session"), ("", "header:x-session")]
    {
        let larder = guarded(&origin, &service, &format!(", ttl = \"10s\", key = [\"{key}\"]"), access);
        larder.hold();
        let get = |lines: &str| larder.client().get_with("/a", lines);
        for name in ["alice", "bob", "alice"] {
            let page = get(&format!("Cookie: session_0={name}\r\n"));
            assert!(page.text().ends_with(&format!("of {name}")), "{key}: {}", page.text());
        }
        for lines in ["", "Cookie: session_x=1\r\n", "Cookie: other=1\r\n", "X-Session:\r\n"] {
            assert_eq!(401, get(lines).status, "{key}: {lines}");
        }
    }
}

#[test]
fn other_fields_of_the_service_cannot_be_sent_by_clients() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", "");
    let own = "X-Auth-Request-Groups: admins\r\nx_auth_request_preferred_username: root\r\nX-Auth-Other: 1\r\nX-Other: 1\r\n";
    let page = larder.client().get_with("/a", &format!("{own}{}", session("alice")));
    assert!(page.text().ends_with("of alice"));
    let received = origin.received();
    let received = received.last().unwrap();
    for (name, sent) in [
        ("x-auth-request-groups", None),
        ("x_auth_request_preferred_username", None),
        ("x-auth-other", Some("1")),
        ("x-other", Some("1")),
    ] {
        assert_eq!(sent, received.field(name), "{name}");
    }
    assert_eq!(None, service.received().last().unwrap().field("x-auth-request-groups"));
}

#[test]
fn the_auth_service_gets_the_path_that_is_routed_and_sent() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", "");
    for (target, report, sent) in [
        ("/a?b=/../c", "/a?b=/../c", "/a?b=/../c"),
        ("/a%20b", "/a%20b", "/a%20b"),
        ("/%61dmin", "/admin", "/%61dmin"),
        ("/public/../admin", "/admin", "/admin"),
        ("/public/%2e%2E/admin?x", "/admin?x", "/admin?x"),
        ("//admin//", "/admin/", "/admin/"),
    ] {
        assert_eq!(200, larder.client().get_with(target, &session("alice")).status, "{target}");
        let (asked, received) = (service.received(), origin.received());
        let (asked, received) = (asked.last().unwrap(), received.last().unwrap());
        assert_eq!(
            (Some(report), Some(report)),
            (asked.field("x-forwarded-uri"), asked.field("x-original-uri"))
        );
        assert_eq!(sent, received.target(), "{target}");
    }
    let before = (service.requests(), origin.requests());
    for target in [
        "/public%2f..%2fadmin",
        "/public\\..\\admin",
        "/public/..%5cadmin",
        "/admin;x",
        "/public/..;/admin",
        "/a%3bb",
        "/%00",
        "/%zz",
    ] {
        assert_eq!(400, larder.client().get_with(target, &session("alice")).status, "{target}");
        assert_eq!(400, over_http2(&larder, target, &[("cookie", "session=alice")]).status, "{target}");
    }
    assert_eq!(before, (service.requests(), origin.requests()));
}

#[test]
fn the_auth_service_gets_the_request_without_claims_of_the_client() {
    let (origin, service) = (pages(), service());
    let larder = guarded(&origin, &service, "", "");
    let claims = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Uri: /free\r\nX-Forwarded-Method: TRACE\r\nX-Forwarded-Host: evil\r\n\
                  X-Forwarded-Proto: https\r\nX-Original-URL: /free\r\nX_Forwarded_Uri: /free\r\nX-Original-URI: /free\r\n\
                  Forwarded: for=6.6.6.6\r\nX-HTTP-Method-Override: GET\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-User: root\r\n\
                  Remote-User: root\r\nRange: bytes=0-1\r\nIf-None-Match: \"a\"\r\nAccept-Encoding: gzip\r\nTE: trailers\r\n\
                  Authorization: Bearer t\r\nX-Api-Key: k\r\nUser-Agent: u\r\n";
    let mut client = larder.client();
    client.send(format!("DELETE /a?b HTTP/1.1\r\nHost: EXAMPLE.test.\r\n{}{claims}\r\n", session("alice")));
    assert_eq!(200, client.read().status);
    let asked = &service.received()[0];
    for (name, expect) in [
        ("host", Some(service.address.to_string())),
        ("x-forwarded-for", Some("127.0.0.1".to_owned())),
        ("x-forwarded-method", Some("DELETE".to_owned())),
        ("x-forwarded-proto", Some("http".to_owned())),
        ("x-forwarded-host", Some("example.test".to_owned())),
        ("x-forwarded-uri", Some("/a?b".to_owned())),
        ("x-original-method", Some("DELETE".to_owned())),
        ("x-original-url", Some("http://example.test/a?b".to_owned())),
        ("authorization", Some("Bearer t".to_owned())),
        ("cookie", Some("a=b; session=alice".to_owned())),
        ("x-api-key", Some("k".to_owned())),
        ("user-agent", Some("u".to_owned())),
        ("range", None),
        ("if-none-match", None),
        ("accept-encoding", None),
        ("te", None),
        ("forwarded", None),
        ("x-real-ip", None),
        ("x-forwarded-user", None),
        ("remote-user", None),
        ("x-http-method-override", None),
        ("x_forwarded_uri", None),
    ] {
        assert_eq!(expect.iter().map(String::as_str).collect::<Vec<_>>(), values(asked, name), "{name}");
    }
}

#[test]
fn a_response_of_the_auth_service_splits_no_response() {
    let odd = Origin::scripted(|asked: &Received| {
        let head = match asked.field("x-case").unwrap_or("") {
            "folded" => "HTTP/1.1 401 No\r\nWWW-Authenticate: a\r\n b: c\r\nContent-Length: 0\r\n\r\n",
            "bare" => "HTTP/1.1 302 Found\r\nLocation: /a\nX-Injected: 1\r\nContent-Length: 0\r\n\r\n",
            "return" => {
                "HTTP/1.1 200 OK\r\nX-Auth-Request-User: a\rX-Injected: 1\r\nContent-Length: 0\r\n\r\n"
            }
            "nul" => "HTTP/1.1 200 OK\r\nX-Auth-Request-User: a\0b\r\nContent-Length: 0\r\n\r\n",
            _ => {
                "HTTP/1.1 401 No\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\na\r\n0\r\nX-Injected: 1\r\n\r\n"
            }
        };
        vec![Script::Send(head.as_bytes().to_vec()), Script::Close]
    });
    let origin = pages();
    let larder = guarded(&origin, &odd, "", "");
    for case in ["folded", "bare", "return", "nul", "chunked"] {
        let lines = format!("X-Case: {case}\r\n");
        let mut client = larder.client();
        let found = client.get_with("/", &lines);
        assert!(matches!(found.status, 401 | 302 | 503), "{case}: {}", found.status);
        let names: Vec<_> = found.fields.iter().map(|it| it.0.to_ascii_lowercase()).collect();
        for name in ["x-injected", "b", "x-hop", "trailer"] {
            assert!(!names.iter().any(|it| it == name), "{case}: {names:?}");
        }
        // The connection is in step.
        assert!(matches!(client.get_with("/", &lines).status, 401 | 302 | 503), "{case}");
        let fields = [("x-case", case)];
        let answer = over_http2(&larder, "/", &fields);
        assert!(matches!(answer.status, 401 | 302 | 503) && answer.field("x-injected").is_none(), "{case}");
    }
    assert_eq!(0, origin.requests());
}

#[test]
fn a_request_that_its_client_cancels_leaves_no_question_behind() {
    let gate = Gate::new();
    let held = gate.clone();
    let slow = Origin::scripted(move |_| {
        vec![Script::Gate(held.clone()), Script::Send(response("HTTP/1.1 200 OK\n\n"))]
    });
    let origin = pages();
    // Longer than the test waits.
    let larder = guarded(&origin, &slow, ", timeout = \"5m\"", "");
    let mut client = Http2::connect(&larder);
    let stream = client.head(&request("GET", "/1", &[("cookie", "session=alice")]), 5);
    until("it is asked about", || gate.waiting() == 1);
    let before = larder.descriptors();
    client.send(frame(3, 0, stream, &8_u32.to_be_bytes()));
    until("the connection to the service is closed", || larder.descriptors() < before);
    gate.open();
    assert_eq!("page 1 of none", client.get("/2").text());
    assert_eq!(1, origin.requests(), "no cancelled request is sent");
}

#[test]
fn credentials_are_combined() {
    const ALICES: &str = "Authorization: Basic YWxpY2U6d29uZGVybGFuZA==\r\n";
    let user = "alice:$2y$05$UD6gFkr4.LmNLAPQv3CJPOZz2WgIj/K6nBQaGDzzdRfvsMYGVQXBu";
    let made = std::process::Command::new("htpasswd").args(["-nbB", "alice", "wonderland"]).output().unwrap();
    let user = if made.status.success() {
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    } else {
        user.to_owned()
    };
    let basic = format!(", basic = {{ users = [\"{user}\"] }}");
    let (origin, service) = (pages(), service());
    let larder_any = guarded(&origin, &service, "", &format!("{basic}, satisfy = \"any\""));
    let get = |larder: &Larder, lines: &str| larder.client().get_with("/", lines);
    let refused = get(&larder_any, "");
    let challenges: Vec<_> = refused
        .fields
        .iter()
        .filter(|it| it.0.eq_ignore_ascii_case("www-authenticate"))
        .map(|it| it.1.as_str())
        .collect();
    assert_eq!((401, 2), (refused.status, challenges.len()), "{challenges:?}");
    let asked = service.requests();
    assert_eq!(200, get(&larder_any, ALICES).status);
    assert_eq!(asked, service.requests(), "the password is enough");
    assert_eq!(200, get(&larder_any, &session("bob")).status);
    let larder_all = guarded(&origin, &service, "", &basic);
    assert_eq!([401, 401], ["", &session("bob")].map(|it| get(&larder_all, it).status));
    assert_eq!(401, get(&larder_all, ALICES).status);
    assert_eq!(200, get(&larder_all, &format!("{ALICES}{}", session("bob"))).status);
    let report = service.received();
    assert!(report.iter().all(|it| it.field("authorization").is_none()), "the password is larder's");
}

#[test]
fn a_client_without_a_session_is_sent_to_sign_in() {
    let (origin, service) = (pages(), service());
    let site = format!(
        "access = {{ forward = {{ to = \"{0}\", redirect = \"/oauth2/start?rd={{url}}\" }} }}\n\
         [[site.route]]\npath = \"/oauth2/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.inherit = false\n\
         [[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n",
        service.url()
    );
    let larder = super::access::larder(&origin, &site);
    let page = larder.get("/a%20b?c=d&e=/%22");
    let expect = "/oauth2/start?rd=http%3A%2F%2Fh%2Fa%2520b%3Fc%3Dd%26e%3D%2F%2522";
    assert_eq!((302, Some(expect)), (page.status, page.field("location")));
    assert_eq!(
        (Some("csrf=1; HttpOnly"), Some("no-store")),
        (page.field("set-cookie"), page.field("cache-control"))
    );
    assert_eq!(401, larder.client().request("POST", "/a", "", "x").status, "a form is not sent elsewhere");
    assert_eq!(403, larder.client().get_with("/", &session("banned")).status);
    let asked = service.requests();
    assert_eq!("page 1 of none", larder.get(expect).text());
    assert_eq!(asked, service.requests());
    let mut client = larder.client();
    client.send("GET / HTTP/1.1\r\nHost: a\"b\r\n\r\n");
    assert!(matches!(client.read().status, 302 | 400));
}
