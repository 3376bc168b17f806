//! How the pieces of a request's body lie in the send buffer: as they are, or framed by the protocol that sends them. A codec says which
//! of these forms it sends; the pieces of an exchange that goes to another connection stay in the form that they have.

use crate::send_buffer::SendBuffer;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http1::chunked;

/// The form of a body on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyForm {
    /// The bytes themselves: where the head says how many there are, where the protocol frames them as it writes, and where it is no
    /// HTTP any more.
    Plain,
    /// Chunks (RFC 9112 §7.1).
    Chunked,
}

impl BodyForm {
    /// Adds a piece, which is not empty.
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
        }
    }
}
