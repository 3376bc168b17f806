//! The admin's token: its file, its permissions, and its generation. Its use is in `admin::access` and in the commands.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_stdx::error::plain;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq as _;
use xxhash_rust::xxh3::xxh3_64;

/// The environment variable with the token itself; it overrides every file.
pub const VARIABLE: &str = "LARDER_ADMIN_TOKEN";

/// Bytes of randomness in a generated token.
const RANDOM: usize = 32;
/// The fewest characters of a chosen token: 32 cannot be guessed.
const LEAST: usize = 32;
/// The most characters of a token.
const MOST: usize = 512;

/// A bearer secret. Not printed by `Debug`, and only compared in constant time.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// `BYTES` bytes of the system's randomness, as base64url.
    ///
    /// # Errors
    /// The system provides none.
    pub fn random<const BYTES: usize>() -> std::io::Result<Self> {
        let mut bytes = [0; BYTES];
        let mut filled = 0;
        while filled < BYTES {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Parses a configured token; white space around it is not part of it.
    ///
    /// # Errors
    /// The error: too short to be safe, too long, or not a token of RFC 6750 (section 2.1).
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let fits = |it: u8| it.is_ascii_alphanumeric() || b"-._~+/=".contains(&it);
        match text.len() {
            LEAST..=MOST if text.bytes().all(fits) => Ok(Self(text.to_owned())),
            LEAST..=MOST => Err("a token may contain only letters, digits and -._~+/=".to_owned()),
            length => Err(format!("a token must have {LEAST} to {MOST} characters; this one has {length}")),
        }
    }

    /// Whether `shown` is this token. The time it takes reveals its length at most.
    #[must_use]
    pub fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }

    /// The text, for output.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// A hash by which it is recognised, and which does not reveal it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.0)
    }
}

/// The fingerprint of the token with this text.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
}

/// Whether two fingerprints are the same, in constant time.
#[must_use]
pub fn is_same_fingerprint(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// The source of a server's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    /// [`VARIABLE`].
    Variable,
    /// This file.
    File(PathBuf),
    /// Not stored, for this reason: the token is valid for this run only, and must be printed.
    Nowhere(String),
}

/// The token of a server, whose configuration has `file` or none; generated at the first start.
///
/// # Errors
/// One sentence: the variable's value is invalid, the configured file cannot be used, or a file exists that
/// other users may read or own.
pub fn of_server(file: Option<&Path>) -> Result<(Token, TokenPlace), String> {
    if let Some(text) = std::env::var_os(VARIABLE).filter(|it| !it.is_empty()) {
        let token = Token::read(&text.to_string_lossy()).map_err(|it| format!("{VARIABLE}: {it}."))?;
        return Ok((token, TokenPlace::Variable));
    }
    let place = match file {
        Some(it) => it.to_owned(),
        None => match default_place(|it| std::env::var_os(it), rustix::process::geteuid().is_root()) {
            Some(it) => it,
            None => {
                return Ok((
                    fresh()?,
                    TokenPlace::Nowhere("neither HOME nor XDG_STATE_HOME is set".to_owned()),
                ));
            }
        },
    };
    match keep(&place) {
        Ok(token) => Ok((token, TokenPlace::File(place))),
        Err(NotKept::Refused(sentence)) => Err(sentence),
        Err(NotKept::Impossible(why)) if file.is_none() => Ok((fresh()?, TokenPlace::Nowhere(why))),
        Err(NotKept::Impossible(why)) => Err(format!(
            "admin.token_file: {why}; set it to a file that larder can write, or set {VARIABLE}."
        )),
    }
}

/// The text of the variable; empty is not set.
fn given() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|it| !it.is_empty())
}

/// Whether the operator has set [`VARIABLE`], so that no file is read.
#[must_use]
pub fn is_given() -> bool {
    given().is_some()
}

