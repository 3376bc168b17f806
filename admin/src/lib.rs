//! The admin listener: requests of an operator, a program or the page to a running larder. It listens on a loopback
//! address unless configured otherwise, and answers only requests that were meant for it. The endpoints are in `table`;
//! authentication is in `access`; each subject has a file of its own.

mod access;
mod advice;
mod audit;
mod body;
mod certificates;
mod compressed;
mod config;
mod explain;
mod history;
mod memory;
mod nodes;
mod note;
mod objects;
mod once;
pub mod openapi;
mod origins;
mod overlay;
mod page;
mod parameters;
mod private_file;
mod prometheus;
mod purge;
mod recent_counts;
mod recent_sums;
mod requester;
mod schemas;
mod server_state;
mod session_file;
mod sessions;
mod stats;
mod stream;
mod table;
mod top;
mod traces;
mod upgrade;
mod why;

use access::AccessRefusal;
pub use access::AdminAccess;
pub use advice::JudgedRequests;
pub use audit::Audit;
use bytes::Bytes;
pub use config::{ConfigOrder as ReloadOrder, Configuring};
pub use history::{HistoryEnd, HistoryState};
use larder_config::admin_role::AdminRole;
use larder_counters::Counters;
use larder_gateway::Gateway;
use larder_gateway::coding::pool::Coders;
use larder_observe::log::ErrorLog;
use larder_observe::recent::Recent;
use larder_observe::recorder::Recorder;
use larder_observe::stream::Hub;
use larder_observe::top::Tops;
use larder_observe::traces::Traces;
use larder_semantics::date;
use larder_server::certificate_registry::CertificateRegistry;
use larder_server::cluster::Cluster;
use larder_server::counter_sum::CounterSums;
use larder_server::input_error::InputError;
use larder_server::live::Live;
use larder_server::overlay::Overlays;
use larder_server::purge::PurgeQueue;
use larder_server::resident::Heap;
use larder_server::router::Router;
use larder_server::row_purges::FollowStates;
use larder_server::worker_failure::WorkerFailure;
use larder_stdx::clock;
use larder_transport::body::BodyPiece;
use larder_transport::{AnswerNow, Client, ClientGone, Handler, Reply, RequestBody, ResponseBody, Synthetic};
use larder_wire::message::{Framing, Reject, Request, RequestHead};
pub use memory::MeasuredMemory;
pub use objects::WalkLocks;
pub use recent_sums::RecentSums;
use requester::Requester;
use serde_json::{Value, json};
pub use server_state::ServerState;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use table::{Effect, Endpoint, EndpointAccess, EndpointMatch};
use tokio::sync::mpsc;
pub use upgrade::{STEP as UPGRADE_STEP, UpgradeOrder};

/// The most bytes of bodies that are read at a time, in addition to those of overlays.
const BODIES: usize = 4 << 20;

/// Answers the admin's requests.
pub struct Admin {
    /// Authentication.
    pub access: AdminAccess,
    /// Bytes of bodies that are in memory.
    pub held: Rc<Cell<usize>>,
    /// The audit log.
    pub audit: Audit,
    /// A gateway of its own over the shared store: it decides like the workers.
    pub gateway: Rc<Gateway>,
    /// The router of the configuration in force.
    pub router: RefCell<Rc<Router>>,
    /// The configuration in force, for the sources of values.
    pub live: RefCell<Arc<Live>>,
    /// The client addresses, as printed at the start.
    pub public: RefCell<Vec<String>>,
    /// All counters.
    pub totals: Arc<CounterSums>,
    /// The counters of the admin's own gateway.
    pub counters: Arc<Counters>,
    /// The queue of purges.
    pub purges: PurgeQueue,
    /// Traces of all workers.
    pub traces: Arc<Traces>,
    /// The heaviest URLs.
    pub tops: Arc<Tops>,
    /// The latest logged or streamed requests.
    pub recent: Arc<Recent>,
    /// The records for trials of a configuration.
    pub recorder: Arc<Recorder>,
    /// The encoders of files.
    pub coders: Arc<Coders>,
    /// The listeners of the live stream.
    pub stream: Arc<Hub>,
    /// The other nodes of the fleet.
    pub nodes: Option<Rc<Cluster>>,
    /// The standing of the databases that are followed.
    pub followed: FollowStates,
    /// The overlays.
    pub overlays: Arc<Overlays>,
    /// The state of all certificates.
    pub certificates: Rc<CertificateRegistry>,
    /// The memory that the allocator holds, and has allocated.
    pub heap: Arc<Heap>,
    /// The last measurement of memory.
    pub measured: MeasuredMemory,
    /// The failure of a worker.
    pub failure: Arc<WorkerFailure>,
    /// The state of the server.
    pub server_state: ServerState,
    /// The samples and events of the last days.
    pub history: HistoryState,
    /// The sums of the last minute.
    pub recent_sums: RecentSums,
    /// The last judgement about recent requests.
    pub judged: JudgedRequests,
    /// Another process takes over, or has: changes made here would be lost.
    pub is_replaced: Rc<Cell<bool>>,
    /// The endpoints for changing the configuration.
    pub configuring: Configuring,
    /// To the main loop, for upgrades.
    pub upgrades: mpsc::Sender<UpgradeOrder>,
    /// The locks of listings.
    pub listing: WalkLocks,
    /// Whether tests may move the clock.
    pub clock_moves: bool,
}

