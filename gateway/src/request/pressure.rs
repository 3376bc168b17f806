//! Requests whose permit other requests need: the response continues from the spool, or is dropped once its client may be
//! gone. Small request bodies are read before there is an exchange at all.

use super::Machine;
use super::deliver::{DeliveryCut, Sent};
use super::fill_reader;
use super::query_method::EarlyBody;
use crate::fill::pressure::hand_over;
use crate::route::Gateway;
use crate::source::ResponseSource;
use crate::stages::RequestStage;
use bytes::{Bytes, BytesMut};
use larder_origin::{OriginError, queued};
use larder_store::{FillEnd, FillReader, fill};
use larder_transport::body::BodyPiece;
use larder_transport::{ClientGone, Reply};
use larder_wire::message::Framing;
use std::cell::Cell;
use std::pin::pin;

/// Request bodies of up to this size are read before an origin is asked...
const SMALL: u64 = 64 * 1024;
/// ...as long as all such bodies of a worker take no more than this.
const SMALL_TOGETHER: u64 = 16 * 1024 * 1024;

/// Sends a piece of a body for this client only. Where other requests need the permit meanwhile, the rest is read from
/// the returned reader.
pub(crate) async fn send(
    gateway: &Gateway,
    source: ResponseSource,
    reply: &mut Reply<'_>,
    bytes: Bytes,
) -> Result<Option<FillReader>, ClientGone> {
    let mut rest = bytes;
    let given = { source.wait_for_client(pin!(give(reply, &mut rest))).await };
    match given {
        Ok(given) => given.map(|()| None),
        Err(pressed) => Ok(Some(hand_over(gateway, source, rest, pressed))),
    }
}

/// Gives `bytes` to the client as it has room, and removes what was sent from them.
async fn give(reply: &mut Reply<'_>, bytes: &mut Bytes) -> Result<(), ClientGone> {
    while !bytes.is_empty() {
        let demand = reply.demand().await?;
        reply.push_body(BodyPiece::Bytes(fill::part(bytes, demand.now))).await?;
    }
    Ok(())
}

/// Sends the rest of a body that continues without the origin.
pub(crate) async fn send_rest(reply: &mut Reply<'_>, mut reader: FillReader) -> Sent {
    loop {
        let demand = reply.demand().await?;
        match fill_reader::read(&mut reader, demand).await {
            Ok(bytes) => reply.push_body(BodyPiece::Bytes(bytes)).await?,
            Err(FillEnd::Complete(trailers)) => return Ok(trailers),
            Err(FillEnd::Failed) => return Err(DeliveryCut::Origin),
            Err(FillEnd::LeftBehind) => return Err(DeliveryCut::Client),
        }
    }
}

/// Waits until the client of `reply` may be gone: at once for a body that ends with its client, otherwise only while other
/// requests wait for a permit.
pub(crate) async fn may_be_gone(reply: &Reply<'_>, is_endless: bool) {
    if !is_endless {
        queued().await;
    }
    reply.gone().await;
}

/// The next bytes of this client's own body, which it requested with a safe method; they may take long.
///
/// # Errors
/// As [`Exchange::next`]; [`OriginError::Busy`] where the client has left.
pub(crate) async fn next_for(
    reply: &Reply<'_>,
    source: &ResponseSource,
    is_endless: bool,
) -> Result<Option<Bytes>, OriginError> {
    let is_needless = async {
        may_be_gone(reply, is_endless).await;
        if !is_endless {
            source.permit_wanted().await;
        }
    };
    tokio::select! {
        biased;
        next = source.next() => return next,
        () = reply.cancelled() => {}
        () = is_needless => {}
    }
    source.give_up();
    Err(OriginError::Busy)
}

/// The part of a request's body that is here before the origin is asked.
pub(crate) struct BodyPrefix {
    pub bytes: Option<Bytes>,
    /// No more of it will arrive.
    pub is_whole: bool,
}

impl Machine<'_, '_> {
    /// Waits until other requests wait for a permit and the client may be gone: it has cancelled its request or, over
    /// HTTP/1, closed its side. In the latter case it may still wait for the answer; the fact is only used to make room
    /// for other requests, and to cancel a query or a program of this machine.
    pub async fn may_be_gone(&self) {
        match &self.reply {
            Some(reply) => may_be_gone(reply, self.route.ends_with_client()).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the client has cancelled its request.
    pub async fn taken_back(&self) {
        match &self.reply {
            Some(reply) => reply.cancelled().await,
            None => std::future::pending().await,
        }
    }

    pub async fn is_taken_back(&self) -> bool {
        tokio::select! {
            biased;
            () = self.taken_back() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Reads the present part of the request's body, and all of a small one whose length is known. No client can hold a
    /// permit for an origin by sending a small body slowly.
    pub async fn beginning(&mut self, framing: Framing) -> Result<BodyPrefix, ClientGone> {
        match std::mem::replace(&mut self.early, EarlyBody::Unread) {
            EarlyBody::Begun(prefix) => return Ok(prefix),
            EarlyBody::Keyed(bytes) => {
                return Ok(BodyPrefix { bytes: Some(bytes).filter(|it| !it.is_empty()), is_whole: true });
            }
            EarlyBody::Unread | EarlyBody::Lost(_) => {}
        }
        let is_told_to_wait = self.request.expects_continue;
        // Nothing after an upgrade is read.
        let Some(body) = self.body.as_mut().filter(|_| self.upgrade.is_none()) else {
            return Ok(BodyPrefix { bytes: None, is_whole: true });
        };
        let bytes = body.arrived()?;
        let length = match framing {
            Framing::Length(length) => Some(length),
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        let here = bytes.as_ref().map_or(0, |it| it.len() as u64);
        let is_whole = length.map_or_else(|| body.is_whole(), |it| it <= here);
        let Some(length) = length.filter(|it| !is_whole && !is_told_to_wait && *it <= SMALL) else {
            return Ok(BodyPrefix { bytes, is_whole });
        };
        let Some(_room) = BufferShare::take(&self.gateway.small_bodies, length) else {
            return Ok(BodyPrefix { bytes, is_whole });
        };
        self.stages.enter(RequestStage::Parse);
        let mut all = BytesMut::with_capacity(usize::try_from(length).unwrap_or_default());
        all.extend_from_slice(&bytes.unwrap_or_default());
        while let Some(more) = body.next().await? {
            all.extend_from_slice(&more);
        }
        Ok(BodyPrefix { bytes: Some(all.freeze()).filter(|it| !it.is_empty()), is_whole: true })
    }
}

/// A share of the room in which small bodies are read.
pub(crate) struct BufferShare<'g>(&'g Cell<u64>, u64);

impl<'g> BufferShare<'g> {
    /// `None` if it would be too much together with the others.
    pub(crate) fn take(taken: &'g Cell<u64>, bytes: u64) -> Option<Self> {
        let all = Some(taken.get() + bytes).filter(|it| *it <= SMALL_TOGETHER)?;
        taken.set(all);
        Some(Self(taken, bytes))
    }
}

impl Drop for BufferShare<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}
