//! The path of a request as applications may parse it: RFC 3986 §5.2.4 and §6.2.2, and common deviations of servers. The
//! forwarded target and the key are never changed by this; only routes are chosen by it.

/// Bytes of the longest path that is examined in more than a few ways.
const LONGEST: usize = 1024;
/// The number of ways in which a path of any length is examined.
const FEW: usize = 4;

/// The treatment of percent-encoded bytes. A decoded byte is never decoded again: `%252e` is the text `%2e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decode {
    /// They stay encoded.
    No,
    /// They are decoded, except an encoded slash or backslash.
    NotSlashes,
    /// They are decoded.
    All,
}

/// One way to parse a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReading {
    /// Percent-encoded bytes.
    pub decode: Decode,
    /// A backslash is a slash.
    pub backslash: bool,
    /// Several slashes are one.
    pub merge: bool,
    /// `.` and `..` are resolved (RFC 3986 §5.2.4).
    pub dots: bool,
    /// The part after a `;` in a segment is not part of its name, as in Java's servers.
    pub parameters: bool,
}

/// The literal path.
pub const SPELLED: PathReading =
    PathReading { decode: Decode::No, backslash: false, merge: false, dots: false, parameters: false };

/// The normal form, by which routes are chosen.
pub const NORMAL: PathReading =
    PathReading { decode: Decode::All, backslash: true, merge: true, dots: true, parameters: false };

/// Whether a path has only one interpretation, the literal one: no `%`, no backslash, no `;`, no empty segment before the
/// last, no segment `.` or `..`.
#[must_use]
pub fn is_plain(path: &[u8]) -> bool {
    // Nearly every path has no segment that begins with a dot, either: no branch within, so that this is vectorised.
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    let is_special = |before: u8, it: u8| {
        (it == b'%') | (it == b'\\') | (it == b';') | ((before == b'/') & ((it == b'/') | (it == b'.')))
    };
    let is_simple = !pairs.fold(false, |found, (before, it)| found | is_special(*before, *it));
    if is_simple && path.first() == Some(&b'/') {
        return true;
    }
    let mut segment = 0; // Where it begins.
    for (at, byte) in path.iter().enumerate() {
        match byte {
            b'%' | b'\\' | b';' => return false,
            b'/' if at > 0 && (segment == at || is_dots(&path[segment..at])) => return false,
            b'/' => segment = at + 1,
            _ => {}
        }
    }
    !is_dots(&path[segment..])
}

fn is_dots(segment: &[u8]) -> bool {
    matches!(segment, b"." | b"..")
}

/// Normalises `path`, which begins with a slash, into `out`, whose content is dropped. The result begins with a slash and
/// is not longer.
pub fn read(path: &[u8], way: PathReading, out: &mut Vec<u8>) {
    out.clear();
    match is_plain(path) {
        true => out.extend_from_slice(path),
        false => read_oddly(path, way, out),
    }
}

/// The same for a path that may have several interpretations, into an empty `out`.
fn read_oddly(path: &[u8], way: PathReading, out: &mut Vec<u8>) {
    out.reserve(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] if way.decode != Decode::No => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let escaped = escaped.map(|it| it.0 << 4 | it.1);
        let (byte, after) = match escaped {
            Some(b'/' | b'\\') if way.decode == Decode::NotSlashes => (*first, after),
            Some(byte) => (byte, &after[2..]),
            None => (*first, after),
        };
        out.push(if byte == b'\\' && way.backslash { b'/' } else { byte });
        rest = after;
    }
    if way.merge || way.dots || way.parameters {
        join_segments(way, out);
    }
}

pub(crate) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

/// Rewrites a path in place, segment by segment: the output is never longer than the input.
fn join_segments(way: PathReading, path: &mut Vec<u8>) {
    let (mut from, mut to) = (0, 0);
    while from < path.len() {
        // A slash stands at `from`.
        let end = path[from + 1..].iter().position(|it| *it == b'/').map_or(path.len(), |it| from + 1 + it);
        let segment = &path[from + 1..end];
        let named = match segment.iter().position(|it| *it == b';') {
            Some(at) if way.parameters => &segment[..at],
            _ => segment,
        };
        let is_last = end == path.len();
        let is_kept = match named {
            b".." if way.dots => {
                to = path[..to].iter().rposition(|it| *it == b'/').unwrap_or(0);
                false
            }
            b"." if way.dots => false,
            b"" if way.merge => false,
            _ => true,
        };
        if is_kept {
            let upto = from + 1 + named.len();
            path.copy_within(from..upto, to);
            to += upto - from;
        } else if is_last {
            path[to] = b'/';
            to += 1;
        }
        from = end;
    }
    path.truncate(to);
}

