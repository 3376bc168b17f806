//! Requests whose permit other requests need: the response continues from the spool, or is dropped once its client may be
//! gone. `early_body` reads small request bodies before there is an exchange at all.

use super::Machine;
use crate::fill::pressure::hand_over;
use crate::route::Gateway;
use crate::source::ResponseSource;
use bytes::Bytes;
use larder_origin::{OriginError, queued};
use larder_store::{FillReader, fill};
use larder_transport::body::BodyPiece;
use larder_transport::{ClientGone, Reply};
use std::pin::pin;

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

impl Machine<'_, '_> {
    /// Waits until other requests wait for a permit and the client may be gone: it has cancelled its request or, over
    /// HTTP/1, closed its side. In the latter case it may still wait for the answer; the fact is only used to make room
    /// for other requests, and to cancel a query or a program of this machine.
    pub async fn may_be_gone(&self) {
        match &self.response.reply {
            Some(reply) => may_be_gone(reply, self.input.route.ends_with_client()).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the client has cancelled its request.
    pub async fn cancelled(&self) {
        match &self.response.reply {
            Some(reply) => reply.cancelled().await,
            None => std::future::pending().await,
        }
    }

    pub async fn is_cancelled(&self) -> bool {
        tokio::select! {
            biased;
            () = self.cancelled() => true,
            () = std::future::ready(()) => false,
        }
    }
}
