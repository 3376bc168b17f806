//! Pages that follow a database whose network is cut, and those of partitioned tables: before a real PostgreSQL and a real MariaDB.

use crate::harness::mariadb::MariaDb;
use crate::harness::postgres::Postgres;
use crate::harness::relay::{Relay, Way};
use crate::harness::{Larder, until};

/// Users, and events in partitions by their months.
const USERS: &str = "create table users (id int primary key, name varchar(40) not null)";
const ROWS: &str = "insert into users values (7, 'u7'), (8, 'u8'); insert into events values (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')";

fn postgres(more: &str) -> Postgres {
    let parts = "create table events_1 partition of events for values in (1); \
        create table events_2 partition of events for values in (2); \
        create table events_3 partition of events default";
    let events = "create table events (id int, month int, name text, primary key (id, month)) partition by list (month)";
    let publication = format!("create publication larder for table users, events{more}");
    Postgres::with(
        &["wal_level=logical"],
        &format!("{USERS}; {events}; {parts}; {ROWS}; {publication}; alter role larder replication"),
    )
}

const BY_ROOT: &str = " with (publish_via_partition_root = true)";

fn mariadb() -> MariaDb {
    let events = "create table events (id int, month int, name varchar(40), primary key (id, month)) partition by list (month) \
        (partition p1 values in (1), partition p2 values in (2), partition p3 default)";
    let grant = "grant replication slave, replication client on *.* to larder";
    let settings = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=7"];
    MariaDb::with(&settings, &format!("{USERS}; {events}; {ROWS}; {grant}"))
}

fn larder(database: &str) -> Larder {
    let route = |table: &str, column: &str| {
        format!(
            "[[site.route]]\npath = \"/{table}/{column}/{{v}}\"\nsql = {{ query = \"select id, name from {table} where {column} = :v order by id\", \
             parameters = {{ v = \"path int\" }}, rows = [\"{table}.{column} = :v\"] }}\n"
        )
    };
    let routes = [route("users", "id"), route("events", "id"), route("events", "month")].concat();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n{database}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n[[site]]\n\
         hosts = [\"*\"]\n{routes}"
    ))
}

fn is_followed(larder: &Larder, times: usize) {
    until("the database is followed", || {
        larder.error_log().matches("database-followed database=").count() >= times
    });
}

fn has(larder: &Larder, target: &str, text: &str) {
    until(&format!("{target} has {text}"), || {
        let response = larder.get(target);
        response.status == 200 && response.text().contains(text)
    });
}

fn warm(larder: &Larder, targets: &[&str]) {
    for target in targets {
        until("the page is a hit", || larder.get(target).is_hit());
    }
}

/// The network is silent, and then broken: the former row is soon served no more, and the new one is after that.
fn is_cut(database: &str, relay: &Relay, sql: impl Fn(&str)) -> Larder {
    let larder = larder(database);
    for (round, way) in [Way::Silent, Way::Dropped].into_iter().enumerate() {
        let (former, new) = (format!("former{round}"), format!("new{round}"));
        is_followed(&larder, round + 1);
        sql(&format!("update users set name = '{former}' where id = 7"));
        has(&larder, "/users/id/7", &former);
        warm(&larder, &["/users/id/7", "/users/id/8"]);
        relay.set(way);
        sql(&format!("update users set name = '{new}' where id = 7"));
        until("the former row is served no more", || {
            let response = larder.get("/users/id/7");
            response.status >= 500 && !response.text().contains(&former)
        });
        relay.set(Way::Open);
        has(&larder, "/users/id/7", &new);
    }
    is_followed(&larder, 3);
    warm(&larder, &["/users/id/7"]);
    sql("update users set name = 'seen' where id = 7");
    has(&larder, "/users/id/7", "seen");
    larder
}

/// The larder gives up a silent connection early; it begins connections within this time also on a busy machine.
const TIMES: &str = "connect_timeout = \"5s\"\n";

