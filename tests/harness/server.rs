//! A running larder: the real binary with a configuration of its own, on free ports, ended by its process id.

use super::origin::Behind;
use super::{Client, begun};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// The admin's token of every larder here, and of every command that asks one.
pub const TOKEN: &str = "of-the-scenarios-0123456789abcdefghijklmnop";

/// How a larder is to be started.
pub struct Setup {
    /// The whole `larder.toml`.
    pub config: String,
    /// More environment.
    pub env: Vec<(String, String)>,
}

/// A running larder and the folder with its files.
pub struct Larder {
    /// Where it serves.
    pub address: SocketAddr,
    /// Where its admin listens.
    pub admin: SocketAddr,
    /// The process.
    pub child: Child,
    /// Its folder, with `larder.toml` and the scenario's files.
    pub folder: tempfile::TempDir,
    output: Arc<Mutex<String>>,
}

impl Larder {
    /// larder before `origin`, with a route's cache settings (`default_ttl = "60s", …`), or none.
    pub fn before(origin: &impl Behind, cache: &str) -> Self {
        Self::before_with(origin, cache, "")
    }

    /// The same, with more lines at the top of the file.
    pub fn before_with(origin: &impl Behind, cache: &str, top: &str) -> Self {
        let url = origin.url();
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\n{top}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
             proxy = {{ to = [\"{url}\"] }}\ncache = {{ {cache} }}\n"
        );
        Self::configured(config)
    }

    /// Starts with a configuration; `[admin] listen` is added unless the file has an `[admin]`.
    pub fn start(setup: Setup) -> Self {
        Self::start_by(Command::new(binary()), setup)
    }

    /// The same without further environment.
    pub fn configured(config: impl Into<String>) -> Self {
        Self::start(Setup { config: config.into(), env: Vec::new() })
    }

    /// The same by a command that runs larder, such as [`activation`].
    pub fn start_by(mut command: Command, setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        let mut config = setup.config;
        if !config.contains("[admin]") {
            config.push_str("\n[admin]\nlisten = \"127.0.0.1:0\"\n");
        }
        if !config.contains("[log]") {
            config.push_str("\n[log]\naccess = \"off\"\n");
        }
        std::fs::write(&path, config).unwrap();
        command.args(["run", "-c"]).arg(&path).envs(setup.env);
        Self::spawn(command, folder)
    }

    /// Runs `larder ARGS…`; `--admin` must be among them or the default do.
    pub fn command(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command.args(arguments);
        Self::spawn(command, folder)
    }

    /// Runs `larder ARGS…` after a shell has done `first`.
    pub fn within(first: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{first} && exec \"$@\"")).arg("sh").arg(binary()).args(arguments);
        Self::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: tempfile::TempDir) -> Self {
        command.current_dir(folder.path());
        // One that a scenario has set stays so: empty, the clock is that of the machine.
        if !command.get_envs().any(|it| it.0 == "LARDER_TEST_CLOCK") {
            command.env("LARDER_TEST_CLOCK", begun().to_string());
        }
        // Most are killed: what one leaves goes with its folder.
        command.env("TMPDIR", folder.path());
        // Its run file is for the commands of this scenario alone.
        if !command.get_envs().any(|it| it.0 == "XDG_RUNTIME_DIR") {
            command.env("XDG_RUNTIME_DIR", folder.path());
        }
        // Its history goes with its folder.
        if !command.get_envs().any(|it| it.0 == "XDG_STATE_HOME") {
            command.env("XDG_STATE_HOME", folder.path().join("state"));
        }
        // One that a scenario has set, or removed, stays so.
        if !command.get_envs().any(|it| it.0 == "LARDER_ADMIN_TOKEN") {
            command.env("LARDER_ADMIN_TOKEN", TOKEN);
        }
        let output = Arc::new(Mutex::new(String::new()));
        let mut attempts = 0;
        let Started { child, lines, serving, admin } = loop {
            attempts += 1;
            match begin(&mut command, &output) {
                Ok(it) => break it,
                // The kernel chooses a TCP port; another program may have the UDP port of that number.
                Err(status) if status.code() == Some(2) && attempts < 3 && uses_udp(&folder) => {}
                Err(status) => panic!("larder ended at start: {status}\n{}", output.lock().unwrap()),
            }
        };
        keep_reading(lines, output.clone());
        let none = "127.0.0.1:1".parse().unwrap();
        Self { address: serving.unwrap_or(none), admin: admin.unwrap_or(none), child, folder, output }
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// One GET on a connection of its own.
    pub fn get(&self, target: &str) -> super::Response {
        self.client().get(target)
    }

    /// Moves larder's wall clock.
    pub fn advance(&self, seconds: i64) {
        let path = format!("/test/clock?advance={seconds}");
        let response = self.admin_request("POST", &path);
        assert_eq!(200, response.status, "the clock can be moved: {response:?}");
    }

    /// Has larder's monotonic clock go on by `millis`: every deadline comes that much nearer.
    pub fn pass(&self, millis: u64) {
        let path = format!("/test/clock?advance=0&uptime={millis}");
        let response = self.admin_request("POST", &path);
        assert_eq!(200, response.status, "the clock can be moved: {response:?}");
    }

    /// Holds larder's monotonic clock, where only [`Larder::pass`] moves it until [`Larder::release`].
    pub fn hold(&self) {
        let response = self.admin_request("POST", "/test/clock?advance=0&hold=1");
        assert_eq!(200, response.status, "the clock can be held: {response:?}");
    }

    /// The monotonic clock goes on by itself again.
    pub fn release(&self) {
        let response = self.admin_request("POST", "/test/clock?advance=0&hold=0");
        assert_eq!(200, response.status, "the clock can be released: {response:?}");
    }

    /// The lines with which a request to the admin listener is let in: `Host` and the token.
    pub fn admin_lines(&self) -> String {
        format!("Host: {}\r\nAuthorization: Bearer {TOKEN}", self.admin)
    }

    /// A request without a body to the admin listener.
    pub fn admin_request(&self, method: &str, path: &str) -> super::Response {
        let mut client = Client::connect(self.admin);
        client.send(format!("{method} {path} HTTP/1.1\r\n{}\r\n\r\n", self.admin_lines()));
        client.read()
    }

    /// Posts JSON to the admin.
    pub fn admin_post(&self, path: &str, body: &str) -> super::Response {
        self.admin_send("POST", path, body).read()
    }

    /// Sends a request with a body to the admin, whose response is read later.
    pub fn admin_send(&self, method: &str, path: &str, body: &str) -> Client {
        let mut client = Client::connect(self.admin);
        let (lines, length) = (self.admin_lines(), body.len());
        client.send(format!("{method} {path} HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"));
        client
    }

    /// The file `error.log` in the folder of the scenario; empty while there is none.
    pub fn error_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    /// GETs a path of the admin listener.
    pub fn admin_get(&self, path: &str) -> super::Response {
        self.admin_request("GET", path)
    }

    /// One counter of the statistics.
    pub fn counter(&self, name: &str) -> u64 {
        let text = self.admin_get("/cache/stats").text();
        let stats: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|it| panic!("{it}: {text}"));
        stats["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {text}"))
    }

    /// Bytes of a part of its memory, by its own books.
    pub fn memory(&self, tier: &str, purpose: &str) -> u64 {
        let text = self.admin_get("/api/v1/stats").text();
        let stats: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|it| panic!("{it}: {text}"));
        let parts = stats["memory"]["parts"].as_array().unwrap_or_else(|| panic!("no memory in {text}"));
        let part = parts.iter().find(|it| it["tier"] == tier && it["purpose"] == purpose);
        part.and_then(|it| it["bytes"].as_u64()).unwrap_or_else(|| panic!("no {tier} {purpose} in {text}"))
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("larder.toml")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
        assert_eq!(0, unsafe { libc::kill(pid, signal) });
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn printed(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Open descriptors of the process.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Milliseconds of processor time that the process has used.
    pub fn processor_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let rest = stat.rsplit_once(") ").unwrap().1;
        // utime and stime, in ticks of a hundredth of a second.
        rest.split(' ').skip(11).take(2).map(|it| it.parse::<u64>().unwrap() * 10).sum()
    }

    /// Bytes of its arena that are resident: pages of a file that is mapped nowhere.
    pub fn resident_arena(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let arena = descriptors.flatten().filter_map(|it| {
            let target = std::fs::read_link(it.path()).ok()?;
            let is_arena = target.to_string_lossy().contains("larder-arena");
            is_arena.then(|| std::fs::metadata(it.path()).ok()).flatten()
        });
        arena.map(|it| it.blocks() * 512).sum()
    }

    /// Resident bytes of the process.
    pub fn resident(&self) -> u64 {
        self.resident_as("VmRSS:")
    }

    /// The same without the program itself, which grows with what is built into it.
    pub fn resident_data(&self) -> u64 {
        self.resident_as("RssAnon:") + self.resident_as("RssShmem:")
    }

    fn resident_as(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep_reading(mut lines: BufReader<ChildStdout>, output: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|it| it > 0) {
            output.lock().unwrap().push_str(&line);
            line.clear();
        }
    });
}

