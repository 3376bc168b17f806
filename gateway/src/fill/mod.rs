//! The fill: a fetch that belongs to no client. It looks in the lower tiers, asks the origin, decides whether the response may be stored,
//! shares it with every reader while it arrives, and stores it once its last byte has been verified.
//!
//! A request that may not be shared is a fill with one reader: it runs the same steps itself, up to where its response is stored or
//! forwarded. The steps are in `machine`; each is in the file of its name, `Disk` and `Fleet` in `tier_lookup`.

mod decide;
mod freshen;
mod large;
pub mod machine;
mod origin;
pub(crate) mod pressure;
mod storability;
mod store;
mod supersede;
pub(crate) mod tier_lookup;

use crate::failing;
use crate::request_headers;
use crate::route::{Gateway, GatewayRoute};
use crate::source::ResponseSource;
use crate::stages::FillStages;
use bytes::Bytes;
use larder_origin::OriginError;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::field::FieldList;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse;
use larder_semantics::trace::Silent;
use larder_stdx::clock::{self, WallTime};
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::fleet::{RecomputeLease, RecomputeTurn, Unshared};
use larder_store::ram::{KeyHash, Removals};
use larder_store::{Begin, Born, Exchanged, FillEnd, FillHead, FillReader, FillWriter, StoredArc};
use larder_transport::Client;
use larder_wire::message::{Request, ResponseHead, Version};
use machine::FillStep;
pub(crate) use origin::{NoAnswer, OriginAsk, Passing};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use tier_lookup::TierLookup;
use tokio::sync::Notify;

/// What one fill works on. Owned: the client that began it may go away.
pub(crate) struct FillJob {
    pub gateway: Rc<Gateway>,
    pub route: Rc<GatewayRoute>,
    pub request: Rc<Request>,
    pub client: Client,
    pub key: Vec<u8>,
    pub hash: KeyHash,
    /// What is stored and to be validated, or served if the origin fails.
    pub stored: Option<StoredArc>,
    /// Whether `stored` has a validator and the origin is asked about it.
    pub fetch: FetchKind,
    /// What it does about the tiers below RAM.
    pub below: TierLookup,
    /// Nobody waits for it: it goes on without readers (stale-while-revalidate).
    pub background: bool,
    /// The store remembers already that answers under this key are not shared; when it forgets, one request finds out
    /// for all.
    pub remembered: bool,
    /// What only the client that began it gets to see.
    pub local: Rc<FillStarter>,
    pub told: FillStages,
    /// This node's turn to ask the origin, of all nodes; given back when it is dropped.
    pub win: Cell<Option<RecomputeLease>>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchKind {
    /// A response.
    Full,
    /// Whether what is stored is still current (RFC 9111 §4.3).
    Validation,
}

/// What a fill and the client that began it, on the same worker, tell each other.
#[derive(Default)]
pub(crate) struct FillStarter {
    /// Interim responses, to be passed on.
    pub interim: RefCell<VecDeque<ResponseHead>>,
    /// The final head as received, end-to-end: with `Set-Cookie`, and what qualified directives name.
    pub own: RefCell<Option<(u16, FieldList)>>,
    /// The freshened response after a 304.
    pub freshened: RefCell<Option<StoredArc>>,
    /// What a tier below had, too old to be served before the origin was asked.
    pub stale: RefCell<Option<StoredArc>>,
    /// The origin was not asked: everybody asks for himself, since answers are known not to be shared.
    pub unshared: Cell<bool>,
    /// The `Set-Cookie` lines of a 304, which are for the client that asked and for no other.
    pub cookies: RefCell<FieldList>,
    /// Whether the response is being stored, and the origin's status: for `Cache-Status`.
    pub origin_status: Cell<Option<u16>>,
    /// What is told of the origin's part.
    pub origin_told: Cell<Option<OriginTold>>,
    /// Rung when `interim` has something.
    pub rung: Notify,
    /// Whether the one reader of a fill is still there.
    presence: Cell<ClientPresence>,
    /// Rung when that changes.
    left: Notify,
}

/// Whether the client of a fill with one reader is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientPresence {
    /// It waits.
    #[default]
    Here,
    /// It has closed its side: it may wait for the response, or be gone.
    Doubted,
    /// It has reset its request.
    Gone,
}

/// What is told of an origin's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTold {
    /// Microseconds until its head had come.
    pub micros: u64,
    /// What it spoke.
    pub version: Version,
}

impl FillStarter {
    /// Notes that the origin was asked at `started` and had answered at `answered`, by the precise clock, with this head.
    pub fn took(&self, started: u64, answered: u64, head: &ResponseHead) {
        let micros = answered.saturating_sub(started);
        self.origin_told.set(Some(OriginTold { micros, version: head.version }));
    }

    pub fn presence(&self) -> ClientPresence {
        self.presence.get()
    }

