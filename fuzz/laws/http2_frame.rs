//! Laws for any bytes as a client's frames. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::http2::frame::{HEADER, Http2Frame, MAX_SIZE, ParsedFrame, parse};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let mut rest = raw;
    while let Ok(ParsedFrame::Frame(frame, length)) = parse(rest) {
        assert!((HEADER..=HEADER + MAX_SIZE).contains(&length) && length <= rest.len());
        assert_eq!(
            Ok(ParsedFrame::Frame(frame, length)),
            parse(&rest[..length]),
            "nothing behind it matters"
        );
        assert_eq!(Ok(ParsedFrame::Partial), parse(&rest[..length - 1]));
        is_in_bounds(&frame, length - HEADER);
        rest = &rest[length..];
    }
}

fn is_in_bounds(frame: &Http2Frame<'_>, payload: usize) {
    match frame {
        Http2Frame::Data { stream, data, flow, .. } => {
            assert!(*stream != 0 && *flow as usize == payload && data.len() <= payload);
        }
        Http2Frame::Headers { stream, block, .. } | Http2Frame::Continuation { stream, block, .. } => {
            assert!(*stream != 0 && block.len() <= payload);
        }
        Http2Frame::Priority { stream }
        | Http2Frame::Reset { stream, .. }
        | Http2Frame::Broken { stream, .. } => {
            assert_ne!(0, *stream);
        }
        Http2Frame::Settings(settings) => {
            assert_eq!(payload, settings.len() * 6);
            assert_eq!(settings.is_empty(), settings.iter().next().is_none());
        }
        Http2Frame::WindowUpdate { increment, .. } => assert!((1..1 << 31).contains(increment)),
        Http2Frame::SettingsAck
        | Http2Frame::Ping(_)
        | Http2Frame::PingAck(_)
        | Http2Frame::GoAway { .. }
        | Http2Frame::Unknown => {}
    }
}
