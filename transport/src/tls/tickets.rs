//! The keys of session tickets (RFC 8446 section 4.6.1, RFC 5077). Each key seals tickets for six hours, and opens them for six more.
//! Unlike those of rustls they can be handed to another process, which continues with the same schedule.

use larder_stdx::clock::{self, Monotonic};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Milliseconds for which a key seals tickets.
const PERIOD: u64 = 6 * 60 * 60 * 1000;
/// The lifetime in a ticket, in seconds: the most time for which it is accepted.
const LIFETIME: u32 = 12 * 60 * 60;
/// Bytes of the name of a key, with which its tickets begin.
const NAME: usize = 16;
/// Bytes of a key with its name.
const SECRET: usize = NAME + 32;

/// One key.
struct TicketKey {
    secret: [u8; SECRET],
    sealing: LessSafeKey,
}

impl TicketKey {
    /// A new one; `None` if the system has no random numbers.
    fn random() -> Option<Self> {
        let mut secret = [0; SECRET];
        SystemRandom::new().fill(&mut secret).ok()?;
        Self::of(secret)
    }

    fn of(secret: [u8; SECRET]) -> Option<Self> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &secret[NAME..]).ok()?;
        Some(Self { secret, sealing: LessSafeKey::new(key) })
    }

    fn name(&self) -> &[u8] {
        &self.secret[..NAME]
    }

    /// The name, a nonce, and the sealed bytes.
    fn seal(&self, session: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut ticket = [self.name(), &nonce, session].concat();
        let (nonce, name) = (Nonce::assume_unique_for_key(nonce), Aad::from(self.name()));
        let sealed = &mut ticket[NAME + NONCE_LEN..];
        let tag = self.sealing.seal_in_place_separate_tag(nonce, name, sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        if name != self.name() {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut session = sealed.to_vec();
        let length = self.sealing.open_in_place(nonce, Aad::from(name), &mut session).ok()?.len();
        session.truncate(length);
        Some(session)
    }
}

/// The keys at a time.
pub(super) struct KeySchedule {
    current: TicketKey,
    /// Opens tickets, and seals none.
    previous: Option<TicketKey>,
    /// The end of the period of `current`.
    until: Monotonic,
}

impl KeySchedule {
    fn new(now: Monotonic) -> Option<Self> {
        Some(Self { current: TicketKey::random()?, previous: None, until: Monotonic(now.0 + PERIOD) })
    }

    /// Begins the period of a new key, if that of the present one is over.
    fn advance(&mut self, now: Monotonic) -> Option<()> {
        if now < self.until {
            return Some(());
        }
        let next = TicketKey::random()?;
        let last = std::mem::replace(&mut self.current, next);
        // Without a handshake for a whole period that key is too old, too.
        self.previous = (now.0 < self.until.0 + PERIOD).then_some(last);
        self.until = Monotonic(now.0 + PERIOD);
        Some(())
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.current.open(ticket).or_else(|| self.previous.as_ref()?.open(ticket))
    }

    /// Appends it for another process: the milliseconds that are left, the number of keys, and these.
    fn write(&self, now: Monotonic, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.until.0.saturating_sub(now.0).to_le_bytes());
        out.push(1 + u8::from(self.previous.is_some()));
        [&self.current].into_iter().chain(&self.previous).for_each(|it| out.extend_from_slice(&it.secret));
    }

    /// Reads it from the start of `bytes`.
    pub(super) fn read(bytes: &mut &[u8], now: Monotonic) -> Option<Self> {
        let left = u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?);
        let count = *bytes.split_off_first()?;
        if left > PERIOD || !(1..=2).contains(&count) {
            return None;
        }
        let mut keys = (0..count).map(|_| TicketKey::of(*bytes.split_off(..SECRET)?.first_chunk()?));
        let current = keys.next()??;
        let previous = match keys.next() {
            None => None,
            Some(key) => Some(key?),
        };
        Some(Self { current, previous, until: Monotonic(now.0 + left) })
    }
}

/// Seals and opens the tickets of all connections with the same rules.
pub(super) struct TicketKeys(RwLock<KeySchedule>);

