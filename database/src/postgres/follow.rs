//! Follows the changes of a PostgreSQL database: whether it can be followed, and the tags of the pages that each committed
//! transaction makes outdated. The purges, and the time without a connection, are the caller's.

use super::replication::ReplicationLog;
use super::{causes, login, types_of};
use crate::freshness::{FollowedTable, FollowedTables};
use crate::lag::{FollowLag, GATHER};
use crate::row_tags::{ChangedRows, KeyClass, RowTags, join_tags};
use crate::settings::{DatabaseSettings, FollowSettings, SqlAccess, SqlStatement};
use larder_stdx::clock;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Statement};

/// The most time for a query about the database itself.
const SHORT: Duration = Duration::from_secs(5);
/// The pause between two looks whether a transaction is visible.
const PAUSE: Duration = Duration::from_millis(1);
/// The most tags of one result.
const MOST_TAGS: usize = 1000;

/// The first words of statements that can be planned without being executed; one in parentheses can as well.
const PLANNED: [&str; 8] = ["select", "with", "values", "table", "insert", "update", "delete", "merge"];
/// The delay beyond which changes in the log are skipped: the database is followed again from the end of its log, after a gap.
const MOST_LAG: Duration = Duration::from_secs(60);
/// The interval of looks at the published tables.
const LOOK: Duration = Duration::from_secs(1);
/// The columns of the primary key of a table.
const KEY: &str = "SELECT a.attname::text FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, at) \
                    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n \
                    WHERE i.indrelid = $1 AND i.indisprimary ORDER BY k.at";
/// The columns of a table with a collation by which different texts are equal.
const UNCLEAR: &str = "SELECT a.attname::text FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation \
     WHERE a.attrelid = $1 AND NOT c.collisdeterministic";
/// The publication, its tables, their form and files, those of partitions included, and the tables that inherit from them; the labels of types, the
/// views, the files of materialized ones, and the functions, whose changes no log has; and the end of the log. The number of the last transaction of a row tells of changes that
/// were undone.
const PUBLISHED: &str = "SELECT coalesce(string_agg(concat_ws(' ', to_jsonb(b), b.xmin, to_jsonb(p), c.oid, c.relpersistence, c.relfilenode, \
     (SELECT string_agg(r.oid || ' ' || r.xmin, ',' ORDER BY r.oid) FROM pg_publication_rel r WHERE r.prpubid = b.oid AND r.prrelid = c.oid), \
     (SELECT string_agg(h.inhrelid::text, ',' ORDER BY h.inhrelid) FROM pg_inherits h WHERE h.inhparent = c.oid), \
     (SELECT string_agg(a.attname || ' ' || a.atttypid, ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), \
     (SELECT string_agg(t.relid || ' ' || coalesce(pg_relation_filenode(t.relid), 0), ',' ORDER BY t.relid) FROM pg_partition_tree(c.oid) t)), \
     ';' ORDER BY c.oid), '') || concat_ws(' ', '', \
     (SELECT sum(hashtext(concat(e.oid, ' ', e.xmin))) FROM pg_enum e), \
     (SELECT sum(hashtext(concat(w.oid, ' ', w.relfilenode))) FROM pg_class w WHERE w.relkind = 'm'), \
     (SELECT sum(hashtext(concat(v.oid, ' ', v.xmin))) FROM pg_rewrite v WHERE v.oid >= 16384), \
     (SELECT sum(hashtext(concat(f.oid, ' ', f.xmin))) FROM pg_proc f WHERE f.oid >= 16384)), (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END \
     - '0/0')::bigint FROM pg_publication b JOIN pg_publication_tables p USING (pubname) \
     JOIN pg_namespace n ON n.nspname = p.schemaname JOIN pg_class c ON c.relname = p.tablename AND c.relnamespace = n.oid \
     WHERE b.pubname = $1";
