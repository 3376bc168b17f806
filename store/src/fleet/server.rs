//! One worker's view of one fleet server: its connections, and named operations. Other modules decide which server a key
//! belongs to, and whether a failing one is used.

use super::connection::{ServerConnection, ServerReply, now};
use super::health::{FleetServerState, Health, OperationResult, Round, ServerAdmission, ServerProbe};
use super::held_body::HeldBody;
use super::settings::FleetSettings;
use bytes::Bytes;
use larder_counters::Counters;
use larder_stdx::clock;
use larder_wire::memcached::{FleetKey, Hit, MemcachedReply, MemcachedRequest, MemcachedValue, ReplyKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Why a server gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationFailure {
    /// Not in time.
    Late,
    /// The connection could not be opened, or ended, or the received data was not an answer.
    Broken,
    /// Its queue is full: the request was not sent.
    Full,
    /// It refused: out of memory, too large, not a number, not supported.
    Refused,
}

/// The result of `add`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was absent, and is stored now.
    Stored,
    /// It was there already, and is unchanged.
    Exists,
}

/// An item as it was read.
pub(super) struct FleetItem {
    pub(super) value: Bytes,
    pub(super) hit: Hit,
    /// The number of the server that has it.
    pub(super) server: usize,
}

/// The connection for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionChoice {
    /// The least busy one.
    Any,
    /// Another than this, where there is one.
    Not(usize),
    /// Always the same for one number: changes of an item use the connection of its key, so that a removal never
    /// overtakes a write.
    Of(u64),
}

impl ConnectionChoice {
    /// The one of the public operations.
    const FIXED: ConnectionChoice = ConnectionChoice::Of(0);

    /// The one for changes of the item under `key`.
    pub(super) fn of(key: &FleetKey) -> ConnectionChoice {
        ConnectionChoice::Of(xxhash_rust::xxh3::xxh3_64(key.as_bytes()))
    }
}

/// One server. The public operations are for data that is kept on each server under fixed keys. They are sent whatever
/// the server's health, and end by their deadline.
pub struct MemcachedServer {
    at: usize,
    settings: Arc<FleetSettings>,
    health: Arc<Health>,
    counters: Arc<Counters>,
    connections: Box<[ServerConnection]>,
}

impl MemcachedServer {
    pub(super) fn new(
        at: usize,
        settings: Arc<FleetSettings>,
        health: Arc<Health>,
        counters: Arc<Counters>,
    ) -> Rc<Self> {
        let place = &settings.servers[at].at;
        let connection = |_| ServerConnection::new(place.clone(), settings.clone(), counters.clone());
        let connections = (0..settings.connections.max(1)).map(connection).collect();
        Rc::new(Self { at, settings, health, counters, connections })
    }

    /// Its index among the servers.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The values of several keys, in one round trip; `None` for an absent one.
    ///
    /// # Errors
    /// One of them was not answered.
    pub async fn get_many(
        &self,
        keys: &[FleetKey],
        within: Duration,
    ) -> Result<Vec<Option<Bytes>>, OperationFailure> {
        let deadline = now() + within;
        let get = |key| MemcachedRequest::Get { key, named: true, vivify: None, recache: None };
        // All on one connection, so that they arrive together.
        let asked: Vec<PendingOperation> = keys
            .iter()
            .map(|it| self.request(&get(it), ConnectionChoice::FIXED, deadline))
            .collect::<Result<_, _>>()?;
        let mut values = Vec::with_capacity(keys.len());
        for it in asked {
            let answer = self.answer(it, deadline).await?;
            match answer.reply {
                MemcachedReply::Hit(_) => values.push(Some(answer.value)),
                MemcachedReply::Miss => values.push(None),
                _ => return Err(OperationFailure::Refused),
            }
        }
        Ok(values)
    }

    /// Writes a value to an absent key. Kept for `expire` seconds; zero is for ever.
    ///
    /// # Errors
    /// It may or may not be stored.
    pub async fn add(
        &self,
        key: &FleetKey,
        value: &[u8],
        expire: u32,
        within: Duration,
    ) -> Result<Added, OperationFailure> {
        let value = &[value];
        let request = MemcachedRequest::Add { key, value: MemcachedValue::of(value), flags: 0, expire };
        match self.exchange(&request, ConnectionChoice::FIXED, now() + within).await?.reply {
            MemcachedReply::Done => Ok(Added::Stored),
            MemcachedReply::NotStored => Ok(Added::Exists),
            _ => Err(OperationFailure::Refused),
        }
    }

    /// Writes a value. Kept for `expire` seconds; zero is for ever.
    ///
    /// # Errors
    /// It may or may not be stored.
    pub async fn set(
        &self,
        key: &FleetKey,
        value: &[u8],
        expire: u32,
        within: Duration,
    ) -> Result<(), OperationFailure> {
        let value = &[value];
        let value = MemcachedValue::of(value);
        let request =
            MemcachedRequest::Set { key, value, flags: 0, expire, cas: None, stale_if_older: false };
        match self.exchange(&request, ConnectionChoice::FIXED, now() + within).await?.reply {
            MemcachedReply::Done => Ok(()),
            _ => Err(OperationFailure::Refused),
        }
    }

