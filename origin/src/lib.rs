//! Talking to origins. The HTTP/1.1 client, its pool, its deadlines. What the answer means is not here.
//!
//! An [`Origin`] is one worker's connections to one address; [`Origin::send`] starts an [`Exchange`], which is one
//! request and its response. All of it lives on one thread, inside a `LocalSet`.

mod address;
mod body;
mod connection;
mod deadline;
mod dial;
mod error;
mod exchange;
mod line;
mod pool;
mod request;
mod unsent;

pub use address::Address;
pub use error::{Blame, OriginError};
pub use exchange::Exchange;
pub use line::Wait;
pub use pool::{Measures, Onward, Origin, Reserved, Told};
pub use request::{Line, Outgoing};

use std::time::Duration;

/// Deadlines and bounds of one origin, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until a connection stands, the wait for a free place among `connections` included.
    pub connect: Duration,
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
    /// Open connections of this worker to one origin; zero counts as one.
    pub connections: usize,
    /// Unused connections of this worker kept to one origin.
    pub idle_connections: usize,
    /// Interim responses to one request.
    pub interim: usize,
}