/// Tables that inherit from published ones: their rows are rows of these, and are published by their own names.
const CHILDREN: &str = "SELECT k.relname::text, CASE WHEN m.nspname = 'public' THEN h.relname::text \
     ELSE m.nspname || '.' || h.relname END FROM pg_inherits c \
     JOIN pg_class h ON h.oid = c.inhrelid JOIN pg_namespace m ON m.oid = h.relnamespace \
     JOIN pg_class k ON k.oid = c.inhparent AND k.relkind = 'r' JOIN pg_namespace n ON n.oid = k.relnamespace \
     WHERE CASE WHEN n.nspname = 'public' THEN k.relname::text ELSE n.nspname || '.' || k.relname END = ANY($1)";
/// Partitions of published tables whose changes the log has not: unlogged ones, and those of other servers.
const UNLOGGED: &str = "SELECT t.name, m.oid::regclass::text, m.relkind = 'f' FROM (SELECT c.oid, \
         CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END AS name \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p') t \
     CROSS JOIN LATERAL pg_partition_tree(t.oid) l JOIN pg_class m ON m.oid = l.relid \
     WHERE t.name = ANY($1) AND (m.relpersistence <> 'p' OR m.relkind = 'f') ORDER BY 2";

/// The tables without a schema before their name that a query of this user finds in another schema than `public`.
const RESOLVED: &str = "SELECT t.name, n.nspname::text FROM unnest($1::text[]) AS t(name) \
     JOIN pg_class c ON c.oid = to_regclass(quote_ident(t.name)) JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE strpos(t.name, '.') = 0 AND n.nspname <> 'public' ORDER BY 1";

/// Of each of these tables: the primary key, the columns whose former values are logged, and the types of columns whose equality is that of
/// bytes.
const LOGGED: &str = "SELECT t.name, \
     ARRAY(SELECT a.attname::text FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, at) \
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE i.indrelid = t.oid AND i.indisprimary ORDER BY k.at), \
     ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND \
         (t.identity = 'f' OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND a.attnum = ANY(i.indkey) AND \
         (t.identity = 'd' AND i.indisprimary OR t.identity = 'i' AND i.indisreplident)))), \
     ARRAY(SELECT a.attname || ' ' || a.atttypid FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation \
         WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND coalesce(l.collisdeterministic, true)) \
     , t.oid::regclass::text FROM (SELECT c.oid, c.relreplident::text AS identity, \
         CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END AS name \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')) t WHERE t.name = ANY($1)";

/// A connection that follows the changes of a database.
pub(crate) struct PostgresFollower {
    log: ReplicationLog,
    /// For queries while the log is read.
    client: Client,
    tags: RowTags,
    follow: FollowSettings,
    /// The published tables as they were at the beginning, and when they were looked at.
    published: (String, Instant),
    /// The tables that pages show, as they are logged.
    tables: Arc<FollowedTables>,
    /// The query for the transactions that new queries see.
    snapshot: Statement,
    /// When the last result was returned.
    returned: Instant,
    lag: FollowLag,
}

