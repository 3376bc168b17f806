//! Rows as JSON, NDJSON or CSV. The forms of single values are in `cell`.

use crate::cell::{self, NumberForm, SqlCell};
use crate::error::SqlError;
use bytes::Bytes;

/// The format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultFormat {
    /// One array of objects.
    #[default]
    Json,
    /// One object, of the only row.
    JsonObject,
    /// One object a line.
    Ndjson,
    /// CSV with a line of names (RFC 4180).
    Csv,
    /// One object with the members `HEADER`, `TYPES` and `ROWS`, an array of arrays, as DBSlayer and the bridge of Cherokee have it.
    Table,
}

impl ResultFormat {
    /// Its media type without parameters, as `Accept` names it.
    #[must_use]
    pub fn offer(self) -> &'static str {
        let full = self.media_type();
        full.split_once(';').map_or(full, |it| it.0)
    }

    /// The `Content-Type` of a result.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            ResultFormat::Json | ResultFormat::JsonObject | ResultFormat::Table => "application/json",
            ResultFormat::Ndjson => "application/x-ndjson",
            ResultFormat::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

/// The part of a result that was read.
pub(crate) enum RowProgress {
    /// Rows were encoded, usually one.
    Rows,
    /// Rows were encoded, and the next one may take long.
    Slow,
    /// There are no more.
    End,
}

/// Encodes the rows of one result.
pub struct RowEncoder {
    format: ResultFormat,
    numbers: NumberForm,
    /// The text before each value: `"name":` with its comma or brace.
    before: Vec<Box<[u8]>>,
    names: Vec<Box<str>>,
    /// The types of the columns of a table, as MySQL names them; `MYSQL_TYPE_VAR_STRING` for those beyond.
    types: Vec<&'static str>,
    out: Vec<u8>,
    /// Rows that were begun.
    rows: u64,
    column: usize,
}

impl RowEncoder {
    /// An encoder of rows with columns of these names.
    ///
    /// # Errors
    /// Two columns have one name, which JSON has no form for.
    pub fn new<'n>(
        format: ResultFormat,
        numbers: NumberForm,
        columns: impl Iterator<Item = &'n str>,
    ) -> Result<Self, SqlError> {
        let names: Vec<Box<str>> = columns.map(Box::from).collect();
        let is_json = !matches!(format, ResultFormat::Csv | ResultFormat::Table);
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        if let Some((_, name)) = twice.filter(|_| is_json) {
            return Err(SqlError::Result(format!("two columns are named \"{name}\"; give one an alias")));
        }
        let before = names.iter().enumerate().map(|(at, name)| before(is_json, at, name)).collect();
        let mut out = Vec::new();
        match format {
            ResultFormat::Json => out.push(b'['),
            ResultFormat::JsonObject | ResultFormat::Ndjson | ResultFormat::Table => {}
            ResultFormat::Csv if names.is_empty() => {}
            ResultFormat::Csv => {
                for (at, name) in names.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    cell::write_field(name, &mut out);
                }
                out.extend_from_slice(b"\r\n");
            }
        }
        Ok(Self { format, numbers, before, names, types: Vec::new(), out, rows: 0, column: 0 })
    }

    /// Sets the types of the columns, for [`ResultFormat::Table`], before the first row.
    pub(crate) fn set_types(&mut self, types: impl Iterator<Item = &'static str>) {
        if self.format == ResultFormat::Table {
            self.types = types.collect();
        }
    }

    /// Begins a table: its columns.
    fn begin_table(&mut self) {
        self.out.extend_from_slice(b"{\"HEADER\":[");
        for (at, name) in self.names.iter().enumerate() {
            let comma: &[u8] = if at > 0 { b"," } else { b"" };
            self.out.extend_from_slice(comma);
            cell::write_string(name, &mut self.out);
        }
        self.out.extend_from_slice(b"],\"TYPES\":[");
        for at in 0..self.names.len() {
            let comma: &[u8] = if at > 0 { b"," } else { b"" };
            self.out.extend_from_slice(comma);
            let name = self.types.get(at).copied().unwrap_or("VAR_STRING");
            self.out.extend_from_slice(format!("\"MYSQL_TYPE_{name}\"").as_bytes());
        }
        self.out.extend_from_slice(b"],\"ROWS\":[");
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that wait to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Begins a row.
    pub fn begin_row(&mut self) {
        let is_table = self.format == ResultFormat::Table;
        if self.rows > 0 && (is_table || self.format == ResultFormat::Json) {
            self.out.push(b',');
        }
        if is_table {
            if self.rows == 0 {
                self.begin_table();
            }
            self.out.push(b'[');
        } else if self.names.is_empty() && self.format != ResultFormat::Csv {
            self.out.push(b'{');
        }
        self.rows += 1;
        self.column = 0;
    }

    /// Appends the next value of the row.
    ///
    /// # Errors
    /// It is no valid JSON, in a column of that type.
    pub fn cell(&mut self, value: SqlCell<'_>) -> Result<(), SqlError> {
        let Some(before) = self.before.get(self.column) else { return Ok(()) };
        self.out.extend_from_slice(before);
        let written = match self.format {
            ResultFormat::Csv => cell::write_csv(value, &mut self.out),
            _ => cell::write_json(value, self.numbers, &mut self.out),
        };
        let name = &self.names[self.column];
        self.column += 1;
        written.map_err(|_| SqlError::Result(format!("a value of column \"{name}\" is not valid JSON")))
    }

    /// Ends a row.
    pub fn end_row(&mut self) {
        match self.format {
            ResultFormat::Json | ResultFormat::JsonObject => self.out.push(b'}'),
            ResultFormat::Ndjson => self.out.extend_from_slice(b"}\n"),
            ResultFormat::Csv => self.out.extend_from_slice(b"\r\n"),
            ResultFormat::Table => self.out.push(b']'),
        }
    }

    /// Ends the result.
    pub fn finish(&mut self) {
        match self.format {
            ResultFormat::Json => self.out.push(b']'),
            ResultFormat::Table => {
                if self.rows == 0 {
                    self.begin_table();
                }
                self.out.extend_from_slice(b"]}");
            }
            ResultFormat::JsonObject | ResultFormat::Ndjson | ResultFormat::Csv => {}
        }
    }

    /// The bytes that were encoded since the last call.
    pub fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.out))
    }
}

