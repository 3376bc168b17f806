//! Pages that follow a database: a committed change of a row purges the pages that show it, before a real PostgreSQL.

use crate::harness::command::run;
use crate::harness::memcached::Memcached;
use crate::harness::origin::Origin;
use crate::harness::postgres::Postgres;
use crate::harness::{Larder, until};
use serde_json::{Value, json};

const TABLES: &str = "create table users (id int primary key, name text not null, shop int not null); \
    create table notes (id bigint generated always as identity primary key, text text); \
    insert into users select n, 'u' || n, n % 10 from generate_series(1, 1000) n; \
    create publication larder for table users, notes; \
    alter role larder replication";

fn postgres() -> Postgres {
    Postgres::with(&["wal_level=logical"], TABLES)
}

/// Pages by key, by another column, and of a whole table; and those of an application.
fn larder(postgres: &Postgres, application: &str) -> Larder {
    larder_with(postgres, application, "")
}

/// The same with more sections.
fn larder_with(postgres: &Postgres, application: &str, more: &str) -> Larder {
    let route = |path: &str, query: &str, rows: &str| {
        format!(
            "[[site.route]]\npath = \"{path}\"\nsql = {{ query = \"{query}\", parameters = {{ id = \"path int\" }}, rows = [{rows}] }}\n"
        )
    };
    let user = route("/user/{id}", "select name from users where id = :id", "\"users.id = :id\"");
    let shop =
        route("/shop/{id}", "select name from users where shop = :id order by id", "\"users.shop = :id\"");
    let sum = "select count(*)::int as n from users where shop <> :id";
    let count = route("/count/{id}", sum, "\"users\"");
    let notes = route("/notes/{id}", "select count(*)::int as n from notes where id <> :id", "\"notes\"");
    let application = format!("[[site.route]]\npath = \"/app/*\"\nproxy = {{ to = [\"{application}\"] }}\n");
    let database = postgres.table("follow.publication = \"larder\"");
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n{database}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n{more}[[site]]\n\
         hosts = [\"*\"]\n{user}{shop}{count}{notes}{application}"
    ))
}

