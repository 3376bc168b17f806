//! Pages that follow a database by its binary log: a committed change of a row purges the pages that show it, before a real MariaDB.

use crate::harness::command::run;
use crate::harness::mariadb::MariaDb;
use crate::harness::memcached::Memcached;
use crate::harness::origin::Origin;
use crate::harness::{Larder, until};
use serde_json::{Value, json};
use std::cell::Cell;

const TABLES: &str = "create table users (id int primary key, name varchar(40) not null, shop int not null, \
        code varchar(10) character set utf8mb4 collate utf8mb4_nopad_bin) engine = innodb; \
    create table notes (id bigint unsigned primary key auto_increment, text text) engine = innodb; \
    create table parts (id int primary key, of int, \
        foreign key (of) references users (id) on delete cascade on update cascade) engine = innodb; \
    insert into users select seq, concat('u', seq), seq % 10, concat('c', seq) from seq_1_to_1000; \
    insert into parts values (1, 5), (2, 6); \
    grant replication slave, replication client on *.* to larder";
/// A table of MyISAM.
const PLAIN: &str = "create table plain (id int primary key, name varchar(40)) engine = myisam; insert into plain values (1, 'p')";

const LOG: [&str; 3] = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=7"];

fn mariadb() -> MariaDb {
    mariadb_with(&[])
}

fn mariadb_with(more: &[&str]) -> MariaDb {
    MariaDb::with(&[&LOG, more].concat(), TABLES)
}

const FOLLOW: &str = "follow.binlog = true";

/// Pages by key, by other columns, and of whole tables; and those of an application.
fn larder(maria: &MariaDb, application: &str) -> Larder {
    larder_with(maria, application, "")
}

/// The same with more sections.
fn larder_with(maria: &MariaDb, application: &str, more: &str) -> Larder {
    let route = |path: &str, query: &str, kind: &str, rows: &str| {
        format!(
            "[[site.route]]\npath = \"{path}\"\nsql = {{ query = \"{query}\", parameters = {{ id = \"path {kind}\" }}, rows = [{rows}] }}\n"
        )
    };
    let all = [
        route("/user/{id}", "select name from users where id = :id", "int", "\"users.id = :id\""),
        route(
            "/shop/{id}",
            "select name from users where shop = :id order by id",
            "int",
            "\"users.shop = :id\"",
        ),
        route(
            "/code/{id}",
            "select name from users where code = :id order by id",
            "text",
            "\"users.code = :id\"",
        ),
        route("/count/{id}", "select count(*) as n from users where shop <> :id", "int", "\"users\""),
        route("/notes/{id}", "select count(*) as n from notes where id <> :id", "int", "\"notes\""),
        route("/part/{id}", "select of from parts where id = :id", "int", "\"parts.id = :id\""),
    ]
    .concat();
    let application = format!("[[site.route]]\npath = \"/app/*\"\nproxy = {{ to = [\"{application}\"] }}\n");
    let database = maria.table(FOLLOW);
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n{database}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n{more}[[site]]\n\
         hosts = [\"*\"]\n{all}{application}"
    ))
}

fn followed(larder: &Larder) {
    is_followed(larder, 1);
}

fn is_followed(larder: &Larder, times: usize) {
    until("the database is followed", || {
        larder.error_log().matches("database-followed database=").count() >= times
    });
}

fn is_hit(larder: &Larder, target: &str) -> bool {
    let response = larder.get(target);
    assert_eq!(200, response.status, "{target}: {response:?}");
    response.is_hit()
}

/// Requests pages until each is a hit.
fn warm(larder: &Larder, targets: &[&str]) {
    for target in targets {
        until("the page is a hit", || is_hit(larder, target));
    }
}

fn has(larder: &Larder, target: &str, text: &str) {
    until(&format!("{target} has {text}"), || {
        let response = larder.get(target);
        response.status == 200 && response.text().contains(text)
    });
}

fn lacks(larder: &Larder, target: &str, text: &str) {
    until(&format!("{target} lacks {text}"), || !larder.get(target).text().contains(text));
}

/// Runs statements in the database `shop`.
fn sql(maria: &MariaDb, statements: &str) -> String {
    maria.sql(&format!("use shop; {statements}"))
}

