//! The RAM tier over restarts: the pages that are warm, those that must not return, and every obstacle.

use crate::harness::command::wait;
use crate::harness::origin::Gate;
use crate::harness::server::{Setup, binary};
use crate::harness::{Larder, Origin, until};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// A larder that is started several times with the files of one folder.
struct Restarts {
    folder: tempfile::TempDir,
    origin: Origin,
    gate: Arc<Gate>,
}

fn pages(gate: Arc<Gate>) -> Origin {
    Origin::new(move |request| match request.target() {
        "/slow" => {
            gate.pass();
            "HTTP/1.1 200 OK\n\nslow".to_owned()
        }
        "/short" => "HTTP/1.1 200 OK\nCache-Control: max-age=30\n\nshort".to_owned(),
        "/stale" => {
            "HTTP/1.1 200 OK\nCache-Control: max-age=30, stale-while-revalidate=600\n\nstale".to_owned()
        }
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", "x".repeat(200_000)),
        path => format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Tag: {}\nContent-Type: text/html\n\npage {path}",
            path.trim_start_matches('/')
        ),
    })
}

impl Restarts {
    fn new() -> Self {
        let gate = Gate::new();
        Self { folder: tempfile::tempdir().unwrap(), origin: pages(gate.clone()), gate }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("ram")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    /// Waits until the log has this text.
    fn logged(&self, text: &str) {
        until(text, || self.log().contains(text));
    }

    fn start(&self) -> Larder {
        self.start_with("", "")
    }

    fn start_with(&self, top: &str, cache: &str) -> Larder {
        let _ = std::fs::remove_file(self.folder.path().join("error.log"));
        let folder = self.folder.path().display();
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\ncache.ram.snapshot = \"{folder}/ram\"\nlog.access = \"off\"\nlog.error = \"{folder}/error.log\"\n{top}\n\
             [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\ncache = {{ {cache} }}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n# The [log] is above.\n",
            self.origin.url()
        );
        Larder::start_by(Command::new(binary()), Setup { config, env: Vec::new() })
    }

    /// Requests every page, of which each is stored afterwards.
    fn fill(&self, larder: &Larder) {
        for target in ["/a", "/b", "/c", "/short", "/stale", "/large"] {
            assert_eq!(200, larder.get(target).status);
            assert!(larder.get(target).is_hit(), "{target}");
        }
    }

    /// One start that fills RAM, and its stop.
    fn written(&self) {
        let larder = self.start();
        self.fill(&larder);
        stop(larder);
        assert!(self.file().exists(), "{}", self.log());
    }
}

fn stop(mut larder: Larder) {
    larder.signal(libc::SIGTERM);
    assert_eq!(Some(0), wait(&mut larder.child).code());
}

#[test]
fn a_restart_starts_warm() {
    let it = Restarts::new();
    it.written();
    assert_eq!(0o600, std::fs::metadata(it.file()).unwrap().permissions().mode() & 0o777);
    it.logged("ram-saved");
    let before = it.origin.requests();
    let larder = it.start();
    assert!(!it.file().exists(), "it is used once");
    assert_eq!(6, larder.counter("ram_restored"), "{}", it.log());
    it.logged("ram-restored");
    for (target, text) in [("/a", "page /a"), ("/b", "page /b"), ("/short", "short")] {
        let answer = larder.get(target);
        assert!(answer.is_hit(), "{target}");
        assert_eq!(text, answer.text());
        assert_eq!(None, answer.field("x-unknown"));
    }
    assert_eq!(200_000, larder.get("/large").text().len());
    assert_eq!(before, it.origin.requests());
    // A killed process leaves nothing, and the next start is cold.
    drop(larder);
    let larder = it.start();
    assert_eq!(0, larder.counter("ram_restored"));
    assert!(!larder.get("/a").is_hit());
}

