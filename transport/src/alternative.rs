//! The HTTP/3 service at the UDP port of a listener, as `Alt-Svc` announces it to clients over TCP (RFC 7838).

use std::cell::Cell;
use std::net::SocketAddr;

/// The seconds for which a client may use it without another response: short, since a firewall may block UDP.
const LIFETIME: u32 = 3600;

/// A service over UDP.
#[derive(Debug)]
pub struct AlternativeService {
    /// Its address.
    pub(crate) at: SocketAddr,
    value: Box<str>,
    /// The number of sockets that answer.
    open: Cell<usize>,
}

impl AlternativeService {
    /// One without a socket yet.
    pub(crate) fn new(at: SocketAddr) -> Self {
        let value = format!("h3=\":{}\"; ma={LIFETIME}", at.port());
        Self { at, value: value.into(), open: Cell::new(0) }
    }

    /// A socket answers from now on.
    pub(crate) fn begin(&self) {
        self.open.update(|it| it + 1);
    }

    /// A socket does not answer any more.
    pub(crate) fn end(&self) {
        self.open.update(|it| it - 1);
    }

    /// The value of `Alt-Svc`.
    pub(crate) fn value(&self) -> &str {
        if self.open.get() > 0 { &self.value } else { "clear" }
    }
}
