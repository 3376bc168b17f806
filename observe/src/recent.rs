//! The latest logged or streamed requests, with their heads, for `explain`. A request without a report is not kept: its
//! id is unknown.
//!
//! Credentials are not kept: of `Authorization` and `Proxy-Authorization` only their presence, of `Cookie` the names of
//! its cookies.

use super::Finished;
use super::ids::RequestId;
use bytes::Bytes;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::scheme::Scheme;
use larder_store::memory::on_heap;
use larder_wire::message::Reject;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The most requests that are kept, of all workers.
pub const KEPT: usize = 4096;

/// The most bytes of all kept requests.
const BYTES: usize = 8 << 20;

/// Replaces a value that is not kept. No kept value of a client equals it: such a value is replaced as well.
const MARK: &[u8] = b"-";

/// A request with its result.
pub struct RecentRequest {
    /// Its id.
    pub id: RequestId,
    /// Its method; `-` if its head was rejected.
    pub method: String,
    /// The protocol of an extended CONNECT, if it is one.
    pub protocol: Option<Box<str>>,
    /// The scheme of its connection.
    pub scheme: Scheme,
    /// Its target as received.
    pub target: String,
    /// Its host.
    pub authority: String,
    /// Its fields, without private values.
    pub fields: FieldList,
    /// The names of the fields whose values were left out.
    pub withheld: Vec<&'static str>,
    /// Its record in the stream.
    pub then: Bytes,
    /// The reason for rejecting its head, if it was: then the other fields are unknown.
    pub refused: Option<Reject>,
}

#[derive(Default)]
struct RecentRing {
    kept: VecDeque<Arc<RecentRequest>>,
    bytes: usize,
    /// The bytes of the records among them, which the stream counts.
    told: usize,
}

/// The kept requests of all workers: each writes into a ring of its own, so that no worker waits for another.
#[derive(Default)]
pub struct Recent(Mutex<Vec<Arc<Mutex<RecentRing>>>>);

/// One worker's end.
pub struct RecentKeeper {
    ring: Arc<Mutex<RecentRing>>,
    most: (usize, usize),
}

impl Recent {
    /// The end of one of `workers`.
    #[must_use]
    pub fn worker(&self, workers: usize) -> RecentKeeper {
        let ring: Arc<Mutex<RecentRing>> = Arc::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ring.clone());
        RecentKeeper { ring, most: (KEPT / workers.max(1), BYTES / workers.max(1)) }
    }

    /// Bytes of all kept requests, without their records in the stream.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |it: &Arc<Mutex<RecentRing>>| {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            ring.bytes - ring.told + ring.kept.capacity() * size_of::<Arc<RecentRequest>>()
        };
        rings.iter().map(bytes).sum::<usize>() as u64
    }

    /// The request with this id, if it is still kept.
    #[must_use]
    pub fn find(&self, id: RequestId) -> Option<Arc<RecentRequest>> {
        let rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rings.iter().find_map(|it| {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            ring.kept.iter().rev().find(|it| it.id == id).cloned()
        })
    }
}

impl RecentKeeper {
    /// Keeps a request, in place of the oldest if the ring is full.
    pub fn keep(&self, it: &Finished<'_>, id: RequestId, then: Bytes) {
        let (fields, withheld) = without_secrets(it.fields);
        let kept = RecentRequest {
            id,
            method: it.method.to_owned(),
            protocol: it.protocol.map(Into::into),
            scheme: it.client.scheme,
            target: it.target.to_owned(),
            authority: it.authority.to_owned(),
            fields,
            withheld,
            then,
            refused: it.refused,
        };
        let bytes = weight(&kept);
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.bytes += bytes;
        ring.told += kept.then.len();
        ring.kept.push_back(Arc::new(kept));
        while ring.kept.len() > self.most.0 || ring.bytes > self.most.1 {
            let Some(oldest) = ring.kept.pop_front() else { break };
            ring.bytes -= weight(&oldest);
            ring.told -= oldest.then.len();
        }
    }
}

fn weight(it: &RecentRequest) -> usize {
    let protocol = it.protocol.as_ref().map_or(0, |it| it.len());
    let texts = [it.method.len(), it.target.len(), it.authority.len(), protocol];
    let blocks = texts.iter().chain(&it.fields.blocks()).map(|it| on_heap(*it)).sum::<u64>();
    let own = blocks + on_heap(size_of::<RecentRequest>() + 2 * size_of::<usize>());
    usize::try_from(own).unwrap_or(usize::MAX) + it.then.len()
}

/// The fields to keep, and the names of those whose values are removed.
fn without_secrets(fields: &[Field<'_>]) -> (FieldList, Vec<&'static str>) {
    let (mut kept, mut withheld) = (FieldList::new(), Vec::new());
    for it in fields {
        let secret = ["Authorization", "Proxy-Authorization", "Cookie"].into_iter().find(|name| it.is(name));
        let Some(name) = secret else {
            kept.push(it.name, it.value);
            continue;
        };
        if !withheld.contains(&name) {
            withheld.push(name);
        }
        match name {
            "Cookie" => kept.push(it.name, names_alone(it.value)),
            _ => kept.push(it.name, MARK),
        }
    }
    (kept, withheld)
}

/// A `Cookie` value in which every cookie's value is [`MARK`].
fn names_alone(value: &[u8]) -> Vec<u8> {
    let name = |pair: &[u8]| {
        let pair = pair.trim_ascii();
        match pair.iter().position(|it| *it == b'=') {
            Some(end) => [&pair[..end], b"=", MARK].concat(),
            // A cookie without a name is only a value.
            None => MARK.to_vec(),
        }
    };
    value.split(|it| *it == b';').map(name).collect::<Vec<_>>().join(&b"; "[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ids;
    use crate::stream::tests::{hit, with_request};

    #[test]
    fn secrets_are_not_kept() {
        let fields = [
            Field { name: "cookie", value: b"session=s3cret; theme=dark;bare" },
            Field { name: "Authorization", value: b"Basic s3cret" },
            Field { name: "Accept", value: b"*/*" },
        ];
        let (kept, withheld) = without_secrets(&fields);
        assert_eq!(Some(&b"session=-; theme=-; -"[..]), kept.get("cookie"));
        assert_eq!(Some(&b"-"[..]), kept.get("authorization"));
        assert_eq!(Some(&b"*/*"[..]), kept.get("accept"));
        assert_eq!(["Cookie", "Authorization"], withheld[..]);
    }

    #[test]
    fn the_latest_are_known_and_the_oldest_go() {
        let (recent, ids) = (Recent::default(), Ids::default());
        let (one, other) = (recent.worker(2), recent.worker(2));
        let outcome = hit();
        let keep = |keeper: &RecentKeeper| {
            let id = ids.next();
            with_request(&outcome, |it| keeper.keep(it, id, Bytes::from_static(b"{}")));
            id
        };
        let (first, elsewhere) = (keep(&one), keep(&other));
        assert_eq!("/list/a?page=2", recent.find(first).unwrap().target);
        let last = (0..KEPT / 2).fold(first, |_, _| keep(&one));
        assert!(recent.find(first).is_none(), "it had to go");
        assert!(recent.find(elsewhere).is_some() && recent.find(last).is_some());
        with_request(&outcome, |it| one.keep(it, first, Bytes::from(vec![0; BYTES])));
        assert!(recent.find(first).is_none() && recent.find(last).is_none(), "bytes are bounded, too");
        assert_eq!(0, one.ring.lock().unwrap().bytes);
    }
}
