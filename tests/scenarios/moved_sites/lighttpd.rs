//! A site of lighttpd with mod_redirect, mod_rewrite, mod_setenv, mod_auth, mod_access, mod_expire and PHP.

use super::{HOST, USER, check, write};
use crate::harness::Larder;
use crate::harness::comparison::Comparison;
use crate::harness::lighttpd::Lighttpd;
use crate::harness::php::PhpFpm;

/// The page that every script of the site is: its path, what is behind it, and the query.
const PAGE: &str = "<?php header('Content-Type: text/plain'); header('X-Powered-By: none'); header_remove('X-Powered-By'); echo $_SERVER['SCRIPT_NAME'], ' ', \
                    $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['QUERY_STRING'], ' ', $_SERVER['REQUEST_METHOD'];";

const FILES: &[(&str, &str)] = &[
    ("index.php", PAGE),
    ("shop.php", PAGE),
    ("admin/index.php", PAGE),
    ("errors/404.html", "<p>absent</p>"),
    ("errors/403.html", "<p>refused</p>"),
    ("docs/index.html", "<p>docs</p>"),
    ("static/app.css", "p { color: red }"),
    ("static/a.txt", "0123456789"),
    ("lib.inc", "<?php"),
    ("index.php~", "<?php"),
    (".env", "hidden"),
];

const LIGHTTPD: &str = r#"
server.document-root = "WWW"
server.errorfile-prefix = "WWW/errors/"
index-file.names = ("index.php", "index.html")
mimetype.assign = (".html" => "text/html", ".css" => "text/css", ".txt" => "text/plain")
url.redirect = ("^/old/(.*)$" => "/new/$1", "^/shop$" => "/shop.php")
url.redirect-code = 301
url.rewrite-once = ("^/blog/([0-9]+)$" => "/index.php?post=$1", "^/_media/(.*)$" => "/shop.php?media=$1", "^/p/(.*)$" => "/shop.php/$1")
url.access-deny = ("~", ".inc")
setenv.add-response-header = ("X-Frame-Options" => "DENY")
$HTTP["url"] =~ "^/static/" {
    setenv.add-response-header += ("Cache-Control" => "max-age=600")
}
auth.backend = "htpasswd"
auth.backend.htpasswd.userfile = "FOLDER/users"
auth.require = ("/admin/" => ("method" => "basic", "realm" => "admin", "require" => "valid-user"))
fastcgi.server = (".php" => (("socket" => "SOCKET")))
"#;

const LARDER: &str = r#"
listen = ["127.0.0.1:0"]
workers = 1
[block.php]
php = { root = "WWW", to = "unix:SOCKET", front_controller = "off" }
[[site]]
hosts = ["site.test"]
response_headers.set = { X-Frame-Options = "DENY" }
error_pages = { 403 = "WWW/errors/403.html", 404 = "WWW/errors/404.html" }
[[site.route]]
path = "/old/*"
redirect = { to = "/new/{1}", status = 301 }
[[site.route]]
path = "/shop"
redirect = { to = "/shop.php", status = 301 }
[[site.route]]
path = 'regex:/blog/([0-9]+)'
php = { root = "WWW", to = "unix:SOCKET" }
query.set = { post = "{1}" }
[[site.route]]
path = "/_media/*"
php = { root = "WWW", to = "unix:SOCKET", front_controller = "/shop.php" }
query.set = { media = "{1}" }
[[site.route]]
path = "/p/*"
php = { root = "WWW", to = "unix:SOCKET", front_controller = "/shop.php" }
[[site.route]]
path = 'regex:.*(~|\.inc)'
respond.status = 403
[[site.route]]
path = "/static/*"
files = { root = "WWW", cache_control = "max-age=600" }
[[site.route]]
path = "/admin/*"
use = "php"
access.basic = { file = "FOLDER/users", realm = "admin" }
[[site.route]]
use = "php"
"#;

const REQUESTS: &[&str] = &[
    "GET /",
    "GET /?a=b",
    "GET /index.php?a=b",
    "GET /shop.php/a/b?c=d",
    "POST /shop.php",
    "GET /old/a/b",
    "GET /old/a?b=c",
    "GET /shop",
    "GET /blog/7",
    "GET /blog/x",
    "GET /_media/a/b.png",
    "GET /_media/a?w=1",
    "GET /_media/a%26w=2%3F%23",
    "GET /p/a/b",
    "GET /lib.inc",
    "GET /index.php~",
    "GET /docs/",
    "GET /docs",
    "GET /none",
    "GET /none.php",
    "GET /static/app.css",
    "GET /static/a.txt | Range: bytes=2-4",
    "GET /static/none",
    "GET /admin/",
    "GET /admin/ | Authorization: Basic YWxpY2U6d29uZGVy",
    "GET /admin/ | Authorization: Basic YWxpY2U6bm8=",
    "GET /.env",
    "HEAD /docs/",
];

#[test]
fn a_site_of_lighttpd() {
    let (folder, fpm) = (tempfile::tempdir().unwrap(), PhpFpm::start(2));
    let www = folder.path().join("www");
    write(&www, FILES);
    write(folder.path(), &[("users", &format!("{USER}\n"))]);
    let fill = |text: &str| {
        text.replace("WWW", www.to_str().unwrap())
            .replace("FOLDER", folder.path().to_str().unwrap())
            .replace("SOCKET", fpm.socket().to_str().unwrap())
    };
    let modules = ["access", "auth", "authn_file", "redirect", "rewrite", "setenv", "fastcgi"];
    let lighttpd = Lighttpd::start(folder.path(), &modules, &fill(LIGHTTPD));
    let larder = Larder::configured(fill(LARDER));
    let mut compared = Comparison::default();
    for request in REQUESTS {
        compared.ask("lighttpd.conf", HOST, request, lighttpd.client(), larder.client());
    }
    check(&compared, "moved-from-lighttpd.md", "lighttpd 1.4", "lighttpd");
}
