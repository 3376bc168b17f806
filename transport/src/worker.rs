//! The state that the connections of one worker thread share: limits, counters, buffers, the timeout sweep, the drain flag.

use crate::eager_read::EagerRead;
use crate::future_pool::FuturePool;
use crate::outbox::Outbox;
use crate::tls::ServerTls;
use crate::tls::session::TlsBuffers;
use crate::transfer_rate::TransferRate;
use crate::unread_bytes::UnreadSum;
use larder_counters::Counters;
use larder_semantics::network::Peers;
use larder_semantics::scheme::Scheme;
use larder_stdx::clock;
use larder_stdx::descriptors::{self, HeldDescriptor};
use larder_wire::http2::hpack::Section;
use larder_wire::message::HeadLimits;
use rustix::net::Shutdown;
use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::runtime::LocalRuntime;
use tokio::sync::Notify;

/// The limits of client connections, from the configuration; replaced as a whole on reload.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Bytes of a request head.
    pub head_size: usize,
    /// Bytes of a request target.
    pub target_size: usize,
    /// Bytes of a request body; a route may permit fewer.
    pub body_size: u64,
    /// The time for a complete head, from its first byte (or from accept).
    pub head_timeout: Duration,
    /// Longest silence within a request body.
    pub body_timeout: Duration,
    /// The time for which a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// The longest time without progress of a response.
    pub write_timeout: Duration,
    /// The minimum rate in bytes per second of body and response over any ten seconds of waiting for the client; 0 is
    /// off.
    pub min_rate: u64,
    /// Open client connections of all workers that share their [`ConnectionLimit`].
    pub connections: usize,
    /// Simultaneous streams of one HTTP/2 connection.
    pub http2_streams: u32,
    /// Whether extended CONNECT (RFC 8441) is offered over HTTP/2: some route forwards upgrades.
    pub upgrades: bool,
}

/// Resident bytes of an open idle connection, rounded up: measured, see docs/benchmarks.md. A connection with a request
/// in progress shares its worker's buffers, or temporarily has its own.
pub const CONNECTION_BYTES: u64 = 1024;
/// Additional bytes with TLS (rustls keeps the keys and the state of both directions): measured likewise.
pub const TLS_BYTES: u64 = 4480;
/// The same, over HTTP/2.
pub const HTTP2_BYTES: u64 = 1248;

/// Bytes that a connection reads at once, at least.
const SCRATCH: usize = 64 * 1024;
/// A client that received two, three, at most four times this many bytes at once may be silent for that multiple of the
/// limit.
const STEP: u64 = 256 * 1024;
const MOST_STEPS: u64 = 4;
/// The time for which a new connection without a request, or an idle one, delays a drain, milliseconds.
const SHUTDOWN_GRACE: u64 = 1_000;
/// Queries the bytes of a socket that its peer has not acknowledged (`SIOCOUTQ` of tcp(7), which is the same number).
const TIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
/// No deadline.
const NEVER: u64 = u64::MAX;
/// The runtime of a worker thread.
///
/// # Errors
/// The system has no descriptors for it.
pub fn runtime() -> std::io::Result<LocalRuntime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build_local(tokio::runtime::LocalOptions::default())
}

mod connection_limit;
mod drain;
mod request_limits;
mod shedding;

pub use connection_limit::ConnectionLimit;
pub(crate) use connection_limit::{ConnectionPermit, ConnectionPresence, QuicConnections, QuicServices};
pub(crate) use drain::turn_to_leave;
pub use request_limits::{RequestLimits, TransferLimits};
pub(crate) use shedding::MOST_CLOSED;

