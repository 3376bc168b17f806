//! Talking to origins. The clients of HTTP/1.1 and HTTP/2, their pool, their deadlines; who of several is asked. What the answer means is not here.
//!
//! An [`Origin`] is one worker's connections to one address; [`Origin::send`] starts an [`Exchange`], which is one
//! request and its response. A [`Group`] is the origins of a route: its exchanges go from one that fails to another. All of it
//! lives on one thread, inside a `LocalSet`; what workers share of an origin is its [`Standing`].

mod address;
mod balance;
mod body;
mod connection;
mod deadline;
mod dial;
mod error;
mod exchange;
mod group;
mod health;
mod http2;
mod kept;
mod line;
mod pool;
mod request;
mod resting;
mod standing;
mod tls;
mod unsent;
mod way;

pub use address::Address;
pub use balance::{Balance, MOST_ORIGINS, hash};
pub use error::{Blame, OriginError};
pub use exchange::Exchange;
pub use group::{AllEjected, Asked, Group, Paced, Rules};
pub use health::{Changes, Check, Found, watch};
pub use http2::Http2;
pub use line::Wait;
pub use pool::{Changed, Measures, Membership, Onward, Origin, Reserved, Speaks, Told};
pub use request::{Line, Outgoing, is_idempotent};
pub use resting::{Pressed, Rests, others_wait};
pub use standing::{Change, Ejection, Standing, State};
pub use tls::{Tls, TlsSettings};

use std::time::Duration;

/// Deadlines and bounds of one origin, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
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
