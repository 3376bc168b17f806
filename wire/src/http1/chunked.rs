//! The chunked coding (RFC 9112 §7.1): a strict, incremental decoder, and an encoder.

#[cfg(test)]
mod tests;

use crate::message::MAX_FIELDS;
use crate::message::facts::is_token_byte;
use crate::message::fields::is_allowed_trailer;
use larder_semantics::field::FieldList;

/// Most bytes of one chunk-size line, extensions included, CRLF not.
pub const MAX_LINE: usize = 1024;
/// Most bytes of a trailer section.
pub const MAX_TRAILERS: usize = 16 * 1024;
/// The most bytes of extensions in one body, in addition to the number of data bytes: a body of tiny chunks with long
/// extensions would cost far more to parse than its size.
pub const MAX_EXTENSIONS: u64 = 16 * 1024;

/// The reason for rejecting a chunked body: the message is incomplete and the connection unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChunk {
    /// Not hexadecimal, empty, over 16 digits, or over 2^63 - 1.
    Size,
    /// Chunk data is not followed by CRLF, or a line does not end with CRLF.
    Terminator,
    /// A chunk extension is malformed, the line too long, or there are too many extensions.
    Extension,
    /// The trailer section is malformed or too long.
    Trailers,
}

/// The result of a step at the start of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum ChunkStep {
    /// `consumed` bytes were framing; then `data` bytes of body follow, which the caller takes (any part of them may be
    /// in the buffer) and reports with [`ChunkedDecoder::took`].
    Data {
        /// Framing bytes before the data.
        consumed: usize,
        /// Remaining body bytes of this chunk, above zero.
        data: u64,
    },
    /// More input is needed; `consumed` bytes can be dropped. It is all of the input.
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

/// The state of the decoder between two bytes.
///
/// ```text
/// Size ──┬── SizeFeed ──┬── Data ── DataReturn ── DataFeed ── Size
///    Extension          └── LineStart ──┬── LastFeed ── End
///                               TrailerLine
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// In the digits of a size, or before them.
    #[default]
    Size,
    /// In the extensions of a size line.
    Extension(Extension),
    /// After the CR of a size line.
    SizeFeed,
    /// In chunk data.
    Data,
    /// After chunk data.
    DataReturn,
    /// After the CR behind chunk data.
    DataFeed,
    /// At the start of a trailer line, or of the empty line that ends the body.
    LineStart,
    /// In a trailer line.
    TrailerLine,
    /// After the CR of the last, empty line.
    LastFeed,
    /// Behind the body.
    End,
    /// Rejected.
    Bad(BadChunk),
}

/// The position in `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` (RFC 9112 §7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// After whitespace that must be followed by a semicolon.
    BeforeSemicolon,
    /// After a semicolon.
    BeforeName,
    Name,
    /// After whitespace behind a name.
    AfterName,
    /// After the equals sign.
    BeforeValue,
    Value,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    /// After the closing quote.
    AfterQuoted,
}

/// Decodes one chunked body.
#[derive(Debug, Default)]
pub struct ChunkedDecoder {
    state: ChunkState,
    /// The size that is being parsed, then the remaining data.
    left: u64,
    /// Bytes of the size line so far.
    line: usize,
    /// Digits of the size so far.
    digits: u8,
    /// Bytes of extensions so far, less the number of data bytes.
    extensions: u64,
    /// Trailer lines as received.
    held: Vec<u8>,
    trailers: Option<FieldList>,
}

impl ChunkedDecoder {
    /// Parses framing from the start of `input`. After [`ChunkStep::Data`] the caller takes data and reports the number
    /// with [`ChunkedDecoder::took`]; until all is taken, the result is [`ChunkStep::Data`] again.
    ///
    /// # Errors
    /// See [`BadChunk`]. After an error a decoder returns the same error forever.
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkStep, BadChunk> {
        let mut at = 0;
        loop {
            match self.state {
                ChunkState::Data => return Ok(ChunkStep::Data { consumed: at, data: self.left }),
                ChunkState::End => return Ok(ChunkStep::End { consumed: at }),
                ChunkState::Bad(why) => return Err(why),
                _ => {}
            }
            let Some(rest) = input.get(at..).filter(|it| !it.is_empty()) else {
                return Ok(ChunkStep::More { consumed: at });
            };
            match self.read(rest) {
                Ok((next, read)) => {
                    self.state = next;
                    at += read;
                }
                Err(why) => {
                    self.state = ChunkState::Bad(why);
                    return Err(why);
                }
            }
        }
    }

    /// Records that the caller took `bytes` of the data announced by [`ChunkStep::Data`], at most that many.
    pub fn took(&mut self, bytes: u64) {
        debug_assert!(self.state == ChunkState::Data && bytes <= self.left, "more was taken than there is");
        if self.state == ChunkState::Data {
            self.left = self.left.saturating_sub(bytes);
            self.extensions = self.extensions.saturating_sub(bytes);
            if self.left == 0 {
                self.state = ChunkState::DataReturn;
            }
        }
    }

