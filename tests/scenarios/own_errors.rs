//! Every error that larder answers itself has the page of `error_pages`: each kind of route and each rule, over each protocol.

use crate::harness::http2::{self, Http2};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::quic::{self, QuicClient};
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin, until};
use std::path::Path;
use std::sync::Arc;

const PAGE: &str = "<h1>a page of the site</h1>";

/// A request, and the status of the error that it gets.
struct Case {
    status: u16,
    method: &'static str,
    target: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
    /// The protocol of an upgrade, over HTTP/2 and HTTP/3 of an extended CONNECT (RFC 8441).
    upgrade: Option<&'static str>,
    /// Whether the body of the request never arrives.
    is_held: bool,
    /// A field of this many bytes.
    long: usize,
}

impl Case {
    /// Its fields, with the identity that this larder gives to its requests.
    fn fields(&self, origin: &Origin) -> Vec<(&'static str, String)> {
        let of_larder = || origin.received().first().and_then(|it| it.field("cdn-loop").map(str::to_owned));
        let value = |it: &str| if it == OWN_ID { of_larder().unwrap_or_default() } else { it.to_owned() };
        let long = (self.long > 0).then(|| ("x-long", "x".repeat(self.long)));
        self.fields.iter().map(|it| (it.0, value(it.1))).chain(long).collect()
    }

