//! The file of the browsers that are logged in, so that a restart ends no session. It has fingerprints of the tokens of sessions and of the
//! admin's token: no login is possible with what is in it. Sessions themselves are in `access`.

use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The most bytes of the file: 64 sessions take a fifth of them.
const MOST: u64 = 64 << 10;

/// A session in the file. Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSession {
    /// Its number.
    pub number: u64,
    /// The fingerprint of its token.
    pub fingerprint: String,
    /// The time of its last use.
    pub used: u64,
    /// The time of its login.
    pub born: u64,
}

/// The sessions in the file at `path`, if it belongs to this user alone and to the admin's token with the fingerprint `of`. Another one, or
/// a damaged one, has none.
pub fn read(path: &Path, of: &str) -> Vec<KeptSession> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) else { return Vec::new() };
    let is_ours = file.metadata().is_ok_and(|it| {
        it.is_file() && it.uid() == rustix::process::geteuid().as_raw() && it.mode() & 0o077 == 0
    });
    let mut text = String::new();
    if !is_ours || file.take(MOST).read_to_string(&mut text).is_err() {
        return Vec::new();
    }
    let Ok(all) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let sessions = all["sessions"].as_array().filter(|_| all["of"] == of);
    sessions.into_iter().flatten().filter_map(session).collect()
}

fn session(it: &Value) -> Option<KeptSession> {
    Some(KeptSession {
        number: it["number"].as_u64()?,
        fingerprint: it["fingerprint"].as_str()?.to_owned(),
        used: it["used"].as_u64()?,
        born: it["born"].as_u64()?,
    })
}

/// Replaces the file as a whole, with the mode 0600.
///
/// # Errors
/// It cannot be written; the present one stays.
pub fn write(path: &Path, of: &str, all: &[KeptSession]) -> io::Result<()> {
    let sessions: Vec<Value> = all
        .iter()
        .map(|it| json!({ "number": it.number, "fingerprint": it.fingerprint, "used": it.used, "born": it.born }))
        .collect();
    let text = format!("{:#}\n", json!({ "of": of, "sessions": sessions }));
    let draft = draft_of(path);
    let _ = std::fs::remove_file(&draft);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&draft, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&draft, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&draft)))
}

fn draft_of(path: &Path) -> PathBuf {
    path.with_extension("new")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_was_written_is_read_by_its_user_and_under_its_token_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let one = KeptSession { number: 7, fingerprint: "f".to_owned(), used: 20, born: 10 };
        write(&path, "a", std::slice::from_ref(&one)).unwrap();
        assert_eq!(vec![one.clone()], read(&path, "a"));
        assert!(read(&path, "b").is_empty(), "another token");
        assert_eq!(0o600, std::fs::metadata(&path).unwrap().permissions().mode() & 0o777);
        write(&path, "a", &[]).unwrap();
        assert!(read(&path, "a").is_empty());
        write(&path, "a", std::slice::from_ref(&one)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path, "a").is_empty(), "others may have written it");
        for damaged in ["", "{", "[]", "{\"of\":\"a\"}", "{\"of\":\"a\",\"sessions\":[{\"number\":-1}]}"] {
            std::fs::write(&path, damaged).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            assert!(read(&path, "a").is_empty(), "{damaged}");
        }
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read(&path, "a").is_empty() && read(&folder.path().join("none"), "a").is_empty());
        assert!(write(&folder.path().join("none/at/all"), "a", &[]).is_err());
    }
}
