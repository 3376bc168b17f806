//! What the tiers below RAM are worth to a request, which responses may go down into them, and which of two copies is
//! the newer. Where copies lie, and how they are moved, is in `store` and `gateway`.

use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::reuse::{self, ForwardReason, Reuse};
use crate::stored::Meta;
use larder_stdx::clock::WallTime;

/// Whether the tiers below are to be asked before the origin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// What lies there may answer, or spare the origin the body.
    Worthwhile,
    /// Whatever lies there, the origin would be asked all the same.
    InVain,
}

/// Whether a request that RAM decided about as `verdict`, with `held` in RAM, may find something better below.
///
/// A client that wants the origin's own word (`no-cache`, `max-age=0`, where they are obeyed) gets it; what must be
/// validated each time is no better for lying elsewhere, unless it is `due`: others write there, and it is time to look
/// again. What a purge ended may lie there anew.
#[must_use]
pub fn descent(
    verdict: Reuse,
    held: Option<&Meta>,
    due: bool,
    request: &RequestFacts<'_>,
    policy: &Policy,
) -> Descent {
    let asked = request.directives.obeyed(policy.request_directives);
    let wants_the_origin = asked.no_cache || asked.max_age == Some(0);
    let is_asked_about =
        |it: &Meta| it.no_cache || it.lifetime.is_zero() || reuse::is_for_others(it, request, policy);
    let always_asked = held.is_some_and(is_asked_about) && !due;
    let open = match verdict {
        Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating => false,
        Reuse::Validate(reason) | Reuse::Forward(reason) => {
            !matches!(reason, ForwardReason::Bypass | ForwardReason::BrokenEscape | ForwardReason::Method)
        }
        Reuse::GatewayTimeout => true,
    };
    if open && !wants_the_origin && !always_asked { Descent::Worthwhile } else { Descent::InVain }
}

/// What becomes of a request for a copy in RAM that has lasted its time there, and that the tiers below have no more:
/// somebody may have removed it, so the origin is asked whether it holds.
#[must_use]
pub fn doubted(held: &Meta, request: &RequestFacts<'_>, policy: &Policy) -> Reuse {
    match held.has_validator() {
        _ if request.directives.obeyed(policy.request_directives).only_if_cached => Reuse::GatewayTimeout,
        true => Reuse::Validate(ForwardReason::Stale),
        false => Reuse::Forward(ForwardReason::Stale),
    }
}

/// Whether a stored response goes down into the tiers below RAM: whole, and of use to somebody without asking first.
/// That it may be shared at all was decided when it was stored.
#[must_use]
pub fn goes_down(meta: &Meta, now: WallTime) -> bool {
    meta.partial.is_none() && !meta.no_cache && usable_for(meta, now) > 0
}

/// Whether a response that leaves RAM is worth a place below: it is of use without asking, or its validator may spare the
/// origin the body.
#[must_use]
pub fn is_worth_keeping(meta: &Meta, now: WallTime) -> bool {
    goes_down(meta, now) || (meta.partial.is_none() && !meta.no_cache && meta.has_validator())
}

/// For how many seconds from `now` a response can answer without the origin being asked first.
#[must_use]
pub fn usable_for(meta: &Meta, now: WallTime) -> u64 {
    let stale = if meta.must_revalidate { 0 } else { meta.stale_while_revalidate };
    (u64::from(meta.lifetime.seconds) + u64::from(stale)).saturating_sub(u64::from(meta.age(now)))
}

/// How a copy that was found below compares with the one that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The origin has spoken since.
    Newer,
    /// It is the same.
    Same,
    /// The one that is held is the newer.
    Older,
}

