//! Conditions of an operator, over stored responses, `status >= 500 && key ~ "^https?://www"`, over finished requests,
//! `status >= 500 && route == "api" && cache != "hit"`, or over requests that arrive, `method in ["GET", "POST"]`. The
//! values come from `ExpressionFacts`; the parser is in `expression/parse`.
//!
//! ```text
//! condition = all ("||" all)*
//! all       = not ("&&" not)*
//! not       = "!" not | "(" condition ")" | test
//! test      = text   ("==" | "!=" | "~" | "!~" | "contains") string
//!           | text   "in" list
//!           | number ("==" | "!=" | "<" | "<=" | ">" | ">=") number
//!           | number "in" "[" number ("," number)* "]"
//!           | "tag"  ("==" | "!=") string
//!           | "client" "in" (string | list)
//! list      = "[" string ("," string)* "]"
//! ```
//!
//! | subject | text | number |
//! |---|---|---|
//! | stored responses | `key`, `scheme`, `host`, `path`, `query`, `target` (both), `header["name"]` of the response; `tag` | `status`, `age`, `ttl`, `size` |
//! | finished requests | `route`, `site`, `method`, `scheme`, `host`, `path`, `query`, `url`, `cache`, `reason`, `origin`, `client`, `user_agent`, `referer`, `end`, `header["name"]` of the request | `status`, `bytes`, `duration_us`, `origin_us`, `ttl` |
//! | responses that arrive | `scheme`, `host`, `path`, `query`, `target`, `type`, `header["name"]` of the response | `status`, `size` |
//! | requests | `method`, `scheme`, `host`, `path`, `query`, `url`, `listener`, `client`, `country`, `header["name"]`, `cookie["name"]`, `query["name"]` | `asn` |
//!
//! `header.Accept` is a shorter form of `header["Accept"]`, and so for cookies and parameters. Of a request that arrives,
//! the path is in its normal form, by which routes are chosen (`path::NORMAL`), the host in lower case.
//!
//! A number has the unit of its name, if any: `age > 60s`, `ttl < -5m`, `size >= 1KiB`, `duration_us > 50ms`. In a
//! string, `\"` is a quote and `\\` a backslash; any other backslash is rejected, except in a pattern, where it is
//! literal and need not be doubled. A pattern (`~`) is of the `regex` crate, over bytes, and matches anywhere unless it
//! is anchored. A missing field, cookie or parameter, and the address of a client without one, is the empty text for every
//! operator. Of several lines, cookies or parameters of one name any may make the condition true, with `!=`, `!~` and `!` as well: a condition and its
//! negation may both hold. Where it admits, each has to (`holds_for_each`), since the application may read any of them. An unknown number makes
//! its test false, for every operator. A client is in a network, `client in "10.0.0.0/8"`, by its address; an IPv4 address that arrived over IPv6 counts as
//! IPv4.

mod mistakes;
mod parse;
mod possible;
mod secrets;

pub use possible::{RequestDomain, TextDomain};
pub use secrets::secret_texts;

use crate::network::Network;
use regex::bytes::Regex;
use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The subject of a condition, which determines its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionSubject {
    /// Stored responses.
    Stored,
    /// Finished requests with their results.
    Finished,
    /// Responses that arrive, with their URL: `cache.rule`.
    Response,
    /// Requests that arrive, before there is a response: `site.route.when` and other rules.
    Request,
}

/// The values that a condition is evaluated against.
pub trait ExpressionFacts {
    /// Whether `test` is true for the text of this name; false if it is unknown, without a call: the condition then takes
    /// it as empty. For a stored response these are [`part_of_key`].
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
    /// A number; `None` if it is unknown.
    fn number(&self, name: Number) -> Option<i64>;
    /// Whether it has this tag.
    fn has_tag(&self, tag: &str) -> bool;
    /// Whether `test` is true for the value of a line of this field, whose name is compared in any case.
    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
    /// Whether `test` is true for the value of a cookie of this name.
    fn cookie(&self, _name: &str, _test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        false
    }
    /// Whether `test` is true for the decoded value of a query parameter of this name.
    fn parameter(&self, _name: &str, _test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        false
    }
    /// The address of the client; `None` if it is unknown or has none.
    fn client(&self) -> Option<IpAddr> {
        None
    }
}

