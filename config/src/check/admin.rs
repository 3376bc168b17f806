//! The section `admin`.

use super::ConfigCheck;
use crate::history_place::HistoryPlace;
use crate::{AdminConfig, AdminListen, Problem, Source, address};

impl ConfigCheck {
    /// Its settings.
    pub(super) fn admin(&self) -> AdminConfig {
        let address = address::socket_address(&self.text("admin.listen"));
        let listen = match address {
            Some(address) if self.flag("admin.enabled") => match self.source("admin.listen") {
                Source::Default => AdminListen::From(address),
                _ => AdminListen::At(address),
            },
            _ => AdminListen::Off,
        };
        let overlay_size = self.number("admin.overlay_size").min(self.number("cache.ram.size") / 4);
        let (socket, token_file) = (self.path("admin.socket"), self.path("admin.token_file"));
        let audit = self.path("admin.audit");
        let history = HistoryPlace::of(self.path("admin.history"), &self.text("admin.history"));
        let hosts = self.texts("admin.hosts");
        AdminConfig { listen, socket, token_file, audit, history, hosts, overlay_size }
    }

    /// Warns of an address that other machines reach.
    pub(super) fn warn_admin(&mut self, admin: &AdminConfig) {
        if let AdminListen::At(address) = admin.listen
            && !address.ip().to_canonical().is_loopback()
        {
            let text = format!(
                "{address} is reachable from other machines, and its token is sent in clear text; listen on 127.0.0.1 and use \
                 an SSH tunnel, or a proxy with TLS, to reach it from elsewhere"
            );
            let source = self.source("admin.listen");
            self.warnings.push(Problem { source, key: "admin.listen".to_owned(), text });
        }
    }
}
