//! The running server: binds, starts the workers and the admin, watches the configuration, handles signals. The
//! handling of requests is in `larder_worker::handler`; the configuration is in `larder_config`.

use crate::inheritance::Inheritance;
use crate::ram_snapshot;
use crate::reload::Prepared;
use crate::service_manager::ServiceManager;
use crate::start::{self, Running, Started};
use crate::upgrade::old_process::Successor;
use crate::upgrade::program;
use larder_admin::{
    Admin, AdminAccess, Audit, Configuring, HistoryEnd, HistoryState, JudgedRequests, RecentSums,
    ReloadOrder, ServerState, UpgradeOrder,
};
use larder_config::Config;
use larder_config::plan::Plan;
use larder_config::token;
use larder_gateway::Gateway;
use larder_observe::log::{AccessLog, Level, LimitWatch, Subsystem};
use larder_server::cluster::Cluster;
pub use larder_server::config_watch::ConfigWatch;
use larder_server::live::{DrainReason, WorkerState};
use larder_server::memory_release::MemoryRelease;
use larder_server::purge::peer::PurgePeer;
use larder_server::row_purges::FollowStates;
use larder_server::site_logs::OpenSiteLogs;
use larder_server::tiers::DiskWatch;
use larder_server::{acme, memory_release, tls};
use larder_stdx::error::plain;
use larder_store::Store;
use larder_transport::listener::{self, ListeningSocket, SocketHandle};
use larder_transport::worker::TransportWorker;
use larder_worker::thread::WorkerShared;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, LocalSet};
use upgrading::{UpgradeInProgress, end_of};

mod draining;
mod upgrading;

/// The interval at which the store checks the process's memory; it also checks by itself during fills.
const TICK: Duration = Duration::from_millis(200);
/// After this many checks with too much memory, threads examine their pages: a second.
const EACH_COLLECTS: u32 = 5;

/// The reason why a server stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// One sentence: a resource was not available at start. Nothing was started then.
    AtStart(String),
    /// Requests were cut when it stopped: the drain's deadline passed.
    CutOff,
    /// A worker panicked.
    WorkerFailed,
}

/// Runs a configuration until a signal ends it, and reloads it when `watch` sees its file change: started before the file
/// was read, so that no change is missed. Prints its addresses once every socket is open, then the text that `after`
/// makes of the first of either.
///
/// # Errors
/// See [`Stopped`].
pub fn run(
    config: Config,
    plan: Plan,
    inheritance: Inheritance,
    watch: Option<ConfigWatch>,
    after: impl FnOnce(&str, Option<&str>) -> String,
) -> Result<(), Stopped> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|it| Stopped::AtStart(format!("The event loop cannot be created: {it}.")))?;
    // Before the output: a program that reads it may send one.
    let signals = {
        let _within = runtime.enter();
        Signals::new()
            .map_err(|it| Stopped::AtStart(format!("Signals cannot be received: {}.", plain(&it))))?
    };
    // From here on its readings are times since the start.
    let _ = larder_stdx::clock::precise_micros();
    if let Some(second) = test_clock() {
        larder_stdx::clock::stop_at(second);
    }
    // Before the start, which may take seconds: its file may be replaced from now on.
    let program = program::of_this_process();
    let started = start::start(config, plan, inheritance, after).map_err(Stopped::AtStart)?;
    let Started { running, purge_worker, nodes, threads, admin, access, audit, inbox, predecessor } = started;
    // The system takes all memory back at once when the process ends: returning a million pages one by one first would
    // delay the stop by seconds.
    std::mem::forget(running.shared.store.clone());
    let tasks = LocalSet::new();
    let nodes = {
        let _within = (runtime.enter(), tasks.enter());
        let WorkerShared { lower, store, own, .. } = &running.shared;
        let teller = running.errors.of(Subsystem::Purge);
        nodes.and_then(|it| Cluster::start(it, lower, store.clone(), own.clone(), &teller))
    };
    let peer = Rc::<PurgePeer>::default();
    tasks.spawn_local(purge_worker.work(nodes.clone(), peer.clone(), running.shared.room_to_give.clone()));
    let supervisor = Supervisor {
        running,
        nodes,
        manager: Rc::new(ServiceManager::of_environment()),
        program,
        peer,
        successor: RefCell::default(),
        followed: RefCell::default(),
        standings: FollowStates::default(),
        admin_sockets: admin.iter().map(ListeningSocket::handle).collect(),
        admin_worker: RefCell::default(),
        upgrading: Cell::new(false),
        is_replaced: Rc::default(),
        replaces: predecessor.is_some(),
    };
    {
        let _within = (runtime.enter(), tasks.enter());
        supervisor.join_predecessor(predecessor);
    }
    tasks.block_on(&runtime, supervisor.supervise(signals, watch, (admin, access, audit), inbox, threads))
}

