//! The parser of conditions: text to nodes, or the first error with its position. The meaning is in `expression`.

use super::{Compare, ExpressionError, ExpressionNode, ExpressionSubject, Match, Named, Number, TextName};
use crate::network::Network;
use larder_stdx::duration;
use larder_stdx::nearest::nearest;
use larder_stdx::size::ByteSize;
use regex::bytes::RegexBuilder;

/// Bytes of the longest condition.
const MOST_BYTES: usize = 4096;

/// The largest nesting of parentheses and `!`.
const DEEPEST: usize = 32;

/// The largest number of patterns in one condition.
const MOST_PATTERNS: usize = 16;

/// Bytes of one compiled pattern, and of its matching state.
const PATTERN_BYTES: usize = 64 << 10;

/// The meaning of a name.
#[derive(Clone, Copy)]
enum NameMeaning {
    Text(TextName),
    Number(Number),
    Named(Named),
    /// The query, or one of its parameters.
    Query,
    Tag,
}

use NameMeaning::Tag;

const HEADER: NameMeaning = NameMeaning::Named(Named::Header);

/// The names of conditions about stored responses.
const STORED: &[(&str, NameMeaning)] = &[
    ("key", NameMeaning::Text(TextName::Key)),
    ("scheme", NameMeaning::Text(TextName::Scheme)),
    ("host", NameMeaning::Text(TextName::Host)),
    ("path", NameMeaning::Text(TextName::Path)),
    ("query", NameMeaning::Text(TextName::Query)),
    ("target", NameMeaning::Text(TextName::Target)),
    ("header", HEADER),
    ("tag", Tag),
    ("status", NameMeaning::Number(Number::Status)),
    ("age", NameMeaning::Number(Number::Age)),
    ("ttl", NameMeaning::Number(Number::Ttl)),
    ("size", NameMeaning::Number(Number::Size)),
];

/// The names of conditions about finished requests.
const FINISHED: &[(&str, NameMeaning)] = &[
    ("status", NameMeaning::Number(Number::Status)),
    ("route", NameMeaning::Text(TextName::Route)),
    ("site", NameMeaning::Text(TextName::Site)),
    ("method", NameMeaning::Text(TextName::Method)),
    ("scheme", NameMeaning::Text(TextName::Scheme)),
    ("host", NameMeaning::Text(TextName::Host)),
    ("path", NameMeaning::Text(TextName::Path)),
    ("query", NameMeaning::Text(TextName::Query)),
    ("url", NameMeaning::Text(TextName::Url)),
    ("cache", NameMeaning::Text(TextName::Cache)),
    ("reason", NameMeaning::Text(TextName::Reason)),
    ("ttl", NameMeaning::Number(Number::Ttl)),
    ("bytes", NameMeaning::Number(Number::Bytes)),
    ("duration_us", NameMeaning::Number(Number::Duration)),
    ("origin", NameMeaning::Text(TextName::Origin)),
    ("origin_us", NameMeaning::Number(Number::Origin)),
    ("client", NameMeaning::Text(TextName::Client)),
    ("user_agent", NameMeaning::Text(TextName::UserAgent)),
    ("referer", NameMeaning::Text(TextName::Referer)),
    ("end", NameMeaning::Text(TextName::End)),
    ("header", HEADER),
];

/// The names of conditions about responses that arrive.
const RESPONSE: &[(&str, NameMeaning)] = &[
    ("status", NameMeaning::Number(Number::Status)),
    ("type", NameMeaning::Text(TextName::Type)),
    ("size", NameMeaning::Number(Number::Size)),
    ("header", HEADER),
    ("scheme", NameMeaning::Text(TextName::Scheme)),
    ("host", NameMeaning::Text(TextName::Host)),
    ("path", NameMeaning::Text(TextName::Path)),
    ("query", NameMeaning::Text(TextName::Query)),
    ("target", NameMeaning::Text(TextName::Target)),
];

