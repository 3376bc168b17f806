//! nginx with any configuration, on a Unix socket behind a relay, ended by its process id.

use super::http2_servers::relay;
use super::{Client, until};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running nginx.
pub struct Nginx {
    process: Child,
    address: SocketAddr,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Nginx {
    /// nginx with these lines in its `http` section, in which `LISTEN` is its socket; its files are written into `folder`.
    ///
    /// # Panics
    /// Where it is not installed, or the configuration is wrong.
    pub fn start(folder: &Path, http: &str) -> Self {
        let socket = folder.join("nginx.socket");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|it| format!("{it}_temp_path {it};\n"))
            .concat();
        // SAFETY: it only reads.
        let user = if unsafe { libc::geteuid() } == 0 { "user root;\n" } else { "" };
        let listen = format!("unix:{}", socket.display());
        let text = format!(
            "{user}daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{}\n}}\n",
            http.replace("LISTEN", &listen)
        );
        std::fs::write(folder.join("nginx.conf"), text).unwrap();
        let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).args(["-e", "error.log", "-c", "nginx.conf"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn();
        let process =
            process.unwrap_or_else(|it| panic!("nginx (Debian's nginx-light, see tests/install): {it}"));
        let mut it = Self { process, address: relay(socket.clone()) };
        let log = folder.join("error.log");
        until("nginx listens", || {
            let ended = it.process.try_wait().unwrap();
            assert!(ended.is_none(), "nginx ended: {}", std::fs::read_to_string(&log).unwrap_or_default());
            UnixStream::connect(&socket).is_ok()
        });
        it
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}
