//! One value of a row, and its form in JSON and CSV: the table of types that docs/sql-types.md shows. The decoders of each database
//! are in its own module.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SqlCell<'a> {
    /// `NULL`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of a type with at most 32 bits: always exact in JSON.
    Int(i64),
    /// An integer of a type with 64 bits: a value above 2^53 is not exact in JavaScript.
    BigInt(i64),
    /// The same without a sign.
    BigUnsigned(u64),
    /// A floating-point number; NaN and infinities are `null` in JSON.
    Float(f64),
    /// The same in 32 bits, which has a shorter exact form.
    Single(f32),
    /// A decimal number of any precision, as its digits; `NaN` and infinities are `null` in JSON.
    Decimal(&'a str),
    /// Text. Also dates, times, UUIDs and addresses, in their standard forms.
    Text(&'a str),
    /// JSON text of the database: passed unparsed, once it was found to be valid.
    Json(&'a str),
    /// JSON text that was made here.
    Made(&'a str),
    /// Bytes; base64 in every format.
    Bytes(&'a [u8]),
}

/// The form of integers of 64 bits and of decimals in JSON. It follows from the type of a column alone, not from the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberForm {
    /// As strings: exact in every client.
    #[default]
    Strings,
    /// As JSON numbers: exact for clients that parse them with enough precision.
    Json,
}

/// A text of a column of a JSON type is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// Appends a value as JSON.
///
/// # Errors
/// It is a JSON text that is not valid.
pub fn write_json(cell: SqlCell<'_>, numbers: NumberForm, out: &mut Vec<u8>) -> Result<(), NotJson> {
    match cell {
        SqlCell::Null => out.extend_from_slice(b"null"),
        SqlCell::Bool(true) => out.extend_from_slice(b"true"),
        SqlCell::Bool(false) => out.extend_from_slice(b"false"),
        SqlCell::Int(it) => out.extend_from_slice(itoa::Buffer::new().format(it).as_bytes()),
        SqlCell::BigInt(it) => write_number(itoa::Buffer::new().format(it), numbers, out),
        SqlCell::BigUnsigned(it) => write_number(itoa::Buffer::new().format(it), numbers, out),
        // Of `serde_json`: the shortest form that is read as the same number, and `null` for what JSON lacks.
        SqlCell::Float(it) => drop(serde_json::to_writer(out, &it)),
        SqlCell::Single(it) => drop(serde_json::to_writer(out, &it)),
        SqlCell::Decimal(it) if is_number(it) => write_number(it, numbers, out),
        SqlCell::Decimal(_) => out.extend_from_slice(b"null"),
        SqlCell::Text(it) => write_string(it, out),
        SqlCell::Json(it) => {
            serde_json::from_str::<serde::de::IgnoredAny>(it).map_err(|_| NotJson)?;
            // A line break outside of strings is only a space, and would end a line of NDJSON.
            out.extend(it.trim().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        }
        SqlCell::Made(it) => out.extend_from_slice(it.as_bytes()),
        SqlCell::Bytes(it) => {
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(it).as_bytes());
            out.push(b'"');
        }
    }
    Ok(())
}

fn write_number(digits: &str, numbers: NumberForm, out: &mut Vec<u8>) {
    match numbers {
        NumberForm::Json => out.extend_from_slice(digits.as_bytes()),
        NumberForm::Strings => {
            out.push(b'"');
            out.extend_from_slice(digits.as_bytes());
            out.push(b'"');
        }
    }
}

/// Whether the text of a decimal is a JSON number (RFC 8259 §6): not `NaN` and not an infinity.
fn is_number(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).starts_with(|it: char| it.is_ascii_digit())
}

/// Appends a JSON string (RFC 8259 §7).
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= b' ' && !matches!(byte, b'"' | b'\\') {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

/// Appends a value as a field of CSV (RFC 4180): `NULL` is an empty field, and an empty text is `""`.
///
/// # Errors
/// It is a JSON text that is not valid.
pub fn write_csv(cell: SqlCell<'_>, out: &mut Vec<u8>) -> Result<(), NotJson> {
    match cell {
        SqlCell::Null => {}
        SqlCell::Text(it) | SqlCell::Made(it) => write_field(it, out),
        SqlCell::Decimal(it) => out.extend_from_slice(it.as_bytes()),
        SqlCell::Float(it) if !it.is_finite() => {}
        SqlCell::Single(it) if !it.is_finite() => {}
        SqlCell::Json(it) => {
            let mut text = Vec::with_capacity(it.len());
            write_json(SqlCell::Json(it), NumberForm::Json, &mut text)?;
            write_field(&String::from_utf8_lossy(&text), out);
        }
        SqlCell::Bytes(it) => out.extend_from_slice(STANDARD.encode(it).as_bytes()),
        other => write_json(other, NumberForm::Json, out)?,
    }
    Ok(())
}

/// Appends a text as a field, in quotes if it needs them.
pub fn write_field(text: &str, out: &mut Vec<u8>) {
    let is_plain = !text.is_empty()
        && !text.bytes().any(|it| matches!(it, b'"' | b',' | b'\r' | b'\n'))
        && text.trim().len() == text.len();
    if is_plain {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for part in text.split_inclusive('"') {
        out.extend_from_slice(part.as_bytes());
        if part.ends_with('"') {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: SqlCell<'_>, strings: &str, json: &str, csv: &str) {
        let as_json = |numbers| {
            let mut out = Vec::new();
            write_json(cell, numbers, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        let mut field = Vec::new();
        write_csv(cell, &mut field).unwrap();
        assert_eq!(Ok(strings), as_json(NumberForm::Strings).as_deref(), "{cell:?}");
        assert_eq!(Ok(json), as_json(NumberForm::Json).as_deref(), "{cell:?}");
        assert_eq!(csv, String::from_utf8(field).unwrap(), "{cell:?}");
    }

    #[test]
    fn each_kind_of_value() {
        check(SqlCell::Null, "null", "null", "");
        check(SqlCell::Bool(true), "true", "true", "true");
        check(SqlCell::Int(-7), "-7", "-7", "-7");
        check(SqlCell::BigInt(7), "\"7\"", "7", "7");
        check(
            SqlCell::BigInt(i64::MIN),
            "\"-9223372036854775808\"",
            "-9223372036854775808",
            "-9223372036854775808",
        );
        check(
            SqlCell::BigUnsigned(u64::MAX),
            "\"18446744073709551615\"",
            "18446744073709551615",
            "18446744073709551615",
        );
        check(SqlCell::Float(0.1), "0.1", "0.1", "0.1");
        check(SqlCell::Float(1e300), "1e+300", "1e+300", "1e+300");
        check(SqlCell::Single(0.1), "0.1", "0.1", "0.1");
        check(SqlCell::Float(f64::NAN), "null", "null", "");
        check(SqlCell::Float(f64::NEG_INFINITY), "null", "null", "");
        check(SqlCell::Single(f32::INFINITY), "null", "null", "");
        check(SqlCell::Decimal("1.50"), "\"1.50\"", "1.50", "1.50");
        check(SqlCell::Decimal("NaN"), "null", "null", "NaN");
        check(SqlCell::Decimal("-Infinity"), "null", "null", "-Infinity");
        check(SqlCell::Text(""), "\"\"", "\"\"", "\"\"");
        check(
            SqlCell::Text("a\"b\\\u{1}\n€"),
            r#""a\"b\\\u0001\n€""#,
            r#""a\"b\\\u0001\n€""#,
            "\"a\"\"b\\\u{1}\n€\"",
        );
        check(SqlCell::Text(" a"), "\" a\"", "\" a\"", "\" a\"");
        check(SqlCell::Json(" {\"a\":\n1.10}\n"), "{\"a\": 1.10}", "{\"a\": 1.10}", "\"{\"\"a\"\": 1.10}\"");
        check(SqlCell::Json("9007199254740993"), "9007199254740993", "9007199254740993", "9007199254740993");
        check(SqlCell::Made("[1,null]"), "[1,null]", "[1,null]", "\"[1,null]\"");
        check(SqlCell::Bytes(&[0, 255]), "\"AP8=\"", "\"AP8=\"", "AP8=");
    }

    #[test]
    fn invalid_json_is_not_passed() {
        for text in ["", "{", "nul", "{\"a\":1}x", "\"\u{1}\"", "NaN"] {
            assert_eq!(
                Err(NotJson),
                write_json(SqlCell::Json(text), NumberForm::Json, &mut Vec::new()),
                "{text}"
            );
        }
    }
}
