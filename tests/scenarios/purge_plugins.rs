//! Purges as the plugins of well-known applications send them: their requests, written down from their sources.

use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::origin::Received;
use crate::harness::server::Setup;
use crate::harness::{Larder, Origin};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const PAGES: [&str; 6] =
    ["/", "/blog/one/", "/blog/one/?page=2", "/blog/onemore/", "/wp-json/wp/v2/posts/1", "/shop/1"];

/// An application whose pages carry `field`: their tags.
fn application(tags: fn(&str) -> String) -> Origin {
    let made = AtomicUsize::new(0);
    Origin::new(move |it: &Received| {
        let (number, tags) = (made.fetch_add(1, SeqCst), tags(it.target()));
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Type: text/html\n{tags}\n\n{number}")
    })
}

fn larder(origin: &Origin, host: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [{host:?}]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n\
         cache = {{ purge = {{ method = true }} }}\n",
        origin.url()
    ))
}

/// The pages of `host` that are hits once this request was sent, and the number that it removed from RAM.
#[track_caller]
fn left_by(tags: fn(&str) -> String, purge: &str) -> (Vec<&'static str>, u64) {
    let origin = application(tags);
    let larder = larder(&origin, "example.com");
    let get = |page: &str| {
        let mut client = larder.client();
        client.send(format!("GET {page} HTTP/1.1\r\nHost: example.com\r\n\r\n"));
        client.read()
    };
    for page in PAGES {
        get(page);
        assert!(get(page).is_hit(), "{page} is stored");
    }
    let asked = origin.requests();
    let mut client = larder.client();
    client.send(purge);
    let answer = client.read();
    assert_eq!(200, answer.status, "{purge}: {answer:?}");
    assert_eq!(asked, origin.requests(), "it never reaches the application: {purge}");
    let json: Value = serde_json::from_str(&answer.text()).unwrap();
    let all = json["purges"].as_array().cloned().unwrap_or_else(|| vec![json.clone()]);
    let removed = all.iter().map(|it| it["receipts"][0]["count"].as_u64().unwrap()).sum();
    (PAGES.into_iter().filter(|it| get(it).is_hit()).collect(), removed)
}

#[track_caller]
fn check(tags: fn(&str) -> String, purge: &str, gone: &[&str]) {
    let (left, removed) = left_by(tags, purge);
    let expect: Vec<&str> = PAGES.into_iter().filter(|it| !gone.contains(it)).collect();
    assert_eq!((expect, gone.len() as u64), (left, removed), "{purge}");
}

fn none(_: &str) -> String {
    "X-Other: 1".to_owned()
}

const WORDPRESS: &str =
    "User-Agent: WordPress/6.9; https://example.com\r\nAccept: */*\r\nAccept-Encoding: deflate, gzip, br\r\n";

#[test]
fn wordpress_proxy_cache_purge() {
    let of = |target: &str, fields: &str| {
        format!(
            "PURGE {target} HTTP/1.1\r\nhost: example.com\r\n{WORDPRESS}{fields}Connection: close\r\n\r\n"
        )
    };
    check(none, &of("/blog/one/", "X-Purge-Method: default\r\n"), &["/blog/one/"]);
    check(none, &of("/.*", "X-Purge-Method: regex\r\n"), &PAGES);
    check(
        none,
        &of("/blog/.*", "X-Purge-Method: regex\r\n"),
        &["/blog/one/", "/blog/one/?page=2", "/blog/onemore/"],
    );
    // VarnishPurger::ban_url_with_any_query_string().
    let ban = "X-Purge-Method: ban-regex\r\nX-Ban-Regex: ^/blog/one($|/$|\\?.*|/\\?.*)\r\n";
    check(none, &of("/blog/one/", ban), &["/blog/one/", "/blog/one/?page=2"]);
}

