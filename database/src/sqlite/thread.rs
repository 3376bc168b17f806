//! The thread of a connection to SQLite: it opens the file, runs a query, and encodes its rows.

use super::decode::{self, SqliteKind};
use crate::encoder::{RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::parameter::ParameterType;
use crate::settings::{SqlAccess, SqlCall, SqlStatement, SqlText};
use larder_stdx::clock;
use rusqlite::config::DbConfig;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::limits::Limit;
use rusqlite::types::Value;
use rusqlite::{Connection, Error, ErrorCode, InterruptHandle, OpenFlags, Rows, Statement};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Bytes of a piece.
const PIECE: usize = 16 << 10;
/// Milliseconds after which rows are handed over although the piece is not full.
const SLOW: u64 = 20;
/// Instructions of SQLite between two looks at the limits: a fraction of a millisecond.
const LOOK: i32 = 2_000;
/// The most prepared statements of a connection.
const MOST_STATEMENTS: usize = 64;

/// The most bytes of a value in a statement of a request: functions such as `instr` are not interrupted, and compare as many bytes as the
/// product of two lengths, which takes seconds here, and took hours with 16 MiB.
const VALUE: i32 = 1 << 20;
/// The most bytes of a pattern of `LIKE` in such a statement.
const PATTERN: i32 = 1000;

/// The end of the present query, as its worker sets it.
pub(super) struct Limits {
    is_cancelled: AtomicBool,
    /// The end of its time, in milliseconds of the monotonic clock.
    pub until: AtomicU64,
    running: Mutex<Vec<InterruptHandle>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { is_cancelled: false.into(), until: u64::MAX.into(), running: Mutex::default() }
    }
}

impl Limits {
    /// Ends the query that runs, and each later one.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(InterruptHandle::interrupt);
    }

    fn are_exceeded(&self) -> bool {
        self.is_cancelled.load(Relaxed) || clock::monotonic_now().0 >= self.until.load(Relaxed)
    }
}