/// The second since the Unix epoch at which the wall clock is stopped, so that a test moves it (`POST /test/clock`). In
/// debug builds only.
fn test_clock() -> Option<u64> {
    if !cfg!(debug_assertions) {
        return None;
    }
    std::env::var("LARDER_TEST_CLOCK").ok()?.parse().ok()
}

/// The main thread's state: it supervises the workers, and does everything that does not belong to one request.
struct Supervisor {
    running: Running,
    /// The other nodes of the fleet.
    nodes: Option<Rc<Cluster>>,
    /// The service manager, which follows the state of this process.
    manager: Rc<ServiceManager>,
    /// The program that an upgrade starts.
    program: Option<PathBuf>,
    /// The other process of an upgrade, while there is one.
    peer: Rc<PurgePeer>,
    /// The connection to the process that replaced this one.
    successor: RefCell<Option<JoinHandle<()>>>,
    /// The task that follows databases.
    followed: RefCell<Option<JoinHandle<()>>>,
    /// The state of each followed database.
    standings: FollowStates,
    /// The admin's sockets.
    admin_sockets: Vec<SocketHandle>,
    /// The connections of the admin.
    admin_worker: RefCell<Option<Rc<TransportWorker>>>,
    /// Whether an upgrade is in progress.
    upgrading: Cell<bool>,
    /// Whether another process takes over, or has: the admin refuses changes.
    is_replaced: Rc<Cell<bool>>,
    /// Whether this process replaces another in an upgrade.
    replaces: bool,
}

/// The events that wake the main thread.
enum Wakeup {
    Reload(&'static str),
    Ordered(ReloadOrder),
    Reopen,
    Stop,
    Upgrade(UpgradeOrder),
    /// The end of an upgrade.
    Upgraded(UpgradeOrder, Result<Successor, String>),
    /// A worker panicked.
    Failed,
    Look,
}

impl Supervisor {
    /// Starts the tasks of this thread that last as long as it does.
    fn begin_upkeep(&self, inbox: &watch::Receiver<WorkerState>) {
        tokio::task::spawn_local(watch_memory(
            self.running.shared.store.clone(),
            self.running.shared.room_to_give.clone(),
        ));
        let release = MemoryRelease::new(
            self.running.shared.room_to_give.clone(),
            self.running.shared.own.clone(),
            None,
        );
        let (store, room) = (self.running.shared.store.clone(), self.running.shared.room_to_give.clone());
        tokio::task::spawn_local(memory_release::sweep(store, inbox.clone(), room, release));
        self.follow_databases(inbox);
        if let Some(within) = self.manager.watchdog {
            tokio::task::spawn_local(show_life(self.manager.clone(), within));
        }
        self.manager.ready(&self.status());
        if !self.replaces {
            self.storing()();
        }
        tokio::task::spawn_local(acme::keep(inbox.clone(), self.acme_context()));
    }

