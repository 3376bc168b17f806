//! What an overlay lies over: one target, on every host or on one. How a person writes it, and how a request matches.

use larder_semantics::target::encoded;
use std::fmt;

/// Bytes of a URI at most: no head has a longer target, with the limits as they are.
const LONGEST: usize = 8 << 10;

/// A target with the host that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayTarget {
    /// In lower case and without `:80`, as in keys; `None` for every host.
    pub host: Option<String>,
    /// Path and query, as `semantics::target` spells them.
    pub target: String,
}

impl OverlayTarget {
    /// Reads `/path?query` (on every host), `http://host/path`, `https://host/path`, `*://host/path` or `host/path`: each of
    /// them is that host by whatever scheme. What does not begin with a slash has a host
    /// where its first part looks like one (it has a dot or a colon, or is `localhost`) and something follows; else it is
    /// a path without its slash.
    ///
    /// # Errors
    /// One sentence: what is wrong with it.
    pub fn read(uri: &str) -> Result<Self, String> {
        let uri = uri.split('#').next().unwrap_or(uri);
        if uri.len() > LONGEST {
            return Err(format!("The URI exceeds {LONGEST} bytes, the maximum of a request target."));
        }
        let bad = |why: &str| {
            Err(format!(
                "{uri:?} {why}; write /PATH for every host, or http://HOST/PATH for one host and both schemes."
            ))
        };
        if uri.is_empty() {
            return bad("has no path");
        }
        if is_pattern(uri) {
            return Err(format!(
                "{uri:?} is a pattern; an overlay covers one URI, so set one for each URI without `*`."
            ));
        }
        if uri.starts_with('/') {
            return Ok(Self { host: None, target: encoded(uri) });
        }
        let (rest, is_url) = match uri.split_once("://") {
            Some((scheme, rest))
                if ["http", "https", "*"].iter().any(|it| scheme.eq_ignore_ascii_case(it)) =>
            {
                (rest, true)
            }
            Some((scheme, _)) if scheme.bytes().all(|it| it.is_ascii_alphanumeric()) => {
                return bad("is not a URL of this server");
            }
            _ => (uri, false),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(at);
        let looks = host.contains(['.', ':']) || host.eq_ignore_ascii_case("localhost");
        if !is_url && (target.is_empty() || !looks) {
            return Ok(Self { host: None, target: encoded(&format!("/{uri}")) });
        }
        let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~:[]".contains(&it);
        if host.is_empty() || !host.bytes().all(plain) {
            return bad("has no valid host");
        }
        let lower = host.to_ascii_lowercase();
        let of_tls = uri.get(..6).is_some_and(|it| it.eq_ignore_ascii_case("https:"));
        let port = if of_tls { ":443" } else { ":80" };
        // A port that is not written is that of the scheme, too.
        let host = lower.strip_suffix(port).or_else(|| lower.strip_suffix(':')).unwrap_or(&lower).to_owned();
        if host.is_empty() {
            return bad("has no valid host");
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { host: Some(host), target: encoded(&format!("{slash}{target}")) })
    }

    /// Whether it is of a request with this authority.
    pub fn is_of(&self, authority: &str) -> bool {
        let authority = authority.strip_suffix(":80").unwrap_or(authority);
        self.host.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(authority))
    }
}

impl fmt::Display for OverlayTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            // It lies over both schemes.
            Some(host) => write!(out, "*://{host}{}", self.target),
            None => out.write_str(&self.target),
        }
    }
}

/// Whether `*` stands in the path or host, or is the whole query. A request's path may have one, but an operator who writes it
/// means every page; the `*` of the scheme is how a place is told.
fn is_pattern(uri: &str) -> bool {
    let uri = uri.strip_prefix("*://").unwrap_or(uri);
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    path.contains('*') || query == "*"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expect: &str) {
        let place = OverlayTarget::read(uri).unwrap();
        assert_eq!(expect, place.to_string(), "{uri}");
        assert_eq!(Ok(place), OverlayTarget::read(expect), "read again, it is the same");
    }

    #[test]
    fn a_place_is_a_target_and_perhaps_a_host() {
        check("/", "/");
        check("/a/b?c=d", "/a/b?c=d");
        check("//evil.example/x", "//evil.example/x");
        check("/a b|c#part", "/a%20b%7Cc");
        check("http://Example.COM:80/A?b", "*://example.com/A?b");
        check("HTTPS://h/x", "*://h/x");
        check("https://h:443/x", "*://h/x");
        check("http://h:/x", "*://h/x");
        check("http://h:443/x", "*://h:443/x");
        check("*://h/x", "*://h/x");
        check("http://h", "*://h/");
        check("http://h?q", "*://h/?q");
        check("example.com/a", "*://example.com/a");
        check("localhost/a", "*://localhost/a");
        check("h:8080/a", "*://h:8080/a");
        check("[::1]:80/a", "*://[::1]/a");
        check("index.html", "/index.html");
        check("css/a.css", "/css/a.css");
    }

    #[test]
    fn what_names_nothing_is_refused() {
        let check = |uri: &str, expect: &str| {
            let sentence = OverlayTarget::read(uri).unwrap_err();
            assert!(sentence.contains(expect), "{uri}: {sentence}");
        };
        check("", "has no path");
        check("#top", "has no path");
        check("ftp://h/x", "is not a URL of this server");
        check("http:///x", "has no valid host");
        check("http://a@b/x", "has no valid host");
        check("http://:80/x", "has no valid host");
        check(&"/a".repeat(5000), "exceeds 8192 bytes");
    }

    #[test]
    fn a_host_is_that_of_keys() {
        let place = OverlayTarget::read("http://Example.com:80/").unwrap();
        for authority in ["example.com", "EXAMPLE.com", "example.com:80"] {
            assert!(place.is_of(authority), "{authority}");
        }
        for authority in ["example.com:8080", "www.example.com", ""] {
            assert!(!place.is_of(authority), "{authority}");
        }
        assert!(OverlayTarget::read("/").unwrap().is_of("whatever"));
    }
}
