//! Listening addresses: TCP with `SO_REUSEPORT` per worker, or a Unix socket shared by all; and the accept
//! loop, which survives the want of descriptors.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    /// `ADDR:PORT`; port 0 takes a free one.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}
