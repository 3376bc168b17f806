//! Reading a fill's body for one client: as much as its connection takes, for as long as the client is there.

use super::pressure;
use bytes::Bytes;
use larder_semantics::storable;
use larder_store::fill::SharedHead;
use larder_store::{FillEnd, FillReader};
use larder_transport::{ClientDemand, Reply};

/// The body of a fill that is sent to one client.
pub(crate) struct FillReading {
    reader: FillReader,
    /// The body ends when its client leaves: it has no end, or is made here.
    ends_with_client: bool,
}

impl FillReading {
    /// Reads with `reader`, whose fill has this head.
    pub fn new(reader: FillReader, head: &SharedHead, is_of_client: bool) -> Self {
        Self { reader, ends_with_client: is_of_client || storable::is_endless_of(&head.fields) }
    }

    /// The next bytes, in order, each once. They are about as many as the client has `room` for, and more where the fill
    /// has other readers.
    ///
    /// The bytes may take long. Reading ends when the client resets its request. A client that has only closed its side
    /// may be gone: while requests queue for the origin such a reader no longer counts; a body without an end, or one that
    /// is made here, is dropped at once.
    ///
    /// # Errors
    /// The end of the body, or of the part that this reader gets, with its reason.
    pub async fn next(&mut self, room: ClientDemand, reply: &Reply<'_>) -> Result<Bytes, FillEnd> {
        let Self { reader, ends_with_client } = self;
        let mut may_be_gone = false;
        loop {
            tokio::select! {
                biased;
                next = read(reader, room) => return next,
                () = reply.cancelled() => return Err(FillEnd::Failed),
                () = pressure::may_be_gone(reply, *ends_with_client), if !may_be_gone => {
                    if *ends_with_client {
                        return Err(FillEnd::Failed);
                    }
                    may_be_gone = true;
                    reader.mark_suspect();
                }
            }
        }
    }
}

/// The next bytes of a fill for a client with `room`.
pub(crate) async fn read(reader: &mut FillReader, room: ClientDemand) -> Result<Bytes, FillEnd> {
    reader.set_read_ahead(room.ahead);
    reader.next_of(room.now).await
}