impl PostgresFollower {
    /// Follows from now on: a change that is committed after this function has returned is among the results of
    /// [`PostgresFollower::next`]. Waits for transactions that are open in the database. With a `turn`, this node follows for its fleet until
    /// the follower is dropped. Within a `LocalSet`.
    ///
    /// # Errors
    /// One sentence: why the database cannot be followed, and the remedy.
    pub async fn begin(
        settings: &DatabaseSettings,
        follow: &FollowSettings,
        turn: Option<PostgresTurn>,
    ) -> Result<Self, String> {
        let client = match turn {
            Some(PostgresTurn(client)) => client,
            None => connect(settings).await?,
        };
        check(&client, settings, follow).await?;
        let slot = slot_name();
        let log = tokio::select! {
            opened = ReplicationLog::open(settings, &slot, &follow.publication) => opened?,
            why = until_lost(&client) => return Err(why),
        };
        // After the log has begun: a change of the tables from now on is seen.
        check(&client, settings, follow).await?;
        let published = (published(&client, &follow.publication).await?.0, Instant::now());
        let snapshot = timeout(SHORT, client.prepare("SELECT pg_current_snapshot()::text")).await;
        let snapshot = snapshot.map_err(|_| timed_out())?.map_err(|it| causes(&it))?;
        let tables = Arc::new(logged(&client, follow).await?);
        let (tags, follow) = (RowTags::new(follow.watched.clone()), follow.clone());
        let (returned, lag) = (Instant::now(), FollowLag::default());
        Ok(Self { log, client, tags, follow, published, tables, snapshot, returned, lag })
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
        let mut found = ChangedRows::default();
        while found.tags.is_empty() {
            // A transaction without published rows has no tags.
            found.transactions.clear();
            self.lag.applied(self.log.position());
            self.check_tables().await?;
            if let Some(message) = self.log.next().await? {
                self.read(&message, &mut found).await?;
            }
        }
        // The server sends each change in a packet of its own.
        self.log.rest()?;
        // A single change is returned at once.
        sleep_until(self.returned + GATHER).await;
        self.log.receive().await?;
        while found.tags.len() < MOST_TAGS
            && let Some(message) = self.log.next_arrived().await?
        {
            self.check_tables().await?;
            self.read(&message, &mut found).await?;
        }
        self.log.acknowledge().await?;
        self.until_visible(&found.transactions).await?;
        self.lag.ends(self.log.position());
        self.returned = Instant::now();
        Ok(found)
    }

    /// Looks each second whether other tables are published, or tables have another form or other files: the log has no message of that. Also
    /// where the log ends, and has the database tell that it sent all before.
    async fn check_tables(&mut self) -> Result<(), String> {
        if self.published.1.elapsed() <= LOOK {
            return Ok(());
        }
        let (now, end) = published(&self.client, &self.follow.publication).await?;
        if now != self.published.0 {
            return Err("the published tables have changed; it is followed again in a second".to_owned());
        }
        self.published.1 = Instant::now();
        self.lag.ends(end);
        if self.lag.time() > MOST_LAG {
            let most = MOST_LAG.as_secs();
            return Err(format!(
                "its changes are more than {most} s behind; it is followed again from the end of its log"
            ));
        }
        self.log.report().await
    }

    /// Reads a message, and adds the transactions that it commits.
    async fn read(&mut self, message: &[u8], to: &mut ChangedRows) -> Result<(), String> {
        let new_table = self.tags.read(message).map_err(|_| "its log is malformed".to_owned())?;
        if let Some(table) = new_table {
            let key = self.key(table).await?;
            self.tags.set_key(table, &key);
            self.tags.set_unclear(table, &self.unclear(table).await?);
            let tables = logged(&self.client, &self.follow).await?;
            if tables != *self.tables {
                self.tables = Arc::new(tables);
            }
        }
        let mut committed = self.tags.take();
        join_tags(&mut to.tags, committed.tags);
        to.transactions.append(&mut committed.transactions);
        Ok(())
    }

    /// The columns of the primary key of a table, in its order.
    async fn key(&self, table: u32) -> Result<Vec<String>, String> {
        self.names(KEY, table).await
    }

    /// The columns whose collation takes different texts for equal.
    async fn unclear(&self, table: u32) -> Result<Vec<String>, String> {
        self.names(UNCLEAR, table).await
    }

    async fn names(&self, text: &str, table: u32) -> Result<Vec<String>, String> {
        let rows = timeout(SHORT, self.client.query(text, &[&table])).await.map_err(|_| timed_out())?;
        let rows = rows.map_err(|it| causes(&it))?;
        rows.iter().map(|it| it.try_get(0).map_err(|it| causes(&it))).collect()
    }

