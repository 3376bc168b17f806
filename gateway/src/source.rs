//! The source of a response's bytes: an exchange with an origin, or a response made here, such as the rows of a query or
//! a resized image. A fill treats both alike.

mod coded;

pub(crate) use coded::{CodedBody, CoderRoom};

use crate::file_orders;
use crate::miss_budget::OriginClock;
use bytes::Bytes;
use larder_counters::RouteScope;
use larder_origin::{ClientPart, Exchange, OriginError, PermitWanted, ReasonTally};
use larder_semantics::field::FieldList;
use larder_semantics::miss_reason::MissReason;
use larder_wire::message::{Request, ResponseHead};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::mpsc;

/// The source of a fill.
#[derive(Clone)]
pub(crate) enum ResponseSource {
    /// An exchange with an origin, and the clock of the client's budget. Behind a pointer: it is large, and often moved.
    Origin(
        Rc<Exchange>,
        #[expect(dead_code, reason = "it charges the budget when it is dropped")] Option<Rc<OriginClock>>,
    ),
    /// A response made here.
    Made(Rc<MadeBody>, Option<Rc<MakerCount>>),
    /// One of the others, coded on its way.
    Coded(Rc<CodedBody>),
}

impl ResponseSource {
    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// The body is cut here.
    pub async fn next(&self) -> Result<Option<Bytes>, OriginError> {
        match self {
            ResponseSource::Origin(exchange, _) => exchange.next().await,
            ResponseSource::Made(body, _) => body.next().await,
            ResponseSource::Coded(body) => body.next().await,
        }
    }

    /// The trailer fields, once the body has ended.
    pub fn trailers(&self) -> Option<FieldList> {
        match self {
            ResponseSource::Origin(exchange, _) => exchange.trailers().map(|mut it| {
                // A path of the server is not for clients; see `file_orders`.
                file_orders::strip(true, &mut it);
                it
            }),
            ResponseSource::Made(..) => None,
            ResponseSource::Coded(body) => body.trailers(),
        }
    }

    /// Leaves the body. One that arrived with its head is read, so that its connection can be used again.
    pub async fn leave(&self) {
        let mut next = std::pin::pin!(self.next());
        std::future::poll_fn(|context| {
            let _ = next.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
    }

    /// The rest of the body is not needed.
    pub fn give_up(&self) {
        match self {
            ResponseSource::Origin(exchange, _) => exchange.give_up(),
            ResponseSource::Made(body, _) => body.pieces.borrow_mut().close(),
            ResponseSource::Coded(body) => body.source().give_up(),
        }
    }

    /// The reason for asking the origin is known for certain: see [`Exchange::count_reason`].
    pub fn count_reason(&self, final_reason: Option<MissReason>) {
        match self.own() {
            ResponseSource::Origin(exchange, _) => exchange.count_reason(final_reason),
            ResponseSource::Made(_, Some(count)) => count.reason.count(final_reason),
            ResponseSource::Made(..) | ResponseSource::Coded(_) => {}
        }
    }

    /// Hits can follow from this response: see [`Exchange::note_reusable`].
    pub fn note_reusable(&self) {
        match self.own() {
            ResponseSource::Origin(exchange, _) => exchange.note_reusable(),
            ResponseSource::Made(_, Some(count)) => count.scope.lately.note(count.micros.get()),
            ResponseSource::Made(..) | ResponseSource::Coded(_) => {}
        }
    }

    /// Waits for the client's `work`: it takes the response.
    ///
    /// # Errors
    /// Requests queue for the permit of this exchange. A response made here holds none.
    pub async fn wait_for_client<T>(
        &self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, PermitWanted> {
        match self.own() {
            ResponseSource::Origin(exchange, _) => exchange.wait_for_client(ClientPart::Takes, work).await,
            ResponseSource::Made(..) | ResponseSource::Coded(_) => Ok(work.await),
        }
    }

    /// Waits until requests queue for the permit of this exchange.
    pub async fn permit_wanted(&self) {
        match self.own() {
            ResponseSource::Origin(exchange, _) => exchange.permit_wanted().await,
            ResponseSource::Made(..) | ResponseSource::Coded(_) => std::future::pending().await,
        }
    }

    /// The source without a coding.
    fn own(&self) -> &ResponseSource {
        match self {
            ResponseSource::Coded(body) => body.source(),
            own => own,
        }
    }
}

/// The statistics of one request to a maker, as an exchange counts those of an origin.
pub(crate) struct MakerCount {
    scope: Arc<RouteScope>,
    reason: ReasonTally,
    /// The time to the head of its response.
    micros: Cell<u64>,
}

impl MakerCount {
    /// Counts a request, which is made for this reason.
    pub fn begin(scope: &Arc<RouteScope>, reason: MissReason) -> Self {
        scope.counters.origin_requests.add(1);
        let tally = ReasonTally::new(Some(scope.clone()), Some(reason));
        Self { scope: scope.clone(), reason: tally, micros: Cell::new(0) }
    }

    /// The head of the response came after these microseconds.
    pub fn made(&self, micros: u64) {
        self.scope.counters.origin_us.add(micros);
        self.reason.add_time(micros);
        self.micros.set(micros);
    }
}

/// Makes the responses of a route in place of an origin.
pub trait ResponseMaker {
    /// Makes the response to a request with this body; its own body may follow later. If the future or the body is dropped, no
    /// client waits for it any more.
    fn make(&self, request: &Rc<Request>, body: Bytes) -> MadeResponseFuture;
}

/// A response while it is made.
///
/// # Errors
/// It could not be made.
pub type MadeResponseFuture = Pin<Box<dyn Future<Output = Result<MadeResponse, OriginError>>>>;

/// A response made here.
pub struct MadeResponse {
    /// Its head, like an origin's: its caching directives are obeyed.
    pub head: ResponseHead,
    /// Its body.
    pub body: MadeBody,
}

/// One part of a body made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadePiece {
    /// Bytes.
    Bytes(Bytes),
    /// Its end. A body whose sender is dropped before this is cut.
    End,
}

/// A body made here while it is sent: its maker is at most `depth` pieces ahead of its readers.
pub struct MadeBody {
    pieces: RefCell<mpsc::Receiver<MadePiece>>,
    has_ended: Cell<bool>,
}

impl MadeBody {
    /// A body, and the handle through which its maker writes, on any thread.
    #[must_use]
    pub fn new(depth: usize) -> (mpsc::Sender<MadePiece>, Self) {
        let (sender, pieces) = mpsc::channel(depth);
        (sender, Self { pieces: RefCell::new(pieces), has_ended: Cell::new(false) })
    }

    async fn next(&self) -> Result<Option<Bytes>, OriginError> {
        if self.has_ended.get() {
            return Ok(None);
        }
        match std::future::poll_fn(|context| self.pieces.borrow_mut().poll_recv(context)).await {
            Some(MadePiece::Bytes(bytes)) => Ok(Some(bytes)),
            Some(MadePiece::End) => {
                self.has_ended.set(true);
                Ok(None)
            }
            None => Err(OriginError::Disconnected),
        }
    }
}
