//! The protocol against chance: nodes read, fill and purge while servers crash, forget, stop and are cut off, and
//! while nodes stop. No read may give what is older than a purge that was acknowledged before it began; and each part
//! of the protocol is needed: without it, the same test finds such a read.

use super::follower::{LogFollower, LogParameters, LogReply, PurgeLogSink, new_generation};
use super::model::{Link, Micros, Place, Sim};
use super::{FleetPurgeLog, LogEnvironment, LogKeys, LogServer};
use crate::{Position, Seq};
use larder_wire::purge_entry::{About, NodeReport as Told, Numbered, PurgeEffect, PurgeEntry};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Pages there are.
const PAGES: u64 = 4;

/// A part of the protocol that is left out, to show that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// One server is enough.
    WriteQuorum,
    /// A poll is good for ever.
    Lease,
    /// A gap is taken for no gap.
    Doubt,
    /// What comes from the fleet need know of no log.
    Floor,
    /// The clock is read before a node stops, and not again.
    FreshClock,
}

/// A node's copy of a page.
#[derive(Clone)]
struct Held {
    version: u64,
    epoch: Seq,
}

struct Rule {
    seq: Seq,
    /// `None` is every page.
    page: Option<u64>,
    /// `None` is about what this node holds only.
    positions: Option<Vec<Position>>,
}

/// A store that does what the log says, and no more.
struct Holding {
    place: Place,
    without: Without,
    pages: RefCell<HashMap<u64, Held>>,
    rules: RefCell<Vec<Rule>>,
    known: RefCell<Vec<Position>>,
    floor: RefCell<(Vec<Position>, usize, u64)>,
    /// A clock that is read now and then.
    clock: Cell<u64>,
}

impl Holding {
    fn new(place: Place, without: Without) -> Self {
        Self {
            place,
            without,
            pages: RefCell::default(),
            rules: RefCell::default(),
            known: RefCell::default(),
            floor: RefCell::default(),
            clock: Cell::default(),
        }
    }

    fn seq(&self) -> Seq {
        self.rules.borrow().len() as Seq
    }

    fn trusted(&self) -> bool {
        let now = if self.without == Without::FreshClock { self.clock.get() } else { self.place.now() };
        let until = self.floor.borrow().2;
        until > 0 && (now < until || self.without == Without::Lease)
    }

    fn own(&self, page: u64) -> Option<u64> {
        let pages = self.pages.borrow();
        let held = pages.get(&page)?;
        let rules = self.rules.borrow();
        let purged = rules.iter().any(|it| it.seq > held.epoch && it.page.is_none_or(|it| it == page));
        (self.trusted() && !purged).then_some(held.version)
    }

    /// What came from the fleet, if it may be used; it is held then.
    fn foreign(&self, page: u64, version: u64, known: &[Position]) -> Option<u64> {
        let knows = |at: &Position| known.iter().any(|it| it.log == at.log && it.entry >= at.entry);
        let (floor, need, _) = &*self.floor.borrow();
        if !self.trusted()
            || (floor.iter().filter(|it| knows(it)).count() < *need && self.without != Without::Floor)
        {
            return None;
        }
        let purged = self.rules.borrow().iter().any(|it| {
            it.page.is_none_or(|it| it == page)
                && it.positions.as_ref().is_some_and(|it| !it.iter().any(knows))
        });
        if purged {
            return None;
        }
        self.pages.borrow_mut().insert(page, Held { version, epoch: self.seq() });
        Some(version)
    }
}

impl PurgeLogSink for Rc<Holding> {
    fn purge(&self, entry: &PurgeEntry, at: &[Position]) -> Option<Seq> {
        let page = match &entry.about {
            About::Url(it) => Some(u64::from(it[0])),
            _ => None,
        };
        let seq = self.seq() + 1;
        self.rules.borrow_mut().push(Rule { seq, page, positions: Some(at.to_vec()) });
        Some(seq)
    }

