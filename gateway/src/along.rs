//! Reading along with a fill, and for one that is left behind by it, the rest from the origin. Why somebody is left behind is
//! said in `store::fill`; which answer brings the rest is decided in `semantics::resume`.

use crate::forward::Ask;
use crate::run::Machine;
use crate::stages::Stage;
use bytes::Bytes;
use larder_origin::Exchange;
use larder_semantics::resume::{self, Begun, Resumes};
use larder_semantics::transcode;
use larder_store::fill::SharedHead;
use larder_store::{FillEnd, FillReader};
use larder_wire::http1::Framing;
use std::rc::Rc;

/// A body that is on its way, from its first byte to its last.
pub(crate) struct Along<'h> {
    head: &'h SharedHead,
    from: From,
}

/// Where the next bytes come from.
enum From {
    /// A fetch that others share.
    Fill(FillReader),
    /// One of its own.
    Origin(Rest),
    /// Nowhere: it was left behind.
    Nowhere,
}

/// A response that has the bytes that are missing.
struct Rest {
    exchange: Rc<Exchange>,
    resumes: Resumes,
}

impl<'h> Along<'h> {
    /// Reads along with `reader`, of whose fill this is the head.
    pub fn new(reader: FillReader, head: &'h SharedHead) -> Self {
        Self { head, from: From::Fill(reader) }
    }

    /// The next bytes, in order, each once; `Err` at the end, with how it ended: never with `LeftBehind`.
    ///
    /// # Errors
    /// The end of the body.
    pub async fn next(&mut self, machine: &mut Machine<'_, '_>) -> Result<Bytes, FillEnd> {
        if let From::Fill(reader) = &mut self.from {
            match reader.next().await {
                Err(FillEnd::LeftBehind) => {}
                next => return next,
            }
            let at = reader.position();
            // Rare, and large: not in the room of every answer.
            let rest = Box::pin(machine.rest(self.head, at)).await;
            self.from = rest.map_or(From::Nowhere, From::Origin);
        }
        match &mut self.from {
            From::Origin(rest) => rest.next().await,
            From::Fill(_) | From::Nowhere => Err(FillEnd::Failed),
        }
    }
}

impl Machine<'_, '_> {
    /// Asks the origin for what follows the first `at` bytes of a response that is being sent; `None` where it cannot be
    /// had, so that the body is cut there.
    async fn rest(&mut self, head: &SharedHead, at: u64) -> Option<Rest> {
        let origin_micros = self.local.origin_micros.get();
        let rest = self.ask_for_rest(head, at).await;
        if origin_micros.is_some() {
            self.local.origin_micros.set(origin_micros); // The log has the time to the first head.
        }
        self.stages.enter(Stage::Body);
        let counters = &self.gateway.counters;
        match rest {
            Some(_) => counters.fill_laggards_continued.add(1),
            None => counters.fill_laggards_cut.add(1),
        }
        rest
    }

    async fn ask_for_rest(&mut self, head: &SharedHead, at: u64) -> Option<Rest> {
        let tag = resume::tag(&head.meta).filter(|_| self.facts.method == "GET")?;
        // Laggards are slow, and may be many: they do not take the places that others need.
        if !self.route.has_places_to_spare() {
            return None;
        }
        let fields = head.fields.view();
        let (range, coding) = (resume::range(at), transcode::coding_of(&fields));
        let arrived = self.exchange(Ask::Onward(&range, tag, coding)).await.ok()?;
        let length = match arrived.response.framing {
            Framing::Length(length) => Some(length),
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        let begun = Begun { meta: &head.meta, fields: &fields, length: head.length, at };
        let resumes = begun.resumes(arrived.response.status, &arrived.response.fields.view(), length)?;
        Some(Rest { exchange: arrived.exchange, resumes })
    }
}

impl Rest {
    async fn next(&mut self) -> Result<Bytes, FillEnd> {
        let Self { exchange, resumes } = self;
        loop {
            let mut bytes = match exchange.next().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) if resumes.skip == 0 && resumes.length.is_none_or(|it| it == 0) => {
                    return Err(FillEnd::Complete(exchange.trailers().map(Into::into)));
                }
                Ok(None) | Err(_) => return Err(FillEnd::Failed),
            };
            let length = bytes.len() as u64;
            if let Some(left) = &mut resumes.length {
                *left = left.checked_sub(length).ok_or(FillEnd::Failed)?;
            }
            let skipped = resumes.skip.min(length);
            resumes.skip -= skipped;
            if skipped < length {
                return Ok(bytes.split_off(usize::try_from(skipped).unwrap_or(0)));
            }
            // Nothing is written meanwhile: an origin that has it all at once must not make others wait.
            tokio::task::yield_now().await;
        }
    }
}
