//! Values of SQLite, by the declared type of their column. SQLite itself only has integers, floating-point numbers, text and bytes.

use crate::cell::{NumberForm, SqlCell};
use rusqlite::types::ValueRef;
use std::fmt::Write as _;

/// The largest integer that every client of JSON reads exactly: 2^53.
const EXACT: u64 = 1 << 53;

/// The kind of a column, by the words of its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqliteKind {
    /// An integer that is a JSON number.
    Integer,
    /// An integer of 64 bits.
    BigInteger,
    Decimal,
    Boolean,
    Real,
    Json,
    Bytes,
    /// Text, dates, and columns without a declared type, such as expressions: values have the form of their own type.
    Own,
}

impl SqliteKind {
    /// The kind of a column with this declaration.
    pub fn of(declared: Option<&str>) -> Self {
        let declared = declared.unwrap_or_default().to_ascii_uppercase();
        let name = declared.split('(').next().unwrap_or_default().trim();
        let has = |it: &str| name.contains(it);
        match name {
            "BIGINT" | "INT8" | "INT64" | "UNSIGNED BIG INT" | "BIGINT UNSIGNED" | "UNSIGNED BIGINT" => {
                Self::BigInteger
            }
            "BOOLEAN" | "BOOL" => Self::Boolean,
            "JSON" | "JSONB" => Self::Json,
            "DECIMAL" | "NUMERIC" | "NUMBER" => Self::Decimal,
            // The rules by which SQLite itself finds the affinity of a column.
            _ if has("INT") && !has("POINT") => Self::Integer,
            _ if has("BLOB") || has("BINARY") => Self::Bytes,
            _ if has("REAL") || has("FLOA") || has("DOUB") => Self::Real,
            _ => Self::Own,
        }
    }
}

impl SqliteKind {
    /// The nearest type of MySQL: `MYSQL_TYPE_…`.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Integer | Self::BigInteger => "LONGLONG",
            Self::Decimal => "NEWDECIMAL",
            Self::Boolean => "TINY",
            Self::Real => "DOUBLE",
            Self::Json => "JSON",
            Self::Bytes => "BLOB",
            Self::Own => "VAR_STRING",
        }
    }
}

/// A value as it is sent. Texts that have to be made are put in `room`.
///
/// # Errors
/// The value does not fit the type of its column: the end of a sentence.
pub(super) fn cell<'a>(
    kind: SqliteKind,
    value: ValueRef<'a>,
    numbers: NumberForm,
    room: &'a mut String,
) -> Result<SqlCell<'a>, &'static str> {
    Ok(match (kind, value) {
        (_, ValueRef::Null) => SqlCell::Null,
        (SqliteKind::BigInteger, ValueRef::Integer(it)) => SqlCell::BigInt(it),
        (SqliteKind::Boolean, ValueRef::Integer(it @ (0 | 1))) => SqlCell::Bool(it == 1),
        (SqliteKind::Boolean, _) => return Err("is neither 0 nor 1, in a column of booleans"),
        (SqliteKind::Decimal, ValueRef::Integer(it)) => {
            room.clear();
            let _ = write!(room, "{it}");
            SqlCell::Decimal(room)
        }
        (SqliteKind::Decimal, ValueRef::Real(it)) => {
            room.clear();
            let _ = write!(room, "{it}");
            SqlCell::Decimal(room)
        }
        (SqliteKind::Real, ValueRef::Integer(it)) => SqlCell::Float(it as f64),
        (SqliteKind::Json, ValueRef::Text(text)) => SqlCell::Json(utf8(text)?),
        (SqliteKind::Json, ValueRef::Blob(_)) => return Err("is JSONB; select json(…) of it"),
        (SqliteKind::Bytes, ValueRef::Text(text)) => SqlCell::Bytes(text),
        // Its column permits 64 bits, and its type does not say that it uses them.
        (_, ValueRef::Integer(it)) if numbers == NumberForm::Strings && it.unsigned_abs() > EXACT => {
            return Err(
                "is beyond 2^53, where JSON numbers are not exact in every client; declare the column \
                        BIGINT, select CAST(… AS TEXT), or set numbers = \"json\"",
            );
        }
        (_, ValueRef::Integer(it)) => SqlCell::Int(it),
        (_, ValueRef::Real(it)) => SqlCell::Float(it),
        (_, ValueRef::Text(text)) => SqlCell::Text(utf8(text)?),
        (_, ValueRef::Blob(bytes)) => SqlCell::Bytes(bytes),
    })
}

fn utf8(text: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(text).map_err(|_| "is text that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::write_json;

    #[track_caller]
    fn check(declared: &str, value: ValueRef<'_>, expect: &str) {
        let mut room = String::new();
        let shown = match cell(SqliteKind::of(Some(declared)), value, NumberForm::Strings, &mut room) {
            Ok(cell) => {
                let mut out = Vec::new();
                write_json(cell, NumberForm::Strings, &mut out).unwrap();
                String::from_utf8(out).unwrap()
            }
            Err(why) => why.split([',', ';']).next().unwrap().to_owned(),
        };
        assert_eq!(expect, shown, "{declared} {value:?}");
    }

    #[test]
    fn each_type() {
        use ValueRef::{Blob, Integer, Null, Real, Text};
        let large = 9_007_199_254_740_993;
        check("INTEGER", Integer(7), "7");
        check("int", Integer(-(1 << 53)), "-9007199254740992");
        check("INTEGER", Integer(large), "is beyond 2^53");
        check("INTEGER", Integer(i64::MIN), "is beyond 2^53");
        check("", Integer(large), "is beyond 2^53");
        check("BIGINT", Integer(7), "\"7\"");
        check("unsigned big int", Integer(large), "\"9007199254740993\"");
        check("DECIMAL(9, 2)", Real(12.5), "\"12.5\"");
        check("numeric", Integer(12), "\"12\"");
        check("NUMERIC", Real(f64::INFINITY), "null");
        check("REAL", Integer(1), "1.0");
        check("DOUBLE PRECISION", Real(0.1), "0.1");
        check("FLOAT", Real(f64::INFINITY), "null");
        check("BOOLEAN", Integer(1), "true");
        check("bool", Integer(0), "false");
        check("bool", Integer(2), "is neither 0 nor 1");
        check("JSON", Text(b"{\"a\": 1.10}"), "{\"a\": 1.10}");
        check("JSONB", Blob(b"\x0b"), "is JSONB");
        check("BLOB", Text(b"a"), "\"YQ==\"");
        check("VARBINARY(9)", Blob(&[0, 255]), "\"AP8=\"");
        check("TEXT", Text("é".as_bytes()), "\"é\"");
        check("VARCHAR(10)", Text(b"\xff"), "is text that is not UTF-8");
        check("DATETIME", Text(b"2026-01-31 10:00:00"), "\"2026-01-31 10:00:00\"");
        check("POINT", Blob(&[1]), "\"AQ==\"");
        check("TEXT", Blob(&[1]), "\"AQ==\"");
        check("", Real(1.5), "1.5");
        check("BIGINT", Null, "null");
        assert_eq!(SqliteKind::Own, SqliteKind::of(None));
    }
}
