//! JSON Web Tokens (`access.jwt`): the token of a request, its verification, and the fields that the origin gets from it. The
//! verification itself is in `larder_wire::jwt`.

use super::AccessState;
use super::issuer::{IssuerKeys, NumberedKeys};
use super::verification::{Checked, UnverifiedCredential, ValidCredentials, identity};
use super::watched_file::{BrokenEvent, WatchedFile};
use larder_config::access::JwtConfig;
use larder_counters::Counters;
use larder_semantics::field::{self, Field};
use larder_semantics::request_view::RequestView;
use larder_semantics::server_state::BrokenFileFact;
use larder_stdx::clock;
use larder_transport::Synthetic;
use larder_wire::jwt::{self, JwtKeys, TokenClaims, TokenFault};
use ring::digest;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the longest identity that is part of a key as it is.
const LONGEST_IDENTITY: usize = 200;

/// The tokens that a route accepts.
pub(super) struct JwtAuth {
    config: JwtConfig,
    passes_token: bool,
    state: Arc<AccessState>,
    keys: Arc<NumberedKeys>,
    /// The file of keys, in place of `keys`.
    file: Option<Arc<WatchedFile<NumberedKeys>>>,
    /// The keys that are fetched, in place of both.
    issuer: Option<Arc<IssuerKeys>>,
}

/// The judgement about a token.
enum TokenVerdict {
    Valid(ValidCredentials),
    Invalid(Synthetic),
    /// The response, unless other keys come soon.
    Unknown(Synthetic),
}

fn numbered(keys: JwtKeys, state: &AccessState) -> NumberedKeys {
    NumberedKeys(state.next_keys(), keys)
}

