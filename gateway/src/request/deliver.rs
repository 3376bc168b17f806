//! Sending the machine's response: from the store, along with a fill, from the origin, or made here. Preconditions and
//! ranges are applied here by functions of `semantics`. A plain hit at the fast speed: `respond` in `fast_path.rs`.

use super::fill_reader::{self, FillReading};
use super::machine::Step;
use super::tunnel::Switched;
use super::{Machine, RequestInput, StoreRoom, pressure};
use crate::encoding_choice::EncodingChoice;
use crate::file_orders::OrderedFile;
use crate::fill::{FetchKind, OriginFacts};
use crate::route::Gateway;
use crate::source::ResponseSource;
use crate::stages::{RequestStage, Stages};
use crate::transit::Transit;
use crate::upload::{Upload, UploadStopped, with_upload};
use crate::{request_headers, served_part};
use larder_origin::OriginError;
use larder_semantics::cache_status::{self, CacheReport};
use larder_semantics::conditional::{self, Precondition};
use larder_semantics::error_page;
use larder_semantics::field::FieldList;
use larder_semantics::range::{self, Selection};
use larder_semantics::stored::Meta;
use larder_semantics::tags;
use larder_semantics::transcode;
use larder_semantics::trial::facts::BodyDigest;
use larder_semantics::{date, method, partial, storable};
use larder_stdx::clock;
use larder_store::fill::SharedHead;
use larder_store::{Encoding, FillEnd, FillReader, Stored, StoredArc};
use larder_transport::body::BodyPiece;
use larder_transport::{ClientGone, Reply, ResponseBody, Synthetic};
use larder_wire::message::{Framing, ResponseHead};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The most bytes that may be missing before those that a range request waits for; where more are missing, the origin
/// sends the range sooner.
const SOON: u64 = 1 << 20;

/// The response to send.
pub(crate) enum Delivery<'c> {
    /// From the store.
    Stored { stored: StoredArc, report: CacheReport },
    /// Along with a fill.
    Reading { reader: FillReader, head: Arc<SharedHead>, status: u16, fields: FieldList, report: CacheReport },
    /// Straight from the origin.
    Forwarded(ForwardedResponse<'c>),
    /// A file in place of the origin's body.
    File(FileResponse),
    /// No response: HTTP ends on this connection.
    Switched(Switched),
    /// No response: the client gets that to another target.
    LocalRedirect(String),
    /// The route's error page, in place of an error of the origin.
    Replaced { status: u16, fields: FieldList, report: Option<CacheReport> },
    /// Made here.
    Own { status: u16, sentence: &'static str, report: Option<CacheReport> },
}

/// A response for this client only.
pub(crate) struct ForwardedResponse<'c> {
    source: ResponseSource,
    status: u16,
    pub fields: FieldList,
    body: ResponseBody,
    /// The request body that is still being sent to the origin.
    upload: Option<Upload<'c>>,
    report: Option<CacheReport>,
}

/// A file that the application hands over.
pub(crate) struct FileResponse {
    pub file: OrderedFile,
    /// The source of the origin's own body, unless the fill has dropped it.
    pub source: Option<ResponseSource>,
    /// The fields of the response.
    pub fields: FieldList,
    pub report: CacheReport,
    /// The body of the request is still being sent to the origin.
    pub upload: bool,
}

impl<'c> Delivery<'c> {
    pub fn direct(
        source: ResponseSource,
        response: ResponseHead,
        upload: Option<Upload<'c>>,
        report: Option<CacheReport>,
        method: &str,
    ) -> Self {
        let bodyless = method == "HEAD" || response.status == 304;
        Delivery::Forwarded(ForwardedResponse {
            status: response.status,
            body: body_of(&response, method),
            fields: request_headers::returned_final(response.fields, response.version, bodyless),
            source,
            upload,
            report,
        })
    }

