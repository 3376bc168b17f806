//! The measured servers: larder, its peers and the limit program, each with the files of its best configuration.
//!
//! "Best" means: no access log, one worker on one core, no limit that ends a connection early, all requested content in
//! memory. This module starts no server.

use std::fs;
use std::path::{Path, PathBuf};

mod peers;

/// The target of redirects.
pub const MOVED: &str = "https://www.example.com/page.html";

/// The settings of [`Server::LarderRules`].
const RULES: &str = "\
    response_headers = { set = { X-Frame-Options = \"DENY\", X-Content-Type-Options = \"nosniff\" }, remove = [\"X-Powered-By\"] }\n\
    access = { allow = [\"127.0.0.0/8\", \"10.0.0.0/8\", \"192.168.0.0/16\"] }";

/// One server in one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// larder in front of the origin; storable answers come from the RAM tier.
    LarderProxy {
        /// Worker threads.
        workers: u32,
    },
    /// The same with a disk tier and a memcached fleet set up, and the route on these tiers.
    LarderTiers(&'static [&'static str]),
    /// larder in front of the origin with one worker, and `admin.statistics` switched off.
    LarderUncounted,
    /// larder in front of the origin with one worker; one request of `every` is traced.
    LarderTraced {
        /// `site.route.trace`.
        every: u32,
    },
    /// larder in front of the origin with one worker; the route has three rules of response fields and a list of clients.
    LarderRules,
    /// larder with a route that is a redirect.
    LarderRedirect,
    /// larder in front of the origin with one worker, configured with the origin's number of connections.
    LarderCapped {
        /// `site.route.proxy.connections`.
        connections: u32,
    },
    /// larder in front of the origin with one worker, and HTTP/3.
    LarderHttp3,
    /// larder before php-fpm, whose script `page` answers every path, without the cache.
    LarderPhp,
    /// larder with a query of MariaDB, without the cache.
    LarderRows,
    /// larder serving the page as a file.
    LarderFiles,
    /// The limit program, one `send` a batch.
    Canned,
    /// The limit program, `send` + `sendfile`.
    CannedSendfile,
    /// The limit program by TLS.
    CannedTls,
    /// nginx serving the page as a file.
    NginxFiles {
        /// Its `sendfile` directive.
        sendfile: bool,
    },
    /// nginx with `return 301`.
    NginxRedirect,
    /// nginx with `proxy_cache`.
    NginxCache,
    /// nginx with `proxy_cache`, configured with the origin's number of connections.
    NginxCapped {
        /// `max_conns`.
        connections: u32,
    },
    /// nginx as a plain proxy.
    NginxProxy,
    /// nginx before php-fpm.
    NginxPhp {
        /// The script of every path.
        script: &'static str,
    },
    /// Varnish with its cache in memory.
    Varnish,
    /// Varnish with its cache in memory, configured with the origin's number of connections.
    VarnishCapped {
        /// `.max_connections`.
        connections: u32,
    },
    /// Varnish configured to pass.
    VarnishPass,
    /// HAProxy with its `cache`.
    HaproxyCache,
    /// HAProxy as a plain proxy.
    HaproxyProxy,
    /// Traffic Server with its RAM cache.
    Traffic,
    /// H2O serving the page as a file.
    H2o,
    /// lighttpd serving the page as a file.
    Lighttpd,
    /// Caddy serving the page as a file, over HTTP/3 too.
    Caddy,
}

/// The place of a server's files, and its surroundings.
#[derive(Clone, Debug)]
pub struct Place {
    /// A folder of its own, empty.
    pub dir: PathBuf,
    /// The folder that holds `page.html`.
    pub root: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The origin's port; zero where the server needs none.
    pub origin: u16,
    /// The ports of memcacheds.
    pub fleet: Vec<u16>,
    /// Connections that it must hold at once.
    pub connections: u64,
    /// Whether this process runs as root, where some servers need a user to switch to.
    pub root_user: bool,
    /// Where requests use TLS, with HTTP/2 for clients that want it: the folder of `cert.pem`, `key.pem`, and `both.pem`.
    pub certificate: Option<PathBuf>,
}

/// The programs of this project.
#[derive(Clone, Debug)]
pub struct Ours {
    /// The larder that is measured.
    pub larder: PathBuf,
    /// The limit program, built from `limit/canned.c`.
    pub canned: PathBuf,
    /// The same by TLS, built from `limit/tls.c`; missing where OpenSSL's headers are.
    pub canned_tls: PathBuf,
}

