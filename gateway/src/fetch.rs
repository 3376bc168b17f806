//! The fill: a fetch that belongs to no client. It asks the origin, decides whether the response may be kept,
//! shares it with every reader while it arrives, and stores it once its last byte has been verified.

use crate::assemble::{assemble, contents};
use crate::coding;
use crate::failing;
use crate::fast_path;
use crate::large::{self, LargeProgress, Nowhere};
use crate::origin_pressure;
use crate::request_headers::{self, OriginRequest};
use crate::route::{Gateway, GatewayRoute};
use crate::run::OriginTold;
use crate::stages::{self, FillStages, RequestStage};
use crate::storability::StorabilityCheck;
use crate::tier_lookup::{TierLookup, TierLookupResult};
use bytes::Bytes;
use larder_origin::{Exchange, OriginError, PermitWait};
use larder_semantics::field::FieldList;
use larder_semantics::freshen::AfterFreshen;
use larder_semantics::freshness::{AgeInputs, Freshness};
use larder_semantics::partial::{self, Combine};
use larder_semantics::range::HeldRange;
use larder_semantics::request::RequestFacts;
use larder_semantics::storable::{NotStorable, Storable};
use larder_semantics::stored::{self, Meta};
use larder_semantics::trace::Silent;
use larder_semantics::{freshen, reuse, tags, transcode, vary};
use larder_stdx::clock::{self, WallTime};
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::fleet::{RecomputeLease, Unshared};
use larder_store::ram::{KeyHash, NotStored};
use larder_store::{Born, Exchanged, FillEnd, FillHead, FillWriter, Marks, Stored};
use larder_transport::Client;
use larder_wire::message::{Framing, Request, ResponseHead};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
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
    pub stored: Option<Arc<Stored>>,
    /// Whether `stored` has a validator and is to be asked about.
    pub validate: bool,
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

/// What the fill tells the client that began it, on the same worker.
#[derive(Default)]
pub(crate) struct FillStarter {
    /// Interim responses, to be passed on.
    pub interim: RefCell<VecDeque<ResponseHead>>,
    /// The final head as received, end-to-end: with `Set-Cookie`, and what qualified directives name.
    pub own: RefCell<Option<(u16, FieldList)>>,
    /// The freshened response after a 304.
    pub freshened: RefCell<Option<Arc<Stored>>>,
    /// What a tier below had, too old to be served before the origin was asked.
    pub stale: RefCell<Option<Arc<Stored>>>,
    /// The origin was not asked: everybody asks for himself, since answers are known not to be shared.
    pub unshared: Cell<bool>,
    /// The `Set-Cookie` lines of a 304, which are for the client that asked and for no other.
    pub cookies: RefCell<FieldList>,
    /// Whether the response is being stored, and the origin's status: for `Cache-Status`.
    pub origin_status: std::cell::Cell<Option<u16>>,
    /// What is told of the origin's part.
    pub origin_told: Cell<Option<OriginTold>>,
    /// Rung when `interim` has something.
    pub rung: Notify,
}

impl FillStarter {
    /// Notes that the origin was asked at `started` and had answered at `answered`, by the precise clock, with this head.
    pub fn took(&self, started: u64, answered: u64, head: &ResponseHead) {
        let micros = answered.saturating_sub(started);
        self.origin_told.set(Some(OriginTold { micros, version: head.version }));
    }
}

/// A response whose head is there, and when.
pub(crate) struct ArrivedHead {
    /// Behind a pointer: it is large, and handed on often.
    pub exchange: Rc<Exchange>,
    pub response: ResponseHead,
    pub request_time: WallTime,
    pub response_time: WallTime,
    /// The same more exactly.
    pub exchanged: Exchanged,
    /// Which purges it knows of: taken before the request left.
    pub born: Born,
}

impl FillJob {
    /// Has a task run the fill to its end. Its future lies in a room: the runtime moves an address.
    pub fn spawn(self, writer: FillWriter) {
        let rooms = self.gateway.fills.clone();
        tokio::task::spawn_local(rooms.house(|| self.run(writer)));
    }

