//! A node's knowledge of the purge logs, as pure decisions: the requests to a server, the meaning of its answers, and
//! until when the node may trust its responses. `run` asks, `purger` writes; docs/decisions/0081 has the proof.
//!
//! Each server has a log of its own. One that is followed without a gap is *continuous*; one with an unknown past (it
//! forgot, or an entry is gone) is *settling*. It counts again once enough other servers were read after that, or once
//! all held responses are to be validated.

use crate::{Position, Seq};
use larder_wire::purge_entry::{LARGEST_NAME, NodeReport, Numbered, PurgeEntry};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long an entry may be missing whose number is already taken. The writer has half of that time to write it and to
/// find it written, or does not count it. Part of the protocol: the same on every node.
pub const GAP_TIMEOUT: u64 = 2000;

/// Entries that are requested beyond the last known one.
const LOOK_AHEAD: u64 = 4;

/// Entries of one request.
const BATCH: u64 = 64;

/// Entries that are read back when a log is joined in the middle.
const READ_BACK: u64 = 1024;

/// A node further behind does not read everything, but validates everything.
const FAR_BEHIND: u64 = 4096;

/// The most purges that are remembered for recognising them in other logs.
const REMEMBERED: usize = 4096;

/// Milliseconds between two signs of life without news.
const HEARTBEAT_INTERVAL: u64 = 1000;

/// The part of this node that obeys the log: the store.
pub trait PurgeLogSink {
    /// In force when it returns; `None` if the entry is not understood. `at` is empty while it is in no log.
    fn purge(&self, entry: &PurgeEntry, at: &[Position]) -> Option<Seq>;
    /// The same purge is at this position, too.
    fn add_position(&self, seq: Seq, at: Position);
    /// Everything requested before now must be validated before use. The floor decides about responses from other nodes.
    fn require_revalidation(&self);
    /// This purge is in no server's log, and will not be.
    fn purge_lost(&self, seq: Seq);
    /// A server lost this log: no response is expected to know it any more.
    fn log_lost(&self, log: u64);
    /// Requests to the origin from now on know these positions and no others.
    fn set_positions(&self, positions: &[Position]);
    /// Until then (monotonic milliseconds) the node may trust its responses; and those from other nodes that know at
    /// least `need` of these logs up to these positions.
    fn follow(&self, floor: &[Position], need: usize, until: u64);
}

impl<T: PurgeLogSink> PurgeLogSink for Arc<T> {
    fn purge(&self, entry: &PurgeEntry, at: &[Position]) -> Option<Seq> {
        T::purge(self, entry, at)
    }

    fn add_position(&self, seq: Seq, at: Position) {
        T::add_position(self, seq, at);
    }

    fn require_revalidation(&self) {
        T::require_revalidation(self);
    }

    fn purge_lost(&self, seq: Seq) {
        T::purge_lost(self, seq);
    }

    fn log_lost(&self, log: u64) {
        T::log_lost(self, log);
    }

    fn set_positions(&self, positions: &[Position]) {
        T::set_positions(self, positions);
    }

    fn follow(&self, floor: &[Position], need: usize, until: u64) {
        T::follow(self, floor, need, until);
    }
}

/// A node's parameters of the protocol.
#[derive(Clone, Debug)]
pub struct LogParameters {
    /// The number of servers with a log.
    pub servers: usize,
    /// Milliseconds for which a poll is valid.
    pub lease: u64,
    /// Random, for this run.
    pub id: u64,
    /// The name of this node for operators.
    pub name: Box<str>,
    /// The number of servers on which a purge must be written.
    pub write_quorum: usize,
}

impl LogParameters {
    /// The terms of a node that has these servers; `lease` within [`LONGEST_LEASE`].
    #[must_use]
    pub fn new(servers: usize, lease: u64, id: u64, name: Box<str>) -> Self {
        Self { servers, lease: lease.min(LONGEST_LEASE), id, name, write_quorum: servers / 2 + 1 }
    }

    /// The number of servers that must be followed: at least one of them has every sufficiently written purge.
    #[must_use]
    pub fn read_quorum(&self) -> usize {
        self.servers - self.servers / 2
    }
}

/// A request to a server: its two counters, and entries of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// The log that is followed, if any.
    pub log: Option<u64>,
    /// The first entry.
    pub first: u64,
    /// Their number.
    pub count: u64,
}

