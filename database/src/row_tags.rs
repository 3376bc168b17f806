//! Tags of pages that show rows of a database: `db:TABLE`, `db:TABLE:KEY` and `db:TABLE:COLUMN=VALUE`. The changes of rows become
//! the tags whose pages they make outdated. The connection to the database, and the purges, are not here.

#[cfg(test)]
mod tests;

use crate::parameter::ParameterType;
use larder_wire::pgoutput::{self, BadChange, OldTuple, Relation, ReplicatedChange, Tuple, TupleValue};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

/// The tag that every page with rows has in addition to its others: they are validated after a gap in the changes.
pub const ROWS: &str = "db:";

/// The tag, in place of [`ROWS`], of pages whose tags name this database.
#[must_use]
pub fn rows_of(database: &str) -> String {
    format!("{ROWS}{database}/")
}

/// The tag of the same rows with the name of their database, where several databases are followed.
#[must_use]
pub fn named_tag(tag: &str, database: &str) -> String {
    format!("{ROWS}{database}/{}", tag.strip_prefix(ROWS).unwrap_or(tag))
}

/// A column by whose values an application tags its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Its table, as in tags.
    pub table: Box<str>,
    /// Its name.
    pub column: Box<str>,
}

/// The form of [`TableColumn`] in the configuration, as the end of a sentence.
pub const TABLE_COLUMN_FORM: &str = "\"TABLE.COLUMN\" or \"SCHEMA.TABLE.COLUMN\"";

impl TableColumn {
    /// Parses `TABLE.COLUMN`, or `SCHEMA.TABLE.COLUMN`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (table, column) = text.trim().rsplit_once('.')?;
        (is_table(table) && is_name(column))
            .then(|| Self { table: spelled(table).into(), column: column.into() })
    }
}

/// The rows that a result shows, as the configuration declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownRows {
    /// Any row of a table.
    Table(Box<str>),
    /// The rows of a table with this value of a column.
    Equal {
        /// The table.
        table: Box<str>,
        /// The column.
        column: Box<str>,
        /// The parameter with the value.
        parameter: Box<str>,
    },
}

/// The form of [`ShownRows`] in the configuration, as the end of a sentence.
pub const SHOWN_ROWS_FORM: &str = "TABLE or \"TABLE.COLUMN = :PARAMETER\"";

impl ShownRows {
    /// Parses `TABLE`, or `TABLE.COLUMN = :PARAMETER`. A table outside of the schema `public` is `SCHEMA.TABLE`, and then
    /// `SCHEMA.TABLE.COLUMN`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('=') {
            None => is_table(text.trim()).then(|| Self::Table(spelled(text.trim()).into())),
            Some((place, parameter)) => {
                let (table, column) = place.trim().rsplit_once('.')?;
                let parameter = parameter.trim().strip_prefix(':')?;
                let is_valid = is_table(table) && is_name(column) && is_name(parameter);
                is_valid.then(|| Self::Equal {
                    table: spelled(table).into(),
                    column: column.into(),
                    parameter: parameter.into(),
                })
            }
        }
    }

    /// Whether rows can be compared with values of a parameter by their texts.
    #[must_use]
    pub fn compares(kind: ParameterType) -> bool {
        KeyClass::of_parameter(kind).is_some()
    }

    /// Its table.
    #[must_use]
    pub fn table(&self) -> &str {
        match self {
            Self::Table(table) | Self::Equal { table, .. } => table,
        }
    }

    /// The tag of a page for this value of its parameter. Without a value (`NULL`, by which queries often mean every row) it is that of
    /// the table.
    #[must_use]
    pub fn tag(&self, value: Option<(&str, ParameterType)>) -> String {
        let canonical = value.and_then(|(text, kind)| KeyClass::of_parameter(kind)?.canonical(text));
        match (self, canonical) {
            (Self::Equal { table, column, .. }, Some(value)) => equal_tag(table, column, value.as_bytes()),
            (Self::Equal { table, .. } | Self::Table(table), _) => table_tag(table),
        }
    }
}

