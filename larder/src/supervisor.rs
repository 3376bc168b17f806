//! The running server: binds, starts the workers and the admin, watches the configuration, obeys signals, drains.
//! What a request meets is in `front`; what a configuration may say is in `larder_config`.

use crate::started;
use larder_admin::{Admin, AdminAccess, Audit, ConfigDeed, Configuring, ReloadOrder};
use larder_config::plan::Plan;
use larder_config::run_file::RunFile;
use larder_config::token::{self, Token, TokenPlace};
use larder_config::{AdminListen, Config, Problem};
use larder_gateway::Gateway;
use larder_gateway::coding::pool::Coders;
use larder_observe::log::{AccessLog, Closed, ErrorLog, Level, LimitWatch, LogTarget, Subsystem};
use larder_observe::stream::Hub;
use larder_observe::telemetry::Telemetry;
use larder_observe::traces::Traces;
use larder_server::cluster::Cluster;
use larder_server::counter_sum::CounterSums;
use larder_server::descriptors::Shares;
use larder_server::live::{Live, Orders};
use larder_server::overlay::Overlays;
use larder_server::purge::{PurgeQueue, PurgeWorker};
use larder_server::quiet::Quiet;
pub use larder_server::reload::FileWatch;
use larder_server::resident::Heap;
use larder_server::tiers::{DiskWatch, Lower};
use larder_server::worker::{Own, WorkerShared};
use larder_server::{cluster, loop_check, purge, quiet, reload, tiers, tls, worker};
use larder_stdx::error::plain;
use larder_store::Store;
use larder_transport::listener::{self, Bound, Listen};
use larder_transport::worker::TransportWorker;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

/// How long the logs may take to be written at the stop.
const LOG_CLOSE: Duration = Duration::from_secs(1);

/// How often the store looks what the process takes; it looks by itself while fills come.
const MIND: Duration = Duration::from_millis(200);
/// Every so many looks that find too much, threads look through their pages: a second.
const EACH_COLLECTS: u32 = 5;

/// Why a server that was to run does not.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// One sentence: what could not be had at start. Nothing was started then.
    AtStart(String),
    /// Requests were cut off when it stopped: the drain's deadline passed.
    CutOff,
}

/// Runs a configuration until a signal ends it, and reads it anew when `watch` sees its file change: begun before
/// the file was read, so that no change is missed. Prints its addresses once every socket is open, then what `after`
/// makes of the first of either.
///
/// # Errors
/// See [`Stopped`].
pub fn run(
    config: Config,
    plan: Plan,
    watch: Option<FileWatch>,
    after: impl FnOnce(&str, Option<&str>) -> String,
) -> Result<(), Stopped> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|it| Stopped::AtStart(format!("The event loop cannot be created: {it}.")))?;
    // Before anything is printed: whoever reads that may send one.
    let signals = {
        let _within = runtime.enter();
        Signals::new()
            .map_err(|it| Stopped::AtStart(format!("Signals cannot be received: {}.", plain(&it))))?
    };
    // From here on its readings are times since the start.
    let _ = larder_stdx::clock::precise_micros();
    if let Some(second) = test_clock() {
        larder_stdx::clock::stand_at(second);
    }
    let started = start(config, plan, after).map_err(Stopped::AtStart)?;
    let Started { mut house, clerk, nodes, threads, admin, access, audit, inbox, run_file: _run_file } =
        started;
    // The system takes all memory back at once when the process ends: giving a million pages back one by one first
    // would take seconds, for which whoever stops larder waits.
    std::mem::forget(house.shared.store.clone());
    let tasks = LocalSet::new();
    {
        let _within = (runtime.enter(), tasks.enter());
        let WorkerShared { lower, store, own, .. } = &house.shared;
        let teller = house.errors.of(Subsystem::Purge);
        house.nodes = nodes.and_then(|it| Cluster::start(it, lower, store.clone(), own.clone(), &teller));
    }
    tasks.spawn_local(clerk.work(house.nodes.clone(), house.shared.room_to_give.clone()));
    tasks.block_on(&runtime, house.keep(signals, watch, (admin, access, audit), inbox, threads))
}

