//! The client listeners, and the trusted proxies: `listen` and the section `[clients]`.

use super::ConfigCheck;
use crate::{Clients, address};
use larder_semantics::forwarded::Believed;
use larder_semantics::network::{Network, Peers};
use larder_transport::listener::{Listen, ListenerAddress, Preamble};

impl ConfigCheck {
    /// The client listeners. With a self-signed certificate an address without a scheme uses TLS, unless another one has `https://`.
    pub(super) fn listen(&mut self) -> Vec<ListenerAddress> {
        let names_tls = |it: &String| it.starts_with("https");
        let is_trial = self.flag("tls.self_signed") && !self.texts("listen").iter().any(names_tls);
        let entrance = |text: &String| {
            let it = address::entrance(text)?;
            let at = if is_trial && !text.contains("://") { it.at.secured() } else { it.at };
            Some(ListenerAddress { at, ..it })
        };
        self.texts("listen").iter().filter_map(entrance).collect()
    }

    /// Whether HTTP/3 is served: where a client can connect with TLS.
    pub(super) fn http3(&mut self, listen: &[ListenerAddress]) -> bool {
        let is_on = self.flag("http3");
        let serves = |it: &ListenerAddress| matches!(it.at, Listen::Tls(_)) && it.preamble == Preamble::None;
        if is_on && !listen.iter().any(serves) {
            let text = "no address of listen is for it: HTTP/3 requires TLS, and has no PROXY protocol header; add one, such as \
                        \"https://0.0.0.0:443\"";
            self.warn("http3", text);
        }
        is_on
    }

    /// Rejects a repeated address, with any scheme.
    pub(super) fn refuse_twice(&mut self, listen: &[ListenerAddress]) {
        let place = |it: &ListenerAddress| match &it.at {
            Listen::Tcp(address) | Listen::Tls(address) => {
                Some(address.to_string()).filter(|_| address.port() != 0)
            }
            Listen::Unix(path) => Some(path.display().to_string()),
        };
        let places: Vec<_> = listen.iter().filter_map(place).collect();
        if let Some(twice) = (1..places.len()).find(|it| places[..*it].contains(&places[*it])) {
            self.problem(self.source("listen"), "listen", &format!("duplicate address {}", places[twice]));
        }
    }

    /// The proxies that are trusted for the client address.
    pub(super) fn clients(&mut self, listen: &[ListenerAddress]) -> Clients {
        let proxies = self.values.given.contains_key("clients.proxies");
        let proxies = proxies.then(|| Peers::of(&self.texts("clients.proxies")));
        if let Some(proxies) = proxies.as_ref().filter(|_| !self.is_wrong("clients.proxies")) {
            let wanted: Vec<_> = listen.iter().filter(|it| it.preamble == Preamble::Proxy).collect();
            let is_unix = |it: &&&ListenerAddress| matches!(it.at, Listen::Unix(_));
            if wanted.is_empty() {
                let text = "no address of listen requires a PROXY protocol header; use for example listen = \
                            [\"http+proxy://0.0.0.0:8080\"]";
                self.warn("clients.proxies", text);
            } else if proxies.is_empty() {
                let text = "an empty list rejects every connection; add networks, or remove the key";
                self.problem(self.source("clients.proxies"), "clients.proxies", text);
            } else if let Some(it) = wanted.iter().find(is_unix).filter(|_| !proxies.has(None)) {
                let text = format!(
                    "every connection to {it} is rejected; \"unix\" allows connections to Unix \
                                    sockets"
                );
                self.warn("clients.proxies", &text);
            }
        }
        for key in ["clients.trusted", "clients.proxies"] {
            let rough =
                self.texts(key).into_iter().find_map(|it| Network::plain(&it).map(|plain| (it, plain)));
            if let Some((it, plain)) = rough {
                self.warn(
                    key,
                    &format!(
                        "{it:?} covers all of {plain:?}; write that network, or one address without a prefix \
                              length"
                    ),
                );
            }
        }
        Clients {
            trusted: Peers::of(&self.texts("clients.trusted")),
            believed: match self.text("clients.header").as_str() {
                "Forwarded" => Believed::Forwarded,
                _ => Believed::XForwardedFor,
            },
            proxies,
        }
    }
}
