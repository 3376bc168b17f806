//! One worker: a thread with a runtime of its own, its listeners, its gateway, its origins. Workers share the store and
//! the connection limit; they receive orders through one channel.

use crate::error_page::PageRefresher;
use crate::handler::RequestHandler;
use larder_counters::Counters;
use larder_gateway::Gateway;
use larder_gateway::coding::pool::Coders;
use larder_gateway::shared::GatewayShared;
use larder_observe::Observer;
use larder_observe::ids::Ids;
use larder_observe::log::{AccessLog, ErrorLog, Subsystem};
use larder_observe::recent::Recent;
use larder_observe::recorder::Recorder;
use larder_observe::stream::{Hub, Tap};
use larder_observe::telemetry::Telemetry;
use larder_observe::top::Tops;
use larder_observe::tracer::Tracer;
use larder_observe::traces::Traces;
use larder_observe::worst::Worst;
use larder_server::addresses::{OpenAddress, OpenAddresses, OpenQuic};
use larder_server::counter_sum::CounterSums;
use larder_server::descriptors::DescriptorShares;
use larder_server::health_checks::Watches;
use larder_server::live::{DrainReason, Live, WorkerState};
use larder_server::memory_release::{self, MemoryRelease};
use larder_server::overlay::Overlays;
use larder_server::purge::target::PurgeRequest;
use larder_server::purge::{PurgeOrder, PurgeQueue, ReceiptDetail};
use larder_server::resident::Heap;
use larder_server::tiers::SharedTiers;
use larder_server::worker_failure::WorkerFailure;
use larder_store::{PurgeRule, Store};
use larder_transport::http3;
use larder_transport::listener::{self, Listen};
use larder_transport::worker::{ConnectionLimit, TransportWorker, runtime};
use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// The state that all workers share.
#[derive(Clone)]
pub struct WorkerShared {
    /// The store.
    pub store: Arc<Store>,
    /// The tiers below it.
    pub lower: SharedTiers,
    /// The encoders of stored responses.
    pub coders: Arc<Coders>,
    /// The state that the gateways of all workers share.
    pub gateway: Arc<GatewayShared>,
    /// The overlays.
    pub overlays: Arc<Overlays>,
    /// Traces of all workers.
    pub traces: Arc<Traces>,
    /// The span exporter.
    pub telemetry: Option<Arc<Telemetry>>,
    /// All counters.
    pub totals: Arc<CounterSums>,
    /// The main thread's own counters, and those of shared components.
    pub own: Arc<Counters>,
    /// The number of workers.
    pub workers: NonZeroUsize,
    /// The limit of client connections.
    pub connection_limit: Arc<ConnectionLimit>,
    /// The heaviest URLs.
    pub tops: Arc<Tops>,
    /// The listeners of the live stream.
    pub stream: Arc<Hub>,
    /// Assigns ids to logged or streamed requests.
    pub ids: Arc<Ids>,
    /// And keeps them for a time.
    pub recent: Arc<Recent>,
    /// The records for trials of a configuration.
    pub recorder: Arc<Recorder>,
    /// The worst requests.
    pub worst: Arc<Worst>,
    /// Signals all threads to return memory.
    pub room_to_give: memory_release::ReleaseSignal,
    /// The division of descriptors.
    pub shares: DescriptorShares,
    /// The memory that the allocator holds, and has allocated.
    pub heap: Arc<Heap>,
    /// The failure of a worker.
    pub failure: Arc<WorkerFailure>,
}

/// The state of one worker.
pub struct WorkerLocal {
    /// Its counters.
    pub counters: Arc<Counters>,
    /// The access log.
    pub log: Arc<AccessLog>,
    /// The queue of purges.
    pub purges: PurgeQueue,
    /// The error log.
    pub errors: ErrorLog,
}

/// Starts a worker on its own thread, which calls `accepts` once it accepts connections. It ends when it was ordered to drain and no connection is left, or by a panic, which
/// it leaves in `shared.failure`.
///
/// # Errors
/// The system has no thread for it.
pub fn start(
    number: usize,
    shared: WorkerShared,
    own: WorkerLocal,
    orders: watch::Receiver<WorkerState>,
    accepts: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        let failure = shared.failure.clone();
        failure.watch(number, || {
            let runtime = runtime().expect("the system gives a runtime what it gave the first");
            runtime.block_on(run(number, shared, own, orders, accepts));
        });
    })
}

