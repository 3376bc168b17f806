//! nginx and larder side by side: each case is the same site in both configurations, and both get the same requests. Every
//! difference between their responses is a row of `tests/golden/compared-with-nginx.md`, with its reason.

use crate::harness::comparison::Comparison;
use crate::harness::nginx::Nginx;
use crate::harness::{Larder, Origin};
use std::path::Path;

/// The number of requests that the comparison promises, at least.
const CASES: usize = 60;

/// One site in both configurations. `WWW` is the directory of its files, `ORIGIN` the address of its origin.
struct Case {
    name: &'static str,
    /// The lines of a `server` block.
    nginx: &'static str,
    /// The lines of a `[[site]]` after its hosts.
    larder: &'static str,
    /// `METHOD target`, and ` | Name: value` for each field.
    requests: &'static [&'static str],
}

const FILES: &[(&str, &str)] = &[
    ("index.html", "<p>home</p>"),
    ("about.html", "<p>about</p>"),
    ("docs/index.html", "<p>docs</p>"),
    ("docs/guide.html", "<p>guide</p>"),
    ("both.html", "<p>both, the page</p>"),
    ("both/index.html", "<p>both, the directory</p>"),
    ("bare/x.txt", "x"),
    ("a.txt", "0123456789"),
    ("with space.txt", "space"),
    ("de/a.txt", "A"),
    ("app.js", "let a = 1;"),
    ("style.css", "p { color: red }"),
    ("style.css.gz", "a sibling"),
    ("404.html", "<p>absent</p>"),
    (".env", "hidden"),
];

/// Members, directories and files.
const STATIC: &[Case] = &[
    Case {
        name: "application",
        nginx: "location / { try_files $uri $uri/ /index.html; }",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", try = [\"{path}\", \"{path}/\", \"/index.html\"] }",
        requests: &[
            "GET /",
            "GET /about.html",
            "GET /docs",
            "GET /docs?a=b&c",
            "GET /docs/",
            "GET /none",
            "GET /none/deeper?q=1",
            "GET /app.js",
            "GET /missing.js",
            "GET /bare",
            "GET /bare/",
            "GET /with%20space.txt",
            "GET /docs/../about.html",
            "GET /docs/%2e%2e/about.html",
            "GET //about.html",
            "GET /%2e%2e/secret",
            "GET /.env",
            "HEAD /none",
        ],
    },
    Case {
        name: "pages without extension",
        nginx: "location / { try_files $uri $uri.html $uri/index.html =404; }",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", try = [\"{path}\", \"{path}.html\", \"{path}/index.html\", \"=404\"] }",
        requests: &[
            "GET /about",
            "GET /about?x=y",
            "GET /about/",
            "GET /docs/guide",
            "GET /docs",
            "GET /docs/",
            "GET /both",
            "GET /both/",
            "GET /none",
        ],
    },
    Case {
        name: "gone",
        nginx: "location / { try_files $uri =410; }",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", try = [\"{path}\", \"=410\"] }",
        requests: &["GET /about.html", "GET /none", "HEAD /none"],
    },
    Case {
        name: "language first",
        nginx: "location / { try_files /de$uri $uri =404; }",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", try = [\"/de{path}\", \"{path}\", \"=404\"] }",
        requests: &["GET /a.txt", "GET /app.js", "GET /de/a.txt"],
    },
    Case {
        name: "files",
        nginx: "",
        larder: "[[site.route]]\nfiles = { root = \"WWW\" }",
        requests: &[
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /a.txt?query",
            "GET /a.txt | Range: bytes=2-4",
            "GET /a.txt | Range: bytes=-3",
            "GET /a.txt | Range: bytes=7-",
            "GET /a.txt | Range: bytes=10-",
            "GET /a.txt | Range: lines=1-2",
            "GET /a.txt | If-None-Match: *",
            "GET /a.txt | If-Match: \"other\"",
            "GET /a.txt | If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",
            "GET /a.txt | If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
            "GET /a.txt/",
            "GET /docs",
            "GET /docs/",
            "GET /docs?a=b",
            "GET /bare/",
            "GET /none",
            "POST /a.txt",
            "DELETE /a.txt",
            "OPTIONS /a.txt",
        ],
    },
    Case {
        name: "index",
        nginx: "index index.htm 404.html index.html;",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", index = [\"index.htm\", \"404.html\", \"index.html\"] }",
        requests: &["GET /", "GET /docs/"],
    },
    Case {
        name: "siblings",
        nginx: "gzip_static on; gzip_vary on;",
        larder: "[[site.route]]\nfiles = { root = \"WWW\" }",
        requests: &[
            "GET /style.css | Accept-Encoding: gzip",
            "GET /style.css",
            "GET /style.css | Accept-Encoding: gzip;q=0",
            "GET /app.js | Accept-Encoding: gzip",
        ],
    },
    Case {
        name: "page for absent paths",
        nginx: "error_page 404 /404.html;",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", not_found = \"/404.html\" }",
        requests: &["GET /none", "HEAD /none", "GET /none | Range: bytes=0-3", "GET /404.html"],
    },
    Case {
        name: "lifetime",
        nginx: "add_header Cache-Control max-age=3600;",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", cache_control = \"max-age=3600\" }",
        requests: &["GET /a.txt", "GET /none", "GET /a.txt | If-None-Match: *"],
    },
    Case {
        name: "directory with a prefix",
        nginx: "location / { return 404; } location /static/ { alias WWW/; }",
        larder: "[[site.route]]\npath = \"/static/*\"\nfiles = { root = \"WWW\", strip = \"/static\" }",
        requests: &[
            "GET /static/a.txt",
            "GET /static/docs",
            "GET /static/",
            "GET /static",
            "GET /static/../a.txt",
            "GET /a.txt",
            "GET /staticx",
        ],
    },
];

