//! The only module that reads a clock. All other code takes `now` as an argument.
//!
//! Two readings, both coarse: [`tick`] refreshes them, and every worker calls it once per turn of its timer, so that a
//! RAM hit never makes a system call for the time. A process that was stopped continues with an old reading: receiving
//! code calls [`bytes_received`] where that matters.

use crate::platform::{booted_millis, tick_millis};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds since the Unix epoch, by the clocks of origins and of this machine.
///
/// Wall time, not monotonic: it is compared with `Date` and `Expires`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

impl WallTime {
    /// Time elapsed since `earlier`; zero if the clock was set back.
    #[must_use]
    pub fn since(self, earlier: WallTime) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }

    /// Whole seconds elapsed since `earlier`; zero if the clock was set back.
    #[must_use]
    pub fn seconds_since(self, earlier: WallTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A wall time, or none, in the space of a wall time alone: `u64::MAX` is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OptionalWallTime(u64);

impl OptionalWallTime {
    /// Its value.
    #[inline]
    #[must_use]
    pub fn get(self) -> Option<WallTime> {
        (self.0 != u64::MAX).then_some(WallTime(self.0))
    }
}

impl From<Option<WallTime>> for OptionalWallTime {
    fn from(time: Option<WallTime>) -> Self {
        Self(time.map_or(u64::MAX, |it| it.0.min(u64::MAX - 1)))
    }
}

impl fmt::Debug for OptionalWallTime {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(to)
    }
}

/// Milliseconds since the first reading of this process; never decreases, and continues while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

static WALL: AtomicU64 = AtomicU64::new(0);
static MONOTONIC: AtomicU64 = AtomicU64::new(0);
/// Milliseconds by which tests have advanced the monotonic reading; zero in production.
static ADVANCED_MILLIS: AtomicU64 = AtomicU64::new(0);
/// Seconds by which tests have moved the wall clock; zero in production.
static ADVANCED_SECONDS: AtomicI64 = AtomicI64::new(0);
/// The second at which a test has stopped the wall clock; zero if it runs, as in production.
static STOPPED_AT: AtomicU64 = AtomicU64::new(0);
/// Milliseconds of the machine's clock at which a test holds the monotonic reading; zero if it runs, as in production.
static HELD_AT: AtomicU64 = AtomicU64::new(0);
static START: OnceLock<Instant> = OnceLock::new();
/// Milliseconds of the machine's clock at the first reading of this process.
static BOOT_MILLIS: OnceLock<u64> = OnceLock::new();
/// Whether a component requires a fresh monotonic reading after every receive.
static REFRESHES_ON_RECEIVE: AtomicBool = AtomicBool::new(false);

/// Reads the kernel's clocks once and publishes both readings to every thread.
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn tick() {
    let wall = match STOPPED_AT.load(Relaxed) {
        0 => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
        second => second,
    };
    WALL.store(wall.saturating_add_signed(ADVANCED_SECONDS.load(Relaxed)), Relaxed);
    tick_monotonic();
}

fn tick_monotonic() {
    let millis = match HELD_AT.load(Relaxed) {
        0 => booted_millis(),
        held => held,
    };
    // Zero is before every reading: a lease that ends at zero has never been valid.
    let now = millis.saturating_sub(*BOOT_MILLIS.get_or_init(|| millis)) + 1 + ADVANCED_MILLIS.load(Relaxed);
    // Written once a millisecond at most: other threads read it with every request.
    if MONOTONIC.load(Relaxed) < now {
        MONOTONIC.fetch_max(now, Relaxed);
    }
}

/// Makes [`bytes_received`] refresh the monotonic reading from now on: data that is trusted until a certain time must not be
/// served by a process that was stopped meanwhile. See docs/decisions/0081.
pub fn refresh_on_receive() {
    REFRESHES_ON_RECEIVE.store(true, Relaxed);
}

/// To be called after every receive of client bytes. Costs nothing unless [`refresh_on_receive`] was called, then some tens of
/// nanoseconds.
#[inline]
pub fn bytes_received() {
    if REFRESHES_ON_RECEIVE.load(Relaxed) {
        tick_monotonic();
    }
}

