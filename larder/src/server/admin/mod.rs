//! The admin listener: what an operator, a program or the page asks of a running larder. It listens on a loopback
//! address unless told otherwise, and answers only requests that were meant for it. What can be asked is in `table`;
//! who may ask, in `access`; each subject has a file of its own.

mod access;
mod explain;
mod memory;
mod note;
mod overlay;
mod page;
mod query;
mod stats;
mod stream;
mod table;
mod traces;

use super::nodes::Nodes;
use super::observe::stream::Hub;
use super::observe::traces::Traces;
use super::overlay::Overlays;
use super::purge::{Desk, Order, asked};
use super::router::Router;
use super::totals::Totals;
use super::worker::Live;
use crate::log::ErrorLog;
use bytes::Bytes;
use larder_counters::Counters;
use larder_gateway::Gateway;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::body::Piece;
use larder_transport::http1::{Client, ClientGone, Handler, Now, Outbox, Reply, RequestBody, ResponseBody};
use larder_wire::http1::request::{Reject, Request, RequestHead};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use table::{Endpoint, Found};
use tokio::sync::mpsc;

/// Answers the admin's requests.
pub struct Admin {
    /// A gateway of its own over the shared store: it decides as the workers do.
    pub gateway: Rc<Gateway>,
    /// Of the configuration in force.
    pub router: RefCell<Rc<Router>>,
    /// The configuration in force, to tell which line decided.
    pub live: RefCell<Arc<Live>>,
    /// Where clients are served, as printed at the start.
    pub public: Vec<String>,
    /// All counters.
    pub totals: Arc<Totals>,
    /// Those of the admin's own gateway.
    pub counters: Arc<Counters>,
    /// Where purges are brought.
    pub purges: Desk,
    /// Traces of all workers.
    pub traces: Arc<Traces>,
    /// Who listens to the live stream.
    pub stream: Arc<Hub>,
    /// The other nodes of the fleet.
    pub nodes: Option<Rc<Nodes>>,
    /// What lies over everything.
    pub overlays: Arc<Overlays>,
    /// Whether tests may move the clock.
    pub clock_moves: bool,
}

/// A request to the admin, as an endpoint sees it.
#[allow(dead_code, reason = "for the endpoints that come next")]
pub struct Asked<'a> {
    /// Its head.
    pub request: &'a Request,
    /// What stands for the `{…}` of the endpoint's path, as it was sent.
    pub named: Option<&'a str>,
    /// What follows the `?`; empty without one.
    pub query: &'a str,
    /// Its whole body.
    pub body: &'a [u8],
}

/// An answer in the making.
#[allow(dead_code, reason = "for the endpoints that come next")]
pub enum Answer {
    /// Status and JSON.
    Json(u16, Value),
    /// Anything else, which is there as a whole.
    Whole {
        /// The status.
        status: u16,
        /// The fields besides those that every answer has; `Content-Type` among them.
        fields: FieldList,
        /// The body.
        body: Bytes,
    },
    /// Server-sent events, which are sent as they come, until either side ends it.
    Events(mpsc::Receiver<Bytes>),
}

/// A problem as JSON: one sentence says what is wrong, where, and what would be right.
pub(super) fn problem(status: u16, detail: impl Into<String>) -> Answer {
    Answer::Json(status, json!({ "status": status, "detail": detail.into() }))
}

/// The same with the place: `column 7`.
pub(super) fn refusal(status: u16, detail: impl Into<String>, place: &str) -> Answer {
    Answer::Json(status, json!({ "status": status, "detail": detail.into(), "where": place }))
}

impl Handler for Admin {
    fn answer_now(&self, _: &RequestHead<'_>, _: &Client, _: bool, _: &mut Outbox) -> Now {
        Now::Later
    }

    async fn answer<'c>(
        &'c self,
        request: Request,
        client: &'c Client,
        mut body: RequestBody<'c>,
        mut reply: Reply<'c>,
    ) {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let found = self.find(&request, client, path);
        let most = found.as_ref().map_or(table::BODY, |it| it.0.body);
        let mut bytes = Vec::new();
        let answer = loop {
            match body.next().await {
                Ok(Some(more)) if bytes.len() + more.len() <= most => bytes.extend_from_slice(&more),
                Ok(Some(_)) | Err(ClientGone::TooLarge) => {
                    reply.close_after();
                    break problem(413, format!("The body is over {most} bytes."));
                }
                Ok(None) => match found {
                    Ok((endpoint, named)) => {
                        let asked = Asked { request: &request, named, query, body: &bytes };
                        break (endpoint.run)(self, asked).await;
                    }
                    Err(refusal) => break refusal,
                },
                Err(_) => return,
            }
        };
        if send(&mut reply, &request, answer).await.is_ok() {
            let _ = reply.finish(None).await;
        }
    }

    fn rejected(&self, _: Reject, _: &Client) {}
}

