//! The processes of a measurement: larder itself, once for each mode, and a memcached. Each is stopped by its process id
//! when its value is dropped.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The interval of checks of a starting process, and their number.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 250;

/// This binary, running a configuration.
pub(super) struct BenchLarder {
    _process: Process,
    /// Its address.
    pub address: SocketAddr,
}

impl BenchLarder {
    /// Starts one and waits until it listens.
    pub fn start(words: &[String]) -> Result<Self, String> {
        let binary =
            std::env::current_exe().map_err(|it| format!("The larder binary was not found: {it}."))?;
        let mut command = Command::new(binary);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = ends_with_us(&mut command).spawn();
        let mut child = child.map_err(|it| format!("larder cannot be started: {it}."))?;
        let stdout = child.stdout.take();
        let process = Process(child);
        // It prints its addresses once every socket is open, or ends.
        let lines = stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        let mut addresses = lines.filter_map(|it| it.strip_prefix("listening on http://")?.parse().ok());
        match addresses.next() {
            Some(address) => Ok(Self { _process: process, address }),
            None => Err("larder did not start; see its output above.".to_owned()),
        }
    }
}

/// A memcached of the measurement.
pub(super) struct BenchMemcached {
    _process: Process,
    /// Its address.
    pub address: SocketAddr,
}

impl BenchMemcached {
    /// Starts one on a free port and waits until it responds.
    pub fn start() -> Result<Self, String> {
        let nowhere = |it| format!("No port is free on 127.0.0.1: {it}.");
        let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(nowhere)?;
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-U", "0", "-m", "64", "-p"]).arg(address.port().to_string());
        if std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
            // memcached requires permission to run as root; as another user it would not end with this process
            // (prctl(2)).
            command.args(["-u", "root"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = ends_with_us(&mut command).spawn();
        let child = child.map_err(|it| {
            format!("memcached cannot be started ({it}); install it (Debian: memcached), or set --server.")
        })?;
        let process = Process(child);
        for _ in 0..LOOKS {
            if TcpStream::connect_timeout(&address, LOOK).is_ok() {
                return Ok(Self { _process: process, address });
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("memcached did not answer on {address}."))
    }
}

/// Makes the kernel end a child when this process ends, in any way.
fn ends_with_us(command: &mut Command) -> &mut Command {
    let set_parent_signal = || {
        let term = Some(rustix::process::Signal::TERM);
        rustix::process::set_parent_process_death_signal(term).map_err(Into::into)
    };
    // SAFETY: between fork and exec only prctl(2) is called, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(set_parent_signal) }
}

/// Whether a memcached responds there.
pub(super) fn answers(server: &str) -> Result<(), String> {
    let address = server.split_whitespace().next().unwrap_or(server);
    let tried = match address.strip_prefix("unix:") {
        Some(path) => std::os::unix::net::UnixStream::connect(path).map(drop),
        None => TcpStream::connect(address).map(drop),
    };
    tried.map_err(|it| format!("No memcached answers at {address}: {}.", larder_stdx::error::plain(&it)))
}

/// A child that does not outlive this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