    async fn supervise(
        self,
        mut signals: Signals,
        mut file: Option<ConfigWatch>,
        admin: (Vec<ListeningSocket>, AdminAccess, Audit),
        inbox: watch::Receiver<WorkerState>,
        threads: Vec<ThreadHandle<()>>,
    ) -> Result<(), Stopped> {
        let (orders, mut reloads) = mpsc::channel(1);
        let configuring = Configuring::new(self.running.plan.clone(), orders);
        let (upgrades, mut upgrade_orders) = mpsc::channel(1);
        let admin = self.open_admin(admin, inbox.clone(), configuring, upgrades);
        self.begin_upkeep(&inbox);
        let mut limits = LimitWatch::default();
        let disk = DiskWatch::new(&self.running.shared.lower, &self.running.errors);
        let mut upgrade: Option<UpgradeInProgress<'_>> = None;
        let drained = loop {
            let event = tokio::select! {
                event = signals.next() => event,
                Some(order) = upgrade_orders.recv() => Wakeup::Upgrade(order),
                (order, outcome) = end_of(&mut upgrade) => Wakeup::Upgraded(order, outcome),
                Some(order) = reloads.recv() => Wakeup::Ordered(order),
                _ = self.running.shared.failure.happened() => Wakeup::Failed,
            };
            match event {
                Wakeup::Stop | Wakeup::Failed => break DrainReason::Stopped,
                Wakeup::Upgrade(order) => match self.obstacle(upgrade.is_some()) {
                    None => upgrade = Some(Box::pin(self.upgrade(order))),
                    Some(why) => self.upgrade_failed(order, why),
                },
                Wakeup::Upgraded(order, Ok(successor)) => {
                    if let Some(it) = &admin {
                        it.end_history(HistoryEnd::Replaced);
                        it.audit.keep_no_more();
                    }
                    self.upgraded(order, successor);
                    break DrainReason::Replaced;
                }
                Wakeup::Upgraded(order, Err(why)) => {
                    upgrade = None;
                    self.is_replaced.set(false);
                    self.follow_databases(&inbox);
                    self.manager.ready(&self.status());
                    self.upgrade_failed(order, why);
                }
                Wakeup::Reopen => self.reopen_logs(admin.as_deref()),
                Wakeup::Reload(why) => self.reload_watched(why, file.as_mut(), admin.as_deref()),
                Wakeup::Ordered(order) => {
                    let outcome = self.reload_for(admin.as_deref());
                    file.iter_mut().for_each(|it| {
                        it.taken();
                        it.decided(outcome.is_err());
                    });
                    // The requester may be gone; it is done even so.
                    let _ = order.outcome.send(outcome);
                }
                Wakeup::Look => {
                    // A change during an upgrade is noticed after it.
                    let may_reload = upgrade.is_none();
                    if may_reload && file.as_mut().is_some_and(ConfigWatch::changed) {
                        self.reload_watched("the file changed", file.as_mut(), admin.as_deref());
                    }
                    disk.look(&self.running.shared.store);
                    self.check_each_second(admin.as_deref(), &mut limits);
                }
            }
        };
        drop(upgrade);
        self.drain(threads, admin, drained).await
    }

    /// Looks at what needs it once a second.
    fn check_each_second(&self, admin: Option<&Admin>, limits: &mut LimitWatch) {
        self.look_at_certificates(admin);
        self.look_at_access_files();
        larder_stdx::clock::tick();
        admin.iter().for_each(|it| it.audit.tick());
        let now = larder_stdx::clock::monotonic();
        self.running.shared.overlays.sweep(now);
        self.running.shared.traces.sampling.expire(now);
        if larder_stdx::descriptors::are_scarce() {
            self.running.orders.borrow().live.let_files_go();
        }
        let sums = self.running.shared.totals.sums();
        limits.log_changes(now, sums.into_iter(), &self.running.errors);
        admin.iter().for_each(|it| drop(it.judge_state()));
        admin.iter().for_each(|it| it.update_history());
        admin.iter().for_each(|it| it.keep_sums());
    }

    /// The access logs: that of all sites first.
    fn access_logs(&self, of_sites: &OpenSiteLogs) -> Vec<Arc<AccessLog>> {
        std::iter::once(&self.running.log).chain(of_sites.files()).cloned().collect()
    }

