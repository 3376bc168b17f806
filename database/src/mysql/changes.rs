//! The events of the binary log of MariaDB and MySQL as tags of pages, transaction by transaction. What is not known of a change makes the
//! pages of more rows outdated: of all values of a column, of a whole table, of the whole database. The connection is not here.

#[cfg(test)]
mod tests;

use super::position::LogPosition;
use super::tables::{DependentTables, KnownTable, KnownTables, TablePlace, name_in_tags};
use crate::row_tags::{KeyClass, ROWS, SideValue, TableForm, join_tags};
use flate2::read::ZlibDecoder;
use larder_wire::binlog::{
    BadEvent, LoggedEvent, LoggedText, LoggedType, LoggedValue, RowsEvent, RowsKind, read_compressed,
    read_event, read_event_with_checksum, read_row,
};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::rc::Rc;

/// The tags of a transaction beyond which all pages of its tables are purged.
const MOST_TAGS: usize = 10_000;
/// The maps of tables beyond which they are not kept for the next transaction.
const MOST_MAPS: usize = 4096;
/// Bytes of the largest part of an event that is decompressed.
const LARGEST: usize = 1 << 30;

/// The number of a transaction of MySQL: its server, and its count.
pub(super) type TransactionNumber = ([u8; 16], u64);

/// The changes that the log has reported since the last call.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// The tags of pages that committed transactions make outdated.
    pub tags: BTreeSet<String>,
    /// The position behind the last of these transactions.
    pub end: LogPosition,
    /// Their numbers, with MySQL.
    pub numbers: Vec<TransactionNumber>,
}

/// The events of a log, as they become tags.
pub(super) struct LogTags {
    /// The database of tables that tags name without it.
    own: Box<str>,
    /// The databases whose tables have tags.
    schemas: BTreeSet<Box<str>>,
    tables: KnownTables,
    /// The tables of the events that follow, by their numbers, with the event of each; without it, that of the next transaction differs.
    maps: HashMap<u64, (Box<[u8]>, Rc<MappedTable>)>,
    position: LogPosition,
    in_transaction: bool,
    open: OpenTransaction,
    committed: Committed,
    /// Tables have changed, and are not known until they are looked at.
    have_changed: bool,
    /// A table is not known.
    has_new: bool,
    /// Tables that were looked for and not found.
    unseen: BTreeSet<TablePlace>,
    has_checksums: bool,
}

/// The part of a transaction that was read.
#[derive(Default)]
struct OpenTransaction {
    tags: BTreeSet<String>,
    /// The tables with changes, by their names in tags.
    tables: BTreeSet<Box<str>>,
    number: Option<TransactionNumber>,
    /// A change without a known table.
    is_of_all: bool,
}

/// A table as the log names it.
struct MappedTable {
    name: Option<Box<str>>,
    columns: Vec<LoggedType>,
    known: Option<Rc<KnownTable>>,
    dependent: DependentTables,
    /// It has had this form, and these dependent tables, since the tables were looked at.
    is_certain: bool,
}

impl LogTags {
    /// From a position on, for tables of these databases; those of `own` have tags without its name.
    pub fn new(own: &str, schemas: BTreeSet<Box<str>>, tables: KnownTables, position: LogPosition) -> Self {
        Self {
            own: own.into(),
            schemas,
            tables,
            maps: HashMap::new(),
            position,
            in_transaction: false,
            open: OpenTransaction::default(),
            committed: Committed::default(),
            have_changed: false,
            has_new: false,
            unseen: BTreeSet::new(),
            has_checksums: false,
        }
    }

    /// The position up to which the log was read.
    pub fn position(&self) -> &LogPosition {
        &self.position
    }

    /// The tables as they are now. Rows that belong to a map before this keep its form: no table changes within a transaction.
    pub fn set_tables(&mut self, tables: KnownTables) {
        self.tables = tables;
        for (event, _) in self.maps.values_mut() {
            *event = Box::default();
        }
        (self.have_changed, self.has_new) = (false, false);
    }

    /// Whether the tables are to be looked at again.
    pub fn is_outdated(&self) -> bool {
        self.have_changed || self.has_new
    }

