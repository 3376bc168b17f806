//! Tokens of a route, checked: `access.jwt`.

use crate::include::read_text;
use crate::member::{MemberProtocol, OriginMember};
use larder_wire::jwt::{JwtKeys, TokenDemands};
use std::net::IpAddr;
use std::path::PathBuf;

/// The largest file of keys, bytes.
const LARGEST: u64 = 1 << 20;

/// The demands on tokens, and their effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// The keys, as read with the configuration; empty if they are fetched.
    pub keys: JwtKeys,
    /// The file that they are from, if they are from one.
    pub file: Option<KeyFile>,
    /// The URL that they are fetched from, if they are.
    pub url: Option<KeyUrl>,
    /// Algorithms, issuers, audiences, leeway.
    pub demands: TokenDemands,
    /// The field with the token.
    pub header: String,
    /// The cookie with the token.
    pub cookie: Option<String>,
    /// Claims with the values that they must have.
    pub claims: Vec<(String, String)>,
    /// Fields for the origin, with the claims that are their values.
    pub send: Vec<(String, String)>,
}

impl JwtConfig {
    /// Whether the token is in `Authorization`.
    #[must_use]
    pub fn is_in_authorization(&self) -> bool {
        self.header.eq_ignore_ascii_case("authorization")
    }
}

/// A file of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// Its path.
    pub path: PathBuf,
    /// Its form.
    pub form: KeyFileForm,
}

/// The form of a file of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFileForm {
    /// One public key in PEM.
    Pem,
    /// A JSON Web Key Set.
    Set,
}

impl KeyFile {
    /// Reads the keys.
    ///
    /// # Errors
    /// The mistake and the remedy, as one sentence that repeats nothing of a key.
    pub fn read(&self) -> Result<JwtKeys, String> {
        let text = read_text(&self.path, LARGEST)?;
        match self.form {
            KeyFileForm::Pem => JwtKeys::parse_pem(&text),
            KeyFileForm::Set => JwtKeys::parse_set(&text),
        }
    }
}

/// The URL of the keys of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUrl {
    /// The server.
    pub from: OriginMember,
    /// Path and query.
    pub target: String,
    /// The file of its trusted certificates; `None` for those of the system.
    pub ca: Option<PathBuf>,
}

impl KeyUrl {
    /// The allowed form, as the end of a sentence.
    pub const ALLOWED: &str = "a URL such as \"https://id.example.com/keys\"";

    /// Parses `https://HOST[:PORT]/PATH`, optionally with a query; also `http://`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://").filter(|it| matches!(it.0, "http" | "https"))?;
        let (at, end) = (scheme.len() + 3, rest.find(['/', '?', '#'])?);
        let target = &rest[end..];
        let is_target = target.starts_with('/')
            && target.bytes().all(|it| it.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&it));
        let server = &text[..at + end];
        let from = OriginMember::parse(server).ok().filter(|_| is_target && !server.contains(['@', ' ']))?;
        Some(Self { from, target: target.to_owned(), ca: None })
    }

    /// The URL without its query, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.url().split('?').next().unwrap_or_default().to_owned()
    }

    /// The whole URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.from.scheme == MemberProtocol::Https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.from.authority(), self.target)
    }

    /// Whether the keys come without TLS from beyond the local network, as far as the address says.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let host = self.from.host();
        let is_near = match host.parse::<IpAddr>().map(|it| it.to_canonical()) {
            Ok(IpAddr::V4(it)) => it.is_loopback() || it.is_private() || it.is_link_local(),
            Ok(IpAddr::V6(it)) => it.is_loopback() || it.is_unique_local() || it.is_unicast_link_local(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        };
        self.from.scheme != MemberProtocol::Https && !is_near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_keys() {
        #[track_caller]
        fn check(text: &str, expect: Option<(&str, &str, bool)>) {
            let found = KeyUrl::parse(text);
            let found = found.map(|it| (it.name(), it.target.clone(), it.is_exposed()));
            assert_eq!(expect.map(|it| (it.0.to_owned(), it.1.to_owned(), it.2)), found, "{text}");
        }
        check(
            "https://id.test/.well-known/jwks.json",
            Some(("https://id.test/.well-known/jwks.json", "/.well-known/jwks.json", false)),
        );
        check("https://id.test:8443/keys?p=a", Some(("https://id.test:8443/keys", "/keys?p=a", false)));
        check("http://id.test/k", Some(("http://id.test/k", "/k", true)));
        check("http://203.0.113.9/k", Some(("http://203.0.113.9/k", "/k", true)));
        for near in
            ["http://127.0.0.1:8080/k", "http://10.1.2.3/k", "http://[::1]:80/k", "http://localhost:8080/k"]
        {
            assert!(!KeyUrl::parse(near).unwrap().is_exposed(), "{near}");
        }
        for wrong in [
            "",
            "id.test/k",
            "https://id.test",
            "https://id.test/#k",
            "https://a:b@id.test/k",
            "https://id.test/a b",
            "ftp://id.test/k",
            "https://id.test weight=2/k",
            "https:///k",
            "h2c://id.test/k",
            "https://id.test/\u{e4}",
            "https://id.test/\r\nx",
        ] {
            check(wrong, None);
        }
    }
}
