//! A real PostgreSQL on a Unix socket, in a folder of its own. It can be stopped and started again at the same place.

use super::database_process::ends_with_test;
use super::sql_session::SqlSession;
use super::{reserved_address, until};
use socket2::Socket;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running PostgreSQL. The user `larder` has the password `geheim`, the user `postgres` needs none.
pub struct Postgres {
    child: Child,
    folder: tempfile::TempDir,
    settings: Vec<String>,
    /// Its TCP port, also while it is stopped.
    reserved: Option<Socket>,
}

impl Postgres {
    /// Starts one, and runs these statements in its database `postgres`.
    pub fn start(statements: &str) -> Self {
        Self::with(&[], statements)
    }

    /// The same with settings of the server, each as `NAME=VALUE`.
    pub fn with(settings: &[&str], statements: &str) -> Self {
        let settings: Vec<String> = settings.iter().map(|it| (*it).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        if let Some(id) = server_user() {
            chown(folder.path(), Some(id.0), Some(id.1)).unwrap();
        }
        let data = folder.path().join("data");
        let made = command("initdb")
            .args(["-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb makes a cluster");
        let access = "local all larder scram-sha-256\nlocal all all trust\nlocal replication all trust\nhostssl all larder 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), access).unwrap();
        let child = serve(&folder, &settings);
        let it = Self { child, folder, settings, reserved: None };
        it.wait_until_it_answers();
        it.sql("create role larder login password 'geheim'; alter default privileges grant all on tables to larder");
        it.sql("alter default privileges grant all on sequences to larder; grant create on schema public to larder");
        it.sql(statements);
        it
    }

    /// Starts a streaming replica of it.
    pub fn replica(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some(id) = server_user() {
            chown(folder.path(), Some(id.0), Some(id.1)).unwrap();
        }
        let made = command("pg_basebackup")
            .args(["-U", "postgres", "--write-recovery-conf", "--no-sync", "--checkpoint=fast", "-h"])
            .arg(self.folder.path())
            .arg("-D")
            .arg(folder.path().join("data"))
            .status()
            .unwrap();
        assert!(made.success(), "pg_basebackup copies the cluster");
        let settings = self.settings.clone();
        let it = Self { child: serve(&folder, &settings), folder, settings, reserved: None };
        it.wait_until_it_answers();
        it
    }

    /// The folder of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// A `[[database]]` for it, with more keys.
    pub fn table(&self, more: &str) -> String {
        let folder = self.folder.path().display();
        let connect_timeout = super::mariadb::connect_timeout(more);
        format!(
            "[[database]]\nname = \"pg\"\nurl = \"postgres+unix://larder@{folder}/postgres\"\npassword = \"geheim\"\n{connect_timeout}{more}\n"
        )
    }

    /// Starts one on a TCP port, too, where it demands TLS with this certificate and key; returns the port.
    pub fn secure(settings: &[&str], certificate: &Path, key: &Path, statements: &str) -> (Self, u16) {
        let (reserved, address) = reserved_address();
        let port = address.port();
        let of_port = format!("port={port}");
        let mut it = Self::with(&[settings, &["listen_addresses=127.0.0.1", &of_port]].concat(), statements);
        for (name, from) in [("server.crt", certificate), ("server.key", key)] {
            let to = it.folder.path().join("data").join(name);
            std::fs::copy(from, &to).unwrap();
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
            if let Some(id) = server_user() {
                chown(&to, Some(id.0), Some(id.1)).unwrap();
            }
        }
        it.sql("alter system set ssl = on");
        it.sql("select pg_reload_conf()");
        it.reserved = Some(reserved);
        until("it has TLS", || it.sql("show ssl") == "on");
        (it, port)
    }

    /// The output of statements, as `psql -At` prints it.
    pub fn sql(&self, statements: &str) -> String {
        let output = psql(&self.folder, &self.settings).args(["-c", statements]).output().unwrap();
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// A client that stays connected.
    pub fn session(&self) -> SqlSession {
        SqlSession::start(&mut psql(&self.folder, &self.settings))
    }

    /// The bytes that `pg_recvlogical` prints of a slot of its database `postgres`, up to the present end of the log.
    pub fn received(&self, slot: &str) -> Vec<u8> {
        let end = self.sql("select pg_current_wal_flush_lsn()");
        let mut reader = command("pg_recvlogical");
        reader.args(["-U", "postgres", "-d", "postgres", "-h"]).arg(self.folder.path());
        reader.args(["--start", "--no-loop", "-f", "-", "--slot", slot, "--endpos", &end]);
        let output = reader.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The number of statements of larder that run now.
    pub fn running(&self) -> usize {
        let active = "select count(*) from pg_stat_activity where usename = 'larder' and state <> 'idle'";
        self.sql(active).parse().unwrap()
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // Its immediate shutdown: the children end as well.
        let id = i32::try_from(self.child.id()).unwrap();
        // SAFETY: the process is a child that has not been waited for.
        unsafe { libc::kill(id, libc::SIGQUIT) };
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    pub fn start_again(&mut self) {
        self.child = serve(&self.folder, &self.settings);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        until("PostgreSQL answers", || {
            psql(&self.folder, &self.settings)
                .args(["-c", "select 1"])
                .output()
                .is_ok_and(|it| it.status.success())
        });
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(folder: &tempfile::TempDir, settings: &[String]) -> Child {
    let socket = folder.path().display();
    command("postgres")
        .arg("-D")
        .arg(folder.path().join("data"))
        .args(["-k", &socket.to_string(), "-c", "listen_addresses=", "-c", "fsync=off"])
        .args(["-c", "shared_buffers=16MB", "-c", "max_connections=50", "-c", "log_min_messages=panic"])
        .args(settings.iter().flat_map(|it| ["-c", it]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn psql(folder: &tempfile::TempDir, settings: &[String]) -> Command {
    let port = settings.iter().find_map(|it| it.strip_prefix("port=")).unwrap_or("5432");
    let mut psql = Command::new("psql");
    psql.args(["-p", port]);
    psql.args(["-U", "postgres", "-d", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h"])
        .arg(folder.path());
    psql
}

/// A program of PostgreSQL, as a user that it accepts: it refuses to run as root.
fn command(program: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let mut folders: Vec<PathBuf> = versions.flatten().map(|it| it.path().join("bin")).collect();
    folders.sort();
    let path = folders.pop().expect("PostgreSQL is installed").join(program);
    // Its immediate shutdown.
    ends_with_test(&path, "QUIT", server_user())
}

/// The user of the package, for a test that runs as root.
pub(super) fn server_user() -> Option<(u32, u32)> {
    // SAFETY: it only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let row = users.lines().find(|it| it.starts_with("postgres:")).expect("the user postgres exists");
    let mut parts = row.split(':').skip(2).map(|it| it.parse().unwrap_or(0));
    Some((parts.next().unwrap_or(0), parts.next().unwrap_or(0)))
}
