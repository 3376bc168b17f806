//! The parser of path patterns: text to shape, or a sentence about the error.

use super::{PathPattern, PatternLiteral, PatternSegment, Shape};
use crate::captures::MOST_CAPTURES;
use crate::path;
use crate::template;
use regex::bytes::{Regex, RegexBuilder};
use std::sync::Arc;

/// The mark of a regular expression.
pub(super) const REGEX: &str = "regex:";

/// Bytes of the longest pattern.
const MOST_BYTES: usize = 4096;

/// Bytes of one compiled regular expression, and of its matching state.
const REGEX_BYTES: usize = 256 << 10;

type PatternResult<T> = Result<T, String>;

/// Parses a pattern.
pub(super) fn parse(text: &str) -> PatternResult<PathPattern> {
    if text.len() > MOST_BYTES {
        return Err(format!("a path pattern is limited to {MOST_BYTES} bytes; this one has {}", text.len()));
    }
    let mut names = Vec::new();
    let (shape, regex) = match text.strip_prefix(REGEX) {
        Some(pattern) => {
            let regex = regex(pattern)?;
            names.extend(regex.capture_names().skip(1).map(|it| it.unwrap_or_default().into()));
            (Shape::Regex(beginning(pattern)), Some(regex))
        }
        None => (shape(text, &mut names)?, None),
    };
    if names.len() > MOST_CAPTURES {
        let found = names.len();
        return Err(format!("a pattern may have at most {MOST_CAPTURES} captures; this one has {found}"));
    }
    for (at, name) in names.iter().enumerate().filter(|it| !it.1.is_empty()) {
        if template::is_variable(name) {
            return Err(format!(
                "{{{name}}} is a variable of every request; choose another name for this capture"
            ));
        }
        if names[..at].contains(name) {
            return Err(format!("the capture {{{name}}} occurs twice; choose another name for one of them"));
        }
    }
    let is_all =
        matches!(&shape, Shape::Between(before, after) if *before.normal == *b"/" && after.normal.is_empty());
    let text: Arc<str> = text.into();
    let shown = text.clone();
    Ok(PathPattern { text, shown, is_all, shape: Arc::new(shape), regex, names: names.into() })
}

fn shape(text: &str, names: &mut Vec<Box<str>>) -> PatternResult<Shape> {
    if let Some(meant) = of_nginx(text) {
        // Between single quotes, TOML keeps a backslash.
        let quote = if meant.contains('\\') { '\'' } else { '"' };
        return Err(format!("a location of another server: write {quote}{meant}{quote}"));
    }
    let found = text.find(['?', '#', ' ']).and_then(|it| text[it..].chars().next());
    if let Some(found) = found {
        return Err(format!(
            "{found:?} cannot occur in the path of a request; write only the path, percent-encoded"
        ));
    }
    let star = text.find('*');
    if text.contains(['{', '}']) {
        return segments(text, names);
    }
    let Some(at) = star else {
        begins_with_slash(text)?;
        let normal = read(text);
        return Ok(Shape::Exact(PatternLiteral { spelled: text.as_bytes().into(), normal }));
    };
    let (before, after) = (&text[..at], &text[at + 1..]);
    if after.contains('*') {
        return Err(
            "a pattern may have one \"*\"; use captures such as \"/a/{x}/b/{y}\", or \"regex:…\"".to_owned()
        );
    }
    if before.is_empty() && after.is_empty() {
        return Err("a path begins with \"/\"; write \"/*\" for all paths".to_owned());
    }
    if !before.is_empty() {
        begins_with_slash(before)?;
    }
    let after = PatternLiteral { spelled: after.as_bytes().into(), normal: plain(after)? };
    names.push("".into());
    Ok(Shape::Between(prefix(before), after))
}

