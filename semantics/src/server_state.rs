//! The state of the server: one word, and findings with the worst first, judged from facts that the caller has gathered. The only
//! memory is the start of each condition and the counts of the last minute; times are part of the facts.

mod condition;
mod conditions;
mod current_conditions;
mod facts;
mod fleet;
mod origins;
mod recorded;
mod refusals;
mod routes;
mod samples;
mod table;

pub use condition::Beginning;
use condition::Condition;
use conditions::conditions;
use current_conditions::CurrentConditions;
use facts::growth;
pub use facts::{
    BrokenFileFact, CertificateFact, ConfigSums, CountFacts, DatabaseFact, DisagreeingFact, DiskFact,
    FailingUrlFact, Http3Fact, LogFact, MaintenanceFact, MemcachedFact, NodeFact, OriginAnswers, OriginFact,
    PastFact, ProxyLoopFact, PurgeLogFact, RepeatedPurgeFact, RouteCountFact, RouteFact, StateFacts,
    UnreachableFact,
};
pub use samples::{RecordedFacts, RecordedSample};
use std::collections::VecDeque;
use std::fmt::Write as _;
pub use table::{
    CLIENT_LIMITS, ClientLimitRow, FINDINGS, FindingKind, FindingRow, LIMITS, LimitRow, LimitUnit, Severity,
    manual,
};

use super::date;
use larder_stdx::clock::WallTime;

/// The length of the window in which events count, milliseconds: long enough for a share, and short enough that the state clears soon.
const WINDOW: u64 = 60_000;
/// The shortest time between two samples of the window, milliseconds: the window has at most 61 of them.
const SAMPLE: u64 = 1_000;
/// The length of the latest part of the window, milliseconds: pages of a database that went away fail from then on, whatever the share within the minute.
const LATEST: u64 = 10_000;
/// The time after a change of the configuration in which a rise of refused requests is ascribed to it, milliseconds.
const AFTER_CHANGE: u64 = 600_000;
/// The most findings of a report: a configuration with thousands of origins behind one dead network is one state. The word is that of all.
const MOST_FINDINGS: usize = 50;
/// The most characters of a reason.
const MOST_EVIDENCE: usize = 300;

/// The state in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateWord {
    /// No finding, or only notices.
    #[default]
    Healthy,
    /// Requests are served, and a part has failed or is at a limit.
    Degraded,
    /// Requests fail.
    Failing,
}

impl StateWord {
    /// The word as a sentence begins.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StateWord::Healthy => "Healthy",
            StateWord::Degraded => "Degraded",
            StateWord::Failing => "Failing",
        }
    }

    /// The word in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StateWord::Healthy => "healthy",
            StateWord::Degraded => "degraded",
            StateWord::Failing => "failing",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFinding {
    /// Its row.
    pub kind: FindingKind,
    /// The part and its state: `origin 10.0.0.7:8000 is down`.
    pub what: String,
    /// Its start, Unix seconds; `None` where the sentence has no start.
    pub since: Option<u64>,
    /// The reason, as measured or reported; may be empty.
    pub evidence: String,
    /// The effect on requests; may be empty.
    pub effect: String,
    /// The view of the page that shows it, as in the address of the page; the value is not escaped.
    pub view: String,
    /// If it has begun several times lately: how often, and the first time, Unix seconds.
    pub repeated: Option<(u32, u64)>,
}

impl StateFinding {
    /// The part and its state without figures: the same each time that it begins.
    #[must_use]
    pub fn event(&self) -> String {
        event_of(&self.what)
    }

    /// The finding as a clause; times are in UTC, with the date if it is not that of `now`.
    #[must_use]
    pub fn sentence(&self, now: u64) -> String {
        let mut out = self.what.clone();
        if let Some(since) = self.since {
            let _ = write!(out, " since {}", utc(since, now));
        }
        if let Some((count, first)) = self.repeated {
            let _ = write!(out, ", {count} times since {}", utc(first, now));
        }
        if !self.evidence.is_empty() {
            let _ = write!(out, " ({})", self.evidence);
        }
        if !self.effect.is_empty() {
            let _ = write!(out, "; {}", self.effect);
        }
        out
    }
}

