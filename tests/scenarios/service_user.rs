//! Features that open files after the start, each in a larder that was started as root with `user` and its sandbox.

use super::privileges::{Service, USER, is_root};
use crate::harness::acme_ca::AcmeCa;
use crate::harness::memcached::Memcached;
use crate::harness::php::PhpFpm;
use crate::harness::tiers::fleet;
use crate::harness::{Larder, Origin, until};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// A configuration with these lines at the top, and these routes.
fn config(top: &str, routes: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\nuser = \"nobody\"\n{top}\n[log]\naccess = \"access.log\"\nerror = \"error.log\"\n\
         [[site]]\nhosts = [\"*\"]\n{routes}"
    )
}

/// A route for every path.
fn route(lines: &str) -> String {
    format!("[[site.route]]\npath = \"/*\"\n{lines}\n")
}

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory of the user.
fn folder_of_user() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(USER), Some(USER)).unwrap();
    folder
}

fn owner(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|it| panic!("{}: {it}", path.display())).uid()
}

fn pages() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nserved")
}

#[test]
fn the_ram_tier_survives_a_restart() {
    if !is_root() {
        return;
    }
    let (origin, kept) = (pages(), folder_of_user());
    let top = format!("cache.ram.snapshot = \"{}/ram\"", kept.path().display());
    let text = config(&top, &route(&format!("proxy = {{ to = [\"{}\"] }}", origin.url())));
    let mut service = Service::start(text.clone(), "true");
    assert_eq!("served", service.larder.get("/").text());
    service.larder.signal(libc::SIGTERM);
    crate::harness::command::wait(&mut service.larder.child);
    assert_eq!(USER, owner(&kept.path().join("ram")));
    let service = Service::start(text, "true");
    assert!(service.larder.get("/").is_hit(), "{}", service.read("error.log"));
}

#[test]
fn the_token_and_the_run_file_are_those_of_the_user() {
    if !is_root() {
        return;
    }
    let routes = route("respond = { status = 200, body = \"here\" }");
    let service = Service::start(
        config("[admin]\ntoken_file = \"token\"\nlisten = \"127.0.0.1:0\"", &routes),
        "unset LARDER_ADMIN_TOKEN",
    );
    let at = |name: &str| service.larder.folder.path().join(name);
    assert_eq!((USER, 0o600), (owner(&at("token")), at("token").metadata().unwrap().mode() & 0o777));
    let run_files =
        || -> Vec<_> { std::fs::read_dir(at("larder")).into_iter().flatten().flatten().collect() };
    until("the run file", || run_files().len() == 1);
    assert_eq!(USER, owner(&run_files()[0].path()));
    assert_eq!("here", service.larder.get("/").text());
}

#[test]
fn the_body_of_a_request_is_spooled() {
    if !is_root() {
        return;
    }
    let origin = Origin::new(|request| format!("HTTP/1.1 200 OK\n\n{} bytes", request.body.len()));
    let routes = route(&format!("proxy = {{ to = [\"{}\"], buffer_request = true }}", origin.url()));
    let service = Service::start(config("", &routes), "true");
    let answer = service.larder.client().request("POST", "/", "", &"x".repeat(3 << 20));
    assert_eq!((200, "3145728 bytes".to_owned()), (answer.status, answer.text()));
    assert!(!service.read("error.log").contains("spool-off"));
}