/// The second since the Unix epoch at which the wall clock is to stand, so that a test moves it (`POST /test/clock`).
fn test_clock() -> Option<u64> {
    std::env::var("LARDER_TEST_CLOCK").ok()?.parse().ok()
}

/// What [`start`] has opened.
struct Started {
    house: Supervisor,
    clerk: PurgeWorker,
    nodes: Option<cluster::NodesPlan>,
    threads: Vec<JoinHandle<()>>,
    admin: Vec<Bound>,
    access: AdminAccess,
    audit: Audit,
    inbox: watch::Receiver<Orders>,
    /// Removed when larder stops.
    run_file: Option<RunFile>,
}

/// Opens everything, in an order in which whatever fails leaves nothing half-started.
fn start(
    config: Config,
    plan: Plan,
    after: impl FnOnce(&str, Option<&str>) -> String,
) -> Result<Started, String> {
    let workers =
        config.workers.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    // Sockets first: they are what fails most, and what is dropped again leaves nothing behind.
    let sockets = bind_all(&config, workers)?;
    let admin = bind_admin(&config)?;
    let totals = Arc::new(CounterSums::default());
    let own = totals.add_part();
    let admin_at = admin.first().and_then(Bound::tcp);
    loop_check::check(&config, admin_at)?;
    let (token, kept) = match admin.is_empty() {
        true => (Token::random::<32>().map_err(|it| plain(&it))?, TokenPlace::Variable),
        false => token::of_server(config.admin.token_file.as_deref())?,
    };
    let access = AdminAccess::new(token.clone(), admin_at, own.clone());
    let errors = open_errors(&config)?;
    let log =
        AccessLog::open(&config.log.access, config.log.format.clone(), totals.add_part(), errors.clone())
            .map_err(|it| cannot("access log", &config.log.access, &it))?;
    let file =
        config.admin.audit.clone().filter(|_| admin_at.is_some()).map_or(LogTarget::Off, LogTarget::File);
    let audit = ErrorLog::open(&file).map_err(|it| cannot("audit log", &file, &it))?;
    let audit = Audit::new(&errors, audit, own.clone());
    let keeper = tls::CertificateStore::open(&config, &errors)?;
    let store = Store::new(config.ram, totals.add_part()).map_err(|it| no_ram(&it))?;
    tiers::open_spool(&config, &store, &errors);
    let lower = Lower::open(&config, &store, || totals.add_part(), &errors)?;
    let coders = Coders::new(store.clone(), totals.add_part(), config.coding);
    let public: Vec<String> = sockets[0].iter().map(Bound::to_string).collect();
    let nodes = cluster::NodesPlan::new(config.fleet.as_ref(), public.first().map(String::as_str), &store);
    let live = Live::open(config, &own, workers, None)?;
    let telemetry = Telemetry::of(live.config.telemetry.as_ref(), || totals.add_part())?;
    let traces = Traces::of(live.config.trace_rates());
    let (desk, clerk) = purge::open(store.clone(), &lower, errors.of(Subsystem::Purge), own.clone());
    let shares = Shares::take(&live.config, &lower, workers, &errors);
    let (ids, tops, recent, refusals) = Default::default();
    let shared = WorkerShared {
        recent,
        tops,
        stream: Hub::new(own.clone()),
        ids,
        lower,
        coders,
        refusals,
        overlays: Overlays::new(store.clone(), own.clone()),
        store,
        telemetry,
        traces,
        totals,
        own,
        workers,
        places: Arc::default(),
        shares,
        heap: Heap::new(workers),
        room_to_give: quiet::ReleaseSignal::default(),
    };
    shared.store.allow_beside(larder_store::ram::OUTSIDE_OF_A_WORKER * workers.get() as u64);
    let (orders, inbox) = watch::channel(Orders { live, drain: false });
    let threads = sockets
        .into_iter()
        .enumerate()
        .map(|(number, sockets)| {
            let counters = shared.totals.add_part();
            let (log, purges) = (log.worker(counters.clone()), desk.clone());
            let tls = keeper.as_ref().map(tls::CertificateStore::tls);
            let own = Own { sockets, tls, counters, log, purges, errors: errors.clone() };
            worker::start(number, shared.clone(), own, inbox.clone())
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|it| format!("A worker cannot be started: {}.", plain(&it)))?;
    started::tell(&errors, &plan, &public, &admin, workers);
    let run_file = started::write_run_file(&errors, &plan, &public, admin_at, &orders, &kept);
    let certificate = keeper.as_ref().map_or_else(String::new, tls::CertificateStore::tell);
    let way_in = WayIn { link: access.link_here(), kept: &kept };
    announce(&public, &certificate, &admin, &way_in, after);
    let house = Supervisor { shared, orders, log, errors, plan, public, admin_at, desk, nodes: None, keeper };
    Ok(Started { house, clerk, nodes, threads, admin, access, audit, inbox, run_file })
}

/// Why there is no RAM tier, and what would help.
fn no_ram(error: &std::io::Error) -> String {
    let help = match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            "; its arena is a file in memory that exceeds `ulimit -f`: raise that limit"
        }
        _ => "",
    };
    format!("The RAM tier cannot be created: {}{help}.", plain(error))
}

