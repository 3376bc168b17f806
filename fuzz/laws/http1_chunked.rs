//! Laws for any bytes as a chunked body. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::http1::chunked::{BadChunk, ChunkStep, ChunkedDecoder, MAX_TRAILERS, write_end, write_size};
use larder_wire::message::fields::is_allowed_trailer;

/// Data, trailers as text, and the bytes that were read; or why not, `None` for "not whole".
type Outcome = Result<(Vec<u8>, Vec<u8>, usize), Option<BadChunk>>;

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let whole = decode(raw, raw.len());
    assert_eq!(whole, decode(raw, 1), "byte by byte");
    assert_eq!(whole, decode(raw, 7), "by sevens");
    if let Ok((data, trailers, length)) = whole {
        assert!(data.len() < length && length <= raw.len() && trailers.len() <= MAX_TRAILERS * 2);
        let mut again = Vec::new();
        for chunk in data.chunks(16) {
            write_size(chunk.len(), &mut again);
            again.extend_from_slice(chunk);
            again.extend_from_slice(b"\r\n");
        }
        write_end(None, &mut again);
        assert_eq!(Ok((data, Vec::new(), again.len())), decode(&again, again.len()));
    }
}

/// Decodes `raw`, of which `piece` bytes arrive at a time.
fn decode(raw: &[u8], piece: usize) -> Outcome {
    let mut decoder = ChunkedDecoder::default();
    let mut data = Vec::new();
    let mut at = 0;
    for part in raw.chunks(piece.max(1)) {
        let mut rest = part;
        loop {
            match decoder.step(rest).map_err(Some)? {
                ChunkStep::More { consumed } => {
                    assert_eq!(rest.len(), consumed);
                    at += consumed;
                    break;
                }
                ChunkStep::Data { consumed, data: left } => {
                    rest = &rest[consumed..];
                    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    data.extend_from_slice(&rest[..taken]);
                    decoder.took(taken as u64);
                    rest = &rest[taken..];
                    at += consumed + taken;
                    if rest.is_empty() {
                        break;
                    }
                }
                ChunkStep::End { consumed } => {
                    assert!(decoder.is_at_end());
                    let trailers = decoder.trailers().unwrap_or_default();
                    assert!(trailers.iter().all(|it| is_allowed_trailer(it.name)));
                    let mut out = Vec::new();
                    write_end(Some(&trailers), &mut out);
                    return Ok((data, trailers.text().to_vec(), at + consumed));
                }
            }
        }
    }
    assert!(!decoder.is_at_end());
    Err(None)
}
