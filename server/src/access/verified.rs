//! Credentials that were verified lately, by a keyed hash: passwords, and signatures of tokens.

use larder_stdx::clock;
use parking_lot::RwLock;
use ring::hmac;
use std::collections::HashMap;

/// Milliseconds for which one is remembered.
const REMEMBERED: u64 = 5 * 60 * 1000;
/// The most of them; when they are reached all are verified again.
const MOST: usize = 16_384;

/// The name of verified credentials.
pub(super) type VerifiedName = [u8; 32];

/// The credentials that were verified lately, of all routes.
pub(super) struct VerifiedMemory {
    key: hmac::Key,
    until: RwLock<HashMap<VerifiedName, u64>>,
}

impl Default for VerifiedMemory {
    fn default() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new());
        // Without a random number nothing may be remembered under a known key: the process cannot serve TLS either.
        let key = key.unwrap_or_else(|_| std::process::abort());
        Self { key, until: RwLock::default() }
    }
}

impl VerifiedMemory {
    /// The name of credentials with these parts.
    pub fn name(&self, parts: &[&[u8]]) -> VerifiedName {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_ne_bytes());
            context.update(part);
        }
        let mut name = [0; 32];
        name.copy_from_slice(context.sign().as_ref());
        name
    }

    /// Whether they were verified lately.
    pub fn has(&self, name: &VerifiedName) -> bool {
        self.until.read().get(name).is_some_and(|it| clock::monotonic().0 < *it)
    }

    /// Remembers them.
    pub fn keep(&self, name: VerifiedName) {
        let mut until = self.until.write();
        if until.len() >= MOST {
            let now = clock::monotonic().0;
            until.retain(|_, it| now < *it);
            if until.len() >= MOST {
                until.clear();
            }
        }
        until.insert(name, clock::monotonic().0 + REMEMBERED);
    }
}
