//! The form of a request body's pieces in the send buffer: unchanged, or framed by the sending protocol. A codec declares
//! which form it sends; pieces of an exchange that moves to another connection keep their form.

use crate::send_buffer::SendBuffer;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::fastcgi;
use larder_wire::http1::chunked;

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyForm {
    /// The bytes themselves: where the head has their number, where the protocol frames them while writing, and where the
    /// connection is no longer HTTP.
    Plain,
    /// Chunks (RFC 9112 §7.1).
    Chunked,
    /// Records of FastCGI.
    Records,
}

impl BodyForm {
    /// Adds a piece, which must not be empty.
    pub(crate) fn write_body(self, bytes: Bytes, unsent: &mut SendBuffer) {
        match self {
            BodyForm::Plain => unsent.push(bytes),
            BodyForm::Chunked => {
                let mut size = Vec::with_capacity(18);
                chunked::write_size(bytes.len(), &mut size);
                unsent.push(size.into());
                unsent.push(bytes);
                unsent.push(Bytes::from_static(b"\r\n"));
            }
            BodyForm::Records => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let piece = rest.split_to(rest.len().min(fastcgi::MAX_CONTENT));
                    let mut header = Vec::with_capacity(fastcgi::HEADER);
                    fastcgi::input_header(piece.len(), &mut header);
                    unsent.push(header.into());
                    unsent.push(piece);
                }
            }
        }
    }

    /// Adds the end.
    pub(crate) fn end(self, trailers: Option<&FieldList>, unsent: &mut SendBuffer) {
        match self {
            BodyForm::Plain => unsent.trailers = trailers.cloned(),
            BodyForm::Chunked => {
                let mut end = Vec::with_capacity(5);
                chunked::write_end(trailers, &mut end);
                unsent.push(end.into());
            }
            BodyForm::Records => {
                let mut end = Vec::with_capacity(fastcgi::HEADER);
                fastcgi::input_header(0, &mut end);
                unsent.push(end.into());
            }
        }
    }
}
