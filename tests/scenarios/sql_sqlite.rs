//! Queries of routes before a file of SQLite: types, limits, cancellation, writing, and a file that is replaced.

use super::sql::{larder, post, query, raw};
use crate::harness::{Larder, until};
use rusqlite::Connection;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A file of SQLite in a folder of its own.
pub(super) struct Sqlite {
    folder: tempfile::TempDir,
    connection: Connection,
}

impl Sqlite {
    pub(super) fn new(statements: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("shop.db")).unwrap();
        let _: String = connection.query_row("pragma journal_mode = wal", [], |it| it.get(0)).unwrap();
        let it = Self { folder, connection };
        it.run(statements);
        it
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    pub(super) fn run(&self, statements: &str) {
        self.connection.execute_batch(statements).unwrap();
    }

    fn number(&self, query: &str) -> i64 {
        self.connection.query_row(query, [], |it| it.get(0)).unwrap()
    }

    pub(super) fn table(&self, more: &str) -> String {
        table(&self.path(), more)
    }
}

fn table(path: &Path, more: &str) -> String {
    format!("[[database]]\nname = \"lite\"\nurl = \"sqlite:{}\"\n{more}\n", path.display())
}

/// The threads of SQLite in a larder: one for each connection.
fn threads(larder: &Larder) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", larder.pid())).unwrap();
    let name = |it: std::fs::DirEntry| std::fs::read_to_string(it.path().join("comm")).unwrap_or_default();
    tasks.flatten().filter(|it| it.path().exists()).map(name).filter(|it| it.trim() == "sqlite").count()
}

/// Whether a query has used the processor for longer than it takes to open a file (proc_pid_stat(5): hundredths of a second).
fn computes(larder: &Larder) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", larder.pid())).unwrap();
    let stat = |it: std::fs::DirEntry| std::fs::read_to_string(it.path().join("stat")).unwrap_or_default();
    tasks.flatten().map(stat).filter_map(|it| it.split_once("(sqlite) ").map(|it| it.1.to_owned())).any(
        |it| {
            let fields: Vec<&str> = it.split(' ').collect();
            fields[0] == "R" && fields[11].parse::<u64>().unwrap() >= 5
        },
    )
}

/// A query without an end, and without rows.
const ENDLESS: &str =
    "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) as n from c";
/// A query with rows without an end.
const ROWS: &str = "with recursive c(n) as (select 1 union all select n + 1 from c) \
                    select n, hex(zeroblob(2000)) as a from c";

#[test]
fn types_formats_and_parameters() {
    let sqlite = Sqlite::new(
        "create table t (id integer primary key, big bigint, price decimal(9, 2), ok boolean, at datetime, doc json, data blob, \
         name text, ratio real); insert into t values (1, 9007199254740993, 12.50, 1, '2026-01-31 10:00:00', '{\"a\": 1.10}', x'00ff', \
         'a,b\"', 1), (2, null, null, 0, null, null, null, null, 9e999)",
    );
    let large = "select 9007199254740993 as n";
    let bound = ", parameters = { i = \"query int\", d = \"query decimal\", b = \"query bool\", t = \"query timestamp\", s = \"query text?\" }";
    let routes = [
        ("/json", query("select * from t order by id", "")),
        ("/csv", query("select id, name from t order by id", ", format = \"csv\"")),
        ("/large", query(large, "")),
        ("/large/json", query(large, ", numbers = \"json\"")),
        (
            "/one",
            query("select id from t where id = :id", ", parameters = { id = \"query int\" }, one_row = true"),
        ),
        (
            "/bound",
            query(
                "select :i + 1 as i, 12.5 = cast(:d as numeric) as d, :b as b, :t as t, :s as s, typeof(:i) as k",
                bound,
            ),
        ),
        ("/text", query("select cast(x'ff' as text) as a", "")),
    ];
    let routes: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let larder = larder(&sqlite.table(""), &routes);
    let text = |target: &str| larder.get(target).text();
    for _ in 0..2 {
        let expect = "[{\"id\":1,\"big\":\"9007199254740993\",\"price\":\"12.5\",\"ok\":true,\"at\":\"2026-01-31 10:00:00\",\
                      \"doc\":{\"a\": 1.10},\"data\":\"AP8=\",\"name\":\"a,b\\\"\",\"ratio\":1.0},\
                      {\"id\":2,\"big\":null,\"price\":null,\"ok\":false,\"at\":null,\"doc\":null,\"data\":null,\"name\":null,\
                      \"ratio\":null}]";
        assert_eq!(expect, text("/json"));
    }
    assert_eq!("id,name\r\n1,\"a,b\"\"\"\r\n2,\r\n", text("/csv"));
    assert_eq!(502, larder.get("/large").status);
    until("the log names the column", || {
        larder.error_log().contains("a value of column \\\"n\\\" is beyond 2^53")
    });
    assert_eq!("[{\"n\":9007199254740993}]", text("/large/json"));
    assert_eq!(("{\"id\":2}".to_owned(), 404), (text("/one?id=2"), larder.get("/one?id=3").status));
    let target = "/bound?i=1&d=12.50&b=true&t=2026-01-31T12:00:00%2b02:00&s='%20or%201=1";
    let expect =
        "[{\"i\":2,\"d\":1,\"b\":1,\"t\":\"2026-01-31 10:00:00\",\"s\":\"' or 1=1\",\"k\":\"integer\"}]";
    assert_eq!(expect, text(target));
    assert_eq!(502, larder.get("/text").status);
    assert_eq!(400, larder.get("/one?id=x").status);
}

