//! Conditions that an operator writes, over stored responses, `status >= 500 && key ~ "^https?://www"`, or over requests
//! that were finished, `status >= 500 && route == "api" && cache != "hit"`. What they are true of is told by `Facts`;
//! how they are read is in `expression/parse`.
//!
//! ```text
//! condition = all ("||" all)*
//! all       = not ("&&" not)*
//! not       = "!" not | "(" condition ")" | test
//! test      = text   ("==" | "!=" | "~" | "!~" | "contains") string
//!           | number ("==" | "!=" | "<" | "<=" | ">" | ">=") number
//!           | "tag"  ("==" | "!=") string
//!           | "client" "in" string
//! ```
//!
//! | about | text | number |
//! |---|---|---|
//! | stored responses | `key`, `scheme`, `host`, `path`, `query`, `header["name"]` of the response; `tag` | `status`, `age`, `ttl`, `size` |
//! | finished requests | `route`, `site`, `method`, `scheme`, `host`, `path`, `query`, `url`, `cache`, `client`, `user_agent`, `referer`, `end`, `header["name"]` of the request | `status`, `bytes`, `duration_us`, `origin_us`, `ttl` |
//!
//! A number has a unit where its name has one: `age > 60s`, `ttl < -5m`, `size >= 1KiB`, `duration_us > 50ms`. In a string, `\"` is a quote and
//! `\\` a backslash; any other backslash is refused, but in a pattern, where it stands as it is and need not be doubled. A pattern (`~`) is of
//! the `regex` crate, over bytes, and matches anywhere unless it is anchored. A header that is absent, and a client without an
//! address, is equal to nothing and matches nothing, so that `!=` and `!~` are true of it; of several lines any may. A number
//! that is not known makes its test false, whatever the operator. A client is in a network, `client in "10.0.0.0/8"`, by its
//! address; an IPv4 address that came over IPv6 counts as IPv4.

mod parse;

use crate::network::Network;
use regex::bytes::Regex;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// What a condition is about, which says what names it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionSubject {
    /// Responses that are stored.
    Stored,
    /// Requests that were finished, with what came of them.
    Finished,
}

/// What a condition is true of, or not.
pub trait ExpressionFacts {
    /// Whether `test` says yes to the text of this name; no where it is not known. Of a stored response these are
    /// [`part_of_key`].
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
    /// A number; `None` where it is not known.
    fn number(&self, name: Number) -> Option<i64>;
    /// Whether it has this tag.
    fn has_tag(&self, tag: &str) -> bool;
    /// Whether `test` says yes to the value of a line of this field; its case does not matter.
    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

/// The names that stand for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The status code.
    Status,
    /// Age, seconds.
    Age,
    /// Seconds until it is stale; negative since.
    Ttl,
    /// Bytes of the stored body.
    Size,
    /// Bytes of body that were sent.
    Bytes,
    /// Microseconds until the last byte was sent.
    Duration,
    /// Microseconds until the origin's head had come.
    Origin,
}

/// The names that stand for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextName {
    /// The cache key.
    Key,
    /// `http` or `https`.
    Scheme,
    /// The host without its port.
    Host,
    /// The path without the query.
    Path,
    /// The query without its question mark.
    Query,
    /// The whole URL.
    Url,
    /// The request's method.
    Method,
    /// The route's name.
    Route,
    /// The site's name: its first host.
    Site,
    /// What the cache did: `hit`, `stale`, or why it forwarded, as in the access log; empty where it had no part.
    Cache,
    /// The client's address.
    Client,
    /// The request's `User-Agent`.
    UserAgent,
    /// The request's `Referer`.
    Referer,
    /// `whole` or `cut`.
    End,
}

/// A condition that was parsed. Cheap to clone; equal where the text is.
#[derive(Clone)]
pub struct Expression(Arc<ParsedExpression>);

struct ParsedExpression {
    text: Box<str>,
    root: ExpressionNode,
    weight: usize,
}

/// What is wrong with a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where: characters from the beginning, the first being 1.
    pub column: usize,
    /// What, and what would be right: one sentence.
    pub sentence: String,
}

enum ExpressionNode {
    Any(Vec<ExpressionNode>),
    All(Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Text(TextName, Match),
    Header(Box<str>, Match),
    Number(Number, Compare, i64),
    Tag(Box<str>),
}

enum Match {
    Is(Box<[u8]>),
    Contains(Box<[u8]>),
    Begins(Box<[u8]>),
    Ends(Box<[u8]>),
    Like(Box<Regex>),
    /// An address of this network.
    Within(Network),
}

#[derive(Clone, Copy)]
enum Compare {
    Equal,
    Other,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Expression {
    /// Parses a condition about stored responses.
    ///
    /// # Errors
    /// It is no condition, or too long or too deep; the error names the column.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Self::parse_about(ExpressionSubject::Stored, text)
    }

