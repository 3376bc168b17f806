//! The page "Nextcloud" of the guide, and the configuration for nginx of Nextcloud's manual (29, "Nextcloud in the webroot of nginx"), before a tree with the same paths.

use super::{HOST, check, write};
use crate::harness::Larder;
use crate::harness::comparison::Comparison;
use crate::harness::nginx::Nginx;
use crate::harness::php::PhpFpm;

/// The page that every script is.
const PAGE: &str = "<?php header('Content-Type: text/plain'); header_remove('X-Powered-By'); echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', \
                    $_SERVER['REQUEST_URI'], ' ', $_SERVER['front_controller_active'] ?? '', ' ', $_SERVER['HTTPS'] ?? '';";

const FILES: &[(&str, &str)] = &[
    ("index.php", PAGE),
    ("remote.php", PAGE),
    ("public.php", PAGE),
    ("status.php", PAGE),
    ("cron.php", PAGE),
    ("occ", "#!/usr/bin/env php"),
    ("console.php", PAGE),
    ("ocs/v1.php", PAGE),
    ("ocs/v2.php", PAGE),
    ("ocs-provider/index.php", PAGE),
    ("updater/index.php", PAGE),
    ("core/ajax/update.php", PAGE),
    ("core/css/server.css", "p { color: red }"),
    ("core/img/logo.svg", "<svg/>"),
    ("core/fonts/a.woff2", "font"),
    ("apps/files/appinfo.php", PAGE),
    ("config/config.php", "<?php // the password"),
    ("data/alice/files/a.txt", "a file of alice"),
    ("lib/base.php", PAGE),
    ("3rdparty/a.php", PAGE),
    (".htaccess", "hidden"),
    (".well-known/acme-challenge/token", "a token"),
    ("robots.txt", "User-agent: *"),
];

const NGINX: &str = r#"
types { text/html html; text/css css; text/javascript js mjs; text/plain txt; image/svg+xml svg; font/woff2 woff2; application/wasm wasm; }
default_type application/octet-stream;
absolute_redirect off;
map $arg_v $asset_immutable { "" ""; default ", immutable"; }
server {
    listen LISTEN;
    server_name site.test;
    root WWW;
    client_max_body_size 512M;
    client_body_timeout 300s;
    add_header Referrer-Policy "no-referrer" always;
    add_header X-Content-Type-Options "nosniff" always;
    add_header X-Frame-Options "SAMEORIGIN" always;
    add_header X-Permitted-Cross-Domain-Policies "none" always;
    add_header X-Robots-Tag "noindex, nofollow" always;
    fastcgi_hide_header X-Powered-By;
    index index.php index.html /index.php$request_uri;
    location = / {
        if ( $http_user_agent ~ ^DavClnt ) { return 302 /remote.php/webdav/$is_args$args; }
    }
    location = /robots.txt { allow all; }
    location ^~ /.well-known {
        location = /.well-known/carddav { return 301 /remote.php/dav/; }
        location = /.well-known/caldav { return 301 /remote.php/dav/; }
        location /.well-known/acme-challenge { try_files $uri $uri/ =404; }
        location /.well-known/pki-validation { try_files $uri $uri/ =404; }
        return 301 /index.php$request_uri;
    }
    location ~ ^/(?:build|tests|config|lib|3rdparty|templates|data)(?:$|/) { return 404; }
    location ~ ^/(?:\.|autotest|occ|issue|indie|db_|console) { return 404; }
    location ~ \.php(?:$|/) {
        rewrite ^/(?!index|remote|public|cron|core\/ajax\/update|status|ocs\/v[12]|updater\/.+|ocs-provider\/.+|.+\/richdocumentscode(_arm64)?\/proxy) /index.php$request_uri;
        fastcgi_split_path_info ^(.+?\.php)(/.*)$;
        set $path_info $fastcgi_path_info;
        try_files $fastcgi_script_name =404;
        FASTCGI_PARAMS
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $path_info;
        fastcgi_param HTTPS on;
        fastcgi_param modHeadersAvailable true;
        fastcgi_param front_controller_active true;
        fastcgi_pass unix:SOCKET;
        fastcgi_intercept_errors on;
        fastcgi_request_buffering off;
        fastcgi_max_temp_file_size 0;
    }
    location ~ \.(?:css|js|mjs|svg|gif|ico|jpg|png|webp|wasm|tflite|map|ogg|flac)$ {
        try_files $uri /index.php$request_uri;
        add_header Cache-Control "public, max-age=15778463$asset_immutable";
        add_header Referrer-Policy "no-referrer" always;
        add_header X-Content-Type-Options "nosniff" always;
        add_header X-Frame-Options "SAMEORIGIN" always;
        add_header X-Permitted-Cross-Domain-Policies "none" always;
        add_header X-Robots-Tag "noindex, nofollow" always;
    }
    location ~ \.(otf|woff2?)$ {
        try_files $uri /index.php$request_uri;
        expires 7d;
    }
    location /remote { return 301 /remote.php$request_uri; }
    location / { try_files $uri $uri/ /index.php$request_uri; }
}
"#;

