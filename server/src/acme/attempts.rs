//! Attempts to get certificates: the names that are due, the CAs that are asked, and the records of success and failure. One order is in
//! `order`.

use super::authority::{self, AcmeAccount};
use super::fleet::AcmeFleet;
use super::folder::{AcmeFolder, NameState, StoredPause};
use super::http::AcmeClient;
use super::order::{self, OrderContext};
use super::{AcmeContext, AcmeFailure, FailureKind, own, unbroken, wall};
use crate::certificate_registry::ManagedCertificate;
use larder_config::tls::{AcmeAuthority, AcmeConfig};
use larder_observe::log::Level;
use larder_semantics::certificate_renewal::{self, RenewalDecision, Validity};
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use larder_transport::tls::ServerTls;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Attempts that the end of the process interrupted, after which the next one waits as after a failure.
const INTERRUPTED: u32 = 3;
/// The pause of a CA that limits requests and names no time, seconds.
const LIMITED: u64 = 3600;

/// A time in a log.
pub(super) fn date_of(second: i64) -> String {
    date::format(WallTime(u64::try_from(second).unwrap_or(0)))
}

/// A name with its certificate.
pub(super) struct ManagedName {
    pub state: NameState,
    pub validity: Option<Validity>,
    /// An attempt is in progress.
    pub is_busy: bool,
    /// Its CA is being asked about the renewal.
    pub is_asked: bool,
}

impl ManagedName {
    /// The planned renewal; `None` without a certificate.
    fn renewal(&self) -> Option<i64> {
        let suggested = self.state.suggestion.as_ref().and_then(|it| it.renewal);
        self.validity.map(|it| suggested.unwrap_or_else(|| it.renewal()))
    }

    fn decide(&mut self, now: i64) -> RenewalDecision {
        certificate_renewal::decide(self.renewal(), self.state.pause.current(now), now)
    }
}

/// The state that attempts share.
pub(super) struct Attempts {
    pub context: AcmeContext,
    pub folder: AcmeFolder,
    pub names: RefCell<BTreeMap<String, ManagedName>>,
    /// The open accounts, by directory.
    accounts: RefCell<HashMap<String, Rc<AcmeAccount>>>,
    clients: RefCell<HashMap<String, Rc<AcmeClient>>>,
    /// The failures of CAs, by directory.
    pauses: RefCell<HashMap<String, StoredPause>>,
    /// The handshakes of clients; `None` without an address with TLS.
    pub tls: RefCell<Option<Arc<ServerTls>>>,
    /// The other nodes, with `tls.acme.fleet_key`.
    pub fleet: RefCell<Option<Rc<AcmeFleet>>>,
    /// The next time at which certificates are given to the other nodes, seconds since the Unix epoch.
    pub next_offer: Cell<i64>,
    /// One account is opened at a time, so that no CA gets two for one key.
    opening: tokio::sync::Mutex<()>,
}

/// A certificate with its CA.
pub(super) struct IssuedCertificate {
    pub authority: String,
    pub validity: Validity,
}

impl Attempts {
    pub fn new(context: AcmeContext, folder: AcmeFolder) -> Self {
        let (names, accounts, clients, pauses, tls, opening) = Default::default();
        let (fleet, next_offer) = Default::default();
        Self { context, folder, names, accounts, clients, pauses, tls, fleet, next_offer, opening }
    }

    /// Opens the accounts again before their next use.
    pub fn close_accounts(&self) {
        self.accounts.borrow_mut().clear();
        self.clients.borrow_mut().clear();
    }

    /// Notes that attempts in progress end with the process, and not by a fault.
    pub fn interrupt(&self) {
        for name in self.names.borrow().iter().filter(|it| it.1.is_busy).map(|it| it.0) {
            let state = NameState { begun: 0, ..self.folder.state(name) };
            self.note(self.folder.keep_state(name, &state));
        }
    }

    /// Reads the state of new names from disk, and forgets the names that are gone.
    pub fn know(&self, wanted: &[String]) {
        let mut names = self.names.borrow_mut();
        names.retain(|name, it| it.is_busy || wanted.binary_search(name).is_ok());
        for name in wanted {
            if !names.contains_key(name) {
                let validity = self.folder.certificate(name).ok().flatten().map(|it| it.validity());
                let mut state = self.folder.state(name);
                if let Some(it) = state.order.as_ref().filter(|it| self.folder.has_certificate_of(name, it)) {
                    state = state.issued(&it.directory);
                }
                names.insert(name.clone(), ManagedName { state, validity, is_busy: false, is_asked: false });
            }
        }
    }

