//! The check that no route leads to larder's own admin: its clients could access the admin from this machine. Nor back to
//! larder by a name; the check by address without a resolver is in `larder_config::loop_check`.

use larder_config::loop_check::{LOOP, SENTENCE, is_admin, is_listener};
use larder_config::{Config, OriginHost, Service, Source};
use larder_origin::OriginAddress;
use larder_stdx::clock;
use larder_transport::listener::{Listen, ListenerAddress};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

/// Rejects a configuration with larder's own admin, which listens at `admin`, as an origin.
///
/// # Errors
/// One sentence: the route, and the remedy.
pub fn check(config: &Config, admin: Option<SocketAddr>) -> Result<(), String> {
    let routes = config.sites.iter().flat_map(|it| &it.routes);
    let mut resolver = Resolver { left: TIMEOUT };
    for route in routes {
        if let Some(it) = route.origins().find(|it| is_admin(&it.at, admin, config.admin.socket.as_deref())) {
            let origin = it.name();
            return Err(format!(
                "{}{origin} {SENTENCE}.",
                place(&route.source, "the origin ", route.key_of_origins().trim_start_matches("site.route."))
            ));
        }
        if let Some(to) = route.auth_service() {
            let wrong = match () {
                () if is_admin(&to.at, admin, config.admin.socket.as_deref()) => Some(SENTENCE),
                () if leads_here(&to.at, &config.listen, &mut resolver) => Some(LOOP),
                () => None,
            };
            if let Some(wrong) = wrong {
                let place = place(&route.source, "the service ", "access.forward.to");
                return Err(format!("{place}{} {wrong}.", to.name()));
            }
        }
        let is_clients = matches!(&route.service, Service::Proxy(proxy) if proxy.host == OriginHost::Client);
        if let Some(it) =
            route.origins().find(|it| is_clients && leads_here(&it.at, &config.listen, &mut resolver))
        {
            let origin = it.name();
            return Err(format!(
                "{}{origin} {LOOP}.",
                place(&route.source, "the origin ", route.key_of_origins().trim_start_matches("site.route."))
            ));
        }
    }
    Ok(())
}

/// The place of the route, before a sentence about the address of a key; a route of the command line has none.
fn place(source: &Source, what: &str, key: &str) -> String {
    match source {
        Source::Default => what.to_owned(),
        _ => format!("{source}: {key}: "),
    }
}

/// Whether a name currently resolves only to larder's own listeners; it is resolved only if the port is the same. Later
/// changes are detected by each request (508).
fn leads_here(origin: &OriginAddress, listen: &[ListenerAddress], resolver: &mut Resolver) -> bool {
    let OriginAddress::Tcp(host, port) = origin else { return false };
    let is_ours = |it: &ListenerAddress| matches!(it.at, Listen::Tcp(at) | Listen::Tls(at) if at.port() == *port && *port != 0);
    if origin.ip().is_some() || !listen.iter().any(is_ours) {
        return false;
    }
    let found = resolver.resolve(host, *port);
    let here = |it: SocketAddr| {
        let it = OriginAddress::Tcp(it.ip().to_string(), *port);
        listen.iter().any(|entrance| is_listener(&it, &entrance.at))
    };
    !found.is_empty() && found.into_iter().all(here)
}

/// The total time limit for names: neither a start nor the admin may block on a resolver that does not respond.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Resolves names, within a time limit.
struct Resolver {
    left: Duration,
}

impl Resolver {
    /// Empty if the name is unknown, or not resolved in time.
    fn resolve(&mut self, host: &str, port: u16) -> Vec<SocketAddr> {
        let host = host.to_owned();
        self.within(move || (host.as_str(), port).to_socket_addrs().into_iter().flatten().collect())
    }

    fn within(&mut self, resolve: impl FnOnce() -> Vec<SocketAddr> + Send + 'static) -> Vec<SocketAddr> {
        if self.left.is_zero() {
            return Vec::new();
        }
        let (say, hear) = mpsc::sync_channel(1);
        let begun = clock::precise_micros();
        // The result may arrive after the wait has ended.
        std::thread::spawn(move || drop(say.send(resolve())));
        let found = hear.recv_timeout(self.left).unwrap_or_default();
        let passed = Duration::from_micros(clock::precise_micros().saturating_sub(begun));
        self.left = self.left.saturating_sub(passed);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_means_nothing_but_a_listener_is_no_origin() {
        let at = |it: &str| larder_config::address::entrance(it).unwrap();
        let to = |it: &str| OriginAddress::Tcp(it.to_owned(), 8080);
        let both = [at("127.0.0.1:8080"), at("[::1]:8080")];
        let leads_here = |it: &str, listen: &[ListenerAddress]| {
            leads_here(&to(it), listen, &mut Resolver { left: Duration::from_secs(60) })
        };
        assert!(leads_here("localhost", &both));
        assert!(!leads_here("localhost", &[at("127.0.0.1:8081"), at("[::1]:8081")]), "another port");
        assert!(!leads_here("localhost", &[at("192.0.2.1:8080")]));
        assert!(!leads_here("nobody.invalid", &both));
    }

    #[test]
    fn a_resolver_that_is_silent_is_waited_for_once() {
        let mut resolver = Resolver { left: Duration::from_millis(20) };
        let (_held, silent) = mpsc::channel::<()>();
        let silent = move || {
            let _ = silent.recv();
            Vec::new()
        };
        assert!(resolver.within(silent).is_empty());
        assert!(resolver.left.is_zero());
        assert!(
            resolver.within(|| vec![SocketAddr::from(([127, 0, 0, 1], 1))]).is_empty(),
            "nobody asks any more"
        );
    }
}
