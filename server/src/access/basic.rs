//! Basic authentication (RFC 7617): users of the configuration and of a password file, verified once and then remembered.

use super::AccessState;
use super::limit::ticks;
use super::limits::too_many;
use super::verification::{Checked, UnverifiedCredential, UnverifiedPassword, ValidCredentials};
use super::watched_file::{BrokenEvent, WatchedFile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_config::access::{BasicConfig, LARGEST_PASSWORD_FILE};
use larder_config::include::read_text;
use larder_counters::Counters;
use larder_semantics::field::{self, Field};
use larder_semantics::network::client_network;
use larder_semantics::rate::{Gcra, Rate};
use larder_semantics::server_state::BrokenFileFact;
use larder_transport::Synthetic;
use larder_wire::htpasswd::{APR1, PasswordEntry};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// Failures of a network: ten a minute, and twenty at once.
const FAILURES: (Rate, u32) = (Rate { count: 10, seconds: 60 }, 20);
/// Compared with any password where there is no user.
const DUMMY: &str = "$2b$10$abcdefghijklmnopqrstuuKf3Zs5cJ1xqmvJ0S0NU2fYdZyP9W9Hi";

/// Users, each with the hash of the password.
pub(super) type PasswordUsers = HashMap<String, Arc<str>>;

/// The users of a route.
pub(super) struct BasicAuth {
    state: Arc<AccessState>,
    challenge: String,
    /// The users of the configuration, which have precedence over those of the file.
    users: PasswordUsers,
    file: Option<Arc<WatchedFile<PasswordUsers>>>,
    seed: u64,
}

impl BasicAuth {
    pub fn new(config: &BasicConfig, state: Arc<AccessState>) -> Self {
        let challenge =
            format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm.replace(['"', '\\'], "'"));
        let seed = state.limits.seed("failures of passwords");
        let _ = state.limits.rates();
        let it = Self {
            users: listed(&config.users),
            file: config.file.as_ref().map(|it| state.password_files.of(it, it)),
            state,
            challenge,
            seed,
        };
        it.look(None);
        it
    }

    /// Reads the file again if it was changed, at most once a second. A broken file changes nothing.
    pub fn look(&self, counters: Option<&Counters>) {
        const TOLD: BrokenEvent =
            BrokenEvent { event: "password-file-broken", meaning: "the users read before stay in force" };
        let read = |path: &Path| read_users(path).map(|it| listed(&it));
        self.file.iter().for_each(|it| it.look(&self.state, counters, TOLD, read));
    }

    /// Why its file cannot be used, if so.
    pub fn broken(&self) -> Option<BrokenFileFact> {
        self.file.as_ref()?.broken()
    }

    fn hash_of(&self, user: &str) -> Option<Arc<str>> {
        let of_file = || self.file.as_ref()?.content()?.get(user).cloned();
        self.users.get(user).cloned().or_else(of_file)
    }

    /// The most expensive hash of a user.
    fn dearest(&self) -> Option<Arc<str>> {
        let of_file = self.file.as_ref().and_then(|it| it.content());
        let all = self.users.values().chain(of_file.iter().flat_map(|it| it.values()));
        all.max_by_key(|it| cost(it)).cloned()
    }

    /// Looks at the credentials of a request.
    pub fn check(&self, fields: &[Field<'_>], client: Option<IpAddr>, counters: &Counters) -> Checked {
        self.look(Some(counters));
        let Some((user, password)) = credentials(fields) else {
            return Checked::Invalid(self.challenge());
        };
        let hash = self.hash_of(&user);
        let memory = &self.state.remembered;
        if let Some(hash) = &hash
            && memory.has(&memory.name(&[user.as_bytes(), &password, hash.as_bytes()]))
        {
            return Checked::Valid(ValidCredentials::of_password(&user));
        }
        let network = client.map_or(0, client_network);
        let failures = xxhash_rust::xxh3::xxh3_64_with_seed(&network.to_ne_bytes(), self.seed);
        Checked::Unknown(UnverifiedCredential::Password(UnverifiedPassword {
            user,
            password,
            hash,
            failures,
        }))
    }

    /// Verifies a password, unless its network had too many wrong ones lately.
    pub async fn verify(&self, it: UnverifiedPassword) -> Result<ValidCredentials, Synthetic> {
        let (memory, rates) = (&self.state.remembered, self.state.limits.rates());
        let gcra = Gcra::new(FAILURES.0, FAILURES.1);
        let now = ticks();
        if let Err(wait) = rates.change(it.failures, |arrival| gcra.judge(arrival, now)) {
            return Err(too_many("Too many wrong passwords came from this network.", wait.seconds()));
        }
        // As expensive as the most expensive hash of a user who exists.
        let hash = it.hash.clone().or_else(|| self.dearest()).unwrap_or_else(|| DUMMY.into());
        match self.state.passwords.verify(it.password.clone(), hash).await {
            Some(true) if it.hash.is_some() => {
                let _ = rates.change::<()>(it.failures, |it| Ok(it.saturating_sub(gcra.interval)));
                let hash = it.hash.as_deref().unwrap_or_default();
                memory.keep(memory.name(&[it.user.as_bytes(), &it.password, hash.as_bytes()]));
                Ok(ValidCredentials::of_password(&it.user))
            }
            Some(_) => Err(self.challenge()),
            None => {
                let _ = rates.change::<()>(it.failures, |it| Ok(it.saturating_sub(gcra.interval)));
                let page =
                    Synthetic::page(503, "Too many passwords are being verified.").with("Retry-After", "1");
                Err(page.with("Cache-Control", "no-store"))
            }
        }
    }

    fn challenge(&self) -> Synthetic {
        Synthetic::page(401, "This page requires a user name and a password.")
            .with("WWW-Authenticate", &self.challenge)
            .with("Cache-Control", "no-store")
    }
}

/// The relative cost of a hash, for comparison: passes and memory of argon2id, the exponent of bcrypt.
fn cost(hash: &str) -> u64 {
    let number = |text: &str| {
        text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0_u64)
    };
    if hash.starts_with(APR1) {
        return 1;
    }
    let after = |name: &str| hash.split(name).nth(1).map_or(0, number);
    match hash.strip_prefix("$argon2") {
        // 64 MiB in one pass cost about as much as bcrypt with the exponent 10.
        Some(_) => after("m=").saturating_mul(after("t=").max(1)),
        None => 64 << hash.split('$').nth(2).map_or(0, number).min(40),
    }
}

