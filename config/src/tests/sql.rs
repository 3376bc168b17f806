//! Databases, and the queries of routes.

use super::*;
use crate::Methods;
use larder_semantics::key::QueryPolicy;
use larder_semantics::policy::OnAbort;

const DATABASE: &str = "[[database]]\nname = \"shop\"\nurl = \"postgres://larder@db/shop\"\n";

/// A configuration with a database and a route with these lines, on line 6.
fn text(route: &str) -> String {
    format!("{DATABASE}[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/t/{{id}}\"\n{route}\n")
}

fn told(text: &str) -> Vec<String> {
    match read(text) {
        Ok(config) => config.warnings.iter().map(ToString::to_string).collect(),
        Err(it) => it.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn a_sound_query() {
    let sql = "sql = { query = \"select :id, :q\", parameters = { id = \"path int\", q = \"query.search text?\" } }";
    let config = read(&text(sql)).unwrap();
    let route = &config.sites[0].routes[0];
    assert_eq!(QueryPolicy::Keep(vec!["search".to_owned()]), route.cache.key.query);
    assert_eq!((OnAbort::Cancel, None), (route.cache.on_abort, route.cache.default_ttl));
    assert_eq!(Methods::Only(vec!["GET".to_owned()]), route.methods);
    assert_eq!(Vec::<String>::new(), told(&text(sql)));
    let body = text("sql = { query = \"select :a\", parameters = { a = \"body int\" } }");
    let post = Methods::Only(vec!["POST".to_owned(), "QUERY".to_owned()]);
    assert_eq!(post, read(&body).unwrap().sites[0].routes[0].methods);
}

/// The three formats are the offers of the route, the default first. Other offers, and `Accept` as it was sent, have no use.
#[test]
fn formats_are_offers() {
    let offers = |more: &str| {
        let config = read(&text(&format!("sql = {{ query = \"select 1\"{more} }}"))).unwrap();
        config.sites[0].routes[0].cache.key.accept.list().join(" ")
    };
    assert_eq!("application/json application/x-ndjson text/csv", offers(""));
    assert_eq!("text/csv application/json application/x-ndjson", offers(", format = \"csv\""));
    assert_eq!("", offers(", one_row = true"), "an object has one format");
    assert_eq!("", offers(", write = true, one_row = true"));
    for (key, name) in [("accept = [\"text/html\"]", "accept"), ("headers = [\"Accept\"]", "headers")] {
        let found = told(&text(&format!("sql.query = \"select 1\"\ncache.key = {{ {key} }}")));
        let expect = format!("site.route.cache.key.{name}: no effect: the key of a query has the format");
        assert!(found.len() == 1 && found[0].contains(&expect), "{found:?}");
    }
    let site = format!("cache.key.accept = [\"text/html\"]\n{}", text("sql.query = \"select 1\""));
    assert_eq!(Vec::<String>::new(), told(&site), "for other routes");
}

#[test]
fn pages_that_follow_rows_have_an_order() {
    let check = |expect: bool, query: &str, more: &str| {
        let follow = "follow.publication = \"larder\"\n[[site]]";
        let route =
            format!("sql = {{ query = \"{query}\", rows = [\"t\"]{more} }}\ncache.default_ttl = \"1d\"");
        let found = told(&text(&route).replacen("[[site]]", follow, 1));
        let sentence = "site.route.sql.query: without ORDER BY the rows may come in another order each time";
        assert_eq!(usize::from(expect), found.len(), "{query}: {found:?}");
        assert!(found.iter().all(|it| it.contains(sentence)), "{query}: {found:?}");
    };
    check(true, "select id from t", "");
    check(true, "SELECT a, count(*) AS n FROM t GROUP BY a", "");
    check(false, "select id from t", ", one_row = true");
    check(false, "select id from t ORDER\\n  BY id", "");
    check(false, "select id from t limit 1", "");
    check(false, "select count (*) as n from t", "");
    check(false, "select 1 as one", "");
    // A lookup by a column, which may be no unique one.
    let lookup = |more: &str| {
        let route = format!(
            "sql = {{ query = \"select id from t where shop = :id\", parameters = {{ id = \"path int\" }}, rows = [\"t.shop = :id\"]{more} }}\ncache.default_ttl = \"1d\""
        );
        told(&text(&route).replacen("[[site]]", "follow.publication = \"larder\"\n[[site]]", 1))
    };
    let remedy =
        "changes; set one_row = true if t.shop is unique, otherwise add ORDER BY with a column that is";
    let found = lookup("");
    assert!(found.len() == 1 && found[0].ends_with(remedy), "{found:?}");
    assert_eq!(Vec::<String>::new(), lookup(", one_row = true"));
    let unfollowed = text("sql.query = \"select id from t\"\ncache.default_ttl = \"1d\"");
    assert_eq!(Vec::<String>::new(), told(&unfollowed));
}

#[test]
fn mistakes_of_queries() {
    let one = |route: &str, expect: &str| {
        let found = told(&text(route));
        assert!(found.len() == 1 && found[0].contains(expect), "{route}: {found:?}");
    };
    one("sql = { max_rows = 1 }", "t.toml:6: site.route.sql.query: missing; add the query");
    one(
        "sql = { database = \"shp\", query = \"select 1\" }",
        "site.route.sql.database: no database is named \"shp\"; did you mean \"shop\"?",
    );
    one(
        "sql = { query = \"select :x\" }",
        "site.route.sql.query: the query has the parameter :x, which is not in parameters; add it",
    );
    one("sql = { query = \"select 1; select 2\" }", "only one statement is allowed");
    one(
        "sql = { query = \"delete from t\" }",
        "the query begins with delete, but runs read-only; set write = true",
    );
    one(
        "sql = { query = \"select :a\", parameters = { a = \"path int\" } }",
        "the path \"/t/{id}\" has no capture {a}; add it, or use query.a",
    );
    one(
        "sql = { query = \"select :a\", parameters = { a = \"query integer\" } }",
        "site.route.sql.parameters.a: found \"query integer\"; allowed: \"integer\" is no type",
    );
    one(
        "sql = { query = \"select 1\", one_row = true, format = \"csv\" }",
        "one_row requires format = \"json\"",
    );
    one(
        "methods = [\"DELETE\"]\nsql = { query = \"select 1\" }",
        "found DELETE; allowed for a query without write = true: GET, HEAD, POST, QUERY",
    );
    one(
        "methods = [\"GET\"]\nsql = { query = \"delete from t\", write = true }",
        "found GET; allowed for a query with write = true",
    );
    one(
        "methods = [\"GET\"]\nsql = { query = \"select :a\", parameters = { a = \"body int\" } }",
        "GET has no body, which a parameter needs; use POST or QUERY",
    );
    one("sql = { query = \"select 1\", tags = [\"t:{x}\"] }", "site.route.sql.tags");
    one("sql = \"select 1\"", "write sql = { query = \"select 1\" }");
    one(
        "sql = { query = \"select 1\" }\ncache = { key = { keep = [\"a\"] } }",
        "no effect: the key of a query has the parameters of sql.parameters",
    );
    one("strip = \"/t\"\nsql = { query = \"select 1\" }", "strip");
}

#[test]
fn mistakes_of_databases() {
    let route = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nsql = { query = \"select 1\" }\n";
    let one = |database: &str, expect: &str| {
        let found = told(&format!("{database}\n{route}"));
        assert!(found.len() == 1 && found[0].contains(expect), "{database}: {found:?}");
        assert!(!found[0].contains("geheim"), "{found:?}");
    };
    one("", "site.route.sql.database: no database is configured; add a [[database]] with name and url");
    one("[[database]]\nname = \"a\"", "t.toml:1: database.url: missing");
    one(
        "[[database]]\nurl = \"postgres://a@b/c\"",
        "database.name: missing; add it, such as name = \"shop\"",
    );
    one(
        "[[database]]\nname = \"a\"\nurl = \"postgres://a:geheim@b/c\"",
        "the URL has a password; write it in password",
    );
    one("[[database]]\nname = \"a\"\nurl = \"oracle://a@b/c\"", "postgres://USER@HOST:PORT/DATABASE");
    let twice = "[[database]]\nname = \"a\"\nurl = \"postgres://a@b/c\"\n".repeat(2);
    let found = told(&format!("{twice}{}", route.replace("{ query", "{ database = \"a\", query")));
    assert!(found.len() == 1 && found[0].contains("duplicate database name \"a\""), "{found:?}");
}

#[test]
fn keys_of_another_kind_of_database() {
    let one = |more: &str, expect: &str| {
        let route = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nsql = { query = \"select 1\" }\n";
        let text = format!("[[database]]\nname = \"shop\"\nurl = \"sqlite:/srv/shop.db\"\n{more}\n{route}");
        let found = told(&text);
        match expect {
            "" => assert!(found.is_empty(), "{found:?}"),
            _ => assert!(found.len() == 1 && found[0].contains(expect), "{more}: {found:?}"),
        }
    };
    one("max_connections = 2", "");
    one(
        "follow.publication = \"larder\"",
        "t.toml:4: database.follow.publication: only PostgreSQL has publications; write follow.interval",
    );
    one("follow.interval = \"100ms\"", "");
    one(
        "follow.binlog = true",
        "t.toml:4: database.follow.binlog: only for MariaDB and MySQL; write follow.interval",
    );
    one("follow.interval = \"1ms\"", "t.toml:4: database.follow.interval");
    one("prepare = \"never\"", "t.toml:4: database.prepare: only for poolers of PostgreSQL; remove it");
    one("password = \"geheim\"", "database.password: SQLite has no users");
}

#[test]
fn tls_of_a_database() {
    let one = |url: &str, more: &str, expect: &str| {
        let route =
            "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nsql = { query = \"select 1\", rows = [\"a.t\"] }\n";
        let found = told(&format!("[[database]]\nname = \"shop\"\nurl = \"{url}\"\n{more}\n{route}"));
        match expect {
            "" => assert!(found.is_empty(), "{found:?}"),
            _ => assert!(found.len() == 1 && found[0].contains(expect), "{more}: {found:?}"),
        }
    };
    let ca = "tls = { ca = \"Cargo.toml\" }";
    one("postgres://a@db/shop", ca, "t.toml:4: database.tls.ca: no effect without TLS; write +tls");
    one("mysql+unix://a@/run/m.sock/shop", ca, "database.tls.ca: no effect: the database is on this machine");
    one("mysql+tls://a@db/shop", ca, "not a certificate in PEM");
    one("mysql+tls://a@db/shop", "tls = { client_cert = \"a.pem\" }", "no effect without client_key");
    one("mysql+tls://a@db/shop", "tls = { verify = false }", "the certificate of the server is not verified");
    one("mysql+tls://a@db/shop", "prepare = \"never\"", "only for poolers of PostgreSQL");
    one("mysql://a@db/shop", "follow = { binlog = true, columns = [\"a.b\"] }", "");
    one(
        "mysql://a@db/a",
        "follow.binlog = true",
        "a is the database of its url, whose tables have no name before them; write t",
    );
    one("mysql://a@db/shop", "follow.publication = \"p\"", "write follow.binlog = true");
    one("mysql://a@db/shop", "follow.interval = \"1s\"", "write follow.binlog = true");
    one("mysql://a@db/shop", "", "");
    one("mysql+tls+unix://a@/run/m.sock/shop", "", "a Unix socket needs no TLS");
}

#[test]
fn statements_of_requests() {
    let one = |route: &str, expect: &str| {
        let found = told(&text(route));
        assert!(found.len() == 1 && found[0].contains(expect), "{route}: {found:?}");
    };
    let access = "access.allow = [\"10.0.0.0/8\"]";
    one("sql.raw = \"dbslayer\"", "site.route.sql.raw: every client may run any statement; add access");
    one("sql.raw = \"dbslayer\"\naccess.deny = [\"10.0.0.0/8\"]", "every client may run any statement");
    one(
        &format!("sql = {{ raw = \"dbslayer\", query = \"select 1\" }}\n{access}"),
        "site.route.sql.query: no effect: the request brings the statement (sql.raw); remove it",
    );
    let of = |more: &str| {
        let config = read(&text(&format!("sql = {{ raw = \"dbslayer\" }}\n{access}\n{more}"))).unwrap();
        let route = &config.sites[0].routes[0];
        (route.cache.enabled, route.methods.clone())
    };
    assert_eq!((false, Methods::Only(vec!["GET".to_owned(), "POST".to_owned()])), of(""));
    assert!(of("cache.enabled = true").0);
    let fixed = text(&format!("sql.raw = \"cherokee\"\n{access}")).replace("/t/{id}", "/t");
    let found = told(&fixed);
    assert!(found.len() == 1 && found[0].contains("write path = \"/t/*\""), "{found:?}");
}

#[test]
fn replicas_and_followed_columns() {
    let of = |more: &str| {
        told(&format!("{DATABASE}{more}\n{}", text("sql.query = \"select 1\"").replacen(DATABASE, "", 1)))
    };
    let none = Vec::<String>::new();
    assert_eq!(
        none,
        of(
            "replicas = [\"postgres://u@b/shop weight=2\"]\nfollow = { publication = \"p\", columns = [\"a.b\"] }"
        )
    );
    let one = |more: &str, expect: &str| {
        let found = of(more);
        assert!(found.len() == 1 && found[0].contains(expect), "{more}: {found:?}");
    };
    one("replicas = [\"postgres://u@b/shop heavy\"]", "database.replicas");
    one(
        "follow.columns = [\"a.b\"]",
        "no effect without database.follow.publication or database.follow.binlog",
    );
    one("follow.interval = \"1s\"", "only for files of SQLite; name a publication");
    one("follow = { publication = \"p\", columns = [\"a\"] }", "\"TABLE.COLUMN\"");
}
