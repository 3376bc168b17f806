//! The audit log: changes through the admin, and rejected requests. It goes to the error log, as the subsystem `audit`,
//! and to a file of its own if `admin.audit` names one. It never waits. Of many rejections it logs the first of each
//! client in a second, and the number of further ones. The latest entries stay in RAM (`latest`).

mod endpoint;
mod kept;
mod latest;
mod past;
mod storm;

use super::requester::Requester;
use super::table::{Effect, Endpoint, EndpointAccess};
use larder_counters::Counters;
use larder_observe::log::{Closed, ErrorLog, Level, Subsystem, SubsystemLog};
use larder_stdx::clock;
use larder_transport::Client;
use larder_wire::message::Request;
use latest::{AuditRecord, LatestEntries};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storm::{OmittedRefusals, RefusalKind, Storm};

/// The event of a change.
const WRITE: &str = "admin-write";
/// The event of a rejected request.
const REFUSED: &str = "admin-refused";
/// The most bytes of a body or a path that are logged.
const MOST_LOGGED: usize = 200;

/// The outputs.
pub struct Audit {
    log: SubsystemLog,
    /// Without output if no file is configured.
    file: ErrorLog,
    counters: Arc<Counters>,
    latest: RefCell<LatestEntries>,
    /// The file of the latest entries, where `admin.audit` names none.
    kept: RefCell<Option<PathBuf>>,
    /// Whether that file lacks an entry.
    is_unsaved: Cell<bool>,
    /// Rejections of authenticated clients, which other clients cannot crowd out.
    operators: RefCell<Storm>,
    /// Rejections of all other clients.
    unauthenticated: RefCell<Storm>,
}

/// One request, as logged.
pub struct AuditEntry<'a> {
    /// The client, as far as authenticated.
    pub requester: &'a Requester,
    /// Its address.
    pub client: &'a Client,
    /// Its head.
    pub request: &'a Request,
    /// Its endpoint; `None` if it was rejected before.
    pub endpoint: Option<&'static Endpoint>,
    /// The part of its body that was read.
    pub body: &'a [u8],
    /// The status of the response.
    pub status: u16,
    /// The sentence of the response; empty for a success.
    pub why: &'a str,
}

impl Audit {
    /// Writes to both logs.
    pub fn new(errors: &ErrorLog, file: ErrorLog, counters: Arc<Counters>) -> Self {
        Self {
            log: errors.of(Subsystem::Audit),
            file,
            counters,
            latest: RefCell::default(),
            kept: RefCell::default(),
            is_unsaved: Cell::default(),
            operators: RefCell::default(),
            unauthenticated: RefCell::default(),
        }
    }

    /// Reads the latest entries of the file at `path`, of before the start.
    pub fn read_past(&self, path: &Path) {
        past::read(path).into_iter().for_each(|it| self.latest.borrow_mut().push(it));
    }

    /// Takes up the entries in the file at `path`, and keeps the latest ones there from now on.
    pub fn keep_in(&self, path: PathBuf) {
        kept::read(&path).into_iter().for_each(|it| self.latest.borrow_mut().push(it));
        self.kept.replace(Some(path));
    }

    /// Leaves the file to the process that has replaced this one.
    pub fn keep_no_more(&self) {
        self.kept.replace(None);
    }

    /// Writes the latest entries, if there are new ones. An error costs only what a restart would show: the error log has each entry.
    fn save(&self) {
        if let Some(path) = self.kept.borrow().as_ref().filter(|_| self.is_unsaved.replace(false)) {
            let _ = kept::write(path, &self.latest.borrow().all());
        }
    }

    /// Logs an answered request, if it changed something or was rejected.
    pub fn answered(&self, entry: &AuditEntry<'_>) {
        let writes = entry.endpoint.is_some_and(|it| it.effect == Effect::Writes);
        match entry.status {
            400.. => self.refused(entry),
            _ if writes => self.write(Level::Info, WRITE, entry),
            _ => {}
        }
    }

    /// Logs a head that could not be parsed: then the request is unknown.
    pub fn rejected(&self, client: &Client, status: u16, why: &str) {
        if self.admits(&Requester::Nobody, client, status) {
            let (from, status) = (from(client), status.to_string());
            let values = [("who", "nobody"), ("from", from.as_str()), ("status", &status), ("why", why)];
            self.event(Level::Warn, REFUSED, &values);
        }
    }

