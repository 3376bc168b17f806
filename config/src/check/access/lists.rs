//! Members of `access.allow` and `access.deny` that change nothing: those that another member contains, and those that the other list
//! decides about.

use super::super::{ConfigCheck, RoutePath};
use crate::access::{AccessConfig, AccessMember};
use larder_semantics::network::{Network, NetworkSet};
use std::collections::HashSet;

/// The members of a list, with the networks among them as one set.
struct AddressList {
    members: Vec<(String, AccessMember)>,
    networks: NetworkSet,
}

impl AddressList {
    fn of(texts: &[String]) -> Self {
        let members: Vec<_> =
            texts.iter().filter_map(|it| Some((it.clone(), AccessMember::parse(it)?))).collect();
        let networks = NetworkSet::of(members.iter().filter_map(|it| network(&it.1)));
        Self { members, networks }
    }

    /// Whether each client of a member is in the list.
    fn covers(&self, member: &AccessMember) -> bool {
        match network(member) {
            Some(it) => self.networks.covers(it),
            None => self.members.iter().any(|it| it.1 == *member),
        }
    }

    /// Whether surely no client of a member is in the list: a country may be anywhere.
    fn excludes(&self, member: &AccessMember) -> bool {
        let Some(network) = network(member) else { return false };
        let is_place = |it: &AccessMember| matches!(it, AccessMember::Country(_) | AccessMember::Asn(_));
        !self.members.iter().any(|it| is_place(&it.1)) && !self.networks.meets(network)
    }

    /// Each member that an earlier or larger one contains, with that one.
    fn twice(&self) -> Vec<(&str, &str)> {
        let mut seen = HashSet::new();
        let again = self.members.iter().filter(|it| !seen.insert(it.0.as_str()));
        let mut found: Vec<(&str, &str)> = again.map(|it| (it.0.as_str(), it.0.as_str())).collect();
        let mut networks: Vec<(&str, Network)> =
            self.members.iter().filter_map(|it| Some((it.0.as_str(), network(&it.1)?))).collect();
        // A network is followed by those within it.
        networks.sort_by_key(|it| (it.1.first(), std::cmp::Reverse(it.1.last())));
        networks.dedup_by_key(|it| it.0);
        let mut outer: Option<(&str, Network)> = None;
        for (text, it) in networks {
            match outer.filter(|around| around.1.contains(it.first())) {
                Some(around) => found.push((text, around.0)),
                None => outer = Some((text, it)),
            }
        }
        found
    }
}

fn network(member: &AccessMember) -> Option<Network> {
    match member {
        AccessMember::Network(it) => Some(*it),
        AccessMember::Unix | AccessMember::Country(_) | AccessMember::Asn(_) => None,
    }
}

/// The first of some texts, and the number of the others.
fn first_of(texts: &[&str]) -> String {
    match texts {
        [] => String::new(),
        [one] => format!("{one:?}"),
        [first, rest @ ..] => format!("{first:?} and {} more", rest.len()),
    }
}

impl ConfigCheck {
    /// Warns of members of the lists of a route that change nothing; once for lists that several routes inherit.
    pub(super) fn warn_lists(&mut self, at: &RoutePath, access: &AccessConfig) {
        if access.allow.is_none() && access.deny.is_none() {
            return;
        }
        let keys = ["allow", "deny"].map(|it| self.access_key(at, it));
        if !self.seen_lists.insert(keys.clone()) {
            return;
        }
        let [allow, deny] = [0, 1].map(|it| AddressList::of(&self.texts(&keys[it])));
        for (list, key, name) in [(&allow, &keys[0], "allow"), (&deny, &keys[1], "deny")] {
            let twice = list.twice();
            let Some((member, around)) = twice.first() else { continue };
            let more = if twice.len() > 1 {
                format!(", and {} more members", twice.len() - 1)
            } else {
                String::new()
            };
            let text = match member == around {
                true => format!("{member:?} is listed twice{more}; remove one"),
                false => format!("{member:?} is in {around:?} already{more}; remove it"),
            };
            self.warn_of(self.source(key), &format!("site.route.access.{name}"), &text);
        }
        let of_route = keys.each_ref().map(|it| it.starts_with(&at.key("")));
        self.warn_lists_of_both(&keys, [&allow, &deny], of_route, access.any);
    }

    /// `deny` wins: a member of `allow` within it admits no client, and one outside of `allow` refuses none that `allow` admits.
    fn warn_lists_of_both(
        &mut self,
        keys: &[String; 2],
        [allow, deny]: [&AddressList; 2],
        [allow_of_route, deny_of_route]: [bool; 2],
        any: bool,
    ) {
        let never: Vec<&str> =
            allow.members.iter().filter(|it| deny.covers(&it.1)).map(|it| it.0.as_str()).collect();
        let (allow_at, deny_at) = (self.source(&keys[0]), self.source(&keys[1]));
        if !never.is_empty() && never.len() == allow.members.len() {
            let text = format!(
                "no client is admitted: deny at {deny_at} contains each member; remove it from one of the lists"
            );
            self.warn_of(allow_at.clone(), "site.route.access.allow", &text);
        } else if !never.is_empty() && (allow_of_route || !deny_of_route) {
            // A route may exclude some of the clients that its site admits.
            let text = format!(
                "{}: never admitted, since deny at {deny_at} contains it; remove it from one of the lists",
                first_of(&never)
            );
            self.warn_of(allow_at.clone(), "site.route.access.allow", &text);
        }
        let idle: Vec<&str> =
            deny.members.iter().filter(|it| allow.excludes(&it.1)).map(|it| it.0.as_str()).collect();
        if !allow.members.is_empty() && !any && allow_of_route == deny_of_route && !idle.is_empty() {
            let text = format!(
                "{}: no effect, since allow at {allow_at} does not contain it; remove it",
                first_of(&idle)
            );
            self.warn_of(deny_at, "site.route.access.deny", &text);
        }
    }
}
