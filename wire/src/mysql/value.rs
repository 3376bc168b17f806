//! Values in the binary form: those of rows, and those of parameters.

use super::{BadPacket, MySqlColumn, PacketReader, write_length};

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MySqlValue<'a> {
    /// `NULL`.
    Null,
    /// An integer.
    Int(i64),
    /// An integer without a sign.
    Unsigned(u64),
    /// A floating-point number of 32 bits.
    Single(f32),
    /// The same of 64 bits.
    Double(f64),
    /// A date, or a point in time; parts may be zero.
    Date {
        /// Year.
        year: u16,
        /// Month.
        month: u8,
        /// Day.
        day: u8,
        /// Microseconds of the day.
        micros: u64,
    },
    /// A span of time, in microseconds.
    Time(i64),
    /// Text, digits, bits or bytes.
    Bytes(&'a [u8]),
}

/// The values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryRow<'a>(&'a [u8]);

impl<'a> BinaryRow<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Its values in the order of `columns`; nothing follows an error.
    pub fn values<'c>(
        self,
        columns: &'c [MySqlColumn],
    ) -> impl Iterator<Item = Result<MySqlValue<'a>, BadPacket>> + use<'a, 'c> {
        let bitmap = (columns.len() + 9) / 8;
        let (nulls, rest) = self.0.split_at_checked(bitmap).unwrap_or_default();
        let mut rest = PacketReader(rest);
        let mut is_bad = nulls.len() < bitmap;
        columns.iter().enumerate().map_while(move |(at, column)| {
            if is_bad {
                return (at == 0).then_some(Err(BadPacket));
            }
            if nulls[(at + 2) / 8] >> ((at + 2) % 8) & 1 == 1 {
                return Some(Ok(MySqlValue::Null));
            }
            let value = value(column, &mut rest);
            is_bad = value.is_err();
            Some(value)
        })
    }
}

/// The column has no sign.
const UNSIGNED: u16 = 0x20;

fn value<'a>(column: &MySqlColumn, rest: &mut PacketReader<'a>) -> Result<MySqlValue<'a>, BadPacket> {
    let mut integer = |bytes: usize| {
        let number = rest.number(bytes)?;
        let unused = 64 - 8 * bytes;
        Ok(match column.flags & UNSIGNED {
            0 => MySqlValue::Int((number << unused) as i64 >> unused),
            _ => MySqlValue::Unsigned(number),
        })
    };
    match column.kind {
        1 => integer(1),
        2 | 13 => integer(2),
        3 | 9 => integer(4),
        8 => integer(8),
        4 => Ok(MySqlValue::Single(f32::from_bits(rest.u32()?))),
        5 => Ok(MySqlValue::Double(f64::from_bits(rest.number(8)?))),
        6 => Ok(MySqlValue::Null),
        7 | 10 | 12 => date(PacketReader(rest.bytes()?)),
        11 => time(PacketReader(rest.bytes()?)),
        _ => rest.bytes().map(MySqlValue::Bytes),
    }
}

