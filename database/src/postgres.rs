//! PostgreSQL: connections, transactions, and rows as they arrive. The values of rows are in `decode`.

mod decode;
pub(crate) mod follow;
mod replication;

use crate::database_url::DatabaseServer;
use crate::encoder::{RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::parameter::ParameterType;
use crate::settings::{DatabaseSettings, PreparedStatements, SqlAccess, SqlCall, SqlStatement, SqlText};
use crate::stream::{DatabaseTls, PostgresTls};
use bytes::BytesMut;
use futures_core::Stream;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{CancelToken, Client, Column, Config, Error, NoTls, RowStream, Statement};

/// The most prepared statements of a connection.
const MOST_STATEMENTS: usize = 256;

/// The state that a statement of a request may leave in its session, such as a setting or an advisory lock, and no end of a transaction undoes.
/// `DISCARD ALL` would also forget the statements of the driver.
const RESET: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); \
     DISCARD SEQUENCES; DISCARD TEMP";

/// One connection.
pub(crate) struct PostgresConnection {
    client: Client,
    cancel: CancelToken,
    tls: Option<DatabaseTls>,
    /// Its input and output.
    driver: AbortHandle,
    statements: RefCell<HashMap<Box<str>, Statement>>,
    /// The `statement_timeout` of its session.
    timeout: Cell<Duration>,
    prepare: PreparedStatements,
    /// Whether its session may be another one after the present statement, which a request brought.
    is_touched: Cell<bool>,
}

/// The rows of a query, as they arrive.
pub(crate) struct PostgresRows {
    stream: Pin<Box<RowStream>>,
    /// The encoder, if the columns were known before the first row.
    encoder: Option<RowEncoder>,
    /// Whether a transaction around the query has to be ended.
    in_transaction: bool,
}

