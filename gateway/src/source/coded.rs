//! A body that is coded while it is read, of a response that is not stored. `transit` decides about the coding.

use super::ResponseSource;
use crate::coding::stream::BodyEncoder;
use bytes::{Buf, Bytes};
use larder_origin::OriginError;
use larder_semantics::field::FieldList;
use larder_semantics::transcode;
use larder_store::Store;
use larder_store::memory::Work;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Bytes that are coded before the worker looks at its other clients.
const PART: usize = 32 << 10;
/// Output that is put together before it is sent.
const OUTPUT: usize = 8 << 10;
/// The most memory of the coders of a worker; a response for which there is none is sent as it came.
const TOGETHER: u64 = 32 << 20;

/// A body that is coded while it is read.
pub(crate) struct CodedBody {
    source: ResponseSource,
    state: RefCell<TransitState>,
}

struct TransitState {
    /// `None` after the end.
    coder: Option<(BodyEncoder, CoderRoom)>,
    /// The part of the last piece that is not coded yet.
    plain: Bytes,
    /// Whether the coder holds bytes that a client could not decode yet.
    holds: bool,
    /// A whole part was coded since other clients were served.
    has_worked: bool,
}

impl CodedBody {
    /// The body of `source`, coded by `encoder`.
    pub fn new(source: ResponseSource, encoder: BodyEncoder, room: CoderRoom) -> Rc<Self> {
        let state = TransitState {
            coder: Some((encoder, room)),
            plain: Bytes::new(),
            holds: false,
            has_worked: false,
        };
        Rc::new(Self { source, state: RefCell::new(state) })
    }

    /// The body as it arrives; not coded.
    pub fn source(&self) -> &ResponseSource {
        &self.source
    }

    /// The trailer section, without digests of the plain body.
    pub fn trailers(&self) -> Option<FieldList> {
        self.source.trailers().map(|it| transcode::form_trailers(&it))
    }

    /// The next bytes; `None` at the end. While the source pauses nothing that it sent is held back.
    ///
    /// # Errors
    /// As of the source: the body is cut here, before the end of its coding.
    pub async fn next(&self) -> Result<Option<Bytes>, OriginError> {
        loop {
            if std::mem::take(&mut self.state.borrow_mut().has_worked) {
                // Other clients are served between two parts.
                tokio::task::yield_now().await;
            }
            let step = self.state.borrow_mut().step()?;
            let bytes = match step {
                CodingStep::Output(bytes) => bytes,
                CodingStep::Ended => return Ok(None),
                CodingStep::Again => continue,
                CodingStep::Wants => {
                    let next = self.next_or_pause().await?;
                    self.state.borrow_mut().take_in(next)?
                }
            };
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    /// The next plain bytes, or that they are not here yet while the coder holds some.
    async fn next_or_pause(&self) -> Result<Arrival, OriginError> {
        let mut next = pin!(Box::pin(self.source.next()));
        std::future::poll_fn(|context| match next.as_mut().poll(context) {
            Poll::Ready(Ok(Some(bytes))) => Poll::Ready(Ok(Arrival::Bytes(bytes))),
            Poll::Ready(Ok(None)) => Poll::Ready(Ok(Arrival::End)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if self.state.borrow().holds => Poll::Ready(Ok(Arrival::Pause)),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

/// The news of a source.
enum Arrival {
    Bytes(Bytes),
    /// Nothing has arrived.
    Pause,
    End,
}

/// The result of coding a part.
enum CodingStep {
    /// Bytes for the client.
    Output(Bytes),
    /// There is more to code.
    Again,
    /// All bytes are coded.
    Wants,
    /// The body has ended.
    Ended,
}

impl TransitState {
    /// Codes the next part.
    fn step(&mut self) -> Result<CodingStep, OriginError> {
        let Some((encoder, _)) = &mut self.coder else { return Ok(CodingStep::Ended) };
        if self.plain.is_empty() {
            return Ok(CodingStep::Wants);
        }
        let length = self.plain.len().min(PART);
        encoder.feed(&self.plain[..length]).map_err(failed)?;
        self.plain.advance(length);
        self.holds = true;
        self.has_worked |= length >= PART / 2;
        Ok(match encoder.ready() {
            OUTPUT.. => CodingStep::Output(encoder.take().into()),
            _ if self.plain.is_empty() => CodingStep::Wants,
            _ => CodingStep::Again,
        })
    }

    /// Takes what the source has; returns output that is due now.
    fn take_in(&mut self, arrival: Arrival) -> Result<Bytes, OriginError> {
        match arrival {
            Arrival::Bytes(bytes) => self.plain = bytes,
            Arrival::Pause => {
                let Some((encoder, _)) = &mut self.coder else { return Ok(Bytes::new()) };
                encoder.flush().map_err(failed)?;
                self.holds = false;
                return Ok(encoder.take().into());
            }
            Arrival::End => {
                if let Some((encoder, _)) = self.coder.take() {
                    return encoder.finish().map(Bytes::from).map_err(failed);
                }
            }
        }
        Ok(Bytes::new())
    }
}

/// A codec that fails cuts the body, as an origin that is gone does.
fn failed(_: std::io::Error) -> OriginError {
    OriginError::Disconnected
}

/// The memory of a coder: in the budget of the store, and among all coders of the worker.
pub(crate) struct CoderRoom {
    _work: Work,
    taken: Rc<Cell<u64>>,
    bytes: u64,
}

impl CoderRoom {
    /// Room for `bytes`, in addition to those `taken` by the worker; `None` if there is none.
    pub fn take(store: &Store, taken: &Rc<Cell<u64>>, bytes: u64) -> Option<Self> {
        let all = Some(taken.get() + bytes).filter(|it| *it <= TOGETHER)?;
        let _work = store.work(bytes).ok()?;
        taken.set(all);
        Some(Self { _work, taken: taken.clone(), bytes })
    }
}

impl Drop for CoderRoom {
    fn drop(&mut self) {
        self.taken.set(self.taken.get() - self.bytes);
    }
}
