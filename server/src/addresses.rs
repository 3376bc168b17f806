//! The client addresses that are open, with a socket of each for every worker. A reload opens new ones before it takes over
//! anything, and keeps those that stay.

use super::inherited::{InheritedSockets, SocketPurpose};
use larder_config::Config;
use larder_transport::http3::{QuicHandOver, QuicPort, QuicSocket, QuicSockets};
use larder_transport::listener::{self, Listen, ListenerAddress, ListeningSocket, Preamble, SocketHandle};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// One open address.
pub struct OpenAddress {
    /// As configured; port 0 stays 0.
    entrance: ListenerAddress,
    /// As opened, for display.
    name: String,
    at: Option<SocketAddr>,
    /// All its sockets, for passing them on.
    pub handles: Vec<SocketHandle>,
    /// The sockets that workers have not taken yet, by worker.
    sockets: Mutex<Vec<Vec<ListeningSocket>>>,
}

impl OpenAddress {
    /// Opens an address for all workers; `ports` are those on which the process listens.
    fn open(entrance: &ListenerAddress, workers: NonZeroUsize, ports: &[u16]) -> Result<Arc<Self>, String> {
        let first = listener::bind_beside(&entrance.at, ports)?.with_preamble(entrance.preamble);
        let others: Result<Vec<ListeningSocket>, String> =
            (1..workers.get()).map(|_| first.duplicate()).collect();
        let (name, at) = (first.to_string(), first.tcp());
        let sockets: Vec<Vec<ListeningSocket>> =
            std::iter::once(first).chain(others?).map(|it| vec![it]).collect();
        let (handles, entrance) =
            (sockets.iter().flatten().map(ListeningSocket::handle).collect(), entrance.clone());
        Ok(Arc::new(Self { entrance, name, at, handles, sockets: Mutex::new(sockets) }))
    }

    /// Deals the sockets of another process out to the workers: each socket has its own queue, and every queue needs a
    /// worker. Where there are fewer sockets than workers, several workers take connections from one queue.
    fn adopt(
        entrance: &ListenerAddress,
        workers: NonZeroUsize,
        given: Vec<ListeningSocket>,
    ) -> Result<Arc<Self>, String> {
        let count = given.len();
        let first = &given[0];
        let (name, at) = (first.to_string(), first.tcp());
        let handles = given.iter().map(ListeningSocket::handle).collect();
        let further: Vec<ListeningSocket> =
            (count..workers.get()).map(|it| given[it % count].shared()).collect::<Result<_, _>>()?;
        let mut sockets: Vec<Vec<ListeningSocket>> =
            std::iter::repeat_with(Vec::new).take(workers.get()).collect();
        for (at, bound) in given.into_iter().chain(further).enumerate() {
            sockets[at % workers].push(bound);
        }
        let entrance = entrance.clone();
        Ok(Arc::new(Self { entrance, name, at, handles, sockets: Mutex::new(sockets) }))
    }

    /// The address as configured.
    #[must_use]
    pub fn configured(&self) -> &Listen {
        &self.entrance.at
    }

    /// The sockets of a worker, once.
    #[must_use]
    pub fn take(&self, worker: usize) -> Vec<ListeningSocket> {
        let mut all = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_mut(worker).map(std::mem::take).unwrap_or_default()
    }
}

/// The UDP port of an open address, for HTTP/3.
pub struct OpenQuic {
    entrance: ListenerAddress,
    at: SocketAddr,
    /// All its sockets, for passing them on.
    pub handles: Vec<SocketHandle>,
    /// Its loops own it: their end is seen by other ports.
    port: Weak<QuicPort>,
    /// The ports at the same sockets that a reload closed, until a worker takes the first socket.
    closing: Mutex<Vec<Arc<OpenQuic>>>,
    /// The sockets that workers have not taken yet, by worker.
    sockets: Mutex<Vec<Vec<QuicSocket>>>,
}

