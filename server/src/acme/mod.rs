//! Automatic certificates (ACME, RFC 8555): one certificate for each name of `tls.acme`. One task of the main thread requests and renews them,
//! and stores them in a folder; `server::tls` reads them from there. Requests of clients never wait for it.
//!
//! The times are decided in `larder_semantics::certificate_renewal`, the steps of an order are in `order`.

mod attempts;
mod authority;
mod challenge;
mod exchange;
mod fleet;
mod folder;
mod http;
mod order;
mod renewal_info;

pub use folder::AcmeFolder;

use crate::certificate_registry::CertificateRegistry;
use crate::live::WorkerState;
use crate::overlay::Overlays;
use attempts::Attempts;
use fleet::AcmeFleet;
use folder::FolderLock;
use instant_acme::Problem;
use larder_config::tls::AcmeConfig;
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Level};
use larder_stdx::clock;
use larder_store::fleet::Fleet;
use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The interval at which the time of the next look at the names is compared with the clock, which may have been set.
const LOOK: Duration = Duration::from_millis(200);
/// The most orders in progress.
const ORDERS: usize = 10;

/// The blame for a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// The CA cannot be reached, fails, or answers outside of the protocol.
    Unusable,
    /// The CA limits requests.
    Limited,
    /// The CA needs more time than an attempt has.
    Slow,
    /// The CA no longer has the account.
    NoAccount,
    /// The CA refuses the name.
    Refused,
    /// The CA does not get the answer to its challenge.
    Unproven,
    /// This machine: its disk, its random numbers.
    Own,
}

/// The failure of an attempt.
#[derive(Debug)]
struct AcmeFailure {
    kind: FailureKind,
    /// One clause.
    why: String,
}

impl AcmeFailure {
    fn new(kind: FailureKind, why: String) -> Self {
        Self { kind, why: why.trim_end_matches('.').to_owned() }
    }
}

impl From<instant_acme::Error> for AcmeFailure {
    fn from(error: instant_acme::Error) -> Self {
        use instant_acme::Error;
        match error {
            Error::Api(it) if is_of(&it, "rateLimited") => Self::new(FailureKind::Limited, sentence(&it)),
            Error::Api(it) if is_of(&it, "accountDoesNotExist") => {
                Self::new(FailureKind::NoAccount, sentence(&it))
            }
            Error::Api(it) if is_of(&it, "serverInternal") => Self::new(FailureKind::Unusable, sentence(&it)),
            Error::Api(it) => Self::new(FailureKind::Refused, sentence(&it)),
            Error::Json(it) => {
                Self::new(FailureKind::Unusable, format!("the CA does not answer as ACME requires: {it}"))
            }
            Error::Timeout(_) => {
                Self::new(FailureKind::Slow, "the CA has not finished within a minute".to_owned())
            }
            Error::Other(it) => Self::new(FailureKind::Unusable, it.to_string()),
            it => Self::new(FailureKind::Unusable, it.to_string()),
        }
    }
}

/// A failure of this machine.
fn own(why: String) -> AcmeFailure {
    AcmeFailure::new(FailureKind::Own, why)
}

/// The present time, seconds since the Unix epoch.
fn wall() -> i64 {
    i64::try_from(clock::wall().0).unwrap_or(i64::MAX)
}

/// Work of the ACME library, which panics over some answers of CAs: a URL that is none, a `Retry-After` beyond all time.
///
/// # Errors
/// Those of the work, and a panic.
async fn unbroken<T>(work: impl Future<Output = Result<T, AcmeFailure>>) -> Result<T, AcmeFailure> {
    let mut work = std::pin::pin!(work);
    let broken = || AcmeFailure::new(FailureKind::Unusable, "an answer of the CA is invalid".to_owned());
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(broken())))
    })
    .await
}

/// Whether a problem has this type of RFC 8555 section 6.7.
fn is_of(problem: &Problem, name: &str) -> bool {
    problem.r#type.as_deref().and_then(|it| it.strip_prefix("urn:ietf:params:acme:error:")) == Some(name)
}

