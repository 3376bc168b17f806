//! The latest entries of the audit log in a file of the state directory, so that they outlive a restart without `admin.audit`.

use super::latest::AuditRecord;
use crate::private_file;
use serde_json::Value;
use std::path::Path;

/// The most bytes of the file. The oldest entries above it are dropped.
const MOST: usize = 512 << 10;

/// The entries of the file at `path`, the oldest first; none if it is not only of this user, or damaged.
pub fn read(path: &Path) -> Vec<AuditRecord> {
    let text = private_file::read(path, MOST as u64).unwrap_or_default();
    let record = |line: &str| AuditRecord::of_json(&serde_json::from_str::<Value>(line).ok()?);
    text.lines().filter_map(record).collect()
}

/// Replaces the file; `latest` begins with the latest entry.
///
/// # Errors
/// It cannot be written; the present one stays.
pub fn write(path: &Path, latest: &[&AuditRecord]) -> std::io::Result<()> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for it in latest {
        let line = format!("{}\n", it.json());
        bytes += line.len();
        if bytes > MOST {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    private_file::replace(path, &lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::latest::LatestEntries;
    use crate::audit::{REFUSED, WRITE};

    #[test]
    fn entries_outlive_a_restart_within_the_budget() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        assert!(read(&path).is_empty());
        let mut latest = LatestEntries::default();
        let long = "ä".repeat(1000);
        for at in 0..500 {
            let number = at.to_string();
            let values = [
                ("who", "a"),
                ("path", "/x"),
                ("status", "200"),
                ("session", number.as_str()),
                ("body", &*long),
                ("why", &*long),
                ("query", &*long),
                ("method", &*long),
            ];
            let event = if at % 5 == 0 { REFUSED } else { WRITE };
            latest.push(AuditRecord::of(at, event, values.into_iter()).unwrap());
        }
        write(&path, &latest.all()).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= MOST as u64);
        let found = read(&path);
        let kept: Vec<_> = latest.all().into_iter().take(found.len()).rev().cloned().collect();
        assert!(found.len() > 300, "{}", found.len());
        assert_eq!(kept, found);
        std::fs::write(&path, "nonsense\n{}\n").unwrap();
        assert!(read(&path).is_empty());
    }
}
