//! SQLite: a connection is a thread that has the file open, since its library blocks. A query runs there, a piece of its result at a
//! time, and only while the piece is wanted.

mod decode;
pub(crate) mod follow;
mod thread;

use crate::database_url::DatabaseServer;
use crate::encoder::{RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::settings::{DatabaseSettings, SqlAccess, SqlCall, SqlStatement};
use larder_stdx::clock;
use std::future::Future as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::task::{Context, Poll, ready};
use thread::{Begun, Filled, Limits, SqliteCommand};
use tokio::sync::oneshot;

/// One connection: the sender of commands to its thread, which ends with it.
pub(crate) struct SqliteConnection {
    commands: mpsc::Sender<SqliteCommand>,
    limits: Arc<Limits>,
    /// Resolves when the thread has ended.
    ended: oneshot::Receiver<()>,
    file: PathBuf,
    /// Device and inode of the file that is open.
    identity: Option<(u64, u64)>,
}

/// The rows of a query.
pub(crate) struct SqliteRows {
    commands: mpsc::Sender<SqliteCommand>,
    /// The encoder, until it is taken.
    encoder: Option<RowEncoder>,
    /// The piece that the thread makes now.
    piece: Option<oneshot::Receiver<Filled>>,
    has_ended: bool,
    in_transaction: bool,
    affected: u64,
}

impl SqliteConnection {
    /// Opens the file, for reading until a query writes.
    ///
    /// # Errors
    /// It cannot be opened, or is no database.
    pub async fn open(settings: &DatabaseSettings) -> Result<Self, SqlError> {
        let DatabaseServer::File(file) = &settings.place.server else { return Err(SqlError::Lost) };
        let (commands, received) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let (at_end, ended) = oneshot::channel();
        let limits = Arc::new(Limits::default());
        let (path, of_thread) = (file.clone(), limits.clone());
        let identity = identity(file);
        std::thread::Builder::new()
            .name("sqlite".to_owned())
            .spawn(move || {
                thread::run(&path, &of_thread, opened, &received);
                drop(at_end);
            })
            .map_err(|it| SqlError::Unreachable(format!("no thread is available: {it}")))?;
        is_open.await.unwrap_or(Err(SqlError::Lost))?;
        Ok(Self { commands, limits, ended, file: file.clone(), identity })
    }

    /// Whether another file has its place by now.
    pub fn is_closed(&self) -> bool {
        identity(&self.file) != self.identity
    }

    /// Ends the present query and the thread.
    pub async fn cancel(self) {
        self.limits.cancel();
        drop(self.commands);
        let _ = self.ended.await;
    }

    /// Starts a query.
    ///
    /// # Errors
    /// SQLite rejects it.
    pub async fn begin(&self, call: &SqlCall) -> Result<SqliteRows, SqlError> {
        let (reply, answer) = oneshot::channel();
        let timeout = u64::try_from(call.statement.timeout.as_millis()).unwrap_or(u64::MAX);
        self.limits.until.store(clock::monotonic_now().0.saturating_add(timeout), Relaxed);
        let begin = SqliteCommand::Begin(call.clone(), reply);
        self.commands.send(begin).map_err(|_| SqlError::Lost)?;
        let (encoder, affected) = match answer.await.unwrap_or(Err(SqlError::Lost))? {
            Begun::Rows(encoder) => (Some(encoder), 0),
            Begun::Done(affected) => (None, affected),
        };
        Ok(SqliteRows {
            commands: self.commands.clone(),
            has_ended: encoder.is_none(),
            encoder,
            piece: None,
            in_transaction: call.statement.access == SqlAccess::Writes,
            affected,
        })
    }

    /// Its version and the kind of its journal.
    pub async fn facts(&self) -> String {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(SqliteCommand::Facts(reply));
        answer.await.unwrap_or_default()
    }

    /// Finds out whether SQLite accepts a query, without running it.
    ///
    /// # Errors
    /// It does not.
    pub async fn describe(&self, statement: &SqlStatement) -> Result<(), SqlError> {
        let (reply, answer) = oneshot::channel();
        let describe = SqliteCommand::Describe(statement.query.text.clone(), reply);
        self.commands.send(describe).map_err(|_| SqlError::Lost)?;
        answer.await.unwrap_or(Err(SqlError::Lost))
    }

    /// Ends the transaction of a query, once all its rows were read.
    ///
    /// # Errors
    /// It could not be committed.
    pub async fn commit(&self) -> Result<(), SqlError> {
        self.end("COMMIT").await
    }

    /// Undoes the transaction of a query that failed.
    pub async fn roll_back(&self) -> Result<(), SqlError> {
        self.end("ROLLBACK").await
    }

    async fn end(&self, how: &'static str) -> Result<(), SqlError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(SqliteCommand::End(how, reply)).map_err(|_| SqlError::Lost)?;
        answer.await.unwrap_or(Err(SqlError::Lost))
    }
}

impl SqliteRows {
    /// Whether a transaction around the query has to be ended.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The number of rows that a query without columns changed.
    pub fn affected(&self) -> u64 {
        self.affected
    }

    /// The encoder, if the query has columns.
    pub fn encoder(&mut self) -> Option<RowEncoder> {
        self.encoder.take()
    }

    /// Lets the thread encode more rows; it has the encoder meanwhile.
    pub fn poll_rows(
        &mut self,
        context: &mut Context<'_>,
        to: &mut Option<RowEncoder>,
        _: &SqlStatement,
    ) -> Poll<Result<RowProgress, SqlError>> {
        if self.has_ended {
            return Poll::Ready(Ok(RowProgress::End));
        }
        let piece = match &mut self.piece {
            Some(piece) => piece,
            None => {
                let Some(encoder) = to.take() else { return Poll::Ready(Err(SqlError::Lost)) };
                let (reply, piece) = oneshot::channel();
                if self.commands.send(SqliteCommand::Fill(encoder, reply)).is_err() {
                    return Poll::Ready(Err(SqlError::Lost));
                }
                self.piece.insert(piece)
            }
        };
        let filled = ready!(Pin::new(piece).poll(context));
        self.piece = None;
        let Ok(Filled { encoder, result }) = filled else { return Poll::Ready(Err(SqlError::Lost)) };
        *to = Some(encoder);
        self.has_ended = !matches!(result, Ok(RowProgress::Rows | RowProgress::Slow));
        Poll::Ready(match result {
            // Its last rows come first.
            Ok(RowProgress::End) => Ok(RowProgress::Rows),
            other => other,
        })
    }
}

fn identity(file: &std::path::Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|it| (it.dev(), it.ino()))
}
