//! The fill: a fetch that belongs to no client. It asks the origin, decides whether the response may be kept,
//! shares it with every reader while it arrives, and stores it once its last byte has been verified.

use crate::forward::{self, Ask};
use crate::judge::Judge;
use crate::route::{Gateway, Route};
use bytes::Bytes;
use larder_origin::{Exchange, OriginError};
use larder_semantics::field::FieldList;
use larder_semantics::freshness::Freshness;
use larder_semantics::partial::{self, Combine};
use larder_semantics::policy::OnAbort;
use larder_semantics::request::RequestFacts;
use larder_semantics::storable::Storable;
use larder_semantics::stored::{self, Meta};
use larder_semantics::trace::Silent;
use larder_semantics::{freshen, reuse, vary};
use larder_stdx::clock::{self, WallTime};
use larder_store::fill::SharedHead;
use larder_store::ram::{KeyHash, OverBudget};
use larder_store::{FillEnd, FillHead, FillWriter, Stored};
use larder_transport::http1::Client;
use larder_wire::http1::request::Request;
use larder_wire::http1::response::Response;
use larder_wire::http1::{Framing, write};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// What one fill works on. Owned: the client that began it may go away.
pub(crate) struct Job {
    pub gateway: Rc<Gateway>,
    pub route: Rc<Route>,
    pub request: Rc<Request>,
    pub client: Client,
    pub key: Vec<u8>,
    pub hash: KeyHash,
    /// What is stored and to be validated, or served if the origin fails.
    pub stored: Option<Arc<Stored>>,
    /// Whether `stored` has a validator and is to be asked about.
    pub validate: bool,
    /// Nobody waits for it: it goes on without readers (stale-while-revalidate).
    pub background: bool,
    /// The store remembers already that answers under this key are not shared; when it forgets, one request finds out
    /// for all.
    pub remembered: bool,
    /// What only the client that began it gets to see.
    pub local: Rc<Local>,
}

/// What the fill tells the client that began it, on the same worker.
#[derive(Default)]
pub(crate) struct Local {
    /// Interim responses, to be passed on.
    pub interim: RefCell<VecDeque<Response>>,
    /// The final head as received, end-to-end: with `Set-Cookie`, and what qualified directives name.
    pub own: RefCell<Option<(u16, FieldList)>>,
    /// The freshened response after a 304.
    pub freshened: RefCell<Option<Arc<Stored>>>,
    /// Whether the response is being stored, and the origin's status: for `Cache-Status`.
    pub origin_status: std::cell::Cell<Option<u16>>,
    /// Microseconds until the origin's head had come: for the log.
    pub origin_micros: std::cell::Cell<Option<u64>>,
    /// Rung when `interim` has something.
    pub rung: Notify,
}

impl Local {
    /// Notes that the origin was asked at `started`, by the precise clock, and has answered now.
    pub fn took_since(&self, started: u64) {
        self.origin_micros.set(Some(clock::precise_micros().saturating_sub(started)));
    }
}

/// A response whose head is there, and when.
pub(crate) struct Arrived {
    pub exchange: Exchange,
    pub response: Response,
    pub request_time: WallTime,
    pub response_time: WallTime,
}

impl Job {
    /// Runs the fill to its end.
    pub async fn run(self, mut writer: FillWriter) {
        let arrived = match self.ask(self.validate).await {
            Ok(arrived) => arrived,
            Err(error) => return self.fail(writer, error.status()),
        };
        self.local.origin_status.set(Some(arrived.response.status));
        if self.validate && arrived.response.status == 304 {
            match self.freshen(&arrived) {
                Some(new) => {
                    self.gateway.counters.cache_validated.add(1);
                    *self.local.freshened.borrow_mut() = Some(new);
                    writer.head(FillHead::LookAgain, false);
                    return writer.finish(FillEnd::Complete(None));
                }
                None => match self.ask(false).await {
                    // A 304 about something that is not stored: ask without condition, once.
                    Ok(again) if again.response.status != 304 => return self.receive(again, writer).await,
                    Ok(_) => return self.fail(writer, 502),
                    Err(error) => return self.fail(writer, error.status()),
                },
            }
        }
        if arrived.response.status >= 500 && self.may_serve_stale() {
            return self.fail(writer, arrived.response.status);
        }
        self.receive(arrived, writer).await;
    }