impl PostgresConnection {
    /// Connects.
    ///
    /// # Errors
    /// It is unreachable, or rejects the login.
    pub async fn open(settings: &DatabaseSettings) -> Result<Self, SqlError> {
        let mut config = login(settings);
        if settings.prepare == PreparedStatements::Auto {
            // A pooler knows no options of sessions: there each transaction sets them.
            let millis = settings.query_timeout.as_millis();
            config.options(format!("-c default_transaction_read_only=on -c statement_timeout={millis}"));
        }
        let (client, driver) = connect(settings, config).await.map_err(|it| login_error(&it))?;
        Ok(Self {
            cancel: client.cancel_token(),
            client,
            driver,
            tls: settings.tls.clone(),
            statements: RefCell::default(),
            timeout: Cell::new(settings.query_timeout),
            prepare: settings.prepare,
            is_touched: Cell::new(false),
        })
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Asks the database to end the present query. The connection is not used again: the request could meet a later query.
    pub async fn cancel(self) {
        let _ = match &self.tls {
            Some(tls) => self.cancel.cancel_query(PostgresTls(tls.clone())).await,
            None => self.cancel.cancel_query(NoTls).await,
        };
    }

    /// Starts a query.
    ///
    /// # Errors
    /// The database rejects it, or is gone.
    pub async fn begin(&self, call: &SqlCall) -> Result<PostgresRows, SqlError> {
        let statement = &*call.statement;
        let in_transaction = statement.access == SqlAccess::Writes
            || statement.text == SqlText::OfRequest
            || self.prepare == PreparedStatements::Never;
        self.is_touched.set(statement.text == SqlText::OfRequest);
        if in_transaction {
            self.batch(&beginning(statement)).await?;
        } else if self.timeout.get() != statement.timeout {
            let millis = statement.timeout.as_millis();
            self.batch(&format!("SET statement_timeout = {millis}")).await?;
            self.timeout.set(statement.timeout);
        }
        let started = match self.prepare {
            PreparedStatements::Never => self.query_unnamed(call).await.map(|it| (it, None)),
            PreparedStatements::Auto => self.query_prepared(call).await.map(|it| (it.0, Some(it.1))),
        };
        let started = started.map_err(|it| query_error(&it)).and_then(|(stream, prepared)| {
            let columns = prepared.as_ref().map(Statement::columns).filter(|it| !it.is_empty());
            let encoder = columns.map(|it| encoder(it, statement)).transpose()?;
            Ok(PostgresRows { stream: Box::pin(stream), encoder, in_transaction })
        });
        match started {
            Err(error) if in_transaction && !error.breaks_connection() => {
                self.roll_back().await?;
                Err(error)
            }
            other => other,
        }
    }

    /// Ends the transaction of a query, once all its rows were read.
    ///
    /// # Errors
    /// It could not be committed.
    pub async fn commit(&self) -> Result<(), SqlError> {
        self.end("COMMIT").await
    }

    /// Undoes the transaction of a query that failed.
    pub async fn roll_back(&self) -> Result<(), SqlError> {
        self.end("ROLLBACK").await
    }

    /// Ends the transaction, and in the same message what a statement of a request left: a pooler could pass the next one to another
    /// session.
    async fn end(&self, how: &str) -> Result<(), SqlError> {
        match self.is_touched.get() {
            true => self.batch(&format!("{how}; {RESET}")).await,
            false => self.batch(how).await,
        }
    }

    async fn batch(&self, text: &str) -> Result<(), SqlError> {
        self.client.batch_execute(text).await.map_err(|it| query_error(&it))
    }

    async fn query_unnamed(&self, call: &SqlCall) -> Result<RowStream, Error> {
        let types = types_of(&call.statement);
        let values = call.values.iter().map(|it| TextValue(it.as_deref())).zip(types);
        self.client.query_typed_raw(&call.statement.query.text, values).await
    }

    fn cache(&self, text: &str, prepared: &Statement) {
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= MOST_STATEMENTS {
            statements.clear();
        }
        statements.insert(text.into(), prepared.clone());
    }

    async fn query_prepared(&self, call: &SqlCall) -> Result<(RowStream, Statement), Error> {
        let text = &call.statement.query.text;
        let values = || call.values.iter().map(|it| TextValue(it.as_deref()));
        let known = self.statements.borrow().get(text).cloned();
        if let Some(known) = known {
            match self.client.query_raw(&known, values()).await {
                Err(error) if is_outdated(&error) => drop(self.statements.borrow_mut().remove(text)),
                other => return other.map(|it| (it, known)),
            }
            if call.statement.access == SqlAccess::Writes {
                // The error has ended its transaction, in which nothing was done yet.
                self.client.batch_execute("ROLLBACK").await?;
                self.client.batch_execute(&beginning(&call.statement)).await?;
            }
        }
        let prepared = self.client.prepare_typed(text, &types_of(&call.statement)).await?;
        if call.statement.text == SqlText::Configured {
            self.cache(text, &prepared);
        }
        self.client.query_raw(&prepared, values()).await.map(|it| (it, prepared))
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl PostgresRows {
    /// Whether a transaction around the query has to be ended.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The number of rows that the query changed or returned, once it has ended.
    pub fn affected(&self) -> u64 {
        self.stream.rows_affected().unwrap_or_default()
    }

    /// The encoder, if the columns were known before the first row.
    pub fn encoder(&mut self) -> Option<RowEncoder> {
        self.encoder.take()
    }

    /// Encodes the next row; the first one makes the encoder if there is none.
    pub fn poll_row(
        &mut self,
        context: &mut Context<'_>,
        to: &mut Option<RowEncoder>,
        statement: &SqlStatement,
    ) -> Poll<Result<RowProgress, SqlError>> {
        let row = match self.stream.as_mut().poll_next(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(Ok(RowProgress::End)),
            Poll::Ready(Some(row)) => row.map_err(|it| query_error(&it))?,
        };
        let to = match to {
            Some(to) => to,
            None => to.insert(encoder(row.columns(), statement)?),
        };
        to.begin_row();
        for (at, column) in row.columns().iter().enumerate() {
            let raw: decode::RawValue<'_> = row.try_get(at).map_err(|it| query_error(&it))?;
            let mut room = String::new();
            let Some(cell) = decode::cell(column.type_(), raw.0, statement.numbers, &mut room) else {
                let why = format!("a value of column \"{}\" cannot be read", column.name());
                return Poll::Ready(Err(SqlError::Result(why)));
            };
            to.cell(cell)?;
        }
        to.end_row();
        Poll::Ready(Ok(RowProgress::Rows))
    }
}

/// The place and the user of a database.
fn login(settings: &DatabaseSettings) -> Config {
    let place = &settings.place;
    let mut config = Config::new();
    config.user(&place.user).dbname(&place.database).application_name("larder");
    match &place.server {
        DatabaseServer::Tcp(host, port) => config.host(host).port(*port),
        DatabaseServer::Unix(folder) | DatabaseServer::File(folder) => config.host_path(folder),
    };
    if let Some(password) = &settings.password {
        config.password(password.expose());
    }
    config
}

/// Connects, through TLS if that is configured; the task of its input and output ends with the client. Within a `LocalSet`.
async fn connect(settings: &DatabaseSettings, mut config: Config) -> Result<(Client, AbortHandle), Error> {
    let driver;
    let client = match &settings.tls {
        Some(tls) => {
            let tls = PostgresTls(tls.clone());
            let (client, connection) = config.ssl_mode(SslMode::Require).connect(tls).await?;
            // Its error is that of the query, too.
            driver = tokio::task::spawn_local(async move { drop(connection.await) });
            client
        }
        None => {
            let (client, connection) = config.ssl_mode(SslMode::Disable).connect(NoTls).await?;
            driver = tokio::task::spawn_local(async move { drop(connection.await) });
            client
        }
    };
    Ok((client, driver.abort_handle()))
}

/// The encoder of rows with these columns.
fn encoder(columns: &[Column], statement: &SqlStatement) -> Result<RowEncoder, SqlError> {
    if let Some(column) = columns.iter().find(|it| !decode::is_known(it.type_())) {
        let (name, kind) = (column.name(), column.type_().name());
        let why = format!("column \"{name}\" has the type {kind}; cast it, such as {name}::text");
        return Err(SqlError::Result(why));
    }
    let mut encoder = RowEncoder::new(statement.format, statement.numbers, columns.iter().map(Column::name))?;
    encoder.set_types(columns.iter().map(|it| decode::mysql_type(it.type_())));
    Ok(encoder)
}

/// A value in its text form, which PostgreSQL reads by the type of the parameter.
#[derive(Debug)]
struct TextValue<'v>(Option<&'v str>);

impl ToSql for TextValue<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

fn types_of(statement: &SqlStatement) -> Vec<Type> {
    let type_of = |it: &ParameterType| match it {
        ParameterType::Int => Type::INT4,
        ParameterType::BigInt => Type::INT8,
        ParameterType::Float => Type::FLOAT8,
        ParameterType::Decimal => Type::NUMERIC,
        ParameterType::Bool => Type::BOOL,
        // Not the type that the context gives it: `:q IS NULL OR name = :q` gives none at its first place.
        ParameterType::Text => Type::TEXT,
        ParameterType::Uuid => Type::UUID,
        ParameterType::Date => Type::DATE,
        ParameterType::Timestamp => Type::TIMESTAMPTZ,
        ParameterType::Json => Type::JSONB,
    };
    statement.types.iter().map(type_of).collect()
}

/// The beginning of the transaction of a query.
fn beginning(statement: &SqlStatement) -> String {
    let mode = match statement.access {
        SqlAccess::Reads => "READ ONLY",
        SqlAccess::Writes => "READ WRITE",
    };
    format!("BEGIN {mode}; SET LOCAL statement_timeout = {}", statement.timeout.as_millis())
}

/// Whether a prepared statement no longer fits the tables, or is unknown to the server.
fn is_outdated(error: &Error) -> bool {
    let is_changed =
        |it: &SqlState| *it == SqlState::INVALID_SQL_STATEMENT_NAME || *it == SqlState::FEATURE_NOT_SUPPORTED;
    error.code().is_some_and(is_changed)
}

fn login_error(error: &Error) -> SqlError {
    match error.as_db_error() {
        Some(reply) if reply.code().code().starts_with("28") => SqlError::Denied(reply.message().to_owned()),
        Some(reply) => SqlError::Unreachable(format!("{} ({})", reply.message(), reply.code().code())),
        None => SqlError::Unreachable(causes(error)),
    }
}

fn query_error(error: &Error) -> SqlError {
    match error.as_db_error() {
        // `query_canceled`: only its timeout does that, or a cancellation after which no one reads the result.
        Some(reply) if *reply.code() == SqlState::QUERY_CANCELED => SqlError::Timeout,
        // An administrator ends the connection, or the server stops.
        Some(reply) if reply.code().code().starts_with("57P") => SqlError::Lost,
        Some(reply) => SqlError::Rejected(format!("{} ({})", reply.message(), reply.code().code())),
        None if error.is_closed() => SqlError::Lost,
        None => match error.code() {
            Some(code) => SqlError::Rejected(code.code().to_owned()),
            None => SqlError::Lost,
        },
    }
}

/// An error with its causes.
fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(it) = cause {
        let more = it.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = it.source();
    }
    text
}
