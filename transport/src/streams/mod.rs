//! The streams of a client's connection over HTTP/2 or HTTP/3: their output and input, the tasks that wait for either, and the
//! limits on cheap frames. Frames, windows and sockets are those of the protocols.

mod floods;
mod reply;
mod request_body;
mod stream;
mod tunnel;
mod waiting;

pub(crate) use floods::{FloodKind, Floods};
pub(crate) use reply::StreamReply;
pub(crate) use request_body::StreamRequestBody;
pub(crate) use stream::{ClientStream, StreamEnd};
pub(crate) use tunnel::StreamTunnel;
pub(crate) use waiting::{StreamSide, wait};

use crate::client_socket::ClientGone;
use crate::worker::{TransferLimits, TransportWorker};
use larder_semantics::field::Field;
use larder_wire::http2::frame::EndFlag;
use std::rc::Rc;

/// Bytes that a stream may send before they are read.
pub(crate) const STREAM_WINDOW: u32 = 128 * 1024;

/// The reason for which larder ends a stream before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamReset {
    /// The client was too slow.
    Cancel,
    /// The connection behind a tunnel is lost.
    Connect,
}

/// A connection as seen by the tasks of its streams.
pub(crate) trait StreamsLink {
    /// The worker.
    fn worker(&self) -> &Rc<TransportWorker>;

    /// Writes a head; `length` is that of the body, if it is not among the fields.
    fn write_head<'f>(
        &self,
        stream: &ClientStream,
        status: u16,
        fields: &mut dyn Iterator<Item = Field<'f>>,
        length: Option<u64>,
        end: EndFlag,
    );

    /// Records that a stream has output.
    fn has_work(&self, stream: &Rc<ClientStream>);

    /// Ends a stream at once.
    fn reset(&self, stream: &ClientStream, reset: StreamReset, why: ClientGone);

    /// Bytes of a stream's body were read: the client gets credit for them.
    fn give_credit(&self, stream: &ClientStream, bytes: usize);

    /// The same, if the connection's credit was returned already.
    fn extend_window(&self, stream: &ClientStream, bytes: u32);

    /// Records discarded bytes, which are credit of the connection again.
    fn return_credit(&self, bytes: u32);

    /// Whether the client has credit of the connection: not if its other streams have used that up.
    fn has_credit(&self) -> bool;

    /// The number of its streams.
    fn count(&self) -> u64;

    /// Bytes of a stream that can be sent at once, beyond those that wait already.
    fn sendable_bytes(&self, stream: &ClientStream) -> u64;

    /// A request has these limits: the connection itself has the longest of its requests.
    fn limit(&self, own: TransferLimits);
}