/// A problem in one clause.
fn sentence(problem: &Problem) -> String {
    let detail = problem.detail.as_deref().or(problem.r#type.as_deref()).unwrap_or("the CA names no reason");
    let detail = match problem.subproblems.first().and_then(|it| it.detail.as_deref()) {
        Some(first) => format!("{detail}: {first}"),
        None => detail.to_owned(),
    };
    detail.chars().map(|it| if it.is_control() { ' ' } else { it }).take(500).collect()
}

/// The dependencies of the task.
#[derive(Clone)]
pub struct AcmeContext {
    /// The pages that answer challenges.
    pub overlays: Arc<Overlays>,
    /// The error log.
    pub errors: ErrorLog,
    /// The counters of the process.
    pub counters: Arc<Counters>,
    /// The state of all certificates, for operators.
    pub registry: Rc<CertificateRegistry>,
    /// The memcached servers that all nodes share, if there are some.
    pub fleet: Option<Rc<Fleet>>,
}

/// Requests and renews the certificates of the configuration in force, for as long as there are orders. Within a `LocalSet`.
pub async fn keep(mut inbox: watch::Receiver<WorkerState>, context: AcmeContext) {
    let mut keeper: Option<AcmeKeeper> = None;
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    inbox.mark_changed();
    loop {
        let is_changed = tokio::select! {
            _ = tick.tick() => false,
            changed = inbox.changed() => if changed.is_ok() { true } else { return },
        };
        if !is_changed {
            keeper.iter_mut().for_each(AcmeKeeper::look);
            continue;
        }
        let (acme, tls) = {
            let orders = inbox.borrow_and_update();
            if orders.drain.is_some() {
                return keeper.into_iter().for_each(|it| it.attempts.interrupt());
            }
            (orders.live.config.tls.as_ref().and_then(|it| it.acme.clone()), orders.tls.clone())
        };
        match (&mut keeper, acme) {
            (Some(keeper), Some(acme)) if keeper.folder.path() == acme.folder => keeper.set_names(acme),
            (_, acme) => {
                keeper.take().into_iter().for_each(|it| it.attempts.interrupt());
                context.registry.forget_managed();
                keeper = acme.map(|it| AcmeKeeper::new(context.clone(), it));
            }
        }
        if let Some(keeper) = &mut keeper {
            keeper.attempts.fleet.borrow().iter().for_each(|it| it.set_tls(tls.clone()));
            keeper.attempts.tls.replace(tls);
            keeper.look();
        }
    }
}

/// The task's state for one folder.
struct AcmeKeeper {
    folder: AcmeFolder,
    config: Rc<AcmeConfig>,
    lock: Option<FolderLock>,
    /// The reason for which the folder cannot be used, as logged.
    reported: Option<String>,
    attempts: Rc<Attempts>,
    running: JoinSet<()>,
    /// The seconds between which no name needs anything unless an attempt ends: that of the last look, and that of the next one.
    idle: Range<i64>,
}

impl AcmeKeeper {
    fn new(context: AcmeContext, config: AcmeConfig) -> Self {
        let folder = AcmeFolder::new(config.folder.clone());
        let attempts = Rc::new(Attempts::new(context, folder.clone()));
        let it = Self {
            folder,
            config: Rc::new(config),
            lock: None,
            reported: None,
            attempts,
            running: JoinSet::new(),
            idle: 0..0,
        };
        it.join_fleet();
        it
    }

    /// Requests certificates together with the other nodes, if the configuration says so.
    fn join_fleet(&self) {
        let mut joined = self.attempts.fleet.borrow_mut();
        let wanted = self.config.fleet_key.as_ref().zip(self.attempts.context.fleet.as_ref());
        match wanted {
            Some((secret, _)) if joined.as_ref().is_some_and(|it| it.is_of(secret)) => {}
            Some((secret, fleet)) => {
                let it = AcmeFleet::start(self.attempts.context.clone(), fleet.clone(), secret.clone());
                if self.lock.is_some() {
                    it.set_node(self.folder.node());
                }
                *joined = Some(it);
            }
            None => *joined = None,
        }
    }

    /// Takes over the names of a new configuration. Attempts in progress go on.
    fn set_names(&mut self, config: AcmeConfig) {
        if *self.config != config {
            if self.config.authorities != config.authorities || self.config.email != config.email {
                self.attempts.close_accounts();
            }
            self.config = Rc::new(config);
            self.join_fleet();
            self.idle = 0..0;
        }
    }

    /// Looks at the names if the time has come, or an attempt has ended.
    fn look(&mut self) {
        while self.running.try_join_next().is_some() {
            self.idle = 0..0;
        }
        if self.lock.is_none() && !self.take_lock() {
            return;
        }
        let now = wall();
        if !self.idle.contains(&now) {
            self.begin_due(now);
            // While no further attempt can begin, the end of one is the next moment.
            let is_full = self.running.len() >= ORDERS;
            self.idle = now..if is_full { i64::MAX } else { self.attempts.next_due(&self.config, now) };
        }
        self.exchange();
    }

    /// Starts the attempts that are due, and updates the report.
    fn begin_due(&mut self, now: i64) {
        self.attempts.know(&self.config.names);
        for name in self.attempts.due(&self.config, now, ORDERS.saturating_sub(self.running.len())) {
            let (attempts, config) = (self.attempts.clone(), self.config.clone());
            self.running.spawn_local(async move { attempts.attempt(&config, &name).await });
        }
        for name in self.attempts.inquiries(&self.config, now, ORDERS.saturating_sub(self.running.len())) {
            let (attempts, config) = (self.attempts.clone(), self.config.clone());
            self.running.spawn_local(async move { attempts.inquire(&config, &name).await });
        }
        self.attempts.report(&self.config, now);
    }

    /// Takes certificates from the other nodes, and gives them those of this one.
    fn exchange(&mut self) {
        let Some(fleet) = self.attempts.fleet.borrow().clone() else { return };
        for name in fleet.take_settled() {
            if self.attempts.occupy(&self.config, &name) {
                let (attempts, fleet) = (self.attempts.clone(), fleet.clone());
                self.running.spawn_local(async move { attempts.receive(&fleet, &name).await });
            }
        }
        if self.attempts.is_time_to_offer(wall()) {
            let (attempts, config) = (self.attempts.clone(), self.config.clone());
            tokio::task::spawn_local(async move { attempts.offer(&fleet, &config).await });
        }
    }

    /// Takes the lock of the folder; logs once why it has none.
    fn take_lock(&mut self) -> bool {
        let why = match self.folder.lock() {
            Ok(Some(lock)) => {
                self.lock = Some(lock);
                self.attempts.fleet.borrow().iter().for_each(|it| it.set_node(self.folder.node()));
                self.reported = None;
                self.attempts.context.registry.folder_error.replace(None);
                return true;
            }
            Ok(None) => {
                format!("another process requests the certificates of {}", self.folder.path().display())
            }
            Err(why) => why,
        };
        if self.reported.as_ref() != Some(&why) {
            self.attempts.context.errors.event(Level::Warn, "acme-folder", &[("why", &why)]);
            self.attempts.context.registry.folder_error.replace(Some(why.clone()));
            self.reported = Some(why);
        }
        false
    }
}