    /// Whether the whole body, its last line included, has been read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.state == ChunkState::End
    }

    /// The trailer section, after [`ChunkStep::End`], if it has lines that may be forwarded (see [`is_allowed_trailer`]).
    pub fn trailers(&mut self) -> Option<FieldList> {
        self.trailers.take()
    }

    /// Parses at least one byte of `rest`, which is not empty: the state after it, and the number of bytes.
    fn read(&mut self, rest: &[u8]) -> Result<(ChunkState, usize), BadChunk> {
        let byte = rest.first().copied().unwrap_or_default();
        let next = match self.state {
            ChunkState::Size => self.size(byte)?,
            ChunkState::Extension(it) => self.extension(it, byte)?,
            ChunkState::SizeFeed => self.size_end(byte)?,
            ChunkState::DataReturn => expect(byte, b'\r', ChunkState::DataFeed)?,
            ChunkState::DataFeed => {
                self.line = 0;
                self.digits = 0;
                expect(byte, b'\n', ChunkState::Size)?
            }
            ChunkState::LineStart => match byte {
                b'\r' => ChunkState::LastFeed,
                b'\n' => return Err(BadChunk::Terminator),
                _ => return self.trailer_line(rest),
            },
            ChunkState::TrailerLine => return self.trailer_line(rest),
            ChunkState::LastFeed => {
                let next = expect(byte, b'\n', ChunkState::End)?;
                self.read_trailers()?;
                next
            }
            ChunkState::Data | ChunkState::End | ChunkState::Bad(_) => self.state,
        };
        Ok((next, 1))
    }

    fn size(&mut self, byte: u8) -> Result<ChunkState, BadChunk> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\n' => return Err(BadChunk::Terminator),
            _ if self.digits == 0 => return Err(BadChunk::Size),
            b'\r' => return Ok(ChunkState::SizeFeed),
            b' ' | b'\t' | b';' => {
                self.line = usize::from(self.digits);
                return self.extension(Extension::AfterQuoted, byte);
            }
            _ => return Err(BadChunk::Size),
        };
        if self.digits == 16 || self.left > (i64::MAX as u64) >> 4 {
            return Err(BadChunk::Size);
        }
        self.digits += 1;
        self.left = self.left << 4 | u64::from(digit);
        Ok(ChunkState::Size)
    }

    fn extension(&mut self, state: Extension, byte: u8) -> Result<ChunkState, BadChunk> {
        use Extension::{
            AfterName, AfterQuoted, BeforeName, BeforeSemicolon, BeforeValue, Escaped, Name, Quoted, Value,
        };
        let is_token = is_token_byte(byte);
        let is_text = matches!(byte, b'\t' | b' '..=0x7e | 0x80..);
        let next = match (state, byte) {
            (_, b'\n') => return Err(BadChunk::Terminator),
            (Name | Value | AfterQuoted, b'\r') => return Ok(ChunkState::SizeFeed),
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if is_text => Quoted,
            (BeforeSemicolon | Name | AfterName | Value | AfterQuoted, b';') => BeforeName,
            (BeforeSemicolon | Value | AfterQuoted, b' ' | b'\t') => BeforeSemicolon,
            (BeforeName | BeforeValue | AfterName, b' ' | b'\t') => state,
            (Name, b' ' | b'\t') => AfterName,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeValue, b'"') => Quoted,
            (BeforeName | Name, _) if is_token => Name,
            (BeforeValue | Value, _) if is_token => Value,
            _ => return Err(BadChunk::Extension),
        };
        self.line += 1;
        self.extensions += 1;
        if self.line > MAX_LINE || self.extensions > MAX_EXTENSIONS {
            return Err(BadChunk::Extension);
        }
        Ok(ChunkState::Extension(next))
    }

    fn size_end(&mut self, byte: u8) -> Result<ChunkState, BadChunk> {
        let next = if self.left == 0 { ChunkState::LineStart } else { ChunkState::Data };
        expect(byte, b'\n', next)
    }

    /// Keeps bytes up to the end of the line, or all of them.
    fn trailer_line(&mut self, rest: &[u8]) -> Result<(ChunkState, usize), BadChunk> {
        let feed = memchr::memchr(b'\n', rest);
        let read = feed.map_or(rest.len(), |it| it + 1);
        if self.held.len() + read > MAX_TRAILERS {
            return Err(BadChunk::Trailers);
        }
        self.held.extend_from_slice(&rest[..read]);
        match feed {
            None => Ok((ChunkState::TrailerLine, read)),
            Some(_) if self.held.ends_with(b"\r\n") => Ok((ChunkState::LineStart, read)),
            Some(_) => Err(BadChunk::Terminator),
        }
    }

    /// Parses the kept lines.
    fn read_trailers(&mut self) -> Result<(), BadChunk> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(b"\r\n");
        let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let lines = match httparse::parse_headers(&held, &mut room) {
            Ok(httparse::Status::Complete((length, lines))) if length == held.len() => lines,
            _ => return Err(BadChunk::Trailers),
        };
        let mut list = FieldList::new();
        for it in lines.iter().filter(|it| is_allowed_trailer(it.name)) {
            list.push(it.name, it.value);
        }
        self.trailers = (!list.is_empty()).then_some(list);
        Ok(())
    }
}

fn expect(byte: u8, wanted: u8, next: ChunkState) -> Result<ChunkState, BadChunk> {
    if byte == wanted { Ok(next) } else { Err(BadChunk::Terminator) }
}

/// Appends the size line of a chunk of `length` bytes, above zero. CRLF follows the data.
pub fn write_size(length: usize, out: &mut Vec<u8>) {
    debug_assert!(length > 0, "a chunk of no bytes is the end of the body");
    let mut text = [0; size_of::<usize>() * 2];
    let mut at = text.len();
    let mut rest = length;
    while at > 0 {
        at -= 1;
        text[at] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk with its trailer section, without forbidden fields.
pub fn write_end(trailers: Option<&FieldList>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for it in trailers.into_iter().flat_map(FieldList::iter).filter(|it| is_allowed_trailer(it.name)) {
        super::write::field(it.name, it.value, out);
    }
    out.extend_from_slice(b"\r\n");
}
