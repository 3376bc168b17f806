//! The effect of purges on a stored response: its lifetime ends, it must be validated, or it is removed. The matching of
//! purges and responses is not here.

use crate::freshness::{Lifetime, LifetimeSource};
use crate::stored::Meta;
use larder_stdx::clock::WallTime;

/// The effect on a response of the purges that match it. Ordered: the later outweigh the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PurgeVerdict {
    /// Nothing.
    Keep,
    /// Stale since then; usable like any stale response.
    Soft(WallTime),
    /// Its rows may have changed since then: as [`Self::Validate`], except that after a failure of the origin the operator's
    /// `cache.stale_if_error` applies.
    Unfollowed(WallTime),
    /// As [`Self::Validate`], because purges of the fleet may be unknown here.
    Unread(WallTime),
    /// As [`Self::Validate`], because rules were dropped that may have applied to it.
    Dropped(WallTime),
    /// Stale since then, and not usable before the origin has validated it.
    Validate(WallTime),
    /// Removed.
    Hard,
}

impl PurgeVerdict {
    /// The combination of both: the stronger; of two alike, the one since the earlier time.
    #[must_use]
    pub fn and(self, other: PurgeVerdict) -> PurgeVerdict {
        match (self, other) {
            (PurgeVerdict::Soft(a), PurgeVerdict::Soft(b)) => PurgeVerdict::Soft(a.min(b)),
            (PurgeVerdict::Unfollowed(a), PurgeVerdict::Unfollowed(b)) => PurgeVerdict::Unfollowed(a.min(b)),
            (PurgeVerdict::Unread(a), PurgeVerdict::Unread(b)) => PurgeVerdict::Unread(a.min(b)),
            (PurgeVerdict::Dropped(a), PurgeVerdict::Dropped(b)) => PurgeVerdict::Dropped(a.min(b)),
            (PurgeVerdict::Validate(a), PurgeVerdict::Validate(b)) => PurgeVerdict::Validate(a.min(b)),
            (a, b) => a.max(b),
        }
    }

    /// The facts from now on; `None` if the response is not usable.
    #[must_use]
    pub fn apply(self, meta: &Meta) -> Option<Meta> {
        match self {
            PurgeVerdict::Keep => Some(meta.clone()),
            // A response that is in doubt already stays so, for the same reason.
            PurgeVerdict::Soft(since) => Some(ended(meta, since, source_after(meta))),
            PurgeVerdict::Unfollowed(since) => {
                let source = match meta.must_revalidate {
                    true => source_after(meta),
                    false => LifetimeSource::Unfollowed,
                };
                Some(Meta { must_revalidate: true, ..ended(meta, since, source) })
            }
            PurgeVerdict::Unread(since) => Some(in_doubt(meta, since, LifetimeSource::Unread)),
            PurgeVerdict::Dropped(since) => Some(in_doubt(meta, since, LifetimeSource::RulesDropped)),
            PurgeVerdict::Validate(since) => {
                Some(Meta { must_revalidate: true, ..ended(meta, since, LifetimeSource::Purged) })
            }
            PurgeVerdict::Hard => None,
        }
    }
}

/// Whether it is never used without validation, at any time.
#[must_use]
pub fn is_doubted(meta: &Meta) -> bool {
    meta.no_cache || (meta.must_revalidate && meta.lifetime.source.is_ended())
}

/// The source of a lifetime after a purge that adds no reason for validation.
fn source_after(meta: &Meta) -> LifetimeSource {
    match meta.lifetime.source {
        it @ (LifetimeSource::Unread | LifetimeSource::RulesDropped | LifetimeSource::Unfollowed) => it,
        _ => LifetimeSource::Purged,
    }
}

/// To be validated because of a purge that is not known; one that is known stays the reason.
fn in_doubt(meta: &Meta, since: WallTime, reason: LifetimeSource) -> Meta {
    let source = match meta.lifetime.source {
        LifetimeSource::Purged => LifetimeSource::Purged,
        _ => reason,
    };
    Meta { must_revalidate: true, ..ended(meta, since, source) }
}

