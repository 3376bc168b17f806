//! The tokens of a route: `access.jwt`.

use crate::access::{JwtConfig, KeyFile, KeyFileForm, KeyUrl};
use crate::check::{ConfigCheck, Problem, RoutePath};
use crate::member::MemberProtocol;
use crate::problem::Source;
use larder_gateway::trusted_headers;
use larder_origin::{OriginTls, TlsSettings};
use larder_wire::jwt::{JwtAlgorithm, JwtKeys, TokenDemands};

/// The keys of `access.jwt` that say how tokens are verified; one of them is needed.
const OF_KEYS: [&str; 4] = ["secret", "public_key", "jwks_file", "jwks_url"];
/// The others.
const OTHERS: [&str; 9] =
    ["algorithms", "issuer", "audience", "header", "cookie", "leeway", "claims", "send", "ca"];

/// The keys of a route, and their source if it is not the configuration itself.
#[derive(Default)]
struct RouteKeys {
    keys: JwtKeys,
    file: Option<KeyFile>,
    url: Option<KeyUrl>,
}

impl RouteKeys {
    fn fit(&self, algorithm: JwtAlgorithm) -> bool {
        match self.url {
            Some(_) => !algorithm.name().starts_with("HS"),
            None => self.keys.fit(algorithm),
        }
    }
}

impl ConfigCheck {
    pub(super) fn jwt(&mut self, at: &RoutePath) -> Option<JwtConfig> {
        let key = |it: &ConfigCheck, name: &str| it.access_key(at, &format!("jwt.{name}"));
        let is_set = |it: &ConfigCheck, name: &&str| it.source(&key(it, name)) != Source::Default;
        let given: Vec<_> = OF_KEYS.into_iter().filter(|it| is_set(self, it)).collect();
        let Some(name) = given.first() else {
            if let Some(name) = OTHERS.iter().find(|it| is_set(self, it)) {
                let text = format!(
                    "{name} has no effect without a key; add access.jwt.secret, access.jwt.public_key, access.jwt.jwks_file or access.jwt.jwks_url"
                );
                let source = self.source(&key(self, name));
                self.problem(source, &format!("site.route.access.jwt.{name}"), &text);
            }
            return None;
        };
        if let Some(second) = given.get(1) {
            let text = format!("both {name} and {second} are set; keep one of them");
            let source = self.source(&key(self, second));
            self.problem(source, &format!("site.route.access.jwt.{second}"), &text);
        }
        let own = self.jwt_keys(&key(self, name), name, &key(self, "ca"))?;
        let named = key(self, "algorithms");
        let algorithms: Vec<_> = self.texts(&named).iter().filter_map(|it| JwtAlgorithm::parse(it)).collect();
        if let Some(it) = algorithms.iter().find(|it| !own.fit(**it)) {
            let text = format!(
                "{} does not fit the key of access.jwt.{name}; remove it{}",
                it.name(),
                if *name == "secret" { ", or use a longer secret (HS384: 48 bytes, HS512: 64)" } else { "" }
            );
            self.problem(self.source(&named), "site.route.access.jwt.algorithms", &text);
        }
        let demands = TokenDemands {
            algorithms,
            issuers: self.texts(&key(self, "issuer")),
            audiences: self.texts(&key(self, "audience")),
            leeway: u32::try_from(self.time(&key(self, "leeway")).as_secs()).unwrap_or(u32::MAX),
        };
        let source = self.source(&key(self, name));
        if demands.issuers.is_empty() {
            let text =
                "tokens of every issuer that uses the key are accepted; add access.jwt.issuer".to_owned();
            self.warn_once(Problem { source: source.clone(), key: "site.route.access.jwt".to_owned(), text });
        }
        self.warn_clear_text(at, source, "site.route.access.jwt", "tokens");
        let sent = key(self, "send");
        let send = self.pairs(&sent);
        for (field, _) in &send {
            self.refuse_own(&sent, "access.jwt.send", field);
            self.refuse_given(&sent, "access.jwt.send", field);
        }
        let is_double = |it: &(usize, &(String, String))| {
            send[..it.0].iter().any(|one| one.0.eq_ignore_ascii_case(&it.1.0))
        };
        if let Some((_, (field, _))) = send.iter().enumerate().find(is_double) {
            let text = format!("{field} occurs twice, in different cases; keep one of them");
            self.problem(self.source(&sent), "site.route.access.jwt.send", &text);
        }
        Some(JwtConfig {
            keys: own.keys,
            file: own.file,
            url: own.url,
            demands,
            header: self.text(&key(self, "header")),
            cookie: Some(self.text(&key(self, "cookie"))).filter(|it| !it.is_empty()),
            claims: self.pairs(&key(self, "claims")),
            send,
        })
    }