/// The state of one worker.
pub struct TransportWorker {
    /// Its counters; only this worker writes.
    pub counters: Arc<Counters>,
    limits: Cell<ClientLimits>,
    times: Cell<Times>,
    draining: Cell<bool>,
    leaves_queues: Cell<bool>,
    /// The time for which an idle connection is still read when it leaves, milliseconds.
    grace: Cell<u64>,
    /// The time over which the connections of a drain leave.
    leave_span: Cell<Duration>,
    sockets: RefCell<Vec<Option<Rc<OpenSocket>>>>,
    free: RefCell<Vec<usize>>,
    open: Cell<usize>,
    /// The limit for its connections, and its upgraded streams, including requested upgrades.
    connection_limit: Arc<ConnectionLimit>,
    last_check: Cell<u64>,
    /// Whether clients wait in the accept queue while descriptors are scarce: see [`TransportWorker::reserve_descriptors`].
    reserves_descriptors: Cell<bool>,
    /// Whether requests are measured: see [`TransportWorker::measure_while`].
    is_measured: OnceCell<Arc<AtomicBool>>,
    tls: OnceCell<Arc<ServerTls>>,
    /// The peers that may send PROXY headers; `None` is every peer.
    pub(crate) proxies: RefCell<Option<Peers>>,
    pub(crate) input: RefCell<Vec<u8>>,
    /// The buffer for HTTP/2 field sections.
    pub(crate) section: RefCell<Section>,
    /// The received bytes of bodies that nothing has read yet, over HTTP/2 and HTTP/3.
    pub(crate) unread: UnreadSum,
    pub(crate) output: Cell<Option<Box<Outbox>>>,
    /// Received sealed bytes, and the buffers for opening and sealing: empty without TLS.
    pub(crate) sealed: RefCell<Vec<u8>>,
    pub(crate) seals: RefCell<TlsBuffers>,
    pub(crate) future_pool: FuturePool,
    pub(crate) eager_read: EagerRead,
    pub(crate) quic: QuicServices,
    stop: Notify,
    empty: Notify,
}

/// The time limits in milliseconds, as for deadlines; [`NEVER`] if off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub head: u64,
    pub body: u64,
    pub idle: u64,
    pub write: u64,
}

impl Times {
    fn new(limits: &ClientLimits) -> Self {
        Self {
            head: Self::millis(limits.head_timeout),
            body: Self::millis(limits.body_timeout),
            idle: Self::millis(limits.idle_timeout),
            write: Self::millis(limits.write_timeout),
        }
    }

    fn millis(it: Duration) -> u64 {
        u64::try_from(it.as_millis()).ok().filter(|it| *it > 0).unwrap_or(NEVER)
    }
}

/// The awaited input of a connection; each has its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPhase {
    /// The first request, without a byte yet.
    First,
    /// The next request, without a byte yet.
    Idle,
    /// The rest of a head.
    Head,
    /// More of a request body.
    Body,
    /// The client's own close, after ours.
    Linger,
    /// None: a response is being made.
    Nothing,
}

/// The reason why the sweep shut a connection down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    No,
    /// Input did not arrive: the client can still be answered.
    Reading(ReadPhase),
    /// The client did not take its response.
    Writing,
}

/// A connection as seen by the sweep.
pub(crate) struct OpenSocket {
    /// Before `socket`: it must be dropped before that is closed. See [`OpenSocket::io`].
    io: OnceCell<AsyncFd<RawFd>>,
    socket: OwnedFd,
    read_once: Cell<bool>,
    reading: Cell<ReadPhase>,
    /// Monotonic milliseconds.
    read_by: Cell<u64>,
    write_by: Cell<u64>,
    /// Bytes that the kernel got for the client, and the acknowledged ones of these at the last check.
    sent_bytes: Cell<u64>,
    acked_bytes: Cell<u64>,
    /// Bytes that it acknowledged without a pause, most recently; and whether it has been silent since.
    burst_bytes: Cell<u64>,
    is_silent: Cell<bool>,
    expired: Cell<Expired>,
    /// Bytes that the client sent or took.
    moved_bytes: Cell<u64>,
    rate: TransferRate,
    index: Cell<usize>,
    /// Whether it serves the requests that have arrived, and then ends.
    is_leaving: Cell<bool>,
    /// The task of a protocol that announces the end itself.
    leave_waker: Cell<Option<Waker>>,
    /// The limits of its current request, if they are not those of the worker.
    transfer_limits: Cell<Option<Box<TransferLimits>>>,
    /// Its permit of the connection limit.
    _permit: ConnectionPermit,
    /// Its counted descriptor.
    descriptor: Option<HeldDescriptor>,
    /// Present while the client may need another descriptor for its request.
    reserved_descriptor: Cell<Option<HeldDescriptor>>,
}

impl TransportWorker {
    /// A worker without connections, and without other workers. [`TransportWorker::watch`] must run concurrently.
    #[must_use]
    pub fn new(counters: Arc<Counters>, limits: ClientLimits) -> Rc<Self> {
        Self::sharing(Arc::default(), counters, limits)
    }

