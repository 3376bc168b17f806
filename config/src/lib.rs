//! The configuration: read, checked as a whole, and then of types that are valid by construction.
//!
//! ```text
//! text ── read ──▶ Values (by key, each checked by its row of the table) ── check ──▶ Config
//! flags ──────────▶   ^
//! ```

pub mod access;
pub mod address;
pub mod admin_role;
mod blocks;
mod check;
pub mod client_fact;
pub mod diff;
pub mod edit;
mod expand;
mod files;
pub mod files_in_force;
pub mod finish;
pub mod foreign;
pub mod generated;
pub mod geo;
pub mod hide;
pub mod history_place;
pub mod include;
pub mod inherit;
mod key_path;
pub mod kind;
mod log_files;
pub mod loop_check;
mod machine;
pub mod member;
pub mod memcached_address;
pub mod named_paths;
pub mod names;
pub mod page_url;
pub mod php;
pub mod plan;
pub mod presets;
pub mod problem;
pub mod purge_access;
mod read;
pub mod redirect_map;
mod redirect_target;
pub mod request_texts;
pub mod restart_keys;
pub mod run_file;
pub mod service_user;
pub mod sql;
mod substituted;
pub mod summary;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tiers;
pub mod tls;
pub mod token;
mod toml_value;
mod unknown;

pub use check::rewrite;
pub use expand::secret_of;
pub use key_path::dotted;
pub use kind::{HostPattern, PathAccess, PathPattern};
pub use machine::memory_left;
pub use named_paths::watched;
pub use problem::{Problem, Rejected, Source};
pub use read::{Values, plain_list};

pub use files::{FilesConfig, SendfileConfig};
use files_in_force::FilesInForce;
use history_place::HistoryPlace;
use larder_gateway::buffered::BufferedBodies;
use larder_gateway::protocol_upgrade::Upgrades;
use larder_gateway::rewrite::RewriteSettings;
use larder_observe::log::LogLevels;
use larder_observe::log::form::LogFormat;
use larder_observe::log::sink::LogTarget;
use larder_observe::log::sites::SiteLogRules;
use larder_observe::sampling::TraceRates;
use larder_observe::telemetry::Collector;
use larder_origin::{OriginAddress, OriginLimits};
use larder_semantics::expression::Expression;
use larder_semantics::field::Field;
use larder_semantics::forwarded::{self, Believed, ClientChain, ForwardedFields};
pub use larder_semantics::method::Methods;
use larder_semantics::network::Peers;
use larder_semantics::policy::Policy;
use larder_semantics::scheme::Scheme;
use larder_semantics::sticky::StickyCookie;
use larder_stdx::error::plain;
use larder_store::disk::DirectoryCheck;
use larder_store::ram;
use larder_transport::Client;
use larder_transport::listener::ListenerAddress;
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
use substituted::SubstitutedValues;

/// The admin's port, if it is free.
pub const ADMIN_PORT: u16 = 9180;

/// The ports that are tried for the admin by default, and searched by commands.
#[must_use]
pub fn admin_ports(first: u16) -> std::ops::RangeInclusive<u16> {
    const MORE: u16 = 100;
    first..=first.saturating_add(MORE)
}

