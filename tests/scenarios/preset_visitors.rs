//! Visitors of applications behind presets: no visitor gets the response to another, the application receives the cookies that it set, and
//! the cookies of one visitor remove nothing that others share.

use crate::harness::http2::{Http2, request};
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::pages::Second::{Hit, Stale, Validates};
use crate::harness::tiers::{disk, fleet, settled, written};
use crate::harness::{Larder, Memcached, Origin, Pages, until};

/// Each preset, the cookie of a visitor with a session, and whether the preset has a lifetime for responses without one.
pub(super) const PRESETS: [(&str, &str, bool); 9] = [
    ("wordpress", "wordpress_logged_in_5f1c=anna", true),
    ("drupal", "SSESS5f1c2b=anna", false),
    ("django", "sessionid=anna", true),
    ("rails", "_shop_session=anna", false),
    ("laravel", "shop-session=anna", false),
    ("node", "connect.sid=s%3Aanna", false),
    ("flask", "session=eyJhbm5h", true),
    ("php", "PHPSESSID=anna", false),
    ("nextjs", "__Secure-authjs.session-token=anna", false),
];

/// The presets of applications that read cookies of any name.
const ANY_NAME: [&str; 6] = ["rails", "laravel", "node", "flask", "php", "nextjs"];

pub(super) fn before(origin: &Origin, preset: &str) -> Larder {
    Larder::before(origin, &format!("preset = \"{preset}\""))
}

/// The fields of a response without a lifetime; the first has none at all.
const NO_LIFETIME: [&str; 7] = [
    "X-A: b",
    "Cache-Control: max-age=0",
    "Cache-Control: public, max-age=0",
    "Expires: 0",
    "Expires: Thu, 01 Jan 2015 00:00:00 GMT",
    "CDN-Cache-Control: max-age=0",
    "Cache-Control: public",
];

/// An application whose page `/N/KIND` says `NO_LIFETIME[N]`, and shows the language of the visitor.
fn silent_pages() -> Origin {
    Origin::new(|it| {
        let mut parts = it.target().split('/').skip(1);
        let text = NO_LIFETIME[parts.next().unwrap().parse::<usize>().unwrap()];
        let (status, tag) = match parts.next().unwrap() {
            "tagged" => (200, "ETag: W/\"1\"\n"),
            "missing" => (404, ""),
            _ => (200, ""),
        };
        format!("HTTP/1.1 {status} X\n{text}\n{tag}\n{}", it.field("accept-language").unwrap_or("nothing"))
    })
}

