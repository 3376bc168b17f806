//! The numbers of purges: those of this node, and places in the log of a server.

/// The number of a purge on this node; each is one more than the one before.
pub type Seq = u64;

/// A place in one server's purge log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The log's random name: a server that lost its log has another.
    pub log: u64,
    /// The last entry.
    pub entry: u64,
}

impl Position {
    /// A position that is never reached: that of a purge whose position is not known yet.
    pub const NOWHERE: Position = Position { log: 0, entry: u64::MAX };

    /// The position of a node that follows no log yet. Logs have names above zero.
    pub const NOTHING: Position = Position { log: 0, entry: 0 };
}