/// A directory, and an application for the other paths.
const PUBLIC: &[Case] = &[
    Case {
        name: "a file or the application",
        nginx: "location / { try_files $uri @app; } location @app { proxy_pass http://ORIGIN; }",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", fall_through = true, index = [] }\n[[site.route]]\nproxy = { to = [\"http://ORIGIN\"] }",
        requests: &[
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /a.txt | Range: bytes=2-4",
            "GET /with%20space.txt",
            "GET /docs/../a.txt",
            "GET /none",
            "GET /none?q=1",
            "HEAD /none",
            "POST /form",
            "GET /a.txt/x",
            "GET /bare",
            "GET /bare/",
            "GET /",
            "GET /docs",
            "GET /docs/",
            "GET /.env",
            "POST /a.txt",
            "DELETE /none",
            "OPTIONS /none",
        ],
    },
    Case {
        name: "a file, an index or the application",
        nginx: "location / { try_files $uri $uri/ @app; } location @app { proxy_pass http://ORIGIN; }",
        larder: "[[site.route]]\nfiles = { root = \"WWW\", fall_through = true }\n[[site.route]]\nproxy = { to = [\"http://ORIGIN\"] }",
        requests: &["GET /", "GET /docs", "GET /docs?a=b", "GET /docs/", "GET /bare/", "GET /none/"],
    },
];

/// The targets that an origin gets, and its references as clients get them.
const REWRITES: &[Case] = &[
    Case {
        name: "prefix removed",
        nginx: "location /api/ { proxy_pass http://ORIGIN/; }",
        larder: "[[site.route]]\npath = \"/api/*\"\nstrip = \"/api\"\nproxy = { to = [\"http://ORIGIN\"] }",
        requests: &[
            "GET /api/users?a=b",
            "GET /api/",
            "GET /api",
            "GET /api/a%20b",
            "GET /api/a%2Fb",
            "GET /api/x/../y",
            "GET /other",
            "POST /api/form",
        ],
    },
    Case {
        name: "prefix added",
        nginx: "location / { proxy_pass http://ORIGIN/v2/; }",
        larder: "[[site.route]]\nproxy = { to = [\"http://ORIGIN/v2\"] }",
        requests: &["GET /users", "GET /users?x=1", "GET /", "GET /moved", "GET /moved-absolutely"],
    },
    Case {
        name: "prefix replaced",
        nginx: "location / { rewrite ^/blog/(.*)$ /posts/$1 break; proxy_pass http://ORIGIN; }",
        larder: "[[site.route]]\npath = \"/blog/*\"\nstrip = \"/blog\"\nadd_prefix = \"/posts\"\nproxy = { to = [\"http://ORIGIN\"] }\n\
                 [[site.route]]\nproxy = { to = [\"http://ORIGIN\"] }",
        requests: &["GET /blog/2026/hello?x", "GET /blog/", "GET /about"],
    },
    Case {
        name: "query removed",
        nginx: "location / { rewrite ^ $uri? break; proxy_pass http://ORIGIN; }",
        larder: "[[site.route]]\nquery = { keep = [\"none\"] }\nproxy = { to = [\"http://ORIGIN\"] }",
        requests: &["GET /a?utm_source=x&b=c", "GET /a", "GET /a?"],
    },
];

