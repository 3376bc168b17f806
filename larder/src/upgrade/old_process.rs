//! The old process of an upgrade: it starts the new one, hands over, and takes everything back if that fails.

use super::fault_injection::{behaves_as, inject_fault};
use super::message::{BrokenLink, HandOverMessage, MOST_SOCKETS, MessageKind};
use super::operator_state::OperatorState;
use super::purge_channel::{self, LinkEnd};
use super::ram::RamSending;
use super::{
    ASKS_FOR_OPERATOR_STATE, ASKS_FOR_QUIC, ASKS_FOR_RAM, ASKS_FOR_TICKET_KEYS, REPORTS_END, STARTED_BY,
    SocketRow, quic,
};
use crate::landlock_rules;
use larder_server::addresses::OpenAddresses;
use larder_server::purge::PurgeQueue;
use larder_server::purge::peer::{PassedPurge, PurgePeer};
use larder_stdx::error::plain;
use larder_store::Store;
use larder_store::disk::DiskTier;
use larder_transport::listener::{SocketFileOwner, SocketHandle};
use larder_transport::tls::ServerTls;
use serde_json::{Value, json};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Variables that are for this process alone.
const OURS: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];
/// How long the end of a process is waited for that has closed its connection.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A socket to hand over.
pub struct OfferedSocket {
    /// Its description.
    pub row: SocketRow,
    /// The descriptor that is handed over.
    pub socket: OwnedFd,
}

impl OfferedSocket {
    /// The sockets of one address; none where the process has no descriptor left.
    pub fn of(
        handles: &[SocketHandle],
        row: impl Fn(SocketFileOwner) -> SocketRow,
    ) -> Result<Vec<Self>, String> {
        let offered = |it: &SocketHandle| {
            let socket =
                it.duplicate().ok_or("No file descriptor is left for the hand-over of the sockets.")?;
            Ok(Self { row: row(it.file_owner()), socket })
        };
        handles.iter().map(offered).collect()
    }

    fn json(&self) -> Value {
        let SocketRow { purpose, configured, file } = &self.row;
        json!({ "purpose": purpose.name(), "configured": configured, "file": *file == SocketFileOwner::Larder })
    }
}

/// The new process; killed when this is dropped before it serves.
struct NewProcess {
    child: Child,
    serves: bool,
}

impl Drop for NewProcess {
    fn drop(&mut self) {
        if !self.serves {
            // Waited for: it must not hold the disk tier's lock any more.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl NewProcess {
    /// How it ended, as the end of a sentence.
    fn ended(&mut self) -> String {
        for _ in 0..ENDS_WITHIN.as_millis() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return match status.signal() {
                    // Another process ended it: it could write nothing.
                    Some(_) => format!("ended ({status})"),
                    None => format!("ended ({status}); its error output has the reason"),
                };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        "closed the connection".to_owned()
    }

    fn sentence(&mut self, why: &NotReady) -> String {
        match why {
            NotReady::Refused(sentence) => format!("The new process cannot take over: {sentence}"),
            NotReady::Broken(BrokenLink::Ended) => format!("The new process {}.", self.ended()),
            NotReady::Broken(why) => format!("The new process {}.", why.sentence()),
        }
    }

    /// Starts the program, with one end of a connection as its standard input; returns the other.
    fn start(file: &Path, within: Duration) -> Result<(NewProcess, UnixStream), String> {
        let failed = |it: &std::io::Error| format!("The hand-over cannot begin: {}.", plain(it));
        let (stream, theirs) = UnixStream::pair().map_err(|it| failed(&it))?;
        stream.set_read_timeout(Some(within)).map_err(|it| failed(&it))?;
        stream.set_write_timeout(Some(within)).map_err(|it| failed(&it))?;
        let mut command = Command::new(file);
        command.args(std::env::args_os().skip(1)).stdin(Stdio::from(OwnedFd::from(theirs)));
        for name in OURS {
            command.env_remove(name);
        }
        command.env(STARTED_BY, std::process::id().to_string());
        match landlock_rules::to_hand_over() {
            Some(rules) => command.env(landlock_rules::HANDED_OVER, rules),
            None => command.env_remove(landlock_rules::HANDED_OVER),
        };
        let child = command.spawn();
        // The end of the other process is noticed only if this one does not hold its socket.
        drop(command);
        let child = child.map_err(|it| not_started(file, &it))?;
        Ok((NewProcess { child, serves: false }, stream))
    }
}

/// Why the new process cannot take over.
enum NotReady {
    /// Its own sentence.
    Refused(String),
    /// The connection to it.
    Broken(BrokenLink),
}

impl NotReady {
    fn refused(message: &HandOverMessage) -> Self {
        NotReady::Refused(String::from_utf8_lossy(&message.body).into_owned())
    }
}

impl From<BrokenLink> for NotReady {
    fn from(why: BrokenLink) -> Self {
        NotReady::Broken(why)
    }
}

/// The parts of this process that an upgrade concerns.
pub struct UpgradeContext {
    /// RAM, with the purges in force.
    pub store: Arc<Store>,
    /// The disk tier.
    pub disk: Option<Arc<DiskTier>>,
    /// For the purges of the new process.
    pub purge_queue: PurgeQueue,
    /// For those of this one.
    pub peer: Rc<PurgePeer>,
    /// The checksum of the settings under which RAM was filled, or why it is not handed over.
    pub ram: Result<u64, &'static str>,
    /// TLS, whose ticket keys are handed over.
    pub tls: Option<Arc<ServerTls>>,
    /// The addresses, for HTTP/3 connections that are not over.
    pub addresses: OpenAddresses,
    /// The overlays and drains.
    pub operator: OperatorState,
}

/// The process that serves now.
#[derive(Debug)]
pub struct Successor {
    /// Its id.
    pub process: u32,
    /// Its version of larder.
    pub version: String,
    /// The connection to it.
    pub link: JoinHandle<LinkEnd>,
}

/// The reason for an error of a thread.
const NO_THREAD: &str = "The system has no thread for the hand-over.";

/// Purges of this process wait for the new one, until this is dropped.
struct SharedPurges<'m>(&'m UpgradeContext);

impl Drop for SharedPurges<'_> {
    fn drop(&mut self) {
        self.0.peer.disconnect();
        self.0.store.set_peer(false);
    }
}

