//! The same PHP site by nginx, by Apache (`mod_proxy_fcgi`), by lighttpd and by larder: the variables that a script gets of 60 requests. Each
//! difference has a reason, and is in `tests/golden/beside-php.md`.

use super::{build, told, variable};
use crate::harness::apache::Apache;
use crate::harness::lighttpd::Lighttpd;
use crate::harness::nginx::Nginx;
use crate::harness::php::PhpFpm;
use crate::harness::{Client, Larder};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The requests: method, target, and fields after ` | `.
const REQUESTS: &[&str] = &[
    "GET /",
    "GET /?a=b",
    "GET /index.php",
    "GET /index.php?a=b&c[]=d",
    "GET /index.php/",
    "GET /index.php/a/b",
    "GET /index.php/a%20b",
    "GET /index.php/a%2Fb",
    "GET /index.php/a+b",
    "GET /index.php/%C3%A4",
    "GET /index.php/a/../b",
    "GET /index.php//a",
    "GET /index.php/x.php",
    "GET /index.php/x.php/y",
    "GET /index.php/.well-known/x",
    "GET /env.php",
    "GET /env.php?",
    "GET /env.php??a",
    "GET /env.php?a=b?c",
    "GET /env.php?a%20b",
    "GET /env.php?%00",
    "GET /env.php?a=b/c.php",
    "GET /env.php;a=b",
    "GET /%65nv.php",
    "GET /env%2Ephp",
    "GET /env.php%2Fa",
    "GET /env%252ephp",
    "GET //env.php",
    "GET /./env.php",
    "GET /bare/../env.php",
    "GET /bare/%2e%2e/env.php",
    "GET /ENV.PHP",
    "GET /none.php",
    "GET /none.php/a",
    "GET /none",
    "GET /none/",
    "GET /none/a/b?c=d",
    "GET /a%20b",
    "GET /%C3%A4",
    "GET /a%2Fb",
    "GET /admin/",
    "GET /admin/?a=b",
    "GET /admin",
    "GET /admin/none",
    "GET /bare",
    "GET /bare/",
    "GET /upload/x.jpg/y.php",
    "GET /upload/x.jpg/y",
    "GET /env.php%00",
    "GET /env.php%0a",
    "GET /index.php/%0aa",
    "GET /.env",
    "GET /.git/hook.php",
    "HEAD /env.php",
    "POST /env.php",
    "POST /none",
    "POST /style.css",
    "PUT /env.php/a",
    "DELETE /env.php",
    "OPTIONS /env.php",
    "PROPFIND /env.php",
    "GET /env.php | Cookie: a=b; c=d",
    "GET /env.php | Authorization: Basic YTpi",
    "GET /env.php | Proxy: http://evil",
    "GET /env.php | X-Under_Score: 1",
    "GET /env.php | X-A: 1\r\nX-A: 2",
    "GET /env.php | Content-Type: a/b",
];

/// The variables that are compared. Addresses, ports, and fields that larder adds are not.
const COMPARED: &[&str] = &[
    "REQUEST_METHOD",
    "REQUEST_URI",
    "QUERY_STRING",
    "SCRIPT_NAME",
    "SCRIPT_FILENAME",
    "PATH_INFO",
    "PHP_SELF",
    "PATH_TRANSLATED",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "HTTPS",
    "REQUEST_SCHEME",
    "SERVER_NAME",
    "SERVER_PROTOCOL",
    "GATEWAY_INTERFACE",
    "HTTP_HOST",
    "HTTP_COOKIE",
    "HTTP_AUTHORIZATION",
    "PHP_AUTH_USER",
    "HTTP_PROXY",
    "HTTP_X_UNDER_SCORE",
    "HTTP_X_A",
];