impl std::fmt::Display for ShownRows {
    /// As in the configuration.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Table(table) => f.write_str(table),
            Self::Equal { table, column, parameter } => write!(f, "{table}.{column} = :{parameter}"),
        }
    }
}

fn is_name(text: &str) -> bool {
    let rest = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'$' || it >= 0x80;
    !text.is_empty() && !text.as_bytes()[0].is_ascii_digit() && text.bytes().all(rest)
}

fn is_table(text: &str) -> bool {
    text.split('.').all(is_name) && text.split('.').count() <= 2
}

/// Without the schema that needs no name.
fn spelled(table: &str) -> &str {
    table.strip_prefix("public.").unwrap_or(table)
}

/// A comparison of values that is the equality of their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyClass {
    /// Integers without leading zeros.
    Integer,
    /// Text, compared by bytes.
    Text,
    /// UUIDs in lower case.
    Uuid,
    /// `t` and `f`.
    Bool,
}

impl KeyClass {
    /// That of a parameter; `None` if two texts may be one value.
    #[must_use]
    pub fn of_parameter(kind: ParameterType) -> Option<Self> {
        match kind {
            ParameterType::Int | ParameterType::BigInt => Some(Self::Integer),
            ParameterType::Text => Some(Self::Text),
            ParameterType::Uuid => Some(Self::Uuid),
            ParameterType::Bool => Some(Self::Bool),
            ParameterType::Float
            | ParameterType::Decimal
            | ParameterType::Date
            | ParameterType::Timestamp
            | ParameterType::Json => None,
        }
    }

    /// That of a column by the number of its type in PostgreSQL; `None` for all others, such as `citext`.
    pub(crate) fn of_column(type_number: u32) -> Option<Self> {
        match type_number {
            20 | 21 | 23 => Some(Self::Integer),
            25 | 1043 => Some(Self::Text),
            2950 => Some(Self::Uuid),
            16 => Some(Self::Bool),
            _ => None,
        }
    }

    /// The one text of a value.
    fn canonical(self, text: &str) -> Option<String> {
        match self {
            Self::Integer => text.trim().parse::<i64>().ok().map(|it| it.to_string()),
            Self::Text => Some(text.to_owned()),
            Self::Uuid => {
                let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
                let digits = digits.to_ascii_lowercase();
                let part = |from, to| digits.get(from..to);
                let parts = [part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?];
                (digits.len() == 32).then(|| parts.join("-"))
            }
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "t" | "true" => Some("t".to_owned()),
                "f" | "false" => Some("f".to_owned()),
                _ => None,
            },
        }
    }
}

/// The tag of pages with any row of a table.
fn table_tag(table: &str) -> String {
    format!("{ROWS}{table}")
}

/// The tag of pages with rows of a table by any key.
fn keys_tag(table: &str) -> String {
    format!("{ROWS}{table}:")
}

/// The tag of pages with rows of a table by any value of a column.
fn column_tag(table: &str, column: &str) -> String {
    format!("{ROWS}{table}:{column}=")
}

/// The tag of pages with rows of a table by the values of their key.
fn key_tag(table: &str, values: &[&[u8]]) -> String {
    let mut tag = table_tag(table);
    for value in values {
        tag.push(':');
        encode(value, &mut tag);
    }
    tag
}

/// The tag of pages with rows of a table by the value of a column.
fn equal_tag(table: &str, column: &str, value: &[u8]) -> String {
    let mut tag = column_tag(table, column);
    encode(value, &mut tag);
    tag
}

/// Appends a value with every byte escaped that separates tags or their parts. An empty one is `%`: the tag would otherwise be that of
/// all values.
fn encode(value: &[u8], tag: &mut String) {
    if value.is_empty() {
        tag.push('%');
    }
    for byte in value {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                tag.push(char::from(*byte))
            }
            _ => drop(write!(tag, "%{byte:02X}")),
        }
    }
}

/// The columns by whose values pages are tagged, by their tables, and how pages compare them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedColumns(BTreeMap<Box<str>, BTreeMap<Box<str>, ComparedBy>>);

/// How pages compare the values of a column; `None` where texts do not tell.
type ComparedBy = BTreeSet<Option<KeyClass>>;

