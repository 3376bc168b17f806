//! Queries as services of routes: types, parameters, the cache, errors, limits and cancellation, before a real PostgreSQL.

use crate::harness::http2::{Http2, RST_STREAM, frame, request};
use crate::harness::postgres::Postgres;
use crate::harness::{Larder, Response, until};

/// A larder with a `[[database]]` and routes: a path, and the lines of the route.
pub(super) fn larder(database: &str, routes: &[(&str, &str)]) -> Larder {
    let route = |(path, lines): &(&str, &str)| format!("[[site.route]]\npath = \"{path}\"\n{lines}\n");
    let routes: String = routes.iter().map(route).collect();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[log]\naccess = \"off\"\nerror = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n{routes}"
    ))
}

pub(super) fn query(sql: &str, more: &str) -> String {
    format!("sql = {{ query = '''{sql}''' {more} }}")
}

pub(super) fn post(larder: &Larder, target: &str, kind: &str, body: &str) -> Response {
    larder.client().request("POST", target, &format!("Content-Type: {kind}\r\n"), body)
}

/// The values of every type, with the type and its JSON.
const TYPES: &[(&str, &str)] = &[
    ("null::int", "null"),
    ("true", "true"),
    ("1::int2", "1"),
    ("'-2147483648'::int4", "-2147483648"),
    ("9007199254740993::int8", "\"9007199254740993\""),
    ("7::oid", "7"),
    ("1.10::numeric(9,2)", "\"1.10\""),
    ("'123456789012345678901234567890.123'::numeric", "\"123456789012345678901234567890.123\""),
    ("'NaN'::numeric", "null"),
    ("0.1::float4", "0.1"),
    ("1e300::float8", "1e+300"),
    ("'Infinity'::float8", "null"),
    ("'NaN'::float8", "null"),
    ("e'a\"\\n\u{20ac}'::text", "\"a\\\"\\n\u{20ac}\""),
    ("'ab'::char(4)", "\"ab  \""),
    ("'ab'::varchar", "\"ab\""),
    ("'sad'::mood", "\"sad\""),
    ("'\\x00ff'::bytea", "\"AP8=\""),
    ("'{\"a\": 1.10, \"a\":\n9007199254740993}'::json", "{\"a\": 1.10, \"a\": 9007199254740993}"),
    ("'{\"b\":1.10}'::jsonb", "{\"b\": 1.10}"),
    ("'123e4567-e89b-12d3-a456-426614174000'::uuid", "\"123e4567-e89b-12d3-a456-426614174000\""),
    ("'2026-01-31'::date", "\"2026-01-31\""),
    ("'infinity'::date", "\"infinity\""),
    ("'0044-03-15 BC'::date", "\"-0043-03-15\""),
    ("'2026-01-31 12:00:00.5'::timestamp", "\"2026-01-31T12:00:00.5\""),
    ("'2026-01-31 12:00:00+02'::timestamptz", "\"2026-01-31T10:00:00Z\""),
    ("'294276-12-31 23:59:59.999999'::timestamp", "\"+294276-12-31T23:59:59.999999\""),
    ("'4714-11-24 00:00:00+00 BC'::timestamptz", "\"-4713-11-24T00:00:00Z\""),
    ("'23:59:59.000001'::time", "\"23:59:59.000001\""),
    ("'12:00:00-03:30'::timetz", "\"12:00:00-03:30\""),
    ("'1 year 2 mons -3 days 04:05:06'::interval", "\"P1Y2M-3DT4H5M6S\""),
    ("'192.168.0.0/16'::cidr", "\"192.168.0.0/16\""),
    ("'::1'::inet", "\"::1\""),
    ("'08:00:2b:01:02:03'::macaddr", "\"08:00:2b:01:02:03\""),
    ("b'101'", "\"101\""),
    ("array[1,null,3]", "[1,null,3]"),
    ("array[[1.5,2],[3,4]]::numeric[]", "[[\"1.5\",\"2\"],[\"3\",\"4\"]]"),
    ("array['a\"',null]::text[]", "[\"a\\\"\",null]"),
    ("array[]::int[]", "[]"),
    ("array['sad','ok']::mood[]", "[\"sad\",\"ok\"]"),
    ("'<b/>'::xml", "\"<b/>\""),
];

