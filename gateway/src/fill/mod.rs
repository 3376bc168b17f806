//! The fill: a fetch that belongs to no client. It looks in the lower tiers, asks the origin, decides whether the response may be stored,
//! shares it with every reader while it arrives, and stores it once its last byte has been verified.
//!
//! A request that may not be shared is a fill with one reader: it runs the same steps itself, up to where its response is stored or
//! forwarded. The steps are in `machine`; each is in the file of its name.

mod background_revalidation;
mod decide;
mod disk;
mod fleet;
mod freshen;
mod interim;
mod large;
pub mod machine;
mod miss_budget;
pub(crate) mod miss_reason;
mod origin;
pub(crate) mod pressure;
mod storability;
mod store;
mod supersede;

use crate::file_orders::{FileOrder, InPlaceOfBody};
use crate::recent_failures;
use crate::request_headers;
use crate::route::{Gateway, GatewayRoute};
use crate::source::ResponseSource;
use crate::stages::FillStages;
use crate::transit::Transit;
use bytes::Bytes;
use interim::InterimQueue;
use larder_origin::{Exchange, OriginError};
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::cgi::Script;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::miss_reason::MissReason;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse;
use larder_semantics::trace::Silent;
use larder_semantics::transcode;
use larder_semantics::trial::facts;
use larder_stdx::clock::{self, WallTime};
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::fleet::{LeaseState, RecomputeLease, Unshared};
use larder_store::ram::{KeyHash, Removals};
use larder_store::{Exchanged, FillEnd, FillHead, FillReader, FillWriter, PurgeEpoch, StoredArc};
use larder_transport::Client;
use larder_wire::message::{Request, ResponseHead, Version};
use machine::FillStep;
use miss_reason::FillReason;
pub(crate) use origin::{NoAnswer, OriginRequestKind, Passing};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// The data of one fill. Owned: the client that started it may leave.
pub(crate) struct FillJob {
    pub gateway: Rc<Gateway>,
    pub route: Rc<GatewayRoute>,
    pub request: Rc<Request>,
    pub client: Client,
    pub key: Vec<u8>,
    pub hash: KeyHash,
    /// The stored response to validate, or to serve if the origin fails.
    pub stored: Option<StoredArc>,
    /// The body of a QUERY, which is in the key.
    pub body: Option<Bytes>,
    /// Whether `stored` has a validator and is to be validated.
    pub fetch: FetchKind,
    /// How it uses the tiers below RAM.
    pub below: TierLookup,
    pub purpose: FillPurpose,
    /// Why the origin is asked.
    pub reason: FillReason,
    /// The store already remembers that answers under this key are not shared; after it forgets, one request finds out
    /// for all.
    pub is_hit_for_miss: bool,
    /// The request that started it has waited for a fetch that failed.
    pub is_after_failure: bool,
    /// Results for the client that started it only.
    pub local: Rc<FillStarter>,
    pub stages: FillStages,
    /// The script that answers, once it has been found.
    pub script: OnceCell<Arc<Script>>,
    /// This node's lease, among all nodes, to ask the origin; released when it is dropped.
    pub lease: Cell<Option<RecomputeLease>>,
}

/// A fill's use of the tiers below RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TierLookup {
    /// Nothing: they were asked, or there are none.
    Skip,
    /// It asks them before the origin.
    First,
    /// It asks them, and not the origin.
    Only,
}

/// The purpose of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillPurpose {
    /// The response to a request that waits for it.
    Response,
    /// A stored response that has been served is revalidated in the background: no request waits, and the fill continues
    /// without readers (stale-while-revalidate).
    Revalidation,
}

/// The kind of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchKind {
    /// A response.
    Full,
    /// A check whether the stored response is still current (RFC 9111 §4.3).
    Validation,
}

