//! Frames of HTTP/3 (RFC 9114 §7), from the bytes of a stream in pieces of any size. DATA is passed on as it arrives; other
//! frames are bounded and read as a whole.

use super::{Http3Error, read_varint, write_varint};

/// The largest head of a frame: a type and a length.
const HEAD: usize = 16;
/// The most bytes of a frame about the connection: SETTINGS with 64 settings of the largest form.
const CONTROL: u64 = 1024;
/// Bytes of a compressed field section beyond the limit of the uncompressed one: its names may be longer than those of the
/// static table.
const SLACK: u64 = 16 * 1024;

/// The stream on which frames arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStream {
    /// A request.
    Request,
    /// The control stream of a client.
    Control,
}

/// A frame, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Http3Frame<'a> {
    /// The next bytes of a DATA frame. Empty only for a frame without any.
    Data(&'a [u8]),
    /// A complete field section.
    Headers(Vec<u8>),
    /// A field section beyond the limit, of which nothing is kept.
    TooLarge,
    /// The settings of the client.
    Settings(Http3Settings),
    /// The client accepts no push from this one on.
    GoAway(u64),
    /// The most pushes that the client accepts.
    MaxPushId(u64),
    /// The client does not want a push.
    CancelPush(u64),
    /// A frame that is to be ignored, complete.
    Unknown,
}

/// The settings that concern a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http3Settings {
    /// The largest field section that the client accepts, if limited.
    pub section_size: Option<u64>,
}

/// Reads the frames of one stream.
#[derive(Debug)]
pub struct Http3FrameReader {
    stream: FrameStream,
    /// The limit of a field section, bytes.
    limit: u64,
    /// The bytes of an incomplete head or body of a frame.
    kept: Vec<u8>,
    state: FrameState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameState {
    /// Between two frames, or in the head of one.
    Head,
    /// Within DATA, with this many bytes left.
    Data(u64),
    /// Within a frame that is read as a whole.
    Whole { kind: u64, left: u64 },
    /// Within a frame that is ignored.
    Skipped { left: u64, is_section: bool },
}

/// The result of reading the head of a frame.
enum FrameStart {
    Begun(FrameState),
    EmptyData,
}

impl Http3FrameReader {
    /// For a stream from its beginning; field sections may have `limit` bytes.
    #[must_use]
    pub fn new(stream: FrameStream, limit: usize) -> Self {
        let limit = (limit as u64).saturating_add(SLACK);
        Self { stream, limit, kept: Vec::new(), state: FrameState::Head }
    }

    /// Whether the stream may end here.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.state == FrameState::Head && self.kept.is_empty()
    }

    /// The bytes kept of an incomplete frame.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Takes the next frame, or the next part of one, off `bytes`; `None` when all of them are used.
    ///
    /// # Errors
    /// The frame is not permitted, or invalid.
    pub fn read<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Http3Frame<'a>>, Http3Error> {
        loop {
            match self.state {
                FrameState::Head => match self.head(bytes)? {
                    None => return Ok(None),
                    Some(FrameStart::EmptyData) => return Ok(Some(Http3Frame::Data(&[]))),
                    Some(FrameStart::Begun(state)) => self.state = state,
                },
                FrameState::Data(left) => {
                    let data = take(bytes, left);
                    if data.is_empty() {
                        return Ok(None);
                    }
                    let left = left - data.len() as u64;
                    self.state = if left == 0 { FrameState::Head } else { FrameState::Data(left) };
                    return Ok(Some(Http3Frame::Data(data)));
                }
                FrameState::Whole { kind, left } => {
                    let some = take(bytes, left);
                    self.kept.extend_from_slice(some);
                    let left = left - some.len() as u64;
                    if left > 0 {
                        self.state = FrameState::Whole { kind, left };
                        return Ok(None);
                    }
                    self.state = FrameState::Head;
                    let body = std::mem::take(&mut self.kept);
                    return whole(kind, body).map(Some);
                }
                FrameState::Skipped { left, is_section } => {
                    let left = left - take(bytes, left).len() as u64;
                    if left > 0 {
                        self.state = FrameState::Skipped { left, is_section };
                        return Ok(None);
                    }
                    self.state = FrameState::Head;
                    let frame = if is_section { Http3Frame::TooLarge } else { Http3Frame::Unknown };
                    return Ok(Some(frame));
                }
            }
        }
    }

    /// The head of the next frame; `None` if it is incomplete.
    fn head(&mut self, bytes: &mut &[u8]) -> Result<Option<FrameStart>, Http3Error> {
        let before = self.kept.len();
        let some = &bytes[..bytes.len().min(HEAD - before)];
        self.kept.extend_from_slice(some);
        let parsed = read_varint(&self.kept).and_then(|(kind, length)| {
            let (size, more) = read_varint(&self.kept[length..])?;
            Some((kind, size, length + more))
        });
        // A forbidden type needs no length to be refused.
        if let Some((kind, _)) = read_varint(&self.kept) {
            self.permit(kind)?;
        }
        let Some((kind, size, length)) = parsed else {
            *bytes = &bytes[some.len()..];
            return Ok(None);
        };
        *bytes = &bytes[length - before..];
        self.kept.clear();
        self.start(kind, size).map(Some)
    }

    /// Refuses frames that are not permitted on this stream (RFC 9114 §7.2, §11.2.1).
    fn permit(&self, kind: u64) -> Result<(), Http3Error> {
        let is_permitted = match kind {
            0x00 | 0x01 => self.stream == FrameStream::Request,
            0x03 | 0x04 | 0x07 | 0x0d => self.stream == FrameStream::Control,
            // PUSH_PROMISE, which only servers send; and frames of HTTP/2.
            0x05 | 0x02 | 0x06 | 0x08 | 0x09 => false,
            _ => true,
        };
        if is_permitted { Ok(()) } else { Err(Http3Error::FrameUnexpected) }
    }

    fn start(&self, kind: u64, size: u64) -> Result<FrameStart, Http3Error> {
        Ok(FrameStart::Begun(match kind {
            0x00 if size == 0 => return Ok(FrameStart::EmptyData),
            0x00 => FrameState::Data(size),
            0x01 if size > self.limit => FrameState::Skipped { left: size, is_section: true },
            0x01 => FrameState::Whole { kind, left: size },
            0x03 | 0x04 | 0x07 | 0x0d if size > CONTROL => return Err(Http3Error::ExcessiveLoad),
            0x03 | 0x04 | 0x07 | 0x0d => FrameState::Whole { kind, left: size },
            _ => FrameState::Skipped { left: size, is_section: false },
        }))
    }
}

