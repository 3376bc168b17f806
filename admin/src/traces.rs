//! The endpoints of traces: the latest, the stream of new ones, and the sampling rates.

use super::{Admin, AdminRequest, AdminResponse, parameters, problem, problem_at};
use bytes::Bytes;
use larder_gateway::stages::RequestStage;
use larder_observe::counted::HeapSum;
use larder_observe::sampling::{Leased, OWNERS, TraceLease, TraceRate};
use larder_observe::traces::Following;
use larder_stdx::clock::{self, Monotonic};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc;

/// The default number of listed traces.
const LIMIT: usize = 200;
/// The most listed traces.
const MOST: usize = 4096;
/// The interval of heartbeats in a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The most bytes of the name of a lease's owner.
const OWNER: usize = 64;
/// Events that may wait for the connection.
const EVENTS: usize = 16;

impl Admin {
    /// `GET /api/v1/traces`.
    pub(super) fn traces(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let pairs = match parameters::pairs(asked.query) {
            Ok(pairs) => pairs,
            Err(wrong) => return wrong.into(),
        };
        let limit = match parameter(&pairs, "limit").map(|it| it.parse::<usize>()) {
            None => LIMIT,
            Some(Ok(it)) if (1..=MOST).contains(&it) => it,
            Some(_) => {
                return problem_at(400, format!("limit is not a number between 1 and {MOST}."), "limit");
            }
        };
        let route = parameter(&pairs, "route").filter(|it| *it != "*");
        if let Some(unknown) = route.and_then(|it| self.unknown_route(it)) {
            return unknown;
        }
        let latest = self.traces.latest(route, limit);
        let traces: Vec<Value> = latest.iter().map(|it| it.json()).collect();
        let stages: Vec<&str> = RequestStage::ALL.iter().map(|it| it.name()).collect();
        AdminResponse::Json(200, json!({ "sampling": self.sampling(), "stages": stages, "traces": traces }))
    }

    /// `PUT /api/v1/traces/sampling`: in force until the next reload or restart; or additionally for the given number of
    /// seconds.
    pub(super) fn set_sampling(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let route = asked.json["route"].as_str().unwrap_or_default();
        let every = asked.json["every"].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
        if route != "*"
            && let Some(unknown) = self.unknown_route(route)
        {
            return unknown;
        }
        let sampling = &self.traces.sampling;
        let owner = asked.json["owner"].as_str().unwrap_or_default();
        let until = match asked.json["for"].as_u64() {
            None if !owner.is_empty() => {
                let detail = "\"owner\" is of who wants a rate for a while, and there is no \"for\".";
                return problem_at(400, detail, "owner");
            }
            None => {
                sampling.set(route, every);
                "the next reload or restart".to_owned()
            }
            Some(0) => {
                sampling.release(route, owner);
                "now".to_owned()
            }
            Some(_) if every == 0 => {
                let detail = "\"every\" is 0, which asks for nothing: the densest of what is asked for holds. \
                              To trace none, leave \"for\" out.";
                return problem_at(400, detail, "every");
            }
            Some(_) if owner.len() > OWNER => {
                return problem_at(400, format!("\"owner\" has more than {OWNER} bytes."), "owner");
            }
            Some(seconds) => {
                let until = Monotonic(clock::monotonic_now().0.saturating_add(seconds.saturating_mul(1000)));
                // Expired leases take no room.
                sampling.expire(clock::monotonic_now());
                if sampling.lease(route, &TraceLease { owner: owner.into(), every, until }) == Leased::NoRoom
                {
                    let detail = format!("{OWNERS} record {route} already; end one of them.");
                    return problem(503, detail);
                }
                format!("{seconds} s from now")
            }
        };
        AdminResponse::Json(200, json!({ "sampling": self.sampling(), "until": until }))
    }

    /// `GET /api/v1/traces/stream`.
    pub(super) fn stream_traces(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let pairs = match parameters::pairs(asked.query) {
            Ok(pairs) => pairs,
            Err(wrong) => return wrong.into(),
        };
        let route = parameter(&pairs, "route").filter(|it| *it != "*");
        if let Some(unknown) = route.and_then(|it| self.unknown_route(it)) {
            return unknown;
        }
        let Some(following) = self.traces.follow(route.map(str::to_owned)) else {
            return problem(503, "Too many follow the traces already; end one of them.");
        };
        let (events, receiver) = mpsc::channel(EVENTS);
        tokio::task::spawn_local(forward(following, events, self.stream.sum().clone()));
        AdminResponse::Events(receiver)
    }

    /// The rejection of an unknown route.
    fn unknown_route(&self, route: &str) -> Option<AdminResponse> {
        let names: Vec<String> = self.traces.sampling.rates().into_iter().map(|it| it.route).collect();
        let known = names.iter().any(|it| it == route);
        let detail = || format!("Unknown route {route:?}; the routes are {}.", names.join(", "));
        (!known).then(|| problem_at(404, detail(), "route"))
    }

    fn sampling(&self) -> Value {
        let now = clock::monotonic_now();
        self.traces.sampling.expire(now);
        let details = |it: TraceRate| {
            let mut details = json!({ "route": it.route, "every": it.now() });
            if let Some(until) = it.until() {
                details["for"] = until.0.saturating_sub(now.0).div_ceil(1000).into();
                details["set"] = it.every.into();
            }
            details
        };
        self.traces.sampling.rates().into_iter().map(details).collect()
    }
}

/// Sends traces as events, until the client is gone.
async fn forward(mut following: Following, events: mpsc::Sender<Bytes>, sum: HeapSum) {
    let mut beat = tokio::time::interval(HEARTBEAT);
    loop {
        let event = tokio::select! {
            biased;
            () = events.closed() => return,
            trace = following.traces.recv() => match trace {
                Some(trace) => format!("event: trace\ndata: {}\n\n", trace.json()),
                None => return,
            },
            _ = beat.tick() => ": alive\n\n".to_owned(),
        };
        let lost = following.lost.swap(0, Relaxed);
        let lost =
            if lost > 0 { format!("event: lost\ndata: {{\"count\":{lost}}}\n\n") } else { String::new() };
        if events.send(sum.text((lost + &event).as_bytes())).await.is_err() {
            return;
        }
    }
}

fn parameter<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|it| it.0 == name).map(|it| it.1.as_str()).filter(|it| !it.is_empty())
}
