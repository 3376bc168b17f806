//! The permission to purge by a request with the method `PURGE`: the settings `cache.purge`, already checked.

use larder_semantics::network::Network;

/// The permission to purge with the `PURGE` method: `cache.purge`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeAccess {
    /// The treatment of the method on this route.
    pub method: PurgeMethod,
    /// Clients that may use it.
    pub from: Vec<Network>,
    /// The path below which a GET purges the page of the rest of its path, without a slash at its end.
    pub path: Option<String>,
}

/// The treatment of `PURGE` on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeMethod {
    /// An unknown method like any other: forwarded to the origin.
    #[default]
    Unknown,
    /// Rejected with 405; never forwarded.
    Refused,
    /// Purges, for permitted clients.
    Allowed,
}
