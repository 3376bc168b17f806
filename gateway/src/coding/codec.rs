//! Content codings: coding a complete body, and decoding one step by step within limits. `semantics::transcode` decides
//! which coding is wanted; `coding` and `deliver` decide when and where.

use brotli::enc::BrotliEncoderParams;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use flate2::{Compression, Decompress, FlushDecompress, Status};
use larder_semantics::coding::Coding;
use std::io::{self, Write};
use zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// The room for output in one step of a decoder: one client's share before the worker looks at other clients.
pub const STEP: usize = 32 << 10;

/// The highest ratio of decoded to coded size, once [`RATIO_EXEMPT_BYTES`] bytes are decoded. Pages grow 5 to 20 times; gzip can reach
/// 1,030, brotli and zstd far more.
pub const MOST_RATIO: u64 = 250;

/// Decoded bytes up to which [`MOST_RATIO`] is not checked.
pub const RATIO_EXEMPT_BYTES: u64 = 1 << 20;

/// The window of RFC 9659 §3 for zstd, 8 MiB, as a power of two: the memory that a decoder needs. Brotli's is at most 16
/// MiB, gzip's 32 KiB.
const ZSTD_WINDOW: u32 = 23;

/// The compression levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecLevels {
    /// 1 to 9.
    pub gzip: u8,
    /// 0 to 11.
    pub brotli: u8,
    /// 1 to 19.
    pub zstd: u8,
}

/// Codes `plain`. `None` where the result would not be smaller by at least a 16th: it would cost RAM and every client's
/// time for nothing.
///
/// # Errors
/// The codec has no memory, or there is no codec for the coding.
pub fn encode(coding: Coding, levels: CodecLevels, plain: &[u8]) -> io::Result<Option<Vec<u8>>> {
    encode_within(coding, levels, plain, plain.len() - plain.len() / 16)
}

/// Codes `plain`. `None` where the result would have more than `most` bytes.
///
/// # Errors
/// As of [`encode`].
pub fn encode_within(
    coding: Coding,
    levels: CodecLevels,
    plain: &[u8],
    most: usize,
) -> io::Result<Option<Vec<u8>>> {
    if coding == Coding::Zstd {
        return encode_zstd(levels, plain, most);
    }
    let mut out = Bounded { bytes: Vec::new(), most };
    let done = match coding {
        Coding::Gzip => {
            let mut coder = flate2::write::GzEncoder::new(&mut out, Compression::new(levels.gzip.into()));
            coder.write_all(plain).and_then(|()| coder.try_finish())
        }
        Coding::Brotli => {
            let params = BrotliEncoderParams {
                quality: levels.brotli.into(),
                size_hint: plain.len(),
                // A window larger than the body takes memory and compresses no better.
                lgwin: brotli_window(plain.len() as u64).cast_signed(),
                ..BrotliEncoderParams::default()
            };
            brotli::BrotliCompress(&mut &plain[..], &mut out, &params).map(drop)
        }
        // Zstd is handled above; the others are not produced.
        Coding::Zstd | Coding::Identity | Coding::Deflate | Coding::Several(_) | Coding::Other => {
            Err(io::ErrorKind::Unsupported.into())
        }
    };
    match done {
        Ok(()) => Ok(Some(out.bytes)),
        Err(_) if out.most == 0 => Ok(None),
        Err(error) => Err(error),
    }
}

/// In one call, since the whole input is there: the encoder needs no copy of its window.
fn encode_zstd(levels: CodecLevels, plain: &[u8], most: usize) -> io::Result<Option<Vec<u8>>> {
    let failed = |code| io::Error::other(zstd::zstd_safe::get_error_name(code));
    let mut coder = zstd_coder(levels, plain.len())?;
    let mut out = Vec::with_capacity(most);
    match coder.compress2(&mut out, plain) {
        Ok(_) => {
            out.shrink_to_fit();
            Ok(Some(out))
        }
        // The only error for this case; it has no number here.
        Err(code) if zstd::zstd_safe::get_error_name(code) == TOO_SMALL => Ok(None),
        Err(code) => Err(failed(code)),
    }
}

fn zstd_coder(levels: CodecLevels, length: usize) -> io::Result<CCtx<'static>> {
    let failed = |code| io::Error::other(zstd::zstd_safe::get_error_name(code));
    let mut coder = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
    coder.set_parameter(CParameter::CompressionLevel(levels.zstd.into())).map_err(failed)?;
    coder.set_parameter(CParameter::ContentSizeFlag(true)).map_err(failed)?;
    if length > 1 << ZSTD_WINDOW {
        coder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW)).map_err(failed)?;
    }
    Ok(coder)
}