/// The messages between a fill and the client that started it, on the same worker.
#[derive(Default)]
pub(crate) struct FillStarter {
    /// Interim responses to pass on.
    pub interim: InterimQueue,
    /// The final head as received, end-to-end: with `Set-Cookie` and the fields named by qualified directives.
    pub own: RefCell<Option<(u16, FieldList)>>,
    /// The freshened response after a 304.
    pub freshened: RefCell<Option<StoredArc>>,
    /// A response from a tier below that was too old to be served before the origin was asked.
    pub stale: RefCell<Option<StoredArc>>,
    /// The origin was not asked: every request asks for itself, since answers are known not to be shared.
    pub unshared: Cell<bool>,
    /// The origin was not asked: the budget of this client is exceeded.
    pub over_budget: Cell<bool>,
    /// The `Set-Cookie` lines of a 304, for the client that asked and no other.
    pub cookies: RefCell<FieldList>,
    /// The substitute for the body of the application, for this client.
    pub in_place: RefCell<Option<InPlaceOfBody>>,
    /// Whether the response that arrived is an error page of larder.
    pub is_own_page: Cell<bool>,
    /// The origin's status if the response is being stored, for `Cache-Status`.
    pub origin_status: Cell<Option<u16>>,
    /// The origin that the client is bound to by its cookie (`proxy.sticky`).
    pub bound: Cell<Option<u64>>,
    /// The origin that answered this client, where the route has that cookie.
    pub answered_by: Cell<Option<u64>>,
    /// Why the origin is asked for this client.
    pub reason: Cell<Option<MissReason>>,
    /// Facts about the origin's part.
    pub origin_facts: Cell<Option<OriginFacts>>,
    /// Whether the request is recorded, and with it what trials need of the answer.
    pub is_recorded: bool,
    /// Whether the reader of a fill with one reader is still there.
    presence: Cell<ClientPresence>,
}

/// Whether the client of a fill with one reader is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientPresence {
    /// It waits.
    #[default]
    Here,
    /// It has closed its side: it may still wait for the response, or be gone.
    Doubted,
    /// It has reset its request.
    Gone,
}

/// Facts of an origin's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginFacts {
    /// Microseconds until its head had arrived.
    pub micros: u64,
    /// The HTTP version of the answer.
    pub version: Version,
    /// The origin, as in the configuration.
    pub name: Rc<str>,
    /// Its status.
    pub status: u16,
    /// Whether it is stored, and plain text that could be compressed.
    pub is_plain_text: bool,
    /// Its facts for the recorder, where the request is recorded.
    pub recorded: Option<RecordedAnswer>,
    /// The bytes of the body of a recorded answer; 0 if they are not known.
    pub recorded_length: u32,
}

/// The facts of a recorded answer, for trials of a configuration: `semantics::trial::facts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// Its fields as far as they decide, without secrets.
    pub facts: Rc<[u8]>,
    /// A hash of its representation.
    pub digest: u64,
    /// A hash of the fields that are shared with it.
    pub head: u64,
}

impl OriginFacts {
    /// The name of its protocol.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        larder_origin::protocol_name(&self.name, self.version)
    }
}

impl FillStarter {
    /// Of a request that is recorded, or is not, and whose client is bound to an origin, or to none.
    pub fn new(is_recorded: bool, bound: Option<u64>) -> Self {
        Self { is_recorded, bound: Cell::new(bound), ..Self::default() }
    }

    /// Records that the origin was asked at `started` and has answered, by the precise clock, with this head.
    pub fn took(&self, started: u64, exchange: &Exchange, head: &ResponseHead) {
        let micros = exchange.answered().saturating_sub(started);
        let (version, name, status) = (head.version, exchange.name(), head.status);
        let recorded = self.is_recorded.then(|| {
            let fields = head.fields.view();
            RecordedAnswer {
                facts: facts::response(&fields).into(),
                digest: facts::digest(&fields),
                head: facts::head_digest(&fields),
            }
        });
        self.origin_facts.set(Some(OriginFacts {
            micros,
            version,
            name,
            status,
            is_plain_text: false,
            recorded,
            recorded_length: 0,
        }));
    }

    /// Records whether the response, which is going to be stored, is plain text.
    fn note_text(&self, response: &ResponseHead) {
        let is_plain_text = transcode::is_plain_text(response.status, &response.fields);
        self.origin_facts.set(self.origin_facts.take().map(|it| OriginFacts { is_plain_text, ..it }));
    }

    pub fn presence(&self) -> ClientPresence {
        self.presence.get()
    }

    /// Tells a fill with one reader whether that reader is there. The caller polls the fill afterwards, as its request does.
    pub fn set_presence(&self, presence: ClientPresence) {
        self.presence.set(presence);
    }