/// The names of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The status code.
    Status,
    /// Age, seconds.
    Age,
    /// Seconds until it is stale; negative if it is.
    Ttl,
    /// Bytes of the stored body.
    Size,
    /// Bytes of body sent.
    Bytes,
    /// Microseconds until the last byte was sent.
    Duration,
    /// Microseconds until the origin's head arrived.
    Origin,
    /// The number of the client's autonomous system.
    Asn,
}

/// The names of texts.
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
    /// The path, with the query behind a question mark if there is one.
    Target,
    /// The whole URL.
    Url,
    /// The request's method.
    Method,
    /// The route's name.
    Route,
    /// The site's name: its first host.
    Site,
    /// The cache result: `hit`, `stale`, or the reason for forwarding, as in the access log; empty if the cache was not
    /// involved.
    Cache,
    /// The reason for asking the origin, such as `evicted` (`miss_reason`); empty if it was not asked.
    Reason,
    /// The origin that was asked, as in the configuration; empty if none was.
    Origin,
    /// The client's address.
    Client,
    /// The request's `User-Agent`.
    UserAgent,
    /// The request's `Referer`.
    Referer,
    /// `whole` or `cut`.
    End,
    /// The media type of the response.
    Type,
    /// The name of the listener: its address as it is configured.
    Listener,
    /// The client's country: two letters in upper case, empty if it is unknown.
    Country,
}

/// The texts that a request has any number of, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// The lines of a field.
    Header,
    /// A cookie.
    Cookie,
    /// A parameter of the query.
    Parameter,
}

/// A parsed condition. Cheap to clone; equal if the text is.
#[derive(Clone)]
pub struct Expression(Arc<ParsedExpression>);

struct ParsedExpression {
    text: Box<str>,
    /// The text as it is written, without secrets.
    shown: Box<str>,
    root: ExpressionNode,
    weight: usize,
}

/// An error in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Its position: characters from the beginning, the first being 1.
    pub column: usize,
    /// The error and a valid form: one sentence.
    pub sentence: String,
}

enum ExpressionNode {
    Any(Vec<ExpressionNode>),
    All(Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Text(TextName, Match),
    Named(Named, Box<str>, Match),
    /// The client's address is in one of these networks.
    Client(Box<[Network]>),
    Number(Number, Compare, i64),
    Tag(Box<str>),
}

enum Match {
    Is(Box<[u8]>),
    Contains(Box<[u8]>),
    Begins(Box<[u8]>),
    Ends(Box<[u8]>),
    OneOf(Box<[Box<[u8]>]>),
    Like(Box<Regex>),
}

/// The truth of a test of several lines, cookies or parameters of one name. Within a negation it is the other one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    /// True if it is true for one of them.
    Some,
    /// True if it is true for each of them.
    Each,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    Equal,
    Other,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Expression {
    /// The names that conditions about `subject` read, as they are written.
    pub fn names_of(subject: ExpressionSubject) -> impl Iterator<Item = String> {
        parse::spelled(subject)
    }

    /// Parses a condition about stored responses.
    ///
    /// # Errors
    /// It is not a condition, or too long or too deep; the error has the column.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Self::parse_about(ExpressionSubject::Stored, text)
    }

    /// Parses a condition about `subject`.
    ///
    /// # Errors
    /// As [`Expression::parse`]; for an unknown name the error lists the names of `subject`.
    pub fn parse_about(subject: ExpressionSubject, text: &str) -> Result<Expression, ExpressionError> {
        Self::parse_written(subject, text, text)
    }