    /// Opens the logs again: they were rotated.
    fn reopen_logs(&self, admin: Option<&Admin>) {
        self.running.log.reopen();
        self.running.orders.borrow().site_logs.files().for_each(|it| it.reopen());
        self.running.errors.reopen();
        admin.iter().for_each(|it| it.audit.reopen());
    }

    fn acme_context(&self) -> acme::AcmeContext {
        acme::AcmeContext {
            overlays: self.running.shared.overlays.clone(),
            errors: self.running.errors.clone(),
            counters: self.running.shared.own.clone(),
            registry: self.running.registry.clone(),
            fleet: self.running.shared.lower.fleet(&self.running.shared.store, &self.running.shared.own),
        }
    }

    fn open_admin(
        &self,
        (bound, access, audit): (Vec<ListeningSocket>, AdminAccess, Audit),
        inbox: watch::Receiver<WorkerState>,
        configuring: Configuring,
        upgrades: mpsc::Sender<UpgradeOrder>,
    ) -> Option<Rc<Admin>> {
        if bound.is_empty() {
            return None;
        }
        let live = inbox.borrow().live.clone();
        let counters = self.running.shared.totals.add_part();
        let shared = &self.running.shared;
        let lower = shared.lower.of_worker(&shared.store, &counters);
        let gateway = Gateway::new(shared.store.clone(), counters.clone(), shared.gateway.clone(), lower);
        self.keep_audit(&audit, &live.config);
        let admin = Rc::new(Admin {
            access: self.with_sessions(access),
            held: Rc::default(),
            audit,
            gateway,
            router: RefCell::default(),
            live: RefCell::new(live.clone()),
            public: RefCell::new(self.running.public.borrow().clone()),
            totals: self.running.shared.totals.clone(),
            counters: counters.clone(),
            purges: self.running.purge_queue.clone(),
            traces: shared.traces.clone(),
            tops: shared.tops.clone(),
            recent: shared.recent.clone(),
            recorder: shared.recorder.clone(),
            coders: shared.coders.clone(),
            stream: shared.stream.clone(),
            nodes: self.nodes.clone(),
            followed: self.standings.clone(),
            overlays: shared.overlays.clone(),
            certificates: self.running.registry.clone(),
            heap: shared.heap.clone(),
            measured: larder_admin::MeasuredMemory::default(),
            failure: shared.failure.clone(),
            server_state: ServerState::default(),
            recent_sums: RecentSums::default(),
            judged: JudgedRequests::default(),
            history: self.open_history(&live.config),
            is_replaced: self.is_replaced.clone(),
            configuring,
            upgrades,
            listing: larder_admin::WalkLocks::default(),
            clock_moves: test_clock().is_some(),
        });
        admin.apply_config(live.clone(), self.running.orders.borrow().addresses.tls_port());
        let orders = self.running.orders.borrow();
        admin.server_state.set_logs(self.access_logs(&orders.site_logs));
        drop(orders);
        self.running.not_restored.iter().for_each(|it| admin.server_state.not_restored(it));
        let _ = admin.judge_state();
        admin.update_history();
        tokio::task::spawn_local(Admin::judge_recent_requests(Rc::downgrade(&admin)));
        // Its own counters: requests to the admin are not client requests.
        let mut limits = live.config.limits.client;
        // Its own share, so that many clients cannot lock the operator out.
        limits.connections = limits.connections.min(shared.shares.for_admin);
        let worker = TransportWorker::new(Arc::default(), limits);
        tokio::task::spawn_local(worker.clone().watch());
        self.admin_worker.replace(Some(worker.clone()));
        for bound in bound {
            tokio::task::spawn_local(listener::serve(bound, worker.clone(), admin.clone()));
        }
        Some(admin)
    }

    /// The access of the admin, with the sessions of the process before.
    fn with_sessions(&self, access: AdminAccess) -> AdminAccess {
        if let Ok(path) = token::state_place_of("sessions", self.running.plan.file().as_deref()) {
            access.keep_sessions(path);
        }
        access
    }