    /// The transactions that were committed since the last call of [`LogTags::take`].
    pub fn committed(&self) -> &Committed {
        &self.committed
    }

    /// The same, which are none then.
    pub fn take(&mut self) -> Committed {
        std::mem::take(&mut self.committed)
    }

    /// Reads an event.
    ///
    /// # Errors
    /// One sentence: changes may have been missed.
    pub fn read(&mut self, event: &[u8]) -> Result<(), String> {
        let malformed = |_| "its log is malformed".to_owned();
        let read = match self.has_checksums {
            true => read_event_with_checksum(event),
            false => read_event(event),
        };
        let (head, content) = read.map_err(malformed)?;
        let has_place = !matches!(content, LoggedEvent::Rotate { .. } | LoggedEvent::Quiet);
        if head.next != 0 && !head.is_artificial && has_place {
            self.position.advance(head.next);
        }
        match content {
            LoggedEvent::Rotate { file, position } => {
                let to = LogPosition::new(file, position).ok_or("the name of its log has no number")?;
                self.maps.clear();
                self.position = to;
            }
            LoggedEvent::Format { has_checksums } => {
                self.maps.clear();
                self.has_checksums = has_checksums;
            }
            LoggedEvent::Begin => self.begin(true),
            LoggedEvent::Alone => self.begin(false),
            LoggedEvent::Numbered(server, count) => {
                self.begin(false);
                self.open.number = Some((server, count));
            }
            LoggedEvent::Commit => self.commit(),
            // The statement that commits it has nothing but its name.
            LoggedEvent::Prepared => {
                (self.open, self.in_transaction) = (OpenTransaction::default(), false);
            }
            LoggedEvent::Statement(it) => self.statement(it).map_err(malformed)?,
            LoggedEvent::TableMap(map) => {
                if self.maps.get(&map.number).is_none_or(|it| *it.0 != *map.raw || !it.1.is_certain) {
                    let mapped = self.mapped((map.schema.into(), map.name.into()), map.columns);
                    self.maps.insert(map.number, (map.raw.into(), Rc::new(mapped)));
                }
            }
            LoggedEvent::Rows(rows) => self.rows(&rows).map_err(malformed)?,
            LoggedEvent::SomeRows(table) => {
                let table = self.maps.get(&table).ok_or_else(|| malformed(BadEvent))?.1.clone();
                self.whole(&table);
            }
            LoggedEvent::AnyRows => self.any(),
            LoggedEvent::Quiet | LoggedEvent::Harmless => {}
            LoggedEvent::Unknown(26) => return Err("its log lacks changes (an incident)".to_owned()),
            LoggedEvent::Unknown(kind) => {
                return Err(format!("its log has an event of the unknown type {kind}"));
            }
        }
        Ok(())
    }

    /// A transaction begins. The end of the former one is not missing in any known log.
    fn begin(&mut self, in_transaction: bool) {
        if !self.open.tags.is_empty() || self.open.is_of_all {
            self.commit();
        }
        self.in_transaction = in_transaction;
        if self.maps.len() > MOST_MAPS {
            self.maps.clear();
        }
    }

    fn commit(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        self.in_transaction = false;
        if open.is_of_all {
            open.tags = BTreeSet::from([ROWS.to_owned()]);
        }
        if !open.tags.is_empty() {
            self.committed.numbers.extend(open.number);
            join_tags(&mut self.committed.tags, open.tags);
            self.committed.end = self.position.clone();
        }
    }

    /// A change of rows that are not known.
    fn any(&mut self) {
        self.open.is_of_all = true;
        if !self.in_transaction {
            self.commit();
        }
    }

    fn statement(&mut self, it: LoggedText<'_>) -> Result<(), BadEvent> {
        let text = inflated(it.text, it.is_compressed)?;
        match StatementEffect::of(&text) {
            StatementEffect::Begins => self.begin(true),
            // A transaction that was rolled back is in the log if it changed a table without transactions.
            StatementEffect::Commits => self.commit(),
            StatementEffect::Nothing => {}
            StatementEffect::Rows => self.any(),
            StatementEffect::CommitsPrepared => {
                self.open.is_of_all = true;
                self.commit();
            }
            StatementEffect::Tables => {
                if self.position > self.tables.from {
                    self.have_changed = true;
                    self.maps.clear();
                    self.unseen.clear();
                }
                self.any();
            }
        }
        Ok(())
    }

