//! What a fill asks the origin, and how: by a connection for which it may have to wait, and as long as somebody waits for it.

use crate::fetch::{ArrivedHead, FillJob};
use crate::location;
use crate::request_headers::{self, OriginRequest};
use crate::stages::RequestStage;
use larder_origin::{BalanceKey, OriginError, ReservedPermit};
use larder_semantics::partial;
use larder_semantics::policy::OnAbort;
use larder_stdx::clock;
use larder_store::{Exchanged, FillWriter};
use larder_wire::message::Framing;
use std::future::Future;
use std::pin::Pin;

impl FillJob {
    pub fn question<'s>(&'s self, rest: Option<&'s (String, Vec<u8>)>) -> OriginRequest<'s> {
        match (rest, &self.stored) {
            (Some((range, validator)), _) => OriginRequest::Rest(range, validator),
            (None, Some(stored)) if self.validate => OriginRequest::Conditional(stored),
            _ => OriginRequest::Whole,
        }
    }

    /// What completes the part that is held, for a request for the whole: `Range` and `If-Range`.
    pub fn rest(&self) -> Option<(String, Vec<u8>)> {
        let stored = self.stored.as_ref().filter(|_| self.request.fields.get("range").is_none())?;
        partial::completion(&stored.meta)
    }

    /// What the choice of an origin needs to know.
    pub fn asked(&self) -> BalanceKey {
        let fields = self.request.fields.view();
        self.route.asked(&self.request, &fields, &self.client, Framing::Empty)
    }

    /// Does `work`; `None` if everybody who waited has gone and the fill is then to be cancelled.
    pub async fn watched<T>(
        &self,
        writer: &FillWriter,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        if !self.cancels() {
            return Some(work.await);
        }
        tokio::select! {
            biased;
            done = work => Some(done),
            () = writer.deserted() => None,
        }
    }

    pub fn cancels(&self) -> bool {
        self.route.policy.on_abort == OnAbort::Cancel && !self.background
    }

    /// Asks, up to the final head; interim ones are for the client that began this.
    /// `None` where it was given up.
    pub async fn ask(
        &self,
        ask: OriginRequest<'_>,
        writer: &FillWriter,
    ) -> Option<Result<ArrivedHead, OriginError>> {
        let started = clock::precise_micros();
        self.told.enter(RequestStage::Connect);
        match self.in_line(writer).await? {
            Ok(reserved) => self.ask_by(reserved, started, ask, writer).await,
            Err(error) => Some(Err(error)),
        }
    }

    /// Asks by a connection that was waited for since `started`; `None` where it was given up.
    pub async fn ask_by(
        &self,
        reserved: ReservedPermit,
        started: u64,
        ask: OriginRequest<'_>,
        writer: &FillWriter,
    ) -> Option<Result<ArrivedHead, OriginError>> {
        let (route, sent) = (&self.route, self.request.fields.view());
        let mut outgoing = request_headers::outgoing(
            &self.gateway,
            &self.request,
            &sent,
            route,
            &self.client,
            Framing::Empty,
            ask,
        );
        let born = self.gateway.store.born();
        let (request_time, asked) = (clock::wall(), clock::precise_micros());
        outgoing.asked = Some(started);
        self.told.enter(RequestStage::Connect); // It may have looked on the disk since it had its place.
        let exchange = match reserved.send(outgoing).await {
            Ok(exchange) => exchange,
            Err(error) => return Some(Err(error)),
        };
        self.told.enter(RequestStage::FirstByte);
        loop {
            let mut response = match self.unless_given_up(&exchange, writer, exchange.head()).await? {
                Ok(response) => response,
                Err(error) => return Some(Err(error)),
            };
            self.local.took(started, exchange.answered(), &response);
            if response.status < 200 {
                self.local.interim.borrow_mut().push_back(response);
                self.local.rung.notify_one();
                continue;
            }
            location::write_back(route, &self.request, &mut response.fields);
            self.told.enter(RequestStage::Lookup);
            self.local.origin_status.set(Some(response.status));
            let exchanged = Exchanged { asked, answered: exchange.answered() };
            return Some(Ok(ArrivedHead {
                exchange,
                exchanged,
                response,
                request_time,
                response_time: clock::wall(),
                born,
            }));
        }
    }
}
