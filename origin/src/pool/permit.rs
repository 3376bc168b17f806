//! The right to one exchange with an origin: who has it, and when it is given back.

use super::OriginPool;
use crate::codec::Codec;
use crate::error::OriginError;
use crate::outlier_state::SentIn;
use crate::protocol::ChannelNeeds;
use crate::wait_queue::PermitWait;
use larder_stdx::clock;
use std::cell::Cell;
use std::rc::Rc;
use tokio::time::Instant;

/// Who says how long a request takes that an origin has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paced {
    /// The origin: all of the request is here.
    ByOrigin,
    /// The client, of whose request some is to come yet. An eighth of an origin's places, one at least, are not for such.
    ByClient,
}

/// A permit, until when a connection for it is to be there where that is known, and whether it was waited for.
pub(crate) type Reservation = (Permit, Cell<Option<Instant>>, PermitWait);

/// A request that an origin has to do with, from when it waits for a place.
pub(crate) struct OriginLoad {
    pub(super) origin: Rc<OriginPool>,
    sent: Cell<SentIn>,
}

impl OriginLoad {
    /// One more for `origin`. Of [`SentIn::Trying`] there is one: it ends with this.
    pub(crate) fn new(origin: Rc<OriginPool>, sent: SentIn) -> Self {
        origin.standing.add();
        Self { origin, sent: Cell::new(sent) }
    }

    fn end_trying(&self) {
        if self.sent.replace(SentIn::Up) == SentIn::Trying {
            self.origin.standing.end_trying();
        }
    }
}

impl Drop for OriginLoad {
    fn drop(&mut self) {
        self.end_trying();
        self.origin.standing.remove();
    }
}

/// The right to one exchange, and to one open connection for it.
pub(crate) struct Permit {
    load: OriginLoad,
    /// Where a client says how long it takes.
    _upload: Option<UploadPermit>,
}

/// The right to a request of which some is to come yet.
pub(super) struct UploadPermit(pub(super) Rc<OriginPool>);

impl Drop for UploadPermit {
    fn drop(&mut self) {
        self.0.uploads.give_back();
    }
}

/// How many of so many places are kept for requests that are here as a whole: however many clients send nothing, who only asks has one.
pub(super) fn whole(places: usize) -> usize {
    (places / 8).max(1).min(places)
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.load.origin.places.give_back();
    }
}

impl Permit {
    pub(super) fn new(load: OriginLoad, upload: Option<UploadPermit>) -> Self {
        Self { load, _upload: upload }
    }

    /// The origin it belongs to.
    pub(crate) fn origin(&self) -> &Rc<OriginPool> {
        &self.load.origin
    }

    /// A connection for it, or a stream of one.
    pub(crate) async fn connect(
        &self,
        needs: ChannelNeeds,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<Codec, OriginError> {
        self.origin().channel(needs, deadline).await.inspect_err(|it| self.failed(it))
    }

    /// The origin answered.
    pub(crate) fn answered(&self) {
        let OriginLoad { origin, sent } = &self.load;
        origin.became(origin.standing.answered(sent.get(), clock::monotonic()));
        self.load.end_trying();
    }

    /// It did not. What a request may provoke by itself, an answer that is no HTTP, is nobody's reason to leave it alone.
    pub(crate) fn failed(&self, error: &OriginError) {
        let counts = match error {
            OriginError::Connect(_) | OriginError::ConnectTimeout | OriginError::Tls(_) => true,
            OriginError::Disconnected | OriginError::Timeout | OriginError::Status(_) => true,
            OriginError::NoDescriptor
            | OriginError::Busy
            | OriginError::Ejected
            | OriginError::Drained
            | OriginError::Refused
            | OriginError::NotHttp2
            | OriginError::Unsayable
            | OriginError::BadHead(_)
            | OriginError::BadBody
            | OriginError::InterimFlood => false,
        };
        if counts {
            let OriginLoad { origin, sent } = &self.load;
            origin.became(origin.standing.failed(sent.get(), &origin.ejection, clock::monotonic()));
            self.load.end_trying();
        }
    }
}
