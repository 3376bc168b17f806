//! The settings of a database, and of the queries of a route. Their check is in the configuration.

use crate::cell::NumberForm;
use crate::database_url::{DatabasePlace, ReplicaSettings};
use crate::encoder::ResultFormat;
use crate::parameter::ParameterType;
use crate::row_tags::{TableColumn, WatchedColumns};
use crate::statement::SqlQuery;
use crate::stream::DatabaseTls;
use larder_stdx::secret::Secret;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// Its name in the configuration.
    pub name: String,
    /// Its place.
    pub place: DatabasePlace,
    /// Its replicas.
    pub replicas: Vec<ReplicaSettings>,
    /// The password of its user.
    pub password: Option<Secret>,
    /// TLS, if connections are encrypted.
    pub tls: Option<DatabaseTls>,
    /// The most connections of all workers.
    pub max_connections: usize,
    /// The most time for a new connection.
    pub connect_timeout: Duration,
    /// The most time for a query, unless its route has another one.
    pub query_timeout: Duration,
    /// The most time for which a query waits for a connection.
    pub queue_timeout: Duration,
    /// The time after which an unused connection is closed.
    pub idle_timeout: Duration,
    /// Whether statements are prepared.
    pub prepare: PreparedStatements,
    /// The publication by which its changes are followed, if they are.
    pub publication: Option<String>,
    /// Its changes are followed by its binary log, if it is MariaDB or MySQL.
    pub follow_binlog: bool,
    /// The interval at which its file is looked at for changes, if it is one of SQLite that is followed.
    pub follow_interval: Option<Duration>,
    /// The columns by whose values applications tag their pages.
    pub columns: Vec<TableColumn>,
}

impl DatabaseSettings {
    /// Whether its changes purge pages.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.publication.is_some() || self.follow_interval.is_some() || self.follow_binlog
    }
}

/// The settings of the changes of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowSettings {
    /// The publication with the tables, of PostgreSQL: letters, digits and underscores.
    pub publication: String,
    /// The tables that pages show.
    pub tables: BTreeSet<Box<str>>,
    /// The columns by whose values pages are tagged.
    pub watched: WatchedColumns,
    /// The rows that each route shows, as text: after a change of them pages may lack tags.
    pub declared: Vec<String>,
}

/// Whether statements are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreparedStatements {
    /// Once for each connection.
    #[default]
    Auto,
    /// Never: behind a pooler that gives each transaction another connection.
    Never,
}

/// A query of a route.
#[derive(Clone, Debug)]
pub struct SqlStatement {
    /// The query.
    pub query: SqlQuery,
    /// The types of its parameters, in the order of the query's placeholders.
    pub types: Box<[ParameterType]>,
    /// The format of its result.
    pub format: ResultFormat,
    /// The form of large numbers.
    pub numbers: NumberForm,
    /// The most rows of its result.
    pub max_rows: u64,
    /// The most bytes of its result.
    pub max_bytes: u64,
    /// The most time for it.
    pub timeout: Duration,
    /// Where its text comes from.
    pub text: SqlText,
    /// Whether it changes data.
    pub access: SqlAccess,
    /// The servers that it may ask.
    pub server: AskedServer,
}

/// The servers that a query may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedServer {
    /// The primary alone: the query writes, or its page is purged by changes that a replica may not have yet.
    Primary,
    /// A replica, and the primary if none is healthy.
    Replica,
}

/// Where the text of a query comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlText {
    /// The configuration: there are few.
    Configured,
    /// A request: it is not kept prepared, and its settings of the session end with its transaction.
    OfRequest,
}

/// Whether a query may change data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlAccess {
    /// It runs in a read-only transaction.
    Reads,
    /// It may; its result is complete, and its transaction committed, before the response begins.
    Writes,
}

/// A query with its values, in the order of the placeholders; `None` is `NULL`.
#[derive(Clone, Debug)]
pub struct SqlCall {
    /// The query.
    pub statement: Arc<SqlStatement>,
    /// The values, each checked by its type.
    pub values: Vec<Option<Box<str>>>,
}