    /// Tells the fill whether its one reader is there.
    pub fn set_presence(&self, presence: ClientPresence) {
        self.presence.set(presence);
        self.left.notify_waiters();
    }

    /// Waits until the client is not known to be there, and `gone` if that is asked for.
    async fn until(&self, left: impl Fn(ClientPresence) -> bool) {
        loop {
            let changed = self.left.notified();
            if left(self.presence.get()) {
                return;
            }
            changed.await;
        }
    }
}

/// Who waits for what a fill brings: they decide whether it goes on.
#[derive(Clone, Copy)]
pub(crate) enum Waiters<'a> {
    /// It goes on without: a validation behind a stale response, a request that changes something at the origin.
    Unconditional,
    /// The readers of a fill.
    Readers(&'a FillWriter),
    /// The client of a fill with one reader.
    Client(&'a FillStarter),
}

impl Waiters<'_> {
    /// Waits until no reader is left. After that none can join either.
    pub async fn deserted(self) {
        match self {
            Waiters::Unconditional => std::future::pending().await,
            Waiters::Readers(writer) => writer.deserted().await,
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

/// A response whose head is there, and when.
pub(crate) struct ArrivedHead {
    /// Where its body comes from.
    pub source: ResponseSource,
    pub response: ResponseHead,
    pub request_time: WallTime,
    pub response_time: WallTime,
    /// The same more exactly.
    pub exchanged: Exchanged,
    /// Which purges it knows of: taken before the request left.
    pub born: Born,
}

/// A fill on its way from step to step.
pub(crate) struct FillRun {
    pub job: FillJob,
    /// What the origin is asked; before it is asked, what is held decides that.
    ask: Option<OriginAsk>,
    readers: Readers,
    /// What may answer, as far as tiers were looked at.
    held: Option<(StoredArc, AnsweringTier)>,
    /// The origin's response.
    pub arrived: Option<ArrivedHead>,
    /// What was decided about it.
    decided: Option<Disposition>,
    pub outcome: FillOutcome,
}

/// Who reads what a fill brings.
enum Readers {
    /// The requests that joined it, on any worker.
    Shared(FillWriter),
    /// The request that runs it; what was removed `since` is not stored. It may look in the disk tier again once it has waited for a
    /// permit, if it `looks_again`.
    One { since: Removals, looks_again: bool },
    /// None any more: the body has ended.
    None,
}

/// What a response is good for.
enum Disposition {
    /// It is shared and stored, behind or before bytes that are stored already.
    Store { head: Arc<SharedHead>, before: Bytes, after: Bytes },
    /// It is for the reader that began the fill.
    Forward(Unshared),
}

/// How a fill ended, for those who read no body of it.
pub(crate) enum FillOutcome {
    /// Its readers have had its body, or none is left.
    Ended,
    /// This lay in a tier; with the turn to fetch it again where it is stale.
    Found(StoredArc, AnsweringTier, Option<RecomputeTurn>),
    /// Every request looks in the store again.
    LookAgain,
    /// A 304 has freshened this.
    Freshened(StoredArc, SpentLifetime),
    /// No response came, or one that a stale response stands in for.
    Failed(FillHead),
    /// Requests queued for the origin, and no client waited for this any more.
    GivenUp,
    /// The response goes to the one reader: the request that ran the fill.
    Forward,
}

impl FillJob {
    /// Has a task run the fill to its end. Its future lies in a room: the runtime moves an address.
    pub fn spawn(self, writer: FillWriter) {
        let first = match self.below {
            TierLookup::Skip => FillStep::Origin,
            TierLookup::First | TierLookup::Only => FillStep::Disk,
        };
        let rooms = self.gateway.fills.clone();
        tokio::task::spawn_local(rooms.house(|| FillRun::shared(self, writer).run_to_end(first)));
    }

    /// Notes for `explain` that the origin failed.
    fn note_failure(&self, status: u16, why: &str) {
        self.gateway.refusals.note_failure(self.hash, &self.request, status, why);
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

impl Gateway {
    /// Starts the validation of a stale response that is being served (RFC 5861 §3).
    pub(crate) fn validate_in_background(self: &Rc<Self>, job: FillJob, flight: KeyHash) {
        // No request reads it: what is not stored is not read to its end either.
        if let Begin::Lead(writer, _) = self.store.begin(job.hash, flight, &job.key) {
            self.counters.background_validations.add(1);
            job.spawn(writer);
        }
    }
}

impl FillRun {
    fn of(job: FillJob, ask: Option<OriginAsk>, readers: Readers) -> Self {
        let (held, arrived, decided, outcome) = (None, None, None, FillOutcome::Ended);
        Self { job, ask, readers, held, arrived, decided, outcome }
    }

    fn shared(job: FillJob, writer: FillWriter) -> Self {
        Self::of(job, None, Readers::Shared(writer))
    }

    /// A fill with one reader, which is the request that runs it. What is removed after `since` is not stored by it.
    pub fn alone(job: FillJob, ask: OriginAsk, since: Removals, looks_again: bool) -> Self {
        job.local.set_presence(ClientPresence::Here);
        Self::of(job, Some(ask), Readers::One { since, looks_again })
    }

    /// Makes the fill of one reader a task that others cannot join: it stores the response, and the request reads it.
    pub fn begin_to_store(mut self) -> FillReader {
        let Readers::One { since, .. } = self.readers else { unreachable!("a fill begins to store once") };
        let store = self.job.gateway.store.clone();
        let (writer, reader) = store.begin_alone(self.job.hash, &self.job.key, since);
        self.readers = Readers::Shared(writer);
        tokio::task::spawn_local(Box::pin(self.run_to_end(FillStep::Store)));
        reader
    }

    async fn run_to_end(mut self, first: FillStep) {
        self.run(first).await;
        self.finish();
    }

    /// Runs step after step, to the last; of a fill with one reader up to where it begins to store. Returns the step that is next.
    pub async fn run(&mut self, first: FillStep) -> FillStep {
        let mut step = first;
        loop {
            if matches!((step, &self.readers), (FillStep::Store, Readers::One { .. })) {
                return step;
            }
            step.counter(&self.job.gateway.counters).add(1);
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
            _ if self.job.background => Waiters::Unconditional,
            Readers::Shared(writer) => Waiters::Readers(writer),
            Readers::One { .. } => Waiters::Client(&self.job.local),
            Readers::None => Waiters::Unconditional,
        }
    }

    /// Whether the key was removed since the fill began.
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
        self.ends(FillOutcome::Failed(failing::head_of(error)))
    }

    /// `Forward`: the response is for the reader that began the fill. It takes the place of what is stored all the same.
    async fn forward(&mut self) -> FillStep {
        let (Some(arrived), Some(Disposition::Forward(says))) = (self.arrived.take(), self.decided.take())
        else {
            return FillStep::Finish;
        };
        let job = &self.job;
        let meta = job.meta_of(&arrived);
        if !job.supersede(&meta, &arrived, says).await {
            job.leave_turn(&meta, &arrived.born, says);
        }
        let mut writer = match std::mem::replace(&mut self.readers, Readers::None) {
            Readers::Shared(writer) => writer,
            Readers::One { .. } | Readers::None => {
                self.arrived = Some(arrived);
                return self.ends(FillOutcome::Forward);
            }
        };
        writer.provoked_by(failing::says(&job.gateway.store, &job.request));
        let head = SharedHead {
            status: meta.status,
            fields: job.own_fields(&arrived),
            length: decide::length_of(&arrived),
            vary: Vec::new(),
            variant: Box::default(),
            meta,
            marks: larder_store::Marks::default(),
            spent: SpentLifetime::No,
        };
        writer.head(FillHead::Private(Arc::new(head)), false);
        pressure::pour(arrived.source, writer).await;
        FillStep::Finish
    }

    /// `Finish`: tells the readers how it ended, where they have not seen that.
    fn finish(self) {
        let Readers::Shared(mut writer) = self.readers else { return };
        match self.outcome {
            // Dropping the writer tells its readers, if there are any.
            FillOutcome::Ended | FillOutcome::Forward => {}
            FillOutcome::Found(stored, tier, turn) => {
                writer.head(FillHead::Found(stored.clone(), tier), false);
                writer.finish(FillEnd::Complete(None));
                self.job.make_anew(stored, turn);
            }
            FillOutcome::LookAgain => {
                writer.head(FillHead::LookAgain, false);
                writer.finish(FillEnd::Complete(None));
            }
            FillOutcome::Freshened(stored, spent) => {
                *self.job.local.freshened.borrow_mut() = Some(stored.clone());
                let head = match spent {
                    SpentLifetime::No => FillHead::LookAgain,
                    SpentLifetime::Stored | SpentLifetime::Passing => FillHead::Validated(stored),
                };
                writer.head(head, false);
                writer.finish(FillEnd::Complete(None));
            }
            FillOutcome::Failed(head) => self.job.fail(writer, head),
            // Whoever may read still is told that the permit was needed.
            FillOutcome::GivenUp => self.job.fail(writer, FillHead::Failed(503)),
        }
    }
}

impl FillJob {
    fn fail(&self, mut writer: FillWriter, head: FillHead) {
        writer.provoked_by(failing::says(&self.gateway.store, &self.request));
        writer.head(head, false);
        writer.finish(FillEnd::Failed);
    }

    /// The response's fields as the client that began the fill gets them.
    fn own_fields(&self, arrived: &ArrivedHead) -> FieldList {
        let response = &arrived.response;
        let bodyless =
            response.framing == larder_wire::message::Framing::Empty && self.request.method == "HEAD";
        request_headers::returned_final(&response.fields, response.version, bodyless)
    }
}

#[cfg(test)]
mod tests;
