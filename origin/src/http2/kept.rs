//! Pieces of a request's body that were handed over, as long as they are few. Whether they are sent again is not decided here.

use bytes::Bytes;

/// Pieces of a body that were handed over, as long as they are few: what was refused unread may be sent again.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pieces: Vec<Bytes>,
    bytes: usize,
    is_given_up: bool,
}

/// So many bytes of a body are kept, at most.
const MOST_KEPT: usize = 64 * 1024;

impl Kept {
    /// One more was handed over.
    pub(super) fn add(&mut self, piece: &Bytes) {
        self.bytes += piece.len();
        self.is_given_up |= self.bytes > MOST_KEPT;
        if self.is_given_up {
            self.pieces.clear();
        } else {
            self.pieces.push(piece.clone());
        }
    }

    /// None will be needed again.
    pub(super) fn forget(&mut self) {
        self.is_given_up = true;
        self.pieces.clear();
    }

    /// All of them, if they are still there.
    pub(super) fn take(&mut self) -> Option<Vec<Bytes>> {
        (!self.is_given_up).then(|| std::mem::take(&mut self.pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_and_much_is_not() {
        let mut kept = Kept::default();
        assert_eq!(Some(Vec::new()), kept.take());
        kept.add(&Bytes::from_static(b"ab"));
        kept.add(&Bytes::from_static(b"c"));
        assert_eq!(Some(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]), kept.take());
        kept.add(&Bytes::from(vec![0; MOST_KEPT]));
        assert_eq!(None, kept.take(), "the first three bytes count");
    }

    #[test]
    fn what_is_forgotten_does_not_come_back() {
        let mut kept = Kept::default();
        kept.add(&Bytes::from_static(b"ab"));
        kept.forget();
        kept.add(&Bytes::from_static(b"c"));
        assert_eq!(None, kept.take());
    }
}
