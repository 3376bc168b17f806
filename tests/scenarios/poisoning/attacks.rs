//! The corpus of poisoning and deception, run: an origin that reflects whatever is evil in a request, one request of an
//! attacker, and then the victim's. The requests themselves are in `corpus`.

use super::corpus::{
    ABSOLUTE, DECEPTIONS, FIELDS, HOSTS, MESSAGES, ODD_HOSTS, PATHS, PROVOKING, QUERIES, UNVARIED, VARIED,
};
use crate::harness::origin::Received;
use crate::harness::{Larder, Origin};
use std::net::Shutdown;

/// What an application makes of a request that believes every line: `METHOD HOST TARGET`, and each evil line.
fn reflected(it: &Received) -> String {
    let mut text = format!("{} {}", it.field("host").unwrap_or("none"), it.target());
    let evil = |it: &str| it.to_ascii_lowercase().contains("evil");
    for line in it.head.lines().skip(1).filter(|line| evil(line) && !line.starts_with("Host:")) {
        text.push_str(&format!(" <{:.60}>", line.trim()));
    }
    if evil(&String::from_utf8_lossy(&it.body)) || evil(it.line().split(' ').next().unwrap_or("")) {
        text.push_str(" <evil>");
    }
    text
}

/// An origin that says of every answer, errors too, that everybody may have it for a minute.
fn reflecting(evil: &'static str) -> Origin {
    Origin::new(move |it| {
        let text = reflected(it);
        let status = if text.contains('<') { evil } else { "200 OK" };
        let vary = match it.target().strip_prefix("/vary/") {
            Some(rest) => format!("Vary: {}\n", rest.split('/').next().unwrap_or("")),
            None => String::new(),
        };
        format!("HTTP/1.1 {status}\nCache-Control: max-age=60\n{vary}Location: {text}\n\n{text}")
    })
}

/// Sends bytes and reads every answer to them, with nothing behind them.
fn attack(larder: &Larder, bytes: &[u8]) -> Vec<(u16, String)> {
    let mut client = larder.client();
    client.send(bytes);
    let _ = client.stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    loop {
        let it = client.read();
        if it.status == 0 {
            return answers;
        }
        answers.push((it.status, it.text()));
    }
}

/// After the attack at `target` the victim has the page as it is, from the origin or from the cache.
#[track_caller]
fn unharmed(larder: &Larder, target: &str, attack: &str) {
    for _ in 0..2 {
        let it = larder.get(target);
        assert_eq!((200, format!("h {target}")), (it.status, it.text()), "{attack:.200}: {it:?}");
    }
    assert!(larder.get(target).is_hit(), "{attack:.200}: the page itself is kept");
}

