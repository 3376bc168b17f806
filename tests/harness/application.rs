//! A real application on a real application server, neither of which knows of larder: `tests/apps/NAME.py` under gunicorn, which listens on
//! a port and on a Unix socket, or `tests/apps/express/sessions.mjs` under Node.

use super::origin::Behind;
use super::{Client, until};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running gunicorn with an application of a test.
pub struct Gunicorn(Child);

impl Gunicorn {
    /// gunicorn in this directory with `app`, once it listens on this socket.
    pub fn start(folder: &Path, app: &str, socket: &Path) -> Self {
        let mut command = Command::new(python_with("flask, gunicorn", "python3-flask and gunicorn"));
        command.args(["-B", "-m", "gunicorn", "--bind"]).arg(format!("unix:{}", socket.display())).arg(app);
        let child = command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let it = Self(child);
        until("gunicorn listens", || UnixStream::connect(socket).is_ok());
        it
    }
}

impl Drop for Gunicorn {
    fn drop(&mut self) {
        // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
        unsafe { libc::kill(libc::pid_t::try_from(self.0.id()).unwrap(), libc::SIGINT) };
        let _ = self.0.wait();
    }
}

/// A running application.
pub struct Application {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens as well.
    pub socket: PathBuf,
    child: Child,
    folder: tempfile::TempDir,
}

impl Application {
    /// Starts `tests/apps/NAME.py`.
    ///
    /// # Panics
    /// Naming the Debian packages, where Flask or gunicorn is missing.
    pub fn start(name: &str) -> Self {
        Self::under_gunicorn(name, python_with("flask, gunicorn", "python3-flask and gunicorn"))
    }

    /// Starts `tests/apps/django_site.py`.
    ///
    /// # Panics
    /// Naming the Debian packages, where Django or gunicorn is missing.
    pub fn django() -> Self {
        Self::under_gunicorn("django_site", python_with("django, gunicorn", "python3-django and gunicorn"))
    }

    fn under_gunicorn(name: &str, python: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("app.sock");
        let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/apps");
        let mut child = Command::new(python)
            .env("SITE_FOLDER", folder.path())
            .args(["-B", "-m", "gunicorn", "--workers", "1", "--threads", "8", "--graceful-timeout", "1"])
            .args(["--bind", "127.0.0.1:0", "--bind"])
            .arg(format!("unix:{}", socket.display()))
            .arg("--chdir")
            .arg(apps)
            .arg(format!("{name}:app"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut text, mut line) = (String::new(), String::new());
        let address = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "gunicorn ended at its start: {text}");
            text.push_str(&line);
            // "Listening at: http://127.0.0.1:40123,unix:/…"
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split(',').next().unwrap().trim().parse().unwrap();
            }
        };
        // What it says later is read and dropped: a full pipe would stop it.
        std::thread::spawn(move || {
            while lines.read_line(&mut line).is_ok_and(|it| it > 0) {
                line.clear();
            }
        });
        let it = Self { address, socket, child, folder };
        until("the application answers", || it.direct().get("/count").status == 200);
        it
    }

    /// Starts `tests/apps/express/sessions.mjs`, on a port alone.
    ///
    /// # Panics
    /// Where its packages are missing, saying what installs them.
    pub fn express() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let packages = root.join("target/tools/express").canonicalize();
        let packages =
            packages.expect("this test runs a real application: `tests/install test` brings its packages");
        let mut child = Command::new("node")
            .arg(root.join("tests/apps/express/sessions.mjs"))
            .arg(packages)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").parse();
        let address = address.unwrap_or_else(|_| panic!("Node ended at its start: {:?}", child.wait()));
        let it = Self { address, socket: PathBuf::new(), child, folder };
        until("the application answers", || it.direct().get("/count").status == 200);
        it
    }

    /// Ends it: connections to it are refused from now on.
    pub fn stop(&mut self) {
        self.interrupt();
        let _ = self.child.wait();
    }

    fn interrupt(&self) {
        if let Ok(pid) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
            unsafe { libc::kill(pid, libc::SIGINT) }; // gunicorn ends its worker, too, and at once.
        }
    }

    /// The folder of its database and files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A connection to it that goes past larder.
    pub fn direct(&self) -> Client {
        Client::connect(self.address)
    }

    /// How many requests have reached it.
    pub fn requests(&self) -> u64 {
        let text = self.direct().get("/count").text();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["seen"].as_u64().unwrap()
    }
}

impl Behind for Application {
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

/// A Python that has these modules, of these Debian packages: Debian's own, or the first in PATH.
///
/// # Panics
/// Naming the packages, where none has all.
pub fn python_with(modules: &str, packages: &str) -> &'static str {
    let has = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import {modules}")]).stderr(Stdio::null());
        command.status().is_ok_and(|it| it.success())
    };
    ["/usr/bin/python3", "python3"].into_iter().find(has).unwrap_or_else(|| {
        panic!("this test runs a real application: install the Debian packages {packages} (`make test` does)")
    })
}