#[test]
fn purges_and_expiry_hold_over_a_restart() {
    let it = Restarts::new();
    let larder = it.start();
    it.fill(&larder);
    let receipt = larder.admin_post("/api/v1/purge", r#"{"tag":"a"}"#).text();
    assert!(receipt.contains("\"complete\":true"), "{receipt}");
    let receipt = larder.admin_post("/api/v1/purge", r#"{"tag":"b","soft":true}"#);
    assert_eq!(200, receipt.status, "{receipt:?}");
    // An unsafe method invalidates the page, too.
    larder.client().request("POST", "/c", "", "x");
    stop(larder);
    let larder = it.start();
    assert_eq!(3, larder.counter("ram_restored"), "{}", it.log());
    for target in ["/a", "/b", "/c"] {
        assert!(!larder.get(target).is_hit(), "{target}");
    }
    assert!(larder.get("/short").is_hit());
    // A purge of this process reaches what the other one stored.
    larder.admin_post("/api/v1/purge", r#"{"url":"http://127.0.0.1/large"}"#);
    larder.advance(31);
    assert!(!larder.get("/short").is_hit(), "its lifetime went on");
    let age: u64 = larder.get("/stale").field("age").unwrap().parse().unwrap();
    assert!(age >= 31, "{age}");
}

#[test]
fn other_settings_of_keys_start_cold() {
    let it = Restarts::new();
    let cold = |cache: &str, top: &str| {
        it.written();
        let larder = it.start_with(top, cache);
        assert_eq!(0, larder.counter("ram_restored"));
        assert!(!larder.get("/a").is_hit());
        it.logged("it was written with other settings of");
        drop(larder);
    };
    cold("key = { drop = [\"x\"] }", "");
    cold("", "clients.trusted = [\"10.0.0.1\"]");
    it.written();
    let larder = it.start_with("cache.ram.size = \"64MiB\"\nlimits.drain_timeout = \"3s\"", "");
    assert!(larder.get("/a").is_hit(), "{}", it.log());
}

/// Starts with a file that `change` has changed; the log then has `expect`.
#[track_caller]
fn check_refused(it: &Restarts, change: impl FnOnce(&Path), expect: &str) {
    it.written();
    change(&it.file());
    let larder = it.start();
    assert_eq!(0, larder.counter("ram_restored"), "{expect}");
    assert!(!larder.get("/a").is_hit(), "{expect}");
    it.logged("ram-not-restored");
    it.logged(expect);
    drop(larder);
}

#[test]
fn a_damaged_or_foreign_snapshot_starts_cold() {
    let it = Restarts::new();
    let damage = |at: usize| {
        move |path: &Path| {
            use std::os::unix::fs::FileExt as _;
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
            let at = at as u64 * file.metadata().unwrap().len() / 100;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        }
    };
    for at in [1, 30, 60, 99] {
        check_refused(&it, damage(at), "the RAM tier starts empty");
    }
    check_refused(
        &it,
        |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(5000).unwrap(),
        "it is truncated or damaged",
    );
    check_refused(
        &it,
        |path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap(),
        "other users could change it",
    );
    check_refused(
        &it,
        |path| {
            let copy = path.with_extension("copy");
            std::fs::copy(path, &copy).unwrap();
            std::fs::rename(copy, path).unwrap();
        },
        "a copy is not used",
    );
}

#[test]
fn a_full_disk_ends_the_stop_without_a_file() {
    let it = Restarts::new();
    let larder = it.start();
    it.fill(&larder);
    let limit = libc::rlimit { rlim_cur: 50_000, rlim_max: libc::RLIM_INFINITY };
    let pid = libc::pid_t::try_from(larder.pid()).unwrap();
    // SAFETY: the limit is read before the call returns; no old one is written.
    let done = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(0, done);
    stop(larder);
    let log = it.log();
    assert!(log.contains("ram-not-saved") && log.contains("stopped"), "{log}");
    assert_eq!(1, std::fs::read_dir(it.folder.path()).unwrap().count(), "only the log is there");
}

#[test]
fn requests_that_outlast_the_drain_leave_no_snapshot() {
    let it = Restarts::new();
    let larder = it.start_with("limits.drain_timeout = \"100ms\"", "");
    it.fill(&larder);
    let mut client = larder.client();
    client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the request is in progress", || it.gate.waiting() > 0);
    let mut larder = larder;
    larder.signal(libc::SIGTERM);
    wait(&mut larder.child);
    it.gate.open();
    let log = it.log();
    assert!(log.contains("ram-not-saved") && log.contains("limits.drain_timeout"), "{log}");
    assert!(!it.file().exists());
}

#[test]
fn a_disk_tier_and_the_snapshot_agree_about_purges() {
    let it = Restarts::new();
    let folder = tempfile::tempdir().unwrap();
    let top = format!(
        "cache.disk = {{ path = {:?}, size = \"64MiB\", segment_size = \"4MiB\" }}",
        folder.path().join("disk")
    );
    for round in 0..3 {
        let larder = it.start_with(&top, "");
        assert_eq!(round > 0, larder.counter("ram_restored") > 0, "{}", it.log());
        it.fill(&larder);
        larder.admin_post("/api/v1/purge", r#"{"tag":"a"}"#);
        assert!(!larder.get("/a").is_hit());
        larder.admin_post("/api/v1/purge", r#"{"tag":"a"}"#);
        stop(larder);
    }
    let larder = it.start_with(&top, "");
    assert!(!larder.get("/a").is_hit(), "{}", it.log());
    assert!(larder.get("/b").is_hit());
}
