//! Tokens before a route: only valid ones are admitted, on hits as on misses, and no page of one user is given to another.

mod issuer;

use super::access::larder;
use crate::harness::http2::{Http2, request};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, begun, until};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_wire::signed_url::{SignOptions, SignedNames, sign};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

pub const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ALICES_PASSWORD: &str = "Authorization: Basic YWxpY2U6d29uZGVybGFuZA==\r\n";

fn encode(it: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(it)
}

/// A token with these claims, signed with `SECRET`; it expires an hour after the start of the tests.
pub fn token(claims: Value) -> String {
    let mut all = json!({ "exp": begun() + 3600, "iss": "https://id.example.com/" });
    claims.as_object().unwrap().iter().for_each(|(name, value)| all[name] = value.clone());
    let signed = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(all.to_string()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("{signed}.{}", encode(hmac::sign(&key, signed.as_bytes())))
}

/// The line of a request with a token.
fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn of(user: &str) -> String {
    bearer(&token(json!({ "sub": user })))
}

/// A larder whose only route demands tokens, with these keys in `access.jwt` and these in `access`.
fn guarded(origin: &Origin, jwt: &str, access: &str) -> Larder {
    larder(origin, &site(jwt, access))
}

fn site(jwt: &str, access: &str) -> String {
    format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\ncache = {{ default_ttl = \"600s\" }}\n\
         access = {{ jwt = {{ secret = \"{SECRET}\", issuer = \"https://id.example.com/\"{jwt} }}{access} }}\n"
    )
}

/// A page that names its number.
fn counting() -> Origin {
    let count = AtomicUsize::new(1);
    Origin::new(move |_| {
        format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\npage {}", count.fetch_add(1, SeqCst))
    })
}

fn over_http2(larder: &Larder, path: &str, token: &str) -> crate::harness::http2::Answer {
    let mut http2 = Http2::connect(larder);
    let stream = http2.head(&request("GET", path, &[("authorization", &format!("Bearer {token}"))]), 5);
    http2.answer(stream)
}

#[test]
fn only_valid_tokens_are_admitted_and_by_default_nothing_is_stored() {
    let origin = counting();
    let larder = guarded(&origin, "", "");
    let mut client = larder.client();
    let whole = token(json!({ "sub": "alice" }));
    let none = format!("{}.{}.", encode(r#"{"alg":"none"}"#), whole.split('.').nth(1).unwrap());
    for (lines, challenge) in [
        (String::new(), "Bearer"),
        (ALICES_PASSWORD.to_owned(), "Bearer"),
        (bearer(""), "Bearer"),
        (bearer(&none), "Bearer error=\"invalid_token\""),
        (bearer(&whole[..whole.len() - 1]), "Bearer error=\"invalid_token\""),
        (bearer(&whole) + &bearer(&whole), "Bearer error=\"invalid_token\""),
        (bearer(&token(json!({ "exp": begun() - 31 }))), "Bearer error=\"invalid_token\""),
        (bearer(&token(json!({ "exp": (begun() + 60).to_string() }))), "Bearer error=\"invalid_token\""),
        (bearer(&token(json!({ "nbf": begun() + 60 }))), "Bearer error=\"invalid_token\""),
        (bearer(&token(json!({ "iss": "https://other.example.com/" }))), "Bearer error=\"invalid_token\""),
    ] {
        for method in ["GET", "HEAD", "POST", "PURGE"] {
            let refused = client.request(method, "/", &lines, "");
            assert_eq!(401, refused.status, "{method} {lines}");
            assert_eq!(Some(challenge), refused.field("www-authenticate"), "{method} {lines}");
            assert_eq!(Some("no-store"), refused.field("cache-control"));
            assert!(!refused.text().contains("expired"), "the reason is for the log");
        }
    }
    assert_eq!([401, 401], ["x", &none].map(|it| over_http2(&larder, "/", it).status));
    assert_eq!(0, origin.requests());
    assert_eq!("page 1", client.get_with("/", &of("alice")).text());
    assert_eq!("page 2", client.get_with("/", &of("alice")).text());
    assert_eq!("page 3", over_http2(&larder, "/", &whole).text());
    assert!(origin.received().iter().all(|it| it.field("authorization").is_none()), "the token stays here");
    assert_eq!(42, larder.counter("access_refused"));
}

#[test]
fn a_hit_needs_a_valid_token_too() {
    let origin = counting();
    let larder = guarded(&origin, "", ", shared = true");
    let mut client = larder.client();
    let short = token(json!({ "sub": "alice", "exp": begun() + 50 }));
    assert_eq!("page 1", client.get_with("/", &bearer(&short)).text());
    until("it is stored", || larder.client().get_with("/", &bearer(&short)).is_hit());
    let bobs = client.get_with("/", &of("bob"));
    assert_eq!((true, "page 1".to_owned()), (bobs.is_hit(), bobs.text()));
    assert_eq!("page 1", over_http2(&larder, "/", &short).text());
    assert_eq!([401, 401], [client.get("/").status, Http2::connect(&larder).get("/").status]);
    larder.advance(79);
    until("the clock is read", || larder.client().get_with("/", &of("bob")).field("age") >= Some("79"));
    assert!(client.get_with("/", &bearer(&short)).is_hit(), "within the leeway");
    larder.advance(1);
    until("it has expired", || larder.client().get_with("/", &bearer(&short)).status == 401);
    assert_eq!(401, over_http2(&larder, "/", &short).status);
    assert!(client.get_with("/", &of("bob")).is_hit(), "the page has not");
    assert_eq!(1, origin.requests());
}

#[test]
fn with_the_identity_in_the_key_each_user_has_a_cache() {
    let origin = counting();
    let larder = guarded(&origin, "", ", key = \"identity\"");
    let mut client = larder.client();
    assert_eq!("page 1", client.get_with("/", &of("alice")).text());
    until("it is stored", || larder.client().get_with("/", &of("alice")).is_hit());
    assert_eq!("page 2", client.get_with("/", &of("bob")).text());
    // Another token of the same user.
    let other = bearer(&token(json!({ "sub": "alice", "jti": "2" })));
    for (lines, expect) in [(of("alice"), "page 1"), (of("bob"), "page 2"), (other, "page 1")] {
        let hit = client.get_with("/", &lines);
        assert_eq!((true, expect.to_owned()), (hit.is_hit(), hit.text()));
    }
    assert_eq!("page 2", over_http2(&larder, "/", &token(json!({ "sub": "bob" }))).text());
    for it in ["", ":identity: jwt:alice\r\n", "Connection: :identity\r\n"] {
        assert!(matches!(larder.client().get_with("/", it).status, 400 | 401), "{it}");
    }
    // Without a subject, no cache is the right one.
    let nameless = bearer(&token(json!({})));
    let pages = [1, 2].map(|_| client.get_with("/", &nameless).text());
    assert_eq!(["page 3", "page 4"], pages.each_ref().map(String::as_str));
    // A name that looks like another one behind its escapes, and a long one.
    for (at, name) in ["ali ce", "ali%20ce", "alice\u{0}", "Alice", &"a".repeat(3000)].into_iter().enumerate()
    {
        assert_eq!(format!("page {}", at + 5), client.get_with("/", &of(name)).text(), "{name}");
    }
    assert!(origin.received().iter().all(|it| it.field(":identity").is_none()));
}

#[test]
fn on_disk_and_after_a_restart_each_user_has_a_cache() {
    let origin = counting();
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let site = site("", ", key = \"identity\"").replace("{origin}", &origin.url());
        let disk = crate::harness::tiers::disk(folder.path());
        let config = format!("listen = [\"127.0.0.1:0\"]\n{disk}[[site]]\nhosts = [\"h\"]\n{site}");
        Larder::configured(config)
    };
    let get = |larder: &Larder, user: &str| {
        let mut client = larder.client();
        client.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n{}\r\n", of(user)));
        client.read()
    };
    let first = start();
    assert_eq!(
        ["page 1", "page 2"],
        ["alice", "bob"].map(|it| get(&first, it).text()).each_ref().map(String::as_str)
    );
    crate::harness::tiers::written(&first, 2);
    crate::harness::tiers::killed(first);
    let second = start();
    for (user, expect) in [("bob", "page 2"), ("alice", "page 1")] {
        let hit = get(&second, user);
        assert!(hit.cache().ends_with("; detail=disk"), "{}", hit.cache());
        assert_eq!(expect, hit.text());
    }
    assert_eq!("page 3", get(&second, "carol").text());
    assert_eq!(3, origin.requests());
}

/// Requests of two users that come while the page is fetched do not share the fetch.
#[test]
fn requests_of_two_users_do_not_coalesce() {
    let gate = Gate::new();
    let (door, count) = (gate.clone(), Arc::new(AtomicUsize::new(1)));
    let origin = Origin::scripted(move |_| {
        let page =
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage {}", count.fetch_add(1, SeqCst));
        vec![Script::Gate(door.clone()), Script::Send(response(&page))]
    });
    let larder = guarded(&origin, "", ", key = \"identity\"");
    let fetch = |user: &str| {
        let mut client = larder.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", of(user)));
        client
    };
    let mut alice = fetch("alice");
    until("one waits", || gate.waiting() == 1);
    let mut again = fetch("alice");
    let mut bob = fetch("bob");
    until("two wait", || gate.waiting() == 2);
    gate.open();
    let pages = [alice.read().text(), again.read().text(), bob.read().text()];
    assert_eq!(["page 1", "page 1", "page 2"], pages.each_ref().map(String::as_str));
    assert_eq!(2, origin.requests());
}

#[test]
fn the_origin_learns_of_the_client_from_larder_alone() {
    let origin = Origin::new(|it| {
        let all: Vec<String> =
            ["x-user", "x-roles", "x-none"].iter().map(|name| format!("{:?}", it.field(name))).collect();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", all.join(" "))
    });
    let send = ", send = { \"X-User\" = \"sub\", X-Roles = \"realm.roles\", X-None = \"none\" }";
    for access in
        ["", ", key = \"identity\"", ", shared = true", ", satisfy = \"any\", allow = [\"127.0.0.2\"]"]
    {
        let larder = guarded(&origin, send, access);
        let forged = "X-User: root\r\nx_user: root\r\nX_USER: root\r\nX-Roles: root\r\nx-none: root\r\nX_None: root\r\n";
        let lines = bearer(&token(json!({ "sub": "alice", "realm": { "roles": ["a", "b"] } })));
        for path in ["/", "/", "/other"] {
            let page = larder.client().get_with(path, &(lines.clone() + forged)).text();
            assert_eq!("Some(\"alice\") Some(\"a,b\") None", page, "{access}");
        }
        // Another user with the same page name gets a page of its own, shared or not.
        let bobs = larder.client().get_with("/", &(of("bob") + forged)).text();
        assert_eq!("Some(\"bob\") None None", bobs, "{access}");
        if access.contains("allow") {
            let mut near = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
            assert_eq!("None None None", near.get_with("/", forged).text());
        }
        for it in origin.received() {
            let all = format!("{it:?}").to_ascii_lowercase();
            assert!(!all.contains("root"), "{all}");
        }
        // A client that has the field dropped on its way would be nobody.
        for name in ["X-User", "x_user", "close, X-USER"] {
            let nominated = larder.client().get_with("/", &format!("{lines}Connection: {name}\r\n"));
            assert_eq!(400, nominated.status, "{name}");
        }
        let mut client = larder.client();
        client.send(format!(
            "POST /p HTTP/1.1\r\nHost: h\r\n{lines}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-User: root\r\nX-None: root\r\n\r\n"
        ));
        assert_eq!("Some(\"alice\") Some(\"a,b\") None", client.read().text());
        let bytes: Vec<String> =
            origin.bytes().iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        assert!(bytes.iter().all(|it| !it.contains("root")), "nor in a trailer: {bytes:?}");
    }
}

#[test]
fn a_value_that_a_field_would_change_is_not_sent() {
    let origin =
        Origin::new(|it| format!("HTTP/1.1 200 OK\n\n{:?} {:?}", it.field("x-user"), it.field("x-more")));
    let larder = guarded(&origin, ", send = { \"X-User\" = \"sub\" }", "");
    for name in ["root\r\nX-More: root", " root", "root\t", "a\u{0}", "a\u{7f}", ""] {
        let page = larder.client().get_with("/", &of(name)).text();
        assert_eq!("None None", page, "{name:?}");
    }
    assert_eq!("Some(\"a b\") None", larder.client().get_with("/", &of("a b")).text());
}

#[test]
fn claims_that_are_required() {
    let origin = counting();
    let larder = guarded(
        &origin,
        ", audience = [\"shop\", \"api\"], claims = { role = \"editor\", scope = \"read\" }",
        "",
    );
    let status = |claims: Value| larder.client().get_with("/", &bearer(&token(claims))).status;
    let right =
        json!({ "sub": "a", "aud": ["x", "api"], "role": ["viewer", "editor"], "scope": "read write" });
    assert_eq!(200, status(right.clone()));
    let with = |name: &str, value: Value| {
        let mut claims = right.clone();
        claims[name] = value;
        status(claims)
    };
    for (name, value) in [
        ("role", json!("Editor")),
        ("role", json!(["viewer"])),
        ("role", Value::Null),
        ("scope", json!("reader")),
    ] {
        assert_eq!(403, with(name, value.clone()), "{name} {value}");
    }
    let refused = larder.client().get_with("/", &bearer(&token(json!({ "aud": "shop" }))));
    assert_eq!(Some("Bearer error=\"insufficient_scope\""), refused.field("www-authenticate"));
    for value in [json!("other"), json!([]), Value::Null] {
        assert_eq!(401, with("aud", value.clone()), "{value}");
    }
}

#[test]
fn a_token_may_be_in_another_field_or_a_cookie() {
    let origin =
        Origin::new(|it| format!("HTTP/1.1 200 OK\n\n{:?} {:?}", it.field("x-token"), it.field("cookie")));
    let larder = guarded(&origin, ", header = \"X-Token\", cookie = \"token\"", "");
    let alices = token(json!({ "sub": "alice" }));
    let fetch = |lines: String| {
        let answer = larder.client().get_with("/", &lines);
        (answer.status, if answer.status == 200 { answer.text() } else { String::new() })
    };
    let ok = |text: &str| (200, text.to_owned());
    assert_eq!(ok("None None"), fetch(format!("X-Token: {alices}\r\n")));
    assert_eq!(ok("None None"), fetch(format!("X-Token: bearer {alices}\r\n")));
    assert_eq!(ok("None None"), fetch(format!("Cookie: token={alices}\r\n")));
    assert_eq!(ok("None Some(\"a=b; c=d\")"), fetch(format!("Cookie: a=b; token={alices}; c=d\r\n")));
    for wrong in [
        bearer(&alices),
        format!("X-Token: x\r\nCookie: token={alices}\r\n"),
        format!("X-Token: {alices}\r\nX-Token: {alices}\r\n"),
        format!("Cookie: token={alices}; token={alices}\r\n"),
        format!("Cookie: token={alices}\r\nCookie: token=x\r\n"),
        format!("Cookie: Token={alices}\r\n"),
    ] {
        assert_eq!(401, fetch(wrong.clone()).0, "{wrong}");
    }
}

#[test]
fn a_password_or_a_token() {
    let origin = counting();
    let made = std::process::Command::new("htpasswd").args(["-nbB", "alice", "wonderland"]).output();
    let users = String::from_utf8(made.expect("apache2-utils is installed").stdout).unwrap();
    let basic =
        format!(", basic = {{ users = [\"{}\"] }}, satisfy = \"any\", key = \"identity\"", users.trim());
    let larder = guarded(&origin, "", &basic);
    let refused = larder.get("/");
    let challenges: Vec<&str> = refused
        .fields
        .iter()
        .filter(|it| it.0.eq_ignore_ascii_case("www-authenticate"))
        .map(|it| it.1.as_str())
        .collect();
    assert_eq!(vec!["Bearer", "Basic realm=\"larder\", charset=\"UTF-8\""], challenges);
    let pages = [ALICES_PASSWORD.to_owned(), of("alice")].map(|it| larder.client().get_with("/", &it).text());
    assert_eq!(["page 1", "page 2"], pages.each_ref().map(String::as_str), "they are not the same user");
}

/// A key pair, and its public key as JSON.
pub fn ed25519(seed: u8) -> (Ed25519KeyPair, Value) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    let key =
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": format!("k{seed}"), "x": encode(pair.public_key()) });
    (pair, key)
}

pub fn signed_by(pair: &Ed25519KeyPair, kid: &str) -> String {
    let header = json!({ "alg": "EdDSA", "kid": kid }).to_string();
    let claims = json!({ "sub": "alice", "exp": begun() + 3600 }).to_string();
    let signed = format!("{}.{}", encode(header), encode(claims));
    bearer(&format!("{signed}.{}", encode(pair.sign(signed.as_bytes()))))
}

fn before_set(origin: &Origin, file: &Path) -> Larder {
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ jwt = {{ jwks_file = \"{}\" }} }}\n",
        file.display()
    );
    larder(origin, &site)
}

#[test]
fn a_set_of_keys_is_read_again_and_a_broken_one_is_not() {
    let origin = counting();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let write = |keys: &[&Value]| std::fs::write(&file, json!({ "keys": keys }).to_string()).unwrap();
    let [(one, first), (two, second)] = [1, 2].map(ed25519);
    write(&[&first]);
    let larder = before_set(&origin, &file);
    let status = |lines: String| larder.client().get_with("/", &lines).status;
    let both = || [status(signed_by(&one, "k1")), status(signed_by(&two, "k2"))];
    assert_eq!([200, 401], both());
    assert_eq!(401, status(signed_by(&two, "k1")));
    std::fs::write(&file, "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"short\"}]}").unwrap();
    until("it is looked at", || {
        larder.pass(1001);
        both() == [200, 401] && larder.counter("access_files_broken") == 1
    });
    let health = || larder.admin_get("/api/v1/health").text();
    assert!(health().contains("the keys read before stay in force"), "{}", health());
    write(&[&first, &second]);
    until("it is read", || {
        larder.pass(1001);
        both() == [200, 200]
    });
    std::fs::remove_file(&file).unwrap();
    write(&[&second]);
    until("it is read", || {
        larder.pass(1001);
        both() == [401, 200]
    });
    // The signature is remembered, and the time is not.
    larder.advance(3631);
    until("it has expired", || both() == [401, 401]);
}

#[test]
fn a_public_key_of_openssl() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let made = std::process::Command::new("openssl")
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    run(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key.pem"]);
    run(&["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"]);
    let claims = json!({ "sub": "alice", "exp": begun() + 3600 }).to_string();
    let signed = format!("{}.{}", encode(r#"{"alg":"RS256","typ":"JWT"}"#), encode(claims));
    std::fs::write(folder.path().join("signed"), &signed).unwrap();
    run(&["dgst", "-sha256", "-sign", "key.pem", "-out", "signature", "signed"]);
    let signature = encode(std::fs::read(folder.path().join("signature")).unwrap());
    let origin = counting();
    let public = folder.path().join("public.pem");
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ jwt = {{ public_key = \"{}\" }} }}\n",
        public.display()
    );
    let larder = larder(&origin, &site);
    let is_admitted =
        || larder.client().get_with("/", &bearer(&format!("{signed}.{signature}"))).status == 200;
    assert!(is_admitted());
    // A broken one, at a look at the file and at a reload.
    let key = std::fs::read(&public).unwrap();
    std::fs::write(&public, &key[..key.len() / 2]).unwrap();
    until("it is looked at", || {
        larder.pass(1001);
        larder.counter("access_files_broken") == 1
    });
    let health = || larder.admin_get("/api/v1/health").text();
    assert!(is_admitted() && health().contains("the keys read before stay in force"), "{}", health());
    larder.signal(libc::SIGHUP);
    until("it is read", || larder.counter("config_reloads") + larder.counter("config_rejections") > 0);
    assert!(is_admitted() && health().contains("public.pem"), "{}", health());
    std::fs::write(&public, &key).unwrap();
    until("it is read again", || {
        larder.pass(1001);
        is_admitted() && !health().contains("public.pem")
    });
    // The public key is known to all: it is no secret of HMAC.
    let forged = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), signed.split_once('.').unwrap().1);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &std::fs::read(&public).unwrap());
    let forged = format!("{forged}.{}", encode(hmac::sign(&key, forged.as_bytes())));
    assert_eq!(401, larder.client().get_with("/", &bearer(&forged)).status);
}

/// A redirect and a fixed answer have the values that an origin would get.
#[test]
fn answers_of_larder_know_the_client_from_the_token_alone() {
    let origin = counting();
    let access = format!("access = {{ jwt = {{ secret = \"{SECRET}\", send = {{ X-User = \"sub\" }} }} }}\n");
    let signed = format!("access = {{ signed = {{ secret = \"{SECRET}\" }} }}\n");
    let site = format!(
        "[[site.route]]\npath = \"/me\"\nrespond = {{ body = \"[{{header.X-User}}]\" }}\n{access}\
         [[site.route]]\npath = \"/go/*\"\nredirect = {{ to = \"http://other{{uri}}\" }}\n{signed}"
    );
    let larder = larder(&origin, &site);
    let forged = "X-User: root\r\nx_user: root\r\n";
    assert_eq!("[alice]", larder.client().get_with("/me", &(of("alice") + forged)).text());
    assert_eq!("[]", larder.client().get_with("/me", &(bearer(&token(json!({}))) + forged)).text());
    let many: String = (0..140).map(|it| format!("X-{it}: a\r\n")).collect();
    let answer = larder.client().get_with("/me", &(of("alice") + forged + &many));
    assert!(!answer.text().contains("root"), "{answer:?}");
    assert_eq!(401, larder.client().get_with("/me", forged).status);
    let options = SignOptions { expires: begun() + 60, ..SignOptions::default() };
    let target = sign("h", "/go/a?b=c", &SignedNames::after(""), SECRET.as_bytes(), &options).unwrap();
    let moved = larder.get(&target);
    assert_eq!(Some("http://other/go/a?b=c"), moved.field("location"), "{moved:?}");
    assert_eq!(403, larder.get("/go/a?b=c").status);
}

/// The subject of a token is the name of its user.
#[test]
fn the_subject_is_a_variable() {
    let origin = Origin::new(|it| format!("HTTP/1.1 200 OK\n\n{}", it.field("x-user").unwrap_or("none")));
    let larder = larder(
        &origin,
        &format!("{}request_headers.set = {{ X-User = \"{{remote_user}}\" }}\n", site("", "")),
    );
    for user in ["ann", "a b <c>"] {
        assert_eq!(user, larder.client().get_with("/", &format!("{}X-User: root\r\n", of(user))).text());
    }
    assert_eq!(
        "none",
        larder.client().get_with("/", &bearer(&token(json!({})))).text(),
        "a token without a subject"
    );
}