#[test]
fn wordpress_wp_rocket_w3_total_cache_and_hummingbird() {
    let rocket = |target: &str, how: &str| {
        format!(
            "PURGE {target} HTTP/1.1\r\nhost: example.com\r\nX-Purge-Method: {how}\r\n{WORDPRESS}Connection: close\r\n\r\n"
        )
    };
    check(none, &rocket("/.*", "regex"), &PAGES);
    check(none, &rocket("/blog/onemore/", "default"), &["/blog/onemore/"]);
    let total = |target: &str| {
        format!(
            "PURGE {target} HTTP/1.1\r\nHost: example.com\r\nUser-Agent: W3 Total Cache/2.8.5\r\nConnection: close\r\n\r\n"
        )
    };
    check(none, &total("/.*"), &PAGES);
    check(none, &total("/shop/1"), &["/shop/1"]);
    check(none, &total("/sitemap.*\\.xml"), &[]);
}

fn drupal(target: &str) -> String {
    let own = if target.starts_with("/shop") { "node:1" } else { "node:10 config:block" };
    format!("Cache-Tags: {own} rendered")
}

#[test]
fn drupal_purge() {
    let guzzle = "User-Agent: GuzzleHttp/7\r\n";
    // ZeroConfigPurger: by the address of the server.
    check(
        drupal,
        &format!(
            "BAN /tags HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{guzzle}Cache-Tags: node:1 node:1:revisions\r\nAccept-Encoding: gzip\r\n\r\n"
        ),
        &["/shop/1"],
    );
    check(
        drupal,
        &format!("BAN /.* HTTP/1.1\r\n{guzzle}Host: example.com\r\nAccept-Encoding: gzip\r\n\r\n"),
        &PAGES,
    );
    check(
        drupal,
        &format!("BAN /blog/* HTTP/1.1\r\n{guzzle}Host: example.com\r\nAccept-Encoding: gzip\r\n\r\n"),
        &["/blog/one/", "/blog/one/?page=2", "/blog/onemore/"],
    );
    check(
        drupal,
        &format!("PURGE /shop/1 HTTP/1.1\r\n{guzzle}Host: example.com\r\nAccept-Encoding: gzip\r\n\r\n"),
        &["/shop/1"],
    );
    // The bundled purger: [invalidations:separated_pipe].
    for name in ["Cache-Tags", "Purge-Cache-Tags", "X-Cache-Tags"] {
        let tags: fn(&str) -> String = match name {
            "Cache-Tags" => drupal,
            "Purge-Cache-Tags" => |it| drupal(it).replace("Cache-Tags", "Purge-Cache-Tags"),
            _ => |it| drupal(it).replace("Cache-Tags", "X-Cache-Tags"),
        };
        let ban = format!(
            "BAN / HTTP/1.1\r\nHost: varnish:8080\r\n{guzzle}{name}: node:1:revisions|node_list|node:1\r\n\r\n"
        );
        check(tags, &ban, &["/shop/1"]);
    }
}

fn magento(target: &str) -> String {
    format!(
        "X-Magento-Tags: {}",
        if target.starts_with("/shop") { "cat_p_1,cat_p,store" } else { "cat_p_10,store" }
    )
}

#[test]
fn magento_cache_invalidate() {
    let of = |pattern: &str| {
        format!(
            "PURGE / HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\nUser-Agent: Laminas_Http_Client\r\nX-Magento-Tags-Pattern: {pattern}\r\n\r\n"
        )
    };
    check(magento, &of("((^|,)cat_p_1(,|$))|((^|,)cat_p_77(,|$))"), &["/shop/1"]);
    check(magento, &of("((^|,)store(,|$))"), &PAGES);
    check(magento, &of(".*"), &PAGES);
    // Another pattern is matched against the field of the response.
    check(magento, &of("(^|,)cat_p_[1-9](,|$)"), &["/shop/1"]);
}

fn symfony(target: &str) -> String {
    let tags = if target.starts_with("/shop") { "shop,one" } else { "blog" };
    format!("X-Cache-Tags: {tags}\nxkey: {}", tags.replace(',', " "))
}