    /// Gives the audit log the entries of the process before, if no file of its own has them.
    fn keep_audit(&self, audit: &Audit, config: &Config) {
        let place = || token::state_place_of("audit", self.running.plan.file().as_deref());
        if let (None, Ok(path)) = (&config.admin.audit, place()) {
            audit.keep_in(path);
        }
    }

    fn open_history(&self, config: &Config) -> HistoryState {
        let shared = &self.running.shared;
        let path = config.admin.history.file(self.running.plan.file().as_deref());
        HistoryState::open(
            path,
            self.replaces,
            shared.tops.clone(),
            shared.worst.clone(),
            self.running.errors.clone(),
        )
    }

    /// The state of a running server, in one line for the service manager.
    fn status(&self) -> String {
        format!("serving on {}", self.running.public.borrow().join(", "))
    }

    /// Reloads, and reports it to the service manager.
    fn reload(&self, why: &str, admin: Option<&Admin>) -> Result<(), String> {
        if self.upgrading.get() {
            let refusal = "an upgrade is in progress";
            self.running.errors.event(Level::Warn, "reload-refused", &[("because", why), ("why", refusal)]);
            return Err("An upgrade is in progress: the new process reads the configuration.".to_owned());
        }
        self.manager.reloading();
        let outcome = self.reload_unannounced(why, admin);
        // A rejected configuration is no failed service.
        self.manager.ready(&match &outcome {
            Ok(()) => self.status(),
            Err(why) => format!("{}; a new configuration was rejected: {why}", self.status()),
        });
        outcome
    }

    /// Reloads, and records the outcome in the watch, so that a rejected configuration is tried again when one of its files changes.
    fn reload_watched(&self, why: &str, file: Option<&mut ConfigWatch>, admin: Option<&Admin>) {
        let Some(file) = file.filter(|_| !self.upgrading.get()) else { return drop(self.reload(why, admin)) };
        // Before it is read: a change meanwhile is noticed.
        file.taken();
        let outcome = self.reload(why, admin);
        file.decided(outcome.is_err());
    }

    /// Reloads by an order of the admin, which restores the earlier text after a rejection.
    fn reload_for(&self, admin: Option<&Admin>) -> Result<(), String> {
        let refused = admin.and_then(|it| it.server_state.refused());
        let outcome = self.reload("requested through the admin", admin);
        if let (Err(_), Some(admin)) = (&outcome, admin) {
            admin.server_state.restore_refused(refused);
        }
        outcome
    }

    /// Takes over a changed configuration, or keeps the old one and logs the reason.
    fn reload_unannounced(&self, why: &str, admin: Option<&Admin>) -> Result<(), String> {
        let Some(file) = self.running.plan.file() else {
            let why = "larder was started without a configuration file";
            self.running.errors.event(Level::Warn, "reload-refused", &[("why", why)]);
            return Err(why.to_owned());
        };
        match self.running.prepare(admin) {
            Ok(new) => {
                self.put_in_force(new, admin);
                self.running.shared.own.config_reloads.add_shared(1);
                let file = file.display().to_string();
                self.running.errors.event(Level::Info, "reloaded", &[("file", &file), ("because", why)]);
                Ok(())
            }
            Err(problems) => {
                self.running.shared.own.config_rejections.add_shared(1);
                admin.iter().for_each(|it| it.server_state.refuse(&problems));
                // One line of the log for each error.
                for problem in problems.lines() {
                    let values = [
                        ("because", why),
                        ("why", problem),
                        ("now", "the running configuration stays in force"),
                    ];
                    self.running.errors.event(Level::Error, "reload-refused", &values);
                }
                Err(problems)
            }
        }
    }

