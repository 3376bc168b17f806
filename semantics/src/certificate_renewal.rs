//! The times of an automatic certificate: when it is renewed (RFC 9773), and when a failed attempt is repeated. Orders and files are in
//! `server::acme`.

/// The pauses after consecutive failures, seconds. A CA allows five failed validations of a name in an hour: these are the attempts at 0, 1, 5,
/// 20 and 50 minutes.
const PAUSES: [u64; 8] = [60, 240, 900, 1_800, 3_600, 7_200, 14_400, 28_800];
/// The pause after more failures, seconds.
const LONGEST_PAUSE: u64 = 43_200;
/// The longest pause that a CA may ask for, seconds: a week, as after too many certificates for one name.
const LONGEST_REQUEST: u64 = 7 * 86_400;

/// The validity of a certificate, seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second in which the certificate is valid.
    pub from: i64,
    /// The last one.
    pub until: i64,
}

impl Validity {
    /// Two thirds of its lifetime: the renewal of a certificate without a suggestion of its CA. A fixed number of days would renew a
    /// certificate of six days for ever.
    #[must_use]
    pub fn renewal(self) -> i64 {
        self.from + (self.until - self.from).max(0) / 3 * 2
    }

    /// Its renewal for the window that its CA suggests, by a random number; `None` for a window that ends before it starts. It is not
    /// before a sixth of the lifetime or a day, so that a CA with a wrong clock does not cause a loop, and not after the warning.
    #[must_use]
    pub fn suggested(self, from: i64, until: i64, random: u32) -> Option<i64> {
        let earliest = self.from + ((self.until - self.from).max(0) / 6).min(86_400);
        (from < until).then(|| moment(from, until, random).max(earliest).min(self.until - self.warning()))
    }

    /// The rest of its lifetime below which an operator is warned, seconds: 14 days, or a sixth of a shorter lifetime.
    #[must_use]
    pub fn warning(self) -> i64 {
        ((self.until - self.from).max(0) / 6).min(14 * 86_400)
    }
}

/// Whether a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryState {
    /// There is none yet.
    Missing,
    /// Its validity begins later.
    NotYetValid,
    /// For longer than the warning.
    Valid,
    /// It expires soon.
    Expiring,
    /// It has expired.
    Expired,
}

impl ExpiryState {
    /// The state of a certificate at a time; `warning` is the rest of the lifetime below which it expires soon, seconds.
    #[must_use]
    pub fn of(validity: Option<Validity>, warning: i64, now: i64) -> Self {
        let Some(Validity { from, until }) = validity else { return ExpiryState::Missing };
        match until.saturating_sub(now) {
            ..=0 => ExpiryState::Expired,
            _ if from > now => ExpiryState::NotYetValid,
            left if left < warning => ExpiryState::Expiring,
            _ => ExpiryState::Valid,
        }
    }

    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ExpiryState::Missing => "missing",
            ExpiryState::NotYetValid => "not-yet-valid",
            ExpiryState::Valid => "valid",
            ExpiryState::Expiring => "expiring",
            ExpiryState::Expired => "expired",
        }
    }
}

/// The moment of a window that a CA suggests, by a random number: all moments are equally likely (RFC 9773 section 4.2).
#[must_use]
pub fn moment(from: i64, until: i64, random: u32) -> i64 {
    let length = i128::from(until.max(from)) - i128::from(from);
    let offset = length * i128::from(random) / (i128::from(u32::MAX) + 1);
    i64::try_from(i128::from(from) + offset).unwrap_or(from)
}

/// The pause after this many consecutive failures, seconds; up to a fifth longer by a random number, so that nodes and names do not return
/// together. A pause that the CA asked for is kept, within a week.
#[must_use]
pub fn pause(failures: u32, requested: Option<u64>, random: u32) -> u64 {
    let at = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    let pause = PAUSES.get(at).copied().unwrap_or(LONGEST_PAUSE);
    let pause = pause + pause / 5 * u64::from(random) / u64::from(u32::MAX);
    pause.max(requested.unwrap_or(0).min(LONGEST_REQUEST))
}

/// A pause with its start, seconds since the Unix epoch. It outlives a restart, so that a crash loop does not repeat attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptPause {
    /// The second in which the pause began.
    pub from: i64,
    /// Its length.
    pub seconds: u64,
}

impl AttemptPause {
    /// Its end.
    #[must_use]
    pub fn end(self) -> i64 {
        self.from.saturating_add(i64::try_from(self.seconds).unwrap_or(i64::MAX))
    }
}