/// The server's answer.
pub struct LogReply<'a> {
    /// The head of its log.
    pub head: Option<&'a [u8]>,
    /// The counter of its nodes.
    pub nodes: Option<&'a [u8]>,
    /// The requested entries.
    pub entries: Vec<Option<&'a [u8]>>,
}

/// Actions that are due at that server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DueActions {
    /// The state of its head.
    pub head: Missing,
    /// The state of its counter of nodes.
    pub nodes: Missing,
    /// This node has no number there.
    pub register: bool,
    /// There is more to read.
    pub again: bool,
}

/// Whether required data is on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is there.
    #[default]
    No,
    /// It is absent: the first node to add it decides its value.
    Absent,
    /// It has other data, which must be overwritten.
    Garbage,
}

/// An event, for counters and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A server answered.
    Polled,
    /// Another node's purge was applied.
    Applied,
    /// The past of this server's log is unknown.
    Gap(usize),
    /// All held responses must be validated.
    RevalidateAll,
    /// Nothing is trusted without validation.
    Lost,
    /// Trust is restored.
    InSync,
}

/// A node's knowledge of the logs.
pub struct LogFollower {
    parameters: LogParameters,
    servers: Vec<FollowedLog>,
    applied: HashMap<u128, Seq>,
    order: VecDeque<u128>,
    known: Vec<Position>,
    longest: u64,
    trust: u64,
    trusted: bool,
    /// Events since the last call.
    pub events: Vec<LogEvent>,
}

#[derive(Default)]
struct FollowedLog {
    /// The log, and the last entry that was applied.
    at: Option<Position>,
    /// Everything after this entry was read.
    base: u64,
    /// The last head read.
    head: u64,
    /// Missing entries up to here are already compensated.
    compensated: u64,
    /// Its past is unknown.
    settling: Option<Settling>,
    /// The time at which the last poll was sent whose answer left nothing unread.
    complete: Option<u64>,
    /// The time since which the next entry is missing.
    missing: Option<u64>,
    /// The series of its counter of nodes, and the time since which it is known.
    generation: Option<(u64, u64)>,
    /// This node's number there.
    slot: Option<Numbered>,
    /// The time and content of this node's last sign of life.
    heartbeat: Option<(u64, Vec<(u64, u64)>)>,
}

#[derive(Clone, Copy)]
struct Settling {
    noticed: u64,
    /// Servers that are read after this have every purge that this node missed here.
    after: u64,
}

impl Settling {
    /// No present entry is skipped: every missed purge was here once, and was written to other servers before.
    fn at(now: u64) -> Option<Self> {
        Some(Self { noticed: now, after: now })
    }

    /// Present entries are skipped, and may not be on other servers yet.
    fn skip_present(now: u64) -> Option<Self> {
        Some(Self { noticed: now, after: now + GAP_TIMEOUT })
    }
}

impl FollowedLog {
    fn until(&self, lease: u64) -> Option<u64> {
        let lease = lease.min(self.generation.map_or(0, |it| lease_of(it.0)));
        self.complete.filter(|_| self.settling.is_none()).map(|it| it + lease)
    }
}

impl LogFollower {
    /// A node without knowledge, which trusts nothing.
    #[must_use]
    pub fn new(parameters: LogParameters) -> Self {
        let servers = (0..parameters.servers).map(|_| FollowedLog::default()).collect();
        let (applied, order) = (HashMap::new(), VecDeque::new());
        Self {
            parameters,
            servers,
            applied,
            order,
            known: Vec::new(),
            longest: 0,
            trust: 0,
            trusted: false,
            events: Vec::new(),
        }
    }

    /// The parameters.
    #[must_use]
    pub fn parameters(&self) -> &LogParameters {
        &self.parameters
    }

    /// The request for server `n`.
    #[must_use]
    pub fn query(&self, n: usize) -> LogQuery {
        let it = &self.servers[n];
        let entry = it.at.map_or(0, |it| it.entry);
        let count = it.head.saturating_sub(entry).clamp(LOOK_AHEAD, BATCH);
        LogQuery { log: it.at.map(|it| it.log), first: entry + 1, count }
    }

