//! Purges by the changes of databases: a task for each database that is followed turns the rows of every committed transaction into purges
//! of their pages. While a database cannot be followed, the pages of its rows are validated. The connection to a database is in
//! `larder_database`.

use super::live::Orders;
use super::purge::asked::PurgeRequest;
use super::purge::{PurgeOrder, PurgeQueue, ReceiptDetail};
use larder_config::sql::FollowedDatabase;
use larder_counters::Counters;
use larder_database::{ChangeFollower, ROWS};
use larder_observe::log::{ErrorLog, Level, Subsystem, SubsystemLog};
use larder_store::purges::{PurgeScope, Strength};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The interval of validations while a database cannot be followed: for as long a page may be outdated then.
const UNKNOWN: Duration = Duration::from_secs(1);
/// The number of such intervals after which a database that is slow to begin is named in the log.
const PATIENCE: u32 = 5;
/// The pause before a purge is given again to a full queue.
const FULL: Duration = Duration::from_millis(5);
/// The most purges that wait for their receipts at once; the queue has room for more.
const AT_ONCE: usize = 256;

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
    mut inbox: watch::Receiver<Orders>,
    purges: PurgeQueue,
    errors: ErrorLog,
    counters: Arc<Counters>,
) {
    let mut tasks: HashMap<String, FollowTask> = HashMap::new();
    loop {
        let wanted = inbox.borrow_and_update().live.config.followed();
        let before = tasks.len();
        tasks.retain(|_, it| wanted.contains(&it.of));
        let has_ended = tasks.len() < before;
        for of in wanted {
            tasks.entry(of.settings.name.clone()).or_insert_with(|| {
                let pages = RowPages {
                    by: format!("database {}", of.settings.name),
                    purges: purges.clone(),
                    log: errors.of(Subsystem::Origin),
                    counters: counters.clone(),
                };
                FollowTask { task: tokio::task::spawn_local(pages.follow(of.clone())), of }
            });
        }
        if has_ended {
            // Changes may come that no task sees.
            let by = "the configuration".to_owned();
            let (purges, log, counters) = (purges.clone(), errors.of(Subsystem::Origin), counters.clone());
            RowPages { by, purges, log, counters }.validate().await;
        }
        if inbox.changed().await.is_err() {
            return;
        }
    }
}

/// The pages with rows of a database.
struct RowPages {
    /// The origin of their purges, for the log.
    by: String,
    purges: PurgeQueue,
    log: SubsystemLog,
    counters: Arc<Counters>,
}

impl RowPages {
    async fn follow(self, of: FollowedDatabase) {
        let name = &*of.settings.name;
        loop {
            let why = self.follow_once(&of).await;
            self.counters.database_gaps.add_shared(1);
            self.tell_gap(name, &why);
            self.validate().await;
            sleep(UNKNOWN).await;
        }
    }

    fn tell_gap(&self, name: &str, why: &str) {
        if self.log.tells(Level::Warn) {
            let now = "pages with its rows are validated every second";
            let values = [("database", name), ("why", why), ("now", now)];
            self.log.seldom_of(Level::Warn, "database-not-followed", name, &values);
        }
    }

    /// Follows a database until that fails; returns the reason.
    async fn follow_once(&self, of: &FollowedDatabase) -> String {
        let mut beginning = pin!(ChangeFollower::begin(&of.settings, &of.follow));
        let mut waited = 0;
        let begun = loop {
            tokio::select! {
                biased;
                begun = &mut beginning => break begun,
                () = sleep(UNKNOWN) => self.validate().await,
            }
            waited += 1;
            if waited == PATIENCE {
                self.tell_gap(
                    &of.settings.name,
                    "it waits for the end of transactions that were open at the start",
                );
            }
        };
        let mut follower = match begun {
            Ok(it) => it,
            Err(why) => return why,
        };
        // Changes before this moment were not seen.
        self.validate().await;
        self.log.event(Level::Info, "database-followed", &[("database", &of.settings.name)]);
        loop {
            match follower.next().await {
                Ok(rows) => {
                    self.counters.database_row_tags.add_shared(rows.tags.len() as u64);
                    self.purge(rows.tags.into_iter().collect(), Strength::Hard).await;
                }
                Err(why) => return why,
            }
        }
    }

    /// No page with rows is used again before its origin has confirmed it.
    async fn validate(&self) {
        self.purge(vec![ROWS.to_owned()], Strength::Validate).await;
    }

    async fn purge(&self, tags: Vec<String>, strength: Strength) {
        for tags in tags.chunks(AT_ONCE) {
            let order = |tag: &String| PurgeOrder {
                asked: PurgeRequest { scope: PurgeScope::Tag(tag.as_str().into()), strength },
                by: self.by.clone(),
                wait: false,
                here: None,
                receipt: ReceiptDetail::Brief,
            };
            let given: Vec<_> = tags.iter().map(|tag| (tag, self.purges.bring(order(tag)))).collect();
            for (tag, done) in given {
                let mut done = done.await;
                // The queue was full, of purges by others.
                while done.is_err() {
                    sleep(FULL).await;
                    done = match self.purges.is_open() {
                        true => self.purges.bring(order(tag)).await,
                        false => return,
                    };
                }
            }
        }
    }
}