    /// At most `most` names that need an attempt now; names without a certificate first, then those that expire first. They are busy from
    /// now on.
    pub fn due(&self, config: &AcmeConfig, now: i64, most: usize) -> Vec<String> {
        if most == 0 || config.authorities.iter().all(|it| self.is_paused(it, now)) {
            return Vec::new();
        }
        let fleet = self.fleet.borrow();
        let may_begin = |name: &str| fleet.as_ref().is_none_or(|it| it.may_begin(name));
        let mut names = self.names.borrow_mut();
        let mut due = Vec::new();
        for (name, it) in names.iter_mut() {
            let is_wanted = config.names.binary_search(name).is_ok();
            if is_wanted && !it.is_busy && it.decide(now) == RenewalDecision::Due && may_begin(name) {
                due.push((it.validity.map_or(i64::MIN, |it| it.until), name.clone()));
            }
        }
        due.sort();
        due.truncate(most);
        let due: Vec<String> = due.into_iter().map(|it| it.1).collect();
        for name in &due {
            if let Some(it) = names.get_mut(name) {
                it.is_busy = true;
            }
        }
        due
    }

    /// The next second at which an attempt or a question about a renewal is due for a name with nothing in progress.
    pub fn next_due(&self, config: &AcmeConfig, now: i64) -> i64 {
        let open = config.authorities.iter().map(|it| self.paused_until(it, now)).min().unwrap_or(i64::MAX);
        let mut names = self.names.borrow_mut();
        let idle = names
            .iter_mut()
            .filter(|(name, it)| !it.is_busy && config.names.binary_search(name).is_ok())
            .map(|(_, it)| it);
        let next = idle.map(|it| {
            let attempt = match it.decide(now) {
                RenewalDecision::Due => now,
                RenewalDecision::At(second) => second,
            };
            attempt.max(open).min(self.next_inquiry(config, it, now))
        });
        next.min().unwrap_or(i64::MAX)
    }

    /// Whether a CA is not asked now, because it failed or limits requests.
    pub fn is_paused(&self, authority: &AcmeAuthority, now: i64) -> bool {
        self.paused_until(authority, now) > now
    }

    /// The end of the last pause of a CA.
    pub fn paused_until(&self, authority: &AcmeAuthority, now: i64) -> i64 {
        let directory = authority.directory.url();
        let mut pauses = self.pauses.borrow_mut();
        let pause = pauses.entry(directory).or_insert_with_key(|it| self.folder.authority_pause(it));
        if pause.pause == 0 { i64::MIN } else { pause.current(now).end() }
    }

    /// One attempt for a name, unless another node orders or has the certificate.
    pub async fn attempt(&self, config: &AcmeConfig, name: &str) {
        let fleet = self.fleet.borrow().clone();
        let Some(fleet) = fleet else { return drop(self.order(config, name).await) };
        if !fleet.claim(name).await {
            return self.set_idle(name);
        }
        // The node that had the lease before may have succeeded.
        let is_received = self.take_over(&fleet, name).await && !self.is_due(name);
        if is_received {
            self.set_idle(name);
        } else if let Some(got) = self.order(config, name).await {
            self.share(&fleet, name, &got).await;
        } else {
            return fleet.settle(name, false).await;
        }
        fleet.settle(name, true).await;
    }

    /// One order of a name: at each CA in turn, until one has issued the certificate.
    async fn order(&self, config: &AcmeConfig, name: &str) -> Option<IssuedCertificate> {
        let mut state = self.names.borrow().get(name).map(|it| it.state.clone()).unwrap_or_default();
        let outcome = match self.begin(name, &mut state) {
            Ok(()) => self.ask_all(config, name, &mut state).await,
            Err(failure) => Err((failure, None)),
        };
        state.begun = 0;
        let got = match outcome {
            Ok(got) => {
                state = self.obtained(name, &got, &state);
                Some(got)
            }
            Err((failure, requested)) => {
                self.failed(name, &mut state, failure, requested);
                None
            }
        };
        self.record(name, state, got.as_ref().map(|it| it.validity));
        self.set_idle(name);
        got
    }

    /// Stores the state of a name, with its new certificate.
    pub fn record(&self, name: &str, state: NameState, validity: Option<Validity>) {
        self.note(self.folder.keep_state(name, &state));
        if let Some(it) = self.names.borrow_mut().get_mut(name) {
            it.state = state;
            it.validity = validity.or(it.validity);
        }
    }

    /// The work for a name has ended.
    pub fn set_idle(&self, name: &str) {
        self.names.borrow_mut().get_mut(name).into_iter().for_each(|it| it.is_busy = false);
    }