    /// The same response, coded on its way if that is its form.
    pub fn in_transit(self, gateway: &Gateway, transit: Transit) -> Self {
        let Delivery::Forwarded(mut direct) = self else { return self };
        direct.fields = transit.fields(direct.fields);
        if transit.coding().is_some() && matches!(direct.body, ResponseBody::Length(_)) {
            direct.body = ResponseBody::Stream;
        }
        direct.source = transit.body(gateway, direct.source);
        Delivery::Forwarded(direct)
    }
}

fn body_of(response: &ResponseHead, method: &str) -> ResponseBody {
    match response.framing {
        Framing::Length(length) => ResponseBody::Length(length),
        Framing::Empty if method == "HEAD" || matches!(response.status, 204 | 304) => ResponseBody::None,
        Framing::Empty => ResponseBody::Length(0),
        Framing::Chunked | Framing::Close => ResponseBody::Stream,
    }
}

/// Why a response was not sent to its end.
pub(crate) enum DeliveryCut {
    /// The client is gone, or read too slowly.
    Client,
    /// The origin failed.
    Origin,
}

impl From<ClientGone> for DeliveryCut {
    fn from(_: ClientGone) -> Self {
        DeliveryCut::Client
    }
}

impl From<UploadStopped> for DeliveryCut {
    fn from(_: UploadStopped) -> Self {
        DeliveryCut::Client
    }
}