    /// The same, as one of several that share a connection limit.
    #[must_use]
    pub fn sharing(limit: Arc<ConnectionLimit>, counters: Arc<Counters>, limits: ClientLimits) -> Rc<Self> {
        Rc::new(Self {
            connection_limit: limit,
            counters,
            limits: Cell::new(limits),
            times: Cell::new(Times::new(&limits)),
            draining: Cell::new(false),
            leaves_queues: Cell::new(false),
            grace: Cell::new(SHUTDOWN_GRACE),
            leave_span: Cell::default(),
            sockets: RefCell::default(),
            free: RefCell::default(),
            open: Cell::new(0),
            last_check: Cell::new(clock::monotonic().0),
            reserves_descriptors: Cell::new(false),
            is_measured: OnceCell::new(),
            tls: OnceCell::new(),
            proxies: RefCell::default(),
            input: RefCell::default(),
            section: RefCell::default(),
            unread: UnreadSum::default(),
            output: Cell::new(None),
            sealed: RefCell::default(),
            seals: RefCell::default(),
            future_pool: FuturePool::new(),
            eager_read: EagerRead::new(),
            quic: QuicServices::default(),
            stop: Notify::new(),
            empty: Notify::new(),
        })
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> ClientLimits {
        self.limits.get()
    }

    /// Accepts clients from now on only while there are descriptors for their requests: `larder_stdx::descriptors`.
    pub fn reserve_descriptors(&self) {
        self.reserves_descriptors.set(true);
    }

    /// Stamps heads from now on with the time of their first byte while `on` is true; later calls change nothing.
    pub fn measure_while(&self, on: Arc<AtomicBool>) {
        let _ = self.is_measured.set(on);
    }

    /// The time by the precise clock, never 0, if requests are measured; otherwise 0.
    pub(crate) fn arrival_micros(&self) -> u64 {
        match self.is_measured.get() {
            Some(on) if on.load(Relaxed) => clock::precise_micros().max(1),
            _ => 0,
        }
    }

    /// Sets the limits; running deadlines stay.
    pub fn set_limits(&self, limits: ClientLimits) {
        self.times.set(Times::new(&limits));
        self.limits.set(limits);
    }

    pub(crate) fn times(&self) -> Times {
        self.times.get()
    }

    /// The limits of a head, with the scratch buffer for requests enlarged: longer than a head may be.
    pub(crate) fn size_input(&self, input: &mut Vec<u8>) -> HeadLimits {
        let limits = self.limits.get();
        let size = SCRATCH.max(limits.head_size + SCRATCH / 4);
        if input.len() < size {
            input.resize(size, 0);
        }
        HeadLimits { head: limits.head_size, target: limits.target_size, scheme: Scheme::Http }
    }

    /// Open client connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.get()
    }

    /// Ticks the clock, cuts slow clients and makes room for other connections, as long as the worker lives.
    pub async fn watch(self: Rc<Self>) {
        tokio::join!(self.run_timer(), self.close_idle_for_other_workers());
    }

    async fn run_timer(&self) {
        loop {
            tokio::time::sleep(self.check_interval()).await;
            clock::tick();
            self.close_expired(clock::monotonic().0);
            if self.reserves_descriptors.get() && descriptors::ran_out_lately() {
                self.close_idle(MOST_CLOSED);
            }
        }
    }

    /// A quarter of the shortest limit, within bounds: a deadline is met at most that much late.
    fn check_interval(&self) -> Duration {
        let it = self.times.get();
        let shortest = it.head.min(it.body).min(it.idle).min(it.write);
        Duration::from_millis((shortest / 4).clamp(10, 250))
    }

    fn close_expired(&self, now: u64) {
        let passed = now.saturating_sub(self.last_check.replace(now));
        let min_rate = self.limits.get().min_rate;
        for it in self.sockets.borrow().iter().flatten() {
            let min_rate = it.min_rate(min_rate);
            let expired = it.expired.get();
            if it.write_by.get() != NEVER && expired != Expired::Writing {
                it.update_acked_bytes(self.times_of(it).write);
            }
            let why = if expired == Expired::Writing {
                continue;
            } else if it.write_by.get() <= now {
                Expired::Writing
            } else if expired != Expired::No {
                continue;
            } else if it.read_by.get() <= now {
                Expired::Reading(it.reading.get())
            } else if min_rate > 0 && it.is_too_slow(passed, min_rate) {
                if it.write_by.get() == NEVER { Expired::Reading(it.reading.get()) } else { Expired::Writing }
            } else {
                continue;
            };
            it.expired.set(why);
            let counters = &self.counters;
            match why {
                Expired::Writing => counters.client_write_timeouts.add(1),
                Expired::Reading(ReadPhase::First | ReadPhase::Idle) if it.is_leaving() => {}
                Expired::Reading(ReadPhase::First | ReadPhase::Idle) => counters.client_idle_timeouts.add(1),
                Expired::Reading(ReadPhase::Head) => counters.client_head_timeouts.add(1),
                Expired::Reading(ReadPhase::Body) => counters.client_body_timeouts.add(1),
                Expired::Reading(ReadPhase::Linger | ReadPhase::Nothing) | Expired::No => {}
            }
            it.shutdown(if why == Expired::Writing { Shutdown::Both } else { Shutdown::Read });
        }
    }