async fn run(
    number: usize,
    shared: WorkerShared,
    own: WorkerLocal,
    mut orders: watch::Receiver<WorkerState>,
    accepts: impl FnOnce() + 'static,
) {
    let WorkerLocal { counters, log, purges, errors } = own;
    let first = orders.borrow_and_update().clone();
    let live = first.live.clone();
    let worker = TransportWorker::sharing(
        shared.connection_limit.clone(),
        counters.clone(),
        live.config.limits_of_clients(),
    );
    worker.reserve_descriptors();
    let lower = shared.lower.of_worker(&shared.store, &counters);
    let gateway = Gateway::new(shared.store.clone(), counters.clone(), shared.gateway.clone(), lower);
    let _ = gateway.coders.set(shared.coders.clone());
    let purge_queue = purges.clone();
    let _ = gateway.purge_sender.set(Box::new(move |PurgeRule { scope, strength, .. }, here| {
        let done = purge_queue.submit(PurgeOrder {
            asked: PurgeRequest { scope, strength },
            by: "a response's groups".to_owned(),
            wait: false,
            here: Some(here),
            receipt: ReceiptDetail::Counted,
        });
        Box::pin(async move { drop(done.await) })
    }));
    worker.measure_while(shared.traces.sampling.any.clone());
    let observer = observer(number, &shared, &live, &counters, &log, &errors);
    let overlays = shared.overlays.clone();
    let (router, clients) = (RefCell::default(), RefCell::default());
    let is_draining = Cell::new(false);
    let front = Rc::new(RequestHandler { gateway, router, clients, observer, purges, overlays, is_draining });
    tokio::task::spawn_local(worker.clone().watch());
    let (listeners, quic) = (Vec::new(), Vec::new());
    let mut follower = SettingsFollower {
        number,
        worker,
        front,
        counters,
        errors,
        log,
        watches: None,
        error_pages: None,
        issuers: None,
        listeners,
        quic,
    };
    follower.apply_config(&first);
    drop(first);
    // Tasks run in their order: those that accept come before it.
    tokio::task::spawn_local(async move { accepts() });
    let SettingsFollower { front, counters, .. } = &follower;
    let free_list = Some(shared.store.free_list());
    let release = MemoryRelease::new(shared.room_to_give.clone(), counters.clone(), free_list);
    tokio::task::spawn_local(look_after(front.clone(), release, shared.heap.clone(), number));
    // Checked first: a stop may have come before this worker's first look at its orders.
    let drains = |orders: &watch::Receiver<WorkerState>| orders.borrow().drain.is_some();
    while !drains(&orders) && orders.changed().await.is_ok() && !drains(&orders) {
        let now = orders.borrow_and_update().clone();
        let panics = cfg!(debug_assertions)
            && std::env::var("LARDER_TEST_PANIC").is_ok_and(|it| it.parse() == Ok(number));
        assert!(!panics, "a test demands a panic at a reload");
        follower.apply_config(&now);
    }
    follower.finish(&orders).await;
}

/// The observer of a worker, which reports finished requests to the logs and views that all workers share.
fn observer(
    number: usize,
    shared: &WorkerShared,
    live: &Live,
    counters: &Arc<Counters>,
    log: &AccessLog,
    errors: &ErrorLog,
) -> Observer {
    let tracer = Tracer::new(shared.traces.clone(), shared.telemetry.clone(), counters.clone());
    let keeper = shared.recent.worker(shared.workers.get());
    let recorder = shared.recorder.worker(shared.workers.get());
    let (tap, top) = (Tap::new(shared.stream.clone()), shared.tops.worker(shared.workers.get()));
    Observer::new(
        log.worker(counters.clone()),
        errors.clone(),
        tracer,
        live.scopes.of_worker(number),
        live.config.statistics,
        top,
        tap,
        shared.ids.clone(),
        keeper,
        recorder,
        shared.worst.clone(),
    )
}

