//! Detection of changes to the configuration file, and of keys that require a restart.

use larder_config::Config;
use larder_config::include::WatchedFiles;
use larder_config::restart_keys::StartValue;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The visible state of a file; checked once a second, which also works for a link that an orchestrator swaps, and on a
/// network file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLook {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    /// Of the inode: every write moves it, also one that sets the time of the file back.
    touched: (i64, i64),
}

/// Watches one file.
pub struct FileWatch {
    path: PathBuf,
    taken: Option<FileLook>,
    seen: Option<FileLook>,
}

impl FileWatch {
    /// Watches from now on.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        let now = look(&path);
        Self { path, taken: now, seen: now }
    }

    /// Records that the current state was taken over, or rejected: it is no longer a change.
    pub fn taken(&mut self) {
        self.taken = look(&self.path);
        self.seen = self.taken;
    }

    /// Whether the file changed, and was unchanged in two checks since: an editor that is still writing can finish.
    pub fn changed(&mut self) -> bool {
        let now = look(&self.path);
        let settled = now == self.seen;
        self.seen = now;
        if now.is_none() || now == self.taken || !settled {
            return false;
        }
        self.taken = now;
        true
    }
}

/// Watches a configuration: its file, the files that it includes, and those of its secrets.
pub struct ConfigWatch {
    path: PathBuf,
    others: WatchedFiles,
    taken: ConfigLook,
    seen: ConfigLook,
    /// Whether it was rejected: a change of a file that it names is a change of it until it is accepted.
    is_rejected: bool,
    named: ConfigLook,
}

/// The visible state of each file of a configuration; the first is the main one.
type ConfigLook = Vec<(PathBuf, Option<FileLook>)>;

impl ConfigWatch {
    /// Watches from now on.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        let mut watch = Self {
            path,
            others: WatchedFiles::default(),
            taken: Vec::new(),
            seen: Vec::new(),
            is_rejected: false,
            named: Vec::new(),
        };
        watch.taken();
        watch
    }

    /// Records that the current state was taken over, or rejected: it is no longer a change.
    pub fn taken(&mut self) {
        self.others = larder_config::watched(&self.path);
        self.taken = self.look();
        self.seen = self.taken.clone();
        self.named = self.look_at_named();
    }

    /// Records whether the state that was recorded last was taken over or rejected.
    pub fn decided(&mut self, is_rejected: bool) {
        self.is_rejected = is_rejected;
    }

    /// Whether a file changed, appeared or vanished, and all were unchanged in two checks since. While the main file is
    /// missing nothing is a change: it may be being replaced.
    pub fn changed(&mut self) -> bool {
        let mut now = self.look();
        let mut taken = self.taken.clone();
        if self.is_rejected {
            now.extend(self.look_at_named());
            taken.extend(self.named.iter().cloned());
        }
        let settled = now == self.seen;
        let is_change = now.first().is_some_and(|it| it.1.is_some()) && now != taken && settled;
        self.seen = now;
        if is_change {
            self.taken();
        }
        is_change
    }

    fn look(&self) -> ConfigLook {
        let all = std::iter::once(self.path.clone()).chain(self.others.now());
        all.map(|it| (it.clone(), look(&it))).collect()
    }

    /// A directory changes with each file in it: it is no reason.
    fn look_at_named(&self) -> ConfigLook {
        let files = self.others.named.iter().filter(|it| !it.is_dir());
        files.map(|it| (it.clone(), look(it))).collect()
    }
}

pub(crate) fn look(path: &Path) -> Option<FileLook> {
    let it = std::fs::metadata(path).ok()?;
    Some(FileLook {
        device: it.dev(),
        inode: it.ino(),
        size: it.size(),
        changed: (it.mtime(), it.mtime_nsec()),
        touched: (it.ctime(), it.ctime_nsec()),
    })
}

