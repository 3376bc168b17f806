//! Caddy and HAProxy with any configuration, on a port of their own, ended by their process ids.

use super::{Client, reserved_address, until};
use socket2::Socket;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server.
pub struct ForeignServer {
    process: Child,
    address: SocketAddr,
    _reserved: Socket,
}

impl Drop for ForeignServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ForeignServer {
    /// Caddy with this Caddyfile, in which `PORT` is its port; its files are written into `folder`.
    ///
    /// # Panics
    /// Where it is not installed, or the configuration is wrong.
    pub fn caddy(folder: &Path, text: &str) -> Self {
        Self::start(folder, text, "caddy", "/usr/bin/caddy", &["run", "--adapter", "caddyfile", "--config"])
    }

    /// HAProxy, as above.
    ///
    /// # Panics
    /// As above.
    pub fn haproxy(folder: &Path, text: &str) -> Self {
        Self::start(folder, text, "haproxy", "/usr/sbin/haproxy", &["-db", "-f"])
    }

    fn start(folder: &Path, text: &str, name: &str, path: &str, arguments: &[&str]) -> Self {
        let (_reserved, address) = reserved_address();
        let (config, log) = (folder.join(format!("{name}.conf")), folder.join(format!("{name}.log")));
        std::fs::write(&config, text.replace("PORT", &address.port().to_string())).unwrap();
        let output = std::fs::File::create(&log).unwrap();
        let program = if Path::new(path).exists() { path } else { name };
        let mut command = Command::new(program);
        command.args(arguments).arg(&config);
        // Caddy keeps files beneath these.
        command.env("HOME", folder).env("XDG_CONFIG_HOME", folder).env("XDG_DATA_HOME", folder);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let process = command.spawn();
        let process =
            process.unwrap_or_else(|it| panic!("{name} (Debian's {name}, see tests/install): {it}"));
        let mut it = Self { process, address, _reserved };
        until(&format!("{name} listens"), || {
            let ended = it.process.try_wait().unwrap();
            let log = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "{name} ended: {}", log());
            TcpStream::connect(address).is_ok()
        });
        it
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}
