//! Writes a purge into the servers' logs, and waits until no node can use a response that it removes.
//!
//! A purge is written sufficiently when it was found on enough servers after it had been sent to all of them. From then
//! on a node that polls enough servers sees it. A node has therefore obeyed it when the node says so, or when a lease has
//! passed: by then the node has polled again or trusts nothing any more.

use super::follower::{GAP_TIMEOUT, PurgeLogSink, lease_of, new_generation};
use super::run::{FORGET_NODE, FleetPurgeLog};
use super::{LogEnvironment, LogServer};
use crate::{Position, Seq};
use larder_wire::purge_entry::{NodeReport, Numbered, PurgeEntry, TooLong};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// The most node numbers that are read on one server.
pub(super) const MOST_NODES: u64 = 256;

/// Milliseconds between two reads of the nodes' reports.
const POLL_INTERVAL: u64 = 20;

/// The most milliseconds for which an acknowledgement waits for work that is not part of the promise.
const CATCH_UP: u64 = 1_000;

/// Seconds after its last sign of life during which a node counts as alive, for messages only.
const ALIVE_WITHIN: u64 = 3;

/// The most by which this node's clock and another's may differ over a lease: a hundredth, and this many milliseconds.
const CLOCK_SKEW: u64 = 20;

/// A purge that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeReceipt {
    /// Its name in all logs.
    pub id: u128,
    /// Its number on this node.
    pub seq: Seq,
    /// The servers that have it, by their place in the list, and how many there are.
    pub on: (Vec<usize>, usize),
    /// The reports of all nodes, if they were waited for.
    pub nodes: Option<Vec<NodeReceipt>>,
}

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReceipt {
    /// Random, of its run.
    pub id: u64,
    /// Its name for operators.
    pub name: Box<str>,
    /// How it obeys the purge.
    pub outcome: NodeOutcome,
    /// Milliseconds from the beginning of the purge until its report was read that it has applied it.
    pub after: Option<u64>,
}

/// How a node obeys a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// It has applied it.
    Applied,
    /// It has not reported that: it validates all its responses until it knows the purge.
    Silent,
    /// It has stopped.
    Stopped,
}

/// A purge that is not certain to hold everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCertain {
    /// It is too long for an entry; nothing was done.
    TooLong(TooLong),
    /// It is not understood; nothing was done.
    Unsupported,
    /// Too few servers accepted it. It is in force on this node.
    TooFew {
        /// Those that have it.
        on: Vec<usize>,
        /// The number that was needed.
        need: usize,
        /// The number of all.
        of: usize,
    },
    /// Nodes follow other servers than this one. It is in force on all that follow these.
    OtherServers(Vec<Box<str>>),
}

impl fmt::Display for NotCertain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(it) => it.fmt(f),
            Self::Unsupported => f.write_str("this node does not understand the purge"),
            Self::TooFew { on, need, of } => write!(
                f,
                "in force on this node, but only {} of {of} memcached servers stored it and {need} are required; \
                 other nodes may miss it. Purge again when the servers answer",
                on.len()
            ),
            Self::OtherServers(names) => write!(
                f,
                "in force on every node with these servers, but {} use a different list: set the same \
                 cache.fleet.servers on all nodes",
                names.join(", ")
            ),
        }
    }
}

impl std::error::Error for NotCertain {}

/// One server that has the entry.
#[derive(Clone, Copy)]
struct WrittenEntry {
    server: usize,
    at: Numbered,
    /// When its number was requested.
    since: u64,
}

/// A server's data about the entry and the nodes.
struct ServerReport {
    server: usize,
    standing: bool,
    when: u64,
    nodes: Option<Numbered>,
    slots: Vec<Option<NodeReport>>,
}

/// The latest report of each node, and after how many milliseconds it showed that the node has applied a purge.
type ReportedNodes = BTreeMap<u64, (NodeReport, Option<u64>)>;

impl<S: LogServer, W: LogEnvironment, H: PurgeLogSink> FleetPurgeLog<S, W, H> {
    /// Purges on all nodes. In force here at once. With `wait` it returns when no node can use a removed response any
    /// more, within a lease and the servers' time limits; without, when enough servers have it.
    ///
    /// # Errors
    /// It is not certain to hold on other nodes, or was refused.
    pub async fn purge(&self, entry: &PurgeEntry, wait: bool) -> Result<PurgeReceipt, NotCertain> {
        let seq = self.begin(entry)?;
        self.spread(entry, seq, wait).await
    }

    /// The first half of [`FleetPurgeLog::purge`]: in force on this node.
    ///
    /// # Errors
    /// It was refused; nothing was done.
    pub fn begin(&self, entry: &PurgeEntry) -> Result<Seq, NotCertain> {
        entry.write().map_err(NotCertain::TooLong)?;
        self.follower.borrow_mut().apply_own(entry, &self.sink).ok_or(NotCertain::Unsupported)
    }

