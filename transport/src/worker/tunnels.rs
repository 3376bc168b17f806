//! Streams of HTTP/2 that go on in another protocol, among the connections that a worker may have. What they carry is not here.

use super::{SHED, Worker};
use std::rc::Rc;

/// A place that is taken: see [`Worker::admit_tunnel`].
pub(crate) struct TunnelPlace(Rc<Worker>);

impl Worker {
    /// Whether there is a place among the connections, or will be in a moment: clients that rest make room, as for one who
    /// connects.
    pub(crate) fn makes_room(&self) -> bool {
        let makes_room = !self.is_full() || self.shed(SHED) > 0;
        self.counters.connections_refused.add(u64::from(!makes_room));
        makes_room
    }

    /// A place among the connections for a stream that asks for what takes a connection over HTTP/1.1; `None` where all are taken
    /// still, although some had to make room.
    pub(crate) async fn admit_tunnel(self: &Rc<Self>) -> Option<TunnelPlace> {
        loop {
            if self.is_full() {
                tokio::task::yield_now().await; // Those that make room are gone after a turn of the loop.
            }
            if !self.is_full() {
                self.tunnels.set(self.tunnels.get() + 1);
                return Some(TunnelPlace(self.clone()));
            }
            if !self.makes_room() {
                return None;
            }
        }
    }
}

impl Drop for TunnelPlace {
    fn drop(&mut self) {
        self.0.tunnels.set(self.0.tunnels.get() - 1);
    }
}
