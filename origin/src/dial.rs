//! From an address to an open socket: the resolver's answers, kept for a while and tried in turn. `tls` adds TLS.

use crate::address::OriginAddress;
use crate::deadline::now;
use crate::error::OriginError;
use crate::socket::RawSocket;
use larder_stdx::clock::{self, Monotonic};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Type};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

/// How long the resolver's answer is used before it is asked again: milliseconds.
const ADDRESS_CACHE_TIME: u64 = 10_000;

/// The most descriptors that a resolver has open at a time: files, and sockets to name servers.
const RESOLVER_DESCRIPTORS: usize = 4;

/// The resolver's last answer.
struct ResolvedName {
    addresses: Rc<[SocketAddr]>,
    until: Monotonic,
}

/// Opens sockets to one address.
pub(crate) struct Dialer {
    address: OriginAddress,
    answer: RefCell<Option<ResolvedName>>,
    /// Held while the resolver is asked: only one request at a time waits for a resolver that hangs, so that the lookup
    /// threads stay available.
    asking: tokio::sync::Mutex<()>,
}

impl Dialer {
    pub(crate) fn new(address: OriginAddress) -> Self {
        Self { address, answer: RefCell::new(None), asking: tokio::sync::Mutex::new(()) }
    }

    /// Opens a socket before `deadline`.
    pub(crate) async fn dial(&self, deadline: Instant) -> Result<RawSocket, OriginError> {
        match tokio::time::timeout_at(deadline, self.try_all(deadline)).await {
            Ok(result) => result,
            Err(_) => Err(OriginError::ConnectTimeout),
        }
    }

    async fn try_all(&self, deadline: Instant) -> Result<RawSocket, OriginError> {
        let (host, port) = match &self.address {
            OriginAddress::Tcp(host, port) => (host, *port),
            OriginAddress::Unix(path) => return connect_unix(path).map_err(|it| refused(&it)),
            // The pool starts them in place of a connection.
            OriginAddress::Programs(_) => return Err(OriginError::Disconnected),
        };
        if let Some(ip) = self.address.ip() {
            return connect(SocketAddr::new(ip, port)).await.map_err(|it| refused(&it));
        }
        let (addresses, is_new) = self.resolve(host, port).await?;
        if is_new {
            return self.try_each(&addresses, deadline).await;
        }
        let mut first = pin!(self.try_each(&addresses, deadline));
        let half = deadline.saturating_duration_since(now()) / 2;
        let failed = match timeout(half, &mut first).await {
            Ok(Err(error)) if !matches!(error, OriginError::NoDescriptor) => Some(error),
            Ok(result) => return result,
            Err(_) => None,
        };
        // No server answers at the name's known addresses. The name may have moved: this very request looks it up again.
        self.expire(&addresses);
        let moved = async {
            let (fresh, _) = self.resolve(host, port).await?;
            let moved: Vec<SocketAddr> = fresh.iter().filter(|it| !addresses.contains(it)).copied().collect();
            self.try_each(&moved, deadline).await
        };
        match failed {
            // If it has not moved, the first failure is reported.
            Some(failed) => moved.await.map_err(|it| match it {
                OriginError::NoDescriptor => it,
                _ => failed,
            }),
            // The old address may only be slow.
            None => {
                let mut moved = pin!(moved);
                tokio::select! {
                    biased;
                    Ok(it) = &mut first => Ok(it),
                    Ok(it) = &mut moved => Ok(it),
                    else => Err(OriginError::ConnectTimeout),
                }
            }
        }
    }

    /// Opens a socket to the first address that answers.
    async fn try_each(&self, addresses: &[SocketAddr], deadline: Instant) -> Result<RawSocket, OriginError> {
        let mut last = OriginError::ConnectTimeout;
        for (tried, address) in addresses.iter().enumerate() {
            // An address that swallows packets must leave time for those after it.
            let left = deadline.saturating_duration_since(now());
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            match timeout(share, connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                // The next one would need a descriptor, too; and the addresses are not at fault.
                Ok(Err(error)) if lacks_descriptor(&error) => return Err(OriginError::NoDescriptor),
                Ok(Err(error)) => last = refused(&error),
                Err(_) => last = OriginError::ConnectTimeout,
            }
        }
        self.expire(addresses);
        Err(last)
    }