    /// Runs the fill to its end.
    async fn run(mut self, mut writer: FillWriter) {
        if self.below != TierLookup::Skip {
            match self.look_below(&writer).await {
                TierLookupResult::Found(stored, tier, turn) => {
                    writer.head(FillHead::Found(stored.clone(), tier), false);
                    writer.finish(FillEnd::Complete(None));
                    return self.make_anew(stored, turn);
                }
                TierLookupResult::Unshared => {
                    self.local.unshared.set(true);
                    writer.head(FillHead::LookAgain, false);
                    return writer.finish(FillEnd::Complete(None));
                }
                TierLookupResult::Nothing if self.below == TierLookup::Only => {
                    writer.head(FillHead::LookAgain, false);
                    return writer.finish(FillEnd::Complete(None));
                }
                TierLookupResult::Nothing => {}
            }
        }
        self.ask_origin(writer).await;
    }

    async fn ask_origin(self, mut writer: FillWriter) {
        let rest = self.rest();
        let started = clock::precise_micros();
        self.told.enter(RequestStage::Connect);
        let Some(reserved) = self.in_line(&writer).await else { return self.given_up(writer) };
        if !matches!(&reserved, Ok(it) if it.wait() == PermitWait::None)
            && let Some((stored, tier)) = Box::pin(self.came_meanwhile(&writer)).await
        {
            writer.head(FillHead::Found(stored, tier), false);
            return writer.finish(FillEnd::Complete(None));
        }
        let asked = match reserved {
            Ok(reserved) => {
                let counted = self.validate && !self.background;
                self.gateway.counters.cache_validations.add(u64::from(counted));
                let asking = pin!(self.ask_by(reserved, started, self.question(rest.as_ref()), &writer));
                self.watched(&writer, asking).await.flatten()
            }
            Err(error) => Some(Err(error)),
        };
        let arrived = match asked {
            Some(Ok(arrived)) => arrived,
            Some(Err(error)) => return self.fail_of(writer, &error),
            None => return self.given_up(writer),
        };
        match arrived.response.status {
            // Some origins answer `If-Range` with a 304, which is nothing that was asked.
            304 if rest.is_some() => self.ask_whole(writer).await,
            304 if self.validate => {
                if let Some(new) = self.freshen(&arrived, &writer).await {
                    self.gateway.counters.cache_validated.add(1);
                    *self.local.freshened.borrow_mut() = Some(new.clone());
                    let is_spent = self.spent(&arrived, &new.meta, true) != SpentLifetime::No;
                    let head = if is_spent { FillHead::Validated(new) } else { FillHead::LookAgain };
                    writer.head(head, false);
                    return writer.finish(FillEnd::Complete(None));
                }
                // It was about something that is not stored.
                self.ask_whole(writer).await;
            }
            206 | 416 if rest.is_some() => match self.completion(&arrived) {
                Some(completion) => self.complete(arrived, completion, writer).await,
                None => self.ask_whole(writer).await,
            },
            _ => self.receive_or_fail(arrived, writer).await,
        }
    }

    /// Asks without condition, once, after an answer that could not be used.
    async fn ask_whole(self, writer: FillWriter) {
        let asked = {
            let asking = pin!(self.ask(OriginRequest::Whole, &writer));
            self.watched(&writer, asking).await.flatten()
        };
        match asked {
            Some(Ok(again)) => self.receive_or_fail(again, writer).await,
            Some(Err(error)) => self.fail_of(writer, &error),
            None => self.given_up(writer),
        }
    }

    async fn receive_or_fail(self, arrived: ArrivedHead, writer: FillWriter) {
        if request_headers::is_unasked(&self.request, false, arrived.response.status) {
            let why = request_headers::unasked(arrived.response.status);
            self.gateway.refusals.note_failure(self.hash, &self.request, 502, why);
            return self.fail(writer, FillHead::Failed(502));
        }
        if arrived.response.status >= 500 && self.may_serve_stale() {
            return self.fail(writer, FillHead::Failed(arrived.response.status));
        }
        self.receive(arrived, writer).await;
    }

    fn fail_of(&self, writer: FillWriter, error: &OriginError) {
        self.gateway.refusals.note_failure(self.hash, &self.request, error.status(), &error.sentence());
        self.fail(writer, failing::head_of(error));
    }

    /// Who may read still is told that others had the place.
    fn given_up(&self, writer: FillWriter) {
        self.fail(writer, FillHead::Failed(503));
    }