/// Starts the program at `file` and hands over to it; `pause` is called when nothing but the new process may write to storage, or accept changes of operators.
/// After an error this process has everything as before, except for the effects of `pause`. Each step may take `within`. The new
/// process is killed where this is dropped before it serves.
///
/// # Errors
/// One sentence.
pub async fn replace(
    means: &UpgradeContext,
    file: PathBuf,
    offered: Vec<OfferedSocket>,
    within: Duration,
    pause: impl FnOnce(),
) -> Result<Successor, String> {
    let begun = on_a_thread(move || NewProcess::start(&file, within)).await;
    let (mut new, stream) = begun.ok_or(NO_THREAD)??;
    let (store, ram) = (means.store.clone(), means.ram);
    inject_fault("old start");
    let prepared = on_a_thread(move || {
        let about = introduce(&stream, &offered)?;
        inject_fault("old ready");
        let sending = match ram {
            _ if about[ASKS_FOR_RAM] != true => RamSending::nothing(),
            Ok(settings) => RamSending::begin(&stream, &store, settings, &about)?,
            Err(why) => RamSending::refused(&stream, why)?,
        };
        inject_fault("old ram");
        Ok((stream, about, sending))
    });
    let (stream, about, ram) = prepared.await.ok_or(NO_THREAD)?.map_err(|it: NotReady| new.sentence(&it))?;
    let version = about["version"].as_str().unwrap_or("unknown").to_owned();
    pause();
    // From here on purges wait for the new process, which writes them to the journal.
    means.store.set_peer(true);
    let (purges, shared) = (means.peer.connect(), SharedPurges(means));
    if let Some(disk) = &means.disk {
        // An incomplete segment is recovered by the new process.
        let _ = disk.hand_over().await;
    }
    inject_fault("old disk");
    let (store, tls, addresses) = (means.store.clone(), means.tls.clone(), means.addresses.clone());
    let operator = means.operator.clone();
    let switched = on_a_thread(move || {
        let purges = ram.end(&stream, &store)?;
        inject_fault("old end");
        if about[ASKS_FOR_TICKET_KEYS] == true {
            // As late as possible: a key that is due is made before.
            let body = tls.map(|it| it.ticket_keys()).unwrap_or_default();
            HandOverMessage { kind: MessageKind::TicketKeys, number: 0, body }.send(&stream, &[])?;
        }
        if about[ASKS_FOR_QUIC] == true {
            quic::send(&stream, &addresses.hand_over_quic())?;
        }
        if about[ASKS_FOR_OPERATOR_STATE] == true {
            operator.send(&stream)?;
        }
        let switch = HandOverMessage { kind: MessageKind::Switch, number: purges.last, body: purges.rules };
        switch.send(&stream, &[])?;
        inject_fault("old switch");
        Ok::<_, BrokenLink>(stream)
    });
    let outcome = match switched.await {
        Some(Ok(stream)) => serves(&mut new, stream, purges, means, within).await,
        Some(Err(why)) => Err(new.sentence(&why.into())),
        None => Err(NO_THREAD.to_owned()),
    };
    match outcome {
        Ok(link) => {
            new.serves = true;
            // While both serve.
            std::mem::forget(shared);
            Ok(Successor { process: new.child.id(), version, link })
        }
        Err(sentence) => {
            drop(new);
            take_back(means).await;
            drop(shared);
            Err(sentence)
        }
    }
}

