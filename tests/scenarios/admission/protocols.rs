//! Answers before the cache are the same over HTTP/1.1, HTTP/2 and HTTP/3, at both speeds, although their pages are stored.

use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::quic::{QuicClient, headers};
use crate::harness::secure::{Authority, Trusting};
use crate::harness::{Client, Larder, Origin, until};
use crate::scenarios::access_basic::users;
use std::net::SocketAddr;

/// A larder with HTTP/3, and with the other protocols at an address without TLS.
struct ThreeProtocols {
    larder: Larder,
    clear: SocketAddr,
    trusting: Trusting,
    _authority: Authority,
}

/// A response without the fields of one protocol.
#[derive(Debug, PartialEq, Eq)]
struct Comparable {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

impl Comparable {
    fn new(status: u16, fields: &[(String, String)], body: &[u8]) -> Self {
        let mut fields: Vec<_> = fields.iter().map(|it| (it.0.to_ascii_lowercase(), it.1.clone())).collect();
        fields.retain(|it| ![":status", "date", "connection", "alt-svc"].contains(&it.0.as_str()));
        fields.sort();
        Self { status, fields, body: String::from_utf8_lossy(body).into_owned() }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    fn is_hit(&self) -> bool {
        self.field("cache-status").is_some_and(|it| it.contains("; hit"))
    }
}

impl ThreeProtocols {
    fn start(origin: &Origin, routes: &str) -> Self {
        let authority = Authority::new();
        let certificate = authority.sign("one", &["h"]);
        let config = format!(
            "listen = [\"https://127.0.0.1:0\", \"127.0.0.1:0\"]\nhttp3 = true\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n\
             [[site]]\nhosts = [\"*\"]\n{}\n",
            routes.replace("{origin}", &origin.url())
        );
        let larder = Larder::configured(config);
        let clear = larder.printed();
        let clear = clear.lines().find_map(|it| it.strip_prefix("listening on http://")?.parse().ok());
        Self { clear: clear.unwrap(), larder, trusting: authority.trusting(), _authority: authority }
    }

    /// The responses to one request over each protocol, of which number `at` sends the fields `fields(at)`.
    fn fetch<'f>(
        &self,
        method: &'f str,
        path: &'f str,
        fields: impl Fn(usize) -> Vec<(&'f str, &'f str)>,
    ) -> [Comparable; 3] {
        let lines: String = fields(1).iter().map(|it| format!("{}: {}\r\n", it.0, it.1)).collect();
        let one = Client::connect(self.clear).request(method, path, &lines, "");
        let mut http2 = Http2::over(std::net::TcpStream::connect(self.clear).unwrap(), &[]);
        let id = http2.head(&request(method, path, &fields(2)), END_STREAM);
        let two = http2.answer(id);
        let mut quic = QuicClient::begin(self.larder.address, &self.trusting, "h");
        let own = [(":method", method), (":scheme", "https"), (":authority", "h"), (":path", path)];
        let id = quic.bi(&headers(&[&own[..], &fields(3)].concat()), true);
        let three = quic.response(id).unwrap();
        [
            Comparable::new(one.status, &one.fields, &one.body),
            Comparable::new(two.status, &two.fields, &two.body),
            Comparable::new(three.status, &three.fields, &three.body),
        ]
    }

