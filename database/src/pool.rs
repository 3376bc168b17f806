//! The connections of one worker to one database: reuse, the queue for them, and the cancellation of queries that no client waits
//! for. Protocols are in modules of their own.

use crate::driver::{DatabaseConnection, DriverRows};
use crate::error::SqlError;
use crate::settings::{DatabaseSettings, SqlCall, SqlText};
use larder_counters::Counters;
use larder_stdx::clock;
use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The time beyond its own timeout after which a query is given up: the database should have ended it.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The connections of one worker to one database. They are opened when a query needs them.
pub struct Database {
    settings: Arc<DatabaseSettings>,
    counters: Arc<Counters>,
    /// The unused connections, each with the time since which it is, the newest last.
    idle: RefCell<Vec<(u64, DatabaseConnection)>>,
    /// One permit for each connection that this worker may have.
    places: Arc<Semaphore>,
    /// Whether a task closes connections that were unused for long.
    is_swept: Cell<bool>,
}

impl Database {
    /// The connection pool of one of `workers`: its share of `max_connections`, at least one.
    #[must_use]
    pub fn new(settings: Arc<DatabaseSettings>, workers: NonZeroUsize, counters: Arc<Counters>) -> Rc<Self> {
        let places = Arc::new(Semaphore::new((settings.max_connections / workers).max(1)));
        Rc::new(Self { settings, counters, idle: RefCell::default(), places, is_swept: Cell::new(false) })
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// A connection for a query, once this worker may have one more.
    ///
    /// # Errors
    /// All were in use for too long.
    pub(crate) async fn lease(self: &Rc<Self>) -> Result<Lease, SqlError> {
        self.counters.database_queries.add(1);
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => self.wait_for_place().await?,
        };
        let (database, is_busy, is_spent) = (self.clone(), true, false);
        Ok(Lease { database, connection: None, place: Some(place), is_busy, is_spent })
    }

    async fn wait_for_place(&self) -> Result<OwnedSemaphorePermit, SqlError> {
        let waiting = timeout(self.settings.queue_timeout, self.places.clone().acquire_owned());
        let Ok(Ok(place)) = waiting.await else {
            self.counters.database_queue_timeouts.add(1);
            return Err(SqlError::Busy);
        };
        Ok(place)
    }

    /// Opens a connection, for later use.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub(crate) async fn contact(self: &Rc<Self>) -> Result<(), SqlError> {
        let connection = self.open().await?;
        self.put_back(connection);
        Ok(())
    }

    async fn open(&self) -> Result<DatabaseConnection, SqlError> {
        self.counters.database_connections.add(1);
        let opening = DatabaseConnection::open(&self.settings);
        timeout(self.settings.connect_timeout, opening).await.unwrap_or(Err(SqlError::ConnectTimeout))
    }

    fn put_back(self: &Rc<Self>, connection: DatabaseConnection) {
        self.idle.borrow_mut().push((clock::monotonic_now().0, connection));
        if !self.is_swept.replace(true) {
            tokio::task::spawn_local(sweep(Rc::downgrade(self), self.settings.idle_timeout));
        }
    }
}

/// Closes connections that were unused for `most`, as long as there are any.
async fn sweep(database: Weak<Database>, most: Duration) {
    loop {
        tokio::time::sleep(most).await;
        let Some(database) = database.upgrade() else { return };
        let now = clock::monotonic_now().0;
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let mut idle = database.idle.borrow_mut();
        idle.retain(|(since, connection)| !connection.is_closed() && now.saturating_sub(*since) < most);
        if idle.is_empty() {
            database.is_swept.set(false);
            return;
        }
    }
}

/// A connection with a query, and its place among those of the worker.
pub(crate) struct Lease {
    database: Rc<Database>,
    connection: Option<DatabaseConnection>,
    place: Option<OwnedSemaphorePermit>,
    /// A query runs on it.
    is_busy: bool,
    /// No other query may run on it.
    is_spent: bool,
}

impl Lease {
    /// Starts a query.
    ///
    /// # Errors
    /// There is no result.
    pub(crate) async fn begin(&mut self, call: &SqlCall) -> Result<DriverRows, SqlError> {
        loop {
            let is_used = self.take_idle();
            if !is_used {
                self.connection = Some(self.database.open().await?);
            }
            match self.begin_on_it(call).await {
                // It was closed while it was unused: the query did not begin.
                Err(SqlError::Lost) if is_used => self.connection = None,
                begun => return begun,
            }
        }
    }

    /// Takes the newest unused connection; `false` if there is none.
    fn take_idle(&mut self) -> bool {
        let mut idle = self.database.idle.borrow_mut();
        while let Some((_, connection)) = idle.pop() {
            if !connection.is_closed() {
                self.connection = Some(connection);
                return true;
            }
        }
        false
    }

    async fn begin_on_it(&mut self, call: &SqlCall) -> Result<DriverRows, SqlError> {
        let Some(connection) = &self.connection else { return Err(SqlError::Lost) };
        self.is_spent = call.statement.text == SqlText::OfRequest && !connection.resets();
        let most = call.statement.timeout + GRACE;
        let begun = timeout(most, connection.begin(call)).await.unwrap_or(Err(SqlError::Timeout));
        if let Err(error) = &begun {
            self.is_busy = error.breaks_connection();
        }
        begun
    }

    pub(crate) fn connection(&self) -> Option<&DatabaseConnection> {
        self.connection.as_ref()
    }

    /// The query has ended: the connection may carry another one.
    pub(crate) fn is_free(&mut self) {
        self.is_busy = false;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take().filter(|it| !it.is_closed()) else { return };
        match (self.is_busy, self.is_spent) {
            (false, false) => return self.database.put_back(connection),
            (false, true) => return,
            (true, _) => {}
        }
        self.database.counters.database_cancelled.add(1);
        let (place, most) = (self.place.take(), self.database.settings.connect_timeout);
        // Without a runtime the process ends, and the connection with it.
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::task::spawn_local(async move {
                match connection.is_thread() {
                    true => connection.cancel().await,
                    false => drop(timeout(most, connection.cancel()).await),
                }
                drop(place);
            });
        }
    }
}
