//! The public face of one worker: every request of every client connection comes here, is routed, answered at
//! one of the two speeds, and logged.

use super::purge::{Desk, method};
use super::router::{Router, Target};
use crate::log::{End, Entry, ErrorLog, Level, LogHandle, Subsystem};
use larder_gateway::{Gateway, explain};
use larder_semantics::cache_status::{self, Report, Tier};
use larder_semantics::field::{self, FieldList};
use larder_stdx::clock;
use larder_transport::body::Piece;
use larder_transport::http1::{Client, Handler, Now, Outbox, Reply, RequestBody, ResponseBody};
use larder_wire::http1::Version;
use larder_wire::http1::request::{Reject, Request, RequestHead};
use std::cell::RefCell;
use std::rc::Rc;

/// Answers the requests of one worker.
pub struct Front {
    /// The caching gateway.
    pub gateway: Rc<Gateway>,
    /// Replaced as a whole on reload; requests under way keep theirs.
    pub router: RefCell<Rc<Router>>,
    /// This worker's access log.
    pub log: LogHandle,
    /// Where purges are brought.
    pub purges: Desk,
    /// The error log, which is told what each request cost where somebody follows that.
    pub errors: ErrorLog,
}

/// What came of a request, for the log.
pub struct Outcome {
    /// The status that was sent; 0 if none was.
    pub status: u16,
    /// Bytes of body.
    pub body: u64,
    /// What `Cache-Status` says, where the cache had a part.
    pub report: Option<Report>,
    /// Whether the response was sent to its last byte.
    pub end: End,
    /// Microseconds until the origin's head had come; `None` where it was not asked.
    pub origin_micros: Option<u64>,
}

impl Outcome {
    /// An answer that needed nobody else, sent to its last byte.
    fn whole(status: u16, body: u64, report: Option<Report>) -> Self {
        Self { status, body, report, end: End::Whole, origin_micros: None }
    }
}

/// What a log line says of the request.
struct Line<'a> {
    client: &'a Client,
    method: &'a str,
    target: &'a str,
    version: Version,
    authority: &'a str,
    /// The route's name; empty where none answered.
    route: &'a str,
    referer: Option<&'a [u8]>,
    user_agent: Option<&'a [u8]>,
    /// Microseconds from the whole head to the end; unknown for fast answers, which take less than the clock's
    /// reading would.
    micros: Option<u64>,
}

impl Handler for Front {
    fn answer_now(&self, head: &RequestHead<'_>, client: &Client, last: bool, out: &mut Outbox) -> Now {
        let router = self.router.borrow();
        let found = router.find(head.method, head.authority, head.target);
        let outcome = match found {
            Some((Target::Proxy(route), ..)) => match self.gateway.answer_now(route, head, last, out) {
                Some(hit) => Outcome::whole(hit.status, hit.body, Some(hit.report)),
                None => return Now::Later,
            },
            Some((Target::Files(files), ..)) => match files.answer_now(head, last, out) {
                Some((status, body)) => Outcome::whole(status, body, None),
                None => return Now::Later,
            },
            None => return Now::Later,
        };
        if self.log.is_on() {
            let line = Line {
                client,
                method: head.method,
                target: head.target,
                version: head.version,
                authority: head.authority,
                route: found.map_or("", |it| it.0.name()),
                referer: field::first(head.fields, "referer"),
                user_agent: field::first(head.fields, "user-agent"),
                micros: None,
            };
            self.record(&line, &outcome);
        }
        Now::Answered
    }

