//! The keys of an issuer, fetched from its URL: rotated, withheld, slow, broken, and asked for by a flood of tokens.

use super::access::larder;
use super::access_jwt::{ed25519, signed_by};
use crate::harness::http2::{Http2, request};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::secure::Authority;
use crate::harness::{Client, Larder, Origin, until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// An issuer whose answer can be changed.
struct Issuer {
    origin: Origin,
    answer: Arc<Mutex<String>>,
}

impl Issuer {
    fn new(keys: &[&Value]) -> Self {
        let answer = Arc::new(Mutex::new(String::new()));
        let own = answer.clone();
        let it = Self { origin: Origin::new(move |_| own.lock().unwrap().clone()), answer };
        it.publish(keys);
        it
    }

    fn publish(&self, keys: &[&Value]) {
        let set = json!({ "keys": keys });
        self.answers(&format!(
            "HTTP/1.1 200 OK\nContent-Type: application/json\nCache-Control: max-age=300\n\n{set}"
        ));
    }

    fn answers(&self, text: &str) {
        *self.answer.lock().unwrap() = text.to_owned();
    }
}

fn page() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\npage")
}

fn site(url: &str, more: &str) -> String {
    format!(
        "[[site.route]]\npath = \"/free/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\n\
         [[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ jwt = {{ jwks_url = \"{url}/keys?p=1\"{more} }} }}\n"
    )
}

fn before(origin: &Origin, url: &str) -> Larder {
    larder(origin, &site(url, ""))
}

fn status(larder: &Larder, lines: &str) -> u16 {
    larder.client().get_with("/", lines).status
}

#[test]
fn keys_are_fetched_and_rotated() {
    let [(one, first), (two, second), (three, third)] = [1, 2, 3].map(ed25519);
    let (issuer, origin) = (Issuer::new(&[&first]), page());
    let larder = before(&origin, &issuer.origin.url());
    larder.hold();
    // The first request waits for the first fetch, if that has not ended.
    assert_eq!(200, status(&larder, &signed_by(&one, "k1")));
    let asked = &issuer.origin.received()[0];
    assert_eq!(("GET /keys?p=1 HTTP/1.1", None), (asked.line(), asked.field("authorization")));
    assert_eq!(401, status(&larder, ""));
    // The issuer signs with a new key: its first token is admitted.
    larder.pass(12_000);
    issuer.publish(&[&first, &second]);
    assert_eq!(200, status(&larder, &signed_by(&two, "k2")));
    assert_eq!(2, issuer.origin.requests());
    // A key of the same name by another hand is no reason to fetch.
    larder.pass(12_000);
    assert_eq!(401, status(&larder, &signed_by(&three, "k1")));
    assert_eq!(2, issuer.origin.requests());
    let mut http2 = Http2::connect(&larder);
    let token = signed_by(&two, "k2");
    let stream =
        http2.head(&request("GET", "/", &[("authorization", token["Authorization: ".len()..].trim())]), 5);
    assert_eq!(200, http2.answer(stream).status);
    // A key that was withdrawn is known until the lifetime of the set has ended.
    issuer.publish(&[&second, &third]);
    assert_eq!(200, status(&larder, &signed_by(&one, "k1")));
    larder.pass(305_000);
    until("it is fetched again", || {
        issuer.origin.requests() == 3 && status(&larder, &signed_by(&one, "k1")) == 401
    });
    assert_eq!(
        [200, 200],
        [status(&larder, &signed_by(&two, "k2")), status(&larder, &signed_by(&three, "k3"))]
    );
    assert_eq!(0, larder.counter("access_keys_failures"));
}