/// A whole configuration, valid except for the state of the machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text of its file, if it was read from one.
    pub text: Option<std::sync::Arc<str>>,
    /// The files that it includes, in the order in which they were read.
    pub included: Vec<include::IncludedFile>,
    /// The client listeners; never empty.
    pub listen: Vec<ListenerAddress>,
    /// Whether HTTP/3 is served for those with TLS.
    pub http3: bool,
    /// TLS, if an address requires it.
    pub tls: Option<tls::TlsConfig>,
    /// Worker threads; `None` is one for each core.
    pub workers: Option<NonZeroUsize>,
    /// The user to which a start as root changes.
    pub service_user: Option<service_user::ServiceUser>,
    /// Whether the process is restricted beyond the rights of its user.
    pub sandbox: service_user::Sandbox,
    /// The trusted proxies.
    pub clients: Clients,
    /// The databases of countries and autonomous systems.
    pub geo: geo::GeoConfig,
    /// The databases of `sql` routes.
    pub databases: Vec<std::sync::Arc<larder_database::DatabaseSettings>>,
    /// The limits of clients and of the server.
    pub limits: ServerLimits,
    /// Size and shape of the RAM tier.
    pub ram: ram::RamSettings,
    /// The time after which unused entries are removed from RAM even if there is room.
    pub idle: Option<Duration>,
    /// The file that keeps the RAM tier over a restart; `None` with a fleet.
    pub snapshot: Option<PathBuf>,
    /// A checksum of the settings that decide about keys and their responses: a snapshot of other settings is not used.
    pub key_settings: u64,
    /// The settings of encoders.
    pub coding: larder_gateway::coding::pool::CoderSettings,
    /// The spool for slow readers of bodies that are too large to keep; `None` cuts such readers.
    pub spool: Option<tiers::SpoolConfig>,
    /// The disk tier, if configured.
    pub disk: Option<larder_store::disk::DiskSettings>,
    /// The memcached fleet, if configured.
    pub fleet: Option<tiers::FleetConfig>,
    /// The admin interface.
    pub admin: AdminConfig,
    /// Whether requests are counted by route and origin, and timed.
    pub statistics: bool,
    /// The logs.
    pub log: LogConfig,
    /// The OpenTelemetry collector, if configured.
    pub telemetry: Option<Collector>,
    /// The sites; never empty, and no two share a host.
    pub sites: Vec<SiteConfig>,
    /// The source of each value outside of routes.
    pub decided: Decided,
    /// The values of the keys that require a restart, in the order of the table.
    pub at_start: Vec<restart_keys::StartValue>,
    /// Permitted settings that are probably mistakes. To be shown once.
    pub warnings: Vec<Problem>,
    /// The source of the directory of the disk tier.
    pub disk_source: Source,
    /// The values of variables, which no problem shows that is found later.
    substituted: SubstitutedValues,
}

impl Config {
    /// Returns the configuration if a larder could start with it. Not for a running one: its disk may be missing for a
    /// time.
    ///
    /// # Errors
    /// The obstacles.
    pub fn fit(mut self) -> Result<Self, Rejected> {
        let logs = log_files::unusable(&self);
        let (mut errors, mut warnings) = (logs.errors, machine::beyond(&self));
        warnings.extend(service_user::missing(&self));
        warnings.extend(service_user::keeps_root(&self, rustix::process::geteuid().is_root()));
        warnings.extend(logs.warnings);
        if let Some(disk) = &self.disk {
            let problem = |what: &str| Problem {
                source: self.disk_source.clone(),
                key: "cache.disk.path".to_owned(),
                text: format!("{} {what}", disk.path.display()),
            };
            match larder_store::disk::check(&disk.path) {
                DirectoryCheck::Usable => {}
                DirectoryCheck::Unusable(what) => errors.push(problem(&what)),
                // The user of the check may differ from that of the server.
                DirectoryCheck::NoAccess(what) => warnings.push(problem(&what)),
            }
        }
        // The paths in them may have values of variables.
        self.substituted.hide_in(&mut errors, 0);
        self.substituted.hide_in(&mut warnings, 0);
        self.warnings.append(&mut warnings);
        if errors.is_empty() { Ok(self) } else { Err(Rejected(errors)) }
    }
}

/// The trusted proxies and their field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Proxies in front that write the field.
    pub trusted: Peers,
    /// The field that they write.
    pub believed: Believed,
    /// The peers that may send PROXY headers; `None` is every peer.
    pub proxies: Option<Peers>,
}

impl Clients {
    /// The client of a request with `fields`: another than `peer` if that one is a trusted proxy with a client address.
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

    /// Whether the sender of a request is a trusted proxy. `client` is the other end of the connection, or that of [`Self::seen`].
    #[must_use]
    pub fn trusts(&self, client: &Client) -> bool {
        !client.hops.is_empty() || !self.trusted.is_empty() && self.trusted.has(client.peer.map(|it| it.ip()))
    }

    /// The scheme with which the client sent a request, where the peer is a trusted proxy and says so.
    #[must_use]
    pub fn scheme(&self, client: &Client, fields: &[Field<'_>]) -> Option<Scheme> {
        if self.trusts(client) { forwarded::scheme(self.believed, fields) } else { None }
    }
}

/// The limits of clients and of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// In the form of the transport; see also [`Config::limits_of_clients`].
    pub client: worker::ClientLimits,
    /// How long a stop waits for requests in progress.
    pub drain_timeout: Duration,
}

/// The admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Its address.
    pub listen: AdminListen,
    /// An additional Unix socket, for this user only. Unused if `listen` is `Off`.
    pub socket: Option<PathBuf>,
    /// Bytes that all overlays may take.
    pub overlay_size: u64,
    /// The file of its token; `None` is the default place.
    pub token_file: Option<PathBuf>,
    /// The file of the audit log, if separate.
    pub audit: Option<PathBuf>,
    /// The place of the history.
    pub history: HistoryPlace,
    /// Accepted host names of a proxy in front of it.
    pub hosts: Vec<String>,
    /// Its named tokens, in addition to the one of its file.
    pub tokens: Vec<admin_role::NamedToken>,
}