impl OpenQuic {
    /// Opens the port, or takes over the `given` sockets. The process may have sockets of another address at this port. Each has one worker: the packets of a handshake must not arrive at two. A
    /// worker may have several of them, if the process before had more workers: packets of every open socket must be read.
    fn open(
        of: &OpenAddress,
        (at, is_shared): (SocketAddr, bool),
        workers: NonZeroUsize,
        given: Vec<OwnedFd>,
    ) -> Result<Arc<Self>, String> {
        let sockets = match given.is_empty() {
            true => QuicSockets::bind_beside(at, workers.get(), is_shared)?,
            false => QuicSockets::adopt(at, given, 1)?,
        };
        Ok(Self::of(of, workers, sockets, Vec::new()))
    }

    /// Opens a port again whose connections from before a reload are not over yet.
    fn reopen(
        of: &OpenAddress,
        at: SocketAddr,
        workers: NonZeroUsize,
        closing: Vec<Arc<OpenQuic>>,
    ) -> Result<Arc<Self>, String> {
        let sockets = closing.iter().flat_map(|it| &it.handles).filter_map(SocketHandle::duplicate);
        let sockets = QuicSockets::adopt(at, sockets.collect(), workers.get())?;
        Ok(Self::of(of, workers, sockets, closing))
    }

    fn of(
        of: &OpenAddress,
        workers: NonZeroUsize,
        sockets: QuicSockets,
        closing: Vec<Arc<OpenQuic>>,
    ) -> Arc<Self> {
        let QuicSockets { at, sockets, port } = sockets;
        let handles = sockets.iter().map(QuicSocket::handle).collect();
        let mut by_worker: Vec<Vec<QuicSocket>> = (0..workers.get()).map(|_| Vec::new()).collect();
        for (number, socket) in sockets.into_iter().enumerate() {
            by_worker[number % workers].push(socket);
        }
        let port = Arc::downgrade(&port);
        let (entrance, closing) = (of.entrance.clone(), Mutex::new(closing));
        Arc::new(Self { entrance, at, handles, port, closing, sockets: Mutex::new(by_worker) })
    }

    /// Whether a connection or a worker needs a socket of it.
    fn is_in_use(&self) -> bool {
        self.handles.iter().any(SocketHandle::is_open)
    }

    /// The ends for a process that reads the sockets from now on; `None` where no descriptor is left.
    #[must_use]
    pub fn hand_over(&self) -> Option<QuicHandOver> {
        self.port.upgrade()?.hand_over().ok()
    }

    /// The address as configured.
    #[must_use]
    pub fn configured(&self) -> &Listen {
        &self.entrance.at
    }

    /// The address of clients.
    #[must_use]
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The sockets of a worker, once. From the first on, earlier ports get packets from this one.
    #[must_use]
    pub fn take(&self, worker: usize) -> Vec<QuicSocket> {
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        if !closing.is_empty() {
            let earlier = closing.drain(..).filter_map(|it| it.hand_over()).collect();
            if let Some(port) = self.port.upgrade() {
                port.follow(earlier);
            }
        }
        let mut all = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_mut(worker).map(std::mem::take).unwrap_or_default()
    }
}

/// The open addresses, in the order of the configuration.
#[derive(Clone, Default)]
pub struct OpenAddresses {
    /// Those for streams.
    pub streams: Vec<Arc<OpenAddress>>,
    /// The UDP ports.
    pub quic: Vec<Arc<OpenQuic>>,
    /// The UDP ports that reloads closed, as long as they have connections. A worker that has not taken its sockets yet takes them: another
    /// loop may count on it to read one.
    pub closing: Vec<Arc<OpenQuic>>,
}