/// The files to write and the program to start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Folders beneath the server's own.
    pub folders: Vec<&'static str>,
    /// Files beneath it, with their text.
    pub files: Vec<(&'static str, String)>,
    /// The command line.
    pub argv: Vec<String>,
    /// A user who must own the folder.
    pub owner: Option<&'static str>,
}

impl Server {
    /// The program that is started; how it is named in the tables too.
    pub fn program(self) -> &'static str {
        match self {
            Server::LarderProxy { .. }
            | Server::LarderTiers(_)
            | Server::LarderUncounted
            | Server::LarderTraced { .. }
            | Server::LarderRules
            | Server::LarderRedirect
            | Server::LarderCapped { .. }
            | Server::LarderHttp3
            | Server::LarderPhp
            | Server::LarderRows
            | Server::LarderFiles => "larder",
            Server::Canned | Server::CannedSendfile => "canned",
            Server::CannedTls => "canned-tls",
            Server::NginxFiles { .. }
            | Server::NginxRedirect
            | Server::NginxCache
            | Server::NginxCapped { .. }
            | Server::NginxPhp { .. }
            | Server::NginxProxy => "nginx",
            Server::Varnish | Server::VarnishCapped { .. } | Server::VarnishPass => "varnishd",
            Server::HaproxyCache | Server::HaproxyProxy => "haproxy",
            Server::Traffic => "traffic_server",
            Server::H2o => "h2o",
            Server::Lighttpd => "lighttpd",
            Server::Caddy => "caddy",
        }
    }

    /// Whether it serves what it gets from an origin.
    pub fn needs_origin(self) -> bool {
        !matches!(
            self,
            Server::LarderFiles
                | Server::LarderRedirect
                | Server::NginxRedirect
                | Server::Canned
                | Server::CannedSendfile
                | Server::CannedTls
                | Server::NginxFiles { .. }
                | Server::H2o
                | Server::Lighttpd
                | Server::Caddy
        )
    }

    /// Whether its answer is a redirect to [`MOVED`], not the page.
    pub fn redirects(self) -> bool {
        matches!(self, Server::LarderRedirect | Server::NginxRedirect)
    }

    /// The files and the command line of this server at `place`.
    pub fn plan(self, place: &Place, ours: &Ours) -> Plan {
        match self {
            Server::LarderProxy { workers } => larder(place, ours, workers, &proxy(place, "")),
            Server::LarderUncounted => larder_with("admin.statistics=false", place, ours),
            Server::LarderHttp3 => larder_with("http3=true", place, ours),
            Server::LarderTraced { every } => {
                larder(place, ours, 1, &proxy(place, &format!("\ntrace = {every}")))
            }
            Server::LarderRules => larder(place, ours, 1, &proxy(place, &format!("\n{RULES}"))),
            Server::LarderRedirect => {
                let route = format!("redirect = {{ to = \"{MOVED}\", status = 301 }}");
                larder(place, ours, 1, &route)
            }
            Server::LarderCapped { connections } => {
                let route = format!(
                    "proxy = {{ to = [\"http://127.0.0.1:{}\"], connections = {connections} }}",
                    place.origin
                );
                larder(place, ours, 1, &route)
            }
            Server::LarderTiers(tiers) => larder_tiers(place, ours, tiers),
            Server::LarderPhp => {
                let (root, socket) = (place.root.join("page"), place.root.join("application/php"));
                let route = format!(
                    "php = {{ root = {root:?}, to = \"unix:{}\" }}\ncache.enabled = false",
                    socket.display()
                );
                larder(place, ours, 1, &route)
            }
            Server::LarderRows => larder_rows(place, ours),
            Server::LarderFiles => {
                let route = format!("files = {{ root = \"{}\", cache_for = \"1h\" }}", place.root.display());
                larder(place, ours, 1, &route)
            }
            Server::Canned => canned(&ours.canned, "copy", place.port, &place.root, &[]),
            Server::CannedSendfile => canned(&ours.canned, "sendfile", place.port, &place.root, &[]),
            Server::CannedTls => canned_tls(&ours.canned_tls, place),
            Server::NginxFiles { sendfile } => peers::nginx(place, &peers::nginx_files(place, sendfile)),
            Server::NginxRedirect => peers::nginx(place, &format!("return 301 {MOVED};")),
            Server::NginxCache => peers::nginx(place, &peers::nginx_cache(place)),
            Server::NginxCapped { connections } => {
                let mut plan = peers::nginx(place, &peers::nginx_cache(place));
                let (directive, capped) = (
                    format!(":{};", place.origin),
                    format!(":{} max_conns={connections} max_fails=0;", place.origin),
                );
                plan.files.iter_mut().for_each(|it| it.1 = it.1.replacen(&directive, &capped, 1));
                plan
            }
            Server::NginxProxy => peers::nginx(place, &peers::nginx_proxy(place)),
            Server::NginxPhp { script } => peers::nginx(place, &peers::nginx_php(place, script)),
            Server::Varnish => peers::varnish(place, "hash"),
            Server::VarnishCapped { connections } => {
                let mut plan = peers::varnish(place, "hash");
                let capped = format!(".max_connections = {connections}; }}\n");
                plan.files.iter_mut().for_each(|it| it.1 = it.1.replacen("}\n", &capped, 1));
                plan
            }
            Server::VarnishPass => peers::varnish(place, "pass"),
            Server::HaproxyCache => peers::haproxy(place, true),
            Server::HaproxyProxy => peers::haproxy(place, false),
            Server::Traffic => peers::traffic_server(place),
            Server::H2o => peers::h2o(place),
            Server::Lighttpd => peers::lighttpd(place),
            Server::Caddy => peers::caddy(place),
        }
    }
}

