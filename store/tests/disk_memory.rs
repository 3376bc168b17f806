//! RAM of the disk tier for each response, by the allocator's count. Alone in its process.

mod support;

use larder_counters::Counters;
use larder_store::disk::{DiskSettings, DiskTier};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use support::{settings, stored};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it all; only sums are kept here.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_response_takes_a_hundred_bytes_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let settings = DiskSettings {
        segment_size: 1 << 20,
        queue: 16 << 20,
        ..settings(&directory.path().join("tier"), 256 << 20)
    };
    let open = || DiskTier::open(settings.clone(), Arc::new(Counters::default())).unwrap();
    let one = stored(b"x".to_vec());
    let objects = 60_000;
    let before = HELD.load(Relaxed);
    let disk = open();
    for key in 0..objects {
        disk.write(format!("http://www.example.com/some/page/{key}").as_bytes(), &one);
        if key % 10_000 == 0 {
            disk.flush().wait().unwrap();
        }
    }
    disk.flush().wait().unwrap();
    let check = |disk: &DiskTier, what: &str| {
        assert_eq!(objects, disk.objects());
        let held = (HELD.load(Relaxed) - before) as u64;
        // What does not grow: the list of removals, threads, the entries of one segment.
        let each = held.saturating_sub(400_000) / objects;
        println!("{what}: {} bytes each, {} by its own count", held / objects, disk.memory() / objects);
        assert!(each <= 100, "{what}: {each} bytes each");
        assert!(disk.memory() / objects <= 100);
        assert!(disk.memory() + 600_000 > held, "{what}: {} are not counted", held - disk.memory());
    };
    check(&disk, "written");
    drop(disk);
    let disk = open();
    check(&disk, "found again");
}