#[test]
fn fields_of_an_attacker() {
    for status in ["200 OK", "301 Moved Permanently", "404 Not Found"] {
        let origin = reflecting(status);
        let larder = Larder::before(&origin, "");
        for (number, lines) in FIELDS.iter().enumerate() {
            let target = format!("/f/{number}");
            attack(&larder, format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n").as_bytes());
            unharmed(&larder, &target, lines);
        }
    }
}

#[test]
fn fields_that_vary() {
    let origin = reflecting("200 OK");
    let larder = Larder::before(&origin, "");
    for (number, line) in VARIED.iter().enumerate() {
        let target = format!("/vary/{}/{number}", line.split(':').next().unwrap());
        attack(&larder, format!("GET {target} HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n").as_bytes());
        unharmed(&larder, &target, line);
    }
}

/// Where the key is strict an application may look at whatever it likes, and say nothing of it.
#[test]
fn fields_and_a_strict_key() {
    for status in ["200 OK", "404 Not Found"] {
        let origin = reflecting(status);
        let larder = Larder::before(&origin, "key = { strict = true }");
        let reference = |head: &str, target: &str| head.replace(&format!("{target} "), "/ ");
        larder.get("/first");
        let first = reference(&origin.received()[0].head, "/first");
        for (number, lines) in [FIELDS, VARIED, UNVARIED].concat().iter().enumerate() {
            for version in ["1.1", "1.0"] {
                let target = format!("/f{version}/{number}");
                let before = origin.requests();
                let raw = format!("GET {target} HTTP/{version}\r\nHost: h\r\n{lines}\r\n\r\n");
                attack(&larder, raw.as_bytes());
                unharmed(&larder, &target, lines);
                // What is kept was asked for as it is for everybody: the last that was asked for the page.
                let received = origin.received();
                assert!(received.len() > before, "{lines}");
                assert_eq!(first, reference(&received.last().unwrap().head, &target), "{lines}");
            }
        }
    }
}

/// What browsers send keeps nobody from the cache, and asks for nothing.
#[test]
fn browsers_and_a_strict_key() {
    let origin = reflecting("200 OK");
    let larder = Larder::before(
        &origin,
        "private_cookies = [\"session\"], key = { strict = true, headers = [\"X-Country\"] }",
    );
    let chrome = "Sec-CH-UA: \"Chromium\";v=\"140\"\r\nSec-CH-UA-Mobile: ?0\r\nUpgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0\r\n\
         Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nAccept-Encoding: gzip, br\r\n\
         Accept-Language: en-GB,en;q=0.9\r\nCookie: _ga=1\r\nPriority: u=0, i\r\n";
    let curl = "User-Agent: curl/8\r\nAccept: */*\r\n";
    assert!(!larder.client().get_with("/page", chrome).is_hit());
    assert!(larder.client().get_with("/page", curl).is_hit());
    assert!(larder.client().get_with("/page", "Accept-Language: de\r\nReferer: http://x/\r\n").is_hit());
    // Whatever is in the key is believed, and is another page; what cannot be left out uses no cache, and gets through.
    for hit in [false, true] {
        let it = larder.client().get_with("/page", "X-Country: evil\r\n");
        assert_eq!((hit, "h /page <X-Country: evil>"), (it.is_hit(), it.text().as_str()));
        for line in ["Origin: http://evil", "Cookie: session=evil", "Accept: application/evil"] {
            let it = larder.client().get_with("/page", &format!("{line}\r\n"));
            assert_eq!((false, format!("h /page <{line}>")), (it.is_hit(), it.text()));
        }
    }
    assert!(larder.client().get_with("/page", curl).is_hit());
}

/// Conditions, parts and HEAD are answered of what is kept, or of the whole that is asked for.
#[test]
fn parts_and_a_strict_key() {
    let origin = Origin::new(|it| {
        assert!(["range", "cache-control"].iter().all(|name| it.field(name).is_none()), "{it:?}");
        "HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\n0123456789".to_owned()
    });
    let larder = Larder::before(&origin, "key = { strict = true }");
    for (target, lines, expect) in [
        ("/range", "Range: bytes=2-4\r\n", (206, "234")),
        ("/condition", "If-None-Match: \"a\"\r\n", (304, "")),
        ("/reload", "Cache-Control: no-cache\r\n", (200, "0123456789")),
    ] {
        for _ in 0..2 {
            let it = larder.client().get_with(target, lines);
            assert_eq!(expect, (it.status, it.text().as_str()), "{target}: {it:?}");
        }
    }
    assert_eq!(200, larder.client().request("HEAD", "/head", "", "").status);
    let body = "{\"url\":\"http://h/range\",\"headers\":[[\"Origin\",\"http://other\"]]}";
    let response = larder.admin_post("/api/v1/explain", body).text();
    assert!(response.contains("Bypasses the cache: Origin: http://other (the key is strict"), "{response}");
    assert!(
        response.contains("Send the request without Origin, or add it to cache.key.headers"),
        "{response}"
    );
}

#[test]
fn heads_that_provoke() {
    let filling = "x".repeat(9000);
    for status in ["400 Bad Request", "404 Not Found", "413 Too Large", "431 Too Large", "501 No", "502 No"] {
        let origin = reflecting(status);
        let larder = Larder::before(&origin, "default_ttl = \"60s\"");
        for (number, line) in PROVOKING.iter().enumerate() {
            let target = format!("/e/{number}");
            let line = line.replace("{}", &filling);
            // What an origin says of any field that it does not like, and of a 404 with explicit freshness, is its word.
            if line.len() < 8192 && status.starts_with("404") {
                continue;
            }
            attack(&larder, format!("GET {target} HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n").as_bytes());
            if !matches!(&status[..3], "501" | "502") {
                unharmed(&larder, &target, &line);
            }
        }
    }
}

#[test]
fn methods_and_bodies() {
    let origin = reflecting("200 OK");
    let larder = Larder::before(&origin, "");
    for (number, (method, lines, body)) in MESSAGES.iter().enumerate() {
        let target = format!("/m/{number}");
        let raw = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n{body}");
        attack(&larder, raw.as_bytes());
        unharmed(&larder, &target, &raw);
    }
}

/// Two larders before one origin, of which one keeps nothing: what it answers is what the origin makes of a request, and the
/// other must say the same, whatever came before.
struct Twins {
    keeping: Larder,
    plain: Larder,
}

impl Twins {
    fn before(origin: &Origin) -> Self {
        Self { keeping: Larder::before(origin, ""), plain: Larder::before(origin, "enabled = false") }
    }

    #[track_caller]
    fn agree(&self, raw: &str) {
        let expected = attack(&self.plain, raw.as_bytes());
        assert_eq!(expected, attack(&self.keeping, raw.as_bytes()), "{raw:?}");
    }
}

#[test]
fn hosts_however_they_are_spelled() {
    let origin = reflecting("200 OK");
    let twins = Twins::before(&origin);
    // The first of two spellings of one key is the one that is kept, so that each must come first once.
    for (number, first) in HOSTS.iter().enumerate() {
        for host in [&[*first][..], HOSTS].concat() {
            twins.agree(&format!("GET /{number} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        }
        for target in ABSOLUTE {
            twins.agree(&format!(
                "GET {} HTTP/1.1\r\nHost: {first}\r\n\r\n",
                target.replace("/t", &format!("/{number}"))
            ));
        }
    }
}

#[test]
fn hosts_that_are_none() {
    let origin = reflecting("200 OK");
    let larder = Larder::before(&origin, "");
    for (number, lines) in ODD_HOSTS.iter().enumerate() {
        let target = format!("/{number}");
        let raw = format!("GET {target} HTTP/1.1\r\n{lines}\r\n\r\n");
        let answers = attack(&larder, raw.as_bytes());
        assert!(answers.iter().all(|it| it.0 == 400), "{raw:?}: {answers:?}");
        unharmed(&larder, &target, &raw);
    }
}

#[test]
fn targets_however_they_are_spelled() {
    let origin = reflecting("200 OK");
    let twins = Twins::before(&origin);
    for _ in 0..2 {
        for path in PATHS {
            for host in ["h", "H:80"] {
                twins.agree(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            }
        }
    }
}

/// What a parameter that is not in the key says reaches no page that is kept.
#[test]
fn parameters_that_the_key_leaves_out() {
    for key in [
        "drop = [\"utm_*\"]",
        "keep = [\"a\"]",
        "drop = [\"utm_*\"], sort = true",
        "keep = [\"a\"], sort = true",
        "query = \"none\"",
    ] {
        let origin = reflecting("200 OK");
        let larder = Larder::before(&origin, &format!("key = {{ {key} }}"));
        for (number, query) in QUERIES.iter().enumerate() {
            let raw = format!("GET /q/{number}?{query} HTTP/1.1\r\nHost: h\r\n\r\n");
            attack(&larder, raw.as_bytes());
            let it = larder.get(&format!("/q/{number}?a=1"));
            let kept = if key.starts_with("query") { "" } else { "?a=1" };
            assert_eq!(format!("h /q/{number}{kept}"), it.text(), "{key}: {raw}");
        }
    }
}

#[test]
fn parameters_in_another_order() {
    let origin = reflecting("200 OK");
    let larder = Larder::before(&origin, "key = { sort = true }");
    assert_eq!("h /?a=2&a=1&b=3", larder.get("/?b=3&a=2&&a=1&").text());
    assert!(larder.get("/?a=2&a=1&b=3").is_hit());
    assert_eq!("h /?a=1&a=2&b=3", larder.get("/?b=3&a=1&a=2").text());
    // What is passed is passed as it came.
    let posted = larder.client().request("POST", "/?b=3&a=2&&a=1&", "", "");
    assert_eq!("h /?b=3&a=2&&a=1&", posted.text());
}

/// A POST whose answer would be kept for GET is no way around it.
#[test]
fn a_post_that_would_be_kept() {
    let origin = Origin::new(|it| {
        let text = reflected(it);
        format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=60\nContent-Location: /page\n\n{text}")
    });
    let larder = Larder::before(&origin, "key = { query = \"none\" }");
    larder.client().request("POST", "/page?evil", "", "");
    assert_eq!("h /page", larder.get("/page").text());
}

/// Where all hosts of a site share one cache, the origin is asked for the one that stands in the key.
#[test]
fn hosts_that_share_one_cache() {
    let origin = reflecting("200 OK");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"h\", \"*.evil\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"] }}\ncache = {{ key = {{ ignore_host = true }} }}\n",
        origin.url()
    ));
    attack(&larder, b"GET /page HTTP/1.1\r\nHost: www.evil\r\n\r\n");
    unharmed(&larder, "/page", "Host: www.evil");
}