    /// Method and fields over HTTP/2 and HTTP/3.
    fn head<'a>(&self, fields: &'a [(&'static str, String)]) -> (&'static str, Vec<(&'a str, &'a str)>) {
        let fields = fields.iter().map(|it| (it.0, it.1.as_str()));
        match self.upgrade {
            Some(it) => ("CONNECT", [(":protocol", it)].into_iter().chain(fields).collect()),
            None => (self.method, fields.collect()),
        }
    }

    /// Whether the request ends with its head.
    fn is_head_alone(&self) -> bool {
        self.body.is_empty() && !self.is_held && self.upgrade.is_none()
    }
}

const fn get(status: u16, target: &'static str) -> Case {
    let none: &[_] = &[];
    Case { status, method: "GET", target, fields: none, body: "", upgrade: None, is_held: false, long: 0 }
}

const fn with(status: u16, target: &'static str, fields: &'static [(&'static str, &'static str)]) -> Case {
    Case { fields, ..get(status, target) }
}

const fn post(status: u16, target: &'static str, body: &'static str) -> Case {
    Case { method: "POST", body, ..get(status, target) }
}

/// Requests that larder answers with an error of its own. These have no page: a head that is no request (400, 505), a target above
/// `limits.target_size` (414), a head above `limits.head_size` (431), an unknown transfer coding or a method in small letters (501), and
/// a head that does not arrive (408), because the site is unknown before the head is read. 421 is a test of its own: it needs two sites
/// with TLS.
const CASES: &[Case] = &[
    // Without a route.
    get(404, "/none"),
    post(405, "/read/a", ""),
    get(503, "/closed"),
    get(410, "/gone"),
    // Files.
    get(404, "/files/none"),
    get(404, "/files/.hidden"),
    get(404, "/files/x.php"),
    post(405, "/files/a.txt", ""),
    with(416, "/files/a.txt", &[("range", "bytes=100-")]),
    with(412, "/files/a.txt", &[("if-match", "\"other\"")]),
    // CGI programs.
    get(404, "/cgi/none"),
    get(404, "/cgi/text"),
    post(404, "/cgi/none", "body"),
    get(502, "/cgi/bad"),
    get(502, "/cgi/fails"),
    get(504, "/cgi/slow"),
    get(502, "/cgi/loop"),
    // PHP.
    get(404, "/php/none.php"),
    post(404, "/php/none.php", "body"),
    get(502, "/php/a.php"),
    get(404, "/php/.env"),
    // Queries: the database is missing.
    get(502, "/sql"),
    // Files that the application hands over.
    get(404, "/sendfile/none"),
    // Access.
    get(403, "/denied"),
    get(401, "/basic"),
    get(401, "/jwt"),
    get(403, "/signed"),
    get(503, "/forward"),
    get(429, "/limited"),
    get(429, "/budget"),
    // Origins.
    get(502, "/down"),
    get(504, "/silent"),
    get(502, "/bad"),
    get(503, "/full/second"),
    post(413, "/small", "a body of more than ten bytes"),
    Case { is_held: true, fields: &[("content-length", "5")], ..post(408, "/held", "") },
    with(508, "/bad", &[("cdn-loop", OWN_ID)]),
    Case { upgrade: Some("websocket"), ..get(501, "/uwsgi") },
    Case { long: 66_000, ..get(431, "/uwsgi") },
    Case { method: "OPTIONS", ..with(403, "/cors", PREFLIGHT) },
    with(504, "/small", &[("cache-control", "only-if-cached")]),
];

/// In place of the identity with which this larder marks its requests.
const OWN_ID: &str = "OWN";

/// A preflight of a page that `cors.origins` lacks.
const PREFLIGHT: &[(&str, &str)] =
    &[("origin", "https://other.test"), ("access-control-request-method", "PUT")];

/// Errors whose page stays without `intercept_errors`: those of applications, and the JSON of a query.
const OF_OTHERS: &[(u16, &str, &str)] = &[
    (404, "/origin/404", "own"),
    (500, "/origin/500", "own"),
    (404, "/cgi/own", "own"),
    (500, "/cgi/own500", "own"),
    (400, "/item/x", "{"),
];

fn program(path: &Path, text: &str) {
    super::cgi::program(path, &format!("#!/bin/sh\n{text}"));
}

/// The files of the site.
fn build(folder: &Path) {
    for (name, text) in [
        ("page.html", PAGE),
        ("files/a.txt", "a file"),
        ("files/.hidden", "hidden"),
        ("files/x.php", "a script"),
        ("php/a.php", "<?php"),
        ("php/.env", "hidden"),
        ("private/a.txt", "a file"),
        ("cgi/text", "no program"),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for (name, text) in [
        ("bad", "echo no head"),
        ("fails", "exit 1"),
        ("slow", "exec sleep 60"),
        ("loop", "printf 'Location: /cgi/loop\\n\\n'"),
        ("own", "printf 'Status: 404\\nContent-Type: text/plain\\n\\nown'"),
        ("own500", "printf 'Status: 500\\nContent-Type: text/plain\\n\\nown'"),
    ] {
        program(&folder.join("cgi").join(name), text);
    }
}

/// The routes of the site, before this origin.
fn routes(folder: &Path, origin: &str) -> String {
    let proxy = format!("proxy = {{ to = \"{origin}\" }}");
    let at = |name: &str| format!("{:?}", folder.join(name).display().to_string());
    let down = "proxy.to = \"http://127.0.0.1:1\"";
    let one = |(path, lines): (&str, String)| format!("[[site.route]]\npath = \"{path}\"\n{lines}\n");
    [
        ("/read/*", format!("methods = [\"GET\"]\n{proxy}")),
        ("/closed", format!("{proxy}\nmaintenance.enabled = true")),
        ("/gone", "respond.status = 410".to_owned()),
        ("/files/*", format!("files = {{ root = {}, strip = \"/files\" }}", at("files"))),
        ("/cgi/*", format!("cgi = {{ root = {}, timeout = \"300ms\" }}", at("cgi"))),
        ("/php/*", format!("php = {{ root = {}, to = \"unix:{}/none.sock\" }}", at("."), folder.display())),
        ("/sql", "sql = { query = \"select 1\", database = \"gone\" }".to_owned()),
        ("/item/{id}", "sql = { query = \"select :id as id\", database = \"gone\", parameters = { id = \"path int\" } }".to_owned()),
        ("/sendfile/*", format!("{proxy}\nsendfile = {{ root = {} }}", at("private"))),
        ("/denied", format!("{proxy}\naccess.deny = [\"127.0.0.0/8\"]")),
        ("/basic", format!("{proxy}\naccess.basic.users = [\"a:$2y$04$5fMhhVkWV4uShFFhJMSJ9.0HyFPMsAs7dOZb/TuGmWxMyYTRe2fHm\"]")),
        ("/jwt", format!("{proxy}\naccess.jwt = {{ secret = \"0123456789abcdef0123456789abcdef\", issuer = \"i\" }}")),
        ("/signed", format!("{proxy}\naccess.signed.secret = \"0123456789abcdef0123456789abcdef\"")),
        ("/forward", format!("{proxy}\naccess.forward.to = \"http://127.0.0.1:1\"")),
        ("/limited", format!("{proxy}\naccess.limit = {{ rate = \"1/h\" }}")),
        ("/budget", format!("{proxy}\naccess.budget = {{ misses = \"1/h\" }}")),
        ("/down", down.to_owned()),
        ("/silent", "proxy = { to = \"ORIGIN\", first_byte_timeout = \"300ms\" }".replace("ORIGIN", origin)),
        ("/full/*", "proxy = { to = \"ORIGIN\", connections = 1, queue = 0 }".replace("ORIGIN", origin)),
        ("/small", format!("{proxy}\nbody_size = \"10B\"")),
        ("/held", format!("{proxy}\nbody_timeout = \"300ms\"")),
        ("/uwsgi", format!("proxy.to = \"{}\"", origin.replace("http:", "uwsgi:"))),
        ("/cors", format!("{proxy}\ncors.origins = [\"https://app.test\"]")),
        ("/bad", proxy.clone()),
        ("/origin/*", proxy.clone()),
    ]
    .map(one)
    .concat()
}

/// A larder on a port without TLS, or with TLS and HTTP/3.
fn larder(folder: &Path, listen: &str, origin: &Origin) -> Larder {
    Larder::configured(format!(
        "{listen}\nworkers = 1\n[limits]\nhead_size = \"128KiB\"\n[[database]]\nname = \"gone\"\nurl = \"sqlite:{0}/none.db\"\n[[site]]\nhosts = [\"*\"]\n\
         error_pages = {{ 4xx = \"{0}/page.html\", 5xx = \"{0}/page.html\" }}\n{1}",
        folder.display(),
        routes(folder, &origin.url())
    ))
}

/// An origin that never answers `/silent` and `/full/first`.
fn origin() -> (Origin, Arc<Gate>) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/silent" | "/full/first" => vec![Script::Gate(held.clone())],
        "/bad" => vec![Script::Send(b"no response\r\n\r\n".to_vec())],
        "/sendfile/none" => vec![Script::Send(response("HTTP/1.1 200 OK\nX-Sendfile: none.txt\n\n"))],
        "/origin/404" => vec![Script::Send(response("HTTP/1.1 404 Not Found\n\nown"))],
        "/origin/500" => vec![Script::Send(response("HTTP/1.1 500 Internal Server Error\n\nown"))],
        _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage"))],
    });
    (origin, gate)
}

