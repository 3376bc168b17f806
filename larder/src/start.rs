//! The start, in three phases: sockets, storage, running. Each opens all that it needs or fails; a failure leaves no
//! half-started parts.

use crate::inheritance::Inheritance;
use crate::privileges::{self, PrivilegeChange};
use crate::ram_snapshot::{self, RamHolder};
use crate::sandbox::{self, SandboxEntry};
use crate::sockets::Sockets;
use crate::started::{self, AccessUrls};
use crate::storage::{SharedStorage, Storage};
use crate::upgrade::fault_injection::inject_fault;
use crate::upgrade::new_process::{Predecessor, PredecessorLink, WantedState};
use crate::upgrade::switched_state::HandedPurges;
use larder_admin::{AdminAccess, Audit};
use larder_config::plan::Plan;
use larder_config::run_file::RunFile;
use larder_config::token::{self, Token, TokenPlace};
use larder_config::{Config, Problem, names};
use larder_counters::Counters;
use larder_observe::log::{AccessLog, ErrorLog, Level, LogTarget, Subsystem};
use larder_observe::stream::Hub;
use larder_observe::telemetry::Telemetry;
use larder_server::addresses::OpenAddresses;
use larder_server::certificate_registry::CertificateRegistry;
use larder_server::cluster::NodesPlan;
use larder_server::counter_sum::CounterSums;
use larder_server::descriptors::DescriptorShares;
use larder_server::live::{Live, WorkerState};
use larder_server::purge::{self, PurgeQueue, PurgeWorker};
use larder_server::resident::Heap;
use larder_server::site_logs::OpenSiteLogs;
use larder_server::{loop_check, tiers, tls};
use larder_stdx::error::plain;
use larder_transport::listener::{ListeningSocket, SocketHandle};
use larder_worker::thread::{self as worker, WorkerLocal, WorkerShared};
use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The running parts after a start.
pub struct Running {
    /// The state shared by all workers.
    pub shared: WorkerShared,
    /// The orders to the workers.
    pub orders: watch::Sender<WorkerState>,
    /// The access log.
    pub log: Arc<AccessLog>,
    /// The error log.
    pub errors: ErrorLog,
    /// The source of the configuration.
    pub plan: Plan,
    /// The client addresses, as printed.
    pub public: RefCell<Vec<String>>,
    /// The address of the admin.
    pub admin_at: Option<SocketAddr>,
    /// The queue of purges.
    pub purge_queue: PurgeQueue,
    /// The certificates; `None` until an address uses TLS.
    pub certificates: RefCell<Option<tls::CertificateStore>>,
    /// The state of all certificates.
    pub registry: Rc<CertificateRegistry>,
    /// The place of the admin's token.
    pub kept: TokenPlace,
    /// Removed when larder stops.
    pub run_file: RefCell<Option<RunFile>>,
    /// Why the snapshot of the RAM tier was not read, if there was one.
    pub not_restored: Option<String>,
}

/// The result of a start: the running parts, and those that the main thread has yet to start.
pub struct Started {
    /// The running parts.
    pub running: Running,
    /// Carries out the purges.
    pub purge_worker: PurgeWorker,
    /// The plan for joining the other nodes of the fleet.
    pub nodes: Option<NodesPlan>,
    /// The workers.
    pub threads: Vec<JoinHandle<()>>,
    /// The admin's sockets.
    pub admin: Vec<ListeningSocket>,
    /// The access rules of the admin.
    pub access: AdminAccess,
    /// The record of requests to the admin.
    pub audit: Audit,
    /// The receiver of the workers' orders.
    pub inbox: watch::Receiver<WorkerState>,
    /// The connection to the larder that this one replaces.
    pub predecessor: Option<PredecessorLink>,
}

/// Opens all parts, and starts the workers.
///
/// # Errors
/// One sentence with the resource that is not available.
pub fn start(
    config: Config,
    plan: Plan,
    inheritance: Inheritance,
    after: impl FnOnce(&str, Option<&str>) -> String,
) -> Result<Started, String> {
    let workers =
        config.workers.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    let Inheritance { sockets: given, predecessor } = inheritance;
    let given = predecessor.as_ref().map_or(Ok(given), Predecessor::sockets)?;
    privileges::prepare(&config)?;
    let sockets = Sockets::open(&config, workers, given)?;
    loop_check::check(&config, sockets.admin_at())?;
    let (config, change) = privileges::give_up_root(config, &plan, &sockets)?;
    let sandbox = sandbox::enter(&config, &plan, &change, predecessor.is_some());
    // The first further thread: it has the privileges that are left.
    names::warn_of_unknown(&config, |it| started::warn(&it));
    let user = config.service_user.clone();
    let bound = BoundStart { config, workers, sockets, predecessor, change, sandbox };
    bound.start(plan, after).map_err(|it| privileges::advised(it, user.as_ref()))
}

