//! The files that a request path may mean, in order (`files.try`). The members are parsed once; the system calls that look
//! for them are in `load`.

use crate::path::{self, Dotfiles};
use std::fmt;

/// The variable of a member.
const PATH: &str = "{path}";

/// One member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryMember {
    /// A file named after the request path: the texts before and after `{path}`, such as `{path}.html`.
    Named {
        /// Empty, or a path without a slash at its end.
        before: Box<str>,
        /// Empty, or a suffix such as `.html` or `/index.html`; `/` is the directory with its index.
        after: Box<str>,
    },
    /// The same file for every path, beneath the root: `/index.html`.
    Fixed(Box<str>),
    /// As `Fixed`, for paths that a browser navigates to: without an extension, or for a request that accepts HTML by
    /// name. A missing script or picture is not such a path.
    Page(Box<str>),
    /// The end of the list: 404 or 410 (RFC 9110 §15.5.5, §15.5.11).
    Status(u16),
}

impl TryMember {
    /// The member for the path itself.
    #[must_use]
    pub fn own() -> TryMember {
        TryMember::Named { before: "".into(), after: "".into() }
    }

    /// The member for the path with `suffix`.
    #[must_use]
    pub fn suffixed(suffix: &str) -> TryMember {
        TryMember::Named { before: "".into(), after: suffix.into() }
    }

    /// Reads a member.
    ///
    /// # Errors
    /// One clause: the mistake and its remedy.
    pub fn parse(text: &str) -> Result<TryMember, String> {
        if let Some(status) = text.strip_prefix('=') {
            return match status {
                "404" => Ok(TryMember::Status(404)),
                "410" => Ok(TryMember::Status(410)),
                _ => Err("only =404 and =410 end a list".to_owned()),
            };
        }
        if !text.starts_with('/') && !text.starts_with(PATH) {
            return Err(format!("a member begins with \"/\", \"{PATH}\" or \"=\""));
        }
        let Some((before, after)) = text.split_once(PATH) else {
            beneath(text)?;
            return match text.ends_with('/') {
                true => Err(format!("it names a directory; name its file, such as \"{text}index.html\"")),
                false => Ok(TryMember::Fixed(text.into())),
            };
        };
        let before = before.trim_end_matches('/');
        beneath(&format!("{before}/x{after}"))?;
        Ok(TryMember::Named { before: before.into(), after: after.into() })
    }

    /// Whether its own text names a hidden file, which is served only with `files.dotfiles`.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        let sample = match self {
            TryMember::Named { before, after } => format!("{before}/x{after}"),
            TryMember::Fixed(path) | TryMember::Page(path) => path.to_string(),
            TryMember::Status(_) => return false,
        };
        !path::is_canonical(sample.as_bytes(), Dotfiles::Hidden)
    }
}

impl fmt::Display for TryMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryMember::Named { before, after } => write!(f, "{before}{PATH}{after}"),
            TryMember::Fixed(path) | TryMember::Page(path) => f.write_str(path),
            TryMember::Status(status) => write!(f, "={status}"),
        }
    }
}

/// Whether a member's text, with a name in place of `{path}`, is a path beneath the root in normal form.
fn beneath(sample: &str) -> Result<(), String> {
    if sample.contains(['{', '}', '?', '#', '%']) {
        return Err(format!("it is a path, and its only variable is \"{PATH}\""));
    }
    if sample.split('/').any(|it| matches!(it, "." | "..")) {
        return Err(
            "it leads out of files.root, or has a \".\" segment; name a path beneath files.root".to_owned()
        );
    }
    if path::is_script(sample.as_bytes()) {
        return Err(
            "it names a PHP script, which is never sent as text; php.front_controller runs it".to_owned()
        );
    }
    match path::is_canonical(sample.as_bytes(), Dotfiles::Shown) {
        true => Ok(()),
        false => Err("it has an empty segment, a backslash or a control character".to_owned()),
    }
}

