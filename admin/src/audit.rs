//! The audit log: who changed something through the admin, and who was refused. It goes to the error log, as the subsystem
//! `audit`, and to a file of its own where `admin.audit` names one. It never waits, and of a storm of refusals it
//! tells the first of each client in a second, and how many more of its there were.

mod storm;

use super::access::Requester;
use super::table::{Effect, Endpoint, EndpointAccess};
use larder_counters::Counters;
use larder_observe::log::{Closed, ErrorLog, Level, Subsystem, SubsystemLog};
use larder_stdx::clock;
use larder_transport::Client;
use larder_wire::message::Request;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use storm::{LeftOut, RefusalKind, Storm};

/// Bytes of a body or a path that are told at most.
const TOLD: usize = 200;

/// Where it is written.
pub struct Audit {
    log: SubsystemLog,
    /// Goes nowhere where no file is named.
    file: ErrorLog,
    counters: Arc<Counters>,
    /// Refusals of whoever was let in, which nobody else can crowd out ...
    operators: RefCell<Storm>,
    /// ... and of all others.
    strangers: RefCell<Storm>,
}

/// One request, as the log tells it.
pub struct AuditEntry<'a> {
    /// Who asked, as far as it is known.
    pub who: &'a Requester,
    /// From where.
    pub client: &'a Client,
    /// Its head.
    pub request: &'a Request,
    /// Its endpoint; `None` where it was not let through to one.
    pub endpoint: Option<&'static Endpoint>,
    /// Its body, as far as it was read.
    pub body: &'a [u8],
    /// What was answered.
    pub status: u16,
    /// The answer's sentence; empty where all is well.
    pub why: &'a str,
}

impl Audit {
    /// Writes to both logs.
    pub fn new(errors: &ErrorLog, file: ErrorLog, counters: Arc<Counters>) -> Self {
        Self {
            log: errors.of(Subsystem::Audit),
            file,
            counters,
            operators: RefCell::default(),
            strangers: RefCell::default(),
        }
    }

    /// Tells of a request that was answered, if it changed something or was refused.
    pub fn answered(&self, entry: &AuditEntry<'_>) {
        let writes = entry.endpoint.is_some_and(|it| it.effect == Effect::Writes);
        match entry.status {
            400.. => self.refused(entry),
            _ if writes => self.tell(Level::Info, "admin-write", entry),
            _ => {}
        }
    }

    /// Tells of a head that could not be read: what was asked is not known then.
    pub fn rejected(&self, client: &Client, status: u16, why: &str) {
        if self.admits(&Requester::Nobody, client, status) {
            let (from, status) = (from(client), status.to_string());
            let values = [("who", "nobody"), ("from", from.as_str()), ("status", &status), ("why", why)];
            self.event(Level::Warn, "admin-refused", &values);
        }
    }

    fn refused(&self, entry: &AuditEntry<'_>) {
        if self.admits(entry.who, entry.client, entry.status) {
            self.tell(Level::Warn, "admin-refused", entry);
        }
    }

    /// Counts a refusal; whether it is told whole.
    fn admits(&self, who: &Requester, client: &Client, status: u16) -> bool {
        self.counters.admin_refusals.add_shared(1);
        self.look();
        let storm = if matches!(who, Requester::Nobody) { &self.strangers } else { &self.operators };
        let admits = storm.borrow_mut().admits(RefusalKind::of(client.peer.map(|it| it.ip()), status));
        if !admits {
            self.counters.admin_refusals_unlogged.add_shared(1);
        }
        admits
    }

    fn event(&self, level: Level, event: &str, values: &[(&str, &str)]) {
        self.log.event(level, event, values);
        self.file.of(Subsystem::Audit).event(level, event, values);
    }

    /// Tells how many refusals were left out, and whose, once their second is over; to be called about once a second.
    pub fn look(&self) {
        let now = clock::wall().0;
        for storm in [&self.operators, &self.strangers] {
            let left_out = storm.borrow_mut().over(now);
            left_out.iter().for_each(|it| self.tell_left_out(it));
        }
    }

    fn tell_left_out(&self, LeftOut { kind, count }: &LeftOut) {
        let from = match kind {
            None => "others".to_owned(),
            Some(RefusalKind { from: None, .. }) => "unix".to_owned(),
            Some(RefusalKind { from: Some(it), .. }) => it.to_string(),
        };
        let (status, count) = (kind.map(|it| it.status.to_string()), count.to_string());
        let mut values = vec![("from", from.as_str()), ("left_out", count.as_str())];
        if let Some(status) = &status {
            values.insert(1, ("status", status));
        }
        self.event(Level::Warn, "admin-refused-summary", &values);
    }

    fn tell(&self, level: Level, event: &str, entry: &AuditEntry<'_>) {
        let from = from(entry.client);
        let who = entry.who.to_string();
        let (path, query) = entry.request.target.split_once('?').unwrap_or((&entry.request.target, ""));
        let status = entry.status.to_string();
        let what = what(entry);
        let mut values = vec![
            ("who", who.as_str()),
            ("from", from.as_str()),
            ("method", entry.request.method.as_str()),
            ("path", beginning(path)),
            ("status", status.as_str()),
        ];
        // Whoever was not let in may have put anything there, such as a token.
        if entry.endpoint.is_some() && !query.is_empty() {
            values.push(("query", beginning(query)));
        }
        if !what.is_empty() {
            values.push(("body", &what));
        }
        if !entry.why.is_empty() {
            values.push(("why", entry.why));
        }
        self.event(level, event, &values);
    }

    /// Opens the file anew.
    pub fn reopen(&self) {
        self.file.reopen();
    }

    /// Writes what was told; waits at most `bound`.
    pub fn close(&self, bound: Duration) -> Closed {
        self.file.close(bound)
    }
}

fn from(client: &Client) -> String {
    client.peer.map_or_else(|| "unix".to_owned(), |it| it.to_string())
}

/// A body in a few words: itself where it is short JSON of somebody who was let in, and never a login code.
fn what(entry: &AuditEntry<'_>) -> String {
    let is_open = entry.endpoint.is_none_or(|it| it.needs != EndpointAccess::Token);
    match std::str::from_utf8(entry.body) {
        Ok("") => String::new(),
        Ok(text) if !is_open && text.len() <= TOLD && text.trim_start().starts_with('{') => text.to_owned(),
        _ => format!("({} bytes)", entry.body.len()),
    }
}

fn beginning(text: &str) -> &str {
    let cut = (0..=TOLD.min(text.len())).rev().find(|it| text.is_char_boundary(*it));
    &text[..cut.unwrap_or(0)]
}
