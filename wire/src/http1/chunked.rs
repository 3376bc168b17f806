//! The chunked coding (RFC 9112 §7.1): a strict, incremental decoder, and what an encoder writes.

use larder_semantics::field::FieldList;

/// Most bytes of one chunk-size line, extensions included.
pub const MAX_LINE: usize = 1024;
/// Most bytes of a trailer section.
pub const MAX_TRAILERS: usize = 16 * 1024;

/// Why a chunked body was refused: the message is incomplete and the connection unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChunk {
    /// Not hexadecimal, empty, or over 2^63 - 1.
    Size,
    /// Chunk data is not followed by CRLF, or a line ends otherwise than by CRLF.
    Terminator,
    /// A chunk extension is malformed or the line too long.
    Extension,
    /// The trailer section is malformed or too long.
    Trailers,
}

/// What the decoder found at the start of its input.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// `consumed` bytes were framing; then `data` bytes of body follow, which the caller takes (any part of
    /// them may be in the buffer) and reports with [`Decoder::took`].
    Data {
        /// Framing bytes before the data.
        consumed: usize,
        /// Body bytes of this chunk that are still to come, above zero.
        data: u64,
    },
    /// More input is needed; `consumed` bytes can be dropped.
    More {
        /// Bytes that were read.
        consumed: usize,
    },
    /// The body ended `consumed` bytes into the input.
    End {
        /// Bytes that were read.
        consumed: usize,
    },
}

/// Decodes one chunked body.
#[derive(Debug, Default)]
pub struct Decoder {
    trailers: Option<FieldList>,
}

impl Decoder {
    /// Reads framing from the start of `input`.
    ///
    /// # Errors
    /// See [`BadChunk`].
    pub fn step(&mut self, input: &[u8]) -> Result<Step, BadChunk> {
        let _ = input;
        todo!()
    }

    /// The caller took `bytes` of the data that [`Step::Data`] announced.
    pub fn took(&mut self, bytes: u64) {
        let _ = bytes;
        todo!()
    }

    /// The trailer section, after [`Step::End`]; framing fields and `Host` are never in it.
    pub fn trailers(&mut self) -> Option<FieldList> {
        self.trailers.take()
    }
}

/// Appends the size line of a chunk of `length` bytes, above zero. CRLF follows the data.
pub fn write_size(length: usize, out: &mut Vec<u8>) {
    let _ = (length, out);
    todo!()
}

/// Appends the last chunk with its trailer section.
pub fn write_end(trailers: Option<&FieldList>, out: &mut Vec<u8>) {
    let _ = (trailers, out);
    todo!()
}