#[test]
fn a_cut_network_to_postgresql_shows_no_former_rows() {
    let postgres = postgres(BY_ROOT);
    let relay = Relay::to(postgres.socket().join(".s.PGSQL.5432"));
    let folder = tempfile::tempdir().unwrap();
    let socket = relay.name().replacen("unix:", "", 1);
    std::os::unix::fs::symlink(socket, folder.path().join(".s.PGSQL.5432")).unwrap();
    let table = postgres.table(&format!("{TIMES}follow.publication = \"larder\""));
    let through =
        table.replace(&postgres.socket().display().to_string(), &folder.path().display().to_string());
    let larder = is_cut(&through, &relay, |it| {
        postgres.sql(it);
    });
    let slots = || postgres.sql("select count(*) from pg_replication_slots");
    until("the slots of lost connections are gone", || slots() == "1");
    drop(larder);
    until("no slot outlives larder", || slots() == "0");
}

#[test]
fn a_cut_network_to_mariadb_shows_no_former_rows() {
    let maria = mariadb();
    let relay = Relay::to(maria.socket());
    let table = maria.table(&format!("{TIMES}follow.binlog = true"));
    let through =
        table.replace(&maria.socket().display().to_string(), &relay.name().replacen("unix:", "", 1));
    is_cut(&through, &relay, |it| {
        maria.sql(&format!("use shop; {it}"));
    });
}

/// Changes of rows in partitions, a row that moves to another partition, and an emptied partition.
fn is_partitioned(larder: &Larder, sql: impl Fn(&str), empty: &str) {
    is_followed(larder, 1);
    let pages = [
        "/events/id/1",
        "/events/id/2",
        "/events/id/3",
        "/events/month/1",
        "/events/month/2",
        "/events/month/3",
    ];
    // The columns of a table are known from its first change on.
    sql("update events set name = 'first' where id = 1");
    has(larder, "/events/id/1", "first");
    warm(larder, &pages);
    sql("update events set name = 'second' where id = 1");
    has(larder, "/events/id/1", "second");
    has(larder, "/events/month/1", "second");
    assert!(larder.get("/events/id/2").is_hit() && larder.get("/events/id/3").is_hit(), "other rows");
    warm(larder, &pages);
    sql("update events set month = 2 where id = 1");
    has(larder, "/events/month/2", "second");
    until("the row left its partition", || larder.get("/events/month/1").text().trim() == "[]");
    assert!(larder.get("/events/id/3").is_hit(), "another row");
    warm(larder, &pages);
    sql(empty);
    until("the partition is empty", || larder.get("/events/month/2").text().trim() == "[]");
    until("its row is gone", || larder.get("/events/id/2").text().trim() == "[]");
    has(larder, "/events/id/3", "three");
}

#[test]
fn rows_of_partitions_of_postgresql_are_rows_of_their_table() {
    let postgres = postgres(BY_ROOT);
    let larder = larder(&postgres.table("follow.publication = \"larder\""));
    let sql = |it: &str| {
        postgres.sql(it);
    };
    is_partitioned(&larder, sql, "truncate events_2");
    is_followed(&larder, 2);
    warm(&larder, &["/events/id/3", "/events/month/3"]);
    sql("alter table events detach partition events_3");
    until("the rows of a detached partition are gone", || {
        larder.get("/events/id/3").text().trim() == "[]"
            && larder.get("/events/month/3").text().trim() == "[]"
    });
}

#[test]
fn partitions_that_are_published_by_their_own_names_are_an_obstacle() {
    let postgres = postgres("");
    let larder = larder(&postgres.table("follow.publication = \"larder\""));
    until("the obstacle is logged", || larder.error_log().contains("database-not-followed"));
    assert!(larder.error_log().contains("SET (publish_via_partition_root = true)"), "{}", larder.error_log());
    postgres.sql("alter publication larder set (publish_via_partition_root = true)");
    is_followed(&larder, 1);
}

#[test]
fn rows_of_partitions_of_mariadb_are_rows_of_their_table() {
    let maria = mariadb();
    let larder = larder(&maria.table("follow.binlog = true"));
    let sql = |it: &str| {
        maria.sql(&format!("use shop; {it}"));
    };
    is_partitioned(&larder, sql, "alter table events truncate partition p2");
}
