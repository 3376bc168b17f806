//! Listening addresses: TCP with `SO_REUSEPORT` per worker, or a Unix socket shared by all; and the accept loop, which
//! survives a lack of descriptors.

pub(crate) mod family;
mod handed;

pub use handed::{SocketFileOwner, SocketHandle, SocketPlace, adopt};

use crate::client::Client;
use crate::client_socket::{ClientSocket, HandshakeFailure};
use crate::handler::Handler;
use crate::proxy_protocol::MissingPreamble;
use crate::tls::{AlpnProtocol, ServerTls};
use crate::worker::{ConnectionPermit, MOST_CLOSED, TransportWorker};
use crate::{http1, http2};
use larder_semantics::scheme::Scheme;
use larder_stdx::descriptors;
use larder_wire::proxy::ConnectionSource;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, SockAddr, Socket, Type};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// A listening address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    /// `ADDR:PORT` or `http://ADDR:PORT`; port 0 takes a free one.
    Tcp(SocketAddr),
    /// `https://ADDR:PORT`.
    Tls(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl Listen {
    /// The same address with TLS.
    #[must_use]
    pub fn secured(&self) -> Self {
        match self {
            Listen::Tcp(address) => Listen::Tls(*address),
            other => other.clone(),
        }
    }

    /// The same scheme with another address.
    fn at(&self, address: SocketAddr) -> Self {
        match self {
            Listen::Tls(_) => Listen::Tls(address),
            _ => Listen::Tcp(address),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "http://{address}"),
            Listen::Tls(address) => write!(f, "https://{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The beginning of a connection, before TLS and HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preamble {
    /// None; a PROXY header is invalid HTTP.
    #[default]
    None,
    /// A PROXY header, which is required.
    Proxy,
}

/// A client listener: its address, and the beginning of its connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerAddress {
    /// The address.
    pub at: Listen,
    /// The required beginning.
    pub preamble: Preamble,
}

impl Listen {
    /// In the notation of the configuration.
    #[must_use]
    pub fn spelled(&self) -> String {
        match self {
            Listen::Tcp(address) => address.to_string(),
            Listen::Tls(_) | Listen::Unix(_) => self.to_string(),
        }
    }
}

impl ListenerAddress {
    /// In the notation of the configuration.
    #[must_use]
    pub fn spelled(&self) -> String {
        match self.preamble {
            Preamble::None => self.at.spelled(),
            Preamble::Proxy => self.to_string(),
        }
    }
}

impl fmt::Display for ListenerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.preamble, &self.at) {
            (Preamble::None, it) => it.fmt(f),
            (Preamble::Proxy, Listen::Tcp(address)) => write!(f, "http+proxy://{address}"),
            (Preamble::Proxy, Listen::Tls(address)) => write!(f, "https+proxy://{address}"),
            (Preamble::Proxy, Listen::Unix(path)) => write!(f, "unix+proxy:{}", path.display()),
        }
    }
}

/// Connections that may wait to be accepted; the kernel's own limit may be lower.
const BACKLOG: i32 = 4096;
/// Longest path of a Unix socket, bytes: `sun_path` has 108, and the last is NUL.
const MAX_UNIX_PATH: usize = 107;
/// Connections accepted in one go before other tasks take their turn.
const BATCH: usize = 64;
/// The pause of accepting when the system has no descriptor or memory left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An open listening socket.
pub struct ListeningSocket {
    socket: Arc<OwnedFd>,
    listen: Listen,
    preamble: Preamble,
    file: Option<Arc<SocketFile>>,
}

/// The file of a Unix socket: removed with the last socket that listens on it, unless another process has replaced it.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Whether another process removes it.
    left: AtomicBool,
}