fn followed(larder: &Larder) {
    until("the database is followed", || larder.error_log().contains("database-followed database="));
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

fn body(larder: &Larder, target: &str) -> String {
    larder.get(target).text()
}

#[test]
fn a_change_of_one_row_purges_only_its_pages() {
    let postgres = postgres();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Tag: db:users:7\n\napp");
    let larder = larder(&postgres, &origin.url());
    followed(&larder);
    let others = ["/user/8", "/shop/8", "/notes/0"];
    warm(&larder, &["/user/7", "/user/8", "/shop/7", "/shop/8", "/count/0", "/notes/0", "/app/7"]);
    postgres.sql("update users set name = 'new' where id = 7");
    until("the page has the new row", || body(&larder, "/user/7").contains("new"));
    until("the page by another column has it", || body(&larder, "/shop/7").contains("new"));
    until("the application is asked again", || !is_hit(&larder, "/app/7") || origin.requests() > 1);
    for target in others.iter().filter(|it| **it != "/shop/8") {
        assert!(is_hit(&larder, target), "{target} does not show the row");
    }
    // The former shop of a row is not logged without REPLICA IDENTITY FULL: pages of all shops were purged.
    postgres.sql("alter table users replica identity full; update users set name = 'full' where id = 7");
    until("the page has the row", || body(&larder, "/user/7").contains("full"));
    warm(&larder, &["/user/7", "/user/8", "/shop/7", "/shop/8", "/shop/9", "/count/0"]);
    postgres.sql("update users set shop = 8 where id = 7");
    until("the page of the new shop has the row", || body(&larder, "/shop/8").contains("full"));
    until("the page of the former shop lacks it", || !body(&larder, "/shop/7").contains("full"));
    assert!(is_hit(&larder, "/shop/9"), "another shop");
    assert!(is_hit(&larder, "/user/8"), "another user");
}

#[test]
fn inserts_deletes_and_emptied_tables_purge() {
    let postgres = postgres();
    let larder = larder(&postgres, "http://127.0.0.1:9");
    followed(&larder);
    warm(&larder, &["/user/2000", "/count/0", "/notes/0", "/user/8"]);
    assert_eq!("[]", body(&larder, "/user/2000").trim());
    postgres.sql("insert into users values (2000, 'late', 3)");
    until("the page has the row", || body(&larder, "/user/2000").contains("late"));
    until("the count has it", || body(&larder, "/count/0").contains("901"));
    assert!(is_hit(&larder, "/user/8") && is_hit(&larder, "/notes/0"));
    warm(&larder, &["/user/2000"]);
    postgres.sql("delete from users where id = 2000");
    until("the row is gone", || !body(&larder, "/user/2000").contains("late"));
    warm(&larder, &["/user/8", "/count/0"]);
    postgres.sql("truncate users");
    until("all rows are gone", || {
        body(&larder, "/user/8").trim() == "[]" && body(&larder, "/count/0").contains(":0")
    });
}

#[test]
fn a_transaction_counts_when_it_is_committed() {
    let postgres = postgres();
    let larder = larder(&postgres, "http://127.0.0.1:9");
    followed(&larder);
    warm(&larder, &["/user/7", "/user/8"]);
    postgres.sql("begin; update users set name = 'never' where id = 7; rollback; update users set name = 'second' where id = 8");
    until("the later change is here", || body(&larder, "/user/8").contains("second"));
    assert!(is_hit(&larder, "/user/7"), "a rolled back change purges nothing");
}

#[test]
fn after_a_gap_every_page_with_rows_is_validated() {
    let mut postgres = postgres();
    let larder = larder(&postgres, "http://127.0.0.1:9");
    followed(&larder);
    warm(&larder, &["/user/7"]);
    postgres.kill();
    until("the gap is logged", || larder.error_log().contains("database-not-followed"));
    postgres.start_again();
    // Nothing follows this change, or it comes before the new slot.
    postgres.sql("update users set name = 'missed' where id = 7");
    until("the page has the row", || {
        let response = larder.get("/user/7");
        response.status == 200 && response.text().contains("missed")
    });
    until("it is followed again", || larder.error_log().matches("database-followed").count() == 2);
    warm(&larder, &["/user/7"]);
    postgres.sql("update users set name = 'seen' where id = 7");
    until("the page has the row", || body(&larder, "/user/7").contains("seen"));
    let slots = "select count(*) from pg_replication_slots where not temporary";
    assert_eq!("0", postgres.sql(slots), "no slot that outlives its connection");
}

#[test]
fn the_log_names_the_remedy_of_each_obstacle() {
    let check = |settings: &[&str], statements: &str, remedy: &str| {
        let postgres = Postgres::with(settings, statements);
        let larder = larder(&postgres, "http://127.0.0.1:9");
        until("the obstacle is logged", || larder.error_log().contains("database-not-followed"));
        assert!(larder.error_log().contains(remedy), "{remedy}: {}", larder.error_log());
    };
    check(&[], TABLES, "ALTER SYSTEM SET wal_level = logical");
    let logical = ["wal_level=logical"];
    check(&logical, &TABLES.replace("; alter role larder replication", ""), "ALTER ROLE larder REPLICATION");
    check(
        &logical,
        &TABLES.replace("create publication larder for table users, notes;", ""),
        "CREATE PUBLICATION larder FOR TABLE",
    );
    check(&logical, &TABLES.replace("users, notes;", "notes;"), "ALTER PUBLICATION larder ADD TABLE users");
    check(
        &logical,
        &TABLES.replace("users, notes;", "users, notes with (publish = 'insert');"),
        "ALTER PUBLICATION larder SET (publish",
    );
}

#[test]
fn changes_of_the_tables_and_of_the_publication_are_gaps() {
    let postgres = postgres();
    let larder = larder(&postgres, "http://127.0.0.1:9");
    let column = "alter table users add column more int; update users set name = 'c1' where id = 7";
    let other = "alter table users rename to old; create table users (like old including all); alter publication larder drop table old; \
        alter publication larder add table users; grant select on users to larder; insert into users values (7, 'c2', 7)";
    let has = |name: &str| {
        until(&format!("the page has the row {name}"), || {
            let response = larder.get("/user/7");
            response.status == 200 && response.text().contains(name)
        });
    };
    let is_followed = |times: usize| {
        until("the database is followed", || {
            larder.error_log().matches("database-followed").count() >= times
        });
        warm(&larder, &["/user/7"]);
    };
    is_followed(1);
    postgres.sql(column);
    has("c1");
    is_followed(2);
    postgres.sql(other);
    has("c2");
    is_followed(3);
    postgres.sql("alter publication larder set (publish = 'insert')");
    postgres.sql("update users set name = 'c3' where id = 7");
    has("c3");
    postgres.sql("alter publication larder set (publish = 'insert, update, delete, truncate')");
    is_followed(4);
    postgres.sql("update users set name = 'c4' where id = 7");
    has("c4");
    // Undone before anyone can look.
    postgres.sql(
        "begin; alter publication larder set (publish = 'insert'); update users set name = 'c5' where id = 7; \
         alter publication larder set (publish = 'insert, update, delete, truncate'); commit",
    );
    has("c5");
}

/// Changes of which no log has a message: the labels of a type, a view, a function, a table that inherits, and a partition without a log.
#[test]
fn what_rows_are_made_of_is_followed() {
    let more = "create type color as enum ('red', 'blue'); create table cars (id int primary key, color color); \
        insert into cars values (7, 'red'); create view seen as select id, color::text as color from cars; \
        create function shade(int) returns text language sql as 'select color::text from cars where id = $1'; \
        create table logs (id int primary key, text text) partition by range (id); \
        create table logs_1 partition of logs for values from (0) to (100); insert into logs values (7, 'l1'); \
        grant select on all tables in schema public to larder; \
        alter publication larder set (publish_via_partition_root = true); alter publication larder add table cars, logs";
    let postgres = Postgres::with(&["wal_level=logical"], &format!("{TABLES}; {more}"));
    let route = |name: &str, query: &str, table: &str| {
        format!(
            "[[site.route]]\npath = \"/{name}/{{id}}\"\ncache = {{ default_ttl = \"1d\" }}\n\
             sql = {{ query = \"{query}\", parameters = {{ id = \"path int\" }}, rows = [\"{table}.id = :id\"] }}\n"
        )
    };
    let routes = [
        route("car", "select color from cars where id = :id", "cars"),
        route("seen", "select color from seen where id = :id", "cars"),
        route("shade", "select shade(:id) as color", "cars"),
        route("log", "select text from logs where id = :id", "logs"),
    ];
    let database = postgres.table("follow.publication = \"larder\"");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[log]\nerror = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n{}",
        routes.concat()
    ));
    let followed = |times: usize| {
        until("the database is followed", || {
            larder.error_log().matches("database-followed").count() >= times
        });
        warm(&larder, &["/car/7", "/seen/7", "/shade/7", "/log/7"]);
    };
    let has = |target: &str, text: &str| {
        until(&format!("{target} has {text}"), || larder.get(target).text().contains(text));
    };
    followed(1);
    postgres.sql("alter type color rename value 'red' to 'crimson'");
    has("/car/7", "crimson");
    followed(2);
    postgres.sql("create or replace view seen as select id, 'new ' || color::text as color from cars");
    has("/seen/7", "new crimson");
    followed(3);
    postgres.sql("create or replace function shade(int) returns text language sql as $$select 'dark'$$");
    has("/shade/7", "dark");
    followed(4);
    postgres.sql("alter table logs_1 set unlogged; update logs set text = 'l2' where id = 7");
    until("the partition is named", || {
        larder
            .error_log()
            .contains("the partition logs_1 of logs is not in its log; run `ALTER TABLE logs_1 SET LOGGED`")
    });
    has("/log/7", "l2");
    postgres.sql("alter table logs_1 set logged");
    followed(5);
    postgres.sql("create table vans () inherits (cars)");
    until("the inheriting table is named", || larder.error_log().contains("name vans in sql.rows"));
    postgres.sql("drop table vans; create schema own; create table own.cars (id int); alter role larder set search_path = own, public; grant usage on schema own to larder");
    until("the schema is named", || {
        larder.error_log().contains(
            "queries find the table cars in the schema own (search_path); name own.cars in sql.rows",
        )
    });
}