/// Why a part differs: a part of the request, the part, the other server, the reason. The first that fits counts.
const REASONS: &[(&str, &str, &str, &str)] = &[
    (
        "",
        "PATH_INFO",
        "nginx",
        "a path without information has no variable; an empty one led to CVE-2019-11043.",
    ),
    (
        "",
        "PATH_TRANSLATED",
        "nginx",
        "the path behind that of the script, beneath the root (RFC 3875 section 4.1.6), as by lighttpd; nginx sets none.",
    ),
    (
        "",
        "PATH_TRANSLATED",
        "Apache",
        "the path behind that of the script, beneath the root, as by lighttpd; Apache reads it as a URL of the site, which is the front controller.",
    ),
    ("", "CONTENT_LENGTH", "nginx", "a request without a body has no variable; nginx sets an empty one."),
    ("", "CONTENT_TYPE", "nginx", "a request without the field has no variable; nginx sets an empty one."),
    (
        "X-A",
        "HTTP_X_A",
        "nginx",
        "lines of one field are one value (RFC 9110 section 5.3); nginx 1.22 takes the last.",
    ),
    ("", "CONTENT_LENGTH", "lighttpd", "a request without a body has no variable; lighttpd sets 0."),
    (
        "X-Under_Score",
        "HTTP_X_UNDER_SCORE",
        "lighttpd",
        "`X-Under-Score` would be the same variable: a client could set a field that a proxy removes.",
    ),
    (
        "",
        "QUERY_STRING",
        "lighttpd",
        "the query of the client is passed on as it is; lighttpd encodes brackets.",
    ),
    ("?%00", "status", "lighttpd", "the query of the client is passed on as it is; lighttpd rejects NUL."),
    ("/admin", "", "lighttpd", "the rule of lighttpd for a front controller excepts files, not directories."),
    ("Authorization", "", "Apache", "scripts get the field, as by nginx; Apache needs CGIPassAuth."),
    ("GET /.", "answers", "", "hidden files are neither sent nor run; the front controller answers."),
    (
        "POST /style.css",
        "",
        "",
        "a form at the path of a file belongs to the application; nginx answers 405, Apache sends the file.",
    ),
    ("%0", "status", "", "a path with a control character is 400 for every route with PHP."),
    (
        "%2F",
        "status",
        "Apache",
        "an encoded slash is one of the normal form of the path; Apache rejects it (AllowEncodedSlashes).",
    ),
    (
        "/none.php",
        "status",
        "",
        "a path without a file belongs to the front controller, as in Caddy and in the rules of WordPress for Apache.",
    ),
    (
        "/bare",
        "status",
        "",
        "a directory without an index belongs to the front controller, which may have a page there.",
    ),
    (
        "/upload/",
        "",
        "",
        "the picture is not run, and the path belongs to the front controller like any other without a file.",
    ),
];

/// Status, what answers, target of a redirect, and variables of a response; `-` for one that is not set.
fn parts(mut client: Client, request: &str, root: &str) -> Vec<(String, String)> {
    let mut words = request.split(" | ");
    let (method, target) = words.next().unwrap().split_once(' ').unwrap();
    let fields: String = words.map(|it| format!("{it}\r\n")).collect();
    let body = if matches!(method, "POST" | "PUT") { "Content-Length: 3\r\n\r\na=b" } else { "\r\n" };
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: example.com\r\n{fields}{body}"));
    let answer = client.read_for(method);
    let mut parts = vec![("status".to_owned(), answer.status.to_string())];
    if let Some(to) = answer.field("location") {
        parts.push(("location".to_owned(), to.replace("http://example.com", "")));
    }
    if answer.status != 200 || method == "HEAD" {
        return parts;
    }
    if !answer.text().starts_with('{') {
        parts.push(("answers".to_owned(), "a file".to_owned()));
        return parts;
    }
    let report = told(&answer);
    parts.push(("answers".to_owned(), variable(&report, "SCRIPT_NAME")));
    let value = |name: &str| variable(&report, name).replace(root, "ROOT");
    parts.extend(COMPARED.iter().map(|it| ((*it).to_owned(), value(it))));
    parts
}

fn reason(request: &str, part: &str, server: &str) -> &'static str {
    let fits = |it: &&(&str, &str, &str, &str)| {
        request.contains(it.0) && (it.1 == part || it.1.is_empty()) && (it.2 == server || it.2.is_empty())
    };
    REASONS.iter().find(fits).map_or("UNKNOWN", |it| it.3)
}

/// The differences of one response: part, theirs, larder's. Where the status or the script differs, the rest follows from it.
fn differences(own: &[(String, String)], other: &[(String, String)]) -> Vec<[String; 3]> {
    let mut found = Vec::new();
    for (name, value) in own {
        let theirs = other.iter().find(|it| it.0 == *name).map_or("-", |it| &it.1);
        // A variable that Apache has not at all is none that applications need.
        let is_none = name == "DOCUMENT_URI" && theirs == "-";
        if value != theirs && !is_none {
            found.push([name.clone(), theirs.to_owned(), value.clone()]);
        }
        if matches!(&**name, "status" | "answers") && value != theirs {
            break;
        }
    }
    found
}