#[test]
fn symfony_foshttpcache() {
    let of = |method: &str, fields: &str| format!("{method} / HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n");
    let ban = "X-Host: .*\r\nX-Url: .*\r\nX-Content-Type: .*\r\n";
    check(symfony, &of("BAN", &format!("{ban}X-Cache-Tags: (^|,)(one|two)(,|$)\r\n")), &["/shop/1"]);
    check(symfony, &of("BAN", ban), &PAGES);
    let ban = "X-Host: ^(example.com|www.example.com)$\r\nX-Url: ^/blog/\r\nX-Content-Type: text/html\r\n";
    check(symfony, &of("BAN", ban), &["/blog/one/", "/blog/one/?page=2", "/blog/onemore/"]);
    check(symfony, &of("BAN", "X-Host: .*\r\nX-Url: .*\r\nX-Content-Type: image/png\r\n"), &[]);
    check(symfony, &of("PURGETAGS", "X-Cache-Tags: one,two\r\n"), &["/shop/1"]);
    check(symfony, &of("PURGE", "Clear-Cache: true\r\n"), &PAGES);
    check(symfony, &of("PURGEKEYS", "xkey-purge: one two\r\n"), &["/shop/1"]);
    check(symfony, "PURGE /shop/1 HTTP/1.1\r\nHost: example.com\r\n\r\n", &["/shop/1"]);
}

#[test]
fn a_soft_purge_of_symfony_leaves_stale_responses() {
    let origin = application(symfony);
    let larder = larder(&origin, "*");
    larder.get("/shop/1");
    let answer = larder.client().request("PURGEKEYS", "/", "xkey-softpurge: one two\r\n", "");
    assert!(answer.status == 200 && answer.text().contains("\"soft\""), "{answer:?}");
    assert!(!larder.get("/shop/1").is_hit());
}

#[test]
fn laravel_varnishable() {
    let of = |method: &str, fields: &str| {
        format!(
            "{method} / HTTP/1.1\r\nHost: 127.0.0.1:6081\r\nUser-Agent: GuzzleHttp/7\r\nX-Ban-Host: example.com\r\n{fields}\r\n"
        )
    };
    check(none, &of("FULLBAN", ""), &PAGES);
    check(
        none,
        &of("BAN", "X-Ban-Regex: ^/blog/\r\n"),
        &["/blog/one/", "/blog/one/?page=2", "/blog/onemore/"],
    );
    check(none, &of("BAN", "X-Ban-Url: /shop/1\r\n"), &["/shop/1"]);
    check(none, &of("FULLBAN", "").replace("X-Ban-Host: example.com", "X-Ban-Host: other.example"), &[]);
}

/// What Proxy Cache Purge sends for a new post (VarnishPurger::purge_post): its URL, its feeds, and the pages that list it.
#[test]
fn with_the_preset_a_new_post_of_wordpress_is_on_the_home_page_at_once() {
    let posts = std::sync::Arc::new(AtomicUsize::new(1));
    let known = posts.clone();
    let origin = Origin::new(move |_: &Received| {
        let count = known.load(SeqCst);
        format!("HTTP/1.1 200 OK\nContent-Type: text/html; charset=UTF-8\n\n{count} posts")
    });
    let larder = Larder::before(&origin, "preset = \"wordpress\", purge = { method = true }");
    for path in ["/", "/feed/", "/category/news/"] {
        larder.get(path);
        let stored = larder.get(path);
        assert!(stored.is_hit() && stored.text() == "1 posts", "{path}: {}", stored.cache());
    }
    posts.store(2, SeqCst);
    for path in
        ["/2026/11/second/", "/category/news/", "/wp-json/wp/v2/posts/2/", "/feed/", "/feed/atom/", "/"]
    {
        let fields = format!("{WORDPRESS}X-Purge-Method: default\r\n");
        assert_eq!(200, larder.client().request("PURGE", path, &fields, "").status, "{path}");
    }
    for path in ["/", "/feed/", "/category/news/"] {
        assert_eq!("2 posts", larder.get(path).text(), "{path}");
    }
}

