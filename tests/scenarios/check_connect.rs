//! `larder check --connect`: every server of a configuration is contacted, and each failure has its remedy.

use crate::harness::acme_ca::issued_at;
use crate::harness::command::{self, Ended};
use crate::harness::memcached::Memcached;
use crate::harness::origin::Origin;
use crate::harness::postgres::Postgres;
use crate::harness::secure::Authority;
use crate::harness::{closed_address, until};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// A server of another protocol, for one connection.
fn stranger() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        client.write_all(b"220 mail.test ESMTP\r\n").unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    });
    address
}

fn check(text: &str, arguments: &[&str]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("larder.toml"), format!("listen = [\"127.0.0.1:0\"]\n{text}")).unwrap();
    command::run(folder.path(), &[&["check", "-c", "larder.toml"], arguments].concat())
}

fn site(proxy: &str) -> String {
    format!("[[site]]\nhosts = [\"shop.test\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ {proxy} }}\n")
}

/// The faults that no start refuses and every client does.
#[test]
fn certificates_that_clients_reject_or_soon_will_are_named_with_their_line() {
    let authority = Authority::new();
    let now = u64::try_from(issued_at()).unwrap();
    let at = |seconds: u64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now + seconds);
    let certificates = [
        authority.sign("good", &["a.test"]),
        authority.sign_with("old", &["b.test"], |it| it.not_after = rcgen::date_time_ymd(2001, 1, 2)),
        authority.sign_with("short", &["c.test"], |it| it.not_after = at(3 * 86_400)),
        authority.sign_with("early", &["d.test"], |it| it.not_before = at(86_400)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "listen = [\"https://127.0.0.1:0\"]\ntls.certificates = [\n{}]\n{}",
        certificates.join(",\n"),
        site("to = [\"http://127.0.0.1:1\"]")
    );
    std::fs::write(folder.path().join("larder.toml"), text).unwrap();
    let ended = command::run(folder.path(), &["check", "-c", "larder.toml"]);
    let warnings: Vec<&str> = ended.out.lines().filter(|it| it.starts_with("warning: ")).collect();
    for (line, expect) in [
        (4, "old.pem expired on 02 Jan 2001; clients reject it"),
        (5, "short.pem expires on "),
        (6, "early.pem is not valid before "),
    ] {
        let place = format!("larder.toml:{line}: ");
        assert!(warnings.iter().any(|it| it.contains(&place) && it.contains(expect)), "{expect}: {ended:?}");
    }
    assert_eq!((0, 3), (ended.code, warnings.len()), "{ended:?}");
}

#[test]
fn check_contacts_no_server_by_default_and_names_those_it_would() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\n");
    let ended = check(&site(&format!("to = [\"{}\"]", origin.url())), &[]);
    assert_eq!(0, ended.code, "{ended:?}");
    let expect = format!("  not contacted (add --connect): origin {}\n", origin.url());
    assert!(ended.out.ends_with(&expect), "{ended:?}");
    assert_eq!(0, origin.connections());
}