/// The parts of a worker that follow the configuration in force.
struct SettingsFollower {
    number: usize,
    worker: Rc<TransportWorker>,
    front: Rc<RequestHandler>,
    counters: Arc<Counters>,
    errors: ErrorLog,
    log: Arc<AccessLog>,
    /// The health checks, which the first worker runs for all.
    watches: Option<Watches>,
    /// The requests for the error pages of sites.
    error_pages: Option<PageRefresher>,
    /// The fetches of keys, likewise.
    issuers: Option<JoinSet<()>>,
    /// The addresses that it serves; each is given up when its sender is dropped.
    listeners: Vec<(Arc<OpenAddress>, oneshot::Sender<()>)>,
    /// Their UDP ports, likewise.
    quic: Vec<(Arc<OpenQuic>, oneshot::Sender<()>)>,
}

impl SettingsFollower {
    /// Finishes the requests in progress.
    async fn finish(mut self, orders: &watch::Receiver<WorkerState>) {
        (self.watches, self.error_pages, self.issuers) = (None, None, None);
        // Connections have a part of the time limit.
        let within = orders.borrow().live.config.limits.drain_timeout / 2;
        if orders.borrow().drain == Some(DrainReason::Replaced) {
            self.worker.leave_queues();
            self.worker.drain_in_turn(within);
        } else {
            self.front.is_draining.set(true);
            self.worker.drain(within);
        }
        self.worker.drained().await;
        self.front.observer.flush();
    }

    /// Puts a configuration in force; current requests keep theirs.
    fn apply_config(&mut self, orders: &WorkerState) {
        let Self { number, worker, front, counters, errors, log, watches, error_pages, issuers, .. } = self;
        let live = &orders.live;
        front.observer.follow_log(log);
        front.observer.follow_site_logs(&orders.site_logs.sites, counters);
        worker.set_limits(live.config.limits_of_clients());
        worker.set_proxies(live.config.clients.proxies.clone());
        front.observer.scopes.switch(live.config.statistics);
        // The old ones end before others start.
        *watches = None;
        *watches = (*number == 0).then(|| Watches::begin(live, counters, errors));
        *issuers = None;
        *issuers = (*number == 0).then(|| live.access.follow_issuers(counters));
        front.clients.replace(Rc::new(live.config.clients.clone()));
        let router = Rc::new(live.router(counters, errors, Some(*number), orders.addresses.tls_port()));
        router.inherit_error_pages(&front.router.borrow());
        let teller = errors.of(Subsystem::Server);
        *error_pages = PageRefresher::begin(router.error_pages(), front, worker, teller);
        front.router.replace(router);
        orders.tls.iter().for_each(|it| worker.secure(it.clone()));
        self.serve(&orders.addresses);
    }

    /// Serves these addresses, and gives up the others. New ones come last: their requests meet the new routes.
    fn serve(&mut self, addresses: &OpenAddresses) {
        self.listeners.retain(|listener| addresses.streams.iter().any(|it| Arc::ptr_eq(it, &listener.0)));
        for port in addresses.closing.iter().chain(&addresses.quic) {
            for socket in port.take(self.number) {
                let (keep, gone) = oneshot::channel();
                let closed = async { drop(gone.await) };
                let name = Listen::Tls(port.at()).spelled();
                let served =
                    http3::serve_until(socket, name, self.worker.clone(), self.front.clone(), closed);
                tokio::task::spawn_local(served);
                self.quic.push((port.clone(), keep));
            }
        }
        self.quic.retain(|listener| addresses.quic.iter().any(|it| Arc::ptr_eq(it, &listener.0)));
        for address in &addresses.streams {
            for bound in address.take(self.number) {
                let (keep, gone) = oneshot::channel();
                let closed = async { drop(gone.await) };
                let served = listener::serve_until(bound, self.worker.clone(), self.front.clone(), closed);
                tokio::task::spawn_local(served);
                self.listeners.push((address.clone(), keep));
            }
        }
    }
}

/// The periodic tasks of a worker: log lines wait at most this long in a quiet one, and so does memory that is to be
/// returned.
async fn look_after(front: Rc<RequestHandler>, release: MemoryRelease, heap: Arc<Heap>, number: usize) {
    let (mut flush, mut look) = (
        tokio::time::interval(memory_release::CHECK_INTERVAL),
        tokio::time::interval(memory_release::CHECK_INTERVAL),
    );
    flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = flush.tick() => front.observer.flush(),
            _ = look.tick() => look.reset_after(release.check()),
            () = heap.asked(number) => {}
        }
        heap.tick(number, front.gateway.store.used_of_heap());
    }
}
