//! A line of the error log or the audit log, read back: its time, its event and its values. The writer is `observe::log::error`.

use larder_semantics::date;
use std::borrow::Cow;

/// A line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine<'a> {
    /// Unix time, seconds.
    pub time: u64,
    /// The name of the level.
    pub level: &'a str,
    /// The name of the event.
    pub event: &'a str,
    /// The values, in the order of the line.
    pub values: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> EventLine<'a> {
    /// Takes a line without its end apart; `None` if it is not one as the log writes it.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (level, rest) = rest.split_once(' ')?;
        let (event, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut values = Vec::new();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=')?;
            let is_name = |it: u8| it.is_ascii_lowercase() || it == b'_' || it == b'-' || it.is_ascii_digit();
            if name.is_empty() || !name.bytes().all(is_name) {
                return None;
            }
            let (value, end) = match after.strip_prefix('"') {
                None => {
                    let end = after.find(' ').unwrap_or(after.len());
                    (Cow::Borrowed(&after[..end]), end)
                }
                Some(inner) => {
                    let end = 1 + end_of_quoted(inner)?;
                    (Cow::Owned(serde_json::from_str(&after[..=end]).ok()?), end + 1)
                }
            };
            values.push((name, value));
            rest = match after[end..].strip_prefix(' ') {
                Some(rest) => rest,
                None if after.len() == end => "",
                None => return None,
            };
        }
        Some(Self { time: date::parse_rfc3339(time.as_bytes())?.0, level, event, values })
    }
}

/// The position of the quote that ends a JSON string.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|it| {
        let ends = it == b'"' && !escaped;
        escaped = it == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_line_is_none() {
        for rest in
            ["", " info", " info x y", " info x a=\"b", " info x a=\"b\"c", " info x A=1", " info x =1"]
        {
            assert_eq!(None, EventLine::parse(&format!("2026-01-31T10:00:00Z{rest}")), "{rest}");
        }
        let whole = "2026-01-31T10:00:00Z info x a=1 b=\"c d\"";
        let line = EventLine::parse(whole).unwrap();
        assert_eq!(("x", 2, "c d"), (line.event, line.values.len(), &*line.values[1].1));
        assert_eq!(None, EventLine::parse(""));
    }
}