    /// Server `n` answered `query`, which was sent at `sent`.
    pub fn answered(
        &mut self,
        n: usize,
        query: LogQuery,
        sent: u64,
        now: u64,
        answer: &LogReply<'_>,
        sink: &impl PurgeLogSink,
    ) -> DueActions {
        let mut actions = DueActions::default();
        self.events.push(LogEvent::Polled);
        let registered = self.check_registration(n, answer.nodes, now, &mut actions);
        let Some(head) = answer.head.and_then(Numbered::read) else {
            actions.head = if answer.head.is_some() { Missing::Garbage } else { Missing::Absent };
            self.servers[n].complete = None;
            self.settle(now, sink);
            return actions;
        };
        self.detect_log(n, head, now, sink);
        let it = &mut self.servers[n];
        it.head = head.number;
        let fits = query.log == it.at.map(|it| it.log) && it.at.is_some_and(|it| it.entry + 1 == query.first);
        if fits && self.read(n, head, now, &answer.entries, sink) {
            self.require_revalidation(sink);
        }
        let it = &mut self.servers[n];
        let entry = it.at.map_or(0, |it| it.entry);
        if entry < head.number {
            // A missing entry is awaited at the usual interval.
            actions.again = it.missing.is_none();
        } else if registered {
            it.complete = Some(sent);
        }
        self.settle(now, sink);
        self.trust(now, sink);
        actions
    }

    /// Whether this node has a number in the present series.
    fn check_registration(
        &mut self,
        n: usize,
        nodes: Option<&[u8]>,
        now: u64,
        actions: &mut DueActions,
    ) -> bool {
        let it = &mut self.servers[n];
        let Some(counter) = nodes.and_then(Numbered::read) else {
            actions.nodes = if nodes.is_some() { Missing::Garbage } else { Missing::Absent };
            return false;
        };
        if it.generation.is_none_or(|it| it.0 != counter.name) {
            it.generation = Some((counter.name, now));
            self.longest = self.longest.max(lease_of(counter.name));
        }
        actions.register = it.slot.is_none_or(|it| it.name != counter.name);
        !actions.register
    }

    /// This node got a number at server `n`.
    pub fn registered(&mut self, n: usize, slot: Numbered) {
        self.servers[n].slot = Some(slot);
        self.servers[n].heartbeat = None;
    }

    /// Detects another log, or one that went back, and joins it as far back as it is read.
    fn detect_log(&mut self, n: usize, head: Numbered, now: u64, sink: &impl PurgeLogSink) {
        let it = &mut self.servers[n];
        let follows =
            |at: Position| at.log == head.name && (at.entry..=at.entry + FAR_BEHIND).contains(&head.number);
        if it.at.is_some_and(follows) {
            return;
        }
        // A node that never followed this server does not know its past; nor does it have to ask again for entries that
        // are missing already.
        let first = it.at.is_none();
        let start = head.number.saturating_sub(READ_BACK);
        if let Some(old) = it.at.filter(|it| it.log != head.name) {
            sink.log_lost(old.log);
        }
        let whole = start == 0 && !first;
        it.at = Some(Position { log: head.name, entry: start });
        (it.base, it.missing, it.complete) = (start, None, None);
        it.compensated = if whole { 0 } else { head.number };
        it.settling = if whole { Settling::at(now) } else { Settling::skip_present(now) };
        if !first {
            self.events.push(LogEvent::Gap(n));
        }
    }

    /// Applies entries in order; returns whether one was not understood.
    fn read(
        &mut self,
        n: usize,
        head: Numbered,
        now: u64,
        entries: &[Option<&[u8]>],
        sink: &impl PurgeLogSink,
    ) -> bool {
        let mut strange = false;
        for value in entries {
            let it = &mut self.servers[n];
            let Some(at) = it.at.filter(|it| it.entry < head.number) else { break };
            let next = Position { entry: at.entry + 1, ..at };
            let understood = match value.map(PurgeEntry::read) {
                None => {
                    if next.entry > it.compensated {
                        let since = *it.missing.get_or_insert(now);
                        if now.saturating_sub(since) < GAP_TIMEOUT {
                            break;
                        }
                        it.settling = Settling::at(now);
                        self.events.push(LogEvent::Gap(n));
                    }
                    false
                }
                Some(entry) => {
                    let applied = entry.is_some_and(|entry| self.apply(&entry, next, sink));
                    if !applied {
                        strange = true;
                        self.events.push(LogEvent::Gap(n));
                    }
                    applied
                }
            };
            let it = &mut self.servers[n];
            it.missing = None;
            it.at = Some(next);
            if !understood {
                it.base = next.entry;
            }
        }
        strange
    }

