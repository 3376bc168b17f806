//! What a worker knows: the store, the counters, and for each route its policy and its origins.

use crate::coding::pool::Coders;
use crate::refusals::Refusals;
use crate::source::ResponseMaker;
use crate::tiers::{LowerTiers, SharedUses};
use crate::upgrade::Upgrades;
use larder_counters::Counters;
use larder_origin::{BalanceKey, Group, OriginAddress, Paced, is_idempotent};
use larder_semantics::cookies;
use larder_semantics::field::{self, Field};
use larder_semantics::forwarded::Telling;
use larder_semantics::policy::Policy;
use larder_store::{PurgeRule, Seq, Store};
use larder_transport::Client;
use larder_transport::future_pool::FuturePool;
use larder_wire::message::{Framing, Request};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// One worker's gateway.
pub struct Gateway {
    /// Shared by all workers.
    pub store: Arc<Store>,
    /// This worker's.
    pub counters: Arc<Counters>,
    /// Why responses were not stored, lately; shared by all workers.
    pub refusals: Arc<Refusals>,
    /// The tiers below RAM.
    pub tiers: LowerTiers,
    /// Uses of what lies on disk.
    pub(crate) uses: SharedUses,
    /// What this process calls itself to other gateways, and to itself (RFC 8586).
    pub(crate) id: String,
    /// Buffers, reused from request to request.
    pub(crate) scratch: RefCell<Scratch>,
    /// Where its fills lie.
    pub(crate) fills: Rc<FuturePool>,
    /// Bytes of small request bodies that are being read before an origin is asked.
    pub(crate) small_bodies: Cell<u64>,
    /// Who makes forms of stored responses; without them none are made. Shared by all workers.
    pub coders: OnceCell<Arc<Coders>>,
    /// Who brings what a response to an unsafe method purges to every tier of every node; without it, this node's tiers
    /// alone are purged.
    pub spread: OnceCell<Spread>,
}

/// Brings a rule to every tier of every node: it is on its way at once, and what is returned is ready when the disk and
/// enough servers of the fleet have it. It is in force in this node's RAM already, by that number.
pub type Spread = Box<dyn Fn(PurgeRule, Seq) -> Spreading>;

/// What [`Spread`] returns; dropping it changes nothing.
pub type Spreading = Pin<Box<dyn Future<Output = ()>>>;

/// Buffers that are empty between requests.
#[derive(Default)]
pub(crate) struct Scratch {
    pub key: Vec<u8>,
    pub variant: Vec<u8>,
    /// What `Cache-Status` says.
    pub member: Vec<u8>,
}

/// Milliseconds by which hit-for-miss memories are kept: the wall clock's, which tests can move. One that jumps
/// costs a few requests their company, or lends it to a few, and no more.
pub(crate) fn misses_clock() -> u64 {
    larder_stdx::clock::wall().0.saturating_mul(1000)
}

impl Gateway {
    /// The gateway of one worker.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        counters: Arc<Counters>,
        refusals: Arc<Refusals>,
        tiers: LowerTiers,
    ) -> Rc<Self> {
        // The hash is seeded at random for each process, and shared by all its workers.
        let id = format!("larder-{:032x}", store.hash(b"this process").0);
        let (uses, scratch, small_bodies) = (SharedUses::default(), RefCell::default(), Cell::default());
        let (coders, spread) = (OnceCell::new(), OnceCell::new());
        let fills = Rc::default();
        Rc::new(Self {
            store,
            counters,
            refusals,
            tiers,
            uses,
            id,
            scratch,
            fills,
            small_bodies,
            coders,
            spread,
        })
    }
}

/// Which `Host` an origin gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSent {
    /// The client's; the origin's own, which is given here, for an HTTP/1.0 client that names none.
    Clients(String),
    /// The origin's own.
    Own(String),
}

impl HostSent {
    /// The host for a request that names `authority`.
    pub(crate) fn of<'a>(&'a self, authority: &'a str) -> &'a str {
        match self {
            HostSent::Clients(_) if !authority.is_empty() => authority,
            HostSent::Clients(own) | HostSent::Own(own) => own,
        }
    }
}

