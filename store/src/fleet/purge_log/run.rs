//! Following the logs of all servers: polls each in turn, and carries out the follower's actions.

use super::follower::{LogEvent, LogFollower, LogQuery, LogReply, Missing, Todo, new_generation};
use super::{Holder, LogKeys, LogServer, Terms, World};
use larder_wire::purge_entry::Numbered;
use std::cell::RefCell;

/// Seconds for which a silent node is remembered.
pub(super) const FORGET_NODE: u32 = 120;

/// The logs of all servers, as this node follows and writes them.
pub struct FleetPurgeLog<S, W, H> {
    pub(super) servers: Vec<S>,
    pub(super) world: W,
    pub(super) holder: H,
    pub(super) keys: LogKeys,
    pub(super) follower: RefCell<LogFollower>,
    /// Seconds after which a server forgets an entry.
    pub(super) expire: u32,
    lease: u64,
}

impl<S: LogServer, W: World, H: Holder> FleetPurgeLog<S, W, H> {
    /// A log that follows nothing yet: see [`FleetPurgeLog::follow`]. `expire` is at least as long as any page is kept.
    pub fn new(servers: Vec<S>, world: W, holder: H, keys: LogKeys, terms: Terms, expire: u32) -> Self {
        let lease = terms.lease;
        Self { servers, world, holder, keys, follower: RefCell::new(LogFollower::new(terms)), expire, lease }
    }

    /// Follows the log of server `n` for ever, polling every `poll` milliseconds; `noticed` gets the events.
    pub async fn follow(&self, n: usize, poll: u64, mut noticed: impl FnMut(LogEvent)) {
        loop {
            let again = self.round(n).await;
            let events = std::mem::take(&mut self.follower.borrow_mut().events);
            events.into_iter().for_each(&mut noticed);
            if !again {
                self.world.sleep(poll).await;
            }
        }
    }

    /// Polls server `n` once; returns whether there is more to read.
    async fn round(&self, n: usize) -> bool {
        let ask = self.follower.borrow().ask(n);
        // Before it is sent: the answer includes everything written by then.
        let sent = self.world.now();
        let answer = self.servers[n].get_many(&self.asked(ask)).await;
        let now = self.world.now();
        let Ok(values) = answer else {
            self.follower.borrow_mut().look(now);
            return false;
        };
        let mut values = values.iter().map(Option::as_deref);
        let answer = LogReply {
            head: values.next().flatten(),
            nodes: values.next().flatten(),
            entries: values.collect(),
        };
        let todo = self.follower.borrow_mut().answered(n, ask, sent, now, &answer, &self.holder);
        let mended = self.mend(n, todo).await;
        self.tell(n).await;
        todo.again || mended
    }

    fn asked(&self, ask: LogQuery) -> Vec<Vec<u8>> {
        let mut keys = vec![self.keys.head(), self.keys.nodes()];
        if let Some(name) = ask.log {
            keys.extend(
                (ask.first..ask.first + ask.count).map(|number| self.keys.entry(Numbered { name, number })),
            );
        }
        keys
    }

    /// Writes missing required data; returns whether to poll again at once.
    async fn mend(&self, n: usize, todo: Todo) -> bool {
        let mut done =
            self.put_counter(n, todo.head, &self.keys.head(), Numbered::first(self.world.random())).await;
        let generation = new_generation(self.world.random(), self.lease);
        done |= self.put_counter(n, todo.nodes, &self.keys.nodes(), generation).await;
        if todo.register
            && let Ok(Some(value)) = self.servers[n].increment(&self.keys.nodes()).await
            && let Some(slot) = Numbered::of(value)
        {
            self.follower.borrow_mut().registered(n, slot);
            done = true;
        }
        done
    }

    async fn put_counter(&self, n: usize, missing: Missing, key: &[u8], value: Numbered) -> bool {
        match missing {
            Missing::No => false,
            Missing::Absent => self.servers[n].add(key, &value.write(), 0).await.is_ok(),
            Missing::Garbage => self.servers[n].set(key, &value.write(), 0).await.is_ok(),
        }
    }

    /// Sends this node's report if it has changed, or as a sign of life.
    async fn tell(&self, n: usize) {
        let due = self.follower.borrow_mut().beat(n, self.world.now(), self.world.wall());
        if let Some((slot, value)) = due
            && self.servers[n].set(&self.keys.node(slot), &value, FORGET_NODE).await.is_err()
        {
            self.follower.borrow_mut().beat_failed(n);
        }
    }

    /// Tells every server that this node answers no more requests, so that no purge waits for it.
    pub async fn leave(&self) {
        let wall = self.world.wall();
        for n in 0..self.servers.len() {
            let farewell = self.follower.borrow().farewell(n, wall);
            if let Some((slot, value)) = farewell {
                // An unreachable server forgets this node by itself.
                let _ = self.servers[n].set(&self.keys.node(slot), &value, FORGET_NODE).await;
            }
        }
    }

    /// The follower's state.
    pub fn follower(&self) -> std::cell::Ref<'_, LogFollower> {
        self.follower.borrow()
    }
}
