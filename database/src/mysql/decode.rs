//! Values of MariaDB and MySQL, by the type of their column.

use crate::calendar::write_time;
use crate::cell::SqlCell;
use larder_wire::mysql::{MySqlColumn, MySqlValue};
use std::fmt::Write as _;

/// The character set of bytes that are no text.
const NO_TEXT: u16 = 63;

const DECIMAL: u8 = 0;
const TIMESTAMP: u8 = 7;
const LONGLONG: u8 = 8;
const DATE: u8 = 10;
const BIT: u8 = 16;
const JSON: u8 = 245;
const NEW_DECIMAL: u8 = 246;
const GEOMETRY: u8 = 255;

/// Whether values of a column can be decoded.
pub(super) fn is_known(column: &MySqlColumn) -> bool {
    // The second group: decimals, enumerations, sets, bytes and texts.
    matches!(column.kind, 0..=13 | 15 | BIT | 245..=254) && column.kind != GEOMETRY
}

/// The name of a type, as `MYSQL_TYPE_…` in the headers of MySQL.
pub(super) fn type_name(kind: u8) -> &'static str {
    match kind {
        DECIMAL => "DECIMAL",
        1 => "TINY",
        2 => "SHORT",
        3 => "LONG",
        4 => "FLOAT",
        5 => "DOUBLE",
        6 => "NULL",
        TIMESTAMP => "TIMESTAMP",
        LONGLONG => "LONGLONG",
        9 => "INT24",
        DATE => "DATE",
        11 => "TIME",
        12 => "DATETIME",
        13 => "YEAR",
        15 => "VARCHAR",
        BIT => "BIT",
        JSON => "JSON",
        NEW_DECIMAL => "NEWDECIMAL",
        247 => "ENUM",
        248 => "SET",
        249 => "TINY_BLOB",
        250 => "MEDIUM_BLOB",
        251 => "LONG_BLOB",
        252 => "BLOB",
        254 => "STRING",
        GEOMETRY => "GEOMETRY",
        _ => "VAR_STRING",
    }
}

/// The value as it is sent. Texts that have to be made are put in `room`. `None` for bytes that are no value of the type.
pub(super) fn cell<'a>(
    column: &MySqlColumn,
    value: MySqlValue<'a>,
    room: &'a mut String,
) -> Option<SqlCell<'a>> {
    room.clear();
    Some(match value {
        MySqlValue::Null => SqlCell::Null,
        MySqlValue::Int(it) if column.kind == LONGLONG => SqlCell::BigInt(it),
        MySqlValue::Int(it) => SqlCell::Int(it),
        MySqlValue::Unsigned(it) if column.kind == LONGLONG => SqlCell::BigUnsigned(it),
        MySqlValue::Unsigned(it) => SqlCell::Int(it.try_into().ok()?),
        MySqlValue::Single(it) => SqlCell::Single(it),
        MySqlValue::Double(it) => SqlCell::Float(it),
        // `0000-00-00`, and dates with a month or a day of zero, are no dates.
        MySqlValue::Date { month: 0, .. } | MySqlValue::Date { day: 0, .. } => SqlCell::Null,
        MySqlValue::Date { year, month, day, micros } => {
            let _ = write!(room, "{year:04}-{month:02}-{day:02}");
            if column.kind != DATE {
                room.push('T');
                write_time(i64::try_from(micros).ok()?, room);
            }
            if column.kind == TIMESTAMP {
                // The connection is in UTC.
                room.push('Z');
            }
            SqlCell::Text(room)
        }
        MySqlValue::Time(micros) => {
            write_time(micros, room);
            SqlCell::Text(room)
        }
        MySqlValue::Bytes(bytes) => match column.kind {
            DECIMAL | NEW_DECIMAL => SqlCell::Decimal(std::str::from_utf8(bytes).ok()?),
            BIT if column.length == 1 => SqlCell::Bool(bytes.last().is_some_and(|it| it & 1 == 1)),
            BIT => {
                bits(bytes, column.length as usize, room);
                SqlCell::Text(room)
            }
            JSON => SqlCell::Json(std::str::from_utf8(bytes).ok()?),
            _ if column.is_json => SqlCell::Json(std::str::from_utf8(bytes).ok()?),
            _ if column.charset == NO_TEXT => SqlCell::Bytes(bytes),
            _ => SqlCell::Text(std::str::from_utf8(bytes).ok()?),
        },
    })
}

/// The last `count` bits as digits.
fn bits(bytes: &[u8], count: usize, out: &mut String) {
    let unused = (bytes.len() * 8).saturating_sub(count);
    let digits = bytes.iter().flat_map(|it| (0..8).rev().map(move |at| it >> at & 1));
    out.extend(digits.skip(unused).map(|it| if it == 1 { '1' } else { '0' }));
}