/// The variables of Debian's `fastcgi_params`.
const PARAMETERS: &[(&str, &str)] = &[
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("SERVER_NAME", "$server_name"),
];

const REQUESTS: &[&str] = &[
    "GET /",
    "GET / | User-Agent: DavClnt/1",
    "GET /index.php/apps/files?dir=/",
    "GET /apps/files",
    "GET /apps/files/",
    "GET /login",
    "GET /remote.php/dav/files/alice/",
    "GET /remote.php/webdav",
    "GET /remote/x",
    "GET /public.php?service=files",
    "GET /status.php",
    "GET /ocs/v2.php/cloud/capabilities?format=json",
    "GET /ocs-provider/",
    "GET /ocs-provider/index.php",
    "GET /updater/index.php",
    "GET /core/ajax/update.php",
    "GET /apps/files/appinfo.php",
    "GET /.well-known/carddav",
    "GET /.well-known/caldav",
    "GET /.well-known/webfinger?resource=a",
    "GET /.well-known/acme-challenge/token",
    "GET /.well-known/acme-challenge/none",
    "GET /data/alice/files/a.txt",
    "GET /data",
    "GET /config/config.php",
    "GET /lib/base.php",
    "GET /3rdparty/a.php",
    "GET /occ",
    "GET /console.php",
    "GET /.htaccess",
    "GET /core/css/server.css",
    "GET /core/css/server.css?v=1",
    "GET /core/img/none.svg",
    "GET /core/fonts/a.woff2",
    "GET /robots.txt",
    "GET /data%2falice/files/a.txt",
    "GET //data/alice/files/a.txt",
    "GET /x/../data/alice/files/a.txt",
    "GET /index.php/../data/alice/files/a.txt",
];

/// Spellings of paths of files that no client may have.
const ATTACKS: &[&str] = &[
    "/data/../data/alice/files/a.txt",
    "/%64ata/alice/files/a.txt",
    "/data%2falice%2ffiles/a.txt",
    "/data;a=b/alice/files/a.txt",
    "/data/alice/files/a.txt/",
    "/data/alice/files/a.txt?v=1",
    "/x.css/../data/alice/files/a.txt",
    "/x.css/..%2fdata/alice/files/a.txt",
    "/index.php/../data/alice/files/a.txt",
    "/index.php/%2e%2e/data/alice/files/a.txt",
    "/index.php/..;/data/alice/files/a.txt",
    "/ocs-provider/../data/alice/files/a.txt",
    "/ocs-provider/..%2fdata/alice/files/a.txt",
    "/updater/x.php/../../data/alice/files/a.txt",
    "/.well-known/acme-challenge/../../data/alice/files/a.txt",
    "/.well-known/acme-challenge/..%2f..%2fdata/alice/files/a.txt",
    "/.well-known/acme-challenge/%2e%2e/%2e%2e/data/alice/files/a.txt",
    "/remote/../data/alice/files/a.txt",
    "//data//alice/files/a.txt",
    "/data\\alice/files/a.txt",
    "/config/config.php/x",
    "/config//config.php",
    "/updater/../config/config.php",
    "/lib/base.php/x.css",
    "/apps/files/appinfo.php/x",
    "/apps/files/appinfo.php%2fx",
    "/apps/files//appinfo.php",
    "/apps/files/appinfo%2ephp",
    "/3rdparty/a.php/.css",
    "/x/../.htaccess",
    "/%2ehtaccess",
    "/console.php/x",
    "/occ/",
];

#[test]
fn nextcloud_as_its_manual_has_it_for_nginx() {
    let (folder, fpm) = (tempfile::tempdir().unwrap(), PhpFpm::start(2));
    let www = folder.path().join("www");
    write(&www, FILES);
    let parameters: String =
        PARAMETERS.iter().map(|(name, value)| format!("fastcgi_param {name} {value};\n")).collect();
    let fill = |text: &str| {
        text.replace("WWW", www.to_str().unwrap())
            .replace("SOCKET", fpm.socket().to_str().unwrap())
            .replace("FASTCGI_PARAMS", &parameters)
    };
    let nginx = Nginx::start(folder.path(), &fill(NGINX));
    let page = include_str!("../../../docs/guide/nextcloud.md");
    let config = page.split("```").nth(1).unwrap().trim_start_matches("toml");
    let config = config.replace("0.0.0.0:80", "127.0.0.1:0").replace("cloud.example.com", HOST);
    let config = config.replace("/srv/nextcloud", "WWW").replace("/run/php/php-fpm.sock", "SOCKET");
    let larder = Larder::configured(fill(&config));
    let mut compared = Comparison::default();
    for request in REQUESTS {
        compared.ask("Nextcloud", HOST, request, nginx.client(), larder.client());
    }
    for target in ATTACKS {
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        let answer = client.read();
        let is_front = answer.text().starts_with("/index.php ");
        assert!(answer.status != 200 || is_front, "{target}: {} {}", answer.status, answer.text());
    }
    check(&compared, "moved-nextcloud.md", "nginx 1.22", "nextcloud");
}
