//! The permit for one exchange with an origin: its owner, and when it is given back.

use super::OriginPool;
use crate::codec::Codec;
use crate::error::OriginError;
use crate::protocol::ChannelRequest;
use crate::wait_queue::PermitWait;
use larder_stdx::circuit_breaker::BegunIn;
use larder_stdx::clock;
use std::cell::Cell;
use std::rc::Rc;
use tokio::time::Instant;

/// The side that determines how long a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBuffering {
    /// The origin: the whole request is here.
    Complete,
    /// The client, which has yet to send a part of its request. An eighth of an origin's permits, at least one, are not
    /// for such requests.
    Streamed,
}

/// A permit, the deadline for its connection where known, and whether it was waited for.
pub(crate) type Reservation = (Permit, Cell<Option<Instant>>, PermitWait);

/// A request that counts as load of an origin, from when it waits for a permit.
pub(crate) struct OriginLoad {
    pub(super) origin: Rc<OriginPool>,
    sent: Cell<BegunIn>,
}

impl OriginLoad {
    /// One more for `origin`. Of [`BegunIn::HalfOpen`] there is one: it ends with this.
    pub(crate) fn new(origin: Rc<OriginPool>, sent: BegunIn) -> Self {
        origin.outlier_state.add();
        Self { origin, sent: Cell::new(sent) }
    }

    fn end_probe(&self) {
        if self.sent.replace(BegunIn::Closed) == BegunIn::HalfOpen {
            self.origin.outlier_state.end_probe();
        }
    }
}

impl Drop for OriginLoad {
    fn drop(&mut self) {
        self.end_probe();
        self.origin.outlier_state.remove();
    }
}

/// The permit for one exchange, and for one open connection.
pub(crate) struct Permit {
    load: OriginLoad,
    /// Where the client determines how long it takes.
    _upload: Option<UploadPermit>,
}

/// The right to a request of which a part has yet to arrive.
pub(super) struct UploadPermit(pub(super) Rc<OriginPool>);

impl Drop for UploadPermit {
    fn drop(&mut self) {
        self.0.upload_permits.release();
    }
}

/// How many of `permits` are reserved for complete requests: however many clients send nothing, a plain request
/// gets one.
pub(super) fn reserved_for_complete(permits: usize) -> usize {
    (permits / 8).max(1).min(permits)
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.load.origin.permits.release();
    }
}

impl Permit {
    pub(super) fn new(load: OriginLoad, upload: Option<UploadPermit>) -> Self {
        Self { load, _upload: upload }
    }

    /// Its origin.
    pub(crate) fn origin(&self) -> &Rc<OriginPool> {
        &self.load.origin
    }

    /// A connection for it, or a stream of one.
    pub(crate) async fn connect(
        &self,
        needs: ChannelRequest,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<Codec, OriginError> {
        self.origin().channel(needs, deadline).await.inspect_err(|it| self.failed(it))
    }

    /// The origin answered.
    pub(crate) fn answered(&self) {
        let OriginLoad { origin, sent } = &self.load;
        origin.report_change(origin.outlier_state.answered(sent.get(), clock::monotonic()));
        self.load.end_probe();
    }

    /// It failed. Failures that a request may provoke do not count towards an ejection: an answer that is not HTTP, and a block of
    /// variables that uWSGI does not read.
    pub(crate) fn failed(&self, error: &OriginError) {
        let counts = match error {
            OriginError::Connect(_) | OriginError::ConnectTimeout | OriginError::Tls(_) => true,
            OriginError::Disconnected | OriginError::Timeout(_) | OriginError::Status(_) => true,
            OriginError::ApplicationFailed(_) => true,
            OriginError::NoDescriptor
            | OriginError::Busy
            | OriginError::Ejected
            | OriginError::Drained
            | OriginError::Refused
            | OriginError::NotHttp2
            | OriginError::Unrepresentable
            | OriginError::LocalFailure(..)
            | OriginError::VariablesTooLarge
            | OriginError::BlockUnanswered(_)
            | OriginError::ProgramEnded(_)
            | OriginError::BadHead(_)
            | OriginError::BadBody
            | OriginError::BadRecord(_)
            | OriginError::InterimFlood => false,
        };
        if counts {
            let OriginLoad { origin, sent } = &self.load;
            let change = origin.outlier_state.failed(sent.get(), &origin.ejection, clock::monotonic());
            if change.is_some() || origin.outlier_state.is_failing() {
                origin.outlier_state.set_down_reason(error.sentence().into_owned());
            }
            origin.report_change(change);
            self.load.end_probe();
        }
    }
}
