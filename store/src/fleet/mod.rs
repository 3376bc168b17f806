//! The fleet tier: memcached servers that all nodes share. Which server has a key is in `ring`, what is sent in
//! `connection`, how each server is in `health`. When the fleet is asked, and what its answers are good for, is not here.
//!
//! One [`Fleet`] is for one worker; all share one [`Health`]. Whatever the servers do, an operation ends by its deadline, as
//! a right answer, as a miss, or as "unavailable": there is no error that a client could see.

mod chunking;
mod connection;
mod get;
pub mod hash;
pub mod health;
pub mod keys;
pub mod purge_log;
mod put;
mod recompute_lease;
pub mod ring;
pub mod server;
pub mod settings;
mod supersede;

pub use hash::KeyHashFunction;
pub use health::{Health, Moment, OperationFollower, OperationResult, ServerChange, ServerStanding};
pub use keys::FleetKeys;
pub use recompute_lease::{AtWork, OtherNodesLease, RecomputeLease};
pub use ring::RingDistribution;
pub use server::{Added, MemcachedServer, OperationFailure};
pub use settings::{FilledBy, FleetAddress, FleetSettings, MemcachedAddress, OversizePolicy};

use crate::ram::{Store, Stored};
use bytes::Bytes;
use get::FleetItem;
use health::ServerAdmission;
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_stdx::clock::WallTime;
use larder_wire::envelope::Envelope;
pub use larder_wire::envelope::{Mark, Unshared};
pub use larder_wire::memcached::{FleetKey, MemcachedProtocol};
use recompute_lease::{RecomputeLeases, StaleRead};
use ring::ServerRing;
use server::ConnectionChoice;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
pub use supersede::Instead;

/// What is asked of the fleet.
#[derive(Clone, Copy)]
pub struct FleetQuery<'a> {
    /// The full key (`semantics::key`).
    pub key: &'a [u8],
    /// The request's fields: they select the variant.
    pub request: &'a [Field<'a>],
    /// The route's policy: what an application wrote without facts is judged by it.
    pub policy: &'a Policy,
    /// What is going to happen with the answer.
    pub want: Want,
    /// What this node holds for the request: it does not stand where the newest record is a later answer that varies on other names.
    pub held: Option<&'a Stored>,
    /// Whether a purge has met a record (`true`: of an application), so that it is to be computed anew as one whose
    /// lifetime is over.
    pub is_purged: &'a dyn Fn(&Envelope, bool) -> bool,
}

/// What the asker will do where nothing fresh is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing: it only looks.
    Look,
    /// It will ask the origin, if it is its turn: of all nodes one is told so ([`RecomputeTurn::Ours`]).
    Recompute,
}

/// Whose turn it is to ask the origin for what is absent or has expired.
#[derive(Debug)]
pub enum RecomputeTurn {
    /// Anybody's: the servers keep no turns (binary protocol, `recompute_once = false`, [`Want::Look`]), or what was found
    /// is fresh.
    Free,
    /// This node's. Keep the value until the new response is put, or until nothing will be put.
    Ours(RecomputeLease),
    /// Another node has it: look again shortly, as long as it is at work ([`Fleet::is_at_work`]).
    Theirs(OtherNodesLease),
}

/// What the fleet has under a key for a request.
#[derive(Debug)]
pub enum FleetResult {
    /// A response: whole, of that key and that variant.
    Hit {
        /// The response.
        found: Box<FleetResponse>,
        /// Who is to recompute it, if its lifetime is over.
        turn: RecomputeTurn,
    },
    /// Nothing that could be used.
    Miss {
        /// When it was removed, or another answer of the origin came, if that was lately: what a node has from before does not stand.
        removed: Option<WallTime>,
        /// Who is to compute it.
        turn: RecomputeTurn,
    },
    /// Another node has asked the origin, and what it was answered may not be shared.
    Unshared {
        /// What may not be shared.
        says: Unshared,
        /// With which status the origin answered.
        status: u16,
        /// When it answered.
        at: WallTime,
        /// Seconds for which it holds, as far as the server knows; above zero.
        seconds: u32,
    },
    /// Nothing is known: no server could say in time.
    Unavailable,
}

