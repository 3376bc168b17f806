//! The path of a request target, decoded once and strictly, or rejected. The file that it names is not known here.
//!
//! One resource has one name: the result begins with a slash, has no empty, `.` or `..` segment, and ends with a slash
//! only for directories. Dot segments are resolved (RFC 3986 §5.2.4), literal or encoded, so that the file is of the
//! normal form by which the route was chosen. `//` names no file; [`merged`] is the path to which a client is redirected.

use crate::media;
use crate::negotiate::FileCoding;

/// The longest decoded path, in bytes: the limit of Linux.
pub const MAX: usize = 4095;

/// The longest name of a file, in bytes.
const MAX_SEGMENT: usize = 255;

/// A buffer for a decoded path.
pub type Buffer = [u8; MAX];

/// Whether names that begin with a dot are visible to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dotfiles {
    /// They are not, except `/.well-known/` (RFC 8615).
    #[default]
    Hidden,
    /// They are; `.` and `..` still name no file.
    Shown,
}

/// The reason why a path names no servable file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// A broken escape, or a NUL (400).
    Malformed,
    /// Longer than any file's name can be (414).
    TooLong,
    /// Well-formed, but not servable: an encoded slash, a backslash, a control character, an empty segment, a hidden
    /// name, a segment too long for any file system (404).
    Unservable,
}

/// The parts of an origin-form target: path, and query with its question mark (empty without one).
#[must_use]
pub fn split(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// Decodes the path of a target (without query), resolves its dot segments, and checks it. Borrows `raw` itself if it is
/// canonical already, otherwise `buffer`; allocates nothing.
///
/// # Errors
/// See [`BadPath`]. A path without a leading slash, or with a fragment, is malformed.
pub fn decode<'a>(raw: &'a str, dotfiles: Dotfiles, buffer: &'a mut Buffer) -> Result<&'a [u8], BadPath> {
    let raw = raw.as_bytes();
    if raw.first() != Some(&b'/') || raw.contains(&b'#') {
        return Err(BadPath::Malformed);
    }
    let path = if raw.contains(&b'%') || has_dots(raw) {
        let length = unescape(raw, buffer)?;
        let length = without_dots(&mut buffer[..length])?;
        &buffer[..length]
    } else {
        raw
    };
    if path.len() > MAX {
        return Err(BadPath::TooLong);
    }
    check(path, dotfiles)?;
    Ok(path)
}

/// A path (without query) with `//` merged to `/`; `None` if it has none, or if it is ambiguous: with an escape or a dot segment a
/// server may read another path.
#[must_use]
pub fn merged(raw: &str) -> Option<String> {
    if !raw.contains("//") || raw.contains('%') || has_dots(raw.as_bytes()) {
        return None;
    }
    let mut merged = String::with_capacity(raw.len());
    for it in raw.chars() {
        if it != '/' || !merged.ends_with('/') {
            merged.push(it);
        }
    }
    Some(merged)
}

/// Whether a segment is `.` or `..`.
fn has_dots(path: &[u8]) -> bool {
    path.split(|it| *it == b'/').any(|it| matches!(it, b"." | b".."))
}

/// Resolves `.` and `..` in place (RFC 3986 §5.2.4), and returns the length of the result. An ambiguous path (a
/// backslash, an empty segment) is rejected first: `..` must remove the same segment for every server that parses the
/// path.
fn without_dots(path: &mut [u8]) -> Result<usize, BadPath> {
    if !has_dots(path) {
        return Ok(path.len());
    }
    if path.contains(&0) {
        return Err(BadPath::Malformed);
    }
    if path.contains(&b'\\') || path.windows(2).any(|it| it == b"//") {
        return Err(BadPath::Unservable);
    }
    let (mut from, mut to) = (0, 0);
    while from < path.len() {
        // A slash stands at `from`.
        let end = path[from + 1..].iter().position(|it| *it == b'/').map_or(path.len(), |it| from + 1 + it);
        let is_dots = match &path[from + 1..end] {
            b".." => {
                to = path[..to].iter().rposition(|it| *it == b'/').unwrap_or(0);
                true
            }
            segment => segment == b".",
        };
        if !is_dots {
            path.copy_within(from..end, to);
            to += end - from;
        } else if end == path.len() {
            path[to] = b'/';
            to += 1;
        }
        from = end;
    }
    Ok(to)
}

/// Resolves percent-escapes once: `%252e` is the three characters `%2e` (RFC 3986 §2.4). Returns the number of written
/// bytes.
fn unescape(raw: &[u8], buffer: &mut Buffer) -> Result<usize, BadPath> {
    let mut length = 0;
    let mut rest = raw.iter().copied();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let high = rest.next().and_then(hex).ok_or(BadPath::Malformed)?;
                let low = rest.next().and_then(hex).ok_or(BadPath::Malformed)?;
                match high << 4 | low {
                    b'/' => return Err(BadPath::Unservable),
                    decoded => decoded,
                }
            }
            plain => plain,
        };
        *buffer.get_mut(length).ok_or(BadPath::TooLong)? = byte;
        length += 1;
    }
    Ok(length)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|it| u8::try_from(it).unwrap_or(0))
}