#[test]
fn equal_values_with_different_texts_and_tables_that_cannot_be_followed() {
    let statements = TABLES.replace("name text not null", "name text collate ci not null");
    let collation =
        "create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);";
    let postgres = Postgres::with(&["wal_level=logical"], &format!("{collation} {statements}"));
    let route = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/name/{name}\"\ncache = { default_ttl = \"1d\" }\n\
        sql = { query = \"select shop from users where name = :name\", parameters = { name = \"path text\" }, rows = [\"users.name = :name\"] }\n";
    let database = postgres.table("follow.publication = \"larder\"");
    let config =
        format!("listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[log]\nerror = \"error.log\"\n{route}");
    let larder = Larder::configured(config);
    followed(&larder);
    warm(&larder, &["/name/U7"]);
    postgres.sql("update users set shop = 77 where id = 7");
    until("the page has the row", || body(&larder, "/name/U7").contains("77"));
    postgres.sql("alter publication larder set table notes, users where (shop = 1)");
    until("a row filter is named", || larder.error_log().contains("lacks the table users"));
    postgres.sql("alter publication larder set table notes, users; create table child () inherits (users)");
    until("an inheriting table is named", || larder.error_log().contains("name child in sql.rows"));
}

/// A node of a fleet.
fn node(postgres: &Postgres, memcached: &Memcached) -> Larder {
    let fleet =
        format!("[cache.fleet]\nservers = [\"{}\"]\npoll = \"50ms\"\nlease = \"2500ms\"\n", memcached.name());
    larder_with(postgres, "http://127.0.0.1:9", &fleet)
}

