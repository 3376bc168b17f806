//! The new process of an upgrade, as long as it does not serve: it takes the sockets of the larder that started it, and the disk
//! tier when that is free. An error ends it, and the other one continues to serve. If the other one has ended, this one goes on.

use super::fault_injection::{behaves_as, inject_fault, plan};
use super::message::{BrokenLink, HandOverMessage, MessageKind};
use super::ram::RamSource;
use super::switched_state::{HandedPurges, SwitchedState};
use super::{
    ASKS_FOR_ARENA, ASKS_FOR_OPERATOR_STATE, ASKS_FOR_QUIC, ASKS_FOR_RAM, ASKS_FOR_TICKET_KEYS,
    READS_VERSIONS, REPORTS_END, STARTED_BY, SocketRow,
};
use larder_server::inherited::{InheritedSockets, SocketPurpose, TransferredSocket};
use larder_stdx::error::plain;
use larder_store::disk::rules_of_bytes;
use larder_store::snapshot::StreamVersion;
use larder_transport::listener::SocketFileOwner;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_peercred};
use rustix::net::{AddressFamily, getpeername};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The time limit for the old process, which closes its disk tier meanwhile: longer than it waits for its queue.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long the old process may take to end when it has closed the connection. It kills this process where it continues to serve.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The larder that started this process in order to be replaced.
pub struct Predecessor {
    stream: UnixStream,
    process: Pid,
    crash: Cell<Option<CrashedPredecessor>>,
    reports_end: Cell<bool>,
}

/// The connection to the old process when this one serves.
pub struct PredecessorLink {
    /// The socket to the old process.
    pub stream: UnixStream,
    /// The meaning of its end.
    pub end: ExpectedEnd,
}

/// The expected end of the connection to the old process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedEnd {
    /// A report comes before it, unless the process crashes.
    Reported,
    /// The version of the old process does not report it.
    Unreported,
    /// The process has crashed before this one served, which was logged.
    Crashed,
}

/// The state that this process has of an old one that ended before this one served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashedPredecessor {
    /// No purges: RAM that was received may be older than one.
    BeforeSwitch,
    /// All of it. Purges that were passed on since wait in the connection.
    AfterSwitch,
}

impl CrashedPredecessor {
    /// How this process goes on.
    pub fn now(self) -> &'static str {
        match self {
            Self::BeforeSwitch => {
                "RAM starts empty, the disk tier has its content, and addresses whose sockets did not arrive were opened"
            }
            Self::AfterSwitch => {
                "this process goes on with everything: the sockets, RAM, the disk tier and the purges"
            }
        }
    }
}

/// The state for which a new process asks the old one, in addition to sockets and purges.
#[derive(Clone, Copy, Debug)]
pub struct WantedState {
    /// The RAM tier.
    pub ram: bool,
    /// The keys of TLS tickets.
    pub ticket_keys: bool,
    /// The packets of its HTTP/3 connections: this process reads their sockets from now on.
    pub quic: bool,
}

impl Predecessor {
    /// The larder that started this process in order to be replaced: standard input is the connection to it. It may have ended before
    /// this process looks. The variable of another process was inherited, and means nothing.
    ///
    /// # Errors
    /// One sentence: there is no such connection. Two processes would serve with different purges.
    pub fn of_environment() -> Result<Option<Self>, String> {
        let started_by = std::env::var(STARTED_BY).ok().and_then(|it| it.parse().ok());
        let Some(process) = started_by.and_then(Pid::from_raw) else { return Ok(None) };
        match connection(process) {
            Ok(stream) => {
                Ok(Some(Self { stream, process, crash: Cell::new(None), reports_end: Cell::new(false) }))
            }
            Err(_) if rustix::process::getppid() != Some(process) => Ok(None),
            Err(why) => Err(format!(
                "{STARTED_BY} names the parent process, but standard input {why}: use `larder upgrade`, which sets both."
            )),
        }
    }

    /// The connection, for a report of failure.
    pub fn reporter(&self) -> Option<UnixStream> {
        self.stream.try_clone().ok()
    }

