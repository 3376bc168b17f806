//! The client's certificate for applications (RFC 9440), and its effect on the cache.

use crate::harness::command;
use crate::harness::secure::{Authority, Secure, der};
use crate::harness::{Larder, Origin, Response, until};
use crate::scenarios::stream::{Listener, explain};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Answers with the fields that say who asks, may be kept by everybody.
fn application() -> Origin {
    Origin::new(|it| {
        let text: Vec<&str> =
            it.head.lines().filter(|it| it.to_ascii_lowercase().starts_with("client")).collect();
        let body = text.join("\n");
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n{body}")
    })
}

/// larder before `origin`, which asks clients for certificates; `route` is more of its route, `more` of the whole.
fn before(authority: &Authority, origin: &Origin, route: &str, more: &str) -> Larder {
    let (certificate, ca) = (authority.sign("one", &["one.test"]), authority.path("ca.pem"));
    authority.sign("ann", &["ann.test"]);
    authority.sign("bob", &["bob.test"]);
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n{more}\n[tls]\ncertificates = [{certificate}]\nclient_auth = \"optional\"\n\
         client_ca = {ca:?}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n{route}\nproxy = {{ to = [\"{url}\"] }}\n"
    ))
}

fn fetch(client: &mut Secure, target: &str, lines: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: one.test\r\n{lines}\r\n")).read()
}

fn told(authority: &Authority, name: &str) -> String {
    format!("Client-Cert: :{}:", STANDARD.encode(der(&authority.path(&format!("{name}.pem")))))
}

const LIES: [&str; 5] = [
    "",
    "Client-Cert: :bGllcw==:\r\n",
    "client-cert-chain: :bGllcw==:\r\nClient-Cert: x\r\n",
    "Client_Cert: :bGllcw==:\r\n",
    "Connection: Client-Cert, close, Client-Cert-Chain\r\nClient-Cert: :bGllcw==:\r\n",
];

#[test]
fn an_application_gets_exactly_the_certificate_of_the_client() {
    let (authority, origin) = (Authority::new(), application());
    let larder = before(&authority, &origin, "client_cert = true", "");
    let (nobody, ann) = (authority.trusting(), authority.trusting().showing(&authority, "ann"));
    let connect = |it: &crate::harness::secure::Trusting| it.connect(larder.address, "one.test").unwrap();
    for (n, lies) in LIES.iter().enumerate() {
        // Twice: what nobody showed may be kept, and is not for who showed one.
        for asked in 0..2 {
            let hers = fetch(&mut connect(&ann), &format!("/{n}"), lies);
            assert_eq!(told(&authority, "ann"), hers.text(), "{lies}");
            assert!(hers.field("cache-status").unwrap().contains("fwd=bypass"), "{lies}");
            let answer = fetch(&mut connect(&nobody), &format!("/{n}"), lies);
            assert_eq!("", answer.text(), "{lies}");
            assert_eq!(asked == 1, answer.field("cache-status").unwrap().contains("hit"), "{lies}");
        }
    }
    // A session that is taken up again has the certificate of the first.
    let mut again = connect(&ann);
    assert_eq!(told(&authority, "ann"), fetch(&mut again, "/again", "").text());
    assert!(again.is_resumed());
}

#[test]
fn a_certificate_can_be_in_the_key() {
    let (authority, origin) = (Authority::new(), application());
    let larder = before(&authority, &origin, "client_cert = true\ncache.key.headers = [\"Client-Cert\"]", "");
    let nobody = authority.trusting();
    let ann = nobody.clone().showing(&authority, "ann");
    let bob = nobody.clone().showing(&authority, "bob");
    let spoof = format!("{}\r\n", told(&authority, "ann"));
    for asked in 0..2 {
        for (client, expect) in
            [(&ann, told(&authority, "ann")), (&bob, told(&authority, "bob")), (&nobody, String::new())]
        {
            let mut client = client.connect(larder.address, "one.test").unwrap();
            for lies in ["", &spoof] {
                let answer = fetch(&mut client, "/", lies);
                assert_eq!(expect, answer.text(), "{lies}");
                let is_first = asked == 0 && lies.is_empty();
                assert_eq!(!is_first, answer.field("cache-status").unwrap().contains("hit"), "{lies}");
            }
        }
    }
    assert_eq!(3, origin.requests());
}

