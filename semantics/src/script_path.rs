//! The parts of a request path that may name a PHP script, found byte by byte in the normal form of the path. Whether such a file
//! exists is not known here (`files`).

use crate::request_view::normal_path;

/// The extension of scripts, in ASCII letters of either case.
const EXTENSION: &[u8] = b".php";

/// The path of a target in the normal form, by which its route was chosen: decoded once. `None` for a path with a control
/// character: NUL and line breaks end the path for some programs (CVE-2019-11043).
#[must_use]
pub fn normal(target: &str) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    let path = normal_path(target, &mut room);
    (!path.iter().any(u8::is_ascii_control)).then(|| path.to_vec())
}

/// The ends of the segments that may be a script, in order; the path behind such an end is information for the script. A segment
/// beneath a hidden one is none.
pub fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let mut next = 0;
    let segments = path.split(|it| *it == b'/').map(move |segment| {
        let end = next + segment.len();
        next = end + 1;
        (segment, end)
    });
    segments.take_while(|it| !it.0.starts_with(b".")).filter(|it| is_script(it.0)).map(|it| it.1)
}

/// Whether some segment begins with a dot.
#[must_use]
pub fn is_hidden(path: &[u8]) -> bool {
    path.windows(2).any(|it| it == b"/.")
}

fn is_script(segment: &[u8]) -> bool {
    let at = segment.len().checked_sub(EXTENSION.len());
    at.is_some_and(|at| segment[at..].eq_ignore_ascii_case(EXTENSION))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The possible scripts of a target, each with the rest.
    fn found(target: &str) -> String {
        let Some(path) = normal(target) else { return "refused".to_owned() };
        let text = |it: &[u8]| it.escape_ascii().to_string();
        ends(&path)
            .map(|it| format!("{}+{}", text(&path[..it]), text(&path[it..])))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_path_is_split_behind_the_extension() {
        #[track_caller]
        fn check(target: &str, expect: &str) {
            assert_eq!(expect, found(target), "{target}");
        }
        check("/index.php", "/index.php+");
        check("/index.php?a=/b.php", "/index.php+");
        check("/index.php/", "/index.php+/");
        check("/blog/index.php/2026/a%20b", "/blog/index.php+/2026/a b");
        check("/a.php/b.php/c", "/a.php+/b.php/c /a.php/b.php+/c");
        check("/upload/x.jpg/y.php", "/upload/x.jpg/y.php+");
        check("/a.phpx/b", "");
        check("/a.php.txt", "");
        check("/a/b", "");
        check("/a.PhP", "/a.PhP+");
        check("/a%2ephp", "/a.php+");
        check("/a.ph%70%2fb", "/a.php+/b");
        // Decoded once.
        check("/a%252ephp", "");
        check("/a.php%253f", "");
        check("/x/../a.php", "/a.php+");
        check("//a.php", "/a.php+");
        check("/a.php;b", "");
        // Another letter with the same lower case, and one that grows when it is lowered (GHSA-g966-83w7-6w38).
        check("/a.p\u{212a}p", "");
        check("/%C8%BA%C8%BA%C8%BA%C8%BA.php", r"/\xc8\xba\xc8\xba\xc8\xba\xc8\xba.php+");
        check(
            "/%C8%BA%C8%BA%C8%BA%C8%BAshell.php.txt.php",
            r"/\xc8\xba\xc8\xba\xc8\xba\xc8\xbashell.php.txt.php+",
        );
        // Hidden names.
        check("/.php", "");
        check("/.git/a.php", "");
        check("/a.php/.git/b.php", "/a.php+/.git/b.php");
        for target in
            ["/a.php%00", "/a.php%0a", "/index.php/%0d%0a", "/%00.php", "/a%7f.php", "/a.php%00.jpg"]
        {
            check(target, "refused");
        }
        check("*", "");
    }

    #[test]
    fn hidden_paths() {
        for (path, expect) in
            [("/a/b", false), ("/.git", true), ("/a/.b/c", true), ("/a.b", false), ("/", false)]
        {
            assert_eq!(expect, is_hidden(path.as_bytes()), "{path}");
        }
    }

    proptest! {
        #[test]
        fn every_end_is_one_of_a_segment(path in "/[a.ph/%2eP]{0,40}") {
            let Some(path) = normal(&path) else { return Ok(()) };
            for end in ends(&path) {
                prop_assert!(path[..end].to_ascii_lowercase().ends_with(b".php"));
                prop_assert!(end == path.len() || path[end] == b'/');
                prop_assert!(!is_hidden(&path[..end]));
            }
        }
    }
}
