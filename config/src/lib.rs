//! The configuration: read, checked as a whole, and then of types that are valid by construction.
//!
//! ```text
//! text ── read ──▶ Values (by key, each checked by its row of the table) ── check ──▶ Config
//! flags ──────────▶   ^
//! ```

pub mod address;
mod check;
pub mod diff;
pub mod edit;
pub mod generated;
pub mod kind;
pub mod loop_check;
mod machine;
pub mod member;
pub mod names;
pub mod page_url;
pub mod place;
pub mod plan;
pub mod presets;
pub mod problem;
mod read;
pub mod run_file;
pub mod spelling;
pub mod store;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tiers;
pub mod tls;
pub mod token;

pub use kind::{HostPattern, PathPattern};
pub use problem::{Problem, Rejected, Source};
pub use read::{Values, dotted, plain_list};

use larder_gateway::upgrade::Upgrades;
use larder_observe::log::error::LogLevels;
use larder_observe::log::form::LogFormat;
use larder_observe::log::sink::LogTarget;
use larder_observe::sampling::TraceRates;
use larder_observe::telemetry::Collector;
use larder_origin::OriginLimits;
use larder_semantics::field::Field;
use larder_semantics::forwarded::{self, Believed, ClientChain, Telling};
use larder_semantics::network::Peers;
use larder_semantics::policy::Policy;
use larder_stdx::error::plain;
use larder_store::disk::Prospect;
use larder_store::ram;
use larder_transport::Client;
use larder_transport::listener::Entrance;
use larder_transport::worker;
pub use member::{MemberProtocol, OriginMember, Origins};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The admin's port, where it is free.
pub const ADMIN_PORT: u16 = 9180;

/// The ports that are tried for the admin where nobody asked for one, and by those who look for it.
#[must_use]
pub fn admin_ports(first: u16) -> std::ops::RangeInclusive<u16> {
    const MORE: u16 = 100;
    first..=first.saturating_add(MORE)
}

/// A whole configuration. Nothing in it can be wrong but the world around it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text of the file that it was read from, where it was.
    pub text: Option<std::sync::Arc<str>>,
    /// Where clients are served; never empty.
    pub listen: Vec<Entrance>,
    /// TLS, where an address wants it.
    pub tls: Option<tls::TlsConfig>,
    /// Worker threads; `None` is one for each core.
    pub workers: Option<NonZeroUsize>,
    /// Who is believed to say who asks.
    pub clients: Clients,
    /// Bounds of clients and of the server.
    pub limits: ServerLimits,
    /// Size and shape of the RAM tier.
    pub ram: ram::RamSettings,
    /// Unused for how long, RAM is given back though there is room.
    pub idle: Option<Duration>,
    /// How the forms of stored responses are made.
    pub coding: larder_gateway::coding::pool::CoderSettings,
    /// Where slow readers of what is too large to keep find it, unless they are left behind.
    pub spool: Option<tiers::SpoolConfig>,
    /// The disk tier, where there is one.
    pub disk: Option<tiers::DiskConfig>,
    /// The memcached fleet, where there is one.
    pub fleet: Option<tiers::FleetConfig>,
    /// The admin interface.
    pub admin: AdminConfig,
    /// Whether requests are counted by route and origin, and timed.
    pub statistics: bool,
    /// The logs.
    pub log: LogConfig,
    /// The OpenTelemetry collector, where there is one.
    pub telemetry: Option<Collector>,
    /// The sites; never empty, and no two share a host.
    pub sites: Vec<SiteConfig>,
    /// Where each value came from that is not of a route.
    pub decided: Decided,
    /// The values of the keys that only a start takes over, in the order of the table.
    pub at_start: Vec<(&'static str, kind::ConfigValue)>,
    /// What is allowed but surely not meant. To be shown, once.
    pub warnings: Vec<Problem>,
    /// Where the directory of the disk tier stands.
    pub disk_source: Source,
}

