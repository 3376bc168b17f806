//! The sent part of a request's body, as long as it is small, for sending it again. Other modules decide whether that is
//! done.

use bytes::Bytes;

/// The most bytes of a body that are kept: with framing, where the protocol has it within the body.
pub(crate) const MOST_KEPT: usize = 64 * 1024;

/// The beginning of a body. Copied, since a piece may keep far more than its own bytes alive.
#[derive(Debug, Default)]
pub(crate) struct ReplayBuffer {
    bytes: Vec<u8>,
    is_given_up: bool,
}

impl ReplayBuffer {
    /// One more piece was sent.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        if self.is_given_up {
            return;
        }
        if self.bytes.len() + piece.len() > MOST_KEPT {
            self.forget();
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// None will be needed again.
    pub(crate) fn forget(&mut self) {
        *self = Self { bytes: Vec::new(), is_given_up: true };
    }

    /// Whether all sent bytes are here.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_given_up
    }

    /// All sent bytes, if all of them are here.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        self.is_whole().then(|| std::mem::take(&mut self.bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_and_much_is_not() {
        let mut kept = ReplayBuffer::default();
        assert_eq!(Some(Bytes::new()), kept.take());
        kept.add(b"ab");
        kept.add(b"c");
        assert_eq!(Some(Bytes::from_static(b"abc")), kept.take());
        kept.add(&vec![0; MOST_KEPT]);
        assert!(kept.is_whole());
        kept.add(b"d");
        assert_eq!((None, 0), (kept.take(), kept.bytes.capacity()));
    }

    #[test]
    fn a_discarded_replay_buffer_keeps_nothing_more() {
        let mut kept = ReplayBuffer::default();
        kept.add(b"ab");
        kept.forget();
        kept.add(b"c");
        assert_eq!(None, kept.take());
    }
}