/// The answer to a case, over one protocol: its status and body, and the value of `Content-Length`.
type Answer = (u16, String, Option<String>);

/// Asks for all of the cases by `ask`. The only request that `/full/*` may have is that of `hold`.
fn check(gate: &Gate, hold: impl FnOnce(), mut ask: impl FnMut(&Case) -> Answer) {
    hold();
    until("the connection of /full is used", || gate.waiting() == 1);
    // The first requests are within the limits.
    assert_eq!([200, 200], ["/limited", "/budget"].map(|it| ask(&get(200, it)).0));
    let mut wrong = Vec::new();
    for case in CASES {
        let found = ask(case);
        if found != (case.status, PAGE.to_owned(), Some(PAGE.len().to_string())) {
            wrong.push(format!("{} {}: {}, found {found:?}", case.method, case.target, case.status));
        }
    }
    for (status, target, text) in OF_OTHERS {
        let found = ask(&get(*status, target));
        if found.0 != *status || !found.1.starts_with(text) {
            wrong.push(format!("{target}: {status} {text:?}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    gate.open();
}

const PLAIN: &str = "listen = [\"127.0.0.1:0\"]";

#[test]
fn every_error_of_larder_has_the_page_of_the_site() {
    let (folder, (origin, gate)) = (tempfile::tempdir().unwrap(), origin());
    build(folder.path());
    let larder = larder(folder.path(), PLAIN, &origin);
    let mut first = larder.client();
    let hold = || {
        first.send("GET /full/first HTTP/1.1\r\nHost: h\r\n\r\n");
    };
    check(&gate, hold, |case| {
        let mut lines: String =
            case.fields(&origin).iter().map(|it| format!("{}: {}\r\n", it.0, it.1)).collect();
        if let Some(protocol) = case.upgrade {
            lines.push_str(&format!("Connection: upgrade\r\nUpgrade: {protocol}\r\n"));
        }
        let it = larder.client().request(case.method, case.target, &lines, case.body);
        (it.status, it.text(), it.field("content-length").map(str::to_owned))
    });
}

#[test]
fn every_error_of_larder_has_the_page_of_the_site_over_http2() {
    let (folder, (origin, gate)) = (tempfile::tempdir().unwrap(), origin());
    build(folder.path());
    let larder = larder(folder.path(), PLAIN, &origin);
    let mut client = Http2::connect(&larder);
    let mut holding = Http2::connect(&larder);
    let hold = || {
        holding.send_get("/full/first");
    };
    check(&gate, hold, |case| {
        let fields = case.fields(&origin);
        let (method, fields) = case.head(&fields);
        let request = http2::request(method, case.target, &fields);
        let ends = if case.is_head_alone() { http2::END_STREAM } else { 0 };
        let id = client.head(&request, ends);
        if !case.body.is_empty() {
            client.data(id, case.body.as_bytes(), http2::END_STREAM);
        }
        let it = client.answer(id);
        (it.status, it.text(), it.field("content-length").map(str::to_owned))
    });
}

#[test]
fn every_error_of_larder_has_the_page_of_the_site_over_http3() {
    let (folder, (origin, gate)) = (tempfile::tempdir().unwrap(), origin());
    build(folder.path());
    let authority = Authority::new();
    let certificate = authority.sign("one", &["h"]);
    let listen =
        format!("listen = [\"https://127.0.0.1:0\"]\nhttp3 = true\ntls.certificates = [{certificate}]");
    let larder = larder(folder.path(), &listen, &origin);
    let connect = || QuicClient::begin(larder.address, &authority.trusting(), "h");
    let (mut client, mut holding) = (connect(), connect());
    let hold = || {
        let id = holding.bi(&quic::request("GET", "/full/first", &[]), true);
        holding.until("the request is sent", |it| gate.waiting() == 1 || it.arrived(id).is_whole);
    };
    check(&gate, hold, |case| {
        let fields = case.fields(&origin);
        let (method, fields) = case.head(&fields);
        let head = quic::request(method, case.target, &fields);
        let body = if case.body.is_empty() { Vec::new() } else { quic::frame(0, case.body.as_bytes()) };
        let id = client.bi(&[head, body].concat(), case.is_head_alone() || !case.body.is_empty());
        let it = client.response(id).unwrap();
        let text = String::from_utf8_lossy(&it.body).into_owned();
        (it.status, text, it.field("content-length").map(str::to_owned))
    });
}

/// The page of 421 is that of the site that the request is for, not of the site of the connection.
#[test]
fn a_misdirected_request_has_the_page_of_its_site() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let certificate = authority.sign("one", &["open.test", "closed.test"]);
    let (page, ca) = (folder.path().join("page.html"), authority.path("ca.pem"));
    std::fs::write(&page, PAGE).unwrap();
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nhttp3 = true\nworkers = 1\ntls.certificates = [{certificate}]\n\
         [[site]]\nhosts = \"open.test\"\n[[site.route]]\nrespond.body = \"open\"\n\
         [[site]]\nhosts = \"closed.test\"\nerror_pages.421 = {page:?}\n\
         tls = {{ client_auth = \"required\", client_ca = {ca:?} }}\n[[site.route]]\nrespond.body = \"closed\"\n"
    ));
    let trusting = authority.trusting();
    let mut client = trusting.connect(larder.address, "open.test").unwrap();
    let it = client.send("GET / HTTP/1.1\r\nHost: closed.test\r\n\r\n").read();
    assert_eq!((421, PAGE.to_owned()), (it.status, it.text()));
    let port = larder.address.port();
    let curl = std::process::Command::new("curl")
        .args(["-s", "--http2", "--max-time", "30", "-w", " %{http_version} %{response_code}"])
        .args(["--resolve", &format!("open.test:{port}:127.0.0.1"), "-H", "Host: closed.test", "--cacert"])
        .arg(authority.path("ca.pem"))
        .arg(format!("https://open.test:{port}/"))
        .output()
        .expect("tests/install has curl");
    assert_eq!(format!("{PAGE} 2 421"), String::from_utf8_lossy(&curl.stdout));
    let mut client = QuicClient::begin(larder.address, &trusting, "open.test");
    let own = [(":method", "GET"), (":scheme", "https"), (":authority", "closed.test"), (":path", "/")];
    let id = client.bi(&quic::headers(&own), true);
    let it = client.response(id).unwrap();
    assert_eq!((421, PAGE.to_owned()), (it.status, String::from_utf8_lossy(&it.body).into_owned()));
}
