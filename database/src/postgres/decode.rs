//! Values of PostgreSQL in its binary format, by the type of their column.

use crate::calendar::{DAY_MICROS, write_date, write_interval, write_time};
use crate::cell::{self, NumberForm, SqlCell};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio_postgres::types::{FromSql, Kind, Type};

/// Days from 1970 to 2000, where PostgreSQL begins to count.
const EPOCH_DAYS: i64 = 10_957;

/// The deepest array that is decoded; PostgreSQL has no deeper ones.
const MOST_DIMENSIONS: usize = 6;

/// The bytes of a value, with its type.
pub(super) struct RawValue<'a>(pub Option<&'a [u8]>);

impl<'a> FromSql<'a> for RawValue<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Whether values of a type can be decoded.
pub(super) fn is_known(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Array(member) => is_known(member),
        Kind::Enum(_) => true,
        Kind::Domain(base) => is_known(base),
        _ => KNOWN.contains(kind) || kind.name() == "citext",
    }
}

const KNOWN: [Type; 32] = [
    Type::BOOL,
    Type::INT2,
    Type::INT4,
    Type::INT8,
    Type::OID,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::NUMERIC,
    Type::TEXT,
    Type::VARCHAR,
    Type::BPCHAR,
    Type::NAME,
    Type::UNKNOWN,
    Type::XML,
    Type::CHAR,
    Type::JSON,
    Type::JSONB,
    Type::BYTEA,
    Type::UUID,
    Type::DATE,
    Type::TIME,
    Type::TIMETZ,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
    Type::INTERVAL,
    Type::INET,
    Type::CIDR,
    Type::MACADDR,
    Type::BIT,
    Type::VARBIT,
    Type::VOID,
    Type::REGCLASS,
];

/// The type of MySQL, without `MYSQL_TYPE_`, that is nearest to a type.
pub(super) fn mysql_type(kind: &Type) -> &'static str {
    match *kind {
        Type::BOOL => "TINY",
        Type::INT2 => "SHORT",
        Type::INT4 => "LONG",
        Type::INT8 | Type::OID => "LONGLONG",
        Type::FLOAT4 => "FLOAT",
        Type::FLOAT8 => "DOUBLE",
        Type::NUMERIC => "NEWDECIMAL",
        Type::DATE => "DATE",
        Type::TIME => "TIME",
        Type::TIMESTAMP => "DATETIME",
        Type::TIMESTAMPTZ => "TIMESTAMP",
        Type::BIT | Type::VARBIT => "BIT",
        Type::BPCHAR => "STRING",
        Type::BYTEA => "BLOB",
        _ => "VAR_STRING",
    }
}

/// The value in these bytes. Texts that have to be made are put in `room`. `None` for bytes that are no value of the type.
pub(super) fn cell<'a>(
    kind: &Type,
    bytes: Option<&'a [u8]>,
    numbers: NumberForm,
    room: &'a mut String,
) -> Option<SqlCell<'a>> {
    let Some(bytes) = bytes else { return Some(SqlCell::Null) };
    match kind.kind() {
        Kind::Array(member) => return array(member, bytes, numbers, room),
        Kind::Enum(_) => return text(bytes),
        Kind::Domain(base) => return cell(base, Some(bytes), numbers, room),
        _ => {}
    }
    room.clear();
    Some(match *kind {
        Type::BOOL => SqlCell::Bool(*bytes.first()? != 0),
        Type::INT2 => SqlCell::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::INT4 => SqlCell::Int(i32_of(bytes)?.into()),
        Type::OID | Type::REGCLASS => SqlCell::Int(u32::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::INT8 => SqlCell::BigInt(i64_of(bytes)?),
        Type::FLOAT4 => SqlCell::Single(f32::from_be_bytes(bytes.try_into().ok()?)),
        Type::FLOAT8 => SqlCell::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
        Type::NUMERIC => {
            numeric(bytes, room)?;
            SqlCell::Decimal(room)
        }
        Type::JSON => SqlCell::Json(str::from_utf8(bytes).ok()?),
        Type::JSONB => SqlCell::Json(str::from_utf8(bytes.strip_prefix(&[1])?).ok()?),
        Type::BYTEA => SqlCell::Bytes(bytes),
        Type::VOID => SqlCell::Null,
        Type::CHAR => return text(bytes).or(Some(SqlCell::Bytes(bytes))),
        _ if made_text(kind, bytes, room)? => SqlCell::Text(room),
        _ => return text(bytes),
    })
}

fn text(bytes: &[u8]) -> Option<SqlCell<'_>> {
    str::from_utf8(bytes).ok().map(SqlCell::Text)
}