/// The token of a client: from the variable, otherwise from the configured file, or the default place. For root the file may belong to
/// any user, or, if `owner` is given, to that user alone, so that a run file cannot name a file of root.
///
/// # Errors
/// One sentence: there is none, or it cannot be read.
pub fn of_client(file: Option<&Path>, owner: Option<u32>) -> Result<Token, String> {
    if let Some(text) = given() {
        return Token::read(&text.to_string_lossy()).map_err(|it| format!("{VARIABLE}: {it}."));
    }
    let root = rustix::process::geteuid().is_root();
    let place = match file {
        Some(it) => Some(it.to_owned()),
        None => default_place(|it| std::env::var_os(it), root),
    };
    let place = place.ok_or_else(|| format!("Neither HOME nor {VARIABLE} is set."))?;
    // Root may read everything: a service with a user of its own has its own file.
    match look(&place, if root { owner } else { Some(this_user()) }) {
        Ok(Some(token)) => Ok(token),
        Ok(None) => Err(format!("{} does not exist.", place.display())),
        Err(NotKept::Refused(sentence)) => Err(sentence),
        Err(NotKept::Impossible(why)) => Err(format!("{why}.")),
    }
}

/// The admin's own token as far as it can be read without being made, for comparisons.
#[must_use]
pub fn present(file: Option<&Path>) -> Option<Token> {
    if let Some(text) = given() {
        return Token::read(&text.to_string_lossy()).ok();
    }
    let default = || default_place(|it| std::env::var_os(it), rustix::process::geteuid().is_root());
    look(&file.map(Path::to_owned).or_else(default)?, Some(this_user())).ok().flatten()
}

/// The default file of the token: below the directory of systemd or XDG; root's is below /var/lib. Relative directories
/// are ignored, as XDG requires.
fn default_place(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Option<PathBuf> {
    state_folder(variable, root).map(|it| it.join("admin-token"))
}

/// The default place of a file or folder that outlives a restart, next to that of the token.
#[must_use]
pub fn state_place(name: &str) -> Option<PathBuf> {
    state_folder(|it| std::env::var_os(it), rustix::process::geteuid().is_root()).map(|it| it.join(name))
}

/// The default place of a file of this `kind` for one configuration, next to that of the token: several larders of one user have several
/// configurations.
///
/// # Errors
/// Why there is none.
pub fn state_place_of(kind: &str, configuration: Option<&Path>) -> Result<PathBuf, &'static str> {
    let path = configuration.ok_or("larder was started without a configuration file")?;
    let path = path.canonicalize().or_else(|_| std::path::absolute(path));
    let path = path.map_err(|_| "the path of the configuration file is unknown")?;
    let name = xxh3_64(path.as_os_str().as_encoded_bytes()) >> 32;
    state_place(&format!("{kind}-{name:08x}")).ok_or("neither HOME nor XDG_STATE_HOME is set")
}

fn state_folder(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|it| it.is_absolute());
    folder("STATE_DIRECTORY")
        .or_else(|| folder("XDG_STATE_HOME").map(|it| it.join("larder")))
        .or_else(|| root.then(|| PathBuf::from("/var/lib/larder")))
        .or_else(|| folder("HOME").map(|it| it.join(".local/state/larder")))
}

fn fresh() -> Result<Token, String> {
    Token::random::<RANDOM>().map_err(|it| format!("The system provides no random bytes: {}.", plain(&it)))
}

/// The reason why there is no token in a file.
#[derive(Debug, PartialEq, Eq)]
enum NotKept {
    /// An existing file must not be used: a sentence.
    Refused(String),
    /// Reading or writing is not possible there, for this reason.
    Impossible(String),
}

/// The accepted owner of a token's file: this user, or any.
type TokenOwner = Option<u32>;

