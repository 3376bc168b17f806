//! A real MariaDB on a Unix socket and a free port, in a folder of its own. It can be stopped and started again at the same place.

use super::database_process::ends_with_test;
use super::sql_session::SqlSession;
use super::{reserved_address, until};
use socket2::Socket;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Options of a small server.
const SMALL: [&str; 3] = [
    "--innodb-buffer-pool-size=8M",
    "--innodb-log-file-size=4M",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
];

/// A timeout of connections that a busy machine keeps, for a `[[database]]` whose keys `more` has none: each begins with thousands of
/// rounds of a hash.
pub fn connect_timeout(more: &str) -> &'static str {
    if more.contains("connect_timeout") { "" } else { "connect_timeout = \"1m\"\n" }
}

/// A running MariaDB. The user `larder` has the password `geheim` and all rights on the database `shop`.
pub struct MariaDb {
    child: Child,
    folder: tempfile::TempDir,
    settings: Vec<String>,
    port: u16,
    /// The port, also while it is stopped.
    _reserved: Socket,
}

impl MariaDb {
    /// Starts one, and runs these statements in its database `shop`.
    pub fn start(statements: &str) -> Self {
        Self::with(&[], statements)
    }

    /// The same with options of the server.
    pub fn with(settings: &[&str], statements: &str) -> Self {
        let settings: Vec<String> = settings.iter().map(|it| (*it).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        copy(template(), &folder.path().join("data"));
        own(folder.path());
        let (_reserved, address) = reserved_address();
        let child = serve(&folder, address.port(), &settings);
        let it = Self { child, folder, settings, port: address.port(), _reserved };
        it.wait_until_it_answers();
        it.sql("create database shop character set utf8mb4; create user larder identified by 'geheim'; grant all on shop.* to larder");
        it.sql(&format!("use shop; {statements}"));
        it
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A `[[database]]` for it, with more keys.
    pub fn table(&self, more: &str) -> String {
        let (socket, connect_timeout) = (self.socket(), connect_timeout(more));
        format!(
            "[[database]]\nname = \"maria\"\nurl = \"mysql+unix://larder@{}/shop\"\npassword = \"geheim\"\n{connect_timeout}{more}\n",
            socket.display()
        )
    }

    /// The output of statements, without names of columns.
    pub fn sql(&self, statements: &str) -> String {
        let output = client(&self.socket()).args(["-e", statements]).output().unwrap();
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// A client of its database `shop` that stays connected.
    pub fn session(&self) -> SqlSession {
        SqlSession::start(client(&self.socket()).args(["--unbuffered", "-D", "shop"]))
    }

    /// Creates a procedure or a function in its database `shop`.
    pub fn routine(&self, text: &str) {
        let made =
            client(&self.socket()).args(["--delimiter=$$", "-D", "shop", "-e", text]).output().unwrap();
        assert!(made.status.success(), "{text}: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// The content of its first binary log, with `--log-bin=bin`.
    pub fn log(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("data/bin.000001")).unwrap()
    }

    /// The number of statements of larder that run now.
    pub fn running(&self) -> usize {
        let active = "select count(*) from information_schema.processlist where user = 'larder' and command <> 'Sleep'";
        self.sql(active).parse().unwrap()
    }

    /// The number of connections of larder.
    pub fn connections(&self) -> usize {
        self.sql("select count(*) from information_schema.processlist where user = 'larder'").parse().unwrap()
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    pub fn start_again(&mut self) {
        self.child = serve(&self.folder, self.port, &self.settings);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        until("MariaDB answers", || {
            client(&self.socket()).args(["-e", "select 1"]).output().is_ok_and(|it| it.status.success())
        });
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.kill();
    }
}

fn client(socket: &Path) -> Command {
    let mut client = Command::new("mariadb");
    client
        .args(["--no-defaults", "-u", "root", "-N", "-B", "--default-character-set=utf8mb4", "-S"])
        .arg(socket);
    client
}

/// A data directory without databases: made once, and kept beside the test program.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let beside = std::env::current_exe().unwrap().parent().unwrap().join("mariadb-data");
        if !beside.exists() {
            let folder = tempfile::tempdir_in(beside.parent().unwrap()).unwrap();
            let made = Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
                .args(user().map(|_| "--user=root"))
                .arg(format!("--datadir={}", folder.path().join("data").display()))
                .args(SMALL)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("MariaDB is installed");
            assert!(made.success(), "mariadb-install-db makes a data directory");
            // Another test process may have been faster.
            let _ = std::fs::rename(folder.path(), &beside);
        }
        beside
    })
}

fn copy(template: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(template.join("data")).arg(to).status().unwrap();
    assert!(copied.success());
    if let Some((user, group)) = user() {
        let owner = format!("{user}:{group}");
        assert!(Command::new("chown").args(["-R", &owner]).arg(to).status().unwrap().success());
    }
}

/// Gives a folder to the user of the server, in a test that runs as root.
fn own(folder: &Path) {
    if let Some((user, group)) = user() {
        chown(folder, Some(user), Some(group)).unwrap();
    }
}

fn serve(folder: &tempfile::TempDir, port: u16, settings: &[String]) -> Child {
    let at = |name: &str| folder.path().join(name).display().to_string();
    ends_with_test(&server(), "KILL", user())
        .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"])
        .args([
            format!("--datadir={}", at("data")),
            // A server that starts removes temporary tables of others from a directory that they share.
            format!("--tmpdir={}", folder.path().display()),
            format!("--socket={}", at("socket")),
            format!("--port={port}"),
        ])
        .args([format!("--pid-file={}", at("pid")), format!("--log-error={}", at("log"))])
        .args(SMALL)
        .args(["--innodb-flush-log-at-trx-commit=0", "--key-buffer-size=1M", "--performance-schema=off"])
        .args(settings)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("MariaDB is installed")
}

/// Servers are in the path of root alone.
fn server() -> PathBuf {
    let at = ["/usr/sbin/mariadbd", "/usr/libexec/mariadbd"].map(PathBuf::from);
    at.into_iter().find(|it| it.exists()).unwrap_or_else(|| "mariadbd".into())
}

/// The user of the package, for a test that runs as root.
fn user() -> Option<(u32, u32)> {
    // SAFETY: it only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let row = users.lines().find(|it| it.starts_with("mysql:")).expect("the user mysql exists");
    let mut parts = row.split(':').skip(2).map(|it| it.parse().unwrap_or(0));
    Some((parts.next().unwrap_or(0), parts.next().unwrap_or(0)))
}