    /// Waits until new queries see these transactions: the log has a transaction shortly before that.
    async fn until_visible(&self, transactions: &[u32]) -> Result<(), String> {
        let until = Instant::now() + SHORT;
        loop {
            let row = timeout(SHORT, self.client.query_one(&self.snapshot, &[])).await;
            let row = row.map_err(|_| timed_out())?;
            let snapshot: String = row.and_then(|it| it.try_get(0)).map_err(|it| causes(&it))?;
            let snapshot = VisibleTransactions::parse(&snapshot).ok_or("its snapshot is malformed")?;
            if transactions.iter().all(|it| snapshot.sees(*it)) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err("a committed transaction stays invisible".to_owned());
            }
            sleep(PAUSE).await;
        }
    }
}

/// The turn of this node to follow a database for all nodes of its fleet: a lock of the database, which ends with its session. So the next
/// node has it within a second after this one was killed, and after `PostgresTurn::SILENCE` if this one is stopped or cut off.
pub(crate) struct PostgresTurn(Client);

impl PostgresTurn {
    /// The seconds without a query after which the database ends the session.
    const SILENCE: u32 = 5;

    /// Waits until no other node of `fleet` follows this database with the same settings; `waits` is called as long as one does. Within a
    /// `LocalSet`.
    ///
    /// # Errors
    /// One sentence: the database cannot be reached, so it is not known whether another node follows it.
    pub async fn wait(
        settings: &DatabaseSettings,
        follow: &FollowSettings,
        fleet: u64,
        mut waits: impl FnMut(),
    ) -> Result<Self, String> {
        let client = connect(settings).await?;
        let silence = format!("SET idle_session_timeout = '{}s'", Self::SILENCE);
        let set = timeout(SHORT, client.batch_execute(&silence)).await.map_err(|_| timed_out())?;
        set.map_err(|it| causes(&it))?;
        // Nodes with other settings need other tags.
        let mut lock = DefaultHasher::new();
        (fleet, &settings.name, format!("{follow:?}")).hash(&mut lock);
        let lock = lock.finish().cast_signed();
        loop {
            let row = timeout(SHORT, client.query_one("SELECT pg_try_advisory_lock($1)", &[&lock])).await;
            if get(&row.map_err(|_| timed_out())?.map_err(|it| causes(&it))?, 0)? {
                return Ok(Self(client));
            }
            waits();
            sleep(LOOK).await;
        }
    }
}

/// Keeps a session in use, and ends with a sentence when it is lost.
async fn until_lost(client: &Client) -> String {
    loop {
        sleep(LOOK).await;
        match timeout(SHORT, client.batch_execute("SELECT 1")).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return causes(&error),
            Err(_) => return timed_out(),
        }
    }
}

/// Connects once, has the queries of routes planned, and finds out whether the database can be followed if it is to be. Within a `LocalSet`.
///
/// # Errors
/// One sentence with the remedy.
pub(crate) async fn contact(
    settings: &DatabaseSettings,
    queries: &[Arc<SqlStatement>],
    follow: Option<&FollowSettings>,
) -> Result<(), String> {
    let client = connect(settings).await?;
    for query in queries {
        explain(&client, settings, query).await?;
    }
    let Some(follow) = follow else { return Ok(()) };
    check(&client, settings, follow).await?;
    let slot = slot_name();
    match timeout(SHORT, ReplicationLog::open(settings, &slot, &follow.publication)).await {
        // Transactions are open: that is no fault.
        Ok(Ok(_)) | Err(_) => Ok(()),
        Ok(Err(why)) => Err(format!(
            "{why}; let its pg_hba.conf accept the connection, and increase its max_replication_slots and max_wal_senders"
        )),
    }
}

/// The name of a new slot.
fn slot_name() -> String {
    let random = clock::precise_micros() ^ u64::from(std::process::id()) << 40;
    format!("larder_{random:x}")
}

