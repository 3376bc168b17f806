//! The conditions of recorded requests: hosts without a site, and proxies whose fields are ignored. Requests for which no counter is
//! exact enough; the caller gathers them from the samples of the live stream.

use super::condition::{Beginning, Condition, condition, number};
use super::facts::HealthFacts;
use super::table::FindingKind;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The fewest recorded requests for a host without a site, or of a proxy.
const REQUESTS: usize = 10;
/// The fewest clients for which a proxy sends requests, and that send requests for a host that has nothing in common with those of the sites: a
/// scanner is one client.
const CLIENTS: usize = 3;
/// The most conditions of each kind.
const MOST: usize = 3;
/// The most characters of a host in a sentence.
const HOST: usize = 100;

/// The recorded requests of the last minute.
#[derive(Clone, Debug, Default)]
pub struct RecordedFacts {
    requests: usize,
    hosts: BTreeMap<String, HostRequests>,
    proxies: BTreeMap<IpAddr, (usize, BTreeSet<String>)>,
}

#[derive(Clone, Debug, Default)]
struct HostRequests {
    requests: usize,
    clients: BTreeSet<Option<IpAddr>>,
    is_related: bool,
}

/// One recorded request.
#[derive(Clone, Copy, Debug)]
pub struct RecordedSample<'a> {
    /// The address of the client, or of a proxy that is not trusted.
    pub client: Option<IpAddr>,
    /// Its host, if no site has it.
    pub unknown_host: Option<&'a str>,
    /// Whether that is a part of a site's host, or has one as a part: `www.a.example` for `a.example`.
    pub is_related: bool,
    /// The value of its `X-Forwarded-For`, if larder has not used it.
    pub ignored: Option<&'a str>,
}

impl RecordedFacts {
    /// Adds a request.
    pub fn add(&mut self, it: RecordedSample<'_>) {
        self.requests += 1;
        if let Some(host) = it.unknown_host.filter(|it| it.parse::<IpAddr>().is_err() && !it.starts_with('['))
        {
            let known = self.hosts.entry(host.chars().take(HOST).collect()).or_default();
            known.requests += 1;
            known.clients.insert(it.client);
            known.is_related |= it.is_related;
        }
        if let (Some(client), Some(value)) = (it.client, it.ignored) {
            let (requests, clients) = self.proxies.entry(client).or_default();
            *requests += 1;
            clients.insert(value.to_owned());
        }
    }
}

pub(super) fn recorded(facts: &HealthFacts, all: &mut Vec<Condition>) {
    let recorded = &facts.recorded;
    let evidence =
        |count: usize| format!("{count} of the last {}", number(recorded.requests, "recorded request"));
    let is_frequent =
        |it: &HostRequests| it.requests >= REQUESTS && (it.is_related || it.clients.len() >= CLIENTS);
    let mut hosts: Vec<_> = recorded.hosts.iter().filter(|it| is_frequent(it.1)).collect();
    hosts.sort_by_key(|it| std::cmp::Reverse(it.1.requests));
    for (host, it) in hosts.into_iter().take(MOST) {
        let what = format!("no site has the host {host}");
        let found = condition(FindingKind::HostUnknown, &format!("host {host}"), what, evidence(it.requests));
        let found = found.begun(Beginning::Unstated).with_effect("requests for it get 404");
        all.push(found.seen_at(format!("live?filter=host == {host:?}")));
    }
    let is_proxy = |it: &(usize, BTreeSet<String>)| it.0 >= REQUESTS && it.1.len() >= CLIENTS;
    for (address, (requests, clients)) in recorded.proxies.iter().filter(|it| is_proxy(it.1)).take(MOST) {
        let what = format!(
            "{address} sends X-Forwarded-For, which larder ignores: `clients.trusted` lacks the address"
        );
        let subject = format!("proxy {address}");
        let found = condition(FindingKind::ProxyNotTrusted, &subject, what, evidence(*requests));
        let effect = format!(
            "its {} are one client for `access` and the log, and their scheme is that of the proxy's connection",
            number(clients.len(), "client")
        );
        let found = found.begun(Beginning::Unstated).with_effect(effect);
        all.push(found.seen_at(format!("live?filter=client == \"{address}\"")));
    }
}