/// Up to `most` bytes from the beginning.
fn take<'a>(bytes: &mut &'a [u8], most: u64) -> &'a [u8] {
    let count = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
    let (some, rest) = bytes.split_at(count);
    *bytes = rest;
    some
}

/// A frame that was read as a whole.
fn whole(kind: u64, body: Vec<u8>) -> Result<Http3Frame<'static>, Http3Error> {
    let one = || match read_varint(&body) {
        Some((number, length)) if length == body.len() => Ok(number),
        _ => Err(Http3Error::Frame),
    };
    Ok(match kind {
        0x03 => Http3Frame::CancelPush(one()?),
        0x04 => Http3Frame::Settings(settings(&body)?),
        0x07 => Http3Frame::GoAway(one()?),
        0x0d => Http3Frame::MaxPushId(one()?),
        _ => Http3Frame::Headers(body),
    })
}

/// The settings of a client (RFC 9114 §7.2.4).
fn settings(mut rest: &[u8]) -> Result<Http3Settings, Http3Error> {
    let mut seen = Vec::new();
    let mut settings = Http3Settings::default();
    while !rest.is_empty() {
        let (id, length) = read_varint(rest).ok_or(Http3Error::Frame)?;
        let (value, more) = read_varint(&rest[length..]).ok_or(Http3Error::Frame)?;
        rest = &rest[length + more..];
        // A bounded number: the frame is.
        if seen.contains(&id) {
            return Err(Http3Error::Settings);
        }
        seen.push(id);
        match id {
            // Those of HTTP/2.
            0x00 | 0x02..=0x05 => return Err(Http3Error::Settings),
            0x06 => settings.section_size = Some(value),
            // RFC 9220 §5, RFC 9297 §2.1.1.
            0x08 | 0x33 if value > 1 => return Err(Http3Error::Settings),
            _ => {}
        }
    }
    Ok(settings)
}

/// Appends the beginning of the control stream of a server: its type, and the settings. No table for QPACK is offered
/// (`SETTINGS_QPACK_MAX_TABLE_CAPACITY` and `SETTINGS_QPACK_BLOCKED_STREAMS` are 0 by default).
pub fn write_control(section_size: u64, extended_connect: bool, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    write_varint(0x06, &mut body);
    write_varint(section_size.min((1 << 62) - 1), &mut body);
    if extended_connect {
        write_varint(0x08, &mut body);
        write_varint(1, &mut body);
    }
    write_varint(0x00, out);
    write_varint(0x04, out);
    write_varint(body.len() as u64, out);
    out.extend_from_slice(&body);
}

/// Appends GOAWAY: requests from this stream on are not processed.
pub fn write_goaway(stream: u64, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    write_varint(stream, &mut body);
    write_varint(0x07, out);
    write_varint(body.len() as u64, out);
    out.extend_from_slice(&body);
}

/// Appends the head of a DATA frame.
#[inline]
pub fn write_data_header(length: u64, out: &mut Vec<u8>) {
    write_varint(0x00, out);
    write_varint(length, out);
}

/// Begins a HEADERS frame, and its field section (RFC 9204 §4.5.1); returns the argument for [`end_headers`].
#[inline]
pub fn begin_headers(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    // A length of four bytes, and the prefix of a section without a dynamic table.
    out.extend_from_slice(&[0x01, 0x80, 0, 0, 0, 0, 0]);
    at
}

/// Ends a HEADERS frame that began at `at`.
#[inline]
pub fn end_headers(at: usize, out: &mut [u8]) {
    let length = u32::try_from(out.len() - at - 5).unwrap_or(u32::MAX).min(0x3fff_ffff) | 0x8000_0000;
    out[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
