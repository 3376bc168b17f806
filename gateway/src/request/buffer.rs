//! Reads the body of a request from its client before the origin is asked: where its protocol needs a length that the client did
//! not send, or the route asks for it (`proxy.buffer_request`).

use super::Machine;
use super::early_body::{BodyPrefix, BufferShare};
use crate::buffered::{IN_MEMORY, WholeBody};
use crate::route::Gateway;
use bytes::BytesMut;
use larder_store::BodyRefusal;
use larder_transport::{ClientGone, RequestBody};
use larder_wire::message::Framing;

/// A body as it goes to the origin.
pub(super) enum OutgoingBody<'c> {
    /// The part that is here, and the rest while the response is awaited.
    Streamed(BodyPrefix, Option<RequestBody<'c>>),
    /// All of it.
    Whole(WholeBody),
}

/// Why a body was not read to its end.
pub(super) enum BufferFault {
    Client(ClientGone),
    Refused(BodyRefusal),
}

impl From<BodyRefusal> for BufferFault {
    fn from(why: BodyRefusal) -> Self {
        BufferFault::Refused(why)
    }
}

impl<'c> Machine<'_, 'c> {
    /// The body as it goes to the origin, and its framing.
    pub(super) async fn outgoing_body(
        &mut self,
        framing: Framing,
        beginning: BodyPrefix,
    ) -> Result<(OutgoingBody<'c>, Framing), BufferFault> {
        let body = self.content.body.take().filter(|_| framing != Framing::Empty);
        let fits = |length| self.input.gateway.store.fits_into_spool(length);
        let is_buffered = self.content.upgrade.is_none() && self.input.route.buffers.has(framing, fits);
        match body {
            Some(body) if is_buffered => {
                let whole = read(self.input.gateway, beginning, body).await?;
                let framing = whole.framing();
                Ok((OutgoingBody::Whole(whole), framing))
            }
            body => Ok((OutgoingBody::Streamed(beginning, body), framing)),
        }
    }
}

/// Reads a body to its end.
async fn read(
    gateway: &Gateway,
    beginning: BodyPrefix,
    mut body: RequestBody<'_>,
) -> Result<WholeBody, BufferFault> {
    let mut bytes = BytesMut::from(&beginning.bytes.unwrap_or_default()[..]);
    let room = BufferShare::take(&gateway.small_bodies, IN_MEMORY);
    let most = if room.is_some() { IN_MEMORY } else { 0 };
    while bytes.len() as u64 <= most {
        match body.next().await.map_err(BufferFault::Client)? {
            Some(more) => bytes.extend_from_slice(&more),
            None => return Ok(WholeBody::Memory(bytes.freeze())),
        }
    }
    let mut spooled = gateway.store.spooled_body()?;
    spooled.append(&bytes).await?;
    drop((bytes, room));
    while let Some(more) = body.next().await.map_err(BufferFault::Client)? {
        spooled.append(&more).await?;
    }
    spooled.end().await?;
    Ok(WholeBody::Spooled(spooled))
}
