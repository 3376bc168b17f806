//! The files that `include` names: patterns, their matches, and bounded reading of regular files.

use super::not_text;
use larder_stdx::error::plain;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

/// The most files of a configuration.
pub const MOST_FILES: usize = 1000;
/// The most includes within includes.
pub const MOST_DEPTH: usize = 8;
/// The size limit of one file.
const LARGEST: u64 = 4 << 20;

/// A file of a configuration, apart from the main one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludedFile {
    /// Its name in messages.
    pub name: String,
    /// Its place after all symbolic links.
    pub path: PathBuf,
    /// Its text.
    pub text: std::sync::Arc<str>,
}

impl IncludedFile {
    /// Whether a symbolic link leads to it.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        std::path::absolute(&self.name).is_ok_and(|it| plain_path(&it) != self.path)
    }
}

/// Texts in place of those on disk, each by the place of its file after all symbolic links.
pub type IncludedTexts = std::collections::BTreeMap<PathBuf, std::sync::Arc<str>>;

/// The files on which a configuration depends, apart from the main one: a change of one is a change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedFiles {
    /// Files with a name.
    pub files: Vec<PathBuf>,
    /// Patterns, each beneath a directory.
    pub patterns: Vec<(PathBuf, String)>,
    /// Files that values name, such as those of users, keys and certificates: their change counts while the configuration is
    /// rejected, of which one of them may be the reason.
    pub named: Vec<PathBuf>,
}

impl WatchedFiles {
    /// Every file, with the present matches of the patterns.
    pub fn now(&self) -> impl Iterator<Item = PathBuf> {
        let found = self.patterns.iter().flat_map(|(base, it)| matches(it, base).unwrap_or_default());
        self.files.iter().cloned().chain(found)
    }
}

/// Whether a path of `include` has a wildcard.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The files that `pattern` matches, relative to `base`, sorted. A pattern without wildcard is its own match.
///
/// # Errors
/// The end of a sentence.
pub fn matches(pattern: &str, base: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![if Path::new(pattern).is_absolute() { PathBuf::from("/") } else { base.to_owned() }];
    let parts: Vec<Component<'_>> = Path::new(pattern).components().collect();
    for (number, part) in parts.iter().enumerate() {
        let is_last = number + 1 == parts.len();
        match part {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) if name.as_bytes().iter().any(|it| b"*?".contains(it)) => {
                if name.as_bytes().windows(2).any(|it| it == b"**") {
                    return Err(
                        "\"**\" has no meaning here; write \"*\" for each level of directories".to_owned()
                    );
                }
                found = among(&found, name, is_last)?;
            }
            // Also `..`, which only the configuration itself can contain: a wildcard never matches it.
            Component::Normal(_) | Component::ParentDir => found.iter_mut().for_each(|it| it.push(part)),
        }
    }
    let is_wild = is_pattern(pattern);
    // After the last wildcard a name may be missing in some of the directories.
    found.retain(|it| !is_wild || it.symlink_metadata().is_ok());
    found.sort();
    Ok(found.into_iter().map(|it| it.strip_prefix(".").map(Path::to_owned).unwrap_or(it)).collect())
}

/// The entries of directories whose names match; for the last part of a pattern no directories, before it only those.
fn among(folders: &[PathBuf], pattern: &OsStr, is_last: bool) -> Result<Vec<PathBuf>, String> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let mut found = Vec::new();
    for folder in folders {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => continue,
            Err(error) => return Err(format!("{} cannot be read: {}", folder.display(), plain(&error))),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if fits(pattern.as_bytes(), name.as_bytes()) && entry.path().is_dir() != is_last {
                found.push(entry.path());
            }
            if found.len() > MOST_FILES {
                return Err(format!("more than {MOST_FILES} files match"));
            }
        }
    }
    Ok(found)
}

