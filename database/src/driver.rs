//! The drivers of databases behind one interface: a connection, and the rows of its query. Each protocol is in a module of its own.

use crate::encoder::{RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::postgres::{PostgresConnection, PostgresRows};
use crate::query::SqlDialect;
use crate::settings::{DatabaseSettings, SqlCall, SqlStatement};
use std::sync::Arc;
use std::task::{Context, Poll};

/// A connection to a database. It carries one query at a time.
pub(crate) enum DatabaseConnection {
    Postgres(Box<PostgresConnection>),
}

/// The rows of a query, as they arrive.
pub(crate) enum DriverRows {
    Postgres(PostgresRows),
}

impl DatabaseConnection {
    /// Connects.
    ///
    /// # Errors
    /// It is unreachable, or rejects the login.
    pub async fn open(settings: &Arc<DatabaseSettings>) -> Result<Self, SqlError> {
        match settings.place.dialect {
            SqlDialect::Postgres => {
                PostgresConnection::open(settings).await.map(|it| Self::Postgres(Box::new(it)))
            }
            // No `url` names them.
            SqlDialect::MySql | SqlDialect::Sqlite => Err(SqlError::Lost),
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Postgres(it) => it.is_closed(),
        }
    }

    /// Ends the present query, and the connection: a late request for that could meet a later query.
    pub async fn cancel(self) {
        match self {
            Self::Postgres(it) => it.cancel().await,
        }
    }

    /// Starts a query.
    ///
    /// # Errors
    /// The database rejects it, or is gone.
    pub async fn begin(&self, call: &SqlCall) -> Result<DriverRows, SqlError> {
        match self {
            Self::Postgres(it) => it.begin(call).await.map(DriverRows::Postgres),
        }
    }

    /// Ends the transaction of a query, once all its rows were read.
    ///
    /// # Errors
    /// It could not be committed.
    pub async fn commit(&self) -> Result<(), SqlError> {
        match self {
            Self::Postgres(it) => it.commit().await,
        }
    }

    /// Undoes the transaction of a query that failed.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn roll_back(&self) -> Result<(), SqlError> {
        match self {
            Self::Postgres(it) => it.roll_back().await,
        }
    }
}

impl DriverRows {
    /// Whether a transaction around the query has to be ended.
    pub fn in_transaction(&self) -> bool {
        match self {
            Self::Postgres(it) => it.in_transaction(),
        }
    }

    /// The encoder, if the columns were known before the first row.
    pub fn encoder(&mut self) -> Option<RowEncoder> {
        match self {
            Self::Postgres(it) => it.encoder(),
        }
    }

    /// Encodes the next rows; the first one makes the encoder if there is none.
    pub fn poll_rows(
        &mut self,
        context: &mut Context<'_>,
        to: &mut Option<RowEncoder>,
        statement: &SqlStatement,
    ) -> Poll<Result<RowProgress, SqlError>> {
        match self {
            Self::Postgres(it) => it.poll_row(context, to, statement),
        }
    }
}
