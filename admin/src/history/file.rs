//! The file of the history. One process at a time has its lock; a thread of its own writes it, so that a slow device delays neither the admin
//! nor a request. Records are appended; beyond [`MOST_BYTES`] the file is replaced by one with the records that are kept. Their form is
//! `larder_wire::history`.

use super::marks::{HistoryMark, MARKS, MarkKind};
use super::rings::LoadedRows;
use larder_stdx::error::plain;
use larder_wire::history::{HistoryRecord, ReadHistory, START, StoredMinute, StoredRequest, is_interrupted};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The size from which the file is replaced, bytes.
pub const MOST_BYTES: u64 = 16 << 20;
/// The largest file that is read, bytes. A larger one is not of larder.
const MOST_READ: u64 = 64 << 20;
/// The most requests of a file that are returned, and the most minutes.
const MOST_LOADED: usize = 4096;

/// Why a file cannot be used now.
#[derive(Debug)]
pub enum HistoryFault {
    /// Another process has its lock.
    Locked,
    /// Another reason, for a sentence.
    Failed(String),
}

/// The content of a file.
pub struct LoadedHistory {
    /// The samples.
    pub rows: LoadedRows,
    /// The marks, the oldest first.
    pub marks: Vec<HistoryMark>,
    /// The minutes of routes, the oldest first.
    pub minutes: Vec<StoredMinute>,
    /// The slow and failed requests.
    pub requests: Vec<StoredRequest>,
    /// Why the rest of the file was not read, and where the file is now; `None` if it was whole.
    pub damage: Option<String>,
}

/// The state of the file.
#[derive(Clone, Debug, Default)]
pub struct HistoryFileState {
    /// Its size.
    pub bytes: u64,
    /// Why the last write failed; `None` if it succeeded.
    pub fault: Option<String>,
}

enum HistoryWrite {
    Append(Vec<u8>),
    Replace(Vec<u8>),
}

/// An open file with its thread.
pub struct HistoryFile {
    path: PathBuf,
    orders: SyncSender<HistoryWrite>,
    state: Arc<Mutex<HistoryFileState>>,
    thread: JoinHandle<()>,
}

impl HistoryFile {
    /// Opens, locks and reads a file, which is created if there is none.
    ///
    /// # Errors
    /// See [`HistoryFault`].
    pub fn open(path: &Path) -> Result<(Self, LoadedHistory), HistoryFault> {
        let failed = |error: io::Error| HistoryFault::Failed(plain(&error));
        if let Some(folder) = path.parent() {
            // A failure is noticed by the file.
            let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        if path.metadata().is_ok_and(|it| !it.is_file()) {
            return Err(HistoryFault::Failed("it is no regular file".to_owned()));
        }
        let file = open_locked(path, OFlags::CREATE)?;
        let (mut loaded, good, why) = match file.metadata().map_err(failed)?.len() > MOST_READ {
            true => (LoadedHistory::new(), 0, Some("it is larger than 64 MiB".to_owned())),
            false => {
                let mut bytes = Vec::new();
                (&file).take(MOST_READ).read_to_end(&mut bytes).map_err(failed)?;
                load(&bytes)
            }
        };
        let mut open = OpenHistory { path: path.to_owned(), file, good: good as u64 };
        if let Some(why) = why {
            let aside = with_suffix(path, "damaged");
            std::fs::rename(path, &aside).map_err(failed)?;
            open.file = open_locked(path, OFlags::CREATE | OFlags::EXCL)?;
            open.good = 0;
            loaded.damage = Some(format!("{why}; the file is now {}", aside.display()));
        }
        if open.good == 0 {
            open.append(START).map_err(failed)?;
        } else {
            // The end of a write that was interrupted.
            open.file.set_len(open.good).map_err(failed)?;
        }
        let standing = Arc::new(Mutex::new(HistoryFileState { bytes: open.good, fault: None }));
        let (orders, inbox) = sync_channel(2);
        let shared = standing.clone();
        let thread = std::thread::Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || open.work(&inbox, &shared)).map_err(failed)?;
        Ok((Self { path: path.to_owned(), orders, state: standing, thread }, loaded))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its state.
    pub fn state(&self) -> HistoryFileState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has records appended; `false` if earlier ones are still being written.
    pub fn append(&self, records: Vec<u8>) -> bool {
        self.orders.try_send(HistoryWrite::Append(records)).is_ok()
    }

    /// Has the file replaced by one with these records; `false` if earlier ones are still being written.
    pub fn replace(&self, records: Vec<u8>) -> bool {
        self.orders.try_send(HistoryWrite::Replace(records)).is_ok()
    }

    /// Ends the thread after the writes in progress, and gives up the lock; waits at most `within`.
    pub fn close(self, within: Duration) {
        let Self { orders, thread, .. } = self;
        drop(orders);
        let (ended, is_over) = sync_channel::<()>(0);
        std::thread::spawn(move || {
            let _ = thread.join();
            drop(ended);
        });
        let _ = is_over.recv_timeout(within);
    }
}

/// The file in its thread.
struct OpenHistory {
    path: PathBuf,
    file: File,
    /// The end of the last whole record.
    good: u64,
}

impl OpenHistory {
    fn work(mut self, inbox: &Receiver<HistoryWrite>, standing: &Mutex<HistoryFileState>) {
        while let Ok(order) = inbox.recv() {
            let outcome = match order {
                HistoryWrite::Append(records) => self.append(&records),
                HistoryWrite::Replace(records) => self.replace(&records),
            };
            let fault = outcome.err().map(|it| plain(&it));
            *standing.lock().unwrap_or_else(PoisonError::into_inner) =
                HistoryFileState { bytes: self.good, fault };
        }
    }

    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        match self.file.write_all_at(records, self.good) {
            Ok(()) => {
                self.good += records.len() as u64;
                Ok(())
            }
            Err(error) => {
                let _ = self.file.set_len(self.good);
                Err(error)
            }
        }
    }

