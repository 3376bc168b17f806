//! Anonymous pages: one line of configuration in front of a well-known application.

use crate::harness::command::run;
use crate::harness::origin::{Received, Script, response};
use crate::harness::{Larder, Origin};

/// Requests of a trace.
const REQUESTS: usize = 3_000;
/// Pages of the site; a few of them are most of the traffic.
const PAGES: usize = 36;

/// How one kind of application shows itself on the wire.
struct Kind<'a> {
    preset: &'static str,
    /// The head of a page that anybody may see; that of a page for one visitor is `no-cache`, as theirs all are.
    anonymous: &'static str,
    /// The cookie of a visitor who has logged in.
    login: &'a str,
    /// What visitors carry who have not.
    carried: &'static [&'static str],
}

const KINDS: &[Kind<'static>] = &[
    Kind {
        preset: "wordpress",
        anonymous: "Content-Type: text/html; charset=UTF-8\nVary: Accept-Encoding, Cookie",
        login: "wordpress_logged_in_5f1c=anna%7C1; wp-settings-1=libraryContent",
        carried: &["wordpress_test_cookie=WP%20Cookie%20check", "wp_lang=en_US", "tk_ai=1"],
    },
    Kind {
        preset: "drupal",
        anonymous: "Cache-Control: max-age=900, public\nVary: Cookie\nX-Drupal-Cache: MISS",
        login: "SSESS5f1c2b=anna",
        carried: &["has_js=1", "Drupal.toolbar.collapsed=0"],
    },
    Kind { preset: "django", anonymous: "Vary: Cookie", login: "sessionid=anna", carried: &["theme=dark"] },
    Kind {
        preset: "rails",
        anonymous: "Cache-Control: max-age=300, public\nVary: Accept",
        login: "_shop_session=anna",
        carried: &["cookieconsent_status=dismiss"],
    },
    Kind {
        preset: "laravel",
        anonymous: "Cache-Control: max-age=300, public",
        login: "shop-session=anna",
        carried: &["XSRF-TOKEN=eyJ"],
    },
    Kind {
        preset: "node",
        anonymous: "Cache-Control: public, max-age=300\nETag: W/\"5-x\"\nVary: Accept-Encoding",
        login: "connect.sid=s%3Aanna",
        carried: &["OptanonConsent=x", "_gcl_au=1.1"],
    },
    Kind { preset: "flask", anonymous: "Vary: Cookie", login: "session=eyJhbm5h", carried: &["_clck=1"] },
    Kind {
        preset: "php",
        anonymous: "Cache-Control: public, max-age=300\nX-Powered-By: PHP/8.4",
        login: "PHPSESSID=anna",
        carried: &["CookieConsent=x"],
    },
    Kind {
        preset: "nextjs",
        anonymous: "Cache-Control: s-maxage=300, stale-while-revalidate=31535700\n\
                    Vary: rsc, next-router-state-tree, next-router-prefetch, next-router-segment-prefetch, Accept-Encoding",
        login: "__Secure-authjs.session-token=anna",
        carried: &[LOCALE],
    },
];

/// The cookie of the key of `nextjs`, which the application of an anonymous page receives.
const LOCALE: &str = "NEXT_LOCALE=en";

/// Cookies that analytics and advertising leave.
const ANALYTICS: &[&str] = &[
    "_ga=GA1.1.{n}.1",
    "_ga_X1=GS1.1.{n}",
    "_gid=GA1.2.{n}",
    "_fbp=fb.1.{n}",
    "_hjid={n}",
    "_pk_id.1.1fff={n}",
    "__utma={n}",
];

/// What they leave in the links.
const CAMPAIGNS: &[&str] = &[
    "",
    "",
    "?utm_source=news&utm_medium=mail&utm_campaign={n}",
    "?fbclid=IwAR{n}",
    "?gclid={n}",
    "?msclkid={n}&mc_cid=7",
];

/// The trace's own dice: the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// One request of the trace: target and cookies.
fn request(number: usize, kind: &Kind<'_>, dice: &mut Dice) -> (String, String) {
    let page = dice.below(PAGES).min(dice.below(PAGES)); // The front pages more than the others.
    let fill = |it: &str, dice: &mut Dice| it.replace("{n}", &dice.below(1_000_000).to_string());
    let campaign = fill(dice.one_of(CAMPAIGNS), dice);
    let mut cookies = vec![fill(dice.one_of(ANALYTICS), dice), fill(dice.one_of(ANALYTICS), dice)];
    cookies.push(dice.one_of(kind.carried).to_owned());
    if number % 10 == 9 {
        cookies.push(kind.login.to_owned());
    }
    (format!("/page/{page}{campaign}"), cookies.join("; "))
}