#[test]
fn a_change_of_one_row_purges_only_its_pages() {
    let maria = mariadb();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Tag: db:users:7\n\napp");
    let larder = larder(&maria, &origin.url());
    followed(&larder);
    let all =
        ["/user/7", "/user/8", "/shop/7", "/shop/8", "/shop/9", "/code/c7", "/code/c8", "/notes/0", "/app/7"];
    warm(&larder, &all);
    sql(&maria, "update users set name = 'new' where id = 7");
    has(&larder, "/user/7", "new");
    has(&larder, "/shop/7", "new");
    has(&larder, "/code/c7", "new");
    until("the application is asked again", || !is_hit(&larder, "/app/7") || origin.requests() > 1);
    for target in ["/user/8", "/shop/8", "/code/c8", "/notes/0"] {
        assert!(is_hit(&larder, target), "{target} does not show the row");
    }
    warm(&larder, &all);
    sql(&maria, "update users set shop = 8, code = 'c8' where id = 7");
    has(&larder, "/shop/8", "new");
    has(&larder, "/code/c8", "new");
    lacks(&larder, "/shop/7", "new");
    lacks(&larder, "/code/c7", "new");
    assert!(is_hit(&larder, "/shop/9") && is_hit(&larder, "/user/8"), "other rows");
}

#[test]
fn inserts_deletes_transactions_and_emptied_tables() {
    let maria = mariadb_with(&["--log-bin-compress=ON", "--log-bin-compress-min-len=10"]);
    sql(&maria, PLAIN);
    let larder = larder(&maria, "http://127.0.0.1:9");
    followed(&larder);
    warm(&larder, &["/user/2000", "/count/0", "/notes/0", "/user/8", "/user/9"]);
    // Longer than the least length of a compressed event.
    sql(&maria, "insert into users values (2000, 'late late late late late late late late', 3, null)");
    has(&larder, "/user/2000", "late");
    has(&larder, "/count/0", "901");
    assert!(is_hit(&larder, "/user/8") && is_hit(&larder, "/notes/0"));
    warm(&larder, &["/user/2000"]);
    sql(&maria, "delete from users where id = 2000");
    lacks(&larder, "/user/2000", "late");
    warm(&larder, &["/user/8", "/user/9", "/count/0", "/notes/0"]);
    // Many rows of several tables, and changes that are undone.
    sql(
        &maria,
        "begin; update users set name = 'never' where id = 8; rollback; \
         begin; savepoint a; update users set name = 'undone' where id = 8; rollback to a; \
         insert into notes (text) values ('a'), ('b'); update users set name = 'second' where id = 9; commit",
    );
    has(&larder, "/user/9", "second");
    has(&larder, "/notes/0", "\"2\"");
    assert!(is_hit(&larder, "/user/8"), "a change that is undone purges nothing");
    sql(
        &maria,
        "create temporary table more (a int); insert into more values (1); drop temporary table more; update users set name = 'third' where id = 9",
    );
    has(&larder, "/user/9", "third");
    assert!(is_hit(&larder, "/user/8"), "a temporary table purges nothing");
    sql(
        &maria,
        "xa start 'x'; update users set name = 'xa' where id = 8; xa end 'x'; xa prepare 'x'; xa commit 'x'",
    );
    has(&larder, "/user/8", "xa");
    warm(&larder, &["/part/1", "/part/2"]);
    sql(&maria, "update users set id = 5000 where id = 5");
    has(&larder, "/part/1", "5000");
    sql(&maria, "delete from users where id = 6");
    lacks(&larder, "/part/2", "6");
    warm(&larder, &["/user/8", "/count/0"]);
    sql(&maria, "set foreign_key_checks = 0; truncate users");
    lacks(&larder, "/user/8", "xa");
    has(&larder, "/count/0", "\"0\"");
    assert_eq!(
        1,
        larder.error_log().matches("database-followed database=").count(),
        "{}",
        larder.error_log()
    );
    assert!(!larder.error_log().contains("database-not-followed"), "{}", larder.error_log());
}

