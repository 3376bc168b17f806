//! Files that an application hands over: a field of its response, `X-Sendfile` (Apache, lighttpd) or `X-Accel-Redirect`
//! (nginx), orders the server in front of it to send a file in place of the body. Which fields these are, and the path that
//! one names; no file is opened here.

use crate::field::{self, Field, FieldList};
use crate::path;

/// The fields that order it and are obeyed. The last one is an older name of `X-Sendfile` in lighttpd.
const ORDERS: [&str; 3] = ["x-sendfile", "x-accel-redirect", "x-lighttpd-send-file"];

/// Orders of other servers, which are not obeyed: parts of files (lighttpd), a file to remove afterwards (Apache), a path of the
/// server (LiteSpeed).
const OTHER_ORDERS: [&str; 3] = ["x-sendfile2", "x-sendfile-temporary", "x-litespeed-location"];

/// Instructions for nginx that name no file. nginx may stand in front of this server.
const FOR_NGINX_IN_FRONT: [&str; 4] =
    ["x-accel-buffering", "x-accel-expires", "x-accel-limit-rate", "x-accel-charset"];

/// Fields of the application that describe its own body, and not the file.
const OF_THE_BODY: [&str; 9] = [
    "content-length",
    "content-encoding",
    "content-range",
    "content-md5",
    "accept-ranges",
    "digest",
    "content-digest",
    "repr-digest",
    "trailer",
];

/// Fields of the file for a response in which the application has none of that name.
const OF_THE_FILE: [&str; 4] = ["Content-Type", "ETag", "Last-Modified", "Accept-Ranges"];

/// Whether a field of a response orders a file in place of its body, in this server or in another.
#[must_use]
pub fn is_order(name: &str) -> bool {
    let mut orders = ORDERS.iter().chain(&OTHER_ORDERS);
    may_be_one(name) && orders.any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether no client gets a field of a response: it is an order or belongs to one, and may have a path of the server. Instructions
/// for nginx reach an nginx in front of this server, unless this server `hands_over` the files of the route in its place.
#[must_use]
pub fn is_for_server(name: &str, hands_over: bool) -> bool {
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
    if !may_be_one(name) {
        return false;
    }
    match begins("x-accel-") {
        true => hands_over || !FOR_NGINX_IN_FRONT.iter().any(|it| name.eq_ignore_ascii_case(it)),
        false => begins("x-sendfile-") || is_order(name),
    }
}

fn may_be_one(name: &str) -> bool {
    matches!(name.as_bytes(), [b'x' | b'X', b'-', b'a' | b'A' | b's' | b'S' | b'l' | b'L', ..])
}

/// The files that the applications of a route may hand over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOrderRules {
    /// The absolute paths of their directory: as configured, and without symbolic links.
    roots: Vec<Box<[u8]>>,
    /// The prefix of URL paths in `X-Accel-Redirect` that stands for the directory.
    prefix: Option<Box<[u8]>>,
}

/// Why an order names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFault {
    /// The response has several orders.
    Several,
    /// It is an order of another server.
    NotObeyed,
    /// Its value is empty, or no path.
    NoPath,
    /// A percent-escape is broken.
    Escape,
    /// The path of a URL has a `..` segment, as a file name of a visitor may.
    DotDot,
    /// The path is outside of the directory.
    Outside,
    /// The URL path does not begin with the prefix.
    OtherPrefix,
    /// `X-Accel-Redirect` without a configured prefix.
    NoPrefix,
}

impl OrderFault {
    /// One clause for the log.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            OrderFault::Several => "the response has several orders to send a file",
            OrderFault::NotObeyed => "larder obeys X-Sendfile and X-Accel-Redirect only",
            OrderFault::NoPath => "the value is not a path",
            OrderFault::Escape => "a percent-escape of the path is broken",
            OrderFault::DotDot => "the path has a \"..\" segment, which a URL path must not have here",
            OrderFault::Outside => "the path is outside of sendfile.root",
            OrderFault::OtherPrefix => "the path does not begin with sendfile.prefix",
            OrderFault::NoPrefix => "X-Accel-Redirect needs sendfile.prefix, which is not set",
        }
    }
}