#[test]
fn an_origin_without_a_health_check_gets_no_request() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\n");
    let ended = check(&site(&format!("to = [\"{}\"]", origin.url())), &["--connect"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(ended.out.ends_with(&format!("  origin {}: connected\n", origin.url())), "{ended:?}");
    assert_eq!(0, origin.requests());
}

#[test]
fn the_health_check_is_asked_once_as_a_running_larder_asks() {
    let origin = Origin::new(|asked| match asked.field("host") {
        Some("shop.test") if asked.target() == "/health" => "HTTP/1.1 200 OK\n\nwell".to_owned(),
        _ => "HTTP/1.1 400 Bad Request\n\n".to_owned(),
    });
    let health = |path: &str| format!("to = [\"{}\"], health = {{ path = \"{path}\" }}", origin.url());
    let ended = check(&site(&health("/health")), &["--connect"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(ended.out.contains(": GET /health was answered as proxy.health expects\n"), "{ended:?}");
    assert_eq!(1, origin.requests());
    let ended = check(&site(&health("/wrong")), &["--connect"]);
    assert_eq!(1, ended.code, "{ended:?}");
    let expect = "(larder.toml:6): FAILED: GET /wrong failed: it answered 400. Correct proxy.health.path or proxy.health.status, or the application.\n";
    assert!(ended.out.ends_with(expect), "{ended:?}");
}

#[test]
fn each_failure_has_its_remedy() {
    let failing = |to: &str, why: &str, remedy: &str| {
        let ended = check(&site(&format!("to = [\"{to}\"]")), &["--connect"]);
        assert_eq!(1, ended.code, "{ended:?}");
        let line = ended.out.lines().last().unwrap();
        assert!(line.contains(&format!("origin {to} (larder.toml:6): FAILED: {why}")), "{line}");
        assert!(line.contains(remedy), "{line}");
    };
    let (_closed, port) = closed_address();
    let refused = "the origin cannot be reached: Connection refused. ";
    failing(&format!("http://{port}"), refused, &format!("`ss -ltn | grep {}`", port.port()));
    failing(&format!("fastcgi://{port}"), refused, "Start the application");
    let missing = "the origin cannot be reached: No such file or directory. ";
    failing("scgi+unix:/nonexistent/socket", missing, "or correct the path of its socket");
    failing(
        "http://no-such-name.invalid:80",
        "the origin cannot be reached: the name",
        "`getent hosts no-such-name.invalid`",
    );
    let tls = format!("https://{}", stranger());
    failing(&tls, "TLS handshake with the origin failed", "Set `proxy.tls.ca`");
}

#[test]
fn memcached_answers_in_the_configured_protocol() {
    let fleet = |servers: &str, protocol: &str| {
        let fleet = format!("[cache.fleet]\nservers = [{servers}]\nprotocol = \"{protocol}\"\n");
        let folder = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nfiles = { root = \".\" }\n";
        check(&(fleet + folder), &["--connect"])
    };
    let memcached = Memcached::start();
    for protocol in ["meta", "binary"] {
        let ended = fleet(&format!("\"{}\"", memcached.name()), protocol);
        assert_eq!(0, ended.code, "{ended:?}");
        assert!(
            ended.out.ends_with(&format!("  memcached {}: answered `version`\n", memcached.name())),
            "{ended:?}"
        );
    }
    let address = stranger();
    let ended = fleet(&format!("\"{}\", \"{}\"", memcached.name(), address), "meta");
    assert_eq!(1, ended.code, "{ended:?}");
    assert!(ended.out.contains("answered `version`"), "{ended:?}");
    assert!(ended.out.contains("FAILED: it is no memcached server"), "{ended:?}");
    let (_closed, address) = closed_address();
    let ended = fleet(&format!("\"{address}\""), "meta");
    assert!(
        ended.out.contains("connection refused. Start memcached, or correct cache.fleet.servers."),
        "{ended:?}"
    );
}

#[test]
fn services_of_access_rules_are_contacted() {
    let service = Origin::fixed("HTTP/1.1 204 No Content\n\n");
    let route = |to: &str| {
        format!(
            "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nfiles = {{ root = \".\" }}\naccess.forward = {{ to = \"{to}\" }}\n"
        )
    };
    let ended = check(&route(&service.url()), &["--connect"]);
    assert!(ended.out.ends_with(&format!("  auth service {}: connected\n", service.url())), "{ended:?}");
    assert_eq!((0, 0), (ended.code, service.requests()), "{ended:?}");
    let (_closed, address) = closed_address();
    let ended = check(&route(&format!("http://{address}")), &["--connect"]);
    assert_eq!(1, ended.code, "{ended:?}");
    assert!(ended.out.contains("auth service http://127.0.0.1:"), "{ended:?}");
}

#[test]
fn an_invalid_file_is_reported_before_anything_is_contacted() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\n");
    let ended = check(&(site(&format!("to = [\"{}\"]", origin.url())) + "colour = 1\n"), &["--connect"]);
    assert_eq!(2, ended.code, "{ended:?}");
    assert_eq!(0, origin.connections());
}

#[test]
fn a_database_is_logged_in_to_and_can_be_followed() {
    let postgres = Postgres::with(
        &["wal_level=logical"],
        "create table t (id int primary key); alter role larder replication",
    );
    let database = |more: &str| {
        let route = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/\"\nsql = { query = \"select id from t\", rows = [\"t\"] }\n";
        check(&(postgres.table(more) + route), &["--connect"])
    };
    let ended = database("");
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(
        ended.out.contains("  database pg (")
            && ended.out.ends_with("): connected; it accepts the query of its route\n"),
        "{ended:?}"
    );
    let follow = "follow.publication = \"larder\"";
    let ended = database(follow);
    assert_eq!(1, ended.code, "{ended:?}");
    assert!(
        ended.out.contains("FAILED: it has no publication larder; run `CREATE PUBLICATION larder"),
        "{ended:?}"
    );
    postgres.sql("create publication larder for table t");
    let ended = database(follow);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(
        ended
            .out
            .ends_with("): connected; it accepts the query of its route, and its changes can be followed\n"),
        "{ended:?}"
    );
    until("no slot is left", || postgres.sql("select count(*) from pg_replication_slots") == "0");
}

#[test]
fn queries_permissions_and_slots_of_a_database_are_tried() {
    let statements = "create schema own; create table own.\"Order\" (id int primary key, note text); \
        grant usage on schema own to larder; revoke all on own.\"Order\" from larder; alter role larder replication; \
        create publication \"Lard\"";
    let postgres = Postgres::with(&["wal_level=logical", "max_replication_slots=1"], statements);
    let tried = |query: &str, expect: &str| {
        let database = postgres.table("follow.publication = \"Lard\"");
        let query =
            format!("query = '''{query}''', parameters = {{ id = \"path int\" }}, rows = [\"own.Order\"]");
        let route =
            format!("[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/{{id}}\"\nsql = {{ {query} }}\n");
        let ended = check(&(database + &route), &["--connect"]);
        assert_eq!(!expect.contains("followed"), ended.code == 1, "{ended:?}");
        assert!(ended.out.contains(expect), "{ended:?}");
    };
    let sound = "select note from own.\"Order\" where id = :id";
    tried("select nothing from own.\"Order\" where id = :id", "column \"nothing\" does not exist");
    tried(sound, "permission denied for table Order; run `GRANT SELECT ON … TO larder`");
    postgres.sql("grant select on own.\"Order\" to larder");
    tried(sound, "run `ALTER PUBLICATION \"Lard\" ADD TABLE own.\"Order\"`");
    postgres.sql("alter publication \"Lard\" add table own.\"Order\"");
    postgres.sql("select pg_create_physical_replication_slot('taken')");
    tried(sound, "increase its max_replication_slots");
    postgres.sql("select pg_drop_replication_slot('taken')");
    tried(sound, "its changes can be followed");
}

#[test]
fn a_program_is_no_server() {
    let ended = check(
        "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/cgi/*\"\ncgi = { root = \".\" }\n",
        &["--connect"],
    );
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(!ended.out.contains("connected") && !ended.out.contains("FAILED"), "{ended:?}");
}