impl Plan {
    /// Writes the folders and files beneath `dir`, which is made.
    ///
    /// # Errors
    /// Where the disk refuses, or the owner cannot be set.
    pub fn write(&self, dir: &Path) -> Result<(), String> {
        let failed = |it: std::io::Error| format!("{}: {it}", dir.display());
        fs::create_dir_all(dir).map_err(failed)?;
        for folder in &self.folders {
            fs::create_dir_all(dir.join(folder)).map_err(failed)?;
        }
        for (name, text) in &self.files {
            fs::write(dir.join(name), text).map_err(failed)?;
        }
        let Some(owner) = self.owner else { return Ok(()) };
        let chown =
            std::process::Command::new("chown").arg("-R").arg(owner).arg(dir).output().map_err(failed)?;
        if chown.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&chown.stderr).trim().to_owned())
        }
    }
}

/// The limit program as a server or, with `headers`, as an origin.
pub fn canned(program: &Path, how: &str, port: u16, root: &Path, headers: &[&str]) -> Plan {
    let mut argv = vec![program.display().to_string(), how.to_owned(), port.to_string()];
    argv.push(root.join("page.html").display().to_string());
    argv.extend(headers.iter().map(|it| (*it).to_owned()));
    Plan { argv, ..Plan::default() }
}

fn canned_tls(program: &Path, place: &Place) -> Plan {
    let mut plan = canned(program, "tls", place.port, &place.root, &[]);
    let certificate = place.certificate.clone().unwrap_or_default();
    plan.argv.insert(2, certificate.join("both.pem").display().to_string());
    plan
}

/// larder before the origin with one worker and one more setting.
fn larder_with(setting: &str, place: &Place, ours: &Ours) -> Plan {
    let mut plan = Server::LarderProxy { workers: 1 }.plan(place, ours);
    plan.argv.extend(["--set".to_owned(), setting.to_owned()]);
    plan
}

/// larder before the origin on these tiers, with a disk tier and a memcached fleet.
fn larder_tiers(place: &Place, ours: &Ours, tiers: &[&str]) -> Plan {
    let route = format!(
        "proxy = {{ to = [\"http://127.0.0.1:{}\"] }}\ncache = {{ tiers = {tiers:?} }}",
        place.origin
    );
    let mut plan = larder(place, ours, 1, &route);
    let servers: Vec<String> = place.fleet.iter().map(|it| format!("127.0.0.1:{it}")).collect();
    let below = format!(
        "[cache.disk]\npath = \"{}\"\n\n[cache.fleet]\nservers = {servers:?}\nkey_prefix = \"{}-\"\n\n[[site]]",
        place.dir.join("tier").display(),
        place.port,
    );
    for (_, text) in &mut plan.files {
        *text = text.replacen("[[site]]", &below, 1);
    }
    plan
}

/// larder with a query by the key that is the path. The origin's script keeps the socket of the database in the folder of the page.
fn larder_rows(place: &Place, ours: &Ours) -> Plan {
    let query = "select id, name from pages where id = :id";
    let route = format!(
        "sql = {{ query = \"{query}\", parameters = {{ id = \"path text\" }} }}\ncache.enabled = false"
    );
    let mut plan = larder(place, ours, 1, &route);
    let socket = place.root.join("application/socket");
    let database = format!(
        "[[database]]\nname = \"shop\"\nurl = \"mysql+unix://larder@{}/shop\"\npassword = \"geheim\"\n\n[[site]]",
        socket.display()
    );
    plan.files.iter_mut().for_each(|it| {
        it.1 = it.1.replacen("[[site]]", &database, 1).replacen("path = \"/*\"", "path = \"/{id}\"", 1);
    });
    plan
}

