//! A real php-fpm on a Unix socket, ended by its process id. Its children can be killed, and it can be started again at the same place.

use super::until;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running php-fpm.
pub struct PhpFpm {
    process: Child,
    folder: tempfile::TempDir,
}

impl PhpFpm {
    /// php-fpm with this number of children.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn start(children: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: it only reads.
        let is_root = unsafe { libc::geteuid() } == 0;
        let user = if is_root { "user = root\ngroup = root\n" } else { "" };
        let text = format!(
            "[global]\nerror_log = {0}/log\ndaemonize = no\n[www]\n{user}listen = {0}/socket\nlisten.mode = 0666\npm = static\n\
             pm.max_children = {children}\nping.path = /ping\nping.response = pong\ncatch_workers_output = yes\n\
             php_admin_value[upload_tmp_dir] = {0}\nphp_admin_value[session.save_path] = {0}\n\
             php_admin_value[opcache.enable] = 0\nphp_admin_value[post_max_size] = 0\nphp_admin_value[upload_max_filesize] = 64M\n\
             php_admin_value[log_errors] = on\nphp_admin_value[display_errors] = off\n",
            folder.path().display()
        );
        std::fs::write(folder.path().join("fpm.conf"), text).unwrap();
        let process = spawn(folder.path());
        let mut it = Self { process, folder };
        it.wait_until_it_listens();
        it
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Its address in the configuration.
    pub fn name(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// The process ids of its children.
    pub fn children(&self) -> Vec<libc::pid_t> {
        let path = format!("/proc/{0}/task/{0}/children", self.process.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|it| it.parse().ok()).collect()
    }

    /// Kills one child.
    pub fn kill_child(&self, number: usize) {
        let children = self.children();
        if let Some(pid) = children.get(number % children.len().max(1)) {
            // SAFETY: kill takes no pointers. A child that has ended is a zombie of php-fpm, at worst.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
    }

    /// Ends it.
    pub fn stop(&mut self) {
        // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
        unsafe { libc::kill(libc::pid_t::try_from(self.process.id()).unwrap(), libc::SIGTERM) };
        let _ = self.process.wait();
    }

    /// Starts it again where it was.
    pub fn start_again(&mut self) {
        self.stop();
        self.process = spawn(self.folder.path());
        self.wait_until_it_listens();
    }

    fn wait_until_it_listens(&mut self) {
        let (socket, log) = (self.socket(), self.folder.path().join("log"));
        until("php-fpm listens", || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "php-fpm ended: {}", std::fs::read_to_string(&log).unwrap_or_default());
            UnixStream::connect(&socket).is_ok()
        });
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(folder: &Path) -> Child {
    let programs = ["/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm8.3", "/usr/sbin/php-fpm8.4"];
    let program = programs.into_iter().find(|it| Path::new(it).exists()).unwrap_or("php-fpm");
    let mut command = Command::new(program);
    command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]).arg(folder.join("fpm.conf"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|it| panic!("php-fpm (Debian's php8.2-fpm, see tests/install): {it}"))
}