    /// Receives the sockets.
    ///
    /// # Errors
    /// One sentence.
    pub fn sockets(&self) -> Result<InheritedSockets, String> {
        inject_fault("offer");
        let mut given = Vec::new();
        let offer = self.receive(MessageKind::Offer)?.map(|(offer, _)| offer);
        let about: Value =
            offer.as_ref().and_then(|it| serde_json::from_slice(&it.body).ok()).unwrap_or_default();
        self.reports_end.set(about[REPORTS_END] == true);
        while (given.len() as u64) < offer.as_ref().map_or(0, |it| it.number) {
            let Some((message, sockets)) = self.receive(MessageKind::Sockets)? else { break };
            let rows: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let rows: Vec<SocketRow> =
                rows.as_array().into_iter().flatten().filter_map(SocketRow::of_json).collect();
            if rows.is_empty() || rows.len() != sockets.len() {
                return Err("The running larder sent sockets without a description of each.".to_owned());
            }
            given.extend(rows.into_iter().zip(sockets).map(|(row, socket)| row.given(socket)));
        }
        inject_fault("sockets");
        InheritedSockets::of_larder(given)
    }

    /// Everything is open but the disk tier, and RAM is empty. That of the old process comes next, where it is wanted. `None` where
    /// the old process has ended.
    ///
    /// # Errors
    /// One sentence.
    pub fn ready(&self, wanted: WantedState) -> Result<Option<RamSource<'_>>, String> {
        inject_fault("ready");
        if self.crash.get().is_some() {
            return Ok(None);
        }
        let mut about = json!({ "version": env!("CARGO_PKG_VERSION"), "process": std::process::id() });
        about[ASKS_FOR_RAM] = json!(wanted.ram);
        about[READS_VERSIONS] = match plan().as_str() {
            "without versions" => Value::Null,
            "later versions" => json!([8, 9]),
            _ => json!(StreamVersion::ALL.map(StreamVersion::number)),
        };
        about[ASKS_FOR_ARENA] = json!(wanted.ram && !behaves_as("without arena"));
        about[ASKS_FOR_TICKET_KEYS] = json!(wanted.ticket_keys && !behaves_as("without ticket keys"));
        about[ASKS_FOR_QUIC] = json!(wanted.quic && !behaves_as("without packets"));
        about[ASKS_FOR_OPERATOR_STATE] = json!(!behaves_as("without operator state"));
        let ready =
            HandOverMessage { kind: MessageKind::Ready, number: 0, body: about.to_string().into_bytes() };
        let sent = ready.send(&self.stream, &[]);
        inject_fault("ram");
        let sent = self.unless_crashed(sent, CrashedPredecessor::BeforeSwitch)?;
        Ok(sent.map(|()| RamSource::new(&self.stream)))
    }

    /// Waits until the old process has closed the disk tier. `None` where it has ended.
    ///
    /// # Errors
    /// One sentence.
    pub fn switch(&self, ram: RamSource<'_>) -> Result<Option<SwitchedState>, String> {
        let switched = self.unless_crashed(ram.switch(), CrashedPredecessor::BeforeSwitch)?;
        let Some((message, state)) = switched else { return Ok(None) };
        inject_fault("switch");
        let rules = rules_of_bytes(&message.body);
        let rules = rules.ok_or("The running larder sent purges that cannot be read.")?;
        Ok(Some(SwitchedState { purges: HandedPurges { last: message.number, rules }, ..state }))
    }

    /// Connections are accepted: the old process finishes its own.
    ///
    /// # Errors
    /// One sentence: it continues to serve.
    pub fn serving(&self) -> Result<(), String> {
        inject_fault("serving");
        if self.crash.get().is_none() {
            let serving = HandOverMessage::new(MessageKind::Serving).send(&self.stream, &[]);
            self.unless_crashed(serving, CrashedPredecessor::AfterSwitch)?;
        }
        Ok(())
    }

    /// Whether the old process ended before this one served.
    pub fn crash(&self) -> Option<CrashedPredecessor> {
        self.crash.get()
    }

    /// The connection, for purges; `None` where the two processes never had the same.
    pub fn link(self) -> Option<PredecessorLink> {
        let end = match self.crash.get() {
            Some(CrashedPredecessor::BeforeSwitch) => return None,
            Some(CrashedPredecessor::AfterSwitch) => ExpectedEnd::Crashed,
            None if self.reports_end.get() => ExpectedEnd::Reported,
            None => ExpectedEnd::Unreported,
        };
        Some(PredecessorLink { stream: self.stream, end })
    }

    fn receive(&self, kind: MessageKind) -> Result<Option<(HandOverMessage, Vec<OwnedFd>)>, String> {
        let received = match HandOverMessage::receive(&self.stream) {
            Ok(found) if found.0.kind != kind => Err(BrokenLink::Damaged("a message out of order")),
            received => received,
        };
        self.unless_crashed(received, CrashedPredecessor::BeforeSwitch)
    }

    /// `None` where the old process has ended. Where it only closed the connection it continues to serve, and two processes must not have
    /// different purges: that is an error.
    fn unless_crashed<T>(
        &self,
        outcome: Result<T, BrokenLink>,
        crash: CrashedPredecessor,
    ) -> Result<Option<T>, String> {
        match outcome {
            Ok(it) => Ok(Some(it)),
            Err(BrokenLink::Ended) if self.has_ended() => {
                self.crash.set(Some(crash));
                Ok(None)
            }
            Err(BrokenLink::Ended) => Err("The running larder closed the connection.".to_owned()),
            Err(why) => Err(self.sentence(&why)),
        }
    }

    /// Whether it ends within the time limit: a process whose parent has ended gets another one.
    fn has_ended(&self) -> bool {
        let runs = || rustix::process::getppid() == Some(self.process);
        for _ in 0..ENDS_WITHIN.as_millis() {
            if !runs() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    fn sentence(&self, why: &BrokenLink) -> String {
        format!("The running larder {}.", why.sentence())
    }
}

/// Reports to the old process why this one cannot take over.
pub fn refuse(stream: &UnixStream, sentence: &str) {
    let body = sentence.as_bytes().to_vec();
    // It notices the end of this process in any case.
    let _ = HandOverMessage { kind: MessageKind::Refused, number: 0, body }.send(stream, &[]);
}

/// The connection to the old process, which standard input is not any more afterwards. The error is the end of a sentence.
fn connection(to: Pid) -> Result<UnixStream, String> {
    let refused = |it: Errno| format!("cannot be used ({})", plain(&it.into()));
    let stdin = rustix::stdio::stdin();
    if socket_domain(stdin) != Ok(AddressFamily::UNIX) || getpeername(stdin).is_err() {
        return Err("is no connection to it".to_owned());
    }
    let peer = socket_peercred(stdin).map_err(refused)?;
    if peer.uid != rustix::process::geteuid() {
        return Err("is a connection of another user".to_owned());
    }
    if peer.pid != to {
        return Err("is a connection to another process".to_owned());
    }
    let stream = UnixStream::from(stdin.try_clone_to_owned().map_err(|it| plain(&it))?);
    // No program that this process starts may hold the connection open.
    let none = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).map_err(refused)?;
    rustix::stdio::dup2_stdin(&none).map_err(refused)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(|it| plain(&it))?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(|it| plain(&it))?;
    Ok(stream)
}

impl SocketRow {
    fn of_json(row: &Value) -> Option<Self> {
        let purpose = [SocketPurpose::Clients, SocketPurpose::Admin, SocketPurpose::Quic];
        let purpose = purpose.into_iter().find(|it| row["purpose"] == it.name())?;
        let file = if row["file"] == json!(true) { SocketFileOwner::Larder } else { SocketFileOwner::Other };
        Some(Self { purpose, configured: row["configured"].as_str()?.to_owned(), file })
    }

    fn given(self, socket: OwnedFd) -> TransferredSocket {
        let Self { purpose, configured, file } = self;
        TransferredSocket { socket, purpose, configured, file }
    }
}