    fn mapped(&mut self, place: TablePlace, columns: Vec<LoggedType>) -> MappedTable {
        let has_tags = self.schemas.contains(&place.0) || &*place.0 == "public";
        let name = has_tags.then(|| name_in_tags(&self.own, &place));
        let known = self.tables.forms.get(&place);
        // Looked for once: the user may not be allowed to see it.
        self.has_new |= has_tags && known.is_none() && self.unseen.insert(place.clone());
        let is_certain = self.position > self.tables.since && !self.have_changed;
        let known = known.filter(|it| is_certain && it.form.len() == columns.len()).cloned();
        let dependent = self.tables.dependent.get(&place).cloned().unwrap_or_default();
        MappedTable { name, columns, known, dependent, is_certain }
    }

    /// A change of any rows of a table.
    fn whole(&mut self, table: &MappedTable) {
        self.open.is_of_all |= !table.is_certain;
        for name in table.name.iter().chain(&table.dependent.by_update) {
            self.open.tags.extend(TableForm::all_rows(name));
            self.open.tables.insert(name.clone());
        }
    }

    fn rows(&mut self, event: &RowsEvent<'_>) -> Result<(), BadEvent> {
        let Some((_, table)) = self.maps.get(&event.table) else {
            // The end of a statement has no table.
            return if event.table == 0xff_ffff { Ok(()) } else { Err(BadEvent) };
        };
        let table = table.clone();
        if event.columns != table.columns.len() {
            return Err(BadEvent);
        }
        // A foreign key may be new, or gone since: no log has the rows that the change reached through it.
        if !table.is_certain {
            self.open.is_of_all = true;
            return Ok(());
        }
        let dependent = match event.kind {
            RowsKind::Insert => &BTreeSet::new(),
            RowsKind::Update => &table.dependent.by_update,
            RowsKind::Delete => &table.dependent.by_delete,
        };
        for name in dependent {
            self.open.tags.extend(TableForm::all_rows(name));
            self.open.tables.insert(name.clone());
        }
        let Some(name) = &table.name else { return Ok(()) };
        self.open.tables.insert(name.clone());
        let rows = inflated(event.rows, event.is_compressed)?;
        let is_read = table
            .known
            .as_ref()
            .is_some_and(|known| add_rows(event, &rows, &table.columns, known, &mut self.open.tags).is_ok());
        if !is_read {
            self.open.tags.extend(TableForm::all_rows(name));
        }
        if self.open.tags.len() > MOST_TAGS {
            let all = self.open.tables.iter().flat_map(|it| TableForm::all_rows(it));
            self.open.tags = all.collect();
        }
        Ok(())
    }
}

/// Adds the tags of rows, up to a few more than [`MOST_TAGS`]: the caller then replaces them.
fn add_rows(
    event: &RowsEvent<'_>,
    mut rest: &[u8],
    columns: &[LoggedType],
    known: &KnownTable,
    tags: &mut BTreeSet<String>,
) -> Result<(), BadEvent> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let all = rest.len();
        read_row(&mut rest, event.first, columns, &mut first)?;
        second.clear();
        if event.kind == RowsKind::Update {
            read_row(&mut rest, event.second, columns, &mut second)?;
        }
        if rest.len() == all {
            return Err(BadEvent);
        }
        let texts = |row: &[LoggedValue<'_>]| -> Result<Vec<Option<Vec<u8>>>, BadEvent> {
            let text = |(at, value): (usize, &LoggedValue<'_>)| match value {
                LoggedValue::Bytes(it) if known.form.uses(at) => known.text(at, columns[at], it).map(Some),
                _ => Ok(None),
            };
            row.iter().enumerate().map(text).collect()
        };
        let (first_texts, second_texts) = (texts(&first)?, texts(&second)?);
        let sides = |at: usize| {
            let one = side(&first, &first_texts, at).unwrap_or(SideValue::Unknown);
            match event.kind {
                RowsKind::Insert => (SideValue::None, one),
                RowsKind::Delete => (one, SideValue::None),
                // A column that the new row lacks has not changed.
                RowsKind::Update => (one, side(&second, &second_texts, at).unwrap_or(one)),
            }
        };
        known.form.add_tags(&sides, tags);
        if tags.len() > MOST_TAGS {
            break;
        }
    }
    Ok(())
}