/// The user of this process.
fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The token of a file; generated there if there is none. Of several concurrent writers, the first one's is used by all.
fn keep(place: &Path) -> Result<Token, NotKept> {
    if let Some(token) = look(place, Some(this_user()))? {
        return Ok(token);
    }
    let cannot = |error: &std::io::Error| {
        NotKept::Impossible(format!("{} cannot be written: {}", place.display(), plain(error)))
    };
    let token = fresh().map_err(NotKept::Impossible)?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    {
        use std::os::unix::fs::DirBuilderExt as _;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|it| cannot(&it))?;
    }
    let name = format!(".admin-token.{}", Token::random::<9>().map_err(|it| cannot(&it))?.text());
    let draft = folder.join(name);
    let written = write(&draft, &token).and_then(|()| std::fs::hard_link(&draft, place));
    let _ = std::fs::remove_file(&draft);
    match written {
        Ok(()) => Ok(token),
        // Another larder was faster: a link, unlike a rename, replaces no token.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match look(place, Some(this_user()))? {
            Some(token) => Ok(token),
            None => Err(cannot(&error)),
        },
        Err(error) => Err(cannot(&error)),
    }
}

fn write(draft: &Path, token: &Token) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(draft, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(format!("{}\n", token.text()).as_bytes())?;
    file.sync_all()
}