#[test]
fn one_node_of_a_fleet_reads_the_changes_and_another_takes_over() {
    let (postgres, memcached) = (postgres(), Memcached::start());
    let mut first = node(&postgres, &memcached);
    followed(&first);
    let second = node(&postgres, &memcached);
    until("the second node waits", || second.error_log().contains("database-followed-by-another-node"));
    let readers = || postgres.sql("select count(*) from pg_replication_slots");
    assert_eq!("1", readers());
    warm(&second, &["/user/7", "/user/8", "/count/0"]);
    postgres.sql("update users set name = 'led' where id = 7");
    until("the page of the second node has the row", || body(&second, "/user/7").contains("led"));
    assert!(is_hit(&second, "/user/8"), "another row");
    let explanation = explain(&second, "/user/7")["sql"]["sentence"].to_string();
    assert!(explanation.contains("another node"), "{explanation}");
    warm(&second, &["/user/7"]);
    first.child.kill().unwrap();
    // No node reads this change.
    postgres.sql("update users set name = 'gap' where id = 7");
    until("the page has the row of the gap", || body(&second, "/user/7").contains("gap"));
    followed(&second);
    assert_eq!("1", readers());
    warm(&second, &["/user/7", "/user/8"]);
    postgres.sql("update users set name = 'second' where id = 7");
    until("the page has the row", || body(&second, "/user/7").contains("second"));
    assert!(is_hit(&second, "/user/8"), "another row");
    let third = node(&postgres, &memcached);
    // The second node gives the turn to the third if its session with the database had no query for five seconds, as on a busy machine.
    let waits = |node: &Larder| node.error_log().matches("database-followed-by-another-node").count();
    until("a third node waits, or the second one again", || waits(&second) + waits(&third) >= 2);
    until("one node reads", || readers() == "1");
}

fn explain(larder: &Larder, target: &str) -> Value {
    let question = json!({ "url": format!("http://{}{target}", larder.address) });
    serde_json::from_str(&larder.admin_post("/api/v1/explain", &question.to_string()).text()).unwrap()
}

