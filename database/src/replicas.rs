//! A database with its replicas, in one worker: the server that a query asks, and the replicas that are passed over after a failure. The
//! connections of each server are in `pool`.

use crate::database_url::{DatabasePlace, ReplicaSettings};
use crate::error::SqlError;
use crate::pool::Database;
use crate::rows::SqlAnswer;
use crate::settings::{AskedServer, DatabaseSettings, SqlCall};
use larder_counters::Counters;
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The pause before a replica is contacted after a failure, doubled by each further one up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A change of the health of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaChange {
    /// It failed, and why: no query asks it until a connection to it succeeds.
    Ejected(String),
    /// A connection succeeded.
    Readmitted,
}

/// The listener of such changes: it gets the place of the replica.
type ReplicaListener = dyn Fn(&DatabasePlace, &ReplicaChange);

/// A database with its replicas, in one worker.
pub struct DatabaseServers {
    settings: Arc<DatabaseSettings>,
    counters: Arc<Counters>,
    primary: Rc<Database>,
    replicas: Vec<Rc<Replica>>,
    notice: Rc<ReplicaListener>,
}

struct Replica {
    database: Rc<Database>,
    place: DatabasePlace,
    weight: i64,
    /// The weights that it was passed over for, less those of the queries that it got.
    credit: Cell<i64>,
    is_ejected: Cell<bool>,
}

impl DatabaseServers {
    /// The part of one of `workers`. Each server has at least one connection; `notice` gets the changes of replicas.
    #[must_use]
    pub fn new(
        settings: &Arc<DatabaseSettings>,
        workers: NonZeroUsize,
        counters: &Arc<Counters>,
        notice: Rc<ReplicaListener>,
    ) -> Rc<Self> {
        let replica = |it: &ReplicaSettings| {
            let place = it.place.clone();
            let of_replica = DatabaseSettings { place: place.clone(), ..(**settings).clone() };
            let database = Database::new(Arc::new(of_replica), workers, counters.clone());
            let (weight, credit, is_ejected) = (i64::from(it.weight), Cell::default(), Cell::default());
            Rc::new(Replica { database, place, weight, credit, is_ejected })
        };
        let replicas = settings.replicas.iter().map(replica).collect();
        let primary = Database::new(settings.clone(), workers, counters.clone());
        Rc::new(Self { settings: settings.clone(), counters: counters.clone(), primary, replicas, notice })
    }

    /// The same servers with connections apart, as many: for statements that may leave something in their session.
    #[must_use]
    pub fn apart(&self, workers: NonZeroUsize) -> Rc<Self> {
        Self::new(&self.settings, workers, &self.counters, self.notice.clone())
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        self.primary.name()
    }

    /// Runs a query, up to the beginning of its result. A replica that fails before that is passed over.
    ///
    /// # Errors
    /// There is no result.
    pub async fn run(&self, call: &SqlCall) -> Result<SqlAnswer, SqlError> {
        while call.statement.server == AskedServer::Replica
            && let Some(replica) = self.next()
        {
            match replica.database.run(call).await {
                Err(error) if error.is_of_server() => self.eject(&replica, &error),
                // The replica removed rows that the query was reading.
                Err(error) if error.is_conflict() => break,
                done => return done,
            }
        }
        self.primary.run(call).await
    }

    /// The healthy replica whose turn it is: each gets its weight of the queries, evenly spread.
    fn next(&self) -> Option<Rc<Replica>> {
        let healthy = || self.replicas.iter().filter(|it| !it.is_ejected.get());
        let all: i64 = healthy().map(|it| it.weight).sum();
        healthy().for_each(|it| it.credit.set(it.credit.get() + it.weight));
        let chosen = healthy().max_by_key(|it| it.credit.get())?;
        chosen.credit.set(chosen.credit.get() - all);
        Some(chosen.clone())
    }

    /// No query asks this replica until a connection to it succeeds.
    fn eject(&self, replica: &Rc<Replica>, error: &SqlError) {
        if !replica.is_ejected.replace(true) {
            (self.notice)(&replica.place, &ReplicaChange::Ejected(error.sentence().into_owned()));
            tokio::task::spawn_local(readmit(Rc::downgrade(replica), self.notice.clone()));
        }
    }
}

/// Contacts a replica again and again, as long as it is in use, and readmits it.
async fn readmit(replica: Weak<Replica>, notice: Rc<ReplicaListener>) {
    let mut pause = PAUSE;
    loop {
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let Some(replica) = replica.upgrade() else { return };
        if replica.database.contact().await.is_ok() {
            replica.is_ejected.set(false);
            replica.credit.set(0);
            return notice(&replica.place, &ReplicaChange::Readmitted);
        }
    }
}
