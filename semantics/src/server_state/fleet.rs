//! The conditions of a fleet as this node sees them: its memcached servers, and its nodes.

use super::condition::{Beginning, Condition, condition, list};
use super::current_conditions::CurrentConditions;
use super::facts::{CountFacts, NodeFact, StateFacts};
use super::table::FindingKind;
use std::collections::BTreeMap;

/// The ejections of a server within ten minutes that are a finding.
const FLAPS: usize = 3;
/// The fresh pages that memcached lost within a minute; and the number below which that ends.
const LOST: (u64, u64) = (100, 50);
/// The same as a share of the lookups, per cent.
const LOST_SHARE: (u64, u64) = (5, 2);

/// The servers that fail and come back, and those that lose pages.
pub(super) fn servers(
    facts: &StateFacts,
    minute: &CountFacts,
    held: &CurrentConditions,
    all: &mut Vec<Condition>,
) {
    for it in facts.memcached.iter().filter(|it| it.ejections >= FLAPS) {
        let what = format!("memcached server {} fails and comes back", it.name);
        let evidence = format!("{} times within the last ten minutes", it.ejections);
        let subject = format!("memcached {} flaps", it.name);
        let effect = "each time its pages are missing, and those of a restarted server are lost";
        all.push(condition(FindingKind::MemcachedFlaps, &subject, what, evidence).with_effect(effect));
    }
    // Keys of an ejected server are looked up where they never were.
    if facts.memcached.iter().any(|it| it.is_down || it.ejections > 0) {
        return;
    }
    const SUBJECT: &str = "memcached size";
    let of = |(begins, ends): (u64, u64)| if held.of(SUBJECT).is_some() { ends } else { begins };
    let CountFacts { fleet_lost: lost, fleet_lookups: lookups, .. } = *minute;
    if lost < of(LOST) || lost.saturating_mul(100) < lookups.saturating_mul(of(LOST_SHARE)) {
        return;
    }
    let what = "memcached loses fresh pages";
    let evidence = format!("{lost} of {lookups} lookups within the last minute");
    let found = condition(FindingKind::MemcachedTooSmall, SUBJECT, what, evidence);
    all.push(found.with_effect("larder cannot tell that from a removal, and validates them at the origin"));
}

pub(super) fn nodes(facts: &StateFacts, all: &mut Vec<Condition>) {
    for it in &facts.nodes {
        of_node(it, all);
    }
    all.extend(versions(&facts.nodes));
}

fn of_node(it: &NodeFact, all: &mut Vec<Condition>) {
    let NodeFact { name, .. } = it;
    let mut add = |kind: FindingKind, about: &str, what: String, effect: &str| {
        let subject = format!("node {name} {about}");
        all.push(condition(kind, &subject, what, "").with_effect(effect));
    };
    if it.other_servers {
        let what = format!("node {name} uses another list of memcached servers");
        add(FindingKind::NodeServersDiffer, "servers", what, "purges do not reach all nodes");
    }
    if it.other_keys {
        let what = format!("node {name} finds keys on other servers, or in another form");
        add(FindingKind::NodeKeysDiffer, "keys", what, "nodes do not share its pages");
    }
    if let Some(off) = it.clock_off {
        let way = if off > 0 { "ahead" } else { "behind" };
        let what = format!("the clock of node {name} is {} s {way}", off.unsigned_abs());
        let effect = "ages and lifetimes of pages that nodes share are wrong by that time";
        add(FindingKind::NodeClockOff, "clock", what, effect);
    }
    if let Some(silent) = it.silent {
        let what = format!("node {name} does not report");
        let effect = format!(
            "a purge with `wait` takes a lease, and {name} validates every stored response until it reports again"
        );
        let found = condition(FindingKind::NodeSilent, &format!("node {name} silent"), what, "");
        all.push(found.with_effect(effect).begun(Beginning::At(silent)));
    }
}

/// Nodes that run different versions.
fn versions(nodes: &[NodeFact]) -> Option<Condition> {
    let mut by_version = BTreeMap::<&str, Vec<&str>>::new();
    for it in nodes.iter().filter(|it| it.silent.is_none()) {
        if let Some(version) = &it.version {
            by_version.entry(version).or_default().push(&it.name);
        }
    }
    if by_version.len() < 2 {
        return None;
    }
    let each: Vec<String> =
        by_version.iter().map(|(version, names)| format!("{version}: {}", list(names))).collect();
    let what = "nodes run different versions";
    Some(condition(FindingKind::NodeVersionsDiffer, "node versions", what, each.join("; ")))
}
