//! A route must not lead to larder's own admin: whoever may ask the route would be before it, from this machine. Nor back to
//! larder by a name; what is known of addresses without a resolver is in `config::itself`.

use crate::config::itself::{LOOP, SENTENCE, is_admin, is_listener};
use crate::config::{Config, OriginHost, Service};
use larder_origin::Address;
use larder_transport::listener::Listen;
use std::net::{SocketAddr, ToSocketAddrs};

/// Refuses a configuration that has larder's own admin, which listens at `admin`, as an origin.
///
/// # Errors
/// One sentence: which route, and what to do.
pub fn check(config: &Config, admin: Option<SocketAddr>) -> Result<(), String> {
    let routes = config.sites.iter().flat_map(|it| &it.routes);
    for route in routes {
        if let Some(it) = route.origins().find(|it| is_admin(&it.at, admin, config.admin.socket.as_deref())) {
            let origin = crate::cli::spell_origin(&it.at);
            return Err(format!("{}: proxy.to: {origin} {SENTENCE}.", route.source));
        }
        let is_clients = matches!(&route.service, Service::Proxy(proxy) if proxy.host == OriginHost::Client);
        if let Some(it) = route.origins().find(|it| is_clients && leads_here(&it.at, &config.listen)) {
            let origin = crate::cli::spell_origin(&it.at);
            return Err(format!("{}: proxy.to: {origin} {LOOP}.", route.source));
        }
    }
    Ok(())
}

/// Whether a name means nothing now but where larder listens itself; it is asked for only where the port is the same. What it
/// means later is found out by each request (508).
fn leads_here(origin: &Address, listen: &[Listen]) -> bool {
    let Address::Tcp(host, port) = origin else { return false };
    let is_ours = |it: &Listen| matches!(it, Listen::Tcp(at) if at.port() == *port && *port != 0);
    if origin.ip().is_some() || !listen.iter().any(is_ours) {
        return false;
    }
    let Ok(found) = (host.as_str(), *port).to_socket_addrs() else { return false };
    let here = |it: SocketAddr| {
        let it = Address::Tcp(it.ip().to_string(), *port);
        listen.iter().any(|at| is_listener(&it, at))
    };
    let mut found = found.peekable();
    found.peek().is_some() && found.all(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_means_nothing_but_a_listener_is_no_origin() {
        let at = |it: &str| Listen::Tcp(it.parse().unwrap());
        let to = |it: &str| Address::Tcp(it.to_owned(), 8080);
        let both = [at("127.0.0.1:8080"), at("[::1]:8080")];
        assert!(leads_here(&to("localhost"), &both));
        assert!(!leads_here(&to("localhost"), &[at("127.0.0.1:8081"), at("[::1]:8081")]), "another port");
        assert!(!leads_here(&to("localhost"), &[at("192.0.2.1:8080")]));
        assert!(!leads_here(&to("nobody.invalid"), &both));
    }
}