/// The database deletes a row of a table by a chain of references that leads through another database, and logs only the first of them.
#[test]
fn references_lead_through_other_databases() {
    let other = "create database other; create table other.top (id int primary key) engine = innodb; \
        create table other.mid (id int primary key, top int, foreign key (top) references other.top (id) on delete cascade) engine = innodb; \
        create table leaves (id int primary key, mid int, foreign key (mid) references other.mid (id) on delete cascade) engine = innodb; \
        insert into other.top values (1), (2); insert into other.mid values (1, 1), (2, 2); insert into leaves values (1, 1), (2, 2); \
        grant select on other.* to larder";
    let maria = MariaDb::with(&LOG, &format!("{TABLES}; {other}"));
    let route = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/leaf/{id}\"\ncache = { default_ttl = \"1d\" }\n\
        sql = { query = \"select id from leaves where id = :id\", parameters = { id = \"path int\" }, rows = [\"leaves.id = :id\"] }\n";
    let database = maria.table(FOLLOW);
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[log]\nerror = \"error.log\"\n{route}"
    ));
    followed(&larder);
    warm(&larder, &["/leaf/1", "/leaf/2"]);
    sql(&maria, "delete from other.top where id = 1");
    lacks(&larder, "/leaf/1", "1");
    sql(&maria, "revoke select on other.* from larder; alter table leaves add column more int");
    until("the table that cannot be seen is named", || {
        larder.error_log().contains("depend on the table `other`.`mid` by foreign keys, and the user may not see its own; grant it SELECT on `other`.`mid`")
    });
}

#[test]
fn changed_tables_texts_and_short_images() {
    let maria = mariadb();
    let larder = larder(&maria, "http://127.0.0.1:9");
    followed(&larder);
    let all = ["/user/7", "/user/8", "/shop/7", "/shop/8", "/notes/0"];
    warm(&larder, &all);
    // The order of the columns changes between two changes of rows.
    sql(
        &maria,
        "update users set name = 'one' where id = 7; \
         alter table users add column before_all int first, modify shop bigint not null after id; \
         update users set name = 'two' where id = 7; update users set shop = 8 where id = 8",
    );
    has(&larder, "/user/7", "two");
    has(&larder, "/shop/7", "two");
    warm(&larder, &all);
    // The new form is known.
    until("a change of a row purges its pages alone", || {
        warm(&larder, &all);
        sql(&maria, "update users set name = concat(name, '+') where id = 7");
        lacks(&larder, "/user/7", "none");
        until("the page is new", || {
            larder.get("/user/7").text().contains(&sql(&maria, "select name from users where id = 7"))
        });
        is_hit(&larder, "/user/8")
    });
    warm(&larder, &all);
    sql(&maria, "set binlog_row_image = 'MINIMAL'; update users set shop = 9 where id = 7");
    lacks(&larder, "/shop/7", "two");
    assert!(is_hit(&larder, "/user/8") && is_hit(&larder, "/notes/0"), "the key is in each image");
    warm(&larder, &all);
    sql(
        &maria,
        "set binlog_row_image = 'NOBLOB'; insert into notes (text) values ('a'); delete from users where id = 8",
    );
    has(&larder, "/notes/0", "\"1\"");
    lacks(&larder, "/user/8", "u8");
    warm(&larder, &all);
    sql(&maria, "set binlog_format = 'STATEMENT'; update users set name = 'text' where id = 7");
    has(&larder, "/user/7", "text");
    warm(&larder, &all);
    sql(&maria, "set binlog_format = 'STATEMENT'; analyze update users set name = 'seen' where id = 7");
    has(&larder, "/user/7", "seen");
    // Another table under the same name.
    warm(&larder, &all);
    sql(
        &maria,
        "create table other like users; insert into other (id, name, shop) values (7, 'other', 7); set foreign_key_checks = 0; \
        rename table users to old, other to users",
    );
    has(&larder, "/user/7", "other");
    warm(&larder, &all);
    sql(&maria, "update users set name = 'renamed' where id = 7");
    has(&larder, "/user/7", "renamed");
    assert_eq!(
        1,
        larder.error_log().matches("database-followed database=").count(),
        "{}",
        larder.error_log()
    );
}

#[test]
fn a_table_that_is_not_known_is_looked_for_once() {
    let maria = mariadb();
    let counter = |names: &str| {
        let text = format!(
            "select sum(variable_value) from information_schema.global_status where variable_name in ({names})"
        );
        maria.sql(&text).parse::<f64>().unwrap() as u64
    };
    // The end of the log is looked at each second, and tables by these statements.
    let seconds = || counter("'com_show_master_status', 'com_show_binlog_status'");
    let tables = || counter("'com_show_create_table'");
    sql(&maria, "create sequence tickets");
    let larder = larder(&maria, "http://127.0.0.1:9");
    followed(&larder);
    warm(&larder, &["/user/7", "/user/8"]);
    let pass = |what: &str| {
        let from = seconds();
        until(what, || seconds() > from);
    };
    pass("tables may be looked at again");
    let looked = tables();
    // A sequence has no columns that could be read, and its rows are in the log.
    sql(
        &maria,
        "begin; insert into notes (text) select nextval(tickets) from seq_1_to_1500; update users set name = 'one' where id = 7; commit",
    );
    has(&larder, "/user/7", "one");
    until("the tables are looked at", || tables() > looked);
    pass("it is over");
    pass("tables may be looked at again");
    warm(&larder, &["/user/7", "/user/8"]);
    let looked = tables();
    sql(
        &maria,
        "insert into notes (text) select nextval(tickets) from seq_1_to_1500; update users set name = 'two' where id = 7",
    );
    has(&larder, "/user/7", "two");
    assert!(is_hit(&larder, "/user/8"), "another row");
    assert_eq!(looked, tables(), "the sequence is looked for once");
    assert_eq!(
        1,
        larder.error_log().matches("database-followed database=").count(),
        "{}",
        larder.error_log()
    );
    assert!(!larder.error_log().contains("database-not-followed"), "{}", larder.error_log());
}

