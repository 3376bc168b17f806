//! S3-FIFO by bytes: which object is evicted when room is needed. Pure: no locks, no clock, no data. The caller keeps the
//! use counts, so that a hit never comes here.
//!
//! ```text
//! new ──> small (10 %) ──used twice──> main ──unused──> evicted
//!            │                          ^ └─used: once round again
//!            └─otherwise──> evicted, remembered in ghost ──returns──┘
//! ```
//!
//! Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023), with one difference: one eviction examines
//! at most [`MOST_EXAMINED`] objects, since a whole round over a hot cache takes too long under a lock.

use crate::memory_budget::on_heap;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Objects that one eviction examines before it takes a used one.
pub const MOST_EXAMINED: usize = 1024;

/// With more objects than these [`S3Fifo::shrink`] does nothing.
const FITTED: usize = 16 * 1024;

/// The use count at which counting stops. The caller counts uses.
pub const MOST_USES: u8 = 3;

/// Uses after which an object moves from the small queue to the main one.
const PROMOTE: u8 = 2;

/// The most remembered evictions are as many as the present objects, but at least this many.
const GHOSTS: usize = 1024;

const NIL: u32 = u32::MAX;

/// Memory that is no longer needed.
pub struct FreedMemory<Id, S> {
    _nodes: Vec<QueueNode<Id>>,
    _ghosts: Option<Ghosts<Id, S>>,
}

/// Names an object in a queue, from [`S3Fifo::insert`] until it is evicted or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub(crate) u32);

/// The progress of a walk over all objects: see [`S3Fifo::walk`]. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkPosition {
    at: usize,
    fits: u32,
}

/// The change of an object's use count when it is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Becomes zero.
    Clear,
    /// Falls by one, not below zero.
    Lower,
}

impl Count {
    /// The count after this.
    #[must_use]
    pub fn apply(self, uses: u8) -> u8 {
        match self {
            Count::Clear => 0,
            Count::Lower => uses.saturating_sub(1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FifoQueue {
    Small,
    Main,
    Free,
}

struct QueueNode<Id> {
    id: Id,
    /// Larger objects count as this size.
    size: u32,
    newer: u32,
    older: u32,
    queue: FifoQueue,
}

#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    bytes: u64,
}

impl List {
    const EMPTY: List = List { newest: NIL, oldest: NIL, bytes: 0 };
}

/// The queues. `Id` is cheap to copy: a hash, not a key.
pub struct S3Fifo<Id, S = RandomState> {
    nodes: Vec<QueueNode<Id>>,
    free: u32,
    live: usize,
    small: List,
    main: List,
    ghosts: Ghosts<Id, S>,
    small_target: u64,
    /// How often [`S3Fifo::shrink`] has moved the objects.
    fits: u32,
}

impl<Id: Copy + Eq + Hash, S: BuildHasher + Default> S3Fifo<Id, S> {
    /// Empty queues for a cache of `capacity` bytes. They do not enforce it: call [`S3Fifo::evict`] when there is too
    /// much.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let small_target = capacity / 10;
        Self {
            nodes: Vec::new(),
            free: NIL,
            live: 0,
            small: List::EMPTY,
            main: List::EMPTY,
            ghosts: Ghosts::new(capacity - small_target),
            small_target,
            fits: 0,
        }
    }

    /// Adds an object of `size` bytes that is in no queue; its use count starts at zero.
    pub fn insert(&mut self, id: Id, size: u64) -> Handle {
        let queue = if self.ghosts.take(&id) { FifoQueue::Main } else { FifoQueue::Small };
        self.insert_in(id, size, queue)
    }

    fn insert_in(&mut self, id: Id, size: u64, queue: FifoQueue) -> Handle {
        let node = QueueNode { id, size: narrow(size), newer: NIL, older: NIL, queue: FifoQueue::Free };
        let at = if self.free == NIL {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1)
                .expect("4 Gi objects would need 200 GiB for their nodes alone")
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].older;
            self.nodes[at as usize] = node;
            at
        };
        self.live += 1;
        self.link(at, queue);
        Handle(at)
    }

