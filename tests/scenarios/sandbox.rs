//! The paths that a larder can open under `sandbox`: those of its configuration, and no others, over a reload, a rotation of logs and an
//! upgrade.

use super::privileges::{Service, USER, is_root, shell};
use crate::harness::command;
use crate::harness::server::{Setup, binary};
use crate::harness::{Larder, until};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// A directory that every user may read and write, with a file that every user may read.
fn outside() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(folder.path().join("secret"), "secret\n").unwrap();
    folder
}

/// A site of files whose links are followed.
fn site(top: &str, root: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[log]\naccess = \"logs/access.log\"\nerror = \"logs/error.log\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         files = {{ root = \"{root}\", symlinks = \"follow\", cache_for = \"0s\" }}\n"
    )
}

/// The commands before the start: a root with a planted link to the secret.
fn planted(outside: &Path) -> String {
    format!(
        "mkdir www next logs && chown {USER} logs && echo page > www/page && echo next > next/page && ln -s {}/secret www/secret",
        outside.display()
    )
}

/// The version of Landlock's interface by which a process is restricted.
fn landlock(larder: &Larder) -> Option<u64> {
    let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    stats["privileges"]["landlock"].as_u64()
}

/// Whether the kernel can restrict paths. Where not, the scenario is skipped.
fn is_restricted(service: &Service) -> bool {
    let log = service.read("logs/error.log");
    let is_missing = log.contains("larder serves without rules for paths");
    if is_missing {
        println!("skipped: {log}");
    }
    !is_missing
}

/// Has the kernel of a program answer as one without this system call.
pub fn without_call(command: &mut std::process::Command, call: libc::c_long) {
    use std::os::unix::process::CommandExt as _;
    let step =
        |code: u32, yes, no, k| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: yes, jf: no, k };
    let call = u32::try_from(call).unwrap();
    let missing = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::ENOSYS).unwrap();
    // The number of a system call is the first word of its description.
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, missing),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the kernel reads the filter, which outlives the calls.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it makes system calls alone.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_kernel_without_landlock_is_reported_and_larder_serves() {
    let folder = outside();
    let mut command = std::process::Command::new(binary());
    without_call(&mut command, libc::SYS_landlock_create_ruleset);
    let error = folder.path().join("error.log");
    let root = folder.path().display();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\nsandbox = \"on\"\n[log]\naccess = \"off\"\nerror = {error:?}\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nfiles = {{ root = \"{root}\" }}\n"
    );
    let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
    assert_eq!("secret\n", larder.get("/secret").text());
    let log = std::fs::read_to_string(&error).unwrap();
    assert_eq!(1, log.matches("sandbox-missing").count(), "{log}");
    assert!(log.contains("larder serves without rules for paths"), "{log}");
    assert_eq!(None, landlock(&larder));
}

/// Writes a configuration, and has it read again.
fn reload(service: &Service, config: &str) {
    std::fs::write(service.larder.config(), config).unwrap();
    service.larder.signal(libc::SIGHUP);
}

const REFUSAL: &str = "cannot be read before a restart of larder: its sandbox has the paths of the start";

#[test]
fn a_planted_link_leads_nowhere_and_no_reload_or_upgrade_leaves_the_paths_of_the_start() {
    if !is_root() {
        return;
    }
    let outside = outside();
    let inside = site("user = \"nobody\"", "www");
    let mut service = Service::start(inside.clone(), &planted(outside.path()));
    if !is_restricted(&service) {
        return;
    }
    let get = |service: &Service, path: &str| {
        let answer = service.larder.get(path);
        (answer.status, if answer.status == 200 { answer.text() } else { String::new() })
    };
    let (page, denied) = ((200, "page\n".to_owned()), (403, String::new()));
    assert_eq!((page.clone(), denied.clone()), (get(&service, "/page"), get(&service, "/secret")));
    let abi = landlock(&service.larder);
    assert!(abi.is_some());
    let (folder, admin) = (service.larder.folder.path().to_owned(), service.larder.admin.to_string());
    let output = command::run(&folder, &["stats", "--admin", &admin]).out;
    assert!(output.contains("paths of the configuration only (Landlock ABI"), "{output}");
    // A log that a link has replaced is not written through it.
    let logs = folder.join("logs");
    std::fs::rename(logs.join("access.log"), logs.join("access.log.1")).unwrap();
    symlink(outside.path().join("written"), logs.join("access.log")).unwrap();
    service.larder.signal(libc::SIGUSR1);
    until("the failure is logged", || service.read("logs/error.log").contains("log-not-reopened"));
    assert!(!outside.path().join("written").exists());
    // A reload to a directory outside, and one to a directory beside the first.
    let leaving = site("user = \"nobody\"", outside.path().to_str().unwrap());
    reload(&service, &leaving);
    until("the reload is refused", || service.read("logs/error.log").contains(REFUSAL));
    assert_eq!(page, get(&service, "/page"));
    let ended = command::run(&folder, &["upgrade", "--admin", &admin]);
    assert!(
        ended.code == 1
            && ended.err.contains(REFUSAL)
            && ended.err.contains("larder.toml:13: site.route.files.root"),
        "{ended:?}"
    );
    std::fs::remove_file(logs.join("access.log")).unwrap();
    reload(&service, &site("user = \"nobody\"", "next"));
    until("the reload", || get(&service, "/page") == (200, "next\n".to_owned()));
    // Keys for the next start are no reason to refuse the rest.
    let places = outside.path().display();
    let named =
        format!("user = \"nobody\"\nsandbox_paths = [\"{places}\"]\ncache.disk.path = \"{places}/disk\"");
    reload(&service, &site(&named, "www"));
    until("the reload", || get(&service, "/page") == page);
    // The new process has the rules of the old one.
    std::fs::write(service.larder.config(), inside).unwrap();
    service.upgrade();
    until("the new process serves", || get(&service, "/page") == page);
    assert_eq!((denied, abi), (get(&service, "/secret"), landlock(&service.larder)));
    reload(&service, &leaving);
    let process = libc::pid_t::try_from(service.successor.unwrap()).unwrap();
    // SAFETY: kill takes no pointers; it is the process of this scenario.
    unsafe { libc::kill(process, libc::SIGHUP) };
    until("the reload is refused", || service.read("logs/error.log").matches(REFUSAL).count() >= 2);
}