impl FileOrderRules {
    /// The rules for a directory with these absolute paths, and a prefix of URL paths.
    #[must_use]
    pub fn new<'r>(roots: impl IntoIterator<Item = &'r [u8]>, prefix: Option<&str>) -> Self {
        let whole = |it: Vec<u8>| it.strip_suffix(b"/").map_or_else(|| it.clone(), <[u8]>::to_vec);
        let path = |it: &[u8]| normal(it).map(whole).ok();
        let mut roots: Vec<Box<[u8]>> = roots.into_iter().filter_map(path).map(Vec::into).collect();
        roots.dedup();
        let prefix = prefix.and_then(|it| path(&unescaped(it.as_bytes()).ok()?)).map(Vec::into);
        Self { roots, prefix }
    }

    /// The path beneath the directory that the orders of a response name: from its slash on, without empty, `.` and `..`
    /// segments. It ends with a slash if the order does.
    ///
    /// # Errors
    /// See [`OrderFault`].
    pub fn file(&self, orders: &[Field<'_>]) -> Result<Vec<u8>, OrderFault> {
        let [order] = orders else { return Err(OrderFault::Several) };
        if OTHER_ORDERS.iter().any(|it| order.is(it)) {
            return Err(OrderFault::NotObeyed);
        }
        let value = field::trim(order.value);
        match order.is("x-accel-redirect") {
            true => self.of_url(value),
            false => self.of_path(value),
        }
    }

    /// The file of `X-Sendfile`: an absolute path, or one relative to the directory. It is not decoded.
    fn of_path(&self, value: &[u8]) -> Result<Vec<u8>, OrderFault> {
        match value.first() {
            None => Err(OrderFault::NoPath),
            Some(b'/') => {
                let path = normal(value)?;
                let mut beneath = self.roots.iter().filter_map(|root| below(&path, root));
                beneath.next().map(<[u8]>::to_vec).ok_or(OrderFault::Outside)
            }
            Some(_) => normal(value),
        }
    }

    /// The file of `X-Accel-Redirect`: the path of a URL, decoded once, without its query.
    fn of_url(&self, value: &[u8]) -> Result<Vec<u8>, OrderFault> {
        let prefix = self.prefix.as_ref().ok_or(OrderFault::NoPrefix)?;
        let end = value.iter().position(|it| *it == b'?').unwrap_or(value.len());
        if value.first() != Some(&b'/') {
            return Err(OrderFault::NoPath);
        }
        let decoded = unescaped(&value[..end])?;
        if decoded.split(|it| *it == b'/').any(|it| it == b"..") {
            return Err(OrderFault::DotDot);
        }
        let path = normal(&decoded)?;
        below(&path, prefix).map(<[u8]>::to_vec).ok_or(OrderFault::OtherPrefix)
    }
}

/// The rest of `path` from the slash after `directory` on.
fn below<'p>(path: &'p [u8], directory: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(directory).filter(|rest| rest.starts_with(b"/"))
}

/// A path without empty, `.` and `..` segments, beginning with a slash.
fn normal(path: &[u8]) -> Result<Vec<u8>, OrderFault> {
    let mut normal = Vec::with_capacity(path.len() + 1);
    for segment in path.split(|it| *it == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = normal.iter().rposition(|it| *it == b'/').ok_or(OrderFault::Outside)?;
                normal.truncate(parent);
            }
            name => {
                normal.push(b'/');
                normal.extend_from_slice(name);
            }
        }
    }
    // The path of a directory, which names no file.
    if matches!(path.rsplit(|it| *it == b'/').next(), None | Some(b"" | b"." | b"..")) {
        normal.push(b'/');
    }
    Ok(normal)
}

/// Resolves percent-escapes once.
fn unescaped(text: &[u8]) -> Result<Vec<u8>, OrderFault> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(path::hex).ok_or(OrderFault::Escape);
                digit()? << 4 | digit()?
            }
            plain => plain,
        });
    }
    Ok(decoded)
}

