//! Deadlines of an exchange, and their alarms. `exchange` defines which wait has which deadline.

use crate::error::TimeLimit;
use crate::limits::OriginLimits;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The runtime's clock, which its timers follow. `stdx::clock` is only as precise as its ticks, and a deadline compared
/// with a timer must use the same clock. Read only by a wait that really waits.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The deadlines of the awaited events. Set by the first wait that really waits: an exchange that never waits never reads
/// the clock.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    pub(crate) read: Option<Instant>,
    pub(crate) write: Option<Instant>,
    total: Option<Instant>,
}

impl Deadlines {
    /// The deadline for receiving bytes; `silence` is the longest wait of this phase, if it has one.
    pub(crate) fn read(&mut self, silence: Option<Duration>, limits: &OriginLimits) -> Option<Instant> {
        earlier(&mut self.read, silence, &mut self.total, limits)
    }

    /// The deadline for the origin to accept bytes.
    pub(crate) fn write(&mut self, limits: &OriginLimits) -> Option<Instant> {
        earlier(&mut self.write, Some(limits.between_bytes), &mut self.total, limits)
    }

    /// The limit that has passed: that of the whole exchange, or that of the phase.
    pub(crate) fn passed(&self, phase: TimeLimit) -> TimeLimit {
        if self.is_over() { TimeLimit::Total } else { phase }
    }

    /// Whether `Limits::total` has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.total.is_some_and(|it| it <= now())
    }
}

/// The earlier of one phase's deadline and that of the whole exchange; sets those that are not set yet.
fn earlier(
    phase: &mut Option<Instant>,
    limit: Option<Duration>,
    total: &mut Option<Instant>,
    limits: &OriginLimits,
) -> Option<Instant> {
    let limit = limit.filter(|_| phase.is_none());
    let whole = Some(limits.total).filter(|it| !it.is_zero() && total.is_none());
    if limit.is_some() || whole.is_some() {
        let now = now();
        *phase = limit.map(|it| after(now, it)).or(*phase);
        *total = whole.map(|it| after(now, it)).or(*total);
    }
    match (*phase, *total) {
        (Some(phase), Some(total)) => Some(phase.min(total)),
        (phase, total) => phase.or(total),
    }
}

/// An alarm that is set for every wait and almost never fires. It stays registered with the runtime's timer for some
/// earlier time, and is moved only when that time comes or is too late: most waits touch no timer.
#[derive(Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready once `deadline` has passed; otherwise the task is woken then, or earlier.
    pub(crate) fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= deadline || now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }

    /// Whether its registered time has passed, which may be earlier than the requested one.
    pub(crate) fn has_rung(&self) -> bool {
        self.0.as_ref().is_some_and(|it| it.is_elapsed())
    }
}

/// The alarms of the two directions. They stay with their connection from one exchange to the next.
#[derive(Default)]
pub(crate) struct Alarms {
    pub(crate) read: Alarm,
    pub(crate) write: Alarm,
}

/// `now + duration`, or thirty years from now on overflow.
pub(crate) fn after(now: Instant, duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    now + duration.min(FAR)
}