impl SocketFile {
    fn of(path: &Path) -> Option<Arc<Self>> {
        let it = std::fs::symlink_metadata(path).ok()?;
        let identity = (it.dev(), it.ino());
        Some(Arc::new(Self { path: path.to_owned(), identity, left: AtomicBool::new(false) }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = |it: std::fs::Metadata| (it.dev(), it.ino()) == self.identity;
        if !self.left.load(Relaxed) && std::fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            // Another process may be faster, or the removal forbidden: nothing depends on it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl fmt::Display for ListeningSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// Opens an address that other workers will share (see [`ListeningSocket::duplicate`]).
///
/// # Errors
/// One sentence: the failed operation, the reason, and the remedy.
pub fn bind(listen: &Listen) -> Result<ListeningSocket, String> {
    bind_beside(listen, &[])
}

/// As [`bind`], in a process that already listens on `ports`: their sockets share the port with the new one.
///
/// # Errors
/// One sentence: the failed operation, the reason, and the remedy.
pub fn bind_beside(listen: &Listen, ports: &[u16]) -> Result<ListeningSocket, String> {
    match listen {
        Listen::Tcp(address) | Listen::Tls(address) => {
            // Sockets that share a port do not detect a foreign one that shares it, too: bind without sharing first. A
            // free port has none, and must be kept from the moment that it was found.
            if address.port() != 0 && !ports.contains(&address.port()) {
                drop(tcp(*address, Sharing::Alone).map_err(|it| refused(listen, &it))?);
            }
            let socket = tcp(*address, Sharing::Port).map_err(|it| refused(listen, &it))?;
            let actual = local(&socket).unwrap_or(*address);
            Ok(ListeningSocket::new(socket, listen.at(actual), None))
        }
        Listen::Unix(path) => {
            let socket = unix(path, SocketAccess::Anyone).map_err(|it| refused(listen, &it))?;
            Ok(ListeningSocket::new(socket, listen.clone(), SocketFile::of(path)))
        }
    }
}

/// Opens a Unix socket that only this user may connect to.
///
/// # Errors
/// One sentence: the failed operation, the reason, and the remedy.
pub fn bind_private(path: &Path) -> Result<ListeningSocket, String> {
    let listen = Listen::Unix(path.to_owned());
    let socket = unix(path, SocketAccess::Owner).map_err(|it| refused(&listen, &it))?;
    Ok(ListeningSocket::new(socket, listen, SocketFile::of(path)))
}

/// Opens an address for one worker alone.
///
/// # Errors
/// One sentence: the failed operation, the reason, and the remedy.
pub fn bind_alone(listen: &Listen) -> Result<ListeningSocket, String> {
    match listen {
        Listen::Tcp(address) | Listen::Tls(address) => {
            let socket = tcp(*address, Sharing::Alone).map_err(|it| refused(listen, &it))?;
            let actual = local(&socket).unwrap_or(*address);
            socket.listen(BACKLOG).map_err(|it| refused(listen, &it))?;
            Ok(ListeningSocket::new(socket, listen.at(actual), None))
        }
        Listen::Unix(_) => bind(listen),
    }
}

impl ListeningSocket {
    fn new(socket: Socket, listen: Listen, file: Option<Arc<SocketFile>>) -> Self {
        Self { socket: Arc::new(socket.into()), listen, preamble: Preamble::None, file }
    }

    /// The same socket once more: both take connections from one queue.
    ///
    /// # Errors
    /// One sentence.
    pub fn shared(&self) -> Result<ListeningSocket, String> {
        let socket = self.socket.try_clone().map_err(|it| refused(&self.listen, &it))?;
        let bound = ListeningSocket::new(socket.into(), self.listen.clone(), self.file.clone());
        Ok(bound.with_preamble(self.preamble))
    }

    /// Another socket on the same address: its own queue for TCP, the same one for Unix sockets.
    ///
    /// # Errors
    /// One sentence.
    pub fn duplicate(&self) -> Result<ListeningSocket, String> {
        let (Listen::Tcp(address) | Listen::Tls(address)) = &self.listen else { return self.shared() };
        let socket = tcp(*address, Sharing::Port).map_err(|it| refused(&self.listen, &it))?;
        Ok(ListeningSocket::new(socket, self.listen.clone(), None).with_preamble(self.preamble))
    }

    fn address(&self) -> ListenerAddress {
        ListenerAddress { at: self.listen.clone(), preamble: self.preamble }
    }

    /// The same, with connections that begin with `preamble`.
    #[must_use]
    pub fn with_preamble(self, preamble: Preamble) -> ListeningSocket {
        ListeningSocket { preamble, ..self }
    }

    /// The TCP address; port 0 was replaced by the assigned port.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self.listen {
            Listen::Tcp(address) | Listen::Tls(address) => Some(address),
            Listen::Unix(_) => None,
        }
    }
}

enum Sharing {
    Port,
    Alone,
}

fn tcp(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let (socket, address) = family::socket(address, Type::STREAM)?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it: responses are sent at once, and are written whole.
    socket.set_tcp_nodelay(true)?;
    if let Sharing::Port = sharing {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    if let Sharing::Port = sharing {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

fn local(socket: &Socket) -> Option<SocketAddr> {
    socket.local_addr().ok()?.as_socket()
}

/// The permission to connect to a Unix socket.
#[derive(Clone, Copy)]
enum SocketAccess {
    /// Every process with access to the directory, as with a port on loopback.
    Anyone,
    /// The user of the server.
    Owner,
}

/// Replaces a socket file without a listener; any other file stays.
fn unix(path: &Path, access: SocketAccess) -> io::Result<Socket> {
    let length = path.as_os_str().len();
    if length > MAX_UNIX_PATH {
        let why = format!("its path has {length} bytes; the maximum for a Unix socket is {MAX_UNIX_PATH}");
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, why));
    }
    if rustix::process::geteuid().is_root()
        && let Some(link) = foreign_link(path)
    {
        let why = format!(
            "{} is a link that does not belong to root: its owner could lead it to any directory",
            link.display()
        );
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    let address = SockAddr::unix(path)?;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket {
        let probe = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
        if probe.connect(&address).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    } else if let Ok(other) = std::fs::symlink_metadata(path) {
        let what = if other.is_dir() { "a directory" } else { "a file that is not a socket" };
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{what} already exists")));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&address)?;
    let mode = match access {
        SocketAccess::Anyone => 0o666,
        SocketAccess::Owner => 0o600,
    };
    // Before it listens: no connection can exist yet.
    permit(path, mode)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// The first link in the directories of `path` that does not belong to root: its owner would choose where root creates the file.
fn foreign_link(path: &Path) -> Option<PathBuf> {
    let mut rest = std::path::absolute(path).ok()?.parent()?.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let is_link = |it: &&Path| it.is_symlink();
        let link = rest.ancestors().filter(is_link).last()?.to_owned();
        if std::fs::symlink_metadata(&link).ok()?.uid() != 0 {
            return Some(link);
        }
        let behind = rest.strip_prefix(&link).ok()?.to_owned();
        let target = link.parent()?.join(std::fs::read_link(&link).ok()?);
        // Without an end slash, with which a link is followed.
        rest = target.join(behind).components().collect();
    }
    None
}

/// Sets the mode of the socket file that was just bound, by its descriptor: in a directory of another user, that user may have put a link
/// in its place, and root would change the mode of any file.
fn permit(path: &Path, mode: u32) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let about = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::Socket || about.st_nlink != 1 {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "another file has taken the place of the socket",
        ));
    }
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(descriptor, std::fs::Permissions::from_mode(mode))
}

fn refused(listen: &Listen, error: &io::Error) -> String {
    let what = match listen {
        Listen::Tcp(address) | Listen::Tls(address) => address.to_string(),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    };
    let (why, deed) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            "the address is in use".to_owned(),
            "stop the process that listens on it, or choose another address with --listen",
        ),
        io::ErrorKind::AddrNotAvailable => {
            ("this machine has no such address".to_owned(), "choose an address of this machine")
        }
        io::ErrorKind::PermissionDenied => {
            ("permission is denied".to_owned(), "choose a port from 1024, or a path that this user can write")
        }
        io::ErrorKind::AlreadyExists => (error.to_string(), "choose another path, or remove it"),
        io::ErrorKind::InvalidFilename => (error.to_string(), "choose a shorter path"),
        io::ErrorKind::NotFound => {
            ("the directory does not exist".to_owned(), "create it, or choose another path")
        }
        _ => (error.to_string(), "choose another address"),
    };
    format!("cannot listen on {what}: {why}; {deed}.")
}