/// Parts at the end may be missing: they are zero.
fn date(mut rest: PacketReader<'_>) -> Result<MySqlValue<'_>, BadPacket> {
    let (mut year, mut month, mut day, mut micros) = (0, 0, 0, 0);
    if !rest.0.is_empty() {
        (year, month, day) = (rest.u16()?, rest.u8()?, rest.u8()?);
    }
    if !rest.0.is_empty() {
        micros = of_day(&mut rest)?;
    }
    Ok(MySqlValue::Date { year, month, day, micros })
}

fn of_day(rest: &mut PacketReader<'_>) -> Result<u64, BadPacket> {
    let (hours, minutes, seconds) = (rest.u8()?, rest.u8()?, rest.u8()?);
    let whole = u64::from(hours) * 3_600 + u64::from(minutes) * 60 + u64::from(seconds);
    let micros = if rest.0.is_empty() { 0 } else { rest.number(4)? };
    Ok(whole * 1_000_000 + micros)
}

fn time(mut rest: PacketReader<'_>) -> Result<MySqlValue<'_>, BadPacket> {
    if rest.0.is_empty() {
        return Ok(MySqlValue::Time(0));
    }
    let (is_negative, days) = (rest.u8()? != 0, rest.u32()?);
    // No server has spans of more than 35 days.
    if days > 100_000 {
        return Err(BadPacket);
    }
    let micros = u64::from(days) * 86_400_000_000 + of_day(&mut rest)?;
    let micros = i64::try_from(micros).map_err(|_| BadPacket)?;
    Ok(MySqlValue::Time(if is_negative { -micros } else { micros }))
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MySqlParameter<'a> {
    /// `NULL`.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// The digits of a decimal number.
    Decimal(&'a str),
    /// Text.
    Text(&'a str),
}

pub(super) fn write_parameters(parameters: &[MySqlParameter<'_>], out: &mut Vec<u8>) {
    if parameters.is_empty() {
        return;
    }
    let mut nulls = vec![0_u8; parameters.len().div_ceil(8)];
    for (at, _) in parameters.iter().enumerate().filter(|it| *it.1 == MySqlParameter::Null) {
        nulls[at / 8] |= 1 << (at % 8);
    }
    out.extend_from_slice(&nulls);
    // Their types follow.
    out.push(1);
    for parameter in parameters {
        let kind = match parameter {
            MySqlParameter::Null => 6,
            MySqlParameter::Int(_) => 8,
            MySqlParameter::Double(_) => 5,
            MySqlParameter::Decimal(_) => 246,
            MySqlParameter::Text(_) => 253,
        };
        out.extend_from_slice(&[kind, 0]);
    }
    for parameter in parameters {
        match parameter {
            MySqlParameter::Null => {}
            MySqlParameter::Int(it) => out.extend_from_slice(&it.to_le_bytes()),
            MySqlParameter::Double(it) => out.extend_from_slice(&it.to_le_bytes()),
            MySqlParameter::Decimal(it) | MySqlParameter::Text(it) => {
                write_length(it.len(), out);
                out.extend_from_slice(it.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: u8, flags: u16) -> MySqlColumn {
        MySqlColumn { name: "a".into(), kind, charset: 63, length: 1, flags, is_json: false }
    }

    #[track_caller]
    fn check(kind: u8, flags: u16, bytes: &[u8], expect: MySqlValue<'_>) {
        let columns = [column(3, 0), column(kind, flags)];
        let payload = [&[0b100], bytes].concat();
        let values: Vec<_> = BinaryRow::new(&payload).values(&columns).collect();
        assert_eq!(vec![Ok(MySqlValue::Null), Ok(expect)], values);
        for end in 0..payload.len() {
            let cut = BinaryRow::new(&payload[..end]).values(&columns).any(|it| it.is_err());
            assert!(cut, "{end} bytes");
        }
    }

    #[test]
    fn each_type() {
        use MySqlValue::{Bytes, Date, Double, Int, Single, Time, Unsigned};
        check(1, 0, &[0x80], Int(-128));
        check(1, UNSIGNED, &[0x80], Unsigned(128));
        check(2, 0, &[0xff, 0xff], Int(-1));
        check(13, UNSIGNED, &[0xea, 7], Unsigned(2026));
        check(3, 0, &[0, 0, 0, 0x80], Int(i32::MIN.into()));
        check(9, 0, &[0xff, 0xff, 0xff, 0xff], Int(-1));
        check(8, 0, &i64::MIN.to_le_bytes(), Int(i64::MIN));
        check(8, UNSIGNED, &u64::MAX.to_le_bytes(), Unsigned(u64::MAX));
        check(4, 0, &0.1_f32.to_le_bytes(), Single(0.1));
        check(5, 0, &0.1_f64.to_le_bytes(), Double(0.1));
        check(246, 0, b"\x041.10", Bytes(b"1.10"));
        check(252, 0, b"\xfc\x02\0ab", Bytes(b"ab"));
        let day = |year, month, day, micros| Date { year, month, day, micros };
        check(10, 0, b"\x04\xea\x07\x01\x1f", day(2026, 1, 31, 0));
        check(12, 0, b"\x07\xea\x07\x01\x1f\x17\x3b\x3b", day(2026, 1, 31, 86_399_000_000));
        check(7, 0, b"\x0b\xea\x07\x01\x1f\0\0\0\x01\0\0\0", day(2026, 1, 31, 1));
        check(7, 0, b"\0", day(0, 0, 0, 0));
        check(11, 0, b"\0", Time(0));
        check(11, 0, b"\x08\x01\x22\0\0\0\x16\x3b\x3b", Time(-3_020_399_000_000));
        check(11, 0, b"\x0c\0\0\0\0\0\0\0\x01\x07\0\0\0", Time(1_000_007));
    }

    #[test]
    fn parameters() {
        let mut out = Vec::new();
        let all = [MySqlParameter::Int(7), MySqlParameter::Null, MySqlParameter::Text("é")];
        write_parameters(&all, &mut out);
        assert_eq!(b"\x02\x01\x08\0\x06\0\xfd\0\x07\0\0\0\0\0\0\0\x02\xc3\xa9".to_vec(), out);
        out.clear();
        write_parameters(&[], &mut out);
        assert!(out.is_empty());
    }
}
