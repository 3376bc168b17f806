//! MariaDB and MySQL: connections, transactions, and rows as they arrive. Packets are in `packet_stream`, the values of rows in `decode`.

mod changes;
mod decode;
pub(crate) mod follow;
mod packet_stream;
mod position;
mod server_queries;
mod tables;

use crate::calendar;
use crate::encoder::{RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::parameter::ParameterType;
use crate::settings::{DatabaseSettings, SqlAccess, SqlCall, SqlStatement};
use larder_wire::mysql::{
    BadPacket, CommandAnswer, MySqlColumn, MySqlParameter, PreparedAnswer, RowPacket, execute, forget,
    prepare, read_answer, read_column, read_prepared, read_row,
};
use packet_stream::{MySqlPacketStream, query_failure};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The most prepared statements of a connection.
const MOST_STATEMENTS: usize = 256;

/// The settings of each session, independent of those of the server: a query and its rows mean the same everywhere. The scanner of
/// queries knows strings by this mode, and points in time are read as UTC.
const SESSION: &str = "SET NAMES utf8mb4, time_zone = '+00:00', \
     sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', autocommit = 1";

/// One connection.
pub(crate) struct MySqlConnection {
    packet_stream: Rc<MySqlPacketStream>,
    settings: Arc<DatabaseSettings>,
    statements: RefCell<HashMap<Box<str>, PreparedAnswer>>,
    /// The time limit of its session.
    timeout: Cell<Duration>,
}

/// The rows of a query, as they arrive.
pub(crate) struct MySqlRows {
    packet_stream: Rc<MySqlPacketStream>,
    columns: Vec<MySqlColumn>,
    encoder: Option<RowEncoder>,
    phase: AnswerPhase,
    in_transaction: bool,
    affected: u64,
}

/// The part of an answer that arrives now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerPhase {
    Rows,
    /// The end of a procedure, after its result.
    Next,
    End,
}

impl MySqlConnection {
    /// Connects.
    ///
    /// # Errors
    /// It is unreachable, or rejects the login.
    pub async fn open(settings: &Arc<DatabaseSettings>) -> Result<Self, SqlError> {
        let packet_stream = MySqlPacketStream::open(settings).await?;
        let it = Self {
            packet_stream: Rc::new(packet_stream),
            settings: settings.clone(),
            statements: RefCell::default(),
            timeout: Cell::new(Duration::ZERO),
        };
        it.packet_stream.batch(SESSION).await?;
        it.packet_stream.batch("SET SESSION TRANSACTION READ ONLY").await?;
        it.limit(settings.query_timeout).await?;
        Ok(it)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.packet_stream.is_broken()
    }

    /// Ends the present query, and with it the connection, by a command on another one.
    pub async fn cancel(self) {
        let Ok(other) = MySqlPacketStream::open(&self.settings).await else { return };
        let _ = other.batch(&format!("KILL {}", self.packet_stream.greeting().connection)).await;
    }

    /// The version.
    pub fn facts(&self) -> String {
        let greeting = self.packet_stream.greeting();
        match greeting.is_mariadb() {
            true => format!(" to MariaDB {}", greeting.version.split('-').next().unwrap_or_default()),
            false => format!(" to MySQL {}", greeting.version),
        }
    }

    /// Finds out whether the server accepts a query, without running it.
    ///
    /// # Errors
    /// It does not: it knows no such column, or the user may not read the table.
    pub async fn describe(&self, statement: &SqlStatement) -> Result<(), SqlError> {
        if statement.access == SqlAccess::Reads {
            return self.prepare(&statement.query.text).await.map(drop);
        }
        // A session that only reads does not prepare a statement that writes.
        self.packet_stream.batch("START TRANSACTION READ WRITE").await?;
        let described = self.prepare(&statement.query.text).await;
        self.roll_back().await?;
        described.map(drop)
    }

    /// Sets the time limit of queries.
    async fn limit(&self, timeout: Duration) -> Result<(), SqlError> {
        if self.timeout.get() == timeout {
            return Ok(());
        }
        let text = match self.packet_stream.greeting().is_mariadb() {
            true => format!("SET max_statement_time = {}", timeout.as_secs_f64()),
            false => format!("SET max_execution_time = {}", timeout.as_millis().max(1)),
        };
        self.packet_stream.batch(&text).await?;
        self.timeout.set(timeout);
        Ok(())
    }

    /// Starts a query.
    ///
    /// # Errors
    /// The server rejects it, or is gone.
    pub async fn begin(&self, call: &SqlCall) -> Result<MySqlRows, SqlError> {
        let statement = &*call.statement;
        let in_transaction = statement.access == SqlAccess::Writes;
        self.limit(statement.timeout).await?;
        if in_transaction {
            self.packet_stream.batch("START TRANSACTION READ WRITE").await?;
        }
        match self.start(call, in_transaction).await {
            Err(error) if in_transaction && !error.breaks_connection() => {
                self.roll_back().await?;
                Err(error)
            }
            other => other,
        }
    }

