//! The access rules of a route, `site.route.access`, and their contradictions.

mod jwt;
mod limits;
mod lists;
mod signed;

use super::{ConfigCheck, Problem, RoutePath};
use crate::Service;
use crate::access::{AccessConfig, Addresses, BasicConfig, JwtConfig, LARGEST_PASSWORD_FILE};
use crate::address;
use crate::include::read_text;
use crate::kind::{BLOCK, ConfigValue, ValueKind};
use crate::problem::Source;
use crate::table;
use larder_semantics::expression::ExpressionSubject;
use larder_semantics::miss_budget::{BudgetClass, BudgetSettings, TimeShare};
use larder_semantics::policy::CredentialUse;
use larder_semantics::rate::{Gcra, Rate};
use larder_transport::listener::{Listen, ListenerAddress};
use larder_wire::htpasswd::PasswordEntry;

/// The most mistakes that are reported for one password file.
const MOST_MISTAKES: usize = 20;

impl ConfigCheck {
    pub(super) fn access(&mut self, at: &RoutePath) -> AccessConfig {
        let is_whole = !self.refuse_empty(at);
        let condition = |name: &str| self.condition(ExpressionSubject::Request, &self.access_key(at, name));
        let (deny_when, allow_when) = (condition("deny_when"), condition("allow_when"));
        let access = AccessConfig {
            allow: self.addresses(at, "allow"),
            deny: self.addresses(at, "deny"),
            deny_when,
            allow_when,
            any: self.text(&self.access_key(at, "satisfy")) == "any",
            limits: self.request_limits(at),
            basic: self.basic(at),
            jwt: self.jwt(at),
            signed: self.signed(at),
            forward: self.forward(at),
            passes_authorization: self.flag(&self.access_key(at, "pass_authorization")),
            is_shared: self.is_shared(at),
        };
        if is_whole {
            self.refuse_idle(at, &access);
        }
        self.refuse_two_of_authorization(at, &access);
        self.warn_lists(at, &access);
        access
    }

    /// Whether `shared` is set for all rules of the route. That of the site is for the rules of the site: a route with rules of its own, whose
    /// pages may depend on the client that they admit, has to say so itself.
    fn is_shared(&mut self, at: &RoutePath) -> bool {
        const RULES: [&str; 11] = [
            "basic.users",
            "basic.file",
            "jwt.secret",
            "jwt.public_key",
            "jwt.jwks_file",
            "jwt.jwks_url",
            "forward.to",
            "allow",
            "deny",
            "allow_when",
            "deny_when",
        ];
        let is_shared = self.flag(&self.access_key(at, "shared"));
        if !is_shared || !self.is_of_site(at, "access.shared") {
            return is_shared;
        }
        let is_own = |it: &&str| {
            let name = format!("access.{it}");
            self.values.given.contains_key(&self.site_key(at, &name)) && !self.is_of_site(at, &name)
        };
        let Some(own) = RULES.into_iter().find(|it| is_own(it)) else { return true };
        let text = format!(
            "shared = true of the site is not for {own} of the route, so that its responses are private; set shared = true in the route \
             if no page depends on the client"
        );
        let source = self.source(&at.key(&format!("access.{own}")));
        self.warn_of(source, "site.route.access.shared", &text);
        false
    }

    /// Whether a route has this key from its site, or from a block that its site uses.
    fn is_of_site(&self, at: &RoutePath, name: &str) -> bool {
        let key = self.site_key(at, name);
        if key != at.key(name) {
            return true;
        }
        let is_same = |block: &String| {
            let of_block = self.values.given.get(&format!("{BLOCK}.{block}.{name}"));
            of_block.is_some_and(|it| Some(&it.1) == self.values.given.get(&key).map(|it| &it.1))
        };
        let own = self.texts(&at.key("use"));
        self.texts(&at.of_site("use")).iter().any(|it| !own.contains(it) && is_same(it))
    }

