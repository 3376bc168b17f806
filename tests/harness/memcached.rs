//! A real memcached, ended by its process id. It can be stopped and continued, killed and started again at the same
//! place, and written to by strangers.

use super::until;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running memcached that listens on a Unix socket.
pub struct Memcached {
    child: Child,
    folder: tempfile::TempDir,
    more: Vec<String>,
}

impl Memcached {
    /// Starts one with 64 MiB.
    pub fn start() -> Self {
        Self::with(&["-m", "64"])
    }

    /// Starts one with these arguments.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let more: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let child = spawn(&folder.path().join("socket"), &more);
        let it = Self { child, folder, more };
        it.wait_until_it_answers();
        it
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// As the configuration names it.
    pub fn name(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Ends it at once, with all that it holds.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, empty, where it was.
    pub fn start_again(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(self.socket());
        self.child = spawn(&self.socket(), &self.more);
        self.wait_until_it_answers();
    }

    /// It takes connections and bytes from now on, and does nothing.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// It goes on.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Its answer to a command of the text or meta protocol with a one-line answer.
    pub fn command(&self, command: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().unwrap();
        stream.write_all(command.as_ref()).unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") && stream.read(&mut byte).is_ok_and(|it| it > 0) {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    /// The keys that it holds.
    pub fn keys(&self) -> Vec<String> {
        let mut stream = self.connect().unwrap();
        stream.write_all(b"lru_crawler metadump all\r\n").unwrap();
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        while !text.ends_with(b"END\r\n") {
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&chunk[..count]);
        }
        let text = String::from_utf8(text).unwrap();
        let keys = text.lines().filter_map(|it| it.strip_prefix("key=")?.split(' ').next());
        keys.map(decoded).collect()
    }

    /// Overwrites what is under a key.
    pub fn write(&self, key: &str, value: &[u8]) {
        let mut command = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        command.extend_from_slice(value);
        command.extend_from_slice(b"\r\n");
        assert_eq!("STORED\r\n", self.command(command));
    }

    /// The value of a key.
    pub fn read(&self, key: &str) -> Vec<u8> {
        let mut stream = self.connect().unwrap();
        stream.write_all(format!("get {key}\r\n").as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while !bytes.ends_with(b"END\r\n") {
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0);
            bytes.extend_from_slice(&chunk[..count]);
        }
        let start = bytes.windows(2).position(|it| it == b"\r\n").map_or(0, |it| it + 2);
        bytes[start..bytes.len().saturating_sub(7).max(start)].to_vec()
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(super::TIMEOUT))?;
        Ok(stream)
    }

    fn wait_until_it_answers(&self) {
        until("memcached answers", || {
            let Ok(mut stream) = self.connect() else { return false };
            let mut answer = [0; 4];
            stream.write_all(b"mn\r\n").is_ok() && stream.read_exact(&mut answer).is_ok()
        });
    }

    fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
        assert_eq!(0, unsafe { libc::kill(pid, signal) });
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(socket: &std::path::Path, more: &[String]) -> Child {
    let mut command = Command::new("memcached");
    command.arg("-s").arg(socket).args(["-t", "2", "-u", "root"]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("memcached is not installed (Debian package memcached)")
}

/// `metadump` writes keys as in a URL.
fn decoded(key: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = key.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).unwrap()
}
