//! The files of automatic certificates: accounts, keys, certificates, and the state of each name. Each file is replaced as a whole, so that a
//! kill at any moment leaves the old one or the new one.
//!
//! ```text
//! FOLDER/lock                          held by the process that requests certificates
//! FOLDER/node                          a random number, by which the other nodes of a fleet know this one
//! FOLDER/accounts/HOST-HASH.json       the account at a CA, with its key
//! FOLDER/names/NAME/certificate.pem    the certificate with its chain and its key: one file, so that the two always fit
//! FOLDER/names/NAME/state.json         the order in progress, the way of validation, and the pause after failures
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_semantics::certificate_renewal::{self, AttemptPause};
use larder_stdx::error::plain;
use larder_transport::tls::certificates::Certificate;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The most bytes of a file.
const LONGEST: u64 = 1 << 20;

/// The folder of automatic certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeFolder(PathBuf);

/// The right to request certificates for a folder, for as long as this exists.
pub struct FolderLock(#[allow(dead_code, reason = "the lock ends with its file")] File);

/// An account at a CA.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredAccount {
    /// The directory of the CA.
    pub directory: String,
    /// Its key: PKCS#8, base64url.
    pub key: String,
    /// Its URL; `None` until the CA has confirmed it.
    pub url: Option<String>,
    /// The confirmed contact.
    #[serde(default)]
    pub email: Option<String>,
}

/// Consecutive failures, and the pause after the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredPause {
    /// Their number.
    pub failures: u32,
    /// The start of the pause, seconds since the Unix epoch.
    pub paused_from: i64,
    /// Its length, seconds; 0 without one.
    pub pause: u64,
}

impl StoredPause {
    /// Notes another failure; `requested` is the pause that the CA asks for.
    pub fn fail(&mut self, requested: Option<u64>, now: i64) {
        self.failures = self.failures.saturating_add(1);
        (self.paused_from, self.pause) =
            (now, certificate_renewal::pause(self.failures, requested, random()));
    }

    /// The pause. If the clock was set back, it starts now.
    pub fn current(&mut self, now: i64) -> AttemptPause {
        self.paused_from = self.paused_from.min(now);
        AttemptPause { from: self.paused_from, seconds: self.pause }
    }
}

/// A random number, so that names and nodes do not return together.
pub(super) fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness pauses are the shortest ones.
    let _ = SystemRandom::new().fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

/// A random number for a node.
pub(super) fn random_number() -> u64 {
    u64::from(random()) << 32 | u64::from(random())
}

/// The state of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameState {
    /// The pause after failures.
    #[serde(flatten)]
    pub pause: StoredPause,
    /// The last failure, one clause; empty after a success.
    pub error: String,
    /// Attempts that began after the last result: more than one if the process ended during an attempt.
    pub begun: u32,
    /// The order in progress.
    pub order: Option<StoredOrder>,
    /// The type of the challenge to begin with: the last one that the CA validated, or the other one after a failure; empty before.
    pub way: String,
    /// The directory of the CA that issued the certificate.
    pub authority: String,
    /// The last answer of that CA about the renewal.
    pub suggestion: Option<StoredSuggestion>,
}

impl NameState {
    /// The state after a success at the CA with this directory.
    pub fn issued(&self, authority: &str) -> Self {
        Self { authority: authority.to_owned(), way: self.way.clone(), ..Self::default() }
    }
}

/// The renewal that a CA suggests (RFC 9773). Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredSuggestion {
    /// The planned renewal; `None` without a usable suggestion.
    pub renewal: Option<i64>,
    /// The window of the CA, from which that was chosen.
    pub window: Option<(i64, i64)>,
    /// The next question.
    pub ask_at: i64,
}

/// An order in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredOrder {
    /// The directory of its CA.
    pub directory: String,
    /// Its URL.
    pub url: String,
    /// The key of its certificate, PEM; stored before the CA is asked to sign it.
    pub key: Option<String>,
}