/// Of a site that begins with a pattern no host is known that is all readers': the origin is told none but its own.
#[test]
fn a_pattern_is_no_host() {
    for hosts in ["\"*.shop\"", "\"*\""] {
        // What it makes its pages of, it says in `Vary`; of the variants a client's word chooses none.
        let origin = Origin::new(|it| {
            let (host, report) =
                (it.field("host").unwrap(), it.field("x-forwarded-host").unwrap_or("nobody"));
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: X-Forwarded-Host\n\n{host} {report}")
        });
        let larder = Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [{hosts}]\n[[site.route]]\npath = \"/*\"\n\
             proxy = {{ to = [\"{}\"] }}\ncache = {{ key = {{ ignore_host = true }} }}\n",
            origin.url()
        ));
        for host in ["evil.shop", "www.shop"] {
            let request = format!("GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(
                format!("{} nobody", origin.address),
                larder.client().send(request).read().text(),
                "{hosts}"
            );
        }
        assert_eq!(1, origin.requests());
    }
}

#[test]
fn cookies_that_are_in_no_key() {
    let origin = reflecting("200 OK");
    let larder =
        Larder::before(&origin, "private_cookies = [\"session\"], key = { cookies = [\"currency\"] }");
    for (number, cookies) in [
        "id=evil",
        "a=b; id=evil",
        "currency=EUR; id=evil",
        "currency=evil",
        "session=evil",
        "id=\"evil\"; a",
        "evil",
    ]
    .iter()
    .enumerate()
    {
        let target = format!("/c/{number}");
        attack(&larder, format!("GET {target} HTTP/1.1\r\nHost: h\r\nCookie: {cookies}\r\n\r\n").as_bytes());
        unharmed(&larder, &target, cookies);
    }
}

/// A private page keeps its route's policy, whatever the spelling of its path ends in.
#[test]
fn deception() {
    let origin =
        Origin::new(|it| format!("HTTP/1.1 200 OK\n\nfor {}", it.field("cookie").unwrap_or("nobody")));
    let to = format!("proxy = {{ to = [\"{}\"] }}", origin.url());
    let private =
        |path: &str| format!("[[site.route]]\npath = \"{path}\"\n{to}\ncache = {{ enabled = false }}\n");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n{}{}\
         [[site.route]]\npath = \"/static/*\"\n{to}\ncache = {{ override_ttl = \"1h\" }}\n\
         [[site.route]]\npath = \"/*\"\n{to}\ncache = {{ default_ttl = \"60s\" }}\n",
        private("/account"),
        private("/account/*"),
    ));
    for target in DECEPTIONS {
        let victim = larder.client().get_with(target, "Cookie: id=1\r\n");
        assert_eq!("for id=1", victim.text(), "{target}");
        let attacker = larder.get(target);
        assert_eq!(
            ("for nobody", false),
            (attacker.text().as_str(), attacker.is_hit()),
            "{target}: {attacker:?}"
        );
    }
    assert_eq!(0, larder.counter("cache_stores"));
}
