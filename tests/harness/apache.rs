//! Apache with any configuration, on a port of its own, ended by its process id.

use super::{Client, reserved_address, until};
use socket2::Socket;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running Apache.
pub struct Apache {
    process: Child,
    address: SocketAddr,
    _reserved: Socket,
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
        let (_reserved, address) = reserved_address();
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
        let mut it = Self { process, address, _reserved };
        let log = folder.join("apache.log");
        until("Apache listens", || {
            let ended = it.process.try_wait().unwrap();
            assert!(ended.is_none(), "Apache ended: {}", std::fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect(address).is_ok()
        });
        it
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}
