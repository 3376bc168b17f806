//! JSON Web Tokens (RFC 7519) in the compact form of RFC 7515: verification by configured keys. The key determines the
//! algorithm; a token only selects one of those that its key has. Files of keys are in `keys`.

mod claims;
mod json;
mod keys;

pub use claims::{TokenClaims, TokenDemands};
pub use keys::{JwtAlgorithm, JwtKeys, VerificationKey};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The longest token, bytes.
pub const MOST: usize = 8192;

/// The reason for which a token is invalid. It is for the log, never for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It is not three parts of base64url with JSON in them, or too long.
    Malformed,
    /// Its header has `crit`, a `b64` other than true, or a key or the address of a key.
    Header,
    /// Its algorithm is not one that the keys and the configuration allow.
    Algorithm,
    /// No key has its `kid`, or it has none where several keys fit.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// A registered claim has the wrong type, or `exp` is absent.
    Claims,
    /// `exp` has passed.
    Expired,
    /// `nbf` has not come.
    Early,
    /// `iss` is not the configured one.
    Issuer,
    /// `aud` has none of the configured members.
    Audience,
}

impl TokenFault {
    /// The reason, for the log.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            TokenFault::Malformed => "it is not a signed token in the compact form, or longer than 8 KiB",
            TokenFault::Header => "its header has crit, b64, jku, x5u or jwk",
            TokenFault::Algorithm => "its algorithm does not fit the key",
            TokenFault::UnknownKey => "its kid selects no key",
            TokenFault::Signature => "its signature is wrong",
            TokenFault::Claims => {
                "a claim has the wrong type, or exp is missing: exp, nbf and iat are numbers, iss and sub texts"
            }
            TokenFault::Expired => "it has expired (exp)",
            TokenFault::Early => "it is not valid yet (nbf)",
            TokenFault::Issuer => "its issuer (iss) is another one",
            TokenFault::Audience => "its audience (aud) is another one",
        }
    }
}

/// Verifies a token; `now` is in seconds since 1970.
///
/// # Errors
/// The first fault. The claims are not parsed before the signature is verified.
pub fn verify(
    token: &[u8],
    keys: &JwtKeys,
    demands: &TokenDemands,
    now: u64,
) -> Result<TokenClaims, TokenFault> {
    verify_by(token, keys, demands, now, VerificationKey::verifies)
}

/// The same for a token whose signature was verified by the same keys before: only the rest of it is judged.
///
/// # Errors
/// The first fault.
pub fn verify_again(
    token: &[u8],
    keys: &JwtKeys,
    demands: &TokenDemands,
    now: u64,
) -> Result<TokenClaims, TokenFault> {
    verify_by(token, keys, demands, now, |_, _, _, _| true)
}

fn verify_by(
    token: &[u8],
    keys: &JwtKeys,
    demands: &TokenDemands,
    now: u64,
    verifies: impl Fn(&VerificationKey, JwtAlgorithm, &[u8], &[u8]) -> bool,
) -> Result<TokenClaims, TokenFault> {
    if token.len() > MOST {
        return Err(TokenFault::Malformed);
    }
    let mut parts = token.split(|it| *it == b'.');
    let (Some(header), Some(payload), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenFault::Malformed);
    };
    let key = select(&object(header).ok_or(TokenFault::Malformed)?, keys, demands)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Malformed)?;
    let signed = &token[..header.len() + 1 + payload.len()];
    if !verifies(key.0, key.1, signed, &signature) {
        return Err(TokenFault::Signature);
    }
    let claims = object(payload).ok_or(TokenFault::Malformed)?;
    TokenClaims::check(claims, demands, now)
}

/// The key and the algorithm of a token.
fn select<'k>(
    header: &Map<String, Value>,
    keys: &'k JwtKeys,
    demands: &TokenDemands,
) -> Result<(&'k VerificationKey, JwtAlgorithm), TokenFault> {
    if ["crit", "jku", "x5u", "jwk"].iter().any(|it| header.contains_key(*it)) {
        return Err(TokenFault::Header);
    }
    // RFC 7797 §6: `crit` has to name it, so that a reader that does not know it rejects the token.
    if header.get("b64").is_some_and(|it| *it != Value::Bool(true)) {
        return Err(TokenFault::Header);
    }
    let algorithm = header.get("alg").and_then(Value::as_str).and_then(JwtAlgorithm::parse);
    let algorithm = algorithm.filter(|it| demands.algorithms.is_empty() || demands.algorithms.contains(it));
    let algorithm = algorithm.ok_or(TokenFault::Algorithm)?;
    let kid = match header.get("kid") {
        None => None,
        Some(Value::String(it)) => Some(it.as_str()),
        Some(_) => return Err(TokenFault::Malformed),
    };
    let mut fitting = keys.iter().filter(|it| it.fits(algorithm)).peekable();
    if fitting.peek().is_none() {
        return Err(TokenFault::Algorithm);
    }
    // A key without a name is the only one of its file, and takes any name.
    let mut named = fitting.filter(|it| kid.is_none() || it.kid.is_none() || it.kid.as_deref() == kid);
    match (named.next(), named.next()) {
        (Some(it), None) => Ok((it, algorithm)),
        _ => Err(TokenFault::UnknownKey),
    }
}

/// The JSON object in a part of a token.
fn object(part: &[u8]) -> Option<Map<String, Value>> {
    json::object(&URL_SAFE_NO_PAD.decode(part).ok()?)
}

#[cfg(test)]
mod tests;
