//! The query of a route, checked. The settings of databases are those of `larder_database`.

use crate::{Config, Service};
use larder_database::{
    DatabaseSettings, FollowSettings, ResultFormat, ShownRows, SqlAccess, SqlParameter, SqlStatement,
    WatchedColumns,
};
use larder_semantics::accept::MediaTypeOffers;
use larder_semantics::template::Template;
use std::sync::Arc;

/// The field with the tags of results.
pub const SQL_TAGS: &str = "Surrogate-Key";

/// A query as the service of a route (`sql`).
#[derive(Clone, Debug)]
pub struct SqlConfig {
    /// Its database.
    pub database: Arc<DatabaseSettings>,
    /// The form of requests that bring the statement themselves (`sql.raw`).
    pub raw: Option<RawForm>,
    /// Whether statements of GET may change data: `methods` of the route names GET, and the query writes.
    pub gets_write: bool,
    /// The query with its limits; of `raw` the limits alone.
    pub statement: Arc<SqlStatement>,
    /// The formats of its result that `Accept` chooses from, the default first; that of `statement` is the default.
    pub formats: Vec<ResultFormat>,
    /// Its parameters.
    pub parameters: Vec<SqlParameter>,
    /// The purge tags of its results.
    pub tags: Vec<Template>,
    /// The rows that its results depend on, each with the position of its parameter.
    pub rows: Vec<(ShownRows, Option<usize>)>,
    /// Whether the tags of its rows name the database: several are followed.
    pub names_database: bool,
    /// Whether all clients get the same results: no access rule asks for credentials.
    pub is_public: bool,
}

/// The form of requests with a statement, and of their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawForm {
    /// `?{"SQL":"…"}`, answered with an object.
    DbSlayer,
    /// The statement in the path, answered with an array.
    Cherokee,
}

impl SqlConfig {
    /// The media types that are negotiated; empty for a query with one format.
    #[must_use]
    pub fn offers(&self) -> MediaTypeOffers {
        let is_negotiated = self.formats.len() > 1;
        let types = self.formats.iter().filter(|_| is_negotiated).map(|it| it.offer().to_owned());
        MediaTypeOffers::new(types.collect()).unwrap_or_default()
    }

    /// Why no change of a row purges the pages of the query; `None` if changes do.
    #[must_use]
    pub fn unfollowed(&self) -> Option<&'static str> {
        if self.statement.access == SqlAccess::Writes {
            Some("no page is stored: the query writes")
        } else if self.follows_file() {
            None
        } else if self.rows.is_empty() {
            Some("no change purges the page: sql.rows names no table")
        } else if !self.database.is_followed() {
            Some("no change purges the page: database.follow is not set")
        } else {
            None
        }
    }

    /// Whether every change of its file purges the pages of the query.
    #[must_use]
    pub fn follows_file(&self) -> bool {
        self.raw.is_none()
            && self.statement.access == SqlAccess::Reads
            && self.database.follow_interval.is_some()
    }

    /// The rows by which the pages of the query follow the database, for a list of routes.
    #[must_use]
    pub fn freshness(&self) -> String {
        if self.raw.is_some() {
            return "any statement".to_owned();
        }
        if self.unfollowed().is_some() {
            return "follows no rows".to_owned();
        }
        if self.follows_file() {
            return "follows its file".to_owned();
        }
        let one = |(rows, _): &(ShownRows, Option<usize>)| match rows {
            ShownRows::Table(table) => format!("table {table}"),
            ShownRows::Equal { table, column, .. } => format!("column {table}.{column}"),
        };
        let all: Vec<String> = self.rows.iter().map(one).collect();
        format!("follows {}", all.join(", "))
    }
}

/// A database whose changes are followed.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowedDatabase {
    /// Its settings.
    pub settings: Arc<DatabaseSettings>,
    /// The rows that pages show.
    pub follow: FollowSettings,
    /// Whether pages of queries name it in their tags.
    pub is_named: bool,
}

impl Config {
    /// The databases whose changes are followed, each with the rows that routes show.
    #[must_use]
    pub fn followed(&self) -> Vec<FollowedDatabase> {
        let followed = self.databases.iter().filter_map(|settings| {
            // Only PostgreSQL has one.
            let publication =
                settings.is_followed().then(|| settings.publication.clone().unwrap_or_default())?;
            let (mut tables, mut watched) = (std::collections::BTreeSet::new(), WatchedColumns::default());
            let mut declared = Vec::new();
            for sql in self.queries(&settings.name) {
                declared.push(format!("{} {:?}", sql.statement.query.text, sql.rows));
                for (rows, parameter) in &sql.rows {
                    tables.insert(rows.table().into());
                    parameter.iter().for_each(|at| watched.add(rows, sql.parameters[*at].kind));
                }
            }
            for column in &settings.columns {
                tables.insert(column.table.clone());
                watched.add_column(column);
            }
            let follow = FollowSettings { publication, tables, watched, declared };
            Some(FollowedDatabase { settings: settings.clone(), follow, is_named: false })
        });
        let mut followed: Vec<_> = followed.collect();
        let are_named = followed.len() > 1;
        followed.iter_mut().for_each(|it| it.is_named = are_named);
        followed
    }

    /// The queries of a database.
    fn queries<'c>(&'c self, database: &'c str) -> impl Iterator<Item = &'c SqlConfig> {
        self.sites.iter().flat_map(|it| &it.routes).filter_map(move |it| match &it.service {
            Service::Sql(sql) if sql.database.name == database => Some(&**sql),
            _ => None,
        })
    }

    /// The queries of a database, each text once.
    #[must_use]
    pub fn queries_of(&self, database: &str) -> Vec<Arc<SqlStatement>> {
        let mut found: Vec<Arc<SqlStatement>> = Vec::new();
        for sql in self.queries(database).filter(|it| it.raw.is_none()) {
            if !found.iter().any(|it| it.query == sql.statement.query) {
                found.push(sql.statement.clone());
            }
        }
        found
    }
}
