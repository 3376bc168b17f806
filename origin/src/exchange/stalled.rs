//! The wait of an exchange for its own client. Which exchange is asked for its permit, and when, is in `stalled_exchanges`.

use super::{Exchange, ExchangeLink, ResponsePhase};
use crate::pool::OriginPool;
use crate::stalled_exchanges::{ClientPart, PermitWanted, StalledEntry, queued};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;

/// The total wait for a client after which its response no longer occupies a process of an application, and continues from the spool.
const PROCESS_WAIT: Duration = Duration::from_millis(250);

/// A wait in progress.
struct Stall<'e> {
    exchange: &'e Exchange,
    origin: Rc<OriginPool>,
    entry: Rc<StalledEntry>,
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.origin.stalled.leave(&self.entry, &self.exchange.stalls);
    }
}

impl Exchange {
    /// Waits for `work`, which is the client's. After an error it may be waited for again.
    ///
    /// # Errors
    /// [`PermitWanted`]: requests queue, and this exchange has waited for its client for a second in total; or once, without a queue, it
    /// has waited for `PROCESS_WAIT` and occupies a process of its application. Never without a permit: after the whole response has
    /// come, and for event streams.
    pub async fn wait_for_client<T>(
        &self,
        part: ClientPart,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, PermitWanted> {
        let mut stall = None;
        let mut deadline = pin!(self.process_deadline(part));
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                self.stalls.no_progress_since.set(None);
                return Poll::Ready(Ok(done));
            }
            if stall.is_none() {
                stall = self.holds_permit(part).map(|origin| {
                    let entry = origin.stalled.enter(part, &self.stalls);
                    Stall { exchange: self, origin, entry }
                });
            }
            let Some(Stall { entry, .. }) = &stall else { return Poll::Pending };
            if let Some(wanted) = entry.wanted()
                && self.holds_permit(part).is_some()
            {
                if part == ClientPart::Takes {
                    self.limit_reads();
                }
                return Poll::Ready(Err(wanted));
            }
            entry.wake_later(context.waker());
            if deadline.as_mut().poll(context).is_ready() && self.holds_permit(part).is_some() {
                self.stalls.is_released.set(true);
                self.limit_reads();
                return Poll::Ready(Err(PermitWanted { has_no_progress: false }));
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until a slow client has to release the process of the application: such a process serves one request at a time, and the
    /// number of processes is not known here. Without an end where no process is occupied.
    async fn process_deadline(&self, part: ClientPart) {
        let is_occupied = part == ClientPart::Takes && self.state.borrow().origin.occupies_process();
        if !is_occupied || self.stalls.is_released.get() {
            return pending().await;
        }
        sleep(PROCESS_WAIT.saturating_sub(self.stalls.waited())).await;
    }

    /// Waits until requests queue for the permit of this exchange; while it has none, it is not wanted.
    pub async fn permit_wanted(&self) {
        loop {
            match self.holds_permit(ClientPart::Takes) {
                Some(it) if it.permits.waiting() > 0 || it.outlier_state.processes.is_wanted() => return,
                _ => queued().await,
            }
        }
    }

    /// The origin whose permit this exchange holds. Not for a client that still sends once the response has begun: both sides converse,
    /// and neither is interrupted.
    fn holds_permit(&self, part: ClientPart) -> Option<Rc<OriginPool>> {
        let state = self.state.borrow();
        let converses = part == ClientPart::Sends && !matches!(state.reading, ResponsePhase::Head);
        (state.permit.is_some() && !converses).then(|| state.origin.clone())
    }

    /// Reads little of the response at once from now on: its client does not take it soon.
    fn limit_reads(&self) {
        if let ExchangeLink::Open(it) = &mut self.state.borrow_mut().link {
            it.limit_reads();
        }
    }
}