    /// The second half: in force on all other nodes.
    ///
    /// # Errors
    /// It is not certain to hold there.
    pub async fn spread(&self, entry: &PurgeEntry, seq: Seq, wait: bool) -> Result<PurgeReceipt, NotCertain> {
        let bytes = entry.write().map_err(NotCertain::TooLong)?;
        let begun = self.environment.now();
        let (need, of) = (self.follower.borrow().parameters().write_quorum, self.servers.len());
        let mut written: Vec<WrittenEntry> = Vec::new();
        let (mut standing, mut anywhere) = (Vec::new(), false);
        for _ in 0..2 {
            let missing = (0..of).filter(|it| !standing.contains(it)).map(|it| self.write(it, &bytes));
            let new: Vec<_> = join_all(missing).await.into_iter().flatten().collect();
            for it in &new {
                anywhere = true;
                self.sink.add_position(seq, Position { log: it.at.name, entry: it.at.number });
            }
            written.retain(|it| standing.contains(&it.server));
            written.extend(new);
            // Only now: being everywhere at one time is more than having been everywhere at some time.
            let reports = self.ask_nodes(&written, &bytes, &[]).await;
            let in_time = |it: &WrittenEntry| {
                let when = reports
                    .iter()
                    .find(|report| report.server == it.server && report.standing)
                    .map(|it| it.when);
                when.is_some_and(|when| when < it.since + GAP_TIMEOUT / 2)
            };
            written.retain(in_time);
            standing = written.iter().map(|it| it.server).collect();
            if standing.len() >= need {
                break;
            }
        }
        if !anywhere {
            self.sink.purge_lost(seq);
        }
        if standing.len() < need {
            return Err(NotCertain::TooFew { on: standing, need, of });
        }
        let nodes = if wait { Some(self.wait(&written, &bytes, begun).await?) } else { None };
        Ok(PurgeReceipt { id: entry.id, seq, on: (standing, of), nodes })
    }

    /// Takes a number in one server's log and puts the entry there.
    async fn write(&self, server: usize, bytes: &[u8]) -> Option<WrittenEntry> {
        let (it, head) = (&self.servers[server], self.keys.head());
        let mut since = self.environment.now();
        let mut value = it.increment(&head).await.ok()?;
        if value.is_none() {
            // Its log is gone, or never existed: this starts another.
            it.add(&head, &Numbered::first(self.environment.random()).write(), 0).await.ok()?;
            since = self.environment.now();
            value = it.increment(&head).await.ok()?;
        }
        let at = Numbered::of(value?)?;
        // Never over existing data: a number is used once.
        it.add(&self.keys.entry(at), bytes, self.expire).await.ok()?.then_some(WrittenEntry {
            server,
            at,
            since,
        })
    }

    /// Reads the nodes' reports on the servers that have the entry, and whether it is still there.
    async fn ask_nodes(
        &self,
        written: &[WrittenEntry],
        bytes: &[u8],
        before: &[ServerReport],
    ) -> Vec<ServerReport> {
        let confirm = |it: &WrittenEntry| {
            let it = *it;
            let known = before.iter().find(|report| report.server == it.server).and_then(|it| it.nodes);
            async move {
                let mut keys = vec![self.keys.head(), self.keys.entry(it.at), self.keys.nodes()];
                if let Some(known) = known {
                    let numbers = 1..=known.number.min(MOST_NODES);
                    keys.extend(numbers.map(|number| self.keys.node(Numbered { number, ..known })));
                }
                let values = self.servers[it.server].get_many(&keys).await.ok()?;
                let log = values.first()?.as_deref().and_then(Numbered::read);
                let standing =
                    log.is_some_and(|log| log.name == it.at.name) && values.get(1)?.as_deref() == Some(bytes);
                let nodes = values.get(2)?.as_deref().and_then(Numbered::read);
                let slots =
                    values.iter().skip(3).map(|it| it.as_deref().and_then(NodeReport::read)).collect();
                // Numbers of a series other than the present one are meaningless.
                let slots =
                    if nodes.map(|it| it.name) == known.map(|it| it.name) { slots } else { Vec::new() };
                Some(ServerReport { server: it.server, standing, when: self.environment.now(), nodes, slots })
            }
        };
        join_all(written.iter().map(confirm)).await.into_iter().flatten().collect()
    }