    fn is_due(&self, name: &str) -> bool {
        let mut names = self.names.borrow_mut();
        names.get_mut(name).is_some_and(|it| it.decide(wall()) == RenewalDecision::Due)
    }

    fn obtained(&self, name: &str, got: &IssuedCertificate, before: &NameState) -> NameState {
        let now = wall();
        let mut state = before.issued(&got.authority);
        if got.validity.renewal() <= now {
            // Only a wrong clock makes a new certificate due: it is not requested in a loop.
            let third = u64::try_from((got.validity.until - got.validity.from) / 3).unwrap_or(0);
            (state.pause.paused_from, state.pause.pause) =
                (now, third.max(certificate_renewal::pause(1, None, 0)));
            state.error =
                "the certificate is outdated by the clock of this machine; correct the clock".to_owned();
        }
        self.context.counters.acme_certificates.add_shared(1);
        let until = date_of(got.validity.until);
        let values = [("name", name), ("authority", state.authority.as_str()), ("until", &until)];
        self.context.errors.event(Level::Info, "certificate-obtained", &values);
        self.context.registry.is_changed.set(true);
        state
    }

    fn failed(&self, name: &str, state: &mut NameState, failure: AcmeFailure, requested: Option<u64>) {
        let now = wall();
        state.pause.fail(requested, now);
        state.error = failure.why;
        self.context.counters.acme_failures.add_shared(1);
        let (times, next) = (state.pause.failures.to_string(), date_of(state.pause.current(now).end()));
        let values = [("name", name), ("why", state.error.as_str()), ("failures", &times), ("next", &next)];
        self.context.errors.event(Level::Error, "certificate-failed", &values);
    }

    /// Records the attempt, so that a crash loop does not repeat it without a pause.
    fn begin(&self, name: &str, state: &mut NameState) -> Result<(), AcmeFailure> {
        if state.begun >= INTERRUPTED {
            let why = format!("larder ended during each of the last {INTERRUPTED} attempts");
            return Err(AcmeFailure::new(FailureKind::Own, why));
        }
        state.begun += 1;
        self.folder.keep_state(name, state).map_err(own)
    }

    /// Asks each CA in turn; an error is the reason, and the pause that a CA asks for.
    async fn ask_all(
        &self,
        config: &AcmeConfig,
        name: &str,
        state: &mut NameState,
    ) -> Result<IssuedCertificate, (AcmeFailure, Option<u64>)> {
        let (mut failures, mut requested) = (Vec::new(), None);
        // The CA of the order in progress first.
        let of_order = state.order.as_ref().map(|it| it.directory.clone());
        let mut authorities: Vec<&AcmeAuthority> = config.authorities.iter().collect();
        authorities.sort_by_key(|it| of_order.as_ref() != Some(&it.directory.url()));
        for authority in authorities {
            if self.is_paused(authority, wall()) {
                continue;
            }
            let directory = authority.directory.url();
            let mut answer = self.request_order(config, authority, name, state).await;
            if state.pause.failures == 0 && config.challenges.len() > 1 {
                match answer {
                    Err(it) if it.kind == FailureKind::Unproven => {
                        // The other way at once. This failure counts: the CA limits those of an hour.
                        state.pause.failures = 1;
                        failures.push((authority.directory.name(), it));
                        answer = self.request_order(config, authority, name, state).await;
                    }
                    it => answer = it,
                }
            }
            match answer {
                Ok(validity) => {
                    self.note_authority(&directory, None);
                    return Ok(IssuedCertificate { authority: directory, validity });
                }
                Err(failure) => {
                    let wait = self.clients.borrow().get(&directory).and_then(|it| it.take_retry_after());
                    let wait = match failure.kind {
                        FailureKind::Limited => Some(wait.unwrap_or(LIMITED)),
                        _ => wait,
                    };
                    if matches!(failure.kind, FailureKind::Limited | FailureKind::Unusable) {
                        self.note_authority(&directory, Some(wait));
                    }
                    requested = requested.max(wait);
                    failures.push((authority.directory.name(), failure));
                }
            }
        }
        let kind = failures.last().map_or(FailureKind::Limited, |it| it.1.kind);
        let several = failures.len() > 1;
        let clause =
            |(at, it): (String, AcmeFailure)| if several { format!("{at}: {}", it.why) } else { it.why };
        let why = failures.into_iter().map(clause).collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { "the CA failed or limited requests lately".to_owned() } else { why };
        Err((AcmeFailure::new(kind, why), requested))
    }