    /// Rejects the name of a field with which larder cannot tell origins of a client.
    fn refuse_given(&mut self, key: &str, row: &str, name: &str) {
        let is_of_client =
            ["authorization", "cookie", "accept-encoding"].iter().any(|it| name.eq_ignore_ascii_case(it));
        let why = match trusted_headers::reaches_an_origin(name, false, |_| true) {
            _ if is_of_client => "it has a meaning of its own",
            true => return,
            false => "larder writes it itself, or it has characters other than letters, digits and \"-\"",
        };
        let text = format!("{name} cannot have the value of a claim: {why}; use a name such as X-User");
        self.problem(self.source(key), &format!("site.route.{row}"), &text);
    }

    /// The keys, and the place that they are from.
    fn jwt_keys(&mut self, key: &str, name: &str, ca: &str) -> Option<RouteKeys> {
        let has_ca = self.source(ca) != Source::Default;
        if has_ca && name != "jwks_url" {
            let text = "no effect without access.jwt.jwks_url; remove it";
            self.problem(self.source(ca), "site.route.access.jwt.ca", text);
        }
        let (keys, file, before) = match name {
            "jwks_url" => return self.key_url(key, ca),
            "secret" => {
                let secret = self.secret(key)?;
                (JwtKeys::of_secret(secret.expose().as_bytes()), None, String::new())
            }
            _ => {
                let form = if name == "jwks_file" { KeyFileForm::Set } else { KeyFileForm::Pem };
                let file = KeyFile { path: self.path(key)?, form };
                let before = format!("{}: ", file.path.display());
                let mut keys = file.read();
                if let (Err(why), Some(kept)) = (&keys, self.in_force.keys(&file)) {
                    let text = format!("{before}{why}");
                    self.broken_file(self.source(key), &format!("site.route.access.jwt.{name}"), &text, true);
                    keys = Ok(kept);
                }
                (keys, Some(file), before)
            }
        };
        match keys {
            Ok(keys) => Some(RouteKeys { keys, file, url: None }),
            Err(why) => {
                let (source, text) = (self.source(key), format!("{before}{why}"));
                self.problem(source, &format!("site.route.access.jwt.{name}"), &text);
                None
            }
        }
    }

    /// The URL of the keys.
    fn key_url(&mut self, key: &str, ca: &str) -> Option<RouteKeys> {
        let url = KeyUrl { ca: self.path(ca), ..KeyUrl::parse(&self.text(key))? };
        let is_secure = url.from.scheme == MemberProtocol::Https;
        if url.is_exposed() {
            let text = "the keys are fetched without TLS, so that an attacker on the way can replace them; write \"https://\"";
            let (source, key) = (self.source(key), "site.route.access.jwt.jwks_url".to_owned());
            self.warn_once(Problem { source, key, text: text.to_owned() });
        }
        let wrong = match (&url.ca, is_secure) {
            (Some(_), false) => {
                Some("access.jwt.jwks_url does not use TLS; write \"https://\", or remove it".to_owned())
            }
            (None, false) => None,
            (ca, true) => OriginTls::new(&TlsSettings { ca: ca.clone(), ..TlsSettings::default() }).err(),
        };
        if let Some(text) = wrong {
            let (key, name) = if url.ca.is_none() { (key, "jwks_url") } else { (ca, "ca") };
            self.problem(self.source(key), &format!("site.route.access.jwt.{name}"), &text);
        }
        Some(RouteKeys { url: Some(url), ..RouteKeys::default() })
    }
}