/// The names of conditions about requests that arrive.
const REQUEST: &[(&str, NameMeaning)] = &[
    ("method", NameMeaning::Text(TextName::Method)),
    ("scheme", NameMeaning::Text(TextName::Scheme)),
    ("host", NameMeaning::Text(TextName::Host)),
    ("path", NameMeaning::Text(TextName::Path)),
    ("query", NameMeaning::Query),
    ("url", NameMeaning::Text(TextName::Url)),
    ("listener", NameMeaning::Text(TextName::Listener)),
    ("client", NameMeaning::Text(TextName::Client)),
    ("country", NameMeaning::Text(TextName::Country)),
    ("asn", NameMeaning::Number(Number::Asn)),
    ("header", HEADER),
    ("cookie", NameMeaning::Named(Named::Cookie)),
];

fn names(subject: ExpressionSubject) -> &'static [(&'static str, NameMeaning)] {
    match subject {
        ExpressionSubject::Stored => STORED,
        ExpressionSubject::Finished => FINISHED,
        ExpressionSubject::Response => RESPONSE,
        ExpressionSubject::Request => REQUEST,
    }
}

/// A text, as a condition names it.
pub(super) fn name_of(text: TextName) -> &'static str {
    let is_it = |it: &&(&str, NameMeaning)| matches!(it.1, NameMeaning::Text(found) if found == text);
    [REQUEST, RESPONSE, FINISHED, STORED].into_iter().flatten().find(is_it).map_or("", |it| it.0)
}

/// The names of a subject, as they are written.
pub(super) fn spelled(subject: ExpressionSubject) -> impl Iterator<Item = String> {
    names(subject).iter().map(|it| match it.1 {
        NameMeaning::Named(_) => format!("{}[\"name\"]", it.0),
        NameMeaning::Query => "query, query[\"name\"]".to_owned(),
        _ => it.0.to_owned(),
    })
}

/// The names of a subject, as the end of a sentence.
fn known(subject: ExpressionSubject) -> String {
    let mut all: Vec<String> = spelled(subject).collect();
    let last = all.pop().unwrap_or_default();
    format!("{} or {last}", all.join(", "))
}

/// The treatment of a backslash before a byte other than a quote or backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    /// An error: it escapes no known byte.
    Escapes,
    /// Literal: a pattern has escapes of its own, which need not be doubled.
    Stands,
}

type ExpressionResult<T> = Result<T, ExpressionError>;

/// A quoted text.
struct QuotedText {
    value: String,
    /// As it is written, with its quotes.
    written: String,
    column: usize,
}

/// The condition, and its approximate size in bytes. Errors quote and count characters of `written`, whose texts in quotes have
/// the names of variables where those of `text` have values.
pub(super) fn parse(
    subject: ExpressionSubject,
    text: &str,
    written: &str,
) -> ExpressionResult<(ExpressionNode, usize)> {
    if text.len() > MOST_BYTES {
        return error(
            MOST_BYTES,
            format!("a condition is limited to {MOST_BYTES} bytes; this one has {}", text.len()),
        );
    }
    let mut reader = ExpressionReader { subject, text, written, at: 0, depth: 0, patterns: 0, compiled: 0 };
    let root = reader.any()?;
    match reader.peek() {
        "" => {}
        _ => {
            let found = reader.shown();
            return reader.wrong(format!("unexpected {found}; combine tests with && or ||"));
        }
    }
    Ok((root, 8 * text.len() + 256 + reader.compiled * PATTERN_BYTES / 2))
}

fn error<T>(column: usize, sentence: String) -> ExpressionResult<T> {
    Err(ExpressionError { column, sentence })
}

struct ExpressionReader<'t> {
    subject: ExpressionSubject,
    text: &'t str,
    written: &'t str,
    at: usize,
    depth: usize,
    patterns: usize,
    /// The number of those that need an automaton.
    compiled: usize,
}