impl OpenAddresses {
    /// The port of the first one with TLS: a configured port 0 is replaced by the assigned port.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        let tls = self.streams.iter().find(|it| matches!(it.configured(), Listen::Tls(_)))?;
        tls.at.map(|it| it.port())
    }

    /// Opens the addresses of a configuration, except those of `before` that stay.
    ///
    /// # Errors
    /// One sentence with the address that cannot be opened. None of the new ones is open then.
    pub fn open(config: &Config, workers: NonZeroUsize, before: &OpenAddresses) -> Result<Self, String> {
        let mut left = before.streams.clone();
        let mut ports: Vec<u16> = before.streams.iter().filter_map(|it| Some(it.at?.port())).collect();
        let open = |entrance: &ListenerAddress| {
            let open = match left.iter().position(|it| it.entrance == *entrance) {
                Some(at) => left.remove(at),
                None => OpenAddress::open(entrance, workers, &ports)?,
            };
            ports.extend(open.at.map(|it| it.port()));
            Ok::<_, String>(open)
        };
        let streams = config.listen.iter().map(open).collect::<Result<_, _>>()?;
        Self { streams, ..Self::default() }.with_quic(config, workers, before, &mut InheritedSockets::none())
    }

    /// With the UDP ports of a configuration; those of `before` stay.
    fn with_quic(
        mut self,
        config: &Config,
        workers: NonZeroUsize,
        before: &OpenAddresses,
        given: &mut InheritedSockets,
    ) -> Result<Self, String> {
        let secured = self.streams.iter().filter(|it| {
            config.http3 && matches!(it.entrance.at, Listen::Tls(_)) && it.entrance.preamble == Preamble::None
        });
        let (stay, gone): (Vec<_>, Vec<_>) = before.quic.iter().cloned().partition(|it| {
            secured.clone().any(|address| it.entrance == address.entrance && Some(it.at) == address.at)
        });
        self.closing = before.closing.iter().chain(&gone).filter(|it| it.is_in_use()).cloned().collect();
        for address in secured {
            let Some(at) = address.at else { continue };
            let same = stay.iter().find(|it| it.entrance == address.entrance && it.at == at);
            let closing: Vec<_> = self.closing.iter().filter(|it| it.at == at).cloned().collect();
            self.quic.push(match same {
                Some(same) => same.clone(),
                None if !closing.is_empty() => OpenQuic::reopen(address, at, workers, closing)?,
                None => {
                    let is_shared = self.quic.iter().chain(&before.quic).any(|it| it.at.port() == at.port());
                    OpenQuic::open(address, (at, is_shared), workers, given.take_quic(at))?
                }
            });
        }
        Ok(self)
    }

    /// Takes the addresses of a configuration from `given` where it has them, and opens the others.
    ///
    /// # Errors
    /// One sentence with the address that cannot be opened, or that the service manager has no socket for.
    pub fn inherit(
        config: &Config,
        workers: NonZeroUsize,
        given: &mut InheritedSockets,
    ) -> Result<Self, String> {
        // `0.0.0.0:80` and `[::]:80` share a port.
        let mut ports = Vec::new();
        let open = |entrance: &ListenerAddress| {
            let sockets = given.take(SocketPurpose::Clients, &entrance.at)?;
            let sockets: Vec<_> = sockets.into_iter().map(|it| it.with_preamble(entrance.preamble)).collect();
            let open = match sockets.is_empty() {
                true => OpenAddress::open(entrance, workers, &ports)?,
                false => OpenAddress::adopt(entrance, workers, sockets)?,
            };
            ports.extend(open.at.map(|it| it.port()));
            Ok::<_, String>(open)
        };
        let streams = config.listen.iter().map(open).collect::<Result<_, _>>()?;
        Self { streams, ..Self::default() }.with_quic(config, workers, &Self::default(), given)
    }

    /// The connections of all UDP ports, for a process that reads the sockets from now on.
    #[must_use]
    pub fn hand_over_quic(&self) -> Vec<QuicHandOver> {
        let all = self.quic.iter().chain(self.closing.iter().filter(|it| it.is_in_use()));
        all.filter_map(|it| it.hand_over()).collect()
    }

    /// Passes packets on to the connections of the process that this one replaces. Before a worker serves.
    pub fn follow_quic(&self, mut earlier: Vec<QuicHandOver>) {
        for port in &self.quic {
            let own;
            (own, earlier) = earlier.into_iter().partition(|it| it.at == port.at);
            if let Some(port) = port.port.upgrade() {
                port.follow(own);
            }
        }
    }

    /// The addresses for display.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.streams.iter().map(|it| it.name.clone()).collect()
    }

    /// Whether both are the same open addresses.
    #[must_use]
    pub fn are(&self, others: &OpenAddresses) -> bool {
        fn same<T>(one: &[Arc<T>], other: &[Arc<T>]) -> bool {
            one.len() == other.len() && one.iter().zip(other).all(|it| Arc::ptr_eq(it.0, it.1))
        }
        same(&self.streams, &others.streams) && same(&self.quic, &others.quic)
    }
}