    fn add_position(&self, seq: Seq, at: Position) {
        for rule in self.rules.borrow_mut().iter_mut().filter(|it| it.seq == seq) {
            rule.positions.get_or_insert_default().push(at);
        }
    }

    fn purge_lost(&self, _: Seq) {}

    fn log_lost(&self, _: u64) {}

    fn require_revalidation(&self) {
        if self.without != Without::Doubt {
            let seq = self.seq() + 1;
            self.rules.borrow_mut().push(Rule { seq, page: None, positions: None });
        }
    }

    fn set_positions(&self, positions: &[Position]) {
        *self.known.borrow_mut() = positions.to_vec();
    }

    fn follow(&self, floor: &[Position], need: usize, until: u64) {
        *self.floor.borrow_mut() = (floor.to_vec(), need, until);
    }
}

/// The system under test, and the facts known of it.
struct Field {
    sim: Rc<Sim>,
    without: Without,
    lease: u64,
    poll: u64,
    /// The origin's current answer.
    origin: RefCell<Vec<u64>>,
    /// The oldest version that may be given: on every node, and on one.
    acknowledged: RefCell<Vec<u64>>,
    here: RefCell<HashMap<(usize, u64), u64>>,
    nodes: RefCell<HashMap<usize, Rc<Node>>>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    reads: Cell<u64>,
    hits: Cell<u64>,
    foreign: Cell<u64>,
    purges: Cell<u64>,
    early: Cell<u64>,
    uncertain: Cell<u64>,
    older: Cell<u64>,
}

fn count(it: &Cell<u64>) {
    it.set(it.get() + 1);
}

struct Node {
    id: usize,
    holding: Rc<Holding>,
    log: Rc<FleetPurgeLog<Link, Place, Rc<Holding>>>,
}

impl Field {
    fn new(seed: u64, servers: usize, without: Without) -> Rc<Self> {
        let sim = Sim::new(seed, servers);
        let lease = 300 + sim.chance.below(3) * 200;
        let poll = 30 + sim.chance.below(70);
        Rc::new(Self {
            sim,
            without,
            lease,
            poll,
            origin: RefCell::new(vec![1; PAGES as usize]),
            acknowledged: RefCell::new(vec![0; PAGES as usize]),
            here: RefCell::default(),
            nodes: RefCell::default(),
            tally: Tally::default(),
        })
    }

    fn link(&self, node: usize, server: usize) -> Link {
        Link { sim: self.sim.clone(), node, server }
    }

    fn start(self: &Rc<Self>, id: usize) {
        let drift = self.sim.chance.below(6001) as i64 - 3000;
        let place = Place { sim: self.sim.clone(), drift };
        let holding = Rc::new(Holding::new(place.clone(), self.without));
        let servers: Vec<_> = (0..self.sim.servers.len()).map(|it| self.link(id, it)).collect();
        let mut parameters =
            LogParameters::new(servers.len(), self.lease, self.sim.chance.next(), "node".into());
        if self.without == Without::WriteQuorum {
            parameters.write_quorum = 1;
        }
        let log = FleetPurgeLog::new(servers, place, holding.clone(), LogKeys::new(b"x"), parameters, 0);
        let node = Rc::new(Node { id, holding, log: Rc::new(log) });
        self.nodes.borrow_mut().insert(id, node.clone());
        self.here.borrow_mut().retain(|it, _| it.0 != id);
        for server in 0..self.sim.servers.len() {
            let (log, poll) = (node.log.clone(), self.poll);
            self.sim.spawn(Some(id), async move { log.follow(server, poll, |_| {}).await });
        }
        let (field, holding) = (self.clone(), node.holding.clone());
        self.sim.spawn(Some(id), async move {
            loop {
                holding.clock.set(holding.place.now());
                field.sim.pause(20_000).await;
            }
        });
    }