/// The application: a page of one's own for whoever is logged in, the same page for everybody else.
fn application(kind: &'static Kind<'static>) -> Origin {
    let name = kind.login.split(['=', ';']).next().unwrap();
    Origin::scripted(move |it: &Received| {
        let text = if it.field("cookie").is_some_and(|it| it.contains(name)) {
            "HTTP/1.1 200 OK\nCache-Control: no-cache, must-revalidate, max-age=0, private\n\nfor anna"
                .to_owned()
        } else {
            format!("HTTP/1.1 200 OK\n{}\n\nfor all", kind.anonymous)
        };
        vec![Script::Send(response(&text))]
    })
}

/// Sends the trace, and checks each page; `asked` counts the requests that have reached the origin.
fn send_trace(larder: &Larder, kind: &Kind<'_>, own: &str, asked: impl Fn() -> usize) {
    let (mut dice, mut client) = (Dice(0x1a2d), larder.client());
    let before = asked();
    for number in 0..REQUESTS {
        let (target, cookies) = request(number, kind, &mut dice);
        let page = client.get_with(&target, &format!("Cookie: {cookies}\r\n"));
        let expect = if number % 10 == 9 { own } else { "for all" };
        assert_eq!((200, expect), (page.status, page.text().as_str()), "{}: {target} {cookies}", kind.preset);
    }
    let asked = asked() - before;
    assert!(
        asked * 100 <= REQUESTS * 12,
        "{}: {asked} of {REQUESTS} requests reached the origin",
        kind.preset
    );
}

/// The trace of visitors of a real Django: every tenth request has the cookie `session`.
pub(super) fn visit_django(larder: &Larder, session: &str, own: &str, asked: impl Fn() -> usize) {
    let kind = Kind { preset: "django", anonymous: "", login: session, carried: &["theme=dark"] };
    send_trace(larder, &kind, own, asked);
}

fn ninety_percent_anonymous(preset: &str) {
    let kind = KINDS.iter().find(|it| it.preset == preset).unwrap();
    let origin = application(kind);
    let larder = Larder::before(&origin, &format!("preset = \"{preset}\""));
    send_trace(&larder, kind, "for anna", || origin.requests());
    let leaked = origin
        .received()
        .iter()
        .filter(|it| it.field("cookie").is_some_and(|it| !it.contains(kind.login) && it != LOCALE))
        .count();
    assert_eq!(0, leaked, "{preset}: the origin of an anonymous page sees no cookie");
}

#[test]
fn wordpress() {
    ninety_percent_anonymous("wordpress");
}

#[test]
fn drupal() {
    ninety_percent_anonymous("drupal");
}

#[test]
fn rails() {
    ninety_percent_anonymous("rails");
}

#[test]
fn laravel() {
    ninety_percent_anonymous("laravel");
}

#[test]
fn node() {
    ninety_percent_anonymous("node");
}

#[test]
fn flask() {
    ninety_percent_anonymous("flask");
}

#[test]
fn php() {
    ninety_percent_anonymous("php");
}

#[test]
fn nextjs() {
    ninety_percent_anonymous("nextjs");
}

/// Next.js answers a page or the payload of a navigation under one path.
#[test]
fn a_page_and_a_payload_of_next_js_are_not_confused() {
    let origin = Origin::new(|it| {
        let kind = if it.field("rsc").is_some() { "text/x-component" } else { "text/html" };
        let vary = "rsc, next-router-state-tree, next-router-prefetch, next-router-segment-prefetch";
        format!("HTTP/1.1 200 OK\nCache-Control: s-maxage=300\nVary: {vary}\nContent-Type: {kind}\n\n{kind}")
    });
    let larder = Larder::before(&origin, "preset = \"nextjs\"");
    let tree = "RSC: 1\r\nNext-Router-State-Tree: %5B%22%22%5D\r\n";
    for _ in 0..2 {
        assert_eq!("text/html", larder.get("/").text());
        assert_eq!("text/x-component", larder.client().get_with("/", "RSC: 1\r\n").text());
        assert_eq!("text/x-component", larder.client().get_with("/?_rsc=1a2b", tree).text());
    }
    assert_eq!(3, origin.requests());
}