    fn fail(&self, mut writer: FillWriter, head: FillHead) {
        writer.provoked_by(failing::says(&self.gateway.store, &self.request));
        writer.head(head, false);
        writer.finish(FillEnd::Failed);
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

    /// Freshens what is stored after a 304 (RFC 9111 §4.3.4); `None` if it was about something else.
    async fn freshen(&self, arrived: &ArrivedHead, writer: &FillWriter) -> Option<Arc<Stored>> {
        let old = self.stored.as_ref()?;
        if !freshen::selects(&old.meta, &arrived.response.fields.view(), true) {
            return None;
        }
        Some(self.update(old, arrived, || writer.was_removed()).await)
    }

    /// What is stored with the head that a 304 or a HEAD response brought, for the client that asked; in the store as
    /// far as it may be kept there. `removed` says whether the key was removed since the origin was asked.
    pub async fn update(
        &self,
        old: &Arc<Stored>,
        arrived: &ArrivedHead,
        removed: impl Fn() -> bool,
    ) -> Arc<Stored> {
        let fields = arrived.response.fields.view();
        let policy = &self.route.policy;
        let mut new = self.freshened(old, arrived);
        new.exchanged = arrived.exchanged;
        let new = self.gateway.store.keep(new);
        let request = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &request);
        match freshen::after(&facts, &new.fields(), &new.meta, policy) {
            AfterFreshen::Update => {
                // If it was purged or replaced meanwhile it stays so; this client may still be answered with it.
                let stands = self.gateway.store.replace(self.hash, &self.key, old, new.clone());
                self.gateway.refusals.forget(self.hash);
                if !removed() && (stands || !self.is_replaced()) {
                    self.keep_below(&new, true, &removed).await;
                }
            }
            AfterFreshen::Leave => {}
            AfterFreshen::Drop => {
                self.gateway.remove(policy, self.hash, &self.key).await;
                self.judge(None, |it| it.remember_miss(&arrived.born));
            }
        }
        if !self.background {
            let mut cookies = self.local.cookies.borrow_mut();
            fields.iter().filter(|it| it.is("set-cookie")).for_each(|it| cookies.push(it.name, it.value));
        }
        new
    }

    fn freshened(&self, old: &Stored, arrived: &ArrivedHead) -> Stored {
        let update = arrived.response.fields.view();
        let (request_time, response_time) = (arrived.request_time, arrived.response_time);
        let policy = &self.route.policy;
        let (mut fields, meta) =
            freshen::apply(&old.fields(), &old.meta, &update, policy, request_time, response_time);
        if update.iter().any(|it| it.is("via")) {
            request_headers::mark_stored(&mut fields, arrived.response.version, policy);
        }
        let marks = self.marks(&fields, arrived.born.clone());
        let (trailers, body, variant) =
            (old.trailers.as_deref().cloned(), old.body.clone(), old.variant.clone());
        let new = assemble(meta, fields, trailers, body, variant, marks, &policy.tags);
        let new = coding::ready(new, policy);
        coding::carry(&self.gateway.store, old, &new);
        new
    }

    /// Decides whether the response is kept, and carries its bytes to the store and to the readers.
    pub async fn receive(self, arrived: ArrivedHead, mut writer: FillWriter) {
        let bodyless = arrived.response.framing == Framing::Empty;
        let version = arrived.response.version;
        let own = request_headers::returned_final(
            &arrived.response.fields,
            version,
            bodyless && self.request.method == "HEAD",
        );
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
        let spent = self.spent(&arrived, &meta, verdict == Storable::Store);
        if let Some(says) = self.not_for_others(verdict, spent, &arrived, &meta, length, &writer) {
            writer.provoked_by(failing::says(&self.gateway.store, &self.request));
            if !self.supersede(&meta, &arrived, says).await {
                self.leave_turn(&meta, &arrived.born, says);
            }
            let head = SharedHead {
                status: meta.status,
                fields: own,
                length,
                vary: Vec::new(),
                variant: Box::default(),
                meta,
                marks: Marks::default(),
                spent: SpentLifetime::No,
            };
            writer.head(FillHead::Private(Arc::new(head)), false);
            drop(fields);
            return origin_pressure::pour(arrived.exchange, writer, &self.gateway.counters).await;
        }
        if meta.no_cache || matches!(meta.freshness(arrived.response_time), Freshness::Stale { .. }) {
            if spent == SpentLifetime::No {
                // Every request will have to ask: nobody should queue behind another.
                self.judge(None, |it| it.remember_miss(&arrived.born));
            }
            if !meta.has_validator() {
                // And there is nothing to ask about.
                let says = if spent == SpentLifetime::No { Unshared::Page } else { Unshared::Answer };
                self.leave_turn(&meta, &arrived.born, says);
            }
        }
        let mut kept = stored::stored_fields(&fields, policy, arrived.response_time);
        stages::drop_ours(&mut kept);
        request_headers::mark_stored(&mut kept, version, policy);
        if transcode::plan(meta.status, &fields, length, policy).is_some() {
            // Others will get it in other codings.
            transcode::mark(&mut kept);
            if let Some((_, own)) = &mut *self.local.own.borrow_mut() {
                transcode::mark(own);
            }
        }
        let names = meta.vary.clone();
        let mut variant = Vec::new();
        vary::write_key(&names, &self.request.fields.view(), &mut variant);
        let marks = self.marks(&kept, arrived.born.clone());
        let head = Arc::new(SharedHead {
            status: meta.status,
            fields: kept,
            length,
            vary: names,
            variant: variant.into_boxed_slice(),
            meta,
            marks,
            spent,
        });
        drop(fields);
        writer.head(FillHead::Shared(head.clone()), true);
        self.keep(arrived, head, writer).await;
    }