    /// Notes the failure of a CA, with the pause that it asks for, or its success.
    fn note_authority(&self, directory: &str, failed: Option<Option<u64>>) {
        let mut pauses = self.pauses.borrow_mut();
        let pause = pauses.entry(directory.to_owned()).or_default();
        let before = pause.clone();
        match failed {
            Some(requested) => pause.fail(requested, wall()),
            None => *pause = StoredPause::default(),
        }
        if *pause != before {
            self.note(self.folder.keep_authority_pause(directory, pause));
        }
    }

    /// One attempt at one CA.
    async fn request_order(
        &self,
        config: &AcmeConfig,
        authority: &AcmeAuthority,
        name: &str,
        state: &mut NameState,
    ) -> Result<Validity, AcmeFailure> {
        let account = self.account(config, authority).await?;
        self.context.counters.acme_orders.add_shared(1);
        let mut challenges = config.challenges.clone();
        challenges.sort_by_key(|it| it.name() != state.way);
        let context = OrderContext {
            folder: &self.folder,
            overlays: &self.context.overlays,
            tls: self.tls.borrow().clone(),
            challenges: &challenges,
            account: &account,
            nodes: self.fleet.borrow().clone(),
            profile: authority.profile.as_deref(),
        };
        match unbroken(order::certificate(&context, name, state)).await {
            Ok(pem) => {
                self.folder.keep_certificate(name, &pem).map_err(own)?;
                let stored = self.folder.certificate(name).map_err(own)?;
                stored.map(|it| it.validity()).ok_or_else(|| own("the certificate has vanished".to_owned()))
            }
            Err(failure) => {
                if failure.kind == FailureKind::NoAccount {
                    self.accounts.borrow_mut().remove(&account.directory);
                    authority::forget(&self.folder, &account.directory).map_err(own)?;
                    state.order = None;
                }
                Err(failure)
            }
        }
    }

    /// The open account at a CA.
    pub async fn account(
        &self,
        config: &AcmeConfig,
        authority: &AcmeAuthority,
    ) -> Result<Rc<AcmeAccount>, AcmeFailure> {
        let directory = authority.directory.url();
        let _one = self.opening.lock().await;
        if let Some(open) = self.accounts.borrow().get(&directory) {
            return Ok(open.clone());
        }
        if self.is_paused(authority, wall()) {
            let why = "the CA failed or limited requests a moment ago".to_owned();
            return Err(AcmeFailure::new(FailureKind::Slow, why));
        }
        let made = || AcmeClient::new(authority.directory.ca.clone());
        let client = self.clients.borrow_mut().entry(directory.clone()).or_insert_with(made).clone();
        let opened =
            unbroken(authority::open(&self.folder, authority, config.email.as_deref(), &client)).await;
        match opened {
            Ok(account) => {
                let account = Rc::new(account);
                self.accounts.borrow_mut().insert(directory, account.clone());
                Ok(account)
            }
            Err(failure) => {
                if failure.kind == FailureKind::NoAccount {
                    authority::forget(&self.folder, &directory).map_err(own)?;
                }
                // Attempts that wait for the account fail with this one.
                if failure.kind == FailureKind::Unusable {
                    self.note_authority(&directory, Some(client.take_retry_after()));
                    return Err(AcmeFailure { kind: FailureKind::Slow, ..failure });
                }
                Err(failure)
            }
        }
    }

    pub fn note(&self, kept: Result<(), String>) {
        if let Err(why) = kept {
            self.context.errors.event(Level::Error, "acme-folder", &[("why", &why)]);
        }
    }

    /// Updates the report for operators.
    pub fn report(&self, config: &AcmeConfig, now: i64) {
        let mut names = self.names.borrow_mut();
        let of = |(name, it): (&String, &mut ManagedName)| ManagedCertificate {
            name: name.clone(),
            validity: it.validity,
            renews: it.renewal(),
            next_attempt: match it.decide(now) {
                RenewalDecision::Due => now,
                RenewalDecision::At(second) => second,
            },
            is_busy: it.is_busy,
            authority: it.state.authority.clone(),
            failures: it.state.pause.failures,
            // Without a failure it is of the clock of this machine, which was corrected.
            error: if it.state.pause.failures == 0 && it.renewal().is_some_and(|it| it > now) {
                String::new()
            } else {
                it.state.error.clone()
            },
        };
        let wanted = |it: &(&String, &mut ManagedName)| config.names.binary_search(it.0).is_ok();
        let managed = names.iter_mut().filter(wanted).map(of).collect();
        self.context.registry.managed.replace(managed);
    }
}