/// One proxied route as a worker runs it.
pub struct GatewayRoute {
    /// Its name in logs: the site's first host and the path pattern.
    pub name: String,
    /// What the configuration says about caching.
    pub policy: Policy,
    /// Where requests go.
    pub origins: Rc<Group>,
    /// What makes its responses in place of an origin.
    pub maker: Option<Rc<dyn ResponseMaker>>,
    /// Where they are, if they get their own `Host`: what they say of these addresses is written back to the client's.
    pub own: Vec<OriginAddress>,
    /// What of a request decides which of them, where the rule of the choice wants that.
    pub hash_by: HashBy,
    /// Which `Host` the origin gets.
    pub host: HostSent,
    /// `site.route.server_timing`: whether responses say where their time went.
    pub server_timing: bool,
    /// Which upgrades are passed on.
    pub upgrades: Upgrades,
    /// What origins are told of who asks.
    pub telling: Telling,
    /// `site.route.client_cert`: whether they are told the certificate that the client showed.
    pub tells_certificate: bool,
    /// Whether it answers for paths that can be read in two ways, and therefore does not use the cache.
    pub two_ways: bool,
}

/// What of a request decides which origin gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HashBy {
    /// Host and target: each page has one origin.
    #[default]
    Target,
    /// The address of the client.
    Client,
    /// The value of this header field.
    Header(String),
    /// The value of this cookie.
    Cookie(String),
}

impl GatewayRoute {
    /// A route over one or more origins.
    #[must_use]
    pub fn new(name: String, policy: Policy, origins: Rc<Group>, host: HostSent) -> Rc<Self> {
        let (hash_by, upgrades, telling) = (HashBy::default(), Upgrades::default(), Telling::default());
        Rc::new(Self {
            telling,
            tells_certificate: false,
            name,
            policy,
            origins,
            maker: None,
            own: Vec::new(),
            hash_by,
            host,
            server_timing: false,
            upgrades,
            two_ways: false,
        })
    }

    /// The same route for paths that can be read in two ways, of which different routes would answer: without the
    /// cache, since nobody can tell whose answer it is. The connections to the origins are the same.
    #[must_use]
    pub fn for_two_ways(&self) -> Rc<Self> {
        let policy = Policy { enabled: false, ..self.policy.clone() };
        let (name, origins, host) = (self.name.clone(), self.origins.clone(), self.host.clone());
        let (server_timing, hash_by) = (self.server_timing, self.hash_by.clone());
        let (upgrades, telling, tells_certificate) =
            (self.upgrades.clone(), self.telling, self.tells_certificate);
        Rc::new(Self {
            telling,
            tells_certificate,
            name,
            policy,
            origins,
            maker: self.maker.clone(),
            own: self.own.clone(),
            hash_by,
            host,
            server_timing,
            upgrades,
            two_ways: true,
        })
    }

    /// What the choice of an origin needs to know of a request with these `fields`.
    pub(crate) fn asked(
        &self,
        request: &Request,
        fields: &[Field<'_>],
        client: &Client,
        framing: Framing,
    ) -> BalanceKey {
        let repeatable =
            is_idempotent(&request.method) && matches!(framing, Framing::Empty | Framing::Length(0));
        let key = self.origins.needs_key().then(|| self.hash_by.key(request, fields, client)).flatten();
        let paced = Paced::ByOrigin;
        BalanceKey { key, repeatable, paced }
    }
}

impl HashBy {
    /// The hash of it; `None` where the request has none.
    fn key(&self, request: &Request, fields: &[Field<'_>], client: &Client) -> Option<u64> {
        match self {
            HashBy::Target => {
                let mut text = request.authority.to_ascii_lowercase();
                text.push_str(&request.target);
                Some(larder_origin::hash(text.as_bytes()))
            }
            HashBy::Client => {
                let peer = client.peer?.ip().to_canonical();
                Some(larder_origin::hash(peer.to_string().as_bytes()))
            }
            HashBy::Header(name) => field::first(fields, name).map(larder_origin::hash),
            HashBy::Cookie(name) => {
                cookies::only(fields, std::slice::from_ref(name)).map(|it| larder_origin::hash(&it))
            }
        }
    }
}
