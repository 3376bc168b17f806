//! From facts to conditions: each is a finding once it has held for long enough.

use super::condition::{
    Beginning, Condition, ERRORS, ERRORS_REQUESTS, SERVER_ERRORS, condition, list, number,
};
use super::current_conditions::CurrentConditions;
use super::facts::{CertificateFact, CountFacts, StateFacts};
use super::table::{FindingKind, LIMITS};
use super::{Minute, PageErrors};
use crate::certificate_renewal::ExpiryState;
use crate::date;
use larder_stdx::clock::WallTime;
use std::collections::HashSet;

/// The share below which that finding ends, per cent: half, so that a share around the threshold does not flicker.
const ERRORS_END: u64 = 2;
/// The share at which most requests fail, per cent; and the one at which that ends.
const MOST_ERRORS: (u64, u64) = (50, 40);
/// The fewest events of a limit within a minute: the log has a single one (`limit-reached`).
const LIMIT_TIMES: u64 = 5;
/// The share of the RAM budget that is withheld in a finding, per cent; and the one at which it ends.
const WITHHELD: (u64, u64) = (10, 5);
/// The fewest fresh pages evicted within a minute, or the requests for them; and the number below which that ends. A cache that works evicts some.
const EVICTED: (u64, u64) = (100, 50);
/// The same as a share of the stored pages, per cent.
const EVICTED_SHARE: (u64, u64) = (10, 5);
/// Purges of one target by one sender within five minutes; and the number below which that ends.
const REPEATED: (u64, u64) = (10, 5);
/// The requests for purged pages that reach an origin within a minute; and the number below which that ends.
const MISSED_PURGED: (u64, u64) = (20, 10);
/// The delay of the changes of a database that is a finding, milliseconds.
const MOST_LAG: u64 = 2_000;
/// The seconds for which a snapshot that was not read is a finding: by then requests have filled the tier.
const SNAPSHOT: u64 = 3_600;
/// The fewest connections over TLS of which none uses HTTP/3: by then browsers of visitors have come back.
const ANNOUNCED: u64 = 1_000;
/// The seconds of a day.
const DAY: i64 = 86_400;

/// The conditions that hold. `minute` is the growth of the counts within a minute; `held` are the conditions of the reading before.
pub(super) fn conditions(
    facts: &StateFacts,
    minute: &Minute<'_>,
    held: &CurrentConditions,
) -> Vec<Condition> {
    let mut all = Vec::new();
    all.extend(worker(facts));
    super::origins::origins(facts, minute, held, &mut all);
    all.extend(errors(facts, minute, held));
    limits(facts, minute.counts, &mut all);
    super::refusals::refusals(facts, minute, held, &mut all);
    super::routes::routes(facts, minute, held, &mut all);
    super::recorded::recorded(facts, &mut all);
    lower_tiers(facts, &mut all);
    super::fleet::servers(facts, minute.counts, held, &mut all);
    all.extend(repeated_purge(facts, minute.counts, held));
    super::fleet::nodes(facts, &mut all);
    databases(facts, minute.pages, held, &mut all);
    configuration(facts, &mut all);
    all.extend(facts.certificates.iter().filter_map(|it| certificate(it, facts.now)));
    all.extend(memory(facts, held));
    all.extend(hosts(facts, FindingKind::CertificateOtherNames));
    all.extend(hosts(facts, FindingKind::CertificateLacksNames));
    all.extend(evictions(facts, minute.counts, held));
    all
}

fn worker(facts: &StateFacts) -> Option<Condition> {
    let (worker, why) = facts.failed_worker.as_ref()?;
    let what = format!("worker {worker} has failed");
    let effect = "larder ends, and its service manager starts it again";
    Some(condition(FindingKind::WorkerFailed, "worker", what, why).with_effect(effect))
}