#[test]
fn a_purge_that_is_not_understood_is_refused_and_removes_nothing() {
    let origin = application(symfony);
    let larder = larder(&origin, "*");
    larder.get("/shop/1");
    for (method, target, fields, sentence) in [
        ("PURGE", "/shop/1", "X-Purge-Method: tags\r\n", "X-Purge-Method: tags is not supported"),
        ("PURGE", "/shop/1", "X-Purge-Method: ban-regex\r\n", "needs the pattern in X-Ban-Regex"),
        ("PURGE", "/shop/(", "X-Purge-Method: regex\r\n", "The pattern is not supported"),
        ("PURGE", "/shop/1", "X-Magento-Tags-Pattern: (?=x)\r\n", "The pattern is not supported"),
        ("BAN", "/", "X-Host: (\r\n", "The pattern is not supported"),
        ("PURGEKEYS", "/", "", "PURGEKEYS names no tag"),
        ("PURGETAGS", "/", "X-Cache-Tags: ,\r\n", "contains no tag"),
        ("FULLBAN", "/", "", "FULLBAN names no host"),
        ("PURGE", "/shop/1", "X-Invalidate-Pattern: x\r\n", "is not supported"),
    ] {
        let answer = larder.client().request(method, target, fields, "");
        assert_eq!(400, answer.status, "{method} {target} {fields}: {answer:?}");
        assert!(answer.text().contains(sentence), "{method} {target} {fields}: {answer:?}");
    }
    assert!(larder.get("/shop/1").is_hit() && larder.counter("purges") == 0);
    assert_eq!(1, origin.requests());
}

/// No pattern reaches beyond the routes that permit its client to purge.
#[test]
fn a_purge_by_pattern_covers_only_routes_that_allow_it() {
    let origin = application(magento);
    let route = |path: &str, purge: &str| {
        let url = origin.url();
        format!("[[site.route]]\npath = {path:?}\nproxy = {{ to = [{url:?}] }}\ncache = {{ {purge} }}\n")
    };
    let config = [
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"h\"]\n".to_owned(),
        route("/blog/*", "purge = { method = false }"),
        route("/*", "purge = { method = true }"),
    ];
    let larder = Larder::configured(config.concat());
    for (method, target, fields) in [
        ("PURGE", "/.*", "X-Purge-Method: regex\r\n"),
        ("PURGE", "/", "X-Magento-Tags-Pattern: .*\r\n"),
        ("PURGE", "/", "X-Magento-Tags-Pattern: ((^|,)store(,|$))\r\n"),
        ("PURGE", "/", "X-Magento-Tags-Pattern: stor[a-z]\r\n"),
        ("BAN", "/", "X-Host: .*\r\n"),
        ("FULLBAN", "/", "X-Ban-Host: h\r\n"),
    ] {
        ["/blog/one/", "/shop/1"].iter().for_each(|it| drop(larder.get(it)));
        let answer = larder.client().request(method, target, fields, "");
        assert_eq!(200, answer.status, "{method} {fields}: {answer:?}");
        assert!(larder.get("/blog/one/").is_hit(), "{method} {fields}: {answer:?}");
        assert!(!larder.get("/shop/1").is_hit(), "{method} {fields}: {answer:?}");
    }
    let config = config.concat().replace("method = true", "method = true, from = [\"10.0.0.0/8\"]");
    let larder = Larder::configured(config);
    larder.get("/shop/1");
    for method in ["PURGE", "BAN", "FULLBAN", "PURGEKEYS"] {
        let answer = larder.client().request(method, "/shop/1", "Cache-Tags: store\r\n", "");
        assert_eq!(403, answer.status, "{method}: {answer:?}");
    }
    assert!(larder.get("/shop/1").is_hit());
}

