//! A connection of PostgreSQL's streaming replication (its documentation, "Streaming Replication Protocol"): the login, a temporary
//! slot, and the messages of its log until the connection ends. Their meaning is in `row_tags`.

use crate::database_url::DatabaseServer;
use crate::settings::DatabaseSettings;
use crate::stream::{self, DatabaseStream, DatabaseTls};
use bytes::{Buf as _, Bytes, BytesMut};
use larder_stdx::clock;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{Header, Message};
use postgres_protocol::message::frontend::{self, CopyData};
use std::future::ready;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes of the largest message: that of one changed row.
const LARGEST: usize = 64 << 20;
/// Bytes for which there is room before each read. With less, a read takes one transaction, and each batch has one.
const READ: usize = 64 << 10;
/// The interval at which the position is reported, with a request for an answer.
const REPORT: Duration = Duration::from_secs(1);
/// The time without any message after which the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(5);
/// Microseconds from 1970 to 2000, the epoch of PostgreSQL.
const EPOCH: i64 = 946_684_800_000_000;

/// The log of a database, from the moment at which it was opened.
pub(crate) struct ReplicationLog {
    stream: DatabaseStream,
    arrived: BytesMut,
    /// The end of the log that was read.
    position: u64,
    reported: Instant,
    heard: Instant,
}

impl ReplicationLog {
    /// Logs in, makes a slot that ends with the connection, and starts it at the present end of the log. The database waits for
    /// transactions that are open.
    ///
    /// # Errors
    /// One sentence.
    pub async fn open(settings: &DatabaseSettings, slot: &str, publication: &str) -> Result<Self, String> {
        let opened = timeout(settings.connect_timeout, Self::log_in(settings)).await;
        let mut log = opened.map_err(|_| "the connection timed out".to_owned())??;
        // Both names are made of letters, digits and underscores.
        log.command(&format!("CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT"))
            .await?;
        log.start(slot, publication).await?;
        (log.heard, log.reported) = (Instant::now(), Instant::now());
        Ok(log)
    }

    async fn log_in(settings: &DatabaseSettings) -> Result<Self, String> {
        let server = match &settings.place.server {
            DatabaseServer::Unix(folder) => DatabaseServer::Unix(folder.join(".s.PGSQL.5432")),
            other => other.clone(),
        };
        let mut stream = stream::connect(&server).await.map_err(|it| it.sentence().into_owned())?;
        if let Some(tls) = &settings.tls {
            stream = secure(stream, tls).await?;
        }
        let now = Instant::now();
        let mut log = Self { stream, arrived: BytesMut::new(), position: 0, reported: now, heard: now };
        let parameters = [
            ("user", settings.place.user.as_str()),
            ("database", settings.place.database.as_str()),
            ("replication", "database"),
            ("client_encoding", "UTF8"),
            ("application_name", "larder"),
        ];
        let mut out = BytesMut::new();
        frontend::startup_message(parameters, &mut out).map_err(|it| broken(&it))?;
        log.send(&out).await?;
        log.authenticate(settings).await?;
        log.until_ready().await?;
        Ok(log)
    }

