//! Reading along with a fill, and for one that is left behind by it, the rest from the origin. Why somebody is left behind is
//! said in `store::fill`; which answer brings the rest is decided in `semantics::resume`.

use crate::origin_pressure;
use crate::request_headers::OriginRequest;
use crate::run::Machine;
use crate::stages::RequestStage;
use bytes::Bytes;
use larder_origin::{EventPermit, Exchange};
use larder_semantics::resume::{self, BegunResponse, Proof, Resumes};
use larder_semantics::{storable, transcode};
use larder_store::fill::{PrefixSum, RunningPrefixSum, SharedHead};
use larder_store::{FillEnd, FillReader};
use larder_transport::{ClientDemand, Reply};
use larder_wire::message::Framing;
use std::rc::Rc;

/// A body that is on its way, from its first byte to its last.
pub(crate) struct FillReading<'h> {
    head: &'h SharedHead,
    from: NextSource,
    /// It ends when its client goes.
    is_endless: bool,
}

/// Where the next bytes come from.
enum NextSource {
    /// A fetch that others share.
    Fill(FillReader),
    /// One of its own.
    Origin(ResumedResponse),
    /// Nowhere: it was left behind.
    Nowhere,
}

/// A response that has the bytes that are missing, from the first of them.
struct ResumedResponse {
    exchange: Rc<Exchange>,
    /// So many are missing, where that is known.
    length: Option<u64>,
    /// What has come of them already.
    first: Option<Bytes>,
    _onward: EventPermit,
}

/// What one has that was left behind.
struct LaggardState {
    /// So many bytes.
    at: u64,
    sum: Option<PrefixSum>,
}

impl<'h> FillReading<'h> {
    /// Reads along with `reader`, of whose fill this is the head.
    pub fn new(reader: FillReader, head: &'h SharedHead) -> Self {
        let fields = &head.fields;
        let is_endless = storable::is_endless(fields.get("content-type"), fields.get("content-length"));
        Self { head, from: NextSource::Fill(reader), is_endless }
    }

    /// The next bytes, in order, each once; `Err` at the end, with how it ended: never with `LeftBehind`. They are about as many as
    /// there is room for, and more where others read them too.
    ///
    /// # Errors
    /// The end of the body.
    pub async fn next(
        &mut self,
        machine: &mut Machine<'_, '_>,
        room: ClientDemand,
        reply: &Reply<'_>,
    ) -> Result<Bytes, FillEnd> {
        if let NextSource::Fill(reader) = &mut self.from {
            match read_for(reply, reader, room, self.is_endless).await {
                Err(FillEnd::LeftBehind) => {}
                next => return next,
            }
            let left = LaggardState { at: reader.position(), sum: reader.sum() };
            self.from = NextSource::Nowhere; // What the fill holds for others is not held for this one.
            // Rare, and large: not in the room of every answer.
            let rest = Box::pin(machine.rest(self.head, left)).await;
            self.from = rest.map_or(NextSource::Nowhere, NextSource::Origin);
        }
        match &mut self.from {
            NextSource::Origin(rest) => rest.next().await,
            NextSource::Fill(_) | NextSource::Nowhere => Err(FillEnd::Failed),
        }
    }
}

/// The next bytes of a fill for the client of `reply`. They may be long in coming: one that has taken its request back is not waited
/// with, nor one that may be gone where others need the place, or where there is no end to wait for.
async fn read_for(
    reply: &Reply<'_>,
    reader: &mut FillReader,
    room: ClientDemand,
    is_endless: bool,
) -> Result<Bytes, FillEnd> {
    let mut may_be_gone = false;
    loop {
        tokio::select! {
            biased;
            next = read(reader, room) => return next,
            () = reply.taken_back() => return Err(FillEnd::Failed),
            () = origin_pressure::may_be_gone(reply, is_endless), if !may_be_gone => {
                if is_endless {
                    return Err(FillEnd::Failed);
                }
                may_be_gone = true;
                reader.doubt();
            }
        }
    }
}

