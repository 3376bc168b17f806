//! Following the changes of a database, whatever its kind: those of PostgreSQL by logical replication, those of MariaDB and MySQL by their
//! binary log. Files of SQLite are followed by `sqlite::follow`.

use crate::freshness::FollowedTables;
use crate::lag::FollowLag;
use crate::mysql::follow::{BinlogFollower, BinlogTurn};
use crate::postgres::follow::{PostgresFollower, PostgresTurn};
use crate::row_tags::ChangedRows;
use crate::settings::{DatabaseSettings, FollowSettings};
use crate::statement::SqlDialect;
use std::sync::Arc;

/// A connection that follows the changes of a database.
pub struct ChangeFollower(OneFollower);

enum OneFollower {
    Postgres(Box<PostgresFollower>),
    MySql(Box<BinlogFollower>),
}

/// The turn of this node to follow a database for all nodes of its fleet: a lock of the database, which ends with its session.
pub struct FollowTurn(OneTurn);

enum OneTurn {
    Postgres(PostgresTurn),
    MySql(BinlogTurn),
}

impl ChangeFollower {
    /// Follows from now on: a change that is committed after this function has returned is among the results of
    /// [`ChangeFollower::next`]. With a `turn`, this node follows for its fleet until the follower is dropped. Within a `LocalSet`.
    ///
    /// # Errors
    /// One sentence: why the database cannot be followed, and the remedy.
    pub async fn begin(
        settings: &Arc<DatabaseSettings>,
        follow: &FollowSettings,
        turn: Option<FollowTurn>,
    ) -> Result<Self, String> {
        let (postgres, mysql) = match turn {
            None => (None, None),
            Some(FollowTurn(OneTurn::Postgres(it))) => (Some(it), None),
            Some(FollowTurn(OneTurn::MySql(it))) => (None, Some(it)),
        };
        Ok(Self(match settings.place.dialect {
            SqlDialect::MySql => {
                OneFollower::MySql(Box::new(BinlogFollower::begin(settings, follow, mysql).await?))
            }
            _ => OneFollower::Postgres(Box::new(PostgresFollower::begin(settings, follow, postgres).await?)),
        }))
    }

    /// The tables that pages show, as they are logged at present.
    #[must_use]
    pub fn tables(&self) -> &Arc<FollowedTables> {
        match &self.0 {
            OneFollower::Postgres(it) => it.tables(),
            OneFollower::MySql(it) => it.tables(),
        }
    }

    /// How far the results are behind the database: a result counts until the next one is requested.
    #[must_use]
    pub fn lag(&self) -> &FollowLag {
        match &self.0 {
            OneFollower::Postgres(it) => it.lag(),
            OneFollower::MySql(it) => it.lag(),
        }
    }

    /// The next transactions with changes, once every new query sees them. Not safe to drop: the log is then read to an
    /// unknown place.
    ///
    /// # Errors
    /// One sentence: the log has ended, and changes may have been missed.
    pub async fn next(&mut self) -> Result<ChangedRows, String> {
        match &mut self.0 {
            OneFollower::Postgres(it) => it.next().await,
            OneFollower::MySql(it) => it.next().await,
        }
    }
}

impl FollowTurn {
    /// Waits until no other node of `fleet` follows this database with the same settings; `waits` is called as long as one does. Within a
    /// `LocalSet`.
    ///
    /// # Errors
    /// One sentence: the database cannot be reached, so it is not known whether another node follows it.
    pub async fn wait(
        settings: &Arc<DatabaseSettings>,
        follow: &FollowSettings,
        fleet: u64,
        waits: impl FnMut(),
    ) -> Result<Self, String> {
        Ok(Self(match settings.place.dialect {
            SqlDialect::MySql => OneTurn::MySql(BinlogTurn::wait(settings, follow, fleet, waits).await?),
            _ => OneTurn::Postgres(PostgresTurn::wait(settings, follow, fleet, waits).await?),
        }))
    }
}