/// Sends the rest of a body that continues without the origin.
async fn send_rest(reply: &mut Reply<'_>, mut reader: FillReader) -> Sent {
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

impl<'c> Machine<'_, 'c> {
    /// Sends the answer. A delivery that is cut short closes the connection, so that the client notices.
    pub async fn deliver(&mut self) -> Step {
        let (Some(answer), Some(mut reply)) = (self.response.answer.take(), self.response.reply.take())
        else {
            return Step::Finish;
        };
        self.input.stages.enter(RequestStage::Write);
        let sent = match replaced(answer, &mut reply, self.starter.is_own_page.get()) {
            Delivery::Replaced { status, fields, report } => {
                self.send_page(&mut reply, replacing_page(status, fields), report).await
            }
            Delivery::Stored { stored, report } => self.send_stored(&mut reply, &stored, report).await,
            Delivery::Reading { reader, head, status, fields, report } => {
                self.send_fill(&mut reply, reader, &head, status, fields, report).await
            }
            Delivery::Forwarded(direct) => self.send_forwarded(&mut reply, direct).await,
            Delivery::File(handed) => Box::pin(self.send_ordered_file(&mut reply, handed)).await,
            Delivery::Switched(switched) => return self.tunnel(reply, switched).await,
            Delivery::LocalRedirect(target) => {
                (self.response.local_redirect, self.response.reply) = (Some(target), Some(reply));
                return Step::Finish;
            }
            Delivery::Own { status, sentence, report } => {
                if matches!(status, 400 | 408 | 413) {
                    reply.close_after(); // The rest of the request's body is not read.
                }
                let mut page = own_page(status, sentence);
                if matches!(report, Some(CacheReport::OverBudget { .. })) {
                    self.input.budget_fields().iter().for_each(|(name, value)| page.fields.push(name, value));
                }
                self.send_page(&mut reply, page, report).await
            }
        };
        self.response.summary.body = reply.body_bytes();
        // The transport or the exchange with the origin has already counted the reason.
        match sent {
            Ok(trailers) => self.response.summary.complete = reply.finish(trailers.as_deref()).await.is_ok(),
            Err(DeliveryCut::Origin) => self.response.summary.is_broken = true,
            Err(DeliveryCut::Client) => {}
        }
        Step::Finish
    }

    pub async fn head(
        &mut self,
        reply: &mut Reply<'c>,
        status: u16,
        mut fields: FieldList,
        body: ResponseBody,
        report: Option<CacheReport>,
    ) -> Result<(), DeliveryCut> {
        self.set_sticky_cookie(report, &mut fields);
        let report = match report {
            Some(CacheReport::Forwarded { reason, status, collapsed, .. })
                if self.response.room == StoreRoom::None =>
            {
                Some(CacheReport::Forwarded { reason, status, stored: false, collapsed })
            }
            other => other,
        };
        self.response.summary.status = status;
        // Log and counters get the status that the client gets, also where another server made the page.
        self.response.summary.report = report;
        if let Some(it @ CacheReport::Forwarded { .. }) = report {
            let counters = &self.input.gateway.counters;
            if it.is_pass() {
                counters.cache_passes.add(1)
            } else {
                counters.cache_misses.add(1)
            };
        }
        tags::hide(&mut fields, &self.input.route.policy.tags);
        if let Some(report) = report {
            let policy = &self.input.route.policy;
            if policy.cache_status {
                let scratch = &mut *self.input.gateway.scratch.borrow_mut();
                let member = &mut scratch.member;
                member.clear();
                for earlier in fields.get_all("cache-status") {
                    member.extend_from_slice(earlier);
                    member.extend_from_slice(b", ");
                }
                cache_status::write(report, member);
                fields.set("Cache-Status", member);
            }
            if policy.x_cache {
                fields.set("X-Cache", cache_status::x_cache(report));
            }
        }
        if self.input.route.server_timing {
            self.input.stages.add_server_timing(&mut fields);
        }
        reply.head(status, &fields, body).await?;
        Ok(())
    }

    /// Begins the hash of the body of a recorded request, by which a trial of a configuration finds responses that differ between
    /// clients.
    fn hashes_body(&mut self, fields: &FieldList) {
        if self.starter.is_recorded && self.input.facts.method != "HEAD" {
            self.response.digest = BodyDigest::of(&fields.view()).map(Box::new);
            self.response.is_measured = true;
        }
    }

    /// The log record of the exchange with the origin, with the body's digest and length if the whole body was sent.
    pub fn final_origin(&self) -> Option<OriginFacts> {
        let mut facts = self.starter.origin_facts.take()?;
        let response = &self.response;
        if let (Some(recorded), true) = (&mut facts.recorded, response.summary.complete) {
            let length = if response.is_measured { response.summary.body } else { 0 };
            facts.recorded_length = u32::try_from(length).unwrap_or(u32::MAX);
            recorded.digest = response.digest.as_ref().map_or(recorded.digest, |it| it.finish());
        }
        Some(facts)
    }

    async fn send_stored(&mut self, reply: &mut Reply<'c>, stored: &StoredArc, report: CacheReport) -> Sent {
        self.starter.answered_by.set(None); // A stored response binds no client.
        let policy = &self.input.route.policy;
        let collapse_wait = Duration::from_millis(u64::from(policy.collapse_wait_ms));
        let stages = self.input.stages;
        match self
            .input
            .gateway
            .choose_encoding(stored, self.input.fields, self.input.facts, policy, collapse_wait, stages)
            .await
        {
            EncodingChoice::Own => self.send_as_stored(reply, stored, report).await,
            EncodingChoice::Made(encoding) => self.send_encoding(reply, stored, &encoding, report).await,
            EncodingChoice::Decoded(coding) => self.send_stored_decoded(reply, stored, coding, report).await,
        }
    }

    /// The fields of a response from the store, with those that are not stored.
    pub fn fields_of(&self, mut fields: FieldList, stored: &Stored, report: CacheReport) -> FieldList {
        for cookie in
            self.starter.cookies.borrow().iter().filter(|_| matches!(report, CacheReport::Forwarded { .. }))
        {
            fields.push(cookie.name, cookie.value);
        }
        fields.push("Age", stored.meta.age(clock::wall()).to_string());
        fields
    }

    /// Sends an encoding that was made: complete, and compared by its weak tag.
    async fn send_encoding(
        &mut self,
        reply: &mut Reply<'c>,
        stored: &Stored,
        encoding: &Encoding,
        report: CacheReport,
    ) -> Sent {
        let fields = self.fields_of(encoding.fields.clone(), stored, report);
        match self.input.precondition(&stored.meta.of_form()) {
            Precondition::Proceed => {}
            early => return self.send_precondition(reply, early, fields, report).await,
        }
        let body = ResponseBody::Length(encoding.body.len());
        self.head(reply, stored.meta.status, fields, body, Some(report)).await?;
        reply.push_body(encoding.body.piece()).await?;
        Ok(None)
    }

    async fn send_as_stored(&mut self, reply: &mut Reply<'c>, stored: &Stored, report: CacheReport) -> Sent {
        let mut fields = self.fields_of(stored.fields(), stored, report);
        match self.input.precondition(&stored.meta) {
            Precondition::Proceed => {}
            early => return self.send_precondition(reply, early, fields, report).await,
        }
        let whole = stored.body.piece();
        if let Some(part) = stored.meta.partial() {
            let asked = self.input.facts.range.and_then(|it| partial::answers(&stored.meta, it));
            let Some((first, last, complete)) = asked else { return Err(DeliveryCut::Origin) };
            let complete = complete.map_or_else(|| "*".to_owned(), |it| it.to_string());
            fields.set("Content-Range", format!("bytes {first}-{last}/{complete}"));
            let piece = whole.slice(first - part.first, last - first + 1);
            return self.send_pieces(reply, 206, fields, vec![piece], report).await;
        }
        let length = stored.body.len();
        match served_part::of_stored(stored, self.input.facts, self.input.fields) {
            Selection::Whole if matches!(stored.meta.status, 204 | 304) => {
                self.head(reply, stored.meta.status, fields, ResponseBody::None, Some(report)).await?;
                Ok(None)
            }
            Selection::Whole => {
                let body = match stored.trailers() {
                    Some(_) => ResponseBody::Stream,
                    None => ResponseBody::Length(length),
                };
                self.head(reply, stored.meta.status, fields, body, Some(report)).await?;
                reply.push_body(whole).await?;
                Ok(stored.trailers().cloned().map(Arc::new))
            }
            Selection::One(first, last) => {
                fields.set("Content-Range", format!("bytes {first}-{last}/{length}"));
                let piece = whole.slice(first, last - first + 1);
                self.send_pieces(reply, 206, fields, vec![piece], report).await
            }
            Selection::Many(ranges) => self.send_many(reply, fields, &whole, &ranges, report).await,
            Selection::Unsatisfiable => self.send_unsatisfiable(reply, fields, length, report).await,
        }
    }

    /// 416: the stored response's own fields, its freshness above all, do not describe this answer.
    pub async fn send_unsatisfiable(
        &mut self,
        reply: &mut Reply<'c>,
        mut fields: FieldList,
        length: u64,
        report: CacheReport,
    ) -> Sent {
        fields.retain(|it| {
            ["date", "via", "vary", "cache-status", "accept-ranges"].iter().any(|name| it.is(name))
        });
        fields.set("Content-Range", format!("bytes */{length}"));
        self.send_pieces(reply, 416, fields, Vec::new(), report).await
    }

    pub async fn send_many(
        &mut self,
        reply: &mut Reply<'c>,
        mut fields: FieldList,
        whole: &BodyPiece,
        ranges: &[(u64, u64)],
        report: CacheReport,
    ) -> Sent {
        let content_type = fields.get("content-type").map(<[u8]>::to_vec);
        // The seed of the hash is secret, so no document can be made to contain its own boundary.
        let boundary = format!("{:032x}", self.input.gateway.store.hash(&self.key.bytes).0);
        let mut pieces = Vec::new();
        for (first, last) in ranges {
            let mut head = Vec::new();
            range::write_part_head(
                &boundary,
                content_type.as_deref(),
                (*first, *last),
                whole.len(),
                &mut head,
            );
            pieces.push(BodyPiece::Bytes(head.into()));
            pieces.push(whole.slice(*first, last - first + 1));
        }
        let mut end = Vec::new();
        range::write_multipart_end(&boundary, &mut end);
        pieces.push(BodyPiece::Bytes(end.into()));
        fields.set("Content-Type", format!("multipart/byteranges; boundary={boundary}"));
        self.send_pieces(reply, 206, fields, pieces, report).await
    }

    pub async fn send_pieces(
        &mut self,
        reply: &mut Reply<'c>,
        status: u16,
        fields: FieldList,
        pieces: Vec<BodyPiece>,
        report: CacheReport,
    ) -> Sent {
        let length = pieces.iter().map(BodyPiece::len).sum();
        self.head(reply, status, fields, ResponseBody::Length(length), Some(report)).await?;
        for piece in pieces {
            reply.push_body(piece).await?;
        }
        Ok(None)
    }

    pub async fn send_precondition(
        &mut self,
        reply: &mut Reply<'c>,
        precondition: Precondition,
        mut fields: FieldList,
        report: CacheReport,
    ) -> Sent {
        if precondition == Precondition::Failed {
            fields.retain(|it| ["date", "via", "vary", "cache-status"].iter().any(|name| it.is(name)));
            return self.send_pieces(reply, 412, fields, Vec::new(), report).await;
        }
        fields.retain(|it| conditional::in_not_modified(it.name));
        self.head(reply, 304, fields, ResponseBody::None, Some(report)).await?;
        Ok(None)
    }

    async fn send_fill(
        &mut self,
        reply: &mut Reply<'c>,
        reader: FillReader,
        head: &SharedHead,
        status: u16,
        mut fields: FieldList,
        report: CacheReport,
    ) -> Sent {
        // The client that started the fetch gets the origin's own `Age`, if any; the others get a stored response's.
        if let CacheReport::Forwarded { collapsed: true, .. } = report {
            fields.push("Age", head.meta.age(clock::wall()).to_string());
        }
        // The origin was asked without the client's conditions and range, or ignored them.
        let mut window = None;
        if let Some(coding) = self.must_decode(&head.fields, status, report) {
            return self.send_decoded_fill(reply, reader, head, coding, fields, report).await;
        }
        if status == 200 && matches!(self.input.facts.method, "GET" | "HEAD") {
            match self.input.precondition(&head.meta) {
                Precondition::Proceed => {}
                early => return self.send_precondition(reply, early, fields, report).await,
            }
            match (self.input.selection(head), head.length) {
                (Selection::One(first, last), Some(length)) => {
                    fields.set("Content-Range", format!("bytes {first}-{last}/{length}"));
                    window = Some((first, last));
                }
                (Selection::Unsatisfiable, Some(length)) => {
                    return self.send_unsatisfiable(reply, fields, length, report).await;
                }
                // Several parts of an arriving body would have to be waited for; the whole is a valid answer, too.
                _ => {}
            }
        }
        let body = match (window, head.length) {
            _ if matches!(status, 204 | 304) => ResponseBody::None,
            (Some((first, last)), _) => ResponseBody::Length(last - first + 1),
            (None, Some(length)) => ResponseBody::Length(length),
            (None, None) => ResponseBody::Stream,
        };
        if window.is_none() && !matches!(report, CacheReport::Forwarded { collapsed: true, .. }) {
            self.hashes_body(&fields);
        }
        self.head(reply, if window.is_some() { 206 } else { status }, fields, body, Some(report)).await?;
        if self.input.facts.method == "HEAD" {
            return Ok(None); // Nothing of the body is waited for.
        }
        let stages = self.input.stages;
        let (mut reading, mut at) = (FillReading::new(reader, head, self.input.route.ends_with_client()), 0);
        loop {
            let demand = reply.demand().await?;
            let next = reading.next(demand, reply);
            match flush_while_waiting(stages, reply, next).await? {
                Ok(bytes) => {
                    self.response.digest.iter_mut().for_each(|it| it.add(&bytes));
                    let piece = BodyPiece::Bytes(bytes);
                    let (start, end) = (at, at + piece.len());
                    at = end;
                    match window {
                        None => reply.push_body(piece).await?,
                        Some((first, last)) => {
                            let (from, to) = (first.max(start), (last + 1).min(end));
                            if from < to {
                                reply.push_body(piece.slice(from - start, to - from)).await?;
                            }
                            if end > last {
                                return Ok(None);
                            }
                        }
                    }
                }
                Err(FillEnd::Complete(trailers)) => return Ok(trailers),
                Err(FillEnd::Failed) => return Err(DeliveryCut::Origin),
                Err(FillEnd::LeftBehind) => return Err(DeliveryCut::Client),
            }
        }
    }

    /// Whether another request's fetch of the whole answers a request for a part, or for the head alone, as the origin
    /// would, and as soon. `arrived` bytes of the body are here.
    pub fn can_join_fill(&self, head: &SharedHead, arrived: u64) -> bool {
        if self.input.facts.range.is_none() && self.input.facts.method != "HEAD" {
            return true;
        }
        let (reason, status) = (self.plan.reason, None);
        let report = CacheReport::Forwarded { reason, status, stored: true, collapsed: true };
        if self.must_decode(&head.fields, head.status, report).is_some() {
            return false; // A part of another form; a length of another form.
        }
        match self.input.facts.range {
            None => true,
            Some(_) if head.status != 200 => false,
            Some(_) => match self.input.selection(head) {
                Selection::One(first, _) => {
                    self.plan.kind == FetchKind::Validation || first <= arrived.saturating_add(SOON)
                }
                Selection::Unsatisfiable => true,
                Selection::Whole | Selection::Many(_) => self.plan.kind == FetchKind::Validation,
            },
        }
    }

    async fn send_forwarded(&mut self, reply: &mut Reply<'c>, mut direct: ForwardedResponse<'c>) -> Sent {
        let fields = std::mem::take(&mut direct.fields);
        // Its framing says more than the fields, which have no length any more.
        let is_endless = direct.body == ResponseBody::Stream && storable::is_endless_of(&fields);
        let ends_with_client = is_endless || self.input.route.ends_with_client();
        // An event stream reports changes that are already made.
        let is_own = ends_with_client || method::is_safe(self.input.facts.method);
        self.hashes_body(&fields);
        self.head(reply, direct.status, fields, direct.body, direct.report).await?;
        loop {
            let (source, uploads) = (direct.source.clone(), direct.upload.is_some());
            let next = async {
                match is_own && !uploads || self.input.route.ends_with_client() {
                    true => pressure::next_for(reply, &source, ends_with_client).await,
                    false => source.next().await,
                }
            };
            let next = with_upload(&mut direct.upload, next);
            let next = flush_while_waiting(self.input.stages, reply, next).await??;
            if let (Ok(Some(bytes)), Some(digest)) = (&next, &mut self.response.digest) {
                digest.add(bytes);
            }
            match next {
                // Both sides send at once; the permit is not given back in between.
                Ok(Some(bytes)) if direct.upload.is_some() => {
                    reply.push_body(BodyPiece::Bytes(bytes)).await?
                }
                Ok(Some(bytes)) => {
                    if let Some(reader) = pressure::send(self.input.gateway, source, reply, bytes).await? {
                        self.response.digest = None; // The rest is not hashed.
                        return send_rest(reply, reader).await;
                    }
                }
                Ok(None) => break,
                Err(OriginError::Timeout(_) | OriginError::Disconnected | _) => {
                    return Err(DeliveryCut::Origin);
                }
            }
        }
        Ok(direct.source.trailers().map(Arc::new))
    }

    /// Sends an error page, or the route's page in its place.
    pub async fn send_page(
        &mut self,
        reply: &mut Reply<'c>,
        mut page: Synthetic,
        report: Option<CacheReport>,
    ) -> Sent {
        if let Some(finish) = reply.finisher() {
            page.add_fields(finish);
        }
        let framing = page.framing();
        self.head(reply, page.status, page.fields, framing, report).await?;
        for piece in page.body {
            reply.push_body(piece).await?;
        }
        Ok(None)
    }
}

