//! The amount of a response body that a client takes, for every protocol.

/// The amount of a body that a client can receive, if the rest is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDemand {
    /// Bytes that can be sent now. More would wait in memory.
    pub now: u64,
    /// Bytes of the rest that may be fetched meanwhile: fewer for clients with more simultaneous requests.
    pub ahead: u64,
}

impl ClientDemand {
    /// For a client with one response at a time, whose body waits at its source.
    pub const ALL: ClientDemand = ClientDemand { now: u64::MAX, ahead: u64::MAX };
}
