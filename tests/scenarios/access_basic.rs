//! Users and passwords before a route: users alone are admitted, and no page of one user is ever given to another client.

use super::access::larder;
use crate::harness::command::run;
use crate::harness::http2::{Http2, request};
use crate::harness::{Client, Larder, Origin, until};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

pub const ALICES: &str = "Authorization: Basic YWxpY2U6d29uZGVybGFuZA==\r\n";
pub const BOBS: &str = "Authorization: Basic Ym9iOmJ1aWxkZXI=\r\n";
const WRONG: &str = "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n";
const UNKNOWN: &str = "Authorization: Basic bm9uZTp3b25kZXJsYW5k\r\n";

/// The line of a user, from Apache's program.
fn htpasswd(options: &str, user: &str, password: &str) -> String {
    let made = Command::new("htpasswd")
        .args([options, user, password])
        .output()
        .expect("apache2-utils is installed");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

pub fn users() -> [String; 2] {
    [htpasswd("-nbB", "alice", "wonderland"), htpasswd("-nbB", "bob", "builder")]
}

/// A larder whose only route has these lines in `access` beside alice and bob.
fn guarded(origin: &Origin, access: &str) -> Larder {
    let [alice, bob] = users();
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\ncache = {{ default_ttl = \"600s\" }}\n\
         access = {{ basic = {{ realm = \"a \\\"b\\\"\", users = [\"{alice}\", \"{bob}\"] }}{access} }}\n"
    );
    larder(origin, &site)
}

/// A page that tells which request it was made for.
fn counting() -> Origin {
    let count = std::sync::atomic::AtomicUsize::new(1);
    Origin::new(move |_| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\npage {number}")
    })
}

#[test]
fn only_users_are_admitted_and_by_default_nothing_is_stored() {
    let origin = counting();
    let larder = guarded(&origin, "");
    let mut client = larder.client();
    for lines in ["", WRONG, UNKNOWN, "Authorization: Bearer x\r\n"] {
        for method in ["GET", "HEAD", "POST", "PURGE"] {
            let refused = client.request(method, "/", lines, "");
            assert_eq!(401, refused.status, "{method} {lines}");
            assert_eq!(Some("Basic realm=\"a 'b'\", charset=\"UTF-8\""), refused.field("www-authenticate"));
        }
    }
    assert_eq!(0, origin.requests());
    assert_eq!("page 1", client.get_with("/", ALICES).text());
    assert_eq!("page 2", client.get_with("/", ALICES).text());
    assert_eq!("page 3", client.get_with("/", BOBS).text());
    assert_eq!(401, client.get("/").status);
    let mut http2 = Http2::connect(&larder);
    assert_eq!(401, http2.get("/").status);
    let stream = http2.head(&request("GET", "/", &[("authorization", "Basic YWxpY2U6d29uZGVybGFuZA==")]), 5);
    assert_eq!("page 4", http2.answer(stream).text());
    for it in origin.received() {
        assert_eq!(None, it.field("authorization"), "the password stays here");
    }
}

#[test]
fn with_the_identity_in_the_key_each_user_has_a_cache() {
    let origin = counting();
    let larder = guarded(&origin, ", key = \"identity\"");
    let mut client = larder.client();
    assert_eq!("page 1", client.get_with("/", ALICES).text());
    until("it is stored", || larder.client().get_with("/", ALICES).is_hit());
    assert_eq!("page 2", client.get_with("/", BOBS).text());
    for (lines, expect) in [(ALICES, "page 1"), (BOBS, "page 2")] {
        let hit = client.get_with("/", lines);
        assert_eq!((true, expect.to_owned()), (hit.is_hit(), hit.text()));
    }
    for lines in ["", WRONG, UNKNOWN, ":identity: basic:alice\r\n"] {
        assert!(matches!(larder.client().get_with("/", lines).status, 400 | 401), "{lines}");
    }
    let mut http2 = Http2::connect(&larder);
    let stream = http2.head(&request("GET", "/", &[("authorization", "Basic Ym9iOmJ1aWxkZXI=")]), 5);
    assert_eq!("page 2", http2.answer(stream).text());
    for it in origin.received() {
        assert_eq!((None, None), (it.field("authorization"), it.field(":identity")));
    }
    assert_eq!(2, origin.requests());
}

#[test]
fn a_shared_page_is_shared_only_among_users() {
    let origin = counting();
    let larder = guarded(&origin, ", shared = true");
    let mut client = larder.client();
    assert_eq!("page 1", client.get_with("/", ALICES).text());
    until("it is stored", || larder.client().get_with("/", ALICES).is_hit());
    // The password of bob is verified first.
    assert_eq!("page 1", client.get_with("/", BOBS).text());
    assert_eq!([401; 3], ["", WRONG, UNKNOWN].map(|it| larder.client().get_with("/", it).status));
    assert_eq!(401, Http2::connect(&larder).get("/").status);
    assert_eq!(1, origin.requests());
}

/// A rule of the site about its visitors is no statement about the users of a route.
#[test]
fn a_shared_rule_of_the_site_shares_no_page_of_a_user() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: public, max-age=60\n\npage");
    let [alice, bob] = users();
    let basic = format!("basic = {{ users = [\"{alice}\", \"{bob}\"] }}");
    let site = format!(
        "access = {{ deny_when = 'header.User-Agent ~ \"bot\"', shared = true }}\n\
         [[site.route]]\npath = \"/own/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ {basic} }}\n\
         [[site.route]]\npath = \"/said/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ {basic}, shared = true }}\n\
         [[site.route]]\npath = \"/list/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.allow = [\"127.0.0.1\"]\n\
         [[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n"
    );
    let larder = larder(&origin, &site);
    for (path, is_hit, lifetime) in [
        ("/own/a", false, "private"),
        ("/said/a", true, "max-age=60"),
        ("/list/a", true, "private"),
        ("/a", true, "max-age=60"),
    ] {
        let first = larder.client().get_with(path, ALICES);
        let second = larder.client().get_with(path, BOBS);
        assert_eq!((200, is_hit), (second.status, second.is_hit()), "{path}: {second:?}");
        for answer in [first, second] {
            let found = answer.field("cache-control").unwrap_or_default();
            assert!(found.contains(lifetime), "{path}: {found}");
        }
    }
    let check = run(larder.folder.path(), &["check"]);
    let lines: Vec<&str> = check.out.lines().filter(|it| it.contains("site.route.access.shared")).collect();
    assert!(
        lines.len() == 2 && lines[0].contains(":9: ") && lines[0].contains("basic.users of the route"),
        "{check:?}"
    );
}