impl RequestInput<'_, '_> {
    pub fn precondition(&self, meta: &Meta) -> Precondition {
        served_part::precondition(meta, self.facts, self.fields)
    }

    /// The range that a request selects from an arriving body.
    fn selection(&self, head: &SharedHead) -> Selection {
        let by_tag = self.route.policy.compress.is_none() || transcode::ranges_by_tag_alone(self.fields);
        match (self.facts.range, head.length) {
            (Some(range), Some(length)) if by_tag && conditional::range_applies(self.fields, &head.meta) => {
                range::select(range, length)
            }
            _ => Selection::Whole,
        }
    }
}

/// The page in place of an error of the origin, with the fields that do not describe its body.
fn replacing_page(status: u16, mut fields: FieldList) -> Synthetic {
    fields.retain(|it| !error_page::is_of_body(it.name));
    Synthetic { fields, is_error_page: true, ..Synthetic::empty(status) }
}

/// The page of a response that larder makes.
pub(super) fn own_page(status: u16, sentence: &str) -> Synthetic {
    let page = Synthetic::page(status, sentence)
        .with("Date", date::format(clock::wall()))
        .with("Cache-Control", "no-store");
    match status {
        200 | 405 => page.with("Allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"),
        503 => page.with("Retry-After", "1"), // A limit of ours was reached.
        _ => page,
    }
}

