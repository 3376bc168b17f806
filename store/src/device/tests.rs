//! The layer that makes calls to the file system fail, in tests of the disk tier and of the spool.

use super::syscalls::Syscall;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Which calls fail, and how.
#[derive(Default)]
pub(crate) struct Faults {
    plan: Mutex<Plan>,
    /// How many more writes may begin; the next one waits. `None` where all may.
    writes: Mutex<Option<u64>>,
    let_in: Condvar,
    room: Mutex<Room>,
    /// `Some`: nothing is in the page cache; and whether reads hang.
    cold: Mutex<Option<bool>>,
    read_on: Condvar,
    /// Writes say that they are done, and nothing is written.
    loses: AtomicBool,
}

/// For how many segments the device has room, which are all that is unlinked.
#[derive(Default)]
struct Room {
    most: Option<usize>,
    held: usize,
}

#[derive(Default)]
struct Plan {
    /// Calls since the plan was made.
    calls: u64,
    fail: Option<Fail>,
}

/// Calls that fail.
#[derive(Clone, Copy)]
pub(crate) struct Fail {
    /// The first, counted from one.
    pub first: u64,
    /// How many in a row.
    pub count: u64,
    /// Its error.
    pub errno: Errno,
}

impl Faults {
    pub fn check(&self, call: Syscall) -> Result<(), Errno> {
        if call == Syscall::Write {
            let mut writes = self.writes.lock();
            while *writes == Some(0) {
                self.let_in.wait(&mut writes);
            }
            *writes = writes.map(|it| it - 1);
        }
        if matches!(call, Syscall::Read | Syscall::ReadNow | Syscall::Resident) {
            let mut cold = self.cold.lock();
            if cold.is_some() && call != Syscall::Read {
                return Err(Errno::AGAIN);
            }
            while *cold == Some(true) {
                self.read_on.wait(&mut cold);
            }
        }
        self.has_room(call)?;
        let mut plan = self.plan.lock();
        plan.calls += 1;
        match plan.fail {
            Some(it) if plan.calls >= it.first && plan.calls - it.first < it.count => Err(it.errno),
            _ => Ok(()),
        }
    }

    /// From now on writes are lost, or are not any more.
    pub fn lose_writes(&self, loses: bool) {
        self.loses.store(loses, Relaxed);
    }

    pub fn loses_writes(&self) -> bool {
        self.loses.load(Relaxed)
    }

    fn has_room(&self, call: Syscall) -> Result<(), Errno> {
        let mut room = self.room.lock();
        match call {
            // One for which there is no room is unlinked, too.
            Syscall::Allocate => room.held += 1,
            Syscall::Unlink => room.held = room.held.saturating_sub(1),
            _ => return Ok(()),
        }
        match room.most {
            Some(most) if call == Syscall::Allocate && room.held > most => Err(Errno::NOSPC),
            _ => Ok(()),
        }
    }

    /// From now on nothing is in the page cache, and reads hang or do not any more.
    pub fn reads_hang(&self, hang: bool) {
        *self.cold.lock() = Some(hang);
        self.read_on.notify_all();
    }

    /// The device has room for this number of segments; with `None` for any.
    pub fn has_room_for(&self, segments: Option<usize>) {
        self.room.lock().most = segments;
    }

    /// Fails as told from now on.
    pub fn plan(&self, fail: Option<Fail>) {
        *self.plan.lock() = Plan { fail, ..Plan::default() };
    }

    /// Calls since the plan was made.
    pub fn calls(&self) -> u64 {
        self.plan.lock().calls
    }

    /// The device accepts this number of further writes and then hangs; with `None` it is healthy.
    pub fn let_in(&self, writes: Option<u64>) {
        *self.writes.lock() = writes;
        self.let_in.notify_all();
    }
}
