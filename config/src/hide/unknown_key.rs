//! The keys of secrets by their paths, the names of fields and variables that say it of their value, and whether the value of a key
//! that the table lacks may be a secret: by its name, by its place, and by the key that was meant.

use super::SCHEMES;
use crate::key_path::dotted;
use crate::kind::{BLOCK, ValueKind};
use crate::{foreign, table};
use larder_semantics::secret::{
    has_random_part, is_secret_parameter, is_shared_secret, names_secret, shown_target,
};
use larder_stdx::nearest::nearest;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Whether a value may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// Its key has none.
    Shown,
    /// Its key is for secrets.
    Secret {
        /// Whether it may have variables of requests.
        is_template: bool,
        /// Whether a user and a colon precede it.
        has_user: bool,
    },
    /// A field, parameter or variable of a table that may have secrets, whose name says of none: its value decides.
    Ordinary,
    /// It is a condition, which may compare a field with a secret.
    Condition,
    /// A text whose key is not known and resembles none for secrets; it may be a condition.
    Unsuspected,
    /// Its key is not known, and may be a misspelt one for secrets.
    Unknown,
}

/// Words of a name that say that a value is a secret, besides those of [`names_secret`].
const SECRET_WORDS: &str = "pw pin basic sk pat";
/// Parts of such a name, within a word too.
const SECRET_PARTS: &str = "pass pwd key cred auth bearer hmac salt priv dsn sign cookie";
/// The same of the name of a field or a variable, which an operator chooses.
const OWN_WORDS: &str = "otp seed code nonce sid sig";
const OWN_PARTS: &str = "crypt webhook licen verif";
/// Words for secrets that are often misspelt, besides the keys of larder.
const MISSPELT: [&str; 7] =
    ["password", "passphrase", "secret", "token", "credential", "bearer", "authorization"];
/// The different unknown keys of a text that are judged, and the names of a path; the values of all further ones are hidden.
const MOST_KEYS: usize = 100;
const MOST_NAMES: usize = 12;
/// Sections with keys of every kind: secrets further below say nothing about a key in them.
const WIDE: [&str; 3] = ["", "site", "site.route"];

/// The table of keys by paths without numbers.
struct KeyPaths {
    keys: HashMap<String, Secrecy>,
    /// Those of secrets that are tables of fields or variables.
    tables: HashSet<String>,
    /// The names in each section.
    names: HashMap<String, Vec<String>>,
    /// The sections with a secret in them or further below.
    secret_sections: HashSet<String>,
    /// The last names of the keys of secrets.
    secret_names: Vec<String>,
}