/// The answer, or the route's error page in its place; `is_own` is whether the response that arrived is an error page of larder.
fn replaced<'c>(answer: Delivery<'c>, reply: &mut Reply<'c>, is_own: bool) -> Delivery<'c> {
    let (status, is_own) = match &answer {
        Delivery::Stored { stored, .. } => (stored.meta.status, false),
        Delivery::Reading { status, .. } => (*status, is_own),
        Delivery::Forwarded(direct) => (direct.status, is_own),
        Delivery::Switched(_) | Delivery::Own { .. } | Delivery::Replaced { .. } => return answer,
        Delivery::File(_) | Delivery::LocalRedirect(_) => return answer,
    };
    if !reply.finisher().is_some_and(|it| it.replaces(status) || is_own && it.has_page(status)) {
        return answer;
    }
    match answer {
        Delivery::Stored { stored, report } => {
            let mut fields = FieldList::new();
            stored.head.lines().for_each(|it| fields.push(it.name, it.value));
            Delivery::Replaced { status, fields, report: Some(report) }
        }
        Delivery::Reading { fields, report, .. } => {
            Delivery::Replaced { status, fields, report: Some(report) }
        }
        Delivery::Forwarded(direct) => {
            if direct.upload.is_some() {
                reply.close_after(); // The rest of the request's body is not read.
            }
            Delivery::Replaced { status, fields: direct.fields, report: direct.report }
        }
        other => other,
    }
}

pub(crate) type Sent = Result<Option<Arc<FieldList>>, DeliveryCut>;

/// Waits for `work`; if it is not ready at once, buffered output is sent first.
pub(crate) async fn flush_while_waiting<T>(
    stages: &Stages,
    reply: &Reply<'_>,
    work: impl Future<Output = T>,
) -> Result<T, ClientGone> {
    let mut work = pin!(work);
    let at_once = std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(out) => Poll::Ready(Some(out)),
        Poll::Pending => Poll::Ready(None),
    })
    .await;
    if let Some(out) = at_once {
        return Ok(out);
    }
    // A client that takes nothing must not keep `work` from going on: the wait for it is then that of the next piece.
    tokio::select! {
        biased;
        flushed = reply.flush() => flushed?,
        out = &mut work => return Ok(out),
    }
    stages.enter(RequestStage::Body);
    let out = work.await;
    stages.enter(RequestStage::Write);
    Ok(out)
}
