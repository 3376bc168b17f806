//! Following the logs of all servers: polls each in turn, and carries out the follower's actions.

use super::follower::{DueActions, LogEvent, LogFollower, LogQuery, LogReply, Missing, new_generation};
use super::{LogEnvironment, LogKeys, LogParameters, LogServer, PurgeLogSink};
use larder_wire::purge_entry::Numbered;
use std::cell::RefCell;

/// Seconds for which a silent node is remembered.
pub(super) const FORGET_NODE: u32 = 120;

/// The logs of all servers, as this node follows and writes them.
pub struct FleetPurgeLog<S, W, H> {
    pub(super) servers: Vec<S>,
    pub(super) environment: W,
    pub(super) sink: H,
    pub(super) keys: LogKeys,
    pub(super) follower: RefCell<LogFollower>,
    /// Seconds after which a server forgets an entry.
    pub(super) expire: u32,
    lease: u64,
}

impl<S: LogServer, W: LogEnvironment, H: PurgeLogSink> FleetPurgeLog<S, W, H> {
    /// A log that follows nothing yet: see [`FleetPurgeLog::follow`]. `expire` is at least as long as any page is kept.
    pub fn new(
        servers: Vec<S>,
        world: W,
        sink: H,
        keys: LogKeys,
        parameters: LogParameters,
        expire: u32,
    ) -> Self {
        let lease = parameters.lease;
        Self {
            servers,
            environment: world,
            sink,
            keys,
            follower: RefCell::new(LogFollower::new(parameters)),
            expire,
            lease,
        }
    }

    /// Follows the log of server `n` for ever, polling every `poll` milliseconds; `noticed` gets the events.
    pub async fn follow(&self, n: usize, poll: u64, mut noticed: impl FnMut(LogEvent)) {
        loop {
            let again = self.poll(n).await;
            let events = std::mem::take(&mut self.follower.borrow_mut().events);
            events.into_iter().for_each(&mut noticed);
            if !again {
                self.environment.sleep(poll).await;
            }
        }
    }

    /// Polls server `n` once; returns whether there is more to read.
    async fn poll(&self, n: usize) -> bool {
        let query = self.follower.borrow().query(n);
        // Before it is sent: the answer includes everything written by then.
        let sent = self.environment.now();
        let answer = self.servers[n].get_many(&self.asked(query)).await;
        let now = self.environment.now();
        let Ok(values) = answer else {
            self.follower.borrow_mut().update_trust(now);
            return false;
        };
        let mut values = values.iter().map(Option::as_deref);
        let answer = LogReply {
            head: values.next().flatten(),
            nodes: values.next().flatten(),
            entries: values.collect(),
        };
        let actions = self.follower.borrow_mut().answered(n, query, sent, now, &answer, &self.sink);
        let mended = self.repair(n, actions).await;
        self.send_report(n).await;
        actions.again || mended
    }

    fn asked(&self, query: LogQuery) -> Vec<Vec<u8>> {
        let mut keys = vec![self.keys.head(), self.keys.nodes()];
        if let Some(name) = query.log {
            keys.extend(
                (query.first..query.first + query.count)
                    .map(|number| self.keys.entry(Numbered { name, number })),
            );
        }
        keys
    }

    /// Writes missing required data; returns whether to poll again at once.
    async fn repair(&self, n: usize, actions: DueActions) -> bool {
        let mut done = self
            .put_counter(n, actions.head, &self.keys.head(), Numbered::first(self.environment.random()))
            .await;
        let generation = new_generation(self.environment.random(), self.lease);
        done |= self.put_counter(n, actions.nodes, &self.keys.nodes(), generation).await;
        if actions.register
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
    async fn send_report(&self, n: usize) {
        let due = self.follower.borrow_mut().heartbeat(n, self.environment.now(), self.environment.wall());
        if let Some((slot, value)) = due
            && self.servers[n].set(&self.keys.node(slot), &value, FORGET_NODE).await.is_err()
        {
            self.follower.borrow_mut().heartbeat_failed(n);
        }
    }

    /// Tells every server that this node answers no more requests, so that no purge waits for it.
    pub async fn sign_off(&self) {
        let wall = self.environment.wall();
        for n in 0..self.servers.len() {
            let farewell = self.follower.borrow().last_heartbeat(n, wall);
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
