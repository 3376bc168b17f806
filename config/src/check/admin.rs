//! The section `admin`.

use super::ConfigCheck;
use crate::admin_role::{ADMIN_NAME, AdminRole, NO_NAME, NamedToken, SOCKET_NAME};
use crate::history_place::HistoryPlace;
use crate::token::{self, Token};
use crate::{AdminConfig, AdminListen, Problem, Source, address};
use std::path::Path;

/// The most named tokens.
const MOST_TOKENS: usize = 64;

impl ConfigCheck {
    /// Its settings.
    pub(super) fn admin(&mut self) -> AdminConfig {
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
        let tokens = self.admin_tokens(token_file.as_deref());
        AdminConfig { listen, socket, token_file, audit, history, hosts, tokens, overlay_size }
    }

    /// The named tokens. `file` is that of the admin's own token.
    fn admin_tokens(&mut self, file: Option<&Path>) -> Vec<NamedToken> {
        let count = self.values.count("admin.tokens");
        // Read for a comparison only; it may not exist before the first start.
        let own = if count > 0 { token::present(file).map(|it| it.fingerprint()) } else { None };
        let mut all: Vec<NamedToken> = Vec::new();
        for index in 0..count {
            let prefix = format!("admin.tokens[{index}]");
            let key = |name: &str| format!("{prefix}.{name}");
            let section = self.values.sections.get(&prefix).cloned().unwrap_or_default();
            if index == MOST_TOKENS {
                let text = format!("more than {MOST_TOKENS} tokens; remove some");
                self.problem(section, "admin.tokens", &text);
                break;
            }
            for (wanted, example) in
                [("name", "grafana"), ("role", "viewer"), ("token", "file:/etc/larder/grafana.token")]
            {
                if !self.values.given.contains_key(&key(wanted)) {
                    let text = format!("missing; add it, such as {wanted} = \"{example}\"");
                    self.problem(section.clone(), &format!("admin.tokens.{wanted}"), &text);
                }
            }
            let name = self.text(&key("name"));
            self.refuse_name(&name, &key("name"), &all);
            let text = self.text(&key("token"));
            if text.is_empty() {
                continue;
            }
            let source = self.source(&key("token"));
            let fingerprint = match Token::read(&text) {
                Ok(token) => token.fingerprint(),
                Err(why) => {
                    let text = format!("{why}; `openssl rand -hex 32` prints a good one");
                    self.problem(source, "admin.tokens.token", &text);
                    continue;
                }
            };
            let other = match all.iter().find(|it| it.fingerprint == fingerprint) {
                Some(it) => Some(it.name.clone()),
                None => own.as_ref().filter(|it| **it == fingerprint).map(|_| ADMIN_NAME.to_owned()),
            };
            if let Some(other) = other {
                let text = format!("the same token as that of \"{other}\"; generate another one");
                self.problem(source, "admin.tokens.token", &text);
            } else if let Some(role) = AdminRole::parse(&self.text(&key("role"))) {
                all.push(NamedToken { name, role, fingerprint });
            }
        }
        all
    }

    /// Rejects a name that larder uses itself, or that another token has.
    fn refuse_name(&mut self, name: &str, key: &str, all: &[NamedToken]) {
        let text = match [ADMIN_NAME, SOCKET_NAME, NO_NAME].contains(&name) {
            true => format!("\"{name}\" is a name of larder's own; choose another name"),
            false if !name.is_empty() && all.iter().any(|it| it.name == name) => {
                format!("duplicate token name \"{name}\"; rename one")
            }
            false => return,
        };
        self.problem(self.source(key), "admin.tokens.name", &text);
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
