//! The target of an overlay: one target, on every host or on one. Its notation, and the matching of requests.

use larder_config::page_url::{self, BareWord};
use std::fmt;

/// The most bytes of a URI: no head has a longer target, with the current limits.
const LONGEST: usize = 8 << 10;

/// A target with its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayTarget {
    /// In lower case and without `:80`, as in keys; `None` for every host.
    pub host: Option<String>,
    /// Path and query, as clients send them.
    pub target: String,
}

impl OverlayTarget {
    /// Parses a URI as [`page_url::overlay`] does.
    ///
    /// # Errors
    /// One sentence with the error.
    pub fn read(uri: &str, bare: BareWord) -> Result<Self, String> {
        if uri.len() > LONGEST {
            return Err(format!("The URI exceeds {LONGEST} bytes, the maximum of a request target."));
        }
        let (host, target) = page_url::overlay(uri, bare)?;
        Ok(Self { host, target })
    }

    /// Whether it applies to a request with this authority.
    pub fn is_of(&self, authority: &str) -> bool {
        let authority = authority.strip_suffix(":80").unwrap_or(authority);
        self.host.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(authority))
    }
}

impl fmt::Display for OverlayTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            // It applies to both schemes.
            Some(host) => write!(out, "*://{host}{}", self.target),
            None => out.write_str(&self.target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expect: &str) {
        let place = OverlayTarget::read(uri, BareWord::IsRefused).unwrap();
        assert_eq!(expect, place.to_string(), "{uri}");
        assert_eq!(Ok(place), OverlayTarget::read(expect, BareWord::IsRefused), "read again, it is the same");
    }

    #[test]
    fn a_place_is_a_target_and_perhaps_a_host() {
        check("/", "/");
        check("/a/b?c=d", "/a/b?c=d");
        check("//evil.example/x", "//evil.example/x");
        check("/a b|c#part", "/a%20b|c");
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
    }

    /// As in the older plugin: the text after `/cache/add/` is a path.
    #[test]
    fn a_bare_word_is_a_path_only_after_the_plugin_path() {
        for (uri, expect) in [
            ("index.html", "/index.html"),
            ("css/a.css", "/css/a.css"),
            ("shop", "/shop"),
            ("a?b=/c", "/a?b=/c"),
        ] {
            let found = OverlayTarget::read(uri, BareWord::IsPath).map(|it| it.to_string());
            assert_eq!(Ok(expect.to_owned()), found);
            let refused = OverlayTarget::read(uri, BareWord::IsRefused).unwrap_err();
            assert!(refused.contains("is ambiguous: host or path; write /PATH for every host"), "{refused}");
        }
        let hosted = OverlayTarget::read("h.example/a", BareWord::IsPath).map(|it| it.to_string());
        assert_eq!(Ok("*://h.example/a".to_owned()), hosted);
    }

    #[test]
    fn a_uri_that_names_no_page_is_rejected() {
        let check = |uri: &str, expect: &str| {
            let sentence = OverlayTarget::read(uri, BareWord::IsRefused).unwrap_err();
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
        let place = OverlayTarget::read("http://Example.com:80/", BareWord::IsRefused).unwrap();
        for authority in ["example.com", "EXAMPLE.com", "example.com:80"] {
            assert!(place.is_of(authority), "{authority}");
        }
        for authority in ["example.com:8080", "www.example.com", ""] {
            assert!(!place.is_of(authority), "{authority}");
        }
        assert!(OverlayTarget::read("/", BareWord::IsRefused).unwrap().is_of("whatever"));
    }
}