impl Config {
    /// Itself, where a larder could start with it. Not for one that runs: its disk may be gone for a while.
    ///
    /// # Errors
    /// What speaks against that.
    pub fn fit(mut self) -> Result<Self, Rejected> {
        let beyond = machine::beyond(&self);
        self.warnings.extend(beyond);
        let Some(disk) = &self.disk else { return Ok(self) };
        let problem = |what: &str| Problem {
            source: self.disk_source.clone(),
            key: "cache.disk.path".to_owned(),
            text: format!("{} {what}", disk.path.display()),
        };
        match larder_store::disk::look(&disk.path) {
            Prospect::Fair => {}
            Prospect::Unfit(what) => return Err(Rejected(vec![problem(&what)])),
            // Who checks may be another user than who runs.
            Prospect::NotOurs(what) => {
                let problem = problem(&what);
                self.warnings.push(problem);
            }
        }
        Ok(self)
    }
}

/// Who is believed to say who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Proxies in front that write the field.
    pub trusted: Peers,
    /// The field that they write.
    pub believed: Believed,
    /// Who may send headers of the PROXY protocol; `None` is whoever connects.
    pub proxies: Option<Peers>,
}

impl Clients {
    /// The client of a request with `fields`: another than `peer` where that one is believed, and says so.
    #[must_use]
    pub fn seen<'a>(&self, client: &'a Client, fields: &[Field<'_>]) -> Cow<'a, Client> {
        if self.trusted.is_empty() {
            return Cow::Borrowed(client);
        }
        let peer = client.peer.map(|it| it.ip());
        let ClientChain { client: found, hops } = forwarded::seen(self.believed, peer, fields, &self.trusted);
        if hops.is_empty() {
            return Cow::Borrowed(client);
        }
        Cow::Owned(Client { peer: found.map(|it| SocketAddr::new(it, 0)), hops, ..client.clone() })
    }
}

/// Bounds of clients and of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// As the transport takes them; see also [`Config::limits_of_clients`].
    pub client: worker::ClientLimits,
    /// How long a stop waits for requests in progress.
    pub drain_timeout: Duration,
}

/// The admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Its address.
    pub listen: AdminListen,
    /// A Unix socket beside it, for this user alone. Unused where `listen` is `Off`.
    pub socket: Option<PathBuf>,
    /// Bytes that all overlays may take.
    pub overlay_size: u64,
    /// The file of its token; `None` is the default place.
    pub token_file: Option<PathBuf>,
    /// The file of the audit log, where it has one of its own.
    pub audit: Option<PathBuf>,
    /// Names under which a proxy before it is asked.
    pub hosts: Vec<String>,
}

/// Where the admin interface listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// Nowhere.
    Off,
    /// Here or at the next free port: nobody asked for this very one.
    From(SocketAddr),
    /// Here; a port in use is an error.
    At(SocketAddr),
}

/// The logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Where access lines go; `Standard` is standard output.
    pub access: LogTarget,
    /// Their form.
    pub format: LogFormat,
    /// Where error lines go; `Standard` is standard error.
    pub error: LogTarget,
    /// What is told there of which subsystem.
    pub levels: LogLevels,
}

/// Some hosts and their routes.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The hosts; never empty.
    pub hosts: Vec<HostPattern>,
    /// The routes, in the order in which they are tried; never empty.
    pub routes: Vec<RouteConfig>,
    /// Where it was declared.
    pub source: Source,
}

/// Some paths of a site, and who answers for them.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// What it is called: the name that it was given, or else its site's first host and its path.
    pub name: String,
    /// The paths.
    pub path: PathPattern,
    /// The methods.
    pub methods: Methods,
    /// Who answers.
    pub service: Service,
    /// What is cached, and how.
    pub cache: Policy,
    /// Where it is kept, of the tiers that there are.
    pub tiers: tiers::TierChoice,
    /// Who may purge.
    pub purge: tiers::PurgeAccess,
    /// One in so many requests is traced; 0 is none.
    pub trace: u32,
    /// Whether responses say where their time went.
    pub server_timing: bool,
    /// What origins are told of who asks.
    pub telling: Telling,
    /// Whether they are told the certificate that the client showed.
    pub tells_certificate: bool,
    /// Which upgrades are passed on.
    pub upgrades: Upgrades,
    /// Where each value of the route came from.
    pub decided: Decided,
    /// Where it was declared.
    pub source: Source,
}

