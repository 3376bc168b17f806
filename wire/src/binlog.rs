//! Events of the binary log of MariaDB and MySQL (MariaDB documentation, "Replication Protocol", and "Binlog Event Types") as a server
//! sends them to a replica, without checksums. Their transport, and the meaning of rows, are not here.

/// An event without a valid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEvent;

/// The first part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHead {
    /// The lower 32 bits of the position behind it in its file; 0 if it stands in none.
    pub next: u32,
    /// It was made for this connection, and stands in no file.
    pub is_artificial: bool,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedEvent<'a> {
    /// The log continues in another file.
    Rotate {
        /// Its name.
        file: &'a str,
        /// The position there.
        position: u64,
    },
    /// The form of the events of a file.
    Format {
        /// Each event has a checksum at its end.
        has_checksums: bool,
    },
    /// The next events are one transaction.
    Begin,
    /// The next event is a transaction of its own.
    Alone,
    /// The number of the next transaction in MySQL: its server and its count.
    Numbered([u8; 16], u64),
    /// The transaction is committed.
    Commit,
    /// The transaction is prepared, to be committed by a later statement.
    Prepared,
    /// A statement as text.
    Statement(LoggedText<'a>),
    /// The table of rows that follow.
    TableMap(TableMap<'a>),
    /// Changed rows.
    Rows(RowsEvent<'a>),
    /// Changed rows of the table with this number, whose values are not here.
    SomeRows(u64),
    /// Changed rows whose tables are not here.
    AnyRows,
    /// The log has no newer event: the lower 32 bits of its end.
    Quiet,
    /// It changes no row.
    Harmless,
    /// An event of this type, of which nothing is known, or which says that events are missing.
    Unknown(u8),
}

/// The text of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedText<'a> {
    /// Its bytes.
    pub text: &'a [u8],
    /// They are compressed.
    pub is_compressed: bool,
}

/// The form of the rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMap<'a> {
    /// Its number in events of rows.
    pub number: u64,
    /// Its database.
    pub schema: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The types of its columns.
    pub columns: Vec<LoggedType>,
    /// Its bytes, the same in each event with this form.
    pub raw: &'a [u8],
}

/// The type of a column, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedType {
    /// The number of the type.
    pub kind: u8,
    /// More about its form.
    pub detail: u16,
}

/// The kind of a change of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// New rows.
    Insert,
    /// Changed rows: each is there as it was, and as it is.
    Update,
    /// Rows that are gone.
    Delete,
}

/// Changed rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsEvent<'a> {
    /// The number of the table.
    pub table: u64,
    /// The kind of the change.
    pub kind: RowsKind,
    /// The number of columns.
    pub columns: usize,
    /// A bit for each column that the first row of a change has.
    pub first: &'a [u8],
    /// The same for the second row of a change, of an update alone.
    pub second: &'a [u8],
    /// The rows.
    pub rows: &'a [u8],
    /// They are compressed.
    pub is_compressed: bool,
}

/// The value of a column in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedValue<'a> {
    /// It is not in the log.
    Absent,
    /// `NULL`.
    Null,
    /// Its bytes, without their length.
    Bytes(&'a [u8]),
}

/// A compressed part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedPart<'a> {
    /// Bytes of its content.
    pub length: usize,
    /// The content in the form of zlib.
    pub bytes: &'a [u8],
}

/// Bytes of the head of an event.
const HEAD: usize = 19;
/// Bytes of a checksum.
const CHECKSUM: usize = 4;
/// The type of the event with the form of all others.
const FORMAT: u8 = 15;
/// The event was made for this connection.
const ARTIFICIAL: u16 = 0x20;
/// A replica may pass over the event if it does not know it.
const IGNORABLE: u16 = 0x80;

/// Reads an event without a checksum at its end, apart from that of [`LoggedEvent::Format`].
///
/// # Errors
/// It is malformed.
pub fn read_event(event: &[u8]) -> Result<(EventHead, LoggedEvent<'_>), BadEvent> {
    read(event, 0)
}

/// The same with a checksum, which is not verified: the transport has its own.
///
/// # Errors
/// It is malformed.
pub fn read_event_with_checksum(event: &[u8]) -> Result<(EventHead, LoggedEvent<'_>), BadEvent> {
    read(event, CHECKSUM)
}