/// Accepts connections and serves each, until the worker drains. Connections in the queue are then still served: closing
/// the socket would reset them.
pub async fn serve<H: Handler>(bound: ListeningSocket, worker: Rc<TransportWorker>, handler: Rc<H>) {
    serve_until(bound, worker, handler, std::future::pending()).await;
}

/// As [`serve`], and until `closed`: the address is then given up, and its connections are served on.
pub async fn serve_until<H: Handler>(
    bound: ListeningSocket,
    worker: Rc<TransportWorker>,
    handler: Rc<H>,
    closed: impl Future<Output = ()>,
) {
    let (local, name) = (bound.tcp(), bound.address().spelled().into());
    let _file = bound.file.clone();
    let Ok(listener) = crate::worker::watch(bound.socket) else {
        worker.counters.accept_errors.add(1);
        return;
    };
    let tls = worker.tls().filter(|_| matches!(bound.listen, Listen::Tls(_)));
    let (preamble, to_refuse) = (bound.preamble, Cell::new(0));
    let acceptor = Acceptor { listener, name, local, tls, preamble, worker, handler, to_refuse };
    let mut stopped = pin!(acceptor.worker.stopped());
    let mut closed = pin!(closed);
    loop {
        let ready = tokio::select! {
            biased;
            () = &mut stopped => break,
            () = &mut closed => break,
            ready = acceptor.listener.readable() => ready,
        };
        let Ok(mut ready) = ready else { return };
        match acceptor.accept_batch() {
            AcceptResult::All => ready.clear_ready(),
            AcceptResult::Batch => tokio::task::yield_now().await,
            AcceptResult::OutOfDescriptors => tokio::time::sleep(ACCEPT_PAUSE).await,
            AcceptResult::Full => {
                let has_closed = acceptor.worker.close_idle_for_permit().await;
                acceptor.to_refuse.set(if has_closed { 0 } else { BACKLOG });
            }
        }
    }
    // Another process may have the queue by now.
    if acceptor.worker.leaves_queues() {
        return;
    }
    acceptor.to_refuse.set(i32::MAX);
    while acceptor.accept_batch() == AcceptResult::Batch {}
}

