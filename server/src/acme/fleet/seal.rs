//! Items of memcached that only nodes with the same secret can read and write: ChaCha20-Poly1305 (RFC 8439) by a key that HKDF-SHA256
//! (RFC 5869) makes of the secret.
//!
//! ```text
//! version (1) | nonce (12) | ciphertext with tag
//! ```
//!
//! The version and the name of the item are authenticated, so that no item passes for another one.

use larder_stdx::secret::Secret;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

const VERSION: u8 = 1;
const HEAD: usize = 1 + NONCE_LEN;

/// The key of the items of a fleet.
pub(super) struct FleetSeal(LessSafeKey);

impl FleetSeal {
    /// The key of a secret. A line end after it, as in most files, does not count.
    pub fn new(secret: &Secret) -> Self {
        let salt = Salt::new(HKDF_SHA256, b"larder tls.acme.fleet_key");
        let made = salt.extract(secret.expose().trim().as_bytes());
        let key = made.expand(&[b"items of memcached, version 1"], &CHACHA20_POLY1305);
        // HKDF-SHA256 gives up to 255 * 32 bytes, and the algorithm asks for 32.
        Self(LessSafeKey::new(UnboundKey::from(key.expect("32 bytes"))))
    }

    /// Seals the content of an item; `None` without random numbers.
    pub fn seal(&self, item: &str, content: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = content.to_vec();
        let named = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(named, bound(item), &mut sealed).ok()?;
        Some([&[VERSION], &nonce[..], &sealed].concat())
    }

    /// The content of an item; `None` if it was not sealed for this item with this key.
    pub fn open(&self, item: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (head, sealed) = sealed.split_at_checked(HEAD)?;
        let nonce = Nonce::try_assume_unique_for_key(&head[1..]).ok()?;
        let mut content = sealed.to_vec();
        let length = self.0.open_in_place(nonce, bound(item), &mut content).ok()?.len();
        content.truncate(length);
        (head[0] == VERSION).then_some(content)
    }
}

fn bound(item: &str) -> Aad<Vec<u8>> {
    Aad::from([&[VERSION], item.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(secret: &str) -> FleetSeal {
        FleetSeal::new(&Secret::new(secret))
    }

    #[test]
    fn a_seal_opens_with_the_same_secret_for_the_same_item() {
        let sealed = of("one").seal("orders", b"content").unwrap();
        assert_eq!(Some(b"content".to_vec()), of("one").open("orders", &sealed));
        assert_eq!(
            Some(b"content".to_vec()),
            of("one\n").open("orders", &sealed),
            "with the line end of a file"
        );
        assert_eq!(None, of("two").open("orders", &sealed), "another secret");
        assert_eq!(None, of("one").open("order", &sealed), "another item");
        assert_ne!(sealed, of("one").seal("orders", b"content").unwrap(), "a nonce of its own");
        assert!(!sealed.windows(7).any(|it| it == b"content"));
    }

    #[test]
    fn a_damaged_seal_does_not_open() {
        let key = of("one");
        for content in [&b""[..], b"content"] {
            let sealed = key.seal("orders", content).unwrap();
            for end in 0..sealed.len() {
                assert_eq!(None, key.open("orders", &sealed[..end]), "{end} bytes");
            }
            for bit in 0..sealed.len() * 8 {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(None, key.open("orders", &flipped), "bit {bit}");
            }
            assert_eq!(None, key.open("orders", &[&sealed[..], b"x"].concat()), "longer");
        }
    }
}
