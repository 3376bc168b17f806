//! Contacts each server that a configuration names once: origins, databases, services of access rules, memcached. No request of a client is
//! imitated: an origin without a health check gets a connection and no byte. The validity of a configuration is not decided here.

use crate::health_checks;
use crate::internal_client::InternalClient;
use larder_config::problem::Source;
use larder_config::{Config, OriginMember, Origins, Proxy, RouteConfig, Service};
use larder_database::{DatabaseSettings, ReplicaSettings};
use larder_origin::{CheckResult, HealthCheck, OriginAddress, OriginError};
use larder_store::fleet::{FleetSettings, MemcachedAddress, MemcachedProtocol};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::LocalSet;
use tokio::time::timeout;

/// The time limit for services of access rules.
const OF_A_SERVICE: Duration = Duration::from_secs(5);
/// `version` of memcached, in its text protocol.
const VERSION: &[u8] = b"version\r\n";
/// The same in its binary protocol: a header of 24 bytes.
const BINARY_VERSION: &[u8] = &[0x80, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// One server, and the result of the contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerContact {
    /// Its kind, in a word or two.
    pub kind: &'static str,
    /// Its address, as it is configured.
    pub name: String,
    /// The place of the configuration that names it.
    pub source: Source,
    /// Its answer, or the failure and its remedy: one or two sentences.
    pub result: Result<String, String>,
}

type Answer = Pin<Box<dyn Future<Output = Result<String, String>>>>;

/// A server, and the future contact with it.
struct Contactable {
    kind: &'static str,
    name: String,
    source: Source,
    answer: Answer,
}

/// One line that names the servers that [`contact_all`] would contact; empty if there are none.
#[must_use]
pub fn not_contacted(config: &Config) -> String {
    let servers: Vec<String> =
        contactable(config).iter().map(|it| format!("{} {}", it.kind, it.name)).collect();
    match servers.is_empty() {
        true => String::new(),
        false => format!("  not contacted (add --connect): {}\n", servers.join(", ")),
    }
}

/// A line for each contact.
#[must_use]
pub fn text(contacts: &[ServerContact]) -> String {
    let mut out = String::new();
    for ServerContact { kind, name, source, result } in contacts {
        let _ = match result {
            Ok(how) => writeln!(out, "  {kind} {name}: {how}"),
            Err(why) => match source {
                Source::Default => writeln!(out, "  {kind} {name}: FAILED: {why}."),
                source => writeln!(out, "  {kind} {name} ({source}): FAILED: {why}."),
            },
        };
    }
    out
}

/// Contacts every server, all at once, and returns the results in the order of the configuration. Blocks for as long as the time limits of
/// the configuration allow.
///
/// # Errors
/// One sentence: the system gives this process no event queue.
pub fn contact_all(config: &Config) -> Result<Vec<ServerContact>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|it| format!("no event queue is available: {it}"))?;
    let servers = contactable(config);
    Ok(LocalSet::new().block_on(&runtime, async {
        let started = |it: Contactable| (it.kind, it.name, it.source, tokio::task::spawn_local(it.answer));
        let started: Vec<_> = servers.into_iter().map(started).collect();
        let mut contacts = Vec::with_capacity(started.len());
        for (kind, name, source, answer) in started {
            let result = answer.await.unwrap_or_else(|_| Err("the check failed".to_owned()));
            contacts.push(ServerContact { kind, name, source, result });
        }
        contacts
    }))
}