/// The longest event, bytes.
const MOST_EVENT: usize = 100;

/// The part and its state without the share of something, such as `12 % of`, and not too long.
fn event_of(what: &str) -> String {
    let words: Vec<&str> = what.split(' ').collect();
    let is_share = |it: &[&str]| it[0].parse::<u64>().is_ok() && it[1..] == ["%", "of"];
    let mut event = match words.windows(3).position(is_share) {
        Some(at) => [&words[..at], &words[at + 3..]].concat().join(" "),
        None => what.to_owned(),
    };
    let end = (0..=MOST_EVENT.min(event.len())).rev().find(|it| event.is_char_boundary(*it));
    event.truncate(end.unwrap_or(0));
    event
}

/// A time of day in UTC, with day and month if they are not those of `now`.
fn utc(at: u64, now: u64) -> String {
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let (text, today) = (date::format(WallTime(at)), date::format(WallTime(now)));
    let day = if text[..16] == today[..16] { "" } else { &text[5..12] };
    format!("{day}{} UTC", &text[17..25])
}

/// The state at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStateReport {
    /// The time, Unix seconds.
    pub now: u64,
    /// The word.
    pub word: StateWord,
    /// The findings, worst first; at most 50.
    pub findings: Vec<StateFinding>,
    /// The number of further ones.
    pub left_out: usize,
}

impl ServerStateReport {
    /// The state in one sentence without a full stop: the word, the worst finding, and the names of the others.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some((first, others)) = self.findings.split_first() else { return self.word.word().to_owned() };
        let mut out = match self.word {
            StateWord::Healthy => format!("Healthy. Notice: {}", first.sentence(self.now)),
            word => format!("{}: {}", word.word(), first.sentence(self.now)),
        };
        // Those of a kind are in sequence. With left out ones, their number by kind is unknown.
        let named = |of: &[StateFinding]| match (of.len(), of[0].kind.row().name) {
            (many @ 2.., name) if self.left_out == 0 => format!("{many} × {name}"),
            (_, name) => name.to_owned(),
        };
        if !others.is_empty() {
            let names: Vec<String> = others.chunk_by(|a, b| a.kind == b.kind).map(named).collect();
            let _ = write!(out, " ({} more: {})", others.len() + self.left_out, names.join(", "));
        }
        out
    }

    /// The number of findings of a kind.
    #[must_use]
    pub fn count_of(&self, kind: FindingKind) -> usize {
        self.findings.iter().filter(|it| it.kind == kind).count()
    }
}

/// The events of the last minute.
struct Minute<'a> {
    counts: &'a CountFacts,
    /// Refused requests before and after the last change of the configuration.
    change: Option<ChangedRefusals>,
    /// Of each database.
    pages: &'a [PageErrors],
    /// Of each troubled route.
    routes: &'a [RouteCounts],
    /// Of each origin.
    origins: &'a [OriginAnswers],
}

/// Judges facts, one reading after the other.
#[derive(Debug, Default)]
pub struct StateJudge {
    held: CurrentConditions,
    /// The sums of earlier readings, the oldest first.
    samples: VecDeque<CountSample>,
    /// The refused requests at the last change of the configuration.
    change: Option<RefusalsAtChange>,
    /// The sums when a limit changed last: earlier events are none of the limits in force.
    limits_since: CountFacts,
    /// A change of limits since the last reading.
    changed: Option<ChangedLimits>,
}

/// The limits that a reload has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedLimits {
    /// The routes whose limits, time limits or access rules differ, by position.
    pub routes: Vec<u32>,
    /// Whether a limit of the server or of a route differs.
    pub is_any: bool,
}