impl<'t> ExpressionReader<'t> {
    fn any(&mut self) -> ExpressionResult<ExpressionNode> {
        let mut all = vec![self.all()?];
        while self.take("||") {
            all.push(self.all()?);
        }
        Ok(one_or(all, ExpressionNode::Any))
    }

    fn all(&mut self) -> ExpressionResult<ExpressionNode> {
        let mut all = vec![self.not()?];
        while self.take("&&") {
            all.push(self.not()?);
        }
        Ok(one_or(all, ExpressionNode::All))
    }

    fn not(&mut self) -> ExpressionResult<ExpressionNode> {
        if self.depth == DEEPEST {
            return self.wrong(format!("parentheses and ! may be nested {DEEPEST} levels at most"));
        }
        self.depth += 1;
        let node = if self.take("!") {
            ExpressionNode::Not(Box::new(self.not()?))
        } else if self.take("(") {
            let within = self.any()?;
            self.expect(")", "a closing )")?;
            within
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> ExpressionResult<ExpressionNode> {
        let name = self.peek();
        let Some((_, found)) = names(self.subject).iter().find(|it| it.0 == name) else {
            let known = known(self.subject);
            return match name {
                "" => self.wrong(format!("a test is missing; expected {known}")),
                _ => {
                    let near = nearest(name, names(self.subject).iter().map(|it| it.0));
                    let near = near.map_or(String::new(), |it| format!("did you mean {it}? "));
                    let found = self.shown();
                    self.wrong(format!("unknown name {found}; {near}expected {known}"))
                }
            };
        };
        self.skip(name);
        match *found {
            NameMeaning::Text(TextName::Client) => self.client_test(),
            NameMeaning::Text(name) => self.text_test(|test| ExpressionNode::Text(name, test)),
            NameMeaning::Named(what) => self.named_test(what),
            NameMeaning::Query if matches!(self.peek(), "[" | ".") => self.named_test(Named::Parameter),
            NameMeaning::Query => self.text_test(|test| ExpressionNode::Text(TextName::Query, test)),
            Tag => self.tag_test(),
            NameMeaning::Number(name) => self.number_test(name),
        }
    }

    /// The test of a text that has a name of its own, in brackets or behind a dot.
    fn named_test(&mut self, what: Named) -> ExpressionResult<ExpressionNode> {
        let name = if self.take(".") {
            let rest = &self.text[self.at..];
            let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
            let name = &rest[..rest.find(|it| !is_name(it)).unwrap_or(rest.len())];
            if name.is_empty() {
                return self.wrong("a name is missing behind the dot, as in header.Accept".to_owned());
            }
            self.skip(name);
            name.to_owned()
        } else {
            let example = match what {
                Named::Header => "the name of a field, as in header[\"content-type\"]",
                Named::Cookie => "the name of a cookie, as in cookie[\"session\"]",
                Named::Parameter => "the name of a parameter, as in query[\"page\"]",
            };
            self.expect("[", example)?;
            let name = self.string()?;
            self.expect(
                "]",
                if what == Named::Header { "a ] after the field name" } else { "a ] after the name" },
            )?;
            name
        };
        self.text_test(|test| ExpressionNode::Named(what, name.into(), test))
    }

    /// A comparison as of any other text, or a membership in networks.
    fn client_test(&mut self) -> ExpressionResult<ExpressionNode> {
        if self.peek() != "in" {
            return self.text_test(|test| ExpressionNode::Text(TextName::Client, test));
        }
        self.skip("in");
        let texts = match self.peek() {
            "[" => self.list()?,
            _ => vec![self.quoted_text(Backslash::Escapes)?],
        };
        let networks = texts.into_iter().map(|it| match Network::parse(&it.value) {
            Some(network) => Ok(network),
            None => {
                error(it.column, format!("{} is not a network; write one such as \"10.0.0.0/8\"", it.written))
            }
        });
        Ok(ExpressionNode::Client(networks.collect::<ExpressionResult<_>>()?))
    }

    /// The texts of a list.
    fn list(&mut self) -> ExpressionResult<Vec<QuotedText>> {
        if !self.take("[") {
            let (next, found) = (self.peek(), self.shown());
            return self.wrong(match next {
                "" => "a list is missing, as in [\"a\", \"b\"]".to_owned(),
                _ => format!("{found} is not a list; write [\"a\", \"b\"]"),
            });
        }
        let mut all = Vec::new();
        while self.peek() != "]" || all.is_empty() {
            all.push(self.quoted_text(Backslash::Escapes)?);
            if !self.take(",") {
                break;
            }
        }
        self.expect("]", "a ] at the end of the list")?;
        Ok(all)
    }

    fn text_test(&mut self, node: impl FnOnce(Match) -> ExpressionNode) -> ExpressionResult<ExpressionNode> {
        let operator = self.peek();
        let negated = match operator {
            "==" | "~" | "contains" | "in" => false,
            "!=" | "!~" => true,
            _ => {
                let found = self.no_operator();
                return self.wrong(format!("{found}; write ==, !=, ~, !~, contains or in"));
            }
        };
        self.skip(operator);
        let test = match operator {
            "~" | "!~" => {
                let text = self.quoted_text(Backslash::Stands)?;
                self.pattern(&text)?
            }
            "in" => {
                let texts = self.list()?.into_iter();
                Match::OneOf(texts.map(|it| it.value.into_bytes().into()).collect())
            }
            "contains" => Match::Contains(self.string()?.into_bytes().into()),
            _ => Match::Is(self.string()?.into_bytes().into()),
        };
        let node = node(test);
        Ok(if negated { ExpressionNode::Not(Box::new(node)) } else { node })
    }

    fn pattern(&mut self, text: &QuotedText) -> ExpressionResult<Match> {
        let QuotedText { value: pattern, written, column } = text;
        let column = *column;
        self.patterns += 1;
        if self.patterns > MOST_PATTERNS {
            return error(column, format!("a condition may have at most {MOST_PATTERNS} patterns"));
        }
        if let Some(plain) = plain(pattern) {
            return Ok(plain);
        }
        self.compiled += 1;
        let built = RegexBuilder::new(pattern)
            .unicode(false)
            // A decoded path may contain a line feed, which must not make a difference.
            .dot_matches_new_line(self.subject == ExpressionSubject::Request)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .nest_limit(64)
            .build();
        match built {
            Ok(regex) => Ok(Match::Like(Box::new(regex))),
            Err(regex::Error::CompiledTooBig(_)) => error(
                column,
                format!("the pattern {written} compiles to more than 64 KiB; use fewer repetitions"),
            ),
            Err(why) => {
                // Its last line has the reason; those above mark the position.
                let why = why.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                error(column, format!("{written} is not a regular expression: {why}"))
            }
        }
    }

    fn tag_test(&mut self) -> ExpressionResult<ExpressionNode> {
        let operator = self.peek();
        if !matches!(operator, "==" | "!=") {
            let found = self.no_operator();
            return self.wrong(format!(
                "{found}; a tag can only be compared with == or !=, because only its hash is stored"
            ));
        }
        self.skip(operator);
        let node = ExpressionNode::Tag(self.string()?.into());
        Ok(if operator == "!=" { ExpressionNode::Not(Box::new(node)) } else { node })
    }

    fn number_test(&mut self, name: Number) -> ExpressionResult<ExpressionNode> {
        let operator = self.peek();
        let compare = match operator {
            "==" => Compare::Equal,
            "!=" => Compare::Other,
            "<" => Compare::Less,
            "<=" => Compare::AtMost,
            ">" => Compare::More,
            ">=" => Compare::AtLeast,
            "in" => {
                self.skip(operator);
                return self.number_list(name);
            }
            _ => {
                let found = self.no_operator();
                return self.wrong(format!("{found}; write ==, !=, <, <=, >, >= or in"));
            }
        };
        self.skip(operator);
        Ok(ExpressionNode::Number(name, compare, self.number(name)?))
    }

    /// A number is one of a list.
    fn number_list(&mut self, name: Number) -> ExpressionResult<ExpressionNode> {
        if !self.take("[") {
            let found = self.shown();
            return self.wrong(format!("{found} is not a list; write a list such as [301, 308]"));
        }
        let mut all = Vec::new();
        while self.peek() != "]" || all.is_empty() {
            all.push(ExpressionNode::Number(name, Compare::Equal, self.number(name)?));
            if !self.take(",") {
                break;
            }
        }
        self.expect("]", "a ] at the end of the list")?;
        Ok(one_or(all, ExpressionNode::Any))
    }

    fn number(&mut self, name: Number) -> ExpressionResult<i64> {
        let text = self.peek();
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |it| (-1, it));
        let plain = digits.parse::<i64>().ok();
        let value = match name {
            _ if !digits.starts_with(|it: char| it.is_ascii_digit()) => None,
            Number::Status | Number::Asn => plain,
            Number::Age | Number::Ttl => {
                let seconds = |it: std::time::Duration| i64::try_from(it.as_secs()).ok();
                plain.or_else(|| duration::parse(digits).ok().and_then(seconds))
            }
            Number::Duration | Number::Origin => {
                let micros = |it: std::time::Duration| i64::try_from(it.as_micros()).ok();
                plain.or_else(|| duration::parse(digits).ok().and_then(micros))
            }
            Number::Size | Number::Bytes => {
                plain.or_else(|| digits.parse::<ByteSize>().ok().and_then(|it| i64::try_from(it.0).ok()))
            }
        };
        let right = match name {
            Number::Status => "a number, such as 404",
            Number::Asn => "a number, such as 64496",
            Number::Age | Number::Ttl => "seconds, or a duration such as 60s or 1h30m",
            Number::Duration | Number::Origin => "microseconds, or a duration such as 50ms",
            Number::Size | Number::Bytes => "bytes, or a size such as 1KiB",
        };
        let Some(value) = value else {
            let found = if text.is_empty() {
                "a number is missing".to_owned()
            } else {
                format!("unexpected {}", self.shown())
            };
            return self.wrong(format!("{found}; write {right}"));
        };
        self.skip(text);
        Ok(sign * value)
    }

    /// A quoted text.
    fn string(&mut self) -> ExpressionResult<String> {
        Ok(self.quoted_text(Backslash::Escapes)?.value)
    }

    fn quoted_text(&mut self, backslash: Backslash) -> ExpressionResult<QuotedText> {
        let found = self.peek();
        if !found.starts_with('"') {
            return match found {
                "" => self.wrong("a quoted text is missing".to_owned()),
                _ => self.wrong(format!("\"{found}\" is not in quotes; write \"{found}\"")),
            };
        }
        let (column, written) = (self.column(), self.shown());
        let mut value = String::new();
        let mut rest = found[1..].chars();
        while let Some(it) = rest.next() {
            let next = rest.as_str().chars().next();
            match (it, next) {
                ('"', _) => {
                    self.skip(found);
                    return Ok(QuotedText { value, written, column });
                }
                ('\\', Some(next @ ('"' | '\\'))) => {
                    value.push(next);
                    rest.next();
                }
                ('\\', Some(next)) if backslash == Backslash::Escapes => {
                    let before = found.chars().count() - rest.as_str().chars().count() - 1;
                    let before = if found == written { before } else { 0 };
                    return error(
                        column + before,
                        format!("unknown escape \\{next}; write \\\\ for a backslash and \\\" for a quote"),
                    );
                }
                _ => value.push(it),
            }
        }
        self.wrong("the closing quote is missing".to_owned())
    }

    /// The next token; empty at the end. A string has its quotes, as far as they exist.
    fn peek(&mut self) -> &'t str {
        token(self.text, &mut self.at)
    }