/// Nginx Helper of WordPress: a GET of the page's path below another one.
#[test]
fn a_get_below_the_path_of_purges() {
    let origin = application(|_| String::new());
    let with = |purge: &str| {
        Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"example.com\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n\
             cache = {{ purge = {{ method = true, {purge} }} }}\n",
            origin.url()
        ))
    };
    let get = |larder: &Larder, target: &str, lines: &str| {
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n{lines}\r\n"));
        client.read()
    };
    let larder = with("path = \"/purge\"");
    for page in PAGES {
        get(&larder, page, "");
    }
    let asked = origin.requests();
    assert_eq!(200, get(&larder, "/purge/blog/one/?page=2", "").status);
    assert_eq!(200, get(&larder, "/purge/", "").status);
    for field in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Mode: navigate",
        "sec-fetch-dest: image",
        "Origin: http://example.com",
        "Referer: http://example.com/",
        "Referer: http://evil.test/purge/shop/1",
    ] {
        assert_eq!(403, get(&larder, "/purge/shop/1", &format!("{field}\r\n")).status, "{field}");
    }
    assert_eq!(asked, origin.requests(), "no purge reaches the application");
    let left: Vec<&str> = PAGES.into_iter().filter(|it| get(&larder, it, "").is_hit()).collect();
    assert_eq!(["/blog/one/", "/blog/onemore/", "/wp-json/wp/v2/posts/1", "/shop/1"][..], left);
    // WordPress before 6.2 names the URL itself.
    let own = "User-Agent: WordPress/6.1; http://example.com\r\nReferer: http://example.com/purge/shop/2\r\n";
    assert_eq!(200, get(&larder, "/purge/shop/2", own).status);
    // Neither another path nor another method is a purge.
    for target in ["/purge", "/purged/shop/1", "/PURGE/shop/1", "/x/purge/shop/1"] {
        assert!(get(&larder, target, "").text().trim().parse::<usize>().is_ok(), "{target}");
    }
    let mut client = larder.client();
    client.send("POST /purge/shop/1 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n");
    assert!(client.read().text().trim().parse::<usize>().is_ok());
    assert!(get(&larder, "/shop/1", "").is_hit());
    // From elsewhere, and without the setting.
    let closed = with("path = \"/purge\", from = [\"192.0.2.0/24\"]");
    get(&closed, "/shop/1", "");
    assert_eq!(403, get(&closed, "/purge/shop/1", "").status);
    assert!(get(&closed, "/shop/1", "").is_hit());
    let without = with("from = [\"127.0.0.1/32\"]");
    assert!(get(&without, "/purge/shop/1", "").text().trim().parse::<usize>().is_ok());
}

#[test]
fn a_proxy_on_this_machine_purges_only_if_its_clients_are_known() {
    let origin = application(|_| String::new());
    let with = |trusted: &str| {
        Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\n{trusted}\n[[site]]\nhosts = [\"example.com\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n\
             cache = {{ purge = {{ method = true }} }}\n",
            origin.url()
        ))
    };
    let purge = |larder: &Larder, lines: &str| {
        let mut client = larder.client();
        client.send(format!("PURGE /shop/1 HTTP/1.1\r\nHost: example.com\r\n{lines}\r\n"));
        let answer = client.read();
        (answer.status, answer.text().contains("clients.trusted"))
    };
    let larder = with("");
    assert_eq!((200, false), purge(&larder, ""));
    for field in
        ["X-Forwarded-For: 8.8.8.8", "x-real-ip: 127.0.0.1", "Forwarded: for=8.8.8.8", "Via: 1.1 nginx"]
    {
        assert_eq!((403, true), purge(&larder, &format!("{field}\r\n")), "{field}");
    }
    let larder = with("clients.trusted = [\"127.0.0.0/8\"]");
    assert_eq!((200, false), purge(&larder, "Via: 1.1 nginx\r\nX-Forwarded-For: 127.0.0.1\r\n"));
    assert_eq!((403, false), purge(&larder, "X-Forwarded-For: 8.8.8.8\r\n"));
    assert_eq!((403, true), purge(&larder, "X-Forwarded-For: unknown\r\n"));
}