    fn fail(&self, mut writer: FillWriter, status: u16) {
        writer.head(FillHead::Failed(status), false);
        writer.finish(FillEnd::Failed);
    }

    fn may_serve_stale(&self) -> bool {
        let fields = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &fields);
        let now = clock::wall();
        self.stored
            .as_ref()
            .is_some_and(|it| reuse::on_error(&it.meta, &facts, &self.route.policy, now, &mut Silent))
    }

    async fn ask(&self, validate: bool) -> Result<Arrived, OriginError> {
        let ask = match &self.stored {
            Some(stored) if validate => Ask::Conditional(&stored.meta),
            _ => Ask::Whole,
        };
        let outgoing = forward::outgoing(&self.request, &self.route, &self.client, Framing::Empty, ask);
        let (request_time, started) = (clock::wall(), clock::precise_micros());
        let exchange = self.route.origin().send(outgoing).await?;
        loop {
            let response = exchange.head().await?;
            self.local.took_since(started);
            if response.status < 200 {
                self.local.interim.borrow_mut().push_back(response);
                self.local.rung.notify_one();
                continue;
            }
            return Ok(Arrived { exchange, response, request_time, response_time: clock::wall() });
        }
    }

    /// Freshens what is stored after a 304 (RFC 9111 §4.3.4); `None` if it was about something else.
    fn freshen(&self, arrived: &Arrived) -> Option<Arc<Stored>> {
        let old = self.stored.as_ref()?;
        let fields = arrived.response.fields.view();
        if !freshen::selects(&old.meta, &fields, true) {
            return None;
        }
        let new = freshened(old, &fields, self, arrived.request_time, arrived.response_time);
        // If it was purged or replaced meanwhile it stays so; this client may still be answered with it.
        self.gateway.store.replace(self.hash, &self.key, old, new.clone());
        Some(new)
    }

    /// Decides whether the response is kept, and carries its bytes to the store and to the readers.
    pub async fn receive(self, arrived: Arrived, mut writer: FillWriter) {
        let bodyless = arrived.response.framing == Framing::Empty;
        let version = arrived.response.version;
        let own =
            forward::returned(&arrived.response.fields, version, bodyless && self.request.method == "HEAD");
        *self.local.own.borrow_mut() = Some((arrived.response.status, own.clone()));
        let verdict = self.decide(&arrived);
        let fields = arrived.response.fields.view();
        let policy = &self.route.policy;
        let meta =
            Meta::of(arrived.response.status, &fields, policy, arrived.request_time, arrived.response_time);
        let length = match arrived.response.framing {
            Framing::Length(length) => Some(length),
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        if let Storable::Refuse(_) = verdict {
            let head = SharedHead {
                status: meta.status,
                fields: own,
                length,
                vary: Vec::new(),
                variant: Box::default(),
                meta,
            };
            writer.head(FillHead::Private(Arc::new(head)), false);
            drop(fields);
            return self.pour(arrived, writer).await;
        }
        if meta.no_cache || matches!(meta.freshness(arrived.response_time), Freshness::Stale { .. }) {
            // Every request will have to ask: nobody should queue behind another.
            self.judge(|it| it.remember_miss());
        }
        let mut kept = stored::stored_fields(&fields, policy, arrived.response_time);
        forward::mark_stored(&mut kept, version);
        let names = meta.vary.clone();
        let mut variant = Vec::new();
        vary::write_key(&names, &self.request.fields.view(), &mut variant);
        let head = Arc::new(SharedHead {
            status: meta.status,
            fields: kept,
            length,
            vary: names,
            variant: variant.into_boxed_slice(),
            meta,
        });
        drop(fields);
        writer.head(FillHead::Shared(head.clone()), true);
        self.keep(arrived, head, writer).await;
    }

    /// Whether [`Job::receive`] would store: asked first by those who would rather pass the bytes on themselves.
    pub fn would_store(&self, arrived: &Arrived) -> bool {
        self.decide(arrived) == Storable::Store
    }

    /// Reads the rest of what is held in part and stores both as one; says whether that worked.
    pub async fn take_rest(&self, arrived: Arrived) -> bool {
        let fields = arrived.response.fields.view();
        let policy = &self.route.policy;
        let meta =
            Meta::of(arrived.response.status, &fields, policy, arrived.request_time, arrived.response_time);
        let kept = stored::stored_fields(&fields, policy, arrived.response_time);
        let Some(old) = self.stored.as_ref().filter(|_| self.decide(&arrived) == Storable::Store) else {
            return false;
        };
        let mut chunks = Vec::new();
        let mut length = 0;
        loop {
            match arrived.exchange.next().await {
                Ok(Some(bytes)) => {
                    length += bytes.len() as u64;
                    chunks.push(bytes);
                    if length > policy.max_object {
                        return false;
                    }
                }
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        let Ok(body) = self.gateway.store.make_body(&chunks) else { return false };
        let new = assemble(meta, kept, None, body, old.variant.clone());
        let Some(mut whole) = join(&self.gateway.store, old, &new) else { return false };
        forward::mark_stored(&mut whole.fields, arrived.response.version);
        let whole = Arc::new(assemble(whole.meta, whole.fields, None, whole.body, whole.variant));
        let most = usize::from(policy.max_variants);
        self.gateway.store.insert(self.hash, &self.key, whole, most).is_ok()
    }

    /// Asks the judge, with everything that it may want to know.
    fn judge<T>(&self, ask: impl FnOnce(&Judge<'_>) -> T) -> T {
        let fields = self.request.fields.view();
        let authority = self.request.authority.to_ascii_lowercase();
        let authority = authority.strip_suffix(":80").unwrap_or(&authority);
        let facts = RequestFacts::read(&self.request.method, &fields).with_uri(
            "http",
            authority,
            &self.request.target,
        );
        ask(&Judge {
            gateway: &self.gateway,
            route: &self.route,
            request: &self.request,
            facts: &facts,
            key: &self.key,
            hash: self.hash,
            remembered: self.remembered,
        })
    }

    fn decide(&self, arrived: &Arrived) -> Storable {
        self.judge(|it| it.decide(arrived))
    }

    /// Carries a body that is not kept to the one reader that may have it.
    async fn pour(self, arrived: Arrived, mut writer: FillWriter) {
        loop {
            match arrived.exchange.next().await {
                Ok(Some(bytes)) => {
                    if writer.push(bytes, 0).await.is_err() {
                        return; // Dropping the exchange closes the origin's connection.
                    }
                }
                Ok(None) => {
                    let trailers = arrived.exchange.trailers().map(Arc::new);
                    return writer.finish(FillEnd::Complete(trailers));
                }
                Err(_) => return writer.finish(FillEnd::Failed),
            }
        }
    }

    /// Carries a body to the readers and, after its verified end, into the store.
    async fn keep(self, arrived: Arrived, head: Arc<SharedHead>, mut writer: FillWriter) {
        let cancel = self.route.policy.on_abort == OnAbort::Cancel && !self.background;
        loop {
            let next = if cancel {
                tokio::select! {
                    biased;
                    next = arrived.exchange.next() => next,
                    () = writer.deserted() => return,
                }
            } else {
                arrived.exchange.next().await
            };
            match next {
                Ok(Some(bytes)) => {
                    if writer.push(bytes, self.route.policy.max_object).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return writer.finish(FillEnd::Failed),
            }
        }
        let trailers = arrived.exchange.trailers();
        if writer.may_store() {
            self.store(&head, trailers.clone(), &writer.chunks());
        }
        writer.finish(FillEnd::Complete(trailers.map(Arc::new)));
    }

    fn store(&self, head: &SharedHead, trailers: Option<FieldList>, chunks: &[Bytes]) {
        let kept = self.gateway.store.make_body(chunks).and_then(|body| {
            let stored =
                assemble(head.meta.clone(), head.fields.clone(), trailers, body, head.variant.clone());
            let stored = self.combined(stored);
            let most = usize::from(self.route.policy.max_variants);
            self.gateway.store.insert(self.hash, &self.key, stored, most)
        });
        match kept {
            Ok(()) => {
                self.gateway.counters.cache_stores.add(1);
                self.gateway.refusals.forget(self.hash);
            }
            Err(OverBudget) => self.gateway.counters.cache_over_budget.add(1),
        }
    }

    /// A new part joined with the part that is held already, where RFC 9111 §3.4 allows.
    fn combined(&self, new: Stored) -> Arc<Stored> {
        let joined = (new.meta.partial.is_some())
            .then(|| self.stored.as_ref().and_then(|old| join(&self.gateway.store, old, &new)))
            .flatten();
        Arc::new(joined.unwrap_or(new))
    }
}

/// The stored response after a 304 or a HEAD response freshened it; the body is shared.
pub(crate) fn freshened(
    old: &Arc<Stored>,
    update: &[larder_semantics::field::Field<'_>],
    job: &Job,
    request_time: WallTime,
    response_time: WallTime,
) -> Arc<Stored> {
    let policy = &job.route.policy;
    let (fields, meta) = freshen::apply(&old.fields, &old.meta, update, policy, request_time, response_time);
    Arc::new(assemble(meta, fields, old.trailers.clone(), old.body.clone(), old.variant.clone()))
}

/// Makes a stored response ready to send: its head is written once, here.
pub(crate) fn assemble(
    meta: Meta,
    mut fields: FieldList,
    trailers: Option<FieldList>,
    body: larder_store::Body,
    variant: Box<[u8]>,
) -> Stored {
    fields.remove("content-length");
    fields.shrink();
    let mut head = Vec::with_capacity(fields.text().len() + 64);
    write::status_line(meta.status, &mut head);
    head.extend_from_slice(fields.text());
    if !matches!(meta.status, 204 | 304) {
        write::field("Content-Length", itoa::Buffer::new().format(body.len()).as_bytes(), &mut head);
    }
    Stored { meta, head: head.into_boxed_slice(), fields, trailers, body, variant }
}

/// Joins two parts of one representation; `None` where they do not fit.
pub(crate) fn join(store: &larder_store::Store, old: &Stored, new: &Stored) -> Option<Stored> {
    let Combine::Into { part, whole } = partial::combine(&old.meta, &new.meta) else {
        return None;
    };
    let (a, b) = (old.meta.partial?, new.meta.partial?);
    let (old_bytes, new_bytes) = (contents(&old.body)?, contents(&new.body)?);
    // The newer bytes win where they overlap: both are of the same strong validator, so they are equal.
    let mut chunks = Vec::with_capacity(3);
    if a.first < b.first {
        let until = usize::try_from(b.first - a.first).ok()?.min(old_bytes.len());
        chunks.push(old_bytes.slice(..until));
    }
    chunks.push(new_bytes);
    if a.last > b.last {
        let from = usize::try_from(b.last + 1 - a.first).ok()?;
        chunks.push(old_bytes.slice(from.min(old_bytes.len())..));
    }
    let body = store.make_body(&chunks).ok()?;
    if body.len() != part.last + 1 - part.first {
        return None;
    }
    let mut meta = new.meta.clone();
    let mut fields = new.fields.clone();
    if whole {
        meta.partial = None;
        meta.status = 200;
        fields.remove("content-range");
    } else {
        meta.partial = Some(part);
        let complete = part.complete.map_or_else(|| "*".to_owned(), |it| it.to_string());
        fields.set("Content-Range", format!("bytes {}-{}/{complete}", part.first, part.last));
    }
    Some(assemble(meta, fields, None, body, new.variant.clone()))
}

/// The bytes of a stored body, wherever they are.
pub(crate) fn contents(body: &larder_store::Body) -> Option<Bytes> {
    match body {
        larder_store::Body::Heap(bytes) => Some(bytes.clone()),
        larder_store::Body::Arena(slice) => {
            slice.owner.mapped(slice.offset, slice.length).map(Bytes::copy_from_slice)
        }
    }
}