    /// Puts a configuration in force in every part, and logs its warnings and the keys that wait for the next start.
    fn put_in_force(&self, new: Prepared, admin: Option<&Admin>) {
        let Prepared { live, addresses, site_logs, waiting } = new;
        ram_snapshot::discard_old(&self.running.orders.borrow().live.config, &live.config);
        self.running.apply_config(&live);
        start::log_warnings(&self.running.errors, &live.config);
        waiting.iter().for_each(|it| {
            self.running.errors.event(Level::Info, "restart-pending", &[("why", &it.to_string())]);
        });
        let errors = self.running.errors.clone();
        larder_config::names::warn_of_unknown(&live.config, move |it| start::log_warning(&errors, &it));
        if let Some(admin) = admin {
            admin.apply_config(live.clone(), addresses.tls_port());
            admin.server_state.in_force(waiting.iter().map(|it| it.key.clone()).collect());
            admin.server_state.set_logs(self.access_logs(&site_logs));
        }
        let tls = self.running.certificates.borrow().as_ref().map(tls::CertificateStore::tls);
        let moved = !addresses.are(&self.running.orders.borrow().addresses);
        let public = addresses.names();
        self.running.orders.send_modify(|it| {
            it.live = live;
            it.addresses = addresses;
            it.site_logs = Arc::new(site_logs);
            it.tls = tls;
        });
        if moved {
            let listen = public.join(",");
            self.running.errors.event(Level::Info, "listening", &[("listen", &listen)]);
            admin.iter().for_each(|it| drop(it.public.replace(public.clone())));
            self.running.public.replace(public);
            self.storing()();
            self.running.write_run_file();
        }
    }

    /// Takes over certificates whose files have changed, or keeps the old ones and logs the reason.
    fn look_at_certificates(&self, admin: Option<&Admin>) {
        let certificates = self.running.certificates.borrow();
        let Some(certificates) = &*certificates else { return };
        if certificates.changed() {
            let live = self.running.orders.borrow().live.clone();
            let outcome = certificates.apply_config(&live.config, &self.running.errors);
            admin.iter().for_each(|it| {
                it.server_state.certificates(outcome.as_ref().copied().map_err(String::as_str))
            });
            match outcome {
                Ok(()) => self.running.errors.event(Level::Info, "certificates-reloaded", &[]),
                Err(why) => {
                    self.running.shared.own.config_rejections.add_shared(1);
                    let values = [("why", why.as_str()), ("now", "the previous certificates stay in use")];
                    self.running.errors.event(Level::Error, "certificates-rejected", &values);
                }
            }
        }
        certificates.look(&self.running.errors, &self.running.shared.own);
    }

    /// Reads files of users, keys and countries that were replaced, or keeps what was read before.
    fn look_at_access_files(&self) {
        let live = self.running.orders.borrow().live.clone();
        live.look_at_access_files(&self.running.shared.own, &self.running.errors);
    }
}

/// Sends the watchdog of the service manager a sign of life twice in its interval, as long as the main thread runs.
async fn show_life(manager: Rc<ServiceManager>, within: Duration) {
    let mut tick = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        manager.alive();
    }
}

/// Lets the store check the process's memory: see docs/decisions/0020-resident-memory.md. While it takes too much, all
/// threads are signalled to return memory.
async fn watch_memory(store: Arc<Store>, room: memory_release::ReleaseSignal) {
    let mut checks = 0_u32;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        store.watch_memory();
        checks += 1;
        if checks % EACH_COLLECTS == 0 && store.usable() < store.budget() {
            room.signal();
        }
    }
}

struct Signals {
    hangup: Signal,
    reopen: Signal,
    upgrade: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// A file that would grow beyond `ulimit -f`: handled, it is a write error; unhandled, it ends the process.
    _file_too_large: Signal,
    look: tokio::time::Interval,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let mut look = tokio::time::interval(Duration::from_secs(1));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _file_too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
            look,
        })
    }

    async fn next(&mut self) -> Wakeup {
        tokio::select! {
            _ = self.hangup.recv() => Wakeup::Reload("SIGHUP"),
            _ = self.reopen.recv() => Wakeup::Reopen,
            _ = self.upgrade.recv() => Wakeup::Upgrade(upgrading::by_signal()),
            _ = self.terminate.recv() => Wakeup::Stop,
            _ = self.interrupt.recv() => Wakeup::Stop,
            _ = self.look.tick() => Wakeup::Look,
        }
    }
}