#[test]
fn explain_names_the_grade_of_each_query() {
    let postgres = postgres();
    postgres.sql("alter table notes replica identity full");
    let larder = larder(&postgres, "http://127.0.0.1:9");
    followed(&larder);
    let check = |target: &str, grade: &str, tag: &str, why: &str| {
        let explanation = explain(&larder, target);
        let (sql, rows) = (&explanation["sql"], &explanation["sql"]["rows"][0]);
        assert_eq!(
            (json!("pg"), json!(grade)),
            (sql["database"].clone(), sql["grade"].clone()),
            "{explanation}"
        );
        assert_eq!(json!(tag), rows["tag"], "{explanation}");
        assert!(rows["sentence"].as_str().unwrap().contains(why), "{explanation}");
        assert!(sql["where"].as_str().unwrap().contains("larder.toml:"), "{explanation}");
    };
    check("/user/7", "row", "db:users:id=7", "this primary key");
    let remedy = "no former value of shop until `ALTER TABLE users REPLICA IDENTITY FULL`";
    check("/shop/7", "column", "db:users:shop=7", remedy);
    check("/count/0", "table", "db:users", "every change of users");
    postgres.sql("alter table users replica identity full; update users set name = 'x' where id = 1");
    until("the identity is known", || {
        !explain(&larder, "/shop/7")["sql"]["rows"][0]["sentence"].to_string().contains("until")
    });
    let admin = larder.admin.to_string();
    let url = format!("http://{}/user/7", larder.address);
    let explanation = run(larder.folder.path(), &["explain", &url, "--admin", &admin]).out;
    assert!(explanation.contains("freshness row: the changes of the database are"), "{explanation}");
    let listed = run(larder.folder.path(), &["check", "-c", "larder.toml"]).out;
    assert!(
        listed.contains("follows column users.shop") && listed.contains("follows table users"),
        "{listed}"
    );
    assert!(explain(&larder, "/app/7")["sql"].is_null());
}

/// Each process of the database that sends its log to larder gets a signal: a stopped one may have a successor.
fn signal_sender(postgres: &Postgres, signal: &str) {
    until("the database sends its log", || {
        let senders = postgres.sql("select pid from pg_stat_replication where application_name = 'larder'");
        let sent = std::process::Command::new("kill").arg(signal).args(senders.split_whitespace()).status();
        !senders.is_empty() && sent.unwrap().success()
    });
}

/// The database sends its log late, but not so late that the connection counts as lost.
#[test]
fn pages_are_validated_while_changes_are_late() {
    let postgres = postgres();
    let larder = larder(&postgres, "http://127.0.0.1:9");
    // A machine that is busy for seconds takes the connection for lost.
    let is_validated = |attempt: u32| {
        until("the changes are followed", || {
            explain(&larder, "/user/7")["sql"]["sentence"].to_string().contains("are followed")
        });
        warm(&larder, &["/user/7"]);
        let gaps = larder.counter("database_gaps");
        signal_sender(&postgres, "-STOP");
        let name = format!("late-{attempt}");
        postgres.sql(&format!("update users set name = '{name}' where id = 7"));
        until("the page has the row", || body(&larder, "/user/7").contains(&name));
        let (sentence, lag) = (
            explain(&larder, "/user/7")["sql"]["sentence"].to_string(),
            larder.counter("database_lag_seconds"),
        );
        let is_late = sentence.contains("validated every second")
            && sentence.contains("behind the database")
            && lag > 1;
        let is_validated = is_late && larder.counter("database_gaps") == gaps;
        signal_sender(&postgres, "-CONT");
        is_validated
    };
    assert!((0..4).any(is_validated));
    until("the changes arrive again", || larder.counter("database_lag_seconds") == 0);
    warm(&larder, &["/user/7"]);
}

/// The finding of a database whose changes arrive late: the log of ten seconds waits, without a lost connection.
#[test]
fn changes_that_stay_late_are_a_finding_until_they_arrive() {
    let postgres = postgres();
    let larder = larder(&postgres, "http://127.0.0.1:9");
    let state = || -> Value { serde_json::from_str(&larder.admin_get("/api/v1/health").text()).unwrap() };
    let names = || state()["findings"].to_string();
    // A machine that is busy for seconds takes the connection for lost.
    let is_found = |attempt: u32| {
        followed(&larder);
        until("all is well", || state()["word"] == "healthy");
        signal_sender(&postgres, "-STOP");
        postgres.sql(&format!("update users set name = 'late-{attempt}' where id = 7"));
        let lost = || names().contains("database-not-followed");
        until("the changes are late", || larder.counter("database_lag_seconds") > 2 || lost());
        names();
        larder.pass(10_500);
        let found = state()["sentence"].to_string();
        signal_sender(&postgres, "-CONT");
        found.contains("the changes of database") && found.contains("are read late since")
    };
    assert!((0..4).any(is_found), "{}", names());
    until("the changes arrive again", || state()["word"] == "healthy");
}

