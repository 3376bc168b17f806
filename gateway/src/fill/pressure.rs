//! Fetches whose permit other requests need: the body continues from the spool, or the fetch is cancelled because no
//! client waits for it. `larder_origin`'s `stalled_exchanges` decides when; `request::pressure` handles the requests of
//! single clients.

use super::{FillJob, Waiters};
use crate::route::Gateway;
use crate::source::ResponseSource;
use bytes::Bytes;
use larder_origin::{BalanceKey, Group, OriginError, PermitWanted, ReservedPermit, queued};
use larder_semantics::field::FieldList;
use larder_semantics::policy::Policy;
use larder_semantics::stored::Meta;
use larder_stdx::clock;
use larder_store::fill::{Abandoned, SharedHead, SpentLifetime};
use larder_store::{FillEnd, FillHead, FillReader, FillWriter, PurgeFacts, WithoutSpool};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

fn otherwise(pressed: PermitWanted) -> WithoutSpool {
    if pressed.has_no_progress { WithoutSpool::Cut } else { WithoutSpool::Wait }
}

/// [`FillWriter::wanted`], for the body of this exchange.
pub(crate) async fn wanted(source: &ResponseSource, writer: &mut FillWriter) -> Result<(), Abandoned> {
    loop {
        let wanted = source.wait_for_client(pin!(writer.wanted())).await;
        match wanted {
            Ok(done) => return done,
            Err(pressed) => writer.drain(otherwise(pressed)),
        }
    }
}

/// [`FillWriter::push`], for the body of this exchange.
pub(crate) async fn push(
    source: &ResponseSource,
    writer: &mut FillWriter,
    bytes: Bytes,
    max_object: u64,
) -> Result<(), Abandoned> {
    loop {
        let pushed = source.wait_for_client(pin!(writer.push(bytes.clone(), max_object))).await;
        match pushed {
            Ok(done) => return done,
            Err(pressed) => writer.drain(otherwise(pressed)),
        }
    }
}

/// Sends a body that is not kept to its only reader.
pub(crate) async fn pour(source: ResponseSource, mut writer: FillWriter) {
    loop {
        if wanted(&source, &mut writer).await.is_err() {
            return source.give_up();
        }
        let next = tokio::select! {
            biased;
            next = source.next() => next,
            // The next bytes may take long.
            () = writer.without_readers() => return source.give_up(),
            () = is_needless(&source, Waiters::Readers(&writer)) => return source.give_up(),
        };
        match next {
            Ok(Some(bytes)) => {
                if push(&source, &mut writer, bytes, 0).await.is_err() {
                    return source.give_up();
                }
            }
            Ok(None) => {
                writer.spool_rest().await;
                let trailers = source.trailers().map(Arc::new);
                return writer.finish(FillEnd::Complete(trailers));
            }
            Err(_) => return writer.finish(FillEnd::Failed),
        }
    }
}

/// The rest of one client's body, beginning with `first`, through the spool: its exchange gives its permit back.
pub(crate) fn hand_over(
    gateway: &Gateway,
    source: ResponseSource,
    first: Bytes,
    pressed: PermitWanted,
) -> FillReader {
    let store = &gateway.store;
    let no_key = store.hash(&[]);
    let (mut writer, reader) = store.begin_private(no_key, &[], store.removals(no_key));
    let now = clock::wall();
    let head = SharedHead {
        status: 200,
        fields: FieldList::new(),
        length: None,
        vary: Vec::new(),
        variant: Box::default(),
        meta: Meta::of(200, &[], &Policy::default(), now, now),
        purge_facts: PurgeFacts::default(),
        spent: SpentLifetime::No,
    };
    writer.head(FillHead::Private(Arc::new(head)), false); // It is not read: it was sent.
    writer.drain(otherwise(pressed));
    tokio::task::spawn_local(async move {
        if push(&source, &mut writer, first, 0).await.is_err() {
            return source.give_up();
        }
        pour(source, writer).await;
    });
    reader
}

impl FillJob {
    /// Waits for a permit. `None` where no client waits for the answer, or other requests queue and every waiting client
    /// may be gone: the origin is not asked, and no request can join.
    pub async fn in_line(
        &self,
        waiters: Waiters<'_>,
        asked: BalanceKey,
    ) -> Option<Result<ReservedPermit, OriginError>> {
        let reserving = self.route.origins.reserve(asked);
        if let Waiters::Unconditional = waiters {
            return Some(reserving.await);
        }
        tokio::select! {
            biased;
            reserved = reserving => return Some(reserved),
            () = waiters.without_waiters() => {}
            () = self.unread_while_queued(waiters) => {}
        }
        self.gateway.counters.fill_given_up.add(1);
        None
    }

    /// Does `work` of an exchange; `None` where other requests need its permit, and no client waits for the answer any
    /// more.
    pub async fn unless_given_up<T>(
        &self,
        source: &ResponseSource,
        waiters: Waiters<'_>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        if let Waiters::Unconditional = waiters {
            return Some(work.await);
        }
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.is_needless(source, waiters) => {
                self.gateway.counters.fill_given_up.add(1);
                None
            }
        }
    }
}

impl FillJob {
    /// Waits until no client waits for the answer and requests queue for the permit of this exchange; for a response that ends with
    /// its one client, not for the queue.
    async fn is_needless(&self, source: &ResponseSource, waiters: Waiters<'_>) {
        match waiters {
            Waiters::Client(_) if self.route.ends_with_client() => waiters.unread().await,
            _ => is_needless(source, waiters).await,
        }
    }

    /// Waits until other requests queue for a permit, too, and every waiting client may be gone; then none can join. A response that
    /// ends with its one client does not wait for the queue.
    async fn unread_while_queued(&self, waiters: Waiters<'_>) {
        loop {
            waiters.unread().await;
            if matches!(waiters, Waiters::Client(_)) && self.route.ends_with_client() {
                return;
            }
            crowded(&self.route.origins).await;
            if waiters.leaves_unread() {
                return;
            }
        }
    }
}

/// Waits until every waiting client has left, or has closed its side; then none can join.
pub(super) async fn left(waiters: Waiters<'_>) {
    let closed = async {
        loop {
            waiters.unread().await;
            if waiters.leaves_unread() {
                return;
            }
        }
    };
    tokio::select! {
        () = waiters.without_waiters() => {}
        () = closed => {}
    }
}

/// Waits until more than one request queues for a permit.
async fn crowded(origins: &Group) {
    while origins.waiting() < 2 {
        queued().await;
    }
}

/// Waits until requests queue for the permit of this exchange and no client reads what it brings; then none can join.
async fn is_needless(source: &ResponseSource, waiters: Waiters<'_>) {
    loop {
        waiters.unread().await;
        // A request may have joined meanwhile, and is waited for.
        source.permit_wanted().await;
        if waiters.leaves_unread() {
            return;
        }
    }
}