/// Where the admin interface listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// Nowhere.
    Off,
    /// Here or at the next free port: the default.
    From(SocketAddr),
    /// Here; a port in use is an error.
    At(SocketAddr),
}

/// The logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The target of access lines; `Standard` is standard output.
    pub access: LogTarget,
    /// Their format.
    pub format: LogFormat,
    /// The target of error lines; `Standard` is standard error.
    pub error: LogTarget,
    /// The minimum level of each subsystem.
    pub levels: LogLevels,
}

/// Some hosts and their routes.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The hosts; never empty.
    pub hosts: Vec<HostPattern>,
    /// Its redirects, which come before its routes.
    pub redirects: finish::SiteRedirects,
    /// The rules of its access log.
    pub log: SiteLogRules,
    /// The rules of TLS handshakes for its requests; `None` if no site has rules of its own.
    pub tls: Option<larder_transport::tls::HandshakeRules>,
    /// The finish of responses to requests without a route.
    pub finish: finish::FinishConfig,
    /// The routes, in the order in which they are tried; never empty.
    pub routes: Vec<RouteConfig>,
    /// The place of its declaration.
    pub source: Source,
}

/// Some paths of a site, and their service.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Its name: the configured one, otherwise its site's first host and its path.
    pub name: String,
    /// Its number among the routes of its site in the text; a section with `php` is two routes.
    pub number: usize,
    /// The paths.
    pub path: PathPattern,
    /// The methods.
    pub methods: Methods,
    /// The condition for its requests.
    pub when: Option<Expression>,
    /// Its listeners, in the notation of the configuration; empty for all.
    pub listeners: Vec<String>,
    /// Its service.
    pub service: Service,
    /// Its cache policy.
    pub cache: Policy,
    /// The finish of its responses.
    pub finish: finish::FinishConfig,
    /// Its maintenance, if it is enabled.
    pub maintenance: Option<finish::MaintenanceConfig>,
    /// Its tiers, of the existing ones.
    pub tiers: tiers::TierChoice,
    /// Its access rules.
    pub access: access::AccessConfig,
    /// The bound on its requests to the origin.
    pub budget: Option<larder_semantics::miss_budget::BudgetSettings>,
    /// Its permission to purge.
    pub purge: purge_access::PurgeAccess,
    /// The sampling rate: one in this many requests is traced; 0 is none.
    pub trace: u32,
    /// Whether responses have `Server-Timing`.
    pub server_timing: bool,
    /// The fields with the client address for origins.
    pub forwarded_fields: ForwardedFields,
    /// Whether origins get the client's certificate.
    pub sends_certificate: bool,
    /// The forwarded upgrades.
    pub upgrades: Upgrades,
    /// The request as origins see it.
    pub rewrite: RewriteSettings,
    /// The limits of its requests.
    pub limits: worker::RequestLimits,
    /// The source of each value of the route.
    pub decided: Decided,
    /// The routes before it that take all of its requests, in one clause; `None` if it gets some.
    pub unreachable: Option<String>,
    /// The place of its declaration.
    pub source: Source,
}

impl RouteConfig {
    /// The service that decides about its requests (`access.forward`).
    #[must_use]
    pub fn auth_service(&self) -> Option<&OriginMember> {
        self.access.forward.as_ref().map(|it| &it.to)
    }

    /// The key that names its origins.
    #[must_use]
    pub fn key_of_origins(&self) -> &'static str {
        match &self.service {
            Service::Proxy(proxy) if proxy.php.is_some() => "site.route.php.to",
            _ => "site.route.proxy.to",
        }
    }

    /// The origins that it leads to.
    pub fn origins(&self) -> impl Iterator<Item = &OriginMember> {
        let members = match &self.service {
            Service::Proxy(proxy) => &proxy.to.members[..],
            Service::Files(_) | Service::Redirect(_) | Service::Respond(_) | Service::Sql(_) => &[],
        };
        members.iter()
    }
}

impl RouteConfig {
    /// Whether it answers health checks of a load balancer (`respond.health`): neither redirects of its site nor a maintenance
    /// apply to it.
    #[must_use]
    pub fn is_health(&self) -> bool {
        match &self.service {
            Service::Respond(it) => matches!(it.body, finish::RespondBody::Live | finish::RespondBody::Ready),
            _ => false,
        }
    }
}