/// Without `Vary`, too: of the fields that select a payload, each keeps the responses apart, in a bounded number.
#[test]
fn payloads_of_next_js_without_vary_are_not_confused() {
    const FIELDS: [&str; 5] =
        ["RSC", "Next-Router-State-Tree", "Next-Router-Prefetch", "Next-Router-Segment-Prefetch", "Next-Url"];
    let origin = Origin::new(|it| {
        let sent = FIELDS.map(|name| it.field(&name.to_ascii_lowercase()).unwrap_or("-")).join(" ");
        format!("HTTP/1.1 200 OK\nCache-Control: s-maxage=300\nContent-Type: text/x-component\n\n{sent}")
    });
    let larder = Larder::before(&origin, "preset = \"nextjs\"");
    let fetch = |lines: &str| larder.client().get_with("/", lines);
    for _ in 0..2 {
        assert_eq!("- - - - -", fetch("").text());
        for (at, name) in FIELDS.iter().enumerate() {
            let expect: Vec<&str> = (0..5).map(|it| if it == at { "1" } else { "-" }).collect();
            assert_eq!(expect.join(" "), fetch(&format!("{name}: 1\r\n")).text(), "{name}");
        }
    }
    assert_eq!(6, origin.requests());
    let answer = fetch("RSC: 1\r\n");
    assert!(answer.is_hit());
    let vary = answer.members("vary");
    assert!(FIELDS.iter().all(|name| vary.iter().any(|it| it.eq_ignore_ascii_case(name))), "{vary:?}");
    for tree in 0..100 {
        let lines = format!("RSC: 1\r\nNext-Router-State-Tree: {tree}\r\n");
        assert_eq!(format!("1 {tree} - - -"), fetch(&lines).text());
    }
    let listed = larder.admin_get("/api/v1/objects?limit=1000").text();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let stored = listed["objects"].as_array().unwrap().len();
    assert!(stored <= 2 * 32, "{stored} stored responses of one page and its payloads");
}

/// Key F5 sends `max-age=0`, with Ctrl `no-cache`: neither is load on the application, and a purge still reaches the page.
#[test]
fn the_reload_of_a_browser_is_answered_from_the_cache() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\nCache-Control: public, s-maxage=600\nContent-Type: text/html\n\npage",
    );
    for kind in KINDS {
        let before = origin.requests();
        let larder = Larder::before(&origin, &format!("preset = \"{}\"", kind.preset));
        for lines in ["", "Cache-Control: max-age=0\r\n", "Cache-Control: no-cache\r\nPragma: no-cache\r\n"] {
            assert_eq!("page", larder.client().get_with("/", lines).text(), "{}", kind.preset);
        }
        assert_eq!(before + 1, origin.requests(), "{}", kind.preset);
    }
    let larder = Larder::before(&origin, "preset = \"wordpress\", request_directives = \"obey\"");
    let before = origin.requests();
    for lines in ["", "Cache-Control: max-age=0\r\n"] {
        assert_eq!("page", larder.client().get_with("/", lines).text());
    }
    assert_eq!(before + 2, origin.requests(), "the key overrides the preset");
}

/// The answer of an application to `/NAME.EXTENSION`, by name.
fn file(name: &str, cookie: &str) -> String {
    let fields = match name {
        "silent" => "Last-Modified: Mon, 01 Jun 2026 10:00:00 GMT\nETag: \"1-2\"",
        "public" => "Cache-Control: public, max-age=600",
        "shared" => "Cache-Control: s-maxage=600",
        "varied" => "Cache-Control: public, max-age=600\nVary: Cookie",
        "private" => "Cache-Control: private, max-age=600",
        "session" => "Cache-Control: public, max-age=600\nSet-Cookie: own=1",
        "bare" => "Content-Type: image/png",
        "aged" => "Cache-Control: max-age=600",
        _ => unreachable!("{name}"),
    };
    format!("HTTP/1.1 200 OK\n{fields}\n\n{name} for {cookie}")
}

