//! Literal secrets in the text of a configuration: a placeholder replaces each where the text leaves larder, and the secret replaces
//! the placeholder where the text comes back. The text need not be TOML. The choice of values is in `secret_values`.

mod condition;
mod secret_values;
mod unknown_key;

use crate::kind::ValueKind;
use crate::table::Key;
use larder_semantics::expression::secret_texts;
use larder_semantics::secret::names_secret;
use ring::hmac;
use secret_values::ValueLiteral;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use toml_edit::Item;
use toml_parser::Raw;
use toml_parser::decoder::Encoding;
use unknown_key::Secrecy;

/// The beginning of a placeholder.
const MARK: &str = "hidden:";
/// The hexadecimal digits after it.
const DIGITS: usize = 16;
/// Schemes of `Authorization` that may precede a variable.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// Makes the placeholders of one process. They are a keyed hash of the secret: equal for equal secrets, and of no use for guessing one.
#[derive(Clone)]
pub struct SecretCover {
    key: hmac::Key,
    /// Whether ordinary values of fields, parameters and variables are hidden as well.
    hides_ordinary: bool,
}

/// A text without its secrets.
pub struct HiddenText {
    /// The text, with the lines of the original.
    pub text: String,
    shifts: Vec<ColumnShift>,
}

/// The characters by which a line of the original is longer from a column on.
struct ColumnShift {
    line: u32,
    from: u32,
    by: i64,
}

/// The secrets behind placeholders.
#[derive(Default)]
pub struct KnownSecrets(HashMap<String, KnownSecret>);

/// A secret, as a text has it.
struct KnownSecret {
    /// The bytes of the text: within its quotes, or all of a value without quotes.
    raw: String,
    quotes: Option<Encoding>,
    /// Its meaning.
    value: String,
    /// Whether it is hidden only because its text is not TOML: it may come back where it is shown.
    is_ordinary: bool,
}

impl KnownSecret {
    /// Whether it has one spelling in quotes of every kind.
    fn is_plain(&self) -> bool {
        let is_special = |it: char| it.is_control() || matches!(it, '"' | '\'' | '\\');
        self.raw == self.value && !self.raw.contains(is_special)
    }

    fn lines(&self) -> usize {
        self.raw.matches('\n').count()
    }

    /// The line ends at `at` that are shown for its own.
    fn ends(&self, text: &str, at: usize) -> usize {
        text[at..].bytes().take_while(|it| *it == b'\n').count().min(self.lines())
    }
}

impl Default for SecretCover {
    fn default() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new());
        // Without random numbers the process cannot serve TLS either.
        Self { key: key.unwrap_or_else(|_| std::process::abort()), hides_ordinary: false }
    }
}

impl SecretCover {
    /// For clients that may not change the configuration: an ordinary value of a field, a parameter or a variable may be a short secret under a
    /// name that does not say so.
    #[must_use]
    pub fn for_viewers(&self) -> Self {
        Self { hides_ordinary: true, ..self.clone() }
    }

    /// The text with a placeholder for each literal secret.
    #[must_use]
    pub fn hide(&self, text: &str) -> HiddenText {
        let mut hidden = HiddenText { text: String::with_capacity(text.len()), shifts: Vec::new() };
        let (mut at, (secrets, is_toml)) = (0, secrets(text, self.hides_ordinary));
        let mut end = LineCounter::default();
        for (span, secret) in secrets {
            let placeholder = self.placeholder(&secret);
            // A text that is not TOML does not become it.
            let shown = match secret.quotes {
                None if is_toml => format!("\"{placeholder}\""),
                _ => placeholder,
            };
            hidden.text.push_str(&text[at..span.start]);
            end.advance(text, span.end);
            hidden.shifts.push(ColumnShift::of(text, &span, &end, &shown));
            hidden.text.push_str(&shown);
            hidden.text.extend(std::iter::repeat_n('\n', secret.lines()));
            at = span.end;
        }
        hidden.text.push_str(&text[at..]);
        hidden
    }

