//! The challenge with which WebSocket starts over HTTP/1.1 (RFC 6455 §4), sent by larder where the client came over
//! HTTP/2, which has none (RFC 8441 §5). larder does not read the frames that follow.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_semantics::field::{self, Field};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The constant from which every answer is computed (RFC 6455 §1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A challenge that only an implementation of the protocol can answer: a cache, or a server that says 101 to everything,
/// is not taken for one. It is not secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    key: String,
}

impl Challenge {
    /// A new one.
    pub fn new() -> Self {
        let mut nonce = [0; 16];
        // Without randomness the challenge repeats: each answer is still right or wrong.
        let _ = SystemRandom::new().fill(&mut nonce);
        Self { key: STANDARD.encode(nonce) }
    }

    /// The value of `Sec-WebSocket-Key`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether a response has the matching `Sec-WebSocket-Accept`.
    pub fn is_met(&self, fields: &[Field<'_>]) -> bool {
        let expected =
            STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, (self.key.clone() + GUID).as_bytes()));
        let mut found = field::all(fields, "sec-websocket-accept");
        found.next().is_some_and(|it| it == expected.as_bytes()) && found.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 §1.3.
    #[test]
    fn only_the_computed_accept_key_is_right() {
        let challenge = Challenge { key: "dGhlIHNhbXBsZSBub25jZQ==".to_owned() };
        let check = |answers: &[&str], expect: bool| {
            let fields: Vec<_> = answers
                .iter()
                .map(|it| Field { name: "Sec-WebSocket-Accept", value: it.as_bytes() })
                .collect();
            assert_eq!(expect, challenge.is_met(&fields), "{answers:?}");
        };
        let right = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        check(&[right], true);
        for wrong in
            [&[][..], &["dGhlIHNhbXBsZSBub25jZQ=="], &[right, right], &["S3pPLMBiTxaQ9kYGzzhZRbK+xOo="]]
        {
            check(wrong, false);
        }
        assert_ne!(Challenge::new(), Challenge::new());
    }
}
