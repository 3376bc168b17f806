//! Closing of idle clients while descriptors are scarce, or all connections are taken: the longest silent first. The
//! condition is in `listener` and `larder_stdx::descriptors`.

use super::{Expired, OpenSocket, ReadPhase, Times, TransportWorker};
use larder_stdx::{clock, descriptors};
use rustix::net::Shutdown;
use std::os::fd::AsRawFd;

/// The time for which a client must have been idle to be closed for lack of descriptors, milliseconds.
const LEAST_IDLE: u64 = 1_000;
/// The same, if no byte has arrived since the client connected: a request arrives along with its connection, or right
/// behind it.
const LEAST_SILENCE: u64 = 250;
/// Idle connections that are closed at a time, to make room for waiting ones.
pub(crate) const MOST_CLOSED: usize = 16;

impl TransportWorker {
    /// Whether another connection would take a descriptor that is needed elsewhere.
    pub(crate) fn lacks_descriptors(&self) -> bool {
        self.reserves_descriptors.get() && !descriptors::suffice_for_another()
    }

    /// Closes up to `count` connections that have waited for their first or next request for a time; and if there are
    /// fewer, those whose head has been arriving for that time; of each the longest silent first. Called when descriptors
    /// or connections run out; returns the number closed. Active connections are never closed.
    pub(crate) fn close_idle(&self, count: usize) -> usize {
        let closed = self.close_idle_at(clock::monotonic().0, count);
        let quic: Vec<_> = self.quic.connections.borrow().iter().filter_map(std::rc::Weak::upgrade).collect();
        quic.iter().fold(closed, |closed, it| closed + it.close_idle(count - closed.min(count)))
    }

    fn close_idle_at(&self, now: u64, count: usize) -> usize {
        let times = self.times.get();
        let watched = self.sockets.borrow();
        let resting = watched.iter().flatten().filter_map(|it| Some((it.idle_since(now, &times)?, it)));
        let mut resting: Vec<_> = resting.collect();
        resting.sort_by_key(|(since, it)| (it.reading.get() == ReadPhase::Head, *since));
        resting.truncate(count);
        for (_, it) in &resting {
            it.expired.set(Expired::Reading(it.reading.get()));
            self.counters.connections_shed.add(1);
            it.shutdown(Shutdown::Read);
        }
        resting.len()
    }
}

impl OpenSocket {
    /// The start of its silence, if it may be closed for that by now.
    fn idle_since(&self, now: u64, times: &Times) -> Option<u64> {
        let (limit, grace) = match self.reading.get() {
            ReadPhase::First => (times.head, LEAST_SILENCE),
            ReadPhase::Head => (times.head, LEAST_IDLE),
            ReadPhase::Idle => (times.idle, LEAST_IDLE),
            _ => return None,
        };
        let since = self.read_by.get().saturating_sub(limit);
        // It may have been silent because it waited in the accept queue itself. Part of a head that waited is given its
        // time when there is room again: the lack is recorded for a time.
        let may_have_waited = match self.reading.get() {
            ReadPhase::First => true,
            ReadPhase::Head => !descriptors::suffice_for_another(),
            _ => false,
        };
        let long = since + grace <= now || may_have_waited && self.silence().is_some_and(|it| it >= grace);
        (self.expired.get() == Expired::No && long).then_some(since)
    }

    /// The time since the last byte of a client, or since it connected, milliseconds; `None` with unread bytes, and
    /// without TCP.
    fn silence(&self) -> Option<u64> {
        // It may have waited with its request, which is not read yet.
        if rustix::io::ioctl_fionread(&self.socket) != Ok(0) {
            return None;
        }
        // SAFETY: all zeros is a valid value of it, which has only numbers.
        let mut about: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = libc::socklen_t::try_from(size_of_val(&about)).ok()?;
        let fd = self.socket.as_raw_fd();
        // SAFETY: the kernel writes at most `length` bytes, the size of `about`; both live through the call.
        let done = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut about).cast(), &raw mut length)
        };
        (done == 0).then_some(u64::from(about.tcpi_last_data_recv))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::worker::ClientLimits;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::time::Duration;

    /// An hour for everything, and this number of connections.
    pub fn hours(connections: usize) -> ClientLimits {
        let long = Duration::from_secs(3600);
        ClientLimits {
            head_size: 4096,
            target_size: 4096,
            body_size: 4096,
            head_timeout: long,
            body_timeout: long,
            idle_timeout: long,
            write_timeout: long,
            min_rate: 0,
            connections,
            http2_streams: 128,
            upgrades: false,
        }
    }

    /// Each has been silent for this number of milliseconds.
    #[test]
    fn the_longest_silent_makes_room_first() {
        let check = |count: usize, ages: &[(ReadPhase, u64)], expect: &[usize]| {
            let worker = TransportWorker::new(Arc::default(), hours(10));
            let now = clock::monotonic().0 + 10_000;
            let admitted = ages.iter().map(|(reading, age)| {
                let it = worker.admit(UnixStream::pair().unwrap().0.into(), worker.acquire_permit().unwrap());
                it.reading.set(*reading);
                it.read_by.set((now + 3_600_000).saturating_sub(*age));
                it
            });
            let admitted: Vec<_> = admitted.collect();
            assert_eq!(expect.len(), worker.close_idle_at(now, count));
            let gone = |it: &usize| admitted[*it].expired() != Expired::No;
            assert_eq!(expect, (0..ages.len()).filter(gone).collect::<Vec<_>>());
        };
        use ReadPhase::{Body, First, Head, Idle};
        let all =
            [(First, 0), (First, 300), (Head, 5000), (First, 700), (Idle, 2000), (Idle, 700), (Body, 9000)];
        check(2, &all, &[3, 4]);
        check(3, &all, &[1, 3, 4]);
        check(9, &all, &[1, 2, 3, 4]);
    }
}