impl WatchedColumns {
    /// Adds the column of a declaration, whose parameter has this type.
    pub fn add(&mut self, rows: &ShownRows, kind: ParameterType) {
        if let ShownRows::Equal { table, column, .. } = rows {
            let columns = self.0.entry(table.clone()).or_default();
            columns.entry(column.clone()).or_default().insert(KeyClass::of_parameter(kind));
        }
    }

    /// Adds a column whose values applications write as the database does.
    pub fn add_column(&mut self, it: &TableColumn) {
        self.0.entry(it.table.clone()).or_default().entry(it.column.clone()).or_default();
    }

    /// How pages are tagged by the values of a column with this comparison of its own.
    fn watch(&self, table: &str, column: &str, own: Option<KeyClass>) -> ColumnWatch {
        match self.0.get(table).and_then(|columns| columns.get(column)) {
            None => ColumnWatch::No,
            Some(classes) if own.is_some() && classes.iter().all(|it| *it == own) => ColumnWatch::ByText,
            Some(_) => ColumnWatch::Unclear,
        }
    }

    /// The watched columns that a table lacks.
    fn missing(&self, table: &str, has: impl Fn(&str) -> bool) -> Vec<String> {
        let columns = self.0.get(table).into_iter().flat_map(|it| it.keys());
        columns.filter(|it| !has(it)).map(|it| it.to_string()).collect()
    }
}

/// The tags whose pages changes make outdated, transaction by transaction.
pub struct RowTags {
    watched: WatchedColumns,
    tables: HashMap<u32, TableForm>,
    /// The transaction that is being read.
    open: ChangedRows,
    /// The transactions that are committed.
    committed: ChangedRows,
}

/// Transactions, and the tags whose pages they make outdated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRows {
    /// The tags.
    pub tags: BTreeSet<String>,
    /// The numbers of the transactions.
    pub transactions: Vec<u32>,
}

/// The form of a table's rows.
#[derive(Debug)]
pub(crate) struct TableForm {
    table: String,
    columns: Vec<ColumnForm>,
    /// The watched columns that it lacks: the publication leaves them out, or the configuration is wrong.
    missing: Vec<String>,
    /// The positions of the columns of the primary key, none without one; `None` while they are not known.
    key: Option<Vec<usize>>,
}

/// A column, and how its values are tags.
#[derive(Debug)]
struct ColumnForm {
    name: String,
    /// Whether the former value is logged where it changes.
    is_identity: bool,
    watch: ColumnWatch,
}

/// Whether pages are tagged by the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnWatch {
    /// They are not.
    No,
    /// By the text of its values.
    ByText,
    /// In a way that its texts do not tell: every change concerns every value.
    Unclear,
}

/// The former and the present values of a row.
struct RowChange<'a> {
    old: Option<(Vec<TupleValue<'a>>, LoggedPart)>,
    new: Option<Vec<TupleValue<'a>>>,
    is_insert: bool,
}

/// The part of a former row that was logged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoggedPart {
    Identity,
    Whole,
}

/// A value of a column before or after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SideValue<'a> {
    /// There was no row, or there is none any more.
    None,
    /// `NULL`.
    Null,
    /// The one text of the value.
    Text(&'a [u8]),
    /// It is not in the log.
    Unknown,
}

impl RowTags {
    /// For pages that are tagged by the values of these columns.
    #[must_use]
    pub fn new(watched: WatchedColumns) -> Self {
        let (tables, open, committed) = Default::default();
        Self { watched, tables, open, committed }
    }