#[test]
fn reading_is_all_that_a_query_may() {
    let sqlite = Sqlite::new(
        "create table t (id integer primary key, name text not null); insert into t values (1, 'a')",
    );
    let other = sqlite.folder.path().join("other.db");
    let name = other.display();
    let insert = query(
        "insert into t (name) values (:name) returning id, name",
        ", parameters = { name = \"body text?\" }, write = true, one_row = true",
    );
    let routes = [
        ("/with", query("with a as (select 1) insert into t select 2, 'b' from a", "")),
        ("/attach", query(&format!("attach '{name}' as other"), "")),
        ("/vacuum", query(&format!("vacuum into '{name}'"), "")),
        ("/pragma", query("pragma user_version = 7", "")),
        ("/list", query("select name from t order by id", "")),
        ("/new", insert),
        ("/gone", query("delete from t", ", write = true")),
    ];
    let routes: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let larder = larder(&sqlite.table(""), &routes);
    for target in ["/with", "/attach", "/vacuum", "/pragma"] {
        let answer = larder.get(target);
        assert_eq!(502, answer.status, "{target}");
        assert!(!answer.text().contains("readonly"));
    }
    assert!(!other.exists(), "no other file is made");
    assert_eq!((1, 0), (sqlite.number("select count(*) from t"), sqlite.number("pragma user_version")));
    let made = post(&larder, "/new", "application/json", "{\"name\":\"b'); drop table t; --\"}");
    assert_eq!((200, "{\"id\":2,\"name\":\"b'); drop table t; --\"}"), (made.status, &*made.text()));
    assert_eq!(2, sqlite.number("select count(*) from t"), "it is committed");
    assert_eq!(502, post(&larder, "/new", "application/json", "{}").status, "a name is demanded");
    assert_eq!("[{\"name\":\"a\"},{\"name\":\"b'); drop table t; --\"}]", larder.get("/list").text());
    assert_eq!(204, post(&larder, "/gone", "application/json", "{}").status);
    assert_eq!("[]", larder.get("/list").text());
    sqlite.run("insert into t values (7, 'c')");
    assert_eq!("[{\"name\":\"c\"}]", larder.get("/list").text(), "no transaction stays open");
    // Another program writes: a query that writes waits for its own timeout.
    sqlite.run("begin immediate; insert into t values (8, 'd')");
    assert_eq!("[{\"name\":\"c\"}]", larder.get("/list").text(), "readers do not wait");
    sqlite.run("commit");
    assert_eq!(204, post(&larder, "/gone", "application/json", "{}").status);
}

