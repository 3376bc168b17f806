//! Laws for any bytes as a stream of a client. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::http3::frame::{FrameStream, Http3Frame, Http3FrameReader};
use larder_wire::http3::{Http3Error, read_varint, write_varint};

/// A frame; the pieces of DATA are joined.
type Read = (Vec<String>, Result<bool, Http3Error>);

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    for stream in [FrameStream::Request, FrameStream::Control] {
        let whole = read(stream, raw, usize::MAX);
        // The pieces in which bytes arrive do not matter.
        assert_eq!(whole, read(stream, raw, 1));
        assert_eq!(whole, read(stream, raw, 7));
    }
    if let Some((value, _)) = read_varint(raw) {
        let mut out = Vec::new();
        write_varint(value, &mut out);
        assert_eq!(Some((value, out.len())), read_varint(&out));
    }
}

fn read(stream: FrameStream, raw: &[u8], size: usize) -> Read {
    let mut reader = Http3FrameReader::new(stream, 64);
    let (mut found, mut data) = (Vec::new(), Vec::new());
    for mut some in raw.chunks(size) {
        loop {
            match reader.read(&mut some) {
                Ok(None) => break,
                Ok(Some(Http3Frame::Data(bytes))) => data.extend_from_slice(bytes),
                Ok(Some(frame)) => {
                    if let Http3Frame::Headers(block) = &frame {
                        assert!(block.len() <= 64 + 16 * 1024);
                    }
                    found.push(format!("{} {frame:?}", data.len()));
                }
                Err(error) => return (found, Err(error)),
            }
        }
        assert!(some.is_empty());
    }
    found.push(format!("{data:?}"));
    (found, Ok(reader.is_between_frames()))
}