/// The pattern for a location of nginx or a regular expression without the mark of one. Theirs match a part of a path unless `^` and
/// `$` bound them, those of larder whole paths.
fn of_nginx(text: &str) -> Option<String> {
    if let Some(exact) = text.strip_prefix("= ") {
        return Some(exact.trim().to_owned());
    }
    if let Some(prefix) = text.strip_prefix("^~") {
        return Some(format!("{}*", prefix.trim()));
    }
    let (flags, regex) = match (text.strip_prefix("~*"), text.strip_prefix('~')) {
        (Some(rest), _) => ("(?i)", rest.trim()),
        (None, Some(rest)) => ("", rest.trim()),
        (None, None) if text.starts_with('^') || text.contains("(.*)") || text.contains("(.+)") => ("", text),
        (None, None) => return None,
    };
    let is_bare = flags.is_empty() && regex == text;
    let (before, regex) = match regex.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => (if is_bare { "" } else { ".*" }, regex),
    };
    let (regex, after) = match regex.strip_suffix('$') {
        Some(rest) => (rest, ""),
        None => (regex, if is_bare && !text.starts_with('^') { "" } else { ".*" }),
    };
    Some(format!("{REGEX}{flags}{before}{regex}{after}"))
}

fn begins_with_slash(text: &str) -> PatternResult<()> {
    if text.starts_with('/') { Ok(()) } else { Err("a path begins with \"/\", as in \"/shop/*\"".to_owned()) }
}

/// The normal form of a whole path.
fn read(text: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    path::read(text.as_bytes(), path::NORMAL, &mut out);
    out.into()
}

/// A beginning of paths. Its last segment continues: `/.*` is not `/*`, nor is `%4` the beginning of an escape.
fn prefix(text: &str) -> PatternLiteral {
    if text.is_empty() {
        return PatternLiteral::default();
    }
    let mut normal = read(&format!("{text}x")).into_vec();
    normal.pop();
    PatternLiteral { spelled: text.as_bytes().into(), normal: normal.into() }
}

/// The normal form of a part of a path other than its beginning: percent-decoded. Nothing else in it may need
/// normalisation, because that would depend on what precedes it.
fn plain(text: &str) -> PatternResult<Box<[u8]>> {
    let decoded = |text: &str| {
        let mut out = Vec::new();
        path::read(
            text.as_bytes(),
            path::PathReading { decode: path::Decode::All, ..path::SPELLED },
            &mut out,
        );
        out
    };
    let normal = decoded(text);
    let slashes = |it: &[u8]| it.iter().filter(|it| matches!(it, b'/' | b'\\')).count();
    let is_odd = text.contains("//")
        || slashes(&normal) != text.matches('/').count()
        || normal.split(|it| *it == b'/').skip(1).any(|it| matches!(it, b"." | b".."));
    if is_odd {
        return Err(format!(
            "{text:?} cannot occur in the normal form of a path, which has no \"//\", no backslash, and no segment \".\" or \"..\""
        ));
    }
    Ok(normal.into())
}

fn segments(text: &str, names: &mut Vec<Box<str>>) -> PatternResult<Shape> {
    begins_with_slash(text)?;
    let mut all = Vec::new();
    let mut parts = text[1..].split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        all.push(segment(part, is_last, names)?);
        // The last segment may be empty: the path ends with a slash.
        if part.is_empty() && !is_last {
            plain("//")?;
        }
    }
    let (mut begin, mut captured) = (PatternLiteral::default(), all.len());
    let mut add = |spelled: &[u8], normal: &[u8]| {
        begin.spelled = [&begin.spelled, spelled].concat().into();
        begin.normal = [&begin.normal, normal].concat().into();
    };
    for (at, segment) in all.iter().enumerate() {
        add(b"/", b"/");
        match segment {
            PatternSegment::Literal(it) => add(&it.spelled, &it.normal),
            PatternSegment::Capture(before, _) => add(&before.spelled, &before.normal),
            PatternSegment::Rest => {}
        }
        if !matches!(segment, PatternSegment::Literal(_)) {
            captured = at;
            break;
        }
    }
    // `/files/{rest...}` is `/files/*` with a name.
    let is_rest = matches!(all.get(captured), Some(PatternSegment::Rest));
    Ok(if is_rest { Shape::Between(begin, PatternLiteral::default()) } else { Shape::Segments(begin, all) })
}