/// Whether `holds` is true for every way in which an application may parse `path`; it gets the parsed path, and the
/// treatment of percent-encoded bytes. A path that is too long and unusual is not examined: `false`.
pub fn holds_for_all(path: &[u8], room: &mut Vec<u8>, mut holds: impl FnMut(&[u8], Decode) -> bool) -> bool {
    // The fully decoded form, with its segments, shows which features the path has, encoded or not.
    read(path, PathReading { merge: false, dots: false, ..NORMAL }, room);
    let parameters = room.contains(&b';');
    read(path, PathReading { merge: false, dots: false, parameters: true, ..NORMAL }, room);
    let segments = !is_plain_but_escapes(room);
    let escapes = path.contains(&b'%');
    let slash = |it: &[u8]| matches!(it, [b'%', b'2', b'f' | b'F'] | [b'%', b'5', b'c' | b'C']);
    let escaped_slash = escapes && path.windows(3).any(slash);
    let backslash = path.contains(&b'\\') || (escaped_slash && room_has_backslash(path, room));
    let decodes: &[Decode] = match (escapes, escaped_slash) {
        (false, _) => &[Decode::No],
        (true, false) => &[Decode::No, Decode::All],
        (true, true) => &[Decode::No, Decode::NotSlashes, Decode::All],
    };
    let both = |there: bool| if there { &[false, true][..] } else { &[false][..] };
    let ways = decodes.len() << (u8::from(backslash) + u8::from(parameters) + 2 * u8::from(segments));
    if ways > FEW && path.len() > LONGEST {
        return false;
    }
    for decode in decodes {
        for backslash in both(backslash) {
            for parameters in both(parameters) {
                for merge in both(segments) {
                    for dots in both(segments) {
                        let way = PathReading {
                            decode: *decode,
                            backslash: *backslash,
                            merge: *merge,
                            dots: *dots,
                            parameters: *parameters,
                        };
                        read(path, way, room);
                        if !holds(room, *decode) {
                            return false;
                        }
                        // A byte that is decoded too early, or ends strings or lines in a server, ends the path.
                        let end = room.iter().position(|it| matches!(it, b'?' | b'#' | 0 | b'\n' | b'\r'));
                        if end.is_some_and(|end| !holds(&room[..end], *decode)) {
                            return false;
                        }
                    }
                }
            }
        }
    }
    // An application that decodes the slash first may remove it: `/login%2f` is `/login`.
    let mut shorter = path;
    while let Some((rest, _)) = shorter.split_last_chunk::<3>().filter(|it| slash(it.1)) {
        shorter = rest;
    }
    if shorter.len() == path.len() || shorter.is_empty() {
        return true;
    }
    read(shorter, NORMAL, room);
    holds(room, Decode::All)
}

/// Replaces the last segment of a path in a directory by the text of the symbolic link that it names. The text of a relative link begins
/// in the directory of the link.
pub fn follow_link(path: &mut Vec<u8>, text: &[u8]) {
    let directory = path.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
    path.truncate(if text.starts_with(b"/") { 0 } else { directory });
    path.extend_from_slice(text);
}

/// Whether the path has no dot segment and no empty segment before the last.
fn is_plain_but_escapes(path: &[u8]) -> bool {
    let mut segments = path.split(|it| *it == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if is_dots(segment) || (segment.is_empty() && segments.peek().is_some()) {
            return false;
        }
    }
    true
}

