//! The values in the text of a configuration that may be secrets, by their keys. The text need not be TOML: the parser goes on after an
//! error, and a line with one counts as a whole.

use super::unknown_key::{self, Secrecy};
use std::ops::Range;
use toml_parser::decoder::Encoding;
use toml_parser::lexer::{Token, TokenKind};
use toml_parser::parser::{Event, EventKind, RecursionGuard, parse_document};
use toml_parser::{ParseError, Raw, Source};

/// The most nested brackets, as in `toml_edit`.
const DEPTH: u32 = 80;

/// A value in a text.
pub(super) struct ValueLiteral {
    /// Its bytes, with its quotes.
    pub span: Range<usize>,
    /// Its quotes; `None` without.
    pub quotes: Option<Encoding>,
    /// Whether it may be a secret.
    pub secrecy: Secrecy,
}

/// The values of a text, in its order. Of one that is not TOML, as far as they are recognised, and no key is sure.
pub(super) fn of(text: &str) -> Vec<ValueLiteral> {
    let (mut walk, tokens, errors) = LiteralWalk::over(text);
    if !errors.is_empty() {
        walk.add_strings(&tokens);
        walk.literals.iter_mut().for_each(|it| it.secrecy = Secrecy::Unknown);
    }
    walk.literals
}

/// The values that may be secrets. Of a text that is not TOML, the rest of each line from an error on is one value, and so is the whole line unless it begins
/// with the value of a key that is shown. Also returns whether it is TOML. Texts without an end and texts of several lines may have swallowed others.
pub(super) fn with_broken(text: &str) -> (Vec<ValueLiteral>, bool) {
    let (mut walk, tokens, errors) = LiteralWalk::over(text);
    let is_toml = errors.is_empty();
    if !is_toml {
        let is_unsure = |it: &ValueLiteral| {
            text[it.span.clone()].contains('\n') || it.quotes.is_some() && it.inner(text).is_none()
        };
        walk.literals.iter_mut().filter(|it| is_unsure(it)).for_each(|it| it.secrecy = Secrecy::Unknown);
        walk.add_strings(&tokens);
        walk.cover_lines(text, &errors);
    }
    (walk.literals, is_toml)
}

/// The comments of a text, in its order.
pub(super) fn comments(text: &str) -> Vec<Range<usize>> {
    let skipped = skipped(text);
    let plain = if skipped > 0 { " ".repeat(skipped) + &text[skipped..] } else { text.to_owned() };
    let tokens = Source::new(&plain).lex().into_vec().into_iter();
    tokens.filter(|it| it.kind() == TokenKind::Comment).map(|it| it.span().start()..it.span().end()).collect()
}

