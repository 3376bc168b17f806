//! The file of a snapshot: complete under its name or not there, and used once. It is removed before it is read, so that no
//! later start, which would not know the purges made meanwhile, finds it again.

use super::{HEADER, SnapshotCount, SnapshotFault};
use crate::ram::Store;
use larder_wire::segment::{RecordHeader, RecordKind, RecordPart, START, SegmentFile, version};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of the buffers for reading and writing.
const BUFFER: usize = 1 << 20;

/// A snapshot that was taken from its place.
pub struct TakenSnapshot {
    file: File,
    seed: u64,
    /// The number of its responses.
    pub responses: u64,
}

/// The checksums of a file hold for its inode only: a copy, or one that a backup brought back, is not used.
fn seed_of(stat: &Stat) -> u64 {
    stat.st_ino
}

/// The name under which a file is written.
fn incomplete(path: &Path) -> PathBuf {
    with_ending(path, ".incomplete")
}

/// The name of a file that larder may not have written: its path may be the one of a secret, by a mistake in the configuration.
fn damaged(path: &Path) -> PathBuf {
    with_ending(path, ".damaged")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Makes the names of a file's directory durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// Whether a file begins as a snapshot of any version does.
fn is_snapshot(file: &File) -> bool {
    let mut first = [0; START];
    file.read_exact_at(&mut first, 0).is_ok() && version(SegmentFile::Snapshot, &first).is_some()
}

/// The sentence for a file that is neither a snapshot nor of larder.
const FOREIGN: &str = "it is not a snapshot that larder wrote there; remove it, or name another file";

/// Whether a file is one that larder wrote, by its owner, rights and names: so it is also known if its beginning is damaged.
fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o7777 == 0o600
        && stat.st_nlink == 1
}

fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Takes the snapshot at `path` away from there; `None` where there is none. One that is not used is removed as well; a
/// file that is no snapshot stays, and one of larder that is damaged at its beginning stays until the next stop.
///
/// # Errors
/// The end of a sentence about the file: it is not used.
pub fn take(path: &Path) -> Result<Option<TakenSnapshot>, String> {
    let _ = rustix::fs::unlink(incomplete(path));
    let file = match open(path) {
        Ok(it) => it,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed("opened", error)),
    };
    let stat = rustix::fs::fstat(&file).map_err(|it| failed("read", it))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !is_snapshot(&file) {
        let why = if is_own(&stat) {
            "its beginning is damaged; the next stop renames it to NAME.damaged and writes a new one"
        } else {
            FOREIGN
        };
        return Err(why.to_owned());
    }
    rustix::fs::unlink(path).map_err(|it| failed("removed", it))?;
    sync_directory(path).map_err(|it| failed("removed", it))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if stat.st_mode & 0o077 != 0 || stat.st_nlink > 1 {
        return Err("other users could change it, or it has a second name".to_owned());
    }
    let seed = seed_of(&stat);
    // The end first: a file that lacks it is not read at all.
    let end = u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(HEADER as u64);
    let mut bytes = [0; HEADER];
    let read = file.read_exact_at(&mut bytes, end);
    let header = RecordHeader::read(&bytes, RecordPart { seed, file: 0, offset: end });
    match header.filter(|it| read.is_ok() && it.kind == RecordKind::Removal) {
        Some(header) => Ok(Some(TakenSnapshot { file, seed, responses: header.stamp })),
        None => {
            let reader = super::SnapshotReader::new(&file, seed);
            Err(reader_fault(reader).sentence())
        }
    }
}

/// Why a file without an end is none: its beginning may say more.
fn reader_fault(mut reader: super::SnapshotReader<&File>) -> SnapshotFault {
    reader.begin().err().unwrap_or(SnapshotFault::Damaged)
}

fn failed(deed: &str, error: impl Into<io::Error>) -> String {
    format!("it cannot be {deed}: {}", larder_stdx::error::plain(&error.into()))
}

/// Removes a snapshot whose purges may be unknown. A file that is none stays.
pub fn discard(path: &Path) {
    if open(path).is_ok_and(|it| is_snapshot(&it)) {
        let _ = rustix::fs::unlink(path);
        let _ = sync_directory(path);
    }
}

impl Store {
    /// [`Store::read_snapshot`] from a file.
    ///
    /// # Errors
    /// Nothing of it is used.
    pub fn load_snapshot(
        &self,
        taken: &TakenSnapshot,
        settings: u64,
        late: impl Fn() -> bool,
    ) -> Result<SnapshotCount, SnapshotFault> {
        let from = BufReader::with_capacity(BUFFER, &taken.file);
        let count = self.read_snapshot(from, taken.seed, settings, late)?;
        Ok(SnapshotCount { left_out: taken.responses.saturating_sub(count.responses), ..count })
    }

    /// [`Store::write_snapshot`] into a file, which is there under its name once it is complete and on the device.
    ///
    /// # Errors
    /// There is no file. A file at `path` that is no snapshot stays; one that looks like larder's own is renamed.
    pub fn save_snapshot(
        &self,
        path: &Path,
        settings: u64,
        late: impl Fn() -> bool,
    ) -> io::Result<SnapshotCount> {
        match open(path) {
            Ok(it) if !is_snapshot(&it) => match is_own(&rustix::fs::fstat(&it)?) {
                true => rustix::fs::rename(path, damaged(path))?,
                false => return Err(io::Error::other(FOREIGN)),
            },
            Err(error) if error != Errno::NOENT => return Err(error.into()),
            _ => {}
        }
        let new = incomplete(path);
        let _ = rustix::fs::unlink(&new);
        let written = self.write_new(&new, settings, late).and_then(|count| {
            rustix::fs::rename(&new, path)?;
            Ok(count)
        });
        if written.is_err() {
            let _ = rustix::fs::unlink(&new);
        }
        let count = written?;
        sync_directory(path)?;
        Ok(count)
    }

    fn write_new(&self, new: &Path, settings: u64, late: impl Fn() -> bool) -> io::Result<SnapshotCount> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(rustix::fs::open(new, flags, Mode::RUSR | Mode::WUSR)?);
        let seed = seed_of(&rustix::fs::fstat(&file)?);
        let out = BufWriter::with_capacity(BUFFER, &file);
        let count = self.write_snapshot(out, seed, settings, late)?;
        file.sync_all()?;
        Ok(count)
    }
}
