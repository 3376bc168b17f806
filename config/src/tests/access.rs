//! Credentials of a route: mistakes and warnings, with no secret in any of them.

use super::*;
use crate::access::SignedStyle;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The configuration of a route with these keys in `access`.
fn with(access: &str) -> Result<Config, Rejected> {
    read(&format!("{SITE}access = {{ {access} }}\n"))
}

#[track_caller]
fn wrong(access: &str, key: &str, expect: &str) {
    let found = with(access).map(drop).map_err(|it| it.to_string());
    assert_eq!(Err(format!("t.toml:6: site.route.access.{key}: {expect}")), found, "{access}");
}

/// The warnings about `access.jwt`.
fn warned(access: &str) -> Vec<String> {
    let config = with(access).unwrap();
    config.warnings.iter().map(ToString::to_string).collect()
}

/// A public key that was made for this test.
const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";

#[test]
fn a_limit_without_a_rate_is_refused() {
    let add = "has no effect without a rate; add access.limit.rate, such as \"5/s\"";
    for (limit, key) in [
        ("burst = 3", "burst"),
        ("by = \"network\"", "by"),
        ("by = \"network\", burst = 3", "burst"),
        ("burst = 3, concurrency = 2", "burst"),
    ] {
        wrong(&format!("limit = {{ {limit} }}"), "limit", &format!("{key} {add}"));
    }
    for limit in ["rate = \"5/s\", burst = 3, by = \"network\"", "concurrency = 2, by = \"network\""] {
        assert!(with(&format!("limit = {{ {limit} }}")).is_ok(), "{limit}");
    }
}

#[test]
fn mistakes_of_tokens() {
    let secret = format!("secret = \"{SECRET}\"");
    let has_effect = "no effect without a key; add access.jwt.secret, access.jwt.public_key, access.jwt.jwks_file or access.jwt.jwks_url";
    wrong("jwt = { issuer = \"a\" }", "jwt.issuer", &format!("issuer has {has_effect}"));
    wrong("jwt = { send = { X-User = \"sub\" } }", "jwt.send", &format!("send has {has_effect}"));
    wrong(
        "jwt = { secret = \"hunter2\" }",
        "jwt.secret",
        "the secret has 7 bytes, and HS256 needs 32 at least; make one with `openssl rand -hex 32`",
    );
    wrong(
        &format!("jwt = {{ {secret}, algorithms = [\"HS256\", \"HS512\"] }}"),
        "jwt.algorithms",
        "HS512 does not fit the key of access.jwt.secret; remove it, or use a longer secret (HS384: 48 bytes, HS512: 64)",
    );
    wrong(
        &format!("jwt = {{ {secret}, jwks_file = \"a\" }}"),
        "jwt.jwks_file",
        "both secret and jwks_file are set; keep one of them",
    );
    let missing = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("none.pem");
    let report = with("jwt = { public_key = \"none.pem\" }").unwrap_err().to_string();
    assert!(report.contains(&format!("access.jwt.public_key: {}: ", missing.display())), "{report}");
    for name in ["none", "ES512", "hs256"] {
        let report =
            with(&format!("jwt = {{ {secret}, algorithms = [\"{name}\"] }}")).unwrap_err().to_string();
        assert!(report.contains("\"ES384\" or \"EdDSA\""), "{report}");
    }
    for name in ["X_User", "X-Real-IP", "Host", "Cookie", "Authorization", "Connection"] {
        let report =
            with(&format!("jwt = {{ {secret}, send = {{ {name} = \"sub\" }} }}")).unwrap_err().to_string();
        assert!(report.contains(&format!("site.route.access.jwt.send: {name} cannot ")), "{report}");
    }
    let report =
        with(&format!("jwt = {{ {secret}, send = {{ X-User = \"sub\", x-user = \"name\" }} }}")).unwrap_err();
    assert!(report.to_string().contains("x-user occurs twice, in different cases"), "{report}");
    let users = "basic = { users = [\"a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\"] }";
    wrong(
        &format!("jwt = {{ {secret} }}, {users}"),
        "jwt",
        "a request has one Authorization field, for a password or for a token; set satisfy = \"any\", or access.jwt.header or \
         access.jwt.cookie",
    );
    for more in ["satisfy = \"any\", ", "jwt.cookie = \"t\", ", "jwt.header = \"X-Token\", "] {
        let text = format!("{}\n", with(&format!("jwt.{secret}, {more}{users}")).is_ok());
        assert_eq!("true\n", text, "{more}");
    }
    let report = with("limit = { rate = \"5/s\", by = \"jwt:sub\" }").unwrap_err().to_string();
    assert!(report.contains("a limit is judged before credentials"), "{report}");
}

#[test]
fn warnings_of_tokens() {
    let base = format!("jwt.secret = \"{SECRET}\"");
    let issuer = "tokens of every issuer that uses the key are accepted; add access.jwt.issuer";
    let clear = "tokens are sent in clear text: no address of listen has TLS; add one, such as \"https://0.0.0.0:443\", unless a \
                 proxy with TLS is in front";
    let literal = "the secret is in the text of the file; \"file:PATH\" or \"${NAME}\" keeps it out";
    let at = "t.toml:6: site.route.access.jwt";
    let [literal, issuer, clear] =
        [format!("{at}.secret: {literal}"), format!("{at}: {issuer}"), format!("{at}: {clear}")];
    assert_eq!(vec![literal.clone(), issuer, clear.clone()], warned(&base));
    assert_eq!(vec![literal, clear], warned(&format!("{base}, jwt.issuer = \"a\"")));
    let config = format!("{:?}", with(&base).unwrap());
    assert!(!config.contains(SECRET) && !config.contains("48, 49, 50"), "no secret is shown");
}

