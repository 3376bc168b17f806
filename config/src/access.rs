//! The access rules of a route, checked: `site.route.access`. The rules that obey it are in `server/src/access`.

mod jwt;
mod signed;

pub use jwt::{JwtConfig, KeyFile, KeyFileForm, KeyUrl};
pub use signed::{SignedConfig, SignedStyle};

use crate::member::OriginMember;
use crate::problem::Source;
use larder_semantics::expression::Expression;
use larder_semantics::field::is_token;
use larder_semantics::geo::Country;
use larder_semantics::network::{Network, NetworkSet, Peers};
use larder_semantics::rate::Gcra;
use larder_semantics::request_view::RequestView;
use larder_wire::htpasswd::PasswordEntry;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The most limits of a route.
pub const MOST_LIMITS: usize = 4;

/// The largest password file, bytes.
pub const LARGEST_PASSWORD_FILE: u64 = 16 << 20;

/// The demands of a route; the default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessConfig {
    /// The clients that are admitted; `None` is every client.
    pub allow: Option<Addresses>,
    /// The clients that are refused.
    pub deny: Option<Addresses>,
    /// A request for which this is true is refused.
    pub deny_when: Option<Expression>,
    /// A request for which this is not true is refused.
    pub allow_when: Option<Expression>,
    /// Whether an address or credentials suffice.
    pub any: bool,
    /// The bounds of a client's requests, that of `access.limit` first; at most [`MOST_LIMITS`].
    pub limits: Vec<LimitConfig>,
    /// The users.
    pub basic: Option<BasicConfig>,
    /// The tokens.
    pub jwt: Option<JwtConfig>,
    /// The signed URLs.
    pub signed: Option<SignedConfig>,
    /// The service that decides about each request.
    pub forward: Option<ForwardConfig>,
    /// Whether the origin gets the `Authorization` field with which larder admitted the request.
    pub passes_authorization: bool,
    /// Whether all admitted clients get the same responses.
    pub is_shared: bool,
}

/// Basic authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicConfig {
    /// The name of the protected area, for clients.
    pub realm: String,
    /// Users of the configuration.
    pub users: Vec<PasswordEntry>,
    /// The file of more users.
    pub file: Option<PathBuf>,
}

/// Forward auth: a service decides about each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardConfig {
    /// The service; without weight and drain.
    pub to: OriginMember,
    /// The target of the question, below the base path of the service.
    pub path: String,
    /// The time limit for its answer.
    pub timeout: Duration,
    /// The fields of its answer that the request gets, in place of the client's.
    pub copy: Vec<String>,
    /// For how long an answer that admits is reused; zero is never.
    pub ttl: Duration,
    /// The parts of a request by which answers are reused; empty for the whole question to the service.
    pub key: Vec<ForwardKey>,
    /// The place to which a 401 of the service sends clients; `{url}` in it is the URL of the request.
    pub redirect: Option<String>,
    /// The file of its trusted certificates; `None` for those of the system.
    pub ca: Option<PathBuf>,
}

impl ForwardConfig {
    /// The target of the question.
    #[must_use]
    pub fn target(&self) -> String {
        format!("{}{}", self.to.base, self.path)
    }
}

/// A part of a request by which answers of a service are reused. The host always is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardKey {
    /// The method.
    Method,
    /// Path and query.
    Url,
    /// The client's address.
    Client,
    /// The field of this name.
    Header(String),
    /// The cookie of this name.
    Cookie(String),
}

impl ForwardKey {
    /// Parses the notation of the configuration.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = |name: &str| Some(name.to_owned()).filter(|it| is_token(it.as_bytes()));
        match text {
            "method" => Some(ForwardKey::Method),
            "url" => Some(ForwardKey::Url),
            "client" => Some(ForwardKey::Client),
            _ => match text.split_once(':')? {
                ("header", name) => named(name).map(ForwardKey::Header),
                ("cookie", name) => named(name).map(ForwardKey::Cookie),
                _ => None,
            },
        }
    }

    /// Whether it tells clients apart.
    #[must_use]
    pub fn is_of_client(&self) -> bool {
        matches!(self, ForwardKey::Client | ForwardKey::Header(_) | ForwardKey::Cookie(_))
    }
}