#[test]
fn each_type_has_one_form() {
    let postgres = Postgres::start("create type mood as enum ('sad', 'ok')");
    let columns: Vec<String> =
        TYPES.iter().enumerate().map(|(at, it)| format!("{} as c{at}", it.0)).collect();
    let all = query(&format!("select {}", columns.join(", ")), "");
    let plain = query("select 9007199254740993 as a, 1.10 as b", ", numbers = \"json\"");
    let larder = larder(&postgres.table(""), &[("/types", &all), ("/json", &plain)]);
    for _ in 0..2 {
        // The second time with the prepared statement.
        let answer = larder.get("/types");
        let log = larder.error_log();
        assert_eq!((200, Some("application/json")), (answer.status, answer.field("content-type")), "{log}");
        let expect: Vec<String> =
            TYPES.iter().enumerate().map(|(at, it)| format!("\"c{at}\":{}", it.1)).collect();
        let (text, expect) = (answer.text(), format!("[{{{}}}]", expect.join(",")));
        for (found, expect) in text.split(",\"c").zip(expect.split(",\"c")) {
            assert_eq!(expect, found);
        }
        assert_eq!(expect, text);
    }
    assert_eq!("[{\"a\":9007199254740993,\"b\":1.10}]", larder.get("/json").text());
}

#[test]
fn formats_and_unsendable_rows() {
    let postgres =
        Postgres::start("create table t (id int, name text); insert into t values (1, 'a,b'), (2, null)");
    let routes = [
        ("/ndjson", query("select * from t order by id", ", format = \"ndjson\"")),
        ("/csv", query("select * from t order by id", ", format = \"csv\"")),
        ("/csv/none", query("select * from t where false", ", format = \"csv\"")),
        ("/none", query("select * from t where false", "")),
        (
            "/one/{id}",
            query("select * from t where id = :id", ", parameters = { id = \"path int\" }, one_row = true"),
        ),
        ("/one", query("select * from t", ", one_row = true")),
        ("/twice", query("select id, id from t", "")),
        ("/range", query("select int4range(1, 2) as r", "")),
        ("/unknown", query("select secret_column from t", "")),
        ("/writing", query("with a as (insert into t values (3) returning 1) select * from a", "")),
        ("/function", query("select set_config('default_transaction_read_only', 'off', false)", "")),
        ("/sequence", query("select nextval('s')", "")),
    ];
    postgres.sql("create sequence s");
    let routes: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let larder = larder(&postgres.table(""), &routes);
    let text = |target: &str| larder.get(target).text();
    assert_eq!("{\"id\":1,\"name\":\"a,b\"}\n{\"id\":2,\"name\":null}\n", text("/ndjson"));
    assert_eq!("id,name\r\n1,\"a,b\"\r\n2,\r\n", text("/csv"));
    assert_eq!("id,name\r\n", text("/csv/none"));
    assert_eq!("[]", text("/none"));
    assert_eq!("{\"id\":1,\"name\":\"a,b\"}", text("/one/1"));
    let none = larder.get("/one/7");
    assert_eq!((404, Some("application/problem+json")), (none.status, none.field("content-type")));
    let log = || larder.error_log();
    for (target, why) in [
        ("/one", "several rows"),
        ("/twice", "two columns are named"),
        ("/range", "int4range"),
        ("/unknown", "secret_column"),
        ("/writing", "read-only transaction"),
        ("/sequence", "read-only transaction"),
    ] {
        let answer = larder.get(target);
        assert_eq!(502, answer.status, "{target}");
        let report = answer.text();
        assert!(!report.contains("secret_column") && !report.contains("postgres"), "{target}: {report}");
        until(why, || log().contains(&format!("route=*{target} ")) && log().contains(why));
        larder.pass(2_000); // One line a second.
    }
    assert_eq!("2", postgres.sql("select count(*) from t"));
}

