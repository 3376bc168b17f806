//! Short queries of larder's own to MariaDB and MySQL, about the server itself. Their values are texts.

use super::position::LogPosition;
use super::{MySqlConnection, decode};
use crate::cell::SqlCell;
use crate::error::SqlError;
use larder_wire::mysql::{BadPacket, CommandAnswer, RowPacket, execute, forget, read_answer, read_row};
use std::time::Duration;
use tokio::time::timeout;

/// The most time for one.
pub(super) const SHORT: Duration = Duration::from_secs(5);

/// An error as one sentence.
pub(super) fn plain(error: SqlError) -> String {
    error.sentence().into_owned()
}

impl MySqlConnection {
    /// The rows of a query that is repeated; `NULL` is an empty text.
    ///
    /// # Errors
    /// One sentence.
    pub(super) async fn select(&self, text: &str) -> Result<Vec<Vec<String>>, String> {
        let asked = timeout(SHORT, async {
            let prepared = self.prepared(text).await?;
            self.rows_of(prepared.number).await
        });
        asked.await.unwrap_or(Err(SqlError::Timeout)).map_err(plain)
    }

    /// The same of one that is not repeated.
    ///
    /// # Errors
    /// One sentence.
    pub(super) async fn select_once(&self, text: &str) -> Result<Vec<Vec<String>>, String> {
        let asked = timeout(SHORT, async {
            let prepared = self.prepare(text).await?;
            let rows = self.rows_of(prepared.number).await;
            self.packet_stream.command(&forget(prepared.number)).await?;
            rows
        });
        asked.await.unwrap_or(Err(SqlError::Timeout)).map_err(plain)
    }

    /// Runs a statement without rows.
    ///
    /// # Errors
    /// One sentence.
    pub(super) async fn set(&self, text: &str) -> Result<(), String> {
        let asked = timeout(SHORT, self.packet_stream.batch(text)).await;
        asked.unwrap_or(Err(SqlError::Timeout)).map_err(plain)
    }

    async fn rows_of(&self, prepared: u32) -> Result<Vec<Vec<String>>, SqlError> {
        self.packet_stream.command(&execute(prepared, &[])).await?;
        let payload = self.packet_stream.packet().await?;
        let columns = match read_answer(&payload) {
            Ok(CommandAnswer::Columns(count)) => self.columns(count).await?,
            Ok(CommandAnswer::Done { .. }) => return Ok(Vec::new()),
            Ok(CommandAnswer::Failed(it)) => return Err(super::query_failure(&it)),
            Err(BadPacket) => return Err(self.packet_stream.malformed()),
        };
        let (mut rows, mut room) = (Vec::new(), String::new());
        loop {
            let payload = self.packet_stream.packet().await?;
            match read_row(&payload, self.packet_stream.no_eof) {
                Ok(RowPacket::Row(row)) => {
                    let mut texts = Vec::with_capacity(columns.len());
                    for (column, value) in columns.iter().zip(row.values(&columns)) {
                        let value = value.map_err(|_| self.packet_stream.malformed())?;
                        texts.push(match decode::cell(column, value, &mut room) {
                            Some(SqlCell::Text(it) | SqlCell::Decimal(it) | SqlCell::Json(it)) => {
                                it.to_owned()
                            }
                            Some(SqlCell::Bytes(it)) => String::from_utf8_lossy(it).into_owned(),
                            Some(SqlCell::Int(it) | SqlCell::BigInt(it)) => it.to_string(),
                            Some(SqlCell::BigUnsigned(it)) => it.to_string(),
                            _ => String::new(),
                        });
                    }
                    rows.push(texts);
                }
                Ok(RowPacket::End { .. }) => return Ok(rows),
                Ok(RowPacket::Failed(it)) => return Err(super::query_failure(&it)),
                Err(BadPacket) => return Err(self.packet_stream.malformed()),
            }
        }
    }

    /// The end of the binary log.
    ///
    /// # Errors
    /// One sentence.
    pub(super) async fn log_position(&self) -> Result<LogPosition, String> {
        let row = self.log_status().await?;
        let offset = row.get(1).and_then(|it| it.parse().ok());
        offset.and_then(|it| LogPosition::new(&row[0], it)).ok_or_else(|| "it has no binary log".to_owned())
    }

    /// The file of the binary log, its end, and the databases that are in it and that are not, if these are named; nothing without a log.
    pub(super) async fn log_status(&self) -> Result<Vec<String>, String> {
        let text = match self.has_former_words() {
            true => "SHOW MASTER STATUS",
            false => "SHOW BINARY LOG STATUS",
        };
        Ok(self.select(text).await?.into_iter().next().unwrap_or_default())
    }

    /// Whether the server is MariaDB, or MySQL before 8.2.
    fn has_former_words(&self) -> bool {
        let greeting = self.packet_stream.greeting();
        let mut parts = greeting.version.split('.').map(|it| it.parse::<u32>().unwrap_or_default());
        let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        greeting.is_mariadb() || version < (8, 2)
    }
}
