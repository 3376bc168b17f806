//! The use of the tiers below RAM for a request, the responses that may be written to them, and the newer of two copies.
//! Storage and transfer of copies are in `store` and `gateway`.

use crate::partial;
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::reuse::{self, ForwardReason, Reuse};
use crate::stored::Meta;
use larder_stdx::clock::WallTime;

/// Whether to look in the tiers below before contacting the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// A copy there may answer, or save the origin the body.
    Worthwhile,
    /// The origin would be contacted with any copy.
    InVain,
}

/// Whether a request with the RAM verdict `verdict`, with `held` in RAM, may find a better copy below.
///
/// A client that requires the origin's own response (`no-cache`, `max-age=0`, if obeyed) gets it. A response that must be
/// validated each time is no better in another tier, unless it is `due`: other nodes and applications write there, and it
/// is time to look again. After a purge a new copy may be there.
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
            !matches!(reason, ForwardReason::Bypass | ForwardReason::MalformedTarget | ForwardReason::Method)
        }
        Reuse::GatewayTimeout => true,
    };
    if open && !wants_the_origin && !always_asked { Descent::Worthwhile } else { Descent::InVain }
}

/// The action for a copy in RAM whose time there is over, and which the tiers below no longer have: another node may have
/// removed it, so it is validated.
#[must_use]
pub fn doubted(held: &Meta, request: &RequestFacts<'_>, policy: &Policy) -> Reuse {
    match held.has_validator() {
        _ if request.directives.obeyed(policy.request_directives).only_if_cached => Reuse::GatewayTimeout,
        true => Reuse::Validate(ForwardReason::Stale),
        false => Reuse::Forward(ForwardReason::Stale),
    }
}

/// Whether a stored response is written to the tiers below RAM: whole, and usable without validation. Its permission to
/// be shared was decided when it was stored.
#[must_use]
pub fn goes_down(meta: &Meta, now: WallTime) -> bool {
    meta.partial().is_none() && !meta.no_cache && usable_for(meta, now) > 0
}

/// Whether a response evicted from RAM is worth a place below: it is usable without validation, or its validator may save
/// the origin the body.
#[must_use]
pub fn is_worth_keeping(meta: &Meta, now: WallTime) -> bool {
    goes_down(meta, now) || (meta.partial().is_none() && !meta.no_cache && meta.has_validator())
}

/// The number of seconds from `now` for which a response can be served without prior validation.
#[must_use]
pub fn usable_for(meta: &Meta, now: WallTime) -> u64 {
    let stale = if meta.must_revalidate { 0 } else { meta.stale_while_revalidate };
    (u64::from(meta.lifetime.seconds) + u64::from(stale)).saturating_sub(u64::from(meta.age(now)))
}

/// The comparison of a copy found below with the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The found copy is newer.
    Newer,
    /// Both are the same.
    Same,
    /// The local copy is newer.
    Older,
}

impl Compared {
    /// Whether the copy that was found is used in place of the local one, if the key's purges admit it. The local copy may be in doubt for
    /// lack of the facts in an equal one that was found; an older one is never used again.
    #[must_use]
    pub fn takes_found(self, local_serves: bool, found_serves: impl FnOnce() -> bool) -> bool {
        match self {
            Compared::Newer => true,
            Compared::Same => !local_serves && found_serves(),
            Compared::Older => false,
        }
    }
}

/// Compares a copy found in the fleet with the local one, if any. A whole wins over a part that cannot answer, unless the part came later
/// and is of another representation.
#[must_use]
pub fn compare_found(
    found: &Meta,
    local: Option<&Meta>,
    local_serves: bool,
    is_same: impl FnOnce() -> bool,
) -> Compared {
    match local {
        Some(local) if partial::outdates(local, found) => Compared::Older,
        Some(local) if local.partial().is_none() || local_serves => compare(found, local, is_same),
        _ => Compared::Newer,
    }
}