#[test]
fn limits_and_clients_that_leave() {
    let sqlite = Sqlite::new("");
    let slow = query(ENDLESS, ", timeout = \"200ms\"");
    let long = query(ENDLESS, ", timeout = \"1h\"");
    let rows = query(ROWS, ", timeout = \"1h\", max_rows = 1000000000, max_bytes = \"1TiB\"");
    let few = query(ROWS, ", max_rows = 100") + "\ncache = { default_ttl = \"60s\" }";
    let bytes = query(ROWS, ", max_bytes = \"64KiB\"") + "\ncache = { default_ttl = \"60s\" }";
    let trickle = query(
        "with recursive c(n) as (select 1 union all select n + 1 from c) select n from c where n % 100000 = 1",
        ", timeout = \"1h\"",
    );
    let larder = larder(
        &sqlite.table("max_connections = 2"),
        &[
            ("/slow", &slow),
            ("/long", &long),
            ("/rows", &rows),
            ("/few", &few),
            ("/bytes", &bytes),
            ("/trickle", &trickle),
            ("/quick", &query("select 1 as a", "")),
        ],
    );
    assert_eq!(504, larder.get("/slow").status);
    for _ in 0..2 {
        for target in ["/few", "/bytes"] {
            let cut = larder.get(target);
            assert_eq!((200, false), (cut.status, cut.complete), "{target} is cut");
        }
    }
    for target in ["/long", "/rows", "/trickle"] {
        until("no query runs", || !computes(&larder));
        let before = larder.counter("database_cancelled");
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        if target == "/long" {
            until("it runs", || computes(&larder));
        } else {
            // The first rows arrive while the query runs.
            client.read_raw_head();
        }
        drop(client);
        until(&format!("{target} is cancelled"), || larder.counter("database_cancelled") > before);
        until("its thread ends", || threads(&larder) == 0);
    }
    assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    assert_eq!(1, threads(&larder), "the connection is kept");
}

#[test]
fn a_file_that_is_missing_or_replaced() {
    let sqlite = Sqlite::new("create table t (a text); insert into t values ('old')");
    let path = sqlite.folder.path().join("other.db");
    let larder = larder(&table(&path, ""), &[("/t", &query("select a from t", ""))]);
    assert_eq!(502, larder.get("/t").status);
    assert!(!path.exists(), "no file is made");
    std::fs::write(
        &path,
        "no database, but a text that is longer than the head of a file of SQLite is. ".repeat(9),
    )
    .unwrap();
    assert_eq!(502, larder.get("/t").status);
    let replace = |text: &str| {
        let next = sqlite.folder.path().join("next.db");
        let new = Connection::open(&next).unwrap();
        new.execute_batch(&format!("create table t (a text); insert into t values ('{text}')")).unwrap();
        new.close().unwrap();
        std::fs::rename(next, &path).unwrap();
    };
    for text in ["one", "two"] {
        replace(text);
        assert_eq!(format!("[{{\"a\":\"{text}\"}}]"), larder.get("/t").text());
    }
}