/// Waits until the new process serves; purges are exchanged from now on.
async fn serves(
    new: &mut NewProcess,
    stream: UnixStream,
    purges: mpsc::UnboundedReceiver<PassedPurge>,
    means: &UpgradeContext,
    within: Duration,
) -> Result<JoinHandle<LinkEnd>, String> {
    let (tell, serving) = oneshot::channel();
    let link = purge_channel::start(stream, purges, means.purge_queue.clone(), Some(tell))?;
    let outcome = match tokio::time::timeout(within, serving).await {
        Ok(Ok(Ok(()))) => return Ok(link),
        Ok(Ok(Err(sentence))) => NotReady::Refused(sentence),
        Ok(Err(_)) => NotReady::Broken(BrokenLink::Ended),
        Err(_) => NotReady::Broken(BrokenLink::Late),
    };
    link.abort();
    Err(new.sentence(&outcome))
}

/// Runs work that waits for the other process on a thread. The end of this process does not wait for it.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("upgrade".to_owned());
    thread.spawn(move || drop(tell.send(work()))).ok()?;
    result.await.ok()
}

/// This process has its disk tier again.
async fn take_back(means: &UpgradeContext) {
    let store = means.store.clone();
    let _ = on_a_thread(move || store.reclaim_arena()).await;
    if let Some(disk) = &means.disk
        && let Some(last) = disk.take_back().await
    {
        // The new process may have used these numbers.
        means.store.restore(last, Vec::new());
    }
}

/// Offers the sockets and waits until the new process is ready; returns its description.
fn introduce(stream: &UnixStream, offered: &[OfferedSocket]) -> Result<Value, NotReady> {
    let why = match offer(stream, offered).and_then(|()| HandOverMessage::receive(stream)) {
        Ok((message, _)) if message.kind == MessageKind::Ready => {
            return Ok(serde_json::from_slice(&message.body).unwrap_or_default());
        }
        Ok((message, _)) if message.kind == MessageKind::Refused => return Err(NotReady::refused(&message)),
        Ok(_) => BrokenLink::Damaged("a message out of order"),
        Err(why) => why,
    };
    // A sentence may have come before the end.
    if matches!(why, BrokenLink::Ended)
        && let Ok((message, _)) = HandOverMessage::receive(stream)
        && message.kind == MessageKind::Refused
    {
        return Err(NotReady::refused(&message));
    }
    Err(why.into())
}

fn not_started(file: &Path, error: &std::io::Error) -> String {
    let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied && landlock_rules::are_in_force();
    let remedy =
        if is_denied { "; a program at another place needs a restart of larder (sandbox)" } else { "" };
    format!("{} cannot be started: {}{remedy}.", file.display(), plain(error))
}

fn offer(stream: &UnixStream, offered: &[OfferedSocket]) -> Result<(), BrokenLink> {
    let mut offer = HandOverMessage::new(MessageKind::Offer);
    offer.number = offered.len() as u64;
    if !behaves_as("without end report") {
        offer.body = json!({ REPORTS_END: true }).to_string().into_bytes();
    }
    offer.send(stream, &[])?;
    inject_fault("old offer");
    for some in offered.chunks(MOST_SOCKETS) {
        let rows: Value = some.iter().map(OfferedSocket::json).collect();
        let body = rows.to_string().into_bytes();
        let sockets: Vec<_> = some.iter().map(|it| it.socket.as_fd()).collect();
        HandOverMessage { kind: MessageKind::Sockets, number: 0, body }.send(stream, &sockets)?;
    }
    inject_fault("old sockets");
    Ok(())
}
