//! Deadlines and bounds of one origin.

use std::time::Duration;

/// Deadlines and bounds of one origin, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct OriginLimits {
    /// For connecting, including the wait for a permit of `connections`.
    pub connect: Duration,
    /// For the handshake of TLS, after connecting.
    pub handshake: Duration,
    /// From the request's last byte to the final response head.
    pub first_byte: Duration,
    /// The longest silence within the response, and the longest time without the origin accepting a byte of a request.
    pub between_bytes: Duration,
    /// For the whole exchange; zero is off.
    pub total: Duration,
    /// The longest time for which an unused connection is kept.
    pub idle: Duration,
    /// Bytes of a response head.
    pub head_size: usize,
    /// Requests of this worker that one origin has at a time, and with HTTP/1.1 open connections; zero counts as one.
    pub connections: usize,
    /// The most requests that wait for one of them.
    pub queue: usize,
    /// For how long they wait; `None` is the time for connecting, which they share.
    pub queue_wait: Option<Duration>,
    /// Unused connections of this worker kept for one origin; with HTTP/2 only zero has an effect.
    pub idle_connections: usize,
    /// Interim responses to one request.
    pub interim: usize,
}
