//! What a node knows of the purge logs, decided purely: what to ask a server, what its answer means, until when the
//! node may trust what it holds. Asking is in `run`, writing in `purger`; why it holds is docs/decisions/0081.
//!
//! Each server has a log of its own. One that is followed without a gap is *continuous*; one whose past is not known
//! (it forgot, or an entry is gone) is *settling*: it counts again once enough others were read after that, or once
//! everything held is doubted.

use crate::purges::{Position, Seq};
use larder_wire::purge_entry::{LARGEST_NAME, NodeReport, Numbered, PurgeEntry};
use std::collections::{HashMap, VecDeque};

/// For so long an entry may be missing that has its number already: whoever took the number has half of it to write
/// and to find it written, or does not count it. Part of the protocol: the same on every node.
pub const GAP_PATIENCE: u64 = 2000;

/// Entries that are asked for beyond the last one, where none is known to be there.
const LOOK_AHEAD: u64 = 4;

/// Entries of one question.
const BATCH: u64 = 64;

/// Entries of a log that is taken up in the middle which are read back.
const READ_BACK: u64 = 1024;

/// Whoever is further behind does not read all, but doubts.
const FAR_BEHIND: u64 = 4096;

/// Purges that are remembered, to be known again in other logs.
const REMEMBERED: usize = 4096;

/// Milliseconds between two signs of life where there is nothing new.
const BEAT_EACH: u64 = 1000;

/// What obeys the log: the store of this node.
pub trait Holder {
    /// In force when it returns; `None` if the entry is not understood. `at` is empty where it is in no log yet.
    fn purge(&self, entry: &PurgeEntry, at: &[Position]) -> Option<Seq>;
    /// The same purge stands here too.
    fn also_at(&self, seq: Seq, at: Position);
    /// What this node holds must be validated before it is used, all that was asked before now. What comes from
    /// elsewhere is judged by the floor.
    fn doubt(&self);
    /// This purge is in no server's log, and will not be.
    fn stands_nowhere(&self, seq: Seq);
    /// A server lost this log: nothing is expected to know it any more.
    fn abandon(&self, log: u64);
    /// What is asked of the origin from now on knows this, and nothing else.
    fn knows(&self, positions: &[Position]);
    /// Until then (monotonic milliseconds) the node may trust what it holds; and what comes from elsewhere if that
    /// knows at least `need` of these logs, each so far or further.
    fn follow(&self, floor: &[Position], need: usize, until: u64);
}

/// What a node is told of the protocol.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How many servers have a log.
    pub servers: usize,
    /// Milliseconds for which a poll is good.
    pub lease: u64,
    /// Random, of this run.
    pub id: u64,
    /// What people call this node.
    pub name: Box<str>,
    /// On so many servers a purge must stand.
    pub write_quorum: usize,
}

impl Terms {
    /// The terms of a node that has these servers; `lease` within [`LONGEST_LEASE`].
    #[must_use]
    pub fn new(servers: usize, lease: u64, id: u64, name: Box<str>) -> Self {
        Self { servers, lease: lease.min(LONGEST_LEASE), id, name, write_quorum: servers / 2 + 1 }
    }

    /// So many servers must be followed: one of them has every purge that stands on enough.
    #[must_use]
    pub fn read_quorum(&self) -> usize {
        self.servers - self.servers / 2
    }
}

/// What to ask a server: its two counters, and entries of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// The log that is followed; `None` where none is.
    pub log: Option<u64>,
    /// The first entry.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What it answered.
pub struct LogReply<'a> {
    /// The head of its log.
    pub head: Option<&'a [u8]>,
    /// The counter of its nodes.
    pub nodes: Option<&'a [u8]>,
    /// The entries that were asked for.
    pub entries: Vec<Option<&'a [u8]>>,
}

/// What has to be done at that server now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Todo {
    /// Its head is not there, or is none.
    pub head: Missing,
    /// Its counter of nodes is not there, or is none.
    pub nodes: Missing,
    /// This node has no number there.
    pub register: bool,
    /// There is more to read.
    pub again: bool,
}

/// Whether something that must stand in a server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It does.
    #[default]
    No,
    /// It does not: whoever adds it first is right.
    Absent,
    /// Something else stands there, and must be overwritten.
    Garbage,
}

/// What happened, for counters and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A server answered.
    Polled,
    /// A purge was applied that another node asked for.
    Applied,
    /// The past of this server's log is not known.
    Gap(usize),
    /// Everything held must be validated.
    Doubted,
    /// Nothing is trusted without validation.
    Lost,
    /// It is again.
    InSync,
}

/// What a node knows of the logs.
pub struct LogFollower {
    terms: Terms,
    servers: Vec<FollowedLog>,
    applied: HashMap<u128, Seq>,
    order: VecDeque<u128>,
    known: Vec<Position>,
    longest: u64,
    trust: u64,
    trusted: bool,
    /// What happened since it was last asked.
    pub events: Vec<LogEvent>,
}