/// The token of a file; `None` without a file.
fn look(place: &Path, owner: TokenOwner) -> Result<Option<Token>, NotKept> {
    let shown = place.display();
    let cannot =
        |error: std::io::Error| NotKept::Impossible(format!("{shown} cannot be read: {}", plain(&error)));
    // Not blocking: it may be a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(place, flags, Mode::empty()) {
        Ok(it) => File::from(it),
        // An existing file is used or rejected: a token of this run only is for places without a file.
        Err(error) => {
            let there = place.symlink_metadata().ok();
            return match (error, there.is_some()) {
                (rustix::io::Errno::NOENT, _) if there.is_some_and(|it| it.is_symlink()) => {
                    Err(NotKept::Refused(format!(
                        "The admin token file {shown} is a dangling symbolic link; remove it, or create its target."
                    )))
                }
                // If it exists now, another larder has just created it: a concurrent creation will find it.
                (rustix::io::Errno::NOENT, _) => Ok(None),
                (error, true) => Err(NotKept::Refused(format!(
                    "The admin token file {shown} cannot be read: {}; give it to the user of larder (chown), or remove \
                     it.",
                    plain(&error.into())
                ))),
                (error, false) => Err(cannot(error.into())),
            };
        }
    };
    // Of the open file: the examined file is the one that is read.
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(NotKept::Refused(format!("The admin token file {shown} is not a regular file.")));
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o777;
        return Err(NotKept::Refused(format!(
            "The admin token file {shown} is accessible to other users (mode {mode:04o}); restrict it: chmod 600 \
             {shown}"
        )));
    }
    if let Some(owner) = owner.filter(|it| *it != about.uid()) {
        return Err(NotKept::Refused(format!(
            "The admin token file {shown} belongs to user {}, but larder runs as user {owner}; remove it, or set \
             admin.token_file to another file.",
            about.uid()
        )));
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST).unwrap_or(u64::MAX) + 16;
    let bad =
        |it| NotKept::Refused(format!("The admin token file {shown} contains no token: {it}; remove it."));
    file.take(most).read_to_end(&mut bytes).map_err(|it| bad(plain(&it)))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("it is not text".to_owned()))?;
    Token::read(&text).map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[track_caller]
    fn check_place(variables: &[(&str, &str)], root: bool, expect: Option<&str>) {
        let variable = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| OsString::from(it.1));
        assert_eq!(expect.map(PathBuf::from), default_place(variable, root));
    }

    #[test]
    fn the_place_is_that_of_the_user_or_the_service() {
        check_place(&[("HOME", "/home/a")], false, Some("/home/a/.local/state/larder/admin-token"));
        let both = [("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")];
        check_place(&both, false, Some("/s/larder/admin-token"));
        check_place(&both, true, Some("/s/larder/admin-token"));
        check_place(&[("HOME", "/root")], true, Some("/var/lib/larder/admin-token"));
        let service = [("STATE_DIRECTORY", "/var/lib/larder"), ("HOME", "/")];
        check_place(&service, false, Some("/var/lib/larder/admin-token"));
        check_place(
            &[("XDG_STATE_HOME", "s"), ("HOME", "/h")],
            false,
            Some("/h/.local/state/larder/admin-token"),
        );
        check_place(&[], false, None);
        check_place(&[("HOME", "h")], false, None);
    }

    #[test]
    fn a_token_is_made_once_and_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/b/admin-token");
        let token = keep(&place).unwrap();
        assert_eq!(43, token.text().len());
        assert_eq!(0o600, place.metadata().unwrap().permissions().mode() & 0o777);
        assert_eq!(0o700, place.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777);
        assert!(keep(&place).unwrap().is(token.text()));
        let left: Vec<_> = std::fs::read_dir(place.parent().unwrap()).unwrap().collect();
        assert_eq!(1, left.len(), "{left:?}");
    }

    #[test]
    fn processes_that_start_at_the_same_time_share_one_token() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("admin-token");
        let tokens: Vec<Token> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| keep(&place).unwrap())).collect();
            all.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|it| it.is(tokens[0].text())));
    }

    #[test]
    fn a_token_file_that_other_users_may_read_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("admin-token");
        keep(&place).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o644] {
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
            let Err(NotKept::Refused(sentence)) = keep(&place) else { panic!("{mode:o}") };
            assert!(sentence.contains(&format!("mode {mode:04o}")), "{sentence}");
        }
    }

    #[test]
    fn a_token_file_without_a_token_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("admin-token");
        keep(&place).unwrap();
        for text in ["", "short", &"x".repeat(600), &"ü".repeat(40), "two words that are long enough for one"]
        {
            std::fs::write(&place, text).unwrap();
            let Err(NotKept::Refused(sentence)) = keep(&place) else { panic!("{text:?}") };
            assert!(sentence.contains("contains no token"), "{sentence}");
        }
        for bytes in [&b"\xff"[..], &[0xC3; 40], &[0; 40]] {
            std::fs::write(&place, bytes).unwrap();
            let Err(NotKept::Refused(sentence)) = keep(&place) else { panic!("{bytes:?}") };
            assert!(sentence.contains("contains no token"), "{sentence}");
        }
        std::fs::write(&place, format!("  {}\n", "k".repeat(32))).unwrap();
        assert!(keep(&place).unwrap().is(&"k".repeat(32)));
        assert!(matches!(keep(&folder.path().join("admin-token/x")), Err(NotKept::Impossible(_))));
        assert!(matches!(look(folder.path(), Some(this_user())), Err(NotKept::Refused(_))));
    }

    #[test]
    fn a_token_file_that_cannot_be_read_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let link = |to: &str, name: &str| {
            let place = folder.path().join(name);
            std::os::unix::fs::symlink(folder.path().join(to), &place).unwrap();
            place
        };
        let check = |place: &Path, expect: &str| {
            for found in [keep(place).err(), look(place, None).err()] {
                let Some(NotKept::Refused(sentence)) = found else { panic!("{place:?}: {found:?}") };
                assert!(sentence.contains(expect), "{sentence}");
            }
            assert!(place.symlink_metadata().is_ok(), "nothing was changed");
        };
        check(&link("nothing", "dangling"), "is a dangling symbolic link");
        check(&link("round", "round"), "cannot be read");
        // A link to a token is as good as the token.
        keep(&folder.path().join("token")).unwrap();
        assert!(keep(&link("token", "link")).is_ok());
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::random::<32>().unwrap();
        let text = token.text();
        assert!(token.is(text));
        for other in ["", &text[1..], &text[..42], &format!("{text}x"), &text.to_lowercase()] {
            assert!(!token.is(other));
        }
        assert!(!Token::random::<32>().unwrap().is(text));
        assert_eq!("Token(…)", format!("{token:?}"));
    }
}
