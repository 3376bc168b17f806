//! The end of a worker: it accepts no new connections, and requests in progress continue. The time limit is not known
//! here.
//!
//! Where another process has the sockets, the connections end in turn, since their clients reconnect at once: the handshakes of all of them
//! together would delay every new connection.

use super::{OpenSocket, ReadPhase, SHUTDOWN_GRACE, TransportWorker};
use larder_stdx::clock;
use std::array;
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Notify;

/// The parts of the connections that end one after the other.
const TURNS: usize = 32;
/// The time over which they do, where another process has the sockets, milliseconds.
const SPREAD: u64 = 1_000;
/// The interval of checks meanwhile.
const TURN_CHECK: Duration = Duration::from_millis(10);

/// The state of the end of a worker.
pub(super) struct DrainState {
    is_draining: Cell<bool>,
    leaves_queues: Cell<bool>,
    /// The time for which an idle connection is still read, milliseconds.
    grace: Cell<u64>,
    /// When the drain began, and the time over which the connections end, milliseconds.
    began: Cell<u64>,
    spread: Cell<u64>,
    /// The number of turns that have come.
    turn: Cell<usize>,
    /// Notified when the drain begins.
    stop: Notify,
    /// Notified at each turn.
    turns: [Notify; TURNS],
}

impl Default for DrainState {
    fn default() -> Self {
        Self {
            is_draining: Cell::default(),
            leaves_queues: Cell::default(),
            grace: Cell::new(SHUTDOWN_GRACE),
            began: Cell::default(),
            spread: Cell::default(),
            turn: Cell::default(),
            stop: Notify::new(),
            turns: array::from_fn(|_| Notify::new()),
        }
    }
}

/// The turn of the connection at this place. Neighbours are far apart (multiples of the golden ratio): few connections are spread, too.
fn turn_of(place: usize) -> usize {
    (place.wrapping_mul(0x9e37_79b9) & 0xffff_ffff) >> (u32::BITS - TURNS.ilog2())
}

