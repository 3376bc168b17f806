//! The rows of a running query as bytes, in pieces, within the limits of its route.

use crate::driver::DriverRows;
use crate::encoder::{ResultFormat, RowEncoder, RowProgress};
use crate::error::SqlError;
use crate::pool::{Database, GRACE, Lease};
use crate::settings::{SqlAccess, SqlCall, SqlStatement};
use bytes::Bytes;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// The bytes of a piece, as long as rows are there.
const PIECE: usize = 16 << 10;

/// The answer of a query.
pub struct SqlAnswer {
    /// Its rows.
    pub found: RowsFound,
    /// The beginning of its result; all of it if `rest` is `None`.
    pub first: Bytes,
    /// The rest.
    pub rest: Option<Box<SqlRows>>,
    /// The number of rows that a query without columns changed.
    pub affected: u64,
}

/// Whether a query found rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsFound {
    /// It did.
    Some,
    /// It has columns, but found no row.
    None,
    /// It has no columns: it only changes data.
    NoColumns,
}

/// The rows of a running query. Dropped before its end, it cancels the query.
pub struct SqlRows {
    rows: DriverRows,
    encoder: Option<RowEncoder>,
    statement: Arc<SqlStatement>,
    /// Bytes that were returned.
    sent: u64,
    has_ended: bool,
    until: Instant,
    /// Dropped last.
    lease: Lease,
}

impl Database {
    /// Runs a query, up to the beginning of its result. Dropping the future, or the rest of the result, cancels it.
    ///
    /// # Errors
    /// There is no result.
    pub(crate) async fn run(self: &Rc<Self>, call: &SqlCall) -> Result<SqlAnswer, SqlError> {
        let mut lease = self.lease().await?;
        let rows = lease.begin(call).await?;
        let mut rows = SqlRows::new(rows, call.statement.clone(), lease);
        let (found, first) = rows.begin().await?;
        let affected = rows.rows.affected();
        // Most results are complete: they leave the large state where it is.
        let rest = (!rows.has_ended).then(|| Box::new(rows));
        Ok(SqlAnswer { found, first, rest, affected })
    }
}

impl SqlRows {
    fn new(mut rows: DriverRows, statement: Arc<SqlStatement>, lease: Lease) -> Self {
        let encoder = rows.encoder();
        let until = Instant::now() + statement.timeout + GRACE;
        Self { rows, encoder, statement, sent: 0, has_ended: false, until, lease }
    }

    /// The beginning of the result: errors up to here are errors of the response, not of its body. An object, and a result of a
    /// query that writes, are complete then.
    async fn begin(&mut self) -> Result<(RowsFound, Bytes), SqlError> {
        let statement = self.statement.clone();
        let is_whole = statement.format == ResultFormat::JsonObject || statement.access == SqlAccess::Writes;
        let mut first = self.next().await?.unwrap_or_default();
        if is_whole && !self.has_ended {
            let mut all = first.to_vec();
            while let Some(more) = self.next().await? {
                all.extend_from_slice(&more);
            }
            first = all.into();
        }
        let found = match &self.encoder {
            None if self.statement.access == SqlAccess::Writes => RowsFound::NoColumns,
            Some(encoder) if encoder.rows() > 0 => RowsFound::Some,
            _ => RowsFound::None,
        };
        Ok((found, first))
    }

    /// The moment at which the query is given up, however slowly its result is read: it occupies a connection.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.until
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// The result is incomplete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SqlError> {
        if self.has_ended {
            return Ok(None);
        }
        let piece = match tokio::time::timeout_at(self.until, self.piece()).await {
            Ok(piece) => piece,
            Err(_) => Err(SqlError::Timeout),
        };
        match piece {
            Ok(bytes) => {
                self.sent += bytes.len() as u64;
                if self.sent > self.statement.max_bytes {
                    return Err(SqlError::TooManyBytes(self.statement.max_bytes));
                }
                Ok(Some(bytes))
            }
            Err(error) => {
                self.fails(&error).await;
                Err(error)
            }
        }
    }

    /// The database has ended the query by an error: its connection goes on, unless that is broken.
    async fn fails(&mut self, error: &SqlError) {
        self.has_ended = true;
        if let SqlError::Rejected(_) = error
            && let Some(connection) = self.lease.connection()
        {
            let is_sound = !self.rows.in_transaction() || connection.roll_back().await.is_ok();
            if is_sound {
                self.lease.is_free();
            }
        }
    }

    async fn piece(&mut self) -> Result<Bytes, SqlError> {
        let ended = poll_fn(|context| self.poll_piece(context)).await?;
        if ended {
            if let Some(connection) = self.lease.connection().filter(|_| self.rows.in_transaction()) {
                match self.statement.access {
                    SqlAccess::Writes => connection.commit().await?,
                    SqlAccess::Reads => connection.roll_back().await?,
                }
            }
            self.lease.is_free();
            self.has_ended = true;
        }
        Ok(self.encoder.as_mut().map(RowEncoder::take).unwrap_or_default())
    }

    /// Encodes rows until there is a piece, or until none is here; `true` at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, SqlError>> {
        let statement = &*self.statement;
        loop {
            let mut is_slow = false;
            match self.rows.poll_rows(context, &mut self.encoder, statement) {
                Poll::Pending => {
                    let has_rows = self.encoder.as_ref().is_some_and(|it| it.rows() > 0 && !it.is_empty());
                    return if has_rows { Poll::Ready(Ok(false)) } else { Poll::Pending };
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(RowProgress::End)) => return Poll::Ready(self.finish().map(|()| true)),
                Poll::Ready(Ok(RowProgress::Rows)) => {}
                Poll::Ready(Ok(RowProgress::Slow)) => is_slow = true,
            }
            let Some(encoder) = &self.encoder else { continue };
            if encoder.rows() > statement.max_rows {
                return Poll::Ready(Err(SqlError::TooManyRows(statement.max_rows)));
            }
            if statement.format == ResultFormat::JsonObject && encoder.rows() > 1 {
                let why = "one_row is set, and the query found several rows; add a condition or LIMIT 1";
                return Poll::Ready(Err(SqlError::Result(why.to_owned())));
            }
            if is_slow || encoder.len() >= PIECE {
                return Poll::Ready(Ok(false));
            }
        }
    }

    /// Ends the text of the result. A query that writes without columns has none.
    fn finish(&mut self) -> Result<(), SqlError> {
        let statement = &*self.statement;
        if self.encoder.is_none() && statement.access == SqlAccess::Reads {
            self.encoder = Some(RowEncoder::new(statement.format, statement.numbers, std::iter::empty())?);
        }
        self.encoder.iter_mut().for_each(RowEncoder::finish);
        Ok(())
    }
}