/// The memory that [`encode`] takes in addition to the plain bytes, its result included: an upper bound that is reserved
/// before. `tests/coding_memory.rs` and `codec/tests.rs` compare it with measurements.
#[must_use]
pub fn memory(coding: Coding, levels: CodecLevels, length: u64) -> u64 {
    // The result grows by doubling; zstd's is reserved.
    let result = 2 * length;
    let coder = match coding {
        Coding::Gzip => 420 << 10,
        Coding::Brotli => brotli_memory(levels.brotli, length),
        Coding::Zstd => zstd_memory(levels.zstd, length),
        Coding::Identity | Coding::Deflate | Coding::Several(_) | Coding::Other => 0,
    };
    result + coder
}

/// The estimated memory for decoding a body of `length` bytes, with its result of at most `most` bytes: pages grow 5 to
/// 20 times, and windows are as large as their content.
#[must_use]
pub fn decoding_memory(coding: Coding, length: u64, most: u64) -> u64 {
    window(coding, length) + (16 * length).min(most)
}

fn window(coding: Coding, length: u64) -> u64 {
    match coding {
        Coding::Gzip | Coding::Deflate => 64 << 10,
        Coding::Brotli | Coding::Zstd => (16 * length).clamp(256 << 10, 8 << 20),
        Coding::Several(all) => all.iter().map(|it| window(it, length) + STEP as u64).sum(),
        Coding::Identity | Coding::Other => 0,
    }
}

/// The smallest power of two that holds `length` bytes.
fn log(length: u64) -> u32 {
    length.max(2).next_power_of_two().ilog2()
}

/// Brotli's window for a body, as a power of two: 16 bytes of it are unused (RFC 7932 §9.1). The default is 22; below 17
/// this encoder allocates a table of 32 MiB at levels 5 to 9, for any body.
fn brotli_window(length: u64) -> u32 {
    log(length + 16).clamp(17, 22)
}

/// The ring of twice the window or block, the level's hash table, and the output of a block.
fn brotli_memory(level: u8, length: u64) -> u64 {
    let window = brotli_window(length);
    let ring = 2_u64 << window.max(18);
    match level {
        0..=1 => (512 << 10) + 2 * length,
        2..=4 => ring + (2 << 20) + 2 * length,
        5..=8 => ring + (4 << (14 + u32::from(level))) + (2 << 20) + 2 * length,
        9 => ring + (38 << 20) + 2 * length,
        _ => ring + (8 << window) + (1 << 20) + 64 * length,
    }
}

/// The tables of `clevels.h` in zstd 1.5, no larger than the window needs, and the output of a block of 128 KiB.
fn zstd_memory(level: u8, length: u64) -> u64 {
    let (hash, chain) = match level {
        0..=4 => (18, 18),
        5..=8 => (20, 19),
        9 => (21, 20),
        10..=11 => (22, 21),
        12..=16 => (23, 23),
        _ => (22, 24),
    };
    let window = log(length).clamp(10, ZSTD_WINDOW);
    // Chains are twice as long where they are trees.
    let (trees, optimal) = if level >= 13 { (1, (16 * length).clamp(256 << 10, 3 << 20)) } else { (0, 0) };
    let tables = (5_u64 << hash.min(window + 1)) + (4 << chain.min(window + trees));
    tables + optimal + (1 << 20)
}

/// Zstd's error name where the result has no room.
const TOO_SMALL: &str = "Destination buffer is too small";

/// Takes bytes up to a limit; beyond it `most` becomes zero.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            self.most = 0;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    /// Its bytes are not of this coding, or they end early.
    Broken,
    /// It grows beyond [`MOST_RATIO`].
    Bomb,
    /// It grows beyond the allowed size.
    TooLarge,
}

/// Whether a decoder has more output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeProgress {
    /// Call again with the rest of the input.
    More,
    /// All input was taken: it needs more, or has reached the end.
    Fed,
}

/// Decodes a body piece by piece; no step produces more than the output has room for.
pub struct BodyDecoder {
    engine: Engine,
    consumed: u64,
    produced: u64,
    most: u64,
    /// A complete stream has ended, and no other has begun.
    ended: bool,
    /// The rest of the input is not gzip.
    padded: bool,
}

