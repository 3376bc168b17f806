//! The sessions of clients that may send early data (0-RTT): they are kept here, not in tickets, and each is used once, so that a
//! replay of their first packets is a new handshake (RFC 8446 §8.1). Another process has none of them.

use rustls::server::{ProducesTickets, ServerSessionMemoryCache};
use std::sync::{Arc, Mutex, PoisonError};

/// The most sessions; each takes about 350 bytes, and a connection begins two.
const SESSIONS: usize = 16 * 1024;

/// The limits on which a client may rely in its next connection before it hears from the server: transport parameters and SETTINGS
/// (RFC 9000 §7.4.1, RFC 9114 §7.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlyPromises {
    /// Simultaneous requests.
    pub streams: u32,
    /// Bytes of a request head.
    pub head_size: usize,
    /// Whether extended CONNECT is offered.
    pub upgrades: bool,
}

/// The sessions of clients that may send early data.
#[derive(Default)]
pub(super) struct EarlySessions(Mutex<Option<(EarlyPromises, Arc<ServerSessionMemoryCache>)>>);

impl EarlySessions {
    /// Those that began with these promises. With other ones all earlier sessions end: a client would rely on the promises of
    /// its session.
    pub fn with(&self, promises: EarlyPromises) -> Arc<ServerSessionMemoryCache> {
        let kept = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept {
            Some((before, sessions)) if *before == promises => sessions.clone(),
            _ => kept.insert((promises, ServerSessionMemoryCache::new(SESSIONS))).1.clone(),
        }
    }
}

/// No session is in a ticket.
#[derive(Debug)]
pub(crate) struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::StoresServerSessions as _;

    #[test]
    fn a_session_is_used_once_and_ends_with_its_promises() {
        let kept = EarlySessions::default();
        let promises = EarlyPromises { streams: 100, head_size: 8192, upgrades: false };
        let put = |name: &str| assert!(kept.with(promises).put(name.into(), b"session".to_vec()));
        put("a");
        assert!(kept.with(promises).take(b"a").is_some());
        assert!(kept.with(promises).take(b"a").is_none());
        put("b");
        let fewer = EarlyPromises { streams: 99, ..promises };
        assert!(kept.with(fewer).take(b"b").is_none());
        assert!(kept.with(promises).take(b"b").is_none(), "also when the old ones are back");
    }
}
