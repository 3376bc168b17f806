//! The URL of a page, or a prefix of URLs, as typed by an operator: a whole URL, or a path and its host. The route is not
//! determined here.

use larder_semantics::key;
use larder_semantics::scheme::Scheme;
use larder_semantics::target::{is_malformed, typed};
use larder_wire::message::is_authority;

/// The notation of a host and a condition in error messages: flags of a command, or members of a request to the API.
struct Spelling {
    host: &'static str,
    condition: &'static str,
}

const FLAGS: Spelling = Spelling { host: "--host", condition: "--where" };
const MEMBERS: Spelling = Spelling { host: "\"host\"", condition: "\"where\"" };

/// Whether a URL, or a prefix if `begins`, is valid in any configuration. The messages are for the command line.
///
/// # Errors
/// It is not.
pub fn readable(text: &str, host: Option<&str>, begins: bool) -> Result<(), String> {
    match begins {
        true => beginning_as(text, host, &FLAGS).map(drop),
        false => page_as(text, host, &FLAGS).map(drop),
    }
}

/// The meaning of an overlay's URI that begins neither with a slash nor with a scheme, and whose first part is not clearly a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareWord {
    /// An error: it could be a host as well as a path.
    IsRefused,
    /// A path without its slash, as after `/cache/add/`.
    IsPath,
}

/// The URI of an overlay: its host in lower case and without the scheme's port, `None` for every host; and its target. Forms:
/// `/path?query`, `http://host/path`, `https://host/path`, `*://host/path`, and `host/path` if the host has a dot or a colon or is
/// `localhost`.
///
/// # Errors
/// One sentence: it is empty, a pattern, no URL of this server, or could be a host as well as a path.
pub fn overlay(text: &str, bare: BareWord) -> Result<(Option<String>, String), String> {
    let forms = "write /PATH for every host, or http://HOST/PATH for one host and both schemes";
    let bad = |why: &str| Err(format!("{text:?} {why}; {forms}."));
    let uri = text.split('#').next().unwrap_or(text);
    if uri.is_empty() {
        return bad("has no path");
    }
    if is_pattern(uri) {
        return Err(format!(
            "{text:?} is a pattern; an overlay covers one URI, so set one for each URI without `*`."
        ));
    }
    if uri.starts_with('/') {
        return Ok((None, stored_target(uri, text)?));
    }
    let (rest, is_url) = match uri.split_once("://") {
        Some((scheme, rest)) if ["http", "https", "*"].iter().any(|it| scheme.eq_ignore_ascii_case(it)) => {
            (rest, true)
        }
        Some((scheme, _)) if scheme.bytes().all(|it| it.is_ascii_alphanumeric()) => {
            return bad("is not a URL of this server");
        }
        _ => (uri, false),
    };
    let (host, target) = rest.split_at(host_end(rest));
    let has_host = is_url || (target.starts_with('/') && is_clearly_host(host));
    if !has_host {
        return match bare {
            BareWord::IsRefused => bad("is ambiguous: host or path"),
            BareWord::IsPath => Ok((None, stored_target(&format!("/{uri}"), text)?)),
        };
    }
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~:[]".contains(&it);
    let lower = host.to_ascii_lowercase();
    let of_tls = uri.get(..6).is_some_and(|it| it.eq_ignore_ascii_case("https:"));
    let port = if of_tls { ":443" } else { ":80" };
    // A port that is not written is that of the scheme, too.
    let named = lower.strip_suffix(port).or_else(|| lower.strip_suffix(':')).unwrap_or(&lower);
    if named.is_empty() || !host.bytes().all(plain) {
        return bad("has no valid host");
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok((Some(named.to_owned()), stored_target(&format!("{slash}{target}"), text)?))
}

/// Whether `*` stands in the path or host, or is the whole query. A request's path may have one, but an operator who writes it
/// means every page; the `*` of the scheme is how an overlay is listed.
fn is_pattern(uri: &str) -> bool {
    let uri = uri.strip_prefix("*://").unwrap_or(uri);
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    path.contains('*') || query == "*"
}

fn host_end(text: &str) -> usize {
    text.find(['/', '?', '#']).unwrap_or(text.len())
}

/// Whether the part before the first slash is a host; any other word is as likely the first part of a path.
fn is_clearly_host(word: &str) -> bool {
    word.contains(['.', ':']) || word.eq_ignore_ascii_case("localhost")
}

/// The beginning of the URLs of a prefix: scheme, authority as in keys, and target.
///
/// # Errors
/// One sentence: it is a pattern, or not the beginning of a URL.
pub fn beginning(text: &str, host: Option<&str>) -> Result<(Scheme, String, String), String> {
    beginning_as(text, host, &MEMBERS)
}

fn beginning_as(
    text: &str,
    host: Option<&str>,
    spelt: &Spelling,
) -> Result<(Scheme, String, String), String> {
    let text = text.trim();
    let start = text.strip_suffix('*').unwrap_or(text);
    if start.contains('*') {
        return Err(format!(
            "{text:?} is a pattern, not a prefix; write it up to the first `*`, or use {} with a condition such as \
             path ~ \"^/a/.*/b\".",
            spelt.condition
        ));
    }
    // A word without a dot may be a path with a missing slash.
    let word = &start[..host_end(start)];
    if !word.is_empty() && !is_clearly_host(word) {
        return Err(format!(
            "{text:?} is ambiguous: host or path; write http://{word}/ for a whole host, or /{start} with {}.",
            spelt.host
        ));
    }
    split(start, host, spelt)
}

/// The URL of one page: scheme, authority as in keys, and target.
///
/// # Errors
/// One sentence: it is a pattern, or not the URL of a page.
pub fn page(text: &str, host: Option<&str>) -> Result<(Scheme, String, String), String> {
    page_as(text, host, &MEMBERS)
}

fn page_as(text: &str, host: Option<&str>, spelt: &Spelling) -> Result<(Scheme, String, String), String> {
    let text = text.trim();
    // A page has a path, at least `/`: `x` may be a page with a missing slash.
    if let Some((_, after)) = text.split_at_checked(host_end(text))
        && !text.is_empty()
        && !after.starts_with('/')
    {
        return Err(format!(
            "{text:?} is ambiguous: host or path; write http://HOST/PATH, or /PATH with {}.",
            spelt.host
        ));
    }
    if text.split('?').next().is_some_and(|it| it.contains('*')) {
        return Err(format!(
            "{text:?} is a pattern, not a URL; purge by prefix, or use {} with a condition such as path == \"/a*\" \
             if the name contains the `*`.",
            spelt.condition
        ));
    }
    split(text, host, spelt)
}

/// Scheme, authority as in keys, and target. `http` without a scheme; rules apply to both, with the port of either. Upper
/// case, a default port, a fragment, spaces and non-ASCII letters are treated as by a browser.
///
/// # Errors
/// One sentence: the error, and a valid form.
fn split(text: &str, host: Option<&str>, spelt: &Spelling) -> Result<(Scheme, String, String), String> {
    let text = text.trim();
    let after_scheme =
        Scheme::split(text).or_else(|| text.strip_prefix("//").map(|it| (Scheme::default(), it)));
    if let (None, Some((scheme, _))) = (after_scheme, text.split_once("://"))
        && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it))
    {
        return Err(format!("{text:?} has a scheme that this server does not use; write http://HOST/PATH."));
    }
    let (scheme, rest) = after_scheme.unwrap_or((Scheme::default(), text));
    let rest = rest.split('#').next().unwrap_or(rest);
    let cut = rest.find(['/', '?']).unwrap_or(rest.len());
    let (named, target) = rest.split_at(cut);
    let named = match (named, host) {
        ("", Some(host)) => host.trim(),
        ("", None) => {
            return Err(format!("{text:?} has no host; write http://HOST/PATH, or add {}.", spelt.host));
        }
        (named, Some(host)) if !named.eq_ignore_ascii_case(host.trim()) => {
            return Err(format!("{text:?} has a different host than {host:?}."));
        }
        (named, _) => named,
    };
    if !is_authority(named.as_bytes()) {
        return Err(format!("{named:?} is not a host; write http://HOST/PATH."));
    }
    let mut authority = String::new();
    key::authority(scheme.name(), named, &mut authority);
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok((scheme, authority, stored_target(&format!("{slash}{target}"), text)?))
}

