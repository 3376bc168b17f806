//! A file system that is full turns the disk tier off and nothing else; room that comes back turns it on. On a small
//! tmpfs, which only root may mount: others have `disk::tests::faults`.

mod support;

use larder_counters::Counters;
use larder_store::disk::{Disk, Settings, State};
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

fn open(path: &Path) -> (Arc<Disk>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let settings = Settings { heap_line: 16 << 10, ..settings(path, 64 << 20) };
    (Disk::open(settings, counters.clone()).unwrap(), counters)
}

/// Writes keys until the tier is off; how many it took.
fn fill(disk: &Disk) -> u64 {
    for key in 0..100_000 {
        disk.write(key.to_string().as_bytes(), &stored(body(key, 1)));
        if disk.flush().wait().is_err() {
            return key;
        }
    }
    panic!("nothing is ever full");
}

#[test]
fn a_full_file_system_turns_it_off_until_there_is_room() {
    let Some(small) = Small::mount(1024) else {
        eprintln!("skipped: this user may not mount a tmpfs");
        return;
    };
    let ballast = small.directory.path().join("ballast");
    std::fs::write(&ballast, vec![1; 500 << 10]).unwrap();
    let (disk, counters) = open(&small.path());
    let runtime = runtime();
    let written = fill(&disk);
    let State::Off(why) = disk.state() else { panic!("it is on") };
    assert!(why.contains("No space left on device"), "{why}");
    assert!(written > 10 && counters.disk_failures.get() == 1, "{written}");
    // No request fails: what is there is read, what is new is skipped.
    let mut found = 0;
    for key in 0..written {
        if let Some(stored) = runtime.block_on(disk.read(key.to_string().as_bytes(), &[])) {
            assert_eq!(1, version(key, &contents(&stored.body).unwrap()));
            found += 1;
        }
    }
    assert!(found + 2 > written, "{found} of {written}");
    std::fs::remove_file(&ballast).unwrap();
    heal(&disk);
    disk.write(b"new", &stored(body(7, 7)));
    disk.flush().wait().unwrap();
    let new = runtime.block_on(disk.read(b"new", &[])).unwrap();
    assert_eq!(7, version(7, &contents(&new.body).unwrap()));
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
    assert_ne!(State::On, disk.state());
    std::fs::remove_file(&ballast).unwrap();
    heal(&disk);
    disk.write(b"new", &stored(body(1, 1)));
    disk.flush().wait().unwrap();
    assert!(disk.knows(b"new"));
}
