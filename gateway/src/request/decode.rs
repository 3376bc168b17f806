//! Sending an origin's coded body to a client that does not accept the coding: decoded piece by piece while it is sent.
//! Most such clients get the decoded form that `coding` keeps; this module serves larger bodies and those that still
//! arrive.

use super::deliver::{DeliveryCut, Sent, flush_while_waiting};
use super::fill_reader::FillReading;
use super::{Machine, RamMarker, RequestInput};
use crate::coding::codec::DecodeProgress;
use crate::coding::{Decoding, pool};
use bytes::Bytes;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_semantics::conditional::Precondition;
use larder_semantics::field::FieldList;
use larder_semantics::transcode;
use larder_store::fill::SharedHead;
use larder_store::{FillEnd, FillReader, Stored};
use larder_transport::body::BodyPiece;
use larder_transport::{Reply, ResponseBody};
use std::sync::Arc;

/// Bytes of a stored body that are decoded at once.
const PART: u64 = 64 << 10;

impl<'c> Machine<'_, 'c> {
    /// The coding that must be undone for this client, for a shared response. A passed response stays as it came: the
    /// origin knew what this client accepts.
    pub fn must_decode(&self, fields: &FieldList, status: u16, report: CacheReport) -> Option<Coding> {
        if !matches!(report, CacheReport::Forwarded { stored: true, .. })
            || self.input.facts.directives.no_transform
        {
            return None;
        }
        if self.found.ram_marker == RamMarker::Undecodable {
            return None; // The origin insists on bytes that could not be decoded before.
        }
        let coding = transcode::handled(status, &fields.view(), &self.input.route.policy)?;
        (!transcode::suits(coding, AcceptedCodings::read(self.input.fields))).then_some(coding)
    }

    /// Decodes a stored body while it is sent.
    pub async fn send_stored_decoded(
        &mut self,
        reply: &mut Reply<'c>,
        stored: &Stored,
        coding: Coding,
        report: CacheReport,
    ) -> Sent {
        let mut fields = self.fields_of(stored.fields(), stored, report);
        transcode::mark(&mut fields);
        match self.input.precondition(&stored.meta.of_form()) {
            Precondition::Proceed => {}
            early => return self.send_precondition(reply, early, fields, report).await,
        }
        let mut at = 0;
        let Some((mut decoding, mut progress)) = self.input.begin_decoding(coding, part(stored, &mut at))
        else {
            let length = ResponseBody::Length(stored.body.len());
            self.head(reply, stored.meta.status, fields, length, Some(report)).await?;
            reply.push_body(stored.body.piece()).await?;
            return Ok(stored.trailers().cloned().map(Arc::new));
        };
        fields = transcode::form_fields(&fields, Coding::Identity);
        self.head(reply, stored.meta.status, fields, ResponseBody::Stream, Some(report)).await?;
        loop {
            send(reply, &decoding).await?;
            if progress == DecodeProgress::Fed {
                match part(stored, &mut at) {
                    Some(bytes) => decoding.feed(bytes),
                    None if at < stored.body.len() => return Err(DeliveryCut::Origin),
                    None => return self.end(&decoding, stored.trailers().cloned().map(Arc::new)),
                }
            }
            progress = decoding.step(&self.input.gateway.counters).map_err(|_| DeliveryCut::Origin)?;
        }
    }

    /// Decodes an arriving body while it is sent.
    pub async fn send_decoded_fill(
        &mut self,
        reply: &mut Reply<'c>,
        reader: FillReader,
        head: &SharedHead,
        coding: Coding,
        mut fields: FieldList,
        report: CacheReport,
    ) -> Sent {
        transcode::mark(&mut fields);
        match self.input.precondition(&head.meta.of_form()) {
            Precondition::Proceed => {}
            early => return self.send_precondition(reply, early, fields, report).await,
        }
        let stages = self.input.stages;
        let mut reading = FillReading::new(reader, head, self.input.route.maker.is_some());
        let demand = reply.demand().await?;
        let mut next = flush_while_waiting(stages, reply, reading.next(demand, reply)).await?;
        let Some((mut decoding, mut progress)) =
            self.input.begin_decoding(coding, next.as_ref().ok().cloned())
        else {
            let body = head.length.map_or(ResponseBody::Stream, ResponseBody::Length);
            self.head(reply, head.status, fields, body, Some(report)).await?;
            loop {
                match next {
                    Ok(bytes) => reply.push_body(BodyPiece::Bytes(bytes)).await?,
                    Err(FillEnd::Complete(trailers)) => return Ok(trailers),
                    Err(FillEnd::Failed) => return Err(DeliveryCut::Origin),
                    Err(FillEnd::LeftBehind) => return Err(DeliveryCut::Client),
                }
                let demand = reply.demand().await?;
                next = flush_while_waiting(stages, reply, reading.next(demand, reply)).await?;
            }
        };
        fields = transcode::form_fields(&fields, Coding::Identity);
        self.head(reply, head.status, fields, ResponseBody::Stream, Some(report)).await?;
        loop {
            send(reply, &decoding).await?;
            if progress == DecodeProgress::Fed {
                let demand = reply.demand().await?;
                match flush_while_waiting(stages, reply, reading.next(demand, reply)).await? {
                    Ok(bytes) => decoding.feed(bytes),
                    Err(FillEnd::Complete(trailers)) => return self.end(&decoding, trailers),
                    Err(FillEnd::Failed) => return Err(DeliveryCut::Origin),
                    Err(FillEnd::LeftBehind) => return Err(DeliveryCut::Client),
                }
            }
            progress = decoding.step(&self.input.gateway.counters).map_err(|_| DeliveryCut::Origin)?;
        }
    }

    /// The end of a decoded body. An early end must be visible: the client has no length to compare with.
    fn end(&self, decoding: &Decoding, trailers: Option<Arc<FieldList>>) -> Sent {
        decoding.finish(&self.input.gateway.counters).map_err(|_| DeliveryCut::Origin)?;
        Ok(trailers)
    }
}

impl RequestInput<'_, '_> {
    /// Decodes the beginning. `None` where that fails: the body does not have the coding it claims, and is sent unchanged
    /// under that name.
    fn begin_decoding(&self, coding: Coding, first: Option<Bytes>) -> Option<(Decoding, DecodeProgress)> {
        let mut decoding = Decoding::new(coding, self.route.policy.max_object)?;
        decoding.feed(first?);
        let progress = decoding.step(&self.gateway.counters).ok()?;
        self.gateway.counters.decoding_streams.add(1);
        Some((decoding, progress))
    }
}

/// The next part of a stored body; `None` at its end, or where it cannot be read.
fn part(stored: &Stored, at: &mut u64) -> Option<Bytes> {
    let length = (stored.body.len() - *at).min(PART);
    if length == 0 {
        return None;
    }
    let bytes = match stored.body.piece().slice(*at, length) {
        BodyPiece::Bytes(bytes) => bytes,
        BodyPiece::File(slice) => match slice.owner.mapped(slice.offset, slice.length) {
            Some(bytes) => Bytes::copy_from_slice(bytes),
            None => pool::read(&slice)?.into(),
        },
    };
    *at += length;
    Some(bytes)
}

async fn send(reply: &mut Reply<'_>, decoding: &Decoding) -> Result<(), DeliveryCut> {
    if !decoding.plain().is_empty() {
        reply.push_body(BodyPiece::Bytes(Bytes::copy_from_slice(decoding.plain()))).await?;
    }
    // A step takes about 0.1 ms; a client that accepts everything at once must not delay the others for all steps.
    tokio::task::yield_now().await;
    Ok(())
}