#[test]
fn a_deployment_that_switches_the_link_of_a_root_is_served_at_once() {
    if !is_root() {
        return;
    }
    let releases = "chmod 755 . && mkdir -p releases/1 releases/2 logs && echo one > releases/1/page && echo two > releases/2/page && ln -s releases/1 www";
    let service =
        Service::start(site("user = \"nobody\"", "www"), &format!("{releases} && chown {USER} logs"));
    assert_eq!("one\n", service.larder.get("/page").text());
    let folder = service.larder.folder.path();
    symlink("releases/2", folder.join("next")).unwrap();
    std::fs::rename(folder.join("next"), folder.join("www")).unwrap();
    assert_eq!("two\n", service.larder.get("/page").text());
}

#[test]
fn the_sandbox_is_also_for_a_user_that_was_never_root_and_off_is_off() {
    if !is_root() {
        return;
    }
    let outside = outside();
    let as_user = format!(
        "{} && exec setpriv --reuid={USER} --regid={USER} --clear-groups \"$@\"",
        planted(outside.path())
    );
    for (top, expect) in [("sandbox = \"on\"", 403), ("", 200)] {
        let mut command = shell(&as_user);
        command.arg(binary());
        let larder = Larder::start_by(command, Setup { config: site(top, "www"), env: Vec::new() });
        assert_eq!(200, larder.get("/page").status);
        let log = std::fs::read_to_string(larder.folder.path().join("logs/error.log")).unwrap();
        if log.contains("larder serves without rules for paths") {
            return println!("skipped: {log}");
        }
        assert_eq!(
            (expect, expect == 403),
            (larder.get("/secret").status, landlock(&larder).is_some()),
            "{log}"
        );
        assert_eq!(expect == 403, log.contains("sandboxed") && log.contains("Landlock ABI"), "{log}");
    }
    let service =
        Service::start(site("user = \"nobody\"\nsandbox = \"off\"", "www"), &planted(outside.path()));
    assert_eq!((200, None), (service.larder.get("/secret").status, landlock(&service.larder)));
}

#[test]
fn programs_of_cgi_have_all_paths_or_those_of_sandbox_paths() {
    if !is_root() {
        return;
    }
    let outside = outside();
    let first = format!(
        "mkdir cgi data logs && chown {USER} logs && echo data > data/file && \
         printf '#!/bin/sh\\nprintf \"Content-Type: text/plain\\\\n\\\\n\"\\ncat {}/secret ../data/file 2>/dev/null\\nexit 0\\n' > cgi/try && chmod 755 cgi/try",
        outside.path().display()
    );
    let config = |top: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\nuser = \"nobody\"\n{top}\n[log]\naccess = \"off\"\nerror = \"logs/error.log\"\n\
             [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\ncgi = {{ root = \"cgi\" }}\n"
        )
    };
    let service = Service::start(config(""), &first);
    assert_eq!(("secret\ndata\n", None), (&*service.larder.get("/try").text(), landlock(&service.larder)));
    let log = service.read("logs/error.log");
    assert!(log.contains("programs of cgi use files that no key names"), "{log}");
    let service = Service::start(config("sandbox_paths = [\"data\"]"), &first);
    if is_restricted(&service) {
        let answer = service.larder.get("/try");
        assert_eq!((200, "data\n"), (answer.status, &*answer.text()), "{answer:?}");
        assert!(landlock(&service.larder).is_some());
    }
}
