//! The claims of a verified token (RFC 7519 §4): the registered ones are judged here, the others are read by name.

use super::{JwtAlgorithm, TokenFault};
use serde_json::{Map, Value};

/// The demands on every token of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenDemands {
    /// The algorithms; empty for all that fit the key.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The issuers, of which a token has one; empty for any.
    pub issuers: Vec<String>,
    /// The audiences, of which a token names one; empty for any.
    pub audiences: Vec<String>,
    /// Seconds by which the clocks of issuer and verifier may differ.
    pub leeway: u32,
}

/// The claims of a token whose signature and times are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenClaims(Map<String, Value>);

impl TokenClaims {
    /// Judges the registered claims.
    pub(super) fn check(
        claims: Map<String, Value>,
        demands: &TokenDemands,
        now: u64,
    ) -> Result<Self, TokenFault> {
        #[allow(clippy::cast_precision_loss, reason = "seconds since 1970 are below 2^53 for a long time")]
        let (now, leeway) = (now as f64, f64::from(demands.leeway));
        let expires = number(&claims, "exp")?.ok_or(TokenFault::Claims)?;
        let begins = number(&claims, "nbf")?;
        number(&claims, "iat")?;
        let (issuer, _) = (text(&claims, "iss")?, text(&claims, "sub")?);
        let audiences = audiences(&claims)?;
        // The time of `exp` itself is too late (RFC 7519 §4.1.4).
        if now >= expires + leeway {
            return Err(TokenFault::Expired);
        }
        if begins.is_some_and(|it| now + leeway < it) {
            return Err(TokenFault::Early);
        }
        let is_one = |all: &[String], it: &str| all.iter().any(|one| one == it);
        if !demands.issuers.is_empty() && !issuer.is_some_and(|it| is_one(&demands.issuers, it)) {
            return Err(TokenFault::Issuer);
        }
        if !demands.audiences.is_empty() && !audiences.iter().any(|it| is_one(&demands.audiences, it)) {
            return Err(TokenFault::Audience);
        }
        Ok(Self(claims))
    }

    /// The value of a claim: that of its whole name, otherwise that of a path through objects (`realm_access.roles`).
    fn find(&self, name: &str) -> Option<&Value> {
        let by_path = || {
            let (first, rest) = name.split_once('.')?;
            rest.split('.').try_fold(self.0.get(first)?, |it, name| it.as_object()?.get(name))
        };
        self.0.get(name).or_else(by_path)
    }

    /// Whether a claim is `value` or an array with it. `scope` and `scp` are also lists with spaces (RFC 8693 §4.2).
    #[must_use]
    pub fn has(&self, name: &str, value: &str) -> bool {
        let is_it = |it: &Value| scalar(it).is_some_and(|it| it == value);
        match self.find(name) {
            Some(Value::Array(all)) => all.iter().any(is_it),
            Some(Value::String(it)) if matches!(name, "scope" | "scp") => it.split(' ').any(|it| it == value),
            Some(it) => is_it(it),
            None => false,
        }
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.get("iss").and_then(Value::as_str)
    }

    /// The subject, if it is not empty.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.get("sub").and_then(Value::as_str).filter(|it| !it.is_empty())
    }

    /// A claim as the value of a field; the members of an array are separated by commas. `None` if it is absent, an object, or
    /// a text that a field would change: control characters, spaces at an end, a comma in a member.
    #[must_use]
    pub fn field_value(&self, name: &str) -> Option<String> {
        let text = match self.find(name)? {
            Value::Array(all) => {
                let all: Vec<_> = all.iter().map(scalar).collect::<Option<_>>()?;
                if all.iter().any(|it| it.contains(',') || it.trim() != it || it.is_empty()) {
                    return None;
                }
                all.join(",")
            }
            it => scalar(it)?,
        };
        let fits = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
        fits.then_some(text)
    }
}

/// The text of a value that is neither an array nor an object.
fn scalar(it: &Value) -> Option<String> {
    match it {
        Value::String(it) => Some(it.clone()),
        Value::Bool(_) | Value::Number(_) => Some(it.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A NumericDate. A text is refused: verifiers that skipped it admitted expired tokens (CVE-2026-25537).
fn number(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, TokenFault> {
    match claims.get(name) {
        None => Ok(None),
        Some(it) => it.as_f64().map(Some).ok_or(TokenFault::Claims),
    }
}

fn text<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<Option<&'c str>, TokenFault> {
    match claims.get(name) {
        None => Ok(None),
        Some(it) => it.as_str().map(Some).ok_or(TokenFault::Claims),
    }
}

/// One text, or an array of texts (RFC 7519 §4.1.3).
fn audiences(claims: &Map<String, Value>) -> Result<Vec<&str>, TokenFault> {
    match claims.get("aud") {
        None => Ok(Vec::new()),
        Some(Value::String(it)) => Ok(vec![it]),
        Some(Value::Array(all)) => {
            all.iter().map(|it| it.as_str().ok_or(TokenFault::Claims)).collect::<Result<_, _>>()
        }
        Some(_) => Err(TokenFault::Claims),
    }
}
