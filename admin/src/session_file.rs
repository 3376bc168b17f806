//! The file of the browsers that are logged in, so that a restart ends no session. It has fingerprints of the tokens of sessions, and of the
//! tokens with which they began: no login is possible with what is in it. Sessions themselves are in `access`.

use super::private_file;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The most bytes of the file: 64 sessions take half of them.
const MOST: u64 = 64 << 10;

/// A session in the file. Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSession {
    /// Its number.
    pub number: u64,
    /// The fingerprint of its token.
    pub fingerprint: String,
    /// The fingerprint of the token with which it began.
    pub of: String,
    /// The name of that token.
    pub name: String,
    /// The role of that token.
    pub role: String,
    /// The address of its login.
    pub from: String,
    /// The time of its last use.
    pub used: u64,
    /// The time of its login.
    pub born: u64,
}

/// The sessions in the file at `path`, if it belongs to this user alone. Another one, or a damaged one, has none.
pub fn read(path: &Path) -> Vec<KeptSession> {
    let Some(text) = private_file::read(path, MOST) else { return Vec::new() };
    let Ok(all) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    all["sessions"].as_array().into_iter().flatten().filter_map(session).collect()
}

fn session(it: &Value) -> Option<KeptSession> {
    let text = |name: &str| it[name].as_str().map(str::to_owned);
    Some(KeptSession {
        number: it["number"].as_u64()?,
        fingerprint: text("fingerprint")?,
        of: text("of")?,
        name: text("name")?,
        role: text("role")?,
        from: text("from")?,
        used: it["used"].as_u64()?,
        born: it["born"].as_u64()?,
    })
}

/// Replaces the file as a whole, with the mode 0600.
///
/// # Errors
/// It cannot be written; the present one stays.
pub fn write(path: &Path, all: &[KeptSession]) -> io::Result<()> {
    let row = |it: &KeptSession| {
        json!({
            "number": it.number, "fingerprint": it.fingerprint, "of": it.of, "name": it.name, "role": it.role,
            "from": it.from, "used": it.used, "born": it.born,
        })
    };
    let text = format!("{:#}\n", json!({ "sessions": all.iter().map(row).collect::<Vec<_>>() }));
    private_file::replace(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_session_file_is_written_and_read_only_for_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let text = |it: &str| it.to_owned();
        let one = KeptSession {
            number: 7,
            fingerprint: text("f"),
            of: text("o"),
            name: text("n"),
            role: text("viewer"),
            from: text("127.0.0.1"),
            used: 20,
            born: 10,
        };
        write(&path, std::slice::from_ref(&one)).unwrap();
        assert_eq!(vec![one.clone()], read(&path));
        assert_eq!(0o600, std::fs::metadata(&path).unwrap().permissions().mode() & 0o777);
        write(&path, &[]).unwrap();
        assert!(read(&path).is_empty());
        write(&path, std::slice::from_ref(&one)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path).is_empty(), "others may have written it");
        for damaged in
            ["", "{", "[]", "{\"of\":\"a\"}", "{\"sessions\":[{\"number\":-1},{\"number\":1,\"of\":2}]}"]
        {
            std::fs::write(&path, damaged).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            assert!(read(&path).is_empty(), "{damaged}");
        }
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read(&path).is_empty() && read(&folder.path().join("none")).is_empty());
        assert!(write(&folder.path().join("none/at/all"), &[]).is_err());
    }

    /// 64 sessions with the longest names and addresses fit.
    #[test]
    fn all_sessions_fit_into_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let long = KeptSession {
            number: u64::MAX,
            fingerprint: "f".repeat(43),
            of: "f".repeat(43),
            name: "n".repeat(64),
            role: "operator".to_owned(),
            from: "f".repeat(45),
            used: u64::MAX,
            born: u64::MAX,
        };
        write(&path, &vec![long; 64]).unwrap();
        assert_eq!(64, read(&path).len());
    }
}