/// The refused requests when the configuration changed.
#[derive(Clone, Copy, Debug)]
struct RefusalsAtChange {
    /// Milliseconds of the monotonic clock.
    at: u64,
    /// Within the minute before.
    before: u64,
    /// The sum.
    sum: u64,
}

/// The refused requests within the minute before a change of the configuration, and within the last minute after it.
#[derive(Clone, Copy, Debug)]
struct ChangedRefusals {
    before: u64,
    after: u64,
}

/// The sums of a reading.
#[derive(Debug)]
struct CountSample {
    at: u64,
    counts: CountFacts,
    /// The name of each database, with requests and server errors of the pages that its changes purge.
    databases: Vec<(String, [u64; 2])>,
    /// The troubled routes, by their position. 32 bytes each: their differences within a minute fit 32 bits.
    routes: Vec<RouteCounts>,
    /// The origins; empty in a sample of an earlier configuration.
    origins: Vec<OriginAnswers>,
}

/// A route at one reading, or within the last minute.
#[derive(Clone, Copy, Debug, Default)]
struct RouteCounts {
    at: u32,
    requests: u32,
    errors_5xx: u32,
    limited: u32,
    loops: u32,
    refused: u32,
    purges_refused: u32,
    errors_4xx: u32,
}

/// Requests for pages of a database, and the server errors among them.
#[derive(Clone, Copy, Debug, Default)]
struct PageErrors {
    latest: [u64; 2],
    minute: [u64; 2],
}

impl StateJudge {
    /// The state by these facts. Readings may be as frequent as the caller likes: the result depends on their times alone.
    pub fn look(&mut self, facts: &StateFacts) -> ServerStateReport {
        let minute = self.minute(facts);
        let pages: Vec<PageErrors> =
            facts.databases.iter().map(|it| self.page_errors(it, facts.at)).collect();
        let routes: Vec<RouteCounts> = facts.troubled.iter().map(|it| self.route_minute(it)).collect();
        let origins = self.origin_minutes(&facts.origins);
        let change = self.refusals_since_change(facts);
        let minute = Minute { change, counts: &minute, pages: &pages, routes: &routes, origins: &origins };
        let mut found = conditions(facts, &minute, &self.held);
        // The worst of a kind first; the sort is stable.
        found.sort_by_key(|it| std::cmp::Reverse(it.weight));
        self.held.keep(&found, facts);
        let mut findings: Vec<StateFinding> = found
            .into_iter()
            .filter(|it| self.held.is_settled(it, facts.at))
            .map(|it| self.finding(it))
            .collect();
        findings.sort_by_key(|it| (std::cmp::Reverse(it.kind.row().severity), it.kind));
        let word = match findings.first().map(|it| it.kind.row().severity) {
            Some(Severity::Failing) => StateWord::Failing,
            Some(Severity::Degraded) => StateWord::Degraded,
            Some(Severity::Notice) | None => StateWord::Healthy,
        };
        let left_out = findings.len().saturating_sub(MOST_FINDINGS);
        findings.truncate(MOST_FINDINGS);
        ServerStateReport { now: facts.now, word, findings, left_out }
    }

    /// A condition that stood when the process before ended began then, at the time that `earlier` has for its event, unless it is new.
    pub fn continue_from(&mut self, earlier: impl Fn(&str) -> Option<u64>) {
        self.held.continue_from(earlier);
    }

