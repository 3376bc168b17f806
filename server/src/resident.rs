//! The resident memory of the process, as counted by the kernel; and the part of it that the allocator holds without
//! having allocated it, as counted by the allocator. The use of the rest is in `admin::memory`.
//!
//! An allocator's pages belong to the thread that took them, and only that thread may examine them. So each worker
//! examines its own on request, and publishes the result.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;

/// Resident bytes of this process (proc(5), status); zero without /proc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Memory without a file: heap and stacks.
    pub anonymous: u64,
    /// Mapped pages of files: mostly the program and its libraries.
    pub file: u64,
    /// Mapped pages of shared memory. Those of the arena are seldom mapped, and counted separately.
    pub shared: u64,
}

impl Resident {
    /// The current values.
    #[must_use]
    pub fn now() -> Self {
        std::fs::read_to_string("/proc/self/status").map_or_else(|_| Self::default(), |it| Self::read(&it))
    }

    fn read(status: &str) -> Self {
        let line = |name: &str| {
            let rest = status.lines().find_map(|it| it.strip_prefix(name)).unwrap_or_default();
            rest.split_whitespace().next().and_then(|it| it.parse().ok()).map_or(0, |it: u64| it * 1024)
        };
        Self { anonymous: line("RssAnon:"), file: line("RssFile:"), shared: line("RssShmem:") }
    }
}

/// The time limit for the workers to examine their heaps.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Heaps above this size are not examined mapping by mapping: the kernel takes a millisecond for some 100 MiB.
const LOOKED_THROUGH: u64 = 256 << 20;

/// The memory that the allocator holds, and has allocated.
pub struct Heap {
    workers: Vec<WorkerHeap>,
    /// Anonymous memory outside of the allocator, at its last measurement: stacks, and data of the program and its
    /// libraries. It hardly changes.
    outside_allocator: AtomicU64,
    /// Notified when a worker has examined its heap.
    looked: Notify,
}

#[derive(Default)]
#[repr(align(128))]
struct WorkerHeap {
    /// Whether it has been examined: a worker is asked once at its start.
    has_looked: AtomicBool,
    /// Notified when a measurement is requested.
    asked: Notify,
    used: AtomicU64,
    /// The store's heap bytes at that moment: see [`Heap::look`].
    books: AtomicU64,
    /// Its first measurement, before the first request.
    base: AtomicU64,
}

/// The result of [`Heap::look`], in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapReading {
    /// Memory allocated by the workers and the main thread before the first request: the configuration, routes, runtimes.
    pub base: u64,
    /// Resident memory of the allocator that is not allocated by them: partly used or kept pages, rounding by size
    /// classes and large pages of the kernel, and memory of other threads.
    pub unused: u64,
    /// Anonymous memory outside of the allocator.
    pub outside_allocator: u64,
}

impl Heap {
    /// For this number of workers.
    #[must_use]
    pub fn new(workers: NonZeroUsize) -> Arc<Self> {
        // The last is the main thread.
        let workers = (0..=workers.get()).map(|_| WorkerHeap::default()).collect();
        Arc::new(Self { workers, outside_allocator: AtomicU64::new(0), looked: Notify::new() })
    }

    /// Ready when a measurement of this worker is requested.
    pub async fn asked(&self, worker: usize) {
        self.workers[worker].asked.notified().await;
    }

    /// Requests a measurement from all workers, and waits for it a short time: the results are then of about the same
    /// moment, and recent. By the main thread alone; `books` is as for [`Heap::tick`].
    pub async fn measure_all(&self, books: u64) {
        for it in &self.workers {
            it.has_looked.store(false, Relaxed);
            it.asked.notify_one();
        }
        self.tick(self.workers.len() - 1, books);
        let all = async {
            while !self.workers.iter().all(|it| it.has_looked.load(Relaxed)) {
                self.looked.notified().await;
            }
        };
        let _ = tokio::time::timeout(TIMEOUT, all).await; // A busy worker is reported with its last figures.
    }

    /// Measures, in a worker, if requested since the last measurement. `books` is the store's number of heap bytes.
    pub fn tick(&self, worker: usize, books: u64) {
        let it = &self.workers[worker];
        if it.has_looked.swap(true, Relaxed) {
            return;
        }
        let used = used_here();
        it.used.store(used, Relaxed);
        it.books.store(books, Relaxed);
        let _ = it.base.compare_exchange(0, used, Relaxed, Relaxed);
        self.looked.notify_one();
    }

    /// The division of `anonymous` bytes of memory, by the last measurements of the workers. Of the allocated bytes,
    /// `untouched` are not resident.
    ///
    /// The measurement of a busy worker, after a purge, may be old. The change of the store's `books` since then is
    /// applied to its heap, by its share of all heaps.
    #[must_use]
    pub fn look(&self, anonymous: u64, untouched: u64, books: u64) -> HeapReading {
        let sum = |of: fn(&WorkerHeap) -> &AtomicU64| {
            self.workers.iter().map(|it| of(it).load(Relaxed)).sum::<u64>()
        };
        let (used, base) = (sum(|it| &it.used), sum(|it| &it.base));
        let then = |it: &WorkerHeap| {
            it.books.load(Relaxed) as f64 * it.used.load(Relaxed) as f64 / used.max(1) as f64
        };
        let since = books as f64 - self.workers.iter().map(then).sum::<f64>();
        let used = used.saturating_add_signed(since as i64);
        if anonymous < LOOKED_THROUGH || self.outside_allocator.load(Relaxed) == 0 {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
            self.outside_allocator.store(outside_allocator(&maps, is_of_heap), Relaxed);
        }
        let outside_allocator = self.outside_allocator.load(Relaxed);
        let used = used.saturating_sub(untouched);
        HeapReading { base, unused: anonymous.saturating_sub(outside_allocator + used), outside_allocator }
    }
}