    fn refused(&self, entry: &AuditEntry<'_>) {
        if self.admits(entry.requester, entry.client, entry.status) {
            self.write(Level::Warn, REFUSED, entry);
        }
    }

    /// Counts a rejection; returns whether it is logged in full.
    fn admits(&self, requester: &Requester, client: &Client, status: u16) -> bool {
        self.counters.admin_refusals.add_shared(1);
        self.write_summaries();
        let storm =
            if matches!(requester, Requester::Nobody) { &self.unauthenticated } else { &self.operators };
        let admits = storm.borrow_mut().admits(RefusalKind::of(client.peer.map(|it| it.ip()), status));
        if !admits {
            self.counters.admin_refusals_unlogged.add_shared(1);
        }
        admits
    }

    fn event(&self, level: Level, event: &str, values: &[(&str, &str)]) {
        if let Some(record) = AuditRecord::of(clock::wall().0, event, values.iter().copied()) {
            self.latest.borrow_mut().push(record);
            self.is_unsaved.set(true);
        }
        self.log.event(level, event, values);
        self.file.of(Subsystem::Audit).event(level, event, values);
    }

    /// To be called about once a second.
    pub fn tick(&self) {
        self.write_summaries();
        self.save();
    }

    /// Logs the number of omitted rejections of each client at the end of a second.
    fn write_summaries(&self) {
        let now = clock::wall().0;
        for storm in [&self.operators, &self.unauthenticated] {
            let left_out = storm.borrow_mut().end_second(now);
            left_out.iter().for_each(|it| self.write_summary(it));
        }
    }

    fn write_summary(&self, OmittedRefusals { kind, count }: &OmittedRefusals) {
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

    fn write(&self, level: Level, event: &str, entry: &AuditEntry<'_>) {
        let from = from(entry.client);
        let session = entry.requester.session().map(|it| it.to_string());
        let (path, query) = entry.request.target.split_once('?').unwrap_or((&entry.request.target, ""));
        let status = entry.status.to_string();
        let what = short_body(entry);
        let mut values = vec![("who", entry.requester.name())];
        if let Some(role) = entry.requester.role() {
            values.push(("role", role.name()));
        }
        if let Some(session) = &session {
            values.push(("session", session));
        }
        values.extend([
            ("from", from.as_str()),
            ("method", entry.request.method.as_str()),
            ("path", beginning(path)),
            ("status", status.as_str()),
        ]);
        // An unauthenticated client may have put anything there, such as a token.
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

    /// Opens another file. The result switches to it.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn prepare<'a>(
        &'a self,
        target: &larder_observe::log::LogTarget,
    ) -> std::io::Result<impl FnOnce() + use<'a>> {
        self.file.prepare(target)
    }

    /// Reopens the file.
    pub fn reopen(&self) {
        self.file.reopen();
    }

    /// Writes queued lines; waits at most `bound`.
    pub fn close(&self, bound: Duration) -> Closed {
        self.save();
        self.file.close(bound)
    }
}

fn from(client: &Client) -> String {
    client.peer.map_or_else(|| "unix".to_owned(), |it| it.to_string())
}

/// A short form of a body: short JSON of an authenticated client unchanged, never a login code, no text of a configuration, which may
/// have secrets, and no request to explain, which may have cookies and credentials of a visitor.
fn short_body(entry: &AuditEntry<'_>) -> String {
    let has_text = |it: &Endpoint| it.path.starts_with("/api/v1/config") && !it.path.ends_with("/rollback");
    let needs_token = |it: &Endpoint| matches!(it.needs, EndpointAccess::Role(_));
    let has_fields = |it: &Endpoint| it.path.ends_with("/explain");
    let is_open = entry.endpoint.is_none_or(|it| !needs_token(it) || has_text(it) || has_fields(it));
    match std::str::from_utf8(entry.body) {
        Ok("") => String::new(),
        Ok(text) if !is_open && text.len() <= MOST_LOGGED && text.trim_start().starts_with('{') => {
            text.to_owned()
        }
        _ => format!("({} bytes)", entry.body.len()),
    }
}

fn beginning(text: &str) -> &str {
    let cut = (0..=MOST_LOGGED.min(text.len())).rev().find(|it| text.is_char_boundary(*it));
    &text[..cut.unwrap_or(0)]
}
