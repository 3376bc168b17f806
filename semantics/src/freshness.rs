//! Age and freshness of a stored response: RFC 9111 §4.2, and nothing else.
//!
//! Pure arithmetic. No clock is read here: `now` is always an argument, so that
//! every case can be written as one row of a table (see the tests).

use crate::cache_control::{MAX_DELTA, ResponseDirectives, delta_seconds};
use crate::date;
use crate::field::{Field, all, first, lines};
use crate::policy::{Policy, StaleIfError};
use crate::trace::{RuleOutcome, RuleTrace};
use larder_stdx::clock::WallTime;

/// The source of a lifetime, in order of precedence (RFC 9111 §4.2.1, RFC 9213 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeSource {
    /// `cache.override_ttl` of the route.
    Override,
    /// A targeted field's `s-maxage` or `max-age`.
    Targeted,
    /// `s-maxage`.
    SMaxAge,
    /// `max-age`.
    MaxAge,
    /// `Expires` minus `Date`.
    Expires,
    /// `cache.status_ttl` of the route for this status.
    StatusDefault,
    /// `cache.default_ttl` of the route.
    RouteDefault,
    /// A share of the time since `Last-Modified`.
    Heuristic,
    /// A purge ended it.
    Purged,
    /// It ended since this node could not read the purges of the fleet: one may have ended it.
    Unread,
    /// It ended since purge rules were dropped: one of them may have ended it.
    RulesDropped,
    /// It ended since the changes of the database of its rows were not known, and the response itself does not forbid stale use.
    Unfollowed,
    /// No source: stale at once.
    None,
}

/// A lifetime and its source. Packed: every stored response has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct Lifetime {
    /// Seconds, at most 2^31.
    pub seconds: u32,
    /// Its source.
    pub source: LifetimeSource,
}

impl Lifetime {
    /// Whether the response or the route explicitly permits reuse: above zero, and not heuristic.
    #[must_use]
    pub fn is_named(self) -> bool {
        let is_guessed = matches!(self.source, LifetimeSource::Heuristic | LifetimeSource::None);
        self.seconds > 0 && !is_guessed
    }

    /// Whether the route alone gives it.
    #[must_use]
    pub fn is_of_route(self) -> bool {
        matches!(
            self.source,
            LifetimeSource::Override | LifetimeSource::StatusDefault | LifetimeSource::RouteDefault
        )
    }

    /// Whether it is zero, explicitly or by default: every request goes to the origin. A lifetime ended by a purge is
    /// not.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.seconds == 0 && !self.source.is_ended()
    }

    /// Seconds past this lifetime for which a response without `stale-while-revalidate` is served while it is validated:
    /// `setting`, but none where the lifetime is zero. Such a response has no permission to be reused, and the setting of a
    /// route or a preset gives none.
    #[must_use]
    pub fn stale_while_revalidate(self, setting: u32) -> u32 {
        if self.is_zero() { 0 } else { setting }
    }

    /// Seconds past this lifetime for which a response without `stale-if-error` may be served on errors.
    #[must_use]
    pub fn stale_if_error(self, setting: StaleIfError) -> u32 {
        match setting {
            StaleIfError::Default(_) if self.is_zero() => 0,
            StaleIfError::Default(seconds) | StaleIfError::Set(seconds) => seconds,
        }
    }
}

/// Whether a stored response may still be used without contacting the origin (RFC 9111 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Usable without validation, for `remaining` seconds; never zero.
    Fresh {
        /// Seconds until it goes stale.
        remaining: u32,
    },
    /// Not usable without validation, unless a directive allows stale.
    Stale {
        /// Seconds since its lifetime ran out; zero in the first second.
        staleness: u32,
    },
}

impl Freshness {
    /// Compares the lifetime with the age: fresh while `lifetime > age` (RFC 9111 §4.2).
    #[inline]
    #[must_use]
    pub fn of(lifetime: u32, age: u32) -> Freshness {
        if lifetime > age {
            Freshness::Fresh { remaining: lifetime - age }
        } else {
            Freshness::Stale { staleness: age - lifetime }
        }
    }
}

