//! The wait for the client of one stream to take output or to send its body: the time limit, and the minimum rate. The
//! same for a whole connection is in `worker::OpenSocket`.

use super::stream::ClientStream;
use super::{StreamReset, StreamsLink};
use crate::client_socket::ClientGone;
use crate::transfer_rate::TransferRate;
use crate::worker::TransferLimits;
use larder_stdx::clock;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// The interval of checks whether the client still has to act: it may lack credit.
const SLICE: Duration = Duration::from_millis(2_500);

/// The awaited action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamSide {
    /// The client sends its request's body.
    Sends,
    /// The client takes output.
    Takes,
}

impl StreamSide {
    /// Bytes transferred so far.
    fn moved(self, stream: &ClientStream) -> u64 {
        match self {
            StreamSide::Sends => stream.body.borrow().received,
            StreamSide::Takes => stream.sent.get(),
        }
    }

    /// Whether the client has to act: not if its other streams have used up the connection's credit, and their bytes are
    /// unread.
    fn is_due(self, connection: &dyn StreamsLink, stream: &ClientStream) -> bool {
        match self {
            StreamSide::Sends => stream.body.borrow().window > 0 && connection.has_credit(),
            StreamSide::Takes => true,
        }
    }

    /// The longest permitted silence.
    fn limit(self, limits: &TransferLimits) -> Duration {
        let limit = match self {
            StreamSide::Sends => limits.body_timeout,
            StreamSide::Takes => limits.write_timeout,
        };
        if limit.is_zero() { Duration::MAX } else { limit }
    }

    fn rate(self, stream: &ClientStream) -> &TransferRate {
        match self {
            StreamSide::Sends => &stream.sends,
            StreamSide::Takes => &stream.takes,
        }
    }
}

/// Waits until `is_done`, as long as the client makes progress. Otherwise it is counted, and its stream reset, or its body refused.
pub(crate) async fn wait(
    connection: &dyn StreamsLink,
    stream: &ClientStream,
    side: StreamSide,
    is_done: impl Fn() -> bool,
) -> Result<(), ClientGone> {
    let is_over = || stream.gone.get().is_some() || is_done();
    let mut silent = Duration::ZERO;
    while !is_over() {
        let worker = connection.worker();
        let limits = stream.limits.get().unwrap_or_else(|| TransferLimits::of(&worker.limits()));
        let limit = side.limit(&limits);
        let (moved, was_due, begun) =
            (side.moved(stream), side.is_due(connection, stream), clock::monotonic().0);
        let slice = limit.saturating_sub(silent).min(SLICE);
        let changed = poll_fn(|context| {
            if is_over() {
                return Poll::Ready(());
            }
            stream.wait(context);
            Poll::Pending
        });
        let _ = tokio::time::timeout(slice, changed).await;
        let now = side.moved(stream);
        let was_waited_for = was_due && side.is_due(connection, stream);
        let passed = if was_waited_for { clock::monotonic().0.saturating_sub(begun) } else { 0 };
        silent = match (now > moved, was_waited_for) {
            (true, _) => Duration::ZERO,
            (false, true) => silent + slice,
            (false, false) => silent,
        };
        let is_slow = side.rate(stream).is_too_slow(passed, now, limits.min_rate);
        if stream.gone.get().is_none() && (is_slow || silent >= limit && !is_done()) {
            match side {
                StreamSide::Sends => worker.counters.client_body_timeouts.add(1),
                StreamSide::Takes => worker.counters.client_write_timeouts.add(1),
            }
            // Before the head of its response, a body that does not arrive can be answered, as over HTTP/1.1.
            match side == StreamSide::Sends && !stream.is_tunnel && !stream.has_answer.get() {
                true => stream.body.borrow_mut().refused = Some(ClientGone::TimedOut),
                false => connection.reset(stream, StreamReset::Cancel, ClientGone::TimedOut),
            }
        }
    }
    stream.gone.get().map_or(Ok(()), Err)
}
