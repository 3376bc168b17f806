//! A line of the error log or the audit log, read back: its time, its event and its values. The writer is `observe::log::error`.

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
        Some(Self { time: seconds(time)?, level, event, values })
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

/// The Unix time of `2026-01-31T10:00:00Z`.
fn seconds(text: &str) -> Option<u64> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    if marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        text.get(from..to)?
            .bytes()
            .try_fold(0, |sum, it| it.is_ascii_digit().then(|| sum * 10 + u64::from(it - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) || !is_time {
        return None;
    }
    // Days since 1970 of the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days.checked_sub(719_468).map(|days| ((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expect) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799)),
            ("2026-01-31T10:00:00Z", Some(1_769_853_600)),
            ("2026-13-31T10:00:00Z", None),
            ("2026-01-31 10:00:00Z", None),
            ("2026-01-31T10:00:00", None),
            ("1969-12-31T23:59:59Z", None),
            ("ä026-01-31T10:00:00", None),
        ] {
            assert_eq!(expect, seconds(text), "{text}");
        }
    }

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
