//! The arenas of a store: the one that new bodies enter, and for a time those of an upgrade (`arena::lending`).

use super::{Store, StoredBody};
use crate::arena::{Arena, ArenaInUse, InheritedArena, LentArena, NoPages};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::{Arc, Weak};

/// The arenas of a store.
pub(crate) struct Arenas {
    /// For new bodies.
    present: RwLock<Arc<Arena>>,
    /// Those that may have extents.
    all: Mutex<Vec<Weak<Arena>>>,
    /// The arena that the process which replaces this one uses.
    lent: Mutex<Option<ArenaInUse>>,
    /// The arena of the process that this one replaces.
    inherited: Mutex<Option<InheritedArena>>,
}

impl Arenas {
    /// With one arena.
    pub fn new(arena: Arc<Arena>) -> Self {
        let all = Mutex::new(vec![Arc::downgrade(&arena)]);
        Self { present: RwLock::new(arena), all, lent: Mutex::default(), inherited: Mutex::default() }
    }

    /// That for new bodies.
    pub fn present(&self) -> Arc<Arena> {
        self.present.read().clone()
    }

    /// Bytes of memory that all take now. Pages that two processes share count in both.
    pub fn resident(&self) -> u64 {
        self.all.lock().iter().filter_map(Weak::upgrade).map(|it| it.resident()).sum()
    }

    /// Remembers a lent arena until the process that uses it is known to serve, or to have failed.
    pub fn keep_lent(&self, lent: ArenaInUse) {
        *self.lent.lock() = Some(lent);
    }

    /// Remembers an inherited arena until its lender ends.
    pub fn keep_inherited(&self, inherited: InheritedArena) {
        let mut all = self.all.lock();
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&inherited.arena));
        *self.inherited.lock() = Some(inherited);
    }
}

impl Store {
    /// Lends the arena for new bodies to another process.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn lend_arena(&self) -> io::Result<(ArenaInUse, LentArena)> {
        self.arenas.present().lend()
    }

    /// The process to which RAM was handed over has failed, and has ended.
    pub fn reclaim_arena(&self) {
        let lent = self.arenas.lent.lock().take();
        if let Some(lent) = lent {
            lent.reclaim();
        }
    }

    /// Uses the arena of the process that this one replaces for new bodies, once that has ended. Waits until then; at once where
    /// there is none.
    pub fn open_inherited_arena(&self) {
        let inherited = self.arenas.inherited.lock().take();
        if let Some(inherited) = inherited {
            let arena = inherited.open();
            *self.arenas.present.write() = arena;
        }
    }

    /// The body at a place of an inherited arena; `None` where RAM has no room for it. Evicts as needed.
    ///
    /// # Errors
    /// The lender has no body there.
    pub(crate) fn claim(
        &self,
        from: &InheritedArena,
        offset: u64,
        length: u64,
    ) -> Result<Option<StoredBody>, NoPages> {
        if self.reserve(from.arena.cost(length)).is_err() {
            return Ok(None);
        }
        from.claim(offset, length).map(|it| Some(StoredBody::Arena(Box::new(it))))
    }
}