#[derive(Default)]
struct FollowedLog {
    /// The log, and the last entry that was applied.
    at: Option<Position>,
    /// Everything after this entry was read.
    base: u64,
    /// The head as it was last read.
    head: u64,
    /// Up to here a missing entry is made up for already.
    made_up: u64,
    /// Its past is not known.
    settling: Option<Settling>,
    /// When the last poll was sent whose answer left nothing unread.
    complete: Option<u64>,
    /// Since when the next entry is missing.
    missing: Option<u64>,
    /// The series of its counter of nodes, and since when it is known.
    generation: Option<(u64, u64)>,
    /// This node's number there.
    slot: Option<Numbered>,
    /// When this node last told of itself, and what.
    beat: Option<(u64, Vec<(u64, u64)>)>,
}

#[derive(Clone, Copy)]
struct Settling {
    noticed: u64,
    /// Others that are read after this have whatever passed this node by here.
    after: u64,
}

impl Settling {
    /// Nothing that stands there is passed over: what passed this node by stood there once, and on others before.
    fn at(now: u64) -> Option<Self> {
        Some(Self { noticed: now, after: now })
    }

    /// What stands there is passed over, and may not yet stand on others.
    fn passing_over(now: u64) -> Option<Self> {
        Some(Self { noticed: now, after: now + GAP_PATIENCE })
    }
}

impl FollowedLog {
    fn until(&self, lease: u64) -> Option<u64> {
        let lease = lease.min(self.generation.map_or(0, |it| lease_of(it.0)));
        self.complete.filter(|_| self.settling.is_none()).map(|it| it + lease)
    }
}