impl AccessConfig {
    /// The keys that can refuse a request with 401 or 403, in the notation of sentences.
    #[must_use]
    pub fn refusing(&self) -> Vec<&'static str> {
        let keys = [
            (self.allow.is_some(), "`access.allow`"),
            (self.deny.is_some(), "`access.deny`"),
            (self.allow_when.is_some(), "`access.allow_when`"),
            (self.deny_when.is_some(), "`access.deny_when`"),
            (self.basic.is_some(), "`access.basic`"),
            (self.jwt.is_some(), "`access.jwt`"),
            (self.signed.is_some(), "`access.signed`"),
            (self.forward.is_some(), "`access.forward`"),
        ];
        keys.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }

    /// Its limits in words.
    #[must_use]
    pub fn described_limits(&self) -> String {
        self.limits.iter().map(LimitConfig::describe).collect::<Vec<_>>().join(", ")
    }

    /// Whether it demands credentials.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.signed.is_some() || self.identifies()
    }

    /// Whether it refuses some clients by their addresses, by conditions, or by credentials that identify them.
    #[must_use]
    pub fn chooses_clients(&self) -> bool {
        let has_list = self.allow.is_some() || self.deny.is_some();
        has_list || self.allow_when.is_some() || self.deny_when.is_some() || self.identifies()
    }

    /// Whether it refuses some clients, apart from those that send too many requests.
    #[must_use]
    pub fn refuses_clients(&self) -> bool {
        self.chooses_clients() || self.has_credentials()
    }

    /// Whether it demands credentials that identify the client.
    #[must_use]
    pub fn identifies(&self) -> bool {
        self.basic.is_some() || self.jwt.is_some() || self.forward.is_some()
    }

    /// The names of the fields with which larder tells origins of the client: a client cannot send them.
    pub fn given_fields(&self) -> impl Iterator<Item = &str> {
        let claims = self.jwt.iter().flat_map(|it| &it.send).map(|it| it.0.as_str());
        claims.chain(self.forward.iter().flat_map(|it| &it.copy).map(String::as_str))
    }

    /// Whether it demands nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A member of a list of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMember {
    /// The addresses of a network.
    Network(Network),
    /// Peers of Unix sockets.
    Unix,
    /// The addresses of a country.
    Country(Country),
    /// The addresses of an autonomous system.
    Asn(u32),
}

impl AccessMember {
    /// Parses the notation of the configuration.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some(("country", code)) => {
                let country = Country::parse(code)?;
                (country.bytes() == code.as_bytes()).then_some(Self::Country(country))
            }
            Some(("asn", number)) => {
                let is_plain = number.bytes().all(|it| it.is_ascii_digit());
                number.parse().ok().filter(|_| is_plain).map(Self::Asn)
            }
            _ if text == Peers::UNIX => Some(Self::Unix),
            _ => Network::parse(text).map(Self::Network),
        }
    }
}

/// A list of clients by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    networks: NetworkSet,
    unix: bool,
    countries: Vec<Country>,
    numbers: Vec<u32>,
    has_everyone: bool,
    /// Its first members, for people.
    shown: String,
}

impl Addresses {
    /// Its members, of a long list the first ones.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether a network of it has every address of a family.
    #[must_use]
    pub fn has_everyone(&self) -> bool {
        self.has_everyone
    }