/// Serves a socket of this process as a connection of `client`, over HTTP/1.1. `false` where the limit of connections is reached.
pub fn serve_own<H: Handler>(
    socket: OwnedFd,
    client: Client,
    worker: &Rc<TransportWorker>,
    handler: Rc<H>,
) -> bool {
    let Some(permit) = worker.acquire_permit() else { return false };
    let link = ClientSocket::new(worker.admit(socket, permit), worker.clone());
    begin_served(link, None, client, handler);
    true
}

/// The result of a turn of accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptResult {
    /// No connection is waiting.
    All,
    /// More may be waiting; other tasks take their turn first.
    Batch,
    /// The connection limit is reached, and a connection is waiting.
    Full,
    /// The system has no descriptor or memory left: the queue waits.
    OutOfDescriptors,
}

/// One listening socket, and the handler of its connections.
struct Acceptor<H> {
    listener: AsyncFd<Arc<OwnedFd>>,
    /// In the notation of the configuration.
    name: Rc<str>,
    local: Option<SocketAddr>,
    tls: Option<Arc<ServerTls>>,
    preamble: Preamble,
    worker: Rc<TransportWorker>,
    handler: Rc<H>,
    /// The number of waiting connections to reject: no other worker made room for them.
    to_refuse: Cell<i32>,
}