    /// Waits until `left` holds for the client's presence. It needs no waker: the task that changes the presence runs the fill.
    async fn until(&self, left: impl Fn(ClientPresence) -> bool) {
        poll_fn(|_| if left(self.presence.get()) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// The requests that wait for a fill, which decide whether it continues.
#[derive(Clone, Copy)]
pub(crate) enum Waiters<'a> {
    /// It continues without any: a validation behind a stale response, or a request that changes something at the origin.
    Unconditional,
    /// The readers of a fill.
    Readers(&'a FillWriter),
    /// The client of a fill with one reader.
    Client(&'a FillStarter),
}

impl Waiters<'_> {
    /// Waits until no reader is left; after that none can join.
    pub async fn without_waiters(self) {
        match self {
            Waiters::Unconditional => std::future::pending().await,
            Waiters::Readers(writer) => writer.without_readers().await,
            Waiters::Client(client) => client.until(|it| it == ClientPresence::Gone).await,
        }
    }

    /// Waits until no reader is left but those that may be gone; one may join again.
    pub async fn unread(self) {
        match self {
            Waiters::Unconditional => std::future::pending().await,
            Waiters::Readers(writer) => writer.unread().await,
            Waiters::Client(client) => client.until(|it| it != ClientPresence::Here).await,
        }
    }

    /// Whether that is so; then none can join any more.
    pub fn leaves_unread(self) -> bool {
        match self {
            Waiters::Unconditional => false,
            Waiters::Readers(writer) => writer.leaves_unread(),
            Waiters::Client(client) => client.presence() != ClientPresence::Here,
        }
    }
}

/// A response whose head has arrived, with the times.
pub(crate) struct ArrivedHead {
    /// The source of its body.
    pub source: ResponseSource,
    pub response: ResponseHead,
    /// The file that it orders in place of its body.
    pub order: Option<Box<FileOrder>>,
    pub request_time: WallTime,
    pub response_time: WallTime,
    /// The same times in more precision.
    pub exchanged: Exchanged,
    /// The purges that it knows of: taken before the request was sent.
    pub epoch: PurgeEpoch,
}

impl ArrivedHead {
    /// The fields as the origin sent them, orders of files included: the decision about storing needs them.
    pub fn all_fields(&self) -> Vec<Field<'_>> {
        let mut fields = self.response.fields.view();
        if let Some(order) = &self.order {
            fields.extend(order.lines());
        }
        fields
    }

    /// The substitute for the body, if there is one.
    pub fn take_in_place(&mut self) -> Option<InPlaceOfBody> {
        if self.response.is_local_redirect() {
            let target = self.response.fields.get("location").unwrap_or_default();
            return Some(InPlaceOfBody::Target(String::from_utf8_lossy(target).into_owned()));
        }
        self.order.as_mut()?.take_file().map(InPlaceOfBody::File)
    }

    /// Whether it is the response that its client gets.
    pub fn is_sent_itself(&self) -> bool {
        self.order.is_none() && !self.response.is_local_redirect()
    }
}

/// A fill that runs from step to step.
pub(crate) struct FillRun {
    pub job: FillJob,
    /// The request to the origin; before it is made, the held response decides that.
    request_kind: Option<OriginRequestKind>,
    readers: Readers,
    /// The response that may answer, from the tiers read so far.
    held: Option<(StoredArc, AnsweringTier)>,
    /// The origin's response.
    pub arrived: Option<ArrivedHead>,
    /// The decision about it.
    decided: Option<Disposition>,
    pub outcome: FillOutcome,
}

/// The readers of a fill.
enum Readers {
    /// The requests that joined it, on any worker.
    Shared(FillWriter),
    /// The request that runs it. Its response is not stored if its key was removed `since`. It may look in the disk tier
    /// again once it has waited for a permit, if it `may_repeat_lookup`.
    One { since: Removals, may_repeat_lookup: bool },
    /// None any more: the body has ended.
    None,
}

/// The use of a response.
enum Disposition {
    /// It is shared and stored, with the stored bytes before or after it.
    Store { head: Arc<SharedHead>, before: Bytes, after: Bytes },
    /// It is for the reader that started the fill.
    Forward(Unshared),
}

/// The result of a fill, for requests that do not read its body.
pub(crate) enum FillOutcome {
    /// Its readers have got its body, or none is left.
    Ended,
    /// This was in a tier; with the lease to fetch it again where it is stale.
    Found(StoredArc, AnsweringTier, Option<LeaseState>),
    /// Every request looks in the store again.
    RepeatLookup,
    /// The budget of the client that started it is exceeded.
    OverBudget,
    /// A 304 has freshened this.
    Freshened(StoredArc, SpentLifetime),
    /// No response arrived, or one that a stale response replaces.
    Failed(FillHead),
    /// Requests queued for the origin, and no client waited for this fill any more.
    GivenUp,
    /// The response goes to the one reader: the request that ran the fill.
    Forward,
}

impl FillJob {
    /// Starts a task that runs the fill to its end. Its future is in a pool: the runtime moves only an address.
    pub fn spawn(self, writer: FillWriter) {
        let first = match self.below {
            TierLookup::Skip => FillStep::Origin,
            TierLookup::First | TierLookup::Only => FillStep::Disk,
        };
        let rooms = self.gateway.fills.clone();
        tokio::task::spawn_local(rooms.pooled(|| FillRun::shared(self, writer).run_to_end(first)));
    }

    /// Records for `explain` that the origin failed.
    fn note_failure(&self, status: u16, why: &str) {
        self.gateway.shared.unstored.note_failure(self.hash, &self.request, status, why);
    }

    fn may_serve_stale(&self) -> bool {
        let fields = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &fields);
        let now = clock::wall();
        self.stored
            .as_ref()
            .filter(|it| !it.is_superseded())
            .is_some_and(|it| reuse::on_error(&it.meta, &facts, &self.route.policy, now, &mut Silent))
    }
}

impl FillRun {
    fn of(job: FillJob, request_kind: Option<OriginRequestKind>, readers: Readers) -> Self {
        let (held, arrived, decided, outcome) = (None, None, None, FillOutcome::Ended);
        Self { job, request_kind, readers, held, arrived, decided, outcome }
    }

