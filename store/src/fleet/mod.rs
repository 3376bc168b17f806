//! The fleet tier: memcached servers that all nodes share. `ring` chooses a key's server, `connection` sends, `health`
//! has each server's state. Other modules decide when the fleet is asked, and how its answers are used.
//!
//! One [`Fleet`] belongs to one worker; all share one [`Health`]. An operation ends by its deadline in every case, as a
//! right answer, a miss, or "unavailable": clients see no errors.

mod chunking;
mod connection;
mod get;
pub mod hash;
pub mod health;
mod held_body;
pub mod keys;
pub mod purge_log_server;
pub mod purge_log_sink;
mod put;
mod recompute_lease;
pub mod ring;
pub mod server;
pub mod settings;
mod shared_item;
mod supersede;

pub use hash::KeyHashFunction;
pub use health::{FleetServerState, Health, OperationFollower, OperationResult, ServerChange};
pub use keys::FleetKeys;
pub use recompute_lease::{HolderState, OtherNodesLease, RecomputeLease};
pub use server::{Added, MemcachedServer, OperationFailure};
pub use settings::{
    FilledBy, FleetAddress, FleetSettings, MemcachedAddress, OversizePolicy, RingDistribution,
};
pub use shared_item::{ItemToReplace, ItemWritten, SharedItem};

use crate::ram::{Store, Stored};
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_stdx::clock::WallTime;
use larder_wire::envelope::Envelope;
pub use larder_wire::envelope::{Mark, Unshared};
pub use larder_wire::memcached::{FleetKey, MemcachedProtocol};
use recompute_lease::{ReadItems, RecomputeLeases};
use ring::ServerRing;
use server::ConnectionChoice;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
pub use supersede::RecordReplacement;

/// The query of a lookup.
#[derive(Clone, Copy)]
pub struct FleetQuery<'a> {
    /// The full key (`semantics::key`).
    pub key: &'a [u8],
    /// The request's fields: they select the variant.
    pub request: &'a [Field<'a>],
    /// The route's policy, for responses that an application wrote without facts.
    pub policy: &'a Policy,
    /// The caller's plan for the answer.
    pub want: Want,
    /// This node's response to the request: it is not confirmed where the newest record is a later answer that varies on
    /// other names.
    pub held: Option<&'a Stored>,
    /// Whether a purge applies to a record (`true`: of an application), so that it is fetched again like an expired one.
    pub is_purged: &'a dyn Fn(&Envelope, bool) -> bool,
}

/// The caller's plan where nothing fresh is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// None: it only looks.
    ReadOnly,
    /// It will ask the origin if it gets the lease: one of all nodes does ([`LeaseState::Acquired`]).
    Recompute,
}

/// The right to ask the origin for an absent or expired response.
#[derive(Debug)]
pub enum LeaseState {
    /// Every node may: the servers have no leases (binary protocol, `recompute_once = false`, [`Want::ReadOnly`]), or the
    /// record is fresh.
    NotNeeded,
    /// This node has it. Keep the value until the new response is put, or until none will be.
    Acquired(RecomputeLease),
    /// Another node has it: look again shortly, as long as it is working ([`Fleet::holder_state`]).
    HeldElsewhere(OtherNodesLease),
}

/// The fleet's content under a key for a request.
#[derive(Debug)]
pub enum FleetResult {
    /// A response: complete, of that key and that variant.
    Hit {
        /// The response.
        found: Box<FleetResponse>,
        /// The right to renew it, if it has expired.
        lease: LeaseState,
    },
    /// Nothing usable.
    Miss {
        /// When it was removed, or another answer of the origin came, if recently: an older response of this node does
        /// not count.
        removed: Option<WallTime>,
        /// The right to fetch it.
        lease: LeaseState,
    },
    /// Another node has asked the origin, and the answer may not be shared.
    Unshared {
        /// The part that may not be shared.
        unshared: Unshared,
        /// The origin's status.
        status: u16,
        /// The time of the answer.
        at: WallTime,
        /// Seconds for which the mark holds, as far as the server knows; above zero.
        seconds: u32,
    },
    /// Unknown: no server answered in time.
    Unavailable,
}