enum Engine {
    Gzip(Decompress),
    Deflate(Deflate),
    /// The outer coding, applied last, and those below it.
    Several(Box<Layers>),
    Brotli(Box<BrotliState<HeapAlloc<u8>, HeapAlloc<u32>, HeapAlloc<HuffmanCode>>>),
    Zstd(DCtx<'static>),
}

impl BodyDecoder {
    /// A decoder with at most `most` bytes of output; `None` where the coding has no decoder.
    #[must_use]
    pub fn new(coding: Coding, most: u64) -> Option<BodyDecoder> {
        let engine = match coding {
            Coding::Gzip => Engine::Gzip(Decompress::new_gzip(15)),
            Coding::Brotli => {
                let (bytes, words) = (HeapAlloc::new(0), HeapAlloc::new(0));
                let codes = HeapAlloc::new(HuffmanCode::default());
                Engine::Brotli(Box::new(BrotliState::new_strict(bytes, words, codes)))
            }
            Coding::Zstd => {
                let mut context = DCtx::try_create()?;
                context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW)).ok()?;
                Engine::Zstd(context)
            }
            Coding::Deflate => Engine::Deflate(Deflate::Unknown),
            Coding::Several(all) => {
                let mut all = all.iter();
                let (outer, inner) = (all.next_back()?, Coding::over(all));
                // The bytes between the two are not limited here: the ratio limits them.
                let (outer, inner) = (BodyDecoder::new(outer, u64::MAX)?, BodyDecoder::new(inner, most)?);
                Engine::Several(Box::new(Layers { outer, inner, between: Vec::new(), at: 0 }))
            }
            Coding::Identity | Coding::Other => return None,
        };
        Some(BodyDecoder { engine, consumed: 0, produced: 0, most, ended: false, padded: false })
    }

    /// Takes input from the front of `input` and writes the decoded bytes to `out`, which must not be empty. Returns how
    /// many were written.
    ///
    /// # Errors
    /// The body cannot be decoded; the decoder is of no further use.
    pub fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut [u8],
    ) -> Result<(DecodeProgress, usize), Undecodable> {
        let mut filled = 0;
        while filled < out.len() && !(input.is_empty() && self.ended) {
            let (took, brought) = self.turn(input, &mut out[filled..])?;
            *input = &input[took..];
            filled += brought;
            self.consumed += took as u64;
            self.produced += brought as u64;
            if self.produced > self.most {
                return Err(Undecodable::TooLarge);
            }
            if self.produced > RATIO_EXEMPT_BYTES && self.produced / MOST_RATIO > self.consumed {
                return Err(Undecodable::Bomb);
            }
            if took == 0 && brought == 0 {
                if input.is_empty() {
                    break;
                }
                return Err(Undecodable::Broken); // It makes nothing of what is there.
            }
        }
        let more = filled == out.len() || !input.is_empty();
        Ok((if more { DecodeProgress::More } else { DecodeProgress::Fed }, filled))
    }

    /// Checks, after all input was taken, that the body was complete.
    ///
    /// # Errors
    /// It ends early.
    pub fn finish(&self) -> Result<(), Undecodable> {
        if self.ended { Ok(()) } else { Err(Undecodable::Broken) }
    }

    /// One call of the engine: bytes taken, bytes written.
    fn turn(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), Undecodable> {
        match &mut self.engine {
            Engine::Gzip(engine) => {
                if self.ended {
                    // Members follow one another (RFC 1952 §2.2). Anything after them is padding, which browsers ignore.
                    self.padded |= input.first() != Some(&0x1f);
                    if self.padded {
                        return Ok((input.len(), 0));
                    }
                    *engine = Decompress::new_gzip(15);
                    self.ended = false;
                }
                let (before_in, before_out) = (engine.total_in(), engine.total_out());
                let status = engine.decompress(input, out, FlushDecompress::None);
                self.ended = matches!(status.map_err(|_| Undecodable::Broken)?, Status::StreamEnd);
                Ok((span(before_in, engine.total_in()), span(before_out, engine.total_out())))
            }
            Engine::Deflate(engine) => {
                if self.ended {
                    return Ok((input.len(), 0)); // Padding, as behind gzip.
                }
                let (moved, ended) = engine.turn(input, out)?;
                self.ended = ended;
                Ok(moved)
            }
            Engine::Several(layers) => {
                let (moved, ended) = layers.turn(input, out)?;
                self.ended = ended;
                Ok(moved)
            }
            Engine::Brotli(state) => {
                if self.ended {
                    return Err(Undecodable::Broken); // Nothing follows a brotli stream.
                }
                let (mut available_in, mut at_in) = (input.len(), 0);
                let (mut available_out, mut at_out, mut total) = (out.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut available_in,
                    &mut at_in,
                    input,
                    &mut available_out,
                    &mut at_out,
                    out,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => return Err(Undecodable::Broken),
                    BrotliResult::ResultSuccess => self.ended = true,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                }
                Ok((at_in, at_out))
            }
            Engine::Zstd(context) => {
                let mut source = InBuffer::around(input);
                let mut target = OutBuffer::around(out);
                let left = context.decompress_stream(&mut target, &mut source);
                let left = left.map_err(|_| Undecodable::Broken)?;
                let moved = (source.pos(), target.pos());
                // Frames follow one another (RFC 8878 §3.1).
                if moved != (0, 0) {
                    self.ended = left == 0;
                }
                Ok(moved)
            }
        }
    }
}