    /// Changes the size of an object, which keeps its place.
    pub fn resize(&mut self, handle: Handle, size: u64) {
        let node = &mut self.nodes[handle.0 as usize];
        let size = narrow(size);
        let old = std::mem::replace(&mut node.size, size);
        let list = match node.queue {
            FifoQueue::Small => &mut self.small,
            FifoQueue::Main => &mut self.main,
            FifoQueue::Free => return,
        };
        list.bytes = list.bytes - u64::from(old) + u64::from(size);
    }

    /// Removes an object without remembering it.
    pub fn remove(&mut self, handle: Handle) {
        self.unlink(handle.0);
        self.release(handle.0);
    }

    /// Removes the object of least value and returns it; `None` where there is none. `uses` applies a [`Count`] to the
    /// object's use count and returns the previous count.
    pub fn evict(&mut self, mut uses: impl FnMut(Id, Count) -> u8) -> Option<Id> {
        for look in 0.. {
            let from_small =
                self.small.oldest != NIL && (self.small.bytes > self.small_target || self.main.oldest == NIL);
            let at = if from_small { self.small.oldest } else { self.main.oldest };
            if at == NIL {
                return None;
            }
            let QueueNode { id, size, .. } = self.nodes[at as usize];
            let used = match from_small {
                true => uses(id, Count::Clear) >= PROMOTE,
                false => uses(id, Count::Lower) > 0,
            };
            self.unlink(at);
            if used && look < MOST_EXAMINED {
                self.link(at, FifoQueue::Main);
                continue;
            }
            self.release(at);
            if from_small {
                self.ghosts.add(id, size, self.live.max(GHOSTS));
            }
            return Some(id);
        }
        None
    }

    /// Frees memory for many objects where few are left, and all of it where there is none: `moved` gets every object's
    /// new handle. The result must be dropped without a lock.
    pub fn shrink(&mut self, mut moved: impl FnMut(Id, Handle)) -> FreedMemory<Id, S> {
        let is_small = self.nodes.len() <= 4 * self.live.max(GHOSTS);
        if is_small && !self.is_empty() || self.live > FITTED {
            return FreedMemory { _nodes: Vec::new(), _ghosts: None };
        }
        self.fits = self.fits.wrapping_add(1);
        let old = std::mem::take(&mut self.nodes);
        let lists = [(FifoQueue::Small, self.small.oldest), (FifoQueue::Main, self.main.oldest)];
        self.free = NIL;
        self.nodes = Vec::with_capacity(self.live);
        (self.small, self.main, self.live) = (List::EMPTY, List::EMPTY, 0);
        for (queue, mut at) in lists {
            while let Some(node) = old.get(at as usize) {
                let (id, size) = (node.id, u64::from(node.size));
                at = node.newer;
                let handle = self.insert_in(id, size, queue);
                moved(id, handle);
            }
        }
        let most = self.live.max(GHOSTS);
        let ghosts = (self.is_empty() || self.ghosts.known.len() > most).then(|| {
            let anew = Ghosts::new(self.ghosts.most_bytes);
            std::mem::replace(&mut self.ghosts, anew)
        });
        FreedMemory { _nodes: old, _ghosts: ghosts }
    }

    /// Visits the objects in the next `places` places from `from` on, and returns where the walk continues; `None` at its
    /// end. An object keeps its place until it leaves, and a new one takes a free place: so the order is approximately
    /// that of arrival. Objects that arrive during a walk may be visited or not; after [`S3Fifo::shrink`] has moved all, the
    /// walk starts again.
    #[must_use]
    pub fn walk(&self, from: WalkPosition, places: usize, mut each: impl FnMut(Id)) -> Option<WalkPosition> {
        let at = if from.fits == self.fits { from.at } else { 0 };
        let rest = self.nodes.get(at..).unwrap_or_default();
        let next = &rest[..places.min(rest.len())];
        next.iter().filter(|it| it.queue != FifoQueue::Free).for_each(|it| each(it.id));
        (next.len() < rest.len()).then_some(WalkPosition { at: at + next.len(), fits: self.fits })
    }