    /// Takes over a connection.
    pub(crate) fn admit(&self, socket: OwnedFd, taken: ConnectionPermit) -> Rc<OpenSocket> {
        let place = self.free.borrow_mut().pop();
        let mut watched = self.sockets.borrow_mut();
        let place = place.unwrap_or(watched.len());
        let it = Rc::new(OpenSocket {
            io: OnceCell::new(),
            socket,
            read_once: Cell::new(false),
            reading: Cell::new(ReadPhase::Nothing),
            read_by: Cell::new(NEVER),
            write_by: Cell::new(NEVER),
            sent_bytes: Cell::new(0),
            acked_bytes: Cell::new(0),
            burst_bytes: Cell::new(0),
            is_silent: Cell::new(false),
            expired: Cell::new(Expired::No),
            moved_bytes: Cell::new(0),
            rate: TransferRate::default(),
            index: Cell::new(place),
            is_leaving: Cell::new(self.draining.get()),
            leave_waker: Cell::default(),
            transfer_limits: Cell::default(),
            _permit: taken,
            descriptor: self.reserves_descriptors.get().then(HeldDescriptor::by_client),
            reserved_descriptor: Cell::default(),
        });
        it.reserve_descriptor();
        let head = self.times.get().head;
        let limit = if self.draining.get() { self.grace.get().min(head) } else { head };
        it.set_read_deadline(ReadPhase::First, limit);
        if place == watched.len() {
            watched.push(Some(it.clone()));
        } else {
            watched[place] = Some(it.clone());
        }
        self.open.set(self.open.get() + 1);
        self.counters.connections_accepted.add(1);
        self.counters.connections_open.add(1);
        it
    }

    pub(crate) fn remove(&self, it: &OpenSocket) {
        let place = it.index.get();
        self.sockets.borrow_mut()[place] = None;
        self.free.borrow_mut().push(place);
        self.open.set(self.open.get() - 1);
        self.counters.connections_open.sub(1);
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Sets the TLS settings of `https` addresses. Before listening; later calls change nothing.
    pub fn secure(&self, tls: Arc<ServerTls>) {
        let _ = self.tls.set(tls);
    }

    pub(crate) fn tls(&self) -> Option<Arc<ServerTls>> {
        self.tls.get().cloned()
    }
}

impl OpenSocket {
    /// Records that the client may need a descriptor: it is new, or its request is not a plain hit.
    pub fn reserve_descriptor(&self) {
        if self.descriptor.is_some() {
            let soon = self.reserved_descriptor.take().unwrap_or_else(HeldDescriptor::reserved);
            self.reserved_descriptor.set(Some(soon));
        }
    }

    /// Records that the client has its descriptor, or needs none.
    fn release_reservation(&self) {
        drop(self.reserved_descriptor.take());
    }

    /// Starts a wait for input of the client, at most `limit` milliseconds from now.
    pub fn set_read_deadline(&self, reading: ReadPhase, limit: u64) {
        if reading == ReadPhase::Idle {
            self.release_reservation();
        }
        self.reading.set(reading);
        self.read_by.set(clock::monotonic().0.saturating_add(limit));
    }

    /// The same, until the result is dropped: for waits that may be abandoned.
    pub fn read_while(&self, reading: ReadPhase, limit: u64) -> DeadlineGuard<'_> {
        self.set_read_deadline(reading, limit);
        DeadlineGuard { watched: self, side: WaitSide::Read }
    }