/// Compares two copies of what one key and variant selects. By the origin's `Date` first, which is the same wherever
/// it is read; then by when the answer came, which nodes may see a little differently. A second is long: of two that
/// these cannot tell apart, the one that is found, which all nodes share, counts as newer unless `is_same` says that
/// both are one.
#[must_use]
pub fn compare(found: &Meta, held: &Meta, is_same: impl FnOnce() -> bool) -> Compared {
    let moment = |it: &Meta| (it.date, it.response_time);
    match moment(found).cmp(&moment(held)) {
        std::cmp::Ordering::Greater => Compared::Newer,
        std::cmp::Ordering::Equal if found.etag == held.etag && is_same() => Compared::Same,
        std::cmp::Ordering::Equal => Compared::Newer,
        std::cmp::Ordering::Less => Compared::Older,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::purged::PurgeVerdict;
    use crate::request::RequestFacts;
    use crate::trace::Silent;

    const THEN: WallTime = WallTime(1_000_000);

    fn stored(cache_control: &str) -> Meta {
        let fields = [Field { name: "Cache-Control", value: cache_control.as_bytes() }];
        Meta::of(200, &fields, &Policy::default(), THEN, THEN)
    }

    #[track_caller]
    fn check_descent(held: Option<&str>, request: &str, seconds: u64, expect: Descent) {
        let policy = Policy::default();
        let fields = [Field { name: "Cache-Control", value: request.as_bytes() }];
        let facts = RequestFacts::read("GET", if request.is_empty() { &[] } else { &fields });
        let held = held.map(stored);
        let usable = held.as_ref().ok_or(ForwardReason::UriMiss);
        let verdict = reuse::decide(usable, &facts, &policy, WallTime(THEN.0 + seconds), &mut Silent);
        assert_eq!(expect, descent(verdict, held.as_ref(), false, &facts, &policy), "{verdict:?}");
    }

    #[test]
    fn what_ram_has_not_or_no_more_may_lie_below() {
        check_descent(None, "", 0, Descent::Worthwhile);
        check_descent(None, "only-if-cached", 0, Descent::Worthwhile);
        check_descent(Some("max-age=60"), "", 61, Descent::Worthwhile);
        check_descent(Some("max-age=60"), "", 59, Descent::InVain);
    }

    #[test]
    fn who_wants_the_origin_gets_it() {
        check_descent(None, "no-cache", 0, Descent::InVain);
        check_descent(None, "max-age=0", 0, Descent::InVain);
        check_descent(Some("max-age=60"), "no-cache", 1, Descent::InVain);
        check_descent(Some("no-cache, max-age=60"), "", 1, Descent::InVain);
        check_descent(Some("max-age=60"), "max-age=5", 10, Descent::Worthwhile);
    }

    #[test]
    fn what_a_purge_ended_may_lie_below_anew() {
        for strength in [PurgeVerdict::Soft, PurgeVerdict::Validate] {
            // In its first second.
            let held = strength(THEN).apply(&stored("max-age=60")).unwrap();
            assert_eq!(0, held.lifetime.seconds);
            assert_eq!(Descent::Worthwhile, descent_of(&held, false));
        }
    }

    #[test]
    fn what_is_always_asked_about_is_looked_for_when_it_is_due() {
        for it in ["max-age=0", "no-cache, max-age=60"] {
            assert_eq!(Descent::InVain, descent_of(&stored(it), false), "{it}");
            assert_eq!(Descent::Worthwhile, descent_of(&stored(it), true), "{it}");
        }
    }

    fn descent_of(held: &Meta, due: bool) -> Descent {
        let (policy, facts) = (Policy::default(), RequestFacts::read("GET", &[]));
        let verdict = reuse::decide(Ok(held), &facts, &policy, THEN, &mut Silent);
        descent(verdict, Some(held), due, &facts, &policy)
    }

    #[test]
    fn what_is_doubted_is_asked_about() {
        let policy = Policy::default();
        let fields = [Field { name: "Cache-Control", value: b"only-if-cached" }];
        let (plain, only) = (RequestFacts::read("GET", &[]), RequestFacts::read("GET", &fields));
        let mut held = stored("max-age=60");
        assert_eq!(Reuse::Forward(ForwardReason::Stale), doubted(&held, &plain, &policy));
        held.etag = Some(Box::from(&b"\"1\""[..]));
        assert_eq!(Reuse::Validate(ForwardReason::Stale), doubted(&held, &plain, &policy));
        assert_eq!(Reuse::GatewayTimeout, doubted(&held, &only, &policy));
    }

    #[track_caller]
    fn check_goes_down(cache_control: &str, seconds: u64, expect: bool) {
        assert_eq!(expect, goes_down(&stored(cache_control), WallTime(THEN.0 + seconds)));
    }

    #[test]
    fn only_what_is_of_use_goes_down() {
        check_goes_down("max-age=60", 0, true);
        check_goes_down("max-age=60", 60, false);
        check_goes_down("max-age=60, stale-while-revalidate=5", 60, true);
        check_goes_down("max-age=60, stale-while-revalidate=5, must-revalidate", 60, false);
        check_goes_down("no-cache, max-age=60", 0, false);
        check_goes_down("max-age=0", 0, false);
    }

    #[test]
    fn the_origins_own_date_tells_which_is_newer() {
        let held = stored("max-age=60");
        let mut found = held.clone();
        assert_eq!(Compared::Same, compare(&found, &held, || true));
        assert_eq!(Compared::Newer, compare(&found, &held, || false));
        found.etag = Some(Box::from(&b"\"2\""[..]));
        assert_eq!(Compared::Newer, compare(&found, &held, || true));
        found.response_time = WallTime(held.response_time.0 + 1);
        assert_eq!(Compared::Newer, compare(&found, &held, || true));
        found.date = WallTime(held.date.0 - 1);
        assert_eq!(Compared::Older, compare(&found, &held, || false));
    }
}
