//! HTTP/2 as bytes (RFC 9113): frames, field compression, and the requests in them. The state of a connection between
//! frames is not here: it is in `transport`.

pub mod frame;
pub mod head;
pub mod hpack;

/// The bytes of a client before its first frame (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The reason for ending a connection or a stream (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// No error.
    None = 0x0,
    /// The peer broke a rule that has no code of its own.
    Protocol = 0x1,
    /// An error of larder.
    Internal = 0x2,
    /// More was sent than the window allowed, or a window grew too large.
    FlowControl = 0x3,
    /// Settings were not acknowledged in time.
    SettingsTimeout = 0x4,
    /// A frame for a stream that has ended.
    StreamClosed = 0x5,
    /// A frame of a size that its type cannot have.
    FrameSize = 0x6,
    /// The stream was not processed: the request may be sent again.
    RefusedStream = 0x7,
    /// The stream is not needed any more.
    Cancel = 0x8,
    /// The field compression is invalid.
    Compression = 0x9,
    /// The connection of a CONNECT failed.
    Connect = 0xa,
    /// The peer causes too much work.
    EnhanceYourCalm = 0xb,
    /// TLS is too weak.
    InadequateSecurity = 0xc,
    /// Use HTTP/1.1.
    Http11Required = 0xd,
}
