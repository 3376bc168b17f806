//! Extracting a response body from the read buffer, verified by its framing. Other modules read the socket.

use crate::error::OriginError;
use bytes::{Buf, Bytes, BytesMut};
use larder_semantics::field::FieldList;
use larder_wire::http1::chunked::{ChunkStep, ChunkedDecoder};

/// The remaining part of a body.
#[derive(Debug)]
pub(super) enum RemainingBody {
    /// This many bytes, above zero.
    Length(u64),
    /// Until the decoder reports the end.
    Chunked(Box<ChunkedDecoder>),
    /// Until the connection closes.
    Close,
}

/// The content of the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TakenBytes {
    /// A part of the body; more follows, or the end is not visible yet.
    Some(Bytes),
    /// The rest of the body, which may be empty.
    Last(Bytes, Option<FieldList>),
    /// None: read more.
    Nothing,
}

/// The meaning of the connection's end for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtClose {
    /// It was the end.
    Complete,
    /// The body is truncated.
    Truncated,
}

impl RemainingBody {
    /// Takes as much as the buffer has.
    ///
    /// # Errors
    /// [`OriginError::BadBody`].
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> Result<TakenBytes, OriginError> {
        match self {
            RemainingBody::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                if length == 0 {
                    return Ok(TakenBytes::Nothing);
                }
                *left -= length as u64;
                let bytes = buffer.split_to(length).freeze();
                Ok(if *left == 0 { TakenBytes::Last(bytes, None) } else { TakenBytes::Some(bytes) })
            }
            RemainingBody::Chunked(decoder) => take_chunks(decoder, buffer),
            RemainingBody::Close if buffer.is_empty() => Ok(TakenBytes::Nothing),
            RemainingBody::Close => Ok(TakenBytes::Some(buffer.split().freeze())),
        }
    }

    /// The meaning of an orderly end of the connection with an empty buffer.
    pub(super) fn at_close(&self) -> AtClose {
        match self {
            RemainingBody::Close => AtClose::Complete,
            RemainingBody::Length(_) | RemainingBody::Chunked(_) => AtClose::Truncated,
        }
    }

    /// The least number of bytes that follow: a hint for the size of the next read.
    pub(super) fn expects(&self) -> u64 {
        match self {
            RemainingBody::Length(left) => *left,
            RemainingBody::Chunked(_) | RemainingBody::Close => 0,
        }
    }
}

/// Takes every chunk of the buffer as one piece: the data is moved together over the framing, so that an origin's many
/// small chunks do not cost a piece each.
fn take_chunks(decoder: &mut ChunkedDecoder, buffer: &mut BytesMut) -> Result<TakenBytes, OriginError> {
    let mut read = 0; // framing and data up to here have been read
    let (mut start, mut end) = (0, 0); // the data, moved together
    let is_last = loop {
        match decoder.step(&buffer[read..]).map_err(|_| OriginError::BadBody)? {
            ChunkStep::Data { consumed, data } => {
                read += consumed;
                let length = usize::try_from(data).unwrap_or(usize::MAX).min(buffer.len() - read);
                if length == 0 {
                    break false;
                }
                if start == end {
                    (start, end) = (read, read + length);
                } else {
                    buffer.copy_within(read..read + length, end);
                    end += length;
                }
                decoder.took(length as u64);
                read += length;
            }
            ChunkStep::More { consumed } => {
                read += consumed;
                break false;
            }
            ChunkStep::End { consumed } => {
                read += consumed;
                break true;
            }
        }
    };
    let mut rest = buffer.split_to(read);
    let data = if start == end {
        Bytes::new()
    } else {
        rest.advance(start);
        rest.truncate(end - start);
        rest.freeze()
    };
    Ok(match (is_last, data.is_empty()) {
        (true, _) => TakenBytes::Last(data, decoder.trailers()),
        (false, true) => TakenBytes::Nothing,
        (false, false) => TakenBytes::Some(data),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunked() -> RemainingBody {
        RemainingBody::Chunked(Box::default())
    }

    /// Feeds `input` in pieces of `size` bytes; the body, `!` where it ended, then the rest of the input.
    fn run(mut body: RemainingBody, input: &[u8], size: usize) -> Result<String, OriginError> {
        let mut buffer = BytesMut::new();
        let mut out = Vec::new();
        let mut pieces = input.chunks(size.max(1));
        loop {
            match body.take(&mut buffer)? {
                TakenBytes::Some(bytes) => out.extend_from_slice(&bytes),
                TakenBytes::Last(bytes, trailers) => {
                    out.extend_from_slice(&bytes);
                    out.push(b'!');
                    out.extend_from_slice(trailers.unwrap_or_default().text());
                    out.extend_from_slice(&buffer);
                    out.extend(pieces.flatten());
                    return Ok(String::from_utf8(out).unwrap());
                }
                TakenBytes::Nothing => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return Ok(String::from_utf8(out).unwrap()),
                },
            }
        }
    }

    #[track_caller]
    fn check(body: fn() -> RemainingBody, input: &str, expect: &str) {
        for size in [1, 2, 3, 7, 1000] {
            let found = run(body(), input.as_bytes(), size);
            assert_eq!(expect, found.unwrap_or_else(|it| format!("{it:?}")), "{input:?} by {size}");
        }
    }

    #[test]
    fn bodies() {
        check(|| RemainingBody::Length(5), "hello", "hello!");
        check(|| RemainingBody::Length(5), "hello, world", "hello!, world");
        check(|| RemainingBody::Length(5), "hell", "hell");
        check(|| RemainingBody::Close, "hello", "hello");
        check(chunked, "5\r\nhello\r\n0\r\n\r\n", "hello!");
        check(chunked, "3\r\nhel\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\nmore", "hello!more");
        check(chunked, "0\r\nX: 1\r\n\r\n", "!X: 1\r\n");
        check(chunked, "5\r\nhell", "hell");
        check(chunked, "5\r\nhelloX", "BadBody");
        check(chunked, "zz\r\n", "BadBody");
        check(chunked, "-1\r\n", "BadBody");
    }

    proptest! {
        #[test]
        fn chunks_come_out_whole_however_they_are_cut(
            chunks in prop::collection::vec("[a-z]{1,40}", 0..20), size in 1_usize..60
        ) {
            let mut input: String = chunks.iter().map(|it| format!("{:x}\r\n{it}\r\n", it.len())).collect();
            input.push_str("0\r\n\r\nnext");
            prop_assert_eq!(run(chunked(), input.as_bytes(), size), Ok(chunks.concat() + "!next"));
        }
    }
}
