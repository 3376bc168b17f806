//! The larder that `warm` sends requests to: its listeners, their schemes, and one GET. The evaluation is in `warm`.
//!
//! A page is stored under the scheme of its request, so each URL is requested over a listener with its scheme. On an
//! address of this machine the certificate is not verified: it is for the public names.

use super::warm_page::WarmPage;
use crate::admin_client;
use crate::cli::{UrlSource, Warm};
use larder_origin::{
    Exchange, Membership, OriginAddress, OriginError, OriginLimits, OriginPool, OriginSecurity, OriginTls,
    OutgoingRequest, Protocol, TlsSettings,
};
use larder_semantics::field::FieldList;
use larder_semantics::scheme::Scheme;
use larder_stdx::circuit_breaker::BreakerSettings;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The most hosts with kept TLS connections; those of one name cannot be used for another.
const MOST_HOSTS: usize = 64;

/// The reason for a missing response.
pub(super) enum WarmFailure {
    /// No request was sent: no listener has this scheme.
    Unspoken(Scheme),
    /// The request failed.
    Asked(OriginError),
}

impl std::convert::From<OriginError> for WarmFailure {
    fn from(it: OriginError) -> Self {
        WarmFailure::Asked(it)
    }
}

impl WarmFailure {
    /// One sentence.
    pub fn sentence(&self) -> String {
        match self {
            WarmFailure::Unspoken(Scheme::Https) => {
                "no listener uses https: set --to https://HOST:PORT, or --as http if a proxy in front of larder \
                 terminates TLS."
                    .to_owned()
            }
            WarmFailure::Unspoken(Scheme::Http) => {
                "no listener uses http: set --to, or --as https.".to_owned()
            }
            // For this client larder is the origin.
            WarmFailure::Asked(error) => error.sentence().replace("the origin", "larder"),
        }
    }
}

/// The larder to warm.
pub(super) struct WarmTarget {
    clear: Option<Rc<OriginPool>>,
    secure: Option<Secure>,
    /// The scheme of every request, if given.
    scheme: Option<Scheme>,
    /// The host of paths without one.
    host: String,
    fields: Vec<(String, String)>,
}

/// A listener with TLS.
struct Secure {
    at: OriginAddress,
    tls: OriginTls,
    limits: OriginLimits,
    by_host: RefCell<HashMap<String, Rc<OriginPool>>>,
}

impl WarmTarget {
    /// Finds its listeners.
    ///
    /// # Errors
    /// One sentence: no larder runs, or the choice is ambiguous.
    pub fn new(order: &Warm) -> Result<Self, String> {
        let to = if order.to.is_empty() { serving(order)? } else { order.to.clone() };
        let of = |scheme| to.iter().find(|it| it.1 == scheme).map(|it| it.0.clone());
        let (clear, secure) = (of(Scheme::Http), of(Scheme::Https));
        let limits = limits(order.concurrency);
        let named = order.fields.iter().find(|it| it.0.eq_ignore_ascii_case("host")).map(|it| it.1.clone());
        let unnamed = order.scheme.unwrap_or(if clear.is_some() { Scheme::Http } else { Scheme::Https });
        let first = if unnamed == Scheme::Https { secure.as_ref() } else { clear.as_ref() };
        let host = named.unwrap_or_else(|| match first {
            Some(OriginAddress::Tcp(host, port)) => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                unnamed.without_port(&format!("{host}:{port}")).to_owned()
            }
            Some(OriginAddress::Unix(_) | OriginAddress::Programs(_)) | None => "localhost".to_owned(),
        });
        let secure = match secure {
            None => None,
            Some(at) => {
                let unverified = is_of_this_machine(&at);
                let tls = OriginTls::new(&TlsSettings { unverified, ..TlsSettings::default() })?;
                Some(Secure { at, tls, limits, by_host: RefCell::default() })
            }
        };
        let clear = clear.map(|it| OriginPool::new(it, limits, Arc::default()));
        let fields = order.fields.iter().filter(|it| !it.0.eq_ignore_ascii_case("host")).cloned().collect();
        Ok(Self { clear, secure, scheme: order.scheme, host, fields })
    }

    /// Requests one page; returns after its head has arrived.
    ///
    /// # Errors
    /// There is no response.
    pub async fn get(&self, page: &WarmPage) -> Result<(u16, FieldList, Rc<Exchange>), WarmFailure> {
        let mut fields = FieldList::new();
        let authority = page.authority.as_deref().unwrap_or(&self.host);
        let origin = self.asked(page.scheme, authority)?;
        fields.push("Host", authority);
        let has = |name: &str| self.fields.iter().any(|it| it.0.eq_ignore_ascii_case(name));
        if !has("user-agent") {
            fields.push("User-Agent", concat!("larder-warm/", env!("CARGO_PKG_VERSION")));
        }
        for (name, value) in &self.fields {
            fields.push(name, value);
        }
        let request = OutgoingRequest::own("GET", &page.target, fields);
        let exchange = origin.send(request).await?;
        loop {
            let head = exchange.head().await?;
            if head.status >= 200 {
                return Ok((head.status, head.fields, exchange));
            }
        }
    }

    /// The pool for a page of this scheme and host.
    fn asked(&self, scheme: Option<Scheme>, authority: &str) -> Result<Rc<OriginPool>, WarmFailure> {
        let unnamed = if self.clear.is_some() { Scheme::Http } else { Scheme::Https };
        match (self.scheme.or(scheme).unwrap_or(unnamed), &self.clear, &self.secure) {
            (Scheme::Http, Some(clear), _) => Ok(clear.clone()),
            (Scheme::Https, _, Some(secure)) => Ok(secure.of(authority)),
            (scheme, ..) => Err(WarmFailure::Unspoken(scheme)),
        }
    }
}