/// The service of a route.
#[derive(Clone, Debug)]
pub enum Service {
    /// Origins.
    Proxy(Box<Proxy>),
    /// The file system.
    Files(FilesConfig),
    /// A redirect.
    Redirect(finish::RedirectConfig),
    /// A fixed answer.
    Respond(finish::RespondConfig),
    /// A query to a database.
    Sql(Box<sql::SqlConfig>),
}

/// One or more origins of a route.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The origins.
    pub to: Origins,
    /// Deadlines and limits.
    pub limits: OriginLimits,
    /// The `Host` field for origins.
    pub host: OriginHost,
    /// The cookie that binds clients to an origin.
    pub sticky: Option<std::sync::Arc<StickyCookie>>,
    /// The bodies of requests that are read before the origin is asked.
    pub buffers: BufferedBodies,
    /// The files that the application may hand over.
    pub sendfile: Option<SendfileConfig>,
    /// The scripts, for origins that are php-fpm.
    pub php: Option<Box<php::PhpConfig>>,
}

impl Proxy {
    /// The addresses by which the origins refer to themselves. An origin that gets the client's `Host` may ignore it and name its
    /// own address, if it has one for URLs.
    #[must_use]
    pub fn own_addresses(&self) -> Vec<OriginAddress> {
        let members = self.to.members.iter().map(|it| it.at.clone());
        match &self.host {
            OriginHost::Client => members.filter(|it| matches!(it, OriginAddress::Tcp(..))).collect(),
            OriginHost::Own => members.collect(),
            OriginHost::Named(host) => {
                let (host, port) = address::authority(host).unwrap_or_default();
                // Without a port it is that of the scheme of the reference.
                let ports = port.map_or(vec![80, 443], |it| vec![it]);
                members.chain(ports.iter().map(|it| OriginAddress::Tcp(host.clone(), *it))).collect()
            }
        }
    }
}

/// The `Host` field for origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginHost {
    /// The client's.
    Client,
    /// This one.
    Named(String),
    /// Its own, as in `proxy.to`; `localhost` for Unix sockets.
    Own,
}

/// The sources of the values of a part of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Decided(BTreeMap<&'static str, Source>);

impl Decided {
    /// The line, flag or default of `key`, in the notation of the table (`cache.default_ttl`, `site[].route[].proxy.to`).
    #[must_use]
    pub fn by(&self, key: &str) -> Source {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Every key that was set, with its source, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Source)> {
        self.0.iter().map(|it| (*it.0, it.1))
    }
}

/// A key that the command line sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key's path, as in a file: `cache.ram.size`, `site[0].route[0].proxy.to`.
    pub path: String,
    /// The value in the notation of a flag.
    pub text: String,
    /// The flag or argument, as messages name it: `--ram`, `ORIGIN`.
    pub flag: String,
}

impl Setting {
    /// Whether its value may be a secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        table::find(&key_path::pattern_of(&self.path)).is_some_and(|it| it.kind.is_secret())
    }
}

impl Config {
    /// The number of the site for a host, without its port.
    #[must_use]
    pub fn site_of(&self, host: &str) -> Option<usize> {
        HostPattern::site_of(host, self.sites.iter().map(|it| &it.hosts[..]))
    }

    /// The sampling rate of each route.
    #[must_use]
    pub fn trace_rates(&self) -> TraceRates {
        let routes = self.sites.iter().map(|it| it.routes.iter().map(|it| (it.name.clone(), it.trace)));
        TraceRates {
            routes: routes.map(Iterator::collect).collect(),
            timed: self.sites.iter().flat_map(|it| &it.routes).any(|it| it.server_timing),
        }
    }

    /// The limits of clients, with the upgrades that routes forward.
    #[must_use]
    pub fn limits_of_clients(&self) -> worker::ClientLimits {
        let mut routes = self.sites.iter().flat_map(|it| &it.routes);
        let upgrades =
            routes.any(|it| matches!(it.service, Service::Proxy(_)) && !it.upgrades.protocols.is_empty());
        let bodies = self.sites.iter().flat_map(|it| &it.routes).map(|it| it.limits.body_size);
        let body_size = bodies.fold(self.limits.client.body_size, u64::max);
        worker::ClientLimits { upgrades, body_size, ..self.limits.client }
    }