    /// The placeholder of a value outside of a text; a reference to a file or to a variable is shown.
    #[must_use]
    pub fn hide_value(&self, value: &str) -> String {
        match is_reference(value, false) {
            true => value.to_owned(),
            false => self.placeholder(&KnownSecret {
                raw: value.to_owned(),
                quotes: Some(Encoding::BasicString),
                value: value.to_owned(),
                is_ordinary: false,
            }),
        }
    }

    /// Adds the secrets of a text to `known`.
    pub fn learn(&self, text: &str, known: &mut KnownSecrets) {
        for (_, secret) in secrets(text, self.hides_ordinary).0 {
            let is_ordinary = secret.is_ordinary;
            let known = known.0.entry(self.placeholder(&secret)).or_insert(secret);
            known.is_ordinary &= is_ordinary;
        }
    }

    fn placeholder(&self, secret: &KnownSecret) -> String {
        let kind = match secret.quotes {
            _ if secret.is_plain() => 0,
            None => 1,
            Some(Encoding::BasicString) => 2,
            Some(Encoding::LiteralString) => 3,
            Some(Encoding::MlBasicString) => 4,
            Some(Encoding::MlLiteralString) => 5,
        };
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&[kind]);
        context.update(secret.raw.as_bytes());
        let tag = context.sign();
        let digits: String = tag.as_ref().iter().take(DIGITS / 2).map(|it| format!("{it:02x}")).collect();
        format!("{MARK}{digits}")
    }
}

impl HiddenText {
    /// Maps a column of the original text to this text; both count characters from 1.
    #[must_use]
    pub fn column(&self, line: u32, column: u32) -> u32 {
        let first = self.shifts.partition_point(|it| it.line < line);
        let before = self.shifts[first..].iter().take_while(|it| it.line == line && it.from <= column);
        let by: i64 = before.map(|it| it.by).sum();
        u32::try_from((i64::from(column) - by).max(1)).unwrap_or(u32::MAX)
    }
}

/// The line and the column at a place of a text, which only moves forward.
#[derive(Default)]
struct LineCounter {
    at: usize,
    /// Line ends before it.
    lines: u32,
    /// Where its line begins, and the characters of the line before it.
    start: usize,
    chars: u32,
}

impl LineCounter {
    fn advance(&mut self, text: &str, to: usize) {
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let part = &text[self.at..to];
        self.lines += number(part.matches('\n').count());
        if let Some(end) = part.rfind('\n') {
            (self.start, self.chars) = (self.at + end + 1, 0);
        }
        self.chars += number(text[self.start.max(self.at)..to].chars().count());
        self.at = to;
    }
}

impl ColumnShift {
    /// The shift after the secret at `span`, whose end is `end`, and in place of which the text shows `shown`.
    fn of(text: &str, span: &Range<usize>, end: &LineCounter, shown: &str) -> Self {
        let own = text[end.start.max(span.start)..span.end].chars().count();
        // After its last line end a secret of several lines shows nothing.
        let shown = if end.start > span.start { 0 } else { shown.chars().count() };
        let number = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
        Self { line: 1 + end.lines, from: 1 + end.chars, by: number(own) - number(shown) }
    }
}

impl KnownSecrets {
    /// The text with the secret in place of each placeholder that stands for one, at a key of secrets. All other placeholders stay.
    #[must_use]
    pub fn reveal(&self, text: &str) -> String {
        if self.0.is_empty() || !text.contains(MARK) {
            return text.to_owned();
        }
        let literals = secret_values::of(text);
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for found in placeholders(text) {
            let place = literals.partition_point(|it| it.span.end < found.end);
            let literal = literals.get(place).filter(|it| it.span.start <= found.start);
            let Some(secret) = self.0.get(&text[found.clone()]) else { continue };
            let Some((span, new)) = secret.back(text, &found, literal) else { continue };
            if span.start >= at {
                out.push_str(&text[at..span.start]);
                out.push_str(&new);
                at = span.end;
            }
        }
        out.push_str(&text[at..]);
        out
    }
}