impl AcmeFolder {
    /// The folder at `path`, which need not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the folder, and takes its lock; `None` if another process has it.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn lock(&self) -> Result<Option<FolderLock>, String> {
        let path = self.0.join("lock");
        self.make(&self.0)?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(|it| cannot(&path, "written", &it))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FolderLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(cannot(&path, "locked", &error.into())),
        }
    }

    /// The number by which other nodes know the one with this folder. If it cannot be stored, it is another one after a restart, and
    /// orders wait for the end of their leases.
    pub fn node(&self) -> u64 {
        let path = self.0.join("node");
        let stored = read(&path).ok().flatten().and_then(|it| String::from_utf8(it).ok());
        stored.and_then(|it| it.trim().parse().ok()).unwrap_or_else(|| {
            let made = random_number();
            let _ = self.replace(&path, format!("{made}\n").as_bytes());
            made
        })
    }

    /// The key and chain of a name, PEM; `None` without a certificate.
    pub fn pem(&self, name: &str) -> Option<String> {
        read(&self.certificate_path(name)).ok().flatten().and_then(|it| String::from_utf8(it).ok())
    }

    /// The stored certificate of a name; `None` without one.
    ///
    /// # Errors
    /// One sentence: the file is damaged.
    pub fn certificate(&self, name: &str) -> Result<Option<Certificate>, String> {
        let path = self.certificate_path(name);
        let Some(text) = read(&path)? else { return Ok(None) };
        let shown = path.display().to_string();
        let it = Certificate::of_pem(&text, &text, None, &shown, &shown).map_err(|it| it.1)?;
        Ok(Some(it.for_its_names()))
    }

    /// Whether the stored certificate of a name is that of this order: the process ended before it recorded the success.
    pub fn has_certificate_of(&self, name: &str, order: &StoredOrder) -> bool {
        let text = read(&self.certificate_path(name)).ok().flatten().unwrap_or_default();
        order.key.as_ref().is_some_and(|it| text.starts_with(it.as_bytes()))
    }

    /// Stores the certificate of a name: its key and chain, PEM.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn keep_certificate(&self, name: &str, pem: &str) -> Result<(), String> {
        self.replace(&self.certificate_path(name), pem.as_bytes())
    }

    /// The state of a name; a new one if the file is missing or damaged.
    pub fn state(&self, name: &str) -> NameState {
        let text = read(&self.state_path(name)).ok().flatten();
        text.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default()
    }

    /// Stores the state of a name.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn keep_state(&self, name: &str, state: &NameState) -> Result<(), String> {
        self.replace(&self.state_path(name), &json(state))
    }

    /// The failures of a CA.
    pub fn authority_pause(&self, directory: &str) -> StoredPause {
        let text = read(&self.account_path(directory).with_extension("pause.json")).ok().flatten();
        text.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default()
    }

    /// Stores the failures of a CA.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn keep_authority_pause(&self, directory: &str, pause: &StoredPause) -> Result<(), String> {
        self.replace(&self.account_path(directory).with_extension("pause.json"), &json(pause))
    }

    /// The account at the CA with this directory; `None` without one.
    ///
    /// # Errors
    /// One sentence: the file is damaged. A new account would lose the rights of the old one.
    pub fn account(&self, directory: &str) -> Result<Option<StoredAccount>, String> {
        let path = self.account_path(directory);
        let Some(text) = read(&path)? else { return Ok(None) };
        let damaged = |it: serde_json::Error| {
            format!("{} is damaged ({it}); restore it, or remove it for a new account.", path.display())
        };
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    /// Stores an account.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn keep_account(&self, account: &StoredAccount) -> Result<(), String> {
        self.replace(&self.account_path(&account.directory), &json(account))
    }

    fn certificate_path(&self, name: &str) -> PathBuf {
        self.0.join("names").join(name).join("certificate.pem")
    }

    fn state_path(&self, name: &str) -> PathBuf {
        self.0.join("names").join(name).join("state.json")
    }

    fn account_path(&self, directory: &str) -> PathBuf {
        let host = directory.split("://").nth(1).and_then(|it| it.split('/').next()).unwrap_or_default();
        let plain = |it: char| if it.is_ascii_alphanumeric() || "-.".contains(it) { it } else { '_' };
        let host: String = host.chars().map(plain).collect();
        let hash = ring::digest::digest(&ring::digest::SHA256, directory.as_bytes());
        let hash = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..9]);
        self.0.join("accounts").join(format!("{host}-{hash}.json"))
    }

    fn make(&self, path: &Path) -> Result<(), String> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|it| cannot(path, "created", &it))
    }

    /// Replaces a file in one step. Only the process with the lock writes, so that one name for temporary files is enough, and a kill
    /// leaves at most one.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let folder = path.parent().unwrap_or(&self.0);
        self.make(folder)?;
        let next = path.with_extension("next");
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&next)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&next, path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|it| cannot(path, "written", &it))
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match std::fs::metadata(path) {
        Ok(about) if about.len() > LONGEST => Err(format!("{} is larger than 1 MiB.", path.display())),
        Ok(_) => std::fs::read(path).map(Some).map_err(|it| cannot(path, "read", &it)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot(path, "read", &error)),
    }
}

