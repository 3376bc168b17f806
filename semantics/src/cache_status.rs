//! The `Cache-Status` field of one response (RFC 9211), and the older `X-Cache`.

use crate::reuse::ForwardReason;

/// The tier that served a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweringTier {
    /// The memory of this process.
    Ram,
    /// The disk of this machine.
    Disk,
    /// The memcached servers that all nodes share.
    Fleet,
}

impl AnsweringTier {
    /// Its name in the configuration, in `detail` and in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AnsweringTier::Ram => "ram",
            AnsweringTier::Disk => "disk",
            AnsweringTier::Fleet => "fleet",
        }
    }
}

/// The result of the cache lookup, as reported downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheReport {
    /// Served from the store; `ttl` is the remaining freshness, negative if stale.
    Hit {
        /// Seconds.
        ttl: i64,
        /// The tier of the response. A tier other than RAM is reported as `detail`.
        tier: AnsweringTier,
    },
    /// Served by an overlay of the operator.
    Overlay,
    /// No usable stored response, and the request forbade contacting the origin (`only-if-cached`).
    OnlyIfCached,
    /// Not forwarded: the origin failed two identical requests within the last second.
    SharedFailure {
        /// The reason for forwarding the request otherwise.
        reason: ForwardReason,
    },
    /// Not forwarded: the budget of misses is exceeded. `ttl` is the freshness of the stale response that was served instead, if
    /// there is one.
    OverBudget {
        /// Seconds, negative.
        ttl: Option<i64>,
    },
    /// Forwarded to the origin.
    Forwarded {
        /// The reason.
        reason: ForwardReason,
        /// The origin's status, if it responded.
        status: Option<u16>,
        /// The response is being stored.
        stored: bool,
        /// Another request's fetch was used.
        collapsed: bool,
    },
}

impl CacheReport {
    /// Whether the request bypassed the cache.
    #[must_use]
    pub fn is_pass(self) -> bool {
        let CacheReport::Forwarded { reason, .. } = self else { return false };
        matches!(reason, ForwardReason::Bypass | ForwardReason::MalformedTarget | ForwardReason::Method)
    }
}

/// The largest integer of a structured field (RFC 9651 §3.3.1).
const LARGEST: i64 = 999_999_999_999_999;

/// Appends the member `larder; …` without field name and line end. No allocation.
pub fn write(report: CacheReport, out: &mut Vec<u8>) {
    match report {
        CacheReport::Hit { ttl, tier } => {
            out.extend_from_slice(b"larder; hit; ttl=");
            out.extend_from_slice(itoa::Buffer::new().format(ttl.clamp(-LARGEST, LARGEST)).as_bytes());
            if tier != AnsweringTier::Ram {
                out.extend_from_slice(b"; detail=");
                out.extend_from_slice(tier.name().as_bytes());
            }
        }
        CacheReport::Overlay => out.extend_from_slice(b"larder; hit; detail=overlay"),
        // Neither `hit` nor `fwd`: the cache generated the response itself.
        CacheReport::OnlyIfCached => out.extend_from_slice(b"larder; detail=only-if-cached"),
        CacheReport::SharedFailure { reason } => {
            out.extend_from_slice(b"larder; fwd=");
            out.extend_from_slice(reason.name().as_bytes());
            out.extend_from_slice(b"; collapsed; detail=shared-failure");
        }
        CacheReport::OverBudget { ttl: None } => out.extend_from_slice(b"larder; detail=miss-budget"),
        CacheReport::OverBudget { ttl: Some(ttl) } => {
            out.extend_from_slice(b"larder; hit; ttl=");
            out.extend_from_slice(itoa::Buffer::new().format(ttl.clamp(-LARGEST, LARGEST)).as_bytes());
            out.extend_from_slice(b"; detail=miss-budget");
        }
        CacheReport::Forwarded { reason, status, stored, collapsed } => {
            out.extend_from_slice(b"larder; fwd=");
            out.extend_from_slice(reason.name().as_bytes());
            if let Some(status) = status {
                out.extend_from_slice(b"; fwd-status=");
                out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
            }
            if stored {
                out.extend_from_slice(b"; stored");
            }
            if collapsed {
                out.extend_from_slice(b"; collapsed");
            }
            if let Some(detail) = reason.detail() {
                out.extend_from_slice(b"; detail=");
                out.extend_from_slice(detail.as_bytes());
            }
        }
    }
}

