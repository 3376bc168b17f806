//! The body of a request that goes to the origin while its response is awaited.

use crate::buffered::WholeBody;
use crate::request_headers;
use bytes::Bytes;
use larder_counters::Counters;
use larder_origin::{ClientPart, Exchange, PermitWanted};
use larder_store::Store;
use larder_transport::{ClientGone, RequestBody};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;

/// The future that sends the request's body to the origin while the response is awaited.
pub(crate) type Upload<'c> = Pin<Box<dyn Future<Output = Result<(), UploadFailed>> + 'c>>;

/// Why a request body did not reach the origin.
pub(crate) enum UploadFailed {
    Stopped(UploadStopped),
    Origin,
}

/// Why the rest of a request body is not awaited any longer: the origin must not take the part it has for complete.
#[derive(Clone, Copy)]
pub(crate) enum UploadStopped {
    Client(ClientGone),
    /// Requests queue for the origin, and need the permit.
    Pressed,
}

/// Sends the request's body to the origin. `given` are the fields that no client can send.
pub(crate) fn carry<'c>(
    first: Option<Bytes>,
    mut body: RequestBody<'c>,
    exchange: Rc<Exchange>,
    (counters, given): (Arc<Counters>, Rc<[String]>),
) -> Upload<'c> {
    Box::pin(async move {
        if let Some(bytes) = first {
            exchange.write(bytes).await.map_err(|_| UploadFailed::Origin)?;
        }
        while let Some(bytes) = more(&mut body, &exchange, &counters).await? {
            exchange.write(bytes).await.map_err(|_| UploadFailed::Origin)?;
        }
        let trailers = body.trailers().map(|it| request_headers::trailers(it, &given));
        exchange.write_end(trailers.as_ref()).await.map_err(|_| UploadFailed::Origin)
    })
}

/// Sends a body that is here already.
pub(crate) fn carry_whole(body: Bytes, exchange: Rc<Exchange>) -> Upload<'static> {
    Box::pin(async move {
        if !body.is_empty() {
            exchange.write(body).await.map_err(|_| UploadFailed::Origin)?;
        }
        exchange.write_end(None).await.map_err(|_| UploadFailed::Origin)
    })
}

/// Sends a body that was read before.
pub(crate) fn carry_buffered(body: WholeBody, store: Arc<Store>, exchange: Rc<Exchange>) -> Upload<'static> {
    let body = match body {
        WholeBody::Memory(bytes) => return carry_whole(bytes, exchange),
        WholeBody::Spooled(body) => body,
    };
    Box::pin(async move {
        for number in 0..body.pieces() {
            let Some(piece) = body.piece(&store, number).await else {
                // The origin must not take the part that it has for complete.
                exchange.give_up();
                return Err(UploadFailed::Origin);
            };
            exchange.write(piece).await.map_err(|_| UploadFailed::Origin)?;
        }
        exchange.write_end(None).await.map_err(|_| UploadFailed::Origin)
    })
}

/// Waits for `work` while the upload continues.
///
/// # Errors
/// The client's body did not arrive completely: the origin must not take it for complete.
pub(crate) async fn with_upload<T>(
    upload: &mut Option<Upload<'_>>,
    work: impl Future<Output = T>,
) -> Result<T, UploadStopped> {
    let mut work = pin!(work);
    loop {
        let Some(running) = upload.as_mut() else { return Ok(work.await) };
        let uploaded = tokio::select! {
            biased;
            done = &mut *running => done,
            out = &mut work => return Ok(out),
        };
        *upload = None;
        match uploaded {
            // The origin may stop reading and still answer: its head, or its silence, decides.
            Ok(()) | Err(UploadFailed::Origin) => {}
            Err(UploadFailed::Stopped(why)) => return Err(why),
        }
    }
}

/// The next bytes of a request's body, for this exchange.
async fn more(
    body: &mut RequestBody<'_>,
    exchange: &Exchange,
    counters: &Counters,
) -> Result<Option<Bytes>, UploadFailed> {
    match exchange.wait_for_client(ClientPart::Sends, pin!(body.next())).await {
        Ok(next) => next.map_err(|it| UploadFailed::Stopped(UploadStopped::Client(it))),
        Err(PermitWanted { .. }) => {
            counters.uploads_shed.add(1);
            Err(UploadFailed::Stopped(UploadStopped::Pressed))
        }
    }
}
