//! The messages of PostgreSQL's logical replication as its plugin `pgoutput` writes them (protocol version 1, PostgreSQL
//! documentation, "Logical Replication Message Formats"). Their transport, and the meaning of rows, are not here.

/// A message without a valid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChange;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicatedChange<'a> {
    /// The transaction with this number begins.
    Begin(u32),
    /// The transaction is committed.
    Commit,
    /// The form of a table's rows, before the first of them and after each change of it.
    Relation(Relation<'a>),
    /// A new row of the table with this number.
    Insert(u32, Tuple<'a>),
    /// A changed row.
    Update {
        /// The number of its table.
        relation: u32,
        /// Its former values, or those of its key; `None` if the key is unchanged and nothing more is logged.
        old: Option<OldTuple<'a>>,
        /// Its values.
        new: Tuple<'a>,
    },
    /// A row that is gone.
    Delete(u32, OldTuple<'a>),
    /// Tables that are empty now.
    Truncate(RelationNumbers<'a>),
    /// A message without effect on rows: an origin, a type, a message of an application.
    Other,
}

/// The form of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation<'a> {
    /// Its number in the other messages.
    pub number: u32,
    /// Its schema; empty for `pg_catalog`.
    pub schema: &'a str,
    /// Its name.
    pub name: &'a str,
    columns: (u16, &'a [u8]),
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationColumn<'a> {
    /// Whether it belongs to the key by which rows are identified.
    pub is_key: bool,
    /// Its name.
    pub name: &'a str,
    /// The number of its type.
    pub type_number: u32,
}

/// The former values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// Only those of the key; other columns are null.
    Key(Tuple<'a>),
    /// All of them (`REPLICA IDENTITY FULL`).
    Whole(Tuple<'a>),
}

/// The values of a row in the order of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple<'a> {
    values: (u16, &'a [u8]),
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TupleValue<'a> {
    /// NULL.
    Null,
    /// A large value that did not change and is not in the log.
    Unchanged,
    /// In text form.
    Text(&'a [u8]),
}

/// The numbers of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationNumbers<'a>(&'a [u8]);

impl<'a> Relation<'a> {
    /// Its columns in order.
    pub fn columns(&self) -> impl Iterator<Item = RelationColumn<'a>> + use<'a> {
        let (count, bytes) = self.columns;
        let mut rest = ChangeBytes(bytes);
        // The bytes were read once in `read`: no column is malformed.
        (0..count).map_while(move |_| rest.column().ok())
    }
}

impl<'a> Tuple<'a> {
    /// Its values in order.
    pub fn values(&self) -> impl Iterator<Item = TupleValue<'a>> + use<'a> {
        let (count, bytes) = self.values;
        let mut rest = ChangeBytes(bytes);
        (0..count).map_while(move |_| rest.value().ok())
    }
}

impl<'a> RelationNumbers<'a> {
    /// The numbers.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.chunks_exact(4).map(|it| it.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

/// Reads one message.
///
/// # Errors
/// It is malformed, has bytes after its end, or an unknown type.
pub fn read(message: &[u8]) -> Result<ReplicatedChange<'_>, BadChange> {
    let mut rest = ChangeBytes(message);
    let change = match rest.byte()? {
        b'B' => {
            rest.take(16)?;
            ReplicatedChange::Begin(rest.u32()?)
        }
        b'C' => {
            rest.take(25)?;
            ReplicatedChange::Commit
        }
        b'R' => ReplicatedChange::Relation(rest.relation()?),
        b'I' => {
            let relation = rest.u32()?;
            ReplicatedChange::Insert(relation, rest.new_tuple()?)
        }
        b'U' => {
            let relation = rest.u32()?;
            let old = match rest.0.first() {
                Some(b'K' | b'O') => Some(rest.old_tuple()?),
                _ => None,
            };
            ReplicatedChange::Update { relation, old, new: rest.new_tuple()? }
        }
        b'D' => {
            let relation = rest.u32()?;
            ReplicatedChange::Delete(relation, rest.old_tuple()?)
        }
        b'T' => {
            let count = usize::try_from(rest.u32()?).map_err(|_| BadChange)?;
            rest.byte()?;
            let bytes = count.checked_mul(4).ok_or(BadChange)?;
            ReplicatedChange::Truncate(RelationNumbers(rest.take(bytes)?))
        }
        // An origin, a type, a message: their ends are those of the transport.
        b'O' | b'Y' | b'M' => return Ok(ReplicatedChange::Other),
        _ => return Err(BadChange),
    };
    if rest.0.is_empty() { Ok(change) } else { Err(BadChange) }
}

/// The bytes that are not read yet.
struct ChangeBytes<'a>(&'a [u8]);

impl<'a> ChangeBytes<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], BadChange> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(BadChange)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, BadChange> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, BadChange> {
        Ok(self.take(2)?.iter().fold(0, |number, byte| number << 8 | u16::from(*byte)))
    }

    fn u32(&mut self) -> Result<u32, BadChange> {
        Ok(self.take(4)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Text with a NUL behind it.
    fn text(&mut self) -> Result<&'a str, BadChange> {
        let end = self.0.iter().position(|it| *it == 0).ok_or(BadChange)?;
        let text = std::str::from_utf8(self.take(end)?).map_err(|_| BadChange)?;
        self.byte()?;
        Ok(text)
    }

    fn relation(&mut self) -> Result<Relation<'a>, BadChange> {
        let (number, schema, name) = (self.u32()?, self.text()?, self.text()?);
        self.byte()?;
        let count = self.u16()?;
        let columns = self.0;
        for _ in 0..count {
            self.column()?;
        }
        let columns = (count, &columns[..columns.len() - self.0.len()]);
        Ok(Relation { number, schema, name, columns })
    }

    fn column(&mut self) -> Result<RelationColumn<'a>, BadChange> {
        let (flags, name, type_number) = (self.byte()?, self.text()?, self.u32()?);
        self.take(4)?;
        Ok(RelationColumn { is_key: flags & 1 == 1, name, type_number })
    }

    fn new_tuple(&mut self) -> Result<Tuple<'a>, BadChange> {
        match self.byte()? {
            b'N' => self.tuple(),
            _ => Err(BadChange),
        }
    }

    fn old_tuple(&mut self) -> Result<OldTuple<'a>, BadChange> {
        match self.byte()? {
            b'K' => self.tuple().map(OldTuple::Key),
            b'O' => self.tuple().map(OldTuple::Whole),
            _ => Err(BadChange),
        }
    }

    fn tuple(&mut self) -> Result<Tuple<'a>, BadChange> {
        let count = self.u16()?;
        let values = self.0;
        for _ in 0..count {
            self.value()?;
        }
        Ok(Tuple { values: (count, &values[..values.len() - self.0.len()]) })
    }

    fn value(&mut self) -> Result<TupleValue<'a>, BadChange> {
        match self.byte()? {
            b'n' => Ok(TupleValue::Null),
            b'u' => Ok(TupleValue::Unchanged),
            b't' => {
                let length = usize::try_from(self.u32()?).map_err(|_| BadChange)?;
                self.take(length).map(TupleValue::Text)
            }
            // Values in binary form are sent on demand only.
            _ => Err(BadChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `users(id, name)` with the key `id`, as PostgreSQL 15 wrote it.
    const RELATION: &[u8] =
        b"R\0\0\x40\x05public\0users\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff";

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut out = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            match value {
                None => out.push(b'n'),
                Some("unchanged") => out.push(b'u'),
                Some(text) => {
                    out.push(b't');
                    out.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                    out.extend(text.bytes());
                }
            }
        }
        out
    }

    #[test]
    fn the_form_of_a_table() {
        let Ok(ReplicatedChange::Relation(it)) = read(RELATION) else { panic!("a relation") };
        assert_eq!((0x4005, "public", "users"), (it.number, it.schema, it.name));
        let column = |is_key, name, type_number| RelationColumn { is_key, name, type_number };
        assert_eq!([column(true, "id", 23), column(false, "name", 25)], *it.columns().collect::<Vec<_>>());
    }

    #[test]
    fn rows() {
        let new = row(&[Some("5"), None, Some("unchanged")]);
        let message = [b"I\0\0\0\x07N", &*new].concat();
        let Ok(ReplicatedChange::Insert(7, tuple)) = read(&message) else { panic!("an insert") };
        let expect = [TupleValue::Text(b"5"), TupleValue::Null, TupleValue::Unchanged];
        assert_eq!(expect, *tuple.values().collect::<Vec<_>>());
        let old = row(&[Some("4")]);
        for (kind, whole) in [(b'K', false), (b'O', true)] {
            let message = [b"U\0\0\0\x07", &[kind][..], &*old, b"N", &*new].concat();
            let Ok(ReplicatedChange::Update { relation: 7, old: Some(old), new }) = read(&message) else {
                panic!("an update")
            };
            assert_eq!(whole, matches!(old, OldTuple::Whole(_)));
            assert_eq!(3, new.values().count());
            let message = [b"D\0\0\0\x07", &[kind][..], &row(&[Some("4")])].concat();
            assert!(matches!(read(&message), Ok(ReplicatedChange::Delete(7, _))));
        }
        let message = [b"U\0\0\0\x07N", &*new].concat();
        assert!(matches!(read(&message), Ok(ReplicatedChange::Update { old: None, .. })));
        let Ok(ReplicatedChange::Truncate(tables)) = read(b"T\0\0\0\x02\0\0\0\0\x07\0\0\x40\x05") else {
            panic!("a truncation")
        };
        assert_eq!([7, 0x4005], *tables.iter().collect::<Vec<_>>());
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for wrong in [
            &b""[..],
            b"X",
            b"B",
            b"I\0\0\0\x07",
            b"I\0\0\0\x07N\0\x01t\0\0\0\x05abc",
            b"I\0\0\0\x07K\0\0",
            b"I\0\0\0\x07N\0\0surplus",
            b"D\0\0\0\x07N\0\0",
            b"T\xff\xff\xff\xff\0",
            b"R\0\0\0\x01public\0users",
        ] {
            assert_eq!(Err(BadChange), read(wrong), "{}", wrong.escape_ascii());
        }
        for end in 0..RELATION.len() {
            assert_eq!(Err(BadChange), read(&RELATION[..end]));
        }
    }
}
