//! A start as root that changes to `user`: the rights of the process afterwards, the operations that go on to work, and refused starts.

use super::configuring::admin;
use crate::harness::command::{self, Ended};
use crate::harness::server::{Setup, TOKEN, binary};
use crate::harness::tiers::written;
use crate::harness::{Larder, Origin, until};
use serde_json::Value;
use std::fs::read_to_string;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// `nobody`, a user of every system.
pub(super) const USER: u32 = 65_534;

/// Whether this process is root; where not, the scenario is skipped.
pub(super) fn is_root() -> bool {
    // SAFETY: the call takes no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("skipped: only root can give up root");
    }
    is_root
}

/// A privileged address of this test alone.
fn privileged(number: u8) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{}:80", 64 + number, pid >> 8 & 255, pid & 255)
}

/// larder started as root by a shell, in a folder of the user, after `first`; and its program, which the user may start.
pub(super) struct Service {
    pub(super) larder: Larder,
    _program: tempfile::TempDir,
    pub(super) successor: Option<u32>,
}

impl Service {
    pub(super) fn start(config: String, first: &str) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let program = programs.path().join("larder");
        std::fs::hard_link(binary(), &program)
            .or_else(|_| std::fs::copy(binary(), &program).map(|_| ()))
            .unwrap();
        let mut command = shell(&format!("chmod 755 {} && {first}", programs.path().display()));
        command.arg(&program);
        let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
        Self { larder, _program: programs, successor: None }
    }

    pub(super) fn upgrade(&mut self) {
        let admin = self.larder.admin.to_string();
        let ended = command::run(self.larder.folder.path(), &["upgrade", "--admin", &admin, "--json"]);
        let answer: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
        let process = answer["process"].as_u64().unwrap_or_else(|| panic!("{answer}"));
        self.successor = Some(u32::try_from(process).unwrap());
    }

    pub(super) fn read(&self, name: &str) -> String {
        read_to_string(self.larder.folder.path().join(name)).unwrap_or_default()
    }

    /// The error log, once it has the text: the first answer may come before the last event of the start.
    fn logged(&self, expect: &str) -> String {
        until(expect, || self.read("error.log").contains(expect));
        self.read("error.log")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(process) = self.successor {
            // SAFETY: kill takes no pointers; it is a process of this scenario.
            unsafe { libc::kill(libc::pid_t::try_from(process).unwrap(), libc::SIGKILL) };
        }
    }
}

/// A shell that gives its working directory to the user, runs `first`, and becomes the program of its arguments.
pub(super) fn shell(first: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("chown -R {USER}:{USER} . && {first} && exec \"$@\""), "sh"]);
    // The state directory of this machine is not for tests.
    shell.env("STATE_DIRECTORY", "/nowhere");
    shell
}

/// The filters of system calls that this process has itself, such as those of a container.
fn filters_here() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap();
    let count = status.lines().find_map(|it| it.strip_prefix("Seccomp_filters:"));
    count.map_or(0, |it| it.trim().parse().unwrap())
}

/// Checks every thread of a process.
#[track_caller]
fn check_threads(process: u32) {
    let mut threads = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
        let Ok(status) = read_to_string(thread.path().join("status")) else { continue };
        threads += 1;
        let value = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let own = USER.to_string();
        assert_eq!([&*own; 4].join(" "), value("Uid:"), "{status}");
        assert_eq!([&*own; 4].join(" "), value("Gid:"), "{status}");
        assert_eq!(own, value("Groups:"), "{status}");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!("0000000000000000", value(set), "{set} {status}");
        }
        assert_eq!("1", value("NoNewPrivs:"), "{status}");
        assert_eq!("2", value("Seccomp:"), "{status}");
        assert_eq!(filters_here() + 2, value("Seccomp_filters:").parse::<u64>().unwrap(), "{status}");
    }
    assert!(threads > 2, "{threads} threads");
}

fn over_unix(path: &Path) -> String {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

fn pages() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nserved")
}