/// A folder that other users may read.
fn readable() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    folder
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn differences_from_nginx_apache_and_lighttpd() {
    let (site, of_nginx, of_apache, of_lighttpd) = (readable(), readable(), readable(), readable());
    let fpm = PhpFpm::start(2);
    open_to_all(fpm.socket().parent().unwrap());
    build(site.path());
    let root = site.path().canonicalize().unwrap().display().to_string();
    let socket = fpm.socket().display().to_string();
    let nginx = format!(
        "include /etc/nginx/mime.types; server {{ listen LISTEN; server_name example.com; root {root}; index index.php;\n\
         location / {{ try_files $uri $uri/ /index.php$is_args$args; }}\n\
         location ~ [^/]\\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; if (!-f $document_root$fastcgi_script_name) {{ return 404; }}\n\
         fastcgi_param HTTP_PROXY \"\"; fastcgi_index index.php; include /etc/nginx/fastcgi_params; fastcgi_pass unix:{socket};\n\
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info; }} }}"
    );
    let apache = format!(
        "DocumentRoot {root}\nDirectoryIndex index.php\nProxyFCGIBackendType FPM\n\
         <Directory {root}>\nRequire all granted\nFallbackResource /index.php\n</Directory>\n\
         <FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:{socket}|fcgi://localhost\"\n</FilesMatch>"
    );
    // The rule of its documentation for a front controller; paths of scripts are excepted.
    let lighttpd = format!(
        "server.document-root = {root:?}\nindex-file.names = (\"index.php\", \"index.html\")\nstatic-file.exclude-extensions = (\".php\")\n\
         mimetype.assign = (\".css\" => \"text/css\", \".jpg\" => \"image/jpeg\")\n\
         url.rewrite-if-not-file = (\"^/[^?]*\\.php(?:[/?]|$)\" => \"\", \"\" => \"/index.php${{qsa}}\")\n\
         fastcgi.server = (\".php\" => ((\"socket\" => {socket:?})))"
    );
    let nginx = Nginx::start(of_nginx.path(), &nginx);
    let lighttpd = Lighttpd::start(of_lighttpd.path(), &["rewrite", "fastcgi"], &lighttpd);
    let apache = Apache::start(
        of_apache.path(),
        &["dir", "mime", "proxy", "proxy_fcgi"],
        &format!("TypesConfig /etc/mime.types\n{apache}"),
    );
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nphp = {{ root = {root:?}, to = {:?} }}\n",
        fpm.name()
    ));
    // By part, server and reason: the requests, and the values of the first.
    let mut rows: BTreeMap<(String, &str, &str), (Vec<String>, String)> = BTreeMap::new();
    for request in REQUESTS {
        let own = parts(larder.client(), request, &root);
        let others =
            [("nginx", nginx.client()), ("Apache", apache.client()), ("lighttpd", lighttpd.client())];
        for (server, client) in others {
            for [part, theirs, ours] in differences(&own, &parts(client, request, &root)) {
                let shown = format!("`{}`", request.replace('|', "\\|").replace("\r\n", " \\| "));
                let key = (part.clone(), server, reason(request, &part, server));
                let row = rows.entry(key).or_insert_with(|| (Vec::new(), format!("`{theirs}` \\| `{ours}`")));
                row.0.push(shown);
            }
        }
    }
    let mut text = format!(
        "# Differences of PHP sites from nginx, Apache and lighttpd\n\nOf {} requests of `tests/scenarios/php/beside.rs`, each sent to nginx 1.22, Apache 2.4, lighttpd 1.4.69 and larder\n\
         before the same php-fpm. Where the status or the answering script differs, no other part is listed. The values are those of the first request.\n\n\
         | part | other | theirs \\| larder | reason | requests |\n|---|---|---|---|---|\n",
        REQUESTS.len()
    );
    for ((part, server, why), (requests, values)) in &rows {
        let all = requests.join(", ");
        let _ = writeln!(text, "| {part} | {server} | {values} | {why} | {} : {all} |", requests.len());
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/beside-php.md");
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert!(!text.contains("UNKNOWN"), "a difference has no reason: {text}");
    assert_eq!(std::fs::read_to_string(&golden).unwrap_or_default(), text, "LARDER_BLESS=1 writes it");
}
