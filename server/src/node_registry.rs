//! The nodes of the fleet, as this node reads their records in the memcached servers. Ages are of this node's monotonic clock,
//! from the times at which records changed: the clock of another node decides nothing, and one that is wrong is named.

use larder_purge_log::survey::{ServerSurvey, SurveyedNode};
use larder_wire::node_status::{NodeStatus, ReadStatus};
use larder_wire::purge_entry::NodeReport;
use std::collections::{BTreeMap, VecDeque};

/// Milliseconds between two readings, and between two statuses of a node.
pub const EACH: u64 = 2_000;

/// Milliseconds without a new record after which a node is silent.
pub const SILENT: u64 = 4 * EACH;

/// Milliseconds for which a silent node, or one that left, is listed.
const LISTED: u64 = 3_600_000;

/// The most nodes that are listed.
const MOST: usize = 256;

/// The difference of a node's clock that is named, seconds: a record may be one reading old.
pub const CLOCK_OFF: u64 = 10;

/// Entries of a log whose times are remembered.
const HEADS: usize = 64;

/// The status of a node, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there are as many as nodes")]
pub enum KnownStatus {
    /// The latest one.
    Known(NodeStatus),
    /// The node has not written one yet.
    Awaited,
    /// The node writes none: its version is older.
    OlderVersion,
    /// It has the format of a later version.
    LaterVersion,
    /// It is damaged, or another program wrote it.
    Damaged,
}

/// Whether a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has reported within [`SILENT`]: milliseconds since then.
    Live(u64),
    /// It was found at the first reading, and has not reported since: too early to tell.
    Found,
    /// It has not reported for this time; for longer, if `is_exact` is not set.
    Silent {
        /// Milliseconds.
        millis: u64,
        /// Whether it was seen to report before.
        is_exact: bool,
    },
    /// It has stopped, and said so: milliseconds since this was read.
    Left(u64),
    /// This node can read no server.
    Unknown,
}

/// The distance of a node to the end of a purge log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLag {
    /// Entries that it has not applied.
    pub entries: u64,
    /// Milliseconds since the first of them was read here; 0 without any.
    pub millis: u64,
}

/// A node at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Random, of its run.
    pub run: u64,
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub presence: Presence,
    /// Its status.
    pub status: KnownStatus,
    /// Its report in the purge logs.
    pub report: Option<NodeReport>,
    /// The time of its last new record that was read here, or of its first, Unix seconds by this node's clock.
    pub reported: u64,
    /// Seconds by which its clock is ahead of this node's, if it is [`CLOCK_OFF`] or more.
    pub clock_off: Option<i64>,
    /// By server: its distance to the end of the log; `None` where it follows none or the log was not read.
    pub lags: Vec<Option<LogLag>>,
}

/// The known nodes.
#[derive(Debug)]
pub struct NodeRegistry {
    nodes: Vec<KnownNode>,
    /// By server.
    heads: Vec<Option<LogHead>>,
    /// The last reading in which a server answered.
    read: Option<u64>,
    /// Whether all servers answered in the last reading: a node that appears then has just begun.
    was_whole: bool,
    /// Records in the last reading that are damaged or belong to no node.
    pub damaged: u64,
}

/// The end of a log.
#[derive(Debug)]
struct LogHead {
    name: u64,
    number: u64,
    /// Numbers, and when they were first read.
    seen: VecDeque<(u64, u64)>,
}

#[derive(Debug)]
struct KnownNode {
    run: u64,
    first: u64,
    /// When a new record of it was last read.
    heard: Option<u64>,
    /// The same, or when it was first read, Unix seconds.
    reported: u64,
    left: Option<u64>,
    report: Option<NodeReport>,
    status: Option<ReadStatus>,
    /// The number of the last valid status.
    number: u64,
    clock_off: Option<i64>,
}

/// The records of one node on all servers.
#[derive(Default)]
struct MergedNode {
    report: Option<NodeReport>,
    status: Option<ReadStatus>,
}

impl NodeRegistry {
    /// A registry without nodes, for this number of servers.
    #[must_use]
    pub fn new(servers: usize) -> Self {
        Self {
            nodes: Vec::new(),
            heads: (0..servers).map(|_| None).collect(),
            read: None,
            was_whole: false,
            damaged: 0,
        }
    }

