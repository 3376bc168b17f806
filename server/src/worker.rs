//! One worker: a thread with a runtime of its own, its listeners, its gateway, its origins. Workers share the
//! store, and how many clients they have; they are told what to do through one channel.

use super::counter_sum::CounterSums;
use super::descriptors::Shares;
use super::files::FileRoute;
use super::handler::RequestHandler;
use super::health::Watches;
use super::overlay::Overlays;
use super::purge::asked::PurgeRequest;
use super::purge::{PurgeOrder, PurgeQueue};
use super::quiet::{self, Quiet};
use super::resident::Heap;
use super::route_stats::{ConfigScopes, RoutePart};
use super::router::{LiveSite, Matched, RouteTarget, Router};
use super::tiers::Lower;
use larder_config::{Config, OriginHost, OriginMember, Service};
use larder_counters::Counters;
use larder_files::Root;
use larder_gateway::coding::pool::Coders;
use larder_gateway::refusals::Refusals;
use larder_gateway::{Gateway, GatewayRoute, HostSent};
use larder_observe::Observer;
use larder_observe::ids::Ids;
use larder_observe::log::{ErrorLog, Level, LogHandle, Subsystem, SubsystemLog};
use larder_observe::recent::Recent;
use larder_observe::stream::{Hub, Tap};
use larder_observe::telemetry::Telemetry;
use larder_observe::top::Tops;
use larder_observe::tracer::Tracer;
use larder_observe::traces::Traces;
use larder_origin::{
    Blame, FailureReport, Group, Measures, Membership, OriginChange, OriginPool, StateReport,
};
use larder_semantics::policy::TierSet;
use larder_stdx::duration::spell;
use larder_store::{PurgeRule, Store};
use larder_transport::listener::{self, Bound};
use larder_transport::tls::ServerTls;
use larder_transport::worker::{ConnectionLimit, TransportWorker, runtime};
use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::watch;

/// A configuration with what it opens.
pub struct Live {
    /// The configuration.
    pub config: Config,
    /// The directories of its file routes, by site and route.
    roots: HashMap<(usize, usize), Arc<Root>>,
    /// What is counted of its routes and origins.
    pub scopes: ConfigScopes,
}

impl Live {
    /// Opens what `config` names. Numbers of routes that were in `before` go on.
    ///
    /// # Errors
    /// One sentence: what could not be opened.
    pub fn open(
        config: Config,
        counters: &Arc<Counters>,
        workers: NonZeroUsize,
        before: Option<&Live>,
    ) -> Result<Arc<Self>, String> {
        let mut roots = HashMap::new();
        for (at, site) in config.sites.iter().enumerate() {
            for (number, route) in site.routes.iter().enumerate() {
                if let Service::Files(files) = &route.service {
                    roots.insert((at, number), super::files::open(files, counters.clone())?);
                }
            }
        }
        let scopes = ConfigScopes::new(&config, workers, before.map(|it| &it.scopes));
        Ok(Arc::new(Self { config, roots, scopes }))
    }

    /// Bytes on the heap, and of copies in memory, that the open-file caches take.
    #[must_use]
    pub fn files(&self) -> (u64, u64) {
        self.roots.values().fold((0, 0), |(heap, copies), it| {
            let copied = it.copies_held();
            (heap + it.memory_held().saturating_sub(copied), copies + copied)
        })
    }

    /// Closes the files that nobody is being sent.
    pub fn let_files_go(&self) {
        self.roots.values().for_each(|it| it.let_go());
    }

    /// The routes as one worker runs them; `worker` is its number, or `None` for whoever's requests are not counted.
    #[must_use]
    pub fn router(&self, counters: &Arc<Counters>, errors: &ErrorLog, worker: Option<usize>) -> Router {
        let worker = worker.filter(|_| self.config.statistics);
        let sites = self.config.sites.iter().enumerate().map(|(at, site)| LiveSite {
            name: site.hosts.first().map_or_else(String::new, ToString::to_string),
            hosts: site.hosts.clone(),
            routes: site
                .routes
                .iter()
                .enumerate()
                .map(|(number, route)| {
                    let part = worker.map(|it| self.scopes.part(it, (at, number)));
                    let target = self.target((at, number), route, counters, errors, part.as_ref());
                    Matched::new(route.path.clone(), route.methods.clone(), target, route.purge.clone())
                        .counted(part.map(|it| it.route))
                })
                .collect(),
        });
        Router::new(sites.collect())
    }