    async fn start(&self, call: &SqlCall, in_transaction: bool) -> Result<MySqlRows, SqlError> {
        let texts: Vec<Option<String>> = values(call);
        let parameters: Vec<MySqlParameter<'_>> = texts
            .iter()
            .zip(&call.statement.types)
            .map(|(text, kind)| parameter(*kind, text.as_deref()))
            .collect();
        let mut is_again = false;
        let payload = loop {
            let prepared = self.prepared(&call.statement.query.text).await?;
            if usize::from(prepared.parameters) != parameters.len() {
                let why = format!("it has {} parameters for the database", prepared.parameters);
                return Err(SqlError::Rejected(why));
            }
            self.packet_stream.command(&execute(prepared.number, &parameters)).await?;
            let payload = self.packet_stream.packet().await?;
            match read_answer(&payload) {
                // Another form of its tables, or a statement that a proxy has forgotten.
                Ok(CommandAnswer::Failed(it)) if matches!(it.code, 1615 | 1243) && !is_again => {
                    self.statements.borrow_mut().remove(&call.statement.query.text);
                    is_again = true;
                }
                _ => break payload,
            }
        };
        let mut rows = MySqlRows {
            packet_stream: self.packet_stream.clone(),
            columns: Vec::new(),
            encoder: None,
            phase: AnswerPhase::End,
            in_transaction,
            affected: 0,
        };
        match read_answer(&payload) {
            Ok(CommandAnswer::Done { has_more: true, .. }) => rows.phase = AnswerPhase::Next,
            Ok(CommandAnswer::Done { affected, has_more: false }) => rows.affected = affected,
            Ok(CommandAnswer::Failed(it)) => return Err(query_failure(&it)),
            Ok(CommandAnswer::Columns(count)) => {
                rows.columns = self.columns(count).await?;
                rows.phase = AnswerPhase::Rows;
                rows.encoder = Some(encoder(&rows.columns, &call.statement)?);
            }
            Err(BadPacket) => return Err(self.packet_stream.malformed()),
        }
        Ok(rows)
    }

    /// Reads the definitions of columns, and the packet after them if there is one.
    async fn columns(&self, count: usize) -> Result<Vec<MySqlColumn>, SqlError> {
        let mut columns = Vec::with_capacity(count.min(256));
        for _ in 0..count {
            let payload = self.packet_stream.packet().await?;
            let column = read_column(&payload, self.packet_stream.is_extended)
                .map_err(|_| self.packet_stream.malformed())?;
            columns.push(column);
        }
        if count > 0 && !self.packet_stream.no_eof {
            self.packet_stream.packet().await?;
        }
        Ok(columns)
    }

    /// A statement that was prepared on this connection, now or before.
    async fn prepared(&self, text: &str) -> Result<PreparedAnswer, SqlError> {
        let known = self.statements.borrow().get(text).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        if self.statements.borrow().len() >= MOST_STATEMENTS {
            let all: Vec<PreparedAnswer> = self.statements.borrow_mut().drain().map(|it| it.1).collect();
            for it in all {
                self.packet_stream.command(&forget(it.number)).await?;
            }
        }
        let prepared = self.prepare(text).await?;
        self.statements.borrow_mut().insert(text.into(), prepared);
        Ok(prepared)
    }

    async fn prepare(&self, text: &str) -> Result<PreparedAnswer, SqlError> {
        self.packet_stream.command(&prepare(text)).await?;
        let payload = self.packet_stream.packet().await?;
        let prepared = read_prepared(&payload).map_err(|_| self.packet_stream.malformed())?;
        let prepared = prepared.map_err(|it| query_failure(&it))?;
        // The forms of columns come again with each result.
        self.columns(prepared.parameters.into()).await?;
        self.columns(prepared.columns.into()).await?;
        Ok(prepared)
    }

    /// Ends the transaction of a query, once all its rows were read.
    ///
    /// # Errors
    /// It could not be committed.
    pub async fn commit(&self) -> Result<(), SqlError> {
        self.packet_stream.batch("COMMIT").await
    }

    /// Undoes the transaction of a query that failed.
    pub async fn roll_back(&self) -> Result<(), SqlError> {
        self.packet_stream.batch("ROLLBACK").await
    }
}

impl MySqlRows {
    /// Whether a transaction around the query has to be ended.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The number of rows that a query without columns changed.
    pub fn affected(&self) -> u64 {
        self.affected
    }

    /// The encoder, if the query has columns.
    pub fn encoder(&mut self) -> Option<RowEncoder> {
        self.encoder.take()
    }