fn i32_of(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().ok().map(i32::from_be_bytes)
}

fn i64_of(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_be_bytes)
}

/// Writes the types whose form is a text that is made here; `false` for those whose bytes are text.
fn made_text(kind: &Type, bytes: &[u8], out: &mut String) -> Option<bool> {
    match *kind {
        Type::UUID => uuid(bytes.try_into().ok()?, out),
        Type::DATE => match i32_of(bytes)? {
            i32::MAX => out.push_str("infinity"),
            i32::MIN => out.push_str("-infinity"),
            days => write_date(i64::from(days) + EPOCH_DAYS, out),
        },
        Type::TIMESTAMP | Type::TIMESTAMPTZ => match i64_of(bytes)? {
            i64::MAX => out.push_str("infinity"),
            i64::MIN => out.push_str("-infinity"),
            micros => {
                // Apart: the last timestamps have no number of microseconds since 1970.
                write_date(micros.div_euclid(DAY_MICROS) + EPOCH_DAYS, out);
                out.push('T');
                write_time(micros.rem_euclid(DAY_MICROS), out);
                if *kind == Type::TIMESTAMPTZ {
                    out.push('Z');
                }
            }
        },
        Type::TIME => write_time(i64_of(bytes)?, out),
        Type::TIMETZ => {
            let (micros, west) = bytes.split_at_checked(8)?;
            write_time(i64_of(micros)?, out);
            let east = -i32_of(west)?;
            let (sign, minutes) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs() / 60);
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
        Type::INTERVAL => {
            let (micros, rest) = bytes.split_at_checked(8)?;
            let (days, months) = rest.split_at_checked(4)?;
            write_interval(i32_of(months)?, i32_of(days)?, i64_of(micros)?, out);
        }
        Type::INET | Type::CIDR => address(bytes, *kind == Type::CIDR, out)?,
        Type::MACADDR => {
            let parts: Vec<String> = bytes.iter().map(|it| format!("{it:02x}")).collect();
            out.push_str(&parts.join(":"));
        }
        Type::BIT | Type::VARBIT => {
            let (length, bits) = bytes.split_at_checked(4)?;
            let length = usize::try_from(i32_of(length)?).ok()?;
            let digits = bits.iter().flat_map(|it| (0..8).rev().map(move |at| it >> at & 1));
            out.extend(digits.take(length).map(|it| if it == 1 { '1' } else { '0' }));
        }
        _ => return Some(false),
    }
    Some(true)
}

fn uuid(bytes: [u8; 16], out: &mut String) {
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

/// Family, bits of the network, whether it is a `cidr`, length, address.
fn address(bytes: &[u8], is_network: bool, out: &mut String) -> Option<()> {
    let [_, bits, _, _, address @ ..] = bytes else { return None };
    let whole = address.len() * 8;
    let _ = match *address {
        [a, b, c, d] => write!(out, "{}", Ipv4Addr::new(a, b, c, d)),
        _ => write!(out, "{}", Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
    };
    if is_network || usize::from(*bits) != whole {
        let _ = write!(out, "/{bits}");
    }
    Some(())
}

/// Digits to the base 10,000: their number, the weight of the first, the sign, and the decimal digits behind the point.
fn numeric(bytes: &[u8], out: &mut String) -> Option<()> {
    let (head, digits) = bytes.split_at_checked(8)?;
    let part = |at: usize| i16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign, scale) = (part(0), i32::from(part(2)), part(4) as u16, part(6));
    match sign {
        0x0000 => {}
        0x4000 => out.push('-'),
        0xC000 => out.push_str("NaN"),
        0xD000 => out.push_str("Infinity"),
        0xF000 => out.push_str("-Infinity"),
        _ => return None,
    }
    if sign & 0xC000 == 0xC000 {
        return Some(());
    }
    let (count, scale) = (usize::try_from(count).ok()?, usize::try_from(scale).ok()?);
    let digit = |at: i32| {
        let at = usize::try_from(at).ok().filter(|it| *it < count).map(|it| it * 2);
        at.and_then(|it| Some(u16::from_be_bytes([*digits.get(it)?, *digits.get(it + 1)?])))
    };
    if digits.len() != count * 2 {
        return None;
    }
    if weight < 0 {
        out.push('0');
    }
    for at in 0..=weight {
        let group = digit(at).unwrap_or(0);
        let _ = if at == 0 { write!(out, "{group}") } else { write!(out, "{group:04}") };
    }
    if scale > 0 {
        out.push('.');
        let end = out.len() + scale;
        // Before the first digit are zeros.
        let mut at = weight + 1;
        while out.len() < end {
            let _ = write!(out, "{:04}", digit(at).unwrap_or(0));
            at += 1;
        }
        out.truncate(end);
    }
    Some(())
}

/// Dimensions, flags, the type of members, length and lower bound of each dimension, then the members.
fn array<'a>(member: &Type, bytes: &[u8], numbers: NumberForm, room: &'a mut String) -> Option<SqlCell<'a>> {
    let mut rest = bytes;
    let mut number = || {
        let (number, behind) = rest.split_at_checked(4)?;
        rest = behind;
        i32_of(number)
    };
    let count = usize::try_from(number()?).ok().filter(|it| *it <= MOST_DIMENSIONS)?;
    number()?;
    number()?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(usize::try_from(number()?).ok()?);
        number()?;
    }
    let mut out = Vec::new();
    match lengths.is_empty() {
        true => out.extend_from_slice(b"[]"),
        false => members(member, &lengths, &mut rest, numbers, &mut out)?,
    }
    *room = String::from_utf8(out).ok()?;
    Some(SqlCell::Made(room))
}