/// The token of a request.
enum FoundToken<'a> {
    InField(&'a [u8]),
    InCookie(&'a [u8]),
    /// Several, of which the origin might use another one.
    Several,
    None,
}

impl JwtAuth {
    pub fn new(config: &JwtConfig, passes_token: bool, state: Arc<AccessState>) -> Self {
        let file = config.file.as_ref().map(|it| state.key_files.of(it, &it.path));
        let keys = Arc::new(numbered(config.keys.clone(), &state));
        let issuer = config.url.as_ref().map(|it| state.issuer(it));
        let it = Self { config: config.clone(), passes_token, state, keys, file, issuer };
        it.look(None);
        it
    }

    pub fn is_in_authorization(&self) -> bool {
        self.config.is_in_authorization()
    }

    /// Whether the origin gets a field that may have a token, apart from `Authorization`.
    pub fn may_identify(&self, view: &RequestView<'_>) -> bool {
        let has = |name: &str| field::first(view.fields, name).is_some();
        self.config.cookie.is_some() && has("cookie") || self.passes_token && has(&self.config.header)
    }

    /// The names of the fields that larder sends to origins.
    pub fn sent(&self) -> impl Iterator<Item = &String> {
        self.config.send.iter().map(|it| &it.0)
    }

    /// The fields of clients that are removed, in any spelling: those that larder sends, and the token in a field of its own.
    pub fn removed(&self) -> Vec<String> {
        let token = Some(&self.config.header).filter(|_| !self.passes_token && !self.is_in_authorization());
        self.sent().chain(token).cloned().collect()
    }

    /// Reads the file of keys again if it was changed. A broken file changes nothing.
    pub fn look(&self, counters: Option<&Counters>) {
        const TOLD: BrokenEvent =
            BrokenEvent { event: "key-file-broken", meaning: "the keys read before stay in force" };
        let (Some(file), Some(watched)) = (&self.config.file, &self.file) else { return };
        let read = |_: &Path| file.read().map(|it| numbered(it, &self.state));
        watched.look(&self.state, counters, TOLD, read);
    }

    /// Why its file cannot be used, if so.
    pub fn broken(&self) -> Option<BrokenFileFact> {
        self.file.as_ref()?.broken()
    }

    /// The keys that are fetched for it.
    pub fn issuer(&self) -> Option<&Arc<IssuerKeys>> {
        self.issuer.as_ref()
    }

    /// Verifies the token of a request.
    pub fn check(&self, view: &RequestView<'_>, counters: &Counters) -> Checked {
        self.look(Some(counters));
        match self.judge(view) {
            TokenVerdict::Valid(proven) => Checked::Valid(proven),
            TokenVerdict::Unknown(_) if self.issuer.as_ref().is_some_and(|it| it.may_renew()) => {
                Checked::Unknown(UnverifiedCredential::Token)
            }
            TokenVerdict::Invalid(page) | TokenVerdict::Unknown(page) => Checked::Invalid(page),
        }
    }

    /// Verifies a token for which there may be other keys soon.
    pub async fn verify(&self, view: &RequestView<'_>) -> Result<ValidCredentials, Synthetic> {
        if let Some(it) = &self.issuer {
            it.renewed().await;
        }
        match self.judge(view) {
            TokenVerdict::Valid(proven) => Ok(proven),
            TokenVerdict::Invalid(page) | TokenVerdict::Unknown(page) => Err(page),
        }
    }

    fn judge(&self, view: &RequestView<'_>) -> TokenVerdict {
        let found = self.token(view);
        let token = match found {
            FoundToken::InField(it) | FoundToken::InCookie(it) => it,
            FoundToken::Several => {
                return TokenVerdict::Invalid(self.invalid("the request has several tokens"));
            }
            FoundToken::None => {
                return TokenVerdict::Invalid(challenge(401, "This page requires a token.", "Bearer"));
            }
        };
        let Some(keys) = self.keys() else { return TokenVerdict::Unknown(without_keys()) };
        let claims = match self.claims(token, &keys) {
            Ok(it) => it,
            Err(why @ (TokenFault::UnknownKey | TokenFault::Algorithm)) => {
                return TokenVerdict::Unknown(self.invalid(why.sentence()));
            }
            Err(why) => return TokenVerdict::Invalid(self.invalid(why.sentence())),
        };
        if !self.config.claims.iter().all(|(name, value)| claims.has(name, value)) {
            self.state.log_refused("jwt", "a required claim is missing");
            let text = "The token does not permit access to this page.";
            return TokenVerdict::Invalid(challenge(403, text, "Bearer error=\"insufficient_scope\""));
        }
        let is_in_cookie = matches!(found, FoundToken::InCookie(_));
        TokenVerdict::Valid(ValidCredentials {
            identity: self.identity(&claims),
            user: claims.subject().map(|it| it.as_bytes().to_vec()),
            fields: self.fields(&claims, view.fields, is_in_cookie),
            ..ValidCredentials::default()
        })
    }

    /// Verifies a token. A signature by a public key is verified once in five minutes, the claims at each request.
    fn claims(&self, token: &[u8], keys: &NumberedKeys) -> Result<TokenClaims, TokenFault> {
        let NumberedKeys(number, keys) = keys;
        let (demands, now, memory) = (&self.config.demands, clock::wall().0, &self.state.remembered);
        if keys.are_secret() || token.len() > jwt::MOST {
            return jwt::verify(token, keys, demands, now);
        }
        let name = memory.name(&[b"jwt", &number.to_ne_bytes(), token]);
        match memory.has(&name) {
            true => jwt::verify_again(token, keys, demands, now),
            false => jwt::verify(token, keys, demands, now).inspect(|_| memory.keep(name)),
        }
    }

    fn keys(&self) -> Option<Arc<NumberedKeys>> {
        match &self.issuer {
            Some(it) => it.keys(),
            None => {
                let of_file = self.file.as_ref().and_then(|it| it.content());
                Some(of_file.unwrap_or_else(|| self.keys.clone()))
            }
        }
    }

    /// The identity of a client: the issuer is part of it unless only one is possible.
    fn identity(&self, claims: &TokenClaims) -> Option<Arc<str>> {
        let subject = claims.subject()?.as_bytes();
        let whole = match self.config.demands.issuers.len() {
            1 => identity("jwt", subject),
            _ => {
                let issuer = identity("jwt", claims.issuer().unwrap_or_default().as_bytes());
                identity(&issuer, subject)
            }
        };
        if whole.len() <= LONGEST_IDENTITY {
            return Some(whole);
        }
        let digest = digest::digest(&digest::SHA256, whole.as_bytes());
        let hex: String = digest.as_ref().iter().map(|it| format!("{it:02x}")).collect();
        Some(identity("jwt-sha256", hex.as_bytes()))
    }

    /// The fields for the origin. A token that larder has used up is no longer among the cookies.
    fn fields(&self, claims: &TokenClaims, sent: &[Field<'_>], is_in_cookie: bool) -> Vec<(String, Vec<u8>)> {
        let given =
            |(name, claim): &(String, String)| Some((name.clone(), claims.field_value(claim)?.into_bytes()));
        let mut fields: Vec<_> = self.config.send.iter().filter_map(given).collect();
        if is_in_cookie && !self.passes_token {
            let own = self.config.cookie.as_deref().unwrap_or_default().as_bytes();
            let rest: Vec<&[u8]> = field::all(sent, "cookie")
                .flat_map(|it| it.split(|it| *it == b';'))
                .map(<[u8]>::trim_ascii)
                .filter(|it| {
                    !it.is_empty() && it.split(|it| *it == b'=').next().map(<[u8]>::trim_ascii) != Some(own)
                })
                .collect();
            fields.push(("Cookie".to_owned(), rest.join(&b"; "[..])));
        }
        fields
    }

    fn token<'a>(&self, view: &RequestView<'a>) -> FoundToken<'a> {
        let mut values = view.fields.iter().filter(|it| it.is(&self.config.header)).map(|it| it.value);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => return FoundToken::Several,
            (Some(value), None) => match bearer(value) {
                Some(token) => return FoundToken::InField(token),
                None if !self.is_in_authorization() => return FoundToken::InField(value),
                // Another scheme.
                None => {}
            },
            (None, _) => {}
        }
        let Some(name) = &self.config.cookie else { return FoundToken::None };
        let mut values = view.cookies(name);
        match (values.next(), values.next()) {
            (Some(token), None) => FoundToken::InCookie(token),
            (Some(_), Some(_)) => FoundToken::Several,
            (None, _) => FoundToken::None,
        }
    }

    /// The response to an invalid token. The log has the reason.
    fn invalid(&self, why: &str) -> Synthetic {
        self.state.log_refused("jwt", why);
        challenge(401, "The token is not valid.", "Bearer error=\"invalid_token\"")
    }
}

/// The response before the first keys of an issuer have come. It is no refusal of the token: a client has to come again, and keeps it.
fn without_keys() -> Synthetic {
    let text = "The keys for tokens of this page cannot be fetched.";
    Synthetic::page(503, text).with("Retry-After", "10").with("Cache-Control", "no-store")
}

/// The token behind the scheme (RFC 6750 §2.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

fn challenge(status: u16, text: &'static str, value: &str) -> Synthetic {
    Synthetic::page(status, text).with("WWW-Authenticate", value).with("Cache-Control", "no-store")
}
