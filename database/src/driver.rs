//! The drivers of databases behind one interface: a connection, and the rows of its query. Each protocol is in a module of its own.

use crate::database_url::DatabaseServer;
use crate::encoder::{RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::mysql::{MySqlConnection, MySqlRows};
use crate::postgres::{PostgresConnection, PostgresRows};
use crate::settings::{DatabaseSettings, FollowSettings, SqlCall, SqlStatement};
use crate::sqlite::{SqliteConnection, SqliteRows};
use crate::statement::SqlDialect;
use crate::{mysql, postgres};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// A connection to a database. It carries one query at a time.
pub(crate) enum DatabaseConnection {
    Postgres(Box<PostgresConnection>),
    MySql(Box<MySqlConnection>),
    Sqlite(SqliteConnection),
}

/// The rows of a query, as they arrive.
pub(crate) enum DriverRows {
    Postgres(PostgresRows),
    MySql(MySqlRows),
    Sqlite(SqliteRows),
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
            SqlDialect::Sqlite => SqliteConnection::open(settings).await.map(Self::Sqlite),
            SqlDialect::MySql => MySqlConnection::open(settings).await.map(|it| Self::MySql(Box::new(it))),
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Postgres(it) => it.is_closed(),
            Self::MySql(it) => it.is_closed(),
            Self::Sqlite(it) => it.is_closed(),
        }
    }

    /// Whether it undoes what a statement of a request leaves in its session. Variables, locks and temporary tables of the others end
    /// with the connection alone.
    pub fn resets(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Whether it is a thread of this process: it ends by itself, however late, and takes a processor and memory until then.
    pub fn is_thread(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Ends the present query, and the connection: a late request for that could meet a later query.
    pub async fn cancel(self) {
        match self {
            Self::Postgres(it) => it.cancel().await,
            Self::MySql(it) => it.cancel().await,
            Self::Sqlite(it) => it.cancel().await,
        }
    }

    /// Starts a query.
    ///
    /// # Errors
    /// The database rejects it, or is gone.
    pub async fn begin(&self, call: &SqlCall) -> Result<DriverRows, SqlError> {
        match self {
            Self::Postgres(it) => it.begin(call).await.map(DriverRows::Postgres),
            Self::MySql(it) => it.begin(call).await.map(DriverRows::MySql),
            Self::Sqlite(it) => it.begin(call).await.map(DriverRows::Sqlite),
        }
    }

    /// Ends the transaction of a query, once all its rows were read.
    ///
    /// # Errors
    /// It could not be committed.
    pub async fn commit(&self) -> Result<(), SqlError> {
        match self {
            Self::Postgres(it) => it.commit().await,
            Self::MySql(it) => it.commit().await,
            Self::Sqlite(it) => it.commit().await,
        }
    }

    /// Undoes the transaction of a query that failed.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn roll_back(&self) -> Result<(), SqlError> {
        match self {
            Self::Postgres(it) => it.roll_back().await,
            Self::MySql(it) => it.roll_back().await,
            Self::Sqlite(it) => it.roll_back().await,
        }
    }
}

impl DriverRows {
    /// Whether a transaction around the query has to be ended.
    pub fn in_transaction(&self) -> bool {
        match self {
            Self::Postgres(it) => it.in_transaction(),
            Self::MySql(it) => it.in_transaction(),
            Self::Sqlite(it) => it.in_transaction(),
        }
    }

    /// The number of rows that the query changed or returned, once it has ended.
    pub fn affected(&self) -> u64 {
        match self {
            Self::Postgres(it) => it.affected(),
            Self::MySql(it) => it.affected(),
            Self::Sqlite(it) => it.affected(),
        }
    }

    /// The encoder, if the columns were known before the first row.
    pub fn encoder(&mut self) -> Option<RowEncoder> {
        match self {
            Self::Postgres(it) => it.encoder(),
            Self::MySql(it) => it.encoder(),
            Self::Sqlite(it) => it.encoder(),
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
            Self::MySql(it) => it.poll_row(context, to, statement),
            Self::Sqlite(it) => it.poll_rows(context, to, statement),
        }
    }
}

/// Connects once, and finds out whether the database can be followed if it is to be, and whether it accepts these queries. Returns the rest
/// of a sentence that begins with "connected". Within a `LocalSet`.
///
/// # Errors
/// One sentence with the remedy.
pub async fn contact(
    settings: &Arc<DatabaseSettings>,
    follow: Option<&FollowSettings>,
    queries: &[Arc<SqlStatement>],
) -> Result<String, String> {
    if settings.place.dialect == SqlDialect::Postgres {
        let followed = if follow.is_some() { ", and its changes can be followed" } else { "" };
        let contact = postgres::follow::contact(settings, queries, follow).await;
        return contact.map(|()| format!("{}{followed}", accepted(queries.len())));
    }
    let open = timeout(settings.connect_timeout, DatabaseConnection::open(settings)).await;
    let connection = open.unwrap_or(Err(SqlError::ConnectTimeout)).map_err(|it| remedy(settings, &it))?;
    let mut facts = match &connection {
        DatabaseConnection::Postgres(_) => String::new(),
        DatabaseConnection::MySql(it) => it.facts(),
        DatabaseConnection::Sqlite(it) => it.facts().await,
    };
    for statement in queries {
        let described = match &connection {
            DatabaseConnection::Postgres(_) => Ok(()),
            DatabaseConnection::MySql(it) => it.describe(statement).await,
            DatabaseConnection::Sqlite(it) => it.describe(statement).await,
        };
        described.map_err(|it| rejected(settings, statement, &it))?;
    }
    facts.push_str(&accepted(queries.len()));
    if let (SqlDialect::MySql, Some(follow)) = (settings.place.dialect, follow) {
        let note = mysql::follow::contact(settings, follow).await?;
        facts = format!("{facts}, and its changes can be followed{note}");
    }
    Ok(facts)
}

/// The end of a sentence about this number of valid queries.
fn accepted(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; it accepts the query of its route".to_owned(),
        count => format!("; it accepts the {count} queries of its routes"),
    }
}

/// Why there is no connection, and the remedy.
fn remedy(settings: &DatabaseSettings, error: &SqlError) -> String {
    let why = error.sentence();
    match &settings.place.server {
        DatabaseServer::File(file) if !file.exists() => {
            format!("{why}; create {}, or correct database.url", file.display())
        }
        DatabaseServer::File(file) => format!(
            "{why}; the user of larder must be allowed to read {0}, and to write to its directory if its journal is a log (WAL): \
             `ls -l {0}` shows its owner",
            file.display()
        ),
        _ if why.contains("TLS") || why.contains("certificate") => format!(
            "{why}; set database.tls.ca to the file of its authority, and database.tls.name to a name in its certificate"
        ),
        _ => format!("{why}; start it, or correct database.url and database.password"),
    }
}

/// Why a query is rejected, and the remedy.
fn rejected(settings: &DatabaseSettings, statement: &SqlStatement, error: &SqlError) -> String {
    let mut text: String = statement.query.text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(60) {
        text.truncate(end);
        text.push('…');
    }
    let grant = match settings.place.dialect {
        SqlDialect::Sqlite => String::new(),
        _ => format!(", or run `GRANT SELECT ON TABLE TO {}` with its table", settings.place.user),
    };
    format!("{} `{text}`; correct sql.query{grant}", error.sentence())
}
