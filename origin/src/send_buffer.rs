//! Bytes of a request that the origin has not accepted yet, and the accepted bytes of its body for as long as they may be
//! needed again. Other modules decide the bytes.

use crate::replay_buffer::ReplayBuffer;
use bytes::{Buf, Bytes};
use larder_semantics::field::FieldList;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Slices offered to one write: a size line, its data and its CRLF, twice.
pub(crate) const SLICES: usize = 6;

/// The head and the pieces of the body, in order. It holds more than one piece of the body only where a caller stopped
/// waiting for the one before.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    head: Bytes,
    body: VecDeque<Bytes>,
    /// Those after the body, where the protocol sends them separately.
    pub(crate) trailers: Option<FieldList>,
    head_taken: usize,
    body_taken: u64,
    retention: BodyRetention,
    replay: ReplayBuffer,
}

/// Whether the sent part of a body is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyRetention {
    /// It is never sent again.
    #[default]
    Nothing,
    /// It may be, as far as [`ReplayBuffer`] allows.
    Body,
}

impl SendBuffer {
    /// Whether the origin has accepted everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }

    /// Bytes of the head that the origin has accepted.
    pub(crate) fn head_taken(&self) -> usize {
        self.head_taken
    }

    /// Bytes of the body, framing included, that the origin has accepted.
    pub(crate) fn body_taken(&self) -> u64 {
        self.body_taken
    }

    /// Starts again with this head, of which `taken` bytes are written; pieces of the body stay.
    pub(crate) fn begin(&mut self, head: Bytes, taken: usize, retention: BodyRetention) {
        (self.head, self.head_taken, self.retention) = (head, taken, retention);
    }

    /// Whether all of the body is still here: the accepted part is kept.
    pub(crate) fn has_whole_body(&self) -> bool {
        self.replay.is_whole() || self.body_taken == 0
    }

    /// Adds a piece at the end.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.body.push_back(piece);
        }
    }

    /// Drops the bytes to send.
    pub(crate) fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// The next slices to write, and how many there are.
    pub(crate) fn slices<'a>(&'a self, out: &mut [IoSlice<'a>; SLICES]) -> usize {
        let pieces = std::iter::once(&self.head).chain(&self.body).filter(|it| !it.is_empty());
        let mut count = 0;
        for (slot, piece) in out.iter_mut().zip(pieces) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    /// The number of bytes in the first piece of the body; `None` where there is none.
    pub(crate) fn first(&self) -> Option<usize> {
        self.body.front().map(Bytes::len)
    }

    /// Takes as much of the first piece of the body as there is room for.
    pub(crate) fn take(&mut self, room: usize) -> Bytes {
        let Some(first) = self.body.front_mut() else { return Bytes::new() };
        let piece = first.split_to(room.min(first.len()));
        self.body_taken += piece.len() as u64;
        if first.is_empty() {
            self.body.pop_front();
        }
        self.retention.remember(&piece, &mut self.replay);
        piece
    }

    /// The accepted part of the body is not sent again: there is an answer.
    pub(crate) fn forget(&mut self) {
        self.replay.forget();
    }

    /// The accepted part is to be sent again, before the rest, if all of it is here.
    pub(crate) fn take_back(&mut self) {
        if let Some(kept) = self.replay.take().filter(|it| !it.is_empty()) {
            self.body.push_front(kept);
        }
        (self.head_taken, self.body_taken) = (0, 0);
    }

    /// The origin accepted `length` bytes more.
    pub(crate) fn took(&mut self, length: usize) {
        let of_head = length.min(self.head.len());
        self.head.advance(of_head);
        self.head_taken += of_head;
        let mut left = length - of_head;
        self.body_taken += left as u64;
        while left > 0 {
            let Some(first) = self.body.front_mut() else {
                debug_assert!(false, "more was written than there was");
                return;
            };
            let part = first.split_to(left.min(first.len()));
            left -= part.len();
            self.retention.remember(&part, &mut self.replay);
            if first.is_empty() {
                self.body.pop_front();
            }
        }
    }
}

impl BodyRetention {
    fn remember(self, piece: &[u8], kept: &mut ReplayBuffer) {
        match self {
            BodyRetention::Body => kept.add(piece),
            BodyRetention::Nothing => kept.forget(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_offered_once_and_in_order() {
        for step in 1..12 {
            let mut unsent = SendBuffer::default();
            unsent.begin(Bytes::from_static(b"head"), 0, BodyRetention::Nothing);
            for it in ["5\r\n", "hello", "", "\r\n", "0\r\n", "\r\n", "x", "yz"] {
                unsent.push(Bytes::from_static(it.as_bytes()));
            }
            let mut sent = Vec::new();
            while !unsent.is_empty() {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let count = unsent.slices(&mut slices);
                let offered: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
                let length = step.min(offered.len());
                sent.extend_from_slice(&offered[..length]);
                unsent.took(length);
            }
            assert_eq!(b"head5\r\nhello\r\n0\r\n\r\nxyz", &*sent);
            assert_eq!((4, 18), (unsent.head_taken(), unsent.body_taken()));
            assert!(!unsent.has_whole_body());
        }
    }

    #[test]
    fn bytes_taken_back_are_sent_before_the_rest() {
        for length in 4..12 {
            let mut unsent = SendBuffer::default();
            unsent.begin(Bytes::from_static(b"head"), 0, BodyRetention::Body);
            ["abc", "def", "gh"].into_iter().for_each(|it| unsent.push(Bytes::from_static(it.as_bytes())));
            unsent.took(length);
            unsent.take_back();
            unsent.begin(Bytes::new(), 0, BodyRetention::Body);
            let mut all = Vec::new();
            while unsent.first().is_some() {
                all.extend_from_slice(&unsent.take(2));
            }
            assert_eq!(b"abcdefgh", &*all);
            assert!(unsent.has_whole_body(), "and may do so again");
        }
    }
}
