//! Redirect loops of the clients of a proxy that larder does not trust: its requests arrive without TLS, say `https`, and are redirected to
//! their own URL over `https`, again and again.

use super::REQUESTS;
use crate::forwarded::{self, Believed};
use crate::scheme::Scheme;
use crate::trial::{RecordedRequest, ServedBy};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The recent requests of one route.
#[derive(Debug, Default)]
pub struct ProxyLoops {
    requests: u64,
    /// Of each proxy the redirected requests, and whether larder itself redirects them.
    proxies: BTreeMap<IpAddr, (u64, bool)>,
}

/// A proxy whose clients are redirected in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyLoop {
    /// Its address.
    pub proxy: IpAddr,
    /// Its redirected requests.
    pub loops: u64,
    /// All recent requests of the route.
    pub requests: u64,
    /// Whether larder redirects them (`redirect_https`), and not the origin.
    pub is_own: bool,
}

impl ProxyLoops {
    /// Notes a request of this sender; `secures` says whether its site redirects requests without TLS.
    pub fn note(&mut self, request: &RecordedRequest<'_>, sender: Option<IpAddr>, secures: bool) {
        self.requests += u64::from(request.weight);
        let is_redirect = matches!(request.status, 301 | 302 | 303 | 307 | 308);
        let (Some(sender), true) = (sender, is_redirect && request.scheme == Scheme::Http.name()) else {
            return;
        };
        let says = |by| forwarded::scheme(by, request.fields) == Some(Scheme::Https);
        let is_own = secures && request.served == ServedBy::Other;
        let leads_back = is_own || request.response.is_some_and(|it| it.redirects_to_https(request));
        if leads_back && (says(Believed::XForwardedFor) || says(Believed::Forwarded)) {
            let (loops, by_larder) = self.proxies.entry(sender.to_canonical()).or_default();
            *loops += u64::from(request.weight);
            *by_larder = is_own;
        }
    }

    /// The proxy with the most such requests, if they are at least half of those of the route: a stranger may send the same fields.
    #[must_use]
    pub fn found(&self) -> Option<ProxyLoop> {
        let (proxy, (loops, is_own)) = self.proxies.iter().max_by_key(|it| it.1.0)?;
        let is_most = *loops >= REQUESTS && loops.saturating_mul(2) >= self.requests;
        is_most.then_some(ProxyLoop {
            proxy: *proxy,
            loops: *loops,
            requests: self.requests,
            is_own: *is_own,
        })
    }
}
