//! The old process of an upgrade: it starts the new one, hands over, and takes everything back if that fails.

use super::link;
use super::message::{BrokenLink, HandOverMessage, MOST_SOCKETS, MessageKind};
use super::{STARTED_BY, SocketRow};
use crate::path_rules;
use larder_server::purge::PurgeQueue;
use larder_server::purge::peer::PurgePeer;
use larder_stdx::error::plain;
use larder_store::Store;
use larder_store::disk::DiskTier;
use larder_transport::listener::{SocketFileOwner, SocketHandle};
use serde_json::{Value, json};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Variables that are for this process alone.
const OURS: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];
/// How long the end of a process is waited for that has closed its connection.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A socket to hand over.
pub struct OfferedSocket {
    /// Its description.
    pub row: SocketRow,
    /// It.
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
                return format!("ended ({status}); its error output has the reason");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        "closed the connection".to_owned()
    }

    fn sentence(&mut self, why: &BrokenLink) -> String {
        let why = if matches!(why, BrokenLink::Ended) { self.ended() } else { why.tell() };
        format!("The new process {why}.")
    }
}

/// The parts of this process that an upgrade concerns.
pub struct UpgradeMeans {
    /// RAM, with the purges in force.
    pub store: Arc<Store>,
    /// The disk tier.
    pub disk: Option<Arc<DiskTier>>,
    /// For the purges of the new process.
    pub desk: PurgeQueue,
    /// For those of this one.
    pub peer: Rc<PurgePeer>,
}

/// The process that serves now.
#[derive(Clone, Debug)]
pub struct Successor {
    /// Its id.
    pub process: u32,
    /// Its version of larder.
    pub version: String,
}

/// Starts the program at `file` and hands over to it; `pause` is called when nothing but the new process may write to storage.
/// After an error this process has everything as before, except for the effects of `pause`. Each step may take `within`.
///
/// # Errors
/// One sentence.
pub async fn replace(
    means: &UpgradeMeans,
    file: PathBuf,
    offered: Vec<OfferedSocket>,
    within: Duration,
    pause: impl FnOnce(),
) -> Result<Successor, String> {
    let begun = on_a_thread(move || begin(file, &offered, within)).await;
    let (mut new, stream, version) = begun.ok_or("The system has no thread for the hand-over.")??;
    pause();
    // From here on purges wait for the new process, which writes them to the journal.
    means.store.meets_peer(true);
    let purges = means.peer.connect();
    if let Some(disk) = &means.disk {
        // An incomplete segment is recovered by the new process.
        let _ = disk.hand_over().await;
    }
    let last = means.store.purge_number();
    let body = means.store.rules_as_bytes();
    let switch = HandOverMessage { kind: MessageKind::Switch, number: last, body };
    let sent = on_a_thread(move || switch.send(&stream, &[]).map(|()| stream)).await;
    let (tell, serving) = oneshot::channel();
    let linked = match sent {
        Some(Ok(stream)) => link::start(stream, purges, means.desk.clone(), Some(tell)),
        _ => Err("The new process closed the connection.".to_owned()),
    };
    let outcome = match linked {
        Ok(link) => match tokio::time::timeout(within, serving).await {
            Ok(Ok(Ok(()))) => Ok(()),
            other => {
                link.abort();
                Err(match other {
                    Ok(Ok(Err(sentence))) => format!("The new process cannot take over: {sentence}"),
                    Ok(Err(_)) => new.sentence(&BrokenLink::Ended),
                    Ok(Ok(Ok(()))) | Err(_) => new.sentence(&BrokenLink::Late),
                })
            }
        },
        Err(sentence) => Err(sentence),
    };
    match outcome {
        Ok(()) => {
            new.serves = true;
            Ok(Successor { process: new.child.id(), version })
        }
        Err(sentence) => {
            drop(new);
            take_back(means).await;
            Err(sentence)
        }
    }
}