    fn replace(&mut self, records: &[u8]) -> io::Result<()> {
        let draft = with_suffix(&self.path, "new");
        let _ = std::fs::remove_file(&draft);
        let written = create_locked(&draft).and_then(|file| {
            file.write_all_at(START, 0)?;
            file.write_all_at(records, START.len() as u64)?;
            std::fs::rename(&draft, &self.path)?;
            Ok(file)
        });
        match written {
            Ok(file) => {
                self.file = file;
                self.good = (START.len() + records.len()) as u64;
                Ok(())
            }
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                Err(error)
            }
        }
    }
}

/// `PATH.END`.
fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(end);
    path.with_file_name(name)
}

fn create_locked(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn open_locked(path: &Path, more: OFlags) -> Result<File, HistoryFault> {
    let failed = |error: io::Error| HistoryFault::Failed(plain(&error));
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|it| failed(it.into()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(HistoryFault::Locked),
        Err(error) => return Err(failed(error.into())),
    }
    let file = File::from(file);
    // Its process may have replaced it after it was opened here.
    let (here, there) = (file.metadata().map_err(failed)?, path.metadata().map_err(failed)?);
    if (here.dev(), here.ino()) != (there.dev(), there.ino()) {
        return Err(HistoryFault::Locked);
    }
    refuse_foreign(&file, &here)?;
    Ok(file)
}

/// Fails if another user may have written the file; a copy that others may only read gets the mode 0600.
fn refuse_foreign(file: &File, of: &Metadata) -> Result<(), HistoryFault> {
    let why = match of.mode() & 0o077 {
        _ if of.uid() != rustix::process::geteuid().as_raw() => {
            "it belongs to another user; remove it, or change its owner"
        }
        0 => return Ok(()),
        mode if mode & 0o022 != 0 => {
            "other users may write it; remove it, or run `chmod 600` if its content is right"
        }
        _ => {
            let mode = rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR);
            return mode.map_err(|it| HistoryFault::Failed(plain(&it.into())));
        }
    };
    Err(HistoryFault::Failed(why.to_owned()))
}

/// The content of a file, the end of its last whole record, and the damage of the rest.
fn load(bytes: &[u8]) -> (LoadedHistory, usize, Option<String>) {
    let mut loaded = LoadedHistory::new();
    if !bytes.starts_with(START) {
        let is_begun = START.starts_with(bytes);
        return (
            loaded,
            0,
            (!is_begun).then(|| "it is not a history that this version of larder can read".to_owned()),
        );
    }
    let mut at = START.len();
    loop {
        match HistoryRecord::read(&bytes[at..]) {
            ReadHistory::Record(record, length) => {
                loaded.take(record);
                at += length;
            }
            ReadHistory::End if is_interrupted(&bytes[at..]) => return (loaded, at, None),
            ReadHistory::End | ReadHistory::Damaged => {
                let left = bytes.len() - at;
                return (
                    loaded,
                    at,
                    Some(format!("it is damaged at byte {at}, and {left} bytes are left out")),
                );
            }
        }
    }
}

impl LoadedHistory {
    /// Nothing yet.
    fn new() -> Self {
        Self {
            rows: LoadedRows::new(),
            marks: Vec::new(),
            minutes: Vec::new(),
            requests: Vec::new(),
            damage: None,
        }
    }

    fn take(&mut self, record: HistoryRecord) {
        match record {
            HistoryRecord::Columns(names) => self.rows.columns(&names),
            HistoryRecord::Rows(step, rows) => self.rows.add(step, &rows),
            HistoryRecord::Mark(at, kind, what) => {
                // Of a fault that returns there are many records.
                let mark = HistoryMark::read(at, &kind, what);
                mark.into_iter().for_each(|it| push(&mut self.marks, it, 16 * MARKS));
            }
            HistoryRecord::Minute(minute) => push(&mut self.minutes, minute, MOST_LOADED),
            HistoryRecord::Request(request) => push(&mut self.requests, request, MOST_LOADED),
        }
    }

    /// The time of the last record, Unix seconds; 0 without any.
    pub fn latest(&self) -> u64 {
        self.rows.latest().max(self.marks.last().map_or(0, |it| it.last))
    }