    /// Parses a condition about `subject`.
    ///
    /// # Errors
    /// As [`Expression::parse`]; a name that `subject` does not have is answered with those that it has.
    pub fn parse_about(subject: ExpressionSubject, text: &str) -> Result<Expression, ExpressionError> {
        let (root, weight) = parse::parse(subject, text)?;
        Ok(Expression(Arc::new(ParsedExpression { text: text.into(), root, weight })))
    }

    /// Whether it is true.
    #[must_use]
    pub fn holds(&self, facts: &impl ExpressionFacts) -> bool {
        self.0.root.holds(facts)
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.weight
    }

    /// A tag without which it is never true: one that it asks for by itself, or beside whatever else (`&&`).
    #[must_use]
    pub fn needed_tag(&self) -> Option<&str> {
        let together = match &self.0.root {
            ExpressionNode::All(all) => all,
            one => std::slice::from_ref(one),
        };
        together.iter().find_map(|it| match it {
            ExpressionNode::Tag(tag) => Some(&**tag),
            _ => None,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl ExpressionNode {
    fn holds(&self, facts: &impl ExpressionFacts) -> bool {
        match self {
            ExpressionNode::Any(all) => all.iter().any(|it| it.holds(facts)),
            ExpressionNode::All(all) => all.iter().all(|it| it.holds(facts)),
            ExpressionNode::Not(it) => !it.holds(facts),
            ExpressionNode::Text(name, test) => facts.text(*name, &mut |it| test.holds(it)),
            ExpressionNode::Header(name, test) => facts.header(name, &mut |it| test.holds(it)),
            ExpressionNode::Number(name, compare, than) => {
                facts.number(*name).is_some_and(|it| compare.holds(it, *than))
            }
            ExpressionNode::Tag(tag) => facts.has_tag(tag),
        }
    }
}

impl Match {
    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Match::Is(other) => *text == **other,
            Match::Contains(part) => part.is_empty() || text.windows(part.len()).any(|it| *it == **part),
            Match::Begins(part) => text.starts_with(part),
            Match::Ends(part) => text.ends_with(part),
            Match::Like(pattern) => pattern.is_match(text),
            Match::Within(network) => {
                let address = std::str::from_utf8(text).ok().and_then(|it| it.parse().ok());
                address.is_some_and(|it| network.contains(it))
            }
        }
    }
}

impl Compare {
    fn holds(self, one: i64, other: i64) -> bool {
        match one.cmp(&other) {
            Ordering::Less => matches!(self, Compare::Less | Compare::AtMost | Compare::Other),
            Ordering::Equal => matches!(self, Compare::Equal | Compare::AtMost | Compare::AtLeast),
            Ordering::Greater => matches!(self, Compare::More | Compare::AtLeast | Compare::Other),
        }
    }
}

/// The text that `name` stands for where a response is stored under `key`; `None` where the key does not tell it.
#[must_use]
pub fn part_of_key(key: &[u8], name: TextName) -> Option<&[u8]> {
    let parts = || KeyParts::of(key);
    Some(match name {
        TextName::Key => key,
        TextName::Scheme => parts().scheme,
        TextName::Host => parts().host,
        TextName::Path => parts().path,
        TextName::Query => parts().query,
        _ => return None,
    })
}

/// The parts of a key, as [`crate::key`] writes it.
struct KeyParts<'k> {
    scheme: &'k [u8],
    /// Without a port.
    host: &'k [u8],
    /// Without the query.
    path: &'k [u8],
    /// Without its question mark.
    query: &'k [u8],
}

impl<'k> KeyParts<'k> {
    fn of(key: &'k [u8]) -> Self {
        let (scheme, rest) = split(key, b"://");
        let until =
            |text: &[u8], ends: &[u8]| text.iter().position(|it| ends.contains(it)).unwrap_or(text.len());
        // What the recipe adds stands behind a space.
        let (authority, rest) = rest.split_at(until(rest, b"/? "));
        let target = &rest[..until(rest, b" ")];
        let (path, query) = split(target, b"?");
        let port =
            authority.iter().rposition(|it| *it == b':').filter(|at| !authority[*at..].contains(&b']'));
        KeyParts { scheme, host: &authority[..port.unwrap_or(authority.len())], path, query }
    }
}

/// What stands before and behind the first `mark`; nothing behind where there is none.
fn split<'t>(text: &'t [u8], mark: &[u8]) -> (&'t [u8], &'t [u8]) {
    match text.windows(mark.len()).position(|it| it == mark) {
        Some(at) => (&text[..at], &text[at + mark.len()..]),
        None => (text, &[]),
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Expression({:?})", self.text())
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "column {}: {}", self.column, self.sentence)
    }
}

impl std::error::Error for ExpressionError {}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Expression {}

#[cfg(test)]
mod tests;