/// The values that require a restart, and differ: the old and the new one.
pub fn at_start<'c>(
    old: &'c Config,
    new: &'c Config,
) -> impl Iterator<Item = (&'c StartValue, &'c StartValue)> {
    old.at_start.iter().zip(&new.at_start).filter(|(old, new)| old != new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(path.clone());
        assert!(!watch.changed());
        std::fs::write(&path, "ab").unwrap();
        assert!(!watch.changed(), "just seen");
        assert!(watch.changed(), "settled");
        assert!(!watch.changed(), "once");
        std::fs::write(&path, "abc").unwrap();
        watch.taken();
        assert!(!watch.changed() && !watch.changed(), "it was taken over otherwise");
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.changed() && !watch.changed(), "a file that is away is no change");
    }

    #[test]
    fn included_files_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
        let settles = |watch: &mut ConfigWatch| [watch.changed(), watch.changed(), watch.changed()];
        std::fs::create_dir(at("conf.d")).unwrap();
        write("larder.toml", "include = [\"conf.d/*.toml\", \"one.toml\"]");
        let mut watch = ConfigWatch::new(at("larder.toml"));
        assert_eq!([false; 3], settles(&mut watch));
        write("conf.d/a.toml", "");
        assert_eq!([false, true, false], settles(&mut watch), "a new match");
        write("conf.d/a.toml", "[");
        assert_eq!([false, true, false], settles(&mut watch), "a change, right or wrong");
        write("conf.d/a.txt", "");
        write("conf.d/.a.toml.swp", "");
        assert_eq!([false; 3], settles(&mut watch), "no match");
        write("one.toml", "");
        assert_eq!([false, true, false], settles(&mut watch), "it was missing");
        std::fs::remove_file(at("conf.d/a.toml")).unwrap();
        assert_eq!([false, true, false], settles(&mut watch), "it is gone");
        write("conf.d/b.toml", "include = \"../later.toml\"");
        assert_eq!([false, true, false], settles(&mut watch));
        write("later.toml", "");
        assert_eq!([false, true, false], settles(&mut watch), "an include of an include");
        std::fs::rename(at("larder.toml"), at("away")).unwrap();
        assert_eq!([false; 3], settles(&mut watch), "the main file is away");
        std::fs::rename(at("away"), at("larder.toml")).unwrap();
        assert_eq!([false, true, false], settles(&mut watch), "and back, with another time of its inode");
    }

    #[test]
    fn a_file_that_a_rejected_configuration_names_is_watched() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
        let settles = |watch: &mut ConfigWatch| [watch.changed(), watch.changed(), watch.changed()];
        write("larder.toml", "geoip.database = \"country.mmdb\"\nlog.access = \"access.log\"");
        let mut watch = ConfigWatch::new(at("larder.toml"));
        write("country.mmdb", "a");
        assert_eq!([false; 3], settles(&mut watch), "the configuration is in force");
        watch.taken();
        watch.decided(true);
        assert!(!watch.changed() && !watch.changed(), "rejected, and unchanged");
        write("access.log", "a line");
        assert_eq!([false; 3], settles(&mut watch), "larder writes it");
        write("country.mmdb", "b");
        assert_eq!([false, true, false], settles(&mut watch));
        watch.decided(false);
        write("country.mmdb", "c");
        assert_eq!([false; 3], settles(&mut watch));
    }

    #[test]
    fn values_that_require_a_restart_are_kept_and_named() {
        #[track_caller]
        fn check(old: &str, new: &str, expect: &[&str]) {
            let read = |text: &str| {
                let site = "[[site]]\nhosts = \"*\"\nroute = [{ proxy = { to = \":1\" } }]\n";
                Config::from_text(&format!("{text}\n{site}"), "t.toml", std::path::Path::new("."), &[])
                    .unwrap()
            };
            let (kept, waiting) = read(new).keep_from(&read(old));
            let waiting: Vec<String> = waiting.iter().map(ToString::to_string).collect();
            let all: Vec<String> = expect
                .iter()
                .map(|it| {
                    format!("{it}: takes effect at the next start; its old value stays in force until then")
                })
                .collect();
            assert_eq!(all, waiting, "{old} to {new}");
            assert!(at_start(&read(old), &kept).next().is_none(), "{new}");
        }
        let disk = "cache.disk.path = \"/nowhere/a\"";
        check("", "log.levels.fleet = \"debug\"", &[]);
        check("cache.ram.size = \"1MiB\"", "cache.ram.size = \"1024KiB\"", &[]);
        check("", "listen = \"127.0.0.1:8081\"\nlog.access = \"a.log\"", &[]);
        check("", disk, &["t.toml:1: cache.disk.path"]);
        check(disk, "", &["default: cache.disk.path"]);
        check(
            "cache.fleet.servers = \"a:1\"",
            "workers = 3\n[cache.fleet]\nservers = [\"a:1\"]\ntimeout = \"60ms\"",
            &["t.toml:1: workers", "t.toml:4: cache.fleet.timeout"],
        );
    }
}
