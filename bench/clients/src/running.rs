//! The larder that is upgraded: started by a link, which names one program after the other.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything is waited for.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Running {
    child: Option<Child>,
    /// The process that serves.
    process: u32,
    folder: PathBuf,
    /// HTTP and HTTPS.
    pub ports: [u16; 2],
    admin: u16,
}

impl Running {
    /// Starts this program in front of the application at `origin`.
    pub fn start(program: &Path, origin: u16) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("larder-bench-upgrades-{}", std::process::id()));
        let failed = |it: std::io::Error| format!("{}: {it}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let [http, https, admin] = [free_port()?, free_port()?, free_port()?];
        certificate(&folder)?;
        let text = format!(
            "listen = [\"127.0.0.1:{http}\", \"https://127.0.0.1:{https}\"]\nhttp3 = true\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
             [log]\naccess = \"off\"\nerror = \"error.log\"\n[tls]\ncertificates = [{{ cert = \"cert.pem\", key = \"key.pem\" }}]\n\
             [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"http://127.0.0.1:{origin}\"] }}\n"
        );
        fs::write(folder.join("larder.toml"), text).map_err(failed)?;
        set_link(&folder, program)?;
        let output = fs::File::create(folder.join("output")).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let child = Command::new(folder.join("larder"))
            .args(["run", "-c", "larder.toml"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|it| format!("{}: {it}", program.display()))?;
        let it = Self { process: child.id(), child: Some(child), folder, ports: [http, https], admin };
        let begun = Instant::now();
        while TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, https))).is_err() {
            it.must_serve()?;
            if begun.elapsed() > TIMEOUT {
                return Err(it.failure("does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(it)
    }

    /// The process that serves is alive.
    pub fn must_serve(&self) -> Result<(), String> {
        match Path::new(&format!("/proc/{}/exe", self.process)).exists() {
            true => Ok(()),
            false => Err(self.failure("has ended")),
        }
    }

    /// Upgrades to this program, once the process before the running one has ended; returns how long that took.
    pub fn upgrade(&mut self, program: &Path) -> Result<Duration, String> {
        set_link(&self.folder, program)?;
        let begun = Instant::now();
        loop {
            let waited = begun.elapsed();
            let admin = format!("127.0.0.1:{}", self.admin);
            let ended = Command::new(self.folder.join("larder"))
                .args(["upgrade", "--admin", &admin, "--json", "--timeout", "60"])
                .current_dir(&self.folder)
                .output()
                .map_err(|it| it.to_string())?;
            let told = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
            if ended.status.success() {
                let process = told.split("\"process\":").nth(1).unwrap_or_default().trim_start();
                let digits: String = process.chars().take_while(char::is_ascii_digit).collect();
                self.process = digits.parse().map_err(|_| self.failure(&told))?;
                // It has ended, or will.
                if let Some(mut child) = self.child.take() {
                    std::thread::spawn(move || child.wait());
                }
                return Ok(waited);
            }
            if !told.contains("still finishes its requests") || waited > TIMEOUT {
                return Err(self.failure(&told));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Has it read its configuration again, and waits until that is in force.
    pub fn reload(&self) -> Result<(), String> {
        let count = || {
            let log = fs::read_to_string(self.folder.join("error.log")).unwrap_or_default();
            log.lines().filter(|it| it.contains(" reloaded ")).count()
        };
        let (before, begun) = (count(), Instant::now());
        let sent = Command::new("kill").args(["-HUP", &self.process.to_string()]).status();
        sent.map_err(|it| it.to_string())?;
        while count() == before {
            self.must_serve()?;
            if begun.elapsed() > TIMEOUT {
                return Err(self.failure("does not reload"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends it; returns its log.
    pub fn stop(self) -> Result<String, String> {
        let log = fs::read_to_string(self.folder.join("error.log")).unwrap_or_default();
        Ok(log)
    }

    fn failure(&self, what: &str) -> String {
        let tail = |name: &str| {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            text.lines().rev().take(5).map(str::to_owned).collect::<Vec<_>>().join(" | ")
        };
        format!("larder: {what}; {}; {}", tail("output"), tail("error.log"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.to_string()).status();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|it| it.to_string())?;
    listener.local_addr().map(|it| it.port()).map_err(|it| it.to_string())
}

/// Has the link name this program.
fn set_link(folder: &Path, program: &Path) -> Result<(), String> {
    let program = program.canonicalize().map_err(|it| format!("{}: {it}", program.display()))?;
    let new = folder.join("new");
    let named = symlink(program, &new).and_then(|()| fs::rename(new, folder.join("larder")));
    named.map_err(|it| it.to_string())
}

fn certificate(folder: &Path) -> Result<(), String> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output();
    match made {
        Ok(it) if it.status.success() => Ok(()),
        _ => Err("openssl cannot make a certificate".to_owned()),
    }
}