/// A text without the mark of UTF-8 has the positions of one with it.
fn skipped(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

#[derive(Default)]
struct LiteralWalk {
    path: Vec<String>,
    /// The length of the path around the present key.
    base: usize,
    is_header: bool,
    /// The bases around brackets and braces, with the places of these.
    around: Vec<(usize, usize)>,
    literals: Vec<ValueLiteral>,
    judged: unknown_key::JudgedKeys,
}

impl LiteralWalk {
    /// The values of a text, with its tokens and the places of its errors.
    fn over(text: &str) -> (Self, Vec<Token>, Vec<usize>) {
        let skipped = skipped(text);
        let plain = if skipped > 0 { " ".repeat(skipped) + &text[skipped..] } else { text.to_owned() };
        let tokens = Source::new(&plain).lex().into_vec();
        let (mut events, mut errors): (Vec<Event>, Vec<ParseError>) = Default::default();
        parse_document(&tokens, &mut RecursionGuard::new(&mut events, DEPTH), &mut errors);
        let errors = errors.iter().filter_map(|it| it.unexpected().or(it.context()));
        let broken = events.iter().filter(|it| it.kind() == EventKind::Error).map(Event::span);
        let wrong = events.iter().filter(|it| it.kind() == EventKind::Scalar && !is_right(&plain, it));
        let broken = broken.chain(wrong.map(Event::span));
        let mut errors: Vec<usize> = errors.chain(broken).map(|it| it.start()).collect();
        errors.sort_unstable();
        errors.dedup();
        let mut walk = Self::default();
        events.iter().for_each(|it| walk.event(&plain, it, &errors));
        walk.literals.sort_by_key(|it| it.span.start);
        (walk, tokens, errors)
    }

    fn event(&mut self, text: &str, event: &Event, errors: &[usize]) {
        match event.kind() {
            EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                self.path.clear();
                self.around.clear();
                self.is_header = true;
            }
            EventKind::StdTableClose | EventKind::ArrayTableClose => {
                self.base = self.path.len();
                self.is_header = false;
            }
            EventKind::SimpleKey => {
                let (span, mut name) = (event.span(), std::borrow::Cow::Borrowed(""));
                let raw = &text[span.start()..span.end()];
                Raw::new_unchecked(raw, event.encoding(), span).decode_key(&mut name, &mut ());
                self.path.push(name.into_owned());
            }
            EventKind::InlineTableOpen | EventKind::ArrayOpen => {
                self.around.push((self.base, event.span().start()));
                self.base = self.path.len();
            }
            EventKind::InlineTableClose | EventKind::ArrayClose => {
                self.base = self.around.pop().map_or(self.base, |it| it.0);
                self.path.truncate(self.base);
            }
            EventKind::Scalar => {
                let span = event.span().start()..event.span().end();
                // After an error within brackets, other keys may have been read as their members.
                let begins = self.around.first().map_or(span.start, |it| it.1);
                let later = errors.partition_point(|it| *it < begins);
                let is_sure = errors.get(later).is_none_or(|it| *it >= span.start);
                let mut literal = ValueLiteral { span, quotes: event.encoding(), secrecy: Secrecy::Unknown };
                if is_sure {
                    literal.secrecy = self.secrecy(text, &literal, errors.is_empty());
                }
                self.literals.push(literal);
                self.path.truncate(self.base);
            }
            EventKind::Newline if self.around.is_empty() && !self.is_header => self.path.truncate(self.base),
            _ => {}
        }
    }

    /// The secrecy of a value of the present key. In a text that is not TOML the path of an unknown key may be wrong.
    fn secrecy(&mut self, text: &str, literal: &ValueLiteral, is_toml: bool) -> Secrecy {
        if let Some(known) = unknown_key::known(&self.path) {
            return known;
        }
        if !is_toml || !self.judged.shows(&self.path) || unknown_key::is_secret_value(&literal.value(text)) {
            return Secrecy::Unknown;
        }
        if literal.quotes.is_some() { Secrecy::Unsuspected } else { Secrecy::Shown }
    }

    /// Adds texts in quotes that are no values of keys.
    fn add_strings(&mut self, tokens: &[Token]) {
        let known = self.literals.len();
        for token in tokens {
            let quotes = match token.kind() {
                TokenKind::BasicString => Encoding::BasicString,
                TokenKind::LiteralString => Encoding::LiteralString,
                TokenKind::MlBasicString => Encoding::MlBasicString,
                TokenKind::MlLiteralString => Encoding::MlLiteralString,
                _ => continue,
            };
            let span = token.span().start()..token.span().end();
            // No literal meets another one, and no token.
            let before = self.literals[..known].partition_point(|it| it.span.start < span.end);
            if before == 0 || self.literals[before - 1].span.end <= span.start {
                self.literals.push(ValueLiteral { span, quotes: Some(quotes), secrecy: Secrecy::Unknown });
            }
        }
        self.literals.sort_by_key(|it| it.span.start);
    }

    /// Makes each line with an error, in the order of the text, one value, or the rest of it.
    fn cover_lines(&mut self, text: &str, errors: &[usize]) {
        let mut left = std::mem::take(&mut self.literals).into_iter().peekable();
        let mut covered = 0;
        for at in errors.iter().map(|it| *it.min(&text.len())) {
            // The rest of the line is covered by its first error.
            if at < covered {
                continue;
            }
            let start = text.as_bytes()[..at].iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
            let end =
                text.as_bytes()[at..].iter().position(|it| *it == b'\n').map_or(text.len(), |it| at + it);
            covered = end;
            while let Some(it) = left.next_if(|it| it.span.start < end) {
                self.literals.push(it);
            }
            let from =
                |literals: &[ValueLiteral], place: usize| literals.partition_point(|it| it.span.end <= place);
            let is_shown =
                |it: &ValueLiteral| it.secrecy == Secrecy::Shown && (start..at).contains(&it.span.start);
            let start =
                if self.literals[from(&self.literals, start)..].iter().any(is_shown) { at } else { start };
            let line = &text[start..end];
            let start = start + (line.len() - line.trim_start().len());
            let mut span = start..start + line.trim().len();
            if span.is_empty() {
                continue;
            }
            for it in self.literals.drain(from(&self.literals, span.start)..) {
                span = span.start.min(it.span.start)..span.end.max(it.span.end);
            }
            self.literals.push(ValueLiteral { span, quotes: None, secrecy: Secrecy::Unknown });
        }
        self.literals.extend(left);
    }
}

/// Whether a value is one of TOML.
fn is_right(text: &str, event: &Event) -> bool {
    let (span, mut errors) = (event.span(), Vec::new());
    let raw = Raw::new_unchecked(&text[span.start()..span.end()], event.encoding(), span);
    let _ = raw.decode_scalar(&mut std::borrow::Cow::Borrowed(""), &mut errors);
    errors.is_empty()
}
