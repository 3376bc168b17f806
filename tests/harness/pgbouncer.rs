//! A real pgbouncer in transaction mode on a Unix socket, before a PostgreSQL of the test.

use super::database_process::ends_with_test;
use super::postgres::{Postgres, server_user};
use super::until;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// A running pgbouncer.
pub struct PgBouncer {
    child: Child,
    folder: tempfile::TempDir,
}

impl PgBouncer {
    /// pgbouncer with this number of connections to its database.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn start(postgres: &Postgres, connections: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[databases]\npostgres = host={} user=larder password=geheim\n[pgbouncer]\nlisten_port = 5432\nunix_socket_dir = {1}\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\n",
            postgres.socket().display(),
            folder.path().display()
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, text).unwrap();
        // It refuses to run as root.
        if let Some((user, group)) = server_user() {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let mut command = ends_with_test(Path::new("pgbouncer"), "KILL", server_user());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command.arg(&file).stdout(Stdio::null()).stderr(log).spawn();
        let it = Self { child: child.expect("pgbouncer: apt-get install pgbouncer"), folder };
        until("pgbouncer listens", || UnixStream::connect(it.folder.path().join(".s.PGSQL.5432")).is_ok());
        it
    }

    /// A `[[database]]` for it, with more keys.
    pub fn table(&self, more: &str) -> String {
        format!(
            "[[database]]\nname = \"pg\"\nurl = \"postgres+unix://larder@{}/postgres\"\n{more}\n",
            self.folder.path().display()
        )
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