impl KeyPaths {
    fn get() -> &'static Self {
        static PATHS: OnceLock<KeyPaths> = OnceLock::new();
        PATHS.get_or_init(|| {
            let mut paths = Self {
                keys: HashMap::new(),
                tables: HashSet::new(),
                names: HashMap::from([(String::new(), vec![BLOCK.to_owned()])]),
                secret_sections: HashSet::new(),
                secret_names: Vec::new(),
            };
            table::patterns().for_each(|it| paths.add(&it));
            paths
        })
    }

    fn add(&mut self, pattern: &str) {
        let Some(key) = table::find(pattern) else { return };
        let (path, kind) = (dotted(pattern), key.kind);
        let has_user = pattern.ends_with("basic.users");
        let secrecy = match kind {
            ValueKind::One(form) if form.is_condition() => Secrecy::Condition,
            _ if kind.is_secret() => Secrecy::Secret { is_template: kind.is_template(), has_user },
            _ => Secrecy::Shown,
        };
        let mut rest = path.as_str();
        loop {
            let (section, name) = rest.rsplit_once('.').unwrap_or(("", rest));
            let names = self.names.entry(section.to_owned()).or_default();
            if !names.iter().any(|it| it == name) {
                names.push(name.to_owned());
            }
            if kind.is_secret() {
                self.secret_sections.insert(section.to_owned());
                self.secret_names.extend((rest == path).then(|| name.to_owned()));
            }
            if section.is_empty() {
                break;
            }
            rest = section;
        }
        // A parameter that every request gets is mostly a key of the application, under any name.
        if kind.is_secret() && matches!(kind, ValueKind::Pairs { .. }) && !path.ends_with("query.set") {
            self.tables.insert(path.clone());
        }
        self.keys.insert(path, secrecy);
    }

    /// The secrecy of the key with which a path begins, and the length of the key. Of a field or a variable in a table, the name
    /// decides.
    fn known(&self, path: &str) -> Option<(Secrecy, usize)> {
        let ends = path.match_indices('.').map(|it| it.0).chain([path.len()]);
        let (secrecy, end) = ends.filter_map(|end| Some((*self.keys.get(&path[..end])?, end))).next_back()?;
        let own = path[end..].strip_prefix('.').filter(|_| self.tables.contains(&path[..end]));
        let is_ordinary = own.is_some_and(|it| !may_name_own_secret(it));
        Some((if is_ordinary { Secrecy::Ordinary } else { secrecy }, end))
    }

    /// Whether a key or section is one of secrets.
    fn leads_to_secret(&self, path: &str) -> bool {
        matches!(self.keys.get(path), Some(Secrecy::Secret { .. })) || self.secret_sections.contains(path)
    }

    /// Whether a name may be that of a secret, also a misspelt one or a directive of another server.
    fn may_name_secret(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        let is_near =
            |it: &str| nearest(it, self.secret_names.iter().map(String::as_str).chain(MISSPELT)).is_some();
        let is_secret_word = |it: &str| SECRET_WORDS.split(' ').any(|word| it == word) || is_near(it);
        names_secret(name)
            || SECRET_PARTS.split(' ').any(|it| lower.contains(it))
            || is_near(&lower)
            || lower.split(|it: char| !it.is_ascii_alphanumeric()).any(is_secret_word)
            || foreign::keys_of(name).any(|it| self.leads_to_secret(&dotted(it)))
    }

    /// Whether the value of an unknown key is shown: if no unknown name may be that of a secret, and either each name resembles one of a
    /// key that is shown and no name of secrets, or no secret is in its section.
    fn shows(&self, path: &[String]) -> bool {
        let mut path = of_route(path);
        // Each turn corrects one name.
        for _ in 0..=path.len() {
            let joined = path.join(".");
            if let Some((secrecy, length)) = self.known(&joined) {
                let is_shown = matches!(secrecy, Secrecy::Shown | Secrecy::Condition);
                return is_shown && !joined[length..].split('.').any(|it| self.may_name_secret(it));
            }
            let is_section = |it: &usize| self.names.contains_key(&path[..*it].join("."));
            let at = (0..=path.len()).rev().find(is_section).unwrap_or(0);
            let section = path[..at].join(".");
            let has_secrets = self.secret_sections.contains(&section);
            let Some(name) = path.get(at) else { return !has_secrets };
            let is_last = at + 1 == path.len();
            let place = |it: &str| if at == 0 { it.to_owned() } else { format!("{section}.{it}") };
            let names = || self.names[&section].iter().map(String::as_str);
            let Some(near) = nearest(name, names()) else {
                let is_free = WIDE.contains(&&*section) || !has_secrets;
                return is_last && is_free && !self.may_name_secret(name);
            };
            // The names below a section are judged by its keys.
            let is_judged = is_last || !self.names.contains_key(&place(near));
            let mut close = names().filter(|it| nearest(name, std::iter::once(*it)).is_some());
            let is_unclear =
                !self.leads_to_secret(&place(near)) && close.any(|it| self.leads_to_secret(&place(it)));
            if is_unclear || is_judged && path[at..].iter().any(|it| self.may_name_secret(it)) {
                return false;
            }
            path[at] = near.to_owned();
            path = of_route(&path);
        }
        false
    }
}

/// The unknown keys of a text, and whether the value of each is shown.
#[derive(Default)]
pub(super) struct JudgedKeys(HashMap<String, bool>);