    /// Reads and checks a file, with `flags` overriding it.
    ///
    /// # Errors
    /// All its errors.
    pub fn load(path: &Path, flags: &[Setting]) -> Result<Config, Rejected> {
        Self::load_over(path, flags, &FilesInForce::default())
    }

    fn load_over(path: &Path, flags: &[Setting], in_force: &FilesInForce) -> Result<Config, Rejected> {
        let file = path.display().to_string();
        let text = read_file(path).map_err(|why| {
            let text = format!("cannot be read: {why}");
            let source = Source::Flag(file.as_str().into());
            Rejected(vec![Problem { source, key: String::new(), text }])
        })?;
        let others = include::IncludedTexts::new();
        let config = Self::from_texts(&text, &file, base_of(path), flags, &others, in_force)?;
        Ok(Self { text: Some(text.into()), ..config })
    }

    /// As [`Config::load`], from text; relative paths of the text are beneath `base`.
    ///
    /// # Errors
    /// All its errors.
    pub fn from_text(text: &str, file: &str, base: &Path, flags: &[Setting]) -> Result<Config, Rejected> {
        let others = include::IncludedTexts::new();
        Self::from_texts(text, file, base, flags, &others, &FilesInForce::default())
    }

    /// With other texts for some of the included files.
    fn from_texts(
        text: &str,
        file: &str,
        base: &Path,
        flags: &[Setting],
        others: &include::IncludedTexts,
        in_force: &FilesInForce,
    ) -> Result<Config, Rejected> {
        let values = values_of_text(text, file, base, flags, others);
        check::check(values, Source::Line { file: file.into(), line: 1, column: 1 }, in_force)
    }

    /// A configuration without a file: one site for every host with one route for every path, from `flags`.
    ///
    /// # Errors
    /// All their errors.
    pub fn from_flags(flags: &[Setting]) -> Result<Config, Rejected> {
        Self::from_flags_over(flags, &FilesInForce::default())
    }

    fn from_flags_over(flags: &[Setting], in_force: &FilesInForce) -> Result<Config, Rejected> {
        check::check(values_of_flags(flags), Source::Default, in_force)
    }
}

/// The values of a file's text, with those of `flags` in place of its own.
fn values_of_text(
    text: &str,
    file: &str,
    base: &Path,
    flags: &[Setting],
    others: &include::IncludedTexts,
) -> Values {
    let mut values = Values::read_with(text, file, base, others);
    blocks::apply(&mut values);
    for it in flags {
        values.set(&it.path, &it.text, &it.flag);
    }
    values
}

/// The values of one site for every host with one route for every path.
fn values_of_flags(flags: &[Setting]) -> Values {
    let mut values = Values::default();
    values.sections.insert("site[0]".to_owned(), Source::Default);
    values.sections.insert("site[0].route[0]".to_owned(), Source::Default);
    values.given.insert(
        "site[0].hosts".to_owned(),
        (kind::ConfigValue::Texts(vec!["*".to_owned()]), Source::Default),
    );
    for it in flags {
        if let Some(section) = it.path.strip_suffix(".directory") {
            values.sections.insert(section.to_owned(), Source::Flag(it.flag.as_str().into()));
        }
        values.set(&it.path, &it.text, &it.flag);
    }
    values
}

/// The values of the configuration at `path`, valid or not.
fn files_of(path: &Path) -> Values {
    let text = read_file(path).unwrap_or_default();
    Values::read(&text, &path.display().to_string(), base_of(path))
}

/// The directory for relative paths of a file.
#[must_use]
pub fn base_of(file: &Path) -> &Path {
    file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a file up to the size limit of a configuration. A pipe is read, too, but only for a second: a server that reads
/// it again must not block.
///
/// # Errors
/// The system's error, or that it is too large, or that a pipe is silent for a second.
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

/// The error for bytes that are not UTF-8; `at` is the first invalid one. The column counts characters, as editors do.
fn not_text(bytes: &[u8], at: usize) -> String {
    let before = &bytes[..at];
    let line = 1 + before.iter().filter(|it| **it == b'\n').count();
    let begin = before.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let column = 1 + String::from_utf8_lossy(&before[begin..]).chars().count();
    format!("line {line}, column {column}: the byte 0x{:02x} is not UTF-8; save the file as UTF-8", bytes[at])
}

/// An input other than a regular file, opened without blocking.
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

/// The permitted statuses of an overlay: a page, or an error page. Other statuses have requirements that a page alone
/// cannot meet.
#[must_use]
pub fn overlay_status_may_be(status: u16) -> bool {
    status == 200 || (400..=599).contains(&status)
}