    /// The next token as it is written, and its place there. Both texts have the same tokens: they differ within quotes alone.
    fn written(&mut self) -> (usize, &'t str) {
        self.peek();
        let (mut at, mut there) = (0, 0);
        loop {
            let (own, shown) = (token(self.text, &mut at), token(self.written, &mut there));
            if at >= self.at || own.is_empty() || shown.is_empty() {
                return (there, shown);
            }
            (at, there) = (at + own.len(), there + shown.len());
        }
    }

    /// The next token as it is written, in quotes.
    fn shown(&mut self) -> String {
        match self.written().1 {
            found if found.starts_with('"') => found.to_owned(),
            found => format!("\"{found}\""),
        }
    }

    fn no_operator(&mut self) -> String {
        match self.peek() {
            "" => "a comparison is missing".to_owned(),
            _ => format!("{} has nothing to compare", self.shown()),
        }
    }

    fn skip(&mut self, token: &str) {
        self.at += token.len();
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str, what: &str) -> ExpressionResult<()> {
        if self.take(token) { Ok(()) } else { self.wrong(format!("{what} is missing")) }
    }

    fn column(&mut self) -> usize {
        let (at, _) = self.written();
        self.written[..at].chars().count() + 1
    }

    fn wrong<T>(&mut self, sentence: String) -> ExpressionResult<T> {
        error(self.column(), sentence)
    }
}