/// The file of a member `before{path}after` for the path `own` beneath the root; `None` if no file of this name may be
/// served. A path that ends with a slash is a directory, of which only a suffix with a slash names a file.
pub(crate) fn expand(before: &str, own: &[u8], after: &str, dotfiles: Dotfiles) -> Option<Vec<u8>> {
    let own = match after.starts_with('/') {
        true => own.strip_suffix(b"/").unwrap_or(own),
        false => own,
    };
    let path = [before.as_bytes(), own, after.as_bytes()].concat();
    (path.len() <= path::MAX && path::is_canonical(&path, dotfiles)).then_some(path)
}

/// Whether a path is one that a browser navigates to, so that the page of an application may answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Navigation {
    /// Its last segment has no extension.
    ByPath,
    /// It has one, or is beneath `/.well-known/`, and the request does not accept HTML by name.
    No,
    /// It has an extension, and the request accepts HTML by name: the response depends on `Accept`.
    ByAccept,
}

impl Navigation {
    /// The navigation of a request for `path`.
    pub fn of(path: &[u8], accepts_html: bool) -> Navigation {
        let name = path.rsplit(|it| *it == b'/').next().unwrap_or_default();
        match name.contains(&b'.') {
            _ if path.starts_with(b"/.well-known/") => Navigation::No,
            false => Navigation::ByPath,
            true if accepts_html => Navigation::ByAccept,
            true => Navigation::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, own: &str, expect: Option<&str>) {
        let Ok(TryMember::Named { before, after }) = TryMember::parse(text) else { panic!("{text}") };
        let path = expand(&before, own.as_bytes(), &after, Dotfiles::Hidden);
        assert_eq!(expect.map(|it| it.as_bytes().to_vec()), path, "{text} {own}");
    }

    #[test]
    fn members_of_a_path() {
        check("{path}", "/a", Some("/a"));
        check("{path}.html", "/a/b", Some("/a/b.html"));
        check("{path}.html", "/a/", None);
        check("{path}/index.html", "/a", Some("/a/index.html"));
        check("{path}/index.html", "/a/", Some("/a/index.html"));
        check("{path}/index.html", "/", Some("/index.html"));
        check("{path}/", "/a", Some("/a/"));
        check("{path}/", "/", Some("/"));
        check("/de{path}", "/a", Some("/de/a"));
        check("/de/{path}", "/a", Some("/de/a"));
        check("{path}", "/.env", None);
        check("{path}/x", &format!("/{}", "a/".repeat(2047)), None);
    }

    #[test]
    fn members_for_every_path() {
        assert_eq!(Ok(TryMember::Fixed("/index.html".into())), TryMember::parse("/index.html"));
        assert_eq!(Ok(TryMember::Status(404)), TryMember::parse("=404"));
        assert_eq!(Ok(TryMember::Status(410)), TryMember::parse("=410"));
        assert!(TryMember::parse("/index.php").unwrap_err().contains("php.front_controller"));
        assert!(TryMember::parse("/.env").unwrap().is_hidden());
        assert!(TryMember::parse("{path}/.x").unwrap().is_hidden());
        assert!(!TryMember::parse("{path}.html").unwrap().is_hidden());
    }

    #[test]
    fn malformed_members_are_rejected() {
        for text in [
            "",
            "index.html",
            "=200",
            "=",
            "{uri}",
            "/{path}{path}",
            "/../x",
            "{path}/../../x",
            "/a//b",
            "/a\\b",
            "/dir/",
            "/",
            "/a?x",
            "/./a",
            "{path}%2e",
            "{path}\n",
            "/a\0",
        ] {
            assert!(TryMember::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn paths_that_a_browser_navigates_to() {
        use Navigation::{ByAccept, ByPath, No};
        let check = |path: &str, accepts, expect| {
            assert_eq!(expect, Navigation::of(path.as_bytes(), accepts), "{path}");
        };
        check("/", false, ByPath);
        check("/users/7", false, ByPath);
        check("/v1.2/users", false, ByPath);
        check("/users/jane.doe", true, ByAccept);
        check("/app.js", false, No);
        check("/.well-known/apple-app-site-association", true, No);
    }
}
