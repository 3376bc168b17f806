//! Apache with any configuration, on a port that was free, ended by its process id.

use super::{Client, until};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running Apache.
pub struct Apache {
    process: Child,
    address: SocketAddr,
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Apache {
    /// Apache with these modules and lines; its files are written into `folder`.
    ///
    /// # Panics
    /// Where it is not installed, or the configuration is wrong.
    pub fn start(folder: &Path, modules: &[&str], lines: &str) -> Self {
        // Another process may take the port before Apache does.
        (0..10).find_map(|_| Self::try_start(folder, modules, lines)).unwrap_or_else(|| {
            panic!("Apache: {}", std::fs::read_to_string(folder.join("apache.log")).unwrap_or_default())
        })
    }

    fn try_start(folder: &Path, modules: &[&str], lines: &str) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let load: String = ["mpm_event", "authz_core"]
            .iter()
            .chain(modules)
            .map(|it| format!("LoadModule {it}_module /usr/lib/apache2/modules/mod_{it}.so\n"))
            .collect();
        // SAFETY: it only reads.
        let user = if unsafe { libc::geteuid() } == 0 { "User www-data\nGroup www-data\n" } else { "" };
        let folder_name = folder.display();
        let text = format!(
            "ServerRoot {folder_name}\nDefaultRuntimeDir {folder_name}\nPidFile apache.pid\nErrorLog apache.log\nServerName localhost\n\
             Listen {address}\n{load}{user}{lines}\n"
        );
        std::fs::write(folder.join("apache.conf"), text).unwrap();
        let mut command = Command::new("/usr/sbin/apache2");
        command.args(["-X", "-f"]).arg(folder.join("apache.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn();
        let process =
            process.unwrap_or_else(|it| panic!("Apache (Debian's apache2-bin, see tests/install): {it}"));
        let mut it = Self { process, address };
        let mut is_running = true;
        until("Apache listens", || {
            is_running = it.process.try_wait().unwrap().is_none();
            !is_running || TcpStream::connect(address).is_ok()
        });
        is_running.then_some(it)
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}