#[test]
fn a_lasting_obstacle_is_logged_once() {
    let postgres = Postgres::with(&[], TABLES);
    let larder = larder(&postgres, "http://127.0.0.1:9");
    until("the obstacle lasts", || larder.counter("database_gaps") >= 4);
    assert_eq!(1, larder.error_log().matches("database-not-followed").count(), "{}", larder.error_log());
    let explanation = explain(&larder, "/user/7")["sql"]["sentence"].to_string();
    assert!(explanation.contains("wal_level"), "{explanation}");
    larder.pass(601_000);
    until("it is logged again", || larder.error_log().matches("database-not-followed").count() == 2);
}

/// An application whose pages have the tag that their path names, with `..` for a slash.
fn tagging() -> Origin {
    Origin::new(|asked| {
        let tag = asked.target().replace("/app/", "").replace("..", "/");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Tag: {tag}\n\napp")
    })
}

#[test]
fn two_databases_purge_their_own_pages_and_those_without_a_name() {
    let (one, two, application) = (postgres(), postgres(), tagging());
    let query = "query = \"select name from users where id = :id\", parameters = { id = \"path int\" }, rows = [\"users.id = :id\"]";
    let route = |name: &str| {
        format!("[[site.route]]\npath = \"/{name}/{{id}}\"\nsql = {{ database = \"{name}\", {query} }}\n")
    };
    let follow = "follow.publication = \"larder\"";
    let second = two.table(follow).replace("name = \"pg\"", "name = \"two\"");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{}{second}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n[[site]]\n\
         hosts = [\"*\"]\n{}{}[[site.route]]\npath = \"/app/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        one.table(follow),
        route("pg"),
        route("two"),
        application.url()
    ));
    let are_followed = |times: usize| {
        until("they are followed", || {
            larder.error_log().matches("database-followed database=").count() == times
        })
    };
    are_followed(2);
    let pages = ["/pg/7", "/two/7", "/app/db:users:7", "/app/db:pg..users:7", "/app/db:two..users:7"];
    warm(&larder, &pages);
    two.sql("update users set name = 'of two' where id = 7");
    until("its page has the row", || body(&larder, "/two/7").contains("of two"));
    assert!(is_hit(&larder, "/pg/7") && is_hit(&larder, "/app/db:pg..users:7"), "the other database");
    let asked = |target: &str| application.received().iter().filter(|it| it.target() == target).count();
    until("its application's page is purged", || {
        larder.get("/app/db:two..users:7");
        asked("/app/db:two..users:7") == 2
    });
    until("so is one without a name", || {
        larder.get("/app/db:users:7");
        asked("/app/db:users:7") == 2
    });
    assert_eq!(json!("db:two/users:id=7"), explain(&larder, "/two/7")["sql"]["rows"][0]["tag"]);
    // A gap of one database is none of the other.
    warm(&larder, &pages);
    two.sql("alter table users add column more int");
    are_followed(3);
    assert!(is_hit(&larder, "/pg/7") && is_hit(&larder, "/app/db:pg..users:7"), "the other database");
}

#[test]
fn an_application_tags_by_columns_and_empty_values() {
    let (postgres, application) = (postgres(), tagging());
    postgres.sql("alter table users replica identity full");
    let database = postgres.table("follow = { publication = \"larder\", columns = [\"users.name\"] }");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[log]\nerror = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        application.url()
    ));
    followed(&larder);
    let pages =
        ["/app/db:users:name=u7", "/app/db:users:name=u8", "/app/db:users:name=", "/app/db:pg..users:9"];
    warm(&larder, &pages);
    let asked = |target: &str| application.received().iter().filter(|it| it.target() == target).count();
    let purged = |target: &str| {
        let before = asked(target);
        until(target, || {
            larder.get(target);
            asked(target) > before
        });
    };
    postgres.sql("update users set name = '' where id = 7");
    purged("/app/db:users:name=u7");
    purged("/app/db:users:name=");
    assert!(is_hit(&larder, "/app/db:users:name=u8"), "another value");
    postgres.sql("update users set shop = 5 where id = 9");
    // The only database may be named.
    purged("/app/db:pg..users:9");
    assert!(is_hit(&larder, "/app/db:users:name=u8"), "another value");
}