/// A command that runs larder as a service manager does that passes these sockets, with names separated by colons.
pub fn activation(sockets: &[BorrowedFd<'_>], names: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh"]).arg(binary());
    command.env("LISTEN_FDS", sockets.len().to_string()).env("LISTEN_FDNAMES", names);
    // Above those that the copies below replace.
    let high = |it: &BorrowedFd<'_>| {
        // SAFETY: the call takes no pointers, and the descriptor is open.
        let copy = unsafe { libc::fcntl(it.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) };
        assert!(copy >= 100);
        // SAFETY: it is open, and nothing else has it.
        unsafe { OwnedFd::from_raw_fd(copy) }
    };
    let sockets: Vec<OwnedFd> = sockets.iter().map(high).collect();
    let copy = move || {
        for (number, socket) in (3..).zip(&sockets) {
            // SAFETY: the call takes no pointers; the new process needs none of the descriptors that it replaces.
            if unsafe { libc::dup2(socket.as_raw_fd(), number) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls alone.
    unsafe { command.pre_exec(copy) };
    command
}

/// The binary under test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_larder"))
}

/// A larder that has printed its addresses.
struct Started {
    child: Child,
    lines: BufReader<ChildStdout>,
    serving: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

/// Starts larder and reads until both addresses are printed, the admin's last: see `larder::server`. Its status if it ends before.
fn begin(command: &mut Command, output: &Mutex<String>) -> Result<Started, ExitStatus> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut serving, mut admin) = (None, None);
    while admin.is_none() {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            return Err(child.wait().unwrap());
        }
        output.lock().unwrap().push_str(&line);
        let address = |it: &str| {
            let it = it.trim().trim_end_matches('/');
            it.split_once("://").map_or(it, |it| it.1).parse().ok()
        };
        if let Some(rest) = line.strip_prefix("listening on ") {
            serving = serving.or(address(rest));
        }
        if let Some(rest) = line.strip_prefix("admin on ") {
            admin = address(rest);
        }
        if line.starts_with("admin off") {
            admin = "127.0.0.1:1".parse().ok();
        }
    }
    Ok(Started { child, lines, serving, admin })
}

/// Whether the configuration in a folder opens UDP ports.
fn uses_udp(folder: &tempfile::TempDir) -> bool {
    std::fs::read_to_string(folder.path().join("larder.toml")).is_ok_and(|it| it.contains("http3 = true"))
}
