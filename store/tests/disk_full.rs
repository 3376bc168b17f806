//! On a full file system the oldest segment is dropped for the newest. Without one to drop, only the disk tier is off,
//! and free room turns it on again. On a small tmpfs, which only root may mount; `disk::tests::faults` covers the same
//! without root.

mod support;

use larder_counters::Counters;
use larder_store::disk::{DiskSettings, DiskState, DiskTier};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::{body, contents, heal, runtime, settings, stored, version};

/// A tmpfs of its own, unmounted at the end.
struct Small {
    directory: tempfile::TempDir,
}

impl Small {
    /// `None` where this user may not mount.
    fn mount(kibibytes: u32) -> Option<Small> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={kibibytes}k");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "larder-test"]).arg(directory.path()).output();
        done.is_ok_and(|it| it.status.success()).then_some(Small { directory })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("tier")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Detached: whatever is still open does not matter.
        let _ = Command::new("umount").arg("-l").arg(self.directory.path()).status();
    }
}

fn open(path: &Path) -> (Arc<DiskTier>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let settings = DiskSettings { heap_line: 16 << 10, ..settings(path, 64 << 20) };
    (DiskTier::open(settings, counters.clone()).unwrap(), counters)
}

#[test]
fn a_file_system_that_is_full_goes_round() {
    let Some(small) = Small::mount(2048) else {
        eprintln!("skipped: this user may not mount a tmpfs");
        return;
    };
    let ballast = small.directory.path().join("ballast");
    std::fs::write(&ballast, vec![1; 500 << 10]).unwrap();
    let (disk, counters) = open(&small.path());
    let runtime = runtime();
    const WRITTEN: u64 = 3000;
    for key in 0..WRITTEN {
        disk.write(key.to_string().as_bytes(), &stored(body(key, 1)));
        disk.flush().wait().unwrap();
        // What has just come is there, whatever had to go for it.
        let stored = runtime.block_on(disk.read(key.to_string().as_bytes(), &[])).unwrap();
        assert_eq!(1, version(key, &contents(&stored.body).unwrap()));
    }
    assert_eq!((DiskState::On, 0), (disk.state(), counters.disk_failures.get()));
    assert!(counters.disk_device_full_drops.get() > 0, "the oldest have gone");
    let found = (0..WRITTEN).filter(|key| disk.knows(key.to_string().as_bytes())).count();
    assert!(found > 10 && (found as u64) < WRITTEN, "{found}");
}

#[test]
fn a_start_on_a_full_file_system_is_no_error() {
    let Some(small) = Small::mount(128) else {
        eprintln!("skipped: this user may not mount a tmpfs");
        return;
    };
    let ballast = small.directory.path().join("ballast");
    // As much as goes in.
    let _ = std::fs::write(&ballast, vec![1; 256 << 10]);
    let (disk, _) = open(&small.path());
    assert_ne!(DiskState::On, disk.state());
    std::fs::remove_file(&ballast).unwrap();
    heal(&disk);
    disk.write(b"new", &stored(body(1, 1)));
    disk.flush().wait().unwrap();
    assert!(disk.knows(b"new"));
}