impl KnownSecret {
    /// The part of a text that is replaced for the placeholder at `found`, and its replacement.
    fn back(
        &self,
        text: &str,
        found: &Range<usize>,
        literal: Option<&ValueLiteral>,
    ) -> Option<(Range<usize>, String)> {
        let is_shown = |it: &ValueLiteral| match it.secrecy {
            Secrecy::Shown => it.quotes.is_some(),
            // The same as of an unknown key, below.
            Secrecy::Ordinary => {
                let is_whole = it.value(text).trim_end_matches('\n') == &text[found.clone()];
                !(self.is_ordinary || is_whole && unknown_key::is_hidden_value(&self.value))
            }
            Secrecy::Condition => !condition::hides(text, it, found),
            // A value that is hidden for itself comes back as the whole value, which is hidden again.
            Secrecy::Unsuspected => {
                let is_whole = it.value(text).trim_end_matches('\n') == &text[found.clone()];
                let hides_itself = is_whole && unknown_key::is_secret_value(&self.value);
                !(hides_itself || condition::hides(text, it, found))
            }
            _ => false,
        };
        if literal.is_some_and(is_shown) {
            return None;
        }
        let Some(own) = self.quotes else {
            let around = found.start.saturating_sub(1)..found.end + 1;
            let is_text =
                text.get(around.clone()).is_some_and(|it| it == format!("\"{}\"", &text[found.clone()]));
            let span = if is_text { around } else { found.clone() };
            return Some((span.start..span.end + self.ends(text, span.end), self.raw.clone()));
        };
        let literal = literal.filter(|it| it.quotes.is_some())?;
        if literal.quotes == Some(own) || self.is_plain() {
            return Some((found.start..found.end + self.ends(text, found.end), self.raw.clone()));
        }
        let value = literal.value(text).replace(&text[found.clone()], &self.value);
        Some((literal.span.clone(), super::edit::quoted(value.trim_end_matches('\n'))))
    }
}

/// The text with `# …` for each comment: a comment may have anything, such as the secret before the present one.
#[must_use]
pub fn without_comments(text: &str) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for span in secret_values::comments(text) {
        out.push_str(&text[at..span.start]);
        out.push_str(if span.len() > 1 { "# …" } else { "#" });
        at = span.end;
    }
    out.push_str(&text[at..]);
    out
}

/// The places of placeholders in the values of a text, for which nothing is known: each is a mistake. In the value of a secret, so
/// is a placeholder that was damaged: it would be saved as the secret.
#[must_use]
pub fn left_over(text: &str) -> Vec<usize> {
    let lower = text.to_ascii_lowercase();
    if !lower.contains(MARK) {
        return Vec::new();
    }
    let literals = secret_values::of(text);
    let is_value = |found: &Range<usize>| literals.iter().any(|it| it.span.contains(&found.start));
    let whole = placeholders(text).filter(is_value).map(|it| it.start);
    let is_shown = |it: &Secrecy| matches!(it, Secrecy::Shown | Secrecy::Condition | Secrecy::Unsuspected);
    let secrets = literals.iter().filter(|it| !is_shown(&it.secrecy));
    let damaged = secrets.filter_map(|it| Some(it.span.start + lower.get(it.span.clone())?.find(MARK)?));
    let mut all: Vec<usize> = whole.chain(damaged).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A text for a message, without names and passwords in URLs.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['/', '"', '\'', ',', ' ']).unwrap_or(part.len());
        let host = part[..end].rfind('@').map_or(0, |it| it + 1);
        out.push_str(if host > 0 { "://…@" } else { "://" });
        out.push_str(&part[host..]);
    }
    out
}

/// The sentence about a placeholder that stands for nothing.
pub const LEFT_OVER: &str = "\"hidden:…\" stands for a secret that larder does not show, of this key and of the saved files; write the \
                             secret, or better \"file:PATH\" or \"${NAME}\"";

