//! A hasher for keys that are hashes already. The hash function of these keys is not here.

use std::hash::Hasher;

/// Returns a hash unchanged.
#[derive(Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for it in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*it);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write_u128(&mut self, hash: u128) {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let low = hash as u64;
        self.0 = low;
    }
}
