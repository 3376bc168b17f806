//! Coding a body piece by piece, while it arrives, with bounded memory. Complete bodies are coded in `codec`.

use super::codec::CodecLevels;
use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use larder_semantics::coding::Coding;
use std::io::{self, Write};
use zstd::stream::raw::CParameter;
use zstd::stream::write::Encoder as ZstdWriter;

/// The highest levels for a body that is coded on the thread of a worker, which other clients wait for. `docs/decisions/0071`
/// has the times.
const FASTEST: CodecLevels = CodecLevels { gzip: 4, brotli: 3, zstd: 3 };

/// The window, as a power of two, of zstd and brotli: it bounds the memory of a coder. That of gzip is 15.
const WINDOW: u32 = 17;

/// The buffer of the brotli writer between its encoder and the output.
const BUFFER: usize = 4 << 10;

/// Codes a body while it arrives.
pub struct BodyEncoder(StreamCoder);

enum StreamCoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(ZstdWriter<'static, Vec<u8>>),
}

impl BodyEncoder {
    /// A coder for a body of `length` bytes, if that is known, at `levels` or faster ones.
    ///
    /// # Errors
    /// The codec has no memory, or there is no codec for the coding.
    pub fn new(coding: Coding, levels: CodecLevels, length: Option<u64>) -> io::Result<Self> {
        let coder = match coding {
            Coding::Gzip => {
                let level = Compression::new(levels.gzip.min(FASTEST.gzip).into());
                StreamCoder::Gzip(GzEncoder::new(Vec::new(), level))
            }
            Coding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: levels.brotli.min(FASTEST.brotli).into(),
                    lgwin: WINDOW.cast_signed(),
                    ..BrotliEncoderParams::default()
                };
                StreamCoder::Brotli(Box::new(CompressorWriter::with_params(Vec::new(), BUFFER, &params)))
            }
            Coding::Zstd => {
                let mut coder = ZstdWriter::new(Vec::new(), levels.zstd.min(FASTEST.zstd).into())?;
                match length.filter(|it| *it <= 1 << WINDOW) {
                    // Its tables are then no larger than the body needs.
                    Some(length) => coder.set_pledged_src_size(Some(length))?,
                    None => coder.set_parameter(CParameter::WindowLog(WINDOW))?,
                }
                StreamCoder::Zstd(coder)
            }
            Coding::Identity | Coding::Deflate | Coding::Several(_) | Coding::Other => {
                return Err(io::ErrorKind::Unsupported.into());
            }
        };
        Ok(Self(coder))
    }

    /// The memory of a coder for a body of `length` bytes, if that is known: an upper bound.
    #[must_use]
    pub fn memory(coding: Coding, length: Option<u64>) -> u64 {
        let window = length.map_or(1 << WINDOW, |it| it.min(1 << WINDOW));
        match coding {
            Coding::Gzip => 420 << 10,
            Coding::Brotli => 3 << 20,
            Coding::Zstd => (512 << 10) + 10 * window,
            Coding::Identity | Coding::Deflate | Coding::Several(_) | Coding::Other => 0,
        }
    }

    /// Codes a piece. Its output may be held until there is more.
    ///
    /// # Errors
    /// The codec failed.
    pub fn feed(&mut self, plain: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            StreamCoder::Gzip(it) => it.write_all(plain),
            StreamCoder::Brotli(it) => it.write_all(plain),
            StreamCoder::Zstd(it) => it.write_all(plain),
        }
    }

    /// Puts out everything that was fed, so that the client can decode it.
    ///
    /// # Errors
    /// The codec failed.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            StreamCoder::Gzip(it) => it.flush(),
            StreamCoder::Brotli(it) => it.flush(),
            StreamCoder::Zstd(it) => it.flush(),
        }
    }

    /// The number of bytes of output that wait to be taken.
    #[must_use]
    pub fn ready(&self) -> usize {
        match &self.0 {
            StreamCoder::Gzip(it) => it.get_ref().len(),
            StreamCoder::Brotli(it) => it.get_ref().len(),
            StreamCoder::Zstd(it) => it.get_ref().len(),
        }
    }

    /// Takes the output so far.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.0 {
            StreamCoder::Gzip(it) => it.get_mut(),
            StreamCoder::Brotli(it) => it.get_mut(),
            StreamCoder::Zstd(it) => it.get_mut(),
        })
    }

    /// Ends the body: the rest of the output. Without this the body is visibly incomplete.
    ///
    /// # Errors
    /// The codec failed.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.0 {
            StreamCoder::Gzip(it) => it.finish(),
            StreamCoder::Brotli(it) => Ok(it.into_inner()),
            StreamCoder::Zstd(it) => it.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec;
    use super::*;

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];
    const LEVELS: CodecLevels = CodecLevels { gzip: 9, brotli: 11, zstd: 19 };

    fn text(length: usize) -> Vec<u8> {
        let line = |at: usize| format!("<li>{at}: soup of the day, bread, {}</li>\n", at * 7919 % 1000);
        let mut text: Vec<u8> = (0..=length / 30).flat_map(|at| line(at).into_bytes()).collect();
        text.truncate(length);
        text
    }

    #[test]
    fn pieces_are_coded_to_the_same_body() {
        for coding in ALL {
            for (length, piece) in [(1, 1), (5000, 1), (200_000, 7000), (1 << 20, 1 << 20)] {
                for known in [None, Some(length as u64)] {
                    let plain = text(length);
                    let mut coder = BodyEncoder::new(coding, LEVELS, known).unwrap();
                    let mut coded = Vec::new();
                    for it in plain.chunks(piece) {
                        coder.feed(it).unwrap();
                        coded.extend(coder.take());
                    }
                    coded.extend(coder.finish().unwrap());
                    assert!(plain == codec::decode(coding, &coded, 8 << 20).unwrap(), "{coding:?} {length}");
                    assert!(length < 5000 || coded.len() < length / 3, "{coding:?} {length} {}", coded.len());
                }
            }
        }
    }

    #[test]
    fn every_flushed_prefix_can_be_decoded() {
        for coding in ALL {
            let plain = text(30_000);
            let mut coder = BodyEncoder::new(coding, LEVELS, None).unwrap();
            let mut coded = Vec::new();
            for (at, it) in plain.chunks(1000).enumerate() {
                coder.feed(it).unwrap();
                coder.flush().unwrap();
                coded.extend(coder.take());
                let (so_far, whole) = codec::decode_beginning(coding, &coded, 8 << 20);
                assert!(so_far == plain[..1000 * (at + 1)] && whole.is_err(), "{coding:?}");
            }
        }
    }

    #[test]
    fn a_body_that_is_not_finished_is_incomplete() {
        for coding in ALL {
            let mut coder = BodyEncoder::new(coding, LEVELS, None).unwrap();
            coder.feed(&text(30_000)).unwrap();
            coder.flush().unwrap();
            assert!(codec::decode(coding, &coder.take(), 8 << 20).is_err(), "{coding:?}");
        }
    }
}
