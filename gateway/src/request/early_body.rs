//! Request bodies that are read before the origin is asked: small ones, so that no client holds a permit by sending one
//! slowly, and those of QUERY (`query_method`).

use super::Machine;
use crate::stages::RequestStage;
use bytes::{Bytes, BytesMut};
use larder_transport::ClientGone;
use larder_wire::message::Framing;
use std::cell::Cell;

/// Request bodies of up to this size are read before an origin is asked.
const SMALL: u64 = 64 * 1024;
/// The most memory of all such bodies of a worker; beyond it, none is read early.
const SMALL_TOGETHER: u64 = 16 * 1024 * 1024;

/// The part of a request body that was read before the request machine starts.
pub(crate) enum EarlyBody {
    /// None: the request is no QUERY that may use the cache.
    Unread,
    /// All of it: the request has its digest as the field [`KEYED_BODY`].
    Keyed(Bytes),
    /// The beginning of a body that no key holds, as it is too large.
    Begun(BodyPrefix),
    /// The body did not arrive.
    Lost(ClientGone),
}

impl EarlyBody {
    /// The body for requests to the origin that the cache makes.
    pub fn keyed(&self) -> Option<Bytes> {
        match self {
            EarlyBody::Keyed(bytes) => Some(bytes.clone()),
            EarlyBody::Unread | EarlyBody::Begun(_) | EarlyBody::Lost(_) => None,
        }
    }
}

/// The part of a request's body that is here before the origin is asked.
pub(crate) struct BodyPrefix {
    pub bytes: Option<Bytes>,
    /// No more of it will arrive.
    pub is_whole: bool,
}

impl Machine<'_, '_> {
    /// Reads the present part of the request's body, and all of a small one whose length is known. No client can hold a
    /// permit for an origin by sending a small body slowly.
    pub async fn beginning(&mut self, framing: Framing) -> Result<BodyPrefix, ClientGone> {
        match std::mem::replace(&mut self.content.early, EarlyBody::Unread) {
            EarlyBody::Begun(prefix) => return Ok(prefix),
            EarlyBody::Keyed(bytes) => {
                return Ok(BodyPrefix { bytes: Some(bytes).filter(|it| !it.is_empty()), is_whole: true });
            }
            EarlyBody::Unread | EarlyBody::Lost(_) => {}
        }
        let is_told_to_wait = self.input.request.expects_continue;
        // Nothing after an upgrade is read.
        let Some(body) = self.content.body.as_mut().filter(|_| self.content.upgrade.is_none()) else {
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
        let Some(_room) = BufferShare::take(&self.input.gateway.small_bodies, length) else {
            return Ok(BodyPrefix { bytes, is_whole });
        };
        self.input.stages.enter(RequestStage::Parse);
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