    /// Whether the process before has stopped by itself: its stop is the last that is known of it.
    pub fn is_stopped(&self) -> bool {
        self.marks.last().is_some_and(|it| it.kind == MarkKind::Stop && it.at + 1 >= self.rows.latest())
    }
}

fn push<T>(all: &mut Vec<T>, it: T, most: usize) {
    all.push(it);
    if all.len() >= 2 * most {
        all.drain(..all.len() - most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mark(at: u64, kind: MarkKind) -> Vec<u8> {
        let mut bytes = Vec::new();
        HistoryRecord::Mark(at, kind.name().to_owned(), "text".to_owned()).write(&mut bytes);
        bytes
    }

    const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

    /// The times of the marks, and the damage.
    fn read(path: &Path) -> (Vec<u64>, Option<String>) {
        let (file, loaded) = HistoryFile::open(path).unwrap();
        file.close(CLOSE_TIMEOUT);
        (loaded.marks.iter().map(|it| it.at).collect(), loaded.damage)
    }

    fn written(path: &Path, marks: &[u64]) {
        let (file, _) = HistoryFile::open(path).unwrap();
        let records = marks.iter().flat_map(|it| mark(*it, MarkKind::Reload)).collect();
        assert!(file.append(records));
        file.close(CLOSE_TIMEOUT);
    }

    #[test]
    fn records_are_appended_and_replaced_under_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/history");
        written(&path, &[1, 2]);
        written(&path, &[3]);
        assert_eq!((vec![1, 2, 3], None), read(&path));
        let (file, loaded) = HistoryFile::open(&path).unwrap();
        assert_eq!((3, false), (loaded.latest(), loaded.is_stopped()));
        assert!(matches!(HistoryFile::open(&path), Err(HistoryFault::Locked)));
        assert!(file.replace(mark(9, MarkKind::Stop)));
        file.close(CLOSE_TIMEOUT);
        let (file, loaded) = HistoryFile::open(&path).unwrap();
        assert_eq!((9, true), (loaded.latest(), loaded.is_stopped()));
        assert_eq!(1, std::fs::read_dir(path.parent().unwrap()).unwrap().count(), "no draft is left");
        assert_eq!(0o600, path.metadata().unwrap().mode() & 0o777);
        file.close(CLOSE_TIMEOUT);
    }

    #[test]
    fn a_truncated_file_is_continued_and_a_damaged_one_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let aside = folder.path().join("history.damaged");
        written(&path, &[1, 2]);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (marks, damage) = read(&path);
            assert!(damage.is_none() && marks.len() < 2, "{length}: {damage:?}");
            written(&path, &[5]);
            assert_eq!(Some(&5), read(&path).0.last(), "{length}");
            assert!(!aside.exists());
        }
        let second = START.len() + mark(1, MarkKind::Reload).len();
        // The first byte, a text, and the lengths of both records: up to 64 KiB more.
        let lengths = [(START.len() + 2, 0), (second + 2, 1)];
        for (at, left) in [(0, 0), (START.len() + 20, 0), (second + 20, 1)].into_iter().chain(lengths) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let (marks, damage) = read(&path);
            assert_eq!(left, marks.len());
            let damage = damage.unwrap();
            assert!(damage.ends_with(&format!("the file is now {}", aside.display())), "{damage}");
            assert_eq!(bytes, std::fs::read(&aside).unwrap());
            assert_eq!((vec![], None), read(&path), "a new one has begun");
            std::fs::remove_file(&aside).unwrap();
        }
    }

    #[test]
    fn a_file_that_other_users_may_write_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        written(&path, &[1]);
        let allow = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o666, 0o620, 0o602] {
            allow(mode);
            let Err(HistoryFault::Failed(why)) = HistoryFile::open(&path) else { panic!("{mode:o} is used") };
            assert!(why.contains("other users may write it"), "{why}");
            assert_eq!(mode, path.metadata().unwrap().mode() & 0o777, "it is left as it is");
        }
        allow(0o644);
        assert_eq!((vec![1], None), read(&path));
        assert_eq!(0o600, path.metadata().unwrap().mode() & 0o777);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            let Err(HistoryFault::Failed(why)) = HistoryFile::open(&path) else { panic!("it is used") };
            assert!(why.contains("another user"), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        written(&path, &[1]);
        // A terabyte without blocks: reading it would take minutes.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let (marks, damage) = read(&path);
        assert!(
            marks.is_empty() && damage.unwrap().starts_with("it is larger than 64 MiB; the file is now ")
        );
        assert_eq!((vec![], None), read(&path), "a new one has begun");
    }

    #[test]
    fn a_directory_and_a_missing_right_are_faults() {
        let folder = tempfile::tempdir().unwrap();
        let fault = |path: &Path| match HistoryFile::open(path) {
            Err(HistoryFault::Failed(why)) => why,
            _ => panic!("it cannot be opened"),
        };
        assert_eq!("it is no regular file", fault(folder.path()));
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!("not a directory", fault(&folder.path().join("file/history")));
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        assert!(fault(&folder.path().join("link")).contains("symbolic links"));
    }
}
