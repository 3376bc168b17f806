//! Positions in the binary log of MariaDB and MySQL: a file, and a byte in it.

use crate::lag::OFFSET_BITS;
use std::rc::Rc;

/// A position in the log. Later ones are greater.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogPosition {
    /// The number of the file.
    number: u64,
    /// The byte in it.
    pub offset: u64,
    /// The name of the file.
    pub file: Rc<str>,
}

impl LogPosition {
    /// In a file, whose name ends with a number.
    pub fn new(file: &str, offset: u64) -> Option<Self> {
        let number = file.rsplit_once('.')?.1.parse().ok()?;
        Some(Self { number, offset, file: file.into() })
    }

    /// As one number with the same order, for [`FollowLag`](crate::lag::FollowLag).
    pub fn ordinal(&self) -> u64 {
        self.number << OFFSET_BITS | self.offset.min((1 << OFFSET_BITS) - 1)
    }

    /// That of the end of an event, of which the log has the lower 32 bits.
    pub fn advance(&mut self, low: u32) {
        let mut next = self.offset & !0xffff_ffff | u64::from(low);
        if next < self.offset {
            next = next.wrapping_add(1 << 32);
        }
        self.offset = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_have_an_order() {
        let at = |file: &str, offset| LogPosition::new(file, offset).unwrap();
        assert!(at("bin.000009", 700) < at("bin.000010", 4));
        assert!(at("bin.999999", 700) < at("bin.1000000", 4));
        assert!(at("bin.000009", 4) < at("bin.000009", 5));
        assert!(at("bin.000009", u64::MAX).ordinal() < at("bin.000010", 4).ordinal());
        assert!(at("bin.000010", 4).ordinal() < at("bin.000010", 5).ordinal());
        assert_eq!(None, LogPosition::new("bin", 4));
        let mut long = at("a.b.000001", 0xffff_fff0);
        long.advance(0xffff_fff8);
        assert_eq!(0xffff_fff8, long.offset);
        long.advance(8);
        assert_eq!(0x1_0000_0008, long.offset);
        // No server has such a file.
        let mut last = at("a.b.000001", u64::MAX);
        last.advance(8);
        assert_eq!(8, last.offset);
    }
}
