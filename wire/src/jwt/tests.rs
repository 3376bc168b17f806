//! Tokens of the RFCs and of another implementation, and tokens that were changed.

use super::*;
use proptest::prelude::*;
use ring::hmac;
use serde_json::json;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_800_000_000;

fn encode(it: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(it)
}

/// A token with this header and these claims, signed with HS256.
fn token(header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", encode(header), encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    format!("{signed}.{}", encode(hmac::sign(&key, signed.as_bytes())))
}

fn check_with(token: &str, demands: &TokenDemands, now: u64) -> Result<TokenClaims, TokenFault> {
    verify(token.as_bytes(), &JwtKeys::of_secret(SECRET).unwrap(), demands, now)
}

/// The result for claims, by default demands.
fn check(claims: &str) -> Result<TokenClaims, TokenFault> {
    check_with(&token(r#"{"alg":"HS256"}"#, claims), &TokenDemands::default(), NOW)
}

/// RFC 7515, appendices A.1 to A.3: their claims have expired at 1300819380.
#[test]
fn tokens_of_rfc_7515() {
    const PAYLOAD: &str =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let secret = URL_SAFE_NO_PAD
        .decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
        .unwrap();
    let set = |key: &str| JwtKeys::parse_set(&format!("{{\"keys\":[{key}]}}")).unwrap();
    let rsa = set(
        r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#,
    );
    let ec = set(
        r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
    );
    for (keys, header, signature) in [
        (
            JwtKeys::of_secret(&secret).unwrap(),
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        ),
        (
            rsa,
            "eyJhbGciOiJSUzI1NiJ9",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        ),
        (
            ec,
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
    ] {
        let token = format!("{header}.{PAYLOAD}.{signature}");
        let at = |now| verify(token.as_bytes(), &keys, &TokenDemands::default(), now);
        assert!(at(1_300_819_379).unwrap().has("http://example.com/is_root", "true"), "{header}");
        assert_eq!(Err(TokenFault::Expired), at(1_300_819_380));
        let unsigned = format!("eyJhbGciOiJub25lIn0.{PAYLOAD}.");
        let none = verify(unsigned.as_bytes(), &keys, &TokenDemands::default(), 0);
        assert_eq!(Err(TokenFault::Algorithm), none, "A.5: {header}");
    }
}

/// Tokens and keys that PyJWT made, of every algorithm.
#[test]
fn tokens_of_another_implementation() {
    let made: serde_json::Value = serde_json::from_str(include_str!("../../tests/golden/jwt.json")).unwrap();
    let vectors = made["vectors"].as_array().unwrap();
    assert_eq!(12, vectors.len());
    let keys_of = |it: &serde_json::Value| match it["secret"].as_str() {
        Some(secret) => vec![JwtKeys::of_secret(secret.as_bytes()).unwrap()],
        None => vec![
            JwtKeys::parse_pem(it["pem"].as_str().unwrap()).unwrap(),
            JwtKeys::parse_set(&json!({ "keys": [it["jwk"]] }).to_string()).unwrap(),
        ],
    };
    let demands = TokenDemands {
        issuers: vec!["https://id.example.com/".to_owned()],
        audiences: vec!["shop".to_owned()],
        ..TokenDemands::default()
    };
    for it in vectors {
        let token = it["token"].as_str().unwrap();
        for keys in keys_of(it) {
            let claims =
                verify(token.as_bytes(), &keys, &demands, NOW).unwrap_or_else(|why| panic!("{it}: {why:?}"));
            assert_eq!(Some("alice"), claims.subject());
            for other in vectors.iter().filter(|other| other["alg"] != it["alg"]) {
                let wrong = verify(other["token"].as_str().unwrap().as_bytes(), &keys, &demands, NOW);
                // A key of RSA verifies all algorithms of RSA.
                assert!(wrong.is_err() || keys.fit(JwtAlgorithm::Rs256), "{} {}", it["alg"], other["alg"]);
            }
            let only = JwtAlgorithm::parse(it["alg"].as_str().unwrap()).unwrap();
            let none = NAMES.iter().filter(|it| **it != only).copied().collect();
            let others = TokenDemands { algorithms: none, ..demands.clone() };
            assert_eq!(Err(TokenFault::Algorithm), verify(token.as_bytes(), &keys, &others, NOW));
        }
    }
    let all: Vec<_> = vectors.iter().filter(|it| !it["jwk"].is_null()).map(|it| it["jwk"].clone()).collect();
    let all = JwtKeys::parse_set(&json!({ "keys": all }).to_string()).unwrap();
    for it in vectors {
        let found = verify(it["token"].as_str().unwrap().as_bytes(), &all, &demands, NOW);
        assert_eq!(it["secret"].is_null(), found.is_ok(), "{}", it["alg"]);
    }
}

const NAMES: [JwtAlgorithm; 4] =
    [JwtAlgorithm::Hs256, JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa];

/// The public key of a server is known to all: a token that is signed with it as a secret is not valid.
#[test]
fn a_public_key_is_no_secret() {
    let made: serde_json::Value = serde_json::from_str(include_str!("../../tests/golden/jwt.json")).unwrap();
    let pem = made["vectors"][0]["pem"].as_str().unwrap();
    let signed = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(r#"{"exp":9999999999}"#));
    let key = hmac::Key::new(hmac::HMAC_SHA256, pem.as_bytes());
    let forged = format!("{signed}.{}", encode(hmac::sign(&key, signed.as_bytes())));
    let keys = JwtKeys::parse_pem(pem).unwrap();
    let found = verify(forged.as_bytes(), &keys, &TokenDemands::default(), NOW);
    assert_eq!(Err(TokenFault::Algorithm), found);
}

#[test]
fn headers() {
    let of = |header: &str| {
        check_with(&token(header, r#"{"exp":9999999999}"#), &TokenDemands::default(), NOW).map(drop)
    };
    for right in [r#"{"alg":"HS256"}"#, r#"{"typ":"at+jwt","alg":"HS256","kid":"any","x5t":"a"}"#] {
        assert_eq!(Ok(()), of(right), "{right}");
    }
    for wrong in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":null}"#,
        r"{}",
    ] {
        assert_eq!(Err(TokenFault::Algorithm), of(wrong), "{wrong}");
    }
    for wrong in ["crit\":[\"exp\"]", "crit\":[]", "jku\":\"https://a\"", "x5u\":\"https://a\"", "jwk\":{}"] {
        assert_eq!(Err(TokenFault::Header), of(&format!(r#"{{"alg":"HS256","{wrong}}}"#)), "{wrong}");
    }
    for wrong in ["false", "null", "\"true\"", "0"] {
        let header = format!(r#"{{"alg":"HS256","b64":{wrong}}}"#);
        assert_eq!(Err(TokenFault::Header), of(&header), "{wrong}");
    }
    for wrong in [
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","alg":"HS256"}"#,
        r#"{"alg":"HS256","a":{"b":1,"b":1}}"#,
        r#"{"alg":"HS256","kid":7}"#,
        r#"["HS256"]"#,
        r#"{"alg":"HS256"} {}"#,
        "",
    ] {
        assert_eq!(Err(TokenFault::Malformed), of(wrong), "{wrong}");
    }
}

#[test]
fn times() {
    for right in [r#"{"exp":1800000001}"#, r#"{"exp":1800000000.5}"#, r#"{"exp":1e300,"nbf":-1,"iat":0}"#] {
        assert!(check(right).is_ok(), "{right}");
    }
    assert_eq!(Err(TokenFault::Expired), check(r#"{"exp":1800000000}"#));
    assert_eq!(Err(TokenFault::Expired), check(r#"{"exp":-1e300}"#));
    assert_eq!(Err(TokenFault::Early), check(r#"{"exp":9999999999,"nbf":1800000001}"#));
    for wrong in [
        "{}",
        r#"{"exp":"9999999999"}"#,
        r#"{"exp":null}"#,
        r#"{"exp":true}"#,
        r#"{"exp":[9999999999]}"#,
        r#"{"exp":9999999999,"nbf":"1"}"#,
        r#"{"exp":9999999999,"iat":"1"}"#,
        r#"{"exp":9999999999,"sub":1}"#,
        r#"{"exp":9999999999,"iss":["a"]}"#,
        r#"{"exp":9999999999,"aud":1}"#,
        r#"{"exp":9999999999,"aud":[1]}"#,
    ] {
        assert_eq!(Err(TokenFault::Claims), check(wrong), "{wrong}");
    }
    for wrong in [r#"{"exp":1,"exp":9999999999}"#, r#"{"exp":1e999}"#, r#"{"exp":NaN}"#, r#"{"exp":+1}"#] {
        assert_eq!(Err(TokenFault::Malformed), check(wrong), "{wrong}");
    }
    let leeway = TokenDemands { leeway: 30, ..TokenDemands::default() };
    let of = |claims: &str| check_with(&token(r#"{"alg":"HS256"}"#, claims), &leeway, NOW).map(drop);
    assert_eq!(
        [Ok(()), Err(TokenFault::Expired), Ok(()), Err(TokenFault::Early)],
        [
            r#"{"exp":1799999971}"#,
            r#"{"exp":1799999970}"#,
            r#"{"exp":9999999999,"nbf":1800000030}"#,
            r#"{"exp":9999999999,"nbf":1800000031}"#
        ]
        .map(of)
    );
}

#[test]
fn issuers_and_audiences() {
    let demands = TokenDemands {
        issuers: vec!["a".to_owned(), "b".to_owned()],
        audiences: vec!["x".to_owned()],
        ..TokenDemands::default()
    };
    let of = |claims: &str| {
        let claims = format!("{{\"exp\":9999999999{claims}}}");
        check_with(&token(r#"{"alg":"HS256"}"#, &claims), &demands, NOW).map(drop)
    };
    for right in [r#","iss":"a","aud":"x""#, r#","iss":"b","aud":["y","x"]"#] {
        assert_eq!(Ok(()), of(right), "{right}");
    }
    for wrong in ["", r#","aud":"x""#, r#","iss":"c","aud":"x""#, r#","iss":"a ","aud":"x""#] {
        assert_eq!(Err(TokenFault::Issuer), of(wrong), "{wrong}");
    }
    for wrong in ["", r#","aud":"y""#, r#","aud":[]"#, r#","aud":"xx""#] {
        assert_eq!(Err(TokenFault::Audience), of(&format!(r#","iss":"a"{wrong}"#)), "{wrong}");
    }
}

#[test]
fn claims_by_name() {
    let claims = check(
        r#"{"exp":9999999999,"sub":"","a":"x","list":["x","y",1],"n":5,"yes":true,"scope":"read write","a.b":"dot",
            "realm":{"roles":["admin"]},"name":"a, b","end":"x ","line":"a\nb","names":["a,b"],"ä":"ö"}"#,
    )
    .unwrap();
    for (name, value) in [
        ("a", "x"),
        ("list", "y"),
        ("list", "1"),
        ("n", "5"),
        ("yes", "true"),
        ("scope", "write"),
        ("a.b", "dot"),
        ("realm.roles", "admin"),
    ] {
        assert!(claims.has(name, value), "{name}");
    }
    for (name, value) in [
        ("a", "X"),
        ("list", "x,y"),
        ("scope", "read write"),
        ("a", ""),
        ("realm", "admin"),
        ("name", "a"),
        ("no", ""),
    ] {
        assert!(!claims.has(name, value), "{name}");
    }
    assert_eq!(None, claims.subject());
    let values = ["a", "list", "realm.roles", "name", "ä"].map(|it| claims.field_value(it).unwrap());
    assert_eq!(["x", "x,y,1", "admin", "a, b", "ö"], values.each_ref().map(String::as_str));
    assert_eq!(
        [None, None, None, None, None],
        ["realm", "end", "line", "names", "sub"].map(|it| claims.field_value(it))
    );
}

#[test]
fn forms_of_tokens() {
    let whole = token(r#"{"alg":"HS256"}"#, r#"{"exp":9999999999}"#);
    let of = |it: &str| check_with(it, &TokenDemands::default(), NOW).map(drop);
    assert_eq!(Ok(()), of(&whole));
    let [head, body, sign] = whole.split('.').collect::<Vec<_>>()[..] else { unreachable!() };
    for wrong in [
        String::new(),
        "..".to_owned(),
        format!("{head}.{body}"),
        format!("{head}.{body}.{sign}."),
        format!("{head}.{body}.{sign}.x.y"),
        format!("{head}.{body}.{sign}="),
        format!("{head}.{body}. {sign}"),
        format!("{head}=.{body}.{sign}"),
        format!("{head}.{body}.{}", sign.replace(['-', '_'], "+")) + "+",
    ] {
        assert_eq!(Err(TokenFault::Malformed), of(&wrong), "{wrong}");
    }
    assert_eq!(Err(TokenFault::Signature), of(&format!("{head}.{body}.")));
    // The last character has bits that belong to no byte.
    let last = sign.chars().last().unwrap();
    for other in ('A'..='z').filter(|it| it.is_ascii_alphanumeric() && *it != last) {
        assert!(of(&format!("{head}.{body}.{}{other}", &sign[..sign.len() - 1])).is_err());
    }
    let long = format!(r#"{{"exp":9999999999,"a":"{}"}}"#, "x".repeat(6000));
    let long = token(r#"{"alg":"HS256"}"#, &long);
    assert!(long.len() <= MOST && of(&long).is_ok());
    let long = format!(r#"{{"exp":9999999999,"a":"{}"}}"#, "x".repeat(6200));
    assert_eq!(Err(TokenFault::Malformed), of(&token(r#"{"alg":"HS256"}"#, &long)));
    let deep = format!(r#"{{"exp":9999999999,"a":{}{}}}"#, "[".repeat(2000), "]".repeat(2000));
    assert_eq!(Err(TokenFault::Malformed), of(&token(r#"{"alg":"HS256"}"#, &deep)));
}

#[test]
fn sets_of_keys() {
    let x = encode([7; 32]);
    let key = |more: &str| format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"{more}}}"#);
    let of = |keys: &[String]| JwtKeys::parse_set(&format!(r#"{{"keys":[{}]}}"#, keys.join(",")));
    let names = |keys: &[String]| -> Vec<Option<String>> {
        of(keys).unwrap().iter().map(|it| it.kid.clone()).collect()
    };
    let a = key(r#","kid":"a","use":"sig","alg":"EdDSA","key_ops":["verify"]"#);
    assert_eq!(vec![Some("a".to_owned())], names(std::slice::from_ref(&a)));
    let skipped = [
        key(r#","use":"enc""#),
        key(r#","key_ops":["sign"]"#),
        key(r#","alg":"RS256""#),
        key(r#","alg":"none""#),
        r#"{"kty":"EC","crv":"P-521","x":"a","y":"b"}"#.to_owned(),
        r#"{"kty":"new"}"#.to_owned(),
        format!(r#"{{"kty":"oct","k":"{x}"}}"#),
    ];
    for it in &skipped {
        assert!(of(std::slice::from_ref(it)).unwrap_err().starts_with("it has no key"), "{it}");
    }
    assert_eq!(vec![Some("a".to_owned())], names(&[&skipped[..], std::slice::from_ref(&a)].concat()));
    assert_eq!(
        "key 2: an earlier key has the same kid and algorithm",
        of(&[a.clone(), a.clone()]).unwrap_err()
    );
    for (wrong, why) in [
        (r#"{"kty":"OKP","crv":"Ed25519"}"#, "\"x\" is missing"),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, "a coordinate has the wrong length"),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"A+/="}"#, "\"x\" is not base64url without padding"),
        (r#"{"kty":"RSA","n":"AAAA","e":"AQAB"}"#, "the RSA key has 0 bits; allowed: 2048 to 8192"),
        (r#"{"kty":7}"#, "\"kty\" is not a text"),
        ("7", "key 2 is not an object"),
    ] {
        let report = of(&[a.clone(), wrong.to_owned()]).unwrap_err();
        assert!(report.ends_with(why), "{report}");
    }
    for wrong in ["", "{}", "[]", r#"{"keys":1}"#, r#"{"keys":[],"keys":[]}"#] {
        assert!(JwtKeys::parse_set(wrong).is_err(), "{wrong}");
    }
    // Without a name, a token is verified only where one key fits.
    let other = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"b","x":"{}"}}"#, encode([8; 32]));
    let keys = of(&[a, other]).unwrap();
    let with = |header: &str| {
        verify(format!("{}.e30.AAAA", encode(header)).as_bytes(), &keys, &TokenDemands::default(), NOW)
    };
    assert_eq!(Err(TokenFault::UnknownKey), with(r#"{"alg":"EdDSA"}"#));
    assert_eq!(Err(TokenFault::UnknownKey), with(r#"{"alg":"EdDSA","kid":"c"}"#));
    assert_eq!(Err(TokenFault::Signature), with(r#"{"alg":"EdDSA","kid":"b"}"#));
}

#[test]
fn wrong_keys_are_named() {
    let report = |text: &str| JwtKeys::parse_pem(text).unwrap_err();
    assert!(report("").contains("not a PEM file"));
    let block = |label: &str, der: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            base64::engine::general_purpose::STANDARD.encode(der)
        )
    };
    assert!(report(&block("CERTIFICATE", b"x")).contains("openssl x509 -pubkey"));
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        assert!(report(&block(label, b"x")).contains("openssl pkey -pubout"), "{label}");
    }
    assert_eq!("its content is not a public key in DER", report(&block("PUBLIC KEY", b"\x30\x80")));
    let x25519 = [&[0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 3, 33, 0][..], &[1; 32]].concat();
    assert!(report(&block("PUBLIC KEY", &x25519)).contains("allowed: RSA, P-256, P-384 and Ed25519"));
    let report = JwtKeys::of_secret(&[7; 31]).unwrap_err();
    assert!(report.starts_with("the secret has 31 bytes, and HS256 needs 32 at least"), "{report}");
    let keys = JwtKeys::of_secret(&[b'k'; 48]).unwrap();
    assert_eq!(
        [true, true, false],
        [JwtAlgorithm::Hs256, JwtAlgorithm::Hs384, JwtAlgorithm::Hs512].map(|it| keys.fit(it))
    );
    assert!(!format!("{keys:?}").contains("107"), "{keys:?}");
}

/// The tokens of PyJWT stay valid however often they are verified. The figures: `cargo test --profile trial -p larder-wire --lib
/// tokens_of_another_issuer_are_valid -- --nocapture`.
#[test]
fn tokens_of_another_issuer_are_valid() {
    let made: serde_json::Value = serde_json::from_str(include_str!("../../tests/golden/jwt.json")).unwrap();
    for it in made["vectors"].as_array().unwrap() {
        let keys = match it["secret"].as_str() {
            Some(secret) => JwtKeys::of_secret(secret.as_bytes()).unwrap(),
            None => JwtKeys::parse_pem(it["pem"].as_str().unwrap()).unwrap(),
        };
        let token = it["token"].as_str().unwrap().as_bytes();
        let before = larder_stdx::clock::precise_micros();
        let count = if cfg!(debug_assertions) { 2 } else { 2000 };
        for _ in 0..count {
            assert!(verify(token, &keys, &TokenDemands::default(), NOW).is_ok());
        }
        let micros = larder_stdx::clock::precise_micros() - before;
        println!("{}: {} ns", it["alg"], micros * 1000 / count);
    }
}

proptest! {
    /// Every change of a byte of a valid token makes it invalid.
    #[test]
    fn a_changed_token_is_invalid(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut changed = token(r#"{"alg":"HS256"}"#, r#"{"exp":9999999999,"sub":"alice"}"#).into_bytes();
        let at = at.index(changed.len());
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        let keys = JwtKeys::of_secret(SECRET).unwrap();
        prop_assert!(verify(&changed, &keys, &TokenDemands::default(), NOW).is_err());
    }
}