#[test]
fn parameters_are_checked_and_bound() {
    let postgres =
        Postgres::start("create table t (id int, name text); insert into t values (1, 'a'), (2, 'b')");
    let find = query(
        "select id, name from t where id = :id and (:q is null or name = :q) limit :n",
        ", parameters = { id = \"path int\", q = \"query text?\", n = \"query.limit int = 5\" }",
    );
    let body = query(
        "select :a as a, :b::text as b, :c as c, :d as d",
        ", parameters = { a = \"body text\", b = \"body bigint?\", c = \"body json?\", d = \"body.dee decimal = 0\" }",
    );
    let all = query(
        "select :b as b, :f as f, :u as u, :d as d, :t as t",
        ", parameters = { b = \"query bool\", f = \"query float\", u = \"query uuid\", d = \"query date\", t = \"query timestamp\" }",
    );
    let larder = larder(&postgres.table(""), &[("/t/{id}", &find), ("/body", &body), ("/all", &all)]);
    assert_eq!("[{\"id\":1,\"name\":\"a\"}]", larder.get("/t/1").text());
    assert_eq!("[]", larder.get("/t/1?q=a'%20or%20'1'='1").text());
    assert_eq!("[{\"id\":1,\"name\":\"a\"}]", larder.get("/t/1?q=a&limit=1&x=%zz").text());
    for (target, why) in [
        ("/t/1%20or%201=1", "\"id\" (path) must be an integer"),
        ("/t/1;drop", "\"id\" (path) must be"),
        ("/t/99999999999", "\"id\" (path) must be"),
        ("/t/01", "\"id\" (path) must be"),
        ("/t/1?q=a&q=b", "\"q\" (query) is there twice"),
        ("/t/1?q=%ff", "\"q\" (query) must be text"),
        ("/t/1?q=%00", "\"q\" (query) must be text"),
        ("/t/1?limit=", "\"limit\" (query) must be"),
        ("/all?b=1", "\"b\" (query) must be true or false"),
        ("/all?b=true", "\"f\" (query) is missing"),
    ] {
        let answer = larder.get(target);
        let text = answer.text().replace("\\\"", "\"");
        assert_eq!((400, true), (answer.status, text.contains(why)), "{target}: {text}");
    }
    let target =
        "/all?b=true&f=1e3&u=123e4567-e89b-12d3-a456-426614174000&d=2026-01-31&t=2026-01-31T12:00:00%2b02:00";
    let expect = "[{\"b\":true,\"f\":1000.0,\"u\":\"123e4567-e89b-12d3-a456-426614174000\",\"d\":\"2026-01-31\",\
                  \"t\":\"2026-01-31T10:00:00Z\"}]";
    assert_eq!(expect, larder.get(target).text());
    let json = |body: &str| post(&larder, "/body", "application/json; charset=utf-8", body);
    let sent = "{\"a\":\"x\",\"b\":9007199254740993,\"c\":{\"n\":1.10},\"dee\":1234567890123456789.10}";
    let expect =
        "[{\"a\":\"x\",\"b\":\"9007199254740993\",\"c\":{\"n\": 1.10},\"d\":\"1234567890123456789.10\"}]";
    assert_eq!(expect, json(sent).text());
    assert_eq!("[{\"a\":\"\",\"b\":null,\"c\":null,\"d\":\"0\"}]", json("{\"a\":\"\",\"b\":null}").text());
    let form = post(&larder, "/body", "application/x-www-form-urlencoded", "a=x+y&b=7");
    assert_eq!("[{\"a\":\"x y\",\"b\":\"7\",\"c\":null,\"d\":\"0\"}]", form.text());
    for body in [
        "",
        "[]",
        "{\"a\":[]}",
        "{\"a\":null}",
        "{}",
        "{\"a\":\"x\"",
        "{\"a\":\"x\\u0000\"}",
        "{\"a\":\"x\",\"b\":1.5}",
    ] {
        assert_eq!(400, json(body).status, "{body}");
    }
    assert_eq!(400, post(&larder, "/body", "text/plain", "{\"a\":\"x\"}").status);
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    assert_eq!(413, json(&long).status);
    assert_eq!(405, larder.get("/body").status);
    assert_eq!(405, post(&larder, "/t/1", "text/plain", "").status);
    assert_eq!("2", postgres.sql("select count(*) from t"));
}