/// With a lifetime that ended at `since`, if it did not before. Its age is unchanged, so that the reported age and
/// staleness are true.
fn ended(meta: &Meta, since: WallTime, source: LifetimeSource) -> Meta {
    let seconds = meta.lifetime.seconds.min(meta.age(since));
    Meta { lifetime: Lifetime { seconds, source }, ..meta.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::Freshness;
    use crate::policy::Policy;

    /// 60 s of lifetime, came at 1000 with 10 s of age.
    fn meta() -> Meta {
        let fields = [("cache-control", "max-age=60"), ("age", "10")]
            .map(|it| crate::field::Field { name: it.0, value: it.1.as_bytes() });
        Meta::of(200, &fields, &Policy::default(), WallTime(1000), WallTime(1000))
    }

    #[track_caller]
    fn check(verdict: PurgeVerdict, now: u64, age: u32, freshness: Freshness) {
        let meta = verdict.apply(&meta()).unwrap();
        assert_eq!((age, freshness), (meta.age(WallTime(now)), meta.freshness(WallTime(now))), "{verdict:?}");
    }

    #[test]
    fn a_purge_ends_the_lifetime_and_leaves_the_age() {
        let stale = |staleness| Freshness::Stale { staleness };
        check(PurgeVerdict::Keep, 1020, 30, Freshness::Fresh { remaining: 30 });
        check(PurgeVerdict::Soft(WallTime(1020)), 1020, 30, stale(0));
        check(PurgeVerdict::Soft(WallTime(1020)), 1025, 35, stale(5));
        check(PurgeVerdict::Validate(WallTime(1000)), 1007, 17, stale(7));
        // It was stale before: since 1050.
        check(PurgeVerdict::Soft(WallTime(1070)), 1071, 81, stale(21));
        // A clock that went back.
        check(PurgeVerdict::Soft(WallTime(900)), 1000, 10, stale(0));
    }

    #[test]
    fn a_response_that_must_be_validated_is_doubted() {
        assert!(!is_doubted(&meta()));
        assert!(!is_doubted(&PurgeVerdict::Soft(WallTime(1000)).apply(&meta()).unwrap()));
        assert!(is_doubted(&PurgeVerdict::Validate(WallTime(1000)).apply(&meta()).unwrap()));
        assert!(is_doubted(&Meta { no_cache: true, ..meta() }));
        assert_eq!(None, PurgeVerdict::Hard.apply(&meta()));
    }

    #[test]
    fn a_database_that_was_not_followed_is_the_weakest_reason_for_validation() {
        let source = |it: &Meta| (it.must_revalidate, it.lifetime.source);
        let (unfollowed, later) =
            (PurgeVerdict::Unfollowed(WallTime(1000)), PurgeVerdict::Unfollowed(WallTime(1001)));
        let doubted = unfollowed.apply(&meta()).unwrap();
        assert!(is_doubted(&doubted) && source(&doubted) == (true, LifetimeSource::Unfollowed));
        assert_eq!(Some(doubted.clone()), later.apply(&doubted), "each second");
        assert_eq!(Some(doubted.clone()), PurgeVerdict::Soft(WallTime(1001)).apply(&doubted));
        let strict = PurgeVerdict::Validate(WallTime(1001)).apply(&doubted).unwrap();
        assert_eq!((true, LifetimeSource::Purged), source(&strict));
        assert_eq!(source(&strict), source(&later.apply(&strict).unwrap()));
        let unread = PurgeVerdict::Unread(WallTime(1001)).apply(&doubted).unwrap();
        assert!(
            is_doubted(&unread) && source(&unread) == (true, LifetimeSource::Unread),
            "without consent to stale use"
        );
        let own = Meta { must_revalidate: true, ..meta() };
        assert_eq!((true, LifetimeSource::Purged), source(&unfollowed.apply(&own).unwrap()));
    }

    #[test]
    fn purges_that_could_not_be_read_are_no_purge() {
        let source = |it: &Meta| (it.must_revalidate, it.lifetime.source);
        let (unread, later) = (PurgeVerdict::Unread(WallTime(1000)), PurgeVerdict::Unread(WallTime(1001)));
        let doubted = unread.apply(&meta()).unwrap();
        assert!(is_doubted(&doubted) && source(&doubted) == (true, LifetimeSource::Unread));
        for weaker in [later, PurgeVerdict::Soft(WallTime(1001)), PurgeVerdict::Unfollowed(WallTime(1001))] {
            assert_eq!(source(&doubted), source(&weaker.apply(&doubted).unwrap()), "{weaker:?}");
        }
        let purged = PurgeVerdict::Validate(WallTime(1001)).apply(&doubted).unwrap();
        assert_eq!((true, LifetimeSource::Purged), source(&purged));
        assert_eq!(source(&purged), source(&later.apply(&purged).unwrap()), "a known purge stays the reason");
        assert_eq!(PurgeVerdict::Validate(WallTime(1)), unread.and(PurgeVerdict::Validate(WallTime(1))));
    }

    #[test]
    fn rules_that_were_dropped_are_no_purge() {
        let source = |it: &Meta| (it.must_revalidate, it.lifetime.source);
        let (dropped, known) =
            (PurgeVerdict::Dropped(WallTime(1000)), PurgeVerdict::Validate(WallTime(1001)));
        let doubted = dropped.apply(&meta()).unwrap();
        assert!(is_doubted(&doubted) && source(&doubted) == (true, LifetimeSource::RulesDropped));
        for weaker in [PurgeVerdict::Soft(WallTime(1001)), PurgeVerdict::Unfollowed(WallTime(1001))] {
            assert_eq!(source(&doubted), source(&weaker.apply(&doubted).unwrap()), "{weaker:?}");
        }
        let purged = known.apply(&doubted).unwrap();
        assert_eq!((true, LifetimeSource::Purged), source(&purged));
        assert_eq!(
            source(&purged),
            source(&dropped.apply(&purged).unwrap()),
            "a known purge stays the reason"
        );
        assert_eq!((known, known), (dropped.and(known), known.and(dropped)));
    }

    #[test]
    fn the_stronger_outweighs_and_the_longer_of_two_alike() {
        let (early, late) = (WallTime(1), WallTime(2));
        let all = [
            PurgeVerdict::Keep,
            PurgeVerdict::Soft(late),
            PurgeVerdict::Unfollowed(late),
            PurgeVerdict::Validate(late),
            PurgeVerdict::Hard,
        ];
        for (at, a) in all.into_iter().enumerate() {
            for b in &all[at..] {
                assert_eq!((*b, *b), (a.and(*b), b.and(a)));
            }
        }
        assert_eq!(PurgeVerdict::Soft(early), PurgeVerdict::Soft(late).and(PurgeVerdict::Soft(early)));
        assert_eq!(
            PurgeVerdict::Validate(early),
            PurgeVerdict::Validate(early).and(PurgeVerdict::Validate(late))
        );
    }
}