impl LogFollower {
    /// A node that knows nothing yet, and trusts nothing.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let servers = (0..terms.servers).map(|_| FollowedLog::default()).collect();
        let (applied, order) = (HashMap::new(), VecDeque::new());
        Self {
            terms,
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

    /// What it was told.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// What to ask server `n`.
    #[must_use]
    pub fn ask(&self, n: usize) -> LogQuery {
        let it = &self.servers[n];
        let entry = it.at.map_or(0, |it| it.entry);
        let count = it.head.saturating_sub(entry).clamp(LOOK_AHEAD, BATCH);
        LogQuery { log: it.at.map(|it| it.log), first: entry + 1, count }
    }

    /// Server `n` answered `ask`, which was sent at `sent`.
    pub fn answered(
        &mut self,
        n: usize,
        ask: LogQuery,
        sent: u64,
        now: u64,
        answer: &LogReply<'_>,
        holder: &impl Holder,
    ) -> Todo {
        let mut todo = Todo::default();
        self.events.push(LogEvent::Polled);
        let registered = self.mind_nodes(n, answer.nodes, now, &mut todo);
        let Some(head) = answer.head.and_then(Numbered::read) else {
            todo.head = if answer.head.is_some() { Missing::Garbage } else { Missing::Absent };
            self.servers[n].complete = None;
            self.settle(now, holder);
            return todo;
        };
        self.take_up(n, head, now, holder);
        let it = &mut self.servers[n];
        it.head = head.number;
        let fits = ask.log == it.at.map(|it| it.log) && it.at.is_some_and(|it| it.entry + 1 == ask.first);
        if fits && self.read(n, head, now, &answer.entries, holder) {
            self.doubt(holder);
        }
        let it = &mut self.servers[n];
        let entry = it.at.map_or(0, |it| it.entry);
        if entry < head.number {
            // A missing entry is waited for at the usual pace.
            todo.again = it.missing.is_none();
        } else if registered {
            it.complete = Some(sent);
        }
        self.settle(now, holder);
        self.trust(now, holder);
        todo
    }

    /// Whether this node has its number in the series that stands there.
    fn mind_nodes(&mut self, n: usize, nodes: Option<&[u8]>, now: u64, todo: &mut Todo) -> bool {
        let it = &mut self.servers[n];
        let Some(counter) = nodes.and_then(Numbered::read) else {
            todo.nodes = if nodes.is_some() { Missing::Garbage } else { Missing::Absent };
            return false;
        };
        if it.generation.is_none_or(|it| it.0 != counter.name) {
            it.generation = Some((counter.name, now));
            self.longest = self.longest.max(lease_of(counter.name));
        }
        todo.register = it.slot.is_none_or(|it| it.name != counter.name);
        !todo.register
    }

    /// This node got a number at server `n`.
    pub fn registered(&mut self, n: usize, slot: Numbered) {
        self.servers[n].slot = Some(slot);
        self.servers[n].beat = None;
    }

    /// Notices another log, or one that went back, and takes it up as far back as it is read.
    fn take_up(&mut self, n: usize, head: Numbered, now: u64, holder: &impl Holder) {
        let it = &mut self.servers[n];
        let follows =
            |at: Position| at.log == head.name && (at.entry..=at.entry + FAR_BEHIND).contains(&head.number);
        if it.at.is_some_and(follows) {
            return;
        }
        // Whoever never followed anything here does not know what was there before; nor need it ask again for what is
        // missing already.
        let first = it.at.is_none();
        let start = head.number.saturating_sub(READ_BACK);
        if let Some(old) = it.at.filter(|it| it.log != head.name) {
            holder.abandon(old.log);
        }
        let whole = start == 0 && !first;
        it.at = Some(Position { log: head.name, entry: start });
        (it.base, it.missing, it.complete) = (start, None, None);
        it.made_up = if whole { 0 } else { head.number };
        it.settling = if whole { Settling::at(now) } else { Settling::passing_over(now) };
        if !first {
            self.events.push(LogEvent::Gap(n));
        }
    }

    /// Applies entries in their order; says whether one was not understood.
    fn read(
        &mut self,
        n: usize,
        head: Numbered,
        now: u64,
        entries: &[Option<&[u8]>],
        holder: &impl Holder,
    ) -> bool {
        let mut strange = false;
        for value in entries {
            let it = &mut self.servers[n];
            let Some(at) = it.at.filter(|it| it.entry < head.number) else { break };
            let next = Position { entry: at.entry + 1, ..at };
            let understood = match value.map(PurgeEntry::read) {
                None => {
                    if next.entry > it.made_up {
                        let since = *it.missing.get_or_insert(now);
                        if now.saturating_sub(since) < GAP_PATIENCE {
                            break;
                        }
                        it.settling = Settling::at(now);
                        self.events.push(LogEvent::Gap(n));
                    }
                    false
                }
                Some(entry) => {
                    let applied = entry.is_some_and(|entry| self.apply(&entry, next, holder));
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

    fn apply(&mut self, entry: &PurgeEntry, at: Position, holder: &impl Holder) -> bool {
        if let Some(seq) = self.applied.get(&entry.id) {
            holder.also_at(*seq, at);
            return true;
        }
        let Some(seq) = holder.purge(entry, &[at]) else { return false };
        self.remember(entry.id, seq);
        self.events.push(LogEvent::Applied);
        true
    }

    /// A purge that this node was asked for: in force here when this returns; `None` if it is not understood.
    pub fn apply_own(&mut self, entry: &PurgeEntry, holder: &impl Holder) -> Option<Seq> {
        let seq = holder.purge(entry, &[])?;
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

    /// Everything held is doubted: whatever is not known of any log up to here is made up for.
    fn doubt(&mut self, holder: &impl Holder) {
        holder.doubt();
        // Whoever never trusted anything loses nothing: that is how every start begins.
        if self.trust > 0 {
            self.events.push(LogEvent::Doubted);
        }
        for it in &mut self.servers {
            it.settling = None;
            it.made_up = it.head;
        }
    }

    /// Lets servers count again whose gap is made up for by others that were read since, or doubts if there are not
    /// enough of them.
    fn settle(&mut self, now: u64, holder: &impl Holder) {
        let (need, lease) = (self.terms.read_quorum(), self.terms.lease);
        // Who never trusted anything has nothing to lose.
        let patience = if self.trust > 0 && self.terms.servers > need { lease / 4 } else { 0 };
        for n in 0..self.servers.len() {
            let Some(settling) = self.servers[n].settling else { continue };
            let others = || self.servers.iter().enumerate().filter(|it| it.0 != n && it.1.settling.is_none());
            if others().filter(|it| it.1.complete.is_some_and(|sent| sent > settling.after)).count() >= need {
                self.servers[n].settling = None;
            } else if now.saturating_sub(settling.noticed) >= patience
                && others().filter(|it| it.1.until(lease).is_some_and(|it| it > now)).count() < need
            {
                return self.doubt(holder);
            }
        }
    }

    /// Tells the holder what it may trust, and what it knows.
    fn trust(&mut self, now: u64, holder: &impl Holder) {
        let known = self.known();
        if known != self.known {
            holder.knows(&known);
            self.known = known;
        }
        let lease = self.terms.lease;
        let mut followed: Vec<_> = self
            .servers
            .iter()
            .filter_map(|it| Some((it.until(lease)?, Position { entry: it.base, ..it.at? })))
            .filter(|it| it.0 > now)
            .collect();
        followed.sort_by_key(|it| std::cmp::Reverse(it.0));
        // A server that fell silent is left out early: the others alone carry the trust further.
        let recent = followed.iter().filter(|it| it.0 > now + lease / 2).count();
        followed.truncate(recent.max(self.terms.read_quorum()));
        if followed.len() >= self.terms.read_quorum()
            && let Some((until, _)) = followed.last().copied()
        {
            let floor: Vec<_> = followed.iter().map(|it| it.1).collect();
            holder.follow(&floor, self.terms.read_quorum(), until);
            self.trust = until;
        }
        self.look(now);
    }

    /// Notices that trust began or ended.
    pub fn look(&mut self, now: u64) {
        let trusted = self.trust > now;
        if trusted != self.trusted {
            self.trusted = trusted;
            self.events.push(if trusted { LogEvent::InSync } else { LogEvent::Lost });
        }
    }

    /// What it has applied, of logs whose past it knows.
    fn known(&self) -> Vec<Position> {
        self.servers.iter().filter(|it| it.settling.is_none()).filter_map(|it| it.at).collect()
    }

    /// What to tell of this node at server `n`, and under which number; `None` where nothing is due.
    pub fn beat(&mut self, n: usize, now: u64, wall: u64) -> Option<(Numbered, Vec<u8>)> {
        let followed: Vec<_> = self.known().iter().map(|it| (it.log, it.entry)).collect();
        let it = &mut self.servers[n];
        let slot = it.slot?;
        if it.beat.as_ref().is_some_and(|(at, what)| *what == followed && now < at + BEAT_EACH) {
            return None;
        }
        it.beat = Some((now, followed.clone()));
        Some((slot, self.node(wall, followed, false).write()))
    }

    /// The last that is told: this node answers nobody any more.
    #[must_use]
    pub fn farewell(&self, n: usize, wall: u64) -> Option<(Numbered, Vec<u8>)> {
        Some((self.servers[n].slot?, self.node(wall, Vec::new(), true).write()))
    }

    fn node(&self, wall: u64, followed: Vec<(u64, u64)>, left: bool) -> NodeReport {
        NodeReport {
            id: self.terms.id,
            servers: self.terms.servers as u64,
            wall,
            left,
            name: self.terms.name.clone(),
            followed,
        }
    }

    /// Telling it failed: it is told again.
    pub fn beat_failed(&mut self, n: usize) {
        self.servers[n].beat = None;
    }

    /// Since when the series of nodes at server `n` is known to be this one.
    #[must_use]
    pub fn generation_since(&self, n: usize, name: u64) -> Option<u64> {
        self.servers[n].generation.filter(|it| it.0 == name).map(|it| it.1)
    }

    /// The longest lease of any node that was ever heard of.
    #[must_use]
    pub fn longest_lease(&self) -> u64 {
        self.longest.max(self.terms.lease)
    }

    /// Until when this node trusts what it holds, in monotonic milliseconds.
    #[must_use]
    pub fn trust_ends(&self) -> u64 {
        self.trust
    }

    /// Whether a node that tells this follows other servers than this one, as far as can be seen: it names logs that
    /// none of these has.
    #[must_use]
    pub fn differs(&self, node: &NodeReport, now: u64) -> bool {
        let unknown = node
            .followed
            .iter()
            .filter(|it| !self.servers.iter().any(|own| own.at.is_some_and(|at| at.log == it.0)));
        // A server that this node does not reach may have begun another log.
        node.servers != self.terms.servers as u64 || unknown.count() > self.servers.len() - self.in_sync(now)
    }

    /// Whether this node has read an entry of server `n`.
    #[must_use]
    pub fn has_read(&self, n: usize, entry: Numbered) -> bool {
        let at = self.servers.get(n).and_then(|it| it.at);
        at.is_some_and(|it| it.log == entry.name && it.entry >= entry.number)
    }

    /// How many servers were followed to their end within the lease.
    #[must_use]
    pub fn in_sync(&self, now: u64) -> usize {
        self.servers.iter().filter(|it| it.until(self.terms.lease).is_some_and(|it| it > now)).count()
    }
}

/// Bits of a generation's name that hold its lease.
const LEASE_BITS: u32 = 13;

/// Milliseconds of one unit of them.
const LEASE_UNIT: u64 = 10;

/// The longest lease.
pub const LONGEST_LEASE: u64 = LEASE_UNIT * ((1 << LEASE_BITS) - 1);

/// A new series of nodes. Its name carries the lease that no node of it exceeds, so that whoever waits for silent ones
/// knows how long that may be, whatever the nodes are configured to.
#[must_use]
pub fn new_generation(random: u64, lease: u64) -> Numbered {
    let units = (lease / LEASE_UNIT).clamp(1, (1 << LEASE_BITS) - 1);
    let name = (random << LEASE_BITS | units) & LARGEST_NAME;
    Numbered { name, number: 0 }
}

/// Milliseconds that nodes of this series trust a poll at most.
#[must_use]
pub fn lease_of(generation: u64) -> u64 {
    (generation & ((1 << LEASE_BITS) - 1)) * LEASE_UNIT
}
