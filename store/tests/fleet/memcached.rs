//! Real memcached processes for tests, on free ports or Unix sockets, killed when they are dropped.

use larder_stdx::clock;
use larder_store::fleet::{FleetAddress, MemcachedAddress};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A server that is running.
pub struct Memcached {
    child: Child,
    pub at: MemcachedAddress,
    _directory: tempfile::TempDir,
}

/// Where it is to listen.
#[derive(Clone, Copy, Debug)]
pub enum On {
    Tcp,
    /// IPv6.
    Tcp6,
    Unix,
}

impl Memcached {
    /// Starts one, with `options` besides.
    pub fn start(on: On, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Another process may take the port between the look and the start.
        for _ in 0..20 {
            let at = match on {
                On::Unix => MemcachedAddress::Unix(directory.path().join("socket")),
                On::Tcp => MemcachedAddress::Tcp("127.0.0.1".into(), free_port("127.0.0.1:0")),
                On::Tcp6 => MemcachedAddress::Tcp("::1".into(), free_port("[::1]:0")),
            };
            if let Some(child) = start_at(&at, options) {
                return Self { child, at, _directory: directory };
            }
        }
        panic!("memcached does not start: is it installed?");
    }

    pub fn address(&self) -> FleetAddress {
        FleetAddress { at: self.at.clone(), weight: 1 }
    }

    /// Sends it a signal. One that stops it has done so when this ends, in every thread of it.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([format!("-{name}"), id]).status().unwrap().success());
        let deadline = clock::precise_micros() + 10_000_000;
        while name == "STOP" && !self.has_stopped() {
            assert!(clock::precise_micros() < deadline, "it does not stop");
            std::thread::yield_now();
        }
    }

    fn has_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads.flatten().all(|it| {
            let stat = std::fs::read_to_string(it.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|it| it.starts_with('T'))
        })
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was, empty.
    pub fn restart(&mut self) {
        self.kill();
        if let MemcachedAddress::Unix(path) = &self.at {
            let _ = std::fs::remove_file(path);
        }
        self.child = start_at(&self.at, &[]).expect("it starts where it was");
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port(at: &str) -> u16 {
    TcpListener::bind(at).unwrap().local_addr().unwrap().port()
}

/// Starts one and waits until it says that it listens.
fn start_at(at: &MemcachedAddress, options: &[&str]) -> Option<Child> {
    let mut command = Command::new("memcached");
    // `-vv` says that it listens, and everything else, which is read and thrown away.
    command.args(["-u", "root", "-vv", "-t", "1"]).args(options);
    match at {
        MemcachedAddress::Unix(path) => command.arg("-s").arg(path),
        MemcachedAddress::Tcp(host, port) => {
            command.args(["-U", "0", "-l", host.as_str(), "-p", &port.to_string()])
        }
    };
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (says, text) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stderr.split(b'\n').map_while(Result::ok) {
            if String::from_utf8_lossy(&line).contains("server listening") {
                let _ = says.send(());
            }
        }
    });
    if text.recv_timeout(Duration::from_secs(10)).is_ok() {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// The address of a socket without a listener.
pub fn nowhere() -> MemcachedAddress {
    MemcachedAddress::Unix(PathBuf::from("/nonexistent/larder-test.sock"))
}
