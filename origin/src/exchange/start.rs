//! Starting an exchange: a permit, a connection, and writing the head.

use super::Exchange;
use crate::error::OriginError;
use crate::group::{BalanceKey, Group, ReservedPermit};
use crate::pool::OriginPool;
use crate::request::OutgoingRequest;
use std::rc::Rc;

impl ReservedPermit {
    /// [`OriginPool::send`] with this permit; without a connection, with one for another origin of the group.
    ///
    /// # Errors
    /// As of that function.
    pub async fn send(self, request: Box<OutgoingRequest>) -> Result<Rc<Exchange>, OriginError> {
        let ReservedPermit { mut permit, deadline, mut attempt, .. } = self;
        let needs = request.needs();
        let codec = match permit.connect(needs, &deadline).await {
            Ok(codec) => codec,
            Err(error) => {
                permit.origin().report_failure(&error);
                let Some(rest) = attempt.take().filter(|it| it.may_retry(&error)) else { return Err(error) };
                permit.origin().counters.origin_retries_elsewhere.add(1);
                drop(permit);
                let again = rest.connect_next(needs).await?;
                (permit, attempt) = (again.0, Some(again.1));
                again.2
            }
        };
        let origin = permit.origin().clone();
        origin.count_request();
        // The wait until here was not the origin's doing.
        let asked = request.asked.filter(|_| deadline.get().is_none());
        let exchange = Exchange::new(permit, codec, request, asked, attempt);
        exchange.begin().await.inspect_err(|it| origin.report_failure(it))?;
        Ok(exchange)
    }
}

impl OriginPool {
    /// Opens or reuses a connection and writes the head. A reused connection that has ended is replaced (for requests
    /// that may be repeated, see [`Exchange::head`]). Runs inside a `LocalSet`.
    ///
    /// # Errors
    /// [`OriginError::Busy`], [`OriginError::Connect`], [`OriginError::ConnectTimeout`], or [`OriginError::Timeout`]
    /// where the origin does not accept the head.
    pub async fn send(self: &Rc<Self>, request: OutgoingRequest) -> Result<Rc<Exchange>, OriginError> {
        ReservedPermit::of(self).await?.send(Box::new(request)).await
    }
}

impl Group {
    /// [`Group::reserve`] and [`ReservedPermit::send`].
    ///
    /// # Errors
    /// As of these functions.
    pub async fn send(
        self: &Rc<Self>,
        asked: BalanceKey,
        request: OutgoingRequest,
    ) -> Result<Rc<Exchange>, OriginError> {
        self.reserve(asked).await?.send(Box::new(request)).await
    }
}