    /// Takes over a reading of all servers, at `now` in monotonic milliseconds and `wall` in Unix seconds.
    pub fn take(&mut self, servers: &[Option<ServerSurvey>], now: u64, wall: u64) {
        let is_recent = self.read.is_some_and(|it| now.saturating_sub(it) <= 2 * EACH);
        let began = self.was_whole && is_recent;
        if servers.iter().any(Option::is_some) {
            self.read = Some(now);
        }
        self.was_whole = servers.iter().all(Option::is_some);
        for (head, it) in self.heads.iter_mut().zip(servers) {
            if let Some(new) = it.as_ref().and_then(|it| it.head) {
                let head = head.get_or_insert_with(|| LogHead::new(new.name));
                head.take(new.name, new.number, now);
            }
        }
        for (run, found) in self.merged(servers) {
            let at = self.nodes.iter().position(|it| it.run == run);
            match at {
                Some(at) => self.nodes[at].take(found, now, wall, is_recent),
                None => {
                    let mut new = KnownNode::new(run, now, began.then_some(now), wall);
                    new.take(found, now, wall, false);
                    self.nodes.push(new);
                }
            }
        }
        self.forget(now);
    }

    /// The records of each node, from all servers.
    fn merged(&mut self, servers: &[Option<ServerSurvey>]) -> BTreeMap<u64, MergedNode> {
        let mut all = BTreeMap::<u64, MergedNode>::new();
        self.damaged = 0;
        for SurveyedNode { report, status } in servers.iter().flatten().flat_map(|it| &it.nodes) {
            let of_status = match status {
                Some(ReadStatus::Status(it)) => Some(it.run),
                _ => None,
            };
            let Some(run) = report.as_ref().map(|it| it.id).or(of_status) else {
                self.damaged += 1;
                continue;
            };
            // A number belongs to one node.
            let status = match of_status {
                Some(other) if other != run => Some(ReadStatus::Damaged),
                _ => status.clone(),
            };
            self.damaged += u64::from(status == Some(ReadStatus::Damaged));
            all.entry(run).or_default().add(report.as_ref(), status);
        }
        all
    }

    /// Drops nodes that were silent for long, earlier runs of nodes that are there again, and the oldest of too many.
    fn forget(&mut self, now: u64) {
        let live: Vec<(u64, String)> = self
            .nodes
            .iter()
            .filter(|it| matches!(it.presence(now), Presence::Live(_)))
            .map(|it| (it.run, it.name().to_owned()))
            .collect();
        self.nodes.retain(|it| match it.presence(now) {
            Presence::Silent { millis, .. } | Presence::Left(millis) => {
                millis < LISTED && !live.iter().any(|(run, name)| *run != it.run && name == it.name())
            }
            Presence::Live(_) | Presence::Found | Presence::Unknown => true,
        });
        self.nodes.sort_by_key(|it| std::cmp::Reverse(it.heard.unwrap_or(it.first)));
        self.nodes.truncate(MOST);
    }

    /// Milliseconds since a server last answered; `None` before the first answer.
    #[must_use]
    pub fn age(&self, now: u64) -> Option<u64> {
        self.read.map(|it| now.saturating_sub(it))
    }

    /// The number of the last entry of the log of server `n`.
    #[must_use]
    pub fn head(&self, n: usize) -> Option<u64> {
        self.heads.get(n)?.as_ref().map(|it| it.number)
    }

    /// Milliseconds since the node of this run last reported, if it was seen to.
    #[must_use]
    pub fn silence(&self, run: u64, now: u64) -> Option<u64> {
        let heard = self.nodes.iter().find(|it| it.run == run)?.heard?;
        Some(now.saturating_sub(heard))
    }

    /// All nodes, by name.
    #[must_use]
    pub fn views(&self, now: u64) -> Vec<NodeView> {
        let reads = self.age(now).is_some_and(|it| it < SILENT);
        let view = |it| self.view(it, now, reads);
        let mut views: Vec<_> = self.nodes.iter().map(view).collect();
        views.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        views
    }

    fn view(&self, it: &KnownNode, now: u64, reads: bool) -> NodeView {
        let status = match &it.status {
            Some(ReadStatus::Status(it)) => KnownStatus::Known(it.clone()),
            Some(ReadStatus::OtherVersion) => KnownStatus::LaterVersion,
            Some(ReadStatus::Damaged) => KnownStatus::Damaged,
            None if now.saturating_sub(it.first) < SILENT => KnownStatus::Awaited,
            None => KnownStatus::OlderVersion,
        };
        let presence = match it.presence(now) {
            left @ Presence::Left(_) => left,
            _ if !reads => Presence::Unknown,
            other => other,
        };
        let lag = |head: &Option<LogHead>| {
            let head = head.as_ref()?;
            let followed = &it.report.as_ref()?.followed;
            let (_, entry) = followed.iter().find(|it| it.0 == head.name)?;
            Some(head.lag(*entry, now))
        };
        NodeView {
            run: it.run,
            name: it.name().to_owned(),
            presence,
            status,
            report: it.report.clone(),
            reported: it.reported,
            clock_off: it.clock_off.filter(|it| it.unsigned_abs() >= CLOCK_OFF),
            lags: self.heads.iter().map(lag).collect(),
        }
    }
}