    /// Starts a wait for the client to take output, until the result is dropped.
    pub fn write_while(&self, limit: u64) -> DeadlineGuard<'_> {
        self.release_reservation();
        self.set_write_deadline(limit);
        DeadlineGuard { watched: self, side: WaitSide::Write }
    }

    /// Records progress of the client: it has another `limit` milliseconds, or the time of [`OpenSocket::silence_limit`].
    pub fn set_write_deadline(&self, limit: u64) {
        let silence = Self::silence_limit(limit, self.burst_bytes.get());
        self.write_by.set(clock::monotonic().0.saturating_add(silence));
    }

    /// Extends the deadline of a client that acknowledged bytes in the kernel's buffer by `limit` milliseconds. The
    /// socket itself reports room only when a third of its buffer is empty: megabytes, for which a legitimate client may
    /// need minutes.
    fn update_acked_bytes(&self, limit: u64) {
        // SAFETY: this request writes one `c_int` to the given address, which the getter provides.
        let queued =
            unsafe { rustix::ioctl::ioctl(self.fd(), rustix::ioctl::Getter::<TIOCOUTQ, i32>::new()) };
        let Ok(queued) = queued.map(|it| u64::try_from(it).unwrap_or(0)) else { return };
        let taken = self.sent_bytes.get().saturating_sub(queued);
        let more = taken.saturating_sub(self.acked_bytes.replace(taken));
        if more == 0 {
            return self.is_silent.set(true);
        }
        self.note(more);
        let at_once = if self.is_silent.replace(false) { 0 } else { self.burst_bytes.get() };
        self.burst_bytes.set(at_once.saturating_add(more));
        self.write_by.set(clock::monotonic().0.saturating_add(Self::silence_limit(limit, at_once + more)));
    }

    /// The permitted silence of a client that received `at_once` bytes before without a pause. A fast reader has a
    /// receive buffer of up to 32 MiB in its kernel; once that is full, its kernel announces room only when a sixteenth
    /// of it is free. A client that then reads 40 KB a second acknowledges only two megabytes every 48 seconds.
    fn silence_limit(limit: u64, at_once: u64) -> u64 {
        limit.saturating_mul((at_once / STEP).clamp(1, MOST_STEPS))
    }

    /// Whether the client is waited for to take output.
    pub fn is_writing(&self) -> bool {
        self.write_by.get() != NEVER
    }

    /// Records that the client took all output.
    pub fn clear_write_deadline(&self) {
        self.write_by.set(NEVER);
    }

    /// The awaited input.
    pub fn reading(&self) -> ReadPhase {
        self.reading.get()
    }

    /// Whether the sweep shut it down.
    pub fn expired(&self) -> Expired {
        self.expired.get()
    }

    /// Resets the deadlines, since the answer to the timeout itself is being sent.
    pub fn reset_deadlines(&self) {
        self.expired.set(Expired::No);
        self.clear_read_deadline();
    }

    /// Records that no input is awaited.
    pub fn clear_read_deadline(&self) {
        self.reading.set(ReadPhase::Nothing);
        self.read_by.set(NEVER);
    }

    /// Ends a request: a new window of the rate begins.
    pub fn begin_window(&self) {
        self.rate.begin(self.moved_bytes.get());
    }

    /// Records bytes that the kernel got for the client, which it has yet to acknowledge.
    pub fn note_sent(&self, bytes: u64) {
        self.sent_bytes.set(self.sent_bytes.get().wrapping_add(bytes));
    }

    /// Records bytes that the client sent or took.
    pub fn note(&self, bytes: u64) {
        self.moved_bytes.set(self.moved_bytes.get().wrapping_add(bytes));
    }

    /// Counts a time of waiting for the client: see [`TransferRate::is_too_slow`].
    fn is_too_slow(&self, passed: u64, min_rate: u64) -> bool {
        let is_awaited = self.reading.get() == ReadPhase::Body || self.is_writing();
        is_awaited && self.rate.is_too_slow(passed, self.moved_bytes.get(), min_rate)
    }

    pub fn shutdown(&self, how: Shutdown) {
        // It may be closed already; its task will see it.
        let _ = rustix::net::shutdown(self.fd(), how);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket as registered with the event loop, from the first wait on. A connection that is accepted with its
    /// request, answered and closed is never registered: that saves two system calls and a turn of the loop, a tenth of
    /// the cost of such a connection.
    pub fn io(&self) -> std::io::Result<&AsyncFd<RawFd>> {
        if let Some(io) = self.io.get() {
            return Ok(io);
        }
        // SAFETY: `socket` is open as long as this value lives, and is dropped after `io`, which is declared before
        // it; `io` is lent by shared reference only.
        let io = unsafe { AsyncFd::register(self.socket.as_raw_fd()) }.map_err(std::io::Error::from)?;
        Ok(self.io.get_or_init(|| io))
    }

    /// Whether a read may be tried before the socket is registered: true once.
    pub fn may_read_unregistered(&self) -> bool {
        !self.read_once.replace(true) && self.io.get().is_none()
    }
}

