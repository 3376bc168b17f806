//! A million rows: a result is streamed with little memory, and a change of one row purges only its pages. Before a real PostgreSQL and SQLite.

use super::sql::{larder, query};
use super::sql_sqlite::Sqlite;
use crate::harness::postgres::Postgres;
use crate::harness::{Larder, until};

const ROWS: usize = 1_000_000;
/// The most memory that a streamed result takes.
const MOST: u64 = 8 << 20;
const TABLE: &str = "create table users (id int primary key, name text not null, shop int not null)";
const ALL: &str = "select id, name, shop from users";

/// Streams all rows, and calls `first` once the first ones are here; returns the bytes that larder took more at most.
#[allow(clippy::disallowed_methods, reason = "the time of the first byte is printed, not judged")]
fn growth(larder: &Larder, first: impl Fn()) -> u64 {
    let taken = || larder.resident_data() + larder.resident_arena();
    // Buffers of connections to the client and to the database.
    assert!(larder.get("/few").text().contains("\"u1\""));
    let before = taken();
    let mut client = larder.client();
    let asked = std::time::Instant::now();
    client.send("GET /all HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = client.read_raw_head();
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    let (mut rows, mut most, mut chunks) = (0, 0, 0_usize);
    while let Some(chunk) = client.read_chunk() {
        if chunks == 0 {
            println!("the first rows arrive after {} us", asked.elapsed().as_micros());
            first();
        }
        if chunks.is_multiple_of(64) {
            most = most.max(taken());
        }
        rows += chunk.iter().filter(|it| **it == b'{').count();
        chunks += 1;
    }
    assert_eq!(ROWS, rows);
    println!("a million rows take {} KiB more", most.saturating_sub(before) >> 10);
    most.saturating_sub(before)
}

fn routes() -> [(&'static str, String); 2] {
    let limits = format!(", max_rows = {ROWS}, max_bytes = \"1GiB\", timeout = \"1h\"");
    [("/all", query(ALL, &limits)), ("/few", query(&format!("{ALL} where id < 9"), &limits))]
}

#[test]
fn a_million_rows_of_postgresql_take_little_memory_and_one_of_them_purges_its_pages() {
    let rows = format!("insert into users select n, 'u' || n, n % 1000 from generate_series(1, {ROWS}) n");
    let publication = "create publication larder for table users; alter role larder replication";
    let postgres = Postgres::with(
        &["wal_level=logical"],
        &format!(
            "{TABLE}; create index on users (shop); alter table users replica identity full; {rows}; {publication}"
        ),
    );
    let page = |column: &str| {
        let sql = format!("select name from users where {column} = :v order by id");
        let more = format!(", parameters = {{ v = \"path int\" }}, rows = [\"users.{column} = :v\"]");
        format!("cache.default_ttl = \"1d\"\n{}", query(&sql, &more))
    };
    // Rows of a result without a lifetime.
    let [all, few] = routes().map(|(path, sql)| (path, sql.replace(" }", ", rows = [\"users\"] }")));
    let all_routes = [all, few, ("/id/{v}", page("id")), ("/shop/{v}", page("shop"))];
    let lines: Vec<_> = all_routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let larder = larder(&postgres.table("follow.publication = \"larder\""), &lines);
    // The rest of the rows fits in no buffer: the query is running when its first rows are here.
    let running = format!(
        "select count(*) from pg_stat_activity where usename = 'larder' and state = 'active' and query like '{ALL}'"
    );
    let most = growth(&larder, || assert_eq!("1", postgres.sql(&running), "the query has not ended"));
    assert!(most <= MOST, "a million rows take {most} bytes");
    let log = || larder.error_log();
    until("the database is followed", || log().contains("database-followed database="));
    let pages: Vec<String> = (1..=60).flat_map(|it| [format!("/id/{it}"), format!("/shop/{it}")]).collect();
    for page in &pages {
        until("the page is a hit", || larder.get(page).is_hit());
    }
    postgres.sql("update users set name = 'new' where id = 7");
    for page in ["/id/7", "/shop/7"] {
        until("the page has the row", || larder.get(page).text().contains("\"new\""));
    }
    for page in pages.iter().filter(|it| !it.ends_with("/7")) {
        assert!(larder.get(page).is_hit(), "{page} does not show the row");
    }
}

#[test]
fn a_million_rows_of_sqlite_take_little_memory() {
    let rows = format!(
        "insert into users with recursive c(n) as (select 1 union all select n + 1 from c where n < {ROWS}) \
         select n, 'u' || n, n % 1000 from c"
    );
    let sqlite = Sqlite::new(&format!("{TABLE}; begin; {rows}; commit"));
    let routes = routes();
    let lines: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let most = growth(&larder(&sqlite.table(""), &lines), || {});
    assert!(most <= MOST, "a million rows take {most} bytes");
}