fn errors(facts: &StateFacts, minute: &Minute<'_>, held: &CurrentConditions) -> Option<Condition> {
    let CountFacts { requests, errors_5xx, .. } = *minute.counts;
    let before = held.of(SERVER_ERRORS).map(|it| it.kind);
    if requests == 0 || before.is_none() && requests < ERRORS_REQUESTS {
        return None;
    }
    let reaches = |percent: u64| errors_5xx.saturating_mul(100) >= requests.saturating_mul(percent);
    let most = if before == Some(FindingKind::MostRequestsFail) { MOST_ERRORS.1 } else { MOST_ERRORS.0 };
    let some = if before.is_some() { ERRORS_END } else { ERRORS };
    let kind = match () {
        () if reaches(most) => FindingKind::MostRequestsFail,
        () if reaches(some) => FindingKind::RequestsFail,
        () => return None,
    };
    let what = format!("{} % of the responses are server errors", errors_5xx.min(requests) * 100 / requests);
    let evidence = format!("{errors_5xx} of {requests} within the last minute");
    Some(condition(kind, SERVER_ERRORS, what, evidence).with_effect(by_route(facts, minute)))
}

/// The routes with the most server errors, such as `by route: shop 20, api 3`, and why the first has failed.
fn by_route(facts: &StateFacts, minute: &Minute<'_>) -> String {
    let of_routes = facts.troubled.iter().zip(minute.routes).map(|(fact, it)| (it.errors_5xx, fact));
    let mut errors: Vec<_> = of_routes.filter(|it| it.0 > 0).collect();
    errors.sort_by_key(|it| std::cmp::Reverse(it.0));
    let Some((_, worst)) = errors.first() else { return String::new() };
    let named: Vec<String> = errors.iter().map(|(count, it)| format!("{} {count}", it.name)).collect();
    let routes = format!("by route: {}", list(&named.iter().map(String::as_str).collect::<Vec<_>>()));
    match &*worst.failure {
        "" => routes,
        why => format!("{routes}; the last failure of {}: {why}", worst.name),
    }
}

fn limits(facts: &StateFacts, minute: &CountFacts, all: &mut Vec<Condition>) {
    for (row, times) in LIMITS.iter().zip(minute.limits).filter(|it| it.1 >= LIMIT_TIMES) {
        let evidence = format!("{times} times within the last minute");
        let mut found = condition(FindingKind::LimitReached, row.counter, row.event, evidence);
        if row.counter == "purge_rules_full" {
            found.effect = "purge more at once, such as by tag, or less often".to_owned();
            found.view = Some("live?filter=method == \"PURGE\"".to_owned());
        }
        if let Some(log) = facts.log.as_ref().filter(|_| row.counter == "log_lines_dropped") {
            found.view = Some("config?section=log.".to_owned());
            let why = if log.why.is_empty() { "it is not written fast enough" } else { &log.why };
            found.what = format!("lines of the access log {} are dropped", log.name);
            found.evidence = format!("{}: {why}", found.evidence);
            found.effect = "correct the reason, or name another file in `log.access`".to_owned();
        }
        all.push(found);
    }
}

/// The disk tier and the fleet.
fn lower_tiers(facts: &StateFacts, all: &mut Vec<Condition>) {
    let disk = &facts.disk;
    if let Some(why) = &disk.off {
        let found = condition(FindingKind::DiskOff, "disk", "the disk tier is off", why);
        all.push(found.with_effect("responses are stored in RAM only"));
    }
    if disk.reads_off {
        let why = "three reads in a row took longer than 1 s";
        let found = condition(FindingKind::DiskReadsOff, "disk reads", "the disk tier is not read", why);
        all.push(found.with_effect("its pages are fetched from the origins"));
    }
    if disk.device_full {
        let what = "the device of the disk tier is full";
        let found = condition(FindingKind::DiskDeviceFull, "disk device", what, "");
        all.push(found.with_effect("pages are dropped before `cache.disk.size` is reached"));
    }
    if let Some(log) = facts.purge_log.filter(|it| !it.in_sync) {
        let evidence = format!("{} of {} servers", log.followed, log.servers);
        let what = "the purge log is not followed";
        let found = condition(FindingKind::PurgeLogNotFollowed, "purge log", what, evidence);
        all.push(found.with_effect("every stored response is validated before use"));
    }
    let is_last = facts.memcached.iter().all(|it| it.is_down);
    for it in facts.memcached.iter().filter(|it| it.is_down) {
        let effect = match (is_last, facts.keys_move) {
            (true, _) => "no memcached server is in use, and nodes share no pages",
            (false, true) => "the other servers store its keys",
            (false, false) => "its keys are not stored in the fleet",
        };
        let (what, subject) =
            (format!("memcached server {} is not used", it.name), format!("memcached {}", it.name));
        let evidence = format!("{} in a row", number(it.failures as usize, "failure"));
        all.push(condition(FindingKind::MemcachedDown, &subject, what, evidence).with_effect(effect));
    }
}