/// The user and password of a request (RFC 7617 §2). Two fields are none.
fn credentials(fields: &[Field<'_>]) -> Option<(String, Vec<u8>)> {
    let mut values = field::all(fields, "authorization");
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = STANDARD.decode(rest.trim_ascii()).ok()?;
    let at = text.iter().position(|it| *it == b':')?;
    Some((String::from_utf8(text[..at].to_vec()).ok()?, text[at + 1..].to_vec()))
}

fn listed(users: &[PasswordEntry]) -> PasswordUsers {
    users.iter().map(|it| (it.user.clone(), Arc::from(it.hash.as_str()))).collect()
}

fn read_users(path: &Path) -> Result<Vec<PasswordEntry>, String> {
    let text = read_text(path, LARGEST_PASSWORD_FILE)?;
    let users =
        PasswordEntry::parse_file(&text).map_err(|it| format!("line {}: {}", it.line, it.sentence))?;
    // As at a start: a full disk, or an editor that truncates before it writes, must not shut all users out.
    if users.is_empty() { Err("it has no users".to_owned()) } else { Ok(users) }
}

#[cfg(test)]
mod tests {
    use super::super::verification::identity;
    use super::*;

    #[test]
    fn identities_are_unlike_one_another_and_end_no_part_of_a_key() {
        assert_eq!("basic:a%2c%20b", &*identity("basic", b"a, b"));
        assert_eq!("basic:a%2cb", &*identity("basic", b"a,b"));
        assert_eq!("basic:%c3%a9@h", &*identity("basic", "\u{e9}@h".as_bytes()));
    }

    #[test]
    fn credentials_of_a_request() {
        let of = |values: &[&'static str]| {
            let fields: Vec<_> =
                values.iter().map(|it| Field { name: "Authorization", value: it.as_bytes() }).collect();
            credentials(&fields).map(|it| (it.0, String::from_utf8(it.1).unwrap()))
        };
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(pair("Aladdin", "open sesame"), of(&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]));
        assert_eq!(pair("a", "b:c"), of(&["bAsIc  YTpiOmM="]));
        for wrong in [
            &["Basic"][..],
            &["Basic !"],
            &["Bearer YTpi"],
            &["Basic YQ=="],
            &["Basic YTpi", "Basic YTpi"],
            &[],
        ] {
            assert_eq!(None, of(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn hashes_are_ordered_by_cost() {
        let cheap = "$2b$04$x";
        let dear = "$2y$11$x";
        let argon = "$argon2id$v=19$m=65536,t=3,p=1$x$y";
        assert!(
            cost(cheap) < cost("$2b$10$x") && cost("$2b$10$x") < cost(dear) && cost(dear) < cost("$2b$12$x")
        );
        assert!(cost(cheap) < cost(argon) && cost("$2b$10$x") < cost(argon));
    }

    #[test]
    fn the_hash_for_unknown_users_takes_the_usual_time() {
        assert!(bcrypt::verify("x", DUMMY).is_ok());
    }
}