/// Plugins purge by the address of the site that is set in the application, or by the name of the server.
#[test]
fn a_host_that_is_redirected_to_the_canonical_one() {
    let origin = application(none);
    let larder = Larder::start(Setup {
        config: format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"example.com\", \"www.example.com\"]\ncanonical_host = \"example.com\"\n\
             [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\ncache = {{ purge = {{ method = true }} }}\n",
            origin.url()
        ),
        env: Vec::new(),
    });
    let send = |request: &str, host: &str| {
        let mut client = larder.client();
        client.send(format!("{request} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read()
    };
    let store = || {
        send("GET /shop/1", "example.com");
        assert!(send("GET /shop/1", "example.com").is_hit());
    };
    store();
    let answer = send("PURGE /shop/1", "www.example.com");
    let report: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(Some(1), report["receipts"][0]["count"].as_u64(), "{answer:?}");
    assert!(!send("GET /shop/1", "example.com").is_hit());
    store();
    let by_prefix = serde_json::json!({ "prefix": "http://www.example.com/shop/", "wait": true });
    super::purge::purge(&larder, by_prefix);
    assert!(!send("GET /shop/1", "example.com").is_hit());
}

/// A rule for files that begin with a dot made larder answer every purge with 400, and a route for some clients left their pages.
#[test]
fn a_page_that_routes_with_conditions_precede() {
    let origin = application(none);
    let cache = "cache = { key = { query = \"QUERY\" }, purge = { method = true } }";
    let proxy = format!("proxy = {{ to = [\"{}\"] }}", origin.url());
    let larder = Larder::start(Setup {
        config: format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"example.com\", \"www.example.com\"]\ncanonical_host = \"example.com\"\n\
             [[site.route]]\nwhen = 'path ~ \"/[.]\"'\nrespond = {{ status = 404 }}\n\
             [[site.route]]\nwhen = 'header.User-Agent ~ \"Mobile\"'\n{proxy}\n{}\n\
             [[site.route]]\n{proxy}\n{}\n",
            cache.replace("QUERY", "none"),
            cache.replace("QUERY", "all"),
        ),
        env: Vec::new(),
    });
    let send = |request: &str, more: &str| {
        let mut client = larder.client();
        client.send(format!("{request} HTTP/1.1\r\n{more}\r\n"));
        client.read()
    };
    let clients = ["Host: example.com\r\n", "Host: example.com\r\nUser-Agent: Mobile\r\n"];
    let by_pattern = |host: &str| format!("Host: {host}\r\nX-Purge-Method: regex\r\n");
    for (purge, more) in [
        ("PURGE /shop/1?q=1", clients[0].to_owned()),
        ("PURGE /.*", by_pattern("example.com")),
        ("PURGE /shop/.*", by_pattern("www.example.com")),
    ] {
        for client in clients {
            send("GET /shop/1?q=1", client);
            assert!(send("GET /shop/1?q=1", client).is_hit(), "{client}");
        }
        let answer = send(purge, &more);
        assert_eq!(200, answer.status, "{purge} {answer:?}");
        for client in clients {
            assert!(!send("GET /shop/1?q=1", client).is_hit(), "{purge} {client} {answer:?}");
        }
    }
}

/// Clients that frame an empty body, or add one: the purge is honoured, and the connection stays in step with them.
#[test]
fn a_purge_may_have_a_body() {
    let origin = application(none);
    let larder = larder(&origin, "example.com");
    let long = "x".repeat(200_000);
    let hidden = "GET /shop/1 HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let framed = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let chunked =
        |body: &str| format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for rest in [
        framed(""),
        framed("x=1"),
        framed(hidden),
        framed(&long),
        chunked("x=1"),
        chunked(hidden),
        chunked(&long),
    ] {
        let about = &rest[..40.min(rest.len())];
        let mut client = larder.client();
        client.send("GET /blog/one/ HTTP/1.1\r\nHost: example.com\r\n\r\n");
        client.read();
        let asked = origin.requests();
        client.send(format!("PURGE /blog/one/ HTTP/1.1\r\nHost: example.com\r\n{rest}"));
        let purged = client.read();
        assert_eq!(200, purged.status, "{about}: {purged:?}");
        // A connection whose body is too long to be skipped is closed.
        if purged.field("connection") != Some("close") {
            client.send("GET /blog/one/ HTTP/1.1\r\nHost: example.com\r\n\r\n");
            assert!(!client.read().is_hit(), "{about}: the page was purged");
            assert_eq!(asked + 1, origin.requests(), "{about}: only this request follows");
        }
    }
}

#[test]
fn a_purge_over_http_2_may_have_a_body() {
    let origin = application(none);
    let larder = larder(&origin, "h");
    let mut http2 = Http2::connect(&larder);
    for (body, length) in [("", "0"), ("x=1", "3")] {
        http2.get("/blog/one/");
        assert!(http2.get("/blog/one/").field("cache-status").unwrap().contains("hit"));
        let purge = http2.head(&request("PURGE", "/blog/one/", &[("content-length", length)]), 0);
        http2.data(purge, body.as_bytes(), END_STREAM);
        let purged = http2.answer(purge);
        assert_eq!("200", purged.field(":status").unwrap(), "{}", purged.text());
        assert!(!http2.get("/blog/one/").field("cache-status").unwrap().contains("; hit"));
    }
}
