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
    /// The number of sockets that are served.
    open: Cell<usize>,
    /// Whether the port answers; `None` before the first answer.
    answers: Cell<Option<bool>>,
}

impl AlternativeService {
    /// One without a socket yet.
    pub(crate) fn new(at: SocketAddr) -> Self {
        let value = format!("h3=\":{}\"; ma={LIFETIME}", at.port());
        Self { at, value: value.into(), open: Cell::new(0), answers: Cell::new(None) }
    }

    /// A socket is served from now on.
    pub(crate) fn begin(&self) {
        self.open.update(|it| it + 1);
    }

    /// A socket is not served any more.
    pub(crate) fn end(&self) {
        self.open.update(|it| it - 1);
    }

    /// Notes whether the port answers.
    pub(crate) fn answers(&self, it: bool) {
        if it || self.answers.get().is_some() {
            self.answers.set(Some(it));
        }
    }

    /// The value of `Alt-Svc`; `None` before the first answer.
    pub(crate) fn value(&self) -> Option<&str> {
        match (self.open.get(), self.answers.get()) {
            (0, _) | (_, Some(false)) => Some("clear"),
            (_, Some(true)) => Some(&self.value),
            (_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_announced_while_its_port_answers_and_withdrawn_once() {
        let it = AlternativeService::new("127.0.0.1:443".parse().unwrap());
        it.begin();
        it.answers(false);
        assert_eq!(None, it.value(), "never announced");
        it.answers(true);
        assert_eq!(Some("h3=\":443\"; ma=3600"), it.value());
        it.answers(false);
        assert_eq!(Some("clear"), it.value(), "a firewall drops its packets");
        it.answers(true);
        assert_eq!(Some("h3=\":443\"; ma=3600"), it.value());
        it.end();
        assert_eq!(Some("clear"), it.value(), "closed");
    }
}
