//! Frames (RFC 9113 §4, §6): a strict parser, with an error code for each broken rule, and a writer. The permitted
//! sequences of frames are not here.

use super::ErrorCode;

/// Bytes before a frame's payload.
pub const HEADER: usize = 9;
/// The largest payload that must be accepted, and the largest that larder accepts (`SETTINGS_MAX_FRAME_SIZE`).
pub const MAX_SIZE: usize = 16_384;
/// The initial window of streams and connections (RFC 9113 §6.9.2).
pub const FIRST_WINDOW: u32 = 65_535;
/// The largest window.
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const PRIORITY: u8 = 0x2;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PUSH_PROMISE: u8 = 0x5;
const PING: u8 = 0x6;
const GOAWAY: u8 = 0x7;
const WINDOW_UPDATE: u8 = 0x8;
const CONTINUATION: u8 = 0x9;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;

/// One frame of a client, borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Frame<'a> {
    /// Part of a body.
    Data {
        /// Never 0, as for every stream number.
        stream: u32,
        /// Without padding.
        data: &'a [u8],
        /// Bytes that count against the windows, including padding.
        flow: u32,
        /// Whether it is the last of the stream.
        end_stream: bool,
    },
    /// The beginning of a field section.
    Headers {
        /// The stream.
        stream: u32,
        /// Compressed fields.
        block: &'a [u8],
        /// Whether no body follows, or the section is the trailers.
        end_stream: bool,
        /// Whether no CONTINUATION follows.
        end_headers: bool,
    },
    /// The continuation of a field section.
    Continuation {
        /// The stream.
        stream: u32,
        /// Compressed fields.
        block: &'a [u8],
        /// Whether it is the last.
        end_headers: bool,
    },
    /// A priority of RFC 7540, which is ignored.
    Priority {
        /// The stream; may be idle.
        stream: u32,
    },
    /// The client resets a stream.
    Reset {
        /// The stream.
        stream: u32,
        /// An [`ErrorCode`], or an unknown code.
        code: u32,
    },
    /// The client's settings.
    Settings(SettingsFrame<'a>),
    /// The acknowledgement of larder's settings.
    SettingsAck,
    /// To be echoed.
    Ping([u8; 8]),
    /// The answer to larder's PING.
    PingAck([u8; 8]),
    /// The client starts no more streams.
    GoAway {
        /// An [`ErrorCode`], or an unknown code.
        code: u32,
    },
    /// Credit for sending.
    WindowUpdate {
        /// The stream; 0 is the connection.
        stream: u32,
        /// The increment in bytes, above 0.
        increment: u32,
    },
    /// An unknown type, to be ignored (RFC 9113 §4.1).
    Unknown,
    /// An invalid frame that is an error of its stream only.
    Broken {
        /// The stream.
        stream: u32,
        /// The error.
        code: ErrorCode,
    },
}

/// The result of [`parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedFrame<'a> {
    /// A complete frame, and its length in bytes.
    Frame(Http2Frame<'a>, usize),
    /// More bytes are needed.
    Partial,
}

/// Parses the frame at the start of `bytes`.
///
/// # Errors
/// An error that ends the connection. Detected from the frame's header alone if possible.
pub fn parse(bytes: &[u8]) -> Result<ParsedFrame<'_>, ErrorCode> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(ParsedFrame::Partial) };
    let [a, b, c, kind, flags, stream @ ..] = *header;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let stream = u32::from_be_bytes(stream) & MAX_WINDOW;
    if length > MAX_SIZE {
        return Err(ErrorCode::FrameSize);
    }
    check(kind, flags, stream, length)?;
    let Some(payload) = rest.get(..length) else { return Ok(ParsedFrame::Partial) };
    Ok(ParsedFrame::Frame(frame(kind, flags, stream, payload)?, HEADER + length))
}