impl TicketKeys {
    /// With a new key; `None` if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        Some(Self(RwLock::new(KeySchedule::new(clock::monotonic_now())?)))
    }

    /// The keys at this time; `None` if a new one is due, and the system has no random numbers.
    fn present(&self, now: Monotonic) -> Option<RwLockReadGuard<'_, KeySchedule>> {
        let schedule = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if now < schedule.until {
            return Some(schedule);
        }
        drop(schedule);
        self.0.write().unwrap_or_else(PoisonError::into_inner).advance(now)?;
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends the keys for another process: see [`KeySchedule::write`].
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let now = clock::monotonic_now();
        self.present(now)?.write(now, out);
        Some(())
    }

    /// Continues with other keys.
    pub(super) fn replace(&self, schedule: KeySchedule) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = schedule;
    }
}

/// Never the keys.
impl fmt::Debug for TicketKeys {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.present(clock::monotonic())?.current.seal(session)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.present(clock::monotonic())?.open(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: u64) -> Monotonic {
        Monotonic(now)
    }

    fn opens(schedule: &KeySchedule, ticket: &[u8]) -> bool {
        schedule.open(ticket).is_some()
    }

    fn handed(schedule: &KeySchedule, then: u64, now: u64) -> KeySchedule {
        let mut bytes = Vec::new();
        schedule.write(at(then), &mut bytes);
        let mut rest = &*bytes;
        let read = KeySchedule::read(&mut rest, at(now)).unwrap();
        assert!(rest.is_empty());
        read
    }

    #[test]
    fn a_ticket_is_opened_by_its_key_and_unchanged_alone() {
        let (key, other) = (TicketKey::random().unwrap(), TicketKey::random().unwrap());
        let ticket = key.seal(b"session").unwrap();
        assert_ne!(ticket, key.seal(b"session").unwrap(), "each has a nonce of its own");
        assert_eq!(Some(b"session".to_vec()), key.open(&ticket));
        assert_eq!(None, other.open(&ticket));
        for length in 0..ticket.len() {
            assert_eq!(None, key.open(&ticket[..length]), "{length}");
        }
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(None, key.open(&changed), "{at}");
        }
    }

    #[test]
    fn each_key_seals_for_one_period_and_opens_for_two() {
        let mut keys = KeySchedule::new(at(5)).unwrap();
        let first = keys.current.seal(b"1").unwrap();
        keys.advance(at(5 + PERIOD - 1)).unwrap();
        assert!(keys.previous.is_none());
        keys.advance(at(5 + PERIOD)).unwrap();
        let second = keys.current.seal(b"2").unwrap();
        assert!(opens(&keys, &first) && opens(&keys, &second));
        keys.advance(at(5 + 2 * PERIOD)).unwrap();
        assert!(!opens(&keys, &first) && opens(&keys, &second));
        // No handshake for longer than a period.
        keys.advance(at(5 + 5 * PERIOD)).unwrap();
        assert!(!opens(&keys, &second) && keys.previous.is_none());
    }

    #[test]
    fn another_process_continues_with_the_same_schedule() {
        let mut keys = KeySchedule::new(at(0)).unwrap();
        let first = keys.current.seal(b"1").unwrap();
        assert!(opens(&handed(&keys, 1000, 7), &first));
        keys.advance(at(PERIOD)).unwrap();
        let second = keys.current.seal(b"2").unwrap();
        // An hour later, in a process that has run for 7 ms.
        let mut there = handed(&keys, PERIOD + 3_600_000, 7);
        assert_eq!(at(7 + PERIOD - 3_600_000), there.until);
        assert!(opens(&there, &first) && opens(&there, &second));
        assert!(opens(&keys, &there.current.seal(b"3").unwrap()), "both have the same key");
        there.advance(there.until).unwrap();
        assert!(!opens(&there, &first) && opens(&there, &second));
    }

    #[test]
    fn no_other_bytes_are_read_as_keys() {
        let mut bytes = Vec::new();
        KeySchedule::new(at(0)).unwrap().write(at(0), &mut bytes);
        let read = |bytes: &[u8]| KeySchedule::read(&mut &*bytes, at(0)).is_some();
        assert!(read(&bytes));
        (0..bytes.len()).for_each(|it| assert!(!read(&bytes[..it]), "{it}"));
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            read(&bytes)
        };
        assert!(!changed(8, 0) && !changed(8, 2) && !changed(8, 3), "a number of keys");
        assert!(!changed(7, 1), "longer than a period");
    }
}