#[test]
fn a_page_without_a_lifetime_is_shared_by_no_preset() {
    let origin = silent_pages();
    for (preset, _, has_ttl) in PRESETS {
        let larder = before(&origin, preset);
        let mut client = larder.client();
        for (number, text) in NO_LIFETIME.iter().enumerate() {
            let has_none = !text.contains('0');
            if has_ttl && has_none {
                continue;
            }
            for kind in ["plain", "tagged", "missing"] {
                for language in ["de", "en", "de", "fr"] {
                    let lines = format!("Accept-Language: {language}\r\n");
                    let page = client.get_with(&format!("/{number}/{kind}"), &lines);
                    assert_eq!(
                        (language, false),
                        (page.text().as_str(), page.is_hit()),
                        "{preset}: {text}, {kind}: {page:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_list_contains_an_entry_added_just_before() {
    for preset in ["node", "php", "nextjs", "rails", "laravel", "drupal"] {
        let added = std::sync::atomic::AtomicUsize::new(0);
        let origin = Origin::new(move |it| {
            let one_more = usize::from(it.line().starts_with("POST"));
            let count = added.fetch_add(one_more, std::sync::atomic::Ordering::SeqCst) + one_more;
            format!("HTTP/1.1 200 OK\nContent-Type: application/json\nETag: W/\"{count}\"\n\n{count}")
        });
        let larder = before(&origin, preset);
        let mut client = larder.client();
        for round in 0..3 {
            assert_eq!(round.to_string(), client.get("/api/list").text(), "{preset}");
            client.request("POST", "/api/add", "", "milk");
        }
    }
}

/// The configured key alone, of a route as of a preset; `explain` predicts each result.
#[test]
fn the_key_is_for_responses_with_a_lifetime() {
    for cache in ["preset = \"node\"", "stale_while_revalidate = \"30s\""] {
        let pages = Pages::new(cache);
        let second = |text: &str, seconds| pages.second(&format!("{text} | ETag: \"a\""), seconds, "");
        for text in NO_LIFETIME {
            assert_eq!(Validates, second(text, 0), "{cache}: {text}");
            assert_eq!(Validates, second(text, 5), "{cache}: {text}");
        }
        assert_eq!(Hit, second("Cache-Control: max-age=10", 5), "{cache}");
        assert_eq!(Stale, second("Cache-Control: max-age=10", 15), "{cache}");
        assert_eq!(Stale, second("Expires: @+10", 15), "{cache}");
        assert_eq!(Stale, second("Cache-Control: max-age=0, stale-while-revalidate=60", 15), "{cache}");
    }
    let lasting = Pages::new("default_ttl = \"10s\", stale_while_revalidate = \"30s\"");
    assert_eq!(Stale, lasting.second("ETag: \"a\"", 15, ""));
}

#[test]
fn a_waiting_request_gets_no_response_without_a_lifetime() {
    for text in ["Cache-Control: max-age=0", "ETag: W/\"1\"\nCache-Control: public, max-age=0", "X-A: b"] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |it| {
            let language = it.field("accept-language").unwrap_or("nothing");
            let page = response(&format!("HTTP/1.1 200 OK\n{text}\n\n{language}"));
            match it.number {
                0 => vec![Script::Gate(held.clone()), Script::Send(page)],
                _ => vec![Script::Send(page)],
            }
        });
        let larder = before(&origin, "node");
        let (mut one, mut other) = (larder.client(), larder.client());
        one.send("GET / HTTP/1.1\r\nHost: h\r\nAccept-Language: de\r\n\r\n");
        until("the first is at the gate", || gate.waiting() == 1);
        other.send("GET / HTTP/1.1\r\nHost: h\r\nAccept-Language: en\r\n\r\n");
        until("the second waits", || larder.counter("requests_collapsed") == 1);
        gate.open();
        assert_eq!(("de".to_owned(), "en".to_owned()), (one.read().text(), other.read().text()), "{text}");
    }
}

#[test]
fn a_page_without_a_lifetime_is_shared_from_no_tier() {
    let memcached = Memcached::start();
    let folder = tempfile::tempdir().unwrap();
    let origin = silent_pages();
    let tiers = fleet(&[&memcached], "timeout = \"60s\"");
    let cache = "preset = \"php\"";
    let a = Larder::before_with(&origin, cache, &(disk(folder.path()) + &tiers));
    let b = Larder::before_with(&origin, cache, &tiers);
    for (number, text) in NO_LIFETIME.iter().enumerate() {
        for (node, language) in [(&a, "de"), (&b, "en"), (&a, "fr"), (&b, "es")] {
            let lines = format!("Accept-Language: {language}\r\n");
            let page = node.client().get_with(&format!("/{number}/tagged"), &lines);
            assert_eq!((language, false), (page.text().as_str(), page.is_hit()), "{text}");
        }
    }
    assert_eq!((0, 0), (a.counter("fleet_puts"), a.counter("disk_writes")));
}

/// Cookies of well-known libraries, and of carts, themes and experiments.
const COOKIES: [&str; 20] = [
    "theme",
    "cart",
    "lang",
    "uid",
    "login",
    "appSession",
    "accessToken",
    "refreshToken",
    "SESSION",
    "JSESSIONID",
    "sessionid",
    "connect.sid",
    "jwt",
    "sb-abcd-auth-token.0",
    "sb-abcd-auth-token.1",
    "__client_uat",
    "__clerk_db_jwt",
    "ghost-members-ssr",
    "user_id",
    "ab_test",
];

/// A page for all visitors that says so, and shows the cookies that its application received.
fn shown() -> Origin {
    Origin::new(|it| {
        let seen = it.field("cookie").unwrap_or("nothing");
        format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=60\nX-Seen: {seen}\n\n{seen}")
    })
}

#[test]
fn an_application_receives_its_cookies_by_every_method() {
    let origin = shown();
    for preset in ANY_NAME {
        let larder = before(&origin, preset);
        let mut client = larder.client();
        assert_eq!("nothing", client.get_with("/", "Cookie: _ga=1; _gid=2; OptanonConsent=x\r\n").text());
        for name in COOKIES {
            for cookies in [format!("{name}=anna"), format!("_ga=GA1.1.5; {name}=anna; _fbp=fb.1")] {
                let lines = format!("Cookie: {cookies}\r\n");
                for method in ["GET", "HEAD", "POST"] {
                    let page = client.request(method, "/", &lines, "");
                    assert_eq!(
                        (Some(cookies.as_str()), false),
                        (page.field("x-seen"), page.is_hit()),
                        "{preset}: {method} with {cookies}"
                    );
                }
            }
            // What the visitor got is nobody's.
            let page = client.get_with("/", "Cookie: _ga=2\r\n");
            assert_eq!("nothing", page.text(), "{preset}: {name}");
        }
    }
}

#[test]
fn cookies_in_several_fields_of_http2_are_received_as_well() {
    let origin = shown();
    let larder = before(&origin, "node");
    let mut client = Http2::connect(&larder);
    let mut get = |cookies: &[&str]| {
        let fields: Vec<_> = cookies.iter().map(|it| ("cookie", *it)).collect();
        let id = client.head(&request("GET", "/", &fields), 5);
        client.answer(id).text()
    };
    assert_eq!("nothing", get(&["_ga=1", "_gid=2"]));
    assert_eq!("_ga=1; theme=dark", get(&["_ga=1", "theme=dark"]));
    assert_eq!("theme=dark; _ga=1", get(&["theme=dark", "_ga=1"]));
    assert_eq!("nothing", get(&["_ga=3"]));
}

#[test]
fn cookies_of_analytics_and_consent_leave_a_visitor_anonymous() {
    let origin = shown();
    for preset in ANY_NAME {
        let larder = before(&origin, preset);
        assert!(!larder.get("/").is_hit());
        for cookies in [
            "_ga=1",
            "_ga_X1=GS1.1",
            "_gid=1",
            "_gat=1",
            "_gcl_au=1",
            "__utma=1; __utmz=2",
            "_fbp=1; _fbc=2",
            "_hjid=1; _hjSessionUser_1=x",
            "_pk_id.1.1fff=1; _pk_ses.1.1fff=*",
            "_clck=1; _clsk=2",
            "CookieConsent=x",
            "OptanonConsent=x; OptanonAlertBoxClosed=y",
            "cookieyes-consent=z",
            "cookieconsent_status=dismiss",
            "euconsent-v2=CP",
            "__hstc=1; hubspotutk=2",
            "",
            ";",
            " ; ;",
        ] {
            let page = larder.client().get_with("/", &format!("Cookie: {cookies}\r\n"));
            assert_eq!((true, "nothing"), (page.is_hit(), page.text().as_str()), "{preset}: {cookies}");
        }
    }
}

#[test]
fn a_cookie_of_the_key_has_pages_of_its_own_and_is_no_session() {
    let origin = shown();
    let larder = Larder::before(&origin, "preset = \"node\", key = { cookies = [\"theme\"] }");
    let get = |cookies: &str| larder.client().get_with("/", &format!("Cookie: {cookies}\r\n"));
    for cookies in ["theme=dark", "theme=light"] {
        assert_eq!((false, cookies.to_owned()), (get(cookies).is_hit(), get(cookies).text()));
        let again = get(&format!("_ga=1; {cookies}"));
        assert_eq!((true, cookies.to_owned()), (again.is_hit(), again.text()));
    }
    let own = get("theme=dark; cart=3");
    assert_eq!((false, "theme=dark; cart=3".to_owned()), (own.is_hit(), own.text()));
    assert_eq!("theme=dark", get("theme=dark").text());
}

/// The fields of the anonymous form of a file that differs by visitor, as its application says.
const VARIED: [&str; 5] = [
    "ETag: \"a\"\nVary: Accept-Language, Cookie",
    "ETag: \"a\"\nCache-Control: public, max-age=600\nVary: Cookie",
    "Cache-Control: public, s-maxage=600\nVary: Accept-Encoding, COOKIE",
    "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\nCache-Control: max-age=600\nVary: cookie",
    "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\nVary: X\nVary: Cookie",
];

#[test]
fn a_file_that_varies_by_cookie_is_not_served_to_visitors_with_a_session() {
    let origin = Origin::scripted(|it| {
        let number: usize = it.target()[1..2].parse().unwrap();
        let seen = it.field("cookie").unwrap_or("nothing");
        if it.field("x-fail").is_some() {
            return vec![Script::Close];
        }
        vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{}\n\n{seen}", VARIED[number])))]
    });
    for (preset, login, _) in PRESETS {
        let larder = before(&origin, preset);
        let mut client = larder.client();
        for (number, text) in VARIED.iter().enumerate() {
            let path = format!("/{number}.png");
            client.get_with(&path, "Cookie: _ga=1\r\n");
            for more in ["", "If-None-Match: \"b\"\r\n", "Cache-Control: max-stale\r\n", "X-Fail: 1\r\n"] {
                let page = client.get_with(&path, &format!("Cookie: {login}\r\n{more}"));
                let is_own = page.text() == login || page.status >= 500;
                assert!(is_own && !page.is_hit(), "{preset}: {text}, {more}: {page:?}");
                let part = client.get_with(&path, &format!("Cookie: {login}\r\nRange: bytes=0-3\r\n{more}"));
                assert!(!part.text().starts_with("noth"), "{preset}: {text}, {more}: {part:?}");
            }
            assert_eq!("nothing", client.get_with(&path, "Cookie: _ga=2\r\n").text(), "{preset}: {text}");
        }
    }
}

/// Also where the response came so late that it is for waiting requests alone.
#[test]
fn a_waiting_visitor_with_a_session_gets_no_file_that_varies_by_cookie() {
    for (seconds, text) in [
        (0, "Cache-Control: max-age=60\nVary: Cookie"),
        (2, "Cache-Control: max-age=1\nVary: Cookie"),
        (2, "Cache-Control: public, max-age=1\nETag: \"a\"\nVary: Cookie"),
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |it| {
            let seen = it.field("cookie").unwrap_or("nothing");
            let page = response(&format!("HTTP/1.1 200 OK\n{text}\n\n{seen}"));
            match it.number {
                0 => vec![Script::Gate(held.clone()), Script::Send(page)],
                _ => vec![Script::Send(page)],
            }
        });
        let larder = before(&origin, "node");
        let (mut one, mut other) = (larder.client(), larder.client());
        one.send("GET /a.png HTTP/1.1\r\nHost: h\r\n\r\n");
        until("the first is at the gate", || gate.waiting() == 1);
        other.send("GET /a.png HTTP/1.1\r\nHost: h\r\nCookie: sid=1\r\n\r\n");
        until("the second waits", || larder.counter("requests_collapsed") == 1);
        larder.advance(seconds);
        gate.open();
        let texts = (one.read().text(), other.read().text());
        assert_eq!(("nothing".to_owned(), "sid=1".to_owned()), texts, "{seconds}: {text}");
    }
}

/// A path of a file; the fields and body of its response to visitors without a session; and what one with a session gets.
const FILES: [(&str, &str, &str); 8] = [
    ("/0.css", "200 X\nCache-Control: max-age=600", "200 X\nX-A: b"),
    ("/1.css", "200 X\nCache-Control: max-age=600\nVary: Cookie", "200 X\nCache-Control: private"),
    ("/2.css", "200 X\nCache-Control: public, max-age=600", "200 X\nCache-Control: private"),
    ("/3.css", "200 X\nCache-Control: public, max-age=600\nETag: \"a\"", "200 X\nSet-Cookie: a=b"),
    ("/4.css", "200 X\nCache-Control: max-age=600\nETag: \"a\"", "404 X\nCache-Control: no-store"),
    ("/5.css", "200 X\nCache-Control: max-age=600\nETag: \"a\"", "302 X\nLocation: /login"),
    ("/6.css", "200 X\nCache-Control: no-cache\nETag: \"a\"", "200 X\nCache-Control: no-cache\nETag: \"a\""),
    (
        "/7.css",
        "200 X\nCache-Control: public, max-age=0\nETag: \"a\"",
        "200 X\nCache-Control: private, max-age=0",
    ),
];

/// The application of `FILES`; the requests of other visitors get a 304 where they have the tag.
fn files_of(it: &Received) -> String {
    let (_, all, own) = FILES.iter().find(|known| known.0 == it.target()).unwrap();
    match it.field("cookie") {
        Some(_) => format!("HTTP/1.1 {own}\n\nown"),
        None if it.field("if-none-match").is_some() => "HTTP/1.1 304 X\nETag: \"a\"\n\n".to_owned(),
        None => format!("HTTP/1.1 {all}\n\nfor all"),
    }
}

/// Whether the stored response to a visitor without a session is still used: as it is, or after a validation.
#[track_caller]
fn is_kept(origin: &Origin, larder: &Larder, path: &str, what: &str) {
    let before = origin.requests();
    let page = larder.client().get_with(path, "Cookie: _ga=1\r\n");
    assert_eq!("for all", page.text(), "{what}");
    let validated = origin.received()[before..].iter().all(|it| it.field("if-none-match").is_some());
    assert!(validated, "{what}: it was gone: {page:?}");
}

const ATTACKS: [(&str, &str); 6] = [
    ("GET", ""),
    ("GET", "Cache-Control: no-cache\r\n"),
    ("GET", "Cache-Control: max-age=0\r\nIf-None-Match: \"b\"\r\n"),
    ("GET", "Range: bytes=0-1\r\nCache-Control: no-cache\r\n"),
    ("HEAD", ""),
    ("HEAD", "Cache-Control: no-cache\r\n"),
];

#[test]
fn a_request_with_a_cookie_removes_no_shared_file() {
    let origin = Origin::new(files_of);
    for (preset, login, _) in PRESETS {
        let larder = before(&origin, preset);
        for (path, text, _) in FILES {
            larder.client().get_with(path, "Cookie: _ga=1\r\n");
            is_kept(&origin, &larder, path, &format!("{preset}: {text}"));
            for (method, lines) in ATTACKS {
                let what = format!("{preset}: {text}; {method} {lines:?}");
                larder.client().request(method, path, &format!("Cookie: {login}\r\n{lines}"), "");
                is_kept(&origin, &larder, path, &what);
            }
        }
    }
}

#[test]
fn a_renewal_without_success_is_not_repeated_by_each_hit() {
    for failure in ["503 X\n\n", "429 X\nRetry-After: 60\n\n", "400 X\n\n"] {
        let origin = Origin::new(move |it| match it.number {
            0 => "HTTP/1.1 200 OK\nCache-Control: public, max-age=10, stale-while-revalidate=600\n\npage"
                .to_owned(),
            _ => format!("HTTP/1.1 {failure}no"),
        });
        let larder = before(&origin, "node");
        larder.get("/");
        larder.hold();
        larder.advance(15);
        let hits = || (0..20).all(|_| larder.get("/").text() == "page");
        assert!(hits());
        until("the renewal has failed", || larder.get("/").is_hit() && origin.requests() > 1);
        assert!(hits() && hits());
        // Mostly one, seldom more on a busy machine; without the pause each of the 60 hits may start one.
        let sent = origin.requests();
        assert!(sent < 8, "{failure}: {sent} for 60 hits");
        // The failure may be noted after the first of these.
        until("the next is sent", || {
            larder.pass(5000);
            larder.get("/").text() == "page" && origin.requests() > sent
        });
    }
}

/// A page that is stale from the beginning is renewed by each hit, as long as its renewals succeed.
#[test]
fn a_page_without_a_lifetime_is_renewed_by_each_hit() {
    let origin = Origin::new(|it| {
        let text = "Cache-Control: public, max-age=0, stale-while-revalidate=600";
        format!("HTTP/1.1 200 OK\n{text}\n\n{}", it.number)
    });
    let larder = before(&origin, "node");
    larder.get("/");
    for number in 1..5 {
        until("the hit renews it", || larder.get("/").is_hit() && origin.requests() > number);
    }
}

/// The same where a preset's lifetime is all that a file has, as with a server that sends no validators.
#[test]
fn a_request_with_a_cookie_removes_no_file_without_validators() {
    for (preset, login, _) in PRESETS.into_iter().filter(|it| it.2) {
        let origin = Origin::new(|it| {
            let who = if it.field("cookie").is_some() { "own" } else { "for all" };
            format!("HTTP/1.1 200 OK\nContent-Type: text/css\n\n{who}")
        });
        let larder = before(&origin, preset);
        larder.get("/style.css");
        for (method, lines) in ATTACKS {
            larder.client().request(method, "/style.css", &format!("Cookie: {login}\r\n{lines}"), "");
            let page = larder.get("/style.css");
            assert_eq!(
                (true, "for all"),
                (page.is_hit(), page.text().as_str()),
                "{preset}: {method} {lines}"
            );
        }
    }
}

/// Without any rule for cookies: a page without permission to be shared is kept for visitors without cookies.
#[test]
fn a_cookie_removes_no_page_that_is_only_for_visitors_without() {
    let origin = Origin::new(|it| match it.field("cookie") {
        Some(_) => "HTTP/1.1 200 OK\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n\nown".to_owned(),
        None => "HTTP/1.1 200 OK\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n\nfor all".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    assert!(!larder.get("/").is_hit() && larder.get("/").is_hit());
    for (method, lines) in ATTACKS {
        let own = larder.client().request(method, "/", &format!("Cookie: made=up\r\n{lines}"), "");
        assert!(!own.is_hit());
        let page = larder.get("/");
        assert_eq!((true, "for all"), (page.is_hit(), page.text().as_str()), "{method} {lines}");
    }
}

#[test]
fn a_304_to_a_visitor_with_a_session_removes_nothing() {
    let origin = Origin::new(|it| match (it.field("cookie"), it.field("if-none-match")) {
        (Some(_), Some(_)) => "HTTP/1.1 304 X\nETag: \"a\"\nCache-Control: private\n\n".to_owned(),
        (None, Some(_)) => "HTTP/1.1 304 X\nETag: \"a\"\n\n".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: public, max-age=10\nETag: \"a\"\n\nfor all".to_owned(),
    });
    for (preset, login, _) in PRESETS {
        let larder = before(&origin, preset);
        larder.get("/a.js");
        let lines = format!("Cookie: {login}\r\nCache-Control: no-cache\r\n");
        assert_eq!("for all", larder.client().get_with("/a.js", &lines).text(), "{preset}");
        assert!(larder.get("/a.js").is_hit(), "{preset}");
    }
}

#[test]
fn a_cookie_removes_nothing_from_the_tiers_below() {
    let memcached = Memcached::start();
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(files_of);
    let tiers = fleet(&[&memcached], "timeout = \"60s\"\nlocal_ttl = \"1s\"");
    let cache = "preset = \"node\"";
    let node = |top: &str| Larder::before_with(&origin, cache, top);
    let a = node(&(disk(folder.path()) + &tiers));
    let paths = ["/0.css", "/1.css", "/2.css", "/3.css", "/4.css", "/5.css"];
    for path in paths {
        a.get(path);
    }
    settled(&a, paths.len() as u64);
    written(&a, paths.len() as u64);
    let asked = |node: &Larder, path: &str| {
        let before = origin.requests();
        assert_eq!("for all", node.get(path).text(), "{path}");
        origin.requests() - before
    };
    for path in paths {
        // A node that has nothing in RAM; then the one that has, also where it looks in the fleet again.
        let b = node(&tiers);
        for (method, lines) in ATTACKS {
            let lines = format!("Cookie: made=up\r\n{lines}");
            b.client().request(method, path, &lines, "");
            a.client().request(method, path, &lines, "");
        }
        a.advance(2);
        assert_eq!((0, 0), (asked(&a, path), asked(&node(&tiers), path)), "{path}");
    }
}
