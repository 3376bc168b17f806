//! Limits of one request, set by its route: they replace those of the worker for the transfer of its body and its response.

use super::{OpenSocket, Times, TransportWorker};
use crate::worker::ClientLimits;
use std::time::Duration;

/// The limits of the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of a request body; at most [`ClientLimits::body_size`].
    pub body_size: u64,
    /// The limits of the transfer; `None` for those of the worker.
    pub transfer: Option<TransferLimits>,
}

/// The limits of the transfer of one request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferLimits {
    /// As [`ClientLimits::body_timeout`].
    pub body_timeout: Duration,
    /// As [`ClientLimits::write_timeout`].
    pub write_timeout: Duration,
    /// As [`ClientLimits::min_rate`].
    pub min_rate: u64,
}

impl TransferLimits {
    /// Those of a worker.
    pub(crate) fn of(limits: &ClientLimits) -> Self {
        let ClientLimits { body_timeout, write_timeout, min_rate, .. } = *limits;
        Self { body_timeout, write_timeout, min_rate }
    }

    /// The more permissive value of each. A timeout and a rate of 0 are off.
    pub(crate) fn or_longer(self, other: Self) -> Self {
        let longer = |one: Duration, other: Duration| match one.is_zero() || other.is_zero() {
            true => Duration::ZERO,
            false => one.max(other),
        };
        Self {
            body_timeout: longer(self.body_timeout, other.body_timeout),
            write_timeout: longer(self.write_timeout, other.write_timeout),
            min_rate: self.min_rate.min(other.min_rate),
        }
    }
}

impl TransportWorker {
    /// The time limits of a connection, with those of its request.
    pub(crate) fn times_of(&self, watched: &OpenSocket) -> Times {
        let times = self.times();
        watched.own_limits().map_or(times, |own| times.with(&own))
    }
}

impl Times {
    fn with(self, own: &TransferLimits) -> Self {
        Self { body: Self::millis(own.body_timeout), write: Self::millis(own.write_timeout), ..self }
    }
}

impl OpenSocket {
    /// The limits of the current request; `None` for those of the worker.
    pub fn own_limits(&self) -> Option<TransferLimits> {
        let own = self.transfer_limits.take();
        let limits = own.as_deref().copied();
        self.transfer_limits.set(own);
        limits
    }

    /// Sets the limits of the current request.
    pub fn limit(&self, own: Option<TransferLimits>) {
        self.transfer_limits.set(own.map(Box::new));
    }

    /// The minimum rate of the current request, where that of the worker is `of_worker`.
    pub(super) fn min_rate(&self, of_worker: u64) -> u64 {
        self.own_limits().map_or(of_worker, |it| it.min_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_several_requests_has_the_longest_limits() {
        let limits = |body, write, min_rate| TransferLimits {
            body_timeout: Duration::from_secs(body),
            write_timeout: Duration::from_secs(write),
            min_rate,
        };
        assert_eq!(limits(9, 8, 1), limits(9, 2, 1).or_longer(limits(3, 8, 5)));
        assert_eq!(limits(0, 0, 0), limits(9, 0, 0).or_longer(limits(0, 8, 5)), "0 is off");
    }
}
