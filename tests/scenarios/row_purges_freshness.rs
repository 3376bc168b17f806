//! The time from the end of a COMMIT at its client to the first response with the new row, before a real PostgreSQL, MariaDB and SQLite: printed, not
//! judged. `LARDER_FRESHNESS=500` changes more rows than `make test`.

use super::sql_sqlite::Sqlite;
use crate::harness::mariadb::MariaDb;
use crate::harness::postgres::Postgres;
use crate::harness::{Larder, TIMEOUT, until};
use std::time::Instant;

const ROWS: usize = 10_000;

fn changes() -> usize {
    std::env::var("LARDER_FRESHNESS").map_or(20, |it| it.parse().unwrap())
}

fn larder(database: &str) -> Larder {
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n[[site]]\n\
         hosts = [\"*\"]\n[[site.route]]\npath = \"/user/{{id}}\"\nsql = {{ query = \"select name from users where id = :id\", \
         parameters = {{ id = \"path int\" }}, rows = [\"users.id = :id\"] }}\n"
    ));
    let log = || larder.error_log();
    until("the database is followed", || log().contains("database-followed database="));
    larder
}

/// Changes one row after another; `commit` returns once its statement is committed. Prints the median and the slowest of a hundred.
#[allow(clippy::disallowed_methods, reason = "the time is printed, not judged")]
fn measure(name: &str, database: &str, mut commit: impl FnMut(&str)) -> Larder {
    let larder = larder(database);
    let (mut client, mut times) = (larder.client(), Vec::new());
    for change in 0..changes() {
        let (id, text) = (1 + change * 7919 % ROWS, format!("new{change}"));
        until("the page is a hit", || client.get(&format!("/user/{id}")).is_hit());
        commit(&format!("update users set name = '{text}' where id = {id}"));
        let committed = Instant::now();
        while !client.get(&format!("/user/{id}")).text().contains(&format!("\"{text}\"")) {
            assert!(committed.elapsed() < TIMEOUT, "the former row is still served: {id}");
        }
        times.push(committed.elapsed());
    }
    times.sort();
    let of = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    println!("{name}: {} changes, median {:.1} ms, 99 % {:.1} ms", times.len(), of(50), of(99));
    larder
}

#[test]
fn the_time_from_commit_to_a_new_page_with_postgresql() {
    let postgres = Postgres::with(
        &["wal_level=logical"],
        &format!(
            "create table users (id int primary key, name text not null); \
             insert into users select id, 'u' from generate_series(1, {ROWS}) id; \
             create publication larder for table users; alter role larder replication"
        ),
    );
    let mut session = postgres.session();
    let larder =
        measure("PostgreSQL", &postgres.table("follow.publication = \"larder\""), |it| session.run(it));
    let last = 1 + changes() * 7919 % ROWS;
    until("the page is a hit", || larder.get(&format!("/user/{last}")).is_hit());
    session.run("update users set name = 'other' where id = 1");
    until("the other page is new", || larder.get("/user/1").text().contains("other"));
    assert!(larder.get(&format!("/user/{last}")).is_hit(), "a page of another row");
}

#[test]
fn the_time_from_commit_to_a_new_page_with_mariadb() {
    let maria = MariaDb::with(
        &["--log-bin=bin", "--binlog-format=ROW", "--server-id=7"],
        &format!(
            "create table users (id int primary key, name varchar(40) not null); \
             insert into users select seq, 'u' from seq_1_to_{ROWS}; \
             grant replication slave, replication client on *.* to larder"
        ),
    );
    let mut session = maria.session();
    measure("MariaDB", &maria.table("follow.binlog = true"), |it| session.run(it));
}

#[test]
fn the_time_from_commit_to_a_new_page_with_sqlite() {
    let sqlite = Sqlite::new("create table users (id integer primary key, name text not null)");
    sqlite.run(&format!(
        "with recursive n(id) as (select 1 union all select id + 1 from n where id < {ROWS}) insert into users select id, 'u' from n"
    ));
    measure("SQLite", &sqlite.table("follow.interval = \"20ms\""), |it| sqlite.run(it));
}