/// A command of the worker.
pub(super) enum SqliteCommand {
    /// Runs a query up to its first row.
    Begin(SqlCall, oneshot::Sender<Result<Begun, SqlError>>),
    /// Encodes the next rows.
    Fill(RowEncoder, oneshot::Sender<Filled>),
    /// `COMMIT` or `ROLLBACK`.
    End(&'static str, oneshot::Sender<Result<(), SqlError>>),
    /// Prepares a query, and forgets it.
    Describe(Box<str>, oneshot::Sender<Result<(), SqlError>>),
    /// The version, and the kind of the journal.
    Facts(oneshot::Sender<String>),
}

/// A query up to its first row.
pub(super) enum Begun {
    /// It has columns.
    Rows(RowEncoder),
    /// It has none, and is over: the number of rows that it changed.
    Done(u64),
}

/// An encoder with more rows.
pub(super) struct Filled {
    pub encoder: RowEncoder,
    pub result: Result<RowProgress, SqlError>,
}

/// Opens the file, tells the worker, and obeys its commands until there are no more.
pub(super) fn run(
    file: &Path,
    limits: &Arc<Limits>,
    opened: oneshot::Sender<Result<(), SqlError>>,
    commands: &Receiver<SqliteCommand>,
) {
    let reader = match open(file, SqlAccess::Reads, limits) {
        Ok(it) => it,
        Err(error) => {
            let why = error.sqlite_error_code().map_or_else(|| error.to_string(), |_| plain(&error));
            let _ = opened.send(Err(SqlError::Unreachable(why)));
            return;
        }
    };
    let _ = opened.send(Ok(()));
    let mut writer = None;
    while let Ok(command) = commands.recv() {
        match command {
            SqliteCommand::Begin(call, reply) => match call.statement.access {
                SqlAccess::Reads => query(&reader, &call, limits, reply, commands),
                SqlAccess::Writes => {
                    let writer = match &writer {
                        Some(it) => Ok(it),
                        None => open(file, SqlAccess::Writes, limits).map(|it| &*writer.insert(it)),
                    };
                    match writer {
                        Ok(it) => query(it, &call, limits, reply, commands),
                        Err(error) => drop(reply.send(Err(failure(&error, limits)))),
                    }
                }
            },
            SqliteCommand::End(how, reply) => {
                let ended = writer.as_ref().map_or(Ok(()), |it| it.execute_batch(how));
                drop(reply.send(ended.map_err(|it| failure(&it, limits))));
            }
            SqliteCommand::Describe(text, reply) => {
                let described = reader.prepare(&text).map(drop);
                drop(reply.send(described.map_err(|it| failure(&it, limits))));
            }
            SqliteCommand::Facts(reply) => drop(reply.send(facts(&reader, file))),
            // No query runs.
            SqliteCommand::Fill(encoder, reply) => {
                drop(reply.send(Filled { encoder, result: Err(SqlError::Lost) }));
            }
        }
    }
}

/// The version, and the remedy if a program that writes stops the readers.
fn facts(reader: &Connection, file: &Path) -> String {
    let journal: String = reader.pragma_query_value(None, "journal_mode", |it| it.get(0)).unwrap_or_default();
    let version = rusqlite::version();
    match journal.as_str() {
        "wal" => format!(" by SQLite {version}"),
        other => format!(
            " by SQLite {version}; its journal mode is {other}, so that readers wait for each program that writes: \
             `sqlite3 {} 'PRAGMA journal_mode = WAL'` changes that",
            file.display()
        ),
    }
}

/// A connection to a file that exists.
pub(super) fn open(file: &Path, access: SqlAccess, limits: &Arc<Limits>) -> Result<Connection, Error> {
    let mode = match access {
        SqlAccess::Reads => OpenFlags::SQLITE_OPEN_READ_ONLY,
        SqlAccess::Writes => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let connection = Connection::open_with_flags(file, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_prepared_statement_cache_capacity(MOST_STATEMENTS);
    // No other file: neither ATTACH nor VACUUM INTO.
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let of_handler = limits.clone();
    connection.progress_handler(LOOK, Some(move || of_handler.are_exceeded()))?;
    limits.running.lock().unwrap_or_else(PoisonError::into_inner).push(connection.get_interrupt_handle());
    // Reads the file: it is a database, and its directory has what a log needs.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Runs a query to its end, or until its worker wants no more of it.
fn query(
    connection: &Connection,
    call: &SqlCall,
    limits: &Limits,
    reply: oneshot::Sender<Result<Begun, SqlError>>,
    commands: &Receiver<SqliteCommand>,
) {
    let statement = &*call.statement;
    let mut prepared = match begin(connection, call, limits) {
        Ok(prepared) => prepared,
        Err(error) => {
            let failure = failure(&error, limits);
            if statement.access == SqlAccess::Writes {
                let _ = connection.execute_batch("ROLLBACK");
            }
            drop(reply.send(Err(failure)));
            return;
        }
    };
    if prepared.column_count() == 0 {
        let done = prepared.raw_execute().map(|it| Begun::Done(it as u64));
        let done = done.map_err(|it| failure(&it, limits));
        if done.is_err() && statement.access == SqlAccess::Writes {
            let _ = connection.execute_batch("ROLLBACK");
        }
        drop(reply.send(done));
        return;
    }
    // The first step prepares the query again where another program has changed the schema: its columns are known after that.
    let mut rows = prepared.raw_query();
    let columns = match rows.advance() {
        Ok(()) => rows.as_ref().map(ResultColumns::of),
        Err(error) => {
            drop(rows);
            let failure = failure(&error, limits);
            if statement.access == SqlAccess::Writes {
                let _ = connection.execute_batch("ROLLBACK");
            }
            drop(reply.send(Err(failure)));
            return;
        }
    };
    let (columns, mut rows) = match columns {
        Some(columns) => (columns, Some(rows)),
        None => {
            drop(rows);
            (ResultColumns::of(&prepared), None)
        }
    };
    let mut encoder = RowEncoder::new(statement.format, statement.numbers, columns.names());
    encoder.iter_mut().for_each(|it| it.set_types(columns.0.iter().map(|it| it.1.type_name())));
    let is_begun = encoder.is_ok();
    if reply.send(encoder.map(Begun::Rows)).is_err() || !is_begun {
        return;
    }
    let mut is_at_row = true;
    while let Ok(command) = commands.recv() {
        let SqliteCommand::Fill(mut encoder, reply) = command else { return };
        let result = match &mut rows {
            Some(rows) => fill(rows, &mut is_at_row, &columns, statement, &mut encoder, limits),
            None => Ok(RowProgress::End),
        };
        let has_ended = !matches!(result, Ok(RowProgress::Rows | RowProgress::Slow));
        if has_ended {
            // It is over before its worker commits.
            drop(rows);
            drop(prepared);
            let _ = reply.send(Filled { encoder, result });
            return;
        }
        if reply.send(Filled { encoder, result }).is_err() {
            return;
        }
    }
}

/// The columns of a result, in their order.
struct ResultColumns(Vec<(Box<str>, SqliteKind)>);

impl ResultColumns {
    /// Those of a query as it is prepared now.
    fn of(statement: &Statement<'_>) -> Self {
        Self(
            statement.columns().iter().map(|it| (it.name().into(), SqliteKind::of(it.decl_type()))).collect(),
        )
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|it| &*it.0)
    }
}

/// Prepares a query, and binds its values.
fn begin<'c>(
    connection: &'c Connection,
    call: &SqlCall,
    limits: &Limits,
) -> Result<rusqlite::CachedStatement<'c>, Error> {
    let statement = &*call.statement;
    let most = limits.until.load(Relaxed).saturating_sub(clock::monotonic_now().0);
    connection.busy_timeout(Duration::from_millis(most.min(i32::MAX as u64)))?;
    if statement.text == SqlText::OfRequest {
        // Its memory. The connection carries no other statement.
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE)?;
        // A comparison of patterns is not interrupted.
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN)?;
    }
    if statement.access == SqlAccess::Writes {
        connection.execute_batch("BEGIN IMMEDIATE")?;
    }
    let mut prepared = connection.prepare_cached(&statement.query.text)?;
    bind(&mut prepared, call)?;
    Ok(prepared)
}

