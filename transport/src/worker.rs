//! What the connections of one worker thread share: limits, counters, scratch buffers, the sweep of
//! deadlines, and the word that the worker is draining. One per thread, never shared between threads.

use crate::http1::Outbox;
use larder_counters::Counters;
use larder_stdx::clock;
use rustix::net::Shutdown;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Bounds of client connections, from the configuration; replaced as a whole on reload.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request head.
    pub head_size: usize,
    /// Bytes of a request target.
    pub target_size: usize,
    /// Bytes of a request body.
    pub body_size: u64,
    /// Time for a whole head, from its first byte (or from accept).
    pub head_timeout: Duration,
    /// Longest silence within a request body.
    pub body_timeout: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Longest time in which a client takes no byte of its response.
    pub write_timeout: Duration,
    /// Least bytes per second of body and response over any ten seconds; 0 is off.
    pub min_rate: u64,
    /// Open client connections of this worker.
    pub connections: usize,
}

/// Bytes that a connection reads at once, at least.
const SCRATCH: usize = 64 * 1024;
/// The window of `min_rate`, milliseconds.
const RATE_WINDOW: u64 = 10_000;

/// The state of one worker.
pub struct Worker {
    /// Its counters; only this worker writes.
    pub counters: Arc<Counters>,
    limits: Cell<Limits>,
    draining: Cell<bool>,
    watched: RefCell<Vec<Option<Rc<Watched>>>>,
    free: RefCell<Vec<usize>>,
    open: Cell<usize>,
    pub(crate) input: RefCell<Vec<u8>>,
    pub(crate) output: Cell<Option<Box<Outbox>>>,
    stop: Notify,
    empty: Notify,
}

/// What a connection waits for; each phase has its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The next request.
    Idle,
    /// The rest of a head.
    Head,
    /// More of a request body.
    Body,
    /// Room for more of a response.
    Write,
    /// The client's own close, after ours.
    Linger,
    /// Nothing that the client owes: an answer is being made.
    Answer,
}

/// A connection as the sweep sees it.
pub(crate) struct Watched {
    pub io: AsyncFd<OwnedFd>,
    pub phase: Cell<Phase>,
    /// Monotonic milliseconds; `u64::MAX` where there is none.
    pub deadline: Cell<u64>,
    /// Set by the sweep, which also shut the socket down.
    pub expired: Cell<bool>,
    /// Bytes moved since the window began, and when that was.
    pub moved: Cell<u64>,
    window: Cell<u64>,
    place: Cell<usize>,
}

