//! Requests that wait for an origin's permit. `wait_queue` decides which gets the next.

use super::OriginPool;
use super::permit::{OriginLoad, Permit, RequestBuffering, Reservation, UploadPermit};
use crate::deadline::{after, now};
use crate::error::OriginError;
use crate::stalled_exchanges::{SEARCH_INTERVAL, notify_queued};
use crate::wait_queue::{PermitWait, WaitQueue};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A wait for a permit that is counted.
const LONG_WAIT: Duration = Duration::from_millis(100);

impl OriginPool {
    pub(crate) async fn reserve_permits(
        &self,
        load: OriginLoad,
        buffering: RequestBuffering,
    ) -> Result<Reservation, OriginError> {
        let deadline = Cell::new(None); // the clock is read if it comes to that
        let upload = match buffering {
            RequestBuffering::Complete => None,
            RequestBuffering::Streamed => {
                self.acquire(&self.upload_permits, &deadline).await?;
                Some(UploadPermit(load.origin.clone()))
            }
        };
        let wait = self.acquire(&self.permits, &deadline).await?;
        Ok((Permit::new(load, upload), deadline, wait))
    }

    /// Waits in one of the queues.
    async fn acquire(
        &self,
        queue: &WaitQueue,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<PermitWait, OriginError> {
        let acquire = queue.take(|| self.queue_deadline(deadline));
        let acquired = match queue.free() > 0 {
            true => acquire.await,
            false => {
                let begun = now();
                let acquired = self.wait_reclaiming(pin!(acquire)).await;
                if let Some(it) = self.measures.get().filter(|_| begun.elapsed() >= LONG_WAIT) {
                    it.origin.counters.waits.add(1);
                }
                acquired
            }
        };
        acquired.ok_or_else(|| self.busy_error()).inspect_err(|it| self.report_failure(it))
    }

    /// The deadline of a request's wait for a permit: without one it gets one time limit for the wait and the connect.
    fn queue_deadline(&self, deadline: &Cell<Option<Instant>>) -> Instant {
        match self.limits.queue_wait {
            Some(time) => after(now(), time),
            None => self.connect_deadline(deadline),
        }
    }

    pub(super) fn busy_error(&self) -> OriginError {
        self.counters.origin_busy.add(1);
        OriginError::Busy
    }

    pub(crate) fn connect_deadline(&self, deadline: &Cell<Option<Instant>>) -> Instant {
        let at = deadline.get().unwrap_or_else(|| after(now(), self.limits.connect));
        deadline.set(Some(at));
        at
    }

    /// Waits for `permit` in one of the queues, and asks stalled exchanges for their permits meanwhile.
    pub(crate) async fn wait_reclaiming<T>(&self, mut permit: Pin<&mut impl Future<Output = T>>) -> T {
        // With the first poll it is in the queue.
        if let Poll::Ready(permit) = poll_fn(|context| Poll::Ready(permit.as_mut().poll(context))).await {
            return permit;
        }
        notify_queued();
        loop {
            match timeout(SEARCH_INTERVAL, permit.as_mut()).await {
                Ok(permit) => return permit,
                Err(_) => self.stalled.reclaim_permits(
                    self.permits.waiting(),
                    self.upload_permits.waiting(),
                    &self.counters,
                ),
            }
        }
    }
}
