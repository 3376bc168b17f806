//! Small files of the state directory that belong to the user of the process alone: read and replaced as a whole.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The first `most` bytes of the file at `path`; `None` if it belongs to another user, is readable for other users, or is no text.
pub fn read(path: &Path, most: u64) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map(File::from).ok()?;
    let about = file.metadata().ok()?;
    let is_ours =
        about.is_file() && about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 == 0;
    let mut text = String::new();
    (is_ours && file.take(most).read_to_string(&mut text).is_ok()).then_some(text)
}

/// Replaces the file as a whole, with the mode 0600.
///
/// # Errors
/// It cannot be written; the present one stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
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