    /// The clients of a checked list.
    #[must_use]
    pub fn of(texts: &[String]) -> Self {
        let (mut all, mut networks) = (Self::default(), Vec::new());
        for member in texts.iter().filter_map(|it| AccessMember::parse(it)) {
            match member {
                AccessMember::Network(it) => {
                    all.has_everyone |= it.is_everything();
                    networks.push(it);
                }
                AccessMember::Unix => all.unix = true,
                AccessMember::Country(it) => all.countries.push(it),
                AccessMember::Asn(it) => all.numbers.push(it),
            }
        }
        const MOST: usize = 5;
        let mut shown = texts.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
        if texts.len() > MOST {
            shown.push_str(&format!(" and {} more", texts.len() - MOST));
        }
        Self { networks: NetworkSet::of(networks.into_iter()), shown, ..all }
    }

    /// Whether it has every client of another list, as far as known without the databases of countries.
    #[must_use]
    pub fn covers(&self, other: &Addresses) -> bool {
        self.networks.covers_all(&other.networks)
            && (self.unix || !other.unix)
            && other.countries.iter().all(|it| self.countries.contains(it))
            && other.numbers.iter().all(|it| self.numbers.contains(it))
    }

    /// Whether one of its networks has an address; `None` is a peer of a Unix socket.
    #[must_use]
    pub fn has_address(&self, address: Option<IpAddr>) -> bool {
        address.map_or(self.unix, |it| self.networks.contains(it))
    }

    /// Whether it has clients by their network only, and not by facts of a database.
    #[must_use]
    pub fn is_networks(&self) -> bool {
        self.countries.is_empty() && self.numbers.is_empty()
    }

    /// Whether the client of a request is in it. A client whose country is unknown is in no country.
    #[must_use]
    pub fn has(&self, view: &RequestView<'_>) -> bool {
        self.has_address(view.client)
            || !self.countries.is_empty() && view.country().is_some_and(|it| self.countries.contains(&it))
            || !self.numbers.is_empty() && view.asn().is_some_and(|it| self.numbers.contains(&it))
    }
}

/// The bounds of the requests that have a key in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitConfig {
    /// The site or route that declares it: the requests of all routes that inherit it are counted together.
    pub scope: String,
    /// The rate, if it is limited.
    pub rate: Option<Gcra>,
    /// Requests that may exceed the rate at once.
    pub burst: u32,
    /// The key.
    pub by: LimitKey,
    /// The most requests in progress.
    pub concurrency: Option<u32>,
    /// The place of a member of `access.limits`; `None` for `access.limit`.
    pub place: Option<Source>,
}

impl LimitConfig {
    /// Its name: the limit in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let rate = self.rate.map(|it| match self.burst {
            0 => it.rate.to_string(),
            burst => format!("{} with burst {burst}", it.rate),
        });
        let concurrency = self.concurrency.map(|it| format!("{it} in progress"));
        let bounds: Vec<String> = rate.into_iter().chain(concurrency).collect();
        format!("{} by {}", bounds.join(" and "), self.by)
    }
}

/// The part of a request by which requests are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitKey {
    /// The address; of IPv6 the /64.
    Client,
    /// The /24 or /48 of the address.
    Network,
    /// Nothing: all requests.
    Route,
    /// The value of this field.
    Header(String),
    /// The value of this cookie.
    Cookie(String),
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitKey::Client => f.write_str("client"),
            LimitKey::Network => f.write_str("network"),
            LimitKey::Route => f.write_str("route"),
            LimitKey::Header(name) => write!(f, "header:{name}"),
            LimitKey::Cookie(name) => write!(f, "cookie:{name}"),
        }
    }
}

impl LimitKey {
    /// Parses the notation of the configuration.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = |name: &str| Some(name.to_owned()).filter(|it| is_token(it.as_bytes()));
        match text {
            "client" => Some(LimitKey::Client),
            "network" => Some(LimitKey::Network),
            "route" => Some(LimitKey::Route),
            _ => match text.split_once(':')? {
                ("header", name) => named(name).map(|it| LimitKey::Header(it.to_ascii_lowercase())),
                ("cookie", name) => named(name).map(LimitKey::Cookie),
                _ => None,
            },
        }
    }
}