#[test]
fn results_are_cached_like_pages() {
    let postgres = Postgres::start("create table t (id int, n int); insert into t values (1, 0), (2, 0)");
    let page = format!(
        "{}\ncache = {{ default_ttl = \"60s\", stale_if_error = \"1h\" }}",
        query(
            "select n from t where id = :id and n >= :least",
            ", parameters = { id = \"path int\", least = \"query int = 0\" }, tags = [\"t\", \"t:{id}\"]"
        )
    );
    let fresh = query("select n from t where id = :id", ", parameters = { id = \"path int\" }");
    let mut postgres = postgres;
    let larder = larder(&postgres.table(""), &[("/t/{id}", &page), ("/fresh/{id}", &fresh)]);
    let get = |target: &str, lines: &str| larder.client().get_with(target, lines);
    assert_eq!("[{\"n\":0}]", get("/t/1", "").text());
    postgres.sql("update t set n = n + 1");
    for (target, lines) in [
        ("/t/1", ""),
        ("/t/1?utm=1", ""),
        ("/t/1", "Cookie: session=1\r\n"),
        ("/t/1", "Authorization: Basic eDp5\r\n"),
    ] {
        let answer = get(target, lines);
        assert_eq!(("[{\"n\":0}]".to_owned(), true), (answer.text(), answer.is_hit()), "{target} {lines}");
        assert_eq!(None, answer.field("surrogate-key"));
    }
    assert_eq!("[{\"n\":1}]", get("/t/1?least=1", "").text(), "a parameter is part of the key");
    assert_eq!("[{\"n\":1}]", get("/t/2", "").text());
    let head = larder.client().request("HEAD", "/t/2", "", "");
    assert_eq!((200, Some("9")), (head.status, head.field("content-length")));
    let receipt = larder.admin_post("/api/v1/purge", "{\"tag\":\"t:1\"}");
    assert!(receipt.status < 300, "{receipt:?}");
    postgres.sql("update t set n = n + 1");
    assert_eq!("[{\"n\":2}]", get("/t/1", "").text());
    assert_eq!("[{\"n\":1}]", get("/t/2", "").text(), "it has another tag");
    // Without a lifetime nothing is stored.
    for count in 2..4 {
        let answer = get("/fresh/1", "");
        assert_eq!((format!("[{{\"n\":{count}}}]"), false), (answer.text(), answer.is_hit()));
        postgres.sql("update t set n = n + 1");
    }
    let head = larder.client().request("HEAD", "/fresh/1", "", "");
    assert_eq!((200, ""), (head.status, &*head.text()));
    // Errors are not stored, and a stored result stands in for one.
    postgres.kill();
    assert_eq!(502, get("/t/7", "").status);
    larder.advance(100);
    assert_eq!((200, "[{\"n\":1}]".to_owned()), {
        let it = get("/t/2", "");
        (it.status, it.text())
    });
    postgres.start_again();
    until("the database is used again", || get("/t/7", "").status == 200);
}

#[test]
fn a_result_that_fails_is_cut_and_not_stored() {
    let postgres = Postgres::start("");
    let cached = "\ncache = { default_ttl = \"60s\" }";
    let late =
        query("select 1 / (100000 - n) as a, repeat('x', 100) as b from generate_series(1, 200000) n", "")
            + cached;
    let early = query("select 1 / (3 - n) as a from generate_series(1, 5) n", "") + cached;
    let rows = query(
        "select n from generate_series(1, :n) n",
        ", parameters = { n = \"query int\" }, max_rows = 10",
    ) + cached;
    let bytes =
        query("select repeat('x', 1000) as a from generate_series(1, 1000)", ", max_bytes = \"64KiB\"")
            + cached;
    let slow = query("select pg_sleep(:s)", ", parameters = { s = \"query float\" }, timeout = \"2s\"");
    let larder = larder(
        &postgres.table(""),
        &[("/late", &late), ("/early", &early), ("/rows", &rows), ("/bytes", &bytes), ("/slow", &slow)],
    );
    for _ in 0..2 {
        let cut = larder.get("/late");
        assert_eq!((200, false), (cut.status, cut.complete), "it shows that it is cut");
        assert!(!cut.text().ends_with(']') && !cut.text().contains("division"));
        assert!(!larder.get("/bytes").complete);
        for target in ["/early", "/rows?n=11"] {
            assert_eq!(502, larder.get(target).status, "{target}");
        }
        assert_eq!(504, larder.get("/slow?s=60").status);
    }
    assert_eq!("[{\"pg_sleep\":null}]", larder.get("/slow?s=0").text(), "the connection goes on");
    assert!(larder.get("/rows?n=10").complete);
    let mut client = Http2::connect(&larder);
    let id = client.send_get("/late");
    let answer = client.answer(id);
    assert_eq!((200, false), (answer.status, answer.complete));
    assert!(answer.reset.is_some());
    until("queries that nobody reads are cancelled", || postgres.running() == 0);
}