enum WaitSide {
    Read,
    Write,
}

/// A deadline that is in force for as long as this lives.
pub(crate) struct DeadlineGuard<'a> {
    watched: &'a OpenSocket,
    side: WaitSide,
}

impl Drop for DeadlineGuard<'_> {
    fn drop(&mut self) {
        match self.side {
            WaitSide::Read => self.watched.clear_read_deadline(),
            WaitSide::Write => self.watched.write_by.set(NEVER),
        }
    }
}

/// Registers a socket with the event loop of this thread.
///
/// # Errors
/// The kernel takes no more.
pub(crate) fn watch(socket: Arc<OwnedFd>) -> std::io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an `OwnedFd` is open, and names the same file until it is dropped; the `AsyncFd` shares it, no `OwnedFd` in an
    // `Arc` can be replaced, and it is lent only by shared reference.
    unsafe { AsyncFd::register(socket) }.map_err(std::io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedding::tests::hours;
    use std::os::unix::net::UnixStream;

    /// Moves `bytes` in every second, in which the client is waited for as `wait` has it; how it ends.
    fn rate(min_rate: u64, bytes: u64, wait: impl Fn(&OpenSocket) -> Option<DeadlineGuard<'_>>) -> Expired {
        let limits = ClientLimits { min_rate, ..hours(1) };
        runtime().unwrap().block_on(async {
            let worker = TransportWorker::new(Arc::default(), limits);
            let (ours, _theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let it = worker.admit(ours.into(), worker.acquire_permit().unwrap());
            it.clear_read_deadline();
            let start = clock::monotonic().0;
            for second in 1..=25 {
                // Each wait is a new one, as if something came each time.
                let _wait = wait(&it);
                it.note(bytes);
                worker.close_expired(start + second * 1000);
            }
            worker.remove(&it);
            it.expired()
        })
    }

    fn body(it: &OpenSocket) -> Option<DeadlineGuard<'_>> {
        Some(it.read_while(ReadPhase::Body, NEVER))
    }

    fn write(it: &OpenSocket) -> Option<DeadlineGuard<'_>> {
        Some(it.write_while(3_600_000))
    }

    fn given_up(it: &OpenSocket) -> Option<DeadlineGuard<'_>> {
        drop(it.read_while(ReadPhase::Body, 1));
        drop(it.write_while(1));
        None
    }

    /// The effect of a large receive buffer on a client that reads steadily: the kernel lets it be filled again in steps.
    #[test]
    fn a_client_that_reads_in_large_steps_keeps_its_rate() {
        let steps = |bytes: u64| {
            let second = Cell::new(0);
            rate(128, 0, move |it| {
                second.set(second.get() + 1);
                it.note(if second.get() % 12 == 0 { bytes } else { 0 });
                write(it)
            })
        };
        assert_eq!(Expired::No, steps(12 * 128));
        assert_eq!(Expired::Writing, steps(10 * 128));
    }

    #[test]
    fn a_client_that_has_read_much_gets_a_longer_deadline() {
        let of = |taken| OpenSocket::silence_limit(1000, taken);
        assert_eq!([1000, 1000, 2000, 4000, 4000], [0, 1 << 18, 1 << 19, 1 << 20, 1 << 30].map(of));
        assert_eq!(NEVER, OpenSocket::silence_limit(NEVER, 1 << 20));
    }

    #[test]
    fn a_client_that_drips_is_too_slow_and_one_that_is_not_waited_for_is_not() {
        assert_eq!(Expired::Reading(ReadPhase::Body), rate(128, 127, body));
        assert_eq!(Expired::No, rate(128, 128, body));
        assert_eq!(Expired::No, rate(0, 0, body));
        assert_eq!(Expired::Writing, rate(128, 1, write));
        assert_eq!(Expired::No, rate(128, 1000, write));
        assert_eq!(Expired::No, rate(128, 0, given_up), "nor has it a deadline");
    }
}
