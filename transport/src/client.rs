//! The client of a request.

use crate::alternative::AlternativeService;
use larder_semantics::scheme::Scheme;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// The client of a request.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address; `None` for Unix sockets. With a PROXY header the address in it; with fields of a trusted proxy the
    /// address in these.
    pub peer: Option<SocketAddr>,
    /// The proxies on the way of the request, the last being the other end of the connection; `None` for Unix sockets.
    pub hops: Vec<Option<IpAddr>>,
    /// The local address of its connection; `None` for Unix sockets.
    pub local: Option<SocketAddr>,
    /// The listener of its connection, in the notation of the configuration.
    pub listener: Rc<str>,
    /// The scheme of its connection.
    pub scheme: Scheme,
    /// The result of its TLS handshake; `None` over clear text.
    pub tls: Option<Rc<crate::tls::Secured>>,
    /// The arrival of the first byte of the current head, over HTTP/2 of its first frame, in microseconds by the precise
    /// clock; 0 if that was just now, or is not measured: see [`Worker::measure_while`].
    ///
    /// [`Worker::measure_while`]: crate::worker::TransportWorker::measure_while
    pub began: Cell<u64>,
    /// Whether it is larder itself, which requests an error page of a site.
    pub is_own: bool,
    /// The HTTP/3 service of its listener, for clients over TCP.
    pub alternative: Option<Rc<AlternativeService>>,
}

impl Client {
    /// A client on this machine, for explanations.
    #[must_use]
    pub fn local(scheme: Scheme) -> Self {
        let peer = Some(SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0)));
        Self {
            peer,
            hops: Vec::new(),
            local: None,
            listener: "".into(),
            scheme,
            tls: None,
            began: Cell::new(0),
            is_own: false,
            alternative: None,
        }
    }
}
