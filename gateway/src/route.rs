//! One worker's gateway: the store, the counters, and the policy and origins of each route.

use crate::buffered::BufferedBodies;
use crate::coding::pool::Coders;
use crate::file_orders::FileOrderSettings;
use crate::lower_tiers::{LowerTiers, SharedUses};
use crate::miss_budget::MissBudget;
use crate::protocol_upgrade::Upgrades;
use crate::rewrite::RewriteSettings;
use crate::shared::GatewayShared;
use crate::source::ResponseMaker;
use larder_counters::{Counters, RouteScope};
use larder_files::ScriptRoot;
use larder_origin::{BalanceKey, Group, OriginAddress, RequestBuffering, is_idempotent};
use larder_semantics::cookies;
use larder_semantics::forwarded::ForwardedFields;
use larder_semantics::geo::GeoLookup;
use larder_semantics::key::KeyRecipe;
use larder_semantics::policy::{Policy, TierSet};
use larder_semantics::sticky::StickyCookie;
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
    /// Shared by the gateways of all workers.
    pub shared: Arc<GatewayShared>,
    /// The tiers below RAM.
    pub tiers: LowerTiers,
    /// Uses of responses on disk.
    pub(crate) uses: SharedUses,
    /// The name of this process for other gateways and for itself (RFC 8586).
    pub id: String,
    /// Buffers that requests reuse.
    pub(crate) scratch: RefCell<Scratch>,
    /// Where requests lie while they run.
    pub(crate) requests: FuturePool,
    /// The pool of its fills' futures.
    pub(crate) fills: Rc<FuturePool>,
    /// Where fills with one reader lie, which their requests run.
    pub(crate) private_fills: FuturePool,
    /// Where requests lie that are passed, until their response begins.
    pub(crate) passes: FuturePool,
    /// Bytes of small request bodies that are being read before an origin is asked.
    pub(crate) small_bodies: Cell<u64>,
    /// Bytes of the coders of responses that are coded on their way.
    pub(crate) transit_coders: Rc<Cell<u64>>,
    /// The pool that makes forms of stored responses; without it none are made. Shared by all workers.
    pub coders: OnceCell<Arc<Coders>>,
    /// Sends the purges caused by a response to an unsafe method to every tier of every node; without it, only this
    /// node's tiers are purged.
    pub purge_sender: OnceCell<PurgeSender>,
}

/// Sends a rule to every tier of every node at once. The returned future is ready when the disk and enough servers of the
/// fleet have it. The rule is already in force in this node's RAM, under that number.
pub type PurgeSender = Box<dyn Fn(PurgeRule, Seq) -> PurgeSending>;

/// The result of [`PurgeSender`]; dropping it has no effect.
pub type PurgeSending = Pin<Box<dyn Future<Output = ()>>>;

/// Buffers that are empty between requests.
#[derive(Default)]
pub(crate) struct Scratch {
    pub key: Vec<u8>,
    pub variant: Vec<u8>,
    /// The content of `Cache-Status`.
    pub member: Vec<u8>,
}

/// Milliseconds of the wall clock, which tests can move, for hit-for-miss memories. A jump of the clock lets a few
/// requests wait, or ask alone, by mistake.
pub(crate) fn misses_clock() -> u64 {
    larder_stdx::clock::wall().0.saturating_mul(1000)
}

impl Gateway {
    /// The gateway of one worker.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        counters: Arc<Counters>,
        shared: Arc<GatewayShared>,
        tiers: LowerTiers,
    ) -> Rc<Self> {
        // The hash is seeded at random for each process and shared by all its workers.
        let id = format!("larder-{:032x}", store.hash(b"this process").0);
        let (uses, scratch) = (SharedUses::default(), RefCell::default());
        let (small_bodies, transit_coders) = (Cell::default(), Rc::default());
        let (coders, purge_sender) = (OnceCell::new(), OnceCell::new());
        let (requests, fills) = (FuturePool::new(), Rc::default());
        let (private_fills, passes) = (FuturePool::new(), FuturePool::new());
        Rc::new(Self {
            store,
            counters,
            shared,
            tiers,
            uses,
            id,
            scratch,
            requests,
            fills,
            private_fills,
            passes,
            small_bodies,
            transit_coders,
            coders,
            purge_sender,
        })
    }
}

/// The `Host` that an origin gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSent {
    /// The client's; the origin's own, given here, for an HTTP/1.0 client without one.
    Clients(String),
    /// The origin's own.
    Own(String),
}

impl HostSent {
    /// The host for a request to `authority`.
    pub(crate) fn of<'a>(&'a self, authority: &'a str) -> &'a str {
        match self {
            HostSent::Clients(_) if !authority.is_empty() => authority,
            HostSent::Clients(own) | HostSent::Own(own) => own,
        }
    }
}