    /// As [`Expression::parse_about`]; `written` is the text before the variables of the environment were replaced in its quoted
    /// texts: it is shown, also in errors.
    ///
    /// # Errors
    /// As [`Expression::parse_about`].
    pub fn parse_written(
        subject: ExpressionSubject,
        text: &str,
        written: &str,
    ) -> Result<Expression, ExpressionError> {
        let (root, weight) = parse::parse(subject, text, written)?;
        let shown = secrets::without_secrets(written).into();
        Ok(Expression(Arc::new(ParsedExpression { text: text.into(), shown, root, weight })))
    }

    /// Whether the condition is true, for one of several lines, cookies or parameters of one name: the way to refuse, or to choose by it.
    #[must_use]
    pub fn holds(&self, facts: &impl ExpressionFacts) -> bool {
        self.0.root.holds(facts, Repeated::Some)
    }

    /// Whether the condition is true, for each of several lines, cookies or parameters of one name: the way to admit by it.
    #[must_use]
    pub fn holds_for_each(&self, facts: &impl ExpressionFacts) -> bool {
        self.0.root.holds(facts, Repeated::Each)
    }

    /// Its approximate size in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.weight
    }

    /// A tag without which the condition is never true: one that it requires alone, or in a conjunction (`&&`).
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

    /// Whether it reads the status.
    #[must_use]
    pub fn reads_status(&self) -> bool {
        self.0.root.reads(&|it| matches!(it, ExpressionNode::Number(Number::Status, ..)))
    }

    /// Whether it reads the client's country.
    #[must_use]
    pub fn reads_country(&self) -> bool {
        self.0.root.reads(&|it| matches!(it, ExpressionNode::Text(TextName::Country, _)))
    }

    /// Whether it reads the number of the client's autonomous system.
    #[must_use]
    pub fn reads_asn(&self) -> bool {
        self.0.root.reads(&|it| matches!(it, ExpressionNode::Number(Number::Asn, ..)))
    }

    /// Whether it reads facts of the client that are in no field of its request: address, country, autonomous system, listener.
    #[must_use]
    pub fn reads_client(&self) -> bool {
        let names = [TextName::Client, TextName::Country, TextName::Listener];
        self.0.root.reads(&|it| match it {
            ExpressionNode::Text(name, _) => names.contains(name),
            ExpressionNode::Client(_) | ExpressionNode::Number(Number::Asn, ..) => true,
            _ => false,
        })
    }

    /// The request fields that it reads, in their order. `Host` is not among them: it is part of the URL.
    #[must_use]
    pub fn fields(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.0.root.visit(&mut |it| match it {
            ExpressionNode::Named(Named::Header, name, _) if !name.eq_ignore_ascii_case("host") => {
                found.push(&**name);
            }
            ExpressionNode::Named(Named::Cookie, ..) => found.push("Cookie"),
            _ => {}
        });
        found
    }

    /// The cookies whose values it compares with texts, in their order: not those of which it reads the presence alone.
    #[must_use]
    pub fn compared_cookies(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.0.root.visit(&mut |it| match it {
            ExpressionNode::Named(Named::Cookie, _, Match::Is(text)) if text.is_empty() => {}
            ExpressionNode::Named(Named::Cookie, name, _) => found.push(&**name),
            _ => {}
        });
        found
    }

    /// Its source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Its text for people, metrics and logs: as it is written, with `${NAME}` for a variable of the environment, and `"***"` for each of
    /// [`secret_texts`].
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.0.shown
    }
}

impl ExpressionNode {
    /// Whether some test is one of these.
    fn reads(&self, is_one: &dyn Fn(&ExpressionNode) -> bool) -> bool {
        match self {
            ExpressionNode::Any(all) | ExpressionNode::All(all) => all.iter().any(|it| it.reads(is_one)),
            ExpressionNode::Not(it) => it.reads(is_one),
            test => is_one(test),
        }
    }