#[test]
fn the_key_contains_the_facts_of_a_client_that_origins_receive() {
    let key = |more: &str| {
        let jwt = format!("jwt = {{ secret = \"{SECRET}\", send = {{ X-User = \"sub\" }} }}{more}");
        with(&jwt).unwrap().sites[0].routes[0].cache.key.headers.clone()
    };
    assert!(key("").is_empty());
    assert_eq!(vec![":identity", "x-user"], key(", key = \"identity\""));
    assert_eq!(vec!["x-user"], key(", shared = true"));
}

#[test]
fn keys_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    std::fs::write(&file, PEM).unwrap();
    let access = format!("jwt = {{ public_key = {:?}, algorithms = \"EdDSA\" }}", file.display().to_string());
    let config = with(&access).unwrap();
    let jwt = config.sites[0].routes[0].access.jwt.as_ref().unwrap();
    assert_eq!((1, 30), (jwt.keys.iter().count(), jwt.demands.leeway));
    std::fs::write(&file, PEM.replace("PUBLIC", "PRIVATE")).unwrap();
    let report = with(&access).unwrap_err().to_string();
    assert!(report.contains("key.pem: it is a private key") && !report.contains("MCowBQ"), "{report}");
}

#[test]
fn mistakes_of_signed_urls() {
    let secret = format!("secret = \"{SECRET}\"");
    wrong(
        "signed = { style = \"nginx-md5\" }",
        "signed.style",
        "style has no effect without a secret; add access.signed.secret",
    );
    wrong(
        &format!("signed = {{ {secret}, expression = \"{{expires}}{{path}}{{secret}}\" }}"),
        "signed.expression",
        "expression has no effect without style = \"nginx-md5\"; add it, or remove the expression",
    );
    wrong(
        &format!("signed = {{ secret = [\"{SECRET}\", \"hunter2\"] }}"),
        "signed.secret",
        "a secret has 7 bytes, and a signature needs 32 at least; make one with `openssl rand -hex 32`",
    );
    let report =
        with("signed = { secret = \"a\", style = \"nginx-md5\", expression = \"{uri}\" }").unwrap_err();
    assert!(report.to_string().contains("\"{uri}\" is not a variable of it"), "{report}");
    // A signature does not identify a client.
    let identity = "has no effect without credentials that identify the client; add access.basic, access.jwt or access.forward";
    wrong(&format!("signed = {{ {secret} }}, key = \"identity\""), "key", &format!("key {identity}"));
    wrong(
        &format!("signed = {{ {secret} }}, shared = true"),
        "shared",
        "shared has no effect without rules for clients; add access.allow, access.basic, access.jwt or access.forward",
    );
    let md5 = with("signed = { secret = \"a\", style = \"nginx-md5\" }, satisfy = \"any\"").unwrap();
    let signed = md5.sites[0].routes[0].access.signed.clone().unwrap();
    assert!(matches!(signed.style, SignedStyle::NginxMd5(_)) && signed.names.signature == "md5");
}

#[test]
fn keys_of_a_url() {
    let (exposed, clear) = ("the keys are fetched without TLS", "tokens are sent in clear text");
    let of = |url: &str| format!("jwt = {{ issuer = \"i\", jwks_url = \"{url}\" }}");
    let has = |url: &str, text: &str| warned(&of(url)).iter().any(|it| it.contains(text));
    assert!(has("http://id.test/keys", exposed) && has("http://id.test/keys", clear));
    assert!(!has("http://127.0.0.1:8080/keys", exposed) && !has("https://id.test/keys", exposed));
    let jwt = with(&of("https://id.test/keys?p=1")).unwrap().sites[0].routes[0].access.jwt.clone().unwrap();
    let url = jwt.url.unwrap();
    assert_eq!(("https://id.test/keys", "/keys?p=1"), (url.name().as_str(), url.target.as_str()));
    wrong(
        "jwt = { jwks_url = \"id.test/keys\" }",
        "jwt.jwks_url",
        "found \"id.test/keys\"; allowed: a URL such as \"https://id.example.com/keys\"",
    );
    wrong(
        "jwt = { jwks_url = \"https://id.test/k\", algorithms = [\"HS256\"] }",
        "jwt.algorithms",
        "HS256 does not fit the key of access.jwt.jwks_url; remove it",
    );
    wrong(
        "jwt = { jwks_url = \"http://10.0.0.1/k\", ca = \"Cargo.toml\" }",
        "jwt.ca",
        "access.jwt.jwks_url does not use TLS; write \"https://\", or remove it",
    );
    let secret = format!("jwt = {{ secret = \"{SECRET}\", ca = \"Cargo.toml\" }}");
    wrong(&secret, "jwt.ca", "no effect without access.jwt.jwks_url; remove it");
}
