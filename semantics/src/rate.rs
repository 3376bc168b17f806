//! The arithmetic of rate limits: the generic cell rate algorithm (GCRA; ITU-T I.371, annex A) over one number for each client.
//! The table of these numbers is `stdx::rate_table`.

use std::fmt;

/// Ticks of a millisecond. A tick is a sixteenth of a microsecond, so that the rounding of the highest rate is below 1 %.
pub const TICKS: u64 = 16_000;

/// The highest number of requests in a second.
pub const MOST_IN_A_SECOND: u64 = 100_000;

/// The tolerance for a clock whose readings are up to 4 ms old. It shifts requests, and never raises the rate.
const CLOCK: u64 = 4 * TICKS;

/// A number of events in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Events.
    pub count: u32,
    /// Seconds in which they may happen.
    pub seconds: u32,
}

impl Rate {
    /// Parses `5/s`, `100/m`, `1000/h` or `5000/d`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (count, unit) = text.split_once('/')?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        let digits = !count.is_empty() && count.bytes().all(|it| it.is_ascii_digit());
        let count: u32 = count.parse().ok().filter(|it| digits && *it > 0)?;
        (u64::from(count) <= MOST_IN_A_SECOND * u64::from(seconds)).then_some(Self { count, seconds })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.seconds {
            1 => "s",
            60 => "m",
            3_600 => "h",
            86_400 => "d",
            seconds => return write!(f, "{}/{seconds}s", self.count),
        };
        write!(f, "{}/{unit}", self.count)
    }
}

/// A rate with its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    /// The rate.
    pub rate: Rate,
    /// Ticks between two events at the rate.
    pub interval: u64,
    /// Ticks by which events may come before their time.
    tolerance: u64,
}

/// A refusal: the time after which the next event is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedFor {
    /// Ticks.
    pub ticks: u64,
}

impl RefusedFor {
    /// Whole seconds, at least one, for `Retry-After` (RFC 9110 §10.2.3).
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.ticks.div_ceil(TICKS * 1000).max(1)
    }
}

impl Gcra {
    /// At most `rate`, and `burst` events more at once.
    #[must_use]
    pub fn new(rate: Rate, burst: u32) -> Self {
        let period = u64::from(rate.seconds) * 1000 * TICKS;
        let count = u64::from(rate.count);
        let interval = (period + count / 2) / count;
        // An operator's burst of years cannot overflow: the sum of all is below 2^52 ticks by the bound here.
        let tolerance = interval.saturating_mul(u64::from(burst)).min(1 << 50) + CLOCK;
        Self { rate, interval, tolerance }
    }

    /// Judges one event of `cost` intervals at `now`, where `arrival` is the stored number; returns the number to store.
    ///
    /// # Errors
    /// The event is refused; nothing is stored.
    #[inline]
    pub fn judge(&self, arrival: u64, now: u64) -> Result<u64, RefusedFor> {
        let early = arrival.saturating_sub(now);
        match early.checked_sub(self.tolerance).filter(|it| *it > 0) {
            None => Ok(arrival.max(now) + self.interval),
            Some(ticks) => Err(RefusedFor { ticks }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates() {
        assert_eq!(Some(Rate { count: 5, seconds: 1 }), Rate::parse("5/s"));
        assert_eq!(Some(Rate { count: 100, seconds: 60 }), Rate::parse("100/m"));
        for text in ["", "5", "5/", "/s", "0/s", "+5/s", "5/w", "100001/s", "1.5/s"] {
            assert_eq!(None, Rate::parse(text), "{text}");
        }
    }

    #[test]
    fn a_burst_at_once_then_the_rate() {
        let gcra = Gcra::new(Rate { count: 5, seconds: 1 }, 20);
        let mut arrival = 0;
        let mut admitted = |now: u64| match gcra.judge(arrival, now * TICKS) {
            Ok(next) => {
                arrival = next;
                Ok(())
            }
            Err(wait) => Err(wait.seconds()),
        };
        assert_eq!(21, (0..100).filter(|_| admitted(1000).is_ok()).count());
        assert_eq!(Err(1), admitted(1000));
        assert_eq!(5, (0..1000).filter(|it| admitted(1001 + it).is_ok()).count());
    }

    proptest! {
        /// Over any time the admitted events are within 1 % of the rate, if more are asked for.
        #[test]
        fn the_rate_is_exact(count in 1_u32..=100_000, burst in 0_u32..100) {
            let gcra = Gcra::new(Rate { count, seconds: 1 }, burst);
            let (mut arrival, mut admitted) = (0, 0_u64);
            for millisecond in 0..20_000_u64 {
                while let Ok(next) = gcra.judge(arrival, millisecond * TICKS) {
                    arrival = next;
                    admitted += 1;
                }
            }
            let expect = u64::from(count) * 20;
            let slack = expect / 100 + u64::from(burst) + 2 + u64::from(count) * 5 / 1000;
            prop_assert!(admitted.abs_diff(expect) <= slack, "{} {}", admitted, expect);
        }
    }
}
