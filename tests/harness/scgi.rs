//! The `scgi` server of PyPI, ended by its process id; its processes end with it.

use super::until;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running SCGI server.
pub struct ScgiServer {
    process: Child,
    /// Its address.
    pub address: SocketAddr,
}

impl ScgiServer {
    /// `tests/apps/scgi_server.py` with at most this number of processes. Its log is the file `scgi.log` of `folder`.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn start(folder: &Path, processes: usize) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let log = std::fs::File::create(folder.join("scgi.log")).unwrap();
        let mut command = Command::new("python3");
        command
            .arg(root.join("tests/apps/scgi_server.py").canonicalize().unwrap())
            .arg(processes.to_string());
        command.env("PYTHONPATH", root.join("target/tools/scgi")).current_dir(folder);
        // Its processes outlive it for a moment: the output of the tests must not wait for them.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut process = command.spawn().expect("python3");
        let mut port = None;
        until("the SCGI server listens", || {
            let log = || std::fs::read_to_string(folder.join("scgi.log")).unwrap_or_default();
            assert!(process.try_wait().unwrap().is_none(), "tests/install brings scgi: {}", log());
            port = std::fs::read_to_string(folder.join("port")).ok();
            port.is_some()
        });
        let port: u16 = port.unwrap().parse().unwrap();
        Self { process, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }
}

impl Drop for ScgiServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