/// Why a log cannot be opened, and what would help.
fn cannot(what: &str, target: &LogTarget, error: &std::io::Error) -> String {
    match target {
        LogTarget::File(path) => {
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
        tell_warnings(&errors, config);
    }
    Ok(errors)
}

/// What a configuration is taken with, and should not go unseen.
fn tell_warnings(errors: &ErrorLog, config: &Config) {
    config.warnings.iter().for_each(|it| tell_warning(errors, it));
}

fn tell_warning(errors: &ErrorLog, it: &Problem) {
    errors.event(Level::Warn, "config-warning", &[("why", &it.to_string())]);
}

/// How somebody gets into the admin.
struct WayIn<'a> {
    link: Option<String>,
    kept: &'a TokenPlace,
}

impl WayIn<'_> {
    /// As it is printed at the start: a link for a browser. Where the token is in no file, standard error says what to do; the token itself
    /// is never printed, as the output of a service is kept where others read it.
    fn tell(&self) -> String {
        let mut text = String::new();
        if let Some(link) = &self.link {
            text.push_str(&format!("log in at {link} (once, within 10 minutes)\n"));
        }
        if let TokenPlace::Nowhere(why) = self.kept {
            eprintln!(
                "larder: The admin token cannot be kept ({why}), so commands cannot log in; set admin.token_file to a file that larder can \
                 write, or set {}.",
                token::VARIABLE
            );
        }
        text
    }
}