impl LogHead {
    fn new(name: u64) -> Self {
        Self { name, number: 0, seen: VecDeque::new() }
    }

    fn take(&mut self, name: u64, number: u64, now: u64) {
        if self.name != name {
            *self = Self::new(name);
        }
        if number > self.number || self.seen.is_empty() {
            self.number = number;
            self.seen.push_back((number, now));
            if self.seen.len() > HEADS {
                self.seen.pop_front();
            }
        }
    }

    fn lag(&self, entry: u64, now: u64) -> LogLag {
        let entries = self.number.saturating_sub(entry);
        let since = self.seen.iter().find(|it| it.0 > entry).filter(|_| entries > 0);
        LogLag { entries, millis: since.map_or(0, |it| now.saturating_sub(it.1)) }
    }
}

impl MergedNode {
    /// Adds the records on one server. A server that could not be written to has older ones.
    fn add(&mut self, report: Option<&NodeReport>, status: Option<ReadStatus>) {
        if let Some(new) = report {
            let known = self.report.get_or_insert_with(|| new.clone());
            let left = known.left || new.left;
            let mut followed = std::mem::take(&mut known.followed);
            for (log, entry) in &new.followed {
                match followed.iter_mut().find(|it| it.0 == *log) {
                    Some(it) => it.1 = it.1.max(*entry),
                    None => followed.push((*log, *entry)),
                }
            }
            if new.wall > known.wall {
                *known = new.clone();
            }
            (known.left, known.followed) = (left, followed);
        }
        let number = |it: &Option<ReadStatus>| match it {
            Some(ReadStatus::Status(it)) => Some(it.number),
            _ => None,
        };
        if self.status.is_none() || number(&status) > number(&self.status) {
            self.status = status.or(self.status.take());
        }
    }
}

impl KnownNode {
    fn new(run: u64, first: u64, heard: Option<u64>, reported: u64) -> Self {
        let (left, report, status, number, clock_off) = Default::default();
        Self { run, first, heard, reported, left, report, status, number, clock_off }
    }

    fn name(&self) -> &str {
        match (&self.report, &self.status) {
            (Some(it), _) => &it.name,
            (None, Some(ReadStatus::Status(it))) => &it.name,
            _ => "",
        }
    }

    /// Takes over its records. If the reading before `is_recent`, records that have changed are not older than that.
    fn take(&mut self, found: MergedNode, now: u64, wall: u64, is_recent: bool) {
        let is_first = self.report.is_none() && self.status.is_none();
        let mut written = None;
        if let Some(ReadStatus::Status(new)) = &found.status
            && new.number > self.number
        {
            self.number = new.number;
            written = Some(new.wall);
        }
        if let Some(new) = &found.report
            && self.report.as_ref().is_some_and(|old| new.wall > old.wall || is_ahead(new, old))
        {
            written = written.or(Some(new.wall));
        }
        if let Some(theirs) = written.filter(|_| !is_first) {
            (self.heard, self.reported) = (Some(now), wall);
            if is_recent {
                let ahead = i128::from(theirs) - i128::from(wall);
                self.clock_off = Some(ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
            }
        }
        if found.report.as_ref().is_some_and(|it| it.left) {
            self.left.get_or_insert(now);
        }
        // Records expire with time; the facts about the node stay.
        self.report = found.report.or(self.report.take());
        self.status = found.status.or(self.status.take());
    }

    fn presence(&self, now: u64) -> Presence {
        let since = |at: u64| now.saturating_sub(at);
        match (self.left, self.heard) {
            (Some(left), _) => Presence::Left(since(left)),
            (None, Some(heard)) if since(heard) < SILENT => Presence::Live(since(heard)),
            (None, Some(heard)) => Presence::Silent { millis: since(heard), is_exact: true },
            (None, None) if since(self.first) < SILENT => Presence::Found,
            (None, None) => Presence::Silent { millis: since(self.first), is_exact: false },
        }
    }
}

/// Whether a report has applied an entry that another one has not.
fn is_ahead(new: &NodeReport, old: &NodeReport) -> bool {
    new.followed.iter().any(|it| old.followed.iter().any(|old| old.0 == it.0 && it.1 > old.1))
}

#[cfg(test)]
mod tests;