/// Anonymous memory in mappings outside of the allocator (proc(5), smaps).
fn outside_allocator(maps: &str, is_of_heap: impl Fn(usize, usize) -> bool) -> u64 {
    let (mut sum, mut counts) = (0, false);
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|it| it.split_once('-'));
        let range = range.and_then(|it| {
            Some((usize::from_str_radix(it.0, 16).ok()?, usize::from_str_radix(it.1, 16).ok()?))
        });
        if let Some((start, end)) = range {
            counts = !is_of_heap(start, end);
        } else if let Some(rest) = line.strip_prefix("Anonymous:").filter(|_| counts) {
            let kib = rest.split_whitespace().next().and_then(|it| it.parse::<u64>().ok());
            sum += kib.unwrap_or(0) * 1024;
        }
    }
    sum
}

/// Whether the allocator has memory in this mapping.
fn is_of_heap(start: usize, end: usize) -> bool {
    /// The size and alignment of its mappings (`MI_SEGMENT_SIZE`).
    const SEGMENT: usize = 32 << 20;
    let next = start.checked_next_multiple_of(SEGMENT).unwrap_or(end);
    std::iter::once(start).chain((next..end).step_by(SEGMENT)).any(|it| {
        // SAFETY: looks the address up in the allocator's own tables, and reads its memory only if it is the allocator's.
        unsafe { libmimalloc_sys::mi_is_in_heap_region(std::ptr::without_provenance(it)) }
    })
}

/// Allocated bytes of this thread's heap, including rounding by size classes.
fn used_here() -> u64 {
    unsafe extern "C" fn add(
        _: *const libmimalloc_sys::mi_heap_t,
        area: *const libmimalloc_sys::mi_heap_area_t,
        block: *mut c_void,
        _: usize,
        sum: *mut c_void,
    ) -> bool {
        if block.is_null() {
            // SAFETY: the visitor is called with an area that lives during the call, and with the pointer below.
            let (area, sum) = unsafe { (&*area, &mut *sum.cast::<u64>()) };
            // `used` counts blocks (mimalloc v2, heap.c).
            *sum += (area.used * area.full_block_size) as u64;
        }
        true
    }
    let mut sum = 0_u64;
    // SAFETY: the default heap is this thread's own, and unchanged meanwhile; the visitor neither allocates nor frees,
    // and `sum` outlives the call.
    unsafe {
        let heap = libmimalloc_sys::mi_heap_get_default();
        libmimalloc_sys::mi_heap_visit_blocks(heap, false, Some(add), (&raw mut sum).cast());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_memory_of_the_kernel_is_read() {
        let status =
            "Name:\tlarder\nVmRSS:\t   30 kB\nRssAnon:\t   12 kB\nRssFile:\t   16 kB\nRssShmem:\t    2 kB\n";
        assert_eq!(Resident { anonymous: 12 << 10, file: 16 << 10, shared: 2 << 10 }, Resident::read(status));
        assert_eq!(Resident::default(), Resident::read("nothing of it"));
        assert!(Resident::now().anonymous > 1 << 16);
    }

    #[test]
    fn anonymous_memory_outside_of_the_allocator_is_summed() {
        let maps = "1000-2000 rw-p 00000000 00:00 0\nRss:  9 kB\nAnonymous:   8 kB\n\
                    5000-6000 rw-p 00000000 00:00 0  [stack]\nAnonymous:   3 kB\nVmFlags: rd\n";
        assert_eq!(3 << 10, outside_allocator(maps, |start, _| start == 0x1000));
        assert_eq!(11 << 10, outside_allocator(maps, |_, _| false));
        assert_eq!(0, outside_allocator("nothing of it", |_, _| false));
    }

    #[test]
    fn workers_report_their_heap_on_request() {
        let heap = Heap::new(NonZeroUsize::MIN);
        let used = || heap.workers[0].used.load(Relaxed);
        heap.tick(0, 0);
        heap.workers[0].used.store(77, Relaxed);
        heap.tick(0, 0);
        assert_eq!(77, used(), "nobody had asked");
        let found = heap.look(1 << 40, 0, 0);
        assert!(found.outside_allocator > 0 && found.unused > 1 << 39, "{found:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let worker = async {
                heap.asked(0).await;
                heap.tick(0, 1 << 20);
            };
            tokio::join!(heap.measure_all(1 << 20), worker);
        });
        assert_ne!(77, used());
        // Bytes that the books have lost since are not handed out any more, also before a measurement.
        let lost = |books| heap.look(1 << 40, 0, books).unused - heap.look(1 << 40, 0, 1 << 20).unused;
        assert_eq!([0, 1 << 19], [1 << 20, 1 << 19].map(lost));
    }
}
