//! Parameters of queries: where each comes from, its type, and whether a text of a client fits. A value reaches the database
//! as a bound parameter, never as a part of the query.

use std::borrow::Cow;

/// A parameter of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlParameter {
    /// Its name in the query, where it follows a colon.
    pub name: Box<str>,
    /// The part of the request with its value.
    pub source: ParameterSource,
    /// Its name there.
    pub key: Box<str>,
    /// Its type.
    pub kind: ParameterType,
    /// Its value in requests without one.
    pub absent: AbsentValue,
}

/// The part of a request with the value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSource {
    /// A capture of the path.
    Path,
    /// The query of the URL.
    Query,
    /// The body: a JSON object, or a form.
    Body,
}

impl ParameterSource {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ParameterSource::Path => "path",
            ParameterSource::Query => "query",
            ParameterSource::Body => "body",
        }
    }
}

/// The value of a parameter that a request lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbsentValue {
    /// The request is rejected with 400.
    Refused,
    /// `NULL`.
    Null,
    /// This text.
    Default(Box<str>),
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// An integer of 32 bits.
    Int,
    /// An integer of 64 bits.
    BigInt,
    /// A finite number in floating point.
    Float,
    /// A decimal number of any precision.
    Decimal,
    /// `true` or `false`.
    Bool,
    /// Text without NUL.
    Text,
    /// A UUID.
    Uuid,
    /// A date.
    Date,
    /// A point in time with its offset (RFC 3339).
    Timestamp,
    /// JSON.
    Json,
}

/// The types, by their names.
const TYPES: [(&str, ParameterType); 10] = [
    ("int", ParameterType::Int),
    ("bigint", ParameterType::BigInt),
    ("float", ParameterType::Float),
    ("decimal", ParameterType::Decimal),
    ("bool", ParameterType::Bool),
    ("text", ParameterType::Text),
    ("uuid", ParameterType::Uuid),
    ("date", ParameterType::Date),
    ("timestamp", ParameterType::Timestamp),
    ("json", ParameterType::Json),
];

/// The longest decimal number, in characters.
const LONGEST_DECIMAL: usize = 1000;

/// The form of a parameter in the configuration, as the end of a sentence.
pub const PARAMETER_FORM: &str = "SOURCE TYPE, such as \"path int\" or \"query.q text?\": SOURCE is path, query or body, with \".NAME\" if the name \
     there is another one; TYPE is int, bigint, float, decimal, bool, text, uuid, date, timestamp or json; \"?\" permits requests \
     without it, \"= VALUE\" gives those a value";

/// Whether this may be the name of a parameter in a query.
#[must_use]
pub fn is_parameter_name(name: &str) -> bool {
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

impl SqlParameter {
    /// Parses the form of the configuration.
    ///
    /// # Errors
    /// The mistake, as the end of a sentence.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let (form, default) = match text.split_once('=') {
            Some((form, default)) => (form.trim(), Some(default.trim())),
            None => (text.trim(), None),
        };
        let mut words = form.split_ascii_whitespace();
        let (Some(from), Some(kind), None) = (words.next(), words.next(), words.next()) else {
            return Err(PARAMETER_FORM.to_owned());
        };
        let (source, key) = from.split_once('.').unwrap_or((from, name));
        let source = match source {
            "path" => ParameterSource::Path,
            "query" => ParameterSource::Query,
            "body" => ParameterSource::Body,
            _ => return Err(format!("\"{source}\" is no source; {PARAMETER_FORM}")),
        };
        let (kind, is_optional) = match kind.strip_suffix('?') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let Some((_, kind)) = TYPES.into_iter().find(|it| it.0 == kind) else {
            return Err(format!("\"{kind}\" is no type; {PARAMETER_FORM}"));
        };
        let absent = match (default, is_optional) {
            (Some(_), true) => return Err("\"?\" and a default exclude each other; remove one".to_owned()),
            (Some(default), false) => match kind.read(default) {
                Some(value) => AbsentValue::Default(value.into()),
                None => return Err(format!("the default \"{default}\" is not {}", kind.expected())),
            },
            (None, true) => AbsentValue::Null,
            (None, false) => AbsentValue::Refused,
        };
        let is_key = !key.is_empty() && key.bytes().all(|it| it.is_ascii_graphic());
        if !is_key {
            return Err(format!("\"{from}\" names nothing; {PARAMETER_FORM}"));
        }
        Ok(Self { name: name.into(), source, key: key.into(), kind, absent })
    }
}

