//! Queries of routes before a real MariaDB: types, reading only, errors, cancellation and renewal.

use super::sql::{larder, post, query, raw};
use crate::harness::command;
use crate::harness::http2::{Http2, RST_STREAM, frame};
use crate::harness::mariadb::MariaDb;
use crate::harness::until;

/// The columns of a table with every type: the type, a value, and its JSON.
const TYPES: &[(&str, &str, &str)] = &[
    ("tinyint", "-128", "-128"),
    ("boolean", "true", "1"),
    ("tinyint unsigned", "255", "255"),
    ("smallint", "-32768", "-32768"),
    ("mediumint", "-8388608", "-8388608"),
    ("int", "-2147483648", "-2147483648"),
    ("int unsigned", "4294967295", "4294967295"),
    ("bigint", "9007199254740993", "\"9007199254740993\""),
    ("bigint unsigned", "18446744073709551615", "\"18446744073709551615\""),
    ("decimal(9,2)", "1.10", "\"1.10\""),
    (
        "decimal(65,3)",
        "12345678901234567890123456789012345678901234567890.123",
        "\"12345678901234567890123456789012345678901234567890.123\"",
    ),
    ("float", "0.1", "0.1"),
    ("double", "1e300", "1e+300"),
    ("bit(1)", "b'1'", "true"),
    ("bit(10)", "b'1000000001'", "\"1000000001\""),
    ("char(4)", "'ab'", "\"ab\""),
    ("varchar(20)", "'a\"\\n\u{20ac}'", "\"a\\\"\\n\u{20ac}\""),
    ("varchar(20) character set latin1", "'\u{e9}\u{20ac}'", "\"\u{e9}\u{20ac}\""),
    ("text", "''", "\"\""),
    ("enum('sad','ok')", "'sad'", "\"sad\""),
    ("set('a','b')", "'a,b'", "\"a,b\""),
    ("binary(2)", "x'00ff'", "\"AP8=\""),
    ("varbinary(9)", "x'ff'", "\"/w==\""),
    ("blob", "'ab'", "\"YWI=\""),
    ("json", "'{\"a\": 1.10, \"b\": 9007199254740993}'", "{\"a\": 1.10, \"b\": 9007199254740993}"),
    ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", "\"123e4567-e89b-12d3-a456-426614174000\""),
    ("inet6", "'::1'", "\"::1\""),
    ("date", "'2026-01-31'", "\"2026-01-31\""),
    ("date", "'0000-00-00'", "null"),
    ("datetime(6)", "'2026-01-31 12:00:00.5'", "\"2026-01-31T12:00:00.5\""),
    ("datetime", "'0000-00-00 00:00:00'", "null"),
    ("timestamp", "'2026-01-31 12:00:00'", "\"2026-01-31T12:00:00Z\""),
    ("time", "'23:59:59'", "\"23:59:59\""),
    ("time", "'-838:59:59'", "\"-838:59:59\""),
    ("time(3)", "'99:00:00.25'", "\"99:00:00.25\""),
    ("year", "2026", "2026"),
    ("int", "null", "null"),
];

/// A text for a column of the table of types: its number, and its row.
type ColumnText<'a> = &'a dyn Fn(usize, &(&str, &str, &str)) -> String;