    /// Rejects keys that have no effect with these credentials.
    fn refuse_idle(&mut self, at: &RoutePath, access: &AccessConfig) {
        let any = "credentials; add access.basic, access.jwt, access.forward or access.signed";
        let identity = "credentials that identify the client; add access.basic, access.jwt or access.forward";
        let rules = "rules for clients; add access.allow, access.basic, access.jwt or access.forward";
        let users = "users; add access.basic.users or access.basic.file";
        for (name, works, missing) in [
            ("satisfy", access.has_credentials(), any),
            ("key", access.identifies(), identity),
            ("shared", access.chooses_clients(), rules),
            ("pass_authorization", access.identifies(), identity),
            ("basic.realm", access.basic.is_some(), users),
        ] {
            let source = self.source(&self.access_key(at, name));
            if source != Source::Default && !works {
                let text = format!("{name} has no effect without {missing}");
                self.problem(source, &format!("site.route.access.{name}"), &text);
            }
        }
    }

    /// Rejects a demand for two credentials in one field.
    fn refuse_two_of_authorization(&mut self, at: &RoutePath, access: &AccessConfig) {
        let is_one = |it: &JwtConfig| it.is_in_authorization() && it.cookie.is_none();
        if access.basic.is_some() && access.jwt.as_ref().is_some_and(is_one) && !access.any {
            let text = "a request has one Authorization field, for a password or for a token; set satisfy = \"any\", or \
                        access.jwt.header or access.jwt.cookie";
            let key = ["secret", "public_key", "jwks_file", "jwks_url"]
                .map(|it| self.access_key(at, &format!("jwt.{it}")));
            let source = key.iter().map(|it| self.source(it)).find(|it| *it != Source::Default);
            self.problem(source.unwrap_or_default(), "site.route.access.jwt", text);
        }
    }

    /// Rejects rules that are present but empty, in the route or in its site: they would admit every client. Returns whether there
    /// are any.
    fn refuse_empty(&mut self, at: &RoutePath) -> bool {
        let mut found = false;
        let lists = table::rows().filter_map(|it| {
            let is_list = matches!(it.kind, ValueKind::List(_) | ValueKind::Pairs { .. });
            it.path.strip_prefix(table::ROUTE).filter(|it| is_list && it.starts_with("access."))
        });
        for name in lists {
            let key = self.site_key(at, name);
            let is_empty = match self.values.given.get(&key) {
                Some((ConfigValue::Texts(these), _)) => these.is_empty(),
                Some((ConfigValue::Pairs(these), _)) => these.is_empty(),
                _ => false,
            };
            if is_empty {
                found = true;
                let remedy = match name {
                    "access.allow" => "add a network, or remove the key to admit every address",
                    "access.deny" => "add a network, or remove the key",
                    "access.basic.users" => "add a user as `htpasswd -nB NAME` prints it, or remove the key",
                    _ => "add a member, or remove the key",
                };
                self.problem(
                    self.source(&key),
                    &format!("site.route.{name}"),
                    &format!("it is empty; {remedy}"),
                );
            }
        }
        for (name, remedy) in [
            ("access", "add a rule, such as allow = [\"10.0.0.0/8\"]"),
            ("access.basic", "add users or file"),
            ("access.jwt", "add secret, public_key, jwks_file or jwks_url"),
            ("access.signed", "add secret"),
            ("access.limit", "add rate = \"5/s\""),
        ] {
            for path in [at.key(name), at.of_site(name)] {
                let Some(source) = self.values.sections.get(&path).cloned() else { continue };
                let below = format!("{path}.");
                let is_key = |it: Option<&String>| it.is_some_and(|it| it.starts_with(&below));
                let is_empty = !is_key(self.values.given.range(below.clone()..).next().map(|it| it.0))
                    && !is_key(self.values.sections.range(below.clone()..).next().map(|it| it.0))
                    && !self.values.broken.contains(&path);
                if is_empty {
                    found = true;
                    let text =
                        format!("the section is empty, so it admits every client; {remedy}, or remove it");
                    self.problem(source, &format!("site.route.{name}"), &text);
                }
            }
        }
        found
    }