/// Checks the header alone.
fn check(kind: u8, flags: u8, stream: u32, length: usize) -> Result<(), ErrorCode> {
    let is_of_stream = match kind {
        DATA | HEADERS | PRIORITY | RST_STREAM | CONTINUATION => Some(true),
        SETTINGS | PING | GOAWAY => Some(false),
        // A client cannot push (RFC 9113 §8.4).
        PUSH_PROMISE => return Err(ErrorCode::Protocol),
        _ => None,
    };
    if is_of_stream.is_some_and(|it| it != (stream != 0)) {
        return Err(ErrorCode::Protocol);
    }
    let fits = match kind {
        RST_STREAM | WINDOW_UPDATE => length == 4,
        SETTINGS if flags & ACK != 0 => length == 0,
        SETTINGS => length % 6 == 0,
        PING => length == 8,
        GOAWAY => length >= 8,
        _ => true,
    };
    if fits { Ok(()) } else { Err(ErrorCode::FrameSize) }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Http2Frame<'_>, ErrorCode> {
    let end_stream = flags & END_STREAM != 0;
    let end_headers = flags & END_HEADERS != 0;
    Ok(match kind {
        DATA => {
            let flow = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            Http2Frame::Data { stream, data: unpadded(flags, payload)?, flow, end_stream }
        }
        HEADERS => headers(flags, stream, unpadded(flags, payload)?)?,
        CONTINUATION => Http2Frame::Continuation { stream, block: payload, end_headers },
        PRIORITY => match payload.first_chunk::<5>() {
            Some(first) if payload.len() == first.len() && dependency(first) != stream => {
                Http2Frame::Priority { stream }
            }
            Some(first) if payload.len() == first.len() => {
                Http2Frame::Broken { stream, code: ErrorCode::Protocol }
            }
            _ => Http2Frame::Broken { stream, code: ErrorCode::FrameSize },
        },
        RST_STREAM => Http2Frame::Reset { stream, code: number(payload) },
        SETTINGS if flags & ACK != 0 => Http2Frame::SettingsAck,
        SETTINGS => Http2Frame::Settings(SettingsFrame { bytes: payload }),
        PING => {
            let data = payload.first_chunk().copied().unwrap_or_default();
            if flags & ACK != 0 { Http2Frame::PingAck(data) } else { Http2Frame::Ping(data) }
        }
        GOAWAY => Http2Frame::GoAway { code: number(payload.get(4..).unwrap_or_default()) },
        WINDOW_UPDATE => match number(payload) & MAX_WINDOW {
            0 if stream == 0 => return Err(ErrorCode::Protocol),
            0 => Http2Frame::Broken { stream, code: ErrorCode::Protocol },
            increment => Http2Frame::WindowUpdate { stream, increment },
        },
        _ => Http2Frame::Unknown,
    })
}

fn headers(flags: u8, stream: u32, mut block: &[u8]) -> Result<Http2Frame<'_>, ErrorCode> {
    if flags & HAS_PRIORITY != 0 {
        let (first, rest) = block.split_first_chunk::<5>().ok_or(ErrorCode::FrameSize)?;
        // A stream that depends on itself. Its fields would have to be decoded even so: RFC 7540 §5.3.1 permits a stream
        // error, but no client does it by mistake.
        if dependency(first) == stream {
            return Err(ErrorCode::Protocol);
        }
        block = rest;
    }
    let (end_stream, end_headers) = (flags & END_STREAM != 0, flags & END_HEADERS != 0);
    Ok(Http2Frame::Headers { stream, block, end_stream, end_headers })
}

fn dependency(bytes: &[u8; 5]) -> u32 {
    number(bytes) & MAX_WINDOW
}

/// Four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |it| u32::from_be_bytes(*it))
}

/// Removes the padding, which may not exceed the payload (RFC 9113 §6.1).
fn unpadded(flags: u8, payload: &[u8]) -> Result<&[u8], ErrorCode> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ErrorCode::FrameSize)?;
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(ErrorCode::Protocol)?;
    Ok(rest.get(..length).unwrap_or_default())
}

/// The settings of one frame, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsFrame<'a> {
    bytes: &'a [u8],
}