/// Says where everything is. Tests and people read these lines.
fn announce(
    public: &[String],
    certificate: &str,
    admin: &[Bound],
    way_in: &WayIn<'_>,
    after: impl FnOnce(&str, Option<&str>) -> String,
) {
    use std::io::Write;
    let mut text = String::new();
    for address in public {
        text.push_str(&format!("listening on {address}\n"));
    }
    text.push_str(certificate);
    for address in admin {
        text.push_str(&format!("admin on {address}\n"));
    }
    match admin.is_empty() {
        true => text.push_str("admin off\n"),
        false => text.push_str(&way_in.tell()),
    }
    if let Some(first) = public.first() {
        let admin = admin.first().map(Bound::to_string);
        text.push_str(&after(first, admin.as_deref()));
    }
    let mut out = std::io::stdout().lock();
    // Nobody reads: no reason not to serve.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// One set of listening sockets for each worker: `SO_REUSEPORT` spreads connections over them.
fn bind_all(config: &Config, workers: NonZeroUsize) -> Result<Vec<Vec<Bound>>, String> {
    let mut first = Vec::new();
    for entrance in &config.listen {
        first.push(listener::bind(&entrance.at)?.after(entrance.preamble));
    }
    let mut all = Vec::new();
    for _ in 1..workers.get() {
        let set: Result<Vec<Bound>, String> = first.iter().map(Bound::another).collect();
        all.push(set?);
    }
    all.insert(0, first);
    Ok(all)
}

/// The admin's address, and its Unix socket if there is to be one; nothing where the admin is off.
fn bind_admin(config: &Config) -> Result<Vec<Bound>, String> {
    // The sentence is that of a public address, and names that one's flag.
    let of_admin = |sentence: String| sentence.replace("--listen", "--admin");
    let Some(first) = bind_admin_address(config).map_err(of_admin)? else { return Ok(Vec::new()) };
    let mut all = vec![first];
    if let Some(path) = &config.admin.socket {
        all.push(listener::bind_private(path).map_err(|it| it.replace("--listen", "--admin-socket"))?);
    }
    Ok(all)
}

fn bind_admin_address(config: &Config) -> Result<Option<Bound>, String> {
    match config.admin.listen {
        AdminListen::Off => Ok(None),
        AdminListen::At(address) => listener::bind_alone(&Listen::Tcp(address)).map(Some),
        AdminListen::From(address) => {
            let ports = larder_config::admin_ports(address.port());
            let mut refused = String::new();
            for port in ports {
                match listener::bind_alone(&Listen::Tcp(SocketAddr::new(address.ip(), port))) {
                    Ok(bound) => return Ok(Some(bound)),
                    Err(sentence) => refused = sentence,
                }
            }
            Err(refused)
        }
    }
}

/// The main thread's own: it keeps the workers, and does everything that is not about one request.
struct Supervisor {
    shared: WorkerShared,
    orders: watch::Sender<Orders>,
    log: AccessLog,
    errors: ErrorLog,
    plan: Plan,
    /// Where clients are served, as printed.
    public: Vec<String>,
    /// Where the admin listens.
    admin_at: Option<SocketAddr>,
    /// Where purges are brought.
    desk: PurgeQueue,
    /// The certificates.
    keeper: Option<tls::CertificateStore>,
    /// The other nodes of the fleet.
    nodes: Option<Rc<Cluster>>,
}

/// What the main thread wakes up for.
enum Wakeup {
    Reload(&'static str),
    Ordered(ReloadOrder),
    Reopen,
    Stop,
    Look,
}

impl Supervisor {
    async fn keep(
        self,
        mut signals: Signals,
        mut file: Option<FileWatch>,
        admin: (Vec<Bound>, AdminAccess, Audit),
        inbox: watch::Receiver<Orders>,
        threads: Vec<JoinHandle<()>>,
    ) -> Result<(), Stopped> {
        let (orders, mut reloads) = mpsc::channel(1);
        let configuring = Configuring::new(self.plan.clone(), orders);
        let admin = self.open_admin(admin.0, admin.1, admin.2, inbox.clone(), configuring);
        tokio::task::spawn_local(mind_memory(self.shared.store.clone(), self.shared.room_to_give.clone()));
        let quiet = Quiet::new(self.shared.room_to_give.clone(), self.shared.own.clone(), None);
        let (store, room) = (self.shared.store.clone(), self.shared.room_to_give.clone());
        tokio::task::spawn_local(quiet::sweep(store, inbox.clone(), room, quiet));
        let mut limits = LimitWatch::default();
        let disk = DiskWatch::new(&self.shared.lower, &self.errors);
        loop {
            let event = tokio::select! {
                event = signals.next() => event,
                Some(order) = reloads.recv() => Wakeup::Ordered(order),
            };
            match event {
                Wakeup::Stop => break,
                Wakeup::Reopen => {
                    self.log.reopen();
                    self.errors.reopen();
                    admin.iter().for_each(|it| it.audit.reopen());
                }
                Wakeup::Reload(why) => drop(self.reload(why, admin.as_deref())),
                Wakeup::Ordered(order) => {
                    let outcome = match order.deed {
                        ConfigDeed::TakeOver => self.reload("requested through the admin", admin.as_deref()),
                        ConfigDeed::LeaveForStart => self.leave_for_start(),
                    };
                    if let Some(file) = &mut file {
                        file.taken();
                    }
                    // Whoever asked may be gone; it is done all the same.
                    let _ = order.outcome.send(outcome);
                }
                Wakeup::Look => {
                    if file.as_mut().is_some_and(FileWatch::changed) {
                        let _ = self.reload("the file changed", admin.as_deref());
                    }
                    self.look_at_certificates();
                    larder_stdx::clock::tick();
                    admin.iter().for_each(|it| it.audit.look());
                    disk.look(&self.shared.store);
                    let now = larder_stdx::clock::monotonic();
                    self.shared.overlays.sweep(now);
                    self.shared.traces.sampling.look(now);
                    if larder_stdx::descriptors::are_scarce() {
                        self.orders.borrow().live.let_files_go();
                    }
                    let sums = self.shared.totals.sums();
                    limits.look(now, sums.into_iter(), &self.errors);
                }
            }
        }
        self.drain(threads, admin).await
    }

    fn open_admin(
        &self,
        bound: Vec<Bound>,
        access: AdminAccess,
        audit: Audit,
        inbox: watch::Receiver<Orders>,
        configuring: Configuring,
    ) -> Option<Rc<Admin>> {
        if bound.is_empty() {
            return None;
        }
        let live = inbox.borrow().live.clone();
        let counters = self.shared.totals.add_part();
        let shared = &self.shared;
        let lower = shared.lower.of_worker(&shared.store, &counters);
        let gateway = Gateway::new(shared.store.clone(), counters.clone(), shared.refusals.clone(), lower);
        let admin = Rc::new(Admin {
            access,
            held: Rc::default(),
            audit,
            gateway,
            router: RefCell::new(Rc::new(live.router(&counters, &ErrorLog::off(), None))),
            live: RefCell::new(live.clone()),
            public: self.public.clone(),
            totals: self.shared.totals.clone(),
            counters: counters.clone(),
            purges: self.desk.clone(),
            traces: shared.traces.clone(),
            tops: shared.tops.clone(),
            recent: shared.recent.clone(),
            stream: shared.stream.clone(),
            nodes: self.nodes.clone(),
            overlays: shared.overlays.clone(),
            heap: shared.heap.clone(),
            configuring,
            listing: larder_admin::ListingTurns::default(),
            clock_moves: test_clock().is_some(),
        });
        // Its own counters: what the admin answers is not part of what clients asked.
        let mut limits = live.config.limits.client;
        // Its own share, so that a crowd of clients does not keep the operator out.
        limits.connections = limits.connections.min(shared.shares.for_admin);
        let worker = TransportWorker::new(Arc::default(), limits);
        tokio::task::spawn_local(worker.clone().watch());
        for bound in bound {
            tokio::task::spawn_local(listener::serve(bound, worker.clone(), admin.clone()));
        }
        Some(admin)
    }

    /// Takes over a changed configuration, or keeps the old one and says why.
    fn reload(&self, why: &str, admin: Option<&Admin>) -> Result<(), String> {
        let Some(file) = self.plan.file() else {
            let why = "larder was started without a configuration file";
            self.errors.event(Level::Warn, "reload-refused", &[("why", why)]);
            return Err(why.to_owned());
        };
        let read = self.plan.load().map_err(|it| it.to_string());
        let old = self.orders.borrow().live.clone();
        let compatible = |new: Config| {
            reload::compatible(&old.config, &new)?;
            loop_check::check(&new, self.admin_at).map(|()| new)
        };
        let secure = |new: Config| match &self.keeper {
            Some(keeper) => keeper.take_over(&new, &self.errors).map(|()| new),
            None => Ok(new),
        };
        let open = |new| Live::open(new, &self.shared.own, self.shared.workers, Some(&old));
        match read.and_then(compatible).and_then(secure).and_then(open) {
            Ok(new) => {
                self.errors.set_levels(new.config.log.levels);
                tell_warnings(&self.errors, &new.config);
                let errors = self.errors.clone();
                larder_config::names::warn_of_unknown(&new.config, move |it| tell_warning(&errors, &it));
                self.shared.traces.sampling.configure(new.config.trace_rates());
                if let Some(admin) = admin {
                    admin.take_over(new.clone());
                }
                self.orders.send_modify(|it| it.live = new);
                self.shared.own.config_reloads.add_shared(1);
                let file = file.display().to_string();
                self.errors.event(Level::Info, "reloaded", &[("file", &file), ("because", why)]);
                Ok(())
            }
            Err(problems) => {
                self.shared.own.config_rejections.add_shared(1);
                let values = [
                    ("because", why),
                    ("why", problems.as_str()),
                    ("now", "the running configuration stays in force"),
                ];
                self.errors.event(Level::Error, "reload-refused", &values);
                Err(problems)
            }
        }
    }

    /// Takes over certificates whose files have changed, or keeps the old ones and says why.
    fn look_at_certificates(&self) {
        let Some(keeper) = &self.keeper else { return };
        if keeper.changed() {
            let live = self.orders.borrow().live.clone();
            match keeper.take_over(&live.config, &self.errors) {
                Ok(()) => self.errors.event(Level::Info, "certificates-reloaded", &[]),
                Err(why) => {
                    self.shared.own.config_rejections.add_shared(1);
                    let values = [("why", why.as_str()), ("now", "the previous certificates stay in use")];
                    self.errors.event(Level::Error, "certificates-rejected", &values);
                }
            }
        }
        keeper.look(&self.errors, &self.shared.own);
    }

    /// Checks what the next start will read, as far as that can be known now; the running one stays.
    fn leave_for_start(&self) -> Result<(), String> {
        let read = self.plan.load().map_err(|it| it.to_string())?;
        loop_check::check(&read, self.admin_at)?;
        let file = self.plan.file().map_or(String::new(), |it| it.display().to_string());
        self.errors.event(
            Level::Info,
            "restart-pending",
            &[("file", &file), ("now", "the running configuration stays in force")],
        );
        Ok(())
    }

    /// Lets the workers finish, but not for ever.
    async fn drain(self, threads: Vec<JoinHandle<()>>, admin: Option<Rc<Admin>>) -> Result<(), Stopped> {
        let deadline = self.orders.borrow().live.config.limits.drain_timeout;
        self.orders.send_modify(|it| it.drain = true);
        let finished = async {
            let mut tick = tokio::time::interval(Duration::from_millis(10));
            while threads.iter().any(|it| !it.is_finished()) {
                tick.tick().await;
            }
        };
        let stopped = tokio::time::timeout(deadline, finished).await;
        if let Some(telemetry) = &self.shared.telemetry {
            telemetry.flush(LOG_CLOSE);
        }
        self.end_streams().await;
        if let Some(nodes) = self.nodes.filter(|_| stopped.is_ok()) {
            nodes.leave().await;
        }
        if stopped.is_err() {
            self.errors.event(
                Level::Warn,
                "requests-cut",
                &[("why", "requests did not finish within limits.drain_timeout")],
            );
        }
        if self.log.close(LOG_CLOSE) == Closed::Late {
            self.errors.event(
                Level::Warn,
                "access-log-incomplete",
                &[("why", "the access log could not be written in time")],
            );
        }
        self.errors.event(Level::Info, "stopped", &[]);
        if let Some(admin) = admin {
            admin.audit.close(LOG_CLOSE);
        }
        self.errors.close(LOG_CLOSE);
        stopped.map_err(|_| Stopped::CutOff)
    }
}

impl Supervisor {
    /// Tells those who listen to the live stream that nothing more comes; they have a moment to be told.
    async fn end_streams(&self) {
        self.shared.stream.close();
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        for _ in 0..50 {
            if self.shared.stream.listening() == 0 {
                break;
            }
            tick.tick().await;
        }
    }
}

/// Has the store look what the process takes: see docs/decisions/0020-resident-memory.md.
/// While it takes too much, all threads are told to give back what they can.
async fn mind_memory(store: Arc<Store>, room: quiet::ReleaseSignal) {
    let mut looks = 0_u32;
    let mut tick = tokio::time::interval(MIND);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        store.mind_memory();
        looks += 1;
        if looks % EACH_COLLECTS == 0 && store.usable() < store.budget() {
            room.tell();
        }
    }
}

struct Signals {
    hangup: Signal,
    reopen: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// A file that would grow beyond `ulimit -f`: heard, it is an error of the write; unheard, it ends the process.
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
            _ = self.terminate.recv() => Wakeup::Stop,
            _ = self.interrupt.recv() => Wakeup::Stop,
            _ = self.look.tick() => Wakeup::Look,
        }
    }
}