    fn apply(&mut self, entry: &PurgeEntry, at: Position, sink: &impl PurgeLogSink) -> bool {
        if let Some(seq) = self.applied.get(&entry.id) {
            sink.add_position(*seq, at);
            return true;
        }
        let Some(seq) = sink.purge(entry, &[at]) else { return false };
        self.remember(entry.id, seq);
        self.events.push(LogEvent::Applied);
        true
    }

    /// A purge requested at this node: in force here when this returns; `None` if it is not understood.
    pub fn apply_own(&mut self, entry: &PurgeEntry, sink: &impl PurgeLogSink) -> Option<Seq> {
        let seq = sink.purge(entry, &[])?;
        self.remember(entry.id, seq);
        Some(seq)
    }

    fn remember(&mut self, id: u128, seq: Seq) {
        self.applied.insert(id, seq);
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.applied.remove(&oldest);
        }
    }

    /// Has all held responses validated: that compensates for everything unknown in any log up to here.
    fn require_revalidation(&mut self, sink: &impl PurgeLogSink) {
        sink.require_revalidation();
        // A node that never trusted anything loses nothing: every start begins so.
        if self.trust > 0 {
            self.events.push(LogEvent::RevalidateAll);
        }
        for it in &mut self.servers {
            it.settling = None;
            it.compensated = it.head;
        }
    }

    /// Lets servers count again whose gap is compensated by others read since; validates everything if there are not enough of them.
    fn settle(&mut self, now: u64, sink: &impl PurgeLogSink) {
        let (need, lease) = (self.parameters.read_quorum(), self.parameters.lease);
        // A node that never trusted anything has nothing to lose.
        let grace = if self.trust > 0 && self.parameters.servers > need { lease / 4 } else { 0 };
        for n in 0..self.servers.len() {
            let Some(settling) = self.servers[n].settling else { continue };
            let others = || self.servers.iter().enumerate().filter(|it| it.0 != n && it.1.settling.is_none());
            if others().filter(|it| it.1.complete.is_some_and(|sent| sent > settling.after)).count() >= need {
                self.servers[n].settling = None;
            } else if now.saturating_sub(settling.noticed) >= grace
                && others().filter(|it| it.1.until(lease).is_some_and(|it| it > now)).count() < need
            {
                return self.require_revalidation(sink);
            }
        }
    }

    /// Tells the holder what it may trust and what it knows.
    fn trust(&mut self, now: u64, sink: &impl PurgeLogSink) {
        let known = self.known();
        if known != self.known {
            sink.set_positions(&known);
            self.known = known;
        }
        let lease = self.parameters.lease;
        let mut followed: Vec<_> = self
            .servers
            .iter()
            .filter_map(|it| Some((it.until(lease)?, Position { entry: it.base, ..it.at? })))
            .filter(|it| it.0 > now)
            .collect();
        followed.sort_by_key(|it| std::cmp::Reverse(it.0));
        // A server that fell silent is excluded early: the others alone extend the trust.
        let recent = followed.iter().filter(|it| it.0 > now + lease / 2).count();
        followed.truncate(recent.max(self.parameters.read_quorum()));
        if followed.len() >= self.parameters.read_quorum()
            && let Some((until, _)) = followed.last().copied()
        {
            let floor: Vec<_> = followed.iter().map(|it| it.1).collect();
            sink.follow(&floor, self.parameters.read_quorum(), until);
            self.trust = until;
        }
        self.update_trust(now);
    }

    /// Notices that trust began or ended.
    pub fn update_trust(&mut self, now: u64) {
        let trusted = self.trust > now;
        if trusted != self.trusted {
            self.trusted = trusted;
            self.events.push(if trusted { LogEvent::InSync } else { LogEvent::Lost });
        }
    }

    /// The applied positions, in logs whose past is known.
    fn known(&self) -> Vec<Position> {
        self.servers.iter().filter(|it| it.settling.is_none()).filter_map(|it| it.at).collect()
    }

    /// The sign of life that is due at server `n`, and its number; `None` where none is due.
    pub fn heartbeat(&mut self, n: usize, now: u64, wall: u64) -> Option<(Numbered, Vec<u8>)> {
        let followed: Vec<_> = self.known().iter().map(|it| (it.log, it.entry)).collect();
        let it = &mut self.servers[n];
        let slot = it.slot?;
        if it.heartbeat.as_ref().is_some_and(|(at, what)| *what == followed && now < at + HEARTBEAT_INTERVAL)
        {
            return None;
        }
        it.heartbeat = Some((now, followed.clone()));
        Some((slot, self.node(wall, followed, false).write()))
    }

    /// The last sign of life: this node answers no more requests.
    #[must_use]
    pub fn last_heartbeat(&self, n: usize, wall: u64) -> Option<(Numbered, Vec<u8>)> {
        Some((self.servers[n].slot?, self.node(wall, Vec::new(), true).write()))
    }

    fn node(&self, wall: u64, followed: Vec<(u64, u64)>, left: bool) -> NodeReport {
        NodeReport {
            id: self.parameters.id,
            servers: self.parameters.servers as u64,
            wall,
            left,
            name: self.parameters.name.clone(),
            followed,
        }
    }

    /// Sending the sign failed: it is sent again.
    pub fn heartbeat_failed(&mut self, n: usize) {
        self.servers[n].heartbeat = None;
    }

    /// The time since which server `n` has had this series of nodes.
    #[must_use]
    pub fn generation_since(&self, n: usize, name: u64) -> Option<u64> {
        self.servers[n].generation.filter(|it| it.0 == name).map(|it| it.1)
    }

    /// The longest lease of any node known so far.
    #[must_use]
    pub fn longest_lease(&self) -> u64 {
        self.longest.max(self.parameters.lease)
    }

    /// The name of the log of server `n`, as last read.
    #[must_use]
    pub fn log(&self, n: usize) -> Option<u64> {
        self.servers.get(n)?.at.map(|it| it.log)
    }

    /// The number of this node at server `n`.
    #[must_use]
    pub fn slot(&self, n: usize) -> Option<Numbered> {
        self.servers.get(n)?.slot
    }

    /// Whether the log of server `n` was read to its end within the lease.
    #[must_use]
    pub fn is_followed(&self, n: usize, now: u64) -> bool {
        self.servers.get(n).is_some_and(|it| it.until(self.parameters.lease).is_some_and(|it| it > now))
    }

    /// Until when this node trusts its responses, in monotonic milliseconds.
    #[must_use]
    pub fn trust_ends(&self) -> u64 {
        self.trust
    }

    /// Whether a node with this report follows other servers than this one, as far as can be seen: it names logs that
    /// none of these has.
    #[must_use]
    pub fn differs(&self, node: &NodeReport, now: u64) -> bool {
        let unknown = node
            .followed
            .iter()
            .filter(|it| !self.servers.iter().any(|own| own.at.is_some_and(|at| at.log == it.0)));
        // A server that this node cannot reach may have started another log.
        node.servers != self.parameters.servers as u64
            || unknown.count() > self.servers.len() - self.in_sync(now)
    }

    /// Whether this node has read an entry of server `n`.
    #[must_use]
    pub fn has_read(&self, n: usize, entry: Numbered) -> bool {
        let at = self.servers.get(n).and_then(|it| it.at);
        at.is_some_and(|it| it.log == entry.name && it.entry >= entry.number)
    }

    /// The number of servers whose log was read to its end within the lease.
    #[must_use]
    pub fn in_sync(&self, now: u64) -> usize {
        (0..self.servers.len()).filter(|it| self.is_followed(*it, now)).count()
    }
}

/// Bits of a series' name that hold its lease.
const LEASE_BITS: u32 = 13;

/// Milliseconds of one unit of them.
const LEASE_UNIT: u64 = 10;

/// The longest lease.
pub const LONGEST_LEASE: u64 = LEASE_UNIT * ((1 << LEASE_BITS) - 1);

/// A new series of nodes. Its name contains the lease that no node of it exceeds, so that waiting for silent nodes has a
/// known bound with any configuration.
#[must_use]
pub fn new_generation(random: u64, lease: u64) -> Numbered {
    let units = (lease / LEASE_UNIT).clamp(1, (1 << LEASE_BITS) - 1);
    let name = (random << LEASE_BITS | units) & LARGEST_NAME;
    Numbered { name, number: 0 }
}

/// The most milliseconds for which nodes of this series trust a poll.
#[must_use]
pub fn lease_of(generation: u64) -> u64 {
    (generation & ((1 << LEASE_BITS) - 1)) * LEASE_UNIT
}
