//! What becomes of an exchange whose place with the origin others need: a body goes on from the spool, a fetch that nobody waits for is
//! given up, a request whose body does not come is refused. Who is told so, and when, is in `larder_origin`'s `resting`; small bodies
//! are read before there is an exchange at all.

use crate::deliver::{DeliveryCut, Sent};
use crate::fetch::FillJob;
use crate::fill_reader;
use crate::pass::{Halted, UploadFailed};
use crate::route::Gateway;
use crate::run::Machine;
use crate::stages::RequestStage;
use bytes::{Bytes, BytesMut};
use larder_counters::Counters;
use larder_origin::{
    BalanceKey, Exchange, Group, OriginError, PermitWanted, ReservedPermit, StallCause, others_wait,
};
use larder_semantics::field::FieldList;
use larder_semantics::policy::Policy;
use larder_semantics::stored::Meta;
use larder_stdx::clock;
use larder_store::fill::{self, Abandoned, SharedHead, SpentLifetime};
use larder_store::{FillEnd, FillHead, FillReader, FillWriter, Marks, WithoutSpool};
use larder_transport::body::BodyPiece;
use larder_transport::{ClientGone, Reply, RequestBody};
use larder_wire::message::Framing;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

/// Bodies of requests up to so many bytes are read before an origin is asked...
const SMALL: u64 = 64 * 1024;
/// ...as long as all that are being read on a worker take no more than this.
const SMALL_TOGETHER: u64 = 16 * 1024 * 1024;

fn otherwise(pressed: PermitWanted) -> WithoutSpool {
    if pressed.is_still { WithoutSpool::Cut } else { WithoutSpool::Wait }
}

/// [`FillWriter::wanted`], for the body of this exchange.
pub(crate) async fn wanted(exchange: &Exchange, writer: &mut FillWriter) -> Result<(), Abandoned> {
    loop {
        let wanted = exchange.resting(StallCause::Takes, pin!(writer.wanted())).await;
        match wanted {
            Ok(done) => return done,
            Err(pressed) => writer.hurry(otherwise(pressed)),
        }
    }
}

/// [`FillWriter::push`], for the body of this exchange.
pub(crate) async fn push(
    exchange: &Exchange,
    writer: &mut FillWriter,
    bytes: Bytes,
    max_object: u64,
) -> Result<(), Abandoned> {
    loop {
        let pushed = exchange.resting(StallCause::Takes, pin!(writer.push(bytes.clone(), max_object))).await;
        match pushed {
            Ok(done) => return done,
            Err(pressed) => writer.hurry(otherwise(pressed)),
        }
    }
}

/// Carries a body that is not kept to the one reader that may have it.
pub(crate) async fn pour(exchange: Rc<Exchange>, mut writer: FillWriter, counters: &Counters) {
    loop {
        if wanted(&exchange, &mut writer).await.is_err() {
            return exchange.give_up();
        }
        let next = tokio::select! {
            biased;
            next = exchange.next() => next,
            // The next may be long in coming.
            () = writer.deserted() => return exchange.give_up(),
            () = is_needless(&exchange, &writer) => return exchange.give_up(),
            () = keeps_from_pages(&exchange, counters) => return exchange.give_up(),
        };
        match next {
            Ok(Some(bytes)) => {
                if push(&exchange, &mut writer, bytes, 0).await.is_err() {
                    return exchange.give_up();
                }
            }
            Ok(None) => {
                writer.put_by().await;
                let trailers = exchange.trailers().map(Arc::new);
                return writer.finish(FillEnd::Complete(trailers));
            }
            Err(_) => return writer.finish(FillEnd::Failed),
        }
    }
}

/// Sends a piece of a body that is this client's own. Where others need the place with the origin meanwhile, the rest comes by what is
/// returned.
pub(crate) async fn send(
    gateway: &Gateway,
    exchange: Rc<Exchange>,
    reply: &mut Reply<'_>,
    bytes: Bytes,
) -> Result<Option<FillReader>, ClientGone> {
    let mut rest = bytes;
    let given = { exchange.resting(StallCause::Takes, pin!(give(reply, &mut rest))).await };
    match given {
        Ok(given) => given.map(|()| None),
        Err(pressed) => Ok(Some(hand_over(gateway, exchange, rest, pressed))),
    }
}

/// Gives `bytes` to the client as it has room for them; what it has been given is no more among them.
async fn give(reply: &mut Reply<'_>, bytes: &mut Bytes) -> Result<(), ClientGone> {
    while !bytes.is_empty() {
        let room = reply.room().await?;
        reply.piece(BodyPiece::Bytes(fill::part(bytes, room.now))).await?;
    }
    Ok(())
}

/// Sends the rest of a body that goes on without the origin.
pub(crate) async fn send_rest(reply: &mut Reply<'_>, mut reader: FillReader) -> Sent {
    loop {
        let room = reply.room().await?;
        match fill_reader::read(&mut reader, room).await {
            Ok(bytes) => reply.piece(BodyPiece::Bytes(bytes)).await?,
            Err(FillEnd::Complete(trailers)) => return Ok(trailers),
            Err(FillEnd::Failed | FillEnd::LeftBehind) => return Err(DeliveryCut::Origin),
        }
    }
}