/// One known setting (RFC 9113 §6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Setting {
    /// Bytes of the dynamic table for larder's encoder.
    HeaderTableSize(u32),
    /// Whether larder may push; 0 or 1.
    EnablePush(bool),
    /// Simultaneous streams that larder may start: it starts none.
    MaxConcurrentStreams(u32),
    /// The initial window of streams.
    InitialWindowSize(u32),
    /// The largest payload that the client accepts.
    MaxFrameSize(u32),
    /// The largest field section that the client accepts.
    MaxHeaderListSize(u32),
    /// Extended CONNECT (RFC 8441 §3); a client's has no meaning.
    EnableConnectProtocol,
    /// Unknown, to be ignored.
    Unknown,
}

impl SettingsFrame<'_> {
    /// Each setting in order, or the error code of the rule that it breaks.
    pub fn iter(&self) -> impl Iterator<Item = Result<Http2Setting, ErrorCode>> {
        self.bytes.chunks_exact(6).map(|it| {
            let value = number(it.get(2..).unwrap_or_default());
            Ok(match it.first_chunk().map_or(0, |it| u16::from_be_bytes(*it)) {
                0x1 => Http2Setting::HeaderTableSize(value),
                0x2 if value > 1 => return Err(ErrorCode::Protocol),
                0x2 => Http2Setting::EnablePush(value == 1),
                0x3 => Http2Setting::MaxConcurrentStreams(value),
                0x4 if value > MAX_WINDOW => return Err(ErrorCode::FlowControl),
                0x4 => Http2Setting::InitialWindowSize(value),
                0x5 if !(16_384..=16_777_215).contains(&value) => return Err(ErrorCode::Protocol),
                0x5 => Http2Setting::MaxFrameSize(value),
                0x6 => Http2Setting::MaxHeaderListSize(value),
                0x8 => Http2Setting::EnableConnectProtocol,
                _ => Http2Setting::Unknown,
            })
        })
    }

    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / 6
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Whether a frame is the last of its kind in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndFlag {
    /// More follows.
    Open,
    /// The last.
    Stream,
}

fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER] {
    debug_assert!(length < 1 << 24, "a payload has a length of 24 bits");
    let [_, a, b, c] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    [a, b, c, kind, flags, d, e, f, g]
}

/// Appends the header of a DATA frame of `length` bytes, which follow.
pub fn write_data_header(stream: u32, length: usize, end: EndFlag, out: &mut Vec<u8>) {
    let flags = if end == EndFlag::Stream { END_STREAM } else { 0 };
    out.extend_from_slice(&header(length, DATA, flags, stream));
}

/// Reserves the header of a field section that is appended to `out` next; returns its position for [`end_headers`].
pub fn begin_headers(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER]);
    at
}

/// Ends the field section that began at `at`: writes its header, and for a section longer than a frame those of
/// CONTINUATIONs.
pub fn end_headers(at: usize, stream: u32, end: EndFlag, out: &mut Vec<u8>) {
    let length = out.len() - at - HEADER;
    let flags = if end == EndFlag::Stream { END_STREAM } else { 0 };
    if length <= MAX_SIZE {
        out[at..at + HEADER].copy_from_slice(&header(length, HEADERS, flags | END_HEADERS, stream));
    } else {
        split_headers(at, stream, flags, out);
    }
}

#[cold]
fn split_headers(at: usize, stream: u32, flags: u8, out: &mut Vec<u8>) {
    let block = out.split_off(at + HEADER);
    out.truncate(at);
    let last = block.len().div_ceil(MAX_SIZE) - 1;
    for (index, part) in block.chunks(MAX_SIZE).enumerate() {
        let ends = if index == last { END_HEADERS } else { 0 };
        let (kind, flags) = if index == 0 { (HEADERS, flags | ends) } else { (CONTINUATION, ends) };
        out.extend_from_slice(&header(part.len(), kind, flags, stream));
        out.extend_from_slice(part);
    }
}