/// A proxy that is believed says whose certificate it was; its own is nobody's.
#[test]
fn a_trusted_proxy_names_the_certificate_of_the_client() {
    let (authority, origin) = (Authority::new(), application());
    let more = "[clients]\ntrusted = [\"127.0.0.1\"]\n";
    let larder = before(&authority, &origin, "client_cert = true", more);
    let ann = authority.trusting().showing(&authority, "ann");
    let mut proxy = ann.connect(larder.address, "one.test").unwrap();
    let theirs = fetch(&mut proxy, "/", "X-Forwarded-For: 192.0.2.1\r\nClient-Cert: :dGhlaXJz:\r\n");
    assert_eq!("Client-Cert: :dGhlaXJz:", theirs.text());
    assert_eq!("", fetch(&mut proxy, "/", "X-Forwarded-For: 192.0.2.1\r\n").text());
    // Without a word of whose request it is, it is its own.
    assert_eq!(told(&authority, "ann"), fetch(&mut proxy, "/", "Client-Cert: :dGhlaXJz:\r\n").text());
}

/// What is kept of a request for `larder explain` is what was decided by.
#[test]
fn a_request_of_the_past_is_explained_with_its_certificate() {
    let (authority, origin) = (Authority::new(), application());
    let larder = before(&authority, &origin, "client_cert = true", "");
    let mut stream = Listener::to(&larder, "");
    let (nobody, ann) = (authority.trusting(), authority.trusting().showing(&authority, "ann"));
    let connect = |it: &crate::harness::secure::Trusting| it.connect(larder.address, "one.test").unwrap();
    fetch(&mut connect(&nobody), "/", "");
    assert_eq!("uri-miss", stream.request()["cache"]);
    until("it is stored", || larder.counter("cache_stores") == 1);
    for (client, lies, expect) in
        [(&ann, "", ("bypass", "pass")), (&nobody, "Client-Cert: :eA==:\r\n", ("hit", "hit"))]
    {
        fetch(&mut connect(client), "/", lies);
        let response = stream.request();
        assert_eq!(expect.0, response["cache"]);
        let (status, explained) = explain(&larder, &format!("{{\"id\":{}}}", response["id"]));
        assert_eq!((200, expect.1), (status, explained["verdict"]["name"].as_str().unwrap()), "{explained}");
        assert!(explained["verdict"]["sentence"].as_str().unwrap().len() < 250, "{explained}");
    }
}

#[test]
fn an_application_without_client_cert_gets_no_certificate() {
    let (authority, origin) = (Authority::new(), application());
    let larder = before(&authority, &origin, "", "");
    let ann = authority.trusting().showing(&authority, "ann");
    let mut ann = ann.connect(larder.address, "one.test").unwrap();
    assert_eq!("", fetch(&mut ann, "/", "").text());
    assert!(fetch(&mut ann, "/", "").field("cache-status").unwrap().contains("hit"));
}

#[test]
fn client_cert_without_client_auth_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let site = "[[site]]\nhosts = \"*\"\nroute = [{ client_cert = true, proxy = { to = \":1\" } }]\n";
    let expect =
        "warning: larder.toml:5: site.route.client_cert: has no effect while tls.client_auth is \"off\"";
    for (more, is_said) in [("", true), ("[clients]\ntrusted = [\"10.0.0.1\"]\n", false)] {
        let text = format!("listen = \"127.0.0.1:0\"\nadmin.enabled = false\n{site}{more}");
        std::fs::write(folder.path().join("larder.toml"), text).unwrap();
        let ended = command::run(folder.path(), &["check"]);
        let outcome = format!("{}{}", ended.out, ended.err);
        assert_eq!((0, is_said), (ended.code, outcome.contains("client_cert")), "{outcome}");
        assert_eq!(is_said, outcome.contains(expect), "{outcome}");
    }
}