fn check(path: &[u8], dotfiles: Dotfiles) -> Result<(), BadPath> {
    let inner = path.strip_prefix(b"/").ok_or(BadPath::Malformed)?;
    // A directory may have the name of a script: with a path behind it, it names no file.
    let is_file = !inner.ends_with(b"/");
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    if path.len() == 1 {
        return Ok(());
    }
    if is_file && is_script(inner) {
        return Err(BadPath::Unservable);
    }
    for (at, segment) in inner.split(|it| *it == b'/').enumerate() {
        if segment.contains(&0) {
            return Err(BadPath::Malformed);
        }
        if at == 0 && segment == b".well-known" {
            continue;
        }
        if !is_name(segment, dotfiles) {
            return Err(BadPath::Unservable);
        }
    }
    Ok(())
}

/// Whether a decoded path is in the form in which files are looked up: from the slash of the root on, without an empty or
/// a hidden segment.
pub(crate) fn is_canonical(path: &[u8], dotfiles: Dotfiles) -> bool {
    check(path, dotfiles).is_ok()
}

/// Whether a path may have a segment of this name.
pub(crate) fn is_name(name: &[u8], dotfiles: Dotfiles) -> bool {
    let odd = |it: &u8| *it < 0x20 || matches!(*it, 0x7f | b'\\' | b'/');
    !name.is_empty() && name.len() <= MAX_SEGMENT && !is_hidden(name, dotfiles) && !name.iter().any(odd)
}

/// Whether clients may not see a name.
pub(crate) fn is_hidden(name: &[u8], dotfiles: Dotfiles) -> bool {
    match dotfiles {
        Dotfiles::Hidden => name.starts_with(b"."),
        Dotfiles::Shown => matches!(name, b"." | b".."),
    }
}

/// The last segment of a path.
pub(crate) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|it| *it == b'/').next().unwrap_or(path)
}

/// Whether the file of a path has the source of a PHP script, which no client gets as text: there may be passwords in it. One of its
/// extensions is that of a script, followed by anything but a letter or digit: `config.php`, `config.php~`, `config.php.bak`,
/// `config (1).php_old.txt`. Names of copies have no end; so a name is a script unless its last extension is that of a format that
/// programs read as something else, such as `index.php.html` of an exported site.
pub(crate) fn is_script(path: &[u8]) -> bool {
    let parts = || name_of(path).split(|it| *it == b'.');
    parts().skip(1).any(begins_as_script) && !has_own_format(name_of(path))
}

fn begins_as_script(part: &[u8]) -> bool {
    let length = part.iter().take_while(|it| it.is_ascii_alphanumeric()).count();
    let extension = &part[..length];
    let is = |text: &[u8]| extension.eq_ignore_ascii_case(text);
    let begins = |text: &[u8]| extension.get(..3).is_some_and(|it| it.eq_ignore_ascii_case(text));
    let is_versioned = extension.iter().skip(3).all(u8::is_ascii_digit);
    is(b"phar") || is(b"phtml") || is(b"phps") || is_versioned && (begins(b"php") || begins(b"pht"))
}

/// Whether the last extension is that of such a format. A coded form has that of the file.
fn has_own_format(name: &[u8]) -> bool {
    let is_coding = |it: &[u8]| {
        FileCoding::ALL.iter().any(|coding| it.eq_ignore_ascii_case(&coding.suffix().as_bytes()[1..]))
    };
    let last = name.rsplit(|it| *it == b'.').find(|it| !is_coding(it));
    last.is_some_and(media::is_format)
}