fn read(event: &[u8], checksum: usize) -> Result<(EventHead, LoggedEvent<'_>), BadEvent> {
    let mut rest = EventBytes(event);
    rest.take(4)?;
    let kind = rest.u8()?;
    rest.take(4)?;
    let length = rest.number(4)?;
    let (next, flags) = (rest.number(4)? as u32, rest.number(2)? as u16);
    if length != event.len() as u64 {
        return Err(BadEvent);
    }
    if kind != FORMAT {
        rest.0 = rest.take(rest.0.len().checked_sub(checksum).ok_or(BadEvent)?)?;
    }
    let is_artificial = flags & ARTIFICIAL != 0;
    let content = match kind {
        2 => statement(rest, false)?,
        165 => statement(rest, true)?,
        4 => {
            let position = rest.number(8)?;
            LoggedEvent::Rotate { file: text(rest.0)?, position }
        }
        FORMAT => {
            // The kind of the checksum, and a checksum, are at the end.
            let kind = event.len().checked_sub(5).filter(|it| *it > HEAD + 57).ok_or(BadEvent)?;
            LoggedEvent::Format { has_checksums: event[kind] != 0 }
        }
        16 => LoggedEvent::Commit,
        38 => {
            // Committed in one step, or prepared.
            if rest.u8()? == 0 { LoggedEvent::Prepared } else { LoggedEvent::Commit }
        }
        19 => LoggedEvent::TableMap(table_map(rest)?),
        23..=25 => LoggedEvent::Rows(rows(rest, kind - 23, false, false)?),
        30..=32 => LoggedEvent::Rows(rows(rest, kind - 30, true, false)?),
        166..=168 => LoggedEvent::Rows(rows(rest, kind - 166, false, true)?),
        169..=171 => LoggedEvent::Rows(rows(rest, kind - 169, true, true)?),
        // Parts of JSON values.
        39 => LoggedEvent::SomeRows(rest.number(6)?),
        // A file that a statement loads; a compressed transaction of MySQL.
        18 | 40 => LoggedEvent::AnyRows,
        27 | 41 => LoggedEvent::Quiet,
        // MariaDB numbers each transaction.
        162 => {
            rest.take(12)?;
            if rest.u8()? & 1 == 0 { LoggedEvent::Begin } else { LoggedEvent::Alone }
        }
        33 => {
            rest.take(1)?;
            let server = rest.take(16)?.try_into().map_err(|_| BadEvent)?;
            LoggedEvent::Numbered(server, rest.number(8)?)
        }
        // Stop; variables before a statement; parts of a loaded file; an ignorable one; the text of a statement; numbers of former or
        // unnumbered transactions; groups; texts, checkpoints, numbers and keys of MariaDB.
        3 | 5 | 13 | 14 | 17 | 9 | 28 | 29 | 34..=37 | 160 | 161 | 163 | 164 => LoggedEvent::Harmless,
        _ if flags & IGNORABLE != 0 => LoggedEvent::Harmless,
        // Among them 26: events are missing.
        _ => LoggedEvent::Unknown(kind),
    };
    Ok((EventHead { next, is_artificial }, content))
}

/// The part of an event that was not read yet.
#[derive(Clone, Copy)]
struct EventBytes<'a>(&'a [u8]);

impl<'a> EventBytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BadEvent> {
        let (part, rest) = self.0.split_at_checked(count).ok_or(BadEvent)?;
        self.0 = rest;
        Ok(part)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, BadEvent> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it)))
    }

    fn u8(&mut self) -> Result<u8, BadEvent> {
        self.take(1).map(|it| it[0])
    }

    /// A number of 1 to 9 bytes.
    fn length(&mut self) -> Result<usize, BadEvent> {
        let number = match self.u8()? {
            it @ 0..=250 => it.into(),
            252 => self.number(2)?,
            253 => self.number(3)?,
            254 => self.number(8)?,
            _ => return Err(BadEvent),
        };
        usize::try_from(number).map_err(|_| BadEvent)
    }
}

fn text(bytes: &[u8]) -> Result<&str, BadEvent> {
    std::str::from_utf8(bytes).map_err(|_| BadEvent)
}