impl Worker {
    /// A worker without connections. Within a `LocalSet`, [`Worker::watch`] must run beside it.
    #[must_use]
    pub fn new(counters: Arc<Counters>, limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            counters,
            limits: Cell::new(limits),
            draining: Cell::new(false),
            watched: RefCell::default(),
            free: RefCell::default(),
            open: Cell::new(0),
            input: RefCell::new(Vec::new()),
            output: Cell::new(None),
            stop: Notify::new(),
            empty: Notify::new(),
        })
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// Puts other limits in force; deadlines that run already stay.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
    }

    /// Whether the worker takes nothing new.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Open client connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.get()
    }

    /// Stops accepting, closes what is idle, and lets the rest finish.
    pub fn drain(&self) {
        self.draining.set(true);
        self.stop.notify_waiters();
        for it in self.watched.borrow().iter().flatten() {
            if it.phase.get() == Phase::Idle {
                it.shut(Shutdown::Read);
            }
        }
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Waits until no connection is left.
    pub async fn drained(&self) {
        while self.open.get() > 0 {
            self.empty.notified().await;
        }
    }

    /// Waits until the worker drains.
    pub(crate) async fn stopped(&self) {
        while !self.draining.get() {
            self.stop.notified().await;
        }
    }

    /// Ticks the clock and cuts off whoever is too slow, for as long as the worker lives.
    pub async fn watch(self: Rc<Self>) {
        loop {
            tokio::time::sleep(self.pace()).await;
            clock::tick();
            self.sweep(clock::monotonic().0);
        }
    }

    /// A quarter of the shortest limit, within reason: a deadline is met that much late at most.
    fn pace(&self) -> Duration {
        let it = self.limits.get();
        let shortest = it.head_timeout.min(it.body_timeout).min(it.idle_timeout).min(it.write_timeout);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_millis(250))
    }

    fn sweep(&self, now: u64) {
        let limits = self.limits.get();
        for it in self.watched.borrow().iter().flatten() {
            if it.expired.get() || !(it.deadline.get() <= now || it.is_too_slow(now, limits.min_rate)) {
                continue;
            }
            it.expired.set(true);
            let counters = &self.counters;
            match it.phase.get() {
                Phase::Idle => counters.client_idle_timeouts.add(1),
                Phase::Head => counters.client_head_timeouts.add(1),
                Phase::Body => counters.client_body_timeouts.add(1),
                Phase::Write => counters.client_write_timeouts.add(1),
                Phase::Linger | Phase::Answer => {}
            }
            // Whoever is read from may still be answered; whoever does not read may not.
            let how = if it.phase.get() == Phase::Write { Shutdown::Both } else { Shutdown::Read };
            it.shut(how);
        }
    }

    /// Takes a connection on; `None` where the limit is reached.
    pub(crate) fn admit(&self, socket: OwnedFd) -> Option<std::io::Result<Rc<Watched>>> {
        if self.open.get() >= self.limits.get().connections {
            self.counters.connections_refused.add(1);
            return None;
        }
        let io = match watch(socket) {
            Ok(io) => io,
            Err(error) => return Some(Err(error)),
        };
        let now = clock::monotonic().0;
        let place = self.free.borrow_mut().pop();
        let mut watched = self.watched.borrow_mut();
        let place = place.unwrap_or(watched.len());
        let it = Rc::new(Watched {
            io,
            phase: Cell::new(Phase::Head),
            deadline: Cell::new(u64::MAX),
            expired: Cell::new(false),
            moved: Cell::new(0),
            window: Cell::new(now),
            place: Cell::new(place),
        });
        if place == watched.len() {
            watched.push(Some(it.clone()));
        } else {
            watched[place] = Some(it.clone());
        }
        self.open.set(self.open.get() + 1);
        self.counters.connections_accepted.add(1);
        self.counters.connections_open.add(1);
        Some(Ok(it))
    }

    pub(crate) fn dismiss(&self, it: &Watched) {
        let place = it.place.get();
        self.watched.borrow_mut()[place] = None;
        self.free.borrow_mut().push(place);
        self.open.set(self.open.get() - 1);
        self.counters.connections_open.sub(1);
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// The scratch that requests are read into, at least as long as a head may be.
    pub(crate) fn size_input(&self, input: &mut Vec<u8>) {
        let size = SCRATCH.max(self.limits.get().head_size + SCRATCH / 4);
        if input.len() < size {
            input.resize(size, 0);
        }
    }
}

impl Watched {
    /// Begins a phase with its deadline; a zero limit is none.
    pub fn enter(&self, phase: Phase, limit: Duration) {
        if self.phase.get() != phase {
            self.window.set(clock::monotonic().0);
            self.moved.set(0);
        }
        self.phase.set(phase);
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.deadline.set(match limit {
            0 => u64::MAX,
            limit => clock::monotonic().0.saturating_add(limit),
        });
    }

    fn is_too_slow(&self, now: u64, min_rate: u64) -> bool {
        if min_rate == 0 || !matches!(self.phase.get(), Phase::Body | Phase::Write) {
            return false;
        }
        if now < self.window.get() + RATE_WINDOW {
            return false;
        }
        let slow = self.moved.get() < min_rate * RATE_WINDOW / 1000;
        self.window.set(now);
        self.moved.set(0);
        slow
    }

    pub fn shut(&self, how: Shutdown) {
        // It may be gone already; its task will find out.
        let _ = rustix::net::shutdown(self.fd(), how);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.io.get_ref().as_fd()
    }
}

/// Has the event loop of this thread watch a socket.
///
/// # Errors
/// The kernel takes no more.
pub(crate) fn watch(socket: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and names the same file until it is dropped; the `AsyncFd` owns it, and lends it
    // only by shared reference.
    unsafe { AsyncFd::register(socket) }.map_err(std::io::Error::from)
}
