//! The orders in progress on all nodes: one list, which nodes change by compare-and-swap. An entry is the lease to request the certificate of
//! its name. Here are the rules; `super` reads and writes the list.

use super::super::challenge::ChallengeAnswer;
use serde::{Deserialize, Serialize};

/// The length of a lease, seconds: longer than a request of any CA takes, also after a kill and a restart.
pub(super) const LEASE: i64 = 600;
/// The rest of a lease at which its node prolongs it, seconds.
const PROLONG: i64 = LEASE / 2;
/// The most entries.
const MOST: usize = 512;
/// The most bytes of the list.
const LONGEST: usize = 1 << 20;

/// A node, and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderingNode {
    /// The same after a restart, so that an order goes on.
    pub node: u64,
    /// The challenges of other processes are answered.
    pub process: u64,
}

/// An order in progress, or a name whose last attempt has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FleetOrder {
    /// The name of the certificate.
    pub name: String,
    node: u64,
    process: u64,
    /// The end of the lease, seconds since the Unix epoch.
    until: i64,
    /// The challenge that every node answers.
    pub challenge: Option<ChallengeAnswer>,
}

impl FleetOrder {
    /// Whether the lease has not ended. One that ends in the distant future is that of a wrong clock.
    fn is_live(&self, now: i64) -> bool {
        now < self.until && self.until <= now.saturating_add(2 * LEASE)
    }
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimResult {
    /// This node has the lease.
    Ours,
    /// Another node has it.
    Theirs,
    /// The list is full.
    Full,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FleetOrders {
    orders: Vec<FleetOrder>,
}

impl FleetOrders {
    /// The list in its text form; `None` if it is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let it: Self =
            Some(text).filter(|it| it.len() <= LONGEST).and_then(|it| serde_json::from_slice(it).ok())?;
        (it.orders.len() <= MOST).then_some(it)
    }

    /// Its text form.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Takes the lease for a name, if no other node has it.
    pub fn claim(&mut self, name: &str, who: OrderingNode, now: i64) -> ClaimResult {
        self.orders.retain(|it| it.is_live(now));
        if self.is_held(name, who, now) {
            return ClaimResult::Theirs;
        }
        self.orders.retain(|it| it.name != name);
        if self.orders.len() >= MOST {
            return ClaimResult::Full;
        }
        let OrderingNode { node, process } = who;
        let (name, until) = (name.to_owned(), now.saturating_add(LEASE));
        self.orders.push(FleetOrder { name, node, process, until, challenge: None });
        ClaimResult::Ours
    }

    /// Sets the challenge of a name, whose lease begins again; takes the lease if it is lost.
    pub fn publish(
        &mut self,
        name: &str,
        challenge: Option<ChallengeAnswer>,
        who: OrderingNode,
        now: i64,
    ) -> ClaimResult {
        let claimed = self.claim(name, who, now);
        if claimed == ClaimResult::Ours
            && let Some(own) = self.orders.last_mut()
        {
            own.challenge = challenge;
        }
        claimed
    }

    /// Whether the lease of a name is to be prolonged, or lost.
    pub fn is_ending(&self, name: &str, who: OrderingNode, now: i64) -> bool {
        let of = |it: &&FleetOrder| it.name == name && (it.node, it.process) == (who.node, who.process);
        let own = self.orders.iter().find(of);
        own.is_none_or(|it| it.until <= now.saturating_add(PROLONG)) && !self.is_held(name, who, now)
    }

    /// Ends the lease for a name.
    pub fn release(&mut self, name: &str, who: OrderingNode) {
        self.orders.retain(|it| it.name != name || it.node != who.node);
    }

    /// Whether another node has the lease for a name.
    pub fn is_held(&self, name: &str, who: OrderingNode, now: i64) -> bool {
        self.orders.iter().any(|it| it.name == name && it.node != who.node && it.is_live(now))
    }

    /// The orders of other processes.
    pub fn of_others(&self, who: OrderingNode, now: i64) -> impl Iterator<Item = &FleetOrder> {
        let is_other = move |it: &&FleetOrder| (it.node, it.process) != (who.node, who.process);
        self.orders.iter().filter(is_other).filter(move |it| it.is_live(now))
    }
}