    async fn answer<'c>(
        &'c self,
        request: Request,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) {
        let is_told = self.log.is_on() || self.follows();
        let started = is_told.then(clock::precise_micros);
        let logged = is_told.then(|| request.clone());
        let router = self.router.borrow().clone();
        let found = router.find(&request.method, &request.authority, &request.target).map(|it| it.0);
        let purged = method::route(&router, &request);
        let name = purged.map(|it| &it.target).or(found).map_or("", Target::name);
        let outcome = match (purged, found) {
            (Some(matched), _) => method::answer(self, matched, &request, client, reply).await,
            (None, Some(Target::Proxy(route))) => {
                let summary = self.gateway.run(route, request, client, body, reply).await;
                Outcome {
                    status: summary.status,
                    body: summary.body,
                    report: summary.report,
                    end: if summary.complete { End::Whole } else { End::Cut },
                    origin_micros: summary.origin_micros,
                }
            }
            (None, Some(Target::Files(files))) => files.answer(&request, reply).await,
            (None, None) => no_route(&request, reply).await,
        };
        if let (Some(request), Some(started)) = (logged, started) {
            let line = Line {
                client,
                method: &request.method,
                target: &request.target,
                version: request.version,
                authority: &request.authority,
                route: name,
                referer: request.fields.get("referer"),
                user_agent: request.fields.get("user-agent"),
                micros: Some(clock::precise_micros().saturating_sub(started)),
            };
            self.follow(&line, &outcome);
            if self.log.is_on() {
                self.record(&line, &outcome);
            }
        }
    }

    fn rejected(&self, reject: Reject, client: &Client) {
        if self.log.is_on() {
            let outcome = Outcome::whole(reject.status(), 0, None);
            let line = Line {
                client,
                method: "-",
                target: "-",
                version: Version::Http11,
                authority: "",
                route: "",
                referer: None,
                user_agent: None,
                micros: None,
            };
            self.record(&line, &outcome);
        }
    }
}

impl Front {
    /// Whether somebody follows what the tiers below RAM, or the origins, do for single requests.
    fn follows(&self) -> bool {
        [Subsystem::Disk, Subsystem::Fleet, Subsystem::Origin]
            .iter()
            .any(|it| self.errors.tells(*it, Level::Debug))
    }

    /// Tells whoever follows the subsystem that answered.
    fn follow(&self, line: &Line<'_>, outcome: &Outcome) {
        let (subsystem, event, why) = match outcome.report {
            Some(Report::Hit { tier: Tier::Disk, .. }) => (Subsystem::Disk, "disk-hit", ""),
            Some(Report::Hit { tier: Tier::Fleet, .. }) => (Subsystem::Fleet, "fleet-hit", ""),
            Some(Report::Forwarded { reason, .. }) => {
                (Subsystem::Origin, "origin-asked", cache_status::token(reason))
            }
            _ => return,
        };
        if !self.errors.tells(subsystem, Level::Debug) {
            return;
        }
        let url = format!("http://{}{}", line.authority, line.target);
        let (status, micros) = (outcome.status.to_string(), line.micros.unwrap_or(0).to_string());
        let mut values =
            vec![("method", line.method), ("url", &url), ("status", &status), ("duration_us", &micros)];
        if !why.is_empty() {
            values.push(("why", why));
        }
        self.errors.of(subsystem).event(Level::Debug, event, &values);
    }

    /// One line of the access log.
    fn record(&self, line: &Line<'_>, outcome: &Outcome) {
        self.log.record(&Entry {
            time: clock::wall(),
            client: line.client.peer.map(|it| it.ip()),
            method: line.method.as_bytes(),
            target: line.target.as_bytes(),
            minor: if line.version == Version::Http10 { 0 } else { 1 },
            host: line.authority.as_bytes(),
            status: outcome.status,
            bytes: outcome.body,
            end: outcome.end,
            duration: line.micros.unwrap_or(0),
            referer: line.referer.unwrap_or_default(),
            user_agent: line.user_agent.unwrap_or_default(),
            cache: match outcome.report {
                Some(Report::Hit { ttl, tier }) => match (ttl > 0, tier) {
                    (true, Tier::Ram) => "hit",
                    (true, Tier::Disk) => "hit-disk",
                    (true, Tier::Fleet) => "hit-fleet",
                    (false, _) => "stale",
                },
                Some(Report::Forwarded { reason, .. }) => cache_status::token(reason),
                None => "",
            },
            route: line.route,
            origin_duration: outcome.origin_micros,
        });
    }
}

/// A request that no route answers for.
async fn no_route(request: &Request, mut reply: Reply<'_>) -> Outcome {
    let status = 404;
    let text = explain::error_page(status, "Nothing is served under this host and path.");
    let mut fields = FieldList::new();
    fields.push("Date", larder_semantics::date::format(clock::wall()));
    fields.push("Content-Type", "text/plain; charset=utf-8");
    let body = ResponseBody::Length(text.len() as u64);
    let sent = reply.head(status, &fields, body).await.is_ok()
        && (request.method == "HEAD" || reply.piece(Piece::Bytes(text.into())).await.is_ok());
    let bytes = reply.body_bytes();
    let end = if sent && reply.finish(None).await.is_ok() { End::Whole } else { End::Cut };
    Outcome { status, body: bytes, report: None, end, origin_micros: None }
}