/// The value of the older `X-Cache`: `HIT` only if the origin was not contacted.
#[must_use]
pub fn x_cache(report: CacheReport) -> &'static str {
    match report {
        CacheReport::Hit { .. } | CacheReport::Overlay | CacheReport::OverBudget { ttl: Some(_) } => "HIT",
        CacheReport::Forwarded { .. }
        | CacheReport::SharedFailure { .. }
        | CacheReport::OnlyIfCached
        | CacheReport::OverBudget { ttl: None } => "MISS",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(report: CacheReport, expect: &str, x_cache_expect: &str) {
        let mut out = Vec::new();
        write(report, &mut out);
        assert_eq!((expect, x_cache_expect), (std::str::from_utf8(&out).unwrap(), x_cache(report)));
    }

    #[test]
    fn members() {
        check(CacheReport::Hit { ttl: 30, tier: AnsweringTier::Ram }, "larder; hit; ttl=30", "HIT");
        check(CacheReport::Hit { ttl: -3, tier: AnsweringTier::Ram }, "larder; hit; ttl=-3", "HIT");
        check(
            CacheReport::Hit { ttl: i64::MIN, tier: AnsweringTier::Ram },
            "larder; hit; ttl=-999999999999999",
            "HIT",
        );
        check(
            CacheReport::Hit { ttl: 3, tier: AnsweringTier::Disk },
            "larder; hit; ttl=3; detail=disk",
            "HIT",
        );
        check(
            CacheReport::Hit { ttl: -3, tier: AnsweringTier::Fleet },
            "larder; hit; ttl=-3; detail=fleet",
            "HIT",
        );
        check(CacheReport::OnlyIfCached, "larder; detail=only-if-cached", "MISS");
        check(
            CacheReport::SharedFailure { reason: ForwardReason::UriMiss },
            "larder; fwd=uri-miss; collapsed; detail=shared-failure",
            "MISS",
        );
        check(CacheReport::OverBudget { ttl: None }, "larder; detail=miss-budget", "MISS");
        check(CacheReport::OverBudget { ttl: Some(-3) }, "larder; hit; ttl=-3; detail=miss-budget", "HIT");
        check(CacheReport::Overlay, "larder; hit; detail=overlay", "HIT");
        let forwarded =
            |reason, status, stored, collapsed| CacheReport::Forwarded { reason, status, stored, collapsed };
        check(forwarded(ForwardReason::Bypass, None, false, false), "larder; fwd=bypass", "MISS");
        check(
            forwarded(ForwardReason::MalformedTarget, Some(200), false, false),
            "larder; fwd=bypass; fwd-status=200; detail=malformed-target",
            "MISS",
        );
        check(
            forwarded(ForwardReason::UriMiss, Some(200), true, true),
            "larder; fwd=uri-miss; fwd-status=200; stored; collapsed",
            "MISS",
        );
        check(
            forwarded(ForwardReason::Stale, Some(304), true, false),
            "larder; fwd=stale; fwd-status=304; stored",
            "MISS",
        );
        check(
            forwarded(ForwardReason::VaryMiss, None, false, true),
            "larder; fwd=vary-miss; collapsed",
            "MISS",
        );
    }

    #[test]
    fn writing_into_room_does_not_grow() {
        let mut out = Vec::with_capacity(128);
        let before = out.as_ptr();
        write(CacheReport::Hit { ttl: i64::MAX, tier: AnsweringTier::Fleet }, &mut out);
        assert_eq!(before, out.as_ptr());
    }
}