impl LifetimeSource {
    /// Whether the lifetime that the response had was ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        use LifetimeSource::{Purged, RulesDropped, Unfollowed, Unread};
        matches!(self, Purged | Unread | RulesDropped | Unfollowed)
    }

    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LifetimeSource::Override => "override-ttl",
            LifetimeSource::Targeted => "targeted",
            LifetimeSource::SMaxAge => "s-maxage",
            LifetimeSource::MaxAge => "max-age",
            LifetimeSource::Expires => "expires",
            LifetimeSource::StatusDefault => "status-ttl",
            LifetimeSource::RouteDefault => "default-ttl",
            LifetimeSource::Heuristic => "heuristic",
            LifetimeSource::Purged => "purged",
            LifetimeSource::Unread => "purges-not-read",
            LifetimeSource::RulesDropped => "purge-rules-dropped",
            LifetimeSource::Unfollowed => "database-not-followed",
            LifetimeSource::None => "none",
        }
    }

    /// The header field, directive or configuration key of the lifetime, as evidence.
    #[must_use]
    pub fn evidence(self) -> &'static str {
        match self {
            LifetimeSource::Override => "cache.override_ttl",
            LifetimeSource::Targeted => "targeted max-age",
            LifetimeSource::SMaxAge => "s-maxage",
            LifetimeSource::MaxAge => "max-age",
            LifetimeSource::Expires => "Expires - Date",
            LifetimeSource::StatusDefault => "cache.status_ttl",
            LifetimeSource::RouteDefault => "cache.default_ttl",
            LifetimeSource::Heuristic => "heuristic from Last-Modified",
            LifetimeSource::Purged => "purged",
            LifetimeSource::Unread => "purges of the fleet not read",
            LifetimeSource::RulesDropped => "purge rules dropped",
            LifetimeSource::Unfollowed => "database not followed",
            LifetimeSource::None => "no lifetime",
        }
    }

    /// One sentence for display.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            LifetimeSource::Override => {
                "The lifetime is cache.override_ttl of the route, or the ttl of one of its rules."
            }
            LifetimeSource::Targeted => "The lifetime is from a targeted Cache-Control field (RFC 9213).",
            LifetimeSource::SMaxAge => "The lifetime is s-maxage of the response.",
            LifetimeSource::MaxAge => "The lifetime is max-age of the response.",
            LifetimeSource::Expires => "The lifetime is Expires minus Date of the response.",
            LifetimeSource::StatusDefault => "The lifetime is cache.status_ttl of the route for this status.",
            LifetimeSource::RouteDefault => "The lifetime is cache.default_ttl of the route.",
            LifetimeSource::Heuristic => {
                "The lifetime is a percentage of the time since Last-Modified (heuristic)."
            }
            LifetimeSource::Purged => "A purge ended the lifetime.",
            LifetimeSource::Unread => {
                "The lifetime ended because this node could not read the purges of the fleet."
            }
            LifetimeSource::RulesDropped => {
                "The lifetime ended because purge rules were dropped: one of them may have ended it."
            }
            LifetimeSource::Unfollowed => {
                "The lifetime ended because changes of the database of its rows were not known."
            }
            LifetimeSource::None => "No rule gives a lifetime, so the response is stale at once.",
        }
    }
}

/// The inputs of the age calculation for one exchange with the origin (RFC 9111 §4.2.3).
#[derive(Clone, Copy, Debug)]
pub struct AgeInputs {
    /// `age_value`: the `Age` field as received, seconds; zero if absent or invalid.
    pub age_value: u32,
    /// `date_value`: the `Date` field, or `response_time` if absent.
    pub date_value: WallTime,
    /// Our clock when the request was sent.
    pub request_time: WallTime,
    /// Our clock when the response head had arrived.
    pub response_time: WallTime,
}