fn contactable(config: &Config) -> Vec<Contactable> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |it: Contactable| {
        if seen.insert((it.kind, it.name.clone())) {
            found.push(it);
        }
    };
    for route in config.sites.iter().flat_map(|it| &it.routes) {
        if let Service::Proxy(proxy) = &route.service {
            // A program is started for a request, and is no server.
            let servers = proxy.to.members.iter().filter(|it| !matches!(it.at, OriginAddress::Programs(_)));
            servers.for_each(|it| add(origin(config, route, proxy, it)));
        }
        if let Some(it) = &route.access.forward {
            let service = InternalClient::new(it);
            add(of_access(route, "auth service", &it.to, "access.forward.to", async move {
                service.contact().await
            }));
        }
        if let Some(it) = route.access.jwt.as_ref().and_then(|it| it.url.as_ref()) {
            let service = InternalClient::at(&it.from, it.ca.as_ref(), it.target.clone(), OF_A_SERVICE);
            let contact = async move { service.contact().await };
            add(of_access(route, "token keys", &it.from, "access.jwt.jwks_url", contact));
        }
    }
    for settings in &config.databases {
        add(database(config, settings));
        settings.replicas.iter().for_each(|it| add(replica(config, settings, it)));
    }
    if let Some(fleet) = &config.fleet {
        fleet.client.servers.iter().for_each(|it| add(memcached(&fleet.client, &it.at)));
    }
    found
}

/// The place of a key of a route, or that of the route.
fn place(route: &RouteConfig, key: &'static str) -> Source {
    match route.decided.by(key) {
        Source::Default => route.source.clone(),
        source => source,
    }
}

fn origin(config: &Config, route: &RouteConfig, proxy: &Proxy, member: &OriginMember) -> Contactable {
    let check = proxy.to.health.as_ref().map(|it| health_checks::check_of(config, it, member));
    let name = member.name();
    let answer = ask_origin(proxy.to.clone(), member.clone(), check, proxy.limits);
    Contactable {
        kind: "origin",
        name,
        source: place(route, "site[].route[].proxy.to"),
        answer: Box::pin(answer),
    }
}

async fn ask_origin(
    origins: Origins,
    member: OriginMember,
    check: Option<HealthCheck>,
    limits: larder_origin::OriginLimits,
) -> Result<String, String> {
    let pool = health_checks::single(&origins, &member, limits);
    pool.check_connect().await.map_err(|it| failed(&it, &member.at, "proxy.tls.ca"))?;
    let Some(check) = check else { return Ok("connected".to_owned()) };
    let asked = format!("{} {}", check.method, check.path);
    match larder_origin::check_once(&pool, &check).await {
        CheckResult::Healthy => Ok(format!("{asked} was answered as proxy.health expects")),
        CheckResult::Unhealthy(why) => Err(format!(
            "{asked} failed: {why}. Correct proxy.health.path or proxy.health.status, or the application"
        )),
    }
}

fn of_access(
    route: &RouteConfig,
    kind: &'static str,
    to: &OriginMember,
    key: &'static str,
    contact: impl Future<Output = Result<(), Option<OriginError>>> + 'static,
) -> Contactable {
    let at = to.at.clone();
    let answer = async move {
        match contact.await {
            Ok(()) => Ok("connected".to_owned()),
            Err(Some(error)) => Err(failed(&error, &at, "ca")),
            Err(None) => Err("the file of its trusted certificates cannot be read".to_owned()),
        }
    };
    let source = match key {
        "access.forward.to" => place(route, "site[].route[].access.forward.to"),
        _ => place(route, "site[].route[].access.jwt.jwks_url"),
    };
    Contactable { kind, name: to.name(), source, answer: Box::pin(answer) }
}

/// A failure and its remedy.
fn failed(error: &OriginError, at: &OriginAddress, ca: &str) -> String {
    let remedy = match error {
        OriginError::Tls(_) => format!(
            "Set `{ca}` if its certificate is of a private authority, or correct the name in the address"
        ),
        OriginError::ConnectTimeout => {
            "Correct the address, or let the firewall between the two machines pass this port".to_owned()
        }
        OriginError::Connect(why) => remedy(why, at),
        _ => "See its own log".to_owned(),
    };
    format!("{}. {remedy}", error.sentence())
}