    /// The addresses of the name, and whether the resolver was asked just now.
    async fn resolve(&self, host: &str, port: u16) -> Result<(Rc<[SocketAddr]>, bool), OriginError> {
        if let Some(addresses) = self.cached() {
            return Ok((addresses, false));
        }
        let _only_one = self.asking.lock().await;
        // The previous holder of the lock has asked since.
        if let Some(addresses) = self.cached() {
            return Ok((addresses, true));
        }
        let found = match resolver_has_descriptors() {
            true => tokio::net::lookup_host((host, port)).await.map(Iterator::collect::<Rc<[_]>>),
            false => Err(Errno::MFILE.into()),
        };
        let addresses = match (found, &*self.answer.borrow()) {
            (Ok(addresses), _) if !addresses.is_empty() => addresses,
            // The old answer is better than none while the resolver fails.
            (_, Some(old)) => old.addresses.clone(),
            (Err(error), None) if lacks_descriptor(&error) || !resolver_has_descriptors() => {
                return Err(OriginError::NoDescriptor);
            }
            (Ok(_), None) => return Err(OriginError::Connect(format!("the name {host} has no address"))),
            (Err(error), None) => {
                let why = reason(&error);
                return Err(OriginError::Connect(format!("the name {host} cannot be resolved: {why}")));
            }
        };
        let until = Monotonic(clock::monotonic().0 + ADDRESS_CACHE_TIME);
        *self.answer.borrow_mut() = Some(ResolvedName { addresses: addresses.clone(), until });
        Ok((addresses, true))
    }

    fn cached(&self) -> Option<Rc<[SocketAddr]>> {
        let answer = self.answer.borrow();
        answer.as_ref().filter(|it| it.until > clock::monotonic()).map(|it| it.addresses.clone())
    }

    /// None of these addresses answered: the resolver is asked again, unless its answer has changed since.
    fn expire(&self, addresses: &[SocketAddr]) {
        if let Some(answer) = &mut *self.answer.borrow_mut()
            && *answer.addresses == *addresses
        {
            answer.until = clock::monotonic();
        }
    }
}

/// A Unix socket connects at once or fails, so nothing has to wait for it, as tokio's `connect` does for an event of the socket.
fn connect_unix(path: &Path) -> io::Result<RawSocket> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    UnixStream::from_std(socket.into()).map(RawSocket::Unix)
}

async fn connect(address: SocketAddr) -> io::Result<RawSocket> {
    let stream = TcpStream::connect(address).await?;
    // A request is one write; waiting to fill a segment would only delay it.
    stream.set_nodelay(true)?;
    Ok(RawSocket::Tcp(stream))
}

fn refused(error: &io::Error) -> OriginError {
    match lacks_descriptor(error) {
        true => OriginError::NoDescriptor,
        false => OriginError::Connect(reason(error)),
    }
}

fn lacks_descriptor(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether there are as many descriptors as a resolver opens at a time. Without one it reports an unknown name. So this
/// is checked before it is asked, and again where it found nothing.
fn resolver_has_descriptors() -> bool {
    let spare = || socket2::Socket::new(Domain::UNIX, Type::DGRAM.cloexec(), None);
    let all: io::Result<Vec<socket2::Socket>> = (0..RESOLVER_DESCRIPTORS).map(|_| spare()).collect();
    !all.is_err_and(|it| lacks_descriptor(&it))
}

/// The error in words, without the number that the standard library appends.
fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" (os error") {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Protocol;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    /// A dialer to a listener, whose name led to this address until now.
    async fn moved_from(old: Ipv4Addr, port: u16, time: Duration) -> Result<RawSocket, OriginError> {
        let dialer = Dialer::new(OriginAddress::Tcp("localhost".to_owned(), port));
        let until = Monotonic(clock::monotonic().0 + ADDRESS_CACHE_TIME);
        let addresses = Rc::from([SocketAddr::from((old, port))]);
        *dialer.answer.borrow_mut() = Some(ResolvedName { addresses, until });
        dialer.dial(now() + time).await
    }

    #[tokio::test]
    async fn a_name_that_moved_is_resolved_again_by_the_request_that_cannot_connect() {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let result = moved_from(Ipv4Addr::new(127, 0, 0, 2), port, Duration::from_secs(10)).await;
        assert!(result.is_ok(), "{:?}", result.err());
    }

    #[tokio::test]
    async fn a_name_that_moved_from_an_address_that_swallows_packets_is_found_in_time() {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let old = Ipv4Addr::new(127, 0, 0, 3);
        // Its queue, which has room for one, is never read.
        let silent = socket2::Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        silent.bind(&SocketAddr::from((old, port)).into()).unwrap();
        silent.listen(0).unwrap();
        let _in_queue = TcpStream::connect((old, port)).await.unwrap();
        let result = moved_from(old, port, Duration::from_secs(1)).await;
        assert!(result.is_ok(), "{:?}", result.err());
        assert_eq!(
            listener.local_addr().unwrap().ip(),
            result.unwrap().as_socket(|it| { it.peer_addr().unwrap().as_socket().unwrap().ip() })
        );
    }

    #[tokio::test]
    async fn a_name_without_a_reachable_address_is_a_connect_error() {
        let unused = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = unused.local_addr().unwrap().port();
        drop(unused);
        let result = moved_from(Ipv4Addr::new(127, 0, 0, 2), port, Duration::from_secs(10)).await;
        assert!(matches!(result, Err(OriginError::Connect(_))), "{:?}", result.err());
    }
}
