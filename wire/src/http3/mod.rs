//! HTTP/3 as bytes (RFC 9114): frames, types of streams, and field compression with the static table alone (RFC 9204). QUIC and
//! the state of a connection are not here: they are in `transport`. Requests in field sections obey the rules of
//! `http2::head`.

pub mod frame;
pub mod head;
pub mod qpack;
mod varint;

pub use varint::{read_varint, write_varint};

/// The name of the protocol in the handshake of TLS (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";

/// The reason for ending a connection or a stream (RFC 9114 §8.1, RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Http3Error {
    /// No error.
    None = 0x100,
    /// The peer broke a rule that has no code of its own.
    Protocol = 0x101,
    /// An error of larder.
    Internal = 0x102,
    /// A stream of a kind that the peer may not open, or a second one of its kind.
    StreamCreation = 0x103,
    /// A stream has ended that the connection needs.
    ClosedCriticalStream = 0x104,
    /// A frame on a stream, or in a place, where it is not permitted.
    FrameUnexpected = 0x105,
    /// A frame whose content does not fit its length.
    Frame = 0x106,
    /// The peer causes too much work.
    ExcessiveLoad = 0x107,
    /// An identifier was used in a wrong way.
    Id = 0x108,
    /// A setting is invalid.
    Settings = 0x109,
    /// The control stream did not begin with SETTINGS.
    MissingSettings = 0x10a,
    /// The request was not processed: it may be sent again.
    RequestRejected = 0x10b,
    /// The request or its response is not needed any more.
    RequestCancelled = 0x10c,
    /// The stream ended within the request.
    RequestIncomplete = 0x10d,
    /// The request is malformed.
    Message = 0x10e,
    /// The connection of a CONNECT failed.
    Connect = 0x10f,
    /// Use HTTP/1.1.
    VersionFallback = 0x110,
    /// A field section is compressed in an invalid way.
    QpackDecompression = 0x200,
    /// The instructions for the decoder's table are invalid.
    QpackEncoderStream = 0x201,
    /// The acknowledgements of the decoder are invalid.
    QpackDecoderStream = 0x202,
}

impl Http3Error {
    /// Its number in frames.
    #[must_use]
    pub fn code(self) -> u32 {
        u32::from(self as u16)
    }
}

/// The purpose of a unidirectional stream: its first integer (RFC 9114 §6.2, RFC 9204 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniStreamKind {
    /// Frames about the connection.
    Control,
    /// A push, which only a server may open.
    Push,
    /// Instructions for the table of the receiver.
    QpackEncoder,
    /// Acknowledgements of these.
    QpackDecoder,
    /// Reserved or unknown: to be ignored.
    Unknown,
}

impl UniStreamKind {
    /// By its number.
    #[must_use]
    pub fn of(number: u64) -> Self {
        match number {
            0x00 => UniStreamKind::Control,
            0x01 => UniStreamKind::Push,
            0x02 => UniStreamKind::QpackEncoder,
            0x03 => UniStreamKind::QpackDecoder,
            _ => UniStreamKind::Unknown,
        }
    }
}