#[test]
fn the_last_keys_stay_while_the_issuer_fails() {
    let [(one, first), (two, second)] = [1, 2].map(ed25519);
    let (issuer, origin) = (Issuer::new(&[&first]), page());
    let larder = before(&origin, &issuer.origin.url());
    until("the keys are there", || status(&larder, &signed_by(&one, "k1")) == 200);
    larder.hold();
    let huge = format!("HTTP/1.1 200 OK\n\n{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(1 << 20));
    let other = json!({ "keys": [second] });
    for wrong in [
        "HTTP/1.1 500 Internal Server Error\n\n",
        "HTTP/1.1 200 OK\n\n<html>",
        "HTTP/1.1 200 OK\n\n{\"keys\":[]}",
        "HTTP/1.1 200 OK\n\n{\"keys\":[{\"kty\":\"oct\",\"kid\":\"k2\",\"k\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}]}",
        &huge,
        &format!("HTTP/1.1 302 Found\nLocation: /other\n\n{other}"),
        &format!("HTTP/1.1 206 Partial Content\n\n{other}"),
        &format!("HTTP/1.1 200 OK\nContent-Length: 100000\n\n{other}"),
    ] {
        let failures = larder.counter("access_keys_failures");
        issuer.answers(wrong);
        larder.pass(305_000);
        until("it has failed", || larder.counter("access_keys_failures") > failures);
        assert_eq!(200, status(&larder, &signed_by(&one, "k1")), "{}", &wrong[..20]);
        assert_eq!(401, status(&larder, &signed_by(&two, "k2")));
    }
    issuer.publish(&[&second]);
    larder.pass(65_000);
    until("it is reached again", || status(&larder, &signed_by(&two, "k2")) == 200);
    assert_eq!(401, status(&larder, &signed_by(&one, "k1")));
}

#[test]
fn without_keys_tokens_get_503() {
    let (one, first) = ed25519(1);
    let (issuer, origin) = (Issuer::new(&[]), page());
    let larder = before(&origin, &issuer.origin.url());
    larder.hold();
    let refused = larder.client().get_with("/", &signed_by(&one, "k1"));
    assert_eq!(
        (503, Some("10"), Some("no-store")),
        (refused.status, refused.field("retry-after"), refused.field("cache-control"))
    );
    assert_eq!(401, status(&larder, ""), "without a token nothing else is missing");
    assert_eq!("page", larder.get("/free/a").text());
    issuer.publish(&[&first]);
    for _ in 0..20 {
        assert_eq!(503, status(&larder, &signed_by(&one, "k1")));
    }
    assert_eq!(1, issuer.origin.requests());
    larder.pass(12_000);
    until("it is fetched", || status(&larder, &signed_by(&one, "k1")) == 200);
    assert_eq!(2, issuer.origin.requests());
}

#[test]
fn a_flood_of_unknown_keys_asks_the_issuer_once_in_ten_seconds() {
    let [(one, first), (other, _)] = [1, 9].map(ed25519);
    let (issuer, origin) = (Issuer::new(&[&first]), page());
    let larder = before(&origin, &issuer.origin.url());
    until("the keys are there", || status(&larder, &signed_by(&one, "k1")) == 200);
    larder.hold();
    let before = issuer.origin.requests();
    for round in 0..3 {
        larder.pass(12_000);
        let mut client = larder.client();
        for number in 0..100 {
            let lines = signed_by(&other, &format!("x{round}-{number}"));
            assert_eq!(401, client.get_with("/", &lines).status);
        }
        assert_eq!(200, client.get_with("/", &signed_by(&one, "k1")).status);
    }
    assert_eq!(3, issuer.origin.requests() - before);
    // A token without the algorithm of any key, and one that names its own key, too.
    larder.pass(12_000);
    for _ in 0..10 {
        let lines = format!("Authorization: Bearer {}\r\n", super::access_jwt::token(json!({ "sub": "a" })));
        assert_eq!(401, status(&larder, &lines));
    }
    assert_eq!(4, issuer.origin.requests() - before);
}

#[test]
fn a_slow_issuer_delays_only_tokens_with_unknown_keys() {
    let [(one, first), (two, second)] = [1, 2].map(ed25519);
    let set = json!({ "keys": [first] }).to_string();
    let both = json!({ "keys": [first, second] }).to_string();
    let (gate, is_slow) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let (held, slow) = (gate.clone(), is_slow.clone());
    let issuer = Origin::scripted(move |_| match slow.load(SeqCst) {
        false => vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n\n{set}")))],
        true => {
            vec![Script::Gate(held.clone()), Script::Send(response(&format!("HTTP/1.1 200 OK\n\n{both}")))]
        }
    });
    let origin = page();
    let larder = before(&origin, &issuer.url());
    until("the keys are there", || status(&larder, &signed_by(&one, "k1")) == 200);
    larder.hold();
    is_slow.store(true, SeqCst);
    larder.pass(12_000);
    let mut waiting: Vec<Client> = (0..5).map(|_| larder.client()).collect();
    let lines = signed_by(&two, "k2");
    for it in &mut waiting {
        it.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    }
    until("it is asked", || gate.waiting() == 1);
    for _ in 0..10 {
        assert_eq!([200, 200], [status(&larder, &signed_by(&one, "k1")), larder.get("/free/a").status]);
    }
    assert_eq!(2, issuer.requests(), "one request is in flight");
    gate.open();
    waiting.iter_mut().for_each(|it| assert_eq!(200, it.read().status));
    assert_eq!(2, issuer.requests());
}

#[test]
fn a_reload_changes_the_url_and_keeps_the_keys_of_another() {
    let [(one, first), (two, second)] = [1, 2].map(ed25519);
    let (issuer, next, origin) = (Issuer::new(&[&first]), Issuer::new(&[&second]), page());
    let larder = before(&origin, &issuer.origin.url());
    until("the keys are there", || status(&larder, &signed_by(&one, "k1")) == 200);
    larder.hold();
    let reload = |text: String| {
        let before = larder.counter("config_reloads");
        std::fs::write(larder.config(), text).unwrap();
        larder.signal(libc::SIGHUP);
        until("it is in force", || larder.counter("config_reloads") > before);
    };
    let text = std::fs::read_to_string(larder.config()).unwrap();
    issuer.answers("HTTP/1.1 500 Internal Server Error\n\n");
    reload(format!("{text}\n# changed"));
    assert_eq!(200, status(&larder, &signed_by(&one, "k1")), "the keys stay");
    assert_eq!(1, issuer.origin.requests());
    reload(text.replace(&issuer.origin.url(), &next.origin.url()));
    until("the new keys are in force on every worker", || {
        (0..8).all(|_| status(&larder, &signed_by(&two, "k2")) == 200)
    });
    until("and no others", || (0..8).all(|_| status(&larder, &signed_by(&one, "k1")) == 401));
}

#[test]
fn an_issuer_is_verified_by_its_certificate() {
    let (one, first) = ed25519(1);
    let (authority, plain, origin) = (Authority::new(), Issuer::new(&[&first]), page());
    let certificate = authority.sign("issuer", &["localhost"]);
    let config = format!(
        "listen = [\"https://127.0.0.1:0\"]\ntls.certificates = [{certificate}]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         proxy = {{ to = [\"{}\"] }}\n",
        plain.origin.url()
    );
    let issuer = Larder::configured(config);
    let at = |host: &str| format!("https://{host}:{}", issuer.address.port());
    let trusted = format!(", ca = \"{}\"", authority.path("ca.pem").display());
    let known = larder(&origin, &site(&at("localhost"), &trusted));
    assert_eq!(200, status(&known, &signed_by(&one, "k1")));
    for (host, ca) in [("localhost", ""), ("127.0.0.1", &trusted)] {
        let unknown = larder(&origin, &site(&at(host), ca));
        assert_eq!(503, status(&unknown, &signed_by(&one, "k1")), "{host} {ca}");
        until("it is counted", || unknown.counter("access_keys_failures") > 0);
    }
}