#[test]
fn after_a_gap_every_page_with_rows_is_validated() {
    let mut maria = mariadb();
    let larder = larder(&maria, "http://127.0.0.1:9");
    followed(&larder);
    warm(&larder, &["/user/7", "/user/8"]);
    // The log continues in another file, and the former one is removed.
    sql(&maria, "flush binary logs; update users set name = 'next' where id = 7");
    has(&larder, "/user/7", "next");
    sql(
        &maria,
        "flush binary logs; purge binary logs before now(); update users set name = 'later' where id = 7",
    );
    has(&larder, "/user/7", "later");
    assert!(is_hit(&larder, "/user/8"), "another file is no gap");
    let dumps = "select id from information_schema.processlist where command like 'Binlog Dump%'";
    let dump = maria.sql(dumps);
    maria.sql(&format!("kill {dump}"));
    sql(&maria, "update users set name = 'killed' where id = 7");
    has(&larder, "/user/7", "killed");
    is_followed(&larder, 2);
    warm(&larder, &["/user/7"]);
    maria.kill();
    until("the gap is logged", || larder.error_log().matches("database-not-followed").count() == 2);
    maria.start_again();
    // No node follows this change, and its file is gone.
    sql(
        &maria,
        "update users set name = 'missed' where id = 7; flush binary logs; purge binary logs before now()",
    );
    has(&larder, "/user/7", "missed");
    is_followed(&larder, 3);
    warm(&larder, &["/user/7"]);
    sql(&maria, "update users set name = 'seen' where id = 7");
    has(&larder, "/user/7", "seen");
    warm(&larder, &["/user/7"]);
    // The log begins anew, with a file of the name that is being read or of the first one.
    sql(&maria, "reset master; update users set name = 'anew' where id = 7");
    has(&larder, "/user/7", "anew");
    until("it is followed", || maria.sql(&dumps.replace("select id", "select count(*)")) == "1");
}