/// Redirects and fixed answers.
const ANSWERS: &[Case] = &[
    Case {
        name: "another site",
        nginx: "return 301 https://example.org$request_uri;",
        larder: "[[site.route]]\nredirect = { to = \"https://example.org{uri}\", status = 301 }",
        requests: &[
            "GET /",
            "GET /a?b=c",
            "GET /a%20b",
            "GET /%0d%0aSet-Cookie:x",
            "GET //other.example/",
            "HEAD /a",
            "POST /a",
        ],
    },
    Case {
        name: "another page",
        nginx: "location = /old { return 302 /new; } location / { return 404; }",
        larder: "[[site.route]]\npath = \"/old\"\nredirect = { to = \"/new\" }\n[[site.route]]\nrespond = { status = 404 }",
        requests: &["GET /old", "GET /old?a=b", "GET /old/", "GET /other"],
    },
    Case {
        name: "moved permanently, method kept",
        nginx: "return 308 /v2$request_uri;",
        larder: "[[site.route]]\nredirect = { to = \"/v2{uri}\", status = 308 }",
        requests: &["GET /users?x", "POST /users"],
    },
    Case {
        name: "prefix moved",
        nginx: "location /old/ { rewrite ^/old/(.*)$ /new/$1 permanent; } location / { return 404; }",
        larder: "[[site.route]]\npath = \"/old/*\"\nredirect = { to = \"/new/{1}\", status = 301 }\n[[site.route]]\nrespond = { status = 404 }",
        requests: &["GET /old/a/b", "GET /old/", "GET /old/a%20b", "GET /old/a?b=c", "GET /old/../x"],
    },
    Case {
        name: "captures",
        nginx: "location ~ ^/blog/(\\d+)/(.+)$ { return 301 /posts/$2/$1; } location / { return 404; }",
        larder: "[[site.route]]\npath = 'regex:/blog/(\\d+)/(.+)'\nredirect = { to = \"/posts/{2}/{1}\", status = 301 }\n\
                 [[site.route]]\nrespond = { status = 404 }",
        requests: &["GET /blog/2026/hello", "GET /blog/x/hello", "GET /blog/2026/"],
    },
    Case {
        name: "fixed answers",
        nginx: "location = /ok { default_type text/plain; return 200 \"fine\"; } location = /gone { return 410; } \
                location = /none { return 204; } location / { return 403; }",
        larder: "[[site.route]]\npath = \"/ok\"\nrespond = { status = 200, body = \"fine\", type = \"text/plain\" }\n\
                 [[site.route]]\npath = \"/gone\"\nrespond = { status = 410 }\n\
                 [[site.route]]\npath = \"/none\"\nrespond = { status = 204 }\n\
                 [[site.route]]\nrespond = { status = 403 }",
        requests: &["GET /ok", "HEAD /ok", "POST /ok", "GET /gone", "GET /none", "GET /other"],
    },
];

