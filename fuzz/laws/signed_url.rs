//! Laws for any bytes in place of the target of a request with a signed URL. Run by the fuzzer, and with small inputs as a test
//! of `wire`.

use larder_wire::signed_url::{SignOptions, SignedFault, SignedNames, SignedRequest, sign, stripped, verify};

const SECRET: &[u8] = b"a secret of which the fuzzer has nothing";

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let Ok(target) = std::str::from_utf8(raw) else { return };
    let names = SignedNames::after("");
    let of = |target| SignedRequest { method: "GET", host: "h", target, client: None };
    assert!(verify(&of(target), &names, &[SECRET], 0).is_err(), "nothing is valid without the secret");
    if let Some(rest) = stripped(target, &names) {
        assert!(rest.len() < target.len() && stripped(&rest, &names).is_none());
    }
    let options = SignOptions { expires: 7, ..SignOptions::default() };
    if let Ok(signed) = sign("h", target, &names, SECRET, &options) {
        assert_eq!(Ok(()), verify(&of(&signed), &names, &[SECRET], 6), "{signed}");
        assert_eq!(Err(SignedFault::Expired), verify(&of(&signed), &names, &[SECRET], 7));
        // A query without anything in it is dropped.
        let expect = target.split_once('?').filter(|it| it.1.is_empty()).map_or(target, |it| it.0);
        assert_eq!(expect, stripped(&signed, &names).unwrap_or_default());
    }
}