/// The remedy for a connection that failed, by the words of the system.
fn remedy(why: &str, at: &OriginAddress) -> String {
    match at {
        OriginAddress::Unix(path) if why.contains("Permission denied") => format!(
            "The user of larder must be allowed to write to {0} and to enter its directories: \
             `usermod -aG GROUP larder` with the group that `stat -c %G {0}` prints",
            path.display()
        ),
        OriginAddress::Unix(_) if why.contains("No such file") => {
            "Start the application, or correct the path of its socket".to_owned()
        }
        OriginAddress::Tcp(host, _) if why.contains("cannot be resolved") => {
            format!("Correct the name, or the resolver of this machine: `getent hosts {host}`")
        }
        OriginAddress::Tcp(_, port) if why.contains("refused") => {
            format!(
                "Start the application, or correct the port: `ss -ltn | grep {port}` on its machine shows whether it listens"
            )
        }
        _ => "Start the application, or correct the address".to_owned(),
    }
}

fn database(config: &Config, settings: &Arc<DatabaseSettings>) -> Contactable {
    let follow =
        config.followed().into_iter().find(|it| it.settings.name == settings.name).map(|it| it.follow);
    let name = format!("{} ({})", settings.name, settings.place);
    let (settings, queries) = (settings.clone(), config.queries_of(&settings.name));
    let answer = async move {
        let contact = larder_database::contact(&settings, follow.as_ref(), &queries).await;
        contact.map(|facts| format!("connected{facts}"))
    };
    Contactable { kind: "database", name, source: Source::Default, answer: Box::pin(answer) }
}

/// Replicas get the same queries, and nothing of them is followed.
fn replica(config: &Config, of: &Arc<DatabaseSettings>, it: &ReplicaSettings) -> Contactable {
    let place = it.place.clone();
    let name = format!("{} ({place})", of.name);
    let settings = Arc::new(DatabaseSettings { place, ..(**of).clone() });
    let queries = config.queries_of(&of.name);
    let answer = async move {
        let contact = larder_database::contact(&settings, None, &queries).await;
        contact.map(|facts| format!("connected{facts}"))
    };
    Contactable { kind: "replica", name, source: Source::Default, answer: Box::pin(answer) }
}

fn memcached(fleet: &FleetSettings, at: &MemcachedAddress) -> Contactable {
    let (place, limit, protocol) = (at.clone(), fleet.connect_timeout + fleet.timeout, fleet.protocol);
    let answer = async move {
        let asked = timeout(limit, version(&place, protocol)).await;
        let why = match asked {
            Ok(Ok(true)) => return Ok("answered `version`".to_owned()),
            Ok(Ok(false)) => {
                "it is no memcached server, or cache.fleet.protocol is not its protocol".to_owned()
            }
            Ok(Err(error)) => larder_stdx::error::plain(&error),
            Err(_) => "it timed out".to_owned(),
        };
        Err(format!("{why}. Start memcached, or correct cache.fleet.servers"))
    };
    let source = Source::Default;
    Contactable { kind: "memcached", name: at.to_string(), source, answer: Box::pin(answer) }
}

/// Whether a memcached server answers `version`.
async fn version(at: &MemcachedAddress, protocol: MemcachedProtocol) -> io::Result<bool> {
    match at {
        MemcachedAddress::Tcp(host, port) => {
            ask_version(TcpStream::connect((&**host, *port)).await?, protocol).await
        }
        MemcachedAddress::Unix(path) => ask_version(UnixStream::connect(path).await?, protocol).await,
    }
}

async fn ask_version(
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    protocol: MemcachedProtocol,
) -> io::Result<bool> {
    let (question, answer): (_, &[u8]) = match protocol {
        MemcachedProtocol::Meta => (VERSION, b"VERSION "),
        MemcachedProtocol::Binary => (BINARY_VERSION, &[0x81, 0x0b]),
    };
    server.write_all(question).await?;
    let mut found = vec![0; answer.len()];
    match server.read_exact(&mut found).await {
        Ok(_) => Ok(found == answer),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