impl ParameterType {
    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|it| it.1 == self).map_or("", |it| it.0)
    }

    /// The values that fit, as the end of a sentence.
    #[must_use]
    pub fn expected(self) -> &'static str {
        match self {
            ParameterType::Int => "an integer from -2147483648 to 2147483647",
            ParameterType::BigInt => "an integer from -9223372036854775808 to 9223372036854775807",
            ParameterType::Float => "a finite number",
            ParameterType::Decimal => "a decimal number such as 12.50",
            ParameterType::Bool => "true or false",
            ParameterType::Text => "text in UTF-8 without NUL",
            ParameterType::Uuid => "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
            ParameterType::Date => "a date such as 2026-01-31",
            ParameterType::Timestamp => "a time with its offset, such as 2026-01-31T12:00:00Z",
            ParameterType::Json => "JSON",
        }
    }

    /// The value in the form that every database reads; `None` if the text does not fit. A number has one spelling only: `007`
    /// would be a second page of `7` in the cache.
    #[must_use]
    pub fn read(self, text: &str) -> Option<Cow<'_, str>> {
        let fits = match self {
            ParameterType::Int => is_integer(text) && text.parse::<i32>().is_ok(),
            ParameterType::BigInt => is_integer(text) && text.parse::<i64>().is_ok(),
            ParameterType::Float => {
                text.bytes().all(|it| it.is_ascii_digit() || matches!(it, b'.' | b'-' | b'+' | b'e' | b'E'))
                    && text.parse::<f64>().is_ok_and(|it| it.is_finite() && (it != 0.0 || is_zero(text)))
            }
            ParameterType::Decimal => is_decimal(text),
            ParameterType::Bool => matches!(text, "true" | "false"),
            ParameterType::Text => !text.contains('\0'),
            ParameterType::Uuid => is_uuid(text),
            ParameterType::Date => is_date(text),
            ParameterType::Timestamp => return timestamp(text),
            ParameterType::Json => {
                serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() && has_characters(text)
            }
        };
        fits.then_some(Cow::Borrowed(text))
    }
}

/// Whether a number in floating point has no digit but zeros in front of its exponent: databases reject one that is too small.
fn is_zero(text: &str) -> bool {
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    !digits.bytes().any(|it| matches!(it, b'1'..=b'9'))
}

/// Whether the escapes in JSON stand for characters: neither NUL, nor one half of a surrogate pair, which `jsonb` rejects.
fn has_characters(json: &str) -> bool {
    let unit =
        |text: &str| text.strip_prefix("\\u").and_then(|it| u16::from_str_radix(it.get(..4)?, 16).ok());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        let length = match unit(rest) {
            Some(0 | 0xdc00..=0xdfff) => return false,
            Some(0xd800..=0xdbff) => match unit(&rest[6..]) {
                Some(0xdc00..=0xdfff) => 12,
                _ => return false,
            },
            Some(_) => 6,
            None => 2,
        };
        rest = &rest[length..];
    }
    true
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits == "0" && text == "0" || !digits.starts_with('0');
    !digits.is_empty() && is_canonical && digits.bytes().all(|it| it.is_ascii_digit())
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    text.len() <= LONGEST_DECIMAL
        && are_digits(whole)
        && are_digits(rest)
        && (whole == "0" || !whole.starts_with('0'))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, it)| match at {
            8 | 13 | 18 | 23 => it == b'-',
            _ => it.is_ascii_hexdigit(),
        })
}

/// Two digits at a place, as a number in a range.
fn two(text: &[u8], at: usize, most: u8) -> Option<u8> {
    let (tens, ones) = (*text.get(at)?, *text.get(at + 1)?);
    let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
    Some((tens.wrapping_sub(b'0')).wrapping_mul(10).wrapping_add(ones.wrapping_sub(b'0')))
        .filter(|it| is_number && *it <= most)
}

/// `YYYY-MM-DD`, of the Gregorian calendar.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let parts = || {
        let year = u16::from(two(bytes, 0, 99)?) * 100 + u16::from(two(bytes, 2, 99)?);
        let (month, day) = (two(bytes, 5, 12)?, two(bytes, 8, 31)?);
        let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let dashes = bytes[4] == b'-' && bytes[7] == b'-';
        (bytes.len() == 10 && dashes && year > 0 && month > 0 && (1..=days).contains(&day)).then_some(())
    };
    bytes.len() == 10 && parts().is_some()
}

