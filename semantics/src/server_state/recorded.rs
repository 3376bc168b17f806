//! The conditions of recorded requests: hosts without a site, and proxies whose fields are ignored. Requests for which no counter is
//! exact enough.

use super::condition::{Beginning, Condition, condition, number};
use super::facts::{ProxyLoopFact, StateFacts};
use super::samples::HostRequests;
use super::table::FindingKind;
use crate::trial::evidence::ProxyLoop;
use std::collections::BTreeSet;
use std::net::IpAddr;

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
    all.extend(facts.proxy_loops.iter().map(proxy_loop));
    let loops = |proxy: &IpAddr| facts.proxy_loops.iter().any(|it| it.found.proxy == proxy.to_canonical());
    let is_proxy = |it: &(usize, BTreeSet<String>)| it.0 >= REQUESTS && it.1.len() >= CLIENTS;
    let proxies = recorded.proxies.iter().filter(|it| is_proxy(it.1) && !loops(it.0));
    for (address, (requests, clients)) in proxies.take(MOST) {
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

/// That of a redirect loop outweighs that of the ignored address.
fn proxy_loop(it: &ProxyLoopFact) -> Condition {
    let ProxyLoop { proxy, loops, requests, is_own } = it.found;
    let by = if is_own { "`redirect_https` of its site" } else { "the origin" };
    let what = format!("the clients of {proxy} are redirected in a loop by route {}", it.route);
    let evidence = format!(
        "{loops} of its {requests} recent requests say X-Forwarded-Proto: https, and {by} redirects them to https"
    );
    let effect = "larder ignores the field because `clients.trusted` lacks the address";
    let subject = format!("redirects of route {} for a proxy", it.route);
    condition(FindingKind::ProxyRedirectLoop, &subject, what, evidence).with_effect(effect)
}
