//! What the connections of one worker thread share: limits, counters, scratch buffers, the sweep of
//! deadlines, and the word that the worker is draining. One per thread, never shared between threads.

use larder_counters::Counters;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bounds of client connections, from the configuration; replaced as a whole on reload.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request head.
    pub head_size: usize,
    /// Bytes of a request target.
    pub target_size: usize,
    /// Bytes of a request body.
    pub body_size: u64,
    /// Time for a whole head, from its first byte (or from accept).
    pub head_timeout: Duration,
    /// Longest silence within a request body.
    pub body_timeout: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Longest time in which a client takes no byte of its response.
    pub write_timeout: Duration,
    /// Least bytes per second of head, body and response over any ten seconds; 0 is off.
    pub min_rate: u64,
    /// Open client connections of this worker.
    pub connections: usize,
}

/// The state of one worker.
pub struct Worker {
    /// Its counters; only this worker writes.
    pub counters: Arc<Counters>,
    /// The limits in force.
    pub limits: RefCell<Rc<Limits>>,
    /// Set once the worker is to finish what it has and take nothing new.
    pub draining: Cell<bool>,
}
