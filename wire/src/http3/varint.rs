//! The variable-length integers of QUIC (RFC 9000 §16).

/// The integer at the beginning of `bytes`, and its number of bytes; `None` if it is truncated.
#[must_use]
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1usize << (first >> 6);
    let (bytes, _) = bytes.split_at_checked(length)?;
    let sum = bytes[1..].iter().fold(u64::from(first & 0x3f), |sum, it| sum << 8 | u64::from(*it));
    Some((sum, length))
}

/// Appends an integer below 2^62 in the fewest bytes.
pub fn write_varint(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value < 1 << 62, "an integer of QUIC has 62 bits");
    let bytes = value.to_be_bytes();
    match value {
        0..0x40 => out.push(bytes[7]),
        0x40..0x4000 => out.extend_from_slice(&[bytes[6] | 0x40, bytes[7]]),
        0x4000..0x4000_0000 => out.extend_from_slice(&[bytes[4] | 0x80, bytes[5], bytes[6], bytes[7]]),
        _ => {
            out.push(bytes[0] & 0x3f | 0xc0);
            out.extend_from_slice(&bytes[1..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 Appendix A.1.
    #[test]
    fn the_examples_are_read_and_written() {
        for (value, bytes) in [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ] {
            assert_eq!(Some((value, bytes.len())), read_varint(bytes));
            assert_eq!(None, read_varint(&bytes[..bytes.len() - 1]));
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(bytes, out);
        }
        assert_eq!(Some((37, 2)), read_varint(&[0x40, 0x25]), "not the shortest form");
    }

    #[test]
    fn each_length_ends_where_the_next_begins() {
        for (value, length) in [
            (0, 1),
            (0x3f, 1),
            (0x40, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            ((1 << 62) - 1, 8),
        ] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(Some((value, length)), read_varint(&out));
        }
    }
}