    fn target(
        &self,
        at: (usize, usize),
        route: &larder_config::RouteConfig,
        counters: &Arc<Counters>,
        errors: &ErrorLog,
        part: Option<&RoutePart>,
    ) -> RouteTarget {
        let name = route.name.clone();
        match &route.service {
            Service::Proxy(proxy) => {
                let origins = self.group(&name, proxy, counters, errors, part);
                let own = proxy.to.members[0].authority();
                let host = match proxy.host {
                    OriginHost::Client => HostSent::Clients(own),
                    OriginHost::Own => HostSent::Own(own),
                };
                let mut policy = route.cache.clone();
                let used = route.tiers;
                policy.tiers = TierSet { ram: used.ram, disk: used.disk, fleet: used.fleet };
                let mut proxied = GatewayRoute::new(name, policy, origins, host);
                if let Some(new) = Rc::get_mut(&mut proxied) {
                    if proxy.host == OriginHost::Own {
                        new.own = proxy.to.members.iter().map(|it| it.at.clone()).collect();
                    }
                    new.hash_by = proxy.to.hash_by.clone();
                    new.server_timing = route.server_timing;
                    new.upgrades = route.upgrades.clone();
                    new.telling = route.telling;
                    new.tells_certificate = route.tells_certificate;
                }
                RouteTarget::Proxy(proxied)
            }
            Service::Files(_) => {
                let root = self.roots[&at].clone();
                RouteTarget::Files(Rc::new(FileRoute::new(name, root, route.server_timing)))
            }
        }
    }
}

impl Live {
    /// The origins of a route as one worker asks them.
    fn group(
        &self,
        route: &str,
        proxy: &larder_config::Proxy,
        counters: &Arc<Counters>,
        errors: &ErrorLog,
        part: Option<&RoutePart>,
    ) -> Rc<Group> {
        let larder_config::Origins { members, rules, ejection, .. } = &proxy.to;
        let one = |(at, member): (usize, &OriginMember)| {
            let standing = self.scopes.standing(&member.name());
            let (weight, drained) = (member.weight, member.drained);
            let (tls, http2) = (proxy.to.speaks(member), proxy.to.http2(member));
            let (name, ejection) = (member.name(), *ejection);
            let membership = Membership { name, tls, http2, standing, weight, ejection, drained };
            let origin = OriginPool::in_group(member.at.clone(), proxy.limits, counters.clone(), membership);
            let teller = || errors.of(Subsystem::Origin);
            origin.on_failure(told(teller(), route, origin.name()));
            origin.on_change(changed(teller(), route, origin.name()));
            if let Some(RoutePart { route, origins }) = part {
                origin.measure(Measures { route: route.clone(), origin: origins[at].clone() });
            }
            origin
        };
        Group::new(members.iter().enumerate().map(one).collect(), rules.clone())
    }
}

/// What the workers are to do now.
#[derive(Clone)]
pub struct Orders {
    /// The configuration in force.
    pub live: Arc<Live>,
    /// Finish what is under way, take nothing new.
    pub drain: bool,
}

/// What all workers share.
#[derive(Clone)]
pub struct WorkerShared {
    /// The store.
    pub store: Arc<Store>,
    /// The tiers below it.
    pub lower: Lower,
    /// Who makes the forms of stored responses.
    pub coders: Arc<Coders>,
    /// Why responses were not stored, lately.
    pub refusals: Arc<Refusals>,
    /// What lies over everything.
    pub overlays: Arc<Overlays>,
    /// Traces of all workers.
    pub traces: Arc<Traces>,
    /// Where spans are sent.
    pub telemetry: Option<Arc<Telemetry>>,
    /// All counters.
    pub totals: Arc<CounterSums>,
    /// The main thread's own counters, and those of what all workers share.
    pub own: Arc<Counters>,
    /// How many workers there are.
    pub workers: NonZeroUsize,
    /// How many clients they have.
    pub places: Arc<ConnectionLimit>,
    /// Which URLs weigh most.
    pub tops: Arc<Tops>,
    /// Who listens to the live stream.
    pub stream: Arc<Hub>,
    /// Numbers the requests that somebody was told of.
    pub ids: Arc<Ids>,
    /// And keeps them for a while.
    pub recent: Arc<Recent>,
    /// Tells all threads that there is memory to be given back.
    pub room_to_give: quiet::ReleaseSignal,
    /// Who may have how many descriptors.
    pub shares: Shares,
    /// What the allocator has, and has handed out.
    pub heap: Arc<Heap>,
}

/// What one worker has for itself.
pub struct Own {
    /// Its listening sockets.
    pub sockets: Vec<Bound>,
    /// What it takes connections to `https` addresses with.
    pub tls: Option<Arc<ServerTls>>,
    /// Its counters.
    pub counters: Arc<Counters>,
    /// Its end of the access log.
    pub log: LogHandle,
    /// Where purges are brought.
    pub purges: PurgeQueue,
    /// The error log.
    pub errors: ErrorLog,
}

/// Starts a worker on its own thread. It ends when it was told to drain and no connection is left.
///
/// # Errors
/// The system gives no thread.
pub fn start(
    number: usize,
    shared: WorkerShared,
    own: Own,
    orders: watch::Receiver<Orders>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        let runtime = runtime().expect("the system gives a runtime what it gave the first");
        runtime.block_on(run(number, shared, own, orders));
    })
}

