//! Deadlines and bounds of one origin.

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