#[test]
fn a_query_without_a_client_is_cancelled() {
    let postgres = Postgres::start("");
    let head = query("select pg_sleep(600)", ", timeout = \"1h\"");
    let shared = format!("{head}\ncache = {{ default_ttl = \"60s\" }}");
    let rows = query(
        "select n, repeat('x', 20000) as a, pg_sleep(0.02) from generate_series(1, 100000) n",
        ", timeout = \"1h\"",
    );
    let larder = larder(
        &postgres.table("max_connections = 4"),
        &[("/head", &head), ("/shared", &shared), ("/rows", &rows)],
    );
    for target in ["/head", "/shared", "/rows"] {
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        until("it runs", || postgres.running() == 1);
        if target == "/rows" {
            client.read_raw_head();
        }
        drop(client);
        until(&format!("{target} is cancelled"), || postgres.running() == 0);
    }
    for target in ["/head", "/shared", "/rows"] {
        let mut client = Http2::connect(&larder);
        let id = client.send_get(target);
        until("it runs", || postgres.running() == 1);
        client.send(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        until(&format!("{target} is cancelled over HTTP/2"), || postgres.running() == 0);
    }
    // A query with another client goes on.
    let (mut first, mut second) = (Http2::connect(&larder), Http2::connect(&larder));
    let id = first.send_get("/shared");
    until("it runs", || postgres.running() == 1);
    second.head(&request("GET", "/shared", &[]), 5);
    until("both wait", || larder.counter("requests_collapsed") >= 1);
    first.send(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    assert_eq!(200, larder.admin_get("/api/v1/stats").status);
    assert_eq!(1, postgres.running());
    drop(second);
    until("it is cancelled", || postgres.running() == 0);
    assert!(larder.counter("database_cancelled") >= 7);
}

#[test]
fn connections_are_bounded_and_renewed() {
    let mut postgres = Postgres::start("");
    let slow = query("select pg_sleep(600)", ", timeout = \"1h\"");
    let quick = query("select 1 as a", "");
    let database = postgres.table("max_connections = 2\nqueue_timeout = \"1s\"");
    let larder = larder(&database, &[("/slow/*", &slow), ("/quick", &quick)]);
    let mut clients: Vec<_> = (0..2).map(|_| larder.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /slow/{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    until("both connections are busy", || postgres.running() == 2);
    assert_eq!(503, larder.get("/quick").status);
    assert_eq!(1, larder.counter("database_queue_timeouts"));
    drop(clients);
    until("a connection is free", || larder.get("/quick").status == 200);
    let before = larder.counter("database_connections");
    for _ in 0..20 {
        assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    }
    assert_eq!(before, larder.counter("database_connections"), "they are used again");
    // A restart of the database costs no request.
    postgres.kill();
    postgres.start_again();
    assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    let backends = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'larder'";
    postgres.sql(backends);
    assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    // A statement that was prepared for the table as it was.
    drop(larder);
}

#[test]
fn a_changed_table_and_a_wrong_password() {
    let postgres = Postgres::start("create table t (a int); insert into t values (1)");
    let all = query("select * from t", "");
    let lars = larder(&postgres.table(""), &[("/t", &all)]);
    assert_eq!("[{\"a\":1}]", lars.get("/t").text());
    postgres.sql("alter table t add b text");
    assert_eq!("[{\"a\":1,\"b\":null}]", lars.get("/t").text());
    let wrong = postgres.table("").replace("geheim", "falsch-falsch");
    let lars = larder(&wrong, &[("/t", &all)]);
    assert_eq!(502, lars.get("/t").status);
    let pooled = larder(
        &postgres.table("prepare = \"never\""),
        &[("/t", &all), ("/bad", &query("select x from t", ""))],
    );
    for _ in 0..2 {
        assert_eq!("[{\"a\":1,\"b\":null}]", pooled.get("/t").text());
        assert_eq!(502, pooled.get("/bad").status);
    }
    assert_eq!("0", postgres.sql("select count(*) from pg_prepared_statements"));
    assert_eq!(0, postgres.running());
}

#[test]
fn a_query_that_writes_to_a_changed_table() {
    let postgres = Postgres::start("create table t (a int)");
    let insert =
        query("insert into t values (:a) returning *", ", parameters = { a = \"body int\" }, write = true");
    let larder = larder(&postgres.table("max_connections = 1"), &[("/t", &insert)]);
    let insert = |value: u8| post(&larder, "/t", "application/json", &format!("{{\"a\":{value}}}"));
    assert_eq!("[{\"a\":1}]", insert(1).text());
    postgres.sql("alter table t add b text");
    let second = insert(2);
    assert_eq!((200, "[{\"a\":2,\"b\":null}]"), (second.status, &*second.text()));
    assert_eq!("1 2", postgres.sql("select string_agg(a::text, ' ' order by a) from t"));
    until("no transaction is open", || postgres.running() == 0);
}

#[test]
fn queries_that_write_are_committed_before_the_answer() {
    let postgres = Postgres::start("create table t (id serial primary key, name text not null unique)");
    let insert = "methods = [\"POST\", \"PUT\"]\n".to_owned()
        + &query(
            "insert into t (name) values (:name) returning id, name",
            ", parameters = { name = \"body text?\" }, write = true, one_row = true",
        );
    let delete = "methods = [\"DELETE\"]\n".to_owned()
        + &query("delete from t where id = :id", ", parameters = { id = \"path int\" }, write = true");
    let list = query("select name from t order by id", "") + "\ncache = { default_ttl = \"1h\" }";
    let larder = larder(&postgres.table(""), &[("/t/new", &insert), ("/t/{id}", &delete), ("/t", &list)]);
    assert_eq!("[]", larder.get("/t").text());
    let made = post(&larder, "/t/new", "application/json", "{\"name\":\"a'); drop table t; --\"}");
    assert_eq!((200, "{\"id\":1,\"name\":\"a'); drop table t; --\"}"), (made.status, &*made.text()));
    assert_eq!("1", postgres.sql("select count(*) from t"));
    assert_eq!(502, post(&larder, "/t/new", "application/json", "{}").status, "name is not null");
    let twice = post(&larder, "/t/new", "application/json", "{\"name\":\"a'); drop table t; --\"}");
    assert_eq!(502, twice.status);
    assert_eq!(405, larder.get("/t/new").status);
    let gone = larder.client().request("DELETE", "/t/1", "", "");
    assert_eq!((204, ""), (gone.status, &*gone.text()));
    assert_eq!("0", postgres.sql("select count(*) from t"));
    assert_eq!(0, postgres.running(), "no transaction is open");
}

#[test]
fn a_member_that_occurs_twice_is_refused() {
    let postgres = Postgres::start("");
    let routes = query("select :a as a", ", parameters = { a = \"body int\" }");
    let larder = larder(&postgres.table(""), &[("/t", &routes)]);
    let twice = post(&larder, "/t", "application/json", r#"{"a":1,"b":2,"a":3}"#);
    assert_eq!(400, twice.status, "{twice:?}");
    assert!(twice.text().contains("\"a\""), "{twice:?}");
    let form = post(&larder, "/t", "application/x-www-form-urlencoded", "b=C#&a=3");
    assert_eq!((200, r#"[{"a":3}]"#), (form.status, &*form.text()), "a form has no fragment");
    let other = post(&larder, "/t", "application/json", r#"{"b":1,"a":3,"b":2}"#);
    assert_eq!((200, r#"[{"a":3}]"#), (other.status, &*other.text()));
}

#[test]
fn explain_and_check_connect_to_nothing() {
    let database = "[[database]]\nname = \"pg\"\nurl = \"postgres://a@127.0.0.1:1/b\"\n";
    let routes =
        query("select :id", ", parameters = { id = \"path int\" }") + "\ncache = { default_ttl = \"60s\" }";
    let larder = larder(database, &[("/t/{id}", &routes)]);
    let response = larder.admin_post("/api/v1/explain", "{\"url\":\"http://a/t/1?x=1\"}");
    let text = response.text();
    assert!(
        response.status == 200
            && text.contains("\"name\":\"miss\"")
            && text.contains("http://a/t/1 a:application/json\""),
        "{text}"
    );
    let answer = larder.get("/t/1");
    assert_eq!(502, answer.status);
    assert!(!answer.text().contains("127.0.0.1"));
}

#[test]
fn replicas_answer_reads_while_they_are_healthy() {
    let primary = Postgres::start(
        "create table t (id serial primary key, n int); grant pg_read_all_settings to larder",
    );
    let (mut one, two) = (primary.replica(), primary.replica());
    let place = |it: &Postgres| format!("postgres+unix://larder@{}/postgres", it.socket().display());
    let database = primary.table(&format!("replicas = [\"{} weight=3\", \"{}\"]", place(&one), place(&two)));
    let server = "select pg_is_in_recovery() as replica, current_setting('data_directory') as place";
    let insert =
        query("insert into t (n) values (1) returning pg_is_in_recovery() as replica", ", write = true");
    let larder = larder(
        &database,
        &[
            ("/read", &query(server, "")),
            ("/rows", &query(server, ", rows = [\"t\"]")),
            ("/tags", &query(server, ", tags = [\"t\"]")),
            ("/write", &insert),
        ],
    );
    let answers = |target: &str, count: usize| -> Vec<String> {
        (0..count).map(|_| larder.get(target).text()).collect()
    };
    let of = |it: &Postgres, all: &[String]| {
        let folder = it.socket().display().to_string();
        all.iter().filter(|it| it.contains(&folder) && it.contains("true")).count()
    };
    let read = answers("/read", 8);
    assert_eq!((6, 2), (of(&one, &read), of(&two, &read)), "by their weights: {read:?}");
    for target in ["/rows", "/tags"] {
        assert!(larder.get(target).text().contains("\"replica\":false"), "{target} asks the primary");
    }
    assert!(post(&larder, "/write", "application/json", "{}").text().contains("\"replica\":false"));
    one.kill();
    let read = answers("/read", 8);
    assert_eq!(8, of(&two, &read), "the other replica: {read:?}");
    assert_eq!(1, larder.counter("database_replicas_ejected"));
    one.start_again();
    until("the replica is asked again", || of(&one, &answers("/read", 1)) == 1);
    let log = || std::fs::read_to_string(larder.folder.path().join("error.log")).unwrap();
    until("both are logged", || log().contains("replica-ejected") && log().contains("replica-readmitted"));
    drop((one, two));
    assert!(
        answers("/read", 2).iter().all(|it| it.contains("\"replica\":false")),
        "only the primary is left"
    );
}

/// A route that takes statements, for clients of this machine.
pub(super) fn raw(form: &str, more: &str) -> String {
    format!("sql = {{ raw = \"{form}\"{more} }}\naccess.allow = [\"127.0.0.1\"]")
}

const CITIES: &str = "create table \"City\" (\"ID\" int, \"Name\" text, \"Population\" bigint, \"Share\" numeric); \
    insert into \"City\" values (1, 'Kabul', 1780000, 0.5), (2, 'Q', null, null)";

#[test]
fn clients_of_dbslayer_work_unchanged() {
    let postgres = Postgres::start(CITIES);
    let larder = larder(
        &postgres.table(""),
        &[("/db", &raw("dbslayer", "")), ("/w", &raw("dbslayer", ", write = true"))],
    );
    let expect = r#"{"RESULT":{"HEADER":["ID","Name","Population","Share"],"TYPES":["MYSQL_TYPE_LONG","MYSQL_TYPE_VAR_STRING","MYSQL_TYPE_LONGLONG","MYSQL_TYPE_NEWDECIMAL"],"ROWS":[[1,"Kabul",1780000,0.5],[2,"Q",null,null]]},"SERVER":"pg"}"#;
    // The escapes of `URI.encode` in Ruby, of `escape` in JavaScript, and of `urlencode` in PHP.
    for target in [
        "/db?%7B%22SQL%22:%22select%20*%20from%20%5C%22City%5C%22%20order%20by%201%22%7D",
        "/db?%7B%22SQL%22%3A%22select%20*%20from%20%5C%22City%5C%22%20order%20by%201%22%7D",
        "/db?%7B%22SQL%22%3A%22select+%2A+from+%5C%22City%5C%22+order+by+1%22%7D",
        "/db?SQL=select+*+from+%22City%22+order+by+1",
    ] {
        let answer = larder.get(target);
        assert_eq!((200, expect), (answer.status, &*answer.text()), "{target}");
        assert!(!larder.get(target).is_hit(), "nothing is stored");
    }
    let statement = "select * from \"City\" order by 1";
    let object = serde_json::json!({ "SQL": statement }).to_string();
    for (kind, body) in [
        ("application/json", object.as_str()),
        ("text/plain", statement),
        ("application/x-www-form-urlencoded", statement),
        ("application/x-www-form-urlencoded", "SQL=select+*+from+%22City%22+order+by+1"),
    ] {
        assert_eq!(expect, post(&larder, "/db", kind, body).text(), "{kind} {body}");
    }
    let empty = post(&larder, "/db", "text/plain", "select \"ID\" from \"City\" where false");
    assert_eq!(
        r#"{"RESULT":{"HEADER":["ID"],"TYPES":["MYSQL_TYPE_LONG"],"ROWS":[]},"SERVER":"pg"}"#,
        empty.text()
    );
    let changed = post(&larder, "/w", "text/plain", "update \"City\" set \"Name\" = 'x'");
    assert_eq!(
        r#"{"RESULT":{"SUCCESS":true,"AFFECTED_ROWS":2,"INSERT_ID":0},"SERVER":"pg"}"#,
        changed.text()
    );
    let wrong = larder.get("/db?%7B%22SQL%22:%22select%20nothing%22%7D");
    let text = wrong.text();
    assert!(
        wrong.status == 200 && text.starts_with("{\"MYSQL_ERROR\":\"the database rejected the query: column"),
        "{text}"
    );
    assert!(text.contains("\"MYSQL_ERRNO\":1105") && text.ends_with("\"SERVER\":\"pg\"}"), "{text}");
    assert!(larder.get("/db?%7B").text().starts_with("{\"ERROR\":"));
    assert!(larder.get("/db").text().starts_with("{\"ERROR\":"));
}

#[test]
fn clients_of_cherokee_work_unchanged() {
    let postgres = Postgres::start(CITIES);
    let route = raw("cherokee", ", write = true");
    let larder = larder(
        &postgres.table(""),
        &[("/sql/*", &format!("{route}\nmethods = [\"GET\", \"POST\"]")), ("/by-post/*", &route)],
    );
    let expect = r#"[{"RESULT":{"HEADER":["ID","sum"],"TYPES":["MYSQL_TYPE_LONG","MYSQL_TYPE_LONG"],"ROWS":[[1,3],[2,4]]}}]"#;
    let answer =
        larder.get("/sql/SELECT%20%22ID%22,%20%22ID%22+2%20as%20sum%20FROM%20%22City%22%20ORDER%20BY%201");
    assert_eq!((200, expect), (answer.status, &*answer.text()));
    let refused = larder.get("/by-post/DELETE%20FROM%20%22City%22").text();
    assert!(refused.contains("require POST here, or GET in the methods of the route"), "{refused}");
    let changed = larder.get("/sql/DELETE%20FROM%20%22City%22");
    assert_eq!(r#"[{"SUCCESS":1,"AFFECTED_ROWS":2,"INSERT_ID":0}]"#, changed.text());
    let wrong = larder.get("/sql/SELEC%201").text();
    assert!(wrong.starts_with("[{\"SUCCESS\":0,\"MYSQL_ERRNO\":1064,"), "{wrong}");
}

#[test]
fn a_statement_of_a_request_reads_and_leaves_nothing() {
    let postgres = Postgres::start("create table t (id int); grant all on t to larder");
    let refused = "access.allow = [\"10.0.0.0/8\"]";
    let closed = raw("dbslayer", "").replace("access.allow = [\"127.0.0.1\"]", refused);
    let small = raw("dbslayer", ", max_rows = 2");
    let larder = larder(
        &postgres.table(""),
        &[
            ("/db", &raw("dbslayer", "")),
            ("/write", &raw("dbslayer", ", write = true")),
            ("/closed", &closed),
            ("/small", &small),
        ],
    );
    let error = |statement: &str, expect: &str| {
        let text = post(&larder, "/db", "text/plain", statement).text();
        assert!(text.contains("MYSQL_ERROR") && text.contains(expect), "{statement}: {text}");
    };
    error("insert into t values (1)", "begin with \\\"insert\\\" are not allowed");
    for statement in [
        "set default_transaction_read_only = off",
        "begin",
        "commit",
        "do $$ begin end $$",
        "copy t to stdout",
    ] {
        error(statement, "are not allowed here");
    }
    error("select 1; delete from t", "only one statement");
    error("with a as (insert into t values (1) returning 1) select * from a", "read-only transaction");
    error("select set_config('transaction_read_only', 'off', false)", "read-write mode");
    post(
        &larder,
        "/db",
        "text/plain",
        "select set_config('default_transaction_read_only', 'off', false), set_config('search_path', 'x', false)",
    );
    let text = post(
        &larder,
        "/db",
        "text/plain",
        "select current_setting('default_transaction_read_only'), current_setting('search_path')",
    )
    .text();
    assert!(text.contains("[[\"on\",") && !text.contains("\"x\""), "{text}");
    assert_eq!("0", postgres.sql("select count(*) from t"));
    post(&larder, "/db", "text/plain", "select pg_advisory_lock(7)");
    assert_eq!("0", postgres.sql("select count(*) from pg_locks where locktype = 'advisory'"));
    error("select '\0'", "a NUL byte is no part of a query");
    post(&larder, "/write", "text/plain", "create temp table t (id int)");
    post(&larder, "/write", "text/plain", "select set_config('search_path', 'x', false)");
    post(&larder, "/write", "text/plain", "insert into t values (1)");
    assert_eq!("1", postgres.sql("select count(*) from t"), "the connection is as it was");
    assert_eq!(403, post(&larder, "/closed", "text/plain", "select 1").status);
    let many = post(&larder, "/small", "text/plain", "select generate_series(1, 3)").text();
    assert!(many.contains("more than 2 rows (sql.max_rows)"), "{many}");
    assert_eq!(0, postgres.running(), "no transaction is open");
}