    /// Waits until every node obeys the entry, or the time in which it trusts a poll has passed. The purge began at `begun`.
    async fn wait(
        &self,
        written: &[WrittenEntry],
        bytes: &[u8],
        begun: u64,
    ) -> Result<Vec<NodeReceipt>, NotCertain> {
        let standing = self.environment.now();
        let mut longest = self.follower.borrow().longest_lease();
        let mut reports = Vec::new();
        let mut nodes = ReportedNodes::new();
        loop {
            let new = self.ask_nodes(written, bytes, &reports).await;
            let took = self.environment.now().saturating_sub(begun);
            for node in new.iter().flat_map(|it| it.slots.iter().flatten()) {
                let past = written.iter().any(|it| has_applied(node, it)).then_some(took);
                let known = nodes.entry(node.id).or_insert_with(|| (node.clone(), past));
                let past = known.1.or(past);
                *known = (if node.wall >= known.0.wall { node.clone() } else { known.0.clone() }, past);
            }
            for it in &new {
                longest = longest.max(it.nodes.map_or(0, |it| lease_of(it.name)));
            }
            let settled = new.iter().filter(|it| self.is_settled(it, longest, &nodes)).count();
            let need = self.follower.borrow().parameters().write_quorum;
            if settled >= need {
                let asked: Vec<usize> = new.iter().map(|it| it.server).collect();
                self.catch_up(written.iter().filter(|it| asked.contains(&it.server))).await;
                return self.receipt(nodes);
            }
            // A server that fell silent is asked further, by what is known of it.
            for it in new {
                reports.retain(|old: &ServerReport| old.server != it.server);
                reports.push(it);
            }
            if self.environment.now() >= standing + longest + longest / 100 + CLOCK_SKEW {
                self.drop_silent_nodes(&reports).await;
                return self.receipt(nodes);
            }
            self.environment.sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits briefly until this node has read its own entry, which is in force here without that. Responses fetched
    /// before would look to other nodes as if requested before the purge, and they would fetch them again.
    async fn catch_up<'w>(&self, written: impl Iterator<Item = &'w WrittenEntry> + Clone) {
        let until = self.environment.now() + CATCH_UP;
        let has_read = |it: &WrittenEntry| self.follower.borrow().has_read(it.server, it.at);
        while self.environment.now() < until && !written.clone().all(has_read) {
            self.environment.sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether all nodes that may have polled this server before the entry was there are known, and obey it.
    fn is_settled(&self, report: &ServerReport, longest: u64, nodes: &ReportedNodes) -> bool {
        let follower = self.follower.borrow();
        let Some(counter) = report.nodes else { return false };
        let old = follower
            .generation_since(report.server, counter.name)
            .is_some_and(|since| report.when > since + longest + longest / 100 + CLOCK_SKEW);
        let passed = |node: &NodeReport| {
            node.left
                || node.id == follower.parameters().id
                || nodes.get(&node.id).is_some_and(|it| it.1.is_some())
        };
        old && report.slots.len() as u64 == counter.number
            && report.slots.iter().all(|it| it.as_ref().is_some_and(passed))
    }

    fn receipt(&self, nodes: ReportedNodes) -> Result<Vec<NodeReceipt>, NotCertain> {
        let follower = self.follower.borrow();
        let (parameters, now, wall) =
            (follower.parameters(), self.environment.now(), self.environment.wall());
        let strange: Vec<_> = nodes
            .values()
            .filter(|(node, past)| {
                past.is_none() && !node.left && node.id != parameters.id && node.wall + ALIVE_WITHIN >= wall
            })
            .filter(|it| follower.differs(&it.0, now))
            .map(|it| it.0.name.clone())
            .collect();
        if !strange.is_empty() {
            return Err(NotCertain::OtherServers(strange));
        }
        let receipt = |(node, past): (NodeReport, Option<u64>)| {
            // This node has applied it before it was written.
            let after = if node.id == parameters.id { Some(0) } else { past };
            let how = match after {
                _ if node.left => NodeOutcome::Stopped,
                Some(_) => NodeOutcome::Applied,
                None => NodeOutcome::Silent,
            };
            NodeReceipt { id: node.id, name: node.name, outcome: how, after }
        };
        Ok(nodes.into_values().map(receipt).collect())
    }

    /// Starts another series of nodes where some of the old one have been silent for long. Living nodes take new numbers
    /// within a poll, and no purge waits for the others again.
    async fn drop_silent_nodes(&self, reports: &[ServerReport]) {
        let now = self.environment.wall();
        for it in reports {
            let Some(counter) = it.nodes else { continue };
            let vanished = |it: &Option<NodeReport>| {
                it.as_ref().is_none_or(|it| it.left || it.wall + u64::from(FORGET_NODE) / 2 < now)
            };
            if counter.number > MOST_NODES / 4 || it.slots.iter().any(vanished) {
                let longest = lease_of(counter.name).max(self.follower.borrow().parameters().lease);
                let new = new_generation(self.environment.random(), longest);
                // An unreachable server keeps the old series; the next purge tries again.
                let _ = self.servers[it.server].set(&self.keys.nodes(), &new.write(), 0).await;
            }
        }
    }
}

fn has_applied(node: &NodeReport, entry: &WrittenEntry) -> bool {
    node.followed.iter().any(|it| it.0 == entry.at.name && it.1 >= entry.at.number)
}

/// All of them at once, with results in their order.
pub(super) async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, done) in &mut running {
            if done.is_none() {
                match Pin::new(future).poll(context) {
                    Poll::Ready(it) => *done = Some(it),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|it| it.1).collect()
}
