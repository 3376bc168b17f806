//! Path patterns of routes, matched against the normal form of a path (`path::NORMAL`), and the texts they capture.
//!
//! | pattern | paths | captures |
//! |---|---|---|
//! | `/about` | this one | |
//! | `/static/*`, `/img*` | all that begin so | `{1}`: the rest |
//! | `*.php`, `/static/*.css` | all that begin and end so; the `*` may contain slashes | `{1}`: the text for the `*` |
//! | `/shop/{id}`, `/img/{id}.png` | a part of one segment, at least one byte | `{id}`, also `{1}` |
//! | `/files/{rest...}`, `/shop/{id}/*` | everything from there on, which may be empty | `{rest}`, also by number |
//! | `regex:/shop/(?<id>\d+)` | those that the regular expression matches as a whole | its groups |

mod coverage;
mod parse;

use crate::captures::{CaptureSpans, Captures};
use crate::path::Decode;
use crate::template::{self, Template};
use larder_stdx::nearest::nearest;
use regex::bytes::Regex;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The paths of a route. Cheap to clone; equal if the text is.
#[derive(Clone)]
pub struct PathPattern {
    text: Arc<str>,
    /// The text for people.
    shown: Arc<str>,
    is_all: bool,
    shape: Arc<Shape>,
    /// Not shared between clones: each has its own matching state, so that threads do not contend for it.
    regex: Option<Regex>,
    /// The names of its captures, in order; a capture without a name has an empty one.
    names: Arc<[Box<str>]>,
}

/// The structure of a pattern.
#[derive(Debug)]
enum Shape {
    Exact(PatternLiteral),
    /// A beginning and an end, which do not overlap.
    Between(PatternLiteral, PatternLiteral),
    /// Segments, with the bytes that every path of them begins with.
    Segments(PatternLiteral, Vec<PatternSegment>),
    /// A regular expression, with the bytes that every path of it begins with.
    Regex(PatternLiteral),
}

/// The text between two slashes of a pattern.
#[derive(Debug)]
enum PatternSegment {
    Literal(PatternLiteral),
    /// At least one byte between a beginning and an end of the segment.
    Capture(PatternLiteral, PatternLiteral),
    /// The rest of the path.
    Rest,
}

/// A literal part of a pattern.
#[derive(Debug, Default, PartialEq, Eq)]
struct PatternLiteral {
    /// As it is written; compared with paths that are not decoded.
    spelled: Box<[u8]>,
    /// In the normal form of paths, which need not be text.
    normal: Box<[u8]>,
}

impl PatternLiteral {
    fn of(&self, decode: Decode) -> &[u8] {
        if decode == Decode::No { &self.spelled } else { &self.normal }
    }

    /// The bytes at its beginning that are the same in both forms.
    fn common_begin(&self) -> &[u8] {
        &self.normal[..common(self.spelled.iter().zip(&self.normal))]
    }

    /// The same at its end.
    fn common_end(&self) -> &[u8] {
        let length = common(self.spelled.iter().rev().zip(self.normal.iter().rev()));
        &self.normal[self.normal.len() - length..]
    }
}