/// A response as the fleet has it, checked.
#[derive(Debug)]
pub struct FleetResponse {
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
pub struct FleetPut {
    result: put::Pending,
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
    settings: Arc<FleetSettings>,
    health: Arc<Health>,
    store: Arc<Store>,
    counters: Arc<Counters>,
    servers: Box<[Rc<MemcachedServer>]>,
    keys: FleetKeys,
    ring: RefCell<(u64, ServerRing)>,
    turns: RecomputeLeases,
    seen: StaleRead,
    superseding: supersede::Superseding,
    /// Bytes of bodies on their way out.
    writing: Cell<u64>,
}

/// Why a read comes to nothing.
enum Shortfall {
    /// A server could not say.
    Unavailable,
    /// What is there is not whole.
    Corrupt,
}

impl Fleet {
    /// A client without connections: they are opened when they are needed. `health` is of the same settings; what has to be in
    /// memory to be written is in the books of `store`.
    #[must_use]
    pub fn new(
        settings: Arc<FleetSettings>,
        health: Arc<Health>,
        store: Arc<Store>,
        counters: Arc<Counters>,
    ) -> Rc<Self> {
        let servers = (0..settings.servers.len())
            .map(|at| MemcachedServer::new(at, settings.clone(), health.clone(), counters.clone()))
            .collect();
        let ring = ServerRing::new(&settings.servers, settings.distribution, settings.hash, |_| true);
        let (turns, seen, superseding) = Default::default();
        let (keys, ring, writing) = (settings.keys.clone(), RefCell::new((0, ring)), Cell::new(0));
        Rc::new(Self {
            settings,
            health,
            store,
            counters,
            servers,
            keys,
            ring,
            turns,
            seen,
            superseding,
            writing,
        })
    }

    /// What the operator says of it.
    #[must_use]
    pub fn settings(&self) -> &FleetSettings {
        &self.settings
    }

    /// Under which names things lie in it.
    #[must_use]
    pub fn keys(&self) -> &FleetKeys {
        &self.keys
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// One of them, for what is kept on each server and not by key.
    #[must_use]
    pub fn server(&self, at: usize) -> &Rc<MemcachedServer> {
        &self.servers[at]
    }

    /// How each server is.
    #[must_use]
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The server that a key is asked of now, if there is one.
    fn route(&self, key: &FleetKey) -> Option<usize> {
        if self.health.epoch() > 0 {
            self.try_again();
        }
        self.home(key).filter(|it| self.is_live(*it))
    }

    /// The server of a key among those that are live; among all without `auto_eject`.
    fn home(&self, key: &FleetKey) -> Option<usize> {
        let mut ring = self.ring.borrow_mut();
        // Asked first: a change meanwhile is then seen the next time.
        let epoch = self.health.epoch();
        if ring.0 != epoch && self.settings.auto_eject {
            let FleetSettings { servers, distribution, hash, .. } = &*self.settings;
            *ring = (epoch, ServerRing::new(servers, *distribution, *hash, |it| self.is_live(it)));
        }
        ring.1.server(key.as_bytes())
    }

    fn is_live(&self, server: usize) -> bool {
        self.health.standing(server) != ServerStanding::Ejected
    }

    /// Makes the attempts that are due at ejected servers, beside whatever is asked.
    fn try_again(&self) {
        for server in &self.servers {
            if self.is_live(server.at()) {
                continue;
            }
            if let ServerAdmission::Try(attempt) = self.health.admission(server.at(), Moment::now()) {
                server.try_again(attempt);
            }
        }
    }

    /// The key of one variant of a generation.
    fn variant(&self, key: &[u8], generation: u32, variant: &[u8]) -> FleetKey {
        match generation {
            // What applications write.
            0 => self.keys.variant(key, variant),
            _ => self.keys.variant(key, &[&generation.to_le_bytes()[..], variant].concat()),
        }
    }
}