    /// Objects in the queues.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Bytes of all objects in the queues.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    /// Bytes of the queues themselves, including memory that they once needed and could not free.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        let Ghosts { known, order, .. } = &self.ghosts;
        (self.nodes.len() * size_of::<QueueNode<Id>>()) as u64
            + on_heap(table_bytes::<(Id, Ghost)>(known.capacity()))
            + on_heap(order.capacity() * size_of::<(Id, u32)>())
    }

    /// Bytes allocated for the queues and not touched: they are not resident.
    #[must_use]
    pub fn untouched(&self) -> u64 {
        on_heap(self.nodes.capacity() * size_of::<QueueNode<Id>>())
            - (self.nodes.len() * size_of::<QueueNode<Id>>()) as u64
    }

    fn list(&mut self, queue: FifoQueue) -> &mut List {
        if queue == FifoQueue::Small { &mut self.small } else { &mut self.main }
    }

    fn link(&mut self, at: u32, queue: FifoQueue) {
        let newest = self.list(queue).newest;
        let node = &mut self.nodes[at as usize];
        debug_assert_eq!(FifoQueue::Free, node.queue);
        (node.queue, node.older, node.newer) = (queue, newest, NIL);
        let size = u64::from(node.size);
        if newest != NIL {
            self.nodes[newest as usize].newer = at;
        }
        let list = self.list(queue);
        list.newest = at;
        list.bytes += size;
        if list.oldest == NIL {
            list.oldest = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let (queue, newer, older, size) = (node.queue, node.newer, node.older, u64::from(node.size));
        assert_ne!(FifoQueue::Free, queue, "a handle was used after its object had gone");
        node.queue = FifoQueue::Free;
        if newer != NIL {
            self.nodes[newer as usize].older = older;
        }
        if older != NIL {
            self.nodes[older as usize].newer = newer;
        }
        let list = self.list(queue);
        list.bytes -= size;
        if list.newest == at {
            list.newest = older;
        }
        if list.oldest == at {
            list.oldest = newer;
        }
    }

    fn release(&mut self, at: u32) {
        self.nodes[at as usize].older = self.free;
        self.free = at;
        self.live -= 1;
    }
}

/// Bytes of a hash table that reports room for `capacity`. It has an entry and a control byte for each bucket, a power of
/// two of which an eighth stays free; and the first group of control bytes once more (hashbrown). A removed entry may
/// keep its bucket until the table is rebuilt, and is not in its capacity: hence the power of two above.
pub(crate) fn table_bytes<T>(capacity: usize) -> usize {
    /// Control bytes that are compared together.
    const GROUP: usize = 16;
    if capacity == 0 {
        return 0;
    }
    let buckets = (capacity * 8).div_ceil(7).next_power_of_two().max(4);
    (buckets * size_of::<T>()).next_multiple_of(GROUP) + buckets + GROUP
}

/// Objects that recently left the small queue: names and sizes only.
struct Ghosts<Id, S> {
    known: HashMap<Id, Ghost, S>,
    order: VecDeque<(Id, u32)>,
    bytes: u64,
    most_bytes: u64,
    serial: u32,
}

struct Ghost {
    serial: u32,
    size: u32,
}

fn narrow(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl<Id: Copy + Eq + Hash, S: BuildHasher + Default> Ghosts<Id, S> {
    fn new(most_bytes: u64) -> Self {
        Self { known: HashMap::default(), order: VecDeque::new(), bytes: 0, most_bytes, serial: 0 }
    }

    fn add(&mut self, id: Id, size: u32, most: usize) {
        self.take(&id);
        self.serial = self.serial.wrapping_add(1);
        self.known.insert(id, Ghost { serial: self.serial, size });
        self.order.push_back((id, self.serial));
        self.bytes += u64::from(size);
        while self.known.len() > most || self.bytes > self.most_bytes || self.order.len() > 2 * most {
            let Some((id, serial)) = self.order.pop_front() else { break };
            // A name that returned and left again is further back, with another serial.
            if self.known.get(&id).is_some_and(|it| it.serial == serial) {
                self.take(&id);
            }
        }
        // The memory for many small objects is freed when there are few large ones.
        if self.known.capacity() > 8 * most {
            self.known.shrink_to(2 * most);
            self.order.shrink_to(2 * most);
        }
    }

    fn take(&mut self, id: &Id) -> bool {
        let Some(ghost) = self.known.remove(id) else { return false };
        self.bytes -= u64::from(ghost.size);
        true
    }
}

#[cfg(test)]
#[path = "s3fifo/tests.rs"]
mod tests;