impl Secure {
    /// The connections whose handshake had the host of this authority.
    fn of(&self, authority: &str) -> Rc<OriginPool> {
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => authority,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut by_host = self.by_host.borrow_mut();
        if let Some(known) = by_host.get(host) {
            return known.clone();
        }
        if by_host.len() >= MOST_HOSTS {
            by_host.clear();
        }
        let membership = Membership {
            name: self.at.to_string(),
            tls: Some(OriginSecurity { tls: self.tls.clone(), name: host.to_owned() }),
            protocol: Protocol::Http1,
            outlier_state: Arc::default(),
            weight: 1,
            ejection: BreakerSettings::OFF,
            drained: false,
            preamble: None,
        };
        let origin = OriginPool::in_group(self.at.clone(), self.limits, Arc::default(), membership);
        by_host.insert(host.to_owned(), origin.clone());
        origin
    }
}

fn limits(concurrency: usize) -> OriginLimits {
    OriginLimits {
        connect: Duration::from_secs(10),
        handshake: Duration::from_secs(10),
        first_byte: Duration::from_secs(120),
        between_bytes: Duration::from_secs(60),
        total: Duration::ZERO,
        idle: Duration::from_secs(5),
        head_size: 256 << 10,
        connections: concurrency,
        queue: concurrency,
        queue_wait: None,
        idle_connections: concurrency,
        interim: 64,
    }
}

/// The listeners of the running larder: the first address of each scheme.
fn serving(order: &Warm) -> Result<Vec<(OriginAddress, Scheme)>, String> {
    let authority = match &order.from {
        UrlSource::Sitemap(url) => Scheme::split(url).map(|it| it.1.split('/').next().unwrap_or(it.1)),
        UrlSource::Log(_) | UrlSource::List(_) => None,
    };
    // The public name of a site has no port of this machine: then only one larder may run.
    let authority = authority.filter(|it| it.rsplit_once(':').is_some_and(|it| it.1.parse::<u16>().is_ok()));
    let admin = admin_client::admin(order.admin.as_ref(), authority)?;
    let mut found: Vec<(OriginAddress, Scheme)> = Vec::new();
    let listeners = admin_client::serves(&admin)?;
    for listener in &listeners {
        // Every address is reached at this machine's own. A listener with the PROXY protocol cannot be used.
        let here = listener.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://127.0.0.1:");
        let Ok((at, scheme)) = crate::cli::listener(&here) else { continue };
        if found.iter().all(|it| it.1 != scheme) {
            found.push((at, scheme));
        }
    }
    match (found.is_empty(), listeners.first()) {
        (true, Some(first)) => return Err(format!("{first:?} is not an address to connect to; set --to.")),
        (true, None) => return Err("The larder on this machine has no listen address.".to_owned()),
        (false, _) => {}
    }
    Ok(found)
}

/// Whether the address is certainly on this machine: no other machine's address can be listened on.
fn is_of_this_machine(at: &OriginAddress) -> bool {
    match at {
        OriginAddress::Tcp(host, _) if host == "localhost" => true,
        OriginAddress::Tcp(host, _) => {
            host.parse::<IpAddr>().is_ok_and(|it| TcpListener::bind((it, 0)).is_ok())
        }
        OriginAddress::Unix(_) | OriginAddress::Programs(_) => true,
    }
}