/// Fields of responses, for every source of a response.
const FIELDS: &[Case] = &[
    Case {
        name: "field set",
        nginx: "add_header X-Frame-Options DENY always;",
        larder: "response_headers = { set = { X-Frame-Options = \"DENY\" } }\n[[site.route]]\nfiles = { root = \"WWW\" }",
        requests: &[
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /none",
            "GET /docs",
            "GET /a.txt | If-None-Match: *",
            "GET /a.txt | Range: bytes=0-1",
        ],
    },
    Case {
        name: "field set for success",
        nginx: "add_header X-Frame-Options DENY;",
        larder: "response_headers = { set = { X-Frame-Options = \"DENY\" } }\n[[site.route]]\nfiles = { root = \"WWW\" }",
        requests: &["GET /a.txt", "GET /none"],
    },
    Case {
        name: "fields of an origin",
        nginx: "location / { proxy_pass http://ORIGIN; proxy_hide_header X-Powered-By; proxy_hide_header X-App; add_header X-App 2; \
                add_header Link \"</a>\"; add_header Link \"</b>\"; }",
        larder: "response_headers = { set = { X-App = \"2\" }, remove = [\"X-Powered-By\"], add = { Link = \"</a>, </b>\" } }\n\
                 [[site.route]]\nproxy = { to = [\"http://ORIGIN\"] }",
        requests: &["GET /page", "HEAD /page", "POST /page"],
    },
    Case {
        name: "variables",
        nginx: "add_header X-App \"$request_method $host $uri\";",
        larder: "response_headers = { set = { X-App = \"{method} {host} {path}\" } }\n[[site.route]]\nfiles = { root = \"WWW\" }",
        requests: &["GET /a.txt?x", "HEAD /a.txt"],
    },
];

fn cases() -> impl Iterator<Item = (String, &'static Case)> {
    let all = [STATIC, PUBLIC, REWRITES, ANSWERS, FIELDS].into_iter().flatten();
    all.enumerate().map(|(number, case)| (format!("case{number}.test"), case))
}

/// The origin of the cases: it tells what it was asked, and where to go.
fn origin() -> Origin {
    Origin::new(|asked| match asked.target() {
        "/v2/moved" => "HTTP/1.1 302 Found\nLocation: /v2/there\nContent-Length: 0\n\n".to_owned(),
        "/v2/moved-absolutely" => {
            let host = asked.field("host").unwrap_or_default();
            format!("HTTP/1.1 302 Found\nLocation: http://{host}/v2/there\nContent-Length: 0\n\n")
        }
        target => format!(
            "HTTP/1.1 200 OK\nContent-Type: text/plain\nX-Powered-By: app\nX-App: 1\nCache-Control: no-store\n\n{} {target}",
            asked.line().split(' ').next().unwrap_or("")
        ),
    })
}

fn write_files(www: &Path) {
    for (name, text) in FILES {
        let path = www.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        // A file that was written a moment ago has no reliable date, and larder then sends none.
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(past).unwrap();
    }
}

#[test]
fn nginx_and_larder_answer_the_same_but_for_the_listed_differences() {
    let folder = tempfile::tempdir().unwrap();
    let www = folder.path().join("www");
    write_files(&www);
    let origin = origin();
    let fill = |text: &str| {
        text.replace("WWW", www.to_str().unwrap())
            .replace("ORIGIN", origin.url().trim_start_matches("http://"))
    };
    let types = "types { text/html html; text/css css; text/javascript js; text/plain txt; }\ndefault_type application/octet-stream;";
    let mut http = format!("{types}\nabsolute_redirect off;\n");
    let mut config = "listen = [\"127.0.0.1:0\"]\nworkers = 1\n".to_owned();
    for (host, case) in cases() {
        http.push_str(&fill(&format!(
            "server {{ listen LISTEN; server_name {host}; root WWW; {} }}\n",
            case.nginx
        )));
        config.push_str(&fill(&format!("[[site]]\nhosts = [\"{host}\"]\n{}\n", case.larder)));
    }
    let nginx = Nginx::start(folder.path(), &http);
    let larder = Larder::configured(config);
    let mut compared = Comparison::default();
    for (host, case) in cases() {
        for request in case.requests {
            compared.ask(case.name, &host, request, nginx.client(), larder.client());
        }
    }
    let count = compared.count;
    assert!(count >= CASES, "{count}");
    let intro = format!(
        "# Differences from nginx\n\nOf {count} requests of `tests/scenarios/compared_with_nginx.rs`, each sent to nginx 1.22 and to larder \
         with the same site. Where the\nstatus differs, no other part is listed."
    );
    compared.check("compared-with-nginx.md", "nginx", &intro);
}