    /// Adds `by` to a number that is kept as decimal text, and returns the new value; `None` where there is none. With
    /// `begin` an absent one is created: its first value, and the seconds for which it is kept.
    ///
    /// # Errors
    /// It may or may not have been added.
    pub async fn increment(
        &self,
        key: &FleetKey,
        by: u64,
        begin: Option<(u64, u32)>,
        within: Duration,
    ) -> Result<Option<u64>, OperationFailure> {
        let request = MemcachedRequest::Increment { key, by, begin };
        match self.exchange(&request, ConnectionChoice::FIXED, now() + within).await?.reply {
            MemcachedReply::Number(it) => Ok(Some(it)),
            MemcachedReply::NotFound => Ok(None),
            _ => Err(OperationFailure::Refused),
        }
    }

    /// Keeps a value for `expire` seconds from now; returns whether it exists.
    ///
    /// # Errors
    /// It may or may not have been done.
    pub async fn touch(
        &self,
        key: &FleetKey,
        expire: u32,
        within: Duration,
    ) -> Result<bool, OperationFailure> {
        let request = MemcachedRequest::Touch { key, expire };
        match self.exchange(&request, ConnectionChoice::FIXED, now() + within).await?.reply {
            MemcachedReply::Done => Ok(true),
            MemcachedReply::NotFound => Ok(false),
            _ => Err(OperationFailure::Refused),
        }
    }

    /// Removes a value; returns whether it existed.
    ///
    /// # Errors
    /// It may or may not have been removed.
    pub async fn delete(&self, key: &FleetKey, within: Duration) -> Result<bool, OperationFailure> {
        let request = MemcachedRequest::Delete { key, stale: None, cas: None };
        match self.exchange(&request, ConnectionChoice::FIXED, now() + within).await?.reply {
            MemcachedReply::Done => Ok(true),
            MemcachedReply::NotFound => Ok(false),
            _ => Err(OperationFailure::Refused),
        }
    }

    /// Writes a value whose first bytes are in the request's text, and the others in `rest`. Returns the server's answer.
    pub(super) async fn store(
        &self,
        request: &MemcachedRequest<'_>,
        rest: Option<&HeldBody>,
        way: ConnectionChoice,
        deadline: Instant,
    ) -> Result<ServerReply, OperationFailure> {
        let asked = self.request_with(request, rest, way, deadline)?;
        self.answer(asked, deadline).await
    }

    /// One request and its answer. Reports the result to `health`.
    pub(super) async fn exchange(
        &self,
        request: &MemcachedRequest<'_>,
        way: ConnectionChoice,
        deadline: Instant,
    ) -> Result<ServerReply, OperationFailure> {
        let asked = self.request(request, way, deadline)?;
        self.answer(asked, deadline).await
    }

    /// Sends a request without awaiting the answer, if there is a connection: on `way`, after earlier requests there, or
    /// on any where there were none.
    pub(super) fn send(&self, request: &MemcachedRequest<'_>, way: ConnectionChoice, deadline: Instant) {
        let running = |it: &&_| ServerConnection::is_running(it);
        let by_way = Some(&self.connections[self.way(way)]).filter(running);
        if let Some(connection) = by_way.or_else(|| self.connections.iter().find(running)) {
            let _ = connection.send_request(request, None, deadline);
        }
    }

    /// Sends a request. Requests on one connection are sent in the order of the calls.
    pub(super) fn request(
        &self,
        request: &MemcachedRequest<'_>,
        way: ConnectionChoice,
        deadline: Instant,
    ) -> Result<PendingOperation, OperationFailure> {
        self.request_with(request, None, way, deadline)
    }

    fn request_with(
        &self,
        request: &MemcachedRequest<'_>,
        rest: Option<&HeldBody>,
        way: ConnectionChoice,
        deadline: Instant,
    ) -> Result<PendingOperation, OperationFailure> {
        let round = self.health.round(self.at);
        let kind = request.kind();
        let way = self.way(way);
        let followed = self.health.follower().map(|_| FollowedOperation::of(request));
        match self.connections[way].send_request(request, rest, deadline) {
            Ok(answer) => Ok(PendingOperation { answer, round, kind, way, followed }),
            Err(_) => {
                self.report(kind, followed.as_ref(), "full");
                Err(OperationFailure::Full)
            }
        }
    }