/// Has the database plan a query, which also verifies the permissions of the user. Nothing is executed.
async fn explain(client: &Client, settings: &DatabaseSettings, query: &SqlStatement) -> Result<(), String> {
    if !query.query.verb.is_empty() && !PLANNED.contains(&&*query.query.verb) {
        return Ok(());
    }
    let types: Vec<_> = types_of(query).iter().map(|it| it.name().to_owned()).collect();
    let (types, nulls) = (types.join(", "), vec!["NULL"; types.len()].join(", "));
    let (types, nulls) = match query.types.is_empty() {
        true => (String::new(), String::new()),
        false => (format!(" ({types})"), format!("({nulls})")),
    };
    let text = &query.query.text;
    let trial = format!(
        "PREPARE larder_trial{types} AS {text}; EXPLAIN EXECUTE larder_trial{nulls}; DEALLOCATE larder_trial"
    );
    let error = match timeout(SHORT, client.batch_execute(&trial)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => return Err(timed_out()),
    };
    let shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
    let why = error.as_db_error().map_or_else(|| causes(&error), |it| it.message().to_owned());
    let is_denied = error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
    let remedy = match (is_denied, query.access) {
        (false, _) => "correct the query, or the tables".to_owned(),
        (true, access) => {
            let user = quoted(client, &settings.place.user).await?;
            let right = if access == SqlAccess::Reads { "SELECT" } else { "SELECT, INSERT, UPDATE, DELETE" };
            format!(
                "run `GRANT {right} ON … TO {user}` with the name of the table, and `GRANT USAGE ON SCHEMA … TO {user}` for a schema"
            )
        }
    };
    Err(format!("the query \"{shown}\" fails: {why}; {remedy}"))
}

/// Opens a connection, which ends when the client is dropped.
async fn connect(settings: &DatabaseSettings) -> Result<Client, String> {
    let connecting = timeout(settings.connect_timeout, super::connect(settings, login(settings))).await;
    let connected = connecting.map_err(|_| "the connection timed out".to_owned());
    let connected = connected.and_then(|it| it.map_err(|it| causes(&it)));
    let remedy = |why: String| match settings.tls.is_some() && why.contains("TLS") {
        true => format!(
            "{why}; set database.tls.ca to the file of its authority, and database.tls.name to a name in its certificate"
        ),
        false => format!("{why}; start it, or correct database.url and database.password"),
    };
    connected.map(|it| it.0).map_err(remedy)
}