/// The sentence about a secret with variables that cannot be replaced.
pub const SECRET_VARIABLE: &str = "\"${\" begins the name of an environment variable, which is not set or has no name; write \"$${\" for a literal \"${\"";

/// The warning of a secret in the text of a file.
pub const LITERAL: &str = "the secret is in the text of the file; \"file:PATH\" or \"${NAME}\" keeps it out";

/// The same of one in a condition.
pub const LITERAL_IN_CONDITION: &str =
    "the text with which the condition compares a secret is in the file; \"${NAME}\" keeps it out";

/// A condition that has secrets, for a message without them.
pub(crate) fn condition_without_secrets(key: &Key, item: &Item) -> Option<String> {
    let text = item.as_str().filter(|_| has_literal(key, item) && !key.kind.is_secret())?;
    let mut shown = text.to_owned();
    secret_texts(text).into_iter().rev().for_each(|it| shown.replace_range(it, "***"));
    Some(format!("'{shown}'"))
}

/// Whether a sentence about a condition shows a part of a secret in it: the words that lack quotes.
pub(crate) fn shows_a_secret(key: &Key, item: &Item, sentence: &str) -> bool {
    /// The length of a part that shows something.
    const PART: usize = 4;
    let Some(text) = item.as_str().filter(|_| has_literal(key, item)) else { return false };
    secret_texts(text).into_iter().any(|it| {
        let secret = &text.as_bytes()[it];
        let part = secret.len().min(PART);
        secret.windows(part).any(|part| sentence.as_bytes().windows(part.len()).any(|it| it == part))
    })
}

/// Whether a value has a literal secret. A hash of a password is none, and of a field its name decides.
pub(crate) fn has_literal(key: &Key, item: &Item) -> bool {
    if let (ValueKind::One(form), Some(text)) = (&key.kind, item.as_str())
        && form.is_condition()
    {
        return !secret_texts(text).is_empty();
    }
    if !key.kind.is_secret() || key.path.ends_with(".users") {
        return false;
    }
    let is_template = key.kind.is_template();
    let is_literal = |it: &toml_edit::Value| {
        it.as_str().is_some_and(|it| !it.is_empty() && !is_reference(it, is_template))
    };
    match item {
        Item::Value(toml_edit::Value::Array(all)) => all.iter().any(is_literal),
        item => match item.as_table_like() {
            Some(table) => table.iter().any(|(name, it)| {
                let is_secret = names_secret(name) || name.eq_ignore_ascii_case("authorization");
                is_secret && it.as_value().is_some_and(is_literal)
            }),
            None => item.as_value().is_some_and(is_literal),
        },
    }
}

fn placeholders(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(MARK).filter_map(|(at, _)| {
        let end = at + MARK.len() + DIGITS;
        let digits = text.get(at + MARK.len()..end)?;
        // In a text that is not TOML another one may follow at once.
        let rest = &text[end..];
        let is_whole = rest.starts_with(MARK) || !rest.starts_with(|it: char| it.is_alphanumeric());
        let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        (is_whole && digits.bytes().all(is_digit)).then_some(at..end)
    })
}

/// The literal secrets of a text, with ordinary values if wished, and whether it is TOML.
fn secrets(text: &str, ordinary: bool) -> (Vec<(Range<usize>, KnownSecret)>, bool) {
    let (literals, is_toml) = secret_values::with_broken(text);
    let secrets = literals.iter().flat_map(|it| {
        let parts = match it.secrecy {
            Secrecy::Condition | Secrecy::Unsuspected => condition::hidden_parts(text, it),
            _ => hidden_part(text, it, is_toml && !ordinary).into_iter().collect(),
        };
        parts.into_iter().map(|(span, quotes, value)| {
            let raw = text[span.clone()].to_owned();
            let is_ordinary = it.secrecy == Secrecy::Ordinary && !unknown_key::is_hidden_value(&value);
            (span, KnownSecret { raw, quotes, value, is_ordinary })
        })
    });
    (secrets.collect(), is_toml)
}

/// A part of a text that is hidden, the quotes around the value that has it, and its meaning.
type HiddenPart = (Range<usize>, Option<Encoding>, String);