/// Whether a name needs an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalDecision {
    /// Now.
    Due,
    /// Not before this second.
    At(i64),
}

/// Decides about a name: `renews` is the planned renewal of its certificate, `None` without one.
#[must_use]
pub fn decide(renews: Option<i64>, pause: AttemptPause, now: i64) -> RenewalDecision {
    let due = renews.unwrap_or(i64::MIN).max(if pause.seconds == 0 { i64::MIN } else { pause.end() });
    if due <= now { RenewalDecision::Due } else { RenewalDecision::At(due) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_lifetime() {
        for (days, expect) in [(90, 60), (47, 31), (6, 4)] {
            let it = Validity { from: 1000, until: 1000 + days * DAY };
            assert_eq!(expect, (it.renewal() - 1000) / DAY, "{days} days");
            assert!(it.until - it.renewal() > it.warning(), "{days}: the warning follows the renewal");
        }
        let backwards = Validity { from: 10, until: 5 };
        assert_eq!((10, 0), (backwards.renewal(), backwards.warning()));
    }

    #[test]
    fn a_suggested_renewal_stays_within_the_lifetime() {
        let it = Validity { from: 1000, until: 1000 + 90 * DAY };
        let day = |it: i64| 1000 + it * DAY;
        for (from, until, expect) in [
            (day(30), day(31), Some(day(30))),
            (day(-9), day(-8), Some(day(1))),
            (day(89), day(300), Some(day(76))),
            (i64::MIN, i64::MAX, Some(day(1))),
            (day(31), day(31), None),
            (day(31), day(30), None),
        ] {
            assert_eq!(expect, it.suggested(from, until, 0), "{from} {until}");
        }
        assert_eq!(Some(5), Validity { from: 10, until: 5 }.suggested(0, 100, 0));
    }

    #[test]
    fn a_certificate_expires_soon_before_it_has_expired() {
        let of = |from, until| ExpiryState::of(Some(Validity { from, until }), 10, 100).name();
        assert_eq!("missing", ExpiryState::of(None, 10, 100).name());
        let states = [100, 101, 109, 110, i64::MAX].map(|until| of(0, until));
        assert_eq!(["expired", "expiring", "expiring", "valid", "valid"], states);
        let states = [(100, 200), (101, 200), (101, 105), (200, 100)].map(|(from, until)| of(from, until));
        assert_eq!(["valid", "not-yet-valid", "not-yet-valid", "expired"], states);
    }

    #[test]
    fn a_window_is_used_evenly() {
        assert_eq!([0, 50, 99], [0, 1 << 31, u32::MAX].map(|it| moment(0, 100, it)));
        assert_eq!(7, moment(7, 7, u32::MAX));
        assert_eq!(7, moment(7, 3, u32::MAX), "a window that ends before it starts");
        assert!(moment(i64::MIN, i64::MAX, u32::MAX) < i64::MAX);
    }

    #[test]
    fn pauses_grow_and_a_ca_may_lengthen_them() {
        let mut passed = 0;
        for failures in 1..5 {
            passed += pause(failures, None, 0);
        }
        assert_eq!(50 * 60, passed, "the fifth attempt");
        assert!(passed + pause(5, None, 0) > 60 * 60, "the sixth one is beyond an hour");
        assert_eq!(60, pause(0, None, 0));
        assert_eq!(72, pause(1, None, u32::MAX));
        assert_eq!(LONGEST_PAUSE, pause(u32::MAX, None, 0));
        assert_eq!(3600, pause(1, Some(3600), 0));
        assert_eq!(LONGEST_REQUEST, pause(1, Some(u64::MAX), 0));
    }

    #[test]
    fn an_attempt_waits_for_its_pause() {
        let none = AttemptPause::default();
        let failed = AttemptPause { from: 1000, seconds: 60 };
        for (renews, pause, now, expect) in [
            (None, none, 0, RenewalDecision::Due),
            (None, failed, 1000, RenewalDecision::At(1060)),
            (None, failed, 1060, RenewalDecision::Due),
            (Some(500), failed, 1059, RenewalDecision::At(1060)),
            (Some(2000), none, 1999, RenewalDecision::At(2000)),
            (Some(2000), none, 2000, RenewalDecision::Due),
            (Some(2000), failed, 1500, RenewalDecision::At(2000)),
        ] {
            assert_eq!(expect, decide(renews, pause, now), "{renews:?} {pause:?} {now}");
        }
    }
}