/// One proxied route in a worker.
#[derive(Clone)]
pub struct GatewayRoute {
    /// Its name in logs: the site's first host and the path pattern.
    pub name: String,
    /// The configuration of caching.
    pub policy: Policy,
    /// The origins of its requests.
    pub origins: Rc<Group>,
    /// The maker of its responses, in place of an origin.
    pub maker: Option<Rc<dyn ResponseMaker>>,
    /// The counters of a route with a maker; those of origins are their own. `None` where requests are not counted by route.
    pub maker_scope: Option<Arc<RouteScope>>,
    /// The scripts of which each request gets one; `None` for origins that are no php-fpm.
    pub scripts: Option<Arc<ScriptRoot>>,
    /// The addresses by which the origins refer to themselves: references to them are rewritten to the client's.
    pub own: Vec<OriginAddress>,
    /// The part of a request that the choice of the origin hashes, where the rule needs one.
    pub hash_by: HashBy,
    /// The `Host` that the origin gets.
    pub host: HostSent,
    /// `site.route.server_timing`: whether responses report where their time went.
    pub server_timing: bool,
    /// The upgrades that are passed on.
    pub upgrades: Upgrades,
    /// The keys and tiers of other routes of the site, where they differ: an unsafe method invalidates their responses, too.
    pub other_keys: Rc<[(KeyRecipe, TierSet)]>,
    /// Whether a route of the site stores responses to QUERY (`cache.query`).
    pub has_queries: bool,
    /// The fields about the client that origins get.
    pub forwarded_fields: ForwardedFields,
    /// `site.route.client_cert`: whether origins get the client's certificate.
    pub sends_certificate: bool,
    /// The fields with which larder tells origins of the client (`access`): no client can send them, not as trailers either.
    pub given_fields: Rc<[String]>,
    /// Whether it answers for paths that can be read in two ways, and therefore bypasses the cache.
    pub two_ways: bool,
    /// The request as the origins see it.
    pub rewrite: RewriteSettings,
    /// The databases of countries and autonomous systems.
    pub geo: Option<Arc<GeoLookup>>,
    /// The cookie that binds clients to an origin.
    pub sticky: Option<Arc<StickyCookie>>,
    /// The bound on requests to the origin.
    pub budget: Option<Rc<MissBudget>>,
    /// The bodies of requests that are read before the origin is asked.
    pub buffers: BufferedBodies,
    /// The files that its applications may hand over.
    pub sendfile: Option<Rc<FileOrderSettings>>,
}

/// The part of a request that decides which origin gets it.
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
    /// Whether a response for one client is no longer made once its client has closed its side: its program or its query runs on
    /// this machine, or for it alone.
    #[must_use]
    pub fn ends_with_client(&self) -> bool {
        self.maker.is_some() || self.origins.runs_programs()
    }

    /// A route over one or more origins.
    #[must_use]
    pub fn new(name: String, policy: Policy, origins: Rc<Group>, host: HostSent) -> Rc<Self> {
        let (hash_by, upgrades, forwarded_fields) =
            (HashBy::default(), Upgrades::default(), ForwardedFields::default());
        Rc::new(Self {
            other_keys: Rc::default(),
            has_queries: false,
            forwarded_fields,
            sends_certificate: false,
            given_fields: Rc::default(),
            name,
            policy,
            origins,
            maker: None,
            maker_scope: None,
            scripts: None,
            own: Vec::new(),
            hash_by,
            host,
            server_timing: false,
            upgrades,
            two_ways: false,
            rewrite: RewriteSettings::default(),
            geo: None,
            sticky: None,
            budget: None,
            buffers: BufferedBodies::None,
            sendfile: None,
        })
    }

    /// The same route for paths that can be read in two ways, belonging to different routes: without the cache, since the
    /// owner of the answer is ambiguous. The connections to the origins are shared.
    #[must_use]
    pub fn for_two_ways(&self) -> Rc<Self> {
        let policy = Policy { enabled: false, ..self.policy.clone() };
        Rc::new(Self { policy, two_ways: true, ..self.clone() })
    }

    /// The facts for choosing an origin.
    pub(crate) fn asked(&self, request: &Request, client: &Client, framing: Framing) -> BalanceKey {
        let repeatable =
            is_idempotent(&request.method) && matches!(framing, Framing::Empty | Framing::Length(0));
        let key = self.origins.needs_key().then(|| self.hash_by.key(request, client)).flatten();
        let paced = RequestBuffering::Complete;
        BalanceKey { key, bound: None, repeatable, buffering: paced }
    }
}

impl HashBy {
    /// The hash of that part; `None` where the request lacks it.
    fn key(&self, request: &Request, client: &Client) -> Option<u64> {
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
            HashBy::Header(name) => request.fields.get(name).map(larder_origin::hash),
            HashBy::Cookie(name) => cookies::only(&request.fields.view(), std::slice::from_ref(name))
                .map(|it| larder_origin::hash(&it)),
        }
    }
}