/// Databases that are not followed, or late, and whether requests for their pages fail: those of the last seconds count, or of the last
/// minute where there are none.
fn databases(facts: &StateFacts, pages: &[PageErrors], held: &CurrentConditions, all: &mut Vec<Condition>) {
    for it in facts.databases.iter().filter(|it| it.is_followed && it.lag_millis > MOST_LAG) {
        let what = format!("the changes of database {} are read late", it.name);
        let evidence = format!("{} s and {} bytes of its log behind", it.lag_millis / 1000, it.lag_bytes);
        let found =
            condition(FindingKind::DatabaseBehind, &format!("database {} behind", it.name), what, evidence);
        all.push(found.with_effect("pages with its rows are validated every second"));
    }
    for (it, pages) in facts.databases.iter().zip(pages).filter(|it| !it.0.is_followed) {
        let subject = format!("database {}", it.name);
        let has_failed = held.of(&subject).is_some_and(|it| it.kind == FindingKind::DatabasePagesFail);
        let (([requests, errors], time), keeps) = match pages.latest[0] {
            0 => ((pages.minute, "minute"), has_failed),
            _ => ((pages.latest, "10 seconds"), false),
        };
        if errors > 0 && (keeps || errors.saturating_mul(2) >= requests) {
            let what = format!("pages of database {} fail", it.name);
            let effect =
                format!("{errors} of {requests} requests for them were server errors within the last {time}");
            let found = condition(FindingKind::DatabasePagesFail, &subject, what, &*it.why);
            all.push(found.with_effect(effect));
            continue;
        }
        let what = format!("the changes of database {} are not followed", it.name);
        let found = condition(FindingKind::DatabaseNotFollowed, &subject, what, &*it.why);
        all.push(found.with_effect("pages with its rows are validated every second"));
    }
}

/// The configuration, the files of certificates and access rules, and the snapshot of the RAM tier.
fn configuration(facts: &StateFacts, all: &mut Vec<Condition>) {
    let parts = [
        (
            "configuration",
            &facts.refused,
            "the configuration in the file is refused",
            "the previous one stays in force",
            "config?part=text",
        ),
        (
            "certificate files",
            &facts.refused_certificates,
            "the certificates in the files are refused",
            "the previous ones stay in use",
            "config?part=certificates",
        ),
    ];
    for (subject, refused, what, effect, view) in parts {
        let Some(it) = refused else { continue };
        let found = condition(FindingKind::ConfigurationRefused, subject, what, &*it.why);
        all.push(found.with_effect(effect).seen_at(view.into()).begun(Beginning::At(it.at)));
    }
    for it in &facts.broken_files {
        let what = format!("the file {} cannot be used", it.name);
        let found = condition(FindingKind::AccessFileBroken, &format!("file {}", it.name), what, &*it.why);
        all.push(found.with_effect(it.effect).begun(Beginning::At(it.at)));
    }
    if !facts.waiting.is_empty() {
        let keys: Vec<&str> = facts.waiting.iter().map(String::as_str).collect();
        let what = "keys in the file wait for a restart";
        all.push(condition(FindingKind::RestartPending, "restart", what, list(&keys)));
    }
    if let Some(why) = &facts.certificate_folder {
        let what = "the certificates of `tls.acme` cannot be stored";
        let found = condition(FindingKind::CertificateMissing, "certificate folder", what, why);
        all.push(found.begun(Beginning::Unstated));
    }
    if facts.http3.is_some_and(|it| it.connections == 0 && it.tls_connections >= ANNOUNCED) {
        let what = "`http3` is on and announced to clients, but none has connected over it";
        let count = facts.http3.map_or(0, |it| it.tls_connections);
        let found =
            condition(FindingKind::Http3Unused, "http3", what, format!("{count} connections over TCP"));
        all.push(found.with_effect("a firewall may block the UDP port, and clients stay on TCP"));
    }
    if let Some(it) = facts.snapshot.as_ref().filter(|it| facts.now.saturating_sub(it.at) < SNAPSHOT) {
        let what = "the snapshot of the RAM tier was not read at the start";
        let found = condition(FindingKind::SnapshotNotRead, "snapshot", what, &*it.why);
        all.push(found.with_effect("the tier began empty").begun(Beginning::Unstated));
    }
}