    /// The effect of the route's credentials on its cache.
    pub(super) fn credential_use(&mut self, at: &RoutePath, access: &AccessConfig) -> CredentialUse {
        let in_key = self.text(&self.access_key(at, "key")) == "identity";
        let shared = self.access_key(at, "shared");
        if in_key
            && access.basic.is_none()
            && access.jwt.is_none()
            && access.forward.as_ref().is_some_and(|it| it.copy.is_empty())
        {
            let text = "the service of access.forward tells no identity; add the field with the name of the user to \
                        access.forward.copy, such as [\"X-Auth-Request-User\"]";
            self.problem(self.source(&self.access_key(at, "key")), "site.route.access.key", text);
        }
        match (access.identifies(), in_key, access.is_shared) {
            (false, ..) => CredentialUse::None,
            (true, true, true) => {
                let text = "shared = true gives all users one cache, and key = \"identity\" each user their own; remove \
                            one of them";
                self.problem(self.source(&shared), "site.route.access.shared", text);
                CredentialUse::Private
            }
            (true, true, false) => CredentialUse::InKey,
            (true, false, true) => CredentialUse::Shared,
            (true, false, false) => CredentialUse::Private,
        }
    }

    fn basic(&mut self, at: &RoutePath) -> Option<BasicConfig> {
        let [users, file, realm] =
            ["users", "file", "realm"].map(|it| self.access_key(at, &format!("basic.{it}")));
        let mut listed = Vec::new();
        for secret in self.secrets(&users) {
            match PasswordEntry::parse(secret.expose()) {
                Ok(it) => {
                    let source = self.source(&users);
                    it.weakness()
                        .iter()
                        .for_each(|it| self.warn_of(source.clone(), "site.route.access.basic.users", it));
                    listed.push(it);
                }
                Err(why) => {
                    self.problem(self.source(&users), "site.route.access.basic.users", &why);
                }
            }
        }
        let path = self.path(&file);
        if let Some(path) = &path {
            let mistakes = match read_text(path, LARGEST_PASSWORD_FILE) {
                Ok(text) => {
                    if let Some(why) = weakness_of(&text) {
                        let text = format!("{}: {why}", path.display());
                        self.warn_of(self.source(&file), "site.route.access.basic.file", &text);
                    }
                    mistakes_of(&text)
                }
                Err(why) => vec![why],
            };
            for why in mistakes {
                let text = format!("{}: {why}", path.display());
                let is_in_force = self.in_force.has_users(path);
                self.broken_file(self.source(&file), "site.route.access.basic.file", &text, is_in_force);
            }
        }
        if listed.is_empty() && path.is_none() {
            return None;
        }
        let source = self.source(if listed.is_empty() { &file } else { &users });
        self.warn_clear_text(at, source, "site.route.access.basic", "passwords");
        Some(BasicConfig { realm: self.text(&realm), users: listed, file: path })
    }

    /// A file that cannot be used: an error, unless a running larder has its content.
    pub(super) fn broken_file(&mut self, source: Source, key: &str, text: &str, is_in_force: bool) {
        match is_in_force {
            true => {
                let text = format!("{text}; the content that was read before stays in force");
                self.warn_of(source, key, &text);
            }
            false => self.problem(source, key, text),
        }
    }

    /// Warns of credentials that clients send without TLS: over a listener of the route, unless the site redirects to https. `what`
    /// names the credentials.
    fn warn_clear_text(&mut self, at: &RoutePath, source: Source, key: &str, what: &str) {
        let listen = self.listen();
        let has_tls = listen.iter().any(|it| matches!(it.at, Listen::Tls(_)));
        let named = self.texts(&self.site_key(at, "listeners"));
        let named: Vec<_> = named.iter().filter_map(|it| address::entrance(it)).map(|it| it.at).collect();
        let is_of_route = |it: &&ListenerAddress| named.is_empty() || named.contains(&it.at);
        let clear = listen.iter().filter(is_of_route).find(|it| matches!(it.at, Listen::Tcp(_)));
        let redirects = self.flag(&at.of_site("redirect_https"));
        let text = match clear.filter(|_| !redirects) {
            None => return,
            Some(_) if !has_tls => format!(
                "{what} are sent in clear text: no address of listen has TLS; add one, such as \"https://0.0.0.0:443\", unless a \
                 proxy with TLS is in front"
            ),
            Some(clear) => format!(
                "{what} are sent in clear text to {clear}; set redirect_https = true for the site, or listeners for the route"
            ),
        };
        self.warn_once(Problem { source, key: key.to_owned(), text });
    }