impl JudgedKeys {
    pub(super) fn shows(&mut self, path: &[String]) -> bool {
        if path.len() > MOST_NAMES {
            return false;
        }
        let joined = path.join("\n");
        match self.0.get(&joined) {
            Some(it) => *it,
            None if self.0.len() >= MOST_KEYS => false,
            None => *self.0.entry(joined).or_insert(KeyPaths::get().shows(path)),
        }
    }
}

/// The path of a route for that of a block, whose keys are the same.
fn of_route(path: &[String]) -> Vec<String> {
    match path {
        [first, _, rest @ ..] if first == BLOCK => {
            ["site", "route"].map(str::to_owned).into_iter().chain(rest.iter().cloned()).collect()
        }
        path => path.to_vec(),
    }
}

/// The secrecy of the value at a path without numbers; `None` if the table lacks the key.
pub(super) fn known(path: &[String]) -> Option<Secrecy> {
    let path = match path {
        [first, _, rest @ ..] if first == BLOCK => format!("site.route.{}", rest.join(".")),
        path => path.join("."),
    };
    KeyPaths::get().known(&path).map(|it| it.0)
}

/// Whether the name of a field, of a parameter or of a variable of an application says that its value is a secret, in any spelling: `Authorization`,
/// `X-Origin-Verify`, `DB_PASSWORD`, `dbPw`.
fn may_name_own_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_word = |it: &str| {
        let is = |words: &str| words.split(' ').any(|word| it == word);
        is(SECRET_WORDS) || is(OWN_WORDS) || nearest(it, MISSPELT.into_iter()).is_some()
    };
    let has_part = |parts: &str| parts.split(' ').any(|it| lower.contains(it));
    is_secret_parameter(name)
        || is_shared_secret(name)
        || has_part(SECRET_PARTS)
        || has_part(OWN_PARTS)
        || is_word(&lower)
        || words(name).iter().any(|it| is_word(it))
}

/// The words of a name in lower case; a capital letter after a small one begins a word.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut was_small) = (vec![String::new()], false);
    for it in name.chars() {
        if !it.is_ascii_alphanumeric() || was_small && it.is_ascii_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| it.is_ascii_alphanumeric()) {
            word.push(it.to_ascii_lowercase());
        }
        was_small = it.is_ascii_lowercase();
    }
    words
}

/// Whether the value of an ordinary field or variable is hidden: it may be a secret, has a part in random order, or is a URL with one.
pub(super) fn is_hidden_value(value: &str) -> bool {
    let is_url = |it: &str| it.contains('/') && shown_target(it) != it;
    is_secret_value(value) || has_random_part(value) || value.split_whitespace().any(is_url)
}

/// Whether a value itself may be a secret: a URL with a user, credentials, a PEM block, the hash of a password, or a name of secrets
/// with a value.
pub(super) fn is_secret_value(value: &str) -> bool {
    let lower = value.trim_start().to_ascii_lowercase();
    let names = |mark: char| lower.split(mark).rev().skip(1).any(ends_with_secret);
    lower.contains("://") && lower.contains('@')
        || SCHEMES.iter().any(|it| lower.starts_with(&it.to_ascii_lowercase()))
        || lower.contains("-----begin")
        || ["$2", "$argon", "$5$", "$6$", "$apr"].iter().any(|it| lower.contains(it))
        || names(':')
        || !lower.contains("==") && names('=')
}

/// Whether a text ends with a name of secrets.
fn ends_with_secret(text: &str) -> bool {
    let name = text.trim_end().rsplit(|it: char| !it.is_ascii_alphanumeric() && !"-_".contains(it)).next();
    name.is_some_and(|it| {
        let it = &it[it.len().saturating_sub(64)..];
        names_secret(it)
            || SECRET_PARTS.split(' ').any(|part| it.contains(part))
            || SECRET_WORDS.split(' ').any(|word| it == word)
    })
}