/// A request to the admin, as passed to an endpoint.
pub struct AdminRequest<'a> {
    /// Its head.
    pub request: &'a Request,
    /// The authenticated client.
    pub requester: &'a Requester,
    /// The session that the request starts, which the audit log names in place of the client.
    pub began: &'a OnceCell<Requester>,
    /// The address of the client.
    pub client: &'a Client,
    /// The value of `{…}` in the endpoint's path, as received.
    pub named: Option<&'a str>,
    /// The part after the `?`; empty without one.
    pub query: &'a str,
    /// Its whole body.
    pub body: &'a [u8],
    /// The body as JSON, which matches its row; `null` if the row has none.
    pub json: &'a Value,
}

impl AdminRequest<'_> {
    /// A parameter of the query, decoded; it matches its row.
    pub fn query_value(&self, name: &str) -> Option<String> {
        parameters::pairs(self.query).ok()?.into_iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// The client, for logs and lists: `admin from 127.0.0.1`.
    pub fn by(&self) -> String {
        match self.client.peer {
            Some(peer) => format!("{} from {}", self.requester, peer.ip().to_canonical()),
            None => self.requester.to_string(),
        }
    }
}

/// A response to be sent.
pub enum AdminResponse {
    /// Status and JSON.
    Json(u16, Value),
    /// Any other answer, which is complete. Its fields win over those that every answer has.
    Whole(Synthetic),
    /// Server-sent events, sent as they arrive, until either side ends the stream.
    Events(mpsc::Receiver<Bytes>),
}

impl AdminResponse {
    /// Status, and the sentence of a problem.
    fn response(&self) -> (u16, &str) {
        match self {
            AdminResponse::Json(status, value) => (*status, value["detail"].as_str().unwrap_or("")),
            AdminResponse::Whole(it) => (it.status, ""),
            AdminResponse::Events(_) => (200, ""),
        }
    }
}

/// A problem of larder itself as JSON: one sentence with the error and the remedy.
pub(crate) fn problem(status: u16, detail: impl Into<String>) -> AdminResponse {
    debug_assert!(!(400..500).contains(&status), "client errors name the invalid field: use problem_at");
    AdminResponse::Json(status, json!({ "status": status, "detail": detail.into() }))
}

/// A problem of the request: one sentence with the error and a valid form; and its place: a key of the body, a parameter,
/// a field, a line and column.
pub(crate) fn problem_at(status: u16, detail: impl Into<String>, at: impl Into<String>) -> AdminResponse {
    AdminResponse::Json(status, json!({ "status": status, "detail": detail.into(), "where": at.into() }))
}

impl From<InputError> for AdminResponse {
    fn from(it: InputError) -> Self {
        problem_at(400, it.detail, it.at)
    }
}

/// The refusal of a client whose role is too small.
fn too_small(requester: &Requester, needed: AdminRole) -> AdminResponse {
    let role = requester.role().map_or("none", AdminRole::name);
    let detail = format!(
        "This request requires the role {}; the token \"{}\" has the role {role}.",
        needed.name(),
        requester.name()
    );
    problem_at(403, detail, "Authorization")
}

