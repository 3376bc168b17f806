//! Password files of Apache (`htpasswd`): names and password hashes, a line each.

use std::fmt;

/// The most memory that an argon2 hash may demand, KiB.
const MOST_MEMORY: u32 = 1 << 20;

/// The beginning of Apache's own hash, which `htpasswd` makes by default.
pub const APR1: &str = "$apr1$";

/// A user with a password hash in a form that is verified.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordEntry {
    /// The name.
    pub user: String,
    /// The hash as written: `$2b$…`, `$argon2id$…` or `$apr1$…`.
    pub hash: String,
}

impl fmt::Debug for PasswordEntry {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "PasswordEntry({}:***)", self.user)
    }
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordMistake {
    /// Its line; the first is 1.
    pub line: usize,
    /// The mistake and the remedy. It repeats nothing of the hash.
    pub sentence: String,
}

impl PasswordEntry {
    /// The warning about a hash that is accepted, and guessed too quickly if the file becomes known.
    #[must_use]
    pub fn weakness(&self) -> Option<String> {
        let user = &self.user;
        self.hash.starts_with(APR1).then(|| {
            format!(
                "the hash of {user} is MD5 (apr1), which is guessed at millions a second if it becomes known; make a bcrypt hash \
                 with `htpasswd -nB {user}` at the next change of the password"
            )
        })
    }

    /// Parses `name:hash`.
    ///
    /// # Errors
    /// The mistake and the remedy, as one sentence.
    pub fn parse(line: &str) -> Result<Self, String> {
        let Some((user, hash)) = line.split_once(':').filter(|it| !it.0.is_empty()) else {
            return Err("not NAME:HASH; make the line with `htpasswd -nB NAME`".to_owned());
        };
        if user.len() > 255 || user.chars().any(char::is_control) {
            return Err("the name has control characters or more than 255 bytes".to_owned());
        }
        match refused(hash) {
            None => Ok(Self { user: user.to_owned(), hash: hash.to_owned() }),
            Some(why) => {
                Err(format!("the hash of {user} is {why}; make a bcrypt hash with `htpasswd -nB {user}`"))
            }
        }
    }

    /// Parses a file; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, PasswordMistake> {
        let lines = text.lines().enumerate().map(|(at, it)| (at + 1, it.trim()));
        let lines = lines.filter(|it| !it.1.is_empty() && !it.1.starts_with('#'));
        lines
            .map(|(line, it)| Self::parse(it).map_err(|sentence| PasswordMistake { line, sentence }))
            .collect()
    }
}

/// The reason for which a hash is refused.
fn refused(hash: &str) -> Option<&'static str> {
    if let Some(rest) = ["$2a$", "$2b$", "$2y$"].iter().find_map(|it| hash.strip_prefix(it)) {
        return (!is_bcrypt(rest)).then_some("not a whole bcrypt hash of a cost from 4 to 17");
    }
    if let Some(rest) = hash.strip_prefix("$argon2id$") {
        return (!is_argon2(rest))
            .then_some("not an argon2id hash of version 19 with at most 1 GiB of memory and 64 passes");
    }
    if let Some(rest) = hash.strip_prefix(APR1) {
        return (!is_apr1(rest)).then_some("not a whole apr1 hash");
    }
    Some(match hash {
        _ if hash.starts_with("{SHA}") => "SHA-1 without salt, which is guessed at billions a second",
        _ if hash.starts_with("$1$") => "MD5 of crypt, which is guessed at millions a second",
        _ if hash.starts_with("$argon2") => "argon2i or argon2d; only argon2id is accepted",
        _ if hash.starts_with("$5$") || hash.starts_with("$6$") => "SHA-crypt, which is not accepted",
        _ => "a plain password or DES crypt",
    })
}

/// At most 8 characters of salt, and 22 of hash.
fn is_apr1(rest: &str) -> bool {
    let is_plain = |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'/'));
    rest.split_once('$')
        .is_some_and(|(salt, hash)| salt.len() <= 8 && hash.len() == 22 && is_plain(salt) && is_plain(hash))
}

/// `10$` and 53 characters of salt and hash.
fn is_bcrypt(rest: &str) -> bool {
    let Some((cost, hash)) = rest.split_once('$') else { return false };
    let digits = cost.len() == 2 && cost.bytes().all(|it| it.is_ascii_digit());
    let fits = digits && cost.parse().is_ok_and(|it: u32| (4..=17).contains(&it));
    fits && hash.len() == 53 && hash.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'/'))
}

/// `v=19$m=65536,t=3,p=4$salt$hash` (PHC).
fn is_argon2(rest: &str) -> bool {
    let parts: Vec<&str> = rest.split('$').collect();
    let [version, costs, salt, hash] = parts[..] else { return false };
    let mut bounds = [("m=", MOST_MEMORY), ("t=", 64), ("p=", 64)].into_iter();
    let costs = costs.split(',').all(|it| {
        bounds.next().is_some_and(|(name, most)| {
            it.strip_prefix(name)
                .and_then(|it| it.parse().ok())
                .is_some_and(|it: u32| (1..=most).contains(&it))
        })
    });
    let plain = |it: &str, least: usize| {
        (least..=512).contains(&it.len())
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/'))
    };
    version == "v=19" && costs && bounds.next().is_none() && plain(salt, 11) && plain(hash, 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe";

    #[test]
    fn accepted_and_refused_hashes() {
        let argon = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$hZ2nqtyQ1DkbM0J8j6gWmyQ";
        for (hash, weakness) in
            [(BCRYPT, false), (argon, false), ("$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00", true)]
        {
            let entry = PasswordEntry::parse(&format!("a:{hash}")).unwrap();
            assert_eq!(weakness, entry.weakness().is_some(), "{hash}");
        }
        for (hash, why) in [
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "SHA-1"),
            ("$1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00", "MD5"),
            ("$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK0", "whole apr1"),
            ("$apr1$lZL6V/ci9$eIMz/iKDkbtys/uU7LEK00", "whole apr1"),
            ("$apr1$lZL6V/ci", "whole apr1"),
            ("rqXexS6ZhobKA", "DES crypt"),
            ("secret", "plain"),
            ("$2y$05$short", "whole bcrypt"),
            ("$2y$31$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe", "cost"),
            ("$argon2i$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$hZ2nqtyQ1DkbM0J8j6gWmyQ", "only argon2id"),
            ("$argon2id$v=19$m=4294967295,t=3,p=4$c2FsdHNhbHRzYWx0$hZ2nqtyQ1DkbM0J8j6gWmyQ", "1 GiB"),
        ] {
            let report = PasswordEntry::parse(&format!("a:{hash}")).unwrap_err();
            assert!(report.contains(why) && !report.contains(hash), "{report}");
        }
    }

    #[test]
    fn a_file_tells_the_line_of_its_mistake() {
        let text = format!("# users\n\na:{BCRYPT}\r\nb:{BCRYPT}\n");
        let users: Vec<_> = PasswordEntry::parse_file(&text).unwrap().into_iter().map(|it| it.user).collect();
        assert_eq!(["a", "b"], users[..]);
        assert_eq!(4, PasswordEntry::parse_file(&text.replace("b:$2y", "b:plain")).unwrap_err().line);
        assert_eq!(
            "PasswordEntry(a:***)",
            format!("{:?}", PasswordEntry::parse(&format!("a:{BCRYPT}")).unwrap())
        );
    }
}