fn certificate(it: &CertificateFact, now: u64) -> Option<Condition> {
    let names: Vec<&str> = it.names.iter().map(String::as_str).collect();
    let (names, subject) = (list(&names), format!("certificate {}", names.join(" ")));
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let day = |it: i64| {
        u64::try_from(it).map_or_else(|_| String::new(), |it| date::format(WallTime(it))[5..16].to_owned())
    };
    let end = it.validity.map_or_else(String::new, |it| day(it.until));
    let evidence = match it.error.is_empty() {
        true => end,
        false => format!("{end}, {}: {}", number(it.failures as usize, "failed renewal"), it.error),
    };
    let found = match it.state {
        ExpiryState::Valid => return None,
        ExpiryState::Missing if it.failures == 0 => return None,
        ExpiryState::Missing => condition(
            FindingKind::CertificateMissing,
            &subject,
            format!("{names} has no certificate"),
            &*it.error,
        ),
        ExpiryState::Expired => {
            let what = format!("the certificate of {names} has expired");
            condition(FindingKind::CertificateExpired, &subject, what, evidence)
                .with_effect("clients reject it")
        }
        ExpiryState::NotYetValid => {
            let what = format!("the certificate of {names} is not valid yet");
            let begins =
                it.validity.map_or_else(String::new, |it| format!("its validity begins on {}", day(it.from)));
            condition(FindingKind::CertificateNotYetValid, &subject, what, begins)
                .with_effect("clients reject it")
        }
        ExpiryState::Expiring => {
            let left =
                it.validity.map_or(0, |it| it.until).saturating_sub(i64::try_from(now).unwrap_or(i64::MAX));
            let days = number(usize::try_from(left / DAY).unwrap_or(0), "day");
            let what = format!("the certificate of {names} expires in {days}");
            condition(FindingKind::CertificateExpiring, &subject, what, evidence)
        }
    };
    Some(found.begun(Beginning::Unstated))
}

fn memory(facts: &StateFacts, held: &CurrentConditions) -> Option<Condition> {
    const SUBJECT: &str = "memory";
    let StateFacts { ram_budget: budget, ram_usable: usable, .. } = *facts;
    let least = if held.of(SUBJECT).is_some() { WITHHELD.1 } else { WITHHELD.0 };
    let withheld = budget.saturating_sub(usable);
    if withheld == 0 || withheld.saturating_mul(100) < budget.saturating_mul(least) {
        return None;
    }
    let evidence = format!("{} of {} MiB can be used", usable >> 20, budget >> 20);
    let what = "a part of the RAM tier is withheld";
    let found = condition(FindingKind::MemoryWithheld, SUBJECT, what, evidence);
    Some(found.with_effect("the process uses more memory than planned"))
}

/// Fresh pages that no tier has any more. With a lower tier, requests for them count: a page that only left RAM is a hit of that tier.
fn evictions(facts: &StateFacts, minute: &CountFacts, held: &CurrentConditions) -> Option<Condition> {
    const SUBJECT: &str = "evictions";
    let has_lower = facts.disk.is_on || !facts.memcached.is_empty();
    let evicted = if has_lower { minute.missed_evicted } else { minute.evicted_fresh };
    let of = |(begins, ends): (u64, u64)| if held.of(SUBJECT).is_some() { ends } else { begins };
    if evicted < of(EVICTED) || evicted.saturating_mul(100) < minute.stored.saturating_mul(of(EVICTED_SHARE))
    {
        return None;
    }
    let (kind, what) = match has_lower {
        true if facts.disk.is_on && facts.disk.is_full => {
            (FindingKind::DiskTooSmall, "fresh pages are evicted from the disk tier")
        }
        _ => (FindingKind::PagesEvicted, "fresh pages are evicted from RAM"),
    };
    let (evidence, effect) = match has_lower {
        true => (
            format!("{evicted} requests for them within the last minute"),
            "no other tier has them, and these requests go to the origin",
        ),
        false => (format!("{evicted} within the last minute"), "requests for them go to the origin"),
    };
    Some(condition(kind, SUBJECT, what, evidence).with_effect(effect))
}