/// Bytes taken and written, and whether a complete stream has ended.
type Turn = ((usize, usize), bool);

/// `deflate` is a zlib stream (RFC 9110 §8.4.1.2); some servers send the raw stream, and browsers accept both.
enum Deflate {
    /// Nothing has arrived, or only the first byte of a possible zlib header.
    Unknown,
    Half(u8),
    Known(Decompress),
}

impl Deflate {
    fn turn(&mut self, input: &[u8], out: &mut [u8]) -> Result<Turn, Undecodable> {
        let (first, taken, second) = match (&*self, input) {
            (Deflate::Known(_), _) | (_, []) => return self.decompress(input, out),
            (Deflate::Unknown, [one]) => {
                *self = Deflate::Half(*one);
                return Ok(((1, 0), false));
            }
            (Deflate::Unknown, [one, two, ..]) => (*one, 0, *two),
            (Deflate::Half(one), [two, ..]) => (*one, 1, *two),
        };
        // CM 8, a window of 32 KiB at most, and the check of the two bytes (RFC 1950 §2.2).
        let is_zlib = first & 0x8f == 8 && (u16::from(first) * 256 + u16::from(second)).is_multiple_of(31);
        let mut engine = Decompress::new(is_zlib);
        if taken == 1 {
            engine.decompress(&[first], &mut [], FlushDecompress::None).map_err(|_| Undecodable::Broken)?;
        }
        *self = Deflate::Known(engine);
        self.decompress(input, out)
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<Turn, Undecodable> {
        let Deflate::Known(engine) = self else { return Ok(((0, 0), false)) };
        let (before_in, before_out) = (engine.total_in(), engine.total_out());
        let status = engine.decompress(input, out, FlushDecompress::None).map_err(|_| Undecodable::Broken)?;
        let moved = (span(before_in, engine.total_in()), span(before_out, engine.total_out()));
        Ok((moved, matches!(status, Status::StreamEnd)))
    }
}

/// Two decoders, the outer feeding the inner.
struct Layers {
    outer: BodyDecoder,
    inner: BodyDecoder,
    /// Output of the outer decoder that the inner has not taken, from `at` on.
    between: Vec<u8>,
    at: usize,
}

impl Layers {
    fn turn(&mut self, mut input: &[u8], out: &mut [u8]) -> Result<Turn, Undecodable> {
        let all = input.len();
        if self.at == self.between.len() {
            self.between.resize(STEP, 0);
            let (_, brought) = self.outer.step(&mut input, &mut self.between)?;
            self.between.truncate(brought);
            self.at = 0;
        }
        let mut piece = &self.between[self.at..];
        let (_, brought) = self.inner.step(&mut piece, out)?;
        self.at = self.between.len() - piece.len();
        let is_empty = self.at == self.between.len();
        let ended = is_empty && self.outer.ended && self.inner.ended;
        Ok(((all - input.len(), brought), ended))
    }
}

fn span(before: u64, after: u64) -> usize {
    usize::try_from(after - before).expect("within a buffer in memory")
}

/// Decodes a complete body.
///
/// # Errors
/// It cannot be decoded, or becomes larger than `most` bytes.
pub fn decode(coding: Coding, coded: &[u8], most: u64) -> Result<Vec<u8>, Undecodable> {
    match decode_beginning(coding, coded, most) {
        (mut plain, Ok(())) => {
            plain.shrink_to_fit();
            Ok(plain)
        }
        (_, Err(why)) => Err(why),
    }
}

/// Decodes as much of a body as possible; the result says whether that was all of it.
pub fn decode_beginning(coding: Coding, mut coded: &[u8], most: u64) -> (Vec<u8>, Result<(), Undecodable>) {
    let (mut plain, mut step) = (Vec::new(), vec![0; STEP]);
    let Some(mut decoder) = BodyDecoder::new(coding, most) else { return (plain, Err(Undecodable::Broken)) };
    loop {
        match decoder.step(&mut coded, &mut step) {
            Ok((progress, brought)) => {
                plain.extend_from_slice(&step[..brought]);
                if progress == DecodeProgress::Fed {
                    return (plain, decoder.finish());
                }
            }
            Err(why) => return (plain, Err(why)),
        }
    }
}

#[cfg(test)]
#[path = "codec/tests.rs"]
mod tests;