#[test]
fn a_schema_that_changes_between_two_queries() {
    let sqlite = Sqlite::new("create table t (id int, a text, b text); insert into t values (1, 'x', 'y')");
    let routes = [("/t", query("select * from t where id = :id", ", parameters = { id = \"query int\" }"))];
    let routes: Vec<(&str, &str)> = routes.iter().map(|it| (it.0, &*it.1)).collect();
    let larder = larder(&sqlite.table("max_connections = 1"), &routes);
    let rows = || larder.get("/t?id=1").text();
    assert_eq!(r#"[{"id":1,"a":"x","b":"y"}]"#, rows());
    let swapped = "alter table t rename a to c; alter table t rename b to a; alter table t rename c to b";
    sqlite.run(swapped);
    assert_eq!(r#"[{"id":1,"b":"x","a":"y"}]"#, rows(), "each value has the name of its column");
    sqlite.run("alter table t drop column b");
    assert_eq!(r#"[{"id":1,"a":"y"}]"#, rows());
    sqlite.run("alter table t add column d bigint default 5");
    assert_eq!(r#"[{"id":1,"a":"y","d":"5"}]"#, rows(), "and the form of its type");
    assert_eq!("[]", larder.get("/t?id=2").text());
    assert_eq!(1, threads(&larder), "all of it by one connection");
}

#[test]
fn every_change_of_a_file_purges_its_pages() {
    for mode in ["wal", "delete"] {
        let sqlite = Sqlite::new("create table t (id int, a text); insert into t values (1, 'x')");
        sqlite.run(&format!("pragma journal_mode = {mode}"));
        let larder = following(&sqlite);
        shows(&larder, "x");
        sqlite.run("update t set a = 'y'");
        shows(&larder, "y");
        assert_eq!(204, larder.client().request("POST", "/w", "", "").status);
        shows(&larder, "mine");
        sqlite.run("begin; insert into t values (2, 'z'); rollback");
        assert!(is_hit(&larder, "/t"), "what was not committed purges nothing");
    }
}

#[test]
fn a_followed_file_that_is_replaced_or_removed() {
    let sqlite = Sqlite::new("create table t (id int, a text); insert into t values (1, 'x')");
    sqlite.run("pragma journal_mode = delete");
    let larder = following(&sqlite);
    shows(&larder, "x");
    let next = sqlite.folder.path().join("next.db");
    let other = Connection::open(&next).unwrap();
    other.execute_batch("create table t (id int, a text); insert into t values (1, 'new')").unwrap();
    other.close().unwrap();
    std::fs::rename(&next, sqlite.path()).unwrap();
    shows(&larder, "new");
    let url = format!("http://{}/t", larder.address);
    let response = larder.admin_post("/api/v1/explain", &json!({ "url": url }).to_string()).text();
    assert!(response.contains("\"grade\":\"database\""), "{response}");
    std::fs::remove_file(sqlite.path()).unwrap();
    until("the log says why", || larder.error_log().contains("database-not-followed database=lite"));
    until("no page is used any more", || larder.get("/t").status == 502);
}

#[test]
fn pages_of_a_file_that_is_gone_fail_and_the_cause_is_named() {
    let sqlite = Sqlite::new("create table t (id int, a text); insert into t values (1, 'x')");
    sqlite.run("pragma journal_mode = delete");
    let larder = following(&sqlite);
    shows(&larder, "x");
    std::fs::remove_file(sqlite.path()).unwrap();
    until("no page is used any more", || larder.get("/t").status == 502);
    let explanation = explained(&larder);
    assert!(
        explanation.contains("database-not-followed") && explanation.contains("cache.stale_if_error"),
        "{explanation}"
    );
    assert!(!explanation.contains("has must-revalidate"), "{explanation}");
    until("the state names the cause first", || {
        let _ = larder.get("/t");
        let state = larder.admin_get("/api/v1/health").text();
        state.contains("\"sentence\":\"Failing: pages of database lite fail since")
    });
}

#[test]
fn the_operators_stale_if_error_holds_for_pages_of_a_database_that_is_gone() {
    let sqlite = Sqlite::new("create table t (id int, a text); insert into t values (1, 'x')");
    sqlite.run("pragma journal_mode = delete");
    let larder = following_with(&sqlite, "cache = { default_ttl = \"1h\", stale_if_error = \"1h\" }");
    shows(&larder, "x");
    let away = sqlite.folder.path().join("away.db");
    std::fs::rename(sqlite.path(), &away).unwrap();
    until("the log says why", || larder.error_log().contains("database-not-followed database=lite"));
    until("it is served stale", || {
        let page = larder.get("/t");
        assert_eq!((200, "[{\"a\":\"x\"}]"), (page.status, &*page.text()));
        page.field("cache-status").is_some_and(|it| it.contains("fwd=stale"))
    });
    let explanation = explained(&larder);
    assert!(explanation.contains("database-not-followed"), "{explanation}");
    let state = larder.admin_get("/api/v1/health").text();
    assert!(!state.contains("database-pages-fail"), "{state}");
    // Beyond that time it fails.
    larder.advance(3_700);
    until("the permission is over", || larder.get("/t").status == 502);
    std::fs::rename(&away, sqlite.path()).unwrap();
    sqlite.run("update t set a = 'y'");
    shows(&larder, "y");
}

#[test]
fn a_field_of_a_form_that_occurs_twice_is_refused() {
    let sqlite = Sqlite::new("create table t (a text)");
    let write = query("insert into t values (:a)", ", write = true, parameters = { a = \"body text\" }");
    let larder = larder(&sqlite.table(""), &[("/w", &*write)]);
    let form = |body| {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        larder.client().request("POST", "/w", kind, body)
    };
    assert_eq!(204, form("b=1&a=one").status);
    for twice in ["a=f&a=g", "a=f&a=f", "a&%61="] {
        let refused = form(twice);
        assert!(refused.status == 400 && refused.text().contains("is there twice"), "{twice}");
    }
    assert_eq!(1, sqlite.number("select count(*) from t"));
}

fn explained(larder: &Larder) -> String {
    larder.admin_post("/api/v1/explain", r#"{"url":"http://h/t"}"#).text()
}

/// A larder that follows a file with a table `t`.
fn following(sqlite: &Sqlite) -> Larder {
    following_with(sqlite, "cache = { default_ttl = \"1h\" }")
}

fn following_with(sqlite: &Sqlite, cached: &str) -> Larder {
    let list = query("select a from t", "") + "\n" + cached;
    let one = query(
        "select a from t where id = :id",
        ", parameters = { id = \"path int\" }, one_row = true, rows = [\"t.id = :id\"]",
    ) + "\n"
        + cached;
    let write = query("update t set a = 'mine'", ", write = true");
    let routes = [("/t", &*list), ("/t/{id}", &*one), ("/w", &*write)];
    let larder = larder(&sqlite.table("follow.interval = \"10ms\""), &routes);
    until("the file is followed", || larder.error_log().contains("database-followed database=lite"));
    larder
}

fn is_hit(larder: &Larder, target: &str) -> bool {
    larder.get(target).is_hit()
}

/// Waits until the pages have this text, and are stored.
fn shows(larder: &Larder, text: &str) {
    until(text, || larder.get("/t").text() == format!("[{{\"a\":\"{text}\"}}]"));
    until(text, || larder.get("/t/1").text() == format!("{{\"a\":\"{text}\"}}"));
    until("they are stored", || is_hit(larder, "/t") && is_hit(larder, "/t/1"));
}

#[test]
fn a_statement_of_a_request_reads_and_leaves_nothing() {
    let sqlite = Sqlite::new(
        "create table City (ID integer primary key, Name text, Share decimal); \
         insert into City values (1, 'Kabul', 0.5), (2, 'Q', null); create table t (id int)",
    );
    let to = sqlite.folder.path().join("written");
    let larder = larder(
        &sqlite.table(""),
        &[
            ("/db", &raw("dbslayer", "")),
            ("/write", &raw("dbslayer", ", write = true")),
            ("/small", &raw("dbslayer", ", max_rows = 2, max_bytes = \"1KiB\", timeout = \"2s\"")),
            ("/sql/*", &raw("cherokee", "")),
        ],
    );
    let run = |path: &str, statement: &str| post(&larder, path, "text/plain", statement).text();
    let error = |path: &str, statement: &str, expect: &str| {
        let text = run(path, statement);
        assert!(text.contains("MYSQL_ERROR") && text.contains(expect), "{statement}: {text}");
    };
    let expect = r#"{"RESULT":{"HEADER":["ID","Name","Share"],"TYPES":["MYSQL_TYPE_LONGLONG","MYSQL_TYPE_VAR_STRING","MYSQL_TYPE_NEWDECIMAL"],"ROWS":[[1,"Kabul",0.5],[2,"Q",null]]},"SERVER":"lite"}"#;
    assert_eq!(expect, run("/db", "select * from City order by 1"));
    assert_eq!(
        r#"[{"RESULT":{"HEADER":["a"],"TYPES":["MYSQL_TYPE_VAR_STRING"],"ROWS":[[3]]}}]"#,
        larder.get("/sql/select%201+2%20as%20a").text()
    );
    error("/db", "select missing", "no such column");
    error("/db", "insert into t values (1)", "are not allowed here");
    for statement in [
        &format!("attach '{}' as a", to.display()),
        "detach main",
        "pragma query_only = off",
        "pragma writable_schema = on",
        &format!("vacuum into '{}'", to.display()),
        "begin immediate",
        "savepoint a",
        "commit",
    ] {
        error("/db", statement, "are not allowed here");
        error("/write", statement, "are not allowed here");
    }
    error("/db", "select 1; delete from t", "only one statement");
    error("/db", "with a as (select 1) insert into t select * from a", "readonly database");
    error("/db", "explain insert into missing values (1)", "no such table");
    for path in ["/db", "/write"] {
        error(path, "select load_extension('/tmp/a.so')", "MYSQL_ERROR");
        error(path, "select readfile('/etc/passwd')", "no such function");
        error(path, &format!("select writefile('{}', 'a')", to.display()), "no such function");
        error(path, "select length(zeroblob(900000000))", "too big");
    }
    error("/write", "update sqlite_schema set sql = ''", "may not be modified");
    error("/write", "create table if not exists a.b (id int)", "unknown database");
    assert!(!to.exists());

    run("/write", "create temp table t (id int)");
    let changed = run("/write", "insert into t values (1), (2)");
    assert_eq!(
        r#"{"RESULT":{"SUCCESS":true,"AFFECTED_ROWS":2,"INSERT_ID":0},"SERVER":"lite"}"#, changed,
        "the table of another statement is gone"
    );
    assert_eq!(2, sqlite.number("select count(*) from t"));
    assert!(run("/write", "select last_insert_rowid() + changes() as a").contains("[[0]]"));
    // A link on another page sends a GET with the credentials of its reader.
    let by_link = |statement: &str| {
        larder.get(&format!("/write?{{\"SQL\":\"{}\"}}", statement.replace(' ', "%20"))).text()
    };
    assert!(by_link("select count(*) as a from t").contains("[[2]]"));
    for statement in ["delete from t", "with a as (select 1) delete from t"] {
        let text = by_link(statement);
        assert!(text.contains("MYSQL_ERROR"), "{statement}: {text}");
    }
    assert!(by_link("delete from t").contains("statements that begin with \\\"delete\\\" require POST here"));
    assert_eq!(2, sqlite.number("select count(*) from t"));

    error("/small", "select 1 union select 2 union select 3", "more than 2 rows (sql.max_rows)");
    error("/small", "select hex(zeroblob(5000))", "sql.max_bytes");
    error("/small", ENDLESS, "MYSQL_ERROR");
    until("no query runs", || threads(&larder) == 0);
    let before = larder.counter("database_cancelled");
    let mut client = larder.client();
    client
        .send(format!("POST /db HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{ENDLESS}", ENDLESS.len()));
    until("it runs", || computes(&larder));
    drop(client);
    until("it is cancelled", || larder.counter("database_cancelled") > before);
    until("its thread ends", || threads(&larder) == 0);
}

/// One function of a statement cannot be interrupted: until its thread has ended, it has its place among the connections.
#[test]
fn a_statement_that_is_given_up_keeps_its_place_until_its_thread_ends() {
    let sqlite = Sqlite::new("create table t (id int)");
    let table = sqlite.table(
        "max_connections = 1\nqueue_timeout = \"50ms\"\nconnect_timeout = \"50ms\"\nquery_timeout = \"50ms\"",
    );
    let larder = larder(&table, &[("/db", &raw("dbslayer", ""))]);
    let run = |statement: &str| post(&larder, "/db", "text/plain", statement);
    // A minute of comparisons: half a megabyte at each of half a million positions.
    let long = "select instr(zeroblob(1000000), zeroblob(500000) || x'01')";
    assert!(run(long).text().contains("MYSQL_ERROR"));
    let mut given_up = 0;
    for _ in 0..8 {
        given_up += usize::from(run(long).text().contains("every connection to the database was in use"));
    }
    assert!(given_up > 0, "there is no second thread beside it");
    // Longer values would take minutes.
    let longer = "select length(zeroblob(1100000))";
    until("the thread has ended", || !run(longer).text().contains("in use"));
    assert!(run(longer).text().contains("too big"), "{}", run(longer).text());
    assert!(threads(&larder) <= 2, "{}", threads(&larder));
}
