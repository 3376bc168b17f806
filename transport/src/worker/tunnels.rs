//! Streams of HTTP/2 that go on in another protocol, among the connections that a worker may have. What they carry is not here.

use super::Worker;
use std::rc::Rc;

/// See [`Worker::admit_tunnel`].
pub(crate) struct TunnelPlace(Rc<Worker>);

impl Worker {
    /// A place among the connections for a stream that asks for what takes a connection over HTTP/1.1; `None` where the limit is
    /// reached.
    pub(crate) fn admit_tunnel(self: &Rc<Self>) -> Option<TunnelPlace> {
        if self.is_full() {
            self.counters.connections_refused.add(1);
            return None;
        }
        self.tunnels.set(self.tunnels.get() + 1);
        Some(TunnelPlace(self.clone()))
    }
}

impl Drop for TunnelPlace {
    fn drop(&mut self) {
        self.0.tunnels.set(self.0.tunnels.get() - 1);
    }
}
