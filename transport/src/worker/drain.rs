//! The end of a worker: it accepts no new connections, and requests in progress continue. The time limit is not known
//! here.

use super::{OpenSocket, ReadPhase, SHUTDOWN_GRACE, TransportWorker};
use larder_stdx::clock;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The time over which the connections of a process leave that another one has replaced: their clients connect to that one
/// in turn, and not all with a TLS handshake at the same moment.
const LEAVE_SPAN: Duration = Duration::from_secs(2);

impl TransportWorker {
    /// Whether the worker is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Stops accepting, and lets requests in progress finish. An idle HTTP/1 connection is still read for `SHUTDOWN_GRACE`: a
    /// request that its client had sent before it saw the drain is answered, with `Connection: close` (RFC 9112 §9.6).
    /// That time is at most `within`.
    pub fn drain(&self, within: Duration) {
        self.stop_accepting(within);
        self.sockets.borrow().iter().flatten().for_each(|it| self.leave(it));
    }

    /// As [`TransportWorker::drain`], with another process that accepts: the connections leave one after the other, over
    /// `LEAVE_SPAN`, and each at its first request that needs more than RAM.
    pub fn drain_in_turn(self: &Rc<Self>, within: Duration) {
        let grace = Duration::from_millis(SHUTDOWN_GRACE);
        let span = within.saturating_sub(grace).min(LEAVE_SPAN);
        self.leave_span.set(span);
        self.stop_accepting(within);
        let all: Vec<_> = self.sockets.borrow().iter().flatten().map(Rc::downgrade).collect();
        let (begin, worker) = (Instant::now(), self.clone());
        tokio::task::spawn_local(async move {
            for (number, it) in all.iter().enumerate() {
                sleep_until(begin + turn_to_leave(span, number, all.len())).await;
                if let Some(it) = it.upgrade() {
                    worker.leave(&it);
                }
            }
        });
    }

    fn stop_accepting(&self, within: Duration) {
        let grace = u64::try_from(within.as_millis()).unwrap_or(SHUTDOWN_GRACE).min(SHUTDOWN_GRACE);
        self.draining.set(true);
        self.grace.set(grace);
        self.stop.notify_waiters();
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Lets a connection end after the requests that have arrived.
    fn leave(&self, it: &OpenSocket) {
        if it.is_leaving.replace(true) {
            return;
        }
        match (it.leave_waker.take(), it.reading.get()) {
            (Some(waker), _) => waker.wake(),
            (None, ReadPhase::First | ReadPhase::Idle) => {
                it.read_by.set(it.read_by.get().min(clock::monotonic().0 + self.grace.get()));
            }
            _ => {}
        }
    }

    /// The client has a request that needs more than RAM: a process that was replaced has neither its disk tier nor newer responses.
    pub(crate) fn leave_for_request(&self, it: &OpenSocket) {
        if self.draining.get() {
            self.leave(it);
        }
    }

    /// The time over which the connections leave: zero if they leave at once.
    pub(crate) fn leave_span(&self) -> Duration {
        self.leave_span.get()
    }

    /// Connections that wait to be accepted stay in their queues, from which another process takes them.
    pub fn leave_queues(&self) {
        self.leaves_queues.set(true);
    }

    pub(crate) fn leaves_queues(&self) -> bool {
        self.leaves_queues.get()
    }

    /// The time for which an HTTP/1 connection may wait for its next request, milliseconds.
    pub(crate) fn idle_limit(&self, it: &OpenSocket) -> u64 {
        let idle = self.times.get().idle;
        if it.is_leaving() { self.grace.get().min(idle) } else { idle }
    }

    /// Waits until all connections are closed.
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
}

impl OpenSocket {
    /// Whether it ends after the requests that have arrived.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Ready when it leaves: its protocol announces the end itself.
    pub fn poll_leaving(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_leaving() {
            return Poll::Ready(());
        }
        let waker = self.leave_waker.take().filter(|it| it.will_wake(context.waker()));
        self.leave_waker.set(Some(waker.unwrap_or_else(|| context.waker().clone())));
        Poll::Pending
    }
}

/// The time from the begin of a drain until a connection leaves, as the one with this `number` of `count`.
pub(crate) fn turn_to_leave(span: Duration, number: usize, count: usize) -> Duration {
    let of = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
    span.saturating_mul(of(number)) / of(count).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::shedding::tests::hours;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::task::Waker;
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::time::sleep;

    const TENTH: Duration = Duration::from_millis(100);

    /// Checks a worker with twenty idle connections, and a clock that moves when all wait.
    fn with_connections(check: impl AsyncFnOnce(&Rc<TransportWorker>, &[Rc<OpenSocket>])) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build_local(LocalOptions::default());
        runtime.unwrap().block_on(async {
            let worker = TransportWorker::new(Arc::default(), hours(100));
            let peers: Vec<_> = (0..20).map(|_| UnixStream::pair().unwrap()).collect();
            let all: Vec<_> = peers.iter().map(|(it, _)| admitted(&worker, it)).collect();
            check(&worker, &all).await;
        });
    }

