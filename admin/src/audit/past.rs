//! Entries of the audit log's file of before a restart: the lines at its end, as far as they are whole.

use super::latest::AuditRecord;
use larder_wire::event_line::EventLine;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The bytes at the end of the file that are read: 500 changes have about a quarter of them.
const TAIL: u64 = 512 << 10;

/// The latest entries of the file at `path`, the oldest first; none if it cannot be read. Damaged lines are skipped.
pub fn read(path: &Path) -> Vec<AuditRecord> {
    tail(path).unwrap_or_default().lines().filter_map(record).collect()
}

fn tail(path: &Path) -> std::io::Result<String> {
    // Not blocking: it may be a pipe, which is not read.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(String::new());
    }
    let start = about.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line has lost its beginning.
    let whole = if start > 0 { text.find('\n').map_or(text.len(), |it| it + 1) } else { 0 };
    Ok(text[whole..].to_owned())
}

fn record(line: &str) -> Option<AuditRecord> {
    let line = EventLine::parse(line)?;
    AuditRecord::of(line.time, line.event, line.values.iter().map(|it| (it.0, &*it.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2026-01-31T10:00:00Z info admin-write who=a role=admin session=7 from=127.0.0.1:80 method=PUT path=/x status=200 body=\"{\\\"a\\\":1}\"\n";

    #[test]
    fn whole_lines_at_the_end_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        assert!(read(&path).is_empty() && read(folder.path()).is_empty());
        let damaged =
            "2026-01-31T10:00:00Z info admin-write who=\"a\n\0\0\0\n2026-01-31T10:00:00Z\nnonsense\n";
        std::fs::write(&path, format!("{damaged}{LINE}{}", &LINE[..60])).unwrap();
        let found = read(&path);
        assert_eq!(1, found.len(), "{found:?}");
        assert_eq!(
            ("a", Some(7), "{\"a\":1}", 1_769_853_600),
            (&*found[0].token, found[0].session, &*found[0].body, found[0].time)
        );
        let many = LINE.repeat(10_000);
        std::fs::write(&path, &many).unwrap();
        let count = read(&path).len();
        assert_eq!(usize::try_from(TAIL).unwrap() / LINE.len(), count);
    }
}
