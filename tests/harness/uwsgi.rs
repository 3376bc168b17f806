//! A real uWSGI with the plugin for Python, ended by its process id.

use super::until;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};

/// A running uWSGI.
pub struct Uwsgi(Child);

impl Uwsgi {
    /// uWSGI in this directory with these arguments, once it listens on all these sockets. Its log is the file `uwsgi.log`.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn start(folder: &Path, arguments: &[&str], sockets: &[&Path]) -> Self {
        let log = std::fs::File::create(folder.join("uwsgi.log")).unwrap();
        let mut command = Command::new("uwsgi");
        command
            .args(["--plugin", "python3", "--master", "--die-on-term", "--chmod-socket=666"])
            .args(arguments);
        command.current_dir(folder).stdout(log.try_clone().unwrap()).stderr(log);
        let it = Self(command.spawn().expect("uwsgi: apt-get install uwsgi-core uwsgi-plugin-python3"));
        until("uwsgi listens", || sockets.iter().all(|it| UnixStream::connect(it).is_ok()));
        it
    }
}

impl Drop for Uwsgi {
    fn drop(&mut self) {
        // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
        unsafe { libc::kill(libc::pid_t::try_from(self.0.id()).unwrap(), libc::SIGTERM) };
        let _ = self.0.wait();
    }
}
