//! The conditions of recorded requests: hosts without a site, and proxies whose fields are ignored. Requests for which no counter is
//! exact enough.

use super::condition::{Beginning, Condition, condition, number};
use super::facts::StateFacts;
use super::samples::HostRequests;
use super::table::FindingKind;
use std::collections::BTreeSet;

/// The fewest recorded requests for a host without a site, or of a proxy.
const REQUESTS: usize = 10;
/// The fewest clients for which a proxy sends requests, and that send requests for a host that has nothing in common with those of the sites: a
/// scanner is one client.
const CLIENTS: usize = 3;
/// The most conditions of each kind.
const MOST: usize = 3;
pub(super) fn recorded(facts: &StateFacts, all: &mut Vec<Condition>) {
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
