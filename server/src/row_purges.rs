//! Purges by the changes of databases: a task for each database that is followed turns the rows of every committed transaction into purges
//! of their pages. While a database cannot be followed, the pages of its rows are validated. The connection to a database is in
//! `larder_database`.

use super::cluster::Cluster;
use super::live::WorkerState;
use super::purge::{PurgeQueue, SpreadPurges, TagPurges};
use larder_config::Config;
use larder_config::sql::FollowedDatabase;
use larder_counters::Counters;
use larder_database::{
    ChangeFollower, ChangedRows, FileFollower, FollowLag, FollowTurn, FollowedTables, ROWS, named_tag,
    rows_of,
};
use larder_observe::log::{ErrorLog, Level, Subsystem, SubsystemLog};
use larder_stdx::clock::{self, Monotonic};
use larder_store::Store;
use larder_store::purges::{PurgeRule, PurgeScope, Strength};
use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The interval of validations while a database cannot be followed: for as long a page may be outdated then.
const UNKNOWN: Duration = Duration::from_secs(1);
/// The delay of the changes beyond which pages are validated every second as well. It is seen at most a second late: no page is outdated for longer
/// than the sum of the three, 3 s.
pub const BEHIND: Duration = Duration::from_secs(1);
/// The number of such intervals after which a database that is slow to begin is named in the log.
const SLOW_START_INTERVALS: u32 = 5;
/// Milliseconds after which the same reason is logged again.
const REMINDER: u64 = 10 * 60 * 1000;
/// The most purges of one order, during which the main thread does nothing further.
const AT_ONCE: usize = 256;

/// Whether the changes of a database purge pages at present.
#[derive(Clone, Debug)]
pub enum FollowState {
    /// They do: the tables, as they are followed, and the delay.
    Followed(Arc<FollowedTables>, FollowLag),
    /// The connection is being opened.
    Begins,
    /// They do: another node of the fleet reads them.
    ByAnotherNode,
    /// They do not, and why: one sentence with the remedy.
    NotFollowed(String),
}

/// The standing of each followed database, by name; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct FollowStates(Rc<RefCell<HashMap<String, FollowState>>>);

impl FollowStates {
    /// That of a database; `None` if it is not to be followed.
    #[must_use]
    pub fn of(&self, database: &str) -> Option<FollowState> {
        self.0.borrow().get(database).cloned()
    }