/// The number of equal pairs before the first that differs.
fn common<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
    pairs.take_while(|it| it.0 == it.1).count()
}

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The error and a valid form: one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }

    /// Parses a checked pattern.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|_| Self::all())
    }

    /// `/*`: every path.
    #[must_use]
    pub fn all() -> Self {
        Self::parse("/*").expect("a constant, which a test parses")
    }

    /// The same pattern, which people are shown as it is `written` with variables: the value of one may be a secret.
    #[must_use]
    pub fn shown_as(self, written: &str) -> Self {
        Self { shown: written.into(), ..self }
    }

    /// Its text, with the values of variables. `Display` shows it as it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of its captures, in order; a capture without a name has an empty one.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// A sentence about a capture that a template needs and the pattern lacks.
    #[must_use]
    pub fn lacks(&self, template: &Template) -> Option<String> {
        let has = |it: &str| match it.parse::<usize>() {
            Ok(number) => number <= self.names.len(),
            Err(_) => self.names.iter().any(|name| **name == *it),
        };
        let lacking = template.names().find(|it| !has(it))?;
        let named: Vec<&str> = self.names.iter().map(|it| &**it).filter(|it| !it.is_empty()).collect();
        let mut known = named.clone();
        template::variables().for_each(|it| known.push(it));
        let near = nearest(lacking, known.into_iter());
        let near = near.map_or(String::new(), |it| format!("did you mean {{{it}}}? "));
        let captures: Vec<String> = (1..=self.names.len())
            .map(|it| format!("{{{it}}}"))
            .chain(named.iter().map(|it| format!("{{{it}}}")))
            .collect();
        let captures = if captures.is_empty() {
            "captures nothing".to_owned()
        } else {
            format!("has {}", captures.join(", "))
        };
        Some(format!(
            "unknown variable {{{lacking}}}; {near}the path {:?} {captures}; docs/generated/config.md lists all",
            &*self.shown
        ))
    }

    /// Whether it matches the normal form of a path, without the query.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.matches_as(path, Decode::All)
    }

    /// Whether it matches an interpretation of a path: if that is undecoded, the pattern's literal parts are compared as
    /// they are written, too. Allocates nothing.
    #[must_use]
    pub fn matches_as(&self, path: &[u8], decode: Decode) -> bool {
        match &*self.shape {
            Shape::Exact(exact) => path == exact.of(decode),
            Shape::Between(before, after) => between(path, before.of(decode), after.of(decode)).is_some(),
            Shape::Segments(before, segments) => {
                begins_with(path, before.of(decode)) && walk(segments, path, decode, |_, _| {})
            }
            Shape::Regex(before) => {
                begins_with(path, before.of(decode))
                    && self.regex.as_ref().is_some_and(|it| it.is_match(path))
            }
        }
    }

    /// The captures from the normal form of a path; `None` if the pattern does not match.
    #[must_use]
    pub fn captures<'a>(&'a self, path: &'a [u8]) -> Option<Captures<'a>> {
        let mut spans = CaptureSpans::default();
        let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        match &*self.shape {
            Shape::Exact(exact) => (path == &*exact.normal).then_some(())?,
            Shape::Between(before, after) => {
                let (from, to) = between(path, &before.normal, &after.normal)?;
                spans[0] = (small(from), small(to));
            }
            Shape::Segments(_, segments) => {
                let mut at = 0;
                let all = walk(segments, path, Decode::All, |from, to| {
                    if let Some(span) = spans.get_mut(at) {
                        *span = (small(from), small(to));
                    }
                    at += 1;
                });
                all.then_some(())?;
            }
            Shape::Regex(before) => {
                begins_with(path, &before.normal).then_some(())?;
                let found = self.regex.as_ref()?.captures(path)?;
                for (span, group) in spans.iter_mut().zip(found.iter().skip(1)) {
                    *span = group.map_or((0, 0), |it| (small(it.start()), small(it.end())));
                }
            }
        }
        Some(Captures::new(path, &self.names, spans))
    }

    /// The same as a regular expression, anchored, for paths as they are spelled ([`Decode::No`]).
    #[must_use]
    pub fn to_regex(&self) -> String {
        let literal = |it: &PatternLiteral| regex::escape(&String::from_utf8_lossy(&it.spelled));
        match &*self.shape {
            Shape::Exact(it) => format!("^{}$", literal(it)),
            Shape::Between(before, after) if after.spelled.is_empty() => format!("^{}", literal(before)),
            Shape::Between(before, after) => format!("^{}.*{}$", literal(before), literal(after)),
            Shape::Segments(_, segments) => {
                let segments = segments.iter().map(|it| match it {
                    PatternSegment::Literal(it) => format!("/{}", literal(it)),
                    PatternSegment::Capture(before, after) => {
                        format!("/{}[^/]+{}", literal(before), literal(after))
                    }
                    PatternSegment::Rest => "/.*".to_owned(),
                });
                format!("^{}$", segments.collect::<String>())
            }
            Shape::Regex(_) => {
                let pattern = self.text.strip_prefix(parse::REGEX).unwrap_or_default();
                format!("^(?:{pattern})$")
            }
        }
    }

    /// The bytes that every matching path begins with, in the normal form.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        match &*self.shape {
            Shape::Exact(it) | Shape::Between(it, _) | Shape::Segments(it, _) | Shape::Regex(it) => {
                &it.normal
            }
        }
    }

    /// Literal bytes that every interpretation of a matching path begins with, and bytes that it ends with, whether they are decoded
    /// or not. In a short path they may overlap.
    #[must_use]
    pub fn literal_ends(&self) -> (&[u8], &[u8]) {
        match &*self.shape {
            Shape::Exact(it) => (it.common_begin(), it.common_end()),
            Shape::Between(before, after) => (before.common_begin(), after.common_end()),
            Shape::Segments(before, segments) => {
                let end = match segments.last() {
                    Some(PatternSegment::Literal(it) | PatternSegment::Capture(_, it)) => it.common_end(),
                    Some(PatternSegment::Rest) | None => &[],
                };
                (before.common_begin(), end)
            }
            Shape::Regex(before) => (before.common_begin(), &[]),
        }
    }

    /// Its only path, in the normal form; `None` if it may have several.
    #[must_use]
    pub fn exact(&self) -> Option<&[u8]> {
        match &*self.shape {
            Shape::Exact(it) => Some(&it.normal),
            Shape::Between(..) | Shape::Segments(..) | Shape::Regex(_) => None,
        }
    }

    /// A path that it matches, in visible ASCII without escapes; `None` if none is known.
    #[must_use]
    pub fn sample(&self) -> Option<String> {
        const ANY: &[u8] = b"any";
        let bytes = match &*self.shape {
            Shape::Exact(it) => it.normal.to_vec(),
            Shape::Between(before, after) => [&before.normal, ANY, &after.normal].concat(),
            Shape::Segments(_, segments) => {
                let segments = segments.iter().flat_map(|it| match it {
                    PatternSegment::Literal(it) => [b"/", &*it.normal].concat(),
                    PatternSegment::Capture(before, after) => {
                        [b"/", &*before.normal, ANY, &after.normal].concat()
                    }
                    PatternSegment::Rest => [b"/", ANY].concat(),
                });
                segments.collect()
            }
            Shape::Regex(_) => return None,
        };
        let is_plain = bytes.iter().all(|it| it.is_ascii_graphic() && !b"?#%".contains(it));
        String::from_utf8(bytes)
            .ok()
            .filter(|it| is_plain && it.starts_with('/') && self.matches(it.as_bytes()))
    }

    /// Whether it is `PATH*` for this path: every path below a folder, say.
    #[must_use]
    pub fn is_below(&self, path: &[u8]) -> bool {
        matches!(&*self.shape, Shape::Between(before, after) if after.normal.is_empty() && *before.normal == *path)
    }

    /// The path of the directory that it is everything below of, as it is written and without its last slash: `/app` of
    /// `/app/*`.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        let Shape::Between(before, after) = &*self.shape else { return None };
        let is_directory =
            after.normal.is_empty() && before.normal.len() > 1 && before.normal.ends_with(b"/");
        self.text.strip_suffix("/*").filter(|_| is_directory)
    }

    /// Whether an interpretation of a path is that directory.
    #[must_use]
    pub fn is_directory(&self, path: &[u8], decode: Decode) -> bool {
        let Shape::Between(before, _) = &*self.shape else { return false };
        before.of(decode).strip_suffix(b"/").is_some_and(|it| it == path)
    }

    /// Whether it matches every path: `/*`, or a form that means the same.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_all
    }
}

