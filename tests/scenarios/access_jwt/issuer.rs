//! Tokens that PyJWT makes: larder and PyJWT accept the same ones, with a secret, and with a set of keys from a file and from a URL.

use super::{bearer, counting};
use crate::harness::application::python_with;
use crate::harness::{Larder, Origin, begun, until};
use crate::scenarios::access::larder;
use serde_json::Value;
use std::process::Command;

/// The cases of which each algorithm has valid tokens.
const VALID: [&str; 3] = ["begun", "many audiences", "whole"];

/// The set of keys and the tokens of `apps/issuer.py`.
fn issued() -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/apps/issuer.py");
    let made = Command::new(python_with("jwt, cryptography", "python3-jwt and python3-cryptography"))
        .args([script, &begun().to_string()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    serde_json::from_slice(&made.stdout).unwrap()
}

fn guarded(origin: &Origin, key: &str) -> Larder {
    larder(
        origin,
        &format!(
            "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n\
             access = {{ jwt = {{ {key}, issuer = \"https://id.example.com/\", audience = [\"shop\"] }}, shared = true }}\n"
        ),
    )
}

/// Each token of these algorithms is accepted if PyJWT accepts it, twice: the second time its page is stored.
fn check(larder: &Larder, issued: &Value, algorithms: &[&str]) {
    let of = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    for algorithm in algorithms {
        let all = issued["tokens"].as_array().unwrap().iter().filter(|it| it["algorithm"] == *algorithm);
        let mut valid = Vec::new();
        for it in all {
            let case = of(it, "case");
            for _ in 0..2 {
                let answer = larder.client().get_with("/", &bearer(&of(it, "token")));
                let expect = if it["accepted"] == true { 200 } else { 401 };
                assert_eq!(expect, answer.status, "{algorithm} {case}: {answer:?}");
            }
            valid.extend((it["accepted"] == true).then_some(case));
        }
        valid.sort();
        assert_eq!(VALID, valid[..], "{algorithm}");
    }
}

#[test]
fn tokens_of_pyjwt_are_accepted_and_refused_as_by_pyjwt() {
    const SIGNED: [&str; 3] = ["RS256", "ES256", "EdDSA"];
    let issued = issued();
    let origin = counting();
    let secret = guarded(&origin, &format!("secret = {}", issued["secret"]));
    check(&secret, &issued, &["HS256"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    std::fs::write(&file, issued["set"].to_string()).unwrap();
    check(&guarded(&origin, &format!("jwks_file = {file:?}")), &issued, &SIGNED);
    let set = issued["set"].to_string();
    let issuer = Origin::fixed(&format!("HTTP/1.1 200 OK\nContent-Type: application/json\n\n{set}"));
    let fetched = guarded(&origin, &format!("jwks_url = \"{}/keys\"", issuer.url()));
    until("the keys are fetched", || larder_has_keys(&fetched));
    check(&fetched, &issued, &SIGNED);
    // A public key is no secret of HMAC, and a secret is no key of a signature.
    for other in issued["tokens"].as_array().unwrap().iter().filter(|it| it["accepted"] == true) {
        let is_secret = other["algorithm"] == "HS256";
        let lines = bearer(other["token"].as_str().unwrap());
        let refused = if is_secret { &fetched } else { &secret };
        assert_eq!(401, refused.client().get_with("/", &lines).status, "{other}");
    }
}

/// Without keys tokens get 503.
fn larder_has_keys(larder: &Larder) -> bool {
    larder.client().get_with("/", &bearer("a.b.c")).status == 401
}