fn bind(prepared: &mut Statement<'_>, call: &SqlCall) -> Result<(), Error> {
    for (at, (text, kind)) in call.values.iter().zip(&call.statement.types).enumerate() {
        let value = text.as_deref().map_or(Value::Null, |text| value(*kind, text));
        prepared.raw_bind_parameter(at + 1, value)?;
    }
    Ok(())
}

/// A value in the type of SQLite that compares as its own type does.
fn value(kind: ParameterType, text: &str) -> Value {
    let text = || text.to_owned();
    match kind {
        ParameterType::Int | ParameterType::BigInt => {
            text().parse().map_or_else(|_| Value::Text(text()), Value::Integer)
        }
        ParameterType::Float => text().parse().map_or_else(|_| Value::Text(text()), Value::Real),
        ParameterType::Bool => Value::Integer(i64::from(text() == "true")),
        ParameterType::Timestamp => Value::Text(crate::calendar::in_utc(&text()).unwrap_or_else(text)),
        // A column of numbers compares digits as a number.
        ParameterType::Decimal
        | ParameterType::Text
        | ParameterType::Uuid
        | ParameterType::Date
        | ParameterType::Json => Value::Text(text()),
    }
}

/// Encodes rows until a piece is full, the limits of the route are exceeded, or the query is slow. Begins with the present row if the query
/// `is_at_row`.
fn fill(
    rows: &mut Rows<'_>,
    is_at_row: &mut bool,
    columns: &ResultColumns,
    statement: &SqlStatement,
    encoder: &mut RowEncoder,
    limits: &Limits,
) -> Result<RowProgress, SqlError> {
    let begun = clock::monotonic_now().0;
    let mut room = String::new();
    loop {
        if !std::mem::take(is_at_row) {
            rows.advance().map_err(|it| failure(&it, limits))?;
        }
        let Some(row) = rows.get() else { return Ok(RowProgress::End) };
        encoder.begin_row();
        for (at, (name, kind)) in columns.0.iter().enumerate() {
            let value = row.get_ref(at).map_err(|it| failure(&it, limits))?;
            let cell = decode::cell(*kind, value, statement.numbers, &mut room)
                .map_err(|why| SqlError::Result(format!("a value of column \"{name}\" {why}")))?;
            encoder.cell(cell)?;
        }
        encoder.end_row();
        if encoder.len() >= PIECE || encoder.rows() > statement.max_rows {
            return Ok(RowProgress::Rows);
        }
        if clock::monotonic_now().0.saturating_sub(begun) > SLOW {
            return Ok(RowProgress::Slow);
        }
    }
}

/// An error as its worker sees it.
fn failure(error: &Error, limits: &Limits) -> SqlError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) if limits.are_exceeded() => SqlError::Timeout,
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::NotADatabase) => {
            SqlError::Unreachable(plain(error))
        }
        _ => SqlError::Rejected(plain(error)),
    }
}

/// The text of an error without that of the query.
pub(super) fn plain(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(text)) | Error::SqlInputError { msg: text, .. } => text.clone(),
        other => other.to_string(),
    }
}
