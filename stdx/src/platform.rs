//! The differences between operating systems: clocks that the standard library does not have. The readings that larder uses are in
//! `clock`, which is the only module that calls these.

#[cfg(target_os = "linux")]
pub(crate) use linux::{booted_millis, kernel_micros, tick_millis};
#[cfg(not(target_os = "linux"))]
pub(crate) use plain::{booted_millis, kernel_micros, tick_millis};

#[cfg(target_os = "linux")]
mod linux {
    use rustix::time::{ClockId, clock_getres, clock_gettime};
    use std::sync::OnceLock;

    /// Milliseconds since the machine was started, with those for which it was suspended.
    pub(crate) fn booted_millis() -> u64 {
        micros(ClockId::Boottime) / 1_000
    }

    /// Microseconds of the clock by which systemd orders messages.
    pub(crate) fn kernel_micros() -> u64 {
        micros(ClockId::Monotonic)
    }

    /// Milliseconds of that clock at the kernel's last tick, if ticks are at most 4 ms apart (250 Hz); otherwise now.
    pub(crate) fn tick_millis() -> u64 {
        static CLOCK: OnceLock<ClockId> = OnceLock::new();
        let clock = CLOCK.get_or_init(|| {
            let tick = clock_getres(ClockId::MonotonicCoarse);
            let is_fine = tick.tv_sec == 0 && tick.tv_nsec <= 4_000_000;
            if is_fine { ClockId::MonotonicCoarse } else { ClockId::Monotonic }
        });
        micros(*clock) / 1_000
    }

    fn micros(clock: ClockId) -> u64 {
        let now = clock_gettime(clock);
        u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
    }
}

#[cfg(not(target_os = "linux"))]
mod plain {
    use std::sync::OnceLock;
    use std::time::Instant;

    static FIRST: OnceLock<Instant> = OnceLock::new();

    /// Milliseconds since the first reading. It depends on the system whether the time for which it was suspended is included.
    pub(crate) fn booted_millis() -> u64 {
        kernel_micros() / 1_000
    }

    /// Milliseconds since the first reading.
    pub(crate) fn tick_millis() -> u64 {
        kernel_micros() / 1_000
    }

    /// Microseconds since the first reading.
    #[allow(clippy::disallowed_methods, reason = "called by the one module that reads a clock")]
    pub(crate) fn kernel_micros() -> u64 {
        let elapsed = FIRST.get_or_init(Instant::now).elapsed();
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }
}
