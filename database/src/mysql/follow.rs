//! Follows the changes of MariaDB and MySQL by their binary log: whether it can be followed, and the tags of the pages that each committed
//! transaction makes outdated. The purges, and the time without a connection, are the caller's.

use super::MySqlConnection;
use super::changes::{Committed, LogTags, TransactionNumber};
use super::packet_stream::MySqlPacketStream;
use super::position::LogPosition;
use super::server_queries::{SHORT, plain};
use super::tables::KnownTables;
use crate::freshness::FollowedTables;
use crate::lag::{FollowLag, GATHER};
use crate::row_tags::ChangedRows;
use crate::settings::{DatabaseSettings, FollowSettings};
use larder_stdx::clock;
use larder_wire::mysql::{CommandAnswer, dump, read_answer, read_dumped, register};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The pause between two looks whether a transaction is visible.
const PAUSE: Duration = Duration::from_millis(1);
/// The most tags of one result.
const MOST_TAGS: usize = 1000;
/// The interval of looks at the log, and of the server's signs of life.
const LOOK: Duration = Duration::from_secs(1);
/// The most time for which the server sends nothing, or not what stands in its log.
const SILENCE: Duration = Duration::from_secs(5);

/// The settings of the connection with the log: no checksums, numbers of transactions, and a sign of life each second.
const SESSION: &str = "SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE', @mariadb_slave_capability = 4, \
     @master_heartbeat_period = 1000000000, @source_heartbeat_period = 1000000000";

/// Of a server whose log lacks changes.
const WITHOUT_OTHERS: &str = "changes of other servers are missing in its binary log; add `log_slave_updates = ON` to the section \
     [mysqld] of its configuration and restart it, or let database.url name their primary";

/// A connection that follows the changes of a database.
pub(crate) struct BinlogFollower {
    log: MySqlPacketStream,
    /// For queries while the log is read.
    connection: MySqlConnection,
    tags: LogTags,
    follow: FollowSettings,
    own: Box<str>,
    schemas: BTreeSet<Box<str>>,
    /// The tables that pages show, as they are logged.
    tables: Arc<FollowedTables>,
    extent: LogExtent,
    /// When the log was looked at, and its end then, which was read by the next look but some.
    looked: Instant,
    due: (LogPosition, Instant),
    /// When something arrived.
    heard: Instant,
    /// When the tables were looked at.
    refreshed: Instant,
    /// When the last result was returned.
    returned: Instant,
    lag: FollowLag,
}

/// How much of the changes a log has.
#[derive(Clone, Copy)]
struct LogExtent {
    /// All former values.
    has_former: bool,
    /// Changes that arrive from other servers.
    has_others: bool,
}

/// The turn of this node to follow a database for all nodes of its fleet: a lock of the server, which ends with its session. So the next
/// node has it within a second after this one was killed, and after [`SILENCE`] if this one is stopped or cut off.
pub(crate) struct BinlogTurn(MySqlConnection);

impl BinlogFollower {
    /// Follows from now on: a change that is committed after this function has returned is among the results of
    /// [`BinlogFollower::next`].
    ///
    /// # Errors
    /// One sentence: why the database cannot be followed, and the remedy.
    pub async fn begin(
        settings: &Arc<DatabaseSettings>,
        follow: &FollowSettings,
        turn: Option<BinlogTurn>,
    ) -> Result<Self, String> {
        let connection = match turn {
            Some(BinlogTurn(connection)) => connection,
            None => connect(settings).await?,
        };
        let extent = check(&connection).await?;
        let own: Box<str> = settings.place.database.as_str().into();
        let schemas = schemas(&own, follow);
        let position = connection.log_position().await?;
        let tables = KnownTables::read(&connection, &own, &schemas, &follow.watched).await?;
        refuse_missing(&tables, &own, follow)?;
        let log = timeout(SHORT, open_log(settings, &position)).await.map_err(|_| timed_out())??;
        // Pages that are made from now on show what stands in the log before that position.
        match connection.packet_stream.greeting().is_mariadb() {
            true => {
                until_visible(&connection, &Committed { end: position.clone(), ..Committed::default() })
                    .await?
            }
            false => sleep(LOOK).await,
        }
        let followed = Arc::new(tables.followed(&own, &follow.tables, extent.has_former));
        let now = Instant::now();
        Ok(Self {
            log,
            connection,
            tags: LogTags::new(&own, schemas.clone(), tables, position.clone()),
            follow: follow.clone(),
            own,
            schemas,
            tables: followed,
            extent,
            looked: now,
            due: (position, now),
            heard: now,
            refreshed: now,
            returned: now,
            lag: FollowLag::default(),
        })
    }

    /// How far the results are behind the database.
    pub fn lag(&self) -> &FollowLag {
        &self.lag
    }