    fn shared(job: FillJob, writer: FillWriter) -> Self {
        Self::of(job, None, Readers::Shared(writer))
    }

    /// A fill with one reader, which is the request that runs it. Its response is not stored if its key is removed after
    /// `since`.
    pub fn private(job: FillJob, kind: OriginRequestKind, since: Removals, may_repeat_lookup: bool) -> Self {
        job.local.set_presence(ClientPresence::Here);
        Self::of(job, Some(kind), Readers::One { since, may_repeat_lookup })
    }

    /// Turns a fill with one reader into a task that cannot be joined: the task stores the response, and the request
    /// reads it.
    pub fn begin_to_store(mut self) -> FillReader {
        let Readers::One { since, .. } = self.readers else { unreachable!("a fill begins to store once") };
        let store = self.job.gateway.store.clone();
        let (writer, reader) = store.begin_private(self.job.hash, &self.job.key, since);
        self.readers = Readers::Shared(writer);
        tokio::task::spawn_local(Box::pin(self.run_to_end(FillStep::Store)));
        reader
    }

    async fn run_to_end(mut self, first: FillStep) {
        self.run(first).await;
        self.finish();
    }

    /// Runs step after step, to the last; for a fill with one reader up to where it begins to store. Returns the next
    /// step.
    pub async fn run(&mut self, first: FillStep) -> FillStep {
        let mut step = first;
        loop {
            if matches!((step, &self.readers), (FillStep::Store, Readers::One { .. })) {
                return step;
            }
            step.counter(&self.job.gateway.counters).add(1);
            self.job.stages.step(step.name());
            let next = match step {
                FillStep::Disk => self.look_on_disk().await,
                FillStep::Fleet => self.look_in_fleet().await,
                FillStep::Origin => self.ask_origin().await,
                FillStep::Decide => self.decide().await,
                FillStep::Freshen => self.freshen().await,
                FillStep::Store => self.store().await,
                FillStep::Forward => self.forward().await,
                FillStep::Finish => return step,
            };
            step = step.then(next);
        }
    }

    fn waiters(&self) -> Waiters<'_> {
        match &self.readers {
            _ if self.job.is_background() => Waiters::Unconditional,
            Readers::Shared(writer) => Waiters::Readers(writer),
            Readers::One { .. } => Waiters::Client(&self.job.local),
            Readers::None => Waiters::Unconditional,
        }
    }

    /// Whether the key was removed since the fill started.
    fn was_removed(&self) -> bool {
        match &self.readers {
            Readers::Shared(writer) => writer.was_removed(),
            Readers::One { since, .. } => self.job.gateway.store.removals(self.job.hash) != *since,
            Readers::None => false,
        }
    }

    fn ends(&mut self, outcome: FillOutcome) -> FillStep {
        self.outcome = outcome;
        FillStep::Finish
    }

    fn fails_of(&mut self, error: &OriginError) -> FillStep {
        // A request that its client reset says nothing about the origin.
        if !matches!(self.readers, Readers::One { .. }) || self.job.local.presence() != ClientPresence::Gone {
            self.job.note_failure(error.status(), &error.sentence());
        }
        self.ends(FillOutcome::Failed(failed_head(error)))
    }