/// Runs work that waits for the other process on a thread. The end of this process does not wait for it.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("upgrade".to_owned());
    thread.spawn(move || drop(tell.send(work()))).ok()?;
    result.await.ok()
}

/// This process serves alone again.
async fn take_back(means: &UpgradeMeans) {
    if let Some(disk) = &means.disk
        && let Some(last) = disk.take_back().await
    {
        // The new process may have used these numbers.
        means.store.restore(last, Vec::new());
    }
    means.peer.disconnect();
    means.store.meets_peer(false);
}

/// Starts the new process and waits until it is ready.
fn begin(
    file: PathBuf,
    offered: &[OfferedSocket],
    within: Duration,
) -> Result<(NewProcess, UnixStream, String), String> {
    let failed = |it: &std::io::Error| format!("The hand-over cannot begin: {}.", plain(it));
    let (stream, theirs) = UnixStream::pair().map_err(|it| failed(&it))?;
    stream.set_read_timeout(Some(within)).map_err(|it| failed(&it))?;
    stream.set_write_timeout(Some(within)).map_err(|it| failed(&it))?;
    let mut command = Command::new(&file);
    command.args(std::env::args_os().skip(1)).stdin(Stdio::from(OwnedFd::from(theirs)));
    for name in OURS {
        command.env_remove(name);
    }
    command.env(STARTED_BY, std::process::id().to_string());
    match path_rules::to_hand_over() {
        Some(rules) => command.env(path_rules::HANDED_OVER, rules),
        None => command.env_remove(path_rules::HANDED_OVER),
    };
    let child = command.spawn();
    // The end of the other process is noticed only if this one does not hold its socket.
    drop(command);
    let child = child.map_err(|it| not_started(&file, &it))?;
    let mut new = NewProcess { child, serves: false };
    let result = offer(&stream, offered).and_then(|()| HandOverMessage::receive(&stream));
    match result {
        Ok((message, _)) if message.kind == MessageKind::Ready => {
            let about: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let version = about["version"].as_str().unwrap_or("unknown").to_owned();
            Ok((new, stream, version))
        }
        Ok((message, _)) if message.kind == MessageKind::Refused => {
            let sentence = String::from_utf8_lossy(&message.body).into_owned();
            Err(format!("The new process cannot take over: {sentence}"))
        }
        Ok(_) => Err(new.sentence(&BrokenLink::Damaged("a message out of order"))),
        Err(BrokenLink::Ended) => {
            // A sentence may have come before the end.
            match HandOverMessage::receive(&stream) {
                Ok((message, _)) if message.kind == MessageKind::Refused => {
                    let sentence = String::from_utf8_lossy(&message.body).into_owned();
                    Err(format!("The new process cannot take over: {sentence}"))
                }
                _ => Err(new.sentence(&BrokenLink::Ended)),
            }
        }
        Err(why) => Err(new.sentence(&why)),
    }
}

fn not_started(file: &Path, error: &std::io::Error) -> String {
    let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied && path_rules::are_in_force();
    let remedy =
        if is_denied { "; a program at another place needs a restart of larder (sandbox)" } else { "" };
    format!("{} cannot be started: {}{remedy}.", file.display(), plain(error))
}

fn offer(stream: &UnixStream, offered: &[OfferedSocket]) -> Result<(), BrokenLink> {
    let mut offer = HandOverMessage::new(MessageKind::Offer);
    offer.number = offered.len() as u64;
    offer.send(stream, &[])?;
    for some in offered.chunks(MOST_SOCKETS) {
        let rows: Value = some.iter().map(OfferedSocket::json).collect();
        let body = rows.to_string().into_bytes();
        let sockets: Vec<_> = some.iter().map(|it| it.socket.as_fd()).collect();
        HandOverMessage { kind: MessageKind::Sockets, number: 0, body }.send(stream, &sockets)?;
    }
    Ok(())
}