#[test]
fn the_log_and_check_name_the_remedy_of_each_obstacle() {
    let check = |settings: &[&str], statements: &str, remedy: &str| {
        let maria = MariaDb::with(settings, statements);
        let larder = larder(&maria, "http://127.0.0.1:9");
        until("the obstacle is logged", || larder.error_log().contains("database-not-followed"));
        assert!(larder.error_log().contains(remedy), "{remedy}: {}", larder.error_log());
        let output = run(larder.folder.path(), &["check", "-c", "larder.toml", "--connect"]);
        assert!(output.code == 1 && output.out.contains(remedy), "{remedy}: {output:?}");
    };
    check(&[], TABLES, "add `log_bin`");
    check(
        &["--log-bin=bin", "--server-id=7", "--binlog-format=MIXED"],
        TABLES,
        "SET GLOBAL binlog_format = 'ROW'",
    );
    let (without_grants, _) = TABLES.rsplit_once("; grant").unwrap();
    check(&LOG, without_grants, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'larder'@'%'");
    let monitor = format!("{without_grants}; grant replication client on *.* to larder");
    check(&LOG, &monitor, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'larder'@'%'");
    check(&[&LOG[..], &["--binlog-do-db=other"]].concat(), TABLES, "remove binlog_do_db");
    let maria = mariadb();
    let larder = larder(&maria, "http://127.0.0.1:9");
    followed(&larder);
    let output = || run(larder.folder.path(), &["check", "-c", "larder.toml", "--connect"]).out;
    assert!(
        output().contains(", and its changes can be followed\n") && !output().contains("binlog_row_image"),
        "{}",
        output()
    );
    maria.sql("set global binlog_row_image = 'MINIMAL'");
    assert!(output().contains("run `SET GLOBAL binlog_row_image = 'FULL'`"), "{}", output());
    // The server becomes a replica while it is followed.
    maria.sql("change master to master_host = '127.0.0.1', master_port = 9, master_user = 'a'; start slave");
    until("the gap is logged", || larder.error_log().contains("changes of other servers are missing"));
    maria.sql("stop slave");
    is_followed(&larder, 2);
    sql(&maria, "rename table notes to Notes");
    until("a name in other letters is named", || larder.error_log().contains("write Notes in sql.rows"));
}

/// A node of a fleet.
fn node(maria: &MariaDb, memcached: &Memcached) -> Larder {
    let fleet =
        format!("[cache.fleet]\nservers = [\"{}\"]\npoll = \"50ms\"\nlease = \"2500ms\"\n", memcached.name());
    larder_with(maria, "http://127.0.0.1:9", &fleet)
}

#[test]
fn one_node_of_a_fleet_reads_the_log_and_another_takes_over() {
    let (maria, memcached) = (mariadb(), Memcached::start());
    let mut first = node(&maria, &memcached);
    followed(&first);
    let second = node(&maria, &memcached);
    until("the second node waits", || second.error_log().contains("database-followed-by-another-node"));
    let readers =
        || maria.sql("select count(*) from information_schema.processlist where command like 'Binlog Dump%'");
    assert_eq!("1", readers());
    warm(&second, &["/user/7", "/user/8"]);
    sql(&maria, "update users set name = 'led' where id = 7");
    has(&second, "/user/7", "led");
    assert!(is_hit(&second, "/user/8"), "another row");
    warm(&second, &["/user/7"]);
    first.child.kill().unwrap();
    // No node reads this change.
    sql(&maria, "update users set name = 'gap' where id = 7");
    has(&second, "/user/7", "gap");
    followed(&second);
    warm(&second, &["/user/7", "/user/8"]);
    sql(&maria, "update users set name = 'second' where id = 7");
    has(&second, "/user/7", "second");
    assert!(is_hit(&second, "/user/8"), "another row");
}

fn explain(larder: &Larder, target: &str) -> Value {
    let question = json!({ "url": format!("http://{}{target}", larder.address) });
    serde_json::from_str(&larder.admin_post("/api/v1/explain", &question.to_string()).text()).unwrap()
}

#[test]
fn explain_names_the_grade_of_each_query() {
    let maria = mariadb_with(&["--binlog-row-image=MINIMAL"]);
    let larder = larder(&maria, "http://127.0.0.1:9");
    followed(&larder);
    let check = |target: &str, grade: &str, tag: &str, why: &str| {
        let explanation = explain(&larder, target);
        let (sql, rows) = (&explanation["sql"], &explanation["sql"]["rows"][0]);
        assert_eq!(
            (json!("maria"), json!(grade)),
            (sql["database"].clone(), sql["grade"].clone()),
            "{explanation}"
        );
        assert_eq!(json!(tag), rows["tag"], "{explanation}");
        assert!(rows["sentence"].as_str().unwrap().contains(why), "{explanation}");
    };
    check("/user/7", "row", "db:users:id=7", "this primary key");
    check("/shop/7", "column", "db:users:shop=7", "until `SET GLOBAL binlog_row_image = 'FULL'`");
    check("/code/c7", "column", "db:users:code=c7", "with this code");
    check("/count/0", "table", "db:users", "every change of users");
    let listed = run(larder.folder.path(), &["check", "-c", "larder.toml"]).out;
    assert!(listed.contains("follows column users.shop"), "{listed}");
}

/// Random statements, by a seed: changes of rows, of tables, and of the form of the log.
fn statements(seed: &mut u64) -> String {
    let mut random = |below: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    };
    let mut one = || {
        let (id, a, b) = (random(12), random(4), random(3));
        match random(14) {
            0 | 1 => format!("insert ignore into t (id, a, b) values ({id}, {a}, 'b{b}')"),
            2 => format!("replace into t (id, a, b) values ({id}, {a}, null), ({}, {a}, 'b{b} ')", id + 1),
            3 | 4 => format!("update t set a = {a} where id = {id}"),
            5 => format!("update t set b = 'b{b}', n = n + 1 where a = {a}"),
            6 => format!("update ignore t set id = {} where id = {id}", random(12)),
            7 => format!("delete from t where id = {id}"),
            8 => format!("delete from p where id = {a}"),
            9 => format!("insert ignore into p values ({a}); update ignore t set p = {a} where id = {id}"),
            10 => format!("set binlog_row_image = '{}'", ["FULL", "MINIMAL", "NOBLOB"][b as usize]),
            11 => format!("set binlog_format = '{}'", ["ROW", "STATEMENT", "ROW"][b as usize]),
            12 if a == 0 => format!("alter table t drop column if exists c{b}"),
            12 if a == 1 => format!("alter table t add column if not exists c{b} int first"),
            13 if a == 0 => "truncate t".to_owned(),
            _ => format!("update t set n = n + 1 where id in ({id}, {})", id + 2),
        }
    };
    let list: Vec<String> = (0..3).map(|_| one()).collect();
    match (list.iter().any(|it| it.starts_with("set") || it.starts_with("alter")), list[0].len() % 3) {
        (false, 0) => format!("begin; {}; commit", list.join("; ")),
        (false, 1) => format!("begin; {}; rollback; {}", list[0], list[1]),
        _ => list.join("; "),
    }
}

#[test]
fn after_random_changes_every_page_is_that_of_a_new_query() {
    let tables = "create table p (id int primary key) engine = innodb; \
        create table t (id int primary key, a tinyint not null, b varchar(9) character set utf8mb4 collate utf8mb4_nopad_bin, \
        n int not null default 0, p int, foreign key (p) references p (id) on delete set null) engine = innodb; \
        create table zz (n int) engine = innodb; insert into zz values (0); \
        grant replication slave, replication client on *.* to larder";
    let maria = MariaDb::with(&LOG, tables);
    let route = |path: &str, query: &str, kind: &str, rows: &str| {
        let sql = format!(
            "sql = {{ query = \"{query}\", parameters = {{ v = \"path {kind}\" }}, rows = [\"{rows}\"] }}\n"
        );
        format!(
            "[[site.route]]\npath = \"/{path}/{{v}}\"\n{sql}[[site.route]]\npath = \"/new/{path}/{{v}}\"\ncache.enabled = false\n{sql}"
        )
    };
    let columns = "select id, a, b, n, p from t where";
    let routes = [
        route("id", &format!("{columns} id = :v"), "int", "t.id = :v"),
        route("a", &format!("{columns} a = :v order by id"), "int", "t.a = :v"),
        route("b", &format!("{columns} b = :v order by id"), "text", "t.b = :v"),
        route("p", &format!("{columns} p = :v order by id"), "int", "t.p = :v"),
        route("all", &format!("{columns} id <> :v order by id"), "int", "t"),
        route("zz", "select n from zz where n <> :v", "int", "zz"),
    ]
    .concat();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n[[site]]\n\
         hosts = [\"*\"]\n{routes}",
        maria.table(FOLLOW)
    ));
    followed(&larder);
    let mut pages: Vec<String> = (0..14).map(|it| format!("id/{it}")).collect();
    pages.extend((0..4).flat_map(|it| [format!("a/{it}"), format!("p/{it}"), format!("b/b{it}")]));
    pages.extend(["b/b0%20", "b/b1%20", "all/99"].map(str::to_owned));
    let mut seed = 20_261_126;
    let mut hits = 0;
    let number = Cell::new(0);
    let is_read = || {
        warm(&larder, &["/zz/-1"]);
        number.set(number.get() + 1);
        sql(&maria, &format!("update zz set n = {}", number.get()));
        has(&larder, "/zz/-1", &format!(":{}}}", number.get()));
    };
    // After a change of a table its rows are read without its columns, until these are looked at again.
    let are_columns_known = || {
        until("the columns are known", || {
            warm(&larder, &["/id/-5"]);
            sql(&maria, "insert into t (id, a) values (-6, 9); delete from t where id = -6");
            is_read();
            is_hit(&larder, "/id/-5")
        });
    };
    for step in 1..=25 {
        are_columns_known();
        let changes = statements(&mut seed);
        sql(&maria, &changes);
        // A page that is stored shows a second change only once the first one, which is behind all others, was read.
        (0..2).for_each(|_| is_read());
        for page in &pages {
            let (stored, new) = (larder.get(&format!("/{page}")), larder.get(&format!("/new/{page}")));
            assert_eq!(new.text(), stored.text(), "step {step}, {page}: {changes}");
            hits += usize::from(stored.is_hit());
        }
    }
    assert!(hits > 100, "pages are stored: {hits}");
    assert!(!larder.error_log().contains("database-not-followed"), "{}", larder.error_log());
}