/// A file that says so is shared by all visitors; whose answer names a visitor, or says nothing, is that visitor's.
#[test]
fn files_are_served_to_every_visitor_and_personal_ones_to_none() {
    for kind in KINDS {
        let origin = Origin::new(|it| {
            let name = it.target()[1..].split('.').next().unwrap();
            file(name, it.field("cookie").unwrap_or("all"))
        });
        let larder = Larder::before(&origin, &format!("preset = \"{}\"", kind.preset));
        let get = |path: &str, cookie: &str| larder.client().get_with(path, &format!("Cookie: {cookie}\r\n"));
        let (anna, what) = (kind.login, kind.preset);
        let other = anna.replace("anna", "bert").replace("eyJhbm5h", "eyJiZXJ0");
        // The first visitor is logged in: the response has to say `public` or `s-maxage`.
        for name in ["public", "shared"] {
            assert!(!get(&format!("/{name}.css"), anna).is_hit(), "{what}: {name}");
            for cookie in [&other, "_ga=1", anna] {
                assert!(get(&format!("/{name}.css"), cookie).is_hit(), "{what}: {name} {cookie}");
            }
        }
        for name in ["silent", "varied", "private", "session", "bare", "aged"] {
            for cookie in [anna, &other, "_ga=1"] {
                let page = get(&format!("/{name}.png"), cookie);
                let own = if cookie == "_ga=1" { "all" } else { cookie };
                let seen = page.text();
                let is_own =
                    seen == format!("{name} for {own}") || name == "private" && seen.ends_with(cookie);
                assert!(is_own || seen.ends_with("for all"), "{what}: {name} {cookie}: {seen}");
                assert!(cookie == "_ga=1" || !page.is_hit(), "{what}: {name} {cookie}");
            }
        }
        // The first visitor is not: nothing of another visitor is in it.
        for name in ["public", "shared", "aged"] {
            assert_eq!(format!("{name} for all"), get(&format!("/{name}.js?1"), "_ga=1").text());
            assert!(get(&format!("/{name}.js?1"), anna).is_hit(), "{what}: {name}");
        }
        get("/bare.png?1", "_ga=1");
        assert_eq!(format!("bare for {anna}"), get("/bare.png?1", anna).text(), "{what}");
        // A page is no file.
        get("/public", "_ga=1");
        assert_eq!(format!("public for {anna}"), get("/public", anna).text(), "{what}");
    }
}

/// What each framework sets by itself for one visitor, where nobody gave it another name.
const OWN: &[(&str, &[&str])] = &[
    (
        "wordpress",
        &[
            "wordpress_logged_in_5f1c",
            "wordpress_sec_5f1c",
            "wordpress_rec_5f1c",
            "wp-postpass_5f1c",
            "comment_author_5f1c",
        ],
    ),
    ("drupal", &["SESS5f1c", "SSESS5f1c"]),
    ("django", &["sessionid", "csrftoken", "messages"]),
    // A store without `key`: `_session_id`, of ActionDispatch::Session.
    ("rails", &["_shop_session", "_session_id", "session_id", "remember_user_token"]),
    ("laravel", &["shop-session", "shop_session", "remember_web_5f1c", "laravel_maintenance"]),
    (
        "node",
        &[
            "connect.sid",
            "session",
            "session.sig",
            "koa.sess",
            "koa.sess.sig",
            "sails.sid",
            "sessionId",
            "token",
        ],
    ),
    ("flask", &["session", "remember_token"]),
    ("php", &["PHPSESSID", "remember_me"]),
    (
        "nextjs",
        &[
            "next-auth.session-token",
            "__Secure-next-auth.session-token.0",
            "authjs.session-token",
            "__prerender_bypass",
        ],
    ),
];

#[test]
fn cookies_that_a_framework_sets_for_one_visitor_are_private() {
    let origin = Origin::new(|it| {
        let seen = it.field("cookie").unwrap_or("nothing").to_owned();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{seen}")
    });
    for (preset, cookies) in OWN {
        let larder = Larder::before(&origin, &format!("preset = \"{preset}\""));
        let mut client = larder.client();
        let mut get = |cookie: &str| client.get_with("/", &format!("Cookie: {cookie}=x\r\n"));
        assert_eq!("nothing", get("_ga").text(), "{preset}");
        for it in *cookies {
            let page = get(it);
            assert!(!page.is_hit() && page.text() == format!("{it}=x"), "{preset}: {it}: {}", page.text());
        }
    }
}

#[test]
fn check_and_explain_name_the_source_of_a_value() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nhello");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n\
         cache = {{ preset = \"wordpress\", default_ttl = \"7s\" }}\n",
        origin.url()
    ));
    let check = run(larder.folder.path(), &["check"]);
    assert_eq!(0, check.code, "{}", check.err);
    let line = check
        .out
        .lines()
        .find(|it| it.contains("preset wordpress"))
        .unwrap_or_else(|| panic!("{}", check.out));
    assert!(line.contains("cache.private_cookies") && !line.contains("cache.default_ttl"), "{line}");
    let (url, admin) = (format!("http://{}/", larder.address), larder.admin.to_string());
    let explain = run(
        larder.folder.path(),
        &["explain", &url, "-H", "Cookie: wordpress_logged_in_x=1", "--admin", &admin],
    );
    let line = |key: &str| explain.out.lines().rfind(|it| it.contains(key)).unwrap_or_default().to_owned();
    assert!(line("cache.private_cookies").contains("preset wordpress"), "{}", explain.out);
    assert!(line("cache.default_ttl").contains("larder.toml:6"), "{}", explain.out);
}