#[test]
fn a_client_that_its_address_admits_gets_no_page_of_a_user() {
    for key in ["", ", key = \"identity\""] {
        let origin = counting();
        let larder = guarded(&origin, &format!(", allow = [\"127.0.0.2\"], satisfy = \"any\"{key}"));
        let near = || Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
        assert_eq!(401, larder.get("/").status);
        let pages = [larder.client().get_with("/", ALICES).text(), near().get("/").text()];
        assert_eq!(["page 1", "page 2"], pages.each_ref().map(String::as_str), "{key}");
        let again = [larder.client().get_with("/", ALICES).text(), near().get("/").text()];
        assert!(key.is_empty() || again == pages, "{again:?}");
        assert!(!again[1].contains("page 1"));
        assert!(near().get_with("/", ALICES).text() != "page 1", "its credentials were not looked at");
    }
}

#[test]
fn satisfy_all_requires_an_address_and_a_password() {
    let origin = counting();
    let larder = guarded(&origin, ", allow = [\"127.0.0.1\"]");
    assert_eq!(401, larder.get("/").status);
    assert_eq!(200, larder.client().get_with("/", ALICES).status);
    let far = || Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!(403, far().get_with("/", ALICES).status);
}

#[test]
fn a_network_with_many_wrong_passwords_has_to_wait() {
    let origin = counting();
    let larder = guarded(&origin, "");
    larder.hold();
    let mut client = larder.client();
    assert_eq!(200, client.get_with("/", ALICES).status);
    let wrong: Vec<_> = (0..30).map(|_| client.get_with("/", WRONG).status).collect();
    assert_eq!(
        (21, 9),
        (wrong.iter().filter(|it| **it == 401).count(), wrong.iter().filter(|it| **it == 429).count())
    );
    // A remembered password is not verified again.
    assert_eq!(200, client.get_with("/", ALICES).status);
    assert_eq!(429, client.get_with("/", BOBS).status);
    let far = || Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!(200, far().get_with("/", BOBS).status);
}