/// Whether a name matches a pattern with `*` and `?`; a hidden one only if the pattern begins with a dot.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut at, mut from, mut retry) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, from));
                at += 1;
            }
            Some(it) if *it == b'?' || *it == name[from] => (at, from) = (at + 1, from + 1),
            _ => match retry {
                Some((star, start)) => {
                    retry = Some((star, start + 1));
                    (at, from) = (star + 1, start + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|it| *it == b'*')
}

/// The identity of a regular file, and its whole content.
pub struct RegularFile {
    /// Device and inode.
    pub identity: (u64, u64),
    /// The content.
    pub bytes: Vec<u8>,
}

/// Reads a regular file of at most `largest` bytes; nothing else is read, and no pipe is waited for.
///
/// # Errors
/// The end of a sentence that begins with the file.
pub fn read_regular(path: &Path, largest: u64) -> Result<RegularFile, String> {
    bounded(path, largest).map_err(|it| format!("cannot be read: {}", plain(&it)))
}

/// The same, for a message that names the file before a colon.
///
/// # Errors
/// A sentence.
pub fn read_bytes(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    bounded(path, largest).map(|it| it.bytes).map_err(|it| plain(&it))
}

/// The same for a text.
///
/// # Errors
/// A sentence.
pub fn read_text(path: &Path, largest: u64) -> Result<String, String> {
    String::from_utf8(read_bytes(path, largest)?).map_err(|_| "it is not UTF-8".to_owned())
}

fn bounded(path: &Path, largest: u64) -> io::Result<RegularFile> {
    let no_file = || io::Error::other("it is not a regular file");
    // Opening may wind a tape, or wake the writer of a pipe.
    if !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let options = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(options).open(path)?;
    let look = file.metadata()?;
    if !look.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(look.len().min(largest)).unwrap_or_default());
    file.take(largest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(io::Error::other(format!("it is larger than {}", larder_stdx::size::ByteSize(largest))));
    }
    Ok(RegularFile { identity: (look.dev(), look.ino()), bytes })
}

/// Reads an included file.
///
/// # Errors
/// The end of a sentence that begins with the file.
pub fn read(path: &Path) -> Result<((u64, u64), IncludedFile), String> {
    let RegularFile { identity, bytes } = read_regular(path, LARGEST)?;
    let text = String::from_utf8(bytes).map_err(|it| {
        format!("cannot be read: {}", not_text(it.as_bytes(), it.utf8_error().valid_up_to()))
    })?;
    let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Ok((identity, IncludedFile { name: path.display().to_string(), path: resolved, text: text.into() }))
}

/// A path without `.` and without `..` after a name.
fn plain_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_match() {
        #[track_caller]
        fn check(pattern: &str, name: &str, expect: bool) {
            assert_eq!(expect, fits(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        check("*.toml", "a.toml", true);
        check("*.toml", ".toml", false);
        check(".*", ".toml", true);
        check("*.toml", "a.toml~", false);
        check("*a*b", "xxaxxbxb", true);
        check("?.toml", "a.toml", true);
        check("?.toml", "ab.toml", false);
        check("*", "", true);
        check("a*", "a", true);
    }

    #[test]
    fn files_that_match() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        for it in [
            "conf.d/b.toml",
            "conf.d/a.toml",
            "conf.d/.hidden.toml",
            "conf.d/a.toml~",
            "sites/x/site.toml",
            "sites/y/other.toml",
        ] {
            fs::create_dir_all(base.join(it).parent().unwrap()).unwrap();
            fs::write(base.join(it), "").unwrap();
        }
        fs::create_dir(base.join("conf.d/folder.toml")).unwrap();
        let check = |pattern: &str, expect: &[&str]| {
            let found = matches(pattern, base).unwrap();
            assert_eq!(expect.iter().map(|it| base.join(it)).collect::<Vec<_>>(), found, "{pattern}");
        };
        check("conf.d/*.toml", &["conf.d/a.toml", "conf.d/b.toml"]);
        check("./conf.d/?.toml", &["conf.d/a.toml", "conf.d/b.toml"]);
        check("sites/*/site.toml", &["sites/x/site.toml"]);
        check("none/*.toml", &[]);
        check("conf.d/*.json", &[]);
        check("none.toml", &["none.toml"]);
        check("conf.d/../conf.d/*b.toml", &["conf.d/../conf.d/b.toml"]);
        assert!(matches("**/a", base).is_err());
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(Some("cannot be read: it is not a regular file".to_owned()), read(&pipe).err());
        assert_eq!(Some("cannot be read: it is not a regular file".to_owned()), read(folder.path()).err());
        fs::write(folder.path().join("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
        let linked = read(&folder.path().join("link")).unwrap().1;
        assert!(linked.is_linked() && linked.path.ends_with("real"));
        assert!(!read(&linked.path).unwrap().1.is_linked());
    }

    /// The same by recursion.
    fn by_hand(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some(b'*'), _) => {
                by_hand(&pattern[1..], name) || (!name.is_empty() && by_hand(pattern, &name[1..]))
            }
            (Some(b'?'), Some(_)) => by_hand(&pattern[1..], &name[1..]),
            (Some(a), Some(b)) if a == b => by_hand(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_are_those_of_a_recursion(name in "[a-c.]{0,8}", pattern in "[a-c.*?]{0,8}") {
            let hidden = name.starts_with('.') && !pattern.starts_with('.');
            let expect = !hidden && by_hand(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(expect, fits(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