async fn run(number: usize, shared: WorkerShared, own: Own, mut orders: watch::Receiver<Orders>) {
    let Own { sockets, tls, counters, log, purges, errors } = own;
    let live = orders.borrow_and_update().live.clone();
    let worker =
        TransportWorker::among(shared.places.clone(), counters.clone(), live.config.limits_of_clients());
    worker.keep_within();
    tls.into_iter().for_each(|it| worker.secure(it));
    let lower = shared.lower.of_worker(&shared.store, &counters);
    let gateway = Gateway::new(shared.store.clone(), counters.clone(), shared.refusals.clone(), lower);
    let _ = gateway.coders.set(shared.coders.clone());
    let desk = purges.clone();
    let _ = gateway.spread.set(Box::new(move |PurgeRule { scope, strength, .. }, here| {
        let done = desk.bring(PurgeOrder {
            asked: PurgeRequest { scope, strength },
            by: "a response's groups".to_owned(),
            wait: false,
            here: Some(here),
        });
        Box::pin(async move { drop(done.await) })
    }));
    let router = RefCell::new(Rc::new(live.router(&counters, &errors, Some(number))));
    worker.stamp_when(shared.traces.sampling.any.clone());
    let tracer = Tracer::new(shared.traces.clone(), shared.telemetry.clone(), counters.clone());
    let keeper = shared.recent.worker(shared.workers.get());
    let (tap, top) = (Tap::new(shared.stream.clone()), shared.tops.worker(shared.workers.get()));
    let (scope, statistics) = (live.scopes.of_worker(number), live.config.statistics);
    let observer =
        Observer::new(log, errors.clone(), tracer, scope, statistics, top, tap, shared.ids.clone(), keeper);
    let overlays = shared.overlays.clone();
    let clients = RefCell::new(Rc::new(live.config.clients.clone()));
    worker.set_proxies(live.config.clients.proxies.clone());
    let front = Rc::new(RequestHandler { gateway, router, clients, observer, purges, overlays });
    tokio::task::spawn_local(worker.clone().watch());
    for bound in sockets {
        tokio::task::spawn_local(listener::serve(bound, worker.clone(), front.clone()));
    }
    let yard = Some(shared.store.yard());
    let quiet = Quiet::new(shared.room_to_give.clone(), counters.clone(), yard);
    tokio::task::spawn_local(look_after(front.clone(), quiet, shared.heap.clone(), number));
    let watched = |live: &Live| (number == 0).then(|| Watches::begin(live, &counters, &errors));
    let mut watches = watched(&live);
    // Asked first: a stop may have come before this worker's first look at its orders.
    while !orders.borrow().drain && orders.changed().await.is_ok() && !orders.borrow().drain {
        let live = orders.borrow_and_update().live.clone();
        worker.set_limits(live.config.limits_of_clients());
        front.observer.scopes.switch(live.config.statistics);
        drop(watches.take());
        watches = watched(&live);
        worker.set_proxies(live.config.clients.proxies.clone());
        *front.clients.borrow_mut() = Rc::new(live.config.clients.clone());
        *front.router.borrow_mut() = Rc::new(live.router(&counters, &errors, Some(number)));
    }
    drop(watches);
    // Idle connections have a part of the time that a stop may take.
    worker.drain(orders.borrow().live.config.limits.drain_timeout / 2);
    worker.drained().await;
    front.observer.flush();
}

/// What a worker does from time to time: lines of the log wait at most this long in a quiet one, and so does memory
/// that is to be given back.
async fn look_after(front: Rc<RequestHandler>, quiet: Quiet, heap: Arc<Heap>, number: usize) {
    let (mut flush, mut look) = (tokio::time::interval(quiet::LOOK), tokio::time::interval(quiet::LOOK));
    flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = flush.tick() => front.observer.flush(),
            _ = look.tick() => look.reset_after(quiet.look()),
            () = heap.asked(number) => {}
        }
        heap.tick(number, front.gateway.store.used_of_heap());
    }
}

/// Tells the error log of failures of `origin`.
fn told(teller: SubsystemLog, route: &str, origin: &str) -> FailureReport {
    let (route, origin) = (route.to_owned(), origin.to_string());
    Box::new(move |error| {
        let level = match error.blame() {
            Blame::Origin => Level::Error,
            Blame::Us => Level::Warn,
        };
        if teller.tells(level) {
            let why = error.sentence();
            let values = [("route", route.as_str()), ("origin", &origin), ("why", &why)];
            teller.seldom_of(level, "origin-failed", &origin, &values);
        }
    })
}

/// Tells the error log when `origin` is left alone, and used again.
fn changed(teller: SubsystemLog, route: &str, origin: &str) -> StateReport {
    let (route, origin) = (route.to_owned(), origin.to_owned());
    Box::new(move |change| {
        let (level, what, time) = match change {
            OriginChange::Ejected(time) => (Level::Warn, "origin-ejected", spell(time)),
            OriginChange::Back => (Level::Info, "origin-readmitted", String::new()),
        };
        if teller.tells(level) {
            let values = [("route", route.as_str()), ("origin", &origin), ("for", &time)];
            let values = if time.is_empty() { &values[..2] } else { &values[..] };
            teller.seldom_of(level, what, &origin, values);
        }
    })
}
