//! Laws for any bytes as the records of a FastCGI response. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::fastcgi::{BadRecord, FastCgiEnd, RecordReader, RecordStep};

/// Output, error output, the end if there was one, and the bytes that were read.
type Outcome = Result<(Vec<u8>, Vec<u8>, Option<FastCgiEnd>, usize), BadRecord>;

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let whole = read(raw, raw.len());
    assert_eq!(whole, read(raw, 1), "byte by byte");
    assert_eq!(whole, read(raw, 7), "by sevens");
    if let Ok((output, error, end, length)) = whole {
        assert!(length <= raw.len(), "more than there is was read");
        assert!(output.len() + error.len() <= length, "it has no more bytes than its records");
        if end.is_some() {
            let mut more = raw[..length].to_vec();
            more.extend_from_slice(b"\x01\x06anything");
            assert_eq!(Ok((output, error, end, length)), read(&more, more.len()), "its end is its end");
        }
    }
}

/// Reads `raw`, of which `piece` bytes arrive at a time.
fn read(raw: &[u8], piece: usize) -> Outcome {
    let (mut reader, mut buffer, mut length) = (RecordReader::default(), Vec::new(), 0);
    let (mut output, mut error) = (Vec::new(), Vec::new());
    for piece in raw.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            let (consumed, data, to) = match reader.step(&buffer)? {
                RecordStep::More { consumed } => {
                    buffer.drain(..consumed);
                    length += consumed;
                    break;
                }
                RecordStep::End { consumed, end } => {
                    return Ok((output, error, Some(end), length + consumed));
                }
                RecordStep::Output { consumed, data } => (consumed, data, &mut output),
                RecordStep::Error { consumed, data } => (consumed, data, &mut error),
            };
            let taken = data.min(buffer.len() - consumed);
            assert!(taken > 0, "some of it is there");
            to.extend_from_slice(&buffer[consumed..consumed + taken]);
            reader.took(taken);
            buffer.drain(..consumed + taken);
            length += consumed + taken;
        }
    }
    Ok((output, error, None, length))
}