/// The fields of the response: those of the application, and those of the file that the application does not have.
#[must_use]
pub fn merged(mut fields: FieldList, file: &FieldList) -> FieldList {
    fields.retain(|it| !OF_THE_BODY.iter().any(|name| it.is(name)));
    for name in OF_THE_FILE {
        if !fields.contains(name)
            && let Some(value) = file.get(name)
        {
            fields.push(name, value);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules() -> FileOrderRules {
        let roots: [&[u8]; 2] = [b"/srv/app/../current/private/", b"/srv/5/private"];
        FileOrderRules::new(roots, Some("/protec%74ed/"))
    }

    fn ordered(name: &str, value: &[u8]) -> Result<Vec<u8>, OrderFault> {
        rules().file(&[Field { name, value }])
    }

    #[track_caller]
    fn check(name: &str, value: &str, expect: Result<&str, OrderFault>) {
        let found = ordered(name, value.as_bytes()).map(|it| String::from_utf8_lossy(&it).into_owned());
        assert_eq!(expect.map(str::to_owned), found, "{name}: {value}");
    }

    #[test]
    fn paths_of_the_file_system() {
        let name = "X-Sendfile";
        for value in [
            "/srv/current/private/a/b.pdf",
            "/srv/5/private/a/b.pdf",
            "a/b.pdf",
            "./a//b.pdf",
            " /srv/current/private//a/./b.pdf ",
            "/srv/app/../current/private/x/../a/b.pdf",
            "x/../a/b.pdf",
        ] {
            check(name, value, Ok("/a/b.pdf"));
        }
        check("x-lighttpd-send-file", "a", Ok("/a"));
        // Names are not decoded.
        check(name, "100%25.pdf", Ok("/100%25.pdf"));
        check(name, "a?b", Ok("/a?b"));
        check(name, "a\\b", Ok("/a\\b"));
        for directory in ["/srv/5/private/", "a/", "a/.", "a/b/..", ".", "/srv/5/private/."] {
            let path = ordered(name, directory.as_bytes()).unwrap();
            assert!(path.ends_with(b"/"), "{directory}");
        }
        check(name, "", Err(OrderFault::NoPath));
        for value in [
            "/etc/passwd",
            "/",
            "/srv/5/private",
            "/srv/5/privateer/a",
            "/srv/5/private/../a",
            "/srv/5/private/../../etc/passwd",
            "/../srv/5",
            "../a",
            "a/../../b",
            "..",
        ] {
            check(name, value, Err(OrderFault::Outside));
        }
    }

    #[test]
    fn paths_of_urls() {
        let name = "x-accel-redirect";
        for value in [
            "/protected/a%20b.pdf",
            "/protected//a b.pdf?x=/../",
            "/%70rotected/./%61%20b.pdf",
            "/protected%2fa%20b.pdf",
        ] {
            check(name, value, Ok("/a b.pdf"));
        }
        check(name, "/protected/%252e%252e/a", Ok("/%2e%2e/a"));
        for value in ["/protected/../a", "/protected/a/..", "/protected/%2e%2e/a", "/protected/..%2fa"] {
            check(name, value, Err(OrderFault::DotDot));
        }
        for value in ["/protect/a", "/protecteda", "/protected", "/a", "/", "//", "/Protected/a"] {
            check(name, value, Err(OrderFault::OtherPrefix));
        }
        for value in ["", "a", "@named", "http://a/protected/a", "?a"] {
            check(name, value, Err(OrderFault::NoPath));
        }
        for value in ["/protected/%", "/protected/%2", "/protected/%zz", "/protected/%%32"] {
            check(name, value, Err(OrderFault::Escape));
        }
        let without = FileOrderRules { prefix: None, ..rules() };
        assert_eq!(Err(OrderFault::NoPrefix), without.file(&[Field { name, value: b"/protected/a" }]));
    }

    #[test]
    fn several_orders_are_none() {
        let order = |name| Field { name, value: b"a" };
        for other in ["X-Sendfile", "X-Accel-Redirect", "X-LIGHTTPD-send-file", "X-Sendfile2"] {
            assert_eq!(Err(OrderFault::Several), rules().file(&[order("X-Sendfile"), order(other)]));
        }
        for other in ["X-Sendfile2", "X-Sendfile-Temporary", "X-LiteSpeed-Location"] {
            assert_eq!(Err(OrderFault::NotObeyed), rules().file(&[order(other)]));
        }
    }

    #[test]
    fn names() {
        for name in
            ["X-Sendfile", "x-accel-redirect", "X-LIGHTTPD-Send-File", "X-Sendfile2", "x-litespeed-location"]
        {
            assert!(is_order(name) && is_for_server(name, false), "{name}");
        }
        for name in ["X-Sendfile-Type", "x-sendfile-anything", "X-Accel-Mapping", "X-Accel-anything"] {
            assert!(!is_order(name) && is_for_server(name, false), "{name}");
        }
        for name in ["X-Accel-Buffering", "x-accel-Limit-Rate"] {
            assert!(!is_order(name) && !is_for_server(name, false) && is_for_server(name, true), "{name}");
        }
        for name in [
            "X-Send-File",
            "X-Sendfile3",
            "X-Accel",
            "X-Accelé-a",
            "X-Accé-aaaa",
            "Sendfile",
            "é",
            "X-Litespeed-Tag",
        ] {
            assert!(!is_order(name) && !is_for_server(name, true), "{name}");
        }
    }

    #[test]
    fn fields_of_the_application_win() {
        let list = |lines: &[(&str, &str)]| {
            let fields: Vec<_> =
                lines.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
            FieldList::from_fields(&fields)
        };
        let file = list(&[("Content-Type", "application/pdf"), ("Content-Length", "9"), ("ETag", "\"f\"")]);
        let own = list(&[
            ("content-type", "a/b"),
            ("Content-Length", "0"),
            ("Content-Encoding", "gzip"),
            ("X-A", "1"),
        ]);
        let text = String::from_utf8(merged(own, &file).text().to_vec()).unwrap();
        assert_eq!("content-type: a/b|X-A: 1|ETag: \"f\"|", text.replace("\r\n", "|"));
    }

    proptest! {
        /// A path beneath the directory has no segment that leads elsewhere.
        #[test]
        fn any_value_is_a_path_beneath_or_none(value in "[/.%2ef\\\\a]{0,40}", accel: bool) {
            let (name, value) = match accel {
                true => ("X-Accel-Redirect", format!("/protected/{value}")),
                false => ("X-Sendfile", format!("/srv/5/private/{value}")),
            };
            if let Ok(path) = ordered(name, value.as_bytes()) {
                prop_assert!(path.starts_with(b"/"));
                let inner = path[1..].strip_suffix(b"/").unwrap_or(&path[1..]);
                let is_name = |it: &[u8]| !matches!(it, b"" | b"." | b"..");
                prop_assert!(inner.is_empty() || inner.split(|it| *it == b'/').all(is_name));
            }
        }
    }
}