impl<H: Handler> Acceptor<H> {
    fn accept_batch(&self) -> AcceptResult {
        for at in 0..BATCH {
            let lacks_descriptors = self.worker.lacks_descriptors();
            let permit = self.worker.acquire_permit();
            // The first is known to exist, unless it had to wait: it may have gone meanwhile.
            if (at > 0 || lacks_descriptors || permit.is_none()) && !self.has_another() {
                return self.all();
            }
            if lacks_descriptors {
                return self.out_of_descriptors();
            }
            if permit.is_none() && self.to_refuse.get() <= 0 {
                return AcceptResult::Full;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(self.listener.get_ref().as_fd(), flags) {
                Ok((socket, peer)) => {
                    self.begin(socket, peer.and_then(family::of_peer), permit);
                }
                Err(Errno::AGAIN) => return self.all(),
                // That connection is gone already, or a firewall rejected it.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                // EMFILE, ENFILE, ENOBUFS, ENOMEM; no error may cause a busy loop.
                Err(_) => return self.out_of_descriptors(),
            }
        }
        AcceptResult::Batch
    }

    /// No connection is waiting: for the next one an idle client may be closed.
    fn all(&self) -> AcceptResult {
        self.to_refuse.set(0);
        AcceptResult::All
    }

    /// Whether another connection is, or may be, waiting: an `accept` without one creates a socket and a file first, and
    /// takes ten times as long.
    fn has_another(&self) -> bool {
        let mut asked = [PollFd::new(&self.listener, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())) != Ok(0)
    }

    fn out_of_descriptors(&self) -> AcceptResult {
        self.worker.counters.accept_errors.add(1);
        if self.worker.close_idle(MOST_CLOSED) > 0 {
            return AcceptResult::Batch; // As soon as these are gone.
        }
        // Connections of other workers may be idle.
        descriptors::record_shortage();
        AcceptResult::OutOfDescriptors
    }

    fn begin(&self, socket: OwnedFd, peer: Option<SocketAddr>, permit: Option<ConnectionPermit>) {
        let local = match self.local {
            Some(any) if any.ip().is_unspecified() => {
                rustix::net::getsockname(&socket).ok().and_then(|it| it.try_into().ok()).or(self.local)
            }
            one => one,
        };
        if self.preamble == Preamble::Proxy && !self.worker.accepts_proxy_headers(peer.map(|it| it.ip())) {
            MissingPreamble::Refused.count(&self.worker.counters);
            return self.handler.proxy_header_missing(MissingPreamble::Refused, peer);
        }
        let Some(permit) = permit else {
            self.to_refuse.update(|it| it - 1);
            return self.worker.counters.connections_refused.add(1);
        };
        let link = ClientSocket::new(self.worker.admit(socket, permit), self.worker.clone());
        let scheme = if self.tls.is_some() { Scheme::Https } else { Scheme::Http };
        let listener = self.name.clone();
        let alternative = self.tls.as_ref().and(self.local).and_then(|it| self.worker.alternative_at(it));
        let (hops, began) = (Vec::new(), Cell::default());
        let client =
            Client { peer, hops, local, listener, scheme, tls: None, began, is_own: false, alternative };
        let (tls, handler) = (self.tls.clone(), self.handler.clone());
        match self.preamble {
            Preamble::None => begin_served(link, tls, client, handler),
            Preamble::Proxy => {
                drop(tokio::task::spawn_local(serve_after_proxy_header(link, tls, client, handler)));
            }
        }
    }
}

/// Starts serving a client, with TLS if the listener uses it.
fn begin_served<H: Handler>(link: ClientSocket, tls: Option<Arc<ServerTls>>, client: Client, handler: Rc<H>) {
    match tls {
        None => tokio::task::spawn_local(http1::serve(link, client, handler)),
        Some(tls) => tokio::task::spawn_local(serve_secured(link, tls, client, handler)),
    };
}

/// Waits for the PROXY header, and serves its client in a task of its own: this task is sized for the header alone.
async fn serve_after_proxy_header<H: Handler>(
    link: ClientSocket,
    tls: Option<Arc<ServerTls>>,
    mut client: Client,
    handler: Rc<H>,
) {
    match link.with_proxy_header().await {
        Ok(source) => {
            if let ConnectionSource::Client(address) = source {
                client.peer = Some(family::plain(address));
            }
            begin_served(link, tls, client, handler);
        }
        Err(MissingPreamble::Nothing) => {}
        Err(why) => handler.proxy_header_missing(why, client.peer),
    }
}

/// The text of the 400 response to a clear-text request on a TLS port.
pub const PLAIN_SENTENCE: &str = "This port requires HTTPS: use https:// instead of http://.";

/// Performs the TLS handshake, and serves the negotiated protocol.
async fn serve_secured<H: Handler>(
    link: ClientSocket,
    tls: Arc<ServerTls>,
    mut client: Client,
    handler: Rc<H>,
) {
    match link.handshake(&tls).await {
        Ok(secured) => {
            let protocol = secured.protocol;
            // Handshakes over QUIC request the certificates of all sites: other hosts would be answered with 421 there.
            client.alternative.take_if(|_| secured.rules.client != tls.configs().first().0.client);
            client.tls = Some(Rc::new(secured));
            drop(tls);
            match protocol {
                AlpnProtocol::Http1 | AlpnProtocol::Http3 => http1::serve(link, client, handler).await,
                // Boxed: other connections have no room for it.
                AlpnProtocol::Http2 => Box::pin(http2::serve(link, Vec::new(), client, handler)).await,
            }
        }
        Err(HandshakeFailure::Plain) => {
            http1::turn_away(link, &*handler, 400, PLAIN_SENTENCE).await;
        }
        Err(HandshakeFailure::Refused) => link.linger().await,
        Err(HandshakeFailure::Gone) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of the service user led root to create a socket in any directory.
    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("real/below")).unwrap();
        std::os::unix::fs::symlink("real/below", at("plain")).unwrap();
        std::os::unix::fs::symlink("plain", at("twice")).unwrap();
        std::os::unix::fs::symlink("../real/../twice", at("real/thrice")).unwrap();
        let owner = |name: &str, uid| std::os::unix::fs::lchown(at(name), Some(uid), None).is_ok();
        let is_root = rustix::process::geteuid().is_root();
        for path in ["real/below/x", "plain/x", "twice/x", "real/thrice/x"] {
            assert_eq!(None, foreign_link(&at(path)).filter(|_| is_root), "{path}");
        }
        if !is_root || !owner("plain", 65534) {
            return;
        }
        assert_eq!(None, foreign_link(&at("real/below/x")));
        for path in ["plain/x", "twice/x", "real/thrice/x"] {
            let found = foreign_link(&at(path)).unwrap().canonicalize().unwrap();
            assert_eq!(at("real/below").canonicalize().unwrap(), found, "{path}");
            let refused = unix(&at(path), SocketAccess::Owner).unwrap_err();
            assert_eq!(io::ErrorKind::AlreadyExists, refused.kind(), "{path}");
            assert!(!at("real/below/x").exists());
        }
    }

    /// The owner of a directory can replace the file of a socket before its mode is set.
    #[test]
    fn a_file_in_place_of_a_socket_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        let _bound = unix(&at("socket"), SocketAccess::Owner).unwrap();
        assert_eq!(0o600, mode("socket"));
        std::fs::write(at("shadow"), "").unwrap();
        std::fs::set_permissions(at("shadow"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(at("shadow"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("socket"), at("other")).unwrap();
        for name in ["link", "other", "shadow"] {
            assert_eq!(io::ErrorKind::AlreadyExists, permit(&at(name), 0o666).unwrap_err().kind(), "{name}");
        }
        std::fs::hard_link(at("socket"), at("second")).unwrap();
        assert!(permit(&at("socket"), 0o666).is_err(), "it has a second name");
        std::fs::remove_file(at("second")).unwrap();
        assert_eq!((0o640, 0o600), (mode("shadow"), mode("socket")));
        permit(&at("socket"), 0o666).unwrap();
        assert_eq!(0o666, mode("socket"));
    }
}
