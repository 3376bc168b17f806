//! A Caddyfile with a snippet, redirects, an API, a password, a single-page application and error pages.

use super::{HOST, USER, check, write};
use crate::harness::comparison::Comparison;
use crate::harness::foreign_server::ForeignServer;
use crate::harness::{Larder, Origin};

const FILES: &[(&str, &str)] = &[
    ("index.html", "<p>home</p>"),
    ("about.html", "<p>about</p>"),
    ("404.html", "<p>absent</p>"),
    ("docs/index.html", "<p>docs</p>"),
    ("app/index.html", "<p>the application</p>"),
    ("app/main.js", "let a = 1;"),
    ("a.txt", "0123456789"),
    (".env", "hidden"),
];

const CADDY: &str = r#"
{
    admin off
    auto_https off
}
(secure) {
    header {
        X-Frame-Options DENY
        Referrer-Policy same-origin
        -X-Powered-By
    }
}
http://www.site.test:PORT {
    bind 127.0.0.1
    redir http://site.test{uri} permanent
}
http://site.test:PORT {
    bind 127.0.0.1
    import secure
    root * WWW
    @robots header_regexp User-Agent (?i)badbot
    handle @robots {
        respond 403
    }
    redir /old /new 301
    redir /blog/* https://blog.test{uri}
    handle_path /api/* {
        reverse_proxy ORIGIN
    }
    handle /admin/* {
        basicauth {
            ALICE
        }
        reverse_proxy ORIGIN
    }
    handle /health {
        respond "ok" 200
    }
    handle /app/* {
        try_files {path} /app/index.html
        file_server
    }
    handle {
        try_files {path} {path}.html
        file_server {
            hide .env
        }
    }
    handle_errors {
        @absent expression {http.error.status_code} == 404
        rewrite @absent /404.html
        file_server
    }
}
"#;

const LARDER: &str = r#"
listen = ["127.0.0.1:0"]
workers = 1
[block.secure.response_headers]
set = { X-Frame-Options = "DENY", Referrer-Policy = "same-origin" }
remove = ["X-Powered-By"]
[[site]]
hosts = ["site.test", "www.site.test"]
canonical_host = "site.test"
redirect_status = 301
use = "secure"
error_pages.404 = "WWW/404.html"
access = { deny_when = 'header.User-Agent ~ "(?i)badbot"', shared = true }
[[site.route]]
path = "/old"
redirect = { to = "/new", status = 301 }
[[site.route]]
path = "/blog/*"
redirect.to = "https://blog.test{uri}"
[[site.route]]
path = "/api/*"
strip = "/api"
proxy.to = "http://ORIGIN"
[[site.route]]
path = "/admin/*"
access.basic = { users = "USER", realm = "restricted" }
proxy.to = "http://ORIGIN"
[[site.route]]
path = "/health"
respond.body = "ok"
[[site.route]]
path = "/app/*"
files = { root = "WWW", try = ["{path}", "/app/index.html"] }
[[site.route]]
files = { root = "WWW", try = ["{path}", "{path}.html", "{path}/"] }
"#;

const REQUESTS: &[&str] = &[
    "GET /",
    "GET /about",
    "GET /about.html",
    "GET /docs",
    "GET /docs/",
    "GET /none",
    "HEAD /none",
    "GET /old",
    "GET /old?a=b",
    "GET /blog/2026/hello?x=1",
    "GET /api/users?a=b",
    "POST /api/form",
    "GET /api",
    "GET /admin/",
    "GET /admin/a | Authorization: Basic YWxpY2U6d29uZGVy",
    "GET /admin/a | Authorization: Basic YWxpY2U6bm8=",
    "GET /admin",
    "GET /health",
    "GET / | User-Agent: BadBot/1",
    "GET /app/",
    "GET /app/main.js",
    "GET /app/some/page",
    "GET /.env",
    "GET /a.txt | Range: bytes=2-4",
    "HEAD /about",
    "POST /a.txt",
    "GET /docs/../a.txt",
    "GET /a?b=c | Host: www.site.test",
];

#[test]
fn a_site_of_caddy() {
    let folder = tempfile::tempdir().unwrap();
    let www = folder.path().join("www");
    write(&www, FILES);
    let origin = Origin::new(|asked| {
        format!(
            "HTTP/1.1 200 OK\nContent-Type: text/plain\nX-Powered-By: app\nCache-Control: no-store\n\n{} {}",
            asked.line().split(' ').next().unwrap_or(""),
            asked.target()
        )
    });
    let (name, hash) = USER.split_once(':').unwrap();
    let fill = |text: &str| {
        text.replace("WWW", www.to_str().unwrap())
            .replace("ORIGIN", origin.url().trim_start_matches("http://"))
            .replace("ALICE", &format!("{name} {hash}"))
            .replace("USER", USER)
    };
    let caddy = ForeignServer::caddy(folder.path(), &fill(CADDY));
    let larder = Larder::configured(fill(LARDER));
    let mut compared = Comparison::default();
    for request in REQUESTS {
        compared.ask("Caddyfile", HOST, request, caddy.client(), larder.client());
    }
    check(&compared, "moved-from-caddy.md", "Caddy 2.6", "caddy");
}
