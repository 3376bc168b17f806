//! A configuration of HAProxy with ACLs, two backends, health checks, an error file, a cookie and a limit by a stick table.

use super::{HOST, check, write};
use crate::harness::comparison::Comparison;
use crate::harness::foreign_server::ForeignServer;
use crate::harness::{Larder, Origin, until};

const HAPROXY: &str = r#"
global
    maxconn 100
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    errorfile 503 WWW/503.http
    option forwardfor
frontend web
    bind 127.0.0.1:PORT
    acl is_api path_beg /api/
    acl is_login path /login
    acl is_beta req.cook(beta) -m str 1
    acl is_robot req.hdr(User-Agent) -m sub -i badbot
    stick-table type ip size 100k expire 1h store http_req_rate(1h)
    http-request track-sc0 src if is_login
    http-request deny deny_status 429 if is_login { sc_http_req_rate(0) gt 3 }
    http-request deny if is_robot
    http-request redirect prefix http://site.test code 301 if { hdr(host) -i www.site.test }
    http-request redirect location /new code 301 if { path /old }
    http-request return status 200 content-type text/plain string "fine" if { path /health }
    http-after-response set-header X-Frame-Options DENY
    http-after-response del-header X-Powered-By
    use_backend api if is_api
    use_backend down if { path_beg /down/ }
    use_backend beta if is_beta
    default_backend app
backend api
    option httpchk GET /ready
    http-request replace-path /api/(.*) /\1
    server good GOOD check inter 100ms fall 1
    server bad BAD check inter 100ms fall 1
backend beta
    http-request set-header X-Beta 1
    server beta GOOD
backend down
    server down 127.0.0.1:1
backend app
    cookie at insert indirect nocache
    server one APP cookie one
"#;

const LARDER: &str = r#"
listen = ["127.0.0.1:0"]
workers = 1
limits.connections = 100
[[site]]
hosts = ["site.test", "www.site.test"]
canonical_host = "site.test"
redirect_status = 301
response_headers = { set = { X-Frame-Options = "DENY" }, remove = ["X-Powered-By"] }
error_pages.5xx = "WWW/503.html"
access = { deny_when = 'header.User-Agent ~ "(?i)badbot"', shared = true }
[[site.route]]
path = "/old"
redirect = { to = "/new", status = 301 }
[[site.route]]
path = "/health"
respond.body = "fine"
[[site.route]]
path = "/api/*"
strip = "/api"
proxy = { to = ["http://GOOD", "http://BAD"], health = { path = "/ready", interval = "100ms" } }
[[site.route]]
path = "/down/*"
proxy.to = "http://127.0.0.1:1"
[[site.route]]
path = "/login"
access.limit = { rate = "3/h", burst = 2 }
proxy = { to = "http://APP", sticky.cookie = "at" }
[[site.route]]
when = 'cookie.beta == "1"'
request_headers.set = { X-Beta = "1" }
proxy.to = "http://GOOD"
[[site.route]]
proxy = { to = "http://APP", sticky.cookie = "at" }
"#;

const REQUESTS: &[&str] = &[
    "GET /",
    "HEAD /",
    "POST /form",
    "DELETE /a",
    "GET /a%20b?c=d",
    "GET /a%2Fb",
    "GET //a",
    "GET /x/../y",
    "GET /api/users?a=b",
    "GET /api/",
    "GET /api",
    "POST /api/form",
    "GET /old",
    "GET /old?a=b",
    "GET /health",
    "HEAD /health",
    "GET / | User-Agent: a BadBot/1",
    "GET /a?b=c | Host: www.site.test",
    "GET / | Cookie: beta=1",
    "GET / | Cookie: at=one",
    "GET /down/a",
    "GET /login?1",
    "GET /login?2",
    "GET /login?3",
    "GET /login?4",
    "GET /login/",
];

/// An application: its name, the request, and the field that one of the configurations adds.
fn application(name: &'static str, is_ready: bool) -> Origin {
    Origin::new(move |asked| match asked.target() {
        "/ready" if !is_ready => "HTTP/1.1 500 Internal Server Error\n\n".to_owned(),
        target => format!(
            "HTTP/1.1 200 OK\nContent-Type: text/plain\nX-Powered-By: app\nCache-Control: no-store\n\n{name} {} {target} {}",
            asked.line().split(' ').next().unwrap_or(""),
            asked.field("x-beta").unwrap_or("")
        ),
    })
}

#[test]
fn a_configuration_of_haproxy() {
    let folder = tempfile::tempdir().unwrap();
    let sorry = "<p>sorry</p>";
    let file = format!("HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n{sorry}");
    write(folder.path(), &[("503.http", &file), ("503.html", sorry)]);
    let [app, good, bad] = [("app", true), ("good", true), ("bad", false)].map(|it| application(it.0, it.1));
    let fill = |text: &str| {
        let of = |it: &Origin| it.url().trim_start_matches("http://").to_owned();
        let text = text.replace("WWW", folder.path().to_str().unwrap());
        text.replace("GOOD", &of(&good)).replace("BAD", &of(&bad)).replace("APP", &of(&app))
    };
    let haproxy = ForeignServer::haproxy(folder.path(), &fill(HAPROXY));
    let larder = Larder::configured(fill(LARDER));
    let is_of_good = |mut client: crate::harness::Client| {
        client.send(format!("GET /api/x HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        client.read().text().starts_with("good")
    };
    until("HAProxy uses the healthy server only", || (0..8).all(|_| is_of_good(haproxy.client())));
    until("larder uses the healthy origin only", || (0..8).all(|_| is_of_good(larder.client())));
    let mut compared = Comparison::default();
    for request in REQUESTS {
        compared.ask("haproxy.cfg", HOST, request, haproxy.client(), larder.client());
    }
    check(&compared, "moved-from-haproxy.md", "HAProxy 2.6", "haproxy");
}
