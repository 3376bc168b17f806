//! Pages that follow a database, after a larder that was killed while it followed: those on its disk show no former row, and the database
//! keeps nothing for it. Before a real PostgreSQL and a real MariaDB.

use crate::harness::mariadb::MariaDb;
use crate::harness::postgres::Postgres;
use crate::harness::tiers::{disk, killed, written};
use crate::harness::{Larder, until};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const TABLE: &str = "create table users (id int primary key, name varchar(40) not null, n int not null)";
/// Pages of rows, and one without rows, which shows that the disk is read.
const PAGES: usize = 20;
const KILLS: usize = 3;

fn page(id: usize) -> String {
    format!("/user/{id}")
}

fn larder(database: &str, folder: &Path) -> Larder {
    let route = |path: &str, more: &str| {
        format!(
            "[[site.route]]\npath = \"{path}/{{id}}\"\nsql = {{ query = \"select name, n from users where id = :id\", \
             parameters = {{ id = \"path int\" }}{more} }}\n"
        )
    };
    let routes = [route("/user", ", rows = [\"users.id = :id\"]"), route("/plain", "")].concat();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n{database}\n[cache]\ndefault_ttl = \"1d\"\n{}[log]\nerror = \"error.log\"\n[[site]]\n\
         hosts = [\"*\"]\n{routes}",
        disk(folder)
    ))
}

fn is_followed(larder: &Larder) {
    until("the database is followed", || larder.error_log().contains("database-followed database="));
}

/// Changes rows until `end`, 1000 times at most: one at a time and several in a transaction, and counts the rounds.
fn change(sql: &impl Fn(&str) -> String, end: &AtomicBool, rounds: &AtomicUsize) {
    for round in (0..1000).take_while(|_| !end.load(Ordering::Relaxed)) {
        sql(&format!(
            "update users set n = n + 1 where id = {}; begin; update users set n = n + 1 where id % 3 = {}; commit",
            round % PAGES,
            round % 3
        ));
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// The first response with a page has its row as it is now.
fn has_its_row(larder: &Larder, sql: &impl Fn(&str) -> String, id: usize, kills: usize) {
    let row = sql(&format!("select n from users where id = {id}"));
    let response = larder.get(&page(id));
    let text = response.text();
    assert!(
        text.contains(&format!("\"n\":{row}}}")),
        "n is {row} of {id} after {kills} kills: {response:?} {text}"
    );
}

/// Kills larder in the middle of changes, which go on without it, and starts it again on the same disk: the first response with each page
/// has the row of now.
fn is_killed(database: &str, sql: &(impl Fn(&str) -> String + Sync), after: impl Fn()) {
    let folder = tempfile::tempdir().unwrap();
    let mut former = None;
    for kill in 0..=KILLS {
        let larder = larder(database, folder.path());
        // The same query without declared rows shows that the disk has pages with former rows.
        let plain = larder.get("/plain/1");
        assert_eq!(kill > 0, plain.is_hit());
        assert_eq!(former.get_or_insert_with(|| plain.text()), &plain.text());
        for id in 0..PAGES {
            has_its_row(&larder, sql, id, kill);
        }
        is_followed(&larder);
        for id in 0..PAGES {
            until("the page is a hit", || larder.get(&page(id)).is_hit());
        }
        written(&larder, PAGES as u64);
        let (end, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| change(sql, &end, &rounds));
            let go_on = || {
                let then = rounds.load(Ordering::Relaxed);
                until("changes go on", || rounds.load(Ordering::Relaxed) >= then + 3);
            };
            go_on();
            killed(larder);
            go_on();
            end.store(true, Ordering::Relaxed);
        });
        after();
    }
}

#[test]
fn a_larder_killed_while_it_follows_postgresql_serves_no_former_rows_from_its_disk() {
    let postgres = Postgres::with(
        &["wal_level=logical"],
        &format!(
            "{TABLE}; insert into users select id, 'u', 0 from generate_series(0, {PAGES}) id; \
             create publication larder for table users; alter role larder replication"
        ),
    );
    let table = postgres.table("follow.publication = \"larder\"");
    is_killed(&table, &|it| postgres.sql(it), || {
        until("its slot is gone", || postgres.sql("select count(*) from pg_replication_slots") == "0");
    });
}

#[test]
fn a_larder_killed_while_it_follows_mariadb_serves_no_former_rows_from_its_disk() {
    let maria = MariaDb::with(
        &["--log-bin=bin", "--binlog-format=ROW", "--server-id=7"],
        &format!(
            "{TABLE}; insert into users select seq, 'u', 0 from seq_0_to_{PAGES}; \
             grant replication slave, replication client on *.* to larder"
        ),
    );
    let dumps = "select count(*) from information_schema.processlist where command like 'Binlog Dump%'";
    is_killed(&maria.table("follow.binlog = true"), &|it| maria.sql(&format!("use shop; {it}")), || {
        until("no connection reads the log", || maria.sql(dumps) == "0");
    });
}