    /// A reload drops the counters of routes and adds others: the sums of earlier readings change by the same amounts, so that the last
    /// minute keeps its events, those of removed routes included. `moved` has the new position of a route that keeps its counters.
    pub fn reload(&mut self, before: &ConfigSums, after: &ConfigSums, moved: impl Fn(u32) -> Option<u32>) {
        let of = |sums: &ConfigSums, name: &str| sums.databases.iter().find(|it| it.0 == name).map(|it| it.1);
        let refused = |it: Option<&CountSample>| it.map_or(0, |it| refusals::all(&it.counts));
        let sum = refused(self.samples.back());
        self.change = self.samples.back().map(|it| RefusalsAtChange {
            at: it.at,
            before: growth(refused(self.samples.front()), sum),
            sum,
        });
        for sample in &mut self.samples {
            let [requests, errors_5xx] =
                carried([sample.counts.requests, sample.counts.errors_5xx], before.routes, after.routes);
            sample.counts = CountFacts { requests, errors_5xx, ..sample.counts.clone() };
            for (name, sums) in &mut sample.databases {
                if let (Some(before), Some(after)) = (of(before, name), of(after, name)) {
                    *sums = carried(*sums, before, after);
                }
            }
            let routes = sample.routes.iter().filter_map(|it| Some(RouteCounts { at: moved(it.at)?, ..*it }));
            sample.routes = routes.collect();
            sample.routes.sort_unstable_by_key(|it| it.at);
            sample.origins.clear();
        }
    }

    /// A reload has changed limits: their events count from the next reading on.
    pub fn renew(&mut self, changed: ChangedLimits) {
        self.changed = Some(changed);
    }

    /// The counts of the last minute, or since the first reading.
    fn minute(&mut self, facts: &StateFacts) -> CountFacts {
        let (at, sums) = (facts.at, &facts.counts);
        // The last one that is a minute old is the start of the window.
        while self.samples.get(1).is_some_and(|it| at.saturating_sub(it.at) >= WINDOW) {
            self.samples.pop_front();
        }
        let changed = self.changed.take().unwrap_or_default();
        if changed.is_any {
            self.limits_since = sums.clone();
        }
        let of_limits = sums.since(&self.limits_since);
        let minute = self.samples.front().map_or_else(CountFacts::default, |it| sums.since(&it.counts));
        let minute = minute.with_limits_of(&of_limits);
        self.leave_out(&facts.troubled, &changed.routes);
        if self.samples.back().is_none_or(|it| at.saturating_sub(it.at) >= SAMPLE) {
            let databases = facts.databases.iter().map(|it| (it.name.clone(), [it.requests, it.errors_5xx]));
            self.samples.push_back(CountSample {
                at,
                counts: sums.clone(),
                databases: databases.collect(),
                routes: facts.troubled.iter().map(of_route).collect(),
                origins: facts.origins.iter().map(|it| it.answers).collect(),
            });
        }
        minute
    }

    /// Begins the last minute of each route under maintenance with this reading: its errors are none, also after the maintenance. So are
    /// those of routes before their limits changed.
    fn leave_out(&mut self, troubled: &[RouteCountFact], changed: &[u32]) {
        let is_left_out = |it: &&RouteCountFact| it.is_ordered || changed.contains(&it.at);
        for now in troubled.iter().filter(is_left_out).map(of_route) {
            for sample in &mut self.samples {
                match sample.routes.binary_search_by_key(&now.at, |it| it.at) {
                    Ok(at) => sample.routes[at] = now,
                    Err(at) => sample.routes.insert(at, now),
                }
            }
        }
    }

    /// A troubled route within the last minute. Before a reading has it, it had neither errors nor refused requests.
    fn route_minute(&self, fact: &RouteCountFact) -> RouteCounts {
        let of = |sample: &CountSample| {
            let found = sample.routes.binary_search_by_key(&fact.at, |it| it.at);
            found.ok().map(|at| sample.routes[at])
        };
        let Some(oldest) = self.samples.front() else { return RouteCounts::default() };
        let now = of_route(fact);
        let before = of(oldest).unwrap_or_else(|| RouteCounts {
            requests: self.samples.iter().find_map(of).map_or(now.requests, |it| it.requests),
            ..RouteCounts::default()
        });
        let mut it = RouteCounts {
            at: now.at,
            requests: now.requests.wrapping_sub(before.requests),
            errors_5xx: now.errors_5xx.wrapping_sub(before.errors_5xx),
            limited: now.limited.wrapping_sub(before.limited),
            loops: now.loops.wrapping_sub(before.loops),
            refused: now.refused.wrapping_sub(before.refused),
            purges_refused: now.purges_refused.wrapping_sub(before.purges_refused),
            errors_4xx: now.errors_4xx.wrapping_sub(before.errors_4xx),
        };
        // Each event is a request, also before the first reading that has the route.
        it.requests =
            it.requests.max(it.errors_4xx.max(it.refused)).max(it.limited.max(it.loops.max(it.errors_5xx)));
        it
    }

