//! lighttpd with any configuration, on a port of its own, ended by its process id.

use super::{Client, reserved_address, until};
use socket2::Socket;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running lighttpd.
pub struct Lighttpd {
    process: Child,
    address: SocketAddr,
    _reserved: Socket,
}

impl Drop for Lighttpd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Lighttpd {
    /// lighttpd with these modules and lines; its files are written into `folder`.
    ///
    /// # Panics
    /// Where it is not installed, or the configuration is wrong.
    pub fn start(folder: &Path, modules: &[&str], lines: &str) -> Self {
        let (_reserved, address) = reserved_address();
        let load: String = modules.iter().map(|it| format!("server.modules += (\"mod_{it}\")\n")).collect();
        let (port, log) = (address.port(), folder.join("lighttpd.log"));
        let text = format!(
            "server.bind = \"127.0.0.1\"\nserver.port = {port}\nserver.errorlog = \"{}\"\n{load}{lines}\n",
            log.display()
        );
        std::fs::write(folder.join("lighttpd.conf"), text).unwrap();
        let program =
            if Path::new("/usr/sbin/lighttpd").exists() { "/usr/sbin/lighttpd" } else { "lighttpd" };
        let mut command = Command::new(program);
        command.arg("-D").arg("-f").arg(folder.join("lighttpd.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn();
        let process =
            process.unwrap_or_else(|it| panic!("lighttpd (Debian's lighttpd, see tests/install): {it}"));
        let mut it = Self { process, address, _reserved };
        until("lighttpd listens", || {
            let ended = it.process.try_wait().unwrap();
            assert!(ended.is_none(), "lighttpd ended: {}", std::fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect(address).is_ok()
        });
        it
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}
