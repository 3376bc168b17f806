//! The URL of a page, or a prefix of URLs, as typed by an operator: a whole URL, or a path and its host. The route is not
//! determined here.

use larder_semantics::key;
use larder_semantics::scheme::Scheme;
use larder_semantics::target::{encoded, has_broken_escape};
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
/// # Errors It is not.
pub fn readable(text: &str, host: Option<&str>, begins: bool) -> Result<(), String> {
    match begins {
        true => beginning_as(text, host, &FLAGS).map(drop),
        false => page_as(text, host, &FLAGS).map(drop),
    }
}

/// Whether the URI of an overlay on the command line is valid: a path of every host, or a URL of one host.
///
/// # Errors
/// One sentence: it is empty, a pattern, or could be a host as well as a path.
pub fn readable_overlay(text: &str) -> Result<(), String> {
    let forms = "write /PATH for every host, or http://HOST/PATH for one host";
    let bare = text.strip_prefix("*://").unwrap_or(text);
    let (path, query) = bare.split_once('?').unwrap_or((bare, ""));
    if text.is_empty() {
        return Err(format!("the URI is empty; {forms}"));
    }
    if path.contains('*') || query == "*" {
        return Err(format!(
            "{text:?} is a pattern; an overlay covers one URI, so set one for each URI without `*`"
        ));
    }
    let (host, after) = bare.split_at(host_end(bare));
    match host.is_empty() || text.contains("://") || (after.starts_with('/') && is_clearly_host(host)) {
        true => Ok(()),
        false => Err(format!("{text:?} is ambiguous: host or path; {forms}")),
    }
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
/// # Errors One sentence: the error, and a valid form.
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
    if has_broken_escape(target) {
        return Err(format!(
            "{text:?} has a % without two hexadecimal digits; nothing is stored under such a URL (write %25 for the character itself)."
        ));
    }
    let mut sent = String::with_capacity(target.len() + 1);
    if !target.starts_with('/') {
        sent.push('/');
    }
    sent.push_str(target);
    // As for requests: bytes that no URI may have are encoded once.
    Ok((scheme, authority, encoded(&sent)))
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
        check("h/a|b?c[]=%7C", None, Ok(("h", "/a%7Cb?c%5B%5D=%7C")));
        let broken = "\"h/a%zz\" has a % without two hexadecimal digits; nothing is stored under such a URL (write %25 for the character itself).";
        check("h/a%zz", None, Err(broken));
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
