//! A fill that is fed by a response made here: shared, stored, and cut where its maker goes away.

use super::TierLookup;
use super::*;
use crate::lower_tiers::LowerTiers;
use crate::route::HostSent;
use crate::source::{MadeBody, MadePiece, MadeResponse, MadeResponseFuture, ResponseMaker};
use bytes::Bytes;
use larder_counters::Counters;
use larder_origin::{Group, GroupRules, OriginAddress, OriginLimits, OriginPool};
use larder_semantics::policy::Policy;
use larder_semantics::scheme::Scheme;
use larder_store::Begin;
use larder_store::Store;
use larder_store::ram::{Lookup, RamSettings};
use larder_wire::message::{Framing, HeadKind};
use std::time::Duration;
use tokio::task::LocalSet;

/// Makes three pieces, and their end unless it breaks off.
struct Pieces {
    breaks_off: bool,
    made: Cell<usize>,
}

impl ResponseMaker for Pieces {
    fn make(&self, _request: &Rc<Request>, _body: Bytes) -> MadeResponseFuture {
        self.made.set(self.made.get() + 1);
        let breaks_off = self.breaks_off;
        let (sender, body) = MadeBody::new(1);
        tokio::task::spawn_local(async move {
            for piece in ["one ", "two ", "three"] {
                let _ = sender.send(MadePiece::Bytes(Bytes::from_static(piece.as_bytes()))).await;
            }
            if !breaks_off {
                let _ = sender.send(MadePiece::End).await;
            }
        });
        let mut fields = FieldList::new();
        fields.push("Cache-Control", "max-age=60");
        let head = ResponseHead {
            status: 200,
            version: Version::Http11,
            fields,
            framing: Framing::Chunked,
            keep_alive: true,
            kind: HeadKind::Response,
        };
        Box::pin(async move { Ok(MadeResponse { head, body }) })
    }
}

fn job(maker: Rc<Pieces>) -> FillJob {
    let counters = Arc::new(Counters::default());
    let settings = RamSettings { budget: 16 << 20, heap_line: 16 * 1024, fills: 10 };
    let store = Store::new(settings, counters.clone()).unwrap();
    let gateway = Gateway::new(store, counters.clone(), Arc::default(), LowerTiers::default());
    let rules = GroupRules::single_origin();
    // It is never asked.
    let limits = OriginLimits {
        connect: Duration::ZERO,
        handshake: Duration::ZERO,
        first_byte: Duration::ZERO,
        between_bytes: Duration::ZERO,
        total: Duration::ZERO,
        idle: Duration::ZERO,
        head_size: 0,
        connections: 1,
        queue: 0,
        queue_wait: None,
        idle_connections: 0,
        interim: 0,
    };
    let origin = OriginPool::new(OriginAddress::Unix("/none".into()), limits, counters.clone());
    let origins = Group::new(vec![origin], rules);
    let host = HostSent::Own("h".to_owned());
    let mut route = GatewayRoute::new("h/*".to_owned(), Policy::default(), origins, host);
    Rc::get_mut(&mut route).unwrap().maker = Some(maker);
    let request = Request {
        method: "GET".to_owned(),
        target: "/".to_owned(),
        authority: "h".to_owned(),
        scheme: Scheme::Http,
        version: Version::Http11,
        protocol: None,
        fields: FieldList::new(),
        framing: Framing::Empty,
        expects_continue: false,
    };
    let client = Client {
        peer: None,
        hops: Vec::new(),
        local: None,
        scheme: Scheme::Http,
        listener: "".into(),
        tls: None,
        began: Cell::new(0),
        is_own: false,
        alternative: None,
    };
    let key = b"http://h/".to_vec();
    FillJob {
        hash: gateway.store.hash(&key),
        gateway,
        route,
        request: Rc::new(request),
        client,
        key,
        stored: None,
        body: None,
        fetch: FetchKind::Full,
        below: TierLookup::Skip,
        purpose: FillPurpose::Response,
        reason: FillReason::new(MissReason::FirstRequest),
        is_hit_for_miss: false,
        is_after_failure: false,
        local: Rc::default(),
        stages: FillStages::default(),
        script: OnceCell::new(),
        lease: Cell::new(None),
    }
}

/// What two readers of a made response get, and whether it is stored then.
async fn made(breaks_off: bool) -> ([(Vec<u8>, bool); 2], bool) {
    let maker = Rc::new(Pieces { breaks_off, made: Cell::new(0) });
    let job = job(maker.clone());
    let (store, hash, key) = (job.gateway.store.clone(), job.hash, job.key.clone());
    let Begin::Lead(writer, mut first) = store.begin(hash, hash, &key) else { panic!("none leads yet") };
    let Begin::Follow(mut second) = store.begin(hash, hash, &key) else { panic!("it is not followed") };
    job.spawn(writer);
    let mut read = [(Vec::new(), false), (Vec::new(), false)];
    for (reader, (bytes, whole)) in [&mut first, &mut second].into_iter().zip(&mut read) {
        assert!(matches!(reader.head().await, FillHead::Shared(_)));
        loop {
            match reader.next().await {
                Ok(more) => bytes.extend_from_slice(&more),
                Err(end) => {
                    *whole = matches!(end, FillEnd::Complete(_));
                    break;
                }
            }
        }
    }
    assert_eq!(1, maker.made.get(), "it is made once for both");
    (read, matches!(store.lookup(hash, &key, 0), Lookup::Entry(_)))
}

#[tokio::test(flavor = "current_thread")]
async fn a_made_response_is_shared_and_stored() {
    let whole = (b"one two three".to_vec(), true);
    assert_eq!(([whole.clone(), whole], true), LocalSet::new().run_until(made(false)).await);
}

#[tokio::test(flavor = "current_thread")]
async fn a_made_response_whose_maker_goes_away_is_cut_and_not_stored() {
    let cut = (b"one two three".to_vec(), false);
    assert_eq!(([cut.clone(), cut], false), LocalSet::new().run_until(made(true)).await);
}
