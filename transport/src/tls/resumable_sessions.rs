//! The TLS sessions that a client may resume: keys of tickets, and the sessions of clients without tickets. Those of clients without
//! certificates outlive a reload, and their ticket keys an upgrade.

use super::tickets::{KeySchedule, TicketKeys};
use super::{ClientAuth, HandshakeRules, MinTlsVersion};
use larder_stdx::clock;
use rustls::server::ServerSessionMemoryCache;
use std::sync::Arc;

/// The most sessions without tickets, of TLS 1.2 clients; each takes about 250 bytes.
const SESSIONS: usize = 4096;

/// The form of the keys for another process, of the tickets, and of the sessions in them. The last is rustls's own: a version with
/// another one raises this number.
const FORMAT: u8 = 1;

/// The sessions under one of the rules.
#[derive(Clone)]
pub(super) struct SessionState {
    pub tickets: Arc<TicketKeys>,
    pub storage: Arc<ServerSessionMemoryCache>,
}

impl SessionState {
    fn new() -> Result<Self, String> {
        let tickets = TicketKeys::new().ok_or("The system has no random numbers for TLS.")?;
        Ok(Self { tickets: Arc::new(tickets), storage: ServerSessionMemoryCache::new(SESSIONS) })
    }
}

/// The sessions under the rules that request no client certificates: these differ by the lowest version alone.
pub(super) struct ResumableSessions([(MinTlsVersion, SessionState); 2]);

impl ResumableSessions {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self([(MinTlsVersion::Tls12, SessionState::new()?), (MinTlsVersion::Tls13, SessionState::new()?)]))
    }

    /// Those under these rules; new ones if the rules request client certificates.
    pub(super) fn of(&self, rules: &HandshakeRules) -> Result<SessionState, String> {
        let kept = self.0.iter().find(|it| rules.client == ClientAuth::Off && it.0 == rules.min_version);
        kept.map_or_else(SessionState::new, |it| Ok(it.1.clone()))
    }

    /// See [`super::ServerTls::ticket_keys`]. Empty if the system has no random numbers.
    pub(super) fn ticket_keys(&self) -> Vec<u8> {
        let mut keys = vec![FORMAT];
        let written: Option<()> = self.0.iter().try_for_each(|it| it.1.tickets.write(&mut keys));
        written.map(|()| keys).unwrap_or_default()
    }

    /// See [`super::ServerTls::take_ticket_keys`]. All of them, or none.
    pub(super) fn take_ticket_keys(&self, keys: &[u8]) -> Result<(), &'static str> {
        let Some((format, mut rest)) = keys.split_first() else { return Ok(()) };
        if *format != FORMAT {
            return Err("the running larder has another form of them");
        }
        let now = clock::monotonic_now();
        let mut next = || KeySchedule::read(&mut rest, now);
        let read = [next(), next()];
        let ([Some(low), Some(high)], []) = (read, rest) else { return Err("they cannot be read") };
        for ((_, sessions), keys) in self.0.iter().zip([low, high]) {
            sessions.tickets.replace(keys);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::ProducesTickets as _;
    use std::path::PathBuf;

    fn rules(least: MinTlsVersion) -> HandshakeRules {
        HandshakeRules { min_version: least, client: ClientAuth::Off }
    }

    fn keys_of(sessions: &ResumableSessions, rules: &HandshakeRules) -> Arc<TicketKeys> {
        sessions.of(rules).unwrap().tickets
    }

    #[test]
    fn each_of_the_rules_has_keys_of_its_own_over_a_reload_and_an_upgrade() {
        let (old, new) = (ResumableSessions::new().unwrap(), ResumableSessions::new().unwrap());
        let (low, high) = (rules(MinTlsVersion::Tls12), rules(MinTlsVersion::Tls13));
        let ticket = keys_of(&old, &low).encrypt(b"session").unwrap();
        assert!(keys_of(&old, &low).decrypt(&ticket).is_some());
        assert!(keys_of(&old, &high).decrypt(&ticket).is_none());
        assert!(keys_of(&new, &low).decrypt(&ticket).is_none());
        let held = keys_of(&new, &low);
        new.take_ticket_keys(&old.ticket_keys()).unwrap();
        assert!(keys_of(&new, &low).decrypt(&ticket).is_some());
        assert!(held.decrypt(&ticket).is_some(), "also for settings that are in use");
        assert!(keys_of(&new, &high).decrypt(&ticket).is_none());
    }

    #[test]
    fn sessions_with_certificates_end_with_a_reload() {
        let sessions = ResumableSessions::new().unwrap();
        for client in [ClientAuth::Optional(PathBuf::new()), ClientAuth::Required(PathBuf::new())] {
            let rules = HandshakeRules { min_version: MinTlsVersion::Tls12, client };
            let ticket = keys_of(&sessions, &rules).encrypt(b"session").unwrap();
            assert!(keys_of(&sessions, &rules).decrypt(&ticket).is_none());
        }
    }

    #[test]
    fn keys_of_another_form_change_nothing() {
        let (old, new) = (ResumableSessions::new().unwrap(), ResumableSessions::new().unwrap());
        let (low, keys) = (rules(MinTlsVersion::Tls12), old.ticket_keys());
        let ticket = keys_of(&new, &low).encrypt(b"session").unwrap();
        new.take_ticket_keys(&[]).unwrap();
        for length in 1..keys.len() {
            assert_eq!(Err("they cannot be read"), new.take_ticket_keys(&keys[..length]), "{length}");
        }
        assert_eq!(Err("they cannot be read"), new.take_ticket_keys(&[&*keys, &[0]].concat()));
        let other = [&[FORMAT + 1], &keys[1..]].concat();
        assert_eq!(Err("the running larder has another form of them"), new.take_ticket_keys(&other));
        assert!(keys_of(&new, &low).decrypt(&ticket).is_some());
    }

    #[test]
    fn the_form_is_that_of_this_version_of_rustls() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap();
        let version = lock.split("name = \"rustls\"\nversion = ").nth(1).and_then(|it| it.lines().next());
        let why = "if its ServerSessionValue (src/msgs/persist.rs) has changed, raise FORMAT";
        assert_eq!(Some("\"0.23"), version.and_then(|it| it.get(..5)), "{why}");
    }
}