    /// `Forward`: the response is for the reader that started the fill. It replaces the stored response nevertheless.
    async fn forward(&mut self) -> FillStep {
        let (Some(mut arrived), Some(Disposition::Forward(says))) =
            (self.arrived.take(), self.decided.take())
        else {
            return FillStep::Finish;
        };
        let job = &self.job;
        if !job.supersede(&arrived, says).await {
            job.leave_turn(&arrived, says);
        }
        let mut writer = match std::mem::replace(&mut self.readers, Readers::None) {
            Readers::Shared(writer) => writer,
            Readers::One { .. } | Readers::None => {
                self.arrived = Some(arrived);
                return self.ends(FillOutcome::Forward);
            }
        };
        let meta = job.meta_of(&arrived);
        job.name_cause(&mut writer, meta.status);
        let in_place = arrived.take_in_place();
        let transit = match &in_place {
            Some(_) => Transit::none(),
            None => Transit::of(&job.gateway, &job.route.policy, &job.request, &arrived.response),
        };
        let head = SharedHead {
            status: meta.status,
            fields: transit.fields(job.own_fields(&arrived)),
            length: decide::length_of(&arrived).filter(|_| transit.coding().is_none()),
            vary: Vec::new(),
            variant: Box::default(),
            meta,
            purge_facts: larder_store::PurgeFacts::default(),
            spent: SpentLifetime::No,
        };
        let has_no_body = in_place.is_some();
        *job.local.in_place.borrow_mut() = in_place.filter(|_| !job.is_background());
        writer.head(FillHead::Private(Arc::new(head)), false);
        if has_no_body {
            arrived.source.leave().await;
            writer.finish(FillEnd::Complete(None));
            return FillStep::Finish;
        }
        let source = transit.body(&job.gateway, arrived.source);
        pressure::pour(source, writer).await;
        FillStep::Finish
    }

    /// `Finish`: tells the readers the result, where they have not seen it.
    fn finish(self) {
        self.note_revalidation();
        let Readers::Shared(mut writer) = self.readers else { return };
        match self.outcome {
            // Dropping the writer tells its readers, if there are any.
            FillOutcome::Ended | FillOutcome::Forward => {}
            FillOutcome::Found(stored, tier, lease) => {
                writer.head(FillHead::Found(stored.clone(), tier), false);
                writer.finish(FillEnd::Complete(None));
                self.job.revalidate_in_background(stored, lease);
            }
            FillOutcome::OverBudget => {
                // Other clients have budgets of their own.
                self.job.local.over_budget.set(true);
                writer.head(FillHead::StoreChanged, false);
                writer.finish(FillEnd::Complete(None));
            }
            FillOutcome::RepeatLookup => {
                writer.head(FillHead::StoreChanged, false);
                writer.finish(FillEnd::Complete(None));
            }
            FillOutcome::Freshened(stored, spent) => {
                *self.job.local.freshened.borrow_mut() = Some(stored.clone());
                let head = match spent {
                    SpentLifetime::No => FillHead::StoreChanged,
                    SpentLifetime::Stored | SpentLifetime::Passing => FillHead::Validated(stored),
                };
                writer.head(head, false);
                writer.finish(FillEnd::Complete(None));
            }
            FillOutcome::Failed(head) => self.job.fail(writer, head),
            // Remaining readers learn that the permit was needed.
            FillOutcome::GivenUp => self.job.fail(writer, FillHead::Failed(503)),
        }
    }
}

impl FillJob {
    pub fn is_background(&self) -> bool {
        self.purpose == FillPurpose::Revalidation
    }

    fn fail(&self, mut writer: FillWriter, head: FillHead) {
        if let FillHead::Failed(status) = head {
            self.name_cause(&mut writer, status);
        }
        writer.head(head, false);
        writer.finish(FillEnd::Failed);
    }

    /// Names the request that may have caused a failure. The second failure is recorded before the readers see it: a request
    /// that looks up in between would start a third fetch.
    fn name_cause(&self, writer: &mut FillWriter, status: u16) {
        let says = recent_failures::content_hash(&self.gateway.store, &self.request);
        writer.provoked_by(says);
        if self.is_after_failure && status >= 500 {
            self.gateway.shared.recent_failures.note(self.hash, says, status, clock::monotonic());
        }
    }

    /// The response's fields for the client that started the fill.
    fn own_fields(&self, arrived: &ArrivedHead) -> FieldList {
        let response = &arrived.response;
        let bodyless =
            response.framing == larder_wire::message::Framing::Empty && self.request.method == "HEAD";
        request_headers::returned_final(response.fields.clone(), response.version, bodyless)
    }
}

/// The status that other requests get of a failed exchange.
fn failed_head(error: &OriginError) -> FillHead {
    match error.is_without_connection() {
        true => FillHead::Unreachable(error.status()),
        false => FillHead::Failed(error.status()),
    }
}

#[cfg(test)]
mod tests;