/// A route before the origin, with more keys.
fn proxy(place: &Place, more: &str) -> String {
    format!("proxy = {{ to = [\"http://127.0.0.1:{}\"] }}{more}", place.origin)
}

fn larder(place: &Place, ours: &Ours, workers: u32, route: &str) -> Plan {
    let (scheme, tls) = match &place.certificate {
        None => ("", String::new()),
        Some(it) => {
            let (cert, key) = (it.join("cert.pem"), it.join("key.pem"));
            ("https://", format!("[tls]\ncertificates = [{{ cert = {cert:?}, key = {key:?} }}]\n\n"))
        }
    };
    let text = format!(
        "listen = [\"{scheme}127.0.0.1:{port}\"]\nworkers = {workers}\n\n\
         [limits]\nidle_timeout = \"1h\"\nconnections = {connections}\n\n\
         {tls}[admin]\nenabled = false\n\n[log]\naccess = \"off\"\n\n\
         [[site]]\nhosts = [\"*\"]\n\n[[site.route]]\npath = \"/*\"\n{route}\n",
        port = place.port,
        connections = place.connections,
    );
    let mut argv: Vec<String> = vec![ours.larder.display().to_string(), "run".into(), "-c".into()];
    argv.push(place.dir.join("larder.toml").display().to_string());
    Plan { files: vec![("larder.toml", text)], argv, ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Server; 30] = [
        Server::LarderPhp,
        Server::LarderRows,
        Server::NginxPhp { script: "page" },
        Server::LarderHttp3,
        Server::Caddy,
        Server::LarderRules,
        Server::LarderRedirect,
        Server::NginxRedirect,
        Server::LarderProxy { workers: 1 },
        Server::LarderUncounted,
        Server::LarderTraced { every: 100 },
        Server::LarderCapped { connections: 10 },
        Server::NginxCapped { connections: 10 },
        Server::VarnishCapped { connections: 10 },
        Server::LarderTiers(&["ram", "disk", "fleet"]),
        Server::LarderFiles,
        Server::Canned,
        Server::CannedSendfile,
        Server::CannedTls,
        Server::NginxFiles { sendfile: true },
        Server::NginxFiles { sendfile: false },
        Server::NginxCache,
        Server::NginxProxy,
        Server::Varnish,
        Server::VarnishPass,
        Server::HaproxyCache,
        Server::HaproxyProxy,
        Server::Traffic,
        Server::H2o,
        Server::Lighttpd,
    ];

    #[test]
    fn every_plan_names_its_port_and_its_origin() {
        let place = Place {
            dir: "/tmp/x".into(),
            root: "/tmp/root".into(),
            port: 10_111,
            origin: 10_222,
            fleet: vec![10_333],
            connections: 1000,
            root_user: true,
            certificate: None,
        };
        let ours = Ours { larder: "larder".into(), canned: "canned".into(), canned_tls: "canned-tls".into() };
        for server in ALL {
            let plan = server.plan(&place, &ours);
            let all = format!("{:?} {:?}", plan.files, plan.argv);
            assert!(all.contains("10111"), "{server:?}: {all}");
            // php-fpm and databases are reached by their sockets.
            let has_origin = all.contains("10222") || all.contains("/application/");
            assert_eq!(server.needs_origin(), has_origin, "{server:?}: {all}");
            assert!(plan.argv[0].ends_with(server.program()), "{server:?}: {all}");
        }
        let sealed = Place { certificate: Some("/tmp/pair".into()), ..place };
        for case in crate::cases::all() {
            for lane in case.lanes.iter().filter(|it| it.manner.is_sealed()) {
                let plan = lane.server.plan(&sealed, &ours);
                let all = format!("{:?} {:?}", plan.files, plan.argv);
                assert!(all.contains("/tmp/pair/"), "{:?}: {all}", lane.server);
            }
        }
    }

    #[test]
    fn a_plan_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { folders: vec!["a/b"], files: vec![("a/b/c", "text".into())], ..Plan::default() };
        plan.write(&dir.path().join("new")).unwrap();
        assert_eq!("text", fs::read_to_string(dir.path().join("new/a/b/c")).unwrap());
    }
}