/// A time of RFC 3339, with a space in place of the `T`, as every database reads it.
fn timestamp(text: &str) -> Option<Cow<'_, str>> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?.as_bytes());
    let separator = text.as_bytes()[10];
    two(rest, 0, 23).zip(two(rest, 3, 59)).zip(two(rest, 6, 59))?;
    let has_colons = rest.get(2) == Some(&b':') && rest.get(5) == Some(&b':');
    let mut behind = &rest[8..];
    if let [b'.', fraction @ ..] = behind {
        let digits = fraction.iter().take_while(|it| it.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        behind = &fraction[digits..];
    }
    let is_offset = match behind {
        b"Z" | b"z" => true,
        [b'+' | b'-', offset @ ..] => {
            offset.len() == 5 && offset[2] == b':' && two(offset, 0, 23).zip(two(offset, 3, 59)).is_some()
        }
        _ => false,
    };
    let fits = is_date(date) && matches!(separator, b'T' | b't' | b' ') && has_colons && is_offset;
    fits.then(|| Cow::Owned(format!("{date} {}", &text[11..].to_ascii_uppercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let shown = |name: &str, text: &str| match SqlParameter::parse(name, text) {
            Ok(it) => {
                format!("{} {} {} {} {:?}", it.name, it.source.name(), it.key, it.kind.name(), it.absent)
            }
            Err(why) => why.split(';').next().unwrap_or_default().to_owned(),
        };
        assert_eq!("id path id int Refused", shown("id", "path int"));
        assert_eq!("id path 1 bigint Refused", shown("id", "path.1 bigint"));
        assert_eq!("q query q text Null", shown("q", "query text?"));
        assert_eq!("n query limit int Default(\"20\")", shown("n", "query.limit int = 20"));
        assert_eq!("s body s text Default(\"a = b\")", shown("s", "body text = a = b"));
        assert_eq!("\"cookie\" is no source", shown("a", "cookie text"));
        assert_eq!("\"string\" is no type", shown("a", "query string"));
        assert_eq!(
            "the default \"x\" is not an integer from -2147483648 to 2147483647",
            shown("a", "query int = x")
        );
        assert_eq!("\"?\" and a default exclude each other", shown("a", "query int? = 1"));
        assert!(
            shown("a", "query").starts_with("SOURCE TYPE") && shown("a", "query int x").starts_with("SOURCE")
        );
        assert!(shown("a", "query. int").ends_with("names nothing"));
    }

    #[track_caller]
    fn check(kind: ParameterType, fitting: &[&str], others: &[&str]) {
        for text in fitting {
            assert!(kind.read(text).is_some(), "{text} is {}", kind.expected());
        }
        for text in others {
            assert_eq!(None, kind.read(text), "{text} is not {}", kind.expected());
        }
    }

    #[test]
    fn texts_that_fit_a_type() {
        use ParameterType::{BigInt, Bool, Date, Decimal, Float, Int, Json, Text, Timestamp, Uuid};
        let not = ["", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "١", "1;", "1 or 1=1"];
        check(Int, &["0", "7", "-7", "2147483647", "-2147483648"], &[&not[..], &["2147483648"]].concat());
        check(BigInt, &["9223372036854775807", "-9223372036854775808"], &["9223372036854775808", "1.5"]);
        check(
            Float,
            &["1", "-1.5", "1e300", "0", "0.0e7"],
            &["", "inf", "NaN", "1e999", "1e-400", "-", "0x1p3", "1_0"],
        );
        check(
            Decimal,
            &["0", "-0.50", "123456789012345678901234567890.1"],
            &["", ".5", "5.", "1e3", "NaN", "00.1"],
        );
        check(Bool, &["true", "false"], &["1", "TRUE", "", "yes"]);
        check(Text, &["", "x' or 1=1 --", "\u{1F600}"], &["a\0b"]);
        check(
            Uuid,
            &["123e4567-E89b-12d3-a456-426614174000"],
            &["123e4567e89b12d3a456426614174000", "", "g"],
        );
        check(
            Date,
            &["2024-02-29", "0001-01-01"],
            &["2023-02-29", "2024-13-01", "2024-1-1", "0000-01-01", "24-01-01"],
        );
        check(
            Json,
            &["1", "{\"a\":[]}", "null", r#""\\u0000 \ud83d\ude00 \u00e9\n""#],
            &[
                "",
                "{",
                r#""\u0000""#,
                "a",
                r#""\ud800""#,
                r#""\udc00""#,
                r#""\ud83d\u0041""#,
                r#""\ud83d\n""#,
            ],
        );
        check(
            Timestamp,
            &["2026-01-31T12:00:00Z", "2026-01-31t12:00:00.123456+02:00", "2026-01-31 12:00:00-00:30"],
            &[
                "2026-01-31T12:00:00",
                "2026-01-31T24:00:00Z",
                "2026-02-30T12:00:00Z",
                "2026-01-31",
                "2026-01-31T12:00Z",
                "é",
            ],
        );
        assert_eq!(Some("2026-01-31 12:00:00Z"), Timestamp.read("2026-01-31t12:00:00z").as_deref());
    }
}