    /// Reads a message. The result is the number of a table whose form was not known, or has changed: its primary key is set by
    /// [`RowTags::set_key`] before the next message.
    ///
    /// # Errors
    /// It is malformed, or of a table without a form.
    pub fn read(&mut self, message: &[u8]) -> Result<Option<u32>, BadChange> {
        match pgoutput::read(message)? {
            ReplicatedChange::Begin(number) => {
                self.open.tags.clear();
                self.open.transactions = vec![number];
            }
            ReplicatedChange::Commit => {
                join_tags(&mut self.committed.tags, std::mem::take(&mut self.open.tags));
                self.committed.transactions.append(&mut self.open.transactions);
            }
            ReplicatedChange::Relation(it) => {
                self.tables.insert(it.number, self.form(&it));
                return Ok(Some(it.number));
            }
            ReplicatedChange::Insert(table, new) => {
                let new = Some(new.values().collect());
                self.change(table, &RowChange { old: None, new, is_insert: true })?;
            }
            ReplicatedChange::Update { relation, old, new } => {
                let new = Some(new.values().collect());
                self.change(relation, &RowChange { old: old.map(former), new, is_insert: false })?;
            }
            ReplicatedChange::Delete(table, old) => {
                self.change(table, &RowChange { old: Some(former(old)), new: None, is_insert: false })?;
            }
            ReplicatedChange::Truncate(tables) => {
                for table in tables.iter() {
                    let form = self.tables.get(&table).ok_or(BadChange)?;
                    self.open.tags.extend(TableForm::all_rows(&form.table));
                }
            }
            ReplicatedChange::Other => {}
        }
        Ok(None)
    }

    /// Sets the columns of the primary key of a table.
    pub fn set_key(&mut self, table: u32, names: &[String]) {
        if let Some(form) = self.tables.get_mut(&table) {
            let at = |name: &String| form.columns.iter().position(|it| it.name == *name);
            form.key = names.iter().map(at).collect();
        }
    }

    /// Values of these columns of a table are not compared by their texts: every change concerns every value.
    pub fn set_unclear(&mut self, table: u32, names: &[String]) {
        if let Some(form) = self.tables.get_mut(&table) {
            let is_key = |it: &usize| names.contains(&form.columns[*it].name);
            if form.key.iter().flatten().any(is_key) {
                form.key = None;
            }
            for column in form.columns.iter_mut().filter(|it| names.contains(&it.name)) {
                if column.watch == ColumnWatch::ByText {
                    column.watch = ColumnWatch::Unclear;
                }
            }
        }
    }

    /// The transactions that were committed since the last call.
    pub fn take(&mut self) -> ChangedRows {
        std::mem::take(&mut self.committed)
    }

    fn form(&self, relation: &Relation<'_>) -> TableForm {
        let table = match relation.schema {
            "public" => relation.name.to_owned(),
            schema => format!("{schema}.{}", relation.name),
        };
        let watched = &self.watched;
        let missing = watched.missing(&table, |name| relation.columns().any(|it| it.name == name));
        let columns = relation.columns().map(|it| {
            let watch = watched.watch(&table, it.name, KeyClass::of_column(it.type_number));
            ColumnForm { name: it.name.to_owned(), is_identity: it.is_key, watch }
        });
        let columns = columns.collect();
        TableForm { table, columns, missing, key: None }
    }

    fn change(&mut self, table: u32, change: &RowChange<'_>) -> Result<(), BadChange> {
        let form = self.tables.get(&table).ok_or(BadChange)?;
        let counts = [change.old.as_ref().map(|it| it.0.len()), change.new.as_ref().map(Vec::len)];
        if counts.into_iter().flatten().any(|it| it != form.columns.len()) {
            return Err(BadChange);
        }
        form.add_tags(&|at| form.sides(change, at), &mut self.open.tags);
        Ok(())
    }
}

/// Adds the smaller set to the larger one. `append` builds both again, for each transaction of a result.
pub(crate) fn join_tags(to: &mut BTreeSet<String>, mut more: BTreeSet<String>) {
    if to.len() < more.len() {
        std::mem::swap(to, &mut more);
    }
    to.extend(more);
}

fn former(old: OldTuple<'_>) -> (Vec<TupleValue<'_>>, LoggedPart) {
    match old {
        OldTuple::Key(it) => (Tuple::values(&it).collect(), LoggedPart::Identity),
        OldTuple::Whole(it) => (it.values().collect(), LoggedPart::Whole),
    }
}