/// The rest of a body that is one client's own, `first` of all, without the place of its exchange: it comes by the spool.
fn hand_over(gateway: &Gateway, exchange: Rc<Exchange>, first: Bytes, pressed: PermitWanted) -> FillReader {
    let store = &gateway.store;
    let nobodys = store.hash(&[]);
    let (mut writer, reader) = store.begin_alone(nobodys, &[], store.removals(nobodys));
    let now = clock::wall();
    let head = SharedHead {
        status: 200,
        fields: FieldList::new(),
        length: None,
        vary: Vec::new(),
        variant: Box::default(),
        meta: Meta::of(200, &[], &Policy::default(), now, now),
        marks: Marks::default(),
        spent: SpentLifetime::No,
    };
    writer.head(FillHead::Private(Arc::new(head)), false); // Which nobody looks at: it was sent.
    writer.hurry(otherwise(pressed));
    let counters = gateway.counters.clone();
    tokio::task::spawn_local(async move {
        if push(&exchange, &mut writer, first, 0).await.is_err() {
            return exchange.give_up();
        }
        pour(exchange, writer, &counters).await;
    });
    reader
}

/// Waits until the client of `reply` may be gone: where it is waited for without an end, at once, and else only while others wait for a
/// place.
pub(crate) async fn may_be_gone(reply: &Reply<'_>, is_endless: bool) {
    if !is_endless {
        others_wait().await;
    }
    reply.gone().await;
}

/// Waits until a page needs the place of a stream of events, where it has one of those; a browser asks for the stream again.
async fn keeps_from_pages(exchange: &Exchange, counters: &Counters) {
    let _ = exchange.resting(StallCause::Listens, pin!(std::future::pending::<()>())).await;
    counters.events_shed.add(1);
}

/// The next bytes of a body that is this client's own, and for which it asked without changing anything: they may be long in coming.
///
/// # Errors
/// As [`Exchange::next`]; [`OriginError::Busy`] where it has gone.
pub(crate) async fn next_for(
    reply: &Reply<'_>,
    exchange: &Exchange,
    is_endless: bool,
    counters: &Counters,
) -> Result<Option<Bytes>, OriginError> {
    let is_needless = async {
        may_be_gone(reply, is_endless).await;
        if !is_endless {
            let _ = exchange.resting(StallCause::ForNobody, pin!(std::future::pending::<()>())).await;
        }
    };
    tokio::select! {
        biased;
        next = exchange.next() => return next,
        () = reply.taken_back() => {}
        () = is_needless => {}
        () = keeps_from_pages(exchange, counters) => {}
    }
    exchange.give_up();
    Err(OriginError::Busy)
}

impl FillJob {
    /// Waits for a place with an origin; `None` where nobody waits for the answer, or others for a place and everybody who waits for the
    /// answer may be gone: the origin never hears of it, and nobody can join.
    pub async fn in_line(&self, writer: &FillWriter) -> Option<Result<ReservedPermit, OriginError>> {
        let reserving = self.route.origins.reserve(self.asked());
        if self.background {
            return Some(reserving.await);
        }
        tokio::select! {
            biased;
            reserved = reserving => Some(reserved),
            () = writer.deserted() => {
                self.gateway.counters.fill_given_up.add(1);
                None
            }
            () = self.gives_way(writer) => {
                self.gateway.counters.fill_given_up.add(1);
                None
            }
        }
    }

    /// Waits until others wait for a place, too, and nobody reads but those who may be gone; then nobody can begin to.
    async fn gives_way(&self, writer: &FillWriter) {
        loop {
            writer.unread().await;
            crowded(&self.route.origins).await;
            if writer.leaves_unread() {
                return;
            }
        }
    }

    /// Does `work` of an exchange; `None` where others need its place, and nobody waits for the answer any more.
    pub async fn unless_given_up<T>(
        &self,
        exchange: &Exchange,
        writer: &FillWriter,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        if self.background {
            return Some(work.await);
        }
        tokio::select! {
            biased;
            done = work => Some(done),
            () = is_needless(exchange, writer) => {
                self.gateway.counters.fill_given_up.add(1);
                None
            }
        }
    }
}

/// Waits until more than one stands in the line for a place.
async fn crowded(origins: &Group) {
    while origins.waiting() < 2 {
        others_wait().await;
    }
}

/// Waits until others need the place of this exchange and nobody reads what it brings; then nobody can begin to.
async fn is_needless(exchange: &Exchange, writer: &FillWriter) {
    loop {
        writer.unread().await;
        // Somebody may have joined meanwhile, who will be waited for.
        let _ = exchange.resting(StallCause::ForNobody, pin!(std::future::pending::<()>())).await;
        if writer.leaves_unread() {
            return;
        }
    }
}