impl AgeInputs {
    /// Parses `Age` and `Date`.
    #[must_use]
    pub fn read(fields: &[Field<'_>], request_time: WallTime, response_time: WallTime) -> Self {
        Self {
            age_value: age_value(fields),
            date_value: date_value(fields, response_time),
            request_time,
            response_time,
        }
    }

    /// The age the response already had when it arrived (RFC 9111 §4.2.3), seconds, at most 2^31.
    #[must_use]
    pub fn corrected_initial_age(&self) -> u32 {
        let apparent_age = self.response_time.seconds_since(self.date_value);
        let response_delay = self.response_time.seconds_since(self.request_time);
        clamp(apparent_age.max(u64::from(self.age_value).saturating_add(response_delay)))
    }

    /// Whether its lifetime ran out between its request and its arrival: fresh at the request, as far as `Age` and `Date`
    /// show to the second, and stale on arrival. This does not predict the next response.
    #[must_use]
    pub fn came_late(&self, lifetime: Lifetime) -> bool {
        let age_when_asked = self.request_time.seconds_since(self.date_value);
        self.age_value < lifetime.seconds
            && age_when_asked <= u64::from(lifetime.seconds)
            && self.corrected_initial_age() >= lifetime.seconds
    }

    /// Whether a response that [came late](Self::came_late) may answer requests that were waiting for it before it
    /// arrived (RFC 9111 §4, collapsed requests): the origin sent no later one to any of them. If it forbids stale use
    /// (`must_revalidate`) that holds only if its own fields call it fresh, so that only its transfer time made it stale.
    #[must_use]
    pub fn answers_collapsed(&self, lifetime: Lifetime, must_revalidate: bool) -> bool {
        let apparent_age = self.response_time.seconds_since(self.date_value);
        let says_fresh = apparent_age.max(u64::from(self.age_value)) < u64::from(lifetime.seconds);
        self.came_late(lifetime) && (says_fresh || !must_revalidate)
    }
}

/// Seconds, at most 2^31 (RFC 9111 §1.2.2).
#[inline]
#[must_use]
pub fn clamp(seconds: u64) -> u32 {
    u32::try_from(seconds).map_or(MAX_DELTA, |it| it.min(MAX_DELTA))
}

/// The `Age` field (RFC 9111 §5.1): its first member; zero if absent or not only digits.
#[must_use]
pub fn age_value(fields: &[Field<'_>]) -> u32 {
    let first_member = first(fields, "age").and_then(|it| it.split(|it| *it == b',').next());
    first_member.and_then(|it| delta_seconds(it.trim_ascii())).unwrap_or(0)
}

/// The first valid `Date` field: other lines are neither stored nor passed on.
#[must_use]
pub fn dated(fields: &[Field<'_>]) -> Option<WallTime> {
    all(fields, "date").find_map(date::parse)
}

/// The `Date` field; `response_time` if absent or invalid (RFC 9110 §6.6.1).
#[must_use]
pub fn date_value(fields: &[Field<'_>], response_time: WallTime) -> WallTime {
    dated(fields).unwrap_or(response_time)
}

/// The value of `Expires` (RFC 9111 §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// There is no such field.
    Absent,
    /// A value other than a date, such as `0`: in the past.
    Invalid,
    /// The date; of several, the earliest, which is never fresher than §4.2.1 allows.
    At(WallTime),
}

/// Parses every `Expires` line; one invalid line makes the result invalid.
#[must_use]
pub fn expires(fields: &[Field<'_>]) -> Expires {
    let join = |sum, line| match (sum, date::parse(line)) {
        (Expires::Invalid, _) | (_, None) => Expires::Invalid,
        (Expires::At(a), Some(b)) => Expires::At(a.min(b)),
        (Expires::Absent, Some(b)) => Expires::At(b),
    };
    all(fields, "expires").fold(Expires::Absent, join)
}

/// Whether a response of this status may have a heuristic lifetime (RFC 9110 §15.1).
#[must_use]
pub fn is_heuristic_status(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Whether `cache.override_ttl`, or the `ttl` of a rule, applies to this status.
pub(crate) fn overrides(policy: &Policy, status: u16) -> bool {
    policy.override_ttl.is_some()
        && (policy.rule.as_ref().is_some_and(|it| it.any_status) || takes_route_ttl(status))
}

/// Whether `cache.default_ttl` and `cache.override_ttl` apply to this status: those that are cacheable by default (RFC
/// 9110 §15.1). Never a 5xx, 501 included: a temporary failure of an application must not last for a TTL
/// (`cache.status_ttl` can name such statuses).
#[must_use]
pub fn takes_route_ttl(status: u16) -> bool {
    is_heuristic_status(status) && status < 500
}

/// The inputs of a lifetime, parsed once per response.
#[derive(Clone, Debug)]
pub struct LifetimeInputs<'r> {
    /// Its status code.
    pub status: u16,
    /// The directives in force.
    pub directives: ResponseDirectives,
    /// The targeted field that gave them (RFC 9213).
    pub targeted: Option<&'r str>,
    /// The response's fields, as evidence.
    pub fields: &'r [Field<'r>],
    /// `Expires`; [`Expires::Absent`] if a targeted field is in force.
    pub expires: Expires,
    /// The `Date` field, or our clock.
    pub date: WallTime,
    /// Our clock when the request was sent.
    pub request_time: WallTime,
    /// `Last-Modified`, if valid.
    pub last_modified: Option<WallTime>,
}

impl<'r> LifetimeInputs<'r> {
    /// Parses them from a response as received. `times`: when its request was sent, and when its head had arrived.
    #[must_use]
    pub fn read(
        status: u16,
        fields: &'r [Field<'r>],
        policy: &'r Policy,
        times: (WallTime, WallTime),
    ) -> Self {
        let (directives, targeted) = crate::targeted::directives(fields, policy);
        Self::of(status, fields, directives, targeted, times)
    }

    /// The same with the directives in force, if they are known already.
    pub(crate) fn of(
        status: u16,
        fields: &'r [Field<'r>],
        directives: ResponseDirectives,
        targeted: Option<&'r str>,
        (request_time, response_time): (WallTime, WallTime),
    ) -> Self {
        Self {
            status,
            directives,
            targeted,
            fields,
            expires: if targeted.is_some() { Expires::Absent } else { expires(fields) },
            date: date_value(fields, response_time),
            request_time,
            last_modified: first(fields, "last-modified").and_then(date::parse),
        }
    }

    /// The lifetime of the response (RFC 9111 §4.2.1), at most `cache.max_ttl`. Every source is reported to `trace` in
    /// order of precedence, up to the one that decided.
    #[must_use]
    pub fn lifetime(&self, policy: &Policy, trace: &mut impl RuleTrace) -> Lifetime {
        let found = self.explicit(policy, trace).or_else(|| self.implicit(policy, trace));
        let Some(it) = found else {
            return Lifetime { seconds: 0, source: LifetimeSource::None };
        };
        if it.seconds <= policy.max_ttl {
            return it;
        }
        trace.rule("config", "max-ttl", RuleOutcome::Decided, || {
            format!("cache.max_ttl = {} s, less than {} s", policy.max_ttl, { it.seconds })
        });
        Lifetime { seconds: policy.max_ttl, source: it.source }
    }

    /// The operator's override, and the explicit lifetime of the response.
    fn explicit(&self, policy: &Policy, trace: &mut impl RuleTrace) -> Option<Lifetime> {
        let found = policy.override_ttl.filter(|_| overrides(policy, self.status));
        let found = found.map(|seconds| Lifetime { seconds, source: LifetimeSource::Override });
        report_rule(trace, "config", "override-ttl", found, || match &policy.rule {
            Some(rule) if rule.sets_ttl => {
                format!("cache.rule at {}: ttl = {}", rule.place, ttl(policy.override_ttl))
            }
            _ => format!("cache.override_ttl = {}", ttl(policy.override_ttl)),
        });
        let named = |own| if self.targeted.is_some() { LifetimeSource::Targeted } else { own };
        let directives = &self.directives;
        found
            .or_else(|| {
                let source = named(LifetimeSource::SMaxAge);
                let found = directives.s_maxage.map(|seconds| Lifetime { seconds, source });
                report_rule(trace, "RFC 9111 §5.2.2.10", "s-maxage", found, || {
                    self.directive_evidence("s-maxage", directives.s_maxage)
                });
                found
            })
            .or_else(|| {
                let source = named(LifetimeSource::MaxAge);
                let found = directives.max_age.map(|seconds| Lifetime { seconds, source });
                report_rule(trace, "RFC 9111 §5.2.2.1", "max-age", found, || {
                    self.directive_evidence("max-age", directives.max_age)
                });
                found
            })
            .or_else(|| {
                let seconds = self.seconds_to_expiry();
                let found = seconds.map(|seconds| Lifetime { seconds, source: LifetimeSource::Expires });
                report_rule(trace, "RFC 9111 §5.3", "expires", found, || self.expires_evidence(seconds));
                found
            })
    }

    /// `Expires` minus `Date` (RFC 9111 §4.2.1); zero if `Expires` was over before the request was sent. The difference to an
    /// old `Date` would give such a response a lifetime. Its age makes it stale in either case, but a lifetime also permits
    /// sharing and stale use, and this response permits neither.
    fn seconds_to_expiry(&self) -> Option<u32> {
        match self.expires {
            Expires::Absent => None,
            Expires::At(time) if time >= self.request_time => Some(clamp(time.seconds_since(self.date))),
            Expires::At(_) | Expires::Invalid => Some(0),
        }
    }

    /// Without an explicit lifetime: the operator's defaults, then the heuristic.
    fn implicit(&self, policy: &Policy, trace: &mut impl RuleTrace) -> Option<Lifetime> {
        let status_ttl = policy.status_ttl.iter().find(|it| it.0 == self.status).map(|it| it.1);
        let found = status_ttl.map(|seconds| Lifetime { seconds, source: LifetimeSource::StatusDefault });
        report_rule(trace, "config", "status-ttl", found, || {
            format!("cache.status_ttl for {}: {}", self.status, ttl(status_ttl))
        });
        found
            .or_else(|| {
                let seconds = policy.default_ttl.filter(|_| takes_route_ttl(self.status));
                let found = seconds.map(|seconds| Lifetime { seconds, source: LifetimeSource::RouteDefault });
                report_rule(trace, "config", "default-ttl", found, || {
                    format!("cache.default_ttl = {}, status {}", ttl(policy.default_ttl), self.status)
                });
                found
            })
            .or_else(|| {
                let seconds = self.heuristic(policy);
                let found = seconds.map(|seconds| Lifetime { seconds, source: LifetimeSource::Heuristic });
                report_rule(trace, "RFC 9111 §4.2.2", "heuristic", found, || {
                    self.heuristic_evidence(policy, seconds)
                });
                found
            })
    }

    /// A share of the time since `Last-Modified`; `None` if the status, the configuration or the dates allow none (RFC
    /// 9111 §4.2.2). `public` allows it for every status.
    #[must_use]
    pub fn heuristic(&self, policy: &Policy) -> Option<u32> {
        let allowed = is_heuristic_status(self.status) || self.directives.public;
        let unchanged = self.date.seconds_since(self.last_modified?);
        if !allowed || policy.heuristic_percent == 0 || unchanged == 0 {
            return None;
        }
        let share = unchanged.saturating_mul(u64::from(policy.heuristic_percent)) / 100;
        Some(clamp(share).min(policy.heuristic_max))
    }

    /// The lines of the field and the resulting seconds; a malformed value is zero.
    fn directive_evidence(&self, name: &str, seconds: Option<u32>) -> String {
        let lines = lines(self.fields, self.targeted.unwrap_or("Cache-Control"));
        match seconds {
            Some(seconds) => format!("{lines} ({name} {seconds} s)"),
            None => format!("{lines} (no {name})"),
        }
    }

    fn expires_evidence(&self, seconds: Option<u32>) -> String {
        match self.expires {
            Expires::Absent if self.targeted.is_some() => {
                format!("Expires is ignored: {} is in force", self.targeted.unwrap_or_default())
            }
            Expires::Absent => "no Expires".to_owned(),
            Expires::Invalid => format!("{}: no date, so already expired", lines(self.fields, "Expires")),
            Expires::At(time) if time < self.request_time => {
                format!("Expires: {}: before the request, so already expired", date::format(time))
            }
            Expires::At(time) => format!(
                "Expires: {} - Date {} = {} s",
                date::format(time),
                date::format(self.date),
                seconds.unwrap_or(0)
            ),
        }
    }

    fn heuristic_evidence(&self, policy: &Policy, seconds: Option<u32>) -> String {
        let Some(last_modified) = self.last_modified else { return "no Last-Modified".to_owned() };
        match seconds {
            Some(seconds) => format!(
                "(Date - Last-Modified: {}) {} s * cache.heuristic_percent {} % = {seconds} s, at most \
                 cache.heuristic_max {} s",
                date::format(last_modified),
                self.date.seconds_since(last_modified),
                policy.heuristic_percent,
                policy.heuristic_max
            ),
            None if policy.heuristic_percent == 0 => "cache.heuristic_percent = 0".to_owned(),
            None if self.date.seconds_since(last_modified) == 0 => {
                format!("Last-Modified: {} is not before Date", date::format(last_modified))
            }
            None => format!("status {} has no heuristic lifetime without public", self.status),
        }
    }
}

fn report_rule(
    trace: &mut impl RuleTrace,
    source: &'static str,
    name: &'static str,
    found: Option<Lifetime>,
    evidence: impl FnOnce() -> String,
) {
    let outcome = if found.is_some() { RuleOutcome::Decided } else { RuleOutcome::Passed };
    trace.rule(source, name, outcome, evidence);
}

fn ttl(seconds: Option<u32>) -> String {
    seconds.map_or_else(|| "not set".to_owned(), |it| format!("{it} s"))
}

#[cfg(test)]
mod tests;
