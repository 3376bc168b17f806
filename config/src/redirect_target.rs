//! The targets of redirects in a configuration: `redirect.to`, a `Location` of `response_headers`, and the lines of a map.
//! The `Location` of a response is made by `semantics::redirect`.

use crate::address;

/// The end of the host in a URL.
const ENDS: [&str; 5] = ["/", "?", "#", "{uri}", "{path}"];

/// The reason why a text with variables is no target, and a valid form: the end of a sentence. A client must not choose the host, which
/// therefore is constant or `{host}`.
#[must_use]
pub fn wrong(text: &str) -> Option<String> {
    if let Some(why) = another_host(text) {
        return Some(why);
    }
    if ["/", "{uri}", "{path}"].iter().any(|it| text.starts_with(it)) {
        return None;
    }
    match text.split_once("://") {
        None => Some("begin it with \"/\", {uri}, {path} or a scheme such as \"https://\"".to_owned()),
        Some((scheme, rest)) => wrong_url(scheme, rest),
    }
}

/// The same for a path that browsers take as another host.
#[must_use]
pub fn another_host(text: &str) -> Option<String> {
    let begins = text.starts_with("//") || text.starts_with("/\\");
    let rest = text.trim_start_matches(['/', '\\']);
    begins.then(|| {
        format!("browsers take it as another host; write \"https://{rest}\" for that host, or \"/{rest}\" for a path")
    })
}

/// The same for a URL, by its scheme and the text after `://`.
#[must_use]
pub fn wrong_url(scheme: &str, rest: &str) -> Option<String> {
    let lower = scheme.to_ascii_lowercase();
    match scheme {
        "http" | "https" | "{scheme}" => {}
        _ if matches!(&*lower, "http" | "https") => {
            return Some(format!("write the scheme in lower case: \"{lower}://\""));
        }
        _ => {
            return Some(format!(
                "\"{scheme}\" is no scheme of a redirect; write \"http://\" or \"https://\""
            ));
        }
    }
    let end = ENDS.iter().filter_map(|it| rest.find(it)).min();
    let authority = &rest[..end.unwrap_or(rest.len())];
    if authority.is_empty() {
        return Some(format!("it has no host; write one after \"{scheme}://\""));
    }
    if authority.contains('@') {
        return Some("it has a user name; remove the part before \"@\"".to_owned());
    }
    // The text behind it names the domain; the value cannot end it.
    let constant = match authority.split_once("{host.wildcard}.") {
        Some(("", domain)) if domain.starts_with(|it: char| it.is_ascii_alphanumeric()) => domain,
        _ => authority,
    };
    let constant = constant.replace("{host}", "host");
    if constant.contains(['{', '}', '\\']) {
        return Some("a client could choose its host; write the host out, or use {host} alone".to_owned());
    }
    if address::authority(&constant).is_some() {
        return None;
    }
    Some(match authority.rsplit_once(':') {
        Some((_, digits)) if address::port(digits).is_none_or(|it| it == 0) && !digits.contains(']') => {
            format!("\"{digits}\" is no port; write one from 1 to 65535")
        }
        _ => format!("\"{authority}\" is no host; write a name in ASCII, or an IP address"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_their_host_or_none() {
        let check = |text: &str, expect: &str| {
            let found = wrong(text).unwrap_or_default();
            assert!(found.contains(expect) && found.is_empty() == expect.is_empty(), "{text}: {found}");
        };
        for right in [
            "/x",
            "/x?to=https://{host}/{1}",
            "{uri}.html",
            "{path}",
            "https://{host}:8443{uri}",
            "{scheme}://www.{host}{uri}",
            "https://{host}.example.org/",
            "https://{host.wildcard}.example.org{uri}",
            "http://127.0.0.1/a",
            "https://[::1]:8443/{1}",
            "https://a.test?b",
        ] {
            check(right, "");
        }
        check(
            "//other.test/{1}",
            "write \"https://other.test/{1}\" for that host, or \"/other.test/{1}\" for a path",
        );
        check("//{host}/{1}", "write \"https://{host}/{1}\" for that host");
        check("/\\other.test/", "write \"https://other.test/\"");
        check("https://a.test:99999/x", "\"99999\" is no port; write one from 1 to 65535");
        check("https://{host}:0/", "\"0\" is no port");
        check("https://a.test:/", "\"\" is no port");
        check("HTTPS://a.test/", "write the scheme in lower case: \"https://\"");
        check("ftp://a.test/", "\"ftp\" is no scheme of a redirect; write \"http://\" or \"https://\"");
        check("{1}://a.test/", "is no scheme of a redirect");
        check("http://user@a.test/", "it has a user name");
        check("https:///x", "it has no host");
        check("https://{uri}", "it has no host");
        check("https://a b/", "\"a b\" is no host");
        check("mailto:a@b", "begin it with");
        for open in ["https://{1}/", "https://{query.u}/", "https://a.test{1}", "https://{host}:{1}/"] {
            check(open, "could choose its host");
        }
    }
}