    /// What a response that came stale is good for: for those who waited for it before it came, where its lifetime ran out on its way.
    fn spent(&self, arrived: &ArrivedHead, meta: &Meta, is_stored: bool) -> SpentLifetime {
        let fields = arrived.response.fields.view();
        let ages = AgeInputs::read(&fields, arrived.request_time, arrived.response_time);
        let is_stale = matches!(meta.freshness(arrived.response_time), Freshness::Stale { .. });
        match is_stale && !meta.no_cache && ages.answers_collapsed(meta.lifetime, meta.must_revalidate) {
            true if is_stored => SpentLifetime::Stored,
            true => SpentLifetime::Passing,
            false => SpentLifetime::No,
        }
    }

    /// Why those who wait for this response are to ask for themselves, if so: it may not be stored; or it is certain that its body
    /// will not be kept and has no strong tag, so that a reader that is cut cannot request the rest.
    fn not_for_others(
        &self,
        verdict: Storable,
        spent: SpentLifetime,
        arrived: &ArrivedHead,
        meta: &Meta,
        length: Option<u64>,
        writer: &FillWriter,
    ) -> Option<Unshared> {
        match verdict {
            Storable::Refuse(NotStorable::Late) if spent == SpentLifetime::Passing => {}
            Storable::Refuse(refusal) => {
                let of_the_page = refusal == NotStorable::Late
                    || self.judge(None, |it| it.is_about_the_page(arrived, refusal));
                if refusal == NotStorable::Late && !self.remembered {
                    self.judge(None, |it| it.remember_miss(&arrived.born));
                }
                return Some(if of_the_page { Unshared::Page } else { Unshared::Answer });
            }
            Storable::Store => {}
        }
        let length = length.filter(|_| !partial::is_resumable(meta))?;
        let why = large::kept_nowhere(self, meta, length, writer)?;
        self.gateway.counters.cache_over_budget.add(1);
        if why == Nowhere::NoRoom {
            return Some(Unshared::Answer);
        }
        if !self.remembered {
            self.judge(None, |it| it.remember_miss(&arrived.born));
        }
        Some(Unshared::Page)
    }

    /// Whether [`FillJob::receive`] would store: asked first by those who would rather pass the bytes on themselves.
    pub fn would_store(&self, arrived: &ArrivedHead) -> bool {
        self.decide(arrived) == Storable::Store
    }

