//! The facts of recorded requests, which the caller gathers from the samples of the live stream.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The most characters of a host in a sentence.
const HOST: usize = 100;

/// The recorded requests of the last minute.
#[derive(Clone, Debug, Default)]
pub struct RecordedFacts {
    pub(super) requests: usize,
    pub(super) hosts: BTreeMap<String, HostRequests>,
    /// The requests of each proxy, and the clients that it names.
    pub(super) proxies: BTreeMap<IpAddr, (usize, BTreeSet<String>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct HostRequests {
    pub(super) requests: usize,
    pub(super) clients: BTreeSet<Option<IpAddr>>,
    pub(super) is_related: bool,
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
