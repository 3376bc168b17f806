//! Queries that fail: each failure has its status and its sentence in the log, no client learns the sentence, and nothing of it is stored. Before a real
//! PostgreSQL and a real MariaDB.

use super::sql::{larder, query};
use crate::harness::mariadb::MariaDb;
use crate::harness::postgres::Postgres;
use crate::harness::{Larder, until};

const CACHED: &str = "\ncache = { default_ttl = \"1d\" }";

/// A larder with pages of a table `t`, of a column that is missing, and of a result that takes longer than the test.
fn pages(database: &str, long: &str) -> Larder {
    let page = |sql: &str, more: &str| query(sql, more) + CACHED;
    let row = page("select name from t where id = :id", ", parameters = { id = \"path int\" }");
    let routes = [
        ("/t/{id}", row),
        ("/lost", page("select lost from t", "")),
        ("/long", page(long, ", max_rows = 1000000, max_bytes = \"1GiB\", timeout = \"1h\"")),
    ];
    let routes: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    larder(database, &routes)
}

/// A page fails with this sentence in the log, and is made and stored after the repair.
fn fails(larder: &Larder, target: &str, why: &str, repair: impl FnOnce()) {
    // The log has a failure of a database once a second.
    larder.pass(2000);
    for _ in 0..2 {
        let answer = larder.get(target);
        assert_eq!(
            (502, true, false),
            (answer.status, answer.complete, answer.is_hit()),
            "{target}: {answer:?}"
        );
        assert!(!answer.text().contains(why), "{target}: {}", answer.text());
    }
    let log = larder.error_log();
    assert!(log.lines().any(|it| it.contains("database-failed") && it.contains(why)), "{why}: {log}");
    repair();
    until("the page is stored after the repair", || {
        let answer = larder.get(target);
        answer.status == 200 && answer.is_hit()
    });
}

fn a_type_that_does_not_fit(larder: &Larder) {
    let before = larder.counter("database_queries");
    for value in ["x", "1.5", "99999999999"] {
        let answer = larder.get(&format!("/t/{value}"));
        let text = answer.text();
        assert_eq!(400, answer.status, "{value}: {text}");
        assert!(text.contains("id") && text.contains("must be an integer"), "{value}: {text}");
    }
    assert_eq!(before, larder.counter("database_queries"), "the database is not asked");
}

/// A database that ends within a result: the response ends before its body does, and is not stored.
fn is_cut(larder: &Larder, kill: impl FnOnce(), start_again: impl FnOnce(), is_asked: impl Fn() -> bool) {
    let mut client = larder.client();
    client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.read_raw_head().starts_with(b"HTTP/1.1 200"));
    kill();
    let rest = client.read_bytes(1 << 30);
    assert!(!rest.ends_with(b"0\r\n\r\n") && !rest.contains(&b']'), "it shows that it is cut");
    fails(larder, "/t/1", "the database cannot be reached", start_again);
    let mut client = larder.client();
    client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the database is asked again", is_asked);
}

#[test]
fn failures_of_postgresql_have_their_errors_and_are_not_stored() {
    let mut postgres =
        Postgres::start("create table t (id int, name text); insert into t values (1, 'a'), (2, 'b')");
    let long =
        "select n, repeat('x', 20000) as a, pg_sleep(0.02)::text as b from generate_series(1, 100000) n";
    let larder = pages(&postgres.table(""), long);
    a_type_that_does_not_fit(&larder);
    fails(&larder, "/lost", "lost\\\" does not exist", || {
        postgres.sql("alter table t add lost int");
    });
    let password = |it: &str| {
        postgres.sql(&format!("alter role larder password '{it}'"));
        postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'larder'");
    };
    password("other");
    fails(&larder, "/t/2", "the database rejected the login", || password("geheim"));
    let place = std::cell::RefCell::new(&mut postgres);
    is_cut(
        &larder,
        || place.borrow_mut().kill(),
        || place.borrow_mut().start_again(),
        || place.borrow().running() == 1,
    );
}

#[test]
fn failures_of_mariadb_have_their_errors_and_are_not_stored() {
    let mut maria =
        MariaDb::start("create table t (id int, name text); insert into t values (1, 'a'), (2, 'b')");
    let long = "select seq, repeat('x', 20000) as a, sleep(0.02) as b from seq_1_to_100000";
    let larder = pages(&maria.table(""), long);
    a_type_that_does_not_fit(&larder);
    fails(&larder, "/lost", "Unknown column 'lost'", || {
        maria.sql("alter table shop.t add lost int");
    });
    let password = |it: &str| {
        maria.sql(&format!("alter user larder identified by '{it}'; kill user larder"));
    };
    password("other");
    fails(&larder, "/t/2", "the database rejected the login", || password("geheim"));
    let place = std::cell::RefCell::new(&mut maria);
    is_cut(
        &larder,
        || place.borrow_mut().kill(),
        || place.borrow_mut().start_again(),
        || place.borrow().running() == 1,
    );
}
