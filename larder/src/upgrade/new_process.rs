//! The new process of an upgrade, as long as it does not serve: it takes the sockets of the larder that started it, and the disk
//! tier when that is free. An error ends it, and the other one serves on.

use super::message::{BrokenLink, HandOverMessage, MessageKind};
use super::ram::RamSource;
use super::switched_state::{HandedPurges, SwitchedState};
use super::{
    ASKS_FOR_ARENA, ASKS_FOR_QUIC, ASKS_FOR_RAM, ASKS_FOR_TICKET_KEYS, READS_VERSIONS, STARTED_BY, SocketRow,
};
use larder_server::inherited::{GivenSocket, InheritedSockets, SocketPurpose};
use larder_store::disk::rules_of_bytes;
use larder_store::snapshot::StreamVersion;
use larder_transport::listener::SocketFileOwner;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The time limit for the old process, which closes its disk tier meanwhile: longer than it waits for its queue.
const PATIENCE: Duration = Duration::from_secs(120);

/// The larder that started this process in order to be replaced.
pub struct Predecessor {
    stream: UnixStream,
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
    /// The parent process, if it is a larder that is to be replaced: standard input is the connection to it.
    pub fn of_environment() -> Option<Self> {
        let parent = rustix::process::getppid()?;
        let started_by = std::env::var(STARTED_BY).ok()?;
        if started_by != parent.as_raw_nonzero().to_string() {
            return None;
        }
        let stream = OwnedFd::from(UnixStream::from(rustix::stdio::stdin().try_clone_to_owned().ok()?));
        // No program that this process starts may hold the connection open.
        let none = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).ok()?;
        rustix::stdio::dup2_stdin(&none).ok()?;
        let stream = UnixStream::from(stream);
        stream.peer_addr().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream })
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
        planted("offer");
        let (offer, _) = self.receive(MessageKind::Offer)?;
        let mut given = Vec::new();
        while (given.len() as u64) < offer.number {
            let (message, sockets) = self.receive(MessageKind::Sockets)?;
            let rows: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let rows: Vec<SocketRow> =
                rows.as_array().into_iter().flatten().filter_map(SocketRow::of_json).collect();
            if rows.is_empty() || rows.len() != sockets.len() {
                return Err("The running larder sent sockets without a description of each.".to_owned());
            }
            given.extend(rows.into_iter().zip(sockets).map(|(row, socket)| row.given(socket)));
        }
        planted("sockets");
        InheritedSockets::of_larder(given)
    }

    /// Everything is open but the disk tier, and RAM is empty. That of the old process comes next, where it is wanted.
    ///
    /// # Errors
    /// One sentence.
    pub fn ready(&self, wanted: WantedState) -> Result<RamSource<'_>, String> {
        planted("ready");
        let mut about = json!({ "version": env!("CARGO_PKG_VERSION"), "process": std::process::id() });
        about[ASKS_FOR_RAM] = json!(wanted.ram);
        about[READS_VERSIONS] = match plan().as_str() {
            "without versions" => Value::Null,
            "later versions" => json!([8, 9]),
            _ => json!(StreamVersion::ALL.map(StreamVersion::number)),
        };
        about[ASKS_FOR_ARENA] = json!(wanted.ram && !is_planted("without arena"));
        about[ASKS_FOR_TICKET_KEYS] = json!(wanted.ticket_keys && !is_planted("without ticket keys"));
        about[ASKS_FOR_QUIC] = json!(wanted.quic && !is_planted("without packets"));
        let ready =
            HandOverMessage { kind: MessageKind::Ready, number: 0, body: about.to_string().into_bytes() };
        ready.send(&self.stream, &[]).map_err(|it| self.sentence(&it))?;
        planted("ram");
        Ok(RamSource::new(&self.stream))
    }

    /// Waits until the old process has closed the disk tier.
    ///
    /// # Errors
    /// One sentence.
    pub fn switch(&self, ram: RamSource<'_>) -> Result<SwitchedState, String> {
        let (message, state) = ram.switch().map_err(|it| self.sentence(&it))?;
        planted("switch");
        let rules = rules_of_bytes(&message.body);
        let rules = rules.ok_or("The running larder sent purges that cannot be read.")?;
        Ok(SwitchedState { purges: HandedPurges { last: message.number, rules }, ..state })
    }

    /// Connections are accepted: the old process finishes its own. The connection to it stays, for purges.
    ///
    /// # Errors
    /// One sentence: it has ended.
    pub fn serving(self) -> Result<UnixStream, String> {
        planted("serving");
        let serving = HandOverMessage::new(MessageKind::Serving);
        serving.send(&self.stream, &[]).map_err(|it| self.sentence(&it))?;
        Ok(self.stream)
    }

    fn receive(&self, kind: MessageKind) -> Result<(HandOverMessage, Vec<OwnedFd>), String> {
        match HandOverMessage::receive(&self.stream) {
            Ok(found) if found.0.kind == kind => Ok(found),
            Ok(_) => Err(self.sentence(&BrokenLink::Damaged("a message out of order"))),
            Err(why) => Err(self.sentence(&why)),
        }
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

impl SocketRow {
    fn of_json(row: &Value) -> Option<Self> {
        let purpose = [SocketPurpose::Clients, SocketPurpose::Admin, SocketPurpose::Quic];
        let purpose = purpose.into_iter().find(|it| row["purpose"] == it.name())?;
        let file = if row["file"] == json!(true) { SocketFileOwner::Larder } else { SocketFileOwner::Other };
        Some(Self { purpose, configured: row["configured"].as_str()?.to_owned(), file })
    }

    fn given(self, socket: OwnedFd) -> GivenSocket {
        let Self { purpose, configured, file } = self;
        GivenSocket { socket, purpose, configured, file }
    }
}

/// The fault that a test of an upgrade plants by the content of a file. In debug builds only.
fn plan() -> String {
    let file = std::env::var_os("LARDER_TEST_UPGRADE").filter(|_| cfg!(debug_assertions));
    file.and_then(|it| std::fs::read_to_string(it).ok()).unwrap_or_default()
}

/// Whether this process behaves as one of another version.
fn is_planted(version: &str) -> bool {
    plan() == version
}

/// A failure at a step of a test's plan.
pub fn planted(step: &str) {
    match plan().split_once(' ') {
        Some(("crash", at)) if at == step => std::process::abort(),
        Some(("hang", at)) if at == step => std::thread::sleep(PATIENCE),
        _ => {}
    }
}