/// The wall time of the last [`tick`]; calls it if there was none yet.
#[must_use]
pub fn wall() -> WallTime {
    match WALL.load(Relaxed) {
        0 => {
            tick();
            WallTime(WALL.load(Relaxed))
        }
        seconds => WallTime(seconds),
    }
}

/// The monotonic time of the last [`tick`].
#[must_use]
pub fn monotonic() -> Monotonic {
    Monotonic(MONOTONIC.load(Relaxed))
}

/// The monotonic time, read from the kernel now: for deadlines with millisecond precision. Not for the hit path.
#[must_use]
pub fn monotonic_now() -> Monotonic {
    tick_monotonic();
    monotonic()
}

/// Milliseconds of a monotonic clock, read from the kernel now, but at most 4 ms old: a reading costs a few nanoseconds. Only for comparison
/// with other readings of it: for rates.
#[must_use]
pub fn rate_millis() -> u64 {
    let millis = match HELD_AT.load(Relaxed) {
        0 => tick_millis(),
        held => held,
    };
    millis + ADVANCED_MILLIS.load(Relaxed)
}

/// Microseconds since the first reading of this process, read from the kernel now: for logs and traces, which need more
/// precision than the coarse readings. Not for the hit path.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn precise_micros() -> u64 {
    let start = *START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// An instant of the kernel's monotonic clock, read now, plus the time by which tests have advanced it: for QUIC, whose timers
/// need more precision than the coarse readings.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn instant() -> Instant {
    Instant::now() + Duration::from_millis(ADVANCED_MILLIS.load(Relaxed))
}

/// Microseconds of the kernel's monotonic clock, by which a service manager orders its messages.
#[must_use]
pub fn kernel_micros() -> u64 {
    crate::platform::kernel_micros()
}

/// Converts microseconds of [`precise_micros`] to microseconds since the Unix epoch, by the current wall clock.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn unix_micros(precise: u64) -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_micros());
    let moved = ADVANCED_SECONDS.load(Relaxed).saturating_mul(1_000_000);
    let wall = u64::try_from(wall).unwrap_or(u64::MAX).saturating_add_signed(moved);
    wall.saturating_sub(precise_micros().saturating_sub(precise))
}

/// Moves the wall clock of this process by `seconds`: for tests, which never sleep.
pub fn advance(seconds: i64) {
    ADVANCED_SECONDS.fetch_add(seconds, Relaxed);
    tick();
}

/// Advances the monotonic clock of this process by `millis`; the wall clock stays: for tests, which never sleep. Every
/// deadline comes nearer by that time.
pub fn advance_monotonic(millis: u64) {
    ADVANCED_MILLIS.fetch_add(millis, Relaxed);
    tick_monotonic();
}

/// Holds the monotonic clock of this process, so that only [`advance_monotonic`] moves it: a busy machine then cannot make a test
/// exceed a limit of a second. Timers of the runtime continue.
pub fn hold() {
    HELD_AT.store(booted_millis().max(1), Relaxed);
}

/// Undoes [`hold`]: the reading continues as if it had never been held.
pub fn release() {
    HELD_AT.store(0, Relaxed);
}

/// Stops the wall clock of this process at `second` since the Unix epoch, so that only [`advance`] moves it: a second of
/// a test then has any length, on a busy machine too. The monotonic reading continues.
pub fn stop_at(second: u64) {
    STOPPED_AT.store(second, Relaxed);
    tick();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_when_it_is_advanced() {
        let before = wall();
        advance(1000);
        assert!(wall().seconds_since(before) >= 1000);
        assert_eq!(0, before.seconds_since(wall()), "never negative");
        let (wall, uptime) = (wall(), monotonic_now());
        advance_monotonic(1_000_000);
        assert!(monotonic().0 >= uptime.0 + 1_000_000);
        assert!(super::wall().seconds_since(wall) < 1000, "the wall clock is another");
    }
}