/// A purge that one sender repeats, while requests for purged pages reach the origin.
fn repeated_purge(facts: &StateFacts, minute: &CountFacts, held: &CurrentConditions) -> Option<Condition> {
    const SUBJECT: &str = "repeated purge";
    let it = facts.repeated_purge.as_ref()?;
    let of = |(begins, ends): (u64, u64)| if held.of(SUBJECT).is_some() { ends } else { begins };
    let (times, missed) = (it.times as u64, minute.missed_purged);
    let matches_nothing = it.matched == 0;
    if times < of(REPEATED) || !matches_nothing && missed < of(MISSED_PURGED) {
        return None;
    }
    let what = format!("{} has purged {} repeatedly", it.by, it.target);
    let evidence = format!("{times} times within the last five minutes");
    let effect = match matches_nothing {
        true => "no stored response of this node matched".to_owned(),
        false => format!("{missed} requests for purged pages went to the origin within the last minute"),
    };
    Some(condition(FindingKind::PurgeRepeated, SUBJECT, what, evidence).with_effect(effect))
}

/// Hosts that clients reach over TLS, and no certificate has.
fn hosts(facts: &StateFacts, kind: FindingKind) -> Option<Condition> {
    let requests = |host: &str| {
        let asked = facts.unknown_names.iter().find(|it| it.0.eq_ignore_ascii_case(host));
        asked.map_or(0, |it| it.1)
    };
    let (hosts, subject, effect): (Vec<&String>, _, _) = match kind {
        FindingKind::CertificateOtherNames => (
            // Without a handshake nothing shows that clients follow the redirect to this server.
            facts
                .tls_hosts
                .iter()
                .chain(facts.secured_hosts.iter().filter(|it| requests(it.as_str()) > 0))
                .collect(),
            "names of certificates",
            "clients reject the connection",
        ),
        _ => (
            facts.plain_hosts.iter().collect(),
            "names of further certificates",
            "they are also served over plain HTTP, and clients that use https:// reject the connection",
        ),
    };
    if hosts.is_empty() {
        return None;
    }
    let names = || facts.certificates.iter().flat_map(|it| &it.names);
    let known: HashSet<String> = names().map(|it| it.to_ascii_lowercase()).collect();
    let has = |host: &str| {
        let host = host.to_ascii_lowercase();
        known.contains(&host)
            || host.find('.').is_some_and(|dot| known.contains(&format!("*{}", &host[dot..])))
    };
    let without = hosts.into_iter().filter(|host| !has(host));
    let mut without: Vec<(u64, &str)> = without.map(|it| (requests(it), it.as_str())).collect();
    without.dedup();
    if without.is_empty() {
        return None;
    }
    // The names that clients request first.
    without.sort_by_key(|it| std::cmp::Reverse(it.0));
    let shown: Vec<String> = without
        .iter()
        .map(|(times, host)| match times {
            0 => (*host).to_owned(),
            _ => {
                format!("{host} ({})", number(usize::try_from(*times).unwrap_or(usize::MAX), "TLS handshake"))
            }
        })
        .collect();
    let without: Vec<&str> = shown.iter().map(String::as_str).collect();
    let mut others: Vec<&str> = names().map(String::as_str).collect();
    others.dedup();
    let what = format!("no certificate is for {}", list(&without));
    let evidence = format!("the certificates are for {}", list(&others));
    Some(condition(kind, subject, what, evidence).with_effect(effect).begun(Beginning::Unstated))
}