    fn admitted(worker: &TransportWorker, socket: &UnixStream) -> Rc<OpenSocket> {
        let it = worker.admit(socket.try_clone().unwrap().into(), worker.acquire_permit().unwrap());
        it.set_read_deadline(ReadPhase::Idle, 3_600_000);
        it
    }

    fn leaving(all: &[Rc<OpenSocket>]) -> usize {
        all.iter().filter(|it| it.is_leaving()).count()
    }

    #[test]
    fn connections_of_a_replaced_process_leave_one_after_the_other() {
        with_connections(async |worker, all| {
            worker.drain_in_turn(Duration::from_secs(5));
            sleep(TENTH / 2).await;
            for count in 1..=20 {
                assert_eq!(count, leaving(all), "within {LEAVE_SPAN:?}");
                assert!(
                    all[..count].iter().all(|it| it.read_by.get() <= clock::monotonic().0 + SHUTDOWN_GRACE)
                );
                sleep(TENTH).await;
            }
            let (late, _peer) = UnixStream::pair().unwrap();
            assert!(admitted(worker, &late).is_leaving(), "a connection that comes during the drain");
        });
    }

    #[test]
    fn connections_leave_at_once_when_the_process_stops_or_has_little_time() {
        with_connections(async |worker, all| {
            worker.drain(Duration::from_secs(5));
            assert_eq!(20, leaving(all));
        });
        with_connections(async |worker, all| {
            worker.drain_in_turn(Duration::from_secs(1));
            sleep(TENTH / 2).await;
            assert_eq!(
                20,
                leaving(all),
                "the span ends before the time that an idle connection is still read"
            );
        });
    }

    #[test]
    fn a_request_that_needs_more_than_ram_is_the_last_of_its_connection() {
        with_connections(async |worker, all| {
            worker.leave_for_request(&all[19]);
            assert_eq!(0, leaving(all), "before the drain");
            worker.drain_in_turn(Duration::from_secs(5));
            worker.leave_for_request(&all[19]);
            assert!(all[19].is_leaving() && !all[18].is_leaving());
        });
    }

    #[test]
    fn a_task_that_announces_the_end_is_woken_when_its_connection_leaves() {
        with_connections(async |worker, all| {
            let context = Context::from_waker(Waker::noop());
            assert!(all[0].poll_leaving(&context).is_pending());
            let announced = std::future::poll_fn(|context| all[19].poll_leaving(context));
            worker.drain_in_turn(Duration::from_secs(5));
            let begin = Instant::now();
            announced.await;
            assert_eq!(19, begin.elapsed().as_millis() / 100, "its turn is the last");
            assert!(all[19].read_by.get() >= 3_600_000, "the deadline is left to that task");
        });
    }
}