/// The part of a value that is hidden; `None` if all of it is shown. In a text that is not TOML no name is sure.
fn hidden_part(text: &str, literal: &ValueLiteral, shows_ordinary: bool) -> Option<HiddenPart> {
    let is_template = match literal.secrecy {
        Secrecy::Shown | Secrecy::Condition | Secrecy::Unsuspected => return None,
        Secrecy::Ordinary if shows_ordinary && !unknown_key::is_hidden_value(&literal.value(text)) => {
            return None;
        }
        // As of a template: a reference is shown there in any case.
        Secrecy::Ordinary => true,
        Secrecy::Secret { is_template, .. } => is_template,
        Secrecy::Unknown => false,
    };
    let raw = &text[literal.span.clone()];
    let whole = || Some((literal.span.clone(), None, raw.to_owned()));
    let Some(quotes) = literal.quotes else {
        let is_number =
            raw.starts_with(|it: char| it.is_ascii_digit() || matches!(it, '+' | '-')) && raw.len() < 8;
        let is_shown = literal.secrecy == Secrecy::Unknown && (is_number || matches!(raw, "true" | "false"));
        return if is_shown { None } else { whole() };
    };
    let Some(inner) = literal.inner(text) else { return whole() };
    let value = literal.value(text);
    if value.is_empty() || is_reference(&value, is_template) {
        return None;
    }
    let has_user = matches!(literal.secrecy, Secrecy::Secret { has_user: true, .. });
    let user = text[inner.clone()].split_once(':').filter(|it| has_user && is_user(it.0) && !it.1.is_empty());
    let before = user.map_or(0, |it| it.0.len() + 1);
    Some((inner.start + before..inner.end, Some(quotes), value[before..].to_owned()))
}

fn is_user(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"._-@".contains(&it))
}

/// Whether a value names the place of a secret, and is none: `file:PATH`, `${NAME}`, `Bearer ${NAME}`, or a template of variables only.
pub(crate) fn is_reference(value: &str, is_template: bool) -> bool {
    if value.starts_with("file:") {
        return true;
    }
    let rest = SCHEMES.iter().find_map(|it| value.strip_prefix(it)).unwrap_or(value);
    let mut rest = Cow::Borrowed(rest);
    while let Some((variable, after)) = leading_variable(&rest, is_template) {
        let is_name = |it: u8| it.is_ascii_alphanumeric() || b"_.:-".contains(&it);
        if variable.is_empty() || !variable.bytes().all(is_name) || variable.contains(":-") {
            return false;
        }
        rest = Cow::Owned(after.to_owned());
        if rest.is_empty() {
            return true;
        }
    }
    false
}

/// The name of the variable with which a text begins, and the rest.
fn leading_variable(text: &str, is_template: bool) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("${").or_else(|| text.strip_prefix('{').filter(|_| is_template))?;
    inner.split_once('}')
}

impl ValueLiteral {
    /// The bytes within its quotes; `None` if they do not end.
    pub(self) fn inner(&self, text: &str) -> Option<Range<usize>> {
        let mark = match self.quotes? {
            Encoding::BasicString => "\"",
            Encoding::LiteralString => "'",
            Encoding::MlBasicString => "\"\"\"",
            Encoding::MlLiteralString => "'''",
        };
        let raw = &text[self.span.clone()];
        let is_whole = raw.len() >= 2 * mark.len() && raw.starts_with(mark) && raw.ends_with(mark);
        is_whole.then(|| self.span.start + mark.len()..self.span.end - mark.len())
    }

    /// The meaning of a text in quotes.
    fn value(&self, text: &str) -> String {
        let span = toml_parser::Span::new_unchecked(self.span.start, self.span.end);
        let mut value = Cow::Borrowed("");
        let raw = Raw::new_unchecked(&text[self.span.clone()], self.quotes, span);
        let _ = raw.decode_scalar(&mut value, &mut ());
        value.into_owned()
    }
}

#[cfg(test)]
mod tests;