/// A start whose sockets are bound, and whose process has the user with which it serves.
struct BoundStart {
    config: Config,
    workers: NonZeroUsize,
    sockets: Sockets,
    predecessor: Option<Predecessor>,
    change: PrivilegeChange,
    sandbox: Option<SandboxEntry>,
}

impl BoundStart {
    /// The rest of the start.
    fn start(self, plan: Plan, after: impl FnOnce(&str, Option<&str>) -> String) -> Result<Started, String> {
        let Self { config, workers, mut sockets, predecessor, change, sandbox } = self;
        let totals = Arc::new(CounterSums::default());
        let own = totals.add_part();
        let operator = Operator::open(&config, &sockets, &totals, &own)?;
        change.log(&operator.errors);
        sandbox.iter().for_each(|it| it.log(&operator.errors));
        let storage = Storage::open(&config, &totals, &own, &operator.errors)?;
        let live = Live::open(config, &storage.coders, &own, workers, None)?;
        let Operator { log, errors, .. } = &operator;
        let site_logs = open_site_logs(&live.config, log, &OpenSiteLogs::default(), errors, &totals)?;
        let telemetry = Telemetry::of(live.config.telemetry.as_ref(), || totals.add_part())?;
        // The last step that can fail without consequences.
        let handed = predecessor.as_ref().map(|it| operator.inherit(it, &live, &storage, &sockets.clients));
        let handed = handed.transpose()?.flatten();
        let first = sockets.clients.names().into_iter().next();
        let Storage { store, .. } = &storage;
        let holder = if predecessor.is_some() { RamHolder::Predecessor } else { RamHolder::None };
        let shared = SharedStorage::open(&live.config, store, &totals, errors, first.as_deref(), handed)?;
        let not_restored = ram_snapshot::restore(&live.config, store, errors, holder).err();
        let (handles, unnamed) = (sockets.handles(), std::mem::take(&mut sockets.unnamed));
        let opened =
            Opened { workers, totals, own, sockets, operator, storage, shared, live, site_logs, telemetry };
        let mut started = opened.run(plan, after)?;
        started.running.not_restored = not_restored;
        if let Some(predecessor) = predecessor {
            predecessor.serving()?;
            log_crash(&predecessor, &started.running.errors);
            started.predecessor = predecessor.link();
        }
        handles.iter().for_each(SocketHandle::own_file);
        drop(unnamed);
        Ok(started)
    }
}

/// The operator's parts: the admin's access, the logs, the certificates.
struct Operator {
    access: AdminAccess,
    kept: TokenPlace,
    errors: ErrorLog,
    log: Arc<AccessLog>,
    audit: Audit,
    certificates: Option<tls::CertificateStore>,
    registry: Rc<CertificateRegistry>,
}

impl Operator {
    fn open(
        config: &Config,
        sockets: &Sockets,
        totals: &CounterSums,
        own: &Arc<Counters>,
    ) -> Result<Self, String> {
        let admin_at = sockets.admin_at();
        let (token, kept) = match admin_at {
            None => (Token::random::<32>().map_err(|it| plain(&it))?, TokenPlace::Variable),
            Some(_) => token::of_server(config.admin.token_file.as_deref())?,
        };
        let access = AdminAccess::new(&token, &config.admin.tokens, admin_at, own.clone());
        let errors = open_errors(config)?;
        let (target, format) = (&config.log.access, config.log.format.clone());
        let log = AccessLog::open(target, format, totals.add_part(), errors.clone())
            .map_err(|it| cannot("access log", target, &it))?;
        let log = Arc::new(log);
        let file = audit_target(config, admin_at);
        let audit = ErrorLog::open(&file).map_err(|it| cannot("audit log", &file, &it))?;
        let audit = Audit::new(&errors, audit, own.clone());
        if let LogTarget::File(path) = &file {
            audit.read_past(path);
        }
        let registry = Rc::default();
        let certificates = tls::CertificateStore::open(config, &errors, &registry)?;
        Ok(Self { access, kept, errors, log, audit, certificates, registry })
    }

