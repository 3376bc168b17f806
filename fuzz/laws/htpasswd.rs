//! Laws for any bytes in place of a password file. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::htpasswd::PasswordEntry;

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let Ok(text) = std::str::from_utf8(raw) else { return };
    match PasswordEntry::parse_file(text) {
        Ok(users) => {
            for it in users {
                assert_eq!(Ok(&it), PasswordEntry::parse(&format!("{}:{}", it.user, it.hash)).as_ref());
            }
        }
        Err(it) => assert!((1..=text.lines().count()).contains(&it.line)),
    }
}