fn room_has_backslash(path: &[u8], room: &mut Vec<u8>) -> bool {
    read(path, PathReading { decode: Decode::All, ..SPELLED }, room);
    room.contains(&b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_as(path: &str, way: PathReading) -> Vec<u8> {
        let mut out = Vec::new();
        read(path.as_bytes(), way, &mut out);
        out
    }

    fn read_as(path: &str, way: PathReading) -> String {
        String::from_utf8(bytes_as(path, way)).unwrap()
    }

    #[test]
    fn the_normal_form() {
        #[track_caller]
        fn check(path: &str, expect: &str) {
            assert_eq!(expect, read_as(path, NORMAL), "{path}");
            assert_eq!(path == expect && !path.contains([';', '%']), is_plain(path.as_bytes()), "{path}");
        }
        for plain in ["/", "/a", "/a/", "/a/b.c/.d", "/...", "/a/..b/b..", "/.well-known/x"] {
            check(plain, plain);
        }
        // RFC 3986 §5.2.4, with the slash in front.
        check("/a/b/c/./../../g", "/a/g");
        check("/mid/content=5/../6", "/mid/6");
        check("/%61ccount/me", "/account/me");
        check("/account%2fme", "/account/me");
        check("/account%5Cme", "/account/me");
        check("/account\\me", "/account/me");
        check("/static/%2e%2e/account/me", "/account/me");
        check("/x/..%2Faccount/me", "/account/me");
        check("//account///me//", "/account/me/");
        check("/./account/.", "/account/");
        check("/account/me/..", "/account/");
        check("/../../a", "/a");
        check("/a/..", "/");
        check("//", "/");
        check("/a//../b", "/b");
        // Decoded once, and only what is an escape.
        check("/%2561", "/%61");
        check("/%2", "/%2");
        check("/%zz%", "/%zz%");
        // A parameter of a segment is a part of it.
        check("/a;b/c", "/a;b/c");
    }

    #[test]
    fn other_readings() {
        #[track_caller]
        fn check(path: &str, way: PathReading, expect: &str) {
            assert_eq!(expect, read_as(path, way), "{path}");
        }
        check(
            "/static/..%2faccount%41",
            PathReading { decode: Decode::NotSlashes, ..NORMAL },
            "/static/..%2faccountA",
        );
        check("/a/..;x/b;y", PathReading { parameters: true, ..NORMAL }, "/b");
        check("/a//../b", PathReading { dots: true, ..SPELLED }, "/a/b");
        check("/%61//./b", SPELLED, "/%61//./b");
    }

    fn oddities() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "/", "/", "a", "b", ".", "..", "%2f", "%2F", "%5c", "\\", "%2e", "%61", "%25", "%", "%4", ";",
            "%3b",
        ]);
        prop::collection::vec(part, 0..14).prop_map(|it| format!("/{}", it.concat()))
    }

    /// One of the 48 ways.
    fn way_of(bits: u8) -> PathReading {
        PathReading {
            decode: [Decode::No, Decode::NotSlashes, Decode::All][usize::from(bits / 16)],
            backslash: bits & 1 != 0,
            merge: bits & 2 != 0,
            dots: bits & 4 != 0,
            parameters: bits & 8 != 0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_plain_path_is_the_same_in_every_way(path in oddities(), bits in 0_u8..48) {
            let segments: Vec<&str> = path[1..].split('/').collect();
            let before = &segments[..segments.len() - 1];
            let has_dots = segments.iter().any(|it| matches!(*it, "." | ".."));
            let is_odd = has_dots || before.contains(&"") || path.contains(['%', '\\', ';']);
            prop_assert_eq!(!is_odd, is_plain(path.as_bytes()), "{}", path);
            if !is_odd {
                let mut out = Vec::new();
                read_oddly(path.as_bytes(), way_of(bits), &mut out);
                prop_assert_eq!(path.as_bytes(), &out);
            }
        }

        #[test]
        fn the_normal_form_is_a_reading_and_so_is_the_spelling(path in oddities()) {
            let (mut room, mut readings) = (Vec::new(), Vec::new());
            holds_for_all(path.as_bytes(), &mut room, |it, _| { readings.push(it.to_vec()); true });
            prop_assert!(readings.contains(&path.clone().into_bytes()));
            prop_assert!(readings.contains(&bytes_as(&path, NORMAL)), "{}", path);
            prop_assert!(readings.iter().all(|it| it[0] == b'/' && it.len() <= path.len()));
            if is_plain(path.as_bytes()) {
                prop_assert!(readings.iter().all(|it| *it == path.as_bytes()));
            }
        }

        /// No dimension is left out because a path seems not to have it.
        #[test]
        fn every_way_is_among_those_that_are_looked_at(path in oddities(), bits in 0_u8..48) {
            let way = way_of(bits);
            let (mut room, mut readings) = (Vec::new(), Vec::new());
            holds_for_all(path.as_bytes(), &mut room, |it, _| { readings.push(it.to_vec()); true });
            prop_assert!(readings.contains(&bytes_as(&path, way)), "{} {:?}", path, way);
        }

        #[test]
        fn the_normal_form_has_no_dots_and_no_empty_segments(path in oddities()) {
            let normal = bytes_as(&path, NORMAL);
            prop_assert!(is_plain_but_escapes(&normal), "{}", path);
        }
    }

    /// An application that decodes first may remove the slashes.
    #[test]
    fn a_path_has_a_reading_without_encoded_slashes_at_its_end() {
        let reads = |path: &str, wanted: &str| {
            !holds_for_all(path.as_bytes(), &mut Vec::new(), |it, _| it != wanted.as_bytes())
        };
        for path in ["/login%2f", "/login%2F%2f", "/login%5C", "/%6cogin%2f", "/x/..%2flogin%2f"] {
            assert!(reads(path, "/login"), "{path}");
        }
        for path in ["/login/", "/login%2fx", "/login%2f/", "/%2f"] {
            assert!(!reads(path, "/login"), "{path}");
        }
    }

    #[test]
    fn a_long_path_of_many_readings_is_not_searched() {
        let mut room = Vec::new();
        let long = format!("/{}", "a/..%2f".repeat(400));
        assert!(!holds_for_all(long.as_bytes(), &mut room, |_, _| true));
        let escaped = format!("/{}", "%61".repeat(2000));
        assert!(holds_for_all(escaped.as_bytes(), &mut room, |_, _| true));
    }
}