/// Sends an answer. The fields that keep it out of caches and frames are the same for all.
async fn send(reply: &mut Reply<'_>, request: &Request, answer: Answer) -> Result<(), ClientGone> {
    let mut fields = FieldList::new();
    fields.push("X-Content-Type-Options", "nosniff");
    let (status, body) = match answer {
        Answer::Json(status, value) => {
            fields.push("Content-Type", "application/json");
            (status, serde_json::to_vec(&value).unwrap_or_default().into())
        }
        Answer::Whole { status, fields: own, body } => {
            for it in own.view().iter() {
                fields.push(it.name, it.value);
            }
            (status, body)
        }
        Answer::Events(mut events) => {
            fields.push("Content-Type", "text/event-stream");
            fields.push("Cache-Control", "no-store");
            reply.head(200, &fields, ResponseBody::Stream).await?;
            reply.flush().await?;
            loop {
                // Else one that went away while all is quiet would be sent to for ever.
                let event = tokio::select! {
                    event = events.recv() => event,
                    () = reply.gone() => return Err(ClientGone::Closed),
                };
                let Some(event) = event else { return Ok(()) };
                reply.piece(Piece::Bytes(event)).await?;
                reply.flush().await?;
            }
        }
    };
    // Only the page's own files may be kept, and they say so.
    if !fields.contains("cache-control") {
        fields.push("Cache-Control", "no-store");
    }
    if status == 405 {
        fields.push("Allow", table::methods_of(&request.target));
    }
    let length = if status == 304 { ResponseBody::None } else { ResponseBody::Length(body.len() as u64) };
    reply.head(status, &fields, length).await?;
    if request.method == "HEAD" || status == 304 {
        return Ok(());
    }
    reply.piece(Piece::Bytes(body)).await
}

impl Admin {
    /// Explains by a new configuration from now on.
    pub fn take_over(&self, live: Arc<Live>) {
        *self.router.borrow_mut() = Rc::new(live.router(&self.counters, &ErrorLog::off(), None));
        *self.live.borrow_mut() = live;
    }

    /// The endpoint that a request is for, with what its path names; or the refusal.
    fn find<'a>(
        &self,
        request: &Request,
        client: &Client,
        path: &'a str,
    ) -> Result<(&'static Endpoint, Option<&'a str>), Answer> {
        if !access::is_for_us(request, client) {
            return Err(problem(403, "The Host or Origin of this request is not this admin's own address."));
        }
        match table::find(&request.method, path) {
            Found::Endpoint(it, _) if it.for_tests && !self.clock_moves => {
                Err(problem(404, format!("There is nothing at {path}; try /cache/stats.")))
            }
            Found::Endpoint(it, named) => Ok((it, named)),
            Found::OtherMethod => Err(problem(405, format!("{} is not a method of {path}.", request.method))),
            Found::Nothing => Err(problem(404, format!("There is nothing at {path}; try /cache/stats."))),
        }
    }

    /// Purges; the answer comes when the purge is in force on every tier.
    async fn purge(&self, body: &[u8]) -> Answer {
        let router = self.router.borrow().clone();
        let (asked, wait) = match asked::read(body, &router) {
            Ok(it) => it,
            Err(detail) => return problem(400, detail),
        };
        match self.purges.purge(Order { asked, by: "admin".to_owned(), wait }).await {
            Ok(done) => Answer::Json(200, done.json()),
            Err(detail) => problem(503, detail),
        }
    }

    fn move_clock(&self, query: &str) -> Answer {
        match query.strip_prefix("advance=").and_then(|it| it.parse().ok()) {
            Some(seconds) => {
                clock::advance(seconds);
                Answer::Json(200, json!({ "now": clock::wall().0 }))
            }
            None => problem(400, "advance=SECONDS is missing."),
        }
    }
}
