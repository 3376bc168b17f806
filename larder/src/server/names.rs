//! Origins whose names are not known when larder takes over a configuration: told, not refused, for a name may come
//! later. The lookups of requests are not here.

use crate::config::{Config, Problem, Source};
use larder_origin::Address;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// A name that an origin has, and the route that says so.
struct Named {
    source: Source,
    host: String,
    port: u16,
}

/// How long `larder check` waits for one answer more.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks up the names of all origins in a thread of its own, for that may take long, and has `tell` warn of each that is
/// not known.
pub fn warn_of_unknown(config: &Config, tell: impl Fn(Problem) + Send + 'static) {
    let named = names(config);
    if named.is_empty() {
        return;
    }
    let look_up = |host: &str, port| {
        let found = (host, port).to_socket_addrs().map_err(|it| larder_stdx::error::plain(&it))?;
        if found.len() == 0 { Err("it has no address".to_owned()) } else { Ok(()) }
    };
    // Without a thread there is no warning: the requests will tell.
    let thread = std::thread::Builder::new().name("names".to_owned());
    let _ = thread.spawn(move || unknown(named, look_up, tell));
}

/// The warnings for all names that are not known, and one more where that could not be found out in time.
#[must_use]
pub fn unknown_of(config: &Config) -> Vec<String> {
    let (sender, warnings) = mpsc::channel();
    warn_of_unknown(config, move |it| drop(sender.send(it)));
    let mut told = Vec::new();
    loop {
        match warnings.recv_timeout(PATIENCE) {
            Ok(it) => told.push(it.to_string()),
            Err(RecvTimeoutError::Disconnected) => return told,
            Err(RecvTimeoutError::Timeout) => {
                told.push(
                    "not all names of origins could be looked up: the name server does not answer".to_owned(),
                );
                return told;
            }
        }
    }
}

/// Each name once; what is an address needs no lookup.
fn names(config: &Config) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    for route in config.sites.iter().flat_map(|it| &it.routes) {
        for member in route.origins() {
            let Address::Tcp(host, port) = &member.at else { continue };
            if host.parse::<IpAddr>().is_err() && !names.iter().any(|it| it.host == *host) {
                names.push(Named {
                    source: route.decided.by("site[].route[].proxy.to"),
                    host: host.clone(),
                    port: *port,
                });
            }
        }
    }
    names
}

fn unknown(names: Vec<Named>, look_up: impl Fn(&str, u16) -> Result<(), String>, tell: impl Fn(Problem)) {
    for it in names {
        let Err(why) = look_up(&it.host, it.port) else { continue };
        let text = format!(
            "the name {} cannot be resolved now ({why}); until it can, what would go there is answered with 502",
            it.host
        );
        tell(Problem { source: it.source, key: "site.route.proxy.to".to_owned(), text });
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
        let told = std::cell::RefCell::new(Vec::new());
        unknown(names(&config), look_up, |it| told.borrow_mut().push(it.to_string()));
        assert_eq!(["gone.test", "here.test"], asked.borrow().as_slice());
        assert_eq!(
            [
                "t.toml:4: site.route.proxy.to: the name gone.test cannot be resolved now (no such name); until it can, \
              what would go there is answered with 502"
            ],
            told.borrow().as_slice()
        );
    }
}
