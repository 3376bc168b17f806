//! Follows the changes of a file of SQLite: a thread looks at regular intervals whether another connection has changed it. Which rows have
//! changed is not known. The purges are the caller's.

use super::identity;
use super::thread::{Limits, open, plain};
use crate::database_url::DatabaseServer;
use crate::settings::{DatabaseSettings, SqlAccess};
use rusqlite::{Connection, Error};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The most time for which a look waits while a program has the file for itself.
const BUSY: Duration = Duration::from_secs(1);

/// A file that is looked at for changes. The thread ends with this.
pub struct FileFollower {
    /// One is enough: a purge covers all changes before it.
    changes: mpsc::Receiver<Result<(), String>>,
    /// Dropped, it ends the thread.
    _end: Sender<Infallible>,
}

impl FileFollower {
    /// Follows a file from now on: a change that is committed after this function has returned is among the results of
    /// [`FileFollower::next`], after `interval` at most.
    ///
    /// # Errors
    /// One sentence: why it cannot be followed.
    pub async fn begin(settings: &DatabaseSettings, interval: Duration) -> Result<Self, String> {
        let DatabaseServer::File(file) = &settings.place.server else {
            return Err("it is no file of SQLite".to_owned());
        };
        let (file, (end, ended)) = (file.clone(), channel());
        let ((opened, is_open), (found, changes)) = (oneshot::channel(), mpsc::channel(1));
        std::thread::Builder::new()
            .name("sqlite-follow".to_owned())
            .spawn(move || {
                let mut followed = match FollowedFile::open(&file) {
                    Ok(it) => it,
                    Err(error) => return drop(opened.send(Err(plain(&error)))),
                };
                if opened.send(Ok(())).is_ok() {
                    followed.poll_changes(&file, interval, &found, &ended);
                }
            })
            .map_err(|it| format!("no thread is available: {it}"))?;
        is_open.await.unwrap_or_else(|_| Err("its thread has ended".to_owned()))?;
        Ok(Self { changes, _end: end })
    }

    /// Waits until the file has changed. Safe to drop.
    ///
    /// # Errors
    /// One sentence: it cannot be looked at any more, and changes may have been missed.
    pub async fn next(&mut self) -> Result<(), String> {
        self.changes.recv().await.unwrap_or_else(|| Err("its thread has ended".to_owned()))
    }
}

/// An open file, as it was looked at last.
struct FollowedFile {
    connection: Connection,
    /// The device and the inode.
    identity: Option<(u64, u64)>,
    /// `PRAGMA data_version`, which changes with each commit of another connection, of this process as well.
    version: i64,
}

impl FollowedFile {
    fn open(file: &Path) -> Result<Self, Error> {
        // Before the file: a later one with its name is another one.
        let identity = identity(file);
        let connection = open(file, SqlAccess::Reads, &Arc::new(Limits::default()))?;
        connection.busy_timeout(BUSY)?;
        let version = version(&connection)?;
        Ok(Self { connection, identity, version })
    }

    /// Sends each change, until the receiver is dropped.
    fn poll_changes(
        &mut self,
        file: &Path,
        interval: Duration,
        found: &mpsc::Sender<Result<(), String>>,
        ended: &Receiver<Infallible>,
    ) {
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            match self.has_changed(file) {
                Ok(false) => {}
                // If the last one is not read yet, it counts for this one, too.
                Ok(true) => drop(found.try_send(Ok(()))),
                Err(error) => return drop(found.blocking_send(Err(plain(&error)))),
            }
        }
    }

    fn has_changed(&mut self, file: &Path) -> Result<bool, Error> {
        if identity(file) != self.identity {
            // Another file was renamed over it.
            *self = Self::open(file)?;
            return Ok(true);
        }
        let now = version(&self.connection)?;
        Ok(std::mem::replace(&mut self.version, now) != now)
    }
}

fn version(connection: &Connection) -> Result<i64, Error> {
    connection.pragma_query_value(None, "data_version", |it| it.get(0))
}