/// The part of a path between a beginning and an end; `None` if it lacks one of them.
fn between(path: &[u8], before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
    let end = path.len().checked_sub(after.len()).filter(|it| before.len() <= *it)?;
    // An empty literal is not compared: it has no address, and `memcmp` of glibc on AVX-512 takes 75 ns for no byte there, as its
    // masked load of an unmapped page is emulated by microcode.
    let ends = after.is_empty() || path[end..] == *after;
    (ends && begins_with(path, before)).then_some((before.len(), end))
}

/// Whether a path begins with a literal. An empty one is not compared, as in [`between`].
fn begins_with(path: &[u8], literal: &[u8]) -> bool {
    literal.is_empty() || path.starts_with(literal)
}

/// Compares a path with segments; `capture` gets the position of each captured part.
fn walk(
    segments: &[PatternSegment],
    path: &[u8],
    decode: Decode,
    mut capture: impl FnMut(usize, usize),
) -> bool {
    let mut at = 0;
    for segment in segments {
        let Some((b'/', rest)) = path[at..].split_first() else { return false };
        let from = at + 1;
        let length = rest.iter().position(|it| *it == b'/').unwrap_or(rest.len());
        let part = &rest[..length];
        match segment {
            PatternSegment::Literal(literal) if part == literal.of(decode) => {}
            PatternSegment::Literal(_) => return false,
            PatternSegment::Capture(before, after) => {
                match between(part, before.of(decode), after.of(decode)) {
                    Some((start, end)) if start < end => capture(from + start, from + end),
                    _ => return false,
                }
            }
            PatternSegment::Rest => {
                capture(from, path.len());
                return true;
            }
        }
        at = from + length;
    }
    at == path.len()
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl Hash for PathPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathPattern({:?})", self.shown)
    }
}

#[cfg(test)]
mod tests;
