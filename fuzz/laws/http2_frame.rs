//! What must hold for any bytes that a client sends as frames. Run by the fuzzer, and small as a test of `wire`.

use larder_wire::http2::frame::{Frame, HEADER, MAX_SIZE, Parsed, parse};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let mut rest = raw;
    while let Ok(Parsed::Frame(frame, length)) = parse(rest) {
        assert!((HEADER..=HEADER + MAX_SIZE).contains(&length) && length <= rest.len());
        assert_eq!(Ok(Parsed::Frame(frame, length)), parse(&rest[..length]), "nothing behind it matters");
        assert_eq!(Ok(Parsed::Partial), parse(&rest[..length - 1]));
        is_in_bounds(&frame, length - HEADER);
        rest = &rest[length..];
    }
}

fn is_in_bounds(frame: &Frame<'_>, payload: usize) {
    match frame {
        Frame::Data { stream, data, flow, .. } => {
            assert!(*stream != 0 && *flow as usize == payload && data.len() <= payload);
        }
        Frame::Headers { stream, block, .. } | Frame::Continuation { stream, block, .. } => {
            assert!(*stream != 0 && block.len() <= payload);
        }
        Frame::Priority { stream } | Frame::Reset { stream, .. } | Frame::Broken { stream, .. } => {
            assert_ne!(0, *stream);
        }
        Frame::Settings(settings) => {
            assert_eq!(payload, settings.len() * 6);
            assert_eq!(settings.is_empty(), settings.iter().next().is_none());
        }
        Frame::WindowUpdate { increment, .. } => assert!((1..1 << 31).contains(increment)),
        Frame::SettingsAck | Frame::Ping(_) | Frame::PingAck(_) | Frame::GoAway { .. } | Frame::Unknown => {}
    }
}
