//! A small world for the log, with a virtual clock and all chance from one seed: servers that stop, crash, forget and
//! cannot be reached, nodes that stop, messages that are late or lost. Tasks run one at a time, so a seed always
//! gives the same run.

use super::{LogEnvironment, LogServer, Unavailable};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Microseconds of virtual time.
pub type Micros = u64;

/// How long a node waits for a server.
const TIMEOUT: Micros = 50_000;

/// Chance, from a seed (splitmix64).
pub struct Chance(Cell<u64>);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut it = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ it >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ it >> 31
    }

    pub fn below(&self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

enum Due {
    /// Somebody's task goes on.
    Task(usize),
    /// Something happens in the world.
    Deed(Box<dyn FnOnce()>),
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    /// Whose it is; stopped nodes do nothing.
    node: Option<usize>,
}

/// The world's inside.
pub struct Sim {
    pub chance: Chance,
    now: Cell<Micros>,
    count: Cell<u64>,
    due: RefCell<BTreeMap<(Micros, u64), Due>>,
    tasks: RefCell<HashMap<usize, Option<Task>>>,
    current: Cell<usize>,
    /// Nodes that stand still, and their tasks that were due meanwhile.
    stopped: RefCell<HashMap<usize, Vec<usize>>>,
    pub servers: Vec<RefCell<Memory>>,
    /// Which node cannot reach which server.
    pub cut: RefCell<Vec<(usize, usize)>>,
}

/// One memcached.
#[derive(Default)]
pub struct Memory {
    pub items: HashMap<Vec<u8>, Vec<u8>>,
    /// It is stopped: arriving messages are processed when it continues.
    pub stopped: bool,
    waiting: Vec<Box<dyn FnOnce()>>,
    /// The number of its starts: messages to an earlier one are lost.
    pub life: u64,
}

impl Sim {
    pub fn new(seed: u64, servers: usize) -> Rc<Self> {
        Rc::new(Self {
            chance: Chance::new(seed),
            now: Cell::new(1_000_000),
            count: Cell::new(0),
            due: RefCell::default(),
            tasks: RefCell::default(),
            current: Cell::new(0),
            stopped: RefCell::default(),
            servers: (0..servers).map(|_| RefCell::default()).collect(),
            cut: RefCell::default(),
        })
    }

    pub fn now(&self) -> Micros {
        self.now.get()
    }

    fn put(&self, at: Micros, due: Due) {
        // What is due at one time comes in any order.
        let tie = self.chance.next() >> 20 << 20 | self.count.replace(self.count.get() + 1) & 0xf_ffff;
        self.due.borrow_mut().insert((at.max(self.now()), tie), due);
    }

    /// Does something after a while, whoever stands still.
    pub fn after(&self, micros: Micros, deed: impl FnOnce() + 'static) {
        self.put(self.now() + micros, Due::Deed(Box::new(deed)));
    }

    pub fn spawn(&self, node: Option<usize>, future: impl Future<Output = ()> + 'static) {
        let id = self.count.replace(self.count.get() + 1) as usize;
        self.tasks.borrow_mut().insert(id, Some(Task { future: Box::pin(future), node }));
        self.put(self.now(), Due::Task(id));
    }

    /// Ends everything a node does.
    pub fn kill(&self, node: usize) {
        let gone: Vec<_> = {
            let mut tasks = self.tasks.borrow_mut();
            let ids: Vec<_> = tasks
                .iter()
                .filter(|it| it.1.as_ref().is_some_and(|it| it.node == Some(node)))
                .map(|it| *it.0)
                .collect();
            ids.into_iter().map(|it| tasks.remove(&it)).collect()
        };
        drop(gone);
        self.stopped.borrow_mut().remove(&node);
    }

    /// The world ends, and lets go of all that held it.
    pub fn end(&self) {
        let gone = (self.tasks.take(), self.due.take());
        drop(gone);
    }

    pub fn stop(&self, node: usize) {
        self.stopped.borrow_mut().entry(node).or_default();
    }

    pub fn go_on(&self, node: usize) {
        for id in self.stopped.borrow_mut().remove(&node).unwrap_or_default() {
            self.put(self.now(), Due::Task(id));
        }
    }

    /// Runs until `end`.
    pub fn run(&self, end: Micros) {
        loop {
            let mut all = self.due.borrow_mut();
            let Some(first) = all.first_entry().filter(|it| it.key().0 <= end) else { break };
            let ((at, _), due) = first.remove_entry();
            drop(all);
            self.now.set(at);
            match due {
                Due::Deed(deed) => deed(),
                Due::Task(id) => self.poll(id),
            }
        }
        self.now.set(end);
    }

    fn poll(&self, id: usize) {
        let Some(mut task) = self.tasks.borrow_mut().get_mut(&id).and_then(Option::take) else { return };
        if let Some(waiting) =
            task.node.and_then(|it| self.stopped.borrow_mut().get_mut(&it).map(|it| it.push(id)))
        {
            self.tasks.borrow_mut().insert(id, Some(task));
            return waiting;
        }
        self.current.set(id);
        let done = task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let mut tasks = self.tasks.borrow_mut();
        if done {
            tasks.remove(&id);
        } else if let Some(place) = tasks.get_mut(&id) {
            *place = Some(task);
        }
    }

    /// Waits until `at`.
    pub async fn until(&self, at: Micros) {
        self.put(at, Due::Task(self.current.get()));
        std::future::poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    pub async fn pause(&self, micros: Micros) {
        self.until(self.now() + micros).await;
    }

    /// Mostly short, sometimes long.
    fn latency(&self) -> Micros {
        let most = if self.chance.one_in(40) { 60_000 } else { 900 };
        50 + self.chance.below(most)
    }

    fn reaches(&self, node: usize, server: usize) -> bool {
        !self.cut.borrow().contains(&(node, server))
    }

    /// Arrives at a server: done now, or when it goes on, or never.
    fn arrive(&self, server: usize, life: u64, deed: Box<dyn FnOnce()>) {
        let mut memory = self.servers[server].borrow_mut();
        if memory.life != life {
            return;
        }
        if memory.stopped {
            memory.waiting.push(deed);
        } else {
            drop(memory);
            deed();
        }
    }

    /// A server goes on, and does what had arrived.
    pub fn resume(&self, server: usize) {
        let waiting = {
            let mut memory = self.servers[server].borrow_mut();
            memory.stopped = false;
            std::mem::take(&mut memory.waiting)
        };
        waiting.into_iter().for_each(|it| it());
    }

    /// A server crashes and is there again at once, empty.
    pub fn crash(&self, server: usize) {
        let mut memory = self.servers[server].borrow_mut();
        *memory = Memory { life: memory.life + 1, ..Memory::default() };
    }
}

/// A server, as one node sees it.
#[derive(Clone)]
pub struct Link {
    pub sim: Rc<Sim>,
    pub node: usize,
    pub server: usize,
}

impl Link {
    /// Sends something that is done on arrival, and waits for the answer. It may be done though no answer comes.
    async fn call<T: 'static>(
        &self,
        deed: impl FnOnce(&mut Memory) -> T + 'static,
    ) -> Result<T, Unavailable> {
        let sim = &self.sim;
        let (end, answer) = (sim.now() + TIMEOUT, Rc::new(Cell::new(None)));
        let (there, back) = (sim.latency(), sim.latency());
        let life = sim.servers[self.server].borrow().life;
        // What goes through the network now may be lost later: asked again on the way back.
        if sim.reaches(self.node, self.server) {
            let (link, answer) = (self.clone(), answer.clone());
            sim.after(there, move || {
                let inner = link.clone();
                let deed = Box::new(move || {
                    let it = deed(&mut inner.sim.servers[inner.server].borrow_mut());
                    if inner.sim.reaches(inner.node, inner.server) {
                        answer.set(Some((inner.sim.now() + back, it)));
                    }
                });
                link.sim.arrive(link.server, life, deed);
            });
        }
        loop {
            match answer.take() {
                Some((at, it)) if at <= end => {
                    sim.until(at).await;
                    return Ok(it);
                }
                Some(_) => {
                    sim.until(end).await;
                    return Err(Unavailable);
                }
                None if sim.now() >= end => return Err(Unavailable),
                None => sim.until((sim.now() + there.min(2000)).min(end)).await,
            }
        }
    }

    pub async fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, Unavailable> {
        self.call(move |it| it.items.get(&key).cloned()).await
    }
}

impl LogServer for Link {
    async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Unavailable> {
        // Mostly at once; else in two parts, between which others are served.
        let keys = keys.to_vec();
        if !self.sim.chance.one_in(4) {
            return self.call(move |it| keys.iter().map(|key| it.items.get(key).cloned()).collect()).await;
        }
        let (first, rest) = (keys[0].clone(), keys[1..].to_vec());
        let mut values = vec![self.call(move |it| it.items.get(&first).cloned()).await?];
        values.extend(
            self.call(move |it| rest.iter().map(|key| it.items.get(key).cloned()).collect::<Vec<_>>())
                .await?,
        );
        Ok(values)
    }

    async fn add(&self, key: &[u8], value: &[u8], _: u32) -> Result<bool, Unavailable> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.call(move |it| {
            let free = !it.items.contains_key(&key);
            if free {
                it.items.insert(key, value);
            }
            free
        })
        .await
    }

    async fn set(&self, key: &[u8], value: &[u8], _: u32) -> Result<(), Unavailable> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.call(move |it| drop(it.items.insert(key, value))).await
    }

    async fn increment(&self, key: &[u8]) -> Result<Option<u64>, Unavailable> {
        let key = key.to_vec();
        self.call(move |it| {
            let value = it.items.get_mut(&key)?;
            let number = std::str::from_utf8(value).ok()?.parse::<u64>().ok()?.wrapping_add(1);
            *value = number.to_string().into_bytes();
            Some(number)
        })
        .await
    }
}

/// The environment of a node's program: its clock is slightly wrong.
#[derive(Clone)]
pub struct Place {
    pub sim: Rc<Sim>,
    /// Millionths by which its clock is fast or slow.
    pub drift: i64,
}

impl LogEnvironment for Place {
    fn now(&self) -> u64 {
        let now = self.sim.now();
        #[allow(clippy::cast_possible_wrap, reason = "virtual times are small")]
        let wrong = (now as i64 * self.drift) / 1_000_000;
        now.saturating_add_signed(wrong) / 1000
    }

    fn wall(&self) -> u64 {
        1_000_000 + self.sim.now() / 1_000_000
    }

    fn random(&self) -> u64 {
        self.sim.chance.next()
    }

    async fn sleep(&self, millis: u64) {
        self.sim.pause(millis * 1000).await;
    }
}