    /// The tables that pages show, as they are logged at present.
    pub fn tables(&self) -> &Arc<FollowedTables> {
        &self.tables
    }

    /// The next transactions with changes, once every new query sees them. Not safe to drop: the log is then read to an
    /// unknown place.
    ///
    /// # Errors
    /// One sentence: the log has ended, and changes may have been missed.
    pub async fn next(&mut self) -> Result<ChangedRows, String> {
        while self.tags.committed().tags.is_empty() {
            self.lag.applied(self.tags.position().ordinal());
            if self.looked.elapsed() > LOOK {
                self.check_log().await?;
            }
            if self.tags.is_outdated() && self.refreshed.elapsed() > LOOK {
                self.refresh().await?;
            }
            if let Ok(event) = timeout(LOOK, self.log.packet()).await {
                self.read(&event.map_err(plain)?)?;
            } else if self.heard.elapsed() > SILENCE {
                return Err("it sends nothing of its log".to_owned());
            }
        }
        // The server sends each transaction in a packet of its own.
        self.log.rest().map_err(plain)?;
        // A single change is returned at once.
        sleep_until(self.returned + GATHER).await;
        while self.tags.committed().tags.len() < MOST_TAGS
            && let Some(event) = self.log.arrived()
        {
            if self.looked.elapsed() > LOOK {
                self.check_log().await?;
            }
            self.read(&event.map_err(plain)?)?;
        }
        let found = self.tags.take();
        until_visible(&self.connection, &found).await?;
        self.lag.ends(self.tags.position().ordinal());
        self.returned = Instant::now();
        Ok(ChangedRows { tags: found.tags, transactions: Vec::new() })
    }

    /// Reads an event.
    fn read(&mut self, packet: &[u8]) -> Result<(), String> {
        self.heard = Instant::now();
        match read_dumped(packet) {
            Ok(Ok(event)) => self.tags.read(event),
            Ok(Err(failure)) => Err(format!("it ends its log: {}", String::from_utf8_lossy(failure.message))),
            Err(_) => Err("its log has ended".to_owned()),
        }
    }

    /// Looks at the tables again: they have changed.
    async fn refresh(&mut self) -> Result<(), String> {
        self.refreshed = Instant::now();
        let watched = &self.follow.watched;
        let tables = KnownTables::read(&self.connection, &self.own, &self.schemas, watched).await?;
        refuse_missing(&tables, &self.own, &self.follow)?;
        let followed = tables.followed(&self.own, &self.follow.tables, self.extent.has_former);
        if followed != *self.tables {
            self.tables = Arc::new(followed);
        }
        self.tags.set_tables(tables);
        Ok(())
    }

    /// Looks whether the log arrives: its end at the last look but some was read, and it has not started again from the beginning; and whether it still has all
    /// changes.
    async fn check_log(&mut self) -> Result<(), String> {
        let now = self.connection.log_position().await?;
        self.looked = Instant::now();
        self.lag.ends(now.ordinal());
        let read = self.tags.position();
        if now < *read {
            return Err("its log has started again from the beginning".to_owned());
        }
        if self.due.0 <= *read {
            self.due = (now, self.looked);
        } else if self.due.1.elapsed() > SILENCE {
            return Err(format!("it does not send its log from {} on", read.file));
        }
        match self.extent.has_others {
            true => Ok(()),
            false => refuse_replica(&self.connection).await,
        }
    }
}