impl TransportWorker {
    /// Whether the worker is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_draining.get()
    }

    /// Whether this connection is to end: the worker drains, and it is its turn.
    pub(crate) fn is_to_end(&self, it: &OpenSocket) -> bool {
        turn_of(it.index.get()) < self.drain.turn.get()
    }

    /// Stops accepting, and lets requests in progress finish. An idle HTTP/1 connection is still read for `SHUTDOWN_GRACE`: a
    /// request that its client had sent before it saw the drain is answered, with `Connection: close` (RFC 9112 §9.6).
    /// That time is at most `within`. After [`TransportWorker::leave_queues`] the connections end in turn, which takes as long again.
    pub fn drain(&self, within: Duration) {
        let within = u64::try_from(within.as_millis()).unwrap_or(SHUTDOWN_GRACE);
        let spread = if self.leaves_queues() { within.min(SPREAD) } else { 0 };
        self.drain.grace.set(within.min(SHUTDOWN_GRACE));
        self.drain.spread.set(spread);
        self.drain.began.set(clock::monotonic().0);
        self.drain.is_draining.set(true);
        self.drain.stop.notify_waiters();
        self.end_in_turn(clock::monotonic().0);
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Ends the connections whose turn has come.
    pub(super) fn end_in_turn(&self, now: u64) {
        let DrainState { is_draining, grace, began, spread, turn, turns, .. } = &self.drain;
        if !is_draining.get() || turn.get() == TURNS {
            return;
        }
        let passed = TURNS as u64 * now.saturating_sub(began.get());
        let passed = passed.checked_div(spread.get()).and_then(|it| usize::try_from(it).ok());
        let due = passed.map_or(TURNS, |it| TURNS.min(it + 1));
        let before = turn.replace(due);
        for it in self.sockets.borrow().iter().flatten() {
            match it.reading.get() {
                _ if !(before..due).contains(&turn_of(it.index.get())) => {}
                ReadPhase::Idle if it.drains_itself.get() => {}
                ReadPhase::First | ReadPhase::Idle => it.read_by.set(it.read_by.get().min(now + grace.get())),
                _ => {}
            }
        }
        (0..TURNS).zip(turns).filter(|it| (before..due).contains(&it.0)).for_each(|it| it.1.notify_waiters());
    }

    /// Waits for the next check of the connections.
    pub(super) async fn next_check(&self) {
        let interval = match self.is_draining() && self.drain.turn.get() < TURNS {
            true => TURN_CHECK,
            false => self.check_interval(),
        };
        // The checks are more frequent from the beginning of a drain on.
        let _ = tokio::time::timeout(interval, self.drain.stop.notified()).await;
    }

    /// Connections that wait to be accepted stay in their queues, from which another process takes them.
    pub fn leave_queues(&self) {
        self.drain.leaves_queues.set(true);
    }

    pub(crate) fn leaves_queues(&self) -> bool {
        self.drain.leaves_queues.get()
    }

    /// The time for which a new connection may wait for its first request, milliseconds.
    pub(super) fn first_limit(&self) -> u64 {
        let head = self.times.get().head;
        if self.is_draining() { self.drain.grace.get().min(head) } else { head }
    }

    /// The time for which an HTTP/1 connection may wait for its next request, milliseconds.
    pub(crate) fn idle_limit(&self, it: &OpenSocket) -> u64 {
        let idle = self.times.get().idle;
        if self.is_to_end(it) { self.drain.grace.get().min(idle) } else { idle }
    }

    /// Waits until all connections are closed.
    pub async fn drained(&self) {
        while self.open.get() > 0 {
            self.empty.notified().await;
        }
    }

    /// Waits until the worker drains.
    pub(crate) async fn stopped(&self) {
        while !self.is_draining() {
            self.drain.stop.notified().await;
        }
    }

    /// Waits until this connection is to end.
    pub(crate) async fn ending(&self, it: &OpenSocket) {
        let turn = turn_of(it.index.get());
        while turn >= self.drain.turn.get() {
            self.drain.turns[turn].notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::shedding::tests::hours;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::sync::Arc;

    /// A worker with as many idle connections as there are turns.
    fn worker() -> (Rc<TransportWorker>, Vec<Rc<OpenSocket>>) {
        let worker = TransportWorker::new(Arc::default(), hours(TURNS));
        let connection = |_| {
            let it = worker.admit(UnixStream::pair().unwrap().0.into(), worker.acquire_permit().unwrap());
            it.set_read_deadline(ReadPhase::Idle, 60_000);
            it
        };
        let connections = (0..TURNS).map(connection).collect();
        (worker, connections)
    }

    #[test]
    fn connections_end_in_turn_where_another_process_has_the_sockets() {
        let (worker, connections) = worker();
        let ended = || connections.iter().filter(|it| worker.is_to_end(it)).count();
        let (now, idle) = (clock::monotonic().0, connections[0].read_by.get());
        worker.end_in_turn(now + SPREAD);
        assert_eq!(0, ended(), "there is no drain");
        worker.leave_queues();
        worker.drain(Duration::from_secs(5));
        let began = worker.drain.began.get();
        assert!(ended() <= 2, "{}", ended());
        worker.end_in_turn(began + SPREAD / 2);
        assert!((TURNS / 2 - 2..TURNS / 2 + 4).contains(&ended()), "{}", ended());
        for it in &connections {
            let limit = if worker.is_to_end(it) { began + SPREAD / 2 + SHUTDOWN_GRACE } else { idle };
            assert!(it.read_by.get() <= limit);
            assert_eq!(worker.is_to_end(it), it.read_by.get() < idle);
            assert_eq!(worker.is_to_end(it), worker.idle_limit(it) == SHUTDOWN_GRACE);
        }
        worker.end_in_turn(began + SPREAD);
        assert_eq!(TURNS, ended());
    }

    #[test]
    fn connections_end_at_once_where_larder_stops() {
        let (worker, connections) = worker();
        worker.drain(Duration::from_secs(5));
        assert!(connections.iter().all(|it| worker.is_to_end(it)));
    }

    #[test]
    fn few_connections_are_spread_over_all_turns() {
        for count in [4, 8, 16, 32] {
            let mut turns: Vec<usize> = (0..count).map(turn_of).collect();
            turns.sort_unstable();
            let gaps = turns.windows(2).map(|it| it[1] - it[0]).chain([turns[0] + TURNS - turns[count - 1]]);
            assert!(gaps.max().unwrap() <= 2 * TURNS / count, "{turns:?}");
        }
    }
}
