//! Finished traces: the latest of all workers in a ring, and the followers that receive new ones. Neither blocks a
//! worker: a trace that finds the lock taken is lost, and counted. The selection of requests is in `sampling`.

use super::counted::{CountedBytes, HeapSum};
use super::sampling::Sampling;
use larder_counters::Counters;
use larder_gateway::stages::{SpentTimes, StepTime};
use larder_semantics::scheme::Scheme;
use larder_semantics::secret::shown_target;
use larder_stdx::clock;
use larder_store::memory::on_heap;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Traces that are kept for later requests.
const KEPT: usize = 4096;
/// The most traces that wait for one follower.
const AHEAD: usize = 1024;
/// The most followers.
const FOLLOWERS: usize = 16;
/// The most bytes of a URL that are kept.
const URL: usize = 2048;

/// One traced request, from its first byte to its last.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    /// Unique.
    pub id: String,
    /// Its beginning, microseconds since the Unix epoch.
    pub start_us: u64,
    /// The route's name.
    pub route: String,
    /// Its method.
    pub method: String,
    /// Its URL, truncated to 2 KiB.
    pub url: String,
    /// The status sent; 0 if none was.
    pub status: u16,
    /// Bytes of body sent.
    pub bytes: u64,
    /// The cache result, as in the access log.
    pub cache: &'static str,
    /// The time in each stage.
    pub spent: SpentTimes,
    /// The steps of the request and of the fill that it started.
    pub steps: Vec<StepTime>,
}

impl RequestTrace {
    /// Bytes of its texts, and of its slot in the ring.
    fn elsewhere(&self) -> u64 {
        let texts = [&self.id, &self.route, &self.method, &self.url];
        let steps = on_heap(self.steps.capacity() * size_of::<StepTime>());
        size_of::<usize>() as u64 + steps + texts.iter().map(|it| on_heap(it.capacity())).sum::<u64>()
    }

    /// The form of the API and of trace files: see docs/trace-format.md.
    pub fn json(&self) -> Value {
        let stages: Map<String, Value> =
            self.spent.iter().map(|(stage, micros)| (stage.name().to_owned(), micros.into())).collect();
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|it| json!({ "machine": it.machine, "step": it.step, "at_us": it.at }))
            .collect();
        json!({
            "id": self.id,
            "start_us": self.start_us,
            "route": self.route,
            "method": self.method,
            "url": self.url,
            "status": self.status,
            "bytes": self.bytes,
            "cache": self.cache,
            "total_us": self.spent.total(),
            "stages": stages,
            "steps": steps,
        })
    }
}

/// The kept part of a URL, without the values of secret query parameters.
pub fn url(scheme: Scheme, authority: &str, target: &str) -> String {
    let mut url = format!("{}://{authority}{}", scheme.name(), shown_target(target));
    if url.len() > URL {
        let cut = (0..=URL).rev().find(|it| url.is_char_boundary(*it)).unwrap_or(0);
        url.truncate(cut);
        url.push('…');
    }
    url
}

/// One follower.
struct TraceFollower {
    route: Option<String>,
    queue: mpsc::Sender<Arc<CountedBytes<RequestTrace>>>,
    lost: Arc<AtomicU64>,
}

/// A follower's end.
pub struct Following {
    /// New traces.
    pub traces: mpsc::Receiver<Arc<CountedBytes<RequestTrace>>>,
    /// The number of traces that did not fit since this was last set to 0.
    pub lost: Arc<AtomicU64>,
}

#[derive(Default)]
struct KeptTraces {
    ring: VecDeque<Arc<CountedBytes<RequestTrace>>>,
    /// The number of unread traces, the newest of the ring.
    unread: usize,
    followers: Vec<TraceFollower>,
}

/// The traces of all workers.
#[derive(Default)]
pub struct Traces {
    /// The selection of traced requests.
    pub sampling: Arc<Sampling>,
    kept: Mutex<KeptTraces>,
    /// Traces that are kept, or wait for a follower.
    sum: HeapSum,
}