fn members(
    member: &Type,
    lengths: &[usize],
    rest: &mut &[u8],
    numbers: NumberForm,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (length, inner) = lengths.split_first()?;
    let mut room = String::new();
    out.push(b'[');
    for at in 0..*length {
        if at > 0 {
            out.push(b',');
        }
        if !inner.is_empty() {
            members(member, inner, rest, numbers, out)?;
            continue;
        }
        let (size, behind) = rest.split_at_checked(4)?;
        let (value, behind) = match usize::try_from(i32_of(size)?) {
            Ok(size) => behind.split_at_checked(size).map(|it| (Some(it.0), it.1))?,
            Err(_) => (None, behind),
        };
        *rest = behind;
        cell::write_json(cell(member, value, numbers, &mut room)?, numbers, out).ok()?;
    }
    out.push(b']');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: &Type, bytes: &[u8]) -> Option<String> {
        let mut room = String::new();
        let cell = cell(kind, Some(bytes), NumberForm::Strings, &mut room)?;
        let mut out = Vec::new();
        cell::write_json(cell, NumberForm::Strings, &mut out).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    fn digits(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> String {
        let count = u16::try_from(groups.len()).unwrap();
        let head = [count, weight as u16, sign, scale];
        let bytes: Vec<u8> = head.iter().chain(groups).flat_map(|it| it.to_be_bytes()).collect();
        shown(&Type::NUMERIC, &bytes).unwrap()
    }

    #[test]
    fn decimals() {
        assert_eq!("\"0\"", digits(0, 0, 0, &[]));
        assert_eq!("\"0.00\"", digits(0, 0, 2, &[]));
        assert_eq!("\"12345.6700\"", digits(1, 0, 4, &[1, 2345, 6700]));
        assert_eq!("\"-0.0001\"", digits(-1, 0x4000, 4, &[1]));
        assert_eq!("\"0.000000000012\"", digits(-3, 0, 12, &[12]));
        assert_eq!("\"100000000\"", digits(2, 0, 0, &[1]));
        assert_eq!("\"0.5\"", digits(-1, 0, 1, &[5000]));
        assert_eq!("null", digits(0, 0xC000, 0, &[]));
        assert_eq!("null", digits(0, 0xF000, 0, &[]));
    }

    #[test]
    fn arrays() {
        let part = |it: i32| it.to_be_bytes().to_vec();
        let one = |it: &[u8]| [part(i32::try_from(it.len()).unwrap()), it.to_vec()].concat();
        let head = [part(2), part(1), part(23), part(2), part(1), part(2), part(1)].concat();
        let all = [head, one(&part(1)), part(-1), one(&part(3)), one(&part(4))].concat();
        assert_eq!(Some("[[1,null],[3,4]]"), shown(&Type::INT4_ARRAY, &all).as_deref());
        assert_eq!(Some("[]"), shown(&Type::INT4_ARRAY, &[part(0), part(0), part(23)].concat()).as_deref());
        for cut in 0..all.len() {
            assert_eq!(None, shown(&Type::INT4_ARRAY, &all[..cut]), "{cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_value() {
        for kind in KNOWN.iter().filter(|it| !matches!(**it, Type::VOID | Type::BYTEA | Type::MACADDR)) {
            let _ = shown(kind, &[]);
            let _ = shown(kind, &[255]);
            let _ = shown(kind, &[255; 7]);
            let _ = shown(kind, &[255; 64]);
        }
        assert_eq!(None, shown(&Type::INT4, &[1]));
        assert_eq!(None, shown(&Type::TEXT, &[0xff]));
        assert_eq!(None, shown(&Type::JSONB, b"\x02{}"));
    }
}