/// A request with its endpoint.
struct AcceptedRequest<'a> {
    endpoint: &'static Endpoint,
    /// The value of `{...}` in its path.
    named: Option<&'a str>,
    requester: Requester,
}

/// A rejected request.
struct RefusedRequest {
    requester: Requester,
    answer: AdminResponse,
}

impl Handler for Admin {
    fn answer_now(
        &self,
        _: &RequestHead<'_>,
        _: &Client,
        _: &mut larder_transport::ResponseWriter<'_>,
    ) -> AnswerNow {
        AnswerNow::Later
    }

    async fn answer<'c>(
        &'c self,
        request: Rc<Request>,
        client: &'c Client,
        mut body: RequestBody<'c>,
        mut reply: Reply<'c>,
    ) {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let found = self.find(&request, client, path, query);
        // No body is larger than the limit of all overlays.
        let overlays = usize::try_from(self.live.borrow().config.admin.overlay_size).unwrap_or(usize::MAX);
        let most = found.as_ref().map_or(table::BODY, |it| it.endpoint.body).min(overlays.max(table::CONFIG));
        let read = match request.framing {
            Framing::Length(length) if length > most as u64 => BodyRead::TooLarge,
            _ => read(&mut body, most, BodyMemory::none(&self.held, BODIES + overlays)).await,
        };
        if !matches!(read, BodyRead::Whole(_)) {
            reply.close_after();
        }
        let none = Vec::new();
        let (requester, endpoint, body, answer) = match (&read, found) {
            (BodyRead::Gone, _) => return,
            (_, Err(refused)) => (refused.requester, None, &none, refused.answer),
            (BodyRead::TooLarge, Ok(it)) => {
                let answer = problem_at(413, format!("The body exceeds {most} bytes."), "body");
                (it.requester, Some(it.endpoint), &none, answer)
            }
            (BodyRead::Malformed, Ok(it)) => {
                let answer = problem_at(400, "The body's chunks are not valid.", "body");
                (it.requester, Some(it.endpoint), &none, answer)
            }
            (BodyRead::NoRoom, Ok(it)) => {
                let answer = problem(503, "Too many request bodies are being received; retry.");
                (it.requester, Some(it.endpoint), &none, answer)
            }
            (BodyRead::Whole(body), Ok(it)) if self.is_for_successor(it.endpoint) => {
                reply.close_after();
                let answer = problem(
                    503,
                    "A new process replaces this one, and this change would be lost; repeat it on a new connection.",
                );
                (it.requester, Some(it.endpoint), &body.bytes, answer)
            }
            (BodyRead::Whole(body), Ok(AcceptedRequest { endpoint, named, requester })) => {
                let body = &body.bytes;
                let began = OnceCell::new();
                let answer = match body::read(endpoint, body) {
                    Ok(json) => {
                        let asked = AdminRequest {
                            request: &request,
                            requester: &requester,
                            began: &began,
                            client,
                            named,
                            query,
                            body,
                            json: &json,
                        };
                        self.run(endpoint, asked, &reply).await
                    }
                    Err(wrong) => wrong.into(),
                };
                (began.into_inner().unwrap_or(requester), Some(endpoint), body, answer)
            }
        };
        let (status, why) = answer.response();
        let (requester, request) = (&requester, &request);
        self.audit.answered(&audit::AuditEntry { requester, client, request, endpoint, body, status, why });
        match answer {
            AdminResponse::Json(status, value) => {
                let text = serde_json::to_vec(&value).unwrap_or_default();
                send(compressed::json(status, text, request), request, reply).await;
            }
            AdminResponse::Whole(whole) => send(whole, request, reply).await,
            AdminResponse::Events(events) => {
                if send_events(events, &mut reply, &self.access, requester).await.is_ok() {
                    let _ = reply.finish(None).await;
                }
            }
        }
    }

    fn rejected(&self, reject: Reject, client: &Client, _: u64) {
        self.audit.rejected(client, reject.status(), reject.sentence());
    }

    fn refusal(&self, status: u16, sentence: &str) -> Synthetic {
        let problem = json!({ "status": status, "detail": sentence, "where": "head" });
        Synthetic::new(status, "application/json", problem.to_string())
    }
}