    async fn authenticate(&mut self, settings: &DatabaseSettings) -> Result<(), String> {
        let password = || match &settings.password {
            Some(password) => Ok(password.expose().as_bytes()),
            None => Err("the database asks for a password; set database.password".to_owned()),
        };
        let mut scram: Option<ScramSha256> = None;
        loop {
            let mut out = BytesMut::new();
            match self.message().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password()?, &mut out).map_err(|it| broken(&it))?;
                }
                Message::AuthenticationMd5Password(it) => {
                    let hash = md5_hash(settings.place.user.as_bytes(), password()?, it.salt());
                    frontend::password_message(hash.as_bytes(), &mut out).map_err(|it| broken(&it))?;
                }
                Message::AuthenticationSasl(_) => {
                    let begun = scram.insert(ScramSha256::new(password()?, ChannelBinding::unsupported()));
                    frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut out)
                        .map_err(|it| broken(&it))?;
                }
                Message::AuthenticationSaslContinue(it) => {
                    let scram = scram.as_mut().ok_or_else(unexpected)?;
                    scram.update(it.data()).map_err(|it| broken(&it))?;
                    frontend::sasl_response(scram.message(), &mut out).map_err(|it| broken(&it))?;
                }
                Message::AuthenticationSaslFinal(it) => {
                    scram.as_mut().ok_or_else(unexpected)?.finish(it.data()).map_err(|it| broken(&it))?;
                    continue;
                }
                Message::ErrorResponse(it) => return Err(error_text(it.fields())),
                _ => return Err("the database asks for a login that larder does not know".to_owned()),
            }
            self.send(&out).await?;
        }
    }

    /// Runs a command to its end.
    async fn command(&mut self, text: &str) -> Result<(), String> {
        let mut out = BytesMut::new();
        frontend::query(text, &mut out).map_err(|it| broken(&it))?;
        self.send(&out).await?;
        self.until_ready().await
    }

    /// Waits for the end of a command, or of the login.
    async fn until_ready(&mut self) -> Result<(), String> {
        let mut failure = None;
        loop {
            match self.message().await {
                Ok(Message::ReadyForQuery(_)) => return failure.map_or(Ok(()), Err),
                Ok(Message::ErrorResponse(it)) => failure = Some(error_text(it.fields())),
                Ok(_) => {}
                // After an error of the login the connection ends.
                Err(error) => return Err(failure.unwrap_or(error)),
            }
        }
    }

    async fn start(&mut self, slot: &str, publication: &str) -> Result<(), String> {
        let text = format!(
            "START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names '\"{publication}\"')"
        );
        let mut out = BytesMut::new();
        frontend::query(&text, &mut out).map_err(|it| broken(&it))?;
        self.send(&out).await?;
        loop {
            self.whole().await?;
            // `CopyBothResponse` is none of the messages of ordinary queries.
            if self.arrived[0] == b'W' {
                self.skip();
                return Ok(());
            }
            match self.message().await? {
                Message::ErrorResponse(it) => return Err(error_text(it.fields())),
                Message::NoticeResponse(_) | Message::ParameterStatus(_) => {}
                _ => return Err(unexpected()),
            }
        }
    }

    /// The next message of the log; `None` after about a second without one, or where the position has moved without one.
    ///
    /// # Errors
    /// One sentence: the connection has ended, and with it the slot.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let begun = self.position;
        loop {
            if let Some(message) = self.next_arrived().await? {
                return Ok(Some(message));
            }
            if self.position > begun {
                return Ok(None);
            }
            let report = self.reported + REPORT;
            match timeout_at(report, self.whole()).await {
                Ok(arrived) => arrived?,
                Err(_) if self.heard.elapsed() > SILENCE => {
                    return Err(format!("it sent nothing for {} s", SILENCE.as_secs()));
                }
                Err(_) => {
                    self.report().await?;
                    return Ok(None);
                }
            }
        }
    }

    /// The next message of the log, if it has arrived already.
    ///
    /// # Errors
    /// As for [`ReplicationLog::next`].
    pub async fn next_arrived(&mut self) -> Result<Option<Bytes>, String> {
        while self.has_message()? {
            self.heard = Instant::now();
            if self.arrived[0] != b'd' {
                match self.message().await? {
                    Message::ErrorResponse(it) => return Err(error_text(it.fields())),
                    Message::NoticeResponse(_) | Message::ParameterStatus(_) => continue,
                    _ => return Err("it ended the log".to_owned()),
                }
            }
            let mut data = self.skip();
            data.advance(5);
            if let Some(message) = self.logged(data).await? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Reads what has arrived, at most [`READ`] bytes, and does not wait.
    ///
    /// # Errors
    /// As for [`ReplicationLog::next`].
    pub async fn receive(&mut self) -> Result<(), String> {
        self.arrived.reserve(READ);
        let read = tokio::select! {
            biased;
            read = self.stream.read_buf(&mut self.arrived) => read,
            () = ready(()) => return Ok(()),
        };
        match read.map_err(|it| broken(&it))? {
            0 => Err(closed()),
            _ => Ok(()),
        }
    }

    /// A message of the log, or an answer to its keep-alive.
    async fn logged(&mut self, mut data: Bytes) -> Result<Option<Bytes>, String> {
        let kind = data.try_get_u8().map_err(|_| unexpected())?;
        match kind {
            b'w' if data.len() >= 24 => {
                let start = data.get_u64();
                data.advance(16);
                self.position = self.position.max(start);
                if self.reported.elapsed() > REPORT {
                    self.report().await?;
                }
                Ok(Some(data))
            }
            b'k' if data.len() >= 17 => {
                // Everything up to there was sent before.
                self.position = self.position.max(data.get_u64());
                data.advance(8);
                if data.get_u8() != 0 {
                    self.report().await?;
                }
                Ok(None)
            }
            _ => Err(unexpected()),
        }
    }

    /// The position up to which the log was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Messages wake no thread, until one is awaited.
    ///
    /// # Errors
    /// As for [`ReplicationLog::next`].
    pub fn rest(&mut self) -> Result<(), String> {
        self.stream.rest().map_err(|it| broken(&it))
    }

    /// Reports the position now: a commit that waits for synchronous standbys waits for larder if their list has its name or `*`.
    ///
    /// # Errors
    /// As for [`ReplicationLog::next`].
    pub async fn acknowledge(&mut self) -> Result<(), String> {
        self.send_position(0).await
    }

    /// The same, and asks for the position of the database.
    ///
    /// # Errors
    /// As for [`ReplicationLog::next`].
    pub async fn report(&mut self) -> Result<(), String> {
        self.reported = Instant::now();
        self.send_position(1).await
    }

    /// Reports the position, up to which the database need not keep its log; it answers where the last byte is 1.
    async fn send_position(&mut self, asks: u8) -> Result<(), String> {
        let now = i64::try_from(clock::wall().0).unwrap_or(0).saturating_mul(1_000_000) - EPOCH;
        let mut status = vec![b'r'];
        for _ in ["written", "flushed", "applied"] {
            status.extend(self.position.to_be_bytes());
        }
        status.extend(now.to_be_bytes());
        status.push(asks);
        let mut out = BytesMut::new();
        CopyData::new(&status[..]).map_err(|it| broken(&it))?.write(&mut out);
        self.send(&out).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = timeout(SILENCE, self.stream.write_all(bytes)).await;
        sent.map_err(|_| "it does not read".to_owned())?.map_err(|it| broken(&it))
    }

    /// Waits until a message has arrived, which begins at the first byte.
    async fn whole(&mut self) -> Result<(), String> {
        while !self.has_message()? {
            self.arrived.reserve(READ);
            if self.stream.read_buf(&mut self.arrived).await.map_err(|it| broken(&it))? == 0 {
                return Err(closed());
            }
        }
        Ok(())
    }

    /// Whether a whole message has arrived.
    fn has_message(&self) -> Result<bool, String> {
        let Some(header) = Header::parse(&self.arrived).map_err(|it| broken(&it))? else { return Ok(false) };
        let length = usize::try_from(header.len()).map_err(|_| unexpected())? + 1;
        if length > LARGEST {
            return Err(format!("a change has more than {LARGEST} bytes"));
        }
        Ok(self.arrived.len() >= length)
    }

    /// Removes the message at the first byte, which has arrived.
    fn skip(&mut self) -> Bytes {
        let length = match Header::parse(&self.arrived) {
            Ok(Some(it)) => usize::try_from(it.len()).unwrap_or_default() + 1,
            _ => 0,
        };
        self.arrived.split_to(length.min(self.arrived.len())).freeze()
    }

    async fn message(&mut self) -> Result<Message, String> {
        self.whole().await?;
        Message::parse(&mut self.arrived).map_err(|it| broken(&it))?.ok_or_else(unexpected)
    }
}

/// Asks for TLS, and begins it: the login is sent through it.
async fn secure(mut stream: DatabaseStream, tls: &DatabaseTls) -> Result<DatabaseStream, String> {
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    stream.write_all(&out).await.map_err(|it| broken(&it))?;
    match stream.read_u8().await.map_err(|it| broken(&it))? {
        b'S' => stream.secure(tls).await.map_err(|it| it.sentence().into_owned()),
        _ => Err("the database has no TLS".to_owned()),
    }
}

fn unexpected() -> String {
    "it sent a message that the protocol does not allow here".to_owned()
}

fn closed() -> String {
    "it closed the connection".to_owned()
}

fn broken(error: &io::Error) -> String {
    larder_stdx::error::plain(error)
}

/// The text and the code of an error of the database.
fn error_text(fields: postgres_protocol::message::backend::ErrorFields<'_>) -> String {
    use fallible_iterator::FallibleIterator as _;
    let (mut text, mut code) = (String::new(), String::new());
    let mut fields = fields;
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'M' => text = value,
            b'C' => code = value,
            _ => {}
        }
    }
    format!("{text} ({code})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixStream;

    /// A row of the log at a position, as the database sends it.
    fn row(position: u64) -> Vec<u8> {
        let data = [&b"w"[..], &position.to_be_bytes(), &[0; 16], b"row"].concat();
        let mut out = BytesMut::new();
        CopyData::new(&data[..]).unwrap().write(&mut out);
        out.to_vec()
    }

    #[tokio::test]
    async fn rows_that_have_arrived_are_read_without_waiting() {
        let (mut database, stream) = UnixStream::pair().unwrap();
        let now = Instant::now();
        let (stream, arrived) = (DatabaseStream::Unix(stream), BytesMut::new());
        let mut log = ReplicationLog { stream, arrived, position: 0, reported: now, heard: now };
        let mut next = 0;
        for round in 1..=3 {
            let rows: Vec<u8> = (next + 1..=next + 1000).flat_map(row).collect();
            database.write_all(&rows).await.unwrap();
            assert_eq!("row", log.next().await.unwrap().unwrap());
            let mut count = 1;
            while log.next_arrived().await.unwrap().is_some() {
                count += 1;
            }
            assert_eq!(1000, count, "in round {round}");
            next += 1000;
            assert_eq!(next, log.position());
            log.receive().await.unwrap();
            assert!(log.next_arrived().await.unwrap().is_none(), "there is no more");
        }
        // Later ones, without waiting for them.
        database.write_all(&row(next + 1)).await.unwrap();
        tokio::task::yield_now().await;
        log.receive().await.unwrap();
        assert_eq!("row", log.next_arrived().await.unwrap().unwrap());
        drop(database);
        tokio::task::yield_now().await;
        assert_eq!(Err("it closed the connection".to_owned()), log.receive().await);
    }
}