/// The target under which a page that an operator named is stored, which is what clients send.
///
/// # Errors
/// Nothing is stored under it.
fn stored_target(target: &str, text: &str) -> Result<String, String> {
    match is_malformed(target) {
        true => Err(format!(
            "{text:?} has one of \", <, > and \\, or a % without two hexadecimal digits; nothing is stored under such \
             a URL (percent-encode the character)."
        )),
        false => Ok(typed(target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, host: Option<&str>, expect: Result<(&str, &str), &str>) {
        let found = split(text, host, &MEMBERS).map(|it| (it.1, it.2));
        let expect = expect.map(|it| (it.0.to_owned(), it.1.to_owned())).map_err(str::to_owned);
        assert_eq!(expect, found, "{text}");
    }

    #[test]
    fn forms_that_people_type() {
        for text in [
            "http://h/a",
            "https://h/a",
            "HTTP://H:80/a",
            "HTTPS://H:443/a",
            "//h/a",
            "h/a",
            " h/a ",
            "h/a#top",
            "h:080/a",
        ] {
            check(text, None, Ok(("h", "/a")));
        }
        check("h", None, Ok(("h", "/")));
        check("h?q=1", None, Ok(("h", "/?q=1")));
        check("h:8080/a?b#c", None, Ok(("h:8080", "/a?b")));
        check("[::1]:8080/", None, Ok(("[::1]:8080", "/")));
        check("/a", Some("h"), Ok(("h", "/a")));
        check("h/a", Some("H"), Ok(("h", "/a")));
        check("h/a b/ü", None, Ok(("h", "/a%20b/%C3%BC")));
        check("h/a|b?c[]=%7C", None, Ok(("h", "/a|b?c[]=%7C")));
        for target in ["a%zz", "a\"", "<a>", "a\\b"] {
            let text = format!("h/{target}");
            let malformed = format!(
                "{text:?} has one of \", <, > and \\, or a % without two hexadecimal digits; nothing is stored under \
                 such a URL (percent-encode the character)."
            );
            check(&text, None, Err(&malformed));
        }
        check("/a", None, Err("\"/a\" has no host; write http://HOST/PATH, or add \"host\"."));
        check("h/a", Some("i"), Err("\"h/a\" has a different host than \"i\"."));
        let ftp = "\"ftp://h/a\" has a scheme that this server does not use; write http://HOST/PATH.";
        check("ftp://h/a", None, Err(ftp));
        check("h/a?to=ftp://i/b", None, Ok(("h", "/a?to=ftp://i/b")));
        for host in ["u@h", "h:99999", "h:a", "h,i", "[h]", ":80", "[::1]1"] {
            let expect = format!("{host:?} is not a host; write http://HOST/PATH.");
            check(&format!("http://{host}/a"), None, Err(&expect));
            check("/a", Some(host), Err(&expect));
        }
    }
}