    /// Encodes the next row.
    pub fn poll_row(
        &mut self,
        context: &mut Context<'_>,
        to: &mut Option<RowEncoder>,
        _: &SqlStatement,
    ) -> Poll<Result<RowProgress, SqlError>> {
        loop {
            if self.phase == AnswerPhase::End {
                return Poll::Ready(Ok(RowProgress::End));
            }
            let payload = ready!(self.packet_stream.poll_packet(context))?;
            if self.phase == AnswerPhase::Next {
                self.phase = AnswerPhase::End;
                match read_answer(&payload) {
                    Ok(CommandAnswer::Done { has_more: false, .. }) => {}
                    Ok(CommandAnswer::Done { has_more: true, .. }) => self.phase = AnswerPhase::Next,
                    Ok(CommandAnswer::Failed(it)) => return Poll::Ready(Err(query_failure(&it))),
                    Ok(CommandAnswer::Columns(_)) => {
                        let why = "the procedure has several results; select one".to_owned();
                        return Poll::Ready(Err(SqlError::Result(why)));
                    }
                    Err(BadPacket) => return Poll::Ready(Err(self.packet_stream.malformed())),
                }
                continue;
            }
            match read_row(&payload, self.packet_stream.no_eof) {
                Ok(RowPacket::Row(row)) => {
                    let Some(to) = to else { return Poll::Ready(Err(self.packet_stream.malformed())) };
                    encode(row, &self.columns, to)
                        .map_err(|it| it.unwrap_or_else(|| self.packet_stream.malformed()))?;
                    return Poll::Ready(Ok(RowProgress::Rows));
                }
                Ok(RowPacket::End { has_more }) => {
                    self.phase = if has_more { AnswerPhase::Next } else { AnswerPhase::End };
                }
                Ok(RowPacket::Failed(it)) => {
                    self.phase = AnswerPhase::End;
                    return Poll::Ready(Err(query_failure(&it)));
                }
                Err(BadPacket) => return Poll::Ready(Err(self.packet_stream.malformed())),
            }
        }
    }
}

/// Encodes a row; an error without text is a malformed packet.
fn encode(
    row: larder_wire::mysql::BinaryRow<'_>,
    columns: &[MySqlColumn],
    to: &mut RowEncoder,
) -> Result<(), Option<SqlError>> {
    let mut room = String::new();
    to.begin_row();
    for (column, value) in columns.iter().zip(row.values(columns)) {
        let value = value.map_err(|_| None)?;
        let Some(cell) = decode::cell(column, value, &mut room) else {
            let why = format!("a value of column \"{}\" cannot be read", column.name);
            return Err(Some(SqlError::Result(why)));
        };
        to.cell(cell).map_err(Some)?;
    }
    to.end_row();
    Ok(())
}

/// The encoder of rows with these columns.
fn encoder(columns: &[MySqlColumn], statement: &SqlStatement) -> Result<RowEncoder, SqlError> {
    if let Some(column) = columns.iter().find(|it| !decode::is_known(it)) {
        let name = &column.name;
        let why = format!(
            "column \"{name}\" has a type without a form in JSON; select ST_AsText({name}) or another text of it"
        );
        return Err(SqlError::Result(why));
    }
    let names = columns.iter().map(|it| &*it.name);
    let mut encoder = RowEncoder::new(statement.format, statement.numbers, names)?;
    encoder.set_types(columns.iter().map(|it| decode::type_name(it.kind)));
    Ok(encoder)
}

/// The texts of values: points in time in UTC, without an offset.
fn values(call: &SqlCall) -> Vec<Option<String>> {
    let text = |(text, kind): (&Option<Box<str>>, &ParameterType)| {
        let text = text.as_deref()?;
        let in_utc = (*kind == ParameterType::Timestamp).then(|| calendar::in_utc(text)).flatten();
        Some(in_utc.unwrap_or_else(|| text.to_owned()))
    };
    call.values.iter().zip(&call.statement.types).map(text).collect()
}

fn parameter(kind: ParameterType, text: Option<&str>) -> MySqlParameter<'_> {
    let Some(text) = text else { return MySqlParameter::Null };
    let parsed = match kind {
        ParameterType::Int | ParameterType::BigInt => text.parse().ok().map(MySqlParameter::Int),
        ParameterType::Float => text.parse().ok().map(MySqlParameter::Double),
        ParameterType::Bool => Some(MySqlParameter::Int(i64::from(text == "true"))),
        ParameterType::Decimal => Some(MySqlParameter::Decimal(text)),
        ParameterType::Text
        | ParameterType::Uuid
        | ParameterType::Date
        | ParameterType::Timestamp
        | ParameterType::Json => None,
    };
    parsed.unwrap_or(MySqlParameter::Text(text))
}
