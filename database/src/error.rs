//! Why a query has no answer: the status for the client, and the sentence for the log. No client learns the sentence.

use std::borrow::Cow;

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlError {
    /// No connection, and why.
    Unreachable(String),
    /// No connection within `connect_timeout`.
    ConnectTimeout,
    /// The database rejected the user or the password.
    Denied(String),
    /// Every connection was in use for `queue_timeout`.
    Busy,
    /// The query took longer than its timeout.
    Timeout,
    /// The connection closed before the result was complete.
    Lost,
    /// The database rejected the query.
    Rejected(String),
    /// Its rows cannot be sent.
    Result(String),
    /// It has more rows than `sql.max_rows`.
    TooManyRows(u64),
    /// It has more bytes than `sql.max_bytes`.
    TooManyBytes(u64),
}

impl SqlError {
    /// The status for the client: 502, 503 or 504.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            SqlError::Busy => 503,
            SqlError::ConnectTimeout | SqlError::Timeout => 504,
            _ => 502,
        }
    }

    /// Whether the connection cannot carry another query.
    #[must_use]
    pub fn breaks_connection(&self) -> bool {
        !matches!(self, SqlError::Rejected(_) | SqlError::Busy)
    }

    /// Whether the server failed, and another one may have the answer.
    #[must_use]
    pub fn is_of_server(&self) -> bool {
        matches!(
            self,
            SqlError::Unreachable(_) | SqlError::ConnectTimeout | SqlError::Denied(_) | SqlError::Lost
        )
    }

    /// Whether a replica ended the query for the sake of the changes that it received (`40001`).
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, SqlError::Rejected(why) if why.ends_with("(40001)"))
    }

    /// One sentence for the log. It may have text of the database.
    #[must_use]
    pub fn sentence(&self) -> Cow<'static, str> {
        Cow::Owned(match self {
            SqlError::Unreachable(why) => format!("the database cannot be reached: {why}"),
            SqlError::Denied(why) => format!("the database rejected the login: {why}"),
            SqlError::Rejected(why) => format!("the database rejected the query: {why}"),
            SqlError::Result(why) => format!("the result cannot be sent: {why}"),
            SqlError::TooManyRows(most) => format!("the result has more than {most} rows (sql.max_rows)"),
            SqlError::TooManyBytes(most) => format!("the result has more than {most} bytes (sql.max_bytes)"),
            SqlError::ConnectTimeout => return Cow::Borrowed("the connection to the database timed out"),
            SqlError::Busy => return Cow::Borrowed("every connection to the database was in use"),
            SqlError::Timeout => return Cow::Borrowed("the query took longer than its timeout"),
            SqlError::Lost => {
                return Cow::Borrowed("the database closed the connection before the result was complete");
            }
        })
    }
}
