//! The request of the uwsgi protocol: a header of four bytes and a block of variables, then the body. The response has no
//! framing of its own and is not here.

/// The most bytes of the block of variables: its length has 16 bits.
pub const MAX_BLOCK: usize = 65_535;

/// The bytes before the block of variables.
pub const HEADER: usize = 4;

/// The most bytes of the block that uWSGI reads unless its `buffer-size` is set: it closes the connection of a larger one.
pub const DEFAULT_BUFFER: usize = 4096;

/// The block of variables is too large by its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTooLarge;

/// Appends the header and the variables, for the modifiers 0 and 0 (WSGI).
///
/// # Errors
/// The variables have more than [`MAX_BLOCK`] bytes; `out` is unchanged.
pub fn begin<'a>(
    variables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) -> Result<(), BlockTooLarge> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    for (name, value) in variables {
        if text(name, out).and_then(|()| text(value, out)).is_err() {
            out.truncate(start);
            return Err(BlockTooLarge);
        }
    }
    let Ok(length) = u16::try_from(out.len() - start - HEADER) else {
        out.truncate(start);
        return Err(BlockTooLarge);
    };
    let [low, high] = length.to_le_bytes();
    if let Some(header) = out.get_mut(start..start + HEADER) {
        header.copy_from_slice(&[0, low, high, 0]);
    }
    Ok(())
}

fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BlockTooLarge> {
    let length = u16::try_from(bytes.len()).map_err(|_| BlockTooLarge)?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request() {
        let mut out = Vec::new();
        begin([(&b"REQUEST_METHOD"[..], &b"GET"[..]), (b"E", b"")], &mut out).unwrap();
        assert_eq!(b"\0\x1a\0\0\x0e\0REQUEST_METHOD\x03\0GET\x01\0E\0\0", &*out);
    }

    #[test]
    fn a_block_has_at_most_65535_bytes() {
        let of = |length: usize| {
            let (value, mut out) = (vec![b'v'; length], b"before".to_vec());
            let done = begin([(&b"A"[..], &value[..]), (b"BCDEFGHI", b"")], &mut out);
            (done, out.len())
        };
        // Two bytes for each of four lengths, and nine bytes of names.
        assert_eq!((Ok(()), 6 + 4 + MAX_BLOCK), of(MAX_BLOCK - 17));
        assert_eq!((Err(BlockTooLarge), 6), of(MAX_BLOCK - 16));
        assert_eq!((Err(BlockTooLarge), 6), of(70_000));
    }
}