fn segment(part: &str, is_last: bool, names: &mut Vec<Box<str>>) -> PatternResult<PatternSegment> {
    let literal = |text: &str| -> PatternResult<PatternLiteral> {
        let normal = plain(&format!("/{text}"))?;
        Ok(PatternLiteral { spelled: text.as_bytes().into(), normal: normal[1..].into() })
    };
    // Within a segment a dot is any other byte.
    let piece = |text: &str| -> PatternResult<PatternLiteral> {
        let normal = plain(text)?;
        Ok(PatternLiteral { spelled: text.as_bytes().into(), normal })
    };
    let rest = part == "*" || (part.starts_with('{') && part.ends_with("...}"));
    if rest && !is_last {
        return Err(format!("{part} stands for the rest of the path, so it must be the last segment"));
    }
    if part == "*" {
        names.push("".into());
        return Ok(PatternSegment::Rest);
    }
    if part.contains('*') {
        return Err(format!(
            "in a pattern with captures, \"*\" is a whole segment at the end, as in \"/shop/{{id}}/*\"; here it is in {part:?}"
        ));
    }
    let Some((before, after)) = part.split_once('{') else {
        if part.contains('}') {
            return Err("a \"}\" without \"{\"; a capture is written as in \"/shop/{id}\"".to_owned());
        }
        return literal(part).map(PatternSegment::Literal);
    };
    let Some((name, after)) = after.split_once('}') else {
        return Err("a \"{\" without \"}\"; a capture is written as in \"/shop/{id}\"".to_owned());
    };
    if after.contains(['{', '}']) || before.contains('}') {
        return Err(format!("a segment may have one capture; {part:?} has more: use \"regex:…\""));
    }
    let name = if rest { name.strip_suffix("...").unwrap_or(name) } else { name };
    if !template::is_capture_name(name) {
        return Err(format!(
            "{{{name}}} is not a capture; a name has letters, digits and \"_\" and begins with a letter, as in \"/shop/{{id}}\""
        ));
    }
    names.push(name.into());
    Ok(if rest { PatternSegment::Rest } else { PatternSegment::Capture(piece(before)?, piece(after)?) })
}

/// Compiles a regular expression, anchored to the whole path. A dot matches a line feed too: a path may contain one
/// after decoding, and must not avoid a route by that.
fn regex(pattern: &str) -> PatternResult<Regex> {
    let bare = pattern.strip_prefix('^').unwrap_or(pattern);
    if bare.is_empty() || bare.starts_with(|it: char| it.is_ascii_alphanumeric()) {
        return Err(
            "a path begins with \"/\": write a regular expression such as \"regex:/shop/[0-9]+\"".to_owned()
        );
    }
    let build = |text: &str| {
        RegexBuilder::new(text)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(REGEX_BYTES)
            .nest_limit(64)
            .build()
    };
    // First alone, so that the operator's parentheses are balanced, and errors show the operator's text.
    build(pattern).and_then(|_| build(&format!("\\A(?:{pattern})\\z"))).map_err(|why| match why {
        regex::Error::CompiledTooBig(_) => {
            format!("the pattern {pattern:?} compiles to more than 256 KiB; use fewer repetitions")
        }
        why => {
            let why = why.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("{pattern:?} is not a regular expression: {why}")
        }
    })
}

/// The bytes that every path of a regular expression begins with, as far as they are obvious.
fn beginning(pattern: &str) -> PatternLiteral {
    let bare = pattern.strip_prefix('^').unwrap_or(pattern);
    let stop =
        bare.find(|it: char| !it.is_ascii() || r"\.+*?()|[]{}^$#&~".contains(it) || it.is_ascii_whitespace());
    let mut text = &bare[..stop.unwrap_or(bare.len())];
    // A repetition concerns the byte before it.
    if bare[text.len()..].starts_with(['*', '?', '{', '+']) {
        text = &text[..text.len().saturating_sub(1)];
    }
    if has_alternatives(bare) {
        text = "";
    }
    PatternLiteral { spelled: text.as_bytes().into(), normal: text.as_bytes().into() }
}

/// Whether a `|` may stand outside of all parentheses.
fn has_alternatives(pattern: &str) -> bool {
    // With classes or escapes, a parenthesis may be literal.
    let unsure = pattern.contains(['[', '\\', '#']);
    let mut depth = 0;
    pattern.bytes().any(|it| {
        depth += i32::from(it == b'(') - i32::from(it == b')');
        it == b'|' && (unsure || depth <= 0)
    })
}