#[test]
fn a_database_in_a_file_is_read_and_written() {
    if !is_root() {
        return;
    }
    let folder = folder_of_user();
    let file = folder.path().join("shop.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    let _: String = connection.query_row("pragma journal_mode = wal", [], |it| it.get(0)).unwrap();
    connection
        .execute_batch(
            "create table item (id integer primary key, name text); insert into item values (1, 'a')",
        )
        .unwrap();
    drop(connection);
    std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
    let routes = "[[site.route]]\npath = \"/add\"\nsql = { query = \"insert into item (name) values ('b')\", write = true }\n\
         [[site.route]]\npath = \"/*\"\nsql = { query = \"select count(*) as n from item\" }\n";
    let database = format!("[[database]]\nname = \"lite\"\nurl = \"sqlite:{}\"\n", file.display());
    let service = Service::start(config("", routes) + &database, "true");
    let answer = service.larder.client().request("POST", "/add", "Content-Type: application/json\r\n", "{}");
    assert_eq!(204, answer.status, "{answer:?} {}", service.read("error.log"));
    let answer = service.larder.get("/n");
    assert!(answer.status == 200 && answer.text().contains("\"n\":2"), "{answer:?}");
}

#[test]
fn php_and_memcached_are_reached_by_their_sockets() {
    if !is_root() {
        return;
    }
    let (php, memcached) = (PhpFpm::start(1), Memcached::start());
    for socket in [php.socket(), memcached.socket()] {
        open_to_all(socket.parent().unwrap(), 0o711);
        open_to_all(&socket, 0o666);
    }
    let origin = pages();
    let routes = format!(
        "[[site.route]]\npath = \"/php/*\"\nphp = {{ to = [\"{}\"], root = \"www\" }}\n{}",
        php.name(),
        route(&format!("proxy = {{ to = [\"{}\"] }}", origin.url()))
    );
    let first = "mkdir -p www/php && echo '<?php echo 6 * 7;' > www/php/a.php";
    let service = Service::start(config("", &routes) + &fleet(&[&memcached], ""), first);
    let answer = service.larder.get("/php/a.php");
    assert_eq!((200, "42".to_owned()), (answer.status, answer.text()), "{}", service.read("error.log"));
    assert_eq!("served", service.larder.get("/page").text());
    until("the page is in the fleet", || !memcached.keys().is_empty());
}

#[test]
fn a_certificate_is_obtained_and_kept_over_an_upgrade() {
    if !is_root() {
        return;
    }
    let (ca, state) = (AcmeCa::start(), folder_of_user());
    let text = format!(
        "listen = [\"http://127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\nuser = \"nobody\"\n[tls.acme]\nfolder = {:?}\n{}\n\
         [log]\nerror = \"error.log\"\naccess = \"off\"\n[[site]]\nhosts = [\"a.test\"]\n{}",
        state.path(),
        ca.section(),
        route("respond = { status = 200, body = \"here\" }")
    );
    let mut service = Service::start(text, "true");
    ca.validates_at(service.larder.address);
    let secure = |larder: &Larder| {
        let printed = larder.printed();
        let line = printed.lines().find_map(|it| it.strip_prefix("listening on https://"));
        let address = line.unwrap().trim_end_matches('/').parse().unwrap();
        ca.authority.trusting().connect(address, "a.test").is_ok()
    };
    until("the certificate", || secure(&service.larder));
    service.upgrade();
    assert!(secure(&service.larder), "{}", service.read("error.log"));
    assert_eq!(1, ca.books(|it| it.issued.len()));
}

#[test]
fn a_file_that_a_reload_names_is_read_and_rotated_logs_are_written() {
    if !is_root() {
        return;
    }
    let routes = route("respond = { status = 200, body = \"old\" }");
    let service = Service::start(config("include = [\"conf.d/*.toml\"]", &routes), "mkdir conf.d");
    let at = |name: &str| service.larder.folder.path().join(name);
    std::fs::write(at("page.html"), "new").unwrap();
    let more = "[[site]]\nhosts = [\"b.test\"]\n[[site.route]]\npath = \"/*\"\nrespond = { status = 200, file = \"../page.html\" }\n";
    std::fs::write(at("conf.d/b.toml"), more).unwrap();
    service.larder.signal(libc::SIGHUP);
    let lines = "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";
    until("the included site", || {
        let mut client = service.larder.client();
        client.send(lines);
        client.read().text() == "new"
    });
    for name in ["access.log", "error.log"] {
        std::fs::rename(at(name), at(&format!("{name}.1"))).unwrap();
    }
    service.larder.signal(libc::SIGUSR1);
    until("the logs are open again", || at("access.log").exists() && at("error.log").exists());
    assert_eq!("old", service.larder.get("/").text());
    until("the access log is written", || !service.read("access.log").is_empty());
}