#[test]
fn each_type_has_one_form() {
    let columns = |of: ColumnText<'_>| {
        let all: Vec<String> = TYPES.iter().enumerate().map(|(at, it)| of(at, it)).collect();
        all.join(", ")
    };
    let create = columns(&|at, it| format!("c{at} {} null", it.0));
    let values = columns(&|_, it| it.1.to_owned());
    let setting = "set time_zone = '+00:00'; set sql_mode = ''";
    let maria = MariaDb::start(&format!(
        "{setting}; create table t ({create}) character set utf8mb4; insert into t values ({values}); \
         create table g (a point); insert into g values (point(1, 2));"
    ));
    maria.routine("create procedure p() select 1 as a");
    maria.routine("create procedure q() begin select 1 as a; select 2 as b; end");
    let bound = "select :i as i, :b as b, :d as d, :f as f, :t as t, :s as s, :n as n, cast(:d as char) as e, \
                 (select count(*) from t where c9 = :d) as c";
    let kinds = ", parameters = { i = \"query bigint\", b = \"query bool\", d = \"query decimal\", f = \"query float\", \
                 t = \"query timestamp\", s = \"query text\", n = \"query int?\" }";
    let all = [
        ("/types", query("select * from t", "")),
        ("/json", query("select c7, c9 from t", ", numbers = \"json\"")),
        ("/csv", query("select c5, c16, c21 from t", ", format = \"csv\"")),
        ("/point", query("select a from g", "")),
        ("/bound", query(bound, kinds)),
        ("/none", query("select c5 from t where false", ", one_row = true")),
        ("/p", query("call p()", "")),
        ("/q", query("call q()", "")),
    ];
    let all: Vec<_> = all.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let larder = larder(&maria.table(""), &all);
    for _ in 0..2 {
        // The second time with the prepared statement.
        let answer = larder.get("/types");
        let log = larder.error_log();
        assert_eq!((200, Some("application/json")), (answer.status, answer.field("content-type")), "{log}");
        let expect: Vec<String> =
            TYPES.iter().enumerate().map(|(at, it)| format!("\"c{at}\":{}", it.2)).collect();
        let (text, expect) = (answer.text(), format!("[{{{}}}]", expect.join(",")));
        for (found, expect) in text.split(",\"c").zip(expect.split(",\"c")) {
            assert_eq!(expect, found);
        }
        assert_eq!(expect, text);
        assert_eq!("[{\"a\":1}]", larder.get("/p").text(), "a procedure");
        // Known before the first byte, or after it.
        let several = larder.get("/q");
        assert!(!several.complete || several.status == 502, "several results");
    }
    assert_eq!("[{\"c7\":9007199254740993,\"c9\":1.10}]", larder.get("/json").text());
    assert_eq!("c5,c16,c21\r\n-2147483648,\"a\"\"\n\u{20ac}\",AP8=\r\n", larder.get("/csv").text());
    assert_eq!((502, 404), (larder.get("/point").status, larder.get("/none").status));
    let target =
        "/bound?i=9007199254740993&b=true&d=1.10&f=1e3&t=2026-01-31T12:00:00%2b02:00&s='%20or%201=1%20--%20";
    let expect = "[{\"i\":\"9007199254740993\",\"b\":\"1\",\"d\":\"1.10\",\"f\":1000.0,\"t\":\"2026-01-31 10:00:00\",\
                  \"s\":\"' or 1=1 -- \",\"n\":null,\"e\":\"1.10\",\"c\":\"1\"}]";
    assert_eq!(expect, larder.get(target).text());
}