/// Compares two copies of one key and variant. By the origin's `Date` first, which is the same on all nodes; then by the
/// time of the response, which may differ slightly between nodes. A second is long: of two equal copies, the one that is
/// found, which all nodes share, counts as newer unless `is_same` shows that both are identical.
fn compare(found: &Meta, held: &Meta, is_same: impl FnOnce() -> bool) -> Compared {
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
    fn a_response_that_is_absent_or_stale_in_ram_is_looked_up_below() {
        check_descent(None, "", 0, Descent::Worthwhile);
        check_descent(None, "only-if-cached", 0, Descent::Worthwhile);
        check_descent(Some("max-age=60"), "", 61, Descent::Worthwhile);
        check_descent(Some("max-age=60"), "", 59, Descent::InVain);
    }

    #[test]
    fn a_request_for_the_origin_is_not_looked_up_below() {
        check_descent(None, "no-cache", 0, Descent::InVain);
        check_descent(None, "max-age=0", 0, Descent::InVain);
        check_descent(Some("max-age=60"), "no-cache", 1, Descent::InVain);
        check_descent(Some("no-cache, max-age=60"), "", 1, Descent::InVain);
        check_descent(Some("max-age=60"), "max-age=5", 10, Descent::Worthwhile);
    }

    #[test]
    fn a_copy_that_was_found_replaces_what_it_is_better_than() {
        let of = |status: u16, etag: &str, date: u64| {
            let range = Field { name: "Content-Range", value: b"bytes 0-1/9" };
            let fields = [Field { name: "ETag", value: etag.as_bytes() }, range];
            let fields = if status == 206 { &fields[..] } else { &fields[..1] };
            Meta::of(status, fields, &Policy::default(), WallTime(date), WallTime(date))
        };
        let takes = |found: &Meta, local: Option<&Meta>, local_serves, found_serves| {
            compare_found(found, local, local_serves, || true).takes_found(local_serves, || found_serves)
        };
        let (whole, part) = (of(200, "\"a\"", 100), of(206, "\"a\"", 100));
        assert!(takes(&whole, None, false, false));
        assert!(takes(&of(200, "\"b\"", 101), Some(&whole), true, false));
        assert!(!takes(&of(200, "\"b\"", 99), Some(&whole), false, true));
        // An equal copy is used where the local one may not answer.
        assert!(takes(&whole, Some(&whole), false, true));
        assert!(!takes(&whole, Some(&whole), true, true) && !takes(&whole, Some(&whole), false, false));
        // A whole wins over a part that cannot answer, unless the part is of a later representation.
        assert!(takes(&of(200, "\"a\"", 99), Some(&part), false, false));
        assert!(!takes(&of(200, "\"b\"", 99), Some(&part), false, true));
    }

    #[test]
    fn a_purged_response_may_be_replaced_from_below() {
        for strength in [PurgeVerdict::Soft, PurgeVerdict::Validate] {
            // In its first second.
            let held = strength(THEN).apply(&stored("max-age=60")).unwrap();
            assert_eq!(0, { held.lifetime.seconds });
            assert_eq!(Descent::Worthwhile, descent_of(&held, false));
        }
    }

    #[test]
    fn a_response_validated_each_time_is_looked_up_below_when_it_is_due() {
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
    fn a_doubted_response_is_validated() {
        let policy = Policy::default();
        let fields = [Field { name: "Cache-Control", value: b"only-if-cached" }];
        let (plain, only) = (RequestFacts::read("GET", &[]), RequestFacts::read("GET", &fields));
        let mut held = stored("max-age=60");
        assert_eq!(Reuse::Forward(ForwardReason::Stale), doubted(&held, &plain, &policy));
        held.etag = Some("\"1\"".into());
        assert_eq!(Reuse::Validate(ForwardReason::Stale), doubted(&held, &plain, &policy));
        assert_eq!(Reuse::GatewayTimeout, doubted(&held, &only, &policy));
    }

    #[track_caller]
    fn check_goes_down(cache_control: &str, seconds: u64, expect: bool) {
        assert_eq!(expect, goes_down(&stored(cache_control), WallTime(THEN.0 + seconds)));
    }

    #[test]
    fn only_a_usable_response_is_written_to_lower_tiers() {
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
        found.etag = Some("\"2\"".into());
        assert_eq!(Compared::Newer, compare(&found, &held, || true));
        found.response_time = WallTime(held.response_time.0 + 1);
        assert_eq!(Compared::Newer, compare(&found, &held, || true));
        found.date = WallTime(held.date.0 - 1);
        assert_eq!(Compared::Older, compare(&found, &held, || false));
    }
}