/// Waits until new queries see these transactions: the log has a transaction shortly before that.
async fn until_visible(connection: &MySqlConnection, found: &Committed) -> Result<(), String> {
    let until = Instant::now() + SHORT;
    while !is_visible(connection, found).await? {
        if Instant::now() > until {
            return Err("a committed transaction stays invisible".to_owned());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn is_visible(connection: &MySqlConnection, found: &Committed) -> Result<bool, String> {
    if !connection.packet_stream.greeting().is_mariadb() {
        let numbers = numbers(&found.numbers);
        let text = format!("SELECT GTID_SUBSET('{numbers}', @@GLOBAL.gtid_executed)");
        return Ok(is_one(&connection.select_once(&text).await?));
    }
    // Such a snapshot has its position in the log: all before it is visible.
    connection.set("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    let rows = connection.select("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'").await?;
    connection.set("COMMIT").await?;
    let offset = value(&rows, "binlog_snapshot_position").parse().unwrap_or_default();
    let seen = LogPosition::new(value(&rows, "binlog_snapshot_file"), offset);
    Ok(seen.ok_or("its snapshots have no position in its log")? >= found.end)
}

impl BinlogTurn {
    /// Waits until no other node of `fleet` follows this database with the same settings; `waits` is called as long as one does.
    ///
    /// # Errors
    /// One sentence: the database cannot be reached, so it is not known whether another node follows it.
    pub async fn wait(
        settings: &Arc<DatabaseSettings>,
        follow: &FollowSettings,
        fleet: u64,
        mut waits: impl FnMut(),
    ) -> Result<Self, String> {
        let connection = connect(settings).await?;
        connection.set(&format!("SET SESSION wait_timeout = {}", SILENCE.as_secs())).await?;
        // Nodes with other settings need other tags.
        let mut lock = DefaultHasher::new();
        (fleet, &settings.name, format!("{follow:?}")).hash(&mut lock);
        let text = format!("SELECT GET_LOCK('larder_{:016x}', 0)", lock.finish());
        loop {
            let rows = connection.select(&text).await?;
            if is_one(&rows) {
                return Ok(Self(connection));
            }
            waits();
            sleep(LOOK).await;
        }
    }
}

/// Finds out whether the database can be followed. The result is a note on how exactly, empty if there is nothing to improve.
///
/// # Errors
/// One sentence with the remedy.
pub(crate) async fn contact(
    settings: &Arc<DatabaseSettings>,
    follow: &FollowSettings,
) -> Result<&'static str, String> {
    let connection = connect(settings).await?;
    let extent = check(&connection).await?;
    let own = &settings.place.database;
    let schemas = schemas(own, follow);
    let position = connection.log_position().await?;
    let tables = KnownTables::read(&connection, own, &schemas, &follow.watched).await?;
    refuse_missing(&tables, own, follow)?;
    timeout(SHORT, open_log(settings, &position)).await.map_err(|_| timed_out())??;
    Ok(match extent.has_former {
        true => "",
        false => {
            "; its binlog_row_image leaves out former values, so an UPDATE purges the pages of all values of a column: run \
             `SET GLOBAL binlog_row_image = 'FULL'`"
        }
    })
}

async fn connect(settings: &Arc<DatabaseSettings>) -> Result<MySqlConnection, String> {
    let opened = timeout(settings.connect_timeout, MySqlConnection::open(settings)).await;
    let opened = opened.map_err(|_| "the connection timed out".to_owned())?;
    let connection = opened.map_err(plain)?;
    // A quiet database keeps it. Foreign keys are read from statements with quoted names.
    connection.set("SET SESSION wait_timeout = 86400, sql_quote_show_create = 1").await?;
    Ok(connection)
}

/// The databases whose tables have tags: that of the connection, and those that declarations name.
fn schemas(own: &str, follow: &FollowSettings) -> BTreeSet<Box<str>> {
    let named = follow.tables.iter().filter_map(|it| Some(Box::from(it.split_once('.')?.0)));
    named.chain((!own.is_empty()).then(|| own.into())).collect()
}

fn refuse_missing(tables: &KnownTables, own: &str, follow: &FollowSettings) -> Result<(), String> {
    match tables.missing(own, &follow.tables) {
        None => Ok(()),
        Some((name, Some(similar))) => {
            Err(format!("it has no table {name}; write {similar} in sql.rows or follow.columns"))
        }
        Some((name, None)) => Err(format!(
            "it has no table {name} that its user may read; correct sql.rows or follow.columns, of a view name the tables, or run \
             `GRANT SELECT ON {} TO` the user",
            if name.contains('.') { name.to_owned() } else { format!("{own}.{name}") }
        )),
    }
}

/// Whether a database can be followed.
async fn check(connection: &MySqlConnection) -> Result<LogExtent, String> {
    let rows = connection
        .select(
            "SHOW GLOBAL VARIABLES WHERE variable_name IN ('log_bin', 'binlog_format', 'binlog_row_image', 'log_slave_updates', 'wsrep_on', \
             'gtid_mode', 'binlog_row_value_options', 'binlog_transaction_compression')",
        )
        .await?;
    let is = |name: &str, expect: &str| value(&rows, name).eq_ignore_ascii_case(expect);
    if !is("log_bin", "ON") {
        return Err("it has no binary log; add `log_bin` and `binlog_format = ROW` to the section [mysqld] of its configuration, and \
                    restart it"
            .to_owned());
    }
    if !is("binlog_format", "ROW") {
        return Err(format!(
            "its binlog_format is {}; run `SET GLOBAL binlog_format = 'ROW'`, add `binlog_format = ROW` to the section [mysqld] of its \
             configuration, and restart programs whose connections have the former one",
            value(&rows, "binlog_format")
        ));
    }
    let is_mariadb = connection.packet_stream.greeting().is_mariadb();
    if !is_mariadb && !is("gtid_mode", "ON") {
        return Err("its gtid_mode is not ON, so nothing tells when a transaction is visible; set gtid_mode = ON and \
                    enforce_gtid_consistency = ON"
            .to_owned());
    }
    if is("binlog_transaction_compression", "ON") {
        return Err(
            "its binlog_transaction_compression is ON; run `SET GLOBAL binlog_transaction_compression = OFF`"
                .to_owned(),
        );
    }
    let has_others = !is("log_slave_updates", "OFF");
    if !has_others && is("wsrep_on", "ON") {
        return Err(WITHOUT_OTHERS.to_owned());
    }
    if !has_others {
        refuse_replica(connection).await?;
    }
    let log = connection.log_status().await;
    let log = match log {
        Ok(it) => it,
        Err(why) => return Err(format!("{why}; {}", grant(connection).await)),
    };
    if log.iter().skip(2).take(2).any(|it| !it.is_empty()) {
        return Err("databases are missing in its binary log; remove binlog_do_db and binlog_ignore_db from its configuration, and \
                    restart it"
            .to_owned());
    }
    let has_former = is("binlog_row_image", "FULL") || is("binlog_row_image", "FULL_NODUP");
    Ok(LogExtent { has_former, has_others })
}

/// Fails if changes of another server arrive.
async fn refuse_replica(connection: &MySqlConnection) -> Result<(), String> {
    let rows = connection.select("SHOW GLOBAL STATUS LIKE 'slaves\\_running'").await?;
    match value(&rows, "slaves_running") {
        "" | "0" => Ok(()),
        _ => Err(WITHOUT_OTHERS.to_owned()),
    }
}

/// The statement that lets the user read the log.
async fn grant(connection: &MySqlConnection) -> String {
    let rows = connection.select("SELECT CURRENT_USER()").await.unwrap_or_default();
    let user = rows.first().and_then(|it| it.first()).map_or("larder@%", String::as_str);
    let (name, host) = user.rsplit_once('@').unwrap_or((user, "%"));
    format!("run `GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{name}'@'{host}'`")
}

/// The value of a variable among rows with a name and a value; empty without it.
fn value<'r>(rows: &'r [Vec<String>], name: &str) -> &'r str {
    let row = rows.iter().find(|it| it.len() == 2 && it[0].eq_ignore_ascii_case(name));
    row.map_or("", |it| &it[1])
}

/// Whether the result is the number 1.
fn is_one(rows: &[Vec<String>]) -> bool {
    rows.first().and_then(|it| it.first()).is_some_and(|it| it == "1")
}

/// Opens the log at a position, and waits for its first event.
async fn open_log(settings: &Arc<DatabaseSettings>, from: &LogPosition) -> Result<MySqlPacketStream, String> {
    let packet_stream = MySqlPacketStream::open(settings).await.map_err(plain)?;
    packet_stream.batch(SESSION).await.map_err(plain)?;
    // Two replicas with one number would end each other's connections.
    let mut random = DefaultHasher::new();
    (clock::precise_micros(), std::process::id(), &settings.name).hash(&mut random);
    let number = (random.finish() as u32) | 1 << 31;
    let offset = u32::try_from(from.offset)
        .map_err(|_| format!("{} has more than 4 GiB; run `FLUSH BINARY LOGS`", from.file))?;
    let denied = |why: String| match why.contains("denied") {
        true => format!(
            "{why}; run `GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{}'@'%'` with the host of its account",
            settings.place.user
        ),
        false => why,
    };
    packet_stream.command(&register(number)).await.map_err(plain)?;
    let answer = packet_stream.packet().await.map_err(plain)?;
    if let Ok(CommandAnswer::Failed(it)) = read_answer(&answer) {
        return Err(denied(plain(super::query_failure(&it))));
    }
    packet_stream.command(&dump(number, offset, &from.file)).await.map_err(plain)?;
    // The first packet names the file: the next ones are left for the reader.
    let first = packet_stream.packet().await.map_err(plain)?;
    match read_dumped(&first) {
        Ok(Ok(_)) => Ok(packet_stream),
        Ok(Err(failure)) => Err(denied(String::from_utf8_lossy(failure.message).into_owned())),
        Err(_) => Err("its log is malformed".to_owned()),
    }
}

/// Numbers of transactions as MySQL writes them.
fn numbers(all: &[TransactionNumber]) -> String {
    let mut out = String::new();
    for (server, count) in all {
        if !out.is_empty() {
            out.push(',');
        }
        for (at, byte) in server.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            let _ = write!(out, "{dash}{byte:02x}");
        }
        let _ = write!(out, ":{count}");
    }
    out
}

fn timed_out() -> String {
    "a query about its state timed out".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_transactions() {
        let server: [u8; 16] = std::array::from_fn(|it| it as u8);
        let text = numbers(&[(server, 7), (server, 9)]);
        let one = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(format!("{one}:7,{one}:9"), text);
    }
}