/// What is here of a request's body before the origin is asked.
pub(crate) struct BodyPrefix {
    pub bytes: Option<Bytes>,
    /// Nothing of it is to come.
    pub is_whole: bool,
}

impl Machine<'_, '_> {
    /// Waits until others wait for a place, and the client may be gone: it has taken its request back, or, over HTTP/1, closed its side.
    /// Then it may wait for the answer nevertheless: nothing is made of it but room for others.
    pub async fn may_be_gone(&self) {
        match &self.reply {
            Some(reply) => may_be_gone(reply, false).await,
            None => std::future::pending().await,
        }
    }

    async fn gone(&self) {
        match &self.reply {
            Some(reply) => reply.gone().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the client has taken its request back.
    pub async fn taken_back(&self) {
        match &self.reply {
            Some(reply) => reply.taken_back().await,
            None => std::future::pending().await,
        }
    }

    pub async fn is_taken_back(&self) -> bool {
        tokio::select! {
            biased;
            () = self.taken_back() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Waits for a place with an origin, unless the client takes its request back, or may be gone and others wait, too: the origin
    /// never hears of the request then. `None` where it has taken it back.
    pub async fn in_line(&self, asked: BalanceKey) -> Option<Result<ReservedPermit, OriginError>> {
        let gives_way = async {
            self.gone().await;
            crowded(&self.route.origins).await;
        };
        tokio::select! {
            biased;
            reserved = self.route.origins.reserve(asked) => return Some(reserved),
            () = self.taken_back() => {}
            () = gives_way => {}
        }
        self.gateway.counters.fill_given_up.add(1);
        (!self.is_taken_back().await).then_some(Err(OriginError::Busy))
    }

    /// Does `work` of an exchange for this client alone.
    ///
    /// # Errors
    /// [`OriginError::Busy`]: the client may be gone, and others need the place.
    pub async fn unless_gone<T>(
        &self,
        exchange: &Exchange,
        work: impl Future<Output = Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let is_needless = async {
            tokio::select! {
                () = self.taken_back() => {}
                () = self.may_be_gone() => {}
            }
            let _ = exchange.resting(StallCause::ForNobody, pin!(std::future::pending::<()>())).await;
        };
        tokio::select! {
            biased;
            done = work => done,
            () = is_needless => {
                self.gateway.counters.fill_given_up.add(1);
                Err(OriginError::Busy)
            }
        }
    }

    /// Reads what is here of the request's body; of a small one, which says how long it is, all. So no client holds a place with an
    /// origin by sending it slowly.
    pub async fn beginning(&mut self, framing: Framing) -> Result<BodyPrefix, ClientGone> {
        let is_told_to_wait = self.request.expects_continue;
        // Nothing of what comes behind an upgrade is read.
        let Some(body) = self.body.as_mut().filter(|_| self.upgrade.is_none()) else {
            return Ok(BodyPrefix { bytes: None, is_whole: true });
        };
        let bytes = body.arrived()?;
        let length = match framing {
            Framing::Length(length) => Some(length),
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        let here = bytes.as_ref().map_or(0, |it| it.len() as u64);
        let is_whole = length.map_or_else(|| body.is_whole(), |it| it <= here);
        let Some(length) = length.filter(|it| !is_whole && !is_told_to_wait && *it <= SMALL) else {
            return Ok(BodyPrefix { bytes, is_whole });
        };
        let Some(_room) = BufferShare::take(&self.gateway.small_bodies, length) else {
            return Ok(BodyPrefix { bytes, is_whole });
        };
        self.stages.enter(RequestStage::Parse);
        let mut all = BytesMut::with_capacity(usize::try_from(length).unwrap_or_default());
        all.extend_from_slice(&bytes.unwrap_or_default());
        while let Some(more) = body.next().await? {
            all.extend_from_slice(&more);
        }
        Ok(BodyPrefix { bytes: Some(all.freeze()).filter(|it| !it.is_empty()), is_whole: true })
    }
}

/// So many bytes of the room in which small bodies are read.
struct BufferShare<'g>(&'g Cell<u64>, u64);

impl<'g> BufferShare<'g> {
    fn take(taken: &'g Cell<u64>, bytes: u64) -> Option<Self> {
        let all = Some(taken.get() + bytes).filter(|it| *it <= SMALL_TOGETHER)?;
        taken.set(all);
        Some(Self(taken, bytes))
    }
}

impl Drop for BufferShare<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// The next bytes of a request's body, for this exchange.
pub(crate) async fn more(
    body: &mut RequestBody<'_>,
    exchange: &Exchange,
    counters: &Counters,
) -> Result<Option<Bytes>, UploadFailed> {
    match exchange.resting(StallCause::Sends, pin!(body.next())).await {
        Ok(next) => next.map_err(|it| UploadFailed::Halted(Halted::Client(it))),
        Err(PermitWanted { .. }) => {
            counters.uploads_shed.add(1);
            Err(UploadFailed::Halted(Halted::Pressed))
        }
    }
}