/// Whether a database can be followed.
async fn check(client: &Client, settings: &DatabaseSettings, follow: &FollowSettings) -> Result<(), String> {
    let FollowSettings { publication, tables, .. } = follow;
    let text = "SELECT current_setting('wal_level'), \
                (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user), \
                (SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = $1)";
    let row = timeout(SHORT, client.query_one(text, &[publication])).await.map_err(|_| timed_out())?;
    let row = row.map_err(|it| causes(&it))?;
    let level: String = row.try_get(0).map_err(|it| causes(&it))?;
    let may_replicate: Option<bool> = row.try_get(1).map_err(|it| causes(&it))?;
    let publishes_all: Option<bool> = row.try_get(2).map_err(|it| causes(&it))?;
    if level != "logical" {
        return Err(format!(
            "its wal_level is {level}; run `ALTER SYSTEM SET wal_level = logical` as a superuser and restart it"
        ));
    }
    let user = &quoted(client, &settings.place.user).await?;
    if may_replicate != Some(true) {
        return Err(format!("the user {user} may not read its log; run `ALTER ROLE {user} REPLICATION`"));
    }
    let spelled = &quoted(client, publication).await?;
    match publishes_all {
        None => {
            return Err(format!(
                "it has no publication {publication}; run `CREATE PUBLICATION {spelled} FOR TABLE …` with the tables that pages show"
            ));
        }
        Some(false) => {
            return Err(format!(
                "the publication {publication} leaves out kinds of changes; run `ALTER PUBLICATION {spelled} SET (publish = \
                 'insert, update, delete, truncate')`"
            ));
        }
        Some(true) => {}
    }
    let missing = missing_table(client, publication, tables).await?;
    if let Some(it) = missing {
        let table = quoted(client, it).await?;
        return Err(format!(
            "the publication {publication} lacks the table {it}; run `ALTER PUBLICATION {spelled} ADD TABLE {table}`, or, if it is partitioned, \
             `ALTER PUBLICATION {spelled} SET (publish_via_partition_root = true)`; of a view name the tables"
        ));
    }
    let names: Vec<&str> = tables.iter().map(|it| &**it).collect();
    let rows = timeout(SHORT, client.query(CHILDREN, &[&names])).await.map_err(|_| timed_out())?;
    for row in rows.map_err(|it| causes(&it))? {
        let (parent, child): (String, String) = (get(&row, 0)?, get(&row, 1)?);
        if !tables.contains(&*child) {
            return Err(format!(
                "rows of the table {child} are rows of {parent}; name {child} in sql.rows, too"
            ));
        }
    }
    let rows = timeout(SHORT, client.query(RESOLVED, &[&names])).await.map_err(|_| timed_out())?;
    if let Some(row) = rows.map_err(|it| causes(&it))?.into_iter().next() {
        let (table, schema): (String, String) = (get(&row, 0)?, get(&row, 1)?);
        return Err(format!(
            "queries find the table {table} in the schema {schema} (search_path); name {schema}.{table} in sql.rows"
        ));
    }
    logs_partitions(client, &names).await
}

/// Whether the log has the changes of every partition of these tables.
async fn logs_partitions(client: &Client, names: &[&str]) -> Result<(), String> {
    let rows = timeout(SHORT, client.query(UNLOGGED, &[&names])).await.map_err(|_| timed_out())?;
    let Some(row) = rows.map_err(|it| causes(&it))?.into_iter().next() else { return Ok(()) };
    let (table, partition): (String, String) = (get(&row, 0)?, get(&row, 1)?);
    Err(match get(&row, 2)? {
        true => format!(
            "the partition {partition} of {table} is a table of another server, whose changes its log has not; detach it, or remove {table} from sql.rows"
        ),
        false => format!(
            "the partition {partition} of {table} is not in its log; run `ALTER TABLE {partition} SET LOGGED`"
        ),
    })
}

/// The tables that pages show, as they are logged.
async fn logged(client: &Client, follow: &FollowSettings) -> Result<FollowedTables, String> {
    let names: Vec<&str> = follow.tables.iter().map(|it| &**it).collect();
    let rows = timeout(SHORT, client.query(LOGGED, &[&names])).await.map_err(|_| timed_out())?;
    let mut found = FollowedTables::new();
    for row in rows.map_err(|it| causes(&it))? {
        let set = |at| -> Result<_, String> {
            Ok(get::<Vec<String>>(&row, at)?.into_iter().map(String::into_boxed_str))
        };
        let name: String = get(&row, 0)?;
        let table = FollowedTable {
            key: set(1)?.collect(),
            former: set(2)?.collect(),
            compared: set(3)?.filter_map(|it| compared(&it)).collect(),
            remedy: format!("ALTER TABLE {} REPLICA IDENTITY FULL", get::<String>(&row, 4)?).into(),
        };
        found.insert(name.into(), table);
    }
    Ok(found)
}

/// A column with its comparison, from its name and the number of its type.
fn compared(text: &str) -> Option<(Box<str>, KeyClass)> {
    let (name, type_number) = text.rsplit_once(' ')?;
    Some((name.into(), KeyClass::of_column(type_number.parse().ok()?)?))
}

