//! The secrets within conditions: places in the text of a file for those of the meaning of a value.

use super::HiddenPart;
use super::secret_values::ValueLiteral;
use larder_semantics::expression::secret_texts;
use std::ops::Range;
use toml_parser::decoder::Encoding;

/// The hidden parts of a condition. One whose quotes do not end is hidden.
pub(super) fn hidden_parts(text: &str, literal: &ValueLiteral) -> Vec<HiddenPart> {
    let Some(inner) = literal.inner(text) else {
        return vec![(literal.span.clone(), None, text[literal.span.clone()].to_owned())];
    };
    let decoded = DecodedText::of(text, inner, literal.quotes);
    let part = |it: Range<usize>| (decoded.place(&it), literal.quotes, decoded.text[it].to_owned());
    secret_texts(&decoded.text).into_iter().map(part).collect()
}

/// Whether a place of a condition is hidden.
pub(super) fn hides(text: &str, literal: &ValueLiteral, place: &Range<usize>) -> bool {
    hidden_parts(text, literal).iter().any(|it| it.0.start <= place.start && place.end <= it.0.end)
}

/// The meaning of a text in quotes, with the place of each of its bytes.
struct DecodedText {
    text: String,
    /// Where the bytes begin in the file, and the end.
    places: Vec<usize>,
}

impl DecodedText {
    fn of(file: &str, inner: Range<usize>, quotes: Option<Encoding>) -> Self {
        let has_escapes = matches!(quotes, Some(Encoding::BasicString | Encoding::MlBasicString));
        let (mut it, mut at) = (Self { text: String::new(), places: Vec::new() }, inner.start);
        while let Some(first) = file[at..inner.end].chars().next() {
            let (meaning, length) = match first {
                '\\' if has_escapes => escape(&file[at..inner.end]),
                other => (Some(other), other.len_utf8()),
            };
            it.text.extend(meaning);
            it.places.resize(it.text.len(), at);
            at += length;
        }
        it.places.push(inner.end);
        it
    }

    fn place(&self, part: &Range<usize>) -> Range<usize> {
        self.places[part.start]..self.places[part.end]
    }
}

/// The meaning of the escape with which a text begins, and its length.
fn escape(text: &str) -> (Option<char>, usize) {
    let Some(kind) = text[1..].chars().next() else { return (None, text.len()) };
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => 0,
    };
    let meaning = match kind {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'e' => '\u{1b}',
        'x' | 'u' | 'U' => {
            let Some(code) = text.get(2..2 + digits) else { return (None, text.len()) };
            let meaning = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
            return (meaning, 2 + digits);
        }
        it if it.is_whitespace() => return (None, text.len() - text[1..].trim_start().len()),
        it => it,
    };
    (Some(meaning), 1 + kind.len_utf8())
}