/// The result of reading a body.
enum BodyRead {
    /// All of it.
    Whole(BodyMemory),
    /// It exceeds the limit; the rest was not read.
    TooLarge,
    /// Too many other bodies are being read at the time.
    NoRoom,
    /// Its framing is invalid.
    Malformed,
    /// The client is gone.
    Gone,
}

/// A body in memory; the total of all is bounded.
struct BodyMemory {
    bytes: Vec<u8>,
    of_all: Rc<Cell<usize>>,
    most: usize,
}

impl BodyMemory {
    fn none(of_all: &Rc<Cell<usize>>, most: usize) -> Self {
        Self { bytes: Vec::new(), of_all: of_all.clone(), most }
    }

    /// Whether there was room for `more`.
    fn take(&mut self, more: &[u8]) -> bool {
        let all = self.of_all.get() + more.len();
        let fits = all <= self.most;
        if fits {
            self.of_all.set(all);
            self.bytes.extend_from_slice(more);
        }
        fits
    }
}

impl Drop for BodyMemory {
    fn drop(&mut self) {
        self.of_all.set(self.of_all.get() - self.bytes.len());
    }
}

async fn read(body: &mut RequestBody<'_>, most: usize, mut held: BodyMemory) -> BodyRead {
    loop {
        match body.next().await {
            Ok(Some(more)) if held.bytes.len() + more.len() > most => return BodyRead::TooLarge,
            Ok(Some(more)) if held.take(&more) => {}
            Ok(Some(_)) => return BodyRead::NoRoom,
            Err(ClientGone::TooLarge) => return BodyRead::TooLarge,
            Ok(None) => return BodyRead::Whole(held),
            Err(ClientGone::Malformed) => return BodyRead::Malformed,
            Err(_) => return BodyRead::Gone,
        }
    }
}

/// Sends a complete answer, with the fields that keep it out of caches and frames.
async fn send(answer: Synthetic, request: &Request, reply: Reply<'_>) {
    let mut fields = access::guards();
    for it in answer.fields.iter() {
        fields.set(it.name, it.value);
    }
    let whole = Synthetic { fields, ..answer };
    let whole = match whole.status {
        401 => whole.with("WWW-Authenticate", "Bearer realm=\"larder\""),
        405 => whole.with("Allow", table::methods_of(&request.target)),
        429 | 503 => whole.with("Retry-After", "1"),
        _ => whole,
    };
    whole.send(reply).await;
}

/// Sends events as they occur. They end with the session, or the token, that requested them.
async fn send_events(
    mut events: mpsc::Receiver<Bytes>,
    reply: &mut Reply<'_>,
    access: &AdminAccess,
    requester: &Requester,
) -> Result<(), ClientGone> {
    let mut fields = access::guards();
    fields.push("Date", date::format(clock::wall()));
    fields.push("Content-Type", "text/event-stream");
    reply.head(200, &fields, ResponseBody::Stream).await?;
    reply.flush().await?;
    while access.is_accepted(requester) {
        // Otherwise events would be sent forever to a client that left during a quiet time.
        let event = tokio::select! {
            biased;
            () = access.ended() => continue,
            event = events.recv() => event,
            () = reply.gone() => return Err(ClientGone::Closed),
        };
        let Some(event) = event.filter(|_| access.is_accepted(requester)) else { return Ok(()) };
        reply.push_body(BodyPiece::Bytes(event)).await?;
        reply.flush().await?;
    }
    Ok(())
}

impl Admin {
    /// Uses a new configuration for access and explanations from now on; `tls_port` is the port of its first address with TLS.
    pub fn apply_config(&self, live: Arc<Live>, tls_port: Option<u16>) {
        self.access.set_tokens(&live.config.admin.tokens);
        *self.router.borrow_mut() = Rc::new(live.router(&self.counters, &ErrorLog::off(), None, tls_port));
        let before = self.live.replace(live.clone());
        self.carry_state_over(&before, &live);
        self.carry_counts_over(&before, &live);
        self.server_state.note_values(self.configuring.values());
    }