    /// The one response that each protocol has to a request.
    #[track_caller]
    fn same(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Comparable {
        let [one, two, three] = self.fetch(method, path, |_| fields.to_vec());
        assert_eq!(one, two, "HTTP/1.1 and HTTP/2: {method} {path}");
        assert_eq!(one, three, "HTTP/1.1 and HTTP/3: {method} {path}");
        one
    }

    /// Reloads with `to` in place of the comment `from`.
    fn set(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.larder.config()).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(self.larder.config(), text.replace(from, to)).unwrap();
        let reloads = self.larder.counter("config_reloads");
        self.larder.signal(libc::SIGHUP);
        until("a reload", || self.larder.counter("config_reloads") > reloads);
    }
}

/// A refusal by a rate: its status, the names of its fields, whose values change with the time, and its body.
#[track_caller]
fn at_limit(it: Comparable) -> (u16, Vec<String>, String) {
    let wait: u32 = it.field("retry-after").and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!(it.status == 429 && (3000..=3600).contains(&wait), "{it:?}");
    (it.status, it.fields.into_iter().map(|it| it.0).collect(), it.body)
}

const PAGES: [&str; 4] = ["/basic/a", "/deny/a", "/limit/a", "/moved/a"];

/// Routes whose rules are comments.
const ROUTES: &str = "#maintenance\n\
    [[site.route]]\npath = \"/basic/*\"\nproxy.to = \"{origin}\"\n#basic\n\
    [[site.route]]\npath = \"/deny/*\"\nproxy.to = \"{origin}\"\n#deny\n\
    [[site.route]]\npath = \"/limit/*\"\nproxy.to = \"{origin}\"\n#limit\n\
    #redirect\n[[site.route]]\npath = \"/*\"\nproxy.to = \"{origin}\"\n";

const ALICE: (&str, &str) = ("authorization", "Basic YWxpY2U6d29uZGVybGFuZA==");
const WRONG: (&str, &str) = ("authorization", "Basic YWxpY2U6d3Jvbmc=");

#[test]
fn rules_of_admission_precede_stored_pages_over_three_protocols() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: public, max-age=6000\n\nsecret page");
    let front = ThreeProtocols::start(&origin, ROUTES);
    for path in PAGES {
        front.fetch("GET", path, |_| Vec::new());
        assert!(front.fetch("GET", path, |_| Vec::new()).iter().all(Comparable::is_hit), "{path} is stored");
    }
    let asked = origin.requests();
    let [alice, _] = users();
    front.set(
        "#basic",
        &format!("access = {{ basic = {{ realm = \"staff\", users = [\"{alice}\"] }}, shared = true }}"),
    );
    front.set("#deny", "access.deny = [\"127.0.0.1\"]");
    front.set("#limit", "access.limit = { rate = \"1/h\", by = \"header:X-Bucket\" }");
    front.set(
        "#redirect",
        "[[site.route]]\npath = \"/moved/*\"\nredirect = { to = \"/new{uri}\", status = 308 }",
    );
    for method in ["GET", "HEAD", "POST"] {
        for fields in [&[][..], &[WRONG]] {
            let refused = front.same(method, "/basic/a", fields);
            assert_eq!((401, Some("no-store")), (refused.status, refused.field("cache-control")));
            assert_eq!(Some("Basic realm=\"staff\", charset=\"UTF-8\""), refused.field("www-authenticate"));
            assert!(!refused.body.contains("secret"));
        }
        let refused = front.same(method, "/deny/a", &[]);
        assert_eq!((403, Some("no-store")), (refused.status, refused.field("cache-control")));
        assert!(!refused.body.contains("secret"));
        let moved = front.same(method, "/moved/a?b=c", &[]);
        assert_eq!((308, Some("/new/moved/a?b=c")), (moved.status, moved.field("location")));
        assert_eq!(308, front.same(method, "/moved/a", &[]).status, "the stored URL itself");
    }
    let admitted = front.fetch("GET", "/basic/a", |_| vec![ALICE]);
    assert!(admitted.iter().all(|it| it.is_hit() && it.body == "secret page"), "{admitted:?}");
    // Each protocol has a bucket with one request.
    let bucket = |at: usize| vec![("x-bucket", ["", "one", "two", "three"][at])];
    assert!(front.fetch("GET", "/limit/a", bucket).iter().all(Comparable::is_hit));
    let [one, two, three] = front.fetch("GET", "/limit/a", bucket).map(at_limit);
    assert_eq!([&one, &one], [&two, &three]);
    for it in front.fetch("POST", "/limit/a", |_| bucket(1)).map(at_limit) {
        assert_eq!((one.0, &one.1), (it.0, &it.1), "the bucket is that of all protocols");
    }
    front.set("#maintenance", "maintenance = { enabled = true, retry_after = \"2m\" }");
    for method in ["GET", "HEAD", "POST"] {
        for path in PAGES.into_iter().filter(|it| *it != "/moved/a") {
            let closed = front.same(method, path, &[ALICE]);
            assert_eq!((503, Some("120")), (closed.status, closed.field("retry-after")), "{method} {path}");
            assert!(!closed.body.contains("secret"));
        }
    }
    assert_eq!(asked, origin.requests(), "no refused request reaches the application");
}

/// The names under which a service reports its user, in each spelling that an application reads as one of them.
const FORGED: [(&str, &str); 3] =
    [("x-auth-request-user", "root"), ("x_auth_request_user", "root"), ("x-auth_request-user", "root")];

#[test]
fn identity_fields_of_a_client_are_removed_over_three_protocols() {
    let service = Origin::new(|it| match it.field("cookie") {
        Some("session=alice") => "HTTP/1.1 200 OK\nX-Auth-Request-User: alice\n\n".to_owned(),
        _ => "HTTP/1.1 401 Unauthorized\n\nsign in".to_owned(),
    });
    let origin = Origin::new(|it| {
        let user = it.field("x-auth-request-user").unwrap_or("none");
        let cache = if it.target() == "/kept" { "public, max-age=600" } else { "no-store" };
        format!("HTTP/1.1 200 OK\nCache-Control: {cache}\n\npage of {user}")
    });
    let forward = format!(
        "[[site.route]]\nproxy.to = \"{{origin}}\"\n\
         access = {{ forward = {{ to = \"{}\", copy = [\"X-Auth-Request-User\"] }}, key = \"identity\" }}\n",
        service.url()
    );
    let front = ThreeProtocols::start(&origin, &forward);
    let forged = |more: &[(&'static str, &'static str)]| [&FORGED[..], more].concat();
    for path in ["/kept", "/kept", "/passed"] {
        for method in ["GET", "POST"] {
            let refused = front.same(method, path, &forged(&[]));
            assert_eq!((401, "sign in"), (refused.status, refused.body.as_str()), "{method} {path}");
            let pages = front.fetch(method, path, |_| forged(&[("cookie", "session=alice")]));
            assert!(pages.iter().all(|it| it.body == "page of alice"), "{method} {path}: {pages:?}");
        }
    }
    // A POST ends the stored page.
    front.fetch("GET", "/kept", |_| forged(&[("cookie", "session=alice")]));
    let hits = front.fetch("GET", "/kept", |_| forged(&[("cookie", "session=alice")]));
    assert!(hits.iter().all(|it| it.is_hit() && it.body == "page of alice"), "{hits:?}");
    for it in origin.received().iter().chain(&service.received()) {
        assert!(!format!("{it:?}").contains("root"), "{it:?}");
    }
}