fn before(origin: &Origin, listen: &str, more: &str) -> String {
    format!(
        "listen = [{listen}]\nworkers = 2\nuser = \"nobody\"\ngroup = \"{USER}\"\n{more}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         path = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    )
}

#[test]
fn every_thread_has_given_up_root_and_all_that_a_server_does_goes_on() {
    if !is_root() {
        return;
    }
    let (origin, listen) = (pages(), privileged(0));
    let more = format!(
        "[log]\naccess = \"access.log\"\nerror = \"error.log\"\n[admin]\nlisten = \"127.0.0.1:0\"\nsocket = \"admin.sock\"\naudit = \"audit.log\"\n{}",
        "[cache.disk]\npath = \"disk\"\nsize = \"64MiB\"\nsegment_size = \"4MiB\""
    );
    let config = before(&origin, &format!("\"{listen}\", \"unix:web.sock\""), &more);
    let mut service = Service::start(config, "true");
    let larder = &service.larder;
    let at = |name: &str| larder.folder.path().join(name);
    assert_eq!(listen, larder.address.to_string(), "a port that only root can bind");
    check_threads(larder.pid());
    assert_eq!("served", larder.get("/").text());
    assert!(over_unix(&at("web.sock")).ends_with("served"));
    for name in ["web.sock", "admin.sock", "access.log", "error.log", "audit.log", "disk"] {
        assert_eq!(USER, at(name).metadata().unwrap().uid(), "{name}");
    }
    let log = service.logged("root-given-up");
    assert!(log.contains("uid=65534"), "{log}");
    let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    let active = &stats["privileges"];
    assert_eq!((&USER.into(), &USER.into()), (&active["uid"], &active["gid"]), "{active}");
    assert_eq!(
        ("[]", true),
        (
            &*active["capabilities"].to_string(),
            active["no_new_privileges"] == true && active["system_call_filter"] == true
        ),
        "{active}"
    );
    let output = command::run(larder.folder.path(), &["stats", "--admin", &larder.admin.to_string()]);
    assert!(output.out.contains("user 65534") && output.out.contains("no capabilities"), "{}", output.out);
    // A reload, and logs that were rotated.
    let changed = service.read("larder.toml") + "\n# changed\n";
    std::fs::write(at("larder.toml"), changed).unwrap();
    larder.signal(libc::SIGHUP);
    until("the reload", || larder.counter("config_reloads") >= 1);
    std::fs::rename(at("access.log"), at("access.log.1")).unwrap();
    larder.signal(libc::SIGUSR1);
    until("the log is open again", || at("access.log").exists());
    assert_eq!(USER, at("access.log").metadata().unwrap().uid());
    // An upgrade keeps the privileged port, and the pages on disk.
    written(larder, 1);
    service.upgrade();
    check_threads(service.successor.unwrap());
    let larder = &service.larder;
    until("the new process has the disk tier", || {
        let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
        stats["tiers"][1]["state"] == "on" && stats["tiers"][1]["objects"] == 1
    });
    assert_eq!("served", larder.get("/").text());
    assert_eq!(1, origin.requests(), "the page came from the disk tier");
    assert!(!service.read("error.log").contains("user-ignored"));
}

#[test]
fn larder_cannot_read_files_of_root_or_become_root_again() {
    if !is_root() {
        return;
    }
    let config = "listen = [\"127.0.0.1:0\"]\nuser = \"nobody\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/cgi/*\"\ncgi = { root = \"cgi\" }\n\
         [[site.route]]\npath = \"/*\"\nfiles = { root = \"www\", symlinks = \"follow\" }\n";
    // A link to the passwords, a file of root, and a program that runs as root wherever that is allowed.
    let first = "mkdir www cgi && echo page > www/page && ln -s /etc/shadow www/shadow && echo secret > www/own && chmod 600 www/own \
         && cp \"$(command -v id)\" cgi/elevated && chmod 4755 cgi/elevated \
         && printf '#!/bin/sh\\nprintf \"Content-Type: text/plain\\\\n\\\\n\"\\n./elevated -u\\ncat /etc/shadow ../www/own 2>/dev/null\\nunshare -Ur id -u 2>/dev/null\\nexit 0\\n' > cgi/try \
         && chmod 755 cgi/try && chmod 755 cgi www";
    let service = Service::start(config.to_owned(), first);
    let get = |path: &str| service.larder.get(path);
    assert_eq!("page\n", get("/page").text());
    for path in ["/shadow", "/own"] {
        let answer = get(path);
        assert_eq!(403, answer.status, "{path}: {answer:?}");
    }
    let tried = get("/cgi/try");
    assert_eq!((200, "65534\n"), (tried.status, &*tried.text()), "{tried:?}");
}

#[test]
fn without_the_sandbox_system_calls_are_not_filtered() {
    if !is_root() {
        return;
    }
    let config = before(&pages(), "\"127.0.0.1:0\"", "sandbox = \"off\"\n[log]\nerror = \"error.log\"");
    let service = Service::start(config, "true");
    let status = read_to_string(format!("/proc/{}/status", service.larder.pid())).unwrap();
    let value = |name: &str| status.lines().find_map(|it| it.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(filters_here().to_string(), value("Seccomp_filters:"));
    assert_eq!("1", value("NoNewPrivs:"));
    let log = service.logged("root-given-up");
    assert!(!log.contains("sandbox-missing"), "{log}");
}

/// The error output of a start as root that is refused.
fn refused(config: &str, first: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let site = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = { to = [\":1\"] }\n";
    let config = format!("listen = [\"127.0.0.1:0\"]\n{config}\n{site}");
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let mut command = shell(first);
    command.arg(binary()).args(["run", "-c", "larder.toml"]).env("LARDER_ADMIN_TOKEN", TOKEN);
    command.env("XDG_RUNTIME_DIR", folder.path()).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(Some(2), output.status.code(), "{text}");
    text
}

#[test]
fn a_start_that_the_user_cannot_carry_out_is_refused_with_the_remedy() {
    if !is_root() {
        return;
    }
    let user = "user = \"nobody\"\nadmin.enabled = false\n";
    let message = refused("user = \"no-such-user\"", "true");
    assert!(
        message.contains("larder: there is no user \"no-such-user\" on this machine; create it"),
        "{message}"
    );
    let message = refused("user = \"nobody\"\ngroup = \"no-such-group\"", "true");
    assert!(message.contains("there is no group \"no-such-group\""), "{message}");
    let message = refused("user = \"root\"", "true");
    assert!(message.contains("larder.toml:2: user: \"root\" keeps every privilege"), "{message}");
    let remedy = "\"chown -R nobody: PATH\"";
    let message = refused(&format!("{user}log.error = \"logs/error.log\""), "mkdir -m 755 logs");
    assert!(
        message.contains("logs/error.log cannot be opened: permission denied") && message.contains(remedy),
        "{message}"
    );
    let message = refused(&format!("{user}cache.disk.path = \"disk\""), "mkdir -m 700 disk");
    assert!(message.contains("disk") && message.contains(remedy), "{message}");
    let message = refused(user, "chown 0:0 larder.toml && chmod 600 larder.toml");
    assert!(message.contains("larder.toml") && message.contains(remedy), "{message}");
}

#[test]
fn a_start_without_root_keeps_its_user_and_logs_it() {
    if !is_root() {
        return;
    }
    let origin = pages();
    let config = before(&origin, "\"127.0.0.1:0\"", "[log]\nerror = \"error.log\"")
        .replace("\"nobody\"", "\"daemon\"");
    let mut command = shell("true");
    command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
    assert_eq!("served", larder.get("/").text());
    let log = || read_to_string(larder.folder.path().join("error.log")).unwrap_or_default();
    until("user-ignored", || log().contains("user-ignored"));
    assert!(log().contains("larder was not started as root, and keeps user 65534"), "{}", log());
}

#[test]
fn check_warns_of_a_user_that_this_machine_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let text = "user = \"no-such-user\"\n[[site]]\nhosts = [\"*\"]\nroute = [{ proxy = { to = [\"127.0.0.1:1\"] } }]\n";
    std::fs::write(folder.path().join("larder.toml"), text).unwrap();
    let Ended { code, out, err } = command::run(folder.path(), &["check", "-c", "larder.toml"]);
    let expect = "larder.toml:1: user: there is no user \"no-such-user\" on this machine; create it (useradd --system \
                  no-such-user), or name another one; a start as root fails";
    assert!(code == 0 && format!("{out}{err}").contains(expect), "{code} {out} {err}");
}

/// `/run` is empty after a boot: the socket lies in a directory that the start creates for the user.
#[test]
fn a_socket_is_bound_in_a_directory_that_the_start_creates() {
    if !is_root() || !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|it| it.success()) {
        println!("skipped: this process may have no mounts of its own");
        return;
    }
    let origin = pages();
    // The process has a `/run` of its own.
    let first = r#"exec unshare -m sh -c 'mount -t tmpfs -o mode=755 tmpfs /run && exec env -u XDG_RUNTIME_DIR "$0" "$@"' "$@""#;
    let service = Service::start(before(&origin, "\"unix:/run/larder/web.sock\"", ""), first);
    let folder = format!("/proc/{}/root/run/larder", service.larder.child.id());
    let socket = Path::new(&folder).join("web.sock");
    assert!(over_unix(&socket).ends_with("served"));
    let about = [Path::new(&folder), &socket].map(|it| it.metadata().unwrap());
    assert_eq!([USER, USER], about.each_ref().map(MetadataExt::uid));
    assert_eq!(0o666, about[1].mode() & 0o777);
}

/// A configuration without `user`, saved over the admin, ran programs of `cgi` as root after the next start.
#[test]
fn an_operator_of_the_admin_cannot_change_the_user() {
    if !is_root() {
        return;
    }
    let origin = pages();
    let config = before(&origin, "\"127.0.0.1:0\"", "[log]\nerror = \"error.log\"");
    let service = Service::start(config.clone(), "true");
    let log = service.logged("config-writable");
    assert!(log.contains("can be written by the user 65534"), "{log}");
    let (_, report) = admin(&service.larder, "GET", "/api/v1/config", b"");
    let put = |text: &str| {
        let body = serde_json::json!({ "text": text, "base": report["hash"] }).to_string();
        admin(&service.larder, "PUT", "/api/v1/config", body.as_bytes())
    };
    let saved = service.read("larder.toml");
    for (user, key) in
        [("", "user"), ("user = \"daemon\"", "user"), ("user = \"nobody\"\nsandbox = \"off\"", "sandbox")]
    {
        let (status, report) = put(&saved.replace("user = \"nobody\"", user));
        assert_eq!(403, status, "{report}");
        let detail = report["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("{key} decides what the next start as root may do")), "{detail}");
        assert_eq!(saved, service.read("larder.toml"));
    }
    let (status, report) = put(&format!("{saved}\n# another text\n"));
    assert_eq!(200, status, "{report}");
}

/// CGI programs had every right of root, and neither `check`, the start nor the state named it.
#[test]
fn a_start_as_root_that_runs_programs_is_warned_of_and_is_a_state() {
    if !is_root() {
        return;
    }
    let site = "workers = 1\n[log]\nerror = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"bin\"\ncgi.root = \"/\"\n";
    let config = format!("listen = \"127.0.0.1:0\"\n{site}");
    let larder = Larder::start(Setup { config, env: Vec::new() });
    let warning = "user: not set: a start as root keeps every right of root, and the programs of route bin run as root; set user = ";
    let log = || read_to_string(larder.folder.path().join("error.log")).unwrap_or_default();
    until("the start warns", || log().replace('\\', "").contains(warning));
    let Ended { out, err, .. } = command::run(larder.folder.path(), &["check", "-c", "larder.toml"]);
    assert!(format!("{out}{err}").contains(warning), "{out} {err}");
    let (_, health) = admin(&larder, "GET", "/api/v1/health", b"");
    let sentence = health["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with(
            "Healthy. Notice: larder runs as root without `user` (the programs of route bin run as root)"
        ),
        "{health}"
    );
}