    /// Takes the state of the process that this one replaces, but its sockets and its disk tier, which it has closed then. `None` where
    /// it has ended before; RAM is empty then, since it may be older than a purge.
    fn inherit(
        &self,
        from: &Predecessor,
        live: &Live,
        storage: &Storage,
        clients: &OpenAddresses,
    ) -> Result<Option<HandedPurges>, String> {
        let (config, store) = (&live.config, &*storage.store);
        tiers::check_disk(config)?;
        let ram = ram_snapshot::asks(config, &self.errors);
        let wanted =
            WantedState { ram, ticket_keys: self.certificates.is_some(), quic: !clients.quic.is_empty() };
        let Some(mut source) = from.ready(wanted)? else { return Ok(None) };
        if ram {
            ram_snapshot::inherit(config, store, &self.errors, &mut source);
        }
        let Some(state) = from.switch(source)? else {
            store.drop_received();
            return Ok(None);
        };
        if let Some(certificates) = &self.certificates {
            certificates.take_ticket_keys(state.ticket_keys.as_deref(), &self.errors);
        }
        clients.follow_quic(state.quic);
        for why in state.operator.put_in_force(live, &storage.overlays) {
            self.errors.event(Level::Warn, "overlay-not-handed-over", &[("why", &why)]);
        }
        Ok(Some(state.purges))
    }
}

/// Logs how this process goes on after a crash of the one that it replaces.
fn log_crash(predecessor: &Predecessor, errors: &ErrorLog) {
    if let Some(crash) = predecessor.crash() {
        let why = "the running larder ended during the hand-over";
        errors.event(Level::Warn, "predecessor-crashed", &[("why", why), ("now", crash.now())]);
    }
}

/// The result of the first two phases.
struct Opened {
    workers: NonZeroUsize,
    totals: Arc<CounterSums>,
    own: Arc<Counters>,
    sockets: Sockets,
    operator: Operator,
    storage: Storage,
    shared: SharedStorage,
    live: Arc<Live>,
    site_logs: OpenSiteLogs,
    telemetry: Option<Arc<Telemetry>>,
}

impl Opened {
    /// The third phase: puts the configuration in force, starts the workers, and reports the addresses.
    fn run(self, plan: Plan, after: impl FnOnce(&str, Option<&str>) -> String) -> Result<Started, String> {
        let Opened { workers, totals, own, sockets, operator, storage, shared, live, site_logs, telemetry } =
            self;
        let Operator { access, kept, errors, log, audit, certificates, registry } = operator;
        let Storage { store, coders, overlays } = storage;
        let SharedStorage { lower, nodes } = shared;
        let (public, admin_at) = (sockets.clients.names(), sockets.admin_at());
        let (purge_queue, purge_worker) =
            purge::open(store.clone(), &lower, errors.of(Subsystem::Purge), own.clone());
        let shares = DescriptorShares::take(&live.config, &lower, workers, &errors);
        let (ids, tops, recent, recorder, worst, gateway, traces, connection_limit, room_to_give) =
            Default::default();
        let (stream, heap, failure) = (Hub::new(own.clone()), Heap::new(workers), Arc::default());
        store.add_overhead(larder_store::ram::WORKER_OVERHEAD * workers.get() as u64);
        let shared = WorkerShared {
            store,
            lower,
            coders,
            gateway,
            overlays,
            traces,
            telemetry,
            totals,
            own,
            workers,
            connection_limit,
            tops,
            stream,
            ids,
            recent,
            recorder,
            worst,
            room_to_give,
            shares,
            heap,
            failure,
        };
        let tls = certificates.as_ref().map(tls::CertificateStore::tls);
        let (addresses, site_logs) = (sockets.clients, Arc::new(site_logs));
        let first = WorkerState { live: live.clone(), addresses, site_logs, tls, drain: None };
        let (orders, inbox) = watch::channel(first);
        let (public, certificates, run_file) =
            (RefCell::new(public), RefCell::new(certificates), RefCell::default());
        let running = Running {
            shared,
            orders,
            log,
            errors,
            plan,
            public,
            admin_at,
            purge_queue,
            certificates,
            registry,
            kept,
            run_file,
            not_restored: None,
        };
        running.apply_config(&live);
        let threads = running.start_workers(workers, &inbox)?;
        let public = running.public.borrow().clone();
        started::log(&running.errors, &running.plan, &public, &sockets.admin, workers);
        running.write_run_file();
        let certificate =
            running.certificates.borrow().as_ref().map_or_else(String::new, tls::CertificateStore::identity);
        let link = std::io::stdout().is_terminal().then(|| access.page_with_link()).flatten();
        let way_in = AccessUrls { link, kept: &running.kept };
        started::announce(&public, &certificate, &sockets.admin, &way_in, after);
        let (admin, predecessor) = (sockets.admin, None);
        Ok(Started { running, purge_worker, nodes, threads, admin, access, audit, inbox, predecessor })
    }
}

