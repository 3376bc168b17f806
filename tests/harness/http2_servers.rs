//! Real servers of HTTP/2 to stand before: nginx and nghttpd, with and without TLS, ended by their process ids.

use super::secure::Authority;
use super::{Origin, until};
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server of the files of a folder.
pub struct Server {
    _process: Process,
    /// As `proxy.to` names it.
    pub url: String,
    /// Whether it says how long its files are.
    pub has_lengths: bool,
    folder: tempfile::TempDir,
}

/// Ends with the scenario, however that ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/2 in clear text.
    Clear,
    /// HTTP/2 in TLS, for `localhost`.
    Tls,
}

impl Server {
    /// nghttpd with these files and a trailer `x-sum: 7`, in TLS without lengths. It gives back what it is sent by POST.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn nghttpd(files: &[(&str, &[u8])], speaks: Speaks, authority: &Authority) -> Self {
        let folder = folder(files);
        let mut command = Command::new("nghttpd");
        command.args(["--address", "127.0.0.1", "--echo-upload", "--trailer", "x-sum: 7", "--htdocs"]);
        command.arg(folder.path().join("www"));
        match speaks {
            Speaks::Clear => command.args(["--no-tls", "0"]),
            Speaks::Tls => command
                .args(["--no-content-length", "0"])
                .arg(authority.path("origin.key"))
                .arg(authority.path("origin.pem")),
        };
        let process = spawn(command, "nghttpd", "nghttp2-server");
        let mut port = None;
        until("nghttpd listens", || {
            port = listens_at(process.0.id());
            port.is_some()
        });
        let port = port.unwrap_or(0);
        let url = match speaks {
            Speaks::Clear => format!("h2c://127.0.0.1:{port}"),
            Speaks::Tls => format!("https://localhost:{port}"),
        };
        Self { _process: process, url, has_lengths: speaks == Speaks::Clear, folder }
    }

    /// nginx with these files and a trailer `x-sum: 7`, on a Unix socket. Requests below `/echo` go to `behind`.
    ///
    /// # Panics
    /// Where it is not installed.
    pub fn nginx(files: &[(&str, &[u8])], speaks: Speaks, authority: &Authority, behind: &Origin) -> Self {
        let folder = folder(files);
        let socket = folder.path().join("socket");
        std::fs::write(folder.path().join("nginx.conf"), configuration(&socket, speaks, authority, behind))
            .unwrap();
        let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).args(["-e", "error.log", "-c", "nginx.conf"]);
        let mut process = spawn(command, program, "nginx-light");
        let log = folder.path().join("error.log");
        until("nginx listens", || {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "nginx ended: {}", std::fs::read_to_string(&log).unwrap_or_default());
            UnixStream::connect(&socket).is_ok()
        });
        let url = match speaks {
            Speaks::Clear => format!("h2c+unix:{}", socket.display()),
            // It takes no port that the system chooses.
            Speaks::Tls => format!("https://localhost:{}", relay(socket).port()),
        };
        Self { _process: process, url, has_lengths: true, folder }
    }

    /// Writes one of its files again, with a date ten seconds later: dates count seconds.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let mut file = File::create(self.folder.path().join("www").join(name)).unwrap();
        file.write_all(bytes).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now + Duration::from_secs(10)).unwrap();
    }
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("www")).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join("www").join(name), bytes).unwrap();
    }
    folder
}

fn configuration(socket: &Path, speaks: Speaks, authority: &Authority, behind: &Origin) -> String {
    let tls = match speaks {
        Speaks::Clear => String::new(),
        Speaks::Tls => format!(
            "ssl_certificate {};\nssl_certificate_key {};\n",
            authority.path("origin.pem").display(),
            authority.path("origin.key").display()
        ),
    };
    let ssl = if speaks == Speaks::Tls { "ssl " } else { "" };
    // SAFETY: it only reads.
    let user = if unsafe { libc::geteuid() } == 0 { "user root;\n" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|it| format!("{it}_temp_path {it};\n"))
        .concat();
    format!(
        "{user}daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
         server {{\nlisten unix:{} {ssl}http2;\n{tls}root www;\nadd_trailer X-Sum 7;\n\
         add_header Cache-Control max-age=60;\n\
         location /echo {{ proxy_pass http://{}; }}\n}}\n}}\n",
        socket.display(),
        behind.address
    )
}

fn spawn(mut command: Command, program: &str, package: &str) -> Process {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn();
    Process(child.unwrap_or_else(|it| panic!("{program} (Debian's {package}, see tests/install): {it}")))
}

/// The TCP port at which a process listens.
fn listens_at(process: u32) -> Option<u16> {
    let sockets: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{process}/fd"))
        .ok()?
        .flatten()
        .filter_map(|it| std::fs::read_link(it.path()).ok())
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (at, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let own = PathBuf::from(format!("socket:[{inode}]"));
        let listens = *state == "0A" && sockets.contains(&own);
        u16::from_str_radix(at.split_once(':')?.1, 16).ok().filter(|_| listens)
    })
}

/// A TCP address whose connections go on to a Unix socket.
pub fn relay(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = UnixStream::connect(&socket) else { continue };
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass_on(near, far, |it| drop(it.shutdown(Shutdown::Write))));
            std::thread::spawn(move || {
                pass_on(far_too, near_too, |it: &TcpStream| drop(it.shutdown(Shutdown::Write)))
            });
        }
    });
    address
}

fn pass_on<W: io::Write>(mut from: impl io::Read, mut to: W, end: impl FnOnce(&W)) {
    let _ = io::copy(&mut from, &mut to);
    end(&to);
}