fn statement(mut rest: EventBytes<'_>, is_compressed: bool) -> Result<LoggedEvent<'_>, BadEvent> {
    rest.take(8)?;
    let schema = usize::from(rest.u8()?);
    rest.take(2)?;
    let variables = rest.number(2)? as usize;
    rest.take(variables + schema + 1)?;
    Ok(LoggedEvent::Statement(LoggedText { text: rest.0, is_compressed }))
}

fn table_map(mut rest: EventBytes<'_>) -> Result<TableMap<'_>, BadEvent> {
    let raw = rest.0;
    let number = rest.number(6)?;
    rest.take(2)?;
    let mut name = || {
        let length = usize::from(rest.u8()?);
        let name = text(rest.take(length)?)?;
        rest.take(1)?;
        Ok(name)
    };
    let (schema, name) = (name()?, name()?);
    let count = rest.length()?;
    let kinds = rest.take(count)?;
    let details = rest.length()?;
    let mut details = EventBytes(rest.take(details)?);
    let columns = kinds.iter().map(|kind| {
        let detail = match kind {
            // Bytes of a number or of a length, or digits of a second.
            4 | 5 | 17..=19 | 140 | 242 | 245 | 249..=252 | 255 => details.number(1)?,
            15 | 16 | 141 | 246..=248 | 253 | 254 => details.number(2)?,
            _ => 0,
        };
        Ok(LoggedType { kind: *kind, detail: detail as u16 })
    });
    let columns = columns.collect::<Result<_, BadEvent>>()?;
    Ok(TableMap { number, schema, name, columns, raw })
}

fn rows(
    mut rest: EventBytes<'_>,
    kind: u8,
    has_more: bool,
    is_compressed: bool,
) -> Result<RowsEvent<'_>, BadEvent> {
    let table = rest.number(6)?;
    rest.take(2)?;
    if has_more {
        let more = rest.number(2)? as usize;
        rest.take(more.checked_sub(2).ok_or(BadEvent)?)?;
    }
    let columns = rest.length()?;
    let kind = [RowsKind::Insert, RowsKind::Update, RowsKind::Delete][usize::from(kind)];
    let bitmap = columns.div_ceil(8);
    let first = rest.take(bitmap)?;
    let second = if kind == RowsKind::Update { rest.take(bitmap)? } else { &[] };
    Ok(RowsEvent { table, kind, columns, first, second, rows: rest.0, is_compressed })
}

/// Reads the head of a compressed part.
///
/// # Errors
/// It is malformed, or of an unknown kind.
pub fn read_compressed(bytes: &[u8]) -> Result<CompressedPart<'_>, BadEvent> {
    let mut rest = EventBytes(bytes);
    let head = rest.u8()?;
    let count = usize::from(head & 7);
    // The kind is zlib, with a length of up to 4 bytes.
    if head & 0xf8 != 0x80 || !(1..=4).contains(&count) {
        return Err(BadEvent);
    }
    let length = rest.take(count)?.iter().fold(0, |all, it| all << 8 | usize::from(*it));
    Ok(CompressedPart { length, bytes: rest.0 })
}

/// Reads one row from the beginning of `rows`, which is the rest afterwards, into `values`: one for each column.
///
/// # Errors
/// It is malformed, or a column has an unknown type.
pub fn read_row<'a>(
    rows: &mut &'a [u8],
    present: &[u8],
    columns: &[LoggedType],
    values: &mut Vec<LoggedValue<'a>>,
) -> Result<(), BadEvent> {
    let mut rest = EventBytes(rows);
    let has = |at: usize| present.get(at / 8).is_some_and(|it| it >> (at % 8) & 1 == 1);
    let count = (0..columns.len()).filter(|it| has(*it)).count();
    let nulls = rest.take(count.div_ceil(8))?;
    values.clear();
    let mut place = 0;
    for (at, column) in columns.iter().enumerate() {
        if !has(at) {
            values.push(LoggedValue::Absent);
            continue;
        }
        let is_null = nulls[place / 8] >> (place % 8) & 1 == 1;
        place += 1;
        values.push(if is_null { LoggedValue::Null } else { LoggedValue::Bytes(value(*column, &mut rest)?) });
    }
    *rows = rest.0;
    Ok(())
}

/// The bytes of a value.
fn value<'a>(column: LoggedType, rest: &mut EventBytes<'a>) -> Result<&'a [u8], BadEvent> {
    let LoggedType { kind, detail } = column;
    let (low, high) = (usize::from(detail & 0xff), usize::from(detail >> 8));
    let length = match kind {
        1 | 13 => 1,
        2 => 2,
        9 | 10 | 14 => 3,
        3 => 4,
        8 => 8,
        4 | 5 if matches!(low, 4 | 8) => low,
        // Points in time with digits of a second.
        17 if low <= 6 => 4 + low.div_ceil(2),
        18 if low <= 6 => 5 + low.div_ceil(2),
        19 if low <= 6 => 3 + low.div_ceil(2),
        16 => high + usize::from(low > 0),
        246 => decimal(low, high)?,
        247 | 248 => high,
        15 | 253 | 141 => rest.number(if detail > 255 { 2 } else { 1 })? as usize,
        140 | 242 | 245 | 249..=252 | 255 if (1..=4).contains(&low) => rest.number(low)? as usize,
        254 => return fixed(low, high, rest),
        // Former points in time among them: digits of a second are not declared.
        _ => return Err(BadEvent),
    };
    rest.take(length)
}