/// The text before the values of a column.
fn before(is_json: bool, at: usize, name: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    match (is_json, at) {
        (true, 0) => out.push(b'{'),
        (false, 0) => {}
        _ => out.push(b','),
    }
    if is_json {
        cell::write_string(name, &mut out);
        out.push(b':');
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(format: ResultFormat, columns: &[&str], rows: &[&[SqlCell<'_>]]) -> String {
        let mut encoder = RowEncoder::new(format, NumberForm::Strings, columns.iter().copied()).unwrap();
        for row in rows {
            encoder.begin_row();
            row.iter().for_each(|it| encoder.cell(*it).unwrap());
            encoder.end_row();
        }
        encoder.finish();
        String::from_utf8(encoder.take().to_vec()).unwrap()
    }

    #[test]
    fn formats() {
        let rows: &[&[SqlCell<'_>]] =
            &[&[SqlCell::Int(1), SqlCell::Text("a,b")], &[SqlCell::BigInt(2), SqlCell::Null]];
        let names = &["id", "na\"me"];
        let of = |format| encoded(format, names, rows);
        assert_eq!(r#"[{"id":1,"na\"me":"a,b"},{"id":"2","na\"me":null}]"#, of(ResultFormat::Json));
        assert_eq!(
            "{\"id\":1,\"na\\\"me\":\"a,b\"}\n{\"id\":\"2\",\"na\\\"me\":null}\n",
            of(ResultFormat::Ndjson)
        );
        assert_eq!("id,\"na\"\"me\"\r\n1,\"a,b\"\r\n2,\r\n", of(ResultFormat::Csv));
        assert_eq!(r#"{"id":1,"na\"me":"a,b"}"#, encoded(ResultFormat::JsonObject, names, &rows[..1]));
        assert_eq!("[]", encoded(ResultFormat::Json, names, &[]));
        assert_eq!("", encoded(ResultFormat::Ndjson, names, &[]));
        assert_eq!("[{}]", encoded(ResultFormat::Json, &[], &[&[]]));
    }

    #[test]
    fn a_table_has_its_columns_once() {
        let mut encoder =
            RowEncoder::new(ResultFormat::Table, NumberForm::Json, ["a\"", "a\"", "c"].into_iter()).unwrap();
        encoder.set_types(["LONG", "LONGLONG"].into_iter());
        for _ in 0..2 {
            encoder.begin_row();
            [SqlCell::Int(1), SqlCell::BigInt(2), SqlCell::Null]
                .iter()
                .for_each(|it| encoder.cell(*it).unwrap());
            encoder.end_row();
        }
        encoder.finish();
        let head = r#"{"HEADER":["a\"","a\"","c"],"TYPES":["MYSQL_TYPE_LONG","MYSQL_TYPE_LONGLONG","MYSQL_TYPE_VAR_STRING"],"ROWS":["#;
        assert_eq!(format!("{head}[1,2,null],[1,2,null]]}}"), String::from_utf8_lossy(&encoder.take()));
        let empty = encoded(ResultFormat::Table, &["a"], &[]);
        assert_eq!(r#"{"HEADER":["a"],"TYPES":["MYSQL_TYPE_VAR_STRING"],"ROWS":[]}"#, empty);
    }

    #[test]
    fn two_columns_of_one_name() {
        let new = |format| RowEncoder::new(format, NumberForm::Strings, ["a", "a"].into_iter());
        let error = new(ResultFormat::Json).err().map(|it| it.sentence().into_owned());
        assert_eq!(
            Some("the result cannot be sent: two columns are named \"a\"; give one an alias"),
            error.as_deref()
        );
        assert!(new(ResultFormat::Csv).is_ok());
    }
}
