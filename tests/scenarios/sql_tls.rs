//! TLS to databases: the certificate and the name of PostgreSQL and MariaDB are verified before the login.

use super::sql::{larder, query};
use crate::harness::mariadb::MariaDb;
use crate::harness::postgres::Postgres;
use crate::harness::secure::Authority;
use crate::harness::{command, until};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A `[[database]]` with TLS.
fn database(scheme: &str, place: &str, tls: &str, more: &str) -> String {
    format!(
        "[[database]]\nname = \"db\"\nurl = \"{scheme}://larder@{place}\"\npassword = \"geheim\"\ntls = {{ {tls} }}\n{more}\n"
    )
}

/// The right authority and name give an answer, all others none.
fn identities(scheme: &str, place: &str, authority: &Authority) {
    let stranger = Authority::named("another authority");
    let ca = |of: &Authority| format!("ca = {:?}", of.path("ca.pem"));
    let name = ", name = \"db.internal\"";
    for (tls, expect) in [
        (ca(authority) + name, ""),
        ("verify = false".to_owned(), ""),
        (ca(authority), "certificate"),
        (ca(&stranger) + name, "certificate"),
        (ca(authority) + ", name = \"other.internal\"", "certificate"),
    ] {
        let larder = larder(&database(scheme, place, &tls, ""), &[("/", &query("select 1 as a", ""))]);
        let answer = larder.get("/");
        if expect.is_empty() {
            assert_eq!((200, "[{\"a\":1}]"), (answer.status, &*answer.text()), "{tls}");
            continue;
        }
        assert_eq!(502, answer.status, "{tls}");
        let log = || larder.error_log();
        until("the log says why", || log().contains("TLS") && log().contains(expect));
    }
    let folder = tempfile::tempdir().unwrap();
    let route = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nsql = { query = \"select 1 as a\" }\n";
    let text = format!("listen = [\"127.0.0.1:0\"]\n{}{route}", database(scheme, place, &ca(&stranger), ""));
    std::fs::write(folder.path().join("larder.toml"), text).unwrap();
    let ended = command::run(folder.path(), &["check", "-c", "larder.toml", "--connect"]);
    assert!(
        ended.code == 1 && ended.out.contains("set database.tls.ca to the file of its authority"),
        "{ended:?}"
    );
}

fn readable(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn mariadb() {
    let authority = Authority::new();
    authority.sign("db", &["db.internal"]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = |name: &str| folder.path().join(name);
    ["db.pem", "db.key"].iter().for_each(|it| readable(&authority.path(it), &file(it)));
    let (cert, key) = (
        format!("--ssl-cert={}", file("db.pem").display()),
        format!("--ssl-key={}", file("db.key").display()),
    );
    let maria = MariaDb::with(&[&cert, &key], "");
    maria.sql("alter user larder require ssl");
    let place = format!("127.0.0.1:{}/shop", maria.port());
    identities("mysql+tls", &place, &authority);
    // A server that demands TLS, and a server without it.
    let plain = database("mysql", &place, "", "").replace("tls = {  }", "");
    assert_eq!(502, larder(&plain, &[("/", &query("select 1 as a", ""))]).get("/").status);
    let other = MariaDb::start("");
    let tls = database("mysql+tls", &format!("127.0.0.1:{}/shop", other.port()), "verify = false", "");
    let cancelled = larder(&tls, &[("/", &query("select 1 as a", ""))]);
    assert_eq!(502, cancelled.get("/").status);
    let log = || cancelled.error_log();
    until("the log says why", || log().contains("it has no TLS"));
}

#[test]
fn postgresql() {
    let authority = Authority::new();
    authority.sign("db", &["db.internal"]);
    let (postgres, port) = Postgres::secure(
        &["wal_level=logical"],
        &authority.path("db.pem"),
        &authority.path("db.key"),
        "create table t (id int primary key, n int); insert into t values (1, 1); create publication larder for table t; \
         alter role larder replication",
    );
    let place = format!("127.0.0.1:{port}/postgres");
    identities("postgres+tls", &place, &authority);
    let tls = format!("ca = {:?}, name = \"db.internal\"", authority.path("ca.pem"));
    let page = query(
        "select n from t where id = :id",
        ", parameters = { id = \"path int\" }, rows = [\"t.id = :id\"]",
    ) + "\ncache = { default_ttl = \"1h\" }";
    let slow = query("select pg_sleep(600)", ", timeout = \"1h\"");
    let followed = database("postgres+tls", &place, &tls, "follow.publication = \"larder\"");
    let larder = larder(&followed, &[("/t/{id}", &page), ("/slow", &slow)]);
    let slots = "select count(*) from pg_replication_slots where active and slot_type = 'logical'";
    until("the database is followed", || postgres.sql(slots) == "1");
    until("the page is a hit", || larder.get("/t/1").is_hit());
    postgres.sql("update t set n = 2");
    until("the page has the new row", || larder.get("/t/1").text() == "[{\"n\":2}]");
    let clear = "select count(*) from pg_stat_ssl s join pg_stat_activity a using (pid) where a.usename = 'larder' and not s.ssl";
    assert_eq!("0", postgres.sql(clear), "every connection is encrypted");
    let mut client = larder.client();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it runs", || {
        postgres.running() >= 1 && postgres.sql("select count(*) from pg_stat_activity where query like '%pg_sleep(600)%' and usename = 'larder'") == "1"
    });
    drop(client);
    until("it is cancelled", || {
        postgres.sql("select count(*) from pg_stat_activity where query like '%pg_sleep(600)%' and usename = 'larder' and state = 'active'") == "0"
    });
}
