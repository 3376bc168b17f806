//! The conditions of the nodes of a fleet, as this node sees them.

use super::condition::{Beginning, Condition, condition, list};
use super::facts::{HealthFacts, NodeFact};
use super::table::FindingKind;
use std::collections::BTreeMap;

pub(super) fn nodes(facts: &HealthFacts, all: &mut Vec<Condition>) {
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