/// The bytes of a value of `CHAR`, `BINARY`, `ENUM` or `SET`.
fn fixed<'a>(kind: usize, low: usize, rest: &mut EventBytes<'a>) -> Result<&'a [u8], BadEvent> {
    if kind == 247 || kind == 248 {
        return rest.take(low);
    }
    // Two bits of the length are in the type, inverted.
    let longest = if kind & 0x30 == 0x30 { low } else { low | (kind & 0x30 ^ 0x30) << 4 };
    let length = rest.number(if longest > 255 { 2 } else { 1 })? as usize;
    rest.take(length)
}

/// The bytes of a decimal number.
fn decimal(digits: usize, behind: usize) -> Result<usize, BadEvent> {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let before = digits.checked_sub(behind).ok_or(BadEvent)?;
    Ok(before / 9 * 4 + BYTES[before % 9] + behind / 9 * 4 + BYTES[behind % 9])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of this type.
    fn event(kind: u8, flags: u16, content: &[u8]) -> Vec<u8> {
        let mut out = vec![1, 0, 0, 0, kind, 1, 0, 0, 0];
        out.extend(u32::try_from(HEAD + content.len()).unwrap().to_le_bytes());
        out.extend(700_u32.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend(content);
        out
    }

    fn content(event: &[u8]) -> LoggedEvent<'_> {
        read_event(event).unwrap().1
    }

    #[test]
    fn heads_and_small_events() {
        let rotate = event(4, ARTIFICIAL, b"\x04\0\0\0\0\0\0\0bin.000002");
        let expect = (
            EventHead { next: 700, is_artificial: true },
            LoggedEvent::Rotate { file: "bin.000002", position: 4 },
        );
        assert_eq!(Ok(expect), read_event(&rotate));
        assert_eq!(LoggedEvent::Commit, content(&event(16, 0, &[0; 8])));
        assert_eq!(LoggedEvent::Commit, content(&event(38, 0, &[1])));
        assert_eq!(LoggedEvent::Prepared, content(&event(38, 0, &[0])));
        assert_eq!(LoggedEvent::Begin, content(&event(162, 0, &[0; 19])));
        let alone = [&[0; 12][..], &[0x21, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(LoggedEvent::Alone, content(&event(162, 0, &alone)));
        let numbered = [&[1][..], &[7; 16], &9_u64.to_le_bytes(), &[0; 17]].concat();
        assert_eq!(LoggedEvent::Numbered([7; 16], 9), content(&event(33, 0, &numbered)));
        let text = b"\0\0\0\0\0\0\0\0\x04\0\0\x02\0vvshop\0drop table t";
        let expect = LoggedEvent::Statement(LoggedText { text: b"drop table t", is_compressed: false });
        assert_eq!(expect, content(&event(2, 0, text)));
        assert_eq!(LoggedEvent::AnyRows, content(&event(40, 0, &[])));
        assert_eq!(LoggedEvent::Harmless, content(&event(160, 0, b"update t")));
        assert_eq!(LoggedEvent::Unknown(26), content(&event(26, 0, &[])));
        assert_eq!(LoggedEvent::Unknown(99), content(&event(99, 0, &[])));
        assert_eq!(LoggedEvent::Harmless, content(&event(99, IGNORABLE, &[])));
        let mut format = vec![0; 57 + 40];
        assert_eq!(LoggedEvent::Format { has_checksums: false }, content(&event(15, 0, &format)));
        let kind = format.len() - 5;
        format[kind] = 1;
        assert_eq!(LoggedEvent::Format { has_checksums: true }, content(&event(15, 0, &format)));
        assert_eq!(Err(BadEvent), read_event(&rotate[..rotate.len() - 1]), "a part");
        // With a checksum the name is shorter; the form of all events has one in its content.
        let LoggedEvent::Rotate { file: "bin.00", .. } = read_event_with_checksum(&rotate).unwrap().1 else {
            panic!()
        };
        assert_eq!(read_event(&event(15, 0, &format)), read_event_with_checksum(&event(15, 0, &format)));
        assert_eq!(Err(BadEvent), read_event_with_checksum(&event(3, 0, &[0; 3])), "no room for it");
        assert_eq!(Err(BadEvent), read_event(&[]));
    }

    #[test]
    fn tables_and_rows() {
        // INT, VARCHAR(20) of 4 bytes, DECIMAL(10, 2), CHAR(255) of 4 bytes, ENUM.
        let map = b"\x12\0\0\0\0\0\x01\0\x04shop\0\x01t\0\x05\x03\x0f\xf6\xfe\xfe\x08\x50\0\x0a\x02\xce\xfc\xf7\x01\x1f";
        let event_of_map = event(19, 0, map);
        let LoggedEvent::TableMap(map) = content(&event_of_map) else { panic!() };
        assert_eq!((0x12, "shop", "t", 5), (map.number, map.schema, map.name, map.columns.len()));
        assert_eq!(LoggedType { kind: 254, detail: 0xfcce }, map.columns[3]);
        let update =
            b"\x12\0\0\0\0\0\x01\0\x05\xff\x07\xe0\x07\0\0\0\x01a\x80\0\0\0\x01\x02\0xy\x02\xfc\x01\0\0\0";
        let event_of_rows = event(24, 0, update);
        let LoggedEvent::Rows(rows) = content(&event_of_rows) else { panic!() };
        assert_eq!((0x12, RowsKind::Update, 5), (rows.table, rows.kind, rows.columns));
        let (mut rest, mut values) = (rows.rows, Vec::new());
        // Of the null bits of 5 columns the upper three mean nothing.
        read_row(&mut rest, rows.first, &map.columns, &mut values).unwrap();
        let bytes = |it: &'static [u8]| LoggedValue::Bytes(it);
        let expect =
            [bytes(b"\x07\0\0\0"), bytes(b"a"), bytes(b"\x80\0\0\0\x01"), bytes(b"xy"), bytes(b"\x02")];
        assert_eq!(expect.to_vec(), values);
        // Three columns, two of them null.
        read_row(&mut rest, &[0x07], &map.columns, &mut values).unwrap_err();
        rest = b"\x06\x01\0\0\0";
        read_row(&mut rest, &[0x07], &map.columns, &mut values).unwrap();
        assert_eq!(
            [bytes(b"\x01\0\0\0"), LoggedValue::Null, LoggedValue::Null, LoggedValue::Absent],
            values[..4]
        );
        assert!(rest.is_empty());
    }

    #[test]
    fn lengths_of_values() {
        let check = |kind: u8, detail: u16, raw: &[u8], expect: Option<usize>| {
            let mut rest = EventBytes(raw);
            let read = value(LoggedType { kind, detail }, &mut rest).ok();
            assert_eq!(expect, read.map(<[u8]>::len), "{kind} {detail}");
        };
        let raw = [2; 600];
        for (kind, expect) in [(1, 1), (2, 2), (9, 3), (3, 4), (8, 8), (13, 1), (10, 3)] {
            check(kind, 0, &raw, Some(expect));
        }
        check(5, 8, &raw, Some(8));
        for (kind, base) in [(17, 4), (18, 5), (19, 3)] {
            for (digits, more) in [(0, 0), (1, 1), (2, 1), (3, 2), (6, 3)] {
                check(kind, digits, &raw, Some(base + more));
            }
            check(kind, 7, &raw, None);
        }
        check(16, 0x0104, &raw, Some(2));
        check(246, 0x0209, &raw, Some(5));
        check(246, 0x1e41, &raw, Some(4 * 3 + 4 + 4 * 3 + 2));
        check(246, 0x0a05, &raw, None);
        check(15, 255, &raw, Some(2));
        check(15, 256, &raw, Some(0x202));
        check(252, 1, &raw, Some(2));
        check(254, 0x02f8, &raw, Some(2));
        for unknown in [7, 11, 12, 6, 20, 99] {
            check(unknown, 0, &raw, None);
        }
    }

    #[test]
    fn compressed_parts() {
        assert_eq!(Ok(CompressedPart { length: 0x0102, bytes: b"z" }), read_compressed(b"\x82\x01\x02z"));
        for wrong in [&b""[..], b"\x80z", b"\x85\0\0\0\0\0", b"\x91\0", b"\x02\0\0"] {
            assert_eq!(Err(BadEvent), read_compressed(wrong), "{wrong:?}");
        }
    }
}