/// Appends RST_STREAM.
pub fn write_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    out.extend_from_slice(&header(4, RST_STREAM, 0, stream));
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends SETTINGS with these identifiers and values.
pub fn write_settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    out.extend_from_slice(&header(settings.len() * 6, SETTINGS, 0, 0));
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of the peer's settings.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    out.extend_from_slice(&header(0, SETTINGS, ACK, 0));
}

/// Appends a PING, or with `ack` the answer to one.
pub fn write_ping(data: [u8; 8], ack: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&header(8, PING, if ack { ACK } else { 0 }, 0));
    out.extend_from_slice(&data);
}

/// Appends GOAWAY: streams above `last` were not started.
pub fn write_goaway(last: u32, code: ErrorCode, out: &mut Vec<u8>) {
    out.extend_from_slice(&header(8, GOAWAY, 0, 0));
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends WINDOW_UPDATE.
pub fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&header(4, WINDOW_UPDATE, 0, stream));
    out.extend_from_slice(&increment.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame of these parts.
    fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        [&header(payload.len(), kind, flags, stream)[..], payload].concat()
    }

    #[track_caller]
    fn check(kind: u8, flags: u8, stream: u32, payload: &[u8], expect: Result<Http2Frame<'_>, ErrorCode>) {
        let raw = raw(kind, flags, stream, payload);
        assert_eq!(expect.map(|it| ParsedFrame::Frame(it, raw.len())), parse(&raw));
    }

    fn data(data: &[u8], flow: u32) -> Result<Http2Frame<'_>, ErrorCode> {
        Ok(Http2Frame::Data { stream: 1, data, flow, end_stream: false })
    }

    #[test]
    fn padding_is_taken_off_and_counts() {
        check(DATA, 0, 1, b"abc", data(b"abc", 3));
        check(DATA, PADDED, 1, b"\x02abc\0\0", data(b"abc", 6));
        check(DATA, PADDED, 1, b"\x05abc\0\0", data(b"", 6));
        check(DATA, PADDED, 1, b"\x06abc\0\0", Err(ErrorCode::Protocol));
        check(DATA, PADDED, 1, b"", Err(ErrorCode::FrameSize));
    }

    #[test]
    fn frames_of_streams_and_connections_require_their_stream_number() {
        for kind in [DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION] {
            check(kind, 0, 0, &[0; 4], Err(ErrorCode::Protocol));
        }
        for kind in [SETTINGS, PING, GOAWAY] {
            check(kind, 0, 1, &[0; 8], Err(ErrorCode::Protocol));
        }
        check(PUSH_PROMISE, 0, 1, &[0; 8], Err(ErrorCode::Protocol));
        check(0x77, 0xff, 0, b"x", Ok(Http2Frame::Unknown));
    }

    #[test]
    fn sizes_that_a_type_cannot_have() {
        check(RST_STREAM, 0, 1, &[0; 3], Err(ErrorCode::FrameSize));
        check(SETTINGS, 0, 0, &[0; 7], Err(ErrorCode::FrameSize));
        check(SETTINGS, ACK, 0, &[0; 6], Err(ErrorCode::FrameSize));
        check(PING, 0, 0, &[0; 7], Err(ErrorCode::FrameSize));
        check(GOAWAY, 0, 0, &[0; 7], Err(ErrorCode::FrameSize));
        check(WINDOW_UPDATE, 0, 0, &[0; 5], Err(ErrorCode::FrameSize));
        check(HEADERS, HAS_PRIORITY, 1, &[0; 4], Err(ErrorCode::FrameSize));
        check(PRIORITY, 0, 1, &[0; 4], Ok(Http2Frame::Broken { stream: 1, code: ErrorCode::FrameSize }));
        assert_eq!(Err(ErrorCode::FrameSize), parse(&header(MAX_SIZE + 1, DATA, 0, 1)), "told by its header");
        assert_eq!(Ok(ParsedFrame::Partial), parse(&header(MAX_SIZE, DATA, 0, 1)));
    }

    #[test]
    fn values_that_a_field_cannot_have() {
        let broken = Ok(Http2Frame::Broken { stream: 3, code: ErrorCode::Protocol });
        check(WINDOW_UPDATE, 0, 3, &[0x80, 0, 0, 0], broken);
        check(WINDOW_UPDATE, 0, 0, &[0; 4], Err(ErrorCode::Protocol));
        check(
            WINDOW_UPDATE,
            0,
            0,
            &[0xff; 4],
            Ok(Http2Frame::WindowUpdate { stream: 0, increment: MAX_WINDOW }),
        );
        check(PRIORITY, 0, 3, &[0, 0, 0, 3, 1], broken);
        check(HEADERS, HAS_PRIORITY, 3, &[0, 0, 0, 3, 1], Err(ErrorCode::Protocol));
    }

    #[test]
    fn settings_are_read_in_order_and_checked() {
        let read = |name: u16, value: u32| {
            let mut raw = Vec::new();
            write_settings(&[(0xff, 1), (name, value)], &mut raw);
            let Ok(ParsedFrame::Frame(Http2Frame::Settings(it), _)) = parse(&raw) else { panic!("{raw:?}") };
            it.iter().last().unwrap()
        };
        assert_eq!(Ok(Http2Setting::EnablePush(false)), read(2, 0));
        assert_eq!(Err(ErrorCode::Protocol), read(2, 2));
        assert_eq!(Ok(Http2Setting::InitialWindowSize(MAX_WINDOW)), read(4, MAX_WINDOW));
        assert_eq!(Err(ErrorCode::FlowControl), read(4, MAX_WINDOW + 1));
        assert_eq!(Err(ErrorCode::Protocol), read(5, 16_383));
        assert_eq!(Ok(Http2Setting::MaxFrameSize(16_777_215)), read(5, 16_777_215));
        assert_eq!(Err(ErrorCode::Protocol), read(5, 16_777_216));
    }

    #[test]
    fn written_frames_are_parsed_to_the_same() {
        let mut out = Vec::new();
        let at = begin_headers(&mut out);
        out.extend_from_slice(&[7; 2 * MAX_SIZE + 5]);
        end_headers(at, 9, EndFlag::Stream, &mut out);
        write_data_header(9, 2, EndFlag::Stream, &mut out);
        out.extend_from_slice(b"ab");
        write_reset(9, ErrorCode::Cancel, &mut out);
        write_settings_ack(&mut out);
        write_ping(*b"12345678", true, &mut out);
        write_goaway(9, ErrorCode::EnhanceYourCalm, &mut out);
        write_window_update(9, 77, &mut out);
        let mut rest = &out[..];
        let mut got = Vec::new();
        while let Ok(ParsedFrame::Frame(frame, length)) = parse(rest) {
            got.push(frame);
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        let block = [7; MAX_SIZE];
        let expect = [
            Http2Frame::Headers { stream: 9, block: &block, end_stream: true, end_headers: false },
            Http2Frame::Continuation { stream: 9, block: &block, end_headers: false },
            Http2Frame::Continuation { stream: 9, block: &block[..5], end_headers: true },
            Http2Frame::Data { stream: 9, data: b"ab", flow: 2, end_stream: true },
            Http2Frame::Reset { stream: 9, code: 8 },
            Http2Frame::SettingsAck,
            Http2Frame::PingAck(*b"12345678"),
            Http2Frame::GoAway { code: 11 },
            Http2Frame::WindowUpdate { stream: 9, increment: 77 },
        ];
        assert_eq!(&expect[..], got);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_a_cut_frame_is_partial_or_refused(
            kind in 0..12u8, flags: u8, stream in 0..4u32, payload in proptest::collection::vec(any::<u8>(), 0..40)
        ) {
            let raw = raw(kind, flags, stream, &payload);
            let whole = parse(&raw);
            for cut in 0..raw.len() {
                match parse(&raw[..cut]) {
                    Ok(it) => assert_eq!(ParsedFrame::Partial, it),
                    Err(code) => assert_eq!(Err(code), whole),
                }
            }
        }
    }
}