impl TableForm {
    /// For rows of these columns, each with the comparison of its values, and of this primary key. A key with a value that has several texts
    /// is not known.
    pub(crate) fn new(
        table: &str,
        columns: &[(Box<str>, Option<KeyClass>)],
        key: &[Box<str>],
        watched: &WatchedColumns,
    ) -> Self {
        let missing = watched.missing(table, |name| columns.iter().any(|it| *it.0 == *name));
        let at = |name: &str| columns.iter().position(|it| *it.0 == *name && it.1.is_some());
        let key = key.iter().map(|it| at(it)).collect();
        let form = |(name, class): &(Box<str>, Option<KeyClass>)| ColumnForm {
            name: name.to_string(),
            is_identity: false,
            watch: watched.watch(table, name, *class),
        };
        Self { table: table.to_owned(), columns: columns.iter().map(form).collect(), missing, key }
    }

    /// Whether a value of a column is part of a tag.
    pub(crate) fn uses(&self, at: usize) -> bool {
        self.columns[at].watch == ColumnWatch::ByText || self.key.iter().flatten().any(|it| *it == at)
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The tags of all pages of the table.
    pub(crate) fn all_rows(table: &str) -> [String; 2] {
        [table_tag(table), keys_tag(table)]
    }

    /// Adds the tags of pages that show a changed row. `sides` has the values of each column before and after the change.
    pub(crate) fn add_tags<'a>(
        &self,
        sides: &dyn Fn(usize) -> (SideValue<'a>, SideValue<'a>),
        tags: &mut BTreeSet<String>,
    ) {
        tags.insert(table_tag(&self.table));
        self.key_tags(sides, tags);
        tags.extend(self.missing.iter().map(|it| column_tag(&self.table, it)));
        for (at, column) in self.columns.iter().enumerate() {
            match column.watch {
                ColumnWatch::No => continue,
                ColumnWatch::Unclear => {
                    tags.insert(column_tag(&self.table, &column.name));
                    continue;
                }
                ColumnWatch::ByText => {}
            }
            let (before, after) = sides(at);
            for side in [before, after] {
                match side {
                    SideValue::Text(value) => {
                        tags.insert(equal_tag(&self.table, &column.name, value));
                    }
                    SideValue::Unknown => {
                        tags.insert(column_tag(&self.table, &column.name));
                    }
                    // No page is about rows that equal NULL.
                    SideValue::Null | SideValue::None => {}
                }
            }
        }
    }

    /// The tags of the rows' keys. If these are not known, the pages of all keys are concerned.
    fn key_tags<'a>(
        &self,
        sides: &dyn Fn(usize) -> (SideValue<'a>, SideValue<'a>),
        tags: &mut BTreeSet<String>,
    ) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut is_known = self.key.is_some();
        for at in self.key.iter().flatten() {
            let (old, new) = sides(*at);
            for (side, values) in [(old, &mut before), (new, &mut after)] {
                match side {
                    SideValue::Text(it) => values.push(it),
                    SideValue::None => {}
                    SideValue::Null | SideValue::Unknown => is_known = false,
                }
            }
        }
        if !is_known {
            tags.insert(keys_tag(&self.table));
            return;
        }
        for values in [before, after] {
            if !values.is_empty() {
                tags.insert(key_tag(&self.table, &values));
            }
        }
    }

    /// The values of a column before and after a change.
    fn sides<'a>(&self, change: &RowChange<'a>, at: usize) -> (SideValue<'a>, SideValue<'a>) {
        let is_identity = self.columns[at].is_identity;
        let logged = match &change.old {
            Some((values, LoggedPart::Whole)) => Some(values[at]),
            Some((values, LoggedPart::Identity)) if is_identity => Some(values[at]),
            // Nothing is logged of an identity that did not change.
            None if is_identity && !change.is_insert => change.new.as_ref().map(|it| it[at]),
            _ => None,
        };
        let side = |it: Option<TupleValue<'a>>| match it {
            Some(TupleValue::Text(it)) => SideValue::Text(it),
            Some(TupleValue::Null) => SideValue::Null,
            Some(TupleValue::Unchanged) | None => SideValue::Unknown,
        };
        let before = if change.is_insert { SideValue::None } else { side(logged) };
        let after = match &change.new {
            None => SideValue::None,
            Some(values) => match values[at] {
                TupleValue::Unchanged => before,
                value => side(Some(value)),
            },
        };
        (before, after)
    }
}
