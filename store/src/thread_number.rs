//! The number of a serving thread, by which entries know the thread that allocated them: see `deferred_free`.

use std::cell::Cell;

/// The number of a thread that has a free list; zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadNumber(u16);

thread_local! {
    static HERE: Cell<ThreadNumber> = const { Cell::new(ThreadNumber(0)) };
}

impl ThreadNumber {
    /// That of a thread without a free list.
    pub const NONE: ThreadNumber = ThreadNumber(0);

    /// This number; zero is [`Self::NONE`].
    pub fn new(number: u16) -> ThreadNumber {
        ThreadNumber(number)
    }

    /// The number as an integer.
    pub fn get(self) -> u16 {
        self.0
    }

    /// Gives this thread the number.
    pub fn set_here(self) {
        HERE.set(self);
    }

    /// The number of this thread.
    pub fn here() -> ThreadNumber {
        HERE.get()
    }
}