impl RouteConfig {
    /// The origins that it leads to.
    pub fn origins(&self) -> impl Iterator<Item = &OriginMember> {
        let members = match &self.service {
            Service::Proxy(proxy) => &proxy.to.members[..],
            Service::Files(_) => &[],
        };
        members.iter()
    }
}

/// Which methods a route answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Methods {
    /// All.
    Any,
    /// These, as they were spelt: methods are case-sensitive.
    Only(Vec<String>),
}

impl Methods {
    /// Whether the route answers for a method.
    #[must_use]
    pub fn allow(&self, method: &str) -> bool {
        match self {
            Methods::Any => true,
            Methods::Only(these) => these.iter().any(|it| it == method),
        }
    }
}

/// Who answers for a route.
#[derive(Clone, Debug)]
pub enum Service {
    /// Origins.
    Proxy(Box<Proxy>),
    /// The file system.
    Files(FilesConfig),
}

/// One or more origins, as a route uses them.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Where it is, or they are.
    pub to: Origins,
    /// Deadlines and bounds.
    pub limits: OriginLimits,
    /// Which `Host` it sees.
    pub host: OriginHost,
}

/// Which `Host` an origin sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginHost {
    /// The client's.
    Client,
    /// Its own, as in `proxy.to`; `localhost` for Unix sockets.
    Own,
}

/// A directory, as a route serves it.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// The directory; absolute, and it existed when the configuration was checked.
    pub root: PathBuf,
    /// Prefix removed from the request path.
    pub strip: Option<String>,
    /// Index files, in order.
    pub index: Vec<String>,
    /// Directories without index.
    pub listing: bool,
    /// Names that begin with a dot are served.
    pub dotfiles: bool,
    /// Symbolic links.
    pub symlinks: SymlinkSetting,
    /// Precompressed siblings are used.
    pub precompressed: bool,
    /// `Cache-Control` of every file; `None` sends none.
    pub cache_control: Option<String>,
    /// How long an open file is used before the file system is asked again.
    pub cache_for: Duration,
    /// Files up to this many bytes are kept in RAM whole.
    pub small_file: u64,
}

/// What is done with symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkSetting {
    /// Refused.
    Never,
    /// Followed where they stay beneath the root.
    Beneath,
    /// Followed anywhere.
    Follow,
}

/// Where the values of a part of the configuration came from.
#[derive(Clone, Debug, Default)]
pub struct Decided(BTreeMap<&'static str, Source>);

impl Decided {
    /// The line, flag or default that decided `key`, spelt as in the table (`cache.default_ttl`,
    /// `site[].route[].proxy.to`).
    #[must_use]
    pub fn by(&self, key: &str) -> Source {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Every key that was given, with its source, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Source)> {
        self.0.iter().map(|it| (*it.0, it.1))
    }
}

/// A value that the command line gives to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key's path, as in a file: `cache.ram.size`, `site[0].route[0].proxy.to`.
    pub path: String,
    /// The value, as a flag spells it.
    pub text: String,
    /// The flag or argument, as messages name it: `--ram`, `ORIGIN`.
    pub flag: String,
}

impl Config {
    /// How often the requests of each route are traced.
    #[must_use]
    pub fn trace_rates(&self) -> TraceRates {
        let routes = self.sites.iter().map(|it| it.routes.iter().map(|it| (it.name.clone(), it.trace)));
        TraceRates {
            routes: routes.map(Iterator::collect).collect(),
            timed: self.sites.iter().flat_map(|it| &it.routes).any(|it| it.server_timing),
        }
    }

