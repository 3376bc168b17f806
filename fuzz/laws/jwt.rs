//! Laws for any bytes in place of a token, or of a file of keys. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::jwt::{JwtKeys, TokenDemands, verify};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let Ok(keys) = JwtKeys::of_secret(b"a secret of which the fuzzer has nothing") else { return };
    assert!(verify(raw, &keys, &TokenDemands::default(), 0).is_err(), "nothing is valid without the secret");
    let Ok(text) = std::str::from_utf8(raw) else { return };
    for keys in [JwtKeys::parse_set(text), JwtKeys::parse_pem(text)].into_iter().flatten() {
        assert!((1..=64).contains(&keys.iter().count()));
        assert!(!format!("{keys:?}").contains("Secret"));
    }
}
