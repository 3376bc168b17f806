//! The key recipe: requests for the same page, and for different ones.

use crate::harness::pages::Second::{self, Hit, Miss};
use crate::harness::{Larder, Origin, Pages};

#[track_caller]
fn query(pages: &Pages, a: &str, b: &str, expect: Second) {
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.with_query(a).get("");
    assert_eq!(expect, page.with_query(b).get_again(""), "?{a} then ?{b}");
}

#[test]
fn by_default_the_exact_target() {
    let pages = Pages::new("");
    query(&pages, "a=1&b=2", "a=1&b=2", Hit);
    query(&pages, "a=1&b=2", "b=2&a=1", Miss);
    query(&pages, "a=1", "a=2", Miss);
    query(&pages, "a=1", "A=1", Miss);
    query(&pages, "a", "a=", Miss);
    query(&pages, "", "a", Miss);
    query(&pages, "a=%2f", "a=%2F", Miss);
    query(&pages, "a=1", "a=1&", Miss);
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.get("");
    assert_eq!(Hit, page.get_again("Cookie: a=1"));
    assert_eq!(Hit, page.get_again("User-Agent: x"));
    for host in ["other", "h:81", "h.", "hh"] {
        let mut client = pages.larder.client();
        client.send(format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", page.target));
        assert!(!client.read().is_hit(), "{host}");
    }
    for host in ["H", "h:80", "H:80"] {
        let mut client = pages.larder.client();
        client.send(format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", page.target));
        assert!(client.read().is_hit(), "{host} is the same host");
    }
    let mut client = pages.larder.client();
    client.send(format!("GET http://h{} HTTP/1.1\r\nHost: h\r\n\r\n", page.target));
    assert!(client.read().is_hit(), "absolute form is another spelling");
}

#[test]
fn parameters_dropped_and_sorted() {
    let pages = Pages::new("key = { drop = [\"utm_*\", \"fbclid\"], sort = true }");
    query(&pages, "a=1", "a=1&utm_source=x", Hit);
    query(&pages, "a=1", "utm_source=x&a=1&fbclid=2", Hit);
    query(&pages, "a=1", "a=1&utm=x", Miss);
    query(&pages, "b=2&a=1", "a=1&b=2", Hit);
    query(&pages, "a=1&a=2", "a=2&a=1", Miss);
    query(&pages, "utm_source=x", "utm_source=y", Hit);
    query(&pages, "a=1", "a=1&%75tm_source=x", Hit);
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.with_query("utm_a=1&b=2&a=1").get("");
    assert!(page.received()[0].target().ends_with("?a=1&b=2"), "the origin sees the target that the key has");
}

#[test]
fn parameters_kept_or_none() {
    let pages = Pages::new("key = { keep = [\"page\", \"q*\"] }");
    query(&pages, "page=1", "page=1&other=2", Hit);
    query(&pages, "page=1", "page=2", Miss);
    query(&pages, "q1=a&page=1", "page=1&q1=a", Miss);
    let none = Pages::new("key = { query = \"none\" }");
    query(&none, "a=1", "b=2", Hit);
    query(&none, "", "b=2", Hit);
}

#[test]
fn fields_cookies_and_hosts() {
    let pages = Pages::new("key = { headers = [\"X-Country\"], cookies = [\"currency\"] }");
    let check = |a: &str, b: &str, expect: Second| {
        let page = pages.page(&["Cache-Control: max-age=60"]);
        page.get(a);
        assert_eq!(expect, page.get_again(b), "{a} then {b}");
    };
    check("X-Country: de", "X-Country: de", Hit);
    check("X-Country: de", "X-Country: fr", Miss);
    check("X-Country: de", "", Miss);
    check("", "X-Country: ", Miss);
    check("Cookie: currency=EUR", "Cookie: a=1; currency=EUR", Hit);
    check("Cookie: currency=EUR", "Cookie: currency=USD", Miss);
    check("Cookie: currency=EUR", "", Miss);
    check("X-Country: de c:currency=EUR", "X-Country: de | Cookie: currency=EUR", Miss);
    let shared = Pages::new("key = { ignore_host = true }");
    let page = shared.page(&["Cache-Control: max-age=60"]);
    page.get("");
    let mut client = shared.larder.client();
    client.send(format!("GET {} HTTP/1.1\r\nHost: other\r\n\r\n", page.target));
    assert!(client.read().is_hit());
}

/// Hosts of one site share its pages; another site's are another's, whatever its origin.
#[test]
fn sites_share_nothing_where_hosts_do() {
    let page =
        |text: &'static str| Origin::fixed(&format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{text}"));
    let origins = [page("shop"), page("bank"), page("rest")];
    let site = |(hosts, origin): (&str, &Origin)| {
        format!(
            "[[site]]\nhosts = [{hosts}]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        )
    };
    let hosts = ["\"shop.test\", \"www.shop.test\"", "\"*.bank.test\", \"bank.test\"", "\"*\""];
    let sites: String = hosts.into_iter().zip(&origins).map(site).collect();
    let config = format!("listen = [\"127.0.0.1:0\"]\n[cache.key]\nignore_host = true\n{sites}");
    let larder = Larder::configured(config);
    let report = |host: &str| {
        let response = larder.client().send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).read();
        (response.text(), response.is_hit())
    };
    for (host, text, hit) in [
        ("shop.test", "shop", false),
        ("bank.test", "bank", false),
        ("other", "rest", false),
        ("www.shop.test", "shop", true),
        ("a.bank.test", "bank", true),
        ("another", "rest", true),
    ] {
        assert_eq!((text.to_owned(), hit), report(host), "{host}");
    }
    let mut admin = crate::harness::Client::connect(larder.admin);
    let purged = admin.send(format!(
        "POST /cache/purge HTTP/1.1\r\n{}\r\nContent-Length: 31\r\n\r\n{}",
        larder.admin_lines(),
        r#"{"url":"http://www.shop.test/"}"#
    ));
    assert_eq!(200, purged.read().status);
    assert_eq!((false, true), (report("shop.test").1, report("bank.test").1), "a purge is of its site");
}

#[test]
fn private_cookies_bypass_the_cache_and_other_cookies_are_removed() {
    let pages = Pages::new("private_cookies = [\"session*\"]");
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.get("Cookie: tracker=1");
    assert_eq!(None, page.received()[0].field("cookie"));
    assert_eq!(Hit, page.get_again("Cookie: tracker=2; other=3"));
    assert_eq!(Miss, page.get_again("Cookie: tracker=2; session_id=3"));
    assert_eq!(Some("tracker=2; session_id=3"), page.received()[1].field("cookie"));
    assert_eq!(Hit, page.get_again(""));
}

#[test]
fn a_route_without_a_cache_has_none() {
    let pages = Pages::new("enabled = false");
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.get("");
    assert_eq!(Miss, page.get_again(""));
    assert!(page.get("").cache().contains("fwd=bypass"));
}

#[test]
fn each_spelling_of_invalid_uri_bytes_is_a_page_of_its_own() {
    let pages = Pages::new("");
    query(&pages, "a=|", "a=|", Hit);
    query(&pages, "a[]=1&b=%25zz", "a[]=1&b=%25zz", Hit);
    query(&pages, "a[]=1&b=%25zz", "a%5B%5D=1&b=%25zz", Miss);
    query(&pages, "a=%7C", "a=|", Miss);
    query(&pages, "a=%7c", "a=%7C", Miss);
}