    fn warn_once(&mut self, warning: Problem) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The key of `access.NAME`, in the route or in its site.
    pub(super) fn access_key(&self, at: &RoutePath, name: &str) -> String {
        self.site_key(at, &format!("access.{name}"))
    }

    fn addresses(&self, at: &RoutePath, name: &str) -> Option<Addresses> {
        let texts = self.texts(&self.access_key(at, name));
        (!texts.is_empty()).then(|| Addresses::of(&texts))
    }

    /// The name of a limit: of the site, unless one of its keys is given for the route. Then it is empty until the route has its name.
    fn limit_scope(&self, at: &RoutePath, keys: &[&String]) -> String {
        match keys.iter().any(|it| it.starts_with(&at.key(""))) {
            true => String::new(),
            false => format!("site {}", self.texts(&at.of_site("hosts")).first().map_or("", String::as_str)),
        }
    }

    /// `access.budget`.
    pub(super) fn budget(&mut self, at: &RoutePath, service: Option<&Service>) -> Option<BudgetSettings> {
        let keys =
            ["misses", "seconds", "burst", "by"].map(|it| self.access_key(at, &format!("budget.{it}")));
        let [misses, seconds, burst, by] = &keys;
        let (rate, share) = (Rate::parse(&self.text(misses)), TimeShare::parse(&self.text(seconds)));
        let key = "site.route.access.budget";
        let given = keys.iter().map(|it| (it, self.source(it))).find(|it| it.1 != Source::Default);
        let (first, source) = given?;
        if rate.is_none() && share.is_none() && !self.is_wrong(misses) && !self.is_wrong(seconds) {
            let text = "the budget has no bound; add access.budget.misses, such as \"30/m\", or access.budget.seconds, such as \"30s/1m\"";
            self.problem(source.clone(), key, text);
        } else if rate.is_none() && self.source(burst) != Source::Default && !self.is_wrong(misses) {
            let text = "burst has no effect without a rate; add access.budget.misses, such as \"30/m\"";
            self.problem(self.source(burst), key, text);
        }
        if !matches!(service, None | Some(Service::Proxy(_) | Service::Sql(_))) {
            if first.starts_with(&at.key("")) && !self.is_of_block(&source) {
                let text = "no effect without an origin; remove it";
                self.problem(source, key, text);
            }
            return None;
        }
        if rate.is_none() && share.is_none() {
            return None;
        }
        let burst_count = u32::try_from(self.number(burst)).unwrap_or(u32::MAX);
        Some(BudgetSettings {
            scope: self.limit_scope(at, &[misses, seconds, burst, by]),
            misses: rate.map(|it| Gcra::new(it, burst_count)),
            seconds: share,
            burst: burst_count,
            by: BudgetClass::parse(&self.text(by)).unwrap_or(BudgetClass::Network),
        })
    }
}

/// The weakness of the first weak hash of a password file, and the number of the others.
fn weakness_of(text: &str) -> Option<String> {
    let users = PasswordEntry::parse_file(text).ok()?;
    let mut weak = users.iter().filter_map(PasswordEntry::weakness);
    let first = weak.next()?;
    Some(match weak.count() {
        0 => first,
        more => format!("{first}; so are the hashes of {more} more users"),
    })
}

/// The mistakes of a password file, each with its line.
fn mistakes_of(text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines: Vec<_> = lines.filter(|it| !it.1.is_empty() && !it.1.starts_with('#')).collect();
    if lines.is_empty() {
        return vec!["the file has no users; add one with `htpasswd -B FILE NAME`".to_owned()];
    }
    let wrong = |(line, it): (usize, &str)| Some(format!("line {line}: {}", PasswordEntry::parse(it).err()?));
    lines.into_iter().filter_map(wrong).take(MOST_MISTAKES).collect()
}