/// Appends `path` so that it is a valid path of a target again (RFC 3986 §3.3); slashes stay.
pub fn encode(path: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~!$()*+,;=@/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(raw: &str) -> Result<Vec<u8>, BadPath> {
        let mut buffer = [0; MAX];
        decode(raw, Dotfiles::Hidden, &mut buffer).map(<[u8]>::to_vec)
    }

    #[track_caller]
    fn check(raw: &str, expect: &str) {
        assert_eq!(Ok(expect.as_bytes().to_vec()), decoded(raw), "{raw}");
    }

    #[track_caller]
    fn refuse(raw: &str, expect: BadPath) {
        assert_eq!(Err(expect), decoded(raw), "{raw}");
    }

    #[test]
    fn one_spelling_for_one_resource() {
        check("/", "/");
        check("/a", "/a");
        check("/a/b/", "/a/b/");
        check("/a%20b", "/a b");
        check("/%61", "/a");
        check("/%C3%A4", "/ä");
        check("/%252e%252e/x", "/%2e%2e/x");
        check("/a..b/c...", "/a..b/c...");
        check("/.well-known/acme", "/.well-known/acme");
        check("/~user/;p=1,2/@x:y", "/~user/;p=1,2/@x:y");
    }

    /// RFC 3986 §5.2.4: `/sub/../file.txt` was not found.
    #[test]
    fn dots_are_resolved() {
        check("/sub/../file.txt", "/file.txt");
        check("/sub/%2e%2E/file.txt", "/file.txt");
        check("/sub/%2e./file%2etxt", "/file.txt");
        check("/./a", "/a");
        check("/a/./b/", "/a/b/");
        check("/a/.", "/a/");
        check("/a/b/..", "/a/");
        check("/..", "/");
        check("/../../a", "/a");
        check("/.git/../a", "/a");
        check("/a/b/c/./../../g", "/a/g");
    }

    #[test]
    fn malformed_and_unservable_paths_are_rejected() {
        use BadPath::{Malformed, TooLong, Unservable};
        for raw in
            ["", "a", "*", "/%", "/%2", "/%zz", "/%2/", "/%%32e", "/a%00", "/%u002e", "/#", "/a#b", "/%+1"]
        {
            refuse(raw, Malformed);
        }
        for raw in
            ["//", "//a", "/a//b", "/a//", "/a//../b", "/a\\b/../c", "/a%5cb/../c", "/..;/a", "/a/../.git"]
        {
            refuse(raw, Unservable);
        }
        refuse("/a%00/../b", Malformed);
        for raw in ["/.git", "/a/.env", "/a%2fb", "/a%5Cb", "/a\\b", "/..%2f", "/a%2f../b", "/a%0a"] {
            refuse(raw, Unservable);
        }
        for raw in ["/a/.well-known/x", "/.well-known/.hidden", "/.well-knownx", "/a%7f", "/..."] {
            refuse(raw, Unservable);
        }
        refuse(&format!("/{}", "a".repeat(256)), Unservable);
        refuse(&"/a".repeat(3000), TooLong);
        refuse(&"/%61".repeat(3000), TooLong);
    }

    #[test]
    fn copies_of_scripts_are_scripts() {
        for name in [
            "x.php",
            "x.PHP7",
            ".php",
            "x.php~",
            "x.php.bak",
            "x.PHP.Bak",
            "x.php.old~",
            "#x.php#",
            "x.php_bak",
            "x.php-old",
            "x.php-1",
            "x.php-newer",
            "x.php.1",
            "x.php.",
            "x.php ",
            "x.php\u{a0}",
            "x.php::$DATA",
            "x.php.save.20240101",
            "x.phps",
            "x.php.txt",
            "x (copy).php.txt",
            "x.php (1).TXT",
            "x.php.inc",
            "x.php.unheard-of",
            "x.html.php",
            "x.php.html.bak",
            "wp-config.php.dist",
            "lib.phar.orig",
            "debian-db.php.dpkg-dist",
            "x.php.br",
            "x.php.ZST",
            "x.php.gz",
            "x.php.txt.gz",
            "x.php.tar.gz",
            "x.php.docx",
            "x.php.ts",
            "x.php.dif",
            "x.php.mod.gz",
            "dir/x.php.bak",
        ] {
            assert!(is_script(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "~",
            ".",
            "x",
            "x.bak",
            "x.1",
            "index.php.html",
            "index.php.html.gz",
            "INDEX.PHP.HTML.BR",
            "style.php.css",
            "logo.php.svg",
            "list.php.json",
            "x.php.jpg",
            "php.bak",
            "x.phpinfo",
            "x.phpinfo.txt",
            "php-old",
            "php.tar.gz",
            "x.php/readme.txt",
            "x.php.d/readme.txt",
        ] {
            assert!(!is_script(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn shown_dotfiles_are_still_no_way_up() {
        let mut buffer = [0; MAX];
        assert!(decode("/.git/config", Dotfiles::Shown, &mut buffer).is_ok());
        for raw in ["/.", "/..", "/a/../", "/%2e%2e/", "/%2e%2e/%2e%2e"] {
            assert_eq!(Ok(&b"/"[..]), decode(raw, Dotfiles::Shown, &mut buffer), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn every_accepted_path_is_canonical(raw in "/[a.%25eE2fF/\\\\\u{0}-\u{ff}]{0,40}") {
            if let Ok(path) = decoded(&raw) {
                let inner = path.strip_prefix(b"/").unwrap();
                let inner = inner.strip_suffix(b"/").unwrap_or(inner);
                let clean = |it: &[u8]| is_name(it, Dotfiles::Hidden) || it == b".well-known";
                prop_assert!(path == b"/" || inner.split(|it| *it == b'/').all(clean));
                prop_assert!(!is_script(&path));
                let mut normal = Vec::new();
                larder_semantics::path::read(raw.as_bytes(), larder_semantics::path::NORMAL, &mut normal);
                prop_assert_eq!(&path, &normal, "what is served is what the route was chosen by");
                let mut again = String::new();
                encode(&path, &mut again);
                prop_assert_eq!(Ok(path), decoded(&again), "encoding is the inverse");
            }
        }

        #[test]
        fn any_text_is_decoded_or_refused(raw in ".*") {
            let _ = decoded(&raw);
        }
    }
}