/// larder whose route has the users of a file.
fn with_password_file(origin: &Origin, file: &Path) -> Larder {
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ basic = {{ file = \"{}\" }} }}\n",
        file.display()
    );
    larder(origin, &site)
}

#[test]
fn a_password_file_is_read_again_and_a_broken_one_is_not() {
    let origin = counting();
    let [alice, bob] = users();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("htpasswd");
    std::fs::write(&file, format!("{alice}\n")).unwrap();
    let larder = with_password_file(&origin, &file);
    let status = |lines: &str| larder.client().get_with("/", lines).status;
    assert_eq!([200, 401], [ALICES, BOBS].map(status));
    std::fs::write(&file, format!("{alice}\nbob:{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")).unwrap();
    until("it is looked at", || {
        larder.pass(1001);
        status(ALICES) == 200 && larder.counter("access_files_broken") == 1
    });
    assert_eq!([200, 401], [ALICES, BOBS].map(status));
    let health = || larder.admin_get("/api/v1/health").text();
    let shown = format!("the file {} cannot be used since ", file.display());
    let report = health();
    assert!(
        report.contains("access-file-broken") && report.contains(&shown) && report.contains("(line 2: "),
        "{report}"
    );
    let metrics = larder.admin_get("/metrics").text();
    assert!(metrics.contains("{finding=\"access-file-broken\",severity=\"degraded\"} 1"), "{metrics}");
    std::fs::write(&file, format!("{bob}\n")).unwrap();
    until("it is read", || {
        larder.pass(1001);
        status(BOBS) == 200
    });
    assert_eq!(401, status(ALICES), "a user who was removed is not remembered");
    assert!(!health().contains("access-file-broken"), "{}", health());
}

/// A full disk, or an editor that truncates a file before it writes, does not shut all users out. It is shown also if no client comes.
#[test]
fn an_emptied_or_missing_password_file_changes_nothing_and_is_shown() {
    let origin = counting();
    let [alice, _] = users();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("htpasswd");
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ basic = {{ file = \"{}\" }} }}\n",
        file.display()
    );
    std::fs::write(&file, format!("{alice}\n")).unwrap();
    let larder = larder(&origin, &site);
    let broken = |why: &str| {
        until("it is shown", || {
            larder.pass(1001);
            let response = larder.admin_get("/api/v1/health").text();
            response.contains("access-file-broken") && response.contains(why)
        });
        assert_eq!(200, larder.client().get_with("/", ALICES).status, "{why}");
    };
    std::fs::write(&file, "# nobody\n\n").unwrap();
    broken("it has no users");
    std::fs::remove_file(&file).unwrap();
    broken("no such file");
    assert_eq!(1, larder.counter("access_files_broken"));
    std::fs::write(&file, format!("{alice}\n")).unwrap();
    until("it is good again", || {
        larder.pass(1001);
        !larder.admin_get("/api/v1/health").text().contains("access-file-broken")
    });
}

/// Writes the configuration with `new` in place of `old`, as an editor does.
fn edit(larder: &Larder, old: &str, new: &str) {
    let text = std::fs::read_to_string(larder.config()).unwrap();
    assert!(text.contains(old), "{text}");
    std::fs::write(larder.config(), text.replace(old, new)).unwrap();
}

/// A reload that makes rules stricter does not wait for the repair of a password file.
#[test]
fn a_reload_with_a_broken_password_file_keeps_its_users() {
    let origin = counting();
    let [alice, bob] = users();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("htpasswd");
    std::fs::write(&file, format!("{alice}\n")).unwrap();
    let larder = with_password_file(&origin, &file);
    let status = |lines: &str| larder.client().get_with("/", lines).status;
    let far =
        || Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address).get_with("/", ALICES).status;
    assert_eq!([200, 200], [status(ALICES), far()]);
    std::fs::write(&file, "garbage\n").unwrap();
    edit(&larder, "[log]\n", "[log]\nerror = \"error.log\"\n");
    edit(&larder, "access = { ", "access = { deny = [\"127.0.0.2\"], ");
    until("the stricter rule is in force", || far() == 403);
    assert_eq!([200, 401], [ALICES, BOBS].map(status));
    assert_eq!(0, larder.counter("config_rejections"));
    let log = || larder.error_log();
    let warning = format!("{}: line 1: not NAME:HASH", file.display());
    until("the log warns", || {
        log().contains(&warning) && log().contains("the content that was read before stays in force")
    });
    let health = || larder.admin_get("/api/v1/health").text();
    assert!(health().contains("access-file-broken"), "{}", health());
    let checked = run(larder.folder.path(), &["check", "-c", larder.config().to_str().unwrap()]);
    assert!(checked.code == 2 && checked.err.contains(&warning), "a new process has no users: {checked:?}");
    std::fs::write(&file, format!("{bob}\n")).unwrap();
    until("the repaired file is read", || {
        larder.pass(1001);
        status(BOBS) == 200
    });
    assert_eq!(401, status(ALICES));
    assert!(!health().contains("access-file-broken"), "{}", health());
}

/// `rsync --inplace --times` and `cp -p` change a file so.
#[test]
fn a_password_file_that_keeps_its_size_and_time_is_read_again() {
    let origin = counting();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("htpasswd");
    let [first, second] = ["wonderland", "another"].map(|it| htpasswd("-nbB", "alice", it));
    assert_eq!(first.len(), second.len());
    std::fs::write(&file, &first).unwrap();
    let larder = with_password_file(&origin, &file);
    assert_eq!(200, larder.client().get_with("/", ALICES).status);
    let time = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&file, &second).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    until("it is read", || {
        larder.pass(1001);
        larder.client().get_with("/", ALICES).status == 401
    });
}