    /// Whether a change has to be made in the process that replaces this one. Purges reach it from here.
    fn is_for_successor(&self, endpoint: &Endpoint) -> bool {
        let is_purge = endpoint.path.ends_with("/purge");
        self.is_replaced.get() && endpoint.effect == Effect::Writes && !is_purge && !endpoint.for_tests
    }

    /// Answers an accepted request. One that only reads ends early if its client has gone and another one waits for the same lock.
    async fn run(&self, endpoint: &Endpoint, asked: AdminRequest<'_>, reply: &Reply<'_>) -> AdminResponse {
        let answer = (endpoint.run)(self, asked);
        if endpoint.effect == Effect::Writes {
            return answer.await;
        }
        let is_needless = async {
            self.listing.queued().await;
            reply.gone().await;
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = is_needless => problem(503, "The client has gone, and other requests wait for the same tier."),
        }
    }

    /// The endpoint of a request, if access is permitted; or the rejection.
    fn find<'a>(
        &self,
        request: &Request,
        client: &Client,
        path: &'a str,
        query: &str,
    ) -> Result<AcceptedRequest<'a>, RefusedRequest> {
        let refuse =
            |refusal: AccessRefusal| RefusedRequest { requester: Requester::Nobody, answer: refusal.into() };
        if self.gateway.has_passed(&request.fields.view()) {
            return Err(refuse(AccessRefusal::Loop));
        }
        let found = table::find(&request.method, path);
        let needs = match &found {
            EndpointMatch::Endpoint(it, _) => it.needs,
            EndpointMatch::OtherMethod | EndpointMatch::Nothing => EndpointAccess::Role(AdminRole::Viewer),
        };
        // With a token, a word becomes the state of every part.
        let is_word = match needs {
            EndpointAccess::Every => true,
            EndpointAccess::Word => !request.fields.contains("authorization"),
            EndpointAccess::Named | EndpointAccess::Role(_) => false,
        };
        if !is_word {
            access::check_host(request, client, &self.live.borrow().config.admin.hosts).map_err(refuse)?;
        }
        let requester = match needs {
            EndpointAccess::Every | EndpointAccess::Named => Requester::Nobody,
            EndpointAccess::Word if is_word => {
                self.access.authenticate(request, client).unwrap_or(Requester::Nobody)
            }
            EndpointAccess::Role(_) | EndpointAccess::Word => {
                self.access.authenticate(request, client).map_err(refuse)?
            }
        };
        let (endpoint, named) = match found {
            EndpointMatch::Endpoint(it, named) if !it.for_tests || self.clock_moves => (it, named),
            EndpointMatch::OtherMethod => {
                let detail = format!("{} is not a method of {path}.", request.method);
                let answer = problem_at(405, detail, "method");
                return Err(RefusedRequest { requester, answer });
            }
            _ => {
                let detail =
                    format!("No endpoint exists at {path}; /api/v1/openapi.json lists the endpoints.");
                let answer = problem_at(404, detail, "path");
                return Err(RefusedRequest { requester, answer });
            }
        };
        if let Some(role) = needs.role().filter(|it| !is_word && !requester.may(*it)) {
            return Err(RefusedRequest { answer: too_small(&requester, role), requester });
        }
        let checked = if endpoint.free_query { Ok(()) } else { parameters::check(endpoint.query, query) };
        match checked {
            Ok(()) => Ok(AcceptedRequest { endpoint, named, requester }),
            Err(wrong) => Err(RefusedRequest { requester, answer: wrong.into() }),
        }
    }

    fn move_clock(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let uptime = asked.query_value("uptime").and_then(|it| it.parse().ok());
        match asked.query_value("advance").and_then(|it| it.parse().ok()) {
            Some(seconds) => {
                clock::advance(seconds);
                match asked.query_value("hold").as_deref() {
                    Some("0") => clock::release(),
                    Some(_) => clock::hold(),
                    None => {}
                }
                uptime.iter().for_each(|it| clock::advance_monotonic(*it));
                AdminResponse::Json(200, json!({ "now": clock::wall().0 }))
            }
            None => problem_at(400, "advance=SECONDS is missing.", "advance"),
        }
    }
}