/// The next bytes of a fill for one who has `room`.
pub(crate) async fn read(reader: &mut FillReader, room: ClientDemand) -> Result<Bytes, FillEnd> {
    reader.may_lie(room.ahead);
    reader.next_of(room.now).await
}

impl Machine<'_, '_> {
    /// Asks the origin for what follows the bytes of a response that were sent; `None` where it cannot be had, so that the
    /// body is cut there.
    async fn rest(&mut self, head: &SharedHead, left: LaggardState) -> Option<ResumedResponse> {
        let told = self.local.origin_told.get();
        let rest = self.ask_for_rest(head, left).await;
        if told.is_some() {
            self.local.origin_told.set(told); // The log has the time to the first head.
        }
        self.stages.enter(RequestStage::Body);
        let counters = &self.gateway.counters;
        match rest {
            Some(_) => counters.fill_laggards_continued.add(1),
            None => counters.fill_laggards_cut.add(1),
        }
        rest
    }

    async fn ask_for_rest(&mut self, head: &SharedHead, left: LaggardState) -> Option<ResumedResponse> {
        let tag = resume::tag(&head.meta);
        if self.facts.method != "GET" || tag.is_none() && left.sum.is_none() {
            return None;
        }
        self.stages.enter(RequestStage::Connect);
        let onward = self.route.origins.onward(self.asked()).await.ok()?;
        let fields = head.fields.view();
        let range = resume::range(left.at);
        let rest = tag.map(|it| (range.as_str(), it));
        let ask = OriginRequest::Onward(rest, transcode::coding_of(&fields));
        let arrived = self.exchange(ask).await.ok()?;
        let length = match arrived.response.framing {
            Framing::Length(length) => Some(length),
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        let begun = BegunResponse { meta: &head.meta, fields: &fields, length: head.length, at: left.at };
        let resumes = begun.resumes(arrived.response.status, &arrived.response.fields.view(), length)?;
        let mut rest = ResumedResponse {
            exchange: arrived.exchange,
            length: resumes.length,
            first: None,
            _onward: onward,
        };
        rest.skip(resumes, left.sum, self.gateway.store.summing()).await?;
        Some(rest)
    }
}

impl ResumedResponse {
    /// Reads what was sent already; `None` where it ends before, or is to be what was sent and is not.
    async fn skip(
        &mut self,
        resumes: Resumes,
        sent: Option<PrefixSum>,
        mut summing: RunningPrefixSum,
    ) -> Option<()> {
        let mut left = resumes.skip;
        while left > 0 {
            let mut bytes = self.next().await.ok()?;
            let skipped = bytes.split_to(usize::try_from(left).map_or(bytes.len(), |it| it.min(bytes.len())));
            left -= skipped.len() as u64;
            if resumes.proof == Proof::Bytes {
                summing.add(&skipped);
            }
            self.first = Some(bytes).filter(|it| !it.is_empty());
            // Nothing is written meanwhile: an origin that has it all at once must not make others wait.
            tokio::task::yield_now().await;
        }
        (resumes.proof == Proof::Tag || sent == Some(summing.sum())).then_some(())
    }

    async fn next(&mut self) -> Result<Bytes, FillEnd> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let bytes = match self.exchange.next().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) if self.length.is_none_or(|it| it == 0) => {
                return Err(FillEnd::Complete(self.exchange.trailers().map(Into::into)));
            }
            Ok(None) | Err(_) => return Err(FillEnd::Failed),
        };
        let Some(left) = &mut self.length else { return Ok(bytes) };
        *left = left.checked_sub(bytes.len() as u64).ok_or(FillEnd::Failed)?;
        // A client that knows the length takes the last of them for the end: nothing may follow.
        if *left == 0 && !matches!(self.exchange.next().await, Ok(None)) {
            return Err(FillEnd::Failed);
        }
        Ok(bytes)
    }
}
