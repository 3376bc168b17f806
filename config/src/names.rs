//! Warnings of origins and fleet servers with unknown names when larder takes over a configuration: not errors, since a
//! name may be added later. The lookups for requests are not here.

use crate::{Config, Problem, Source};
use larder_origin::OriginAddress;
use larder_store::fleet::MemcachedAddress;
use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The name of an origin, or of a server of the fleet.
struct NamedHost {
    /// Its source in the configuration.
    source: Source,
    key: &'static str,
    /// The effect while it is unknown.
    until_then: &'static str,
    host: String,
    port: u16,
}

/// The time for which `larder check` waits for one more answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Looks up the names of all origins, and of the fleet's servers, in a separate thread, since that may take long, and
/// calls `report` for each unknown one.
pub fn warn_of_unknown(config: &Config, report: impl Fn(Problem) + Send + 'static) {
    let named = names(config);
    if named.is_empty() {
        return;
    }
    let look_up = |host: &str, port| {
        let found = (host, port).to_socket_addrs().map_err(|it| larder_stdx::error::plain(&it))?;
        if found.len() == 0 { Err("it has no address".to_owned()) } else { Ok(()) }
    };
    // Without a thread there is no warning: the requests will fail visibly.
    let thread = std::thread::Builder::new().name("names".to_owned());
    let _ = thread.spawn(move || unknown(named, look_up, report));
}

/// The warnings for all unknown names, and one more if the lookups did not end in time.
#[must_use]
pub fn unknown_of(config: &Config) -> Vec<String> {
    let (sender, warnings) = mpsc::channel();
    warn_of_unknown(config, move |it| drop(sender.send(it)));
    let mut failures = Vec::new();
    loop {
        match warnings.recv_timeout(TIMEOUT) {
            Ok(it) => failures.push(it.to_string()),
            Err(RecvTimeoutError::Disconnected) => return failures,
            Err(RecvTimeoutError::Timeout) => {
                failures.push("not all names were resolved: the name server does not respond".to_owned());
                return failures;
            }
        }
    }
}

/// Each name once; an address needs no lookup.
fn names(config: &Config) -> Vec<NamedHost> {
    let mut names: Vec<NamedHost> = Vec::new();
    for route in config.sites.iter().flat_map(|it| &it.routes) {
        for member in route.origins() {
            let OriginAddress::Tcp(host, port) = &member.at else { continue };
            names.push(NamedHost {
                source: route.decided.by("site[].route[].proxy.to"),
                key: "site.route.proxy.to",
                until_then: "its requests are answered with 502",
                host: host.clone(),
                port: *port,
            });
        }
    }
    for server in config.fleet.iter().flat_map(|it| &it.client.servers) {
        let MemcachedAddress::Tcp(host, port) = &server.at else { continue };
        names.push(NamedHost {
            source: config.decided.by("cache.fleet.servers"),
            key: "cache.fleet.servers",
            until_then: "it counts as a failed server",
            host: host.clone(),
            port: *port,
        });
    }
    names.retain(|it| it.host.parse::<IpAddr>().is_err());
    let mut seen = BTreeSet::new();
    names.retain(|it| seen.insert((it.key, it.host.clone())));
    names
}

fn unknown(
    names: Vec<NamedHost>,
    look_up: impl Fn(&str, u16) -> Result<(), String>,
    report: impl Fn(Problem),
) {
    for it in names {
        let Err(why) = look_up(&it.host, it.port) else { continue };
        let text =
            format!("the name {} cannot be resolved now ({why}); until it can, {}", it.host, it.until_then);
        report(Problem { source: it.source, key: it.key.to_owned(), text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_name_is_looked_up_once_and_an_address_never() {
        let route = |to: &str| format!("[[site.route]]\nproxy = {{ to = [\"{to}\"] }}\n");
        let text = [
            "cache.fleet.servers = [\"127.0.0.2\", \"gone.test\", \"unix:/run/b\"]\n".to_owned(),
            "[[site]]\nhosts = [\"*\"]\n".to_owned(),
            route("http://gone.test:80"),
            route("gone.test:81"),
            route("here.test:80"),
            route("127.0.0.1:80"),
            route("http://[::1]:80"),
            route("unix:/run/a"),
        ];
        let config = Config::from_text(&text.concat(), "t.toml", Path::new("."), &[]).unwrap();
        let asked = std::cell::RefCell::new(Vec::new());
        let look_up = |host: &str, _| {
            asked.borrow_mut().push(host.to_owned());
            if host == "here.test" { Ok(()) } else { Err("no such name".to_owned()) }
        };
        let failures = std::cell::RefCell::new(Vec::new());
        unknown(names(&config), look_up, |it| failures.borrow_mut().push(it.to_string()));
        assert_eq!(["gone.test", "here.test", "gone.test"], asked.borrow().as_slice());
        assert_eq!(
            [
                "t.toml:5: site.route.proxy.to: the name gone.test cannot be resolved now (no such name); until it can, its requests are answered with 502",
                "t.toml:1: cache.fleet.servers: the name gone.test cannot be resolved now (no such name); until it can, it counts as a failed server"
            ],
            failures.borrow().as_slice()
        );
    }
}
