//! Talking to origins. The clients of HTTP/1.1 and HTTP/2, their pool, their deadlines; who of several is asked. What the answer means is not here.
//!
//! An [`OriginPool`] is one worker's connections to one address; [`OriginPool::send`] starts an [`Exchange`], which is one
//! request and its response. A [`Group`] is the origins of a route: its exchanges go from one that fails to another. All of it
//! lives on one thread, inside a `LocalSet`; what workers share of an origin is its [`OutlierState`].

mod address;
mod balance;
mod body;
mod channel;
mod connection;
mod deadline;
mod dial;
mod error;
mod exchange;
mod group;
mod health;
mod http2;
mod outlier_state;
mod pool;
mod replay_buffer;
mod request;
mod send_buffer;
mod stalled_exchanges;
mod tls;
mod wait_queue;

pub use address::OriginAddress;
pub use balance::{Balance, MOST_ORIGINS, hash};
pub use error::{Blame, OriginError};
pub use exchange::Exchange;
pub use group::{AllEjected, BalanceKey, Group, GroupRules, Paced};
pub use health::{Changes, CheckResult, HealthCheck, watch};
pub use http2::Http2;
pub use outlier_state::{OriginChange, OriginState, OutlierEjection, OutlierState};
pub use pool::{
    FailureReport, Measures, Membership, OriginPool, OriginSecurity, ReservedPermit, StateReport,
};
pub use request::{OutgoingRequest, RequestLine, is_idempotent};
pub use stalled_exchanges::{PermitWanted, StallCause, others_wait};
pub use tls::{OriginTls, TlsSettings};
pub use wait_queue::PermitWait;

use std::time::Duration;

/// Deadlines and bounds of one origin, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct OriginLimits {
    /// Until a connection stands, the wait for a free place among `connections` included.
    pub connect: Duration,
    /// The handshake of TLS, once the connection stands.
    pub handshake: Duration,
    /// From the request's last byte to the final response head.
    pub first_byte: Duration,
    /// Longest silence within the response, and longest time in which the origin takes no byte of a request.
    pub between_bytes: Duration,
    /// The whole exchange; zero is off.
    pub total: Duration,
    /// How long an unused connection is kept, at most.
    pub idle: Duration,
    /// Bytes of a response head.
    pub head_size: usize,
    /// Requests of this worker that one origin has at a time, and with HTTP/1.1 open connections; zero counts as one.
    pub connections: usize,
    /// Requests that wait for one of them, at most.
    pub queue: usize,
    /// For how long; `None` is as long as there is for a connection, and of the same time.
    pub queue_wait: Option<Duration>,
    /// Unused connections of this worker kept to one origin; with HTTP/2 zero alone means something.
    pub idle_connections: usize,
    /// Interim responses to one request.
    pub interim: usize,
}
