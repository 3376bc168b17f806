//! The configuration file on disk: read with its hash, replaced as a whole or not at all, and its earlier texts, in a
//! directory next to it. The meaning of a text is not here.

use larder_config::{base_of, read_file};
use larder_stdx::error::plain;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::{getegid, geteuid, getgroups};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Why a new file of this process cannot have the owner and the group of `old`; `None` if it can. A private file would be
/// opened to others, or closed to them, with another group.
fn owner_that_cannot_stay(old: &fs::Metadata) -> Option<String> {
    let user = geteuid();
    if user.is_root() {
        return None;
    }
    let (uid, gid) = (user.as_raw(), getegid().as_raw());
    let is_own =
        |it: u32| it == gid || getgroups().unwrap_or_default().iter().any(|group| group.as_raw() == it);
    (old.uid() != uid || !is_own(old.gid())).then(|| {
        format!("its owner {}:{} cannot be given to a new file by user {uid}:{gid}", old.uid(), old.gid())
    })
}

/// The number of earlier texts that are kept.
pub const PAST: usize = 50;

/// The file of a running larder.
pub struct ConfigFile {
    path: PathBuf,
}

/// The description of an earlier text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its number: larger is later.
    pub id: u64,
    /// The time of its replacement, seconds since the epoch.
    pub time: u64,
    /// The author of the replacement.
    pub by: String,
    /// The change in one line ([`larder_config::summary`]); empty if an older larder kept it.
    pub change: String,
}

/// A change that is about to be made.
pub struct KeptChange<'a> {
    /// Its author.
    pub by: &'a str,
    /// Its time, seconds since the epoch.
    pub time: u64,
    /// The change in one line.
    pub summary: &'a str,
}

/// The file of the package that lets its service write the configuration.
const DROP_IN: &str = "/usr/share/larder/edit-by-page.conf";

/// The sentence about a service that may not write its configuration, where the package is installed.
fn remedy(error: rustix::io::Errno, drop_in: &Path) -> String {
    use rustix::io::Errno;
    let refused = matches!(error, Errno::ROFS | Errno::ACCESS | Errno::PERM);
    match refused && drop_in.exists() {
        true => format!(
            " The service of the package may not write it; {} has the commands that allow it.",
            drop_in.display()
        ),
        false => String::new(),
    }
}

