//! Requests that wait for an origin's permit. `wait_queue` decides which gets the next.

use super::OriginPool;
use super::permit::{OriginLoad, Paced, Permit, Reservation, UploadPermit};
use crate::deadline::{after, now};
use crate::error::OriginError;
use crate::stalled_exchanges::{LOOK, announce_queued};
use crate::wait_queue::{PermitWait, WaitQueue};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::time::{Instant, timeout};

impl OriginPool {
    pub(crate) async fn reserve_by(
        &self,
        load: OriginLoad,
        paced: Paced,
    ) -> Result<Reservation, OriginError> {
        let deadline = Cell::new(None); // the clock is read if it comes to that
        let upload = match paced {
            Paced::ByOrigin => None,
            Paced::ByClient => {
                self.stand(&self.uploads, &deadline).await?;
                Some(UploadPermit(load.origin.clone()))
            }
        };
        let wait = self.stand(&self.places, &deadline).await?;
        Ok((Permit::new(load, upload), deadline, wait))
    }

    /// Waits in one of the queues.
    async fn stand(
        &self,
        line: &WaitQueue,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<PermitWait, OriginError> {
        let taking = line.take(|| self.wait_until(deadline));
        let taken = if line.free() > 0 { taking.await } else { self.pressing(pin!(taking)).await };
        taken.ok_or_else(|| self.is_busy()).inspect_err(|it| self.tell(it))
    }

    /// The deadline of a request's wait for a permit: without one it gets one time limit for the wait and the connect.
    fn wait_until(&self, deadline: &Cell<Option<Instant>>) -> Instant {
        match self.limits.queue_wait {
            Some(time) => after(now(), time),
            None => self.connect_by(deadline),
        }
    }

    pub(super) fn is_busy(&self) -> OriginError {
        self.counters.origin_busy.add(1);
        OriginError::Busy
    }

    pub(crate) fn connect_by(&self, deadline: &Cell<Option<Instant>>) -> Instant {
        let at = deadline.get().unwrap_or_else(|| after(now(), self.limits.connect));
        deadline.set(Some(at));
        at
    }

    /// Waits for `place` in one of the queues, and asks stalled exchanges for their permits meanwhile.
    pub(crate) async fn pressing<T>(&self, mut place: Pin<&mut impl Future<Output = T>>) -> T {
        // With the first poll it is in the queue.
        if let Poll::Ready(place) = poll_fn(|context| Poll::Ready(place.as_mut().poll(context))).await {
            return place;
        }
        announce_queued();
        loop {
            match timeout(LOOK, place.as_mut()).await {
                Ok(place) => return place,
                Err(_) => self.stalled.press(self.places.waiting(), self.uploads.waiting(), &self.counters),
            }
        }
    }
}