    /// The bounds of clients, with what the routes let them be told.
    #[must_use]
    pub fn limits_of_clients(&self) -> worker::ClientLimits {
        let mut routes = self.sites.iter().flat_map(|it| &it.routes);
        let upgrades =
            routes.any(|it| matches!(it.service, Service::Proxy(_)) && !it.upgrades.protocols.is_empty());
        worker::ClientLimits { upgrades, ..self.limits.client }
    }

    /// Reads and checks a file, with `flags` over it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(path: &Path, flags: &[Setting]) -> Result<Config, Rejected> {
        let file = path.display().to_string();
        let text = read_file(path).map_err(|why| {
            let text = format!("cannot be read: {why}");
            let source = Source::Flag(file.as_str().into());
            Rejected(vec![Problem { source, key: String::new(), text }])
        })?;
        let config = Self::from_text(&text, &file, base_of(path), flags)?;
        Ok(Self { text: Some(text.into()), ..config })
    }

    /// As [`Config::load`], from text; relative paths of the text are beneath `base`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_text(text: &str, file: &str, base: &Path, flags: &[Setting]) -> Result<Config, Rejected> {
        let mut values = Values::read(text, file);
        for it in flags {
            values.set(&it.path, &it.text, &it.flag);
        }
        check::check(values, base, Source::Line { file: file.into(), line: 1, column: 1 })
    }

    /// A configuration without a file: one site for every host with one route for every path, as
    /// `flags` say.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn from_flags(flags: &[Setting]) -> Result<Config, Rejected> {
        let mut values = Values::default();
        values.sections.insert("site[0]".to_owned(), Source::Default);
        values.sections.insert("site[0].route[0]".to_owned(), Source::Default);
        values.given.insert(
            "site[0].hosts".to_owned(),
            (kind::ConfigValue::Texts(vec!["*".to_owned()]), Source::Default),
        );
        for it in flags {
            values.set(&it.path, &it.text, &it.flag);
        }
        check::check(values, Path::new("."), Source::Default)
    }
}

/// The directory beneath which the relative paths of a file are.
#[must_use]
pub fn base_of(file: &Path) -> &Path {
    file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a file that is no larger than a configuration may be. From a pipe it is read, too, but not waited for: a server
/// that reads it again has other things to do.
///
/// # Errors
/// What the system says, or that it is too large, or that a pipe is silent for a second.
pub fn read_file(path: &Path) -> Result<String, String> {
    const LARGEST: u64 = 4 << 20;
    let options = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(options).open(path);
    let file = file.map_err(|it| plain(&it))?;
    let is_file = file.metadata().is_ok_and(|it| it.is_file() || it.is_dir());
    let mut bytes = Vec::new();
    let from: Box<dyn Read> = if is_file { Box::new(file) } else { Box::new(Pipe(file)) };
    let count = from.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|it| plain(&it))?;
    if count as u64 > LARGEST {
        return Err("it is larger than 4MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|it| not_text(it.as_bytes(), it.utf8_error().valid_up_to()))
}

/// Where bytes stop being UTF-8; `at` is the first that is wrong. The column counts characters, as editors do.
fn not_text(bytes: &[u8], at: usize) -> String {
    let before = &bytes[..at];
    let line = 1 + before.iter().filter(|it| **it == b'\n').count();
    let begin = before.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let column = 1 + String::from_utf8_lossy(&before[begin..]).chars().count();
    format!("line {line}, column {column}: the byte 0x{:02x} is not UTF-8; save the file as UTF-8", bytes[at])
}

/// Something that is no file, and is open without waiting.
struct Pipe(std::fs::File);

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut ready = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut ready, Some(&second))? {
            0 => Err(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "it is not a regular file and has no content",
            )),
            _ => self.0.read(into),
        }
    }
}

/// The statuses that an overlay may have: a page, or an error page. Others mean what a page alone cannot say.
#[must_use]
pub fn overlay_status_may_be(status: u16) -> bool {
    status == 200 || (400..=599).contains(&status)
}