/// A value of a row before or after a change; `None` if the log leaves it out.
fn side<'t>(row: &[LoggedValue<'_>], texts: &'t [Option<Vec<u8>>], at: usize) -> Option<SideValue<'t>> {
    match row.get(at)? {
        LoggedValue::Absent => None,
        LoggedValue::Null => Some(SideValue::Null),
        LoggedValue::Bytes(_) => Some(texts[at].as_deref().map_or(SideValue::Unknown, SideValue::Text)),
    }
}

impl KnownTable {
    /// The one text of a value.
    fn text(&self, at: usize, column: LoggedType, bytes: &[u8]) -> Result<Vec<u8>, BadEvent> {
        let is_text = matches!(column.kind, 15 | 252..=254);
        let is_integer = matches!(column.kind, 1 | 2 | 3 | 8 | 9);
        let declared = &self.columns[at];
        match declared.class {
            Some(KeyClass::Text) if is_text => Ok(bytes.to_vec()),
            Some(KeyClass::Integer) if is_integer => {
                let number = bytes.iter().rev().fold(0_u64, |all, it| all << 8 | u64::from(*it));
                let unused = 64 - 8 * bytes.len();
                Ok(match declared.is_unsigned {
                    true => number.to_string().into_bytes(),
                    false => ((number << unused).cast_signed() >> unused).to_string().into_bytes(),
                })
            }
            _ => Err(BadEvent),
        }
    }
}

/// A part of an event, decompressed.
fn inflated(bytes: &[u8], is_compressed: bool) -> Result<Cow<'_, [u8]>, BadEvent> {
    if !is_compressed {
        return Ok(Cow::Borrowed(bytes));
    }
    let part = read_compressed(bytes)?;
    if part.length > LARGEST {
        return Err(BadEvent);
    }
    let mut out = Vec::new();
    let read = ZlibDecoder::new(part.bytes).take(part.length as u64 + 1).read_to_end(&mut out);
    if read.is_err() || out.len() != part.length {
        return Err(BadEvent);
    }
    Ok(Cow::Owned(out))
}

/// The effect of a statement that the log has as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementEffect {
    /// A transaction begins.
    Begins,
    /// It ends.
    Commits,
    /// No row and no table changes.
    Nothing,
    /// Rows change, of whatever table.
    Rows,
    /// A transaction ends whose rows were in the log at its preparation, maybe before this connection.
    CommitsPrepared,
    /// Tables change, or something that is not known.
    Tables,
}

impl StatementEffect {
    fn of(text: &[u8]) -> Self {
        let head = String::from_utf8_lossy(&text[..text.len().min(80)]).to_ascii_lowercase();
        let words: Vec<&str> = head.split(|it: char| it.is_ascii_whitespace() || it == ';').collect();
        let words: Vec<&str> = words.into_iter().filter(|it| !it.is_empty()).take(4).collect();
        match words[..] {
            ["begin", ..] | ["start", "transaction", ..] => Self::Begins,
            ["commit"] | ["rollback"] => Self::Commits,
            ["rollback", "to", ..] | ["savepoint" | "release", ..] => Self::Nothing,
            ["xa", "start" | "begin" | "end" | "prepare" | "rollback", ..] => Self::Nothing,
            ["xa", "commit", ..] => Self::CommitsPrepared,
            ["create" | "drop", "temporary", ..] | ["drop", "/*!40005", "temporary", ..] => Self::Nothing,
            ["flush" | "grant" | "revoke", ..] => Self::Nothing,
            ["analyze", "table" | "tables" | "local" | "no_write_to_binlog", ..] => Self::Nothing,
            // It executes the statement that it analyses.
            ["analyze", ..] => Self::Rows,
            ["create" | "drop" | "alter", "user" | "role", ..] => Self::Nothing,
            ["insert" | "update" | "delete" | "replace" | "load" | "truncate", ..] => Self::Rows,
            _ => Self::Tables,
        }
    }
}