fn json(it: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(it).unwrap_or_default();
    text.push(b'\n');
    text
}

fn cannot(path: &Path, what: &str, error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => {
            "; the user of the larder process must own the folder of tls.acme.folder"
        }
        _ => "",
    };
    format!("{} cannot be {what}: {}{remedy}.", path.display(), plain(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn folder() -> (tempfile::TempDir, AcmeFolder) {
        let here = tempfile::tempdir().unwrap();
        let folder = AcmeFolder::new(here.path().join("a/acme"));
        (here, folder)
    }

    #[test]
    fn only_its_user_can_read_the_files() {
        let (_here, it) = folder();
        let _lock = it.lock().unwrap().unwrap();
        let account =
            StoredAccount { directory: "https://ca.test/d".into(), key: "k".into(), url: None, email: None };
        it.keep_account(&account).unwrap();
        it.keep_certificate("a.test", "pem").unwrap();
        it.keep_state("a.test", &NameState::default()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in
            [it.account_path("https://ca.test/d"), it.certificate_path("a.test"), it.state_path("a.test")]
        {
            assert_eq!(0o600, mode(&path), "{}", path.display());
            assert_eq!(0o700, mode(path.parent().unwrap()), "{}", path.display());
        }
    }

    #[test]
    fn one_process_has_the_lock() {
        let (_here, it) = folder();
        let first = it.lock().unwrap().unwrap();
        assert!(it.lock().unwrap().is_none());
        drop(first);
        assert!(it.lock().unwrap().is_some());
    }

    #[test]
    fn files_left_by_a_kill_are_read_or_replaced() {
        let (_here, it) = folder();
        let pause = StoredPause { failures: 3, ..StoredPause::default() };
        let state = NameState { pause, error: "why".into(), ..NameState::default() };
        assert_eq!(NameState::default(), it.state("a.test"));
        it.keep_state("a.test", &state).unwrap();
        std::fs::write(it.state_path("a.test").with_extension("next"), "{ \"fail").unwrap();
        assert_eq!(state, it.state("a.test"), "the temporary file does not count");
        it.keep_state("a.test", &NameState::default()).unwrap();
        assert_eq!(NameState::default(), it.state("a.test"));
        std::fs::write(it.state_path("a.test"), "{ \"fail").unwrap();
        assert_eq!(NameState::default(), it.state("a.test"), "damaged: a new one");
    }

    #[test]
    fn a_pause_starts_again_if_the_clock_was_set_back() {
        let mut it = StoredPause::default();
        it.fail(None, 1_000_000);
        let length = i64::try_from(it.pause).unwrap();
        assert!((60..=72).contains(&length));
        assert_eq!(1_000_000 + length, it.current(1_000_010).end());
        assert_eq!(5000 + length, it.current(5000).end());
        assert_eq!(5000 + length, it.current(5020).end(), "it ends");
    }

    #[test]
    fn damage_to_an_account_or_a_certificate_is_named() {
        let (_here, it) = folder();
        let account = StoredAccount {
            directory: "https://ca.test:1/d".into(),
            key: "k".into(),
            url: None,
            email: None,
        };
        it.keep_account(&account).unwrap();
        assert!(it.account("https://ca.test:2/d").unwrap().is_none(), "another CA");
        std::fs::write(it.account_path("https://ca.test:1/d"), "{").unwrap();
        let why = it.account("https://ca.test:1/d").unwrap_err();
        assert!(why.contains("is damaged") && why.ends_with("remove it for a new account."), "{why}");
        assert!(it.certificate("a.test").unwrap().is_none());
        it.keep_certificate("a.test", "pem").unwrap();
        assert!(it.certificate("a.test").unwrap_err().contains("certificate.pem contains no certificate"));
    }
}