/// The token of a text at a place, behind the spaces there; empty at the end.
fn token<'t>(text: &'t str, at: &mut usize) -> &'t str {
    let rest = &text[*at..];
    let spaces = rest.len() - rest.trim_start().len();
    *at += spaces;
    let rest = &rest[spaces..];
    let Some(first) = rest.chars().next() else { return "" };
    let two = rest.get(..2).unwrap_or("");
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let length = match first {
        '"' => string_length(rest),
        _ if is_word(first) => rest.find(|it| !is_word(it)).unwrap_or(rest.len()),
        '-' => rest[1..].find(|it| !is_word(it)).map_or(rest.len(), |it| it + 1),
        _ if ["||", "&&", "==", "!=", "!~", "<=", ">="].contains(&two) => 2,
        _ => first.len_utf8(),
    };
    &rest[..length]
}

/// Bytes of a string with its quotes; of the rest if it is not closed.
pub(super) fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, it) in text.char_indices().skip(1) {
        match it {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// A pattern that is only a text, with or without an anchor at either end: it needs no automaton, which is a hundred
/// times as large.
pub(super) fn plain(pattern: &str) -> Option<Match> {
    let (begins, mut rest) = pattern.strip_prefix('^').map_or((false, pattern), |it| (true, it));
    let mut text = Vec::with_capacity(rest.len());
    let mut ends = false;
    while let [first, behind @ ..] = rest.as_bytes() {
        let (it, length) = match (first, behind) {
            (b'$', []) => {
                ends = true;
                break;
            }
            // Bytes with a special meaning unless escaped; other escapes may be classes and boundaries.
            (b'\\', [it, ..]) if br"\.+*?()|[]{}^$#&-~".contains(it) => (*it, 2),
            (it, _) if !it.is_ascii() || br"\.+*?()|[]{}^$".contains(it) => return None,
            (it, _) => (*it, 1),
        };
        text.push(it);
        rest = &rest[length..];
    }
    let text = text.into();
    Some(match (begins, ends) {
        (true, true) => Match::Is(text),
        (true, false) => Match::Begins(text),
        (false, true) => Match::Ends(text),
        (false, false) => Match::Contains(text),
    })
}

fn one_or(mut all: Vec<ExpressionNode>, many: fn(Vec<ExpressionNode>) -> ExpressionNode) -> ExpressionNode {
    match all.pop() {
        Some(only) if all.is_empty() => only,
        last => {
            all.extend(last);
            many(all)
        }
    }
}