/// The file of a new path has no earlier content: the reload is rejected, and tried again when the file changes.
#[test]
fn a_reload_that_was_rejected_for_a_broken_file_is_tried_again_after_its_repair() {
    let origin = counting();
    let [alice, bob] = users();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("first"), format!("{alice}\n")).unwrap();
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ basic = {{ file = \"{}\" }} }}\n",
        at("first").display()
    );
    let larder = larder(&origin, &site);
    let status = |lines: &str| larder.client().get_with("/", lines).status;
    std::fs::write(at("second"), "garbage\n").unwrap();
    edit(&larder, "/first\"", "/second\"");
    until("the reload is rejected", || larder.counter("config_rejections") >= 1);
    let health = || larder.admin_get("/api/v1/health").text();
    assert!(health().contains("not NAME:HASH"), "{}", health());
    assert_eq!([200, 401], [ALICES, BOBS].map(status));
    std::fs::write(at("second"), format!("{bob}\n")).unwrap();
    until("the configuration is in force", || status(BOBS) == 200);
    assert_eq!(401, status(ALICES));
    assert!(!health().contains("not NAME:HASH"), "{}", health());
}

#[test]
fn weak_hashes_are_refused_at_load() {
    for (options, why) in [("-nbs", "SHA-1"), ("-nbd", "DES crypt"), ("-nbp", "plain")] {
        let line = htpasswd(options, "alice", "wonderla");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("larder.toml");
        let text = format!(
            "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\":1\"] }}\naccess = {{ basic = {{ users = [\"{line}\"] }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let checked =
            Command::new(crate::harness::server::binary()).args(["check", "-c"]).arg(&file).output().unwrap();
        let report = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert_eq!(Some(2), checked.status.code(), "{report}");
        assert!(
            report.contains(why) && report.contains("larder.toml:5") && !report.contains(&line),
            "{report}"
        );
    }
}

/// `larder serve --basic-auth`: a hash of argon2id has commas, and each flag is one user.
#[test]
fn serve_with_passwords() {
    let argon2 = "ann:$argon2id$v=19$m=4096,t=2,p=2$bGFyZGVyU2FsdDE2Ynl0ZQ$mOfEHw9XB50Sl9kCgU8ntlgvg8eXl/pmYVhKtIXjWWQ";
    let [alice, bob] = users();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page.txt"), "the page").unwrap();
    let (path, listen) = (folder.path().to_str().unwrap(), "127.0.0.1:0");
    let text = folder.path().join("said").display().to_string();
    let arguments = ["serve", path, "--listen", listen, "--admin", listen, "--basic-auth", argon2];
    let more = ["--basic-auth", &alice, "--basic-auth", &bob];
    let larder = Larder::within(&format!("exec 2> {text}"), &[&arguments[..], &more].concat());
    let mut client = larder.client();
    for lines in ["", WRONG, UNKNOWN] {
        assert_eq!(401, client.get_with("/page.txt", lines).status, "{lines}");
    }
    let anns = "Authorization: Basic YW5uOmNvcnJlY3QgaG9yc2U=\r\n";
    for lines in [anns, ALICES, BOBS] {
        let answer = client.get_with("/page.txt", lines);
        assert_eq!((200, "the page"), (answer.status, answer.text().as_str()), "{lines}");
    }
    let text = std::fs::read_to_string(text).unwrap();
    assert!(text.contains("passwords are sent in clear text") && !text.contains("$argon2id$"), "{text}");
    let wrong = run(folder.path(), &["serve", path, "--listen", listen, "--basic-auth", "ann:SECRET,hash"]);
    assert_eq!(2, wrong.code, "{wrong:?}");
    assert!(wrong.err.contains("--basic-auth") && !wrong.err.contains("SECRET"), "{wrong:?}");
}

/// `htpasswd` writes `$apr1$` unless it is asked for bcrypt: sites move with such files.
#[test]
fn files_with_hashes_of_apache_are_valid() {
    let origin = counting();
    let site = format!(
        "[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.basic.users = [\"{}\", \"{}\"]\n",
        htpasswd("-nbm", "alice", "wonderland"),
        htpasswd("-nbB", "bob", "builder")
    );
    let larder = larder(&origin, &site);
    for (lines, expect) in
        [(ALICES, 200), (BOBS, 200), (WRONG, 401), (UNKNOWN, 401), (ALICES, 200), ("", 401)]
    {
        assert_eq!(expect, larder.client().get_with("/", lines).status, "{lines}");
    }
}

/// The user's name reaches the origin and the log from larder alone, as a miss and as a hit.
#[test]
fn the_name_of_the_user_is_a_variable() {
    let origin = Origin::new(|it| {
        let of = |name: &str| it.field(name).unwrap_or("none").to_owned();
        format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\n{} {}", of("x-user"), of("x_user"))
    });
    let [alice, bob] = users();
    let access = format!("basic = {{ users = [\"{alice}\", \"{bob}\"] }}");
    let fields = "request_headers.set = { X-User = \"{remote_user}\" }\nresponse_headers.set = { X-For = \"<{remote_user}>\" }";
    let route = |path: &str, access: &str| {
        format!(
            "[[site.route]]\npath = \"{path}\"\nproxy = {{ to = [\"{{origin}}\"] }}\n{fields}\n{access}\n"
        )
    };
    let site = [
        route("/key/*", &format!("access = {{ key = \"identity\", {access} }}")),
        route("/shared/*", &format!("access = {{ shared = true, {access} }}")),
        "[[site.route]]\npath = \"/own\"\nrespond.body = \"hello {remote_user}\"\naccess = { ".to_owned()
            + &access
            + " }\n",
        route("/any/*", &format!("access = {{ satisfy = \"any\", allow = [\"127.0.0.1\"], {access} }}")),
        route("/*", &format!("access = {{ {access} }}")),
        "[log]\naccess = \"a.log\"\nformat = '{user} {target}'\n".to_owned(),
    ];
    let larder = larder(&origin, &site.concat());
    let forged = "X-User: root\r\nX_User: root\r\n:user: root\r\n".replace(":user: root\r\n", "");
    let fetch = |target: &str, lines: &str| {
        let it = larder.client().get_with(target, &format!("{lines}{forged}"));
        (it.text(), it.field("x-for").unwrap_or("").to_owned(), it.is_hit())
    };
    for (lines, name) in [(ALICES, "alice"), (BOBS, "bob")] {
        let page = format!("{name} none");
        let field = format!("<{name}>");
        for is_hit in [false, true] {
            assert_eq!((page.clone(), field.clone(), is_hit), fetch("/key/a", lines));
        }
        for _ in 0..2 {
            assert_eq!((page.clone(), field.clone(), false), fetch("/a", lines));
        }
        assert_eq!(format!("hello {name}"), fetch("/own", lines).0);
        // A shared page is made for no user, and its field is that of the client who gets it.
        let shared = fetch("/shared/a", lines);
        assert_eq!(("none none", field.as_str()), (shared.0.as_str(), shared.1.as_str()));
    }
    assert_eq!("none none", fetch("/any/a", "").0, "no user without credentials");
    assert_eq!(401, larder.client().get_with("/a", WRONG).status);
    let mut http2 = Http2::connect(&larder);
    let alice = ("authorization", "Basic YWxpY2U6d29uZGVybGFuZA==");
    for path in ["/key/a", "/b"] {
        let stream = http2.head(&request("GET", path, &[alice, ("x-user", "root")]), 5);
        assert_eq!("alice none", http2.answer(stream).text(), "{path}");
    }
    for it in origin.received() {
        assert!(!it.head.contains(":user") && !it.head.contains("root"), "{}", it.head);
    }
    let log = || std::fs::read_to_string(larder.folder.path().join("a.log")).unwrap_or_default();
    // Each worker writes its own lines.
    for line in ["alice /key/a", "alice /b", "bob /key/a", "bob /own", "- /any/a", "- /a"] {
        until(line, || log().lines().any(|it| it == line));
    }
}