    /// What a 206 that was asked for makes of the part that is held: the whole, if it fits and may be kept.
    fn completion(&self, arrived: &ArrivedHead) -> Option<Completion> {
        let old = self.stored.as_ref()?;
        let fields = arrived.response.fields.view();
        let policy = &self.route.policy;
        let mut meta =
            Meta::of(arrived.response.status, &fields, policy, arrived.request_time, arrived.response_time);
        let (held, came) = (old.meta.partial?, meta.partial?);
        let Combine::Into { part, whole: true } = partial::combine(&old.meta, &meta) else { return None };
        let follows = |a: HeldRange, b: HeldRange| a.last.checked_add(1) == Some(b.first);
        let exact = !matches!(arrived.response.framing, Framing::Length(it) if it != came.length());
        if !exact || !(follows(held, came) || follows(came, held)) {
            return None;
        }
        if self.judge(Some(b"bytes=0-"), |it| it.decide(arrived)) != Storable::Store
            || part.length() > policy.max_object
        {
            return None;
        }
        let mut kept = stored::stored_fields(&fields, policy, arrived.response_time);
        kept.remove("content-range");
        kept.remove("content-length");
        request_headers::mark_stored(&mut kept, arrived.response.version, policy);
        (meta.status, meta.partial) = (200, None);
        // As old as the part that was held.
        let marks = self.marks(&kept, old.marks.born.clone());
        let head = SharedHead {
            status: 200,
            fields: kept,
            length: Some(part.length()),
            vary: old.meta.vary.clone(),
            variant: old.variant.clone(),
            meta,
            marks,
            spent: SpentLifetime::No,
        };
        Some(Completion { head: Arc::new(head), held: contents(&old.body)?, held_first: held.first == 0 })
    }

    /// Carries the whole to the readers and to the store: what is held and what comes, in the order of the bytes.
    async fn complete(self, arrived: ArrivedHead, it: Completion, mut writer: FillWriter) {
        *self.local.own.borrow_mut() = None;
        writer.head(FillHead::Shared(it.head.clone()), true);
        let before = if it.held_first { it.held.clone() } else { Bytes::new() };
        let after = if it.held_first { Bytes::new() } else { it.held };
        self.keep_between(before, arrived, after, it.head, writer).await;
    }