impl Traces {
    /// Keeps a trace, and sends it to the followers. Never waits.
    pub fn add(&self, trace: RequestTrace, counters: &Counters) {
        counters.traces.add(1);
        let elsewhere = trace.elsewhere();
        let trace = Arc::new(self.sum.enter(trace, elsewhere));
        let Ok(mut kept) = self.kept.try_lock() else {
            return counters.traces_lost.add(1);
        };
        kept.followers.retain(|it| {
            if it.route.as_ref().is_some_and(|it| *it != trace.route) {
                return !it.queue.is_closed();
            }
            match it.queue.try_send(trace.clone()) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    it.lost.fetch_add(1, Relaxed);
                    counters.traces_lost.add(1);
                    true
                }
            }
        });
        if kept.ring.len() == KEPT {
            kept.ring.pop_front();
            if kept.unread == KEPT {
                kept.unread -= 1;
                counters.traces_overwritten.add(1);
            }
        }
        kept.ring.push_back(trace);
        kept.unread += 1;
    }

    /// The latest of a route or of all, at most `limit`, the newest first. Counts all kept traces as read.
    pub fn latest(&self, route: Option<&str>, limit: usize) -> Vec<Arc<CountedBytes<RequestTrace>>> {
        let mut kept = self.kept();
        kept.unread = 0;
        let of_route = |it: &&Arc<CountedBytes<RequestTrace>>| route.is_none_or(|route| it.route == route);
        kept.ring.iter().rev().filter(of_route).take(limit).cloned().collect()
    }

    /// Bytes of the traces, including those that wait for a follower.
    pub fn bytes(&self) -> u64 {
        self.sum.bytes()
    }

    /// Follows the traces of a route, or all; `None` if there are too many followers.
    pub fn follow(&self, route: Option<String>) -> Option<Following> {
        let mut kept = self.kept();
        kept.followers.retain(|it| !it.queue.is_closed());
        if kept.followers.len() >= FOLLOWERS {
            return None;
        }
        let (queue, traces) = mpsc::channel(AHEAD);
        let lost = Arc::new(AtomicU64::new(0));
        kept.followers.push(TraceFollower { route, queue, lost: lost.clone() });
        Some(Following { traces, lost })
    }

    fn kept(&self) -> MutexGuard<'_, KeptTraces> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts a time of the precise clock to microseconds since the Unix epoch, for traces.
pub fn start_us(began: u64) -> u64 {
    clock::unix_micros(began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_gateway::stages::RequestStage;

    fn trace(number: u64, route: &str) -> RequestTrace {
        let mut spent = SpentTimes::default();
        spent.add(RequestStage::Lookup, 3);
        spent.add(RequestStage::Write, number);
        RequestTrace {
            id: number.to_string(),
            start_us: 1_000 + number,
            route: route.to_owned(),
            method: "GET".to_owned(),
            url: url(Scheme::Http, "a", "/x"),
            status: 200,
            bytes: 5,
            cache: "hit",
            spent,
            steps: Vec::new(),
        }
    }

    #[test]
    fn traces_overwritten_before_they_are_read_are_counted() {
        let (traces, counters) = (Traces::default(), Counters::default());
        let more = KEPT as u64 + 3;
        (0..more).for_each(|it| traces.add(trace(it, "a"), &counters));
        assert_eq!(
            (more, 3, 0),
            (counters.traces.get(), counters.traces_overwritten.get(), counters.traces_lost.get())
        );
        let latest = traces.latest(None, 2);
        assert_eq!(vec![more - 1, more - 2], latest.iter().map(|it| it.start_us - 1_000).collect::<Vec<_>>());
        (0..KEPT as u64).for_each(|it| traces.add(trace(it, "a"), &counters));
        assert_eq!(3, counters.traces_overwritten.get(), "all that went was read");
        traces.add(trace(0, "a"), &counters);
        assert_eq!(4, counters.traces_overwritten.get());
        drop(latest);
        let (latest, bytes) = (traces.latest(None, KEPT), traces.bytes());
        assert_eq!(KEPT, latest.len());
        let sum = traces.sum.clone();
        drop(traces);
        assert_eq!(bytes, sum.bytes(), "somebody has them");
        drop(latest);
        assert_eq!(0, sum.bytes());
    }

    #[test]
    fn a_slow_follower_loses_traces_and_blocks_no_other() {
        let (traces, counters) = (Traces::default(), Counters::default());
        let mut all = traces.follow(None).unwrap();
        let mut one = traces.follow(Some("b".to_owned())).unwrap();
        (0..AHEAD as u64 + 2).for_each(|it| traces.add(trace(it, "a"), &counters));
        traces.add(trace(7, "b"), &counters);
        assert_eq!((3, 3), (all.lost.load(Relaxed), counters.traces_lost.get()));
        assert_eq!("0", all.traces.try_recv().unwrap().id);
        assert_eq!("7", one.traces.try_recv().unwrap().id);
        assert!(one.traces.try_recv().is_err());
    }

    #[test]
    fn the_followers_of_traces_are_bounded() {
        let traces = Traces::default();
        let all: Vec<_> = (0..FOLLOWERS).map(|_| traces.follow(None).unwrap()).collect();
        assert!(traces.follow(None).is_none());
        drop(all);
        assert!(traces.follow(None).is_some(), "those who left make room");
    }

    #[test]
    fn as_json() {
        let json = trace(9, "a").json().to_string();
        let expect = r#"{"id":"9","start_us":1009,"route":"a","method":"GET","url":"http://a/x","status":200,"bytes":5,"cache":"hit","total_us":12,"stages":{"lookup":3,"write":9},"steps":[]}"#;
        assert_eq!(expect, json);
        let long = url(Scheme::Http, "a", &"ä".repeat(URL));
        assert!(long.len() <= URL + 3 && long.ends_with('…'));
    }
}