    /// A client reads a page: the node does its part in a task of its own, as it may stand still.
    fn read(self: &Rc<Self>, id: usize, page: u64) {
        let node = self.nodes.borrow()[&id].clone();
        let here = self.here.borrow().get(&(id, page)).copied().unwrap_or(0);
        let least = self.acknowledged.borrow()[page as usize].max(here);
        let field = self.clone();
        self.sim.spawn(Some(id), async move {
            let version = field.answer(&node, page).await;
            count(&field.tally.reads);
            if version < least {
                count(&field.tally.older);
            }
        });
    }

    async fn answer(self: &Rc<Self>, node: &Rc<Node>, page: u64) -> u64 {
        if let Some(version) = node.holding.own(page) {
            count(&self.tally.hits);
            return version;
        }
        let server = page as usize % self.sim.servers.len();
        let link = self.link(node.id, server);
        if let Ok(Some(value)) = link.get(vec![b'p', page as u8]).await {
            let words: Vec<u64> =
                value.chunks(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect();
            let known: Vec<_> =
                words[1..].chunks(2).map(|it| Position { log: it[0], entry: it[1] }).collect();
            if let Some(version) = node.holding.foreign(page, words[0], &known) {
                count(&self.tally.foreign);
                return version;
            }
        }
        let (epoch, known) = (node.holding.seq(), node.holding.known.borrow().clone());
        let slow = if self.sim.chance.one_in(10) { 400_000 } else { 2_000 };
        self.sim.pause(self.sim.chance.below(slow)).await;
        let version = self.origin.borrow()[page as usize];
        self.sim.pause(self.sim.chance.below(slow)).await;
        node.holding.pages.borrow_mut().insert(page, Held { version, epoch });
        let words = [version].into_iter().chain(known.iter().flat_map(|it| [it.log, it.entry]));
        let value: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        self.sim.spawn(Some(node.id), async move {
            let _ = link.set(&[b'p', page as u8], &value, 0).await;
        });
        version
    }

    /// The origin changes, and whoever knows that purges.
    fn purge(self: &Rc<Self>, id: usize, page: u64, all: bool, wait: bool) {
        let node = self.nodes.borrow()[&id].clone();
        let versions: Vec<_> = {
            let mut origin = self.origin.borrow_mut();
            origin[page as usize] += 1;
            (0..PAGES).filter(|it| all || *it == page).map(|it| (it, origin[it as usize])).collect()
        };
        let about = if all { About::All } else { About::Url([page as u8].into()) };
        let field = self.clone();
        let entry =
            PurgeEntry { id: u128::from(self.sim.chance.next()), wall: 0, effect: PurgeEffect::Hard, about };
        self.sim.spawn(Some(id), async move {
            let begin = field.sim.now();
            let Ok(_) = node.log.purge(&entry, wait).await else { return count(&field.tally.uncertain) };
            count(&field.tally.purges);
            if wait && field.sim.now() < begin + field.lease * 1000 {
                count(&field.tally.early);
            }
            for (page, version) in versions {
                if wait {
                    let mut acknowledged = field.acknowledged.borrow_mut();
                    acknowledged[page as usize] = acknowledged[page as usize].max(version);
                }
                let mut here = field.here.borrow_mut();
                let it = here.entry((node.id, page)).or_default();
                *it = version.max(*it);
            }
        });
    }

    /// Something goes wrong, for a while.
    fn trouble(self: &Rc<Self>, nodes: usize, kinds: &[u64]) {
        let sim = &self.sim;
        let (server, node) =
            (sim.chance.below(sim.servers.len() as u64) as usize, sim.chance.below(nodes as u64) as usize);
        let while_ = 1000 * (20 + sim.chance.below(1500));
        let field = self.clone();
        match kinds[sim.chance.below(kinds.len() as u64) as usize] {
            0 => sim.crash(server),
            1 | 2 => {
                // What is evicted is anything: a head, the nodes' counter, a node, an entry, a page.
                let mut memory = sim.servers[server].borrow_mut();
                let mut keys: Vec<_> = memory.items.keys().cloned().collect();
                keys.sort();
                for _ in 0..sim.chance.below(keys.len() as u64 + 1) {
                    memory.items.remove(&keys[sim.chance.below(keys.len() as u64) as usize]);
                }
            }
            3 => {
                sim.servers[server].borrow_mut().stopped = true;
                sim.after(while_, move || field.sim.resume(server));
            }
            4 | 5 => {
                sim.cut.borrow_mut().push((node, server));
                sim.after(while_, move || field.sim.cut.borrow_mut().retain(|it| *it != (node, server)));
            }
            8 => {
                // A stranger writes over something of the log.
                let mut memory = sim.servers[server].borrow_mut();
                let mut keys: Vec<_> = memory.items.keys().filter(|it| it[0] == b'x').cloned().collect();
                keys.sort();
                if !keys.is_empty() {
                    let key = keys.swap_remove(sim.chance.below(keys.len() as u64) as usize);
                    let noise = [&b"lpe1"[..], b"12", b"lpn1", b"99999999999999999999", b"\0"];
                    memory.items.insert(key, noise[sim.chance.below(5) as usize].to_vec());
                }
            }
            6 => {
                sim.stop(node);
                sim.after(while_, move || field.sim.go_on(node));
            }
            _ => {
                sim.kill(node);
                self.start(node);
            }
        }
    }
}

/// Does something again and again, after irregular times.
fn every(field: &Rc<Field>, least: Micros, more: Micros, mut deed: impl FnMut(&Rc<Field>) + 'static) {
    let field = field.clone();
    let sim = field.sim.clone();
    sim.spawn(None, async move {
        loop {
            field.sim.pause(least + field.sim.chance.below(more)).await;
            deed(&field);
        }
    });
}

/// One run with its counts.
fn run(seed: u64, without: Without) -> Rc<Field> {
    let servers = [1, 2, 3, 3, 3, 4, 5][(seed % 7) as usize];
    let field = Field::new(seed, servers, without);
    let nodes = 2 + field.sim.chance.below(2) as usize;
    (0..nodes).for_each(|it| field.start(it));
    let (end, troubled) = (7_000_000, field.sim.chance.below(4));
    let any = move |field: &Rc<Field>| field.sim.chance.below(nodes as u64) as usize;
    // Where few read, what lies in the fleet lies there for longer.
    let rest = if seed % 3 == 0 { 250_000 } else { 8_000 };
    every(&field, 1_000, rest, move |it| it.read(any(it), it.sim.chance.below(PAGES)));
    every(&field, 20_000, 250_000, move |it| {
        let (all, wait) = (it.sim.chance.one_in(12), !it.sim.chance.one_in(4));
        it.purge(any(it), it.sim.chance.below(PAGES), all, wait);
    });
    // Everything, or forgetting alone: by servers, and by nodes that start again.
    let kinds: &[u64] = if seed % 6 == 0 { &[1, 7] } else { &[0, 1, 2, 3, 4, 5, 6, 7, 8] };
    if let Some(rest) = u64::checked_div(1_200_000, troubled) {
        every(&field, 50_000, rest, move |it| it.trouble(nodes, kinds));
    }
    field.sim.run(end);
    // The tasks hold what holds them.
    field.sim.end();
    field.nodes.take();
    field
}

fn schedules(default: u64) -> u64 {
    std::env::var("LARDER_SCHEDULES").ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

#[test]
fn no_read_is_older_than_a_purge_acknowledged_before_it_began() {
    let mut sums = [0; 6];
    for seed in 0..schedules(40) {
        let field = run(seed, Without::Nothing);
        let it = &field.tally;
        assert_eq!(0, it.older.get(), "seed {seed}");
        for (sum, it) in
            sums.iter_mut().zip([&it.reads, &it.hits, &it.foreign, &it.purges, &it.early, &it.uncertain])
        {
            *sum += it.get();
        }
    }
    let [reads, hits, foreign, purges, early, uncertain] = sums;
    println!(
        "{reads} reads, {hits} hits, {foreign} of the fleet; {purges} purges, {early} early, {uncertain} uncertain"
    );
    // A protocol that trusts nothing, or acknowledges nothing, would pass too.
    assert!(hits > reads / 4 && foreign > reads / 100, "what is held is used");
    assert!(purges > uncertain * 2 && early > purges / 10, "purges hold, and most need not wait for a lease");
}

#[test]
fn a_vanished_node_delays_purges_by_one_lease_and_is_removed() {
    let field = Field::new(1, 3, Without::Nothing);
    (0..2).for_each(|it| field.start(it));
    let sim = field.sim.clone();
    let pass = |seconds: u64| sim.run(sim.now() + seconds * 1_000_000);
    // Whether a purge is acknowledged before a lease has passed.
    let is_early = || {
        let (purges, early) = (field.tally.purges.get(), field.tally.early.get());
        field.purge(0, 0, false, true);
        pass(2);
        assert_eq!(purges + 1, field.tally.purges.get(), "it holds");
        field.tally.early.get() > early
    };
    pass(3);
    assert!(is_early(), "both tell that they are past it");
    sim.kill(1);
    assert!(!is_early(), "one tells nothing");
    pass(70);
    assert!(!is_early(), "nor after a minute; then the nodes are counted anew");
    pass(2);
    assert!(is_early(), "without it");
    sim.end();
    field.nodes.take();
}

#[test]
fn nodes_with_other_servers_are_noticed() {
    let node = |servers, logs: &[u64]| Told {
        id: 2,
        servers,
        wall: 0,
        left: false,
        name: "other".into(),
        followed: logs.iter().map(|it| (*it, 0)).collect(),
    };
    let mut follower = LogFollower::new(LogParameters::new(1, 1000, 1, "own".into()));
    let place = Place { sim: Sim::new(1, 1), drift: 0 };
    let holding = Rc::new(Holding::new(place, Without::Nothing));
    let (head, nodes) = (Numbered { name: 9, number: 0 }.write(), new_generation(1, 1000));
    follower.registered(0, nodes);
    let nodes = nodes.write();
    for sent in [10, 20] {
        let answer = LogReply { head: Some(&head), nodes: Some(&nodes), entries: Vec::new() };
        follower.answered(0, follower.query(0), sent, sent, &answer, &holding);
    }
    assert_eq!(1, follower.in_sync(30));
    assert!(!follower.differs(&node(1, &[9]), 30));
    assert!(follower.differs(&node(2, &[9]), 30), "it has one more");
    assert!(follower.differs(&node(1, &[8]), 30), "it has another");
    assert!(!follower.differs(&node(1, &[8]), 5000), "perhaps, but the server cannot be reached at present");
}

/// Some run of these finds an older read.
#[track_caller]
fn needed(without: Without, mut seeds: impl Iterator<Item = u64>) {
    let found = seeds.find(|it| run(*it, without).tally.older.get() > 0);
    assert!(found.is_some(), "no schedule found anything wrong {without:?}");
}

#[test]
fn the_write_quorum_is_needed() {
    needed(Without::WriteQuorum, 0..200);
}

#[test]
fn the_lease_is_needed() {
    needed(Without::Lease, 0..200);
}

#[test]
fn the_doubt_is_needed() {
    needed(Without::Doubt, 0..600);
}

#[test]
fn the_floor_is_needed() {
    // Nodes that start again, and servers that forget.
    needed(Without::Floor, (0..600).map(|it| 6 * it));
}

#[test]
fn a_clock_read_after_waking_is_needed() {
    needed(Without::FreshClock, 0..400);
}