    /// All of them, by name.
    #[must_use]
    pub fn all(&self) -> Vec<(String, FollowState)> {
        let mut all: Vec<_> = self.0.borrow().iter().map(|it| (it.0.clone(), it.1.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The longest delay of a database.
    fn longest_lag(&self) -> Duration {
        let all = self.0.borrow();
        let lag = |it: &FollowState| {
            if let FollowState::Followed(_, lag) = it { lag.time() } else { Duration::ZERO }
        };
        all.values().map(lag).max().unwrap_or_default()
    }

    fn set(&self, database: &str, to: FollowState) {
        self.0.borrow_mut().insert(database.to_owned(), to);
    }
}

/// The task of a database; it ends with this.
struct FollowTask {
    of: FollowedDatabase,
    task: JoinHandle<()>,
}

impl Drop for FollowTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows the databases of the configuration in force, for as long as there are orders. Within a `LocalSet`.
pub async fn follow_databases(
    mut inbox: watch::Receiver<WorkerState>,
    purges: PurgeQueue,
    errors: ErrorLog,
    counters: Arc<Counters>,
    standings: FollowStates,
    nodes: Option<Rc<Cluster>>,
) {
    let pages = |name: &str| RowPages {
        name: name.to_owned(),
        by: format!("database {name}"),
        purges: purges.clone(),
        log: errors.of(Subsystem::Origin),
        counters: counters.clone(),
        standings: standings.clone(),
        nodes: nodes.clone(),
        reported: RefCell::default(),
    };
    let mut tasks: HashMap<String, FollowTask> = HashMap::new();
    loop {
        let wanted = inbox.borrow_and_update().live.config.followed();
        let is_outdated = |it: &FollowTask| !wanted.contains(&it.of);
        let ended: Vec<_> = tasks.extract_if(|_, it| is_outdated(it)).map(|it| it.0).collect();
        standings.0.borrow_mut().retain(|name, _| tasks.contains_key(name));
        for of in wanted {
            tasks.entry(of.settings.name.clone()).or_insert_with(|| {
                let pages = pages(&of.settings.name);
                FollowTask { task: tokio::task::spawn_local(pages.follow(of.clone())), of }
            });
        }
        for name in ended {
            // Changes may come that no task sees.
            pages(&name).validate().await;
        }
        if inbox.changed().await.is_err() {
            return;
        }
    }
}

/// Has the pages of followed databases validated that are from before this start: changes since were not seen.
pub fn doubt_restored(config: &Config, store: &Store) {
    for it in config.followed() {
        for tag in [ROWS.to_owned(), rows_of(&it.settings.name)] {
            let scope = PurgeScope::Tag(tag.into());
            store.purge(PurgeRule { scope, strength: Strength::Validate, positions: Vec::new() });
        }
    }
}

/// The pages with rows of a database.
struct RowPages {
    /// The name of the database.
    name: String,
    /// The origin of their purges, for the log.
    by: String,
    purges: PurgeQueue,
    log: SubsystemLog,
    counters: Arc<Counters>,
    standings: FollowStates,
    /// The other nodes, if purges are shared with them.
    nodes: Option<Rc<Cluster>>,
    reported: RefCell<Option<LoggedGap>>,
}

/// The last reason for which a database was not followed.
struct LoggedGap {
    why: String,
    /// When it was logged.
    at: Monotonic,
    /// How often it has occurred since.
    times: u64,
}

impl RowPages {
    async fn follow(self, of: FollowedDatabase) {
        let name = &*self.name;
        loop {
            self.standings.set(name, FollowState::Begins);
            let why = match of.settings.follow_interval {
                Some(interval) => self.follow_file(&of, interval).await,
                None => match self.turn(&of).await {
                    Ok(turn) => self.follow_once(&of, turn).await,
                    Err(why) => why,
                },
            };
            self.counters.database_gaps.add_shared(1);
            self.log_gap(&why);
            self.standings.set(name, FollowState::NotFollowed(why));
            self.count_lag();
            self.validate().await;
            sleep(UNKNOWN).await;
        }
    }

    /// Logs why a database is not followed: once for each reason, and then every [`REMINDER`].
    fn log_gap(&self, why: &str) {
        let now = clock::monotonic();
        let mut reported = self.reported.borrow_mut();
        let times = match &mut *reported {
            Some(it) if it.why == why => {
                it.times += 1;
                if now.0.saturating_sub(it.at.0) < REMINDER {
                    return;
                }
                it.times
            }
            _ => 1,
        };
        *reported = Some(LoggedGap { why: why.to_owned(), at: now, times: 0 });
        if self.log.logs(Level::Warn) {
            let (now, times) = ("pages with its rows are validated every second", times.to_string());
            let values = [("database", &*self.name), ("why", why), ("now", now), ("times", &times)];
            self.log.event(Level::Warn, "database-not-followed", &values);
        }
    }

    /// Waits until this node is to follow a database for all nodes of its fleet; `None` without a fleet. Another node reads the changes
    /// until then, and its purges arrive through the purge logs.
    async fn turn(&self, of: &FollowedDatabase) -> Result<Option<FollowTurn>, String> {
        let Some(nodes) = &self.nodes else { return Ok(None) };
        let log = loop {
            match nodes.log_in_sync() {
                Some(it) => break it,
                // Purges of another node would not arrive; nothing is used without validation meanwhile.
                None => drop(self.validate().await),
            }
            sleep(UNKNOWN).await;
        };
        let name = &*self.name;
        let waits = || {
            if !matches!(self.standings.of(name), Some(FollowState::ByAnotherNode)) {
                self.log.event(Level::Info, "database-followed-by-another-node", &[("database", name)]);
                self.standings.set(name, FollowState::ByAnotherNode);
            }
        };
        let turn = FollowTurn::wait(&of.settings, &of.follow, log, waits).await?;
        self.standings.set(name, FollowState::Begins);
        Ok(Some(turn))
    }

    /// Follows a file of SQLite until that fails; returns the reason. Each node of a fleet follows its own file.
    async fn follow_file(&self, of: &FollowedDatabase, interval: Duration) -> String {
        let mut follower = match self.begun(FileFollower::begin(&of.settings, interval)).await {
            Ok(it) => it,
            Err(why) => return why,
        };
        self.follows(Arc::default(), FollowLag::default()).await;
        loop {
            match follower.next().await {
                Ok(()) => drop(self.purge(self.all_rows(), Strength::Hard).await),
                Err(why) => return why,
            }
        }
    }

    /// Waits until a database is followed; pages are validated meanwhile.
    async fn begun<T>(&self, beginning: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let mut beginning = pin!(beginning);
        let mut waited = 0;
        loop {
            tokio::select! {
                biased;
                begun = &mut beginning => return begun,
                () = sleep(UNKNOWN) => drop(self.validate().await),
            }
            waited += 1;
            if waited == SLOW_START_INTERVALS {
                self.log_gap("it waits for the end of transactions that were open at the start");
            }
        }
    }

    /// The database is followed from now on, with these tables; changes before this moment were not seen.
    async fn follows(&self, tables: Arc<FollowedTables>, lag: FollowLag) -> SpreadPurges {
        let spread = self.validate().await;
        self.standings.set(&self.name, FollowState::Followed(tables, lag));
        self.log.event(Level::Info, "database-followed", &[("database", &self.name)]);
        *self.reported.borrow_mut() = None;
        spread
    }

    /// Follows a database until that fails; returns the reason.
    async fn follow_once(&self, of: &FollowedDatabase, turn: Option<FollowTurn>) -> String {
        let is_shared = turn.is_some();
        let follower = match self.begun(ChangeFollower::begin(&of.settings, &of.follow, turn)).await {
            Ok(it) => it,
            Err(why) => return why,
        };
        let lag = follower.lag().clone();
        tokio::select! {
            why = self.purge_changes(of, follower, is_shared) => why,
            () = self.validate_behind(&lag) => unreachable!("it does not end"),
        }
    }

    fn count_lag(&self) {
        // Rounded up: zero is no delay.
        let seconds = self.standings.longest_lag().as_millis().div_ceil(1000);
        self.counters.database_lag_seconds.set_shared(u64::try_from(seconds).unwrap_or(u64::MAX));
    }

    /// Has pages validated while the changes are behind the database.
    async fn validate_behind(&self, lag: &FollowLag) {
        loop {
            sleep(UNKNOWN).await;
            self.count_lag();
            if lag.time() > BEHIND {
                self.validate().await;
            }
        }
    }

    /// Purges the pages of changes until the follower fails; returns the reason.
    async fn purge_changes(
        &self,
        of: &FollowedDatabase,
        mut follower: ChangeFollower,
        is_shared: bool,
    ) -> String {
        let (name, lag) = (&*self.name, follower.lag().clone());
        let mut tables = follower.tables().clone();
        let mut spread = self.follows(tables.clone(), lag.clone()).await;
        loop {
            if is_shared && spread == SpreadPurges::Uncertain {
                return "the purge logs of the fleet did not take its purges; another node follows it if it can write to them".to_owned();
            }
            match follower.next().await {
                Ok(rows) => {
                    self.counters.database_row_tags.add_shared(rows.tags.len() as u64);
                    spread = self.purge(self.tags(of, rows), Strength::Hard).await;
                }
                Err(why) => return why,
            }
            if !Arc::ptr_eq(&tables, follower.tables()) {
                tables = follower.tables().clone();
                self.standings.set(name, FollowState::Followed(tables.clone(), lag.clone()));
            }
        }
    }

    /// No page with rows is used again before its origin has confirmed it.
    async fn validate(&self) -> SpreadPurges {
        self.purge(self.all_rows(), Strength::Validate).await
    }

    /// The tags of pages with any rows: of those whose tags name no database, and of those that name this one.
    fn all_rows(&self) -> Vec<String> {
        vec![ROWS.to_owned(), rows_of(&self.name)]
    }

    /// The tags of pages that show changed rows.
    fn tags(&self, of: &FollowedDatabase, rows: ChangedRows) -> Vec<String> {
        let mut tags: Vec<String> = rows.tags.into_iter().collect();
        if of.is_named {
            let named: Vec<_> = tags.iter().map(|it| named_tag(it, &self.name)).collect();
            tags.extend(named);
        }
        tags
    }

    async fn purge(&self, tags: Vec<String>, strength: Strength) -> SpreadPurges {
        let (mut spread, mut tags) = (SpreadPurges::Certain, tags.into_iter());
        while tags.len() > 0 {
            let order =
                TagPurges { tags: tags.by_ref().take(AT_ONCE).collect(), strength, by: self.by.clone() };
            match self.purges.purge_tags(order).await {
                Some(SpreadPurges::Certain) => {}
                Some(SpreadPurges::Uncertain) => spread = SpreadPurges::Uncertain,
                None => return spread,
            }
        }
        spread
    }
}
