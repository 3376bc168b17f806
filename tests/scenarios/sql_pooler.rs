//! Queries of routes through a real pgbouncer in transaction mode: `prepare = "never"`.

use super::sql::{larder, post, query};
use crate::harness::Larder;
use crate::harness::pgbouncer::PgBouncer;
use crate::harness::postgres::Postgres;
use std::collections::HashSet;

/// Two connections to the database carry the queries of many of larder's.
#[test]
fn queries_share_the_connections_of_a_pooler() {
    let postgres = Postgres::start("create table t (id int, name text); insert into t values (1, 'a')");
    let pooler = PgBouncer::start(&postgres, 2);
    let who = ", parameters = { id = \"path int\" }";
    let insert = ", parameters = { id = \"body int\" }, write = true";
    let larder = larder(
        &pooler.table("prepare = \"never\"\nmax_connections = 8"),
        &[
            (
                "/who/{id}",
                &query("select pg_backend_pid() as pid, :id as id, pg_sleep(0.05)::text as s", who),
            ),
            ("/t/{id}", &query("select name from t where id = :id", who)),
            ("/add", &query("insert into t values (:id, 'b') returning id", insert)),
            ("/writes", &query("with a as (insert into t values (3) returning 1) select * from a", "")),
        ],
    );
    let shared = std::thread::scope(|scope| {
        let larder = &larder;
        let one = |id: usize| scope.spawn(move || (id, rows_of(larder, id)));
        let all: Vec<_> = (0..16).map(one).collect();
        all.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    let mut processes = HashSet::new();
    for (id, rows) in shared {
        assert_eq!(id as u64, rows[0]["id"], "each has its own parameter: {rows}");
        processes.insert(rows[0]["pid"].as_u64().unwrap());
    }
    assert!((1..=2).contains(&processes.len()), "{processes:?}");
    for id in 7..17 {
        let answer = post(&larder, "/add", "application/json", &format!("{{\"id\":{id}}}"));
        assert_eq!((200, format!("[{{\"id\":{id}}}]")), (answer.status, answer.text()));
        assert_eq!("[{\"name\":\"b\"}]", larder.get(&format!("/t/{id}")).text());
        assert_eq!(502, larder.get("/writes").status, "the others stay read-only");
    }
    // No query is cancelled here: pgbouncer 1.18 ends after some of these requests ("bad client state: 0").
    assert_eq!("11", postgres.sql("select count(*) from t"));
}

fn rows_of(larder: &Larder, id: usize) -> serde_json::Value {
    let answer = larder.get(&format!("/who/{id}"));
    serde_json::from_str(&answer.text()).unwrap_or_else(|it| panic!("{it}: {answer:?}"))
}