/// A verified response from the fleet.
#[derive(Debug)]
pub struct FleetResponse {
    /// All but the body.
    pub envelope: Envelope,
    /// The body, joined and unpacked.
    pub body: Bytes,
    /// An application wrote it, and its facts were just computed: `semantics::storable` has to decide whether it may be
    /// stored.
    pub by_application: bool,
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is stored.
    Stored,
    /// It is not: it was not allowed, it was too large, or a server did not accept it in time.
    NotStored,
    /// The result is not awaited (`no_block`).
    Unknown,
}

/// A write in progress. Dropping this does not stop it.
pub struct FleetPut {
    result: put::PendingPut,
}

/// Whether a removed key may still be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Removed {
    /// Every server that could have it has confirmed its absence.
    Everywhere,
    /// A server did not answer.
    Perhaps,
}

/// One worker's client of the fleet. Every operation runs within a tokio `LocalSet`.
pub struct Fleet {
    settings: Arc<FleetSettings>,
    health: Arc<Health>,
    store: Arc<Store>,
    counters: Arc<Counters>,
    servers: Box<[Rc<MemcachedServer>]>,
    keys: FleetKeys,
    ring: RefCell<(u64, ServerRing)>,
    leases: RecomputeLeases,
    seen: ReadItems,
    superseding: supersede::Superseding,
    /// Bytes of bodies being written.
    writing: Cell<u64>,
}

/// The keys of [`Fleet::samples`]: another distribution or hash moves most of them.
const SAMPLES: usize = 32;

/// Why a read fails.
enum Shortfall {
    /// A server did not answer.
    Unavailable,
    /// The data is not complete.
    Corrupt,
}

impl Fleet {
    /// A client without connections: they are opened when they are needed. `health` has the same settings; the budget of
    /// `store` counts the memory of writes.
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
        let (leases, seen, superseding) = Default::default();
        let (keys, ring, writing) = (settings.keys.clone(), RefCell::new((0, ring)), Cell::new(0));
        Rc::new(Self {
            settings,
            health,
            store,
            counters,
            servers,
            keys,
            ring,
            leases,
            seen,
            superseding,
            writing,
        })
    }

    /// The configuration.
    #[must_use]
    pub fn settings(&self) -> &FleetSettings {
        &self.settings
    }

    /// The rules for its keys.
    #[must_use]
    pub fn keys(&self) -> &FleetKeys {
        &self.keys
    }

    /// The number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// One of them, for data that is kept on each server and not by key.
    #[must_use]
    pub fn server(&self, at: usize) -> &Rc<MemcachedServer> {
        &self.servers[at]
    }

    /// Some keys in the form of this node, and the servers that it chooses for them while all are in use: nodes with other ones do
    /// not find each other's items.
    #[must_use]
    pub fn samples(&self) -> Vec<(FleetKey, usize)> {
        let FleetSettings { servers, distribution, hash, .. } = &*self.settings;
        let ring = ServerRing::new(servers, *distribution, *hash, |_| true);
        let key = |it: usize| self.keys.key(format!("http://host-{it}.example/{it}").as_bytes());
        let sample = |it: usize| {
            let key = key(it);
            Some((key.clone(), ring.server(key.as_bytes())?))
        };
        (0..SAMPLES).filter_map(sample).collect()
    }

    /// The health of each server.
    #[must_use]
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The server that is asked for a key now, if there is one.
    fn route(&self, key: &FleetKey) -> Option<usize> {
        if self.health.epoch() > 0 {
            self.servers.iter().for_each(MemcachedServer::probe_if_due);
        }
        self.server_of(key).filter(|it| self.is_live(*it))
    }

    /// The server of a key among those in use; among all without `auto_eject`.
    fn server_of(&self, key: &FleetKey) -> Option<usize> {
        let mut ring = self.ring.borrow_mut();
        // Read first: a change meanwhile is then noticed the next time.
        let epoch = self.health.epoch();
        if ring.0 != epoch && self.settings.auto_eject {
            let FleetSettings { servers, distribution, hash, .. } = &*self.settings;
            *ring = (epoch, ServerRing::new(servers, *distribution, *hash, |it| self.is_live(it)));
        }
        ring.1.server(key.as_bytes())
    }

    fn is_live(&self, server: usize) -> bool {
        self.health.state(server) != FleetServerState::Ejected
    }

    /// The key of one variant of a generation.
    fn variant(&self, key: &[u8], generation: u32, variant: &[u8]) -> FleetKey {
        match generation {
            // Written by applications.
            0 => self.keys.variant(key, variant),
            _ => self.keys.variant(key, &[&generation.to_le_bytes()[..], variant].concat()),
        }
    }
}
