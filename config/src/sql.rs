//! The query of a route, checked. The settings of databases are those of `larder_database`.

use larder_database::{DatabaseSettings, SqlParameter, SqlStatement};
use larder_semantics::template::Template;
use std::sync::Arc;

/// A query as the service of a route (`sql`).
#[derive(Clone, Debug)]
pub struct SqlConfig {
    /// Its database.
    pub database: Arc<DatabaseSettings>,
    /// The query with its limits.
    pub statement: Arc<SqlStatement>,
    /// Its parameters.
    pub parameters: Vec<SqlParameter>,
    /// The purge tags of its results.
    pub tags: Vec<Template>,
    /// Whether all clients get the same results: no access rule asks for credentials.
    pub is_public: bool,
}