#[test]
fn reading_is_all_that_a_query_may() {
    // The mode of the server changes neither strings nor parameters.
    let maria = MariaDb::with(
        &["--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES"],
        "create table t (id int auto_increment primary key, name varchar(80) not null unique) engine = innodb; \
         insert into t values (1, 'a')",
    );
    maria.routine("create function f() returns int modifies sql data begin insert into t (name) values ('f'); return 1; end");
    maria.sql("create table shop.hidden (a int); create user weak identified by 'geheim'; grant select on shop.t to weak");
    let insert = query(
        "insert into t (name) values (:name) returning id, name",
        ", parameters = { name = \"body text?\" }, write = true, one_row = true",
    );
    let routes = [
        ("/function", query("select f() as a", "")),
        ("/lock", query("select * from t for update", "")),
        ("/file", query("select 1 into outfile 'larder-test'", "")),
        ("/local", query("load data local infile '/etc/passwd' into table t", "")),
        ("/quotes", query(r#"select "a\":name" as a, 'b\':x' as b"#, "")),
        ("/list", query("select name from t order by id", "")),
        ("/new", insert),
        (
            "/gone",
            query("delete from t where id = :id", ", parameters = { id = \"body int\" }, write = true"),
        ),
    ];
    let routes: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let larder = larder(&maria.table(""), &routes);
    for target in ["/function", "/file", "/local"] {
        let answer = larder.get(target);
        assert_eq!(502, answer.status, "{target}: {}", answer.text());
        assert!(!answer.text().contains("READ ONLY"));
    }
    assert_eq!("1", maria.sql("select count(*) from shop.t"));
    assert_eq!("[{\"a\":\"a\\\":name\",\"b\":\"b':x\"}]", larder.get("/quotes").text());
    let _ = larder.get("/lock");
    let send = |target: &str, body: &str| post(&larder, target, "application/json", body);
    let made = send("/new", "{\"name\":\"b'); drop table t; -- \"}");
    let log = larder.error_log();
    assert_eq!(
        (200, "{\"id\":2,\"name\":\"b'); drop table t; -- \"}"),
        (made.status, &*made.text()),
        "{log}"
    );
    assert_eq!("2", maria.sql("select count(*) from shop.t"), "it is committed");
    assert_eq!(502, send("/new", "{\"name\":\"a\"}").status, "it is there");
    assert_eq!(502, send("/new", "{}").status);
    assert_eq!(
        (204, "1".to_owned()),
        (send("/gone", "{\"id\":2}").status, maria.sql("select count(*) from shop.t"))
    );
    assert_eq!(502, larder.get("/function").status, "reading again");
    assert_eq!("[{\"name\":\"a\"}]", larder.get("/list").text());
    assert_eq!(0, maria.running());
    // `check --connect` prepares the queries of routes.
    let check = |table: &str, text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let route = format!("[[site]]\nhosts = [\"*\"]\n[[site.route]]\nsql = {{ query = \"{text}\" }}\n");
        std::fs::write(
            folder.path().join("larder.toml"),
            format!("listen = [\"127.0.0.1:0\"]\n{table}{route}"),
        )
        .unwrap();
        crate::harness::command::run(folder.path(), &["check", "-c", "larder.toml", "--connect"])
    };
    let ended = check(&maria.table(""), "select name from t");
    let expect = "connected to MariaDB 10.";
    assert!(
        ended.code == 0
            && ended.out.contains(expect)
            && ended.out.contains("; it accepts the query of its route"),
        "{ended:?}"
    );
    let weak = maria.table("").replace("larder@", "weak@");
    let ended = check(&weak, "select a from hidden");
    assert!(ended.code == 1 && ended.out.contains("or run `GRANT SELECT ON TABLE TO weak`"), "{ended:?}");
    let ended = check(&weak.replace("geheim", "falsch"), "select name from t");
    assert!(ended.code == 1 && ended.out.contains("rejected the login"), "{ended:?}");
}

#[test]
fn errors_limits_and_clients_that_leave() {
    let mut maria = MariaDb::with(&["--max-allowed-packet=64M"], "");
    let long = ", timeout = \"1h\"";
    let cached = "\ncache = { default_ttl = \"60s\" }";
    let late = "select seq, repeat('x', 100) as a, (select 1 from (select 1 as b union all select 2) t where s.seq = 100000) as c \
                from seq_1_to_200000 s";
    let routes = [
        ("/late", query(late, "") + cached),
        ("/rows", query("select seq from seq_1_to_100000", ", max_rows = 10") + cached),
        (
            "/bytes",
            query("select repeat('x', 1000) as a from seq_1_to_1000", ", max_bytes = \"64KiB\"") + cached,
        ),
        ("/slow", query("select sleep(:s) as a", ", parameters = { s = \"query float\" }, timeout = \"2s\"")),
        ("/head", query("select sleep(600) as a", long)),
        ("/pour", query("select seq, repeat('x', 20000) as a, sleep(0.02) as b from seq_1_to_100000", long)),
        ("/large", query("select repeat('x', 17000000) as a", "")),
        ("/quick", query("select 1 as a", "")),
    ];
    let routes: Vec<_> = routes.iter().map(|(path, lines)| (*path, lines.as_str())).collect();
    let options = "max_connections = 4\nqueue_timeout = \"1s\"";
    let larder = larder(&maria.table(options), &routes);
    for _ in 0..2 {
        for target in ["/late", "/bytes"] {
            let cut = larder.get(target);
            assert_eq!((200, false), (cut.status, cut.complete), "{target} is cut");
            assert!(!cut.text().ends_with(']') && !cut.text().contains("Subquery"));
        }
        let rows = larder.get("/rows");
        assert!(rows.status == 502 || !rows.complete, "{rows:?}");
        assert_eq!(504, larder.get("/slow?s=60").status);
    }
    assert_eq!("[{\"a\":0}]", larder.get("/slow?s=0").text());
    let large = larder.get("/large");
    assert_eq!(
        (200, 17_000_010, true),
        (large.status, large.text().len(), large.complete),
        "a row of several packets"
    );
    for target in ["/head", "/pour"] {
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        until("it runs", || maria.running() == 1);
        if target == "/pour" {
            client.read_raw_head();
        }
        drop(client);
        until(&format!("{target} is cancelled"), || maria.running() == 0);
        let mut client = Http2::connect(&larder);
        let id = client.send_get(target);
        until("it runs", || maria.running() == 1);
        client.send(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        until(&format!("{target} is cancelled over HTTP/2"), || maria.running() == 0);
    }
    assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    until("cancelled connections are closed", || maria.connections() <= 1);
    let before = larder.counter("database_connections");
    for _ in 0..20 {
        assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    }
    assert_eq!(before, larder.counter("database_connections"), "they are used again");
    // A restart of the database, and the end of idle connections, cost no request.
    maria.kill();
    assert_eq!(502, larder.get("/quick").status);
    maria.start_again();
    assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
    maria.sql("kill user larder");
    assert_eq!("[{\"a\":1}]", larder.get("/quick").text());
}

#[test]
fn a_contact_accepts_queries_that_write() {
    let maria = MariaDb::start("create table t (a int)");
    let tried = |column: &str| {
        let route = format!(
            "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/t\"\nsql = {{ query = \"insert into t ({column}) values (:a)\", \
             parameters = {{ a = \"body int\" }}, write = true }}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("larder.toml");
        let text = format!("listen = [\"127.0.0.1:0\"]\n{}{route}", maria.table(""));
        std::fs::write(&file, text).unwrap();
        command::run(folder.path(), &["check", "-c", "larder.toml", "--connect"])
    };
    let sound = tried("a");
    assert!(sound.code == 0 && sound.out.contains("it accepts the query of its route"), "{sound:?}");
    let wrong = tried("b");
    assert!(wrong.code == 1 && wrong.out.contains("Unknown column 'b'"), "{wrong:?}");
    assert_eq!("0", maria.sql("select count(*) from shop.t"));
}

#[test]
fn a_statement_of_a_request_reads_and_leaves_nothing() {
    let maria = MariaDb::start(
        "create table City (ID int, Name varchar(20), Population bigint, Share decimal(3,1)); \
         insert into City values (1, 'Kabul', 1780000, 0.5), (2, 'Q', null, null); create table t (id int); create sequence s",
    );
    maria.routine("create function f() returns int begin insert into t values (1); return 1; end");
    maria.routine("create procedure p() insert into t values (1)");
    maria.sql("grant file on *.* to larder");
    let files = tempfile::tempdir().unwrap();
    std::fs::set_permissions(files.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let written = files.path().join("written");
    std::fs::write(files.path().join("secret"), "geheim").unwrap();
    let larder = larder(
        &maria.table(""),
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
    let expect = r#"{"RESULT":{"HEADER":["ID","Name","Population","Share"],"TYPES":["MYSQL_TYPE_LONG","MYSQL_TYPE_VAR_STRING","MYSQL_TYPE_LONGLONG","MYSQL_TYPE_NEWDECIMAL"],"ROWS":[[1,"Kabul",1780000,0.5],[2,"Q",null,null]]},"SERVER":"maria"}"#;
    assert_eq!(
        expect,
        larder.get("/db?%7B%22SQL%22:%22select%20*%20from%20City%20order%20by%201%22%7D").text()
    );
    assert_eq!(
        r#"[{"RESULT":{"HEADER":["a"],"TYPES":["MYSQL_TYPE_LONG"],"ROWS":[[3]]}}]"#,
        larder.get("/sql/select%201+2%20as%20a").text()
    );
    error("/db", "select nothing", "\"MYSQL_ERRNO\":1054");
    for statement in [
        "insert into t values (1)",
        "set session transaction read write",
        "set statement max_statement_time = 0 for select sleep(100)",
        "start transaction read write",
        "begin",
        "call p()",
        "do f()",
        "execute immediate 'delete from t'",
        "prepare x from 'delete from t'",
        "load data infile '/etc/passwd' into table t",
        "handler t open",
        "lock tables t write",
        "kill 1",
        "analyze delete from t",
        "use mysql",
    ] {
        error("/db", statement, "are not allowed here");
        if !statement.starts_with("insert") {
            error("/write", statement, "are not allowed here");
        }
    }
    error("/db", "select 1; delete from t", "only one statement");
    error("/db", "select '\\\\'; delete from t; -- '", "only one statement");
    error("/db", "select 1 /*! into outfile '/tmp/x' */", "is executed by the database");
    error("/db", "select f()", "READ ONLY transaction (1792)");
    error("/db", "select nextval(s)", "READ ONLY transaction (1792)");
    let (secret, to) = (files.path().join("secret"), written.display());
    for statement in [
        &format!("select load_file('{}')", secret.display()),
        &format!("select `load_file` /* */ ('{}')", secret.display()),
        &format!("select 1 into/**/outfile '{to}'"),
        &format!("select 1\ninto DumpFile '{to}'"),
    ] {
        error("/db", statement, "files of the database server");
        error("/write", statement, "files of the database server");
    }
    // A comment that MariaDB would run is not sent.
    assert!(run("/db", &format!("select 1 as a /*M! into outfile '{to}' */")).contains("[[1]]"));
    assert!(!written.exists());

    run("/db", "select @a := 7, get_lock('larder', 0), last_insert_id(9), @b := 1");
    assert!(run("/db", "select @a, is_used_lock('larder'), last_insert_id()").contains("[[null,null,0]]"));
    run("/write", "create temporary table t (id int)");
    let changed = run("/write", "insert into t values (1), (2)");
    assert_eq!(
        r#"{"RESULT":{"SUCCESS":true,"AFFECTED_ROWS":2,"INSERT_ID":0},"SERVER":"maria"}"#, changed,
        "the table of another statement is gone"
    );
    assert_eq!("2", maria.sql("select count(*) from shop.t"));
    error("/write", "insert into t select 1 / 0", "(1365)");

    error("/small", "select * from t, City", "more than 2 rows (sql.max_rows)");
    error("/small", "select repeat('a', 5000)", "sql.max_bytes");
    error("/small", "select sleep(100)", "MYSQL_ERROR");
    let mut client = larder.client();
    client.request("POST", "/db", "Content-Type: text/plain\r\n", "select 1");
    client.send("POST /db HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n\r\nselect sleep(100)");
    until("it runs", || maria.running() == 1);
    drop(client);
    until("it is cancelled", || maria.running() == 0);
    until("no session is kept", || maria.connections() == 0);
}