impl Running {
    /// Puts the process-wide part of a configuration in force; workers and the admin have an `apply_config` of their own.
    pub fn apply_config(&self, live: &Live) {
        self.errors.set_levels(live.config.log.levels);
        self.shared.traces.sampling.configure(live.config.trace_rates());
    }

    /// Writes the run file with the present addresses.
    pub fn write_run_file(&self) {
        // The old one is removed before the new one has its name.
        self.run_file.take();
        let socket = &self.orders.borrow().live.config.admin.socket;
        let (public, admin) = (self.public.borrow(), self.admin_at);
        let file = started::write_run_file(&self.errors, &self.plan, &public, admin, socket, &self.kept);
        self.run_file.replace(file);
    }

    /// Starts the workers, and waits until each accepts connections: a process that this one replaces stops accepting then.
    fn start_workers(
        &self,
        workers: NonZeroUsize,
        inbox: &watch::Receiver<WorkerState>,
    ) -> Result<Vec<JoinHandle<()>>, String> {
        let (accepts, accepting) = mpsc::channel();
        let start = |number| self.worker(number, inbox.clone(), accepts.clone());
        let threads = (0..workers.get()).map(start).collect::<Result<Vec<_>, _>>();
        let threads = threads.map_err(|it| format!("A worker cannot be started: {}.", plain(&it)))?;
        drop(accepts);
        match accepting.iter().count() {
            count if count == workers.get() => Ok(threads),
            _ => Err("A worker ended while it started; the error output has the reason.".to_owned()),
        }
    }

    /// Starts a worker.
    fn worker(
        &self,
        number: usize,
        inbox: watch::Receiver<WorkerState>,
        accepts: mpsc::Sender<()>,
    ) -> std::io::Result<JoinHandle<()>> {
        let counters = self.shared.totals.add_part();
        let (log, purges) = (self.log.clone(), self.purge_queue.clone());
        let own = WorkerLocal { counters, log, purges, errors: self.errors.clone() };
        worker::start(number, self.shared.clone(), own, inbox, move || {
            inject_fault("worker");
            let _ = accepts.send(());
        })
    }
}

/// The access logs of sites; those of `before` are kept.
pub fn open_site_logs(
    config: &Config,
    all: &Arc<AccessLog>,
    before: &OpenSiteLogs,
    errors: &ErrorLog,
    totals: &CounterSums,
) -> Result<OpenSiteLogs, String> {
    OpenSiteLogs::open(config, all, before, errors, || totals.add_part())
        .map_err(|(target, it)| cannot("access log", &target, &it))
}

/// The target of the audit log; off without an admin.
pub fn audit_target(config: &Config, admin_at: Option<SocketAddr>) -> LogTarget {
    config.admin.audit.clone().filter(|_| admin_at.is_some()).map_or(LogTarget::Off, LogTarget::File)
}

/// The error for a log that cannot be opened, with the remedy.
pub fn cannot(what: &str, target: &LogTarget, error: &std::io::Error) -> String {
    match target {
        LogTarget::File(path) | LogTarget::Syslog(path) => {
            let help = match error.kind() {
                std::io::ErrorKind::NotFound => "; its directory must exist",
                std::io::ErrorKind::PermissionDenied => {
                    "; grant write access to the user of larder, or use another file"
                }
                _ => "",
            };
            format!("The {what} {} cannot be opened: {}{help}.", path.display(), plain(error))
        }
        LogTarget::Standard | LogTarget::Off => format!("The {what} cannot be opened: {}.", plain(error)),
    }
}

/// The error log, with the warnings of the configuration in it.
fn open_errors(config: &Config) -> Result<ErrorLog, String> {
    let target = &config.log.error;
    let errors = ErrorLog::open(target).map_err(|it| cannot("error log", target, &it))?;
    errors.set_levels(config.log.levels);
    // On standard error they are already.
    if *target != LogTarget::Standard {
        log_warnings(&errors, config);
    }
    Ok(errors)
}

/// Logs the warnings of a configuration.
pub fn log_warnings(errors: &ErrorLog, config: &Config) {
    config.warnings.iter().for_each(|it| log_warning(errors, it));
}

pub fn log_warning(errors: &ErrorLog, it: &Problem) {
    errors.event(Level::Warn, "config-warning", &[("why", &it.to_string())]);
}
