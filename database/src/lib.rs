//! Queries to SQL databases. A route has a query with named parameters; a request gives them values, which are checked by
//! their types and bound, and the rows become JSON, NDJSON or CSV while they arrive. HTTP and the cache are not here.

mod calendar;
mod cell;
mod database_url;
mod driver;
mod encoder;
mod error;
mod follow;
mod freshness;
mod lag;
mod mysql;
mod parameter;
mod pool;
mod postgres;
mod replicas;
mod row_tags;
mod rows;
mod settings;
mod sqlite;
mod statement;
mod stream;

pub use cell::{NumberForm, SqlCell};
pub use database_url::{DatabasePlace, DatabaseServer, PLACE_FORMS, REPLICA_FORM, ReplicaSettings};
pub use driver::contact;
pub use encoder::ResultFormat;
pub use error::SqlError;
pub use follow::{ChangeFollower, FollowTurn};
pub use freshness::{FollowedTable, FollowedTables, FreshnessGrade};
pub use lag::FollowLag;
pub use parameter::{
    AbsentValue, PARAMETER_FORM, ParameterSource, ParameterType, SqlParameter, is_parameter_name,
};
pub use replicas::{DatabaseServers, ReplicaChange};
pub use row_tags::{
    ChangedRows, ROWS, RowTags, SHOWN_ROWS_FORM, ShownRows, TABLE_COLUMN_FORM, TableColumn, WatchedColumns,
    named_tag, rows_of,
};
pub use rows::{RowsFound, SqlAnswer, SqlRows};
pub use settings::{
    AskedServer, DatabaseSettings, FollowSettings, PreparedStatements, SqlAccess, SqlCall, SqlStatement,
    SqlText,
};
pub use sqlite::follow::FileFollower;
pub use statement::{SqlDialect, SqlQuery};
pub use stream::DatabaseTls;