/// A name as a statement needs it, such as `public."Order"`: the database knows its own words.
async fn quoted(client: &Client, name: &str) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in name.split('.') {
        let row = timeout(SHORT, client.query_one("SELECT quote_ident($1)", &[&part])).await;
        let row = row.map_err(|_| timed_out())?;
        parts.push(get::<String>(&row.map_err(|it| causes(&it))?, 0)?);
    }
    Ok(parts.join("."))
}

/// The state of the published tables, for comparison, and the end of the log.
async fn published(client: &Client, publication: &String) -> Result<(String, u64), String> {
    let row = timeout(SHORT, client.query_one(PUBLISHED, &[publication])).await.map_err(|_| timed_out())?;
    let row = row.map_err(|it| causes(&it))?;
    Ok((get(&row, 0)?, get::<i64>(&row, 1)?.cast_unsigned()))
}

fn get<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r tokio_postgres::Row,
    at: usize,
) -> Result<T, String> {
    row.try_get(at).map_err(|it| causes(&it))
}

/// The first of `tables` that is not published as a whole.
async fn missing_table<'t>(
    client: &Client,
    publication: &String,
    tables: &'t BTreeSet<Box<str>>,
) -> Result<Option<&'t str>, String> {
    let text = "SELECT CASE WHEN schemaname = 'public' THEN tablename::text ELSE schemaname || '.' || tablename END \
                FROM pg_publication_tables p WHERE pubname = $1 AND to_jsonb(p) ->> 'rowfilter' IS NULL";
    let rows = timeout(SHORT, client.query(text, &[publication])).await.map_err(|_| timed_out())?;
    let rows = rows.map_err(|it| causes(&it))?;
    let published: Vec<String> =
        rows.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>().map_err(|it| causes(&it))?;
    Ok(tables.iter().map(|it| &**it).find(|it| !published.iter().any(|one| one == it)))
}

fn timed_out() -> String {
    "a query about its state timed out".to_owned()
}

/// The transactions that a query sees.
struct VisibleTransactions {
    /// The first number that is not given yet.
    next: u64,
    /// The transactions in progress.
    open: Vec<u64>,
}

impl VisibleTransactions {
    /// Parses `XMIN:XMAX:XIP,XIP…`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (_, next, open) = (parts.next()?, parts.next()?, parts.next()?);
        let open =
            open.split(',').filter(|it| !it.is_empty()).map(|it| it.parse().ok()).collect::<Option<_>>()?;
        Some(Self { next: next.parse().ok()?, open })
    }

    /// Whether a transaction, of which the log has the lower 32 bits, is visible if it is committed.
    fn sees(&self, transaction: u32) -> bool {
        // Its number is the last one with these bits before `next`, or not much after it.
        let behind = u32::try_from(self.next & 0xffff_ffff).unwrap_or_default().wrapping_sub(transaction);
        let is_given = behind != 0 && behind < 1 << 31;
        is_given && !self.open.iter().any(|it| it & 0xffff_ffff == u64::from(transaction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_transactions_that_were_committed_before() {
        let check = |text: &str, transaction: u32, expect: bool| {
            assert_eq!(
                expect,
                VisibleTransactions::parse(text).unwrap().sees(transaction),
                "{text} {transaction}"
            );
        };
        check("10:20:10,14", 9, true);
        check("10:20:10,14", 10, false);
        check("10:20:10,14", 11, true);
        check("10:20:10,14", 14, false);
        check("10:20:10,14", 19, true);
        check("10:20:10,14", 20, false);
        check("10:20:10,14", 21, false);
        check("10:10:", 9, true);
        // Beyond 32 bits, and around their end.
        check("4294967290:4294967300:4294967297", 4_294_967_295, true);
        check("4294967290:4294967300:4294967297", 1, false);
        check("4294967290:4294967300:4294967297", 3, true);
        check("4294967290:4294967300:4294967297", 4, false);
        for wrong in ["", "1:2", "a:b:c", "1:2:x"] {
            assert!(VisibleTransactions::parse(wrong).is_none(), "{wrong}");
        }
    }
}