    /// Shows each test to `see`.
    fn visit<'n>(&'n self, see: &mut dyn FnMut(&'n ExpressionNode)) {
        match self {
            ExpressionNode::Any(all) | ExpressionNode::All(all) => all.iter().for_each(|it| it.visit(see)),
            ExpressionNode::Not(it) => it.visit(see),
            test => see(test),
        }
    }

    fn holds(&self, facts: &impl ExpressionFacts, of: Repeated) -> bool {
        match self {
            ExpressionNode::Any(all) => all.iter().any(|it| it.holds(facts, of)),
            ExpressionNode::All(all) => all.iter().all(|it| it.holds(facts, of)),
            ExpressionNode::Not(it) => !it.holds(facts, of.negated()),
            ExpressionNode::Text(name, test) => test.holds_of(of, |test| facts.text(*name, test)),
            ExpressionNode::Named(what, name, test) => test.holds_of(of, |test| match what {
                Named::Header => facts.header(name, test),
                Named::Cookie => facts.cookie(name, test),
                Named::Parameter => facts.parameter(name, test),
            }),
            ExpressionNode::Client(networks) => {
                facts.client().is_some_and(|it| networks.iter().any(|network| network.contains(it)))
            }
            ExpressionNode::Number(name, compare, than) => {
                facts.number(*name).is_some_and(|it| compare.holds(it, *than))
            }
            ExpressionNode::Tag(tag) => facts.has_tag(tag),
        }
    }
}

impl Repeated {
    fn negated(self) -> Self {
        match self {
            Repeated::Some => Repeated::Each,
            Repeated::Each => Repeated::Some,
        }
    }
}

impl Match {
    /// Whether it is true for the texts that `find` tests until one passes; for the empty text if there are none.
    fn holds_of(&self, of: Repeated, find: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> bool) -> bool {
        let is_for_each = of == Repeated::Each;
        let mut is_missing = true;
        let found = find(&mut |it| {
            is_missing = false;
            self.holds(it) != is_for_each
        });
        if is_missing { self.holds(b"") } else { found != is_for_each }
    }

    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Match::Is(other) => *text == **other,
            Match::Contains(part) => part.is_empty() || text.windows(part.len()).any(|it| *it == **part),
            Match::Begins(part) => text.starts_with(part),
            Match::Ends(part) => text.ends_with(part),
            Match::OneOf(all) => all.iter().any(|it| *text == **it),
            Match::Like(pattern) => pattern.is_match(text),
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

/// The text of `name` for a response stored under `key`; `None` if the key does not contain it.
#[must_use]
pub fn part_of_key(key: &[u8], name: TextName) -> Option<&[u8]> {
    let parts = || KeyParts::of(key);
    Some(match name {
        TextName::Key => key,
        TextName::Scheme => parts().scheme,
        TextName::Host => parts().host,
        TextName::Path => parts().path,
        TextName::Query => parts().query,
        TextName::Target => parts().target,
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
    /// The path and the query.
    target: &'k [u8],
}

impl<'k> KeyParts<'k> {
    fn of(key: &'k [u8]) -> Self {
        let (scheme, rest) = split(key, b"://");
        let until =
            |text: &[u8], ends: &[u8]| text.iter().position(|it| ends.contains(it)).unwrap_or(text.len());
        // The additions of the recipe follow after a space.
        let (authority, rest) = rest.split_at(until(rest, b"/? "));
        let target = &rest[..until(rest, b" ")];
        let (path, query) = split(target, b"?");
        let port =
            authority.iter().rposition(|it| *it == b':').filter(|at| !authority[*at..].contains(&b']'));
        KeyParts { scheme, host: &authority[..port.unwrap_or(authority.len())], path, query, target }
    }
}

/// The parts before and after the first `mark`; without one the second part is empty.
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