    /// Waits for the answer.
    pub(super) async fn answer(
        &self,
        asked: PendingOperation,
        deadline: Instant,
    ) -> Result<ServerReply, OperationFailure> {
        let failed = match timeout_at(deadline, asked.answer).await {
            Ok(Ok(answer)) if is_sign_of_health(asked.kind, &answer.reply) => {
                self.health.succeeded(self.at, clock::monotonic());
                self.report(asked.kind, asked.followed.as_ref(), name_of(&answer.reply));
                return Ok(answer);
            }
            Ok(Ok(_)) => OperationFailure::Refused,
            Ok(Err(_)) => OperationFailure::Broken,
            Err(_) => {
                self.counters.fleet_timeouts.add(1);
                OperationFailure::Late
            }
        };
        self.health.failed(self.at, asked.round, clock::monotonic());
        let came = match failed {
            OperationFailure::Late => "late",
            OperationFailure::Broken => "broken",
            OperationFailure::Full => "full",
            OperationFailure::Refused => "refused",
        };
        self.report(asked.kind, asked.followed.as_ref(), came);
        Err(failed)
    }

    fn report(&self, kind: ReplyKind, followed: Option<&FollowedOperation>, came: &'static str) {
        let (Some(followed), Some(follower)) = (followed, self.health.follower()) else { return };
        let what = match kind {
            ReplyKind::Get => "get",
            ReplyKind::Set => "set",
            ReplyKind::Add => "add",
            ReplyKind::Delete => "delete",
            ReplyKind::Increment => "increment",
            ReplyKind::Touch => "touch",
            ReplyKind::Noop => "noop",
        };
        let server = &self.settings.servers[self.at];
        let micros = clock::precise_micros().saturating_sub(followed.since);
        (follower.report)(&OperationResult { server, what, key: &followed.key, came, micros });
    }

    fn way(&self, way: ConnectionChoice) -> usize {
        let count = self.connections.len();
        let least = || (0..count).min_by_key(|it| self.connections[*it].load()).unwrap_or(0);
        match way {
            ConnectionChoice::Any => least(),
            ConnectionChoice::Not(at) => (at + 1) % count,
            #[allow(clippy::cast_possible_truncation, reason = "below the number of connections")]
            ConnectionChoice::Of(number) => (number % count as u64) as usize,
        }
    }

    /// Probes the server in the background if it is ejected and a probe is due, while no request waits.
    pub(super) fn probe_if_due(self: &Rc<Self>) {
        if self.health.state(self.at) != FleetServerState::Ejected {
            return;
        }
        if let ServerAdmission::Probe(probe) = self.health.may_send(self.at, clock::monotonic()) {
            self.probe(probe);
        }
    }

    /// Asks the server; an answer ends the ejection.
    fn probe(self: &Rc<Self>, probe: ServerProbe) {
        let server = self.clone();
        tokio::task::spawn_local(async move {
            let deadline = now() + server.settings.connect_timeout + server.settings.timeout;
            // On a new connection, so that nothing stuck on an old one delays it.
            let at = &server.settings.servers[server.at].at;
            let connection =
                ServerConnection::new(at.clone(), server.settings.clone(), server.counters.clone());
            let Ok(answer) = connection.send_request(&MemcachedRequest::Noop, None, deadline) else { return };
            if let Ok(Ok(ServerReply { reply: MemcachedReply::Done, .. })) =
                timeout_at(deadline, answer).await
            {
                server.connections.iter().for_each(ServerConnection::replace_if_late);
                probe.answered();
            }
        });
    }
}

/// Whether a server with this answer is healthy. One without room for a value is; one that cannot even read is not.
fn is_sign_of_health(kind: ReplyKind, reply: &MemcachedReply) -> bool {
    match reply {
        MemcachedReply::Refused(refusal) => !refusal.closes() && kind != ReplyKind::Get,
        _ => true,
    }
}

fn name_of(reply: &MemcachedReply) -> &'static str {
    match reply {
        MemcachedReply::Hit(_) => "hit",
        MemcachedReply::Miss => "miss",
        MemcachedReply::Done => "done",
        MemcachedReply::Number(_) => "number",
        MemcachedReply::NotStored => "not-stored",
        MemcachedReply::Exists => "exists",
        MemcachedReply::NotFound => "not-found",
        MemcachedReply::Refused(_) => "refused",
    }
}

/// Facts of a request for a follower of operations.
struct FollowedOperation {
    key: String,
    /// Microseconds, as `clock::precise_micros` counts them.
    since: u64,
}

impl FollowedOperation {
    fn of(request: &MemcachedRequest<'_>) -> Self {
        let key = match request {
            MemcachedRequest::Get { key, .. }
            | MemcachedRequest::Set { key, .. }
            | MemcachedRequest::Add { key, .. }
            | MemcachedRequest::Delete { key, .. }
            | MemcachedRequest::Increment { key, .. }
            | MemcachedRequest::Touch { key, .. } => key.as_str(),
            MemcachedRequest::Noop => "",
        };
        Self { key: key.to_owned(), since: clock::precise_micros() }
    }
}

/// A request that was sent.
pub(super) struct PendingOperation {
    answer: tokio::sync::oneshot::Receiver<ServerReply>,
    round: Round,
    kind: ReplyKind,
    /// The connection on which it was sent.
    pub(super) way: usize,
    followed: Option<FollowedOperation>,
}