/// A hash for comparing texts; not a secret, and no proof of integrity.
#[must_use]
pub fn hash(text: &str) -> String {
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

impl ConfigFile {
    /// The file at `path`; links are followed.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) }
    }

    /// Its current text.
    ///
    /// # Errors
    /// One sentence.
    pub fn read(&self) -> Result<String, String> {
        read_file(&self.path).map_err(|why| format!("{} cannot be read: {why}.", self.path.display()))
    }

    /// The reason why it cannot be replaced, if any.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
        let folder = self.folder();
        let refused = |path: &Path, it: rustix::io::Errno| {
            let remedy = remedy(it, Path::new(DROP_IN));
            Some(format!("{} cannot be written: {}.{remedy}", path.display(), plain(&it.into())))
        };
        if let Err(error) = may(&self.path, Access::READ_OK | Access::WRITE_OK) {
            return refused(&self.path, error);
        }
        if let Some(why) = fs::metadata(&self.path).ok().and_then(|it| owner_that_cannot_stay(&it)) {
            let remedy = remedy(rustix::io::Errno::PERM, Path::new(DROP_IN));
            return Some(format!("{} cannot be replaced: {why}.{remedy}", self.path.display()));
        }
        // It is replaced by another file, so that a partial text is never visible.
        may(folder, Access::WRITE_OK | Access::EXEC_OK).err().and_then(|it| refused(folder, it))
    }

    /// Replaces the text: at any moment, and after a crash, the file has the old text or the new one. Mode and owner
    /// stay.
    ///
    /// # Errors
    /// One sentence; the file is unchanged.
    pub fn replace(&self, text: &str) -> Result<(), String> {
        self.write(text).map_err(|it| format!("{} cannot be written: {}.", self.path.display(), plain(&it)))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside = self.folder().join(format!(".{name}.new-{}", std::process::id()));
        let written = (|| {
            let old = fs::metadata(&self.path)?;
            // An existing file is from a killed process, perhaps with this id.
            let _ = fs::remove_file(&beside);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(text.as_bytes())?;
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            // After the owner: changing that clears bits of the mode.
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)?;
            File::open(self.folder())?.sync_all()
        })();
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// The earlier texts, the latest first.
    #[must_use]
    pub fn history(&self) -> Vec<Past> {
        let read = |id: u64| {
            let it = self.entry(id)?;
            let change = it["change"].as_str().unwrap_or_default().to_owned();
            Some(Past { id, time: it["time"].as_u64()?, by: it["by"].as_str()?.to_owned(), change })
        };
        self.ids().into_iter().rev().filter_map(read).collect()
    }

    /// An earlier text.
    #[must_use]
    pub fn past(&self, id: u64) -> Option<String> {
        self.entry(id)?["text"].as_str().map(str::to_owned)
    }

    /// The texts that included files had at that time, of those which were replaced together with it.
    #[must_use]
    pub fn past_included(&self, id: u64) -> Vec<(PathBuf, String)> {
        let entry = self.entry(id).unwrap_or_default();
        let row = |it: &Value| Some((PathBuf::from(it["path"].as_str()?), it["text"].as_str()?.to_owned()));
        entry["included"].as_array().into_iter().flatten().filter_map(row).collect()
    }

    /// Keeps `text`, and those of included files, which `change` is about to replace, and removes the oldest beyond [`PAST`].
    ///
    /// # Errors
    /// One sentence.
    pub fn keep(
        &self,
        text: &str,
        included: &[(PathBuf, String)],
        change: &KeptChange<'_>,
    ) -> Result<u64, String> {
        let folder = self.past_folder();
        let ids = self.ids();
        let id = ids.last().map_or(1, |it| it + 1);
        let write = || -> io::Result<()> {
            if !folder.is_dir() {
                fs::DirBuilder::new().mode(0o700).create(&folder)?;
            }
            let path = folder.join(format!("{id}.json"));
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            let included: Vec<Value> =
                included.iter().map(|it| json!({ "path": it.0, "text": it.1 })).collect();
            let entry = json!({
                "time": change.time, "by": change.by, "change": change.summary, "text": text, "included": included,
            });
            file.write_all(entry.to_string().as_bytes())?;
            file.sync_all()
        };
        write().map_err(|it| {
            format!("The previous configuration cannot be saved in {}: {}.", folder.display(), plain(&it))
        })?;
        let over = (ids.len() + 1).saturating_sub(PAST);
        for id in &ids[..over] {
            self.forget(*id);
        }
        Ok(id)
    }

    /// Removes an earlier text.
    pub fn forget(&self, id: u64) {
        let _ = fs::remove_file(self.past_folder().join(format!("{id}.json")));
    }

    fn entry(&self, id: u64) -> Option<Value> {
        let text = read_file(&self.past_folder().join(format!("{id}.json"))).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The existing ids, the oldest first.
    fn ids(&self) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(self.past_folder()) else { return Vec::new() };
        let id = |it: fs::DirEntry| it.file_name().to_str()?.strip_suffix(".json")?.parse().ok();
        let mut ids: Vec<u64> = entries.flatten().filter_map(id).collect();
        ids.sort_unstable();
        ids
    }

    fn folder(&self) -> &Path {
        base_of(&self.path)
    }

    /// Readable for the user only: a configuration may contain confidential names.
    fn past_folder(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.folder().join(format!(".{name}.history"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_through_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("larder.toml"));
        fs::write(&real, "one").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real.toml", &link).unwrap();
        let store = ConfigFile::at(&link);
        assert_eq!(None, store.why_not());
        store.replace("two").unwrap();
        assert_eq!(Ok("two".to_owned()), store.read());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(0o640, fs::metadata(&real).unwrap().mode() & 0o7777);
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(2, names.len(), "nothing is left over: {names:?}");
    }

    #[test]
    fn a_service_that_may_not_write_its_configuration_is_told_how_to_allow_it() {
        use rustix::io::Errno;
        let folder = tempfile::tempdir().unwrap();
        let drop_in = folder.path().join("edit-by-page.conf");
        assert_eq!("", remedy(Errno::ROFS, &drop_in), "without the package");
        fs::write(&drop_in, "").unwrap();
        for refused in [Errno::ROFS, Errno::ACCESS, Errno::PERM] {
            assert!(remedy(refused, &drop_in).contains(&*drop_in.to_string_lossy()), "{refused}");
        }
        assert_eq!("", remedy(Errno::NOENT, &drop_in), "another fault");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = ConfigFile::at(&folder.path().join("none.toml"));
        assert!(
            store.why_not().unwrap().ends_with("none.toml cannot be written: no such file or directory.")
        );
        assert!(store.replace("x").unwrap_err().contains("cannot be written"));
        assert!(store.read().unwrap_err().contains("cannot be read"));
        assert_eq!(0, fs::read_dir(folder.path()).unwrap().count());
    }

    #[test]
    fn the_history_keeps_a_bounded_number_of_texts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        fs::write(&path, "now").unwrap();
        let store = ConfigFile::at(&path);
        assert!(store.history().is_empty());
        let change = |time| KeptChange { by: "me", time, summary: "1 key: user" };
        for number in 1..=60 {
            assert_eq!(Ok(number), store.keep(&format!("text {number}"), &[], &change(1000 + number)));
        }
        let history = store.history();
        assert_eq!(PAST, history.len());
        assert_eq!(
            Past { id: 60, time: 1060, by: "me".to_owned(), change: "1 key: user".to_owned() },
            history[0]
        );
        assert_eq!(Some("text 60".to_owned()), store.past(60));
        assert_eq!((None, Some("text 11".to_owned())), (store.past(10), store.past(11)));
        assert!(store.past_included(60).is_empty());
        store.forget(60);
        let others = [(PathBuf::from("/conf.d/a.toml"), "one".to_owned())];
        assert_eq!(Ok(60), store.keep("text 60", &others, &change(1060)));
        assert_eq!(&others[..], store.past_included(60));
        store.forget(60);
        assert_eq!(59, store.history()[0].id);
        let mode = |it: &Path| fs::metadata(it).unwrap().mode() & 0o777;
        let past = folder.path().join(".larder.toml.history");
        assert_eq!((0o700, 0o600), (mode(&past), mode(&past.join("59.json"))));
    }

    #[test]
    fn the_hash_of_a_text_depends_on_its_content() {
        assert_ne!(hash("a"), hash("b"));
        assert_eq!((32, hash("a")), (hash("").len(), hash("a")));
    }
}