    /// The refused requests before and after the last change of the configuration, for some minutes after it.
    fn refusals_since_change(&self, facts: &StateFacts) -> Option<ChangedRefusals> {
        let RefusalsAtChange { at, before, sum } =
            self.change.filter(|it| facts.at.saturating_sub(it.at) < AFTER_CHANGE)?;
        let oldest = self.samples.front().filter(|it| it.at > at);
        let start = oldest.map_or(sum, |it| refusals::all(&it.counts));
        Some(ChangedRefusals { before, after: growth(start, refusals::all(&facts.counts)) })
    }

    /// The answers of the origins within the last minute, or since the last reload.
    fn origin_minutes(&self, origins: &[OriginFact]) -> Vec<OriginAnswers> {
        let before = self.samples.iter().map(|it| &it.origins).find(|it| it.len() == origins.len());
        let Some(before) = before else { return vec![OriginAnswers::default(); origins.len()] };
        origins.iter().zip(before).map(|(now, before)| now.answers.since(before)).collect()
    }

    /// The requests for pages of a database within the last seconds and the last minute.
    fn page_errors(&self, of: &DatabaseFact, at: u64) -> PageErrors {
        let since = |sample: Option<&CountSample>| {
            let before = sample.and_then(|it| it.databases.iter().find(|it| it.0 == of.name));
            let Some((_, [requests, errors])) = before else { return [0, 0] };
            [growth(*requests, of.requests), growth(*errors, of.errors_5xx)]
        };
        let latest = self.samples.iter().rev().find(|it| at.saturating_sub(it.at) >= LATEST);
        let first = self.samples.front();
        PageErrors { latest: since(latest.or(first)), minute: since(first) }
    }

    fn finding(&self, it: Condition) -> StateFinding {
        let since = match it.since {
            Beginning::Seen => self.held.since(&it.subject),
            Beginning::At(time) => Some(self.held.earlier(&it.subject).map_or(time, |it| it.min(time))),
            Beginning::Unstated => None,
        };
        let evidence = match it.evidence.is_empty() {
            true => self.held.evidence(&it.subject),
            false => it.evidence,
        };
        let view = it.view.unwrap_or_else(|| it.kind.row().view.to_owned());
        StateFinding {
            kind: it.kind,
            what: it.what,
            since,
            evidence: short(&evidence),
            effect: it.effect,
            view,
            repeated: None,
        }
    }
}

/// Earlier sums after the change of the present ones from `before` to `after`. They may be below zero, hence wrap: only differences count.
fn carried(earlier: [u64; 2], before: [u64; 2], after: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|at| earlier[at].wrapping_sub(before[at]).wrapping_add(after[at]))
}

/// 32 bits of the sums of a route.
#[allow(clippy::cast_possible_truncation, reason = "only differences are used, which are small")]
fn of_route(it: &RouteCountFact) -> RouteCounts {
    let RouteCountFact { at, requests, errors_5xx, limited, loops, refused, errors_4xx, .. } = *it;
    let purges_refused = it.purges_refused as u32;
    RouteCounts {
        at,
        requests: requests as u32,
        errors_5xx: errors_5xx as u32,
        limited: limited as u32,
        loops: loops as u32,
        refused: refused as u32,
        purges_refused,
        errors_4xx: errors_4xx as u32,
    }
}

/// The first line of a reason, without its full stop and not too long.
fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or("").trim().trim_end_matches('.');
    match line.char_indices().nth(MOST_EVIDENCE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
