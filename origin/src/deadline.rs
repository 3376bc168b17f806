//! Deadlines of an exchange, and the alarms that ring at them. Which wait has which deadline is said in `exchange`.

use crate::limits::OriginLimits;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The runtime's clock, by which its timers ring: `stdx::clock` is as coarse as its ticks, and a deadline that
/// is compared with a timer must come from the same clock. Read only by a wait that has to wait.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// When what is waited for must have come. Set by the first wait that has to wait: an exchange that never waits
/// never reads the clock.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    pub(crate) read: Option<Instant>,
    pub(crate) write: Option<Instant>,
    total: Option<Instant>,
}

impl Deadlines {
    /// Until when to wait for bytes; `silence` is the longest wait of this phase, if it has one.
    pub(crate) fn read(&mut self, silence: Option<Duration>, limits: &OriginLimits) -> Option<Instant> {
        earlier(&mut self.read, silence, &mut self.total, limits)
    }

    /// Until when to wait for the origin to take bytes.
    pub(crate) fn write(&mut self, limits: &OriginLimits) -> Option<Instant> {
        earlier(&mut self.write, Some(limits.between_bytes), &mut self.total, limits)
    }

    /// Whether `Limits::total` has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.total.is_some_and(|it| it <= now())
    }
}

/// The earlier of one phase's deadline and that of the whole exchange, which are set if they are not yet.
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

/// An alarm that is set anew for every wait and almost never rings. It stays registered with the runtime's timer at
/// some earlier time, and is moved only when that comes or is too late: most waits touch no timer at all.
#[derive(Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready once `deadline` has passed; else the task is woken then, or earlier.
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

    /// Whether the time it is registered for has passed, which may be earlier than what was last asked for.
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

/// `now + duration`, or thirty years from now where that cannot be counted.
pub(crate) fn after(now: Instant, duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    now + duration.min(FAR)
}