    /// Asks the judge, with everything that it may want to know; `range` is a `Range` of our own making.
    fn judge<T>(&self, range: Option<&[u8]>, ask: impl FnOnce(&StorabilityCheck<'_>) -> T) -> T {
        let fields = self.request.fields.view();
        let scheme = self.request.scheme;
        let authority = fast_path::normal(scheme, &self.request.authority);
        let mut facts = RequestFacts::read(&self.request.method, &fields).with_uri(
            scheme.name(),
            &authority,
            &self.request.target,
        );
        facts.range = facts.range.or(range);
        ask(&StorabilityCheck {
            gateway: &self.gateway,
            route: &self.route,
            request: &self.request,
            facts: &facts,
            hash: self.hash,
            remembered: self.remembered,
        })
    }

    fn decide(&self, arrived: &ArrivedHead) -> Storable {
        self.judge(None, |it| it.decide(arrived))
    }

    /// What purges look at in a response with these stored fields.
    fn marks(&self, fields: &FieldList, born: Born) -> Marks {
        let tags = tags::of(&fields.view(), &self.route.policy.tags, &self.key);
        self.gateway.counters.purge_tags_full.add(u64::from(tags::are_every(&tags)));
        Marks { tags, born }
    }

    /// Carries a body to the readers and, after its verified end, into the store.
    async fn keep(self, arrived: ArrivedHead, head: Arc<SharedHead>, writer: FillWriter) {
        self.keep_between(Bytes::new(), arrived, Bytes::new(), head, writer).await;
    }

    /// The same with bytes that are held already before or after those that come.
    async fn keep_between(
        self,
        before: Bytes,
        arrived: ArrivedHead,
        after: Bytes,
        head: Arc<SharedHead>,
        mut writer: FillWriter,
    ) {
        let most = self.route.policy.max_object;
        let mut length = (before.len() + after.len()) as u64;
        if writer.push(before, most).await.is_err() {
            return;
        }
        // The bytes with which the readers have all: whoever has them may ask again, anywhere, and finds what is stored.
        let holds_last = after.is_empty();
        let mut last = Bytes::new();
        let mut large = LargeProgress::NotYet;
        let exchange = &arrived.exchange;
        loop {
            if origin_pressure::wanted(exchange, &mut writer).await.is_err() {
                return;
            }
            let next = if self.cancels() {
                tokio::select! {
                    biased;
                    next = exchange.next() => next,
                    () = writer.deserted() => return,
                }
            } else {
                let next = self.unless_given_up(exchange, &writer, exchange.next()).await;
                let Some(next) = next else { return };
                next
            };
            match next {
                Ok(Some(bytes)) => {
                    length += bytes.len() as u64;
                    // Nothing beyond what the head said: a 206 may bring more than its Content-Range.
                    if head.length.is_some_and(|it| length > it) {
                        return;
                    }
                    large.note(&self, &head, &writer, &bytes).await;
                    if holds_last && head.length == Some(length) && length <= most {
                        last = bytes;
                    } else if origin_pressure::push(exchange, &mut writer, bytes, most).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return writer.finish(FillEnd::Failed),
            }
        }
        if head.length.is_some_and(|it| length != it) {
            return;
        }
        large.note(&self, &head, &writer, &after).await;
        if writer.push(after, most).await.is_err() {
            return;
        }
        let trailers = exchange.trailers();
        if writer.may_store() {
            match self.store(&head, arrived.exchanged, trailers.clone(), &writer, &last) {
                Ok(Some(stored)) => {
                    large = LargeProgress::Never; // It had room after all.
                    self.keep_below(&stored, false, || writer.was_removed()).await;
                }
                Ok(None) => {}
                Err(Overtaken) => self.overtaken().await,
            }
        } else if !writer.was_removed() {
            self.outgrown(arrived.request_time).await;
        }
        if writer.push(last, most).await.is_err() {
            return;
        }
        writer.put_by().await;
        let watch = writer.watch();
        writer.finish(FillEnd::Complete(trailers.clone().map(Arc::new)));
        large.keep(&self, &head, trailers, &watch).await;
    }

    /// Hands what is stored down to the tiers below; what was removed meanwhile is removed there, too.
    async fn keep_below(&self, stored: &Arc<Stored>, freshens: bool, removed: impl Fn() -> bool) {
        let (policy, win) = (&self.route.policy, self.win.take());
        let down = self.gateway.write_down(policy, &self.key, stored, win, freshens, &removed);
        if let Some(put) = down.put {
            put.settled().await;
        }
        if let Some(written) = down.displaced {
            self.gateway.outlives_us(written).await;
        }
        if removed() && self.gateway.reaches_below(&self.route) {
            self.gateway.remove(policy, self.hash, &self.key).await;
        }
    }

    /// Stores what has come whole. Returns what may go further down: what is in RAM now, or had no room there.
    fn store(
        &self,
        head: &SharedHead,
        exchanged: Exchanged,
        trailers: Option<FieldList>,
        writer: &FillWriter,
        last: &Bytes,
    ) -> Result<Option<Arc<Stored>>, Overtaken> {
        let policy = &self.route.policy;
        let mut down = None;
        let mut chunks = writer.chunks();
        chunks.push(last.clone());
        let body = self.gateway.store.make_body(&chunks).map_err(NotStored::from);
        let kept = body.and_then(|body| {
            // A 206 in chunks may bring other bytes than its Content-Range names.
            if head.meta.partial.is_some_and(|it| it.length() != body.len()) {
                return Ok(());
            }
            let mut stored = assemble(
                head.meta.clone(),
                head.fields.clone(),
                trailers,
                body,
                head.variant.clone(),
                head.marks.clone(),
                &self.route.policy.tags,
            );
            stored.exchanged = exchanged;
            let Some(stored) = self.with_what_is_stored(stored) else { return Ok(()) };
            let stored = coding::ready(stored, policy);
            if !policy.tiers.ram {
                down = Some(Arc::new(stored));
                return Ok(());
            }
            let stored = down.insert(self.gateway.store.keep(stored)).clone();
            let most = usize::from(policy.max_variants);
            writer.insert(stored, most).map(|()| self.gateway.counters.cache_stores.add(1))
        });
        match kept {
            Ok(()) => self.gateway.refusals.forget(self.hash),
            // An invalidation or a purge was faster.
            Err(NotStored::Removed) => down = None,
            Err(NotStored::Overtaken) => return Err(Overtaken),
            Err(NotStored::OverBudget) => {
                self.gateway.counters.cache_over_budget.add(1);
                self.gateway.store.unseat(self.hash, &self.key, &self.request.fields.view());
            }
        }
        Ok(down)
    }
}

/// Another answer came while this one was on its way, and neither is kept.
struct Overtaken;

/// A part that is about to become whole.
struct Completion {
    head: Arc<SharedHead>,
    held: Bytes,
    /// What is held is the beginning; else it is the end.
    held_first: bool,
}
