//! The only place that reads a clock. Everything else takes `now` as an argument.
//!
//! Two readings, both coarse: they are refreshed by [`tick`], which every worker calls once per
//! turn of its timer, so that a RAM hit never asks the kernel for the time. A process that was stopped wakes up with an
//! old reading: where that matters, whoever receives calls [`arrived`].

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds since the Unix epoch, as the origin and we count them.
///
/// Wall time, not monotonic: it is compared with `Date` and `Expires`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

impl WallTime {
    /// Time elapsed since `earlier`; zero where the clock went back.
    #[must_use]
    pub fn since(self, earlier: WallTime) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }

    /// Whole seconds elapsed since `earlier`; zero where the clock went back.
    #[must_use]
    pub fn seconds_since(self, earlier: WallTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since this process first asked; never goes back, and goes on while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

static WALL: AtomicU64 = AtomicU64::new(0);
static MONOTONIC: AtomicU64 = AtomicU64::new(0);
/// Milliseconds that tests have moved the monotonic reading by; zero in production.
static PASSED: AtomicU64 = AtomicU64::new(0);
/// Seconds that tests have moved the wall clock by; zero in production.
static MOVED: AtomicI64 = AtomicI64::new(0);
/// The second at which a test made the wall clock stand; zero where it goes, as in production.
static STANDS: AtomicU64 = AtomicU64::new(0);
/// Milliseconds of the machine's clock at which a test holds the monotonic reading; zero where it goes, as in production.
static HELD: AtomicU64 = AtomicU64::new(0);
static START: OnceLock<Instant> = OnceLock::new();
/// Milliseconds of the machine's clock when this process first asked.
static BOOTED: OnceLock<u64> = OnceLock::new();
/// Whether somebody minds how old the monotonic reading is.
static MINDED: AtomicBool = AtomicBool::new(false);

/// Reads the kernel's clocks once and publishes both readings to every thread.
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn tick() {
    let wall = match STANDS.load(Relaxed) {
        0 => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
        second => second,
    };
    WALL.store(wall.saturating_add_signed(MOVED.load(Relaxed)), Relaxed);
    tick_monotonic();
}

/// Milliseconds of the machine's clock.
fn booted_millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

fn tick_monotonic() {
    let millis = match HELD.load(Relaxed) {
        0 => booted_millis(),
        held => held,
    };
    // Zero is before everything: what is trusted until then never is.
    let now = millis.saturating_sub(*BOOTED.get_or_init(|| millis)) + 1 + PASSED.load(Relaxed);
    // Written once a millisecond at most: the others read it with every request.
    if MONOTONIC.load(Relaxed) < now {
        MONOTONIC.fetch_max(now, Relaxed);
    }
}

/// From now on the monotonic reading is as new as the last request that arrived: what is trusted until a certain time
/// must not be served by a process that was stopped meanwhile. See docs/decisions/0081.
pub fn mind_arrivals() {
    MINDED.store(true, Relaxed);
}

/// Something arrived: to be called after every receiving of what clients send. Costs nothing where nobody minds, and
/// some tens of nanoseconds where [`mind_arrivals`] was called.
#[inline]
pub fn arrived() {
    if MINDED.load(Relaxed) {
        tick_monotonic();
    }
}

/// The wall time of the last [`tick`]; ticks by itself if nobody has yet.
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

/// The monotonic time, read from the kernel now: for what ends to the millisecond. Not for the hit path.
#[must_use]
pub fn monotonic_now() -> Monotonic {
    tick_monotonic();
    monotonic()
}

/// Microseconds since this process first asked, read from the kernel now: for logs and traces,
/// which need more than the coarse readings give. Not for the hit path.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn precise_micros() -> u64 {
    let start = *START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// What microseconds of [`precise_micros`] are since the Unix epoch, by the wall clock as it stands now.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]
pub fn unix_micros(precise: u64) -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_micros());
    let moved = MOVED.load(Relaxed).saturating_mul(1_000_000);
    let wall = u64::try_from(wall).unwrap_or(u64::MAX).saturating_add_signed(moved);
    wall.saturating_sub(precise_micros().saturating_sub(precise))
}

/// Moves the wall clock of this process by `seconds`: for tests, which never sleep.
pub fn advance(seconds: i64) {
    MOVED.fetch_add(seconds, Relaxed);
    tick();
}

/// Has the monotonic clock of this process go on by `millis`, and the wall clock stay: for tests, which never sleep. Every deadline
/// comes that much nearer.
pub fn pass(millis: u64) {
    PASSED.fetch_add(millis, Relaxed);
    tick_monotonic();
}

/// Holds the monotonic clock of this process, where only [`pass`] moves it: a limit of a second is then not reached because the
/// machine is busy. Timers of the runtime go on.
pub fn hold() {
    HELD.store(booted_millis().max(1), Relaxed);
}

/// Undoes [`hold`]: the reading goes on as if it had never been held.
pub fn release() {
    HELD.store(0, Relaxed);
}

/// Makes the wall clock of this process stand at `second` since the Unix epoch, where only [`advance`] moves it: a test's
/// second is then as long as the test likes, however busy the machine. The monotonic reading goes on.
pub fn stand_at(second: u64) {
    STANDS.store(second, Relaxed);
    tick();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_when_told() {
        let before = wall();
        advance(1000);
        assert!(wall().seconds_since(before) >= 1000);
        assert_eq!(0, before.seconds_since(wall()), "never negative");
        let (wall, uptime) = (wall(), monotonic_now());
        pass(1_000_000);
        assert!(monotonic().0 >= uptime.0 + 1_000_000);
        assert!(super::wall().seconds_since(wall) < 1000, "the wall clock is another");
    }
}
